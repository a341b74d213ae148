"""The merge engine partial-update: of each column the newest value that is not NULL, or what its sequence group says.

Source: Paimon documentation, primary-key-table/merge-engine/partial-update; where it is silent, what Java Paimon 1.4
gives (class PartialUpdateMergeFunction).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.aggregated_columns import CountedVersions, aggregated_column
from paimon_pyds.keys.merge.aggregates import AggregateFunction
from paimon_pyds.keys.merge.engine import MergeEngine, with_outermost
from paimon_pyds.keys.merge.filter import conditions_on_values
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions, is_valid, take_or_null
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, SEQUENCE_NUMBER, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.order_codes import Codes, order_codes, pair_codes
from paimon_pyds.keys.merge.versions import Versions
from paimon_pyds.sql.predicate.tree import Predicate


@dataclass(frozen=True)
class SequenceGroup:
    """Columns whose values change together, to those of the newest row by the group's sequence fields.

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
    """How rows of a window are ordered by a group's sequence fields. ``codes``: of each place; the greater is the
    newer. ``given``: of each place, whether one of the sequence fields has a value."""

    codes: Codes
    given: Flags

    @classmethod
    def of(cls, rows: pa.RecordBatch, group: SequenceGroup, versions: Versions) -> GroupOrder:
        columns = [rows.column(name) for name in group.fields]
        given = np.logical_or.reduce([is_valid(column) for column in columns])
        return cls(order_codes(columns)[versions.order], given[versions.order])

    def is_newest(self, places: Positions, key: Positions, counted: Flags) -> Flags:
        """For each place, whether no earlier place of its key is newer.

        ``places``: some, ascending. ``key``: the key of each of them. ``counted``: which of them count for those after
        them.
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


@dataclass(frozen=True)
class PartialUpdate(MergeEngine):
    """See the module.

    A delete (or update-before) that is the oldest version of a key gives the row its values all the same, as in Java.

    Attributes:
        ignore_delete: deletes are left out.
        remove_on_delete: a delete removes the row; what comes later adds to the values of the delete.
        groups: the sequence groups. Where there are some, deletes act on them: they set the columns of a group to NULL,
            are taken back from its aggregates, or remove the row before anything else.
    """

    ignore_delete: bool = False
    remove_on_delete: bool = False
    groups: tuple[SequenceGroup, ...] = ()

    def required_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        wanted = set(columns)
        fields = [g.fields for g in self.groups if g.removes or wanted.intersection((*g.columns, *g.fields))]
        return tuple(dict.fromkeys((*columns, *(name for names in fields for name in names))))

    def conditions_on_versions(self, predicate: Predicate) -> tuple[Predicate, ...]:
        return conditions_on_values(predicate, {name for group in self.groups for name in group.aggregates})

    def merge(self, rows: pa.RecordBatch, versions: Versions, columns: Sequence[str]) -> pa.RecordBatch:
        counted = self._counted(rows, versions)
        made = {SEQUENCE_NUMBER: self._numbers(rows, counted), VALUE_KIND: self._kinds(rows, counted)}
        wanted = set(columns)
        for group in self.groups:
            if wanted.intersection((*group.columns, *group.fields)):
                made |= _group_columns(rows, counted, group, self.ignore_delete)
        plain = _NewestValues(rows, counted)
        arrays = [made[name] if name in made else plain.of(name) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([rows.schema.field(name) for name in columns]))

    def needed(self, rows: pa.RecordBatch, versions: Versions) -> Positions:
        if self.groups:
            return super().needed(rows, versions)
        counted = self._counted(rows, versions)
        values = _NewestValues(rows, counted)
        places = [values.places(name) for name in rows.schema.names]
        places += [versions.last(~counted.retract), counted.base]
        every = np.concatenate(places) if places else np.zeros(0, np.int64)
        return with_outermost(versions, versions.order[every[every >= 0]])

    def _counted(self, rows: pa.RecordBatch, versions: Versions) -> CountedVersions:
        """The versions that count, and the rows that they add to.
        Raises UnsupportedError: no option says what a delete does, and there is one."""
        kinds = to_numpy(rows.column(VALUE_KIND))[versions.order]
        retract = is_retract(rows.column(VALUE_KIND))[versions.order]
        single = versions.is_single
        base = np.where(single, versions.starts, -1)
        base_retracts = np.zeros(len(base), np.bool_)
        several = versions.of_each(~single)
        if (retract & several).any():
            base = np.where(single | retract[versions.starts], versions.starts, -1)
            base, removed = self._removals(rows, versions, base, (kinds == DELETE) & several)
            if self.groups and not self.ignore_delete:
                base_retracts = (base >= 0) & ~single & ~removed
        return CountedVersions(versions, retract, base, base_retracts)

    def _removals(
        self, rows: pa.RecordBatch, versions: Versions, base: Positions, deletes: Flags
    ) -> tuple[Positions, Flags]:
        """The bases, now that deletes have removed rows, and of which keys."""
        if self.ignore_delete:
            removed = np.full(len(base), -1, np.int64)
        elif self.groups:
            orders = [GroupOrder.of(rows, group, versions) for group in self.groups if group.removes]
            removed = last_removals(orders, deletes, base, versions)
        elif self.remove_on_delete:
            removed = versions.last(deletes)
        else:
            raise UnsupportedError(
                "the merge engine partial-update takes no deletes by default, and rows of the table hold some",
                hint="set ignore-delete, or partial-update.remove-record-on-delete, or sequence groups",
            )
        return np.where(removed >= 0, removed, base), removed >= 0

    def _kinds(self, rows: pa.RecordBatch, counted: CountedVersions) -> pa.Array:
        """A row is deleted when a delete that removes it is its newest version, or nothing was ever added."""
        versions = counted.versions
        own = to_numpy(rows.column(VALUE_KIND))[versions.order][versions.ends - 1]
        last = versions.ends - 1
        removed = np.zeros(len(last), np.bool_)
        if not self.ignore_delete:
            removed = (counted.base == last) & ~counted.base_retracts & (own == DELETE)
        deleted = removed | (versions.last(~counted.retract) < 0)
        kinds = np.where(versions.is_single, own, np.where(deleted, DELETE, INSERT))
        return from_numpy(kinds.astype(np.int8))

    def _numbers(self, rows: pa.RecordBatch, counted: CountedVersions) -> pa.Array:
        """The newest version's sequence number. Ignored deletes have none that counts: of nothing else Java makes 0."""
        versions = counted.versions
        numbers = to_numpy(rows.column(SEQUENCE_NUMBER))[versions.order]
        newest = numbers[versions.ends - 1]
        if self.ignore_delete and counted.retract.any():
            added = versions.last(~counted.retract)
            newest = np.where(versions.is_single, newest, np.where(added < 0, 0, numbers[added]))
        return from_numpy(newest)


class _NewestValues:
    """Columns in no sequence group: their newest value that is not NULL."""

    def __init__(self, rows: pa.RecordBatch, counted: CountedVersions) -> None:
        self._rows = rows
        self._counted = counted
        self._newest = counted.versions.last(counted.added)

    def places(self, name: str) -> Positions:
        """Of each key the place that the value is taken from; -1 for NULL."""
        column = self._rows.column(name)
        if not column.null_count:
            return self._newest
        versions = self._counted.versions
        return versions.last(self._counted.added & is_valid(column)[versions.order])

    def of(self, name: str) -> pa.Array:
        """The column of the result."""
        return take_or_null(self._rows.column(name), self._counted.versions.rows_at(self.places(name)))


def _group_columns(
    rows: pa.RecordBatch, counted: CountedVersions, group: SequenceGroup, ignore_delete: bool
) -> dict[str, pa.Array]:
    """The columns of a group, its sequence fields included, as far as ``rows`` has them."""
    versions = counted.versions
    order = GroupOrder.of(rows, group, versions)
    given = order.given & ~(counted.retract & ignore_delete)
    processed = given & (counted.after_base | counted.is_retracting_base)
    places = np.arange(len(versions.order))
    newest = order.is_newest(places, versions.key_numbers, processed | counted.is_base)
    current = versions.last(newest)
    whole = counted.retract & ~counted.is_base | (processed & counted.is_base)
    """Of each place, whether it sets columns to NULL when it is the newest."""
    source = versions.rows_at(current)
    cleared = np.where((current >= 0) & whole[current], -1, source) if len(whole) else source
    found = {name: take_or_null(rows.column(name), source) for name in group.fields}
    for name in group.columns:
        if name not in rows.schema.names:
            continue
        column, function = rows.column(name), group.aggregates.get(name)
        if function is None:
            found[name] = take_or_null(column, cleared)
        else:
            found[name] = aggregated_column(column, function, counted, given, processed & ~newest)
    return found
