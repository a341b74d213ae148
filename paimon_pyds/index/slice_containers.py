"""Some containers of several serialized RoaringBitmaps, without reading the others: each holds 65,536 positions.

Headers have the location of each container (`paimon_pyds.index.roaring.codec` has the format): those of all bitmaps
become columns. The containers that were read of a bitmap make a bitmap of their own, which is checked as any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from paimon_pyds.base.arrays import Flags, Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.index.roaring.codec import (
    BITMAP_BYTES,
    COOKIE_PLAIN,
    COOKIE_RUNS,
    MAX_CONTAINERS,
    NO_OFFSETS_BELOW,
    container_entries,
    decode_bitmap,
    encode_header,
)
from paimon_pyds.index.source import corrupt

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_SHARE = 5
"""A container picked out costs about as much as three in a row; a fifth of them is worth it."""

_GAP = 2048
"""Bytes between two containers up to which they are read together, with the gap."""

_NO_FLAGS = np.zeros(MAX_CONTAINERS // 8, np.uint8)


def containers_of(rows: BitMap, row_count: int) -> Int64s | None:
    """Numbers of the containers that hold these positions; None if reading all containers costs less."""
    count: int = rows.get_statistics()["n_containers"]
    if _SHARE * count > -(-row_count // 65536):
        return None
    numbers: list[int] = []
    after = 0
    for _ in range(count):
        numbers.append(rows.next_set_bit(after) >> 16)
        after = numbers[-1] + 1 << 16
    return np.array(numbers, np.int64)


def head_bytes(row_count: int) -> int:
    """The greatest size in bytes of the header of a bitmap of ``row_count`` positions."""
    containers = -(-row_count // 65536)
    return 8 + containers // 8 + 1 + 8 * containers


def read_containers(
    source: ByteSource, places: Sequence[tuple[int, int]], wanted: Int64s, row_count: int
) -> list[BitMap]:
    """The members of some bitmaps in the wanted containers, and maybe others.

    All headers are read in one request, and all containers in another. The header of a bitmap of few containers has no
    offsets: such a bitmap is read whole.

    ``places``: where each begins in there, and its length in bytes. ``wanted``: numbers of containers, ascending.
    ``row_count``: every position must be below it.
    Raises CorruptFileError: a bitmap's header, or one of the containers, contradicts itself.
    """
    most = head_bytes(row_count)
    heads = source.read_many([(offset, min(length, most)) for offset, length in places])
    headers = _headers(heads, [length for _, length in places])
    if isinstance(headers, int):
        message = "the header of a bitmap contradicts itself"
        raise corrupt(source, message, offset=places[headers][0], field="bitmap")
    without_offsets, containers = headers
    whole = sorted(without_offsets)
    is_wanted = np.zeros(MAX_CONTAINERS, np.bool_)
    is_wanted[wanted] = True
    chosen = containers.take(is_wanted[containers.keys])
    begins = np.array([offset for offset, _ in places], np.int64)[chosen.owners] + chosen.starts
    ranges, within = _together(begins, chosen.sizes)
    read = source.read_many([*ranges, *(places[number] for number in whole)])
    body = _picked(b"".join(read[: len(ranges)]), within, chosen.sizes)
    entries = container_entries(chosen.keys, chosen.cards)
    origin: int = getattr(source, "origin", 0)
    at, found = 0, []
    bounds = itertools.pairwise(chosen.owners.searchsorted(np.arange(len(places) + 1)).tolist())
    for number, (begin, end) in enumerate(bounds):
        sizes, first = chosen.sizes[begin:end], places[number][0]
        if number in without_offsets:
            data = read[len(ranges) + whole.index(number)]
        else:
            until = at + int(sizes.sum())
            data = encode_header(entries[begin:end], chosen.is_run[begin:end], sizes) + body[at:until]
            at = until
        found.append(decode_bitmap(data, row_count=row_count, path=source.name, origin=origin + first))
    return found


def _together(begins: Int64s, sizes: Int64s) -> tuple[list[tuple[int, int]], Int64s]:
    """What to read, as (offset, length), to have ``sizes`` bytes from each of ``begins`` on, which ascend in each
    bitmap; and the position of each within the bytes of all ranges."""
    ends = begins + sizes
    apart = np.ones(len(begins), np.bool_)
    gaps = begins[1:] - ends[:-1]
    apart[1:] = (gaps < 0) | (gaps > _GAP)
    first = apart.nonzero()[0]
    offsets = begins[first]
    lengths = ends[np.append(first[1:], len(begins))[: len(first)] - 1] - offsets
    moved = lengths.cumsum() - lengths - offsets
    return list(zip(offsets.tolist(), lengths.tolist(), strict=True)), begins + moved[apart.cumsum() - 1]


def _picked(data: bytes, begins: Int64s, sizes: Int64s) -> bytes:
    """The bytes of these ranges, one after another."""
    if int(sizes.sum()) == len(data):
        return data
    return b"".join([data[begin : begin + size] for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True)])


@dataclass(frozen=True, slots=True)
class _Containers:
    """Containers as columns: of which bitmap each is, its key and cardinality, whether it is of runs, where it starts
    in its bitmap, and its size in bytes."""

    owners: Int64s
    keys: Int64s
    cards: Int64s
    is_run: Flags
    starts: Int64s
    sizes: Int64s

    def take(self, which: Flags) -> _Containers:
        keys, cards, is_run = self.keys[which], self.cards[which], self.is_run[which]
        return _Containers(self.owners[which], keys, cards, is_run, self.starts[which], self.sizes[which])


def _headers(heads: Sequence[bytes], lengths: Sequence[int]) -> tuple[set[int], _Containers] | int:
    """The bitmaps whose headers have no offsets, and the containers of the others, bitmap after bitmap; or the number
    of a bitmap whose header is wrong. ``heads`` are the first bytes of bitmaps of these lengths.

    Sizes of run containers follow from where the next one begins: whether the number of runs is right is checked later.
    """
    own_lengths, counts, alone = [], [], set[int]()
    entries, starts, flags = [], [], []
    for number, head in enumerate(heads):
        cookie, count = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
        table, flag_bytes = 8, 0
        has_runs = cookie & 0xFFFF == COOKIE_RUNS
        if has_runs:
            count = (cookie >> 16) + 1
            flag_bytes = (count + 7) // 8
            table = 4 + flag_bytes
        elif cookie != COOKIE_PLAIN or count > MAX_CONTAINERS:
            return number
        with_offsets = not has_runs or count >= NO_OFFSETS_BELOW
        size = table + (8 if with_offsets else 4) * count
        if size > len(head):
            return number
        if not with_offsets:
            alone.add(number)
            count = 0
        own_lengths.append(size)
        counts.append(count)
        entries.append(np.frombuffer(head, "<u4", count, table))
        starts.append(np.frombuffer(head, "<u4", count, size - 4 * count))
        bits = np.frombuffer(head, np.uint8, flag_bytes, 4) if has_runs else _NO_FLAGS
        flags.append(np.unpackbits(bits, count=count, bitorder="little"))
    every, number_of = np.concatenate(entries), np.array(counts, np.int64)
    keys, cards = (every & 0xFFFF).astype(np.int64), (every >> 16).astype(np.int64) + 1
    begins, is_run = np.concatenate(starts).astype(np.int64), np.concatenate(flags).view(np.bool_)
    some = number_of.nonzero()[0]
    last = number_of.cumsum()[some] - 1
    first = last + 1 - number_of[some]
    ends = np.empty_like(begins)
    ends[:-1] = begins[1:]
    ends[last] = np.array(lengths, np.int64)[some]
    sizes = ends - begins
    right = np.where(is_run, (sizes >= 6) & (sizes & 3 == 2), sizes == np.minimum(2 * cards, BITMAP_BYTES))
    ascends = keys[1:] > keys[:-1]
    ascends[first[1:] - 1] = True
    right[1:] &= ascends
    right[first] &= begins[first] == np.array(own_lengths, np.int64)[some]
    owners = np.repeat(np.arange(len(heads)), number_of)
    if not right.all():
        return int(owners[right.argmin()])
    return alone, _Containers(owners, keys, cards, is_run, begins, sizes)
