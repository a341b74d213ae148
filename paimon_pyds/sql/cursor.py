"""A place in the tokens of a text, and errors that point at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.lexer import SqlText, Token, tokenize

__all__ = ["MAX_DEPTH", "RESERVED", "SUFFIXES", "Cursor"]

MAX_DEPTH = 100
"""How deep parentheses, calls and the like may be nested."""
SUFFIXES = frozenset({"IS", "IN", "BETWEEN", "LIKE", "NOT", "ILIKE", "RLIKE", "REGEXP"})
"""Words that follow an operand and make a condition of it."""
RESERVED = SUFFIXES | {"AND", "OR", "ESCAPE", "WHEN", "THEN", "ELSE", "END", "FROM", "WHERE"}
"""Words that no operand begins with."""
_HINTS = {"&&": "write AND", ";": "no semicolon is needed"}
_T = TypeVar("_T")


class _Placed(Protocol):
    @property
    def start(self) -> int: ...


class Cursor:
    """Reads tokens one after the other; words are compared in upper case. ``zone`` is that of literals without one."""

    def __init__(self, source: SqlText, timezone: str = "UTC") -> None:
        self.source = source
        self.zone = timezone
        self.tokens = tokenize(source)
        self.at = 0
        self._depth = 0

    def descend(self) -> None:
        """Go one level deeper. Raises PredicateError beyond `MAX_DEPTH`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(self.peek(), f"the {self.source.kind} is nested deeper than {MAX_DEPTH} levels")

    def ascend(self) -> None:
        """Come back from a level."""
        self._depth -= 1

    def peek(self, ahead: int = 0) -> Token:
        """The next token, or one further ahead; the last one for ever."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else self.tokens[-1]

    def next(self) -> Token:
        """The next token, stepping over it."""
        token = self.peek()
        self.at += 1
        return token

    @property
    def stop(self) -> int:
        """Where the token that was read last ends."""
        return self.tokens[self.at - 1].stop

    def word(self, ahead: int = 0) -> str:
        """The next token in upper case if it is an unquoted name, else an empty text."""
        token = self.peek(ahead)
        return token.value.upper() if token.kind == "name" else ""

    def is_word(self, *words: str) -> bool:
        """Whether the next token is one of these words."""
        return self.word() in words

    def is_op(self, *ops: str, ahead: int = 0) -> bool:
        """Whether the next token is one of these operators."""
        token = self.peek(ahead)
        return token.kind == "op" and token.value in ops

    def accept_word(self, *words: str) -> bool:
        """Step over one of these words, if it is there."""
        found = self.is_word(*words)
        self.at += found
        return found

    def accept_op(self, *ops: str) -> bool:
        """Step over one of these operators, if it is there."""
        found = self.is_op(*ops)
        self.at += found
        return found

    def expect_op(self, op: str) -> None:
        """Step over this operator, or raise."""
        if not self.accept_op(op):
            self.unexpected(f"{op!r}")

    def expect_word(self, word: str) -> None:
        """Step over this word, or raise."""
        if not self.accept_word(word):
            self.unexpected(word)

    def field_name(self) -> str:
        """The name of a field behind a point, stepping over it; it may begin with a digit."""
        token = self.peek()
        if token.kind not in ("name", "quoted") and not (token.kind == "number" and token.value.isdigit()):
            self.unexpected("a field name")
        self.next()
        return token.value + token.suffix

    def fail(self, where: _Placed | int, message: str, *, hint: str | None = None) -> NoReturn:
        """Raise a PredicateError that points at a token, a part of the tree or a position."""
        self.source.fail(where if isinstance(where, int) else where.start, message, hint=hint)

    def unexpected(self, wanted: str) -> NoReturn:
        """Raise a PredicateError about the next token."""
        token = self.peek()
        if token.kind == "end":
            self.fail(token, f"expected {wanted}, but the {self.source.kind} ends here")
        shown = self.source.text[token.start : min(token.stop, token.start + 40)]
        hint = _HINTS.get(token.value) if token.kind == "op" else None
        if token.kind == "name" and self.word() in RESERVED:
            hint = f"a column of this name is written `{token.value}`"
        self.fail(token, f"expected {wanted}, found {shown}", hint=hint)

    def located(self, start: int, function: Callable[[], _T]) -> _T:
        """Call a function; its PredicateError gets this place."""
        try:
            return function()
        except PredicateError as error:
            raise self.source.error(start, error.message, error.hint) from None
