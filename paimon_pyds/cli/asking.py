"""Commands that remove something for good: each shows what would go with ``--dry-run``, asks, and takes ``--yes``."""

from __future__ import annotations

import argparse
import sys

from paimon_pyds.errors import OptionError


def add_dry_run(parser: argparse.ArgumentParser, help_: str) -> None:
    """Add the option to change nothing. ``help_``: what the command does then, such as ``only show what would go``."""
    parser.add_argument("--dry-run", action="store_true", help=f"{help_}, and change nothing")


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option to go on without a question."""
    parser.add_argument("--yes", action="store_true", help="don't ask; needed where nobody can be asked")


def check_can_ask(arguments: argparse.Namespace, what: str) -> None:
    """Raise OptionError where there is no ``--yes``, and no terminal to ask on. ``what``: would be done."""
    if not arguments.yes and (sys.stdin is None or not sys.stdin.isatty()):
        looks = ", or --dry-run, which only shows what would go" if hasattr(arguments, "dry_run") else ""
        raise OptionError(f"nobody can be asked: {what}?", hint=f"add --yes{looks}")


def confirm(arguments: argparse.Namespace, what: str) -> None:
    """Ask on a terminal, unless there is ``--yes``. Raises OptionError where nobody says yes."""
    check_can_ask(arguments, what)
    if arguments.yes:
        return
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OptionError("nothing was changed")
