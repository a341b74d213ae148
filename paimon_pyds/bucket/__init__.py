"""Which bucket of a partition a row belongs to (specification: Paimon documentation, concepts/data-distribution)."""

from __future__ import annotations

from paimon_pyds.bucket.functions import bucket_of

__all__ = ["bucket_of"]
