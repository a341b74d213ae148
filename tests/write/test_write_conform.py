"""Incoming data is matched by name, cast where nothing is lost, and refused with one clear error otherwise."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError
from paimon_pyds.types import DataField, parse_type


def _table(tmp_path: Path, **columns: str) -> pp.Table:
    fields = [DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(columns.items())]
    return pp.Table.create(tmp_path / "t", fields)


@pytest.mark.parametrize(
    ("type_", "values", "arrow"),
    [
        ("TINYINT", [1, None], pa.int64()),
        ("BIGINT", [1, None], pa.int8()),
        ("DOUBLE", [1.5, None], pa.float32()),
        ("DECIMAL(10, 2)", [Decimal("1.5"), None], pa.decimal128(4, 1)),
        ("STRING", ["x", None], pa.large_string()),
        ("STRING", ["x", None], pa.dictionary(pa.int8(), pa.string())),
        ("BYTES", [b"x", None], pa.binary(1)),
        ("INT", [None, None], pa.null()),
        ("TIME(6)", [dt.time(23, 59, 59, 999_000), None], pa.time64("us")),
        ("TIME(9)", [dt.time(1), None], pa.time64("ns")),
    ],
)
def test_casts_that_lose_nothing(tmp_path: Path, type_: str, values: list[object], arrow: pa.DataType) -> None:
    table = _table(tmp_path, c=type_)
    table.append(pa.table({"c": pa.array(values, arrow)}))
    assert table.scan().to_arrow()["c"].to_pylist() == values


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("TINYINT", pa.array([300])),
        ("INT", pa.array([1.5])),
        ("INT", pa.array(["1"])),
        ("STRING", pa.array([1])),
        ("BOOLEAN", pa.array([1])),
        ("DECIMAL(4, 2)", pa.array([Decimal("123.45")])),
        ("TIMESTAMP(3)", pa.array([1], pa.timestamp("us"))),
        ("TIMESTAMP(6)", pa.array([1], pa.timestamp("us", "UTC"))),
        ("VARCHAR(3)", pa.array(["abcd"])),
        ("TIME(6)", pa.array([1_001], pa.time64("us"))),
        ("TIME(9)", pa.array([None, 1_000_001], pa.time64("ns"))),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, type_: str, values: pa.Array) -> None:
    table = _table(tmp_path, c=type_)
    with pytest.raises(SchemaError, match="'c'"):
        table.append(pa.table({"c": values}))
    assert table.snapshot() is None
    assert not list(Path(table.path).rglob("data-*"))


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    table = _table(tmp_path, a="INT", B="INT", c="INT")
    table.append(pa.table({"c": [3], "b": [2], "A": [1]}))
    assert table.scan().to_arrow().to_pylist() == [{"a": 1, "B": 2, "c": 3}]
    table.append(pa.table({"c": [4]}))
    assert table.scan("c = 4").to_arrow().to_pylist() == [{"a": None, "B": None, "c": 4}]
    with pytest.raises(SchemaError, match="no column 'd'"):
        table.append(pa.table({"d": [1]}))


def test_null_in_a_not_null_column_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    table = _table(tmp_path, k="INT NOT NULL", v="INT")
    table.append(pa.table({"k": [1], "v": [1]}))
    batches = [pa.table({"k": [2], "v": [2]}), pa.table({"k": pa.array([None], pa.int32()), "v": [3]})]
    with pytest.raises(SchemaError, match="'k' is NOT NULL"):
        table.append(batches)
    with pytest.raises(SchemaError, match="'k' is NOT NULL and missing"):
        table.append(pa.table({"v": [3]}))
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, "v": 1}]
    assert len(list(Path(table.path).rglob("data-*"))) == 1


def test_rows_from_other_libraries(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    table = _table(tmp_path, a="BIGINT", s="STRING")
    table.append(pd.DataFrame({"a": [1], "s": ["x"]}))
    table.append(pl.DataFrame({"a": [2], "s": ["y"]}))
    table.append([{"a": 3, "s": "z"}])
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [1, 2, 3]
    with pytest.raises(SchemaError, match="can't take rows from int"):
        table.append(5)
