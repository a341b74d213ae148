"""Which buckets of a table with a primary key have sorted runs to merge, by what manifests say of their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from datetime import datetime
from itertools import accumulate

import pyarrow as pa

from paimon_pyds.base.arrays import pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.engine.compact.universal import LevelFile, UniversalRules, pick, sorted_runs
from paimon_pyds.metadata.manifest import RUN_COLUMNS
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore


def due_buckets(
    store: TableStore,
    snapshot: Snapshot,
    options: TableOptions,
    buckets: Set[PartitionBucket],
    most_bytes: int | None = None,
) -> set[PartitionBucket]:
    """Those of some buckets that have runs to merge; of their files nothing is read that only the merge looks at.

    Args:
        store: a table with a primary key.
        snapshot: which files there are.
        options: the table's, those of a write on top.
        buckets: among these.
        most_bytes: of the files that are merged together; buckets with more runs come first, and one is due in any
            case. All are due where rows can't be seen before they are merged.
    """
    entries = live_in_buckets(store, store.schema(snapshot.schema_id), snapshot, buckets, RUN_COLUMNS)
    files: dict[PartitionBucket, list[LevelFile]] = {}
    for (partition, bucket, _), file in zip(places(entries), level_files(entries, ()), strict=True):
        files.setdefault(PartitionBucket(partition, bucket), []).append(file)
    rules, now = UniversalRules.of(options, target_size=0, hour=datetime.now().hour), clock_now_ms()
    runs = {bucket: sorted_runs(mine) for bucket, mine in files.items() if bucket in buckets}
    units = {bucket: unit for bucket, mine in runs.items() if (unit := pick(mine, rules, now)) is not None}
    if most_bytes is None or rules.lift_level_0:
        return set(units)
    order = sorted(units, key=lambda bucket: -len(runs[bucket]))
    sizes = accumulate(sum(file.size for file in units[bucket].files) for bucket in order)
    return {bucket for bucket, size in zip(order, sizes, strict=True) if bucket == order[0] or size <= most_bytes}


def live_in_buckets(
    store: TableStore,
    schema: TableSchema,
    snapshot: Snapshot | None,
    buckets: Set[PartitionBucket],
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """Live files of these buckets, and perhaps of others."""
    partitions, numbers = (frozenset(part) for part in zip(*buckets, strict=True))
    wanted = EntryFilter(schema, partitions=partitions, buckets=numbers)
    return ManifestReader(store, wanted).live_files(snapshot, columns)


def places(entries: pa.RecordBatch) -> Iterable[tuple[bytes, int, int]]:
    """Partition, bucket and number of buckets of each file."""
    return zip(*(entries.column(name).to_pylist() for name in ("partition", "bucket", "total_buckets")), strict=True)


def level_files(entries: pa.RecordBatch, losing: Collection[str]) -> Iterator[LevelFile]:
    """The files, without their ranges of keys; ``losing``: the names of those that rows go from."""
    names = (
        "file_name", "file_size", "level", "min_sequence_number", "max_sequence_number", "row_count", "delete_row_count"
    )  # fmt: skip
    times = to_numpy(pc.fill_null(entries.column("creation_time"), 0)).tolist()
    columns = (entries.column(name).to_pylist() for name in names)
    for time_, name, size, level, first, last, rows, deletes in zip(times, *columns, strict=True):
        yield LevelFile(
            at=0,
            size=size,
            level=level,
            key_range=(0, 0),
            age=(-last, first, time_, name),
            rows=rows,
            created=time_,
            has_deletes=deletes != 0,
            loses_rows=name in losing,
        )
