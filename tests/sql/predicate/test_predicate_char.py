"""CHAR(n) columns: comparisons see values as if filled with blanks, however they are stored."""

from __future__ import annotations

import operator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op, Predicate

COMPARE: dict[Op, Any] = {
    Op.EQ: operator.eq, Op.NE: operator.ne, Op.LT: operator.lt, Op.LE: operator.le, Op.GT: operator.gt,
    Op.GE: operator.ge,
}  # fmt: skip
texts = st.text("ab \t\x00é", max_size=5)


def fields(length: int) -> list[DataField]:
    return [DataField(0, "c", parse_type(f"CHAR({length})")), DataField(1, "s", parse_type("STRING"))]


def bound(text: str, length: int = 4) -> Predicate:
    return bind(parse_filter(text), fields(length))


def kept(predicate: Predicate, values: list[str | None]) -> list[bool]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.string()), pa.array(values, pa.string())], names=["c", "s"])
    found: list[bool] = matches(predicate, batch).to_pylist()
    return found


@given(st.integers(1, 4), st.lists(st.none() | texts, min_size=1, max_size=20), texts, st.sampled_from(list(COMPARE)))
def test_values_compare_as_if_filled_with_blanks(length, values, literal, op):
    values = [v if v is None else v[:length] for v in values]
    predicate = bind(Leaf(op, ColumnRef("c"), (literal,)), fields(length))
    expected = [v is not None and COMPARE[op](v.ljust(9), literal.ljust(9)) for v in values]
    assert kept(predicate, values) == expected
    assert kept(bind(predicate, fields(length)), values) == expected


@given(st.lists(st.none() | texts, min_size=1, max_size=20), st.lists(texts, min_size=1, max_size=3))
def test_lists_hold_values_with_and_without_blanks(values, literals):
    values = [v if v is None else v[:4] for v in values]
    inside = {literal.ljust(9) for literal in literals}
    expected = [v is not None and v.ljust(9) in inside for v in values]
    found = bind(Leaf(Op.IN, ColumnRef("c"), tuple(literals)), fields(4))
    assert kept(found, values) == expected
    assert bind(found, fields(4)) == found
    outside = bind(Leaf(Op.NOT_IN, ColumnRef("c"), tuple(literals)), fields(4))
    assert kept(outside, values) == [v is not None and not e for v, e in zip(values, expected, strict=True)]
    assert bind(outside, fields(4)) == outside


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = 'ab'", "c IN ('ab', 'ab ', 'ab  ')"),
        ("c = 'abcd'", "c = 'abcd'"),
        ("c = 'abcd   '", "c = 'abcd'"),
        ("c <> 'abc '", "c NOT IN ('abc', 'abc ')"),
        ("c <= 'ab'", "c <= 'ab  '"),
        ("c > 'ab '", "c > 'ab  '"),
        ("c < 'abc'", "c <= 'abc ' AND c NOT IN ('abc', 'abc ')"),
        ("c >= 'abcd'", "c > 'abcd' OR c = 'abcd'"),
        ("c IN ('abc', NULL)", "c IN ('abc', 'abc ')"),
        ("s = 'ab'", "s = 'ab'"),
    ],
)
def test_what_comparisons_become(text, expected):
    assert to_sql(bound(text)) == expected


def test_a_type_with_too_many_numbers_of_blanks_is_refused():
    with pytest.raises(PredicateError, match=r"column c: values of CHAR\(1000000\) may have too many"):
        bound("c = 'a'", 1_000_000)
    listed = ", ".join(f"'{i}'" for i in range(5000))
    with pytest.raises(PredicateError, match="to be compared with 5,000 texts"):
        bound(f"c NOT IN ({listed})", 255)
    assert isinstance(bound(f"c IN ({listed})", 20), Leaf)


CONDITIONS = [
    *(f"c {op} '{text}'" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")
      for text in ("ab", "ab ", "ab      ", "abcdefg", "a\t", "ab\t", "", "b")),
    "c IN ('ab', 'b')", "c IN ('ab  ', 'abcdefg')", "c NOT IN ('ab')", "NOT (c = 'ab')", "'ab' = c",
    "c IS NULL", "c LIKE 'ab%'", "c LIKE 'a%b%'",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_spark_answers_the_same_of_its_own_tables(spark, tmp_path):
    from pyspark.sql import functions as F

    values = ["", "a", "ab", "ab ", "ab   ", "abc", "abcde", "a\t", "a\t  ", "a b", "b", "ab\t", " ", "  ", None]
    rows = spark.createDataFrame([(n, value) for n, value in enumerate(values)], "n int, c string")
    rows.coalesce(1).write.parquet(str(tmp_path / "p"))
    spark.sql(f"CREATE TABLE padded_values (n INT, c CHAR(5)) USING parquet LOCATION '{tmp_path / 'p'}'")
    try:
        found = spark.table("padded_values").select("n", F.array(*[F.expr(f"({c}) IS TRUE") for c in CONDITIONS]))
        answers = [row[1] for row in sorted(found.collect())]
    finally:
        spark.sql("DROP TABLE padded_values")
    for at, condition in enumerate(CONDITIONS):
        assert kept(bound(condition, 5), values) == [answer[at] for answer in answers], condition
