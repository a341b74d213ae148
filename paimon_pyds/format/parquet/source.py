"""One open Parquet file: its footer, its page indexes, its bytes, what was read of them, and pyarrow's reader of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from inspect import signature
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.errors import CorruptFileError, PaimonError, StorageError, UnsupportedError
from paimon_pyds.format import WHOLE_FILE, ReadCounters
from paimon_pyds.format.parquet.conversion import footer_without_int96
from paimon_pyds.format.parquet.footer import MAGIC, Footer, Tail, columns_in, read_footer
from paimon_pyds.format.parquet.page_index import (
    ColumnIndex,
    PageTable,
    agrees,
    decode_column_index,
    decode_offset_indexes,
)
from paimon_pyds.format.parquet.thrift import check_struct
from paimon_pyds.format.parquet.wide import LEAST_WIDE, WideFile
from paimon_pyds.storage import LOCAL_INDEXES, FileIO, requests_at_once, saves_requests

if TYPE_CHECKING:
    from paimon_pyds.format.parquet.sorted_column import SortedPages
    from paimon_pyds.storage.range_cache import CachedRanges

Places: TypeAlias = tuple[Int64s, Int64s]
"""Ranges of bytes in a file: offsets and lengths."""
_JOINED_GAP = 4096
"""Bytes between ranges up to which they count as one request, as `FileIO.read_ranges` joins them."""
_LEAST_KEPT = 64 << 10
"""Bytes of decoded page indexes of a file: fewer are read again in no time, as is the footer of a small file."""
_FOOTER = "FileMetaData"
_LARGE_FILE = 8 << 20
"""Bytes of a file from which its footer and page indexes are cached, however small they are."""


class ParquetSource:
    """What reading and pruning share. Page indexes are read once."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, whole: int = WHOLE_FILE) -> None:
        self.path = path
        self.size = size
        self.counters = counters
        self._io = io
        self._counting = threading.Lock()
        self._kept: CachedRanges | None = None
        if requests_at_once(io):
            from paimon_pyds.storage.range_cache import CachedRanges

            self._kept = CachedRanges(io, path)
        self._tables: dict[tuple[int, int], PageTable] = {}
        self._bounds: dict[tuple[int, int], ColumnIndex] = {}
        self.sorted_pages: dict[int, SortedPages] = {}
        """Results derived from the page indexes of sorted columns, by leaf."""
        self._version = _version(io, path, size)
        version, *found = LOCAL_INDEXES.get(path) or (None,)
        if version is None or version != self._version:
            self._footer_data, self._tail = read_footer(io, path, size, counters, whole, self._kept)
        else:
            self.footer, *kept = found
            self._footer_data = self.footer.data
            self._tables, self._bounds, self.sorted_pages = (dict(one) for one in kept)
            self._tail = Tail(b"", size)
        with decoding(path):
            self._is_wide = columns_in(self._footer_data) >= LEAST_WIDE and check_struct(self._footer_data, _FOOTER)
        if not self._is_wide:
            _ = self.footer  # damage is found when the file is opened
        self._found = len(self._tables) + len(self._bounds) + len(self.sorted_pages)
        self._files: dict[tuple[bool, int], list[Any]] = {}
        self._closed = False

    @property
    def footer_start(self) -> int:
        """Where the footer begins in the file."""
        return self.size - 8 - len(self._footer_data)

    @property
    def groups(self) -> Sequence[tuple[int, int]]:
        """First row and end of each row group."""
        if self.wide is None:
            return self.footer.groups
        return list(pairwise(accumulate(self.wide.rows, initial=0)))

    @cached_property
    def footer(self) -> Footer:
        """The decoded footer. Raises CorruptFileError: it makes no sense."""
        return Footer(self._footer_data, self.path, self.size)

    @cached_property
    def wide(self) -> WideFile | None:
        """The file as pyarrow knows it, where it has many columns and its footer a checksum: a damaged one
        may abort the process in pyarrow. Raises as `decoding`."""
        if not self._is_wide:
            return None
        with decoding(self.path):
            return WideFile(self._metadata)

    @cached_property
    def _metadata(self) -> Any:
        return _metadata_of(self._footer_data)

    def read(self, ranges: Sequence[tuple[int, int]], *, index: bool = False) -> list[bytes]:
        """The bytes of (offset, length) ranges; those within the file's tail are not read again."""
        behind = self._tail.start
        found = [None if offset < behind else self._tail.get(offset, length) for offset, length in ranges]
        if index and self._kept is not None:
            found = [self._kept.get(*r) if data is None else data for r, data in zip(ranges, found, strict=True)]
        missing = [r for r, data in zip(ranges, found, strict=True) if data is None]
        if missing:
            offsets, lengths = np.array(missing, np.int64).T
            self.count(int(lengths.sum()), requests=_requests(offsets, lengths), index=index)
            fresh = self._io.read_ranges(self.path, missing)
            if len(missing) == len(ranges):
                found = list(fresh)
            else:
                rest = iter(fresh)
                found = [next(rest) if data is None else data for data in found]
        all_found = [data for data in found if data is not None]
        if index and self._kept is not None:
            for (offset, _), data in zip(ranges, all_found, strict=True):
                self._kept.add(offset, data)
        return all_found

    def read_joined(self, columns: Sequence[Places]) -> list[bytes]:
        """The bytes at places of several columns, those of each strung together. See `LocalFileIO.read_joined`."""
        read = getattr(self._io, "read_joined", None)
        offsets, lengths = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        if read is None or bool((offsets + lengths > self._tail.start).any()):
            data = self.read(list(zip(offsets.tolist(), lengths.tolist(), strict=True)))[::-1]
            return [b"".join([data.pop() for _ in column[0]]) for column in columns]  # nothing is held twice for long
        self.count(int(lengths.sum()), requests=_requests(offsets, lengths))
        return [read(self.path, *column) for column in columns]

    def count(self, size: int, *, requests: int, index: bool = False) -> None:
        """Count bytes that are read from the storage, from any thread."""
        with self._counting:
            self.counters.bytes_read += size
            self.counters.requests += requests
            self.counters.index_bytes += size if index else 0

    def tables(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], PageTable]:
        """Page tables of (row group, leaf) chunks that have one, read together."""
        keys = [k for k in wanted if k not in self._tables and self.footer.chunk(*k).offset_index is not None]
        if not keys:
            return self._tables
        chunks = [self.footer.chunk(*key) for key in keys]
        rows = [stop - start for start, stop in (self.footer.groups[group] for group, _ in keys)]
        data = self.read([chunk.offset_index or (0, 0) for chunk in chunks], index=True)
        with decoding(self.path):
            for index in data:
                check_struct(index, "OffsetIndex")
            self._tables.update(zip(keys, decode_offset_indexes(data, chunks, rows), strict=True))
        return self._tables

    def bounds(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], ColumnIndex]:
        """Column indexes of (row group, leaf) chunks that have one and a page table, read together.

        One that contradicts the footer is left out, as damage to either would lose rows.
        """
        keys = [k for k in wanted if k not in self._bounds and self.footer.chunk(*k).column_index is not None]
        tables = self.tables(keys)
        keys = [k for k in keys if k in tables]
        places = [self.footer.chunk(*k).column_index or (0, 0) for k in keys]
        found = self.read(places, index=True)
        with decoding(self.path):
            for key, data in zip(keys, found, strict=True):
                check_struct(data, "ColumnIndex")
                index = decode_column_index(data, len(tables[key]))
                if agrees(self.footer.chunk(*key), index):
                    self._bounds[key] = index
        return self._bounds

    def stored_arrow_schema(self) -> bytes:
        """The Arrow schema of the columns as the file's metadata has it; empty where it has none."""
        return bytes((self._metadata.metadata or {}).get(b"ARROW:schema", b""))

    @contextmanager
    def arrow_file(self, *, int96: bool, buffer: int = 0) -> Iterator[Any]:
        """Pyarrow's reader, for one thread at a time. It stays open for the next call.

        With ``int96`` such columns come as twelve bytes; ``buffer`` is as in `open_reader`.
        """
        free = self._files.setdefault((int96, buffer), [])
        try:
            file = free.pop()
        except IndexError:
            file = self._open(int96, buffer)
        try:
            yield file
        finally:
            free.append(file)
            if self._closed:
                self.close()

    def _open(self, int96: bool, buffer: int) -> Any:
        whole = self._tail.get(0, self.size)
        with decoding(self.path):
            metadata = _metadata_of(footer_without_int96(self._footer_data)) if int96 else self._metadata
            if whole is not None:
                source = pa.BufferReader(joined_buffer([whole]))
            elif saves_requests(self._io):
                source = self._io.open_sized(self.path, self.size)
            else:
                source = self._io.open_input(self.path)
            waits = whole is None and requests_at_once(self._io) > 0
            return open_reader(source, metadata, buffer, reads_ahead=waits)

    def close(self) -> None:
        """Release the file; what a thread still reads from is released when it stops."""
        self._closed = True
        if self._kept is not None:
            self._kept.keep()
        kept = [dict(one) for one in (self._tables, self._bounds, self.sorted_pages)]  # a thread may still add some
        if self._version is not None and sum(map(len, kept)) > self._found:
            weight = sum(one.nbytes for of_kind in kept for one in of_kind.values())
            if weight >= _LEAST_KEPT or self.size >= _LARGE_FILE:
                LOCAL_INDEXES.put(self.path, (self._version, self.footer, *kept), weight + 4 * len(self.footer.data))
        for free in list(self._files.values()):
            while free:
                free.pop().close()


def _version(io: FileIO, path: str, size: int) -> str | None:
    """A version by which a local file differs from a later one of the same name; None for other files and missing
    ones."""
    from paimon_pyds.storage.local import LocalFileIO

    if not isinstance(io, LocalFileIO):
        return None
    with suppress(OSError):
        return f"{io.version(path)}, {size} bytes"
    return None


def _metadata_of(footer: bytes) -> Any:
    """Pyarrow's ``FileMetaData`` of a footer."""
    data = b"".join([MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC])
    return open_reader(pa.BufferReader(data)).metadata


def joined_buffer(parts: Sequence[bytes | memoryview]) -> pa.Buffer:
    """The parts, strung together in memory of Arrow's. A thread of Arrow's may be the last to let go of what it reads:
    for memory of Python's it would need the interpreter, which may have ended by then; that aborts the process."""
    whole = pa.allocate_buffer(sum(map(len, parts)))
    view, start = memoryview(whole).cast("B"), 0
    for part in parts:
        view[start : start + len(part)] = part
        start += len(part)
    return whole


def _requests(offsets: Int64s, lengths: Int64s) -> int:
    order = np.argsort(offsets)
    offsets, stops = offsets[order], np.maximum.accumulate((offsets + lengths)[order])
    return 1 + int(np.count_nonzero(offsets[1:] - stops[:-1] > _JOINED_GAP))


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Turns the errors of pyarrow into ours: what it can't decode is a corrupt file, unless the storage failed. Errors
    of damage say which file it is.

    Raises:
        CorruptFileError: the bytes are not Parquet.
        StorageError: they could not be read (an OSError with an error number).
        UnsupportedError: an encoding, codec or type that pyarrow does not have.
    """
    try:
        yield
    except CorruptFileError as error:
        raise (error if error.path else CorruptFileError(error.message, path=path, field=error.field)) from None
    except PaimonError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"a Parquet feature that is not supported: {error}", path=path) from error
    except OSError as error:
        if error.errno is not None:
            raise_alone(StorageError(f"reading failed: {_in_a_line(error)}", path=path), scrubbed(error))
        raise_alone(CorruptFileError(f"the file can't be decoded: {_in_a_line(error)}", path=path), scrubbed(error))
    except (pa.ArrowException, ValueError, MemoryError, OverflowError) as error:
        raise CorruptFileError(f"the file can't be decoded: {_in_a_line(error)}", path=path) from error


def _in_a_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def open_reader(source: pa.NativeFile, metadata: Any = None, buffer: int = 0, *, reads_ahead: bool = False) -> Any:
    """Pyarrow's reader of a file, which checks the checksums of pages, where they have any.

    It is the one within `pyarrow.parquet.ParquetFile`, which takes time for each column of the file. And its module
    loads pyarrow's file systems and TLS, which takes longer than many a query.

    Args:
        source: the file.
        metadata: its footer, where that was read.
        buffer: bytes of each column that are read at a time; 0 for whole columns of a row group.
        reads_ahead: read row groups before they are decoded, on pyarrow's threads, by few requests, which pays where
            these take long; else a column is read when it is decoded, which needs less memory.
    """
    from pyarrow._parquet import ParquetReader

    reader = ParquetReader()
    optional = {"arrow_extensions_enabled": False} if _has_extensions() else {}
    reader.open(
        source,
        metadata=metadata,
        pre_buffer=reads_ahead and not buffer,
        buffer_size=buffer,
        page_checksum_verification=True,
        **optional,
    )
    return reader


@cache
def _has_extensions() -> bool:
    """Whether this pyarrow may decode columns as extension types."""
    from pyarrow._parquet import ParquetReader

    return "arrow_extensions_enabled" in signature(ParquetReader.open).parameters
