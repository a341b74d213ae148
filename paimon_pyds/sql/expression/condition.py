"""Conditions over one table as one predicate, with leaves that statistics and indexes answer, or rows have to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.cache import collection_paused
from paimon_pyds.base.types import DataField
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.bind import TableBinder, bind
from paimon_pyds.sql.predicate.normal_form import Table, normal_form
from paimon_pyds.sql.predicate.tree import Among, And, Computed, Const, Leaf, Or, Predicate
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import parse
from paimon_pyds.sql.text.tree import Expression

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Scope
    from paimon_pyds.sql.expression.bound import RowBinder


def bind_filter(
    text: str,
    fields: Sequence[DataField],
    *,
    timezone: str | None = None,
    qualifiers: tuple[str, ...] = (),
    kind: str = "condition",
) -> Predicate:
    """A condition in SQL as a bound predicate: leaves where statistics and indexes answer, `Computed` for the rest.

    Args:
        text: a boolean expression over the columns, in Spark's dialect, with the functions of docs/functions.md.
        fields: the table's columns.
        timezone: zone of literals without one, of dates and wall-clock times.
        qualifiers: what may stand before a column's name, such as ``("target", "t")``.
        kind: what errors call the text; they are ExpressionErrors but for a ``condition``.

    Raises:
        PredicateError: it does not parse, names no column, mixes types, or is no condition; the message has the line
            with a caret under the place.
    """
    source, zone = SqlText(text, kind), timezone or default_zone()
    binder = TableBinder(fields, timezone=zone)
    table = Table(binder.bind, fields, _row_binder(source, fields, qualifiers, zone), qualifiers)
    with collection_paused():  # a text may have very many conditions
        return normal_form(parse(source, timezone=zone), source, zone, table)


def bind_rows_condition(
    operand: Any, fields: Sequence[DataField], *, qualifiers: tuple[str, ...] = (), timezone: str | None = None
) -> Predicate:
    """The condition of an operation on rows as a bound predicate, as `bind_filter` makes one of a text.

    Args:
        operand: SQL text, a predicate tree, a `pyarrow.compute.Expression`, a bool; None for every row.
        fields: the table's columns.
        qualifiers: what may stand before them, such as ``("target", "t")``.
        timezone: zone of literals without one, of dates and wall-clock times.

    Raises:
        PredicateError: see `bind_filter`.
    """
    if operand is None or operand is True:
        return Const.TRUE
    if isinstance(operand, And | Or | Leaf | Among | Const | Computed):
        return bind(operand, fields, timezone=timezone)
    if isinstance(operand, str):
        return bind_filter(operand, fields, timezone=timezone, qualifiers=qualifiers, kind="expression")
    from paimon_pyds.sql.expression.bind import Scope
    from paimon_pyds.sql.expression.bound import bind_condition, computed

    bound = bind_condition(operand, (Scope(qualifiers, tuple(fields)),), timezone=timezone)
    return computed(bound, bound.text)


def predicate_of(part: Expression, source: SqlText, scope: Scope, timezone: str) -> Predicate | None:
    """A condition over one scope's columns as a bound predicate; None when rows alone can answer a part of it."""
    try:
        table = Table(TableBinder(scope.fields, timezone=timezone).bind, scope.fields, None, scope.names)
        return normal_form(part, source, timezone, table)
    except PredicateError:
        return None


def _row_binder(
    source: SqlText, fields: Sequence[DataField], qualifiers: tuple[str, ...], timezone: str
) -> Callable[[], RowBinder]:
    """A function that makes the evaluator of conditions on rows at its first call: most filters need no evaluator, and
    processes that plan a query start sooner without the functions of expressions."""

    @cache
    def binder() -> RowBinder:
        from paimon_pyds.sql.expression.bound import RowBinder

        return RowBinder(source, tuple(fields), qualifiers, timezone)

    return binder
