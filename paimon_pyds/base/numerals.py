"""Texts that are numbers: in options, hints, names of files and arguments of commands."""

from __future__ import annotations

import re

BLANKS = " \t\n\r"
_WHOLE = re.compile(rf"[{BLANKS}]*([+-]?[0-9]{{1,19}})[{BLANKS}]*")


def whole_number(text: str) -> int | None:
    """The integer that a text is, with blanks around it or without; None for other texts.

    Python's ``int`` also takes ``1_000``, digits of other scripts, and blanks that only Unicode knows.
    """
    found = _WHOLE.fullmatch(text)
    return None if found is None else int(found[1])
