"""Expressions as they are written: names and literals, without types.

`paimon_pyds.sql.expression.bind` gives them types, `paimon_pyds.sql.predicate.normal_form` makes filters of conditions.

Operators are calls too, of functions that no one can name in SQL: ``+``, ``AND``, ``<=>``. ``start`` and ``stop`` are
the places in the text, so that errors can point at them and a condition can be taken apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, DataType
from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.kinds import INTEGER_RANGES, MAX_LENGTH, Kind
from paimon_pyds.errors import PredicateError

BOOLEAN = AtomicType(Kind.BOOLEAN)
INT = AtomicType(Kind.INT)
LONG = AtomicType(Kind.BIGINT)
FLOAT = AtomicType(Kind.FLOAT)
DOUBLE = AtomicType(Kind.DOUBLE)
STRING = AtomicType(Kind.VARCHAR, length=MAX_LENGTH)
BYTES = AtomicType(Kind.VARBINARY, length=MAX_LENGTH)
DATE = AtomicType(Kind.DATE)

_SUFFIX_KIND = {"Y": Kind.TINYINT, "S": Kind.SMALLINT, "L": Kind.BIGINT}

_INTEGERS = [(type_, INTEGER_RANGES[type_.kind]) for type_ in (INT, LONG)]


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as written, with the type that Spark SQL gives it. ``value`` is an internal value; None is NULL.

    TIME literals, too, are in the unit of their precision: microseconds (6) or nanoseconds (9). With ``type`` None the
    value is a plain Python object: str, int, float, bool, bytes, Decimal, date, datetime, time, or None.
    """

    value: Any
    type: DataType | None


def integer(value: int) -> Literal:
    """An integer literal without suffix: INT, BIGINT, or DECIMAL when it fits neither."""
    for type_, held in _INTEGERS:
        if value in held:
            return Literal(value, type_)
    return decimal_literal(Decimal(value))


def decimal_literal(value: Decimal) -> Literal:
    """A DECIMAL literal of as many digits as it needs. Raises PredicateError: more than 38."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise PredicateError(f"{value} is not a DECIMAL")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise PredicateError(f"{value!s:.60} has {precision} digits; a DECIMAL has at most 38")
    if exponent > 0:
        value = Decimal((sign, digits + (0,) * exponent, 0))
    return Literal(value, _decimal_type(precision, scale))


@lru_cache
def _decimal_type(precision: int, scale: int) -> AtomicType:
    return AtomicType(Kind.DECIMAL, precision=precision, scale=scale)


def number(text: str, suffix: str, negative: bool = False) -> Literal:
    """A number as written: its digits, its suffix (L, S, Y, D, F, BD or none), and whether a minus stands before it.
    Raises PredicateError: the number does not fit the type that it is written as."""
    signed = f"-{text}" if negative else text
    plain = text.isdigit()
    if plain and not suffix:
        return integer(int(signed) if len(text) < 400 else values.integer_from_text(signed))
    if suffix in _SUFFIX_KIND:
        if not plain:
            raise PredicateError(f"{text}{suffix} is not an integer", hint="the suffixes Y, S and L are for integers")
        return checked_integer(values.integer_from_text(signed), AtomicType(_SUFFIX_KIND[suffix]))
    if suffix == "F":
        return Literal(_finite(values.float32_from_text(signed), text), FLOAT)
    if suffix == "D" or (not suffix and "e" in text.lower()):
        return Literal(_finite(float(signed), text), DOUBLE)
    value = Decimal(signed)
    if abs(value.adjusted()) > 100:
        raise PredicateError(f"{text:.60} does not fit a DECIMAL of 38 digits")
    return decimal_literal(value)


def _finite(value: float, text: str) -> float:
    if math.isinf(value):
        raise PredicateError(f"{text:.60} is too large for its type", hint="write CAST('Infinity' AS DOUBLE)")
    return value


def checked_integer(value: int, target: AtomicType) -> Literal:
    """A literal of a type of integers. Raises PredicateError: it does not fit."""
    if value not in INTEGER_RANGES[target.kind]:
        raise PredicateError(f"{value} does not fit {target.kind.value}")
    return Literal(value, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Base of all nodes."""

    start: int = field(default=0, compare=False)
    stop: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Value(Expression):
    """A literal, with the type that Spark SQL gives it."""

    literal: Literal


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A column, maybe with its table before it and fields of it behind: ``source.address.city``."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item(Expression):
    """``child['key']`` of a map, ``child[0]`` of an array, ``child.name`` of a row (the key is then a str)."""

    child: Expression
    key: Expression | str


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function, by its name in lower case, or an operator."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE WHEN condition THEN value … ELSE otherwise END; the form with an operand is written with ``=``."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True, slots=True)
class CastTo(Expression):
    """CAST(child AS type), or TRY_CAST, which gives NULL where the other fails."""

    child: Expression
    type: DataType
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Lambda(Expression):
    """``x -> body``, ``(x, i) -> body``: an argument of functions that evaluate it for each item."""

    parameters: tuple[str, ...]
    body: Expression


def children(expression: Expression) -> tuple[Expression, ...]:
    """The nodes directly inside."""
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Item):
        return (expression.child,) if isinstance(expression.key, str) else (expression.child, expression.key)
    if isinstance(expression, CastTo):
        return (expression.child,)
    if isinstance(expression, Lambda):
        return (expression.body,)
    if isinstance(expression, Case):
        branches = (node for branch in expression.branches for node in branch)
        return (*branches, *(() if expression.otherwise is None else (expression.otherwise,)))
    return ()


def count_operations(expression: Expression) -> int:
    """How many operators and calls an expression has."""
    found, left = 0, [expression]
    while left:
        found += 1
        left.extend(child for child in children(left.pop()) if not isinstance(child, Value | Name))
    return found


def names(expression: Expression) -> Iterator[Name]:
    """The names in an expression, without those of parameters."""
    left: list[tuple[Expression, frozenset[str]]] = [(expression, frozenset())]
    while left:
        node, parameters = left.pop()
        if isinstance(node, Name) and node.parts[0].casefold() not in parameters:
            yield node
        if isinstance(node, Lambda):
            parameters |= {name.casefold() for name in node.parameters}
        left.extend((child, parameters) for child in children(node))


def conjuncts(expression: Expression) -> list[Expression]:
    """The parts that are joined by AND at the top."""
    found, left = [], [expression]
    while left:
        node = left.pop()
        if isinstance(node, Call) and node.function == "AND":
            left.extend(reversed(node.arguments))
        else:
            found.append(node)
    return found
