"""Entries and the index of ``.blob`` files, as pure functions.

    entry    int32 magic | payload | int64 length of the whole entry | uint32 CRC-32 of all before it
    index    the length of each row's entry as a zigzag varint of its difference to the one before it
    end      int32 bytes of the index | 1

Numbers are little-endian. `NULL` and `PLACEHOLDER` stand in the index for rows without an entry. Source: files of
pypaimon 2.1 and Java Paimon 2.1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from paimon_pyds.base.arrays import Int64s, unaligned_words
from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.varints import LONGER, unsigned_varints, varint_values, zigzag_decoded
from paimon_pyds.errors import CorruptFileError

MAGIC = struct.pack("<i", 1481511375)
HEAD_BYTES = 4
"""Bytes of an entry before its payload."""
OVERHEAD_BYTES = 16
"""Bytes of an entry that are not of its payload."""
END_BYTES = 5
NULL, PLACEHOLDER = -1, -2
"""Lengths in the index: the row's value is NULL; the file says nothing of the row, and older files do."""
_VERSION = 1
_PADDING = bytes(8)
_LONGEST = 1 << 48
"""Bytes of an entry at most: more has no file, and sums of lengths must stay below 2^63."""


def encode_ends(size: int) -> tuple[bytes, bytes]:
    """The bytes before and after a payload of this size, without the checksum."""
    return MAGIC, struct.pack("<q", size + OVERHEAD_BYTES)


def encode_entry(payload: bytes | memoryview) -> tuple[bytes, bytes | memoryview, bytes]:
    """What an entry consists of: head, payload, tail."""
    length = struct.pack("<q", len(payload) + OVERHEAD_BYTES)
    crc = crc32(length, crc32(payload, crc32(MAGIC)))
    return MAGIC, payload, length + struct.pack("<I", crc)


def payload_of(entry: memoryview, path: object, offset: int) -> memoryview:
    """The payload of an entry, checked. ``offset``: of the entry in its file, for errors. Raises CorruptFileError."""
    size = len(entry)
    if size < OVERHEAD_BYTES or entry[:HEAD_BYTES] != MAGIC:
        raise CorruptFileError("no entry begins here", path=path, offset=offset, field="magic")
    length, crc = struct.unpack("<qI", entry[size - 12 :])
    if length != size:
        raise CorruptFileError(
            f"an entry of {size} bytes says it has {length}", path=path, offset=offset, field="length"
        )
    if crc32(entry[: size - 4]) != crc:
        raise CorruptFileError("the checksum of an entry is wrong", path=path, offset=offset, field="crc")
    return entry[HEAD_BYTES : size - 12]


def encode_end(lengths: Sequence[int] | Int64s) -> bytes:
    """Index and end of a file whose rows have entries of these lengths, `NULL` or `PLACEHOLDER`."""
    index = encode_lengths(lengths)
    return index + struct.pack("<ib", len(index), _VERSION)


def index_size(end: bytes, size: int, path: object) -> int:
    """Bytes of the index, by the last bytes of a file of ``size`` bytes. Raises CorruptFileError."""
    if len(end) < END_BYTES or size < END_BYTES:
        raise CorruptFileError("the file is too short", path=path, field="end")
    length, version = struct.unpack("<ib", end[-END_BYTES:])
    if version != _VERSION:
        raise CorruptFileError(f"the file is of version {version}, not {_VERSION}", path=path, field="version")
    if not 0 <= length <= size - END_BYTES:
        raise CorruptFileError(f"an index of {length} bytes in a file of {size}", path=path, field="index length")
    return int(length)


def decode_index(index: bytes, size: int, path: object) -> tuple[Int64s, Int64s]:
    """The lengths in an index, and where each row's entry begins. ``size``: of the file. Raises CorruptFileError."""
    lengths = decode_lengths(index, path)
    if (
        (lengths < PLACEHOLDER).any()
        or ((lengths >= 0) & (lengths < OVERHEAD_BYTES)).any()
        or (lengths > _LONGEST).any()
    ):
        raise CorruptFileError("the index has a length that no entry has", path=path, field="index")
    ends = np.cumsum(np.maximum(lengths, 0))
    total = int(ends[-1]) if len(ends) else 0
    if total + len(index) + END_BYTES != size:
        raise CorruptFileError(
            f"the index has entries of {total} bytes, and the file has {size - len(index) - END_BYTES}",
            path=path, field="index",
        )  # fmt: skip
    return lengths, ends - np.maximum(lengths, 0)


def encode_lengths(lengths: Sequence[int] | Int64s) -> bytes:
    """Numbers as zigzag varints of their differences, the first to 0."""
    values = np.asarray(lengths, np.int64)
    differences = np.diff(values, prepend=np.int64(0))
    encoded = varint_values(((differences << 1) ^ (differences >> 63)).view(np.uint64))
    data = encoded.buffers()[2] if len(encoded) else None
    return b"" if data is None else bytes(data)


def decode_lengths(data: bytes | memoryview, path: object) -> Int64s:
    """The numbers that `encode_lengths` got. Raises CorruptFileError: one does not end, or is too long."""
    octets = np.frombuffer(bytes(data) + _PADDING, np.uint8)
    ends = np.flatnonzero(octets[: len(data)] < 0x80) + 1
    if len(data) and (not len(ends) or ends[-1] != len(data)):
        raise CorruptFileError("the last number does not end", path=path, field="index")
    starts = np.append(0, ends[:-1])[: len(ends)]
    numbers, sizes = unsigned_varints(unaligned_words(octets)[starts])
    if (sizes == LONGER).any():
        raise CorruptFileError("a number has more than 56 bits", path=path, field="index")
    differences = zigzag_decoded(numbers)
    found = np.cumsum(differences)
    if len(found) and np.abs(np.cumsum(differences.astype(np.float64))).max() > 2.0**62:
        raise CorruptFileError("a number has more than 62 bits", path=path, field="index")
    return found
