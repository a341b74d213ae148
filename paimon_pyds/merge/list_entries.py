"""The elements of lists and the entries of maps, each with the row it is in, and lists and maps of them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.formats.arrays import list_window
from paimon_pyds.merge.grouped_rows import Flags, Positions, flags_buffer, is_valid

_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Entries:
    """Elements of lists or entries of maps, list after list.

    Attributes:
        row: the number of the list that each is in.
        columns: the elements; of maps, the keys and the values.
    """

    row: Positions
    columns: tuple[pa.Array, ...]

    def take(self, at: Positions) -> tuple[pa.Array, ...]:
        """The columns of some entries."""
        indices = from_numpy(at)
        return tuple(column.take(indices) for column in self.columns)


def entries_of(values: pa.Array) -> Entries:
    """What is in the lists or maps of an array; NULL has nothing in it."""
    rows = np.flatnonzero(is_valid(values))
    there = values.drop_null() if values.null_count else values
    offsets = to_numpy(there.offsets).astype(np.int64)
    children = (there.keys, there.items) if pa.types.is_map(values.type) else (there.values,)
    return Entries(np.repeat(rows, offsets[1:] - offsets[:-1]), tuple(list_window(there, child) for child in children))


def from_entries(type_: pa.DataType, columns: Sequence[pa.Array], lengths: Positions, there: Flags) -> pa.Array:
    """Lists or maps of these lengths; NULL where not ``there``.

    Raises:
        UnsupportedError: more elements than one Arrow array can have.
    """
    offsets = np.append(0, np.cumsum(np.where(there, lengths, 0)))
    if offsets[-1] > _MOST:
        raise UnsupportedError(
            f"{offsets[-1]} elements of lists are too many to merge at once", hint="read fewer columns or rows at once"
        )
    child = columns[0]
    if pa.types.is_map(type_):
        child = pa.StructArray.from_arrays(list(columns), fields=[type_.key_field, type_.item_field])
    buffers = [flags_buffer(there), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(type_, len(there), buffers, children=[child])
