"""Expressions over batches: values, names, errors. How they compare with Spark is in test_expression_spark."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from paimon_pyds.base.types import AtomicType, DataField, Kind, from_arrow_schema
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_condition, bind_expression
from paimon_pyds.sql.expression.condition import bind_rows_condition
from paimon_pyds.sql.expression.operators import math
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import And, Computed, Const, is_computed, leaves

BATCH = pa.record_batch(
    {
        "a": pa.array([1, 2, None], pa.int32()),
        "b": pa.array([0, 5, 6], pa.int64()),
        "s": ["x", None, "zz"],
        "d": pa.array([1.5, 2, None]),
        "r": pa.array([{"x": 1, "y": "p"}, None, {"x": 3, "y": None}]),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    }
)
FIELDS = from_arrow_schema(BATCH.schema)
SCOPES = (Scope(("target", "t"), FIELDS),)


def values(text: Any, **options: Any) -> list[Any]:
    bound = bind_expression(text, SCOPES, **options)
    assert pickle.loads(pickle.dumps(bound)).evaluate(BATCH).equals(bound.evaluate(BATCH))
    found: list[Any] = bound.evaluate(BATCH).to_pylist()
    return found


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * 2", [1, 12, None]),
        ("CASE WHEN b <> 0 THEN a / b END", [None, 0.4, None]),
        ("CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'none' END", ["one", "two", "none"]),
        ("coalesce(a, d, 7)", [1.0, 2.0, 7.0]),
        ("t.a + TARGET.b", [1, 7, None]),
        ("r.x", [1, None, 3]),
        ("ltrim('z', s)", ["x", None, ""]),
        ("trim('x', s)", ["", None, "zz"]),
        ("trim(LEADING 'z' FROM s)", ["x", None, ""]),
        ("btrim(s, 'z')", ["x", None, ""]),
        ("t.r.Y", ["p", None, None]),
        ("m['k']", [1, None, None]),
        ("b <> 0 AND a / b < 1", [False, True, None]),
        ("b = 0 OR 1 / b > 0", [True, True, True]),
        ("NOT a IN (1, NULL)", [False, None, None]),
        ("concat_ws('-', nullif(s, s), nullif(s, s))", ["", "", ""]),
        ("if(a > 1, 'big', 'small')", ["small", "big", "small"]),
        ("1.10 * 2", [Decimal("2.20")] * 3),
        ("-(a::string)::int", [-1, -2, None]),
        ("CAST(4.9E-324D * a AS STRING)", ["4.9E-324", "9.9E-324", None]),
        (5, [5, 5, 5]),
        (None, [None, None, None]),
        (dt.date(2026, 1, 31), [dt.date(2026, 1, 31)] * 3),
        (pc.field("a") + pc.field("b"), [1, 7, None]),
    ],
)  # fmt: skip
def test_values(text: Any, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a +", "ends here"),
        ("a / b", "division by zero"),
        ("nosuch", "no column 'nosuch'"),
        ("aa + 1", "no column"),
        ("a = true", "no common type"),
        ("s + 1", "'x' is not an integer"),
        ("coalescee(a)", "did you mean coalesce"),
        ("if(a, 1, 2)", "a condition is wanted"),
        ("if(true)", "takes 3 arguments"),
        ("9223372036854775807 + b", "outside the range"),
        ("127Y + 1Y", "outside the range"),
        ("cast('x' as int)", "'x' is not an integer"),
        ("(select 1)", "subqueries"),
        ("r.z", "no field 'z'"),
        ("a.b", "no part"),
        ("a b", "expected the end"),
        ("case end", "expected"),
        ("s like 'a' escape '/' '/'", "expected the end of the expression, found '/'"),
        ("s = date '2026-02-30'", "2026-02-30'\n           ^"),
        ("coalesce(null, time '01:00:00.0005')", "finer than the milliseconds of TIME"),
    ],
)
def test_errors(text: str, part: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        bind_expression(text, SCOPES).evaluate(BATCH)
    assert part in str(caught.value)


def test_ambiguous_names() -> None:
    scopes = (Scope(("target", "t"), FIELDS, "target."), Scope(("source", "s"), FIELDS, "source."))
    with pytest.raises(ExpressionError, match=r"(?s)is in target and source.*write target\.a"):
        bind_expression("a", scopes)
    assert sorted(bind_expression("target.a + s.b", scopes).columns) == ["source.b", "target.a"]


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("b + 1", AtomicType(Kind.TINYINT), [1, 6, 7]),
        ("b", AtomicType(Kind.DECIMAL, precision=5, scale=2), [Decimal("0.00"), Decimal("5.00"), Decimal("6.00")]),
        ("s", AtomicType(Kind.CHAR, length=3), ["x", None, "zz"]),
        ("a", AtomicType(Kind.VARCHAR, length=10), ["1", "2", None]),
        ("'ab  '", AtomicType(Kind.VARCHAR, length=3), ["ab ", "ab ", "ab "]),
        ("NULL", AtomicType(Kind.INT), [None, None, None]),
    ],
)
def test_assignment(text: str, type_: AtomicType, expected: list[Any]) -> None:
    assert values(text, target=DataField(0, "c", type_)) == expected


@pytest.mark.parametrize(
    ("text", "type_", "part"),
    [
        ("b * 100", AtomicType(Kind.TINYINT), "column 'c'"),
        ("'5'", AtomicType(Kind.INT), "CAST"),
        ("true", AtomicType(Kind.INT), "BOOLEAN can't be stored in a column of type INT"),
        ("'abcd'", AtomicType(Kind.VARCHAR, length=3), r"'abcd' does not fit VARCHAR\(3\)"),
        ("b * 1000", AtomicType(Kind.DECIMAL, precision=5, scale=2), "does not fit"),
    ],
)
def test_refused_assignment(text: str, type_: AtomicType, part: str) -> None:
    with pytest.raises(ExpressionError, match=part):
        values(text, target=DataField(0, "c", type_))


def test_conditions_are_taken_apart() -> None:
    found = bind_rows_condition(
        "Target . a = 1 AND b < t.a + 3 AND (s = 'x' OR s IS NULL)", FIELDS, qualifiers=("target", "t")
    )
    assert isinstance(found, And)
    (on_rows,) = (part for part in found.children if isinstance(part, Computed))
    assert on_rows.text == "b < t.a + 3"
    assert sorted(on_rows.columns) == ["a", "b"]
    assert {str(leaf.column) for leaf in leaves(found)} == {"a", "s"}
    assert matches(found, BATCH).to_pylist() == [True, False, False]
    assert not is_computed(bind_rows_condition("a = 1 AND s = 'x'", FIELDS))
    assert bind_rows_condition(None, FIELDS) is Const.TRUE
    assert matches(bind_rows_condition(pc.field("a") > 1, FIELDS), BATCH).to_pylist() == [False, True, False]
    with pytest.raises(ExpressionError, match="a condition is wanted"):
        bind_rows_condition("a = 1 AND b + 1", FIELDS)


def test_conditions_are_boolean() -> None:
    assert bind_condition("a = 1", SCOPES).matches(BATCH).to_pylist() == [True, False, False]
    assert bind_condition(pc.field("a") > 1, SCOPES).matches(BATCH).to_pylist() == [False, True, False]
    with pytest.raises(ExpressionError):
        bind_condition("a + 1", SCOPES)


def test_no_rows() -> None:
    empty = BATCH.slice(0, 0)
    for text in ("a + b", "CASE WHEN a > 1 THEN 1 ELSE 2 END", "coalesce(a, b)", "a IN (1, 2) OR b > 1", "1"):
        assert bind_expression(text, SCOPES).evaluate(empty).to_pylist() == []


@pytest.mark.parametrize("divisor", [1, -1, 3, -3, 8, -128, 127])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_remainder_by_one_number_has_the_sign_of_the_dividend(width: int, divisor: int) -> None:
    least, greatest = -(1 << width - 1), (1 << width - 1) - 1
    numbers = [*range(-20, 21), None, least, least + 1, greatest, greatest - 1]
    column = pa.array(numbers, getattr(pa, f"int{width}")())
    found = math(column, pa.scalar(divisor, column.type), "%")
    expected = [None if n is None else abs(n) % abs(divisor) * (-1 if n < 0 else 1) for n in numbers]
    assert found.to_pylist() == expected
    assert math(column, pa.array([divisor] * len(numbers), column.type), "%").equals(found)
