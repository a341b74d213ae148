"""The clauses and options of a MERGE as callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from paimon_pyds.base.records import dataclass

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bound import Operand
    from paimon_pyds.typing import Condition


@dataclass(frozen=True, slots=True)
class Update:
    """Set columns of a row of the table.

    Attributes:
        set: new values by column; None for every column, from the source's column of the same name.
        where: for which rows; all when None.
    """

    set: Mapping[str, Operand] | None = None
    where: Condition | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Take a row out of the table; ``where``: for which rows, all when None."""

    where: Condition | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a row of the source to the table.

    Attributes:
        values: values by column of the table, others become their default or NULL; None for every column, from the
            source's column of the same name.
        where: for which rows of the source; all when None.
    """

    values: Mapping[str, Operand] | None = None
    where: Condition | None = None


Clauses: TypeAlias = "str | Update | Delete | Insert | Sequence[str | Update | Delete | Insert] | None"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Clauses and options of `paimon_pyds.Table.merge`, which explains them."""

    when_matched: Clauses = None
    when_not_matched: Clauses = None
    when_not_matched_by_source: Clauses = None
    options: Mapping[str, str] | None = None
