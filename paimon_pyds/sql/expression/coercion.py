"""Types of results and common types of operands, by the rules of Spark 4 in ANSI mode.

Source: Spark's ``AnsiTypeCoercion`` (findTightestCommonType, findWiderTypeForTwo) and ``DecimalPrecision``. A type is
None for NULL, which fits every other one. Types here are normal (`normal`): texts are STRING and bytes are BYTES,
whatever length a column gives them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from paimon_pyds.base.types import ArrayType, AtomicType, DataType, MapType, RowType
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.vectors import stored_type
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.tree import Literal

Type: TypeAlias = DataType | None
"""A type; None for NULL."""

EXACT = INTEGER_KINDS | {Kind.DECIMAL}
NUMBERS = EXACT | FLOAT_KINDS
_PLAIN = INTEGER_KINDS | FLOAT_KINDS | {Kind.BOOLEAN, Kind.DATE}
"""Types without sizes."""
TIMESTAMP = AtomicType(Kind.TIMESTAMP_LTZ, precision=6)
TIMESTAMP_NTZ = AtomicType(Kind.TIMESTAMP, precision=6)
VOID = AtomicType(Kind.BOOLEAN, length=0)
"""The item type of ``array()`` and ``array(NULL)``: every other type fits it."""
_WIDTH = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE)
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
_MAX_DIGITS = 38
_MIN_SCALE_DIGITS = 6
"""Digits behind the point that a result keeps when it needs more digits than there are."""


def normal(type_: DataType) -> DataType:
    """The type without length and nullability, timestamps and times with their precision."""
    if type_.kind in _PLAIN and type_.nullable:
        return type_
    if type_.kind in STRING_KINDS:
        return tree.STRING
    if type_.kind in BINARY_KINDS:
        return tree.BYTES
    if type_.kind is Kind.TIME:
        return AtomicType(Kind.TIME, precision=3)
    if type_.kind in TIMESTAMP_KINDS and isinstance(type_, AtomicType) and type_.precision is None:
        return TIMESTAMP if type_.kind is Kind.TIMESTAMP_LTZ else TIMESTAMP_NTZ
    return stored_type(type_).with_nullable(True)


def same(a: Type, b: Type) -> bool:
    """Whether two types are one and the same; NULL is of none."""
    if a is b:
        return a is not None
    return a is not None and b is not None and normal(a) == normal(b)


def decimal(precision: int, scale: int) -> AtomicType:
    """DECIMAL(precision, scale), within 38 digits: digits behind the point give way, down to six of them."""
    if precision > _MAX_DIGITS:
        whole = precision - scale
        precision, scale = _MAX_DIGITS, max(_MAX_DIGITS - whole, min(scale, _MIN_SCALE_DIGITS))
    return AtomicType(Kind.DECIMAL, precision=precision, scale=scale)


def as_decimal(type_: DataType, literal: Literal | None = None) -> AtomicType:
    """The DECIMAL that an integer takes part as; a literal counts its own digits only."""
    if type_.kind is Kind.DECIMAL:
        assert isinstance(type_, AtomicType)
        return type_
    digits = _DIGITS[type_.kind]
    if literal is not None and literal.value is not None:
        digits = max(len(str(abs(literal.value))), 1)
    return AtomicType(Kind.DECIMAL, precision=digits, scale=0)


def decimal_result(operator: str, a: AtomicType, b: AtomicType) -> AtomicType:
    """The type of ``a operator b`` for + - * / %."""
    p1, s1, p2, s2 = a.precision or 0, a.scale or 0, b.precision or 0, b.scale or 0
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return decimal(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_MIN_SCALE_DIGITS, s1 + p2 + 1)
            return decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return decimal(min(p1 - s1, p2 - s2) + scale, scale)


def common_type(a: Type, b: Type) -> Type:
    """The type to which both operands of a comparison, or branches of a CASE, are converted.
    Raises LookupError: they have no common type."""
    if a is None or b is None:
        return b if a is None else a
    a, b = normal(a), normal(b)
    if a == b:
        return a
    if VOID in (a, b):
        return b if a == VOID else a
    if (nested := _common_nested(a, b)) is not None:
        return nested
    for left, right in ((a, b), (b, a)):
        if left.kind in STRING_KINDS and isinstance(right, AtomicType):
            return _with_text(right)
    if a.kind in NUMBERS and b.kind in NUMBERS:
        return _numeric(a, b)
    times = TIMESTAMP_KINDS | {Kind.DATE}
    if a.kind in times and b.kind in times:
        return _temporal(a, b)
    raise LookupError(f"{a} and {b} have no common type")


def _common_nested(a: DataType, b: DataType) -> DataType | None:
    """Of two arrays, two maps, or two rows of as many fields: made of the common types inside. None for all others."""
    inner = [common_type(x, y) for x, y in zip(a.children(), b.children(), strict=False)] if a.kind is b.kind else []
    types = [type_ for type_ in inner if type_ is not None]
    if len(types) != len(a.children()) or len(types) != len(b.children()):
        return None
    match a:
        case ArrayType():
            return ArrayType(element=types[0])
        case MapType():
            return MapType(key=types[0].with_nullable(False), value=types[1])
        case RowType(fields=fields):
            return RowType(fields=tuple(replace(f, type=type_) for f, type_ in zip(fields, types, strict=True)))
    return None


def _with_text(other: AtomicType) -> AtomicType:
    if other.kind in INTEGER_KINDS:
        return tree.LONG
    return tree.DOUBLE if other.kind in NUMBERS else other


def _numeric(a: DataType, b: DataType) -> DataType:
    if Kind.DECIMAL in (a.kind, b.kind):
        if a.kind in FLOAT_KINDS or b.kind in FLOAT_KINDS:
            return tree.DOUBLE
        left, right = as_decimal(a), as_decimal(b)
        scale = max(left.scale or 0, right.scale or 0)
        whole = max((t.precision or 0) - (t.scale or 0) for t in (left, right))
        return AtomicType(Kind.DECIMAL, precision=min(whole + scale, _MAX_DIGITS), scale=min(scale, _MAX_DIGITS))
    wider = _WIDTH[max(_WIDTH.index(a.kind), _WIDTH.index(b.kind))]
    # With a FLOAT an integer would lose digits: both become DOUBLE.
    return AtomicType(Kind.DOUBLE if wider is Kind.FLOAT and a.kind is not b.kind else wider)


def _temporal(a: DataType, b: DataType) -> DataType:
    assert isinstance(a, AtomicType) and isinstance(b, AtomicType)
    kind = Kind.TIMESTAMP_LTZ if Kind.TIMESTAMP_LTZ in (a.kind, b.kind) else Kind.TIMESTAMP
    return AtomicType(kind, precision=max(a.precision or 6, b.precision or 6))
