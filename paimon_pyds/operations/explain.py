"""Explaining a plan: asks the side indexes and deletion vectors what a reader would be told, without reading data."""

from __future__ import annotations

from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import Const
from paimon_pyds.read.file import FileTrace, file_evolution, select_rows
from paimon_pyds.scan.explain import Explanation, FileDecision, explain_plan
from paimon_pyds.scan.result import ScanPlan
from paimon_pyds.scan.split import FileTask, ReadSpec
from paimon_pyds.selection import RowSelection

__all__ = ["explain"]


def explain(plan: ScanPlan, table: str) -> Explanation:
    """The explanation of a plan. Reads indexes and deletion vectors, no data file."""
    return explain_plan(plan, table, [_decide(plan.spec, task) for task in plan.tasks])


def _decide(spec: ReadSpec, task: FileTask) -> FileDecision:
    devolved = file_evolution(spec, task, spec.filter_fields).devolve(spec.predicate)
    trace = FileTrace(task.path, task.row_count)
    if devolved in (Const.FALSE, Const.UNKNOWN):
        return FileDecision(task.path, task.size, task.row_count, 0, 0, "no row of this file's schema can match")
    selection = select_rows(spec, task, devolved, trace)
    reasons = []
    if task.selection is not None:
        reasons.append(f"embedded index: {to_sql(spec.predicate)}")
    if trace.index is not None:
        reasons.extend(
            f"{leaf.index_type} index: {to_sql(leaf.leaf)} keeps {_kept(leaf.result, task.row_count)}"
            for leaf in trace.index.trace
            if leaf.index_type is not None
        )
    if trace.rows_after_deletions != trace.rows_after_index and trace.rows_after_index is not None:
        reasons.append(f"{trace.rows_after_index - (trace.rows_after_deletions or 0):,} rows deleted")
    kept = selection.count(task.row_count)
    return FileDecision(task.path, task.size, task.row_count, kept, trace.counters.index_bytes, "; ".join(reasons))


def _kept(selection: RowSelection, rows: int) -> str:
    if selection.is_all:
        return "all rows"
    return "no row" if selection.is_none else f"{selection.count(rows):,} rows"
