"""Arrow batches → data files, indexes, statistics → commit message."""

from __future__ import annotations

from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.writer import TableWriter

__all__ = ["TableWriter", "WriteContext"]
