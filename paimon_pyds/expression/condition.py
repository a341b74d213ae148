"""Conditions of row-level operations: the part that statistics and indexes can answer, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from paimon_pyds.errors import PredicateError
from paimon_pyds.expression.bind import Scope
from paimon_pyds.expression.bound import BoundExpression, Operand, bind_condition, bind_tree, checked_condition
from paimon_pyds.expression.parse import parse_expression
from paimon_pyds.expression.tree import Expression, conjuncts, names
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.lexer import tokenize
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import And, Const, Leaf, Or, Predicate, make_and
from paimon_pyds.types import DataField

__all__ = ["Condition", "Residual", "predicate_of", "split_condition"]


@dataclass(frozen=True)
class Residual:
    """Conditions joined by AND, evaluated on rows. They pickle.

    Attributes:
        parts: in their order; later ones are evaluated for the rows that earlier ones keep only.
    """

    parts: tuple[BoundExpression, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the parts need."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of a batch are meant; never null. Raises ExpressionError when a part fails on a value."""
        found = np.ones(batch.num_rows, np.bool_)
        for part in self.parts:
            if found.all():
                found = np.array(part.matches(batch))
            elif found.any():
                rows = np.flatnonzero(found)
                found[rows] = np.asarray(part.matches(batch.take(pa.array(rows))))
        return pa.array(found)


@dataclass(frozen=True)
class Condition:
    """A condition over one table's columns: rows are meant where the predicate is true, and the residual.

    Attributes:
        predicate: what the predicate room expresses exactly, bound; it prunes files and selects rows by indexes.
        residual: what it does not, for the rows that the predicate keeps; None when there is nothing left.
    """

    predicate: Predicate
    residual: Residual | None = None


def split_condition(
    operand: Operand | Predicate | None,
    fields: Sequence[DataField],
    *,
    qualifiers: tuple[str, ...] = (),
    timezone: str = "UTC",
    now: datetime | None = None,
) -> Condition:
    """A condition over the columns of one table, taken apart at the ANDs of its top.

    Args:
        operand: SQL text, a predicate tree, a `pyarrow.compute.Expression`, a bool; None for every row.
        fields: the table's columns.
        qualifiers: what may stand before them, such as ``("target", "t")``.

    Raises:
        PredicateError: it does not parse, names no column, or mixes types.
    """
    if operand is None or operand is True:
        return Condition(Const.TRUE)
    if isinstance(operand, And | Or | Leaf | Const):
        return Condition(bind(operand, fields, timezone=timezone))
    scopes = (Scope(qualifiers, tuple(fields)),)
    if not isinstance(operand, str):
        return Condition(Const.TRUE, Residual((bind_condition(operand, scopes, timezone=timezone, now=now),)))
    whole = _predicate(operand, fields, timezone)  # the usual case, and quick with long IN lists
    if whole is not None:
        return Condition(whole)
    predicates: list[Predicate] = []
    residual: list[BoundExpression] = []
    for part in conjuncts(parse_expression(operand, timezone=timezone)):
        # Bound in any case: its errors point at the place in the whole text.
        bound = checked_condition(bind_tree(part, operand, scopes, None, timezone, now))
        predicate = predicate_of(part, operand, scopes[0], timezone)
        if predicate is None:
            residual.append(bound)
        else:
            predicates.append(predicate)
    predicate = make_and(*predicates) if predicates else Const.TRUE
    return Condition(predicate, Residual(tuple(residual)) if residual else None)


def predicate_of(part: Expression, text: str, scope: Scope, timezone: str) -> Predicate | None:
    """A condition over one scope's columns as a bound predicate; None when that room can't express it."""
    return _predicate(_unqualified(part, text, scope), scope.fields, timezone)


def _predicate(text: str, fields: Sequence[DataField], timezone: str) -> Predicate | None:
    try:
        return bind(parse_filter(text, timezone=timezone), fields, timezone=timezone)
    except PredicateError:
        return None


def _unqualified(part: Expression, text: str, scope: Scope) -> str:
    """The text of a condition, without the scope's name before columns."""
    known = {name.casefold() for name in scope.names}
    columns = {field.name.casefold() for field in scope.fields}
    pieces, at = [], part.start
    found = {name.start: name for name in names(part)}  # BETWEEN holds its operand twice
    for _, name in sorted(found.items()):
        if len(name.parts) > 1 and name.parts[0].casefold() in known and name.parts[1].casefold() in columns:
            pieces.append(text[at : name.start])
            at = name.start + tokenize(text[name.start : name.stop])[2].start
    return "".join([*pieces, text[at : part.stop]])
