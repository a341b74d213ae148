"""A whole index read back to what it holds of each row, to be compared with the data.

The opposite of building: bitmaps, bit slices and dictionaries become one code per row again. A bloom filter has no way
back: `bloom_difference` says how many keys it denies. The readers' own parts are used, and with them their checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.bloom import KEYS_AT_ONCE, BloomBuilder, BloomReader, _hash, _positions
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.dictionary import EncodedColumn
from paimon_pyds.index.keys import KeyCodec
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.index.range_dictionary import RangeDictionary
from paimon_pyds.index.slice_codec import numbers_of
from paimon_pyds.index.slices import BitSlices
from paimon_pyds.index.source import corrupt
from paimon_pyds.roaring.codec import decode_bitmap

__all__ = ["DecodedIndex", "bloom_difference", "codes_in", "decode_index"]

_AT_ONCE = 4_096
NULL, NOWHERE, FOREIGN = -1, -2, -3

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DecodedIndex:
    """What an index says of each row.

    ``keys``: its values, int64 or binary. ``codes``: per row the place of its value there, NULL (-1), or NOWHERE (-2)
    for a row the index does not know. ``doubled``: positions of rows that lie under several values; their code is one
    of them.
    """

    keys: pa.Array
    codes: Codes
    doubled: Codes = field(default_factory=lambda: np.zeros(0, np.int64))


def decode_index(reader: BitmapReader | BsiReader | RangeBitmapReader, codec: KeyCodec) -> DecodedIndex:
    """All rows of an open index. Raises CorruptFileError."""
    if isinstance(reader, BitmapReader):
        return _bitmap(reader, codec)
    return _bsi(reader) if isinstance(reader, BsiReader) else _range_bitmap(reader, codec)


def codes_in(decoded: DecodedIndex, column: EncodedColumn) -> Codes:
    """The codes of a decoded index in another dictionary; FOREIGN (-3) for values that aren't in it."""
    known = column.keys if column.codec.is_binary else column.keys.cast(pa.int64())
    places = pc.index_in(decoded.keys, value_set=known).fill_null(FOREIGN)
    ranks = np.concatenate([np.asarray(places, np.int64), [NOWHERE, NULL]])  # -2 and -1 count from the end
    return ranks[decoded.codes]


# ---------------------------------------------------------------------------------------------------------- bitmaps


def _bitmap(reader: BitmapReader, codec: KeyCodec) -> DecodedIndex:
    codes = np.full(reader.row_count, NOWHERE, np.int64)
    seen = np.zeros(reader.row_count, np.uint8)
    keys: list[Any] = []
    first = 0
    for block in reader._load_blocks(range(reader.block_count)):
        keys.append(block.keys)
        _singles(reader, codes, seen, block.offsets, first)
        many = np.flatnonzero(block.offsets >= 0)
        for start in range(0, len(many), _AT_ONCE):
            part = many[start : start + _AT_ONCE]
            places = [
                (int(offset), int(length) if length >= 0 else reader._measure(int(offset)))
                for offset, length in zip(block.offsets[part], block.lengths[part], strict=True)
            ]
            for number, (offset, _), data in zip(part.tolist(), places, reader._body.read_many(places), strict=True):
                origin = reader._body.origin + offset
                rows = _rows(decode_bitmap(data, row_count=reader.row_count, path=reader._body.name, origin=origin))
                codes[rows] = first + number
                _count(seen, rows)
        first += len(block.keys)
    nulls = _rows(reader._null_rows())
    codes[nulls] = NULL
    _count(seen, nulls)
    return DecodedIndex(_joined(keys, codec), codes, np.flatnonzero(seen > 1))


def _singles(reader: BitmapReader, codes: Codes, seen: npt.NDArray[np.uint8], offsets: Codes, first: int) -> None:
    """Values of a single row, whose position stands in the dictionary itself."""
    numbers = np.flatnonzero(offsets < 0)
    rows = -1 - offsets[numbers]
    if len(rows) and int(rows.max()) >= reader.row_count:
        message = f"position {int(rows.max())} in a file of {reader.row_count} rows"
        raise corrupt(reader._body, message, field="offset")
    codes[rows] = first + numbers
    found, times = np.unique(rows, return_counts=True)
    seen[found] = np.minimum(seen[found] + times, 2)


def _count(seen: npt.NDArray[np.uint8], rows: Codes) -> None:
    seen[rows] = np.minimum(seen[rows] + 1, 2)


def _rows(bitmap: BitMap) -> Codes:
    return np.asarray(bitmap.to_array(), np.int64)


def _joined(parts: list[Any], codec: KeyCodec) -> pa.Array:
    if codec.is_binary:
        return pa.array([key for part in parts for key in part], pa.binary())
    return pa.array(np.concatenate([np.zeros(0, np.int64), *parts]), pa.int64())


# ------------------------------------------------------------------------------------------------------- bit slices


def _values(slices: BitSlices, row_count: int) -> tuple[npt.NDArray[np.unsignedinteger[Any]], npt.NDArray[np.bool_]]:
    """The value of each row, and which rows have one."""
    values = numbers_of(slices.load(0), row_count, np.uint64)
    existing = np.zeros(row_count, np.bool_)
    existing[_rows(slices.existing())] = True
    return values, existing


def _bsi(reader: BsiReader) -> DecodedIndex:
    values = np.zeros(reader.row_count, np.int64)
    codes = np.full(reader.row_count, NULL, np.int64)
    seen = np.zeros(reader.row_count, np.uint8)
    for part, sign in ((reader._positive, 1), (reader._negative, -1)):
        if part is None:
            continue
        absolute, existing = _values(part, reader.row_count)
        seen += existing
        values[existing] = sign * (absolute[existing].astype(np.int64) + part.low)
        codes[existing] = 0
    keys, inverse = np.unique(values[codes >= 0], return_inverse=True)
    codes[codes >= 0] = inverse
    return DecodedIndex(pa.array(keys, pa.int64()), codes, np.flatnonzero(seen > 1))


def _range_bitmap(reader: RangeBitmapReader, codec: KeyCodec) -> DecodedIndex:
    if not reader.cardinality:
        return DecodedIndex(_joined([], codec), np.full(reader.row_count, NULL, np.int64))
    keys = _joined(_dictionary_keys(reader._dictionary, codec), codec)
    if (keys[0].as_py(), keys[-1].as_py()) != (reader._min, reader._max):
        raise corrupt(reader._slices_window, "minimum and maximum that the dictionary does not have", field="min")
    values, existing = _values(reader._slices, reader.row_count)
    codes = np.where(existing, values.astype(np.int64), NULL)
    codes[codes >= len(keys)] = NOWHERE
    return DecodedIndex(keys, codes)


def _dictionary_keys(dictionary: RangeDictionary, codec: KeyCodec) -> list[Any]:
    parts: list[Any] = []
    for number, first in enumerate(dictionary._firsts):
        others = dictionary._others(number) if dictionary._sizes[number] else []
        parts.append([first, *others] if codec.is_binary else np.append(np.int64(first), np.asarray(others, np.int64)))
    return parts


# --------------------------------------------------------------------------------------------------- bloom filters


def bloom_difference(reader: BloomReader, column: EncodedColumn) -> tuple[int, int]:
    """How many keys of a column a bloom filter denies (they would be lost), and how many bits it has beyond theirs."""
    data = reader._data if reader._data is not None else reader._source.read(0, reader._source.size)
    held = np.frombuffer(data, np.uint8, offset=4)
    builder = BloomBuilder(column.codec, reader._bits, reader._hash_functions)
    builder.add(column.keys)
    needed = builder.bit_set
    denied = 0
    if bool((needed & ~held).any()):
        for start in range(0, len(column.keys), KEYS_AT_ONCE):
            hashes = _hash(column.codec, column.keys.slice(start, KEYS_AT_ONCE))
            places = _positions(hashes, reader._bits, reader._hash_functions)
            hit = (held[places >> 3] >> (places & 7).astype(np.uint8)) & 1
            denied += int(np.count_nonzero(~hit.all(axis=0)))
    extra = held & ~needed
    return denied, sum(int(np.unpackbits(extra[i : i + _AT_ONCE]).sum()) for i in range(0, len(extra), _AT_ONCE))
