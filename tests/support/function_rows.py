"""Rows, and expressions of them, that functions are tried with: arrays, maps, rows, texts and times at their edges."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

GOLDEN = Path(__file__).with_name("functions_of_spark.tsv")
"""Expressions, their types and their values as texts, as Spark 4.3 gives them in the zone America/Los_Angeles."""
ZONE = "America/Los_Angeles"
ONE_ROW = pa.record_batch({"": [None]})


def golden() -> list[list[str]]:
    return [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


ROW = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema([
    ("t", pa.int8()), ("i", pa.int32()), ("l", pa.int64()), ("f", pa.float32()), ("d", pa.float64()),
    ("m", pa.decimal128(10, 2)), ("w", pa.decimal128(38, 10)), ("s", pa.string()), ("u", pa.string()),
    ("bo", pa.bool_()), ("da", pa.date32()), ("tz", pa.timestamp("us", "UTC")), ("nt", pa.timestamp("us")),
    ("bi", pa.binary()), ("ai", pa.list_(pa.int32())), ("at", pa.list_(pa.string())), ("ad", pa.list_(pa.float64())),
    ("ar", pa.list_(ROW)), ("r", ROW), ("mp", pa.map_(pa.string(), pa.int32())), ("js", pa.string()),
])  # fmt: skip
DDL = (
    "t tinyint, i int, l bigint, f float, d double, m decimal(10,2), w decimal(38,10), s string, u string, bo boolean,"
    " da date, tz timestamp, nt timestamp_ntz, bi binary, ai array<int>, at array<string>, ad array<double>,"
    " ar array<struct<x: int, y: string>>, r struct<x: int, y: string>, mp map<string, int>, js string"
)
STAMPS = [
    "0001-01-01 00:00:00", "0001-12-31 12:00:00", "1582-10-10 03:04:05.600700", "1850-06-01 13:00:00",
    "1883-11-18 19:52:58", "1883-11-18 20:00:00", "1899-12-31 23:59:59.999999", "1905-12-31 18:30:00",
    "1941-10-01 00:00:00", "1969-12-31 23:59:59.500000", "1970-01-01 00:00:00", "1999-12-31 23:59:59.999000",
    "2020-02-29 23:59:59.999999", "2024-03-10 09:59:59", "2024-03-10 10:30:00", "2024-11-03 08:30:00.000001",
    "2024-11-03 09:30:00", "2026-10-25 02:30:15.120000", "9999-12-30 09:08:07.999999",
]  # fmt: skip
TEXTS = [
    "abc", "", " Ab c ", "straße", "12", "a%b_c", "b", "a1b22c333", "x,y,,z,", "Ünï😀x", "line\nbreak", "ab\n", "A-B-C",
    "2020-02-29", "The quick brown fox jumps over the lazy dog, twice",
]  # fmt: skip
JSON = [
    '{"a":1,"b":[1,2,"x"],"c":{"d":"e"}}', "[1,2]", "not json", '{"a":null}', '{"a":"t\\u00e9xt","b":[]}',
    '{"a": 1.50, "c": {"d" : [ true ,null]}}', "{'a':'it'}", '{"a":1,"a":2}', '{"b":[{"a":1},{"a":[2]}]}', "",
]  # fmt: skip
FLOATS = [0.0, -0.0, 0.1, -2.5, 1e-5, 1e10, 2.5, 100.25, math.nan]
ROWS = 60


def table(seed: int = 7) -> pa.Table:
    """Each column's edges in turn, then random values; a seventh of all is NULL."""
    random_ = random.Random(seed)

    def some(make: Any) -> Any:
        return None if random_.random() < 1 / 7 else make()

    def times() -> dt.datetime:
        return dt.datetime(1800, 1, 1) + dt.timedelta(microseconds=random_.randrange(10**16))

    def texts() -> str:
        return "".join(random_.choice("abcxyz ,-1290äß😀") for _ in range(random_.randrange(12)))

    integers: dict[str, Any] = {
        "t": lambda: random_.randrange(-128, 128), "i": lambda: random_.randrange(-40, 40),
        "l": lambda: random_.choice([0, 1, -(2**40), 2**53 + 1, random_.randrange(-(10**9), 10**10)]),
    }  # fmt: skip
    makers: dict[str, Any] = {
        **integers,
        "f": lambda: random_.choice([0.0, -0.1, 1.5, math.nan, 1e10]), "d": lambda: random_.choice(FLOATS),
        "m": lambda: Decimal(random_.randrange(-(10**6), 10**6)).scaleb(-2),
        "w": lambda: Decimal(random_.choice([0, 1, -256, 10**20, random_.randrange(-(10**30), 10**30)])).scaleb(-10),
        "s": lambda: random_.choice([random_.choice(TEXTS), texts()]), "u": texts,
        "bo": lambda: random_.random() < 0.5, "da": lambda: times().date(),
        "tz": lambda: times().replace(tzinfo=dt.UTC), "nt": times,
        "bi": lambda: random_.randbytes(random_.randrange(20)),
        "ai": lambda: [some(lambda: random_.randrange(-3, 4)) for _ in range(random_.randrange(5))],
        "at": lambda: [some(lambda: random_.choice(["a", "b", "abc", ""])) for _ in range(random_.randrange(5))],
        "ad": lambda: [some(lambda: random_.choice(FLOATS)) for _ in range(random_.randrange(5))],
        "ar": lambda: [some(lambda: {"x": some(lambda: random_.randrange(3)), "y": some(texts)}) for _ in range(3)],
        "r": lambda: {"x": some(lambda: random_.randrange(3)), "y": some(lambda: random_.choice("pq"))},
        "mp": lambda: [(key, some(lambda: random_.randrange(5))) for key in random_.sample(["k", "l", "abc", ""], 2)],
        "js": lambda: random_.choice(JSON),
    }  # fmt: skip
    columns = {name: [some(makers[name]) for _ in range(ROWS)] for name in SCHEMA.names}
    stamps = [dt.datetime.fromisoformat(text) for text in STAMPS]
    columns["tz"][: len(stamps)] = [stamp.replace(tzinfo=dt.UTC) for stamp in stamps]
    columns["nt"][3 : 3 + len(stamps)] = stamps
    columns["da"][: len(stamps)] = [stamp.date() for stamp in stamps]
    columns["s"][: len(TEXTS)] = TEXTS
    columns["js"][: len(JSON)] = JSON
    columns["ai"][:3] = [[1, 2, 3], [], [None]]
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names}, SCHEMA)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


NESTED = _lines("""
    array_contains(ai, 2)
    array_contains(ai, i)
    array_contains(ad, d)
    array_contains(array(1, 2, NULL), i)
    array_contains(ar.x, 1)
    array_position(ai, 2)
    array_position(at, 'abc')
    array_remove(ai, 2)
    size(ai)
    size(mp)
    cardinality(at)
    try_element_at(ai, 2)
    try_element_at(ai, -2)
    try_element_at(ai, nullif(i, 0))
    try_element_at(mp, 'k')
    element_at(mp, 'k')
    element_at(mp, s)
    mp['k']
    mp[u]
    get(ai, 1)
    get(ai, i)
    get(at, 0) = 'a'
    ar.y
    get(ar, 1).x
    map_keys(mp)
    map_values(mp)
    map_entries(mp)
    map_contains_key(mp, 'k')
    map_contains_key(mp, s)
    map_filter(mp, (k, v) -> v > 1 OR k = 'a')
    transform_values(mp, (k, v) -> v + i)
    transform_keys(mp, (k, v) -> upper(k))
    map_from_arrays(array('a', 'b'), array(i, l))
    map('a', i, 'b', t)
    exists(ai, x -> x > 2)
    exists(ai, x -> x > i)
    exists(at, x -> x LIKE 'a%')
    exists(ar, x -> x.x = 1 AND x.y IS NOT NULL)
    exists(map_keys(mp), k -> k = 'k')
    exists(ai, x -> exists(ai, y -> y = x + 1))
    forall(ai, x -> x > 0)
    filter(ai, x -> x > 1)
    filter(ai, (x, n) -> n % 2 = 0)
    filter(ar, e -> e.x > 0)
    transform(ai, x -> x * 2 + i)
    transform(ai, (x, n) -> x * n)
    transform(at, x -> upper(x))
    transform(ar, e -> e.x)
    zip_with(ai, at, (x, y) -> concat(y, x))
    aggregate(ai, 0, (a, x) -> a + coalesce(x, 0))
    aggregate(ai, 0, (a, x) -> a + coalesce(x, 0), a -> a * 10)
    array_distinct(ai)
    array_distinct(ad)
    array_max(ai)
    array_max(ad)
    array_min(at)
    array_sort(ai)
    sort_array(ad)
    sort_array(at, false)
    array_join(at, '-')
    array_join(at, '-', '?')
    array_union(ai, array(i, 7))
    array_intersect(ai, array(1, 2, NULL))
    array_except(ai, array(1, NULL))
    arrays_overlap(ai, array(1, 5))
    arrays_overlap(ai, array(i, NULL))
    arrays_zip(ai, at)
    array_append(ai, i)
    array_insert(ai, 2, i)
    array_insert(at, coalesce(nullif(t, 0), 3) % 9 + 10, s)
    array_insert(ai, coalesce(nullif(i % 6, 0), -1), 7)
    array_insert(ad, -2, i)
    to_json(ai)
    to_json(ad)
    to_json(ar)
    to_json(mp)
    to_json(struct(t, i, l, bo, m, w, s, bi))
    to_json(struct(f, d, r, ar, mp, NULL AS n))
    to_json(map(coalesce(i, 99), s, coalesce(l, 77), u))
    to_json(array(r, NULL))
    array_prepend(at, s)
    array_compact(ai)
    array_repeat(s, 2)
    slice(ai, 1, 2)
    slice(ai, -2, 2)
    reverse(ai)
    concat(ai, array(i))
    concat_ws(',', at, s)
    flatten(array(ai, ai))
    sequence(i, i + 2)
    array(i, t)
    named_struct('a', i, 'b', ai)
    struct(i, s).s
    (i, bo) = (1, true)
    r IN (struct(1, 'p'), struct(2, 'q'))
    r <=> struct(1, 'p')
    ai = array(1, 2, 3)
    ai <> array(i)
    CAST(ai AS STRING)
    CAST(ai AS ARRAY<BIGINT>)
    CAST(mp AS STRING)
    CAST(ar AS STRING)
    CAST(r AS STRING)
    CAST(array(tz, nt) AS STRING)
    CASE WHEN size(ai) > 2 THEN ai ELSE array(i) END
    coalesce(at, array())
    typeof(ar)
""")
HASHES = _lines("""
    hash(i)
    hash(t, i, l)
    hash(s)
    hash(f, d)
    hash(m)
    hash(w)
    hash(da, tz, nt)
    hash(bi, bo)
    hash(ai, at, ad)
    hash(ar, r)
    xxhash64(i)
    xxhash64(t, i, l)
    xxhash64(s, u)
    xxhash64(f, d, m, w)
    xxhash64(da, tz, nt, bi, bo)
    xxhash64(ai, at, ad, ar, r)
    pmod(hash(s), 10)
    crc32(s)
    md5(bi)
""")
TEXT = _lines("""
    split(s, ',')
    split(s, '[bc]')
    split(s, '')
    split(s, ' ', 2)
    split(s, u)[0]
    split_part(s, '-', 2)
    s RLIKE '^[a-z]+$'
    regexp_like(s, '(?i)AB')
    regexp_like(s, 'b$')
    regexp_like(s, '\\\\p{L}{3}')
    regexp_like(s, '\\\\s')
    regexp_extract(s, '([a-z]+)([0-9]+)?', 2)
    regexp_extract_all(s, '([a-z])[0-9]', 1)
    regexp_count(s, '[a-z]')
    regexp_instr(s, '[0-9]')
    regexp_substr(s, '[0-9]+')
    regexp_replace(s, '([a-z])([0-9])', '$2<$1>')
    regexp_replace(s, 'b', 'x', 2)
    get_json_object(js, '$.a')
    get_json_object(js, '$.b[0]')
    get_json_object(js, '$.c.d')
    get_json_object(js, '$.b[*].a')
    get_json_object(js, '$')
    json_array_length(js)
    json_object_keys(js)
    str_to_map(concat('k:', replace(s, ',', ';')))
    substring_index(s, '-', 2)
    overlay(s PLACING 'x' FROM 2 FOR 1)
    find_in_set(u, s)
    levenshtein(s, u)
    ascii(s)
    hex(s)
    hex(i)
    hex(bi)
    base64(bi)
    unbase64(base64(bi))
    bin(l)
    bit_length(s)
    encode(s, 'UTF-8')
    elt(2, s, u)
    reverse(s)
    concat_ws('-', s, u, NULL)
    s ILIKE ANY ('A%', '%B')
    decode(i, 1, 'a', 2, 'b', 'z')
    typeof(s)
""")
NUMBERS = _lines("""
    pmod(i, 7)
    pmod(l, t)
    pmod(m, 3)
    pmod(d, 2)
    cbrt(d)
    expm1(d)
    log1p(d)
    log(2, d)
    rint(d)
    sin(d)
    atan2(d, 1)
    degrees(d)
    radians(d)
    hypot(d, 3)
    factorial(i)
    shiftleft(i, 2)
    i << 2 + 1
    l >> 1 & 7
    i >>> t
    i + 1 << 3 | 5 > 2 << 1
    format_number(d, 2)
    format_number(f, 3)
    format_number(m, 1)
    format_number(w, 4)
    format_number(l, 0)
    format_number(d * 1000 + 0.125, t % 4)
    conv(i, 10, 16)
    conv(s, 36, 10)
    conv(l, 10, -2)
    conv(hex(i), 16, t)
    shiftright(l, 1)
    shiftrightunsigned(i, 1)
    bit_count(l)
    getbit(i, 3)
    zeroifnull(i)
    nullifzero(i)
    equal_null(i, t)
    try_divide(i, t)
    try_divide(m, i)
    try_add(i, 2147483600)
    try_subtract(t, i)
    try_multiply(l, 9007199254740993)
    try_mod(i, t)
""")
TIMES = _lines("""
    date_format(tz, 'yyyy-MM-dd HH:mm:ss.SSSSSS')
    date_format(tz, 'yyyyy G yy y MMM MMMM L E EEEE D DDD Q QQQ QQQQ F')
    date_format(tz, 'h hh H HH k kk K KK a m s S SSS SSSSSSSSS')
    date_format(tz, 'XXXXX xxxxx XXXX XXX XX X x O OOOO Z ZZZZ ZZZZZ')
    date_format(tz, 'yyyy-MM-dd\\'T\\'HH:mm:ss[.SSS]XXX')
    date_format(tz, 'VV')
    date_format(nt, 'dd.MM.yyyy HH:mm')
    date_format(da, 'yyyy-MM')
    to_json(struct(tz, nt, da))
    to_json(array(tz))
    from_unixtime(i * 100000000L)
    from_unixtime(unix_timestamp(tz), 'dd/MM/yyyy HH:mm:ss')
    unix_timestamp(tz)
    unix_timestamp(nt)
    unix_timestamp(da)
    unix_timestamp(date_format(tz, 'yyyy-MM-dd HH:mm:ss'))
    to_date(date_format(tz, 'yyyy/MM/dd'), 'yyyy/MM/dd')
    to_timestamp(date_format(tz, 'yyyy-MM-dd HH:mm:ss'), 'yyyy-MM-dd HH:mm:ss')
    to_timestamp(date_format(tz, 'yyyy-MM-dd HH:mm:ss.SSSSSS XXXXX'), 'yyyy-MM-dd HH:mm:ss.SSSSSS XXXXX')
    to_timestamp_ntz(date_format(nt, 'd MMMM yyyy hh:mm a'), 'd MMMM yyyy hh:mm a')
    try_to_date(s, 'yyyy-MM-dd')
    try_to_timestamp(s)
    try_to_timestamp(u, 'yyyy')
    year(tz)
    hour(tz)
    second(tz)
    extract(SECOND FROM tz)
    extract(WEEK FROM tz)
    extract(DOW_ISO FROM da)
    extract(YEAROFWEEK FROM da)
    date_trunc('month', tz)
    date_trunc('day', tz)
    date_trunc('hour', tz)
    trunc(tz, 'quarter')
    months_between(tz, nt)
    months_between(tz, da, false)
    next_day(da, 'sunday')
    dayname(tz)
    monthname(tz)
    unix_seconds(tz)
    unix_millis(tz)
    unix_micros(tz)
    unix_date(da)
    timestamp_seconds(i)
    timestamp_millis(l)
    date_from_unix_date(i)
    from_utc_timestamp(tz, 'America/Los_Angeles')
    to_utc_timestamp(tz, 'America/Los_Angeles')
    convert_timezone('Asia/Tokyo', nt)
    timestampdiff(HOUR, tz, nt)
    timestampdiff(DAY, tz, nt)
    timestampdiff(WEEK, tz, da)
    timestampdiff(MONTH, tz, nt)
    timestampdiff(YEAR, tz, nt)
    timestampdiff(SECOND, nt, tz)
    datediff(DAY, tz, da)
    datediff(da, tz)
    timestampadd(HOUR, 3, tz)
    timestampadd(HOUR, 49, tz)
    timestampadd(HOUR, 24, tz)
    tz + INTERVAL 49 HOURS
    tz + INTERVAL 3 DAYS
    timestampadd(DAY, i, tz)
    timestampadd(MONTH, i, tz)
    timestampadd(SECOND, 10, nt)
    dateadd(WEEK, 2, tz)
    date_add(DAY, i, da)
    CAST(tz AS STRING)
    tz = nt
    CAST(array(tz) AS STRING)
    typeof(tz)
""")
EXPRESSIONS = [*NESTED, *HASHES, *TEXT, *NUMBERS, *TIMES]
