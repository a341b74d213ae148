"""Aggregate functions on single values, one row after the other, as Paimon's documentation and Java's errors tell them.

An accumulator of None is NULL; `fold` begins with it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from paimon_pyds.base.types import AtomicType, Kind

Rows = Iterable[tuple[Any, bool]]
"""Values from the oldest to the newest, and whether each is taken back."""

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_CONTEXT = Context(prec=200)


class DivisionError(Exception):
    """A product that can't take a value back."""


class LimitError(Exception):
    """An integer outside of its type."""


def wrap(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def order_key(value: Any) -> Any:
    """What orders values: NaN above all numbers, -0.0 below 0.0; texts by their bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value, struct.pack(">d", value)[0] < 128)
    return value.encode() if isinstance(value, str) else value


class Model:
    """One function on a column of one type. ``wraps``: integers wrap around; else they end in `LimitError`."""

    def __init__(self, name: str, type_: AtomicType, *, wraps: bool = True) -> None:
        self.name, self.type, self.wraps = name, type_, wraps

    def _integer(self, value: int) -> int:
        wrapped = wrap(value, _BITS[self.type.kind])
        if wrapped != value and not self.wraps:
            raise LimitError
        return wrapped

    def fold(self, rows: Rows) -> Any:
        accumulator, initialized = None, False
        for value, retract in rows:
            if self.name in ("first_value", "first_non_null_value"):
                if not initialized and (self.name == "first_value" or value is not None):
                    accumulator, initialized = value, True
            elif retract:
                accumulator = self.retract(accumulator, value)
            else:
                accumulator = self.add(accumulator, value)
        return accumulator

    def add(self, accumulator: Any, value: Any) -> Any:
        if self.name in ("last_value", "primary-key"):
            return value
        if accumulator is None or value is None:
            return accumulator if value is None else value
        match self.name:
            case "last_non_null_value":
                return value
            case "max":
                return value if order_key(accumulator) < order_key(value) else accumulator
            case "min":
                return accumulator if order_key(accumulator) < order_key(value) else value
            case "bool_and":
                return accumulator and value
            case "bool_or":
                return accumulator or value
            case "sum":
                return self._number(accumulator, value, lambda a, b: a + b)
            case "product":
                return self._number(accumulator, value, lambda a, b: a * b)
        raise AssertionError(self.name)

    def retract(self, accumulator: Any, value: Any) -> Any:
        match self.name:
            case "primary-key":
                return value
            case "last_value":
                return None
            case "last_non_null_value":
                return accumulator if value is None else None
            case "sum":
                if accumulator is None:
                    return None if value is None else self._negative(value)
                return accumulator if value is None else self._number(accumulator, value, lambda a, b: a - b)
            case "product":
                if accumulator is None or value is None:
                    return accumulator
                return self._quotient(accumulator, value)
        raise AssertionError(self.name)

    def _number(self, a: Any, b: Any, operation: Callable[[Any, Any], Any]) -> Any:
        kind = self.type.kind
        if kind in _BITS:
            return self._integer(operation(a, b))
        if kind is Kind.DECIMAL:
            context_sum = operation(_Exact(a), _Exact(b)).value
            return self._decimal(context_sum)
        return self._floating(operation, a, b)

    def _floating(self, operation: Callable[[Any, Any], Any], a: float, b: float) -> float:
        one = np.float32 if self.type.kind is Kind.FLOAT else np.float64
        with np.errstate(all="ignore"):
            return float(operation(one(a), one(b)))

    def _negative(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return self._decimal(value.copy_negate())
        return self._integer(-value) if self.type.kind in _BITS else -value

    def _decimal(self, value: Decimal) -> Decimal | None:
        precision, scale = self.type.precision or 0, self.type.scale or 0
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _CONTEXT)
        rounded = rounded if rounded else rounded.copy_abs()  # there is one zero
        unscaled = int(rounded.scaleb(scale, _CONTEXT))
        if precision <= 18 and self.name == "sum":
            return rounded if -(2**63) <= unscaled < 2**63 else None
        return rounded if abs(unscaled) < 10**precision else None

    def _quotient(self, a: Any, b: Any) -> Any:
        kind = self.type.kind
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            return self._floating(lambda x, y: x / y, a, b)
        if b == 0:
            raise DivisionError
        if kind is Kind.DECIMAL:
            rest = abs(int(b.scaleb(self.type.scale or 0, _CONTEXT)))
            whole = abs(int(a.scaleb(self.type.scale or 0, _CONTEXT)))
            if whole * 10**200 % rest:
                raise DivisionError
            return self._decimal(_CONTEXT.divide(a, b))
        quotient = abs(a) // abs(b)
        return self._integer(-quotient if (a < 0) != (b < 0) else quotient)


class _Exact:
    """A decimal that is reckoned with in 200 digits."""

    def __init__(self, value: Decimal) -> None:
        self.value = value

    def __add__(self, other: _Exact) -> _Exact:
        return _Exact(_CONTEXT.add(self.value, other.value))

    def __sub__(self, other: _Exact) -> _Exact:
        return _Exact(_CONTEXT.subtract(self.value, other.value))

    def __mul__(self, other: _Exact) -> _Exact:
        return _Exact(_CONTEXT.multiply(self.value, other.value))
