"""One leaf of a filter, from a column's new type back to the type that an old file has.

A cast that is strictly increasing and loses nothing (INT to BIGINT, FLOAT to DOUBLE, DATE to TIMESTAMP, …) lets every
comparison be answered in the old type, as SQL compares a column of that type with the literal.
For any other cast the leaf becomes TRUE: nothing is pruned by it, and exact evaluation after the cast decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from paimon_pyds.base.types import AtomicType, DataType, timestamp_unit
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    INTEGER_BITS,
    INTEGER_KINDS,
    INTEGER_RANGES,
    MAX_LENGTH,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNITS_PER_SECOND,
    Kind,
)
from paimon_pyds.metadata.evolution.casting import cast_keeps_nulls, depends_on_zone, widens_to_decimal
from paimon_pyds.sql.predicate.compare import compare, compare_steps
from paimon_pyds.sql.predicate.literal_bounds import ratio_bounds
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate
from paimon_pyds.sql.text.tree import Literal

_ORDERED = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.NOT_IN})


def devolve_leaf(leaf: Leaf, column: ColumnRef, read: DataType, file: DataType, zone: str | None) -> Predicate:
    """The leaf for ``column`` of the file, of type ``file``, where the table has type ``read`` (the types differ).
    ``zone``: the time zone in which values are cast."""
    if leaf.op is Op.IS_NOT_NULL:
        return Leaf(Op.IS_NOT_NULL, column)
    if leaf.op is Op.IS_NULL:
        return Leaf(Op.IS_NULL, column) if cast_keeps_nulls(file, read) else Const.TRUE
    if not isinstance(read, AtomicType) or not isinstance(file, AtomicType):
        return Const.TRUE
    if _same_values(leaf, file, read):
        return Leaf(leaf.op, column, leaf.literals)
    if leaf.op not in _ORDERED or not _is_increasing(file, read):
        return Const.TRUE
    if zone != "UTC" and depends_on_zone(file, read):  # clocks are put forward and back
        return Const.TRUE
    if leaf.op not in (Op.IN, Op.NOT_IN):
        return _compare(leaf.op, column, leaf.literals[0], read)
    if leaf.op is Op.NOT_IN and None in leaf.literals:
        return Const.FALSE  # NOT IN with a NULL is never true
    if same := _values_held(leaf.literals, column, read):
        return Leaf(leaf.op, column, same)
    return Const.FALSE if leaf.op is Op.IN else Leaf(Op.IS_NOT_NULL, column)


@lru_cache(maxsize=8)  # a list may be very long, and there may be many files
def _values_held(literals: tuple[Any, ...], column: ColumnRef, read: AtomicType) -> tuple[Any, ...]:
    """The literals of the new type that the file's column can have, as values of its own."""
    assert isinstance(column.type, AtomicType)
    if read.kind in INTEGER_KINDS:
        return tuple(value for value in literals if value in INTEGER_RANGES[column.type.kind])
    equal = (_compare(Op.EQ, column, literal, read) for literal in literals)
    return tuple(part.literals[0] for part in equal if isinstance(part, Leaf))


def _same_values(leaf: Leaf, file: AtomicType, read: AtomicType) -> bool:
    """Whether the cast leaves the values alone as far as this leaf can see: strings and bytes that are not cut."""
    strings = file.kind in STRING_KINDS and read.kind is Kind.VARCHAR
    if not strings and not (file.kind in BINARY_KINDS and read.kind is Kind.VARBINARY):
        return False
    length = read.length or 1
    if length == MAX_LENGTH:
        return True
    # A text that is shorter than the limit was not cut, whatever the file holds.
    return leaf.op in (Op.EQ, Op.IN) and all(v is None or len(v) < length for v in leaf.literals)


def _compare(op: Op, column: ColumnRef, literal: Any, read: AtomicType) -> Predicate:
    """A comparison of the file's column with a value of the new type: Spark's are those of values that were cast."""
    if literal is None:
        return Const.FALSE
    file = column.type
    assert isinstance(file, AtomicType)
    if file.kind not in TIMESTAMP_KINDS:
        return compare(op, column, Literal(literal, read), "UTC")
    units = UNITS_PER_SECOND[timestamp_unit(read)] // UNITS_PER_SECOND[timestamp_unit(file)]
    return compare_steps(op, column, ratio_bounds(literal, units), file)


def _is_increasing(file: AtomicType, read: AtomicType) -> bool:
    """Whether a cast is strictly increasing and loses nothing."""
    a, b = file.kind, read.kind
    if a in INTEGER_KINDS:
        bits = INTEGER_BITS[a]
        if b in INTEGER_KINDS:
            return INTEGER_BITS[b] > bits
        exact_floats = (b is Kind.DOUBLE and bits <= 32) or (b is Kind.FLOAT and bits <= 16)
        return exact_floats or (b is Kind.DECIMAL and widens_to_decimal(file, read))
    if a in TIMESTAMP_KINDS:
        return b in TIMESTAMP_KINDS and (file.precision or 0) <= (read.precision or 0)
    if a is Kind.DECIMAL:
        return b is Kind.DECIMAL and widens_to_decimal(file, read)
    return (a is Kind.FLOAT and b is Kind.DOUBLE) or (a is Kind.DATE and b in TIMESTAMP_KINDS)
