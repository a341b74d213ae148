"""How an ORC file's tail and stripe footers are written: messages, compressed in chunks, with checksums of our own.

Sources: Protocol Buffers, Encoding; ORC specification v1 (Compression; File Tail, User Metadata).

ORC has no checksums, and many a flipped bit in a stream decodes to other values. The footer has room for what a writer
wants to say, which other readers pass over. Files written here say, under `_CHECKSUMS_NAME`:

    block size uint32 · checksum of the stripe statistics uint32 · checksum of the footer before this item uint32 ·
    per block from the file's first byte to the end of its stripes: checksum uint32

Integers are little-endian. The item is the footer's last field.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.checksums import block_checksums, checksum
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.compression import compressor, decompressor

Field: TypeAlias = "tuple[int, int, int | bytes]"
"""Number, wire type, and value: whole numbers for varints (0) and fixed words (1, 5), bytes for the rest (2)."""
_FIXED = {1: 8, 5: 4}
MAX_SECTION = 256 * 2**20
"""Bytes of a section after decompression at the most."""
RUN_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of the numbers of a run, by their code (Run Length Encoding version 2)."""
_LZ4_HEADER = bytes.fromhex("04224d18607073")
"""Header of a frame of independent blocks of up to 4 MiB without checksums (LZ4 Frame Format)."""
BLOCK_BYTES = 64 << 10
"""Bytes that one checksum covers."""
_CHECKSUMS_NAME = b"paimon_pyds.checksums"
_USER_METADATA = 5
"""Field number of the user metadata in an ORC footer."""


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


def read_message(data: bytes, path: object = None) -> Iterator[Field]:
    """The fields of a message. Raises CorruptFileError."""
    at, end = 0, len(data)
    while at < end:
        # Nearly all numbers have one byte: those are taken without a call, which would be half of the time.
        tag, at = (data[at], at + 1) if data[at] < 0x80 else read_varint(data, at, path)
        wire = tag & 7
        if wire == 0:
            value, at = (data[at], at + 1) if at < end and data[at] < 0x80 else read_varint(data, at, path)
            yield tag >> 3, wire, value
            continue
        length = _FIXED.get(wire)
        if wire == 2:
            length, at = (data[at], at + 1) if at < end and data[at] < 0x80 else read_varint(data, at, path)
        if length is None or length > end - at:
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


def unpack(data: bytes, codec: str, block_size: int, path: object = None, limit: int = MAX_SECTION) -> bytes:
    """Undo ORC's compression in chunks: 3 bytes of header (length × 2 + "stored as it is"), then the chunk.

    Raises:
        CorruptFileError: chunks that do not fit, or more than ``limit`` bytes.
        UnsupportedError: a codec that is not there.
    """
    if codec == "none":
        return data
    inflate = _INFLATE.get(codec)
    if inflate is None:
        hint = "use zstd, zlib, snappy or lz4"
        raise UnsupportedError(f"ORC compression {codec} is not supported", path=path, hint=hint)
    parts, at, total = [], 0, 0
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        length, at = head >> 1, at + 3
        if at > len(data) or length > len(data) - at:
            raise CorruptFileError("a compressed chunk runs over its end", path=path, offset=at, field="chunk header")
        chunk = data[at : at + length]
        at += length
        if not head & 1:
            try:
                chunk = inflate(chunk, block_size)
            except (OSError, ValueError, EOFError) as error:
                raise CorruptFileError(
                    f"a chunk does not decompress ({codec}): {error}", path=path, offset=at, field="chunk"
                ) from error
        total += len(chunk)
        if total > limit:
            raise CorruptFileError(f"more than {limit} bytes after decompression", path=path, field="chunk")
        parts.append(chunk)
    return b"".join(parts)


def _inflate_zlib(chunk: bytes, limit: int) -> bytes:
    try:
        return zlib.decompressobj(-15).decompress(chunk, limit)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _inflate_snappy(chunk: bytes, limit: int) -> bytes:
    size, _ = read_varint(chunk, 0, None)
    if size > limit:
        raise ValueError(f"it claims to have {size} bytes")
    result: bytes = pa.Codec("snappy").decompress(chunk, size, asbytes=True)
    return result


def _inflate_lz4(chunk: bytes, limit: int) -> bytes:
    # A raw block of LZ4 does not say how long it becomes; in a frame, whose blocks have 4 MiB at most, it need not.
    frame = b"".join([_LZ4_HEADER, len(chunk).to_bytes(4, "little"), chunk, bytes(4)])
    with pa.CompressedInputStream(pa.BufferReader(frame), "lz4") as stream:
        result: bytes = stream.read(limit)
    return result


_INFLATE: dict[str, Callable[[bytes, int], bytes]] = {
    "zlib": _inflate_zlib, "zstd": decompressor("zstandard", None), "snappy": _inflate_snappy, "lz4": _inflate_lz4
}  # fmt: skip


def pack(data: bytes, codec: str, block_size: int) -> bytes:
    """Compress in chunks, each of which stays as it is where that is not longer; the reverse of `unpack`."""
    if codec == "none":
        return data
    squeeze = _packer(codec)
    parts: list[bytes] = []
    for start in range(0, len(data), block_size):
        plain = data[start : start + block_size]
        small = squeeze(plain)
        stored = len(small) >= len(plain)
        body = plain if stored else small
        parts += [(len(body) << 1 | stored).to_bytes(3, "little"), body]
    return b"".join(parts)


def _packer(codec: str) -> Callable[[bytes], bytes]:
    of_avro = {"zlib": "deflate", "zstd": "zstandard"}.get(codec)  # frames of the second have a checksum
    if of_avro is not None:
        return compressor(of_avro)
    found = pa.Codec({"lz4": "lz4_raw"}.get(codec, codec))
    return lambda data: bytes(found.compress(data, asbytes=True))


@dataclass(frozen=True, slots=True)
class OrcChecksums:
    """What a file says of itself: of each block of its stripes, and of the stripe statistics."""

    block_size: int
    statistics: int
    blocks: tuple[int, ...]


class BlockSums:
    """The checksums of the blocks of what is written, piece by piece."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._pending = bytearray()

    def update(self, data: Any) -> None:
        """Append bytes."""
        view = memoryview(data).cast("B")
        if self._pending:
            free_bytes = BLOCK_BYTES - len(self._pending)
            self._pending += view[:free_bytes]
            view = view[free_bytes:]
            if len(self._pending) < BLOCK_BYTES:
                return
            self._sums.append(checksum(bytes(self._pending)))
            self._pending.clear()
        whole = len(view) // BLOCK_BYTES * BLOCK_BYTES
        self._sums += block_checksums(view[:whole], BLOCK_BYTES)
        self._pending += view[whole:]

    def finish(self) -> list[int]:
        """The checksums of all blocks, the last one shorter."""
        return [*self._sums, *block_checksums(bytes(self._pending), BLOCK_BYTES)]


def sealed_footer(footer: Iterable[Field], statistics: bytes, blocks: list[int]) -> bytes:
    """The message of a footer with the checksums.

    ``statistics``: the bytes of the stripe statistics as they are in the file. ``blocks``: as `BlockSums` gives them.
    """
    body = write_message(footer)
    value = struct.pack(f"<III{len(blocks)}I", BLOCK_BYTES, checksum(statistics), checksum(body), *blocks)
    return body + write_message([(_USER_METADATA, 2, write_message([(1, 2, _CHECKSUMS_NAME), (2, 2, value)]))])


def checksums_of(footer: bytes, content: int, path: object) -> OrcChecksums | None:
    """The checksums in a footer; None when its writer made none.

    ``footer``: the message, after decompression. ``content``: bytes of the file before its stripe statistics.
    Raises CorruptFileError: the footer does not have its checksum.
    """
    for number, _, item in read_message(footer, path):
        if number != _USER_METADATA or not isinstance(item, bytes):
            continue
        found = {n: value for n, _, value in read_message(item, path)}
        value = found.get(2)
        if found.get(1) != _CHECKSUMS_NAME or not isinstance(value, bytes):
            continue
        tail = write_message([(_USER_METADATA, 2, item)])
        if len(value) >= 12 and len(value) % 4 == 0 and footer.endswith(tail):
            size, statistics, body, *blocks = struct.unpack(f"<{len(value) // 4}I", value)
            if body == checksum(footer[: -len(tail)]) and size and len(blocks) == -(-content // size):
                return OrcChecksums(size, statistics, tuple(blocks))
        raise CorruptFileError("the footer does not have its checksum", path=path, field="footer")
    return None
