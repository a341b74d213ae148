"""Expressions as they are written: names and literals, without types.

`paimon_pyds.expression.bind` gives them types, `paimon_pyds.predicate.normal_form` makes filters of conditions.

Operators are calls too, of functions that no one can name in SQL: ``+``, ``AND``, ``<=>``. ``start`` and ``stop`` are
the places in the text, so that errors can point at them and a condition can be taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from paimon_pyds.types import AtomicType, DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as written, with the type that Spark SQL gives it. ``value`` is an internal value; None is NULL.

    TIME literals, too, are in the unit of their precision: microseconds (6) or nanoseconds (9). With ``type`` None the
    value is a plain Python object: str, int, float, bool, bytes, Decimal, date, datetime, time, or None.
    """

    value: Any
    type: DataType | None


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
    type: AtomicType
    lenient: bool = False


def children(expression: Expression) -> tuple[Expression, ...]:
    """The nodes directly inside."""
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Item):
        return (expression.child,) if isinstance(expression.key, str) else (expression.child, expression.key)
    if isinstance(expression, CastTo):
        return (expression.child,)
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
    """The names in an expression."""
    left = [expression]
    while left:
        node = left.pop()
        if isinstance(node, Name):
            yield node
        left.extend(children(node))


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
