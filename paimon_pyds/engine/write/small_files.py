"""The few rows of many buckets, each bucket's in a file of its own: measured together, encoded by one call each.

A file of few rows costs what is made for it, not its rows. So all that files share is made once, statistics are found
for all of them at once, and no file waits for another thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import Int64s, one_batch
from paimon_pyds.base.progress import count
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import RowMetadata, data_file, index_path, tell_of_left_out
from paimon_pyds.format.statistics import StatsCollector
from paimon_pyds.index.build import FileIndexBuilder
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.storage import discard, requests_at_once
from paimon_pyds.storage.concurrent import concurrent_map, threads_for

SMALL_ROWS = 1_024
SMALL_BYTES = 256 << 10
"""Rows of a bucket, and their bytes, up to which its file is small: what is made for a file then costs more."""
_LOCAL_THREADS = 2
_FILES_PER_CALL = 32
"""Files that a thread writes before it takes more: handing it one takes about as long as writing it."""


class SmallRows(NamedTuple):
    """The rows of several files, with all columns of these, file by file.

    ``starts``: the row where each file begins; none is empty. ``buckets``: the number of the bucket that each is for.
    """

    rows: pa.RecordBatch
    starts: Int64s
    buckets: Sequence[int]

    @property
    def ends(self) -> Int64s:
        """The row after each file's last one."""
        return np.append(self.starts[1:], self.rows.num_rows)


class RowsOfBuckets(Protocol):
    """Makes rows of files from those of buckets."""

    def files(self, buckets: Sequence[BucketFiles], rows: Sequence[pa.RecordBatch]) -> SmallRows:
        """The rows of files, one for each bucket at most. ``rows``: of each bucket; none is empty."""

    def metadata(self, files: SmallRows) -> Sequence[RowMetadata]:
        """What the manifest says of the rows of each file."""


class AppendedRows:
    """Rows as they come, with sequence numbers that count them. (`AppendBucketWriter` does the same for one bucket.)"""

    def files(self, buckets: Sequence[BucketFiles], rows: Sequence[pa.RecordBatch]) -> SmallRows:
        starts = np.cumsum([0, *(batch.num_rows for batch in rows[:-1])])
        return SmallRows(one_batch(pa.Table.from_batches(rows)), starts, range(len(buckets)))

    def metadata(self, files: SmallRows) -> Sequence[RowMetadata]:
        counts = (files.ends - files.starts).tolist()
        return [RowMetadata(min_sequence_number=0, max_sequence_number=rows - 1) for rows in counts]


class SmallFilesWriter:
    """Writes one file for each of many buckets.

    Args:
        context: the table as it is written to, with the options of the files' level.
        rows_of_buckets: makes rows of files.
        most_rows: of a bucket for its file to be small.
    """

    def __init__(self, context: WriteContext, rows_of_buckets: RowsOfBuckets, most_rows: int = SMALL_ROWS) -> None:
        self._most_rows = min(most_rows, context.target_file_rows)
        self._most_bytes = min(SMALL_BYTES, context.target_file_size // 2)
        layout = context.layout
        name = str(context.options.get("file.format"))
        self._context = context
        self._rows_of_buckets = rows_of_buckets
        self._format = formats.by_name(name)
        self._encoder = self._format.small_encoder(layout.physical, context.raw_options)
        self._values = range(len(layout.leading), len(layout.physical))
        self._stats = StatsCollector(layout.values, context.stats_modes, name)
        self._dense = bool(context.options.get("metadata.stats-dense-store"))
        self._paths: list[str] = []

    def takes(self, rows: int, size: int) -> bool:
        """Whether a bucket's file of this many rows and bytes is small."""
        return rows <= self._most_rows and size <= self._most_bytes

    def write(self, buckets: Sequence[BucketFiles], rows: Sequence[pa.RecordBatch]) -> list[BucketFiles]:
        """Write the rows of buckets; what was written to each bucket that got a file.

        Raises:
            SchemaError: the rows don't fit the files.
            StorageError: the storage is full or refuses.
        """
        files = self._rows_of_buckets.files(buckets, rows)
        if not len(files.buckets):
            return []
        values = files.rows.select(self._values)
        stats, columns = self._stats.of_parts(values, files.starts, dense=self._dense)
        paths = self._new_paths([buckets[number].directory for number in files.buckets])
        counts = (files.ends - files.starts).tolist()
        parts = list(zip(paths, files.starts.tolist(), counts, strict=True))

        # A store takes long for each file: there each is a call of its own, and more are written at a time.
        step = 1 if requests_at_once(self._context.io) else _FILES_PER_CALL

        def write_some(start: int) -> list[tuple[int, bytes | None]]:
            some = parts[start : start + step]
            return [self._write_file(path, files.rows.slice(first, rows)) for path, first, rows in some]

        threads = threads_for(self._context.io, _LOCAL_THREADS)
        calls = range(0, len(parts), step)
        written = [file for some in concurrent_map(write_some, calls, threads) for file in some]
        count(written=sum(size for size, _ in written))
        metadata = self._rows_of_buckets.metadata(files)
        found = []
        for i, number in enumerate(files.buckets):
            size, container = written[i]
            file = data_file(self._context, paths[i], (size, counts[i]), container, (stats[i], columns), metadata[i])
            found.append(replace(buckets[number], files=(file,)))
        return found

    def abort(self) -> None:
        """Remove every file written so far."""
        discard(self._context.io, (each for path in self._paths for each in (path, index_path(path))))
        self._paths.clear()

    def _new_paths(self, directories: Sequence[str]) -> list[str]:
        """Paths of new files in these directories, which `abort` removes."""
        prefix = f"{self._context.options.get('data-file.prefix')}{uuid.uuid4()}"
        suffix = self._context.file_suffix
        paths = [f"{directory}/{prefix}-{i}.{suffix}" for i, directory in enumerate(directories)]
        self._paths += paths
        return paths

    def _write_file(self, path: str, rows: pa.RecordBatch) -> tuple[int, bytes | None]:
        """Write a file; its size, and its indexes."""
        context = self._context
        data = None if self._encoder is None else self._encoder.encode(rows, path)
        if data is None:
            size = self._write_by_format(path, rows)
        else:
            context.io.write_bytes(path, data)
            size = len(data)
        if not context.index_specs:
            return size, None
        index = FileIndexBuilder(context.index_specs, context.layout.values)
        index.update(rows.select(self._values))
        container = index.finish(checksums=True)
        tell_of_left_out(context.root, index.left_out)
        return size, container

    def _write_by_format(self, path: str, rows: pa.RecordBatch) -> int:
        context = self._context
        writer = self._format.open_writer(context.io, path, context.layout.physical, context.raw_options)
        try:
            writer.write(rows)
            return writer.close()
        except BaseException:
            writer.abort()
            raise
