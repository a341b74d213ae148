"""What the Avro container files of metadata and of data share: header, blocks, and the compression of blocks.

Source: Apache Avro specification 1.11, Object Container Files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from paimon_pyds.avro.values import put_bytes, put_long
from paimon_pyds.checksum import checksum
from paimon_pyds.errors import CorruptFileError, UnsupportedError

__all__ = [
    "BLOCK_BYTES",
    "MAGIC",
    "SYNC_SIZE",
    "block_bytes",
    "check_header",
    "compressor",
    "decompressor",
    "header_bytes",
]

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
BLOCK_BYTES = 64_000
"""Records are gathered to blocks of about this size before compression, as Java Avro does."""

CHECKSUM = "paimon_pyds.checksum"
"""What a header written here has besides Avro's own entries: eight hexadecimal digits, of its schema and codec."""

_DESCRIPTOR = 4
_CHECKSUM_FLAG = 0x04


def header_bytes(schema: object, codec: str) -> tuple[bytes, bytes]:
    """The header of a new file, and its sync marker.

    Args:
        schema: the JSON value of the records' schema.
        codec: Avro's name of it.
    """
    sync = os.urandom(SYNC_SIZE)
    meta = {"avro.schema": json.dumps(schema, separators=(",", ":")).encode(), "avro.codec": codec.encode()}
    meta[CHECKSUM] = _header_checksum(meta)
    out = bytearray(MAGIC)
    put_long(out, len(meta))
    for key, value in meta.items():
        put_bytes(out, key.encode())
        put_bytes(out, value)
    out += b"\x00" + sync
    return bytes(out), sync


def check_header(meta: Mapping[str, bytes], path: object) -> None:
    """Hold a header against its checksum, where it has one: a field of another name would be passed over in silence.

    Raises:
        CorruptFileError: schema or codec are not those that were written.
    """
    told = meta.get(CHECKSUM)
    if told is not None and told != _header_checksum(meta):
        raise CorruptFileError("the header does not have its checksum", path=path, offset=4, field="header")


def _header_checksum(meta: Mapping[str, bytes]) -> bytes:
    return b"%08x" % checksum(meta.get("avro.schema", b"") + meta.get("avro.codec", b""))


def block_bytes(count: int, body: bytes, sync: bytes) -> bytes:
    """A block as it stands in the file: ``body`` is compressed already."""
    out = bytearray()
    put_long(out, count)
    put_long(out, len(body))
    return b"".join([out, body, sync])


# ----------------------------------------------------------------------------------------------------- compression


def decompressor(codec: str, path: object) -> Callable[[bytes, int], bytes]:
    """The function of (block, most bytes) that undoes a block's compression; it raises ValueError, OSError or EOFError.

    Raises:
        UnsupportedError: an unknown codec.
    """
    match codec:
        case "null":
            return lambda data, limit: data
        case "zstandard":
            return _unzstd
        case "snappy":
            return _unsnappy
        case "deflate":
            import zlib

            return lambda data, limit: _bounded(zlib.decompressobj(-15), data, limit, zlib.error)
        case "bzip2":
            import bz2

            return lambda data, limit: _bounded(bz2.BZ2Decompressor(), data, limit, OSError)
        case "xz":
            import lzma

            return lambda data, limit: _bounded(lzma.LZMADecompressor(), data, limit, lzma.LZMAError)
    raise UnsupportedError(
        f"Avro codec {codec!r:.40} is not supported",
        path=path,
        hint="use zstandard, snappy, deflate, bzip2, xz or null",
    )


def _unzstd(data: bytes, limit: int) -> bytes:
    # Java's frames do not tell their size: read as a stream, which also bounds what is allocated.
    parts: list[bytes] = []
    total = 0
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while part := stream.read(2 * BLOCK_BYTES):
            total += len(part)
            if total > limit:
                raise ValueError(f"it has more than {limit} bytes")
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    import zlib

    size = shift = at = 0
    while True:
        if at >= min(len(data), 5):
            raise ValueError("it has no length")
        size |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            break
    # A copy of 64 bytes takes 3 bytes at most: more than this can't come out.
    if size > limit or size > 32 * len(data) or len(data) < at + 4:
        raise ValueError(f"it claims to have {size} bytes")
    body: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(body) != int.from_bytes(data[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return body


def _bounded(stream: Any, data: bytes, limit: int, failure: type[Exception]) -> bytes:
    try:
        body: bytes = stream.decompress(data, limit + 1)
    except failure as error:
        raise ValueError(str(error)) from error
    if len(body) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    if not stream.eof:
        raise ValueError("it ends too early")
    return body


def compressor(codec: str, level: int = 1) -> Callable[[bytes], bytes]:
    """The function that compresses a block; the level is that of zstandard."""
    match codec:
        case "zstandard":
            zstd = pa.Codec("zstd", compression_level=max(1, min(level, 22)))
            return lambda body: _with_checksum(zstd.compress(body, asbytes=True), body)
        case "snappy":
            import zlib

            snappy = pa.Codec("snappy")
            return lambda body: snappy.compress(body, asbytes=True) + zlib.crc32(body).to_bytes(4, "big")
        case "deflate":
            import zlib

            return lambda body: zlib.compress(body, 6)[2:-4]  # without zlib's own head and checksum
        case "bzip2":
            import bz2

            return bz2.compress
        case "xz":
            import lzma

            return lzma.compress
    return bytes


def _with_checksum(frame: bytes, content: bytes) -> bytes:
    """A zstandard frame with a checksum of what it holds at its end, so that a flipped bit is noticed by whoever reads
    it: pyarrow's codec can't be told to add one.

    Source: RFC 8878, sections 3.1.1 (content checksum: the low four bytes of xxHash64) and 3.1.1.1.1 (descriptor).

    Args:
        frame: one whole frame without checksum, as `pyarrow.Codec("zstd")` gives it.
        content: what was compressed.
    """
    flagged = bytearray(frame)
    flagged[_DESCRIPTOR] |= _CHECKSUM_FLAG
    return bytes(flagged) + checksum(content).to_bytes(4, "little")
