"""The condition of a row-level operation: what indexes and statistics can answer, and the rest, asked of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.operations.row_changes_tasks import Residual
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.types import DataField

__all__ = ["RowCondition", "condition_of"]


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Rows are meant for which ``predicate`` is true, and ``residual`` where there is one."""

    predicate: Predicate
    residual: Residual | None = None

    def residual_fields(self, schema: TableSchema) -> Sequence[DataField]:
        """The columns that the residual needs."""
        names = () if self.residual is None else self.residual.columns
        return [f for f in schema.fields if f.name in names]


def condition_of(where: str | Predicate | None, schema: TableSchema, timezone: str = "UTC") -> RowCondition:
    """The condition that a user gave; every row when None.

    Raises:
        PredicateError: it does not parse, or names no column.
    """
    if where is None:
        return RowCondition(Const.TRUE)
    tree = parse_filter(where, timezone=timezone) if isinstance(where, str) else where
    return RowCondition(bind(tree, schema.fields, timezone=timezone))
