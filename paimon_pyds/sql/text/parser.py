"""Text of Spark SQL's value expressions and conditions (its SqlBaseParser grammar, booleanExpression) to a tree."""

from __future__ import annotations

import functools
from dataclasses import replace

from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.zones import default_zone
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.lexer import MAX_DEPTH, RESERVED, SUFFIXES, TYPES, Cursor, SqlText, Token
from paimon_pyds.sql.text.tree import Call, Case, CastTo, Expression, Item, Lambda, Literal, Name, Value, children

MAX_STEPS = 150
"""How many operators and calls may work on each other's results, as in ``a + b + c``."""
MAX_NODES = 1_000_000
"""How many parts an expression may have, the values of IN lists among them."""

# Binding powers, weakest first.
_OR, _AND, _NOT, _SUFFIX, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _ADD, _MULTIPLY, _UNARY = range(1, 13)
_BINARY = {
    "=": (_COMPARE, "="), "==": (_COMPARE, "="), "<>": (_COMPARE, "<>"), "!=": (_COMPARE, "<>"), "<": (_COMPARE, "<"),
    "<=": (_COMPARE, "<="), "!>": (_COMPARE, "<="), ">": (_COMPARE, ">"), ">=": (_COMPARE, ">="),
    "!<": (_COMPARE, ">="), "<=>": (_COMPARE, "<=>"), "|": (_BIT_OR, "|"), "^": (_BIT_XOR, "^"), "&": (_BIT_AND, "&"),
    "<<": (_SHIFT, "shiftleft"), ">>": (_SHIFT, "shiftright"), ">>>": (_SHIFT, "shiftrightunsigned"),
    "+": (_ADD, "+"), "-": (_ADD, "-"), "||": (_ADD, "||"), "*": (_MULTIPLY, "*"), "/": (_MULTIPLY, "/"),
    "%": (_MULTIPLY, "%"), "DIV": (_MULTIPLY, "div"),
}  # fmt: skip
_WORD_LITERALS = {
    "TRUE": Literal(True, tree.BOOLEAN), "FALSE": Literal(False, tree.BOOLEAN), "NULL": Literal(None, None),
}  # fmt: skip
_TYPED_LITERALS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
"""Names that may stand before a string: DATE '2026-01-31'."""
_WITHOUT_PARENTHESES = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"})
_UNIT_FIRST = frozenset({"DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF", "TIMEDIFF"})
"""Functions that may have a unit of time for their first argument, written as a name."""
_SEPARATORS = {
    "SUBSTRING": ("FROM", "FOR"), "SUBSTR": ("FROM", "FOR"), "POSITION": ("IN",), "OVERLAY": ("PLACING", "FROM", "FOR"),
}  # fmt: skip
"""Words that may stand for the comma between arguments."""
_CAST_FUNCTIONS = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "TIMESTAMP"}
)
"""Types that are functions of one argument as well; ``date`` is another, in the table of functions."""


def parse(source: SqlText, *, timezone: str | None = None) -> Expression:
    """Parse a value expression or a condition, in Spark's dialect.

    ``source``: at most 16 Mi characters, and what errors call it. ``timezone``: zone of TIMESTAMP literals that name
    none: ``UTC``, ``+01:00``, ``Europe/Berlin``.

    Raises:
        PredicateError: it does not parse; the message has the line with a caret under the place. For other kinds of
            text than filters it is an ExpressionError.
    """
    return Parser(source, timezone or default_zone()).parse()


def row_values(expression: Expression) -> tuple[Expression, ...] | None:
    """The values of ``(a, b)`` or ``named_struct('x', a, 'y', b)``; None of anything else."""
    if isinstance(expression, Call) and expression.function == "named_struct":
        return expression.arguments[1::2]
    return None


def _text(value: str) -> Value:
    return Value(Literal(value, tree.STRING))


class Parser(Cursor):
    """A Pratt parser: `expression(power)` reads operators that bind tighter than ``power``."""

    def parse(self) -> Expression:
        """The whole text as one expression."""
        filters = self.source.kind == "condition"
        if self.peek().kind == "end":
            hint = "leave the condition out to read every row" if filters else None
            self.fail(self.peek(), f"there is no {'condition' if filters else 'expression'}", hint=hint)
        if filters and self.is_next("WHERE", "SELECT"):
            self.fail(self.peek(), "this takes a condition only", hint="write what follows WHERE")
        found = self.expression()
        if self.peek().kind != "end":
            self.unexpected(f"the end of the {self.source.kind}")
        return found

    def expression(self) -> Expression:
        """One expression from here on, as far as it reaches."""
        found = self._expression(0)
        if _is_large(found, MAX_STEPS, MAX_NODES):
            self.fail(found, f"the {self.source.kind} is nested deeper than {MAX_STEPS} steps, or too large")
        return found

    def _call(self, start: int, function: str, *arguments: Expression) -> Call:
        """A call of a function or an operator that ends at the last token read."""
        return Call(function, arguments, start=start, stop=self.stop)

    def _value(self, literal: Literal, first: Token) -> Value:
        """A literal that ends at the last token read."""
        return Value(literal, start=first.start, stop=self.stop)

    # ------------------------------------------------------------------------------------------------- operators

    def _expression(self, power: int) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(self.peek(), f"the {self.source.kind} is nested deeper than {MAX_DEPTH} levels")
        left = self._prefix()
        value = True  # what may be compared: not a condition that IS, IN and their like have closed
        while word := self.tokens[self.at].word:
            if word in _BINARY:
                binds, operator = _BINARY[word]
                if binds <= power or not value:
                    break
                self.at += 1
                right = self._expression(binds)
                left = self._compared(operator, left, right)
            elif value and power < _SUFFIX and word in SUFFIXES:
                left, value = self._suffix(left), False
            elif (word == "AND" and power < _AND) or (word == "OR" and power < _OR):
                left, value = self._chain(left, word, _AND if word == "AND" else _OR), False
            else:
                break
        self._depth -= 1
        return left

    def _chain(self, left: Expression, word: str, power: int) -> Expression:
        parts = [left]
        while self.accept(word):
            parts.append(self._expression(power))
        return self._call(left.start, word, *parts)

    def _prefix(self) -> Expression:
        token = self.tokens[self.at]
        if token.kind == "name" and token.word != "NOT":
            return self._postfix(self._word(token))
        if token.word == "(" or token.kind in ("number", "string", "bytes", "quoted"):
            return self._postfix(self._primary(token))
        if self.accept("!", "NOT"):
            return self._call(token.start, "NOT", self._expression(_NOT))
        if token.word in ("-", "+", "~"):
            return self._signed(token)
        self.unexpected("an expression")

    def _primary(self, token: Token) -> Expression:
        if self.accept("("):
            self._refuse_subquery(token)
            inner = self._expression(0)
            if self.is_next(","):
                parts = [inner]
                while self.accept(","):
                    parts.append(self._expression(0))
                self.expect(")")
                return self._call(token.start, "named_struct", *_with_names(parts))
            self.expect(")")
            return replace(inner, start=token.start, stop=self.stop)  # its span has the parentheses, too
        if token.kind == "quoted":
            return self._name()
        return self._value(self.literal(), token)

    def _signed(self, token: Token) -> Expression:
        sign = self.next().value
        if self.peek().kind == "number" and sign != "~":
            return self._postfix(self._value(self.number(negative=sign == "-"), token))
        return self._call(token.start, {"-": "negative", "+": "positive", "~": "~"}[sign], self._expression(_UNARY))

    # -------------------------------------------------------------------------------------------------- operands

    def _word(self, token: Token) -> Expression:
        word, following = token.word, self.tokens[self.at + 1]
        opens = following.word == "("
        if word in _WORD_LITERALS and not opens and following.word != ".":
            self.next()
            return self._value(_WORD_LITERALS[word], token)
        if word in _TYPED_LITERALS and following.kind == "string":
            return self._value(self.typed_literal(), token)
        if word == "INTERVAL":
            from paimon_pyds.sql.text.intervals import begins_interval, parse_interval

            if begins_interval(self):
                return parse_interval(self)
        if word == "CASE" and following.word != ".":
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
        while self.tokens[self.at].word == "." and len(parts) < MAX_DEPTH:
            self.at += 1
            parts.append(self.field_name())
        return Name(tuple(parts), start=first.start, stop=self.stop)

    def _postfix(self, operand: Expression) -> Expression:
        start = operand.start
        while (word := self.tokens[self.at].word) in ("::", "[", ".", ":"):
            self.at += 1
            if word == ":":
                path = Value(Literal(self._path(), tree.STRING), start=self.at, stop=self.stop)
                operand = self._call(start, "variant_get", operand, path)
            elif word == "::":
                type_ = self.type()
                operand = CastTo(operand, type_, start=start, stop=self.stop)
            elif word == "[":
                key = self._expression(0)
                self.expect("]")
                operand = Item(operand, key, start=start, stop=self.stop)
            else:
                name = self.field_name()
                operand = Item(operand, name, start=start, stop=self.stop)
        return operand

    def _path(self) -> str:
        """The path behind the colon of ``v:a.b[0]``, as of variant_get."""
        from paimon_pyds.base.variant.paths import path_text

        steps: list[str | int] = [self.field_name()]
        while self.tokens[self.at].word in (".", "["):
            self.at += 1
            if self.tokens[self.at - 1].word == ".":
                steps.append(self.field_name())
                continue
            key = self.literal().value
            if not isinstance(key, str | int) or isinstance(key, bool):
                self.fail(self.tokens[self.at - 1], "a step of a path is a text or a whole number")
            self.expect("]")
            steps.append(key)
        return path_text(tuple(steps))

    def _case(self, token: Token) -> Expression:
        self.next()
        operand = None if self.is_next("WHEN") else self._expression(0)
        branches = []
        while self.accept("WHEN"):
            condition = self._expression(0)
            if operand is not None:
                condition = self._call(condition.start, "=", operand, condition)
            self.expect("THEN")
            branches.append((condition, self._expression(0)))
        if not branches:
            self.unexpected("WHEN")
        otherwise = self._expression(0) if self.accept("ELSE") else None
        self.expect("END")
        return Case(tuple(branches), otherwise, start=token.start, stop=self.stop)

    # ------------------------------------------------------------------------------------------------- functions

    def _function(self, token: Token, word: str) -> Expression:
        self.at += 2
        self._refuse_subquery(token)
        if word in ("CAST", "TRY_CAST"):
            inner = self._expression(0)
            self.expect("AS")
            type_ = self.type()
            self.expect(")")
            return CastTo(inner, type_, word == "TRY_CAST", start=token.start, stop=self.stop)
        if word == "TRIM":
            return self._trim(token)
        if word == "EXTRACT":
            field = _text(self.field_name())
            self.expect("FROM")
            arguments = [field, self._expression(0)]
            self.expect(")")
            return self._call(token.start, "date_part", *arguments)
        arguments, names = self._arguments(word)
        self.expect(")")
        if word == "STRUCT":
            return self._call(token.start, "named_struct", *_with_names(arguments, names))
        if word in _UNIT_FIRST and len(arguments) == 3 and isinstance(arguments[0], Name):
            unit = arguments[0]
            arguments[0] = Value(Literal(unit.parts[-1], tree.STRING), start=unit.start, stop=unit.stop)
        if word in _CAST_FUNCTIONS and len(arguments) == 1:
            type_ = AtomicType(TYPES[word], precision=10, scale=0) if word == "DECIMAL" else AtomicType(TYPES[word])
            return CastTo(arguments[0], type_, start=token.start, stop=self.stop)
        return self._call(token.start, token.value.lower(), *arguments)

    def _arguments(self, word: str) -> tuple[list[Expression], dict[int, str]]:
        """The arguments of a function, and names that some of them are given (``struct(1 AS a)``)."""
        arguments: list[Expression] = []
        names: dict[int, str] = {}
        if self.is_next(")"):
            return arguments, names
        # The IN of POSITION is no condition.
        arguments.append(self._argument(_SUFFIX if word == "POSITION" else 0))
        while True:
            if word == "STRUCT" and self.accept("AS"):
                names[len(arguments) - 1] = self.field_name()
            if not self.accept(",") and not self.accept(*_SEPARATORS.get(word, ())):
                return arguments, names
            arguments.append(self._argument(0))

    def _argument(self, power: int) -> Expression:
        """An expression, or a function of items (``x -> x + 1``)."""
        first, at = self.peek(), 1
        if first.word == "(":
            while self.peek(at).kind in ("name", "quoted") and self.is_next(",", offset=at + 1):
                at += 2
            if not (self.peek(at).kind in ("name", "quoted") and self.is_next(")", offset=at + 1)):
                return self._expression(power)
            at += 2
        elif first.kind not in ("name", "quoted"):
            return self._expression(power)
        if not self.is_next("->", offset=at):
            return self._expression(power)
        parameters = tuple(self.peek(n).value for n in range(at) if self.peek(n).kind in ("name", "quoted"))
        self.at += at + 1
        return Lambda(parameters, self._expression(0), start=first.start, stop=self.stop)

    def _trim(self, token: Token) -> Expression:
        """TRIM(text), TRIM(characters, text), TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)."""
        named = self.peek().word if self.peek(1).kind != "op" or self.is_next("(", offset=1) else ""
        sides = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        function = sides.get(named, "trim")
        self.at += named in sides
        arguments = [] if self.is_next("FROM") else [self._expression(0)]
        if self.accept("FROM", ","):
            arguments.append(self._expression(0))
        self.expect(")")
        return self._call(token.start, function, *arguments)

    # -------------------------------------------------------------------------------------------------- conditions

    def _suffix(self, left: Expression) -> Expression:
        start = self.peek()
        negated = self.accept("NOT")
        word = self.peek().word
        token = self.next()
        if word == "IS" and not negated:
            return self._is(left)
        call = functools.partial(self._call, left.start)
        if word == "IN":
            items = self._list()
            found: Expression = call("in", left, *items)
            if row_values(left) is not None:  # of rows nothing is unknown: NULL in them is a value as any other
                equal = [self._equal(left, item, left.start) for item in items]
                rows = [row for row in equal if row is not None]
                if len(rows) == len(equal):
                    found = rows[0] if len(rows) == 1 else call("OR", *rows)
        elif word == "BETWEEN":
            low = self._expression(_SUFFIX)
            self.expect("AND")
            high = self._expression(_SUFFIX)
            found = call("AND", call(">=", left, low), call("<=", left, high))
        elif word in ("LIKE", "ILIKE") and self.is_next("ANY", "SOME", "ALL") and self.is_next("(", offset=1):
            return self._like_several(left, word.lower(), negated)
        elif word in ("LIKE", "ILIKE", "RLIKE", "REGEXP"):
            name = {"REGEXP": "rlike"}.get(word, word.lower())
            pattern = self._expression(_SUFFIX)
            escape = self.escape() if word in ("LIKE", "ILIKE") else None
            found = call(name, left, pattern, *([] if escape is None else [_text(escape)]))
        else:
            self.fail(token if negated else start, "expected IN, BETWEEN or LIKE")
        return call("NOT", found) if negated else found

    def _compared(self, operator: str, left: Expression, right: Expression) -> Expression:
        """An operator between two values; two rows of values are compared one by one."""
        equal = self._equal(left, right, left.start) if operator in ("=", "<>", "<=>") and row_values(left) else None
        if equal is None:
            return self._call(left.start, operator, left, right)
        return self._call(left.start, "NOT", equal) if operator == "<>" else equal

    def _equal(self, left: Expression, right: Expression, start: int) -> Expression | None:
        """Whether two rows have the same values, as Spark compares structs: NULL is equal to NULL. None where these are
        not rows of as many values, or NULL is one. It is shown as the text from ``start`` up to here."""
        one, other = row_values(left), row_values(right)
        if one is None and other is None:
            is_null = isinstance(right, Value) and right.literal.value is None
            return None if is_null else self._call(start, "<=>", left, right)
        if one is None or other is None or len(one) != len(other):
            return None
        equal = [self._equal(a, b, start) for a, b in zip(one, other, strict=True)]
        parts = [part for part in equal if part is not None]
        if len(parts) < len(equal):
            return None
        return parts[0] if len(parts) == 1 else self._call(start, "AND", *parts)

    def _like_several(self, left: Expression, function: str, negated: bool) -> Expression:
        """LIKE ANY, LIKE ALL: NOT LIKE ANY holds where some pattern does not match, it is no opposite of LIKE ANY."""
        word = "AND" if self.next().word == "ALL" else "OR"
        likes = [self._call(left.start, function, left, pattern) for pattern in self._list()]
        if negated:
            likes = [self._call(left.start, "NOT", like) for like in likes]
        return self._call(left.start, word, *likes) if len(likes) > 1 else likes[0]

    def _list(self) -> list[Expression]:
        self.expect("(")
        self._refuse_subquery(self.peek())
        if self.is_next(")"):
            self.fail(self.peek(), "a list of values has at least one value")
        items = [self._item()]
        while self.accept(","):
            items.append(self._item())
        self.expect(")")
        return items

    def _item(self) -> Expression:
        """One value of a list; a plain literal takes the short way, for lists of a hundred thousand."""
        token, following = self.tokens[self.at], self.tokens[self.at + 1 if self.at + 1 < len(self.tokens) else -1]
        if following.word in (",", ")"):
            if token.kind == "string":
                self.at += 1
                return Value(Literal(token.value, tree.STRING), start=token.start, stop=token.stop)
            if token.kind == "number":
                if token.suffix or len(token.value) > 18 or not token.value.isdigit():
                    return Value(self.number(), start=token.start, stop=token.stop)
                self.at += 1
                return Value(tree.integer(int(token.value)), start=token.start, stop=token.stop)
        return self._expression(_SUFFIX)

    def _refuse_subquery(self, where: Token) -> None:
        if self.is_next("SELECT", "WITH") and self.peek(1).kind in ("name", "quoted", "number", "string"):
            self.fail(where, "subqueries are not supported", hint="join with a DataFrame, or merge a source instead")

    def _is(self, left: Expression) -> Expression:
        negated = self.accept("NOT")
        word = self.peek().word
        call = functools.partial(self._call, left.start)
        if word in ("NULL", "UNKNOWN"):
            self.next()
            return call("isnotnull" if negated else "isnull", left)
        if word in ("TRUE", "FALSE"):
            found = call("<=>", left, self._value(_WORD_LITERALS[word], self.next()))
        elif word == "DISTINCT":
            self.next()
            self.expect("FROM")
            found = call("<=>", left, self._expression(_SUFFIX))
            negated = not negated
        else:
            self.unexpected("NULL, TRUE, FALSE or DISTINCT FROM")
        return call("NOT", found) if negated else found


def _with_names(values: list[Expression], names: dict[int, str] | None = None) -> list[Expression]:
    """The arguments of NAMED_STRUCT: a column brings its name, other values are numbered."""
    found: list[Expression] = []
    for number, value in enumerate(values):
        own = value.parts[-1] if isinstance(value, Name) else value.key if isinstance(value, Item) else None
        name = (names or {}).get(number) or (own if isinstance(own, str) else f"col{number + 1}")
        found += [_text(name), value]
    return found


def _is_large(expression: Expression, depth: int, size: int) -> bool:
    """Whether a way down has more nodes than ``depth``, or all ways together more than ``size``; without recursion.

    What is written once and evaluated twice (the operand of BETWEEN) counts twice.
    """
    level, nodes = [expression], 0
    while level and depth >= 0 and nodes <= size:
        depth -= 1
        nodes += len(level)
        level = [child for node in level for child in children(node)]
    return bool(level)
