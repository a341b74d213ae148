"""A whole index read back to what it holds of each row, to be compared with the data.

The opposite of building: bitmaps, bit slices and dictionaries become one code per row again. A bloom filter has no way
back: `bloom_difference` says how many keys it denies. The readers' own parts are used, and with them their checks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Flags, Int64s, array, pc
from paimon_pyds.base.records import dataclass
from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.bloom import KEYS_AT_ONCE, BloomBuilder, BloomReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.dictionary import EncodedColumn
from paimon_pyds.index.keys import KeyCodec
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.index.slice_codec import numbers_of
from paimon_pyds.index.slices import BitSlices
from paimon_pyds.index.source import corrupt

_BITMAPS_AT_ONCE = 4_096
"""Bitmaps, or bytes of bits, that are decoded at a time, to bound memory."""
NULL, NOWHERE, FOREIGN = -1, -2, -3


@dataclass(frozen=True, slots=True)
class DecodedIndex:
    """What an index says of each row.

    ``keys``: its values, int64 or binary. ``codes``: per row the place of its value there, NULL (-1), or NOWHERE (-2)
    for a row the index does not know. ``doubled``: positions of rows that have several values in the index; their code
    is one of them.
    """

    keys: pa.Array
    codes: Int64s
    doubled: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))


def decode_index(reader: BitmapReader | BsiReader | RangeBitmapReader, codec: KeyCodec) -> DecodedIndex:
    """All rows of an open index. Raises CorruptFileError."""
    if isinstance(reader, BitmapReader):
        return _bitmap(reader, codec)
    return _bsi(reader) if isinstance(reader, BsiReader) else _range_bitmap(reader, codec)


def codes_in(decoded: DecodedIndex, column: EncodedColumn) -> Int64s:
    """The codes of a decoded index in another dictionary; FOREIGN (-3) for values that aren't in it."""
    own_keys = column.keys if column.codec.is_binary else column.keys.cast(pa.int64())
    places = pc.fill_null(pc.index_in(decoded.keys, value_set=own_keys), FOREIGN)
    ranks = np.concatenate([np.asarray(places, np.int64), [NOWHERE, NULL]])  # -2 and -1 count from the end
    return ranks[decoded.codes]


def _rows(bitmap: BitMap) -> Int64s:
    return np.asarray(bitmap.to_array(), np.int64)


def _key_array(keys: Any, codec: KeyCodec) -> pa.Array:
    return array(keys, pa.binary() if codec.is_binary else pa.int64())


def _bitmap(reader: BitmapReader, codec: KeyCodec) -> DecodedIndex:
    codes = np.full(reader.row_count, NOWHERE, np.int64)
    seen = np.zeros(reader.row_count, np.uint8)

    def hold(rows: Int64s, code: Int64s | int) -> None:
        codes[rows] = code
        seen[rows] = np.minimum(seen[rows] + 1, 2)

    keys = [_key_array([], codec)]
    first = 0
    for block in reader.load_blocks(range(reader.block_count)):
        keys.append(_key_array(block.keys, codec))
        numbers = np.flatnonzero(block.offsets < 0)  # values of a single row, whose position stands in the dictionary
        rows = -1 - block.offsets[numbers]
        reader.check_rows(rows)
        codes[rows] = first + numbers
        found, times = np.unique(rows, return_counts=True)
        seen[found] = np.minimum(seen[found] + times, 2)
        many = np.flatnonzero(block.offsets >= 0)
        for start in range(0, len(many), _BITMAPS_AT_ONCE):
            part = many[start : start + _BITMAPS_AT_ONCE]
            places = list(zip(block.offsets[part].tolist(), block.lengths[part].tolist(), strict=True))
            for number, bitmap in zip(part.tolist(), reader.read_bitmaps(places), strict=True):
                hold(_rows(bitmap), first + number)
        first += len(block.keys)
    hold(_rows(reader.null_rows()), NULL)
    return DecodedIndex(pa.concat_arrays(keys), codes, np.flatnonzero(seen > 1))


def _values(slices: BitSlices, row_count: int) -> tuple[Int64s, Flags]:
    """The value of each row, and which rows have one."""
    existing = np.zeros(row_count, np.bool_)
    existing[_rows(slices.existing())] = True
    return numbers_of(slices.load(0), row_count, np.uint64).astype(np.int64), existing


def _bsi(reader: BsiReader) -> DecodedIndex:
    values = np.zeros(reader.row_count, np.int64)
    codes = np.full(reader.row_count, NULL, np.int64)
    seen = np.zeros(reader.row_count, np.uint8)
    for sign, part in reader.parts:
        absolute, existing = _values(part, reader.row_count)
        seen += existing
        values[existing] = sign * (absolute[existing] + part.low)
        codes[existing] = 0
    keys, inverse = np.unique(values[codes >= 0], return_inverse=True)
    codes[codes >= 0] = inverse
    return DecodedIndex(array(keys, pa.int64()), codes, np.flatnonzero(seen > 1))


def _range_bitmap(reader: RangeBitmapReader, codec: KeyCodec) -> DecodedIndex:
    if not reader.cardinality:
        return DecodedIndex(_key_array([], codec), np.full(reader.row_count, NULL, np.int64))
    keys = _key_array(reader.dictionary.keys_at(np.arange(reader.cardinality)), codec)
    if (keys[0].as_py(), keys[-1].as_py()) != (reader.least, reader.most):
        raise corrupt(reader.slices_window, "minimum and maximum that the dictionary does not have", field="min")
    values, existing = _values(reader.slices, reader.row_count)
    codes = np.where(existing, values, NULL)
    codes[codes >= len(keys)] = NOWHERE
    return DecodedIndex(keys, codes)


def bloom_difference(reader: BloomReader, column: EncodedColumn) -> tuple[int, int]:
    """How many keys of a column a bloom filter denies (they would be lost), and how many bits it has beyond theirs."""
    held = np.frombuffer(reader.load(), np.uint8, offset=4)
    builder = BloomBuilder(column.codec, reader.bits, reader.hash_functions)
    builder.add(column.keys)
    denied = 0
    if bool((builder.bit_set & ~held).any()):
        for start in range(0, len(column.keys), KEYS_AT_ONCE):
            denied += int(np.count_nonzero(~reader.contains(column.keys.slice(start, KEYS_AT_ONCE))))
    extra = held & ~builder.bit_set
    return denied, sum(
        int(np.unpackbits(extra[i : i + _BITMAPS_AT_ONCE]).sum()) for i in range(0, len(extra), _BITMAPS_AT_ONCE)
    )
