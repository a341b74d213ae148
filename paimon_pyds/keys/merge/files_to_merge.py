"""The files of a table with a primary key whose rows have to be merged before a reader may have them.

The files of a bucket fall into sections: no key is in two of them (Java: class IntervalPartition). The rows of a
section are raw if its files have no rows that delete others, and it is one file; or if its files are on levels above 0
and their older versions are hidden by deletion vectors, or were never written (merge engine first-row). Java Paimon
plans by the same rules, but merges more, as it applies most of them to whole buckets (class MergeTreeSplitGenerator).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, grouped, is_true, one_batch, pc, scalar, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.row import columns_of
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.manifest import MERGED, OLDER, SECTION, file_identities
from paimon_pyds.metadata.manifest_reader import unpadded
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.schema import TableSchema


def hides_level_0(options: TableOptions) -> bool:
    """Whether batch reads leave out what was not compacted yet: its versions are not compared with older ones.

    (Java: CoreOptions.batchScanSkipLevel0.)
    """
    if options.get("merge-engine") == "first-row":
        return True
    return bool(options.get("deletion-vectors.enabled")) and not options.get("deletion-vectors.merge-on-read")


def is_clustered(schema: TableSchema) -> bool:
    """Whether compacted files are sorted by other columns than the key, whose least and greatest values manifests give
    in place of keys; deletion vectors say which version of a key is live. (Tables of the Spark connector 2.1.)"""
    return bool(TableOptions(schema.options).get("pk-clustering-override"))


def clustering_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns that such files are sorted by. Raises UnknownColumnError: a name of no column."""
    names = comma_separated(str(TableOptions(schema.options).get("clustering.columns") or ""))
    return tuple(map(schema.field, names))


def snapshots_order(schema: TableSchema) -> bool:
    """Whether of two versions of a key that of the later snapshot is newer, whatever their sequence numbers are.
    (Tables of Java Paimon 2.0 and later.)"""
    return bool(schema.primary_keys) and bool(TableOptions(schema.options).get("sequence.snapshot-ordering"))


def highest_level(options: TableOptions) -> int:
    """The level that full compactions leave everything on. (Java: CoreOptions.numLevels.)"""
    levels = options.get("num-levels")
    return int(options.get("num-sorted-run.compaction-trigger") if levels is None else levels - 1)


def with_merged(entries: pa.RecordBatch, schema: TableSchema, options: TableOptions) -> pa.RecordBatch:
    """Manifest entries of a table with a primary key, with columns that mark the files whose rows are merged with
    others'. ``entries``: all live entries of each bucket that may hold a version of a row that is wanted."""
    if not entries.num_rows:
        sections, merged = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    elif is_clustered(schema):
        sections, merged = _clustered_sections(entries)
    else:
        sections = _sections(entries, schema)
        merged = _merged(entries, sections, options)
    return _with_columns(entries, sections, merged)


def _clustered_sections(entries: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Sections, and which files are merged, where files above level 0 are not sorted by key: deletion vectors hide all
    versions in them but one, so each is read by itself unless its bucket has files on level 0."""
    buckets = _bucket_numbers(entries)
    waiting = (np.bincount(buckets, to_numpy(entries.column("level")) == 0) > 0)[buckets]
    sections = np.where(waiting, buckets, int(buckets.max()) + 1 + np.arange(len(buckets)))
    return sections, (waiting & (np.bincount(buckets)[buckets] > 1)) | _has_deletes(entries)


def not_merged(entries: pa.RecordBatch) -> pa.RecordBatch:
    """The same for reads that do not merge: only files with rows to leave out are marked."""
    return _with_columns(entries, np.arange(entries.num_rows), _has_deletes(entries))


def all_merged(entries: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """The same where the rows of all files are merged, to compare two states of the table. ``entries``: as
    `without_common` gives them."""
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

    ``newer``: live entries of one state, with `IDENTITY_COLUMNS` and ``total_buckets``. ``older``: those of another
    one.
    Raises UnsupportedError: a partition has another number of buckets than before: rows of a key are in different ones.
    """
    found = both_states(newer, older)
    found = found.filter(from_numpy(_differs(found)))
    bucketed = pa.Table.from_batches([found.filter(pc.greater(found["total_buckets"], 0))])
    totals = grouped(bucketed, ["partition"], [("total_buckets", "count_distinct")])
    numbers = totals["total_buckets_count_distinct"]
    if (pc.max(numbers).as_py() or 0) > 1:
        raise UnsupportedError(
            "a partition has different numbers of buckets in the two states, and their rows can't be compared",
            hint="read incremental-between-scan-mode=delta, or table.diff, which compares whole partitions",
        )
    return found


def both_states(newer: pa.RecordBatch, older: pa.RecordBatch) -> pa.RecordBatch:
    """The entries of two states, marked by the state: arguments as of `without_common`."""
    parts = []
    for entries, mark in ((newer, False), (older, True)):
        marks = from_numpy(np.full(entries.num_rows, mark))
        parts.append(entries.append_column(pa.field(OLDER, pa.bool_(), False), marks))
    return one_batch(pa.Table.from_batches(parts))


def _differs(entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which entries of two states only one of them has."""
    names, older = file_identities(entries), is_true(entries.column(OLDER))
    found = np.empty(entries.num_rows, np.bool_)
    for own in (older, ~older):
        others = names.filter(from_numpy(~own))
        found[own] = ~is_true(pc.is_in(names.filter(from_numpy(own)), value_set=others))
    return found


def changed_sections(entries: pa.RecordBatch, schema: TableSchema, renewed: Iterable[str]) -> pa.RecordBatch:
    """Of the entries of two states, those of the sections in which the states differ, all marked as merged.

    A section holds all files of both states in which the versions of its keys can be: where rows of a key may have
    moved between buckets, or partitions, those of all these.

    ``entries``: as `both_states` gives them. ``renewed``: the names of files that have other deletion vectors in one
    state than in the other.
    """
    if not entries.num_rows:
        return all_merged(entries, schema)
    renewed_names = array(sorted(renewed), pa.string())
    differs = _differs(entries) | is_true(pc.is_in(entries.column("file_name"), value_set=renewed_names))
    sections = _sections(entries, schema, _places_of_keys(entries, schema))
    kept = (np.bincount(sections, differs) > 0)[sections]
    return _with_columns(entries.filter(from_numpy(kept)), sections[kept], np.ones(int(kept.sum()), np.bool_))


def _places_of_keys(entries: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64]:
    """A row for each entry of two states: where the keys of its file can be found again. That is its bucket; its
    partition where rows move between buckets; or all partitions with the same values of the primary key."""
    coded = entries.column("partition").dictionary_encode()
    partitions = to_numpy(coded.indices).astype(np.int64)
    totals = to_numpy(entries.column("total_buckets"))
    fixed = np.ones(len(coded.dictionary), np.bool_)
    first = np.zeros(len(coded.dictionary), totals.dtype)
    first[partitions] = totals
    fixed[partitions[(totals <= 0) | (totals != first[partitions])]] = False
    in_key = [name for name in schema.partition_keys if name in schema.primary_keys]
    if len(in_key) < len(schema.partition_keys):
        from paimon_pyds.keys.merge.order_codes import order_codes

        values = partition_values(schema.partition_fields, coded.dictionary)
        same = order_codes([values.column(name) for name in in_key]) if in_key else np.zeros(len(fixed), np.int64)
        return np.stack([same[partitions], np.zeros_like(partitions)], axis=1)
    return np.stack([partitions, np.where(fixed[partitions], to_numpy(entries.column("bucket")), 0)], axis=1)


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
    """Which files to read, of those that may hold a version that matches a filter.

    Files that are merged are read with all others of their section, as the newest version of a row may be in any. Where
    the merge engine gives rows as one version has them, a section without any match is left out.

    ``mask``: which files may hold one. ``entries``: as `with_merged` gives them.
    """
    merged = is_true(entries.column(MERGED))
    if options.get("merge-engine") not in ("deduplicate", "first-row"):
        return mask | merged
    sections = to_numpy(entries.column(SECTION))
    kept = np.bincount(sections, mask) > 0
    return np.where(merged, kept[sections], mask)


def _sections(
    entries: pa.RecordBatch, schema: TableSchema, places: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Numbers of sections, one for each entry; entries of several buckets, or of these places, are in several."""
    bucket = _bucket_numbers(entries) if places is None else _numbered(places)
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


def _bucket_numbers(entries: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """A number from 0 on for the bucket of each entry."""
    partitions = to_numpy(entries.column("partition").dictionary_encode().indices).astype(np.int64)
    return _numbered(np.stack([partitions, to_numpy(entries.column("bucket"))], axis=1))


def _numbered(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number from 0 on for each row; equal rows have the same."""
    return np.unique(places, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def key_ranks(entries: pa.RecordBatch, schema: TableSchema) -> npt.NDArray[np.int64] | None:
    """`rank_keys` of the ends of files: in a first row of the entries' least keys, in a second one of the greatest.

    Where Java has filled CHAR values with blanks, ORC files give smaller ones than the least: it loses its blanks.
    """
    ends = pa.concat_arrays([entries.column("min_key"), entries.column("max_key")])
    ranks = rank_keys(ends, schema, unpadded_before=entries.num_rows)
    return None if ranks is None else ranks.reshape(2, -1)


def rank_keys(keys: pa.BinaryArray, schema: TableSchema, *, unpadded_before: int = 0) -> npt.NDArray[np.int64] | None:
    """Numbers from 0 on that compare as keys (arity + BinaryRow) do; equal keys have the same. None where the order is
    not known: Arrow can't hold some of the keys, or they are no keys, as files are sorted by other columns.

    ``unpadded_before``: how many of the first ones are least keys of files, which are taken as `unpadded`.
    """
    if is_clustered(schema):
        return None

    from paimon_pyds.keys.merge.order_codes import order_codes  # not for a plan of a table without keys, which it slows

    types = [schema.field(name).type for name in schema.trimmed_primary_keys]
    decoded = list(map(columns_of(keys, types, arity=True), range(len(types))))
    if any(column.unknown is not None for column in decoded):
        return None
    columns = [column.values for column in decoded]
    for at, type_ in enumerate(types):
        if unpadded_before and type_.kind is Kind.CHAR:
            least, others = columns[at][:unpadded_before], columns[at][unpadded_before:]
            columns[at] = pa.concat_arrays([unpadded(least), others])
    codes = order_codes(columns)
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
