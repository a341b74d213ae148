"""Writing files of the format ``row``; `reader` has their form. (Java: classes RowFormatWriter and RowBlockWriter.)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, binary_parts
from paimon_pyds.base.options import Kind, parse_value
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import OptionError
from paimon_pyds.format.avro.compression import compressor, zstd_level
from paimon_pyds.format.blob.codec import encode_lengths
from paimon_pyds.format.parquet.writer import RowChecks
from paimon_pyds.format.row.encode import check_types, encode_rows
from paimon_pyds.format.row.reader import FOOTER, MAGIC, VERSION
from paimon_pyds.storage import FileIO, OutputFile

_BLOCK_BYTES = 64 << 10
"""Java's size of a block that is not compressed."""
_CHUNK_BYTES = 8 << 20
"""Bytes of Arrow data that are encoded at a time, about."""
_INT = 4
"""Bytes of the number that a block has for each row."""


class RowWriter:
    """One file being written. Memory: a block, and the rows that are encoded at a time."""

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        self._fields, self._schema, self._path = fields, arrow_schema(fields), path
        self._checks = RowChecks(self._schema, path)
        self._block = _block_bytes(options)
        self._compress = compressor("zstandard", zstd_level(options))
        self._pending: list[bytes] = []
        self._ends: list[Int64s] = []
        self._size = self._rows = self._written = 0
        self._blocks: list[tuple[int, int, int]] = []
        self._output: OutputFile = io.open_output(path)

    @staticmethod
    def check(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        """See `FileFormat.check_writer`."""
        check_types(fields)
        _block_bytes(options)
        zstd_level(options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._checks.check(batch)
        step = max(1, batch.num_rows * _CHUNK_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, step):
            self._append(encode_rows(batch.slice(start, step).columns, self._fields))

    def _append(self, rows: pa.Array) -> None:
        """Gather rows to blocks: a block ends with the row that brings it to its size."""
        data, starts, ends = binary_parts(rows)
        costs = np.cumsum(ends - starts + _INT)  # of all rows up to each
        place = 0
        while place < len(rows):
            before = int(costs[place - 1]) if place else 0
            waiting = self._size + _INT * (self._rows + 1)
            full = int(np.searchsorted(costs, before + self._block - waiting, "left"))
            stop = min(max(full, place) + 1, len(rows))
            first, last = int(starts[place]), int(ends[stop - 1])
            self._pending.append(data[first:last].tobytes())
            self._ends.append(ends[place:stop] - first + self._size)
            self._size += last - first
            self._rows += stop - place
            if full < len(rows):
                self._flush()
            place = stop

    def _flush(self) -> None:
        """Write the rows that wait as a block."""
        if not self._rows:
            return
        offsets = np.concatenate([[0], *self._ends])[:-1].astype("<i4")
        count = self._rows.to_bytes(_INT, "little")
        body = b"".join([*self._pending, offsets.tobytes(), count])
        packed = self._compress(body)
        self._output.sink.write(packed)
        self._blocks.append((len(packed), len(body), self._written))
        self._written += self._rows
        self._pending, self._ends = [], []
        self._size = self._rows = 0

    @property
    def bytes_encoded(self) -> int:
        return self._output.tell()

    @property
    def bytes_written(self) -> int:
        return self._output.tell() + self._size // 3  # what waits for its block is estimated as a third of its size

    def close(self) -> int:
        try:
            self._flush()
            numbers = np.array(self._blocks, np.int64).reshape(-1, 3)
            parts = [encode_lengths(column) for column in numbers.T]
            index = b"".join(varint(len(part)) + part for part in parts)
            end = self._output.tell()
            footer = FOOTER.pack(self._written, len(numbers), end, len(index), VERSION, bytes(3), MAGIC)
            self._output.sink.write(index + footer)
        except BaseException:
            self._output.abort()
            raise
        return self._output.close()

    def abort(self) -> None:
        self._output.abort()


def _block_bytes(options: Mapping[str, str]) -> int:
    text = options.get("file.block-size")
    size = _BLOCK_BYTES if text is None else int(parse_value("file.block-size", Kind.MEMORY, text))
    if not 0 < size < 2**31:
        raise OptionError(f"file.block-size={text} must be greater than 0 and less than 2 gb")
    return size
