"""What readers of formats without statistics have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.format import FoundRows
from paimon_pyds.sql.predicate.tree import Predicate


class PlainReader:
    """The part of a `FormatReader` that says what is known before rows are read: no more than their number."""

    row_count: int

    def groups(self) -> Sequence[tuple[int, int]]:
        return [(0, self.row_count)] if self.row_count else []

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        return RowSelection.ALL

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        return None

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        return None

    def close(self) -> None:
        pass


class NoWriter:
    """In place of a `FormatWriter`, of formats that `by_name` gives nobody."""
