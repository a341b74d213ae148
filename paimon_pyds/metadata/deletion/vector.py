"""Deletion vectors: the deleted rows of data files, in the files that hold several of them.

Specification: Paimon documentation, concepts/spec/tableindex, "Deletion Vectors":

    version u8 = 1, then per vector: length int32 · magic and bitmap, ``length`` bytes · CRC-32 of those bytes int32
    32-bit: magic int32 = 1581511376 · RoaringBitmap
    64-bit: magic int32 little-endian = 1681511377 · bitmaps int64 little-endian ·
            per bitmap: high half of its positions int32 little-endian · RoaringBitmap

Integers are big-endian where nothing else is said. A range of the index manifest points at the length field. As Java
Paimon writes it, its own length is that of magic and bitmap for a 32-bit vector, and 8 bytes more (length field and CRC
included) for a 64-bit one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyroaring import BitMap

from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.index.roaring.codec import decode_bitmap, encode_bitmap, read_layout

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

VERSION = 1
MAGIC_32 = 1581511376
MAGIC_64 = 1681511377
_MAGIC_32_BYTES = struct.pack(">i", MAGIC_32)
_MAGIC_64_BYTES = struct.pack("<i", MAGIC_64)
VECTOR_OVERHEAD_BYTES = 8
"""Bytes of a vector in a file besides magic and bitmap: the length before them and the CRC behind them."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one data file, by position. ``bits`` is 32 or 64: the form it is stored in."""

    positions: BitMap
    bits: int = 32

    @property
    def cardinality(self) -> int:
        return len(self.positions)


class VectorRange(NamedTuple):
    """The location of a vector, as the index manifest has it: ``offset`` of the length field, ``length`` of magic and
    bitmap (of everything, for 64 bits), and ``cardinality``."""

    offset: int
    length: int
    cardinality: int


def is_64_bit(magic: bytes) -> bool:
    """Whether a vector that begins with these four bytes has 64 bits."""
    return magic == _MAGIC_64_BYTES


def encode_vector(positions: BitMap, bits: int = 32) -> bytes:
    """Magic and bitmap of a vector, without length and CRC. Raises SchemaError: ``bits`` is not 32 or 64."""
    if bits == 32:
        return _MAGIC_32_BYTES + encode_bitmap(positions)
    if bits != 64:
        raise SchemaError(f"a deletion vector has 32 or 64 bits, not {bits}")
    if not positions:
        return _MAGIC_64_BYTES + struct.pack("<q", 0)
    return _MAGIC_64_BYTES + struct.pack("<qi", 1, 0) + encode_bitmap(positions)


def decode_vector(data: bytes, path: object = None, offset: int = 0, row_count: int | None = None) -> DeletionVector:
    """The vector of these bytes: magic and bitmap, nothing before or after.

    ``data``: magic and bitmap. ``offset``: where ``data`` begins in it, for errors. ``row_count``: rows of the data
    file, when known: every position must be below it.

    Raises:
        CorruptFileError: another magic, or no bitmap behind it.
        UnsupportedError: a 64-bit vector of a file with 2^32 rows or more.
    """
    magic = data[:4]
    if magic == _MAGIC_32_BYTES:
        bitmap = decode_bitmap(memoryview(data)[4:], row_count=row_count, path=path, origin=offset + 4)
        return DeletionVector(bitmap, 32)
    if magic != _MAGIC_64_BYTES:
        raise CorruptFileError(f"{magic.hex()} begins no deletion vector", path=path, offset=offset, field="magic")

    def damage(message: str, at: int, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=path, offset=offset + at, field=field)

    if len(data) < 12:
        raise damage("a deletion vector that ends in its header", 0, "count")
    count: int = struct.unpack_from("<q", data, 4)[0]
    if not 0 <= count <= (len(data) - 12) // 12:
        raise damage(f"{count} bitmaps don't fit {len(data)} bytes", 4, "bitmap count")
    result, position, last_key = BitMap(), 12, -1
    for _ in range(count):
        if position + 4 > len(data):
            raise damage("a deletion vector that ends before its last bitmap", position, "key")
        key: int = struct.unpack_from("<i", data, position)[0]
        if key <= last_key:
            raise damage(f"key {key} after key {last_key}", position, "key")
        size = read_layout(data, position + 4, path=path, origin=offset).size
        body = memoryview(data)[position + 4 : position + 4 + size]
        bitmap = decode_bitmap(body, row_count=row_count, path=path, origin=offset + position + 4)
        if key > 0 and bitmap:
            raise UnsupportedError("deletion vectors of files with over 4,294,967,295 rows can't be read", path=path)
        result |= bitmap
        position, last_key = position + 4 + size, key
    if position != len(data):
        raise damage(f"{len(data) - position} bytes after the last bitmap", position, "bitmap")
    return DeletionVector(result, 64)


def read_vector(
    source: ByteSource, offset: int, length: int, cardinality: int | None, row_count: int | None
) -> DeletionVector:
    """The vector at a range of the index manifest.

    Args:
        source: the deletion file.
        offset: of the vector's length field.
        length: what the manifest says (see above for 64 bits).
        cardinality: what the manifest says; None when it does not.
        row_count: rows of the data file, every position must be below it; None when the table has no such file.

    Raises:
        CorruptFileError: lengths, CRC, magic, bitmap or cardinality are wrong, or a position is no row of the file.
    """

    def damage(message: str, at: int, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=source.name, offset=offset + at, field=field)

    if offset < 1 or length < 4 or offset + length > source.size:
        raise damage(f"a deletion vector of {length} bytes does not fit a file of {source.size}", 0, "offset")
    block = source.read(offset, min(length + VECTOR_OVERHEAD_BYTES, source.size - offset))
    is_64 = is_64_bit(block[4:8])
    size: int = struct.unpack(">i", block[:4])[0]
    if (
        size != (length - VECTOR_OVERHEAD_BYTES if is_64 else length)
        or not 4 <= size <= len(block) - VECTOR_OVERHEAD_BYTES
    ):
        raise damage(f"a deletion vector of {size} bytes, the manifest says {length}", 0, "size")
    data = block[4 : 4 + size]
    if crc32(data) != int.from_bytes(block[4 + size : VECTOR_OVERHEAD_BYTES + size], "big"):
        raise damage("a deletion vector whose CRC-32 does not match", 4 + size, "checksum")
    vector = decode_vector(data, source.name, offset + 4, row_count)
    if cardinality is not None and vector.cardinality != cardinality:
        message = f"a deletion vector of {vector.cardinality} rows, the manifest says {cardinality}"
        raise damage(message, 4, "cardinality")
    return vector


def write_vectors(vectors: Sequence[DeletionVector]) -> tuple[bytes, list[VectorRange]]:
    """A deletion file with these vectors, and the location of each in it."""
    parts = [bytes([VERSION])]
    ranges: list[VectorRange] = []
    offset = 1
    for vector in vectors:
        data = encode_vector(vector.positions, vector.bits)
        parts += [struct.pack(">i", len(data)), data, struct.pack(">I", crc32(data))]
        length = len(data) if vector.bits == 32 else len(data) + VECTOR_OVERHEAD_BYTES
        ranges.append(VectorRange(offset, length, vector.cardinality))
        offset += len(data) + VECTOR_OVERHEAD_BYTES
    return b"".join(parts), ranges
