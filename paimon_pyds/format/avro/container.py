"""Avro object container files, of metadata and of data: header, blocks, and their checks; the records of files that are
read whole. Where they are many, as in manifests, `batch_decode` decodes them and `encode` encodes them.

Source: Apache Avro specification 1.11, Object Container Files.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.base.checksums import checksum
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.avro.compression import compressor, decompressor
from paimon_pyds.format.avro.schema import (
    Node,
    Overrun,
    Primitive,
    Record,
    Union,
    parse_schema,
    put_bytes,
    put_long,
    read_long,
    reader_of,
    writer_of,
)

MAGIC = b"Obj\x01"
_OTHER_FORMATS = {b"ORC": "ORC", b"PAR1": "Parquet"}
"""What manifests may be in as well, by their first bytes."""
SYNC_SIZE = 16
BLOCK_BYTES = 64_000
"""Records are gathered to blocks of about this size before compression, as Java Avro does."""

CHECKSUM = "paimon_pyds.buffers"
"""The name of an entry in headers written here: eight hexadecimal digits, of the schema and codec. As files have this
name, it never changes."""

BRANCH = ""
"""The field that records begin with where the schema is a union of null and a record; no Avro name is empty."""

MAX_BLOCK_BYTES = 256 * 2**20
"""Bytes of a decompressed block: a larger one is taken for an attack."""
MAX_FILE_BYTES = 2**30
"""Bytes of all decompressed blocks of a metadata file."""

WHOLE_FILE_BYTES = 64 * 2**20
WINDOW_BYTES = 2**20
"""Files up to the first size are fetched in one piece, larger ones in pieces of the second."""

_MAX_HEADER_BYTES = 16 * 2**20
_MAX_BLOCK_BYTES = 512 * 2**20
_MAX_NUMBER_BYTES = 10
"""Bytes of the longest number."""


def header_bytes(schema: object, codec: str) -> tuple[bytes, bytes]:
    """The header of a new file, and its sync marker. ``schema`` is the JSON value of the records' schema, ``codec``
    Avro's name of the compression."""
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


def _header_checksum(meta: Mapping[str, bytes]) -> bytes:
    return b"%08x" % checksum(meta.get("avro.schema", b"") + meta.get("avro.codec", b""))


def block_bytes(count: int, body: bytes, sync: bytes) -> bytes:
    """A block as it stands in the file: ``body`` is compressed already."""
    out = bytearray()
    put_long(out, count)
    put_long(out, len(body))
    return b"".join([out, body, sync])


def write_container(schema: object, codec: str, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """A container file.

    ``schema``: the JSON value of the records' schema. ``codec``: as `codec_name` gives it. ``blocks``: (number of
    records, their bytes), each not compressed.
    """
    compress = compressor(codec)
    header, sync = header_bytes(schema, codec)
    return b"".join([header, *(block_bytes(count, compress(block), sync) for count, block in blocks)])


@dataclass(frozen=True, slots=True)
class Block:
    """One block: where it begins in the file, its records' number and bytes; ``body`` is None when it was skipped."""

    offset: int
    count: int
    body: bytes | None


_HEADERS, _MAX_HELD_BYTES = 4, 64 << 10
"""Headers that are held, and the size of one at most: files of one writer differ only in what comes after them."""
_last_headers: list[tuple[bytes, bytes, str]] = []


class ContainerReader:
    """Reads a container file from its start, block by block, so that memory holds one block and not the file.

    Attributes:
        schema: the JSON text of the records' schema.
        header_size: of the header, in bytes.

    ``fetch``: gives the bytes at (offset, length) of the file. ``max_block``: the most bytes of a block after
    decompression.

    Raises:
        CorruptFileError: not an Avro file, or a broken header.
        UnsupportedError: an unknown compression codec.
    """

    def __init__(
        self, fetch: Callable[[int, int], bytes], size: int, path: object, max_block: int = _MAX_BLOCK_BYTES
    ) -> None:
        self._fetch = fetch
        self._size = size
        self._path = path
        self._max_block = max_block
        self._at = self.header_size = 0
        self._window = b""
        self._window_start = 0
        self._window_size = size if size <= WHOLE_FILE_BYTES else WINDOW_BYTES
        if size < len(MAGIC) or self._read(len(MAGIC), "magic") != MAGIC:
            raise CorruptFileError("not an Avro file", path=path, offset=0, field="magic")
        self.schema, self._codec = self._header()
        self._sync = self._read(SYNC_SIZE, "sync marker")
        self.header_size = self._at
        self._decompress = decompressor(self._codec, path)

    def blocks(self, wanted: Callable[[int, int], bool] | None = None) -> Iterator[Block]:
        """Every block in order.

        Those for which ``wanted(first row, number of rows)`` is False come without body. Raises CorruptFileError.
        """
        self._at = self.header_size
        row = 0
        while self._at < self._size:
            start = self._at
            count, size = self._number("block count"), self._number("block size")
            if count < 0 or not 0 <= size <= self._size - self._at - SYNC_SIZE:
                field = "block count" if count < 0 else "block size"
                raise self._corrupt(f"a block of {count} records in {size} bytes does not fit", start, field)
            body: bytes | None = None
            if wanted is None or wanted(row, count):
                body = self._read(size, "block")
            else:
                self._at += size
            if self._read(SYNC_SIZE, "sync marker") != self._sync:
                at = self._at - SYNC_SIZE
                raise self._corrupt("a block does not end with the sync marker", at, "sync marker")
            yield Block(start, count, None if body is None else self._decompressed(body, start, count))
            row += count

    def close(self) -> None:
        """Release the bytes that are held."""
        self._window = b""

    def _decompressed(self, data: bytes, start: int, count: int) -> bytes:
        try:
            body = self._decompress(data, self._max_block)
        except (OSError, ValueError, EOFError) as error:
            raise self._corrupt(f"a block does not decompress ({self._codec}): {error}", start, "block") from error
        if count > len(body):
            raise self._corrupt(f"{count} records in a block of {len(body)} bytes", start, "block count")
        return body

    def _held(self, length: int) -> int:
        """The place in the window of the next bytes, which are fetched first where they are not in it."""
        begin = self._at - self._window_start
        if not 0 <= begin <= begin + length <= len(self._window):
            wanted = min(max(length, self._window_size), self._size - self._at)
            self._window = self._fetch(self._at, wanted)
            self._window_start, begin = self._at, 0
        return begin

    def _read(self, length: int, field: str) -> bytes:
        if length > self._size - self._at:
            raise self._cut_off(field)
        begin = self._held(length)
        self._at += length
        return self._window[begin : begin + length]

    def _number(self, field: str) -> int:
        begin = self._held(min(_MAX_NUMBER_BYTES, self._size - self._at))
        try:
            value, end = read_long(self._window, begin)
        except Overrun:
            if self._size - self._at < _MAX_NUMBER_BYTES:
                raise self._cut_off(field) from None
            raise self._corrupt("a number is too long", self._at, field) from None
        self._at += end - begin
        return value

    def _cut_off(self, field: str) -> CorruptFileError:
        where = "a block" if self.header_size else "its header"
        return self._corrupt(f"the file ends inside {where}", self._at, field)

    def _corrupt(self, message: str, offset: int, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=self._path, offset=offset, field=field)

    def _header(self) -> tuple[bytes, str]:
        """The schema and the codec; of a header that was read before, without reading it again."""
        for known, schema, codec in _last_headers:
            if self._window.startswith(known):
                self._at = len(known)
                return schema, codec
        meta = self._metadata()
        # A field of another name would be passed over in silence.
        if CHECKSUM in meta and meta[CHECKSUM] != _header_checksum(meta):
            raise CorruptFileError("the header does not have its checksum", path=self._path, offset=4, field="header")
        if "avro.schema" not in meta:
            raise CorruptFileError("the header has no schema", path=self._path, offset=4, field="avro.schema")
        schema, codec = meta["avro.schema"], meta.get("avro.codec", b"null").decode("ascii", "replace")
        if not self._window_start and self._at <= _MAX_HELD_BYTES:
            _last_headers[:] = [(self._window[: self._at], schema, codec), *_last_headers[: _HEADERS - 1]]
        return schema, codec

    def _metadata(self) -> Mapping[str, bytes]:
        meta: dict[str, bytes] = {}
        while (count := self._number("header")) != 0:
            if count < 0:
                count = -count
                self._number("header")
            if count > self._size - self._at:
                raise self._corrupt("the header does not fit", self._at, "header")
            for _ in range(count):
                key = self._sized().decode("utf-8", "replace")
                meta[key] = self._sized()
        return meta

    def _sized(self) -> bytes:
        size = self._number("header")
        if not 0 <= size <= _MAX_HEADER_BYTES:
            raise self._corrupt(f"{size} bytes in the header", self._at, "header")
        return self._read(size, "header")


@dataclass(frozen=True, slots=True)
class Container:
    """A container file taken apart: its schema, and blocks of records after decompression.

    ``counts`` are the numbers of records of the blocks, ``offsets`` where the blocks begin in the file.
    """

    schema: Node
    counts: tuple[int, ...]
    blocks: tuple[bytes, ...]
    offsets: tuple[int, ...]
    path: object


@functools.lru_cache(maxsize=16)
def schema_node(text: bytes) -> Node:
    """The type of the records, from the JSON text in a header."""
    node = parse_schema(json.loads(text.decode()))
    if isinstance(node, Union) and len(node.branches) == 2 and node.branches[0] == Primitive("null"):
        record = node.branches[1]
        if isinstance(record, Record):  # as pypaimon-rust writes its manifests: which branch it is comes first
            return Record(((BRANCH, Primitive("long")), *record.fields))
    return node


def read_container(
    data: bytes, path: object = None, *, max_bytes: int | None = None, node_of: Callable[[bytes], Node] = schema_node
) -> Container:
    """Take a container file apart and decompress its blocks, into ``max_bytes`` at most, or those of a manifest.
    ``node_of`` makes its type of the schema's text.

    Raises:
        CorruptFileError: bytes that are not such a file, or that decompress to more than the limits.
        UnsupportedError: an unknown compression codec, or a file of another format.
    """
    return next(read_parts(data, path, max_bytes=max_bytes, node_of=node_of))


def read_parts(
    data: bytes,
    path: object = None,
    records: int | None = None,
    *,
    max_bytes: int | None = None,
    node_of: Callable[[bytes], Node] = schema_node,
) -> Iterator[Container]:
    """The same in parts, one at least, each of which is decompressed when it is taken. ``records``: the least number of
    records of a part, but for the last one; all by default."""
    for other, name in _OTHER_FORMATS.items():
        if bytes(data[: len(other)]) == other:
            hint = "manifests are supported in Avro only: manifest.format=avro"
            raise UnsupportedError(f"a file of {name}, where one of Avro should be", path=path, hint=hint)
    max_bytes = MAX_FILE_BYTES if max_bytes is None else max_bytes
    max_block = min(MAX_BLOCK_BYTES, max_bytes)
    reader = ContainerReader(lambda at, length: data[at : at + length], len(data), path, max_block)
    try:
        node = node_of(reader.schema)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"the header has no schema: {error}", path=path, offset=4, field="avro.schema"
        ) from error
    held: list[Block] = []
    count, left, is_first = 0, max_bytes, True
    for block in reader.blocks():
        left -= len(block.body or b"")
        if left < 0:
            raise CorruptFileError(
                f"the blocks have more than {max_bytes} bytes", path=path, offset=block.offset, field="block"
            )
        held.append(block)
        count += block.count
        if records is not None and count >= records:
            yield _container(node, held, path)
            held, count, is_first = [], 0, False
    if held or is_first:
        yield _container(node, held, path)


def _container(schema: Node, blocks: Sequence[Block], path: object) -> Container:
    bodies = tuple(block.body or b"" for block in blocks)
    return Container(schema, tuple(b.count for b in blocks), bodies, tuple(b.offset for b in blocks), path)


def decode_records(container: Container, max_record: int | None = None) -> Iterator[dict[str, Any]]:
    """Each record, by field names of the writer's schema: int, str, bytes, list, dict, None. ``max_record``: bytes of
    one, at most. Raises CorruptFileError: a block whose bytes are not its records."""
    if not isinstance(container.schema, Record):
        raise CorruptFileError("the schema is not a record", path=container.path, field="avro.schema")
    read = reader_of(container.schema)
    for count, block, offset in zip(container.counts, container.blocks, container.offsets, strict=True):
        corrupt = functools.partial(CorruptFileError, path=container.path, offset=offset)
        begin = at = 0
        part = block if max_record is None else block[: 2 * max_record]  # cut again when a record ends behind it
        for index in range(count):
            try:
                try:
                    record, at = read(part, at)
                except Overrun:
                    if max_record is None or not at:
                        raise
                    begin, at = begin + at, 0
                    part = block[begin : begin + 2 * max_record]
                    record, at = read(part, at)
            except Overrun:
                raise corrupt(f"record {index} of a block does not decode", field="record") from None
            if record.pop(BRANCH, 1) != 1:
                raise corrupt(f"record {index} of a block is null", field="record")
            yield record
        if begin + at != len(block):
            raise corrupt(f"{len(block) - begin - at} bytes after the last record of a block", field="block size")


def first_record(container: Container) -> dict[str, Any]:
    """The first record of a container that has one, as `decode_records` gives it, with the same errors."""
    index = next(i for i, count in enumerate(container.counts) if count)
    try:
        record: dict[str, Any] = reader_of(container.schema)(container.blocks[index], 0)[0]
    except Overrun:
        raise CorruptFileError(
            "the first record does not decode", path=container.path, offset=container.offsets[index], field="record"
        ) from None
    return record


def encode_records(
    schema: object, codec: str, records: Iterable[dict[str, Any]], node_of: Callable[[bytes], Node] = schema_node
) -> bytes:
    """A container file of some records, given as `decode_records` gives them; of what is unread by ``node_of``, the
    bytes."""
    put = writer_of(node_of(json.dumps(schema).encode()))
    blocks: list[tuple[int, bytes]] = []
    out, count = bytearray(), 0
    for record in records:
        put(out, record)
        count += 1
        if len(out) >= BLOCK_BYTES:
            blocks.append((count, bytes(out)))
            out, count = bytearray(), 0
    if count:
        blocks.append((count, bytes(out)))
    return write_container(schema, codec, blocks)
