"""Java Paimon reads the ORC and Avro files written here, and finds rows in them by their statistics."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

ROW = {
    "type": "ROW",
    "fields": [
        {"id": 100, "name": "x", "type": "INT"},
        {"id": 101, "name": "y", "type": "STRING"},
        {"id": 102, "name": "t", "type": "TIMESTAMP(6)"},
        {"id": 103, "name": "l", "type": {"type": "ARRAY", "element": "TIME(3)"}},
    ],
}
_MOMENTS = [0, -1_000_000, -999_500, -1_000_001, -1_500_000, 1_600_000_000_123_456, -2_000_000_000_000_001]
_MILLIS = [m // 1000 for m in _MOMENTS if m != -999_500]
_LAST_SECOND = [-1, -500_000, -999_999]
"""Moments that ORC cannot hold: Java writes them a second late, here they are refused."""
COLUMNS: list[tuple[Any, list[Any]]] = [
    ("BOOLEAN", [True, False]),
    ("TINYINT", [-128, 127]),
    ("SMALLINT", [-(2**15), 2**15 - 1]),
    ("INT", [-(2**31), 2**31 - 1]),
    ("BIGINT", [-(2**63) + 1, 2**63 - 1]),
    ("FLOAT", [1.5, float("nan"), float("-inf"), -0.0]),
    ("DOUBLE", [0.1, float("nan"), float("inf"), 0.0]),
    ("DECIMAL(4, 2)", [Decimal("-99.99"), Decimal("0.01")]),
    ("DECIMAL(38, 10)", [Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001")]),
    ("CHAR(4)", ["abcd", "é"]),
    ("VARCHAR(20)", ["", "a value"]),
    ("STRING", ["😀" * 20, "z"]),
    ("BINARY(4)", [b"\x00\x01\x02\xff"]),
    ("BYTES", [b"", b"\x80" * 40]),
    ("DATE", [-719_162, 2_932_896, 0, -141_500]),
    ("TIME(3)", [0, 86_399_999]),
    ("TIMESTAMP(3)", _MILLIS),
    ("TIMESTAMP(6)", _MOMENTS),
    (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        _MILLIS,
    ),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", _MOMENTS),
    ({"type": "ARRAY", "element": "DECIMAL(20, 2)"}, [[Decimal("1.00"), None], []]),
    ({"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}, [[("a", 1), ("b", None)], []]),
    (
        {"type": "MAP", "key": "INT NOT NULL", "value": ROW},
        [[(1, {"x": 1, "y": None, "t": -1_000_001, "l": [5, None]})], []],
    ),
    (ROW, [{"x": 1, "y": "b", "t": 5, "l": []}, {"x": None, "y": None, "t": None, "l": None}]),
    ({"type": "ARRAY", "element": ROW}, [[{"x": 1, "y": "b", "t": 5, "l": [1]}, None]]),
]
WIDE = {"TIMESTAMP(3)": [-62_135_596_800_000, 253_402_300_799_999], "TIMESTAMP(6)": [-62_135_596_800_000_000]}


def _rows(columns: list[tuple[Any, list[Any]]], count: int) -> tuple[tuple[DataField, ...], pa.Table]:
    fields = [DataField(0, "id", parse_type("INT NOT NULL"))]
    fields += [DataField(1000 * i, f"c{i}", parse_type(_moved(t, 1000 * i))) for i, (t, _) in enumerate(columns, 1)]
    schema = arrow_schema(fields)
    arrays = [pa.array(range(count), pa.int32())]
    for i, (_, values) in enumerate(columns, 1):
        cycle = [*values, None]
        arrays.append(pa.array([cycle[row % len(cycle)] for row in range(count)], schema.field(i).type))
    return tuple(fields), pa.Table.from_arrays(arrays, schema=schema)


def _moved(json: Any, base: int) -> Any:
    if isinstance(json, dict):
        return {k: base + v if k == "id" else _moved(v, base) for k, v in json.items()}
    return [_moved(v, base) for v in json] if isinstance(json, list) else json


def _differences(found: list[str], expected: list[str]) -> list[Any]:
    """(id, column, found, expected) where rows differ: shorter to read than two lists of long lines."""
    ours = {row["id"]: row for row in map(json.loads, expected)}
    theirs = {row["id"]: row for row in map(json.loads, found)}
    assert ours.keys() == theirs.keys()
    return [(i, c, theirs[i][c], v) for i, row in ours.items() for c, v in row.items() if theirs[i][c] != v]


@requires_java_oracle
@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_rows_and_filters(format_: str, oracle: Oracle, warehouse: Path) -> None:
    columns = list(COLUMNS)
    columns = [(t, v + WIDE.get(t, []) if isinstance(t, str) else v) for t, v in columns]
    if format_ == "avro":
        columns = [(t, v + _LAST_SECOND if t == "TIMESTAMP(6)" else v) for t, v in columns]
    fields, rows = _rows(columns, 40)
    path = warehouse / "db.db" / "t"
    table = pp.Table.create(path, fields, options={"bucket": "-1", "file.format": format_})
    table.append(rows.slice(0, 17))
    table.append(rows.slice(17))
    tests = [
        {"op": "eq", "field": "c10", "literals": ["é"]},
        {"op": "eq", "field": "c4", "literals": [2**31 - 1]},
        {"op": "lt", "field": "c18", "literals": ["1970-01-01T00:00:00.000000"]},
        {"op": "ge", "field": "c12", "literals": ["😀" * 16]},
        {"op": "isnull", "field": "c24", "literals": []},
        {"op": "eq", "field": "c7", "literals": ["nan"]},
    ]
    with oracle.batch() as batch:
        whole = batch.read(warehouse, "db.t")
        pushed = [batch.read(warehouse, "db.t", filter=f) for f in tests]
        plain = [batch.read(warehouse, "db.t", filter=f, pushdown=False) for f in tests]
    assert _differences(whole.lines, lines(rows)) == []
    assert _differences(lines(table.scan().to_arrow()), lines(rows)) == []
    for test, with_pruning, without in zip(tests, pushed, plain, strict=True):
        assert with_pruning.lines == without.lines, test
        assert without.lines, test
