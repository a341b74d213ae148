"""The hint files LATEST and EARLIEST: a snapshot number as ASCII. They may lag behind or be absent, so they only save a
directory listing; what they say is checked."""

from __future__ import annotations

from contextlib import suppress

from paimon_pyds.errors import StorageError
from paimon_pyds.storage.base import FileIO

__all__ = ["read_hint", "write_hint"]


def read_hint(io: FileIO, path: str) -> int | None:
    """The number in a hint file; None when the file is absent, unreadable or holds something else."""
    try:
        text = io.read_bytes(path)
    except (FileNotFoundError, StorageError):
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def write_hint(io: FileIO, path: str, id_: int) -> None:
    """Write a hint as best one can: the table is right without it, so a storage that refuses is no reason to fail."""
    with suppress(StorageError):
        io.replace(path, str(id_).encode())
