"""Functions of expressions: values and types that Spark gave (test_functions_spark asks it again), rows, errors."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_condition, bind_expression
from paimon_pyds.sql.expression.functions import spark_name
from support.function_rows import EXPRESSIONS, ONE_ROW, ZONE, golden, table

DATA = table()
SCOPE = Scope(("t",), from_arrow_schema(DATA.schema))


def value(text: str) -> Any:
    return bind_expression(text, [], timezone=ZONE).evaluate(ONE_ROW)[0].as_py()


@pytest.mark.smoke
@pytest.mark.parametrize("part", range(8))
def test_values_and_types_are_those_of_spark(part: int) -> None:
    wrong = {}
    for text, type_, expected in golden()[part::8]:
        bound = bind_expression(text, [], timezone=ZONE)
        found = value(f"CAST({text} AS STRING)")
        shown = "NULL" if found is None else found
        last_bit = type_ == "double" and "NULL" not in (shown, expected) and math.isclose(float(shown), float(expected))
        same = spark_name(bound.type) == type_ and (shown == expected or last_bit)
        if not same and "void" not in type_:
            wrong[text] = (spark_name(bound.type), shown, type_, expected)
    assert not wrong


@pytest.mark.smoke
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_part_of_a_batch_gives_that_part_of_the_values(text: str) -> None:
    """Arrow arrays that begin in the middle of others, and have none, and the way into tasks."""
    batch = DATA.to_batches()[0]
    bound = pickle.loads(pickle.dumps(bind_expression(text, [SCOPE], timezone=ZONE)))
    whole = bound.evaluate(batch)
    whole.validate(full=True)
    for start, count in ((0, 1), (5, 7), (len(batch) - 3, 3), (4, 0)):
        found = bound.evaluate(batch.slice(start, count))
        found.validate(full=True)
        assert len(found) == count
        assert found.type == whole.type
        assert str(found) == str(pa.concat_arrays([whole.slice(start, count)]))


@pytest.mark.parametrize("text", [text for text in EXPRESSIONS if "element_at" not in text])
def test_rows_that_are_null_give_what_the_rows_alone_give(text: str) -> None:
    """Values that lie behind a NULL in Arrow's buffers are nobody's."""
    batch = DATA.to_batches()[0]
    keep = pa.array([n % 3 > 0 for n in range(len(batch))])
    hidden = [_hidden(column, keep) for column in batch.columns]
    clean = [pa.array(column.to_pylist(), column.type) if not _wide(column) else _clean(column) for column in hidden]
    bound = bind_expression(text, [SCOPE], timezone=ZONE)
    found = [bound.evaluate(pa.RecordBatch.from_arrays(c, schema=batch.schema)) for c in (hidden, clean)]
    assert str(found[0]) == str(found[1])


def _wide(column: pa.Array) -> bool:
    return pa.types.is_timestamp(column.type)


def _clean(column: pa.Array) -> pa.Array:
    return pa.array(column.view(pa.int64()).to_pylist(), pa.int64()).view(column.type)


def _hidden(column: pa.Array, keep: pa.Array) -> pa.Array:
    """The same buffers with more NULLs."""
    bitmap = pa.array([bool(k and v) for k, v in zip(keep.to_pylist(), column.is_valid().to_pylist(), strict=True)])
    buffers = column.buffers()
    children = None
    if pa.types.is_list(column.type):
        children = [column.values]
    elif pa.types.is_map(column.type):
        children = [
            pa.StructArray.from_arrays(
                [column.keys, column.items], fields=list(pa.struct([column.type.key_field, column.type.item_field]))
            )
        ]
    elif pa.types.is_struct(column.type):
        children = (
            column.flatten() if column.null_count == 0 else [column.field(n) for n in range(column.type.num_fields)]
        )
    own = len(buffers) if children is None else 2 if not pa.types.is_struct(column.type) else 1
    return pa.Array.from_buffers(
        column.type, len(column), [bitmap.buffers()[1], *buffers[1:own]], children=children, offset=column.offset
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("element_at(array(1, 2, 3), 4)", "an array of 3 elements has no element 4"),
        ("element_at(array(1), 0)", "element_at counts from 1"),
        ("exists(array(0, 1), x -> 1 / x > 0)", "division by zero"),
        ("map(1, 2, 1, 3)", "a map has the key 1 twice"),
        ("map(NULL, 2)", "a map can't have a key that is NULL"),
        ("regexp_extract('a', 'a', 3)", "has 0 groups, none numbered 3"),
        ("slice(array(1), 0, 1)", "slice counts from 1"),
        ("sequence(1, 5, -1)", "does not get from 1 to 5"),
        ("to_date('2020-02-30', 'yyyy-MM-dd')", "'2020-02-30' is not written as 'yyyy-MM-dd'"),
        ("make_timestamp(2024, 2, 3, 25, 0, 0)", "there is no time 25:0:0"),
        ("factorial(21) IS NULL AND pmod(7, 0) = 1", "division by zero"),
        ("from_unixtime(9007199254740993)", "outside the range of TIMESTAMP"),
        ("decode(X'ff', 'UTF-8')", "are no bytes of utf-8"),
        ("sequence(1, 100000000)", "at most 67,108,864 are made"),
        ("array_repeat(1, 1000000000)", "at most 67,108,864 are made"),
        ("size(transform(sequence(1, 100000), x -> sequence(1, 100000)))", "an expression makes texts of"),
        ("size(transform(sequence(1, 100000), x -> size(sequence(x, 100000))))", "at most 67,108,864 are made"),
        ("size(transform(array(sequence(1, 100000)), a -> exists(a, x -> exists(a, y -> x + y < 0))))", "at most 67,"),
        ("next_day('2024-01-01', 'someday')", "is not the name of a day of the week"),
    ],
)
def test_errors_of_values(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message.replace("(", r"\(")) as caught:
        value(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("array_contains(s, 'a')", "an array is wanted, not a VARCHAR"),
        ("array_contains(array('1'), 2)", "VARCHAR and INT have no common type"),
        ("exists(ai, 1)", "a function of items is wanted, such as x -> x > 0"),
        ("exists(ai, (x, y) -> x = 1)", "its function has 2 parameters; 1 at most"),
        ("exists(ai, x -> y = 1)", "no column 'y'"),
        ("exists(ai, x -> x)", "a condition is wanted, this is a INT"),
        ("filter(ai, (x, X) -> true)", "two parameters of its function have the same name"),
        ("upper(x -> x)", "upper takes no function of items"),
        ("date_format(tz, 'YYYY')", "the letter Y is not supported"),
        ("date_format(tz, 'z')", "the letter z is not supported"),
        ("date_format(tz, 'yyyyyyy')", "7 times y is not supported"),
        ("date_format(tz, 'yyyy{')", "{ has no meaning there"),
        ("date_format(tz, s)", "the pattern must be a text, the same for all rows"),
        ("to_date('x', 'E')", "the letter E is for writing only"),
        ("rlike(s, '[')", "is not supported: a class that is not closed"),
        ("regexp_replace(s, 'a', '$1')", "the pattern has 0 groups, none numbered 1"),
        ("hash(mp)", "maps have no hash"),
        ("mp = mp", "can't be compared"),
        ("ai < ai", "can't be compared"),
        ("timestampdiff(FORTNIGHT, tz, tz)", "'FORTNIGHT' is no unit of time"),
        ("named_struct('a')", "takes 2 or more arguments"),
        ("encode(s, 'latin9')", "is no character set"),
        ("array_contain(ai, 1)", "did you mean array_contains"),
        ("frobnicate(ai)", "docs/functions.md lists all functions"),
    ],
)
def test_errors_point_at_their_place(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        bind_condition(text, [SCOPE], timezone=ZONE)
    assert message in str(caught.value)
    assert "^" in str(caught.value)


def test_the_nearest_names_are_told() -> None:
    with pytest.raises(ExpressionError, match="did you mean date_format or date_from_unix_date or date_part") as caught:
        bind_expression("date_fromat(tz, 'yyyy')", [SCOPE])
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("docs/functions.md lists all functions")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exists(array(1, 2), I -> i = 2)", True),  # a parameter hides the column
        ("exists(array(1, 2), x -> x = i)", None),
        ("exists(array(array(1), array(2, 3)), a -> exists(a, b -> b = size(a) + 1))", True),
        ("exists(array(array(1), array(2, 3)), a -> forall(a, b -> b > size(a)))", False),
        ("transform(array(1, 2), x -> transform(array(10), y -> x + y))", [[11], [12]]),
        ("aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 10)", 30),
        ("transform(array(named_struct('v', 1)), x -> x.v)", [1]),
        ("exists(array(1, 0), x -> 1 / x > 0)", True),  # decided before the division by zero
        ("forall(array(1, 0), x -> 1 / x > 2)", False),
    ],
)
def test_functions_of_items(text: str, expected: Any) -> None:
    batch = pa.record_batch({"i": pa.array([2, None], pa.int32())})
    found = bind_expression(text, [Scope(("t",), from_arrow_schema(batch.schema))], timezone="UTC").evaluate(batch)
    assert found.to_pylist()[1] == expected


def test_a_column_named_like_a_parameter_is_not_needed() -> None:
    bound = bind_condition("exists(ai, i -> i > l)", [SCOPE], timezone=ZONE)
    assert sorted(bound.columns) == ["ai", "l"]


def test_lenient_functions_fail_for_their_own_rows_only() -> None:
    batch = pa.record_batch({"i": pa.array([1, 2**31 - 1, None, 5, 2**31 - 2], pa.int32())})
    scope = Scope((), from_arrow_schema(batch.schema))
    assert bind_expression("try_add(i, 2)", [scope]).evaluate(batch).to_pylist() == [3, None, None, 7, None]
    assert bind_expression("try_divide(1, i - 5)", [scope]).evaluate(batch.slice(0, 1)).to_pylist() == [-0.25]
    assert bind_expression("try_divide(1, i - 1)", [scope]).evaluate(batch.slice(0, 1)).to_pylist() == [None]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers_without_room_are_null(bits: int) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    some = [low, low + 1, low // 2, -3, -2, -1, 0, 1, 2, 3, high // 2, high - 1, high, None]
    pairs = [(a, b) for a in some for b in some]
    type_ = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    batch = pa.record_batch({name: pa.array([pair[n] for pair in pairs], type_) for n, name in enumerate("ab")})
    scope = Scope((), from_arrow_schema(batch.schema))
    for name, function in (("add", int.__add__), ("subtract", int.__sub__), ("multiply", int.__mul__)):
        found = bind_expression(f"try_{name}(a, b)", [scope]).evaluate(batch)
        exact = [None if None in pair else function(*pair) for pair in pairs]  # type: ignore[arg-type]
        assert found.to_pylist() == [None if n is None or not low <= n <= high else n for n in exact]
        assert found.type == type_


@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 2.0**300])
def test_the_root_of_a_cube_is_exact_however_many_rows_there_are(scale: float) -> None:
    """C libraries of some machines give the number next to it, and only for some rows of many."""
    roots = [n * scale for n in (-200, -3, *range(1, 200))]
    batch = pa.record_batch({"x": [root**3 for root in roots]})
    bound = bind_expression("cbrt(x)", [Scope((), from_arrow_schema(batch.schema))])
    assert bound.evaluate(batch).to_pylist() == roots
    assert [bound.evaluate(batch.slice(n, 1))[0].as_py() for n in range(len(roots))] == roots


def test_cube_roots_of_what_is_no_cube() -> None:
    batch = pa.record_batch({"x": [2.0, 1e300, 5e-324, -0.0, math.inf, -math.inf, math.nan, None]})
    found = bind_expression("cbrt(x)", [Scope((), from_arrow_schema(batch.schema))]).evaluate(batch).to_pylist()
    expected = [1.2599210498948732, 1e100, 1.7031839360032603e-108, -0.0, math.inf, -math.inf, math.nan]
    assert found[:3] == pytest.approx(expected[:3], rel=1e-15)
    assert list(map(repr, found[3:])) == list(map(repr, [*expected[3:], None]))
