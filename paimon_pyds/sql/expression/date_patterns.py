"""Patterns of dates and times, as ``date_format`` and ``to_timestamp`` take them (Spark documentation, Datetime
Patterns for Formatting and Parsing): letters of Java's ``DateTimeFormatter``, in English.

A timestamp is written column by column: each part of a pattern becomes the texts of all rows at once. Texts are read
once for each distinct one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from paimon_pyds.base.types import sql_values as values
from paimon_pyds.base.types.sql_values import DAY_MICROS, days_from_civil
from paimon_pyds.errors import ExpressionError

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HALVES = ("AM", "PM")

_LONGEST = {
    "G": 4, "y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "Q": 4, "q": 4, "E": 4, "F": 1, "a": 1, "h": 2, "H": 2, "k": 2,
    "K": 2, "m": 2, "s": 2, "S": 9, "V": 2, "O": 4, "X": 5, "x": 5, "Z": 5,
}  # fmt: skip
"""How often each letter may stand in a row."""
_ZONE = "V"
"""Under this letter zones are noted, however they are written."""
_NOT_PARSED = frozenset("EFQqG")
_HINT = "the letters are those of Spark's datetime patterns: y M d H h m s S a E D Q X x Z O V; texts stand in quotes"
_Setter = Callable[[dict[str, int], str], None]


class Field(NamedTuple):
    """One letter, some times in a row."""

    letter: str
    width: int


class Optional(NamedTuple):
    """What stands in brackets: it is written, and need not be there when a text is read."""

    parts: tuple[Part, ...]


Part = str | Field | Optional


@lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """A pattern taken apart. Raises ExpressionError: a quote or bracket has no end, a letter is not supported."""
    found: list[list[Part]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            found[-1].append(text)
        elif char.isascii() and char.isalpha():
            stop = at
            while stop < len(pattern) and pattern[stop] == char:
                stop += 1
            found[-1].append(_field(pattern, char, stop - at))
            at = stop
        else:
            at += 1
            if char == "[":
                found.append([])
            elif char == "]" and len(found) > 1:
                inner = Optional(tuple(found.pop()))
                found[-1].append(inner)
            elif char in "]#{}":
                raise _wrong(pattern, f"{char} has no meaning there")
            else:
                found[-1].append(char)
    while len(found) > 1:
        inner = Optional(tuple(found.pop()))
        found[-1].append(inner)
    return tuple(found[0])


def has_letter(parts: tuple[Part, ...], letter: str) -> bool:
    """Whether a pattern has a letter, that in brackets included."""
    return any(
        has_letter(part.parts, letter)
        if isinstance(part, Optional)
        else isinstance(part, Field) and part.letter == letter
        for part in parts
    )


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """The text that begins with a quote, and where it ends; two quotes are one."""
    if pattern.startswith("''", at):
        return "'", at + 2
    text, at = "", at + 1
    while at < len(pattern):
        if pattern.startswith("''", at):
            text, at = text + "'", at + 2
        elif pattern[at] == "'":
            return text, at + 1
        else:
            text, at = text + pattern[at], at + 1
    raise _wrong(pattern, "a quote is not closed")


def _field(pattern: str, letter: str, count: int) -> Field:
    most = _LONGEST.get(letter)
    if most is None:
        week = "; it counts weeks, which Spark refuses, too" if letter in "YwWuec" else ""
        raise _wrong(pattern, f"the letter {letter} is not supported{week}")
    if count > most or (letter == "V" and count != 2) or (letter == "O" and count not in (1, 4)):
        raise _wrong(pattern, f"{count} times {letter} is not supported")
    return Field(letter, count)


def _wrong(pattern: str, why: str) -> ExpressionError:
    return ExpressionError(f"{pattern!r:.100} is not a pattern of dates and times: {why}", hint=_HINT)


# ------------------------------------------------------------------------------------------------------------- reading


class Parser:
    """Reads texts of one pattern. Raises ExpressionError: the pattern can't be read by. It pickles.

    ``zone``: of texts that name none.
    """

    def __init__(self, pattern: str, zone: str) -> None:
        self.pattern = pattern
        self._zone = zone
        _reader(pattern)

    def micros(self, text: str) -> int:
        """The instant, in microseconds since 1970. Raises ExpressionError: the text is of another pattern, or there is
        no such time."""
        local, zone = self.local(text)
        return values.local_to_instant(local, values.time_zone(zone or self._zone))

    def local(self, text: str) -> tuple[int, str | None]:
        """The wall-clock time, in microseconds, and the zone that the text names."""
        regex, setters = _reader(self.pattern)
        match = regex.fullmatch(text)
        if match is None:
            raise self._refused(text)
        fields: dict[str, int] = {}
        zone: str | None = None
        for group, (letter, setter) in enumerate(setters, 1):
            found = match[group]
            if found is None:
                continue
            if letter == _ZONE:
                zone = found.upper() if found.upper() in ("Z", "GMT") or found[-1].isdigit() else found
            else:
                setter(fields, found)
        try:
            return _resolved(fields), zone
        except LookupError:
            raise self._refused(text) from None

    def _refused(self, text: str) -> ExpressionError:
        return ExpressionError(
            f"{text!r:.100} is not written as {self.pattern!r:.100}",
            hint="the functions try_… give NULL for such texts",
        )


def _resolved(fields: dict[str, int]) -> int:
    """Raises LookupError: there is no such day or time."""
    year = fields.get("y", 1970)
    if "D" in fields and "y" in fields:
        first, after = days_from_civil(year, 1, 1), days_from_civil(year + 1, 1, 1)
        days = (first or 0) + fields["D"] - 1
        if not (first or 0) <= days < (after or 0):
            raise LookupError
    else:
        found = days_from_civil(year, fields.get("M", 1), fields.get("d", 1))
        if found is None:
            raise LookupError
        days = found
    hour = fields.get("H", fields.get("k", 0) % 24)
    half = fields.get("a", 0)
    if "h" in fields or "K" in fields:
        hour = (fields["h"] % 12 if "h" in fields else fields["K"]) + 12 * half
    elif "H" not in fields and "k" not in fields:
        hour = 12 * half
    bounds = (("H", 0, 23), ("k", 1, 24), ("h", 1, 12), ("K", 0, 11), ("m", 0, 59), ("s", 0, 59), ("D", 1, 366))
    if any(not low <= fields.get(name, low) <= high for name, low, high in bounds):
        raise LookupError
    seconds = (hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)
    return days * DAY_MICROS + seconds * 1_000_000 + fields.get("S", 0)


@lru_cache(maxsize=64)
def _reader(pattern: str) -> tuple[re.Pattern[str], list[tuple[str, _Setter]]]:
    setters: list[tuple[str, _Setter]] = []

    def of(parts: tuple[Part, ...]) -> str:
        found = ""
        for part in parts:
            if isinstance(part, Optional):
                found += f"(?:{of(part.parts)})?"
            elif isinstance(part, Field):
                text, letter, setter = _read(pattern, part)
                setters.append((letter, setter))
                found += f"({text})"
            else:
                found += re.escape(part)
        return found

    regex = re.compile(of(parts_of(pattern)), re.IGNORECASE | re.ASCII | re.DOTALL)
    return regex, setters


def _read(pattern: str, field: Field) -> tuple[str, str, _Setter]:
    """A regular expression for a part, the letter under which its value is noted, and what notes it."""
    letter, count = field
    if letter in _NOT_PARSED:
        raise _wrong(pattern, f"the letter {letter} is for writing only")
    letter = "M" if letter == "L" else letter
    if letter == "M" and count > 2:
        names = MONTHS if count == 4 else tuple(name[:3] for name in MONTHS)
        return "|".join(names), letter, _named(letter, names)
    if letter == "a":
        return "|".join(HALVES), letter, _named(letter, HALVES, 0)
    if letter == "y":
        if count == 2:
            return r"\d{2}", letter, _number(letter, 2000)
        digits = rf"\d{{{count}}}|\+\d{{{count + 1},9}}|-\d{{{count},9}}" if count >= 4 else rf"-?\d{{{count},9}}"
        return digits, letter, _number(letter)
    if letter == "S":
        return rf"\d{{1,{count}}}", letter, _fraction
    if letter in "VOXxZ":
        return _zone_text(letter, count), _ZONE, _number(letter)
    digits = {"D": r"\d{1,3}" if count == 1 else rf"\d{{{count},3}}"}.get(
        letter, r"\d{2}" if count == 2 else r"\d{1,2}"
    )
    return digits, letter, _number(letter)


def _number(letter: str, base: int = 0) -> _Setter:
    def note(fields: dict[str, int], text: str) -> None:
        fields[letter] = base + int(text)

    return note


def _named(letter: str, names: tuple[str, ...], first: int = 1) -> _Setter:
    lower = [name.lower() for name in names]

    def note(fields: dict[str, int], text: str) -> None:
        fields[letter] = lower.index(text.lower()) + first

    return note


def _fraction(fields: dict[str, int], text: str) -> None:
    fields["S"] = int(text[:6].ljust(6, "0"))


def _zone_text(letter: str, count: int) -> str:
    if letter == "V":
        return r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*|[+-]\d{2}:\d{2}"
    if letter == "O" or (letter == "Z" and count == 4):
        return r"GMT(?:[+-]\d{1,2}(?::\d{2})?)?" if count == 1 else r"GMT(?:[+-]\d{2}:\d{2})?"
    if letter == "Z":
        return r"[+-]\d{4}" if count < 4 else r"[+-]\d{2}:\d{2}|Z"
    zero = "|Z" if letter == "X" else ""
    return {
        1: r"[+-]\d{2}(?:\d{2})?",
        2: r"[+-]\d{4}",
        3: r"[+-]\d{2}:\d{2}",
        4: r"[+-]\d{4}(?:\d{2})?",
        5: r"[+-]\d{2}:\d{2}(?::\d{2})?",
    }[count] + zero
