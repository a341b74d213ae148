"""Planning: a snapshot's manifests → the files that may hold rows of the filter.

Each step sees the entries as columns and leaves a smaller set: manifests by partition range, entries by partition, by
bucket, by column statistics, by embedded file index, and files whose rows are all deleted. Readers evaluate side
indexes, when they read the files.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, empty_batch, from_numpy, pc, scalar, to_numpy
from paimon_pyds.base.cache import collection_paused
from paimon_pyds.base.progress import current, phase
from paimon_pyds.base.secrets import without_secrets
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.nulls import nulls_only
from paimon_pyds.engine.scan.planned_files import (
    FileDetails,
    deletion_files,
    files_when_asked,
    planned_files,
    renewed_files,
)
from paimon_pyds.engine.scan.prune import EmbeddedAnswers, clocked
from paimon_pyds.engine.scan.request import ScanRequest, blob_references, nulls_of_blobs
from paimon_pyds.engine.scan.result import BucketSkew, PruneStep, ScanPlan, SkippedFile
from paimon_pyds.engine.scan.steps import PARTITIONS, buckets_of, keys_of, statistics_of, steps_of
from paimon_pyds.engine.scan.travel import Additions, Difference
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError, UnsupportedError
from paimon_pyds.keys.merge.filter import MergeFilter, merge_filter, merge_keys
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, leading_columns, with_key_values
from paimon_pyds.metadata.manifest import ANCHOR, MERGED, PLACE_COLUMNS, ROW_GROUP, SUPPLIED, ManifestFile, entry_schema
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader, is_much
from paimon_pyds.metadata.planned_file import FileBounds, PlannedFile
from paimon_pyds.metadata.row_ids import NAMES, ROW_ID_FIELDS, with_row_ids
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.split import Files, MergedRows, Merging, ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate, computed_parts

_PLAN_COLUMNS = (
    "kind", "partition", "bucket", "total_buckets", "file_name", "file_size", "row_count",
    "value_stats_min", "value_stats_max", "value_stats_nulls", "min_sequence_number", "max_sequence_number",
    "schema_id", "level", "extra_files", "embedded_index", "value_stats_cols", "external_path", "first_row_id",
    "write_cols",
)  # fmt: skip
_RUN_COLUMNS = ("min_key", "max_key", "delete_row_count", "file_source")
"""Further columns for files that are sorted runs of a table with a primary key."""

_MOST_EXPLAINED = 20_000
"""Entries of manifests up to which an explanation reads those too that partitions rule out."""


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
        self.filter_fields = request.filter_fields
        self.tests_variant = _tests_nulls_of_variants(request)
        """Whether of VARIANT columns no more than their NULLs is wanted."""
        if self.tests_variant:
            self.filter_fields = nulls_only(request.filter_fields)
            schema = replace(request.state.schema, fields=nulls_only(request.state.schema.fields))
            request = replace(request, state=replace(request.state, schema=schema))
        self.filter_fields = nulls_of_blobs(self.filter_fields, request.state.schema, request.options)
        self.stored_filter_fields = tuple(field for field in self.filter_fields if field.name not in NAMES)
        """Those of the filter's columns that files have statistics and indexes of."""
        self.request = request
        self.schema = request.state.schema
        self.steps: list[PruneStep] = []
        self.skips: list[SkippedFile] = []
        self.clock = time.perf_counter()
        self.embedded = EmbeddedAnswers(np.zeros(0, np.bool_))
        self.rows_in_doubt = False
        self.skew: BucketSkew | None = None
        self.sifted = False
        """Whether partitions, buckets and statistics (of keys, where rows are merged) have acted on each manifest."""
        self.columns = (*_PLAN_COLUMNS, *_RUN_COLUMNS) if self.schema.primary_keys else _PLAN_COLUMNS
        self.unmerged = self.merge_filter(request.predicate).before
        """The part of the filter that may act before versions of a row are merged: all of it where none are."""
        keys = self.schema.partition_keys
        self.partition_predicate: Predicate = Const.TRUE
        rest = request.predicate
        if keys:
            self.partition_predicate, rest = partition_filter(rest, keys)
        self.settled = (
            rest is Const.TRUE and request.between is None and not self.schema.primary_keys and not request.explain
        )
        """Whether partitions decide the whole filter: statistics are not read then."""
        self.entry_filter = EntryFilter(self.schema, self.partition_predicate, request.partitions)
        self.reader = ManifestReader(store, on_disk=True)
        self.grouped: pa.RecordBatch | None = None
        """The entries of all groups of rows, before any is left out."""
        self.joins = bool(request.options.get("data-evolution.enabled"))
        """Whether columns of one row may be in several files."""
        if self.joins and isinstance(request.between, Difference):
            raise UnsupportedError(
                "two states of a table with data-evolution.enabled=true can't be compared by their files",
                path=store.root,
                hint="read both states, or incremental-between-scan-mode=delta for the rows that were added",
                feature="data-evolution",
            )

    def plan(self) -> ScanPlan:
        with nullcontext() if current.get() is None else phase("planning"):
            return self._plan()

    def _plan(self) -> ScanPlan:
        request, options = self.request, self.request.options
        if options.get("type") == "format-table":
            from paimon_pyds.engine.scan.format_table import directory_plan  # few tables are

            return directory_plan(self)
        entries = self.entries()
        for step in steps_of(self):
            entries = step(entries, self)
        with collection_paused():
            files = self.files(entries)
        return ScanPlan(
            spec=self.spec(files),
            found=files,
            snapshot_id=None if request.state.snapshot is None else request.state.snapshot.id,
            schema_id=self.schema.id,
            steps=tuple(self.steps),
            skips=tuple(self.skips),
            index_answers=self.embedded.index_answers,
            skew=self.skew,
            rows_in_doubt=self.rows_in_doubt,
            target_split_size=options.get("source.split.target-size"),
            open_file_cost=options.get("source.split.open-file-cost"),
        )

    def spec(self, files: Files) -> ReadSpec:
        request = self.request
        schemas = {id_: self.fields_of(id_) for id_ in _schema_ids(files)}
        names = {field.name for field in request.fields}
        numbered = any(field.name in names and field in request.fields for field in KEY_VALUE_FIELDS)
        return ReadSpec(
            io=self.store.io,
            schemas=with_key_values(schemas) if numbered else schemas,
            fields=request.fields,
            filter_fields=self.filter_fields,
            predicate=request.predicate,
            metadata_columns=request.metadata_columns,
            partition_fields=self.schema.partition_fields,
            options=without_secrets(dict(request.options)),
            use_index=request.options.get("file-index.read.enabled"),
            zone=request.zone,
            references=blob_references(self.store, request),
            leading=leading_columns(self.schema),
            merging=self.merging() if self.schema.primary_keys and any(file.merged for file in files.made) else None,
        )

    def merge_filter(self, predicate: Predicate) -> MergeFilter:
        """The parts of a predicate that act before and after versions of a row are merged."""
        if not self.schema.primary_keys or isinstance(self.request.between, Additions):
            return MergeFilter(predicate)
        return merge_filter(predicate, merge_keys(self.schema))

    def merging(self) -> Merging:
        """How the rows of these files are merged."""
        options = without_secrets(dict(self.request.options))
        of: MergedRows = "rows"
        if self.request.between is not None:
            of = "versions" if isinstance(self.request.between, Additions) else self.request.between.gives
        return Merging(replace(self.schema, options=options), self.merge_filter(self.request.predicate), of)

    def note(self, name: str, entries: pa.RecordBatch, detail: str = "") -> None:
        of_rows = pc.filter(entries, entries.column(ANCHOR)) if ANCHOR in entries.schema.names else entries
        rows = _total(of_rows, "row_count") - self.embedded.rows_left_out
        self.note_totals(name, (of_rows.num_rows, rows, _total(entries, "file_size")), detail)

    def note_totals(self, name: str, totals: tuple[int, int, int], detail: str = "") -> None:
        """Note a step by the files that it leaves, their rows and their bytes."""
        now = time.perf_counter()
        self.steps.append(PruneStep(name, *totals, (now - self.clock) * 1000, detail))
        self.clock = now

    def entries(self) -> pa.RecordBatch:
        request = self.request
        if not self.request.explain and self.is_analyzed():
            from paimon_pyds.engine.scan.analyzed import nothing_matches  # few states are

            if nothing_matches(self.store, self.request):
                entries = empty_batch(entry_schema(frozenset(self.columns)))
                self.note("table", entries, "by the statistics of analyze")
                return entries
        manifests = self.manifests()
        kept = self.entry_filter.may_hold(manifests)
        entries = self.sift(kept, len(kept) == len(manifests)) if self.sifts(kept) else None
        if entries is not None:
            return entries
        entries = self.read(kept)
        if self.settled and clocked(entries):  # statistics decide how to read instants in these (`instant_bounds`)
            self.settled = False
            entries = self.read(kept)
        if len(kept) == len(manifests) and self.request.between is None and not self.joins:
            self.check_total(_total(entries, "row_count"))
        if request.partitions is not None:
            entries = entries.filter(from_numpy(self.entry_filter.mask(entries)))
        detail = f"{len(kept)} of {len(manifests)} manifests" if len(kept) != len(manifests) else ""
        if detail and request.explain and request.partitions is None:
            entries = self.seen_whole(manifests, entries)
        self.note("manifests" if detail else "table", entries, detail)
        return entries

    def sifts(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether the filter acts on each manifest before the next one is read."""
        request = self.request
        if self.joins or request.predicate is Const.TRUE or request.between is not None or request.explain:
            return False
        return is_much(manifests) or self.reader.is_first_look(manifests)

    def sift(self, manifests: Sequence[ManifestFile], whole: bool) -> pa.RecordBatch | None:
        """The live files in some manifests that match the filter; None where they have to be read in another way.
        ``whole``: whether all files of the table are there."""
        from paimon_pyds.metadata.sifted_files import sifted_files  # few tables are that large

        columns = PLACE_COLUMNS if self.settled else self.columns
        found = sifted_files(self.reader, manifests, columns, self.passing)
        if found is None:
            return None
        if self.settled and clocked(found.entries):
            self.settled = False
            return self.sift(manifests, whole)
        if whole:
            self.check_total(found.rows)
        self.note_totals("table" if whole else "manifests", (found.files, found.rows, found.size))
        self.note("partitions" if self.settled else "statistics", found.entries)
        self.sifted = True
        return found.entries

    def passing(self, entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which entries match the filter, each looked at by itself."""
        predicate = self.request.predicate
        found = self.entry_filter.mask(entries)
        rows = np.flatnonzero(found)
        if self.settled or not len(rows):
            return found
        left = entries if len(rows) == len(found) else entries.take(from_numpy(rows))
        keep = (keys_of if self.schema.primary_keys else statistics_of)(predicate, left, self)
        in_buckets = buckets_of(predicate, left, self)
        found[rows] = keep if in_buckets is None else keep & in_buckets
        return found

    def is_analyzed(self) -> bool:
        """Whether statistics may be of just this state."""
        snapshot = self.request.state.snapshot
        return snapshot is not None and snapshot.commit_kind is CommitKind.ANALYZE

    def read(self, manifests: Sequence[ManifestFile]) -> pa.RecordBatch:
        between = self.request.between
        if isinstance(between, Additions):
            added = self.reader.added(manifests, self.columns)
            return self.new_rows(added, between) if self.joins else added
        entries = self.reader.live(manifests, PLACE_COLUMNS if self.settled else self.columns)
        if self.joins:
            from paimon_pyds.metadata.column_files import with_row_groups

            self.grouped = with_row_groups(entries, self.schema.fields, self.fields_of)
            return self.grouped
        if between is None or between.start is None:
            return entries
        older = self.entry_filter.may_hold(self.reader.manifests(between.start))
        if self.schema.primary_keys:
            from paimon_pyds.keys.merge.files_to_merge import both_states, without_common

            of_both = both_states if between.exact else without_common
            return of_both(entries, self.reader.live(older, self.columns))
        names = self.reader.live(older, ("file_name",)).column("file_name")
        if between.exact:
            renewed = renewed_files(self.store, self.schema, between.start, between.end)
            names = pc.filter(names, pc.invert(pc.is_in(names, value_set=array(sorted(renewed), pa.string()))))
        return pc.filter(entries, pc.invert(pc.is_in(entries.column("file_name"), value_set=names)))

    def new_rows(self, entries: pa.RecordBatch, between: Additions) -> pa.RecordBatch:
        """The files that some snapshots of a table of data evolution added, in groups of the same rows.

        Raises UnsupportedError: some of them hold new values of columns for rows that were there before.
        """
        from paimon_pyds.metadata.column_files import are_apart, with_row_groups

        grouped = with_row_groups(entries, self.schema.fields, self.fields_of)
        partial = grouped.filter(grouped.column("write_cols").is_valid())
        of_whole = to_numpy(grouped.column(ROW_GROUP))[~are_apart(grouped)]
        changes = len(np.unique(of_whole)) < len(of_whole)
        if partial.num_rows and not changes:
            before = between.snapshots[0].id - 1
            old = 0 if not before else self._next_row_id(before)
            changes = old is None or pc.any(pc.less(partial.column("first_row_id"), scalar(old, pa.int64()))).as_py()
        if changes:
            raise UnsupportedError(
                "these snapshots changed columns of rows that were there before (data-evolution.enabled=true), which "
                "can't be read as changes",
                path=self.store.root,
                hint="read the newest state (scan.mode=latest-full begins a stream with it), or start at snapshot "
                f"{between.snapshots[-1].id + 1}",
                feature="data-evolution",
            )
        return grouped

    def _next_row_id(self, snapshot_id: int) -> int | None:
        try:
            return self.store.snapshot(snapshot_id).next_row_id or 0
        except SnapshotNotFoundError:
            return None

    def check_total(self, found: int) -> None:
        """Compare the rows of all live files with the number in the snapshot.

        Java, pypaimon and pypaimon-rust maintain that number exactly, but do not read it: a wrong number must not make
        a table unreadable. So a difference is reported, and row counts are then taken from data files.
        """
        snapshot = self.request.state.snapshot
        total = None if snapshot is None else snapshot.total_record_count
        if snapshot is not None and total is not None and total != found:
            self.rows_in_doubt = True
            warnings.warn(
                f"snapshot {snapshot.id} counts {total} rows, the data files in its manifests have {found}: the "
                f"table's metadata is damaged, or its writer counts wrongly ({self.store.root})",
                RuntimeWarning,
                stacklevel=2,
            )

    def seen_whole(self, manifests: Sequence[ManifestFile], kept: pa.RecordBatch) -> pa.RecordBatch:
        """For an explanation: records the entries of manifests that were not read, unless they are very many.

        Entries whose removal is only in the other manifests are dropped; partitions rule them out anyway.
        """
        if sum(m.num_added_files + m.num_deleted_files for m in manifests) > _MOST_EXPLAINED:
            return kept
        whole = self.read(manifests)
        self.note("table", whole)
        kept = pc.filter(whole, pc.is_in(whole.column("file_name"), value_set=kept.column("file_name")))
        replace(PARTITIONS, name="manifests").explain(whole, kept, self.partition_predicate, self)
        return kept

    def manifests(self) -> list[ManifestFile]:
        between = self.request.between
        if isinstance(between, Additions):
            listed = self.reader.changelog if between.changelog else self.reader.delta
            return [manifest for snapshot in between.snapshots for manifest in listed(snapshot)]
        return self.reader.manifests(self.request.state.snapshot)

    def fields_of(self, schema_id: int) -> tuple[DataField, ...]:
        if schema_id < 0:
            return ROW_ID_FIELDS
        fields = self.store.schema(schema_id).fields
        return nulls_only(fields) if self.tests_variant else fields

    def files(self, entries: pa.RecordBatch) -> Files:
        files: list[PlannedFile] = []
        parts = [entries]
        if self.schema.primary_keys:
            from paimon_pyds.keys.merge.files_to_merge import by_state

            parts = by_state(entries)
        for part in parts:
            details = self.details(part)
            if self.settled and not any(details):
                found = files_when_asked(self.store, self.schema, part)
                if found is not None:
                    return self.limited(found)
            planned = planned_files(self.store, self.schema, part, details)
            if ROW_GROUP in part.schema.names:
                from paimon_pyds.metadata.column_files import joined_files

                planned = joined_files(planned, part, self.fields_of)
            if self.stored_filter_fields != self.filter_fields:
                planned = with_row_ids(planned, self.fields_of)
            files += self.alive(planned) if details.deletions else planned
        return self.limited(Files(tuple(files)))

    def alive(self, files: Iterable[PlannedFile]) -> Iterator[PlannedFile]:
        """The files that have rows their deletion vectors leave. Raises CorruptFileError."""
        for file in files:
            deleted = None if file.deletion is None else file.deletion.cardinality
            if deleted is not None and deleted > file.row_count:
                raise CorruptFileError(
                    f"the index manifest says that {deleted} rows of {file.row_count} are deleted", path=file.path
                )
            if deleted == file.row_count and file.deletion is not None:
                skip = SkippedFile(file.name, file.row_count, file.size, "every row is deleted", "deletion vectors")
                self.skips.append(skip)
            else:
                yield file

    def details(self, entries: pa.RecordBatch) -> FileDetails:
        """Details of the files of these entries that the entries do not have."""
        between, snapshot = self.request.between, self.request.state.snapshot
        if isinstance(between, Additions):
            snapshot = None
        elif isinstance(between, Difference):
            from paimon_pyds.keys.merge.files_to_merge import is_older

            if is_older(entries):
                snapshot = between.start
        deletions = deletion_files(self.store, self.schema, snapshot)
        return FileDetails(deletions, self.embedded.selections, self.bounds(entries))

    def bounds(self, entries: pa.RecordBatch) -> Iterable[FileBounds | None] | None:
        """Of files that are merged or joined, the embedded indexes, which readers evaluate."""
        names = entries.schema.names
        if "embedded_index" not in names or not (MERGED in names or ROW_GROUP in names):
            return None
        embedded = entries.column("embedded_index")
        if embedded.null_count == len(embedded):
            return None
        asked = entries.column(MERGED) if MERGED in names else entries.column(SUPPLIED).is_valid()
        indexes = pc.if_else(asked, embedded, None).to_pylist()
        return (None if index is None else FileBounds(self.request.predicate, {}, index) for index in indexes)

    def limited(self, files: Files) -> Files:
        """The first files that have enough rows for the limit, if metadata has their row counts."""
        limit = self.request.limit
        if limit is None or self.request.top_n is not None or self.request.predicate is not Const.TRUE:
            return files
        first, rest = files.first(limit)
        if self.request.explain:
            self.skips += [SkippedFile(f.name, f.row_count, f.size, f"LIMIT {limit}", "limit") for f in rest.made]
        return first


def _tests_nulls_of_variants(request: ScanRequest) -> bool:
    wanted = {name for part in computed_parts(request.predicate) for name in part.columns}
    read = [field for field in request.filter_fields if field.name in wanted]
    return nulls_only(request.filter_fields) != request.filter_fields and nulls_only([*request.fields, *read]) == (
        *request.fields,
        *read,
    )


def _schema_ids(files: Files) -> set[int]:
    """The schemas that files were written with."""
    numbers = files.numbers("schema_id")
    if numbers is not None:
        return set(numbers.tolist())
    return {part.schema_id for file in files.made for part in file.with_parts()}


def _total(entries: pa.RecordBatch, column: str) -> int:
    """The sum of a column of integers without nulls."""
    return int(to_numpy(entries.column(column)).sum())
