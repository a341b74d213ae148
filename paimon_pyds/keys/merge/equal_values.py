"""Elements of lists and entries of maps; and numbers that are equal where values are, whatever their types.

NULL equals NULL, NaN equals NaN, -0.0 is another value than 0.0 (as ``Double.equals`` in Java); the entries of a map
have no order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from paimon_pyds.base.arrays import from_numpy, pc, to_numpy, with_one_nan
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.vectors import lists_of
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format.batches import list_window
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions, flags_buffer, is_valid

_MOST = 2**31 - 1
_NULL, _NEXT = np.uint64(0x6E756C6C), np.uint64(0x9E3779B97F4A7C15)
_TEXTS_AT_ONCE = 65_536
"""Texts that are converted to Python and hashed at a time, to bound memory."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Elements of lists or entries of maps, list after list. ``row``: the number of the list that each is in.
    ``columns``: the elements; of maps, the keys and the values."""

    row: Positions
    columns: tuple[pa.Array, ...]

    def take(self, at: Positions) -> tuple[pa.Array, ...]:
        """The columns of some entries."""
        indices = from_numpy(at)
        return tuple(column.take(indices) for column in self.columns)


def entries_of(values: pa.Array) -> Entries:
    """The entries of the lists or maps of an array; NULL has no entries."""
    rows = np.flatnonzero(is_valid(values))
    there = values.drop_null() if values.null_count else values
    offsets = to_numpy(there.offsets).astype(np.int64)
    children = (there.keys, there.items) if pa.types.is_map(values.type) else (there.values,)
    return Entries(np.repeat(rows, offsets[1:] - offsets[:-1]), tuple(list_window(there, child) for child in children))


def from_entries(type_: pa.DataType, columns: Sequence[pa.Array], lengths: Positions, there: Flags) -> pa.Array:
    """Lists or maps of these lengths; NULL where not ``there``.
    Raises UnsupportedError: more elements than one Arrow array can have."""
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
Hashes = npt.NDArray[np.uint64]


def equality_codes(values: pa.Array, *, are_sets: bool = False) -> Codes:
    """A number for each value, from 0 to less than one more than there are values; equal values have the same.

    With ``are_sets``, the elements of lists have no order.
    """
    values = _without_vectors(values)
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
    return _numbered(_same_nan(values))


def _without_vectors(values: pa.Array) -> pa.Array:
    """Vectors as lists, anything else as it is."""
    if not pa.types.is_fixed_size_list(values.type):
        return values
    return lists_of(values, pa.list_(values.type.value_field))


def equality_hashes(values: pa.Array) -> Hashes:
    """A number for each value, the same in all arrays: values that `equality_codes` gives one number have one here."""
    values = _without_vectors(values)
    type_ = values.type
    if pa.types.is_struct(type_):
        found = row_hashes(values.flatten(), len(values))
    elif pa.types.is_map(type_):
        entries = entries_of(values)
        found = _sums(row_hashes(entries.columns, len(entries.row)), entries.row, len(values))
    elif pa.types.is_list(type_):
        elements = entries_of(values)
        lengths = np.bincount(elements.row, minlength=len(values))
        place = np.arange(len(elements.row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        hashes = mixed(equality_hashes(elements.columns[0]) + place.astype(np.uint64) * _NEXT)
        found = _sums(hashes, elements.row, len(values))
    else:
        encoded = _same_nan(values).dictionary_encode()
        hashes = np.append(_value_hashes(encoded.dictionary), _NULL)
        return np.asarray(hashes[to_numpy(pc.fill_null(encoded.indices, len(hashes) - 1))], np.uint64)
    return np.where(is_valid(values), found, _NULL)


def row_hashes(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """`equality_hashes` of rows that have these columns."""
    found = np.zeros(rows, np.uint64)
    for column in columns:
        found = mixed(found * _NEXT + equality_hashes(column))
    return found


def _sums(hashes: Hashes, row: Positions, count: int) -> Hashes:
    """For each row the sum of its hashes, which are in the order of rows, and their number."""
    lengths = np.bincount(row, minlength=count)
    ends = np.cumsum(lengths)
    sums = np.append(np.uint64(0), np.cumsum(hashes, dtype=np.uint64))
    return mixed(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64))


def _value_hashes(values: pa.Array) -> Hashes:
    """Of values without NULL that hold no others."""
    type_ = values.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        texts = values.cast(pa.binary())
        parts = (texts.slice(start, _TEXTS_AT_ONCE).to_pylist() for start in range(0, len(texts), _TEXTS_AT_ONCE))
        return np.fromiter(chain.from_iterable(map(xxh64_intdigest, part) for part in parts), np.uint64, len(texts))
    if pa.types.is_decimal(type_):
        words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :][: 2 * len(values)]
        return mixed(mixed(words[::2]) + words[1::2])
    if pa.types.is_boolean(type_):
        values = values.cast(pa.int8())
    numbers = to_numpy(values.view(f"int{values.type.bit_width}"))
    return mixed(numbers.astype(np.int64).view(np.uint64))


def mixed(values: Hashes) -> Hashes:
    """Each number as another one, without an order (S. Vigna, prng.di.unimi.it/splitmix64.c, the last step)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _same_nan(values: pa.Array) -> pa.Array:
    """Floats as integers of their bits, with one NaN; other values as they are."""
    type_ = values.type
    if not pa.types.is_floating(type_):
        return values
    return with_one_nan(values).view(pa.int32() if type_.bit_width == 32 else pa.int64())


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
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary)) if encoded.indices.null_count else encoded.indices
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
    return pair_codes([lengths, found])  # rows that end sooner differ from the others in length
