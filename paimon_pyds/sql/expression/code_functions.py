"""Functions between texts, bytes and the numbers that stand for them: character codes, hexadecimal digits, base 64."""

from __future__ import annotations

import base64
import binascii
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, scalar
from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.types import AtomicType, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import arrays, by_distinct, filled, valid
from paimon_pyds.sql.expression.text_functions import by_text, substring_of
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _LONG, _TEXT, _BYTES = tree.INT, tree.LONG, tree.STRING, tree.BYTES
_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16", "UTF-32": "utf-32-be",
}  # fmt: skip
"""The names that Spark takes, and Python's."""


_NOT_BASE64 = re.compile("[^A-Za-z0-9+/=]")


def _distinct(function: Any, result: AtomicType, wanted: AtomicType) -> Resolve:
    """A Python function of each distinct value."""
    return typed(by_distinct, result, wanted, options=(function, arrow_type(result)))


def _bytes_of(binder: Binder, node: Node) -> Node:
    """Bytes, or a text as UTF-8. Raises LookupError."""
    if node.type is not None and node.type.kind not in BINARY_KINDS | STRING_KINDS:
        raise LookupError(f"a text or bytes are wanted, not a {type_text(node.type)}")
    return binder.cast(node, _BYTES)


def _of_bytes(function: Any, result: AtomicType) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        return Apply(result, by_distinct, (_bytes_of(binder, arguments[0]),), (function, arrow_type(result)))

    return resolve


def _hex(binder: Binder, arguments: list[Node]) -> Node:
    """Of a number its 64 bits without zeros before them, of texts and bytes two digits a byte."""
    node = arguments[0]
    if node.type is not None and node.type.kind in BINARY_KINDS | STRING_KINDS:
        return _of_bytes(_hex_bytes, _TEXT)(binder, arguments)
    return _distinct(_hex_number, _TEXT, _LONG)(binder, arguments)


def _hex_bytes(data: bytes) -> str:
    return data.hex().upper()


def _hex_number(number: int) -> str:
    return f"{number & 0xFFFFFFFFFFFFFFFF:X}"


def _binary_digits(number: int) -> str:
    return f"{number & 0xFFFFFFFFFFFFFFFF:b}"


def _unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}") if text.isalnum() or not text else None
    except ValueError:
        return None


def _ascii(text: str) -> int:
    return ord(text[0]) if text else 0


def _char(number: int) -> str:
    """The character of a code, of which the last eight bits count."""
    return "" if number < 0 else chr(number & 0xFF)


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    """As Java's decoder for mails: other characters are passed over."""
    digits = _NOT_BASE64.sub("", text).rstrip("=")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4))
    except binascii.Error:
        raise ExpressionError(
            f"{text!r:.40} is not in base 64", hint="write letters, digits, +, / and = only"
        ) from None


def _charset(node: Node) -> str:
    name = node.value.as_py() if isinstance(node, Constant) else None
    found = _CHARSETS.get(str(name).upper())
    if found is None:
        raise LookupError(f"{name!r:.40} is no character set; there are {', '.join(_CHARSETS)}")
    return found


def _encode(binder: Binder, arguments: list[Node]) -> Node:
    charset = _charset(arguments[1])
    return _distinct(partial(_encoded, charset=charset), _BYTES, _TEXT)(binder, arguments[:1])


def _encoded(text: str, charset: str) -> bytes:
    try:
        return (b"\xfe\xff" + text.encode("utf-16-be")) if charset == "utf-16" else text.encode(charset)
    except UnicodeEncodeError:
        raise ExpressionError(f"{text!r:.40} has characters that {charset} has not") from None


def _decode(binder: Binder, arguments: list[Node]) -> Node:
    """Of two arguments the text of some bytes; of more a choice by what the first one equals."""
    if len(arguments) > 2:
        return _chosen(binder, arguments)
    charset = _charset(arguments[1])
    return _of_bytes(partial(_decoded, charset=charset), _TEXT)(binder, arguments[:1])


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset)
    except UnicodeDecodeError:
        raise ExpressionError(f"{data[:20].hex()} are no bytes of {charset}") from None


def _chosen(binder: Binder, arguments: list[Node]) -> Node:
    value, *rest = arguments
    otherwise = rest.pop() if len(rest) % 2 else Constant(None, scalar(None))
    conditions = [binder.call("<=>", [value, wanted]) for wanted in rest[::2]]
    return binder.choice(conditions, [*rest[1::2], otherwise])


def _elt(binder: Binder, arguments: list[Node]) -> Node:
    """The argument of a number, from 1."""
    given = (binder.coerce(arguments[0], _INT), *(binder.coerce(node, _TEXT) for node in arguments[1:]))
    return Apply(_TEXT, _argument_at, given)


def _argument_at(*data: Any) -> pa.Array:
    number, *columns = arrays(data)
    at, there = filled(number).astype(np.int64), valid(number)
    if (there & ((at < 1) | (at > len(columns)))).any():
        raise ExpressionError(f"elt takes numbers from 1 to {len(columns)}")
    rows = np.arange(len(number))
    places = np.where(there, (at - 1) * len(number) + rows, 0)
    return pa.concat_arrays(columns).take(array(places, mask=~there))


def _find_in_set(word: str, texts: str) -> int:
    """The place of a word among those that commas divide, from 1; 0 where it is not there."""
    words = texts.split(",")
    return words.index(word) + 1 if word in words else 0


def _substring_index(text: str, separator: str, count: int) -> str:
    """What stands before a number of separators, counted from the end where it is negative."""
    if not separator or not count:
        return ""
    parts = text.split(separator) if count > 0 else text.rsplit(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _overlay(text: str, new: str, position: int, length: int = -1) -> str:
    taken = length if length >= 0 else len(new)
    return text[: max(position - 1, 0)] + new + substring_of(text, position + taken)


def _levenshtein(first: str, second: str, most: int | None = None) -> int:
    """How many characters are to be put in, taken away or replaced; -1 where it is more than ``most``."""
    row = list(range(len(second) + 1))
    for number, char in enumerate(first, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(second, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (char != other))
    return row[-1] if most is None or row[-1] <= most else -1


CODE_FUNCTIONS: dict[str, Function] = {
    "ascii": Function((1, 1), _distinct(_ascii, _INT, _TEXT)),
    "chr": Function((1, 1), _distinct(_char, _TEXT, _LONG)),
    "hex": Function((1, 1), _hex),
    "unhex": Function((1, 1), _distinct(_unhex, _BYTES, _TEXT)),
    "bin": Function((1, 1), _distinct(_binary_digits, _TEXT, _LONG)),
    "base64": Function((1, 1), _of_bytes(_to_base64, _TEXT)),
    "unbase64": Function((1, 1), _distinct(_from_base64, _BYTES, _TEXT)),
    "encode": Function((2, 2), _encode),
    "decode": Function((2, 1000), _decode),
    "crc32": Function((1, 1), _of_bytes(crc32, _LONG)),
    "elt": Function((2, 1000), _elt),
    "find_in_set": Function((2, 2), by_text(_find_in_set, _INT, _TEXT)),
    "substring_index": Function((3, 3), by_text(_substring_index, _TEXT, _TEXT, _TEXT, _INT)),
    "overlay": Function((3, 4), by_text(_overlay, _TEXT, _TEXT, _TEXT, _INT)),
    "levenshtein": Function((2, 3), by_text(_levenshtein, _INT, _TEXT, _TEXT, _INT)),
}
