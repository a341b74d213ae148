"""The 64-bit hashes of bloom filters, over whole columns.

Specifications: Paimon documentation, concepts/spec/fileindex, "BloomFilter": strings and bytes are hashed by xxHash64
with seed 0, numbers by Thomas Wang's 64-bit integer hash, its shifts to the right arithmetic as Java's long has them.
github.com/Cyan4973/xxHash, doc/xxhash_spec.md, "XXH64 algorithm description", whose names of primes and steps are used.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import from_numpy

__all__ = ["hash_binary", "hash_bytes", "hash_longs"]

_CHUNK = 1 << 16
_LANES = 1 << 14
"""Values hashed at a time by numpy: so few that they stay in the processor's cache from step to step."""
_FEW = 512
"""Of fewer values of one length, numpy's calls take longer than hashing them one by one."""
_SHORT = 32
"""Values of so many bytes and more are hashed in stripes, which numpy does no faster than the C hash."""

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Lane = Callable[[int, str], U64]
"""The unsigned numbers of a dtype that begin at a byte of each value, in memory of their own."""


def hash_longs(values: npt.NDArray[np.integer]) -> I64:
    """Thomas Wang's hash of each value, as signed 64-bit integers. Narrow types are sign-extended first."""
    k = values.astype(np.int64)
    k = ~k + (k << 21)
    k ^= k >> 24
    k = k + (k << 3) + (k << 8)
    k ^= k >> 14
    k = k + (k << 2) + (k << 4)
    k ^= k >> 28
    hashes: I64 = k + (k << 31)
    return hashes


def hash_bytes(value: bytes) -> int:
    """xxHash64 with seed 0 of one value, as an unsigned 64-bit integer."""
    from xxhash import xxh64_intdigest

    return xxh64_intdigest(value)


def hash_binary(values: pa.Array) -> I64:
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
    if data is not None and sizes[0] < _SHORT and bool((sizes == sizes[0]).all()):
        _hash_neighbours(data, int(bounds[0]), int(sizes[0]), hashes)
        return hashes.view(np.int64)
    counts = np.bincount(np.minimum(sizes, _SHORT), minlength=_SHORT + 1)
    together = counts >= _FEW
    together[_SHORT] = False
    for size in np.flatnonzero(together).tolist():
        rows = np.flatnonzero(sizes == size)
        hashes[rows] = _hash_scattered(data, bounds[rows].astype(np.int64), size)
    rest = np.flatnonzero(~together[np.minimum(sizes, _SHORT)])
    if len(rest):
        hashes[rest] = _hash_each(values if len(rest) == len(values) else values.take(from_numpy(rest)))
    return hashes.view(np.int64)


def _hash_each(values: pa.Array) -> U64:
    from xxhash import xxh64_intdigest

    hashes = np.empty(len(values), np.uint64)
    for start in range(0, len(values), _CHUNK):
        chunk = values.slice(start, _CHUNK).to_pylist()
        hashes[start : start + len(chunk)] = np.fromiter(map(xxh64_intdigest, chunk), np.uint64, len(chunk))
    return hashes


def _hash_neighbours(data: pa.Buffer, first: int, size: int, hashes: U64) -> None:
    """Hashes of values of ``size`` bytes that follow each other from the byte ``first`` on."""
    for start in range(0, len(hashes), _LANES):
        out = hashes[start : start + _LANES]
        begin = first + start * size

        def lane(at: int, kind: str, begin: int = begin, count: int = len(out)) -> U64:
            return np.ndarray((count,), kind, data, begin + at, (size,)).astype(np.uint64)

        out[:] = _hash_lanes(lane, len(out), size)


def _hash_scattered(data: pa.Buffer, begins: I64, size: int) -> U64:
    """Hashes of values of ``size`` bytes that begin at these bytes."""
    hashes = np.empty(len(begins), np.uint64)
    for start in range(0, len(begins), _LANES):
        some = begins[start : start + _LANES]

        def lane(at: int, kind: str, some: I64 = some) -> U64:
            room = data.size - at - np.dtype(kind).itemsize + 1
            return np.ndarray((room,), kind, data, at, (1,))[some].astype(np.uint64)

        hashes[start : start + len(some)] = _hash_lanes(lane, len(some), size)
    return hashes


def _hash_lanes(lane: Lane, count: int, size: int) -> U64:
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


def _rotate(numbers: U64, bits: int, spare: U64) -> None:
    np.right_shift(numbers, np.uint64(64 - bits), out=spare)
    np.left_shift(numbers, np.uint64(bits), out=numbers)
    np.bitwise_or(numbers, spare, out=numbers)


def _fold(numbers: U64, bits: int, spare: U64) -> None:
    np.right_shift(numbers, np.uint64(bits), out=spare)
    np.bitwise_xor(numbers, spare, out=numbers)
