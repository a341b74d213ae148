"""DuckDB's queries over a scan: the same rows as over an Arrow table, and of files only what they need."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import LONG, SEED

duckdb = pytest.importorskip("duckdb")
TEXTS = ["a", "it's", 'a"b', "a\\b", "a\nb", "ä", "", "a', 'b", '") or (b == "', "[x]", None]
SCHEMA = pa.schema([
    ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("s", pa.struct([("q", pa.int32())])),
    ("d", pa.date32()), ("we ird", pa.int32()), ("n", pa.decimal128(7, 2)), ("t", pa.timestamp("us")),
    ("z", pa.timestamp("ms", "UTC")), ("f", pa.bool_()),
])  # fmt: skip


def some_rows(draw: random.Random, count: int) -> pa.Table:
    rows = [
        {
            "a": draw.choice([None, *range(-3, 6), 2**62]), "b": draw.choice(TEXTS),
            "c": draw.choice([None, 0.0, -0.0, 1.5, float("nan"), 1e300]),
            "s": draw.choice([None, {"q": None}, {"q": 2}]), "d": draw.choice([None, 1, 20_000]),
            "we ird": draw.choice([None, 1, 2]), "n": draw.choice([None, Decimal("-1.50"), Decimal("2.00")]),
            "t": draw.choice([None, datetime(2024, 1, 1), datetime(1950, 1, 1, 1, 1, 1, 1)]),
            "z": draw.choice([None, datetime(2024, 1, 1, tzinfo=UTC), datetime(1950, 1, 1, tzinfo=UTC)]),
            "f": draw.choice([None, True, False]),
        }
        for _ in range(count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def condition(draw: random.Random, depth: int = 2) -> str:
    if depth and draw.random() < 0.5:
        sides = condition(draw, depth - 1), condition(draw, depth - 1)
        return f"({sides[0]}) {draw.choice(['AND', 'OR'])} ({sides[1]})"
    text = "'" + str(draw.choice(TEXTS[:-1])).replace("'", "''") + "'"
    op = draw.choice(["=", "<", "<=", ">", ">=", "<>"])
    return draw.choice([
        f"a {op} {draw.randrange(-4, 7)}", f"b {op} {text}", f"c {op} {draw.choice(['0', '1.5', '-0.0', '1e300'])}",
        f"a IN ({draw.randrange(-2, 3)}, 4)", f"b IN ({text}, 'a')", "b IS NULL", "a IS NOT NULL", "s.q = 2",
        f"d {op} DATE '2024-10-04'", f'"we ird" {op} 1', f"NOT (a {op} 2)", f"a BETWEEN 0 AND {draw.randrange(4)}",
        f"n {op} {draw.choice(['-1.5', '2', '1.999'])}", f"t {op} TIMESTAMP '1950-01-01 01:01:01.000001'", "f", "NOT f",
        f"z {op} TIMESTAMPTZ '2024-01-01 00:00:00+00'", f"a IN ({', '.join(map(str, range(-20, 2)))})",
        "d IN (DATE '1970-01-02', DATE '2000-01-01')", "n IN (2.00, -1.5)", "f = true", "a < 2 AND s.q = 2",
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(500 if LONG else 2))
def test_queries_give_the_rows_of_an_arrow_table(seed: int, tmp_path: Path) -> None:
    draw = random.Random(f"{seed} {SEED}")
    options = {"file-index.bitmap.columns": "a,b,d", "target-file-size": "1 kb"}
    table: pp.Table = pp.Table.create(tmp_path / "t", SCHEMA, options=options)
    parts = [some_rows(draw, 20) for _ in range(3)]
    for part in parts:
        table.append(part)
    connection = duckdb.connect()
    connection.register("plain", pa.concat_tables(parts))
    table.to_duckdb(connection).create_view("ours")
    for _ in range(15):
        columns = draw.choice(["*", "a", "b, a", "count(*)", "sum(a)", "c, d", "s.q, b"])
        text = f"SELECT {columns} FROM {{}} WHERE {condition(draw)}"
        found, expected = (sorted(map(str, connection.sql(text.format(t)).fetchall())) for t in ("ours", "plain"))
        assert found == expected, text


@pytest.mark.skipif(duckdb.__version__ < "2", reason="asks for no number of rows")
def test_joins_go_by_the_number_of_rows(tmp_path: Path) -> None:
    table: pp.Table = pp.Table.create(tmp_path / "t", {"a": range(1234)})
    plan = table.to_duckdb(duckdb.connect()).explain()
    assert "1,234 rows" in plan


def test_a_filter_is_answered_by_statistics(tmp_path: Path) -> None:
    table: pp.Table = pp.Table.create(tmp_path / "t", {"p": [1], "v": [1]}, partition_by=["p"])
    table.append({"p": [2], "v": [2]})
    [gone] = (tmp_path / "t" / "p=1").rglob("*.parquet")
    gone.unlink()
    relation = table.to_duckdb(duckdb.connect())
    assert relation.filter("p = 2").fetchall() == [(2, 2)]
    assert relation.filter("p IN (2, 3) AND v IS NOT NULL").project("v").fetchall() == [(2,)]
    with pytest.raises(duckdb.Error, match="parquet"):
        relation.filter("v = 1").fetchall()
