"""Bucket pruning: where = or IN bind every bucket-key column, only the buckets of those values are read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.bucket import bucket_of
from paimon_pyds.buffers import array, to_numpy
from paimon_pyds.formats import traits_of
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.tree import Leaf, Op, Predicate, conjuncts
from paimon_pyds.types import FLOAT_KINDS, STRING_KINDS, AtomicType, DataField, DataType, Kind, arrow_type

__all__ = ["bucket_mask"]

_MAX_KEYS = 4_096


def bucket_mask(
    predicate: Predicate, schema: TableSchema, entries: pa.RecordBatch, schemas: Callable[[], Iterable[TableSchema]]
) -> npt.NDArray[np.bool_] | None:
    """Which entries lie in a bucket that a matching row can lie in; None when the predicate does not say.

    Args:
        predicate: the filter, or a part of it.
        schema: the one that the predicate is bound to.
        entries: manifest entries.
        schemas: gives all schemas of the table. Java lets the type of a bucket key change, and rows stay in the buckets
            of what they were hashed as, even where their files are rewritten.
    """
    options = TableOptions(schema.options)
    keys = schema.bucket_keys
    if options.get("bucket") <= 0 or not keys:
        return None
    fields = [schema.field(name) for name in keys]
    if any(f.type.kind in FLOAT_KINDS for f in fields):
        return None  # the filter takes -0.0 and 0.0 for one value, the hash does not
    names = entries.column("file_name").to_pylist() if any(f.type.kind is Kind.CHAR for f in fields) else ()
    if any(traits_of(name).trims_char for name in names):
        return None  # Java's hashes are of blanks, too, that are not read
    values = [_values(predicate, name) for name in keys]
    combinations = list(itertools.islice(_product(values), _MAX_KEYS + 1))
    if any(v is None for v in values) or len(combinations) > _MAX_KEYS:
        return None
    if schema.id > 0 and not all(_hashes_alike(fields, old) for old in schemas()):
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


def _hashes_alike(keys: Iterable[DataField], old: TableSchema) -> bool:
    """Whether the keys had the same hashes in another schema."""
    before = {f.id: f.type for f in old.fields}
    return all(key.id not in before or _hash_stays(before[key.id], key.type) for key in keys)


def _hash_stays(before: DataType, now: DataType) -> bool:
    if before.kind in STRING_KINDS and now.kind is Kind.VARCHAR:  # a shorter type would cut the values that are read
        return _length(before) <= _length(now)
    return before.with_nullable(True) == now.with_nullable(True)


def _length(type_: DataType) -> int:
    return type_.length or 1 if isinstance(type_, AtomicType) else 1


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
