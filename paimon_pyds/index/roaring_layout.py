"""The header of a serialized RoaringBitmap, measured, and its containers, checked: nothing in them is trusted.

The layout is told in `paimon_pyds.index.roaring`.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_pyds.errors import CorruptFileError

__all__ = ["ARRAY_MAX", "BITMAP_BYTES", "COOKIE_PLAIN", "COOKIE_RUNS", "MAX_CONTAINERS", "NO_OFFSETS_BELOW",
           "RoaringLayout", "check_containers", "layout", "wrong_container"]  # fmt: skip

COOKIE_PLAIN = 12346
COOKIE_RUNS = 12347
ARRAY_MAX = 4096
BITMAP_BYTES = 8192
NO_OFFSETS_BELOW = 4
MAX_CONTAINERS = 1 << 16

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Halves = npt.NDArray[np.uint16]


class RoaringLayout(NamedTuple):
    """What the header of a serialized bitmap says: its ``size`` in bytes, and per container ``keys``, ``cards``
    (cardinality), ``sizes`` in bytes and ``is_run``; the first container begins at ``head``."""

    size: int
    head: int
    keys: Halves
    cards: Ints
    sizes: Ints
    is_run: Bools


def layout(data: bytes | memoryview, start: int = 0, *, path: object = None, origin: int = 0) -> RoaringLayout:
    """Measure the serialized bitmap that begins at ``start`` of ``data``, every length checked against what is there.

    Args:
        data: bytes that hold the bitmap, and may hold more.
        path: for errors.
        origin: position of ``data`` in the file, for errors.

    Raises:
        CorruptFileError: the bytes are no RoaringBitmap, or end early.
    """
    view = memoryview(data)[start:]
    at = origin + start

    def fail(message: str, offset: int, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=path, offset=at + offset, field=field)

    if len(view) < 8 and (len(view) < 4 or _is_plain(view)):
        raise fail("a bitmap that ends in its header", 0, "cookie")
    cookie = int.from_bytes(view[:4], "little")
    has_runs = cookie & 0xFFFF == COOKIE_RUNS
    if not has_runs and cookie != COOKIE_PLAIN:
        raise fail(f"{cookie} is not the cookie of a RoaringBitmap", 0, "cookie")
    count = (cookie >> 16) + 1 if has_runs else int.from_bytes(view[4:8], "little")
    position = 4 if has_runs else 8
    flag_bytes = (count + 7) // 8 if has_runs else 0
    offset_bytes = 4 * count if not has_runs or count >= NO_OFFSETS_BELOW else 0
    head = position + flag_bytes + 4 * count + offset_bytes
    if count > MAX_CONTAINERS or head > len(view):
        raise fail(f"{count} containers don't fit {len(view)} bytes", 4, "container count")
    pairs = np.frombuffer(view, "<u2", 2 * count, position + flag_bytes)
    keys, cards = pairs[::2], pairs[1::2].astype(np.int64)
    cards += 1
    is_run = np.zeros(count, np.bool_)
    if count == 0:
        return RoaringLayout(head, head, keys, cards, cards, is_run)
    if not (keys[1:] > keys[:-1]).all():
        raise fail("container keys out of order", position + flag_bytes, "key")
    sizes = np.minimum(2 * cards, BITMAP_BYTES)
    told = np.frombuffer(view, "<u4", count, head - offset_bytes).astype(np.int64) if offset_bytes else None
    if has_runs:
        flags = np.frombuffer(view, np.uint8, flag_bytes, position)
        is_run = np.unpackbits(flags, bitorder="little", count=count).view(np.bool_)
        if not _measure_runs(view, head, sizes, is_run, told):
            raise fail(f"run containers that begin beyond the {len(view)} bytes left", head, "containers")
    ends = sizes.cumsum()
    ends += head
    if ends[-1] > len(view):
        raise fail(f"containers of {ends[-1]} bytes, {len(view)} are left", head, "containers")
    if told is not None and (told[0] != head or (told[1:] != ends[:-1]).any()):
        raise fail("container offsets that don't follow their sizes", head - offset_bytes, "offset")
    return RoaringLayout(int(ends[-1]), head, keys, cards, sizes, is_run)


def _is_plain(view: memoryview) -> bool:
    return int.from_bytes(view[:2], "little") != COOKIE_RUNS


def _measure_runs(view: memoryview, head: int, sizes: Ints, is_run: Bools, told: Ints | None) -> bool:
    """Set the sizes of run containers, each known only from its own first bytes; False where one begins too late.

    Where the containers begin is believed as ``told``, if it is; the caller checks it against the sizes.
    """
    if told is not None:
        begins = told[is_run]
        if (begins + 2 > len(view)).any():
            return False
        data = np.frombuffer(view, np.uint8)
        sizes[is_run] = 2 + 4 * (data[begins].astype(np.int64) | data[begins + 1].astype(np.int64) << 8)
        return True
    position, done = head, 0
    for index in is_run.nonzero()[0].tolist():  # fewer than four containers
        position += int(sizes[done:index].sum())
        if position + 2 > len(view):
            return False
        sizes[index] = 2 + 4 * int.from_bytes(view[position : position + 2], "little")
        position += int(sizes[index])
        done = index + 1
    return True


def check_containers(view: memoryview, found: RoaringLayout, path: object, origin: int) -> None:
    """Members ascending and as many as the header says: the library trusts both, and would give wrong rows."""
    body = np.frombuffer(view[found.head : found.size], "<u2")
    wrong = wrong_container(body, found.cards, found.sizes, found.is_run)
    if wrong is not None:
        at = origin + found.head + int(found.sizes[:wrong].sum())
        message = "a bitmap whose members contradict its header"
        raise CorruptFileError(message, path=path, offset=at, field="containers")


def wrong_container(body: Halves, cards: Ints, sizes: Ints, is_run: Bools) -> int | None:
    """The number of a container whose members don't ascend, or aren't as many as is said; None when all are right.

    Args:
        body: the containers, one after another; of any bitmaps.
        cards: how many members each is said to have.
        sizes: bytes that each takes. Those of arrays and bitmaps follow from their cardinality, which is not looked at.
        is_run: whether each is a run container.
    """
    halves = sizes >> 1
    starts = halves.cumsum() - halves
    is_bitmap = ~is_run & (cards > ARRAY_MAX)
    is_other = is_bitmap | is_run
    if not is_other.any():
        return _first_not(body[1:] > body[:-1], starts)
    wrong: int | None = None
    if not is_other.all():
        wrong = _first_not((body[1:] > body[:-1]) | np.repeat(is_other, halves)[1:], starts)
    if wrong is None and is_run.any():
        pairs = np.repeat(is_run, halves)
        pairs[starts] = False
        wrong = _numbered(_wrong_runs(body[starts[is_run]], body[pairs], cards[is_run], sizes[is_run]), is_run)
    if wrong is None and is_bitmap.any():
        wrong = _numbered(_wrong_bitmap(body, starts[is_bitmap], cards[is_bitmap]), is_bitmap)
    return wrong


def _numbered(number: int | None, among: Bools) -> int | None:
    """The number, among all, of one that was counted among some only."""
    return None if number is None else int(among.nonzero()[0][number])


def _first_not(follows: Bools, first: Ints) -> int | None:
    """The number of the first container one of whose members does not follow the one before it as it should.

    ``follows``: of each member but the very first; ``first``: number of each container's first one.
    """
    follows[first[1:] - 1] = True  # from one container to the next
    if follows.all():
        return None
    return int(first.searchsorted(int(follows.argmin()) + 1, "right")) - 1


def _wrong_bitmap(body: Halves, starts: Ints, cards: Ints) -> int | None:
    """The number of the first bitmap container that has not as many bits as its header says."""
    words = BITMAP_BYTES // 2
    edges = np.append(np.flatnonzero(np.diff(starts, prepend=-1) != words), len(starts))
    for begin, end in itertools.pairwise(edges.tolist()):  # of containers that follow each other
        at = int(starts[begin])
        bits = body[at : at + words * (end - begin)].view(np.uint64).reshape(end - begin, -1)
        wrong = np.flatnonzero(_popcount(bits) != cards[begin:end])
        if len(wrong):
            return int(begin + wrong[0])
    return None


def _wrong_runs(counts: Halves, pairs: Halves, cards: Ints, sizes: Ints) -> int | None:
    """The number of a run container whose runs touch, leave it, or have not as many bytes or rows as is said.

    ``counts`` says how many runs each has; the start and the length of each, less one, take turns in ``pairs``.
    """
    runs = counts.astype(np.int64)
    right = (runs > 0) & (2 + 4 * runs == sizes)
    if not right.all():
        return int(right.argmin())
    first = runs.cumsum() - runs
    begins, more = pairs[::2], pairs[1::2]
    lasts = begins + more  # beyond the container, it begins again at 0
    right = np.add.reduceat(more, first, dtype=np.int64) + runs == cards
    if not right.all():
        return int(right.argmin())
    inside = lasts >= begins
    touching = _first_not(begins[1:] > lasts[:-1], first)
    return touching if inside.all() else int(first.searchsorted(int(inside.argmin()), "right")) - 1


def _popcount(words: npt.NDArray[np.uint64]) -> Ints:
    """Bits set in each row."""
    if hasattr(np, "bitwise_count"):
        counted: Ints = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        return counted
    bits: Ints = np.unpackbits(words.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    return bits
