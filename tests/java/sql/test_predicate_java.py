"""Filters and statistics as Java Paimon 1.4 answers and writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.base.types.kinds import NESTED_KINDS, REFUSED_KINDS
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.prune import ColumnStats, always_true, may_match
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op, Predicate, leaves, root_columns
from support import fixtures
from support.oracle_filters import arrow_column, from_oracle

NAMES = [name for name in fixtures.fixture_names() if fixtures.meta(name).get("filters")]
PARQUET = [
    name
    for name in NAMES
    if name.startswith(("append_", "part_"))
    and not name.startswith(("append_dv", "append_avro", "append_orc", "append_variant", "append_index_nanos"))
]
"""Tables of Parquet files without deletions (and without INT96 alone in their filters)."""


def usable(fields: Sequence[DataField]) -> list[DataField]:
    return [f for f in fields if f.type.kind not in REFUSED_KINDS]


def compares_zero(predicate: Predicate) -> bool:
    """Java tells the zeros apart, so its rows differ there."""
    return any(isinstance(value, float) and value == 0 for leaf in leaves(predicate) for value in leaf.literals)


def filters(name: str, fields: Sequence[DataField]) -> Iterator[tuple[Mapping[str, Any], Predicate]]:
    for line in fixtures.json_lines(fixtures.fixture_dir(name) / fixtures.meta(name)["filters"]):
        yield line, bind(from_oracle(line["filter"], fields), fields)


def batch_of(rows: Sequence[Mapping[str, Any]], fields: Sequence[DataField]) -> pa.RecordBatch:
    arrays = [arrow_column([row[f.name] for row in rows], f.type) for f in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_java(name: str) -> None:
    folder = fixtures.fixture_dir(name)
    full = next(read for read in fixtures.meta(name)["reads"] if read["name"] == "full")
    rows = list(fixtures.json_lines(folder / full["expected"]))
    fields = [f for f in usable(fixtures.table_fields(fixtures.table_path(name))) if not rows or f.name in rows[0]]
    wanted = [f for f in fields if f.type.kind not in NESTED_KINDS]
    batch = batch_of(rows, wanted)
    for line, predicate in filters(name, fields):
        if compares_zero(predicate) or not set(root_columns(predicate)) <= {f.name for f in wanted}:
            continue
        found = [
            [row[c] for c in line["projection"]]
            for row, kept in zip(rows, matches(predicate, batch), strict=True)
            if kept.as_py()
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, line["rows"])), (line["name"], to_sql(predicate))
        assert bind(parse_filter(to_sql(predicate)), fields) == predicate


def planned(name: str) -> list[Mapping[str, Any]]:
    """The files of a table with their statistics, as the oracle printed them."""
    others = fixtures.meta(name)["others"]
    found = next(other["expected"] for other in others if other["cmd"] == "files" and not other["args"])
    return list(fixtures.json_lines(fixtures.fixture_dir(name) / found))


class JavaStats:
    """The statistics that the oracle printed for the files of one schema and one set of columns."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], fields: Sequence[DataField]) -> None:
        self.entries, self.types = entries, {f.name: f.type for f in fields}
        self.row_counts = pa.array([e["rowCount"] for e in entries], pa.int64())

    def of(self, column: ColumnRef) -> ColumnStats | None:
        lows, highs, nulls = [], [], []
        if column.path:
            return None
        for entry in self.entries:
            stats = entry["valueStats"]
            names = entry["valueStatsCols"]
            names = list(self.types) if names is None else names
            at = names.index(column.name) if column.name in names else None
            lows.append(None if at is None else stats["min"].get(column.name))
            highs.append(None if at is None else stats["max"].get(column.name))
            counts = stats["nullCounts"]
            nulls.append(None if at is None or counts is None else counts[at])
        type_ = self.types[column.name]
        return ColumnStats(
            arrow_column(lows, type_), arrow_column(highs, type_), pa.array(nulls, pa.int64()), self.row_counts
        )


@pytest.mark.parametrize("name", PARQUET)
def test_pruning_by_javas_statistics_keeps_every_file_with_a_match(name: str) -> None:
    table = fixtures.table_path(name)
    fields = usable(fixtures.table_fields(table))
    entries = planned(name)
    if any(entry["schemaId"] or not entry["fileName"].endswith(".parquet") for entry in entries):
        pytest.skip("its files are of several schemas or formats")
    batches = {}
    for entry in entries:
        path = next(table.rglob(entry["fileName"]))
        file = pq.read_table(path, coerce_int96_timestamp_unit="us")
        batches[entry["fileName"]] = file
    stats = JavaStats(entries, fields)
    pruned = total = 0
    for line, predicate in filters(name, fields):
        columns = set(root_columns(predicate))
        types = {f.name: f.type for f in fields}
        if any(getattr(types[c], "precision", None) in (7, 8, 9) and types[c].kind.value != "DECIMAL" for c in columns):
            continue  # INT96: beyond what pyarrow reads without loss
        keep = may_match(predicate, stats.row_counts, stats.of)
        sure = always_true(predicate, stats.row_counts, stats.of)
        for number, entry in enumerate(entries):
            exactly = matches(predicate, conform(batches[entry["fileName"]], fields, columns)).to_pylist()
            assert keep[number] or not any(exactly), (line["name"], entry["fileName"])
            assert not sure[number] or all(exactly), (line["name"], entry["fileName"])
        pruned += int(np.count_nonzero(~keep))
        total += len(keep)
    assert total
    assert pruned or name != "append_all_types"


def conform(file: pa.Table, fields: Sequence[DataField], columns: set[str]) -> pa.Table:
    schema = arrow_schema([f for f in fields if f.name in columns])
    return pa.Table.from_arrays([file.column(f.name).cast(f.type) for f in schema], schema=schema)


def test_plans_are_at_least_as_sharp_as_javas() -> None:
    """Where Java skips a file by its statistics, so do we; its own float order and indexes apart."""
    checked = 0
    for name in PARQUET:
        fields = usable(fixtures.table_fields(fixtures.table_path(name)))
        entries = planned(name)
        if any(entry["schemaId"] or entry["embeddedIndexLength"] or entry["partition"] for entry in entries):
            continue
        stats = JavaStats(entries, fields)
        for other in fixtures.meta(name)["others"]:
            if other["cmd"] != "files" or "--filter" not in other["args"]:
                continue
            text = other["args"][other["args"].index("--filter") + 1]
            predicate = bind(from_oracle(json.loads(text), fields), fields)
            if compares_zero(predicate):
                continue
            java = {line["fileName"] for line in fixtures.json_lines(fixtures.fixture_dir(name) / other["expected"])}
            keep = may_match(predicate, stats.row_counts, stats.of)
            ours = {entry["fileName"] for entry, kept in zip(entries, keep, strict=True) if kept}
            assert ours <= java, (name, to_sql(predicate))
            checked += 1
    if not PARQUET:
        pytest.skip("needs tables written by Java Paimon")
    assert checked


def test_from_oracle_reads_every_form() -> None:
    fields = [DataField(0, "f", parse_type("DOUBLE")), DataField(1, "t", parse_type("TIMESTAMP(3)"))]
    tree = from_oracle({"op": "not", "arg": {"op": "between", "field": "f", "literals": ["nan", "1.5"]}}, fields)
    assert to_sql(bind(tree, fields)) == "f < CAST('NaN' AS DOUBLE) OR f > 1.5D"
    leaf = bind(from_oracle({"op": "eq", "field": "t", "literals": ["1970-01-01T00:00:00.123000"]}, fields), fields)
    assert isinstance(leaf, Leaf)
    assert (leaf.op, leaf.literals) == (Op.EQ, (123,))
