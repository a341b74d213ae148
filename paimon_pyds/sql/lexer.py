"""Tokens of Spark SQL's expressions (its SqlBaseLexer grammar), and errors that point at a place in the text.

String escapes follow Spark's ``unescapeSQLString`` (``spark.sql.parser.escapedStringLiterals=false``, the default).
"""

from __future__ import annotations

import re
from typing import Literal as OneOf
from typing import NamedTuple, NoReturn, TypeAlias

from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.redaction import visible

__all__ = ["MAX_TEXT", "SqlText", "Token", "TokenKind", "tokenize"]

MAX_TEXT = 16 * 1024 * 1024
"""Longest text, in characters: room for an IN list of a million values."""

TokenKind: TypeAlias = OneOf["name", "quoted", "number", "string", "bytes", "op", "end"]

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|--[^\n]*|/\*(?!\+).*?\*/)+)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?P<suffix>BD|[LSYDF])?(?![\w]))
    |(?P<raw>[rR](?:'[^']*'|"[^"]*"))
    |(?P<hex>[xX](?:'[^']*'|"[^"]*"))
    |(?P<string>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    |(?P<quoted>`[^`]*(?:``[^`]*)*`)
    |(?P<name>\w+)
    |(?P<op><=>|<>|!=|!>|!<|==|<=|>=|\|\||&&|::|->|=>|/(?!\*)|[-=<>!()\[\],.+*%&|^~?:;@{}])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_OPENERS = {"'": "string", '"': "string", "`": "quoted name"}


class Token(NamedTuple):
    """One token: ``value`` is the text of names and operators, the content of strings and quoted names."""

    kind: TokenKind
    value: str
    start: int
    stop: int
    suffix: str = ""


class SqlText(NamedTuple):
    """A text to parse, and what errors call it: a ``filter``, an ``expression``, a ``clause``."""

    text: str
    kind: str = "filter"

    @property
    def class_of_errors(self) -> type[PredicateError]:
        """What errors about it are."""
        return PredicateError if self.kind == "filter" else ExpressionError

    def error(self, position: int, message: str, hint: str | None = None) -> PredicateError:
        """A PredicateError with the line of the text and a caret under the place; an ExpressionError but for filters.

        Args:
            position: index of a character of the text, or its length.
            message: what is wrong there.
            hint: what to do about it.
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
        return self.class_of_errors(f"{self.kind}: {message}\n  {visible(line)}\n  {' ' * column}^", hint=hint)

    def fail(self, position: int, message: str, *, hint: str | None = None) -> NoReturn:
        """Raise `error`."""
        raise self.error(position, message, hint)


def tokenize(source: SqlText) -> list[Token]:
    """Split a text into tokens, the last of kind "end".

    Raises:
        PredicateError: a character that starts no token, an unterminated string, a text longer than `MAX_TEXT`.
    """
    text = source.text
    if len(text) > MAX_TEXT:
        raise source.class_of_errors(
            f"the {source.kind} is {len(text):,} characters long; at most {MAX_TEXT:,} are accepted",
            hint="join with a DataFrame of the values instead of listing them",
        )
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            _bad_character(source, position)
        kind = match.lastgroup
        if kind == "number" and _is_path_step(match, tokens):
            tokens.append(Token("op", ".", position, position + 1))
            position += 1
            continue
        position = match.end()
        if kind != "space":
            tokens.append(_token(source, match))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def _is_path_step(match: re.Match[str], tokens: list[Token]) -> bool:
    """``a.1b``: a point right behind a name leads into it, it does not begin a number."""
    return match[0].startswith(".") and bool(tokens) and tokens[-1].kind in ("name", "quoted") and (
        tokens[-1].stop == match.start()
    )  # fmt: skip


def _token(source: SqlText, match: re.Match[str]) -> Token:
    kind, body, start, stop = match.lastgroup, match[0], match.start(), match.end()
    if kind == "suffix" or kind == "number":
        suffix = (match["suffix"] or "").upper()
        return Token("number", body[: len(body) - len(suffix)], start, stop, suffix)
    if kind == "raw":
        return Token("string", body[2:-1], start, stop)
    if kind == "hex":
        digits = body[2:-1]
        if not re.fullmatch(r"[0-9a-fA-F]*", digits):
            source.fail(start, "a binary literal takes hexadecimal digits only", hint="write it as X'1AFF'")
        return Token("bytes", digits if len(digits) % 2 == 0 else "0" + digits, start, stop)
    if kind == "string":
        return Token("string", _unescape(source, body, start), start, stop)
    if kind == "quoted":
        return Token("quoted", body[1:-1].replace("``", "`"), start, stop)
    return Token("name" if kind == "name" else "op", body, start, stop)


def _unescape(source: SqlText, body: str, start: int) -> str:
    quote, inner = body[0], body[1:-1]
    if "\\" in inner or quote * 2 in inner:
        inner = _ESCAPE.sub(lambda match: _unescape_one(match, quote), inner)
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
    if match[3]:
        return chr(int(match[3], 8))
    return _ESCAPED.get(match[4], match[4])


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
