"""The plan of a compaction on one snapshot: groups of live files, and the locations of their deletion vectors.

Picked as Java Paimon 1.4 does it (AppendCompactCoordinator for tables without buckets, BucketedAppendCompactManager for
fixed buckets), with three differences: large files behind the last small one of a bucket stay, as those before the
first do; buckets without deleted rows follow one rule whether deletion vectors are enabled or not, so that a compacted
bucket is not rewritten again and again; and a file is also large when it has ``target-file-row-num`` rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.external import SortSpec
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.engine.commit import VectorPlace
from paimon_pyds.engine.compact.clustering import Clusters, sort_spec
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.compact.universal import LevelFile, RewritePlan
from paimon_pyds.engine.execution.live_files import live_in
from paimon_pyds.engine.execution.writing import write_context
from paimon_pyds.engine.scan.planned_files import deletion_files
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import DeletionFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore


@dataclass(frozen=True, slots=True)
class Vector:
    """The deletion vector of a data file: where the commit looks for it, and where a reader does."""

    place: VectorPlace
    file: DeletionFile


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one bucket that become new ones together, in the order their rows are to have.

    ``steps`` says what becomes of each in a table with a primary key: there some only change their level. ``level`` is
    that of the new files of other tables.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    files: tuple[LiveFile, ...]
    steps: RewritePlan | None = None
    level: int = 0

    @staticmethod
    def of_steps(place: tuple[bytes, int, int], steps: RewritePlan) -> Group:
        """A group of a table with a primary key; ``place``: its partition, bucket, and number of buckets."""
        files = (LiveFile(f.at, f.size, f.rows, 0, deleted=None if f.loses_rows else 0) for f in steps.files)
        return Group(*place, tuple(files), steps)

    @property
    def key(self) -> PartitionBucket:
        """The partition and bucket."""
        return PartitionBucket(self.partition, self.bucket)

    @property
    def upgraded(self) -> tuple[LevelFile, ...]:
        """The files that only change their level."""
        return () if self.steps is None else self.steps.upgrades

    @property
    def rewritten(self) -> tuple[LiveFile, ...]:
        """The others."""
        return self.files[: len(self.files) - len(self.upgraded)]

    @property
    def older(self) -> tuple[LevelFile, ...]:
        """Files that stay, and are read for older versions of rows."""
        return () if self.steps is None else self.steps.older

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

    def rewriting_older(self, numbers: Mapping[int, Collection[int]]) -> Plan:
        """The same where older files are written anew, too; ``numbers`` of them by the numbers of their groups."""
        groups = list(self.groups)
        for number, some in numbers.items():
            group = groups[number]
            assert group.steps is not None
            place = group.partition, group.bucket, group.total_buckets
            groups[number] = Group.of_steps(place, group.steps.rewriting_older(some))
        return replace(self, groups=tuple(groups))


def _pick_rules(context: WriteContext, request: CompactOptions) -> PickRules:
    """When files are rewritten, by the options of the table and of the call."""
    options = context.options
    return PickRules(
        target_size=context.target_file_size,
        target_rows=int(options.get("target-file-row-num")),
        open_cost=int(options.get("source.split.open-file-cost")),
        min_files=int(options.get("compaction.min.file-num")),
        small_share=float(options.get("compaction.small-file-ratio")),
        deleted_share=float(options.get("compaction.delete-ratio-threshold")),
        full=request.full,
        tiers=request.tiers,
        every=bool(options.get("compaction.force-rewrite-all-files")),
    )


def plan_compaction(
    store: TableStore,
    request: CompactOptions,
    buckets: Set[PartitionBucket] | None = None,
    *,
    vectors_only: bool = False,
) -> Plan:
    """The groups of the latest snapshot.

    ``store``: an append table. ``buckets``: only these; all when None. ``vectors_only``: rewrite the files with
    deletion vectors, each by itself, and no other.

    Raises:
        OptionError, SchemaError, UnsupportedError: the options contradict the table, or it can't be compacted.
    """
    snapshot = store.latest_snapshot()  # before the schema: no file of the snapshot has a later one, with more columns
    context = replace(write_context(store, request.options, existing_rows=True), file_source=FILE_SOURCE_COMPACT)
    schema = context.schema
    rules, clusters = _pick_rules(context, request), Clusters.of(store, context)
    sort = None if vectors_only else sort_spec(context, request.order_by, request.order)
    entries = live_in(store, schema, snapshot, request.where, "compact")
    idle: frozenset[bytes] = frozenset()
    if clusters is not None and request.where is not None:
        entries, idle = _with_idle_partitions(store, clusters, snapshot, entries, context)
    vectors = vectors_of(store, schema, snapshot)
    groups = []
    for (partition, bucket, total), files in files_by_bucket(entries, vectors).items():
        if buckets is not None and (partition, bucket) not in buckets:
            continue
        picked: Iterable[tuple[list[LiveFile], int]]
        if vectors_only:
            picked = [([file], file.level) for file in files if file.vector_file is not None]
        elif clusters is not None:
            picked = clusters.pick(files, full=request.full or partition in idle)
        elif request.order_by:
            picked = [(files, 0)]
        else:
            picked = [(group, 0) for group in (pick_bucket if total > 0 else pick_unaware)(files, rules)]
        groups += [Group(partition, bucket, total, tuple(group), level=level) for group, level in picked]
    if request.tiers:
        groups = groups[:_TIERS_AT_ONCE]
    return Plan(snapshot, schema, context, sort, entries, vectors, tuple(groups))


def _with_idle_partitions(
    store: TableStore, clusters: Clusters, snapshot: Snapshot | None, entries: pa.RecordBatch, context: WriteContext
) -> tuple[pa.RecordBatch, frozenset[bytes]]:
    """The entries, and those of other partitions that are to be clustered fully; and which ones these are."""
    options = context.options
    if not context.schema.partition_keys or not options.is_set("clustering.history-partition.idle-to-full-sort"):
        return entries, frozenset()
    everything, wanted = live_in(store, context.schema, snapshot, None, ""), set(entries["partition"].to_pylist())
    others: dict[bytes, list[LiveFile]] = {}
    for (partition, _, _), files in files_by_bucket(everything, {}).items():
        if partition not in wanted:
            others.setdefault(partition, []).extend(files)
    idle = clusters.idle_partitions(others, options, clock_now_ms())
    kept = pc.is_in(everything["partition"], array([*wanted, *idle], pa.binary()))
    return everything.filter(kept), idle


def files_by_bucket(
    entries: pa.RecordBatch, vectors: Mapping[str, Vector]
) -> dict[tuple[bytes, int, int], list[LiveFile]]:
    """Live files by partition, bucket and number of buckets, oldest first."""
    names = (
        "partition", "bucket", "total_buckets", "file_name", "file_size", "row_count", "min_sequence_number", "level",
        "schema_id",
    )  # fmt: skip
    columns = [entries.column(name).to_pylist() for name in names]
    times = to_numpy(pc.fill_null(entries.column("creation_time"), 0))
    found: dict[tuple[bytes, int, int], list[LiveFile]] = {}
    for at in np.argsort(times, kind="stable").tolist():
        partition, bucket, total, name, size, rows, sequence, level, schema_id = (column[at] for column in columns)
        vector = vectors.get(name)
        file = LiveFile(at, size, rows, sequence, level=level, schema_id=schema_id, created=int(times[at]))
        if vector is not None:
            file = replace(file, vector_file=vector.place.index_file, deleted=vector.file.cardinality)
        found.setdefault((partition, bucket, total), []).append(file)
    return found


def vectors_of(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> dict[str, Vector]:
    """The deletion vectors of a snapshot by the names of their data files."""
    return {
        name: Vector(VectorPlace(file.path.rpartition("/")[2], file.offset), file)
        for (_, name), file in deletion_files(store, schema, snapshot).items()
    }


_TIERS_AT_ONCE = 16
"""Groups that follow a commit of a stream at most; further ones wait for the next commit."""
_LEAST_TIER = 64 << 10
"""Bytes below which all files are of the same tier."""
_BUCKET_FILES = 3
"""Files of a bucket that are worth a rewrite, at least."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file. ``at`` is its place among the entries, ``size`` in bytes.

    ``vector_file`` names the index file with its deletion vector, None without one; ``deleted`` is how many rows that
    takes away, None when the manifest does not say. ``sequence`` is its first sequence number, ``created`` is in
    milliseconds; ``level`` is above 0 where incremental clustering has sorted it.
    """

    at: int
    size: int
    rows: int
    sequence: int
    vector_file: str | None = None
    deleted: int | None = 0
    level: int = 0
    schema_id: int = 0
    created: int = 0


@dataclass(frozen=True, slots=True)
class PickRules:
    """When files are rewritten.

    Attributes:
        target_size: bytes of a full file.
        target_rows: rows of a full file.
        open_cost: bytes that opening a file is worth (``source.split.open-file-cost``).
        min_files: files that are worth a rewrite (``compaction.min.file-num``).
        small_share: share of a full one below which a file is merged with others (``compaction.small-file-ratio``).
        deleted_share: share of deleted rows above which a file is rewritten (``compaction.delete-ratio-threshold``).
        full: rewrite files that have any deleted row, and merge small ones however few there are.
        every: rewrite every file (``compaction.force-rewrite-all-files``).
        tiers: merge small files with others of about the same size only.
    """

    target_size: int
    target_rows: int
    open_cost: int
    min_files: int
    small_share: float
    deleted_share: float
    full: bool = False
    every: bool = False
    tiers: bool = False

    def small(self, file: LiveFile) -> bool:
        """Whether the file is to be merged with others."""
        return file.size < self.target_size * self.small_share and file.rows < self.target_rows * self.small_share

    def many_deleted(self, file: LiveFile) -> bool:
        """Whether enough of its rows are deleted to rewrite it whatever its size."""
        if file.vector_file is None:
            return False
        return self.full or file.deleted is None or file.deleted > file.rows * self.deleted_share

    def picked(self, file: LiveFile) -> bool:
        """Whether the file takes part in a compaction."""
        return self.every or self.small(file) or self.many_deleted(file)


def pick_unaware(files: Sequence[LiveFile], rules: PickRules) -> list[list[LiveFile]]:
    """Groups of one partition of a table without buckets; each group's files in the order given."""
    picked = [file for file in files if rules.picked(file)]
    if rules.full or rules.every:
        groups = list(_packed(picked, rules, least=2))
    else:
        marked = [file for file in picked if file.vector_file is not None]
        plain, least = [file for file in picked if file.vector_file is None], max(2, rules.min_files)
        tiers = _tiers(plain) if rules.tiers else [plain]
        groups = [*_packed_by_vector_file(marked, rules), *(g for tier in tiers for g in _packed(tier, rules, least))]
    order = {file.at: i for i, file in enumerate(files)}
    return [sorted(group, key=lambda file: order[file.at]) for group in groups]


def _tiers(files: Sequence[LiveFile]) -> list[list[LiveFile]]:
    """The files by size, where each tier has those up to four times as large as the last one."""
    tiers: dict[int, list[LiveFile]] = {}
    for file in files:
        tiers.setdefault((max(file.size // _LEAST_TIER, 1).bit_length() - 1) // 2, []).append(file)
    return [*tiers.values()]


@dataclass(slots=True)
class _Bin:
    """Files until they are worth two full ones."""

    rules: PickRules
    files: list[LiveFile] = field(default_factory=list)
    size: int = 0
    rows: int = 0

    def add(self, files: Iterable[LiveFile]) -> None:
        for file in files:
            self.files.append(file)
            self.size += file.size + (0 if self.rules.full else self.rules.open_cost)
            self.rows += file.rows

    @property
    def full(self) -> bool:
        enough = self.size >= self.rules.target_size * 2 or self.rows >= self.rules.target_rows * 2
        return len(self.files) > 1 and enough

    def drain(self) -> list[LiveFile]:
        files, self.files, self.size, self.rows = self.files, [], 0, 0
        return files


def _packed(files: Sequence[LiveFile], rules: PickRules, least: int) -> Iterator[list[LiveFile]]:
    """Small ones first; the last bin only if it has ``least`` files or one that can't stay."""
    bin_ = _Bin(rules)
    for file in sorted(files, key=lambda f: f.size):
        bin_.add([file])
        if bin_.full:
            yield bin_.drain()
    if len(bin_.files) >= least or any(rules.every or rules.many_deleted(file) for file in bin_.files):
        yield bin_.drain()


def _packed_by_vector_file(files: Sequence[LiveFile], rules: PickRules) -> Iterator[list[LiveFile]]:
    """Files with deleted rows: those of one file of vectors together, so that a delete disturbs one group only."""
    by_vector: dict[str | None, list[LiveFile]] = {}
    for file in files:
        by_vector.setdefault(file.vector_file, []).append(file)
    bin_ = _Bin(rules)
    for group in sorted(by_vector.values(), key=lambda g: sum(f.size for f in g)):
        bin_.add(group)
        if bin_.full:
            yield bin_.drain()
    if bin_.files:
        yield bin_.drain()


def pick_bucket(files: Sequence[LiveFile], rules: PickRules) -> list[list[LiveFile]]:
    """The group of one fixed bucket, if any: neighbours in the order of their sequence numbers, which does not
    change."""
    ordered = sorted(files, key=lambda f: f.sequence)
    picked = [i for i, file in enumerate(ordered) if rules.picked(file)]
    if not picked:
        return []
    run = ordered[picked[0] : picked[-1] + 1]
    small = sum(rules.small(file) for file in run)
    marked = any(rules.many_deleted(f) or (rules.small(f) and f.vector_file is not None) for f in run)
    many = len(run) >= _BUCKET_FILES and small > len(run) - small
    return [run] if rules.every or marked or many or (rules.full and len(run) > 1) else []
