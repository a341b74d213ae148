"""The steps of a plan: functions from manifest entries and their planner to the entries that are left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.scan.planned_files import renewed_files
from paimon_pyds.engine.scan.prune import ask_embedded, bucket_mask, left_out, statistics_mask
from paimon_pyds.engine.scan.result import SkippedFile, bucket_skew, buckets_text
from paimon_pyds.engine.scan.travel import Additions, Difference
from paimon_pyds.format import traits_of
from paimon_pyds.metadata.manifest import ANCHOR, MERGED, ROW_GROUP, SUPPLIED
from paimon_pyds.metadata.manifest_reader import EntryFilter
from paimon_pyds.metadata.row_ids import ROW_ID, may_hold_row_ids
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns

if TYPE_CHECKING:
    from paimon_pyds.engine.scan.plan import Planner

Mask: TypeAlias = npt.NDArray[np.bool_]
Step: TypeAlias = "Callable[[pa.RecordBatch, Planner], pa.RecordBatch]"
_FILE_SCHEMA_COLUMNS = ("file_name", "schema_id", "write_cols")
_NOT_COMPACTED = "hidden from batch reads until it is compacted"


@dataclass(frozen=True, slots=True)
class Pruning:
    """A step that leaves out the files whose rows the filter rules out.

    Attributes:
        name: for explanations.
        prune: gives the entries that are left, and a text for explanations.
        mask: the entries that may match a part of the filter, to explain a file; None if it rules none out.
    """

    name: str
    prune: Callable[[pa.RecordBatch, Planner], tuple[pa.RecordBatch, str]]
    mask: Callable[[Predicate, pa.RecordBatch, Planner], Mask | None] | None = None

    def __call__(self, entries: pa.RecordBatch, planner: Planner) -> pa.RecordBatch:
        """The entries that are left; the planner notes the step."""
        request = planner.request
        if request.predicate is Const.TRUE or not entries.num_rows:
            return entries
        left, detail = self.prune(entries, planner)
        if detail or left.num_rows != entries.num_rows:
            planner.note(self.name, left, detail)
        if request.explain and left.num_rows != entries.num_rows:
            self.explain(entries, left, request.predicate, planner)
        return left

    def explain(self, entries: pa.RecordBatch, left: pa.RecordBatch, predicate: Predicate, planner: Planner) -> None:
        """Note the entries that are not left, each with the part of the predicate that rules it out."""
        if ANCHOR in entries.schema.names:  # a group counts as one file
            entries = pc.filter(entries, entries.column(ANCHOR))
        if (mask := self.mask) is not None:
            planner.skips += left_out(
                self.name, entries, left, predicate, lambda part, dropped: mask(part, dropped, planner)
            )


def steps_of(planner: Planner) -> list[Step]:
    """The steps of a plan in their order. Sifted entries were looked at one by one as their manifests were read."""
    keyed = bool(planner.schema.primary_keys)
    if planner.settled:
        return [] if planner.sifted else [PARTITIONS]
    if planner.sifted:
        return [visible, merged, STATISTICS, EMBEDDED] if keyed else [ROW_IDS, EMBEDDED]
    if keyed:
        return [PARTITIONS, skew, BUCKETS, visible, KEYS, merged, STATISTICS, EMBEDDED]
    steps: list[Step] = [PARTITIONS, skew, BUCKETS, ROW_IDS, STATISTICS, EMBEDDED]
    return [*steps, GLOBAL] if planner.joins else steps


def skew(entries: pa.RecordBatch, planner: Planner) -> pa.RecordBatch:
    """The same entries; an explanation says how evenly their rows are distributed over the buckets."""
    has_buckets = planner.schema.primary_keys or int(planner.request.options.get("bucket")) > 0
    planner.skew = bucket_skew(entries) if planner.request.explain and has_buckets else None
    return entries


def visible(entries: pa.RecordBatch, planner: Planner) -> pa.RecordBatch:
    """The files that a batch read of a table with a primary key looks at."""
    request = planner.request
    keep = (to_numpy(entries.column("bucket")) >= 0) | request.waiting  # others are of rows that have no bucket yet
    levels = to_numpy(entries.column("level"))
    from paimon_pyds.keys.merge.files_to_merge import hides_level_0, highest_level

    if request.read_optimized:
        keep &= levels == highest_level(request.options)
    if request.least_level is not None:
        keep &= levels >= request.least_level
    elif hides_level_0(request.options) and not _shows_level_0(planner):
        keep &= levels > 0
    if keep.all():
        return entries
    found = pc.filter(entries, from_numpy(keep))
    planner.note("not compacted", found, f"{found.num_rows} of {entries.num_rows} files are visible")
    if request.explain:
        reason = "not on the highest level" if request.read_optimized else _NOT_COMPACTED
        hidden = pc.filter(entries, from_numpy(~keep))
        columns = (hidden.column(name).to_pylist() for name in ("file_name", "row_count", "file_size"))
        planner.skips += [
            SkippedFile(name, rows, size, reason, "not compacted") for name, rows, size in zip(*columns, strict=True)
        ]
    return found


def _shows_level_0(planner: Planner) -> bool:
    """Whether files are among them that batch reads leave out: what snapshots added is not compared with older
    versions, and most of it is there; nor is a difference by the rules of Java 2.1."""
    between = planner.request.between
    if isinstance(between, Difference):
        return not between.exact and planner.request.options.get("diff-rules") == "2.1"
    return isinstance(between, Additions)


def merged(entries: pa.RecordBatch, planner: Planner) -> pa.RecordBatch:
    """The entries of a table with a primary key, with columns that mark the files whose rows are merged with
    others'."""
    between, schema = planner.request.between, planner.schema
    from paimon_pyds.keys.merge.files_to_merge import all_merged, changed_sections, not_merged, with_merged

    if isinstance(between, Additions):
        return not_merged(entries)
    if not isinstance(between, Difference):
        return with_merged(entries, schema, planner.request.options)
    if between.exact and between.start is not None:
        return changed_sections(entries, schema, renewed_files(planner.store, schema, between.start, between.end))
    return all_merged(entries, schema)


def _by_partition(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    if planner.partition_predicate is Const.TRUE:
        return entries, ""
    mask, kept, of = planner.entry_filter.matching_partitions(entries)
    return pc.filter(entries, from_numpy(mask)), f"{kept} of {of} partitions"


def _partition_mask(part: Predicate, entries: pa.RecordBatch, planner: Planner) -> Mask:
    return EntryFilter(planner.schema, partition_filter(part, planner.schema.partition_keys)[0]).mask(entries)


def _by_bucket(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    mask = buckets_of(planner.request.predicate, entries, planner)
    return (entries, "") if mask is None else (pc.filter(entries, from_numpy(mask)), buckets_text(entries, mask))


def buckets_of(predicate: Predicate, entries: pa.RecordBatch, planner: Planner) -> Mask | None:
    """A mask of the entries in buckets that may have matches; None if all may."""
    return bucket_mask(predicate, planner.schema, entries, planner.store.schemas)


def _by_row_ids(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    mask = _of_row_ids(planner.request.predicate, entries, planner)
    return (entries, "") if mask is None else (pc.filter(entries, from_numpy(mask)), "")


def _of_row_ids(predicate: Predicate, entries: pa.RecordBatch, planner: Planner) -> Mask | None:
    return may_hold_row_ids(predicate, entries) if ROW_ID in root_columns(predicate) else None


def _by_keys(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    return pc.filter(entries, from_numpy(keys_of(planner.request.predicate, entries, planner))), ""


def keys_of(predicate: Predicate, entries: pa.RecordBatch, planner: Planner) -> Mask:
    """Which entries of a table with a primary key may match a predicate by what it says of keys alone."""
    return statistics_of(planner.merge_filter(predicate).before, entries, planner)


def _by_statistics(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    mask, detail = statistics_of(planner.request.predicate, entries, planner), ""
    if planner.schema.primary_keys:
        from paimon_pyds.keys.merge.files_to_merge import keep_sections

        alone, mask = mask, keep_sections(mask, entries, planner.request.options)
        if (held := int((mask & ~alone).sum())) and planner.request.explain:
            detail = f"{held} more could go, but are merged with others"
    return (entries, detail) if mask.all() else (pc.filter(entries, from_numpy(mask)), detail)


def statistics_of(predicate: Predicate, entries: pa.RecordBatch, planner: Planner) -> Mask:
    """Which entries may match a predicate by their statistics."""
    keep = statistics_mask(predicate, planner.schema.fields, entries, planner.fields_of)
    if ROW_GROUP not in entries.schema.names:
        return keep
    from paimon_pyds.metadata.column_files import all_of_group

    return all_of_group(keep, entries)


def _by_embedded_index(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    request, embedded = planner.request, entries.column("embedded_index")
    if embedded.null_count == len(embedded) or not request.options.get("file-index.read.enabled"):
        return entries, ""

    from paimon_pyds.metadata.evolution.file_columns import plan_evolution

    joins = SUPPLIED in entries.schema.names

    def devolved(row: int) -> Predicate:
        if joins and entries.column(SUPPLIED)[row].is_valid:
            return Const.TRUE  # readers evaluate the indexes of files whose rows are joined
        name, schema_id, write_cols = (entries.column(c)[row].as_py() for c in _FILE_SCHEMA_COLUMNS)
        fields, trims = planner.fields_of(schema_id), traits_of(name).trims_char
        evolution = plan_evolution(
            fields, planner.stored_filter_fields, write_cols, trims_char=trims, zone=request.zone
        )
        is_merged = bool(planner.schema.primary_keys) and entries.column(MERGED)[row].as_py()
        return evolution.devolve(planner.unmerged if is_merged else request.predicate)

    planner.embedded = ask_embedded(entries, request.predicate, devolved, explain=request.explain)
    planner.skips += planner.embedded.skips
    keep = planner.embedded.keep
    return pc.filter(entries, from_numpy(keep)), f"{int(keep.sum())} of {len(keep)} files"


def _by_global_index(entries: pa.RecordBatch, planner: Planner) -> tuple[pa.RecordBatch, str]:
    request = planner.request
    if not request.options.get("global-index.enabled") or not any(
        entry.global_index is not None for entry in planner.store.index_entries(request.state.snapshot)
    ):
        return entries, ""

    from paimon_pyds.engine.scan.global_index import select_rows

    keep = select_rows(entries, planner)
    if keep is None:
        return entries, ""
    return pc.filter(entries, from_numpy(keep)), f"{int(keep.sum())} of {len(keep)} files"


PARTITIONS = Pruning("partitions", _by_partition, _partition_mask)
BUCKETS = Pruning("buckets", _by_bucket, buckets_of)
ROW_IDS = Pruning("row ids", _by_row_ids, _of_row_ids)
KEYS = Pruning("keys", _by_keys, keys_of)
STATISTICS = Pruning("statistics", _by_statistics, statistics_of)
EMBEDDED = Pruning("embedded index", _by_embedded_index)
GLOBAL = Pruning("global index", _by_global_index)
