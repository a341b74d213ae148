"""Tokens of Spark SQL (its SqlBaseLexer grammar), a cursor that reads them, and errors that point at a place.

String escapes follow Spark's ``unescapeSQLString`` (``spark.sql.parser.escapedStringLiterals=false``, the default).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal as OneOf
from typing import NamedTuple, NoReturn, TypeAlias, TypeVar

from paimon_pyds.base.secrets import visible
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.errors import ExpressionError, OptionError, PaimonError, PredicateError, UnknownColumnError
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.tree import Expression, Literal, number

MAX_TEXT = 16 * 1024 * 1024
"""Longest text, in characters: room for an IN list of a million values."""
MAX_DEPTH = 100
"""How deep parentheses, calls and the like may be nested."""
SUFFIXES = frozenset({"IS", "IN", "BETWEEN", "LIKE", "NOT", "ILIKE", "RLIKE", "REGEXP"})
"""Words that follow an operand and make a condition of it."""
RESERVED = SUFFIXES | {"AND", "OR", "ESCAPE", "WHEN", "THEN", "ELSE", "END", "FROM", "WHERE"}
"""Words that no operand begins with."""
TYPES = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "BYTE": Kind.TINYINT, "SMALLINT": Kind.SMALLINT,
    "SHORT": Kind.SMALLINT, "INT": Kind.INT, "INTEGER": Kind.INT, "BIGINT": Kind.BIGINT, "LONG": Kind.BIGINT,
    "FLOAT": Kind.FLOAT, "REAL": Kind.FLOAT, "DOUBLE": Kind.DOUBLE, "DECIMAL": Kind.DECIMAL, "DEC": Kind.DECIMAL,
    "NUMERIC": Kind.DECIMAL, "STRING": Kind.VARCHAR, "VARCHAR": Kind.VARCHAR, "CHAR": Kind.CHAR,
    "CHARACTER": Kind.CHAR, "BINARY": Kind.VARBINARY, "DATE": Kind.DATE, "TIME": Kind.TIME,
    "TIMESTAMP": Kind.TIMESTAMP_LTZ, "TIMESTAMP_LTZ": Kind.TIMESTAMP_LTZ, "TIMESTAMP_NTZ": Kind.TIMESTAMP,
    "VARIANT": Kind.VARIANT,
}  # fmt: skip
"""Kinds by the names that Spark gives them, in upper case."""
_NESTED_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})

TokenKind: TypeAlias = OneOf["name", "quoted", "number", "string", "bytes", "op", "end"]
_T = TypeVar("_T")

_TOKEN = re.compile(
    r"""(?:(?P<space>(?:\s|--[^\n]*|/\*(?!\+).*?\*/)+)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?P<suffix>[bB][dD]|[lLsSyYdDfF])?(?![\w]))
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<hex>[xX](?:'[^']*'|"[^"]*"))
    |(?P<string>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    |(?P<quoted>`[^`]*(?:``[^`]*)*`)
    |(?P<name>\w+)
    |(?P<op><=>|>>>|>>|<<|<>|!=|!>|!<|==|<=|>=|\|\||&&|::|->|=>|/(?!\*)|[-=<>!()\[\],.+*%&|^~?:;@{}])
    )\s*""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = r"(?s)\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|''|\"\""
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_OPENERS = {"'": "string", '"': "string", "`": "quoted name"}
_HINTS = {"&&": "write AND", ";": "no semicolon is needed"}


class Token(NamedTuple):
    """One token: ``value`` is the text of names and operators, the content of strings and quoted names.

    ``word`` is what grammars compare: a name without quotes in upper case, an operator; else it is empty.
    """

    kind: TokenKind
    value: str
    start: int
    stop: int
    word: str = ""
    suffix: str = ""


class SqlText(NamedTuple):
    """A text to parse, and what errors call it: a ``condition``, an ``expression``, a ``clause``, a ``top_n``."""

    text: str
    kind: str = "condition"

    @property
    def class_of_errors(self) -> type[PaimonError]:
        """What errors about it are."""
        return {"condition": PredicateError, "top_n": OptionError}.get(self.kind, ExpressionError)

    def error(
        self, position: int, message: str, hint: str | None = None, kind: type[PaimonError] | None = None
    ) -> PaimonError:
        """An error with the line of the text and a caret under the place.

        ``position``: index of a character of the text, or its length. ``message``: what is wrong there. ``hint``: what
        to do about it. ``kind``: its class, where that is not `class_of_errors`.
        """
        begin = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        line = self.text[begin : len(self.text) if end < 0 else end].replace("\t", " ")
        column = position - begin
        if len(line) > 100:
            left, right = max(0, column - 60), column + 40
            lead, tail = "…" if left else "", "…" if right < len(line) else ""
            line = lead + line[left:right] + tail
            column += len(lead) - left
        column = len(visible(line[:column]))
        return (kind or self.class_of_errors)(
            f"{self.kind}: {message}\n  {visible(line)}\n  {' ' * column}^", hint=hint
        )

    def placed(self, error: PaimonError, position: int) -> PaimonError:
        """An error of a part of the text with the line and a caret under its place."""
        kind = UnknownColumnError if isinstance(error, UnknownColumnError) else None
        return self.error(position, error.message, error.hint, kind)

    def fail(self, position: int, message: str, *, hint: str | None = None) -> NoReturn:
        """Raise `error`."""
        raise self.error(position, message, hint)

    def located(self, position: int, function: Callable[[], _T]) -> _T:
        """What a function returns; its PredicateError gets this place."""
        try:
            return function()
        except PredicateError as error:
            raise self.placed(error, position) from None


def tokenize(source: SqlText) -> list[Token]:
    """Split a text into tokens, the last of kind "end".
    Raises PredicateError: a character that starts no token, an unterminated string, a text longer than `MAX_TEXT`."""
    text = source.text
    if len(text) > MAX_TEXT:
        raise source.class_of_errors(
            f"the {source.kind} is {len(text):,} characters long; at most {MAX_TEXT:,} are accepted",
            hint="join with a DataFrame of the values instead of listing them",
        )
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        if text[position] == ",":  # half of the tokens of a long list
            tokens.append(Token("op", ",", position, position + 1, ","))
            position += 2 if text.startswith(" ", position + 1) else 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            _bad_character(source, position)
        kind = match.lastgroup or ""
        start, stop = match.span(kind)
        position = match.end()
        if kind == "name":
            value = match[kind]
            tokens.append(Token("name", value, start, stop, value.upper()))
        elif kind == "op":
            value = match[kind]
            tokens.append(Token("op", value, start, stop, value))
        elif kind == "number":
            if text[start] == "." and tokens and tokens[-1].kind in ("name", "quoted") and tokens[-1].stop == start:
                position = start + 1  # a.1b: a point right behind a name leads into it, it does not begin a number
                tokens.append(Token("op", ".", start, position, "."))
            else:
                suffix = match["suffix"] or ""
                tokens.append(Token("number", text[start : stop - len(suffix)], start, stop, "", suffix.upper()))
        elif kind != "space":
            tokens.append(_quoted(source, kind, match[kind], start))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _quoted(source: SqlText, kind: str, body: str, start: int) -> Token:
    """A token in quotes of some kind."""
    stop = start + len(body)
    if kind == "string":
        return Token("string", _unescape(source, body, start), start, stop)
    if kind == "quoted":
        return Token("quoted", body[1:-1].replace("``", "`"), start, stop)
    inner = body[2:-1]
    if kind == "raw":
        return Token("string", inner, start, stop)
    if not re.fullmatch(r"[0-9a-fA-F]*", inner):
        source.fail(start, "a binary literal takes hexadecimal digits only", hint="write it as X'1AFF'")
    return Token("bytes", inner if len(inner) % 2 == 0 else "0" + inner, start, stop)


def _unescape(source: SqlText, body: str, start: int) -> str:
    quote, inner = body[0], body[1:-1]
    if "\\" in inner or quote * 2 in inner:
        inner = re.sub(_ESCAPE, lambda match: _unescape_one(match, quote), inner)
        try:
            # Pairs of \u escapes spell one character beyond the basic plane, as in Java.
            inner = inner.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            source.fail(start, "half of a surrogate pair is not a character")
    if not inner.isascii() and any("\ud800" <= char <= "\udfff" for char in inner):
        source.fail(start, "half of a surrogate pair is not a character")
    return inner


def _unescape_one(match: re.Match[str], quote: str) -> str:
    if match[0] in ("''", '""'):
        return quote if match[0] == quote * 2 else match[0]
    if match[1] or match[2]:
        code = int(match[1] or match[2], 16)
        return chr(code) if code <= 0x10FFFF else "\ud800"
    return chr(int(match[3], 8)) if match[3] else _ESCAPED.get(match[4], match[4])


def _bad_character(source: SqlText, position: int) -> NoReturn:
    text, char = source.text, source.text[position]
    if text.startswith("/*", position):
        closed = "*/" in text[position:]
        source.fail(position, "hints are not supported" if closed else "the comment is not closed")
    if char in _OPENERS:
        source.fail(position, f"the {_OPENERS[char]} that begins here is not closed")
    article = "an" if source.kind[0] in "aeiou" else "a"
    hint = "put unusual column names in `back quotes`"
    source.fail(position, f"{char!r} has no meaning in {article} {source.kind}", hint=hint)


class Cursor:
    """Reads tokens one after the other, and what is the same in all texts: literals, names of types.

    Attributes:
        source: the text.
        zone: time zone of TIMESTAMP literals that name none.
        tokens: of the text; the last one is of kind "end", and is never stepped over.
        at: place of the next token.
    """

    def __init__(self, source: SqlText, timezone: str = "UTC") -> None:
        self.source = source
        self.zone = timezone
        self.tokens = tokenize(source)
        self.at = 0
        self._depth = 0

    def peek(self, offset: int = 0) -> Token:
        """The next token, or one further ahead; the last one for ever."""
        at = self.at + offset
        return self.tokens[at] if at < len(self.tokens) else self.tokens[-1]

    def next(self) -> Token:
        """The next token, stepping over it."""
        token = self.tokens[self.at]
        self.at += token.kind != "end"
        return token

    @property
    def stop(self) -> int:
        """Where the token that was read last ends."""
        return self.tokens[self.at - 1].stop

    def is_next(self, *words: str, offset: int = 0) -> bool:
        """Whether the next token, or one further ahead, is one of these words, in upper case, or operators."""
        return self.peek(offset).word in words

    def accept(self, *words: str) -> bool:
        """Step over one of these words or operators, if it is there."""
        found = self.tokens[self.at].word in words
        self.at += found
        return found

    def expect(self, word: str) -> None:
        """Step over this word or operator, or raise."""
        if self.tokens[self.at].word != word:
            self.unexpected(word if word.isalpha() else f"{word!r}")
        self.at += 1

    def fail(self, where: Token | Expression | int, message: str, *, hint: str | None = None) -> NoReturn:
        """Raise an error that points at a token, a part of the tree or a position."""
        self.source.fail(where if isinstance(where, int) else where.start, message, hint=hint)

    def unexpected(self, wanted: str, hint: str | None = None) -> NoReturn:
        """Raise an error about the next token."""
        token = self.peek()
        if token.kind == "end":
            self.fail(token, f"expected {wanted}, but the {self.source.kind} ends here", hint=hint)
        shown = self.source.text[token.start : min(token.stop, token.start + 40)]
        hint = _HINTS.get(token.word, hint)
        if token.word in RESERVED:
            hint = f"a column of this name is written `{token.value}`"
        self.fail(token, f"expected {wanted}, found {shown}", hint=hint)

    def field_name(self) -> str:
        """Read the name of a field behind a point; it may begin with a digit."""
        token = self.peek()
        if token.kind not in ("name", "quoted") and not (token.kind == "number" and token.value.isdigit()):
            self.unexpected("a field name")
        self.next()
        return token.value + token.suffix

    # --------------------------------------------------------------------------------------------------- literals

    def literal(self) -> Literal:
        """Read a number, bytes or a string; strings that follow each other are one."""
        token = self.peek()
        if token.kind == "number":
            return self.number()
        self.next()
        if token.kind == "bytes":
            return Literal(bytes.fromhex(token.value), tree.BYTES)
        text = token.value
        while self.peek().kind == "string":
            text += self.next().value
        return Literal(text, tree.STRING)

    def number(self, *, negative: bool = False) -> Literal:
        """Read a number, whose sign has been read before."""
        token = self.next()
        return self.source.located(token.start, lambda: number(token.value, token.suffix, negative))

    def typed_literal(self) -> Literal:
        """Read the name of a type and a string: DATE '2026-01-31'."""
        from paimon_pyds.sql.text.casts import cast_literal

        type_ = AtomicType(TYPES[self.next().word], precision=9)
        start = self.peek().start
        text = self.literal()
        return self.source.located(start, lambda: cast_literal(text, type_, self.zone))

    def escape(self) -> str | None:
        """Read the ESCAPE clause behind a pattern: its character, None where there is no clause."""
        if not self.accept("ESCAPE"):
            return None
        token = self.peek()
        if token.kind != "string" or len(token.value) != 1:
            self.fail(token, "ESCAPE takes a string of one character")
        return self.next().value

    def type(self) -> DataType:
        """Read a type: its name and its sizes, or the types inside."""
        token = self.next()
        if token.word in _NESTED_TYPES:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                self.fail(token, f"the {self.source.kind} is nested deeper than {MAX_DEPTH} levels")
            found = self._nested_type(token.word)
            self._depth -= 1
            return found
        kind = TYPES.get(token.word)
        if kind is None:
            self.fail(token, "expected a type", hint="BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, DATE, …")
        return self._atomic_type(token, kind)

    def _nested_type(self, word: str) -> DataType:
        if word == "STRUCT" and self.accept("<>"):
            return RowType(fields=())
        self.expect("<")
        if word == "ARRAY":
            found: DataType = ArrayType(element=self.type())
        elif word == "MAP":
            key = self.type()
            self.expect(",")
            found = MapType(key=key.with_nullable(False), value=self.type())
        else:
            fields: list[DataField] = []
            while not fields or self.accept(","):
                name = self.field_name()
                self.accept(":")
                fields.append(DataField(len(fields), name, self.type()))
            found = RowType(fields=tuple(fields))
        token = self.peek()
        if token.word in (">>", ">>>"):  # the ends of several types
            self.tokens[self.at] = token._replace(value=token.value[1:], word=token.word[1:], start=token.start + 1)
        else:
            self.expect(">")
        return found

    def _atomic_type(self, token: Token, kind: Kind) -> AtomicType:
        numbers: list[int] = []
        if self.accept("("):
            while not numbers or self.accept(","):
                size = self.next()
                if size.kind != "number" or not size.value.isdigit() or len(size.value) > 9:
                    self.fail(size, "expected a size")
                numbers.append(int(size.value))
            self.expect(")")
        if not numbers and kind in STRING_KINDS and token.word != "STRING":
            self.fail(token, f"{token.word} needs a length", hint=f"write {token.word}(n), or STRING")
        first, second = (*numbers, None, None)[:2]
        if kind is Kind.DECIMAL:
            precision, scale = 10 if first is None else first, second or 0
            if not 1 <= precision <= 38 or scale > precision:
                self.fail(token, "a DECIMAL has 1 to 38 digits, of which the scale is a part")
            return AtomicType(kind, precision=precision, scale=scale)
        if kind is Kind.TIME and first is not None and first > 9:
            self.fail(token, "a TIME has at most 9 digits of a second")
        return AtomicType(kind, precision=first if kind is Kind.TIME else None)
