"""Writing rows whose BLOB and VECTOR columns are in files of their own, next to the file of the other columns.

Each file of the other columns has, for every BLOB column, one ``.blob`` file or several with consecutive rows, and the
same of all VECTOR columns together where ``vector.file.format`` is set. The commit gives all of them the row ids of
that file. (Source: files of Java Paimon 2.1 and pypaimon 2.1; Java's DedicatedFormatRollingFileWriter.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_pyds.engine.write.blob_files import ApartFile, BlobColumnWriter
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.rolling import DirectWriter, RollingWriter, RowMetadata, WriterThreads
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile


class VectorsWriter:
    """Writes the VECTOR columns of one bucket. ``context``: made by `WriteContext.of_vectors`."""

    def __init__(self, context: WriteContext, directory: str, threads: WriterThreads) -> None:
        self._names = [field.name for field in context.layout.table]
        self._rolling = RollingWriter(context, directory, threads, _Unnumbered)
        self._starts: list[int] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Append the vectors of some rows."""
        self._rolling.write(rows.select(self._names))

    def cut(self) -> None:
        """The rows that follow are in the next file of other columns."""
        self._rolling.roll()
        self._starts.append(len(self._rolling.files))

    @property
    def held_bytes(self) -> int:
        """As `BucketWriter.held_bytes`."""
        return self._rolling.held_bytes

    @property
    def files(self) -> list[ApartFile]:
        """Those that are finished."""
        ends = [*self._starts, len(self._rolling.files)]
        return [
            ApartFile(number, file)
            for number, (start, end) in enumerate(zip([0, *self._starts], ends, strict=True))
            for file in self._rolling.files[start:end]
        ]

    def abort(self) -> None:
        """Remove every file written so far."""
        self._rolling.abort()


class _Unnumbered:
    """Rows that the commit numbers."""

    def update(self, batch: pa.RecordBatch) -> None:
        pass

    def finish(self) -> RowMetadata:
        return RowMetadata(min_sequence_number=0, max_sequence_number=0)


class ApartBucketWriter:
    """A `BucketWriter` of rows of which some columns are in files of their own. ``rows``: writes the others."""

    def __init__(self, context: WriteContext, directory: str, threads: WriterThreads, rows: DirectWriter) -> None:
        apart = {field.name for field in context.apart_fields}
        self._names = [field.name for field in context.layout.values if field.name not in apart]
        self._rows = rows
        self._blobs = [(field.name, BlobColumnWriter(context, directory, field)) for field in context.blob_fields]
        self._vectors = VectorsWriter(context.of_vectors(), directory, threads) if context.vector_fields else None
        self._cut = 0
        self._in_file = 0

    @property
    def _writers(self) -> list[BlobColumnWriter | VectorsWriter]:
        return [*(writer for _, writer in self._blobs), *(() if self._vectors is None else (self._vectors,))]

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch.select(self._names))
        start = 0
        for rows in self._finished():
            stop = start + rows - self._in_file
            self._append(batch.slice(start, stop - start))
            self._cut_all()
            start = stop
        self._append(batch.slice(start))

    def _finished(self) -> Iterator[int]:
        """The rows of each file that the last rows have filled."""
        files = self._rows.files
        while self._cut < len(files):
            yield files[self._cut].row_count

    def _append(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            for name, column in self._blobs:
                column.write(rows.column(name))
            if self._vectors is not None:
                self._vectors.write(rows)
            self._in_file += rows.num_rows

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.cut()
        self._cut += 1
        self._in_file = 0

    @property
    def held_bytes(self) -> int:
        return self._rows.held_bytes + (0 if self._vectors is None else self._vectors.held_bytes)

    def spill(self) -> bool:
        return False

    @property
    def spilled_bytes(self) -> int:
        return 0

    def flush(self) -> None:
        self._rows.flush()
        for _ in self._finished():
            self._cut_all()

    def close(self) -> BucketFiles:
        self.flush()
        written = self._rows.close()
        apart: dict[int, list[DataFile]] = {}
        for writer in self._writers:
            for each in writer.files:
                apart.setdefault(each.number, []).append(each.file)
        files: Sequence[DataFile] = [
            part for number, file in enumerate(written.files) for part in (file, *apart.get(number, ()))
        ]
        return replace(written, files=tuple(files))

    def abort(self) -> None:
        self._rows.abort()
        for writer in self._writers:
            writer.abort()
