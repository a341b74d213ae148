"""Manifest entries whose columns are made when somebody looks at them, and only of the rows that are left by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, from_numpy, pc, to_numpy


class LazyEntries:
    """Some entries. Has what tests of entries use of a ``pa.RecordBatch``.

    Args:
        schema: the columns, of `ENTRY_SCHEMA`.
        count: how many entries there are.
        make: gives a column by its name: of some rows, or of all.
        rows: those that are left, ascending; all by default.
    """

    def __init__(
        self, schema: pa.Schema, count: int, make: Callable[[str, Int64s | None], pa.Array], rows: Int64s | None = None
    ) -> None:
        self.schema = schema
        self.num_rows = count if rows is None else len(rows)
        self._make = make
        self._rows = rows
        self._made: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """A column of the entries."""
        if name not in self._made:
            self._made[name] = self._make(name, self._rows)
        return self._made[name]

    def take(self, rows: pa.Array) -> LazyEntries:
        """Some of the entries, in order."""
        return self._some(to_numpy(rows))

    def filter(self, keep: Flags) -> LazyEntries:
        """The entries that are wanted."""
        return self if keep.all() else self._some(np.flatnonzero(keep))

    def _some(self, rows: Int64s) -> LazyEntries:
        own, made = rows if self._rows is None else self._rows[rows], self._made

        def make(name: str, wanted: Int64s | None) -> pa.Array:
            if wanted is own and name in made:
                return pc.take(made[name], from_numpy(rows))
            return self._make(name, wanted)

        return LazyEntries(self.schema, len(rows), make, own)

    def batch(self) -> pa.RecordBatch:
        """The entries with all their columns."""
        return pa.RecordBatch.from_arrays([self.column(name) for name in self.schema.names], schema=self.schema)


KeepEntries: TypeAlias = Callable[["pa.RecordBatch | LazyEntries"], Flags]
"""Which of some entries are wanted."""
