"""How a scan narrows down, as Arrow tables, as plain values, and as text for a terminal: the funnel, then the files
worth a look; many files are summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, rows_table
from paimon_pyds.base.records import arrow_struct, dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact, share_text, visible
from paimon_pyds.engine.scan.result import BucketSkew, PruneStep, SkippedFile
from paimon_pyds.index.evaluate import IndexAnswer
from paimon_pyds.ops.explain.file import (
    NOT_SKIPPED,
    READ_PART,
    READ_WHOLE,
    Actual,
    ExplainedFile,
    PagePlan,
    RunPlan,
    TopNVisit,
    index_balance,
)

_SHOWN_FILES, _SHOWN_SKIPPED = 12, 2
_SHOWN_POSITIONS = 5
"""Positions of an answer that the text shows."""
_LONGEST, _WIDEST = 80, 400
REST = "other columns are read for the rows found only"
ENDS = "reading ends when they are found, which only `analyze` shows"
_ADVICE = "No index was used. To see the effect of one:"
_COMMAND_CHARACTERS = 300
"""Characters of a command that advice shows; a longer one is named by its Python method."""
_SHADES = " ░▒▓█"
_STRIP_WIDTH = 40
"""Characters of a strip."""


@dataclass(frozen=True, slots=True, repr=False)
class ExplainedScan:
    """How a scan narrows down.

    Attributes:
        table: the table's path.
        snapshot_id: the snapshot; None for a table that was never written.
        predicate: the filter as SQL; empty without one.
        steps: the files and rows left after each step; the first step is the whole table.
        files: the files of the plan, in plan order, or in the order of visits for the first rows.
        skips: the files that planning left out.
        analyzed: whether the scan was run.
        order: the order of the wanted first rows (``top_n``); empty without one. The files are then visited in turn,
            and no longer than needed, which the steps before ``result`` do not foresee.
        on_rows: the parts of the filter that no statistics and no index answer: they are evaluated on rows.
        limit: the greatest number of rows; None without a limit. The end of reading is not foreseen either.
        skew: how evenly rows are distributed over the buckets of the partitions that are read; None with one bucket.
        requests: the number of requests to a store for the explanation, the run included, and the bytes read by them;
            None on a local disk. Data cached by earlier queries needs no request.
    """

    table: str
    snapshot_id: int | None
    predicate: str
    steps: tuple[PruneStep, ...]
    files: tuple[ExplainedFile, ...]
    skips: tuple[SkippedFile, ...]
    analyzed: bool = False
    order: str = ""
    limit: int | None = None
    on_rows: tuple[str, ...] = ()
    skew: BucketSkew | None = None
    requests: tuple[int, int] | None = None

    @property
    def verdict(self) -> str:
        """A summary in one line: bytes and files that are read, and whether indexes were worth reading."""
        if not self.steps or not self.steps[0].files:
            return "Nothing to read: there is no data file"
        whole, skipped = self.steps[0], self.steps[0].files - self._read_files
        cost, saved = index_balance(self.files, self.skips)
        size = self.steps[-1].bytes + (0 if self.analyzed else cost)
        share = share_text(size, whole.bytes)
        if size > whole.bytes:
            share = f"{human_bytes(size)} where all data has {human_bytes(whole.bytes)}"
        files = f"{skipped:,} of {counted(whole.files, 'file')} skipped"
        read = f"{'Read' if self.analyzed else 'Reads up to'} {share}, {files}"
        if not cost + saved:
            return read
        worth = "saved more than they cost" if saved > cost else "cost more than they saved"
        what = f"for {human_bytes(cost)} of indexes" if cost else "for indexes that were in memory"
        return f"{read}; the indexes {worth} here ({human_bytes(saved)} of data {what})"

    @property
    def hint(self) -> str:
        """Advice if files are read and no index was used for the filter; else empty."""
        answers = [a for f in self.files for a in f.index_answers] + [a for s in self.skips for a in s.index_answers]
        by_index = any(answer.index is not None for answer in answers) or any(
            step.name == "global index" for step in self.steps
        )
        if not self.predicate or not self._read_files or by_index:
            return ""
        from shlex import quote

        command = f"paimon-pyds index advise {quote(redact(self.table))} --filter {quote(self.predicate)}"
        shortened = "…" in self.predicate or len(command) > _COMMAND_CHARACTERS
        return f"{_ADVICE} {'table.index.advise([filter])' if shortened else command}"

    @property
    def _read_files(self) -> int:
        return sum(f.outcome in (READ_PART, READ_WHOLE) for f in self.files)

    def to_arrow(self) -> pa.Table:
        """A row per step: ``files``, ``rows`` and ``bytes`` after it, the same ``_before``, ``millis``, ``detail``."""
        first = self.steps[:1]
        before = [*first, *self.steps[:-1]]
        numbers = ("files", "rows", "bytes")
        columns = {"step": array([s.name for s in self.steps], pa.string())}
        columns |= {f"{n}_before": array([getattr(s, n) for s in before], pa.int64()) for n in numbers}
        columns |= {n: array([getattr(s, n) for s in self.steps], pa.int64()) for n in numbers}
        columns["millis"] = array([s.millis for s in self.steps], pa.float64())
        columns["detail"] = array([s.detail for s in self.steps], pa.string())
        return pa.table(columns)

    def files_to_arrow(self) -> pa.Table:
        """A row per file: what happened to it, its rows before and after, and what decided.

        ``leaves`` has what each index said to each leaf of the filter; ``run`` the sorted run that it belongs to;
        ``pages`` how the file would be read; ``actual`` what reading it took, where the scan was run. Files that
        planning left out are named without their directory.
        """
        rows = [_file_row(f) for f in self.files] + [_skip_row(s) for s in self.skips]
        return rows_table(rows, _FILE_SCHEMA)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON; user names, passwords and signatures in addresses are blanked."""
        return {
            "table": redact(self.table),
            "verdict": self.verdict,
            "snapshot": self.snapshot_id,
            "filter": self.predicate,
            "evaluated_on_rows": list(self.on_rows),
            "order": self.order,
            "limit": self.limit,
            "analyzed": self.analyzed,
            "buckets": None if self.skew is None else asdict(self.skew),
            "requests": None if self.requests is None else dict(zip(("count", "bytes"), self.requests, strict=True)),
            "steps": self.to_arrow().to_pylist(),
            "files": [
                _file_row(f) | {"path": redact(f.path) if "@" in f.path or "?" in f.path else f.path}
                for f in self.files
            ],
            "skipped": [
                {"file": s.path, "rows": s.row_count, "size": s.size, "step": s.step, "reason": s.reason}
                for s in self.skips
            ],
        }


def outcome_counts(explained: ExplainedScan) -> dict[str, int]:
    """How many files each outcome has, in the order of the steps; what is read comes last."""
    counted = Counter([s.step or "planning" for s in explained.skips])
    counted.update(f.outcome for f in explained.files)
    order = [s.name for s in explained.steps]
    last = NOT_SKIPPED
    rank = {name: i for i, name in enumerate([*order, *(n for n in counted if n not in (*order, *last)), *last])}
    return dict(sorted(counted.items(), key=lambda item: rank[item[0]]))


def to_text(e: ExplainedScan) -> str:
    """The explanation as lines of text, of at most about 120 columns; control characters are written out."""
    return "\n".join(map(visible, _lines(e)))


def _lines(e: ExplainedScan) -> Iterator[str]:
    yield e.verdict
    if e.hint:
        yield e.hint
    yield f"Scan of {redact(e.table)} at snapshot {e.snapshot_id if e.snapshot_id is not None else '(none)'}"
    if e.predicate:
        yield f"Filter: {e.predicate}"
    if e.on_rows:
        yield f"  evaluated on rows: {', '.join(e.on_rows)}"
    if e.order:
        yield f"First rows by: {e.order} (files are visited in turn, no longer than needed; {REST})"
    if e.limit is not None:
        yield f"Limit: {counted(e.limit, 'row')} at most ({ENDS})"
    yield ""
    yield f"{'step':<18}{'files':>9}{'rows':>15}{'bytes':>12}{'ms':>9}   what decided"
    for s in e.steps:
        numbers = f"{s.files:>9,}{s.rows:>15,}{human_bytes(s.bytes):>12}{s.millis:>9,.1f}"
        yield f"{s.name:<18}{numbers}   {s.detail[:_WIDEST]}".rstrip()
    if e.skew is not None:
        yield ""
        yield f"Buckets: {skew_text(e.skew)}"
    if e.requests is not None:
        yield ""
        yield requests_text(e)
    outcomes = outcome_counts(e)
    if len(outcomes) > 1 or (outcomes and READ_WHOLE not in outcomes):
        yield ""
        by_outcome = [f"{n:,} {name}" if name in NOT_SKIPPED else f"{n:,} by {name}" for name, n in outcomes.items()]
        yield f"Files: {', '.join(by_outcome)}"
    yield from _files(e)


def requests_text(e: ExplainedScan) -> str:
    """How many requests an explanation took, of a table in a store."""
    assert e.requests is not None
    number, size = e.requests
    what = "planning, looking into files and the run" if e.analyzed else "planning and looking into files"
    return f"Requests: {number:,} for {what}, {human_bytes(size)} read"


def skew_text(skew: BucketSkew) -> str:
    """How evenly rows are distributed over buckets, as text."""
    where = f" in {counted(skew.partitions, 'partition')}" if skew.partitions > 1 else ""
    rows, size = skew.rows, skew.bytes
    return (
        f"{skew.buckets:,}{where}; rows {rows.least:,} to {rows.greatest:,}, median {rows.median:,}, "
        f"the most are {rows.ratio:,.1f} × the mean; bytes {human_bytes(size.least)} to {human_bytes(size.greatest)}, "
        f"median {human_bytes(size.median)}, {size.ratio:,.1f} ×"
    )


def _files(e: ExplainedScan) -> Iterator[str]:
    chosen = interesting(e.files)
    if not chosen:
        return
    yield ""
    kept = sum(f.rows_to_read > 0 for f in chosen)
    shown = chosen[: min(kept, _SHOWN_FILES)] + chosen[kept : kept + _SHOWN_SKIPPED]
    for f in shown:
        yield from _file(f, e.table)
    if len(chosen) > len(shown):
        yield f"… and {len(chosen) - len(shown):,} more files: files_to_arrow() has them all"


def interesting(files: Sequence[ExplainedFile]) -> list[ExplainedFile]:
    """The files that an index or statistics narrowed down, and all files of tables with a primary key.

    They are in the order of visits for the first rows, or by sections, else by the amount to read, largest first.
    """
    chosen = [
        f
        for f in files
        if f.index_answers
        or f.run
        or f.top_n
        or f.rows_to_read != f.rows
        or (f.pages and (f.pages.pages or f.pages.variant_parts))
    ]

    def place(f: ExplainedFile) -> int:
        return f.top_n.number if f.top_n else f.run.section if f.run else -f.rows_to_read

    return sorted(chosen, key=lambda f: (not f.rows_to_read, place(f)))


def _file(f: ExplainedFile, table: str) -> Iterator[str]:
    yield f"{short_path(f.path, table)}   {rows_text(f.rows_to_read, f.rows)}   {strip_text(f.strip)}".rstrip()
    for what, leaf, result, bytes_read in file_lines(f):
        parts = (leaf if len(leaf) <= _LONGEST else f"{leaf[: _LONGEST - 1]}…", result, bytes_read)
        yield f"    {what:<26} {'   '.join(part for part in parts if part)}".rstrip()


def file_lines(f: ExplainedFile) -> list[tuple[str, str, str, str]]:
    """The decisions on a file, one per line: the deciding part, the leaf of the filter, the result, bytes read."""
    lines = [] if f.run is None else _run_lines(f.run)
    for v in f.index_answers:
        index = "no index" if v.index is None else f"{v.index}({v.column})"
        kept = "all rows" if v.rows == v.of else f"{counted(v.rows, 'row')}{_positions_text(v.positions, v.rows)}"
        lines.append((index, v.leaf, f"keeps {kept}", f"{v.bytes_read:,} bytes read" if v.bytes_read else ""))
    if f.rows_after_index != f.rows_kept:
        lines.append(("deletion vector", "", f"{counted(f.rows_after_index - f.rows_kept, 'row')} deleted", ""))
    if f.top_n is not None:
        merged = f.run is not None and f.run.merged
        lines.append(("top n", "", _visit_text(f.top_n, merged), ""))
    if f.pages is not None and f.pages.variant_parts:
        lines.append(("parts of VARIANT values", "", f.pages.variant_parts, ""))
    if f.pages is not None and f.pages.rows != f.rows_kept:
        lines.append(("row groups and pages", "", f"their statistics keep {rows_text(f.pages.rows, f.rows_kept)}", ""))
    if f.pages is not None and f.pages.rows:
        size = f"{human_bytes(f.pages.bytes)} of {human_bytes(f.pages.whole_bytes)}"
        most = "at most " if f.pages.at_most else ""
        lines.append(("to read", "", f"{most}{size}: {_cost_text(f.pages)}", ""))
    if f.spared:
        lines.append(("not read", "", "all rows wanted were found in other files", ""))
    if f.actual is not None:
        lines.append(("read", "", _actual_text(f.actual, f.run is not None and f.run.merged), ""))
    return lines or ([(f.reason, "", "", "")] if f.reason else [])


def _run_lines(run: RunPlan) -> list[tuple[str, str, str, str]]:
    """Where the file stands among the sorted runs, and what of the filter may act on it."""
    where = f"level {run.level}, section {run.section}"
    if not run.merged:
        alone = "no other file has its keys" if run.files == 1 else "no other file has versions of its live rows"
        return [(where, "", f"read raw: {alone}", "")]
    if run.files == 1:
        lines = [(where, "", "merged: it has rows that delete others", "")]
    else:
        of = f"{counted(run.files, 'file')} in {counted(run.runs, 'sorted run')}"
        lines = [(where, "", f"merged: {of} may have versions of one row", "")]
    if run.before:
        lines.append(("filter before merging", run.before, "on keys: all versions of a row agree", ""))
    if run.after:
        lines.append(("filter after merging", run.after, run.search or "a newer version may differ", ""))
    return lines


def _visit_text(t: TopNVisit, merged: bool) -> str:
    bound = f"no row before {t.bound}" if t.bound else "bounds not known"
    if merged:
        how = "rows are merged before they are compared"
    elif not t.by:
        how = "sort columns are read"
    else:
        how = f"{t.by} {'have' if t.by == 'statistics' else 'has'} the best rows"
        how += ", sort columns are read for these" if t.reads else ", no data is read for that"
    return f"visited as number {t.number:,}: {bound}; {how}"


def _cost_text(p: PagePlan) -> str:
    """Which way of reading was chosen, and the numbers that decided."""
    chosen = f"{p.pages:,} of {p.pages_total:,} {p.choice}" if p.pages else p.choice
    reasons = [p.why] if p.why else []
    if p.pages_micros is not None and p.group_micros is not None:
        pages, groups = p.pages_micros / 1000, p.group_micros / 1000
        reasons.append(f"estimated {pages:,.2f} ms by pages, {groups:,.2f} ms by row groups")
    return "; ".join([chosen, *reasons])


def _actual_text(a: Actual, merged: bool) -> str:
    pages = f", {a.pages:,} of {a.pages_total:,} pages" if a.pages else ""
    requests = f" in {counted(a.requests, 'request')}" if a.requests else ""
    return (
        f"{counted(a.rows, 'row')} given {'to merging' if merged else 'out'}, {a.rows_decoded:,} decoded{pages}, "
        f"{human_bytes(a.bytes)}{requests}, {a.millis:,.1f} ms"
    )


def rows_text(rows: int, of: int) -> str:
    """``4 of 29,425 rows``."""
    if rows == of:
        return "its only row" if rows == 1 else f"all {of:,} rows" if rows else "no row"
    return f"{rows:,} of {counted(of, 'row')}"


def _positions_text(positions: Sequence[int], rows: int) -> str:
    """The first positions, as they follow a number of rows."""
    if not positions:
        return ""
    shown = positions[:_SHOWN_POSITIONS]
    more = ", …" if rows > len(shown) else ""
    return f" (at {', '.join(f'{p:,}' for p in shown)}{more})"


def strip_text(strip: bytes) -> str:
    """The distribution of the selected rows in the file, in characters from blank to full; empty for all or no rows."""
    if not strip or min(strip) == 255 or max(strip) == 0:
        return ""
    parts = [strip[len(strip) * i // _STRIP_WIDTH : len(strip) * (i + 1) // _STRIP_WIDTH] for i in range(_STRIP_WIDTH)]
    return "▕" + "".join(_SHADES[-(-max(p) * 4 // 255)] for p in parts) + "▏"


def short_path(path: str, table: str) -> str:
    """A file's path within the table, a long name cut in its middle."""
    inside = path.removeprefix(table).lstrip("/") if path.startswith(table) else path.rsplit("/", 1)[-1]
    directory, slash, name = inside.rpartition("/")
    return f"{directory}{slash}{name if len(name) <= 32 else f'{name[:13]}…{name[-14:]}'}"


def label(path: str, table: str) -> str:
    """Still shorter: the partition, and the beginning of the name."""
    directory, _, name = short_path(path, table).rpartition("/")
    partition = "/".join(part for part in directory.split("/") if "=" in part)
    return f"{partition} {name.split('…')[0]}".strip()


_LEAF = pa.struct(
    [("leaf", pa.string()), ("column", pa.string()), ("index", pa.string()), ("rows", pa.int64()),
     ("positions", pa.list_(pa.int64())), ("bytes_read", pa.int64())]
)  # fmt: skip
_FILE_SCHEMA = pa.schema(
    [("path", pa.string()), ("outcome", pa.string()), ("size", pa.int64()), ("rows", pa.int64()),
     ("rows_kept", pa.int64()), ("index_bytes", pa.int64()), ("reason", pa.string()), ("leaves", pa.list_(_LEAF)),
     ("run", arrow_struct(RunPlan)), ("top_n", arrow_struct(TopNVisit)), ("pages", arrow_struct(PagePlan)),
     ("actual", arrow_struct(Actual))]
)  # fmt: skip


def _file_row(file: ExplainedFile) -> dict[str, Any]:
    plain = {name: getattr(file, name) for name in _FILE_SCHEMA.names[:7]}
    details = {name: getattr(file, name) for name in ("run", "top_n", "pages", "actual")}
    return {
        **plain,
        "leaves": _leaf_rows(file.index_answers),
        **{name: None if detail is None else asdict(detail) for name, detail in details.items()},
    }


def _skip_row(skip: SkippedFile) -> Mapping[str, Any]:
    return {
        "path": skip.path,
        "outcome": skip.step,
        "size": skip.size,
        "rows": skip.row_count,
        "rows_kept": 0,
        "index_bytes": 0,
        "reason": skip.reason,
        "leaves": _leaf_rows(skip.index_answers),
    }


def _leaf_rows(answers: Sequence[IndexAnswer]) -> list[dict[str, Any]]:
    names = [field.name for field in _LEAF]
    return [{name: getattr(a, name) for name in names} | {"positions": list(a.positions)} for a in answers]
