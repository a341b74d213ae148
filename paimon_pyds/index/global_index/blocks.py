"""Blocks of global index files: bytes, the kind of their compression, and a checksum.

    block: bytes · compression u8 · CRC-32 of bytes and compression, u32 little-endian
    compression: 0 none · 1 zstd · 2 LZ4; the bytes are then the uncompressed size as a varint, and the compressed data
    LZ4 data: compressed size u32, uncompressed size u32, little-endian · one raw LZ4 block

Source: Java Paimon 2.2, classes BlockTrailer, SstFileReader, Lz4BlockDecompressor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets
from paimon_pyds.base.checksums import crc32, crc32s
from paimon_pyds.base.varints import LONGER, unsigned_varints, varint
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.compression import compressor, decompressor
from paimon_pyds.index.source import corrupt
from paimon_pyds.storage.byte_source import ByteSource, read_joined

TRAILER_BYTES = 5
_CRC_BYTES = 4
_NONE, _ZSTD, _LZ4 = 0, 1, 2
_MOST_LZ4_RATIO = 255
"""Bytes that one byte of an LZ4 block can become."""
_WORD_BYTES = 8
_MOST_VARINT_BYTES = 10
"""Bytes of a varint of 64 bits."""


class BlockPlace(NamedTuple):
    """The offset and the size of a block in its file, without its trailer."""

    offset: int
    size: int


def read_blocks(source: ByteSource, places: Sequence[BlockPlace]) -> list[bytes]:
    """The uncompressed bytes of blocks, read together.

    Raises:
        CorruptFileError: a block outside of the file, a wrong checksum, or bytes that can't be decompressed.
        UnsupportedError: a compression that is not known here.
    """
    _check_places(source, places)
    found = source.read_many([(place.offset, place.size + TRAILER_BYTES) for place in places])
    return list(map(bytes, _contents(source, places, found)))


class JoinedBlocks(NamedTuple):
    """The uncompressed bytes of some blocks; ``starts`` and ``sizes`` are where each is in ``data``."""

    data: bytes
    starts: Int64s
    sizes: Int64s


def read_joined_blocks(source: ByteSource, places: Sequence[BlockPlace]) -> JoinedBlocks:
    """As `read_blocks`, in one piece, which is not copied where nothing is compressed."""
    _check_places(source, places)
    offsets, sizes = np.array(places, np.int64).reshape(-1, 2).T
    stored = sizes + TRAILER_BYTES
    data = read_joined(source, offsets, stored)
    starts, view = np.cumsum(stored) - stored, memoryview(data)
    edges = zip(starts.tolist(), (starts + stored).tolist(), strict=True)
    contents = _contents(source, places, [view[start:end] for start, end in edges])
    if any(view[end] != _NONE for end in (starts + sizes).tolist()):
        sizes = np.array([len(content) for content in contents], np.int64)
        data, starts = b"".join([*contents, bytes(TRAILER_BYTES)]), np.cumsum(sizes) - sizes
    return JoinedBlocks(data, starts, sizes)


def _check_places(source: ByteSource, places: Sequence[BlockPlace]) -> None:
    for place in places:
        if place.offset < 0 or place.size < 0 or place.offset + place.size + TRAILER_BYTES > source.size:
            raise corrupt(source, f"a block of {place.size} bytes beyond the file's end", offset=place.offset)


def _contents(
    source: ByteSource, places: Sequence[BlockPlace], blocks: Sequence[bytes | memoryview]
) -> list[bytes | memoryview]:
    """The uncompressed bytes of blocks. Raises CorruptFileError, UnsupportedError as `read_blocks`."""
    sums = crc32s([memoryview(data)[:-_CRC_BYTES] for data in blocks])
    for place, data, found in zip(places, blocks, sums, strict=True):
        if found != int.from_bytes(data[-_CRC_BYTES:], "little"):
            raise corrupt(source, "a block with a wrong checksum", offset=place.offset)
    return [_content(source, place, data) for place, data in zip(places, blocks, strict=True)]


def _content(source: ByteSource, place: BlockPlace, data: bytes | memoryview) -> bytes | memoryview:
    kind, body = data[place.size], data[: place.size]
    if kind == _NONE:
        return body
    if kind not in (_ZSTD, _LZ4):
        raise UnsupportedError(
            f"{source.name}: blocks compressed in the way {kind} are not supported",
            hint="build the index with none, zstd or lz4; the table is read without it",
        )
    size, start = read_varint(source, body, 0, place.offset)
    try:
        content = _unzstd(body[start:], size) if kind == _ZSTD else _unlz4(body[start:], size)
    except (ValueError, OSError, EOFError) as error:
        raise corrupt(source, f"a block that can't be decompressed: {error}", offset=place.offset) from None
    if len(content) != size:
        raise corrupt(source, f"a block of {len(content)} bytes that claims {size}", offset=place.offset)
    return content


def _unzstd(data: bytes | memoryview, size: int) -> bytes:
    return decompressor("zstandard", None)(bytes(data), size)


def _unlz4(data: bytes | memoryview, size: int) -> bytes:
    packed, unpacked = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4))
    body = data[8 : 8 + packed]
    if len(data) < 8 or unpacked != size or len(body) != packed or size > _MOST_LZ4_RATIO * packed:
        raise ValueError(f"it claims to have {size} bytes")
    content: bytes = pa.Codec("lz4_raw").decompress(body, size, asbytes=True)
    return content


def read_varint(source: ByteSource, data: bytes | memoryview, at: int, origin: int) -> tuple[int, int]:
    """The LEB128 number that begins at a byte of some data, and where it ends; ``origin``: of the data in the file."""
    value = shift = 0
    for end in range(at, min(len(data), at + _MOST_VARINT_BYTES)):
        value |= (data[end] & 0x7F) << shift
        if data[end] < 0x80:
            return value, end + 1
        shift += 7
    raise corrupt(source, "a number that does not end", offset=origin + at)


class VarintBytes:
    """Bytes at many places of which LEB128 numbers begin, read at once. ``data``: its last eight bytes are no part
    of them, as a number is read with what follows."""

    def __init__(self, data: bytes) -> None:
        size = len(data) - _WORD_BYTES
        self.octets: Octets = np.frombuffer(data, np.uint8, max(size, 0))
        self._words = np.ndarray((max(size + 1, 0),), "<u8", data, 0, (1,))

    def at(self, places: Int64s) -> tuple[Int64s, Int64s]:
        """The numbers that begin at these places, and where each ends.
        Raises CorruptFileError: a place or an end beyond the bytes, or a number of more than 56 bits."""
        size = len(self.octets)
        if len(places) and (int(places.min()) < 0 or int(places.max()) > size):
            raise CorruptFileError("a number beyond the end of its block")
        numbers, sizes = unsigned_varints(self._words[places])
        ends: Int64s = places + sizes
        if len(places) and (int(sizes.max()) >= LONGER or int(ends.max()) > size):
            raise CorruptFileError("a number that does not end within its block, or is too large")
        return numbers.view(np.int64), ends


def with_trailer(content: bytes, codec: str) -> bytes:
    """A block with its trailer; not compressed where that saves less than an eighth. ``codec``: none or zstd."""
    kind, body = _NONE, content
    if codec == "zstd":
        packed = varint(len(content)) + compressor("zstandard")(content)
        if len(packed) < len(content) - len(content) // 8:
            kind, body = _ZSTD, packed
    marked = body + bytes([kind])
    return marked + crc32(marked).to_bytes(4, "little")
