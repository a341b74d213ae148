"""Tables of data evolution: rows whose columns are in several files, and which file each column is read from.

Files of one partition and bucket whose ranges of row ids overlap hold the same rows. A column's values are those of the
newest file that has its field id. (Source: Paimon documentation, append-table/data-evolution; Java's
DataEvolutionSplitRead.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.manifest import ANCHOR, APART, ROW_GROUP, SHARED, SUPPLIED, is_blob_file
from paimon_pyds.metadata.planned_file import FileBounds, PlannedFile

_MOST_ROWS = 1 << 61
"""Row ids of a table at most: sums of them must stay below 2^63."""


def with_row_groups(
    entries: pa.RecordBatch, table_fields: Sequence[DataField], fields_of: Callable[[int], Sequence[DataField]]
) -> pa.RecordBatch:
    """Manifest entries of a table of data evolution, with the columns `ROW_GROUP`, `ANCHOR`, `SUPPLIED` and `SHARED`.

    ``ROW_GROUP`` numbers the files that hold the same rows, or some of them: files of BLOB and VECTOR columns may hold
    a part. Of each group one file is the ``ANCHOR``: deletion vectors name it. ``SUPPLIED`` are the ids of the table's
    columns that are read from a file alone; NULL in files that are alone, from which all are read. Columns that no file
    of a group has count as the anchor's. ``SHARED`` are the ids of those columns that are read from a file and others.

    Args:
        entries: the live entries of whole partitions, with the columns `PLACE_COLUMNS`.
        table_fields: the table's columns.
        fields_of: gives the columns of a schema id.

    Raises:
        CorruptFileError: files of one group do not hold the same rows.
    """
    apart = are_apart(entries)
    groups = row_groups(entries)
    anchors = ~apart
    supplied: list[Sequence[int] | None] = [None] * entries.num_rows
    shared: list[Sequence[int]] = [()] * entries.num_rows
    several = np.flatnonzero((np.bincount(groups)[groups] > 1) | apart) if len(groups) else groups
    if len(several):
        held = _ColumnsHeld(fields_of, [field.id for field in table_fields])
        grouped = _Grouped(pc.take(entries, from_numpy(several)), apart[several], held)
        anchors[several] = False
        for group in _by_group(groups[several], grouped.sequences):
            anchor, sources = grouped.sources(group.tolist())
            if anchor is not None:
                anchors[several[anchor]] = True
            for member, (own, common) in zip(group.tolist(), sources, strict=True):
                supplied[several[member]], shared[several[member]] = own, common
    columns = (
        (ROW_GROUP, from_numpy(groups)),
        (ANCHOR, array(anchors, pa.bool_())),
        (SUPPLIED, array(supplied, pa.list_(pa.int32()))),
        (SHARED, array(shared, pa.list_(pa.int32()))),
    )
    for name, column in columns:
        entries = entries.append_column(name, column)
    return entries


def are_apart(entries: pa.RecordBatch) -> Flags:
    """Which entries are of files that hold BLOB or VECTOR columns apart from the others."""
    return is_true(pc.match_substring_regex(entries.column("file_name"), APART))


def _by_group(groups: Int64s, sequences: Int64s) -> list[Int64s]:
    """The places of each group's files, the newest first."""
    order = np.lexsort((-sequences, groups))  # stable: files with equal numbers stay in the manifests' order
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


class _Grouped:
    """The files of groups. ``apart``: which of them hold BLOB or VECTOR columns."""

    def __init__(self, entries: pa.RecordBatch, apart: Flags, held: _ColumnsHeld) -> None:
        listed = (entries.column(c).to_pylist() for c in ("file_name", "schema_id", "write_cols"))
        self.names, self._schema_ids, self._written = listed
        numbers = (to_numpy(entries.column(c)) for c in ("max_sequence_number", "first_row_id", "row_count"))
        self.sequences, self._start, self._rows = numbers
        self._apart, self._held = apart, held

    def sources(self, members: list[int]) -> tuple[int | None, Sequence[_Sources]]:
        """The anchor of a group, if a file of it may be one; and of each file the columns that are read from it."""
        whole = [i for i in members if not self._apart[i]]
        first = whole[0] if whole else members[0]
        begin, end = self._start[first], self._start[first] + self._rows[first]
        covers = {i: bool(self._start[i] == begin and self._start[i] + self._rows[i] == end) for i in members}
        inside = (begin <= self._start[i] and self._start[i] + self._rows[i] <= end for i in members)
        if not all(covers[i] for i in whole) or (whole and not all(inside)):
            names = ", ".join(self.names[i] for i in members[:4])
            raise CorruptFileError(
                f"data files with overlapping row ids hold different rows: {names}", field="_FIRST_ROW_ID"
            )
        for i in members:
            columns, of_blobs = self._written[i] or (), is_blob_file(self.names[i])
            if not self._rows[i] or (self._apart[i] and (len(columns) != 1 if of_blobs else not columns)):
                what = f"{self._rows[i]} rows of the columns [{', '.join(columns)}]"
                raise CorruptFileError(f"the data file {self.names[i]} has {what}", field="_WRITE_COLS")
        anchor = min(whole, key=lambda i: (self.sequences[i], self.names[i]), default=None)
        kinds = tuple(
            _Kind(
                self._schema_ids[i],
                None if self._written[i] is None else tuple(self._written[i]),
                covers[i],
                bool(self._apart[i]) and is_blob_file(self.names[i]),
            )
            for i in members
        )
        return anchor, self._held.sources(kinds, None if anchor is None else members.index(anchor))


class _Kind(NamedTuple):
    """What decides which columns are read from a file of a group."""

    schema_id: int
    names: tuple[str, ...] | None
    covers: bool
    is_blob: bool


_Sources: TypeAlias = "tuple[list[int], list[int]]"
"""The ids of the columns that are read from a file alone, and of those that are read from it and others."""


class _ColumnsHeld:
    """Which columns files of some schemas hold, and which are read from each. Few groups differ in that."""

    def __init__(self, fields_of: Callable[[int], Sequence[DataField]], wanted: Sequence[int]) -> None:
        self._fields_of = fields_of
        self._wanted = wanted
        self._found: dict[object, Sequence[_Sources]] = {}

    def sources(self, kinds: tuple[_Kind, ...], anchor: int | None) -> Sequence[_Sources]:
        """For each file of a group, the newest first, the columns that are read from it."""
        key = kinds, anchor
        if key not in self._found:
            self._found[key] = self._sources(kinds, anchor)
        return self._found[key]

    def _sources(self, kinds: tuple[_Kind, ...], anchor: int | None) -> Sequence[_Sources]:
        held = [
            {f.id for f in self._fields_of(kind.schema_id) if kind.names is None or f.name in kind.names}
            for kind in kinds
        ]
        found: list[_Sources] = [([], []) for _ in kinds]
        for id_ in self._wanted:
            having = [i for i, ids in enumerate(held) if id_ in ids]
            if blobs := [i for i in having if kinds[i].is_blob]:
                having = blobs  # a row may have its value in any of them
            elif whole := next((n for n, i in enumerate(having) if kinds[i].covers), None):
                having = having[: whole + 1]
            elif having and kinds[having[0]].covers:
                having = having[:1]
            if len(having) == 1 and kinds[having[0]].covers and not blobs:
                found[having[0]][0].append(id_)
            elif having:
                for i in having:
                    found[i][1].append(id_)
            elif anchor is not None:
                found[anchor][0].append(id_)
        return found


class _Member(NamedTuple):
    file: PlannedFile
    own: list[int]
    shared: list[int]


def joined_files(
    files: Iterable[PlannedFile], entries: pa.RecordBatch, spec_fields: Callable[[int], Sequence[DataField]]
) -> Iterator[PlannedFile]:
    """The files of entries that `with_row_groups` gave: those of a group as one file, whose ``parts`` they are.

    ``files``: of the entries, in their order.
    """
    supplied = entries.column(SUPPLIED)
    if supplied.null_count == len(supplied):
        yield from files
        return
    groups: dict[int, list[_Member]] = {}
    places: list[tuple[PlannedFile, int | None]] = []
    columns = (entries.column(name).to_pylist() for name in (SUPPLIED, SHARED, ROW_GROUP, ANCHOR))
    for file, own, shared, group, anchor in zip(files, *columns, strict=True):
        if own is None:
            places.append((file, None))
            continue
        if anchor:
            places.append((file, group))
        groups.setdefault(group, []).append(_Member(file, own, shared))
    anchored = {group for _, group in places}
    for group, members in groups.items():
        if group not in anchored:
            raise CorruptFileError("no file has the rows that its columns belong to", path=members[0].file.path)
    for file, group in places:
        yield file if group is None else _joined_file(file, _parts(file, groups[group], spec_fields))


def _parts(
    anchor: PlannedFile, members: Sequence[_Member], spec_fields: Callable[[int], Sequence[DataField]]
) -> list[PlannedFile]:
    """The parts of a group: each file with its own columns, and columns of several files as a part of these files."""
    found = [_holding(member.file, member.own, spec_fields) for member in members]
    by_files: dict[tuple[int, ...], list[int]] = {}
    for id_ in dict.fromkeys(id_ for member in members for id_ in member.shared):
        by_files.setdefault(tuple(i for i, member in enumerate(members) if id_ in member.shared), []).append(id_)
    for numbers, ids in by_files.items():
        several = sorted((members[i].file for i in numbers), key=lambda file: -(file.sequence_number or 0))
        newest = _holding(several[0], ids, spec_fields)
        found.append(
            newest._replace(
                size=sum(file.size for file in several),
                row_count=anchor.row_count,
                first_row_id=anchor.first_row_id,
                parts=tuple(_holding(file, ids, spec_fields) for file in several),
            )
        )
    return found


def _holding(file: PlannedFile, ids: Sequence[int], spec_fields: Callable[[int], Sequence[DataField]]) -> PlannedFile:
    """A file of which these columns are read."""
    fields = spec_fields(file.schema_id)
    held = tuple(f.name for f in fields) if file.write_cols is None else file.write_cols
    names = tuple(f.name for f in fields if f.id in ids and f.name in held)
    return file._replace(write_cols=names, deletion=None, file_cols=held)


def _joined_file(anchor: PlannedFile, parts: Sequence[PlannedFile]) -> PlannedFile:
    """The rows of a group. Files from which no column is read are not opened."""
    bounds = anchor.bounds
    return anchor._replace(
        size=sum(part.size for part in parts if part.write_cols),
        index_path=None,
        write_cols=None,
        instants=(),
        sequence_number=max(part.sequence_number or 0 for part in parts),
        bounds=None if bounds is None else replace(bounds, embedded_index=None),
        parts=tuple(
            part._replace(bounds=None if part.embedded_index is None else FileBounds(None, {}, part.embedded_index))
            for part in parts
            if part.write_cols
        ),
    )


def row_groups(entries: pa.RecordBatch) -> Int64s:
    """A number for each entry, the same for files whose ranges of row ids overlap, in one partition and bucket. Files
    without row ids have numbers of their own.

    ``entries``: with the columns ``partition``, ``bucket``, ``first_row_id`` and ``row_count``.
    Raises CorruptFileError: a range of row ids that there can't be.
    """
    count = entries.num_rows
    if not count:
        return np.zeros(0, np.int64)
    first = entries.column("first_row_id")
    numbered = is_true(pc.is_valid(first))
    start = to_numpy(pc.fill_null(first, scalar(-1, pa.int64())))
    rows = to_numpy(entries.column("row_count"))
    impossible = numbered & ((start < 0) | (rows < 0) | (rows > _MOST_ROWS) | (start > _MOST_ROWS))
    if impossible.any():
        at = int(np.flatnonzero(impossible)[0])
        raise CorruptFileError(f"a data file has {rows[at]} rows from row id {start[at]} on", field="_FIRST_ROW_ID")
    last = start + np.maximum(rows, 1) - 1
    partition = to_numpy(pc.dictionary_encode(entries.column("partition")).indices).astype(np.int64)
    bucket = to_numpy(entries.column("bucket"))
    order = np.lexsort((last, start, ~numbered, bucket, partition))
    same = np.ones(count - 1, np.bool_)
    for values in (partition, bucket, numbered):
        same &= values[order][1:] == values[order][:-1]
    places = np.flatnonzero(np.append(True, ~same))
    reach = np.concatenate([np.maximum.accumulate(part) for part in np.split(last[order], places[1:])])
    begins = np.ones(count, np.bool_)
    begins[1:] = ~(same & numbered[order][1:] & (start[order][1:] <= reach[:-1]))
    found = np.empty(count, np.int64)
    found[order] = np.cumsum(begins) - 1
    return found


def all_of_group(keep: Flags, entries: pa.RecordBatch) -> Flags:
    """Which entries are in a group all of which stays. ``entries``: as `with_row_groups` gives them."""
    groups = to_numpy(entries.column(ROW_GROUP))
    return keep if keep.all() else np.bincount(groups, ~keep)[groups] == 0


def any_of_group(found: Flags, entries: pa.RecordBatch) -> Flags:
    """Which entries are in a group of which any is found."""
    groups = to_numpy(entries.column(ROW_GROUP))
    return np.bincount(groups, found)[groups] > 0 if found.any() else found
