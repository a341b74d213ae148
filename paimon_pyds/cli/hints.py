"""Hints of errors, which name calls and arguments of Python, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable

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
