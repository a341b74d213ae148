"""Indices of dictionaries at some places of pages, found and replaced without decoding the others.

A page has the width of its indices in bits, u8, and runs. A run begins with a varint: twice the number of its values,
and one value of whole bytes; or one more than twice the number of groups of 8 values, and these, packed bit by bit.
Source: apache/parquet-format, Encodings.md (RLE_DICTIONARY; RLE / bit-packing hybrid).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paimon_pyds.base.arrays import Flags, Int64s, Octets, Words, unaligned_words
from paimon_pyds.base.varints import unsigned_varints
from paimon_pyds.base.varints import varint as varint_bytes
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.thrift import varint

_MOST_RUNS = 96
"""Runs of a page up to which finding places takes less time than decoding: writers end runs of packed values after 504
at most, so that 48,000 rows may be in as many."""
_WORD = 8
_GROUP = 8
WIDEST = 32
"""Bits of an index, at most."""
_LONGEST = 5
"""Bytes in which an index has bits, at most."""
_MOST = np.uint64(1 << 31)
"""Values of a run: more are in no page."""


class IndexPlaces(NamedTuple):
    """Indices of some rows, and where a page has them.

    Attributes:
        indices: the indices.
        at: the byte that has the lowest bit of each.
        shift: the number of this bit in the byte.
        bits: of each index.
        packed: whether it stands there for this row alone, and not for a run of rows.
    """

    indices: Int64s
    at: Int64s
    shift: Int64s
    bits: Int64s
    packed: Flags


def indices_at(bodies: Octets, starts: Int64s, ends: Int64s, page: Int64s, local: Int64s) -> Int64s | None:
    """The indices that `index_places` finds."""
    found = index_places(bodies, starts, ends, page, local)
    return None if found is None else found.indices


def index_places(bodies: Octets, starts: Int64s, ends: Int64s, page: Int64s, local: Int64s) -> IndexPlaces | None:
    """The indices of rows, at least one, without NULL. None where a page has too many runs, fewer values than
    rows, or another form: that is for pyarrow to decide on.

    Args:
        bodies: the pages' bytes, at least eight.
        starts: where the width of each page is.
        ends: where each page ends.
        page: of each row, the number of its page, ascending.
        local: of each row, its number in the page, ascending within the page.
    """
    if not bool((starts < ends).all()):
        return None
    width, last = bodies[starts].astype(np.int64), np.full(len(starts), -1, np.int64)
    if int(width.max()) > WIDEST:
        return None
    last[page] = local  # the last one of each
    words = unaligned_words(bodies)
    if len(starts) == 1:
        runs = _runs_of_one(bodies[starts[0] : ends[0]].tobytes(), int(starts[0]), int(last[0]))
    else:
        runs = _runs_of_all(words, starts, ends, width, last)
    if runs is None:
        return None
    firsts, begins, stops, kinds = runs
    run = (firsts[:, page] <= local).sum(axis=0) - 1
    if bool((stops[run, page] > ends[page]).any()):
        return None
    bits, packed = width[page], kinds[run, page] != 0
    bit = np.where(packed, (local - firsts[run, page]) * bits, 0)
    at, shift = begins[run, page] + (bit >> 3), bit & 7
    found = _words_at(words, at) >> shift.astype(np.uint64)
    indices = (found & ((np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1))).view(np.int64)
    return IndexPlaces(indices, at, shift, bits, packed)


def replace_packed(bodies: Octets, places: IndexPlaces, indices: Int64s, which: Flags) -> None:
    """Write other indices to those of the places that ``which`` has: they are packed, and have bits enough."""
    change = (places.indices ^ indices)[which].view(np.uint64) << places.shift[which].astype(np.uint64)
    at = places.at[which]
    for byte in range(_LONGEST):
        here = (change >> np.uint64(8 * byte) & np.uint64(0xFF)).astype(np.uint8)
        changed = np.flatnonzero(here)
        np.bitwise_xor.at(bodies, at[changed] + byte, here[changed])


def encode_indices(indices: Int64s, width: int) -> bytes:
    """The values of a page of these indices, as `index_places` reads them. ``width``: bits of each."""
    cuts = np.flatnonzero(np.diff(indices)) + 1
    starts, ends = np.append(0, cuts), np.append(cuts, len(indices))
    is_long = ends - starts >= 2 * _GROUP
    parts, done = [bytes([width])], 0
    for start, end in zip(starts[is_long].tolist(), ends[is_long].tolist(), strict=True):
        start += (done - start) % _GROUP  # packed values come in whole groups
        if start > done:
            parts.append(_packed(indices[done:start], width))
        parts.append(varint_bytes(end - start << 1) + int(indices[start]).to_bytes((width + 7) // 8, "little"))
        done = end
    if done < len(indices):
        parts.append(_packed(indices[done:], width))
    return b"".join(parts)


def _packed(indices: Int64s, width: int) -> bytes:
    """A run of packed indices; zeros fill its last group."""
    groups = -(-len(indices) // _GROUP)
    values = np.zeros(groups * _GROUP, np.int64)
    values[: len(indices)] = indices
    bits = (values[:, None] >> np.arange(width) & 1).astype(np.uint8)
    return varint_bytes(groups << 1 | 1) + np.packbits(bits.ravel(), bitorder="little").tobytes()


def _runs_of_all(words: Words, starts: Int64s, ends: Int64s, width: Int64s, last: Int64s) -> Int64s | None:
    """The runs of each page up to that of its row ``last``, run by run: how many rows come before it, where its values
    begin and end, and whether they are packed. None where there are too many."""
    at, done, runs = starts + 1, np.zeros(len(starts), np.int64), list[Int64s]()
    while bool((done <= last).any()):
        if len(runs) == _MOST_RUNS:
            return None
        numbers, sizes = unsigned_varints(_words_at(words, at))
        packed, count, begin = numbers & np.uint64(1) != 0, np.minimum(numbers >> np.uint64(1), _MOST), at + sizes
        count = count.view(np.int64)
        at = np.minimum(begin + np.where(packed, count * width, (width + 7) >> 3), ends + 1)
        runs.append(np.array([done, begin, at, packed]))
        done = done + np.where(packed, count * _GROUP, count)
    return np.stack(runs, axis=1)


def _runs_of_one(page: bytes, start: int, last: int) -> Int64s | None:
    """As `_runs_of_all` of one page, which begins at ``start``: without arrays this takes a tenth of the time."""
    width, at, done, runs = page[0], 1, 0, list[tuple[int, int, int, bool]]()
    while done <= last:
        if len(runs) == _MOST_RUNS:
            return None
        try:
            number, begin = varint(page, at)
        except (IndexError, CorruptFileError):
            return None
        packed, count = bool(number & 1), min(number >> 1, int(_MOST))
        at = begin + (count * width if packed else (width + 7) >> 3)
        runs.append((done, start + begin, start + at, packed))
        done += count * _GROUP if packed else count
    return np.array(runs, np.int64).T[:, :, None]


def index_page(indices: Int64s) -> bytes:
    """The same indices as the values of one page: the widest ones, which are numbers of four bytes."""
    groups = -(-len(indices) // _GROUP)
    values = np.zeros(groups * _GROUP, "<u4")
    values[: len(indices)] = indices
    return bytes([WIDEST]) + varint_bytes(groups << 1 | 1) + values.tobytes()


def _words_at(words: Words, places: Int64s) -> Words:
    """The eight bytes that begin at these places, zeros for those behind the end."""
    if int(places.max()) < len(words):
        return words[places]
    inside = np.minimum(places, len(words) - 1)
    behind = np.minimum(places - inside, _WORD - 1).astype(np.uint64)
    return words[inside] >> behind * np.uint64(_WORD)
