"""Arguments of commands, as Python values."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.errors import OptionError

__all__ = ["key_values"]


def key_values(pairs: Sequence[str], what: str) -> dict[str, str]:
    """``KEY=VALUE`` arguments as a dictionary. Raises OptionError."""
    result = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            shown = "" if what == "--storage-option" else f", not {pair!r}"  # it may be a credential
            raise OptionError(f"{what} takes KEY=VALUE{shown}")
        result[key] = value
    return result
