"""Files of one bucket: encoded, indexed and measured at once, and rolled at the target size.

The encoder runs on one thread, the index builder and the statistics on another: pyarrow, numpy and the roaring library
release the interpreter's lock, so that two cores are busy. Each keeps the order of its batches.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import RowWidths
from paimon_pyds.base.progress import count
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.secrets import human_bytes, redact
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.format.statistics import KEY_STATS_EMPTY, StatsCollector, encode_stats
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec, size_advice
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.engine.write.referenced_packs import ReferencedPacks
    from paimon_pyds.format.protocols import FormatWriter

_QUEUE_DEPTH = 4
"""Batches that may wait for a thread: bounds memory when one is slower than the other."""
_SIZE_CHECKS = 8
"""How often the size of a file is looked at while it grows to its target, by uncompressed bytes."""
MOST_UNCHECKED = 32 << 20
"""Uncompressed bytes between two such looks, at most: a file may be full for other reasons."""
_MEASURED_ROWS = 1 << 16
"""Rows of a batch whose indexes and statistics are made together, about: each visit of a column takes microseconds."""
_GROUP_BYTES = 128 << 20
"""What a format gathers before it encodes, at most."""
_SMALL_INDEX_BYTES = 256 << 10
"""Nothing is said of indexes that take no more."""
PACKS_SUFFIX = ".blobref"
"""Added to the name of a data file it is that of the file that lists the packs of BLOBs that it refers to."""
_LARGE_INDEXES: set[str] = set()
"""Tables of which it was said that their indexes are large."""
_LEFT_OUT: set[str] = set()
"""Warnings, logged before, about indexes that files don't get."""
_MOST_TABLES = 1_000
"""Warnings that this process remembers, so as to log each once."""
_log = logging.getLogger("paimon_pyds.write")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMetadata:
    """What a bucket writer gives to the manifest's entry of a file, besides the statistics of its columns.

    Attributes:
        min_sequence_number, max_sequence_number: of its rows.
        min_key, max_key: the least and greatest key (arity + BinaryRow); empty rows without keys.
        key_stats: statistics of the key columns.
        level: the level of the sorted run that the file belongs to.
        delete_row_count: rows that retract or delete others.
    """

    min_sequence_number: int
    max_sequence_number: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = KEY_STATS_EMPTY
    level: int = 0
    delete_row_count: int = 0


class RowMetadataCollector(Protocol):
    """Makes the `RowMetadata` of one file."""

    def update(self, batch: pa.RecordBatch) -> None:
        """Take rows, in the order of the file, with all its columns (`RowLayout.physical`)."""

    def finish(self) -> RowMetadata:
        """The metadata of all rows taken."""


@dataclass(slots=True)
class _TaskQueue:
    """Work for one file that has to keep its order: each step waits for the one before."""

    pool: ThreadPoolExecutor
    pending: list[Future[None]] = field(default_factory=list)

    def run(self, work: object, *args: object) -> None:
        while len(self.pending) >= _QUEUE_DEPTH:
            self.pending.pop(0).result()
        self.pending.append(self.pool.submit(work, *args))  # type: ignore[arg-type]

    def drain(self) -> None:
        while self.pending:
            self.pending.pop(0).result()


class WriterThreads:
    """The two threads of a writer: one encodes files, the other builds indexes and statistics."""

    def __init__(self) -> None:
        self.encode = ThreadPoolExecutor(1, thread_name_prefix="paimon-encode")
        self.measure = ThreadPoolExecutor(1, thread_name_prefix="paimon-measure")

    def shutdown(self) -> None:
        """End them when they are done."""
        self.encode.shutdown(wait=True)
        self.measure.shutdown(wait=True)


class RollingWriter:
    """Writes batches into data files of one directory. ``collector``: makes a collector for each file, when the file
    before is finished."""

    def __init__(
        self,
        context: WriteContext,
        directory: str,
        threads: WriterThreads,
        collector: Callable[[], RowMetadataCollector],
    ) -> None:
        self._context = context
        self._directory = directory
        self._threads = threads
        self._collector = collector
        self._format = formats.by_name(context.options.get("file.format"))
        self._target_size: int = context.target_file_size
        self._target_rows = context.target_file_rows
        self._widths: tuple[pa.Schema, RowWidths] | None = None
        self._name = f"{context.options.get('data-file.prefix')}{uuid.uuid4()}"
        self._count = 0
        self._open: _OpenFile | None = None
        self.files: list[DataFile] = []
        """Those that are finished."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, starting new files as the target size or row count is reached."""
        start, size = 0, self._bytes_of(batch)
        # Rows between two checks of the file's size: few enough that a file exceeds the target by a small part only.
        step = max(1, int(batch.num_rows * _unchecked(self._target_size) / max(1, size)))
        measured = 0
        while start < batch.num_rows:
            if self._open is None:
                self._open = self._start()
            free_rows = min(self._target_rows - self._open.rows, step)
            part = batch.slice(start, min(free_rows, batch.num_rows - start))
            self._open.write(part, size * part.num_rows // batch.num_rows)
            start += part.num_rows
            full = self._open.rows >= self._target_rows or self._open.reached(self._target_size)
            if full or start == batch.num_rows or start - measured >= _MEASURED_ROWS:
                self._open.measure(batch.slice(measured, start - measured))
                measured = start
            if full:
                self.roll()

    def _bytes_of(self, batch: pa.RecordBatch) -> int:
        if self._widths is None or not batch.schema.equals(self._widths[0]):
            self._widths = (batch.schema, RowWidths(batch.schema.types))
        return self._widths[1].bytes_of(batch)

    @property
    def held_bytes(self) -> int:
        """Uncompressed bytes that the open file may hold in memory: a row group at most."""
        return 0 if self._open is None else min(self._open.bytes, _GROUP_BYTES)

    def roll(self) -> None:
        """Finish the open file; the next rows start another."""
        if self._open is not None:
            opened, self._open = self._open, None
            self.files.append(opened.close())

    def close(self) -> tuple[DataFile, ...]:
        """Finish the last file; the files written."""
        self.roll()
        return tuple(self.files)

    def abort(self) -> None:
        """Remove every file written so far."""
        if self._open is not None:
            self._open.abort()
            self._open = None
        discard(
            self._context.io,
            (f"{self._directory}/{name}" for f in self.files for name in (f.file_name, *f.extra_files)),
        )
        self.files.clear()

    def _start(self) -> _OpenFile:
        name = f"{self._name}-{self._count}.{self._context.file_suffix}"
        self._count += 1
        path = f"{self._directory}/{name}"
        context = self._context
        try:
            writer = self._format.open_writer(context.io, path, context.layout.physical, context.raw_options)
        except BaseException:
            discard(context.io, [path])  # its first bytes may be there
            raise
        return _OpenFile(context, path, writer, self._threads, self._collector())


def _unchecked(target: int) -> float:
    """Uncompressed bytes between two looks at the size of a file that is to have ``target`` bytes."""
    return min(target / _SIZE_CHECKS, MOST_UNCHECKED)


class _OpenFile:
    def __init__(
        self,
        context: WriteContext,
        path: str,
        writer: FormatWriter,
        threads: WriterThreads,
        collector: RowMetadataCollector,
    ) -> None:
        layout = context.layout
        self._context = context
        self._path = path
        self._writer = writer
        self._collector = collector
        self._leading = len(layout.leading)
        self._stats = StatsCollector(layout.values, context.stats_modes, str(context.options.get("file.format")))
        self._index = FileIndexBuilder(context.index_specs, layout.values) if context.index_specs else None
        self._packs: ReferencedPacks | None = None
        if context.managed_blobs:
            from paimon_pyds.engine.write.referenced_packs import ReferencedPacks  # few tables have such

            self._packs = ReferencedPacks(context)
        self._encode = _TaskQueue(threads.encode)
        self._measure = _TaskQueue(threads.measure)
        self._unchecked = 0
        self._counted = 0
        self.rows = 0
        self.bytes = 0

    def reached(self, target: int) -> bool:
        """Whether the file is as large as ``target`` bytes. Waits for the encoder now and then, to know."""
        if self._unchecked < _unchecked(target):
            return False
        self._encode.drain()
        self._unchecked = 0
        self._count(self._writer.bytes_encoded)
        return self._writer.bytes_written >= target

    def _count(self, size: int) -> None:
        count(written=max(0, size - self._counted))
        self._counted = max(size, self._counted)

    def write(self, batch: pa.RecordBatch, size: int) -> None:
        """Append rows of about ``size`` bytes; `measure` has to be given them, too."""
        self._unchecked += size
        self.bytes += size
        self._encode.run(self._writer.write, batch)
        self.rows += batch.num_rows

    def measure(self, batch: pa.RecordBatch) -> None:
        """Take rows for indexes and statistics, in the order of `write`."""
        self._measure.run(self._measure_batch, batch)

    def _measure_batch(self, batch: pa.RecordBatch) -> None:
        self._collector.update(batch)
        values = batch.select(range(self._leading, batch.num_columns)) if self._leading else batch
        self._stats.update(values)
        if self._index is not None:
            self._index.update(values)
        if self._packs is not None:
            self._packs.update(batch)

    def close(self) -> DataFile:
        closing = self._encode.pool.submit(self._close_writer)
        try:
            self._measure.drain()
            container = None
            if self._index is not None:
                container = self._measure.pool.submit(self._index.finish, checksums=True).result()
                tell_of_left_out(self._context.root, self._index.left_out)
            size = closing.result()
            self._count(size)
            return self._meta(size, container)
        except BaseException:
            wait([closing])  # pyarrow ends the process where two threads close one ORC file
            self.abort()
            raise

    def _close_writer(self) -> int:
        self._encode.drain()
        return self._writer.close()

    def _meta(self, size: int, container: bytes | None) -> DataFile:
        stats = encode_stats(self._stats.finish(), dense=self._context.options.get("metadata.stats-dense-store"))
        found = data_file(self._context, self._path, (size, self.rows), container, stats, self._collector.finish())
        if self._packs is None:
            return found
        name = f"{found.file_name}{PACKS_SUFFIX}"
        self._context.io.write_bytes(f"{self._path}{PACKS_SUFFIX}", self._packs.encoded())
        return replace(found, extra_files=(*found.extra_files, name))

    def abort(self) -> None:
        for queue in (self._encode, self._measure):
            for future in queue.pending:
                future.cancel()
            for future in queue.pending:
                if not future.cancelled():
                    future.exception()  # wait; the error that led here is the one to report
            queue.pending.clear()
        self._writer.abort()
        packs = [] if self._packs is None else [f"{self._path}{PACKS_SUFFIX}"]
        discard(self._context.io, [self._path, index_path(self._path), *packs])


def index_path(path: str) -> str:
    """Where a data file's indexes are that are too large for its manifest."""
    return f"{path}.index"


def data_file(
    context: WriteContext,
    path: str,
    sizes: tuple[int, int],
    container: bytes | None,
    stats: tuple[SimpleStats, tuple[str, ...] | None],
    rows: RowMetadata,
) -> DataFile:
    """The manifest's entry of a file that is written, with its indexes: in the entry, or in a file that this writes.

    Args:
        context: the table as it is written to.
        path: of the data file.
        sizes: bytes and rows of the data file.
        container: its indexes; None without any.
        stats: of its columns, as `encode_stats` gives them.
        rows: what else its rows are.

    Raises StorageError: the indexes can't be written.
    """
    size, row_count = sizes
    embedded: bytes | None = None
    extra: tuple[str, ...] = ()
    if container is not None:
        tell_of_size(context.root, context.index_specs, row_count, size, len(container))
        if len(container) > context.options.get("file-index.in-manifest-threshold"):
            context.io.write_bytes(index_path(path), container)
            extra = (index_path(path).rpartition("/")[2],)
        else:
            embedded = container
    return DataFile(
        file_name=path.rpartition("/")[2],
        file_size=size,
        row_count=row_count,
        min_key=rows.min_key,
        max_key=rows.max_key,
        key_stats=rows.key_stats,
        value_stats=stats[0],
        min_sequence_number=rows.min_sequence_number,
        max_sequence_number=rows.max_sequence_number,
        schema_id=context.schema.id,
        level=rows.level,
        extra_files=extra,
        creation_time=clock_now_ms(),
        delete_row_count=rows.delete_row_count,
        embedded_index=embedded,
        file_source=context.file_source,
        value_stats_cols=stats[1],
        write_cols=context.layout.written_columns,
    )


class FilesWriter(Protocol):
    """Writes rows into files: `RollingWriter`, or what brings them into another order first."""

    @property
    def files(self) -> Sequence[DataFile]: ...
    @property
    def held_bytes(self) -> int: ...
    def write(self, batch: pa.RecordBatch) -> None: ...
    def roll(self) -> None: ...
    def close(self) -> tuple[DataFile, ...]: ...
    def abort(self) -> None: ...


class DirectWriter:
    """A `BucketWriter` whose rows never wait: they go into files as they come, so that there is nothing to spill."""

    def __init__(self, bucket: BucketFiles, rolling: FilesWriter) -> None:
        self._bucket = bucket
        self._rolling = rolling

    @property
    def files(self) -> Sequence[DataFile]:
        """Those that are finished."""
        return self._rolling.files

    def write(self, batch: pa.RecordBatch) -> None:
        self._rolling.write(batch)

    @property
    def held_bytes(self) -> int:
        return self._rolling.held_bytes

    def spill(self) -> bool:
        return False

    @property
    def spilled_bytes(self) -> int:
        return 0

    def flush(self) -> None:
        self._rolling.roll()

    def close(self) -> BucketFiles:
        return replace(self._bucket, files=self._rolling.close())

    def abort(self) -> None:
        self._rolling.abort()


def tell_of_left_out(root: str, reasons: Iterable[str]) -> None:
    """Log why a data file has no index of a column: once for each table and reason."""
    for text in (f"{redact(root)}: a file gets no such index: {reason}" for reason in reasons):
        if text not in _LEFT_OUT and len(_LEFT_OUT) < _MOST_TABLES:
            _LEFT_OUT.add(text)
            _log.warning("%s", text)


def tell_of_size(root: str, specs: Sequence[IndexSpec], rows: int, size: int, index_size: int) -> None:
    """Log that the indexes of a data file take more than its data: once for each table."""
    if index_size <= max(size, _SMALL_INDEX_BYTES) or root in _LARGE_INDEXES or len(_LARGE_INDEXES) >= _MOST_TABLES:
        return
    _LARGE_INDEXES.add(root)
    sizes = f"the indexes of a file take {human_bytes(index_size)}, its data {human_bytes(size)}"
    _log.warning("%s: %s; %s", redact(root), sizes, size_advice(specs, rows))
