"""The compression of an ORC file's sections and streams: chunks, each behind three bytes of header.

Source: ORC specification v1, Compression.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from paimon_pyds.avro.compression import compressor
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.formats.orc.messages import read_varint

__all__ = ["MAX_SECTION", "pack", "unpack"]

MAX_SECTION = 256 * 2**20
"""Bytes of a section after decompression at the most."""


def unpack(data: bytes, codec: str, block_size: int, path: object = None, limit: int = MAX_SECTION) -> bytes:
    """Undo ORC's chunked compression: 3 bytes of header (length × 2 + "stored as it is"), then the chunk.

    Raises:
        CorruptFileError: chunks that do not fit, or more than ``limit`` bytes.
        UnsupportedError: a codec that is not there.
    """
    if codec == "none":
        return data
    inflate = _inflater(codec, path)
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


def _inflater(codec: str, path: object) -> Callable[[bytes, int], bytes]:
    if codec == "zlib":
        return _inflate_zlib
    if codec == "zstd":
        return _inflate_zstd
    if codec == "snappy":
        return _inflate_snappy
    if codec == "lz4":
        return _inflate_lz4
    raise UnsupportedError(f"ORC compression {codec} is not supported", path=path, hint="use zstd, zlib, snappy or lz4")


def _inflate_zlib(chunk: bytes, limit: int) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(-15).decompress(chunk, limit)
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _inflate_zstd(chunk: bytes, limit: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
        result: bytes = stream.read(limit)
    return result


def _inflate_snappy(chunk: bytes, limit: int) -> bytes:
    size, _ = read_varint(chunk, 0, None)
    if size > limit:
        raise ValueError(f"it claims to have {size} bytes")
    result: bytes = pa.Codec("snappy").decompress(chunk, size, asbytes=True)
    return result


def _inflate_lz4(chunk: bytes, limit: int) -> bytes:
    """LZ4's raw blocks do not tell their length: walk over the sequences and copy."""
    out = bytearray()
    at = 0
    while at < len(chunk):
        token = chunk[at]
        literals, at = _lz4_length(chunk, at + 1, token >> 4)
        if literals > len(chunk) - at or len(out) + literals > limit:
            raise ValueError("literals run over the end")
        out += chunk[at : at + literals]
        at += literals
        if at == len(chunk):
            break
        if at + 2 > len(chunk):
            raise ValueError("it ends inside a match")
        distance = chunk[at] | chunk[at + 1] << 8
        count, at = _lz4_length(chunk, at + 2, token & 15)
        count += 4
        if not 0 < distance <= len(out) or len(out) + count > limit:
            raise ValueError("a match points outside")
        start = len(out) - distance
        while count:
            piece = out[start : start + count]
            out += piece
            count -= len(piece)
            start += len(piece)
    return bytes(out)


def _lz4_length(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    if length < 15:
        return length, at
    while True:
        if at >= len(chunk):
            raise ValueError("it ends inside a length")
        length += chunk[at]
        at += 1
        if chunk[at - 1] != 255:
            return length, at


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
    if codec == "zlib":
        import zlib

        def deflate(data: bytes) -> bytes:
            squeeze = zlib.compressobj(6, zlib.DEFLATED, -15)
            return squeeze.compress(data) + squeeze.flush()

        return deflate
    if codec == "zstd":
        return compressor("zstandard")  # whose frames have a checksum
    found = pa.Codec({"lz4": "lz4_raw"}.get(codec, codec))
    return lambda data: bytes(found.compress(data, asbytes=True))
