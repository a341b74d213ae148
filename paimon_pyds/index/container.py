"""The file-index container: one file (or one embedded blob) with several indexes of several columns.

Specification: Paimon documentation, concepts/spec/fileindex, "Index File". All integers are big-endian:

    magic int64 · version int32 = 1 · head length int32 · columns int32
    per column: name · indexes int32 · per index: type name · start int32 · length int32
    redundant length int32 · redundant bytes · bodies

The redundant bytes are there for later versions, and all readers pass over them, as over what no index lies in.
Containers written here have checksums, as an index has none and a flipped bit in a bitmap is another bitmap:

    redundant bytes: tag "XXH4BLK1" · checksum of the head before them uint32
    after the bodies: checksum uint32 per 1,024 bytes of them · checksum uint32 per whole 65,536 bytes of them

That of the head is of `paimon_pyds.checksum`, those of the bodies of `checked_blocks`.

Names are Java's modified UTF-8 with a two-byte length. ``head length`` counts from the first byte to the first body;
``start`` is absolute. ``start = -1`` marks an index whose writer saw no record (EMPTY).
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from paimon_pyds.checksum import checksum
from paimon_pyds.errors import SchemaError
from paimon_pyds.index.checked_blocks import CheckedBlocks, blocks_in, encode_checksums
from paimon_pyds.index.source import Cursor, corrupt
from paimon_pyds.storage.base import ByteSource

__all__ = [
    "EMPTY_FLAG",
    "MAGIC",
    "ContainerHead",
    "IndexRange",
    "checked",
    "decode_modified_utf8",
    "encode_modified_utf8",
    "parse_head",
    "write_container",
]

MAGIC = 1493475289347502
VERSION = 1
EMPTY_FLAG = -1
_FIXED_HEAD = 8 + 4 + 4 + 4
_MAX_NAME = 65535
TAG = b"XXH4BLK1"
_EXTRA_BYTES = len(TAG) + 4


@dataclass(frozen=True, slots=True)
class IndexRange:
    """Where the body of one index lies: absolute ``start`` and ``length`` in bytes; ``start = -1`` is EMPTY."""

    start: int
    length: int

    @property
    def is_empty(self) -> bool:
        """Whether the writer of the index saw no record."""
        return self.start == EMPTY_FLAG


@dataclass(frozen=True, slots=True)
class ContainerHead:
    """The table of contents: column name to index type to range, in the file's order."""

    columns: Mapping[str, Mapping[str, IndexRange]]
    head_length: int
    checked_bytes: int | None = None
    """Bytes of the bodies, which have checksums behind them; None where the writer made none."""


def encode_modified_utf8(text: str) -> bytes:
    """Java's modified UTF-8 without the length: U+0000 as C0 80, supplementary characters as surrogate pairs."""
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return chars.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


def decode_modified_utf8(data: bytes) -> str:
    """The text of modified UTF-8 bytes.

    Raises:
        ValueError: the bytes are not modified UTF-8, or leave a surrogate alone.
    """
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def parse_head(source: ByteSource) -> ContainerHead:
    """Read and check the head with one small read, or a second one when the head is longer.

    Raises:
        CorruptFileError: not a container, another version, or ranges outside the file.
    """
    cursor = Cursor(source)
    if source.size < _FIXED_HEAD:
        raise corrupt(source, f"{source.size} bytes are too few for a file-index container", offset=0, field="magic")
    if cursor.i64("magic") != MAGIC:
        raise corrupt(source, "this is not a file-index container", offset=0, field="magic")
    version = cursor.i32("version")
    if version != VERSION:
        raise corrupt(source, f"container version {version} is not known, only {VERSION} is", offset=8, field="version")
    head_length = cursor.i32("head length")
    if not _FIXED_HEAD <= head_length <= source.size:
        raise corrupt(source, f"the head length {head_length} does not fit the file", offset=12, field="head length")
    columns: dict[str, dict[str, IndexRange]] = {}
    for _ in range(cursor.count("column number", each=6)):
        at = cursor.position
        name = _name(cursor, "column name")
        if name in columns:
            raise corrupt(source, f"column {name!r} is listed twice", offset=at, field="column name")
        columns[name] = _index_ranges(cursor, head_length)
    redundant = cursor.count("redundant length")
    known = cursor.position
    extra = cursor.take(redundant, "redundant bytes")
    if cursor.position != head_length:
        raise corrupt(
            source, f"the head takes {cursor.position} bytes, not {head_length}", offset=12, field="head length"
        )
    return ContainerHead(columns, head_length, _checked_bytes(source, known, extra))


def _checked_bytes(source: ByteSource, known: int, extra: bytes) -> int | None:
    """Bytes of bodies that have checksums, by the redundant bytes that follow ``known`` bytes.

    None for redundant bytes that somebody else made.
    """
    if len(extra) < _EXTRA_BYTES:
        return None
    right = int.from_bytes(extra[len(TAG) : _EXTRA_BYTES], "big") == checksum(source.read(0, known))
    # Damage to the tag is no reason to believe the rest: half of it will do, wherever the bytes were shifted to.
    if not right and TAG[:4] not in extra[:_EXTRA_BYTES] and TAG[4:] not in extra[:_EXTRA_BYTES]:
        return None
    bodies = blocks_in(source.size - known - len(extra))
    if not right or not extra.startswith(TAG) or bodies is None:
        raise corrupt(source, "the head does not have its checksum", offset=known, field="redundant bytes")
    return bodies


def checked(source: ByteSource, head: ContainerHead) -> ByteSource:
    """The container, its bodies held against their checksums as they are read; as it is where it has none."""
    if head.checked_bytes is None:
        return source
    return CheckedBlocks(source, head.head_length, head.checked_bytes)


def _index_ranges(cursor: Cursor, head_length: int) -> dict[str, IndexRange]:
    ranges: dict[str, IndexRange] = {}
    for _ in range(cursor.count("index number", each=10)):
        at = cursor.position
        name = _name(cursor, "index name")
        if name in ranges:
            raise corrupt(cursor.source, f"index {name!r} is listed twice", offset=at, field="index name")
        at = cursor.position
        start, length = cursor.i32("start pos"), cursor.i32("length")
        if start == EMPTY_FLAG:
            ranges[name] = IndexRange(EMPTY_FLAG, 0)
            continue
        if start < head_length or length < 0 or start + length > cursor.source.size:
            message = f"index {name!r} at {start} with {length} bytes lies outside the file of {cursor.source.size}"
            raise corrupt(cursor.source, message, offset=at, field="start pos")
        ranges[name] = IndexRange(start, length)
    return ranges


def _name(cursor: Cursor, field: str) -> str:
    at = cursor.position
    data = cursor.take(cursor.u16(field), field)
    try:
        return decode_modified_utf8(data)
    except ValueError:
        raise corrupt(cursor.source, "a name that is not modified UTF-8", offset=at, field=field) from None


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]], *, checksums: bool = False) -> bytes:
    """The container of these indexes: column name to index type to body; None writes an EMPTY index.

    Args:
        indexes: by column and index type.
        checksums: add checksums of head and bodies.

    Raises:
        SchemaError: a name longer than 65,535 bytes, or bodies of more than 2 GiB.
    """
    table: list[bytes] = []
    bodies: list[bytes] = []
    head_length = _FIXED_HEAD + 4
    for column, by_type in indexes.items():
        head_length += 2 + len(_checked_name(column)) + 4
        for index_type in by_type:
            head_length += 2 + len(_checked_name(index_type)) + 8
    if checksums:
        head_length += _EXTRA_BYTES
    start = head_length
    for column, by_type in indexes.items():
        name = _checked_name(column)
        table.append(struct.pack(f">H{len(name)}si", len(name), name, len(by_type)))
        for index_type, body in by_type.items():
            name = _checked_name(index_type)
            at, length = (EMPTY_FLAG, 0) if body is None else (start, len(body))
            if start + length > 0x7FFFFFFF:
                raise SchemaError("the file indexes of one data file exceed 2 GiB", hint="lower target-file-size")
            table.append(struct.pack(f">H{len(name)}sii", len(name), name, at, length))
            if body is not None:
                bodies.append(body)
                start += length
    head = b"".join([struct.pack(">qiii", MAGIC, VERSION, head_length, len(indexes)), *table])
    if not checksums:
        return b"".join([head, b"\0\0\0\0", *bodies])
    head += struct.pack(">i", _EXTRA_BYTES)
    whole = io.BytesIO()
    whole.writelines([head, TAG, struct.pack(">I", checksum(head)), *bodies])
    with whole.getbuffer() as view:
        sums = encode_checksums(view[head_length:])
    whole.write(sums)
    return whole.getvalue()


def _checked_name(text: str) -> bytes:
    data = encode_modified_utf8(text)
    if len(data) > _MAX_NAME:
        raise SchemaError(f"the name {text[:40]!r}… is longer than {_MAX_NAME} bytes and can't be indexed")
    return data
