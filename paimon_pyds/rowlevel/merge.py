"""MERGE: rows of a source update, delete and add rows of the table, as one snapshot.

The source is held in memory; the table is read in batches, only the files that may hold its keys, and of these the
columns that decide. With ``deletion-vectors.enabled`` only new versions of rows are written, else the files that hold
changed rows are rewritten, rows in their places. (Semantics: SQL:2003 MERGE with the clauses of Spark SQL.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.commit.retry import removing_unfinished
from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.errors import OptionError
from paimon_pyds.execution.executor import Executor, LocalExecutor
from paimon_pyds.execution.writing import abort_messages
from paimon_pyds.expression import Operand, SourceKeys, bind_rows_condition, split_join
from paimon_pyds.metadata.snapshot import Operation
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.tree import Const, make_or, without_computed
from paimon_pyds.read.file import ROW_INDEX
from paimon_pyds.rowlevel.changes import RowSummary, change_rows
from paimon_pyds.rowlevel.clauses import Delete, Insert, Update
from paimon_pyds.rowlevel.merge_clauses import MERGE_CLAUSES, MergeScopes, bind_clauses, listed
from paimon_pyds.rowlevel.merge_rows import MergeRules, inserted_rows
from paimon_pyds.rowlevel.merge_source import eligible_rows, key_predicate, source_table
from paimon_pyds.rowlevel.merge_tasks import Merged, MergeTask, merge_files
from paimon_pyds.rowlevel.options import MergeOptions
from paimon_pyds.rowlevel.publish import RemovedRows, RowEdits
from paimon_pyds.rowlevel.target import Candidates, RowTarget
from paimon_pyds.rowlevel.tasks import by_total_buckets, unfiltered
from paimon_pyds.types import DataField
from paimon_pyds.write import TableWriter

__all__ = ["Delete", "Insert", "Update", "merge_into"]

Progress = Callable[[int], None]
_Ints = npt.NDArray[np.int64]


def merge_into(
    store: TableStore,
    source: Any,
    on: str | Sequence[str] | Operand,
    how: MergeOptions,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> RowSummary:
    """Merge a source into the table, as one snapshot.

    Args:
        store: an append table.
        source: a pyarrow Table, batch or reader, a pandas or polars DataFrame; its rows are held in memory.
        on: which rows match: SQL text over ``target.…`` (``t.…``) and ``source.…`` (``s.…``), or names of columns that
            are equal on both sides. NULL equals nothing, unless written with ``<=>``.
        how: the clauses, and options.
        executor: where the work runs; the cores of this machine by default.
        progress: called with the rows of the files that are looked through so far.

    Raises:
        CardinalityError: two rows of the source would change one row of the table, and not both delete it.
        ExpressionError: a condition or a value does not parse, names no column, or fails on a value.
        SchemaError: a source without the columns asked for, or NULL for a column that is NOT NULL.
        OptionError: no clause, one that never acts, or an unknown option.
        UnsupportedError: a table whose rows can't be changed here.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    clauses = {name: listed(name, getattr(how, name)) for name in MERGE_CLAUSES}
    if not any(clauses.values()):
        raise OptionError("a merge needs a clause", hint='such as when_matched="update", when_not_matched="insert"')
    own = dict(how.options or {})
    zone = own.pop("timezone", "UTC")
    rows, fields = source_table(source)
    request = _Request(rows, fields, _joined_on(on), clauses, zone, datetime.now(timezone.utc))
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        return _Merge(target, request).run(workers, progress)

    return change_rows(store, once, workers, options=own)


@dataclass(frozen=True)
class _Request:
    """What a caller asked for."""

    rows: pa.RecordBatch
    fields: Sequence[DataField]
    on: Operand
    clauses: Mapping[str, Sequence[Update | Delete | Insert]]
    zone: str
    now: datetime


class _Merge:
    """One try: everything bound to one state of the table."""

    def __init__(self, target: RowTarget, request: _Request) -> None:
        schema, zone = target.schema, request.zone
        scopes = MergeScopes.of(schema, request.fields)
        source = request.rows.rename_columns([scopes.source.prefix + f.name for f in request.fields])
        condition = split_join(request.on, scopes.target, scopes.source, timezone=zone, now=request.now)
        keys = SourceKeys.build(condition.keys, source, eligible_rows(condition, source))
        bound = {
            name: bind_clauses(name, clauses, schema, scopes, zone, request.now)
            for name, clauses in request.clauses.items()
        }
        self._target = target
        self._inserts = bound["when_not_matched"]
        self._rules = MergeRules(
            condition, source, keys, bound["when_matched"], bound["when_not_matched_by_source"], scopes.target.prefix
        )
        others = [
            # What is computed may fail on rows that have a source row, for which it is not asked.
            without_computed(bind_rows_condition(c.where, schema.fields, qualifiers=scopes.target.names, timezone=zone))
            for c in request.clauses["when_not_matched_by_source"]
        ]
        self._predicate = make_or(key_predicate(condition, keys, zone), *others)

    def run(self, executor: Executor, progress: Progress | None) -> RowEdits:
        """Look through the table, write new versions and new rows."""
        done = _MergedSoFar(self._target)
        with removing_unfinished(partial(abort_messages, self._target.store, done.messages)):
            self._change(done, executor, progress)
            if self._inserts:
                self._insert(done)
        # A row that matches and stays as it is has kept a row of the source from being inserted.
        return replace(done.edits(), reads=self._predicate, kept=done.kept if self._inserts else {})

    def _change(self, done: _MergedSoFar, executor: Executor, progress: Progress | None) -> None:
        if self._predicate in (Const.FALSE, Const.UNKNOWN):
            return
        candidates = self._target.candidates(self._predicate, self._fields())
        sizes = {c.number: c.file.row_count for c in candidates.files}
        seen = 0
        for result in executor.map(merge_files, list(self._tasks(candidates))):
            done.add(result)
            seen += sum(sizes[number] for number in result.numbers)
            if progress is not None:
                progress(seen)

    def _fields(self) -> list[DataField]:
        """What is read of rows that may match: what decides, and with vectors all that their new versions need."""
        names = self._rules.columns()
        if self._target.uses_vectors:
            names |= self._needed()
        return [f for f in self._target.schema.fields if self._rules.prefix + f.name in names]

    def _needed(self) -> set[str]:
        """Columns of the table that new versions of rows are made of."""
        updates = [c for c in (*self._rules.matched, *self._rules.by_source) if c.values is not None]
        kept = {f.name for c in updates for f in self._target.schema.fields if f.name not in (c.values or {})}
        used = {name for c in updates for e in (c.values or {}).values() for name in e.columns}
        return {self._rules.prefix + name for name in kept} | used

    def _tasks(self, candidates: Candidates) -> Iterator[MergeTask]:
        for total, files in by_total_buckets(iter(candidates.files)):
            context = self._target.moving_context(total)
            metadata = (*context.layout.trailing_names, ROW_INDEX)
            spec, rewrite = candidates.spec, None
            if self._target.uses_vectors:
                spec = replace(spec, metadata_columns=metadata)
            else:
                rewrite = unfiltered(spec, self._target.schema.fields, metadata=metadata)
            for group in candidates.packed(files):
                yield MergeTask(spec, rewrite, group, self._rules, context)

    def _insert(self, done: _MergedSoFar) -> None:
        source = self._rules.source
        unmatched = np.ones(source.num_rows, np.bool_)
        unmatched[done.matched] = False
        batches = inserted_rows(source, np.flatnonzero(unmatched), self._inserts, self._target.schema.fields)
        if not batches:
            return
        with TableWriter(self._target.write_context()) as writer:
            for batch in batches:
                writer.write(batch)
            done.inserted = writer.rows_written
            done.messages.append(writer.prepare_commit())


def _joined_on(on: str | Sequence[str] | Operand) -> Operand:
    """Names of columns as a condition."""
    if isinstance(on, str) or not isinstance(on, Sequence):
        return on
    if not on:
        raise OptionError("a merge needs a condition, or columns that are equal on both sides")
    quoted = [f"`{str(name).replace('`', '``')}`" for name in on]
    return " AND ".join(f"target.{name} = source.{name}" for name in quoted)


@dataclass
class _MergedSoFar:
    """What all tasks together did."""

    target: RowTarget
    messages: list[CommitMessage] = field(default_factory=list)
    removed: list[RemovedRows] = field(default_factory=list)
    updated: int = 0
    inserted: int = 0
    matched: _Ints = field(default_factory=lambda: np.empty(0, np.int64))
    kept: dict[int, BitMap] = field(default_factory=dict)

    def add(self, result: Merged) -> None:
        """Take a task's result."""
        self.messages.append(result.message)
        self.updated += result.updated
        self.matched = np.union1d(self.matched, result.matched)
        self.kept.update(result.kept)
        for number, positions in result.positions.items():
            count = len(positions)
            partly = self.target.uses_vectors and count < self.target.live_rows(number)
            self.removed.append(RemovedRows(number, positions if partly else None, count))

    def edits(self) -> RowEdits:
        """All changes."""
        removed = sorted(self.removed, key=lambda r: r.number)
        deleted = sum(r.rows for r in removed) - self.updated
        return RowEdits(
            removed,
            self.messages,
            operation=Operation.MERGE,
            deleted=deleted,
            updated=self.updated,
            inserted=self.inserted,
        )
