"""Blocks of bytes with checksums behind them, on two levels: small ones, so that a short read takes few bytes more, and
large ones, so that a long read takes few checksums.

    blocks · checksum uint32 per 1,024 bytes, the last may be shorter · checksum uint32 per whole 65,536 bytes

Checksums are those of `paimon_pyds.checksum`, big-endian.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from paimon_pyds.checksum import block_checksums
from paimon_pyds.index.source import corrupt
from paimon_pyds.storage.base import ByteSource

__all__ = ["CheckedBlocks", "blocks_in", "encode_checksums"]

_SMALL = 1 << 10
_LARGE = 1 << 16


def encode_checksums(data: bytes) -> bytes:
    """What follows these bytes."""
    whole = len(data) // _LARGE * _LARGE
    sums = [*block_checksums(data, _SMALL), *block_checksums(memoryview(data)[:whole], _LARGE)]
    return struct.pack(f">{len(sums)}I", *sums)


def blocks_in(size: int) -> int | None:
    """Bytes of the blocks, when there are ``size`` bytes with their checksums; None when that can't be."""
    least = size * _LARGE // (_LARGE + 4 * (_LARGE // _SMALL) + 4) - 8
    return next((n for n in range(max(least, 0), size + 1)[:24] if n + _checksum_bytes(n) == size), None)


def _checksum_bytes(length: int) -> int:
    return 4 * (-(-length // _SMALL) + length // _LARGE)


class CheckedBlocks:
    """A source that is read in whole blocks, each held against its checksum, which is read along with it.

    Args:
        start: where the first block begins; nothing before it may be read.
        length: bytes of all blocks.
    """

    __slots__ = ("_length", "_source", "_start", "name")

    def __init__(self, source: ByteSource, start: int, length: int) -> None:
        self._source = source
        self._start = start
        self._length = length
        self.name = source.name

    @property
    def size(self) -> int:
        return self._source.size

    def read(self, offset: int, length: int) -> bytes:
        return self.read_many([(offset, length)])[0]

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        runs: list[tuple[int, int]] = []
        for first, stop in sorted(self._whole(offset, length) for offset, length in ranges):
            if runs and first <= runs[-1][1]:
                runs[-1] = runs[-1][0], max(stop, runs[-1][1])
            else:
                runs.append((first, stop))
        checks = [list(self._checks(first, stop)) for first, stop in runs]
        sums = [self._sums(*check) for run in checks for check in run]
        data = self._source.read_many([*((self._start + first, stop - first) for first, stop in runs), *sums])
        told = iter(data[len(runs) :])
        for (begin, _), part, run in zip(runs, data, checks, strict=False):
            for first, stop, size in run:
                view = memoryview(part)[first - begin : stop - begin]
                found = block_checksums(view, size)
                if struct.pack(f">{len(found)}I", *found) != next(told):
                    what = "the bytes do not have their checksum"
                    raise corrupt(self, what, offset=self._start + first, field="checksum")
        begins = [first for first, _ in runs]
        found_parts = []
        for offset, length in ranges:
            run_number = bisect_right(begins, self._whole(offset, length)[0]) - 1
            at = offset - self._start - begins[run_number]
            found_parts.append(data[run_number][at : at + length])
        return found_parts

    def _whole(self, offset: int, length: int) -> tuple[int, int]:
        """The small blocks that a range lies in: where they begin and end, from the first block on."""
        first = (offset - self._start) // _SMALL * _SMALL
        stop = -(-(offset + length - self._start) // _SMALL) * _SMALL
        return first, max(first, min(stop, self._length))

    @staticmethod
    def _checks(first: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Bytes that are checked by small or by large blocks: where they begin and end, and the size of the blocks."""
        inner = -(-first // _LARGE) * _LARGE
        outer = stop // _LARGE * _LARGE
        if inner >= outer:
            inner = outer = stop
        for begin, end, size in ((first, inner, _SMALL), (inner, outer, _LARGE), (outer, stop, _SMALL)):
            if begin < end:
                yield begin, end, size

    def _sums(self, first: int, stop: int, size: int) -> tuple[int, int]:
        """Where the checksums of these bytes lie: offset and length."""
        begin = self._start + self._length + (4 * -(-self._length // _SMALL) if size == _LARGE else 0)
        return begin + 4 * (first // size), 4 * (-(-stop // size) - first // size)
