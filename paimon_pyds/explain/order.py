"""Explaining the first rows in an order: which files statistics leave out, when the others are asked, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paimon_pyds.explain.data import TopNVisit
from paimon_pyds.index.aggregate import ORDERING
from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import ColumnRef, Leaf, Op
from paimon_pyds.query.indexed_file import IndexedFile
from paimon_pyds.query.top_n_bounds import best_possible, by_best_value
from paimon_pyds.query.top_n_run import TopNQuery
from paimon_pyds.scan.result import PruneStep, ScanPlan, SkippedFile
from paimon_pyds.split import PlannedFile
from paimon_pyds.types import scalar_to_internal

__all__ = ["PlannedVisit", "in_visiting_order", "planned_visits"]

STEP = "top n"


@dataclass(frozen=True, slots=True)
class PlannedVisit:
    """One of the files that are asked for the first rows, one after the other; ``number`` counts from 1."""

    query: TopNQuery
    file: PlannedFile
    number: int

    def explained(self) -> TopNVisit:
        """When the file is asked, and what it is asked by; its index is evaluated for that, no data is read."""
        key, field = self.query.keys[0], self.query.fields[0]
        bounds, file = self.file.bounds_of(field.name), IndexedFile(self.query.spec, self.file)
        exact = file.rows is not None and len(self.query.keys) == 1
        if bounds.constant:
            return TopNVisit(self.number, self.bound(), "statistics", not exact)
        kinds = [kind for kind in ORDERING if file.columns(field, (kind,))]
        by = f"{kinds[0]}({field.name})" if kinds else ""
        return TopNVisit(self.number, self.bound(), by, not (kinds and exact and key.codec.is_index_key))

    def bound(self) -> str:
        """No row of the file comes before a row for which this is true; empty when that is not known."""
        key, field = self.query.keys[0], self.query.fields[0]
        best = best_possible(key, self.file.bounds_of(field.name))
        if best is None:
            return ""
        column = ColumnRef(field.name, (), field.type, field.id)
        if best.key is None:
            return to_sql(Leaf(Op.IS_NULL, column))
        return to_sql(Leaf(Op.EQ, column, (scalar_to_internal(key.codec.values([best.key])[0]),)))


def planned_visits(query: TopNQuery) -> Mapping[str, PlannedVisit]:
    """The files that may hold one of the first rows, by path, in the order in which they are asked."""
    files = [query.files[number] for number in by_best_value(query.keys[0], query.files)]
    return {file.path: PlannedVisit(query, file, number) for number, file in enumerate(files, 1)}


def in_visiting_order(plan: ScanPlan, visits: Mapping[str, PlannedVisit]) -> ScanPlan:
    """The plan's files as they are asked, without those that statistics say hold none of the first rows; a step tells
    of them.
    """
    files = {file.path: file for file in plan.files}
    left = tuple(files[path] for path in visits if path in files)
    left_out = [file for file in plan.files if file.path not in visits]
    if not left_out:
        return replace(plan, files=left)
    reason = "others have enough rows that come before all of theirs"
    skips = [SkippedFile(file.name, file.row_count, file.size, reason, STEP) for file in left_out]
    step = PruneStep(STEP, len(left), sum(f.row_count for f in left), sum(f.size for f in left))
    return replace(plan, files=left, steps=(*plan.steps, step), skips=(*plan.skips, *skips))
