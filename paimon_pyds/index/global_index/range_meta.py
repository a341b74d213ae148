"""What a manifest holds of a global index file besides the rows that it covers: its bounds, and the snapshot it is of.

    _INDEX_META: size of the first key int32 · first key · size of the last key int32 · last key · has NULLs u8
                 · version u8 = 1 · flags u8: 1 no first key, 2 no last key; old writers end before these two
    _SOURCE_META: "DEIX" · version int32 = 1 · snapshot id int64, big-endian

Integers are little-endian where nothing else is said. Source: Java Paimon 2.2, classes SortedIndexFileMeta and
DataEvolutionIndexSourceMeta.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from paimon_pyds.errors import CorruptFileError

SOURCE_MEMBER = "_SOURCE_META"
"""The member of a record of an index manifest that Java 1.4 does not have."""
_VERSION = 1
_NO_FIRST, _NO_LAST = 1, 2
_SOURCE = struct.Struct(">4siq")
_SOURCE_MAGIC = b"DEIX"


class KeyRange(NamedTuple):
    """The first and the last key of an index file, as bytes; None where all values are NULL."""

    first: bytes | None
    last: bytes | None
    has_nulls: bool


def read_key_range(data: bytes) -> KeyRange:
    """The bounds of an index file. Raises CorruptFileError: bytes that end early, or have more than they say."""
    first, at = _read_key(data, 0)
    last, at = _read_key(data, at)
    if at >= len(data):
        raise CorruptFileError("the bounds of a global index end early")
    has_nulls, rest = bool(data[at]), data[at + 1 :]
    if len(rest) >= 2 and rest[0] == _VERSION:
        return KeyRange(None if rest[1] & _NO_FIRST else first, None if rest[1] & _NO_LAST else last, has_nulls)
    if not rest and not first and not last and has_nulls:
        return KeyRange(None, None, True)
    return KeyRange(first, last, has_nulls)


def _read_key(data: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(data[at : at + 4], "little", signed=True)
    end = at + 4 + size
    if size < 0 or end > len(data):
        raise CorruptFileError(f"a key of {size} bytes in bounds of {len(data)} bytes")
    return data[at + 4 : end], end


def source_snapshot(data: bytes | None) -> int | None:
    """The snapshot whose rows the index has, where its writer said so."""
    if data is None or len(data) != _SOURCE.size:
        return None
    magic, version, snapshot = _SOURCE.unpack(data)
    return int(snapshot) if magic == _SOURCE_MAGIC and version == _VERSION else None


def write_key_range(bounds: KeyRange) -> bytes:
    """The bytes of the bounds of an index file."""
    out = bytearray()
    for key in bounds[:2]:
        out += len(key or b"").to_bytes(4, "little") + (key or b"")
    flags = _NO_FIRST * (bounds.first is None) | _NO_LAST * (bounds.last is None)
    return bytes(out + bytes([bounds.has_nulls, _VERSION, flags]))


def write_source(snapshot: int) -> bytes:
    """What says that an index has the rows of this snapshot."""
    return _SOURCE.pack(_SOURCE_MAGIC, _VERSION, snapshot)
