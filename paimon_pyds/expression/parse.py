"""Text of Spark SQL's value expressions and conditions (its SqlBaseParser grammar, valueExpression) to a tree."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NoReturn, TypeVar

from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.expression.tree import Call, Case, CastTo, Expression, Item, Name, Value, is_large
from paimon_pyds.predicate import casts
from paimon_pyds.predicate.cursor import MAX_DEPTH, RESERVED, SUFFIXES, Cursor
from paimon_pyds.predicate.lexer import Token
from paimon_pyds.predicate.literals import (
    TYPED_LITERALS,
    WORD_LITERALS,
    read_escape,
    read_literal,
    read_number,
    read_typed_literal,
)
from paimon_pyds.predicate.sql_types import TYPES, read_type
from paimon_pyds.predicate.tree import Literal
from paimon_pyds.types import AtomicType

__all__ = ["MAX_NODES", "MAX_STEPS", "parse_expression"]

MAX_STEPS = 150
"""How many operators and calls may work on each other's results, as in ``a + b + c``."""
MAX_NODES = 1_000_000
"""How many parts an expression may have, the values of IN lists among them."""

# Binding powers, weakest first.
_OR, _AND, _NOT, _SUFFIX, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _ADD, _MULTIPLY, _UNARY = range(1, 12)
_BINARY = {
    "=": (_COMPARE, "="), "==": (_COMPARE, "="), "<>": (_COMPARE, "<>"), "!=": (_COMPARE, "<>"), "<": (_COMPARE, "<"),
    "<=": (_COMPARE, "<="), "!>": (_COMPARE, "<="), ">": (_COMPARE, ">"), ">=": (_COMPARE, ">="),
    "!<": (_COMPARE, ">="), "<=>": (_COMPARE, "<=>"), "|": (_BIT_OR, "|"), "^": (_BIT_XOR, "^"), "&": (_BIT_AND, "&"),
    "+": (_ADD, "+"), "-": (_ADD, "-"), "||": (_ADD, "||"), "*": (_MULTIPLY, "*"), "/": (_MULTIPLY, "/"),
    "%": (_MULTIPLY, "%"),
}  # fmt: skip
_WITHOUT_PARENTHESES = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"})
_CAST_FUNCTIONS = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "TIMESTAMP"}
)
"""Types that are functions of one argument as well; ``date`` is another, in the table of functions."""
_E = TypeVar("_E", bound=Expression)


def parse_expression(text: str, *, timezone: str = "UTC") -> Expression:
    """Parse a value expression or a condition, in Spark's dialect.

    Args:
        text: at most 16 Mi characters.
        timezone: zone of TIMESTAMP literals that name none: ``UTC``, ``+01:00``, ``Europe/Berlin``.

    Raises:
        ExpressionError: not an expression; the message has the line with a caret under the place.
    """
    try:
        return _Parser(text, timezone).parse()
    except PredicateError as error:
        message = error.message.removeprefix("filter: ")
        message = message.replace("the filter", "the expression").replace("in a filter", "in an expression")
        raise ExpressionError(f"expression: {message}", hint=error.hint) from None


def _text(value: str) -> Value:
    return Value(Literal(value, casts.STRING))


class _Parser(Cursor):
    """A Pratt parser: `expression(power)` reads operators that bind tighter than ``power``."""

    def parse(self) -> Expression:
        if self.peek().kind == "end":
            self.fail(self.peek(), "there is no expression")
        found = self._expression(0)
        if self.peek().kind != "end":
            self.unexpected("the end of the expression")
        if is_large(found, MAX_STEPS, MAX_NODES):
            self.fail(found, f"the expression is nested deeper than {MAX_STEPS} steps, or too large")
        return found

    def unexpected(self, wanted: str) -> NoReturn:
        token = self.peek()
        if token.kind == "end":
            self.fail(token, f"expected {wanted}, but the expression ends here")
        hint = None
        if token.kind == "name" and self.word() in RESERVED:
            hint = f"a column of this name is written `{token.value}`"
        shown = self.text[token.start : min(token.stop, token.start + 40)]
        self.fail(token, f"expected {wanted}, found {shown}", hint=hint)

    def _call(self, start: int, function: str, *arguments: Expression) -> Call:
        """A call of a function or an operator that ends at the last token read."""
        return Call(function, arguments, start=start, stop=self.stop)

    def _value(self, literal: Literal, first: Token) -> Value:
        """A literal that ends at the last token read."""
        return Value(literal, start=first.start, stop=self.stop)

    # ------------------------------------------------------------------------------------------------- operators

    def _expression(self, power: int) -> Expression:
        self.descend("expression")
        left = self._prefix()
        value = True  # what may be compared: not a condition that IS, IN and their like have closed
        while True:
            token = self.peek()
            if token.kind == "op" and token.value in _BINARY:
                binds, operator = _BINARY[token.value]
                if binds <= power or not value:
                    break
                self.next()
                left = self._call(left.start, operator, left, self._expression(binds))
            elif token.kind != "name":
                break
            elif self.is_word("DIV") and power < _MULTIPLY:
                self.next()
                left = self._call(left.start, "div", left, self._expression(_MULTIPLY))
            elif value and power < _SUFFIX and self.word() in SUFFIXES:
                left, value = self._suffix(left), False
            elif power < _AND and self.is_word("AND"):
                left, value = self._chain(left, "AND", _AND), False
            elif power < _OR and self.is_word("OR"):
                left, value = self._chain(left, "OR", _OR), False
            else:
                break
        self.ascend()
        return left

    def _chain(self, left: Expression, word: str, power: int) -> Expression:
        parts = [left]
        while self.accept_word(word):
            parts.append(self._expression(power))
        return self._call(left.start, word, *parts)

    def _prefix(self) -> Expression:
        token = self.peek()
        if self.is_op("(") or token.kind in ("number", "string", "bytes", "quoted"):
            return self._postfix(self._primary(token))
        if self.accept_op("!") or self.accept_word("NOT"):
            return self._call(token.start, "NOT", self._expression(_NOT))
        if self.is_op("-", "+", "~"):
            return self._signed(token)
        if token.kind == "name":
            return self._postfix(self._word(token))
        self.unexpected("an expression")

    def _primary(self, token: Token) -> Expression:
        if self.accept_op("("):
            if self.is_word("SELECT", "WITH"):
                self.fail(token, "subqueries are not supported in expressions", hint="merge a source instead")
            inner = self._expression(0)
            self.expect_op(")")
            return self._spanned(inner, token.start)
        if token.kind == "quoted":
            return self._name()
        return self._value(read_literal(self), token)

    def _spanned(self, inner: _E, start: int) -> _E:
        """The same node with the parentheses around it in its span."""
        return replace(inner, start=start, stop=self.stop)

    def _signed(self, token: Token) -> Expression:
        sign = self.next().value
        if self.peek().kind == "number" and sign != "~":
            return self._postfix(self._value(read_number(self, negative=sign == "-"), token))
        return self._call(token.start, {"-": "negative", "+": "positive", "~": "~"}[sign], self._expression(_UNARY))

    # -------------------------------------------------------------------------------------------------- operands

    def _word(self, token: Token) -> Expression:
        word, following = self.word(), self.peek(1)
        opens = following.kind == "op" and following.value == "("
        if word in WORD_LITERALS and not opens and not self.is_op(".", ahead=1):
            self.next()
            return self._value(WORD_LITERALS[word], token)
        if word in TYPED_LITERALS and following.kind == "string":
            return self._value(read_typed_literal(self, self.zone), token)
        if word == "INTERVAL" and following.kind in ("string", "number"):
            self.fail(token, "intervals are not supported", hint="use date_add, date_sub, add_months or make_timestamp")
        if word == "CASE" and not self.is_op(".", ahead=1):
            return self._case(token)
        if opens:
            return self._function(token, word)
        if word in _WITHOUT_PARENTHESES:
            self.next()
            return self._call(token.start, word.lower())
        if word in RESERVED:
            self.unexpected("an expression")
        return self._name()

    def _name(self) -> Expression:
        first = self.next()
        parts = [first.value]
        while self.is_op(".") and len(parts) < MAX_DEPTH:
            self.next()
            parts.append(self.field_name())
        return Name(tuple(parts), start=first.start, stop=self.stop)

    def _postfix(self, operand: Expression) -> Expression:
        start = operand.start
        while True:
            if self.accept_op("::"):
                type_ = read_type(self)
                operand = CastTo(operand, type_, start=start, stop=self.stop)
            elif self.accept_op("["):
                key = self._expression(0)
                self.expect_op("]")
                operand = Item(operand, key, start=start, stop=self.stop)
            elif self.accept_op("."):
                operand = Item(operand, _text(self.field_name()), start=start, stop=self.stop)
            else:
                return operand

    def _case(self, token: Token) -> Expression:
        self.next()
        operand = None if self.is_word("WHEN") else self._expression(0)
        branches = []
        while self.accept_word("WHEN"):
            condition = self._expression(0)
            if operand is not None:
                condition = self._call(condition.start, "=", operand, condition)
            self.expect_word("THEN")
            branches.append((condition, self._expression(0)))
        if not branches:
            self.unexpected("WHEN")
        otherwise = self._expression(0) if self.accept_word("ELSE") else None
        self.expect_word("END")
        return Case(tuple(branches), otherwise, start=token.start, stop=self.stop)

    # ------------------------------------------------------------------------------------------------- functions

    def _function(self, token: Token, word: str) -> Expression:
        self.at += 2
        if word in ("CAST", "TRY_CAST"):
            inner = self._expression(0)
            self.expect_word("AS")
            type_ = read_type(self)
            self.expect_op(")")
            return CastTo(inner, type_, word == "TRY_CAST", start=token.start, stop=self.stop)
        if word == "TRIM":
            return self._trim(token)
        if word == "EXTRACT":
            field = _text(self.field_name())
            self.expect_word("FROM")
            arguments = [field, self._expression(0)]
            self.expect_op(")")
            return self._call(token.start, "date_part", *arguments)
        first = _SUFFIX if word == "POSITION" else 0  # its IN is no condition
        arguments = [] if self.is_op(")") else [self._expression(first)]
        separators = {"SUBSTRING": ("FROM", "FOR"), "SUBSTR": ("FROM", "FOR"), "POSITION": ("IN",)}.get(word, ())
        while arguments and (self.accept_op(",") or self.accept_word(*separators)):
            arguments.append(self._expression(0))
        self.expect_op(")")
        if word in _CAST_FUNCTIONS and len(arguments) == 1:
            type_ = AtomicType(TYPES[word], precision=10, scale=0) if word == "DECIMAL" else AtomicType(TYPES[word])
            return CastTo(arguments[0], type_, start=token.start, stop=self.stop)
        return self._call(token.start, token.value.lower(), *arguments)

    def _trim(self, token: Token) -> Expression:
        """TRIM(text), and TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
        named = self.word() if self.peek(1).kind != "op" or self.is_op("(", ahead=1) else ""
        sides = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        function = sides.get(named, "trim")
        self.at += named in sides
        arguments = [] if self.is_word("FROM") else [self._expression(0)]
        if self.accept_word("FROM"):
            # The functions take the characters last, except trim, which is two-sided only here.
            arguments.insert(0, self._expression(0))
        self.expect_op(")")
        return self._call(token.start, function, *arguments)

    # -------------------------------------------------------------------------------------------------- conditions

    def _suffix(self, left: Expression) -> Expression:
        negated = self.accept_word("NOT")
        word = self.word()
        token = self.next()
        if word == "IS" and not negated:
            return self._is(left)
        call = functools.partial(self._call, left.start)
        if word == "IN":
            found = call("in", left, *self._list())
        elif word == "BETWEEN":
            low = self._expression(_SUFFIX)
            self.expect_word("AND")
            high = self._expression(_SUFFIX)
            found = call("AND", call(">=", left, low), call("<=", left, high))
        elif word in ("LIKE", "ILIKE", "RLIKE", "REGEXP"):
            name = {"REGEXP": "rlike"}.get(word, word.lower())
            pattern = self._expression(_SUFFIX)
            escape = read_escape(self) if word in ("LIKE", "ILIKE") else None
            found = call(name, left, pattern, *([] if escape is None else [_text(escape)]))
        else:
            self.fail(token, "expected IN, BETWEEN or LIKE")
        return call("NOT", found) if negated else found

    def _list(self) -> list[Expression]:
        self.expect_op("(")
        if self.is_word("SELECT", "WITH"):
            self.fail(self.peek(), "subqueries are not supported in expressions", hint="merge a source instead")
        items = [self._expression(0)]
        while self.accept_op(","):
            items.append(self._expression(0))
        self.expect_op(")")
        return items

    def _is(self, left: Expression) -> Expression:
        negated = self.accept_word("NOT")
        word = self.word()
        call = functools.partial(self._call, left.start)
        if word in ("NULL", "UNKNOWN"):
            self.next()
            return call("isnotnull" if negated else "isnull", left)
        if word in ("TRUE", "FALSE"):
            found = call("<=>", left, self._value(WORD_LITERALS[word], self.next()))
        elif word == "DISTINCT":
            self.next()
            self.expect_word("FROM")
            found = call("<=>", left, self._expression(_SUFFIX))
            negated = not negated
        else:
            self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        return call("NOT", found) if negated else found
