"""The clauses and options of a MERGE as callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from paimon_pyds.expression import Operand


@dataclass(frozen=True)
class Update:
    """Set columns of a row of the table.

    Attributes:
        set: new values by column; None for every column, from the source's column of the same name.
        where: for which rows; all when None.
    """

    set: Mapping[str, Operand] | None = None
    where: Operand | None = None


@dataclass(frozen=True)
class Delete:
    """Take a row out of the table; ``where``: for which rows, all when None."""

    where: Operand | None = None


@dataclass(frozen=True)
class Insert:
    """Add a row of the source to the table.

    Attributes:
        values: values by column of the table, others become their default or NULL; None for every column, from the
            source's column of the same name.
        where: for which rows of the source; all when None.
    """

    values: Mapping[str, Operand] | None = None
    where: Operand | None = None


Clauses: TypeAlias = "str | Update | Delete | Insert | Sequence[str | Update | Delete | Insert] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """Keywords of `paimon_pyds.Table.merge` and `paimon_pyds.spark.merge`.

    Attributes:
        when_matched: what to do to rows of the table that match: "update", "delete", or `Update` and `Delete` clauses
            such as ``[pp.Delete("source.gone"), pp.Update({"price": "source.price"}, "source.price > target.price")]``
            or ``["source.gone THEN DELETE", "UPDATE SET price = source.price"]``, of which the first whose condition is
            true acts.
        when_not_matched: "insert", or `Insert` clauses, for rows of the source that match nothing.
        when_not_matched_by_source: "delete", or `Update` and `Delete` clauses, for rows of the table that match
            nothing.
        options: over the table's own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten; and
            ``timezone`` for dates, times and literals without a zone (UTC by default).
    """

    when_matched: Clauses = None
    when_not_matched: Clauses = None
    when_not_matched_by_source: Clauses = None
    options: Mapping[str, str] | None = None
