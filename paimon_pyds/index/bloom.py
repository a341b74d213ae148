"""The bloom filter index: "this file has no such value", in a few bytes read.

Specifications: Paimon documentation, concepts/spec/fileindex, "BloomFilter":

    number of hash functions int32, big-endian · bit set (bit i is bit i & 7 of byte i >> 3)

Strings and bytes are hashed by xxHash64 with seed 0, numbers by Thomas Wang's 64-bit integer hash, its shifts to the
right arithmetic as Java's long has them. github.com/Cyan4973/xxHash, doc/xxhash_spec.md, "XXH64 algorithm description",
whose names of primes and steps are used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Words, array, from_numpy, to_numpy
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Answer, Points, Probe
from paimon_pyds.index.source import corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_MAX_HASHES = 2048  # the smallest fpp that a double can hold needs 1,075
_WHOLE_BYTES = 64 << 10
_MANY_PROBES = 512
_INT = 0xFFFFFFFF
KEYS_AT_ONCE = 1 << 18
"""Keys hashed at a time, to bound memory."""
_OBJECTS_AT_ONCE = 1 << 16
_CACHED_VALUES = 1 << 14
"""Values that numpy processes at a time: few enough to stay in the processor's cache from step to step."""
_FEW_VALUES = 512
"""Below this number of values of one length, numpy's calls take longer than hashing the values one by one."""
_STRIPE_BYTES = 32
"""Bytes from which xxHash works in stripes: numpy does that no faster than the C library."""
_DENSE_BITS = 16
"""If more than one bit in this number is to be set, setting a byte for each bit and packing the bytes is faster."""

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)

Lane = Callable[[int, str], Words]
"""The unsigned numbers of a dtype that begin at a byte of each value, in memory of their own."""


def hash_longs(values: npt.NDArray[np.integer]) -> Int64s:
    """Thomas Wang's hash of each value, as signed 64-bit integers. Narrow types are sign-extended first."""
    k = values.astype(np.int64)
    k = ~k + (k << 21)
    k ^= k >> 24
    k = k + (k << 3) + (k << 8)
    k ^= k >> 14
    k = k + (k << 2) + (k << 4)
    k ^= k >> 28
    hashes: Int64s = k + (k << 31)
    return hashes


def hash_binary(values: pa.Array) -> Int64s:
    """xxHash64 with seed 0 of each value of a binary array without nulls, as signed 64-bit integers.

    Short values of one length are hashed together by numpy, which takes 15 to 35 ns a value and leaves the
    interpreter's lock to other threads; the others by the C hash, which takes 80 ns.
    """
    hashes = np.empty(len(values), np.uint64)
    if not len(values):
        return hashes.view(np.int64)
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    sizes = np.diff(bounds)
    if data is not None and sizes[0] < _STRIPE_BYTES and bool((sizes == sizes[0]).all()):
        _hash_neighbours(data, int(bounds[0]), int(sizes[0]), hashes)
        return hashes.view(np.int64)
    counts = np.bincount(np.minimum(sizes, _STRIPE_BYTES), minlength=_STRIPE_BYTES + 1)
    together = counts >= _FEW_VALUES
    together[_STRIPE_BYTES] = False
    for size in np.flatnonzero(together).tolist():
        rows = np.flatnonzero(sizes == size)
        hashes[rows] = _hash_scattered(data, bounds[rows].astype(np.int64), size)
    rest = np.flatnonzero(~together[np.minimum(sizes, _STRIPE_BYTES)])
    if len(rest):
        hashes[rest] = _hash_each(values if len(rest) == len(values) else values.take(from_numpy(rest)))
    return hashes.view(np.int64)


def _hash_each(values: pa.Array) -> Words:
    from xxhash import xxh64_intdigest

    hashes = np.empty(len(values), np.uint64)
    for start in range(0, len(values), _OBJECTS_AT_ONCE):
        chunk = values.slice(start, _OBJECTS_AT_ONCE).to_pylist()
        hashes[start : start + len(chunk)] = np.fromiter(map(xxh64_intdigest, chunk), np.uint64, len(chunk))
    return hashes


def _hash_neighbours(data: pa.Buffer, first: int, size: int, hashes: Words) -> None:
    """Hashes of values of ``size`` bytes that follow each other from the byte ``first`` on."""
    for start in range(0, len(hashes), _CACHED_VALUES):
        out = hashes[start : start + _CACHED_VALUES]
        begin = first + start * size

        def lane(at: int, kind: str, begin: int = begin, count: int = len(out)) -> Words:
            return np.ndarray((count,), kind, data, begin + at, (size,)).astype(np.uint64)

        out[:] = _hash_lanes(lane, len(out), size)


def _hash_scattered(data: pa.Buffer, begins: Int64s, size: int) -> Words:
    """Hashes of values of ``size`` bytes that begin at these bytes."""
    hashes = np.empty(len(begins), np.uint64)
    for start in range(0, len(begins), _CACHED_VALUES):
        some = begins[start : start + _CACHED_VALUES]

        def lane(at: int, kind: str, some: Int64s = some) -> Words:
            places = data.size - at - np.dtype(kind).itemsize + 1
            return np.ndarray((places,), kind, data, at, (1,))[some].astype(np.uint64)

        hashes[start : start + len(some)] = _hash_lanes(lane, len(some), size)
    return hashes


def _hash_lanes(lane: Lane, count: int, size: int) -> Words:
    """xxHash64 of ``count`` values of ``size`` bytes, fewer than a stripe has."""
    acc = np.full(count, int(_PRIME_5) + size, np.uint64)
    spare = np.empty(count, np.uint64)
    at = 0
    while at + 8 <= size:
        part = lane(at, "<u8")
        part *= _PRIME_2
        _rotate(part, 31, spare)
        part *= _PRIME_1
        acc ^= part
        _rotate(acc, 27, spare)
        acc *= _PRIME_1
        acc += _PRIME_4
        at += 8
    if at + 4 <= size:
        part = lane(at, "<u4")
        part *= _PRIME_1
        acc ^= part
        _rotate(acc, 23, spare)
        acc *= _PRIME_2
        acc += _PRIME_3
        at += 4
    while at < size:
        part = lane(at, "u1")
        part *= _PRIME_5
        acc ^= part
        _rotate(acc, 11, spare)
        acc *= _PRIME_1
        at += 1
    for bits, prime in ((33, _PRIME_2), (29, _PRIME_3)):
        _fold(acc, bits, spare)
        acc *= prime
    _fold(acc, 32, spare)
    return acc


def _rotate(numbers: Words, bits: int, spare: Words) -> None:
    np.right_shift(numbers, np.uint64(64 - bits), out=spare)
    np.left_shift(numbers, np.uint64(bits), out=numbers)
    np.bitwise_or(numbers, spare, out=numbers)


def _fold(numbers: Words, bits: int, spare: Words) -> None:
    np.right_shift(numbers, np.uint64(bits), out=spare)
    np.bitwise_xor(numbers, spare, out=numbers)


def _positions(hashes: Int64s, bits: int, hash_functions: int) -> Int64s:
    """Bit positions of each hash, one row per hash function."""
    high = (hashes >> 32).astype(np.int32)
    combined = hashes.astype(np.int32)
    places = np.empty((hash_functions, len(hashes)), np.int64)
    size = np.uint32(bits)
    for number in range(hash_functions):
        combined += high
        place = (combined ^ (combined >> 31)).view(np.uint32)  # ~ of a negative one
        places[number] = place - place // size * size  # numpy divides by a constant faster than it takes remainders
    return places


def _hash(codec: KeyCodec, keys: pa.Array) -> Int64s:
    if codec.is_binary:
        return hash_binary(keys)
    return hash_longs(codec.serialize(to_numpy(keys)))


class BloomBuilder:
    """Collects keys for a filter with ``bits`` bits and ``hash_functions`` hash functions (`bloom_size`)."""

    def __init__(self, codec: KeyCodec, bits: int, hash_functions: int) -> None:
        self._codec = codec
        self._bits = bits
        self._hash_functions = hash_functions
        self.bit_set = np.zeros(bits // 8, np.uint8)

    def add(self, keys: pa.Array) -> None:
        """Add keys that are not NULL."""
        for start in range(0, len(keys), KEYS_AT_ONCE):
            hashes = _hash(self._codec, keys.slice(start, KEYS_AT_ONCE))
            if _DENSE_BITS * len(hashes) * self._hash_functions < self._bits:
                places = _positions(hashes, self._bits, self._hash_functions).reshape(-1)
                np.bitwise_or.at(self.bit_set, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
                continue
            bits = np.zeros(self._bits, np.bool_)
            for first in range(0, len(hashes), _CACHED_VALUES):
                bits[_positions(hashes[first : first + _CACHED_VALUES], self._bits, self._hash_functions)] = True
            self.bit_set |= np.packbits(bits, bitorder="little")

    def finish(self) -> bytes:
        return struct.pack(">i", self._hash_functions) + self.bit_set.tobytes()


class BloomReader:
    """An open bloom filter. A small one is read whole, of a large one only the bytes that are probed."""

    row_count: int | None = None

    def __init__(self, source: ByteSource, codec: KeyCodec) -> None:
        self._source = source
        self._codec = codec
        self.bits = 8 * (source.size - 4)
        if self.bits <= 0:
            raise corrupt(source, f"{source.size} bytes are too few for a bloom filter", offset=0, field="bit set")
        self._data: bytes | None = source.read(0, source.size) if source.size <= _WHOLE_BYTES else None
        head = self._data if self._data is not None else source.read(0, 4)
        self.hash_functions = int.from_bytes(head[:4], "big", signed=True)
        if not 1 <= self.hash_functions <= _MAX_HASHES:
            message = f"a bloom filter with {self.hash_functions} hash functions"
            raise corrupt(source, message, offset=0, field="numHashFunctions")

    @property
    def nbytes(self) -> int:
        return len(self._data or b"")

    def load(self) -> bytes:
        """All bytes of the index. They are read once."""
        if self._data is None:
            self._data = self._source.read(0, self._source.size)
        return self._data

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer | None:
        """NONE if the filter contains no point of the probe, else None: it excludes points and nothing else."""
        if not isinstance(probe, Points) or probe.negated:
            return None
        if not probe.keys:
            return Answer(RowSelection.NONE, True) if extended else None
        if len(probe.keys) == 1:
            may_match = self._contains_one(probe.keys[0])
        else:
            keys = array(probe.keys, pa.binary() if self._codec.is_binary else pa.int64())
            may_match = bool(self.contains(keys).any())
        return None if may_match else Answer(RowSelection.NONE, True)

    def contains(self, keys: pa.Array) -> Flags:
        """Which of these keys the filter may hold."""
        places = _positions(_hash(self._codec, keys), self.bits, self.hash_functions)
        at = (places >> 3).reshape(-1) + 4
        if self._data is not None or places.size > _MANY_PROBES:
            found = np.frombuffer(self.load(), np.uint8)[at]
        else:
            wanted, inverse = np.unique(at, return_inverse=True)
            parts = self._source.read_many([(offset, 1) for offset in wanted.tolist()])
            found = np.frombuffer(b"".join(parts), np.uint8)[inverse]
        hit = (found.reshape(places.shape) >> (places & 7).astype(np.uint8)) & 1
        return hit.all(axis=0)  # type: ignore[no-any-return]

    def _contains_one(self, key: Key) -> bool:
        """The same for one key, which arrays would only slow down."""
        if isinstance(key, bytes):
            from xxhash import xxh64_intdigest

            hashed = xxh64_intdigest(key)
        else:
            hashed = int(hash_longs(self._codec.serialize(np.array([key], np.int64)))[0])
        high, combined = (hashed >> 32) & _INT, hashed & _INT
        bits, size = [], self.bits
        for _ in range(self.hash_functions):
            combined = (combined + high) & _INT
            bits.append((combined if combined <= _INT >> 1 else combined ^ _INT) % size)  # ~ of a negative int32
        if self._data is not None or len(bits) > _MANY_PROBES:
            data = self.load()
            return all(data[4 + (bit >> 3)] >> (bit & 7) & 1 for bit in bits)
        wanted = sorted({4 + (bit >> 3) for bit in bits})
        found = dict(zip(wanted, b"".join(self._source.read_many([(offset, 1) for offset in wanted])), strict=True))
        return all(found[4 + (bit >> 3)] >> (bit & 7) & 1 for bit in bits)
