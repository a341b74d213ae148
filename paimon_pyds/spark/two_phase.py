"""The two phases of a write in Spark: tasks write files and report them, then the driver publishes all or removes all.

Spark runs ``commit`` and ``abort`` in different processes, each with a writer that it unpickles anew, and it aborts
after a commit that failed too, perhaps while that is still running: an abort can't know what a commit did. But a commit
publishes only when every task has left a message. So where one is missing nothing was published, and the abort removes
what the others wrote; where none is, a commit may have been tried, and the abort keeps everything. A commit that fails
cleans up by itself, unless the snapshot may be there. (Source: Spark's V2TableWriteExec and PythonBatchWrite, and what
Spark 4.0 and 4.3 were seen to do, classic and Connect.)
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_pyds.commit.earlier import check_same_table
from paimon_pyds.commit.retry import removing_unpublished
from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.errors import CommitError, PaimonError
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.table import Table
from paimon_pyds.write import WriteContext

__all__ = ["PaimonCommitMessage", "TwoPhaseWriter"]

_log = logging.getLogger("paimon_pyds.spark")


@dataclass
class PaimonCommitMessage(WriterCommitMessage):  # type: ignore[misc]
    """What one task wrote. ``message`` is None when it wrote no files."""

    message: CommitMessage | None


M = TypeVar("M", bound=PaimonCommitMessage)


class TwoPhaseWriter(DataSourceArrowWriter, Generic[M]):  # type: ignore[misc]
    """A writer into a table; subclasses say what its tasks do and how their messages are published.

    Args:
        context: the table as it is written to.
        kind: the class of the tasks' messages.
        external: files outside of the table that a commit may read.
    """

    def __init__(self, context: WriteContext, kind: type[M], external: ExternalPaths) -> None:
        self._context = context
        self._kind = kind
        self._external = external

    @clear_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what the tasks wrote as one snapshot. Runs once, on the driver.

        Raises:
            CommitConflictError: the table was dropped and created again since the write began.
            CommitError: not published, and the tasks' files are removed; or a task left no message, and Spark aborts.
            AlreadyCommittedError: the table has some of the files; all are kept.
            CommitOutcomeUnknownError: the storage did not say; all files are kept.
        """
        received = [m for m in messages if isinstance(m, self._kind)]
        if len(received) != len(messages):
            raise CommitError("some tasks of the write left no message, nothing was published")
        with removing_unpublished(partial(self._remove, received)):
            check_same_table(self._store(), self._context.schema.id, self._context.schema_digest)
            self._publish(received)

    @clear_errors
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks of a job wrote that failed; those that failed removed their own."""
        received = [m for m in messages if isinstance(m, self._kind)]
        if len(received) != len(messages):
            self._remove(received)
        else:
            _log.info("all tasks of this write were done: its files are the commit's to keep or to remove")

    @abstractmethod
    def _publish(self, messages: Sequence[M]) -> None:
        """Make a snapshot of what all tasks wrote. Raises CommitOutcomeUnknownError when that may have happened."""

    def _remove(self, messages: Iterable[M]) -> None:
        try:
            Table(self._store()).abort([m.message for m in messages])
        except PaimonError as error:  # another error is reported
            _log.warning("the files of a failed write were not removed: %s", error)

    def _store(self) -> TableStore:
        """The table's metadata, where the tasks wrote: a relative path might mean another directory here."""
        return TableStore(self._context.io, self._context.root, self._context.branch, self._external)
