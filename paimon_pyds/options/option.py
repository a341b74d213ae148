"""One table option: its type and default, and whether this package honours it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from paimon_pyds.options.values import Kind, parse_value

__all__ = ["Option", "Scope", "Status"]


class Status(enum.Enum):
    """How this package takes an option."""

    HONOURED = "honoured"
    IGNORABLE = "ignorable"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Scope(enum.Enum):
    """What a refused value makes impossible: reading (and with it writing), or writing only."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A table option of Paimon.

    Attributes:
        default: the text of the default value; None for no default.
        status: REFUSED means that other values than the default and those of ``accepted`` are refused for ``scope``.
        why: the reason for a status that is not HONOURED.
        primary_key_only: the option means something for tables with a primary key only, and is ignorable elsewhere.
        immutable: it can't be changed once the table has a snapshot.
        fallbacks: older names of the option.
    """

    key: str
    kind: Kind
    default: str | None
    doc: str
    status: Status
    why: str = ""
    choices: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    scope: Scope = Scope.READ
    primary_key_only: bool = False
    immutable: bool = False
    fallbacks: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """The typed value of a text. Raises OptionError."""
        return parse_value(self.key, self.kind, text, self.choices)

    @property
    def default_value(self) -> Any:
        """The typed default; None for no default."""
        return None if self.default is None else self.parse(self.default)

    def accepts(self, text: str) -> bool:
        """Whether this package works with that value. Raises OptionError when it is no value at all."""
        if self.status is not Status.REFUSED:
            return True
        value = self.parse(text)
        return value == self.default_value or any(value == self.parse(a) for a in self.accepted)
