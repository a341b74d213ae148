"""File indexes that stay open between the queries of a process: what was read and decoded is there for the next one.

Index files are immutable and have unique names, so nothing gets stale. A side file is known by the storage that it was
read from as well as by its path: who reaches the storage with other credentials reads it anew. An embedded index is
known by all its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager

from paimon_pyds.caching import ByteLimitedCache
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.storage.base import ByteSource, BytesSource, FileIO, FileSource

__all__ = ["OPEN_INDEXES", "open_embedded_index", "open_side_index"]

OPEN_INDEXES = ByteLimitedCache(64 << 20)
"""Open indexes that no thread uses now: an index is used by one at a time."""

if hasattr(os, "register_at_fork"):  # connections to an object store don't work in a child
    os.register_at_fork(after_in_child=OPEN_INDEXES.clear)


def open_side_index(io: FileIO, path: str) -> AbstractContextManager[FileIndex]:
    """The indexes in a side file, opened or still open. Their ``bytes_read`` count from here on.

    Raises:
        CorruptFileError: this is no file-index container.
        FileNotFoundError: there is no such file.
        StorageError: it can't be read.
    """
    return _opened((io, path), FileSource(io, path))


def open_embedded_index(data: bytes, data_file: str) -> AbstractContextManager[FileIndex]:
    """The indexes in a manifest entry, opened or still open; ``data_file`` is for messages.

    Raises:
        CorruptFileError: this is no file-index container.
    """
    return _opened((data, data_file), BytesSource(data, f"{data_file} (embedded index)"))


@contextmanager
def _opened(key: Hashable, source: ByteSource) -> Iterator[FileIndex]:
    index: FileIndex | None = OPEN_INDEXES.take(key)
    if index is None:
        index = FileIndex.open(source)
    yield index
    # Not after an error: a damaged file may be replaced by a copy of what it was.
    index.reset_bytes_read()
    OPEN_INDEXES.put(key, index, index.nbytes)
