"""``paimon-pyds delete`` and ``paimon-pyds update``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from paimon_pyds.rowlevel.changes import RowSummary

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    _Table = Callable[[_Commands, str, str], argparse.ArgumentParser]

__all__ = ["add_row_commands", "delete", "show_summary", "update"]

_WHERE = "Spark SQL text: the rows for which it is true; TRUE for every row"


def add_row_commands(commands: _Commands, table: _Table) -> None:
    """The parsers of the commands; ``table`` makes one with the arguments that all commands on a table have."""
    parser = table(commands, "delete", "Delete rows: by deletion vectors where the table has them enabled.")
    parser.add_argument("--where", required=True, help=_WHERE)
    parser.set_defaults(run=delete)

    parser = table(commands, "update", "Set columns of rows to new values.")
    parser.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="COLUMN=EXPRESSION",
        help='such as "price = price * 1.1" or "color = \'red\'"; can be given again',
    )
    parser.add_argument("--where", required=True, help=_WHERE)
    parser.set_defaults(run=update)


def delete(arguments: argparse.Namespace) -> None:
    """Delete rows."""
    from paimon_pyds.cli.arguments import key_values
    from paimon_pyds.cli.commands import open_table
    from paimon_pyds.cli.progress import rows_progress

    table = open_table(arguments)
    with rows_progress("looking for rows") as progress:
        summary = table.delete(arguments.where, options=key_values(arguments.option, "--option"), progress=progress)
    show_summary(arguments, summary)


def update(arguments: argparse.Namespace) -> None:
    """Update rows."""
    from paimon_pyds.cli.arguments import key_values
    from paimon_pyds.cli.commands import open_table
    from paimon_pyds.cli.progress import rows_progress

    table = open_table(arguments)
    options = key_values(arguments.option, "--option")
    with rows_progress("looking for rows") as progress:
        summary = table.update(_assignments(arguments.set), arguments.where, options=options, progress=progress)
    show_summary(arguments, summary)


def _assignments(texts: Sequence[str]) -> dict[str, str]:
    """``column = expression`` texts; a column's name may stand in backquotes. Raises OptionError."""
    found: dict[str, str] = {}
    for text in texts:
        quoted = text.strip().startswith("`")
        name, equals, expression = text.strip()[1:].partition("`") if quoted else text.partition("=")
        if quoted:
            expression, equals = expression.strip()[1:], expression.strip()[:1]
        name = name if quoted else name.strip()
        if equals != "=" or not name or not expression.strip():
            raise OptionError(f"--set takes COLUMN=EXPRESSION, not {text!r:.200}")
        if name in found:
            raise OptionError(f"--set names column {name!r} twice")
        found[name] = expression.strip()
    return found


def show_summary(arguments: argparse.Namespace, summary: RowSummary) -> None:
    """Print what an operation on rows did."""
    from dataclasses import asdict

    from paimon_pyds.cli import show

    if arguments.output == "json":
        show.json_value(asdict(summary))
    else:
        print(_text(summary))


def _text(s: RowSummary) -> str:
    from paimon_pyds.explain.data import counted

    if s.snapshot_id is None:
        return "no such row: nothing changed"
    counts = {"deleted": s.rows_deleted, "updated": s.rows_updated, "inserted": s.rows_inserted}
    first, *others = [(count, what) for what, count in counts.items() if count] or [(0, "changed")]
    rows = ", ".join([f"{counted(first[0], 'row')} {first[1]}", *(f"{count:,} {what}" for count, what in others)])
    return (
        f"snapshot {s.snapshot_id}: {rows}; {counted(s.files_touched, 'file')} touched, {s.files_removed:,} removed, "
        f"{s.files_added:,} added; {counted(s.bytes_written, 'byte')} written in {s.seconds:.1f} s"
    ) + (f", on attempt {s.attempts}" if s.attempts > 1 else "")
