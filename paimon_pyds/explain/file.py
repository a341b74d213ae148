"""Explaining one data file: its indexes, its deletion vector, and how its row groups and pages would be read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paimon_pyds import formats
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.evolution.columns import Evolution
from paimon_pyds.explain.data import FileDecision, PagesTold, counted
from paimon_pyds.explain.order import Turn
from paimon_pyds.formats.base import FormatReader, GroupPlan, PlansGroups, ReadCounters
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.read.file import FileTrace, file_evolution, passes, select_rows
from paimon_pyds.scan.verdict import Verdict, row_strip, verdicts
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import FileTask, ReadSpec

__all__ = ["FileFacts", "explain_file"]

_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file to explain, what its embedded index said when it was planned, and its turn for the first rows."""

    spec: ReadSpec
    task: FileTask
    embedded: tuple[Verdict, ...] = ()
    turn: Turn | None = None


def explain_file(facts: FileFacts, footer: bool) -> FileDecision:
    """What is decided on a file; ``footer``: look into the data file's footer and page indexes too.

    Raises:
        SnapshotNotFoundError: the file, or its index, is gone.
        CorruptFileError: an index, a deletion vector or the footer is damaged.
    """
    try:
        return _explain(facts, footer)
    except FileNotFoundError as error:
        path = error.filename or facts.task.path
        raise SnapshotNotFoundError.of_file(path, "explained", "explain again to see the newest snapshot") from error


def _explain(facts: FileFacts, footer: bool) -> FileDecision:
    spec, task, rows = facts.spec, facts.task, facts.task.row_count
    filtering = file_evolution(spec, task, spec.filter_fields)
    devolved = filtering.devolve(spec.predicate)
    if devolved in (Const.FALSE, Const.UNKNOWN):
        reason = "no row of this file's schema can match"
        return FileDecision(task.path, task.size, rows, 0, 0, reason, strip=row_strip(RowSelection.NONE, rows))
    start = time.perf_counter()
    trace = FileTrace(task.path, rows)
    selection = select_rows(spec, task, devolved, trace)
    said = facts.embedded + (verdicts(trace.index.trace, rows) if trace.index is not None else ())
    after_index = rows if trace.rows_after_index is None else trace.rows_after_index
    kept = selection.count(rows)
    turn = facts.turn.told() if facts.turn is not None and footer and kept else None
    asked = time.perf_counter()
    known = trace.index is not None and trace.index.exact
    pages = None
    if footer and kept and (facts.turn is None or (turn is not None and turn.reads)):
        pages = _pages(_reading(facts), task, devolved, filtering, selection, known)
        pages = replace(pages, at_most=pages.at_most or turn is not None)
    return FileDecision(
        path=task.path,
        size=task.size,
        rows=rows,
        rows_kept=kept,
        index_bytes=trace.counters.index_bytes,
        reason="; ".join(_reasons(said, after_index - kept)),
        rows_after_index=after_index,
        verdicts=said,
        strip=row_strip(selection, rows),
        pages=pages,
        turn=turn,
        index_millis=(asked - start) * 1000,
        pages_millis=(time.perf_counter() - asked) * 1000,
    )


def _reading(facts: FileFacts) -> ReadSpec:
    """What is read of a file: for the first rows in an order, the sort columns."""
    return facts.spec if facts.turn is None else replace(facts.spec, fields=facts.turn.query.fields)


def _reasons(said: Sequence[Verdict], deleted: int) -> list[str]:
    found = [f"{v.index} index: {v.leaf} keeps {kept_text(v.rows, v.of)}" for v in said if v.index is not None]
    return [*found, f"{deleted:,} rows deleted"] if deleted else found


def kept_text(rows: int, of: int) -> str:
    """How many rows, in words."""
    if rows == of:
        return "all rows"
    return "no row" if not rows else counted(rows, "row")


# ------------------------------------------------------------------------------------------------------------ pages


def _pages(
    spec: ReadSpec, task: FileTask, devolved: Predicate, filtering: Evolution, selection: RowSelection, known: bool
) -> PagesTold:
    format_ = formats.by_path(task.path)
    reader = format_.open_reader(spec.io, task.path, task.size, ReadCounters(), spec.hints(task))
    try:
        if devolved is not Const.TRUE and not known:
            selection = selection & reader.prune(devolved, selection)
        rows, groups = selection.count(task.row_count), len(reader.groups())
        output = file_evolution(spec, task, spec.fields)
        fields = [*filtering.file_fields, *output.beyond(filtering)]
        if selection.is_none or not fields:
            return PagesTold(rows, 0, groups, 0, 0, why="" if selection.is_none else "no column of the file is needed")
        if not isinstance(reader, PlansGroups):
            used = sum(not selection.window(*g).is_none for g in reader.groups())
            unit = format_.traits.group
            return PagesTold(rows, used, groups, task.size, task.size, choice=unit, why="the whole file at most")
        if filtering.settles(spec.predicate, devolved):
            return _told(list(reader.plan(output.file_fields, selection)), rows, groups, False)
        plans, at_most = _plans(reader, reader, selection, known, filtering, output)
        return _told(plans, rows, groups, at_most)
    finally:
        reader.close()


def _plans(
    reader: FormatReader,
    planner: PlansGroups,
    selection: RowSelection,
    known: bool,
    filtering: Evolution,
    output: Evolution,
) -> tuple[list[GroupPlan], bool]:
    """How the file's row groups would be read, and whether some of that is an upper bound.

    Where many rows are selected, the filter's columns are read first and the others for the survivors: how many these
    are is not known before.
    """
    once, twice = RowSelection.NONE, RowSelection.NONE
    for window, in_two in passes(reader, selection, known, filtering, output):
        once, twice = (once, twice | window) if in_two else (once | window, twice)
    others = output.beyond(filtering)
    plans = list(planner.plan([*filtering.file_fields, *others], once)) if not once.is_none else []
    if not twice.is_none:
        if filtering.file_fields:
            plans += planner.plan(filtering.file_fields, twice)
        plans += planner.plan(others, twice)
    return plans, not twice.is_none


def _told(plans: Sequence[GroupPlan], rows: int, groups_total: int, at_most: bool) -> PagesTold:
    weighed = [p for p in plans if p.pages_micros is not None and p.group_micros is not None]
    by_pages = [p for p in plans if p.pages]
    return PagesTold(
        rows=rows,
        groups=len({p.number for p in plans}),
        groups_total=groups_total,
        bytes=sum(p.bytes for p in plans),
        whole_bytes=sum(p.whole_bytes for p in plans),
        pages=sum(p.pages for p in plans),
        pages_total=sum(p.pages_total for p in by_pages),
        pages_micros=sum(p.pages_micros or 0 for p in weighed) if weighed else None,
        group_micros=sum(p.group_micros or 0 for p in weighed) if weighed else None,
        choice=_choice(plans, by_pages),
        why=_why(plans, by_pages),
        at_most=at_most,
    )


def _choice(plans: Sequence[GroupPlan], by_pages: Sequence[GroupPlan]) -> str:
    if not plans:
        return "nothing"
    both = 0 < len(by_pages) < len(plans)
    return "pages and row groups" if both else "pages" if by_pages else "row groups"


def _why(plans: Sequence[GroupPlan], by_pages: Sequence[GroupPlan]) -> str:
    """What the estimates do not tell: columns that are not read by pages, and row groups without a choice."""
    whole = list(dict.fromkeys(name for p in by_pages for name in p.whole_columns))
    reasons = dict.fromkeys(p.reason for p in plans if p.reason)
    names = ", ".join(whole if len(whole) <= _MOST_NAMES else whole[:2])
    more = f" and {len(whole) - 2} more columns" if len(whole) > _MOST_NAMES else ""
    told = [f"{names}{more} read whole"] if whole else []
    return "; ".join([*told, *reasons])
