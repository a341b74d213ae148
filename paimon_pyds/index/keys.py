"""Index keys: the one form in which every index holds and compares the values of a column; order keys; and which
types of values an index type takes (what Java Paimon's schema validation accepts).

A key is an int for types of fixed width and bytes for strings and binaries. The order of keys is the order of the index
(Java's ``compareTo``): booleans 0 and 1; dates in days; times in milliseconds; timestamps in milliseconds up to
precision 3, else microseconds; decimals by their unscaled value; strings by their UTF-8 bytes; floats by the integer
whose signed order is that of ``Float.compare``: -0.0 before 0.0, NaN (one of all) last.

Order keys sort, and are equal, as Spark SQL has it, for all atomic types. They are index keys with two differences:
both float zeros are one key, and types that no index takes (DECIMAL of more than 18 digits) or that indexes hold too
coarsely (TIMESTAMP of precision 7 to 9, in nanoseconds here) have keys as well.

Specification: Paimon documentation, concepts/spec/fileindex, and the indexes that Java Paimon 1.4 writes.
"""

from __future__ import annotations

import decimal
import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, fixed_values, from_numpy, scalar, validity
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, DataType, arrow_type
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNORDERED_KINDS,
    Kind,
)
from paimon_pyds.errors import UnsupportedError

BLOOM_FILTER = "bloom-filter"
BITMAP = "bitmap"
BSI = "bsi"
RANGE_BITMAP = "range-bitmap"

Key: TypeAlias = int | bytes

_WIDTHS = {
    Kind.BOOLEAN: 1, Kind.TINYINT: 1, Kind.SMALLINT: 2, Kind.INT: 4, Kind.DATE: 4, Kind.TIME: 4, Kind.FLOAT: 4,
    Kind.BIGINT: 8, Kind.DOUBLE: 8, Kind.DECIMAL: 8, Kind.TIMESTAMP: 8, Kind.TIMESTAMP_LTZ: 8,
}  # fmt: skip
_NAN32, _NAN64 = 0x7FC00000, 0x7FF8000000000000
_BYTES_KINDS = STRING_KINDS | BINARY_KINDS
_FLOAT_KINDS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_CALENDAR = frozenset({Kind.DATE, Kind.TIME}) | TIMESTAMP_KINDS
_SUPPORTED: Mapping[str, frozenset[Kind]] = {
    BLOOM_FILTER: INTEGER_KINDS | _CALENDAR | _FLOAT_KINDS | STRING_KINDS | BINARY_KINDS,
    BITMAP: INTEGER_KINDS | _CALENDAR | _FLOAT_KINDS | STRING_KINDS | {Kind.BOOLEAN},
    BSI: INTEGER_KINDS | _CALENDAR | {Kind.DECIMAL},
    RANGE_BITMAP: INTEGER_KINDS | _CALENDAR | _FLOAT_KINDS | STRING_KINDS | {Kind.BOOLEAN, Kind.DECIMAL},
}
INDEX_TYPES = tuple(_SUPPORTED)
_EXACT = decimal.Context(prec=100)


def supports(index_type: str, type_: DataType) -> bool:
    """Whether an index of this type can be built on values of this type."""
    if type_.kind not in _SUPPORTED.get(index_type, frozenset()):
        return False
    precision = (type_.precision if isinstance(type_, AtomicType) else None) or 0
    if type_.kind is Kind.DECIMAL:
        return precision <= 18
    return not (index_type == RANGE_BITMAP and type_.kind in TIMESTAMP_KINDS and precision > 6)


class KeyPosition(NamedTuple):
    """The position of a literal in the order of keys: it equals the keys ``first`` … ``last`` (two for a float zero,
    which has two signs), or, with ``present`` False, is right above the key ``first`` and equals no key."""

    first: int
    last: int
    present: bool


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Keys of one column type. ``width`` is the bytes of a serialized key, 0 for strings and binaries; ``low`` and
    ``high`` are the smallest and the greatest possible key of a fixed-width type.

    ``coarse``: several values share a key (timestamps of precision 7 to 9, whose keys are microseconds).
    """

    type: AtomicType
    width: int
    coarse: bool = False
    is_binary: bool = field(init=False)
    is_float: bool = field(init=False)
    low: int = field(init=False)
    high: int = field(init=False)

    def __post_init__(self) -> None:
        half = 1 << 8 * self.width >> 1
        low, high = (0, 1) if self.type.kind is Kind.BOOLEAN else (-half, half - 1)
        is_float = self.type.kind in _FLOAT_KINDS
        for name, value in (("is_binary", self.width == 0), ("is_float", is_float), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """How a fixed-width key is serialized: big-endian."""
        return np.dtype(f">i{self.width}" if self.width > 1 else "i1")

    def keys_of(self, values: pa.Array) -> pa.Array:
        """The keys of a column, with its NULLs: an Arrow array of integers of the key's width, or of binary."""
        wanted = arrow_type(self.type)
        if values.type != wanted:
            values = values.cast(wanted)
        kind = self.type.kind
        if self.is_binary:
            return values.cast(pa.binary())
        if kind is Kind.BOOLEAN:
            return values.cast(pa.int8())
        if self.is_float:
            return _with_nulls_of(values, self._float_keys(fixed_values(values, f"<f{self.width}")))
        if kind is Kind.DECIMAL:
            halves = fixed_values(values, "<i8", per_value=2)
            return _with_nulls_of(values, np.ascontiguousarray(halves[::2]))
        if self.coarse:
            return _with_nulls_of(values, np.floor_divide(fixed_values(values, "<i8"), 1000))
        if kind in TIMESTAMP_KINDS:
            return values.cast(pa.int64())
        return values.cast(pa.int32()) if kind in (Kind.DATE, Kind.TIME) else values

    def _float_keys(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        nan, sign = (_NAN32, 31) if self.width == 4 else (_NAN64, 63)
        bits, is_nan = values.view(f"<i{self.width}"), np.isnan(values)
        if is_nan.any():
            bits = np.where(is_nan, bits.dtype.type(nan), bits)
        return self._flip(bits, sign)

    def _flip(self, bits: npt.NDArray[Any], sign: int) -> npt.NDArray[Any]:
        """IEEE bits to ordered keys, and back: it is its own inverse."""
        flipped: npt.NDArray[Any] = bits >> sign
        flipped &= bits.dtype.type(self.high)
        flipped ^= bits
        return flipped

    def serialize(self, keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Fixed-width keys as the big-endian integers that index files hold (IEEE bits for floats)."""
        if self.is_float:
            keys = self._flip(keys.astype(f"<i{self.width}"), 8 * self.width - 1)
        return keys.astype(self.dtype)

    def deserialize(self, raw: npt.NDArray[Any]) -> Int64s:
        """Keys from the big-endian integers of an index file; any NaN and any true become the one of their kind."""
        kind = self.type.kind
        if kind is Kind.BOOLEAN:
            return np.asarray(raw != 0, np.int64)
        if self.is_float:
            bits = raw.astype(f"<i{self.width}")
            raw = self._float_keys(bits.view(f"<f{self.width}"))
        return np.asarray(raw, np.int64)

    def bytes_of(self, literal: Any) -> bytes:
        return literal.encode("utf-8", "surrogatepass") if isinstance(literal, str) else bytes(literal)

    def position_of(self, literal: Any) -> KeyPosition:
        """The position of a literal (an internal value of the type) of fixed width in the order of keys."""
        if self.is_float:
            return self._float_position(float(literal))
        if self.type.kind is Kind.DECIMAL:
            scaled = decimal.Decimal(literal).scaleb(self.type.scale or 0, _EXACT)
            floor = int(scaled.to_integral_value(decimal.ROUND_FLOOR, _EXACT))
            return self._clamped(floor, floor == scaled)
        if self.coarse:
            return self._clamped(int(literal) // 1000, int(literal) % 1000 == 0)
        return self._clamped(int(literal), True)

    def _clamped(self, floor: int, present: bool) -> KeyPosition:
        if self.low <= floor <= self.high:
            return KeyPosition(floor, floor, present)
        edge = self.low - 1 if floor < self.low else self.high
        return KeyPosition(edge, edge, False)

    def _float_position(self, value: float) -> KeyPosition:
        if math.isnan(value):
            nan = _NAN32 if self.width == 4 else _NAN64
            return KeyPosition(nan, nan, True)
        if value == 0.0:
            return KeyPosition(-1, 0, True)
        if self.width == 8:
            key = self._float_key(value)
            return KeyPosition(key, key, True)
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        key = self._float_key(rounded)
        if rounded == value:
            return KeyPosition(key, key, True)
        below = key if rounded < value else key - 1
        return KeyPosition(below, below, False)

    def _float_key(self, value: float) -> int:
        number, integer = ("<f", "<i") if self.width == 4 else ("<d", "<q")
        bits: int = struct.unpack(integer, struct.pack(number, value))[0]
        return bits if bits >= 0 else bits ^ self.high


def ascends(keys: Any) -> bool:
    """Whether keys, an array or a list of bytes, ascend, each there once."""
    if isinstance(keys, np.ndarray):
        return bool((keys[1:] > keys[:-1]).all())
    return all(a < b for a, b in itertools.pairwise(keys))


def _with_nulls_of(array: pa.Array, keys: npt.NDArray[Any]) -> pa.Array:
    made = from_numpy(keys)
    return pa.Array.from_buffers(made.type, len(made), [validity(array), made.buffers()[1]])


def key_codec(type_: DataType) -> KeyCodec:
    """The keys of a column type.
    Raises UnsupportedError: nested types, and decimals of more than 18 digits, have no keys."""
    if isinstance(type_, AtomicType):
        if type_.kind in _BYTES_KINDS:
            return KeyCodec(type_, 0)
        width = _WIDTHS.get(type_.kind)
        if width is not None and not (type_.kind is Kind.DECIMAL and (type_.precision or 0) > 18):
            coarse = type_.kind in TIMESTAMP_KINDS and (type_.precision or 0) > 6
            return KeyCodec(type_, width, coarse)
    raise UnsupportedError(f"a column of type {type_} can't be indexed")


_LONG_DIGITS = 18
"""Precision up to which a DECIMAL fits 64 bits."""


@dataclass(frozen=True, slots=True)
class OrderCodec:
    """Order keys of one column type. ``codec`` are the keys of its indexes; None for types without."""

    type: AtomicType
    codec: KeyCodec | None

    @property
    def is_binary(self) -> bool:
        return self.type.kind in _BYTES_KINDS

    @property
    def is_index_key(self) -> bool:
        """Whether an index of the column has the order keys of its rows."""
        return self.codec is not None and not self.codec.coarse

    def array(self, values: pa.Array) -> pa.Array:
        """Keys of a column, with its NULLs, in a type that Arrow sorts: int64, binary, or decimal128."""
        if self.codec is None:
            return values
        if self.codec.coarse:
            return values.cast(arrow_type(self.type)).cast(pa.int64())
        return self.of_index(self.codec.keys_of(values))

    def of_index(self, keys: pa.Array) -> pa.Array:
        """Order keys from those of an index (`is_index_key`)."""
        if self.is_binary:
            return keys
        keys = keys.cast(pa.int64())
        if self.codec is None or not self.codec.is_float:
            return keys
        from paimon_pyds.base.arrays import pc

        return pc.if_else(pc.equal(keys, -1), scalar(0, pa.int64()), keys)  # -0.0

    def keys(self, values: pa.Array) -> list[Key | None]:
        """Keys of a few values as Python objects."""
        found = self.array(values).to_pylist()
        if self.codec is None:
            found = [None if v is None else int(v.scaleb(self.type.scale or 0, _EXACT)) for v in found]
        return found  # type: ignore[no-any-return]

    def values(self, keys: Sequence[Key] | pa.Array) -> pa.Array:
        """The values (`arrow_type` of the column) of keys that are not NULL."""
        wanted, kind = arrow_type(self.type), self.type.kind
        if self.codec is None:
            scale = -(self.type.scale or 0)
            return arrow_array([decimal.Decimal(int(k)).scaleb(scale, _EXACT) for k in keys], wanted)
        if self.is_binary:
            return arrow_array(keys, pa.binary()).cast(wanted)
        numbers = np.asarray(keys, np.int64)
        if self.codec.is_float:
            width = self.codec.width
            return arrow_array(self.codec.serialize(numbers).astype(f"<i{width}").view(f"<f{width}"), wanted)
        if kind is Kind.DECIMAL:
            halves = np.stack([numbers, numbers >> 63], axis=1).astype("<i8")
            return pa.Array.from_buffers(wanted, len(numbers), [None, pa.py_buffer(halves.tobytes())])
        if kind is Kind.BOOLEAN:
            return arrow_array(numbers != 0)
        values = arrow_array(numbers)
        return (values.cast(pa.int32()) if kind in (Kind.DATE, Kind.TIME) else values).cast(wanted)


def order_codec(type_: DataType) -> OrderCodec:
    """The order keys of a column type. Raises UnsupportedError: nested types have none, nor have VARIANT and BLOB."""
    plain = type_.with_nullable(True)
    if not isinstance(plain, AtomicType) or plain.kind in UNORDERED_KINDS:
        raise UnsupportedError(f"values of type {type_} have no order", hint="only columns of atomic types do")
    if plain.kind is Kind.DECIMAL and (plain.precision or 0) > _LONG_DIGITS:
        return OrderCodec(plain, None)
    return OrderCodec(plain, key_codec(plain))
