"""Thrift's compact protocol: the encoding of Parquet's footers, page headers and page indexes.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md. A struct is decoded to a dict of field id → ``(wire type,
value)``, so that it can be written back unchanged, fields unknown to us included:

    BOOL True/False · BYTE … I64 int · DOUBLE float · BINARY bytes · LIST, SET (element wire type, list of values)
    MAP (key wire type, value wire type, list of pairs) · STRUCT dict

Decoding distrusts its input: depth is limited, every element takes at least one byte of input so that a claimed size
costs nothing, and reading past the end is a CorruptFileError.

Footers and page indexes, where a flipped bit may lose rows, get a checksum here, which Parquet has none for. It keeps
field 32767 of every struct, of type binary, for extensions: readers that don't know one skip it, and the extension ends
with a UUID that names it. Ours is the last field, and holds the checksum (uint32, little-endian) of the bytes before it
(apache/parquet-format, BinaryProtocolExtensions.md).
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from paimon_pyds.base.checksums import checksum
from paimon_pyds.base.varints import cached_varint, unzigzag, write_varint
from paimon_pyds.errors import CorruptFileError

BOOL_TRUE, BOOL_FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 32
"""Levels of nested values: Parquet's own metadata has fewer."""
_DOUBLE = _struct.Struct("<d")

Struct: TypeAlias = dict[int, tuple[int, Any]]


def varint(data: bytes, pos: int) -> tuple[int, int]:
    """An unsigned LEB128 number of at most 64 bits and the position after it. IndexError past the end."""
    byte = data[pos]
    pos += 1
    if byte < 0x80:
        return byte, pos
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 63:
            raise CorruptFileError("a number of more than ten bytes", offset=pos, field="varint")


def decode_struct(data: bytes, pos: int = 0) -> tuple[Struct, int]:
    """The struct that begins at ``pos``, and the position after it.

    Raises:
        CorruptFileError: the bytes end early, nest too deeply, or hold a type that does not exist. ``offset`` counts
            from the start of ``data``.
    """
    try:
        return _read_struct(data, pos, 0)
    except IndexError:
        raise CorruptFileError("a Thrift struct is cut off", offset=pos, field="struct") from None


def _too_deep(pos: int) -> CorruptFileError:
    return CorruptFileError(f"values nested deeper than {_MAX_DEPTH} levels", offset=pos, field="struct")


def _read_struct(data: bytes, pos: int, depth: int) -> tuple[Struct, int]:
    fields: Struct = {}
    field_id = 0
    while True:
        head = data[pos]
        pos += 1
        if head == 0:
            return fields, pos
        wire = head & 0x0F
        if head >> 4:
            field_id += head >> 4
        else:
            raw, pos = varint(data, pos)
            field_id = unzigzag(raw)
        if I16 <= wire <= I64:
            byte = data[pos]
            if byte < 0x80:
                pos += 1
                fields[field_id] = (wire, (byte >> 1) ^ -(byte & 1))
            else:
                raw, pos = varint(data, pos)
                fields[field_id] = (wire, (raw >> 1) ^ -(raw & 1))
        elif BOOL_TRUE <= wire <= BOOL_FALSE:
            fields[field_id] = (wire, wire == BOOL_TRUE)
        else:
            value, pos = _read_value(data, pos, wire, depth)
            fields[field_id] = (wire, value)


def _read_value(data: bytes, pos: int, wire: int, depth: int) -> tuple[Any, int]:
    """A value outside a field header, where booleans take a byte."""
    if depth > _MAX_DEPTH:
        raise _too_deep(pos)
    if wire == BINARY:
        length, pos = varint(data, pos)
        stop = pos + length
        if stop > len(data):
            raise CorruptFileError(f"{length} bytes claimed, {len(data) - pos} left", offset=pos, field="binary")
        return data[pos:stop], stop
    if wire == STRUCT:
        return _read_struct(data, pos, depth + 1)
    if I16 <= wire <= I64:
        raw, pos = varint(data, pos)
        return unzigzag(raw), pos
    if wire in (LIST, SET):
        return _read_list(data, pos, depth + 1)
    if wire == MAP:
        return _read_map(data, pos, depth + 1)
    if wire in (BOOL_TRUE, BOOL_FALSE):
        return data[pos] == 1, pos + 1
    if wire == I8:
        return data[pos] - 256 if data[pos] > 127 else data[pos], pos + 1
    if wire == DOUBLE:
        if pos + 8 > len(data):
            raise IndexError
        return _DOUBLE.unpack_from(data, pos)[0], pos + 8
    raise CorruptFileError(f"there is no Thrift type {wire}", offset=pos, field="type")


def _read_list(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    element, size, pos = list_head(data, pos)
    values = []
    for _ in range(size):
        value, pos = _read_value(data, pos, element, depth)
        values.append(value)
    return (element, values), pos


def _read_map(data: bytes, pos: int, depth: int) -> tuple[Any, int]:
    size, pos = varint(data, pos)
    if size == 0:
        return (0, 0, []), pos
    types = data[pos]
    pos += 1
    if size > len(data) - pos:
        raise CorruptFileError(f"a map of {size} entries, {len(data) - pos} bytes left", offset=pos, field="map")
    pairs = []
    for _ in range(size):
        key, pos = _read_value(data, pos, types >> 4, depth)
        value, pos = _read_value(data, pos, types & 0x0F, depth)
        pairs.append((key, value))
    return (types >> 4, types & 0x0F, pairs), pos


# These four raise IndexError past the end of the data: their caller knows what was cut off.


def field_head(data: bytes, pos: int, last_id: int) -> tuple[int, int, int]:
    """Wire type, field id and position of the value of the field at ``pos``; wire type 0 ends the struct."""
    head = data[pos]
    if head == 0 or head >> 4:
        return head & 0x0F, last_id + (head >> 4), pos + 1
    raw, pos = varint(data, pos + 1)
    return head & 0x0F, unzigzag(raw), pos


def list_head(data: bytes, pos: int) -> tuple[int, int, int]:
    """Element type, size, position after the head of a list. Every element takes a byte at least."""
    head = data[pos]
    pos += 1
    size = head >> 4
    if size == 15:
        size, pos = varint(data, pos)
    if size > len(data) - pos:
        raise CorruptFileError(f"a list of {size} elements, {len(data) - pos} bytes left", offset=pos, field="list")
    return head & 0x0F, size, pos


def skip_field(data: bytes, pos: int, wire: int) -> int:
    """The position after a field's value at ``pos``."""
    return pos if wire in (BOOL_TRUE, BOOL_FALSE) else _skip_value(data, pos, wire, 0)


def skip_struct(data: bytes, pos: int, depth: int = 0) -> int:
    """The position after the struct at ``pos``, nested in ``depth`` others, at a fraction of a decoding's cost."""
    if depth > _MAX_DEPTH:
        raise _too_deep(pos)
    while True:
        head = data[pos]
        pos += 1
        if head == 0:
            return pos
        if head < 0x10:  # the field id follows in full
            while data[pos] >= 0x80:
                pos += 1
            pos += 1
        wire = head & 0x0F
        if I16 <= wire <= I64:
            while data[pos] >= 0x80:
                pos += 1
            pos += 1
        elif wire == BINARY:
            length = data[pos]
            if length < 0x80:
                pos += length + 1
            else:
                length, pos = varint(data, pos)
                pos += length
        elif wire == STRUCT:
            pos = skip_struct(data, pos, depth + 1)
        elif wire != BOOL_TRUE and wire != BOOL_FALSE:
            pos = _skip_value(data, pos, wire, depth)


def _skip_binary(data: bytes, pos: int, _depth: int) -> int:
    length = data[pos]
    if length < 0x80:
        return pos + length + 1
    length, pos = varint(data, pos)
    return pos + length


def _skip_value(data: bytes, pos: int, wire: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise _too_deep(pos)
    if wire == STRUCT:
        return skip_struct(data, pos, depth + 1)
    if wire in (LIST, SET):
        element, size, pos = list_head(data, pos)
        if I16 <= element <= I64:
            for _ in range(size):
                while data[pos] >= 0x80:
                    pos += 1
                pos += 1
            return pos
        skip = skip_struct if element == STRUCT else _skip_binary if element == BINARY else None
        if skip is not None:
            for _ in range(size):
                pos = skip(data, pos, depth + 2)
            return pos
        for _ in range(size):
            pos = _skip_value(data, pos, element, depth + 1)
        return pos
    if wire == BINARY:
        return _skip_binary(data, pos, depth)
    # Other types are rare in Parquet, or short: decoding a value skips it.
    return int(_read_value(data, pos, wire, depth + 1)[1])


def encode_struct(fields: Struct) -> bytes:
    """The bytes of a struct; fields in ascending order of their ids."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def raw_struct(fields: Mapping[int, tuple[int, bytes]]) -> bytes:
    """The bytes of a struct of values that are encoded already, as after the heads of their fields."""
    out, last = bytearray(), 0
    for field_id in sorted(fields):
        wire, value = fields[field_id]
        _write_head(out, field_id, last, wire)
        out += value
        last = field_id
    out.append(0)
    return bytes(out)


def list_start(element: int, size: int) -> bytes:
    """What `list_head` reads: the head of a list of ``size`` elements of this type."""
    return bytes([size << 4 | element]) if size < 15 else bytes([0xF0 | element]) + cached_varint(size)


def _write_head(out: bytearray, field_id: int, last: int, wire: int) -> None:
    if 0 < field_id - last <= 15:
        out.append((field_id - last) << 4 | wire)
    else:
        out.append(wire)
        write_varint(out, field_id << 1 if field_id >= 0 else ~(field_id << 1))


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field_id in sorted(fields):
        wire, value = fields[field_id]
        if wire in (BOOL_TRUE, BOOL_FALSE):
            wire = BOOL_TRUE if value else BOOL_FALSE
        _write_head(out, field_id, last, wire)
        last = field_id
        if wire > BOOL_FALSE:
            _write_value(out, wire, value)
    out.append(0)


def _write_list(out: bytearray, element: int, values: Sequence[Any]) -> None:
    out += list_start(element, len(values))
    if element == BINARY:
        out += b"".join([part for value in values for part in (cached_varint(len(value)), value)])
        return
    for item in values:
        _write_value(out, element, item)


def _write_value(out: bytearray, wire: int, value: Any) -> None:
    if I16 <= wire <= I64:
        write_varint(out, value << 1 if value >= 0 else ~(value << 1))
    elif wire == BINARY:
        write_varint(out, len(value))
        out += value
    elif wire == STRUCT:
        _write_struct(out, value)
    elif wire in (LIST, SET):
        _write_list(out, *value)
    elif wire == MAP:
        key_type, value_type, pairs = value
        write_varint(out, len(pairs))
        if pairs:
            out.append(key_type << 4 | value_type)
        for key, item in pairs:
            _write_value(out, key_type, key)
            _write_value(out, value_type, item)
    elif wire in (BOOL_TRUE, BOOL_FALSE):
        out.append(1 if value else 2)
    elif wire == I8:
        out.append(value & 0xFF)
    elif wire == DOUBLE:
        out += _DOUBLE.pack(value)
    else:
        raise ValueError(f"there is no Thrift type {wire}")


_CHECKSUM_FIELD = 32_767
"""Field id of the extension that holds the checksum: the one that parquet-format reserves for extensions."""
_CHECKSUM_UUID = bytes.fromhex("6f1d5b0e9c7a4c0f8a53c1f2b7e4d690")
_CHECKSUM_HEAD = encode_struct({_CHECKSUM_FIELD: (BINARY, bytes(4) + _CHECKSUM_UUID)})[: -4 - len(_CHECKSUM_UUID) - 1]
_CHECKSUM_BYTES = len(_CHECKSUM_HEAD) + 4 + len(_CHECKSUM_UUID) + 1


def _checksum_field(body: bytes) -> bytes:
    """The last field of a struct whose other fields are ``body``, and the stop byte."""
    return b"".join([_CHECKSUM_HEAD, checksum(body).to_bytes(4, "little"), _CHECKSUM_UUID, b"\0"])


def with_checksum(message: bytes) -> bytes:
    """A struct with the checksum of its other fields at the end."""
    return message[:-1] + _checksum_field(message[:-1])


def check_struct(message: bytes, name: str) -> bool:
    """Compare a struct with its checksum, where it has one. Returns whether it has; raises CorruptFileError."""
    end = message[-_CHECKSUM_BYTES - 8 :]
    # Damage to the UUID is no reason to believe the rest: one half of it is enough.
    has_checksum = _CHECKSUM_UUID[:8] in end or _CHECKSUM_UUID[8:] in end
    if has_checksum and not message.endswith(_checksum_field(message[:-_CHECKSUM_BYTES])):
        raise CorruptFileError("the bytes do not have their checksum", field=name)
    return has_checksum
