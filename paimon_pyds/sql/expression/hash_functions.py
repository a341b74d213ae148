"""HASH (Murmur3 of 32 bits, seed 42) and XXHASH64, as Spark computes them: of several values one after the other, each
with the hash of those before it for a seed; a NULL leaves that as it is.

Source: Spark's ``Murmur3_x86_32``, ``XXH64`` and ``HashExpression``. Its Murmur3 takes the bytes behind the last whole
word one by one, each as a word of its own, which is not what other libraries do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, binary_parts, pc, scalar, slices
from paimon_pyds.base.types import DataType
from paimon_pyds.sql.expression.lists import Lists
from paimon_pyds.sql.expression.nodes import ANY, Apply, Function, Node, Resolve, has_map
from paimon_pyds.sql.expression.operands import arrays, filled, unscaled, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

Words = npt.NDArray[Any]
"""Unsigned numbers, of 32 or of 64 bits."""
_SEED = 42
"""Seed of Spark's hash functions."""
_U32, _U64 = np.uint32, np.uint64
_P1, _P2, _P3, _P4, _P5 = (
    _U64(p)
    for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


@dataclass(frozen=True)
class _Family:
    """Hashes of one kind: of numbers of 32 and of 64 bits, and of bytes, by offsets and the bytes."""

    of_int: Callable[[Words, Words], Words]
    of_long: Callable[[Words, Words], Words]
    of_bytes: Callable[[Words, Words, Words, Words], Words]


def _hashed(column: pa.Array, seeds: Words, family: _Family) -> Words:
    """The hashes of a column's values; the seeds of NULLs."""
    type_, t = column.type, pa.types
    if t.is_list(type_):
        return _hashed_lists(Lists(column), seeds, family)
    if t.is_struct(type_):
        found = seeds
        for number in range(type_.num_fields):
            found = _hashed(pc.struct_field(column, [number]), found, family)
        return found
    if t.is_null(type_):
        return seeds
    return np.where(valid(column), _of_atoms(column, seeds, family), seeds)


def _of_atoms(column: pa.Array, seeds: Words, family: _Family) -> Words:
    type_, t = column.type, pa.types
    if t.is_string(type_) or t.is_binary(type_):
        return _of_texts(column, seeds, family)
    if t.is_decimal(type_):
        if type_.precision <= 18:
            return family.of_long(unscaled(column).astype(np.int64).view(_U64), seeds)
        return _of_texts(_minimal_bytes(column), seeds, family)
    if t.is_floating(type_):
        numbers = filled(pc.if_else(pc.is_nan(column), scalar(float("nan"), type_), pc.add(column, scalar(0.0, type_))))
        if t.is_float32(type_):
            return family.of_int(numbers.view(_U32), seeds)
        return family.of_long(numbers.view(_U64), seeds)
    if t.is_int64(type_) or t.is_timestamp(type_):
        return family.of_long(_micros(column).view(_U64), seeds)
    narrow = column.view(pa.int32()) if t.is_date32(type_) or t.is_time(type_) else column.cast(pa.int32())
    return family.of_int(filled(narrow).view(_U32), seeds)


def _micros(column: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers of 64 bits; timestamps in microseconds, as Spark has them."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).view(pa.int64())
    return filled(column).astype(np.int64, copy=False)


def _minimal_bytes(column: pa.Array) -> pa.Array:
    """Unscaled values of decimals as Java's BigInteger writes them: the fewest bytes, the highest first."""
    data = np.frombuffer(column.buffers()[1], np.uint8)[16 * column.offset : 16 * (column.offset + len(column))]
    rows = np.ascontiguousarray(data.reshape(-1, 16)[:, ::-1])
    sign = np.where(rows[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    spare = (rows[:, :-1] == sign[:, None]) & ((rows[:, 1:] >= 0x80) == (sign[:, None] == 0xFF))
    lead = np.cumprod(spare, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(column), dtype=np.int64) * 16
    return slices(rows.reshape(-1), starts + lead, starts + 16)


def _of_texts(column: pa.Array, seeds: Words, family: _Family) -> Words:
    data, starts, ends = binary_parts(column)
    if not len(starts):
        return seeds
    padded = np.concatenate((data, np.zeros(8, np.uint8)))
    return family.of_bytes(padded, starts, np.where(valid(column), ends, starts), seeds)


def _hashed_lists(lists: Lists, seeds: Words, family: _Family) -> Words:
    found = seeds.copy()
    for position in range(int(lists.lengths.max(initial=0))):
        rows = np.flatnonzero(lists.lengths > position)
        items = lists.items.take(array(lists.offsets[rows] + position))
        found[rows] = _hashed(items, found[rows], family)
    return found


# ------------------------------------------------------------------------------------------------------------- Murmur3


def _rotated(words: Words, bits: int) -> Words:
    width = words.dtype.itemsize * 8
    kind = words.dtype.type
    rotated: Words = (words << kind(bits)) | (words >> kind(width - bits))
    return rotated


def _mixed(hashes: Words, word: Words) -> Words:
    with np.errstate(over="ignore"):
        mixed = _rotated(word * _U32(0xCC9E2D51), 15) * _U32(0x1B873593)
        found: Words = _rotated(hashes ^ mixed, 13) * _U32(5) + _U32(0xE6546B64)
    return found


def _finished(hashes: Words, length: Words | int) -> Words:
    with np.errstate(over="ignore"):
        found: Words = hashes ^ np.asarray(length).astype(_U32)
        found = (found ^ (found >> _U32(16))) * _U32(0x85EBCA6B)
        found = (found ^ (found >> _U32(13))) * _U32(0xC2B2AE35)
    found = found ^ (found >> _U32(16))
    return found


def _murmur_int(values: Words, seeds: Words) -> Words:
    return _finished(_mixed(seeds, values), 4)


def _murmur_long(values: Words, seeds: Words) -> Words:
    low, high = values.astype(_U32), (values >> _U64(32)).astype(_U32)
    return _finished(_mixed(_mixed(seeds, low), high), 8)


def _murmur_bytes(data: Words, starts: Words, ends: Words, seeds: Words) -> Words:
    found: Words = seeds.copy()
    lengths = ends - starts
    words = np.ndarray((data.size - 3,), "<u4", buffer=data, strides=(1,))
    for step in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (step + 1))
        found[rows] = _mixed(found[rows], words[starts[rows] + 4 * step])
    for step in range(3):
        rows = np.flatnonzero(lengths % 4 > step)
        bytes_ = data[starts[rows] + lengths[rows] // 4 * 4 + step].view(np.int8).astype(np.int32).view(_U32)
        found[rows] = _mixed(found[rows], bytes_)
    return _finished(found, lengths)


# ------------------------------------------------------------------------------------------------------------ XXHASH64


def _avalanche(hashes: Words) -> Words:
    with np.errstate(over="ignore"):
        found = (hashes ^ (hashes >> _U64(33))) * _P2
        found = (found ^ (found >> _U64(29))) * _P3
    result: Words = found ^ (found >> _U64(32))
    return result


def _xx_word(hashes: Words, word: Words) -> Words:
    with np.errstate(over="ignore"):
        found: Words = _rotated(hashes ^ (_rotated(word * _P2, 31) * _P1), 27) * _P1 + _P4
    return found


def _xx_half(hashes: Words, word: Words) -> Words:
    with np.errstate(over="ignore"):
        found: Words = _rotated(hashes ^ (word.astype(_U64) * _P1), 23) * _P2 + _P3
    return found


def _xx_int(values: Words, seeds: Words) -> Words:
    with np.errstate(over="ignore"):
        return _avalanche(_xx_half(seeds + _P5 + _U64(4), values))


def _xx_long(values: Words, seeds: Words) -> Words:
    with np.errstate(over="ignore"):
        return _avalanche(_xx_word(seeds + _P5 + _U64(8), values))


def _xx_bytes(data: Words, starts: Words, ends: Words, seeds: Words) -> Words:
    lengths = ends - starts
    words = np.ndarray((data.size - 7,), "<u8", buffer=data, strides=(1,))
    halves = np.ndarray((data.size - 3,), "<u4", buffer=data, strides=(1,))
    with np.errstate(over="ignore"):
        found = seeds + _P5
        stripes = np.where(lengths >= 32, lengths // 32, 0)
        long = np.flatnonzero(stripes)
        if len(long):
            found[long] = _striped(words, starts[long], stripes[long], seeds[long])
        found = found + lengths.astype(_U64)
    at, left = starts + 32 * stripes, lengths - 32 * stripes
    for step in range(3):
        rows = np.flatnonzero(left >= 8 * (step + 1))
        found[rows] = _xx_word(found[rows], words[at[rows] + 8 * step])
    at, left = at + left // 8 * 8, left % 8
    rows = np.flatnonzero(left >= 4)
    found[rows] = _xx_half(found[rows], halves[at[rows]])
    at, left = at + left // 4 * 4, left % 4
    for step in range(3):
        rows = np.flatnonzero(left > step)
        with np.errstate(over="ignore"):
            found[rows] = _rotated(found[rows] ^ (data[at[rows] + step].astype(_U64) * _P5), 11) * _P1
    return _avalanche(found)


def _striped(words: Words, starts: Words, stripes: Words, seeds: Words) -> Words:
    """Texts of 32 bytes and more, 32 bytes at a time."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for step in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > step)
        for number, lane in enumerate(lanes):
            word = words[starts[rows] + 32 * step + 8 * number]
            lane[rows] = _rotated(lane[rows] + word * _P2, 31) * _P1
    found: Words = np.sum([_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)], axis=0)
    for lane in lanes:
        found = (found ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    return found


_MURMUR = _Family(_murmur_int, _murmur_long, _murmur_bytes)
_XX = _Family(_xx_int, _xx_long, _xx_bytes)


def murmur3(*data: Any) -> pa.Array:
    """HASH of some columns."""
    return array(_of_columns(arrays(data), _MURMUR, np.uint32).view(np.int32))


def xxhash64(*data: Any) -> pa.Array:
    """XXHASH64 of some columns."""
    return array(_of_columns(arrays(data), _XX, np.uint64).view(np.int64))


def _of_columns(columns: list[pa.Array], family: _Family, kind: type[np.unsignedinteger[Any]]) -> Words:
    found: Words = np.full(len(columns[0]), _SEED, kind)
    for column in columns:
        found = _hashed(column, found, family)
    return found


def _hash(kernel: Callable[..., pa.Array], result: DataType) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.plain(argument) for argument in arguments]
        if any(node.type is not None and has_map(node.type) for node in given):
            raise LookupError("maps have no hash, in Spark neither")
        return Apply(result, kernel, tuple(given))

    return resolve


HASH_FUNCTIONS: dict[str, Function] = {
    "hash": Function((1, ANY), _hash(murmur3, tree.INT)),
    "xxhash64": Function((1, ANY), _hash(xxhash64, tree.LONG)),
}
