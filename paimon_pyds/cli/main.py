"""The command line: ``paimon-pyds COMMAND TABLE_PATH …``; ``paimon-pyds --help`` lists the commands.

Works without Spark. Exit status 0, or 1 with one clear line on standard error (the trace with ``--verbose``), or 2 for
a command line that is none; ``index verify`` ends with 1 as well when it finds something wrong.
"""

from __future__ import annotations

import argparse
import io
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from paimon_pyds.errors import PaimonError
from paimon_pyds.redaction import redact, visible

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding does not have
    try:
        status: int | None = arguments.run(arguments)
        if sys.stdout is not None:  # it may be closed: `>&-`
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`): nothing is wrong, and nothing more can be said.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed without secrets
        if arguments.verbose:
            _complain(traceback.format_exc())
        elif isinstance(error, PaimonError):
            _complain(f"paimon-pyds: {error}")  # it may end with a line of a filter, and shows no secret
        elif isinstance(error, OSError):
            _complain(f"paimon-pyds: {visible(str(error))}")
        else:
            message = visible(f"{type(error).__name__}: {error}".splitlines()[0])
            _complain(f"paimon-pyds: unexpected {message} — run it with --verbose to see where")
        return 1
    return status or 0


def _complain(text: str) -> None:
    """Lines on standard error, without secrets and without what a terminal would obey."""
    from paimon_pyds.cli.show import drawn

    for line in redact(text).rstrip("\n").split("\n"):
        print(drawn(visible(line), sys.stderr), file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """argparse repeats what it did not understand, which may be an option with a secret."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {visible(redact(message))}\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    from paimon_pyds.cli.answer_commands import add_commands as add_answers

    parser: argparse.ArgumentParser = _Parser(
        prog="paimon-pyds", description="Apache Paimon tables from the command line."
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _read_command(commands)
    add_answers(commands, _table, _query)
    _explain_command(commands)
    _describe_command(commands)
    _snapshots_command(commands)
    _system_command(commands)
    _write_command(commands)
    _row_commands(commands)
    _compact_command(commands)
    _index_command(commands)
    return parser


def _version() -> str:
    from paimon_pyds import __version__

    return f"paimon-pyds {__version__}"


def _table(commands: _Commands, name: str, help_: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help_, description=help_)
    parser.add_argument("table", metavar="TABLE_PATH", help="the table's directory or URL")
    parser.add_argument("--branch", help="a branch of the table")
    _common(parser)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--verbose", action="store_true", help="show the trace of an error")


def _query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filter", help="a condition in Spark SQL, such as \"color = 'red' AND price * 2 < 10\"")
    parser.add_argument("--snapshot", type=int, help="read this snapshot")
    parser.add_argument("--tag", help="read this tag")
    parser.add_argument("--timestamp", help="read the table as of 'yyyy-MM-dd HH:mm:ss' (UTC)")


def _read_command(commands: _Commands) -> None:
    from paimon_pyds.cli import commands as run

    parser = _table(commands, "read", "Print rows.")
    _query(parser)
    parser.add_argument("--columns", help="columns to print, separated by commas")
    parser.add_argument("--limit", type=int, help="rows at most (text output: 100 unless given)")
    parser.add_argument("--topn", metavar="ORDER", help="the first rows in an order: 'amount desc nulls last, 10'")
    parser.set_defaults(run=run.read)


def _explain_command(commands: _Commands) -> None:
    from paimon_pyds.cli import commands as run

    parser = _table(commands, "explain", "Show what partitions, statistics and indexes leave of a scan.")
    _query(parser)
    parser.add_argument("--columns", help="columns that the scan returns, separated by commas")
    parser.add_argument("--limit", type=int, help="rows that the scan returns at most")
    parser.add_argument("--topn", metavar="ORDER", help="of the first rows in an order: 'amount desc nulls last, 10'")
    parser.add_argument("--analyze", action="store_true", help="run the scan as well, and show its time and bytes")
    parser.add_argument("--html", metavar="FILE", help="also write it as a page with pictures")
    parser.set_defaults(run=run.explain)


def _describe_command(commands: _Commands) -> None:
    from paimon_pyds.cli import commands as run

    parser = _table(commands, "describe", "Show columns, keys and options.")
    parser.add_argument("--all-options", action="store_true", help="every option, not only those that are set")
    parser.set_defaults(run=run.describe)


def _snapshots_command(commands: _Commands) -> None:
    from paimon_pyds.cli import commands as run

    parser = _table(commands, "snapshots", "List snapshots and tags.")
    parser.set_defaults(run=run.snapshots)


def _system_command(commands: _Commands) -> None:
    from paimon_pyds.cli import index_commands as run

    parser = _table(commands, "system", "Print a system table.")
    parser.add_argument("name", metavar="NAME", help="files, file_indexes, snapshots, schemas, options, manifests, …")
    parser.set_defaults(run=run.system)


def _write_command(commands: _Commands) -> None:
    from paimon_pyds.cli import commands as run

    parser = _table(commands, "write", "Append or overwrite rows from Parquet, ORC, Arrow, CSV or JSON-lines files.")
    parser.add_argument("inputs", nargs="+", metavar="FILE", help="input files; the suffix says the format")
    parser.add_argument("--mode", choices=("append", "overwrite"), default="append")
    parser.add_argument("--partition", action="append", default=[], metavar="KEY=VALUE", help="overwrite only this")
    parser.add_argument("--dynamic", action="store_true", help="overwrite the partitions that the input has rows in")
    parser.add_argument("--create", action="store_true", help="create the table when it is missing")
    parser.add_argument("--partition-by", default="", help="partition columns of a created table")
    parser.set_defaults(run=run.write)


def _row_commands(commands: _Commands) -> None:
    from paimon_pyds.cli.merge_command import add_merge
    from paimon_pyds.cli.row_commands import add_row_commands

    add_row_commands(commands, _table)
    add_merge(commands, _table)


def _compact_command(commands: _Commands) -> None:
    from paimon_pyds.cli.compact_command import add_compact

    add_compact(commands, _table)


def _index_command(commands: _Commands) -> None:
    from paimon_pyds.cli.index_commands import add_verbs

    parser = commands.add_parser("index", help="Look into file indexes, verify, weigh and rebuild them.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    add_verbs(verbs, _table, _common)


if __name__ == "__main__":
    sys.exit(main())
