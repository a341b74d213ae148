"""The bloom filter index: "this file has no such value", in a few bytes read.

Specification: Paimon documentation, concepts/spec/fileindex, "BloomFilter":

    number of hash functions int32, big-endian · bit set (bit i is bit i & 7 of byte i >> 3)
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import to_numpy
from paimon_pyds.errors import OptionError
from paimon_pyds.index.bloom.hashing import hash_binary, hash_bytes, hash_longs
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.keys import Key, KeyCodec, key_codec
from paimon_pyds.index.probe import Answer, Points, Probe, make_probe
from paimon_pyds.index.source import corrupt
from paimon_pyds.predicate.tree import Op
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage.base import ByteSource
from paimon_pyds.types import DataType

__all__ = ["DEFAULT_FPP", "DEFAULT_ITEMS", "BloomBuilder", "BloomReader", "bloom_size"]

DEFAULT_ITEMS = 1_000_000
DEFAULT_FPP = 0.1
_MAX_HASHES = 2048  # the smallest fpp that a double can hold needs 1,075
_WHOLE = 64 << 10
_MANY_PROBES = 512
_INT = 0xFFFFFFFF
_CHUNK = 1 << 18  # keys hashed at a time, to bound memory
_AT_ONCE = 1 << 14
"""Keys whose bits are found at a time: so few that the processor's cache holds them."""
_DENSE = 16
"""With more than one bit to set of so many, a byte for each bit and packing them is the faster way."""

I64 = npt.NDArray[np.int64]


def bloom_size(items: int, fpp: float) -> tuple[int, int]:
    """Bits and number of hash functions of a filter for ``items`` values with false positive rate ``fpp``.

    Raises:
        OptionError: no such filter: items or fpp out of range, or more than 2^31 bits.
    """
    if items <= 0 or not 0 < fpp < 1:
        raise OptionError(f"a bloom filter needs items > 0 and 0 < fpp < 1, not items={items} and fpp={fpp}")
    wanted = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
    bits = wanted + (8 - wanted % 8)
    if bits > 0x7FFFFFFF:
        raise OptionError(f"a bloom filter of items={items} and fpp={fpp} would have {bits} bits, more than 2^31")
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


def _positions(hashes: I64, bits: int, hash_functions: int) -> I64:
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


def _hash(codec: KeyCodec, keys: pa.Array) -> I64:
    if codec.is_binary:
        return hash_binary(keys)
    return hash_longs(codec.serialize(to_numpy(keys)))


class BloomBuilder:
    """Collects the distinct values of a column.

    Args:
        type_: the column's type.
        items: how many distinct values the filter is made for.
        fpp: the false positive rate it is made for.
        dictionary: the column's shared dictionary; `update` is then not to be called.
    """

    def __init__(
        self,
        type_: DataType,
        items: int = DEFAULT_ITEMS,
        fpp: float = DEFAULT_FPP,
        *,
        dictionary: ColumnDictionary | None = None,
    ) -> None:
        self._codec = key_codec(type_)
        self._bits, self._hash_functions = bloom_size(items, fpp)
        self._set = np.zeros(self._bits // 8, np.uint8)
        self._own = dictionary is None
        self._dictionary = dictionary or ColumnDictionary(self._codec, keep_codes=False)
        self._dictionary.on_distinct(self._add)

    def update(self, values: pa.Array) -> None:
        """Append rows."""
        self._dictionary.update(values)

    def _add(self, keys: pa.Array) -> None:
        for start in range(0, len(keys), _CHUNK):
            hashes = _hash(self._codec, keys.slice(start, _CHUNK))
            if _DENSE * len(hashes) * self._hash_functions < self._bits:
                places = _positions(hashes, self._bits, self._hash_functions).reshape(-1)
                np.bitwise_or.at(self._set, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))
                continue
            bits = np.zeros(self._bits, np.bool_)
            for first in range(0, len(hashes), _AT_ONCE):
                bits[_positions(hashes[first : first + _AT_ONCE], self._bits, self._hash_functions)] = True
            self._set |= np.packbits(bits, bitorder="little")

    def finish(self, row_count: int) -> bytes:
        """The serialized index of the ``row_count`` rows given."""
        self._dictionary.flush()
        return struct.pack(">i", self._hash_functions) + self._set.tobytes()


class BloomReader:
    """An open bloom filter. A small one is read whole, of a large one only the bytes that are probed."""

    row_count: int | None = None

    def __init__(self, source: ByteSource, codec: KeyCodec) -> None:
        self._source = source
        self._codec = codec
        self._bits = 8 * (source.size - 4)
        if self._bits <= 0:
            raise corrupt(source, f"{source.size} bytes are too few for a bloom filter", offset=0, field="bit set")
        self._data: bytes | None = source.read(0, source.size) if source.size <= _WHOLE else None
        head = self._data if self._data is not None else source.read(0, 4)
        self._hash_functions = int.from_bytes(head[:4], "big", signed=True)
        if not 1 <= self._hash_functions <= _MAX_HASHES:
            message = f"a bloom filter with {self._hash_functions} hash functions"
            raise corrupt(source, message, offset=0, field="numHashFunctions")

    @staticmethod
    def open(source: ByteSource, type_: DataType) -> BloomReader:
        """Open the index of a column of this type. Raises CorruptFileError."""
        return BloomReader(source, key_codec(type_))

    @property
    def nbytes(self) -> int:
        """About the memory it takes."""
        return len(self._data or b"")

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer | None:
        """NONE when the filter holds none of the points; it can't tell anything else."""
        if not isinstance(probe, Points) or probe.negated:
            return None
        if not probe.keys:
            return Answer(RowSelection.NONE, True) if extended else None
        if self._may_contain(probe.keys):
            return None
        return Answer(RowSelection.NONE, True)

    def _may_contain(self, keys: tuple[Key, ...]) -> bool:
        if len(keys) == 1:
            return self._may_contain_one(keys[0])
        array = pa.array(keys, pa.binary() if self._codec.is_binary else pa.int64())
        places = _positions(_hash(self._codec, array), self._bits, self._hash_functions)
        if self._data is None and places.size > _MANY_PROBES:
            self._data = self._source.read(0, self._source.size)
        at = (places >> 3).reshape(-1) + 4
        if self._data is not None:
            found = np.frombuffer(self._data, np.uint8)[at]
        else:
            wanted, inverse = np.unique(at, return_inverse=True)
            parts = self._source.read_many([(int(offset), 1) for offset in wanted])
            found = np.frombuffer(b"".join(parts), np.uint8)[inverse]
        hit = (found.reshape(places.shape) >> (places & 7).astype(np.uint8)) & 1
        return bool(hit.all(axis=0).any())

    def _may_contain_one(self, key: Key) -> bool:
        """The same for one key, which arrays would only slow down."""
        if isinstance(key, bytes):
            hashed = hash_bytes(key)
        else:
            hashed = int(hash_longs(self._codec.serialize(np.array([key], np.int64)))[0])
        high, combined = (hashed >> 32) & _INT, hashed & _INT
        bits, size = [], self._bits
        for _ in range(self._hash_functions):
            combined = (combined + high) & _INT
            bits.append((combined if combined <= _INT >> 1 else combined ^ _INT) % size)  # ~ of a negative int32
        if self._data is None and len(bits) > _MANY_PROBES:
            self._data = self._source.read(0, self._source.size)
        if (data := self._data) is not None:
            return all(data[4 + (bit >> 3)] >> (bit & 7) & 1 for bit in bits)
        wanted = sorted({4 + (bit >> 3) for bit in bits})
        parts = self._source.read_many([(offset, 1) for offset in wanted])
        found = dict(zip(wanted, b"".join(parts), strict=True))
        return all(found[4 + (bit >> 3)] >> (bit & 7) & 1 for bit in bits)

    def evaluate(self, op: Op, literals: tuple[Any, ...] = ()) -> RowSelection:
        """The rows that may satisfy ``column op literals``: all or none."""
        probe = make_probe(op, literals, self._codec)
        answer = None if probe is None else self.answer(probe)
        return RowSelection.ALL if answer is None else answer.selection
