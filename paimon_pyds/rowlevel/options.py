"""What a MERGE is asked to do, besides its source and the condition that joins it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_pyds.rowlevel.clauses import Clauses

__all__ = ["MergeOptions"]


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
