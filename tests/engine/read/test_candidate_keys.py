"""Filters on values while versions are merged: with the keys that indexes name, and with all keys, the same rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, from_arrow_schema, parse_type
from paimon_pyds.engine.read import candidate_keys
from paimon_pyds.engine.read.live_rows import FileTrace, SectionTrace
from paimon_pyds.errors import SnapshotNotFoundError
from support.effort import LONG, sampled
from support.fixtures import requires_shared, table_path
from support.key_engines import ENGINES, SCHEMA, random_rows
from support.values import lines

_OFF = {"file-index.read.enabled": "false"}
_NOT_USED = "indexes are not used"
_EXTRA = {
    "n": ("STRING", lambda k: f"n{k % 3}"),
    "f": ("DOUBLE", lambda k: [0.0, -0.0, float("nan"), 1.5][k % 4]),
    "h": ("CHAR(4)", lambda k: f"h{k % 7}"),
    "q": ("DECIMAL(20, 2)", lambda k: Decimal(k % 5)),
    "e": ("DATE", lambda k: date(2020, 1, 1 + k % 6)),
}
"""Columns that keys are made of, beside ``k``."""
_KEYS = [("k",), ("n", "k"), ("k", "f"), ("f", "h", "q"), ("e", "k"), ("n",), ("q", "e", "h")]
_LEAVES = [
    "a = 3", "a IN (1, 7)", "a < 2", "a <> 4", "a IS NULL", "b > 6", "b = 5", "b IS NOT NULL", "c = 'x'", "c LIKE 'y%'",
    "NOT c IN ('x', 'z')", "length(c) = 1", "d BETWEEN 2 AND 3", "s = 0", "s IS NULL", "t = 'q'", "u > 0.5", "u = 0",
    "k < 20", "k IN (3, 4, 5)", "a = 2 AND b = 3", "a = b", "coalesce(a, 1) = 1",
]  # fmt: skip
_INDEXES = {
    "file-index.bitmap.columns": "a,t", "file-index.bsi.columns": "b", "file-index.bloom-filter.columns": "c",
    "file-index.range-bitmap.columns": "d,s", "file-index.bloom-filter.c.items": "20",
}  # fmt: skip


@contextmanager
def _searching() -> Iterator[None]:
    """Keys are searched however many of the rows may be wanted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate_keys, "SEARCH_COST", 0.0)
        patch.setattr(candidate_keys, "CANDIDATE_COST", 0.0)
        patch.setattr(candidate_keys, "SEARCH_START_ROWS", 0)
        patch.setattr(candidate_keys, "FEW_ROWS_PER_KEY", 0)
        yield


def _filter(random: Random, depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.4:
        return random.choice(_LEAVES)
    word = random.choice([" AND ", " OR "])
    text = word.join(f"({_filter(random, depth - 1)})" for _ in range(random.randint(2, 3)))
    return f"NOT ({text})" if random.random() < 0.2 else text


def _created(random: Random, path: Path, engine: Mapping[str, str]) -> pp.Table:
    key, partitions = random.choice(_KEYS), random.choice([(), (), ("p",)])
    types = {"k": "INT", "p": "STRING", **{name: type_ for name, (type_, _) in _EXTRA.items()}}
    columns = [f for f in from_arrow_schema(SCHEMA) if f.name != "k"]
    for id_, (name, type_) in enumerate(types.items(), 20):
        required = " NOT NULL" if name in (*partitions, *key) else ""
        columns.append(DataField(id_, name, parse_type(type_ + required)))
    options = {
        **engine, **_INDEXES, "bucket": "1", "write-only": "true",
        "file-index.in-manifest-threshold": random.choice(["1 b", "1 mb"]),
        "file.format": random.choice(["parquet", "parquet", "orc", "avro"]), "parquet.page.row.count.limit": "4",
    }  # fmt: skip
    return pp.Table.create(path, columns, (*partitions, *key), partitions, options)


def _written(random: Random, table: pp.Table) -> None:
    rows = random_rows(random)[: random.choice([1, 20, 90])]
    schema = arrow_schema([f for f in table.schema.fields if f.name in _EXTRA or f.name in ("k", "p", *SCHEMA.names)])
    for row in rows:
        row.update({name: value(row["k"]) for name, (_, value) in _EXTRA.items()})
        row.update(p=random.choice("ab"), u=None if row["u"] is None else float(row["u"]))
    kinds = pa.array([row["_kind"] for row in rows])
    columns = [_column([row[f.name] for row in rows], f.type) for f in schema]
    data = pa.Table.from_arrays(columns, schema=schema).append_column("op", kinds)
    table.append(data, options={"rowkind-column": "op", "missing-columns": "null"})


def _column(values: list[Any], type_: pa.DataType) -> pa.Array:
    texts = pa.types.is_string(type_)
    return pa.array([str(v) if texts and v is not None else v for v in values], type_)


def _traces(table: pp.Table, filter_: str, options: Mapping[str, str] | None = None) -> list[FileTrace]:
    found: list[FileTrace] = []
    for _ in table.scan(filter_, options=options).to_batches(on_file=found.append):
        pass
    return found


def _sections(traces: list[FileTrace]) -> list[SectionTrace]:
    return list({id(t.section): t.section for t in traces if t.section is not None}.values())


def _same_rows(table: pp.Table, filter_: str, columns: list[str] | None = None) -> None:
    note(filter_)
    with_index = table.scan(filter_, columns).to_arrow()
    assert lines(with_index) == lines(table.scan(filter_, columns, options=_OFF).to_arrow())


@pytest.mark.filterwarnings("ignore:the bsi index")
@settings(max_examples=400 if LONG else 4, deadline=None)
@given(seed=st.integers(0, 2**32), engine=st.sampled_from(sorted(ENGINES)))
def test_random_tables_and_filters(seed: int, engine: str) -> None:
    random = Random(seed)
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=shared) as directory, _searching():
        table = _created(random, Path(directory, "t"), ENGINES[engine])
        note(f"{table.schema.primary_keys} {dict(table.options)}")
        for number in range(random.randint(2, 4)):
            if number == 1 and random.random() < 0.4:
                _alter(table, engine)
            _written(random, table)
        for _ in range(6):
            _same_rows(table, _filter(random), random.choice([None, ["c"], ["p", "k"], []]))


def _alter(table: pp.Table, engine: str) -> None:
    """What changes types and adds columns; columns that options name keep their names."""
    table.alter(add_columns={"z": "INT"})
    if not any(value and "b" in key for key, value in ENGINES[engine].items()):
        table.alter(change_types={"a": "BIGINT", "d": "STRING"})


@requires_shared
@pytest.mark.parametrize("name", sampled([
    "pk_index", "pk_dedup_levels", "pk_dedup_mor", "pk_dv32_bitmap_index", "pk_first_row", "pk_ignore_delete",
    "pk_sequence_field", "pk_partial_update", "pk_partial_update_seqgroup", "pk_partitioned", "pk_string_keys",
    "pk_thin_mode", "pk_all_types_key", "evolve_pk", "pk_aggregation",
], 2))  # fmt: skip
def test_tables_of_java(name: str) -> None:
    """Of each column, filters on values that rows of the table have."""
    table = pp.Table.open(table_path(name))
    with _searching():
        searched = sum(_searched(table, snapshot.id) for snapshot in table.snapshots.list())
    assert searched or name in ("pk_aggregation", "pk_first_row", "pk_dv32_bitmap_index", "pk_partitioned")


def _searched(table: pp.Table, snapshot: int) -> int:
    """How many sections were searched."""
    searched = 0
    rows = table.scan(snapshot=snapshot).to_arrow()
    for field in table.schema.fields:
        if field.name not in rows.column_names or field.name in table.primary_key:
            continue
        column = rows.column(field.name)
        if not pa.types.is_integer(column.type) and not pa.types.is_string(column.type):
            continue
        values = [v for v in column.unique().drop_null().to_pylist() if isinstance(v, int) or v.isalnum()]
        for value in values[: 3 if LONG else 1]:
            text = f"`{field.name}` = " + (str(value) if isinstance(value, int) else f"'{value}'")
            found, traces = table.scan(text, snapshot=snapshot), list[FileTrace]()
            batches = found.to_batches(on_file=traces.append)
            found_rows = pa.Table.from_batches(batches, found.arrow_schema)
            assert lines(found_rows) == lines(rows.filter(pc.equal(column, value)))
            searched += sum(section.candidates is not None for section in _sections(traces))
    return searched


@pytest.fixture
def two_runs(tmp_path: Path) -> pp.Table:
    """30,000 keys in two runs: v is 0 for keys from 100 to 109 in the older one, for 105 to 114 in the newer one."""
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int32()), ("w", pa.string())])
    options = {"bucket": "1", "write-only": "true", "file-index.bitmap.columns": "v"}
    options |= {"parquet.page.row.count.limit": "1000", "parquet.page.size": "4096"}
    table = pp.Table.create(tmp_path / "t", schema, ["k"], options=options)
    for run in range(2):
        keys = range(30_000)
        v = [0 if 100 + 5 * run <= k < 110 + 5 * run else 1 + k % 5 for k in keys]
        table.append(pa.table({"k": keys, "v": v, "w": [f"{run} {k}" for k in keys]}, schema))
    return table


def test_few_versions_are_read(two_runs: pp.Table) -> None:
    found, everything = _traces(two_runs, "v = 0"), _traces(two_runs, "v = 0", _OFF)
    assert _sections(found) == [SectionTrace(60_000, 20, 15, 30, 10)]
    assert [trace.rows_after_index for trace in found] == [10, 10]
    assert [trace.rows_returned for trace in found] == [15, 15]
    assert _sections(everything) == [SectionTrace(60_000, versions=60_000, rows_returned=10, reason=_NOT_USED)]
    few, all_ = (sum(trace.counters.rows_decoded for trace in traces) for traces in (found, everything))
    assert few < all_
    rows = two_runs.scan("v = 0").to_arrow()
    assert rows.column("w").to_pylist() == [f"1 {k}" for k in range(105, 115)]


def test_scattered_rows_are_searched_and_explained(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int32())])
    options = {"bucket": "1", "write-only": "true", "file-index.bitmap.columns": "v"}
    table = pp.Table.create(tmp_path / "t", schema, ["k"], options=options)
    for run in range(3):
        keys = np.arange(run, 90_000, 3 - run)
        table.append(pa.table({"k": keys, "v": (keys * 7_919 + run) % 2_999}, schema))
    (section,) = _sections(_traces(table, "v = 5"))
    assert section.candidates and section.candidates > section.rows_returned
    assert section.versions < 3 * section.candidates
    assert lines(table.scan("v = 5").to_arrow()) == lines(table.scan("v = 5", options=_OFF).to_arrow())
    text = f"indexes leave {section.candidates} rows that may make it true"
    assert f"{text}: only versions of their keys are merged" in str(table.explain("v = 5"))
    fetched = f"{section.versions} of {section.rows:,} versions fetched, {section.rows_returned} rows left"
    assert f"{text}, {section.candidate_keys} candidate keys: {fetched}" in str(table.explain("v = 5", analyze=True))
    assert "all versions are merged: too many rows" in str(table.explain("v < 900"))


def test_everything_is_merged_where_many_rows_are_wanted(two_runs: pp.Table) -> None:
    (section,) = _sections(_traces(two_runs, "v = 1"))
    assert section.candidate_keys is None
    assert section.reason == "too many rows may make the filter true"
    assert section.rows_returned == two_runs.scan("v = 1").to_arrow().num_rows == 5_998


def test_no_key_is_wanted(two_runs: pp.Table) -> None:
    assert _sections(_traces(two_runs, "v = 9")) == []
    assert _sections(_traces(two_runs, "v = 0 AND w = '0 50'")) == [SectionTrace(60_000, 10, 0)]


def test_a_file_that_is_gone(two_runs: pp.Table) -> None:
    scan = two_runs.scan("v = 0")
    Path(scan.plan().paths[0]).unlink()
    with pytest.raises(SnapshotNotFoundError):
        scan.to_arrow()
