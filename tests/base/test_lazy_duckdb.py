"""DuckDB's queries over a scan: the same rows as over an Arrow table, and of files only what they need."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.base.lazy_duckdb import as_sql
from paimon_pyds.base.lazy_polars import comparable
from support.effort import LONG, SEED

duckdb = pytest.importorskip("duckdb")
TEXTS = ["a", "it's", 'a"b', "a\\b", "a\nb", "ä", "", "a', 'b", '") or (b == "', "[x]", None]
SCHEMA = pa.schema([
    ("a", pa.int64()), ("b", pa.string()), ("c", pa.float64()), ("s", pa.struct([("q", pa.int32())])),
    ("d", pa.date32()), ("we ird", pa.int32()),
])  # fmt: skip


def some_rows(draw: random.Random, count: int) -> pa.Table:
    rows = [
        {
            "a": draw.choice([None, *range(-3, 6), 2**62]), "b": draw.choice(TEXTS),
            "c": draw.choice([None, 0.0, -0.0, 1.5, float("nan"), 1e300]),
            "s": draw.choice([None, {"q": None}, {"q": 2}]), "d": draw.choice([None, 1, 20_000]),
            "we ird": draw.choice([None, 1, 2]),
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
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(500 if LONG else 4))
def test_queries_give_the_rows_of_an_arrow_table(seed: int, tmp_path: Path) -> None:
    draw = random.Random(f"{seed} {SEED}")
    options = {"file-index.bitmap.columns": "a,b", "target-file-size": "1 kb"}
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


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (pc.field("a") == 1, "`a` == 1"),
        (pc.field("b") == 'x") and (a == 1', "`b` == 'x\") and (a == 1'"),
        (pc.field("b") == "a\nb", None),
        ((pc.field("a") > 1) & (pc.field("b") == "x"), "(`a` > 1) AND (`b` == 'x')"),
        ((pc.field("a") > 1) | (pc.field("zz") == 1), None),
        (pc.field("a") == pa.scalar(1, pa.int32()), None),
        (pc.is_in(pc.field("a"), pa.array(range(50))), None),
        (pc.field("c") == 1e300, None),
    ],
)
def test_conditions_that_are_understood(expression: Any, sql: str | None, tmp_path: Path) -> None:
    scan = pp.Table.create(tmp_path / "t", SCHEMA).scan()
    assert as_sql(expression, scan.arrow_schema, comparable(scan)) == sql
