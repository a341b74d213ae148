"""The records of Avro container files that are read whole: manifests, manifest lists and index manifests.

`decode_records` and `encode_records` are for files of few records; the entries of manifests, which are many, are
decoded by `batch_decode` and encoded by `encode`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paimon_pyds.avro.container import BLOCK_BYTES, ContainerReader, write_container
from paimon_pyds.avro.schema import Node, Overrun, Primitive, Record, Union, parse_schema, put_value, reader_of
from paimon_pyds.errors import CorruptFileError

__all__ = ["BRANCH", "Container", "decode_records", "encode_records", "first_record", "read_container"]

BRANCH = ""
"""The field that records begin with where the schema is a union of null and a record; no Avro name is empty."""

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
    reader = ContainerReader(lambda at, length: data[at : at + length], len(data), path, MAX_BLOCK_BYTES)
    try:
        node = _schema(reader.schema)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(
            f"the header has no schema: {error}", path=path, offset=4, field="avro.schema"
        ) from error
    counts: list[int] = []
    blocks: list[bytes] = []
    offsets: list[int] = []
    left = MAX_FILE_BYTES
    for block in reader.blocks():
        assert block.body is not None
        left -= len(block.body)
        if left < 0:
            raise CorruptFileError(
                f"the blocks have more than {MAX_FILE_BYTES} bytes", path=path, offset=block.offset, field="block"
            )
        offsets.append(block.offset)
        counts.append(block.count)
        blocks.append(block.body)
    return Container(node, tuple(counts), tuple(blocks), tuple(offsets), path)


@functools.lru_cache(maxsize=16)
def _schema(text: bytes) -> Node:
    node = parse_schema(json.loads(text.decode()))
    if isinstance(node, Union) and len(node.branches) == 2 and node.branches[0] == Primitive("null"):
        record = node.branches[1]
        if isinstance(record, Record):  # as pypaimon-rust writes its manifests: which branch it is comes first
            return Record(((BRANCH, Primitive("long")), *record.fields))
    return node


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
    node = _schema(json.dumps(schema).encode())
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
