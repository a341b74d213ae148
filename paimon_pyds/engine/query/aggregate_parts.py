"""Partial results that are gathered file by file: distinct values with counts, a minimum or maximum, a sum.

Each file gives a part: from metadata (a constant, exact bounds), from an index, or from values that were read. Parts of
one answer add up, whatever they come from. All that has an order is held in order keys (`paimon_pyds.index.keys`).
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, empty_table, fixed_values, grouped, pc, to_numpy
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.index.aggregate import COUNTING, ORDERING, SUMMING, IndexedColumn
from paimon_pyds.index.keys import Key, order_codec
from paimon_pyds.metadata.planned_file import ColumnBounds

_MERGE_ROWS = 1 << 20
"""Distinct values that wait before they are merged into one part, to bound memory."""
_BIGINT = 1 << 63
"""Sums of integers outside of -2^63 to 2^63 - 1 overflow Spark's BIGINT."""
_EXACT = decimal.Context(prec=100)


class Fold(ABC):
    """One answer in the making. Parts are made on threads and added by one; None is no part: the file is read."""

    index_types: ClassVar[tuple[str, ...]]
    """Index types that can give a part, best first."""

    def ignores(self, bounds: ColumnBounds) -> bool:
        """Whether a file with these bounds can't change the answer any more."""
        return False

    def of_bounds(self, bounds: ColumnBounds) -> Any:
        """The part of a file all of whose rows count, from its statistics alone."""
        return None

    @abstractmethod
    def of_constant(self, key: Key | None, rows: int) -> Any:
        """The part of rows that all hold one value."""

    @abstractmethod
    def of_index(self, column: IndexedColumn, rows: BitMap | None, count: int) -> Any:
        """The part of ``count`` rows by an index."""

    @abstractmethod
    def of_values(self, values: pa.Array) -> Any:
        """The part of values that were read."""

    @abstractmethod
    def add(self, part: Any) -> None:
        """Take a part in."""

    @abstractmethod
    def result(self) -> Any:
        """The answer."""


class Distinct(Fold):
    """Distinct values and how many rows hold each: a table of the column and ``count``, ascending, NULL first."""

    index_types = COUNTING

    def __init__(self, field: DataField) -> None:
        self._field = field
        self._codec = order_codec(field.type)
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._nulls = 0

    def of_constant(self, key: Key | None, rows: int) -> tuple[pa.Array, Any, int] | None:
        if key is None:
            return None if not rows else (self._codec.array(self._codec.values([])), np.zeros(0, np.int64), rows)
        return self._codec.array(self._codec.values([key])), np.array([rows]), 0

    def of_index(self, column: IndexedColumn, rows: BitMap | None, count: int) -> tuple[pa.Array, Any, int] | None:
        found = column.counts(rows)
        if found is None or not self._codec.is_index_key:
            return None
        return self._codec.of_index(found[0]), found[1], count - int(found[1].sum())

    def of_values(self, values: pa.Array) -> tuple[pa.Array, Any, int]:
        counted = self._codec.array(values).drop_null().value_counts()
        return counted.field(0), counted.field(1), values.null_count

    def add(self, part: tuple[pa.Array, Any, int]) -> None:
        keys, counts, nulls = part
        self._nulls += nulls
        if len(keys):
            self._parts.append(pa.table({"key": keys, "count": array(counts, pa.int64())}))
            self._rows += len(keys)
        if self._rows > 2 * _MERGE_ROWS and len(self._parts) > 1:
            self._merge()

    def _merge(self) -> pa.Table:
        key = self._codec.array(self._codec.values([])).type
        schema = pa.schema([("key", key), ("count", pa.int64())])
        whole = pa.concat_tables([empty_table(schema), *self._parts])
        merged = grouped(whole, ["key"], [("count", "sum")]).select(["key", "count_sum"])
        merged = merged.rename_columns(["key", "count"])
        self._parts, self._rows = [merged], merged.num_rows
        return merged

    def result(self) -> pa.Table:
        merged = self._merge()
        merged = merged.filter(pc.greater(merged["count"], 0)).sort_by("key")
        keys = merged.column("key").combine_chunks()
        keys = keys if isinstance(keys, pa.Array) else pa.concat_arrays(keys.chunks)
        values = self._codec.values(keys) if self._codec.codec is not None else keys
        counts = merged.column("count")
        if self._nulls:
            values = pa.concat_arrays([pa.nulls(1, values.type), values])
            counts = pa.chunked_array([array([self._nulls], pa.int64()), *counts.chunks], pa.int64())
        return pa.Table.from_arrays([pa.chunked_array([values]), counts], names=[self._field.name, "count"])


class Extreme(Fold):
    """The smallest or the largest value that is not NULL; None without values. NaN is the largest."""

    index_types = ORDERING

    def __init__(self, field: DataField, *, largest: bool) -> None:
        self._codec = order_codec(field.type)
        self._largest = largest
        self._best: Any = None

    def _beats(self, key: Any, other: Any) -> bool:
        return bool(key > other) if self._largest else bool(key < other)

    def ignores(self, bounds: ColumnBounds) -> bool:
        bound = bounds.high if self._largest else bounds.low
        return self._best is not None and bound is not None and not self._beats(bound, self._best)

    def of_bounds(self, bounds: ColumnBounds) -> Any:
        return (bounds.high if self._largest else bounds.low) if bounds.attained else None

    def of_constant(self, key: Key | None, rows: int) -> Any:
        return key if rows else None

    def of_index(self, column: IndexedColumn, rows: BitMap | None, count: int) -> tuple[Key, ...] | None:
        if not self._codec.is_index_key:
            return None
        keys = column.best(rows, 1, largest=self._largest, ties=False, keys=True)[1]
        return tuple(self._codec.of_index(keys).to_pylist())

    def of_values(self, values: pa.Array) -> Any:
        keys = self._codec.array(values)
        found = (pc.max if self._largest else pc.min)(keys)
        return self._unscaled(found) if found.is_valid else None

    def _unscaled(self, scalar: pa.Scalar) -> Any:
        if self._codec.codec is not None:
            return scalar.as_py()
        return int(scalar.as_py().scaleb(self._codec.type.scale or 0, _EXACT))

    def add(self, part: Any) -> None:
        for key in part if isinstance(part, tuple) else () if part is None else (part,):
            if self._best is None or self._beats(key, self._best):
                self._best = key

    def result(self) -> Any:
        return None if self._best is None else python_value(self._codec.values([self._best])[0])


class Sum(Fold):
    """The sum of the values that are not NULL, None without values, typed as Spark types it.

    Integers give BIGINT, DECIMAL(p, s) gives DECIMAL(p + 10, s) of 38 digits at most, FLOAT and DOUBLE give DOUBLE.
    """

    index_types = SUMMING

    def __init__(self, field: DataField) -> None:
        kind = field.type.kind
        if kind not in INTEGER_KINDS | {Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE}:
            raise UnsupportedError(
                f"values of column {field.name!r}, of type {field.type}, have no sum", hint="only numbers have one"
            )
        self._field = field
        self._codec = order_codec(field.type)
        self._float = kind in (Kind.FLOAT, Kind.DOUBLE)
        self._total: Any = 0.0 if self._float else 0
        self._values = 0

    def of_constant(self, key: Key | None, rows: int) -> tuple[Any, int] | None:
        if key is None:
            return 0, 0
        return (float(self._floats([key])[0]) * rows, rows) if self._float else (int(key) * rows, rows)

    def of_index(self, column: IndexedColumn, rows: BitMap | None, count: int) -> tuple[Any, int] | None:
        if self._float:
            found = column.counts(rows)
            if found is None:
                return None
            with np.errstate(invalid="ignore", over="ignore"):  # infinities add up to NaN, as they should
                return float(np.dot(self._floats(found[0]), found[1])), int(found[1].sum())
        total = column.total(rows)
        return None if total is None else (total, count - len(column.nulls(rows)))

    def _floats(self, keys: Any) -> npt.NDArray[np.float64]:
        values = self._codec.values(keys)
        return np.asarray(to_numpy(values), np.float64)

    def of_values(self, values: pa.Array) -> tuple[Any, int]:
        there = values.drop_null()
        if self._float:
            with np.errstate(invalid="ignore", over="ignore"):
                return float(np.asarray(to_numpy(there), np.float64).sum()), len(there)
        if self._codec.codec is not None:
            return _exact_sum(to_numpy(self._codec.array(there))), len(there)
        return _wide_sum(there), len(there)

    def add(self, part: tuple[Any, int]) -> None:
        self._total += part[0]
        self._values += part[1]

    def result(self) -> Any:
        if not self._values:
            return None
        if self._float:
            return float(self._total)
        type_ = self._codec.type
        digits = min((type_.precision or 0) + 10, 38)
        limit = 10**digits if type_.kind is Kind.DECIMAL else _BIGINT
        if not (-limit < self._total < limit or self._total == -_BIGINT == -limit):
            wide = f"DECIMAL({digits}, {type_.scale or 0})" if type_.kind is Kind.DECIMAL else "BIGINT"
            raise SchemaError(
                f"the sum of column {self._field.name!r} does not fit {wide}: it is {self._total}",
                hint="sum parts of it, by a filter",
            )
        if type_.kind is not Kind.DECIMAL:
            return int(self._total)
        return decimal.Decimal(self._total).scaleb(-(type_.scale or 0), _EXACT)


def _exact_sum(values: npt.NDArray[np.int64]) -> int:
    """The sum as Python's integer: upper and lower halves apart, so that nothing wraps around."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _wide_sum(values: pa.Array) -> int:
    """The sum of the unscaled values of a decimal128 array without NULLs."""
    halves = fixed_values(values, "<u8", 2).reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view("<i8")
    lower = (int((low >> np.uint64(32)).sum()) << 32) + int((low & np.uint64(0xFFFFFFFF)).sum())
    return (_exact_sum(high) << 64) + lower


def python_value(scalar: pa.Scalar) -> Any:
    """A scalar as a Python object.

    A timestamp or date that Python's can't hold, for its nanoseconds or its year, is a `numpy.datetime64`.
    """
    if scalar.is_valid and pa.types.is_timestamp(scalar.type) and scalar.type.unit == "ns":
        if scalar.value % 1000:
            return np.datetime64(scalar.value, "ns")
        scalar = scalar.cast(pa.timestamp("us", scalar.type.tz))
    try:
        value = scalar.as_py()
    except OverflowError:
        return np.datetime64(scalar.value, "D" if pa.types.is_date(scalar.type) else scalar.type.unit)
    return math.nan if isinstance(value, float) and math.isnan(value) else value
