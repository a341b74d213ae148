"""Writing a global index of the type btree (`paimon_pyds.index.global_index.btree_file` has the format)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, binary_parts, from_numpy, join_binary, pc, to_numpy
from paimon_pyds.base.checksums import crc32
from paimon_pyds.base.types import DataType
from paimon_pyds.base.varints import varint, varint_values
from paimon_pyds.index.global_index.blocks import with_trailer
from paimon_pyds.index.global_index.btree_file import FOOTER, MAGIC, OF_ANY_SIZE, OF_ONE_SIZE, VERSION
from paimon_pyds.index.global_index.key_bytes import global_key_codec, key_bytes
from paimon_pyds.index.global_index.range_meta import KeyRange
from paimon_pyds.index.global_index.row_ids import encode_row_ids

_BLOCK_BYTES = 16 << 10
"""Bytes of a data block, about: a lookup of a key reads one. Java and pypaimon write 64 KiB, and read any size."""
_ENTRIES_AT_ONCE = 1 << 18
"""Entries that are encoded at a time, to bound memory."""


class WrittenIndex(NamedTuple):
    """The bytes of an index file in order, the bounds of its keys, and the number of its rows."""

    pieces: list[bytes]
    bounds: KeyRange
    row_count: int


def write_btree(values: pa.Array, ids: Int64s, column_type: DataType, *, codec: str = "none") -> WrittenIndex:
    """An index over some rows.

    Args:
        values: the column, in the Arrow type of ``column_type``; NULLs may be among them.
        ids: of each value its row id, relative to the first row that the index covers; ascending.
        column_type: the type of the column.
        codec: compression of the blocks, ``none`` or ``zstd``.

    Raises UnsupportedError: columns of the type can't have such an index.
    """
    keys = global_key_codec(column_type).keys_of(values)
    valid = np.flatnonzero(to_numpy(pc.is_valid(keys))) if keys.null_count else np.arange(len(keys))
    order = valid[to_numpy(pc.array_sort_indices(keys.take(from_numpy(valid)))).astype(np.int64)]
    ranked = keys.take(from_numpy(order))
    fresh = np.flatnonzero(np.concatenate([[len(order) > 0], _differ(ranked)])) if len(order) else order
    out = _Pieces(codec)
    last_keys: list[bytes] = []
    handles: list[bytes] = []
    texts = key_bytes(global_key_codec(column_type), ranked.take(from_numpy(fresh)))
    for data, last_key in _blocks(texts, ids[order], fresh):
        handles.append(varint(out.size) + varint(len(out.add_block(data))))
        last_keys.append(last_key)
    nulls_at, nulls = out.size, b""
    if keys.null_count:
        nulls = encode_row_ids(ids[np.flatnonzero(~to_numpy(pc.is_valid(keys)))])
        out.add(nulls + crc32(nulls).to_bytes(4, "little"))
    index_at = out.size
    entries, bounds = join_binary(*_sized(array(last_keys, pa.binary())), *_sized(array(handles, pa.binary())))
    size = len(out.add_block(_content(entries, bounds)))
    out.add(FOOTER.pack(0, 0, 0, index_at, size, nulls_at if nulls else 0, len(nulls), VERSION, MAGIC))
    first, last = (texts[0].as_py(), texts[-1].as_py()) if len(texts) else (None, None)
    return WrittenIndex(out.pieces, KeyRange(first, last, bool(nulls)), len(keys))


class _Pieces:
    """The parts of a file, and their size so far."""

    def __init__(self, codec: str) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self._codec = codec

    def add(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    def add_block(self, content: bytes) -> bytes:
        """Add a block; its bytes without the trailer."""
        block = with_trailer(content, self._codec)
        self.add(block)
        return block[:-5]


def _differ(keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each key but the first is another one than the key before it."""
    return to_numpy(pc.not_equal(keys.slice(1), keys.slice(0, max(len(keys) - 1, 0))))


def _sized(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The sizes of binary values as varints, and the values."""
    return varint_values(to_numpy(pc.binary_length(values)).astype(np.uint64)), values


def _blocks(keys: pa.Array, ids: Int64s, starts: Int64s) -> Iterator[tuple[bytes, bytes]]:
    """The contents of data blocks, with their last keys. ``keys``: each once, in order. ``starts``: where the row ids
    of each key begin in ``ids``."""
    ends = np.append(starts[1:], len(ids))
    for first in range(0, len(keys), _ENTRIES_AT_ONCE):
        some = slice(first, first + _ENTRIES_AT_ONCE)
        here = keys.slice(first, _ENTRIES_AT_ONCE)
        numbers = varint_values(ids[starts[some][0] : ends[some][-1]].view(np.uint64))
        _, begins, stops = binary_parts(numbers)
        bounds = np.append(begins[starts[some] - starts[first]], stops[-1]).astype(np.int32)
        lists = pa.Array.from_buffers(pa.binary(), len(here), [None, pa.py_buffer(bounds), numbers.buffers()[2]])
        counts = varint_values((ends[some] - starts[some]).view(np.uint64))
        sizes = to_numpy(pc.binary_length(counts)).astype(np.int64) + to_numpy(pc.binary_length(lists))
        values = varint_values(sizes.view(np.uint64)), counts, lists
        data, edges = join_binary(*_sized(here), *values)
        cuts = np.flatnonzero(np.diff(edges[:-1] // _BLOCK_BYTES)) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(here)], strict=True):
            content = _content(data[edges[begin] : edges[end]], edges[begin : end + 1] - edges[begin])
            yield content, here[end - 1].as_py()


def _content(entries: bytes, edges: Int64s) -> bytes:
    """The content of a block. ``edges``: where each entry begins, and where the last one ends."""
    sizes = np.diff(edges)
    if len(sizes) and (sizes == sizes[0]).all():
        return entries + int(sizes[0]).to_bytes(4, "little") + bytes([OF_ONE_SIZE])
    tail = len(sizes).to_bytes(4, "little") + bytes([OF_ANY_SIZE])
    return entries + edges[:-1].astype("<u4").tobytes() + tail
