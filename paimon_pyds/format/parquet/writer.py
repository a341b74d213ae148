"""Writing Parquet data files: batches gathered into row groups, row groups encoded on threads, one file out.

pyarrow's writer encodes on one thread. So each row group is written as a file of its own, in memory, and `stitching`
makes one file of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import RowWidths, fixed_values, pc
from paimon_pyds.base.types import AtomicType, DataField, MapType
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.nested import has_strict_member, with_values
from paimon_pyds.errors import SchemaError
from paimon_pyds.format import has_kind
from paimon_pyds.format.parquet.conversion import timestamp_bytes
from paimon_pyds.format.parquet.encodings import sample
from paimon_pyds.format.parquet.settings import WriterOptions, file_schema, stored_schema, writer_settings
from paimon_pyds.format.parquet.stitching import Stitcher
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.format.parquet.shared_map_writer import SharedMapPlan
    from paimon_pyds.format.parquet.shredding import Shredding, ShreddingPlan

GROUP_ROWS = 1_000_000
"""A row group's most rows: what is encoded by one thread, and what late materialisation works on."""
_MAX_THREADS = 4
_FIRST_RATIO = 0.5
"""Encoded bytes per byte of Arrow data, until a row group is encoded."""
FOOTER_BYTES = 1 << 20
ARROW_SCHEMA = b"ARROW:schema"
"""Where the footer has the Arrow schema of a file, with what it says of its columns."""
_MANY_PARTS = 256
"""Parts of a row group from which they are joined: encoding very many small parts takes longer."""
_SMALL_PART_ROWS = 1_024
"""Rows of a part, on average, below which parts are joined."""
MOST_NEW_KEY_BYTES = 8 << 20
"""Bytes of keys of MAPs that a row group gathers, at most, where the footer has each key once."""
_FLOATS = {pa.float32(): "<f4", pa.float64(): "<f8"}
_FULL = 1 << 62
"""A size above all targets, but for those of files that take all rows whatever they are."""


class ParquetWriter:
    """`FormatWriter` of Parquet: gathers a row group, which threads encode while the next is gathered.

    Memory: a row group being gathered, a million rows or ``file.block-size`` bytes of Arrow data, whichever is less;
    and one such per thread being encoded. Smaller ones may wait besides, so that no thread is idle while an encoded one
    is written. Threads are as many as `pyarrow.cpu_count` says, four at most; with one, row groups are encoded as they
    are written.
    """

    def __init__(self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        self._path = path
        self._options = WriterOptions.parse(options)
        self._schema = self._shredded_schema = file_schema(fields)
        self._checks, self._widths = RowChecks(self._schema, path), RowWidths(self._schema.types)
        self._stored_schema = stored_schema(self._schema)
        self._int96 = self._stored_schema.types != self._schema.types
        self._shredding = shredding_of(fields, options)
        self._shredding_plan: ShreddingPlan | None = None
        self._fields = fields
        self._shared_columns = shared_columns_of(fields, options)
        self._shared_maps: SharedMapPlan | None = None
        self._key_bytes = 0
        self._settings: dict[str, Any] | None = None
        self._gathered = _Gathered(self._schema)
        self._threads = max(1, min(_MAX_THREADS, pa.cpu_count()))
        self._pool: ThreadPoolExecutor | None = None
        self._encoding: deque[tuple[Future[_Encoded], int]] = deque()
        self._spare: list[pa.Buffer] = []
        self._encoded_raw = 0
        self._out = io.open_output(path)
        self._stitcher = Stitcher(self._out.sink, int96=self._int96)

    @staticmethod
    def check(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        """See `FileFormat.check_writer`."""
        WriterOptions.parse(options)
        file_schema([f for f in fields if not isinstance(f.type, AtomicType)])  # the others are never refused
        shredding_of(fields, options)
        shared_columns_of(fields, options)

    def write(self, batch: pa.RecordBatch) -> None:
        batch = self._checks.checked(batch)
        if not batch.num_rows:
            return
        row_bytes = max(1.0, self._widths.bytes_of(batch) / batch.num_rows)
        start = 0
        while start < batch.num_rows:
            space = (self._options.group_bytes - self._gathered.bytes) / row_bytes
            part = batch.slice(start, max(1, min(GROUP_ROWS - self._gathered.rows, int(space))))
            start += part.num_rows
            self._gathered.add(part, int(part.num_rows * row_bytes))
            full = self._gathered.rows >= GROUP_ROWS or self._gathered.bytes + row_bytes > self._options.group_bytes
            if full or self._has_many_keys(part):
                self._flush(last=False)

    def _has_many_keys(self, part: pa.RecordBatch) -> bool:
        """Whether the gathered rows, of which ``part`` are the last, may have many keys that are new to the file."""
        if self._shared_maps is None:
            return False
        self._key_bytes += self._shared_maps.new_key_bytes(part)
        return self._key_bytes > MOST_NEW_KEY_BYTES

    @property
    def bytes_encoded(self) -> int:
        return self._stitcher.position

    @property
    def bytes_written(self) -> int:
        while self._encoding and self._encoding[0][0].done():
            self._take_oldest()
        if self._shared_maps is not None and self._shared_maps.is_full:
            return _FULL
        waiting = self._gathered.bytes + sum(raw for _, raw in self._encoding)
        ratio = self._stitcher.position / self._encoded_raw if self._encoded_raw else _FIRST_RATIO
        return self._stitcher.position + int(waiting * ratio)

    def close(self) -> int:
        try:
            if self._gathered.rows or self._settings is None:
                self._flush(last=True)
            while self._encoding:
                self._take_oldest()
            if self._shared_maps is not None:
                text = self._shared_maps.arrow_schema(self._shredded_schema)
                self._stitcher.metadata[ARROW_SCHEMA] = text
            self._stitcher.finish()
            self._stop()
            self._spare.clear()
        except BaseException:
            self.abort()
            raise
        return self._out.close()

    def abort(self) -> None:
        self._stop()
        self._encoding.clear()
        self._spare.clear()
        self._gathered = _Gathered(self._schema)
        self._out.abort()

    def _flush(self, *, last: bool) -> None:
        table, raw = self._gathered.table(), self._gathered.bytes
        self._gathered, self._key_bytes = _Gathered(self._schema), 0
        if self._settings is None:
            self._settings = self._decide(table)
        if self._shared_maps is not None:
            table = self._shared_maps.apply(table)
        if self._threads == 1 or (last and not self._encoding):
            self._append(self._encode(table, raw), raw)
            return
        while self._busy(raw):
            self._take_oldest()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, "parquet-encode")
        self._encoding.append((self._pool.submit(self._encode, table, raw), raw))

    def _decide(self, first_rows: pa.Table) -> dict[str, Any]:
        """What all row groups of the file share, by its first rows."""
        fields = self._fields
        if self._shared_columns:
            from paimon_pyds.format.parquet.shared_map_writer import SharedMapPlan  # few tables have such columns

            maps = SharedMapPlan(fields, self._shared_columns, first_rows)
            if not maps.is_empty:
                self._shared_maps = maps
                fields, first_rows = maps.stored, maps.apply(sample(first_rows))
                self._set_stored(fields)
        if self._shredding is not None:
            plan = self._shredding_plan = replace(self._shredding, fields=fields).plan(first_rows)
            self._set_stored(plan.stored)
            first_rows = plan.apply(sample(first_rows), self._shredded_schema)
        return writer_settings(self._options, first_rows)

    def _set_stored(self, fields: Sequence[DataField]) -> None:
        """Say that the file has these columns."""
        self._shredded_schema = file_schema(fields)
        self._stored_schema = stored_schema(self._shredded_schema)

    def _busy(self, raw: int) -> bool:
        """Whether a row group of ``raw`` bytes has to wait for those that are being encoded."""
        if len(self._encoding) < self._threads:
            return False
        waiting = raw + sum(size for _, size in self._encoding)
        return len(self._encoding) > self._threads or bool(waiting > self._threads * self._options.group_bytes)

    def _encode(self, table: pa.Table, raw: int) -> _Encoded:
        """A Parquet file in memory that holds these rows, ``raw`` bytes, as its one row group."""
        with_nan = columns_with_nan(table)
        if self._shredding_plan is not None:
            table = self._shredding_plan.apply(table, self._shredded_schema)
        elif self._shared_maps is not None:
            table = table.cast(self._shredded_schema)
        if self._int96:
            columns = [
                pa.chunked_array([timestamp_bytes(chunk, f.type) for chunk in column.chunks], f.type)
                for column, f in zip(table.columns, self._stored_schema, strict=True)
            ]
            table = pa.Table.from_arrays(columns, schema=self._stored_schema)
        memory = self._memory(raw + raw // 8 + FOOTER_BYTES)
        try:
            try:
                sink = pa.FixedSizeBufferWriter(memory)
                self._encode_to(sink, table)
                return _Encoded(memory.slice(0, sink.tell()), with_nan, memory)
            except OSError:  # it is full: these rows take more as Parquet than as Arrow
                stream = pa.BufferOutputStream()
                self._encode_to(stream, table)
                return _Encoded(stream.getvalue(), with_nan)
        except pa.ArrowException as error:
            raise SchemaError(f"rows can't be written as Parquet: {error}", path=self._path) from error

    def _encode_to(self, sink: pa.NativeFile, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(sink, table.schema, **(self._settings or {})) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _memory(self, size: int) -> pa.Buffer:
        """A buffer of ``size`` bytes to encode into: that of a written row group, as fresh memory costs time."""
        try:
            spare = self._spare.pop()
        except IndexError:
            spare = None
        return spare if spare is not None and spare.size >= size else pa.allocate_buffer(size)

    def _take_oldest(self) -> None:
        future, raw = self._encoding.popleft()
        self._append(future.result(), raw)

    def _append(self, encoded: _Encoded, raw: int) -> None:
        self._stitcher.add(encoded.file, encoded.with_nan)
        self._encoded_raw += max(1, raw)
        if encoded.memory is not None and self._encoding:
            self._spare.append(encoded.memory)

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def shredding_of(fields: Sequence[DataField], options: Mapping[str, str]) -> Shredding | None:
    """See `Shredding.parse`."""
    if not any(has_kind(field.type, Kind.VARIANT) for field in fields):
        return None
    from paimon_pyds.format.parquet.shredding import Shredding  # few tables have such columns

    return Shredding.parse(fields, options)


def shared_columns_of(fields: Sequence[DataField], options: Mapping[str, str]) -> dict[str, int]:
    """See `shared_map_writer.shared_columns`."""
    if not any(isinstance(field.type, MapType) for field in fields):
        return {}
    from paimon_pyds.format.parquet.shared_map_writer import shared_columns  # few tables have such columns

    return shared_columns(fields, options)


class RowChecks:
    """What the rows of a file have to be like: of its types, without NULLs in NOT NULL columns."""

    def __init__(self, schema: pa.Schema, path: str) -> None:
        self._types = schema.types
        self._path = path
        self._required = [i for i, field in enumerate(schema) if not field.nullable]
        self._has_strict_members = any(map(has_strict_member, self._types))
        self._fitting: pa.Schema | None = None  # of the last rows: those of a whole table share it

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise SchemaError for rows of other types than the file, or with NULLs in a NOT NULL column."""
        if self._fitting is None or not batch.schema.equals(self._fitting):
            if batch.schema.types != self._types:
                raise SchemaError(f"a batch of {batch.schema.types}, the file has {self._types}", path=self._path)
            self._fitting = batch.schema
        for i in self._required:
            if nulls := batch.column(i).null_count:
                name = batch.schema.names[i]
                raise SchemaError(f"column {name!r} is NOT NULL, {nulls} rows have NULL", path=self._path)

    def checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as it is written. Raises SchemaError: as `check`."""
        self.check(batch)
        if not self._has_strict_members:
            return batch
        return pa.RecordBatch.from_arrays(list(map(with_values, batch.columns)), names=batch.schema.names)


def one_table(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: str, rows: int) -> pa.Table:
    """All of these rows, as `RowChecks` has them. Raises SchemaError; ValueError: there are not as many."""
    parts, checks = list(batches), RowChecks(schema, path)
    for batch in parts:
        checks.check(batch)
    table = pa.Table.from_batches(parts, schema)
    if table.num_rows != rows:
        raise ValueError(f"{table.num_rows} rows where {rows} are replaced")
    return table


def columns_with_nan(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """The floating-point columns that hold a NaN."""
    names = rows.schema.names
    floating = [i for i, type_ in enumerate(rows.schema.types) if pa.types.is_floating(type_)]
    return [names[i] for i in floating if _has_nan(rows.column(i))]


def _has_nan(values: pa.Array | pa.ChunkedArray) -> bool:
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    dtype = _FLOATS.get(values.type)
    if values.null_count or dtype is None:
        return bool(pc.any(pc.is_nan(values)).as_py())
    # The least value is NaN where there is one.
    return any(len(chunk) and bool(np.isnan(fixed_values(chunk, dtype).min())) for chunk in chunks)


class _Encoded(NamedTuple):
    """A row group as a file, and the floating-point columns that hold a NaN.

    Parquet's bounds leave NaN out, and Java Paimon, where NaN is greatest and equals itself, skips its rows by them.
    """

    file: pa.Buffer
    with_nan: list[str]
    memory: pa.Buffer | None = None
    """What ``file`` is a part of, to be used again."""


class _Gathered:
    """Rows waiting for their row group to be full. Runs of tiny batches are joined: each row is copied once at most."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._joined: list[pa.RecordBatch] = []
        self._fresh: list[pa.RecordBatch] = []
        self._fresh_rows = 0
        self.rows = 0
        self.bytes = 0

    def add(self, part: pa.RecordBatch, size: int) -> None:
        self._fresh.append(part)
        self._fresh_rows += part.num_rows
        self.rows += part.num_rows
        self.bytes += size
        if len(self._fresh) >= _MANY_PARTS:
            if self._fresh_rows < _MANY_PARTS * _SMALL_PART_ROWS:
                self._fresh = pa.Table.from_batches(self._fresh).combine_chunks().to_batches()
            self._joined += self._fresh
            self._fresh, self._fresh_rows = [], 0

    def table(self) -> pa.Table:
        parts = [*self._joined, *self._fresh]
        if parts and all(part.schema.equals(parts[0].schema) for part in parts):
            columns = pa.Table.from_batches(parts).columns
        else:
            columns = [
                pa.chunked_array([part.column(i) for part in parts], field.type) for i, field in enumerate(self._schema)
            ]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        return table.combine_chunks() if len(parts) > _MANY_PARTS * 2 else table
