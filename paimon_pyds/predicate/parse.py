"""The filter language: text to an unbound predicate tree.

The language is the condition part of Spark SQL (its SqlBaseParser grammar, booleanExpression), for comparisons
between a column and literals. What goes beyond that is refused with a hint, at its place in the text.
"""

from __future__ import annotations

from paimon_pyds.predicate import casts
from paimon_pyds.predicate.cursor import AFTERWARDS, MAX_DEPTH, RESERVED, SUFFIXES, Cursor
from paimon_pyds.predicate.lexer import Token
from paimon_pyds.predicate.literals import (
    TYPED_LITERALS,
    WORD_LITERALS,
    read_escape,
    read_literal,
    read_number,
    read_typed_literal,
)
from paimon_pyds.predicate.lower import All, Any, Not, Same, Test, lower
from paimon_pyds.predicate.operands import (
    Boolean,
    Column,
    Constant,
    Operand,
    comparison,
    condition_of,
    is_null,
    same,
    signed,
    text_test,
)
from paimon_pyds.predicate.sql_types import TYPES, read_type
from paimon_pyds.predicate.tree import ColumnRef, Leaf, Literal, MapKey, Op, Predicate
from paimon_pyds.types import AtomicType

__all__ = ["parse_filter"]


# Binding powers, weakest first.
_OR, _AND, _NOT, _SUFFIX, _COMPARE, _UNARY = 1, 2, 3, 4, 5, 6

_COMPARISONS = {
    "=": Op.EQ, "==": Op.EQ, "<>": Op.NE, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, "!>": Op.LE, ">": Op.GT, ">=": Op.GE,
    "!<": Op.GE,
}  # fmt: skip
_TEXT_FUNCTIONS = {"STARTSWITH": Op.STARTS_WITH, "ENDSWITH": Op.ENDS_WITH, "CONTAINS": Op.CONTAINS, "LIKE": Op.LIKE}
_CAST_FUNCTIONS = frozenset(TYPES) - {
    "BYTE", "SHORT", "INTEGER", "LONG", "REAL", "DEC", "NUMERIC", "VARCHAR", "CHAR", "CHARACTER", "TIME",
    "TIMESTAMP_LTZ", "TIMESTAMP_NTZ",
}  # fmt: skip


def parse_filter(text: str, *, timezone: str = "UTC") -> Predicate:
    """Parse a filter: the condition of a WHERE clause in Spark SQL, over the columns of one table.

    Args:
        text: at most 16 Mi characters; an empty text is an error.
        timezone: zone of TIMESTAMP literals that name none: ``UTC``, ``+01:00``, ``Europe/Berlin``.

    Returns:
        A tree of names and `Literal`s in negation normal form, not simplified: give it to `bind`.

    Raises:
        PredicateError: the text is not a condition, or goes beyond the language; the message has the line with a caret
            under the place.
    """
    return _Parser(text, timezone).parse()


class _Parser(Cursor):
    """A Pratt parser: `expression(power)` reads operators that bind tighter than ``power``."""

    def parse(self) -> Predicate:
        if self.peek().kind == "end":
            self.fail(self.peek(), "there is no condition", hint="leave the filter out to read every row")
        if self.is_word("WHERE") or self.is_word("SELECT"):
            self.fail(self.peek(), "a filter is a condition only", hint="write what follows WHERE")
        condition = condition_of(self, self._expression(0))
        if self.peek().kind != "end":
            self.unexpected("the end of the filter")
        return lower(condition)

    # ------------------------------------------------------------------------------------------------ expressions

    def _expression(self, power: int) -> Operand:
        self.descend("filter")
        left = self._prefix()
        value = True  # what may be compared: not a condition that IS, IN and their like have closed
        while True:
            token = self.peek()
            compares = token.kind == "op" and (token.value in _COMPARISONS or token.value == "<=>")
            if compares and value and power < _COMPARE:
                self.next()
                left = self._compare(token, left, self._expression(_COMPARE))
            elif token.kind == "name" and value and power < _SUFFIX and self.word() in SUFFIXES:
                left, value = self._suffix(left), False
            elif token.kind == "name" and power < _AND and self.is_word("AND"):
                left = self._chain(left, "AND", _AND)
            elif token.kind == "name" and power < _OR and self.is_word("OR"):
                left = self._chain(left, "OR", _OR)
            else:
                self.ascend()
                return left

    def _chain(self, left: Operand, word: str, power: int) -> Operand:
        parts = [condition_of(self, left)]
        while self.accept_word(word):
            parts.append(condition_of(self, self._expression(power)))
        return Boolean(All(tuple(parts)) if word == "AND" else Any(tuple(parts)), left.start)

    def _prefix(self) -> Operand:
        token = self.peek()
        if token.kind == "op":
            return self._prefix_op(token)
        if token.kind in ("number", "string", "bytes"):
            return self._postfix(Constant(read_literal(self), token.start))
        if token.kind == "quoted":
            return self._postfix(self._column())
        if token.kind == "name":
            return self._prefix_word(token)
        self.unexpected("a condition")

    def _prefix_op(self, token: Token) -> Operand:
        if self.accept_op("("):
            if self.is_word("SELECT", "WITH"):
                self.fail(token, f"subqueries are {AFTERWARDS}")
            inner = self._expression(0)
            if self.is_op(","):
                self.fail(token, f"rows of several columns are {AFTERWARDS}")
            self.expect_op(")")
            return self._postfix(inner)
        if self.accept_op("!"):
            return Boolean(Not(condition_of(self, self._expression(_NOT))), token.start)
        if self.is_op("-", "+"):
            return self._signed(token)
        self.unexpected("a column or a literal")

    def _signed(self, token: Token) -> Operand:
        negative = self.next().value == "-"
        if self.peek().kind == "number":
            return self._postfix(Constant(read_number(self, negative=negative), token.start))
        return signed(self, token, self._expression(_UNARY))

    def _prefix_word(self, token: Token) -> Operand:
        word = self.word()
        if word == "NOT":
            self.next()
            return Boolean(Not(condition_of(self, self._expression(_NOT))), token.start)
        following = self.peek(1)
        if word in WORD_LITERALS and not (following.kind == "op" and following.value in (".", "[", "(")):
            self.next()
            return self._postfix(Constant(WORD_LITERALS[word], token.start))
        if word in TYPED_LITERALS and following.kind == "string":
            return self._postfix(Constant(read_typed_literal(self, self.zone), token.start))
        if following.kind == "op" and following.value == "(":
            return self._postfix(self._call(token, word))
        if word == "INTERVAL" and following.kind in ("string", "number"):
            self.fail(token, f"intervals are {AFTERWARDS}")
        if word == "CASE":
            self.fail(token, f"CASE is {AFTERWARDS}")
        if word in RESERVED:
            self.unexpected("a condition")
        return self._postfix(self._column())

    # --------------------------------------------------------------------------------------------------- operands

    def _column(self) -> Column:
        token = self.next()
        return Column(ColumnRef(token.value), token.start)

    def _postfix(self, operand: Operand) -> Operand:
        while True:
            token = self.peek()
            if self.accept_op("::"):
                operand = self._cast(operand, read_type(self), token)
            elif isinstance(operand, Column) and self.accept_op("."):
                operand = self._step(operand, self.field_name())
            elif isinstance(operand, Column) and self.accept_op("["):
                key = self._expression(0)
                self.expect_op("]")
                operand = self._step(operand, self._map_key(key))
            else:
                return operand

    def _step(self, column: Column, step: str | MapKey) -> Column:
        if len(column.ref.path) >= MAX_DEPTH:
            self.fail(column, f"the path is longer than {MAX_DEPTH} steps")
        return Column(ColumnRef(column.ref.name, (*column.ref.path, step)), column.start)

    def _map_key(self, key: Operand) -> MapKey:
        if not isinstance(key, Constant) or key.literal.value is None:
            self.fail(key, f"a key that is not a literal is {AFTERWARDS}")
        value = key.literal.value
        plain = key.literal.type in (casts.STRING, casts.INT, casts.LONG)
        return MapKey(value if plain else key.literal)

    def _call(self, token: Token, word: str) -> Operand:
        if word in ("CAST", "TRY_CAST"):
            self.at += 2
            inner = self._expression(0)
            self.expect_word("AS")
            target = read_type(self)
            self.expect_op(")")
            return self._cast(inner, target, token)
        known = word in _TEXT_FUNCTIONS or word in _CAST_FUNCTIONS
        if not known and word not in ("ISNULL", "ISNOTNULL", "ISNAN", "ELEMENT_AT"):
            self.fail(token, f"the function {token.value} is {AFTERWARDS}")
        self.at += 2
        arguments = [self._expression(0)]
        while self.accept_op(","):
            arguments.append(self._expression(0))
        self.expect_op(")")
        wanted = 2 if word in _TEXT_FUNCTIONS or word == "ELEMENT_AT" else 1
        if len(arguments) != wanted:
            self.fail(token, f"{token.value} takes {wanted} argument{'s' * (wanted > 1)}, not {len(arguments)}")
        if word in _CAST_FUNCTIONS:
            precision = 10 if word == "DECIMAL" else None
            return self._cast(arguments[0], AtomicType(TYPES[word], precision=precision, scale=0), token)
        return self._apply(token, word, arguments)

    def _apply(self, token: Token, word: str, arguments: list[Operand]) -> Operand:
        first = arguments[0]
        if word in _TEXT_FUNCTIONS:
            return text_test(self, _TEXT_FUNCTIONS[word], first, arguments[1], "\\")
        if word == "ISNULL":
            return is_null(first)
        if word == "ISNOTNULL":
            return Boolean(Not(is_null(first).condition), first.start)
        if not isinstance(first, Column):
            self.fail(first, f"{token.value} takes a column here")
        if word == "ISNAN":
            return Boolean(Same(first.ref, Literal(float("nan"), casts.DOUBLE)), first.start)
        return self._step(first, self._map_key(arguments[1]))

    def _cast(self, operand: Operand, target: AtomicType, token: Token) -> Operand:
        if not isinstance(operand, Constant):
            self.fail(token, f"a cast of anything but a literal is {AFTERWARDS}")
        literal = operand.literal
        return Constant(
            self.located(operand.start, lambda: casts.cast_literal(literal, target, self.zone)), token.start
        )

    # -------------------------------------------------------------------------------------------------- conditions

    def _compare(self, token: Token, left: Operand, right: Operand) -> Operand:
        if token.value == "<=>":
            return same(self, token, left, right)
        return comparison(self, _COMPARISONS[token.value], token, left, right)

    def _suffix(self, left: Operand) -> Boolean:
        token = self.peek()
        negated = self.accept_word("NOT")
        word = self.word()
        self.next()
        if word == "IS" and not negated:
            return self._is(left)
        if word == "IN":
            found = self._in(left, token)
        elif word == "BETWEEN":
            low = self._expression(_SUFFIX)
            self.expect_word("AND")
            high = self._expression(_SUFFIX)
            parts = (comparison(self, Op.GE, token, left, low), comparison(self, Op.LE, token, left, high))
            found = Boolean(All((parts[0].condition, parts[1].condition)), left.start)
        elif word == "LIKE":
            return self._like(left, negated)
        elif word in ("ILIKE", "RLIKE", "REGEXP"):
            self.fail(token, f"{word} is {AFTERWARDS}")
        else:
            self.at -= 1
            self.unexpected("IN, BETWEEN or LIKE" if negated else "an operator")
        return Boolean(Not(found.condition), left.start) if negated else found

    def _is(self, left: Operand) -> Boolean:
        negated = self.accept_word("NOT")
        token = self.peek()
        word = self.word()
        found: Boolean
        if word in ("NULL", "UNKNOWN"):
            self.next()
            found = is_null(left)
        elif word in ("TRUE", "FALSE"):
            self.next()
            found = same(self, token, left, Constant(WORD_LITERALS[word], token.start))
        elif word == "DISTINCT":
            self.next()
            self.expect_word("FROM")
            found = same(self, token, left, self._expression(_SUFFIX))
            negated = not negated
        else:
            self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        return Boolean(Not(found.condition), left.start) if negated else found

    def _in(self, left: Operand, token: Token) -> Boolean:
        self.expect_op("(")
        if self.is_word("SELECT", "WITH"):
            self.fail(self.peek(), f"subqueries are {AFTERWARDS}")
        if self.is_op(")"):
            self.fail(self.peek(), "an IN list has at least one value")
        items = [self._item()]
        while self.accept_op(","):
            items.append(self._item())
        self.expect_op(")")
        if isinstance(left, Column) and all(isinstance(item, Constant) for item in items):
            literals = tuple(item.literal for item in items if isinstance(item, Constant))
            return Boolean(Test(Leaf(Op.IN, left.ref, literals)), left.start)
        parts = [comparison(self, Op.EQ, token, left, item).condition for item in items]
        return Boolean(Any(tuple(parts)), left.start)

    def _item(self) -> Operand:
        """One value of an IN list; a plain literal takes the short way, for lists of a hundred thousand."""
        token, following = self.peek(), self.peek(1)
        if token.kind in ("number", "string") and following.kind == "op" and following.value in (",", ")"):
            return Constant(read_literal(self), token.start)
        return self._expression(_SUFFIX)

    def _like(self, left: Operand, negated: bool) -> Boolean:
        if self.is_word("ANY", "SOME", "ALL") and self.is_op("(", ahead=1):
            every = self.next().value.upper() == "ALL"
            self.expect_op("(")
            parts = [text_test(self, Op.LIKE, left, self._expression(_SUFFIX), "\\").condition]
            while self.accept_op(","):
                parts.append(text_test(self, Op.LIKE, left, self._expression(_SUFFIX), "\\").condition)
            self.expect_op(")")
            # NOT LIKE ANY holds where some pattern does not match: it is not the opposite of LIKE ANY.
            tests = tuple(Not(part) if negated else part for part in parts)
            return Boolean(All(tests) if every else Any(tests), left.start)
        pattern = self._expression(_SUFFIX)
        found = text_test(self, Op.LIKE, left, pattern, read_escape(self) or "\\")
        return Boolean(Not(found.condition), left.start) if negated else found
