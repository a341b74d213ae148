"""Arrow batches → data files, indexes, statistics → commit message."""

from __future__ import annotations

from paimon_pyds.write.context import WriteContext
from paimon_pyds.write.writer import TableWriter

__all__ = ["TableWriter", "WriteContext"]
