"""The clauses of a MERGE: read from texts, and bound to one state of a table.

Texts are as Spark SQL writes them behind WHEN …: ``[AND condition THEN] UPDATE SET a = …``, DELETE, INSERT. Conditions
and values stay text until the table and the source are known.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.option import shown_argument
from paimon_pyds.base.types import DataField, fields_named
from paimon_pyds.engine.rowlevel.clauses import Clauses, Delete, Insert, Update
from paimon_pyds.engine.rowlevel.update import assignments_of
from paimon_pyds.engine.write.conform import conform_column, origin_of
from paimon_pyds.errors import OptionError, SchemaError, columns_text
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import BoundExpression, bind_condition, bind_expression
from paimon_pyds.sql.text.lexer import SqlText
from paimon_pyds.sql.text.parser import Parser


def parse_clause(text: str, kinds: Sequence[type] = (Update, Delete, Insert)) -> Update | Delete | Insert:
    """One clause; ``kinds`` are those that a hint may name.

    ``delete`` · ``update`` · ``update set *`` · ``update set price = source.price, n = n + 1`` · ``insert`` ·
    ``insert (id, price) values (source.id, 0)``, each perhaps with ``condition then`` before it.
    Raises OptionError: no such clause; ExpressionError: a text that has no tokens, such as a quote that is not closed.
    """
    return _Clause(text, kinds).clause()


class _Clause(Parser):
    def __init__(self, text: str, kinds: Sequence[type]) -> None:
        super().__init__(SqlText(text, "clause"))
        self._kinds = kinds

    def clause(self) -> Update | Delete | Insert:
        where = self._condition()
        action = self.peek().word
        self.next()
        if action == "DELETE" and self._ends():
            return Delete(where)
        if action in ("UPDATE", "INSERT") and self._ends():
            return Update(None, where) if action == "UPDATE" else Insert(None, where)
        if action == "UPDATE" and self.accept("SET"):
            return Update(None if self._star() else self._assignments(), where)
        if action == "INSERT":
            return Insert(None if self._star() else self._values(), where)
        raise self._refused()

    def _refused(self) -> OptionError:
        *before, word = self.source.text.lower().split()[-2:] or [""]
        if before in ([], ["then"]):
            close = difflib.get_close_matches(word[:20], [kind.__name__.lower() for kind in self._kinds], 1, 0.5)
            if close:
                return OptionError(
                    f"not a clause of a merge: {self.source.text!r:.200}", hint=f'did you mean "{close[0]}"?'
                )
        return OptionError(
            f"not a clause of a merge: {self.source.text!r:.200}",
            hint="delete, update, update set a = …, insert, or insert (a, …) values (…); a condition comes first: "
            "source.n > 1 then delete",
        )

    def _ends(self) -> bool:
        return self.peek().kind == "end"

    def _star(self) -> bool:
        """Whether a star follows, and nothing else."""
        return self.accept("*") and self._ends()

    def _condition(self) -> str | None:
        """What stands before THEN."""
        acts = self.is_next("DELETE", "UPDATE", "INSERT")
        if acts and (self.peek(1).kind == "end" or self.is_next("SET", offset=1) or self.is_next("*", "(", offset=1)):
            return None
        self.accept("AND")
        if self._ends() or self.is_next("THEN"):
            raise self._refused()
        found = self._text()
        if not self.accept("THEN"):
            raise self._refused()
        return found

    def _text(self) -> str:
        """The text of the expression that follows."""
        found = self.expression()
        return self.source.text[found.start : found.stop]

    def _assignments(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while True:
            name = self._column()
            if name in found:
                raise self._refused()
            self.expect("=")
            found[name] = self._text()
            if not self.accept(","):
                break
        if not self._ends():
            self.unexpected("a comma or the end of the clause")
        return found

    def _column(self) -> str:
        """The name of a column, a table's name before it or not."""
        name = self.field_name()
        return self.field_name() if self.accept(".") else name

    def _values(self) -> dict[str, str]:
        columns = self._listed(self._column)
        self.expect("VALUES")
        values = self._listed(self._text)
        if len(columns) != len(values) or len(set(columns)) != len(columns) or not self._ends():
            raise self._refused()
        return dict(zip(columns, values, strict=True))

    def _listed(self, read: Callable[[], str]) -> list[str]:
        """What stands in parentheses, divided by commas."""
        self.expect("(")
        found = [read()]
        while self.accept(","):
            found.append(read())
        self.expect(")")
        return found


MERGE_CLAUSES: Mapping[str, tuple[type, ...]] = {
    "when_matched": (Update, Delete),
    "when_not_matched": (Insert,),
    "when_not_matched_by_source": (Update, Delete),
}
"""The kinds of clauses, and which may be among them."""


def listed(name: str, clauses: Clauses) -> tuple[Update | Delete | Insert, ...]:
    """The clauses of one kind as a tuple; texts are clauses of Spark SQL (see the module). Raises OptionError: no
    clause, one that has no place there, or that never acts."""
    if clauses is None:
        return ()
    given = list(clauses) if isinstance(clauses, Iterable) and not isinstance(clauses, str | Mapping) else [clauses]
    found: list[Update | Delete | Insert] = []
    for clause in given:
        parsed = parse_clause(clause, MERGE_CLAUSES[name]) if isinstance(clause, str) else clause
        if not isinstance(parsed, MERGE_CLAUSES[name]):
            names = " or ".join(kind.__name__ for kind in MERGE_CLAUSES[name])
            raise OptionError(f"{name.replace('_', ' ')}: {names} clauses are wanted, not {shown_argument(clause)}")
        if found and found[-1].where is None:
            raise OptionError(
                f"{name.replace('_', ' ')}: the clause after one without a condition never acts",
                hint="put the clause without a condition last",
            )
        found.append(parsed)
    return tuple(found)


@dataclass(frozen=True)
class MergeScopes:
    """The columns that expressions of a merge may name: the prefixes distinguish both sides in joined batches.

    Attributes:
        target, source: the columns of the table, and of the source.
        given: the source's columns as they came.
        takes_some: the source may lack columns where a clause names none: they stay, and new rows have their default.
    """

    target: Scope
    source: Scope
    given: pa.Schema
    takes_some: bool = False

    @classmethod
    def of(
        cls, schema: TableSchema, source: Sequence[DataField], given: pa.Schema, *, takes_some: bool = False
    ) -> MergeScopes:
        """Scopes called target (or t) and source (or s)."""
        nulls = frozenset(field.name for field in given if pa.types.is_null(field.type))
        target = Scope(("target", "t"), schema.fields, "target.")
        return cls(target, Scope(("source", "s"), tuple(source), "source.", nulls), given, takes_some)


@dataclass(frozen=True)
class BoundClause:
    """A clause with its names resolved; it pickles.

    Attributes:
        where: a condition, or None.
        values: new values by column; None for a delete.
        conforms: the values are those of the source, which have yet to be conformed to the table as an append's are.
    """

    where: BoundExpression | None
    values: Mapping[str, BoundExpression] | None
    conforms: bool = False


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
        SchemaError: a column that is not there, or whose values an append would not take.
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
            bound.append(BoundClause(where, _all_columns(schema, scopes, timezone), conforms=True))
        else:
            bound.append(BoundClause(where, assignments_of(given, schema, seen, timezone, now)))
    return tuple(bound)


def _all_columns(schema: TableSchema, scopes: MergeScopes, timezone: str) -> dict[str, BoundExpression]:
    """Every column of the table from the source's column of that name."""
    names = {name.casefold() for name in scopes.given.names}
    missing = [field.name for field in schema.fields if field.name.casefold() not in names]
    if missing and not scopes.takes_some:
        one = next((field.name for field in reversed(schema.fields) if field.name not in missing), missing[0])
        raise SchemaError(
            f"the source has no {columns_text(missing)}, which every row of the table has",
            hint=f"name the columns to set, such as Update({{{one!r}: 'source.{one}'}}) or the same of Insert",
        )
    return {field.name: _same_column(field, scopes, timezone) for field in schema.fields if field.name not in missing}


def _same_column(field: DataField, scopes: MergeScopes, timezone: str) -> BoundExpression:
    bound = bind_expression(f"`{field.name.replace('`', '``')}`", (scopes.source,), timezone=timezone)
    given = scopes.given.field(fields_named(field.name, scopes.source.fields)[0].name)
    try:
        conform_column(array([], given.type), field, None, origin=origin_of(scopes.given))
    except SchemaError as error:
        cast = f"Update({{{field.name!r}: 'CAST(source.{field.name} AS …)'}})"
        hint = f"cast it first, or name the columns to set, such as {cast}"
        raise SchemaError(error.message, hint=hint) from error
    return bound
