"""The header of a serialized RoaringBitmap, measured, and its containers, checked: nothing in them is trusted.

The layout is told in `paimon_pyds.index.roaring`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paimon_pyds.errors import CorruptFileError

__all__ = ["ARRAY_MAX", "BITMAP_BYTES", "COOKIE_PLAIN", "COOKIE_RUNS", "NO_OFFSETS_BELOW", "RoaringLayout",
           "check_containers", "layout"]  # fmt: skip

COOKIE_PLAIN = 12346
COOKIE_RUNS = 12347
ARRAY_MAX = 4096
BITMAP_BYTES = 8192
NO_OFFSETS_BELOW = 4
_MAX_CONTAINERS = 1 << 16

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RoaringLayout:
    """What the header of a serialized bitmap says: its ``size`` in bytes, and per container ``cards`` (cardinality),
    ``sizes`` in bytes and ``is_run``; the first container begins at ``head``."""

    size: int
    head: int
    cards: Ints
    sizes: Ints
    is_run: npt.NDArray[np.bool_]


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
    if count > _MAX_CONTAINERS or head > len(view):
        raise fail(f"{count} containers don't fit {len(view)} bytes", 4, "container count")
    if count == 0:
        return RoaringLayout(head, head, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    keys_cards = np.frombuffer(view, "<u2", 2 * count, position + flag_bytes).reshape(count, 2)
    keys, cards = keys_cards[:, 0], keys_cards[:, 1].astype(np.int64) + 1
    if count > 1 and not bool(np.all(keys[1:] > keys[:-1])):
        raise fail("container keys out of order", position + flag_bytes, "key")
    sizes = np.where(cards <= ARRAY_MAX, 2 * cards, BITMAP_BYTES)
    told = np.frombuffer(view, "<u4", count, head - offset_bytes).astype(np.int64) if offset_bytes else None
    if has_runs:
        flags = np.frombuffer(view, np.uint8, flag_bytes, position)
        is_run = np.unpackbits(flags, bitorder="little", count=count).astype(bool)
        end = _measure_runs(view, head, sizes, is_run, told)
    else:
        is_run = np.zeros(count, np.bool_)
        end = head + int(sizes.sum())
    if end > len(view):
        raise fail(f"containers of {end} bytes, {len(view)} are left", head, "containers")
    if told is not None and not np.array_equal(told, head + np.concatenate(([0], np.cumsum(sizes)[:-1]))):
        raise fail("container offsets that don't follow their sizes", head - offset_bytes, "offset")
    return RoaringLayout(end, head, cards, sizes, is_run)


def _is_plain(view: memoryview) -> bool:
    return int.from_bytes(view[:2], "little") != COOKIE_RUNS


def _measure_runs(view: memoryview, head: int, sizes: Ints, is_run: npt.NDArray[np.bool_], told: Ints | None) -> int:
    """Set the sizes of run containers, each known only from its own first bytes; where the last container ends.

    Where the containers begin is believed as ``told``, if it is; the caller checks it against the sizes.
    """
    if told is not None:
        begins = told[is_run]
        if bool((begins + 2 > len(view)).any()):
            return len(view) + 1
        data = np.frombuffer(view, np.uint8)
        sizes[is_run] = 2 + 4 * (data[begins].astype(np.int64) | data[begins + 1].astype(np.int64) << 8)
        return head + int(sizes.sum())
    position, done = head, 0
    for index in np.flatnonzero(is_run):  # fewer than four containers
        position += int(sizes[done:index].sum())
        if position + 2 > len(view):
            return position + 2
        sizes[index] = 2 + 4 * int.from_bytes(view[position : position + 2], "little")
        position += int(sizes[index])
        done = int(index) + 1
    return position + int(sizes[done:].sum())


def check_containers(view: memoryview, found: RoaringLayout, path: object, origin: int) -> None:
    """Members ascending and as many as the header says: the library trusts both, and would give wrong rows."""
    body = np.frombuffer(view[found.head : found.size], "<u2")
    starts = (np.cumsum(found.sizes) - found.sizes) >> 1  # in body; containers have even sizes
    if found.size - found.head < BITMAP_BYTES and not found.is_run.any():  # too few bytes for any but arrays
        checks: tuple[int | None, ...] = (_wrong_array(body, starts, found.cards),)
    else:
        is_bitmap = ~found.is_run & (found.cards > ARRAY_MAX)
        is_array = ~found.is_run & ~is_bitmap
        checks = (
            _wrong_array(body, starts[is_array], found.cards[is_array]),
            _wrong_bitmap(body, starts[is_bitmap], found.cards[is_bitmap]),
            _wrong_runs(body, starts[found.is_run], found.cards[found.is_run]),
        )
    for wrong in checks:
        if wrong is not None:
            at = origin + found.head + 2 * wrong
            message = "a bitmap whose members contradict its header"
            raise CorruptFileError(message, path=path, offset=at, field="containers")


def _wrong_array(body: npt.NDArray[np.uint16], starts: Ints, cards: Ints) -> int | None:
    """Where the first array container starts whose members don't ascend; None when all do."""
    if not len(starts):
        return None
    first = np.cumsum(cards) - cards
    total = int(cards.sum())
    if starts[-1] - starts[0] == first[-1]:  # one after the other, as in most bitmaps
        members = body[starts[0] : starts[0] + total]
    else:
        members = body[np.repeat(starts - first, cards) + np.arange(total)]
    falls = np.flatnonzero(members[1:] <= members[:-1]) + 1
    return _first_inside(falls, first, starts)


def _first_inside(places: Ints, first: Ints, starts: Ints) -> int | None:
    """The start of the first container that a place lies in, but at its beginning; ``first`` are the beginnings."""
    of = np.searchsorted(first, places, side="right") - 1
    inside = np.flatnonzero(first[of] != places)
    return int(starts[of[inside[0]]]) if len(inside) else None


def _wrong_bitmap(body: npt.NDArray[np.uint16], starts: Ints, cards: Ints) -> int | None:
    """Where the first bitmap container starts that has not as many bits as its header says."""
    if not len(starts):
        return None
    words = BITMAP_BYTES // 2
    edges = np.append(np.flatnonzero(np.diff(starts, prepend=-1) != words), len(starts))
    for begin, end in itertools.pairwise(edges):  # of containers that follow each other
        at = int(starts[begin])
        bits = body[at : at + words * int(end - begin)].view(np.uint64).reshape(int(end - begin), -1)
        wrong = np.flatnonzero(_popcount(bits) != cards[begin:end])
        if len(wrong):
            return int(starts[begin + wrong[0]])
    return None


def _wrong_runs(body: npt.NDArray[np.uint16], starts: Ints, cards: Ints) -> int | None:
    """Where the first run container starts whose runs touch, leave it, or have not as many rows as its header says."""
    if not len(starts):
        return None
    runs = body[starts].astype(np.int64)
    if not runs.all():
        return int(starts[np.argmin(runs)])
    first = np.cumsum(runs) - runs
    pairs = _without_counts(body, starts, runs)
    begins = pairs[:, 0].astype(np.int32)
    lasts = begins + pairs[:, 1]
    wrong = np.flatnonzero(np.add.reduceat(lasts - begins + 1, first) != cards)
    places = [int(starts[wrong[0]])] if len(wrong) else []
    beyond = np.flatnonzero(lasts > 0xFFFF)
    places.extend(starts[np.searchsorted(first, beyond[:1], side="right") - 1].tolist())
    touching = _first_inside(np.flatnonzero(begins[1:] <= lasts[:-1]) + 1, first, starts)
    places.extend([] if touching is None else [touching])
    return min(places, default=None)


def _popcount(words: npt.NDArray[np.uint64]) -> Ints:
    """Bits set in each row."""
    if hasattr(np, "bitwise_count"):
        counted: Ints = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        return counted
    bits: Ints = np.unpackbits(words.view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
    return bits


def _without_counts(body: npt.NDArray[np.uint16], starts: Ints, runs: Ints) -> npt.NDArray[np.uint16]:
    """(start, length - 1) of all runs of the containers that start there."""
    first = np.cumsum(runs) - runs
    total = len(starts) + 2 * int(runs.sum())
    if starts[-1] - starts[0] == total - 1 - 2 * runs[-1]:  # one after the other
        is_pair = np.ones(total, np.bool_)
        is_pair[starts - starts[0]] = False
        return body[starts[0] : starts[0] + total][is_pair].reshape(-1, 2)
    at = np.repeat(starts + 1 - 2 * first, runs) + 2 * np.arange(int(runs.sum()))
    return np.stack([body[at], body[at + 1]], axis=1)
