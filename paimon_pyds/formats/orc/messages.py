"""Protocol Buffers messages, of which an ORC file's tail and stripe footers are made: fields one after the other.

Source: Protocol Buffers, Encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from paimon_pyds.errors import CorruptFileError

__all__ = [
    "Field",
    "as_bytes",
    "as_number",
    "as_numbers",
    "numbers_of",
    "read_message",
    "read_varint",
    "unzigzag",
    "varint",
    "write_message",
]

Field: TypeAlias = "tuple[int, int, int | bytes]"
"""Number, wire type, and value: whole numbers for varints (0) and fixed words (1, 5), bytes for the rest (2)."""

_FIXED = {1: 8, 5: 4}


def read_varint(data: bytes, at: int, path: object = None) -> tuple[int, int]:
    """The number of 64 bits that begins at a place, and the place behind it. Raises CorruptFileError."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise CorruptFileError("a number runs over its end", path=path, offset=at, field="varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7


def varint(value: int) -> bytes:
    """The bytes of a number from 0 up."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def unzigzag(value: int) -> int:
    """The signed number of a varint whose lowest bit is the sign."""
    return (value >> 1) ^ -(value & 1)


def read_message(data: bytes, path: object = None) -> Iterator[Field]:
    """The fields of a message. Raises CorruptFileError."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at, path)
        wire = tag & 7
        if wire == 0:
            value, at = read_varint(data, at, path)
            yield tag >> 3, wire, value
            continue
        length = _FIXED.get(wire)
        if wire == 2:
            length, at = read_varint(data, at, path)
        if length is None or length > len(data) - at:
            raise CorruptFileError("a field runs over its end", path=path, offset=at, field=f"field {tag >> 3}")
        part = data[at : at + length]
        yield tag >> 3, wire, part if wire == 2 else int.from_bytes(part, "little")
        at += length


def numbers_of(value: int | bytes, path: object, name: str) -> dict[int, int]:
    """The fields of a message inside another one, all of which must be numbers. Raises CorruptFileError."""
    return {number: as_number(v, path, name) for number, _, v in read_message(as_bytes(value, path, name), path)}


def write_message(fields: Iterable[Field]) -> bytes:
    """The bytes of a message."""
    out: list[bytes] = []
    for number, wire, value in fields:
        out.append(varint(number << 3 | wire))
        if isinstance(value, bytes):
            out += [varint(len(value)), value]
        else:
            out.append(value.to_bytes(_FIXED[wire], "little") if wire in _FIXED else varint(value))
    return b"".join(out)


def as_number(value: int | bytes, path: object, name: str) -> int:
    """A field's value, which must be a number. Raises CorruptFileError."""
    if isinstance(value, int):
        return value
    raise CorruptFileError("bytes where a number belongs", path=path, field=name)


def as_bytes(value: int | bytes, path: object, name: str) -> bytes:
    """A field's value, which must be bytes. Raises CorruptFileError."""
    if isinstance(value, bytes):
        return value
    raise CorruptFileError("a number where bytes belong", path=path, field=name)


def as_numbers(value: int | bytes, path: object) -> list[int]:
    """The values of a repeated number, packed or not. Raises CorruptFileError."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = read_varint(value, at, path)
        numbers.append(number)
    return numbers
