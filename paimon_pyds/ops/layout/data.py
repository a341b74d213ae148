"""A layout as data: what is known of each column, and two layouts side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import rows_table
from paimon_pyds.base.records import arrow_struct, dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact, visible
from paimon_pyds.base.text import one_line, table_lines
from paimon_pyds.ops.explain.html import FAINT, TRACK, WIDTH, escape, page, picture, piece, wrapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """How files overlap in one column.

    Attributes:
        column, type: of the table.
        files: all of the table.
        files_with_statistics: those whose bounds of the column are known; the others are read for any filter.
        files_of_nulls: those of them with no value but NULL.
        average_depth: files that hold the value of a row, on average over the rows.
        max_depth: files that hold the value that the most files hold.
        overlap_share: share of the files with values that have one in common with another file, 0 to 1.
        point_files: files read for ``column = value``, on average over the rows, those without statistics included.
        range_files: files read for a range that has one of a hundred rows.
        low, high: the least and the greatest bound, as text; empty where none is known.
        depths: the depth at each hundredth of the rows, in the order of their values.
    """

    column: str
    type: str
    files: int
    files_with_statistics: int = 0
    files_of_nulls: int = 0
    average_depth: float = 0.0
    max_depth: int = 0
    overlap_share: float = 0.0
    point_files: float = 0.0
    range_files: float = 0.0
    low: str = ""
    high: str = ""
    depths: tuple[int, ...] = ()


_SCHEMA = pa.schema(list(arrow_struct(ColumnLayout)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Bytes of the data files: their total, and percentiles of the sizes of files."""

    total: int = 0
    smallest: int = 0
    percent_10: int = 0
    median: int = 0
    percent_90: int = 0
    largest: int = 0

    @classmethod
    def of(cls, sizes: npt.NDArray[np.int64]) -> FileSizes:
        """Of files of these sizes."""
        if not len(sizes):
            return cls()
        found = np.percentile(sizes, (0, 10, 50, 90, 100), method="lower").astype(np.int64).tolist()
        return cls(total=int(sizes.sum()), **dict(zip(list(cls.__slots__)[1:], found, strict=True)))


class _Shown(ABC):
    """What layouts and comparisons have in common: texts and pictures."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """Lines of text; the first one sums up."""

    @property
    @abstractmethod
    def html(self) -> str:
        """A piece of HTML with inline SVG, as notebooks show it."""

    @property
    def page(self) -> str:
        """The picture and the numbers as an HTML document of its own, light or dark as the reader's system is."""
        return page("Layout", self.html)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return one_line(self, self.text.partition("\n")[0])

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Layout(_Shown):
    """How the files of a snapshot overlap. ``print`` it, let a notebook show it, take it as Arrow, or compare it.

    Attributes:
        table: its path.
        snapshot_id: None for a table that was never written.
        where: the partitions looked at; empty for all.
        files, rows: of the snapshot; deleted rows are counted.
        sizes: of the files.
        columns: in the requested order.
        notes: what the numbers do not say.
    """

    table: str
    snapshot_id: int | None = None
    where: str = ""
    files: int = 0
    rows: int = 0
    sizes: FileSizes = FileSizes()
    columns: tuple[ColumnLayout, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(map(visible, layout_lines(self)))

    @property
    def html(self) -> str:
        """HTML with inline SVG: the number of files over the values of each column."""
        return plots(layout_lines(self)[0], [(c, None) for c in self.columns], self.notes)

    def to_arrow(self) -> pa.Table:
        """A row for each column."""
        return rows_table([asdict(c) for c in self.columns], _SCHEMA)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "table": redact(self.table)}

    def compare(self, other: Layout) -> LayoutComparison:
        """This layout as the one before, another one of the table as the one after it."""
        return LayoutComparison(self, other)


@dataclass(frozen=True, slots=True, repr=False)
class LayoutComparison(_Shown):
    """Two layouts, such as those before and after a compaction, in the columns that both have."""

    before: Layout
    after: Layout

    @property
    def pairs(self) -> list[tuple[ColumnLayout, ColumnLayout]]:
        """Each column after and before."""
        before = {c.column: c for c in self.before.columns}
        return [(c, before[c.column]) for c in self.after.columns if c.column in before]

    @property
    def text(self) -> str:
        return "\n".join(map(visible, comparison_lines(self)))

    @property
    def html(self) -> str:
        """A piece of HTML with inline SVG: the depths after, filled, and those before, as a line."""
        notes = dict.fromkeys((*self.before.notes, *self.after.notes))
        return plots(comparison_lines(self)[0], list(self.pairs), tuple(notes))

    def to_arrow(self) -> pa.Table:
        """A row for each column: what was before, and what is after."""
        sides = ("before", "after")
        fields = [pa.field("column", pa.string())]
        fields += [pa.field(f"{side}_{name}", _SCHEMA.field(name).type) for name in COLUMNS for side in sides]
        rows = [
            {"column": after.column}
            | {f"{side}_{n}": getattr(c, n) for n in COLUMNS for side, c in zip(sides, (before, after), strict=True)}
            for after, before in self.pairs
        ]
        return rows_table(rows, pa.schema(fields))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {"before": self.before.as_dict(), "after": self.after.as_dict()}


COLUMNS = (
    "files", "files_with_statistics", "average_depth", "max_depth", "overlap_share", "point_files", "range_files"
)  # fmt: skip
"""The numbers that two layouts are compared by."""
_HEAD = ("column", "one value", "1% of rows", "deepest", "overlapping", "no statistics")
_SHOWN_LINES = 20
_FACTS = {"for one value": "point_files", "for 1% of the rows": "range_files", "deepest": "max_depth"}
_HEIGHT = 64
_LEAST = 1.5
"""Height that is visible, however many files there are."""
_AFTER, _BEFORE = "#4f8ac9", "#c98a2f"


def layout_lines(layout: Layout) -> list[str]:
    """The lines of a layout's text; the first one sums up."""
    at = "" if layout.snapshot_id is None else f" at snapshot {layout.snapshot_id}"
    where = f" where {layout.where}" if layout.where else ""
    head = f"Layout of {redact(layout.table)}{at}{where}: "
    if not layout.files:
        return [f"{head}no data file"]
    sizes = layout.sizes
    lines = [
        head + _summary(layout),
        f"{counted(layout.files, 'file')}, {counted(layout.rows, 'row')}, {human_bytes(sizes.total)}: files of "
        f"{human_bytes(sizes.smallest)} to {human_bytes(sizes.largest)}, half of them of {human_bytes(sizes.median)} "
        "at most",
    ]
    if layout.columns:
        lines += ["", "Files that are read, by statistics alone:", *table_lines([_HEAD, *map(_row, layout.columns)])]
    return lines + [f"note: {note}" for note in layout.notes]


def _summary(layout: Layout) -> str:
    ranked = sorted(layout.columns, key=lambda c: c.point_files)
    if not ranked:
        return counted(layout.files, "file")
    best, worst = ranked[0], ranked[-1]
    text = f"one value of {best.column} is in {best.point_files:,.1f} of {counted(layout.files, 'file')}"
    return text if best is worst else f"{text}, one of {worst.column} in {worst.point_files:,.1f}"


def _row(c: ColumnLayout) -> tuple[str, ...]:
    without = c.files - c.files_with_statistics
    deepest = f"{c.max_depth:,}" if c.max_depth else ""
    share = f"{c.overlap_share:.0%}" if c.max_depth else ""
    return (
        c.column,
        f"{c.point_files:,.1f}",
        f"{c.range_files:,.1f}",
        deepest,
        share,
        f"{without:,}" if without else "",
    )


def comparison_lines(comparison: LayoutComparison) -> list[str]:
    """The lines of a comparison's text; the first one sums up."""
    before, after = comparison.before, comparison.after
    head = f"Layout of {redact(after.table)}, snapshot {before.snapshot_id} and {after.snapshot_id}: "
    pairs = comparison.pairs
    if not pairs:
        return [f"{head}no column in common"]
    new, old = max(pairs, key=lambda pair: pair[1].point_files - pair[0].point_files)
    lines = [
        f"{head}one value of {new.column} was in {old.point_files:,.1f} of {counted(old.files, 'file')}, and is in "
        f"{new.point_files:,.1f} of {new.files:,}",
        "",
        "Files that are read, by statistics alone, before / after:",
    ]
    rows = [(new.column, *map(_both, _row(old)[1:], _row(new)[1:])) for new, old in pairs]
    return [*lines, *table_lines([_HEAD, *rows])]


def _both(before: str, after: str) -> str:
    return f"{before or '-'} / {after or '-'}" if before or after else ""


def plots(title: str, columns: Sequence[tuple[ColumnLayout, ColumnLayout | None]], notes: Sequence[str]) -> str:
    """A picture for each column.

    ``title``: one line. ``columns``: each with what it was before, if that is to be shown. ``notes``: what the numbers
    do not say.
    """
    shown = columns[:_SHOWN_LINES]
    body = wrapping(_plot(now, was) for now, was in shown)
    what = "files that hold a value, of all files, over the rows in the order of their values"
    legend = f'<span style="{FAINT}">{what}</span>'
    if any(was is not None for _, was in shown):
        legend += f': <span style="color:{_BEFORE}">before</span>, <span style="color:{_AFTER}">after</span>'
    rest = (
        [f"and {len(columns) - _SHOWN_LINES:,} more columns: to_arrow() has them all"]
        if len(columns) > _SHOWN_LINES
        else []
    )
    lines = "".join(f'<div style="{FAINT}">{escape(note)}</div>' for note in (*rest, *notes))
    head = f'<div><b>{escape(title)}</b></div><div style="margin-bottom:8px">{legend}</div>'
    return piece(head, body, lines)


def _plot(now: ColumnLayout, was: ColumnLayout | None) -> list[tuple[str, str]]:
    """One column: its name, the picture with the least and the greatest value below, and what it says in numbers."""
    most = max(now.files, was.files if was else 0, 1)
    parts = []
    if now.depths:
        parts.append(f'<path d="M0 {_HEIGHT}{_edge(now.depths, most)}V{_HEIGHT}Z" fill="{_AFTER}" fill-opacity=".75"/>')
    if was is not None and was.depths:
        line = f'd="M0 {_HEIGHT}{_edge(was.depths, most)}V{_HEIGHT}" fill="none" stroke="{_BEFORE}" stroke-width="1.5"'
        parts.append(f'<path {line} vector-effect="non-scaling-stroke"/>')
    chart = picture(_HEIGHT, f"Files over the values of {now.column}", "".join(parts), TRACK)
    ends = f"<span>{escape(now.low)}</span><span>{escape(now.high)}</span>"
    facts = []
    for what, name in _FACTS.items():
        numbers = [f"{_number(getattr(c, name))} of {c.files:,}" for c in (was, now) if c is not None]
        facts.append(f"{what}: {' → '.join(numbers)}")
    without = now.files - now.files_with_statistics
    if without:
        facts.append(f"{counted(without, 'file')} without statistics")
    return [
        (f"<b>{escape(now.column)}</b>", "flex:0 1 11em;"),
        (
            f'{chart}<div style="display:flex;justify-content:space-between;gap:8px;{FAINT}">{ends}</div>',
            "flex:1 1 300px;",
        ),
        ("<br>".join(map(escape, facts)), "flex:0 1 17em;"),
    ]


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _edge(depths: Sequence[int], most: int) -> str:
    """The upper edge of a column's picture, as steps of an SVG path."""
    width = WIDTH / len(depths)
    steps, last = [], None
    for i, depth in enumerate(depths):
        if depth != last:
            steps.append(f"H{i * width:.1f}V{_HEIGHT - max(depth * _HEIGHT / most, _LEAST):.1f}")
            last = depth
    return f"{''.join(steps)}H{WIDTH}"
