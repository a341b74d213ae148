"""Sequence groups of partial-update: columns whose values change together, to those of the newest row by the group's
sequence fields. (Paimon documentation, primary-key-table/merge-engine/partial-update, "Sequence Group".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_pyds.merge.aggregates import AggregateFunction
from paimon_pyds.merge.grouped_rows import Flags, Positions, is_valid
from paimon_pyds.merge.order_codes import Codes, order_codes, pair_codes
from paimon_pyds.merge.versions import Versions


@dataclass(frozen=True)
class SequenceGroup:
    """Columns in a group.

    Attributes:
        fields: the sequence fields; rows in which all of them are NULL don't change the group.
        columns: those that are ordered by them.
        aggregates: the functions of some of these, by column.
        removes: whether a delete that is the newest of the group removes the whole row.
    """

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    aggregates: dict[str, AggregateFunction] = field(default_factory=dict)
    removes: bool = False


@dataclass(frozen=True)
class GroupOrder:
    """How rows of a window are ordered by a group's sequence fields.

    Attributes:
        codes: of each place; the greater is the newer.
        given: of each place, whether one of the sequence fields has a value.
    """

    codes: Codes
    given: Flags

    @classmethod
    def of(cls, rows: pa.RecordBatch, group: SequenceGroup, versions: Versions) -> GroupOrder:
        columns = [rows.column(name) for name in group.fields]
        given = np.logical_or.reduce([is_valid(column) for column in columns])
        return cls(order_codes(columns)[versions.order], given[versions.order])

    def is_newest(self, places: Positions, key: Positions, counted: Flags) -> Flags:
        """Of some places, whether none of their key that comes before them is newer.

        Args:
            places: some, ascending.
            key: the key of each of them.
            counted: which of them count for those after them.
        """
        codes = self.codes[places]
        codes = pair_codes(key, np.where(counted, codes, codes.min(initial=0)))
        newest: Flags = codes >= np.maximum.accumulate(codes)
        return newest & counted


def last_removals(orders: Sequence[GroupOrder], deletes: Flags, base: Positions, versions: Versions) -> Positions:
    """Of each key, the place of the last delete that removes its row: one that is the newest of a group; -1 for none.

    A row that was removed begins anew with the sequence fields of the delete, which may be older in other groups; so
    with several groups the removals of a key are found one after the other.

    Args:
        orders: those of the groups that remove rows.
        deletes: of each place, whether it deletes a row and its key has more than one version.
        base: of each key, the place that its merge begins from; -1 for none.
        versions: the rows by key and age.
    """
    removed = np.full(len(versions.starts), -1, np.int64)
    places = np.arange(len(versions.order))
    while len(places):
        key = versions.key_numbers[places]
        begins = (places == removed[key]) | (places == base[key])
        removes = np.zeros(len(places), np.bool_)
        for order in orders:
            removes |= order.is_newest(places, key, order.given[places] | begins) & order.given[places]
        removes &= deletes[places] & (places > removed[key])
        found = places[removes] if len(orders) == 1 else places[removes][::-1]
        if not len(found):
            break
        keys = versions.key_numbers[found]
        removed[keys] = found  # of one group the last one, of several the first one
        if len(orders) == 1:
            break
        again = np.zeros(len(versions.starts), np.bool_)
        again[keys] = True
        places = places[again[key] & (places >= removed[key])]
    return removed
