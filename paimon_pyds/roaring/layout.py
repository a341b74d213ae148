"""The header of a serialized RoaringBitmap, measured: no length in it is trusted.

The layout is described in `paimon_pyds.roaring.codec`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paimon_pyds.buffers import Flags, Int64s
from paimon_pyds.errors import CorruptFileError

COOKIE_PLAIN = 12346
COOKIE_RUNS = 12347
ARRAY_MAX = 4096
BITMAP_BYTES = 8192
NO_OFFSETS_BELOW = 4
MAX_CONTAINERS = 1 << 16

Halves = npt.NDArray[np.uint16]


class RoaringLayout(NamedTuple):
    """What the header of a serialized bitmap says: its ``size`` in bytes, and per container ``keys``, ``cards``
    (cardinality), ``sizes`` in bytes and ``is_run``; the first container begins at ``head``."""

    size: int
    head: int
    keys: Halves
    cards: Int64s
    sizes: Int64s
    is_run: Flags


def read_layout(data: bytes | memoryview, start: int = 0, *, path: object = None, origin: int = 0) -> RoaringLayout:
    """Measure the serialized bitmap that begins at ``start`` of ``data``, every length checked against what is there.

    Args:
        data: bytes that hold the bitmap, and may hold more.
        start: where it begins in them.
        path: for errors.
        origin: position of ``data`` in the file, for errors.

    Raises:
        CorruptFileError: the bytes are no RoaringBitmap, or end early.
    """
    view = memoryview(data)[start:]
    at = origin + start

    def fail(message: str, offset: int, field: str) -> CorruptFileError:
        return CorruptFileError(message, path=path, offset=at + offset, field=field)

    if len(view) < 8 and (len(view) < 4 or int.from_bytes(view[:2], "little") != COOKIE_RUNS):
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
    offsets = np.frombuffer(view, "<u4", count, head - offset_bytes).astype(np.int64) if offset_bytes else None
    if has_runs:
        flags = np.frombuffer(view, np.uint8, flag_bytes, position)
        is_run = np.unpackbits(flags, bitorder="little", count=count).view(np.bool_)
        if not _measure_runs(view, head, sizes, is_run, offsets):
            raise fail(f"run containers that begin beyond the {len(view)} bytes left", head, "containers")
    ends = sizes.cumsum()
    ends += head
    if ends[-1] > len(view):
        raise fail(f"containers of {ends[-1]} bytes, {len(view)} are left", head, "containers")
    if offsets is not None and (offsets[0] != head or (offsets[1:] != ends[:-1]).any()):
        raise fail("container offsets that don't follow their sizes", head - offset_bytes, "offset")
    return RoaringLayout(int(ends[-1]), head, keys, cards, sizes, is_run)


def _measure_runs(view: memoryview, head: int, sizes: Int64s, is_run: Flags, offsets: Int64s | None) -> bool:
    """Set the sizes of run containers, each known only from its own first bytes; False where one begins too late.

    The containers are believed to begin at ``offsets``, if there are any; the caller checks these against the sizes.
    """
    if offsets is not None:
        begins = offsets[is_run]
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
