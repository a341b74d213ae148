"""Splits → Arrow batches."""

from __future__ import annotations

from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.split_read import empty_batch, read_split, read_splits, with_filter

__all__ = ["FileTrace", "empty_batch", "read_file", "read_split", "read_splits", "with_filter"]
