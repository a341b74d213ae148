"""Commit messages → snapshot."""

from paimon_pyds.commit.changes import Changes, Overwrite
from paimon_pyds.commit.committer import commit

__all__ = ["Changes", "Overwrite", "commit"]
