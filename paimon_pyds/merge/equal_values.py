"""Elements of lists and entries of maps; and numbers that are equal where values are, whatever their types.

NULL equals NULL, NaN equals NaN, -0.0 is another value than 0.0 (as ``Double.equals`` in Java); the entries of a map
have no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


Codes = npt.NDArray[np.int64]


def equality_codes(values: pa.Array, *, are_sets: bool = False) -> Codes:
    """A number for each value, from 0 to less than one more than there are values; equal values have the same.

    With ``are_sets``, the elements of lists have no order.
    """
    type_ = values.type
    if pa.types.is_struct(type_):
        return _struct_codes(values)
    if pa.types.is_map(type_):
        entries = entries_of(values)
        keys, items = (equality_codes(column) for column in entries.columns)
        order = np.lexsort([keys, entries.row])
        return _sequence_codes(values, entries.row, pair_codes([keys[order], items[order]]))
    if pa.types.is_list(type_):
        elements = entries_of(values)
        codes = equality_codes(elements.columns[0])
        if are_sets:
            codes = codes[np.lexsort([codes, elements.row])]
        return _sequence_codes(values, elements.row, codes)
    if pa.types.is_floating(type_):
        same_nan = pc.if_else(pc.is_nan(values), pa.scalar(np.nan, type_), values)
        values = same_nan.view(pa.int32() if type_.bit_width == 32 else pa.int64())
    return _numbered(values)


def pair_codes(columns: Sequence[Codes]) -> Codes:
    """A number for each row of two or more columns of numbers; equal rows have the same."""
    found = columns[0]
    is_grouped = bool((found[1:] >= found[:-1]).all())
    for column in columns[1:]:
        pairs = found * (int(column.max(initial=0)) + 1) + column
        found = _sorted_numbers(pairs) if is_grouped else _numbered(from_numpy(pairs))
    return found


def _sorted_numbers(values: Codes) -> Codes:
    """The place of each value among the different ones in their order: quick where they are nearly in order."""
    order = np.argsort(values, kind="stable")
    values = values[order]
    found = np.empty(len(values), np.int64)
    found[order] = np.cumsum(np.append(False, values[1:] != values[:-1])[: len(values)])
    return found


def _numbered(values: pa.Array) -> Codes:
    """The place of each value among the different ones, in the order of their first appearance; NULL comes last."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)) if encoded.indices.null_count else encoded.indices
    return to_numpy(codes).astype(np.int64)


def _struct_codes(values: pa.Array) -> Codes:
    valid = is_valid(values)
    fields = values.flatten()  # with the NULLs of the rows they are in
    return pair_codes([valid.astype(np.int64), *(equality_codes(field) for field in fields)])


def _sequence_codes(values: pa.Array, row: Codes, codes: Codes) -> Codes:
    """Of lists, by the numbers of their elements and the list that each is in."""
    lengths = np.bincount(row, minlength=len(values))
    starts = np.cumsum(lengths) - lengths
    found = is_valid(values).astype(np.int64)
    longer = np.flatnonzero(lengths)
    for place in range(int(lengths.max(initial=0))):
        longer = longer[lengths[longer] > place]
        found[longer] = pair_codes([found[longer], codes[starts[longer] + place]])
    return pair_codes([lengths, found])  # those that end sooner are told from the others by their lengths
