"""RowSelection: which rows of one data file are wanted.

The answer of a file index, of a deletion vector, and of both together. Three forms, as the file-index specification has
them (REMAIN, SKIP, positions), closed under and, or, minus.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass

STRIP_BINS = 120
"""Parts into which a file's rows are cut to show the distribution of the wanted ones."""


def bitmap_of(positions: npt.NDArray[np.integer]) -> BitMap:
    """The bitmap of positions, each in 0 … 2³²-1."""
    return BitMap(array("I", positions.astype(np.uint32).tobytes()))  # several times quicker than from a numpy array


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Rows of a file by position (0-based, in file order).

    ``positions`` are a 32-bit roaring bitmap that is not changed afterwards; None means every row. An empty set of
    positions always equals ``NONE``.
    """

    positions: BitMap | None

    ALL: ClassVar[RowSelection]
    NONE: ClassVar[RowSelection]

    @staticmethod
    def of(positions: Iterable[int] | npt.NDArray[np.integer]) -> RowSelection:
        """The rows at these positions (each in 0 … 2³²-1)."""
        if isinstance(positions, np.ndarray) and positions.dtype == np.uint32:
            return RowSelection(bitmap_of(positions))
        return RowSelection(BitMap(positions))

    @property
    def is_all(self) -> bool:
        """Every row is wanted (REMAIN)."""
        return self.positions is None

    @property
    def is_none(self) -> bool:
        """No row is wanted (SKIP)."""
        return self.positions is not None and not self.positions

    def __and__(self, other: RowSelection) -> RowSelection:
        if self.positions is None:
            return other
        if other.positions is None:
            return self
        return RowSelection(self.positions & other.positions)

    def __or__(self, other: RowSelection) -> RowSelection:
        if self.positions is None or other.positions is None:
            return RowSelection.ALL
        return RowSelection(self.positions | other.positions)

    def minus(self, deleted: BitMap, row_count: int) -> RowSelection:
        """These rows without the deleted ones; ``row_count`` is the number of rows in the file."""
        if not deleted:
            return self
        if self.positions is None:
            return RowSelection(deleted.flip(0, row_count))
        return RowSelection(self.positions - deleted)

    def invert(self, row_count: int) -> RowSelection:
        """The other rows of a file of ``row_count`` rows."""
        if self.positions is None:
            return RowSelection.NONE
        if not self.positions:
            return RowSelection.ALL
        return RowSelection(self.positions.flip(0, row_count))

    def count(self, row_count: int) -> int:
        """How many rows of a file of ``row_count`` rows are wanted."""
        return row_count if self.positions is None else len(self.positions)

    def first(self, n: int, row_count: int) -> RowSelection:
        """The ``n`` wanted rows with the lowest positions, of a file of ``row_count`` rows."""
        if n >= self.count(row_count):
            return self
        return RowSelection(BitMap(range(n)) if self.positions is None else BitMap(self.positions[:n]))

    def to_array(self, row_count: int) -> Int64s:
        """The wanted positions, ascending, as int64."""
        if self.positions is None:
            return np.arange(row_count, dtype=np.int64)
        return np.frombuffer(self.positions.to_array(), dtype=np.uint32).astype(np.int64)

    def window(self, start: int, stop: int) -> RowSelection:
        """The selection of rows start … stop-1, renumbered to begin at 0."""
        if self.positions is None:
            return self
        inside = self.positions & BitMap(range(start, stop))
        if len(inside) == stop - start:
            return RowSelection.ALL
        return RowSelection(inside.shift(-start)) if start else RowSelection(inside)

    def strip(self, row_count: int) -> bytes:
        """The distribution of the wanted rows in a file of ``row_count`` rows: `STRIP_BINS` parts of equal length, in
        file order.

        A part is 0 when it has no wanted row, else 1 … 255 for few … all of its rows.
        """
        if self.positions is None or row_count <= 0:
            return b"\xff" * STRIP_BINS
        edges = [row_count * i // STRIP_BINS for i in range(STRIP_BINS + 1)]
        before = np.array([self.positions.rank(e - 1) if e else 0 for e in edges], np.int64)
        rows, found = np.diff(edges), np.diff(before)
        share = found / np.maximum(rows, 1)
        if row_count < STRIP_BINS:  # parts without a row of their own show that of their neighbour on the left
            at = (np.arange(STRIP_BINS) * row_count) // STRIP_BINS
            share = np.array([float(int(row) in self.positions) for row in at])
        return np.where(share > 0, 1 + np.floor(share * 254), 0).astype(np.uint8).tobytes()

    def __repr__(self) -> str:
        if self.positions is None:
            return "RowSelection.ALL"
        return f"RowSelection({len(self.positions)} rows)"


RowSelection.ALL = RowSelection(None)
RowSelection.NONE = RowSelection(BitMap())
