"""Rows in groups, one group per key: what all aggregate functions reckon with, by whole columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import build, from_numpy, is_true
from paimon_pyds.base.records import dataclass

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Rows of all groups, one group after the other, those of a group from the oldest to the newest.

    Attributes:
        count: how many groups there are; some may have no rows.
        group: the number of each row's group, ascending.
        retract: which rows take back what was added.
        begun: of each group, whether its first row is what was merged before, and not the first to be merged; None for
            no group.
    """

    count: int
    group: Positions
    retract: Flags
    begun: Flags | None = None

    @classmethod
    def of(cls, starts: Positions, retract: Flags, begun: Flags | None = None) -> GroupedRows:
        """Of the place where each group begins; no group is empty."""
        lengths = np.diff(np.append(starts, len(retract)))
        return cls(len(starts), np.repeat(np.arange(len(starts)), lengths), retract, begun)

    def only(self, kept: Flags) -> GroupedRows:
        """Some of the rows, in the same groups; none is dropped that a group begins with."""
        return GroupedRows(self.count, self.group[kept], self.retract[kept], self.begun)

    def first(self, among: Positions | None = None) -> Positions:
        """The position of each group's first row, or of the first that is ``among`` these (ascending); -1 for none."""
        found = np.full(self.count, -1, np.int64)
        among = np.arange(len(self.group)) if among is None else among
        found[self.group[among[::-1]]] = among[::-1]  # numpy keeps what is assigned last
        return found

    def last(self, among: Positions | None = None) -> Positions:
        """The same of the last one."""
        found = np.full(self.count, -1, np.int64)
        among = np.arange(len(self.group)) if among is None else among
        found[self.group[among]] = among
        return found

    def begins(self) -> Flags:
        """Which rows are the first of their groups."""
        return np.append(True, self.group[1:] != self.group[:-1])[: len(self.group)]

    def lengths(self) -> Positions:
        """How many rows each group has."""
        return np.bincount(self.group, minlength=self.count)

    def has_rows(self) -> Flags:
        """Which groups have rows."""
        return self.lengths() > 0


def is_valid(values: pa.Array) -> Flags:
    """Which values are not NULL."""
    return is_true(values.is_valid()) if values.null_count else np.ones(len(values), np.bool_)


def take_or_null(values: pa.Array, positions: Positions) -> pa.Array:
    """The values at these positions; NULL where a position is -1."""
    there = positions >= 0
    if there.all():
        return values.take(from_numpy(positions))
    return values.take(build(pa.int64(), positions, there, len(positions)))


def flags_buffer(flags: Flags) -> pa.Buffer | None:
    """A bitmap of valid values for an Arrow array; None when all are."""
    return None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))
