"""Clauses of a MERGE as Spark SQL writes them behind WHEN …: ``[AND condition THEN] UPDATE SET a = …``, DELETE, INSERT.

Conditions and values stay text: they are bound once the table and the source are known.
"""

from __future__ import annotations

from collections.abc import Callable

from paimon_pyds.errors import OptionError
from paimon_pyds.rowlevel.clauses import Delete, Insert, Update
from paimon_pyds.sql.lexer import SqlText
from paimon_pyds.sql.parser import Parser

__all__ = ["parse_clause"]


def parse_clause(text: str) -> Update | Delete | Insert:
    """One clause.

    ``delete`` · ``update`` · ``update set *`` · ``update set price = source.price, n = n + 1`` · ``insert`` ·
    ``insert (id, price) values (source.id, 0)``, each perhaps with ``condition then`` before it.

    Raises:
        OptionError: no such clause.
        ExpressionError: a text that has no tokens, such as a quote that is not closed.
    """
    return _Clause(SqlText(text, "clause")).clause()


class _Clause(Parser):
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
        if acts and (self.peek(1).kind == "end" or self.is_next("SET", ahead=1) or self.is_next("*", "(", ahead=1)):
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
