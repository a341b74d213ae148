"""The compression of blocks in Avro container files.

Source: Apache Avro specification 1.11, Object Container Files, Required Codecs and Optional Codecs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from paimon_pyds.base.checksums import checksum, crc32
from paimon_pyds.errors import OptionError, UnsupportedError

_BYTES_AT_ONCE = 128_000
"""Bytes that are decompressed at a time."""
_DESCRIPTOR_POSITION = 4
"""Offset of the frame header descriptor in a zstandard frame (RFC 8878)."""
_CHECKSUM_FLAG = 0x04
"""The bit of the descriptor that announces a content checksum."""
_DICTIONARY_BITS, _SINGLE_SEGMENT_BIT = 0x03, 5
"""Of the descriptor: those of a dictionary's number; and the one that is set where no byte has the window's size."""


def codec_name(compression: str) -> str:
    """Avro's name of a codec for the value of the option ``manifest.compression``.

    Raises:
        OptionError: not a codec that Java Paimon can write, as which it takes Avro's names in lower case and any ZSTD.
    """
    name = "zstandard" if compression.lower() == "zstd" else compression
    if name not in ("zstandard", "snappy", "deflate", "bzip2", "xz", "null"):
        raise OptionError(
            f"manifest.compression={compression!r:.40} is not known: Java Paimon could not commit to the table",
            hint="set zstd, snappy, deflate, bzip2, xz or null (not compressed); the table can be read as it is",
        )
    return name


def decompressor(codec: str, path: object) -> Callable[[bytes, int], bytes]:
    """The function of (block, most bytes) that undoes a block's compression; it raises ValueError, OSError or EOFError.
    Raises UnsupportedError: an unknown codec."""
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
    size = _content_size(data)
    if 0 < size <= min(limit, _BYTES_AT_ONCE):
        with suppress(OSError):  # several frames, or a damaged one
            return pa.Codec("zstd").decompress(data, size, asbytes=True)  # type: ignore[no-any-return]
    # Java's frames do not have their size: they are read as a stream, which also bounds the allocated memory.
    parts: list[bytes] = []
    total = 0
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while part := stream.read(_BYTES_AT_ONCE):
            total += len(part)
            if total > limit:
                raise ValueError(f"it has more than {limit} bytes")
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _content_size(frame: bytes) -> int:
    """The bytes that a frame of zstandard says it becomes; 0 where it does not say (RFC 8878, section 3.1.1.1)."""
    flags = frame[_DESCRIPTOR_POSITION] if len(frame) > _DESCRIPTOR_POSITION else 0
    kind, single = flags >> 6, flags >> _SINGLE_SEGMENT_BIT & 1
    if flags & _DICTIONARY_BITS or not (kind or single):
        return 0
    begin = _DESCRIPTOR_POSITION + 2 - single
    return int.from_bytes(frame[begin : begin + (1 << kind)], "little") + 256 * (kind == 1)


def _unsnappy(data: bytes, limit: int) -> bytes:
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
    if crc32(body) != int.from_bytes(data[-4:], "big"):
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


def zstd_level(options: Mapping[str, str]) -> int:
    """The level of zstandard that a table's options say. Raises OptionError."""
    text = options.get("file.compression.zstd-level", "1")
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"file.compression.zstd-level = {text!r:.40} is not a whole number") from None


def compressor(codec: str, level: int = 1) -> Callable[[bytes], bytes]:
    """The function that compresses a block; the level is that of zstandard."""
    match codec:
        case "zstandard":
            zstd = pa.Codec("zstd", compression_level=max(1, min(level, 22)))
            return lambda body: _with_checksum(zstd.compress(body, asbytes=True), body)
        case "snappy":
            snappy = pa.Codec("snappy")
            return lambda body: snappy.compress(body, asbytes=True) + crc32(body).to_bytes(4, "big")
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
    """A zstandard frame with a checksum of the uncompressed ``content`` at its end, by which every reader notices a
    flipped bit: pyarrow's codec has no option for it.

    Source: RFC 8878, sections 3.1.1 (content checksum: the low four bytes of xxHash64) and 3.1.1.1.1 (descriptor).
    """
    flagged = bytearray(frame)
    flagged[_DESCRIPTOR_POSITION] |= _CHECKSUM_FLAG
    return bytes(flagged) + checksum(content).to_bytes(4, "little")
