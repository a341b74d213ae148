"""Conditions as Spark SQL itself evaluates them, in one query per session time zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from support import predicate_model as model
from support.effort import LONG, sampled
from support.spark_zone import zone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LEFT_OUT = {"ti", "ns"}  # Spark 4.0 has no TIME, and no Spark has nanoseconds
FIELDS = [f for f in model.FIELDS if f.name not in LEFT_OUT]


DDL = (
    "ty tinyint, i int, b bigint, de decimal(5,2), big decimal(38,0), f float, d double, s string, bo boolean, da date,"
    " nt timestamp_ntz, tz timestamp, bi binary, r struct<x: int>, m map<string, int>, `Odd ``name` int"
)


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    batch = model.to_arrow(list(rows))
    return pa.Table.from_batches([batch]).select([f.name for f in FIELDS])


def spread() -> list[dict[str, Any]]:
    """Rows that hold every value of every pool, each column in its own order."""
    pools = {**model._POOLS, "r": [None, {"x": 1}, {"x": None}, {"x": 2}], "m": [None, {"k": 1}, {"l": 1}, {"k": None}]}
    longest = max(map(len, pools.values()))
    rows = [{name: pool[n % len(pool)] for name, pool in pools.items()} for n in range(longest)]
    return [*rows, dict.fromkeys(pools)]


def answers(spark: Any, frame: Any, texts: Sequence[str]) -> dict[str, list[bool]]:
    """Which rows each condition is true for, asked of Spark in one query."""
    from pyspark.sql import functions as F

    found = frame.select(F.array(*[F.expr(f"({text}) IS TRUE") for text in texts]).alias("a")).collect()
    return {text: [row.a[n] for row in found] for n, text in enumerate(texts)}


def mentioned(condition: Any) -> set[Any]:
    """Columns and literals of a condition of the model, as (column, kind, value) triples."""
    op, *rest = condition
    if op in ("and", "or"):
        return set().union(*map(mentioned, rest[0]))
    if op == "not" or (op.startswith("is ") and isinstance(rest[0], tuple) and rest[0][0] not in ("r", "m")):
        return mentioned(rest[0])
    if op == "const":
        return set()
    if op.startswith("rows "):
        return {(column, *lit) for item in rest[1] for column, lit in zip(rest[0], item, strict=True)}
    column, given = (rest[1], rest[2:]) if op == "flip" else (rest[0], rest[1:])
    literals = given[0] if op in ("in", "not in") else given
    return {(column, *(lit if isinstance(lit, tuple) else ("text", lit))) for lit in literals} or {(column, "", None)}


def comparable(condition: Any) -> bool:
    """Spark compares a DECIMAL(38, 0) with fractions in a type that has no room for it, and fails."""
    return not any(
        column in LEFT_OUT or (column == "big" and kind == "decimal") for column, kind, _ in mentioned(condition)
    )


def test_random_conditions(spark: Any) -> None:
    conditions: list[Any] = []

    @settings(max_examples=250 if LONG else 60, database=None, derandomize=True)
    @given(model.conditions(leaves=3))
    def collect(condition: Any) -> None:
        conditions.append(condition)

    collect()
    texts = sorted({model.to_text(c) for c in conditions if comparable(c)})
    assert len(texts) > (120 if LONG else 25)
    check(spark, texts)


def check(spark: Any, texts: Sequence[str], timezone: str = "UTC", rows: Any = None) -> None:
    data = table(spread() if rows is None else rows)
    with zone(spark, timezone):
        spark_rows = answers(spark, spark.createDataFrame(data, DDL), texts)
    wrong = {}
    for text in texts:
        predicate = bind(parse_filter(text, timezone=timezone), FIELDS, timezone=timezone)
        found = matches(predicate, data).to_pylist()
        if found != spark_rows[text]:
            wrong[text] = (to_sql(predicate), found, spark_rows[text])
    assert not wrong


def test_texts_that_people_write(spark: Any) -> None:
    texts = [line.strip() for line in WRITTEN.strip().splitlines()]
    if spark.version < "4.1":
        texts.remove("s = ''''")  # two strings to 4.0, a doubled quote since
    check(spark, texts)


WRITTEN = r"""
i = '1'
i = ' 1 '
i = 1.5F
b = '9007199254740993'
b = 9007199254740993D
b <> 9007199254740992D
b > 9007199254740992D
b >= 9007199254740992D
b < 9.223372036854776E18D
b >= 9.223372036854776E18D
b IN (9007199254740993, 1.5D)
b IN ('1', 2)
f = 0.1
f = 0.1D
f = 0.1F
f < 0.1
f > 0.1
f = '0.1'
f <= 3.5e38D
f > 3.4028234663852887E38D
f > 3.4028234663852886E38D
f < 1e-46D
f > 1e-46D
f IN (0.1F, 1)
f IN (0.1)
d = '0.1'
d = 0.1
d = 0.1F
d > 'NaN'
d = 'NaN'
d <= 'Infinity'
de = '0.1'
de = 0.10
de = 0.1D
de < '1e0'
de = 0.100BD
de > 0.099
de IN (0.1, 1)
de IN (0.1, '1')
de IN (0.1, 1.0D)
de = 999.990000000000000000000000001BD
big = 99999999999999999999999999999999999999
big > 1e37D
big = 9007199254740992D
big = 9007199254740993
bo = 'true'
bo = ' Yes '
bo = 'f'
bo > false
bo IN (true, NULL)
bo BETWEEN false AND true
da = '2020-01-01'
da = '2020-1-1'
da = '2020'
da = '2020-01'
da <= '2020-01-01 10:00'
da = '2020-01-01Tfoo'
da < '+12345-01-01'
da = TIMESTAMP '2020-01-01 00:00:00'
da < TIMESTAMP '2020-01-01 00:00:01'
da >= TIMESTAMP_NTZ '2019-12-31 23:59:59'
da IN ('2020-01-01', TIMESTAMP '2020-01-02 00:00:00')
nt = '2020-01-01'
nt = '2020-01-01T00:00:00.001+05:00'
nt < '2020-01-01 00:00:00.0005'
nt = TIMESTAMP '2020-01-01 00:00:00'
nt >= DATE '2020-01-01'
tz = '2020-01-01'
tz = '2020-01-01 00:00:00 UTC'
tz > '2019-12-31 22:00:00 -2:00'
tz = '2020-01-01 00:00:00.0000019'
tz = DATE '2020-01-01'
tz <= TIMESTAMP_NTZ '2020-01-01 00:00:00'
tz IN (DATE '2020-01-01', '1970-01-01 00:00:00.001')
bi = 'a'
bi > 'a'
bi < X'ff'
s = X'6162'
s > X'61'
s < 'a\nd'
s = 'a' 'bc'
s = "abc"
s = r'a\c'
s = '\141\u0062c'
s = 'a\\c'
s = '\''
s = ''''
s = '\U0001F600'
s > '\uffff'
s LIKE 'a\\_c'
s LIKE 'a\_c'
s LIKE 'a_c'
s LIKE 'a#_c' ESCAPE '#'
s LIKE 'a\\\\c'
s LIKE r'a\\c'
s LIKE '%\n%'
s LIKE '_'
s LIKE '__'
s LIKE '%%'
s LIKE ''
s NOT LIKE '%a%'
s LIKE ANY ('a%', '%c')
s NOT LIKE ANY ('a%', '%c')
s LIKE ALL ('a%', '%c')
s NOT LIKE ALL ('a%', '%c')
s LIKE NULL
startswith(s, 'a')
startswith(s, '')
startswith(s, NULL)
NOT endswith(s, 'c')
contains(s, 'b')
s BETWEEN 'a' AND 'b'
s NOT BETWEEN 'a' AND NULL
s IN ('a', 'b', NULL)
s NOT IN ('a', 'b', NULL)
i <=> NULL
NOT i <=> 1
i IS DISTINCT FROM 1
i IS NOT DISTINCT FROM 1
i IS DISTINCT FROM NULL
i = NULL
NOT (i = NULL)
(i = NULL) IS NULL
(i = 1) IS NOT TRUE
(i IN (1, NULL)) IS NOT TRUE
(i IN (1, NULL)) IS NULL
(i NOT IN (1, NULL)) IS NOT FALSE
(i = 1 AND s = 'a') IS NULL
(i = 1 OR bo) IS NOT NULL
NOT ((i = 1) <=> true)
i = 1 IS TRUE
(i = 1) = false
bo
NOT bo
! bo
bo IS TRUE
bo IS NOT FALSE
bo IS UNKNOWN
bo <=> true
bo = true = true
NOT bo AND i = 1 OR i = 2
NOT (bo OR i = 1)
1 = i
1 < i
2 BETWEEN i AND 3
1 IN (i, 2)
i !> 1
i !< 1
1 !< i
i == 1
i BETWEEN 0 AND NULL
NOT (i BETWEEN 2 AND NULL)
i = -(1)
i = - 1
i = +1
i = 1S
i = 1Y
ty = 128
ty < 200
ty > -200L
i = 99999999999999999999999
i = CAST('1' AS INT)
i = CAST(1.9 AS INT)
i = INT('1')
i = 1 :: bigint
d = DOUBLE('NaN')
isnan(d)
NOT isnan(d)
isnull(i)
isnotnull(i)
m['k'] = 1
m.k = 1
m['k'] IS NULL
element_at(m, 'k') = 1
m['zz'] IS NULL
m IS NULL
r.x = 1
r.X = 1
r['x'] = 1
r.x IS NULL
r IS NULL
r.x <=> NULL
I = 1
`I` = 1
`Odd ``name` = 1
1 = 1
1 = NULL
NULL
NULL IS NULL
TRUE
'a' 'b' = 'ab'
1 = 1.0
1 < 0.5D
i /* c */ = 1
"""

REFUSED_BY_BOTH = r"""
i = '1.5'
i = 'x'
i = '1e0'
i = true
i = DATE '2020-01-01'
bo = 1
bo = 'maybe'
da = 'x'
da = '2020-13-01'
da = 1
tz = 1
tz = '2020-01-01 24:00:00'
nt = '2020-01-01 00:00Z'
i IN ()
i IN (1, 'x')
s LIKE 'abc\\'
s LIKE 'a#bc' ESCAPE '#'
s LIKE 'a' ESCAPE 'ab'
r.y = 1
nothing = 1
m = 1
i IS TRUE
i = 1000Y
i = 1e400
i = CAST(300 AS TINYINT)
i = CAST('x' AS INT)
d = 12345678901234567890123456789012345678.9
i IS NULL IS NULL
i = 1 &&& 2
da = DATE '2020-02-30'
tz = TIMESTAMP '2020-01-01 25:00:00'
"""


def test_what_spark_refuses_is_refused(spark: Any) -> None:
    frame = spark.createDataFrame(table(spread()), DDL)
    from pyspark.errors import PySparkException

    for text in REFUSED_BY_BOTH.strip().splitlines():
        with pytest.raises(PredicateError):
            print(text, to_sql(bind(parse_filter(text), FIELDS)))
        with pytest.raises(PySparkException):
            print(text, answers(spark, frame, [text]))


@pytest.mark.parametrize("name", sampled(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "+01:30"], 2))
def test_clock_changes(spark: Any, name: str) -> None:
    """Around midnight, skipped hours and hours that come twice, each half an hour, in every direction."""
    base = {"Europe/Berlin": [1616893200, 1635642000], "America/New_York": [1615705200, 1636264800]}
    turns = base.get(name, [1616893200])
    rows = []
    for turn in turns:
        for half in range(-10, 11):
            second = turn + half * 1800
            shifted = second + (3600 if "Europe" in name else -18000)
            rows.append({**dict.fromkeys(f.name for f in model.FIELDS), "tz": second * 10**6, "nt": shifted * 1000})
            rows[-1]["da"] = shifted // 86400
    literals = []
    for turn in turns:
        for minutes in (-90, -60, -30, -15, 0, 15, 30, 45, 60, 90) if LONG else (-60, -15, 0, 30, 60):
            stamp = model._stamp_text((turn + minutes * 60) * 10**6)
            local = model._stamp_text((turn + minutes * 60 + (3600 if "Europe" in name else -18000)) * 10**6)
            literals += [f"TIMESTAMP '{stamp}+00:00'", f"TIMESTAMP '{local}'", f"TIMESTAMP_NTZ '{local}'", f"'{local}'"]
        literals.append(f"DATE '{model._date_text(turn // 86400)}'")
    texts = [f"{c} {op} {lit}" for c in ("nt", "tz", "da") for op in ("=", "<", ">=", "<>") for lit in literals]
    check(spark, texts, name, rows)
