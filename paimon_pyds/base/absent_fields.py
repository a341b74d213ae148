"""Columns, and members of structs, that single rows leave out: Arrow has NULL there, metadata of a batch names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_KEY = b"paimon_pyds.left_out\0"

LeftOut = Mapping[tuple[str, ...], npt.NDArray[np.int64]]
"""The rows that leave something out, ascending, by its path: the column, then members, ``element`` and ``value``."""
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def find_left_out(values: Iterable[Any], type_: pa.DataType, path: tuple[str, ...] = ()) -> LeftOut:
    """What Python's values leave out of the type that Arrow has found for all of them. ``path``: of the values."""
    found: dict[tuple[str, ...], list[int]] = {}
    if _has_members(type_):
        for at, row in _absent(path, type_, enumerate(values)):
            found.setdefault(at, []).append(row)
    return {at: np.unique(np.array(rows, np.int64)) for at, rows in found.items()}


def with_left_out(rows: Rows, found: LeftOut) -> Rows:
    """The rows, with a note of what they leave out."""
    metadata = rows.schema.metadata or {}
    others = {key: data for key, data in metadata.items() if not key.startswith(_KEY)}
    notes = {_KEY + "\0".join(path).encode(): numbers.tobytes() for path, numbers in found.items()}
    return rows.replace_schema_metadata({**others, **notes}) if found or len(others) < len(metadata) else rows


def left_out_of(schema: pa.Schema) -> LeftOut:
    """What the rows of a batch with this schema leave out."""
    notes = [(key, data) for key, data in (schema.metadata or {}).items() if key.startswith(_KEY)]
    return {tuple(key[len(_KEY) :].decode().split("\0")): np.frombuffer(data, np.int64) for key, data in notes}


def batches_with_left_out(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The batches of a table, each with the note of its own rows."""
    found, start = left_out_of(rows.schema), 0
    for batch in rows.to_batches():
        if found:
            own = {
                path: numbers[(start <= numbers) & (numbers < start + len(batch))] for path, numbers in found.items()
            }
            left = {path: numbers - start for path, numbers in own.items() if len(numbers)}
            batch = with_left_out(batch, left)
        start += batch.num_rows
        yield batch


def _has_members(type_: pa.DataType) -> bool:
    if not pa.types.is_nested(type_):
        return False
    return bool(pa.types.is_struct(type_)) or any(_has_members(type_.field(i).type) for i in range(type_.num_fields))


def _absent(
    path: tuple[str, ...], type_: pa.DataType, values: Iterable[tuple[int, Any]]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The paths of what is absent in values, each with the row that the value is of."""
    t = pa.types
    if t.is_struct(type_):
        structs = [(row, value) for row, value in values if isinstance(value, Mapping)]
        for field in type_:
            at = (*path, field.name)
            yield from ((at, row) for row, value in structs if field.name not in value)
            if _has_members(field.type):
                yield from _absent(at, field.type, [(row, value.get(field.name)) for row, value in structs])
    elif t.is_map(type_) and _has_members(type_.item_type):
        maps = ((row, value.items() if isinstance(value, Mapping) else _items(value)) for row, value in values)
        pairs = chain.from_iterable(((row, pair) for pair in own) for row, own in maps)
        yield from _absent((*path, "value"), type_.item_type, [(row, pair[1]) for row, pair in pairs])
    elif t.is_list(type_) and _has_members(type_.value_type):
        elements = [(row, element) for row, value in values for element in _items(value)]
        yield from _absent((*path, "element"), type_.value_type, elements)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()
