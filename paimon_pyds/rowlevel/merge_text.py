"""Clauses of a MERGE as Spark SQL writes them behind WHEN …: ``[AND condition THEN] UPDATE SET a = …``, DELETE, INSERT.

Conditions and values stay text; the places where they begin and end are found among the tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from paimon_pyds.errors import ExpressionError, OptionError, PredicateError
from paimon_pyds.predicate.cursor import Cursor
from paimon_pyds.rowlevel.clauses import Delete, Insert, Update

__all__ = ["parse_clause"]

_OPEN, _CLOSE = ("(", "["), (")", "]")


def parse_clause(text: str) -> Update | Delete | Insert:
    """One clause.

    ``delete`` · ``update`` · ``update set *`` · ``update set price = source.price, n = n + 1`` · ``insert`` ·
    ``insert (id, price) values (source.id, 0)``, each perhaps with ``condition then`` before it.

    Raises:
        OptionError: no such clause.
        ExpressionError: a text that has no tokens, such as a quote that is not closed.
    """
    try:
        return _Clause(text).parse()
    except PredicateError as error:
        raise ExpressionError(error.message.replace("filter: ", "clause: ", 1), hint=error.hint) from None


class _Clause(Cursor):
    def parse(self) -> Update | Delete | Insert:
        where = self._condition()
        action = self.word()
        self.next()
        if action == "DELETE" and self._ends():
            return Delete(where)
        if action in ("UPDATE", "INSERT") and self._ends():
            return Update(None, where) if action == "UPDATE" else Insert(None, where)
        if action == "UPDATE" and self.accept_word("SET"):
            return Update(None if self._star() else self._assignments(), where)
        if action == "INSERT":
            return Insert(None if self._star() else self._values(), where)
        raise self._refused()

    def _refused(self) -> OptionError:
        return OptionError(
            f"not a clause of a merge: {self.text!r:.200}",
            hint="delete, update, update set a = …, insert, or insert (a, …) values (…); a condition comes first: "
            "source.n > 1 then delete",
        )

    def _ends(self) -> bool:
        return self.peek().kind == "end"

    def _star(self) -> bool:
        """Whether a star follows, and nothing else."""
        return self.accept_op("*") and self._ends()

    def _condition(self) -> str | None:
        """What stands before THEN, outside of parentheses and CASEs."""
        depth = 0
        for at, token in enumerate(self.tokens):
            word = token.value.upper() if token.kind == "name" else ""
            depth += (token.kind == "op" and token.value in _OPEN) or word == "CASE"
            depth -= (token.kind == "op" and token.value in _CLOSE) or word == "END"
            if word == "THEN" and not depth:
                self.accept_word("AND")
                found = self.text[self.peek().start : token.start].strip()
                if not found:
                    raise self._refused()
                self.at = at + 1
                return found
        return None

    def _parts(self, closed: bool) -> Iterator[tuple[int, int]]:
        """Ranges of tokens that commas divide, up to the end of the text, or to the closing parenthesis."""
        depth, first = 0, self.at
        while not self._ends():
            if self.is_op(*_CLOSE) and not depth:
                break
            depth += self.is_op(*_OPEN) - self.is_op(*_CLOSE)
            if self.is_op(",") and not depth:
                yield first, self.at
                first = self.at + 1
            self.next()
        yield first, self.at
        if closed:
            self.expect_op(")")
        if not closed and not self._ends():
            raise self._refused()

    def _text_of(self, first: int, stop: int) -> str:
        if stop <= first:
            raise self._refused()
        return self.text[self.tokens[first].start : self.tokens[stop - 1].stop]

    def _assignments(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for first, stop in list(self._parts(closed=False)):
            equals = next((n for n in range(first, stop) if self.tokens[n].value == "="), None)
            name = None if equals is None else self._column(first, equals)
            if equals is None or name is None or name in found:
                raise self._refused()
            found[name] = self._text_of(equals + 1, stop)
        return found

    def _column(self, first: int, stop: int) -> str:
        """The name of a column, a table's name before it or not."""
        names = [token for token in self.tokens[first:stop] if token.kind != "op"]
        if not names or names[-1].kind not in ("name", "quoted"):
            raise self._refused()
        return names[-1].value

    def _values(self) -> dict[str, str]:
        self.expect_op("(")
        columns = [self._column(*part) for part in self._parts(closed=True)]
        self.expect_word("VALUES")
        self.expect_op("(")
        values = [self._text_of(*part) for part in self._parts(closed=True)]
        if len(columns) != len(values) or len(set(columns)) != len(columns) or not self._ends():
            raise self._refused()
        return dict(zip(columns, values, strict=True))
