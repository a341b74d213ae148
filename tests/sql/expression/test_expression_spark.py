"""Expressions as Spark SQL itself evaluates them: types and values, in one query per session time zone."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from support.effort import sampled
from support.spark_zone import zone

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DDL = (
    "t tinyint, n smallint, i int, l bigint, f float, d double, m decimal(10,2), w decimal(38,10), s string, u string,"
    " bo boolean, da date, ts timestamp, nt timestamp_ntz, bi binary, r struct<x: int, y: string>, mp map<string, int>"
)
UTC = dt.UTC


def rows() -> pa.Table:
    stamps = [
        dt.datetime(2020, 2, 29, 23, 59, 59, 999_999), dt.datetime(1969, 12, 31, 0, 0, 0, 1),
        dt.datetime(2021, 3, 28, 2, 30), dt.datetime(1900, 1, 1), dt.datetime(2026, 10, 25, 2, 30, 15, 120_000),
    ]  # fmt: skip
    pools: dict[str, tuple[pa.DataType, list[Any]]] = {
        "t": (pa.int8(), [1, -3, None, 100, 0, 7]),
        "n": (pa.int16(), [2, None, -300, 5, 30_000, 0]),
        "i": (pa.int32(), [1, -2, 3, None, 2_000_000, 0, 17]),
        "l": (pa.int64(), [10, None, -(2**40), 0, 9_007_199_254_740_993, 5]),
        "f": (pa.float32(), [1.5, None, -0.1, math.nan, 1e10, 0.0]),
        "d": (pa.float64(), [0.1, 2.5, None, -1e-5, math.nan, 1e20, -2.5, 0.0]),
        "m": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.55"), None, Decimal("0.01"), Decimal("9999999.99")]),
        "w": (
            pa.decimal128(38, 10),
            [Decimal("3.1234567890"), None, Decimal("-9999999999999999.5"), Decimal("0E-10")],
        ),
        "s": (pa.string(), ["abc", "", None, " Ab c ", "straße", "12", "a%b_c"]),
        "u": (pa.string(), ["b", None, "x", "Ünï", " ", "abcdef"]),
        "bo": (pa.bool_(), [True, False, None]),
        "da": (pa.date32(), [s.date() for s in stamps] + [None, dt.date(2024, 12, 30), dt.date(2023, 1, 1)]),
        "ts": (pa.timestamp("us", "UTC"), [s.replace(tzinfo=UTC) for s in stamps] + [None]),
        "nt": (pa.timestamp("us"), [None, *stamps]),
        "bi": (pa.binary(), [b"abc", None, b""]),
        "r": (pa.struct([("x", pa.int32()), ("y", pa.string())]), [{"x": 1, "y": "p"}, None, {"x": None, "y": "q"}]),
        "mp": (pa.map_(pa.string(), pa.int32()), [[("k", 1)], [], None, [("k", None), ("l", 2)]]),
    }
    return pa.table({name: pa.array([pool[n % len(pool)] for n in range(24)], t) for name, (t, pool) in pools.items()})


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def plain(array: pa.Array) -> list[Any]:
    """Values that compare: NaN as a text, floats by their bits' meaning."""
    return ["NaN" if isinstance(v, float) and math.isnan(v) else v for v in array.to_pylist()]


def close(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Equal, but for the last bit of functions that Java's library computes itself."""
    return all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-15))
        for a, b in zip(found, expected, strict=True)
    )


def ask(spark: Any, frame: Any, texts: Sequence[str]) -> pa.Table:
    """All expressions in one query; names the first one that Spark refuses."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        return frame.select([F.expr(text).alias(str(n)) for n, text in enumerate(texts)]).toArrow().combine_chunks()
    except PySparkException:
        for text in texts:
            try:
                frame.select(F.expr(text)).collect()
            except PySparkException as error:
                pytest.fail(f"Spark refuses {text}: {str(error)[:300]}")
        raise


def compare(spark: Any, texts: Sequence[str], timezone: str = "UTC") -> None:
    data = rows()
    scope = Scope(("t",), from_arrow_schema(data.schema))
    wrong: dict[str, Any] = {}
    with zone(spark, timezone):
        answers = ask(spark, spark.createDataFrame(data, DDL), texts)
    batch = data.combine_chunks().to_batches()[0]
    for n, text in enumerate(texts):
        expected = answers.column(n)
        try:
            found = bind_expression(text, [scope], timezone=timezone).evaluate(batch)
        except PredicateError as error:
            wrong[text] = str(error)
            continue
        type_ = normal(expected.type)
        same = found.type == type_ or pa.types.is_null(type_)
        if not same or not close(plain(found), plain(expected.cast(type_))):
            wrong[text] = (str(found.type), str(type_), plain(found), plain(expected))
    assert not wrong


def normal(type_: pa.DataType) -> pa.DataType:
    """Spark's timestamps carry the session's zone, ours UTC."""
    if pa.types.is_timestamp(type_) and type_.tz:
        return pa.timestamp("us", "UTC")
    return pa.string() if pa.types.is_large_string(type_) else type_


def test_values_and_types(spark: Any) -> None:
    compare(spark, lines(EVERYDAY))


@pytest.mark.parametrize("timezone", sampled(["Europe/Berlin", "+05:30"], 1))
def test_times_in_other_zones(spark: Any, timezone: str) -> None:
    compare(spark, lines(TIMES), timezone)


@pytest.mark.parametrize(
    ("timezone", "change"),
    sampled(
        [
            ("America/Los_Angeles", "2024-11-03 09:00:00"),
            ("America/Los_Angeles", "2024-03-10 10:00:00"),
            ("Australia/Lord_Howe", "2024-04-06 15:00:00"),  # by half an hour
            ("America/Havana", "2024-11-03 05:00:00"),  # midnight comes twice
            ("America/Sao_Paulo", "2018-11-04 03:00:00"),  # a day without midnight
            ("America/Los_Angeles", "1883-11-18 19:52:58"),  # from local mean time, which has seconds
            ("Africa/Monrovia", "1972-01-07 00:44:30"),
        ],
        2,
    ),
)
def test_units_of_time_where_clocks_are_set(spark: Any, timezone: str, change: str) -> None:
    """An hour that comes twice is two hours, as in Spark."""
    at = dt.datetime.fromisoformat(change).replace(tzinfo=UTC)
    instants = [at + dt.timedelta(minutes=10 * n, seconds=n % 60) for n in range(-160, 160)]
    data = pa.table({"ts": pa.array([*instants, None], pa.timestamp("us", "UTC"))})
    units = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"]
    texts = [f"date_trunc('{unit}', ts)" for unit in units]
    with zone(spark, timezone):
        answers = ask(spark, spark.createDataFrame(data, "ts timestamp"), texts)
    scope = Scope(("t",), from_arrow_schema(data.schema))
    for n, text in enumerate(texts):
        found = bind_expression(text, [scope], timezone=timezone).evaluate(data.to_batches()[0])
        expected = answers.column(n).cast(found.type).combine_chunks()
        assert found.view(pa.int64()).equals(expected.view(pa.int64())), text


def test_what_fails_in_spark_fails_here(spark: Any) -> None:
    """One clear error where Spark gives one, when the statement is analysed or when it runs."""
    from pyspark.errors import PySparkException

    data = rows()
    frame = spark.createDataFrame(data, DDL)
    scope = Scope(("t",), from_arrow_schema(data.schema))
    batch = data.combine_chunks().to_batches()[0]
    for text in lines(FAILING):
        with pytest.raises(PySparkException):
            frame.selectExpr(text).collect()
        with pytest.raises(PredicateError):
            bind_expression(text, [scope]).evaluate(batch)


TIMES = """
cast(da as timestamp)
cast(nt as timestamp)
cast(ts as timestamp_ntz)
cast(ts as date)
cast(ts as string)
cast('2021-03-28 02:30:00' as timestamp)
hour(ts)
hour(nt)
day(ts)
minute(ts)
date_trunc('day', ts)
date_trunc('hour', nt)
ts = nt
ts < da
ts > '2020-01-01'
coalesce(ts, da)
coalesce(nt, da)
TIMESTAMP '2020-01-01 12:00:00'
TIMESTAMP_NTZ '2020-01-01 12:00:00'
cast(ts as bigint)
cast(12345 as timestamp)
da + INTERVAL 1 DAY
da - INTERVAL '2' MONTH
da + INTERVAL 1 YEAR
da + INTERVAL 3 HOURS
da + INTERVAL 2 WEEKS
ts + INTERVAL 1 DAY
ts - INTERVAL 7 DAYS
ts + INTERVAL 24 HOURS
ts + INTERVAL 25 HOURS
ts - INTERVAL 25 HOURS
ts + INTERVAL 11 MONTHS
ts + INTERVAL 1 YEAR 1 MONTH
ts - INTERVAL '1.5' SECOND
ts + INTERVAL '1 day 12 hours'
ts + INTERVAL 2 DAYS 30 MINUTES
ts - INTERVAL -1 DAY
nt + INTERVAL 1 DAY
nt - INTERVAL 13 MONTHS
nt + INTERVAL 90 MINUTES
INTERVAL 2 WEEKS + nt
TIMESTAMP '2021-03-27 02:30:00' + INTERVAL 1 DAY
TIMESTAMP '2026-10-24 02:30:00' + INTERVAL 1 DAY
ts >= TIMESTAMP '2021-03-28 00:00:00' - INTERVAL 2 YEARS
da > DATE '2020-01-01' - INTERVAL 1 DAY
"""

EVERYDAY = (
    TIMES
    + r"""
1
-1
1L
1.5
1e3
1.5F
'text'
NULL
DATE '2020-01-31'
X'1F'
i + 1
t + 1Y
t + n
i + l
i - 1
i * 2
i / 2
i / nullif(t, 0)
l % 7
-17 % 5
i % 5
t % 2Y
d % 0.3D
-i
+i
~i
i & 5
i | 8L
i ^ 3
i div 2
l div 3
m div 1
f + 1
f + d
f * 2.0
f / 2
i + f
l + d
i + 1.5
i + m
l + m
1 + m
m + m
m - w
m * m
m * w
w * w
m / 3
m / 7.00
w / 3
w / 0.0000001
m % 0.7
w % 3
m * i
m * 2
m * 1.10
m + d
m = 1.5
m > i
w < m
m <=> NULL
i = l
i = '1'
d = 0.1
f = 0.1
d = f
d > 1e19
d <=> 'NaN'
d >= 'NaN'
f < 'NaN'
s = 'abc'
s < u
s <=> u
s IS DISTINCT FROM u
bo = true
bo AND i > 0
bo OR i > 0
NOT bo
bo IS TRUE
bo IS NOT FALSE
i IS NULL
i IN (1, 3, NULL)
i IN (1, 2.5)
i NOT IN (1, 3)
s IN ('abc', u)
d IN (0.1D, 'NaN')
da IN ('2020-02-29')
i BETWEEN t AND l
i NOT BETWEEN 1 AND 3
s LIKE '%b%'
s LIKE 'a\\%b\\_c'
s NOT LIKE 'a%'
s ILIKE '%AB%'
s RLIKE '^[a-z]+$'
s LIKE 'aX%bX_c' ESCAPE 'X'
s LIKE u
s NOT LIKE concat('%', u)
'abc' ILIKE concat(upper(u), '%')
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE 'zero or null' END
CASE i WHEN 1 THEN 1 WHEN 3 THEN 2.5 END
CASE WHEN bo THEN i ELSE l END
CASE WHEN bo THEN m ELSE i END
CASE WHEN bo THEN f ELSE i END
CASE WHEN bo THEN da ELSE ts END
CASE WHEN i <> 0 THEN 10 / i END
coalesce(i, l, 0)
coalesce(m, 0)
coalesce(m, w)
coalesce(f, m)
coalesce(f, 1.5)
nvl(s, 'none')
ifnull(i, 2.5D)
nullif(i, 1)
nullif(m, 0.01)
if(bo, 1, 2)
if(bo, 'x', NULL)
nvl2(i, 'y', 'n')
greatest(t, n, i)
least(i, l, 1.5)
greatest(d, f)
least(d, f)
greatest(s, u)
r.x
r.y || '!'
mp['k']
cast(i as string)
cast(d as string)
cast(f as string)
cast(m as string)
cast(w as string)
cast(bo as string)
cast(da as string)
cast(bi as string)
cast(i as double)
cast(i as decimal(12,3))
cast(m as int)
cast(m as double)
cast(w as double)
cast(m as decimal(12,1))
cast(i as boolean)
cast(m as boolean)
cast(bo as int)
cast(t as bigint)
cast(i as bigint)
cast('12' as int)
cast(' 12 ' as bigint)
cast('1.5' as double)
cast('1e2' as decimal(10,2))
cast('2020-1-2' as date)
cast('true' as boolean)
cast('abc' as binary)
cast(2.5D as int)
cast(-2.7F as bigint)
cast(1.005D as decimal(10,2))
try_cast(s as int)
try_cast(s as date)
try_cast(l as tinyint)
int('7')
string(i)
double(m)
date('2020-01-01')
'5'::int + i
i::double / 3
s || u
concat(s, '-', i)
concat_ws('-', s, u, 'x')
concat_ws(',', s, i)
concat_ws('-', s, NULL, u)
concat_ws('-', nullif(s, s), nullif(u, u))
concat_ws(u, s, 'x', s)
upper(s)
lower(u)
initcap('the quick BROWN fox')
length(s)
length(bi)
char_length(u)
octet_length(u)
trim(s)
ltrim(s)
rtrim(s)
trim('ac', s)
ltrim('a', s)
rtrim('c', s)
trim('a' FROM s)
trim(BOTH 'ac' FROM s)
trim(LEADING 'a' FROM s)
btrim(s, 'ac')
substring(s, 2)
substring(s, 2, 2)
substring(s, 0, 2)
substring(s, -2, 5)
substring(s, -10, 9)
substr(s, i, 2)
substring(s FROM 2 FOR 1)
left(s, 2)
right(s, 2)
replace(s, 'b', 'xx')
replace(s, '', 'x')
replace(s, 'b')
lpad(s, 5, '*')
rpad(s, 5, 'xy')
lpad(s, 2, '*')
repeat(u, 2)
reverse(u)
instr(s, 'b')
locate('b', s)
locate('b', s, 3)
position('b' IN s)
split_part(s, ' ', 2)
md5(s)
sha(s)
sha1(u)
sha2(s, 256)
sha2(bi, 512)
sha2(u, 0)
sha2(u, 224)
sha2(u, 7)
translate(s, 'abc', 'xy')
translate(u, s, 'q')
regexp_replace(s, '[a-b]+', '-')
regexp_replace(s, '(b)(c)?', '<$1>')
regexp_replace(u, '^', '!')
startswith(s, 'a')
endswith(s, u)
contains(s, 'b')
abs(i)
abs(d)
abs(m)
sign(i)
floor(d / 1e20)
floor(m)
floor(i)
ceil(m)
ceil(0.5D)
round(d / 1e20, 2)
round(2.5D)
round(-2.5D)
round(m, 1)
round(m)
round(m, -1)
round(i, -1)
round(1.005D, 2)
round(f / 1e10F, 3)
sqrt(abs(d))
power(i, 2)
exp(0)
ln(i)
log10(1000)
isnan(d)
nanvl(d, 0)
mod(i, 2)
date_add(da, 1)
date_sub(da, i % 10)
da + 1
da - 1
1 + da
datediff(da, '2020-01-01')
add_months(da, 1)
add_months(da, -12)
last_day(da)
year(da)
month(da)
day(da)
quarter(da)
dayofweek(da)
weekday(da)
dayofyear(da)
weekofyear(da)
year(ts)
year('2021-05-06')
hour('2021-05-06 07:08:09')
second(ts)
extract(year FROM da)
extract(dow FROM da)
date_part('month', ts)
trunc(da, 'month')
trunc(da, 'week')
trunc(da, 'year')
date_trunc('month', ts)
date_trunc('quarter', ts)
date_trunc('week', nt)
date_trunc('millisecond', nt)
date_trunc('MICROSECOND', ts)
date_trunc('fortnight', ts)
to_date('2020-01-31')
to_date(ts)
to_timestamp('2020-01-31 10:11:12.5')
make_date(2020, 2, abs(i % 20) + 1)
current_date() = current_date
isnull(i)
isnotnull(i)
"""
)

FAILING = """
i / 0
m / 0
d / 0
i % 0
127Y + t
9223372036854775807 + abs(i)
2147483647 + i
cast(s as int)
cast(s as date)
cast(s as boolean)
cast(l as tinyint)
cast(d as int)
cast(m as decimal(3,2))
s + 1
bo + 1
bo = 1
da + 'x'
da = 1
i AND bo
NOT i
if(i, 1, 2)
nosuch(i)
nosuch
coalesce(i, 'x')
coalesce(bo, 1)
CASE WHEN bo THEN 1 ELSE da END
cast(da as int)
cast(bo as date)
upper(i, i)
r.z
i.x
w * 1e30BD
-cast(-128 as tinyint)
abs(cast(-128 as tinyint))
make_date(2020, 2, 30)
s LIKE 'a\\\\x'
regexp_replace(s, '(a)', '$2')
regexp_replace(s, 'a', 'x$')
md5(i)
"""
