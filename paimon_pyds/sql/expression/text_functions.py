"""Functions of texts, with Spark's rules: positions count code points from 1, only spaces are trimmed.

LIKE and regular expressions that are constants are evaluated by Arrow, those of columns one by one.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import ArrayType, AtomicType, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.nodes import ANY, Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import (
    Datum,
    arrays,
    by_distinct,
    by_distinct_rows,
    check_one,
    check_text,
    each_row,
    text_bytes,
)
from paimon_pyds.sql.predicate.like import like_parts, like_regex
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _TEXT, _BOOLEAN = tree.INT, tree.STRING, tree.BOOLEAN


def _cased(texts: pa.Array, simple: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> pa.Array:
    """Plain ASCII by Arrow, other texts by Unicode's full mapping (ß is SS), as Java does it."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return simple(texts)
    return by_distinct(texts, full, pa.string())


def _capitals(text: str) -> str:
    """Words are what spaces divide."""
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _length(values: pa.Array) -> pa.Array:
    found = pc.utf8_length(values) if pa.types.is_string(values.type) else pc.binary_length(values)
    return found.cast(pa.int32())


def _bit_length(texts: pa.Array) -> pa.Array:
    return pc.multiply_checked(pc.binary_length(texts), scalar(8, pa.int32()))


def _spaces(count: int) -> str:
    return _repeat(" ", count)


_TRIMS: dict[str, tuple[Callable[..., pa.Array], Callable[[str, str], str]]] = {
    "trim": (pc.utf8_trim, str.strip), "ltrim": (pc.utf8_ltrim, str.lstrip), "rtrim": (pc.utf8_rtrim, str.rstrip),
}  # fmt: skip


def _trim(*arguments: Any) -> pa.Array:
    """Perhaps the characters to trim, the texts, and the side."""
    *characters, texts, side = arguments
    kernel, strip = _TRIMS[side]
    if not characters:
        return kernel(texts, characters=" ")

    def stripped(text: str, some: str) -> str:
        return strip(text, some) if some else text

    return by_distinct_rows(stripped, pa.string(), texts, *characters)


def _btrim(binder: Binder, arguments: list[Node]) -> Node:
    """Which takes the text first, other than trim, ltrim and rtrim."""
    return typed(_trim, _TEXT, _TEXT, options=("trim",))(binder, arguments[::-1])


def _substring(texts: Datum, start: Datum, length: Datum | None = None) -> pa.Array:
    fixed = isinstance(start, pa.Scalar) and (length is None or isinstance(length, pa.Scalar))
    if fixed and start.is_valid and start.as_py() >= 0 and (length is None or length.is_valid):
        first = max(start.as_py() - 1, 0)
        last = None if length is None else first + max(length.as_py(), 0)
        return pc.utf8_slice_codeunits(texts, first, last)
    given = [texts, start] if length is None else [texts, start, length]
    return by_distinct_rows(substring_of, pa.string(), *given)


def substring_of(text: str, start: int, length: int = 2**31) -> str:
    """SUBSTRING of a text: positions count from 1, negative ones from the end."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def _right(text: str, length: int) -> str:
    return text[len(text) - length :] if 0 < length < len(text) else text if length > 0 else ""


def _replace(text: str, old: str, new: str = "") -> str:
    if not old:
        return text
    if len(new) > len(old):
        check_one(len(text) + text.count(old) * (len(new) - len(old)), "replace")
    return text.replace(old, new)


def _pad(text: str, length: int, filling: str = " ", *, left: bool) -> str:
    missing = length - len(text)
    if missing <= 0 or not filling:
        return text[: max(length, 0)]
    check_one(length, "lpad" if left else "rpad")
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if left else text + added


def _repeat(text: str, times: int) -> str:
    check_one(len(text) * max(times, 0), "repeat")
    return text * max(times, 0)


def _position(part: str, text: str, start: int = 1) -> int:
    return text.find(part, start - 1) + 1 if start > 0 else 0


def _instr(text: str, part: str) -> int:
    return text.find(part) + 1


def _split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise ExpressionError("split_part counts from 1, or from -1 at the end")
    parts = text.split(separator) if separator else [text]
    at = number - 1 if number > 0 else number
    return parts[at] if -len(parts) <= at < len(parts) else ""


def by_text(function: Callable[..., Any], result: AtomicType, *wanted: AtomicType) -> Resolve:
    """A function of Python texts; its arguments are taken to fixed types."""
    return typed(each_row, result, *wanted, options=(function, arrow_type(result)))


def _reverse(binder: Binder, arguments: list[Node]) -> Node:
    """Of a text, or of an array."""
    if isinstance(arguments[0].type, ArrayType):
        from paimon_pyds.sql.expression.array_functions import reversed_array

        return reversed_array(binder, arguments)
    return typed(pc.utf8_reverse, _TEXT, _TEXT)(binder, arguments)


def _concat(binder: Binder, arguments: list[Node]) -> Node:
    """Of texts, of bytes, or of arrays."""
    if any(isinstance(node.type, ArrayType) for node in arguments):
        from paimon_pyds.sql.expression.array_functions import concat_arrays

        return concat_arrays(binder, arguments)
    if all(node.type is not None and node.type.kind in BINARY_KINDS for node in arguments):
        return Apply(tree.BYTES, _joined, tuple(arguments))
    return Apply(_TEXT, _joined, tuple(binder.coerce(node, _TEXT) for node in arguments))


def _joined(*data: Datum) -> pa.Array:
    columns = arrays(data)
    check_text(sum(map(text_bytes, columns)), "concat")
    return pc.binary_join_element_wise(*columns, scalar("" if columns[0].type == pa.string() else b"", columns[0].type))


def _joined_with(separator: Datum, *data: Datum) -> pa.Array:
    """NULLs are left out."""
    between, *columns = arrays([separator, *data])
    check_text(sum(map(text_bytes, columns)) + len(columns) * text_bytes(between), "concat_ws")
    found = pa.nulls(len(between), pa.string())
    for column in columns:  # one by one: Arrow's own skipping of nulls leaves out rows that have nothing else
        found = pc.coalesce(pc.binary_join_element_wise(found, column, between), found, column)
    return pc.if_else(between.is_valid(), pc.fill_null(found, ""), scalar(None, pa.string()))


def _concat_ws(binder: Binder, arguments: list[Node]) -> Node:
    """Of texts, and of the items of arrays."""
    if any(isinstance(node.type, ArrayType) for node in arguments[1:]):
        from paimon_pyds.sql.expression.array_functions import concat_items

        return concat_items(binder, arguments)
    return typed(_joined_with, _TEXT, _TEXT)(binder, arguments)


def _translate(text: str, old: str, new: str) -> str:
    """Each character of ``old`` becomes that of ``new`` in its place; those without one go."""
    table: dict[int, str | None] = {}
    for at, character in enumerate(old):
        table.setdefault(ord(character), new[at] if at < len(new) else None)
    return text.translate(table)


def _digest(function: Callable[..., str | None]) -> Resolve:
    """A checksum of bytes, or of a text in UTF-8, as hexadecimal digits."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        data, *bits = arguments
        if data.type is not None and data.type.kind not in BINARY_KINDS | STRING_KINDS:
            raise LookupError(f"a text or bytes are wanted, not a {type_text(data.type)}")
        given = (binder.cast(data, tree.BYTES), *(binder.coerce(node, _INT) for node in bits))
        return Apply(_TEXT, each_row, given, (function, arrow_type(_TEXT)))

    return resolve


def _hex(data: bytes, name: str) -> str:
    return hashlib.new(name, data, usedforsecurity=False).hexdigest()


def _sha2(data: bytes, bits: int) -> str | None:
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else _hex(data, name)


def _length_of(binder: Binder, arguments: list[Node]) -> Node:
    node = arguments[0]
    binary = node.type is not None and node.type.kind in BINARY_KINDS
    return Apply(_INT, _length, (node if binary else binder.coerce(node, _TEXT),))


def _like(fold: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        text, pattern, *rest = (binder.coerce(node, _TEXT) for node in arguments)
        escape = rest[0].value.as_py() if rest and isinstance(rest[0], Constant) else "\\"
        if not isinstance(pattern, Constant):
            return Apply(_BOOLEAN, _like_each, (text, pattern), (escape, fold))
        found = pattern.value.as_py()
        if found is None:
            return Constant(_BOOLEAN, scalar(None, pa.bool_()))
        like_parts(found, escape)
        return Apply(_BOOLEAN, _matches, (text,), (like_regex(found, escape), fold))

    return resolve


def _matches(texts: pa.Array, regex: str, fold: bool) -> pa.Array:
    return pc.match_substring_regex(texts, pattern=regex, ignore_case=fold)


def _like_each(texts: Datum, patterns: Datum, escape: str, fold: bool) -> pa.Array:
    def found(text: str, pattern: str) -> bool:
        return bool(_matches(array([text]), like_regex(pattern, escape), fold)[0].as_py())

    return by_distinct_rows(found, pa.bool_(), texts, patterns)


TEXT_FUNCTIONS: dict[str, Function] = {
    "upper": Function((1, 1), typed(_cased, _TEXT, _TEXT, options=(pc.ascii_upper, str.upper))),
    "lower": Function((1, 1), typed(_cased, _TEXT, _TEXT, options=(pc.ascii_lower, str.lower))),
    "initcap": Function((1, 1), typed(by_distinct, _TEXT, _TEXT, options=(_capitals, pa.string()))),
    **{name: Function((1, 1), _length_of) for name in ("length", "len", "char_length", "character_length")},
    "bit_length": Function((1, 1), typed(_bit_length, _INT, _TEXT)),
    "space": Function((1, 1), typed(by_distinct, _TEXT, _INT, options=(_spaces, pa.string()))),
    "octet_length": Function((1, 1), typed(pc.binary_length, _INT, _TEXT)),
    "reverse": Function((1, 1), _reverse),
    "btrim": Function((1, 2), _btrim),
    **{side: Function((1, 2), typed(_trim, _TEXT, _TEXT, options=(side,))) for side in _TRIMS},
    "substring": Function((2, 3), typed(_substring, _TEXT, _TEXT, _INT)),
    "left": Function((2, 2), by_text(_left, _TEXT, _TEXT, _INT)),
    "right": Function((2, 2), by_text(_right, _TEXT, _TEXT, _INT)),
    "replace": Function((2, 3), by_text(_replace, _TEXT, _TEXT)),
    "lpad": Function((2, 3), by_text(partial(_pad, left=True), _TEXT, _TEXT, _INT, _TEXT)),
    "rpad": Function((2, 3), by_text(partial(_pad, left=False), _TEXT, _TEXT, _INT, _TEXT)),
    "repeat": Function((2, 2), by_text(_repeat, _TEXT, _TEXT, _INT)),
    "locate": Function((2, 3), by_text(_position, _INT, _TEXT, _TEXT, _INT)),
    "instr": Function((2, 2), by_text(_instr, _INT, _TEXT)),
    "split_part": Function((3, 3), by_text(_split_part, _TEXT, _TEXT, _TEXT, _INT)),
    "concat": Function((1, ANY), _concat),
    "||": Function((2, 2), _concat),
    "concat_ws": Function((1, ANY), _concat_ws),
    "startswith": Function((2, 2), by_text(str.startswith, _BOOLEAN, _TEXT)),
    "endswith": Function((2, 2), by_text(str.endswith, _BOOLEAN, _TEXT)),
    "contains": Function((2, 2), by_text(operator.contains, _BOOLEAN, _TEXT)),
    "translate": Function((3, 3), by_text(_translate, _TEXT, _TEXT)),
    "md5": Function((1, 1), _digest(partial(_hex, name="md5"))),
    "sha1": Function((1, 1), _digest(partial(_hex, name="sha1"))),
    "sha2": Function((2, 2), _digest(_sha2)),
    "like": Function((2, 3), _like(False)),
    "ilike": Function((2, 3), _like(True)),
}
