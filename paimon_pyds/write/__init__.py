"""Arrow batches → data files, indexes, statistics → commit message. Names are imported on first use: reading needs
`nested` only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paimon_pyds.commit_message import BucketFiles as BucketFiles
    from paimon_pyds.commit_message import CommitMessage as CommitMessage
    from paimon_pyds.write.context import WriteContext as WriteContext
    from paimon_pyds.write.writer import TableWriter as TableWriter

__all__ = ["BucketFiles", "CommitMessage", "TableWriter", "WriteContext"]

_HOMES = {"BucketFiles": "message", "CommitMessage": "message", "TableWriter": "writer", "WriteContext": "context"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"paimon_pyds.write.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'paimon_pyds.write' has no attribute {name!r}")
