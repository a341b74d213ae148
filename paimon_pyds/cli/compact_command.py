"""``paimon-pyds compact``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_pyds.compact.compact import CompactSummary

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    _Table = Callable[[_Commands, str, str], argparse.ArgumentParser]

__all__ = ["add_compact", "compact"]


def add_compact(commands: _Commands, table: _Table) -> None:
    """The parser of the command; ``table`` makes one with the arguments that all commands on a table have."""
    parser = table(commands, "compact", "Merge small files, drop deleted rows, and order rows on request.")
    parser.add_argument("--where", help="only partitions that this condition on partition columns keeps")
    parser.add_argument("--order-by", help="columns to order the rows of each partition by, separated by commas")
    parser.add_argument(
        "--order",
        choices=("order", "zorder", "hilbert"),
        default="order",
        help="how: column by column, or clustered by all of the columns",
    )
    parser.add_argument("--full", action="store_true", help="drop every deleted row, merge even few small files")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be rewritten")
    parser.set_defaults(run=compact)


def compact(arguments: argparse.Namespace) -> None:
    """Compact a table."""
    from dataclasses import asdict

    from paimon_pyds.cli import show
    from paimon_pyds.cli.arguments import key_values
    from paimon_pyds.cli.commands import open_table
    from paimon_pyds.cli.progress import rows_progress

    table = open_table(arguments)
    with rows_progress("compacting") as progress:
        summary = table.compact(
            arguments.where,
            arguments.order_by,
            order=arguments.order,
            full=arguments.full,
            dry_run=arguments.dry_run,
            options=key_values(arguments.option, "--option"),
            progress=progress,
        )
    if arguments.output == "json":
        show.json_value(asdict(summary))
    else:
        print(_text(summary))


def _text(s: CompactSummary) -> str:
    if s.groups == 0 and s.groups_skipped == 0:
        return f"nothing to do: {s.files:,} files"
    kept = f"{s.rows:,} rows" + (f", {s.rows_dropped:,} deleted ones dropped" if s.rows_dropped else "")
    if s.dry_run:
        return f"would rewrite {s.files_before:,} of {s.files:,} files ({s.bytes_before:,} bytes, {kept})"
    skipped = f"; {s.groups_skipped:,} groups of files were left, as other commits changed them" * bool(
        s.groups_skipped
    )
    if s.snapshot_id is None:
        return f"nothing was rewritten{skipped}"
    return (
        f"snapshot {s.snapshot_id}: {s.files_before:,} files became {s.files_after:,} "
        f"({s.bytes_before:,} → {s.bytes_after:,} bytes, {kept}) in {s.seconds:.1f} s{skipped}"
    )
