"""Explain: a plan's funnel as data first, then as text and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import Const
from paimon_pyds.scan.result import PlannedSkip, PruneStep, ScanPlan

__all__ = ["Explanation", "FileDecision", "explain_plan"]


@dataclass(frozen=True, slots=True)
class FileDecision:
    """What the indexes said of one file that planning left: rows before and after, and what decided."""

    path: str
    size: int
    rows: int
    rows_kept: int
    index_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a scan narrows down: per step, and per file. ``print`` it, or let a notebook show it."""

    table: str
    snapshot_id: int | None
    predicate: str
    steps: tuple[PruneStep, ...]
    files: tuple[FileDecision, ...]
    skips: tuple[PlannedSkip, ...]

    @property
    def text(self) -> str:
        """The funnel as lines of text."""
        return "\n".join(_lines(self))

    def to_arrow(self) -> pa.Table:
        """The steps as a table: step, files, rows, bytes, millis, detail."""
        columns = ("name", "files", "rows", "bytes", "millis", "detail")
        types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.float64(), pa.string())
        return pa.table(
            {
                ("step" if name == "name" else name): pa.array([getattr(s, name) for s in self.steps], type_)
                for name, type_ in zip(columns, types, strict=True)
            }
        )

    def files_to_arrow(self) -> pa.Table:
        """The files that planning left, with what their indexes said."""
        columns = ("path", "size", "rows", "rows_kept", "index_bytes", "reason")
        types = (pa.string(), *[pa.int64()] * 4, pa.string())
        return pa.table(
            {
                name: pa.array([getattr(f, name) for f in self.files], type_)
                for name, type_ in zip(columns, types, strict=True)
            }
        )

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _html(self)


def explain_plan(plan: ScanPlan, table: str, decisions: Sequence[FileDecision]) -> Explanation:
    """The explanation of a plan and of what its readers would be told by side indexes and deletion vectors."""
    steps = list(plan.steps)
    if any(t.index_path or t.selection or t.deletion for t in plan.tasks):
        kept = [d for d in decisions if d.rows_kept]
        read = sum(d.index_bytes for d in decisions)
        steps.append(
            PruneStep(
                "file index and deletions",
                len(kept),
                sum(d.rows_kept for d in kept),
                sum(d.size for d in kept),
                0.0,
                f"{read:,} bytes of index read" if read else "",
            )
        )
    predicate = plan.spec.predicate
    return Explanation(
        table=table,
        snapshot_id=plan.snapshot_id,
        predicate="" if predicate is Const.TRUE else to_sql(predicate),
        steps=tuple(steps),
        files=tuple(decisions),
        skips=plan.skips,
    )


def human_bytes(size: int) -> str:
    """A size for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{size} B"


def _lines(e: Explanation) -> list[str]:
    lines = [f"Scan of {e.table} at snapshot {e.snapshot_id if e.snapshot_id is not None else '(none)'}"]
    if e.predicate:
        lines.append(f"Filter: {e.predicate}")
    lines.append("")
    lines.append(f"{'step':<26}{'files':>9}{'rows':>15}{'bytes':>12}   what decided")
    for step in e.steps:
        size = human_bytes(step.bytes)
        lines.append(f"{step.name:<26}{step.files:>9,}{step.rows:>15,}{size:>12}   {step.detail}".rstrip())
    shown = [d for d in e.files if d.rows_kept != d.rows][:20]
    if shown:
        lines.append("")
        lines.append("Files that indexes or deletions narrow down:")
        lines.extend(f"  {d.path.rsplit('/', 1)[-1]}: {d.rows_kept:,} of {d.rows:,} rows — {d.reason}" for d in shown)
    return lines


def _html(e: Explanation) -> str:
    widest = max((s.rows for s in e.steps), default=1) or 1
    rows = "".join(
        "<tr>"
        f"<td>{html.escape(s.name)}</td><td style='text-align:right'>{s.files:,}</td>"
        f"<td style='text-align:right'>{s.rows:,}</td><td style='text-align:right'>{human_bytes(s.bytes)}</td>"
        "<td style='min-width:200px'><div style='background:#2f6f9f;height:10px;"
        f"width:{max(0.5, 100 * s.rows / widest):.1f}%'></div></td><td>{html.escape(s.detail)}</td></tr>"
        for s in e.steps
    )
    title = html.escape(f"{e.table}, snapshot {e.snapshot_id}")
    where = f"<div><code>{html.escape(e.predicate)}</code></div>" if e.predicate else ""
    head = "<tr><th>step</th><th>files</th><th>rows</th><th>bytes</th><th>rows left</th><th>what decided</th></tr>"
    return f"<div><b>{title}</b>{where}<table>{head}{rows}</table></div>"
