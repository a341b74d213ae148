"""LIKE patterns, with Spark's rules (``StringUtils.escapeLikeRegex``): ``%`` is any text, ``_`` one character (code
point), and the escape character stands only before ``%``, ``_`` or itself."""

from __future__ import annotations

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.tree import Op

ANY = 0
"""A ``%`` among the parts of a pattern."""
ONE = 1
"""A ``_`` among the parts of a pattern."""


def like_parts(pattern: str, escape: str = "\\") -> list[str | int]:
    """A pattern as a list of literal texts, `ANY` and `ONE`; neighbouring texts and neighbouring ANYs are one.
    Raises PredicateError: the escape character stands last, or before a character that needs no escape."""
    parts: list[str | int] = []
    text: list[str] = []

    def flush() -> None:
        if text:
            parts.append("".join(text))
            text.clear()

    chars = iter(pattern)
    for char in chars:
        if char == escape:
            following = next(chars, None)
            if following is None:
                raise PredicateError(f"the LIKE pattern {pattern!r:.200} ends with its escape character")
            if following not in ("%", "_", escape):
                raise PredicateError(
                    f"in the LIKE pattern {pattern!r:.200} the escape character {escape!r} stands before {following!r}",
                    hint=f"it may only stand before %, _ and {escape} itself",
                )
            text.append(following)
        elif char == "%":
            flush()
            if not parts or parts[-1] is not ANY:
                parts.append(ANY)
        elif char == "_":
            flush()
            parts.append(ONE)
        else:
            text.append(char)
    flush()
    return parts


def escape_like(text: str) -> str:
    r"""The pattern, with ``\`` as its escape character, that matches exactly this text."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def normal_like(pattern: str, escape: str = "\\") -> tuple[Op, str]:
    r"""The simplest operator that says the same, with its text: EQ, STARTS_WITH, ENDS_WITH, CONTAINS, else LIKE (the
    pattern then has ``\`` as its escape character). STARTS_WITH of an empty text is ``LIKE '%'``.
    """
    parts = like_parts(pattern, escape)
    match parts:
        case []:
            return Op.EQ, ""
        case [str(text)]:
            return Op.EQ, text
        case [0]:
            return Op.STARTS_WITH, ""
        case [str(text), 0]:
            return Op.STARTS_WITH, text
        case [0, str(text)]:
            return Op.ENDS_WITH, text
        case [0, str(text), 0]:
            return Op.CONTAINS, text
    normal = "".join(escape_like(p) if isinstance(p, str) else "%" if p is ANY else "_" for p in parts)
    try:
        pc.match_substring_regex(array([""]), pattern=like_regex(normal))
    except pa.ArrowInvalid:
        raise PredicateError(
            f"the LIKE pattern {pattern!r:.200} of {len(pattern):,} characters is too large",
            hint="write it with fewer wildcards, or as several conditions",
        ) from None
    return Op.LIKE, normal


def like_prefix(pattern: str, escape: str = "\\") -> str:
    """The text that every match begins with; empty when the pattern begins with a wildcard."""
    parts = like_parts(pattern, escape)
    return parts[0] if parts and isinstance(parts[0], str) else ""


def like_regex(pattern: str, escape: str = "\\") -> str:
    """The pattern as a regular expression in RE2's syntax that matches whole texts, line ends included."""
    body = "".join(
        "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in part)
        if isinstance(part, str)
        else (".*" if part is ANY else ".")
        for part in like_parts(pattern, escape)
    )
    return f"(?s)\\A{body}\\z"
