"""Numbers that compare as values do: integers order and distinguish rows, whatever the types of their columns.

The order is that of keys and sequence fields in Java Paimon: strings by their UTF-8 bytes, binaries by unsigned bytes,
false before true, both float zeros equal (a key -0.0 is the same key as 0.0). NULL comes first. NaN is the greatest
number here and equal to itself; Java takes it for equal to any number, and so may lose rows by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, index_bits, pc, sorted_positions, to_numpy
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions

Codes = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_MIN, _MAX = -(2**63), 2**63 - 1
_LONG_DIGITS = 18
_WORD_BITS = 64
_FEW_SORTED_RANGES = 12
"""Sorted stretches up to which merging them is faster than sorting."""
_MOST_PADDED = 32
"""Bytes up to which texts are filled up to one length."""


def comparable(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The columns as integers, binaries or decimals that Arrow and Python compare in the order of this module."""
    return SortKeys("order").of(columns)


def sorted_rows(columns: Sequence[pa.Array]) -> tuple[Positions, Flags]:
    """The positions of rows in their order, column after column; equal rows keep the order they are in.

    Sorted stretches one after the other are merged, which is the faster the fewer they are.

    Returns:
        the positions; and of each but the first, whether its row is equal to the one before it.
    """
    if len(columns) == 1:
        values = comparable(columns)[0]
        if not _is_numeric(values):
            return _sorted_values(values)
    return _sorted_codes(order_codes(columns))


def order_codes(columns: Sequence[pa.Array]) -> Codes:
    """A number for each row: they compare as the rows do, column after column, and equal rows have the same.

    Numbers of two calls can't be compared with one another.
    """
    return reduce(pair_codes, [order_code(column) for column in columns])


def order_code(column: pa.Array) -> Codes:
    """A number for each value of one column; see `order_codes`."""
    values = comparable([column])[0]
    if not _is_numeric(values):
        return _ranks(values)
    return _integers(values) if pa.types.is_integer(values.type) else _low_halves(values)


def _is_numeric(values: pa.Array) -> bool:
    """Whether values are numbers of 64 bits themselves, so that none have to be found by sorting."""
    type_ = values.type
    short = pa.types.is_decimal128(type_) and type_.precision <= _LONG_DIGITS and not values.null_count
    return bool(short or pa.types.is_integer(type_))


def _integers(values: pa.Array) -> Codes:
    if not values.null_count:
        return to_numpy(values).astype(np.int64, copy=False)
    least = pc.min(values).as_py()
    if least == _MIN:
        return _ranks(values)
    return to_numpy(pc.fill_null(values.cast(pa.int64()), least - 1 if least is not None else 0))


def _low_halves(values: pa.Array) -> Codes:
    """Unscaled values of decimals that fit 64 bits."""
    if not len(values):
        return np.zeros(0, np.int64)
    halves = np.frombuffer(values.buffers()[1], np.int64)
    return halves[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def _ranks(values: pa.Array) -> Codes:
    """0 for the least values, 1 for the next, and so on."""
    order, again = _sorted_values(values)
    ranks = np.zeros(len(values), np.int64)
    ranks[order[1:]] = np.cumsum(~again)
    return ranks


def _sorted_codes(codes: Codes | Words) -> tuple[Positions, Flags]:
    descents = int(np.count_nonzero(codes[1:] < codes[:-1]))
    if not descents:
        return np.arange(len(codes)), codes[1:] == codes[:-1]
    numbers = _short(codes) if descents > _FEW_SORTED_RANGES else None
    order = np.argsort(codes, kind="stable") if numbers is None else sorted_positions(numbers)
    codes = codes[order]
    return order, codes[1:] == codes[:-1]


def _short(codes: Codes | Words) -> Words | None:
    """Numbers that compare as these do; None where they don't fit a word together with their positions."""
    low, span = _range(codes)
    if (span - 1).bit_length() + index_bits(len(codes)) > _WORD_BITS:
        return None
    return np.asarray(codes.view(np.uint64) - np.uint64(low % (1 << _WORD_BITS)))


def _sorted_values(values: pa.Array) -> tuple[Positions, Flags]:
    """`sorted_rows` of one column."""
    words = _words(values)
    if words is not None and words.shape[1] == 1:
        return _sorted_codes(words[:, 0].astype(np.uint64))
    if words is not None:
        order = np.argsort(words.view(f"S{words.shape[1] * 8}")[:, 0], kind="stable")
        words = words[order]
        return order, np.logical_and.reduce([column[1:] == column[:-1] for column in words.T])
    positions = pc.array_sort_indices(values, null_placement="at_start")
    ordered = values.take(positions)
    again = np.zeros(max(0, len(values) - 1), np.bool_)
    if len(again):
        again = to_numpy(pc.fill_null(pc.equal(ordered.slice(1), ordered.slice(0, len(again))), False))
        again[: max(0, values.null_count - 1)] = True
    return to_numpy(positions).astype(np.int64), again


def _words(values: pa.Array) -> Words | None:
    """Short binaries as big-endian numbers, several a row: filled up with zeros they compare as before. None for longer
    ones, with NULLs, and with zeros at their end."""
    if values.type != pa.binary() or values.null_count or not len(values):
        return None
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
    lengths = np.diff(offsets)
    width = -(-max(1, int(lengths.max())) // 8) * 8
    if width > _MOST_PADDED:
        return None
    data = np.frombuffer(values.buffers()[2] or b"\0", np.uint8)
    if not data[offsets[1:][lengths > 0] - 1].all():
        return None
    texts = pa.Array.from_buffers(pa.string(), len(values), values.buffers(), offset=values.offset)
    padded = pc.ascii_rpad(texts, width=width, padding="\0")
    count = width // 8
    words = np.frombuffer(padded.buffers()[2], ">u8", len(values) * count, padded.offset * width)
    return words.reshape(-1, count)


def pair_codes(first: Codes, second: Codes) -> Codes:
    """Numbers of pairs, that compare as the first numbers do, and where these are equal, as the second ones."""
    if not len(first):
        return first
    (low, span), (second_low, second_span) = _range(first), _range(second)
    if span * second_span > _MAX:
        first, second = _ranks(from_numpy(first)), _ranks(from_numpy(second))
        (low, span), (second_low, second_span) = _range(first), _range(second)
    return (first - low) * second_span + (second - second_low)


def _range(codes: Codes | Words) -> tuple[int, int]:
    """The least number, and how many there are from it to the greatest."""
    low = int(codes.min())
    return low, int(codes.max()) - low + 1
