"""The chunked dictionary of a range bitmap: distinct keys, ascending; the rank of a key is its code.

Specification: Paimon documentation, concepts/spec/fileindex, "Range Bitmap". Integers are big-endian:

    header length int32 = 13 · version u8 = 1 · chunks int32 · offsets length int32 · chunks length int32
    offset int32 of each chunk · chunks · keys
    chunk: version u8 = 1 · first key · its code int32 · offset of the other keys int32 · their number int32 ·
           fixed width:    keys length int32 · key length int32
           variable width: offsets length int32 · keys length int32

A chunk's other keys follow each other; those of variable width have a table of their offsets before them. Strings are
an int32 length and their bytes.
"""

from __future__ import annotations

import bisect
import struct
from typing import Any

import numpy as np

from paimon_pyds.base.arrays import Int64s, fixed_binary, from_numpy, join_binary, pc, to_numpy
from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.index.dictionary import EncodedColumn
from paimon_pyds.index.keys import Key, KeyCodec, ascends
from paimon_pyds.index.source import Cursor, LoadedBytes, Window, corrupt

_VERSION = 1
"""Version of the format."""
_HEADER_BYTES = 13
"""Bytes of the header."""


def write_key(codec: KeyCodec, key: Key) -> bytes:
    """One key as range bitmaps hold it."""
    if isinstance(key, bytes):
        return struct.pack(">i", len(key)) + key
    return codec.serialize(np.array([key], np.int64)).tobytes()


def read_key(codec: KeyCodec, cursor: Cursor, field: str) -> Key:
    """The key at a cursor. Raises CorruptFileError."""
    if codec.is_binary:
        return cursor.take(cursor.count(field), field)
    return int(codec.deserialize(np.frombuffer(cursor.take(codec.width, field), codec.dtype))[0])


def write_dictionary(column: EncodedColumn, chunk_size: int) -> list[bytes]:
    """The serialized dictionary of a column's distinct keys, in pieces; ``chunk_size`` bounds the other keys of a
    chunk."""
    write = _write_variable if column.codec.is_binary else _write_fixed
    offsets, chunks, keys = write(column, chunk_size) if len(column.keys) else (b"", b"", [])
    header = struct.pack(">iBiii", _HEADER_BYTES, _VERSION, len(offsets) // 4, len(offsets), len(chunks))
    return [header, offsets, chunks, *keys]


def _write_fixed(column: EncodedColumn, chunk_size: int) -> tuple[bytes, bytes, list[bytes]]:
    codec, count = column.codec, len(column.keys)
    width = codec.width
    values = np.ascontiguousarray(codec.serialize(column.int_keys()))
    per_chunk = 1 + chunk_size // width
    firsts = np.arange(0, count, per_chunk)
    others = np.minimum(per_chunk, count - firsts) - 1
    chunk = np.empty(len(firsts), _chunk_dtype(codec))
    chunk["version"], chunk["key"], chunk["code"], chunk["size"] = _VERSION, values[firsts], firsts, others
    chunk["keys_length"], chunk["key_length"] = others * width, width
    chunk["offset"] = np.cumsum(others * width) - others * width
    offsets = (np.arange(len(firsts)) * chunk.itemsize).astype(">i4")
    full = count // per_chunk * per_chunk
    keys = [values[:full].reshape(-1, per_chunk)[:, 1:].tobytes(), values[full + 1 :].tobytes()]
    return offsets.tobytes(), chunk.tobytes(), keys


def _chunk_dtype(codec: KeyCodec) -> np.dtype[Any]:
    ints = ("code", "offset", "size", "keys_length", "key_length")
    return np.dtype([("version", "u1"), ("key", codec.dtype), *((name, ">i4") for name in ints)])


def _write_variable(column: EncodedColumn, chunk_size: int) -> tuple[bytes, bytes, list[bytes]]:
    count = len(column.keys)
    sizes = to_numpy(pc.binary_length(column.keys)).astype(np.int64)
    prefixes = fixed_binary(sizes.astype(">i4").reshape(-1, 1))
    data, bounds = join_binary(prefixes, column.keys)
    firsts = _variable_firsts(bounds, chunk_size)
    lasts = np.append(firsts[1:], count)
    others = lasts - firsts - 1
    keys_lengths = bounds[lasts] - bounds[firsts + 1]
    lengths = 4 * others + keys_lengths
    tail = np.empty((len(firsts), 5), ">i4")
    for position, values in enumerate((firsts, np.cumsum(lengths) - lengths, others, 4 * others, keys_lengths)):
        tail[:, position] = values
    version = np.full((len(firsts), 1), _VERSION, np.uint8)
    taken = from_numpy(firsts)
    chunks, chunk_bounds = join_binary(
        fixed_binary(version), prefixes.take(taken), column.keys.take(taken), fixed_binary(tail)
    )
    keys: list[bytes] = []
    for first, last in zip(firsts[others > 0], lasts[others > 0], strict=True):
        start = bounds[first + 1]
        keys += [(bounds[first + 1 : last] - start).astype(">i4").tobytes(), data[start : bounds[last]]]
    return chunk_bounds[:-1].astype(">i4").tobytes(), chunks, keys


def _variable_firsts(bounds: Int64s, chunk_size: int) -> Int64s:
    """Index of each chunk's first key: others are added while their bytes, and their offsets', fit the chunk size."""
    count = len(bounds) - 1
    if chunk_size < 4:
        return np.arange(count)
    firsts = [0]
    while True:
        first = firsts[-1]
        fitting = int(np.searchsorted(bounds, bounds[first + 1] + chunk_size, side="right")) - 1
        following = min(max(fitting, first + 1), first + 1 + chunk_size // 4)
        if following >= count:
            return np.array(firsts)
        firsts.append(following)


class RangeDictionary:
    """An open dictionary. The heads of all chunks are read at once, the keys of a chunk when it is searched."""

    def __init__(self, source: Window, codec: KeyCodec, cardinality: int, cache: ByteLimitedCache) -> None:
        self._source = source
        self._codec = codec
        self._cache = cache
        self._owner = object()
        cursor = Cursor(source, step=_HEADER_BYTES + 4)
        header, version = cursor.i32("header length"), cursor.u8("version")
        if version != _VERSION or header != _HEADER_BYTES:
            message = f"a dictionary of version {version} with a header of {header} bytes is not known"
            raise corrupt(source, message, offset=0, field="version")
        count = cursor.count("chunks size", each=4 + 21 + (codec.width or 4))
        offsets_length, chunks_length = cursor.count("offsets length"), cursor.count("chunks length")
        if offsets_length != 4 * count or chunks_length > cursor.remaining() - offsets_length:
            raise corrupt(source, "chunk tables that don't fit the dictionary", offset=9, field="offsets length")
        at = cursor.position
        tables = source.read(at, offsets_length + chunks_length)
        offsets = np.frombuffer(tables, ">i4", count).astype(np.int64)
        chunks = LoadedBytes(tables[offsets_length:], source, at + offsets_length)
        read = self._variable_heads if codec.is_binary else self._fixed_heads
        self._firsts, numbers = read(chunks, offsets)
        self._codes, self._offsets, self._sizes = numbers[:, 0], numbers[:, 1], numbers[:, 2]
        self._table_lengths, self._keys_lengths = numbers[:, 3], numbers[:, 4]
        self._keys_at = at + offsets_length + chunks_length
        self._check(at, cardinality)

    def _fixed_heads(self, chunks: LoadedBytes, offsets: Int64s) -> tuple[Any, Int64s]:
        kind = _chunk_dtype(self._codec)
        if chunks.size != len(offsets) * kind.itemsize or not np.array_equal(
            offsets, np.arange(len(offsets)) * kind.itemsize
        ):
            raise corrupt(chunks, "chunks that don't follow their offsets", offset=0, field="offsets")
        heads = np.frombuffer(chunks.read(0, chunks.size), kind)
        if bool((heads["version"] != _VERSION).any()) or bool((heads["key_length"] != self._codec.width).any()):
            raise corrupt(chunks, "a chunk of another version or key length", offset=0, field="version")
        zeros = np.zeros(len(heads), np.int64)
        columns = (heads["code"], heads["offset"], heads["size"], zeros, heads["keys_length"])
        return self._codec.deserialize(heads["key"]), np.stack([c.astype(np.int64) for c in columns], axis=1)

    def _variable_heads(self, chunks: LoadedBytes, offsets: Int64s) -> tuple[Any, Int64s]:
        cursor = Cursor(chunks, step=chunks.size)
        firsts: list[bytes] = []
        tails: list[bytes] = []
        for offset in offsets.tolist():
            if offset != cursor.position or cursor.u8("version") != _VERSION:
                raise corrupt(chunks, "a chunk of another version, or at another place", offset=offset, field="version")
            first, tail = cursor.strings(1, 20, "key")
            firsts += first
            tails.append(tail)
        if cursor.remaining():
            raise corrupt(chunks, "bytes after the last chunk", offset=cursor.position, field="chunks length")
        return firsts, np.frombuffer(b"".join(tails), ">i4").astype(np.int64).reshape(len(firsts), 5)

    def _check(self, at: int, cardinality: int) -> None:
        """Check that codes count the keys without gaps, and that keys are within the body."""
        following = np.append(self._codes[1:], cardinality)
        ends = self._offsets + self._table_lengths + self._keys_lengths
        right = (
            (len(self._codes) == 0 or self._codes[0] == 0)
            and bool((self._sizes >= 0).all())
            and bool((self._codes + self._sizes + 1 == following).all())
            and bool((np.stack([self._offsets, self._table_lengths, self._keys_lengths]) >= 0).all())
            and bool((ends <= self._source.size - self._keys_at).all())
        )
        width = self._codec.width
        if width:
            right = right and bool((self._keys_lengths == width * self._sizes).all())
        else:
            right = right and bool((self._table_lengths == 4 * self._sizes).all())
        if not right or not ascends(self._firsts):
            raise corrupt(self._source, "chunks that contradict each other", offset=at, field="chunk")

    @property
    def nbytes(self) -> int:
        return 120 * len(self._codes)

    def _others(self, number: int) -> Any:
        """The keys of a chunk, its first one left out."""
        keys = self._cache.get((self._owner, number))
        if keys is not None:
            return keys
        offset = self._keys_at + int(self._offsets[number])
        table, length = int(self._table_lengths[number]), int(self._keys_lengths[number])
        data = LoadedBytes(self._source.read(offset, table + length), self._source, offset)
        count = int(self._sizes[number])
        if self._codec.is_binary:
            keys = self._variable_keys(data, count, table)
        else:
            keys = self._codec.deserialize(np.frombuffer(data.read(0, length), self._codec.dtype))
        if not ascends(keys) or (count and not self._firsts[number] < keys[0]):
            raise corrupt(data, "keys out of order", offset=table, field="keys")
        self._cache.put((self._owner, number), keys, length + 64 * count if self._codec.is_binary else 8 * count)
        return keys

    def _variable_keys(self, data: LoadedBytes, count: int, table: int) -> list[bytes]:
        offsets = np.frombuffer(data.read(0, table), ">i4").astype(np.int64)
        cursor = Cursor(data, table, step=max(data.size - table, 1))
        keys, _ = cursor.strings(count, 0, "key")
        sizes = np.array([4 + len(key) for key in keys], np.int64)
        if cursor.remaining() or not np.array_equal(offsets, np.cumsum(sizes) - sizes):
            raise corrupt(data, "keys at other places than their offsets say", offset=0, field="offsets")
        return keys

    def find(self, key: Key) -> tuple[int, bool]:
        """The code of a key and True; or, when it isn't there, the code of the next greater key and False."""
        binary = self._codec.is_binary
        firsts = self._firsts
        number = (bisect.bisect_right(firsts, key) if binary else int(firsts.searchsorted(key, "right"))) - 1
        if number < 0:
            return 0, False
        code = int(self._codes[number])
        if firsts[number] == key:
            return code, True
        if not self._sizes[number]:
            return code + 1, False
        keys = self._others(number)
        at = bisect.bisect_left(keys, key) if binary else int(keys.searchsorted(key))
        return code + 1 + at, at < len(keys) and bool(keys[at] == key)

    def keys_at(self, codes: Int64s) -> Any:
        """The keys of these codes, which are in the dictionary: int64, or a list of bytes. A chunk is read once."""
        numbers = np.searchsorted(self._codes, codes, side="right") - 1
        within = codes - self._codes[numbers]
        binary = self._codec.is_binary
        found: Any = [b""] * len(codes) if binary else np.zeros(len(codes), np.int64)
        order = np.argsort(numbers, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else []:
            number = int(numbers[part[0]])
            first = self._firsts[number]
            others = self._others(number) if bool((within[part] > 0).any()) else []
            if binary:
                for i in part.tolist():
                    found[i] = others[within[i] - 1] if within[i] else first
            else:
                found[part] = np.append(np.int64(first), np.asarray(others, np.int64))[within[part]]
        return found
