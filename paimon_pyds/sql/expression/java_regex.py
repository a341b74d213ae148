"""Regular expressions as Java has them, for RE2 (which Arrow evaluates whole columns with) and for Python's ``re``.

What means the same in all of them is left as it is; what one of them reads otherwise is written in its own way, or
refused. RE2 has no look-around and no back references: then Python's takes its place, for each distinct text.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

from paimon_pyds.errors import PredicateError

_ENDS = r"\n\r\x85\u2028\u2029"
_RE2_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_BLANKS = r"\t-\r "
_CLASSES = {
    "Lower": "a-z", "Upper": "A-Z", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "0-9a-zA-Z", "XDigit": "0-9a-fA-F",
    "Space": _BLANKS, "ASCII": r"\x00-\x7f", "Punct": r"!-/:-@\[-`{-~", "Blank": r" \t",
}  # fmt: skip
_CATEGORIES = frozenset({
    "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
})  # fmt: skip
"""General categories of Unicode; those of unassigned characters differ from version to version."""
_HORIZONTAL = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-[a-zA-Z]+)?[:)]")


class _UnsupportedError(Exception):
    """A part of a pattern that one of the two has nothing for."""


def python_regex(pattern: str) -> re.Pattern[str]:
    """A Java pattern for Python. Raises PredicateError: it does not parse, or has a part that is not supported."""
    found = _compiled(pattern)
    if isinstance(found, str):
        raise PredicateError(f"the pattern {pattern!r:.100} is not supported: {found}")
    return found


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | str:
    try:
        return re.compile(_Translation(pattern, re2=False).text(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    except _UnsupportedError as error:
        return str(error.args[0])


def re2_pattern(pattern: str) -> str | None:
    """A Java pattern for RE2; None where that has nothing for a part of it, or would match other texts."""
    try:
        return _Translation(pattern, re2=True).text()
    except _UnsupportedError:
        return None


@lru_cache(maxsize=64)
def _members_of(category: str) -> str:
    """The characters of a category as ranges of a class."""
    inside = [unicodedata.category(chr(code)).startswith(category) for code in range(sys.maxunicode + 1)]
    bounds = [
        code
        for code in range(len(inside) + 1)
        if (code < len(inside) and inside[code]) != (code > 0 and inside[code - 1])
    ]
    return "".join(f"\\U{low:08x}-\\U{high - 1:08x}" for low, high in zip(bounds[::2], bounds[1::2], strict=True))


class _Translation:
    """Walks over a pattern once."""

    def __init__(self, pattern: str, re2: bool) -> None:
        self._pattern = pattern
        self._re2 = re2
        self._at = 0
        flags = set("".join(_FLAGS.findall(pattern)))
        if flags & set("dux U") or (re2 and "i" in flags):  # RE2 folds letters that are not ASCII, too
            raise _UnsupportedError("a flag other than i, m and s")
        self._dot_is_any, self._lines = "s" in flags, "m" in flags

    def text(self) -> str:
        """The pattern in the other dialect."""
        found: list[str] = []
        while (char := self._next()) is not None:
            if char == "\\":
                found.append(self._escape())
            elif char == "[":
                found.append(self._class())
            elif char == "." and not self._dot_is_any:
                found.append(f"[^{_RE2_ENDS if self._re2 else _ENDS}]")
            elif char == "$" and not self._lines:
                found.append(self._end())
            elif char == "(" and re.match(r"\?<[A-Za-z]", self._pattern[self._at :]):
                self._at += 2
                found.append("(?P<")
            else:
                found.append(char)
        return "".join(found)

    def _next(self) -> str | None:
        if self._at >= len(self._pattern):
            return None
        self._at += 1
        return self._pattern[self._at - 1]

    def _end(self) -> str:
        """The end of the text, or of its last line."""
        if self._re2:
            return rf"(?:(?:\r\n|[{_RE2_ENDS}])?\z)"
        return rf"(?=(?:\r\n|[{_ENDS}])?\Z)"

    def _escape(self) -> str:
        char = self._next()
        if char == "Q":
            stop = self._pattern.find("\\E", self._at)
            text = self._pattern[self._at : stop if stop >= 0 else None]
            self._at = stop + 2 if stop >= 0 else len(self._pattern)
            return re.escape(text)
        if char == "Z":
            return self._end()
        if char == "z":
            return r"\z" if self._re2 else r"\Z"
        if char == "R":
            return rf"(?:\r\n|[\n-\r{_RE2_ENDS if self._re2 else _ENDS}])"
        if char == "k" and not self._re2 and self._pattern[self._at : self._at + 1] == "<":
            stop = self._pattern.find(">", self._at)
            name, self._at = self._pattern[self._at + 1 : stop], stop + 1
            return f"(?P={name})"
        if char in ("s", "S"):
            return f"[{'^' if char == 'S' else ''}{_BLANKS}]"
        if char in ("p", "P"):
            return f"[{'^' if char == 'P' else ''}{self._named_class()}]"
        return self._member(char)

    def _class(self) -> str:
        """A class of characters; those within one another, and intersections, mean something in Java only."""
        found = ["["]
        if self._pattern.startswith("^", self._at):
            found.append("^")
            self._at += 1
        first = True
        while (char := self._next()) != "]" or first:
            if char is None:
                raise _UnsupportedError("a class that is not closed")
            if char == "[" or (char == "&" and self._pattern.startswith("&", self._at)):
                raise _UnsupportedError("classes within classes, and && between them")
            if char == "\\":
                char = self._next()
                if char == "s":
                    found.append(_BLANKS)
                elif char == "p":
                    found.append(self._named_class())
                elif char in ("S", "P", "Q"):
                    raise _UnsupportedError(rf"\{char} within a class")
                else:
                    found.append(self._member(char))
            else:
                found.append("\\" + char if char in "&|~[" and not self._re2 else char)
            first = False
        return "".join(found) + "]"

    def _named_class(self) -> str:
        stop = self._pattern.find("}", self._at)
        braces = self._pattern.startswith("{", self._at) and stop > 0
        name = self._pattern[self._at + 1 : stop] if braces else self._pattern[self._at : self._at + 1]
        self._at = stop + 1 if braces else self._at + 1
        if name in _CLASSES:
            return _CLASSES[name]
        category = name.removeprefix("Is")
        if category not in _CATEGORIES:
            raise _UnsupportedError(rf"\p{{{name:.40}}}")
        return rf"\p{{{category}}}" if self._re2 else _members_of(category)

    def _member(self, char: str | None) -> str:
        """An escape that is the same within a class."""
        if char is None:
            raise _UnsupportedError("it ends with a backslash")
        if char == "h":
            if self._re2:
                raise _UnsupportedError(r"\h")
            return _HORIZONTAL if self._in_class() else f"[{_HORIZONTAL}]"
        if char in "GXNvVHEc" or (char == "0") or (char == "u" and self._re2):
            raise _UnsupportedError(rf"\{char}")
        if char == "e":
            return r"\x1b"
        if char == "x" and self._pattern.startswith("{", self._at):
            stop = self._pattern.find("}", self._at)
            digits, self._at = self._pattern[self._at + 1 : stop], stop + 1
            return rf"\x{{{digits}}}" if self._re2 else re.escape(chr(int(digits, 16)))
        return "\\" + char

    def _in_class(self) -> bool:
        before = re.sub(r"\\.", "", self._pattern[: self._at - 2], flags=re.DOTALL)
        return before.rfind("[") > before.rfind("]")
