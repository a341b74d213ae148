"""Incoming data is matched by name, cast where nothing is lost, and refused with one clear error otherwise."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import ExpressionError, SchemaError
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
    with pytest.raises(SchemaError, match=r"does not fit column 'c'|column c is \w+(\[.*\])? in the data and "):
        table.append(pa.table({"c": values}))
    assert table.snapshot() is None
    assert not list(Path(table.path).rglob("data-*"))


FIRST, FITS = "first in row", "does not fit column"


@pytest.mark.parametrize(
    ("type_", "values", "message"),
    [
        ("BIGINT", ["1"], "column id is string in the data and BIGINT in the table — "),
        ("INT NOT NULL", [1.5], "column id is double in the data and INT in the table — "),
        ("INT", [b"1"], "column id is binary in the data and INT in the table — "),
        ("INT", [True], "column id is bool in the data and INT in the table — "),
        (
            "TINYINT",
            [1, None, 300],
            f"300 {FITS} 'id', which is TINYINT (-128 to 127), {FIRST} 3 of the data",
        ),
        ("DECIMAL(3, 1)", [Decimal("1.25")], "1.25 does not fit column 'id', which is DECIMAL(3, 1) (2 digits before "),
        ("CHAR(2)", ["ab", "abc"], f"'abc' does not fit column 'id', which is CHAR(2), {FIRST} 2 of the data"),
        (
            "VARCHAR(3)",
            ["\x1b[31m" * 100],
            f"x1b[31m'… (500 characters) {FITS} 'id', which is VARCHAR(3), {FIRST}",
        ),
        (
            "BYTES NOT NULL",
            [b"", None],
            f"column 'id' is NOT NULL, and 1 of 2 rows have no value, {FIRST} 2 of the data",
        ),
        ("TIMESTAMP(0)", pa.array([1], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001 does not fit column 'id'"),
        ("INT", [1, 2, "x"], f"column 'id': Could not convert 'x' with type str: tried to convert to int64, {FIRST} 3"),
    ],
)
def test_errors_tell_the_value_and_its_row(tmp_path: Path, type_: str, values: Any, message: str) -> None:
    table = _table(tmp_path, id=type_)
    with pytest.raises(SchemaError) as caught:
        table.append({"id": values})
    assert message in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_rows_are_numbered_through_all_batches_and_within_nested_values(tmp_path: Path) -> None:
    nested = pa.schema([("a", pa.list_(pa.int8())), ("s", pa.struct([("x", pa.int8())]))])
    table = pp.Table.create(tmp_path / "n", nested)
    first = pa.table({"a": [[1], [2, 3], []], "s": [{"x": 1}] * 3})
    with pytest.raises(SchemaError, match=rf"300 {FITS} 'a\.element', which is int8, {FIRST} 5 of the data"):
        table.append([first, pa.table({"a": [None, [1, 2, 300]], "s": [{"x": 1}, None]})])
    with pytest.raises(SchemaError, match=rf"300 does not fit column 's\.x', which is int8, {FIRST} 7 of the data"):
        table.append(iter([first, first, pa.table({"a": [None], "s": [{"x": 300}]}), first]))
    assert table.snapshot() is None


def test_rows_are_numbered_where_keys_move_and_in_lookups(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int32()), ("p", pa.int32())])
    table = pp.Table.create(tmp_path / "k", schema, ["k"], ["p"], options={"bucket": -1})
    with pytest.raises(SchemaError, match=rf"5000000000 does not fit column 'k', .* {FIRST} 3 of the data"):
        table.append([pa.table({"k": [1, 2], "p": [1, 1]}), pa.table({"k": [5_000_000_000], "p": [1]})])
    with pytest.raises(SchemaError, match=rf"column 'k' is NOT NULL, .* {FIRST} 3 of the data"):
        table.lookup([pa.table({"k": [1, 2]}), pa.table({"k": pa.nulls(1)})])
    with pytest.raises(SchemaError, match="column k is string in the data and INT in the table"):
        table.lookup({"k": ["1"]})


def test_values_of_updates_and_merges_that_do_not_fit_are_shown(tmp_path: Path) -> None:
    table = _table(tmp_path, k="BIGINT", s="VARCHAR(3)", d="DECIMAL(3, 1)")
    table.append({"k": [1], "s": ["a"], "d": [Decimal("1.0")]})
    with pytest.raises(ExpressionError, match=r"column 's': .* 'abcd' does not fit VARCHAR\(3\)"):
        table.update({"s": "concat('abc', 'd')"})
    with pytest.raises(ExpressionError, match=r"column 'd': .*\b200\.0 does not fit DECIMAL\(3, 1\)"):
        table.merge({"k": [1], "s": ["b"], "d": [200]}, "k", when_matched="update")


def test_names_that_are_mistyped_get_near_ones(tmp_path: Path) -> None:
    table = _table(tmp_path, order_id="INT NOT NULL", price="INT")
    with pytest.raises(SchemaError, match=r"the table has no column 'oder_id' — .* — did you mean order_id\?"):
        table.append({"oder_id": [1], "price": [1]})


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
