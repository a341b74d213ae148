"""What stands on either side of an operator of a filter, and the conditions that operators make of it.

A filter compares columns with literals: the rest is refused at its place in the text, with a PredicateError.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, NoReturn, TypeAlias

from paimon_pyds.predicate import casts
from paimon_pyds.predicate.cursor import AFTERWARDS, Cursor
from paimon_pyds.predicate.fold import compare_literals
from paimon_pyds.predicate.lexer import Token
from paimon_pyds.predicate.like import like_parts
from paimon_pyds.predicate.lower import Condition, Fixed, Is, Not, Same, Test, Unknown
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Literal, Op
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, Kind

__all__ = [
    "Boolean",
    "Column",
    "Constant",
    "Operand",
    "comparison",
    "condition_of",
    "is_null",
    "same",
    "signed",
    "text_test",
]

_NOT_NUMBERS = STRING_KINDS | BINARY_KINDS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


class Column(NamedTuple):
    """A column, or a part of one, and where it begins in the text."""

    ref: ColumnRef
    start: int


class Constant(NamedTuple):
    """A literal, or what casts and signs made of one."""

    literal: Literal
    start: int


class Boolean(NamedTuple):
    """A condition."""

    condition: Condition
    start: int


Operand: TypeAlias = Column | Constant | Boolean


def condition_of(cursor: Cursor, operand: Operand) -> Condition:
    """An operand that stands where a condition is wanted."""
    if isinstance(operand, Boolean):
        return operand.condition
    if isinstance(operand, Column):
        return Test(Leaf(Op.EQ, operand.ref, (Literal(True, casts.BOOLEAN),)))
    value = operand.literal.value
    if value is None:
        return Fixed(Const.UNKNOWN)
    if isinstance(value, bool):
        return Fixed(Const.TRUE if value else Const.FALSE)
    hint = "double quotes make a string; put column names in `back quotes`" if isinstance(value, str) else None
    cursor.fail(operand, "expected a condition, found a literal", hint=hint)


def comparison(cursor: Cursor, op: Op, token: Token, left: Operand, right: Operand) -> Boolean:
    """Two operands with an operator between them, whose place is that of ``token``."""
    if isinstance(right, Column) or (isinstance(right, Boolean) and isinstance(left, Constant)):
        left, right, op = right, left, _FLIPPED.get(op, op)
    if isinstance(left, Column) and isinstance(right, Constant):
        return Boolean(Test(Leaf(op, left.ref, (right.literal,))), left.start)
    if isinstance(left, Constant) and isinstance(right, Constant):
        first, second = left.literal, right.literal
        return Boolean(Fixed(cursor.located(token.start, lambda: compare_literals(op, first, second))), left.start)
    if isinstance(left, Boolean) and isinstance(right, Constant) and op in (Op.EQ, Op.NE):
        value = right.literal.value
        if value is None:
            return Boolean(Fixed(Const.UNKNOWN), left.start)
        if isinstance(value, bool):
            holds = value == (op is Op.EQ)
            return left if holds else Boolean(Not(left.condition), left.start)
    _not_literal(cursor, token, left, right)


def same(cursor: Cursor, token: Token, left: Operand, right: Operand) -> Boolean:
    """``<=>``, IS DISTINCT FROM and IS TRUE: NULL is a value as any other."""
    if isinstance(right, Column) or (isinstance(right, Boolean) and isinstance(left, Constant)):
        left, right = right, left
    if isinstance(left, Column) and isinstance(right, Constant):
        return Boolean(Same(left.ref, right.literal), left.start)
    if isinstance(left, Constant) and isinstance(right, Constant):
        first, second = left.literal, right.literal
        if first.value is None or second.value is None:
            both = first.value is None and second.value is None
            return Boolean(Fixed(Const.TRUE if both else Const.FALSE), left.start)
        return comparison(cursor, Op.EQ, token, left, right)
    if isinstance(left, Boolean) and isinstance(right, Constant):
        value = right.literal.value
        if value is None:
            return Boolean(Unknown(left.condition), left.start)
        if isinstance(value, bool):
            return Boolean(Is(left.condition, value), left.start)
    _not_literal(cursor, token, left, right)


def _not_literal(cursor: Cursor, token: Token, left: Operand, right: Operand) -> NoReturn:
    if isinstance(left, Column) and isinstance(right, Column):
        cursor.fail(token, f"comparing two columns is {AFTERWARDS}")
    cursor.fail(token, "a comparison takes a column and a literal", hint="parentheses may be missing")


def signed(cursor: Cursor, sign: Token, operand: Operand) -> Operand:
    """A number behind a sign that is not a part of it."""
    if not isinstance(operand, Constant):
        cursor.fail(sign, f"arithmetic is {AFTERWARDS}")
    value, type_ = operand.literal.value, operand.literal.type
    if value is None:
        return operand
    if type_ is None or isinstance(value, bool | str | bytes) or type_.kind in _NOT_NUMBERS:
        cursor.fail(sign, f"{sign.value} stands before something that is not a number")
    if sign.value != "-":
        return operand
    return Constant(casts.integer(-value) if isinstance(value, int) else Literal(-value, type_), sign.start)


def is_null(operand: Operand) -> Boolean:
    """IS NULL."""
    if isinstance(operand, Column):
        return Boolean(Test(Leaf(Op.IS_NULL, operand.ref)), operand.start)
    if isinstance(operand, Boolean):
        return Boolean(Unknown(operand.condition), operand.start)
    return Boolean(Fixed(Const.TRUE if operand.literal.value is None else Const.FALSE), operand.start)


def text_test(cursor: Cursor, op: Op, left: Operand, right: Operand, escape: str) -> Boolean:
    """LIKE and the functions that look for a text."""
    if not isinstance(left, Column):
        cursor.fail(left, f"{op.value} takes a column on its left")
    if not isinstance(right, Constant):
        cursor.fail(right, f"{op.value} with anything but a literal is {AFTERWARDS}")
    value, type_ = right.literal.value, right.literal.type
    if isinstance(value, bytes):
        type_ = None
    if value is not None and (type_ is None or type_.kind not in STRING_KINDS):
        cursor.fail(right, f"{op.value} takes a string", hint="put the text in single quotes")
    if op is not Op.LIKE:
        return Boolean(Test(Leaf(op, left.ref, (right.literal,))), left.start)
    if value is not None:
        cursor.located(right.start, functools.partial(like_parts, value, escape))
    return Boolean(Test(Leaf(op, left.ref, (right.literal, escape))), left.start)
