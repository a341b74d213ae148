"""Explaining a plan: finds out what readers would learn from side indexes, deletion vectors, footers and page indexes.

No data is read, unless the scan is run as well (``analyze``) and its traces are given here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from paimon_pyds.base.options.option import path_like
from paimon_pyds.base.progress import counted as counted_items
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, redact
from paimon_pyds.engine.query.top_n_rows import by_best_value
from paimon_pyds.engine.query.top_n_run import TopNQuery
from paimon_pyds.engine.read import FileTrace
from paimon_pyds.engine.read.live_rows import SectionTrace
from paimon_pyds.engine.scan.result import PruneStep, ScanPlan, SkippedFile
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import Files, ReadSpec
from paimon_pyds.ops.explain.file import Actual, ExplainedFile, PlannedVisit, RunPlan, explain_file
from paimon_pyds.ops.explain.html import to_html, to_page
from paimon_pyds.ops.explain.scan import ExplainedScan, to_text
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import Const, Predicate, computed_parts
from paimon_pyds.storage import requests_at_once

MOST_FOOTERS = 200
"""Data files whose footers are read, or for the first rows in an order their indexes; for others the rows left by pages
are not shown."""
_FILES_READ_TWICE = 4
"""Number of files for which the read without their indexes is computed too."""
_SHOWN_REASON_LINES = 3
_FILES_AT_ONCE = 8
"""Files on a local disk that are examined in parallel, if there are this many."""
_FIRST_ROWS = "top n"


def explain(
    plan: ScanPlan,
    table: str,
    *,
    order: str = "",
    query: TopNQuery | None = None,
    limit: int | None = None,
    footers: int = MOST_FOOTERS,
) -> Explanation:
    """The explanation of a plan that was made with ``ScanRequest.explain``.

    Args:
        plan: what planning left.
        table: the table's path, for the title.
        order: the order of the first rows that are wanted, if any.
        query: what finds these rows.
        limit: the rows that are wanted at most.
        footers: data files to look into at most.

    Raises:
        SnapshotNotFoundError: a file is gone.
        CorruptFileError: an index, a deletion vector or a footer is damaged.
    """
    visits = {} if query is None else planned_visits(query)
    if query is not None:
        plan = in_visiting_order(plan, visits)
    steps = [_with_reasons(step, plan.skips) for step in plan.steps]
    files = _explained(plan, visits, footers)
    steps += _file_steps(plan, files)
    predicate = plan.spec.predicate
    return Explanation(
        table=table,
        snapshot_id=plan.snapshot_id,
        predicate=_sql(predicate),
        steps=tuple(steps),
        files=tuple(files),
        skips=plan.skips,
        order=order,
        limit=limit,
        skew=plan.skew,
        on_rows=tuple(dict.fromkeys(to_sql(part, shorten=True) for part in computed_parts(predicate))),
    )


def joined_explanation(parts: Sequence[Explanation]) -> Explanation:
    """One explanation of the parts of a scan: each step leaves what it leaves of all of them.

    A part without a step has what its last step before that left.
    """
    if len(parts) == 1:
        return parts[0]
    names = max((list(dict.fromkeys(step.name for step in part.steps)) for part in parts), key=len)
    names += [step.name for part in parts for step in part.steps if step.name not in names]
    left = [part.steps[0] for part in parts if part.steps]
    steps = []
    for name in dict.fromkeys(names):
        here = [next((step for step in part.steps if step.name == name), None) for part in parts if part.steps]
        left = [step or before for step, before in zip(here, left, strict=True)]
        found = [step for step in here if step is not None]
        details = "; ".join(dict.fromkeys(step.detail for step in found if step.detail))
        sizes = (sum(step.files for step in left), sum(step.rows for step in left), sum(step.bytes for step in left))
        steps.append(PruneStep(name, *sizes, sum(step.millis for step in found), details))
    return replace(
        parts[0],
        steps=tuple(steps),
        files=tuple(file for part in parts for file in part.files),
        skips=tuple(skip for part in parts for skip in part.skips),
        on_rows=tuple(dict.fromkeys(text for part in parts for text in part.on_rows)),
        skew=None,
    )


def explain_run(
    explained: Explanation, traces: Sequence[FileTrace], rows: int, millis: float, bytes_read: int | None = None
) -> Explanation:
    """The same explanation with what running the scan took: ``rows`` given out in ``millis`` milliseconds.

    ``bytes_read`` is given where the traces do not have all that was read.
    """
    by_path: dict[str, Actual] = {}
    for trace in traces:  # the first rows in an order may visit a file more than once
        by_path[trace.path] = _added(by_path.get(trace.path), _actual(trace))
    read = [a for a in by_path.values() if a.groups or a.rows_decoded or a.rows]
    spent = sum(a.bytes for a in by_path.values()) if bytes_read is None else bytes_read
    decoded = sum(a.rows_decoded for a in by_path.values())
    detail = f"{decoded:,} rows decoded; bytes include footers and indexes"
    merged = {f.path for f in explained.files if f.run is not None and f.run.merged}
    if merged:
        versions = sum(actual.rows for path, actual in by_path.items() if path in merged)
        detail = f"{counted(versions, 'version')} of rows merged; {detail}"
    step = PruneStep("result", len(read), rows, spent, millis, detail)
    searches = {trace.path: _search_text(trace.section) for trace in traces if trace.section is not None}
    files = tuple(
        replace(
            f,
            actual=by_path.get(f.path),
            spared=bool(f.rows_to_read) and f.path not in by_path,
            run=replace(f.run, search=searches[f.path])
            if f.run is not None and f.run.after and f.path in searches
            else f.run,
        )
        for f in explained.files
    )
    return replace(explained, steps=(*explained.steps, step), files=files, analyzed=True)


def _added(one: Actual | None, other: Actual) -> Actual:
    if one is None:
        return other
    return Actual(*(getattr(one, f.name) + getattr(other, f.name) for f in fields(Actual)))


def _actual(trace: FileTrace) -> Actual:
    c = trace.counters
    return Actual(
        rows=trace.rows_returned,
        rows_decoded=c.rows_decoded,
        bytes=c.bytes_read,
        requests=c.requests,
        pages=c.pages_read,
        pages_total=c.pages_total,
        groups=c.row_groups_read,
        millis=trace.millis,
    )


def _explained(plan: ScanPlan, visits: Mapping[str, PlannedVisit], footers: int) -> list[ExplainedFile]:
    """Asks the files on threads: what takes time is waiting for a storage."""
    runs = _run_plans(plan, footers)

    def ask(number: int, file: PlannedFile) -> ExplainedFile:
        embedded, path = plan.index_answers.get(file.name, ()), file.path
        footer, saved = number < footers, number < _FILES_READ_TWICE
        found = explain_file(plan.spec, file, embedded, visits.get(path), footer=footer, saved=saved)
        return replace(found, run=runs.get(path))

    if len(plan.found.made) < _FILES_AT_ONCE and not requests_at_once(plan.spec.io):
        return list(map(ask, range(len(plan.found.made)), plan.found.made))
    from paimon_pyds.storage.concurrent import concurrent_map, threads_for

    threads = threads_for(plan.spec.io, _FILES_AT_ONCE)
    explained = concurrent_map(lambda pair: ask(*pair), list(enumerate(plan.found.made)), threads)
    return list(counted_items(explained, "asking files", files=len(plan.found)))


def _run_plans(plan: ScanPlan, footers: int) -> Mapping[str, RunPlan]:
    """The sorted runs of a plan's files, by path; none for append tables. ``footers``: files to look into, about."""
    sections: dict[tuple[PartitionBucket, int], list[PlannedFile]] = {}
    for file in plan.found.made:
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
                filters = (*filters, _search_text(_section_plan(plan.spec, files)))
        for file, level in zip(files, levels, strict=True):
            found[file.path] = RunPlan(level, number, len(files), runs, file.merged, *filters)
    return found


def _section_plan(spec: ReadSpec, files: Sequence[PlannedFile]) -> SectionTrace:
    from paimon_pyds.engine.read.merged_files import plan_section

    with files[0].must_exist("explained", "explain again to see the newest snapshot"):
        return plan_section(spec, files)


def _search_text(section: SectionTrace) -> str:
    """Which versions of a section's rows are merged, as the filter's part for afterwards allows."""
    if section.candidates is None or section.reason:
        return f"all versions are merged: {section.reason or 'a newer version may differ'}"
    text = f"indexes leave {counted(section.candidates, 'row')} that may make it true"
    if section.candidate_keys is None:
        return f"{text}: only versions of their keys are merged"
    return (
        f"{text}, {counted(section.candidate_keys, 'candidate key')}: {section.versions:,} of "
        f"{counted(section.rows, 'version')} fetched, {counted(section.rows_returned, 'row')} left"
    )


def _sql(predicate: Predicate) -> str:
    return "" if predicate is Const.TRUE else to_sql(predicate, shorten=True)


def _file_steps(plan: ScanPlan, files: Sequence[ExplainedFile]) -> list[PruneStep]:
    """The steps that look into single files. Their times are summed over the files, several of which run at a time."""
    gone = [s for s in plan.skips if s.step == "deletion vectors"]
    limited = [s for s in plan.skips if s.step == "limit"]
    steps = _sections_step(files)
    if (
        any(file.index_path for file in plan.found.made)
        and plan.spec.use_index
        and plan.spec.predicate is not Const.TRUE
    ):
        kept = [f for f in files if f.rows_after_index]
        extra = (len(gone) + len(limited), *_sums(gone + limited))
        read = sum(f.index_bytes for f in files)
        rows, size = sum(f.rows_after_index for f in kept) + extra[1], sum(f.size for f in kept) + extra[2]
        detail = f"{read:,} bytes of index read{_leaves(files)}"
        millis = sum(f.index_millis for f in files)
        steps.append(PruneStep("side index", len(kept) + extra[0], rows, size, millis, detail))
    left = [f for f in files if f.rows_kept]
    if gone or any(file.deletion for file in plan.found.made):
        rows, size = (a + b for a, b in zip(_kept(left), _sums(limited), strict=True))
        deleted = sum(f.rows_after_index - f.rows_kept for f in files) + sum(s.row_count for s in gone)
        detail = f"{counted(deleted, 'row')} deleted"
        steps.append(PruneStep("deletion vectors", len(left) + len(limited), rows, size, 0.0, detail))
    if limited:
        detail = limited[0].reason
        steps.append(PruneStep("limit", len(left), *_kept(left), 0.0, detail))
    if any(f.pages or f.top_n for f in files):
        steps.append(_pages_step(left))
    return steps


def _sections_step(files: Sequence[ExplainedFile]) -> list[PruneStep]:
    """How the files of a table with a primary key are read: raw, or merged with one another."""
    parts = []
    for merged in (False, True):
        chosen = [f.run for f in files if f.run is not None and f.run.merged is merged]
        if chosen:
            runs = sum({run.section: run.runs for run in chosen}.values())
            sections = counted(len({run.section for run in chosen}), "section")
            of = f"{counted(len(chosen), 'file')}, {counted(runs, 'sorted run')}"
            parts.append(f"{sections} {'merged' if merged else 'read raw'} ({of})")
    rows, size = sum(f.rows for f in files), sum(f.size for f in files)
    return [PruneStep("sections", len(files), rows, size, 0.0, "; ".join(parts))] if parts else []


def _pages_step(left: Sequence[ExplainedFile]) -> PruneStep:
    """What row groups and pages leave, and which way of reading was chosen."""
    planned = [f.pages for f in left if f.pages is not None]
    answered = sum(f.top_n is not None and not f.top_n.reads for f in left)
    others = [f for f in left if f.pages is None and (f.top_n is None or f.top_n.reads)]
    rows = sum(f.rows_kept for f in left if f.pages is None)
    parts = []
    by_pages = [p for p in planned if p.pages]
    if by_pages:
        n, of = sum(p.pages for p in by_pages), sum(p.pages_total for p in by_pages)
        parts.append(f"{n:,} of {of:,} pages in {counted(len(by_pages), 'file')}")
    by_unit = Counter(p.choice for p in planned if p.groups and not p.pages)
    parts += [f"{counted(n, 'file')} by whole {unit}" for unit, n in by_unit.items()]
    if any(f.top_n is not None and f.top_n.reads for f in left):
        parts.append("at most: sort columns are read of rows that can be among the first")
    elif any(p.at_most for p in planned):
        parts.append("at most: columns outside the filter are read for survivors only")
    if others:
        parts.append(
            f"{counted(len(others), 'file')} not looked into {'counts' if len(others) == 1 else 'count'} whole"
        )
    if answered:
        parts.append(f"{counted(answered, 'file')} answered without data")
    return PruneStep(
        "pages",
        sum(1 for p in planned if p.rows) + len(others) + answered,
        sum(p.rows for p in planned) + rows,
        sum(p.bytes for p in planned) + sum(f.size for f in others),
        sum(f.pages_millis for f in left),
        "; ".join(parts),
    )


def _kept(files: Iterable[ExplainedFile]) -> tuple[int, int]:
    kept = [(f.rows_kept, f.size) for f in files]
    return sum(r for r, _ in kept), sum(s for _, s in kept)


def _sums(skips: Iterable[SkippedFile]) -> tuple[int, int]:
    counted = [(s.row_count, s.size) for s in skips]
    return sum(r for r, _ in counted), sum(s for _, s in counted)


def _leaves(files: Iterable[ExplainedFile]) -> str:
    names = dict.fromkeys(f"{v.index}({v.column})" for f in files for v in f.index_answers if v.index is not None)
    return f": {_first_of(list(names))}" if names else ""


def _first_of(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN_REASON_LINES} more" if len(texts) > _SHOWN_REASON_LINES else ""
    return f"{', '.join(texts[:_SHOWN_REASON_LINES])}{more}"


def _with_reasons(step: PruneStep, skips: Sequence[SkippedFile]) -> PruneStep:
    found = Counter(skip.reason for skip in skips if skip.step == step.name).most_common()
    if not found:
        return step
    reasons = _first_of([f"{reason} (−{n:,})" for reason, n in found])
    return replace(step, detail=f"{step.detail}: {reasons}" if step.detail else reasons)


def planned_visits(query: TopNQuery) -> Mapping[str, PlannedVisit]:
    """The files that may have one of the first rows, by path, in the order in which they are visited."""
    files = [query.files[number] for number in by_best_value(query.keys[0], query.files)]
    files.sort(key=lambda file: file.merged)
    return {file.path: PlannedVisit(query, file, number) for number, file in enumerate(files, 1)}


def in_visiting_order(plan: ScanPlan, visits: Mapping[str, PlannedVisit]) -> ScanPlan:
    """The plan's files in the order of visits, without those that have no first row by their statistics, which become a
    step.
    """
    files = {file.path: file for file in plan.found.made}
    left = tuple(files[path] for path in visits if path in files)
    left_out = [file for file in plan.found.made if file.path not in visits]
    if not left_out:
        return replace(plan, found=Files(left))
    reason = "others have enough rows that come before all of theirs"
    skips = [SkippedFile(file.name, file.row_count, file.size, reason, _FIRST_ROWS) for file in left_out]
    step = PruneStep(_FIRST_ROWS, len(left), sum(f.row_count for f in left), sum(f.size for f in left))
    return replace(plan, found=Files(left), steps=(*plan.steps, step), skips=(*plan.skips, *skips))


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(ExplainedScan):
    """How a scan narrows down. ``print`` it, let a notebook show it, or take it as Arrow tables."""

    @property
    def text(self) -> str:
        """The explanation as lines of text."""
        return to_text(self)

    @property
    def html(self) -> str:
        """The explanation as a piece of HTML with inline SVG, as notebooks show it."""
        return to_html(self)

    @property
    def page(self) -> str:
        """The same as an HTML document of its own."""
        return to_page(self)

    def rendered(self, path: str | os.PathLike[str]) -> str:
        """What belongs into a file of this name: a page for ``.html``, JSON for ``.json``, else text."""
        suffix = os.fspath(path_like("path", path)).lower().rpartition(".")[2]
        if suffix in ("html", "htm"):
            return self.page
        return f"{json.dumps(self.as_dict(), ensure_ascii=False) if suffix == 'json' else self.text}\n"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        left = self.steps[-1] if self.steps else PruneStep("table", 0, 0, 0)
        counts = f"{counted(left.files, 'file')}, {counted(left.rows, 'row')} left"
        return f"Explanation({redact(self.table)!r}, {self.predicate!r}: {counts})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text)

    def _repr_html_(self) -> str:
        return self.html
