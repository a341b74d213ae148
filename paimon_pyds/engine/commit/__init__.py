"""Commit messages → snapshot."""

from paimon_pyds.engine.commit.committer import commit
from paimon_pyds.metadata.commit_message import Changes, Increment, Overwrite, VectorPlace, increments_of, vector_places

__all__ = ["Changes", "Increment", "Overwrite", "VectorPlace", "commit", "increments_of", "vector_places"]
