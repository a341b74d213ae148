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
    for ids in ((1, 2), (3,)):
        append(table, *ids)
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


def state(path: str) -> tuple[list[int], list[tuple[str, int]]]:
    """The ids, and who made which commit."""
    table = pp.Table.open(path)
    ids = sorted(table.scan().to_arrow()["id"].to_pylist())
    return ids, [(s.commit_user, s.commit_identifier) for s in table.snapshots.list()]


@pytest.mark.parametrize(
    "runs", [pytest.param(1, marks=pytest.mark.connect), pytest.param(2, marks=pytest.mark.classic)]
)
def test_a_table_follows_another(spark: Any, source: pp.Table, path: str, tmp_path: Path, runs: int) -> None:
    """One run over Connect: the client has no part in a restart."""
    for number in range(runs):
        sink = stream_of(spark, source).format("paimon").option("partition-by", "p")
        user = run(sink, tmp_path / "checkpoint", path)
        assert state(path) == ([1, 2, 4, 5][: 2 * (number + 1)], [(user, n) for n in range(number + 1)])
        append(source, 4)
        source.compact(full=True)
        append(source, 5)
        source.snapshots.expire(retain_max=1, retain_min=1)


@pytest.mark.over_connect
def test_a_function_is_given_the_rows_of_a_table(spark: Any, source: pp.Table, path: str, tmp_path: Path) -> None:
    function = foreach_batch(path, name="loads", primary_key="id")
    run(stream_of(spark, source).foreachBatch(function), tmp_path / "checkpoint")
    ids, commits = state(path)
    assert (ids, commits[0]) == ([1, 2], ("loads", 0))
