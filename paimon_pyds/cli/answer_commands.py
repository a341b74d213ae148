"""The commands ``exists``, ``distinct``, ``min``, ``max``, ``sum`` and ``count``: answers from indexes where these are
exact, told with what they took by ``--how``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.query.answer import Answer

    Parser = argparse.ArgumentParser
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["add_commands", "count"]

_OF_COLUMN = {
    "distinct": "List the distinct values of a column with the number of rows of each.",
    "min": "Print the smallest value of a column.",
    "max": "Print the largest value of a column.",
    "sum": "Print the sum of a column.",
}


def add_commands(
    commands: _Commands, table: Callable[[_Commands, str, str], Parser], query: Callable[[Parser], None]
) -> None:
    """Add the commands to a parser. ``table`` makes a command on a table, ``query`` adds filter and time travel."""
    for name, help_, run in (("count", "Count rows.", count), ("exists", "Say whether there is a row.", _exists)):
        parser = table(commands, name, help_)
        _finish(parser, query, run)
    for name, help_ in _OF_COLUMN.items():
        parser = table(commands, name, help_)
        parser.add_argument("column", metavar="COLUMN")
        _finish(parser, query, _distinct if name == "distinct" else _one_value)
        parser.set_defaults(question=name)


def _finish(parser: Parser, query: Callable[[Parser], None], run: Callable[[argparse.Namespace], int | None]) -> None:
    query(parser)
    parser.add_argument("--how", action="store_true", help="also show how each file was answered, and the bytes read")
    parser.set_defaults(run=run)


def _ask(arguments: argparse.Namespace, question: str, *columns: str) -> Answer[Any]:
    from paimon_pyds.cli.commands import scan_of

    answer: Answer[Any] = getattr(scan_of(arguments).answer, question)(*columns)
    return answer


def count(arguments: argparse.Namespace) -> None:
    """Print the number of rows."""
    _print(arguments, "count", _ask(arguments, "count"))


def _exists(arguments: argparse.Namespace) -> None:
    _print(arguments, "exists", _ask(arguments, "exists"))


def _one_value(arguments: argparse.Namespace) -> None:
    _print(arguments, arguments.question, _ask(arguments, arguments.question, arguments.column))


def _distinct(arguments: argparse.Namespace) -> None:
    from paimon_pyds.cli import show

    answer: Answer[pa.Table] = _ask(arguments, "distinct", arguments.column)
    if arguments.output == "text":
        show.text_table(answer.value)
    else:
        for batch in answer.value.rename_columns(["value", "count"]).to_batches():
            show.json_rows(batch)
    if arguments.how:
        if arguments.output == "json":
            show.json_value(_how(answer))
        else:
            print(_described(answer))


def _print(arguments: argparse.Namespace, name: str, answer: Answer[Any]) -> None:
    from paimon_pyds.cli import show

    if arguments.output == "json":
        show.json_value({name: answer.value, **(_how(answer) if arguments.how else {})})
        return
    show.text_value(answer.value)
    if arguments.how:
        print(_described(answer))


def _how(answer: Answer[Any]) -> dict[str, Any]:
    names = ("source", "files_by_metadata", "files_by_index", "files_read", "bytes_read")
    return {name: getattr(answer, name) for name in names}


def _described(answer: Answer[Any]) -> str:
    return (
        f"(by {answer.source}: {answer.files_by_metadata:,} files by metadata, {answer.files_by_index:,} by index, "
        f"{answer.files_read:,} read; {answer.bytes_read:,} bytes)"
    )
