"""Dropping partitions, or all rows of a table; and marking partitions as done.

One OVERWRITE snapshot removes the rows that are there when it is published; the files go with the snapshots that have
them. (Sources: Java Paimon 1.4, classes TableCommitImpl, SuccessFileMarkDoneAction; Paimon documentation,
spark/procedures, mark_partition_done.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from paimon_pyds.base.arrays import one_batch, pc
from paimon_pyds.base.options import TableOptions, check_writable
from paimon_pyds.base.options.option import comma_separated, several
from paimon_pyds.base.progress import counted
from paimon_pyds.base.row import encode_row
from paimon_pyds.base.types.kinds import FLOAT_KINDS
from paimon_pyds.engine.append import OverwriteMode, check_mode
from paimon_pyds.engine.commit import Changes, Increment, Overwrite, commit
from paimon_pyds.engine.execution.live_files import partition_condition
from paimon_pyds.errors import OptionError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import named_partition, partition_predicate, partitions_meeting
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.expire_partitions import Partition, partitions_in, partitions_of, removal_of_partitions
from paimon_pyds.ops.maintenance.removal import RemovalSummary
from paimon_pyds.ops.maintenance.success_file import SUCCESS, write_success_file
from paimon_pyds.sql.predicate.tree import Leaf, make_or

_ENTRY_COLUMNS = ("kind", "partition", "file_size", "creation_time")


def truncate(
    store: TableStore, options: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> tuple[RemovalSummary, Snapshot | None]:
    """Delete all rows; what went, and the snapshot of it, None where there was nothing to delete.
    Raises UnsupportedError: a table that can't be written to; CommitError: not published."""
    return _overwritten(store, Overwrite(), options, dry_run=dry_run)


def drop_partitions(
    store: TableStore, where: Any, options: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> tuple[RemovalSummary, Snapshot | None]:
    """Delete the rows of partitions; otherwise as `truncate`. ``where``: what `table.maintenance.drop_partitions`
    takes.
    Raises OptionError: a table without partitions, no condition, or one on other columns."""
    schema = store.latest_schema()
    return _overwritten(store, Overwrite(_meeting(schema, where, store.root)), options, dry_run=dry_run)


def _meeting(schema: TableSchema, where: Any, root: str) -> Callable[[Sequence[bytes]], set[bytes]]:
    if not schema.partition_keys:
        raise OptionError("the table has no partitions", path=root, hint="delete all its rows by truncate()")
    given = [where] if isinstance(where, Mapping) else where
    if isinstance(given, list | tuple):
        if not given or not all(isinstance(one, Mapping) and one for one in given):
            raise OptionError("partitions are a list of {column: value}, not empty", path=root)
        for one in given:
            check_mode(schema, OverwriteMode(one))
        return partitions_meeting(schema, make_or(*(partition_predicate(schema, one) for one in given)))
    if given is None or (isinstance(given, str) and not given.strip()):
        raise OptionError(
            "no partitions are named", path=root, hint="give a condition; truncate() deletes the rows of all"
        )
    return partitions_meeting(schema, partition_condition(schema, given, "drop_partitions"))


def _overwritten(
    store: TableStore, overwrite: Overwrite, options: Mapping[str, str] | None, *, dry_run: bool
) -> tuple[RemovalSummary, Snapshot | None]:
    started = time.monotonic()
    typed, schema = maintenance_options(store, options), store.latest_schema()
    check_writable(schema, options, existing_rows=True, metadata_only=True)
    snapshot = None
    if dry_run:
        found = store.read_newest(partial(partitions_of, store, schema))
        wanted = overwrite.replaced([partition.row for partition in found])
        found = [partition for partition in found if partition.row in wanted]
    else:
        increment = Increment(kind=CommitKind.OVERWRITE, overwrite=overwrite, operation=Operation.OVERWRITE)
        snapshot = commit(store, Changes((increment,)), typed)
        found = []
        with suppress(SnapshotNotFoundError):  # it has expired already
            found = [] if snapshot is None else _deleted(store, schema, snapshot)
    found.sort(key=lambda partition: partition.directory)
    before = store.latest_snapshot_id() if snapshot is None else snapshot.id - 1
    summary = removal_of_partitions(store, found, before)
    return replace(summary, seconds=time.monotonic() - started, dry_run=dry_run), snapshot


def _deleted(store: TableStore, schema: TableSchema, snapshot: Snapshot) -> list[Partition]:
    """The partitions that a snapshot has taken files from."""
    reader = ManifestReader(store)
    entries = reader.entries(reader.delta(snapshot), _ENTRY_COLUMNS)
    return partitions_in(store, schema, one_batch(entries.filter(pc.equal(entries["kind"], FileKind.DELETE))))


# ------------------------------------------------------------------------------------------------------------ marking


def mark_partitions_done(
    store: TableStore, partitions: Sequence[Mapping[str, Any]] | Mapping[str, Any], *, dry_run: bool = False
) -> tuple[str, ...]:
    """Tell other systems that partitions are complete, as ``partition.mark-done-action`` says.

    ``partitions``: a value for each partition column; they need not have rows.

    Returns:
        The directories of the partitions, such as ``day=2026-01-31``.

    Raises:
        OptionError: no partitions, other columns, or a column without a value.
        UnsupportedError: an action that needs a metastore, a web service or a class of Java's.
        StorageError: a file could not be written; mark them again.
    """
    options, schema = maintenance_options(store, None), store.latest_schema()
    _check_action(store, options)
    given = [partitions] if isinstance(partitions, Mapping) else several("partitions", partitions)
    if not schema.partition_keys or not given or not all(isinstance(one, Mapping) for one in given):
        raise OptionError("partitions to mark are a list of {column: value}", path=store.root)
    directories = _directories(store, schema, (_row(schema, one) for one in given))
    _mark(store, () if dry_run else directories)
    return directories


def _check_action(store: TableStore, options: TableOptions) -> None:
    others = [a for a in comma_separated(options.get("partition.mark-done-action")) if a != "success-file"]
    if others:
        raise UnsupportedError(
            f"partition.mark-done-action={others[0]} is not supported, success-file is",
            path=store.root,
            hint="let Java Paimon mark the partitions, or set the option to success-file",
        )


def _mark(store: TableStore, directories: Sequence[str]) -> None:
    for directory in counted(directories, "marking", files=len(directories)):
        write_success_file(store, f"{store.root.rstrip('/')}/{directory}/{SUCCESS}")


def mark_written(store: TableStore, options: TableOptions, committed: int) -> None:
    """Mark the partitions that a write has put files into, if ``partition.end-input-to-done`` is set. Compactions and
    the like complete no partition.

    ``options``: of the write over the table's own. ``committed``: its last snapshot; the rows came with the one before
    where this is their compaction.
    Raises UnsupportedError, StorageError: as `mark_partitions_done`.
    """
    _check_action(store, options)
    found = store.snapshots_between(max(committed - 1, 1), committed)
    written = [s for s in found if s.commit_user == found[-1].commit_user]
    if not found or found[-1].id != committed or written[0].commit_kind is CommitKind.COMPACT:
        return
    schema, reader = store.schema(written[0].schema_id), ManifestReader(store)
    entries = reader.entries(reader.delta(written[0]), ("kind", "partition"))
    added = one_batch(entries.filter(pc.equal(entries["kind"], FileKind.ADD)))["partition"].unique()
    _mark(store, sorted(_directories(store, schema, added.to_pylist())) if schema.partition_keys else ())


def _directories(store: TableStore, schema: TableSchema, partitions: Iterable[bytes]) -> tuple[str, ...]:
    """The directories of partitions, each once."""
    directories = PartitionDirectories(store.io, schema, store.paths.with_options(schema.options))
    return tuple(dict.fromkeys(map(directories.of_partition, partitions)))


def _row(schema: TableSchema, partition: Mapping[str, Any]) -> bytes:
    """The partition of which users gave the values."""
    check_mode(schema, OverwriteMode(partition))
    partition = named_partition(schema, partition)
    missing = [name for name in schema.partition_keys if name not in partition]
    if missing:
        raise OptionError(f"the partition to mark has no value for {', '.join(missing)}", hint="give them all")
    values = []
    for name, field in zip(schema.partition_keys, schema.partition_fields, strict=True):
        leaf = partition_predicate(schema, {name: partition[name]})
        if not isinstance(leaf, Leaf):
            raise OptionError(f"no partition has the value {partition[name]!r:.100} of {name}")
        value = leaf.literals[0] if leaf.literals else None
        if value == 0 and field.type.kind in FLOAT_KINDS and str(partition[name]).strip().startswith("-"):
            value = -0.0  # equal to 0.0 in conditions, but another partition
        values.append(value)
    return encode_row(values, [field.type for field in schema.partition_fields])
