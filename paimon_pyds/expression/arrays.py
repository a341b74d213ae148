"""What kernels share: arrays and scalars side by side, null masks, one evaluation per distinct value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import ExpressionError, PredicateError

__all__ = ["Datum", "Kernel", "arrays", "by_distinct", "by_distinct_rows", "filled", "spread", "valid"]

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A value per row, or one for all rows."""
Kernel: TypeAlias = "Callable[..., pa.Array]"
"""A function of data, of which one at least is an array."""


def spread(datum: Datum, rows: int) -> pa.Array:
    """A value per row."""
    return pa.repeat(datum, rows) if isinstance(datum, pa.Scalar) else datum


def arrays(data: Sequence[Datum]) -> list[pa.Array]:
    """All of them as arrays of one length."""
    rows = next(len(datum) for datum in data if not isinstance(datum, pa.Scalar))
    return [spread(datum, rows) for datum in data]


def valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows have a value."""
    return np.asarray(array.is_valid()) if array.null_count else np.ones(len(array), np.bool_)


def filled(array: pa.Array, value: object = 0) -> npt.NDArray[Any]:
    """The values of a number column in numpy, nulls replaced."""
    plain = array.fill_null(pa.scalar(value, array.type)) if array.null_count else array
    found: npt.NDArray[Any] = plain.to_numpy(zero_copy_only=False)
    return found


def by_distinct(array: pa.Array, function: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """A Python function of each distinct value; nulls stay.

    Raises:
        ExpressionError: the function raised a PredicateError.
    """
    encoded = array.dictionary_encode()
    try:
        converted = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type_)
    except PredicateError as error:
        raise ExpressionError(error.message, hint=error.hint) from None
    return pc.take(converted, encoded.indices)


def by_distinct_rows(function: Callable[..., Any], type_: pa.DataType, *columns: pa.Array) -> pa.Array:
    """A Python function of each distinct combination of values; null where one of them is.

    Raises:
        ExpressionError: the function raised a PredicateError.
    """
    rows = len(columns[0])
    codes, known = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
    for column in columns:
        encoded = column.dictionary_encode()
        known &= valid(encoded.indices)
        _, codes = np.unique(codes, return_inverse=True)
        codes = codes.reshape(-1) * max(len(encoded.dictionary), 1) + filled(encoded.indices).astype(np.int64)
    places = np.flatnonzero(known)
    _, firsts, inverse = np.unique(codes[places], return_index=True, return_inverse=True)
    samples = [column.take(pa.array(places[firsts])).to_pylist() for column in columns]
    try:
        converted = pa.array([function(*row) for row in zip(*samples, strict=True)], type_)
    except PredicateError as error:
        raise ExpressionError(error.message, hint=error.hint) from None
    wanted = np.zeros(rows, np.int64)
    wanted[places] = inverse.reshape(-1)
    return pc.take(converted, pa.array(wanted, mask=~known))
