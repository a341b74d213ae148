"""Merge engines on lists of rows, one version at a time: what a table with a primary key must hold afterwards."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Row = dict[str, Any]
SEQ, KIND = "_SEQUENCE_NUMBER", "_VALUE_KIND"
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
RETRACTS = (UPDATE_BEFORE, DELETE)


class RefusedError(Exception):
    """The engine can't take what a row asks for."""


def rank(value: Any) -> tuple[Any, ...]:
    """What values are ordered by: NULL first, NaN last, -0.0 as 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value + 0.0)
    return (1, value)


def compare(left: Any, right: Any) -> int:
    """Below 0, 0 or above, by `rank`."""
    return (rank(left) > rank(right)) - (rank(left) < rank(right))


@dataclass(frozen=True)
class Order:
    """What orders the versions of a key before their sequence numbers do."""

    names: Sequence[str] = ()
    descending: bool = False

    def compare(self, left: Row, right: Row) -> int:
        for name in self.names:
            found = compare(left[name], right[name])
            if found and self.descending and left[name] is not None and right[name] is not None:
                found = -found
            if found:
                return found
        return compare(left[SEQ], right[SEQ])


def versions_of(rows: Iterable[Row], keys: Sequence[str], order: Order) -> list[list[Row]]:
    """The versions of each key, oldest first, in the order of keys."""

    def both(left: Row, right: Row) -> int:
        for key in keys:
            if found := compare(left[key], right[key]):
                return found
        return order.compare(left, right)

    ordered = sorted(rows, key=functools.cmp_to_key(both))
    return [list(found) for _, found in groupby(ordered, key=lambda row: [rank(row[key]) for key in keys])]


Fold = Callable[[list[Row]], Row | None]


def merged(rows: Iterable[Row], keys: Sequence[str], order: Order, fold: Fold) -> list[Row]:
    """One row a key; a key with one version keeps it."""
    found = [v[0] if len(v) == 1 else fold(v) for v in versions_of(rows, keys, order)]
    return [row for row in found if row is not None]


def deduplicate(ignore_delete: bool) -> Fold:
    def fold(versions: list[Row]) -> Row | None:
        kept = [row for row in versions if not (ignore_delete and row[KIND] in RETRACTS)]
        return kept[-1] if kept else None

    return fold


def first_row(ignore_delete: bool) -> Fold:
    def fold(versions: list[Row]) -> Row | None:
        kept = [row for row in versions if row[KIND] not in RETRACTS]
        if len(kept) < len(versions) and not ignore_delete:
            raise RefusedError
        return kept[0] if kept else None

    return fold
