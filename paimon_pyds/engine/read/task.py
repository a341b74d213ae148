"""A split as a task of another engine: it pickles, and gives Arrow tables where it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.engine.read.postponed_rows import WaitingRows
from paimon_pyds.engine.read.split_read import read_split
from paimon_pyds.metadata.split import Split

_BATCH_ROWS = 65_536
"""Rows of a batch: enough for arrays, few enough for wide rows."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads the rows of a split in the columns of a scan.

    Attributes:
        split: what is read.
        schema: that of the scan, whose columns may have NULLs that those of a branch have not.
    """

    split: Split | WaitingRows
    schema: pa.Schema

    @property
    def size(self) -> int:
        """Bytes of the data files."""
        return sum(file.size for file in self.split.files)

    @property
    def paths(self) -> list[str]:
        """Of the data files."""
        return [file.path for file in self.split.files]

    def __call__(self) -> Iterator[pa.Table]:
        """The rows, in bounded memory."""
        if isinstance(self.split, WaitingRows):
            batches = self.split.batches(_BATCH_ROWS)
        else:
            batches = read_split(self.split, _BATCH_ROWS)
        for batch in batches:
            yield pa.Table.from_arrays(batch.columns, schema=self.schema)
