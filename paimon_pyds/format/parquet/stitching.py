"""Row groups of several Parquet files in one file: pages strung together, one footer for all.

Positions in row groups and page indexes are shifted. The other metadata of each column is copied as it is encoded,
since decoding it takes longer than encoding its pages where a file has thousands of columns.
Source: apache/parquet-format, README.md (file layout), parquet.thrift (FileMetaData, RowGroup, ColumnChunk,
ColumnMetaData, OffsetIndex).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import BinaryIO, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from paimon_pyds.base.varints import unzigzag, varint
from paimon_pyds.format.parquet.conversion import INT96, int96_leaves, with_int96
from paimon_pyds.format.parquet.footer import MAGIC, footer_of
from paimon_pyds.format.parquet.page_index import decode_locations, encode_offset_indexes
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    decode_struct,
    encode_struct,
    field_head,
    list_head,
    list_start,
    raw_struct,
    skip_field,
    with_checksum,
)
from paimon_pyds.format.parquet.thrift import varint as read_varint
from paimon_pyds.storage import FileIO

_MAX_ORDINAL = 32_767
"""Greatest ordinal of a row group: parquet-format stores it in 16 bits."""
_NULL_COUNT = 3
"""Field id of null_count in Statistics."""
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES = 2, 3, 4, 5
"""Fields of FileMetaData."""
_COLUMNS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7
"""Fields of RowGroup."""
_FILE_OFFSET, _META_DATA, _OFFSET_INDEX, _COLUMN_INDEX, _AFTER_INDEXES = 2, 3, 4, 6, 8
"""Fields of ColumnChunk: those of the indexes are positions, the ones after them lengths."""
_PATH, _POSITIONS = 3, frozenset({9, 10, 11, 14})
"""Fields of ColumnMetaData: the path in the schema, and positions in the file."""
_Raw: TypeAlias = dict[int, tuple[int, bytes]]
"""The fields of a struct: wire types, and values as they are encoded."""
_T = TypeVar("_T")


class Stitcher:
    """Writes the row groups of in-memory Parquet files, all with one schema, into one file."""

    def __init__(self, sink: BinaryIO, *, int96: bool = False) -> None:
        """``int96``: columns of twelve bytes are timestamps, and INT96 in the footer."""
        self._sink = sink
        self._int96 = int96
        self._first: _Raw = {}
        self._groups: list[tuple[_Raw, list[_Chunk]]] = []
        self._rows = 0
        self.position = 0
        self.metadata: dict[bytes, bytes] = {}
        """What the footer is to say besides."""

    def add(self, file: pa.Buffer, unbounded: Collection[str] = ()) -> None:
        """Append the row group of a Parquet file that pyarrow has written.

        ``unbounded`` are top-level columns whose bounds are left out; their counts of NULLs stay.
        """
        view = memoryview(file)
        footer = footer_of(view)
        pages_end = len(view) - 8 - len(footer)
        shift = max(0, self.position - len(MAGIC))
        meta, groups = _take_apart(bytes(footer), shift)
        if not self._first:
            self._first = meta
            self._write(MAGIC)
        for fields, places in groups:
            chunks = _with_indexes(places, view, shift)
            pages_end = min([pages_end, *(start for place in places for start, _ in place.indexes)])
            if unbounded:
                paths = {_value(LIST, (BINARY, [name.encode()])) for name in unbounded}
                chunks = [_without_bounds(c) if p.path in paths else c for c, p in zip(chunks, places, strict=True)]
            if self._int96:
                chunks = list(map(_as_int96, chunks, int96_leaves(_schema(meta))))
            self._groups.append((_numbered(fields, len(self._groups), shift), chunks))
        self._rows += _integer(meta[_NUM_ROWS])
        self._write(view[len(MAGIC) : pages_end])

    def finish(self) -> None:
        """Write indexes and footer."""
        if not self._groups:
            raise ValueError("a Parquet file needs a row group, an empty one at least")
        places = self._write_indexes()
        of_chunks, groups = iter(places), []
        for fields, chunks in self._groups:
            ends = [_index_fields(next(of_chunks)) for _ in chunks]
            columns = [part for chunk, end in zip(chunks, ends, strict=True) for part in (chunk.head, end)]
            groups.append(raw_struct({**fields, _COLUMNS: (LIST, list_start(STRUCT, len(chunks)) + b"".join(columns))}))
        meta = dict(self._first)
        meta[_NUM_ROWS] = (I64, _value(I64, self._rows))
        meta[_ROW_GROUPS] = (LIST, list_start(STRUCT, len(groups)) + b"".join(groups))
        if self.metadata:
            pairs = [{1: (BINARY, key), 2: (BINARY, value)} for key, value in self.metadata.items()]
            meta[_KEY_VALUES] = (LIST, _value(LIST, (STRUCT, pairs)))
        if self._int96:
            meta[_SCHEMA] = (LIST, _value(LIST, (STRUCT, list(map(with_int96, _schema(meta))))))
        footer = with_checksum(raw_struct(meta))
        self._write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _write_indexes(self) -> list[tuple[_Place | None, _Place | None]]:
        """Write column indexes, then offset indexes; where the offset and the column index of each chunk are."""
        chunks = [chunk for _, chunks in self._groups for chunk in chunks]
        data = [with_checksum(index) if index else b"" for index in (chunk.column_index for chunk in chunks)]
        data += [with_checksum(index) if index else b"" for index in (chunk.offset_index for chunk in chunks)]
        at, places = self.position, list[_Place | None]()
        for index in data:
            places.append((at, len(index)) if index else None)
            at += len(index)
        self._write(b"".join(data))
        return list(zip(places[len(chunks) :], places, strict=False))

    def _write(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self.position += len(data)


def write_stitched(io: FileIO, path: str, files: Iterable[tuple[pa.Buffer, Collection[str]]]) -> int:
    """Write the row groups of in-memory files into a file; its size in bytes. On an error it is removed.

    ``files``: each with the columns whose bounds are left out. Raises StorageError, and what ``files`` raises.
    """
    out = io.open_output(path)
    try:
        stitcher = Stitcher(out.sink)
        for file, unbounded in files:
            stitcher.add(file, unbounded)
        stitcher.finish()
    except BaseException:
        out.abort()
        raise
    return out.close()


_Place: TypeAlias = tuple[int, int]
"""A position in a file, and a length."""


class _Chunk(NamedTuple):
    """A column chunk. ``head``: its ColumnChunk as far as the fields of the indexes, shifted."""

    head: bytes
    offset_index: bytes | None
    column_index: bytes | None


class _Places(NamedTuple):
    """A column chunk of the file that is taken apart: the same ``head``, the path as encoded, where the indexes are."""

    head: bytes
    path: bytes
    offset_index: _Place | None
    column_index: _Place | None

    @property
    def indexes(self) -> list[_Place]:
        return [place for place in (self.offset_index, self.column_index) if place is not None]


def _take_apart(footer: bytes, shift: int) -> tuple[_Raw, list[tuple[_Raw, list[_Places]]]]:
    """A footer's fields, but for row groups; the fields of each of these, and its column chunks."""

    def group(pos: int) -> tuple[tuple[_Raw, list[_Places]], int]:
        fields, chunks, pos = _fields(footer, pos, _COLUMNS, lambda at: _chunk(footer, at, shift))
        return (fields, chunks), pos

    meta, groups, _ = _fields(footer, 0, _ROW_GROUPS, group)
    return meta, groups


def _fields(
    data: bytes, pos: int, list_id: int, element: Callable[[int], tuple[_T, int]]
) -> tuple[_Raw, list[_T], int]:
    """The fields of a struct but for one list, the elements of this list by ``element``, and the position behind."""
    fields, elements, field_id = _Raw(), list[_T](), 0
    while True:
        wire, field_id, pos = field_head(data, pos, field_id)
        if wire == 0:
            return fields, elements, pos
        if field_id == list_id:
            _, size, pos = list_head(data, pos)
            for _ in range(size):
                found, pos = element(pos)
                elements.append(found)
        else:
            stop = skip_field(data, pos, wire)
            fields[field_id] = (wire, data[pos:stop])
            pos = stop


def _chunk(data: bytes, pos: int, shift: int) -> tuple[_Places, int]:
    """The column chunk at a position, and the position behind it."""
    parts, copied, head_end, path, field_id = list[bytes](), pos, pos, b"", 0
    indexes = dict[int, int]()
    while True:
        wire, field_id, pos = field_head(data, pos, field_id)
        if wire == 0:
            break
        if field_id == _META_DATA:
            path, copied, pos = _shift_column(data, pos, shift, parts, copied)
        elif field_id < _META_DATA:
            start, pos = pos, skip_field(data, pos, wire)
            if field_id == _FILE_OFFSET:
                copied = _shift(data, start, shift, parts, copied)
        elif field_id < _AFTER_INDEXES:
            raw, pos = read_varint(data, pos)
            indexes[field_id] = unzigzag(raw)
            continue
        else:
            raise ValueError(f"pyarrow writes field {field_id} of ColumnChunk")
        head_end = pos
    parts.append(data[copied:head_end])
    places = [(indexes[i], indexes[i + 1]) if i in indexes else None for i in (_OFFSET_INDEX, _COLUMN_INDEX)]
    return _Places(b"".join(parts), path, *places), pos


def _shift_column(data: bytes, pos: int, shift: int, parts: list[bytes], copied: int) -> tuple[bytes, int, int]:
    """Shift the positions of the ColumnMetaData at ``pos``; its path, as `_shift`, and the position behind it."""
    path, field_id = b"", 0
    while True:
        wire, field_id, start = field_head(data, pos, field_id)
        if wire == 0:
            return path, copied, start
        pos = skip_field(data, start, wire)
        if field_id in _POSITIONS:
            copied = _shift(data, start, shift, parts, copied)
        elif field_id == _PATH:
            path = data[start:pos]


def _shift(data: bytes, pos: int, shift: int, parts: list[bytes], copied: int) -> int:
    """Add to ``parts`` the bytes from ``copied`` to the number at ``pos``, and the shifted number; what is copied now.
    Numbers of 0, for nothing, stay."""
    raw, stop = read_varint(data, pos)
    if not shift or raw == 0:
        return copied
    parts += (data[copied:pos], varint(raw + 2 * shift))
    return stop


def _with_indexes(places: Sequence[_Places], view: memoryview, shift: int) -> list[_Chunk]:
    """Column chunks with their indexes, the pages of which are shifted."""
    offsets, columns = (
        [None if place is None else bytes(view[place[0] : place[0] + place[1]]) for place in found]
        for found in ([p.offset_index for p in places], [p.column_index for p in places])
    )
    if shift:
        located = decode_locations([index for index in offsets if index is not None])
        shifted = iter(encode_offset_indexes([(at + shift, sizes, rows) for at, sizes, rows in located]))
        offsets = [None if index is None else next(shifted) for index in offsets]
    return [_Chunk(p.head, *indexes) for p, *indexes in zip(places, offsets, columns, strict=True)]


def _without_bounds(chunk: _Chunk) -> _Chunk:
    fields, _ = decode_struct(chunk.head + b"\0")
    statistics = fields[_META_DATA][1].get(12)
    if statistics is not None:
        fields[_META_DATA][1][12] = (STRUCT, {n: f for n, f in statistics[1].items() if n == _NULL_COUNT})
    return chunk._replace(head=encode_struct(fields)[:-1], column_index=None)


def _as_int96(chunk: _Chunk, is_timestamp: bool) -> _Chunk:
    if not is_timestamp:
        return chunk
    fields, _ = decode_struct(chunk.head + b"\0")
    fields[_META_DATA][1][1] = (I32, INT96)
    fields[_META_DATA][1].pop(12, None)  # statistics: INT96 has no order
    return chunk._replace(head=encode_struct(fields)[:-1], column_index=None)


def _numbered(fields: _Raw, number: int, shift: int) -> _Raw:
    """A row group's fields in the file that it comes to."""
    found = {i: field for i, field in fields.items() if i != _ORDINAL}
    if number <= _MAX_ORDINAL:
        found[_ORDINAL] = (I16, _value(I16, number))
    if (offset := _integer(found.get(_GROUP_OFFSET, (I64, b"\0")))) > 0:
        found[_GROUP_OFFSET] = (I64, _value(I64, offset + shift))
    return found


def _index_fields(places: tuple[_Place | None, _Place | None]) -> bytes:
    """The end of a ColumnChunk, whose last field was `_META_DATA`: where its indexes are, and the stop byte."""
    out, last = bytearray(), _META_DATA
    for place, field_id in zip(places, (_OFFSET_INDEX, _COLUMN_INDEX), strict=True):
        if place is not None:
            at, length = place
            out.append((field_id - last) << 4 | I64)
            out += varint(at << 1)
            out.append(1 << 4 | I32)
            out += varint(length << 1)
            last = field_id + 1
    out.append(0)
    return bytes(out)


def _schema(meta: _Raw) -> list[Struct]:
    elements: list[Struct] = decode_struct(raw_struct({_SCHEMA: meta[_SCHEMA]}))[0][_SCHEMA][1][1]
    return elements


def _value(wire: int, value: object) -> bytes:
    """A value as it is encoded behind the head of its field."""
    return encode_struct({1: (wire, value)})[1:-1]


def _integer(field: tuple[int, bytes]) -> int:
    return unzigzag(read_varint(field[1], 0)[0])
