"""Rows that an index found by one value: that column is filled in, and only where equal values are the same value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.formats.parquet.reader import ParquetReader
from paimon_pyds.types import DataField

ROWS = 3_000
WITHOUT_INDEX = {"file-index.read.enabled": "false"}
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, None, False]),
    "tiny": (pa.int8(), [-128, None, 127]),
    "small": (pa.int16(), [-32768, None, 5]),
    "whole": (pa.int32(), [7, None, -1]),
    "big": (pa.int64(), [1 << 40, None, 0]),
    "day": (pa.date32(), [date(1969, 1, 1), None, date(2024, 2, 29)]),
    "text": (pa.string(), ["", None, "zażółć"]),
    "double": (pa.float64(), [0.0, -0.0, float("nan")]),
    "money": (pa.decimal128(9, 2), [Decimal("1.50"), None, Decimal("-2.00")]),
}
FIXED = ["flag", "tiny", "small", "whole", "big", "day", "text"]
LITERALS = {
    "flag": "TRUE", "tiny": "-128", "small": "5", "whole": "7", "big": "0", "day": "DATE '2024-02-29'",
    "text": "'zażółć'", "double": "0", "money": "1.5",
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """Three values of each column in turn, all with an index; every tenth row is deleted."""
    return _made(tmp_path_factory.mktemp("fixed") / "t")


def _made(path: Path) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), *((name, type_) for name, (type_, _) in COLUMNS.items())])
    options = {
        "file-index.bitmap.columns": ",".join(name for name in COLUMNS if name != "money"),
        "file-index.range-bitmap.columns": "money",
        "file-index.in-manifest-threshold": "1 b",
        "deletion-vectors.enabled": "true",
    }
    made = pp.Table.create(path, schema, options=options)
    ids = pa.array(range(ROWS))
    arrays = [pa.array([values[i % 3] for i in range(ROWS)], type_) for type_, values in COLUMNS.values()]
    made.append(pa.Table.from_arrays([ids, *arrays], schema=schema))
    made.delete("id IN (" + ", ".join(str(i) for i in range(0, ROWS, 10)) + ")")
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns that are read from files."""
    names: list[str] = []
    original = ParquetReader.read

    def recording(self: ParquetReader, fields: Sequence[DataField], *args: Any, **named: Any) -> Any:
        names.extend(f.name for f in fields)
        return original(self, fields, *args, **named)

    monkeypatch.setattr(ParquetReader, "read", recording)
    return names


def _both_ways(table: pp.Table, filter_: str, **scan: Any) -> pa.Table:
    """The rows with indexes, which are those without."""
    found = table.scan(filter_, **scan).to_arrow()
    expected = table.scan(filter_, **scan, options=WITHOUT_INDEX).to_arrow()
    assert found.schema == expected.schema
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # the sign of a zero, and NaN, count
    return found


@pytest.mark.parametrize("name", LITERALS)
def test_rows_are_those_that_the_filter_keeps(table: pp.Table, name: str) -> None:
    assert _both_ways(table, f"{name} = {LITERALS[name]}").num_rows >= 850
    _both_ways(table, f"{name} = {LITERALS[name]}", limit=17)
    assert _both_ways(table, f"{name} = {LITERALS[name]}", columns=[name]).column_names == [name]
    _both_ways(table, f"{name} = {LITERALS[name]}", columns=["money", name, "id"])
    _both_ways(table, f"{name} = {LITERALS[name]}", columns=["id"])


@pytest.mark.parametrize("name", LITERALS)
def test_a_column_that_is_fixed_is_not_read(table: pp.Table, read: list[str], name: str) -> None:
    table.scan(f"{name} = {LITERALS[name]}").to_arrow()
    assert (name not in read) == (name in FIXED)
    assert "id" in read


@pytest.mark.parametrize(
    "filter_",
    ["whole IN (7, -1)", "whole = 7 OR id = 4", "whole = 7 AND id < 100", "whole <> 7", "whole >= 7", "whole IS NULL"],
)
def test_other_filters_fix_nothing(table: pp.Table, read: list[str], filter_: str) -> None:
    table.scan(filter_).to_arrow()
    assert "whole" in read
    _both_ways(table, filter_)


def test_a_value_that_no_row_has(table: pp.Table) -> None:
    for filter_ in ("whole = 8", "tiny = 1000", "whole = 7.5", "text = 'zażółc'", "flag = NULL"):
        assert _both_ways(table, filter_).num_rows == 0


def test_columns_that_were_altered_since(tmp_path: Path, read: list[str]) -> None:
    table = _made(tmp_path / "t")
    table.alter(rename_columns={"small": "little"}, change_types={"whole": "BIGINT"}, add_columns={"late": "INT"})
    table = pp.Table.open(tmp_path / "t")
    for name, literal in (("little", "5"), ("whole", "7"), ("big", "0")):
        assert _both_ways(table, f"{name} = {literal}").num_rows >= 850
    del read[:]
    table.scan("big = 0").to_arrow()
    assert "big" not in read
