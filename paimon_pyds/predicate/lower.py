"""From conditions as written to a tree in negation normal form.

SQL's conditions have three values, a filter keeps rows where its condition is *true*. Each method of `_Lowering` gives
the tree of the rows where a condition is true, is false, is not true (false or unknown), is not false (true or
unknown). These trees have no NOT, so a leaf's unknown may count as false in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from paimon_pyds.errors import PredicateError
from paimon_pyds.predicate.tree import And, ColumnRef, Const, Leaf, Literal, Op, Or, Predicate, negate

__all__ = ["All", "Any", "Condition", "Fixed", "Is", "Not", "Same", "Test", "Unknown", "lower"]

MAX_GROWTH = 16
"""So many times as many comparisons as were written; IS NULL of a condition doubles those in it."""


class Test(NamedTuple):
    """A leaf: unknown where its column is null, or by a NULL among its literals."""

    leaf: Leaf


class Same(NamedTuple):
    """column <=> literal: never unknown."""

    column: ColumnRef
    literal: Literal


class Not(NamedTuple):
    """NOT child."""

    child: Condition


class All(NamedTuple):
    """Children joined by AND."""

    children: tuple[Condition, ...]


class Any(NamedTuple):
    """Children joined by OR."""

    children: tuple[Condition, ...]


class Is(NamedTuple):
    """child IS TRUE, or IS FALSE: never unknown."""

    child: Condition
    value: bool


class Unknown(NamedTuple):
    """child IS NULL (IS UNKNOWN), for a condition: never unknown."""

    child: Condition


class Fixed(NamedTuple):
    """A condition without columns."""

    value: Const


Condition: TypeAlias = Test | Same | Not | All | Any | Is | Unknown | Fixed


def lower(condition: Condition) -> Predicate:
    """The tree of the rows where the condition is true, not simplified: `bind` does that, once names are checked.

    Raises:
        PredicateError: IS NULL and IS TRUE of conditions are nested so that the tree gets too large.
    """
    return _Lowering(_count(condition)).true(condition)


def _count(condition: Condition) -> int:
    match condition:
        case All(children) | Any(children):
            return sum(map(_count, children))
        case Not(child) | Unknown(child) | Is(child, _):
            return _count(child)
    return 1


def _flat(kind: type[And] | type[Or], parts: Iterable[Predicate]) -> Predicate:
    children: list[Predicate] = []
    for part in parts:
        if isinstance(part, kind):
            children.extend(part.children)
        else:
            children.append(part)
    return children[0] if len(children) == 1 else kind(tuple(children))


def _both(*parts: Predicate) -> Predicate:
    return _flat(And, parts)


def _either(*parts: Predicate) -> Predicate:
    return _flat(Or, parts)


def _of_const(value: Const, *accepted: Const) -> Const:
    return Const.TRUE if value in accepted else Const.UNKNOWN if value is Const.UNKNOWN else Const.FALSE


class _Lowering:
    """One lowering, with the number of leaves that it may still make."""

    def __init__(self, size: int) -> None:
        self._left = MAX_GROWTH * size + 1000

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise PredicateError(
                "filter: IS NULL or IS TRUE of conditions are nested too deep", hint="write out when they hold"
            )

    def true(self, condition: Condition) -> Predicate:
        """Rows where the condition is true."""
        match condition:
            case Test(leaf):
                self._count()
                return leaf
            case Same(column, literal):
                self._count()
                return Leaf(Op.IS_NULL, column) if literal.value is None else Leaf(Op.EQ, column, (literal,))
            case Not(child):
                return self.false(child)
            case All(children):
                return _both(*map(self.true, children))
            case Any(children):
                return _either(*map(self.true, children))
            case Is(child, value):
                return self.true(child) if value else self.false(child)
            case Unknown(child):
                return self._unknown(child)
            case Fixed(value):
                return _of_const(value, Const.TRUE)

    def false(self, condition: Condition) -> Predicate:
        """Rows where the condition is false."""
        match condition:
            case Test(leaf):
                self._count()
                return negate(leaf)
            case Same(column, literal):
                self._count()
                if literal.value is None:
                    return Leaf(Op.IS_NOT_NULL, column)
                return _either(Leaf(Op.IS_NULL, column), Leaf(Op.NE, column, (literal,)))
            case Not(child):
                return self.true(child)
            case All(children):
                return _either(*map(self.false, children))
            case Any(children):
                return _both(*map(self.false, children))
            case Is(child, value):
                return self.not_true(child) if value else self.not_false(child)
            case Unknown(child):
                return self._known(child)
            case Fixed(value):
                return _of_const(value, Const.FALSE)

    def not_true(self, condition: Condition) -> Predicate:
        """Rows where the condition is false or unknown."""
        match condition:
            case Test(leaf):
                return self._or_unknown(leaf, negate(leaf))
            case Not(child):
                return self.not_false(child)
            case All(children):
                return _either(*map(self.not_true, children))
            case Any(children):
                return _both(*map(self.not_true, children))
            case Fixed(value):
                return _of_const(value, Const.FALSE, Const.UNKNOWN)
        return self.false(condition)

    def not_false(self, condition: Condition) -> Predicate:
        """Rows where the condition is true or unknown."""
        match condition:
            case Test(leaf):
                return self._or_unknown(leaf, leaf)
            case Not(child):
                return self.not_true(child)
            case All(children):
                return _both(*map(self.not_false, children))
            case Any(children):
                return _either(*map(self.not_false, children))
            case Fixed(value):
                return _of_const(value, Const.TRUE, Const.UNKNOWN)
        return self.true(condition)

    def _unknown(self, condition: Condition) -> Predicate:
        if isinstance(condition, Same | Is | Unknown):
            return Const.FALSE
        return _both(self.not_true(condition), self.not_false(condition))

    def _known(self, condition: Condition) -> Predicate:
        if isinstance(condition, Same | Is | Unknown):
            return Const.TRUE
        return _either(self.true(condition), self.false(condition))

    def _or_unknown(self, leaf: Leaf, wanted: Predicate) -> Predicate:
        """Rows where a leaf is unknown, or where ``wanted`` (the leaf itself or its opposite) is true."""
        self._count()
        if leaf.op in (Op.IS_NULL, Op.IS_NOT_NULL) or not isinstance(wanted, Leaf):
            return wanted
        known = tuple(v for v in leaf.literals if not (isinstance(v, Literal) and v.value is None))
        if len(known) < len(leaf.literals) and (wanted.op is not Op.NOT_IN or not known):
            # IN with a NULL among its values is true or unknown, NOT IN is false or unknown, the others are unknown.
            return Const.TRUE
        return _either(Leaf(Op.IS_NULL, leaf.column), Leaf(wanted.op, leaf.column, known))
