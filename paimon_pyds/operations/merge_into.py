"""MERGE: rows of a source update, delete and add rows of the table, as one snapshot.

The source is held in memory; the table is read in batches, only the files that may hold its keys, and of these the
columns that decide. With ``deletion-vectors.enabled`` only new versions of rows are written, else the files that hold
changed rows are rewritten, rows in their places. (Semantics: SQL:2003 MERGE with the clauses of Spark SQL.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.errors import OptionError
from paimon_pyds.expression import Operand, Scope, SourceKeys, split_condition, split_join
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.operations.executor import Executor, LocalExecutor
from paimon_pyds.operations.merge_clauses import Clauses, Delete, Insert, MergeScopes, Update, bind_clauses, listed
from paimon_pyds.operations.merge_rows import Actions, MergeRules, act, inserted_rows, new_versions
from paimon_pyds.operations.merge_source import eligible_rows, key_predicate, source_table
from paimon_pyds.operations.row_changes import RowSummary, change_rows
from paimon_pyds.operations.row_changes_publish import RemovedRows, RowEdits
from paimon_pyds.operations.row_changes_target import Candidate, Candidates, RowTarget
from paimon_pyds.operations.row_changes_tasks import by_total_buckets, reading
from paimon_pyds.predicate.tree import Const, Predicate, make_or
from paimon_pyds.read.file import read_file
from paimon_pyds.read.positions import ROW_INDEX, live_rows
from paimon_pyds.scan.split import ReadSpec
from paimon_pyds.storage.discard import discard
from paimon_pyds.types import DataField
from paimon_pyds.write import CommitMessage, TableWriter, WriteContext

__all__ = ["Delete", "Insert", "Update", "merge_into"]

Progress = Callable[[int], None]
_Ints = npt.NDArray[np.int64]


def merge_into(
    store: TableStore,
    source: Any,
    on: str | Sequence[str] | Operand,
    *,
    when_matched: Clauses = None,
    when_not_matched: Clauses = None,
    when_not_matched_by_source: Clauses = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Merge a source into the table, as one snapshot.

    Args:
        store: an append table.
        source: a pyarrow Table, batch or reader, a pandas or polars DataFrame; its rows are held in memory.
        on: which rows match: SQL text over ``target.…`` (``t.…``) and ``source.…`` (``s.…``), or names of columns that
            are equal on both sides. NULL equals nothing, unless written with ``<=>``.
        when_matched: `Update` and `Delete` clauses, for rows of the table that match; the first whose condition is true
            acts. Texts do as well: "update", "delete", "source.gone THEN DELETE", "UPDATE SET v = source.v".
        when_not_matched: `Insert` clauses, for rows of the source that match nothing.
        when_not_matched_by_source: `Update` and `Delete` clauses, for rows of the table that match nothing.
        executor: where the work runs; the cores of this machine by default.
        progress: called with the rows of the files that are looked through so far.
        options: over the table's own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten; and
            ``timezone`` for dates, times and literals without a zone (UTC by default).

    Raises:
        CardinalityError: two rows of the source would change one row of the table, and not both delete it.
        ExpressionError: a condition or a value does not parse, names no column, or fails on a value.
        SchemaError: a source without the columns asked for, or NULL for a column that is NOT NULL.
        OptionError: no clause, one that never acts, or an unknown option.
        UnsupportedError: a table whose rows can't be changed here.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    clauses = {
        "when_matched": listed("when_matched", when_matched),
        "when_not_matched": listed("when_not_matched", when_not_matched),
        "when_not_matched_by_source": listed("when_not_matched_by_source", when_not_matched_by_source),
    }
    if not any(clauses.values()):
        raise OptionError("a merge needs a clause", hint='such as when_matched="update", when_not_matched="insert"')
    own = dict(options or {})
    zone = own.pop("timezone", "UTC")
    rows, fields = source_table(source)
    now = datetime.now(timezone.utc)
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        return _Merge(target, rows, fields, on, clauses, zone, now).run(workers, progress)

    return change_rows(store, once, options=own)


class _Merge:
    """One try: everything bound to one state of the table."""

    def __init__(
        self,
        target: RowTarget,
        rows: pa.RecordBatch,
        fields: Sequence[DataField],
        on: str | Sequence[str] | Operand,
        clauses: Mapping[str, Sequence[Update | Delete | Insert]],
        zone: str,
        now: datetime,
    ) -> None:
        schema = target.schema
        self._target, self._zone = target, zone
        scopes = MergeScopes.of(schema, fields)
        source = rows.rename_columns([scopes.source.prefix + f.name for f in fields])
        condition = split_join(_joined_on(on), scopes.target, scopes.source, timezone=zone, now=now)
        bound = {name: bind_clauses(name, given, schema, scopes, zone, now) for name, given in clauses.items()}
        self._inserts = bound["when_not_matched"]
        self._prefix = scopes.target.prefix
        keys = SourceKeys.build(condition.keys, source, eligible_rows(condition, source))
        self._rules = MergeRules(condition, source, keys, bound["when_matched"], bound["when_not_matched_by_source"])
        self._predicate = key_predicate(condition, keys, zone)
        if self._rules.by_source:
            conditions = [_predicate_of(c.where, scopes.target, zone) for c in clauses["when_not_matched_by_source"]]
            self._predicate = make_or(self._predicate, *conditions)
        elif not self._rules.matched and not self._inserts:
            self._predicate = Const.FALSE
        if any(c.values is not None for c in (*self._rules.matched, *self._rules.by_source)) or (
            not target.merge_on_read and (self._rules.matched or self._rules.by_source)
        ):
            target.check_rewritable("merging")

    def run(self, executor: Executor, progress: Progress | None) -> RowEdits:
        """Look through the table, write new versions and new rows."""
        done = _Done(self._target)
        try:
            self._change(done, executor, progress)
            if self._inserts:
                self._insert(done)
        except BaseException:
            discard(self._target.store.io, (path for message in done.messages for path in message.paths()))
            raise
        return done.edits()

    def _change(self, done: _Done, executor: Executor, progress: Progress | None) -> None:
        if self._predicate in (Const.FALSE, Const.UNKNOWN):
            return
        candidates = self._target.candidates(self._predicate, self._fields())
        sizes = {c.number: c.file.row_count for c in candidates.files}
        seen = 0
        for result in executor.map(_merge_files, list(self._tasks(candidates))):
            done.add(result)
            seen += sum(sizes[number] for number in result.numbers)
            if progress is not None:
                progress(seen)

    def _fields(self) -> list[DataField]:
        """What is read of rows that may match: what decides, and with vectors all that their new versions need."""
        names = self._rules.columns()
        if self._target.merge_on_read:
            names |= self._needed()
        return [f for f in self._target.schema.fields if self._prefix + f.name in names]

    def _needed(self) -> set[str]:
        """Columns of the table that new versions of rows are made of."""
        updates = [c for c in (*self._rules.matched, *self._rules.by_source) if c.values is not None]
        kept = {f.name for c in updates for f in self._target.schema.fields if f.name not in (c.values or {})}
        used = {name for c in updates for e in (c.values or {}).values() for name in e.columns}
        return {self._prefix + name for name in kept} | used

    def _tasks(self, candidates: Candidates) -> Iterator[_MergeTask]:
        schema = self._target.schema
        rewrite = None
        if not self._target.merge_on_read:
            rewrite = reading(candidates.spec, schema.fields, metadata=(ROW_INDEX,))
        for total, files in by_total_buckets(iter(candidates.files)):
            context = self._target.write_context(total)
            for group in candidates.packed(files):
                yield _MergeTask(candidates.spec, rewrite, group, self._rules, schema.fields, self._prefix, context)

    def _insert(self, done: _Done) -> None:
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


def _predicate_of(where: Operand | None, scope: Scope, zone: str) -> Predicate:
    return split_condition(where, scope.fields, qualifiers=scope.names, timezone=zone).predicate


# ------------------------------------------------------------------------------------------------------- in each task


@dataclass(frozen=True)
class _MergeTask:
    """Some files: how to look through them, how to rewrite them (None with vectors), and what to do to their rows."""

    spec: ReadSpec
    rewrite: ReadSpec | None
    files: tuple[Candidate, ...]
    rules: MergeRules
    fields: tuple[DataField, ...]
    prefix: str
    context: WriteContext

    @property
    def updating(self) -> _Ints:
        """Numbers of the clauses that update."""
        clauses = (*self.rules.matched, *self.rules.by_source)
        return np.array([n for n, clause in enumerate(clauses) if clause.values is not None], np.int64)


@dataclass(frozen=True)
class _Merged:
    """What a task found and wrote.

    Attributes:
        numbers: all its files.
        positions: rows that go, by file.
        matched: rows of the source that match.
        updated: how many rows have new versions.
        message: new data files.
    """

    numbers: tuple[int, ...]
    positions: Mapping[int, BitMap]
    matched: _Ints
    updated: int
    message: CommitMessage


@dataclass
class _Done:
    """What all tasks together did."""

    target: RowTarget
    messages: list[CommitMessage] = field(default_factory=list)
    removed: list[RemovedRows] = field(default_factory=list)
    updated: int = 0
    inserted: int = 0
    matched: _Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, result: _Merged) -> None:
        """Take a task's result."""
        self.messages.append(result.message)
        self.updated += result.updated
        self.matched = np.union1d(self.matched, result.matched)
        for number, positions in result.positions.items():
            count = len(positions)
            partly = self.target.merge_on_read and count < self.target.live_rows(number)
            self.removed.append(RemovedRows(number, positions if partly else None, count))

    def edits(self) -> RowEdits:
        """All changes."""
        removed = sorted(self.removed, key=lambda r: r.number)
        deleted = sum(r.rows for r in removed) - self.updated
        return RowEdits(removed, self.messages, deleted=deleted, updated=self.updated, inserted=self.inserted)


def _merge_files(task: _MergeTask) -> _Merged:
    positions: dict[int, BitMap] = {}
    matched: list[_Ints] = []
    updated = 0
    with TableWriter(task.context) as writer:
        for candidate in task.files:
            found = _FileActions.find(task, candidate, writer)
            matched.append(found.matched)
            updated += found.updated
            if found.positions:
                positions[candidate.number] = found.positions
                if task.rewrite is not None:
                    _rewrite(task, task.rewrite, candidate, found, writer)
        message = writer.prepare_commit()
    sources = np.unique(np.concatenate(matched)) if matched else np.empty(0, np.int64)
    return _Merged(tuple(c.number for c in task.files), positions, sources, updated, message)


@dataclass
class _FileActions:
    """What becomes of the rows of one file; places are kept for files that are rewritten."""

    positions: BitMap
    matched: _Ints
    updated: int
    at: _Ints
    clauses: _Ints
    sources: _Ints

    @classmethod
    def find(cls, task: _MergeTask, candidate: Candidate, writer: TableWriter) -> _FileActions:
        """Look through a file; with vectors new versions are written right away."""
        places: list[_Ints] = []
        actions: list[Actions] = []
        updated = 0
        for batch in read_file(task.spec, candidate.file):
            rows = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
            named = _prefixed(batch, task.prefix)
            found = act(task.rules, named)
            updated += int(np.count_nonzero(np.isin(found.clauses, task.updating)))
            if task.rewrite is None:
                _write_versions(task, named, found.rows, found.clauses, found.sources, writer)
            places.append(rows[found.rows])
            actions.append(found)
        at = np.concatenate(places) if places else np.empty(0, np.int64)
        clauses, sources, matched = (
            np.concatenate([getattr(a, name) for a in actions]) if actions else np.empty(0, np.int64)
            for name in ("clauses", "sources", "matched")
        )
        return cls(BitMap(at.astype(np.uint32)), np.unique(matched), updated, at, clauses, sources)


def _write_versions(
    task: _MergeTask, batch: pa.RecordBatch, rows: _Ints, clauses: _Ints, sources: _Ints, writer: TableWriter
) -> None:
    versions = new_versions(task.rules, batch, rows, clauses, sources, task.fields, task.prefix)
    if versions is not None:
        writer.write(versions)


def _rewrite(task: _MergeTask, spec: ReadSpec, candidate: Candidate, found: _FileActions, writer: TableWriter) -> None:
    """All live rows of a file that stay, and new versions of those that are updated in their places."""
    for batch in read_file(spec, candidate.selecting(live_rows(spec.io, candidate.file))):
        positions = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
        plain = batch.select(batch.schema.names[:-1])
        first, last = np.searchsorted(found.at, [positions[0], positions[-1] + 1])
        if first == last:
            writer.write(plain)
            continue
        window = slice(int(first), int(last))
        rows = np.searchsorted(positions, found.at[window])
        clauses, sources = found.clauses[window], found.sources[window]
        named = _prefixed(batch, task.prefix)
        versions = new_versions(task.rules, named, rows, clauses, sources, task.fields, task.prefix)
        writer.write(_in_place(plain, rows, np.isin(clauses, task.updating), versions))


def _in_place(
    plain: pa.RecordBatch, rows: _Ints, updates: npt.NDArray[np.bool_], versions: pa.RecordBatch | None
) -> pa.RecordBatch:
    order = np.arange(plain.num_rows)
    parts = [plain]
    if versions is not None:
        order[rows[updates]] = plain.num_rows + np.arange(versions.num_rows)
        parts = [pa.RecordBatch.from_arrays(plain.columns, schema=versions.schema), versions]
    kept = np.ones(plain.num_rows, np.bool_)
    kept[rows[~updates]] = False
    table = pa.Table.from_batches(parts).take(pa.array(order[kept])).combine_chunks()
    return table.to_batches()[0] if table.num_rows else plain.slice(0, 0)


def _prefixed(batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    return batch.rename_columns([prefix + name for name in batch.schema.names])
