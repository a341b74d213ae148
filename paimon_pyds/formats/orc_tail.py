"""The end of an ORC file: stripes, types, statistics, and the streams of a stripe.

Source: ORC specification v1 (File Tail, Stripe Footer); the messages are Protocol Buffers, of which only the few fields
needed here are read. pyarrow reads the values; it does not tell the row counts of stripes, which columns are CHAR, or
the range of timestamps, and those decide how to read.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from paimon_pyds.errors import CorruptFileError, UnsupportedError

__all__ = [
    "OrcKind",
    "OrcTail",
    "OrcType",
    "Stream",
    "StreamKind",
    "Stripe",
    "StripeFooter",
    "parse_stripe_footer",
    "parse_tail",
    "unpack",
]

MAGIC = b"ORC"
_MAX_SECTION = 256 * 2**20
_MAX_TYPES = 100_000
_MAX_DEPTH = 100
_CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")


class OrcKind(enum.IntEnum):
    """Kinds of types."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


class StreamKind(enum.IntEnum):
    """The kinds of streams that are looked at; others are kept as plain numbers."""

    PRESENT = 0
    DATA = 1
    SECONDARY = 5


@dataclass(slots=True)
class OrcType:
    """A type and its place in the tree; ``id`` is the number of its column."""

    id: int
    kind: OrcKind
    children: list[OrcType] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def child(self, name: str) -> OrcType | None:
        """The field of that name."""
        return self.children[self.names.index(name)] if name in self.names else None

    def walk(self) -> Iterator[OrcType]:
        """This type and everything inside it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Stripe:
    """A stripe: bytes ``offset`` … of index, data and footer, and its first row and number of rows."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    first_row: int
    rows: int

    @property
    def length(self) -> int:
        """All its bytes."""
        return self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The footer of a file. ``timestamps`` maps column numbers to (least, greatest) in milliseconds since 1970, UTC."""

    codec: str
    block_size: int
    row_count: int
    stripes: tuple[Stripe, ...]
    root: OrcType
    timestamps: dict[int, tuple[int, int]]
    tail_length: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes of one column: ``offset`` in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The streams of a stripe, the encoding of each column, and the zone that its timestamps were written in."""

    streams: tuple[Stream, ...]
    encodings: tuple[int, ...]
    timezone: str

    @property
    def is_utc(self) -> bool:
        """Clock times are those of UTC."""
        return self.timezone in ("", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z")


# -------------------------------------------------------------------------------------------------------- protobuf


def _varint(data: bytes, at: int, path: object) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise CorruptFileError("a number runs over its end", path=path, offset=at, field="varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7


def _message(data: bytes, path: object) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of every field: integers for varints and fixed words, bytes for the rest."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at, path)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(data, at, path)
            yield tag >> 3, value
            continue
        length = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            length, at = _varint(data, at, path)
        if length is None or length > len(data) - at:
            raise CorruptFileError("a field runs over its end", path=path, offset=at, field=f"field {tag >> 3}")
        part = data[at : at + length]
        yield tag >> 3, part if wire == 2 else int.from_bytes(part, "little")
        at += length


def _whole(value: int | bytes, path: object, name: str) -> int:
    if isinstance(value, int):
        return value
    raise CorruptFileError("bytes where a number belongs", path=path, field=name)


def _part(value: int | bytes, path: object, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    raise CorruptFileError("a number where bytes belong", path=path, field=name)


def _packed(value: int | bytes, path: object) -> list[int]:
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at, path)
        numbers.append(number)
    return numbers


def _signed(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


# ----------------------------------------------------------------------------------------------------- compression


def unpack(data: bytes, codec: str, block_size: int, path: object = None, limit: int = _MAX_SECTION) -> bytes:
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
    size, _ = _varint(chunk, 0, None)
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


# ------------------------------------------------------------------------------------------------------------ tail


def parse_tail(read: Callable[[int, int], bytes], size: int, path: object = None) -> OrcTail:
    """The tail of a file of ``size`` bytes; ``read(offset, length)`` gives its bytes.

    Raises:
        CorruptFileError: not an ORC file, or a broken one.
        UnsupportedError: encrypted, or compressed by a codec that is not there.
    """
    if size < len(MAGIC) + 2:
        raise CorruptFileError(f"a file of {size} bytes is no ORC file", path=path, offset=0, field="magic")
    guess = min(size, 16 * 1024)
    end = read(size - guess, guess)
    script_length = end[-1]
    if script_length + 1 > len(end):
        raise CorruptFileError("the postscript does not fit", path=path, offset=size - 1, field="postscript length")
    footer_length, codec, block_size, magic = _postscript(end[-1 - script_length : -1], path)
    if magic != MAGIC:
        raise CorruptFileError("not an ORC file", path=path, offset=size - 1 - script_length, field="magic")
    length = footer_length + script_length + 1
    if length > size:
        raise CorruptFileError(f"a footer of {footer_length} bytes does not fit", path=path, field="footer length")
    if length > len(end):
        end = read(size - length, length)
    footer = unpack(end[len(end) - length : len(end) - script_length - 1], codec, block_size, path)
    return _footer(footer, codec, block_size, max(length, guess), size - length, path)


def _postscript(data: bytes, path: object) -> tuple[int, str, int, bytes]:
    footer_length, codec, block_size, magic = 0, 0, 256 * 1024, b""
    for number, value in _message(data, path):
        match number:
            case 1:
                footer_length = _whole(value, path, "footerLength")
            case 2:
                codec = _whole(value, path, "compression")
            case 3:
                block_size = _whole(value, path, "compressionBlockSize")
            case 8000:
                magic = _part(value, path, "magic")
    if codec >= len(_CODECS):
        raise UnsupportedError(f"ORC compression number {codec} is not known", path=path)
    if block_size > _MAX_SECTION:
        raise CorruptFileError(f"blocks of {block_size} bytes", path=path, field="compressionBlockSize")
    return footer_length, _CODECS[codec], block_size, magic


def _footer(data: bytes, codec: str, block_size: int, tail_length: int, content: int, path: object) -> OrcTail:
    row_count = 0
    stripes: list[Stripe] = []
    types: list[tuple[int, list[int], list[str]]] = []
    timestamps: dict[int, tuple[int, int]] = {}
    column = first = 0
    for number, value in _message(data, path):
        match number:
            case 3:
                stripe = _stripe(_part(value, path, "stripes"), first, content, path)
                stripes.append(stripe)
                first += stripe.rows
            case 4:
                types.append(_type(_part(value, path, "types"), path))
            case 6:
                row_count = _whole(value, path, "numberOfRows")
            case 7:
                bounds = _timestamp_bounds(_part(value, path, "statistics"), path)
                if bounds is not None:
                    timestamps[column] = bounds
                column += 1
            case 10:
                raise UnsupportedError("encrypted ORC files are not supported", path=path)
    if first != row_count:
        raise CorruptFileError(f"stripes of {first} rows in a file of {row_count}", path=path, field="numberOfRows")
    root = _tree(types, path)
    return OrcTail(codec, block_size, row_count, tuple(stripes), root, timestamps, tail_length)


def _stripe(data: bytes, first_row: int, content: int, path: object) -> Stripe:
    numbers = {n: _whole(v, path, "stripes") for n, v in _message(data, path) if n <= 5}
    offset, index, body, footer, rows = (numbers.get(i, 0) for i in range(1, 6))
    if offset + index + body + footer > content or rows >= 2**40:
        raise CorruptFileError("a stripe lies outside the file", path=path, offset=offset, field="stripes")
    return Stripe(offset, index, body, footer, first_row, rows)


def _type(data: bytes, path: object) -> tuple[int, list[int], list[str]]:
    kind, children, names = 0, [], []
    for number, value in _message(data, path):
        match number:
            case 1:
                kind = _whole(value, path, "kind")
            case 2:
                children += _packed(value, path)
            case 3:
                names.append(_part(value, path, "fieldNames").decode("utf-8", "replace"))
    return kind, children, names


def _tree(types: list[tuple[int, list[int], list[str]]], path: object) -> OrcType:
    if not types or len(types) > _MAX_TYPES:
        raise CorruptFileError(f"{len(types)} types", path=path, field="types")
    nodes: list[OrcType] = []
    for i, (kind, _, names) in enumerate(types):
        if kind not in OrcKind._value2member_map_:
            raise UnsupportedError(f"ORC type number {kind} is not known", path=path)
        nodes.append(OrcType(i, OrcKind(kind), [], names))
    depths = {0: 0}
    for i, (kind, children, names) in enumerate(types):
        # Types are numbered parents first and have one parent each, so that no type can contain itself.
        fits = all(i < c < len(nodes) and c not in depths for c in children) and len(set(children)) == len(children)
        if not fits or (kind == OrcKind.STRUCT and len(names) != len(children)) or depths.get(i, 0) > _MAX_DEPTH:
            raise CorruptFileError("the tree of types is broken", path=path, field="subtypes")
        depths.update(dict.fromkeys(children, depths.get(i, 0) + 1))
        nodes[i].children = [nodes[c] for c in children]
    if nodes[0].kind is not OrcKind.STRUCT:
        raise CorruptFileError("the root of an ORC file must be a struct", path=path, field="types")
    return nodes[0]


def _timestamp_bounds(data: bytes, path: object) -> tuple[int, int] | None:
    """Least and greatest timestamp of a column's statistics, in milliseconds; None when it has none."""
    for number, value in _message(data, path):
        if number != 9:
            continue
        found = {n: _signed(_whole(v, path, "timestampStatistics")) for n, v in _message(_part(value, path, "t"), path)}
        low, high = found.get(3, found.get(1)), found.get(4, found.get(2))
        return None if low is None or high is None else (low, high)
    return None


def parse_stripe_footer(data: bytes, stripe: Stripe, tail: OrcTail, path: object = None) -> StripeFooter:
    """The footer of a stripe, from its bytes in the file. Raises CorruptFileError."""
    streams: list[Stream] = []
    encodings: list[int] = []
    timezone = "UTC"
    at = stripe.offset
    for number, value in _message(unpack(data, tail.codec, tail.block_size, path), path):
        match number:
            case 1:
                parts = {n: _whole(v, path, "streams") for n, v in _message(_part(value, path, "streams"), path)}
                stream = Stream(parts.get(1, 0), parts.get(2, 0), at, parts.get(3, 0))
                streams.append(stream)
                at += stream.length
                if at > stripe.offset + stripe.index_length + stripe.data_length:
                    raise CorruptFileError("a stream lies outside its stripe", path=path, offset=at, field="streams")
            case 2:
                parts = {n: _whole(v, path, "columns") for n, v in _message(_part(value, path, "columns"), path)}
                encodings.append(parts.get(1, 0))
            case 3:
                timezone = _part(value, path, "writerTimezone").decode("utf-8", "replace")
    return StripeFooter(tuple(streams), tuple(encodings), timezone)
