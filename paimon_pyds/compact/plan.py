"""What a compaction is to do on one snapshot: groups of live files, and where their deletion vectors lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_pyds.commit import VectorPlace
from paimon_pyds.compact.grouping import LiveFile, PickRules, pick_bucket, pick_unaware
from paimon_pyds.compact.options import CompactOptions
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.execution.live_files import live_in
from paimon_pyds.execution.writing import write_context
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.options.arguments import texts
from paimon_pyds.scan.planned_files import deletion_files
from paimon_pyds.sort.external import SortSpec
from paimon_pyds.sort.keys import STRATEGIES, can_sort
from paimon_pyds.sort.spill import SPILL_CODECS
from paimon_pyds.split import DeletionFile
from paimon_pyds.write import WriteContext
from paimon_pyds.write.context import FILE_SOURCE_COMPACT

__all__ = [
    "Group",
    "Plan",
    "Vector",
    "plan_compaction",
    "vectors_of",
]


@dataclass(frozen=True, slots=True)
class Vector:
    """The deletion vector of a data file: where the commit looks for it, and where a reader does."""

    place: VectorPlace
    file: DeletionFile


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one bucket that become new ones together, in the order their rows are to have."""

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[LiveFile, ...]

    @property
    def key(self) -> PartitionBucket:
        """The partition and bucket."""
        return PartitionBucket(self.partition, self.bucket)

    @property
    def at(self) -> list[int]:
        """The places of its files among the entries."""
        return [file.at for file in self.files]

    @property
    def first_sequence(self) -> int:
        """Where the sequence numbers of the new files begin, as in Java Paimon: at the first of the old ones."""
        return min(file.sequence for file in self.files)


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups of a snapshot, and how they are written.

    ``entries`` are the live files of ``snapshot`` looked at, ``vectors`` by the names of data files; ``sort`` is None
    for rows that stay in their order.
    """

    snapshot: Snapshot | None
    schema: TableSchema
    context: WriteContext
    sort: SortSpec | None
    entries: pa.RecordBatch
    vectors: Mapping[str, Vector]
    groups: tuple[Group, ...]


def _check_compactable(options: TableOptions) -> None:
    """Raises UnsupportedError for an append table whose compaction would be wrong."""
    if options.get("clustering.incremental"):
        raise UnsupportedError(
            "a table with clustering.incremental=true can't be compacted: its files have levels of clustering",
            hint="use Java Paimon for this, or turn the option off",
        )


def _pick_rules(context: WriteContext, *, full: bool) -> PickRules:
    """When files are rewritten, by the options of the table and of the call."""
    options = context.options
    return PickRules(
        target_size=context.target_file_size,
        target_rows=int(options.get("target-file-row-num")),
        open_cost=int(options.get("source.split.open-file-cost")),
        min_files=int(options.get("compaction.min.file-num")),
        small_share=float(options.get("compaction.small-file-ratio")),
        deleted_share=float(options.get("compaction.delete-ratio-threshold")),
        full=full,
        every=bool(options.get("compaction.force-rewrite-all-files")),
    )


def _sort_spec(context: WriteContext, order_by: str | Sequence[str] | None, order: str) -> SortSpec | None:
    """How rows are to be ordered; None for as they are.

    Raises:
        OptionError: an unknown strategy, partition columns, columns whose values have no order.
        SchemaError: an unknown column.
        UnsupportedError: buckets whose rows have an order of their own.
    """
    names = [n.strip() for n in order_by.split(",")] if isinstance(order_by, str) else texts("order_by", order_by or ())
    if order not in STRATEGIES:
        raise OptionError(f"rows can't be ordered by {order!r}", hint=f"order is one of {', '.join(STRATEGIES)}")
    if not names:
        if order != "order":
            raise OptionError(f"order={order} needs the columns to order by", hint='such as "a, b"')
        return None
    options, schema = context.options, context.schema
    if int(options.get("bucket")) > 0 and options.get("bucket-append-ordered"):
        raise UnsupportedError(
            "rows of fixed buckets can't be ordered while bucket-append-ordered is true: their order is that of writes",
            hint="set bucket-append-ordered to false where no reader relies on it",
        )
    fields = {f.name: f for f in schema.fields}
    for name in names:
        if name not in fields:
            raise SchemaError(f"the table has no column {name!r}", hint=f"its columns are {', '.join(fields)}")
        if name in schema.partition_keys:
            raise OptionError(f"rows of one partition can't be ordered by its column {name!r}", hint="leave it out")
        if not can_sort(fields[name]):
            raise OptionError(f"rows can't be ordered by {name!r}, a column of type {fields[name].type}")
    if len(set(names)) < len(names):
        raise OptionError(f"a column is named twice in order_by: {', '.join(names)}")
    return SortSpec(
        fields=tuple(fields[name] for name in names),
        strategy=order,
        buffer=int(options.get("write-buffer-size")),
        compression=_codec(str(options.get("spill-compression"))),
    )


def _codec(name: str) -> str:
    if name.lower() not in SPILL_CODECS:
        hint = f"it is one of {', '.join(SPILL_CODECS)}"
        raise OptionError(f"rows can't be spilled with spill-compression={name}", hint=hint)
    return name.lower()


def plan_compaction(
    store: TableStore,
    request: CompactOptions,
    buckets: set[PartitionBucket] | None = None,
    *,
    vectors_only: bool = False,
) -> Plan:
    """The groups of the latest snapshot.

    Args:
        store: an append table.
        request: what is asked for.
        buckets: only these; all when None.
        vectors_only: rewrite the files with deletion vectors, each by itself, and no other.

    Raises:
        OptionError, SchemaError, UnsupportedError: what is asked for makes no sense, or the table can't be compacted.
    """
    snapshot = store.latest_snapshot()  # before the schema: no file of the snapshot has a later one, with more columns
    context = replace(write_context(store, request.options), file_source=FILE_SOURCE_COMPACT, existing_rows=True)
    schema = context.schema
    _check_compactable(context.options)
    rules, sort = _pick_rules(context, full=request.full), _sort_spec(context, request.order_by, request.order)
    entries = live_in(store, schema, snapshot, request.where, "compact")
    vectors = vectors_of(store, schema, snapshot)
    groups = []
    for (partition, bucket, total), files in _by_bucket(entries, vectors).items():
        if buckets is not None and (partition, bucket) not in buckets:
            continue
        if vectors_only:
            picked = [[file] for file in files if file.vector_file is not None]
        elif sort is not None:
            picked = [files]
        else:
            picked = pick_bucket(files, rules) if total > 0 else pick_unaware(files, rules)
        groups += [Group(partition, bucket, total, tuple(group)) for group in picked]
    return Plan(snapshot, schema, context, sort, entries, vectors, tuple(groups))


def _by_bucket(entries: pa.RecordBatch, vectors: Mapping[str, Vector]) -> dict[tuple[bytes, int, int], list[LiveFile]]:
    """Live files by partition, bucket and number of buckets, oldest first."""
    names = ("partition", "bucket", "total_buckets", "file_name", "file_size", "row_count", "min_sequence_number")
    columns = [entries.column(name).to_pylist() for name in names]
    times = entries.column("creation_time").fill_null(0).to_numpy()
    found: dict[tuple[bytes, int, int], list[LiveFile]] = {}
    for at in np.argsort(times, kind="stable").tolist():
        partition, bucket, total, name, size, rows, sequence = (column[at] for column in columns)
        vector = vectors.get(name)
        file = LiveFile(at, size, rows, sequence)
        if vector is not None:
            file = LiveFile(at, size, rows, sequence, vector.place.index_file, vector.file.cardinality)
        found.setdefault((partition, bucket, total), []).append(file)
    return found


def vectors_of(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> dict[str, Vector]:
    """The deletion vectors of a snapshot by the names of their data files."""
    return {
        name: Vector(VectorPlace(file.path.rpartition("/")[2], file.offset), file)
        for (_, name), file in deletion_files(store, schema, snapshot).items()
    }
