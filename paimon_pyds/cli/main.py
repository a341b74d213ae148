"""The command line: ``paimon-pyds COMMAND TABLE_PATH …``; ``paimon-pyds --help`` lists the commands.

Works without Spark. Exit status 0, or 1 with one clear line on standard error (the trace with ``--verbose``), or 2 for
a bad command line; ``maintenance verify`` and ``index verify`` end with 1 as well when they find something wrong, and
``snapshots diff --exit-code`` where two states differ.
"""

from __future__ import annotations

import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence

import click

from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.cli import (  # noqa: F401 - they add their commands to the program
    follow_command,
    history_commands,
    index_commands,
    maintenance_commands,
    read_commands,
    table_commands,
    write_commands,
)
from paimon_pyds.cli.display import drawn
from paimon_pyds.cli.program import Session, program
from paimon_pyds.errors import PaimonError

_COMPLETE = "_PAIMON_PYDS_COMPLETE"


def main(argv: Sequence[str] | None = None, ready: Callable[[], object] = lambda: None) -> int:
    """Run one command; the exit status. ``ready``: is called before the command runs, when the imports are done."""
    if instruction := os.environ.get(_COMPLETE):  # a shell wants completions
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, "paimon-pyds", _COMPLETE, instruction)
    given = sys.argv[1:] if argv is None else list(argv)
    given = [*given[1:], "--help"] if given[:1] == ["help"] else given
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal's encoding does not have
    session = Session(ready)
    try:
        with program.make_context("paimon-pyds", given, obj=session) as context:
            status: int | None = program.invoke(context)
        if sys.stdout is not None:  # it may be closed: `>&-`
            sys.stdout.flush()
    except click.exceptions.Exit as done:  # of --help and --version
        return done.exit_code
    except click.UsageError as error:
        where = "paimon-pyds" if error.ctx is None else error.ctx.command_path
        _complain(f"{where}: {' '.join(error.format_message().split())} ({where} --help)")
        return 2
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed without secrets
        _complain(traceback.format_exc() if session.verbose else _message(error, session))
        return 1
    return status or 0


def _message(error: Exception, session: Session) -> str:
    """The line about an error."""
    if isinstance(error, PaimonError):
        if error.hint is not None:
            error.hint = in_shell(error.hint, None if session.target is None else session.target.command_line)
        return f"paimon-pyds: {error}"  # it may end with a line of a filter, and shows no secret
    if isinstance(error, OSError):
        return f"paimon-pyds: {visible(str(error))}"
    message = visible(f"{type(error).__name__}: {error}".splitlines()[0])
    return f"paimon-pyds: unexpected {message} — run it with --verbose to see where"


def _complain(text: str) -> None:
    """Print lines on standard error, without secrets and without what a terminal would obey."""
    for line in redact(text).rstrip("\n").split("\n"):
        print(drawn(visible(line), sys.stderr), file=sys.stderr)


_CALLS = (
    (r"table\.alter\(change_types=\{(['\"])(?P<value>.*)\1: …\}\)", ("alter", "--change-type"), "=…"),
    (r"table\.(maintenance\.)?rescale\((?P<value>\d+)\)", ("maintenance rescale",), ""),
)
"""Calls of Python in hints, the command that does the same with the value, and what follows that."""


def in_shell(hint: str, command_line: Callable[..., str] | None) -> str:
    """A hint in the words of the command line; ``command_line`` makes a command on the table that it is about, None
    without one."""
    for call, (command, *options), after in _CALLS:
        if command_line is not None and (found := re.search(call, hint)):
            there = command_line(command, *options, found["value"] + after)
            hint = hint[: found.start()] + there + hint[found.end() :]
    hint = re.sub(r"\b(missing-columns)=(\w+)", r"--\1 \2", hint)
    hint = re.sub(r"options=\{'([\w.-]+)': '([^']+)'\}", r"--option \1=\2", hint)
    return re.sub(r"\b(cascade|full)=True\b", r"--\1", hint)


if __name__ == "__main__":
    sys.exit(main())
