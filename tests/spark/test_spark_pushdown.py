"""Filters of Spark: right rows with pushdown off, always; with pushdown on, what Spark before 5 makes of them.

Spark 4.1 to 4.3 keep what was pushed down on the relation, so that the last filter wins for every scan of one loaded
DataFrame or view (SPARK-58551). The wrong rows are recorded here as such, to notice the version that mends it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds import register
from paimon_pyds.spark import compat
from support.effort import FEW, sampled

pytestmark = pytest.mark.spark

CONF = "spark.sql.python.filterPushdown.enabled"
LEAKS = compat.plans_once()

_names = itertools.count()


@contextlib.contextmanager
def pushing(spark):
    """The session with Spark's setting on."""
    spark.conf.set(CONF, "true")
    try:
        yield
    finally:
        spark.conf.unset(CONF)


def ids(frame):
    return sorted(r[0] for r in frame.select("id").collect())


def count_after_filter(spark, frame):
    return [frame.where("id = 1").count(), frame.count()]


def filter_after_filter(spark, frame):
    return [ids(frame.where("id = 1")), ids(frame.where("color = 'green'")), ids(frame.where("id > 4"))]


def union_of_two_filters(spark, frame):
    return ids(frame.where("id = 1").union(frame.where("id = 2")))


def join_of_two_filters(spark, frame):
    left, right = frame.where("color = 'red'").alias("a"), frame.where("size > 3").alias("b")
    return sorted(tuple(r) for r in left.join(right, on="color").selectExpr("a.id", "b.id").collect())


def two_queries_of_a_view(spark, frame):
    name = f"leak_{next(_names)}"
    frame.createOrReplaceTempView(name)
    try:
        return [
            spark.sql(f"SELECT count(*) FROM {name}{where}").collect()[0][0]
            for where in (" WHERE id = 1", "", " WHERE id = 2")
        ]
    finally:
        spark.catalog.dropTempView(name)


def subquery_of_a_view(spark, frame):
    name = f"leak_{next(_names)}"
    frame.createOrReplaceTempView(name)
    try:
        return ids(
            spark.sql(f"SELECT id FROM {name} WHERE color IN (SELECT color FROM {name} WHERE id = 1) AND id > 1")
        )
    finally:
        spark.catalog.dropTempView(name)


def unfiltered_and_filtered_at_once(spark, frame):
    return [r[0] for r in frame.agg({"id": "count"}).union(frame.where("id = 1").agg({"id": "count"})).collect()]


CASES = {
    # case: (right, what comes out where pushdown leaks)
    count_after_filter: ([1, 6], [1, 1]),
    filter_after_filter: ([[1], [2, 5], [5, 6]], [[1], [2, 5], [5, 6]]),
    union_of_two_filters: ([1, 2], [2, 2]),
    join_of_two_filters: ([(1, 4), (4, 4)], [(4, 4)]),
    two_queries_of_a_view: ([1, 6, 1], [1, 1, 1]),
    subquery_of_a_view: ([4], [2, 4, 5, 6]),
    unfiltered_and_filtered_at_once: ([6, 1], [1, 1]),
}


def by_case(count: int = len(CASES), drawer: str = "") -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", sampled(CASES, count, drawer), ids=lambda case: case.__name__)


only_with_pushdown = pytest.mark.skipif(not compat.SUPPORTS_PUSHDOWN, reason="this Spark pushes no filters")


@by_case(2 if FEW else 4, "off")
def test_right_rows_without_pushdown(spark, frames, six, case):
    assert case(spark, frames.load(six.path)) == CASES[case][0]


@by_case(4, "on")
@only_with_pushdown
def test_right_rows_without_pushdown_where_the_setting_is_on(spark, frames, six, case):
    with pushing(spark):
        assert case(spark, frames.load(six.path)) == CASES[case][0]


@by_case()
@only_with_pushdown
def test_rows_with_pushdown(spark, frames, six, case):
    right, wrong = CASES[case]
    with pushing(spark):
        assert case(spark, frames.load(six.path, pushdown="on")) == (wrong if LEAKS else right)


@by_case(2 if FEW else 4, "filter")
def test_the_option_filter_is_right_on_every_version(spark, frames, six, case):
    with pushing(spark):
        frame = frames.load(six.path, filter="id < 6")
        expected = {
            count_after_filter: [1, 5],
            filter_after_filter: [[1], [2, 5], [5]],
            two_queries_of_a_view: [1, 5, 1],
            unfiltered_and_filtered_at_once: [5, 1],
        }.get(case, CASES[case][0])
        assert case(spark, frame) == expected


WHERE = (
    "id = 1", "id <=> 1", "NOT (id <=> 1)", "id <> 1", "id IN (1, 5, 9)", "id NOT IN (1, 5)",
    "color = 'red' AND size > 2", "color IS NULL", "color IS NOT NULL", "color LIKE 'g%'", "color LIKE '%ue'",
    "color LIKE '%e%'", "NOT color LIKE 'r%'", "size BETWEEN 1 AND 3", "size = 1.5", "id % 2 = 0", "id = 1 OR id = 2",
    "color > 'g' AND id % 2 = 0", "upper(color) = 'RED'", "size < id", "color NOT IN ('red', NULL)",
    "size = CAST('NaN' AS DOUBLE)",
)  # fmt: skip


_KEPT: dict[str, list[int]] = {}


@pytest.fixture
def kept_by_spark(frames, six):
    """The ids that Spark keeps by each condition, asked for once in one query."""
    if not _KEPT:
        rows = frames.load(six.path).selectExpr("id", *(f"({where})" for where in WHERE)).collect()
        _KEPT.update((where, sorted(row[0] for row in rows if row[at])) for at, where in enumerate(WHERE, 1))
    return _KEPT


@pytest.mark.slow
@pytest.mark.parametrize("where", sampled(WHERE, 8))
def test_pushdown_gives_the_rows_of_spark(spark, frames, six, where, kept_by_spark):
    with pushing(spark):
        assert ids(frames.load(six.path, pushdown="on").where(where)) == kept_by_spark[where]


def filters_again(spark, frame):
    """Whether Spark's plan filters what the source gave."""
    name = f"plan_{next(_names)}"
    frame.createOrReplaceTempView(name)
    text = spark.sql(f"EXPLAIN SELECT * FROM {name}").collect()[0][0]
    spark.catalog.dropTempView(name)
    return re.search(r"\bFilter\b", text) is not None


@only_with_pushdown
def test_filters_that_are_taken_are_not_applied_again(spark, frames, six):
    with pushing(spark):
        assert not filters_again(spark, frames.load(six.path, pushdown="on").where("color = 'red' AND id IN (1, 2)"))
        assert filters_again(spark, frames.load(six.path, pushdown="on").where("color = 'red' AND id % 2 = 1"))
        assert filters_again(spark, frames.load(six.path).where("color = 'red'"))


@only_with_pushdown
def test_a_wider_type_in_the_schema_is_left_to_spark(spark, six):
    with pushing(spark):
        frame = spark.read.format("paimon").option("pushdown", "on").schema("id long, color string").load(six.path)
        assert filters_again(spark, frame.where("id = 1"))
        assert ids(frame.where("id = 1")) == [1]


@only_with_pushdown
def test_pushdown_without_the_setting_says_so(frames, six):
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        frames.load(six.path, pushdown="on").count()


def test_register_with_pushdown(spark, frames, six):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        register(spark, pushdown=True)
    try:
        ours = [str(w.message) for w in caught if "pushdown" in str(w.message) or "hands no filters" in str(w.message)]
        assert len(ours) == 1
        assert ("silently wrong rows" in ours[0]) == LEAKS
        assert ids(frames.load(six.path).where("color = 'red'")) == [1, 4]
        assert ids(spark.read.format("paimon_pyds").load(six.path).where("color = 'red'")) == [1, 4]
        if compat.SUPPORTS_PUSHDOWN:
            assert not filters_again(spark, frames.load(six.path).where("color = 'red'"))
            assert filters_again(spark, frames.load(six.path, pushdown="off").where("color = 'red'"))
    finally:
        spark.conf.unset(CONF)
        register(spark)
    assert frames.load(six.path).where("id = 1").count() == 1
