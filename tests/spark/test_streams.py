"""A stream from one table into another in Spark: reader, sink and `foreach_batch` end to end, over Connect too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import foreach_batch

pytestmark = pytest.mark.spark


@pytest.fixture
def source(tmp_path: Path) -> pp.Table:
    table = pp.Table.create(str(tmp_path / "source"), "id BIGINT, p BIGINT")
    append(table, 1, 2)
    return table


def append(table: pp.Table, *ids: int) -> None:
    table.append([{"id": i, "p": i % 2} for i in ids])


def stream_of(spark: Any, table: pp.Table) -> Any:
    reader = spark.readStream.format("paimon").option("filter", "id <> 3").option("consumer-id", "job")
    return reader.load(table.path).writeStream


def run(writer: Any, checkpoint: Path, *path: str) -> str:
    """Run to the newest snapshot; the id of the query."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(*path)
    assert query.awaitTermination(600)
    assert query.exception() is None
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def offsets(checkpoint: Path) -> list[tuple[int, int]]:
    """Where the query started, and where each batch ended."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    found = [json.loads(file.read_text().splitlines()[-1]) for file in files]
    return [(offset["start"], offset["next"]) for offset in found]


def state(path: str) -> tuple[list[int], list[tuple[str, int]]]:
    """The ids, and who made which commit."""
    table = pp.Table.open(path)
    ids = sorted(table.scan().to_arrow()["id"].to_pylist())
    return ids, [(s.commit_user, s.commit_identifier) for s in table.snapshots.list()]


@pytest.mark.parametrize(
    "runs", [pytest.param(1, marks=pytest.mark.connect), pytest.param(2, marks=pytest.mark.classic)]
)
def test_runs_go_on_where_the_one_before_ended(
    spark: Any, source: pp.Table, path: str, tmp_path: Path, runs: int
) -> None:
    """One run over Connect: the client has no part in a restart."""
    checkpoint = tmp_path / "checkpoint"
    for number in range(runs):
        sink = stream_of(spark, source).format("paimon").option("partition-by", "p")
        user = run(sink, checkpoint, path)
        assert state(path) == ([1, 2, 4, 5][: 2 * (number + 1)], [(user, n) for n in range(number + 1)])
        assert offsets(checkpoint) == [(1, 2), (1, 5)][: number + 1]
        append(source, 3, 4)
        source.compact(full=True)
        append(source, 5)
        source.snapshots.expire(retain_max=1, retain_min=1)
    assert source.maintenance.consumers() == ({"job": 2, "job.retained": 1} if runs > 1 else {"job.retained": 1})


@pytest.mark.over_connect
def test_a_function_is_given_the_rows_of_a_table(spark: Any, source: pp.Table, path: str, tmp_path: Path) -> None:
    run(stream_of(spark, source).foreachBatch(foreach_batch(path, name="loads")), tmp_path / "checkpoint")
    assert state(path) == ([1, 2], [("loads", 0)])
