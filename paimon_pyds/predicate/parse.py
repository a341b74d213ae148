"""The filter language: text to an unbound predicate tree.

The language is the condition part of Spark SQL (its SqlBaseParser grammar, booleanExpression), for comparisons
between a column and literals. What goes beyond that is refused with a hint, at its place in the text.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, NoReturn, TypeAlias

from paimon_pyds.predicate import casts
from paimon_pyds.predicate.cursor import AFTERWARDS, RESERVED, SUFFIXES, Cursor
from paimon_pyds.predicate.fold import compare_literals
from paimon_pyds.predicate.lexer import Token
from paimon_pyds.predicate.like import like_parts
from paimon_pyds.predicate.literals import (
    TYPED_LITERALS,
    WORD_LITERALS,
    read_escape,
    read_literal,
    read_number,
    read_typed_literal,
)
from paimon_pyds.predicate.lower import All, Any, Condition, Fixed, Is, Not, Same, Test, Unknown, lower
from paimon_pyds.predicate.sql_types import TYPES, read_type
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Literal, MapKey, Op, Predicate
from paimon_pyds.types import BINARY_KINDS, STRING_KINDS, AtomicType, Kind

__all__ = ["MAX_DEPTH", "parse_filter"]

MAX_DEPTH = 100
"""How deep parentheses and NOTs may be nested."""

# Binding powers, weakest first.
_OR, _AND, _NOT, _SUFFIX, _COMPARE, _UNARY = 1, 2, 3, 4, 5, 6

_COMPARISONS = {
    "=": Op.EQ, "==": Op.EQ, "<>": Op.NE, "!=": Op.NE, "<": Op.LT, "<=": Op.LE, "!>": Op.LE, ">": Op.GT, ">=": Op.GE,
    "!<": Op.GE,
}  # fmt: skip
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_TEXT_FUNCTIONS = {"STARTSWITH": Op.STARTS_WITH, "ENDSWITH": Op.ENDS_WITH, "CONTAINS": Op.CONTAINS, "LIKE": Op.LIKE}
_CAST_FUNCTIONS = frozenset(TYPES) - {
    "BYTE", "SHORT", "INTEGER", "LONG", "REAL", "DEC", "NUMERIC", "VARCHAR", "CHAR", "CHARACTER", "TIME",
    "TIMESTAMP_LTZ", "TIMESTAMP_NTZ",
}  # fmt: skip


class _Column(NamedTuple):
    ref: ColumnRef
    start: int


class _Constant(NamedTuple):
    literal: Literal
    start: int


class _Boolean(NamedTuple):
    condition: Condition
    start: int


_Operand: TypeAlias = _Column | _Constant | _Boolean


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

    def __init__(self, text: str, timezone: str) -> None:
        super().__init__(text)
        self._zone = timezone
        self._depth = 0

    def parse(self) -> Predicate:
        if self.peek().kind == "end":
            self.fail(self.peek(), "there is no condition", hint="leave the filter out to read every row")
        if self.is_word("WHERE") or self.is_word("SELECT"):
            self.fail(self.peek(), "a filter is a condition only", hint="write what follows WHERE")
        condition = self._condition(self._expression(0))
        if self.peek().kind != "end":
            self.unexpected("the end of the filter")
        return lower(condition)

    # ------------------------------------------------------------------------------------------------ expressions

    def _expression(self, power: int) -> _Operand:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(self.peek(), f"the filter is nested deeper than {MAX_DEPTH} levels")
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
                self._depth -= 1
                return left

    def _chain(self, left: _Operand, word: str, power: int) -> _Operand:
        parts = [self._condition(left)]
        while self.accept_word(word):
            parts.append(self._condition(self._expression(power)))
        return _Boolean(All(tuple(parts)) if word == "AND" else Any(tuple(parts)), left.start)

    def _prefix(self) -> _Operand:
        token = self.peek()
        if token.kind == "op":
            return self._prefix_op(token)
        if token.kind in ("number", "string", "bytes"):
            return self._postfix(_Constant(read_literal(self), token.start))
        if token.kind == "quoted":
            return self._postfix(self._column())
        if token.kind == "name":
            return self._prefix_word(token)
        self.unexpected("a condition")

    def _prefix_op(self, token: Token) -> _Operand:
        if self.accept_op("("):
            if self.is_word("SELECT", "WITH"):
                self.fail(token, f"subqueries are {AFTERWARDS}")
            inner = self._expression(0)
            if self.is_op(","):
                self.fail(token, f"rows of several columns are {AFTERWARDS}")
            self.expect_op(")")
            return self._postfix(inner)
        if self.accept_op("!"):
            return _Boolean(Not(self._condition(self._expression(_NOT))), token.start)
        if self.is_op("-", "+"):
            return self._signed(token)
        self.unexpected("a column or a literal")

    def _signed(self, token: Token) -> _Operand:
        negative = self.next().value == "-"
        if self.peek().kind == "number":
            return self._postfix(_Constant(read_number(self, negative=negative), token.start))
        inner = self._expression(_UNARY)
        if not isinstance(inner, _Constant):
            self.fail(token, f"arithmetic is {AFTERWARDS}")
        value, type_ = inner.literal.value, inner.literal.type
        if value is None:
            return inner
        if type_ is None or isinstance(value, bool | str | bytes) or type_.kind in _NOT_NUMBERS:
            self.fail(token, f"{token.value} stands before something that is not a number")
        if not negative:
            return inner
        flipped = casts.integer(-value) if isinstance(value, int) else Literal(-value, type_)
        return _Constant(flipped, token.start)

    def _prefix_word(self, token: Token) -> _Operand:
        word = self.word()
        if word == "NOT":
            self.next()
            return _Boolean(Not(self._condition(self._expression(_NOT))), token.start)
        following = self.peek(1)
        if word in WORD_LITERALS and not (following.kind == "op" and following.value in (".", "[", "(")):
            self.next()
            return self._postfix(_Constant(WORD_LITERALS[word], token.start))
        if word in TYPED_LITERALS and following.kind == "string":
            return self._postfix(_Constant(read_typed_literal(self, self._zone), token.start))
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

    def _column(self) -> _Column:
        token = self.next()
        return _Column(ColumnRef(token.value), token.start)

    def _postfix(self, operand: _Operand) -> _Operand:
        while True:
            token = self.peek()
            if self.accept_op("::"):
                operand = self._cast(operand, read_type(self), token)
            elif isinstance(operand, _Column) and self.accept_op("."):
                operand = self._step(operand, self.field_name())
            elif isinstance(operand, _Column) and self.accept_op("["):
                key = self._expression(0)
                self.expect_op("]")
                operand = self._step(operand, self._map_key(key))
            else:
                return operand

    def _step(self, column: _Column, step: str | MapKey) -> _Column:
        if len(column.ref.path) >= MAX_DEPTH:
            self.fail(column, f"the path is longer than {MAX_DEPTH} steps")
        return _Column(ColumnRef(column.ref.name, (*column.ref.path, step)), column.start)

    def _map_key(self, key: _Operand) -> MapKey:
        if not isinstance(key, _Constant) or key.literal.value is None:
            self.fail(key, f"a key that is not a literal is {AFTERWARDS}")
        value = key.literal.value
        plain = key.literal.type in (casts.STRING, casts.INT, casts.LONG)
        return MapKey(value if plain else key.literal)

    def _call(self, token: Token, word: str) -> _Operand:
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

    def _apply(self, token: Token, word: str, arguments: list[_Operand]) -> _Operand:
        first = arguments[0]
        if word in _TEXT_FUNCTIONS:
            return self._text_test(_TEXT_FUNCTIONS[word], first, arguments[1], "\\")
        if word == "ISNULL":
            return self._is_null(first)
        if word == "ISNOTNULL":
            return _Boolean(Not(self._is_null(first).condition), first.start)
        if not isinstance(first, _Column):
            self.fail(first, f"{token.value} takes a column here")
        if word == "ISNAN":
            return _Boolean(Same(first.ref, Literal(float("nan"), casts.DOUBLE)), first.start)
        return self._step(first, self._map_key(arguments[1]))

    def _cast(self, operand: _Operand, target: AtomicType, token: Token) -> _Operand:
        if not isinstance(operand, _Constant):
            self.fail(token, f"a cast of anything but a literal is {AFTERWARDS}")
        literal = operand.literal
        return _Constant(
            self.located(operand.start, lambda: casts.cast_literal(literal, target, self._zone)), token.start
        )

    # -------------------------------------------------------------------------------------------------- conditions

    def _condition(self, operand: _Operand) -> Condition:
        """An operand that stands where a condition is wanted."""
        if isinstance(operand, _Boolean):
            return operand.condition
        if isinstance(operand, _Column):
            return Test(Leaf(Op.EQ, operand.ref, (Literal(True, casts.BOOLEAN),)))
        value = operand.literal.value
        if value is None:
            return Fixed(Const.UNKNOWN)
        if isinstance(value, bool):
            return Fixed(Const.TRUE if value else Const.FALSE)
        hint = "double quotes make a string; put column names in `back quotes`" if isinstance(value, str) else None
        self.fail(operand, "expected a condition, found a literal", hint=hint)

    def _compare(self, token: Token, left: _Operand, right: _Operand) -> _Operand:
        if token.value == "<=>":
            return self._same(token, left, right)
        return self._comparison(_COMPARISONS[token.value], token, left, right)

    def _comparison(self, op: Op, token: Token, left: _Operand, right: _Operand) -> _Boolean:
        if isinstance(right, _Column) or (isinstance(right, _Boolean) and isinstance(left, _Constant)):
            left, right, op = right, left, _FLIPPED.get(op, op)
        if isinstance(left, _Column) and isinstance(right, _Constant):
            return _Boolean(Test(Leaf(op, left.ref, (right.literal,))), left.start)
        if isinstance(left, _Constant) and isinstance(right, _Constant):
            first, second = left.literal, right.literal
            return _Boolean(Fixed(self.located(token.start, lambda: compare_literals(op, first, second))), left.start)
        if isinstance(left, _Boolean) and isinstance(right, _Constant) and op in (Op.EQ, Op.NE):
            value = right.literal.value
            if value is None:
                return _Boolean(Fixed(Const.UNKNOWN), left.start)
            if isinstance(value, bool):
                same = value == (op is Op.EQ)
                return left if same else _Boolean(Not(left.condition), left.start)
        self._not_literal(token, left, right)

    def _same(self, token: Token, left: _Operand, right: _Operand) -> _Boolean:
        if isinstance(right, _Column) or (isinstance(right, _Boolean) and isinstance(left, _Constant)):
            left, right = right, left
        if isinstance(left, _Column) and isinstance(right, _Constant):
            return _Boolean(Same(left.ref, right.literal), left.start)
        if isinstance(left, _Constant) and isinstance(right, _Constant):
            first, second = left.literal, right.literal
            if first.value is None or second.value is None:
                both = first.value is None and second.value is None
                return _Boolean(Fixed(Const.TRUE if both else Const.FALSE), left.start)
            return self._comparison(Op.EQ, token, left, right)
        if isinstance(left, _Boolean) and isinstance(right, _Constant):
            value = right.literal.value
            if value is None:
                return _Boolean(Unknown(left.condition), left.start)
            if isinstance(value, bool):
                return _Boolean(Is(left.condition, value), left.start)
        self._not_literal(token, left, right)

    def _not_literal(self, token: Token, left: _Operand, right: _Operand) -> NoReturn:
        if isinstance(left, _Column) and isinstance(right, _Column):
            self.fail(token, f"comparing two columns is {AFTERWARDS}")
        self.fail(token, "a comparison takes a column and a literal", hint="parentheses may be missing")

    def _suffix(self, left: _Operand) -> _Boolean:
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
            parts = (self._comparison(Op.GE, token, left, low), self._comparison(Op.LE, token, left, high))
            found = _Boolean(All((parts[0].condition, parts[1].condition)), left.start)
        elif word == "LIKE":
            return self._like(left, negated)
        elif word in ("ILIKE", "RLIKE", "REGEXP"):
            self.fail(token, f"{word} is {AFTERWARDS}")
        else:
            self.at -= 1
            self.unexpected("IN, BETWEEN or LIKE" if negated else "an operator")
        return _Boolean(Not(found.condition), left.start) if negated else found

    def _is(self, left: _Operand) -> _Boolean:
        negated = self.accept_word("NOT")
        token = self.peek()
        word = self.word()
        found: _Boolean
        if word in ("NULL", "UNKNOWN"):
            self.next()
            found = self._is_null(left)
        elif word in ("TRUE", "FALSE"):
            self.next()
            found = self._same(token, left, _Constant(WORD_LITERALS[word], token.start))
        elif word == "DISTINCT":
            self.next()
            self.expect_word("FROM")
            found = self._same(token, left, self._expression(_SUFFIX))
            negated = not negated
        else:
            self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        return _Boolean(Not(found.condition), left.start) if negated else found

    def _is_null(self, operand: _Operand) -> _Boolean:
        if isinstance(operand, _Column):
            return _Boolean(Test(Leaf(Op.IS_NULL, operand.ref)), operand.start)
        if isinstance(operand, _Boolean):
            return _Boolean(Unknown(operand.condition), operand.start)
        return _Boolean(Fixed(Const.TRUE if operand.literal.value is None else Const.FALSE), operand.start)

    def _in(self, left: _Operand, token: Token) -> _Boolean:
        self.expect_op("(")
        if self.is_word("SELECT", "WITH"):
            self.fail(self.peek(), f"subqueries are {AFTERWARDS}")
        if self.is_op(")"):
            self.fail(self.peek(), "an IN list has at least one value")
        items = [self._item()]
        while self.accept_op(","):
            items.append(self._item())
        self.expect_op(")")
        if isinstance(left, _Column) and all(isinstance(item, _Constant) for item in items):
            literals = tuple(item.literal for item in items if isinstance(item, _Constant))
            return _Boolean(Test(Leaf(Op.IN, left.ref, literals)), left.start)
        parts = [self._comparison(Op.EQ, token, left, item).condition for item in items]
        return _Boolean(Any(tuple(parts)), left.start)

    def _item(self) -> _Operand:
        """One value of an IN list; a plain literal takes the short way, for lists of a hundred thousand."""
        token, following = self.peek(), self.peek(1)
        if token.kind in ("number", "string") and following.kind == "op" and following.value in (",", ")"):
            return _Constant(read_literal(self), token.start)
        return self._expression(_SUFFIX)

    def _like(self, left: _Operand, negated: bool) -> _Boolean:
        if self.is_word("ANY", "SOME", "ALL") and self.is_op("(", ahead=1):
            every = self.next().value.upper() == "ALL"
            self.expect_op("(")
            parts = [self._text_test(Op.LIKE, left, self._expression(_SUFFIX), "\\").condition]
            while self.accept_op(","):
                parts.append(self._text_test(Op.LIKE, left, self._expression(_SUFFIX), "\\").condition)
            self.expect_op(")")
            # NOT LIKE ANY holds where some pattern does not match: it is not the opposite of LIKE ANY.
            tests = tuple(Not(part) if negated else part for part in parts)
            return _Boolean(All(tests) if every else Any(tests), left.start)
        pattern = self._expression(_SUFFIX)
        found = self._text_test(Op.LIKE, left, pattern, read_escape(self) or "\\")
        return _Boolean(Not(found.condition), left.start) if negated else found

    def _text_test(self, op: Op, left: _Operand, right: _Operand, escape: str) -> _Boolean:
        if not isinstance(left, _Column):
            self.fail(left, f"{op.value} takes a column on its left")
        if not isinstance(right, _Constant):
            self.fail(right, f"{op.value} with anything but a literal is {AFTERWARDS}")
        value, type_ = right.literal.value, right.literal.type
        if isinstance(value, bytes):
            type_ = None
        if value is not None and (type_ is None or type_.kind not in STRING_KINDS):
            self.fail(right, f"{op.value} takes a string", hint="put the text in single quotes")
        if op is not Op.LIKE:
            return _Boolean(Test(Leaf(op, left.ref, (right.literal,))), left.start)
        if value is not None:
            self.located(right.start, functools.partial(like_parts, value, escape))
        return _Boolean(Test(Leaf(op, left.ref, (right.literal, escape))), left.start)


_NOT_NUMBERS = STRING_KINDS | BINARY_KINDS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
