"""Parquet's statistics of row groups and pages as `ColumnStats`, the form that predicates are evaluated on.

Source: apache/parquet-format, parquet.thrift (Statistics, ColumnIndex, ColumnOrder) and LogicalTypes.md. Bounds may be
shortened by their writer, outwards: they bound the values and need not occur among them. Bounds of floating-point
columns leave NaN out. What is missing, contradictory or of an undefined order counts as unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.formats.parquet.footer import Chunk, Leaf
from paimon_pyds.formats.parquet.page_index import ColumnIndex
from paimon_pyds.formats.parquet.thrift import BINARY, I32, I64, STRUCT, Struct
from paimon_pyds.predicate.prune import ColumnStats
from paimon_pyds.types import (
    BINARY_KINDS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    AtomicType,
    DataType,
    Kind,
    arrow_type,
    timestamp_unit,
)  # fmt: skip

__all__ = ["RawBounds", "agrees", "chunk_bounds", "column_stats", "comparable", "page_bounds"]

_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES, _FIXED = 0, 1, 2, 4, 5, 6, 7
_DTYPES = {_BOOLEAN: "u1", _INT32: "<i4", _INT64: "<i8", _FLOAT: "<f4", _DOUBLE: "<f8"}
_SIGNED_CONVERTED = frozenset({None, 15, 16, 17, 18})
"""Converted types of INTEGER columns: none, or INT_8 to INT_64; the unsigned ones order differently."""
_DATE, _TIME_MILLIS = 6, 7
_TIMESTAMP_UNITS = {1: "ms", 2: "us", 3: "ns"}
_TIMESTAMP_CONVERTED = {9: "ms", 10: "us"}


@dataclass(frozen=True, slots=True)
class RawBounds:
    """Per row group or page: bounds in Parquet's plain encoding (None where not told), NULLs (-1 likewise), rows."""

    low: list[bytes | None]
    high: list[bytes | None]
    nulls: list[int]
    rows: list[int]

    def extend(self, other: RawBounds) -> None:
        """Append the entries of another."""
        self.low.extend(other.low)
        self.high.extend(other.high)
        self.nulls.extend(other.nulls)
        self.rows.extend(other.rows)


def chunk_bounds(leaf: Leaf, chunks: Sequence[Chunk]) -> RawBounds:
    """Bounds of whole column chunks, from the footer."""
    bounds = RawBounds([], [], [], [])
    for chunk in chunks:
        stats = chunk.statistics or {}
        wire, count = stats.get(3, (I64, -1))
        known = wire == I64 and 0 <= count <= chunk.values
        bounds.low.append(_bound(stats, 6, 2, leaf))
        bounds.high.append(_bound(stats, 5, 1, leaf))
        bounds.nulls.append(0 if leaf.max_definition == 0 else count if known else -1)
        bounds.rows.append(chunk.values)
    return bounds


def _bound(stats: Struct, field_id: int, old_id: int, leaf: Leaf) -> bytes | None:
    found = stats.get(field_id)
    if found is None and leaf.physical not in (_BYTES, _FIXED):  # the old fields order bytes as signed
        found = stats.get(old_id)
    return found[1] if found is not None and found[0] == BINARY else None


def agrees(chunk: Chunk, index: ColumnIndex) -> bool:
    """Whether the bounds of pages can be those of their chunk: integers' least and greatest lie in some page each.

    What is shortened by its writer, or has several forms of one value, can't be told.
    """
    stats = chunk.statistics or {}
    if chunk.physical not in (_INT32, _INT64):
        return True
    return all(
        found is None or found[0] != BINARY or found[1] in values
        for found, values in ((stats.get(6), index.minima), (stats.get(5), index.maxima))
    )


def page_bounds(leaf: Leaf, index: ColumnIndex, rows: Sequence[int]) -> RawBounds:
    """Bounds of the pages of one column chunk, which have these row counts."""
    empty = index.null_pages.tolist()
    counts = [-1] * len(empty) if index.null_counts is None else index.null_counts.tolist()
    if leaf.max_definition == 0:
        nulls = [0] * len(empty)
    else:
        nulls = [n if null else c if 0 <= c <= n else -1 for null, c, n in zip(empty, counts, rows, strict=True)]
    low = [None if null else b for null, b in zip(empty, index.minima, strict=True)]
    high = [None if null else b for null, b in zip(empty, index.maxima, strict=True)]
    return RawBounds(low, high, nulls, list(rows))


def comparable(leaf: Leaf, type_: DataType | None) -> bool:
    """Whether statistics of this leaf order values as Paimon's type does, in the same unit."""
    if not leaf.flat or not isinstance(type_, AtomicType):
        return False
    kind, physical, element = type_.kind, leaf.physical, leaf.element
    converted = element.get(6, (I32, None))[1]
    logical = _logical(element)
    if kind in INTEGER_KINDS:
        signed = not logical or (10 in logical and logical[10][1].get(2, (0, False))[1] is True)
        return physical in (_INT32, _INT64) and converted in _SIGNED_CONVERTED and signed
    if kind is Kind.DATE:
        return physical == _INT32 and (converted == _DATE or 6 in logical)
    if kind is Kind.TIME:
        return physical == _INT32 and (converted == _TIME_MILLIS or (7 in logical and _unit(logical[7]) == "ms"))
    if kind in TIMESTAMP_KINDS:
        unit = _unit(logical[8]) if 8 in logical else _TIMESTAMP_CONVERTED.get(converted)
        return physical == _INT64 and unit == timestamp_unit(type_)
    if kind is Kind.DECIMAL:
        return physical in (_INT32, _INT64, _FIXED) and element.get(7, (I32, None))[1] == type_.scale
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return physical == _BYTES
    return physical == {Kind.BOOLEAN: _BOOLEAN, Kind.FLOAT: _FLOAT, Kind.DOUBLE: _DOUBLE}.get(kind)


def _logical(element: Struct) -> Struct:
    """The union LogicalType of a schema element, empty when there is none."""
    wire, value = element.get(10, (STRUCT, {}))
    return value if wire == STRUCT and all(f[0] == STRUCT for f in value.values()) else {}


def _unit(field: tuple[int, Any]) -> str | None:
    """The unit of a TimeType or TimestampType: its field 2, a union."""
    wire, unit = field[1].get(2, (0, None))
    return next((_TIMESTAMP_UNITS.get(i) for i in unit), None) if wire == STRUCT else None


def column_stats(leaf: Leaf, type_: DataType | None, bounds: RawBounds) -> ColumnStats:
    """The bounds as values of the column's Arrow type; only the counts where the orders differ."""
    counts = np.array(bounds.nulls, np.int64)
    nulls = pa.array(counts, mask=counts < 0)
    rows = pa.array(bounds.rows, pa.int64())
    if not isinstance(type_, AtomicType) or not comparable(leaf, type_):
        nothing = pa.nulls(len(rows), arrow_type(type_) if isinstance(type_, AtomicType) else pa.int64())
        return ColumnStats(nothing, nothing, nulls, rows, exact=False, nan_counted=False)
    low, high = _values(bounds.low, leaf, type_), _values(bounds.high, leaf, type_)
    known = _less_equal(low, high)
    return ColumnStats(low, high, nulls, rows, unknown=~known, exact=False, nan_counted=False)


def _less_equal(low: pa.Array, high: pa.Array) -> npt.NDArray[np.bool_]:
    """Where both are there and in order; false for NaN."""
    if pa.types.is_boolean(low.type):
        low, high = low.cast(pa.uint8()), high.cast(pa.uint8())
    found: npt.NDArray[np.bool_] = pc.less_equal(low, high).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _values(bounds: Sequence[bytes | None], leaf: Leaf, type_: AtomicType) -> pa.Array:
    target = arrow_type(type_)
    if leaf.physical == _BYTES:
        return _texts(bounds, target)
    if leaf.physical == _FIXED:
        whole = [None if b is None or len(b) > 16 else int.from_bytes(b, "big", signed=True) for b in bounds]
        return _decimals(whole, target)
    numbers, known = _numbers(bounds, leaf.physical)
    if pa.types.is_floating(target):
        return pa.array(numbers, mask=~known).cast(target)
    if pa.types.is_decimal(target):
        return _decimals([int(n) if k else None for n, k in zip(numbers, known, strict=True)], target)
    if pa.types.is_boolean(target):
        return pa.array(numbers != 0, mask=~known)
    if pa.types.is_integer(target):
        limits = np.iinfo(f"i{target.bit_width // 8}")
        known &= (numbers >= limits.min) & (numbers <= limits.max)
        return pa.array(np.where(known, numbers, 0), mask=~known).cast(target)
    stored = pa.int64() if leaf.physical == _INT64 else pa.int32()
    return pa.array(numbers, mask=~known).cast(stored).view(target)


def _numbers(bounds: Sequence[bytes | None], physical: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    dtype = np.dtype(_DTYPES[physical])
    fits = [b is not None and len(b) == dtype.itemsize for b in bounds]
    blank = bytes(dtype.itemsize)
    raw = b"".join(b if b is not None and fit else blank for b, fit in zip(bounds, fits, strict=True))
    values = np.frombuffer(raw, dtype)
    return values.astype(np.float64 if dtype.kind == "f" else np.int64), np.array(fits, np.bool_)


def _texts(bounds: Sequence[bytes | None], target: pa.DataType) -> pa.Array:
    plain = pa.array(bounds, pa.binary())
    if pa.types.is_binary(target):
        return plain
    try:
        return plain.cast(target)
    except pa.ArrowInvalid:  # cut inside a character, or no text at all
        return pa.nulls(len(bounds), target)


def _decimals(values: Sequence[int | None], target: pa.DataType) -> pa.Array:
    """Decimals from their unscaled integers; those of too many digits are unknown."""
    limit = 10**target.precision
    good = [v if v is not None and -limit < v < limit else None for v in values]
    raw = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in good)
    valid = pa.array([v is not None for v in good], pa.bool_())
    return pa.Array.from_buffers(target, len(good), [valid.buffers()[1], pa.py_buffer(raw)])
