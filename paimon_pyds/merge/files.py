"""Which files of a table with a primary key can't be given out as they lie, because their rows have to be merged.

The files of a bucket fall into sections: no key is in two of them (Java: class IntervalPartition). The rows of a
section are raw where none of its files has rows that delete others, and it is one file; or files on levels above 0
whose older versions deletion vectors hide, or that the merge engine first-row never wrote. Java Paimon plans by the
same rules, and takes more for merged: it asks most of them of whole buckets (class MergeTreeSplitGenerator).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, is_true, one_batch, scalar, to_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.manifest import file_identities
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.row import decode_column

MERGED = "merged"
SECTION = "section"
"""The columns that `with_merged` adds to manifest entries."""
OLDER = "older"
"""The column that `without_common` adds to them."""


def hides_level_0(options: TableOptions) -> bool:
    """Whether batch reads leave out what was not compacted yet: its versions are not compared with older ones.

    (Java: CoreOptions.batchScanSkipLevel0.)
    """
    if options.get("merge-engine") == "first-row":
        return True
    return bool(options.get("deletion-vectors.enabled")) and not options.get("deletion-vectors.merge-on-read")


def highest_level(options: TableOptions) -> int:
    """The level that full compactions leave everything on. (Java: CoreOptions.numLevels.)"""
    levels = options.get("num-levels")
    return int(options.get("num-sorted-run.compaction-trigger") if levels is None else levels - 1)


def with_merged(entries: pa.RecordBatch, schema: TableSchema, options: TableOptions) -> pa.RecordBatch:
    """Manifest entries of a table with a primary key, with columns that tell whose rows are merged with others'.

    Args:
        entries: all live entries of each bucket that may hold a version of a row that is wanted.
        schema: the table's.
        options: the table's.
    """
    if not entries.num_rows:
        sections, merged = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    else:
        sections = _sections(entries, schema)
        merged = _merged(entries, sections, options)
    return _with_columns(entries, sections, merged)


def not_merged(entries: pa.RecordBatch) -> pa.RecordBatch:
    """The same where rows are given as they lie in files: with those files marked that have rows to leave out."""
    return _with_columns(entries, np.arange(entries.num_rows), _has_deletes(entries))


def all_merged(entries: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The same where the rows of all files are merged, to compare two states of the table.

    Args:
        entries: as `without_common` gives them.
        schema: the table's.
    """
    sections = _sections(entries, schema) if entries.num_rows else np.zeros(0, np.int64)
    return _with_columns(entries, sections, np.ones(entries.num_rows, np.bool_))


def _with_columns(
    entries: pa.RecordBatch, sections: npt.NDArray[np.int64], merged: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    with_sections = entries.append_column(pa.field(SECTION, pa.int64(), False), from_numpy(sections))
    return with_sections.append_column(pa.field(MERGED, pa.bool_(), False), from_numpy(merged))


def without_common(newer: pa.RecordBatch, older: pa.RecordBatch) -> pa.RecordBatch:
    """The entries of files that two states don't have in common, marked by the state that has them.

    A file that was moved to another level is another one (Java: SnapshotReaderImpl.readIncrementalDiff).

    Args:
        newer: live entries of one state, with `IDENTITY_COLUMNS` and ``total_buckets``.
        older: those of another one.

    Raises:
        UnsupportedError: a partition has another number of buckets than before: rows of a key lie in different ones.
    """
    names = [file_identities(entries) for entries in (newer, older)]
    parts = []
    for entries, own, others, mark in ((newer, names[0], names[1], False), (older, names[1], names[0], True)):
        kept = entries.filter(pc.invert(pc.is_in(own, value_set=others)))
        marks = from_numpy(np.full(kept.num_rows, mark))
        parts.append(kept.append_column(pa.field(OLDER, pa.bool_(), False), marks))
    found = pa.Table.from_batches(parts)
    totals = found.filter(pc.greater(found["total_buckets"], 0)).group_by("partition")
    numbers = totals.aggregate([("total_buckets", "count_distinct")])["total_buckets_count_distinct"]
    if (pc.max(numbers).as_py() or 0) > 1:
        raise UnsupportedError(
            "a partition has different numbers of buckets in the two states, and their rows can't be compared",
            hint="read incremental-between-scan-mode=delta, or compare scans of the two",
        )
    return one_batch(found)


def by_state(entries: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Entries in parts that are each of one state."""
    if OLDER not in entries.schema.names:
        return [entries]
    older = entries.column(OLDER)
    return [entries.filter(pc.invert(older)), entries.filter(older)]


def is_older(entries: pa.RecordBatch) -> bool:
    """Whether these, all of one state, are of the older one of two."""
    return OLDER in entries.schema.names and bool(entries.num_rows) and entries.column(OLDER)[0].as_py() is True


def keep_sections(mask: npt.NDArray[np.bool_], entries: pa.RecordBatch, options: TableOptions) -> npt.NDArray[np.bool_]:
    """Which files to read, of those that may hold a version that a filter keeps.

    Files that are merged are read with all others of their section, as the newest version of a row may be in any. Where
    the merge engine gives rows as one version has them, a section without any that the filter keeps is left out.

    Args:
        mask: which files may hold one.
        entries: as `with_merged` gives them.
        options: the table's.
    """
    merged = is_true(entries.column(MERGED))
    if options.get("merge-engine") not in ("deduplicate", "first-row"):
        return mask | merged
    sections = to_numpy(entries.column(SECTION))
    kept = np.bincount(sections, mask) > 0
    return np.where(merged, kept[sections], mask)


def _sections(entries: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """Numbers of sections, one for each entry; entries of several buckets are in several sections."""
    partitions = to_numpy(entries.column("partition").dictionary_encode().indices).astype(np.int64)
    places = np.stack([partitions, to_numpy(entries.column("bucket"))], axis=1)
    bucket = np.unique(places, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    ranks = key_ranks(entries, schema)
    if ranks is None:
        return bucket
    span = int(ranks.max()) + 1
    least, greatest = bucket * span + ranks
    order = np.argsort(least, kind="stable")
    reached = np.maximum.accumulate(greatest[order])
    begins = np.append(True, least[order][1:] > reached[:-1])
    sections = np.empty(len(order), np.int64)
    sections[order] = np.cumsum(begins) - 1
    return sections


def key_ranks(entries: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64] | None:
    """`rank_keys` of the ends of files: in a first row of the entries' least keys, in a second one of the greatest."""
    ranks = rank_keys(pa.concat_arrays([entries.column("min_key"), entries.column("max_key")]), schema)
    return None if ranks is None else ranks.reshape(2, -1)


def rank_keys(keys: pa.BinaryArray, schema: TableSchema) -> npt.NDArray[np.int64] | None:
    """Numbers from 0 on that compare as keys (arity + BinaryRow) do; equal keys have the same. None where Arrow can't
    hold some of the keys, so that their order is not known."""
    from paimon_pyds.merge.order_codes import order_codes  # not for a plan of a table without keys, which it slows

    types = [schema.field(name).type for name in schema.trimmed_primary_keys]
    decoded = [decode_column(keys, types, i, arity=True) for i in range(len(types))]
    if any(column.unknown is not None for column in decoded):
        return None
    codes = order_codes([column.values for column in decoded])
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _merged(entries: pa.RecordBatch, sections: npt.NDArray[np.int64], options: TableOptions) -> npt.NDArray[np.bool_]:
    count = int(sections.max()) + 1
    levels = to_numpy(entries.column("level"))
    lowest = np.full(count, np.iinfo(np.int32).max)
    np.minimum.at(lowest, sections, levels)
    adds_only = np.bincount(sections, _has_deletes(entries), count) == 0
    hidden = options.get("deletion-vectors.enabled") or options.get("merge-engine") == "first-row"
    raw = adds_only & ((np.bincount(sections, minlength=count) == 1) | ((lowest > 0) & hidden))
    return np.asarray(~raw[sections], np.bool_)


def _has_deletes(entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which files have rows that take others away, or may have some."""
    deletes = to_numpy(pc.fill_null(entries.column("delete_row_count"), scalar(1, pa.int64())))
    return np.asarray(deletes != 0, np.bool_)
