"""The functions of the option ``bucket-function.type``: default, mod, hive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import binary_parts, fixed_values, pc, to_numpy, valid_mask
from paimon_pyds.base.row import hash_rows
from paimon_pyds.base.types import DataType, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS, Kind
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError


def bucket_of(
    columns: Sequence[pa.Array], types: Sequence[DataType], num_buckets: int, function: str = "default"
) -> npt.NDArray[np.int32]:
    """The bucket of every row.

    Args:
        columns: the bucket key, column by column, in the order of the bucket key.
        types: its Paimon types.
        num_buckets: how many buckets a partition has, 1 or more.
        function: ``default`` (the remainder of the row's hash), ``mod`` (the remainder of one INT or BIGINT key, which
            is never negative; NULL goes to bucket 0) or ``hive`` (as Hive's bucketed tables).

    Returns:
        int32 numbers in 0 … num_buckets-1.

    Raises:
        OptionError: no such function, or a number of buckets below 1.
        SchemaError: key columns that the function is not made for.
        UnsupportedError: a key of a nested type; for ``hive`` also of a timestamp type.
    """
    if num_buckets < 1:
        raise OptionError(f"a partition can't have {num_buckets} buckets", hint="set 'bucket' to 1 or more")
    match function.lower():
        case "default":
            # Java's % cuts towards zero, so the absolute value of the remainder is that of |hash| % n.
            wide = hash_rows(columns, types).astype(np.int64)
            return (np.abs(wide) % num_buckets).astype(np.int32)
        case "mod":
            return _mod(columns, types, num_buckets)
        case "hive":
            return ((_hive_hash(columns, types) & np.uint32(0x7FFFFFFF)) % np.uint32(num_buckets)).astype(np.int32)
    raise OptionError(f"unknown bucket function {function!r}", hint="use default, mod or hive")


def _mod(columns: Sequence[pa.Array], types: Sequence[DataType], num_buckets: int) -> npt.NDArray[np.int32]:
    if len(types) != 1 or types[0].kind not in (Kind.INT, Kind.BIGINT):
        raise SchemaError(
            f"bucket function mod needs one bucket key of type INT or BIGINT, not {[str(t) for t in types]}",
            hint="use bucket-function.type=default",
        )
    keys = columns[0]
    if keys.null_count:
        keys = pc.fill_null(keys, 0)
    numbers = np.asarray(to_numpy(keys), np.int64)
    return np.asarray(np.mod(numbers, num_buckets), np.int32)


_Hashes = npt.NDArray[np.uint32]
_THIRTY_ONE = np.uint32(31)


def _hive_hash(columns: Sequence[pa.Array], types: Sequence[DataType]) -> _Hashes:
    """Hive's hash of every row, as unsigned 32-bit numbers.
    Raises UnsupportedError: a key column of a timestamp or nested type."""
    total = np.zeros(len(columns[0]) if columns else 0, np.uint32)
    for column, type_ in zip(columns, types, strict=True):
        hashes = _column_hash(column, type_)
        valid = valid_mask(column)
        total = total * _THIRTY_ONE + (hashes if valid is None else np.where(valid, hashes, np.uint32(0)))
    return total


def _column_hash(column: pa.Array, type_: DataType) -> _Hashes:
    kind = type_.kind
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        return _bytes_hash(column if large else column.cast(arrow_type(type_)))
    if kind is Kind.DECIMAL:
        return _decimal_hash(column.cast(arrow_type(type_)), getattr(type_, "scale", 0))
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        floats = to_numpy(pc.fill_null(column.cast(arrow_type(type_)), 0.0))
        # Both zeros hash as +0, every NaN as the canonical one.
        floats = np.where(np.isnan(floats), np.abs(np.full_like(floats, np.nan)), floats + floats.dtype.type(0))
        if kind is Kind.FLOAT:
            return np.asarray(floats.view(np.uint32))
        return _long_hash(floats.view(np.uint64))
    if kind is Kind.BOOLEAN:
        return np.asarray(to_numpy(pc.fill_null(column, False)), np.uint32)
    if kind in (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.DATE, Kind.TIME, Kind.BIGINT):
        numbers = column.cast(arrow_type(type_)).cast(pa.int64() if kind is Kind.BIGINT else pa.int32())
        values = to_numpy(pc.fill_null(numbers, 0)).astype(np.int64).view(np.uint64)
        return _long_hash(values) if kind is Kind.BIGINT else values.astype(np.uint32)
    raise UnsupportedError(
        f"bucket function hive has no hash for {type_}", hint="use bucket-function.type=default or another bucket key"
    )


def _long_hash(values: npt.NDArray[np.uint64]) -> _Hashes:
    return (values ^ (values >> np.uint64(32))).astype(np.uint32)


def _bytes_hash(column: pa.Array) -> _Hashes:
    data, starts, ends = binary_parts(column)
    out = np.zeros(len(starts), np.uint32)
    lengths = ends - starts
    if len(starts) == 0 or not lengths.any():
        return out
    powers = np.empty(int(lengths.max()), np.uint32)
    powers[0] = 1
    if len(powers) > 1:
        powers[1:] = _THIRTY_ONE
        np.multiply.accumulate(powers, out=powers)
    low, high = int(starts[0]), int(ends[-1])
    to_end = np.repeat(ends - low, lengths) - 1 - np.arange(high - low)
    signed = data[low:high].view(np.int8).astype(np.int32).view(np.uint32)
    filled = np.flatnonzero(lengths)
    out[filled] = np.add.reduceat(signed * powers[to_end], (starts - low)[filled])
    return out


def _decimal_hash(column: pa.Array, scale: int) -> _Hashes:
    """``BigDecimal.hashCode`` of each value without trailing zeros after the point."""
    raw = fixed_values(column, "<u8", 2).reshape(-1, 2)
    if not len(raw):
        return np.zeros(len(column), np.uint32)
    negative = raw[:, 1] >> np.uint64(63) != 0
    low = np.where(negative, ~raw[:, 0] + np.uint64(1), raw[:, 0])
    carry = negative & (low == 0)
    high = np.where(negative, ~raw[:, 1] + carry.astype(np.uint64), raw[:, 1])
    low_32 = np.uint64(0xFFFFFFFF)
    limbs = np.stack([high >> np.uint64(32), high & low_32, low >> np.uint64(32), low & low_32])
    scales = np.full(len(column), scale, np.uint32)
    zero = ~limbs.any(axis=0)
    scales[zero] = 0
    live = np.flatnonzero(~zero)
    for _ in range(scale):
        quotient = np.empty((4, len(live)), np.uint64)
        rest = np.zeros(len(live), np.uint64)
        for limb in range(4):
            part = (rest << np.uint64(32)) | limbs[limb, live]
            quotient[limb], rest = np.divmod(part, np.uint64(10))
        even = rest == 0
        live = live[even]
        if len(live) == 0:
            break
        limbs[:, live] = quotient[:, even]
        scales[live] -= np.uint32(1)
    hashes = np.zeros(len(column), np.uint32)
    for limb in range(4):
        hashes = hashes * _THIRTY_ONE + limbs[limb].astype(np.uint32)
    return np.where(negative, np.uint32(0) - hashes, hashes) * _THIRTY_ONE + scales
