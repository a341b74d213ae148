"""Binding that leaves every comparison as it was written, for what shows or compares answers leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.tree import And, Leaf, Op, Or, Predicate
from paimon_pyds.sql import casts
from paimon_pyds.types import DataField, Kind

__all__ = ["bind_as_written"]

_KEPT = frozenset({Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN, Op.NOT_IN})


def bind_as_written(predicate: Predicate, fields: Sequence[DataField], *, timezone: str = "UTC") -> Predicate:
    """Bind, but don't let a type decide a comparison with one of its own values.

    `bind` makes ``int_column <= 2147483647`` an IS NOT NULL, ``bool_column <> TRUE`` an equality, and of a comparison
    with CHAR one with every number of blanks: right for every row, yet other questions to an index. A literal that is
    no value of the column's type is folded here, too.

    Args:
        predicate: a tree of the parser.
        fields: the columns.
        timezone: as `bind` takes it.

    Raises:
        PredicateError: as `bind` does.
    """
    match predicate:
        case And(children) | Or(children):
            return type(predicate)(tuple(bind_as_written(c, fields, timezone=timezone) for c in children))
        case Leaf(op, column, literals) if op in _KEPT:
            plain = [replace(f, type=casts.STRING) if f.type.kind is Kind.CHAR else f for f in fields]
            alone = [bind(Leaf(Op.EQ, column, (literal,)), plain, timezone=timezone) for literal in literals]
            values: list[Any] = [part.literals[0] for part in alone if isinstance(part, Leaf) and part.op is Op.EQ]
            known = bind(Leaf(Op.IS_NOT_NULL, column), fields)
            if isinstance(known, Leaf) and len(values) == len(literals):
                return Leaf(op, known.column, tuple(values))
    return bind(predicate, fields, timezone=timezone)
