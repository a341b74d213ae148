"""Arrow columns ⇄ Avro records.

Avro is stored row by row, so reading it makes Python objects; a block at a time, about 64 KB of the file. Writing makes
a binary array of every column, with the bytes of each row's value, and Arrow joins the columns row by row (Apache Avro
specification 1.11, Binary Encoding; what types become is in `types`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, fixed_binary, fixed_values, pc, scalar, slices, to_numpy
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.types.arrow import arrow_schema, arrow_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.model import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.avro.container import Block, block_bytes, header_bytes
from paimon_pyds.format.avro.encode import encode_field, join, list_pieces, varints
from paimon_pyds.format.avro.schema import Primitive
from paimon_pyds.format.avro.types import has_string_keys, map_types
from paimon_pyds.format.batches import list_window

_NULL = scalar(b"\x00", pa.binary())
_THERE = scalar(b"\x02", pa.binary())
_EMPTY = scalar(b"", pa.binary())
_BYTES = Primitive("bytes")
_RECORDS_AT_ONCE = 65_536
"""Records of a block that are held at once. Blocks of usual files have fewer; reading these whole is faster."""


class RecordDecoder:
    """Decodes the records of blocks.

    ``plain``: the file's schema by `plain_schema`. ``projected``: the part of it that is wanted.
    Raises CorruptFileError: a schema that fastavro refuses.
    """

    def __init__(self, plain: Any, projected: Any, path: object) -> None:
        from fastavro import block_reader, parse_schema, schemaless_reader

        self._path = path
        self._plain, self._projected = plain, projected
        self._read: Callable[..., Any] = schemaless_reader
        self._read_block: Callable[..., Any] = block_reader
        try:
            # A block is read in one call, as one array of records.
            self._writer = parse_schema({"type": "array", "items": plain}, _write_hint=False)
            self._reader = parse_schema({"type": "array", "items": projected}, _write_hint=False)
        except Exception as error:
            raise CorruptFileError(f"not an Avro schema: {error}", path=path, field="avro.schema") from error

    def pieces(self, block: Block) -> Iterator[list[dict[str, Any]]]:
        """The records of a block, in pieces that bound memory: a compressed block of kilobytes may have millions.
        Raises CorruptFileError: the bytes are not such records, or not this number of them."""
        if block.count <= _RECORDS_AT_ONCE:
            yield self.records(block)
            return
        head, sync = header_bytes(self._plain, "null")
        data = io.BytesIO(b"".join([head, block_bytes(block.count, block.body or b"", sync)]))
        with self._told(block):
            (found,) = self._read_block(data, reader_schema=self._projected)
            records = iter(found)
        while True:
            with self._told(block):
                piece = list(islice(records, _RECORDS_AT_ONCE))
                if not piece and found.bytes_.read(1):
                    raise ValueError("it has more bytes")
            if not piece:
                return
            yield piece

    @contextmanager
    def _told(self, block: Block) -> Iterator[None]:
        """Turns the errors of fastavro into ours."""
        try:
            yield
        except (EOFError, LookupError, ValueError, TypeError, OverflowError, MemoryError) as error:
            message = f"a block does not hold {block.count} records: {error!r:.200}"
            raise CorruptFileError(message, path=self._path, offset=block.offset, field="block") from error

    def records(self, block: Block) -> list[dict[str, Any]]:
        """All records of a block, with the errors of `pieces`."""
        head = varint(block.count << 1) if block.count else b""
        data = io.BytesIO(b"".join([head, block.body or b"", b"\0"]))
        with self._told(block):
            found: list[dict[str, Any]] = self._read(data, self._writer, self._reader)
            if data.read(1) or len(found) != block.count:
                raise ValueError(f"it has others, {len(found)} at least")
        return found


class RecordRows:
    """Rows that were decoded as records."""

    def __init__(self, records: Sequence[dict[str, Any]], path: object) -> None:
        self._records = records
        self._path = path
        self.count = len(records)

    def batch(self, fields: Sequence[DataField], picked: Int64s | None = None) -> pa.RecordBatch:
        """Some columns of the rows, or of those at some positions among them. Raises CorruptFileError."""
        chosen = self._records if picked is None else [self._records[row] for row in picked.tolist()]
        return to_batch(chosen, fields, self._path)


def to_batch(records: Sequence[dict[str, Any]], fields: Sequence[DataField], path: object) -> pa.RecordBatch:
    """Records as a batch with the schema ``arrow_schema(fields)``.
    Raises CorruptFileError: a value that its type cannot have."""
    columns = []
    for field in fields:
        name = field.name
        try:
            columns.append(to_array([record[name] for record in records], field.type))
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise CorruptFileError(
                f"column {name!r} has a value that is not {field.type}: {error}", path=path
            ) from error
    schema = arrow_schema(fields)
    for column, field in zip(columns, fields, strict=True):
        if column.null_count and not field.type.nullable:
            raise CorruptFileError(f"column {field.name!r} is NOT NULL and has NULLs", path=path)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_array(values: list[Any], type_: DataType) -> pa.Array:
    """Values as fastavro gives them, as an array. Raises what Arrow and Python raise for those of another type."""
    match type_:
        case RowType():
            return _struct(values, type_)
        case ArrayType():
            return _list(values, type_, lambda items: [to_array(list(chain.from_iterable(items)), type_.element)])
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
        return arrow_array(values, pa.int64()).view(target)
    if type_.kind in (Kind.DATE, Kind.TIME):
        return arrow_array(values, pa.int32()).view(target)
    return arrow_array(values, target)


def _decimals(values: list[Any], type_: AtomicType) -> pa.Array:
    """Decimals of more digits than the type has are NULL, as Java reads them: it has written what it added up."""
    limit = 10 ** (type_.precision or 0)
    whole = [0 if v is None else int.from_bytes(v, "big", signed=True) for v in values]
    if whole and not (-limit < min(whole) and max(whole) < limit):
        values = [v if -limit < number < limit else None for v, number in zip(values, whole, strict=True)]
        whole = [number if -limit < number < limit else 0 for number in whole]
    data = b"".join([v.to_bytes(16, "little", signed=True) for v in whole])
    validity, nulls = _validity(values)
    return pa.Array.from_buffers(arrow_type(type_), len(values), [validity, pa.py_buffer(data)], nulls)


def _validity(values: list[Any]) -> tuple[pa.Buffer | None, int]:
    there: Flags = np.fromiter((v is not None for v in values), np.bool_, len(values))
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
    arrays = [to_array(keys, key), to_array(items, value)]
    if arrays[0].null_count or (arrays[1].null_count and not target.item_field.nullable):
        raise ValueError("a NULL where the map may not have one")
    return pa.StructArray.from_arrays(arrays, fields=[target.key_field, target.item_field])


def _struct(values: list[Any], type_: RowType) -> pa.Array:
    target = arrow_type(type_)
    mask = None
    if None in values:
        mask = arrow_array([v is None for v in values], pa.bool_())
    children = [to_array([None if v is None else v[f.name] for v in values], f.type) for f in type_.fields]
    if not children:
        validity, nulls = _validity(values)
        return pa.Array.from_buffers(target, len(values), [validity], nulls)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def encode_rows(columns: Sequence[pa.Array], fields: Sequence[DataField]) -> pa.Array:
    """A binary array with the record of each row."""
    return _join([_encode(c, f.type) for c, f in zip(columns, fields, strict=True)], len(columns[0]) if columns else 0)


def _join(pieces: Sequence[pa.Array], rows: int) -> pa.Array:
    if not pieces:
        return arrow_array([b""] * rows, pa.binary())
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, _EMPTY)


def _encode(array: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of each value; a union of null and the type where the type is nullable."""
    if not len(array):
        return arrow_array([], pa.binary())
    if not type_.nullable:
        return _values(array, type_)
    if array.null_count == 0:
        return pc.binary_join_element_wise(_THERE, _values(array, type_), _EMPTY)
    there = array.is_valid()
    present = array.filter(there)
    if not len(present):
        return arrow_array([b"\x00"], pa.binary()).take(arrow_array(np.zeros(len(array), np.int8)))
    marked = pc.binary_join_element_wise(_THERE, _values(present, type_), _EMPTY)
    places = np.cumsum(np.asarray(to_numpy(there.cast(pa.int8())), dtype=np.int64)) - 1
    spread = marked.take(arrow_array(places, mask=~to_numpy(there)))
    return pc.fill_null(spread, _NULL)


def _values(array: pa.Array, type_: DataType) -> pa.Array:
    """The bytes of values that are not NULL."""
    match type_:
        case RowType():
            return _join([_encode(array.field(i), f.type) for i, f in enumerate(type_.fields)], len(array))
        case ArrayType():
            return _items(array, _encode(list_window(array, array.values), type_.element))
        case MapType() | MultisetType():
            key, value = map_types(type_)
            keys = list_window(array, array.keys)
            if has_string_keys(type_):
                key = key.with_nullable(False)
            entries = [_encode(keys, key), _encode(list_window(array, array.items), value)]
            return _items(array, _join(entries, len(keys)))
        case AtomicType():
            return _atom_bytes(array, type_)
    raise TypeError(f"no Avro encoding for {type_}")


def _items(array: pa.Array, items: pa.Array) -> pa.Array:
    offsets = to_numpy(array.offsets).astype(np.int64)
    return join(list_pieces(offsets - offsets[0], items))


def _atom_bytes(array: pa.Array, type_: AtomicType) -> pa.Array:
    kind = type_.kind
    if kind is Kind.BOOLEAN:
        return fixed_binary(to_numpy(array.cast(pa.uint8())))
    if kind in INTEGER_KINDS:
        return varints(to_numpy(array.cast(pa.int64())))
    if kind in TIMESTAMP_KINDS:
        return varints(to_numpy(array.view(pa.int64())))
    if kind in (Kind.DATE, Kind.TIME):
        return varints(to_numpy(array.view(pa.int32())).astype(np.int64))
    if kind is Kind.FLOAT:
        return fixed_binary(to_numpy(array).astype("<f4"))
    if kind is Kind.DOUBLE:
        return fixed_binary(to_numpy(array).astype("<f8"))
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return join(encode_field(_BYTES, array))
    return join(encode_field(_BYTES, unscaled_bytes(array)))


def unscaled_bytes(array: pa.Array) -> pa.Array:
    """Unscaled values as the fewest bytes of two's complement, the highest first."""
    count = len(array)
    data = np.ascontiguousarray(fixed_values(array, "u1", 16).reshape(count, 16)[:, ::-1])
    sign = np.where(data[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte can go when it only repeats the sign that the next byte shows.
    spare = (data[:, :-1] == sign[:, None]) & ((data[:, 1:] >= 0x80) == (sign[:, None] == 0xFF))
    lead = np.cumprod(spare, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(count, dtype=np.int64) * 16
    return slices(data.reshape(-1), starts + lead, starts + 16)
