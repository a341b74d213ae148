"""A layout as text and as HTML: for each column a picture of the number of files over its values.

Plain HTML with inline SVG, as explanations are (`paimon_pyds.ops.explain.html`): texts take the colour of the page,
fills are of a middle brightness, so that both can be read on light and on dark ground.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.secrets import counted, human_bytes, redact
from paimon_pyds.ops.explain.html import FAINT, TRACK, WIDTH, escape, picture, piece, wrapping

if TYPE_CHECKING:
    from paimon_pyds.ops.layout.data import ColumnLayout, Layout, LayoutComparison

COLUMNS = (
    "files", "files_with_statistics", "average_depth", "max_depth", "overlap_share", "point_files", "range_files"
)  # fmt: skip
"""The numbers that two layouts are compared by."""
_HEAD = ("column", "one value", "1% of rows", "deepest", "overlapping", "no statistics")
_SHOWN = 20
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


def table_lines(rows: Sequence[Sequence[str]], words: Container[int] = (0,)) -> Iterator[str]:
    """Aligned columns: those of words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.ljust(width) if i in words else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def plots(title: str, columns: Sequence[tuple[ColumnLayout, ColumnLayout | None]], notes: Sequence[str]) -> str:
    """A picture for each column.

    ``title``: one line. ``columns``: each with what it was before, if that is to be shown. ``notes``: what the numbers
    do not say.
    """
    shown = columns[:_SHOWN]
    body = wrapping(_plot(now, was) for now, was in shown)
    what = "files that hold a value, of all files, over the rows in the order of their values"
    legend = f'<span style="{FAINT}">{what}</span>'
    if any(was is not None for _, was in shown):
        legend += f': <span style="color:{_BEFORE}">before</span>, <span style="color:{_AFTER}">after</span>'
    rest = [f"and {len(columns) - _SHOWN:,} more columns: to_arrow() has them all"] if len(columns) > _SHOWN else []
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
