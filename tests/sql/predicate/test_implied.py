"""What comparisons of functions say of columns: never less than the rows for which they are true."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import PaimonError
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.expression.condition import bind_filter
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import And, computed_parts, make_and
from support.effort import LONG, SEED

SCHEMA = pa.schema([
    ("a", pa.int32()), ("big", pa.int64()), ("s", pa.string()), ("ts", pa.timestamp("us")), ("tn", pa.timestamp("ns")),
    ("t0", pa.timestamp("s")), ("t3", pa.timestamp("ms", "UTC")), ("tz", pa.timestamp("us", "UTC")), ("d", pa.date32()),
    ("f", pa.float32()), ("x", pa.float64()), ("b", pa.bool_()),
])  # fmt: skip
FIELDS = from_arrow_schema(SCHEMA)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo", "+03:00"]
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "implied"),
    [
        ("year(d) = 2024", "d >= DATE '2024-01-01' AND d < DATE '2025-01-01'"),
        ("2024 < year(d)", "d >= DATE '2025-01-01'"),
        ("NOT year(d) > 2024", "d < DATE '2025-01-01'"),
        ("extract(year FROM d) <= 2024", "d < DATE '2025-01-01'"),
        ("date(ts) >= '2024-02-29'", "ts >= TIMESTAMP_NTZ '2024-02-29 00:00:00'"),
        ("CAST(ts AS DATE) < DATE '2024-03-01'", "ts < TIMESTAMP_NTZ '2024-03-01 00:00:00'"),
        ("date_trunc('hour', ts) >= '2024-02-29 10:00:00'", "ts >= TIMESTAMP_NTZ '2024-02-29 10:00:00'"),
        ("trunc(d, 'MM') = '2024-02-01'", "d >= DATE '2024-02-01' AND d < DATE '2024-03-03'"),
        ("date_add(d, 7) >= '2024-02-08'", "d >= DATE '2024-02-01'"),
        ("datediff('2024-02-08', d) <= 7", "d >= DATE '2024-02-01'"),
        ("d - 7 < DATE '2024-02-01'", "d < DATE '2024-02-08'"),
        ("d + INTERVAL 7 DAYS >= '2024-02-08'", "d >= DATE '2024-02-01'"),
        ("ts - INTERVAL 12 HOURS >= '2024-02-08'", "ts >= TIMESTAMP_NTZ '2024-02-08 12:00:00'"),
        ("a + 1 = 6", "a = 5"),
        ("3 - a > 1", "a < 2"),
        ("-a IN (1, 2, NULL)", "a IN (-2, -1)"),
        ("CAST(a AS STRING) = '7'", "a = 7"),
        ("substr(s, 1, 2) = 'ab'", "startswith(s, 'ab')"),
        ("left(s, 3) = 'ab'", "s = 'ab'"),
        ("left(s, 3) >= 'ab'", "s >= 'ab'"),
        ("coalesce(a, 0) > 3", "a > 3"),
        ("coalesce(a, 5) > 3", "a > 3 OR a IS NULL"),
    ],
)  # fmt: skip
def test_what_functions_say_of_columns(text: str, implied: str) -> None:
    bound = bind_filter(text, FIELDS)
    (asked,) = computed_parts(bound)
    assert isinstance(bound, And)
    assert to_sql(make_and(*(part for part in bound.children if part is not asked))) == implied


@pytest.mark.parametrize(
    "text",
    [
        "upper(s) = 'A'", "coalesce(a, '5') > '10'", "a + big = 3", "month(ts) = 2", "year(ts) <> 2024", "a + 0.5 > 1",
        "substr(s, 2, 2) = 'ab'", "(year(ts) = 2024) IS NOT TRUE", "year(ts) = 2024.5", "date(s) = '2024-01-01'",
        "x + 1 > 2", "year(ts) = 99999", "date(ts) NOT IN ('2024-01-01')",
    ],
)  # fmt: skip
def test_others_are_left_to_the_rows(text: str) -> None:
    assert list(computed_parts(bind_filter(text, FIELDS))) == [bind_filter(text, FIELDS)]


# ------------------------------------------------------------------------------------------------------- the law


class _Texts:
    """Conditions, and values near those that they name."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.of = chance, chance.choice

    def day(self) -> int:
        near = 19_783 + self.chance.randrange(-400, 3)
        return int(self.of([near, 19_783, 19_782, 0, -1, 15_338, self.chance.randrange(-200_000, 200_000)]))

    def micros(self) -> int:
        within = self.of([0, -1, 1, 3_600_000_000 * self.chance.randrange(24), self.chance.randrange(DAY)])
        return self.day() * DAY + int(within)

    def column(self, field: pa.Field) -> pa.Array:
        of, number = self.of, lambda: self.of([5, 6, -3, 2**31 - 1, -(2**31), self.chance.randrange(-10, 10)])
        texts = ["", "a", "ab", "abc", "abd", "b", "aé", "aéz", "ab\uffff", "ab\U0001f600", "zz", "5"]
        make: dict[str, Callable[[], object]] = {
            "a": number, "big": lambda: of([number(), 2**62, -(2**63)]), "s": lambda: of(texts), "ts": self.micros,
            "tn": lambda: 1000 * self.micros() % 2**62 + self.chance.randrange(3), "tz": self.micros, "d": self.day,
            "t0": lambda: self.micros() // 1_000_000, "t3": lambda: self.micros() // 1_000,
            "f": lambda: of([0.0, 0.1, -1.5, float("nan")]), "x": lambda: of([0.0, 0.1, 5.0, float("nan")]),
            "b": lambda: of([True, False]),
        }  # fmt: skip
        temporal = pa.int32() if field.name == "d" else pa.int64() if pa.types.is_timestamp(field.type) else None
        plain = temporal or field.type
        values = [make[field.name]() if self.chance.random() > 0.1 else None for _ in range(300)]
        return pa.array(values, plain).view(field.type)

    def date(self) -> str:
        day = dt.date(1970, 1, 1) + dt.timedelta(self.day())
        return str(self.of([f"DATE '{day}'", f"'{day}'"]))

    def timestamp(self) -> str:
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=self.micros())
        return str(self.of([f"TIMESTAMP '{at}'", f"TIMESTAMP_NTZ '{at}'", f"'{at}'", self.date()]))

    def number(self) -> str:
        return str(self.of([0, 5, 2**31 - 1, -(2**31), 2**31, -(2**33), self.chance.randrange(-12, 12)]))

    def text(self) -> str:
        return str(self.of(["''", "'a'", "'ab'", "'abc'", "'b'", "'aé'", "'ab\U0001f600'", "'5'"]))

    def year(self) -> str:
        return str(self.of([2022, 2024, 1970, 1969, 1900]))

    def condition(self) -> str:
        of, t, days = self.of, self.of(["ts", "tn", "tz", "t0", "t3", "d"]), self.chance.randrange(-40, 40)
        unit = of(["year", "quarter", "month", "MM", "week", "day", "hour", "minute"])
        operand, literal = of([
            (f"date({t})", self.date), (f"CAST({t} AS DATE)", self.date), (f"trunc({t}, '{unit}')", self.date),
            (f"date_trunc('{unit}', {t})", self.timestamp), (f"date_add({t}, {days})", self.date),
            (f"date_sub(date({t}), {days})", self.date), (f"datediff({t}, {self.date()})", self.number),
            (f"datediff({self.date()}, {t})", self.number), (f"year({t})", self.year),
            (f"{t} {of('+-')} INTERVAL {of(['50 DAYS', '7 HOURS', '90 MINUTES', '3 MONTHS', '1.5 SECONDS'])}",
             self.timestamp),
            (f"extract(year FROM {t})", self.year), (f"year(date_add({t}, {days}))", self.year),
            (of(["d + 3", "3 + d", "d - 3"]), self.date), (f"coalesce({t}, {self.timestamp()})", self.timestamp),
            (of(["a + 5", "5 + a", "a - 5", "5 - a", "-a", "-(a + 2)", "7 - big", "CAST(a AS BIGINT)"]), self.number),
            (of(["CAST(a AS STRING)", "CAST(big AS STRING)"]), self.text), (f"left(s, {days % 4})", self.text),
            (f"substr(s, {of([0, 1, 1, 2])}, {days % 4})", self.text), (f"coalesce(s, {self.text()})", self.text),
            (f"coalesce(a, {self.number()})", self.number),
            (f"nvl({of('fx')}, {of(['0', '1.5', '0.1D'])})", self.number),
            (f"coalesce(b, {of(['true', 'false'])})", lambda: of(["true", "false"])),
        ])  # fmt: skip
        op = of(["=", "<", "<=", ">", ">=", "<>"])
        written = of([
            f"{operand} {op} {literal()}", f"{literal()} {op} {operand}",
            f"{operand} BETWEEN {literal()} AND {literal()}", f"{operand} IN ({literal()}, {literal()}, NULL)",
        ])  # fmt: skip
        return str(of([written, written, f"NOT ({written})", f"({written}) IS NOT TRUE"]))


@pytest.mark.parametrize("seed", range(20 if LONG else 2))
def test_no_row_is_lost(seed: int) -> None:
    texts = _Texts(Random(SEED + seed))
    batch = pa.record_batch([texts.column(field) for field in SCHEMA], SCHEMA)
    asked = implied = 0
    for _ in range(400):
        text, zone = texts.condition(), texts.of(ZONES)
        try:
            expected = bind_expression(text, (Scope((), tuple(FIELDS)),), timezone=zone).matches(batch)
            predicate = bind_filter(text, FIELDS, timezone=zone)
        except PaimonError:  # an overflow, or a text that is no number
            continue
        asked, implied = asked + 1, implied + isinstance(predicate, And)
        assert pa.array(matches(predicate, batch)).equals(expected), (zone, text, to_sql(predicate))
    assert asked > 200
    assert implied > 60


# ------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("index", ["", "file-index.range-bitmap.columns"])
def test_files_and_rows_are_left_out(tmp_path: Path, index: str) -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("country", pa.string())])
    options = {index: "ts,country"} if index else {}
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    for year in (2022, 2023, 2024):
        instants = [dt.datetime(year, month, day) for month in range(1, 13) for day in range(1, 29)]
        table.append(pa.table([instants, [f"de-{t.month:02}" for t in instants]], schema=schema))
    files = {
        "year(ts) = 2023": (1, 336), "date(ts) = '2023-05-04'": (1, 1),
        "date_trunc('month', ts) = '2023-05-01'": (1, 28),
        "datediff('2024-12-31', ts) < 10": (1, 7), "left(country, 5) = 'fr-01'": (0, 0),
    }  # fmt: skip
    for text, (read, rows) in files.items():
        assert len(table.scan(text).plan().files) == read, text
        assert table.count(text) == table.scan(text).to_arrow().num_rows == rows, text


def test_partitions_are_left_out(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["day"])
    days = [dt.date(2023, 12, 30) + dt.timedelta(number) for number in range(4)]
    table.append(pa.table([range(4), days], schema=schema))
    assert [file.partition for file in table.scan("date_add(day, 1) > '2024-01-01'").plan().files] == [
        file.partition for file in table.scan("day > '2023-12-31'").plan().files
    ]
    assert sorted(table.scan("year(day) = 2024").to_arrow()["id"].to_pylist()) == [2, 3]
