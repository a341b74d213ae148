"""An ORC file as pyarrow reads it: counted, compared with its checksums, or one stripe of it as a file of its own."""

from __future__ import annotations

import io as _io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.checksums import block_checksums, checksum
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.orc.encoding import Field, OrcChecksums, pack, read_message, write_message
from paimon_pyds.format.orc.tail import MAGIC, OrcTail, Stripe, StripeFooter
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.faults import storage_error

_KEPT_BLOCKS = 16
"""Blocks at the ends of reads that are cached, as the next read continues there: a megabyte at most."""
_GAP = 1 << 20
"""Bytes between two ranges up to which one request reads both, and the gap."""
_NO_CHECKSUM = "the bytes do not have their checksum"
_STRIPES, _ROWS, _CONTENT = 3, 6, 2
"""Fields of the file's footer."""


def checked(read: Callable[[int, int], bytes], tail: OrcTail, path: str) -> Callable[[int, int], bytes]:
    """The same ranges, compared with the file's checksums where it has any."""
    if tail.checksums is None:
        return read
    return CheckedRanges(read, tail.checksums, tail.metadata[0], tail.metadata, path).read


class CheckedRanges:
    """Reads ranges of a file in whole blocks, each compared with its checksum.

    Args:
        read: gives the bytes at (offset, length).
        checksums: of the file.
        content: bytes before the stripe statistics, which the blocks cover.
        statistics: (offset, length) of the stripe statistics.
        path: the file, for messages.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        checksums: OrcChecksums,
        content: int,
        statistics: tuple[int, int],
        path: object,
    ) -> None:
        self._read = read
        self._checksums = checksums
        self._content = content
        self._statistics = statistics
        self._path = path
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range. Raises CorruptFileError for blocks that do not have their checksum."""
        if offset >= self._content or length <= 0:
            return self._behind(offset, length)
        inside = min(length, self._content - offset)
        data = self._blocks(offset, inside)
        return data if inside == length else data + self._behind(self._content, length - inside)

    def _behind(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        if (offset, length) == self._statistics and checksum(data) != self._checksums.statistics:
            raise CorruptFileError("the stripe statistics do not have their checksum", path=self._path, offset=offset)
        return data

    def _blocks(self, offset: int, length: int) -> bytes:
        size = self._checksums.block_size
        first, stop = offset // size, -(-(offset + length) // size)
        begin = first * size
        head = self._kept.get(first, b"")
        missing = first + bool(head)
        data = head
        if missing < stop:
            at = missing * size
            fresh = self._read(at, min(stop * size, self._content) - at)
            if block_checksums(fresh, size) != list(self._checksums.blocks[missing:stop]):
                raise CorruptFileError(_NO_CHECKSUM, path=self._path, offset=at, field="checksum")
            self._kept[stop - 1] = fresh[(stop - 1 - missing) * size :]
            self._kept.move_to_end(stop - 1)
            while len(self._kept) > _KEPT_BLOCKS:
                self._kept.popitem(last=False)
            data = head + fresh if head else fresh
        return data[offset - begin : offset - begin + length]


class _Seekable(_io.RawIOBase):
    """A file of `size` bytes that is read from where `seek` went."""

    _at = 0

    def size(self) -> int:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self.size())[whence])
        return self._at

    def tell(self) -> int:
        return self._at


class FetchedRanges:
    """Ranges of a file in an object store, where each request takes long whatever its size: pieces that will be read
    one by one are requested together, and the end of the file is requested once."""

    def __init__(self, io: FileIO, path: str, counters: ReadCounters) -> None:
        self._io, self._path, self._counters = io, path, counters
        self._ends: dict[int, bytes] = {}
        self._fetched: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range, of which a request is made where they are not there."""
        for ranges in (self._fetched, self._ends):
            for start, data in ranges.items():
                if start <= offset and offset + length <= start + len(data):
                    return data[offset - start : offset - start + length]
        return self._counters.read_range(self._io, self._path, offset, length)

    def read_end(self, offset: int, length: int) -> bytes:
        """The same for the end of the file, which is cached, as pyarrow will read it too."""
        data = self._ends[offset] = self.read(offset, length)
        return data

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Ask for ranges side by side, and forget those of before."""
        self._fetched = {}
        found = self._io.read_ranges(self._path, ranges)
        self._fetched = {offset: data for (offset, _), data in zip(ranges, found, strict=True)}
        self._counters.bytes_read += sum(map(len, found))
        self._counters.requests += len(found)


def joined(ranges: Iterable[tuple[int, int]], block: int, stop: int) -> list[tuple[int, int]]:
    """Ranges as whole blocks that end at ``stop`` at the latest, in order, those at most 1 MiB apart as one."""
    found: list[list[int]] = []
    for offset, length in sorted(ranges):
        first, last = offset // block * block, min(-(-(offset + length) // block) * block, max(stop, offset + length))
        if found and first <= found[-1][1] + _GAP:
            found[-1][1] = max(found[-1][1], last)
        else:
            found.append([first, last])
    return [(first, last - first) for first, last in found]


class CountedInput(_Seekable):
    """A file as pyarrow reads it, which counts what is read and keeps the errors that pyarrow garbles.

    ``fetched``: the ranges that were already requested, of a file in an object store.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        counters: ReadCounters,
        tail: OrcTail,
        path: str,
        fetched: FetchedRanges | None = None,
    ) -> None:
        self._source = source
        self._counters = counters
        self._path = path
        self._read = checked(self._range if fetched is None else fetched.read, tail, path)
        self.error: OSError | CorruptFileError | None = None

    def read(self, size: int | None = -1) -> bytes:
        left = max(self.size() - self._at, 0)
        length = left if size is None or size < 0 else min(size, left)
        try:
            data = self._read(self._at, length)
        except (OSError, CorruptFileError) as error:
            self.error = self.error or error
            data = bytes(length)  # an error in here ends the process where pyarrow is old
        self._at += len(data)
        return data

    def check(self) -> None:
        """Raise the error that reading had, as ours."""
        error, self.error = self.error, None
        if isinstance(error, CorruptFileError):
            raise error
        if error is not None:
            raise_alone(storage_error(error, "read", self._path), scrubbed(error))

    def _range(self, offset: int, length: int) -> bytes:
        self._source.seek(offset)
        data: bytes = self._source.read(length)
        self._counters.bytes_read += len(data)
        self._counters.requests += 1
        return data

    def size(self) -> int:
        return int(self._source.size())


class SingleStripeFile(_Seekable):
    """A stripe of ``source`` as a file of its own, whose footers say that its writer's time zone is UTC.

    pyarrow looks a writer's time zone up in the time zone database of the machine, and what that does not have (Java's
    ``GMT+08:00``) is an error or, in old versions, the end of the process. So the zone is not shown to it, and `zones`
    applies it afterwards.
    """

    def __init__(self, source: Any, tail: OrcTail, stripe: Stripe, footer: StripeFooter) -> None:
        self._source = source
        self._start = stripe.offset
        self._body = stripe.index_length + stripe.data_length
        self._end = _ending(tail, stripe, footer)

    def size(self) -> int:
        return len(MAGIC) + self._body + len(self._end)

    def read(self, size: int | None = -1) -> bytes:
        stop = self.size() if size is None or size < 0 else min(self._at + size, self.size())
        first = len(MAGIC)
        last = first + self._body
        parts = [MAGIC[self._at : stop]]
        start, end = max(self._at, first), min(stop, last)
        if start < end:
            self._source.seek(self._start + start - first)
            parts.append(self._source.read(end - start))
        if stop > last:
            parts.append(self._end[max(0, self._at - last) : stop - last])
        data = b"".join(parts)
        self._at += len(data)
        return data


def stripe_in_memory(
    source: pa.NativeFile,
    tail: OrcTail,
    stripe: Stripe,
    footer: StripeFooter,
    ranges: Sequence[tuple[int, int]],
    path: str,
) -> pa.Buffer:
    """A stripe as `SingleStripeFile` has it, of a file with checksums: pyarrow then reads without calling Python, and
    nothing is copied before it is compared.

    ``ranges``: whole blocks of checksums, with the streams that are wanted; other bytes of the stripe have any value.
    Raises CorruptFileError: a block does not have its checksum; OSError: the file can't be read.
    """
    assert tail.checksums is not None
    end, block = _ending(tail, stripe, footer), tail.checksums.block_size
    first, body_stop = stripe.offset - len(MAGIC), stripe.offset + stripe.index_length + stripe.data_length
    base = min(first, ranges[0][0])
    stop = max(body_stop + len(end), *(offset + length for offset, length in ranges))
    whole = pa.allocate_buffer(stop - base)
    view = memoryview(whole).cast("B")
    for offset, length in ranges:
        part = view[offset - base : offset - base + length]
        source.seek(offset)
        blocks = tail.checksums.blocks[offset // block : -(-(offset + length) // block)]
        if source.readinto(part) != length or tuple(block_checksums(part, block)) != blocks:
            raise CorruptFileError(_NO_CHECKSUM, path=path, offset=offset, field="checksum")
    view[first - base : stripe.offset - base] = MAGIC
    view[body_stop - base : body_stop - base + len(end)] = end
    return whole.slice(first - base, body_stop + len(end) - first)


def _ending(tail: OrcTail, stripe: Stripe, footer: StripeFooter) -> bytes:
    """The stripe's footer, the file's, and the postscript."""
    own: list[Field] = [f for f in read_message(footer.message) if f[0] != 3]
    stripe_footer = pack(write_message([*own, (3, 2, b"UTC")]), tail.codec, tail.block_size)
    lengths = (len(MAGIC), stripe.index_length, stripe.data_length, len(stripe_footer), stripe.rows)
    information = write_message((number, 0, value) for number, value in enumerate(lengths, 1))
    others = [f for f in read_message(tail.messages[0]) if f[0] not in (_STRIPES, _ROWS, _CONTENT)]
    content = stripe.index_length + stripe.data_length + len(stripe_footer)
    fields: list[Field] = [*others, (_CONTENT, 0, content), (_STRIPES, 2, information), (_ROWS, 0, stripe.rows)]
    file_footer = pack(write_message(fields), tail.codec, tail.block_size)
    changed = {1: len(file_footer), 5: 0}
    script = write_message((n, w, changed.get(n, v)) for n, w, v in read_message(tail.messages[1]))
    return stripe_footer + file_footer + script + bytes([len(script)])
