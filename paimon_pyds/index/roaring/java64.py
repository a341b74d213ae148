"""Sets of 64-bit integers as Java's class Roaring64Bitmap serializes them, which is not the portable 64-bit format.

Source: github.com/RoaringBitmap/RoaringBitmap 1.2.1, ``serialize`` of HighLowContainer, Art, Node and Containers.
Integers are little-endian where nothing else is said:

    tag u8 · 0: nothing more, the set is empty · 1: tree, containers
    tree: keys n int64 · nodes, each one before those below it, these in the order of their bytes
    node: type u8 · children int16 · prefix length u8 · prefix · body
    body of type 0, up to 4 children: their bytes, backwards · 1, up to 16: two times 8 bytes, each 8 backwards
         · 2, up to 48: for each of 256 bytes the child's number, 0xFF for none, each 8 backwards · 3: 256 bits
         · 4, a leaf: high 48 bits of the integers big-endian · number of the container int64
    containers: arrays int32 = 1 · mark int8 = -2 · places int32
         · per place: 0, or 1 · kind u8 (0 runs, 1 bitmap, 2 array) · cardinality int32 · as in the 32-bit format
         · containers int64 · array in use int32 = 0 · last place in use int32
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

import numpy as np
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.roaring.codec import (
    ARRAY_VALUES,
    BITMAP_BYTES,
    container_entries,
    decode_bitmap,
    encode_bitmap,
    encode_header,
    read_layout,
)

_EMPTY, _NOT_EMPTY = 0, 1
_LEAF = 4
_KEY_BYTES = 6
_INNER = {0: (4, 4), 1: (16, 16), 2: (48, 256), 3: (256, 32)}
"""For each type of inner node its greatest number of children, and the bytes of its body."""
_NOT_TRIMMED = 0xFE
"""Mark of a header that Java wrote without trimming its arrays."""
_RUNS, _BITMAP, _ARRAY = 0, 1, 2

_Container = tuple[bool, int, bytes]
"""Whether it has runs, its cardinality, its bytes."""


class _Reader:
    """Bytes from the first to the last, never beyond."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def take(self, count: int, field: str) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) < count:
            raise self.corrupt(f"{count} bytes wanted, {len(found)} are left", field)
        self.at += count
        return found

    def integer(self, size: int, field: str) -> int:
        return int.from_bytes(self.take(size, field), "little")

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def corrupt(self, message: str, field: str) -> CorruptFileError:
        return CorruptFileError(f"not a Roaring64Bitmap: {message}", offset=self.at, field=field)


def decode_java64(data: bytes) -> dict[int, BitMap]:
    """The integers of exactly these bytes: of each different high half (unsigned) the low halves.
    Raises CorruptFileError: bytes that Java would not have written, or not as many as they say."""
    reader = _Reader(data)
    tag = reader.integer(1, "tag")
    if tag not in (_EMPTY, _NOT_EMPTY):
        raise reader.corrupt(f"{tag} is no tag", "tag")
    leaves = _read_tree(reader) if tag == _NOT_EMPTY else []
    containers = _read_containers(reader) if tag == _NOT_EMPTY else {}
    if reader.left:
        raise reader.corrupt(f"{reader.left} bytes after its end", "containers")
    if sorted(place for _, place in leaves) != sorted(containers):
        raise reader.corrupt(f"{len(leaves)} leaves name other containers than the {len(containers)} there are", "leaf")
    found = {}
    for high, group in groupby(leaves, key=lambda leaf: leaf[0] >> 16):
        members = list(group)
        low = np.array([key & 0xFFFF for key, _ in members], np.int64)
        found[high] = _bitmap(low, [containers[place] for _, place in members])
    return found


def _read_tree(reader: _Reader) -> list[tuple[int, int]]:
    """The key and the place of the container of each leaf."""
    keys, leaves, waiting = reader.integer(8, "keys"), [], 1
    while waiting:
        kind, children, prefix = struct.unpack("<BHB", reader.take(4, "node"))
        reader.take(prefix, "prefix")
        if kind == _LEAF:
            key = int.from_bytes(reader.take(_KEY_BYTES, "key"), "big")
            leaves.append((key, reader.integer(8, "container")))
            waiting -= 1
            continue
        most, body = _INNER.get(kind, (0, 0))
        if not 1 <= children <= most:
            raise reader.corrupt(f"a node of type {kind} with {children} children", "node")
        reader.take(body, "node")
        waiting += children - 1
    if len(leaves) != keys or any(a >= b for (a, _), (b, _) in pairwise(leaves)):
        raise reader.corrupt(f"{len(leaves)} leaves, out of order or not {keys}", "tree")
    return leaves


def _read_containers(reader: _Reader) -> dict[int, _Container]:
    """The containers by their places."""
    arrays, mark = reader.integer(4, "arrays"), reader.integer(1, "mark")
    if arrays != 1 or mark != _NOT_TRIMMED:
        raise reader.corrupt(f"{arrays} arrays of containers, the first with mark {mark}", "arrays")
    places, found = reader.integer(4, "places"), {}
    if places > reader.left:
        raise reader.corrupt(f"{places} places in {reader.left} bytes", "places")
    for place in range(places):
        there = reader.integer(1, "place")
        if there == 1:
            found[place] = _read_container(reader)
        elif there:
            raise reader.corrupt(f"{there} is not a valid flag for the presence of a container", "place")
    if reader.integer(8, "containers") != len(found):
        raise reader.corrupt(f"it says another number of containers than {len(found)}", "containers")
    reader.take(8, "place in use")
    return found


def _read_container(reader: _Reader) -> _Container:
    kind, cardinality = reader.integer(1, "kind"), reader.integer(4, "cardinality")
    without_runs = _ARRAY if cardinality <= ARRAY_VALUES else _BITMAP
    if not 1 <= cardinality <= 1 << 16 or kind not in (_RUNS, without_runs):
        raise reader.corrupt(f"a container of kind {kind} with {cardinality} members", "cardinality")
    if kind == _RUNS:
        runs = reader.take(2, "runs")
        return True, cardinality, runs + reader.take(4 * int.from_bytes(runs, "little"), "runs")
    return False, cardinality, reader.take(2 * cardinality if kind == _ARRAY else BITMAP_BYTES, "container")


def _bitmap(keys: np.ndarray[tuple[int], np.dtype[np.int64]], containers: Sequence[_Container]) -> BitMap:
    """The bitmap of containers: their bytes are those of the 32-bit format, whose decoder looks at every one."""
    is_run = np.array([runs for runs, _, _ in containers], np.bool_)
    cards = np.array([cardinality for _, cardinality, _ in containers], np.int64)
    sizes = np.array([len(body) for _, _, body in containers], np.int64)
    head = encode_header(container_entries(keys, cards), is_run, sizes)
    return decode_bitmap(head + b"".join(body for _, _, body in containers))


def encode_java64(bitmaps: Mapping[int, BitMap]) -> bytes:
    """The bytes of a set of integers, given as by `decode_java64`."""
    keys: list[bytes] = []
    containers = bytearray()
    for high, bitmap in sorted(bitmaps.items()):
        data = encode_bitmap(bitmap)
        layout = read_layout(data)
        at = layout.head
        for key, card, size, runs in zip(layout.keys, layout.cards, layout.sizes, layout.is_run, strict=True):
            keys.append((high << 16 | int(key)).to_bytes(_KEY_BYTES, "big"))
            kind = _RUNS if runs else _ARRAY if card <= ARRAY_VALUES else _BITMAP
            containers += struct.pack("<BBi", 1, kind, card) + data[at : at + size]
            at += size
    if not keys:
        return bytes([_EMPTY])
    tree = bytearray(struct.pack("<Bq", _NOT_EMPTY, len(keys)))
    _write_node(tree, keys, range(len(keys)), 0)
    head = struct.pack("<iBi", 1, _NOT_TRIMMED, len(keys))
    return bytes(tree + head + containers + struct.pack("<qii", len(keys), 0, len(keys) - 1))


def _write_node(out: bytearray, keys: Sequence[bytes], places: range, depth: int) -> None:
    """The node of some neighbouring keys, which are equal in their first ``depth`` bytes, and those below it."""
    first, last = keys[places[0]], keys[places[-1]]
    if len(places) == 1:
        out += struct.pack("<BHB", _LEAF, 0, 0) + first + struct.pack("<q", places[0])
        return
    split = next(i for i in range(depth, _KEY_BYTES) if first[i] != last[i])
    children = {byte: list(group) for byte, group in groupby(places, key=lambda place: keys[place][split])}
    kind = next(kind for kind, (most, _) in _INNER.items() if len(children) <= most)
    out += struct.pack("<BHB", kind, len(children), split - depth) + first[depth:split] + _node_body(kind, children)
    for group in children.values():
        _write_node(out, keys, range(group[0], group[-1] + 1), split + 1)


def _node_body(kind: int, children: Mapping[int, object]) -> bytes:
    """Which bytes lead to the children of a node, in the form of its type."""
    if kind == 3:
        return sum(1 << byte for byte in children).to_bytes(32, "little")
    if kind == 2:
        numbers = {byte: number for number, byte in enumerate(children)}
        body = bytes(numbers.get(byte, 0xFF) for byte in range(256))
    else:
        body = bytes(children).ljust(_INNER[kind][1], b"\0")
    width = 4 if kind == 0 else 8
    return b"".join(body[at : at + width][::-1] for at in range(0, len(body), width))
