"""Global indexes in a plan: the row ids that may match a filter, in tables of data evolution.

An index covers a range of row ids as they were when it was built. It is used for rows whose column has not been written
since; of all others every row may match. Java and pypaimon leave rows out that no index covers (option
``scalar-index.search-mode``); here they are read. (Source: Java Paimon 2.2, package globalindex.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataType
from paimon_pyds.engine.scan.planned_files import deletion_files, index_file_paths
from paimon_pyds.engine.scan.result import SkippedFile
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.global_index.key_bytes import global_key_codec
from paimon_pyds.index.global_index.range_meta import SOURCE_MEMBER, read_key_range, source_snapshot
from paimon_pyds.index.global_index.reader import GLOBAL_INDEX_TYPES, may_hold, open_global_index
from paimon_pyds.index.keys import KeyCodec
from paimon_pyds.index.probe import BOUNDS, Probe, probe_of
from paimon_pyds.index.roaring.codec import decode_bitmap
from paimon_pyds.metadata.manifest import ANCHOR, ROW_GROUP, GlobalIndex, IndexEntry
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.sql.predicate.among import as_leaves
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import Among, And, Leaf, Or, Predicate
from paimon_pyds.storage.byte_source import FileSource

if TYPE_CHECKING:
    from paimon_pyds.engine.scan.plan import Planner


class Candidates(NamedTuple):
    """Row ids that may match: ``rows``, and all that are not in the ``covered`` groups of rows.

    Attributes:
        covered: per group, by its number, whether an index covers it.
        rows: sorted ids, all of them in covered groups.
    """

    covered: Flags
    rows: Int64s


class GlobalIndexes:
    """The global indexes of one state of a table. ``entries``: as `with_row_groups` gives them, of all files."""

    def __init__(self, planner: Planner, entries: pa.RecordBatch) -> None:
        self._planner = planner
        self.groups = RowGroups(planner, entries)
        self._of_field: dict[int, list[list[IndexEntry]]] = {}
        for files in ranges_of(planner.store.index_entries(planner.request.state.snapshot), GLOBAL_INDEX_TYPES):
            self._of_field.setdefault(index_of(files[0]).index_field_id, []).append(files)

    def candidates(self, predicate: Predicate) -> Candidates | None:
        """The rows that may match; None where no index says anything.
        Raises CorruptFileError, StorageError: an index file is damaged or can't be read."""
        match predicate:
            case Leaf():
                return self._leaves((predicate,))
            case And(children):
                found = [self._leaves(bounds) for bounds in _bounds_by_column(children)]
                others = [child for child in children if not isinstance(child, Leaf) or child.op not in BOUNDS]
                found += [self.candidates(child) for child in others]
                return reduce(self._both, found, None)
            case Or(children):
                either = [self.candidates(child) for child in children]
                return reduce(self._either, either) if either else None
            case Among():
                return self.candidates(as_leaves(predicate))
        return None

    def _both(self, one: Candidates | None, other: Candidates | None) -> Candidates | None:
        if one is None or other is None:
            return other if one is None else one
        rows = np.union1d(one.rows, other.rows)
        return Candidates(one.covered | other.covered, rows[self._has(one, rows) & self._has(other, rows)])

    def _either(self, one: Candidates | None, other: Candidates | None) -> Candidates | None:
        if one is None or other is None:
            return None
        covered = one.covered & other.covered
        rows = np.union1d(one.rows, other.rows)
        return Candidates(covered, rows[covered[self.groups.of_rows(rows)]])

    def _has(self, candidates: Candidates, rows: Int64s) -> Flags:
        """Which rows may match."""
        return np.isin(rows, candidates.rows) | ~candidates.covered[self.groups.of_rows(rows)]

    def _leaves(self, leaves: Sequence[Leaf]) -> Candidates | None:
        """The rows that may match all of several bounds of one column, or one leaf."""
        column = leaves[0].column
        ranges = self._of_field.get(-1 if column.field_id is None or column.path else column.field_id)
        type_ = None if ranges is None or column.field_id is None else type_of(self._planner, column.field_id)
        if ranges is None or type_ is None or column.field_id is None:
            return None
        try:
            codec = global_key_codec(type_)
        except UnsupportedError:
            return None
        probe = probe_of(leaves, codec)
        if probe is None:
            return None
        covered, rows = np.zeros(len(self.groups), np.bool_), []
        for files in ranges:
            here = self.groups.trusted(files, column.field_id) & ~covered
            found = self._ask(files, type_, codec, probe) if here.any() else None
            if found is not None:
                rows.append(found[here[self.groups.of_rows(found)]])
                covered |= here
        return Candidates(covered, np.unique(np.concatenate(rows))) if rows else None

    def _ask(self, files: Sequence[IndexEntry], type_: DataType, codec: KeyCodec, probe: Probe) -> Int64s | None:
        """The row ids by all index files of one range; None where the index does not help."""
        rows = []
        store, schema = self._planner.store, self._planner.schema
        for entry, path in zip(files, index_file_paths(store, schema, files), strict=True):
            index = index_of(entry)
            meta = index.index_meta
            if meta is not None and not may_hold(entry.index_type, read_key_range(meta), codec, probe):
                continue
            source = FileSource(store.io, path, entry.file_size, immutable=True)
            count = index.row_range_end - index.row_range_start + 1
            try:
                found = open_global_index(entry.index_type, source, type_, count).candidates(probe)
            except UnsupportedError:
                return None
            if found is None:
                return None
            source.keep()
            rows.append(found + index.row_range_start)
        return np.concatenate(rows) if rows else np.zeros(0, np.int64)


def type_of(planner: Planner, field_id: int) -> DataType | None:
    """The type of a column; None if it was another one in any schema: an index does not say of which it is."""
    fields = (field for schema in planner.store.schemas() for field in schema.fields)
    types = {field.type.with_nullable(True) for field in fields if field.id == field_id}
    return types.pop() if len(types) == 1 else None


class RowGroups:
    """The groups of rows of a plan, by number, and which of them an index is right about."""

    def __init__(self, planner: Planner, entries: pa.RecordBatch) -> None:
        self._planner, self._entries = planner, entries
        anchors = np.flatnonzero(to_numpy(entries.column(ANCHOR)))
        groups: Int64s = to_numpy(entries.column(ROW_GROUP))
        first = pc.fill_null(entries.column("first_row_id"), scalar(-1, pa.int64()))
        self.number_of, self.anchors = groups, np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
        self.anchors[groups[anchors]] = anchors
        self.first: Int64s = to_numpy(first)[self.anchors]
        self.rows: Int64s = to_numpy(entries.column("row_count"))[self.anchors]
        self._order = np.argsort(self.first, kind="stable")
        self._writes: dict[int, tuple[Flags, Int64s]] = {}

    def __len__(self) -> int:
        return len(self.anchors)

    def of_rows(self, rows: Int64s) -> Int64s:
        """The group of each row id; that of any group for ids that are in none."""
        places = np.searchsorted(self.first[self._order], rows, "right") - 1
        return self._order[np.maximum(places, 0)]

    @cached_property
    def _deleted(self) -> Int64s:
        """The number of deleted rows of each group; 0 where that is not known."""
        deletions = deletion_files(self._planner.store, self._planner.schema, self._planner.request.state.snapshot)
        if not deletions:
            return np.zeros(len(self), np.int64)
        counts = {key: deletion.cardinality or 0 for key, deletion in deletions.items()}
        places = self._entries.select(["partition", "bucket", "file_name"]).take(from_numpy(self.anchors))
        keys = zip(*(column.to_pylist() for column in places.columns), strict=True)
        return np.array([counts.get((PartitionBucket(p, b), name), 0) for p, b, name in keys], np.int64)

    def trusted(self, files: Sequence[IndexEntry], field_id: int) -> Flags:
        """The groups that are within the range of an index, and whose column is as it was when the index was built.

        ``files``: all index files of one range.
        """
        inside = self.inside(files[0])
        within: Flags = (inside > 0) & (inside == self.rows)
        if (inside[~within] > 0).any() or not self.has_all(files, inside):
            return np.zeros(len(self), np.bool_)
        trusted: Flags = within & self.unchanged(files[0], field_id)
        return trusted

    def has_all(self, files: Sequence[IndexEntry], inside: Int64s) -> bool:
        """Whether the index files of a range have all rows that are ``inside`` of it."""
        held = sum(entry.row_count for entry in files)
        deleted = int(self._deleted[(inside > 0) & (inside == self.rows)].sum())
        return held + deleted >= int(inside.sum())

    @cached_property
    def _partitions(self) -> tuple[dict[bytes, int], Int64s]:
        """The partitions by number, and that of each group."""
        coded = pc.dictionary_encode(self._entries.column("partition"))
        numbers = {partition: number for number, partition in enumerate(coded.dictionary.to_pylist())}
        return numbers, to_numpy(coded.indices)[self.anchors]

    def inside(self, entry: IndexEntry) -> Int64s:
        """How many rows of each group are within the range of an index."""
        index, (numbers, own) = index_of(entry), self._partitions
        end = np.minimum(self.first + self.rows, index.row_range_end + 1)
        rows = np.maximum(end - np.maximum(self.first, index.row_range_start), 0)
        return np.where((own == numbers.get(entry.partition, -1)) & (self.first >= 0), rows, 0)

    def unchanged(self, entry: IndexEntry, field_id: int) -> Flags:
        """The groups whose column is as it was when an index was built."""
        index = index_of(entry)
        members = [member for member in index.unknown if member.path == SOURCE_MEMBER]
        source = source_snapshot(members[0].value()) if members else None
        if field_id not in self._writes:
            self._writes[field_id] = self._writes_of(field_id)
        once, newest = self._writes[field_id]
        return once if source is None else once | (newest <= source)

    def _writes_of(self, field_id: int) -> tuple[Flags, Int64s]:
        """Of each group whether the commit that made the rows wrote all values of a column, so that no index is older,
        and the newest commit that wrote any; -1 where none did."""
        entries = self._entries
        schema_ids, least, greatest = (
            to_numpy(entries.column(c)) for c in ("schema_id", "min_sequence_number", "max_sequence_number")
        )
        held = entries.column("write_cols")
        file_of, named = to_numpy(pc.list_parent_indices(held)), held.flatten()
        wrote = ~is_true(pc.is_valid(held))
        for schema_id in np.unique(schema_ids).tolist():
            name = next((f.name for f in self._planner.fields_of(schema_id) if f.id == field_id), None)
            own = schema_ids == schema_id
            if name is None:
                wrote &= ~own
            else:
                files = file_of[is_true(pc.equal(named, scalar(name, pa.string())))]
                wrote[files[own[files]]] = True
        groups = self.number_of[wrote]
        writers, newest = np.bincount(groups, minlength=len(self)), np.full(len(self), -1, np.int64)
        np.maximum.at(newest, groups, greatest[wrote])
        once = np.ones(len(self), np.bool_)
        once[self.number_of[wrote & (least != greatest)]] = False
        made = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(made, self.number_of, least)
        return once & (writers == 1) & (newest == made), newest


def index_of(entry: IndexEntry) -> GlobalIndex:
    """What an entry of a global index says of it."""
    assert entry.global_index is not None
    return entry.global_index


def ranges_of(entries: Iterable[IndexEntry], types: Collection[str]) -> list[list[IndexEntry]]:
    """The files of indexes of some types: those of one column and range of rows, by one build, together."""
    found: dict[object, list[IndexEntry]] = {}
    for entry in entries:
        if entry.global_index is not None and entry.index_type in types:
            build = replace(entry.global_index, index_meta=None)
            found.setdefault((entry.partition, entry.index_type, build), []).append(entry)
    return list(found.values())


def _bounds_by_column(children: Sequence[Predicate]) -> Iterator[list[Leaf]]:
    """The bounds among some conjuncts, those of one column together."""
    found: dict[object, list[Leaf]] = {}
    for child in children:
        if isinstance(child, Leaf) and child.op in BOUNDS:
            found.setdefault(child.column, []).append(child)
    yield from found.values()


def select_rows(entries: pa.RecordBatch, planner: Planner) -> Flags | None:
    """Note in the plan which rows of its files may match, by global indexes. ``entries``: as `with_row_groups` gives
    them.

    Returns:
        The entries of groups with rows that may match; None where no index says anything.

    Raises CorruptFileError, StorageError: an index file is damaged or can't be read.
    """
    if planner.grouped is None:
        return None
    indexes, left = GlobalIndexes(planner, planner.grouped), to_numpy(entries.column(ROW_GROUP))
    found = indexes.candidates(planner.request.predicate)
    if found is None:
        return None
    groups, answers = indexes.groups, planner.embedded
    names = planner.grouped.select(["partition", "bucket", "file_name", "file_size"])
    keep = np.ones(len(groups), np.bool_)
    covered = np.intersect1d(np.flatnonzero(found.covered), left)
    begins, ends = np.searchsorted(found.rows, [groups.first[covered], groups.first[covered] + groups.rows[covered]])
    empty = begins == ends
    keep[covered[empty]] = False
    noted = ~empty | bool(answers.selections or planner.request.explain)  # of the others nothing is to be noted
    for group, begin, end in zip(*(of[noted].tolist() for of in (covered, begins, ends)), strict=True):
        first, rows = int(groups.first[group]), int(groups.rows[group])
        (place,) = names.slice(int(groups.anchors[group]), 1).to_pylist()
        key = PartitionBucket(place["partition"], place["bucket"]), place["file_name"]
        selection = RowSelection.of((found.rows[begin:end] - first).astype(np.uint32))
        if key in answers.selections:
            answers.rows_left_out -= rows - len(earlier := decode_bitmap(answers.selections.pop(key)))
            selection = selection & RowSelection(earlier)
        if selection.positions:
            answers.selections[key] = selection.positions.serialize()
            answers.rows_left_out += rows - len(selection.positions)
        else:
            keep[group] = False
            reason = to_sql(planner.request.predicate, shorten=True)
            planner.skips.append(SkippedFile(place["file_name"], rows, place["file_size"], reason, "global index"))
    kept: Flags = keep[left]
    return kept
