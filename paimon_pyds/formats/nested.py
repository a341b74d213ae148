"""Putting nested Arrow arrays together again over other children."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["list_window", "rebuild"]


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
