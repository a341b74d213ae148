"""Explaining one data file: its indexes, its deletion vector, how its row groups and pages would be read; for the first
rows in an order also when it is visited, and which index it uses."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_pyds import format as formats
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import scalar_to_internal
from paimon_pyds.engine.query.answer import IndexedFile
from paimon_pyds.engine.query.top_n_rows import best_possible
from paimon_pyds.engine.query.top_n_run import TopNQuery
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.engine.read.file import FileReading, PartUse
from paimon_pyds.engine.read.live_rows import LiveRows
from paimon_pyds.engine.scan.result import SkippedFile
from paimon_pyds.format import plans_groups
from paimon_pyds.index.aggregate import ORDERING
from paimon_pyds.index.evaluate import IndexAnswer, index_answers
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader, GroupPlan, PlansGroups

_MOST_NAMES = 3
READ_WHOLE, READ_PART, NOT_NEEDED = "read whole", "read in part", "not needed"
NOT_SKIPPED = (NOT_NEEDED, READ_PART, READ_WHOLE)
"""What happens to files that no step left out, in the order of pictures."""


@dataclass(frozen=True, slots=True)
class PagePlan:
    """How a data file would be read: what its row groups and pages leave, and what is chosen.

    Attributes:
        rows: positions left after the file's own statistics.
        groups, groups_total: row groups with such positions, of how many.
        bytes, whole_bytes: to be read of the columns, and their total in those row groups.
        pages, pages_total: pages read by themselves, of those in the columns that are read so.
        pages_micros, group_micros: estimated cost of both ways in microseconds, if there was a choice.
        choice: ``pages``, ``row groups``, ``pages and row groups``, ``stripes`` or ``blocks`` of other formats, or
            ``nothing``.
        why: what else decided, in words.
        at_most: columns that the filter does not need are read for surviving rows only, so it may be less.
        variant_parts: the parts of VARIANT columns that the filter takes, and how the file has them.
    """

    rows: int
    groups: int
    groups_total: int
    bytes: int
    whole_bytes: int
    pages: int = 0
    pages_total: int = 0
    pages_micros: float | None = None
    group_micros: float | None = None
    choice: str = "nothing"
    why: str = ""
    at_most: bool = False
    variant_parts: str = ""


@dataclass(frozen=True, slots=True)
class TopNVisit:
    """When and how a file is visited for the first rows in an order.

    Attributes:
        number: 1 for the file that is visited first.
        bound: no row of the file comes before one for which this SQL is true; empty without statistics.
        by: the index that knows the best rows, ``statistics`` for a file with one value; empty if no index knows them.
        reads: whether sort columns are read, all of them or those of the rows that ``by`` leaves.
    """

    number: int
    bound: str
    by: str
    reads: bool


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Where a file of a table with a primary key stands among the sorted runs of its bucket, and what that means.

    Attributes:
        level: 0 for files as writers leave them, then higher as they are compacted.
        section: numbers the sections of the plan; no key is in two of them.
        files, runs: files of the section that are read, and the sorted runs that these make.
        merged: whether its rows are merged with those of the section's other files; else it is read raw.
        before: the part of the filter that acts on the file itself, as SQL.
        after: the part that waits until rows are merged, as a newer version may hide a row that it keeps.
        search: which versions of rows are merged because of that, in words.
    """

    level: int
    section: int
    files: int
    runs: int
    merged: bool
    before: str
    after: str = ""
    search: str = ""


@dataclass(frozen=True, slots=True)
class Actual:
    """The measured cost of reading a file (``analyze``): rows returned and decoded, bytes read, milliseconds.

    For a file whose rows are merged, ``rows`` counts the rows before merging.
    """

    rows: int
    rows_decoded: int
    bytes: int
    requests: int
    pages: int
    pages_total: int
    groups: int
    millis: float


@dataclass(frozen=True, slots=True)
class ExplainedFile:
    """What indexes, deletions and pages said of one file that planning left.

    ``rows_kept`` are the positions left by indexes and deletions, ``rows_after_index`` those before deletions;
    ``strip`` shows their distribution (`RowSelection.strip`). ``pages`` is None for a file whose footer was not looked
    into; ``top_n`` is of scans for the first rows in an order; ``run`` of tables with a primary key. ``spared``: the
    scan was run, and had all its rows without reading the file. ``index_saved``: bytes of data that would be read but
    for the index; None where it left nothing out, or that was not looked into. Times in milliseconds.
    """

    path: str
    size: int
    rows: int
    rows_kept: int
    index_bytes: int
    reason: str
    rows_after_index: int = 0
    index_answers: tuple[IndexAnswer, ...] = ()
    strip: bytes = b""
    pages: PagePlan | None = None
    actual: Actual | None = None
    top_n: TopNVisit | None = None
    run: RunPlan | None = None
    spared: bool = False
    index_saved: int | None = None
    index_millis: float = 0.0
    pages_millis: float = 0.0

    def __repr__(self) -> str:
        rows = f"{self.rows_to_read:,} of {counted(self.rows, 'row')}"
        return one_line(self, self.path.rpartition("/")[2], self.outcome, rows, self.reason)

    @property
    def rows_to_read(self) -> int:
        """Positions left after all steps that were looked at."""
        return self.rows_kept if self.pages is None else self.pages.rows

    @property
    def outcome(self) -> str:
        """The step that left the file out, or how much of it is read."""
        if self.rows and not self.rows_after_index:
            return "side index"
        if self.rows and not self.rows_kept:
            return "deletion vectors"
        if self.rows and not self.rows_to_read:
            return "pages"
        if self.spared:
            return NOT_NEEDED
        if self.top_n is not None and not self.top_n.reads:
            return READ_PART
        return READ_WHOLE if self.rows_to_read == self.rows else READ_PART


def index_balance(files: Sequence[ExplainedFile], skips: Iterable[SkippedFile]) -> tuple[int, int]:
    """Bytes that are read of side indexes, and bytes of data that are not read because of what indexes said: of files
    that were not looked into, as large a part as of those that were."""
    looked = [f for f in files if f.index_saved is not None]
    saved, size = sum(f.index_saved or 0 for f in looked), sum(f.size for f in looked)
    others = sum(skip.size for skip in skips if skip.step == "embedded index")
    others += sum(f.size for f in files if f.index_saved is None and f.outcome == "side index")
    return sum(f.index_bytes for f in files), saved + (others * saved // size if size else others)


def explain_file(
    spec: ReadSpec,
    file: PlannedFile,
    embedded: Sequence[IndexAnswer] = (),
    visit: PlannedVisit | None = None,
    *,
    footer: bool = True,
    saved: bool = True,
) -> ExplainedFile:
    """The decisions on a file, made by the functions that readers use.

    Args:
        spec: of the plan.
        file: one of its files.
        embedded: the answers of its embedded index during planning.
        visit: its turn in a search for the first rows in an order.
        footer: look into the data file's footer and page indexes too.
        saved: also compute the read without its index, by its footer.

    Raises:
        SnapshotNotFoundError: the file, or its index, is gone.
        CorruptFileError: an index, a deletion vector or the footer is damaged.
    """
    if file.merged:
        from paimon_pyds.engine.read.merged_files import before_merging

        spec, file = before_merging(spec, file)
    elif visit is not None:  # sort columns are all that is read of most files
        spec = replace(spec, fields=visit.query.fields)
    with file.must_exist("explained", "explain again to see the newest snapshot"):
        return _explain(LiveRows(spec, file), tuple(embedded), visit, footer, saved)


def _explain(
    live: LiveRows, embedded: tuple[IndexAnswer, ...], visit: PlannedVisit | None, footer: bool, saved: bool
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
    pages, index_saved = None, None
    reads = footer and bool(kept) and (top_n is None or top_n.reads)
    if reads or (saved and after_index < rows):
        with open_data_file(live.spec, live.file) as reader:
            if reads:
                pages = _pages(live, reader)
                at_most, parts = pages.at_most or top_n is not None, FileReading(live, reader).part_uses()
                pages = replace(pages, at_most=at_most, variant_parts="; ".join(map(_part_text, parts)))
            if saved and after_index < rows:
                index_saved = _index_saved(live, reader)
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
        index_saved=index_saved,
        index_millis=(indexes_asked - start) * 1000,
        pages_millis=(time.perf_counter() - indexes_asked) * 1000,
    )


def _reasons(answers: Sequence[IndexAnswer], deleted: int) -> list[str]:
    found = [f"{v.index} index: {v.leaf} keeps {share_text(v.rows, v.of)}" for v in answers if v.index is not None]
    return [*found, f"{counted(deleted, 'row')} deleted"] if deleted else found


def share_text(rows: int, of: int) -> str:
    """How many rows, in words."""
    if rows == of:
        return "all rows"
    return "no row" if not rows else counted(rows, "row")


def _part_text(use: PartUse) -> str:
    """One part of a VARIANT column, in words."""
    from paimon_pyds.base.variant.paths import path_text

    how = "in the values, which are read whole"
    if use.has_column:
        how = "a column of its own" + (", whose statistics are used" if use.is_pruned_by else "")
    path = re.sub(r"\['(\w+)'\]", r".\1", path_text(use.path))
    return f"{use.column} {path} is {how}"


def _index_saved(live: LiveRows, reader: FormatReader) -> int:
    """Bytes of data that would be read but for the index. Columns that the filter does not need are read for rows that
    it keeps where many rows are left: these bytes are the same with and without an index, and don't count."""
    if not plans_groups(reader):
        return live.file.size if live.candidates.is_none else 0
    without = FileReading(LiveRows(replace(live.spec, use_index=False), live.file), reader)
    after = 0 if live.candidates.is_none else _least(FileReading(live, reader), reader)
    return max(_least(without, reader) - after, 0)


def _least(reading: FileReading, planner: PlansGroups) -> int:
    """Bytes that are read at least: where the filter's columns are read first, these."""
    found = 0
    for window, in_two in reading.passes(reading.selection):
        fields = [*reading.filter_fields, *(() if in_two else reading.output_only)]
        found += sum(plan.bytes for plan in planner.plan(fields, window)) if fields else 0
    return found


def _pages(live: LiveRows, reader: FormatReader) -> PagePlan:
    file, reading = live.file, FileReading(live, reader)
    selection = reading.selection
    rows, groups = selection.count(file.row_count), len(reader.groups())
    if selection.is_none or not (reading.filtering.file_fields or reading.output_only):
        return PagePlan(rows, 0, groups, 0, 0, why="" if selection.is_none else "no column of the file is needed")
    if not plans_groups(reader):
        used = sum(not selection.window(*g).is_none for g in reader.groups())
        unit = formats.traits_of(file.path).group
        return PagePlan(rows, used, groups, file.size, file.size, choice=unit, why="the whole file at most")
    if live.matches_all:
        return _page_plan(list(reader.plan(reading.output.file_fields, selection)), rows, groups, False)
    plans, at_most = _group_plans(reading, reader)
    return _page_plan(plans, rows, groups, at_most)


def _group_plans(reading: FileReading, planner: PlansGroups) -> tuple[list[GroupPlan], bool]:
    """How the file's row groups would be read, and whether some of that is an upper bound: where many rows are
    selected, the filter's columns are read first, and how many survivors the others are read for is not known."""
    once, twice = RowSelection.NONE, RowSelection.NONE
    for window, in_two in reading.passes(reading.selection):
        once, twice = (once, twice | window) if in_two else (once | window, twice)
    filter_fields, others = reading.filter_fields, reading.output_only
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


@dataclass(frozen=True, slots=True)
class PlannedVisit:
    """One of the files that are visited for the first rows, one after the other; ``number`` counts from 1."""

    query: TopNQuery
    file: PlannedFile
    number: int

    def explained(self) -> TopNVisit:
        """When and how the file is visited; its index is evaluated for that, no data is read."""
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
