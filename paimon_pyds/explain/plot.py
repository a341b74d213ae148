"""The pictures of an explanation, as inline SVG: a bar of files by what happened to them, strips of kept rows.

No script and no style sheet: texts take the colour of the page (``currentColor``), fills are of a middle brightness, so
both can be read on light and on dark ground.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from paimon_pyds.explain.data import NOT_NEEDED, READ_PART, READ_WHOLE, ExplainedFile
from paimon_pyds.redaction import visible
from paimon_pyds.scan.result import STRIP_BINS

__all__ = ["colour_of", "escape", "files_bar", "joined_strip", "row_strips"]

_COLOURS = {
    "manifests": "#7d8897",
    "partitions": "#8f9aa8",
    "buckets": "#6f8fb0",
    "statistics": "#4f8ac9",
    "embedded index": "#2f9fb5",
    "side index": "#2fa36b",
    "deletion vectors": "#a06fb8",
    "limit": "#94897c",
    "top n": "#5c7a99",
    "pages": "#b5932b",
    NOT_NEEDED: "#7fa35b",
    READ_PART: "#e0762f",
    READ_WHOLE: "#cf4b4b",
}
_OTHER = "#808080"
_TRACK = "rgba(128,128,128,.2)"
_WIDTH = 760
_LABEL = 240
_COUNT = 190
_LETTER = 6.8
_LEVELS = 6
_FONT = 'font-family="system-ui,sans-serif" font-size="12" fill="currentColor"'


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
    shares = {name: max(_WIDTH * n / total, 3.0) for name, n in outcomes.items()}
    scale = _WIDTH / sum(shares.values())
    parts, x = [], 0.0
    for name, n in outcomes.items():
        width = shares[name] * scale
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="{max(width - 1, 1):.1f}" height="22" fill="{colour_of(name)}">'
            f"<title>{escape(name)}: {n:,} of {total:,} files</title></rect>"
        )
        x += width
    counts = ", ".join(f"{n:,} {name}" for name, n in outcomes.items())
    return _svg(22, f"Files by what happened to them: {counts}", "".join(parts))


def row_strips(rows: Sequence[tuple[str, bytes, str]]) -> str:
    """A strip a line: a label, where the kept rows lie (see `row_strip`), and a count."""
    step, height = 22, 14
    body = []
    counts = max([_COUNT, *(_LETTER * len(count) + 12 for _, _, count in rows)])
    width = _WIDTH - _LABEL - counts
    for i, (label, strip, count) in enumerate(rows):
        y = i * step
        body.append(
            f'<svg x="0" y="{y}" width="{_LABEL - 8}" height="{step}">'  # cuts off what is too long
            f'<text x="0" y="12" {_FONT}>{escape(_fitting(label, 36))}<title>{escape(label)}</title></text></svg>'
            f'<rect x="{_LABEL}" y="{y}" width="{width}" height="{height}" fill="{_TRACK}"/>'
            f"{_marks(strip, _LABEL, y, width, height)}"
            f'<text x="{_WIDTH}" y="{y + 12}" text-anchor="end" {_FONT}>{escape(count)}</text>'
        )
    return _svg(len(rows) * step, "Where the kept rows lie in each file", "".join(body))


def _marks(strip: bytes, x: float, y: float, width: float, height: float) -> str:
    """Neighbouring parts of one shade are drawn as one."""
    if not strip:
        return ""
    shades = np.frombuffer(strip, np.uint8)
    levels = np.ceil(np.sqrt(shades / 255) * _LEVELS).astype(np.int64)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(levels)) + 1, [len(levels)]))
    unit = width / len(levels)
    marks = []
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        level = int(levels[start])
        if level:
            marks.append(
                f'<rect x="{x + start * unit:.1f}" y="{y}" width="{max((stop - start) * unit, 1):.1f}" '
                f'height="{height}" fill="{colour_of(READ_PART)}" fill-opacity="{0.4 + 0.6 * level / _LEVELS:.2f}"/>'
            )
    return "".join(marks)


def joined_strip(files: Sequence[ExplainedFile]) -> bytes:
    """One strip of many files one after the other, by their numbers of rows: 1 … 255 for the share that is kept."""
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


def _fitting(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _svg(height: float, title: str, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" style="max-width:100%;height:auto;display:block">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )
