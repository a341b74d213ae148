"""Small cases of what Java made of random tables once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.oracle import Oracle
from support.values import lines


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_java_finds_wide_decimals(format_: str, oracle: Oracle, warehouse: Path) -> None:
    """Java looks its literal's shortest bytes up in a Parquet dictionary, where each value has all of its bytes."""
    types = [pa.decimal128(38, 10), pa.decimal128(19, 2), pa.decimal128(18, 4), pa.decimal128(9, 2)]
    schema = pa.schema([("id", pa.int64()), *((f"d{i}", t) for i, t in enumerate(types))])
    values = ["-0.0000000170", "-17.25", "0.0017", "17.00"]
    columns = [[None if row % 4 == 0 else Decimal(v) * (row % 3) for row in range(60)] for v in values]
    arrays = [pa.array(range(60)), *(pa.array(c, t) for c, t in zip(columns, types, strict=True))]
    table = pp.Table.create(warehouse / "db.db" / "t", schema, options={"file.format": format_})
    table.append(pa.table(arrays, schema=schema))
    asked: list[tuple[str, dict[str, Any]]] = []
    for i, v in enumerate(values):
        cast = f"CAST('{v}' AS DECIMAL({types[i].precision}, {types[i].scale}))"
        asked.append((f"d{i} = {cast}", {"op": "eq", "field": f"d{i}", "literals": [v]}))
        asked.append((f"d{i} IN ({cast}, 5)", {"op": "in", "field": f"d{i}", "literals": [v, "5"]}))
    with oracle.batch() as batch:
        replies = [batch.read(warehouse, "db.t", filter=json) for _, json in asked]
    for (text, _), reply in zip(asked, replies, strict=True):
        ours = lines(table.scan(text).to_arrow())
        assert len(ours) == 15, text
        assert reply.lines == ours, text


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_java_finds_nan(format_: str, oracle: Oracle, warehouse: Path) -> None:
    """NaN is greatest and equals itself; bounds that leave it out must not be where Java trusts them."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("plain", pa.float64())])
    nan, inf = float("nan"), float("inf")
    table = pp.Table.create(warehouse / "db.db" / "t", schema, options={"file.format": format_})
    for values in ([nan, inf, None], [1.5, nan, None], [nan, nan, None], [-inf, 2.5, 4.0]):
        count = len(table.snapshots()) * 10
        plain = [float(count + i) for i in range(3)]
        table.append(pa.table([pa.array(range(count, count + 3)), values, values, plain], schema=schema))
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"{name} {sign} CAST('{text}' AS {kind})", {"op": op, "field": name, "literals": [text]})
        for name, kind in (("f", "FLOAT"), ("d", "DOUBLE"))
        for sign, op in (("=", "eq"), (">", "gt"), (">=", "ge"), ("<", "lt"), ("<>", "ne"))
        for text in ("nan", "inf", "2.5")
    ]
    asked.append(("plain > 20", {"op": "gt", "field": "plain", "literals": ["20.0"]}))
    with oracle.batch() as batch:
        replies = [batch.read(warehouse, "db.t", filter=json) for _, json in asked]
    for (text, _), reply in zip(asked, replies, strict=True):
        assert reply.lines == lines(table.scan(text).to_arrow()), text
