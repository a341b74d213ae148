"""Decimals as integers: the unscaled values of a DECIMAL column in numpy, 64 bits wide where that holds them.

Python's integers (numpy's object arrays) take the others, so that no product and no quotient is ever rounded twice.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import ExpressionError
from paimon_pyds.types import AtomicType

__all__ = ["NARROW", "Ints", "decimal_array", "from_unscaled", "rescale", "unscaled", "wide"]

Ints: TypeAlias = "npt.NDArray[Any]"
NARROW = 18
"""So many digits fit 64 bits."""
_LOW = (1 << 64) - 1


def unscaled(array: pa.Array) -> Ints:
    """The unscaled values of a decimal128 array; those of nulls are any."""
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
    if array.type.precision <= NARROW:
        narrow: Ints = np.where(_valid(array), words[:, 0], 0)
        return narrow
    low, high = words[:, 0].view(np.uint64).astype(object), words[:, 1].astype(object)
    found: Ints = np.where(_valid(array), (high << 64) + low, 0) if len(array) else low
    return found


def wide(values: Ints) -> Ints:
    """The same values as Python's integers."""
    found: Ints = values.astype(object)
    return found


def rescale(values: Ints, scale: int, target: int) -> Ints:
    """Values of one scale in another, rounded half up (away from zero) where digits are lost."""
    if target == scale:
        return values
    if target > scale:
        longer: Ints = wide(values) * 10 ** (target - scale)
        return longer
    step = 10 ** (scale - target)
    values = wide(values) if step > 10**NARROW else values
    half = step // 2
    magnitude = (np.abs(values) + half) // step
    found: Ints = np.where(values < 0, -magnitude, magnitude)
    return found


def from_unscaled(values: Ints, valid: npt.NDArray[np.bool_], type_: AtomicType) -> pa.Array:
    """A DECIMAL column from unscaled values.

    Raises:
        ExpressionError: a value has more digits than the type.
    """
    limit = 10 ** (type_.precision or 38)
    if values.dtype == object:
        values = np.where(valid, values, 0) if len(values) else values
        beyond = (values >= limit) | (values <= -limit)
    else:
        values = np.where(valid, values, 0)
        beyond = np.zeros(len(values), np.bool_) if limit > 2**63 else (values >= limit) | (values <= -limit)
    if np.any(beyond):
        from decimal import Decimal

        worst = Decimal(int(values[np.argmax(beyond)])).scaleb(-(type_.scale or 0))
        raise ExpressionError(f"{worst} does not fit {type_}")
    return decimal_array(values, valid, pa.decimal128(type_.precision, type_.scale))


def decimal_array(values: Ints, valid: npt.NDArray[np.bool_], type_: pa.DataType) -> pa.Array:
    """A decimal128 array of unscaled values (64 bits wide or Python's), not checked; NULL where not ``valid``."""
    words = np.empty((len(values), 2), np.int64)
    if values.dtype == object and len(values):
        words[:, 0] = (values & _LOW).astype(np.uint64).view(np.int64)
        words[:, 1] = (values >> 64).astype(np.int64)
    elif len(values):
        words[:, 0], words[:, 1] = values, values >> 63
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(words.tobytes())])


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid())
