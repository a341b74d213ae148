"""Expiry of partitions: those go whose time, by their values or by their last change, is past
``partition.expiration-time``.

Partitions go by one OVERWRITE snapshot for each ``partition.expiration-batch-size`` of them. One that gets new rows
meanwhile goes with these by its values, and stays by its last change.
(Sources: Paimon documentation, maintenance/manage-partitions; Java Paimon 1.4, classes PartitionExpire,
PartitionTimeExtractor.)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from paimon_pyds.base.arrays import grouped
from paimon_pyds.base.options import TableOptions, check_writable
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.commit import Changes, Increment, Overwrite, commit
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import CommitConflictError, OptionError, UnsupportedError
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.partition_time import java_texts, partition_times
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.removal import RemovalSummary

_STRATEGIES = ("values-time", "update-time")


@dataclass(frozen=True, slots=True)
class Partition:
    """One that is there.

    Attributes:
        row: arity + BinaryRow.
        texts: of its values, None for NULL.
        directory: such as ``day=2026-01-31``.
        changed_ms: when the last of them was made, in milliseconds since the epoch.
    """

    row: bytes
    texts: tuple[str | None, ...]
    directory: str
    files: int
    bytes: int
    changed_ms: float


def expire_partitions(
    store: TableStore, options: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> RemovalSummary:
    """Delete the rows of the partitions that have expired, at most ``partition.expiration-max-num`` of them; the files
    go with the snapshots that have them.

    ``options``: over the table's own, such as ``{"partition.expiration-time": "30 d"}``.

    Raises:
        OptionError: no partitions, no ``partition.expiration-time``, or a strategy or format that nobody knows.
        CommitError: not published.
    """
    started = time.monotonic()
    typed, schema = maintenance_options(store, options), store.latest_schema()
    check_writable(schema, options, existing_rows=True, metadata_only=True)
    if not schema.partition_keys:
        raise OptionError("the table has no partitions, so none can expire", path=store.root)
    age = typed.get("partition.expiration-time")
    if age is None:
        raise OptionError("partition.expiration-time is not set", path=store.root, hint="set it, such as to '30 d'")
    limit = time.time() * 1000 - age
    is_expired = _strategy(typed, schema, limit)
    there = store.read_newest(partial(partitions_of, store, schema))
    found = [partition for partition in there if is_expired(partition)]
    default = typed.get("partition.default-name")  # what NULL and blank values are called, in Java's order, too
    found.sort(key=lambda p: ",".join(text if text and text.strip() else default for text in p.texts))
    found = found[: typed.get("partition.expiration-max-num")]
    batch = typed.get("partition.expiration-batch-size") or len(found) or 1
    before = store.latest_snapshot_id()
    if not dry_run:
        for first in range(0, len(found), max(batch, 1)):
            _drop(store, found[first : first + batch], typed, is_expired)
    return replace(removal_of_partitions(store, found, before), seconds=time.monotonic() - started, dry_run=dry_run)


def removal_of_partitions(store: TableStore, found: Sequence[Partition], before: int | None) -> RemovalSummary:
    """What left the newest state. ``before``: the newest snapshot that has it."""
    older = [id_ for id_ in store.snapshot_ids() if before is not None and id_ <= before] if found else []
    return RemovalSummary(
        partitions=tuple(partition.directory for partition in found if partition.directory),
        data_files=sum(partition.files for partition in found),
        bytes=sum(partition.bytes for partition in found),
        older_snapshots=len(older),
    )


def partitions_of(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> list[Partition]:
    """The partitions that have data files; of a table without partitions, one where there are files."""
    return partitions_in(store, schema, live_of(store, snapshot, ("partition", "file_size", "creation_time")))


def partitions_in(store: TableStore, schema: TableSchema, live: pa.RecordBatch) -> list[Partition]:
    """The partitions of some manifest entries, with ``partition``, ``file_size`` and ``creation_time``."""
    sums = [("file_size", "count"), ("file_size", "sum"), ("creation_time", "max")]
    found_in = grouped(pa.Table.from_batches([live]), ["partition"], sums)
    fields, found = schema.partition_fields, []
    directories = PartitionDirectories(store.io, schema, store.paths.with_options(schema.options))
    directories.prepare(found_in["partition"].to_pylist())
    for row, files, size, changed in zip(
        *(found_in[n].to_pylist() for n in ("partition", "file_size_count", "file_size_sum", "creation_time_max")),
        strict=True,
    ):
        found.append(
            Partition(row, java_texts(fields, row), directories.of_partition(row), files, size, _instant(changed))
        )
    return found


def _instant(clock_ms: int | None) -> float:
    """The latest instant that a clock may have meant: a local one, or that of UTC, as it once was here. Never past
    where it is unknown."""
    if clock_ms is None:
        return math.inf
    clock = datetime.fromtimestamp(clock_ms / 1000, UTC).replace(tzinfo=None)
    return max(clock_ms, clock.timestamp() * 1000)


def _drop(
    store: TableStore, partitions: Sequence[Partition], options: TableOptions, is_expired: Callable[[Partition], bool]
) -> None:
    rows = frozenset(partition.row for partition in partitions)
    increment = Increment(
        kind=CommitKind.OVERWRITE,
        overwrite=Overwrite(lambda present: set(rows.intersection(present))),
        operation=Operation.OVERWRITE,
        guard=_StillExpired(store, rows, is_expired),
    )
    commit(store, Changes((increment,)), options)


@dataclass(frozen=True, slots=True)
class _StillExpired:
    """Partitions must not have changed so that they are not expired any more."""

    store: TableStore
    rows: frozenset[bytes]
    is_expired: Callable[[Partition], bool]

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        now = {p.row: p for p in partitions_of(self.store, schema, latest)}
        if any(row in now and not self.is_expired(now[row]) for row in self.rows):
            raise CommitConflictError(
                "a partition that was to expire has new rows", path=self.store.root, hint="try again"
            )


def _strategy(options: TableOptions, schema: TableSchema, limit_ms: float) -> Callable[[Partition], bool]:
    match options.get("partition.expiration-strategy"):
        case "update-time":
            return lambda partition: partition.changed_ms < limit_ms
        case "values-time":
            limit = datetime.fromtimestamp(limit_ms / 1000)
            time_of = partition_times(options, schema.partition_keys)

            def is_expired(partition: Partition) -> bool:
                moment = time_of(partition.texts)
                return moment is not None and moment < limit

            return is_expired
        case other:
            raise UnsupportedError(
                f"partition.expiration-strategy={other} is Java's own class", hint=f"use {' or '.join(_STRATEGIES)}"
            )
