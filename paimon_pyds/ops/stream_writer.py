"""Writing a stream into a table so that each of its commits is made once, whatever is repeated after a crash.

A commit has a user, which names the stream, and a number. It is published only where the user has not committed that
number, or a later one, before: see `paimon_pyds.metadata.user_commits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from paimon_pyds.base.frames import rows_of
from paimon_pyds.base.options import TableOptions, check_appendable
from paimon_pyds.base.options.option import integer, text
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.append import abort_uncommitted, append_gathered, commit_messages
from paimon_pyds.engine.execution.writing import MERGE_SCHEMA, write_context
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.python_rows import PythonRows
from paimon_pyds.errors import (
    CommitError,
    CommitOutcomeUnknownError,
    OptionError,
    PaimonError,
    SchemaError,
    UnknownColumnError,
)
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER
from paimon_pyds.metadata.user_commits import CommitOnce, CommittedBeforeError, UserCommits
from paimon_pyds.ops.ddl.merge_schema import with_columns_merged
from paimon_pyds.ops.stream_compaction import after_stream_commit

if TYPE_CHECKING:
    from paimon_pyds.engine.cross_partition.upsert import GatheredRows
    from paimon_pyds.metadata.commit_message import CommitMessage
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.typing import Rows

_A_WRITE = "a write"


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """What became of a commit of a stream.

    Attributes:
        identifier: its number.
        snapshot_id: the snapshot with its rows; None where it had no rows, or was committed before.
        committed_before: this number, or a later one, had been committed: the rows that were written now were dropped.
    """

    identifier: int
    snapshot_id: int | None = None
    committed_before: bool = False


def checked_user(user: object) -> str:
    """The name of a stream. Raises OptionError for none."""
    name = text("user", user)
    if not name.strip():
        raise OptionError("a stream needs a user: the name that its commits have", hint="such as user='job-7'")
    return name


def checked_identifier(identifier: object) -> int:
    """The number of a commit. Raises OptionError for one that no stream can have."""
    number = integer("identifier", identifier)
    if not 0 <= number < BATCH_COMMIT_IDENTIFIER:
        raise OptionError(f"{number} can't be the number of a commit", hint="such as 0, 1, 2, up to 2^63 - 2")
    return number


class StreamWriter:
    """Writes a stream into a table; made by `paimon_pyds.Table.stream_writer`.

    Use as ``with table.stream_writer("job-7") as writer``. Rows that are written become visible by `commit`; those that
    are not committed when the block ends are dropped. Not for several threads at once.
    """

    def __init__(self, store: TableStore, user: str, options: Mapping[str, str], *, strict: bool = True) -> None:
        self._first_store = store
        self._options = options
        self._strict = strict
        self._commits = UserCommits(checked_user(user))
        self._newest: int | None = None
        self._batch: _Batch | None = None
        self._unsure: int | None = None
        """The number of a commit of unknown outcome, whose rows the batch still has."""
        self._lost = ""
        """What an error has dropped rows of, that the next commit would be without."""
        check_appendable(write_context(store, options).raw_options)

    @property
    def user(self) -> str:
        """The name of the stream, which its snapshots have as their commit user."""
        return self._commits.user

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.abort()

    def committed(self) -> int | None:
        """The greatest number that the stream has committed, by this writer or an earlier one; None for none.

        Commits without rows don't count: they make no snapshot.

        Returns:
            The number.

        Raises:
            CommitOutcomeUnknownError: see `settle`.
        """
        store = self._store()
        last = self._commits.last(store, store.latest_snapshot())
        return None if last is None else last.identifier

    def write(self, data: Rows) -> None:
        """Write rows for the next commit.

        Args:
            data: as for `paimon_pyds.Table.append`.

        Raises:
            SchemaError: the data does not fit; all that was written for the next commit is dropped.
            CommitError: the outcome of the last commit is not known yet.
        """
        if self._unsure is not None:
            raise CommitError(
                f"the outcome of commit {self._unsure} is not known, so there can't be rows for another",
                path=self._first_store.root,
                hint="call commit with that number again, or abort",
            )
        if self._lost == _A_WRITE:
            raise self._lost_rows()
        self._lost = ""
        try:
            data = with_columns_merged(self._store(), data, self._options, strict=self._strict)
            if self._batch is None:
                self._batch = _Batch(self._store(), self._options, self._strict)
            self._batch.write(data)
        except BaseException:
            self.abort()
            self._lost = _A_WRITE
            raise

    def commit(self, identifier: int, watermark: int | None = None) -> StreamCommit:
        """Make all rows visible that were written since the last commit, as one snapshot, unless this number has been
        committed before. On an error nothing is committed, and the rows have to be written again.

        Args:
            identifier: the number of the commit: greater than those before, and the same when it is repeated.
            watermark: event time in milliseconds since the epoch; that of the table never goes back.

        Returns:
            The snapshot, or that it was committed before.

        Raises:
            OptionError: the number is less than that of the writer's last commit.
            CommitConflictError, CommitError: not published; the rows were dropped.
            CommitOutcomeUnknownError: the storage did not say. The same call, without writing again, finds out.
        """
        number = checked_identifier(identifier)
        event_time = None if watermark is None else integer("watermark", watermark)
        if self._newest is not None and number < self._newest:
            raise OptionError(
                f"commit {number} comes after commit {self._newest} of the same writer",
                path=self._first_store.root,
                hint="the numbers of a stream's commits must grow; nothing was committed, the rows are still there",
            )
        if self._lost:
            raise self._lost_rows()
        if self._unsure not in (None, number):
            raise CommitError(
                f"the outcome of commit {self._unsure} is not known, so {number} can't follow it",
                path=self._first_store.root,
                hint="call commit with that number again, or abort",
            )
        done = self._publish(number, event_time)
        self._newest = number
        return done

    def abort(self) -> None:
        """Drop the rows that were written since the last commit."""
        batch, self._batch = self._batch, None
        self._unsure, self._lost = None, ""
        if batch is not None:
            batch.abort(self._store)

    def settle(self, committed: int | None) -> None:
        """Say what the stream has committed, where nothing that is left does: a process was killed just as it made a
        commit, and the stream went on only after snapshots had expired.

        Args:
            committed: the greatest number whose rows are in the table; None for none.
        """
        self._commits.settle(self._store(), None if committed is None else checked_identifier(committed))

    def __repr__(self) -> str:
        return f"StreamWriter(user={self.user!r:.100}, table={self._first_store!r})"

    # --------------------------------------------------------------------------------------------------------- helpers

    def _store(self) -> TableStore:
        return self._first_store.again()

    def _lost_rows(self) -> CommitError:
        return CommitError(
            f"{self._lost} has failed, and rows of the next commit were dropped",
            path=self._first_store.root,
            hint="write all rows of the commit again, after a call of abort",
        )

    def _publish(self, number: int, watermark: int | None) -> StreamCommit:
        store = self._store()
        last = self._commits.last(store, store.latest_snapshot())
        if last is not None and last.identifier >= number:
            self.abort()
            return StreamCommit(number, (last.identifier == number and last.state.id) or None, True)
        if self._batch is None:
            return StreamCommit(number)
        store = store.committing(CommitOnce(self._commits, number, watermark))
        try:
            snapshot = self._batch.commit(store)
        except CommitOutcomeUnknownError:
            self._unsure = number
            raise
        except CommittedBeforeError:  # by another process, a moment ago
            self._batch = self._unsure = None
            return StreamCommit(number, committed_before=True)
        except BaseException:
            self._batch = self._unsure = None
            self._lost = "a commit"
            raise
        self._batch = self._unsure = None
        if snapshot is None:
            return StreamCommit(number)
        self._newest = number
        after_stream_commit(store, snapshot.id, self._options)
        return StreamCommit(number, snapshot.id)


class _Batch:
    """The rows of one commit, written to files, or gathered where keys may be in any partition."""

    def __init__(self, store: TableStore, options: Mapping[str, str], strict: bool) -> None:
        self._options = options
        self._strict = strict
        self._context: WriteContext = write_context(store, options)
        check_appendable(self._context.raw_options)
        self._gathered: GatheredRows | None = None
        self._writer: TableWriter | None = None
        self._message: CommitMessage | None = None
        self._rows = 0
        if self._context.schema.crosses_partitions:
            from paimon_pyds.engine.cross_partition.upsert import GatheredRows  # other tables do without

            self._gathered = GatheredRows(self._context)
        else:
            self._writer = TableWriter(self._context)

    def write(self, data: Rows) -> None:
        before = self._rows
        try:
            for batch in rows_of(data, PythonRows(self._context.schema.fields, self._strict))[1]:
                if self._gathered is not None:
                    self._gathered.add(batch)
                elif self._writer is not None:
                    self._writer.write(batch)
                self._rows += batch.num_rows
        except UnknownColumnError as error:
            if before and TableOptions(self._context.raw_options).get(MERGE_SCHEMA):
                error.hint = "rows of this commit were written without it: new columns begin with a commit's first rows"
            raise
        except SchemaError as error:
            error.name_row(self._rows - before)
            raise

    def commit(self, store: TableStore) -> Snapshot | None:
        """Publish the rows. It may be called again where the outcome is unknown; else they are dropped on errors."""
        if self._gathered is not None:
            snapshot = append_gathered(store, self._gathered, self._context, self._options)
            self._gathered.close()
            return snapshot
        fresh = self._message is None
        if self._writer is not None:
            self._message, self._writer = self._writer.prepare_commit(), None
        assert self._message is not None
        return commit_messages(store, [self._message], options=self._options, fresh=fresh)

    def abort(self, store: Callable[[], TableStore]) -> None:
        """Drop the rows; files that the table has, or may have, stay."""
        if self._writer is not None:
            self._writer.abort()
        if self._gathered is not None:
            self._gathered.close()
        if self._message is not None:
            with suppress(PaimonError):
                abort_uncommitted(store(), [self._message])
