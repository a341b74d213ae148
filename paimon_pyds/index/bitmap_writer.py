"""Writing the bitmap index, versions 1 and 2: all bitmaps of a column assembled at once from its sorted codes.

The layout is described in `paimon_pyds.index.bitmap`.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, scalar, to_numpy
from paimon_pyds.errors import SchemaError
from paimon_pyds.index.dictionary import EncodedColumn, sorted_rows
from paimon_pyds.roaring.codec import encode_groups

__all__ = ["check_limits", "fixed_binary", "join_binary", "write_bitmap"]

_SINGLE_BITMAP_BYTES = 18
_WINDOW = 1 << 20  # rows sorted at a time, to bound memory

I64 = npt.NDArray[np.int64]


def _rows_by_key(column: EncodedColumn) -> tuple[npt.NDArray[np.uint32], I64]:
    """Row positions sorted by code, null rows first, and how many rows each has: [nulls, first key, second key, …]."""
    groups = len(column.keys) + 1
    rows = column.row_count
    counts = np.zeros(groups, np.int64)
    for start in range(0, rows, _WINDOW):
        counts += np.bincount(column.codes[start : start + _WINDOW] + 1, minlength=groups)
    if rows <= _WINDOW:
        return _sorted_rows(column.codes + 1, groups), counts
    positions = np.empty(rows, np.uint32)
    place = np.cumsum(counts) - counts
    for start in range(0, rows, _WINDOW):
        codes = column.codes[start : start + _WINDOW] + 1
        here = np.bincount(codes, minlength=groups)
        target = np.repeat(place - (np.cumsum(here) - here), here) + np.arange(len(codes))
        positions[target] = _sorted_rows(codes, groups) + np.uint32(start)
        place += here
    return positions, counts


def _sorted_rows(codes: npt.NDArray[np.int32], groups: int) -> npt.NDArray[np.uint32]:
    """Indices that sort the codes, equal ones in order: counted by Arrow when few."""
    if groups <= 1 << 16:
        return to_numpy(pc.array_sort_indices(from_numpy(codes))).astype(np.uint32)
    return sorted_rows(codes.astype(np.uint64)).astype(np.uint32)


def write_bitmap(column: EncodedColumn, version: int, block_size: int) -> bytes:
    """The serialized bitmap index of a column.

    Raises:
        SchemaError: the index would be larger than 2 GiB, or the file has more than 2^31 - 1 rows.
    """
    rows = column.row_count
    positions, counts = _rows_by_key(column)
    body, sizes = _serialize_groups(positions, counts)
    check_limits("bitmap", rows, int(sizes.sum()))
    firsts = positions[np.minimum(np.cumsum(counts) - counts, max(rows - 1, 0))].astype(np.int64) if rows else counts
    single = counts == 1
    offsets = np.where(single, -1 - firsts, np.cumsum(sizes) - sizes)
    lengths = np.where(single, -1, sizes)
    has_null = bool(counts[0])
    head = struct.pack(">Bii?", version, rows, len(column.keys), has_null)
    if has_null:
        head += struct.pack(">i", int(offsets[0]))
        if version == 2:
            head += struct.pack(">i", _SINGLE_BITMAP_BYTES if single[0] else int(sizes[0]))
    if version == 1:
        return b"".join([head, _entries(column, offsets[1:], None)[0], *body])
    return b"".join([head, *_blocks(column, offsets[1:], lengths[1:], block_size), *body])


def check_limits(index_type: str, rows: int, size: int) -> None:
    """Raises SchemaError when rows or bytes of an index exceed what its int32 fields can count."""
    if max(rows, size) > 0x7FFFFFFF:
        raise SchemaError(
            f"a {index_type} index can't hold {rows} rows in {size} bytes",
            hint="lower target-file-size, or don't index this column",
        )


def _serialize_groups(positions: npt.NDArray[np.uint32], counts: I64) -> tuple[list[Any], I64]:
    """Serialized bitmaps of all groups of two rows and more, and the size of each group's bitmap (0 for the others)."""
    many = counts > 1
    sizes = np.zeros(len(counts), np.int64)
    if not many.any():
        return [], sizes
    if not bool((counts[counts > 0] > 1).all()):
        positions = positions[np.repeat(many, counts)]
    pieces, sizes[many] = encode_groups(positions, np.concatenate(([0], np.cumsum(counts[many]))))
    return list(pieces), sizes


def _entries(column: EncodedColumn, offsets: I64, lengths: I64 | None) -> tuple[bytes, I64]:
    """(value, offset[, length]) of each key, and where each entry begins; one more bound at the end."""
    count = len(column.keys)
    tail = np.empty((count, 1 if lengths is None else 2), ">i4")
    tail[:, 0] = offsets
    if lengths is not None:
        tail[:, 1] = lengths
    if column.codec.is_binary:
        joined = join_binary(_sizes_of(column.keys), column.keys, fixed_binary(tail))
        return joined
    width = column.codec.width
    table = np.empty((count, width + tail.shape[1] * 4), np.uint8)
    values = np.ascontiguousarray(column.codec.serialize(column.int_keys()))
    table[:, :width] = values.view(np.uint8).reshape(count, width)
    table[:, width:] = tail.view(np.uint8).reshape(count, 4 * tail.shape[1])
    return table.tobytes(), np.arange(count + 1) * table.shape[1]


def _blocks(column: EncodedColumn, offsets: I64, lengths: I64, block_size: int) -> list[bytes]:
    """The table of blocks, the body's offset, and the blocks of version 2."""
    data, bounds = _entries(column, offsets, lengths)
    count = len(column.keys)
    firsts = [0]
    while firsts[-1] < count:
        fitting = int(np.searchsorted(bounds, bounds[firsts[-1]] + block_size - 4, side="right")) - 1
        firsts.append(max(fitting, firsts[-1] + 1))
    view = memoryview(data)
    blocks: list[bytes] = []
    table: list[bytes] = []
    offset = 0
    for first, last in itertools.pairwise(firsts):
        blocks.append(struct.pack(">i", last - first) + view[bounds[first] : bounds[last]])
        value_end = bounds[first + 1] - 8
        table.append(bytes(view[bounds[first] : value_end]) + struct.pack(">i", offset))
        offset += len(blocks[-1])
    return [struct.pack(">i", len(blocks)), *table, struct.pack(">i", offset), *blocks]


def fixed_binary(rows: npt.NDArray[Any]) -> pa.Array:
    """A binary array whose values are the bytes of the rows of a 2-D array."""
    data = np.ascontiguousarray(rows)
    width = data.shape[1] * data.itemsize
    offsets = np.arange(len(data) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sizes_of(values: pa.Array) -> pa.Array:
    sizes = to_numpy(pc.binary_length(values)).astype(">i4")
    return fixed_binary(sizes.reshape(-1, 1))


def join_binary(*parts: pa.Array) -> tuple[bytes, I64]:
    """The concatenation, row by row, of binary arrays, and where each row begins; one more bound at the end."""
    joined = pc.binary_join_element_wise(*parts, scalar(b"", pa.binary()))
    _, offsets, data = joined.buffers()
    if len(joined) == 0:
        return b"", np.zeros(1, np.int64)
    bounds = np.frombuffer(offsets, np.int32, len(joined) + 1).astype(np.int64)
    return data.to_pybytes()[: bounds[-1]], bounds
