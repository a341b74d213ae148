"""Aggregate functions by columns against Java Paimon, which merges the same versions of rows when it reads."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.keys.merge.aggregates import (
    DEFAULT_AGGREGATE,
    RULES,
    aggregate,
    configured_aggregate,
    resolve_aggregate,
)
from support.fixtures import fixture_dir, json_lines, read_text, table_fields, table_path
from support.oracle import Oracle, requires_java_oracle
from support.values import arrow_rows, dumps, json_rows, lines

_NESTED = {"type": "ROW", "fields": [
    {"id": 901, "name": "k", "type": "INT"}, {"id": 902, "name": "l", "type": "STRING"},
    {"id": 903, "name": "v", "type": "INT"},
]}  # fmt: skip
_TIMED = {
    "type": "ROW",
    "fields": [{"id": 911, "name": "v", "type": "INT"}, {"id": 912, "name": "t", "type": "STRING"}],
}
_NESTED_VALUES = [{"k": k, "l": text, "v": v} for k in (None, 1, 2) for text in (None, "a") for v in (None, 5, 6)]
_TIMED_VALUES = [None, *({"v": v, "t": t} for v in (1, 2) for t in (None, "2024", "2025", "\U0001f600", "￿"))]


@dataclass(frozen=True)
class Column:
    """A column with a function; values are JSON as the oracle takes it."""

    function: str
    type: Any
    values: Sequence[Any]
    options: dict[str, str] = field(default_factory=dict)
    ordered: bool = True


def _array(element: Any) -> Any:
    return {"type": "ARRAY", "element": element}


def _map(value: Any) -> Any:
    return {"type": "MAP", "key": "STRING NOT NULL", "value": value}


def _lists(elements: Sequence[Any], most: int = 3) -> list[Any]:
    pick = random.Random(len(elements))
    return [[pick.choice(elements) for _ in range(size)] for size in range(most + 1) for _ in range(4)]


def _maps(values: Sequence[Any]) -> list[Any]:
    pick = random.Random(len(values))
    return [[[key, pick.choice(values)] for key in "abc"[:size]] for size in range(4) for _ in range(4)]


_NUMBERS: dict[str, Sequence[Any]] = {
    "TINYINT": [-128, -3, 0, 1, 2, 127], "SMALLINT": [-32768, -1, 5, 32767], "INT": [-(2**31), -7, 1, 2**31 - 1],
    "BIGINT": [-(2**63), -7, 1, 2**63 - 1], "FLOAT": ["0.0", "-0.0", "0.10000000149011612", "1e+30", "nan", "-inf"],
    "DOUBLE": ["0.0", "-0.0", "0.1", "1e+300", "nan", "inf"], "DECIMAL(3, 1)": ["99.9", "-99.9", "0.5", "1.0", "-0.1"],
    "DECIMAL(18, 0)": ["999999999999999999", "-999999999999999999", "1", "3"],
    "DECIMAL(20, 2)": ["999999999999999999.99", "-999999999999999999.99", "0.01", "1.00"],
    "DECIMAL(38, 10)": ["9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999",
                        "0.0000000003", "1.0000000000"],
}  # fmt: skip
_OTHERS: dict[str, Sequence[Any]] = {
    "STRING": ["", "a", "ab", "é", "\U0001f600", "￿"], "CHAR(2)": ["a", "ab", "b"],
    "BYTES": ["", "00", "7f", "80", "8000"],
    "DATE": ["1969-12-31", "2024-02-29"], "TIME(3)": ["00:00:00.000000", "23:59:59.999000"],
    "TIMESTAMP(3)": ["1969-12-31T23:59:59.999000", "2024-01-01T00:00:00.000000"],
    "TIMESTAMP(9)": ["1969-12-31T23:59:59.999999999", "2024-01-01T00:00:00.000000001"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["1969-12-31T23:59:59.999999Z", "2024-01-01T00:00:00.000001Z"],
}  # fmt: skip
_TEXTS = ["", "a", "b", "a,b", "b|a", ",a", "a,", "b,b", "|"]
_COLUMNS = [
    *(Column(name, type_, values) for name in ("sum", "product", "max", "min") for type_, values in _NUMBERS.items()),
    *(Column(name, type_, values) for name in ("max", "min") for type_, values in _OTHERS.items()),
    *(Column(f"{name}_value", "INT", [1, 2, 3])
      for name in ("last", "last_non_null", "first", "first_non_null", "first_not_null")),
    Column("product", "DECIMAL(10, 2)", ["2.00", "0.50", "-4.00", "1.25", "0.80"]),
    Column("bool_and", "BOOLEAN", [True, False]),
    Column("bool_or", "BOOLEAN", [True, False]),
    Column("listagg", "STRING", _TEXTS),
    Column("listagg", "STRING", _TEXTS, {"list-agg-delimiter": "||"}),
    *(Column("listagg", "STRING", _TEXTS, {"list-agg-delimiter": d, "distinct": "true"}) for d in (",", "||", "", "|")),
    Column("collect", _array("INT"), _lists([None, 1, 2])),
    Column("collect", _array("INT"), _lists([None, 1, 2]), {"distinct": "true"}, ordered=False),
    Column("collect", _array("DOUBLE"), _lists(["0.0", "-0.0", "nan"]), {"distinct": "true"}, ordered=False),
    Column("collect", _array("STRING"), _lists(["", "a", "b"])),
    Column("collect", _array(_NESTED), _lists(_NESTED_VALUES), {"distinct": "true"}),
    Column("merge_map", _map("INT"), _maps([None, 1, 2]), ordered=False),
    Column("merge_map_with_keytime", _map(_TIMED), _maps(_TIMED_VALUES), ordered=False),
    Column("merge_map_with_keytime", _map(_TIMED), _maps(_TIMED_VALUES), {"ts-field": "t"}, ordered=False),
    Column("nested_update", _array(_NESTED), _lists([None, *_NESTED_VALUES]), ordered=False),
    Column("nested_update", _array(_NESTED), _lists([None, *_NESTED_VALUES]), {"count-limit": "4"}, ordered=False),
    Column("nested_update", _array(_NESTED), _lists([None, *_NESTED_VALUES]), {"nested-key": "k"}, ordered=False),
    Column("nested_update", _array(_NESTED), _lists([None, *_NESTED_VALUES]), {"nested-key": "l, k"}, ordered=False),
    Column("nested_partial_update", _array(_NESTED), _lists([None, *_NESTED_VALUES]), {"nested-key": "k,l"}, False),
]  # fmt: skip
_NOT_DIVIDED = {"TINYINT", "DECIMAL(3, 1)", "DECIMAL(18, 0)", "DECIMAL(20, 2)", "DECIMAL(38, 10)"}
"""Products that Java can't take a value back from: by a zero, or by what leaves a decimal without end."""
_NO_RETRACT = {"max", "min", "bool_and", "bool_or", "listagg", "merge_map_with_keytime", "nested_partial_update"}


class Case:
    """A table, and versions of its rows: one commit after the other, at most one version of a key in each."""

    def __init__(self, columns: Sequence[Column], seed: int, *, retracts: bool) -> None:
        self.columns = {f"c{i}": column for i, column in enumerate(columns)}
        types = {"id": parse_type("INT NOT NULL"), **{name: parse_type(c.type) for name, c in self.columns.items()}}
        self.fields = [DataField(i, name, type_) for i, (name, type_) in enumerate(types.items())]
        self.options = {"bucket": "1", "merge-engine": "aggregation", "write-only": "true", RULES: "1.4"}
        for name, column in self.columns.items():
            self.options[f"fields.{name}.aggregate-function"] = column.function
            self.options |= {f"fields.{name}.{key}": value for key, value in column.options.items()}
            if retracts and column.function.startswith(("first", *_NO_RETRACT)):
                self.options[f"fields.{name}.ignore-retract"] = "true"
        pick = random.Random(seed)
        self.commits = [
            [self._row(pick, key, retracts) for key in range(60) if pick.random() < 0.05 + key / 60] for _ in range(6)
        ]

    def _row(self, pick: random.Random, key: int, retracts: bool) -> dict[str, Any]:
        kind = pick.choice(["+I", "+U", "-U", "-D"]) if retracts else "+I"
        row = {n: None if pick.random() < 0.2 else pick.choice(c.values) for n, c in self.columns.items()}
        return {"_kind": kind, "id": key, **row}

    def merged(self) -> dict[int, dict[str, Any]]:
        """What our functions make of the versions; rows that were deleted once and no more are gone."""
        rows = merge_versions([row for commit in self.commits for row in commit], self.fields, self.options)
        return {row["id"]: self.comparable(row) for row in live(rows)}

    def comparable(self, row: dict[str, Any]) -> dict[str, Any]:
        """With lists that have no order sorted."""
        return {
            name: value if value is None or name == "id" or self.columns[name].ordered else sorted(value, key=dumps)
            for name, value in row.items()
        }


def live(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that are not deletes, without their kinds."""
    return [{n: v for n, v in row.items() if n != "_kind"} for row in rows if row["_kind"][0] == "+"]


def merge_versions(
    rows: Sequence[dict[str, Any]], fields: Sequence[DataField], options: dict[str, str]
) -> list[dict[str, Any]]:
    """The row of each key, from rows of JSON values of which newer ones come later; one that is alone is not merged."""
    rows = sorted(rows, key=lambda row: row["id"])
    table = arrow_rows(rows, pa.schema([pa.field(f.name, arrow_type(f.type)) for f in fields]))
    ids = np.array([row["id"] for row in rows])
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    lengths = np.diff(np.append(starts, len(rows)))
    retract = np.array([row["_kind"][0] == "-" for row in rows])
    alone = lengths == 1
    several = np.repeat(~alone, lengths)
    groups = np.cumsum(np.append(0, lengths[~alone]))[:-1]
    columns = [table.column("id").combine_chunks().take(pa.array(starts[~alone]))]
    for data_field in fields[1:]:
        name = configured_aggregate(data_field.name, TableOptions(options)) or DEFAULT_AGGREGATE
        function = resolve_aggregate(name, data_field.type, data_field.name, options)
        values = table.column(data_field.name).filter(pa.array(several))
        columns.append(aggregate(function, values, groups, retract[several]))
    merged = json_rows(pa.Table.from_arrays(columns, schema=table.schema))
    single = json_rows(table.take(pa.array(starts[alone])))
    kinds = ["+I"] * len(merged) + [rows[start]["_kind"] for start in starts[alone]]
    return [{"_kind": kind, **row} for kind, row in zip(kinds, merged + single, strict=True)]


@pytest.mark.parametrize("name", ["pk_aggregation", "pk_aggregation_retract"])
def test_fixtures_of_java(name: str) -> None:
    """Each commit merges the rows that it is given before they are written; reads merge what commits wrote."""
    folder = fixture_dir(name)
    fields, options = table_fields(table_path(name)), json.loads(read_text(folder / "schema.json"))["options"]
    versions: list[dict[str, Any]] = []
    for path in sorted((folder / "input").iterdir()):
        given = [{"_kind": "+I", **{f.name: None for f in fields}, **row} for row in json_lines(path)]
        versions += merge_versions(given, fields, options)
    (full,) = (folder / "expected").glob("full.jsonl*")
    found = {row["id"]: row for row in live(merge_versions(versions, fields, options))}
    expected = {row["id"]: row for row in json_lines(full)}
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        # Sets keep no order in Java.
        assert in_order_of_values(found[key]) == in_order_of_values(row)


def in_order_of_values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: sorted(value) if name == "a_colld" and value else value for name, value in row.items()}


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("retracts", [False, True])
def test_merged_rows_are_those_of_java(oracle: Oracle, warehouse: Path, retracts: bool) -> None:
    columns = [c for c in _COLUMNS if not (retracts and c.function == "product" and c.type in _NOT_DIVIDED)]
    case = Case(columns, seed=7, retracts=retracts)
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", case.fields, primary_keys=["id"], options=case.options)
        for commit in case.commits:
            path = oracle.scratch_file(".jsonl")
            path.write_text("".join(dumps(row) + "\n" for row in commit), encoding="utf-8")
            batch.add("write", warehouse, "db.t", path, "--row-kind-field", "_kind")
        read = batch.read(warehouse, "db.t")
    expected = {row["id"]: case.comparable(row) for row in read.values}
    found = case.merged()
    assert len(expected) > 20
    for name in ["id", *case.columns]:
        of_column = case.columns.get(name, name)
        assert {k: row[name] for k, row in found.items()} == {k: row[name] for k, row in expected.items()}, of_column


@requires_java_oracle
@pytest.mark.java
def test_sums_and_products_round_as_java_s_where_values_come_late(oracle: Oracle, warehouse: Path) -> None:
    """A value behind a newer one of its sequence group is added when it comes, to what was rounded until then."""
    types = {"id": "INT NOT NULL", "s": "INT", "d": "DECIMAL(20, 2)", "f": "DOUBLE"}
    fields = [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items())]
    options = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update", "fields.s.sequence-group": "d,f"}
    options |= {"fields.d.aggregate-function": "product", "fields.f.aggregate-function": "sum"}
    rows = [(9, "1.25", "1e+16"), (5, "123456789012345.99", "-1e+16"), (0, "-3.50", "1.0")]
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", fields, primary_keys=["id"], options=options)
        for s, d, f in rows:
            batch.write(warehouse, "db.t", [{"id": 1, "s": s, "d": d, "f": f}])
        read = batch.read(warehouse, "db.t")
    assert read.lines == ['{"id":1,"s":9,"d":"-540123451929013.72","f":"1.0"}']
    table = pp.Table.open(warehouse / "db.db" / "t")
    assert lines(table.scan().to_arrow()) == read.lines
    table.compact(full=True)
    assert lines(table.scan().to_arrow()) == read.lines
