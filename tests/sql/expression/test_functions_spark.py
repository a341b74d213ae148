"""Functions as Spark SQL itself evaluates them, in three time zones: on rows, of constants, and the page's examples."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from support.effort import sampled
from support.function_rows import DDL, HASHES, NESTED, NUMBERS, ONE_ROW, TEXT, TIMES, ZONE, golden, table
from support.functions_page import entries
from support.spark_zone import zone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
REFUSED = [
    "element_at(array(1, 2, 3), 4)", "element_at(array(1), 0)", "array(1, 2)[2]", "exists(array(0, 1), x -> 1 / x > 0)",
    "element_at(map('1', 'a'), 1)", "array_contains(array('1'), 2)", "exists(array(1), 1)", "map(1, 2, 1, 3)",
    "map(NULL, 2)", "hash(map(1, 2))", "map(1, 2) = map(1, 2)", "regexp_like('a', '[')", "regexp_extract('a', 'a', 3)",
    "regexp_replace('a', 'a', '$1')", "slice(array(1), 0, 1)", "sequence(1, 5, -1)", "pmod(7, 0)", "elt(3, 'a')",
    "to_date('2020-02-30', 'yyyy-MM-dd')", "to_date('2020-2-3', 'yyyy-MM-dd')", "to_timestamp('25:00', 'HH:mm')",
    "to_date('2020-01-01x', 'yyyy-MM-dd')", "unix_timestamp('nope')", "make_timestamp(2024, 2, 30, 0, 0, 0)",
    "date_format(current_date(), 'YYYY')", "date_format(current_date(), 'u')", "date_format(current_date(), 'yyyyyyy')",
    "date_format(current_date(), '#')", "getbit(11, 64)", "decode(X'ff', 'UTF-8')", "encode('ä', 'US-ASCII')",
    "cast(array('x') AS ARRAY<INT>)", "str_to_map('a:1,a:2')", "array_contain(array(1), 1)", "hash()",
    "array_insert(array(1), 0, 1)", "conv('ffffffffffffffffff', 16, 10)", "to_json(1)", "format_number('12.5', 1)",
]  # fmt: skip
"""What both refuse, when it is bound or evaluated."""


def plain(value: Any) -> Any:
    """Values that compare: NaN as a text."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return type(value)(map(plain, value)) if isinstance(value, list | tuple) else value


def rows_of(array: pa.Array) -> list[Any]:
    """Values as Python's; those beyond its calendar as numbers."""
    try:
        return [plain(value) for value in array.to_pylist()]
    except (OverflowError, ValueError):
        number = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
        return array.view(number).to_pylist()


def close(a: Any, b: Any) -> bool:
    """Equal, but for the last bits of functions that Java's library computes itself."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=4e-15)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(close, a, b))
    return bool(a == b)


def normal(type_: pa.DataType) -> pa.DataType:
    """Spark's timestamps carry the session's zone, ours UTC; its nested members may be not nullable."""
    if pa.types.is_timestamp(type_) and type_.tz:
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", normal(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(normal(type_.key_type), normal(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, normal(field.type)) for field in type_])
    return pa.string() if pa.types.is_large_string(type_) else type_


@pytest.mark.parametrize("timezone", sampled(ZONES, 1))
@pytest.mark.parametrize("part", ["nested", "others", "times"])
def test_rows(spark: Any, timezone: str, part: str) -> None:
    texts = {"nested": NESTED, "others": [*HASHES, *TEXT, *NUMBERS], "times": TIMES}[part]
    data = table(seed=ZONES.index(timezone))
    scope = Scope(("t",), from_arrow_schema(data.schema))
    with zone(spark, timezone):
        answers = _ask(spark, spark.createDataFrame(data, DDL).coalesce(1), texts)
    batch = data.combine_chunks().to_batches()[0]
    wrong: dict[str, Any] = {}
    for text, expected in answers.items():
        try:
            found = bind_expression(text, [scope], timezone=timezone).evaluate(batch)
        except PredicateError as error:
            wrong[text] = str(error)
            continue
        type_ = normal(expected.type)
        ours, theirs = rows_of(found), rows_of(expected.cast(type_))
        unlike = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not close(a, b)]
        if normal(found.type) != type_ or unlike:
            wrong[text] = (str(found.type), str(type_), [(n, ours[n], theirs[n]) for n in unlike[:3]])
    assert not wrong


def _ask(spark: Any, frame: Any, texts: list[str]) -> dict[str, pa.Array]:
    """Spark's values; in one query, or one by one without those that this Spark does not know."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    frame = frame.cache()
    try:
        found = frame.select([F.expr(text).alias(str(n)) for n, text in enumerate(texts)]).toArrow().combine_chunks()
        return {text: _whole(found.column(n)) for n, text in enumerate(texts)}
    except PySparkException:
        answers = {}
        for text in texts:
            try:
                answers[text] = _whole(frame.select(F.expr(text).alias("v")).toArrow().column(0))
            except PySparkException as error:
                if "UNRESOLVED_ROUTINE" not in str(error):
                    pytest.fail(f"Spark refuses {text}: {str(error)[:300]}")
        return answers
    finally:
        frame.unpersist()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def test_constants(spark: Any) -> None:
    """What test_functions compares with is what Spark gives."""
    if spark.version < "4.3":
        pytest.skip("some of the functions and patterns are newer")
    wanted = golden()
    with zone(spark, ZONE):
        selected = [f"concat(typeof({text}), ' ', coalesce(CAST({text} AS STRING), 'NULL'))" for text, *_ in wanted]
        found = spark.range(1).selectExpr(*selected).collect()[0]
    wrong = {text: (value, f"{type_} {expected}") for (text, type_, expected), value in zip(wanted, found, strict=True)
             if value != f"{type_} {expected}"}  # fmt: skip
    assert not wrong


def test_examples_of_the_page(spark: Any) -> None:
    examples = [entry.example for entry in entries()]
    with zone(spark, "UTC"):
        answers = _ask(spark, spark.range(1), [f"CAST({example} AS STRING)" for example in examples])
    wrong = {}
    for example in examples:
        text = f"CAST({example} AS STRING)"
        ours = bind_expression(text, [], timezone="UTC").evaluate(ONE_ROW)[0].as_py()
        if text in answers and ours != answers[text][0].as_py():
            wrong[example] = (ours, answers[text][0].as_py())
    assert not wrong


def test_what_both_refuse(spark: Any) -> None:
    from pyspark.errors import PySparkException

    given = []
    for text in REFUSED:
        try:
            given.append((text, "Spark", spark.range(1).selectExpr(text).collect()))
        except PySparkException:
            pass
        try:
            given.append((text, "here", bind_expression(text, [], timezone="UTC").evaluate(ONE_ROW).to_pylist()))
        except PredicateError:
            pass
    assert not given
