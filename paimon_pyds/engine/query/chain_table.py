"""Chain tables: one branch has partitions whole, the other the changes of each. A partition that only the second branch
has is merged from the newest whole one before it and the changes from there on, whose rows then are of that partition.

(Java: classes ChainGroupReadTable and ChainTableUtils. Source: Paimon documentation, primary-key-table/chain-table.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.types.nulls import nulls_only
from paimon_pyds.engine.read.sorted_runs import sorted_runs
from paimon_pyds.engine.scan.other_branch import partitions_with_files
from paimon_pyds.engine.scan.plan import Planner, plan_scan
from paimon_pyds.engine.scan.request import Chain, ScanRequest
from paimon_pyds.engine.scan.result import PruneStep, ScanPlan
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.keys.merge.filter import merge_filter
from paimon_pyds.keys.merge.order_codes import order_codes
from paimon_pyds.metadata.partition import PartitionBucket, partition_values
from paimon_pyds.metadata.partition_time import java_texts, partition_times
from paimon_pyds.metadata.paths import partition_directory
from paimon_pyds.metadata.planned_file import PlannedFile, SortedRun
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import Files
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const

_OF_ROWS = {"deletion-vectors.enabled": "false", "changelog-producer": "none", "force-lookup": "false"}
"""Options of merging: no compaction has compared the versions of several partitions."""
_OF_MERGING = ("merge-engine", "sequence.", "fields.", "partial-update.", "ignore-delete", "bucket", "primary-key")
_ENGINES = ("deduplicate", "partial-update")


class _Link(NamedTuple):
    """What a partition is merged from: a whole partition, if there is one before it, and changes, the oldest first."""

    whole: bytes | None
    changes: Sequence[bytes]


def chain_branches(options: TableOptions, branch: str) -> tuple[str, str] | None:
    """The branches of a chain table, the one with whole partitions first; None if ``branch`` is read by itself: it is
    one of them, or the options don't name both. (Java: FileStoreTableFactory.createChainTable.)"""
    if not options.get("chain-table.enabled"):
        return None
    whole, changes = (options.get(f"scan.fallback-{of}-branch", "") for of in ("snapshot", "delta"))
    alone = not whole or not changes or branch.lower() in (whole.lower(), changes.lower())
    return None if alone else (whole, changes)


def check_chain(schemas: Sequence[TableSchema]) -> None:
    """Raises UnsupportedError unless there are two branches whose rows can be merged. ``schemas``: of those that had a
    snapshot."""
    if len(schemas) < 2:
        raise _refused("a branch that had no snapshot yet", "read a later state")
    whole, changes = schemas
    engine = TableOptions(changes.options).get("merge-engine")
    if engine not in _ENGINES:
        raise _refused(f"merge-engine={engine}", f"what works: {', '.join(_ENGINES)}")
    for key in ("sequence.snapshot-ordering", "pk-clustering-override"):
        if TableOptions(changes.options).get(key):
            raise _refused(f"{key}=true", "unset the option")
    ways = [
        (schema.primary_keys, {k: v for k, v in schema.options.items() if k.startswith(_OF_MERGING)})
        for schema in (whole, changes)
    ]
    ids = [[(field.name, field.id) for field in schema.fields] for schema in (whole, changes)]
    if ways[0] != ways[1] or ids[0] != ids[1]:
        what = "other field ids" if ways[0] == ways[1] else "another key, or other options of buckets and merging"
        raise _refused(f"branches of which one has {what}", "alter both branches alike")
    if changes.primary_keys and changes.partition_keys:
        return
    raise _refused("branches without a primary key or partitions", "read each branch by its name")


def _refused(what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"a chain table with {what} can't be read as a chain", hint=hint, feature="chain-tables")


def plan_chain(store: TableStore, request: ScanRequest) -> ScanPlan:
    """The files to read of the partitions of a request, which only the branch with changes has.

    ``store``: that branch. ``request``: has a chain, and names the partitions.

    Raises:
        OptionError, UnsupportedError: the chain's options don't say which changes a partition is merged from.
        CorruptFileError: a manifest is damaged.
        StorageError: metadata is gone, as when the snapshot expired meanwhile.
    """
    chain, own = request.chain, replace(request, chain=None)
    assert chain is not None
    assert request.partitions is not None
    schema = request.state.schema
    everything = [
        partitions_with_files(of.store, replace(of.request, predicate=Const.TRUE, partitions=None))
        for of in (chain, Chain(store, own))
    ]
    links = _links(schema, request.options, sorted(request.partitions), *everything)
    whole = _files(chain.store, own, chain.request, {link.whole for link in links.values() if link.whole is not None})
    changes = _files(store, own, own, {part for link in links.values() for part in link.changes})
    moved = 1 + max((file.schema_id for files in changes.values() for file in files), default=0)
    found: list[PlannedFile] = []
    for partition, link in links.items():
        first = () if link.whole is None else whole.get(link.whole, ())
        first = [file._replace(schema_id=file.schema_id + moved) for file in first]
        found += _merged(schema, partition, [first, *(changes.get(part, ()) for part in link.changes)])
    planner = Planner(store, own)
    spec = planner.spec(Files(tuple(file for file in found if file.schema_id < moved)))
    schemas = dict(spec.schemas)
    for id_ in {file.schema_id for file in found if file.schema_id >= moved}:
        fields = chain.store.schema(id_ - moved).fields
        schemas[id_] = nulls_only(fields) if planner.tests_variant else fields
    merging = planner.merging()
    merging = replace(merging, schema=replace(merging.schema, options={**merging.schema.options, **_OF_ROWS}))
    files = {file.path: file for file in found}.values()
    totals = len(files), sum(file.row_count for file in files), sum(file.size for file in files)
    detail = f"{counted(len(links), 'partition')} merged from {len(whole)} whole and {len(changes)} of changes"
    return ScanPlan(
        spec=replace(spec, schemas=schemas, merging=merging),
        found=Files(tuple(found)),
        snapshot_id=None if request.state.snapshot is None else request.state.snapshot.id,
        schema_id=schema.id,
        steps=(PruneStep("chain", *totals, 0.0, detail),),
        target_split_size=request.options.get("source.split.target-size"),
        open_file_cost=request.options.get("source.split.open-file-cost"),
    )


def _files(
    store: TableStore, request: ScanRequest, of: ScanRequest, partitions: Iterable[bytes]
) -> Mapping[bytes, Sequence[PlannedFile]]:
    """The files of some partitions that may have a key of the filter. ``of``: the state, and options, to read."""
    keys = of.state.schema.trimmed_primary_keys
    wanted = replace(
        of,
        predicate=merge_filter(request.predicate, keys).before,  # partitions are others than those of the rows
        fields=of.state.schema.fields,
        metadata_columns=(),
        limit=None,
        top_n=None,
        partitions=frozenset(partitions),
        explain=False,
    )
    found: dict[bytes, list[PlannedFile]] = {}
    for file in plan_scan(store, wanted).files:
        found.setdefault(file.partition, []).append(file)
    return found


def _merged(schema: TableSchema, partition: bytes, parts: Sequence[Sequence[PlannedFile]]) -> list[PlannedFile]:
    """The files of parts, the oldest first, as sorted runs of one partition: a section for each bucket."""
    runs: dict[int, list[list[PlannedFile]]] = {}
    totals: dict[int, str] = {}
    for files in parts:
        buckets: dict[int, list[PlannedFile]] = {}
        for file in files:
            buckets.setdefault(file.bucket, []).append(file)
            totals[file.total_buckets] = file.path
        for bucket, own in buckets.items():
            runs.setdefault(bucket, []).extend([own[number] for number in run] for run in sorted_runs(own, schema))
    if len(totals) > 1:
        raise _refused(
            f"{' and '.join(map(str, totals))} buckets in partitions that are merged ({next(iter(totals.values()))})",
            "rescale the partitions to the same number of buckets",
        )
    found = []
    for bucket, of_bucket in runs.items():
        place = PartitionBucket(partition, bucket)
        for level, run in zip(range(len(of_bucket), 0, -1), of_bucket, strict=True):
            for file in run:
                assert file.run is not None
                as_one = SortedRun(level, file.run.key_range, True, 0, file.run.sequence_range)
                found.append(file._replace(bucket_id=place, run=as_one))
    return found


def _links(
    schema: TableSchema,
    options: TableOptions,
    targets: Sequence[bytes],
    whole: Iterable[bytes],
    changes: Iterable[bytes],
) -> dict[bytes, _Link]:
    """What each of some partitions is merged from. After a whole partition only changes count whose partitions are
    times: Java goes from one time to the next."""
    names = schema.partition_keys
    given = options.get("chain-table.chain-partition-keys")
    chained = names if not given else tuple(name.strip() for name in given.split(","))
    start = len(names) - len(chained)
    if start < 0 or names[start:] != chained:
        raise OptionError(f"chain-table.chain-partition-keys={given} are not the last partition columns of {names}")
    sides = [list(whole), list(changes)]
    values = partition_values(schema.partition_fields, array(sides[0] + sides[1], pa.binary()))
    for name in chained:
        if values.column(name).null_count:
            raise _refused(f"NULL as a partition ({name})", "read each branch by its name")
    zeros = np.zeros(values.num_rows, np.int64)
    groups = (order_codes(values.columns[:start]) if start else zeros).tolist()
    orders = order_codes(values.columns[start:]).tolist()
    at = dict(zip(sides[0] + sides[1], zip(groups, orders, strict=True), strict=True))
    in_groups: list[dict[int, list[bytes]]] = [{}, {}]
    for side, of_group in zip(sides, in_groups, strict=True):
        for partition in sorted(side, key=at.__getitem__):
            of_group.setdefault(at[partition][0], []).append(partition)
    times = _Times(schema, options, chained)
    found = {}
    for target in targets:
        group, order = at[target]
        places = [of_group.get(group, []) for of_group in in_groups]
        until = bisect_right(places[1], order, key=lambda part: at[part][1])
        first = bisect_left(places[0], order, key=lambda part: at[part][1]) - 1
        if first < 0:
            found[target] = _Link(None, places[1][:until])
            continue
        base = places[0][first]
        begin, end = times.needed(base), times.needed(target)
        within = ((time, part) for part in places[1] if (time := times.of(part)) is not None and begin < time <= end)
        found[target] = _Link(base, [part for _, part in sorted(within)])
    return found


class _Times:
    """Partitions as times, by those of their columns that make a chain."""

    def __init__(self, schema: TableSchema, options: TableOptions, chained: Sequence[str]) -> None:
        for key in ("partition.timestamp-pattern", "partition.timestamp-formatter"):
            if options.get(key) is None:
                raise _refused(f"{key} left out", "set the option: it says which changes follow a whole partition")
        self._schema = schema
        self._chained = len(chained)
        self._time_of = partition_times(options, chained)

    def of(self, partition: bytes) -> datetime | None:
        """The time of a partition; None where its values are not a time."""
        return self._time_of(java_texts(self._schema.partition_fields, partition)[-self._chained :])

    def needed(self, partition: bytes) -> datetime:
        """The time of a partition. Raises UnsupportedError: its values are not a time."""
        found = self.of(partition)
        if found is None:
            raise _refused(
                f"the partition {partition_directory(self._schema, partition)}, which is no time by the options "
                "partition.timestamp-pattern and partition.timestamp-formatter,",
                "alter the options, or read each branch by its name",
            )
        return found
