"""The clauses of a MERGE, bound to one state of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.expression import BoundExpression, Scope, bind_condition, bind_expression
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.rowlevel.clauses import Clauses, Delete, Insert, Update
from paimon_pyds.rowlevel.merge_text import parse_clause
from paimon_pyds.rowlevel.update import assignments_of
from paimon_pyds.types import DataField

__all__ = ["MERGE_CLAUSES", "BoundClause", "MergeScopes", "bind_clauses", "listed"]


MERGE_CLAUSES: Mapping[str, tuple[type, ...]] = {
    "when_matched": (Update, Delete),
    "when_not_matched": (Insert,),
    "when_not_matched_by_source": (Update, Delete),
}
"""The kinds of clauses, and which may be among them."""


def listed(name: str, clauses: Clauses) -> tuple[Update | Delete | Insert, ...]:
    """The clauses of one kind as a tuple; texts are taken as `paimon_pyds.rowlevel.merge_text` tells.

    Raises:
        OptionError: no clause, one that has no place there, or that never acts.
    """
    if clauses is None:
        return ()
    given = [clauses] if isinstance(clauses, str) or not isinstance(clauses, Iterable) else list(clauses)
    found: list[Update | Delete | Insert] = []
    for clause in given:
        parsed = parse_clause(clause) if isinstance(clause, str) else clause
        if not isinstance(parsed, MERGE_CLAUSES[name]):
            names = " or ".join(kind.__name__ for kind in MERGE_CLAUSES[name])
            raise OptionError(f"{name.replace('_', ' ')}: {names} clauses are wanted, not {clause!r:.100}")
        if found and found[-1].where is None:
            raise OptionError(
                f"{name.replace('_', ' ')}: the clause behind one without a condition never acts", hint="give it last"
            )
        found.append(parsed)
    return tuple(found)


@dataclass(frozen=True)
class MergeScopes:
    """The columns that expressions of a merge may name: the prefixes tell both sides apart in joined batches."""

    target: Scope
    source: Scope

    @classmethod
    def of(cls, schema: TableSchema, source: Sequence[DataField]) -> MergeScopes:
        """Scopes called target (or t) and source (or s)."""
        return cls(Scope(("target", "t"), schema.fields, "target."), Scope(("source", "s"), tuple(source), "source."))


@dataclass(frozen=True)
class BoundClause:
    """A clause with its names resolved; it pickles.

    Attributes:
        where: a condition, or None.
        values: new values by column; None for a delete.
    """

    where: BoundExpression | None
    values: Mapping[str, BoundExpression] | None


def bind_clauses(
    name: str,
    clauses: Sequence[Update | Delete | Insert],
    schema: TableSchema,
    scopes: MergeScopes,
    timezone: str,
    now: datetime,
) -> tuple[BoundClause, ...]:
    """The clauses of one kind, bound.

    Raises:
        ExpressionError: an expression that does not parse or bind, or whose values have no place in their column.
        SchemaError: a column that is not there.
    """
    seen = {
        "when_matched": (scopes.target, scopes.source),
        "when_not_matched": (scopes.source,),
        "when_not_matched_by_source": (scopes.target,),
    }[name]
    bound: list[BoundClause] = []
    for clause in clauses:
        where = None if clause.where is None else bind_condition(clause.where, seen, timezone=timezone, now=now)
        if isinstance(clause, Delete):
            bound.append(BoundClause(where, None))
            continue
        given = clause.set if isinstance(clause, Update) else clause.values
        if given is None:
            if scopes.source not in seen:
                raise OptionError(f"{name.replace('_', ' ')}: an update without source rows needs columns to set")
            bound.append(BoundClause(where, _all_columns(schema, scopes.source, timezone)))
        else:
            bound.append(BoundClause(where, assignments_of(given, schema, seen, timezone, now)))
    return tuple(bound)


def _all_columns(schema: TableSchema, source: Scope, timezone: str) -> dict[str, BoundExpression]:
    """Every column of the table from the source's column of that name."""
    names = {field.name.casefold() for field in source.fields}
    missing = [field.name for field in schema.fields if field.name.casefold() not in names]
    if missing:
        raise SchemaError(
            f"the source has no column {', '.join(map(repr, missing[:10]))}, which every row of the table has",
            hint="name the columns to set, such as Update({'price': 'source.price'}) or Insert({'id': 'source.id'})",
        )
    return {
        field.name: bind_expression(f"`{field.name.replace('`', '``')}`", (source,), field, timezone=timezone)
        for field in schema.fields
    }
