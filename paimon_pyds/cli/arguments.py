"""What commands on a table have in common: their arguments, the table and the scan that these name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from paimon_pyds.errors import OptionError

if TYPE_CHECKING:
    from paimon_pyds.table import Table
    from paimon_pyds.table_scan import Scan

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
WHERE_PARTITIONS = "only partitions that this condition on partition columns keeps"


def add_table_command(commands: Commands, name: str, help_: str) -> argparse.ArgumentParser:
    """The parser of a new command on a table, with the arguments that all of these have."""
    parser = commands.add_parser(name, help=help_, description=help_)
    parser.add_argument("table", metavar="TABLE_PATH", help="the table's directory or URL")
    parser.add_argument("--branch", help="a branch of the table")
    add_common_arguments(parser)
    return parser


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that all commands have."""
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the result")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of Paimon's, for this command only; can be repeated",
    )
    parser.add_argument(
        "--storage-option", action="append", default=[], metavar="KEY=VALUE", help="a credential or endpoint"
    )
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show on standard error how far it is; where that is a terminal unless told otherwise",
    )
    parser.add_argument("--verbose", action="store_true", help="show the trace of an error")


def add_query_arguments(parser: argparse.ArgumentParser) -> None:
    """Add filter and time travel."""
    parser.add_argument("--filter", help="a condition in Spark SQL, such as \"color = 'red' AND price * 2 < 10\"")
    add_travel_arguments(parser)


def add_travel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add time travel."""
    parser.add_argument("--snapshot", type=int, help="read this snapshot")
    parser.add_argument("--tag", help="read this tag")
    parser.add_argument("--timestamp", help="read the table as of 'yyyy-MM-dd HH:mm:ss' (UTC)")


def key_values(pairs: Sequence[str], what: str) -> dict[str, str]:
    """``KEY=VALUE`` arguments as a dictionary. Raises OptionError."""
    result = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            given = "" if what == "--storage-option" else f", not {pair!r}"  # it may be a credential
            raise OptionError(f"{what} takes KEY=VALUE{given}")
        result[key] = value
    return result


def table_options(arguments: argparse.Namespace) -> dict[str, str]:
    """The options of Paimon's that are given."""
    return key_values(arguments.option, "--option")


def names_in(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",")]


def open_table(arguments: argparse.Namespace) -> Table:
    """The table that a command is about."""
    from paimon_pyds.table import Table

    return Table.open(arguments.table, arguments.branch, key_values(arguments.storage_option, "--storage-option"))


def scan_of(arguments: argparse.Namespace, **more: Any) -> Scan:
    """The scan that the options of a command ask for."""
    return open_table(arguments).scan(arguments.filter, **travel_of(arguments), **more)


def travel_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The state of the table that the options of a command name, and other options of Paimon's."""
    names = ("snapshot", "tag", "timestamp")
    return {name: getattr(arguments, name) for name in names} | {"options": table_options(arguments)}
