"""Python's own values in columns of every type: what fits is stored as it is, what does not is named."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, OrderedDict, namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.python_values import as_mapping
from paimon_pyds.base.types.nested import MissingMemberError
from paimon_pyds.base.types.sql_columns import parse_column
from paimon_pyds.engine.write.conform import conform_column
from paimon_pyds.engine.write.python_rows import PythonRows
from paimon_pyds.errors import SchemaError

HOUR = dt.timezone(dt.timedelta(hours=1))
NOON, INSTANT = dt.datetime(2026, 1, 31, 12, 30, 1, 250_000), dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC)


class Color(Enum):
    RED = "red"


class Text(StrEnum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


@dataclass
class Inner:
    c: str | None


@dataclass
class Outer:
    a: int
    b: Inner | None


class Named(NamedTuple):
    a: int
    b: Any


class Model:
    """What a model of pydantic shows of itself."""

    model_fields = {"a": object, "b": object}  # noqa: RUF012 - as pydantic has it

    def __init__(self, a: int, b: Any) -> None:
        self.a, self.b = a, b


NESTED = "ROW<a INT, b ROW<c STRING>>"
FITTING: Sequence[tuple[str, Sequence[Any], Sequence[Any]]] = [
    ("BOOLEAN", [True, None, np.bool_(False)], [True, None, False]),
    ("TINYINT", [1, np.int64(-128), Number.ONE, Decimal(5)], [1, -128, 1, 5]),
    ("SMALLINT", [32767, None], [32767, None]),
    ("INT", [1, np.int8(2), Decimal("3.0")], [1, 2, 3]),
    ("BIGINT", [2**63 - 1, np.uint8(3)], [2**63 - 1, 3]),
    ("FLOAT", [1, 0.5, None, np.float32(2.5)], [1.0, 0.5, None, 2.5]),
    ("DOUBLE", [1, 2.5, Decimal("0.25"), np.float64(3)], [1.0, 2.5, 0.25, 3.0]),
    ("DECIMAL(10, 2)", [1, Decimal("2.50"), Decimal("1E+3"), np.int32(4)], [1, Decimal("2.50"), 1000, 4]),
    ("STRING", ["x", Text.RED, Color.RED, np.str_("y"), ""], ["x", "red", "red", "y", ""]),
    ("VARCHAR(3)", ["abc", None], ["abc", None]),
    ("CHAR(3)", ["abc", "de "], ["abc", "de "]),
    ("BYTES", [b"x", bytearray(b"y"), memoryview(b"z")], [b"x", b"y", b"z"]),
    ("BINARY(2)", [b"xy"], [b"xy"]),
    ("BLOB", [b"x", bytearray(b"yz"), None, b""], [b"x", b"yz", None, b""]),
    ("VARBINARY(2)", [b"x", None], [b"x", None]),
    ("DATE", [dt.date(2026, 1, 31), dt.datetime(2026, 2, 1), np.datetime64("2026-02-02")],
     [dt.date(2026, 1, 31), dt.date(2026, 2, 1), dt.date(2026, 2, 2)]),
    ("TIME(3)", [dt.time(1, 2, 3, 4000), None], [dt.time(1, 2, 3, 4000), None]),
    ("TIMESTAMP(6)", [NOON, dt.date(2026, 1, 31), np.datetime64("2026-01-31T12", "h")],
     [NOON, dt.datetime(2026, 1, 31), dt.datetime(2026, 1, 31, 12)]),
    ("TIMESTAMP(9)", [NOON], [NOON]),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", [INSTANT, INSTANT.astimezone(HOUR)], [INSTANT, INSTANT]),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [INSTANT, INSTANT.astimezone(HOUR), None], [INSTANT, INSTANT, None]),
    ("VARIANT", [{"a": [1, "x"]}, 5, None], [{"a": [1, "x"]}, 5, None]),
    ("ARRAY<INT>", [[1, None], (2,), np.array([3]), [], None], [[1, None], [2], [3], [], None]),
    ("ARRAY<MAP<STRING, INT>>", [[{"k": 1}, {}], [[("k", 2)], None]], [[[("k", 1)], []], [[("k", 2)], None]]),
    ("MAP<STRING, INT>", [{"k": 1}, [("k", None)], OrderedDict(), [["k", 3]], None],
     [[("k", 1)], [("k", None)], [], [("k", 3)], None]),
    ("MAP<DATE, ARRAY<DECIMAL(4, 1)>>", [{dt.date(2026, 1, 1): [1, Decimal("2.5")]}],
     [[(dt.date(2026, 1, 1), [Decimal("1.0"), Decimal("2.5")])]]),
    ("MULTISET<STRING>", [Counter("aab"), {"x": 1}], [[("a", 2), ("b", 1)], [("x", 1)]]),
    (NESTED, [{"a": 1, "b": None}, Outer(2, Inner("x")), Named(3, {"c": "y"}), Model(4, Inner(None)), None],
     [{"a": 1, "b": None}, {"a": 2, "b": {"c": "x"}}, {"a": 3, "b": {"c": "y"}}, {"a": 4, "b": {"c": None}}, None]),
    ("VECTOR<FLOAT, 2>", [[1, 2.5], (3.0, 4), None], [[1.0, 2.5], [3.0, 4.0], None]),
]  # fmt: skip
LOOSE: Sequence[tuple[str, Sequence[Any], Sequence[Any]]] = [
    ("BOOLEAN", ["true", "False", 1, 0], [True, False, True, False]),
    ("INT", ["1", " -2 ", 3.0], [1, -2, 3]),
    ("DOUBLE", ["1.5", "1e3"], [1.5, 1000.0]),
    ("DECIMAL(10, 2)", ["1.5", 2.25, "3"], [Decimal("1.50"), Decimal("2.25"), 3]),
    ("DATE", ["2026-01-31", "20260201"], [dt.date(2026, 1, 31), dt.date(2026, 2, 1)]),
    ("TIME(0)", ["01:02:03"], [dt.time(1, 2, 3)]),
    ("TIMESTAMP(6)", ["2026-01-31 12:30:01.250", NOON, INSTANT], [NOON, NOON, dt.datetime(2026, 1, 31, 12, 30)]),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", ["2026-01-31T12:30:00Z", "2026-01-31T13:30+01:00",
     dt.datetime(2026, 1, 31, 12, 30)], [INSTANT] * 3),
    ("MAP<INT, DATE>", [{"1": "2026-01-31"}], [[(1, dt.date(2026, 1, 31))]]),
]  # fmt: skip


def _stored(tmp_path: Path, type_: str, values: Sequence[Any], *, strict: bool = True) -> list[Any]:
    needs = type_.startswith(("BLOB", "VECTOR"))
    evolves = {"data-evolution.enabled": "true", "row-tracking.enabled": "true"} if needs else None
    table = pp.Table.create(tmp_path / "t", {"id": "INT", "c": type_}, options=evolves)
    table.append([{"id": i, "c": value} for i, value in enumerate(values)], strict=strict)
    table.append({"id": range(1000, 1000 + len(values)), "c": list(values)}, strict=strict)
    rows = table.to_arrow().sort_by("id")
    first, second = rows["c"].slice(0, len(values)), rows["c"].slice(len(values))
    assert first.equals(second)
    if type_ == "VARIANT":
        return pp.variant_values(first)
    return first.to_pylist()


@pytest.mark.parametrize(("type_", "values", "wanted"), FITTING, ids=[case[0] for case in FITTING])
def test_natural_values_come_back(tmp_path: Path, type_: str, values: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Those of this type as they should, those of all others as equal values, or they are refused by name."""
    column, taken = parse_column("c", type_), list[Any]()
    convert = PythonRows([column])
    for value in [value for _, others, _ in [*FITTING, *LOOSE] for value in others] if type_ != "VARIANT" else ():
        try:
            found = convert("c", [None, value])
            assert found is not None
            conform_column(found, column, None)
            taken.append(value)
        except MissingMemberError:  # of a ROW, in each row
            pass
        except SchemaError as refused:
            refused.name_row(0)
            assert re.search(r"column '?c\b.*first in row 2 of", str(refused)), (value, refused)
    stored = _stored(tmp_path, type_, [*values, *taken])
    assert stored[: len(values)] == wanted
    assert len(taken) > sum(value is not None for value in values) or type_ == "VARIANT"
    for found, value in zip(stored[len(values) :], taken, strict=True):
        assert _is_same(found, value), (found, value)


def _is_same(stored: Any, value: Any) -> bool:
    """Whether a value came back, in whatever form of Python it was given."""
    if isinstance(value, Enum | np.generic):
        value = value.value if isinstance(value, Enum) else value.item()
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    members = as_mapping(value)
    if stored is None or members is None:
        if isinstance(value, list | tuple | np.ndarray):
            return len(stored) == len(value) and all(map(_is_same, stored, value))
        if type(stored) is dt.date and isinstance(value, dt.datetime):
            stored = dt.datetime.combine(stored, dt.time())
        if isinstance(stored, dt.datetime) and type(value) is dt.date:
            value = dt.datetime.combine(value, dt.time())
        return bool(stored == value)
    found = dict(stored)
    names = found if isinstance(stored, dict) else members  # a ROW has all of its fields, a MAP its own keys
    return len(found) == len(names) and all(_is_same(found[name], members.get(name)) for name in names)


@pytest.mark.parametrize(("type_", "values", "wanted"), LOOSE, ids=[case[0] for case in LOOSE])
def test_texts_and_numbers_are_taken_where_strict_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str, values: Sequence[Any], wanted: Sequence[Any]
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert _stored(tmp_path, type_, values, strict=False) == wanted


WRONG: dict[str, Sequence[tuple[Any, str, str]]] = {
    "BOOLEAN": [(1, "1", "c"), ("true", "'true'", "c"), (0.0, "0.0", "c")],
    "TINYINT": [(128, "128", "c"), (True, "True", "c"), ("1", "'1'", "c"), (1.0, "1.0", "c"), (1.5, "1.5", "c")],
    "INT": [(2**31, "2147483648", "c"), (-(2**40), "-1099511627776", "c"), (Decimal("1.5"), "1.5", "c"),
            ([1], "[1]", "c"), (dt.date(2026, 1, 1), "datetime.date(2026, 1, 1)", "c")],
    "BIGINT": [(2**63, "9223372036854775808", "c"), (2**80, "1208925819614629174706176", "c"), (b"1", "b'1'", "c")],
    "FLOAT": [(1e300, "1e+300", "c"), ("1.5", "'1.5'", "c"), (True, "True", "c")],
    "DOUBLE": [(2**60 + 1, "1152921504606846977", "c"), ("x", "'x'", "c"), ({}, "{}", "c")],
    "DECIMAL(4, 2)": [(Decimal("100"), "100", "c"), (Decimal("1.005"), "1.005", "c"), (1.5, "1.5", "c"),
                      (Decimal("NaN"), "NaN", "c"), ("1.5", "'1.5'", "c"), (100, "100", "c")],
    "STRING": [(1, "1", "c"), (b"x", "b'x'", "c"), (Number.ONE, "<Number.ONE: 1>", "c"), (["x"], "['x']", "c")],
    "VARCHAR(2)": [("abc", "'abc'", "c"), (1.5, "1.5", "c")],
    "BYTES": [("x", "'x'", "c"), (5, "5", "c")],
    "VARBINARY(1)": [(b"xy", "b'xy'", "c")],
    "DATE": [(NOON, repr(NOON), "c"), ("2026-01-31", "'2026-01-31'", "c"), (20260131, "20260131", "c"),
             (1.5, "1.5", "c"), (np.int64(1), "1", "c"), (Decimal("1.5"), "1.5", "c")],
    "TIME(3)": [(dt.time(1, tzinfo=dt.UTC), "datetime.time(1, 0, tzinfo", "c"), ("01:02", "'01:02'", "c"),
                (3, "3", "c"), (1.5, "1.5", "c"), (dt.time(1, 2, 3, 4), "01:02:03.000004", "c")],
    "TIMESTAMP(6)": [(INSTANT, repr(INSTANT)[:40], "c"), ("2026-01-31", "'2026-01-31'", "c"), (0, "0", "c"),
                     (1.5, "1.5", "c")],
    "TIMESTAMP(3)": [(dt.datetime(2026, 1, 1, 0, 0, 0, 1), "2026-01-01 00:00:00.000001", "c")],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [(NOON, repr(NOON), "c"), (1.5, "1.5", "c")],
    "VARIANT": [(object, "type", "c")],
    "ARRAY<INT>": [("ab", "'ab'", "c"), ({1: 2}, "{1: 2}", "c"), ([1, "x"], "'x'", "c.element"), (5, "5", "c")],
    "MAP<STRING, INT>": [(5, "5", "c"), ([1], "[1]", "c"), ({1: 2}, "1", "c.key"), ({"k": "v"}, "'v'", "c.value"),
                         ({None: 1}, "None", "c.key")],
    "MULTISET<STRING>": [(["a"], "['a']", "c"), ({"a": 1.5}, "1.5", "c.value")],
    NESTED: [((1, 2), "(1, 2)", "c"), ("x", "'x'", "c"), ({"a": "x", "b": None}, "'x'", "c.a"),
             (Outer(1, Inner(5)), "5", "c.b.c"), ({"a": 1, "b": None, "z": 1}, "'z'", "c")],  # type: ignore[arg-type]
}  # fmt: skip
_FIRST = {name: values[0] for name, values, _ in FITTING}
_CASES = [(type_, *case) for type_, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("type_", "value", "shown", "column"), _CASES)
def test_a_wrong_value_is_named_with_its_row_and_column(type_: str, value: Any, shown: str, column: str) -> None:
    """Sixty and more of them, without a file."""
    convert = PythonRows([parse_column("c", type_)])
    fitting = {"VARCHAR(2)": "ab", "TIMESTAMP(3)": NOON}.get(type_) or _FIRST.get(
        type_, b"x" if "BYTES" in type_ else None
    )
    with pytest.raises(SchemaError) as refused:
        convert("c", [None, fitting if column == "c" else None, value])
    refused.value.name_row(0)
    text = str(refused.value)
    assert shown in text and re.search(rf"column '?{re.escape(column)}\b", text) and "first in row 3 of" in text, text


def test_each_column_has_one_error(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "a INT, b DOUBLE, c ROW<x INT>, d STRING")
    row = namedtuple("row", "a b c d")
    with pytest.raises(SchemaError) as refused:
        table.append([row(1, 2.0, None, "x"), row("one", 2.0, {"x": 1}, "x"), row("two", "x", {"x": "y"}, "x")])
    assert [*re.findall(r"(\S+) does not fit column '(\S+)'.*?row (\d)", str(refused.value))] == [
        ("'one'", "a", "2"), ("'x'", "b", "3"), ("'y'", "c.x", "3"),
    ]  # fmt: skip
    rows = ({"a": i if i < 70_000 else "x"} for i in range(70_001))
    with pytest.raises(SchemaError, match=r"'x' does not fit column 'a'.*first in row 70,001"):
        table.append(rows)


@pytest.mark.parametrize(
    "rows",
    [[{}, {}], ({} for _ in range(2)), pd.DataFrame(index=[0, 1]), pa.table({"x": [1, 2]}).select([])],
    ids=["dictionaries", "iterator", "pandas", "Arrow"],
)
def test_rows_without_any_value_are_rows(tmp_path: Path, rows: Any) -> None:
    table = pp.Table.create(tmp_path / "t", "a INT, b STRING")
    table.append(rows)
    assert table.to_arrow().to_pylist() == [{"a": None, "b": None}] * 2
    by_key = pp.Table.create(tmp_path / "k", "a INT, b STRING", primary_key=["a"], options={"bucket": "1"})
    with pytest.raises(SchemaError, match=r"'a' is NOT NULL and missing from the data.*the data has no column"):
        by_key.append([{}])


def test_without_a_table_rows_are_inferred(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", [Outer(1, None), Named(2, {"c": "x"})], options={"file.format": "avro"})
    assert table.to_arrow().to_pylist() == [{"a": 1, "b": None}, {"a": 2, "b": {"c": "x"}}]
    for mixed in ([b"x", "y"], [dt.date(2026, 1, 1), 5], [dt.time(1), 5], [[NOON], [5]]):
        with pytest.raises(SchemaError, match=r"among|Could not convert"):
            pp.Table.create(tmp_path / "none", {"c": mixed})
