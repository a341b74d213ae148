"""Pushed filters, evaluated, against what SQL says of the same rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from paimon_pyds.base.types import DataField, from_arrow_schema, parse_type
from paimon_pyds.spark.filters import PushedColumn, to_predicate
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches

source = pytest.importorskip("pyspark.sql.datasource", reason="needs pyspark")
if not hasattr(source, "EqualTo"):
    pytest.skip("this Spark pushes no filters", allow_module_level=True)

EqualNullSafe, EqualTo, In, IsNotNull, IsNull, Not = (
    getattr(source, name) for name in ("EqualNullSafe", "EqualTo", "In", "IsNotNull", "IsNull", "Not")
)
GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual = (
    getattr(source, name) for name in ("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")
)
StringContains, StringEndsWith, StringStartsWith = (
    getattr(source, name) for name in ("StringContains", "StringEndsWith", "StringStartsWith")
)

pytestmark = pytest.mark.spark

NAN = float("nan")
ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 4], pa.int32()),
        "s": pa.array(["ab", "b%", None, ""]),
        "d": pa.array([0.0, NAN, None, -1.5]),
        "f": pa.array([1.1, -0.0, None, 2.5], pa.float32()),
        "b": pa.array([True, False, None, True]),
        "n": pa.array([Decimal("1.10"), Decimal("2.00"), None, Decimal("-3.25")], pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2024, 1, 1), dt.date(1969, 12, 31), None, dt.date(2024, 1, 2)]),
        "at": pa.array(
            [dt.datetime(2024, 1, 1, 12), dt.datetime(1969, 1, 1), None, dt.datetime(2024, 1, 1)], pa.timestamp("us")
        ),
        "utc": pa.array(
            [dt.datetime(2024, 1, 1, 12), dt.datetime(1969, 1, 1), None, dt.datetime(2024, 1, 1)],
            pa.timestamp("us", "UTC"),
        ),
        "raw": pa.array([b"\x00", b"\xff", None, b""]),
        "st": pa.array([{"a": 1, "B": "x"}, {"a": None, "B": "y"}, None, {"a": 4, "B": None}]),
    }
)
FIELDS = from_arrow_schema(ROWS.schema)
COLUMNS = {f.name: PushedColumn(f) for f in FIELDS}
UTC = dt.UTC


def kept(filter_):
    predicate = to_predicate(filter_, COLUMNS)
    assert predicate is not None
    mask = matches(bind(predicate, FIELDS), ROWS.combine_chunks().to_batches()[0])
    return [i for i, m in enumerate(pa.array(mask).to_pylist()) if m]


@pytest.mark.parametrize(
    ("filter_", "rows"),
    [
        (EqualTo(("i",), 2), [1]),
        (Not(EqualTo(("i",), 2)), [0, 3]),
        (EqualTo(("i",), None), []),
        (Not(EqualTo(("i",), None)), []),
        (EqualNullSafe(("i",), 2), [1]),
        (Not(EqualNullSafe(("i",), 2)), [0, 2, 3]),
        (EqualNullSafe(("i",), None), [2]),
        (Not(EqualNullSafe(("i",), None)), [0, 1, 3]),
        (GreaterThan(("i",), 1), [1, 3]),
        (Not(GreaterThan(("i",), 1)), [0]),
        (GreaterThanOrEqual(("i",), 2), [1, 3]),
        (LessThan(("i",), 2), [0]),
        (LessThanOrEqual(("i",), 2), [0, 1]),
        (In(("i",), [1, 4, 9]), [0, 3]),
        (In(("i",), [1, None]), [0]),
        (In(("i",), [None]), []),
        (Not(In(("i",), [1, 9])), [1, 3]),
        (Not(In(("i",), [1, None])), []),
        (In(("i",), []), []),
        (IsNull(("i",)), [2]),
        (Not(IsNull(("i",))), [0, 1, 3]),
        (IsNotNull(("i",)), [0, 1, 3]),
        (Not(Not(EqualTo(("i",), 2))), [1]),
        (StringStartsWith(("s",), "b%"), [1]),
        (StringStartsWith(("s",), ""), [0, 1, 3]),
        (Not(StringStartsWith(("s",), "a")), [1, 3]),
        (StringEndsWith(("s",), "b"), [0]),
        (StringContains(("s",), "%"), [1]),
        (EqualTo(("s",), ""), [3]),
        (EqualTo(("d",), NAN), [1]),
        (GreaterThan(("d",), -1.5), [0, 1]),
        (EqualTo(("d",), -0.0), [0]),
        (EqualTo(("f",), 0.0), [1]),
        (EqualTo(("f",), 1.100000023841858), [0]),
        (EqualTo(("b",), True), [0, 3]),
        (Not(EqualTo(("b",), True)), [1]),
        (EqualTo(("n",), Decimal("2.00")), [1]),
        (LessThan(("n",), Decimal("1.10")), [3]),
        (GreaterThan(("day",), dt.date(1970, 1, 1)), [0, 3]),
        (EqualTo(("at",), dt.datetime(2024, 1, 1, 12)), [0]),
        (LessThan(("utc",), dt.datetime(2024, 1, 1, tzinfo=UTC)), [1]),
        (In(("raw",), [b"\xff", b""]), [1, 3]),
        (EqualTo(("st", "a"), 4), [3]),
        (IsNull(("st", "a")), [1, 2]),
        (EqualTo(("st", "b"), "x"), [0]),
    ],
    ids=str,
)
def test_filters(filter_, rows):
    assert kept(filter_) == rows


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("nope",), 1),
        EqualTo(("st",), {"a": 1}),
        EqualTo(("i", "a"), 1),
        EqualTo(("st", "nope"), 1),
        EqualTo(("i",), [1]),
        In(("i",), [1, [2]]),
        Not(In(("i",), [])),
    ],
    ids=str,
)
def test_what_is_given_back(filter_):
    assert to_predicate(filter_, COLUMNS) is None


def test_columns_read_as_another_type_are_given_back():
    assert to_predicate(EqualTo(("i",), 1), {"i": PushedColumn(FIELDS[0], same_type=False)}) is None


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIMESTAMP(7) WITH LOCAL TIME ZONE", "TIME(3)"])
def test_types_that_spark_compares_otherwise_are_given_back(text):
    columns = {"t": PushedColumn(DataField(0, "t", parse_type(text)))}
    assert to_predicate(EqualTo(("t",), dt.datetime(2024, 1, 1)), columns) is None
    assert to_predicate(IsNull(("t",)), columns) is None


def test_another_spelling_of_the_column():
    columns = {"I": PushedColumn(FIELDS[0])}
    predicate = to_predicate(EqualTo(("I",), 1), columns)
    assert predicate is not None
    assert predicate.column.name == "i"
