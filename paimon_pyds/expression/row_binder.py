"""The parts of a condition that predicates have no leaf for: constants are computed, the rest is bound to be evaluated
on rows."""

from __future__ import annotations

import hashlib
import pickle
from datetime import datetime, timezone

from paimon_pyds.errors import PredicateError
from paimon_pyds.expression.bind import Binder, Scope
from paimon_pyds.expression.bound import BoundExpression, bind_tree
from paimon_pyds.expression.nodes import type_text
from paimon_pyds.predicate.bind import internal_literal
from paimon_pyds.predicate.tree import Computed, Predicate
from paimon_pyds.sql.lexer import SqlText
from paimon_pyds.sql.tree import Expression, Literal
from paimon_pyds.types import STRING_KINDS, AtomicType, DataField, Kind, scalar_to_internal

__all__ = ["RowBinder", "computed"]


class RowBinder:
    """Binds parts of one condition on a table: all of them see the same current time."""

    def __init__(self, source: SqlText, fields: tuple[DataField, ...], qualifiers: tuple[str, ...], zone: str) -> None:
        now = datetime.now(timezone.utc)
        self._binder = Binder((Scope(qualifiers, fields),), zone, source, now)

    def constant(self, expression: Expression) -> Literal | None:
        """The value of an expression without columns; None when it has none, or none that a literal can have."""
        try:
            node = self._binder.bind(expression)
            value = self._binder.folded(node).value
        except PredicateError:
            return None
        if node.type is None or not value.is_valid:
            return Literal(None, node.type)
        if not isinstance(node.type, AtomicType):
            return None
        return internal_literal(scalar_to_internal(value), node.type)

    def condition(self, expression: Expression, text: str) -> Predicate:
        """A condition to be evaluated on rows, shown as ``text``.

        Raises:
            ExpressionError: it names no column, mixes types, or is no condition.
        """
        bound = bind_tree(expression, self._binder)
        if bound.type is not None and bound.type.kind is not Kind.BOOLEAN:
            quoted = bound.type.kind in STRING_KINDS and bound.text.startswith('"')
            hint = "double quotes make a string; put column names in `back quotes`" if quoted else None
            self._binder.fail(expression, f"a condition is wanted, this is a {type_text(bound.type)}", hint)
        return computed(bound, text)


def computed(bound: BoundExpression, text: str) -> Computed:
    """A bound condition as a part of a predicate."""
    digest = hashlib.sha256(pickle.dumps(bound)).hexdigest()[:32]
    return Computed(text, bound.columns, digest, bound)
