"""Which bucket of a partition a row belongs to (specification: Paimon documentation, concepts/data-distribution)."""

from __future__ import annotations

from paimon_pyds.keys.bucket.assigner import (
    BucketAssigner,
    Known,
    PartitionedRows,
    bucket_assigner,
    bucket_shares,
    makes_buckets,
)
from paimon_pyds.keys.bucket.functions import bucket_of

__all__ = [
    "BucketAssigner",
    "Known",
    "PartitionedRows",
    "bucket_assigner",
    "bucket_of",
    "bucket_shares",
    "makes_buckets",
]
