"""`df.writeStream.format("paimon")`: each micro-batch is in the table once, whatever Spark repeats."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import LongType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds.errors import CommitError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.user_commits import read_record
from paimon_pyds.spark.source import PaimonDataSource
from paimon_pyds.spark.stream_writer import CHECKPOINTS, QUERY_ID, StreamMessage
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("id", LongType()), StructField("p", LongType())])
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int64())])


class Stream:
    """A query from Parquet files, a micro-batch for each, into a table."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.files, self.checkpoint, self.table = root / "in", root / "checkpoint", root / "w" / "db.db" / "t"
        self.files.mkdir()
        self._count = 0

    def add(self, *ids: int) -> None:
        """A file of these rows, which makes the next micro-batch."""
        self._count += 1
        path = self.files / f"{self._count:04}.parquet"
        pq.write_table(pa.table({"id": ids, "p": [i % 2 for i in ids]}, schema=SCHEMA), path)
        os.utime(path, (1_700_000_000 + self._count,) * 2)  # the order of the files

    def source(self) -> Any:
        read = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return read.parquet(str(self.files))

    def run(self, frame: Any = None, mode: str = "append", **options: object) -> None:
        """Write all that is there, and end."""
        query = self.start(frame, mode, **options)  # type: ignore[arg-type]
        query.awaitTermination(600)
        assert not query.isActive

    def start(self, frame: Any = None, mode: str = "append", *, name: str = "", **options: object) -> Any:
        """``name``: of the query, which has its checkpoint where the session says."""
        writer = (self.source() if frame is None else frame).writeStream.format("paimon").outputMode(mode)
        for key, value in options.items():
            writer = writer.option(key.replace("__", ".").replace("_", "-"), str(value))
        writer = writer.queryName(name) if name else writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start(str(self.table))

    def forget(self, batch: int) -> None:
        """As if Spark had been killed before it noted that a micro-batch is committed."""
        for path in (self.checkpoint / "commits").iterdir():
            if path.name.lstrip(".").split(".")[0] == str(batch):
                path.unlink()

    def ids(self) -> list[int]:
        return sorted(pp.Table.open(self.table).scan().to_arrow()["id"].to_pylist())

    def commits(self) -> list[tuple[str, int]]:
        found = pp.Table.open(self.table).snapshots.list()
        return [(s.commit_user, s.commit_identifier) for s in found]

    @property
    def query_id(self) -> str:
        return str(json.loads((self.checkpoint / "metadata").read_text())["id"])


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def _orphans(stream: Stream) -> int:
    table = pp.Table.open(stream.table)
    return int(table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files.num_rows)


@pytest.mark.slow
@pytest.mark.over_connect
@pytest.mark.parametrize("kind", sampled(["append", "key", "dynamic"], 1))
def test_micro_batches_are_commits_of_the_query(stream: Stream, kind: str) -> None:
    options = {
        "append": {"partition_by": "p"},
        "key": {"primary_key": "id", "bucket": 2},
        "dynamic": {"primary_key": "id"},
    }
    for ids in ((1, 2), (3,), (4, 5, 6)):
        stream.add(*ids)
    stream.run(**options[kind])
    assert stream.ids() == [1, 2, 3, 4, 5, 6]
    assert stream.commits() == [(stream.query_id, number) for number in range(3)]
    stream.add(7)
    stream.add(8)
    stream.run()
    assert stream.ids() == [*range(1, 9)]
    assert stream.commits()[-1] == (stream.query_id, 4)
    assert not _orphans(stream)


@pytest.mark.slow
def test_a_micro_batch_that_spark_repeats_is_in_the_table_once(stream: Stream) -> None:
    """The recipe by which Paimon's own connector doubles rows."""
    for ids in ((1, 2), (3,)):
        stream.add(*ids)
    stream.run()
    for _ in range(2):
        stream.forget(1)
        stream.run()
        assert stream.ids() == [1, 2, 3]
    table = pp.Table.open(stream.table)
    for id_ in range(20, 40):
        table.append([{"id": id_, "p": 0}])
    table.snapshots.expire(retain_max=1, retain_min=1, older_than=timedelta(0))
    stream.forget(1)
    stream.add(4)
    stream.run()
    assert [i for i in stream.ids() if i < 20] == [1, 2, 3, 4]
    assert not _orphans(stream)


@pytest.mark.slow
def test_complete_mode_replaces_the_rows(stream: Stream) -> None:
    from pyspark.sql import functions as F

    def counts() -> Any:
        return stream.source().groupBy("p").agg(F.count("*").alias("id"))

    stream.spark.conf.set("spark.sql.shuffle.partitions", "2")
    stream.add(1, 2, 3)
    stream.add(5)
    stream.run(counts(), "complete")
    assert stream.ids() == [1, 3]
    stream.forget(1)
    stream.run(counts(), "complete")
    assert stream.ids() == [1, 3]
    assert len(stream.commits()) == 2


@pytest.mark.slow
def test_batches_without_rows_make_no_snapshot(stream: Stream) -> None:
    stream.add(1)
    stream.add()
    stream.add(2)
    stream.run()
    assert [number for _, number in stream.commits()] == [0, 2]
    assert stream.ids() == [1, 2]


@pytest.mark.slow
def test_two_queries_into_one_table(stream: Stream) -> None:
    stream.add(1)
    stream.run()
    first = stream.query_id
    stream.checkpoint = stream.checkpoint.with_name("other")
    stream.add(2)
    stream.run()
    assert stream.ids() == [1, 1, 2]
    assert {user for user, _ in stream.commits()} == {first, stream.query_id}


@pytest.mark.slow
@pytest.mark.over_connect
@pytest.mark.parametrize("name", ["", "times"])
def test_the_watermark_of_the_query_is_in_the_snapshots(stream: Stream, name: str) -> None:
    from pyspark.sql import functions as F

    stream.spark.conf.set(CHECKPOINTS, str(stream.checkpoint))
    stream.add(1_700_000_000)
    stream.add(1_700_000_100)
    stream.add(1_700_000_200)
    timed = stream.source().withColumn("at", F.timestamp_seconds("id")).withWatermark("at", "10 seconds")
    stream.run(timed, name=name)
    stream.spark.conf.unset(CHECKPOINTS)
    found = [s.watermark for s in pp.Table.open(stream.table).snapshots.list()]
    assert found == [None, 1_699_999_990_000, 1_700_000_090_000]


@pytest.mark.slow
@requires_java_oracle
@pytest.mark.java
def test_java_reads_what_the_sink_wrote(stream: Stream, oracle: Oracle) -> None:
    for ids in ((1, 2), (2, 3)):
        stream.add(*ids)
    stream.run(primary_key="id", bucket=2)
    with oracle.batch() as batch:
        rows = batch.read(stream.table.parents[1], "db.t")
    assert sorted(row["id"] for row in rows.values) == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.over_connect
def test_what_has_no_meaning_for_a_stream_is_refused(stream: Stream) -> None:
    stream.add(1)
    for options, text in (
        ({"operation": "delete"}, "operation has no meaning for a stream"),
        ({"if_exists": "error"}, "if-exists has no meaning for a stream"),
        ({"no_such": "1"}, "there is no option no-such"),
    ):
        with pytest.raises(Exception, match=text):
            stream.run(**options)
    assert not stream.table.exists()


# ---------------------------------------------------------------------------------------- without a session: as workers


def _copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Sink:
    """The calls that Spark makes, each with a writer of its own."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.options = {"path": str(path), "checkpointlocation": "/nowhere", "queryname": "q", **options}
        monkeypatch.setattr("paimon_pyds.spark.compat.task_setting", lambda name: "query" if name == QUERY_ID else None)

    def writer(self, overwrite: bool = False) -> Any:
        return PaimonDataSource(self.options).streamWriter(schema=COLUMNS, overwrite=overwrite)

    def write(self, *tasks: tuple[int, ...]) -> list[Any]:
        writer = _copied(self.writer())
        return [_copied(writer.write(iter(_batches(ids)))) for ids in tasks]

    def commit(self, messages: list[Any], batch: int) -> None:
        self.writer().commit(messages, batch)

    def abort(self, messages: list[Any], batch: int) -> None:
        self.writer().abort(messages, batch)


def _batches(ids: tuple[int, ...]) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": [i], "p": [i % 2]}, schema=SCHEMA) for i in ids]


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    pp.Table.create(tmp_path / "t", SCHEMA)
    return Sink(tmp_path / "t", monkeypatch)


def _table(sink: Sink) -> pp.Table:
    return pp.Table.open(sink.options["path"])


def _ids(sink: Sink) -> list[int]:
    return sorted(_table(sink).scan().to_arrow()["id"].to_pylist())


def _data_files(sink: Sink) -> int:
    return len(list(Path(sink.options["path"]).glob("bucket-*/data-*")))


def test_a_repeated_batch_removes_its_new_files(sink: Sink) -> None:
    sink.commit(sink.write((1, 2), (3,), ()), 0)
    files = _data_files(sink)
    sink.commit(sink.write((3,), (2, 1)), 0)
    assert (_ids(sink), _data_files(sink)) == ([1, 2, 3], files)
    sink.commit(sink.write((4,)), 1)
    assert _ids(sink) == [1, 2, 3, 4]


def test_a_task_writes_one_file_of_many_small_batches(sink: Sink) -> None:
    [message] = sink.write(tuple(range(500)))
    assert message.message.file_count == 1
    assert len(pickle.dumps(message)) < 5000


def test_abort_removes_what_was_not_committed(sink: Sink) -> None:
    sink.commit(sink.write((1,)), 0)
    files = _data_files(sink)
    sink.abort([*sink.write((2,)), None], 1)
    assert _data_files(sink) == files
    messages = sink.write((2,), (3,))
    sink.commit(messages, 1)
    sink.abort(messages, 1)  # Spark does so where the commit raises, after the snapshot too
    sink.abort([*messages, None], 1)
    assert _ids(sink) == [1, 2, 3]


def test_a_commit_that_fails_removes_the_files_and_one_of_unknown_outcome_does_not(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.commit(sink.write((1,)), 0)
    for error, effect in ((CommitError("no"), False), (KeyboardInterrupt(), False), (KeyboardInterrupt(), True)):
        with monkeypatch.context() as patched:
            publish = TableStore.try_create_snapshot

            def fail(
                store: Any, snapshot: Any, error: Any = error, effect: bool = effect, publish: Any = publish
            ) -> None:
                if effect:
                    publish(store, snapshot)
                raise error

            patched.setattr(TableStore, "try_create_snapshot", fail)
            files, messages = _data_files(sink), sink.write((2,))
            with pytest.raises(type(error)):
                sink.commit(messages, 1)
            sink.abort(messages, 1)
            assert _data_files(sink) == files + isinstance(error, KeyboardInterrupt)
    sink.commit(sink.write((2,)), 1)
    assert _ids(sink) == [1, 2]
    removed = _table(sink).maintenance.remove_orphan_files(timedelta(0)).files
    assert removed["kind"].to_pylist().count("data") == 1
    assert _ids(sink) == [1, 2]


def test_without_the_id_of_the_query_nothing_is_committed(sink: Sink) -> None:
    with pytest.raises(CommitError, match="no id of the query"):
        sink.commit([StreamMessage(m.message) for m in sink.write((1,))], 0)
    with pytest.raises(CommitError, match="left no message"):
        sink.commit([*sink.write((1,)), None], 0)
    assert _ids(sink) == []


def test_a_table_that_was_made_anew_is_not_committed_to(sink: Sink) -> None:
    messages = sink.write((1,))
    shutil.rmtree(sink.options["path"])
    pp.Table.create(sink.options["path"], SCHEMA)
    with pytest.raises(CommitError, match="dropped and created again"):
        sink.commit(messages, 0)


def test_the_record_names_the_query(sink: Sink) -> None:
    sink.commit(sink.write((1,)), 7)
    record = read_record(_table(sink)._store, "query")
    assert record is not None and record.committed is not None
    assert (record.committed.identifier, record.intent) == (7, None)
