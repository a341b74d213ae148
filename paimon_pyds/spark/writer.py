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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from paimon_pyds.base.options import check_appendable, check_writable
from paimon_pyds.base.options.describe import restore_case
from paimon_pyds.base.types import DataField, arrow_schema, positions_named
from paimon_pyds.base.types.nested import MissingMemberError, with_members
from paimon_pyds.engine.commit.earlier_commits import check_same_table
from paimon_pyds.engine.commit.publisher import removing_unpublished
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.conform import match_columns
from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN
from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS, MissingColumns
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitError,
    OptionError,
    PaimonError,
    PredicateError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedError,
)
from paimon_pyds.metadata.commit_message import CommitMessage, Guard
from paimon_pyds.metadata.partition import partition_predicate
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.user_commits import CommitOnce, CommittedBeforeError, UserCommits
from paimon_pyds.ops.ddl.create import unmade_on_failure, unmake
from paimon_pyds.ops.ddl.merge_schema import OPTIONS as OF_MERGES
from paimon_pyds.ops.ddl.merge_schema import merge_columns
from paimon_pyds.ops.stream_compaction import after_stream_commit
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import check_castable, conform_batch
from paimon_pyds.spark.catalogs import CommitCatalog, open_catalog, open_table, taking_back_of
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.spark.options import BUCKET_COLUMN, WriteOptions
from paimon_pyds.spark.types import fields_from_spark
from paimon_pyds.storage import open_file_io
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_pyds.metadata.snapshot import Snapshot

_log = logging.getLogger("paimon_pyds.spark")


@dataclass
class PaimonCommitMessage(WriterCommitMessage):  # type: ignore[misc]
    """What one task wrote. ``message`` is None when it wrote no files."""

    message: CommitMessage | None


M = TypeVar("M", bound=PaimonCommitMessage)


class TwoPhaseWriter(DataSourceArrowWriter, Generic[M]):  # type: ignore[misc]
    """A writer into a table; subclasses say what its tasks do and how their messages are published. ``kind``: the class
    of the tasks' messages. ``external``: files outside of the table that a commit may read."""

    def __init__(self, context: WriteContext, kind: type[M], external: ExternalPaths) -> None:
        self._context = context
        self._kind = kind
        self._external = external
        self.catalog: CommitCatalog | None = None
        """The catalog that commits, for a table of one."""
        self.made = False
        """Whether the table was made for this write."""
        self.commit_name: tuple[str, int] | None = None
        """The user and the number of the commit, by which it is made once."""

    @clear_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what the tasks wrote as one snapshot. Runs once, on the driver.

        Raises:
            CommitConflictError: the table was dropped and created again since the write began.
            CommitError: not published, and the tasks' files are removed; or a task left no message, and Spark aborts.
            AlreadyCommittedError: the table has some of the files; no file is removed.
            CommitOutcomeUnknownError: the storage did not say; no file is removed.
        """
        received = [m for m in messages if isinstance(m, self._kind)]
        if len(received) != len(messages):
            raise CommitError("some tasks of the write left no message, nothing was published")
        with removing_unpublished(partial(self._remove, received)):
            store = self._store()
            check_same_table(store, self._context.schema.id, self._context.schema_digest)
            try:
                store = _named(store, self.commit_name)
                committed = self._publish(store, received)
            except CommittedBeforeError as error:
                _log.info("%s", error)
                self._remove(received)
                return
        if committed is not None:
            after_stream_commit(store, committed, self._context.dynamic_options)

    @clear_errors
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks of a job wrote that failed; those that failed removed their own."""
        received = [m for m in messages if isinstance(m, self._kind)]
        if len(received) != len(messages):
            self._remove(received)
            self._take_back()
        else:
            _log.info("all tasks of this write were done: its files are the commit's to keep or to remove")

    def _take_back(self) -> None:
        """Take a table away again that this write has made. It stays where there are files that nobody here can name:
        of tasks that Spark has stopped, and that left no message, or of another writer."""
        if not self.made:
            return
        try:
            if self.catalog is None:
                unmake(self._context.io, self._context.root, self._context.schema_digest)
            else:
                self.catalog.take_back(self._context.root, self._context.schema_digest)
        except (PaimonError, OSError) as error:
            _log.warning("the table that a failed write had made was not removed: %s", error)

    @abstractmethod
    def _publish(self, store: TableStore, messages: Sequence[M]) -> int | None:
        """Make a snapshot of what all tasks wrote, and return its number; None if nothing follows the commit.

        Raises:
            CommitOutcomeUnknownError: the snapshot may have been made.
        """

    def _remove(self, messages: Iterable[M]) -> None:
        try:
            Table(self._files()).abort([m.message for m in messages])
        except PaimonError as error:  # another error is reported
            _log.warning("the files of a failed write were not removed: %s", error)

    def _store(self) -> TableStore:
        """The table's metadata, where the tasks wrote: a relative path might mean another directory here."""
        return self._files() if self.catalog is None else self.catalog.store(self._context.root)

    def _files(self) -> TableStore:
        """The same, to do with files only: it can't commit where a catalog has to."""
        return TableStore(self._context.io, self._context.root, self._context.branch, self._external)


def _named(store: TableStore, name: tuple[str, int] | None) -> TableStore:
    """The table, whose next commit has this name. Raises CommittedBeforeError."""
    if name is None:
        return store
    once = CommitOnce(UserCommits(name[0]), name[1])
    once.check(store, store.latest_snapshot())
    return store.committing(once)


class PaimonWriter(TwoPhaseWriter[PaimonCommitMessage]):
    """Writes a DataFrame's rows into a table. Made by `open_writer`; it is pickled into every task.

    Attributes:
        incoming: what batches are converted to: the DataFrame's columns under the table's names and types.
        external: files outside of the table that a commit may read.
        how: arguments of `Table.commit`. Not all options of the write: tasks need no credentials of the driver's.
        assigned: whether rows bring their dynamic buckets along, all of a bucket to one task.
        first: whether the rows are to be the first of the table.
    """

    def __init__(
        self,
        context: WriteContext,
        incoming: pa.Schema,
        external: ExternalPaths,
        how: Mapping[str, Any],
        *,
        assigned: bool = False,
        first: bool = False,
    ) -> None:
        super().__init__(context, PaimonCommitMessage, external)
        self._first = first
        self._incoming = incoming
        self._how = how
        self._assigned = assigned

    @clear_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PaimonCommitMessage:
        """Write a task's rows into new files. Nothing is visible until `commit`; on an error they are removed."""
        bucket = BUCKET_COLUMN if self._assigned else None
        with TableWriter(self._context, compat.task_index(), bucket=bucket) as writer:
            for batch in iterator:
                renamed = batch.rename_columns(self._incoming.names)
                fitting = conform_batch(renamed, self._incoming, takes_members=self._context.takes_members)
                writer.write(fitting)
            return PaimonCommitMessage(writer.prepare_commit())

    def _publish(self, store: TableStore, messages: Sequence[PaimonCommitMessage]) -> int | None:
        from paimon_pyds.engine.append import OverwriteMode, RowChanges, commit_messages
        from paimon_pyds.metadata.snapshot import Operation

        written, changes = [m.message for m in messages if m.message is not None], None
        mode = OverwriteMode(self._how["partition"], self._how["dynamic"]) if self._how["overwrite"] else None
        if self._first:
            changes = RowChanges(Operation.WRITE, _NoSnapshotYet())
        elif self._context.schema.crosses_partitions:
            guard = self._unchanged_keys(store, written)
            changes = None if mode is not None else RowChanges(Operation.WRITE, guard)
        options = self._context.dynamic_options
        snapshot = commit_messages(store, written, overwrite=mode, changes=changes, options=options)
        return None if snapshot is None else snapshot.id

    def _unchanged_keys(self, store: TableStore, messages: Sequence[CommitMessage]) -> Guard:
        """What checks that rows went to where their keys were: in a snapshot, which is named instead of a manifest."""
        from paimon_pyds.engine.cross_partition.key_places import KeyPlaces  # other tables do without
        from paimon_pyds.engine.cross_partition.upsert import UnchangedKeys, check_places

        named = self._context.index_manifest
        places = KeyPlaces.of(store, self._context, store.snapshot(int(named)) if named else None)
        check_places(places, messages)
        return UnchangedKeys(places, messages)


class IgnoringWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """The writer of ``if-exists=ignore`` where the table is there: it writes nothing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PaimonCommitMessage:
        """Leave the rows."""
        for _ in iterator:
            pass
        return PaimonCommitMessage(None)


class _NoSnapshotYet:
    """The guard of a write that has to be the table's first."""

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        if latest is not None:
            raise CommitConflictError(
                "another commit was the table's first, and if-exists says not to add to it", hint="write again"
            )


def open_writer(schema: StructType, options: WriteOptions, *, overwrite: bool) -> PaimonWriter | IgnoringWriter:
    """The writer for a DataFrame of this schema; makes the table when it is missing.

    Raises:
        AlreadyExistsError: the table has a snapshot, and ``if-exists`` is ``error``.
        TableNotFoundError: there is no table, and ``create-if-missing`` is off.
        SchemaError: columns that do not fit the table.
        OptionError, UnsupportedError: options that do not fit it, or are refused.
    """
    if options.row_kinds is not None:
        column = _exact(options.row_kinds, schema.fieldNames(), "rowkind-column")
        options = replace(options, row_kinds=column)
    if not overwrite:
        check_appendable(options.table)  # else a new table would stay, empty
    table, dynamic, made = _table(schema, options)
    if not made:
        merge_columns(table._store, [compat.target_schema(schema)], dynamic, options.not_stored)
        return _writer(schema, options, table, dynamic, overwrite=overwrite)
    with unmade_on_failure(table._store, taking_back_of(options)):
        writer = _writer(schema, options, table, dynamic, overwrite=overwrite)
    if isinstance(writer, PaimonWriter):
        writer.made = True
    return writer


def _writer(
    schema: StructType, options: WriteOptions, table: Table, dynamic: Mapping[str, str], *, overwrite: bool
) -> PaimonWriter | IgnoringWriter:
    """The writer into a table that is there. ``dynamic``: the options of this write."""
    if not overwrite:
        check_appendable({**table.options, **dynamic})
    first = options.if_exists != "append"
    if first and table.snapshots.latest() is not None:
        if options.if_exists == "ignore":
            return IgnoringWriter()
        raise AlreadyExistsError("a table already exists", path=table.path, hint="leave if-exists out to append to it")
    context = table.write_context(dynamic, overwrite=overwrite)
    if options.partition is not None:
        _check_partition(options.partition, context.schema)
    others = {BUCKET_COLUMN: pa.field(BUCKET_COLUMN, pa.int32())} if options.assigned is not None else {}
    if options.row_kinds is not None:
        others[options.row_kinds] = pa.field(options.row_kinds, pa.string())
    keeps_buckets = context.schema.has_dynamic_buckets or context.schema.crosses_partitions
    if options.assigned is not None and not (keeps_buckets and BUCKET_COLUMN in schema.fieldNames()):
        raise OptionError(
            "assigned-buckets is for rows with the dynamic buckets that paimon_pyds.spark.write gave them",
            path=table.path,
            hint="leave the option out; or write again, if the table was made anew meanwhile",
        )
    incoming = incoming_columns(schema, context, others)
    _check_placed(context.schema, options, overwrite=overwrite)
    if first and context.schema.crosses_partitions:
        raise UnsupportedError(f"if-exists={options.if_exists} is not for tables whose key may be in any partition")
    if options.assigned is not None:
        context = replace(context, index_manifest=options.assigned)
    how = {"overwrite": overwrite, "partition": options.partition, "dynamic": options.dynamic}
    writer = PaimonWriter(
        context, incoming, table._store.external, how, assigned=options.assigned is not None, first=first
    )
    writer.catalog, writer.commit_name = CommitCatalog.of(options), options.commit
    return writer


def incoming_columns(schema: StructType, context: WriteContext, others: Mapping[str, pa.Field]) -> pa.Schema:
    """What the columns of a DataFrame are converted to, in their order, under the table's names. ``schema``: the
    DataFrame's. ``others``: columns that may be among them and are not in the table.
    Raises SchemaError: columns that do not fit the table."""
    names, missing = _renamed(schema.fieldNames(), context.schema.fields, context.root, [*others])
    if not {context.raw_options.get(ROW_KIND_COLUMN), context.options.get("rowkind.field")} & {*others, *names}:
        MissingColumns(context).check_names(missing)  # else there may be deletes only
    targets = {**others, **{f.name: f for f in arrow_schema(context.schema.fields)}}
    for name, column in zip(names, compat.target_schema(schema), strict=True):
        target = targets[name].type
        source = with_members(pa.nulls(0, column.type), target).type if context.takes_members else column.type
        try:
            check_castable(source, target, name)
        except MissingMemberError as error:
            raise error.of_write() from None
    return pa.schema([targets[name] for name in names])


def _check_placed(schema: TableSchema, options: WriteOptions, *, overwrite: bool) -> None:
    """Refuse rows whose keys may be in any partition unless they come with the place that they go to."""
    if not schema.crosses_partitions:
        return
    if overwrite and (options.partition is not None or options.dynamic):
        raise UnsupportedError(
            "the primary key does not hold all partition columns: the keys of rows may be in partitions that an "
            "overwrite of some leaves",
            hint="overwrite the whole table, or append; Table.overwrite(rows, partition) looks for the keys",
        )
    if options.assigned is None:
        raise UnsupportedError(
            "the primary key does not hold all partition columns: a row goes to where its key is, or that row has to "
            "go, and tasks of a plain df.write don't see all rows of a key",
            hint="paimon_pyds.spark.write(df, path) shuffles rows by key and joins them with where their keys are; a "
            "client of Spark Connect has to see a catalog's table for that",
        )


def _table(schema: StructType, options: WriteOptions) -> tuple[Table, Mapping[str, str], bool]:
    """The table to write to, the options that hold for this write only, and whether the table was made for it."""
    try:
        table = open_table(options)
    except TableNotFoundError:
        if not options.create or options.branch not in (None, "main"):
            raise
        _check_placed(new_schema(schema, options), options, overwrite=False)
        try:
            created = _created(schema, options)
            return created, dynamic_options(created, replace(options, table={})), True
        except AlreadyExistsError:  # another writer has created it concurrently
            table = open_table(options)
    return table, dynamic_options(table, options), False


def _created(schema: StructType, options: WriteOptions) -> Table:
    new = new_schema(schema, options)
    check_writable(new)  # else it would stay, empty
    parts = (new.primary_keys, new.partition_keys, new.options, options.comment)
    if options.catalog is not None:
        return open_catalog(options.catalog).create_table(options.path, new.fields, *parts)
    return Table.create(options.path, new.fields, *parts, options.storage)


def new_schema(schema: StructType, options: WriteOptions) -> TableSchema:
    """The schema of the table that a write of these columns makes."""
    fields = tuple(f for f in fields_from_spark(schema) if f.name not in options.not_stored)
    names = [f.name for f in fields]
    partition_by = tuple(_exact(name, names, "partition-by") for name in options.partition_by or ())
    primary_key = tuple(_exact(name, names, "primary-key") for name in options.primary_key or ())
    stored = {name: text for name, text in options.table.items() if name not in OF_MERGES}
    return TableSchema(0, fields, len(fields), partition_by, primary_key, restore_case(stored, names))


def new_context(schema: StructType, options: WriteOptions) -> WriteContext:
    """The table that a write of these columns makes, as it is written to."""
    io, root = open_file_io(options.path, options.storage)
    return WriteContext(io, root, "main", new_schema(schema, options), index_manifest="")


def dynamic_options(table: Table, options: WriteOptions) -> dict[str, str]:
    """Options of this write on a table that is there, for `Table.write_context` to check.
    Raises OptionError: the table is partitioned otherwise, or has another primary key."""
    schema = table.schema
    requested = options.partition_by
    if requested is not None and not _same_names(requested, schema.partition_keys):
        raise OptionError(
            f"partition-by is {', '.join(requested) or 'empty'}, and the table is partitioned by "
            f"{', '.join(schema.partition_keys) or 'nothing'}",
            path=table.path,
            hint="a table's partitions are fixed when it is created; leave the option out",
        )
    requested = options.primary_key
    if requested is not None and not _same_names(requested, schema.primary_keys):
        raise OptionError(
            f"primary-key is {', '.join(requested) or 'empty'}, and the table's primary key is "
            f"{', '.join(schema.primary_keys) or 'empty'}",
            path=table.path,
            hint="a table's primary key is fixed when it is created; leave the option out",
        )
    own = restore_case(options.table, [f.name for f in schema.fields])
    given = {ROW_KIND_COLUMN: options.row_kinds, MISSING_COLUMNS: options.missing}
    return {**own, **{name: text for name, text in given.items() if text is not None}}


def _same_names(requested: Sequence[str], names: Sequence[str]) -> bool:
    return [name.casefold() for name in requested] == [name.casefold() for name in names]


def _exact(name: str, names: Sequence[str], option: str) -> str:
    found = positions_named(name, names)
    if len(found) == 1:
        return names[found[0]]
    hint = f"the DataFrame has {', '.join(names)}"
    raise UnknownColumnError(f"{option} names {name!r}, which is not a column", hint=hint)


def _check_partition(partition: Mapping[str, str | None], schema: TableSchema) -> None:
    try:
        partition_predicate(schema, partition)
    except (OptionError, PredicateError) as error:  # the commit would say so, after all rows were written
        raise OptionError(f"overwrite-partition: {error.message}", hint=error.hint) from None


def _renamed(
    names: Sequence[str], fields: Sequence[DataField], table: str, others: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The table's spelling of the DataFrame's columns, in the DataFrame's order, and the table's columns without a
    default that are not among them. ``others``: columns of the DataFrame that are not in the table.
    Raises SchemaError."""
    stored = [name for name in names if name not in others]
    found = match_columns(stored, fields, table)
    spelled = {stored[at]: field.name for field, at in zip(fields, found, strict=True) if at is not None}
    missing = [field.name for field, at in zip(fields, found, strict=True) if at is None and field.default is None]
    return [spelled.get(name, name) for name in names], missing
