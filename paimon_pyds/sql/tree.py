"""Expressions as they are written: names and literals, without types.

`paimon_pyds.expression.bind` gives them types, `paimon_pyds.predicate.normal_form` makes filters of conditions.

Operators are calls too, of functions that no one can name in SQL: ``+``, ``AND``, ``<=>``. ``start`` and ``stop`` are
the places in the text, so that errors can point at them and a condition can be taken apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from paimon_pyds.sql.literal import Literal
from paimon_pyds.types import AtomicType

__all__ = [
    "Call",
    "Case",
    "CastTo",
    "Expression",
    "Item",
    "Name",
    "Value",
    "children",
    "conjuncts",
    "is_large",
    "names",
]


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


def children(expression: Expression) -> Iterator[Expression]:
    """The nodes directly inside."""
    match expression:
        case Item(child=child, key=key):
            yield child
            if not isinstance(key, str):
                yield key
        case Call(arguments=arguments):
            yield from arguments
        case Case(branches=branches, otherwise=otherwise):
            for branch in branches:
                yield from branch
            if otherwise is not None:
                yield otherwise
        case CastTo(child=child):
            yield child


def is_large(expression: Expression, depth: int, size: int) -> bool:
    """Whether a way down has more nodes than ``depth``, or all ways together more than ``size``; without recursion.

    What is written once and evaluated twice (the operand of BETWEEN) counts twice.
    """
    level, nodes = [expression], 0
    while level and depth >= 0 and nodes <= size:
        depth -= 1
        nodes += len(level)
        level = [child for node in level for child in children(node)]
    return bool(level)


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
