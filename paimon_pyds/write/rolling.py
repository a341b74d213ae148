"""Files of one bucket: encoded, indexed and measured at once, and rolled at the target size.

The encoder runs on one thread, the index builder and the statistics on another: pyarrow, numpy and the roaring library
release the interpreter's lock, so that two cores are busy. Each lane keeps the order of its batches.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds import formats
from paimon_pyds.formats.base import FormatWriter
from paimon_pyds.formats.statistics import KEY_STATS_EMPTY, StatsCollector, encode_stats
from paimon_pyds.index.build import FileIndexBuilder
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.row import EMPTY_ROW
from paimon_pyds.storage.cleanup import discard
from paimon_pyds.write.context import WriteContext

__all__ = ["RollingWriter"]

_LANE_DEPTH = 4
"""Batches that may wait in a lane: bounds memory when one lane is slower."""
_LOOKS = 8
"""How often the size of a file is looked at while it grows to its target, by uncompressed bytes."""
_GROUP_BYTES = 128 << 20
"""What a format gathers before it encodes, at most."""


@dataclass(slots=True)
class _Lane:
    """Work for one file that has to keep its order: each step waits for the one before."""

    pool: ThreadPoolExecutor
    pending: list[Future[None]]

    def run(self, work: object, *args: object) -> None:
        while len(self.pending) >= _LANE_DEPTH:
            self.pending.pop(0).result()
        self.pending.append(self.pool.submit(work, *args))  # type: ignore[arg-type]

    def drain(self) -> None:
        while self.pending:
            self.pending.pop(0).result()


class RollingWriter:
    """Writes batches into data files of one directory.

    Args:
        context: the table as it is written to.
        directory: the bucket's directory.
        pools: two single-threaded executors: one for encoding, one for indexes and statistics.
    """

    def __init__(self, context: WriteContext, directory: str, pools: Sequence[ThreadPoolExecutor]) -> None:
        self._context = context
        self._directory = directory
        self._pools = pools
        self._format = formats.by_name(context.options.get("file.format"))
        self._target_size: int = context.target_file_size
        self._target_rows = context.target_file_rows
        self._name = f"{context.options.get('data-file.prefix')}{uuid.uuid4()}"
        self._count = 0
        self._open: _OpenFile | None = None
        self._files: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, starting new files as the target size or row count is reached."""
        start = 0
        while start < batch.num_rows:
            if self._open is None:
                self._open = self._start()
            room = min(self._target_rows - self._open.rows, self._step(batch))
            part = batch.slice(start, min(room, batch.num_rows - start))
            self._open.write(part)
            start += part.num_rows
            if self._open.rows >= self._target_rows or self._open.reached(self._target_size):
                self._finish()

    def _step(self, batch: pa.RecordBatch) -> int:
        """Rows between two looks at the file's size: so few that a file overshoots the target by a small part."""
        return max(1, int(batch.num_rows * self._target_size / _LOOKS / max(1, batch.nbytes)))

    @property
    def gathered_bytes(self) -> int:
        """Uncompressed bytes that the open file may hold in memory: a row group at most."""
        return 0 if self._open is None else min(self._open.bytes, _GROUP_BYTES)

    def roll(self) -> None:
        """Finish the open file; the next rows start another."""
        if self._open is not None:
            self._finish()

    def close(self) -> tuple[DataFile, ...]:
        """Finish the last file; the files written."""
        self.roll()
        return tuple(self._files)

    def abort(self) -> None:
        """Remove every file written so far."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        discard(
            self._context.io,
            (f"{self._directory}/{name}" for f in self._files for name in (f.file_name, *f.extra_files)),
        )
        self._files.clear()

    def _start(self) -> _OpenFile:
        name = f"{self._name}-{self._count}.{self._context.file_suffix}"
        self._count += 1
        path = f"{self._directory}/{name}"
        context = self._context
        try:
            writer = self._format.open_writer(context.io, path, context.fields, context.raw_options)
        except BaseException:
            discard(context.io, [path])  # its first bytes may be there
            raise
        return _OpenFile(context, self._directory, name, writer, self._pools)

    def _finish(self) -> None:
        if self._open is None:
            return
        opened, self._open = self._open, None
        self._files.append(opened.close())


class _OpenFile:
    def __init__(
        self,
        context: WriteContext,
        directory: str,
        name: str,
        writer: FormatWriter,
        pools: Sequence[ThreadPoolExecutor],
    ) -> None:
        self._context = context
        self._directory = directory
        self._name = name
        self._writer = writer
        self._stats = StatsCollector(context.fields, context.stats_modes, str(context.options.get("file.format")))
        self._index = FileIndexBuilder(context.index_specs, context.fields) if context.index_specs else None
        self._encode = _Lane(pools[0], [])
        self._measure = _Lane(pools[1], [])
        self._unseen = 0
        self.rows = 0
        self.bytes = 0

    def reached(self, target: int) -> bool:
        """Whether the file is as large as ``target`` bytes. Waits for the encoder now and then, to know."""
        if self._unseen < target / _LOOKS:
            return False
        self._encode.drain()
        self._unseen = 0
        return self._writer.bytes_written >= target

    def write(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        self._unseen += size
        self.bytes += size
        self._encode.run(self._writer.write, batch)
        self._measure.run(self._measure_batch, batch)
        self.rows += batch.num_rows

    def _measure_batch(self, batch: pa.RecordBatch) -> None:
        self._stats.update(batch)
        if self._index is not None:
            self._index.update(batch)

    def close(self) -> DataFile:
        try:
            closing = self._encode.pool.submit(self._close_writer)
            self._measure.drain()
            container = self._measure.pool.submit(self._finish_index).result()
            size = closing.result()
            return self._meta(size, container)
        except BaseException:
            self.abort()
            raise

    def _close_writer(self) -> int:
        self._encode.drain()
        return self._writer.close()

    def _finish_index(self) -> bytes | None:
        return None if self._index is None else self._index.finish(checksums=True)

    def _meta(self, size: int, container: bytes | None) -> DataFile:
        context = self._context
        embedded: bytes | None = None
        extra: tuple[str, ...] = ()
        if container is not None:
            if len(container) > context.options.get("file-index.in-manifest-threshold"):
                extra = (f"{self._name}.index",)
                context.io.write_bytes(f"{self._directory}/{extra[0]}", container)
            else:
                embedded = container
        stats, columns = encode_stats(self._stats.finish(), dense=context.options.get("metadata.stats-dense-store"))
        return DataFile(
            file_name=self._name,
            file_size=size,
            row_count=self.rows,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=KEY_STATS_EMPTY,
            value_stats=stats,
            min_sequence_number=0,
            max_sequence_number=self.rows - 1,
            schema_id=context.schema.id,
            extra_files=extra,
            creation_time=int(time.time() * 1000),
            delete_row_count=0,
            embedded_index=embedded,
            file_source=context.file_source,
            value_stats_cols=columns,
        )

    def abort(self) -> None:
        for lane in (self._encode, self._measure):
            for future in lane.pending:
                future.cancel()
            for future in lane.pending:
                if not future.cancelled():
                    future.exception()  # wait; the error that led here is the one to report
            lane.pending.clear()
        self._writer.abort()
        discard(self._context.io, [f"{self._directory}/{self._name}", f"{self._directory}/{self._name}.index"])
