"""What objects are called in one line: their ``repr``, and the summaries of operations.

Nothing here fails, reads a file or shows a secret; what is long is cut.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from paimon_pyds.base.secrets import counted, human_bytes, redact, visible

_SHOWN_CHARACTERS = 400
"""Characters of a text that messages show."""
_MOST_NAMES = 8
"""Names of a list that messages show."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def one_line(thing: object, *parts: str) -> str:
    """``Name(part, part)``; empty parts are left out."""
    return f"{type(thing).__name__}({plain(*parts)})"


class Summary:
    """What an operation did. ``str`` is a sentence, and ``repr`` the same after the name of the class."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self}"


def summary_text(snapshot_id: int | None, parts: Sequence[str], seconds: float) -> str:
    """``snapshot 7, part, part in 0.4 s``.

    ``snapshot_id``: that it published; None for none. ``parts``: what it did; empty ones are left out. ``seconds``:
    that it took.
    """
    snapshot = "" if snapshot_id is None else f"snapshot {snapshot_id}"
    return f"{plain(snapshot, *parts)} in {seconds:.1f} s"


def plain(*parts: str) -> str:
    """The parts that are not empty, without secrets and control characters; what is long is cut."""
    text = visible(redact(", ".join(part for part in parts if part)))
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def files_text(files: int, rows: int, size: int) -> str:
    """``2 files, 1,000 rows, 5.2 KiB``."""
    return f"{counted(files, 'file')}, {size_text(rows, size)}"


def size_text(rows: int, size: int) -> str:
    """``1,000 rows, 5.2 KiB``."""
    return f"{counted(rows, 'row')}, {human_bytes(size)}"


def counts_text(counts: Mapping[str, int], one: str, many: str = "") -> list[str]:
    """``10 rows deleted``, ``2 updated``: those that are not 0, the first with what is counted."""
    found = [(what, n) for what, n in counts.items() if n]
    return [f"{n:,} {what}" if i else f"{counted(n, one, many)} {what}" for i, (what, n) in enumerate(found)]


def rewritten_text(files: tuple[int, int], size: tuple[int, int], rows: int, *, dry_run: bool) -> str:
    """``12 files became 3 (5.2 → 4.9 MiB, 1,000 rows)``.

    Args:
        files: how many there were before, and are after.
        size: their bytes before and after.
        rows: in the new files.
        dry_run: nothing was written: only what was before is known.
    """
    before, after = human_bytes(size[0]), human_bytes(size[1])
    if dry_run:
        return f"dry run: {counted(files[0], 'file')} would be rewritten ({before}, {counted(rows, 'row')})"
    number, unit = before.split(" ")
    before = number if after.endswith(f" {unit}") else before
    return f"{counted(files[0], 'file')} became {files[1]:,} ({before} → {after}, {counted(rows, 'row')})"


def names_text(names: Sequence[str]) -> str:
    """``a, b, c``: the first of many, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join([*names[:_MOST_NAMES], *([f"and {more:,} more"] if more > 0 else [])])


def utc_text(millis: int) -> str:
    """``2026-01-31 12:30:00 UTC``, of milliseconds since the epoch; the number itself where no calendar has it."""
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


BLANKS = " \t\n\r"
_WHOLE = re.compile(rf"[{BLANKS}]*([+-]?[0-9]{{1,19}})[{BLANKS}]*")


def whole_number(text: str) -> int | None:
    """The integer that a text is, with blanks around it or without; None for other texts.

    Python's ``int`` also takes ``1_000``, digits of other scripts, and blanks that only Unicode knows.
    """
    found = _WHOLE.fullmatch(text)
    return None if found is None else int(found[1])


def table_lines(rows: Sequence[Sequence[str]], words: Container[int] = (0,)) -> Iterator[str]:
    """Aligned columns: those of words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.ljust(width) if i in words else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
