"""Explaining one data file: its indexes, its deletion vector, how its row groups and pages would be read.

For the first rows in an order also which files statistics leave out, when the others are asked, and by what.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paimon_pyds import formats
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.explain.data import ExplainedFile, PagePlan, RunPlan, TopNVisit, counted
from paimon_pyds.formats import GroupPlan, PlansGroups, ReadCounters
from paimon_pyds.index.aggregate import ORDERING
from paimon_pyds.index.evaluate import IndexAnswer, index_answers
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate
from paimon_pyds.query.answer import IndexedFile
from paimon_pyds.query.top_n_rows import best_possible, by_best_value
from paimon_pyds.query.top_n_run import TopNQuery
from paimon_pyds.read.file import FileReading
from paimon_pyds.read.live_rows import LiveRows, SectionTrace
from paimon_pyds.scan.result import PruneStep, ScanPlan, SkippedFile
from paimon_pyds.selection import RowSelection
from paimon_pyds.split import PlannedFile, ReadSpec
from paimon_pyds.types import scalar_to_internal

_MOST_NAMES = 3


def explain_file(
    spec: ReadSpec,
    file: PlannedFile,
    embedded: Sequence[IndexAnswer] = (),
    visit: PlannedVisit | None = None,
    run: RunPlan | None = None,
    *,
    footer: bool = True,
) -> ExplainedFile:
    """What is decided on a file, by the functions that readers use.

    Args:
        spec: of the plan.
        file: one of its files.
        embedded: what its embedded index said when it was planned.
        visit: when it is asked for the first rows in an order.
        run: its place among the sorted runs, see `run_plans`.
        footer: look into the data file's footer and page indexes too.

    Raises:
        SnapshotNotFoundError: the file, or its index, is gone.
        CorruptFileError: an index, a deletion vector or the footer is damaged.
    """
    if file.merged:
        from paimon_pyds.read.merged_files import before_merging

        spec, file = before_merging(spec, file)
    elif visit is not None:  # sort columns are all that is read of most files
        spec = replace(spec, fields=visit.query.fields)
    try:
        return replace(_explain(LiveRows(spec, file), tuple(embedded), visit, footer), run=run)
    except FileNotFoundError as error:
        path = error.filename or file.path
        raise SnapshotNotFoundError.of_file(path, "explained", "explain again to see the newest snapshot") from error


def _explain(
    live: LiveRows, embedded: tuple[IndexAnswer, ...], visit: PlannedVisit | None, footer: bool
) -> ExplainedFile:
    file, rows, trace = live.file, live.file.row_count, live.trace
    if live.matches_none:
        reason = "no row of this file's schema can match"
        return ExplainedFile(file.path, file.size, rows, 0, 0, reason, strip=RowSelection.NONE.strip(rows))
    start = time.perf_counter()
    kept = live.candidates.count(rows)
    answers = embedded + tuple(a for result in trace.index_results for a in index_answers(result.trace, rows))
    after_index = rows if trace.rows_after_index is None else trace.rows_after_index
    top_n = visit.explained() if visit is not None and footer and kept else None
    indexes_asked = time.perf_counter()
    pages = None
    if footer and kept and (top_n is None or top_n.reads):
        pages = _pages(live)
        pages = replace(pages, at_most=pages.at_most or top_n is not None)
    return ExplainedFile(
        path=file.path,
        size=file.size,
        rows=rows,
        rows_kept=kept,
        index_bytes=trace.counters.index_bytes,
        reason="; ".join(_reasons(answers, after_index - kept)),
        rows_after_index=after_index,
        index_answers=answers,
        strip=live.candidates.strip(rows),
        pages=pages,
        top_n=top_n,
        index_millis=(indexes_asked - start) * 1000,
        pages_millis=(time.perf_counter() - indexes_asked) * 1000,
    )


def _reasons(answers: Sequence[IndexAnswer], deleted: int) -> list[str]:
    found = [f"{v.index} index: {v.leaf} keeps {kept_text(v.rows, v.of)}" for v in answers if v.index is not None]
    return [*found, f"{deleted:,} rows deleted"] if deleted else found


def kept_text(rows: int, of: int) -> str:
    """How many rows, in words."""
    if rows == of:
        return "all rows"
    return "no row" if not rows else counted(rows, "row")


def _pages(live: LiveRows) -> PagePlan:
    file, spec = live.file, live.spec
    format_ = formats.by_path(file.path)
    reader = format_.open_reader(spec.io, file.path, file.size, ReadCounters(), spec.hints(file))
    try:
        reading = FileReading(live, reader)
        selection = reading.selection
        rows, groups = selection.count(file.row_count), len(reader.groups())
        if selection.is_none or not (reading.filtering.file_fields or reading.output_only):
            return PagePlan(rows, 0, groups, 0, 0, why="" if selection.is_none else "no column of the file is needed")
        if not isinstance(reader, PlansGroups):
            used = sum(not selection.window(*g).is_none for g in reader.groups())
            unit = format_.traits.group
            return PagePlan(rows, used, groups, file.size, file.size, choice=unit, why="the whole file at most")
        if live.matches_all:
            return _page_plan(list(reader.plan(reading.output.file_fields, selection)), rows, groups, False)
        plans, at_most = _group_plans(reading, reader)
        return _page_plan(plans, rows, groups, at_most)
    finally:
        reader.close()


def _group_plans(reading: FileReading, planner: PlansGroups) -> tuple[list[GroupPlan], bool]:
    """How the file's row groups would be read, and whether some of that is an upper bound.

    Where many rows are selected, the filter's columns are read first and the others for the survivors: how many these
    are is not known before.
    """
    once, twice = RowSelection.NONE, RowSelection.NONE
    for window, in_two in reading.passes(reading.selection):
        once, twice = (once, twice | window) if in_two else (once | window, twice)
    filter_fields, others = reading.filtering.file_fields, reading.output_only
    plans = list(planner.plan([*filter_fields, *others], once)) if not once.is_none else []
    if not twice.is_none:
        if filter_fields:
            plans += planner.plan(filter_fields, twice)
        plans += planner.plan(others, twice)
    return plans, not twice.is_none


def _page_plan(plans: Sequence[GroupPlan], rows: int, groups_total: int, at_most: bool) -> PagePlan:
    weighed = [p for p in plans if p.pages_micros is not None and p.group_micros is not None]
    by_pages = [p for p in plans if p.pages]
    return PagePlan(
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
    """What the estimates do not show: columns that are not read by pages, and row groups without a choice."""
    whole = list(dict.fromkeys(name for p in by_pages for name in p.whole_columns))
    reasons = dict.fromkeys(p.reason for p in plans if p.reason)
    names = ", ".join(whole if len(whole) <= _MOST_NAMES else whole[:2])
    more = f" and {len(whole) - 2} more columns" if len(whole) > _MOST_NAMES else ""
    by_name = [f"{names}{more} read whole"] if whole else []
    return "; ".join([*by_name, *reasons])


def run_plans(plan: ScanPlan, footers: int) -> Mapping[str, RunPlan]:
    """The sorted runs of a plan's files, by path; none for append tables. ``footers``: files to look into, about."""
    sections: dict[tuple[PartitionBucket, int], list[PlannedFile]] = {}
    for file in plan.files:
        if file.run is not None:
            sections.setdefault((file.bucket_id, file.run.section), []).append(file)
    whole, merging = _sql(plan.spec.predicate), plan.spec.merging
    found: dict[str, RunPlan] = {}
    for number, files in enumerate(sections.values(), 1):
        levels = [file.run.level for file in files if file.run is not None]
        runs = levels.count(0) + len(set(levels) - {0})
        filters: tuple[str, ...] = (whole,)
        if merging is not None and files[0].merged:
            filters = (_sql(merging.filter.before), _sql(merging.filter.after))
            if filters[1] and len(found) < footers:
                filters = (*filters, search_text(_section_plan(plan.spec, files)))
        for file, level in zip(files, levels, strict=True):
            found[file.path] = RunPlan(level, number, len(files), runs, file.merged, *filters)
    return found


def _section_plan(spec: ReadSpec, files: Sequence[PlannedFile]) -> SectionTrace:
    from paimon_pyds.read.merged_files import plan_section

    try:
        return plan_section(spec, files)
    except FileNotFoundError as error:
        path = error.filename or files[0].path
        raise SnapshotNotFoundError.of_file(path, "explained", "explain again to see the newest snapshot") from error


def search_text(section: SectionTrace) -> str:
    """Which versions of a section's rows are merged, as the filter's part for afterwards allows."""
    if section.candidates is None or section.reason:
        return f"all versions are merged: {section.reason or 'a newer version may differ'}"
    text = f"indexes leave {counted(section.candidates, 'row')} that may make it true"
    if section.candidate_keys is None:
        return f"{text}: only versions of their keys are merged"
    return (
        f"{text}, {counted(section.candidate_keys, 'candidate key')}: {section.versions:,} of "
        f"{counted(section.rows, 'version')} fetched, {counted(section.rows_returned, 'row')} kept"
    )


def _sql(predicate: Predicate) -> str:
    return "" if predicate is Const.TRUE else to_sql(predicate, shorten=True)


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
        if bounds.constant and not self.file.merged:
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
    files.sort(key=lambda file: file.merged)
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
