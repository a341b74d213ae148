"""Tables of data evolution: rows whose columns are in several files, and which file each column is read from.

Files of one partition and bucket whose ranges of row ids overlap hold the same rows. A column's values are those of the
newest file that has its field id. (Source: Paimon documentation, append-table/data-evolution; Java's
DataEvolutionSplitRead.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.split import FileBounds, PlannedFile

ROW_GROUP, ANCHOR, SUPPLIED = "row_group", "anchor", "supplied_columns"
"""Columns of manifest entries that `with_row_groups` adds."""
_BLOBS = ".blob"
"""How names of files end that hold a BLOB column."""
_VECTORS = ".vector."
"""What names of files have in them that hold VECTOR columns alone."""


def with_row_groups(
    entries: pa.RecordBatch, table_fields: Sequence[DataField], fields_of: Callable[[int], Sequence[DataField]]
) -> pa.RecordBatch:
    """Manifest entries of a table of data evolution, with the columns `ROW_GROUP`, `ANCHOR` and `SUPPLIED`.

    ``ROW_GROUP`` numbers the files that hold the same rows. Of each group one file is the ``ANCHOR``: deletion vectors
    name it. ``SUPPLIED`` are the ids of the table's columns that are read from a file; NULL in files that are alone,
    from which all are read. Columns that no file of a group has count as the anchor's. Files of BLOB columns are
    left out: columns of that type are refused.

    Args:
        entries: the live entries of whole partitions, with the columns `PLACE_COLUMNS`.
        table_fields: the table's columns.
        fields_of: gives the columns of a schema id.

    Raises:
        CorruptFileError: files of one group do not hold the same rows.
    """
    blobs = pc.ends_with(entries.column("file_name"), _BLOBS)
    if pc.any(blobs).as_py():
        entries = pc.filter(entries, pc.invert(blobs))
    groups = row_groups(entries)
    anchors = np.ones(entries.num_rows, np.bool_)
    supplied: list[Sequence[int] | None] = [None] * entries.num_rows
    several = np.flatnonzero(np.bincount(groups)[groups] > 1) if len(groups) else groups
    if len(several):
        held = _ColumnsHeld(fields_of, [field.id for field in table_fields])
        found, anchors[several] = _supplied(entries.take(from_numpy(several)), groups[several], held)
        for place, ids in zip(several.tolist(), found, strict=True):
            supplied[place] = ids
    columns = (
        (ROW_GROUP, from_numpy(groups)),
        (ANCHOR, array(anchors, pa.bool_())),
        (SUPPLIED, array(supplied, pa.list_(pa.int32()))),
    )
    for name, column in columns:
        entries = entries.append_column(name, column)
    return entries


def _supplied(entries: pa.RecordBatch, groups: Int64s, held: _ColumnsHeld) -> tuple[list[list[int]], Flags]:
    """For each file of some groups the ids of the columns that are read from it, and whether it is the anchor."""
    names, schema_ids, written = (entries.column(c).to_pylist() for c in ("file_name", "schema_id", "write_cols"))
    sequences, start, rows = (to_numpy(entries.column(c)) for c in ("max_sequence_number", "first_row_id", "row_count"))
    supplied: list[list[int]] = [[]] * len(names)
    anchors = np.zeros(len(names), np.bool_)
    order = np.lexsort((-sequences, groups))  # stable: files with equal numbers stay in the manifests' order
    for group in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if (start[group] != start[group[0]]).any() or (rows[group] != rows[group[0]]).any():
            raise CorruptFileError(
                f"data files with overlapping row ids hold different rows: {', '.join(names[i] for i in group[:4])}",
                field="_FIRST_ROW_ID",
            )
        members = group.tolist()
        anchor = min(members, key=lambda i: (_VECTORS in names[i], sequences[i], names[i]))
        anchors[anchor] = True
        kinds = tuple((schema_ids[i], None if written[i] is None else tuple(written[i])) for i in members)
        for i, ids in zip(members, held.supplied(kinds, members.index(anchor)), strict=True):
            supplied[i] = ids
    return supplied, anchors


class _ColumnsHeld:
    """Which columns files of some schemas hold, and which are read from each. Few groups differ in that."""

    def __init__(self, fields_of: Callable[[int], Sequence[DataField]], wanted: Sequence[int]) -> None:
        self._fields_of = fields_of
        self._wanted = wanted
        self._found: dict[object, list[list[int]]] = {}

    def supplied(self, kinds: Sequence[tuple[int, tuple[str, ...] | None]], anchor: int) -> list[list[int]]:
        """For each file of a group, the newest first, the ids of the columns that are read from it."""
        key = kinds, anchor
        if key not in self._found:
            left = dict.fromkeys(self._wanted)
            found: list[list[int]] = []
            for schema_id, names in kinds:
                held = {f.id for f in self._fields_of(schema_id) if names is None or f.name in names}
                found.append([id_ for id_ in left if id_ in held])
                left = dict.fromkeys(id_ for id_ in left if id_ not in held)
            found[anchor] += left
            self._found[key] = found
        return self._found[key]


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
    parts: dict[int, list[PlannedFile]] = {}
    places: list[tuple[PlannedFile, int | None]] = []
    columns = (supplied.to_pylist(), entries.column(ROW_GROUP).to_pylist(), entries.column(ANCHOR).to_pylist())
    for file, ids, group, anchor in zip(files, *columns, strict=True):
        if ids is None:
            places.append((file, None))
            continue
        if anchor:
            places.append((file, group))
        wanted = set(ids)
        held = file.write_cols
        names = tuple(
            f.name for f in spec_fields(file.schema_id) if f.id in wanted and (held is None or f.name in held)
        )
        parts.setdefault(group, []).append(file._replace(write_cols=tuple(names), deletion=None))
    for file, group in places:
        yield file if group is None else _joined_file(file, parts[group])


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
    """
    count = entries.num_rows
    if not count:
        return np.zeros(0, np.int64)
    first = entries.column("first_row_id")
    numbered = is_true(first.is_valid())
    start = to_numpy(pc.fill_null(first, scalar(-1, pa.int64())))
    last = start + np.maximum(to_numpy(entries.column("row_count")), 1) - 1
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
