"""Explaining the first rows in an order: which files statistics leave out, when the others are asked, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paimon_pyds.explain.data import TurnTold
from paimon_pyds.index.aggregate import ORDERING
from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import ColumnRef, Leaf, Op
from paimon_pyds.query.indexed_file import IndexedFile
from paimon_pyds.query.top_n_bounds import best_possible, promising
from paimon_pyds.query.top_n_run import TopNQuery
from paimon_pyds.scan.file_bounds import KnownFile
from paimon_pyds.scan.result import PlannedSkip, PruneStep, ScanPlan
from paimon_pyds.types import scalar_to_internal

__all__ = ["Turn", "turns_of", "without_needless"]

STEP = "top n"


@dataclass(frozen=True, slots=True)
class Turn:
    """A file in the row of those that are asked for the first rows; ``number`` counts from 1."""

    query: TopNQuery
    file: KnownFile
    number: int

    def told(self) -> TurnTold:
        """When the file is asked, and what it is asked by; its index is evaluated for that, no data is read."""
        key, field = self.query.keys[0], self.query.fields[0]
        known, file = self.file.columns[field.name], IndexedFile(self.query.spec, self.file)
        exact = file.rows is not None and len(self.query.keys) == 1
        if known.constant:
            return TurnTold(self.number, self.bound(), "statistics", not exact)
        kinds = [kind for kind in ORDERING if file.columns(field, (kind,))]
        by = f"{kinds[0]}({field.name})" if kinds else ""
        return TurnTold(self.number, self.bound(), by, not (kinds and exact and key.codec.is_index_key))

    def bound(self) -> str:
        """No row of the file comes before a row for which this is true; empty when that is not known."""
        key, field = self.query.keys[0], self.query.fields[0]
        best = best_possible(key, self.file.columns[field.name])
        if best is None:
            return ""
        column = ColumnRef(field.name, (), field.type, field.id)
        if best.key is None:
            return to_sql(Leaf(Op.IS_NULL, column))
        return to_sql(Leaf(Op.EQ, column, (scalar_to_internal(key.codec.values([best.key])[0]),)))


def turns_of(query: TopNQuery) -> Mapping[str, Turn]:
    """The files that may hold one of the first rows, by path, in the order in which they are asked."""
    files = [query.files[number] for number in promising(query.keys[0], query.files)]
    return {file.task.path: Turn(query, file, number) for number, file in enumerate(files, 1)}


def without_needless(plan: ScanPlan, turns: Mapping[str, Turn]) -> ScanPlan:
    """The plan's files in turn, without those that statistics say hold none of the first rows; a step tells of them."""
    tasks = {task.path: task for task in plan.tasks}
    left = tuple(tasks[path] for path in turns if path in tasks)
    needless = [task for task in plan.tasks if task.path not in turns]
    if not needless:
        return replace(plan, tasks=left)
    reason = "others have enough rows that come before all of theirs"
    skips = [PlannedSkip(task.name, task.row_count, task.size, reason, STEP) for task in needless]
    step = PruneStep(STEP, len(left), sum(t.row_count for t in left), sum(t.size for t in left))
    return replace(plan, tasks=left, steps=(*plan.steps, step), skips=(*plan.skips, *skips))
