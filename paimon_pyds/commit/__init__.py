"""Commit messages → snapshot."""

from paimon_pyds.commit.changes import Changes, Overwrite, VectorPlace, vector_places
from paimon_pyds.commit.committer import commit

__all__ = ["Changes", "Overwrite", "VectorPlace", "commit", "vector_places"]
