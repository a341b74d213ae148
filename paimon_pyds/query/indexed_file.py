"""One file of a plan, asked without reading its data: the rows its filter keeps, what indexes know of a column."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack

from pyroaring import BitMap

from paimon_pyds.caching import cached_property
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.evolution.columns import Evolution, same_type
from paimon_pyds.index.aggregate import IndexedColumn, index_columns
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.open_indexes import open_embedded_index, open_side_index
from paimon_pyds.index.order import order_codec
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.deletions import deleted_rows
from paimon_pyds.read.file import file_evolution
from paimon_pyds.scan.file_bounds import KnownFile
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import FileTask, ReadSpec
from paimon_pyds.types import DataField

__all__ = ["IndexedFile"]


class IndexedFile:
    """What metadata, file indexes and the deletion vector tell of a file; each is read when first asked for.

    Raises (every method):
        CorruptFileError: an index or the deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
    """

    def __init__(self, spec: ReadSpec, file: KnownFile) -> None:
        self._spec = spec
        self._bytes = 0
        self.file = file
        self.task: FileTask = file.task
        self.asked_index = False
        self._opened: list[FileIndex] = []
        self._in_use = ExitStack()

    @property
    def bytes_read(self) -> int:
        """What the storage was asked for: indexes and deletion vectors. Indexes in manifests cost nothing more."""
        return self._bytes + sum(index.bytes_read for index in self._opened)

    @property
    def settled(self) -> bool:
        """Whether metadata alone tells how many rows there are."""
        deletion = self.task.deletion
        return self.file.predicate is Const.TRUE and (deletion is None or deletion.cardinality is not None)

    def close(self) -> None:
        """Let go of indexes, which the next query may use. What was asked is still known."""
        self._bytes = self.bytes_read
        self._opened.clear()
        self._in_use.close()
        self.__dict__.pop("_indexes", None)

    @cached_property
    def _indexes(self) -> list[FileIndex]:
        if not self._spec.use_index:
            return []
        found = []
        if self.file.embedded is not None:
            found.append(self._in_use.enter_context(open_embedded_index(self.file.embedded, self.task.name)))
        if self.task.index_path is not None:
            try:
                self._opened.append(self._in_use.enter_context(open_side_index(self._spec.io, self.task.index_path)))
            except FileNotFoundError as error:
                raise SnapshotNotFoundError.of_file(self.task.index_path) from error
        return [*found, *self._opened]

    def _evolution(self, fields: tuple[DataField, ...]) -> Evolution:
        return file_evolution(self._spec, self.task, fields)

    # ------------------------------------------------------------------------------------------------------- rows

    @cached_property
    def _deleted(self) -> BitMap:
        deletion = self.task.deletion
        if deletion is None:
            return BitMap()
        self._bytes += deletion.length + 8
        try:
            return deleted_rows(self._spec.io, deletion, self.task.row_count)
        except FileNotFoundError as error:
            raise SnapshotNotFoundError.of_file(deletion.path) from error

    def count(self) -> int | None:
        """How many live rows the filter keeps; None when only reading can tell."""
        if self.settled:
            deletion = self.task.deletion
            return self.task.row_count - (0 if deletion is None else deletion.cardinality or 0)
        rows = self.rows
        return None if rows is None else rows.count(self.task.row_count)

    @cached_property
    def rows(self) -> RowSelection | None:
        """Exactly the live rows that the filter keeps; None when only reading can tell."""
        selection, exact = self._matching
        return selection.minus(self._deleted, self.task.row_count) if exact else None

    @cached_property
    def candidates(self) -> RowSelection:
        """The live rows that the filter may keep."""
        return self._matching[0].minus(self._deleted, self.task.row_count)

    @cached_property
    def _matching(self) -> tuple[RowSelection, bool]:
        """Rows that the filter may keep, deletions aside, and whether it is these exactly."""
        predicate = self.file.predicate
        if predicate is Const.TRUE:
            return RowSelection.ALL, True
        evolution = self._evolution(self._spec.filter_fields)
        devolved = evolution.devolve(predicate)
        precise = evolution.devolves_exactly(predicate)
        if devolved in (Const.FALSE, Const.UNKNOWN):
            return RowSelection.NONE, True
        if devolved is Const.TRUE:
            return RowSelection.ALL, precise
        selection, exact = RowSelection.ALL, False
        for index in self._indexes:
            self.asked_index = True
            result = index.evaluate(devolved, self.task.row_count)
            selection, exact = selection & result.selection, exact or result.exact
        return selection, (exact and precise) or selection.is_none

    # ---------------------------------------------------------------------------------------------------- columns

    def columns(self, field: DataField, wanted: tuple[str, ...]) -> list[IndexedColumn]:
        """What indexes of the wanted types know of a column, cheapest first.

        There are none for a column that this file holds in another type, whose indexes tell no values, or that has the
        name of a map key.
        """
        evolution = self._evolution((field,))
        source = evolution.sources[0]
        file = None if source is None else evolution.file_fields[source]
        if file is None or file.name in evolution.unasked or not same_type(file.type, field.type):
            return []
        if order_codec(field.type).codec is None:
            return []
        rows = self.task.row_count
        found = [c for index in self._indexes for c in index_columns(index, file.name, file.type, wanted, rows)]
        self.asked_index = self.asked_index or bool(found)
        return found

    def without_indexes(self) -> FileTask:
        """The file, to be read at `candidates` only: indexes and deletions are in that already."""
        positions = self.candidates.positions
        selection = None if positions is None else positions.serialize()
        return dataclasses.replace(self.task, selection=selection, index_path=None, deletion=None)
