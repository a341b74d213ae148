"""Arrow arrays from Python values, by their buffers.

Values and types that are not handled here are left to pyarrow. Layouts: Arrow columnar format, sections Fixed-Size
Primitive, Variable-size Binary and List.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_INTEGERS: dict[pa.DataType, type[np.signedinteger]] = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64, pa.date32(): np.int32,
    pa.time32("ms"): np.int32,
}  # fmt: skip
_MAX_OFFSET = 2**31 - 1
"""Greatest offset of Arrow's lists and texts with 32-bit offsets."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_UNITS = {"s": dt.timedelta(seconds=1), "ms": dt.timedelta(milliseconds=1), "us": _MICROSECOND, "ns": _MICROSECOND}


def bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    """Flags as Arrow has them, in a bit each."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def array_of(values: Sequence[object], type_: pa.DataType | None) -> pa.Array | None:
    """None where pyarrow has to do it."""
    kinds = set(map(type, values))
    valid = None
    if _NONE in kinds or not kinds:
        if len(kinds) <= 1:
            return pa.nulls(len(values), pa.null() if type_ is None else type_)
        kinds.remove(_NONE)
        valid = bits(np.array([value is not None for value in values], np.bool_))
    if type_ is None:
        type_ = _INFERRED.get(next(iter(kinds))) if len(kinds) == 1 else None
    if type_ is None:
        return None
    accepted, build = _BUILDERS.get(type_) or _BUILDERS_BY_ID.get(type_.id, _NO_BUILDER)
    return build(values, valid, type_) if kinds <= accepted else None


def _integers(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    try:
        numbers = np.array(values if valid is None else [0 if value is None else value for value in values], np.int64)
    except OverflowError:
        return None
    narrow = numbers.astype(_INTEGERS.get(type_, np.int64), copy=False)
    if narrow is not numbers and (narrow != numbers).any():
        return None
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(narrow)])


def _dates(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    if any(isinstance(value, int) for value in values):
        return _counts(values, valid, type_)
    days = [value.toordinal() - _EPOCH.toordinal() if isinstance(value, dt.date) else 0 for value in values]
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(np.array(days, np.int32))])


def _counts(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    """Dates and times by what they count."""
    return _integers(values, valid, type_) if all(value is None or isinstance(value, int) for value in values) else None


def _timestamps(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    """Those without a time zone are of UTC."""
    if any(isinstance(value, int) for value in values):
        return _counts(values, valid, type_)
    counts = []
    for value in values:
        moment = value if isinstance(value, dt.datetime) else _EPOCH
        past = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH
        count, rest = divmod(past, _UNITS[type_.unit])
        if rest:
            return None
        counts.append(count * 1000 if type_.unit == "ns" else count)
    if any(abs(count) >= 2**63 for count in counts):
        return None
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(np.array(counts, np.int64))])


def _decimals(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    words = bytearray()
    for value in values:
        sign, digits, exponent = value.as_tuple() if isinstance(value, Decimal) else (0, (0,), 0)
        if not isinstance(exponent, int) or exponent + type_.scale < 0 or exponent > type_.precision:
            return None
        unscaled = int("".join(map(str, digits))) * 10 ** (exponent + type_.scale)
        if unscaled >= 10**type_.precision:
            return None
        words += (-unscaled if sign else unscaled).to_bytes(16, "little", signed=True)
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(words)])


def _floats(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array:
    numbers = np.array([0.0 if value is None else value for value in values], np.float64)
    if type_ == pa.float32():
        with np.errstate(over="ignore"):
            numbers = numbers.astype(np.float32)
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(numbers)])


def _booleans(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(values), [valid, bits(np.array(values, np.bool_))])


def _texts(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    try:
        plain = [v.encode() if isinstance(v, str) else v if isinstance(v, bytes) else b"" for v in values]
    except UnicodeEncodeError:
        return None
    offsets = _offsets([len(value) for value in plain])
    if offsets is None:
        return None
    return pa.Array.from_buffers(type_, len(values), [valid, offsets, pa.py_buffer(b"".join(plain))])


def _lists(values: Sequence[object], valid: pa.Buffer | None, type_: pa.DataType) -> pa.Array | None:
    plain = [value if isinstance(value, list | tuple) else () for value in values]
    offsets = _offsets([len(value) for value in plain])
    items = array_of([item for value in plain for item in value], type_.value_type)
    if items is None or offsets is None:
        return None
    return pa.Array.from_buffers(type_, len(values), [valid, offsets], children=[items])


def _offsets(lengths: Sequence[int]) -> pa.Buffer | None:
    ends = list(accumulate(lengths, initial=0))
    return pa.py_buffer(np.array(ends, np.int32)) if ends[-1] <= _MAX_OFFSET else None


_NONE = type(None)
_SEQUENCES = frozenset({list, tuple})
_BUILDERS: dict[pa.DataType, tuple[frozenset[type], Callable[..., pa.Array | None]]] = {
    **{type_: (frozenset({int}), _integers) for type_ in _INTEGERS},
    **{type_: (frozenset({float}), _floats) for type_ in (pa.float32(), pa.float64())},
    pa.date32(): (frozenset({int, dt.date}), _dates),
    pa.bool_(): (frozenset({bool}), _booleans),
    pa.string(): (frozenset({str}), _texts),
    pa.binary(): (frozenset({bytes}), _texts),
}
"""For each type the Python types of its values, without None, and the function that makes an array of them."""
_BUILDERS_BY_ID: dict[int, tuple[frozenset[type], Callable[..., pa.Array | None]]] = {
    pa.timestamp("us").id: (frozenset({int, dt.datetime}), _timestamps),
    pa.decimal128(1).id: (frozenset({Decimal}), _decimals),
    pa.list_(pa.null()).id: (_SEQUENCES, _lists),
}
_NO_BUILDER = (frozenset[type](), _booleans)
_INFERRED = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.binary()}
