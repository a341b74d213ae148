"""The envelope of an Avro data file, read block by block, so that memory holds one block and not the file.

Source: Apache Avro specification 1.11, Object Container Files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paimon_pyds.avro.container import MAGIC, SYNC_SIZE, check_header, decompressor
from paimon_pyds.errors import CorruptFileError, OptionError, UnsupportedError

__all__ = ["Block", "BlockReader", "avro_codec"]

_WHOLE_FILE = 64 * 2**20
_WINDOW = 2**20
"""Files up to the first size are fetched in one piece, larger ones in pieces of the second."""

_MAX_HEADER = 16 * 2**20
_MAX_BLOCK = 512 * 2**20
_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "snappy": "snappy",
    "deflate": "deflate",
    "bzip2": "bzip2",
    "xz": "xz",
    "none": "null",
    "null": "null",
    "uncompressed": "null",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One block: where it begins in the file, its records' number and bytes; ``body`` is None when it was skipped."""

    offset: int
    count: int
    body: bytes | None


class BlockReader:
    """Reads a container file from its start.

    Args:
        fetch: gives the bytes at (offset, length) of the file.
        size: the file's size in bytes.
        path: the file, for messages.

    Raises:
        CorruptFileError: not an Avro file, or a broken header.
        UnsupportedError: an unknown compression codec.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, path: object) -> None:
        self._fetch = fetch
        self._size = size
        self._path = path
        self._at = 0
        self._window = b""
        self._window_start = 0
        self._window_size = size if size <= _WHOLE_FILE else _WINDOW
        if self._read(4, "magic") != MAGIC:
            raise CorruptFileError("not an Avro file", path=path, offset=0, field="magic")
        meta = self._metadata()
        check_header(meta, path)
        self._sync = self._read(SYNC_SIZE, "sync marker")
        self._start = self.header_size = self._at
        try:
            self.schema: Any = json.loads(meta["avro.schema"])
        except (KeyError, ValueError, RecursionError) as error:
            raise CorruptFileError("the header has no schema", path=path, offset=4, field="avro.schema") from error
        codec = meta.get("avro.codec", b"null").decode("ascii", "replace")
        self._decompress = decompressor(codec, path)
        self._codec = codec

    def blocks(self, wanted: Callable[[int, int], bool]) -> Iterator[Block]:
        """Every block in order; those for which ``wanted(first row, number of rows)`` is False come without body."""
        self._at = self._start
        row = 0
        while self._at < self._size:
            start = self._at
            count, size = self._long("block count"), self._long("block size")
            if count < 0 or not 0 <= size <= self._size - self._at - SYNC_SIZE:
                raise CorruptFileError(
                    f"a block of {count} records in {size} bytes does not fit",
                    path=self._path,
                    offset=start,
                    field="block",
                )
            if wanted(row, count):
                data = self._read(size, "block")
                yield Block(start, count, self._unpacked(data, start, count))
            else:
                self._at += size
                yield Block(start, count, None)
            if self._read(SYNC_SIZE, "sync marker") != self._sync:
                raise CorruptFileError(
                    "a block does not end with the sync marker",
                    path=self._path,
                    offset=self._at - SYNC_SIZE,
                    field="sync marker",
                )
            row += count

    def forget(self) -> None:
        """Let go of the bytes that are held."""
        self._window = b""

    def _unpacked(self, data: bytes, start: int, count: int) -> bytes:
        try:
            body = self._decompress(data, _MAX_BLOCK)
        except (OSError, ValueError, EOFError) as error:
            raise CorruptFileError(
                f"a block does not decompress ({self._codec}): {error}", path=self._path, offset=start, field="block"
            ) from error
        if count > len(body):
            raise CorruptFileError(
                f"{count} records in a block of {len(body)} bytes", path=self._path, offset=start, field="block count"
            )
        return body

    def _read(self, length: int, field: str) -> bytes:
        if length > self._size - self._at:
            raise CorruptFileError("the file ends too early", path=self._path, offset=self._at, field=field)
        begin = self._at - self._window_start
        if not 0 <= begin <= begin + length <= len(self._window):
            wanted = min(max(length, self._window_size), self._size - self._at)
            self._window = self._fetch(self._at, wanted)
            self._window_start, begin = self._at, 0
        self._at += length
        return self._window[begin : begin + length]

    def _long(self, field: str) -> int:
        value = shift = 0
        while True:
            byte = self._read(1, field)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise CorruptFileError("a number is too long", path=self._path, offset=self._at, field=field)
        value &= 2**64 - 1
        return (value >> 1) ^ -(value & 1)

    def _metadata(self) -> Mapping[str, bytes]:
        meta: dict[str, bytes] = {}
        while (count := self._long("header")) != 0:
            if count < 0:
                count = -count
                self._long("header")
            if count > self._size - self._at:
                raise CorruptFileError("the header does not fit", path=self._path, offset=self._at, field="header")
            for _ in range(count):
                key = self._sized("header").decode("utf-8", "replace")
                meta[key] = self._sized("header")
        return meta

    def _sized(self, field: str) -> bytes:
        size = self._long(field)
        if not 0 <= size <= _MAX_HEADER:
            raise CorruptFileError(f"{size} bytes in the header", path=self._path, offset=self._at, field=field)
        return self._read(size, field)


def avro_codec(options: Mapping[str, str]) -> tuple[str, int]:
    """Avro's name of the codec and the level of zstd, from ``avro.codec``, ``file.compression``, ``…zstd-level``.

    Raises:
        OptionError: a level that is no number.
        UnsupportedError: a codec that Avro does not have.
    """
    name = options.get("avro.codec", options.get("file.compression", "zstd")).strip().lower()
    if name not in _CODECS:
        raise UnsupportedError(
            f"Avro files can't be compressed with {name!r:.40}", hint="use zstd, snappy, deflate, bzip2, xz or none"
        )
    text = options.get("file.compression.zstd-level", "1")
    try:
        level = int(text)
    except ValueError:
        raise OptionError(f"file.compression.zstd-level = {text!r:.40} is not a whole number") from None
    return _CODECS[name], level
