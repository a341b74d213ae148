"""Conditions of row-level operations: the part that statistics and indexes can answer, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.expression.bind import Scope
from paimon_pyds.expression.bound import BoundExpression, Operand, bind_condition, bind_tree, checked_condition
from paimon_pyds.expression.parse import parse_expression
from paimon_pyds.expression.tree import Expression, conjuncts
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import And, Const, Leaf, Or, Predicate, make_and
from paimon_pyds.types import DataField

__all__ = ["Condition", "split_condition"]

_PREDICATES: TypeAlias = And | Or | Leaf | Const


@dataclass(frozen=True)
class Condition:
    """A condition over one table's columns: a row is meant where the predicate and all residual parts are true.

    Attributes:
        predicate: what the predicate room expresses exactly, bound; it prunes files and selects rows by indexes.
        residual: what it does not, evaluated on the rows that the predicate keeps.
    """

    predicate: Predicate
    residual: tuple[BoundExpression, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the residual parts need."""
        return tuple(dict.fromkeys(name for part in self.residual for name in part.columns))

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of a batch, all of which the predicate is true for, are meant; never null.

        Later parts are evaluated for the rows that earlier ones keep only.

        Raises:
            ExpressionError: a part fails on a value.
        """
        found = pa.repeat(True, batch.num_rows)
        for part in self.residual:
            if found.false_count == 0:
                found = part.matches(batch)
            elif found.true_count:
                places = pc.indices_nonzero(found)
                kept = part.matches(batch.take(places))
                found = pc.is_in(pa.array(range(batch.num_rows), pa.uint64()), value_set=places.filter(kept))
        return found


def split_condition(
    operand: Operand | Predicate | None,
    fields: Sequence[DataField],
    *,
    names: tuple[str, ...] = (),
    timezone: str = "UTC",
    now: datetime | None = None,
) -> Condition:
    """A condition over the columns of one table, taken apart at the ANDs of its top.

    Args:
        operand: SQL text, a predicate tree, a `pyarrow.compute.Expression`, a bool; None for every row.
        fields: the table's columns.
        names: what may stand before them, such as ``("target", "t")``.

    Raises:
        PredicateError: it does not parse, names no column, or mixes types.
    """
    if operand is None or operand is True:
        return Condition(Const.TRUE)
    if isinstance(operand, And | Or | Leaf | Const):
        return Condition(bind(operand, fields, timezone=timezone))
    scopes = (Scope(names, tuple(fields)),)
    if not isinstance(operand, str):
        return Condition(Const.TRUE, (bind_condition(operand, scopes, timezone=timezone, now=now),))
    whole = _predicate(operand, fields, timezone)
    if whole is not None:
        return Condition(whole)
    predicates: list[Predicate] = []
    residual: list[BoundExpression] = []
    for part in conjuncts(parse_expression(operand, timezone=timezone)):
        # Bound in any case: its errors point at the place in the whole text.
        bound = checked_condition(bind_tree(part, operand, scopes, None, timezone, now))
        predicate = _predicate(_text_of(part, operand), fields, timezone)
        if predicate is None:
            residual.append(bound)
        else:
            predicates.append(predicate)
    return Condition(make_and(*predicates) if predicates else Const.TRUE, tuple(residual))


def _text_of(part: Expression, text: str) -> str:
    return text[part.start : part.stop]


def _predicate(text: str, fields: Sequence[DataField], timezone: str) -> Predicate | None:
    """The text as a bound predicate; None when that room can't express it."""
    try:
        return bind(parse_filter(text, timezone=timezone), fields, timezone=timezone)
    except ExpressionError:
        raise
    except PredicateError:
        return None
