"""An explanation as HTML, for notebooks and as a page: the funnel, two pictures, and what decided for each file.

Plain HTML with inline styles and inline SVG: no script, no style sheet, and nothing that notebooks take out. All texts
are escaped; those of pictures take the colour of the page (``currentColor``), fills are of a middle brightness, so that
both can be read on light and on dark ground.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from paimon_pyds.base.secrets import counted, human_bytes, redact, visible
from paimon_pyds.base.selection import STRIP_BINS
from paimon_pyds.engine.scan.result import PruneStep
from paimon_pyds.ops.explain.file import NOT_NEEDED, NOT_SKIPPED, READ_PART, READ_WHOLE, ExplainedFile
from paimon_pyds.ops.explain.scan import (
    ENDS,
    REST,
    ExplainedScan,
    file_lines,
    interesting,
    label,
    outcome_counts,
    requests_text,
    rows_text,
    short_path,
    skew_text,
)

_HIDDEN = "not compacted"
_COLOURS = {
    "manifests": "#7d8897", "partitions": "#8f9aa8", "buckets": "#6f8fb0", _HIDDEN: "#9a8fb8", "keys": "#5f8fd0",
    "statistics": "#4f8ac9", "embedded index": "#2f9fb5", "side index": "#2fa36b", "deletion vectors": "#a06fb8",
    "limit": "#94897c", "top n": "#5c7a99", "pages": "#b5932b", NOT_NEEDED: "#7fa35b", READ_PART: "#e0762f",
    READ_WHOLE: "#cf4b4b",
}  # fmt: skip
_OTHER = "#808080"
TRACK = "rgba(128,128,128,.2)"
WIDTH = 760
"""Width of pictures in units of SVG, which scale with the page."""
_STRIP = 14
"""Height of a strip in units of SVG."""
_STRIP_NAME = "flex:0 0 16em;"
_LEVELS = 6
"""Shades of a strip."""


def escape(text: str) -> str:
    """A text as HTML that shows it and nothing else: markup is escaped, control characters are written out."""
    return html.escape(visible(text))


def colour_of(outcome: str) -> str:
    """The colour of what happened to a file."""
    return _COLOURS.get(outcome, _OTHER)


def files_bar(outcomes: Mapping[str, int]) -> str:
    """One bar of all files, cut by what happened to them: those that are skipped left, those that are read right."""
    total = sum(outcomes.values())
    if not total:
        return ""
    shares = {name: max(WIDTH * n / total, 3.0) for name, n in outcomes.items()}
    scale = WIDTH / sum(shares.values())
    parts, x = [], 0.0
    for name, n in outcomes.items():
        width = shares[name] * scale
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="{max(width - 1, 1):.1f}" height="22" fill="{colour_of(name)}">'
            f"<title>{escape(name)}: {n:,} of {total:,} files</title></rect>"
        )
        x += width
    counts = ", ".join(f"{n:,} {name}" for name, n in outcomes.items())
    return picture(22, f"Files by what happened to them: {counts}", "".join(parts))


def row_strips(rows: Sequence[tuple[str, bytes, str]]) -> str:
    """A line for each strip: a name, a count, and the distribution of the selected rows (see `RowSelection.strip`)."""
    widest = max(len(count) for _, _, count in rows)
    return wrapping(
        [
            (
                f'<span title="{escape(name)}">{escape(name if len(name) <= 36 else name[:35] + "…")}</span>',
                _STRIP_NAME,
            ),
            (escape(count), f"flex:0 1 {widest * 0.6:.1f}em;{_NUMBER}"),
            (picture(_STRIP, f"{name}: {count}", _marks(strip), TRACK), "flex:1 1 240px;"),
        ]
        for name, strip, count in rows
    )


def _marks(strip: bytes) -> str:
    """Neighbouring parts of one shade are drawn as one."""
    if not strip:
        return ""
    shades = np.frombuffer(strip, np.uint8)
    levels = np.ceil(np.sqrt(shades / 255) * _LEVELS).astype(np.int64)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(levels)) + 1, [len(levels)]))
    unit = WIDTH / len(levels)
    marks = []
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        level = int(levels[start])
        if level:
            marks.append(
                f'<rect x="{start * unit:.1f}" y="0" width="{max((stop - start) * unit, 2):.1f}" '
                f'height="{_STRIP}" fill="{colour_of(READ_PART)}" fill-opacity="{0.55 + 0.45 * level / _LEVELS:.2f}"/>'
            )
    return "".join(marks)


def joined_strip(files: Sequence[ExplainedFile]) -> bytes:
    """One strip of many files one after the other, by their numbers of rows: 1 … 255 for the selected share."""
    rows = np.array([f.rows for f in files], np.float64)
    if not rows.sum():
        return b""
    shares = np.concatenate([np.frombuffer(f.strip or bytes(STRIP_BINS), np.uint8) / 255 for f in files])
    weights = np.repeat(rows / STRIP_BINS, STRIP_BINS)
    ends = np.cumsum(weights)
    part = np.minimum((ends - weights / 2) * STRIP_BINS / ends[-1], STRIP_BINS - 1).astype(np.int64)
    kept = np.bincount(part, shares * weights, STRIP_BINS)
    seen = np.bincount(part, weights, STRIP_BINS)
    share = np.divide(kept, seen, out=np.zeros(STRIP_BINS), where=seen > 0)
    return np.where(share > 0, 1 + np.floor(share * 254), 0).astype(np.uint8).tobytes()


def picture(height: int, title: str, body: str, ground: str = "none") -> str:
    """A picture, `WIDTH` units wide and drawn as wide as its place is; ``title`` says in words what it shows."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height}" width="100%" '
        f'height="{height}" preserveAspectRatio="none" style="display:block;background:{ground}">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


_SHOWN_STRIPS = 10
"""Files of which a page shows strips."""
_SHOWN_FILES = 20
"""Files that a page describes."""
_CELL = "padding:2px 10px 2px 0;border:0;background:none;vertical-align:top;"
CELL_LEFT = f"{_CELL}text-align:left;"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;"
_HEAD = "font-weight:600;margin:14px 0 4px 0;"
TABLE_STYLE = "border-collapse:collapse;border:0;margin:0;font-size:13px;color:inherit;"
FAINT = "opacity:.7;"


def to_html(e: ExplainedScan) -> str:
    """The explanation as a piece of HTML."""
    verdict = f'<div style="font-weight:600;font-size:15px;margin-bottom:6px">{escape(e.verdict)}</div>'
    hint = f'<div style="{FAINT}">{escape(e.hint)}</div>' if e.hint else ""
    return piece(verdict, hint, _title(e), _funnel(e), _buckets(e), _bar(e), _strips(e), _details(e))


def piece(*parts: str) -> str:
    """Some HTML as one block, in the size of type that all of it has."""
    style = "max-width:960px;font-size:13px;line-height:1.4;overflow-wrap:anywhere"
    return f'<div style="{style}">{"".join(parts)}</div>'


def to_page(e: ExplainedScan) -> str:
    """The explanation as a document of its own."""
    return page(f"Scan of {redact(e.table)}", to_html(e))


def page(title: str, body: str) -> str:
    """A piece of HTML as a document of its own, light or dark as the reader's system is."""
    style = (
        ":root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:min(24px,4vw)}"
        "@media(prefers-color-scheme:dark){body{background:#15181c;color:#e4e6e8}}"
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}</body></html>\n"
    )


def _title(e: ExplainedScan) -> str:
    def faint(text: str) -> str:
        return f'<span style="{FAINT}">({escape(text)})</span>'

    snapshot = "never written" if e.snapshot_id is None else f"snapshot {e.snapshot_id}"
    where = (
        f'<div style="margin-top:4px"><code style="white-space:pre-wrap">{escape(e.predicate)}</code></div>'
        if e.predicate
        else f'<div style="margin-top:4px;{FAINT}">no filter</div>'
    )
    if e.on_rows:
        where += f"<div>evaluated on rows: <code>{escape(', '.join(e.on_rows))}</code></div>"
    order = f"<div>first rows by <code>{escape(e.order)}</code> {faint(REST)}</div>" if e.order else ""
    if e.requests is not None:
        where += f"<div>{escape(requests_text(e))}</div>"
    limit = "" if e.limit is None else f"<div>{counted(e.limit, 'row')} at most {faint(ENDS)}</div>"
    return (
        f"<div><b>Scan of</b> {escape(redact(e.table))} <span style='{FAINT}'>at {snapshot}</span>"
        f"{where}{order}{limit}</div>"
    )


def _funnel(e: ExplainedScan) -> str:
    if not e.steps:
        return ""
    table = wrapping(_step(s, e.steps[0]) for s in e.steps)
    return f'<div style="{_HEAD}">What each step left</div>{table}'


def _step(s: PruneStep, whole: PruneStep) -> list[tuple[str, str]]:
    colour = colour_of(s.name)
    bars = _share_bar("rows", s.rows, whole.rows, colour) + _share_bar("bytes", s.bytes, whole.bytes, colour)
    numbers = [
        (counted(s.files, "file"), 5),
        (counted(s.rows, "row"), 7.5),
        (human_bytes(s.bytes), 5.5),
        (f"{s.millis:,.1f} ms", 5),
    ]
    side_by_side = "".join(
        f'<span style="display:inline-block;min-width:{width}em;{_NUMBER}">{text}</span>' for text, width in numbers
    )
    return [
        (escape(s.name), "flex:0 0 9em;"),
        (side_by_side, "flex:0 1 auto;"),  # goes to a second line as a whole
        (bars, "flex:1 1 160px;"),
        (escape(s.detail), f"flex:2 1 240px;{FAINT}"),
    ]


def _share_bar(what: str, n: int, of: int, colour: str) -> str:
    share = min(max(100 * n / max(of, 1), 1.4 if n else 0), 100)
    return (
        f'<div style="display:flex;align-items:center"><span style="flex:0 0 3em;font-size:11px;{FAINT}">{what}</span>'
        f'<div style="flex:1;height:7px;background:{TRACK}">'
        f'<div style="width:{share:.1f}%;height:7px;background:{colour}"></div></div></div>'
    )


def wrapping(rows: Iterable[Sequence[tuple[str, str]]]) -> str:
    """A table whose cells go to further lines where the page is narrow: the HTML and the style of each cell."""
    block, row = "display:block;", "display:flex;flex-wrap:wrap;column-gap:10px;background:none;padding:2px 0;"
    cell = "padding:0;border:0;background:none;text-align:left;overflow-wrap:anywhere;min-width:0;"
    lines = ["".join(f'<td style="{cell}{style}">{text}</td>' for text, style in cells) for cells in rows]
    body = "".join(f'<tr style="{row}">{line}</tr>' for line in lines)
    return f'<table style="{TABLE_STYLE}{block}"><tbody style="{block}">{body}</tbody></table>'


def table_row(tag: str, cells: Iterable[tuple[str, str]]) -> str:
    """A row of a table: ``th`` or ``td``, with the HTML and the style of each cell."""
    inner = "".join(f'<{tag} style="{style}">{text}</{tag}>' for text, style in cells)
    return f'<tr style="background:none">{inner}</tr>'


def _buckets(e: ExplainedScan) -> str:
    """A column for each bucket, the one with most rows left."""
    if e.skew is None:
        return ""
    height, rows = 60, e.skew.profile
    width, scale = WIDTH / len(rows), height / max(*rows, 1)
    columns = "".join(
        f'<rect x="{i * width:.1f}" y="{height - n * scale:.1f}" width="{max(width - 1, 1):.1f}" '
        f'height="{n * scale:.1f}" fill="{colour_of("buckets")}"><title>{n:,} rows</title></rect>'
        for i, n in enumerate(rows)
    )
    text = skew_text(e.skew)
    bars = picture(height, f"Rows of the buckets, the largest first: {text}", columns)
    return (
        f'<div style="{_HEAD}">Distribution of rows over buckets</div>{bars}<div style="{FAINT}">{escape(text)}</div>'
    )


def _bar(e: ExplainedScan) -> str:
    outcomes = outcome_counts(e)
    total = sum(outcomes.values())
    if not total:
        return ""
    legend = "".join(
        f'<span style="display:inline-block;margin-right:16px;white-space:nowrap">'
        f'<span style="display:inline-block;width:10px;height:10px;background:{colour_of(name)};margin-right:5px">'
        f"</span>{n:,} {escape(_outcome(name))}</span>"
        for name, n in outcomes.items()
    )
    head = f'<div style="{_HEAD}">What happened to {counted(total, "file")}</div>'
    return f'{head}{files_bar(outcomes)}<div style="margin-top:4px">{legend}</div>'


def _outcome(name: str) -> str:
    return name if name in NOT_SKIPPED or name == _HIDDEN else f"skipped by {name}"


def _strips(e: ExplainedScan) -> str:
    shown = [f for f in interesting(e.files) if 0 < f.rows_kept < f.rows]
    if not shown:
        return ""
    rows = [(label(f.path, e.table), f.strip, rows_text(f.rows_kept, f.rows)) for f in shown[:_SHOWN_STRIPS]]
    rest = ""
    if len(e.files) > 1:
        kept, of = sum(f.rows_kept for f in e.files), sum(f.rows for f in e.files)
        rows.insert(0, (f"{len(e.files):,} files, one after the other", joined_strip(e.files), rows_text(kept, of)))
    if len(shown) > _SHOWN_STRIPS:
        rest = f'<div style="{FAINT}">and {len(shown) - _SHOWN_STRIPS:,} more files</div>'
    faint = f'<span style="font-weight:400;{FAINT}">(stronger: more of the rows)</span>'
    head = f'<div style="{_HEAD}">Rows left by indexes and deletions {faint}</div>'
    return f"{head}{row_strips(rows)}{rest}"


def _details(e: ExplainedScan) -> str:
    chosen = interesting(e.files)
    if not chosen:
        return ""
    items = "".join(_file(f, e.table) for f in chosen[:_SHOWN_FILES])
    more = len(chosen) - _SHOWN_FILES
    rest = (
        f'<div style="{FAINT}">and {more:,} more: <code>files_to_arrow()</code> has them all</div>' if more > 0 else ""
    )
    return f'<div style="{_HEAD}">File by file</div>{items}{rest}'


def _file(f: ExplainedFile, table: str) -> str:
    dot = f'<span style="color:{colour_of(f.outcome)}">●</span>'
    name = escape(short_path(f.path, table))
    summary = f"{dot} <code>{name}</code> {escape(f.outcome)}: {rows_text(f.rows_to_read, f.rows)}"
    body = f'<div style="margin-left:18px">{wrapping(_line(*line) for line in file_lines(f))}</div>'
    return f'<details style="margin:1px 0"><summary style="cursor:pointer">{summary}</summary>{body}</details>'


def _line(what: str, leaf: str, result: str, bytes_read: str) -> list[tuple[str, str]]:
    code = [(f"<code>{escape(leaf)}</code>", "flex:0 1 auto;")] if leaf else []
    return [(escape(what), "flex:0 0 13em;"), *code, (escape(result), "flex:1 1 200px;"), (bytes_read, _NUMBER)]
