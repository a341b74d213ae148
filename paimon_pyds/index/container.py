"""The file-index container: one file (or one embedded blob) with several indexes of several columns.

Specification: Paimon documentation, concepts/spec/fileindex, "Index File". All integers are big-endian:

    magic int64 · version int32 = 1 · head length int32 · columns int32
    per column: name · indexes int32 · per index: type name · start int32 · length int32
    redundant length int32 · redundant bytes · bodies

Names are Java's modified UTF-8 with a two-byte length. ``head length`` counts from the first byte to the first body;
``start`` is absolute. ``start = -1`` marks an index whose writer saw no record (EMPTY).

The redundant bytes are there for later versions. All readers skip them, and all bytes that belong to no index.
Containers written here have checksums, as an index has none and a flipped bit in a bitmap is another bitmap:

    redundant bytes: tag "XXH4BLK1" · checksum of the head before them uint32
    after the bodies: checksum uint32 per 1,024 bytes of them · checksum uint32 per whole 65,536 bytes of them

That of the head is of `paimon_pyds.base.arrays`. Those of the bodies are the low four bytes of XXH3 of 64 bits: on two
levels, so that a short read takes few bytes more, and a long one few checksums.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xxhash import xxh3_64_digest

from paimon_pyds.base.checksums import checksum
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import SchemaError
from paimon_pyds.index.source import Cursor, corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

MAGIC = 1493475289347502
"""First eight bytes of a container, as a big-endian number."""
VERSION = 1
"""Version of the container format."""
_EMPTY = -1
_FIXED_HEAD_BYTES = 8 + 4 + 4 + 4
"""Bytes of magic, version, head length and number of columns."""
_MAX_NAME = 65535
"""Bytes of a name: its length has two bytes."""
TAG = b"XXH4BLK1"
_EXTRA_BYTES = len(TAG) + 4

_SMALL_BYTES = 1 << 10
_LARGE_BYTES = 1 << 16
REQUEST_BYTES = 8 << 10
"""Bytes whose reading and checking costs about as much as one more request."""
FEW_CHECKSUMS_BYTES = 64 << 10
"""Up to this size in bytes, the checksums are all read at once: reading some of them costs as much."""

_Bytes = TypeVar("_Bytes", bytes, memoryview)


class IndexRange(NamedTuple):
    """The location of the body of one index: absolute ``start`` and ``length`` in bytes; ``start = -1`` is EMPTY."""

    start: int
    length: int

    @property
    def is_empty(self) -> bool:
        return self.start == _EMPTY


@dataclass(frozen=True, slots=True)
class ContainerHead:
    """The table of contents: column name to index type to range, in the file's order.

    ``checked_bytes``: bytes of the bodies, which have checksums behind them; None where the writer made none.
    """

    columns: Mapping[str, Mapping[str, IndexRange]]
    head_length: int
    checked_bytes: int | None = None


def encode_modified_utf8(text: str) -> bytes:
    """Java's modified UTF-8 without the length: U+0000 as C0 80, supplementary characters as surrogate pairs."""
    units = text.encode("utf-16-be", "surrogatepass")
    chars = "".join(map(chr, struct.unpack(f">{len(units) // 2}H", units)))
    return chars.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")


def decode_modified_utf8(data: bytes) -> str:
    """The text of modified UTF-8 bytes.
    Raises ValueError: the bytes are not modified UTF-8, or leave a surrogate alone."""
    if data.isascii():
        return data.decode("ascii")
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def parse_head(source: ByteSource) -> ContainerHead:
    """Read and check the head with one small read, or a second one when the head is longer.
    Raises CorruptFileError: not a container, another version, or ranges outside the file."""
    cursor = Cursor(source)
    if source.size < _FIXED_HEAD_BYTES:
        raise corrupt(source, f"{source.size} bytes are too few for a file-index container", offset=0, field="magic")
    if cursor.i64("magic") != MAGIC:
        raise corrupt(source, "this is not a file-index container", offset=0, field="magic")
    version = cursor.i32("version")
    if version != VERSION:
        raise corrupt(source, f"container version {version} is not known, only {VERSION} is", offset=8, field="version")
    head_length = cursor.i32("head length")
    if not _FIXED_HEAD_BYTES <= head_length <= source.size:
        raise corrupt(source, f"the head length {head_length} does not fit the file", offset=12, field="head length")
    columns: dict[str, dict[str, IndexRange]] = {}
    for _ in range(cursor.count("column number", each=6)):
        at = cursor.position
        name = _name(cursor, "column name")
        if name in columns:
            raise corrupt(source, f"column {name!r} is listed twice", offset=at, field="column name")
        columns[name] = _index_ranges(cursor, head_length)
    redundant = cursor.count("redundant length")
    before = cursor.position
    extra = cursor.take(redundant, "redundant bytes")
    if cursor.position != head_length:
        raise corrupt(
            source, f"the head takes {cursor.position} bytes, not {head_length}", offset=12, field="head length"
        )
    return ContainerHead(columns, head_length, _checked_bytes(source, before, extra))


def _index_ranges(cursor: Cursor, head_length: int) -> dict[str, IndexRange]:
    ranges: dict[str, IndexRange] = {}
    for _ in range(cursor.count("index number", each=10)):
        at = cursor.position
        name = _name(cursor, "index name")
        if name in ranges:
            raise corrupt(cursor.source, f"index {name!r} is listed twice", offset=at, field="index name")
        at = cursor.position
        start, length = cursor.i32("start pos"), cursor.i32("length")
        if start == _EMPTY:
            length = 0
        elif start < head_length or length < 0 or start + length > cursor.source.size:
            message = f"index {name!r} at {start} with {length} bytes is outside the file of {cursor.source.size}"
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


def _checked_bytes(source: ByteSource, before: int, extra: bytes) -> int | None:
    """Bytes of bodies that have checksums, by the redundant bytes that follow ``before`` bytes.

    None for redundant bytes that somebody else made.
    """
    if len(extra) < _EXTRA_BYTES:
        return None
    right = int.from_bytes(extra[len(TAG) : _EXTRA_BYTES], "big") == checksum(source.read(0, before))
    # Damage to the tag is no reason to believe the rest: half of it will do, wherever the bytes were shifted to.
    if not right and TAG[:4] not in extra[:_EXTRA_BYTES] and TAG[4:] not in extra[:_EXTRA_BYTES]:
        return None
    bodies = blocks_in(source.size - before - len(extra))
    if not right or not extra.startswith(TAG) or bodies is None:
        raise corrupt(source, "the head does not have its checksum", offset=before, field="redundant bytes")
    return bodies


def write_container(indexes: Mapping[str, Mapping[str, bytes | None]], *, checksums: bool = False) -> bytes:
    """The container of these indexes: column name to index type to body; None writes an EMPTY index.

    ``indexes``: by column and index type. ``checksums``: add checksums of head and bodies.
    Raises SchemaError: a name longer than 65,535 bytes, or bodies of more than 2 GiB.
    """
    named = {_encoded_name(c): {_encoded_name(t): body for t, body in types.items()} for c, types in indexes.items()}
    start = _FIXED_HEAD_BYTES + 4 + (_EXTRA_BYTES if checksums else 0)
    start += sum(len(column) + 4 + sum(len(kind) + 8 for kind in types) for column, types in named.items())
    head = [struct.pack(">qiii", MAGIC, VERSION, start, len(indexes))]
    bodies: list[bytes] = []
    for column, types in named.items():
        head.append(column + struct.pack(">i", len(types)))
        for kind, body in types.items():
            at, length = (_EMPTY, 0) if body is None else (start, len(body))
            if start + length > 0x7FFFFFFF:
                raise SchemaError("the file indexes of one data file exceed 2 GiB", hint="lower target-file-size")
            head.append(kind + struct.pack(">ii", at, length))
            bodies.append(body or b"")
            start += length
    if not checksums:
        return b"".join([*head, bytes(4), *bodies])
    before = b"".join([*head, struct.pack(">i", _EXTRA_BYTES)])
    whole = io.BytesIO()
    whole.writelines([before, TAG, struct.pack(">I", checksum(before)), *bodies])
    with whole.getbuffer() as view:
        sums = encode_checksums(view[len(before) + _EXTRA_BYTES :])
    whole.write(sums)
    return whole.getvalue()


def _encoded_name(text: str) -> bytes:
    data = encode_modified_utf8(text)
    if len(data) > _MAX_NAME:
        raise SchemaError(f"the name {text[:40]!r}… is longer than {_MAX_NAME} bytes and can't be indexed")
    return struct.pack(">H", len(data)) + data


def encode_checksums(data: bytes | memoryview) -> bytes:
    """The checksums that follow bodies of these bytes."""
    whole = len(data) // _LARGE_BYTES * _LARGE_BYTES
    return _checksums(data, _SMALL_BYTES) + _checksums(memoryview(data)[:whole], _LARGE_BYTES)


def _checksums(data: bytes | memoryview, size: int) -> bytes:
    """The checksums of blocks of ``size`` bytes; the last block may be shorter."""
    if len(data) <= size:
        return xxh3_64_digest(data)[4:] if data else b""
    view = memoryview(data)
    return b"".join([xxh3_64_digest(view[at : at + size])[4:] for at in range(0, len(view), size)])


def blocks_in(size: int) -> int | None:
    """Bytes of the bodies, when there are ``size`` bytes with their checksums; None when that can't be."""
    least = size * _LARGE_BYTES // (_LARGE_BYTES + 4 * (_LARGE_BYTES // _SMALL_BYTES) + 4) - 8
    return next((n for n in range(max(least, 0), size + 1)[:24] if n + _checksum_bytes(n) == size), None)


def _checksum_bytes(length: int) -> int:
    return 4 * (-(-length // _SMALL_BYTES) + length // _LARGE_BYTES)


def checked(source: ByteSource, head: ContainerHead) -> ByteSource:
    """The container, its bodies held against their checksums as they are read; as it is where it has none."""
    if head.checked_bytes is None:
        return source
    return CheckedBlocks(source, head.head_length, head.checked_bytes)


class CheckedBlocks:
    """A source that is read in whole blocks; each is compared with its checksum.

    Checksums are read along with their blocks. All of them are read and cached at once if they are few, or as soon as
    that costs no more than the requests for single ones have cost.

    ``start``: where the first block begins; nothing before it may be read. ``length``: bytes of all blocks.
    """

    __slots__ = ("_length", "_requested", "_source", "_start", "_sums", "name", "size")

    def __init__(self, source: ByteSource, start: int, length: int) -> None:
        self._source = source
        self._start = start
        self._length = length
        self._sums: bytes | None = None
        self._requested = 0
        self.name = source.name
        self.size = start + length

    def read(self, offset: int, length: int) -> bytes:
        if self._sums is None or length > _LARGE_BYTES:
            return self.read_many([(offset, length)])[0]
        if offset + length > self.size:
            raise self._past_end(offset + length)
        at = offset - self._start
        first = at // _SMALL_BYTES
        stop = -(-(at + length) // _SMALL_BYTES)
        begin = self._start + first * _SMALL_BYTES
        part = self._source.read(begin, max(min(self._start + stop * _SMALL_BYTES, self.size) - begin, 0))
        self._check(part, _SMALL_BYTES, self._sums[4 * first : 4 * stop], begin)
        return part[offset - begin : offset - begin + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(ranges) == 1 and self._sums is not None and ranges[0][1] <= _LARGE_BYTES:
            return [self.read(*ranges[0])]
        runs = self._runs(ranges)
        return self._cut(ranges, runs, self._fetch(runs))

    def views(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As `read_many`, without copying long ranges: a view holds the blocks around it in memory as long as it
        lives."""
        runs = self._runs(ranges)
        return self._cut(ranges, runs, [memoryview(part) for part in self._fetch(runs)])

    def _runs(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Runs of small blocks that contain the ranges, near ones joined: the begin and end of each."""
        start, end = self._start, self._length
        runs: list[tuple[int, int]] = []
        for offset, length in sorted(ranges):
            if offset + length > self.size:
                raise self._past_end(offset + length)
            first = (offset - start) // _SMALL_BYTES * _SMALL_BYTES
            stop = max(first, min(-(-(offset + length - start) // _SMALL_BYTES) * _SMALL_BYTES, end))
            if runs and first <= runs[-1][1] + REQUEST_BYTES:
                runs[-1] = runs[-1][0], max(stop, runs[-1][1])
            else:
                runs.append((first, stop))
        return runs

    def _cut(
        self, ranges: Sequence[tuple[int, int]], runs: Sequence[tuple[int, int]], parts: Sequence[_Bytes]
    ) -> list[_Bytes]:
        """The bytes of these ranges, cut out of the bytes of runs of blocks."""
        begins = [self._start + first for first, _ in runs]
        found = []
        for offset, length in ranges:
            number = max(bisect_right(begins, offset) - 1, 0)  # an empty range may be outside of all runs
            at = offset - begins[number]
            found.append(parts[number][at : at + length])
        return found

    def _fetch(self, runs: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of runs of blocks, which have their checksums."""
        known = self._sums
        if (
            known is not None and sum([stop - first for first, stop in runs]) <= 4 * _LARGE_BYTES
        ):  # one comparison for all
            parts, _ = self._read([(self._start + first, stop - first) for first, stop in runs], ())
            expected = [known[first // _SMALL_BYTES * 4 : -(-stop // _SMALL_BYTES) * 4] for first, stop in runs]
            if b"".join([_checksums(part, _SMALL_BYTES) for part in parts]) == b"".join(expected):
                return parts
        checks = [(number, *check) for number, run in enumerate(runs) for check in _checks(*run)]
        parts, sums = self._read(
            [(self._start + first, stop - first) for first, stop in runs],
            [self._place(first, stop, size) for _, first, stop, size in checks],
        )
        for (number, first, stop, size), wanted in zip(checks, sums, strict=True):
            begin = runs[number][0]
            self._check(memoryview(parts[number])[first - begin : stop - begin], size, wanted, self._start + first)
        return parts

    def _read(
        self, blocks: list[tuple[int, int]], places: Sequence[tuple[int, int]]
    ) -> tuple[list[bytes], list[bytes]]:
        """The bytes of these blocks, and the checksums at ``places`` within the list of all checksums."""
        source, length = self._source, _checksum_bytes(self._length)
        if self._sums is not None:
            parts = [source.read(*blocks[0])] if len(blocks) == 1 else source.read_many(blocks)
        else:
            self._requested += REQUEST_BYTES * len(places)
            if max(self._requested, FEW_CHECKSUMS_BYTES) < length:
                read = source.read_many([*blocks, *((self.size + at, n) for at, n in places)])
                return read[: len(blocks)], read[len(blocks) :]
            *parts, self._sums = source.read_many([*blocks, (self.size, length)])
        return parts, [self._sums[at : at + n] for at, n in places]

    def _place(self, first: int, stop: int, size: int) -> tuple[int, int]:
        """Offset and length of the checksums of these blocks within the list of all checksums."""
        begin = 4 * -(-self._length // _SMALL_BYTES) if size == _LARGE_BYTES else 0
        return begin + 4 * (first // size), 4 * (-(-stop // size) - first // size)

    def _check(self, data: bytes | memoryview, size: int, wanted: bytes, offset: int) -> None:
        if _checksums(data, size) != wanted:
            raise corrupt(self, "the bytes do not have their checksum", offset=offset, field="checksum")

    def _past_end(self, end: int) -> Exception:
        message = f"bytes up to {end} wanted, those with checksums end at {self.size}"
        return corrupt(self, message, offset=self.size)


def _checks(first: int, stop: int) -> list[tuple[int, int, int]]:
    """Bytes that are checked by small or by large blocks: where they begin and end, and the size of the blocks."""
    inner, outer = -(-first // _LARGE_BYTES) * _LARGE_BYTES, stop // _LARGE_BYTES * _LARGE_BYTES
    if inner >= outer:
        return [(first, stop, _SMALL_BYTES)] if first < stop else []
    parts = ((first, inner, _SMALL_BYTES), (inner, outer, _LARGE_BYTES), (outer, stop, _SMALL_BYTES))
    return [part for part in parts if part[0] < part[1]]
