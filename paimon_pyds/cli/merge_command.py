"""``paimon-pyds merge``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]
    _Table = Callable[[_Commands, str, str], argparse.ArgumentParser]

__all__ = ["add_merge", "merge"]

_COLUMNS = re.compile(r"\w+(\s*,\s*\w+)*")


def add_merge(commands: _Commands, table: _Table) -> None:
    """The parser of the command; ``table`` makes one with the arguments that all commands on a table have."""
    parser = table(commands, "merge", "Bring rows of a file or of another table into the table.")
    parser.add_argument(
        "--source",
        required=True,
        action="append",
        metavar="FILE|TABLE_PATH",
        help="a Parquet, ORC, Arrow, CSV or JSON-lines file (can be repeated), or one Paimon table",
    )
    parser.add_argument(
        "--on",
        required=True,
        metavar="COLUMNS|CONDITION",
        help='columns equal on both sides, such as "id", or SQL text: "target.id = source.id AND source.n > 1"',
    )
    for kind, help_ in (
        ("matched", 'rows that match: update, delete, or "source.gone THEN DELETE", "UPDATE SET price = source.price"'),
        ("not-matched", 'rows of the source that match nothing: insert, or "INSERT (id, n) VALUES (source.id, 0)"'),
        ("not-matched-by-source", "rows of the table that match nothing: delete, or a clause as above"),
    ):
        parser.add_argument(
            f"--when-{kind}",
            action="append",
            default=[],
            metavar="CLAUSE",
            help=f"{help_}; can be repeated: the first clause whose condition is true acts",
        )
    parser.set_defaults(run=merge)


def merge(arguments: argparse.Namespace) -> None:
    """Merge a source into a table."""
    from paimon_pyds.cli.arguments import key_values
    from paimon_pyds.cli.commands import open_table
    from paimon_pyds.cli.progress import rows_progress
    from paimon_pyds.cli.row_commands import show_summary

    if not (arguments.when_matched or arguments.when_not_matched or arguments.when_not_matched_by_source):
        raise OptionError("a merge needs a clause", hint="such as --when-matched update --when-not-matched insert")
    table = open_table(arguments)
    source = _source(arguments.source, key_values(arguments.storage_option, "--storage-option"))
    with rows_progress("looking for rows") as progress:
        summary = table.merge(
            source,
            _joined_on(arguments.on),
            when_matched=arguments.when_matched,
            when_not_matched=arguments.when_not_matched,
            when_not_matched_by_source=arguments.when_not_matched_by_source,
            options=key_values(arguments.option, "--option"),
            progress=progress,
        )
    show_summary(arguments, summary)


def _joined_on(text: str) -> str | Sequence[str]:
    """Names of columns with commas between them, or a condition."""
    return [name.strip() for name in text.split(",")] if _COLUMNS.fullmatch(text.strip()) else text


def _source(paths: Sequence[str], storage_options: dict[str, str]) -> Any:
    """The rows of files, or of a Paimon table."""
    from paimon_pyds.cli.inputs import open_inputs

    local = [path for path in paths if "://" not in path]
    if len(local) == len(paths) and not any(Path(path).is_dir() for path in paths):
        import pyarrow as pa

        schema, batches = open_inputs(paths)
        return pa.RecordBatchReader.from_batches(schema, batches)
    if len(paths) > 1:
        raise OptionError("a merge takes several files, or one table, as its source")
    from paimon_pyds.table import Table

    return Table.open(paths[0], storage_options=storage_options).scan().to_reader()
