"""Which files of a table with a primary key can't be given out as they lie, because their rows have to be merged.

As Java plans (class MergeTreeSplitGenerator of Paimon's core): the rows of a bucket are raw where none of its files has
rows that delete others, and where it has one sorted run above level 0; or runs on several levels above 0 whose older
versions deletion vectors hide, or that the merge engine first-row never wrote; or one file only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, scalar, to_numpy
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions

__all__ = ["MERGED", "merge_keys", "with_merged"]

MERGED = "merged"
"""The column that `with_merged` adds to manifest entries."""


def merge_keys(schema: TableSchema) -> tuple[str, ...] | None:
    """The columns that all versions of a row have the same values in; None for a table whose rows have no versions."""
    return tuple(dict.fromkeys((*schema.primary_keys, *schema.partition_keys))) if schema.primary_keys else None


def with_merged(entries: pa.RecordBatch, options: TableOptions) -> pa.RecordBatch:
    """Manifest entries of a table with a primary key, with a column that tells whose rows are merged with others'.

    Args:
        entries: all live entries of each bucket that may hold a version of a row that is wanted.
        options: the table's.
    """
    return entries.append_column(pa.field(MERGED, pa.bool_(), False), from_numpy(_merged(entries, options)))


def _merged(entries: pa.RecordBatch, options: TableOptions) -> npt.NDArray[np.bool_]:
    if not entries.num_rows:
        return np.zeros(0, np.bool_)
    partitions = to_numpy(entries.column("partition").dictionary_encode().indices).astype(np.int64)
    places = np.stack([partitions, to_numpy(entries.column("bucket"))], axis=1)
    kinds, bucket = np.unique(places, axis=0, return_inverse=True)
    bucket = bucket.reshape(-1)
    levels = to_numpy(entries.column("level"))
    lowest, highest = np.full(len(kinds), np.iinfo(np.int32).max), np.zeros(len(kinds), np.int32)
    np.minimum.at(lowest, bucket, levels)
    np.maximum.at(highest, bucket, levels)
    deletes = to_numpy(pc.fill_null(entries.column("delete_row_count"), scalar(0, pa.int64())))
    adds_only = np.bincount(bucket, deletes != 0, len(kinds)) == 0
    hidden = options.get("deletion-vectors.enabled") or options.get("merge-engine") == "first-row"
    one_version = (lowest > 0) & (hidden | (lowest == highest))
    raw = adds_only & (one_version | (np.bincount(bucket, minlength=len(kinds)) == 1))
    return np.asarray(~raw[bucket], np.bool_)
