"""Commits that fail and aborts that follow: Spark runs each in a process of its own, with a writer unpickled anew."""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import LongType, StringType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds.engine.commit import publisher
from paimon_pyds.errors import CommitConflictError, CommitError, CommitOutcomeUnknownError, StorageError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark.source import PaimonDataSource
from support.victims import fork_server

pytestmark = pytest.mark.spark

PLACE = ("__paimon_file_path", "__paimon_row_index")
ROWS = {1: "a", 2: "b", 3: "c", 4: "d"}
NEW = {2: "two", 3: "three"}
WRITES: dict[str, tuple[dict[str, str], dict[int, str]]] = {
    "append": ({}, {**ROWS, 9: "nine"}),
    "delete keys": ({"operation": "delete", "operation-keys": "id"}, {1: "a", 4: "d"}),
    "delete places": ({"operation": "delete"}, {1: "a", 4: "d"}),
    "upsert keys": ({"operation": "upsert", "operation-keys": "id"}, {**ROWS, **NEW}),
    "upsert places": ({"operation": "upsert"}, {**ROWS, **NEW}),
}
"""By kind of write its options, and the table's rows after it."""


both_modes = pytest.mark.parametrize("table", ["vectors", "rewrite"], indirect=True)


@pytest.fixture
def table(request: pytest.FixtureRequest, path: str) -> pp.Table:
    options = {} if getattr(request, "param", "") == "rewrite" else {"deletion-vectors.enabled": "true"}
    made = pp.Table.create(path, pa.schema([("id", pa.int64()), ("x", pa.string())]), options=options)
    made.append([{"id": id, "x": x} for id, x in ROWS.items()])
    return made


def copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def written(table: pp.Table, write: str) -> tuple[Any, list[Any]]:
    """A writer as Spark's driver holds it, and what two tasks of it gave: one with rows, one without."""
    there = table.scan("id IN (2, 3)", columns=["id", *PLACE]).to_arrow()
    news = pa.array([NEW[id] for id in there["id"].to_pylist()])
    batch = pa.record_batch([there["id"].combine_chunks(), news], names=["id", "x"])
    fields = [StructField("id", LongType()), StructField("x", StringType())]
    if write == "append":
        batch = pa.record_batch({"id": pa.array([9], pa.int64()), "x": ["nine"]})
    elif write.endswith("places"):
        for name in PLACE:
            batch = batch.append_column(name, there[name].combine_chunks())
        fields += [StructField(PLACE[0], StringType()), StructField(PLACE[1], LongType())]
    source = PaimonDataSource({"path": table.path, **WRITES[write][0]})
    writer = copied(source.writer(StructType(fields), False))
    return writer, [copied(copied(writer).write(iter(part))) for part in ([batch], [batch.slice(0, 0)])]


def abort_elsewhere(writer: Any, messages: list[Any]) -> None:
    process = fork_server().Process(target=writer.abort, args=(messages,))
    process.start()
    process.join()
    assert process.exitcode == 0


def rows(table: pp.Table) -> dict[int, str]:
    found = table.scan().to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["x"] for row in found}


def files(table: pp.Table) -> set[str]:
    return {str(f.relative_to(table.path)) for f in Path(table.path).rglob("data-*")}


class SlowStorage:
    """A storage that takes the snapshot, says nothing of it, and shows it later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._publish: Callable[[], bool] | None = None
        original = TableStore.try_create_snapshot

        def silent(store: TableStore, snapshot: Any) -> bool:
            self._publish = lambda: original(store, snapshot)
            raise StorageError("timed out")

        monkeypatch.setattr(TableStore, "try_create_snapshot", silent)
        monkeypatch.setattr(publisher, "_was_created", lambda *_: None)

    def show(self) -> None:
        assert self._publish is not None
        assert self._publish()


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
def test_abort_keeps_what_a_commit_may_have_published(
    table: pp.Table, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, messages = written(table, write)
    with monkeypatch.context() as patch:
        storage = SlowStorage(patch)
        with pytest.raises(CommitOutcomeUnknownError):
            copied(writer).commit(messages)
        abort_elsewhere(writer, messages)
    storage.show()
    assert rows(pp.Table.open(table.path)) == WRITES[write][1]


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
def test_abort_after_a_commit_keeps_what_it_published(table: pp.Table, write: str) -> None:
    writer, messages = written(table, write)
    copied(writer).commit(messages)
    abort_elsewhere(writer, messages)  # Spark aborts whenever its own part after the commit fails
    assert rows(pp.Table.open(table.path)) == WRITES[write][1]


@pytest.mark.parametrize("write", WRITES)
def test_a_commit_made_twice_counts_once(table: pp.Table, write: str) -> None:
    writer, messages = written(table, write)
    copied(writer).commit(messages)
    with contextlib.suppress(CommitConflictError):  # rows that are named by where they lay have gone
        copied(writer).commit(copied(messages))
    assert rows(pp.Table.open(table.path)) == WRITES[write][1]


@pytest.mark.parametrize("write", WRITES)
def test_a_table_that_is_created_anew_while_tasks_write_to_it(table: pp.Table, write: str) -> None:
    writer, messages = written(table, write)
    shutil.rmtree(table.path)
    anew = pp.Table.create(table.path, pa.schema([("x", pa.string()), ("id", pa.int64())]))
    anew.append([{"x": x, "id": id} for id, x in ROWS.items()])
    before = files(table)
    late = copied(writer).write(iter([])) if write == "append" else messages[0]
    with pytest.raises(CommitConflictError, match="dropped and created again since this write began"):
        copied(writer).commit([*messages, late])
    assert rows(anew) == ROWS and files(table) == before


@both_modes
@pytest.mark.parametrize("write", WRITES)
def test_a_commit_that_fails_leaves_nothing_behind(
    table: pp.Table, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(table)
    writer, messages = written(table, write)

    def refuse(store: TableStore, snapshot: Any) -> bool:
        raise StorageError("permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(TableStore, "try_create_snapshot", refuse)
        with pytest.raises(StorageError, match="permission denied"):
            copied(writer).commit(messages)
    assert files(table) == before
    copied(writer).abort(messages)
    assert files(table) == before
    assert rows(pp.Table.open(table.path)) == ROWS


@both_modes
def test_rows_that_are_gone_leave_no_new_versions_behind(table: pp.Table) -> None:
    writer, messages = written(table, "upsert places")
    table.delete("id = 2")
    before = files(table)
    with pytest.raises(CommitConflictError):
        copied(writer).commit(messages)
    copied(writer).abort(messages)
    assert len(before - files(table)) == 1  # the file of the new versions
    assert rows(pp.Table.open(table.path)) == {1: "a", 3: "c", 4: "d"}


@pytest.mark.parametrize("write", WRITES)
def test_abort_removes_what_tasks_wrote_when_one_failed(table: pp.Table, write: str) -> None:
    before = files(table)
    writer, messages = written(table, write)
    with pytest.raises(CommitError, match="some tasks of the write left no message"):
        copied(writer).commit([*messages, None])
    copied(writer).abort([*messages, None])
    assert files(table) == before
    assert rows(pp.Table.open(table.path)) == ROWS


def test_spark_gives_every_message_to_a_commit_only(spark: Any, tmp_path: Path) -> None:
    """What aborts rely on: after a job that failed a message is missing, after a commit none."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    log = tmp_path / "log"

    class Message(WriterCommitMessage):  # type: ignore[misc]
        pass

    class Writer(DataSourceArrowWriter):  # type: ignore[misc]
        def write(self, iterator: Any) -> Message:
            for _ in iterator:
                pass
            return Message()

        def commit(self, messages: Any) -> None:
            self.note("commit", messages)
            raise RuntimeError("no")

        def abort(self, messages: Any) -> None:
            self.note("abort", messages)

        def note(self, what: str, messages: Any) -> None:
            missing = sum(m is None for m in messages)
            with open(log, "a") as file:
                file.write(f"{what} {len(messages)} {missing}\n")

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "aborting"

        def writer(self, schema: Any, overwrite: bool) -> Writer:
            return Writer()

    spark.dataSource.register(Source)
    frame = spark.range(0, 4, 1, 4)
    with pytest.raises(Exception, match="no"):
        frame.write.format("aborting").mode("append").save("x")
    with pytest.raises(Exception, match="boom"):
        frame.selectExpr("IF(id < 3, 1, raise_error('boom')) AS a").write.format("aborting").mode("append").save("x")
    *commit, failed = log.read_text().splitlines()
    assert commit == ["commit 4 0", "abort 4 0"]
    assert failed.startswith("abort 4 ")
    assert int(failed.split()[-1]) > 0
