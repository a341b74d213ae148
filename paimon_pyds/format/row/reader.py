"""Files of the format ``row``.

    blocks    zstandard frames of: rows | int32 offset of each row | int32 number of rows
    index     the blocks' compressed sizes, their sizes, and their first rows, each as bytes of `codec.encode_lengths`
    footer    int64 rows | int32 blocks | int64 offset of the index | int32 its length | 1 | 3 zeros | "SWOR"

Numbers are little-endian. The columns are those of the file's schema, which is not in the file. (Source: Paimon
documentation, concepts/spec/rowformat; files of pypaimon 2.1 and pypaimon-rust 0.4.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.avro.compression import decompressor
from paimon_pyds.format.batches import resized
from paimon_pyds.format.blob.codec import decode_lengths
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.format.row.decode import PADDING, RowDecoder
from paimon_pyds.storage import FileIO

FOOTER = struct.Struct("<qiqib3si")
MAGIC, VERSION = 0x524F5753, 1
_GROUP_BYTES = 4 << 20
"""Bytes of blocks that are decoded together, about."""
_INT = 4
"""Bytes of the numbers at the end of a block."""
_FIRST_ROWS = 64
"""Rows by which a file shows which columns it has, at most."""


class RowReader(PlainReader):
    """`FormatReader` of one open file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._io, self._path, self._counters, self._hints = io, path, counters, hints
        if size < FOOTER.size:
            raise CorruptFileError("the file is too short", path=path, field="footer")
        footer = counters.read_range(io, path, size - FOOTER.size, FOOTER.size)
        rows, blocks, offset, length, version, _, magic = FOOTER.unpack(footer)
        if magic != MAGIC or version != VERSION:
            raise CorruptFileError("this is no file of the format row", path=path, field="magic")
        if rows < 0 or blocks < 0 or offset < 0 or length < 0 or offset + length + FOOTER.size != size:
            raise CorruptFileError(f"an index of {length} bytes at {offset}", path=path, field="index")
        index = counters.read_range(io, path, offset, length)
        counters.footer_bytes += length + FOOTER.size
        self._packed, self._sizes, self._first = self._index(index, blocks)
        self._offsets = np.cumsum(self._packed) - self._packed
        self.row_count = rows
        if int(self._packed.sum()) != offset or (self._packed < 0).any() or (self._sizes < _INT).any():
            raise CorruptFileError("blocks of other sizes than the file has", path=path, field="index")
        if (np.diff(self._first, append=rows) <= 0).any() or (blocks and self._first[0]) or (rows and not blocks):
            raise CorruptFileError("the first rows of blocks do not ascend", path=path, field="index")

    def _index(self, index: bytes, blocks: int) -> tuple[Int64s, Int64s, Int64s]:
        found, at = [], 0
        for _ in range(3):
            length, at = self._varint(index, at)
            if length > len(index) - at:
                raise CorruptFileError("the index ends too early", path=self._path, field="index")
            found.append(decode_lengths(index[at : at + length], self._path))
            at += length
        if at != len(index) or any(len(numbers) != blocks for numbers in found):
            raise CorruptFileError(f"the index is not one of {blocks} blocks", path=self._path, field="index")
        return found[0], found[1], found[2]

    def _varint(self, data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while at < len(data) and shift < 35:
            value |= (data[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 0x80:
                return value, at
        raise CorruptFileError("a number does not end", path=self._path, field="index")

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        if not self.row_count:
            return
        batches = self._batches(self._columns, fields, selection)
        yield from resized(batches, arrow_schema(fields), batch_rows, self._hints.batch_bytes)

    @cached_property
    def _columns(self) -> Sequence[DataField]:
        """The columns of the file, in its order. Those of the key may be missing (``data-file.thin-mode``), which
        nothing says: the file has them if its first rows can be read so, with a key that is in the columns behind."""
        columns, repeats = self._hints.columns, self._hints.repeats
        if columns is None:
            raise UnsupportedError(
                "files of the format row don't name their columns, and the manifest has names of others",
                path=self._path,
                feature="row-files",
            )
        return columns if not repeats or self._repeat(columns, repeats) else columns[len(repeats) :]

    def _repeat(self, columns: Sequence[DataField], repeats: Sequence[tuple[str, str]]) -> bool:
        """Whether rows of the file can be read as these columns, with equal values in each pair."""
        names = {name for pair in repeats for name in pair} | {columns[-1].name}
        read = [column for column in columns if column.name in names]  # the last one, too: rows must end behind it
        first = RowSelection.of(range(min(self.row_count, _FIRST_ROWS)))
        try:
            rows = pa.Table.from_batches(self._batches(columns, read, first))
        except CorruptFileError:
            return False
        except UnsupportedError as error:
            if error.feature is not None:  # a type, and no value out of range, as other columns may seem to have
                raise
            return False
        return all(_bits(rows.column(key)).equals(_bits(rows.column(value))) for key, value in repeats)

    def _batches(
        self, columns: Sequence[DataField], fields: Sequence[DataField], selection: RowSelection
    ) -> Iterator[pa.RecordBatch]:
        wanted = frozenset(field.name for field in fields)
        last = max((n for n, column in enumerate(columns) if column.name in wanted), default=-1)
        schema = arrow_schema(fields)
        for blocks in self._together(selection):
            data, at, limit = self._rows(blocks)
            if not len(at):
                continue
            found, end = RowDecoder(data, self._path).rows(columns, wanted, at, limit, last + 1)
            if last + 1 == len(columns) and (end != limit).any():
                raise CorruptFileError("a row is shorter than its place", path=self._path, field="row")
            self._counters.rows_decoded += len(at)
            yield pa.RecordBatch.from_arrays([found[field.name] for field in fields], schema=schema)

    def _together(self, selection: RowSelection) -> Iterator[list[tuple[int, RowSelection]]]:
        """Blocks with selected rows, some at a time."""
        group: list[tuple[int, RowSelection]] = []
        size = 0
        ends = np.append(self._first[1:], self.row_count).tolist()
        for number, (start, stop) in enumerate(zip(self._first.tolist(), ends, strict=True)):
            inside = selection.window(start, stop)
            if inside.is_none:
                continue
            group.append((number, inside))
            size += int(self._sizes[number])
            if size >= _GROUP_BYTES:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _rows(self, blocks: Sequence[tuple[int, RowSelection]]) -> tuple[bytes, Int64s, Int64s]:
        """The bytes of some blocks, and where their selected rows begin and end."""
        ranges = [(int(self._offsets[number]), int(self._packed[number])) for number, _ in blocks]
        self._counters.bytes_read += sum(length for _, length in ranges)
        self._counters.requests += 1
        parts: list[bytes] = []
        starts, limits, before = [], [], 0
        unpack = decompressor("zstandard", self._path)
        for (number, inside), packed in zip(blocks, self._io.read_ranges(self._path, ranges), strict=True):
            size = int(self._sizes[number])
            try:
                block = unpack(packed, size)
            except (ValueError, OSError, EOFError) as error:
                raise CorruptFileError(f"a block can't be decompressed: {error}", path=self._path) from error
            if len(block) != size:
                raise CorruptFileError(f"a block has {len(block)} bytes, not {size}", path=self._path)
            bounds = self._bounds(block, number)
            rows = inside.to_array(len(bounds) - 1)
            starts.append(bounds[rows] + before)
            limits.append(bounds[rows + 1] + before)
            parts.append(block)
            before += len(block)
        return b"".join([*parts, PADDING]), np.concatenate(starts), np.concatenate(limits)

    def _bounds(self, block: bytes, number: int) -> Int64s:
        """Where each row of a block begins, and where the last one ends."""
        last = self.row_count if number + 1 == len(self._first) else int(self._first[number + 1])
        count = last - int(self._first[number])
        end = len(block) - _INT * (count + 1)
        if end < 0 or int.from_bytes(block[-_INT:], "little", signed=True) != count:
            raise CorruptFileError(f"a block has not the {count} rows that the index says", path=self._path)
        offsets = np.frombuffer(block, "<i4", count, end).astype(np.int64)
        bounds = np.append(offsets, end)
        if (offsets < 0).any() or (np.diff(bounds) < 0).any():
            raise CorruptFileError("the places of rows do not ascend", path=self._path, field="offsets")
        return bounds


def _bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values for comparisons in which NaN equals itself."""
    if not pa.types.is_floating(values.type):
        return values
    return pa.chunked_array([part.view(f"int{values.type.bit_width}") for part in values.chunks])
