"""Bit slices: for each bit of the rows' values, the rows that have it set. They answer =, ranges, best rows and more.

After O'Neil and Quass, "Improved query performance with variant indexes" (1997). Values are from 0 to 2^count - 1. Sets
of rows that are handed in or out are not to be changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s, Words, keep_freed_memory
from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.index.roaring.codec import decode_bitmap
from paimon_pyds.index.slice_codec import RowOrder, order_rows
from paimon_pyds.index.slice_containers import containers_of, head_bytes, read_containers
from paimon_pyds.index.source import views

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

ByteRange = tuple[int, int]

_SHARE_OF_LISTS = 8
"""Lists of slices that are often used together are cached as one entry, if it takes no more than this share (1/8) of
the cache."""

_LEAST_HEADER_FACTOR = 4
"""Parts of slices are read if all slices have at least this number of times the size of their headers."""

_PARTS = 4
"""Answers from parts of slices before whole slices are loaded, if the cache has room for them."""

_RANGES_BEFORE_ORDER = 16
"""Intervals that are answered before the rows are put in order, which takes as long as about 60 intervals."""

_SHARE_OF_ORDER = 4
"""An order takes at most this share (1/4) of the cache."""

_MOST_ORDERED_BITS = 32
"""Bits of values up to which rows are ordered."""

_LARGE_BYTES = 1 << 20
"""Bytes of slices above which freed memory is held for the next ones."""


class BitSlices:
    """Bit slices that are read on demand. Callers do not change the bitmaps that methods return.

    Args:
        source: holds the bitmaps.
        existing: offset and length of the bitmap of the rows that have a value.
        places: offset and length of each slice, lowest bit first.
        row_count: rows of the data file; every position in the slices is below it.
        cache: for bitmaps and for results derived from them.
    """

    def __init__(
        self,
        source: ByteSource,
        existing: ByteRange,
        places: Sequence[ByteRange],
        row_count: int,
        cache: ByteLimitedCache,
    ) -> None:
        self._source = source
        self._existing = existing
        self._places = places
        self._row_count = row_count
        self._cache = cache
        self._owner = object()
        self._parts_read = 0
        self._intervals = 0

    @property
    def count(self) -> int:
        return len(self._places)

    @property
    def low_count(self) -> int:
        """Number of slices below the highest ones, which leave few rows to look for in these."""
        return max(len(self._places) - _HIGHEST_BITS, 0)

    def existing(self) -> BitMap:
        """Rows that have a value."""
        return self._load([self._existing])[0]

    def one(self, bit: int) -> BitMap:
        return self._load([self._places[bit]])[0]

    def load(self, first: int, stop: int | None = None) -> list[BitMap]:
        """The slices from ``first`` up to ``stop`` (None: all above), lowest bit first."""
        return self._load_list(first, self._places[first:stop])

    def above(self, first: int) -> tuple[BitMap, list[BitMap]]:
        """Rows that have a value, and the slices from ``first`` up."""
        existing, *slices = self._load_list(~first, [self._existing, *self._places[first:]])
        return existing, slices

    def load_around(self, rows: BitMap, bits: Sequence[int]) -> list[BitMap] | None:
        """The slices of these bits around some positions, and maybe more of them; None where whole slices cost no
        more."""
        places = [self._places[bit] for bit in bits]
        whole = sum(length for _, length in places)
        if whole <= _LEAST_HEADER_FACTOR * len(places) * head_bytes(self._row_count):
            return None
        if self._parts_read >= _PARTS and whole <= self._cache.limit // _SHARE_OF_LISTS:
            return None
        containers = containers_of(rows, self._row_count)
        if containers is None:
            return None
        self._parts_read += 1
        return read_containers(self._source, places, containers, self._row_count)

    def _load_list(self, name: int, places: Sequence[ByteRange]) -> list[BitMap]:
        loaded: list[BitMap] | None = self._cache.get((self._owner, name, len(places)))
        if loaded is None:
            loaded = self._load(places)
            size = sum(length + 64 for _, length in places)
            if size <= self._cache.limit // _SHARE_OF_LISTS:  # looking up each takes longer than what is done then
                self._cache.put((self._owner, name, len(places)), loaded, size)
        return loaded

    def _load(self, places: Sequence[ByteRange]) -> list[BitMap]:
        loaded: dict[int, BitMap] = {}
        missing = []
        for place in places:
            bitmap = self._cache.get((self._owner, place[0]))
            if bitmap is None:
                missing.append(place)
            else:
                loaded[place[0]] = bitmap
        if missing:
            if sum(length for _, length in missing) >= _LARGE_BYTES:
                keep_freed_memory()
            name, origin = self._source.name, getattr(self._source, "origin", 0)
            for (offset, length), data in zip(missing, views(self._source, missing), strict=True):
                bitmap = decode_bitmap(data, row_count=self._row_count, path=name, origin=origin + offset)
                self._cache.put((self._owner, offset), bitmap, length + 64)
                loaded[offset] = bitmap
        return [loaded[offset] for offset, _ in places]

    def recall(self, highest: int) -> BitMap | None:
        """The rows that `remember` was given for these highest bits (below a 1 that marks their number), if they are
        still cached."""
        found: BitMap | None = self._cache.get((self._owner, "highest", highest))
        return found

    def remember(self, highest: int, rows: BitMap) -> None:
        most = 128 + 2 * len(rows) + 64 * (((rows.max() - rows.min()) >> 16) + 1 if rows else 0)
        self._cache.put((self._owner, "highest", highest), rows, most)

    def order(self) -> RowOrder | None:
        """The rows in order, cached; None before many intervals were answered, or if the order takes too much memory.
        Raises CorruptFileError: a slice is damaged."""
        order: RowOrder | None = self._cache.get((self._owner, "order"))
        bits = self.low_count
        if order is not None or not bits or self.count > _MOST_ORDERED_BITS:
            return order
        if 8 * self._row_count > self._cache.limit // _SHARE_OF_ORDER:
            return None
        self._intervals += 1
        if self._intervals <= _RANGES_BEFORE_ORDER:
            return None
        self._intervals = 0
        order = order_rows(self.existing(), self.load(bits), self.load(0, bits), self._row_count)
        self._cache.put((self._owner, "order"), order, order.nbytes)
        return order


_HIGHEST_BITS = 8
"""Highest bits by which results are cached: the rows that have a certain number in these bits; and by which rows are
ordered after many intervals."""

_LEVELS = (4, 0)
"""So are those of fewer bits: they spare the many others that begin with them the steps among most rows."""

_MOST_STRETCHES = 4
"""Values of the highest bits between two bounds, at most, of which the cached rows are united."""


def rows_between(slices: BitSlices, low: int, high: int | None) -> BitMap:
    """Rows whose value is at least ``low`` and at most ``high`` (None: no bound). The bitmap is not to be changed.

    Rows that have their highest bits in common with a bound are few: only these are compared by the other bits.
    """
    most = (1 << slices.count) - 1
    low, high = max(low, 0), most if high is None else min(high, most)
    if low > high:
        return BitMap()
    if low == 0 and high == most:
        return slices.existing()
    order = slices.order()
    rows = None if order is None else order.between(low, high)
    if rows is not None:
        return rows
    below = (1 << slices.low_count) - 1
    first, last = low >> slices.low_count, high >> slices.low_count
    if first == last:
        return _compared(slices, [(first, low & below, high & below)])
    ends = _compared(slices, [(first, low & below, below), (last, 0, high & below)])
    if last - first <= _MOST_STRETCHES:
        return BitMap.union(
            ends, *(_with_highest(slices, n, slices.count - slices.low_count) for n in range(first + 1, last))
        )
    existing, bits = slices.above(slices.low_count)
    return ends | _between(existing, bits, first + 1, last - 1)


def _compared(slices: BitSlices, stretches: Sequence[tuple[int, int, int]]) -> BitMap:
    """Rows of stretches: each has the same highest bits, and the number of its lower ones from one to another."""
    found, whole, unbounded = BitMap(), None, (0, (1 << slices.low_count) - 1)
    for highest, *bounds in stretches:
        rows = _with_highest(slices, highest, slices.count - slices.low_count)
        if rows and tuple(bounds) != unbounded:
            bits = whole or slices.load_around(rows, range(slices.low_count))
            if bits is None:
                bits = whole = slices.load(0, slices.low_count)
            rows = _between(rows, bits, *bounds)
        found = found | rows if found else rows
    return found


def _with_highest(
    slices: BitSlices, highest: int, count: int, top: tuple[BitMap, list[BitMap]] | None = None
) -> BitMap:
    """Rows whose ``count`` highest bits, of those above the lower ones, are those of ``highest``.

    The first steps cost most, and later calls are often for neighbours: the rows left by those steps are cached.
    ``top`` is the result of `BitSlices.above` for these bits, if the caller has it.
    """
    rows = slices.recall(1 << count | highest)
    if rows is not None:
        return rows
    existing, bits = top or slices.above(slices.low_count)
    if not count:
        return existing
    level = next(level for level in _LEVELS if level < count)
    begin = len(bits) - count
    rows = _with_highest(slices, highest >> count - level, level, (existing, bits))
    rows = _narrow(rows, bits[begin : begin + count - level], highest)
    slices.remember(1 << count | highest, rows)
    return rows


def _narrow(rows: BitMap, bits: Sequence[BitMap], value: int) -> BitMap:
    """The subset of ``rows`` whose number in ``bits`` is that of ``value``.

    Set bits come first: for runs of rows, an intersection is several times faster than a difference.
    """
    for bit in sorted(range(len(bits)), key=lambda bit: (value >> bit & 1, bit), reverse=True):
        if not rows:
            break
        rows = rows & bits[bit] if value >> bit & 1 else rows - bits[bit]
    return rows


def _between(rows: BitMap, bits: Sequence[BitMap], low: int, high: int) -> BitMap:
    """Those of ``rows`` whose number in ``bits`` is at least ``low`` and at most ``high``.

    The bits that both bounds have in common leave few rows, among which the others are then compared.
    """
    free = (low ^ high).bit_length()
    rows = _narrow(rows, bits[free:], low >> free)
    if not rows or not free:
        return rows
    *lower, highest = bits[:free]
    upper = rows & highest
    return _bounded(rows - upper, lower, low, above=True) | _bounded(upper, lower, high, above=False)


def _bounded(rows: BitMap, bits: Sequence[BitMap], value: int, *, above: bool) -> BitMap:
    """Those of ``rows`` whose number in ``bits`` is at least that of ``value`` (``above``), or at most: from the
    highest bit, as few are left soon."""
    if not (value if above else ~value) & (1 << len(bits)) - 1:
        return rows
    equal, found = rows, BitMap()
    for bit in reversed(range(len(bits))):
        if not equal:
            break
        with_bit = equal & bits[bit]
        if value >> bit & 1:
            if not above:
                found |= equal - with_bit
            equal = with_bit
        else:
            if above:
                found |= with_bit
            equal = equal - with_bit
    return found | equal


_FEW_ROWS = 1 << 12
"""Rows up to which parts of slices around them are read, if that saves anything."""


def first_of(rows: BitMap, n: int) -> BitMap:
    """The ``n`` lowest positions, or all when there are fewer."""
    return rows if len(rows) <= n else BitMap(rows[:n])


def best_rows(slices: BitSlices, rows: BitMap, n: int, *, largest: bool, ties: bool, most: int) -> BitMap:
    """The ``n`` rows with the largest (or smallest) values among ``rows``, which all have one.

    Args:
        slices: of the values.
        rows: positions to choose from.
        n: how many.
        largest: those with the largest values; else the smallest.
        ties: take every row whose value is that of the last one, too; else the first of them by position.
        most: no row has a larger value. Rows that agree with it so far can't have a bit that it has not: such a slice
            is not read.
    """
    found, left = BitMap(), rows
    agrees, parts = largest, None
    for bit in reversed(range(slices.count)):
        if len(found) + len(left) <= n:
            break
        if agrees and not most >> bit & 1:
            continue
        if parts is None and len(left) <= _FEW_ROWS:
            wanted = [b for b in range(bit + 1) if not agrees or b == bit or most >> b & 1]
            loaded = slices.load_around(left, wanted)
            parts = None if loaded is None else dict(zip(wanted, loaded, strict=True))
        members = slices.one(bit) if parts is None or bit not in parts else parts[bit]
        better = left & members if largest else left - members
        if len(found) + len(better) >= n:
            left = better
        else:
            found |= better
            left, agrees = left - better, False
    return found | (left if ties else first_of(left, n - len(found)))


def slice_values(slices: BitSlices, rows: BitMap) -> Words:
    """The values of these rows, in the order of their positions."""
    positions = np.asarray(rows.to_array(), np.uint32)
    values = np.zeros(len(positions), np.uint64)
    parts = slices.load_around(rows, range(slices.count)) if len(rows) <= _FEW_ROWS else None
    for bit in range(slices.count):
        members = np.asarray(((slices.one(bit) if parts is None else parts[bit]) & rows).to_array(), np.uint32)
        values[np.searchsorted(positions, members)] |= np.uint64(1 << bit)
    return values


def slice_counts(slices: BitSlices, rows: BitMap) -> tuple[Words, Int64s]:
    """The distinct values of these rows, ascending, and how many rows have each. For few distinct values."""
    found: list[tuple[int, int]] = []
    _split(slices, rows, slices.count - 1, 0, found)
    pairs = np.array(found, np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1].astype(np.int64)


def _split(slices: BitSlices, rows: BitMap, bit: int, value: int, found: list[tuple[int, int]]) -> None:
    """Halve the rows bit by bit, the clear half first. As deep as there are slices: 64 at most."""
    if not rows:
        return
    if bit < 0:
        found.append((value, len(rows)))
        return
    members = slices.one(bit)
    _split(slices, rows - members, bit - 1, value, found)
    _split(slices, rows & members, bit - 1, value | 1 << bit, found)


def slice_total(slices: BitSlices, rows: BitMap) -> int:
    """The sum of the values of these rows."""
    return sum(slices.one(bit).intersection_cardinality(rows) << bit for bit in range(slices.count))
