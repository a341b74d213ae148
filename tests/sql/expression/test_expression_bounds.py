"""Extreme arguments: each function ends soon, in bounded memory, with values or with the one kind of error."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.expression.functions import all_functions
from paimon_pyds.sql.expression.operands import LONGEST_TEXT, MOST_TEXT

DATA = pa.record_batch(
    {
        "i": pa.array([1, -2, None, 2**31 - 1, -(2**31)], pa.int32()),
        "l": pa.array([None, 5, 0, -(2**63), 2**63 - 1], pa.int64()),
        "d": pa.array([0.5, None, float("nan"), -1e300, 15.0]),
        "m": pa.array([None, Decimal("1.50"), Decimal("-2.25"), Decimal(0), Decimal("99999.99")], pa.decimal128(9, 2)),
        "s": ["a", "", None, "é a", "2026-01-31"],
        "at": pa.array([0, None, -1, 2**30, -(2**30)], pa.int32()).cast(pa.date32()),
        "ts": pa.array([0, None, -1, 2**60, -(2**60)], pa.int64()).cast(pa.timestamp("us")),
    }
)
SCOPE = Scope(("t",), from_arrow_schema(DATA.schema))


def _column(text: str) -> pa.Array:
    return bind_expression(text, [SCOPE]).evaluate(DATA)


def _values(text: str) -> list[object]:
    found: list[object] = _column(text).to_pylist()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "lpad(s, 2147483647, 'ab')", "rpad(s, 2147483647)", "repeat(s, 2147483647)", "lpad(s, 100000000)",
        "replace(repeat('a', 10000000), 'a', repeat('b', 1000))",
        "concat_ws(repeat(',', 67000000), s, s, s, s)", "repeat('b', 60000000) || s || repeat(s, 60000000)",
        f"regexp_replace(repeat('a', 2000000), 'a', '{'b' * 1000}')",
    ],
)  # fmt: skip
def test_texts_that_would_take_all_memory_are_refused(text: str) -> None:
    with pytest.raises(
        ExpressionError, match=f"makes (a text|texts) of [0-9,]+ .*at most ({MOST_TEXT:,}|{LONGEST_TEXT:,})"
    ):
        _values(text)


def test_texts_up_to_the_bound_are_made() -> None:
    assert _values("length(repeat('ab', 1000000))") == [2_000_000] * 5
    assert _values("length(regexp_replace(repeat('a', 1000), 'a', 'bb'))") == [2000] * 5
    assert _values("replace(s, 'a', '')") == ["", "", None, "é ", "2026-01-31"]
    assert _values("substring(s, -1, 2147483647)") == ["a", "", None, "a", "1"]
    assert _values("lpad(s, NULL, 'x')") == [None] * 5


@pytest.mark.parametrize("digits", [-2147483648, -400, -20, 400, 2147483647])
def test_rounding_to_digits_that_no_number_has(digits: int) -> None:
    beyond = digits < 0
    rows = [("i", DATA["i"]), ("m", DATA["m"])]
    for name, column in rows:
        expected = [None if v is None else 0 if beyond else v for v in column.to_pylist()]
        assert _values(f"round({name}, {digits})") == expected
    if digits != -20:
        kept = [0.0, None, "nan", 0.0, 0.0] if beyond else [0.5, None, "nan", 1e300, 15.0]
        assert [v if v is None or v == v else "nan" for v in _values(f"abs(round(d, {digits}))")] == kept


def test_large_doubles_are_rounded_to_many_digits() -> None:
    assert _values("round(1e299, 200)") == [1e299] * 5
    assert _values("round(1.25e-300, 301)") == [1.3e-300] * 5


NUMBERS = ["0", "-1", "2147483647", "-2147483648", "9223372036854775807L", "1e308", "-1e-308", "NULL", "1" * 38 + "BD"]
TEXTS = ["''", "'a'", "'%'", "'\\\\u00e9'", "'" + "x%_" * 500 + "'", "'2147483647'", "'9999999-12-31'", "'1e999999999'"]
ARGUMENTS = st.sampled_from(["i", "l", "d", "m", "s", "at", "ts", "true", *NUMBERS, *TEXTS])


@given(
    st.sampled_from(sorted(name for name in all_functions() if name.isidentifier())), st.lists(ARGUMENTS, max_size=4)
)
def test_extreme_arguments_give_values_or_the_one_error(name: str, arguments: list[str]) -> None:
    try:
        found = _column(f"{name}({', '.join(arguments)})")
    except ExpressionError as error:
        assert len(str(error)) < 20_000
        return
    assert len(found) == 5


@given(st.sampled_from(["+", "-", "*", "/", "%", "div", "||", "&", "=", "<", "LIKE"]), ARGUMENTS, ARGUMENTS)
def test_extreme_operands_give_values_or_the_one_error(operator: str, left: str, right: str) -> None:
    try:
        assert len(_column(f"{left} {operator} {right}")) == 5
    except ExpressionError:
        pass


@given(
    ARGUMENTS, st.sampled_from(["int", "bigint", "decimal(38, 38)", "double", "date", "timestamp", "string", "char(3)"])
)
def test_extreme_casts_give_values_or_the_one_error(value: str, target: str) -> None:
    try:
        assert len(_column(f"cast({value} as {target})")) == 5
    except ExpressionError:
        pass
