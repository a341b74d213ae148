"""Bucket pruning: where = or IN bind every bucket-key column, only the buckets of those values are read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.bucket import bucket_of
from paimon_pyds.buffers import array, to_numpy
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.tree import Leaf, Op, Predicate, conjuncts
from paimon_pyds.types import FLOAT_KINDS, arrow_type

__all__ = ["bucket_mask"]

_MAX_KEYS = 4_096


def bucket_mask(predicate: Predicate, schema: TableSchema, entries: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Which entries lie in a bucket that a matching row can lie in; None when the predicate does not say."""
    options = TableOptions(schema.options)
    keys = options.bucket_keys(schema)
    if options.get("bucket") <= 0 or not keys:
        return None
    fields = [schema.field(name) for name in keys]
    if any(f.type.kind in FLOAT_KINDS for f in fields):
        return None  # the filter takes -0.0 and 0.0 for one value, the hash does not
    values = [_values(predicate, name) for name in keys]
    combinations = list(itertools.islice(_product(values), _MAX_KEYS + 1))
    if any(v is None for v in values) or len(combinations) > _MAX_KEYS:
        return None
    columns = [array([c[i] for c in combinations], arrow_type(f.type)) for i, f in enumerate(fields)]
    totals = to_numpy(entries.column("total_buckets"))
    buckets = to_numpy(entries.column("bucket"))
    mask = np.ones(len(totals), dtype=bool)
    for total in np.unique(totals):
        if total > 0:
            hit = bucket_of(columns, [f.type for f in fields], int(total), options.get("bucket-function.type"))
            mask &= (totals != total) | np.isin(buckets, hit)
    return mask


def _product(values: list[set[Any] | None]) -> itertools.product[tuple[Any, ...]]:
    return itertools.product(*(v or () for v in values))


def _values(predicate: Predicate, column: str) -> set[Any] | None:
    """The only values a matching row can have in this column, when = or IN says so."""
    found: set[Any] | None = None
    for part in conjuncts(predicate):
        if isinstance(part, Leaf) and part.column.name == column and not part.column.path:
            if part.op in (Op.EQ, Op.IN):
                found = set(part.literals) if found is None else found & set(part.literals)
            elif part.op is Op.IS_NULL:
                found = {None} if found is None else found & {None}
    return found
