"""Avro object container files: the envelope of manifests, manifest lists and index manifests.

Source: Apache Avro specification 1.11, Object Container Files. `decode_records` and `encode_records` are for files of
few records; manifests, which have many, are read by `avro_lanes` and written by `avro_columns`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paimon_pyds.avro.container import (
    BLOCK_BYTES,
    MAGIC,
    SYNC_SIZE,
    block_bytes,
    check_header,
    compressor,
    decompressor,
    header_bytes,
)
from paimon_pyds.avro.schema import Mapping, Node, Primitive, Record, Union, parse_schema
from paimon_pyds.avro.values import Overrun, put_value, read_long, reader_of
from paimon_pyds.errors import CorruptFileError, OptionError

__all__ = [
    "BRANCH",
    "Container",
    "codec_name",
    "decode_records",
    "encode_records",
    "first_record",
    "read_container",
    "write_container",
]

BRANCH = ""
"""The field that records begin with where the schema is a union of null and a record; no Avro name is empty."""

_METADATA = Mapping(Primitive("bytes"))

MAX_BLOCK_BYTES = 256 * 2**20
MAX_FILE_BYTES = 2**30


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


def read_container(data: bytes, path: object = None) -> Container:
    """Take a container file apart and decompress its blocks.

    Raises:
        CorruptFileError: bytes that are not such a file, or that decompress to more than the limits.
        UnsupportedError: an unknown compression codec.
    """
    if data[:4] != MAGIC:
        raise CorruptFileError("not an Avro file", path=path, offset=0, field="magic")
    try:
        meta, at = reader_of(_METADATA)(data, 4)
    except Overrun:
        raise CorruptFileError("the file ends inside its header", path=path, offset=4, field="header") from None
    check_header(meta, path)
    sync = data[at : at + SYNC_SIZE]
    if len(sync) < SYNC_SIZE:
        raise CorruptFileError("the file ends inside its header", path=path, offset=at, field="sync marker")
    try:
        node = _schema(meta["avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"the header has no schema: {error}", path=path, offset=4, field="avro.schema"
        ) from error
    codec = meta.get("avro.codec", b"null").decode("ascii", "replace")
    decompress = decompressor(codec, path)
    counts: list[int] = []
    blocks: list[bytes] = []
    offsets: list[int] = []
    total = 0
    at += SYNC_SIZE
    while at < len(data):
        offsets.append(at)
        count, body, at = _block(data, at, sync, path)
        try:
            block = decompress(body, min(MAX_BLOCK_BYTES, MAX_FILE_BYTES - total))
        except (OSError, ValueError, EOFError) as error:
            raise CorruptFileError(
                f"a block does not decompress ({codec}): {error}", path=path, offset=offsets[-1], field="block"
            ) from error
        total += len(block)
        if count > len(block):
            raise CorruptFileError(
                f"{count} records in a block of {len(block)} bytes", path=path, offset=offsets[-1], field="block count"
            )
        counts.append(count)
        blocks.append(block)
    return Container(node, tuple(counts), tuple(blocks), tuple(offsets), path)


@functools.lru_cache(maxsize=16)
def _schema(text: bytes) -> Node:
    node = parse_schema(json.loads(text.decode()))
    if isinstance(node, Union) and len(node.branches) == 2 and node.branches[0] == Primitive("null"):
        record = node.branches[1]
        if isinstance(record, Record):  # as pypaimon-rust writes its manifests: which branch it is comes first
            return Record(((BRANCH, Primitive("long")), *record.fields))
    return node


def _block(data: bytes, start: int, sync: bytes, path: object) -> tuple[int, bytes, int]:
    try:
        count, at = read_long(data, start)
        size, at = read_long(data, at)
    except Overrun:
        raise CorruptFileError("the file ends inside a block", path=path, offset=start, field="block") from None
    if count < 0:
        raise CorruptFileError(f"a block of {count} records", path=path, offset=start, field="block count")
    if not 0 <= size <= len(data) - at - SYNC_SIZE:
        raise CorruptFileError(f"a block of {size} bytes does not fit", path=path, offset=start, field="block size")
    end = at + size
    if data[end : end + SYNC_SIZE] != sync:
        raise CorruptFileError("a block does not end with the sync marker", path=path, offset=end, field="sync marker")
    return count, data[at:end], end + SYNC_SIZE


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


def write_container(schema: object, codec: str, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """A container file.

    Args:
        schema: the JSON value of the records' schema.
        codec: as `codec_name` gives it.
        blocks: (number of records, their bytes), each not compressed.
    """
    compress = compressor(codec)
    header, sync = header_bytes(schema, codec)
    return b"".join([header, *(block_bytes(count, compress(block), sync) for count, block in blocks)])


def decode_records(container: Container) -> list[dict[str, Any]]:
    """Every record, by field names of the writer's schema: int, str, bytes, list, dict, None.

    Raises:
        CorruptFileError: a block whose bytes are not its records.
    """
    if not isinstance(container.schema, Record):
        raise CorruptFileError("the schema is not a record", path=container.path, field="avro.schema")
    read = reader_of(container.schema)
    records: list[dict[str, Any]] = []
    for count, block, offset in zip(container.counts, container.blocks, container.offsets, strict=True):
        at = 0
        for index in range(count):
            try:
                record, at = read(block, at)
            except Overrun:
                raise CorruptFileError(
                    f"record {index} of a block does not decode", path=container.path, offset=offset, field="record"
                ) from None
            if record.pop(BRANCH, 1) != 1:
                raise CorruptFileError(
                    f"record {index} of a block is null", path=container.path, offset=offset, field="record"
                )
            records.append(record)
        if at != len(block):
            raise CorruptFileError(
                f"{len(block) - at} bytes after the last record of a block",
                path=container.path,
                offset=offset,
                field="block size",
            )
    return records


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


def encode_records(schema: object, codec: str, records: Iterable[dict[str, Any]]) -> bytes:
    """A container file of some records, given as `decode_records` gives them."""
    node = parse_schema(schema)
    blocks: list[tuple[int, bytes]] = []
    out, count = bytearray(), 0
    for record in records:
        put_value(out, node, record)
        count += 1
        if len(out) >= BLOCK_BYTES:
            blocks.append((count, bytes(out)))
            out, count = bytearray(), 0
    if count:
        blocks.append((count, bytes(out)))
    return write_container(schema, codec, blocks)
