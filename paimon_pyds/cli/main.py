"""The command line: ``paimon-pyds COMMAND TABLE_PATH …``; ``paimon-pyds --help`` lists the commands.

Works without Spark. Exit status 0, or 1 with one clear line on standard error (the trace with ``--verbose``), or 2 for
a command line that is none; ``verify`` and ``index verify`` end with 1 as well when they find something wrong, and
``diff --exit-code`` where two states differ.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds.base.progress import setting, show_progress
from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.errors import PaimonError

if TYPE_CHECKING:
    from paimon_pyds.cli.arguments import Commands


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    return run(parsed(argv))


def parsed(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments of a command line. Raises SystemExit for one that is none."""
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    given = sys.argv[1:] if argv is None else list(argv)
    return parser.parse_args([*given[1:], "--help"] if given[:1] == ["help"] else given)


def run(arguments: argparse.Namespace) -> int:
    """Run the command of these arguments; the exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding does not have
    before = setting()
    try:
        chosen = getattr(arguments, "progress", None)
        show_progress(before if chosen is None else chosen)
        status: int | None = arguments.run(arguments)
        if sys.stdout is not None:  # it may be closed: `>&-`
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed without secrets
        if arguments.verbose:
            _complain(traceback.format_exc())
        elif isinstance(error, PaimonError):
            if error.hint is not None:
                from paimon_pyds.cli.arguments import command_line
                from paimon_pyds.cli.mistakes import in_shell

                error.hint = in_shell(
                    error.hint, partial(command_line, arguments) if hasattr(arguments, "table") else None
                )
            _complain(f"paimon-pyds: {error}")  # it may end with a line of a filter, and shows no secret
        elif isinstance(error, OSError):
            _complain(f"paimon-pyds: {visible(str(error))}")
        else:
            message = visible(f"{type(error).__name__}: {error}".splitlines()[0])
            _complain(f"paimon-pyds: unexpected {message} — run it with --verbose to see where")
        return 1
    finally:
        show_progress(before)
    return status or 0


def _complain(text: str) -> None:
    """Lines on standard error, without secrets and without what a terminal would obey."""
    from paimon_pyds.cli.display import drawn

    for line in redact(text).rstrip("\n").split("\n"):
        print(drawn(visible(line), sys.stderr), file=sys.stderr)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    from paimon_pyds import __version__
    from paimon_pyds.cli.arguments import Parser
    from paimon_pyds.cli.index_commands import add_advise_commands, add_index_commands
    from paimon_pyds.cli.maintenance_commands import add_maintenance_commands
    from paimon_pyds.cli.read_commands import add_read_commands
    from paimon_pyds.cli.table_commands import add_table_commands
    from paimon_pyds.cli.write_commands import add_write_commands

    parser = Parser(
        prog="paimon-pyds",
        description="Apache Paimon tables from the command line.",
        epilog="paimon-pyds COMMAND --help says more, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"paimon-pyds {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_read_commands(commands)
    add_table_commands(commands)
    add_write_commands(commands)
    add_maintenance_commands(commands)
    add_index_commands(commands)
    add_advise_commands(commands)
    _add_completion(commands)
    return parser


def _add_completion(commands: Commands) -> None:
    help_ = "Print what makes a shell complete commands, options and files at the Tab key."
    parser = commands.add_parser("completion", help=help_, description=help_)
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    parser.set_defaults(run=_completion, verbose=False)


def _completion(arguments: argparse.Namespace) -> None:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["paimon-pyds"], shell=arguments.shell))


if __name__ == "__main__":
    sys.exit(main())
