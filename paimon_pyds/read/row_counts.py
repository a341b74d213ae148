"""Holding what manifests say of data files against the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from paimon_pyds import formats
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError
from paimon_pyds.formats.base import FormatReader, ReadCounters
from paimon_pyds.split import PlannedFile
from paimon_pyds.storage.base import FileIO

__all__ = ["check_row_count", "check_row_counts"]


def check_row_count(reader: FormatReader, file: PlannedFile) -> None:
    """Raises CorruptFileError unless an open data file has as many rows as its manifest says."""
    if reader.row_count != file.row_count:
        raise CorruptFileError(
            f"the data file has {reader.row_count} rows, the manifest says {file.row_count}", path=file.path
        )


def check_row_counts(io: FileIO, files: Sequence[PlannedFile]) -> None:
    """Open data files, a few at a time, and hold their row counts against those of manifests. Reads footers only.

    Raises:
        CorruptFileError: a file has another number of rows, or is no data file.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
    """
    with ThreadPoolExecutor(min(32, 4 * (os.cpu_count() or 1)), thread_name_prefix="paimon-footers") as pool:
        for _ in pool.map(partial(_check_file, io), files):
            pass


def _check_file(io: FileIO, file: PlannedFile) -> None:
    try:
        reader = formats.by_path(file.path).open_reader(io, file.path, file.size, ReadCounters())
    except FileNotFoundError as error:
        raise SnapshotNotFoundError.of_file(error.filename or file.path) from error
    try:
        check_row_count(reader, file)
    finally:
        reader.close()
