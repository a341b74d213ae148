"""The end of an ORC file: stripes, types, statistics, and the streams of a stripe.

Source: ORC specification v1 (File Tail, Stripe Footer); the messages are Protocol Buffers, of which only the few fields
needed here are read. pyarrow reads the values; it does not expose the row counts of stripes, the CHAR columns, or the
range of timestamps, which decide how to read.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.varints import unzigzag
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.orc.encoding import (
    MAX_SECTION,
    OrcChecksums,
    as_bytes,
    as_number,
    as_numbers,
    checksums_of,
    numbers_of,
    read_message,
    unpack,
)

MAGIC = b"ORC"
_MAX_TYPES = 100_000
_MAX_DEPTH = 100
CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")
"""Compressions by their numbers."""


class OrcKind(enum.IntEnum):
    """Kinds of types."""

    BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, TIMESTAMP = range(10)
    LIST, MAP, STRUCT, UNION, DECIMAL, DATE, VARCHAR, CHAR, TIMESTAMP_INSTANT = range(10, 19)


class StreamKind(enum.IntEnum):
    """The kinds of streams that have a name here; others remain plain numbers."""

    PRESENT = 0
    DATA = 1
    SECONDARY = 5


TIMESTAMPS = (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT)
_SAFE_MILLIS = (-9_223_200_000_000, 9_223_200_000_000)
"""What nanoseconds in 64 bits can hold, in milliseconds, less some days at either end, more than time zones differ."""


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
    """The footer of a file.

    ``timestamps`` maps column numbers to (least, greatest) in milliseconds since 1970, UTC; ``statistics`` are the
    messages about each column of the whole file; ``metadata`` is the (offset, length) of the statistics of the stripes.
    ``checksums`` are those that the file has; ``messages`` are the footer and the postscript, as they are;
    ``user_metadata`` is what writers have added.
    """

    codec: str
    block_size: int
    row_count: int
    stripes: tuple[Stripe, ...]
    root: OrcType
    timestamps: dict[int, tuple[int, int]]
    statistics: tuple[bytes, ...]
    metadata: tuple[int, int]
    tail_length: int
    checksums: OrcChecksums | None
    messages: tuple[bytes, bytes]
    user_metadata: Mapping[bytes, bytes]

    def fits_nanoseconds(self, type_: OrcType) -> bool:
        """Whether a column, without those inside it, has no timestamps but those that 64 bits of nanoseconds hold."""
        low, high = self.timestamps.get(type_.id, (0, 0)) if type_.kind in TIMESTAMPS else (0, 0)
        return _SAFE_MILLIS[0] <= low and high <= _SAFE_MILLIS[1]


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes of one column: ``offset`` in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The streams of a stripe, the encoding of each column, and the time zone of its writer ("" where none is named);
    ``message`` is the whole message."""

    streams: tuple[Stream, ...]
    encodings: tuple[int, ...]
    timezone: str
    message: bytes


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
    message = end[-1 - script_length : -1]
    script = {number: value for number, _, value in read_message(message, path)}
    if script.get(8000) != MAGIC:
        raise CorruptFileError("not an ORC file", path=path, offset=size - 1 - script_length, field="magic")
    footer_length, codec, block_size, metadata_length = _postscript(script, path)
    length = footer_length + script_length + 1
    if length > size:
        raise CorruptFileError(f"a footer of {footer_length} bytes does not fit", path=path, field="footer length")
    if length > len(end):
        end = read(size - length, length)
    footer = unpack(end[len(end) - length : len(end) - script_length - 1], codec, block_size, path)
    row_count, stripes, root, statistics, user_metadata = _footer(footer, size - length, path)
    stamps = [node.id for node in root.walk() if node.kind in TIMESTAMPS and node.id < len(statistics)]
    bounds = {column: _timestamp_bounds(statistics[column], path) for column in stamps}
    return OrcTail(
        codec=codec,
        block_size=block_size,
        row_count=row_count,
        stripes=stripes,
        root=root,
        timestamps={column: found for column, found in bounds.items() if found is not None},
        statistics=statistics,
        metadata=(size - length - metadata_length, metadata_length),
        tail_length=max(length, guess),
        checksums=checksums_of(footer, size - length - metadata_length, path),
        messages=(footer, message),
        user_metadata=user_metadata,
    )


def _postscript(script: dict[int, int | bytes], path: object) -> tuple[int, str, int, int]:
    """Bytes of the footer, codec, bytes of a compressed chunk, bytes of the stripe statistics."""
    names = {1: "footerLength", 2: "compression", 3: "compressionBlockSize", 5: "metadataLength"}
    numbers = {n: as_number(script.get(n, 0), path, name) for n, name in names.items()}
    if numbers[2] >= len(CODECS):
        raise UnsupportedError(f"ORC compression number {numbers[2]} is not known", path=path)
    block_size = numbers[3] if 3 in script else 256 * 1024
    if block_size > MAX_SECTION:
        raise CorruptFileError(f"blocks of {block_size} bytes", path=path, field="compressionBlockSize")
    return numbers[1], CODECS[numbers[2]], block_size, numbers[5]


def _footer(
    data: bytes, content: int, path: object
) -> tuple[int, tuple[Stripe, ...], OrcType, tuple[bytes, ...], dict[bytes, bytes]]:
    """Rows, stripes, types, the statistics of each column and what writers have added, of a file with ``content`` bytes
    before its footer."""
    row_count = first = 0
    stripes: list[Stripe] = []
    types: list[bytes] = []
    statistics: list[bytes] = []
    added: dict[bytes, bytes] = {}
    for number, _, value in read_message(data, path):
        match number:
            case 5:
                item = {at: part for at, _, part in read_message(as_bytes(value, path, "metadata"), path)}
                added[as_bytes(item.get(1, b""), path, "name")] = as_bytes(item.get(2, b""), path, "value")
            case 3:
                stripes.append(_stripe(as_bytes(value, path, "stripes"), first, content, path))
                first += stripes[-1].rows
            case 4:
                types.append(as_bytes(value, path, "types"))
            case 6:
                row_count = as_number(value, path, "numberOfRows")
            case 7:
                statistics.append(as_bytes(value, path, "statistics"))
            case 10:
                raise UnsupportedError("encrypted ORC files are not supported", path=path)
    if first != row_count:
        raise CorruptFileError(f"stripes of {first} rows in a file of {row_count}", path=path, field="numberOfRows")
    return row_count, tuple(stripes), _root(types, path), tuple(statistics), added


def _stripe(data: bytes, first_row: int, content: int, path: object) -> Stripe:
    numbers = {n: as_number(v, path, "stripes") for n, _, v in read_message(data, path) if n <= 5}
    offset, index, body, footer, rows = (numbers.get(i, 0) for i in range(1, 6))
    if offset + index + body + footer > content or rows >= 2**40:
        raise CorruptFileError("a stripe is outside the file", path=path, offset=offset, field="stripes")
    return Stripe(offset, index, body, footer, first_row, rows)


def _root(messages: Sequence[bytes], path: object) -> OrcType:
    """The type of a file's rows, by the messages of all types."""
    if not messages or len(messages) > _MAX_TYPES:
        raise CorruptFileError(f"{len(messages)} types", path=path, field="types")
    try:
        return _tree(tuple(messages))
    except (CorruptFileError, UnsupportedError) as error:
        error.path = None if path is None else str(path)
        raise


def _type(data: bytes) -> tuple[int, list[int], list[str]]:
    kind, children, names = 0, [], []
    for number, _, value in read_message(data):
        match number:
            case 1:
                kind = as_number(value, None, "kind")
            case 2:
                children += as_numbers(value, None)
            case 3:
                names.append(as_bytes(value, None, "fieldNames").decode("utf-8", "replace"))
    return kind, children, names


@lru_cache(maxsize=4)  # most files that are read one after the other have the same types
def _tree(messages: tuple[bytes, ...]) -> OrcType:
    types = list(map(_type, messages))
    nodes: list[OrcType] = []
    for i, (kind, _, names) in enumerate(types):
        if kind not in OrcKind._value2member_map_:
            raise UnsupportedError(f"ORC type number {kind} is not known")
        nodes.append(OrcType(i, OrcKind(kind), [], names))
    depths = {0: 0}
    for i, (kind, children, names) in enumerate(types):
        # Types are numbered parents first and have one parent each, so that no type can contain itself.
        fits = all(i < c < len(nodes) and c not in depths for c in children) and len(set(children)) == len(children)
        if not fits or (kind == OrcKind.STRUCT and len(names) != len(children)) or depths.get(i, 0) > _MAX_DEPTH:
            raise CorruptFileError("the tree of types is broken", field="subtypes")
        depths.update(dict.fromkeys(children, depths.get(i, 0) + 1))
        nodes[i].children = [nodes[c] for c in children]
    if nodes[0].kind is not OrcKind.STRUCT:
        raise CorruptFileError("the root of an ORC file must be a struct", field="types")
    return nodes[0]


def _timestamp_bounds(data: bytes, path: object) -> tuple[int, int] | None:
    """Least and greatest timestamp of a column's statistics, in milliseconds; None when it has none."""
    for number, _, value in read_message(data, path):
        if number != 9:
            continue
        found = {n: unzigzag(v) for n, v in numbers_of(value, path, "timestampStatistics").items()}
        low, high = found.get(3, found.get(1)), found.get(4, found.get(2))
        return None if low is None or high is None else (low, high)
    return None


def parse_stripe_footer(data: bytes, stripe: Stripe, tail: OrcTail, path: object = None) -> StripeFooter:
    """The footer of a stripe, from its bytes in the file. Raises CorruptFileError."""
    streams: list[Stream] = []
    encodings: list[int] = []
    timezone = ""
    at = stripe.offset
    message = unpack(data, tail.codec, tail.block_size, path)
    for number, _, value in read_message(message, path):
        match number:
            case 1:
                parts = numbers_of(value, path, "streams")
                stream = Stream(parts.get(1, 0), parts.get(2, 0), at, parts.get(3, 0))
                streams.append(stream)
                at += stream.length
                if at > stripe.offset + stripe.index_length + stripe.data_length:
                    raise CorruptFileError("a stream is outside its stripe", path=path, offset=at, field="streams")
            case 2:
                encodings.append(numbers_of(value, path, "columns").get(1, 0))
            case 3:
                timezone = as_bytes(value, path, "writerTimezone").decode("utf-8", "replace")
    return StripeFooter(tuple(streams), tuple(encodings), timezone, message)
