"""Avro data files, as Java Paimon writes them (the schemas are described in `types`).

A block without a selected row is passed over without being decoded. Of many blocks the fields are located side by side,
and columns decoded at once (`columns`); of few, records are read one by one (`records`). Where a filter is evaluated,
the other columns are made for the rows that it keeps. Writing encodes whole columns at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import is_true, no_columns
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.avro.columns import FileRecord, LocatedRows, MisfitError
from paimon_pyds.format.avro.compression import compressor, zstd_level
from paimon_pyds.format.avro.container import BLOCK_BYTES, Block, ContainerReader, block_bytes, header_bytes
from paimon_pyds.format.avro.lockstep import are_alike, field_places
from paimon_pyds.format.avro.records import RecordDecoder, RecordRows, encode_rows
from paimon_pyds.format.avro.types import has_references, plain_schema, project, write_schema
from paimon_pyds.format.batches import resized
from paimon_pyds.format.plain_reader import PlainReader
from paimon_pyds.storage import FileIO, OutputFile

_CHUNK_BYTES = 8 * 2**20
"""Rows are encoded in parts of about this size, so that offsets of 32 bits suffice whatever a batch holds."""
_GROUP_BYTES = 32 << 20
"""Decompressed bytes of blocks that are read side by side: a step costs about the same for 200 blocks as for 500."""
_T = TypeVar("_T")
_CODECS = {
    "zstd": "zstandard", "zstandard": "zstandard", "snappy": "snappy", "deflate": "deflate", "bzip2": "bzip2",
    "xz": "xz", "none": "null", "null": "null", "uncompressed": "null",
}  # fmt: skip


class AvroReader(PlainReader):
    """One open Avro file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._path = path
        self._counters = counters
        self._io = io
        self._batch_bytes = hints.batch_bytes
        self._group_bytes = min(_GROUP_BYTES, hints.batch_bytes)
        self._file = ContainerReader(self._fetch, size, path)
        try:
            self._schema = json.loads(self._file.schema)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError("the header has no schema", path=path, offset=4, field="avro.schema") from error
        self._plain: Any = plain_schema(self._schema, path)
        self._record = None if has_references(self._plain) else FileRecord(self._plain)
        counters.footer_bytes += self._file.header_size
        # Avro files do not store the row count: the heads of all blocks are read.
        self.row_count = sum(block.count for block in self._file.blocks(lambda row, count: False))

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._counters.read_range(self._io, self._path, offset, length)

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        batches = self._rows(fields, selection, batch_rows, lambda rows: rows.batch(fields))
        return resized(batches, arrow_schema(fields), batch_rows, self._batch_bytes)

    def read_where(
        self,
        first: Sequence[DataField],
        others: Sequence[DataField],
        keep: Callable[[pa.RecordBatch], pa.BooleanArray],
        selection: RowSelection,
        batch_rows: int,
    ) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        def kept(rows: LocatedRows | RecordRows) -> tuple[pa.RecordBatch, pa.BooleanArray]:
            tested = rows.batch(first) if first else no_columns(rows.count)
            mask = keep(tested)
            columns = tested.filter(mask).columns
            if others:
                columns = [*columns, *rows.batch(others, np.flatnonzero(is_true(mask))).columns]
            return pa.RecordBatch.from_arrays(columns, schema=arrow_schema([*first, *others])), mask

        return self._rows([*first, *others], selection, batch_rows, kept)

    def _rows(
        self,
        fields: Sequence[DataField],
        selection: RowSelection,
        batch_rows: int,
        made: Callable[[LocatedRows | RecordRows], _T],
    ) -> Iterator[_T]:
        """Results for the selected rows, part after part in file order, each of at most ``batch_rows`` rows."""
        projected = project(self._schema, self._plain, fields, self._path)
        decoder = RecordDecoder(self._plain, projected, self._path)
        for blocks in self._groups(selection):
            self._counters.rows_decoded += sum(block.count for _, block in blocks)
            done = 0
            try:
                for rows in self._side_by_side(fields, selection, blocks, batch_rows):
                    found = made(rows)
                    done += rows.count
                    yield found
            except MisfitError:  # records one after the other are either read all the same, or a damage is named
                pass
            yield from map(made, self._one_by_one(decoder, selection, blocks, batch_rows, done))

    def _groups(self, selection: RowSelection) -> Iterator[list[tuple[int, Block]]]:
        """The blocks that have a selected row, each with the number of its first row; some megabytes together."""
        held: list[tuple[int, Block]] = []
        row = size = 0
        for block in self._file.blocks(lambda row, count: not selection.window(row, row + count).is_none):
            if block.body is not None and block.count:
                if held and size + len(block.body) > self._group_bytes:
                    yield held
                    held, size = [], 0
                held.append((row, block))
                size += len(block.body)
            row += block.count
        if held:
            yield held

    def _side_by_side(
        self,
        fields: Sequence[DataField],
        selection: RowSelection,
        numbered: Sequence[tuple[int, Block]],
        batch_rows: int,
    ) -> Iterator[LocatedRows]:
        """Rows whose columns are decoded at once; none where that is not worth while, or can't be done."""
        record, blocks = self._record, [block for _, block in numbered]
        if record is None or not are_alike([block.count for block in blocks]):
            return
        located = field_places(record.record, blocks, record.wanted(fields))
        if located is None:
            return
        chosen, first = [], 0
        for row, block in numbered:
            chosen.append(selection.window(row, row + block.count).to_array(block.count) + first)
            first += block.count
        rows = np.concatenate(chosen).astype(np.int64, copy=False)
        for at in range(0, len(rows), batch_rows):
            yield LocatedRows(record, located, rows[at : at + batch_rows])

    def _one_by_one(
        self,
        decoder: RecordDecoder,
        selection: RowSelection,
        numbered: Sequence[tuple[int, Block]],
        batch_rows: int,
        done: int,
    ) -> Iterator[RecordRows]:
        """The selected rows of some blocks, without the first ones, which are ``done``."""
        for row, block in numbered:
            whole = selection.window(row, row + block.count).count(block.count)
            if whole <= done:
                done -= whole
                continue
            for records in decoder.pieces(block):
                window = selection.window(row, row + len(records))
                row += len(records)
                chosen = records if window.is_all else [records[n] for n in window.to_array(len(records)).tolist()]
                for at in range(done, len(chosen), batch_rows):
                    yield RecordRows(chosen[at : at + batch_rows], self._path)
                done = max(0, done - len(chosen))

    def close(self) -> None:
        self._file.close()


class AvroWriter:
    """One Avro file being written."""

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        schema = write_schema(fields)
        codec, level = _codec(options)
        self._fields = tuple(fields)
        self._compress = compressor(codec, level)
        self._pending: list[bytes] = []
        self._pending_bytes = self._pending_rows = 0
        header, self._sync = header_bytes(schema, codec)
        self._output: OutputFile = io.open_output(path)
        try:
            self._output.sink.write(header)
        except BaseException:
            self._output.abort()
            raise

    @staticmethod
    def check(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        """See `FileFormat.check_writer`."""
        write_schema(fields)
        _codec(options)

    def write(self, batch: pa.RecordBatch) -> None:
        step = max(1, batch.num_rows * _CHUNK_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            self._append(encode_rows(part.columns, self._fields))

    def _append(self, records: pa.Array) -> None:
        """Gather records to blocks: a block ends with the record that brings it to its size."""
        bounds = np.frombuffer(records.buffers()[1], np.int32)[records.offset : records.offset + len(records) + 1]
        data = memoryview(records.buffers()[2] or b"")
        place, first = 0, int(bounds[0])
        while place < len(records):
            # The first record end that fills the block up, or the last record of all.
            goal = first + BLOCK_BYTES - self._pending_bytes
            stop = min(int(np.searchsorted(bounds, goal, "left")), len(records))
            stop = max(stop, place + 1)
            last = int(bounds[stop])
            self._pending.append(bytes(data[first:last]))
            self._pending_bytes += last - first
            self._pending_rows += stop - place
            if self._pending_bytes >= BLOCK_BYTES:
                self._flush()
            place, first = stop, last

    def _flush(self) -> None:
        if self._pending_rows:
            body = self._compress(b"".join(self._pending))
            self._output.sink.write(block_bytes(self._pending_rows, body, self._sync))
            self._pending.clear()
            self._pending_bytes = self._pending_rows = 0

    @property
    def bytes_encoded(self) -> int:
        return self._output.tell()

    @property
    def bytes_written(self) -> int:
        # What waits for its block is estimated as a third of its size.
        return self._output.tell() + self._pending_bytes // 3

    def close(self) -> int:
        try:
            self._flush()
        except BaseException:
            self._output.abort()
            raise
        return self._output.close()

    def abort(self) -> None:
        self._output.abort()


def _codec(options: Mapping[str, str]) -> tuple[str, int]:
    """Avro's name of the codec and the level of zstd, from ``avro.codec``, ``file.compression``, ``…zstd-level``."""
    name = options.get("avro.codec", options.get("file.compression", "zstd")).strip().lower()
    if name not in _CODECS:
        raise UnsupportedError(
            f"Avro files can't be compressed with {name!r:.40}", hint="use zstd, snappy, deflate, bzip2, xz or none"
        )
    return _CODECS[name], zstd_level(options)
