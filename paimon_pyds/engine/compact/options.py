"""The options of a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.records import dataclass

if TYPE_CHECKING:
    from paimon_pyds.sql.predicate.tree import Predicate
    from paimon_pyds.typing import Order


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The arguments of `paimon_pyds.Table.compact`, which explains them.

    ``tiers``: in a table without buckets, merge only files of about the same size: each row is then rewritten once for
    each tier that its file grows by, however many small files a stream adds.
    """

    where: str | Predicate | None = None
    order_by: str | Sequence[str] | None = None
    order: Order = "order"
    full: bool = False
    dry_run: bool = False
    options: Mapping[str, str] | None = None
    tiers: bool = False
