"""Scans, counts and deletes of the rows that have one of some keys, against DuckDB's semi-join and a plain model."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.sql.expression.matching import key_table, matching_rows
from paimon_pyds.sql.predicate.among import row_count
from paimon_pyds.sql.predicate.tree import Among, Const
from support.effort import LONG, sampled

TYPES = {
    "n": pa.int32(), "big": pa.int64(), "f": pa.float32(), "d": pa.float64(), "dec": pa.decimal128(10, 2),
    "day": pa.date32(), "ts": pa.timestamp("us"), "at": pa.timestamp("us", "UTC"), "s": pa.string(), "by": pa.binary(),
    "bo": pa.bool_(), "p": pa.string(),
}  # fmt: skip
_FLOATS = [math.nan, 0.0, -0.0, 1.5, -2.0, math.inf]
_DAYS = [dt.date(2026, 1, 1) + dt.timedelta(n) for n in range(8)]
_TIMES = [dt.datetime.combine(day, dt.time(n)) for n, day in enumerate(_DAYS)]
POOLS: dict[str, list[Any]] = {
    "n": [*range(-3, 9), 2**31 - 1], "big": [0, 1, 2**53 + 1, -(2**63), 2**63 - 1, 7], "f": _FLOATS,
    "d": [*_FLOATS, 0.1], "dec": [Decimal(n) / 4 for n in range(-3, 9)], "day": _DAYS, "ts": _TIMES,
    "at": [time.replace(tzinfo=dt.UTC) for time in _TIMES],
    "s": ["", "a", "ab", "é", "\uffff", "\U0001f600", "b "], "by": [b"", b"a", b"\x00", b"\xff\xfe"],
    "bo": [True, False], "p": ["x", "y", "z"],
}  # fmt: skip
TABLES: dict[str, dict[str, Any]] = {
    "append": {},
    "indexes": {"options": {"file-index.bitmap.columns": "n,s,day", "file-index.bloom-filter.columns": "big,d",
                            "file-index.range-bitmap.columns": "dec,ts"}},
    "partitions": {"partition_by": ["p"]},
    "buckets": {"options": {"bucket": "3", "bucket-key": "n,s"}},
    "orc": {"options": {"file.format": "orc"}},
    "avro": {"options": {"file.format": "avro"}},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "keys": {"primary_key": ["p", "id"], "partition_by": ["p"], "options": {"bucket": "2"}},
    "keys and vectors": {"primary_key": ["id"], "options": {"bucket": "2", "deletion-vectors.enabled": "true"}},
}  # fmt: skip
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda keys: keys,
    "reader": lambda keys: keys.to_reader(3),
    "polars": pl.from_arrow,
    "duckdb": lambda keys: duckdb.from_arrow(keys),
    "dict": lambda keys: keys.to_pydict(),
    "rows": lambda keys: keys.to_pylist(),
    "encoded": lambda keys: pa.table({n: keys[n].combine_chunks().dictionary_encode() for n in keys.schema.names}),
}


def made(tmp_path: Path, kind: str, draw: random.Random, rows: int = 300) -> tuple[pp.Table, list[dict[str, Any]]]:
    """A table of several files, and its rows."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(n, t) for n, t in TYPES.items())])
    if kind.startswith("keys"):
        schema = schema.set(schema.get_field_index("p"), pa.field("p", pa.string(), nullable=False))
    table = pp.Table.create(tmp_path / "t", schema, **TABLES[kind])
    found: dict[int, dict[str, Any]] = {}
    for part in range(4):
        ids = draw.sample(range(part * 50, part * 50 + 90), rows // 4)
        new = []
        for id_ in ids:
            row = {name: None if draw.random() < 0.15 else draw.choice(pool) for name, pool in POOLS.items()}
            if kind.startswith("keys"):
                row["p"] = "xyz"[id_ % 3]
            new.append({"id": id_, **row})
        table.append(pa.Table.from_pylist(new, schema))
        if kind.startswith("keys"):
            found |= {row["id"]: row for row in new}
        else:
            found |= {len(found) + n: row for n, row in enumerate(new)}
    return table, list(found.values())


def keys_of(draw: random.Random, count: int, names: list[str]) -> pa.Table:
    values = {n: [None if draw.random() < 0.1 else draw.choice(POOLS[n]) for _ in range(count)] for n in names}
    return pa.table({name: pa.array(column, TYPES[name]) for name, column in values.items()})


def same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and (a == b or (a != a and b != b))


def shown(rows: pa.Table | list[dict[str, Any]]) -> list[str]:
    schema = pa.schema([pa.field("id", pa.int64()), *(pa.field(n, t) for n, t in TYPES.items())])
    found = (rows.cast(schema) if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema)).to_pylist()
    return sorted(repr(sorted((k, v + 0.0 if isinstance(v, float) else v) for k, v in row.items())) for row in found)


@pytest.mark.parametrize("kind", sampled(TABLES, 3))
@pytest.mark.parametrize("trial", range(8 if LONG else 1))
def test_rows_are_those_of_a_semi_join(kind: str, trial: int, tmp_path: Path) -> None:
    draw = random.Random(f"{kind} {trial}")
    table, rows = made(tmp_path, kind, draw)
    everything = table.scan().to_arrow()  # noqa: F841 - DuckDB finds it by its name
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for number in range(3):
        names = draw.sample(sorted(TYPES), draw.choice([1, 2, 2, 3]))
        keys = keys_of(draw, draw.choice([1, 5, 40, 200]), names)
        frame = draw.choice(sorted(FRAMES))
        wanted = [row for row in rows if any(all(same(row[n], key[n]) for n in names) for key in keys.to_pylist())]
        text = " AND ".join(f"e.{name} = k.{name}" for name in names)
        joined = connection.execute(f"SELECT count(*) FROM everything e SEMI JOIN keys k ON {text}").fetchone()
        assert joined == (len(wanted),), (number, names)
        scan = table.scan(matching=FRAMES[frame](keys))
        found = scan.to_arrow()
        assert shown(found) == shown(wanted), (number, names, frame)
        assert scan.count() == table.count(matching=keys) == len(wanted)
        positive = [row for row in wanted if row["n"] is not None and row["n"] > 0]
        assert shown(table.scan("n > 0", matching=keys).to_arrow()) == shown(positive)


@pytest.mark.parametrize("kind", sampled([*(k for k in TABLES if not k.startswith("keys")), "keys"], 3))
def test_deletes_take_the_rows_that_match(kind: str, tmp_path: Path) -> None:
    draw = random.Random(f"delete {kind}")
    table, rows = made(tmp_path, kind, draw)
    for names in (["n", "s"], ["p", "n"], ["day"]):
        keys = keys_of(draw, 12, names)
        gone = [row for row in rows if any(all(same(row[n], key[n]) for n in names) for key in keys.to_pylist())]
        summary = table.delete(matching=keys.to_reader())
        assert summary.rows_deleted == len(gone)
        rows = [row for row in rows if not any(row is one for one in gone)]
        assert shown(table.scan().to_arrow()) == shown(rows)
    some = [row for row in rows if row["s"] == "a" and row["bo"] is True]
    assert table.delete("bo", matching={"s": ["a"]}).rows_deleted == len(some)
    assert table.delete(matching={"s": []}).snapshot_id is None
    with pytest.raises(OptionError, match="a delete needs a condition"):
        table.delete()


FIELDS = [DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate({
    "t": "TINYINT", "n": "INT", "big": "BIGINT", "f": "FLOAT", "d": "DOUBLE", "dec": "DECIMAL(10, 2)", "day": "DATE",
    "ts": "TIMESTAMP(3)", "ns": "TIMESTAMP(9)", "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "s": "STRING",
    "c": "CHAR(3)", "by": "BYTES", "ti": "TIME(3)", "bo": "BOOLEAN",
}.items())]  # fmt: skip
_NOON = dt.datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    ("name", "given", "held"),
    [
        ("t", pa.array([1, 128, -129, -128, None]), [1, -128]),
        ("n", pa.array([1, 2**31, 2**32 + 1], pa.uint64()), [1]),
        ("n", pa.array([2**31, 5], pa.uint32()), [5]),
        ("big", pa.array([2**63, 2**63 - 1], pa.uint64()), [2**63 - 1]),
        ("n", pa.array([1.0, 1.5, math.nan, math.inf, 1e300, -0.0]), [0, 1]),
        ("big", pa.array([2.0**63, -(2.0**63), 3.0], pa.float64()), [3]),
        ("n", pa.array([Decimal("2.00"), Decimal("2.50"), Decimal(10) ** 20], pa.decimal128(38, 2)), [2]),
        ("f", pa.array([0.1, 0.5, math.nan, 1e300]), [0.5, math.nan]),
        ("f", pa.array([3, 16777217]), [3.0]),
        ("d", pa.array([1, 2], pa.int16()), [1.0, 2.0]),
        ("d", pa.array([0.5], pa.float16()), [0.5]),
        ("d", pa.array([Decimal("0.10")]), [0.1]),
        ("dec", pa.array([1, 10**9]), [Decimal("1.00")]),
        ("dec", pa.array([0.1, 0.123, math.nan]), [Decimal("0.10")]),
        ("dec", pa.array([Decimal("1.500"), Decimal("1.505")]), [Decimal("1.50")]),
        ("day", pa.array([_NOON, _NOON.replace(hour=0)]), [dt.date(2026, 7, 1)]),
        ("day", pa.array([_NOON.date()], pa.date64()), [_NOON.date()]),
        ("ts", pa.array([_NOON, _NOON.replace(microsecond=1)]), [_NOON]),
        ("ts", pa.array([_NOON.date()]), [_NOON.replace(hour=0)]),
        ("ts", pa.array([_NOON], pa.timestamp("s", "Asia/Tokyo")), [_NOON + dt.timedelta(hours=2)]),
        ("ns", pa.array([_NOON, dt.datetime(9999, 1, 1)], pa.timestamp("us")), [_NOON]),
        ("at", pa.array([_NOON]), [(_NOON - dt.timedelta(hours=2)).replace(tzinfo=dt.UTC)]),
        ("at", pa.array([_NOON], pa.timestamp("ns", "Asia/Tokyo")), [_NOON.replace(tzinfo=dt.UTC)]),
        ("s", pa.array(["a", None], pa.large_string()), ["a"]),
        ("s", pa.array(["a"], pa.string_view()), ["a"]),
        ("c", pa.array(["a ", "a", "b  "]), ["a", "b"]),
        ("by", pa.array([b"a"], pa.large_binary()), [b"a"]),
        ("ti", pa.array([dt.time(1), dt.time(1, 0, 0, 1)], pa.time64("us")), [dt.time(1)]),
        ("n", pa.nulls(3), []),
    ],
)
def test_keys_of_other_types_are_the_same_numbers_and_times(name: str, given: pa.Array, held: list[Any]) -> None:
    keys = pa.table({name: given, "bo": [True] * len(given)})
    found = matching_rows(keys, FIELDS, "Europe/Berlin")
    if not held:
        assert found is Const.FALSE
        return
    assert isinstance(found, Among)
    values = found.values[0].to_pylist()
    assert len(values) == len(held)
    assert all(any(same(value, one) for one in held) for value in values), values


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"x": [1]}, "the table has no column 'x'"), ({"n": ["1"]}, "have string in 'n', which is INT"),
        ({"s": [1]}, "which is STRING"), ({"day": ["2026-01-01"]}, "which is DATE"), ({"bo": [1]}, "which is BOOLEAN"),
        ({"n": [1], "N": [2]}, "two columns of the keys"), ({}, "no columns"), ([], "no columns"),
        ({"ts": [1]}, "which is TIMESTAMP"), ({"by": ["a"]}, "which is BYTES"),
    ],
)  # fmt: skip
def test_keys_that_can_not_be_compared_are_refused(keys: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        matching_rows(key_table(keys), FIELDS)


def test_columns_are_found_whatever_the_case_of_their_names() -> None:
    days = [dt.date(2026, 7, 1)]
    assert matching_rows(key_table({"DAY": days}), FIELDS) == matching_rows(key_table({"day": days}), FIELDS)


def test_nan_of_pandas_is_null_as_in_what_is_appended(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.table({"d": [1.0, math.nan, None], "n": [1, 2, None]}))
    table.append(pa.table({"d": [1.0, math.nan, None], "n": [1, 2, None]}))
    rows = table.count()
    assert rows == 6
    assert table.count(matching=pd.DataFrame({"d": [math.nan, 1.0]})) == 2
    assert table.count(matching=pd.DataFrame({"n": [2.0, math.nan]})) == 2  # integers beside NaN are floats there
    assert table.count(matching=pl.DataFrame({"d": [math.nan]})) == 2
    assert table.count(matching=pa.table({"d": [math.nan, None]})) == 2
    assert table.count(matching=table.scan("n = 2", columns=["n"])) == 2


def test_very_many_keys_skip_files_partitions_and_buckets(tmp_path: Path) -> None:
    """By rows, where single columns could not tell; and by the ends of more values than a list has."""
    ids = list(range(60_000))
    options = {"bucket": "4", "bucket-key": "id"}
    table = pp.Table.create(
        tmp_path / "t", pa.schema([("p", pa.int32()), ("id", pa.int64())]), partition_by=["p"], options=options
    )
    table.append(pa.table({"p": pa.array([n // 6000 for n in ids], pa.int32()), "id": ids}))
    whole = table.scan().plan()
    assert len(whole.files) == 40
    keys = pa.table({"p": pa.array([n // 6000 for n in range(20_000)], pa.int32()), "id": range(20_000)})
    plan = table.scan(matching=keys).plan()
    assert len(plan.files) == 16  # of partitions 0 to 3
    assert isinstance(plan.spec.predicate, Among)
    assert row_count(plan.spec.predicate) == 20_000
    assert table.count(matching=keys) == table.scan(matching=keys).to_arrow().num_rows == 20_000
    crossed = pa.table({"p": pa.array([9] * 20_000, pa.int32()), "id": range(20_000)})  # each column alone keeps files
    assert not table.scan(matching=crossed).plan().files
    one = table.scan(matching={"p": [1, 1], "id": [6001, 6001]}).plan()
    assert len(one.files) == 1
    alone = table.scan(matching=pa.table({"id": range(30_000, 50_000)}))
    assert len(alone.plan().files) == 16
    assert alone.count() == 20_000


def test_pairs_prune_by_partition(tmp_path: Path) -> None:
    fields = [pa.field(name, pa.int32()) for name in "phn"]
    table = pp.Table.create(tmp_path / "t", pa.schema(fields), partition_by=["p", "h"])
    numbers = range(400)
    rows = {"p": [n // 20 for n in numbers], "h": [n % 20 for n in numbers], "n": list(numbers)}
    table.append(pa.table(rows, pa.schema(fields)))
    pairs = [(n // 20, n * 7 % 20) for n in range(0, 400, 5)]
    written = " OR ".join(f"p = {p} AND h = {h}" for p, h in pairs)
    keys = dict(zip("ph", map(list, zip(*pairs, strict=True)), strict=True))
    for scan in (
        table.scan(written), table.scan(f"(p, h) IN ({', '.join(map(str, pairs))})"), table.scan(matching=keys)
    ):  # fmt: skip
        assert len(scan.plan().files) == len(set(pairs)) == scan.count() == 80
        text = str(scan.explain())
        assert "(p, h) IN ((0, 0), (0, 5), " in text
        assert "… 80 rows)" in text
        assert len(text) < 3000
    without = table.scan(f"(p, h) NOT IN ({', '.join(map(str, pairs))})")
    assert len(without.plan().files) == without.count() == 320
