"""Arrow columns → Avro records, all records at once.

Each field of an Avro schema becomes one or more binary columns (a length, a marker, the bytes), and one call of Arrow
joins them record by record. Few records are encoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, pc, scalar, to_numpy
from paimon_pyds.base.varints import varint_values
from paimon_pyds.format.avro.container import BLOCK_BYTES
from paimon_pyds.format.avro.schema import Array, Node, Primitive, Unread, optional, writer_of

_FEW_ROWS = 64
_FEW_BYTES = 64 << 10
"""Rows that are encoded one by one, at most, and their bytes in memory: the array functions, some for each field, take
longer then. A long list makes a row large."""


def encode_columns(fields: Sequence[tuple[Node, pa.Array]]) -> pa.Array:
    """The bytes of each row: its fields, one behind the other.

    ``fields``: one or more, of the types that `encode_field` takes, and columns of the same length.
    """
    if len(fields[0][1]) <= _FEW_ROWS and sum(column.nbytes for _, column in fields) <= _FEW_BYTES:
        return array(_one_by_one(fields), pa.binary())
    return join([piece for node, column in fields for piece in encode_field(node, column)])


def _one_by_one(fields: Sequence[tuple[Node, pa.Array]]) -> list[bytes]:
    rows = [bytearray() for _ in range(len(fields[0][1]))]
    for node, column in fields:
        put = writer_of(node)
        for row, value in zip(rows, column.to_pylist(), strict=True):
            put(row, value)
    return [bytes(row) for row in rows]


def encode_field(node: Node, column: pa.Array) -> list[pa.Array]:
    """The pieces of one field: binary arrays without nulls, to be joined in this order.

    ``node`` is an int, long, bytes or string, or an array of one of these, each nullable or not, or what is unread,
    whose bytes are in ``column``.
    """
    if isinstance(node, Unread):
        return [column if node.null is None else pc.fill_null(column, scalar(node.null, pa.binary()))]
    found = optional(node)
    if found is not None:
        member, null = found
        return _optional(member, null, column)
    match node:
        case Primitive("int" | "long"):
            return [varints(to_numpy(pc.cast(column, pa.int64())))]
        case Primitive("bytes" | "string"):
            body = pc.cast(column, pa.binary())
            return [varints(to_numpy(pc.binary_length(body)).astype(np.int64)), body]
        case Array(item):
            return _array(item, column)
    raise TypeError(f"no writer for columns of {node}")


def join(pieces: Sequence[pa.Array]) -> pa.Array:
    """The pieces of each record in a row, as one binary array."""
    return pc.binary_join_element_wise(*pieces, scalar(b"", pa.binary()))


def blocks_of(records: pa.Array) -> list[tuple[int, bytes]]:
    """Encoded records gathered to blocks of about `BLOCK_BYTES`: (number of records, their bytes)."""
    if len(records) == 0:
        return []
    _, offsets, body = records.buffers()
    bounds = np.frombuffer(offsets, "<i4")[records.offset : records.offset + len(records) + 1].astype(np.int64)
    # A record belongs to the block in which it starts.
    block_starts = np.flatnonzero(np.diff((bounds[:-1] - bounds[0]) // BLOCK_BYTES)) + 1
    edges = [0, *block_starts.tolist(), len(records)]
    data = memoryview(body)
    return [(stop - start, bytes(data[int(bounds[start]) : int(bounds[stop])])) for start, stop in pairwise(edges)]


def _optional(member: Node, null: int, column: pa.Array) -> list[pa.Array]:
    here, absent = (scalar(bytes([2 * at]), pa.binary()) for at in (1 - null, null))
    if column.null_count == len(column):
        return [array([absent.as_py()] * len(column), pa.binary())]
    valid = pc.is_valid(column)
    marker = pc.if_else(valid, here, absent)
    if column.null_count == 0:
        return [marker, *encode_field(member, column)]
    filled = (
        pc.fill_null(column, scalar(_blank(column.type), column.type)) if not pa.types.is_list(column.type) else column
    )
    nothing = scalar(b"", pa.binary())
    return [marker, *(pc.if_else(valid, piece, nothing) for piece in encode_field(member, filled))]


def _blank(type_: pa.DataType) -> object:
    if pa.types.is_binary(type_):
        return b""
    return "" if pa.types.is_string(type_) else 0


def _array(item: Node, column: pa.Array) -> list[pa.Array]:
    lengths = pc.list_value_length(column)
    counts = to_numpy(pc.fill_null(lengths, scalar(0, lengths.type))).astype(np.int64)
    return list_pieces(np.append(0, np.cumsum(counts)), join(encode_field(item, pc.list_flatten(column))))


def list_pieces(bounds: Int64s, items: pa.Array) -> list[pa.Array]:
    """The pieces of arrays: how many items each has, its items, and a zero; just that where it has none.

    ``bounds``: where the items of each begin, and where the last ones end. ``items``: the encoded items of all, one
    array after another.
    """
    counts = np.diff(bounds)
    _, offsets, body = items.buffers()
    ends = np.frombuffer(offsets, "<i4")[items.offset :] if len(items) else np.zeros(1, np.int32)
    # The items of one array are contiguous: offsets are enough to join them.
    buffers = [None, pa.py_buffer(ends[bounds]), body or pa.py_buffer(b"")]
    together = pa.Array.from_buffers(pa.binary(), len(counts), buffers)
    head = pc.if_else(from_numpy(counts > 0), varints(counts), scalar(b"", pa.binary()))
    return [head, together, array([b"\x00"] * len(counts), pa.binary())]


def varints(values: Int64s) -> pa.Array:
    """The int or long of each element: zigzag numbers of variable length."""
    return varint_values(((values << 1) ^ (values >> 63)).view(np.uint64))
