"""Blocks of bytes with checksums behind them, on two levels: small ones, so that a short read takes few bytes more, and
large ones, so that a long read takes few checksums.

    blocks · checksum uint32 per 1,024 bytes, the last may be shorter · checksum uint32 per whole 65,536 bytes

Checksums are those of `paimon_pyds.checksum`, big-endian.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence

from paimon_pyds.checksum import block_checksums
from paimon_pyds.index.source import corrupt
from paimon_pyds.storage.base import ByteSource

__all__ = ["CheckedBlocks", "blocks_in", "encode_checksums"]

_SMALL = 1 << 10
_LARGE = 1 << 16


def encode_checksums(data: bytes | memoryview) -> bytes:
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
        runs = self._runs(ranges)
        checks = [(number, *check) for number, run in enumerate(runs) for check in _checks(*run)]
        sums = [self._sums(first, stop, size) for _, first, stop, size in checks]
        data = self._source.read_many([*((self._start + first, stop - first) for first, stop in runs), *sums])
        for (number, first, stop, size), told in zip(checks, data[len(runs) :], strict=True):
            part, begin = data[number], runs[number][0]
            whole = len(part) == stop - first
            self._check(part if whole else memoryview(part)[first - begin : stop - begin], told, size, first)
        if len(runs) == 1:
            begin, part = self._start + runs[0][0], data[0]
            return [part[offset - begin : offset - begin + length] for offset, length in ranges]
        begins = [self._start + first for first, _ in runs]
        found = []
        for offset, length in ranges:
            # An empty range may lie in no run.
            number = max(bisect_right(begins, offset) - 1, 0)
            at = offset - begins[number]
            found.append(data[number][at : at + length])
        return found

    def _runs(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The small blocks that ranges lie in, side by side ones together: where they begin and end."""
        start, end = self._start, self._length
        runs: list[tuple[int, int]] = []
        for offset, length in sorted(ranges):
            first = (offset - start) // _SMALL * _SMALL
            stop = max(first, min(-(-(offset + length - start) // _SMALL) * _SMALL, end))
            if runs and first <= runs[-1][1]:
                if stop > runs[-1][1]:
                    runs[-1] = runs[-1][0], stop
            else:
                runs.append((first, stop))
        return runs

    def _check(self, data: bytes | memoryview, told: bytes, size: int, first: int) -> None:
        found = block_checksums(data, size)
        if struct.pack(f">{len(found)}I", *found) != told:
            what = "the bytes do not have their checksum"
            raise corrupt(self, what, offset=self._start + first, field="checksum")

    def _sums(self, first: int, stop: int, size: int) -> tuple[int, int]:
        """Where the checksums of these bytes lie: offset and length."""
        begin = self._start + self._length + (4 * -(-self._length // _SMALL) if size == _LARGE else 0)
        return begin + 4 * (first // size), 4 * (-(-stop // size) - first // size)


def _checks(first: int, stop: int) -> list[tuple[int, int, int]]:
    """Bytes that are checked by small or by large blocks: where they begin and end, and the size of the blocks."""
    inner, outer = -(-first // _LARGE) * _LARGE, stop // _LARGE * _LARGE
    if inner >= outer:
        return [(first, stop, _SMALL)] if first < stop else []
    parts = ((first, inner, _SMALL), (inner, outer, _LARGE), (outer, stop, _SMALL))
    return [part for part in parts if part[0] < part[1]]
