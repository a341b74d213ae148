"""The indexes of one column of a file: which to ask about a leaf of a predicate, in which order, and what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.config import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, supports
from paimon_pyds.index.container import IndexRange
from paimon_pyds.index.keys import KeyCodec, key_codec
from paimon_pyds.index.probe import NOTHING, IndexReader, Interval, Nulls, Points, Probe, make_probe
from paimon_pyds.predicate.tree import Leaf, Op
from paimon_pyds.types import DataType

__all__ = ["ColumnIndexes"]

_ORDERS: dict[type[Probe], tuple[str, ...]] = {
    Points: (BITMAP, BSI, RANGE_BITMAP, BLOOM_FILTER),
    Interval: (RANGE_BITMAP, BSI, BITMAP),
    Nulls: (BITMAP, BSI, RANGE_BITMAP),
}
_BEYOND_JAVA = frozenset(
    {
        Op.LIKE,
        Op.NOT_LIKE,
        Op.STARTS_WITH,
        Op.NOT_STARTS_WITH,
        Op.ENDS_WITH,
        Op.NOT_ENDS_WITH,
        Op.CONTAINS,
        Op.NOT_CONTAINS,
    }
)


class ColumnIndexes:
    """What is the same in all questions about a column of one type, found out once.

    ``is_empty``: the writer of an index saw no record. ``readers`` are those that were opened, by index type.

    Args:
        name: the column in the container.
        type_: its type.
        ranges: where its indexes lie; at least one.
    """

    def __init__(self, name: str, type_: DataType, ranges: Mapping[str, IndexRange]) -> None:
        self.name = name
        self.type = type_
        self.is_empty = any(where.is_empty for where in ranges.values())
        self.readers: dict[str, IndexReader] = {}
        there = {kind for kind, where in ranges.items() if not where.is_empty}
        readable = {kind for kind in there if supports(kind, type_)}
        self._types = {kind: tuple(t for t in order if t in readable) for kind, order in _ORDERS.items()}
        self._point_cost, self._other_cost = _costs(there)
        self._codec: KeyCodec | None
        try:
            self._codec = key_codec(type_)
        except UnsupportedError:
            self._codec = None

    def cost(self, op: Op) -> int:
        """How dear a question with this operator is, from 0 to 3."""
        if self.is_empty:
            return 0
        return self._point_cost if op is Op.EQ or op is Op.IN else self._other_cost

    def probe(self, leaves: Sequence[Leaf], extended: bool) -> Probe | None:
        """What to ask for rows that all these leaves keep; None when no index can help."""
        codec = self._codec
        if codec is None or (not extended and leaves[0].op in _BEYOND_JAVA):
            return None
        result = make_probe(leaves[0].op, leaves[0].literals, codec)
        for leaf in leaves[1:]:
            probe = make_probe(leaf.op, leaf.literals, codec)
            if not isinstance(result, Interval) or not isinstance(probe, Interval):
                return NOTHING  # a bound that is NULL
            result = result.overlap(probe)
        return result

    def types_for(self, probe: Probe | None) -> tuple[str, ...]:
        """The types of index to ask, the one that is likely to answer first."""
        return () if probe is None else self._types[type(probe)]


def _costs(kinds: set[str]) -> tuple[int, int]:
    """Of points, and of anything else."""
    other = 2 if BITMAP in kinds else 3
    return 1 if kinds & {BITMAP, BLOOM_FILTER} else other, other
