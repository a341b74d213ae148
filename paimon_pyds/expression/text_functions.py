"""Functions of texts, with Spark's rules: positions count code points from 1, only spaces are trimmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import ExpressionError, PredicateError
from paimon_pyds.expression.arrays import Datum, arrays, by_distinct, by_distinct_rows
from paimon_pyds.expression.nodes import Apply, Constant, Node
from paimon_pyds.expression.registry import ANY, Function, Resolve, typed
from paimon_pyds.predicate import casts
from paimon_pyds.predicate.like import like_parts, like_regex
from paimon_pyds.types import BINARY_KINDS, AtomicType, arrow_type

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Binder

__all__ = ["TEXT_FUNCTIONS"]

_INT, _TEXT, _BOOLEAN = casts.INT, casts.STRING, casts.BOOLEAN


def _cased(texts: pa.Array, simple: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> pa.Array:
    """Plain ASCII by Arrow, other texts by Unicode's full mapping (ß is SS), as Java does it."""
    if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
        return simple(texts)
    return by_distinct(texts, full, pa.string())


def _upper(texts: pa.Array) -> pa.Array:
    return _cased(texts, pc.ascii_upper, str.upper)


def _lower(texts: pa.Array) -> pa.Array:
    return _cased(texts, pc.ascii_lower, str.lower)


def _capitals(text: str) -> str:
    """Words are what spaces divide."""
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _initcap(texts: pa.Array) -> pa.Array:
    return by_distinct(texts, _capitals, pa.string())


def _length(values: pa.Array) -> pa.Array:
    found = pc.utf8_length(values) if pa.types.is_string(values.type) else pc.binary_length(values)
    return found.cast(pa.int32())


def _octets(values: pa.Array) -> pa.Array:
    return pc.binary_length(values).cast(pa.int32())


def _reverse(texts: pa.Array) -> pa.Array:
    return pc.utf8_reverse(texts)


_TRIMS: dict[str, tuple[Callable[..., pa.Array], Callable[[str, str], str]]] = {
    "trim": (pc.utf8_trim, str.strip), "ltrim": (pc.utf8_ltrim, str.lstrip), "rtrim": (pc.utf8_rtrim, str.rstrip),
}  # fmt: skip


def _trim(*arguments: Any) -> pa.Array:
    """Texts, perhaps the characters to trim, and the side."""
    texts, *characters, side = arguments
    kernel, strip = _TRIMS[side]
    if not characters:
        return kernel(texts, characters=" ")

    def stripped(text: str, some: str) -> str:
        return strip(text, some) if some else text

    return by_distinct_rows(stripped, pa.string(), *arrays((texts, *characters)))


def _substring(texts: Datum, start: Datum, length: Datum | None = None) -> pa.Array:
    fixed = isinstance(start, pa.Scalar) and (length is None or isinstance(length, pa.Scalar))
    if fixed and start.is_valid and start.as_py() >= 0 and (length is None or length.is_valid):
        first = max(start.as_py() - 1, 0)
        last = None if length is None else first + max(length.as_py(), 0)
        return pc.utf8_slice_codeunits(texts, first, last)
    given = [texts, start] if length is None else [texts, start, length]
    return by_distinct_rows(_substring_of, pa.string(), *arrays(given))


def _substring_of(text: str, start: int, length: int = 2**31) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _left(text: str, length: int) -> str:
    return text[: max(length, 0)]


def _right(text: str, length: int) -> str:
    return text[len(text) - length :] if 0 < length < len(text) else text if length > 0 else ""


def _replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


def _pad(text: str, length: int, filling: str, left: bool) -> str:
    missing = length - len(text)
    if missing <= 0 or not filling:
        return text[: max(length, 0)]
    added = (filling * (missing // len(filling) + 1))[:missing]
    return added + text if left else text + added


def _lpad(text: str, length: int, filling: str = " ") -> str:
    return _pad(text, length, filling, True)


def _rpad(text: str, length: int, filling: str = " ") -> str:
    return _pad(text, length, filling, False)


def _repeat(text: str, times: int) -> str:
    if len(text) * max(times, 0) > 1 << 26:
        raise ExpressionError(f"repeat would make a text of {len(text) * times:,} characters")
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


def _by_text(function: Callable[..., Any], result: AtomicType, *wanted: AtomicType) -> Resolve:
    """A function of Python texts; its arguments are taken to fixed types."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.coerce(a, wanted[min(n, len(wanted) - 1)]) for n, a in enumerate(arguments)]
        return Apply(result, _python, tuple(given), (function, arrow_type(result)))

    return resolve


def _python(*arguments: Any) -> pa.Array:
    """Columns, the function of Python texts, and the type of its results."""
    *data, function, type_ = arguments
    return by_distinct_rows(function, type_, *arrays(data))


# ------------------------------------------------------------------------------------------------------------ joining


def _concat(binder: Binder, arguments: list[Node]) -> Node:
    if all(node.type is not None and node.type.kind in BINARY_KINDS for node in arguments):
        return Apply(casts.BYTES, _joined, tuple(arguments))
    return Apply(_TEXT, _joined, tuple(binder.coerce(node, _TEXT) for node in arguments))


def _joined(*data: Datum) -> pa.Array:
    columns = arrays(data)
    return pc.binary_join_element_wise(
        *columns, pa.scalar("" if columns[0].type == pa.string() else b"", columns[0].type)
    )


def _concat_ws(binder: Binder, arguments: list[Node]) -> Node:
    return Apply(_TEXT, _joined_with, tuple(binder.coerce(node, _TEXT) for node in arguments))


def _joined_with(separator: Datum, *data: Datum) -> pa.Array:
    """NULLs are left out."""
    between, *columns = arrays([separator, *data])
    if not columns:
        return pc.if_else(between.is_valid(), "", pa.scalar(None, pa.string()))
    found = pc.binary_join_element_wise(*columns, between.fill_null(""), null_handling="skip")
    return pc.if_else(between.is_valid(), found, pa.scalar(None, pa.string()))


# ----------------------------------------------------------------------------------------------------------- patterns


def _like(fold: bool) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        text, pattern, *rest = (binder.coerce(node, _TEXT) for node in arguments)
        escape = rest[0].value.as_py() if rest and isinstance(rest[0], Constant) else "\\"
        if not isinstance(pattern, Constant):
            raise LookupError("the pattern must be a literal")
        found = pattern.value.as_py()
        if found is None:
            return Constant(_BOOLEAN, pa.scalar(None, pa.bool_()))
        like_parts(found, escape)
        return Apply(_BOOLEAN, _matches, (text,), (like_regex(found, escape), fold))

    return resolve


def _matches(texts: pa.Array, regex: str, fold: bool) -> pa.Array:
    return pc.match_substring_regex(texts, pattern=regex, ignore_case=fold)


def _rlike(binder: Binder, arguments: list[Node]) -> Node:
    """RE2's syntax, which is Java's but for look-around and back references."""
    text, pattern = (binder.coerce(node, _TEXT) for node in arguments)
    if not isinstance(pattern, Constant):
        raise LookupError("the pattern must be a literal")
    if not pattern.value.is_valid:
        return Constant(_BOOLEAN, pattern.value.cast(pa.bool_()))
    try:
        _matches(pa.array([""]), pattern.value.as_py(), False)
    except pa.ArrowInvalid as error:
        raise PredicateError(f"the pattern is not supported: {str(error).splitlines()[0]}") from None
    return Apply(_BOOLEAN, _matches, (text,), (pattern.value.as_py(), False))


def _starts(text: str, part: str) -> bool:
    return text.startswith(part)


def _ends(text: str, part: str) -> bool:
    return text.endswith(part)


def _contains(text: str, part: str) -> bool:
    return part in text


def _length_of(binder: Binder, arguments: list[Node]) -> Node:
    node = arguments[0]
    binary = node.type is not None and node.type.kind in BINARY_KINDS
    return Apply(_INT, _length, (node if binary else binder.coerce(node, _TEXT),))


def _trimming(side: str) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        return Apply(_TEXT, _trim, tuple(binder.coerce(node, _TEXT) for node in arguments), (side,))

    return resolve


TEXT_FUNCTIONS: dict[str, Function] = {
    "upper": Function((1, 1), typed(_upper, _TEXT, _TEXT)),
    "ucase": Function((1, 1), typed(_upper, _TEXT, _TEXT)),
    "lower": Function((1, 1), typed(_lower, _TEXT, _TEXT)),
    "lcase": Function((1, 1), typed(_lower, _TEXT, _TEXT)),
    "initcap": Function((1, 1), typed(_initcap, _TEXT, _TEXT)),
    **{name: Function((1, 1), _length_of) for name in ("length", "len", "char_length", "character_length")},
    "octet_length": Function((1, 1), typed(_octets, _INT, _TEXT)),
    "reverse": Function((1, 1), typed(_reverse, _TEXT, _TEXT)),
    "trim": Function((1, 2), _trimming("trim")),
    "btrim": Function((1, 2), _trimming("trim")),
    "ltrim": Function((1, 2), _trimming("ltrim")),
    "rtrim": Function((1, 2), _trimming("rtrim")),
    "substring": Function((2, 3), typed(_substring, _TEXT, _TEXT, _INT)),
    "substr": Function((2, 3), typed(_substring, _TEXT, _TEXT, _INT)),
    "left": Function((2, 2), _by_text(_left, _TEXT, _TEXT, _INT)),
    "right": Function((2, 2), _by_text(_right, _TEXT, _TEXT, _INT)),
    "replace": Function((2, 3), _by_text(_replace, _TEXT, _TEXT)),
    "lpad": Function((2, 3), _by_text(_lpad, _TEXT, _TEXT, _INT, _TEXT)),
    "rpad": Function((2, 3), _by_text(_rpad, _TEXT, _TEXT, _INT, _TEXT)),
    "repeat": Function((2, 2), _by_text(_repeat, _TEXT, _TEXT, _INT)),
    "locate": Function((2, 3), _by_text(_position, _INT, _TEXT, _TEXT, _INT)),
    "position": Function((2, 3), _by_text(_position, _INT, _TEXT, _TEXT, _INT)),
    "instr": Function((2, 2), _by_text(_instr, _INT, _TEXT)),
    "split_part": Function((3, 3), _by_text(_split_part, _TEXT, _TEXT, _TEXT, _INT)),
    "concat": Function((1, ANY), _concat),
    "||": Function((2, 2), _concat),
    "concat_ws": Function((1, ANY), _concat_ws),
    "like": Function((2, 3), _like(False)),
    "ilike": Function((2, 3), _like(True)),
    "rlike": Function((2, 2), _rlike),
    "startswith": Function((2, 2), _by_text(_starts, _BOOLEAN, _TEXT)),
    "endswith": Function((2, 2), _by_text(_ends, _BOOLEAN, _TEXT)),
    "contains": Function((2, 2), _by_text(_contains, _BOOLEAN, _TEXT)),
}
