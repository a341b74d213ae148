"""Rows that wait on the local disk: batches by a key, one after the other in one temporary file without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import pyarrow as pa

from paimon_pyds.errors import PaimonError, StorageError

SPILL_CODECS = ("zstd", "lz4", "none")

_K = TypeVar("_K", bound=Hashable)


def spill_codec(name: str) -> str:
    """The codec that an option names, or the first of those here for one that only Java has."""
    return name.lower() if name.lower() in SPILL_CODECS else SPILL_CODECS[0]


class SpillFile(Generic[_K]):
    """Batches of one schema by key: such as a bucket, or the number of a sorted run.

    The file is made with the first batch, and is gone after `close`, or with the process.

    ``compression``: ``zstd``, ``lz4`` or ``none``. ``what``: the rows, for the message of an error.
    """

    def __init__(self, compression: str, what: str) -> None:
        self._schema: pa.Schema | None = None
        self._compression = None if compression == "none" else compression
        self._what = what
        self._messages: dict[_K, list[tuple[int, int]]] = {}
        self._file: Any = None
        self._writer: pa.RecordBatchWriter | None = None
        self.size = 0
        """Bytes of the file."""

    @property
    def keys(self) -> list[_K]:
        """Those that have rows here."""
        return list(self._messages)

    def add(self, key: _K, batch: pa.RecordBatch) -> None:
        """Append rows of a key. Raises StorageError when the disk is full."""
        with _spill_faults(self._what):
            if self._writer is None:
                self._file = tempfile.TemporaryFile(prefix="paimon-pyds-spill-")  # noqa: SIM115 - closed by close
                options = pa.ipc.IpcWriteOptions(compression=self._compression)
                self._schema = batch.schema
                self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema, options=options)
                self._writer.write_batch(batch.slice(0, 0))  # the schema goes before it
            start = self._file.seek(0, os.SEEK_END)  # rows may have been read in between
            self._writer.write_batch(batch)
            self.size = self._file.tell()
            self._messages.setdefault(key, []).append((start, self.size - start))

    def take(self, key: _K) -> Iterator[pa.RecordBatch]:
        """The rows of a key, in the order they came, read on demand; the spill file forgets them."""
        yield from self._read(self._messages.pop(key, ()))

    def read(self, key: _K) -> Iterator[pa.RecordBatch]:
        """The same; they stay."""
        yield from self._read(self._messages.get(key, ()))

    def _read(self, messages: Iterable[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        for start, length in messages:
            with _spill_faults(self._what):
                self._file.seek(start)
                message = self._file.read(length)
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)

    def close(self) -> None:
        """Forget all rows; the file goes."""
        self._messages.clear()
        self.size = 0
        if self._file is not None:
            with suppress(OSError):  # of bytes that nobody reads any more
                self._file.close()
            self._file = self._writer = None


@contextmanager
def _spill_faults(what: str) -> Iterator[None]:
    """Turn OSError inside into a StorageError that says which rows could not be spilled, and how to make room."""
    try:
        yield
    except PaimonError:
        raise
    except OSError as error:
        raise StorageError(
            f"can't spill {what}: {error.strerror or error}",
            path=tempfile.tempdir,
            hint="free some space there, or name another directory in TMPDIR",
        ) from error
