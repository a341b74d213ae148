"""Leaving out files by column statistics, buckets and indexes in manifest entries; which part left out which file.

Statistics are rows (BinaryRow) over the columns that ``_VALUE_STATS_COLS`` names, in the schema the file was written
with. Files that agree in both are evaluated together (specification: format of value statistics, dense store).
They also decide how to read instants in ORC files without the writer's time zone: `instant_bounds`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import (
    array,
    binary_parts,
    from_numpy,
    is_true,
    list_items,
    pc,
    scalar,
    to_numpy,
)
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import arities
from paimon_pyds.base.types import AtomicType, DataField, DataType, arrow_type, timestamp_unit
from paimon_pyds.base.types.kinds import FLOAT_KINDS, STRING_KINDS, UNITS_PER_SECOND, Kind
from paimon_pyds.engine.scan.result import SkippedFile
from paimon_pyds.format import CLOCKED, TRAITS, InstantBounds, has_kind, is_legacy, traits_of
from paimon_pyds.metadata.manifest import SUPPLIED
from paimon_pyds.metadata.manifest_reader import RowStatistics
from paimon_pyds.metadata.partition import FileKey, PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.predicate.prune import may_match
from paimon_pyds.sql.predicate.tree import Among, ColumnRef, Const, Leaf, Op, Predicate, conjuncts, root_columns

if TYPE_CHECKING:
    from paimon_pyds.index.evaluate import IndexAnswer
    from paimon_pyds.metadata.evolution.file_columns import Evolution

_MAX_KEYS = 4_096
"""Combinations of values of the bucket key for which buckets are computed; for more, all buckets stay."""


def statistics_mask(
    predicate: Predicate,
    fields: Sequence[DataField],
    entries: pa.RecordBatch,
    fields_of: Callable[[int], Sequence[DataField]],
) -> npt.NDArray[np.bool_]:
    """Which entries may hold a matching row, by their value statistics.

    ``predicate``: bound to ``fields``. ``entries``: manifest entries (`ENTRY_SCHEMA`). ``fields_of``: the columns of a
    schema id.
    """
    keep = np.ones(entries.num_rows, np.bool_)
    named = set(root_columns(predicate))  # others may be of types that are not supported
    for group in statistics_groups([f for f in fields if f.name in named], entries, fields_of):
        devolved = group.evolution.devolve(predicate)
        if devolved is Const.TRUE:
            continue
        if devolved in (Const.FALSE, Const.UNKNOWN):
            keep[group.rows] = False
            continue
        stats = group.read()
        if stats is not None:
            keep[group.rows] = may_match(devolved, stats.row_counts, stats.of)
    return keep


@dataclass(frozen=True, slots=True)
class StatisticsGroup:
    """Entries whose statistics are about the same columns of the same schema: ``rows`` of ``entries``.

    ``evolution`` turns their columns into those of the table.
    """

    entries: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    schema_fields: Sequence[DataField]
    evolution: Evolution

    def read(self) -> RowStatistics | None:
        """The statistics, by the columns' names in the files' schema; None if the files have no statistics."""
        first = int(self.rows[0])
        stats_cols = self.entries.column("value_stats_cols")[first].as_py()
        write_cols = self.entries.column("write_cols")[first].as_py()
        by_name = {f.name: f for f in self.schema_fields}
        names = stats_cols if stats_cols is not None else write_cols or list(by_name)
        if any(name not in by_name for name in names):
            return None
        whole = len(self.rows) == self.entries.num_rows
        group = self.entries if whole else self.entries.take(from_numpy(self.rows))
        if int(_arity(group.column("value_stats_min"))[0]) != len(names):
            return None  # a writer without statistics
        return RowStatistics(
            names=names,
            types=[by_name[name].type for name in names],
            minimum=group.column("value_stats_min"),
            maximum=group.column("value_stats_max"),
            null_counts=group.column("value_stats_nulls"),
            row_counts=group.column("row_count"),
            nan_counted=lambda: _nan_counted(group),
        )


def _nan_counted(entries: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Where bounds of floats count NaN as the greatest value.

    Java's do, but for ORC files they are ORC's own statistics, which ignore NaN. So do those of pypaimon-rust and of
    pypaimon (seen with 0.4 and 2.1): these writers give all rows of a file one sequence number, where Java counts the
    rows. Files of tables with row tracking have one number by any writer, and are not trusted either. Manifests have no
    other sign; ORC files have one, once they are opened (`format.orc.reader`).
    """
    numbers = (to_numpy(entries.column(name)) for name in ("min_sequence_number", "max_sequence_number"))
    first, last = numbers
    counted = last - first + 1 >= to_numpy(entries.column("row_count"))
    for ignoring in (f".{name}" for name, traits in TRAITS.items() if traits.ignores_nan):
        counted &= ~is_true(pc.ends_with(entries.column("file_name"), ignoring))
    return np.asarray(counted, np.bool_)


def statistics_groups(
    fields: Sequence[DataField], entries: pa.RecordBatch, fields_of: Callable[[int], Sequence[DataField]]
) -> Iterator[StatisticsGroup]:
    """The entries in groups that are evaluated together; arguments as for `statistics_mask`.

    Of columns that are not read from a file, where rows are joined from several, its group's evolution knows nothing.
    """
    from paimon_pyds.metadata.evolution.file_columns import plan_evolution  # plans that read no statistics do without

    joins = SUPPLIED in entries.schema.names
    for rows in _groups(entries) if entries.num_rows else ():
        first = int(rows[0])
        schema_fields = fields_of(entries.column("schema_id")[first].as_py())
        supplied = entries.column(SUPPLIED)[first].as_py() if joins else None
        wanted = fields if supplied is None else [field for field in fields if field.id in supplied]
        evolution = plan_evolution(schema_fields, wanted, entries.column("write_cols")[first].as_py())
        yield StatisticsGroup(entries, rows, schema_fields, evolution)


def _groups(entries: pa.RecordBatch) -> list[npt.NDArray[np.int64]]:
    """Row numbers of the entries, grouped by schema, statistics columns, written columns and statistics arity."""
    codes = [to_numpy(entries.column("schema_id")), _arity(entries.column("value_stats_min"))]
    lists = ("value_stats_cols", "write_cols", *((SUPPLIED,) if SUPPLIED in entries.schema.names else ()))
    for name in lists:
        column = entries.column(name)
        if column.null_count < len(column):
            codes.append(_codes(column))
    varying = [code for code in codes if (code != code[0]).any()]
    if not varying:
        return [np.arange(entries.num_rows)]
    order = np.lexsort(varying)
    changes = [np.diff(code[order]) != 0 for code in varying]
    return np.split(order, np.flatnonzero(np.logical_or.reduce(changes)) + 1)


def _arity(rows: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The 4-byte big-endian arity in front of each row; 0 for rows shorter than that."""
    data, starts, ends = binary_parts(rows)
    arity = np.zeros(len(rows), np.int64)
    whole = ends - starts >= 4
    if whole.all():
        return arities(data, starts)
    arity[whole] = arities(data, starts[whole])
    return arity


def _codes(lists: pa.ListArray) -> npt.NDArray[np.int32]:
    """Numbers that are equal for equal lists of texts."""
    lengths = np.diff(to_numpy(lists.offsets))
    if not lists.null_count and (lengths == lengths[0]).all():
        items = to_numpy(pc.dictionary_encode(list_items(lists)).indices).reshape(len(lists), -1)
        if (items == items[0]).all():
            return np.zeros(len(lists), np.int32)
    found: npt.NDArray[np.int32] = to_numpy(pc.dictionary_encode(_joined(lists)).indices)
    return found


def _joined(lists: pa.ListArray) -> pa.StringArray:
    texts = pc.cast(lists, pa.list_(pa.string()))
    return pc.fill_null(pc.binary_join(texts, scalar("\x00", pa.string())), scalar("\x02", pa.string()))


def instant_bounds(
    entries: pa.RecordBatch, options: Mapping[str, str], fields_of: Callable[[int], Sequence[DataField]]
) -> list[InstantBounds] | None:
    """For each entry the bounds of its columns of instants; empty if they are of no use. None if all are empty.

    Java names its time zone in ORC files with a TIMESTAMP column only. But the bounds that it writes to the manifest
    are right even if the values in the file are by the clocks of its zone, so the comparison of both shows whether they
    are (`format.orc.zones`).

    ``entries``: manifest entries (`ENTRY_SCHEMA`). ``fields_of``: the columns of a schema id.
    """
    if not is_legacy(options) or not clocked(entries):
        return None
    wanted = {id_: _wanted(fields_of(id_)) for id_ in pc.unique(entries.column("schema_id")).to_pylist()}
    if not any(wanted.values()):
        return None
    found: list[InstantBounds] = [()] * entries.num_rows
    for group in statistics_groups((), entries, fields_of):
        rows = group.rows.tolist()
        stats = group.read()
        if stats is None:
            continue
        for column in wanted[entries.column("schema_id")[rows[0]].as_py()]:
            bounds = stats.of(ColumnRef(column.name))
            if bounds is None:
                continue
            per_milli = UNITS_PER_SECOND[timestamp_unit(column.type)] // 1000
            low, high = (pc.cast(a, pa.int64()).to_pylist() for a in (bounds.min, bounds.max))
            for i, least, most in zip(rows, low, high, strict=True):
                if least is not None and most is not None:
                    found[i] += ((column.name, least // per_milli, most // per_milli),)
    return found


def clocked(entries: pa.RecordBatch) -> bool:
    """Whether manifest entries have files whose format has instants by the clocks of a zone."""
    names = entries.column("file_name")
    data, starts, ends = binary_parts(names)
    if not np.isin(data[ends[ends > starts] - 1], [ord(suffix[-1]) for suffix in CLOCKED]).any():
        return False
    return any(name.endswith(CLOCKED) for name in names.to_pylist())


def _wanted(fields: Sequence[DataField]) -> list[DataField]:
    """The columns of instants, unless the file names its zone for the sake of another column."""
    if any(has_kind(field.type, Kind.TIMESTAMP) for field in fields):
        return []
    return [field for field in fields if field.type.kind is Kind.TIMESTAMP_LTZ]


def bucket_mask(
    predicate: Predicate, schema: TableSchema, entries: pa.RecordBatch, schemas: Callable[[], Iterable[TableSchema]]
) -> npt.NDArray[np.bool_] | None:
    """A mask of the entries in a bucket that can have a matching row; None if the predicate does not restrict buckets.

    It restricts them if = or IN bind every bucket-key column, each by itself or as rows of values.

    ``predicate``: the filter, or a part of it. ``schema``: the one that the predicate is bound to. ``schemas``: gives
    all schemas of the table, see `bucket_key_fields`.
    """
    fields = bucket_key_fields(schema, schemas)
    if fields is None:
        return None
    options = TableOptions(schema.options)
    names = entries.column("file_name").to_pylist() if any(f.type.kind is Kind.CHAR for f in fields) else ()
    if any(traits_of(name).trims_char for name in names):
        return None  # Java's hashes are of blanks, too, that are not read
    columns = _rows_with_all(predicate, fields) or _combined(predicate, fields)
    if columns is None:
        return None
    from paimon_pyds.keys.bucket import bucket_of

    totals = to_numpy(entries.column("total_buckets"))
    buckets = to_numpy(entries.column("bucket"))
    mask = np.ones(len(totals), dtype=bool)
    for total in np.unique(totals):
        if total > 0:
            hit = bucket_of(columns, [f.type for f in fields], int(total), options.get("bucket-function.type"))
            mask &= (totals != total) | np.isin(buckets, hit)
    return mask


def bucket_key_fields(schema: TableSchema, schemas: Callable[[], Iterable[TableSchema]]) -> list[DataField] | None:
    """The columns whose values determine the bucket of a row; None if they don't.

    The hashes of CHAR columns may include blanks, which formats with ``trims_char`` don't return.

    ``schemas``: gives all schemas of the table. Java lets the type of a bucket key change, and rows stay in the buckets
    of what they were hashed as, even where their files are rewritten.
    """
    if TableOptions(schema.options).get("bucket") in (-1, 0) or not schema.bucket_keys:
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


def _rows_with_all(predicate: Predicate, fields: Sequence[DataField]) -> list[pa.Array] | None:
    """The values of these columns in the only rows of values that a matching row can have there; None without such."""
    from paimon_pyds.sql.predicate.among import rows_of

    for part in conjuncts(predicate):
        if isinstance(part, Among) and not any(f.type.kind is Kind.CHAR for f in fields):
            at = {column.name: i for i, column in enumerate(part.columns) if not column.path}
            if all(field.name in at for field in fields):
                rows = rows_of(part)
                return [rows[at[field.name]] for field in fields]
    return None


def _combined(predicate: Predicate, fields: Sequence[DataField]) -> list[pa.Array] | None:
    """All combinations of the only values that a matching row can have in these columns; None where they are many."""
    values = [_values(predicate, field.name) for field in fields]
    combinations = list(itertools.islice(itertools.product(*(v or () for v in values)), _MAX_KEYS + 1))
    if any(v is None for v in values) or len(combinations) > _MAX_KEYS:
        return None
    return [array([c[i] for c in combinations], arrow_type(f.type)) for i, f in enumerate(fields)]


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
        rows_left_out: number of rows of the remaining files that can't match.
        skips: the files that are left out.
        index_answers: the answers about the remaining files, by file name; only for an explanation.
    """

    keep: npt.NDArray[np.bool_]
    selections: dict[FileKey, bytes] = field(default_factory=dict)
    rows_left_out: int = 0
    skips: list[SkippedFile] = field(default_factory=list)
    index_answers: dict[str, tuple[IndexAnswer, ...]] = field(default_factory=dict)


def ask_embedded(
    entries: pa.RecordBatch, predicate: Predicate, devolved: Callable[[int], Predicate], *, explain: bool = False
) -> EmbeddedAnswers:
    """The answers of the entries' embedded indexes; of entries without one all rows remain.

    ``predicate``: the filter, for messages. ``devolved``: the filter in terms of the file of an entry, by the entry's
    row. ``explain``: note what the indexes said.
    Raises CorruptFileError: an index is damaged.
    """
    from paimon_pyds.index.evaluate import index_answers, open_embedded_index  # planning imports no more than it needs
    from paimon_pyds.sql.predicate.to_sql import to_sql

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

    ``before``: the entries before the step. ``after``: those after it. ``mask``: returns a mask of the entries that may
    match a predicate in this step; None if the step can't decide.
    """
    from paimon_pyds.sql.predicate.to_sql import to_sql  # most plans give no reasons

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
