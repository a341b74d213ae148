"""Order keys: values of any atomic type as integers or bytes that sort, and are equal, as Spark SQL has it.

They are the keys of indexes (`paimon_pyds.index.keys`) where those tell every value from every other, with two
differences: both float zeros are one key, and types that no index takes (DECIMAL of more than 18 digits) or that
indexes hold too coarsely (TIMESTAMP of precision 7 to 9, in nanoseconds here) have keys as well. NaN is greatest.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.keys import Key, KeyCodec, key_codec
from paimon_pyds.types import (
    BINARY_KINDS,
    REFUSED_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    AtomicType,
    DataType,
    Kind,
    arrow_type,
)

__all__ = ["OrderCodec", "order_codec"]

_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_EXACT = decimal.Context(prec=100)
_LONG_DIGITS = 18


@dataclass(frozen=True, slots=True)
class OrderCodec:
    """Order keys of one column type. ``codec`` are the keys of its indexes; None for types without."""

    type: AtomicType
    codec: KeyCodec | None

    @property
    def is_binary(self) -> bool:
        """Whether keys are bytes."""
        return self.type.kind in STRING_KINDS | BINARY_KINDS

    @property
    def is_index_key(self) -> bool:
        """Whether an index of the column tells the order keys of its rows."""
        return self.codec is not None and not self.codec.coarse

    def array(self, values: pa.Array) -> pa.Array:
        """Keys of a column as something that Arrow sorts: int64, binary, or decimal128. NULLs are kept."""
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
        if self.type.kind not in _FLOATS:
            return keys
        return pc.if_else(pc.equal(keys, -1), pa.scalar(0, pa.int64()), keys)  # -0.0

    def keys(self, values: pa.Array) -> list[Key | None]:
        """Keys of a few values as Python objects."""
        found = self.array(values).to_pylist()
        if self.codec is None:
            found = [None if v is None else int(v.scaleb(self.type.scale or 0, _EXACT)) for v in found]
        return found  # type: ignore[no-any-return]

    def values(self, keys: Sequence[Key] | pa.Array) -> pa.Array:
        """The values (`arrow_type` of the column) of keys, none of them NULL."""
        wanted, kind = arrow_type(self.type), self.type.kind
        if self.codec is None:
            scale = -(self.type.scale or 0)
            return pa.array([decimal.Decimal(int(k)).scaleb(scale, _EXACT) for k in keys], wanted)
        if self.is_binary:
            return pa.array(keys, pa.binary()).cast(wanted)
        numbers = np.asarray(keys, np.int64)
        if kind in _FLOATS:
            width = self.codec.width
            return pa.array(self.codec.serialize(numbers).astype(f"<i{width}").view(f"<f{width}"), wanted)
        if kind is Kind.DECIMAL:
            halves = np.stack([numbers, numbers >> 63], axis=1).astype("<i8")
            return pa.Array.from_buffers(wanted, len(numbers), [None, pa.py_buffer(halves.tobytes())])
        if kind is Kind.BOOLEAN:
            return pa.array(numbers != 0)
        if kind in TIMESTAMP_KINDS:
            return pa.array(numbers).cast(wanted)
        return pa.array(numbers).cast(pa.int32()).cast(wanted) if kind in _DAYS else pa.array(numbers).cast(wanted)


_DAYS = frozenset({Kind.DATE, Kind.TIME})


def order_codec(type_: DataType) -> OrderCodec:
    """The order keys of a column type.

    Raises:
        UnsupportedError: nested types have none, nor have VARIANT and BLOB.
    """
    plain = type_.with_nullable(True)
    if not isinstance(plain, AtomicType) or plain.kind in REFUSED_KINDS:
        raise UnsupportedError(f"values of type {type_} have no order", hint="only columns of atomic types do")
    if plain.kind is Kind.DECIMAL and (plain.precision or 0) > _LONG_DIGITS:
        return OrderCodec(plain, None)
    return OrderCodec(plain, key_codec(plain))
