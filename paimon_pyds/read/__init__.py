"""Splits → Arrow batches. Names are imported on first use: planning needs `evolution` only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.read.file import FileTrace as FileTrace
    from paimon_pyds.read.file import read_file as read_file
    from paimon_pyds.read.split_read import empty_batch as empty_batch
    from paimon_pyds.read.split_read import read_split as read_split
    from paimon_pyds.read.split_read import read_splits as read_splits

__all__ = ["FileTrace", "empty_batch", "read_file", "read_split", "read_splits"]


def __getattr__(name: str) -> Any:
    if name in ("FileTrace", "read_file"):
        from paimon_pyds.read import file

        return getattr(file, name)
    if name in __all__:
        from paimon_pyds.read import split_read

        return getattr(split_read, name)
    raise AttributeError(f"module 'paimon_pyds.read' has no attribute {name!r}")
