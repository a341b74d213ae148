"""One file of a plan, asked without reading its data: the rows its filter keeps, what indexes know of a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paimon_pyds.caching import cached_property
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.evolution.columns import same_type
from paimon_pyds.index.aggregate import IndexedColumn, index_columns
from paimon_pyds.index.keys import order_codec
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.live_rows import LiveRows, file_evolution
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.types import DataField

__all__ = ["IndexedFile"]


class IndexedFile:
    """What metadata, file indexes and the deletion vector tell of a file; each is read when first asked for.

    Args:
        spec: of the plan.
        file: one of its files, with its residual filter and its bounds.

    Raises (every method):
        CorruptFileError: an index or the deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
    """

    def __init__(self, spec: ReadSpec, file: PlannedFile) -> None:
        self.file = file
        self.has_asked_index = False
        self._spec = spec
        self._index_bytes = 0

    @cached_property
    def _live(self) -> LiveRows:
        return LiveRows(self._spec.for_file(self.file), self.file)

    @property
    def bytes_read(self) -> int:
        """What the storage was asked for: indexes and deletion vectors. Indexes in manifests cost nothing more."""
        if "_live" not in self.__dict__:  # metadata told all
            return 0
        counters = self._live.trace.counters
        return counters.bytes_read - counters.index_bytes + max(self._index_bytes, self._live.index_bytes)

    @property
    def has_no_filter(self) -> bool:
        """Whether metadata says that the filter keeps every row."""
        return self.file.residual is Const.TRUE

    @property
    def is_counted_by_metadata(self) -> bool:
        """Whether metadata alone tells how many rows there are."""
        return self.has_no_filter and self.file.live_row_count is not None

    def close(self) -> None:
        """Let go of indexes and what they keep in memory. What was asked is still known."""
        if "_live" in self.__dict__:
            self._index_bytes = self._live.index_bytes
            self._live.close()

    # ------------------------------------------------------------------------------------------------------- rows

    def count(self) -> int | None:
        """How many live rows the filter keeps; None when only reading can tell."""
        if self.is_counted_by_metadata:
            return self.file.live_row_count
        rows = self.rows
        return None if rows is None else rows.count(self.file.row_count)

    @property
    def rows(self) -> RowSelection | None:
        """Exactly the live rows that the filter keeps; None when only reading can tell."""
        with self._asking():
            return self._live.rows

    @property
    def candidates(self) -> RowSelection:
        """The live rows that the filter may keep."""
        with self._asking():
            return self._live.candidates

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise SnapshotNotFoundError.of_file(error.filename or self.file.path) from error
        self.has_asked_index = self.has_asked_index or bool(self._live.trace.index_results)

    # ---------------------------------------------------------------------------------------------------- columns

    def columns(self, field: DataField, index_types: tuple[str, ...]) -> list[IndexedColumn]:
        """What indexes of some types know of a column, cheapest first.

        There are none for a column that this file holds in another type, whose indexes tell no values, or that has the
        name of a map key.
        """
        evolution = file_evolution(self._live.spec, self.file, (field,))
        source = evolution.sources[0]
        own = None if source is None else evolution.file_fields[source]
        if own is None or own.name in evolution.without_index or not same_type(own.type, field.type):
            return []
        if order_codec(field.type).codec is None:
            return []
        rows = self.file.row_count
        with self._asking():
            indexes = self._live.indexes
        found = [c for index in indexes for c in index_columns(index, own.name, own.type, index_types, rows)]
        self.has_asked_index = self.has_asked_index or bool(found)
        return found

    def reading_candidates(self) -> PlannedFile:
        """The file, to be read at `candidates` only: indexes and deletions are in that already."""
        return self.file.selecting(self.candidates)
