"""What kernels share: arrays and scalars side by side, null masks, one evaluation per distinct value, decimals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, fixed_values, is_true, pc, scalar, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types import AtomicType
from paimon_pyds.errors import ExpressionError, PredicateError

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A value per row, or one for all rows."""
Kernel: TypeAlias = "Callable[..., pa.Array]"
"""A function of data, of which one at least is an array."""


LONGEST_TEXT = 64 << 20
"""Characters of one text that a function makes: Spark's 2 GiB would take all memory."""
MOST_TEXT = 1 << 30
"""Bytes of the texts that one function makes for one batch; Arrow's arrays hold twice as much."""


class TooLargeError(ExpressionError):
    """A function would make more than there is memory for."""


def check_one(size: int, what: str) -> None:
    """Raise ExpressionError for a text of more than `LONGEST_TEXT` characters, before there is memory for it."""
    _check(size, what, "a text", LONGEST_TEXT)


def check_text(size: int, what: str = "an expression") -> None:
    """Raise ExpressionError for more than `MOST_TEXT` characters or bytes, before there is memory for them."""
    _check(size, what, "texts", MOST_TEXT)


def _check(size: int, what: str, made: str, most: int) -> None:
    if size > most:
        raise TooLargeError(
            f"{what} makes {made} of {size:,} characters for one batch of rows; at most {most:,} are made",
            hint="make shorter texts",
        )


def spread(datum: Datum, rows: int) -> pa.Array:
    """A value per row. Raises ExpressionError where values are too large to be repeated."""
    if not isinstance(datum, pa.Scalar):
        return datum
    if datum.is_valid and _is_text(datum.type):
        check_text(rows * datum.as_buffer().size)
    elif datum.is_valid and pa.types.is_nested(datum.type):
        check_text(rows * pa.repeat(datum, 1).nbytes)
    return pa.repeat(datum, rows) if rows else arrow_array([], datum.type)  # of none Arrow can't repeat nested values


def text_bytes(array: pa.Array) -> int:
    """Bytes of all texts of a column, by its offsets."""
    bounds = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)
    return int(bounds[array.offset + len(array)] - bounds[array.offset]) if len(array) else 0


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


def _taken(values: pa.Array, places: pa.Array) -> pa.Array:
    if _is_text(values.type) and len(values):
        check_text(pc.sum(pc.take(pc.binary_length(values), places).cast(pa.int64())).as_py() or 0)
    return pc.take(values, places)


def _made(values: Iterable[Any], type_: pa.DataType) -> pa.Array:
    """An array of what a function makes; texts are counted while they are made.
    Raises ExpressionError: the function raised a PredicateError, or the texts are too long."""
    found, size = [], 0
    try:
        for value in values:
            found.append(value)
            if isinstance(value, str):
                size += len(value)
                check_text(size)
    except PredicateError as error:
        raise ExpressionError(error.message, hint=error.hint) from None
    return arrow_array(found, type_)


def arrays(data: Sequence[Datum]) -> list[pa.Array]:
    """All of them as arrays of one length."""
    rows = next(len(datum) for datum in data if not isinstance(datum, pa.Scalar))
    return [spread(datum, rows) for datum in data]


def valid(array: pa.Array) -> Flags:
    """Which rows have a value."""
    return is_true(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)


def filled(array: pa.Array, value: object = 0) -> npt.NDArray[Any]:
    """The values of a number column in numpy, nulls replaced."""
    plain = pc.fill_null(array, scalar(value, array.type)) if array.null_count else array
    found: npt.NDArray[Any] = to_numpy(plain)
    return found


def in_unit(counts: pa.Array, source: int, target: int) -> pa.Array:
    """int64 counts of one unit in another one; ``source`` and ``target`` are counts per second. Rounds towards the
    past.
    Raises ArrowInvalid: a count does not fit 64 bits."""
    if target >= source:
        return pc.multiply_checked(counts, scalar(target // source, pa.int64()))
    return arrow_array(filled(counts) // (source // target), pa.int64(), mask=~valid(counts))


def by_distinct(array: pa.Array, function: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """A Python function of each distinct value; nulls stay.
    Raises ExpressionError: the function raised a PredicateError, or its texts are too long."""
    encoded = array.dictionary_encode()
    return _taken(_made(map(function, encoded.dictionary.to_pylist()), type_), encoded.indices)


def by_distinct_rows(function: Callable[..., Any], type_: pa.DataType, *data: Datum) -> pa.Array:
    """A Python function of each distinct combination of values; null where one of them is.
    Raises ExpressionError: the function raised a PredicateError, or its texts are too long."""
    columns = [datum for datum in data if not isinstance(datum, pa.Scalar)]
    rows = len(columns[0])
    if len(columns) < len(data) and not all(datum.is_valid for datum in data if isinstance(datum, pa.Scalar)):
        return pa.nulls(rows, type_)
    codes, not_null = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
    for column in columns:
        encoded = column.dictionary_encode()
        not_null &= valid(encoded.indices)
        _, codes = np.unique(codes, return_inverse=True)
        codes = codes.reshape(-1) * max(len(encoded.dictionary), 1) + filled(encoded.indices).astype(np.int64)
    places = np.flatnonzero(not_null)
    _, firsts, inverse = np.unique(codes[places], return_index=True, return_inverse=True)
    wanted_rows = arrow_array(places[firsts])
    samples = [
        [datum.as_py()] * len(firsts) if isinstance(datum, pa.Scalar) else datum.take(wanted_rows).to_pylist()
        for datum in data
    ]
    converted = _made(starmap(function, zip(*samples, strict=True)), type_)
    wanted = np.zeros(rows, np.int64)
    wanted[places] = inverse.reshape(-1)
    return _taken(converted, arrow_array(wanted, mask=~not_null))


def each_row(*arguments: Any) -> pa.Array:
    """`by_distinct_rows` as a kernel: columns, then the function and the type of its results."""
    *data, function, type_ = arguments
    return by_distinct_rows(function, type_, *data)


# ----------------------------------------------------------------------------------------------------------- decimals
# as integers: unscaled values, 64 bits wide where that holds them. Python's integers (object arrays) take the others,
# so that no product and no quotient is ever rounded twice.

Ints: TypeAlias = "npt.NDArray[Any]"
NARROW_DIGITS = 18
"""Digits of a DECIMAL that fit 64 bits."""
_LOW = (1 << 64) - 1
"""The low 64 bits of a number of 128."""


def unscaled(array: pa.Array) -> Ints:
    """The unscaled values of a decimal128 array; those of nulls are any."""
    words = fixed_values(array, "<i8", 2).reshape(-1, 2)
    if array.type.precision <= NARROW_DIGITS:
        return np.where(valid(array), words[:, 0], 0)
    low, high = words[:, 0].view(np.uint64).astype(object), words[:, 1].astype(object)
    return np.where(valid(array), (high << 64) + low, 0) if len(array) else low


def wide(values: Ints) -> Ints:
    """The same values as Python's integers."""
    return values.astype(object)


def rescale(values: Ints, scale: int, target: int) -> Ints:
    """Values of one scale in another, rounded half up (away from zero) where digits are lost."""
    if target == scale:
        return values
    if target > scale:
        longer: Ints = wide(values) * 10 ** (target - scale)
        return longer
    step = 10 ** (scale - target)
    values = wide(values) if step > 10**NARROW_DIGITS else values
    half = step // 2
    magnitude = (np.abs(values) + half) // step
    found: Ints = np.where(values < 0, -magnitude, magnitude)
    return found


def from_unscaled(values: Ints, valid: Flags, type_: AtomicType) -> pa.Array:
    """A DECIMAL column from unscaled values. Raises ExpressionError: a value has more digits than the type."""
    limit = 10 ** (type_.precision or 38)
    if values.dtype == object:
        values = np.where(valid, values, 0) if len(values) else values
        too_large = (values >= limit) | (values <= -limit)
    else:
        values = np.where(valid, values, 0)
        too_large = np.zeros(len(values), np.bool_) if limit > 2**63 else (values >= limit) | (values <= -limit)
    if np.any(too_large):
        worst = Decimal(int(values[np.argmax(too_large)])).scaleb(-(type_.scale or 0))
        raise ExpressionError(f"{worst} does not fit {type_}")
    return decimal_array(values, valid, pa.decimal128(type_.precision, type_.scale))


def decimal_array(values: Ints, valid: Flags, type_: pa.DataType) -> pa.Array:
    """A decimal128 array of unscaled values (64 bits wide or Python's), not checked; NULL where not ``valid``."""
    words = np.empty((len(values), 2), np.int64)
    if values.dtype == object and len(values):
        words[:, 0] = (values & _LOW).astype(np.uint64).view(np.int64)
        words[:, 1] = (values >> 64).astype(np.int64)
    elif len(values):
        words[:, 0], words[:, 1] = values, values >> 63
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(words.tobytes())])
