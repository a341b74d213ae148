"""A leaf of a predicate, turned into what an index can be asked for: points, an interval of keys, or nulls.

All quirks of literals end here: float zeros of two signs, NaN, literals between two keys or beyond the type's range,
timestamps finer than their keys, LIKE patterns. What a probe keeps is a superset of what the leaf keeps; ``exact`` says
when it is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.predicate.tree import Op
from paimon_pyds.selection import RowSelection

__all__ = ["Answer", "IndexReader", "Interval", "Nulls", "Points", "Probe", "make_probe"]


@dataclass(frozen=True, slots=True)
class Points:
    """Rows whose key is one of ``keys``; ``negated``: rows that are not null and whose key is none of them."""

    keys: tuple[Key, ...]
    negated: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Interval:
    """Rows whose key lies between ``low`` and ``high``; None is no bound. Int keys have both bounds, and both included;
    with ``low`` above ``high`` there is no such row.

    ``negated``: rows that are not null and lie outside.
    """

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False
    negated: bool = False
    exact: bool = True

    def overlap(self, other: Interval) -> Interval:
        """The keys that both hold; neither may be negated."""
        low = self if _later((self.low, self.low_open), (other.low, other.low_open)) else other
        high = other if _later((self.high, not self.high_open), (other.high, not other.high_open)) else self
        if None in (self.high, other.high):
            high = self if other.high is None else other
        return Interval(low.low, high.high, low.low_open, high.high_open, exact=self.exact and other.exact)


def _later(bound: tuple[Key | None, bool], other: tuple[Key | None, bool]) -> bool:
    """Whether a bound, None being the least, comes after another one."""
    if bound[0] is None or other[0] is None:
        return other[0] is None
    return bound > other


@dataclass(frozen=True, slots=True)
class Nulls:
    """Rows whose value is null; ``negated``: is not null."""

    negated: bool = False


Probe: TypeAlias = Points | Interval | Nulls

NOTHING = Points(())
EMPTY = Interval(0, -1)
NOT_NULL = Nulls(negated=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows that may match by one index; ``exact``: they are exactly those that match."""

    selection: RowSelection
    exact: bool


class IndexReader(Protocol):
    """One open index of one column."""

    @property
    def row_count(self) -> int | None:
        """Rows of the data file as the index says, None when it doesn't."""

    def answer(self, probe: Probe, *, extended: bool = True) -> Answer | None:
        """The rows that may match, or None when this index can't tell.

        ``extended``: also answer what Java's reader of this index leaves open, and take null rows from negations.

        Raises:
            CorruptFileError: the index is not what the specification says.
        """


def make_probe(op: Op, literals: Sequence[Any], codec: KeyCodec) -> Probe | None:
    """What to ask an index for ``column op literals``; None when no index can help.

    Args:
        op: the operator of the leaf.
        literals: internal values of the column's type (for LIKE: the pattern and the escape character).
        codec: the keys of the column's type.
    """
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Nulls(negated=op is Op.IS_NOT_NULL)
    if op in (Op.EQ, Op.NE, Op.IN, Op.NOT_IN):
        return _points(literals, op in (Op.NE, Op.NOT_IN), codec)
    if not literals or literals[0] is None:
        return NOTHING
    if op in (Op.LT, Op.LE, Op.GT, Op.GE):
        return _binary_interval(op, literals[0], codec) if codec.is_binary else _interval(op, literals[0], codec)
    if not codec.is_binary:
        return None
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return _prefix(codec.bytes_of(literals[0]), op is Op.NOT_STARTS_WITH, True)
    if op in (Op.LIKE, Op.NOT_LIKE):
        escape = literals[1] if len(literals) > 1 else "\\"
        return _like(str(literals[0]), escape, op is Op.NOT_LIKE, codec)
    return None


def _points(literals: Sequence[Any], negated: bool, codec: KeyCodec) -> Probe:
    known = [literal for literal in literals if literal is not None]
    if negated and len(known) < len(literals):
        return NOTHING
    keys: dict[Key, None] = {}
    for literal in known:
        if codec.is_binary:
            keys[codec.bytes_of(literal)] = None
            continue
        place = codec.place(literal)
        if place.present or (codec.coarse and place.first >= codec.low):
            keys.update(dict.fromkeys(range(place.first, place.last + 1)))
    if codec.coarse:
        return Points((), negated=True, exact=False) if negated else Points(tuple(keys), exact=not keys)
    return Points(tuple(keys), negated)


def _interval(op: Op, literal: Any, codec: KeyCodec) -> Probe:
    place = codec.place(literal)
    low, high, exact = codec.low, codec.high, True
    if op in (Op.LT, Op.LE):
        below = op is Op.LT and place.present
        high = place.first - 1 if below else place.last
        exact = below or not codec.coarse or place.last < low
    else:
        above = place.present and op is Op.GE
        low = place.first if above else place.last + 1
        if codec.coarse and not above:
            low, exact = place.last, place.last < codec.low
    low, high = max(low, codec.low), min(high, codec.high)
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
