"""One leaf of a filter, from a column's new type back to the type that an old file has.

A cast that is strictly increasing and loses nothing (INT to BIGINT, FLOAT to DOUBLE, DATE to TIMESTAMP, …) lets every
comparison be answered in the old type: the literal is replaced by the greatest old value that is not greater than it.
For any other cast the leaf becomes TRUE: nothing is pruned by it, and exact evaluation after the cast decides.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from paimon_pyds.evolution.casting import cast_keeps_nulls, widens_to_decimal
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate
from paimon_pyds.types import AtomicType, DataType, timestamp_unit
from paimon_pyds.types.kinds import (
    BINARY_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    MAX_LENGTH,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNITS_PER_SECOND,
    Kind,
)

_Floor = Callable[[Any], tuple[Any, bool]]
"""From a literal of the new type: the greatest value of the old type whose cast is not greater (None when there is
none), and whether its cast equals the literal."""

_ORDERED = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.NOT_IN})


def devolve_leaf(leaf: Leaf, column: ColumnRef, read: DataType, file: DataType) -> Predicate:
    """The leaf for ``column`` of the file, of type ``file``, where the table has type ``read`` (the types differ)."""
    if leaf.op is Op.IS_NOT_NULL:
        return Leaf(Op.IS_NOT_NULL, column)
    if leaf.op is Op.IS_NULL:
        return Leaf(Op.IS_NULL, column) if cast_keeps_nulls(file, read) else Const.TRUE
    if not isinstance(read, AtomicType) or not isinstance(file, AtomicType):
        return Const.TRUE
    if _same_values(leaf, file, read):
        return Leaf(leaf.op, column, leaf.literals)
    floor = _floor(file, read)
    if floor is None or leaf.op not in _ORDERED:
        return Const.TRUE
    return _compare(leaf, column, floor)


def _same_values(leaf: Leaf, file: AtomicType, read: AtomicType) -> bool:
    """Whether the cast leaves the values alone as far as this leaf can see: strings and bytes that are not cut."""
    strings = file.kind in STRING_KINDS and read.kind is Kind.VARCHAR
    if not strings and not (file.kind in BINARY_KINDS and read.kind is Kind.VARBINARY):
        return False
    length = read.length or 1
    if length == MAX_LENGTH:
        return True
    # What is shorter than the limit was not cut, whatever the file holds.
    return leaf.op in (Op.EQ, Op.IN) and all(v is None or len(v) < length for v in leaf.literals)


def _compare(leaf: Leaf, column: ColumnRef, floor: _Floor) -> Predicate:
    op = leaf.op
    if op in (Op.IN, Op.NOT_IN):
        floors = [floor(v) for v in leaf.literals if v is not None]
        same = tuple(value for value, exact in floors if exact)
        if op is Op.IN:
            return Leaf(op, column, same) if same else Const.FALSE
        if len(floors) < len(leaf.literals):
            return Const.FALSE  # NOT IN with a NULL is never true
        return Leaf(op, column, same) if same else Leaf(Op.IS_NOT_NULL, column)
    literal = leaf.literals[0]
    if literal is None:
        return Const.FALSE
    value, exact = floor(literal)
    if exact:
        return Leaf(op, column, (value,))
    if op is Op.EQ:
        return Const.FALSE
    if op is Op.NE:
        return Leaf(Op.IS_NOT_NULL, column)
    if value is None:  # below everything the old type has
        return Const.FALSE if op in (Op.LT, Op.LE) else Leaf(Op.IS_NOT_NULL, column)
    return Leaf(Op.LE if op in (Op.LT, Op.LE) else Op.GT, column, (value,))


def _floor(file: AtomicType, read: AtomicType) -> _Floor | None:
    a, b = file.kind, read.kind
    if a in INTEGER_KINDS:
        bits = INTEGER_BITS[a]
        if (b in INTEGER_KINDS and INTEGER_BITS[b] > bits) or (b is Kind.DECIMAL and widens_to_decimal(file, read)):
            return _integer_floor(bits)
        if (b is Kind.DOUBLE and bits <= 32) or (b is Kind.FLOAT and bits <= 16):
            return _integer_floor(bits)
    if a is Kind.FLOAT and b is Kind.DOUBLE:
        return _float_floor
    if a is Kind.DECIMAL and b is Kind.DECIMAL and widens_to_decimal(file, read):
        return _decimal_floor(file)
    if a in TIMESTAMP_KINDS and b in TIMESTAMP_KINDS and (file.precision or 0) <= (read.precision or 0):
        return _count_floor(UNITS_PER_SECOND[timestamp_unit(read)] // UNITS_PER_SECOND[timestamp_unit(file)], 64)
    if a is Kind.DATE and b in TIMESTAMP_KINDS:
        return _count_floor(86_400 * UNITS_PER_SECOND[timestamp_unit(read)], 32)
    return None


def _clamped(value: int, exact: bool, bits: int) -> tuple[int | None, bool]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if value < low:
        return None, False
    return (value, exact) if value <= high else (high, False)


def _integer_floor(bits: int) -> _Floor:
    def floor(literal: Any) -> tuple[Any, bool]:
        if isinstance(literal, float) and not math.isfinite(literal):
            return (None, False) if literal == -math.inf else (2 ** (bits - 1) - 1, False)
        whole = math.floor(literal)
        return _clamped(whole, whole == literal, bits)

    return floor


def _float_floor(literal: Any) -> tuple[Any, bool]:
    if math.isnan(literal) or math.isinf(literal):
        return literal, True
    with np.errstate(over="ignore"):
        nearest = np.float32(literal)
    if float(nearest) > literal:
        nearest = np.nextafter(nearest, np.float32(-np.inf))
    return float(nearest), float(nearest) == literal


def _decimal_floor(file: AtomicType) -> _Floor:
    scale = file.scale or 0
    context = decimal.Context(prec=120)
    top = decimal.Decimal(10 ** (file.precision or 0) - 1).scaleb(-scale, context)

    def floor(literal: Any) -> tuple[Any, bool]:
        value = decimal.Decimal(literal)
        if value > top:
            return top, False
        if value < -top:
            return None, False
        nearest = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_FLOOR, context)
        return nearest, nearest == value

    return floor


def _count_floor(factor: int, bits: int) -> _Floor:
    def floor(literal: Any) -> tuple[Any, bool]:
        value, rest = divmod(literal, factor)
        return _clamped(value, rest == 0, bits)

    return floor
