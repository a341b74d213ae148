"""What Parquet's statistics say about the values of row groups or pages, as columns of numbers or bytes.

Source: apache/parquet-format, parquet.thrift (Statistics, ColumnIndex, ColumnOrder) and LogicalTypes.md. Bounds may be
shortened by their writer, outwards: they bound the values and need not occur among them. Bounds of floating-point
columns leave NaN out and do not tell -0.0 from 0.0. What is missing, contradictory or of an undefined order counts as
unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paimon_pyds.formats.parquet.footer import Chunk, Leaf
from paimon_pyds.formats.parquet.pageindex import ColumnIndex
from paimon_pyds.formats.parquet.thrift import BINARY, I32, I64, STRUCT, Struct
from paimon_pyds.types import (
    BINARY_KINDS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    AtomicType,
    DataType,
    Kind,
    timestamp_unit,
)  # fmt: skip

__all__ = ["Bounds", "chunk_bounds", "comparable", "page_bounds"]

_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES, _FIXED = 0, 1, 2, 4, 5, 6, 7
_DTYPES = {_BOOLEAN: "u1", _INT32: "<i4", _INT64: "<i8", _FLOAT: "<f4", _DOUBLE: "<f8"}
_SIGNED_CONVERTED = frozenset({None, 15, 16, 17, 18})
"""Converted types of INTEGER columns: none, or INT_8 to INT_64; the unsigned ones order differently."""
_DATE, _TIME_MILLIS = 6, 7
_TIMESTAMP_UNITS = {1: "ms", 2: "us", 3: "ns"}
_TIMESTAMP_CONVERTED = {9: "ms", 10: "us"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Per row group or page: smallest and largest value where ``known``, and what is known of NULLs.

    ``low`` and ``high`` hold int64, float64, or objects (bytes, int). ``null_count`` is -1 where unknown.
    """

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]
    known: npt.NDArray[np.bool_]
    all_null: npt.NDArray[np.bool_]
    null_count: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.known)


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
        return physical == _INT32 and (converted == _TIME_MILLIS or (7 in logical and _unit(logical[7][1]) == "ms"))
    if kind in TIMESTAMP_KINDS:
        unit = _unit(logical[8][1]) if 8 in logical else _TIMESTAMP_CONVERTED.get(converted)
        return physical == _INT64 and unit == timestamp_unit(type_)
    if kind is Kind.DECIMAL:
        return physical in (_INT32, _INT64, _FIXED) and element.get(7, (I32, None))[1] == type_.scale
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return physical == _BYTES
    wanted = {Kind.BOOLEAN: _BOOLEAN, Kind.FLOAT: _FLOAT, Kind.DOUBLE: _DOUBLE}.get(kind)
    return physical == wanted


def _logical(element: Struct) -> Struct:
    """The union LogicalType of a schema element, empty when there is none."""
    wire, value = element.get(10, (STRUCT, {}))
    return value if wire == STRUCT else {}


def _unit(fields: Struct) -> str | None:
    wire, unit = fields.get(2, (0, None))
    if wire != STRUCT:
        return None
    return next((_TIMESTAMP_UNITS.get(i) for i in unit), None)


def chunk_bounds(leaf: Leaf, chunks: Sequence[Chunk]) -> Bounds:
    """Bounds of whole column chunks, from the footer."""
    low, high, nulls = [], [], []
    for chunk in chunks:
        stats = chunk.statistics or {}
        low.append(_bound(stats, 6, 2, leaf))
        high.append(_bound(stats, 5, 1, leaf))
        wire, count = stats.get(3, (I64, -1))
        nulls.append(count if wire == I64 and 0 <= count <= chunk.values else -1)
    if leaf.max_definition == 0:
        nulls = [0] * len(chunks)
    null_count = np.array(nulls, np.int64)
    rows = np.array([c.values for c in chunks], np.int64)
    return _bounds(leaf, low, high, (null_count == rows) & (rows > 0), null_count)


def _bound(stats: Struct, field_id: int, old_id: int, leaf: Leaf) -> bytes | None:
    found = stats.get(field_id)
    if found is None and leaf.physical not in (_BYTES, _FIXED):  # the old fields order bytes as signed
        found = stats.get(old_id)
    return found[1] if found is not None and found[0] == BINARY else None


def page_bounds(leaf: Leaf, index: ColumnIndex) -> Bounds:
    """Bounds of the pages of one column chunk."""
    empty = index.null_pages.tolist()
    low = [None if null else b for b, null in zip(index.minima, empty, strict=True)]
    high = [None if null else b for b, null in zip(index.maxima, empty, strict=True)]
    counts = np.full(len(empty), -1, np.int64) if index.null_counts is None else index.null_counts
    if leaf.max_definition == 0:
        counts = np.zeros(len(empty), np.int64)
    return _bounds(leaf, low, high, index.null_pages, counts)


def _bounds(
    leaf: Leaf,
    low: Sequence[bytes | None],
    high: Sequence[bytes | None],
    all_null: npt.NDArray[np.bool_],
    null_count: npt.NDArray[np.int64],
) -> Bounds:
    if leaf.physical in _DTYPES:
        width = np.dtype(_DTYPES[leaf.physical]).itemsize
        known = np.array([_has(a, width) and _has(b, width) for a, b in zip(low, high, strict=True)], np.bool_)
        lows, highs = _numbers(low, leaf.physical), _numbers(high, leaf.physical)
    else:
        known = np.array([a is not None and b is not None for a, b in zip(low, high, strict=True)], np.bool_)
        lows, highs = _objects(low, leaf.physical), _objects(high, leaf.physical)
    known &= (lows <= highs).astype(np.bool_)  # false for NaN as well
    return Bounds(lows, highs, known, all_null, null_count)


def _has(value: bytes | None, width: int) -> bool:
    return value is not None and len(value) == width


def _numbers(values: Sequence[bytes | None], physical: int) -> npt.NDArray[Any]:
    dtype = np.dtype(_DTYPES[physical])
    blank = bytes(dtype.itemsize)
    raw = b"".join(v if v is not None and len(v) == dtype.itemsize else blank for v in values)
    return np.frombuffer(raw, dtype).astype(np.float64 if dtype.kind == "f" else np.int64)


def _objects(values: Sequence[bytes | None], physical: int) -> npt.NDArray[Any]:
    array = np.empty(len(values), object)
    if physical == _FIXED:  # a decimal: big-endian two's complement
        array[:] = [int.from_bytes(v or b"\x00", "big", signed=True) for v in values]
    else:
        array[:] = [v or b"" for v in values]
    return array
