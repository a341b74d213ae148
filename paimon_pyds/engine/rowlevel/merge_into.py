"""MERGE: rows of a source update, delete and add rows of the table, as one snapshot.

The source is held in memory; the table is read in batches, only the files that may hold its keys, and of these the
columns that decide. With ``deletion-vectors.enabled``, or a primary key, only new versions of rows are written, else
the files that hold changed rows are rewritten, rows in their places. (Semantics: SQL:2003 MERGE with the clauses of
Spark SQL.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.progress import phase, worked
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.base.types import DataField
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.execution.writing import abort_messages
from paimon_pyds.engine.read.file import ROW_INDEX
from paimon_pyds.engine.read.live_rows import live_rows
from paimon_pyds.engine.read.row_places import groups_of, places_of, read_places, rows_of_files
from paimon_pyds.engine.rowlevel.changes import RowSummary, change_rows
from paimon_pyds.engine.rowlevel.clauses import Delete, Insert, MergeOptions, Update
from paimon_pyds.engine.rowlevel.merge_clauses import MERGE_CLAUSES, BoundClause, MergeScopes, bind_clauses, listed
from paimon_pyds.engine.rowlevel.merge_rows import Actions, MergeRules, act, inserted_rows, new_versions
from paimon_pyds.engine.rowlevel.merge_source import (
    eligible_rows,
    join_operand,
    joined_on,
    key_predicate,
    source_table,
    text_in_keys,
    typed_as,
)
from paimon_pyds.engine.rowlevel.target import Candidate, Candidates, RemovedRows, RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import by_total_buckets, in_place, unfiltered, write_rows
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import ExpressionError, OptionError
from paimon_pyds.keys.bucket.dynamic import KeyShare
from paimon_pyds.metadata.commit_message import CommitMessage, Guard
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.snapshot import Operation
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.expression.bound import Operand
from paimon_pyds.sql.expression.condition import bind_rows_condition
from paimon_pyds.sql.expression.join import JoinCondition, SourceKeys, split_join
from paimon_pyds.sql.predicate.relaxation import without_computed
from paimon_pyds.sql.predicate.tree import Const, make_or
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.engine.rowlevel.key_rows import Deletes
_Ints = npt.NDArray[np.int64]


def merge_into(
    store: TableStore,
    source: Any,
    on: str | Sequence[str] | Operand,
    how: MergeOptions,
    *,
    executor: Executor | None = None,
) -> RowSummary:
    """Merge a source into the table, as one snapshot.

    ``source``: what `Table.append` takes; its rows are held in memory. ``on``: which rows match: SQL text over
    ``target.…`` (``t.…``) and ``source.…`` (``s.…``), or names of columns, in a list or between commas, that are equal
    on both sides. NULL equals nothing, unless written with ``<=>``. ``how``: the clauses, and options.

    Raises:
        CardinalityError: two rows of the source would change one row of the table, and not both delete it.
        ExpressionError: a condition or a value does not parse, names no column, or fails on a value.
        SchemaError: a source without the required columns, or NULL for a column that is NOT NULL.
        OptionError: no clause, one that never acts, nothing to join on, or an unknown option.
        ArgumentTypeError: ``on`` is neither text, nor names, nor an expression.
        UnsupportedError: a table whose rows can't be changed here.
        CommitConflictError, CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    clauses = {name: listed(name, getattr(how, name)) for name in MERGE_CLAUSES}
    if not any(clauses.values()):
        raise OptionError("a merge needs a clause", hint='such as when_matched="update", when_not_matched="insert"')
    joined, own = join_operand(on), dict(how.options or {})
    zone = zone_given(own) or default_zone()
    rows, fields = source_table(source, store.latest_schema().fields)
    request = _Request(rows, fields, joined, clauses, zone, datetime.now(UTC))
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        return _Merge(target, request).run(workers)

    return change_rows(store, once, workers, options=own)


@dataclass(frozen=True)
class _Request:
    """What a caller wants."""

    rows: pa.RecordBatch
    fields: Sequence[DataField]
    on: Operand
    clauses: Mapping[str, Sequence[Update | Delete | Insert]]
    zone: str
    now: datetime


class _Merge:
    """One try: everything bound to one state of the table, and what all tasks together did."""

    def __init__(self, target: RowTarget, request: _Request) -> None:
        schema, zone = target.schema, request.zone
        rows, fields = typed_as(request.rows, schema.fields)
        scopes = MergeScopes.of(schema, fields, rows.schema, takes_some=bool(target.options.get("write.merge-schema")))
        named = rows.rename_columns([scopes.source.prefix + f.name for f in fields])
        source = named.replace_schema_metadata(rows.schema.metadata)
        on = joined_on(request.on, schema.fields, fields)
        condition = split_join(on, scopes.target, scopes.source, timezone=zone, now=request.now)
        try:
            keys = SourceKeys.build(condition.keys, source, eligible_rows(condition, source))
        except ExpressionError as error:
            raise text_in_keys(error, condition, source, request.fields) from error
        bound = {
            name: bind_clauses(name, clauses, schema, scopes, zone, request.now)
            for name, clauses in request.clauses.items()
        }
        if schema.primary_keys:
            _check_clauses(target, bound, condition)
        self._target = target
        self._inserts = bound["when_not_matched"]
        self._rules = MergeRules(
            condition, source, keys, bound["when_matched"], bound["when_not_matched_by_source"], scopes.target.prefix
        )
        others = [
            # Computed conditions may fail on rows that have a source row, to which the clause does not apply.
            without_computed(bind_rows_condition(c.where, schema.fields, qualifiers=scopes.target.names, timezone=zone))
            for c in request.clauses["when_not_matched_by_source"]
        ]
        self._predicate = make_or(key_predicate(condition, keys, zone), *others)
        self._messages: list[CommitMessage] = []
        self._guards: list[Guard] = []
        self._removed: list[RemovedRows] = []
        self._unchanged: dict[int, BitMap] = {}
        self._unmatched = np.ones(source.num_rows, np.bool_)
        self._updated = self._deleted = 0
        self._extended: set[int] = set()
        self._columns = self._checked_columns() if target.joins else frozenset()

    def run(self, executor: Executor) -> RowEdits:
        """Look through the table, write new versions and new rows."""
        with removing_unfinished(partial(abort_messages, self._target.store, self._messages)):
            if self._predicate not in (Const.FALSE, Const.UNKNOWN):
                change = self._change_keys if self._target.schema.primary_keys else self._change
                change(executor)
            inserted = self._insert()
        return RowEdits(
            sorted(self._removed, key=lambda r: r.number),
            self._messages,
            operation=Operation.MERGE,
            deleted=self._deleted,
            updated=self._updated,
            inserted=inserted,
            reads=self._predicate,
            # A row that matches and stays as it is has prevented the insert of a row of the source.
            unchanged=self._unchanged if self._inserts else {},
            guards=self._guards,
            extended=frozenset(self._extended),
            changed_columns=self._columns if self._extended else frozenset(),
        )

    def _checked_columns(self) -> frozenset[str]:
        from paimon_pyds.engine.rowlevel.column_updates import check_columns

        names = _set_columns(self._rules)
        check_columns(self._target.schema, names)
        return names

    def _change(self, executor: Executor) -> None:
        candidates = self._target.candidates(self._predicate, self._fields())
        tasks = list(self._tasks(candidates))
        for result in mapped(executor, "merging", _merge_files, tasks, lambda task: [c.file for c in task.files]):
            self._messages.append(result.message)
            self._updated += result.updated
            self._unmatched[result.matched] = False
            self._unchanged.update(result.unchanged)
            self._removed += [self._target.removed(number, rows) for number, rows in result.positions.items()]
            self._extended |= result.extended
        self._deleted = sum(r.rows for r in self._removed) - (0 if self._target.joins else self._updated)

    def _change_keys(self, executor: Executor) -> None:
        """In a table with a primary key rows that go, and rows that change, get new versions."""
        from paimon_pyds.engine.rowlevel import key_rows  # other tables do without merging

        target = self._target
        schema = target.schema
        plan = key_rows.plan_rows(target, self._predicate, self._fields())
        change = _KeyMerge(
            schema.fields,
            [schema.field(name) for name in schema.primary_keys],
            self._rules,
            key_rows.Deletes.of(schema),
        )
        found = key_rows.write_versions(target, plan, change, executor)
        self._messages += found.messages
        for rows in found.matched:
            self._unmatched[rows] = False
        self._updated, self._deleted = found.updated, found.deleted

    def _fields(self) -> list[DataField]:
        """The columns to read of rows that may match: those that decide, and all that new versions need, if these are
        written to other files."""
        rules, schema = self._rules, self._target.schema
        fields, names = schema.fields, rules.columns()
        if schema.primary_keys:
            names |= {rules.prefix + name for name in schema.primary_keys}
            if any(c.values is None for c in (*rules.matched, *rules.by_source)):
                return list(fields)
        if self._target.uses_vectors or schema.primary_keys or self._target.joins:
            fields = tuple(f for f in fields if f.name in self._columns) if self._target.joins else fields
            for values in (c.values for c in (*rules.matched, *rules.by_source) if c.values is not None):
                names |= {rules.prefix + f.name for f in fields if f.name not in values}
                names |= {name for expression in values.values() for name in expression.columns}
        return [f for f in schema.fields if rules.prefix + f.name in names]

    def _tasks(self, candidates: Candidates) -> Iterator[_MergeTask]:
        from paimon_pyds.engine.rowlevel.column_updates import columns_context

        for total, files in by_total_buckets(candidates.files):
            context = self._target.moving_context(total)
            metadata = (*context.layout.trailing_names, ROW_INDEX)
            spec, rewrite = candidates.spec, None
            if self._target.joins:
                context = columns_context(self._target, self._columns)
            if self._target.uses_vectors or self._target.joins:
                spec = replace(spec, metadata_columns=metadata)
            else:
                rewrite = unfiltered(spec, self._target.schema.fields, metadata=metadata)
            for group in candidates.packed(files):
                yield _MergeTask(spec, rewrite, group, self._rules, context)

    def _insert(self) -> int:
        """Write the rows that the insert clauses make of rows of the source without a match; how many these are."""
        rows = np.flatnonzero(self._unmatched)
        batches = inserted_rows(self._rules.source, rows, self._inserts, self._target.schema.fields)
        if batches and self._target.schema.crosses_partitions:
            self._insert_by_key(batches)
        elif batches:
            with phase("writing"):
                self._messages.append(write_rows(self._target.write_context(), batches, 1, KeyShare()))
        return sum(batch.num_rows for batch in batches)

    def _insert_by_key(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write new rows to where their keys are. What moves a key can't be known of by what inserts it."""
        from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
        from paimon_pyds.engine.cross_partition.upsert import UnchangedKeys
        from paimon_pyds.engine.cross_partition.upsert import write_rows as write_by_key

        target, rules = self._target, self._rules
        context = target.write_context()
        changed = {n for clause in (*rules.matched, *rules.by_source) for n in clause.values or ()}
        moving = not changed.isdisjoint(target.schema.partition_keys)
        places = KeyPlaces.of(target.store, context, target.snapshot)
        with phase("writing"):
            message = write_by_key(context, batches, replace(places, only_new=moving), 1)
        self._messages.append(message)
        self._guards.append(UnchangedKeys(places, [message]))


def _check_clauses(target: RowTarget, clauses: Mapping[str, Sequence[BoundClause]], condition: JoinCondition) -> None:
    """Raises UnsupportedError for clauses that a table with a primary key has no versions for."""
    from paimon_pyds.engine.rowlevel import key_rows

    joined = {key.column.name for key in condition.keys if key.column is not None}
    for name in ("when_matched", "when_not_matched_by_source"):
        for clause in clauses[name]:
            if clause.values is None:
                key_rows.check_deletes(target.options)
            else:
                key_rows.check_updates(target.schema, target.options)
                key_rows.check_keys(target.schema, clause.values, joined if name == "when_matched" else ())


# ------------------------------------------------------------------------------------------------------- in each task


@dataclass(frozen=True)
class _KeyMerge:
    """A `paimon_pyds.engine.rowlevel.key_rows.RowChange`: what the clauses make of rows with all their ``fields``."""

    fields: Sequence[DataField]
    keys: Sequence[DataField]
    rules: MergeRules
    deletes: Deletes

    @property
    def batch_rows(self) -> int:
        return self.rules.keys.batch_rows

    def versions(self, rows: pa.RecordBatch) -> tuple[list[pa.RecordBatch], _Ints]:
        """New versions of the rows that are updated, and deletes of those that go."""
        from paimon_pyds.engine.rowlevel.key_rows import updated

        named = _prefixed(rows, self.rules.prefix)
        actions = act(self.rules, named)
        fresh = new_versions(self.rules, named, actions, self.fields)
        updates = np.isin(actions.clauses, self.rules.updating)
        parts = [] if fresh is None else [updated(rows.take(from_numpy(actions.rows[updates])), fresh, self.keys)]
        if not updates.all():
            parts += self.deletes.versions(rows.take(from_numpy(actions.rows[~updates])))[0]
        return parts, actions.matched


@dataclass(frozen=True)
class _MergeTask:
    """Some files: how to look through them, how to rewrite them (None with vectors), and what to do to their rows."""

    spec: ReadSpec
    rewrite: ReadSpec | None
    files: tuple[Candidate, ...]
    rules: MergeRules
    context: WriteContext

    def new_versions(self, batch: pa.RecordBatch, actions: Actions) -> pa.RecordBatch | None:
        """New versions of rows of a batch, with the columns in which rows keep their ids."""
        fields = (*self.context.schema.fields, *self.context.layout.trailing)
        return new_versions(self.rules, batch, actions, fields)


@dataclass(frozen=True)
class _Merged:
    """What a task found and wrote.

    Attributes:
        positions: rows that go, by file.
        unchanged: rows that match and stay as they are, by file.
        matched: rows of the source that match.
        extended: row groups that got files of new columns.
    """

    positions: Mapping[int, BitMap]
    unchanged: Mapping[int, BitMap]
    matched: _Ints
    updated: int
    message: CommitMessage
    extended: frozenset[int] = frozenset()


def _merge_files(task: _MergeTask) -> _Merged:
    """Merge the files of a task. Raises as `merge_rows.act` does; what was written is then removed."""
    if task.context.columns is not None:
        return _merge_columns(task)
    positions: dict[int, BitMap] = {}
    unchanged: dict[int, BitMap] = {}
    matched = np.zeros(task.rules.source.num_rows, np.bool_)
    updated = 0
    waiting = iter(task.files)
    with TableWriter(task.context) as writer:
        for group in groups_of(task.spec, (candidate.file for candidate in task.files)):
            actions = _actions(task, group, writer)
            matched[actions.matched] = True
            updated += int(np.count_nonzero(np.isin(actions.clauses, task.rules.updating)))
            some = list(islice(waiting, len(group)))
            for found, places in ((unchanged, actions.unchanged), (positions, actions.rows)):
                rows = rows_of_files(places, len(group))
                found.update((each.number, own) for each, own in zip(some, rows, strict=True) if own)
            if task.rewrite is not None:
                changed = [number for number, each in enumerate(some) if each.number in positions]
                _rewrite(task, task.rewrite, [group[number] for number in changed], changed, actions, writer)
            for candidate in some:
                worked(candidate.file.path)
        message = writer.prepare_commit()
    return _Merged(positions, unchanged, np.flatnonzero(matched), updated, message)


def _merge_columns(task: _MergeTask) -> _Merged:
    """The same in a table of data evolution: new values go into files of their columns alone."""
    from paimon_pyds.engine.rowlevel.column_updates import write_columns

    context = task.context
    names = _set_columns(task.rules)
    fields_ = [field for field in context.schema.fields if field.name in names]
    positions, unchanged = dict[int, BitMap](), dict[int, BitMap]()
    matched = np.zeros(task.rules.source.num_rows, np.bool_)
    messages = dict[int, CommitMessage]()
    updated = 0
    io = task.spec.io
    with removing_unfinished(lambda: discard(io, (path for m in messages.values() for path in m.paths()))):
        for candidate in task.files:
            gone, stays, changes, versions = [_none()], [_none()], [_none()], list[pa.RecordBatch]()
            for batch in joined_batches(read_places(task.spec, [candidate.file]), task.rules.keys.batch_rows):
                places, named = places_of(batch), _prefixed(batch, task.rules.prefix)
                found = act(task.rules, named)
                matched[found.matched] = True
                updates = np.isin(found.clauses, task.rules.updating)
                fresh = new_versions(task.rules, named, found, fields_)
                if fresh is not None:
                    versions.append(fresh)
                changes.append(places[found.rows[updates]])
                gone.append(places[found.rows[~updates]])
                stays.append(places[found.unchanged])
            for rows, found_rows in ((gone, positions), (stays, unchanged)):
                if own := bitmap_of(np.concatenate(rows)):
                    found_rows[candidate.number] = own
            if versions:
                at = bitmap_of(np.concatenate(changes))
                updated += len(at)
                messages[candidate.number] = write_columns(context, task.spec, candidate, at, versions)
            else:
                worked(candidate.file.path)
    message = CommitMessage(tuple(bucket for each in messages.values() for bucket in each.buckets))
    return _Merged(positions, unchanged, np.flatnonzero(matched), updated, message, frozenset(messages))


def _set_columns(rules: MergeRules) -> frozenset[str]:
    """The columns that any clause sets."""
    return frozenset(name for clause in (*rules.matched, *rules.by_source) for name in clause.values or ())


def _none() -> _Ints:
    return np.empty(0, np.int64)


def _actions(task: _MergeTask, files: Sequence[PlannedFile], writer: TableWriter) -> Actions:
    """The actions on the rows of files, by their places; with deletion vectors, new versions are written right away."""
    parts: list[Actions] = []
    for batch in joined_batches(read_places(task.spec, files), task.rules.keys.batch_rows):
        places, named = places_of(batch), _prefixed(batch, task.rules.prefix)
        found = act(task.rules, named)
        if task.rewrite is None:
            versions = task.new_versions(named, found)
            if versions is not None:
                writer.write(versions)
        parts.append(replace(found, rows=places[found.rows], unchanged=places[found.unchanged]))
    none = np.empty(0, np.int64)
    return Actions(*(np.concatenate([none, *(getattr(part, f.name) for part in parts)]) for f in fields(Actions)))


def _rewrite(
    task: _MergeTask,
    spec: ReadSpec,
    files: Sequence[PlannedFile],
    numbers: Sequence[int],
    actions: Actions,
    writer: TableWriter,
) -> None:
    """All live rows of files that stay, and new versions of those that are updated in their places.

    ``spec`` says how to read all columns; ``numbers`` are those of the files in places; ``actions`` are those of the
    files' rows, by their places.
    """
    live = (file.selecting(live_rows(spec.io, file)) for file in files)
    for batch in read_places(spec, live, numbers):
        places, plain = places_of(batch), batch.select(batch.schema.names[:-1])
        first, last = np.searchsorted(actions.rows, [places[0], places[-1] + 1])
        if first == last:
            writer.write(plain)
            continue
        found = actions.subset(slice(int(first), int(last)))
        found = replace(found, rows=np.searchsorted(places, found.rows))
        versions = task.new_versions(_prefixed(batch, task.rules.prefix), found)
        updates = np.isin(found.clauses, task.rules.updating)
        writer.write(in_place(plain, found.rows[updates], versions, found.rows[~updates]))


def _prefixed(batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    return batch.rename_columns([prefix + name for name in batch.schema.names])
