"""Lookups give what a scan gives for the same keys, of tables that Java wrote."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_pyds import Table
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.engine.query import lookup
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.metadata.planned_file import PlannedFile
from support.effort import sampled
from support.fixtures import DEV, keyed_fixtures, table_path
from support.values import dumps, json_rows

pytestmark = [
    pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon"),
    pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning"),
]


def lines(rows: pa.Table) -> list[str]:
    """A text for each row, in their order."""
    return [dumps(row) for row in json_rows(rows)]


def _keys_of(table: Table, rows: pa.Table, rng: random.Random, n: int) -> pa.Table:
    """Keys of rows that are there, in no order, of which a few were deleted or never there: those of older states."""
    older = [table.scan(columns=table.primary_key, snapshot=s.id).to_arrow() for s in table.snapshots.list()[:-1]]
    everything = pa.concat_tables([rows.select(table.primary_key), *older])
    chosen = [rng.randrange(everything.num_rows) for _ in range(n)] if everything.num_rows else []
    return everything.take(pa.array(chosen, pa.int64()))


def _expected(keys: pa.Table, rows: pa.Table) -> list[str]:
    """The rows of the keys in their order; Java wrote some keys to several dynamic buckets."""
    by_key: dict[str, list[str]] = {}
    for key, row in zip(lines(rows.select(keys.column_names)), lines(rows), strict=True):
        by_key.setdefault(key, []).append(row)
    return [row for key in dict.fromkeys(lines(keys)) for row in by_key.get(key, [])]


@pytest.mark.parametrize("name", sampled(keyed_fixtures(), 5))
def test_rows_are_those_of_a_scan(name: str) -> None:
    table = Table.open(table_path(name))
    rows = table.scan().to_arrow()
    rng = random.Random(name)
    for n in (1, 7, 200):
        keys = _keys_of(table, rows, rng, n)
        found = table.lookup(keys)
        assert found.schema.equals(rows.schema)
        assert lines(found) == _expected(keys, rows)
    values = [f.name for f in table.schema.fields if f.name not in table.primary_key][:2]
    assert lines(table.lookup(keys, values)) == lines(found.select(values))


@pytest.mark.parametrize("name", ["pk_dedup_mor", "pk_partitioned", "pk_all_types_key", "pk_bucket_key_subset"])
def test_many_keys_are_looked_up_in_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "KEYS_AT_ONCE", 5)
    table = Table.open(table_path(name))
    rows = table.scan().to_arrow()
    keys = _keys_of(table, rows, random.Random(1), 30)
    assert lines(table.lookup(keys)) == _expected(keys, rows)


@pytest.mark.parametrize("name", sampled(["pk_dedup_mor", "pk_dv32", "pk_sequence_field", "pk_changelog_input"], 2))
def test_older_states(name: str) -> None:
    table = Table.open(table_path(name))
    rng = random.Random(2)
    for snapshot in table.snapshots.list():
        rows = table.scan(snapshot=snapshot.id).to_arrow()
        keys = _keys_of(table, table.scan().to_arrow(), rng, 20)
        assert lines(table.lookup(keys, snapshot=snapshot.id)) == _expected(keys, rows)


def test_a_filter_is_about_current_rows() -> None:
    table = Table.open(table_path("pk_dedup_mor"))
    keys = table.scan(columns=["id"]).to_arrow()
    rows = table.scan("v > 3").to_arrow()
    assert Counter(lines(table.lookup(keys, filter="v > 3"))) == Counter(lines(rows))
    assert rows.num_rows < keys.num_rows


class _Asked:
    """Notes which sections are read, and how many keys each is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sections: list[Sequence[PlannedFile]] = []
        self.keys: list[int] = []
        read = lookup._rows_of

        def noted(spec: Any, files: Any, keys: Any) -> Any:
            self.sections.append(files)
            self.keys.append(keys.rows.num_rows)
            return read(spec, files, keys)

        monkeypatch.setattr(lookup, "_rows_of", noted)

    def clear(self) -> None:
        self.sections.clear()
        self.keys.clear()


@pytest.mark.parametrize("name", ["pk_dedup_mor", "pk_partitioned", "pk_dv32_part"])
def test_only_the_bucket_of_a_key_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table.open(table_path(name))
    asked = _Asked(monkeypatch)
    rows = table.scan(columns=[*table.primary_key, "__paimon_bucket"]).to_arrow()
    keys = rows.select(table.primary_key)
    for row in range(0, keys.num_rows, 29):
        asked.clear()
        assert table.lookup(keys.slice(row, 1)).num_rows == 1
        files = [file for section in asked.sections for file in section]
        assert {file.bucket for file in files} == {rows.column("__paimon_bucket")[row].as_py()}
        assert len({file.partition for file in files}) == 1
    asked.clear()
    assert table.lookup(keys).num_rows == sum(asked.keys) == keys.num_rows


def test_sections_are_asked_for_keys_in_their_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table of dynamic buckets keys don't tell which bucket they are in."""
    table = Table.open(table_path("pk_dynamic_bucket_part"))
    asked = _Asked(monkeypatch)
    keys = table.scan(columns=table.primary_key, snapshot=1).to_arrow()
    assert table.lookup(keys, snapshot=1).num_rows == keys.num_rows
    assert len(asked.keys) > 2
    assert max(asked.keys) < keys.num_rows


@pytest.mark.parametrize("names", [("c",), ("c", "n"), ("n", "c")])
def test_blanks_at_the_end_of_char_keys_do_not_count(names: tuple[str, ...], tmp_path: Path) -> None:
    text, number = AtomicType(Kind.CHAR, length=4, nullable=False), AtomicType(Kind.INT, nullable=False)
    fields = (DataField(0, "c", text), DataField(1, "n", number))
    table = Table.create(tmp_path / "t", fields, primary_key=names, options={"bucket": "3"})
    table.append(pa.table({"c": ["ab", "cd  ", "ef"], "n": pa.array([1, 2, 3], pa.int32())}))
    keys = pa.table({"c": ["cd", "ab ", "gh"], "n": pa.array([2, 1, 3], pa.int32())}).select(names)
    found = table.lookup(keys)
    assert [value.rstrip() for value in found.column("c").to_pylist()] == ["cd", "ab"]


def test_what_is_refused() -> None:
    table = Table.open(table_path("pk_partitioned"))
    key = table.primary_key
    keys = table.scan(columns=key).to_arrow()
    with pytest.raises(SchemaError, match="a column 'v' that is not of the primary key"):
        table.lookup(keys.append_column("v", pa.nulls(len(keys), pa.int32())))
    with pytest.raises(SchemaError, match=key[0]):
        table.lookup(keys.drop_columns([key[0]]))
    with pytest.raises(SchemaError, match="NOT NULL"):
        table.lookup(pa.table([pa.nulls(1, keys.schema.field(name).type) for name in key], names=list(key)))
    with pytest.raises(OptionError, match="no limit"):
        table.lookup(keys, limit=3)
    with pytest.raises(UnsupportedError, match="without a primary key"):
        Table.open(table_path("append_avro")).lookup(keys)
    assert table.lookup(keys.slice(0, 0)).schema.equals(table.arrow_schema)
    assert table.lookup(keys.slice(0, 0)).num_rows == 0


@pytest.mark.parametrize("key", sampled(["number", "text", "both", "day"], 1))
def test_scattered_keys_of_several_runs(tmp_path: Path, key: str) -> None:
    rng = np.random.default_rng(4)
    types = {"number": pa.int64(), "text": pa.string(), "day": pa.date32(), "v": pa.int32(), "w": pa.string()}
    names = ["number", "text"] if key == "both" else [key]
    schema = pa.schema([pa.field(name, type_, name not in names) for name, type_ in types.items()])
    options = {"bucket": "2", "write-only": "true", "parquet.page.row.count.limit": "100"}
    table = Table.create(tmp_path / "t", schema, names, options=options)

    def rows(numbers: Any, run: int = 0) -> pa.Table:
        days = pa.array(numbers, pa.int32()).cast(pa.date32())
        texts = [f"{number:05d}"[::-1] for number in numbers.tolist()]
        values = [None if number % 3 else f"{run} {number}" for number in numbers.tolist()]
        return pa.table([numbers, texts, days, numbers % 100 + run, values], names=list(types)).cast(schema)

    for run in range(3):
        table.append(rows(rng.choice(20_000, 6_000, replace=False), run))
    for _ in range(2):
        everything = table.scan().to_arrow()
        for count in (1, 50, 2_000):
            keys = rows(rng.choice(21_000, count, replace=False)).select(names)
            assert lines(table.lookup(keys)) == _expected(keys, everything)
            few = table.lookup(keys, ["w"], filter="v < 50 AND w IS NOT NULL")
            chosen = everything.filter(pc.and_(pc.less(everything["v"], 50), pc.is_valid(everything["w"])))
            assert lines(few) == lines(_rows_of(keys, chosen).select(["w"]))
        table.compact(full=True)


def _rows_of(keys: pa.Table, rows: pa.Table) -> pa.Table:
    found = lines(rows.select(keys.column_names))
    places = {text: place for place, text in enumerate(found)}
    return rows.take(pa.array([places[text] for text in lines(keys) if text in places], pa.int64()))


@pytest.mark.parametrize("seed", sampled(range(6), 1))
def test_many_small_buckets(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows are read together: the same as one bucket after the other, and as a scan's."""
    rng = random.Random(seed)
    key = rng.choice([["id"], ["p", "id"], ["name", "id"]])
    columns = {"id": "BIGINT", "name": "STRING", "p": "INT", "x": "DOUBLE", "tags": "ARRAY<INT>"}
    partitioned = {"partition_by": "p"} if "p" in key else {}
    options = {"bucket": "1" if partitioned else "20", "write-only": rng.choice(["true", "false"])}
    if options["write-only"] == "false":
        options |= rng.choice([{}, {"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}])
    table = Table.create(tmp_path / "t", columns, primary_key=key, **partitioned, options=options)
    for step in range(3):
        rows = [
            {"id": i, "name": f"v{i % 50}", "p": i % 30, "x": step / 2, "tags": [i] * (i % 3)}
            for i in rng.sample(range(400), 200)
        ]
        names = table.arrow_schema.names
        table.append(pa.Table.from_pylist([{n: row.get(n) for n in names} for row in rows], table.arrow_schema))
        if step == 0:
            table.alter(add_columns={"late": "INT"})
    if "merge-engine" not in options:
        table.delete("id % 7 = 0")
    wanted = pa.Table.from_pylist(
        [{"id": i, "name": f"v{i % 50}", "p": i % 30} for i in rng.sample(range(500), 250)],
        pa.schema([table.arrow_schema.field(name) for name in key]),
    )
    for where in (None, "x > 0"):
        found = []
        for least in (1, 8, 1 << 30):
            monkeypatch.setattr(lookup, "LEAST_TOGETHER", least)
            monkeypatch.setattr(lookup, "MOST_TOGETHER", least if least > 8 else 3)
            found.append(table.lookup(wanted, where=where))
        by_key = {tuple(row[k] for k in key): row for row in table.scan(where).to_arrow().to_pylist()}
        expected = [by_key[k] for k in (tuple(row.values()) for row in wanted.to_pylist()) if k in by_key]
        assert found[0].num_rows and found[0].to_pylist() == expected
        assert found[0].equals(found[1]) and found[0].equals(found[2])
