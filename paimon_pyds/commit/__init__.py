"""Commit messages → snapshot."""

from paimon_pyds.commit.changes import Changes, Increment, Overwrite, VectorPlace, increments_of, vector_places
from paimon_pyds.commit.committer import commit

__all__ = ["Changes", "Increment", "Overwrite", "VectorPlace", "commit", "increments_of", "vector_places"]
