"""Removing files that nobody refers to, after something failed: as much as can be removed, and never another error."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from paimon_pyds.storage.base import FileIO

__all__ = ["discard"]


def discard(io: FileIO, paths: Iterable[str]) -> None:
    """Remove files, best effort: what stays harms nobody, and the error that led here is the one to report."""
    listed = list(paths)
    try:
        io.delete(listed)
    except OSError:
        for path in listed:  # the storage may have stopped at the first that it could not remove
            with suppress(OSError):
                io.delete([path])
