"""Append and overwrite: data → files → one commit. On any error the files are removed and the table is as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.frames import row_count, rows_of
from paimon_pyds.base.options import TableOptions, check_appendable
from paimon_pyds.base.options.option import mapping
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.commit import Changes, Overwrite, commit, increments_of
from paimon_pyds.engine.commit.earlier_commits import EarlierCommits
from paimon_pyds.engine.commit.key_hashes import OtherKeysError, with_hash_index
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unpublished
from paimon_pyds.engine.execution.writing import abort_messages, write_context
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.incoming import check_columns
from paimon_pyds.engine.write.python_rows import PythonRows
from paimon_pyds.errors import (
    AlreadyCommittedError,
    CommitConflictError,
    OptionError,
    PaimonError,
    SchemaError,
    SnapshotNotFoundError,
    UnsupportedError,
)
from paimon_pyds.keys.bucket import makes_buckets
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage, Guard, Renumbering
from paimon_pyds.metadata.partition import (
    named_partition,
    partition_predicate,
    partitions_meeting,
)
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.engine.cross_partition.upsert import GatheredRows


def append(
    store: TableStore, data: Any, options: Mapping[str, str] | None = None, *, strict: bool = True
) -> Snapshot | None:
    """Append rows as one snapshot; None when there was no row. ``data``, ``strict``: as for `Table.append`."""
    context = write_context(store, options)
    check_appendable(context.raw_options)
    if context.schema.crosses_partitions:
        return _appended_by_key(store, _Rows(data, None, PythonRows(context.schema.fields, strict)), context, options)
    message, changes = _written(store, data, context, options, strict=strict)
    return commit_messages(store, [message], changes=changes, options=options, fresh=True)


@dataclass(frozen=True, slots=True)
class OverwriteMode:
    """What an overwrite replaces: the whole table, unless one of these is given. ``partition``: the partitions with
    these values, as {column: value}. ``dynamic``: the partitions that the data has rows in."""

    partition: Mapping[str, Any] | None = None
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What made the rows of a commit out of rows of the table. ``operation``: that the snapshot names. ``guard``:
    checks that the rows still follow from those of the snapshot before."""

    operation: Operation
    guard: Guard


def overwrite(
    store: TableStore,
    data: Any,
    mode: OverwriteMode,
    options: Mapping[str, str] | None = None,
    *,
    strict: bool = True,
) -> Snapshot | None:
    """Replace rows as one snapshot; None when there was nothing to replace, and no row."""
    check_mode(store.latest_schema(), mode)
    context = write_context(store, options, overwrite=True)
    message, changes = _written(store, data, context, options, mode, strict=strict)
    return commit_messages(store, [message], overwrite=mode, changes=changes, options=options, fresh=True)


def _written(
    store: TableStore,
    data: Any,
    context: WriteContext,
    options: Mapping[str, str] | None,
    mode: OverwriteMode | None = None,
    *,
    strict: bool,
) -> tuple[CommitMessage, RowChanges | None]:
    replacing = mode is not None and not (mode.dynamic and context.schema.partition_keys)
    rows = _Rows(data, context if replacing else None, PythonRows(context.schema.fields, strict))
    try:
        if mode is not None and context.schema.crosses_partitions:
            try:
                return _written_by_key(store, iter(rows), options, mode)
            except SnapshotNotFoundError as error:
                raise CommitConflictError(
                    "the snapshot that keys were looked for in has expired meanwhile",
                    path=store.root,
                    hint="write the rows again",
                ) from error
        with TableWriter(context) as writer:
            for batch in rows:
                writer.write(batch)
            with phase("encoding", sorted=rows.taken if context.schema.primary_keys else None):
                return writer.prepare_commit(), None
    except SchemaError as error:
        error.name_row(rows.taken)
        raise


class _Rows:
    """The batches of data, as the first phase of a write; ``taken`` counts the rows before the last batch. Where they
    replace others, by ``replacing``, their columns are looked at even if there is no row."""

    def __init__(self, data: Any, replacing: WriteContext | None, convert: PythonRows) -> None:
        self._data = data
        self._convert = convert
        self._replacing = replacing
        self.taken = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with phase("writing", rows=row_count(self._data)) as step:
            schema, batches = rows_of(self._data, self._convert)
            if self._replacing is not None:
                check_columns(schema, self._replacing)
            for batch in batches:
                yield batch
                self.taken += batch.num_rows
                step.advance(rows=batch.num_rows)


def _appended_by_key(
    store: TableStore, rows: _Rows, first: WriteContext, options: Mapping[str, str] | None
) -> Snapshot | None:
    """`append` to a table whose keys may be in any partition. ``first``: the table as the rows are made to fit it."""
    from paimon_pyds.engine.cross_partition.upsert import GatheredRows

    try:
        gathered = GatheredRows(first, rows)
    except SchemaError as error:
        error.name_row(rows.taken)
        raise
    with gathered:
        return append_gathered(store, gathered, first, options)


def append_gathered(
    store: TableStore, gathered: GatheredRows, first: WriteContext, options: Mapping[str, str] | None
) -> Snapshot | None:
    """Append rows to a table whose keys may be in any partition. Where another commit has written some of the keys
    meanwhile, they are looked for again. ``first``: the table as the rows were made to fit it."""
    from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
    from paimon_pyds.engine.cross_partition.upsert import UnchangedKeys

    def once(snapshot: Snapshot | None, retries: Retries) -> Snapshot | None:
        retries.go_by(first.options)
        context = write_context(store, options)
        if context.schema.id != first.schema.id:
            raise CommitConflictError(
                "the table's schema was changed by another commit meanwhile", path=store.root, hint="write again"
            )
        places = KeyPlaces.of(store, context, snapshot)
        with phase("encoding", sorted=gathered.rows):
            message = gathered.write(context, places)
        changes = RowChanges(Operation.WRITE, UnchangedKeys(places, [message]))
        return commit_messages(store, [message], changes=changes, options=options, fresh=True)

    return on_newest(store, once, options)


def _written_by_key(
    store: TableStore, batches: Iterator[pa.RecordBatch], options: Mapping[str, str] | None, mode: OverwriteMode
) -> tuple[CommitMessage, RowChanges | None]:
    from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
    from paimon_pyds.engine.cross_partition.upsert import UnchangedKeys, write_rows

    snapshot = store.latest_snapshot()  # before the schema: no file of the snapshot has a later one
    replaces_all = mode.partition is None  # else keys may come from other partitions
    context = write_context(store, options, overwrite=replaces_all)
    schema = context.schema
    if mode.partition is None and not mode.dynamic:
        return write_rows(context, batches, KeyPlaces.of(store, context, None)), None
    if mode.dynamic:
        raise UnsupportedError(
            "the primary key does not hold all partition columns: the keys of rows may be in partitions that a dynamic "
            "overwrite leaves",
            hint="name the partitions, overwrite the whole table, or append the rows",
        )
    replaced = partitions_meeting(schema, partition_predicate(schema, mode.partition or {}))
    places = replace(KeyPlaces.of(store, context, snapshot), replaced=replaced)
    message = write_rows(context, batches, places)
    return message, RowChanges(Operation.OVERWRITE, UnchangedKeys(places, [message]))


def commit_messages(
    store: TableStore,
    messages: Sequence[CommitMessage],
    *,
    overwrite: OverwriteMode | None = None,
    changes: RowChanges | None = None,
    options: Mapping[str, str] | None = None,
    fresh: bool = False,
) -> Snapshot | None:
    """Publish what writers wrote. On failure their files are removed, unless the table has them, or may have.

    Messages that the same call has published before return the snapshot of that commit. The caller goes on with
    `paimon_pyds.ops.after_commit`.

    Args:
        store: the table.
        messages: of all writers, each once.
        overwrite: what the rows replace; they are appended when None.
        changes: the rows are versions of others.
        options: over the table's own.
        fresh: nobody else has seen the messages.

    Raises:
        AlreadyCommittedError: some of the files are in the table, or all by another kind of commit.
        UnsupportedError: rows can't just be added to the table.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `paimon_pyds.engine.commit.commit`.
    """
    publication = _Publication(store, messages, overwrite, changes, options, fresh)
    _check_once(store, publication.buckets)
    with removing_unpublished(publication.remove):
        snapshot = publication.publish()
    if snapshot is not None:
        publication.remove_left_over()
    return snapshot


class _Publication:
    """One call of `commit_messages`, whose arguments it takes."""

    def __init__(
        self,
        store: TableStore,
        messages: Sequence[CommitMessage],
        overwrite: OverwriteMode | None,
        changes: RowChanges | None,
        options: Mapping[str, str] | None,
        fresh: bool,
    ) -> None:
        self._store = store
        self._messages = messages
        self._overwrite = overwrite
        self._changes = changes
        self._options = options
        self._fresh = fresh
        self.buckets = tuple(b for m in messages for b in m.buckets)
        """Those to commit: the writers' buckets, then those that their rows belong in by now."""
        self._indexes: list[str] = []
        """Paths of the hash index files of this try."""
        self._parts: list[str] = []
        """Paths of the writers' files with hashes, which these index files hold."""

    def publish(self) -> Snapshot | None:
        """Commit the buckets; again where another commit gave some of their new keys to other buckets meanwhile."""
        schema = self._store.latest_schema()
        typed = TableOptions({**schema.options, **(self._options or {})})
        appends = self._overwrite is None and self._changes is None
        if appends:
            check_appendable(typed)
        self.buckets = _in_real_buckets(self._store, typed, self.buckets, self._options)
        retries = Retries(typed)
        while True:
            if appends:
                self.buckets = _in_newest_places(self._store, self.buckets, self._options)
            try:
                return commit(self._store, self._increments(schema, first_try=retries.count == 1), typed)
            except OtherKeysError as error:
                if not appends:
                    raise
                discard(self._store.io, self._indexes)
                self._indexes = []
                retries.again(error)

    def _increments(self, schema: TableSchema, *, first_try: bool) -> Changes:
        """The rows, as what they are committed, and the compactions that came with them."""
        rows, compaction = increments_of(self._indexed(schema))
        if self._overwrite is not None:
            check_mode(schema, self._overwrite)
            replaced = _overwrite(schema, {b.partition for b in self.buckets}, self._overwrite)
            rows = replace(rows, kind=CommitKind.OVERWRITE, overwrite=replaced, changelog=None)
            compaction = replace(
                compaction, changelog=None
            )  # as in Java: readers of the changelog miss the removed rows
        rows = replace(rows, operation=Operation.WRITE if self._overwrite is None else Operation.OVERWRITE)
        if self._changes is not None:
            rows = replace(rows, operation=self._changes.operation, guard=self._changes.guard)
        if schema.primary_keys:
            unmoved = self._fresh and first_try
            rows = replace(rows, renumbering=_renumbering(self._store, schema, self._options, fresh=unmoved))
        return Changes((rows, compaction))

    def _indexed(self, schema: TableSchema) -> tuple[BucketFiles, ...]:
        """The buckets, dynamic ones with the hash index files that they need on top of the newest snapshot."""
        self._parts = []
        if all(bucket.hashes is None for bucket in self.buckets):
            return self.buckets
        several, replaces = len(self._messages) > 1, self._overwrite is not None
        fit = partial(with_hash_index, self._store, schema, self.buckets, overwrite=replaces, several=several)
        made, self._indexes, self._parts = self._store.read_newest(fit)
        return made

    def remove(self) -> None:
        """Remove what was written, unless the table has it, or may have."""
        discard(self._store.io, self._indexes)
        if self._fresh or _surely_not_committed(self._store, self.buckets):
            abort_messages(self._store, [*self._messages, CommitMessage(self.buckets)])

    def remove_left_over(self) -> None:
        """Remove the files that no snapshot names, once the commit is made."""
        discard(self._store.io, self._parts)
        if self._overwrite is not None:
            changelogs = ((b.directory, file.file_name) for b in self.buckets for file in b.changelog_files)
            discard(self._store.io, (f"{directory}/{name}" for directory, name in changelogs))


def _in_newest_places(
    store: TableStore, buckets: tuple[BucketFiles, ...], options: Mapping[str, str] | None
) -> tuple[BucketFiles, ...]:
    """Appended rows, in the dynamic buckets where their keys are now."""
    if all(bucket.hashes is None for bucket in buckets):
        return buckets
    from paimon_pyds.engine.dynamic_buckets import in_newest_places  # other tables do without

    return store.read_newest(lambda latest: in_newest_places(store, latest, buckets, options))


def _in_real_buckets(
    store: TableStore, typed: TableOptions, buckets: tuple[BucketFiles, ...], options: Mapping[str, str] | None
) -> tuple[BucketFiles, ...]:
    if not makes_buckets(typed) or all(bucket.bucket != POSTPONE_BUCKET for bucket in buckets):
        return buckets
    from paimon_pyds.engine.compact.postpone import with_real_buckets  # other tables do without

    return with_real_buckets(store, buckets, options)


def _renumbering(
    store: TableStore, schema: TableSchema, options: Mapping[str, str] | None, *, fresh: bool
) -> Renumbering:
    from paimon_pyds.engine.write.sequence_numbers import FilesRenumbering  # tables without a key have no such column

    context = WriteContext(store.io, store.root, store.branch, schema, dict(options or {}))
    return FilesRenumbering(context, fresh)


def _check_once(store: TableStore, buckets: Sequence[BucketFiles]) -> None:
    counts = Counter(file.file_name for bucket in buckets for file in bucket.files)
    name, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count > 1:
        raise OptionError(
            f"the data file {name} is in {count} of the messages: its rows would be there {count} times",
            path=store.root,
            hint="commit each message once; nothing was published or removed",
        )


def _surely_not_committed(store: TableStore, buckets: Sequence[BucketFiles]) -> bool:
    """Whether the storage says that no snapshot has these files; in doubt they stay, as orphan files harm nobody."""
    try:
        _check_uncommitted(store, buckets)
    except (PaimonError, OSError):
        return False
    return True


def _check_uncommitted(store: TableStore, buckets: Sequence[BucketFiles]) -> None:
    latest = store.latest_snapshot()
    for increment in increments_of(buckets):
        try:
            landed = EarlierCommits(store, increment).find(latest)
        except CommitConflictError:  # some are gone, and no snapshot names any
            continue
        if landed is not None:
            raise AlreadyCommittedError(
                f"the data files to remove are in the table: they were committed by snapshot {landed.id}",
                path=store.root,
                hint="nothing was removed; delete the rows, or overwrite them, if they should go",
            )


def abort_uncommitted(store: TableStore, messages: Sequence[CommitMessage | None]) -> None:
    """Remove the files of messages that will not be committed; best effort.

    Raises:
        AlreadyCommittedError: the table has some of the files: a commit of unknown outcome landed. None was removed.
        PaimonError: the storage does not answer whether it has them. None was removed.
    """
    _check_uncommitted(store, tuple(b for m in messages if m is not None for b in m.buckets))
    abort_messages(store, messages)


def check_mode(schema: TableSchema, mode: OverwriteMode) -> None:
    """Raise OptionError for an overwrite that contradicts itself or the table."""
    partition = mode.partition
    if partition is None:
        return
    mapping("partition", partition)
    if mode.dynamic:
        raise OptionError("an overwrite is dynamic or of named partitions, not both")
    named_partition(schema, partition)


def _overwrite(schema: TableSchema, written: set[bytes], mode: OverwriteMode) -> Overwrite:
    if mode.dynamic and schema.partition_keys:
        return Overwrite(lambda rows: written & set(rows))
    if not mode.partition:
        return Overwrite()
    replaced = partitions_meeting(schema, partition_predicate(schema, mode.partition))
    outside = written - replaced(sorted(written))
    if outside:
        raise SchemaError(
            f"{len(outside)} of the written partitions are outside of the overwritten one",
            hint="filter the data to the partition, or overwrite dynamically",
        )
    return Overwrite(replaced)
