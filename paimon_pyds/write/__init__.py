"""Arrow batches → data files, indexes, statistics → commit message."""

from paimon_pyds.write.context import WriteContext
from paimon_pyds.write.message import BucketFiles, CommitMessage
from paimon_pyds.write.writer import TableWriter

__all__ = ["BucketFiles", "CommitMessage", "TableWriter", "WriteContext"]
