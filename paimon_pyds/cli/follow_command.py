"""The command ``follow``: rows as they come, until Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from paimon_pyds.base.text import whole_number
from paimon_pyds.cli import parameters as p
from paimon_pyds.cli.program import program
from paimon_pyds.cli.target import Target, command

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.engine.stream.follow import Follow

_LIKE_INTERRUPT = 130
"""Exit status of a program that Ctrl-C ended."""


def _text_or_number(text: str) -> str | int:
    number = whole_number(text)
    return text if number is None else number


_PLACE = p.Parsed("place", _text_or_number)


@command(
    program,
    p.where(),
    p.columns,
    p.option("--from", "from_", type=_PLACE, metavar="START",
             help="latest-full (the newest rows, then what comes; the default), latest, compacted-full, a snapshot, a "
             "tag, or a time"),
    p.option("--until", type=_PLACE, metavar="END",
             help="latest (the newest snapshot at the start), a snapshot, or a time"),
    p.option("--rowkind-column", metavar="NAME", help="a first column with the kind of each row: +I, -U, +U or -D"),
    p.option("--other-kinds", type=click.Choice(("refuse", "drop")), default="refuse",
             help="without that column: rows of other kinds than +I end the command, or are left out"),
    p.option("--consumer-id", metavar="NAME", help="go on where this consumer was; keeps what it has yet to read"),
    p.option("--poll", default="5s", metavar="TIME", help="the pause between two looks for new rows: 5s by default"),
    rows=True,
    options=True,
)  # fmt: skip
def follow(at: Target, **given: Any) -> int:
    """Print the table's rows, and then what comes, until Ctrl-C."""
    assert at.rows is not None
    followed = at.table.follow(**given, options=at.options)
    rows = _Rows(followed)
    at.rows.show(followed.arrow_schema, rows.batches(), follows=True)
    return _LIKE_INTERRUPT if rows.interrupted else 0


class _Rows:
    """The rows of a table that is followed, as they come; Ctrl-C ends them."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self.interrupted = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Each is printed, and seen by whoever reads the output, before the next is waited for."""
        try:
            with self._follow as follow:
                while True:
                    _flush()
                    change = follow.try_next()
                    if change is not None:
                        yield change.batch
                    elif follow.ended:
                        return
                    else:
                        _check_reader()
                        time.sleep(follow.pause)
        except KeyboardInterrupt:
            self.interrupted = True


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _check_reader() -> None:
    """Raise BrokenPipeError where the output is a pipe that nobody reads any more."""
    with contextlib.suppress(AttributeError, io.UnsupportedOperation, ValueError):
        number = sys.stdout.fileno()
        if hasattr(select, "poll") and stat.S_ISFIFO(os.fstat(number).st_mode):
            looks = select.poll()
            looks.register(number, 0)  # errors are always reported
            if looks.poll(0):
                raise BrokenPipeError
