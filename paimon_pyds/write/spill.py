"""Rows of many buckets that wait on the local disk until their files are written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from paimon_pyds.storage.os_errors import spill_faults

__all__ = ["BucketSpill"]

_Key = tuple[bytes, int]


class BucketSpill:
    """Batches of (partition, bucket)s, one after the other in one temporary file without a name.

    Args:
        schema: of all batches.
        compression: ``zstd``, ``lz4`` or ``none``.
    """

    def __init__(self, schema: pa.Schema, compression: str) -> None:
        self._schema = schema
        self._compression = None if compression == "none" else compression
        self._places: dict[_Key, list[tuple[int, int]]] = {}
        self._file: Any = None
        self._writer: pa.RecordBatchWriter | None = None
        self.size = 0

    def __contains__(self, key: object) -> bool:
        return key in self._places

    @property
    def keys(self) -> list[_Key]:
        """Those that have rows here."""
        return list(self._places)

    def add(self, key: _Key, batch: pa.RecordBatch) -> None:
        """Append rows of a bucket. Raises StorageError when the disk is full."""
        with spill_faults("rows of many buckets"):
            if self._writer is None:
                self._file = tempfile.TemporaryFile(prefix="paimon-pyds-write-")  # noqa: SIM115 - closed by close
                options = pa.ipc.IpcWriteOptions(compression=self._compression)
                self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), self._schema, options=options)
                self._writer.write_batch(pa.RecordBatch.from_pylist([], self._schema))  # the schema goes before it
            start = self._file.seek(0, os.SEEK_END)  # rows may have been read in between
            self._writer.write_batch(batch)
            self.size = self._file.tell()
            self._places.setdefault(key, []).append((start, self.size - start))

    def take(self, key: _Key) -> Iterator[pa.RecordBatch]:
        """The rows of a bucket, in the order they came; they are forgotten."""
        with spill_faults("rows of many buckets"):
            for start, length in self._places.pop(key, ()):
                self._file.seek(start)
                yield pa.ipc.read_record_batch(pa.py_buffer(self._file.read(length)), self._schema)

    def close(self) -> None:
        """Forget all rows; the file goes."""
        self._places.clear()
        self.size = 0
        if self._file is not None:
            self._file.close()
            self._file = self._writer = None
