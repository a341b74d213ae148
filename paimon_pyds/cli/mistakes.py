"""What is said of a command line that is none: in plain words, with the name that may have been meant."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from paimon_pyds.errors import suggest

_COMMANDS = {
    "scan": "read", "select": "read", "query": "read", "sql": "read", "head": "read", "cat": "read",
    "show": "describe list", "export": "read", "dump": "read", "info": "describe", "schema": "describe",
    "desc": "describe", "ls": "tables list", "list": "tables", "databases": "tables", "insert": "write",
    "append": "write", "overwrite": "write", "load": "write", "import": "write", "upsert": "merge",
    "history": "snapshots", "log": "snapshots", "optimize": "compact", "vacuum": "expire", "convert": "migrate",
    "restore": "rollback", "plan": "explain", "fsck": "verify", "mv": "rename", "remove": "delete drop",
    "rm": "delete drop", "add": "create", "new": "create", "build": "rewrite", "files": "system",
    "partitions": "system", "manifests": "system", "options": "describe", "stats": "analyze",
    "version": "--version",
}  # fmt: skip
"""What other tools call commands; of several the first one counts that there is."""
_OPTIONS = {
    "--partitions": "--where", "-f": "--where --filter", "-w": "--where", "--select": "--columns",
    "-c": "--columns", "--order-by": "--topn", "--sort": "--topn", "--order": "--topn", "--head": "--limit",
    "-n": "--limit", "--format": "--input-format --output", "-o": "--out --output", "--file": "--out",
    "--json": "--output", "--csv": "--output", "--version": "--snapshot", "--snapshot-id": "--snapshot",
    "--as-of": "--timestamp", "--key": "--primary-key", "--pk": "--primary-key", "--partition": "--partition-by",
    "--partitioned-by": "--partition-by", "-y": "--yes", "--force": "--yes", "--remove": "--yes",
    "--ignore-if-exists": "--if-not-exists", "--if-exists": "--if-not-exists", "--exist-ok": "--if-not-exists",
    "-v": "--verbose", "--debug": "--verbose", "--warehouse": "--catalog",
    "--sep": "--delimiter", "--property": "--option", "--options": "--option", "-q": "--no-progress",
    "--quiet": "--no-progress", "--using": "--source",
}  # fmt: skip
"""The same of options."""
_PLAIN = (
    (r"the following arguments are required: COMMAND", "a command is missing"),
    (r"the following arguments are required: (.*), (.*)", r"\1 and \2 are missing"),
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument (\S+): invalid number value: (.*)", r"\1 takes a whole number, not \2"),
    (r"argument (\S+): expected one argument", r"a value is missing after \1"),
    (r"argument (\S+): expected at least one argument", r"values are missing after \1"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\1 and \2 can't be given together"),
    (r"ambiguous option: (\S+) could match (.*)", r"\1 may be any of \2: write it whole"),
)
"""What argparse says, and what is said instead."""


_CALLS = (
    (r"table\.alter\(change_types=\{(['\"])(?P<value>.*)\1: …\}\)", ("alter", "--change-type"), "=…"),
    (r"table\.maintenance\.rescale\((?P<value>\d+)\)", ("rescale",), ""),
)
"""Calls of Python in hints, the command that does the same with the value, and what follows that."""


def plain(message: str) -> str:
    """A message of argparse in plain words."""
    if one_of := re.fullmatch(r"one of the arguments (.+) (\S+) is required", message):
        return f"{one_of[1].replace(' ', ', ')} or {one_of[2]} is missing"
    message = re.sub(r"(--[\w-]+)/--[\w-]+", r"\1", message)  # of an option's names the first
    for theirs, ours in _PLAIN:
        if found := re.fullmatch(theirs, message, re.DOTALL):
            return found.expand(ours)
    return message


def no_choice(value: str, choices: Iterable[str], what: str, option: str | None) -> str:
    """What is said of a value that is none of some.

    ``what``: the choices are, such as ``command``. ``option``: they are the values of; None for those of an argument
    without a name.
    """
    names = list(choices)
    hint = _elsewhere(_COMMANDS, value, names) if option is None else None
    if hint is None and option is None and len(names) > 8:
        hint = suggest(value, names, "") or ""
        hint = hint if hint.startswith("did") else "--help lists them"
    hint = hint or suggest(value, names, f"{what}s")
    return f"there is no {what} {value!r} — {hint}" if option is None else f"{option} takes no {value!r} — {hint}"


def no_option(argument: str, options: Sequence[str]) -> str:
    """What is said of an argument that looks like an option, and is none of those that there are."""
    name, equals, _ = argument.partition("=")
    hint = _elsewhere(_OPTIONS, name, options)
    return f"there is no option {name}{equals and '=…'} — {hint or suggest(name, options, 'options')}"


def too_many(argument: str, options: Sequence[str]) -> str:
    """What is said of an argument that nothing takes; it may be a condition, or a file to write to."""
    text = f"{argument!r} is one argument too many"
    meant = "--where" if "--where" in options else None
    if not set(argument) & set("=<> "):
        from paimon_pyds.cli.inputs import format_of

        meant = "--out" if "--out" in options and format_of(argument) else None
    if meant is None:
        return text
    return f"{text} — did you mean {meant} {shlex.quote(argument)}?"


def in_shell(hint: str, command_line: Callable[..., str] | None) -> str:
    """A hint that names calls and arguments of Python, in the words of the command line; ``command_line`` makes a
    command on the table that it is about, None without one."""
    for call, (command, *options), after in _CALLS:
        if command_line is not None and (found := re.search(call, hint)):
            there = command_line(command, *options, found["value"] + after)
            hint = hint[: found.start()] + there + hint[found.end() :]
    hint = re.sub(r"\b(missing-columns)=(\w+)", r"--\1 \2", hint)
    hint = re.sub(r"options=\{'([\w.-]+)': '([^']+)'\}", r"--option \1=\2", hint)
    return re.sub(r"\b(cascade|full)=True\b", r"--\1", hint)


def _elsewhere(names: dict[str, str], given: str, there: Sequence[str]) -> str | None:
    of_program = ("--help", "--version") if names is _COMMANDS else ()
    found = next((name for name in names.get(given.lower(), "").split() if name in (*there, *of_program)), None)
    return None if found is None else f"did you mean {found}?"
