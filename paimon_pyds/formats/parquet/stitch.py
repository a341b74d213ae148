"""Joining Parquet files of one row group each into one file: row groups can then be encoded on several threads.

pyarrow's writer encodes on one thread. Each row group is written as a file of its own, in memory; here their pages are
strung together, the positions in row groups and page indexes are shifted, and one footer is written for all.
Source: apache/parquet-format, README.md (file layout), parquet.thrift (FileMetaData, RowGroup, OffsetIndex).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from paimon_pyds.formats.parquet.footer import MAGIC
from paimon_pyds.formats.parquet.int96 import INT96, int96_leaves, with_int96
from paimon_pyds.formats.parquet.page_index import decode_locations, encode_offset_index
from paimon_pyds.formats.parquet.struct_checksum import with_checksum
from paimon_pyds.formats.parquet.thrift import I16, I32, I64, LIST, STRUCT, Struct, decode_struct, encode_struct

__all__ = ["Stitcher"]

_MAX_ORDINAL = 32_767
_NULL_COUNT = 3


@dataclass(slots=True)
class _Index:
    """The page index of one column chunk, waiting for the end of the file."""

    chunk: Struct
    column_index: bytes | None
    offset_index: bytes | None


class Stitcher:
    """Writes the row groups of in-memory Parquet files, all with one schema, into one file."""

    def __init__(self, sink: BinaryIO, *, int96: bool = False) -> None:
        """``int96``: columns of twelve bytes are timestamps, and told so in the footer."""
        self._sink = sink
        self._int96 = int96
        self._first: Struct | None = None
        self._groups: list[Struct] = []
        self._indexes: list[_Index] = []
        self._rows = 0
        self.position = 0

    def add(self, file: pa.Buffer, unbounded: Collection[str] = ()) -> None:
        """Append the row group of a Parquet file that pyarrow has written.

        ``unbounded`` are top-level columns whose bounds must not be told; their counts of NULLs are.
        """
        unbounded_paths = [[name.encode()] for name in unbounded]
        view = memoryview(file)
        length = int.from_bytes(view[-8:-4], "little")
        meta, _ = decode_struct(bytes(view[-8 - length : -8]))
        pages_end = len(view) - 8 - length
        timestamps = int96_leaves(meta[2][1][1]) if self._int96 else []
        if self._first is None:
            self._first = meta
            self._write(MAGIC)
        for group in meta[4][1][1]:
            shift = self.position - len(MAGIC)
            for at, chunk in enumerate(group[1][1][1]):
                column_index, start = _cut(chunk, 6, 7, view)
                pages_end = min(pages_end, start)
                offset_index, start = _cut(chunk, 4, 5, view)
                pages_end = min(pages_end, start)
                if offset_index is not None:
                    [(offsets, sizes, rows)] = decode_locations([offset_index])
                    offset_index = encode_offset_index(offsets + shift, sizes, rows)
                _shift(chunk, (2,), shift)
                _shift(chunk[3][1], (9, 10, 11, 14), shift)
                if self._int96 and timestamps[at]:
                    chunk[3][1][1] = (I32, INT96)
                    chunk[3][1].pop(12, None)  # statistics: INT96 has no order
                    column_index = None
                if chunk[3][1][3][1][1] in unbounded_paths:
                    _drop_bounds(chunk[3][1])
                    column_index = None
                self._indexes.append(_Index(chunk, column_index, offset_index))
            _shift(group, (5,), shift)
            group.pop(7, None)
            if len(self._groups) <= _MAX_ORDINAL:
                group[7] = (I16, len(self._groups))
            self._groups.append(group)
        self._rows += meta[3][1]
        self._write(view[len(MAGIC) : pages_end])

    def finish(self) -> None:
        """Write the page indexes and the footer."""
        if self._first is None:
            raise ValueError("a Parquet file needs a row group, an empty one at least")
        for index in self._indexes:
            if index.column_index is not None:
                data = with_checksum(index.column_index)
                index.chunk[6] = (I64, self.position)
                index.chunk[7] = (I32, len(data))
                self._write(data)
        for index in self._indexes:
            if index.offset_index is not None:
                data = with_checksum(index.offset_index)
                index.chunk[4] = (I64, self.position)
                index.chunk[5] = (I32, len(data))
                self._write(data)
        meta = dict(self._first)
        meta[3] = (I64, self._rows)
        meta[4] = (LIST, (STRUCT, self._groups))
        if self._int96:
            meta[2] = (LIST, (STRUCT, [with_int96(e) for e in meta[2][1][1]]))
        footer = with_checksum(encode_struct(meta))
        self._write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _write(self, data: bytes | memoryview) -> None:
        self._sink.write(data)
        self.position += len(data)


def _cut(chunk: Struct, offset_id: int, length_id: int, view: memoryview) -> tuple[bytes | None, int]:
    """Take an index's place out of a chunk: the index's bytes, and where they began (the end of the file if none)."""
    if offset_id not in chunk or length_id not in chunk:
        return None, len(view)
    start, length = chunk.pop(offset_id)[1], chunk.pop(length_id)[1]
    return bytes(view[start : start + length]), start


def _drop_bounds(meta: Struct) -> None:
    """Leave of a chunk's statistics the number of NULLs."""
    if 12 in meta:
        meta[12] = (STRUCT, {number: value for number, value in meta[12][1].items() if number == _NULL_COUNT})


def _shift(fields: Struct, ids: tuple[int, ...], shift: int) -> None:
    """Move the file positions in these fields; absent ones and zeros (unused) stay."""
    for field_id in ids:
        if field_id in fields and fields[field_id][1] > 0:
            fields[field_id] = (I64, fields[field_id][1] + shift)
