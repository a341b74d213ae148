"""DELETE: rows for which a condition is true leave the table; those for which it is false or NULL stay.

A file whose index answers the condition exactly is not opened. With ``deletion-vectors.enabled`` deleted rows are
marked by vectors, else their files are rewritten without them. Files whose partition or statistics say that the
condition is true for all their rows go by metadata alone. In tables with a primary key a version of the kind -D deletes
a row, and only whole partitions go by metadata; but with merge-engine=first-row files are rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.engine.rowlevel.changes import RowSummary, change_rows
from paimon_pyds.engine.rowlevel.target import RemovedRows, RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import find_rows, remove_rows
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.row_ids import condition_fields
from paimon_pyds.metadata.snapshot import Operation
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.expression.bound import Operand
from paimon_pyds.sql.expression.condition import bind_rows_condition
from paimon_pyds.sql.expression.matching import key_table, matching_rows
from paimon_pyds.sql.predicate.tree import Const, Predicate, make_and
from paimon_pyds.typing import Rows


def delete(
    store: TableStore,
    where: Operand | Predicate | None,
    *,
    matching: Rows | None = None,
    executor: Executor | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Delete the rows for which ``where`` is true, as one snapshot.

    ``where``: Spark SQL text, a predicate or a `pyarrow.compute.Expression`; ``"TRUE"`` for every row. ``matching``:
    keys, of which rows must have the values of one, besides; a condition may then be left out. ``options``:
    over the table's own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten; and ``timezone``
    for timestamp literals without a zone (the local one by default).

    Raises:
        PredicateError: the condition does not parse, or names no column.
        OptionError: there is no condition, or an option is unknown.
        UnsupportedError: a table whose rows can't be deleted here.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    if matching is None and (where is None or (isinstance(where, str) and not where.strip())):
        raise OptionError("a delete needs a condition", hint='say "TRUE" to delete every row')
    keys = None if matching is None else key_table(matching)
    own = dict(options or {})
    timezone = zone_given(own) or default_zone()
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        predicate = bind_rows_condition(
            where, condition_fields(target.schema.fields, target.options), timezone=timezone
        )
        if keys is not None:
            predicate = make_and(predicate, matching_rows(keys, target.schema.fields, timezone))
        if target.schema.primary_keys:
            return _key_edits(target, predicate, workers)
        return _edits(target, predicate, workers)

    return change_rows(store, once, workers, options=own)


def _edits(
    target: RowTarget, predicate: Predicate, executor: Executor, remove: Callable[..., RowEdits] = remove_rows
) -> RowEdits:
    """``remove``: gives the edits that take rows of files away, as `remove_rows`."""
    candidates = target.candidates(predicate)
    whole = [c for c in candidates.files if c.file.residual is Const.TRUE]
    others = [c for c in candidates.files if c.file.residual is not Const.TRUE]
    whole_files = [RemovedRows(c.number, None, target.live_rows(c.number)) for c in whole]
    rest = replace(candidates, files=tuple(others))
    edits = remove(target, rest, find_rows(rest, executor), executor)
    removed = sorted([*whole_files, *edits.removed], key=lambda r: r.number)
    return replace(
        edits, removed=removed, operation=Operation.DELETE, deleted=sum(r.rows for r in removed), reads=predicate
    )


def _key_edits(target: RowTarget, predicate: Predicate, executor: Executor) -> RowEdits:
    from paimon_pyds.engine.rowlevel import key_rows  # other tables do without merging

    dropped = key_rows.drop_partitions(target, predicate, executor)
    if dropped is not None:
        return dropped
    if target.options.get("merge-engine") == "first-row":
        from paimon_pyds.engine.rowlevel import first_rows

        first_rows.check_compacted(target, predicate, executor)
        return _edits(target, predicate, executor, first_rows.remove_rows)
    key_rows.check_deletes(target.options)
    plan = key_rows.plan_rows(target, predicate, target.schema.fields)
    found = key_rows.write_versions(target, plan, key_rows.Deletes.of(target.schema), executor)
    return RowEdits(messages=found.messages, operation=Operation.DELETE, deleted=found.deleted, reads=predicate)
