"""The sink of streams, ``df.writeStream.format("paimon")``: each micro-batch is one commit, made once.

Spark repeats a micro-batch that it does not know to be committed, with the same number in the same query, but with
other files. The commit's user is the id of the query and its number that of the batch, so that the repeat finds it
(`paimon_pyds.metadata.user_commits`). Only tasks can see the id of the query: their messages have it. Spark makes a new
writer in each of the processes that plan, commit and abort. (Source: pyspark/sql/worker/write_into_data_source.py and
python_streaming_sink_runner.py, and what Spark 4.0 and 4.3 were seen to do, classic and Connect.)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from paimon_pyds.engine.append import OverwriteMode, commit_messages
from paimon_pyds.engine.commit.earlier_commits import check_same_table
from paimon_pyds.engine.commit.publisher import removing_unpublished
from paimon_pyds.errors import CommitError, OptionError, PaimonError
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.user_commits import CommitOnce, CommittedBeforeError, UserCommits
from paimon_pyds.ops.stream_compaction import after_stream_commit
from paimon_pyds.spark import compat
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.spark.options import parse_write_options
from paimon_pyds.spark.writer import PaimonCommitMessage, PaimonWriter, open_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

CHECKPOINT, _NAME = "checkpointlocation", "queryname"
OF_STREAMS = frozenset({CHECKPOINT, _NAME})
"""Options of Spark's own that it gives to the sink, too."""
QUERY_ID = "sql.streaming.queryId"
"""The local property of tasks that has the id of the query, which stays the same when it is started again."""
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
"""The setting of a session that names the directory of all checkpoints: a query's has its name."""
_log = logging.getLogger("paimon_pyds.spark")


@dataclass
class StreamMessage(PaimonCommitMessage):
    """What one task of a micro-batch wrote, the id of the query, and the session's directory of checkpoints."""

    query: str | None = None
    checkpoints: str | None = None


class PaimonStreamWriter(compat.StreamArrowWriter):  # type: ignore[misc]
    """Writes the micro-batches of a query into a table; tasks get a copy of it. Made by `open_stream_writer`.

    ``writer``: writes the rows of a task. ``overwrite``: a micro-batch has all rows, which take the place of the ones
    before. ``given``: the options of Spark's own.
    """

    def __init__(self, writer: PaimonWriter, *, overwrite: bool, given: Mapping[str, str]) -> None:
        self._writer = writer
        self._overwrite = overwrite
        self._given = given

    @clear_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """Write a task's rows into new files. Nothing is visible until `commit`; on an error they are removed."""
        settings = map(compat.task_setting, (QUERY_ID, CHECKPOINTS))
        return StreamMessage(self._writer.write(iterator).message, *settings)

    @clear_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish what the tasks of a micro-batch wrote as one snapshot, unless that was done before. Without rows
        there is no snapshot.

        Raises:
            CommitConflictError: the table was dropped and created again since the tasks wrote to it.
            CommitError: not published, and the tasks' files are removed.
            CommitOutcomeUnknownError: the storage did not say; no file is removed, and the repeat of the batch finds
                out.
        """
        received = [m for m in messages if isinstance(m, StreamMessage)]
        if len(received) != len(messages):
            raise CommitError("some tasks of the micro-batch left no message, nothing was published")
        written = [m.message for m in received if m.message is not None]
        if not self._overwrite and not any(message.buckets for message in written):
            return
        context = self._writer._context
        with removing_unpublished(partial(self._remove, written)):
            store = self._writer._store()
            check_same_table(store, context.schema.id, context.schema_digest)
            user = UserCommits(_query_of(received))
            once = CommitOnce(user, batchId, _watermark(self._given, received[0], batchId))
            try:
                once.check(store, store.latest_snapshot())
                mode = OverwriteMode() if self._overwrite else None
                options = context.dynamic_options
                store = store.committing(once)
                snapshot = commit_messages(store, written, overwrite=mode, options=options)
            except CommittedBeforeError:
                _log.info("micro-batch %d is in the table already: its new files are removed", batchId)
                self._remove(written)
                return
        if snapshot is not None:
            after_stream_commit(store, snapshot.id, options)

    @clear_errors
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks of a micro-batch wrote that failed. Where each has left a message, the commit was
        tried, and has removed the files or left them where it may have been made."""
        received = [m for m in messages if isinstance(m, StreamMessage)]
        if len(received) != len(messages):
            self._remove([m.message for m in received if m.message is not None])

    def _remove(self, written: Sequence[CommitMessage]) -> None:
        """Remove files that no snapshot has; best effort."""
        self._writer._remove([PaimonCommitMessage(message) for message in written])


def open_stream_writer(schema: StructType, given: Mapping[str, str], *, overwrite: bool) -> PaimonStreamWriter:
    """The writer of a query's micro-batches; makes the table when it is missing.

    ``given``: the options as Spark hands them over.

    Raises:
        OptionError: options that have no meaning for a stream, and what `open_writer` refuses.
    """
    options = parse_write_options({k: v for k, v in given.items() if k.lower() not in OF_STREAMS}, overwrite=overwrite)
    refused = {
        "operation": options.operation,
        "if-exists": options.if_exists != "append",
        "commit-user": options.commit,
    }
    for name in (name for name, is_set in refused.items() if is_set):
        raise OptionError(
            f"{name} has no meaning for a stream",
            hint="paimon_pyds.spark.foreach_batch deletes, updates and merges once per micro-batch, too",
        )
    if options.partition is not None or options.dynamic:
        raise OptionError("the micro-batches of a complete stream have all rows: they replace the whole table")
    writer = open_writer(schema, options, overwrite=overwrite)
    assert isinstance(writer, PaimonWriter)
    of_spark = {name.lower(): value for name, value in given.items() if name.lower() in OF_STREAMS}
    return PaimonStreamWriter(writer, overwrite=overwrite, given=of_spark)


def _query_of(messages: Sequence[StreamMessage]) -> str:
    """The id of the query. Raises CommitError: without it nothing would say what is in the table."""
    found = {m.query for m in messages}
    query = found.pop() if len(found) == 1 else None
    if not query:
        raise CommitError(
            "Spark gave the tasks no id of the query, so that a repeat of the micro-batch would double its rows",
            hint="nothing was published; use paimon_pyds.spark.foreach_batch with a name",
        )
    return query


def _watermark(given: Mapping[str, str], message: StreamMessage, batch: int) -> int | None:
    """The watermark of a micro-batch, by the query's write-ahead log; None where that is not known, or can't be read.

    A query whose checkpoint is no option has it in the session's directory, under its name; without one under a random
    one, which is not known.
    """
    import json

    from paimon_pyds.storage import open_file_io

    checkpoint, name = given.get(CHECKPOINT), given.get(_NAME)
    if checkpoint is None and (name is None or message.checkpoints is None):
        return None
    try:
        io, root = open_file_io(checkpoint or f"{message.checkpoints}/{name}")
        if checkpoint is None and json.loads(io.read_bytes(f"{root}/metadata"))["id"] != message.query:
            return None
        lines = io.read_bytes(f"{root}/offsets/{batch}").decode().splitlines()
        found: Any = json.loads(lines[1]).get("batchWatermarkMs")
    except (PaimonError, OSError, ValueError, LookupError, AttributeError):
        return None
    return found if isinstance(found, int) and found > 0 else None
