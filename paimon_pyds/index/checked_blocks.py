"""Blocks of bytes with checksums behind them, on two levels: small ones, so that a short read takes few bytes more, and
large ones, so that a long read takes few checksums.

    blocks · checksum uint32 per 1,024 bytes, the last may be shorter · checksum uint32 per whole 65,536 bytes

Checksums are the low four bytes of XXH3 of 64 bits, big-endian: it reads memory as fast as it comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

from paimon_pyds.index.source import corrupt
from paimon_pyds.storage.base import ByteSource

__all__ = ["CheckedBlocks", "blocks_in", "encode_checksums"]

_SMALL = 1 << 10
_LARGE = 1 << 16
_REQUEST = 8 << 10
"""Reading and checking so many bytes costs about what one more request does."""

_Bytes = TypeVar("_Bytes", bytes, memoryview)


def encode_checksums(data: bytes | memoryview) -> bytes:
    """What follows these bytes."""
    whole = len(data) // _LARGE * _LARGE
    return _checksums(data, _SMALL) + _checksums(memoryview(data)[:whole], _LARGE)


def _checksums(data: bytes | memoryview, size: int) -> bytes:
    """The checksums of blocks of so many bytes, the last of which may be shorter."""
    import xxhash

    view, digest = memoryview(data), xxhash.xxh3_64_digest
    return b"".join([digest(view[at : at + size])[4:] for at in range(0, len(view), size)])


def blocks_in(size: int) -> int | None:
    """Bytes of the blocks, when there are ``size`` bytes with their checksums; None when that can't be."""
    least = size * _LARGE // (_LARGE + 4 * (_LARGE // _SMALL) + 4) - 8
    return next((n for n in range(max(least, 0), size + 1)[:24] if n + _checksum_bytes(n) == size), None)


def _checksum_bytes(length: int) -> int:
    return 4 * (-(-length // _SMALL) + length // _LARGE)


class CheckedBlocks:
    """A source that is read in whole blocks, each held against its checksum.

    Checksums are read along with their blocks: all of them at once, to be kept, where they are few, or once that costs
    no more than the requests for some of them did.

    Args:
        start: where the first block begins; nothing before it may be read.
        length: bytes of all blocks.
    """

    __slots__ = ("_asked", "_length", "_source", "_start", "_sums", "name")

    def __init__(self, source: ByteSource, start: int, length: int) -> None:
        self._source = source
        self._start = start
        self._length = length
        self._sums: bytes | None = None
        self._asked = 0
        self.name = source.name

    @property
    def size(self) -> int:
        """Where the blocks end, as nothing behind them may be read."""
        return self._start + self._length

    def read(self, offset: int, length: int) -> bytes:
        if self._sums is None or length > _LARGE:
            return self.read_many([(offset, length)])[0]
        self._check_end(offset + length)
        at = offset - self._start
        first = at // _SMALL
        stop = -(-(at + length) // _SMALL)
        begin = self._start + first * _SMALL
        part = self._source.read(begin, max(min(stop * _SMALL, self._length) - first * _SMALL, 0))
        self._check(part, _SMALL, self._sums[4 * first : 4 * stop], begin)
        return part[offset - begin : offset - begin + length]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(ranges) == 1 and self._sums is not None and ranges[0][1] <= _LARGE:
            return [self.read(*ranges[0])]
        runs = self._runs(ranges)
        return self._cut(ranges, runs, self._fetch(runs))

    def views(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """As `read_many`, without a copy of what is long: the blocks around it are kept as long as it is."""
        runs = self._runs(ranges)
        return self._cut(ranges, runs, [memoryview(part) for part in self._fetch(runs)])

    def _cut(
        self, ranges: Sequence[tuple[int, int]], runs: Sequence[tuple[int, int]], parts: Sequence[_Bytes]
    ) -> list[_Bytes]:
        """What lies at these places, out of the bytes of runs of blocks."""
        if len(runs) == 1:
            begin, part = self._start + runs[0][0], parts[0]
            return [part[offset - begin : offset - begin + length] for offset, length in ranges]
        begins = [self._start + first for first, _ in runs]
        found = []
        for offset, length in ranges:
            # An empty range may lie in no run.
            number = max(bisect_right(begins, offset) - 1, 0)
            at = offset - begins[number]
            found.append(parts[number][at : at + length])
        return found

    def _runs(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The small blocks that ranges lie in, near ones together: where they begin and end."""
        start, end = self._start, self._length
        runs: list[tuple[int, int]] = []
        for offset, length in sorted(ranges):
            self._check_end(offset + length)
            first = (offset - start) // _SMALL * _SMALL
            stop = max(first, min(-(-(offset + length - start) // _SMALL) * _SMALL, end))
            if runs and first <= runs[-1][1] + _REQUEST:
                if stop > runs[-1][1]:
                    runs[-1] = runs[-1][0], stop
            else:
                runs.append((first, stop))
        return runs

    def _check_end(self, end: int) -> None:
        if end > self.size:
            raise corrupt(self, f"bytes up to {end} wanted, those with checksums end at {self.size}", offset=self.size)

    def _fetch(self, runs: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of runs of blocks, which have their checksums."""
        checks = [(number, *check) for number, run in enumerate(runs) for check in _checks(*run)]
        parts, sums = self._read(
            [(self._start + first, stop - first) for first, stop in runs],
            [self._place(first, stop, size) for _, first, stop, size in checks],
        )
        for (number, first, stop, size), told in zip(checks, sums, strict=True):
            part: bytes | memoryview = parts[number]
            begin = runs[number][0]
            whole = len(part) == stop - first
            part = part if whole else memoryview(part)[first - begin : stop - begin]
            self._check(part, size, told, self._start + first)
        return parts

    def _check(self, data: bytes | memoryview, size: int, told: bytes, offset: int) -> None:
        if _checksums(data, size) != told:
            raise corrupt(self, "the bytes do not have their checksum", offset=offset, field="checksum")

    def _read(
        self, blocks: list[tuple[int, int]], places: Sequence[tuple[int, int]]
    ) -> tuple[list[bytes], list[bytes]]:
        """What lies there, and the checksums that lie at some places among all checksums."""
        end, source = self._start + self._length, self._source
        if self._sums is not None:
            parts = [source.read(*blocks[0])] if len(blocks) == 1 else source.read_many(blocks)
        else:
            self._asked += _REQUEST * len(places)
            length = _checksum_bytes(self._length)
            if max(self._asked, _LARGE) < length:
                read = source.read_many([*blocks, *((end + at, n) for at, n in places)])
                return read[: len(blocks)], read[len(blocks) :]
            *parts, self._sums = source.read_many([*blocks, (end, length)])
        return parts, [self._sums[at : at + n] for at, n in places]

    def _place(self, first: int, stop: int, size: int) -> tuple[int, int]:
        """Where the checksums of these blocks lie among all: offset and length."""
        begin = 4 * -(-self._length // _SMALL) if size == _LARGE else 0
        return begin + 4 * (first // size), 4 * (-(-stop // size) - first // size)


def _checks(first: int, stop: int) -> list[tuple[int, int, int]]:
    """Bytes that are checked by small or by large blocks: where they begin and end, and the size of the blocks."""
    inner, outer = -(-first // _LARGE) * _LARGE, stop // _LARGE * _LARGE
    if inner >= outer:
        return [(first, stop, _SMALL)] if first < stop else []
    parts = ((first, inner, _SMALL), (inner, outer, _LARGE), (outer, stop, _SMALL))
    return [part for part in parts if part[0] < part[1]]
