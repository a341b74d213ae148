"""Streams of a table in Spark itself: rate limits, batches that fail, kinds of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError, SnapshotNotFoundError
from support.effort import LONG, SEED
from support.follower_world import KINDS, play
from support.stream_engine import Crash, SparkFollowerWorld

pytestmark = pytest.mark.spark


class Query:
    """A query that writes a stream of a table into Parquet files."""

    def __init__(self, spark: Any, path: str, folder: Path, **options: Any) -> None:
        self.spark, self.path, self.options = spark, path, options
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"

    def run(self, **trigger: Any) -> None:
        """Run to the newest snapshot, and end."""
        reader = self.spark.readStream.format("paimon")
        for name, value in self.options.items():
            reader = reader.option(name.replace("__", ".").replace("_", "-"), str(value))
        writer = reader.load(self.path).writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(**(trigger or {"availableNow": True})).start(str(self.out))
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        else:
            assert query.awaitTermination(600)
        assert query.exception() is None

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all runs."""
        files = [str(path) for path in sorted(self.out.glob("*.parquet"))]
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    def offsets(self) -> list[dict[str, Any]]:
        """What the checkpoint has of each batch."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def numbers(*found: int) -> list[dict[str, int]]:
    return [{"id": n} for n in found]


@pytest.fixture
def table(path: str) -> pp.Table:
    made = pp.Table.create(path, "id INT")
    made.append(numbers(1, 2))
    return made


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.over_connect
def test_once_makes_one_batch_of_all_that_is_there(spark: Any, table: pp.Table, tmp_path: Path) -> None:
    limits = {} if find_spec("pyspark.sql.streaming.datasource") is None else {"read__stream__maxFilesPerTrigger": 1}
    query = Query(spark, table.path, tmp_path, consumer_id="job", consumer__mode="at-least-once", **limits)
    query.run(once=True)
    assert table.maintenance.consumers() == {"job.retained": 1}
    for n in (3, 4):
        table.append(numbers(n))
    table.snapshots.expire(retain_max=1, retain_min=1)
    for _ in range(2):  # the second has nothing to do
        query.run(once=True)
        assert ids(query.rows()) == [1, 2, 3, 4]
        assert [offset["next"] for offset in query.offsets()] == [2, 4]
    assert table.maintenance.consumers() == {"job": 2, "job.retained": 1}


@pytest.mark.slow
def test_limits_cut_a_backlog_into_batches(spark: Any, table: pp.Table, tmp_path: Path) -> None:
    for n in range(3, 6):
        table.append(numbers(n))
    start = {"scan__mode": "from-snapshot", "scan__snapshot_id": 1}
    query = Query(spark, table.path, tmp_path, read__stream__maxRowsPerTrigger=2, **start)
    query.run(processingTime="0 seconds")
    assert ids(query.rows()) == [1, 2, 3, 4, 5]
    assert [offset["next"] for offset in query.offsets()] == [2, 4, 5]


@pytest.mark.slow
def test_a_batch_that_fails_has_the_same_rows_again(spark: Any, table: pp.Table, tmp_path: Path) -> None:
    seen, checkpoint = tmp_path / "seen", str(tmp_path / "checkpoint")

    def write(frame: Any, batch: int) -> None:
        rows = [row[0] for row in frame.collect()]
        first = not seen.exists()
        with seen.open("a") as file:
            file.write(json.dumps([batch, rows]) + "\n")
        if first:
            raise ValueError("the first attempt fails")

    def run() -> Any:
        stream = spark.readStream.format("paimon").load(table.path)
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        with pytest.raises(Exception, match="first attempt") if not seen.exists() else nothing():
            query.awaitTermination(600)

    run()
    table.append(numbers(3))
    run()
    run()  # before Spark 4.2 a run that repeats a batch does only this
    found = [json.loads(line) for line in seen.read_text().splitlines()]
    assert found[0][0] == found[1][0] == 0
    assert sorted(found[0][1]) == sorted(found[1][1]) == [1, 2]
    assert [rows for _, rows in found[2:]] == [[3]]


def nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.slow
@pytest.mark.over_connect
def test_changes_of_a_key_table_have_their_kinds(spark: Any, path: str, tmp_path: Path) -> None:
    table = pp.Table.create(path, "id INT, n INT", primary_key="id", options={"changelog-producer": "input"})
    table.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    query = Query(spark, path, tmp_path, rowkind_column="kind", columns="n, id")
    query.run()
    table.append([{"id": 1, "n": 1, "k": "-D"}, {"id": 2, "n": 3, "k": "+U"}], rowkind_column="k")
    query.run()
    found = sorted((row["kind"], row["id"], row["n"]) for row in query.rows())
    assert found == [("+I", 1, 1), ("+I", 2, 2), ("+U", 2, 3), ("-D", 1, 1)]
    with pytest.raises(Exception, match="row of kind -D, and its rows are read without their kinds"):
        Query(spark, path, tmp_path / "plain", scan__mode="from-snapshot", scan__snapshot_id=2).run()


class Followed:
    """A query of the session for `SparkFollowerWorld`. It forgets commits, as if its driver had been killed."""

    def __init__(self, spark: Any, options: dict[str, str], checkpoint: Path) -> None:
        self._frame = spark.readStream.format("paimon").options(**options).load()
        self._checkpoint = checkpoint
        self.batches: dict[int, list[list[dict[str, Any]]]] = {}

    def _log(self, name: str) -> list[Path]:
        return sorted((self._checkpoint / name).glob("[0-9]*"), key=lambda file: int(file.name))

    @property
    def offsets(self) -> list[str]:
        return [file.read_text().splitlines()[-1] for file in self._log("offsets")]

    @property
    def committed(self) -> int:
        return len(self._log("commits"))

    def run(self, *, crash_at: str, **_: object) -> None:
        before = len(self.offsets)
        writer = self._frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint))
        try:
            assert writer.trigger(availableNow=True).start().awaitTermination(600)
        except Exception as error:
            for kind in (SnapshotNotFoundError, SchemaError):
                if kind.__name__ in str(error):
                    raise kind(str(error)) from None
            raise
        if crash_at and len(self.offsets) > before:
            last = self._log("commits")[-1]
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink()
            raise Crash

    def _take(self, frame: Any, number: int) -> None:
        rows = [row.asDict() for row in frame.collect()]
        assert [rows] == self.batches.setdefault(number, [rows])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.classic
def test_what_a_query_has_seen_is_the_table(spark: Any, tmp_path: Path) -> None:
    for number in range(50 if LONG else 1):
        kind, paths = KINDS[(SEED + number) % len(KINDS)], (tmp_path / f"{number}-{n}" for n in count())

        def open_query(options: dict[str, str], paths: Iterator[Path] = paths) -> Followed:
            return Followed(spark, options, next(paths))

        play(SparkFollowerWorld(tmp_path, kind, SEED + number, open_query), steps=10)
