"""Leaving out files by buckets and by the indexes in manifest entries; which part of a filter left out which file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.bucket import bucket_of
from paimon_pyds.buffers import array, is_true, to_numpy
from paimon_pyds.formats import traits_of
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import Leaf, Op, Predicate, conjuncts
from paimon_pyds.scan.planned_files import FileKey
from paimon_pyds.scan.result import IndexAnswer, SkippedFile, index_answers
from paimon_pyds.types import FLOAT_KINDS, STRING_KINDS, AtomicType, DataField, DataType, Kind, arrow_type

__all__ = ["EmbeddedAnswers", "ask_embedded", "bucket_key_fields", "bucket_mask", "hashes_alike", "left_out"]

_MAX_KEYS = 4_096


def bucket_mask(
    predicate: Predicate, schema: TableSchema, entries: pa.RecordBatch, schemas: Callable[[], Iterable[TableSchema]]
) -> npt.NDArray[np.bool_] | None:
    """Which entries lie in a bucket that a matching row can lie in; None when the predicate does not say.

    It says so where = or IN bind every bucket-key column.

    Args:
        predicate: the filter, or a part of it.
        schema: the one that the predicate is bound to.
        entries: manifest entries.
        schemas: gives all schemas of the table, see `bucket_key_fields`.
    """
    fields = bucket_key_fields(schema, schemas)
    if fields is None:
        return None
    options = TableOptions(schema.options)
    names = entries.column("file_name").to_pylist() if any(f.type.kind is Kind.CHAR for f in fields) else ()
    if any(traits_of(name).trims_char for name in names):
        return None  # Java's hashes are of blanks, too, that are not read
    values = [_values(predicate, field.name) for field in fields]
    combinations = list(itertools.islice(itertools.product(*(v or () for v in values)), _MAX_KEYS + 1))
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


def bucket_key_fields(schema: TableSchema, schemas: Callable[[], Iterable[TableSchema]]) -> list[DataField] | None:
    """The columns that tell the bucket of a row by their values; None where they don't.

    Of CHAR columns it may be values with blanks at the end that are hashed, and formats with ``trims_char`` don't give
    these.

    Args:
        schema: the table's.
        schemas: gives all schemas of the table. Java lets the type of a bucket key change, and rows stay in the buckets
            of what they were hashed as, even where their files are rewritten.
    """
    if TableOptions(schema.options).get("bucket") <= 0 or not schema.bucket_keys:
        return None
    fields = [schema.field(name) for name in schema.bucket_keys]
    if any(f.type.kind in FLOAT_KINDS for f in fields):
        return None  # filters take -0.0 and 0.0 for one value, the hash does not
    if schema.id > 0 and not all(hashes_alike(fields, old) for old in schemas()):
        return None
    return fields


def hashes_alike(keys: Iterable[DataField], old: TableSchema) -> bool:
    """Whether the keys had the same hashes in another schema."""
    before = {f.id: f.type for f in old.fields}
    return all(key.id not in before or _hash_stays(before[key.id], key.type) for key in keys)


def _hash_stays(before: DataType, now: DataType) -> bool:
    if before.kind in STRING_KINDS and now.kind is Kind.VARCHAR:  # a shorter type would cut the values that are read
        return _length(before) <= _length(now)
    return before.with_nullable(True) == now.with_nullable(True)


def _length(type_: DataType) -> int:
    return type_.length or 1 if isinstance(type_, AtomicType) else 1


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


@dataclass(slots=True)
class EmbeddedAnswers:
    """What the embedded indexes of some entries said.

    Attributes:
        keep: which entries may hold a match.
        selections: by bucket and file name the positions that may match, as a portable roaring bitmap.
        rows_left_out: how many rows of the kept files can't match.
        skips: the files that are left out.
        index_answers: what was said of kept files, by file name; only for an explanation.
    """

    keep: npt.NDArray[np.bool_]
    selections: dict[FileKey, bytes] = field(default_factory=dict)
    rows_left_out: int = 0
    skips: list[SkippedFile] = field(default_factory=list)
    index_answers: dict[str, tuple[IndexAnswer, ...]] = field(default_factory=dict)


def ask_embedded(
    entries: pa.RecordBatch,
    predicate: Predicate,
    devolved: Callable[[int], Predicate],
    *,
    explain: bool = False,
) -> EmbeddedAnswers:
    """The answers of the entries' embedded indexes; entries without one are kept whole.

    Args:
        entries: manifest entries.
        predicate: the filter, for messages.
        devolved: the filter in terms of the file of an entry, by the entry's row.
        explain: note what the indexes said.

    Raises:
        CorruptFileError: an index is damaged.
    """
    from paimon_pyds.index.evaluate import open_embedded_index  # planning imports no more than it needs

    embedded = entries.column("embedded_index")
    answers = EmbeddedAnswers(np.ones(entries.num_rows, dtype=bool))
    wanted = ("partition", "bucket", "file_name", "row_count", "file_size")
    for row in np.flatnonzero(is_true(embedded.is_valid())).tolist():
        partition, bucket, name, rows, size = (entries.column(c)[row].as_py() for c in wanted)
        with open_embedded_index(embedded[row].as_py(), name) as index:
            result = index.evaluate(devolved(row), rows)
        explained = index_answers(result.trace, rows) if explain else ()
        if result.selection.is_none:
            answers.keep[row] = False
            reason = to_sql(predicate, shorten=True)
            answers.skips.append(SkippedFile(name, rows, size, reason, "embedded index", explained))
            continue
        if result.selection.positions is not None:
            answers.selections[PartitionBucket(partition, bucket), name] = result.selection.positions.serialize()
            answers.rows_left_out += rows - result.selection.count(rows)
        if explain:
            answers.index_answers[name] = explained
    return answers


_Mask: TypeAlias = Callable[[Predicate, pa.RecordBatch], npt.NDArray[np.bool_] | None]


def left_out(
    step: str, before: pa.RecordBatch, after: pa.RecordBatch, predicate: Predicate, mask: _Mask
) -> list[SkippedFile]:
    """The entries that a step left out, each with the first conjunct of the filter that leaves it out by itself.

    Args:
        step: the step's name.
        before: the entries that it saw.
        after: those that it kept.
        predicate: the filter.
        mask: which entries a predicate keeps in this step; None when it can't say.
    """
    kept = pc.is_in(before.column("file_name"), value_set=after.column("file_name"))
    dropped = before.filter(pc.invert(kept))
    reasons = np.full(dropped.num_rows, to_sql(predicate, shorten=True), dtype=object)
    unexplained = np.ones(dropped.num_rows, dtype=bool)
    for part in conjuncts(predicate):
        keeps = mask(part, dropped) if unexplained.any() else None
        if keeps is not None:
            reasons[unexplained & ~keeps] = to_sql(part, shorten=True)
            unexplained &= keeps
    columns = [dropped.column(name).to_pylist() for name in ("file_name", "row_count", "file_size")]
    return [
        SkippedFile(name, rows, size, reason, step)
        for name, rows, size, reason in zip(*columns, reasons.tolist(), strict=True)
    ]
