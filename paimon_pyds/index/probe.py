"""Probes: a leaf of a predicate in the form that an index can answer (points, an interval of keys, or NULLs); and the
order in which to try the indexes of a column.

All quirks of literals end here: float zeros of two signs, NaN, literals between two keys or beyond the type's range,
timestamps finer than their keys, LIKE patterns. What a probe keeps is a superset of what the leaf keeps; ``exact`` says
when it is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataType
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.index.container import IndexRange
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, Key, KeyCodec, key_codec, supports
from paimon_pyds.sql.predicate.tree import TEXT_OPS, Leaf, Op


class Points(NamedTuple):
    """Rows whose key is in ``keys``; ``negated``: rows that are not null and whose key is not in ``keys``."""

    keys: tuple[Key, ...]
    negated: bool = False
    exact: bool = True


class Interval(NamedTuple):
    """Rows whose key is between ``low`` and ``high``; None is no bound. Int keys have both bounds, both included; with
    ``low`` above ``high`` there is no such row.

    ``negated``: rows that are not null and outside of the interval.
    """

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False
    negated: bool = False
    exact: bool = True

    def overlap(self, other: Interval) -> Interval:
        """The keys that both hold; neither may be negated."""
        begin, end = self, self
        if other.low is not None and (self.low is None or (self.low, self.low_open) < (other.low, other.low_open)):
            begin = other
        if other.high is not None and (
            self.high is None or (self.high, not self.high_open) > (other.high, not other.high_open)
        ):
            end = other
        return Interval(begin.low, end.high, begin.low_open, end.high_open, exact=self.exact and other.exact)


class Nulls(NamedTuple):
    """Rows whose value is null; ``negated``: is not null."""

    negated: bool = False


Probe: TypeAlias = Points | Interval | Nulls

BOUNDS = (Op.LT, Op.LE, Op.GT, Op.GE)
_POINTS = (Op.EQ, Op.IN, Op.NE, Op.NOT_IN)

NOTHING = Points(())
EMPTY = Interval(0, -1)
NOT_NULL = Nulls(negated=True)


class Answer(NamedTuple):
    """Rows that may match by one index; ``exact``: they are exactly those that match."""

    selection: RowSelection
    exact: bool


class IndexReader(Protocol):
    """One open index of one column."""

    @property
    def row_count(self) -> int | None:
        """Rows of the data file as the index says, None when it doesn't."""

    @property
    def nbytes(self) -> int:
        """About the memory it takes, besides what it put in a cache."""

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer | None:
        """The rows that may match, or None if this index can't answer.

        ``extended``: also answer what Java's reader of this index leaves open, and take null rows from negations.
        Raises CorruptFileError: the index is not what the specification says.
        """


def make_probe(op: Op, literals: Sequence[Any], codec: KeyCodec) -> Probe | None:
    """The probe for ``column op literals``; None if no index can help.

    ``literals``: internal values of the column's type (for LIKE: the pattern and the escape character). ``codec``: the
    keys of the column's type.
    """
    if op in _POINTS:
        return _points(literals, op is Op.NE or op is Op.NOT_IN, codec)
    if op is Op.IS_NULL or op is Op.IS_NOT_NULL:
        return Nulls(negated=op is Op.IS_NOT_NULL)
    if not literals or literals[0] is None:
        return NOTHING
    if op in BOUNDS:
        return _binary_interval(op, literals[0], codec) if codec.is_binary else _interval(op, literals[0], codec)
    if not codec.is_binary:
        return None
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return _prefix(codec.bytes_of(literals[0]), op is Op.NOT_STARTS_WITH, True)
    if op in (Op.LIKE, Op.NOT_LIKE):
        escape = literals[1] if len(literals) > 1 else "\\"
        return _like(str(literals[0]), escape, op is Op.NOT_LIKE, codec)
    return None


def probe_of(leaves: Sequence[Leaf], codec: KeyCodec) -> Probe | None:
    """The probe for rows that match a leaf, or all of several bounds of one column; None if no index can help."""
    result = make_probe(leaves[0].op, leaves[0].literals, codec)
    for leaf in leaves[1:]:
        probe = make_probe(leaf.op, leaf.literals, codec)
        if not isinstance(result, Interval) or not isinstance(probe, Interval):
            return NOTHING  # a bound that is NULL
        result = result.overlap(probe)
    return result


def _points(literals: Sequence[Any], negated: bool, codec: KeyCodec) -> Probe:
    values = [literal for literal in literals if literal is not None]
    if negated and len(values) < len(literals):
        return NOTHING
    if codec.is_binary:
        return Points(tuple(dict.fromkeys(map(codec.bytes_of, values))), negated)
    keys: dict[Key, None] = {}
    for literal in values:
        place = codec.position_of(literal)
        if place.present or (codec.coarse and place.first >= codec.low):
            keys.update(dict.fromkeys(range(place.first, place.last + 1)))
    if codec.coarse:
        return Points((), negated=True, exact=False) if negated else Points(tuple(keys), exact=not keys)
    return Points(tuple(keys), negated)


def _interval(op: Op, literal: Any, codec: KeyCodec) -> Probe:
    first, last, present = codec.position_of(literal)
    low, high, exact = codec.low, codec.high, True
    if op is Op.LT or op is Op.LE:
        below = present and op is Op.LT
        exact = below or not codec.coarse or last < low
        high = min(first - 1 if below else last, high)
    else:
        above = present and op is Op.GE
        least = first if above else last + 1
        if codec.coarse and not above:
            least, exact = last, last < low
        low = max(least, low)
    return Interval(low, high, exact=exact) if low <= high else EMPTY


def _binary_interval(op: Op, literal: Any, codec: KeyCodec) -> Probe:
    key = codec.bytes_of(literal)
    if op in (Op.LT, Op.LE):
        return Interval(high=key, high_open=op is Op.LT)
    return Interval(low=key, low_open=op is Op.GT)


def _prefix(prefix: bytes, negated: bool, exact: bool) -> Probe:
    if not prefix:
        return NOTHING if negated else NOT_NULL
    head = prefix.rstrip(b"\xff")
    after = head[:-1] + bytes([head[-1] + 1]) if head else None
    return Interval(prefix, after, high_open=True, negated=negated, exact=exact)


def _like(pattern: str, escape: str | None, negated: bool, codec: KeyCodec) -> Probe | None:
    if escape in ("%", "_"):
        return None
    prefix: list[str] = []
    position = 0
    while position < len(pattern) and pattern[position] not in "%_":
        if pattern[position] == escape:
            position += 1
            if position == len(pattern):
                return None
        prefix.append(pattern[position])
        position += 1
    rest, key = pattern[position:], codec.bytes_of("".join(prefix))
    if not rest:
        return Points((key,), negated)
    whole = not rest.strip("%")
    if (negated and not whole) or (not key and not whole):
        return None
    return _prefix(key, negated, whole)


_ORDERS: dict[type[Probe], tuple[str, ...]] = {
    Points: (BITMAP, BSI, RANGE_BITMAP, BLOOM_FILTER),
    Interval: (RANGE_BITMAP, BSI, BITMAP),
    Nulls: (BITMAP, BSI, RANGE_BITMAP),
}


class ColumnIndexes:
    """The indexes of a column of one type, with everything that all probes share.

    ``is_empty``: the writer of an index saw no record. ``readers`` are those that were opened, by index type.

    ``name``: the column in the container. ``ranges``: the location of each of its indexes; at least one.
    """

    def __init__(self, name: str, type_: DataType, ranges: Mapping[str, IndexRange]) -> None:
        self.name = name
        self.type = type_
        self.is_empty = any(where.is_empty for where in ranges.values())
        self.readers: dict[str, IndexReader] = {}
        there = {kind for kind, where in ranges.items() if not where.is_empty}
        readable = {kind for kind in there if supports(kind, type_)}
        self._types = {kind: tuple(t for t in order if t in readable) for kind, order in _ORDERS.items()}
        self._other_cost = 2 if BITMAP in there else 3
        self._point_cost = 1 if there & {BITMAP, BLOOM_FILTER} else self._other_cost
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
        """The probe for rows that match all these leaves; None if no index can help."""
        codec = self._codec
        if codec is None or (not extended and leaves[0].op in TEXT_OPS):
            return None
        return probe_of(leaves, codec)

    def types_for(self, probe: Probe | None) -> tuple[str, ...]:
        """The types of index to try, the one most likely to answer first."""
        return () if probe is None else self._types[type(probe)]
