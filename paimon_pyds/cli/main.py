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
from typing import NoReturn

from paimon_pyds.errors import PaimonError
from paimon_pyds.progress import setting, show_progress
from paimon_pyds.redaction import redact, visible


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding does not have
    before = setting()
    try:
        show_progress(before if arguments.progress is None else arguments.progress)
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
    finally:
        show_progress(before)
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
    from paimon_pyds import __version__
    from paimon_pyds.cli.index_commands import add_advise_commands, add_index_commands
    from paimon_pyds.cli.read_commands import add_read_commands
    from paimon_pyds.cli.write_commands import add_write_commands

    parser: argparse.ArgumentParser = _Parser(
        prog="paimon-pyds", description="Apache Paimon tables from the command line."
    )
    parser.add_argument("--version", action="version", version=f"paimon-pyds {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_read_commands(commands)
    add_write_commands(commands)
    add_index_commands(commands)
    add_advise_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
