"""How much the metadata of another table may become when it is decoded.

Compression, dictionaries and JSON of empty lists make gigabytes of a few kilobytes, so what is bounded is what comes
out, in bytes and in values: before the decoder starts, whichever it is, as far as a cheap look shows, and otherwise
while it goes on. The limits leave room for tables of some hundred thousand files.

So logs are read here, not by deltalake and pyiceberg, which tests compare with: neither bounds what it decodes. A Delta
checkpoint of 5 KB ends the process of the one, Iceberg metadata of 88 KB take 3 GB of the other. deltalake also matches
the paths of removed files as they are spelled, and writers encode them in different ways.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from paimon_pyds.base.secrets import human_bytes
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet.conversion import FIXED
from paimon_pyds.format.parquet.footer import Chunk
from paimon_pyds.format.parquet.page_bodies import page_body
from paimon_pyds.format.parquet.page_picks import BYTE_ARRAY, CODECS, DICTIONARIES, PLAIN, UNCOMPRESSED
from paimon_pyds.format.parquet.pages import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, PageHead, read_head
from paimon_pyds.format.parquet.source import ParquetSource, decoding
from paimon_pyds.storage import FileIO

MAX_BYTES = 256 * 2**20
"""Bytes of a decoded metadata file; and of the paths and partition values of all live files."""
MAX_TEXT = 128 * 2**20
"""Bytes of a JSON document."""
MAX_VALUES = 4_000_000
"""Values of a JSON document, or of a column of a checkpoint."""
MAX_FILES = 1_000_000
MAX_RECORD_BYTES = 2**20
"""Bytes of an Avro record. One with statistics of 10,000 columns has some 700 KiB."""
CHUNK_BYTES = 2**20
_STRINGS = re.compile(rb'"[^"]*"')
_DELTA_LENGTHS = 6
_WIDTH = 16
"""Bytes of a value that is no text, at most."""


def too_large(what: str, path: str) -> UnsupportedError:
    """The error for metadata beyond a limit, such as ``a JSON document of more than 128.0 MiB``."""
    return UnsupportedError(
        f"the table's metadata has {what}, which is more than a migration reads",
        path=path,
        hint="append its rows instead",
    )


def read_limited(io: FileIO, path: str) -> bytes:
    """A whole file. Raises UnsupportedError: it is too large; FileNotFoundError."""
    if io.size(path) > MAX_BYTES:
        raise too_large(f"a file of more than {human_bytes(MAX_BYTES)}", path)
    return io.read_bytes(path)


def lines(io: FileIO, path: str) -> Iterator[bytes]:
    """The lines of a file of any length, without those that are blank. Raises UnsupportedError: one is too long."""
    rest = bytearray()
    with io.open_input(path) as file:
        while data := file.read(CHUNK_BYTES):
            rest += data
            if len(rest) > MAX_TEXT + CHUNK_BYTES:
                raise too_large(f"a JSON document of more than {human_bytes(MAX_TEXT)}", path)
            if b"\n" in data:
                *whole, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                yield from filter(bytes.strip, whole)
    if rest.strip():
        yield bytes(rest)


def parse_json(data: bytes, path: str) -> Any:
    """A JSON document. Raises UnsupportedError: it is too large; ValueError, RecursionError: it is not JSON."""
    if len(data) > MAX_TEXT:
        raise too_large(f"a JSON document of more than {human_bytes(MAX_TEXT)}", path)
    if _marks(data) > MAX_VALUES:  # many may be in texts, as in statistics of Delta
        bare = data.replace(rb"\\", b"").replace(rb"\"", b"")
        if _marks(_STRINGS.sub(b"", bare)) > MAX_VALUES:
            raise too_large(f"a JSON document of more than {MAX_VALUES:,} values", path)
    return json.loads(data)


def _marks(data: bytes) -> int:
    return sum(data.count(mark) for mark in (b",", b"[", b"{"))


def unzipped(data: bytes, path: str) -> bytes:
    """What a gzip file holds. Raises UnsupportedError, CorruptFileError, zlib.error."""
    stream = zlib.decompressobj(wbits=31)
    text = stream.decompress(data, MAX_TEXT + 1)
    if len(text) > MAX_TEXT:
        raise too_large(f"a JSON document of more than {human_bytes(MAX_TEXT)}", path)
    if not stream.eof:
        raise CorruptFileError("compressed metadata that is not whole", path=path)
    return text


class LiveFiles:
    """Counts the live files of a table, and the bytes of their texts. ``path``: of the table."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = self._bytes = 0

    def add(self, *texts: object) -> None:
        """Count a file with these texts; others count as eight bytes. Raises UnsupportedError: there are too many."""
        self._count(1, texts)
        if self._files > MAX_FILES:
            raise too_large(f"more than {MAX_FILES:,} files", self._path)
        if self._bytes > MAX_BYTES:
            raise too_large(f"more than {human_bytes(MAX_BYTES)} of paths and partition values", self._path)

    def remove(self, *texts: object) -> None:
        """Count a file no more."""
        self._count(-1, texts)

    def _count(self, sign: int, texts: tuple[object, ...]) -> None:
        self._files += sign
        self._bytes += sign * sum(len(text) if isinstance(text, str) else 8 for text in texts)


# ----------------------------------------------------------------------------------------------------- Parquet


def check_columns(io: FileIO, path: str, wanted: Callable[[tuple[str, ...]], bool]) -> list[str]:
    """The names of those columns of a Parquet file that are wanted, as pyarrow has them.

    ``wanted``: whether one of this path is.
    Raises UnsupportedError: they would be too large when decoded; CorruptFileError, StorageError.
    """
    source = ParquetSource(io, path, io.size(path), ReadCounters())
    try:
        leaves = [leaf for leaf in source.footer.leaves if wanted(leaf.path)]
        if source.footer.row_count > MAX_VALUES:
            raise too_large(f"a file of more than {MAX_VALUES:,} actions", path)
        left = MAX_BYTES
        for leaf in leaves:
            values = 0
            for group in range(len(source.footer.groups)):
                chunk = source.footer.chunk(group, leaf.index)
                with decoding(path):
                    found, size = _decoded(chunk, source.read([(chunk.start, chunk.compressed_size)])[0], path)
                values, left = values + found, left - size
                if values > MAX_VALUES:
                    raise too_large(f"a column of more than {MAX_VALUES:,} values", path)
                if left < 0:
                    raise too_large(f"columns of more than {human_bytes(MAX_BYTES)}", path)
        return [".".join(leaf.path) for leaf in leaves]
    finally:
        source.close()


def _decoded(chunk: Chunk, data: bytes, path: str) -> tuple[int, int]:
    """The number of values of a column chunk, and how many bytes they have at most."""
    at = values = size = longest = 0
    texts = chunk.physical in (BYTE_ARRAY, FIXED)
    while at < len(data):
        head = read_head(data, at)
        if not 0 <= head.uncompressed <= MAX_BYTES:
            raise too_large(f"a page of more than {human_bytes(MAX_BYTES)}", path)
        count = max(0, head.fields.get(1, 0))
        if head.kind == DICTIONARY_PAGE and texts:
            longest = _longest(chunk, data, at, head)
        elif head.kind in (DATA_PAGE, DATA_PAGE_V2):
            encoding = head.fields.get(2 if head.kind == DATA_PAGE else 4, -1)
            values += count
            if not texts:
                size += count * _WIDTH
            elif encoding in DICTIONARIES:
                size += count * longest
            else:  # texts that begin as the one before are stored without their beginning
                size += head.uncompressed * (1 if encoding in (PLAIN, _DELTA_LENGTHS) else count)
        size += head.uncompressed
        at += head.length + head.compressed
    return values, size


def _longest(chunk: Chunk, data: bytes, at: int, head: PageHead) -> int:
    """How long a text of a dictionary is, at most."""
    measured = chunk.physical == BYTE_ARRAY and head.fields.get(1, 0) <= MAX_VALUES
    if not measured or (chunk.codec not in CODECS and chunk.codec != UNCOMPRESSED):
        return head.uncompressed
    body = page_body(data, at, head, CODECS.get(chunk.codec))
    longest = place = 0
    while place + 4 <= len(body):
        length = int.from_bytes(body[place : place + 4], "little")
        longest, place = max(longest, length), place + 4 + length
    return min(longest, head.uncompressed)
