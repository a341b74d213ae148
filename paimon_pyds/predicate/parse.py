"""The filter language: text to an unbound predicate tree.

The language is the condition part of Spark SQL (its SqlBaseParser grammar, booleanExpression), for comparisons
between a column and literals. What goes beyond that is refused with a hint, at its place in the text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeAlias, TypeVar

from paimon_pyds.errors import PredicateError
from paimon_pyds.predicate import casts
from paimon_pyds.predicate.fold import compare_literals
from paimon_pyds.predicate.lexer import Token, fail, tokenize
from paimon_pyds.predicate.like import like_parts
from paimon_pyds.predicate.lower import All, Any, Condition, Fixed, Is, Not, Same, Test, Unknown, lower
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
_SUFFIXES = frozenset({"IS", "IN", "BETWEEN", "LIKE", "NOT", "ILIKE", "RLIKE", "REGEXP"})
_RESERVED = _SUFFIXES | {"AND", "OR", "ESCAPE", "WHEN", "THEN", "ELSE", "END", "FROM", "WHERE"}
_TYPES = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "BYTE": Kind.TINYINT, "SMALLINT": Kind.SMALLINT,
    "SHORT": Kind.SMALLINT, "INT": Kind.INT, "INTEGER": Kind.INT, "BIGINT": Kind.BIGINT, "LONG": Kind.BIGINT,
    "FLOAT": Kind.FLOAT, "REAL": Kind.FLOAT, "DOUBLE": Kind.DOUBLE, "DECIMAL": Kind.DECIMAL, "DEC": Kind.DECIMAL,
    "NUMERIC": Kind.DECIMAL, "STRING": Kind.VARCHAR, "VARCHAR": Kind.VARCHAR, "CHAR": Kind.CHAR,
    "CHARACTER": Kind.CHAR, "BINARY": Kind.VARBINARY, "DATE": Kind.DATE, "TIME": Kind.TIME,
    "TIMESTAMP": Kind.TIMESTAMP_LTZ, "TIMESTAMP_LTZ": Kind.TIMESTAMP_LTZ, "TIMESTAMP_NTZ": Kind.TIMESTAMP,
}  # fmt: skip
_CAST_FUNCTIONS = frozenset(_TYPES) - {
    "BYTE", "SHORT", "INTEGER", "LONG", "REAL", "DEC", "NUMERIC", "VARCHAR", "CHAR", "CHARACTER", "TIME",
    "TIMESTAMP_LTZ", "TIMESTAMP_NTZ",
}  # fmt: skip
_TYPED_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_AFTERWARDS = "not supported in filter; apply it after the read with DataFrame.filter"
_T = TypeVar("_T")


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


class _Parser:
    """A Pratt parser: `expression(power)` reads operators that bind tighter than ``power``."""

    def __init__(self, text: str, timezone: str) -> None:
        self._text = text
        self._zone = timezone
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Predicate:
        if self._peek().kind == "end":
            self._fail(self._peek(), "there is no condition", hint="leave the filter out to read every row")
        if self._is_word("WHERE") or self._is_word("SELECT"):
            self._fail(self._peek(), "a filter is a condition only", hint="write what follows WHERE")
        condition = self._condition(self._expression(0))
        if self._peek().kind != "end":
            self._unexpected("the end of the filter")
        return lower(condition)

    # ---------------------------------------------------------------------------------------------------- tokens

    def _peek(self, ahead: int = 0) -> Token:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else self._tokens[-1]

    def _next(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def _word(self, ahead: int = 0) -> str:
        token = self._peek(ahead)
        return token.value.upper() if token.kind == "name" else ""

    def _is_word(self, *words: str) -> bool:
        return self._word() in words

    def _is_op(self, *ops: str, ahead: int = 0) -> bool:
        token = self._peek(ahead)
        return token.kind == "op" and token.value in ops

    def _accept_word(self, *words: str) -> bool:
        found = self._is_word(*words)
        self._at += found
        return found

    def _accept_op(self, *ops: str) -> bool:
        found = self._is_op(*ops)
        self._at += found
        return found

    def _expect_op(self, op: str) -> None:
        if not self._accept_op(op):
            self._unexpected(f"{op!r}")

    def _expect_word(self, word: str) -> None:
        if not self._accept_word(word):
            self._unexpected(word)

    def _fail(self, where: Token | _Operand | int, message: str, *, hint: str | None = None) -> NoReturn:
        fail(self._text, where if isinstance(where, int) else where.start, message, hint=hint)

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self._peek()
        if token.kind == "end":
            self._fail(token, f"expected {wanted}, but the filter ends here")
        shown = self._text[token.start : min(token.stop, token.start + 40)]
        hint = None
        if token.kind == "op" and token.value in ("+", "-", "*", "/", "%", "&", "|", "^", "~", "||"):
            hint = f"arithmetic is {_AFTERWARDS}"
        elif token.kind == "op" and token.value in ("&&", "->", "=>", "?", ":", ";"):
            hint = {"&&": "write AND", ";": "a filter has no semicolon"}.get(token.value)
        elif token.kind == "name" and self._word() in _RESERVED:
            hint = f"a column of this name is written `{token.value}`"
        self._fail(token, f"expected {wanted}, found {shown}", hint=hint)

    def _located(self, start: int, function: Callable[[], _T]) -> _T:
        """Call a function; its PredicateError gets this place."""
        try:
            return function()
        except PredicateError as error:
            raise fail_from(self._text, start, error) from None

    # ------------------------------------------------------------------------------------------------ expressions

    def _expression(self, power: int) -> _Operand:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._fail(self._peek(), f"the filter is nested deeper than {MAX_DEPTH} levels")
        left = self._prefix()
        while True:
            token = self._peek()
            if token.kind == "op" and (token.value in _COMPARISONS or token.value == "<=>") and power < _COMPARE:
                self._next()
                left = self._compare(token, left, self._expression(_COMPARE))
            elif token.kind == "name" and power < _SUFFIX and self._word() in _SUFFIXES:
                left = self._suffix(left)
            elif token.kind == "name" and power < _AND and self._is_word("AND"):
                left = self._chain(left, "AND", _AND)
            elif token.kind == "name" and power < _OR and self._is_word("OR"):
                left = self._chain(left, "OR", _OR)
            else:
                self._depth -= 1
                return left

    def _chain(self, left: _Operand, word: str, power: int) -> _Operand:
        parts = [self._condition(left)]
        while self._accept_word(word):
            parts.append(self._condition(self._expression(power)))
        return _Boolean(All(tuple(parts)) if word == "AND" else Any(tuple(parts)), left.start)

    def _prefix(self) -> _Operand:
        token = self._peek()
        if token.kind == "op":
            return self._prefix_op(token)
        if token.kind in ("number", "string", "bytes"):
            return self._postfix(_Constant(self._literal(), token.start))
        if token.kind == "quoted":
            return self._postfix(self._column())
        if token.kind == "name":
            return self._prefix_word(token)
        self._unexpected("a condition")

    def _prefix_op(self, token: Token) -> _Operand:
        if self._accept_op("("):
            if self._is_word("SELECT", "WITH"):
                self._fail(token, f"subqueries are {_AFTERWARDS}")
            inner = self._expression(0)
            if self._is_op(","):
                self._fail(token, f"rows of several columns are {_AFTERWARDS}")
            self._expect_op(")")
            return self._postfix(inner)
        if self._accept_op("!"):
            return _Boolean(Not(self._condition(self._expression(_NOT))), token.start)
        if self._is_op("-", "+"):
            return self._signed(token)
        self._unexpected("a column or a literal")

    def _signed(self, token: Token) -> _Operand:
        negative = self._next().value == "-"
        number = self._peek()
        if number.kind == "number":
            self._next()
            literal = self._located(number.start, lambda: casts.number(number.value, number.suffix, negative))
            return self._postfix(_Constant(literal, token.start))
        inner = self._expression(_UNARY)
        if not isinstance(inner, _Constant):
            self._fail(token, f"arithmetic is {_AFTERWARDS}")
        value, type_ = inner.literal.value, inner.literal.type
        if value is None:
            return inner
        if type_ is None or isinstance(value, bool | str | bytes) or type_.kind in _NOT_NUMBERS:
            self._fail(token, f"{token.value} stands before something that is not a number")
        if not negative:
            return inner
        flipped = casts.integer(-value) if isinstance(value, int) else Literal(-value, type_)
        return _Constant(flipped, token.start)

    def _prefix_word(self, token: Token) -> _Operand:
        word = self._word()
        if word == "NOT":
            self._next()
            return _Boolean(Not(self._condition(self._expression(_NOT))), token.start)
        following = self._peek(1)
        if word in ("TRUE", "FALSE", "NULL") and not (following.kind == "op" and following.value in (".", "[", "(")):
            self._next()
            literal = Literal(None, None) if word == "NULL" else Literal(word == "TRUE", casts.BOOLEAN)
            return self._postfix(_Constant(literal, token.start))
        if word in _TYPED_LITERALS and following.kind == "string":
            self._next()
            return self._postfix(_Constant(self._typed_literal(word), token.start))
        if following.kind == "op" and following.value == "(":
            return self._postfix(self._call(token, word))
        if word == "INTERVAL" and following.kind in ("string", "number"):
            self._fail(token, f"intervals are {_AFTERWARDS}")
        if word == "CASE":
            self._fail(token, f"CASE is {_AFTERWARDS}")
        if word in _RESERVED:
            self._unexpected("a condition")
        return self._postfix(self._column())

    # --------------------------------------------------------------------------------------------------- operands

    def _literal(self) -> Literal:
        token = self._next()
        if token.kind == "number":
            return self._located(token.start, lambda: casts.number(token.value, token.suffix))
        if token.kind == "string":
            text = token.value
            while self._peek().kind == "string":
                text += self._next().value
            return Literal(text, casts.STRING)
        return Literal(bytes.fromhex(token.value), casts.BYTES)

    def _typed_literal(self, word: str) -> Literal:
        token = self._peek()
        target = AtomicType(_TYPES[word], precision=9)
        text = self._literal()
        return self._located(token.start, lambda: casts.cast_literal(text, target, self._zone))

    def _column(self) -> _Column:
        token = self._next()
        return _Column(ColumnRef(token.value), token.start)

    def _postfix(self, operand: _Operand) -> _Operand:
        while True:
            token = self._peek()
            if self._accept_op("::"):
                operand = self._cast(operand, self._type(), token)
            elif isinstance(operand, _Column) and self._accept_op("."):
                step = self._peek()
                if step.kind not in ("name", "quoted") and not (step.kind == "number" and step.value.isdigit()):
                    self._unexpected("a field name")
                self._next()
                operand = self._step(operand, step.value + step.suffix)
            elif isinstance(operand, _Column) and self._accept_op("["):
                key = self._expression(0)
                self._expect_op("]")
                operand = self._step(operand, self._map_key(key))
            else:
                return operand

    def _step(self, column: _Column, step: str | MapKey) -> _Column:
        if len(column.ref.path) >= MAX_DEPTH:
            self._fail(column, f"the path is longer than {MAX_DEPTH} steps")
        return _Column(ColumnRef(column.ref.name, (*column.ref.path, step)), column.start)

    def _map_key(self, key: _Operand) -> MapKey:
        if not isinstance(key, _Constant) or key.literal.value is None:
            self._fail(key, f"a key that is not a literal is {_AFTERWARDS}")
        value = key.literal.value
        plain = key.literal.type in (casts.STRING, casts.INT, casts.LONG)
        return MapKey(value if plain else key.literal)

    def _call(self, token: Token, word: str) -> _Operand:
        if word in ("CAST", "TRY_CAST"):
            self._at += 2
            inner = self._expression(0)
            self._expect_word("AS")
            target = self._type()
            self._expect_op(")")
            return self._cast(inner, target, token)
        known = word in _TEXT_FUNCTIONS or word in _CAST_FUNCTIONS
        if not known and word not in ("ISNULL", "ISNOTNULL", "ISNAN", "ELEMENT_AT"):
            self._fail(token, f"the function {token.value} is {_AFTERWARDS}")
        self._at += 2
        arguments = [self._expression(0)]
        while self._accept_op(","):
            arguments.append(self._expression(0))
        self._expect_op(")")
        wanted = 2 if word in _TEXT_FUNCTIONS or word == "ELEMENT_AT" else 1
        if len(arguments) != wanted:
            self._fail(token, f"{token.value} takes {wanted} argument{'s' * (wanted > 1)}, not {len(arguments)}")
        if word in _CAST_FUNCTIONS:
            precision = 10 if word == "DECIMAL" else None
            return self._cast(arguments[0], AtomicType(_TYPES[word], precision=precision, scale=0), token)
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
            self._fail(first, f"{token.value} takes a column here")
        if word == "ISNAN":
            return _Boolean(Same(first.ref, Literal(float("nan"), casts.DOUBLE)), first.start)
        return self._step(first, self._map_key(arguments[1]))

    def _type(self) -> AtomicType:
        token = self._next()
        kind = _TYPES.get(token.value.upper()) if token.kind == "name" else None
        if kind is None:
            self._fail(token, "expected a type", hint="BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, DATE, …")
        numbers: list[int] = []
        if self._accept_op("("):
            while not numbers or self._accept_op(","):
                size = self._next()
                if size.kind != "number" or not size.value.isdigit() or len(size.value) > 9:
                    self._fail(size, "expected a size")
                numbers.append(int(size.value))
            self._expect_op(")")
        first, second = (*numbers, None, None)[:2]
        if kind is Kind.DECIMAL:
            precision, scale = 10 if first is None else first, second or 0
            if not 1 <= precision <= 38 or scale > precision:
                self._fail(token, "a DECIMAL has 1 to 38 digits, of which the scale is a part")
            return AtomicType(kind, precision=precision, scale=scale)
        if kind is Kind.TIME and first is not None and first > 9:
            self._fail(token, "a TIME has at most 9 digits of a second")
        return AtomicType(kind, precision=first if kind is Kind.TIME else None)

    def _cast(self, operand: _Operand, target: AtomicType, token: Token) -> _Operand:
        if not isinstance(operand, _Constant):
            self._fail(token, f"a cast of anything but a literal is {_AFTERWARDS}")
        literal = operand.literal
        return _Constant(
            self._located(operand.start, lambda: casts.cast_literal(literal, target, self._zone)), token.start
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
        self._fail(operand, "expected a condition, found a literal", hint=hint)

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
            return _Boolean(Fixed(self._located(token.start, lambda: compare_literals(op, first, second))), left.start)
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
            self._fail(token, f"comparing two columns is {_AFTERWARDS}")
        self._fail(token, "a comparison takes a column and a literal", hint="parentheses may be missing")

    def _suffix(self, left: _Operand) -> _Boolean:
        token = self._peek()
        negated = self._accept_word("NOT")
        word = self._word()
        self._next()
        if word == "IS" and not negated:
            return self._is(left)
        if word == "IN":
            found = self._in(left, token)
        elif word == "BETWEEN":
            low = self._expression(_SUFFIX)
            self._expect_word("AND")
            high = self._expression(_SUFFIX)
            parts = (self._comparison(Op.GE, token, left, low), self._comparison(Op.LE, token, left, high))
            found = _Boolean(All((parts[0].condition, parts[1].condition)), left.start)
        elif word == "LIKE":
            found = self._like(left)
        elif word in ("ILIKE", "RLIKE", "REGEXP"):
            self._fail(token, f"{word} is {_AFTERWARDS}")
        else:
            self._at -= 1
            self._unexpected("IN, BETWEEN or LIKE" if negated else "an operator")
        return _Boolean(Not(found.condition), left.start) if negated else found

    def _is(self, left: _Operand) -> _Boolean:
        negated = self._accept_word("NOT")
        token = self._peek()
        word = self._word()
        found: _Boolean
        if word in ("NULL", "UNKNOWN"):
            self._next()
            found = self._is_null(left)
        elif word in ("TRUE", "FALSE"):
            self._next()
            found = self._same(token, left, _Constant(Literal(word == "TRUE", casts.BOOLEAN), token.start))
        elif word == "DISTINCT":
            self._next()
            self._expect_word("FROM")
            found = self._same(token, left, self._expression(_SUFFIX))
            negated = not negated
        else:
            self._unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        return _Boolean(Not(found.condition), left.start) if negated else found

    def _is_null(self, operand: _Operand) -> _Boolean:
        if isinstance(operand, _Column):
            return _Boolean(Test(Leaf(Op.IS_NULL, operand.ref)), operand.start)
        if isinstance(operand, _Boolean):
            return _Boolean(Unknown(operand.condition), operand.start)
        return _Boolean(Fixed(Const.TRUE if operand.literal.value is None else Const.FALSE), operand.start)

    def _in(self, left: _Operand, token: Token) -> _Boolean:
        self._expect_op("(")
        if self._is_word("SELECT", "WITH"):
            self._fail(self._peek(), f"subqueries are {_AFTERWARDS}")
        if self._is_op(")"):
            self._fail(self._peek(), "an IN list has at least one value")
        items = [self._item()]
        while self._accept_op(","):
            items.append(self._item())
        self._expect_op(")")
        if isinstance(left, _Column) and all(isinstance(item, _Constant) for item in items):
            literals = tuple(item.literal for item in items if isinstance(item, _Constant))
            return _Boolean(Test(Leaf(Op.IN, left.ref, literals)), left.start)
        parts = [self._comparison(Op.EQ, token, left, item).condition for item in items]
        return _Boolean(Any(tuple(parts)), left.start)

    def _item(self) -> _Operand:
        """One value of an IN list; a plain literal takes the short way, for lists of a hundred thousand."""
        token, following = self._peek(), self._peek(1)
        if token.kind in ("number", "string") and following.kind == "op" and following.value in (",", ")"):
            return _Constant(self._literal(), token.start)
        return self._expression(_SUFFIX)

    def _like(self, left: _Operand) -> _Boolean:
        if self._is_word("ANY", "SOME", "ALL") and self._is_op("(", ahead=1):
            every = self._next().value.upper() == "ALL"
            self._expect_op("(")
            parts = [self._text_test(Op.LIKE, left, self._expression(_SUFFIX), "\\").condition]
            while self._accept_op(","):
                parts.append(self._text_test(Op.LIKE, left, self._expression(_SUFFIX), "\\").condition)
            self._expect_op(")")
            return _Boolean(All(tuple(parts)) if every else Any(tuple(parts)), left.start)
        pattern = self._expression(_SUFFIX)
        escape = "\\"
        if self._accept_word("ESCAPE"):
            token = self._peek()
            if token.kind != "string" or len(token.value) != 1:
                self._fail(token, "ESCAPE takes a string of one character")
            escape = self._next().value
        return self._text_test(Op.LIKE, left, pattern, escape)

    def _text_test(self, op: Op, left: _Operand, right: _Operand, escape: str) -> _Boolean:
        if not isinstance(left, _Column):
            self._fail(left, f"{op.value} takes a column on its left")
        if not isinstance(right, _Constant):
            self._fail(right, f"{op.value} with anything but a literal is {_AFTERWARDS}")
        value, type_ = right.literal.value, right.literal.type
        if isinstance(value, bytes):
            type_ = None
        if value is not None and (type_ is None or type_.kind not in STRING_KINDS):
            self._fail(right, f"{op.value} takes a string", hint="put the text in single quotes")
        if op is not Op.LIKE:
            return _Boolean(Test(Leaf(op, left.ref, (right.literal,))), left.start)
        if value is not None:
            self._located(right.start, functools.partial(like_parts, value, escape))
        return _Boolean(Test(Leaf(op, left.ref, (right.literal, escape))), left.start)


_NOT_NUMBERS = STRING_KINDS | BINARY_KINDS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}


def fail_from(text: str, start: int, error: PredicateError) -> PredicateError:
    """The same error, with the line of the filter and a caret under the place."""
    try:
        fail(text, start, error.message, hint=error.hint)
    except PredicateError as placed:
        return placed
