"""Functions of regular expressions, in Java's dialect (`java_regex`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import ArrayType, DataType, arrow_type
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.java_regex import python_regex, re2_pattern
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve
from paimon_pyds.sql.expression.operands import MOST_TEXT, Datum, by_distinct_rows, check_text, each_row, text_bytes
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _TEXT, _BOOLEAN, _TEXTS = tree.INT, tree.STRING, tree.BOOLEAN, ArrayType(element=tree.STRING)
_REFERENCE = re.compile(
    r"\\(?P<kept>.)|\$(?P<group>[0-9]+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<wrong>[\\$])|(?P<plain>[^\\$]+)",
    re.DOTALL,
)
_PLAIN = re.compile(r"[^\\.\[\]{}()*+?^$|]+")


def for_re2(pattern: str) -> str | None:
    """A pattern that Arrow evaluates; None where Python has to. Raises PredicateError: neither can."""
    found = re2_pattern(pattern)
    if found is not None:
        try:
            pc.match_substring_regex(array([""]), pattern=found)
        except pa.ArrowInvalid:
            found = None
    if found is None:
        python_regex(pattern)
    return found


def _rlike(binder: Binder, arguments: list[Node]) -> Node:
    text, pattern = (binder.coerce(node, _TEXT) for node in arguments)
    if not isinstance(pattern, Constant):
        return Apply(_BOOLEAN, _found, (text, pattern))
    found = pattern.value.as_py()
    if found is None:
        return Constant(_BOOLEAN, scalar(None, pa.bool_()))
    arrow = for_re2(found)
    if arrow is None:
        return Apply(_BOOLEAN, _found, (text, pattern))
    return Apply(_BOOLEAN, _matches, (text,), (arrow,))


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(texts, pattern=pattern)


def _found(texts: Datum, patterns: Datum) -> pa.Array:
    return by_distinct_rows(
        lambda text, pattern: python_regex(pattern).search(text) is not None, pa.bool_(), texts, patterns
    )


def _by_match(function: Callable[..., Any], result: DataType, *wanted: DataType) -> Resolve:
    """A function of texts, patterns, and what follows them, once for each distinct combination."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.coerce(node, type_) for node, type_ in zip(arguments, (_TEXT, _TEXT, *wanted), strict=False)]
        if isinstance(given[1], Constant) and given[1].value.is_valid:
            python_regex(given[1].value.as_py())
        return Apply(result, each_row, tuple(given), (function, arrow_type(result)))

    return resolve


def _group(match: re.Match[str], number: int) -> str:
    if not 0 <= number <= match.re.groups:
        raise ExpressionError(
            f"the pattern {match.re.pattern!r:.100} has {match.re.groups} groups, none numbered {number}"
        )
    return match[number] or ""


def _extract(text: str, pattern: str, group: int = 1) -> str:
    match = python_regex(pattern).search(text)
    return "" if match is None else _group(match, group)


def _extract_all(text: str, pattern: str, group: int = 1) -> list[str]:
    return [_group(match, group) for match in python_regex(pattern).finditer(text)]


def _count(text: str, pattern: str) -> int:
    return sum(1 for _ in python_regex(pattern).finditer(text))


def _place(text: str, pattern: str, group: int = 0) -> int:
    match = python_regex(pattern).search(text)
    return 0 if match is None else match.start() + 1


def _substring(text: str, pattern: str) -> str | None:
    match = python_regex(pattern).search(text)
    return None if match is None else match[0]


# ------------------------------------------------------------------------------------------------------------- replace


def _regexp_replace(binder: Binder, arguments: list[Node]) -> Node:
    text, pattern, replacement = (binder.coerce(node, _TEXT) for node in arguments[:3])
    rest = [binder.coerce(node, _INT) for node in arguments[3:]]
    constants = [node.value.as_py() for node in (pattern, replacement) if isinstance(node, Constant)]
    if None in constants:
        return Constant(_TEXT, scalar(None, pa.string()))
    if len(constants) == 2 and not rest:
        found, new = constants
        rewrite = _rewritten(new, python_regex(found))
        # A match at the end of a text may have the end of a line behind it, which RE2 would take away.
        arrow = for_re2(found) if "$" not in found and "\\Z" not in found and rewrite is not None else None
        if arrow is not None:
            return Apply(_TEXT, _replaced, (text,), (arrow, rewrite))
    return _by_match(_replaced_one, _TEXT, _TEXT, _INT)(binder, [text, pattern, replacement, *rest])


def _template(replacement: str, regex: re.Pattern[str]) -> list[tuple[str, int]]:
    """Texts, and groups to put behind them (-1 for none), of Java's form of a replacement: $1 or ${name} for a group,
    a backslash before what is meant as it is. Raises LookupError: it does not parse, or there is no such group."""
    parts: list[tuple[str, int]] = []
    for part in _REFERENCE.finditer(replacement):
        if part["wrong"]:
            raise LookupError("a replacement names groups by $ and a number; \\$ is a dollar, \\\\ a backslash")
        if part["group"] is not None:
            number, rest = _longest_group(part["group"], regex)
            parts += [("", number), (rest, -1)]
        elif part["name"] is not None:
            if part["name"] not in regex.groupindex:
                raise LookupError(f"the pattern has no group named {part['name']:.40}")
            parts.append(("", regex.groupindex[part["name"]]))
        else:
            parts.append((part["kept"] or part["plain"], -1))
    return parts


def _longest_group(digits: str, regex: re.Pattern[str]) -> tuple[int, str]:
    """The group whose number has the most of these digits, and the digits that are left."""
    length = 1
    while length < min(len(digits), 4) and int(digits[: length + 1]) <= regex.groups:
        length += 1
    if int(digits[:length]) > regex.groups:
        raise LookupError(f"the pattern has {regex.groups} groups, none numbered {digits[:length]}")
    return int(digits[:length]), digits[length:]


def _rewritten(replacement: str, regex: re.Pattern[str]) -> str | None:
    r"""The same as RE2 has it: \1 for a group; None for groups that it can't name."""
    parts = _template(replacement, regex)
    if any(group > 9 for _, group in parts):
        return None
    doubled = [(text.replace("\\", "\\\\"), group) for text, group in parts]
    return "".join(text if group < 0 else f"{text}\\{group}" for text, group in doubled)


def _replaced(texts: pa.Array, regex: str, replacement: str) -> pa.Array:
    size = text_bytes(texts)
    if (size + len(texts)) * len(replacement) > MOST_TEXT:  # there may be a match at every place: they are counted
        found = pc.sum(pc.count_substring_regex(texts, pattern=regex).cast(pa.int64())).as_py() or 0
        check_text(found * len(replacement) + size * replacement.count("\\"), "regexp_replace")
    return pc.replace_substring_regex(texts, pattern=regex, replacement=replacement)


def _replaced_one(text: str, pattern: str, replacement: str, position: int = 1) -> str:
    if position < 1:
        raise ExpressionError("regexp_replace takes a position from 1 on")
    try:
        parts = _template(replacement, python_regex(pattern))
    except LookupError as error:
        raise ExpressionError(str(error.args[0])) from None

    def made(match: re.Match[str]) -> str:
        return "".join(part if group < 0 else part + _group(match, group) for part, group in parts)

    head, rest = text[: position - 1], text[position - 1 :]
    return head + python_regex(pattern).sub(made, rest)


# --------------------------------------------------------------------------------------------------------------- split


def split_texts(texts: Datum, patterns: Datum, limit: Datum | int = -1) -> pa.Array:
    """The parts of texts between what a pattern matches, as arrays; at most ``limit`` parts where that is positive."""
    if isinstance(limit, int):
        limit = scalar(limit, pa.int32())
    fixed = isinstance(patterns, pa.Scalar) and isinstance(limit, pa.Scalar) and patterns.is_valid and limit.is_valid
    if fixed and isinstance(texts, pa.Array) and _PLAIN.fullmatch(patterns.as_py()):
        most = limit.as_py()
        found = pc.split_pattern(texts, pattern=patterns.as_py(), max_splits=most - 1 if most > 0 else None)
        return found.cast(arrow_type(_TEXTS))
    return by_distinct_rows(_split, arrow_type(_TEXTS), texts, patterns, limit)


def _split(text: str, pattern: str, limit: int = -1) -> list[str]:
    """As Java: no empty part before a match of nothing at the beginning."""
    if not pattern and text:
        most = len(text) if limit <= 0 else min(limit, len(text))
        return [*text[: most - 1], text[most - 1 :]]
    parts: list[str] = []
    begin = 0
    for match in python_regex(pattern).finditer(text):
        if len(parts) == limit - 1:
            break
        if match.end() > 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [*parts, text[begin:]]


def _split_resolve(binder: Binder, arguments: list[Node]) -> Node:
    given = [binder.coerce(node, type_) for node, type_ in zip(arguments, (_TEXT, _TEXT, _INT), strict=False)]
    if isinstance(given[1], Constant) and given[1].value.is_valid:
        python_regex(given[1].value.as_py())
    return Apply(_TEXTS, split_texts, tuple(given))


REGEX_FUNCTIONS: dict[str, Function] = {
    "rlike": Function((2, 2), _rlike),
    "regexp_extract": Function((2, 3), _by_match(_extract, _TEXT, _INT)),
    "regexp_extract_all": Function((2, 3), _by_match(_extract_all, _TEXTS, _INT)),
    "regexp_count": Function((2, 2), _by_match(_count, _INT)),
    "regexp_instr": Function((2, 3), _by_match(_place, _INT, _INT)),
    "regexp_substr": Function((2, 2), _by_match(_substring, _TEXT)),
    "regexp_replace": Function((3, 4), _regexp_replace),
    "split": Function((2, 3), _split_resolve),
}
