"""Planning: a snapshot's manifests → the files that may hold rows of the filter.

Each step sees the entries as columns and leaves a smaller set: manifests by partition range, entries by partition, by
bucket, by column statistics, by embedded file index, and files whose rows are all deleted. Side indexes are asked by
the readers, where the files are read.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.evolution.columns import plan_evolution
from paimon_pyds.formats import trims_char
from paimon_pyds.metadata.entry_filter import EntryFilter
from paimon_pyds.metadata.manifest import ManifestFile
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.partitions import partition_filter
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.redaction import without_secrets
from paimon_pyds.scan.bucket_filter import bucket_mask
from paimon_pyds.scan.record import left_out
from paimon_pyds.scan.result import PlannedSkip, PruneStep, ScanPlan
from paimon_pyds.scan.statistics import statistics_mask
from paimon_pyds.scan.tasks import deletion_files, file_tasks
from paimon_pyds.scan.travel import TableState
from paimon_pyds.scan.verdict import Verdict
from paimon_pyds.split import FileTask, ReadSpec
from paimon_pyds.types import DataField

__all__ = ["Planner", "ScanRequest", "plan_scan"]

_PLAN_COLUMNS = (
    "kind", "partition", "bucket", "total_buckets", "file_name", "file_size", "row_count",
    "value_stats_min", "value_stats_max", "value_stats_nulls", "min_sequence_number", "max_sequence_number",
    "schema_id", "level", "extra_files", "embedded_index", "value_stats_cols", "external_path", "first_row_id",
    "write_cols",
)  # fmt: skip

_MOST_EXPLAINED = 20_000
"""Entries of manifests up to which an explanation reads those too that partitions rule out."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to plan: a state of the table, a bound predicate, the columns to return."""

    state: TableState
    predicate: Predicate
    fields: tuple[DataField, ...]
    filter_fields: tuple[DataField, ...]
    options: TableOptions
    metadata_columns: tuple[str, ...] = ()
    limit: int | None = None
    between: tuple[Snapshot, ...] | None = None
    """Read only what these snapshots added (incremental), instead of the state."""
    since: Snapshot | None = None
    """Leave out the files that were there in this older state (incremental)."""
    explain: bool = False
    """Note which step left out which file, and what indexes said."""


def plan_scan(store: TableStore, request: ScanRequest) -> ScanPlan:
    """The files to read for a request.

    Raises:
        CorruptFileError: a manifest is damaged.
        StorageError: metadata is gone, as when the snapshot expired meanwhile.
    """
    return Planner(store, request).plan()


class Planner:
    """Plans one request; `plan_scan` is the short way."""

    def __init__(self, store: TableStore, request: ScanRequest) -> None:
        self.store = store
        self.request = request
        self.schema = request.state.schema
        self.steps: list[PruneStep] = []
        self.skips: list[PlannedSkip] = []
        self.clock = time.perf_counter()
        self.selections: dict[tuple[bytes, int, str], bytes] = {}
        self.verdicts: dict[str, tuple[Verdict, ...]] = {}
        self.rows_left_out = 0
        self.rows_in_doubt = False
        keys = self.schema.partition_keys
        self.partition_predicate: Predicate = partition_filter(request.predicate, keys)[0] if keys else Const.TRUE
        self.entry_filter = EntryFilter(self.schema, self.partition_predicate)
        self.reader = ManifestReader(store)

    def plan(self) -> ScanPlan:
        request = self.request
        entries = self.entries()
        if request.predicate is not Const.TRUE and entries.num_rows:
            for name, prune in (
                ("partitions", self.by_partition),
                ("buckets", self.by_bucket),
                ("statistics", self.by_statistics),
                ("embedded index", self.by_embedded_index),
            ):
                if not entries.num_rows:
                    break
                before = entries
                entries, detail = prune(before)
                if detail or entries.num_rows != before.num_rows:
                    self.note(name, entries, detail)
                if request.explain and entries.num_rows != before.num_rows and name in self.masks:
                    self.skips += left_out(name, before, entries, request.predicate, self.masks[name])
        tasks = self.tasks(entries)
        options = self.request.options
        return ScanPlan(
            spec=self.spec(tasks),
            tasks=tuple(tasks),
            snapshot_id=None if self.request.state.snapshot is None else self.request.state.snapshot.id,
            schema_id=self.schema.id,
            steps=tuple(self.steps),
            skips=tuple(self.skips),
            verdicts=self.verdicts,
            limit=self.request.limit,
            rows_in_doubt=self.rows_in_doubt,
            target_split_size=options.get("source.split.target-size"),
            open_file_cost=options.get("source.split.open-file-cost"),
        )

    def spec(self, tasks: Sequence[FileTask]) -> ReadSpec:
        request = self.request
        schema_ids = {task.schema_id for task in tasks}
        return ReadSpec(
            io=self.store.io,
            schemas={id_: self.store.schema(id_).fields for id_ in schema_ids},
            fields=request.fields,
            filter_fields=request.filter_fields,
            predicate=request.predicate,
            metadata_columns=request.metadata_columns,
            partition_fields=self.schema.partition_fields,
            options=without_secrets(dict(request.options)),
            use_index=request.options.get("file-index.read.enabled"),
        )

    def note(self, name: str, entries: pa.RecordBatch, detail: str = "") -> None:
        now = time.perf_counter()
        rows = (pc.sum(entries.column("row_count")).as_py() or 0) - self.rows_left_out
        size = pc.sum(entries.column("file_size")).as_py() or 0
        self.steps.append(PruneStep(name, entries.num_rows, rows, size, (now - self.clock) * 1000, detail))
        self.clock = now

    # ------------------------------------------------------------------------------------------------- manifests

    def entries(self) -> pa.RecordBatch:
        manifests = self.manifests()
        kept = self.entry_filter.may_hold(manifests)
        entries = self.read(kept)
        if len(kept) == len(manifests) and self.request.between is None and self.request.since is None:
            self.check_total(entries)
        detail = f"{len(kept)} of {len(manifests)} manifests" if len(kept) != len(manifests) else ""
        if detail and self.request.explain:
            entries = self.seen_whole(manifests, entries)
        self.note("manifests" if detail else "table", entries, detail)
        return entries

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        read = self.reader.live if self.request.between is None else self.reader.added
        entries = read(manifests, _PLAN_COLUMNS)
        if self.request.since is None:
            return entries
        names = self.reader.live_files(self.request.since, ("file_name",)).column("file_name")
        return entries.filter(pc.invert(pc.is_in(entries.column("file_name"), value_set=names)))

    def check_total(self, entries: pa.RecordBatch) -> None:
        """Hold the rows of all live files against what the snapshot counts.

        Java, pypaimon and pypaimon-rust keep that number exactly, yet none of them reads it: a writer that got it wrong
        must not make a table unreadable. So a difference is told of, and row counts are then taken from data files.
        """
        snapshot = self.request.state.snapshot
        told = None if snapshot is None else snapshot.total_record_count
        found = pc.sum(entries.column("row_count")).as_py() or 0
        if snapshot is not None and told is not None and told != found:
            self.rows_in_doubt = True
            warnings.warn(
                f"snapshot {snapshot.id} counts {told} rows, the data files in its manifests have {found}: the table's "
                f"metadata is damaged, or its writer counts wrongly ({self.store.root})",
                RuntimeWarning,
                stacklevel=2,
            )

    def seen_whole(self, manifests: Sequence[ManifestFile], kept: pa.RecordBatch) -> pa.RecordBatch:
        """For an explanation: notes what lies in the manifests that were not read, unless that is very much.

        Of the entries kept, those go whose removal only the other manifests know; partitions rule them out anyway.
        """
        if sum(m.num_added_files + m.num_deleted_files for m in manifests) > _MOST_EXPLAINED:
            return kept
        whole = self.read(manifests)
        self.note("table", whole)
        kept = whole.filter(pc.is_in(whole.column("file_name"), value_set=kept.column("file_name")))
        self.skips += left_out("manifests", whole, kept, self.partition_predicate, self.masks["partitions"])
        return kept

    def manifests(self) -> list[ManifestFile]:
        if self.request.between is not None:
            return [
                manifest
                for snapshot in self.request.between
                if snapshot.commit_kind is CommitKind.APPEND
                for manifest in self.reader.delta(snapshot)
            ]
        return self.reader.manifests(self.request.state.snapshot)

    # --------------------------------------------------------------------------------------------------- entries

    def by_partition(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, str]:
        if self.partition_predicate is Const.TRUE:
            return entries, ""
        mask, kept, of = self.entry_filter.partitions_kept(entries)
        return entries.filter(from_numpy(mask)), f"{kept} of {of} partitions"

    def by_bucket(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, str]:
        mask = self.buckets_of(self.request.predicate, entries)
        return (entries, "") if mask is None else (entries.filter(from_numpy(mask)), "bucket key")

    def buckets_of(self, predicate: Predicate, entries: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
        """Which entries lie in buckets that a predicate keeps; None when it keeps all."""
        return bucket_mask(predicate, self.schema, entries, self.store.schemas)

    def by_statistics(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, str]:
        mask = self.statistics_of(self.request.predicate, entries)
        return (entries, "") if mask.all() else (entries.filter(from_numpy(mask)), "")

    def statistics_of(self, predicate: Predicate, entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which entries a predicate keeps by their statistics."""
        return statistics_mask(predicate, self.schema.fields, entries, self.fields_of)

    @property
    def masks(self) -> Mapping[str, Callable[[Predicate, pa.RecordBatch], npt.NDArray[np.bool_] | None]]:
        """What each step that looks at whole files makes of a part of the filter."""
        keys = self.schema.partition_keys
        return {
            "partitions": lambda part, entries: EntryFilter(self.schema, partition_filter(part, keys)[0]).mask(entries),
            "buckets": self.buckets_of,
            "statistics": self.statistics_of,
        }

    def fields_of(self, schema_id: int) -> tuple[DataField, ...]:
        return self.store.schema(schema_id).fields

    def by_embedded_index(self, entries: pa.RecordBatch) -> tuple[pa.RecordBatch, str]:
        embedded = entries.column("embedded_index")
        if embedded.null_count == len(embedded) or not self.request.options.get("file-index.read.enabled"):
            return entries, ""
        from paimon_pyds.scan.embedded import ask_embedded

        def devolved(name: str, schema_id: int, write_cols: list[str] | None) -> Predicate:
            fields, wanted = self.fields_of(schema_id), self.request.filter_fields
            evolution = plan_evolution(fields, wanted, write_cols, trims_char=trims_char(name))
            return evolution.devolve(self.request.predicate)

        answers = ask_embedded(entries, self.request.predicate, devolved, explain=self.request.explain)
        self.selections, self.verdicts = answers.selections, answers.verdicts
        self.rows_left_out = answers.rows_left_out
        self.skips += answers.skips
        keep = answers.keep
        return entries.filter(from_numpy(keep)), f"{int(keep.sum())} of {len(keep)} files"

    # ----------------------------------------------------------------------------------------------------- tasks

    def tasks(self, entries: pa.RecordBatch) -> list[FileTask]:
        snapshot = self.request.state.snapshot if self.request.between is None else None
        deletions = deletion_files(self.store, self.schema, snapshot)
        tasks = []
        for task in file_tasks(self.store, self.schema, entries, deletions, self.selections):
            deleted = None if task.deletion is None else task.deletion.cardinality
            if deleted is not None and deleted > task.row_count:
                raise CorruptFileError(
                    f"the index manifest says that {deleted} rows of {task.row_count} are deleted", path=task.path
                )
            if deleted == task.row_count and task.deletion is not None:
                skip = PlannedSkip(task.name, task.row_count, task.size, "every row is deleted", "deletion vectors")
                self.skips.append(skip)
            else:
                tasks.append(task)
        return self.limited(tasks)

    def limited(self, tasks: list[FileTask]) -> list[FileTask]:
        limit = self.request.limit
        if limit is None or self.request.predicate is not Const.TRUE:
            return tasks
        left, kept = limit, []
        for task in tasks:
            if left <= 0:
                break
            kept.append(task)
            if task.deletion is None:
                left -= task.row_count
            elif task.deletion.cardinality is not None:
                left -= task.row_count - task.deletion.cardinality
        if self.request.explain:
            rest = [(t.name, t.row_count, t.size) for t in tasks[len(kept) :]]
            self.skips += [PlannedSkip(*of, f"LIMIT {limit}", "limit") for of in rest]
        return kept
