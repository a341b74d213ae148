"""Avro object container files: the envelope of manifests, manifest lists and index manifests.

Source: Apache Avro specification 1.11, sections Object Container Files and Binary Encoding. Here are the envelope
(header, blocks, compression), schemas, and a plain reader and writer of Python values for the small files. Manifests,
which have many records, are read by `avro_lanes` and written by `avro_columns`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from paimon_pyds.errors import CorruptFileError, OptionError, UnsupportedError

__all__ = [
    "BLOCK_BYTES",
    "Array",
    "Container",
    "Mapping",
    "Node",
    "Primitive",
    "Record",
    "Sized",
    "Union",
    "codec_name",
    "decode_records",
    "encode_records",
    "first_record",
    "optional",
    "parse_schema",
    "read_container",
    "write_container",
]

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
BLOCK_BYTES = 64_000
"""Records are gathered to blocks of about this size before compression, as Java Avro does."""

MAX_BLOCK_BYTES = 256 * 2**20
MAX_FILE_BYTES = 2**30
MAX_SCHEMA_DEPTH = 32


# -------------------------------------------------------------------------------------------------------- schemas


@dataclass(frozen=True, slots=True)
class Primitive:
    """null, boolean, int, long, float, double, bytes or string. An enum is read as an int."""

    name: str


@dataclass(frozen=True, slots=True)
class Sized:
    """A fixed: always that many bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array of items of one type."""

    item: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """A map from strings to values of one type."""

    value: Node


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields in order."""

    fields: tuple[tuple[str, Node], ...]

    def field(self, name: str) -> Node | None:
        """The type of a field, None when there is no such field."""
        return next((node for found, node in self.fields if found == name), None)


Node: TypeAlias = Primitive | Sized | Array | Mapping | Union | Record

_PRIMITIVES = {
    name: Primitive(name) for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
}


def optional(node: Node) -> tuple[Node, int] | None:
    """For a union of null and one other type: that type and the number of the null branch. None for all else."""
    if isinstance(node, Union) and len(node.branches) == 2 and _PRIMITIVES["null"] in node.branches:
        null = node.branches.index(_PRIMITIVES["null"])
        return node.branches[1 - null], null
    return None


def parse_schema(schema: object, path: object = None) -> Node:
    """A schema from its JSON value.

    Raises:
        CorruptFileError: not an Avro schema, or one that contains itself.
    """
    try:
        return _parse(schema, {}, "", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"not an Avro schema: {error}", path=path, field="avro.schema") from error


def _parse(schema: Any, named: dict[str, Node], space: str, depth: int) -> Node:
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError(f"nested deeper than {MAX_SCHEMA_DEPTH} levels")
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        full = schema if "." in schema or not space else f"{space}.{schema}"
        return named[full] if full in named else named[schema]
    if isinstance(schema, list):
        return Union(tuple(_parse(branch, named, space, depth + 1) for branch in schema))
    kind = schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        name = schema["name"]
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space)
        full = name if "." in name or not space else f"{space}.{name}"
        node: Node
        if kind == "fixed":
            if not isinstance(schema["size"], int) or not 0 <= schema["size"] <= MAX_BLOCK_BYTES:
                raise ValueError(f"a fixed of size {schema['size']!r}")
            node = Sized(schema["size"])
        elif kind == "enum":
            node = _PRIMITIVES["int"]
        else:
            node = Record(tuple((str(f["name"]), _parse(f["type"], named, space, depth + 1)) for f in schema["fields"]))
        named[full] = node
        return node
    if kind == "array":
        return Array(_wide(_parse(schema["items"], named, space, depth + 1)))
    if kind == "map":
        return Mapping(_parse(schema["values"], named, space, depth + 1))
    return _parse(kind, named, space, depth + 1)


def _wide(item: Node) -> Node:
    """An item of an array, refused when it takes no bytes: then nothing would bound how many a few bytes claim."""
    if not _takes_bytes(item):
        raise ValueError("an array of items without bytes")
    return item


def _takes_bytes(node: Node) -> bool:
    if isinstance(node, Record):
        return any(_takes_bytes(member) for _, member in node.fields)
    return node not in (_PRIMITIVES["null"], Sized(0))


# ------------------------------------------------------------------------------------------------------- container


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
        meta, at = _file_metadata(data, 4)
    except _Overrun:
        raise CorruptFileError("the file ends inside its header", path=path, offset=4, field="header") from None
    sync = data[at : at + SYNC_SIZE]
    if len(sync) < SYNC_SIZE:
        raise CorruptFileError("the file ends inside its header", path=path, offset=at, field="sync marker")
    try:
        schema = json.loads(meta["avro.schema"].decode())
    except (KeyError, ValueError, RecursionError) as error:
        raise CorruptFileError("the header has no schema", path=path, offset=4, field="avro.schema") from error
    node = parse_schema(schema, path)
    codec = meta.get("avro.codec", b"null").decode("ascii", "replace")
    decompress = _decompressor(codec, path)
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


def _file_metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    meta: dict[str, bytes] = {}
    while True:
        count, at = _long(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            count = -count
            _, at = _long(data, at)
        if count > len(data) - at:
            raise _Overrun
        for _ in range(count):
            key, at = _bytes(data, at)
            meta[key.decode("utf-8", "replace")], at = _bytes(data, at)


def _block(data: bytes, start: int, sync: bytes, path: object) -> tuple[int, bytes, int]:
    try:
        count, at = _long(data, start)
        size, at = _long(data, at)
    except _Overrun:
        raise CorruptFileError("the file ends inside a block", path=path, offset=start, field="block") from None
    if count < 0:
        raise CorruptFileError(f"a block of {count} records", path=path, offset=start, field="block count")
    if not 0 <= size <= len(data) - at - SYNC_SIZE:
        raise CorruptFileError(f"a block of {size} bytes does not fit", path=path, offset=start, field="block size")
    end = at + size
    if data[end : end + SYNC_SIZE] != sync:
        raise CorruptFileError("a block does not end with the sync marker", path=path, offset=end, field="sync marker")
    return count, data[at:end], end + SYNC_SIZE


def _decompressor(codec: str, path: object) -> Callable[[bytes, int], bytes]:
    match codec:
        case "null":
            return lambda body, limit: body
        case "zstandard":
            return _unzstd
        case "snappy":
            return _unsnappy
        case "deflate":
            import zlib

            return lambda body, limit: _bounded(zlib.decompressobj(-15), body, limit, zlib.error)
        case "bzip2":
            import bz2

            return lambda body, limit: _bounded(bz2.BZ2Decompressor(), body, limit, OSError)
        case "xz":
            import lzma

            return lambda body, limit: _bounded(lzma.LZMADecompressor(), body, limit, lzma.LZMAError)
    raise UnsupportedError(
        f"Avro codec {codec!r:.40} is not supported", path=path, hint="use zstandard, snappy, deflate or null"
    )


def _unzstd(body: bytes, limit: int) -> bytes:
    import pyarrow as pa

    # Java's frames do not tell their size: read them as a stream, which also bounds what is allocated.
    parts: list[bytes] = []
    total = 0
    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        while part := stream.read(2 * BLOCK_BYTES):
            total += len(part)
            if total > limit:
                raise ValueError(f"it has more than {limit} bytes")
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy(body: bytes, limit: int) -> bytes:
    import zlib

    import pyarrow as pa

    size = shift = at = 0
    while True:
        if at >= min(len(body), 5):
            raise ValueError("it has no length")
        size |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
        if body[at - 1] < 0x80:
            break
    # A copy of 64 bytes takes 3 bytes at most: more than this can't come out.
    if size > limit or size > 32 * len(body):
        raise ValueError(f"it claims to have {size} bytes")
    block: bytes = pa.Codec("snappy").decompress(body[:-4], size, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(body[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return block


def _bounded(decompressor: Any, body: bytes, limit: int, failure: type[Exception]) -> bytes:
    try:
        block: bytes = decompressor.decompress(body, limit + 1)
    except failure as error:
        raise ValueError(str(error)) from error
    if len(block) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    if not decompressor.eof:
        raise ValueError("it ends too early")
    return block


def codec_name(compression: str) -> str:
    """Avro's name of a codec for the value of the option ``manifest.compression``.

    Raises:
        OptionError: not a codec that Java Paimon can read.
    """
    name = compression.strip().lower()
    name = {"zstd": "zstandard"}.get(name, name)
    if name not in ("zstandard", "snappy", "deflate", "null"):
        raise OptionError(
            f"manifest.compression={compression!r} is not known",
            hint="use zstd, snappy, deflate or null (not compressed)",
        )
    return name


def _compressor(codec: str) -> Callable[[bytes], bytes]:
    import zlib

    import pyarrow as pa

    match codec:
        case "null":
            return bytes
        case "zstandard":
            zstd = pa.Codec("zstd")
            return lambda block: bytes(zstd.compress(block, asbytes=True))
        case "snappy":
            snappy = pa.Codec("snappy")
            return lambda block: snappy.compress(block, asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
    return lambda block: zlib.compress(block, 6)[2:-4]  # deflate: without zlib's own head and checksum


def write_container(schema: object, codec: str, blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """A container file.

    Args:
        schema: the JSON value of the records' schema.
        codec: as `codec_name` gives it.
        blocks: (number of records, their bytes), each not compressed.
    """
    compress = _compressor(codec)
    sync = os.urandom(SYNC_SIZE)
    meta = {"avro.schema": json.dumps(schema, separators=(",", ":")).encode(), "avro.codec": codec.encode()}
    out = bytearray(MAGIC)
    _put_long(out, len(meta))
    for key, value in meta.items():
        _put_bytes(out, key.encode())
        _put_bytes(out, value)
    out += b"\x00" + sync
    for count, block in blocks:
        body = compress(block)
        _put_long(out, count)
        _put_bytes(out, body)
        out += sync
    return bytes(out)


# ------------------------------------------------------------------------------------------------ values, one by one


class _Overrun(Exception):
    """The bytes end before the value does, or hold no such value."""


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    end = min(len(data), at + 10)
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise _Overrun
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise _Overrun


def _int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _long(data, at)
    if not -(2**31) <= value < 2**31:
        raise _Overrun
    return value, at


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if not 0 <= size <= len(data) - at:
        raise _Overrun
    return data[at : at + size], at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    value, at = _bytes(data, at)
    try:
        return value.decode(), at
    except UnicodeDecodeError:
        raise _Overrun from None


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data) or data[at] > 1:
        raise _Overrun
    return data[at] == 1, at + 1


_Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
_READERS: dict[str, _Reader] = {
    "null": lambda data, at: (None, at),
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "bytes": _bytes,
    "string": _string,
}


def _reader(node: Node) -> _Reader:
    match node:
        case Primitive("float"):
            return _raw_reader(4)
        case Primitive("double"):
            return _raw_reader(8)
        case Primitive(name):
            return _READERS[name]
        case Sized(size):
            return _raw_reader(size)
        case Array(item):
            return _array_reader(_reader(item))
        case Mapping(value):
            pairs = _array_reader(_pair_reader(_reader(value)))
            return lambda data, at: (lambda found: (dict(found[0]), found[1]))(pairs(data, at))
        case Union(branches):
            return _union_reader([_reader(branch) for branch in branches])
        case Record(fields):
            return _record_reader([(name, _reader(member)) for name, member in fields])


def _raw_reader(size: int) -> _Reader:
    """Values that are only skipped: floats and fixed do not occur in Paimon's metadata."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if size > len(data) - at:
            raise _Overrun
        return data[at : at + size], at + size

    return read


def _pair_reader(value: _Reader) -> _Reader:
    def read(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _string(data, at)
        found, at = value(data, at)
        return (key, found), at

    return read


def _array_reader(item: _Reader) -> _Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, at = _long(data, at)
            if count == 0:
                return values, at
            if count < 0:
                count = -count
                _, at = _long(data, at)
            if count > len(data) - at:
                raise _Overrun
            for _ in range(count):
                value, at = item(data, at)
                values.append(value)

    return read


def _union_reader(branches: Sequence[_Reader]) -> _Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if not 0 <= branch < len(branches):
            raise _Overrun
        return branches[branch](data, at)

    return read


def _record_reader(fields: Sequence[tuple[str, _Reader]]) -> _Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, reader in fields:
            record[name], at = reader(data, at)
        return record, at

    return read


def decode_records(container: Container) -> list[dict[str, Any]]:
    """Every record, by field names of the writer's schema: int, str, bytes, list, dict, None.

    Raises:
        CorruptFileError: a block whose bytes are not its records.
    """
    if not isinstance(container.schema, Record):
        raise CorruptFileError("the schema is not a record", path=container.path, field="avro.schema")
    read = _reader(container.schema)
    records: list[dict[str, Any]] = []
    for count, block, offset in zip(container.counts, container.blocks, container.offsets, strict=True):
        at = 0
        for index in range(count):
            try:
                record, at = read(block, at)
            except _Overrun:
                raise CorruptFileError(
                    f"record {index} of a block does not decode", path=container.path, offset=offset, field="record"
                ) from None
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
        record: dict[str, Any] = _reader(container.schema)(container.blocks[index], 0)[0]
    except _Overrun:
        raise CorruptFileError(
            "the first record does not decode", path=container.path, offset=container.offsets[index], field="record"
        ) from None
    return record


def _put_long(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _put_bytes(out: bytearray, value: bytes) -> None:
    _put_long(out, len(value))
    out += value


def _put(out: bytearray, node: Node, value: Any) -> None:
    match node:
        case Primitive("int" | "long"):
            _put_long(out, value)
        case Primitive("bytes"):
            _put_bytes(out, value)
        case Primitive("string"):
            _put_bytes(out, value.encode())
        case Array(item):
            if value:
                _put_long(out, len(value))
                for element in value:
                    _put(out, item, element)
            out.append(0)
        case Record(fields):
            for name, member in fields:
                _put(out, member, value[name])
        case Union():
            found = optional(node)
            if found is None:
                raise TypeError(f"only unions of null and one type are written, not {node}")
            member, null = found
            if value is None:
                _put_long(out, null)
            else:
                _put_long(out, 1 - null)
                _put(out, member, value)
        case _:
            raise TypeError(f"no writer for {node}")


def encode_records(schema: object, codec: str, records: Iterable[dict[str, Any]]) -> bytes:
    """A container file of some records, given as `decode_records` gives them."""
    node = parse_schema(schema)
    blocks: list[tuple[int, bytes]] = []
    out, count = bytearray(), 0
    for record in records:
        _put(out, node, record)
        count += 1
        if len(out) >= BLOCK_BYTES:
            blocks.append((count, bytes(out)))
            out, count = bytearray(), 0
    if count:
        blocks.append((count, bytes(out)))
    return write_container(schema, codec, blocks)
