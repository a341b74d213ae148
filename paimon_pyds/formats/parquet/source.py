"""One open Parquet file: its footer, its page indexes, its bytes, and what was read of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.base import ReadCounters
from paimon_pyds.formats.parquet.bounds import agrees
from paimon_pyds.formats.parquet.decoding import decoding, metadata_of, open_file
from paimon_pyds.formats.parquet.footer import read_footer
from paimon_pyds.formats.parquet.int96 import footer_without_int96
from paimon_pyds.formats.parquet.page_index import ColumnIndex, PageTable, decode_column_index, decode_offset_indexes
from paimon_pyds.formats.parquet.struct_checksum import check_struct
from paimon_pyds.storage.base import FileIO

__all__ = ["ParquetSource"]

_NEAR = 4096
"""Ranges this close count as one request, as `FileIO.read_ranges` makes of them."""


class ParquetSource:
    """What reading and pruning share. Page indexes are read once."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters) -> None:
        self.path = path
        self.size = size
        self.counters = counters
        self._io = io
        self._counting = threading.Lock()
        self.footer, self._tail = read_footer(io, path, size, counters)
        self._tables: dict[tuple[int, int], PageTable] = {}
        self._bounds: dict[tuple[int, int], ColumnIndex] = {}
        self._files: dict[bool, list[Any]] = {False: [], True: []}
        self._closed = False

    def read(self, ranges: Sequence[tuple[int, int]], *, index: bool = False) -> list[bytes]:
        """The bytes of (offset, length) ranges; what lies in the file's tail is there already."""
        found = [self._tail.get(*r) for r in ranges]
        missing = [r for r, data in zip(ranges, found, strict=True) if data is None]
        if missing:
            size = sum(length for _, length in missing)
            self.count(size, requests=_requests(missing), index=index)
            fresh = iter(self._io.read_ranges(self.path, missing))
            found = [next(fresh) if data is None else data for data in found]
        return [data for data in found if data is not None]

    def count(self, size: int, *, requests: int, index: bool = False) -> None:
        """Note bytes that are asked of the storage, from any thread."""
        with self._counting:
            self.counters.bytes_read += size
            self.counters.requests += requests
            self.counters.index_bytes += size if index else 0

    def has_pages(self, group: int, leaf: int) -> bool:
        """Whether a column chunk has an OffsetIndex."""
        return self.footer.chunk(group, leaf).offset_index is not None

    def tables(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], PageTable]:
        """Page tables of (row group, leaf) chunks that have one, read together."""
        keys = [k for k in wanted if k not in self._tables and self.has_pages(*k)]
        if not keys:
            return self._tables
        chunks = [self.footer.chunk(*key) for key in keys]
        rows = [stop - start for start, stop in (self.footer.groups[group] for group, _ in keys)]
        data = self.read([chunk.offset_index or (0, 0) for chunk in chunks], index=True)
        try:
            for index in data:
                check_struct(index, "OffsetIndex")
            self._tables.update(zip(keys, decode_offset_indexes(data, chunks, rows), strict=True))
        except CorruptFileError as error:
            raise CorruptFileError(error.message, path=self.path) from error
        return self._tables

    def bounds(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], ColumnIndex]:
        """Column indexes of (row group, leaf) chunks that have one and a page table, read together.

        One that contradicts the footer is left out, as damage to either would lose rows.
        """
        keys = [k for k in wanted if k not in self._bounds and self.footer.chunk(*k).column_index is not None]
        tables = self.tables(keys)
        keys = [k for k in keys if k in tables]
        places = [self.footer.chunk(*k).column_index or (0, 0) for k in keys]
        for key, data in zip(keys, self.read(places, index=True), strict=True):
            try:
                check_struct(data, "ColumnIndex")
                index = decode_column_index(data, len(tables[key]))
            except CorruptFileError as error:
                raise CorruptFileError(error.message, path=self.path) from error
            if agrees(self.footer.chunk(*key), index):
                self._bounds[key] = index
        return self._bounds

    @contextmanager
    def arrow_file(self, *, int96: bool) -> Iterator[Any]:
        """Pyarrow's ParquetFile, for one thread at a time; with ``int96``, such columns come as twelve bytes.

        It is kept open for the next.
        """
        free = self._files[int96]
        try:
            file = free.pop()
        except IndexError:
            file = self._open(int96=int96)
        try:
            yield file
        finally:
            free.append(file)
            if self._closed:
                self.close()

    def _open(self, *, int96: bool) -> Any:
        whole = self._tail.get(0, self.size)
        data = self.footer.data
        if int96:
            try:
                data = footer_without_int96(data)
            except CorruptFileError as error:
                raise CorruptFileError(error.message, path=self.path) from error
        with decoding(self.path):
            metadata = metadata_of(data)
            source = self._io.open_input(self.path) if whole is None else pa.BufferReader(whole)
            return open_file(source, metadata)

    def close(self) -> None:
        """Release the file; what a thread still reads from is released when it stops."""
        self._closed = True
        for free in self._files.values():
            while free:
                free.pop().close(force=True)


def _requests(ranges: Sequence[tuple[int, int]]) -> int:
    count, stop = 0, -_NEAR - 1
    for offset, length in sorted(ranges):
        count += offset - stop > _NEAR
        stop = max(stop, offset + length)
    return count
