"""Avro records, as Python values of one block, → Arrow columns.

Avro is stored row by row, so reading it makes Python objects; a block at a time, about 64 KB of the file.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.avro.container import Block
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.avro.types import has_string_keys, map_types
from paimon_pyds.types import (
    TIMESTAMP_KINDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    arrow_schema,
    arrow_type,
)

__all__ = ["RecordDecoder", "to_batch"]


class RecordDecoder:
    """Decodes the records of blocks.

    Args:
        plain: the file's schema by `plain_schema`.
        projected: the part of it that is wanted.
        path: the file, for messages.

    Raises:
        CorruptFileError: a schema that fastavro refuses.
    """

    def __init__(self, plain: Any, projected: Any, path: object) -> None:
        from fastavro import parse_schema, schemaless_reader

        self._path = path
        self._read: Callable[..., Any] = schemaless_reader
        try:
            # A block is read in one call, as one array of records.
            self._writer = parse_schema({"type": "array", "items": plain}, _write_hint=False)
            self._reader = parse_schema({"type": "array", "items": projected}, _write_hint=False)
        except Exception as error:
            raise CorruptFileError(f"not an Avro schema: {error}", path=path, field="avro.schema") from error

    def records(self, block: Block) -> list[dict[str, Any]]:
        """The records of a block.

        Raises:
            CorruptFileError: bytes that are no such records, or not that many.
        """
        body = block.body or b""
        data = io.BytesIO(b"".join([_count(block.count), body, b"\0"]))
        try:
            found: list[dict[str, Any]] = self._read(data, self._writer, self._reader)
        except (EOFError, LookupError, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise CorruptFileError(
                f"a block does not hold {block.count} records: {error!r:.200}",
                path=self._path,
                offset=block.offset,
                field="block",
            ) from error
        if data.read(1) or len(found) != block.count:
            raise CorruptFileError(
                f"a block holds other records than the {block.count} it claims",
                path=self._path,
                offset=block.offset,
                field="block",
            )
        return found


def _count(count: int) -> bytes:
    value, out = count << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out) if count else b""


def to_batch(records: Sequence[dict[str, Any]], fields: Sequence[DataField], path: object) -> pa.RecordBatch:
    """Records as a batch with the schema ``arrow_schema(fields)``.

    Raises:
        CorruptFileError: a value that its type cannot have.
    """
    columns = []
    for field in fields:
        name = field.name
        try:
            columns.append(_array([record[name] for record in records], field.type))
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise CorruptFileError(
                f"column {name!r} has a value that is not {field.type}: {error}", path=path
            ) from error
    schema = arrow_schema(fields)
    for column, field in zip(columns, fields, strict=True):
        if column.null_count and not field.type.nullable:
            raise CorruptFileError(f"column {field.name!r} is NOT NULL and has NULLs", path=path)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _array(values: list[Any], type_: DataType) -> pa.Array:
    match type_:
        case RowType():
            return _struct(values, type_)
        case ArrayType():
            return _list(values, type_, lambda items: [_array(list(chain.from_iterable(items)), type_.element)])
        case MapType() | MultisetType():
            return _list(values, type_, lambda maps: [_entries(maps, type_)])
        case AtomicType():
            return _atoms(values, type_)
    raise TypeError(f"no Avro decoding for {type_}")


def _atoms(values: list[Any], type_: AtomicType) -> pa.Array:
    target = arrow_type(type_)
    if type_.kind is Kind.DECIMAL:
        return _decimals(values, type_)
    if type_.kind in TIMESTAMP_KINDS:
        return pa.array(values, pa.int64()).view(target)
    if type_.kind in (Kind.DATE, Kind.TIME):
        return pa.array(values, pa.int32()).view(target)
    return pa.array(values, target)


def _decimals(values: list[Any], type_: AtomicType) -> pa.Array:
    limit = 10 ** (type_.precision or 0)
    whole = [0 if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if whole and not (-limit < min(whole) and max(whole) < limit):
        raise ValueError(f"more than {type_.precision} digits")
    data = b"".join([v.to_bytes(16, "little", signed=True) for v in whole])
    validity, nulls = _validity(values)
    return pa.Array.from_buffers(arrow_type(type_), len(values), [validity, pa.py_buffer(data)], nulls)


def _validity(values: list[Any]) -> tuple[pa.Buffer | None, int]:
    there: npt.NDArray[np.bool_] = np.fromiter((v is not None for v in values), np.bool_, len(values))
    nulls = len(values) - int(there.sum())
    return (pa.py_buffer(np.packbits(there, bitorder="little")) if nulls else None), nulls


def _list(values: list[Any], type_: DataType, children: Callable[[list[Any]], list[pa.Array]]) -> pa.Array:
    validity, nulls = _validity(values)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if v is None else len(v) for v in values], out=offsets[1:])
    present = values if not nulls else [v for v in values if v is not None]
    return pa.Array.from_buffers(
        arrow_type(type_), len(values), [validity, pa.py_buffer(offsets)], nulls, children=children(present)
    )


def _entries(maps: list[Any], type_: MapType | MultisetType) -> pa.Array:
    key, value = map_types(type_)
    target = arrow_type(type_)
    if has_string_keys(type_):
        keys = list(chain.from_iterable(maps))
        items = list(chain.from_iterable(m.values() for m in maps))
    else:
        pairs = list(chain.from_iterable(maps))
        keys, items = [p["key"] for p in pairs], [p["value"] for p in pairs]
    arrays = [_array(keys, key), _array(items, value)]
    if arrays[0].null_count or (arrays[1].null_count and not target.item_field.nullable):
        raise ValueError("a NULL where the map may not have one")
    return pa.StructArray.from_arrays(arrays, fields=[target.key_field, target.item_field])


def _struct(values: list[Any], type_: RowType) -> pa.Array:
    target = arrow_type(type_)
    mask = None
    if None in values:
        mask = pa.array([v is None for v in values], pa.bool_())
    children = [_array([None if v is None else v[f.name] for v in values], f.type) for f in type_.fields]
    if not children:
        validity, nulls = _validity(values)
        return pa.Array.from_buffers(target, len(values), [validity], nulls)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
