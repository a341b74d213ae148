"""Patterns: LIKE and regular expressions, fixed ones by Arrow, those of columns one by one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import PredicateError
from paimon_pyds.expression.arrays import MOST_TEXT, Datum, by_distinct_rows, check_text, text_bytes
from paimon_pyds.expression.nodes import Apply, Constant, Function, Node, Resolve
from paimon_pyds.predicate.like import like_parts, like_regex
from paimon_pyds.sql import casts

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Binder

_TEXT, _BOOLEAN = casts.STRING, casts.BOOLEAN
_REFERENCE = re.compile(r"\\(?P<kept>.)|\$(?P<group>[0-9])(?![0-9])|(?P<wrong>[\\$])|(?P<plain>[^\\$]+)", re.DOTALL)


def _like(fold: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        text, pattern, *rest = (binder.coerce(node, _TEXT) for node in arguments)
        escape = rest[0].value.as_py() if rest and isinstance(rest[0], Constant) else "\\"
        if not isinstance(pattern, Constant):
            return Apply(_BOOLEAN, _like_each, (text, pattern), (escape, fold))
        found = pattern.value.as_py()
        if found is None:
            return Constant(_BOOLEAN, pa.scalar(None, pa.bool_()))
        like_parts(found, escape)
        return Apply(_BOOLEAN, _matches, (text,), (like_regex(found, escape), fold))

    return resolve


def _matches(texts: pa.Array, regex: str, fold: bool) -> pa.Array:
    return pc.match_substring_regex(texts, pattern=regex, ignore_case=fold)


def _like_each(texts: Datum, patterns: Datum, escape: str, fold: bool) -> pa.Array:
    def found(text: str, pattern: str) -> bool:
        return bool(_matches(pa.array([text]), like_regex(pattern, escape), fold)[0].as_py())

    return by_distinct_rows(found, pa.bool_(), texts, patterns)


def _regex(pattern: Node) -> str | None:
    """RE2's syntax, which is Java's but for look-around and back references."""
    if not isinstance(pattern, Constant):
        raise LookupError("the pattern must be a literal")
    found: str | None = pattern.value.as_py()
    try:
        _matches(pa.array([""]), found or "", False)
    except pa.ArrowInvalid as error:
        raise PredicateError(f"the pattern is not supported: {str(error).splitlines()[0]}") from None
    return found


def _rlike(binder: Binder, arguments: list[Node]) -> Node:
    text, pattern = (binder.coerce(node, _TEXT) for node in arguments)
    found = _regex(pattern)
    if found is None:
        return Constant(_BOOLEAN, pa.scalar(None, pa.bool_()))
    return Apply(_BOOLEAN, _matches, (text,), (found, False))


def _regexp_replace(binder: Binder, arguments: list[Node]) -> Node:
    text, pattern, replacement = (binder.coerce(node, _TEXT) for node in arguments)
    found = _regex(pattern)
    if not isinstance(replacement, Constant):
        raise LookupError("the replacement must be a literal")
    if found is None or not replacement.value.is_valid:
        return Constant(_TEXT, pa.scalar(None, pa.string()))
    rewrite = _rewrite(replacement.value.as_py())
    try:
        _replaced(pa.array([""]), found, rewrite)
    except pa.ArrowInvalid as error:
        raise LookupError(f"the replacement is not supported: {str(error).splitlines()[0]}") from None
    return Apply(_TEXT, _replaced, (text,), (found, rewrite))


def _rewrite(replacement: str) -> str:
    r"""Java's form of a replacement ($1 for a group, a backslash before what is meant as it is) as RE2's (\1)."""
    parts: list[str] = []
    for part in _REFERENCE.finditer(replacement):
        group, plain = part["group"], part["kept"] or part["plain"]
        if part["wrong"]:
            raise LookupError("a replacement names groups by $ and one digit; \\$ is a dollar, \\\\ a backslash")
        parts.append(f"\\{group}" if plain is None else plain.replace("\\", "\\\\"))
    return "".join(parts)


def _replaced(texts: pa.Array, regex: str, replacement: str) -> pa.Array:
    size = text_bytes(texts)
    if (size + len(texts)) * len(replacement) > MOST_TEXT:  # there may be a match at every place: they are counted
        found = pc.sum(pc.count_substring_regex(texts, pattern=regex).cast(pa.int64())).as_py() or 0
        check_text(found * len(replacement) + size * replacement.count("\\"), "regexp_replace")
    return pc.replace_substring_regex(texts, pattern=regex, replacement=replacement)


PATTERN_FUNCTIONS: dict[str, Function] = {
    "like": Function((2, 3), _like(False)),
    "ilike": Function((2, 3), _like(True)),
    "rlike": Function((2, 2), _rlike),
    "regexp_replace": Function((3, 3), _regexp_replace),
}
