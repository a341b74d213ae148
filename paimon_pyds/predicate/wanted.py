"""Which rows are looked for, by what a condition of SQL's three-valued logic is for them."""

from __future__ import annotations

import enum

from paimon_pyds.predicate.tree import Const

__all__ = ["Wanted"]


class Wanted(enum.Enum):
    """The rows that are looked for, by what a condition is for them."""

    TRUE = (Const.TRUE,)
    FALSE = (Const.FALSE,)
    NOT_TRUE = (Const.FALSE, Const.UNKNOWN)
    NOT_FALSE = (Const.TRUE, Const.UNKNOWN)

    @property
    def positive(self) -> bool:
        """Whether rows are wanted where the condition is true."""
        return Const.TRUE in self.value

    @property
    def opposite(self) -> Wanted:
        """What is looked for in a condition with NOT before it."""
        return _OPPOSITE[self]

    def shown(self, condition: str) -> str:
        """The SQL that is true for the rows."""
        return _SHOWN[self].format(condition)


_OPPOSITE = {
    Wanted.TRUE: Wanted.FALSE, Wanted.FALSE: Wanted.TRUE, Wanted.NOT_TRUE: Wanted.NOT_FALSE,
    Wanted.NOT_FALSE: Wanted.NOT_TRUE,
}  # fmt: skip
_SHOWN = {
    Wanted.TRUE: "{}", Wanted.FALSE: "NOT ({})", Wanted.NOT_TRUE: "({}) IS NOT TRUE",
    Wanted.NOT_FALSE: "({}) IS NOT FALSE",
}  # fmt: skip
