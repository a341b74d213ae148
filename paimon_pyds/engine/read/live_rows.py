"""The live and matching rows of a data file, by its indexes, its deletion vector and the plan's selection.

Reads, searches for rows to delete, answers without data and explanations all use this module, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import scalar
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import ReadCounters
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.metadata.evolution.file_columns import Evolution, plan_evolution
from paimon_pyds.metadata.partition import partition_scalars
from paimon_pyds.metadata.planned_file import DeletionFile, PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.tree import Const, Predicate
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.index.evaluate import FileIndex, IndexResult


@dataclass(slots=True)
class SectionTrace:
    """What happened to files that were merged with one another.

    Attributes:
        rows: rows in all of them.
        candidates: rows that may make the filter true by indexes and statistics, each taken alone; None where that was
            not found out: the filter is on keys only, or everything is merged (``reason``).
        candidate_keys: how many keys these have: only their versions were read.
        versions: rows that were read to be merged.
        rows_returned: number of returned rows.
        reason: why everything was merged, though there is a filter on values.
    """

    rows: int
    candidates: int | None = None
    candidate_keys: int | None = None
    versions: int = 0
    rows_returned: int = 0
    reason: str = ""


@dataclass(slots=True)
class FileTrace:
    """The steps and costs of one file that was read, or whose indexes were evaluated.

    Attributes:
        path: the data file.
        rows: how many rows it has.
        rows_after_index, rows_after_deletions, rows_after_pages: positions left after each step; None before it.
        rows_returned: number of returned rows.
        millis: time spent on it, without waiting for the consumer.
        index_results: the answers of its indexes, in the order of evaluation.
        counters: requests and bytes read from storage.
        section: of a file whose rows were merged with others'; these share it. ``rows_returned`` are then the versions
            that were read. Where ``section.candidates`` is known, the rows left after each step are those that may make
            the filter true.
    """

    path: str
    rows: int
    rows_after_index: int | None = None
    rows_after_deletions: int | None = None
    rows_after_pages: int | None = None
    rows_returned: int = 0
    millis: float = 0.0
    index_results: list[IndexResult] = field(default_factory=list)
    counters: ReadCounters = field(default_factory=ReadCounters)
    section: SectionTrace | None = None

    def start_over(self) -> None:
        """Forget all that was noted, as the file is read again."""
        fresh = FileTrace(self.path, self.rows)
        for each in fields(self):
            setattr(self, each.name, getattr(fresh, each.name))


_VECTOR_FRAME = 8
"""Bytes of a vector's size and checksum."""


def file_evolution(spec: ReadSpec, file: PlannedFile, fields: Sequence[DataField]) -> Evolution:
    """How to turn the columns of a file into ``fields`` of the table.

    ``spec``: has the columns of the file's schema. ``fields``: columns of the table.
    Raises SchemaError: a column's type was changed in a way that Paimon has no cast for.
    """
    trims = any(formats.traits_of(each.path).trims_char for each in file.parts or (file,))
    known = partition_scalars(spec.partition_fields, file.partition) if spec.partition_fields else {}
    if file.ordered_by is not None:
        known = {**known, SEQUENCE_NUMBER: scalar(file.ordered_by, pa.int64())}
    file_fields = spec.fields_of(file) if file.parts else spec.schemas[file.schema_id]
    return plan_evolution(file_fields, fields, file.write_cols, trims_char=trims, partition=known, zone=spec.zone)


def deleted_rows(io: FileIO, deletion: DeletionFile | None, row_count: int) -> BitMap:
    """The positions in a deletion vector; empty without one.

    ``deletion``: location of the vector.

    Raises:
        CorruptFileError: the vector is damaged, or holds a position that is no row of the file.
        FileNotFoundError: its file is gone.
        StorageError: it can't be read.
    """
    if deletion is None:
        return BitMap()
    from paimon_pyds.metadata.deletion.vector import read_vector
    from paimon_pyds.storage.byte_source import FileSource

    source = FileSource(io, deletion.path, immutable=True)
    positions = read_vector(source, deletion.offset, deletion.length, deletion.cardinality, row_count).positions
    source.keep()
    return positions


def vector_bytes(file: PlannedFile) -> int:
    """Bytes that are read for a file's deletion vector; 0 where it has none."""
    return 0 if file.deletion is None else file.deletion.length + _VECTOR_FRAME


def planned_rows(file: PlannedFile) -> RowSelection:
    """The rows of a file that its plan selects, deleted ones included. Raises CorruptFileError."""
    selection = RowSelection.ALL
    if file.selection is not None:
        from paimon_pyds.index.roaring.codec import decode_bitmap

        selection = RowSelection(decode_bitmap(file.selection, path=file.path))
    if file.window is not None:
        selection = selection & RowSelection.of(range(*file.window))
    return selection


def live_rows(io: FileIO, file: PlannedFile, selection: RowSelection = RowSelection.ALL) -> RowSelection:
    """The selected rows of a file that are not deleted, whatever a filter says of them.

    ``file``: the data file; its deletion vector is read when it has one. ``selection``: positions in the file.
    Raises CorruptFileError, StorageError: see `deleted_rows`; SnapshotNotFoundError: the vector is gone.
    """
    if file.deletion is None or selection.is_none:
        return selection
    with file.must_exist():
        return selection.minus(deleted_rows(io, file.deletion, file.row_count), file.row_count)


class LiveRows:
    """The live rows of one file that may match a filter, with the steps that selected them.

    Indexes and the deletion vector are read at their first use; ``trace`` records the results.

    ``spec``: its predicate is the filter. ``trace``: records the steps; a new one by default.

    Raises:
        UnsupportedError: the file's rows are merged with those of other files: alone they are not the table's.

    All methods raise CorruptFileError for a damaged index or vector, FileNotFoundError for one that is gone and
    StorageError for one that can't be read.
    """

    def __init__(self, spec: ReadSpec, file: PlannedFile, trace: FileTrace | None = None) -> None:
        if file.merged:
            raise UnsupportedError(f"rows of {file.path} have to be merged with those of other files, not read alone")
        self.spec = spec
        self.file = file
        self.trace = FileTrace(file.path, file.row_count) if trace is None else trace
        self._in_use = ExitStack()
        self.start: tuple[bytes, int] | None = None
        """The first bytes and the size of `side_index`, where they were read already."""

    @cached_property
    def parts(self) -> list[LiveRows]:
        """The same of each file that holds columns of the filter, where the file's rows are joined: their rows may
        match that part of the filter which is on their columns."""
        found = []
        for part in self.file.parts:
            ids = {field.id for field in self.spec.fields_of(part)}
            fields = tuple(field for field in self.spec.filter_fields if field.id in ids)
            if fields and not part.parts:
                found.append(LiveRows(replace(self.spec, filter_fields=fields), part))
        return found

    def holding(self, field_id: int) -> LiveRows:
        """The same of the file that holds a column, where the file's rows are joined; else this."""
        for part in self.file.parts:
            if any(field.id == field_id for field in self.spec.fields_of(part)):
                return next((live for live in self.parts if live.file is part), LiveRows(self.spec, part))
        return self

    @cached_property
    def filtering(self) -> Evolution:
        """How to get the filter's columns from those of the file."""
        return file_evolution(self.spec, self.file, self.spec.filter_fields)

    @cached_property
    def devolved(self) -> Predicate:
        """The filter on the file's own columns; all matches of the filter match it."""
        return self.filtering.devolve(self.spec.predicate)

    @property
    def matches_none(self) -> bool:
        """Whether the filter is true for no row of the file, by its schema and its partition."""
        return self.devolved in (Const.FALSE, Const.UNKNOWN)

    @cached_property
    def matches_all(self) -> bool:
        """Whether the filter is true for every row of the file, by its schema and its partition."""
        return self.devolved is Const.TRUE and self._devolves_exactly

    @cached_property
    def _devolves_exactly(self) -> bool:
        return self.filtering.devolves_exactly(self.spec.predicate)

    @cached_property
    def indexes(self) -> list[FileIndex]:
        """The file's index containers, opened: the embedded one, the side file. None of them when they are not used."""
        embedded = self.file.embedded_index
        if not self.spec.use_index or embedded is None is self.file.index_path:
            return []
        from paimon_pyds.index.evaluate import open_embedded_index, open_side_index  # the readers of all kinds

        found = []
        if embedded is not None:
            found.append(self._in_use.enter_context(open_embedded_index(embedded, self.file.name)))
        if self.file.index_path is not None:
            start, self.start = self.start, None
            found.append(self._in_use.enter_context(open_side_index(self.spec.io, self.file.index_path, start)))
        return found

    @property
    def unread_index(self) -> str | None:
        """`side_index`, unless some of it is in memory."""
        from paimon_pyds.index.evaluate import is_known

        path = self.side_index
        return None if path is None or is_known(self.spec.io, path) else path

    @property
    def has_whole_index(self) -> bool:
        """Whether all of `side_index` is in memory, or none is evaluated."""
        if self.side_index is None:
            return not self.file.parts
        if self.start is not None:
            return len(self.start[0]) == self.start[1]
        from paimon_pyds.index.evaluate import is_held

        return is_held(self.spec.io, self.side_index)

    @property
    def side_index(self) -> str | None:
        """The side file whose indexes are evaluated; None where none is, and for files whose rows are joined."""
        if self.file.parts or not self.spec.use_index or self.matches_none or self.devolved is Const.TRUE:
            return None
        return self.file.index_path

    def close(self) -> None:
        """Let go of the open indexes, which the next query may use."""
        self.__dict__.pop("indexes", None)
        self._in_use.close()
        for part in self.__dict__.get("parts", ()):
            part.close()

    @property
    def index_bytes(self) -> int:
        """Bytes of indexes read from storage; embedded ones came with the manifest and cost nothing more."""
        if self.file.parts:
            return sum(part.index_bytes for part in self.parts)
        opened = self.__dict__.get("indexes")
        return opened[-1].bytes_read if opened and self.file.index_path is not None else 0

    @cached_property
    def _by_index(self) -> tuple[RowSelection, bool]:
        """Positions that may match, deleted ones included, and whether an index says that all of them match."""
        if self.matches_none:
            self.trace.rows_after_index = 0
            return RowSelection.NONE, True
        file, selection, exact = self.file, planned_rows(self.file), False
        if self.parts:
            return self._by_indexes_of_parts(selection)
        if self.devolved is not Const.TRUE:
            before = self.index_bytes
            for result in self._ask_indexes():
                self.trace.index_results.append(result)
                selection, exact = selection & result.selection, exact or result.exact
            self.trace.counters.index_bytes += self.index_bytes - before
            self.trace.counters.bytes_read += self.index_bytes - before
        self.trace.rows_after_index = selection.count(file.row_count)
        return selection, exact

    def _by_indexes_of_parts(self, selection: RowSelection) -> tuple[RowSelection, bool]:
        exact = False
        for part in self.parts:
            found, all_match = part._by_index
            selection = selection & found
            exact = exact or (all_match and part._devolves_exactly)
            self.trace.index_results += part.trace.index_results
            self.trace.counters.add(part.trace.counters)
        self.trace.rows_after_index = selection.count(self.file.row_count)
        return selection, exact

    def _ask_indexes(self) -> list[IndexResult]:
        try:
            return [index.evaluate(self.devolved, self.file.row_count) for index in self.indexes]
        except BaseException:
            self._in_use.pop_all()  # not for the next query: a damaged file may be replaced by a copy of what it was
            raise

    @property
    def by_index(self) -> RowSelection:
        """Planned rows that may match by the indexes, deleted ones included."""
        return self._by_index[0]

    @property
    def index_is_exact(self) -> bool:
        """Whether an index says that the filter on the file's own columns is true for all `candidates`."""
        return self._by_index[1]

    @cached_property
    def candidates(self) -> RowSelection:
        """The live rows that the filter may keep."""
        selection = self._by_index[0]
        deletion, rows = self.file.deletion, self.file.row_count
        if deletion is not None and not selection.is_none:
            selection = selection.minus(deleted_rows(self.spec.io, deletion, rows), rows)
            self.trace.counters.bytes_read += vector_bytes(self.file)
        self.trace.rows_after_deletions = selection.count(rows)
        return selection

    @property
    def is_exact(self) -> bool:
        """Whether all `candidates` match the filter, so that no data has to be read to know."""
        selection, exact = self._by_index
        return self.matches_all or selection.is_none or (exact and self._devolves_exactly)

    @property
    def rows(self) -> RowSelection | None:
        """Exactly the live rows that match the filter; None if the data has to be read for that."""
        return self.candidates if self.is_exact else None
