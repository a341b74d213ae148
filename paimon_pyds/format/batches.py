"""Arrow arrays and batches put together anew: nested arrays over other children, batches of a good size."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from paimon_pyds.base.arrays import sliced


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


_MANY_COLUMNS = 64
"""Columns from which the memory of a batch is estimated by its buffers."""


def bytes_held(batch: pa.RecordBatch) -> int:
    """The memory that a batch needs: its ``nbytes``, of many columns the buffers they are in, which are counted in a
    tenth of the time."""
    return int(batch.nbytes if batch.num_columns < _MANY_COLUMNS else batch.get_total_buffer_size())


_T = TypeVar("_T")


def groups_of_size(items: Iterable[_T], size_of: Callable[[_T], int], least: int) -> Iterator[list[_T]]:
    """Items in their order, in groups that end as soon as they have ``least`` bytes."""
    group, size = list[_T](), 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= least:
            yield group
            group, size = [], 0
    if group:
        yield group


def resized(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, most: int, held: int, *, join: bool = True
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of these batches in other ones.

    Args:
        batches: of any size.
        schema: of all of them.
        most: rows of a batch at most.
        held: bytes of a batch at most, about.
        join: give no batch, but the last, of less than half of both.
    """
    parts: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        nbytes = batch.nbytes
        if rows + batch.num_rows > most or size + nbytes > held:
            yield from _joined(parts, schema)
            parts, rows, size = [], 0, 0
        whole = batch.num_rows <= most and nbytes <= held
        for part in (batch,) if whole else sliced(batch, most, held, nbytes):
            parts.append(part)
            rows += part.num_rows
            size += nbytes * part.num_rows // batch.num_rows
            if not join or rows * 2 >= most or size * 2 >= held:
                yield from _joined(parts, schema)
                parts, rows, size = [], 0, 0
    yield from _joined(parts, schema)


def _joined(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> Sequence[pa.RecordBatch]:
    if len(parts) <= 1:
        return parts
    joined: list[pa.RecordBatch] = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return joined
