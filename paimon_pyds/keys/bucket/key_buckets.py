"""The bucket of each key of a partition: a map from the hashes of very many keys, 6 bytes each at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.integer]

BLOCK_KEYS = 1 << 20
"""Keys of a block, which bounds what one insertion moves."""
FEW_KEYS = 1 << 16
"""Recent keys that are held apart before they are merged into the blocks."""
_Block = tuple[Hashes, Buckets]
_EMPTY: _Block = (np.empty(0, np.int32), np.empty(0, np.uint8))


class KeyBuckets:
    """Hashes and the bucket of each, sorted in blocks, so that one block may grow without a copy of all."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._starts = np.empty(0, np.int32)
        """The first hash of each block but the first."""
        self._recent = _EMPTY
        self._count = 0

    @classmethod
    def of(cls, files: Sequence[tuple[int, Callable[[], Hashes]]], count: int) -> KeyBuckets:
        """Those of buckets with functions that read their hashes, ``count`` at most; of a hash that is in several, the
        first one counts."""
        made = cls()
        ranges = max(1, count // BLOCK_KEYS)
        edges = (np.arange(1, ranges) * (2**32 / ranges) - 2**31).astype(np.int32)
        given = np.empty(count, np.int32)
        pieces: list[list[_Block]] = [[] for _ in range(ranges)]
        at = 0
        for bucket, read in files:
            hashes = read()
            mine = given[at : at + len(hashes)]
            mine[:] = hashes
            mine.sort()
            at += len(hashes)
            number = np.array([bucket], np.uint8 if bucket < 256 else np.int16)
            for piece, (start, stop) in zip(pieces, _ranges_between(mine, edges), strict=True):
                piece.append((mine[start:stop], np.broadcast_to(number, stop - start)))
        # Two arrays hold all of them: many small ones, made between temporary ones, would fragment the heap.
        all_hashes = np.empty(at, np.int32)
        all_buckets = np.empty(at, np.result_type(np.uint8, *(block[1] for piece in pieces for block in piece)))
        at = 0
        for piece in pieces:
            hashes, buckets = _united(piece)
            end = at + len(hashes)
            all_hashes[at:end], all_buckets[at:end] = hashes, buckets
            made._append((all_hashes[at:end], all_buckets[at:end]))
            at = end
        made._starts = np.array([block[0][0] for block in made._blocks[1:]], np.int32)
        return made

    def __len__(self) -> int:
        return self._count + len(self._recent[0])

    def find(self, hashes: Hashes) -> npt.NDArray[np.int32]:
        """The bucket of each of some hashes, which are ascending; -1 for one that has none."""
        found = np.full(len(hashes), -1, np.int32)
        for start, stop, block in self._touched(hashes):
            _find(block, hashes[start:stop], found[start:stop])
        _find(self._recent, hashes, found)
        return found

    def add(self, hashes: Hashes, buckets: npt.NDArray[np.int32]) -> None:
        """Put in hashes that are not there yet, ascending, and the bucket of each."""
        self._recent = _merged(self._recent, (hashes, _narrow(buckets)))
        if len(self._recent[0]) > max(FEW_KEYS, self._count // 16):
            self._settle()

    def by_bucket(self) -> Iterator[tuple[int, Hashes]]:
        """Each bucket with its hashes, ascending; the map is empty then."""
        self._settle()
        pieces: dict[int, list[Hashes]] = {}
        self._blocks.reverse()
        while self._blocks:
            hashes, buckets = self._blocks.pop()
            order = np.argsort(buckets, kind="stable")
            numbers = buckets[order]
            starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            sorted_by_bucket = hashes[order]
            for start, stop in pairwise(starts):
                pieces.setdefault(int(numbers[start]), []).append(sorted_by_bucket[start:stop])
        for bucket in sorted(pieces):
            yield bucket, np.concatenate(pieces.pop(bucket))

    def _touched(self, hashes: Hashes) -> Iterator[tuple[int, int, _Block]]:
        for block, (start, stop) in zip(
            self._blocks, _ranges_between(hashes, self._starts), strict=False
        ):  # there may be no block
            if start < stop:
                yield start, stop, block

    def _settle(self) -> None:
        """Move what came last into the blocks, and halve those that have grown too large."""
        recent, self._recent = self._recent, _EMPTY
        if not len(recent[0]):
            return
        old, self._blocks, self._count = self._blocks or [_EMPTY], [], 0
        for at, (start, stop) in enumerate(_ranges_between(recent[0], self._starts)):
            block = _merged(old[at], (recent[0][start:stop], recent[1][start:stop]))
            old[at] = _EMPTY
            self._append(block)
        self._starts = np.array([block[0][0] for block in self._blocks[1:]], np.int32)

    def _append(self, block: _Block) -> None:
        hashes, buckets = block
        if not len(hashes):
            return
        parts = -(-len(hashes) // (2 * BLOCK_KEYS))
        for part, numbers in zip(np.array_split(hashes, parts), np.array_split(buckets, parts), strict=True):
            self._blocks.append((part, numbers) if parts == 1 else (part.copy(), numbers.copy()))
        self._count += len(hashes)


def _narrow(buckets: npt.NDArray[np.int32]) -> Buckets:
    return buckets.astype(np.uint8 if not len(buckets) or buckets.max() < 256 else np.int16)


def _united(pieces: Sequence[_Block]) -> _Block:
    """Pieces in one, each hash once."""
    hashes, buckets = (np.concatenate(part) for part in zip(_EMPTY, *pieces, strict=True))
    order = np.argsort(hashes, kind="stable")
    hashes, buckets = hashes[order], buckets[order]
    again = hashes[1:] == hashes[:-1]
    if again.any():
        first = np.append(True, ~again)
        hashes, buckets = hashes[first], buckets[first]
    return hashes, buckets


def _ranges_between(hashes: Hashes, edges: Hashes) -> Iterator[tuple[int, int]]:
    """The ranges of ascending hashes between edges: start and stop of each."""
    return pairwise([0, *np.searchsorted(hashes, edges).tolist(), len(hashes)])


def _merged(one: _Block, other: _Block) -> _Block:
    """Two blocks without a common hash."""
    if not len(one[0]) or not len(other[0]):
        return one if len(one[0]) else other
    at = np.searchsorted(one[0], other[0]) + np.arange(len(other[0]))
    rest = np.ones(len(one[0]) + len(other[0]), np.bool_)
    rest[at] = False
    made = []
    for mine, theirs in zip(one, other, strict=True):
        whole = np.empty(len(rest), np.result_type(mine, theirs))
        whole[at] = theirs
        whole[rest] = mine
        made.append(whole)
    return made[0], made[1]


def _find(block: _Block, hashes: Hashes, found: npt.NDArray[np.int32]) -> None:
    """Write the bucket of each hash that the block has into ``found``."""
    if len(block[0]):
        at = np.minimum(np.searchsorted(block[0], hashes), len(block[0]) - 1)
        hits = np.flatnonzero(block[0][at] == hashes)
        found[hits] = block[1][at[hits]]
