"""The bytes of pages behind their headers, decompressed.

pyarrow makes a new context of zstd for each page, which takes as long as to decompress 12 KiB. Pages that follow one
another are frames, which zstd takes together, in one context.
Source: apache/parquet-format, Compression.md; RFC 8878, section 3.1 (frames that follow one another); google/snappy,
format_description.txt (the length in front).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, Octets, unaligned_words
from paimon_pyds.base.checksums import crc32, crc32s
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.pages import NO_CHECKSUM, PageHead, PageHeads
from paimon_pyds.format.parquet.thrift import varint

ZSTD = "zstd"
_MAGIC = 0xFD2FB528
_LEAST_FRAME = 16
"""Bytes of a frame that surely has a header of any length."""
_GZIP_OR_ZLIB = 47
"""Window bits by which zlib detects the header of gzip or zlib."""


def page_body(data: bytes, position: int, head: PageHead, codec: str | None) -> memoryview:
    """The body of the page whose header is at ``position``.

    ``codec``: Arrow's name of the compression; None for none.
    Raises CorruptFileError: it has another checksum, or doesn't decompress to the length in its header.
    """
    packed = memoryview(data)[position + head.length : position + head.length + head.compressed]
    if head.crc != NO_CHECKSUM and crc32(packed) != head.crc & 0xFFFFFFFF:
        raise _changed()
    if codec is None:
        if head.uncompressed != head.compressed:
            raise _two_sizes()
        return packed
    return memoryview(_decompressed(packed, head.uncompressed, codec)).cast("B")


def page_bodies(
    data: bytes, positions: Int64s, heads: PageHeads, codec: str | None, block: int
) -> Iterator[tuple[slice, Octets, Int64s]]:
    """Pages without their headers, some at a time: which, their bytes, and where in these each begins.

    The bytes stay what they are until the next are taken.

    ``heads``: the headers; at least one. ``codec``: Arrow's name of the compression; None for none. ``block``: about
    how many decompressed bytes to give at a time; at least one page.
    Raises CorruptFileError: a page has another checksum, or doesn't decompress to the length in its header.
    """
    octets, sizes = np.frombuffer(data, np.uint8), heads.uncompressed
    starts, packed = positions + heads.length, packed_bodies(data, positions, heads)
    ends = np.cumsum(sizes)
    edges = [0, *(np.flatnonzero(np.diff((ends - sizes) // block)) + 1).tolist(), len(sizes)]
    parts = [slice(low, high) for low, high in pairwise(edges)]
    if codec is None:
        if bool((sizes != heads.compressed).any()):
            raise _two_sizes()
        for part in parts:
            yield part, octets, starts[part]
        return
    together = codec == ZSTD and _are_frames_of(octets, starts, heads.compressed, sizes)
    for part in parts:
        if together:
            body = _decompressed(b"".join(packed[part]), int(sizes[part].sum()), codec)
        else:
            pages = zip(packed[part], sizes[part].tolist(), strict=True)
            body = b"".join([_decompressed(*page, codec) for page in pages])
        yield part, np.frombuffer(body, np.uint8), ends[part] - sizes[part] - (ends[part.start] - sizes[part.start])


def packed_bodies(data: bytes, positions: Int64s, heads: PageHeads) -> list[memoryview]:
    """Pages without their headers, as they are stored. Raises CorruptFileError: one has another checksum."""
    view, starts = memoryview(data), positions + heads.length
    packed = [view[a:b] for a, b in zip(starts.tolist(), (starts + heads.compressed).tolist(), strict=True)]
    _check_sums(packed, heads)
    return packed


def _check_sums(packed: Sequence[memoryview], heads: PageHeads) -> None:
    """Compare the bodies of pages with the checksums in their headers, where they have any. Raises CorruptFileError."""
    checked = heads.crc != NO_CHECKSUM
    if checked.any():
        sums = np.array(crc32s(packed), np.int64)
        if bool((checked & (sums != heads.crc & 0xFFFFFFFF)).any()):
            raise _changed()


def _decompressed(packed: bytes | memoryview, size: int, codec: str) -> pa.Buffer | bytes:
    """CorruptFileError, or an error of pyarrow, unless these are ``size`` bytes: `pyarrow.Codec` itself gives zeros
    where snappy, gzip and LZ4 end early."""
    if not size:
        return b""
    if codec == "gzip":
        stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            found = stream.decompress(packed, size + 1)
        except zlib.error as error:
            raise CorruptFileError(f"a page that can't be decompressed: {error}", field="PageHeader") from None
        if len(found) != size or not stream.eof:
            raise _another_size()
        return found
    if codec == "snappy" and varint(bytes(packed[:5]) + b"\0", 0)[0] != size:
        raise _another_size()
    whole = pa.Codec(codec)
    if codec == "lz4_raw" and _fits(whole, packed, size - 1):
        raise _another_size()
    return whole.decompress(packed, size)


def _fits(codec: pa.Codec, packed: bytes | memoryview, size: int) -> bool:
    """Whether ``size`` bytes can hold the block once decompressed: a block of LZ4 does not store its length."""
    try:
        codec.decompress(packed, size)
    except OSError:
        return False
    return True


def _are_frames_of(data: Octets, starts: Int64s, lengths: Int64s, sizes: Int64s) -> bool:
    """Whether frames of zstd begin in these places, which say that they decompress to these sizes: then it checks that
    each does."""
    if int(lengths.min()) < _LEAST_FRAME:
        return False
    words = unaligned_words(data)
    begin = words[starts]
    flags = (begin >> np.uint64(32)).astype(np.int64) & 0xFF
    single = flags >> 5 & 1
    if bool((begin & np.uint64(0xFFFFFFFF) != _MAGIC).any() or (flags & 3).any() or (flags >> 6 | single == 0).any()):
        return False
    said = words[starts + 6 - single]  # behind the magic number, the flags, and the size of the window
    bits = np.array([8, 16, 32, 64])[flags >> 6].astype(np.uint64)
    said &= np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - bits)
    return bool((said.astype(np.int64) + 256 * (bits == 16) == sizes).all())


def _changed() -> CorruptFileError:
    return CorruptFileError("a page with a wrong checksum", field="PageHeader.crc")


def _two_sizes() -> CorruptFileError:
    return CorruptFileError("a page of two sizes that is not compressed", field="PageHeader")


def _another_size() -> CorruptFileError:
    return CorruptFileError("a page that decompresses to another size", field="uncompressed_page_size")
