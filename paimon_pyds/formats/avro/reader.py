"""Avro data files, as Java Paimon writes them (the schemas are described in `types`).

Reading goes block by block: a block without a selected row is passed over without being decoded. Writing encodes whole
columns at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.avro.compression import compressor
from paimon_pyds.avro.container import BLOCK_BYTES, ContainerReader, block_bytes, header_bytes
from paimon_pyds.errors import CorruptFileError, OptionError, UnsupportedError
from paimon_pyds.formats import FoundRows, ReadCounters, ReadHints
from paimon_pyds.formats.arrays import resized
from paimon_pyds.formats.avro.records import RecordDecoder, encode_rows, to_batch
from paimon_pyds.formats.avro.types import plain_schema, project, write_schema
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage import FileIO, OutputFile
from paimon_pyds.types import DataField, arrow_schema

_CHUNK_BYTES = 8 * 2**20
"""Rows are encoded in parts of about this size, so that offsets of 32 bits suffice whatever a batch holds."""
_CODECS = {
    "zstd": "zstandard", "zstandard": "zstandard", "snappy": "snappy", "deflate": "deflate", "bzip2": "bzip2",
    "xz": "xz", "none": "null", "null": "null", "uncompressed": "null",
}  # fmt: skip


class AvroReader:
    """One open Avro file."""

    def __init__(self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints) -> None:
        self._path = path
        self._counters = counters
        self._io = io
        self._batch_bytes = hints.batch_bytes
        self._file = ContainerReader(self._fetch, size, path)
        try:
            self._schema = json.loads(self._file.schema)
        except (ValueError, RecursionError) as error:
            raise CorruptFileError("the header has no schema", path=path, offset=4, field="avro.schema") from error
        self._plain: Any = plain_schema(self._schema, path)
        counters.footer_bytes += self._file.header_size
        # Avro files do not tell: the heads of all blocks are visited.
        self.row_count = sum(block.count for block in self._file.blocks(lambda row, count: False))

    def _fetch(self, offset: int, length: int) -> bytes:
        return self._counters.read_range(self._io, self._path, offset, length)

    def groups(self) -> Sequence[tuple[int, int]]:
        return [(0, self.row_count)] if self.row_count else []  # blocks are too small to be worth a visit each

    def prune(self, predicate: Predicate, within: RowSelection = RowSelection.ALL) -> RowSelection:
        return RowSelection.ALL  # Avro files have no statistics

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        return None

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        return None

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        projected = project(self._schema, self._plain, fields, self._path)
        decoder = RecordDecoder(self._plain, projected, self._path)
        batches = self._batches(decoder, fields, selection)
        return resized(batches, arrow_schema(fields), batch_rows, self._batch_bytes)

    def _batches(
        self, decoder: RecordDecoder, fields: Sequence[DataField], selection: RowSelection
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for block in self._file.blocks(lambda row, count: not selection.window(row, row + count).is_none):
            start, first = first, first + block.count
            if block.body is None or not block.count:
                continue
            self._counters.rows_decoded += block.count
            for records in decoder.pieces(block):
                window = selection.window(start, start + len(records))
                start += len(records)
                if window.is_none:
                    continue
                batch = to_batch(records, fields, self._path)
                yield batch if window.is_all else batch.take(pa.array(window.to_array(len(records))))

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
    text = options.get("file.compression.zstd-level", "1")
    try:
        return _CODECS[name], int(text)
    except ValueError:
        raise OptionError(f"file.compression.zstd-level = {text!r:.40} is not a whole number") from None
