"""The portable RoaringBitmap serialization: checked decoding, and encoding straight from numpy arrays.

Specification: github.com/RoaringBitmap/RoaringFormatSpec (32-bit). All integers are little-endian:

    without runs: 12346 uint32 · containers n uint32
    with runs:    12347 uint16 · n-1 uint16 · one bit per container: is it a run container
    per container: key uint16 (high half of its positions) · cardinality-1 uint16
    offsets uint32 × n, from the first byte (absent with runs when n < 4)
    containers: array (uint16 × cardinality, at most 4096), bitmap (8192 bytes), or runs (count uint16, then
    start uint16 and length-1 uint16 each)

Containers are chosen as Java's ``runOptimize`` chooses them, so equal sets give equal bytes.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from paimon_pyds.base.arrays import Flags, Int64s, Octets, Words
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import CorruptFileError

COOKIE_PLAIN = 12346
"""First number of a bitmap without run containers (RoaringFormatSpec)."""
COOKIE_RUNS = 12347
"""Lower 16 bits of the first number of a bitmap with run containers."""
ARRAY_VALUES = 4096
"""Members of an array container, at most; one with more is a bitmap."""
BITMAP_BYTES = 8192
"""Bytes of a bitmap container: a bit for each of 65,536 positions."""
NO_OFFSETS_BELOW = 4
"""Containers below which a bitmap with run containers has no offsets."""
MAX_CONTAINERS = 1 << 16
"""Containers of a bitmap, at most: their keys have 16 bits."""
_LEAST = 8  # bytes of the header of an empty bitmap
_LARGE_BYTES = 16 << 10  # bytes from which on reading a header is faster than writing the bitmap again
_PLAIN_COOKIE = COOKIE_PLAIN.to_bytes(4, "little")
_VALUES_AT_ONCE = 1 << 19  # members encoded at a time, to bound memory


class RoaringLayout(NamedTuple):
    """What the header of a serialized bitmap says: its ``size`` in bytes, and per container ``keys``, ``cards``
    (cardinality), ``sizes`` in bytes and ``is_run``; the first container begins at ``head``."""

    size: int
    head: int
    keys: npt.NDArray[np.uint16]
    cards: Int64s
    sizes: Int64s
    is_run: Flags


def read_layout(data: bytes | memoryview, start: int = 0, *, path: object = None, origin: int = 0) -> RoaringLayout:
    """Measure the serialized bitmap that begins at ``start`` of ``data``, checking every length against the bytes that
    are there.

    ``data``: bytes that hold the bitmap, and may hold more. ``start``: where it begins in them. ``origin``: position of
    ``data`` in the file, for errors.
    Raises CorruptFileError: the bytes are no RoaringBitmap, or end early.
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


def decode_bitmap(
    data: bytes | memoryview, *, row_count: int | None = None, path: object = None, origin: int = 0
) -> BitMap:
    """The bitmap of exactly these bytes.

    ``data``: one serialized bitmap, nothing after it. ``row_count``: when given, every position must be below it.
    ``origin``: position of ``data`` in the file, for errors.

    Raises:
        CorruptFileError: no RoaringBitmap, a wrong length, containers that contradict themselves, or
            positions beyond the file.
    """
    raw = data if len(data) >= _LARGE_BYTES else bytes(data)
    if len(raw) < _LEAST:
        raise CorruptFileError(f"{len(raw)} bytes are no bitmap", path=path, offset=origin, field="cookie")
    try:
        # Members out of order, or not as many as announced, are errors. Any buffer will do.
        bitmap = BitMap.deserialize(raw)  # type: ignore[arg-type]
    except ValueError as error:
        raise CorruptFileError(f"not a RoaringBitmap: {error}", path=path, offset=origin, field="bitmap") from None
    if len(raw) >= _LARGE_BYTES and raw[:4] == _PLAIN_COOKIE:
        _measured(raw, path, origin)
    elif bitmap.serialize() != (raw := bytes(raw)):
        _check_odd(raw, bitmap, path, origin)
    if row_count is not None and bitmap and bitmap.max() >= row_count:
        message = f"position {bitmap.max()} in a file of {row_count} rows"
        raise CorruptFileError(message, path=path, offset=origin, field="bitmap")
    return bitmap


def _measured(raw: bytes | memoryview, path: object, origin: int) -> RoaringLayout:
    """What the header says. Raises CorruptFileError unless the bitmap ends where these bytes do."""
    found = read_layout(raw, path=path, origin=origin)
    if found.size != len(raw):
        message = f"a bitmap of {found.size} bytes in {len(raw)}"
        raise CorruptFileError(message, path=path, offset=origin, field="bitmap")
    return found


def _check_odd(raw: bytes, bitmap: BitMap, path: object, origin: int) -> None:
    """Raise CorruptFileError unless bytes that the library would write otherwise hold this bitmap all the same.

    It does not look at offsets, the cardinalities of runs, and bytes after the last container.
    """
    found = _measured(raw, path, origin)
    for key, card in zip(found.keys.tolist(), found.cards.tolist(), strict=True):
        if bitmap.range_cardinality(key << 16, key + 1 << 16) != card:
            message = "a bitmap whose members contradict its header"
            raise CorruptFileError(message, path=path, offset=origin + found.head, field="containers")


def encode_bitmap(bitmap: BitMap) -> bytes:
    """The serialized form, with the smallest container for each 65,536 positions."""
    optimised = bitmap.copy()
    optimised.run_optimize()
    return optimised.serialize()


def encode_mask(mask: Flags) -> bytes:
    """The serialized set of positions where ``mask`` is true: one pass over whole columns, no bitmap object."""
    packed = np.zeros(whole_containers(len(mask)), np.uint8)
    bits = np.packbits(mask, bitorder="little")
    packed[: len(bits)] = bits
    return encode_packed(packed)


def whole_containers(row_count: int) -> int:
    """Bytes of a bitmap with a bit for each row, rounded up to whole containers."""
    return -(-row_count // 65536) * BITMAP_BYTES


def encode_packed(packed: Octets) -> bytes:
    """The serialized set of positions whose bits are set, the lowest first; of `whole_containers` bytes."""
    rows = packed.reshape(-1, BITMAP_BYTES)
    words = rows.view("<u8")
    before = words << np.uint64(1)
    before[:, 1:] |= words[:, :-1] >> np.uint64(63)
    begins = words & ~before
    cards, runs = _count_bits(words), _count_bits(begins)
    plain = np.where(cards <= ARRAY_VALUES, 2 * cards, BITMAP_BYTES)
    is_run = (2 + 4 * runs) < plain
    keys = np.flatnonzero(cards)
    bodies: list[bytes] = []
    for key in keys.tolist():
        if is_run[key]:
            starts = _positions(begins[key])
            bodies.append(_run_bytes(starts, _positions(_ends(words[key])) - starts))
        elif cards[key] <= ARRAY_VALUES:
            bodies.append(_positions(words[key]).astype("<u2").tobytes())
        else:
            bodies.append(rows[key].tobytes())
    sizes = np.array([len(b) for b in bodies], np.int64)
    return encode_header(container_entries(keys, cards[keys]), is_run[keys], sizes) + b"".join(bodies)


def pack_rows(rows: BitMap, row_count: int) -> Octets:
    """A bit for each of ``row_count`` rows, the lowest first, in `whole_containers` bytes, as `encode_packed` takes
    them."""
    data = rows.serialize()
    found = read_layout(data)
    bits = np.zeros((whole_containers(row_count) // BITMAP_BYTES, BITMAP_BYTES), np.uint8)
    is_bitmap = ~found.is_run & (found.cards > ARRAY_VALUES)
    starts, ends = found.head + found.sizes.cumsum() - found.sizes, found.cards.cumsum()
    for number in is_bitmap.nonzero()[0].tolist():
        bits[found.keys[number]] = np.frombuffer(data, np.uint8, BITMAP_BYTES, starts[number])
    if is_bitmap.all():
        return bits.reshape(-1)
    members = np.frombuffer(rows.to_array(), np.uint32)
    for number in (~is_bitmap).nonzero()[0].tolist():
        one = np.zeros(65536, np.bool_)
        one[members[ends[number] - found.cards[number] : ends[number]] & 0xFFFF] = True
        bits[found.keys[number]] = np.packbits(one, bitorder="little")
    return bits.reshape(-1)


def _ends(words: Words) -> Words:
    """The last bit of each run of set bits."""
    after = words >> np.uint64(1)
    after[:-1] |= words[1:] << np.uint64(63)
    return words & ~after


def _positions(words: Words) -> Int64s:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_))


def _count_bits(words: Words) -> Int64s:
    """The number of bits set in each row of words."""
    if hasattr(np, "bitwise_count"):  # from numpy 2.0 on
        return np.asarray(np.bitwise_count(words).sum(axis=1, dtype=np.int64))
    pairs = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333333333333333))
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    counts = (eights * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return np.asarray(counts.sum(axis=1, dtype=np.int64))


def _run_bytes(starts: Int64s, lengths_less_one: Int64s) -> bytes:
    pairs = np.empty(1 + 2 * len(starts), "<u2")
    pairs[0] = len(starts)
    pairs[1::2] = starts
    pairs[2::2] = lengths_less_one
    return pairs.tobytes()


def encode_header(entries: npt.NDArray[np.uint32], is_run: Flags, sizes: Int64s) -> bytes:
    """The header of a bitmap of containers of these sizes in bytes; `container_entries` makes their ``entries``."""
    count = len(entries)
    has_runs = bool(is_run.any())
    if has_runs:
        head = struct.pack("<HH", COOKIE_RUNS, count - 1) + np.packbits(is_run, bitorder="little").tobytes()
    else:
        head = struct.pack("<II", COOKIE_PLAIN, count)
    head += entries.tobytes()
    if not has_runs or count >= NO_OFFSETS_BELOW:
        head += (sizes.cumsum() - sizes + (len(head) + 4 * count)).astype("<u4").tobytes()
    return head


def container_entries(keys: Int64s, cards: Int64s) -> npt.NDArray[np.uint32]:
    """What a header says of each container: its key and its cardinality less one."""
    return (keys | cards - 1 << 16).astype("<u4")


def encode_groups(positions: npt.NDArray[np.uint32], bounds: Int64s) -> tuple[list[Octets], Int64s]:
    """Serialize many sets of positions at once.

    ``positions``: the members of all sets, set after set, ascending within each. ``bounds``: set ``i`` is
    ``positions[bounds[i]:bounds[i + 1]]``; no set is empty.

    Returns:
        Pieces whose concatenation is all serialized bitmaps one after another, and the size in bytes of each bitmap.
    """
    pieces: list[Octets] = []
    sizes: list[Int64s] = []
    first, groups = 0, len(bounds) - 1
    while first < groups:
        last = int(np.searchsorted(bounds, bounds[first] + _VALUES_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), groups)
        members = positions[bounds[first] : bounds[last]]
        piece, piece_sizes = _encode_chunk(members, bounds[first : last + 1] - bounds[first])
        pieces.append(piece)
        sizes.append(piece_sizes)
        first = last
    return pieces, np.concatenate(sizes) if sizes else np.zeros(0, np.int64)


@dataclass(slots=True)
class _Containers:
    """The containers of all sets of one chunk, as columns."""

    start: Int64s  # index of the first member
    card: Int64s
    key: Int64s
    group: Int64s
    run_begins: Flags  # per member: a run of consecutive positions begins here
    runs: Int64s
    is_run: Flags
    size: Int64s
    offset: Int64s  # of the container's bytes in the output


def _encode_chunk(positions: npt.NDArray[np.uint32], bounds: Int64s) -> tuple[Octets, Int64s]:
    groups = len(bounds) - 1
    found = _find_containers(positions, bounds)
    per_group = np.bincount(found.group, minlength=groups)
    group_runs = np.zeros(groups, np.bool_)
    group_runs[found.group[found.is_run]] = True
    with_offsets = ~group_runs | (per_group >= NO_OFFSETS_BELOW)
    flag_bytes = np.where(group_runs, (per_group + 7) // 8, 0)
    table_at = np.where(group_runs, 4 + flag_bytes, 8)
    heads = table_at + 4 * per_group + np.where(with_offsets, 4 * per_group, 0)
    first_container = np.concatenate(([0], np.cumsum(per_group)))
    before = np.concatenate(([0], np.cumsum(found.size)))
    bodies = before[first_container[1:]] - before[first_container[:-1]]
    sizes = heads + bodies
    base = np.concatenate(([0], np.cumsum(sizes)))
    in_body = before[:-1] - before[first_container[:-1]][found.group]
    found.offset = (base[:-1] + heads)[found.group] + in_body
    out = np.zeros(int(base[-1]), np.uint8)
    _write_heads(out, found, base[:-1], per_group, group_runs, first_container)
    rank = np.arange(len(found.group)) - first_container[:-1][found.group]
    entry = (base[:-1] + table_at)[found.group] + 4 * rank
    _put16(out, entry, found.key)
    _put16(out, entry + 2, found.card - 1)
    listed = with_offsets[found.group]
    place = (base[:-1] + table_at + 4 * per_group)[found.group] + 4 * rank
    relative = (found.offset - base[:-1][found.group])[listed]
    _put16(out, place[listed], relative & 0xFFFF)
    _put16(out, place[listed] + 2, relative >> 16)
    _write_bodies(out, found, (positions & np.uint32(0xFFFF)).astype(np.uint16))
    return out, sizes


def _find_containers(positions: npt.NDArray[np.uint32], bounds: Int64s) -> _Containers:
    members = len(positions)
    begins = np.empty(members, np.bool_)
    high = (positions >> np.uint32(16)).astype(np.uint16)
    begins[1:] = high[1:] != high[:-1]
    begins[bounds[:-1]] = True
    start = np.flatnonzero(begins)
    card = np.diff(np.append(start, members))
    run_begins = begins
    run_begins[1:] |= positions[1:] - positions[:-1] != 1
    runs = np.add.reduceat(run_begins, start, dtype=np.int64) if members else np.zeros(0, np.int64)
    plain = np.where(card <= ARRAY_VALUES, 2 * card, BITMAP_BYTES)
    is_run = 2 + 4 * runs < plain
    group = np.searchsorted(bounds, start, side="right") - 1
    size = np.where(is_run, 2 + 4 * runs, plain)
    key = high[start].astype(np.int64)
    return _Containers(start, card, key, group, run_begins, runs, is_run, size, size)


def _write_heads(
    out: Octets, found: _Containers, base: Int64s, per_group: Int64s, group_runs: Flags, first: Int64s
) -> None:
    plain = ~group_runs
    _put16(out, base[plain], np.full(int(plain.sum()), COOKIE_PLAIN))
    _put16(out, base[plain] + 4, per_group[plain] & 0xFFFF)
    _put16(out, base[plain] + 6, per_group[plain] >> 16)
    _put16(out, base[group_runs], np.full(int(group_runs.sum()), COOKIE_RUNS))
    _put16(out, base[group_runs] + 2, per_group[group_runs] - 1)
    flagged = np.flatnonzero(found.is_run)
    rank = flagged - first[:-1][found.group[flagged]]
    at = base[found.group[flagged]] + 4 + (rank >> 3)
    np.bitwise_or.at(out, at, (1 << (rank & 7)).astype(np.uint8))


def _write_bodies(out: Octets, found: _Containers, low: npt.NDArray[np.uint16]) -> None:
    is_bitmap = ~found.is_run & (found.card > ARRAY_VALUES)
    for index in np.flatnonzero(is_bitmap):
        begin = found.start[index]
        bits = np.zeros(65536, np.bool_)
        bits[low[begin : begin + found.card[index]]] = True
        at = found.offset[index]
        out[at : at + BITMAP_BYTES] = np.packbits(bits, bitorder="little")
    is_array = ~found.is_run & ~is_bitmap
    if is_array.all():
        _put16(out, np.repeat(found.offset - 2 * found.start, found.card) + 2 * np.arange(len(low)), low)
        return
    member = np.repeat(is_array, found.card)
    shift = np.repeat((found.offset - 2 * found.start)[is_array], found.card[is_array])
    _put16(out, shift + 2 * np.flatnonzero(member), low[member])
    in_run = np.repeat(found.is_run, found.card)
    begin = np.flatnonzero(found.run_begins & in_run)
    if not len(begin):
        return
    runs = found.runs[found.is_run]
    _put16(out, found.offset[found.is_run], runs)
    first_run = np.cumsum(runs) - runs
    at = np.repeat(found.offset[found.is_run] + 2 - 4 * first_run, runs) + 4 * np.arange(len(begin))
    ends = np.flatnonzero(np.append(found.run_begins[1:], True))
    last = ends[np.searchsorted(ends, begin)]
    _put16(out, at, low[begin])
    _put16(out, at + 2, last - begin)


def _put16(out: Octets, at: Int64s, values: npt.NDArray[np.generic]) -> None:
    """Write little-endian uint16 values at byte offsets."""
    if len(at) == 0:
        return
    halves = values.astype(np.uint16)
    if len(out) % 2 == 0 and not bool(np.any(at & 1)):
        out.view("<u2")[at >> 1] = halves
        return
    out[at] = (halves & np.uint16(0xFF)).astype(np.uint8)
    out[at + 1] = (halves >> np.uint16(8)).astype(np.uint8)
