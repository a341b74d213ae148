"""The filter language: what texts mean, where errors point, and an independent parser's reading of random texts."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, Kind, parse_type
from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_condition
from paimon_pyds.sql.expression.condition import bind_filter
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import (
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    root_columns,
)
from paimon_pyds.sql.text.lexer import MAX_DEPTH
from paimon_pyds.sql.text.tree import Literal
from support.effort import examples

FIELDS = [
    DataField(i, name, parse_type(type_))
    for i, (name, type_) in enumerate(
        [
            ("a", "INT"),
            ("b", "INT"),
            ("c", "INT"),
            ("flag", "BOOLEAN"),
            ("s", "STRING"),
            ("time", "TIME(3)"),
            ("d", "DATE"),
        ]
    )
]


def leaf(text: str) -> Leaf:
    found = parse_filter(text)
    assert isinstance(found, Leaf)
    return found


def value(text: str) -> tuple[Any, str]:
    """The value and the type of the literal in ``x = text``."""
    literal = leaf(f"x = {text}").literals[0]
    assert isinstance(literal, Literal)
    return literal.value, "NULL" if literal.type is None else str(literal.type)


@pytest.mark.parametrize(
    ("text", "expected", "type_"),
    [
        ("1", 1, "INT"),
        ("-2147483648", -(2**31), "INT"),
        ("2147483648", 2**31, "BIGINT"),
        ("-9223372036854775808", -(2**63), "BIGINT"),
        ("9223372036854775808", Decimal(2**63), "DECIMAL(19, 0)"),
        ("1L", 1, "BIGINT"),
        ("1l", 1, "BIGINT"),
        ("-32768S", -32768, "SMALLINT"),
        ("127Y", 127, "TINYINT"),
        ("-128y", -128, "TINYINT"),
        ("1.50", Decimal("1.50"), "DECIMAL(3, 2)"),
        (".5", Decimal("0.5"), "DECIMAL(1, 1)"),
        ("5.", Decimal(5), "DECIMAL(1, 0)"),
        ("1.5BD", Decimal("1.5"), "DECIMAL(2, 1)"),
        ("1e3bd", Decimal(1000), "DECIMAL(4, 0)"),
        ("1.5D", 1.5, "DOUBLE"),
        ("1e-1", 0.1, "DOUBLE"),
        ("0.1F", 0.10000000149011612, "FLOAT"),
        ("- 1", -1, "INT"),
        ("- -1", 1, "INT"),
        ("+1", 1, "INT"),
        ("-(1.5)", Decimal("-1.5"), "DECIMAL(2, 1)"),
        ("((1))", 1, "INT"),
        ("'x'", "x", "STRING"),
        ('"x"', "x", "STRING"),
        ("'a''b'", "a'b", "STRING"),
        ("'a' 'b'\n\"c\"", "abc", "STRING"),
        (r"'\n\t\0\\\'\q'", "\n\t\0\\'q", "STRING"),
        (r"'\%\_'", "\\%\\_", "STRING"),
        (r"'\u00e9\141\U0001F600\ud83d\ude00'", "éa😀😀", "STRING"),
        (r"r'\n'", "\\n", "STRING"),
        (r'R"a\b"', "a\\b", "STRING"),
        ("''", "", "STRING"),
        ("X'1aFf'", b"\x1a\xff", "BYTES"),
        ("X'abc'", b"\x0a\xbc", "BYTES"),
        ("x''", b"", "BYTES"),
        ("TRUE", True, "BOOLEAN"),
        ("false", False, "BOOLEAN"),
        ("NULL", None, "NULL"),
        ("DATE '2020-01-02'", 18263, "DATE"),
        ("date'2020-1-2 rest'", 18263, "DATE"),
        ("DATE '1969'", -365, "DATE"),
        ("DATE '-0001-01-01'", -719893, "DATE"),
        ("TIMESTAMP '2020-01-01'", 1577836800000000, "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP '2020-01-01T00:00:01.5+01:00'", 1577833201500000, "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_LTZ '2020-01-01 00:00:00 Europe/Berlin'", 1577833200000000, "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP_NTZ '2020-01-01 00:00:00 Europe/Berlin'", 1577836800000000, "TIMESTAMP(6)"),
        ("TIMESTAMP_NTZ '1970-01-01 00:00:00.000000001'", 1, "TIMESTAMP(9)"),
        ("TIME '12:30'", 45_000_000_000, "TIME(6)"),
        ("TIME '1:2:3.5 PM'", 46_923_500_000, "TIME(6)"),
        ("CAST('1' AS BIGINT)", 1, "BIGINT"),
        ("CAST(1.9 AS INT)", 1, "INT"),
        ("CAST(-1.25 AS DECIMAL(2, 1))", Decimal("-1.3"), "DECIMAL(2, 1)"),
        ("'1.5' :: double", 1.5, "DOUBLE"),
        ("CAST(CAST('7' AS INT) AS STRING)", "7", "STRING"),
        ("CAST('0.1' AS FLOAT)", 0.10000000149011612, "FLOAT"),
        ("CAST('2020-01-02' AS DATE)", 18263, "DATE"),
        ("CAST(DATE '2020-01-02' AS TIMESTAMP_NTZ)", 1577923200000000, "TIMESTAMP(6)"),
        ("CAST(TIMESTAMP '2020-01-02 03:04:05' AS DATE)", 18263, "DATE"),
        ("CAST('inf' AS DOUBLE)", math.inf, "DOUBLE"),
        ("int('5')", 5, "INT"),
        ("decimal('1.5')", Decimal(2), "DECIMAL(10, 0)"),
        ("CAST('12:30:01.123456' AS TIME(3))", 45_001_123_000, "TIME(6)"),
        ("CAST(true AS INT)", 1, "INT"),
        ("CAST('yes' AS BOOLEAN)", True, "BOOLEAN"),
        ("CAST('ab' AS BINARY)", b"ab", "BYTES"),
        ("CAST(NULL AS INT)", None, "INT"),
    ],
)
def test_literals(text: str, expected: Any, type_: str) -> None:
    assert value(text) == (expected, type_)


def test_timestamps_without_a_zone_are_read_in_the_given_one() -> None:
    found = parse_filter("x > TIMESTAMP '2020-07-01 12:00:00'", timezone="Europe/Berlin")
    assert isinstance(found, Leaf)
    assert found.literals[0].value == 1593597600000000
    with pytest.raises(PredicateError, match="not a time zone"):
        parse_filter("x > TIMESTAMP '2020-07-01'", timezone="Mars/Olympus")


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("a IS NULL", "a", ()),
        ("`a.b` IS NULL", "a.b", ()),
        ("`a``b` IS NULL", "a`b", ()),
        ("a.b.c IS NULL", "a", ("b", "c")),
        ("a . `b c` IS NULL", "a", ("b c",)),
        ("a.1b IS NULL", "a", ("1b",)),
        ("m['k'] IS NULL", "m", (MapKey("k"),)),
        ('m["k"].x IS NULL', "m", (MapKey("k"), "x")),
        ("m[-1] IS NULL", "m", (MapKey(-1),)),
        ("element_at(m, 'k') IS NULL", "m", (MapKey("k"),)),
        ("2020_sales IS NULL", "2020_sales", ()),
        ("date IS NULL", "date", ()),
        ("timestamp.time IS NULL", "timestamp", ("time",)),
        ("größe IS NULL", "größe", ()),
        ("e1 IS NULL", "e1", ()),
        ("٣ IS NULL", "٣", ()),
        ("isnull(a)", "a", ()),
    ],
)
def test_columns(text: str, name: str, path: tuple[Any, ...]) -> None:
    assert leaf(text) == Leaf(Op.IS_NULL, ColumnRef(name, path))


def shape(predicate: Predicate) -> Any:
    """A short form of a tree."""
    if isinstance(predicate, Leaf):
        return (predicate.column.name, predicate.op.value, *(getattr(v, "value", v) for v in predicate.literals))
    if isinstance(predicate, Const):
        return predicate.value
    word = "AND" if isinstance(predicate, And) else "OR"
    return (word, *map(shape, predicate.children))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a == 1", ("a", "=", 1)),
        ("a != 1", ("a", "<>", 1)),
        ("a !> 1", ("a", "<=", 1)),
        ("a !< 1", ("a", ">=", 1)),
        ("1 < a", ("a", ">", 1)),
        ("1 !< a", ("a", "<=", 1)),
        ("a <=> 1", ("a", "=", 1)),
        ("a <=> NULL", ("a", "IS NULL")),
        ("NOT a <=> NULL", ("a", "IS NOT NULL")),
        ("NOT (a <=> 1)", ("OR", ("a", "IS NULL"), ("a", "<>", 1))),
        ("a IS DISTINCT FROM 1", ("OR", ("a", "IS NULL"), ("a", "<>", 1))),
        ("a IS NOT DISTINCT FROM NULL", ("a", "IS NULL")),
        ("a = NULL", ("a", "=", None)),
        ("NOT (a = NULL)", ("a", "<>", None)),
        ("a = 1 OR b = 2 AND c = 3", ("OR", ("a", "=", 1), ("AND", ("b", "=", 2), ("c", "=", 3)))),
        ("NOT a = 1 AND b = 2", ("AND", ("a", "<>", 1), ("b", "=", 2))),
        ("NOT (a = 1 OR b = 2 AND NOT c = 3)",
         ("AND", ("a", "<>", 1), ("OR", ("b", "<>", 2), ("c", "=", 3)))),
        ("! flag", ("flag", "<>", True)),
        ("flag and not not flag", ("AND", ("flag", "=", True), ("flag", "=", True))),
        ("flag IS TRUE", ("flag", "=", True)),
        ("flag IS NOT TRUE", ("OR", ("flag", "IS NULL"), ("flag", "<>", True))),
        ("flag IS UNKNOWN", ("flag", "IS NULL")),
        ("a = 1 IS TRUE", ("a", "=", 1)),
        ("(a = 1) IS NOT TRUE", ("OR", ("a", "IS NULL"), ("a", "<>", 1))),
        ("(a = 1) = false", ("a", "<>", 1)),
        ("true = (a = 1)", ("a", "=", 1)),
        ("(a = 1) <=> NULL",
         ("AND", ("OR", ("a", "IS NULL"), ("a", "<>", 1)), ("OR", ("a", "IS NULL"), ("a", "=", 1)))),
        ("a BETWEEN 1 AND 2 AND b = 1", ("AND", ("a", ">=", 1), ("a", "<=", 2), ("b", "=", 1))),
        ("a NOT BETWEEN 1 AND 2", ("OR", ("a", "<", 1), ("a", ">", 2))),
        ("2 BETWEEN a AND 3", ("AND", ("a", "<=", 2), "TRUE")),
        ("a IN (1, 2, NULL)", ("a", "IN", 1, 2, None)),
        ("a NOT IN (1)", ("a", "NOT IN", 1)),
        ("NOT a IN (1)", ("a", "NOT IN", 1)),
        ("1 IN (a, b)", ("OR", ("a", "=", 1), ("b", "=", 1))),
        ("(a IN (1, NULL)) IS NOT TRUE", ("OR", ("a", "IS NULL"), ("a", "NOT IN", 1))),
        ("(a NOT IN (1, NULL)) IS NOT TRUE", "TRUE"),
        ("(a IN (1, NULL)) IS NOT FALSE", "TRUE"),
        ("(a = NULL) IS NULL", ("AND", "TRUE", "TRUE")),
        ("s LIKE 'a#%' ESCAPE '#'", ("s", "LIKE", "a#%", "#")),
        ("s NOT LIKE 'a%'", ("s", "NOT LIKE", "a%", "\\")),
        ("s LIKE ANY ('a%', 'b')", ("OR", ("s", "LIKE", "a%", "\\"), ("s", "LIKE", "b", "\\"))),
        ("s NOT LIKE ALL ('a%', 'b')", ("AND", ("s", "NOT LIKE", "a%", "\\"), ("s", "NOT LIKE", "b", "\\"))),
        ("s NOT LIKE ANY ('a%', 'b')", ("OR", ("s", "NOT LIKE", "a%", "\\"), ("s", "NOT LIKE", "b", "\\"))),
        ("startswith(s, 'a')", ("s", "STARTSWITH", "a")),
        ("NOT CONTAINS(s, 'a')", ("s", "NOT CONTAINS", "a")),
        ("isnotnull(a) or isnan(a)", ("OR", ("a", "IS NOT NULL"), ("a", "=", math.nan))),
        ("1 = 1 AND a = 1", ("AND", "TRUE", ("a", "=", 1))),
        ("1 <> 1.0 OR 'a' < 'b'", ("OR", "FALSE", "TRUE")),
        ("1 = NULL", "UNKNOWN"),
        ("NOT NULL", "UNKNOWN"),
        ("NULL IS NULL", "TRUE"),
        ("NULL <=> 1", "FALSE"),
        ("NOT (NULL <=> NULL)", "FALSE"),
        ("double('nan') = double('nan')", "TRUE"),
        ("a /* why */ = -- so\n 1", ("a", "=", 1)),
        ("a=1and b=2", None),
    ],
)  # fmt: skip
def test_trees(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(PredicateError):
            parse_filter(text)
    else:
        assert repr(shape(parse_filter(text))) == repr(expected)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", "", "there is no condition"),
        ("  -- nothing", "", "there is no condition"),
        ("WHERE a = 1", "WHERE", "this takes a condition only"),
        ("a = ", "", "the condition ends here"),
        ("a = )", ")", "found )"),
        ("a = 1 b", "b", "expected the end of the condition, found b"),
        ("(a = 1", "", "expected ')'"),
        ("a = 'x", "'x", "is not closed"),
        ("`a = 1", "`a", "is not closed"),
        ("a /* x = 1", "/*", "comment is not closed"),
        ("a = $1", "$1", "has no meaning in a condition"),
        ("a = 1 AND a IN (SELECT b)", "SELECT", "subqueries are not supported"),
        ("(SELECT 1) = a", "(SELECT", "subqueries"),
        ("EXISTS (SELECT 1)", "EXISTS", "subqueries are not supported"),
        ("a > INTERVAL '1-2' YEAR TO MONTH", "TO", "intervals from one unit TO another are not supported"),
        ("d > d + INTERVAL 1 MONTH 2 DAYS", "INTERVAL", "years and months, or days and smaller units, not both"),
        ("d > d + INTERVAL 1 FORTNIGHT", "FORTNIGHT", "expected a unit of time"),
        ("d > d + INTERVAL 2147483648 MONTHS", "INTERVAL", "the interval is too long"),
        ("d > d + INTERVAL '1 daay'", "'1 daay'", "'daay' is no unit of time"),
        ("d > d + INTERVAL 1.5 DAYS", "1.5", "'1.5' is no number of days"),
        ("(a, b) < (1, 2)", "(a, b)", "statistics and indexes can't answer"),
        ("a = 1 && b = 2", "&&", "write AND"),
        ("a = 1;", ";", "no semicolon"),
        ("a IN ()", ")", "at least one value"),
        ("a IN 1", "1", "expected '('"),
        ("a NOT 1", "1", "IN, BETWEEN or LIKE"),
        ("a IS 1", "1", "NULL, TRUE, FALSE or DISTINCT FROM"),
        ("a BETWEEN 1", "", "expected AND"),
        ("a LIKE 5", "5", "LIKE takes a string"),
        ("s LIKE 'a#b' ESCAPE '#'", "'a#b'", "stands before 'b'"),
        ("s LIKE 'a\\\\'", "'a\\\\'", "ends with its escape character"),
        ("s LIKE 'a' ESCAPE 'ab'", "'ab'", "one character"),
        ("DATE '2020-13-01' = d", "'2020", "is not a date"),
        ("d = DATE 'today'", "'today'", "values of the clock"),
        ("TIMESTAMP '2020-01-01 25:00:00' = d", "'2020", "is not a timestamp"),
        ("time = TIME '12'", "'12'", "is not a time of day"),
        ("x = TIMESTAMP '2020-01-01 00:00:00 Mars/X'", "'2020", "is not a time zone"),
        ("a = 1000Y", "1000Y", "does not fit TINYINT"),
        ("a = 128Y", "128Y", "does not fit TINYINT"),
        ("a = 1.5L", "1.5L", "is not an integer"),
        ("a = 1e400", "1e400", "too large"),
        ("a = 1e39F", "1e39F", "too large"),
        ("a = 123456789012345678901234567890123456789", "1234", "at most 38"),
        ("a = 1e999999999BD", "1e9", "38 digits"),
        ("a = CAST('x' AS INT)", "'x'", "is not an integer"),
        ("a = CAST(300 AS TINYINT)", "300", "does not fit TINYINT"),
        ("a = CAST(1 AS BINARY)", "1 AS", "can't be cast to VARBINARY"),
        ("s = CAST(a AS VARCHAR)", "VARCHAR", "VARCHAR needs a length"),
        ("s = CAST(a AS char)", "char", "CHAR needs a length"),
        ("a = CAST(1 AS MAP)", ")", "expected '<', found )"),
        ("a = CAST(1 AS DECIMAL(99))", "DECIMAL", "1 to 38 digits"),
        ("x = X'zz'", "X'zz'", "hexadecimal"),
        ("s = '\\ud800'", "'\\ud", "surrogate"),
        ('"a" = 1', '"a"', "can't be compared with"),
        ("'a'", "'a'", "expected a condition, found a literal"),
        ("a AND 5", "5", "expected a condition, found a literal"),
        ("and = 1", "and", "found and"),
        ("a.", "", "expected a field name"),
        ("a IS NULL IS NULL", "IS NULL", "expected the end of the condition"),
        ("a IN (1) = true", "= true", "expected the end of the condition"),
        ("a = 1 AND\nb = = 2", "= 2", "expected an expression"),
    ],
)  # fmt: skip
def test_errors_point_at_the_place(text: str, at: str, message: str) -> None:
    _check_caret(lambda: parse_filter(text), at, message)


def _check_caret(read: Callable[[], object], at: str, message: str) -> None:
    with pytest.raises(PredicateError) as caught:
        read()
    assert message in str(caught.value)
    head, line, caret = caught.value.message.split("\n")
    assert head.startswith("condition: ")
    column = len(caret) - 1
    assert caret == " " * column + "^"
    assert line[column:].startswith(at) if at else column == len(line)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("b = 1 AND upper(t) = 'X'", "t)", "no column 't'"),
        ("a = 1 AND uper(s) = 'X'", "uper", "did you mean upper"),
        ("startswith(s)", "startswith", "takes 2 arguments, not 1"),
        ("a + b", "a + b", "a condition is wanted, this is a INT"),
        ("a = 1 AND coalesce(s, 'x')", "coalesce", "a condition is wanted"),
        ("nosuch > 1", "nosuch", "no column 'nosuch'"),
        ("a = 1 AND flag > 2 + 1", "flag", "can't be compared with"),
        ("m[a] = 1", "m[", "no column 'm'"),
        ("a = CAST('x' AS INT)", "CAST", "is not an integer"),
        ("flag AND s", "s", "expected a condition, found column s"),
        ("s RLIKE '('", "s RLIKE", "the pattern '(' is not supported"),
        ("a BETWEEN current_date() AND 3", "a BET", "can't be compared with"),
    ],
)  # fmt: skip
def test_errors_of_names_and_types_point_at_the_place(text: str, at: str, message: str) -> None:
    _check_caret(lambda: bind_filter(text, FIELDS), at, message)


@pytest.mark.parametrize(
    "text",
    [
        "a = b", "a * 2 = 2", "abs(a) = 1", "a = -b", "upper(s) = 'X'", "CASE WHEN a = 1 THEN true END", "s RLIKE 'x'",
        "s ILIKE 'x'", "CAST(a AS STRING) < '1'", "startswith('a', s)", "flag = (a = 1)", "substr(s, 2, 2) IN ('a')",
        "a IN (1, b)", "(a + 1) IS NULL", "isnan(a / 2)", "coalesce(flag, true)", "month(d) = 2",
    ],
)  # fmt: skip
def test_what_only_rows_can_answer_is_left_to_them(text: str) -> None:
    with pytest.raises(PredicateError, match="statistics and indexes can't answer this condition"):
        parse_filter(text)
    found = bind_filter(text, FIELDS)
    assert isinstance(found, Computed)
    assert (found.text, to_sql(found)) == (text, text)
    both = bind_filter(f"NOT ({text}) AND (b = 5 OR {text})", FIELDS)
    assert isinstance(both, And)
    assert [type(child) for child in both.children] == [Computed, Or]
    assert pickle.loads(pickle.dumps(both)) == both
    assert root_columns(both)[: len(found.columns)] == list(found.columns)


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("a = 1 + 1", "a = 2"),
        ("a > -(3 * 2)", "a > -6"),
        ("d >= date_add(DATE '2020-01-31', 1)", "d >= DATE '2020-02-01'"),
        ("d >= DATE '2020-03-31' - INTERVAL 1 MONTH", "d >= DATE '2020-02-29'"),
        ("s = concat('x', upper('y'))", "s = 'xY'"),
        ("a IN (1, 2 + 1)", "a IN (1, 3)"),
        ("s LIKE lower('AB') || '%'", "s LIKE 'ab%'"),
        ("a = TRY_CAST('x' AS INT)", "a = NULL"),
        ("upper('x') = 'X' AND a = 1", "a = 1"),
        ("a = 1 OR a = 2 OR b = 1 OR a IN (4, 1)", "a IN (1, 2, 4) OR b = 1"),
        ("NOT (a <> 1 AND a <> 2)", "a IN (1, 2)"),
    ],
)
def test_constants_are_computed_and_equalities_gathered(text: str, simple: str) -> None:
    assert bind_filter(text, FIELDS) == bind_filter(simple, FIELDS)


def test_computed_conditions_of_one_text_are_told_apart() -> None:
    text = "CAST(d AS TIMESTAMP) > TIMESTAMP '2020-01-01 00:00:00'"
    one, other = (bind_filter(text, FIELDS, timezone=zone) for zone in ("UTC", "Asia/Tokyo"))
    assert one != other
    assert len({one, other}) == 2  # as keys of kept plans
    assert one == bind_filter(text, FIELDS)


def test_what_fails_is_computed_where_it_decides_only() -> None:
    batch = pa.record_batch({"a": pa.array([0, 1, 2, None], pa.int32()), "b": pa.array([0, 1, 1, 1], pa.int32())})
    for text, expected in (
        ("6 / a > 3 AND a <> 0", [False, True, False, False]),
        ("a = 0 OR 6 / a > 3", [True, True, False, False]),
        ("NOT (a = 0 OR 6 / a > 3)", [False, False, True, False]),
        ("b = 0 OR (6 / a > 3 AND a > 0)", [True, True, False, False]),
        ("(6 / a > 3 AND a <> 0) IS NOT TRUE", [True, False, True, True]),
    ):
        assert matches(bind_filter(text, FIELDS), batch).to_pylist() == expected, text
    with pytest.raises(ExpressionError, match="6 / a > 3: division by zero"):
        matches(bind_filter("6 / a > 3", FIELDS), batch)


def test_hints_say_what_to_do() -> None:
    with pytest.raises(PredicateError, match="double quotes make a string; put column names in `back quotes`"):
        parse_filter('"a" = 1')
    with pytest.raises(PredicateError, match="a column of this name is written `and`"):
        parse_filter("and = 1")
    with pytest.raises(PredicateError, match="double quotes make a string"):
        parse_filter('"flag" AND a = 1')


def test_a_long_line_is_shown_around_the_place() -> None:
    text = "a IN (" + ", ".join(map(str, range(500))) + ") AND = 1"
    with pytest.raises(PredicateError) as caught:
        parse_filter(text)
    _, line, caret = caught.value.message.split("\n")
    assert len(line) < 120
    assert line[len(caret) - 1 :].startswith("= 1")


def test_nesting_and_length_are_bounded() -> None:
    for deep in ("(" * 10_000, "NOT " * 10_000, "-" * 10_000, "a = CAST(" * 10_000, "m[" * 10_000, "!" * 10_000):
        with pytest.raises(PredicateError):
            parse_filter(deep)
    with pytest.raises(PredicateError):
        parse_filter("a" + ".a" * 10_000 + " = 1")
    level = MAX_DEPTH - 2
    assert shape(parse_filter("(" * level + "a = 1" + ")" * level)) == ("a", "=", 1)
    with pytest.raises(PredicateError, match="nested deeper than 100"):
        parse_filter("(" * (level + 5) + "a = 1" + ")" * (level + 5))
    with pytest.raises(PredicateError, match="characters long"):
        parse_filter("a = 1" + " " * (16 * 1024 * 1024))
    wide = parse_filter(" OR ".join(f"a = {n}" for n in range(20_000)))
    assert isinstance(wide, Or)
    assert len(wide.children) == 20_000


def test_conditions_about_conditions_do_not_grow_without_bound() -> None:
    text = "a = 1"
    for _ in range(3):
        text = f"(({text}) IS NULL AND b = 1)"
    assert isinstance(parse_filter(text), And)
    for _ in range(25):
        text = f"(({text}) IS NULL AND b = 1)"
    with pytest.raises(PredicateError, match="statistics and indexes can't answer this"):
        parse_filter(text)
    found = bind_filter(text, FIELDS)
    assert isinstance(found, Computed)
    batch = pa.record_batch({"a": pa.array([None, 1, 2], pa.int32()), "b": pa.array([1, 1, None], pa.int32())})
    plain = "a = 1"
    for _ in range(28):
        plain = f"(({plain}) IS NULL AND b = 1)"
    assert matches(found, batch).equals(bind_condition(plain, [Scope((), tuple(FIELDS))]).matches(batch))


PIECES = (
    "a b flag s . , ( ) [ ] = < > <=> ! - + 1 1.5 1e5 1L 'x' \" ' ` `q` NOT AND OR IN IS NULL TRUE LIKE ESCAPE BETWEEN "
    "CAST AS INT DATE TIMESTAMP '2020-01-01' X'ff' :: startswith element_at -- /* */ é \\ 1.5BD DISTINCT FROM"
)


@settings(max_examples=examples(36))
@given(st.lists(st.sampled_from(PIECES.split(" ")), max_size=14).map(" ".join) | st.text(max_size=30))
def test_any_text_parses_or_gives_the_one_error(text: str) -> None:
    try:
        parse_filter(text)
    except PredicateError as error:
        found = error.message.split("\n")
    else:
        return
    assert len(found) == 3
    assert found[2].strip() == "^"


# ---------------------------------------------------------------------------------------------- an independent parser


class Writer:
    """Random filters as people write them: few parentheses, any case, any spaces."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self, text: str) -> str:
        return self.random.choice([text, text.lower(), text.title()])

    def gap(self) -> str:
        return self.random.choice([" ", " ", " ", "  ", "\n", "\t", " /* x */ ", " -- y\n"])

    def join(self, *parts: str) -> str:
        return self.gap().join(parts)

    def number(self) -> str:
        return self.random.choice(["0", "1", "2", "-1", "+1", "NULL", "1L", "0.5", "1e0", "(1)", "CAST('1' AS INT)"])

    def column(self) -> str:
        return self.random.choice(["a", "b", "c", "`a`", "B"])

    def test(self) -> str:
        op = self.random.choice(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
        match self.random.randrange(9):
            case 0:
                return self.join(self.number(), op, self.column())
            case 1:
                items = ", ".join(self.number() for _ in range(self.random.randint(1, 3)))
                return self.join(
                    self.column(), *([self.word("NOT")] * self.random.randrange(2)), self.word("IN"), f"({items})"
                )
            case 2:
                words = [self.word("NOT")] * self.random.randrange(2) + [self.word("BETWEEN")]
                return self.join(self.column(), *words, self.number(), self.word("AND"), self.number())
            case 3:
                return self.join(
                    self.column(), self.word("IS"), *([self.word("NOT")] * self.random.randrange(2)), self.word("NULL")
                )
            case 4:
                tail = self.random.choice(["TRUE", "FALSE", "NOT TRUE", "NOT FALSE", "NULL", "NOT NULL"])
                return self.join("flag", self.word("IS"), self.word(tail))
            case 5:
                words = [self.word("NOT")] * self.random.randrange(2)
                return self.join(
                    self.column(), self.word("IS"), *words, self.word("DISTINCT"), self.word("FROM"), self.number()
                )
            case 6:
                return self.random.choice(["flag", "TRUE", "false", "flag = TRUE", "1 = 1", "2 < 1"])
        return self.join(self.column(), op, self.number())

    def condition(self, depth: int) -> str:
        if depth == 0:
            return self.test()
        kind = self.random.randrange(6)
        if kind == 0:
            return self.join(self.word("NOT"), self.condition(0))
        if kind == 1:
            return f"({self.condition(depth - 1)})"
        if kind == 2:
            return self.join(self.word("NOT"), f"({self.condition(depth - 1)})")
        word = self.word("AND" if kind < 5 else "OR")
        return self.join(self.condition(depth - 1), word, self.condition(depth - 1))


def read(node: Any, row: dict[str, Any], exp: Any) -> Any:
    """The value of sqlglot's tree for a row: a number, or True, False, None."""

    def both() -> tuple[Any, Any]:
        return read(node.this, row, exp), read(node.expression, row, exp)

    match type(node).__name__:
        case "Paren":
            return read(node.this, row, exp)
        case "Column":
            return row[node.name.lower()]
        case "Literal":
            return Decimal(node.this)
        case "Cast" | "TryCast":
            return read(node.this, row, exp)
        case "Boolean":
            return node.this
        case "Null":
            return None
        case "Neg":
            inner = read(node.this, row, exp)
            return None if inner is None else -inner
        case "Not":
            inner = read(node.this, row, exp)
            return None if inner is None else not inner
        case "And":
            left, right = both()
            return False if left is False or right is False else None if left is None or right is None else True
        case "Or":
            left, right = both()
            return True if left is True or right is True else None if left is None or right is None else False
        case "Between":
            value, low, high = (read(n, row, exp) for n in (node.this, node.args["low"], node.args["high"]))
            parts = [
                None if value is None or low is None else value >= low,
                None if value is None or high is None else value <= high,
            ]
            return False if False in parts else None if None in parts else True
        case "In":
            value = read(node.this, row, exp)
            found = [
                None if value is None or v is None else value == v
                for v in (read(n, row, exp) for n in node.expressions)
            ]
            return True if True in found else None if None in found else False
        case "Is":
            left, right = both()
            return left is right if right in (None, True, False) else None
        case "NullSafeEQ":
            left, right = both()
            return left is None and right is None if left is None or right is None else left == right
        case "NullSafeNEQ":
            left, right = both()
            return not (left is None and right is None if left is None or right is None else left == right)
    left, right = both()
    if left is None or right is None:
        return None
    return {
        "EQ": left == right, "NEQ": left != right, "LT": left < right, "LTE": left <= right, "GT": left > right,
        "GTE": left >= right,
    }[type(node).__name__]  # fmt: skip


def test_random_filters_mean_what_sqlglot_reads_in_them() -> None:
    sqlglot = pytest.importorskip("sqlglot")
    rows = [
        {"a": a, "b": b, "c": c, "flag": flag}
        for a, b, c, flag in itertools.product([None, 0, 1], [None, 1, 2], [None, 0], [None, True, False])
    ]
    batch = pa.RecordBatch.from_pylist(rows, pa.schema({"a": "int32", "b": "int32", "c": "int32", "flag": "bool"}))
    for seed in range(400):
        text = Writer(seed).condition(seed % 4)
        tree = sqlglot.parse_one(text, read="spark")
        expected = [read(tree, row, sqlglot.exp) is True for row in rows]
        assert matches(bind(parse_filter(text), FIELDS), batch).to_pylist() == expected, text


def test_importing_the_parser_needs_no_heavy_module() -> None:
    """pyarrow is there anyway, as Spark's data source API imports it; the rest stays out of planning processes."""
    code = (
        "import sys, pyarrow; before = set(sys.modules); import paimon_pyds.sql.predicate.normal_form;"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"pandas", "sqlglot", "pyroaring", "fastavro", "zoneinfo", "pyspark"}
    assert not heavy & set(done.stdout.split())


def test_kinds_of_timestamp_literals() -> None:
    kinds = {
        word: leaf(f"x = {word} '2020-01-01 00:00:00'").literals[0].type.kind
        for word in ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
    }
    assert kinds == {
        "TIMESTAMP": Kind.TIMESTAMP_LTZ, "TIMESTAMP_LTZ": Kind.TIMESTAMP_LTZ, "TIMESTAMP_NTZ": Kind.TIMESTAMP,
    }  # fmt: skip
