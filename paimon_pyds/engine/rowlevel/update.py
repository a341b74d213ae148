"""UPDATE: rows for which a condition is true get new values; their new versions are written, the old ones go.

With ``deletion-vectors.enabled`` only the changed rows are written, and vectors mark their old versions; else the files
that hold them are rewritten, rows in their places. Rows whose partition or bucket changes move there. In tables with a
primary key the new versions are upserts, of the kind +U, and keys stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array
from paimon_pyds.base.options.option import text
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, fields_named
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.engine.read.file import ROW_INDEX
from paimon_pyds.engine.read.live_rows import live_rows
from paimon_pyds.engine.read.row_places import places_in_files, places_of, read_files, read_places
from paimon_pyds.engine.rowlevel.changes import RowSummary, change_rows
from paimon_pyds.engine.rowlevel.target import Candidate, Candidates, RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import (
    FoundRows,
    by_total_buckets,
    find_rows,
    in_place,
    run_tasks,
    unfiltered,
    write_rows,
)
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.conform import fill_default
from paimon_pyds.errors import OptionError, UnknownColumnError, suggest
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.row_ids import condition_fields
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Operation
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.bound import BoundExpression, Operand, bind_expression
from paimon_pyds.sql.expression.condition import bind_rows_condition
from paimon_pyds.sql.predicate.tree import Predicate


def update(
    store: TableStore,
    set: Mapping[str, Operand],
    where: Operand | Predicate | None = None,
    *,
    executor: Executor | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Set columns of the rows for which ``where`` is true, as one snapshot.

    Args:
        store: the table.
        set: new values by column: SQL text over the old values, plain Python values that are not texts, or
            `pyarrow.compute.Expression`. A text value is written ``"'text'"``.
        where: which rows; all of them when None.
        executor: where the work runs; the cores of this machine by default.
        options: over the table's own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten; and
            ``timezone`` for dates, times and literals without a zone (the local one by default).

    Raises:
        PredicateError: the condition or an expression does not parse, names no column, or fails on a value.
        SchemaError: no such column to set, or NULL for one that is NOT NULL.
        OptionError: nothing to set, or an option is unknown.
        UnsupportedError: a table whose rows can't be updated here.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    own = dict(options or {})
    timezone = zone_given(own) or default_zone()
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        fields = target.schema.fields
        predicate = bind_rows_condition(where, condition_fields(fields, target.options), timezone=timezone)
        assignments = assignments_of(set, target.schema, (Scope((), fields),), timezone)
        edits = _key_edits if target.schema.primary_keys else _edits
        return edits(target, predicate, assignments, workers)

    return change_rows(store, once, workers, options=own)


def assignments_of(
    set: Mapping[str, Operand], schema: TableSchema, scopes: Sequence[Scope], timezone: str, now: datetime | None = None
) -> dict[str, BoundExpression]:
    """New values by column, bound; columns are named as SQL does, without regard to case where that is clear.

    All expressions see the same time of day: ``now``, or that of the call.

    Raises:
        OptionError: nothing to set, or a column twice.
        SchemaError: no such column.
        ExpressionError: an expression that does not bind.
    """
    if not set:
        name = schema.fields[-1].name
        raise OptionError("an update needs columns to set", hint=f"such as {{{name!r}: …}}")
    moment = now or datetime.now(UTC)
    bound: dict[str, BoundExpression] = {}
    for name, operand in set.items():
        field = _column(schema, text("set", name))
        if field.name in bound:
            raise OptionError(f"column {field.name!r} is set twice")
        bound[field.name] = bind_expression(operand, scopes, field, timezone=timezone, now=moment)
    return bound


def _column(schema: TableSchema, name: str) -> DataField:
    found = fields_named(name, schema.fields)
    if len(found) == 1:
        return found[0]
    hint = suggest(name[:200], schema.field_names, "its columns")
    raise UnknownColumnError(f"there is no column {name!r:.100} to set", hint=hint)


def _edits(
    target: RowTarget, predicate: Predicate, assignments: Mapping[str, BoundExpression], executor: Executor
) -> RowEdits:
    candidates = target.candidates(predicate)
    found = find_rows(candidates, executor)
    if target.joins:
        return _column_edits(target, candidates, found, assignments, executor, predicate)
    removed = [target.removed(rows.number, rows.positions) for rows in found]
    messages = run_tasks(executor, _update, list(_tasks(target, candidates, found, assignments)), target)
    updated = sum(r.rows for r in removed)
    return RowEdits(removed, messages, operation=Operation.UPDATE, updated=updated, reads=predicate)


def _column_edits(
    target: RowTarget,
    candidates: Candidates,
    found: Sequence[FoundRows],
    assignments: Mapping[str, BoundExpression],
    executor: Executor,
    predicate: Predicate,
) -> RowEdits:
    """In a table of data evolution the columns that are set are written alone."""
    from paimon_pyds.engine.rowlevel.column_updates import (  # other tables do without
        ColumnsTask,
        check_columns,
        columns_context,
        update_columns,
    )

    check_columns(target.schema, assignments)
    rows = {each.number: each.positions for each in found}
    needed = {name for expression in assignments.values() for name in expression.columns}
    context = columns_context(target, assignments)
    spec = unfiltered(candidates.spec, [f for f in target.schema.fields if f.name in needed])
    values = partial(_assigned, assignments=assignments, names=list(assignments))
    touched = [c for c in candidates.files if c.number in rows]
    groups = candidates.packed(touched)
    tasks = [ColumnsTask(spec, tuple((c, rows[c.number]) for c in group), values, context) for group in groups]
    return RowEdits(
        messages=run_tasks(executor, update_columns, tasks, target),
        operation=Operation.UPDATE,
        updated=sum(map(len, rows.values())),
        reads=predicate,
        extended=frozenset(rows),
        changed_columns=frozenset(assignments),
    )


def _key_edits(
    target: RowTarget, predicate: Predicate, assignments: Mapping[str, BoundExpression], executor: Executor
) -> RowEdits:
    from paimon_pyds.engine.rowlevel import key_rows  # other tables do without merging

    schema = target.schema
    key_rows.check_keys(schema, assignments)
    key_rows.check_updates(schema, target.options)
    plan = key_rows.plan_rows(target, predicate, _read_fields(schema, assignments))
    change = _KeyUpdate(schema.field_names, [schema.field(name) for name in schema.primary_keys], assignments)
    found = key_rows.write_versions(target, plan, change, executor)
    return RowEdits(messages=found.messages, operation=Operation.UPDATE, updated=found.updated, reads=predicate)


def _read_fields(schema: TableSchema, assignments: Mapping[str, BoundExpression]) -> list[DataField]:
    """An old value that is set without being looked at needs no reading, unless its row may stay as it is."""
    needed = {name for expression in assignments.values() for name in expression.columns}
    return [f for f in schema.fields if f.name in needed or f.name not in assignments]


# ------------------------------------------------------------------------------------------------------- in each task


@dataclass(frozen=True, slots=True)
class _KeyUpdate:
    """A `paimon_pyds.engine.rowlevel.key_rows.RowChange`: new values for columns of rows, of which ``names`` are
    all."""

    names: tuple[str, ...]
    keys: Sequence[DataField]
    assignments: Mapping[str, BoundExpression]
    batch_rows: ClassVar[int] = 1

    def versions(self, rows: pa.RecordBatch) -> tuple[list[pa.RecordBatch], npt.NDArray[np.int64]]:
        """New versions of all rows."""
        from paimon_pyds.engine.rowlevel.key_rows import updated

        return [updated(rows, _assigned(rows, self.assignments, self.names), self.keys)], np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _UpdateTask:
    spec: ReadSpec
    files: tuple[tuple[Candidate, BitMap], ...]
    assignments: Mapping[str, BoundExpression]
    rewrite: bool
    context: WriteContext


def _tasks(
    target: RowTarget, candidates: Candidates, found: Sequence[FoundRows], assignments: Mapping[str, BoundExpression]
) -> Iterator[_UpdateTask]:
    rows = {f.number: f.positions for f in found}
    rewrite = not target.uses_vectors
    fields = target.schema.fields if rewrite else _read_fields(target.schema, assignments)
    for total, files in by_total_buckets(c for c in candidates.files if c.number in rows):
        context = target.moving_context(total)
        spec = unfiltered(candidates.spec, fields, metadata=(*context.layout.trailing_names, ROW_INDEX))
        for group in candidates.packed(files):
            yield _UpdateTask(spec, tuple((c, rows[c.number]) for c in group), assignments, rewrite, context)


def _update(task: _UpdateTask) -> CommitMessage:
    return write_rows(task.context, _rewritten(task) if task.rewrite else _changed(task))


def _changed(task: _UpdateTask) -> Iterator[pa.RecordBatch]:
    """New versions of the rows that change."""
    names = [f.name for f in task.context.layout.values]
    for batch in read_files(task.spec, [c.file.selecting(RowSelection(rows)) for c, rows in task.files]):
        yield _assigned(batch, task.assignments, names)


def _rewritten(task: _UpdateTask) -> Iterator[pa.RecordBatch]:
    """All live rows of the files, in order, with new versions of those that change."""
    changing = places_in_files([rows for _, rows in task.files])
    live = (c.file.selecting(live_rows(task.spec.io, c.file)) for c, _ in task.files)
    for batch in read_places(task.spec, live):
        places, plain = places_of(batch), batch.select(batch.schema.names[:-1])
        first, last = np.searchsorted(changing, [places[0], places[-1] + 1])
        at = np.searchsorted(places, changing[first:last])
        if not len(at):
            yield plain
            continue
        yield in_place(plain, at, _assigned(plain.take(array(at)), task.assignments, plain.schema.names))


def _assigned(
    batch: pa.RecordBatch, assignments: Mapping[str, BoundExpression], names: Sequence[str]
) -> pa.RecordBatch:
    """The columns of these names, new values in place of the old ones, which every expression sees."""
    fresh = {name: _new_values(expression, batch) for name, expression in assignments.items()}
    if SEQUENCE_NUMBER in names:
        fresh[SEQUENCE_NUMBER] = pa.nulls(batch.num_rows, pa.int64())  # the commit gives it
    arrays = [fresh[name] if name in fresh else batch.column(name) for name in names]
    fields = [pa.field(n, a.type) if n in fresh else batch.schema.field(n) for n, a in zip(names, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _new_values(expression: BoundExpression, batch: pa.RecordBatch) -> pa.Array:
    values = expression.evaluate(batch)
    return values if expression.target is None else fill_default(values, expression.target)
