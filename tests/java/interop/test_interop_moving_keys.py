"""Java Paimon and paimon_pyds write in turn to tables whose keys move between partitions: none is in two of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import LONG
from support.engine_model import KIND, Row
from support.fixtures import fixture_dir, requires_shared, table_path
from support.key_engines import write_kinds
from support.moving_keys import COLUMNS, ENGINES, KINDS, OP, SCHEMA, Engine, Model, data
from support.oracle import Oracle, requires_java_oracle
from support.values import expected_lines, in_order, lines

_ENGINES = ["deduplicate", "partial", "first-row", *(["vectors", "aggregation", "lookup", "input"] if LONG else [])]


def _rows(random: Random, engine: Engine) -> list[Row]:
    return [
        {
            "p": random.choice([None, 0, 1]), "q": random.choice("xy"), "id": random.randrange(25),
            "a": random.choice([None, 3, -5]), "b": random.choice([None, "x", "ä"]), "l": random.randrange(9),
            KIND: random.choice(engine.kinds),
        }
        for _ in range(20)
    ]  # fmt: skip


def _table(rows: list[Row]) -> pa.Table:
    return data(rows).select(list(COLUMNS)).cast(SCHEMA)


@requires_java_oracle
@pytest.mark.java
def test_a_key_is_in_one_partition_whoever_writes(oracle: Oracle, tmp_path: Path) -> None:
    random, models = Random(15), {name: Model(ENGINES[name]) for name in _ENGINES}
    with oracle.batch() as batch:
        for name in _ENGINES:
            options = {"bucket": "-1", "dynamic-bucket.target-row-num": "4", **ENGINES[name].options}
            batch.create(
                tmp_path, f"db.{name}", SCHEMA, primary_keys=["id"], partition_keys=["p", "q"], options=options
            )
    for turn in range(20 if LONG else 2):
        with oracle.batch() as batch:
            replies = {}
            for name, model in models.items():
                rows = _rows(random, model.engine)
                if turn % 2:
                    given = [{"_kind": KINDS[row[KIND]], **{column: row[column] for column in COLUMNS}} for row in rows]
                    write_kinds(batch, tmp_path, name, given)
                else:
                    pp.Table.open(tmp_path / "db.db" / name).append(data(rows), options=OP)
                model.write(rows)
                if turn % 4 > 1 or model.engine.options.keys() & {"deletion-vectors.enabled", "merge-engine"}:
                    batch.compact(tmp_path, f"db.{name}")
                replies[name] = batch.read(tmp_path, f"db.{name}")
        for name, reply in replies.items():
            wanted = lines(_table(models[name].rows()))
            assert reply.lines == wanted, (turn, name)
            assert lines(pp.Table.open(tmp_path / "db.db" / name).scan().to_arrow()) == wanted, (turn, name)


@requires_shared
def test_a_table_of_java_is_continued(tmp_path: Path) -> None:
    """A lookup by the key alone finds it in any partition, and an upsert moves it."""
    shutil.copytree(table_path("pk_cross_partition"), tmp_path / "t")
    table = pp.Table.open(tmp_path / "t")
    rows = table.scan().to_arrow()
    expected = expected_lines(fixture_dir("pk_cross_partition") / "expected/full.jsonl.gz")
    assert in_order(lines(rows)) == in_order(expected)
    assert table.count() == rows.num_rows
    keys = rows.select(["id"])
    assert lines(table.lookup(keys)) == lines(rows)
    moved = rows.set_column(5, "p", pa.array([7] * rows.num_rows, pa.int32()))
    table.append(moved)
    assert table.count() == table.count("p = 7") == rows.num_rows
    assert lines(table.lookup(keys)) == lines(moved)
