"""MERGE on rows in memory: which clause acts on which row of a batch of the table, and the rows' new versions.

Pure functions of Arrow batches; `paimon_pyds.engine.rowlevel.merge_into` reads and writes files around them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, to_numpy
from paimon_pyds.base.types import DataField, arrow_type
from paimon_pyds.engine.rowlevel.merge_clauses import BoundClause
from paimon_pyds.engine.write.conform import conform_column, fill_default, origin_of
from paimon_pyds.errors import CardinalityError, SchemaError
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.sql.expression.bound import BoundExpression
from paimon_pyds.sql.expression.join import JoinCondition, SourceKeys, expand

_Ints = npt.NDArray[np.int64]
MAX_ROW_PAIRS = 1 << 21
"""Pairs of rows that are looked at at a time: bounds memory where many rows match, or every one."""


def _none() -> _Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class MergeRules:
    """All that is needed to merge a batch of the table. It pickles.

    Attributes:
        source: all rows of the source, its columns with their prefix.
        keys: the rows of the source that may match, by their keys.
        matched, by_source: the clauses for rows with and without a match in the source.
        prefix: what the names of the table's columns begin with in batches.
    """

    condition: JoinCondition
    source: pa.RecordBatch
    keys: SourceKeys
    matched: tuple[BoundClause, ...]
    by_source: tuple[BoundClause, ...]
    prefix: str

    def clause(self, number: int) -> BoundClause:
        """A clause by its number in `Actions`: those for matches first."""
        return (*self.matched, *self.by_source)[number]

    @property
    def updating(self) -> _Ints:
        """Numbers of the clauses that update."""
        clauses = (*self.matched, *self.by_source)
        return np.array([n for n, clause in enumerate(clauses) if clause.values is not None], np.int64)

    def columns(self) -> set[str]:
        """The table's columns that decide about rows, with their prefix."""
        parts = [key.target for key in self.keys.keys]
        for residual in (self.condition.target, self.condition.pairs):
            parts += [] if residual is None else residual.parts
        parts += [c.where for c in (*self.matched, *self.by_source) if c.where is not None]
        return {name for part in parts for name in part.columns if name not in self.source.schema.names}


@dataclass(frozen=True)
class Actions:
    """The actions on some rows of a batch; unchanged rows have none.

    Attributes:
        rows: places in the batch, ascending.
        clauses: the number of the clause that acts on each.
        sources: the row of the source that matches each; -1 if no row does.
        matched: rows of the source that match some row of the batch; one may be there more than once.
        unchanged: places of the rows that match and stay as they are, ascending.
    """

    rows: _Ints
    clauses: _Ints
    sources: _Ints
    matched: _Ints = dataclasses.field(default_factory=_none)
    unchanged: _Ints = dataclasses.field(default_factory=_none)

    def subset(self, which: _Ints | slice) -> Actions:
        """Some of the actions; ``matched`` and ``unchanged`` are left out."""
        return Actions(self.rows[which], self.clauses[which], self.sources[which])


def act(rules: MergeRules, batch: pa.RecordBatch) -> Actions:
    """Which clause acts on which row of the table; the first that applies wins.

    ``batch``: rows of the table, the columns of `MergeRules.columns` among theirs.

    Raises:
        CardinalityError: two rows of the source would change one row, and not both delete it.
        ExpressionError: an expression fails on a value.
    """
    codes = rules.keys.codes(batch)
    if rules.condition.target is not None:
        at = np.flatnonzero(codes >= 0)
        kept = to_numpy(rules.condition.target.evaluate(batch.take(array(at))))
        codes[at[~kept]] = -1
    counts = rules.keys.counts(codes)
    parts: list[Actions] = []
    has_match = np.zeros(batch.num_rows, np.bool_)
    for start, stop in _windows(counts):
        left, right = expand(rules.keys, codes[start:stop])
        left += start
        left, right = _related(rules, batch, left, right)
        has_match[left] = True
        parts.append(_matched(rules, batch, left, right))
    if rules.by_source:
        parts.append(_unmatched(rules, batch, np.flatnonzero(~has_match)))
    actions = _together(parts)
    has_match[actions.rows] = False
    return replace(actions, unchanged=np.flatnonzero(has_match))


def _windows(counts: _Ints) -> Sequence[tuple[int, int]]:
    """Ranges of rows with a bounded number of pairs, one row at least."""
    if not counts.any():
        return []
    ends = np.cumsum(counts)
    if ends[-1] <= MAX_ROW_PAIRS:
        return [(0, len(counts))]
    windows, start = [], 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + MAX_ROW_PAIRS, side="right")), start + 1)
        windows.append((start, stop))
        start = stop
    return windows


def _related(rules: MergeRules, batch: pa.RecordBatch, left: _Ints, right: _Ints) -> tuple[_Ints, _Ints]:
    """The pairs for which the rest of the condition holds."""
    if rules.condition.pairs is None or not len(left):
        return left, right
    kept = to_numpy(rules.condition.pairs.evaluate(_pairs(rules, batch, left, right, rules.condition.pairs.parts)))
    return left[kept], right[kept]


def _pairs(
    rules: MergeRules, batch: pa.RecordBatch, left: _Ints, right: _Ints, parts: Sequence[BoundExpression]
) -> pa.RecordBatch:
    """Rows of both sides next to each other, with the columns that some expressions need."""
    names = dict.fromkeys(name for part in parts for name in part.columns)
    arrays, found = [], []
    for name in names:
        side, rows = (rules.source, right) if name in rules.source.schema.names else (batch, left)
        found.append(name)
        arrays.append(side.column(side.schema.get_field_index(name)).take(array(rows)))
    if not found:  # a batch without columns does not know its length
        return pa.RecordBatch.from_arrays([pa.nulls(len(left))], names=[""])
    schema = pa.schema([(n, a.type) for n, a in zip(found, arrays, strict=True)], rules.source.schema.metadata)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _matched(rules: MergeRules, batch: pa.RecordBatch, left: _Ints, right: _Ints) -> Actions:
    chosen = _first_clause(rules, rules.matched, batch, left, right)
    acting = chosen >= 0
    rows, clauses, sources = left[acting], chosen[acting], right[acting]
    order = np.argsort(rows, kind="stable")
    rows, clauses, sources = rows[order], clauses[order], sources[order]
    again = np.flatnonzero(rows[1:] == rows[:-1]) + 1
    if len(again):
        deletes = np.array([clause.values is None for clause in rules.matched])
        if not np.all(deletes[clauses[again]] & deletes[clauses[again - 1]]):
            raise _cardinality(rules, sources[again[0] - 1], sources[again[0]])
        first = np.ones(len(rows), np.bool_)
        first[again] = False
        rows, clauses, sources = rows[first], clauses[first], sources[first]
    return Actions(rows, clauses, sources, right)


def _cardinality(rules: MergeRules, first: int, second: int) -> CardinalityError:
    names = dict.fromkeys(name for key in rules.keys.keys for name in key.source.columns)
    shown = ", ".join(
        f"{name} = {rules.source.column(rules.source.schema.get_field_index(name))[int(second)].as_py()!r:.60}"
        for name in names
    )
    return CardinalityError(
        f"rows {first + 1:,} and {second + 1:,} of the source match one row of the table and would both change it"
        + (f" ({shown})" if shown else ""),
        hint="leave one source row per key, or give the clauses conditions that distinguish them; nothing was changed",
    )


def _first_clause(
    rules: MergeRules, clauses: Sequence[BoundClause], batch: pa.RecordBatch, left: _Ints, right: _Ints
) -> _Ints:
    """The number of the first clause whose condition is true for each pair; -1 for none."""
    chosen = np.full(len(left), -1, np.int64)
    for number, clause in enumerate(clauses):
        open_ = np.flatnonzero(chosen < 0)
        if not len(open_):
            break
        if clause.where is not None:
            mask = clause.where.matches(_pairs(rules, batch, left[open_], right[open_], [clause.where]))
            open_ = open_[to_numpy(mask)]
        chosen[open_] = number
    return chosen


def _unmatched(rules: MergeRules, batch: pa.RecordBatch, rows: _Ints) -> Actions:
    none = np.full(len(rows), -1, np.int64)
    chosen = _first_clause(rules, rules.by_source, batch, rows, none)
    acting = chosen >= 0
    return Actions(rows[acting], chosen[acting] + len(rules.matched), none[acting])


def _together(parts: Sequence[Actions]) -> Actions:
    if not parts:
        return Actions(_none(), _none(), _none())
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    clauses, sources = (np.concatenate([getattr(p, name) for p in parts])[order] for name in ("clauses", "sources"))
    return Actions(rows[order], clauses, sources, np.concatenate([part.matched for part in parts]))


# ----------------------------------------------------------------------------------------------------------- new rows


def new_versions(
    rules: MergeRules, batch: pa.RecordBatch, actions: Actions, fields: Sequence[DataField]
) -> pa.RecordBatch | None:
    """The new versions of the rows that are updated, in the order of their rows; None if no row is.

    ``batch``: rows of the table with all columns that stay and that expressions need. ``fields``: the table's columns,
    and those in which rows keep their ids.
    """
    parts: list[pa.RecordBatch] = []
    chosen: list[_Ints] = []
    for number in np.unique(actions.clauses):
        if rules.clause(int(number)).values is None:
            continue
        which = np.flatnonzero(actions.clauses == number)
        parts.append(_versions(rules, rules.clause(int(number)), batch, actions.subset(which), fields))
        chosen.append(which)
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(chosen), kind="stable")
    return pa.Table.from_batches(parts).take(array(order)).combine_chunks().to_batches()[0]


def _versions(
    rules: MergeRules, clause: BoundClause, batch: pa.RecordBatch, actions: Actions, fields: Sequence[DataField]
) -> pa.RecordBatch:
    values = clause.values or {}
    pairs = _pairs(rules, batch, actions.rows, actions.sources, list(values.values()))
    arrays = []
    for field in fields:
        if field.name == SEQUENCE_NUMBER:
            arrays.append(pa.nulls(len(actions.rows), pa.int64()))  # the commit gives it
        elif field.name in values:
            arrays.append(fill_default(_values(clause, field, pairs, actions.sources), field))
        else:
            kept = batch.column(batch.schema.get_field_index(rules.prefix + field.name))
            arrays.append(kept.take(array(actions.rows)))
    # NULL in a NOT NULL column is for the writer to refuse, with the column's name.
    nullable = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])
    return pa.RecordBatch.from_arrays(arrays, schema=nullable)


def _values(clause: BoundClause, field: DataField, batch: pa.RecordBatch, sources: _Ints) -> pa.Array:
    """What a clause sets a column to, for each row of a batch; ``sources`` are the rows of the source they come from.
    Raises ExpressionError, SchemaError: a value that does not fit the column."""
    expression = (clause.values or {})[field.name]
    if not clause.conforms:
        return expression.evaluate(batch)
    name = expression.column
    given = expression.evaluate(batch) if name is None else batch.column(batch.schema.get_field_index(name))
    try:
        found = conform_column(given, field, None, origin=origin_of(batch.schema))
        if not field.type.nullable and found.null_count:
            refused = SchemaError(f"column {field.name!r} is NOT NULL, and has no value", hint="fill or drop such rows")
            refused.row = int(np.argmax(found.is_null()))
            raise refused
        return found
    except SchemaError as error:
        if error.row is None:
            raise
        where = f"in row {int(sources[error.row]) + 1:,} of the source"
        raise SchemaError(f"{error.message}, {where}", hint=error.hint) from error


def inserted_rows(
    source: pa.RecordBatch, unmatched: _Ints, clauses: Sequence[BoundClause], fields: Sequence[DataField]
) -> list[pa.RecordBatch]:
    """The rows that the insert clauses make of rows of the source; columns that a clause leaves out are missing.

    ``source``: all rows, its columns with their prefix. ``unmatched``: those that match no row of the table.
    ``clauses``: the first whose condition is true for a row acts.
    """
    by_name = {field.name: field for field in fields}
    batches = []
    left = unmatched
    for clause in clauses:
        rows = left
        if clause.where is not None and len(left):
            mask = to_numpy(clause.where.matches(source.take(array(left))))
            rows, left = left[mask], left[~mask]
        elif clause.where is None:
            left = left[:0]
        if not len(rows) or clause.values is None:
            continue
        taken = source.take(array(rows))
        arrays = [_values(clause, by_name[name], taken, rows) for name in clause.values]
        schema = pa.schema([pa.field(name, arrow_type(by_name[name].type)) for name in clause.values])
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return batches
