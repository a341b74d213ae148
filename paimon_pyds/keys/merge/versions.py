"""Rows by key, and of each key from the oldest version to the newest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.kinds import UNORDERED_KINDS
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.keys.merge.order_codes import Codes, order_code, pair_codes, sorted_rows

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class SequenceFields:
    """Columns that say which version of a row is newer: option ``sequence.field``; later ones decide between equals.

    NULL is older than any value, in both orders. (Java: class UserDefinedSeqComparator.)
    """

    names: tuple[str, ...] = ()
    descending: bool = False

    def codes(self, rows: pa.RecordBatch) -> list[Codes]:
        """Columns of numbers, the first one being compared first."""
        found = []
        for name in self.names:
            column = rows.column(name)
            if not self.descending:
                found.append(order_code(column))
                continue
            if column.null_count:
                found.append(to_numpy(column.is_valid().cast(pa.int64())))
            found.append(~order_code(column))
        return found


def check_orders_rows(column: DataField, option: str) -> None:
    """Refuse a column whose values have no order here. Raises UnsupportedError, with the name of the ``option`` that
    orders versions by it."""
    if column.type.kind in UNORDERED_KINDS:
        raise UnsupportedError(
            f"{option} names {column.name}, whose type {column.type} has no order here",
            hint="name a column of numbers, texts, times, booleans or bytes",
        )


@dataclass(frozen=True)
class Versions:
    """The versions of rows.

    Attributes:
        order: positions of rows: key by key in their order, and of each key from the oldest version to the newest. An
            index of it is called a place here.
        starts: the place where each key begins.
        keeps_single: a key with one version keeps it as it is, whatever the engine makes of versions.
    """

    order: Positions
    starts: Positions
    keeps_single: bool = True

    @property
    def ends(self) -> Positions:
        """The place after each key's last one."""
        return np.append(self.starts, len(self.order))[1:]

    @property
    def counts(self) -> Positions:
        """How many versions each key has."""
        return self.ends - self.starts

    @property
    def is_single(self) -> Flags:
        """Which keys have one version, and keep it as it is."""
        return np.asarray((self.counts == 1) & self.keeps_single, np.bool_)

    def only(self, kept: Flags) -> Versions:
        """The versions at the selected places: at least one of each key."""
        numbers = self.key_numbers[kept]
        starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)])
        return replace(self, order=self.order[kept], starts=starts)

    def on_lowest_level(self, levels: npt.NDArray[np.int32]) -> Flags:
        """Of each place whether it has the lowest level above 0 among those of its key; ``levels``: of each place."""
        above = np.where(levels > 0, levels, np.iinfo(levels.dtype).max)
        lowest = np.minimum.reduceat(above, self.starts)
        return np.asarray((levels > 0) & (levels == self.of_each(lowest)), np.bool_)

    def of_each(self, values: npt.NDArray[_T]) -> npt.NDArray[_T]:
        """One value for each key as one for each place."""
        return np.repeat(values, self.counts)

    def first(self, kept: Flags) -> Positions:
        """The place of each key's oldest version among the selected places; -1 for keys without any."""
        return self._found(np.flatnonzero(kept)[::-1])

    def last(self, kept: Flags) -> Positions:
        """The place of each key's newest version among the selected places; -1 for keys without any."""
        return self._found(np.flatnonzero(kept))

    def _found(self, places: Positions) -> Positions:
        found = np.full(len(self.starts), -1, np.int64)
        found[self.key_numbers[places]] = places  # numpy keeps what is assigned last
        return found

    def rows_at(self, places: Positions) -> Positions:
        """The positions of rows at these places; -1 stays -1."""
        return np.where(places < 0, -1, self.order[places]) if len(self.order) else places

    @cached_property
    def key_numbers(self) -> Positions:
        """Of each place the number of its key."""
        return self.of_each(np.arange(len(self.starts)))


def sort_versions(rows: pa.RecordBatch, keys: Sequence[str], sequence: SequenceFields) -> Versions:
    """Rows by key, sequence fields and sequence number; equal ones keep the order they are in.

    It is the faster the longer the stretches are that are in order already, such as sorted runs one after the other,
    older ones first.

    ``rows``: with the columns that are named, and ``_SEQUENCE_NUMBER``. ``keys``: the columns of the key; at least one.
    ``sequence``: what orders the versions of a key before their sequence numbers do.
    """
    order, again = sorted_rows([rows.column(name) for name in keys])
    starts = np.append(0, np.flatnonzero(~again) + 1) if len(order) else np.zeros(0, np.int64)
    if again.any():
        _sort_within_keys(rows, order, again, sequence)
    return Versions(order, starts)


def _sort_within_keys(rows: pa.RecordBatch, order: Positions, again: Flags, sequence: SequenceFields) -> None:
    """Put the versions of each key in order: changes ``order``, the positions of rows by key. ``again`` says whether a
    place and the one after it have the same key; ``sequence`` orders versions before their sequence numbers do."""
    numbers = to_numpy(rows.column(SEQUENCE_NUMBER))
    ordered = numbers[order]
    as_numbered = not (again & (ordered[1:] < ordered[:-1])).any()
    if as_numbered and not sequence.names:
        return
    places = np.flatnonzero(np.append(again, False) | np.append(False, again))
    repeated = order[places]
    columns = [np.cumsum(np.append(0, ~again))[places]]
    if sequence.names:
        columns += sequence.codes(rows.select([*sequence.names]).take(from_numpy(repeated)))
    if not as_numbered:
        columns.append(numbers[repeated])
    order[places] = repeated[np.argsort(reduce(pair_codes, columns), kind="stable")]
