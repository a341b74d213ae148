"""What a compaction is asked to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paimon_pyds.predicate.tree import Predicate


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The arguments of `paimon_pyds.Table.compact` and `paimon_pyds.spark.compact`.

    Attributes:
        where: a condition on partition columns; all partitions when None.
        order_by: columns to order the rows of each partition by (in tables of buckets, of each bucket), so that filters
            on them skip files; then all its files are rewritten. More rows than ``write-buffer-size`` are spilled to
            local disk.
        order: ``order`` compares column by column; ``zorder`` and ``hilbert`` bring rows together that are near each
            other in any of the columns.
        full: drop every deleted row, and merge small files however few there are; all sorted runs of a table with a
            primary key.
        dry_run: only tell what would be rewritten.
        options: table options for this run, such as ``{"target-file-size": "512 mb"}``.
    """

    where: str | Predicate | None = None
    order_by: str | Sequence[str] | None = None
    _: KW_ONLY
    order: str = "order"
    full: bool = False
    dry_run: bool = False
    options: Mapping[str, str] | None = None
