"""Indices of dictionaries at some places of pages, found without decoding the others.

A page has the width of its indices in bits, u8, and runs. A run begins with a varint: twice the number of its values,
and one value of whole bytes; or one more than twice the number of groups of 8 values, and these, packed bit by bit.
Source: apache/parquet-format, Encodings.md (RLE_DICTIONARY; RLE / bit-packing hybrid).
"""

from __future__ import annotations

import numpy as np

from paimon_pyds.base.arrays import Int64s, Octets, Words, unaligned_words
from paimon_pyds.base.varints import unsigned_varints
from paimon_pyds.base.varints import varint as varint_bytes
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.thrift import varint

_MOST_RUNS = 96
"""Runs of a page up to which finding places takes less time than decoding: writers end runs of packed values after 504
at most, so that 48,000 rows may be in as many."""
_WORD = 8
_GROUP = 8
_WIDEST = 32
_MOST = np.uint64(1 << 31)
"""Values of a run: more are in no page."""


def indices_at(bodies: Octets, starts: Int64s, ends: Int64s, page: Int64s, local: Int64s) -> Int64s | None:
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
    if int(width.max()) > _WIDEST:
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
    bits = width[page]
    bit = np.where(kinds[run, page], (local - firsts[run, page]) * bits, 0)
    found = _words_at(words, begins[run, page] + (bit >> 3)) >> (bit & 7).astype(np.uint64)
    return (found & ((np.uint64(1) << bits.astype(np.uint64)) - np.uint64(1))).view(np.int64)


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
    return bytes([_WIDEST]) + varint_bytes(groups << 1 | 1) + values.tobytes()


def _words_at(words: Words, places: Int64s) -> Words:
    """The eight bytes that begin at these places, zeros for those behind the end."""
    if int(places.max()) < len(words):
        return words[places]
    inside = np.minimum(places, len(words) - 1)
    behind = np.minimum(places - inside, _WORD - 1).astype(np.uint64)
    return words[inside] >> behind * np.uint64(_WORD)
