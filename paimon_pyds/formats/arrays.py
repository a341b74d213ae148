"""Arrow arrays and batches put together anew: nested arrays over other children, batches of a good size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa


def rebuild(array: pa.Array, type_: pa.DataType, children: Sequence[pa.Array]) -> pa.Array:
    """A list, map or struct array with the validity and offsets of ``array`` and other children.

    ``children`` are as long as those of the whole, unsliced ``array`` (``values``; for a map, the struct of entries).
    """
    own = 1 if pa.types.is_struct(array.type) else 2
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:own], array.null_count, array.offset, children=list(children)
    )


def list_window(array: pa.Array, children: pa.Array) -> pa.Array:
    """The children that the lists (or maps) of an array without nulls refer to, in order.

    ``children`` are those of the whole array: ``values``, or ``keys`` or ``items`` of a map.
    """
    if not len(array):
        return children.slice(0, 0)
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[len(array)].as_py()
    return children.slice(first, last - first)


def resized(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, most: int, *, join: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of these batches in batches of at most ``most`` rows; with ``join``, of half as many at least."""
    parts: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows + batch.num_rows > most:
            yield from _joined(parts, schema)
            parts, rows = [], 0
        for start in range(0, batch.num_rows, most):
            parts.append(batch.slice(start, most))
            rows += parts[-1].num_rows
            if not join or rows * 2 >= most:
                yield from _joined(parts, schema)
                parts, rows = [], 0
    yield from _joined(parts, schema)


def _joined(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> Sequence[pa.RecordBatch]:
    if len(parts) <= 1:
        return parts
    joined: list[pa.RecordBatch] = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return joined
