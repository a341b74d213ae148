"""Arrow columns as the values of Iceberg's manifests: bounds as bytes, partitions as Avro has them (Apache Iceberg
specification, Appendix D: Single-value serialization, and Appendix A: Avro)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.types import AtomicType, DataType, Kind

_INTS = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.DATE}
_TEXTS = {Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY}
_LONGS = {Kind.BIGINT, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ, Kind.TIME}


def plain_values(column: pa.Array, type_: DataType) -> list[Any]:
    """Booleans, integers and bytes, as Avro holds the values; floats as their little-endian bytes. None for NULL.

    Times are microseconds, as Iceberg has them.
    """
    kind, values = type_.kind, column
    if kind in _INTS or kind is Kind.TIME:
        values = pc.cast(column, pa.int32())
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        values = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())
    elif kind in _TEXTS:
        values = pc.cast(column, pa.binary())
    listed: list[Any] = values.to_pylist()
    convert = _conversion(type_)
    return listed if convert is None else [None if value is None else convert(value) for value in listed]


def _conversion(type_: DataType) -> Callable[[Any], Any] | None:
    match type_:
        case AtomicType(kind=Kind.TIME):
            return lambda millis: millis * 1000
        case AtomicType(kind=Kind.FLOAT | Kind.DOUBLE as kind):
            return struct.Struct("<f" if kind is Kind.FLOAT else "<d").pack
        case AtomicType(kind=Kind.DECIMAL, scale=scale):
            return lambda value: _unscaled(value.scaleb(scale or 0))
    return None


def _unscaled(value: Any) -> bytes:
    """A whole number in the fewest bytes of two's complement, the greatest first."""
    number = int(value)
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def bounds(column: pa.Array, type_: DataType, *, upper: bool) -> list[bytes | None]:
    """Least or greatest values as bytes; None where it is unknown, and for NaN, which Iceberg's bounds leave out."""
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        # -0.0 and 0.0 are different values in Iceberg, and equal here: the bounds hold both.
        zero = scalar(0.0 if upper else -0.0, column.type)
        column = pc.if_else(pc.equal(column, scalar(0.0, column.type)), zero, column)
        column = pc.if_else(pc.is_nan(column), scalar(None, column.type), column)
    kind = type_.kind
    values = plain_values(column, type_)
    if kind is Kind.BOOLEAN:
        return [None if value is None else bytes([value]) for value in values]
    if kind in _INTS or kind in _LONGS:
        form = "<i" if kind in _INTS else "<q"
        return [None if value is None else struct.pack(form, value) for value in values]
    return values
