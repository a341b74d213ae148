"""Which partitions of a table with ``bucket=-2`` a read merges with rows that wait for their buckets
(``postpone.merge-on-read``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import pc, to_numpy
from paimon_pyds.base.secrets import without_secrets
from paimon_pyds.base.text import whole_number
from paimon_pyds.engine.read.postponed_rows import WaitingRows
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.planned_files import planned_files, spec_of_files
from paimon_pyds.engine.scan.request import ScanRequest, blob_references
from paimon_pyds.engine.scan.result import PruneStep, ScanPlan
from paimon_pyds.keys.merge.filter import merge_filter, merge_keys
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import Files, ReadSpec, Split
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const, root_columns

_MERGED = "postpone.merge-on-read"


class MergedPartitions(NamedTuple):
    """The partitions in which rows wait, and the request for all others."""

    waiting: tuple[WaitingRows, ...]
    rest: ScanRequest


def merges_waiting(request: ScanRequest) -> bool:
    """Whether a read merges rows that wait, if there are some."""
    options = request.options
    if request.between is not None or request.read_optimized or not request.state.schema.primary_keys:
        return False
    return bool(options.get(_MERGED)) and options.get("bucket") == POSTPONE_BUCKET


def merged_partitions(store: TableStore, request: ScanRequest) -> MergedPartitions | None:
    """How the partitions of a request with waiting rows are read; None where no row waits."""
    state, schema = request.state, request.state.schema
    keys = schema.partition_keys
    of_partitions = partition_filter(request.predicate, keys)[0] if keys else Const.TRUE
    wanted = EntryFilter(schema, of_partitions, request.partitions)
    entries = ManifestReader(store, wanted).live_files(state.snapshot)
    waiting = entries.filter(pc.equal(entries["bucket"], POSTPONE_BUCKET))
    if not waiting.num_rows:
        return None
    partitions = frozenset(waiting["partition"].unique().to_pylist())
    before = merge_filter(request.predicate, merge_keys(schema)).before
    fields = (*schema.fields, KEY_VALUE_FIELDS[1])
    own = replace(
        request, predicate=before, fields=fields, metadata_columns=(), limit=None, top_n=None, stored_blobs=True
    )
    plan = plan_scan(store, replace(own, partitions=partitions))
    in_buckets: dict[bytes, list[PlannedFile]] = {}
    for file in plan.files:
        in_buckets.setdefault(file.partition, []).append(file)
    spec = _spec(store, own, waiting)
    options = without_secrets(dict(request.options))
    found = [
        WaitingRows(
            schema=replace(schema, options=options),
            spec=plan.spec,
            in_buckets=tuple(in_buckets.get(partition, ())),
            waiting=Split.of(spec, files),
            fields=request.fields,
            predicate=request.predicate,
            references=blob_references(store, request),
        )
        for partition, files in _in_order(store, request, waiting).items()
    ]
    others = frozenset(entries["partition"].unique().to_pylist()) - partitions
    return MergedPartitions(tuple(found), replace(request, partitions=others))


def plans_of_waiting(rows: WaitingRows, snapshot_id: int | None) -> tuple[ScanPlan, ...]:
    """The files in buckets, and those of rows that wait, as plans to explain."""
    plans = []
    for spec, files in ((rows.spec, rows.in_buckets), (rows.waiting.spec, rows.waiting.files)):
        totals = len(files), sum(file.row_count for file in files), sum(file.size for file in files)
        step = PruneStep("table", *totals, 0.0, "all rows are sorted by key and merged")
        plans.append(ScanPlan(spec, Files(tuple(files)), snapshot_id, rows.schema.id, (step,)))
    return tuple(plans)


def _spec(store: TableStore, request: ScanRequest, waiting: pa.RecordBatch) -> ReadSpec:
    names = set(root_columns(request.predicate))
    schema, ids = request.state.schema, waiting["schema_id"].unique().to_pylist()
    spec = spec_of_files(store, schema, request.fields, ids, dict(request.options), numbered=True)
    filtered = tuple(field for field in schema.fields if field.name in names)
    return replace(spec, filter_fields=filtered, predicate=request.predicate, zone=request.zone)


def _in_order(store: TableStore, request: ScanRequest, waiting: pa.RecordBatch) -> dict[bytes, Iterable[PlannedFile]]:
    """The waiting files of each partition in the order in which they were written, as compactions take them in: by
    time, and those of one writer by the numbers in their names."""
    times = to_numpy(pc.fill_null(waiting["creation_time"], 0)).tolist()
    found: dict[bytes, list[tuple[int, int, PlannedFile]]] = {}
    for time_, file in zip(times, planned_files(store, request.state.schema, waiting), strict=True):
        number = whole_number(file.name.rpartition("-")[2].partition(".")[0]) or 0
        found.setdefault(file.partition, []).append((time_, number, file._replace(run=None)))
    return {part: [file for *_, file in sorted(files, key=lambda f: f[:2])] for part, files in found.items()}
