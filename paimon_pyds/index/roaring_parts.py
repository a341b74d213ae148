"""Some containers of a serialized RoaringBitmap, without reading the others: each holds 65,536 positions.

The header tells where containers lie (`paimon_pyds.index.roaring` has the format); what is read is put together as a
bitmap of these containers only, and checked as any other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.index import roaring
from paimon_pyds.index.roaring_layout import ARRAY_MAX, BITMAP_BYTES, COOKIE_PLAIN, COOKIE_RUNS, NO_OFFSETS_BELOW
from paimon_pyds.index.source import Window, corrupt

__all__ = ["containers_of", "read_containers"]

_FEW = 1 << 12
_SHARE = 5
"""A container picked out costs about as much as three in a row; a fifth of them is worth it."""

Ints = npt.NDArray[np.int64]


def containers_of(rows: BitMap, row_count: int) -> Ints | None:
    """Numbers of the containers that hold these positions; None when they are so many that reading all costs less."""
    if len(rows) > _FEW:
        return None
    numbers = np.unique(np.asarray(rows.to_array(), np.int64) >> 16)
    return numbers if _SHARE * len(numbers) <= -(-row_count // 65536) else None


def read_containers(
    source: Window, places: Sequence[tuple[int, int]], wanted: Ints, row_count: int
) -> list[BitMap] | None:
    """The members of some bitmaps that lie in the wanted containers; None when one does not tell where these are.

    All headers are read in one request, and all containers in another.

    Args:
        source: what holds the bitmaps.
        places: where each begins in there, and its length in bytes.
        wanted: numbers of containers, ascending.
        row_count: every position must be below it.

    Raises:
        CorruptFileError: a bitmap's header, or one of the containers, contradicts itself.
    """
    most = -(-row_count // 65536)
    head_bytes = 8 + most // 8 + 1 + 8 * most
    read = source.read_many([(offset, min(length, head_bytes)) for offset, length in places])
    heads = [_Head(data, length) for data, (_, length) in zip(read, places, strict=True)]
    for head, (offset, _) in zip(heads, places, strict=True):
        if not head.is_right:
            raise corrupt(source, "the header of a bitmap contradicts itself", offset=offset, field="bitmap")
        if head.starts is None:
            return None
    chosen = [np.flatnonzero(np.isin(head.keys, wanted)) for head in heads]
    ranges = [head.ranges(at, part) for head, (at, _), part in zip(heads, places, chosen, strict=True)]
    bodies = iter(source.read_many([one for of_head in ranges for one in of_head]))
    found = []
    for head, part, of_head in zip(heads, chosen, ranges, strict=True):
        data = head.header_of(part) + b"".join([next(bodies) for _ in of_head])
        origin = source.origin + (of_head[0][0] if of_head else 0)
        found.append(roaring.decode(data, row_count=row_count, path=source.name, origin=origin))
    return found


class _Head:
    """The header of a bitmap of ``length`` bytes. ``starts`` is None where containers have no offsets."""

    def __init__(self, head: bytes, length: int) -> None:
        self.is_right = False
        self.starts: Ints | None = None
        if len(head) < 8:
            return
        cookie = int.from_bytes(head[:4], "little")
        has_runs = cookie & 0xFFFF == COOKIE_RUNS
        count = (cookie >> 16) + 1 if has_runs else int.from_bytes(head[4:8], "little")
        flags_at = 4 if has_runs else 8
        table = flags_at + ((count + 7) // 8 if has_runs else 0)
        with_offsets = not has_runs or count >= NO_OFFSETS_BELOW
        first = table + (8 if with_offsets else 4) * count
        if (not has_runs and cookie != COOKIE_PLAIN) or first > len(head):
            return
        pairs = np.frombuffer(head, "<u2", 2 * count, table).reshape(count, 2)
        self.keys, self.cards = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64) + 1
        bits = np.frombuffer(head, np.uint8, table - flags_at, flags_at)
        self.is_run = (
            np.unpackbits(bits, bitorder="little", count=count).astype(bool) if has_runs else np.zeros(count, bool)
        )
        if not with_offsets:
            self.is_right = True
            return
        starts = np.frombuffer(head, "<u4", count, first - 4 * count).astype(np.int64)
        self.sizes = np.diff(np.append(starts, length))
        plain = np.where(self.cards <= ARRAY_MAX, 2 * self.cards, BITMAP_BYTES)
        self.starts = starts
        self.is_right = (
            (count == 0 or int(starts[0]) == first)
            and bool((self.sizes > 0).all())
            and bool((self.sizes == plain)[~self.is_run].all())
            and bool((self.keys[1:] > self.keys[:-1]).all())
        )

    def ranges(self, offset: int, chosen: Ints) -> list[tuple[int, int]]:
        """Where these containers lie, as offsets and lengths, when the bitmap begins at ``offset``."""
        assert self.starts is not None
        return [(offset + int(self.starts[i]), int(self.sizes[i])) for i in chosen]

    def header_of(self, chosen: Ints) -> bytes:
        """The header of a bitmap of these containers only."""
        is_run, sizes = self.is_run[chosen], self.sizes[chosen]
        count = len(chosen)
        if is_run.any():
            head = struct.pack("<HH", COOKIE_RUNS, count - 1) + np.packbits(is_run, bitorder="little").tobytes()
        else:
            head = struct.pack("<II", COOKIE_PLAIN, count)
        head += np.stack([self.keys[chosen], self.cards[chosen] - 1], axis=1).astype("<u2").tobytes()
        if is_run.any() and count < NO_OFFSETS_BELOW:
            return head
        first = len(head) + 4 * count
        return head + (first + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
