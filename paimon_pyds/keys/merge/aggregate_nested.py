"""The aggregate functions of maps and of lists of rows.

(Java: classes FieldMergeMapAgg, FieldMergeMapWithKeyTimeAgg, FieldNestedUpdateAgg and FieldNestedPartialUpdateAgg. They
put entries into hash maps and so lose their order, which has no meaning; here entries keep the order they came in.)

A value that is the only one that is not NULL stays as it is: NULL in lists, rows with one key and more elements than
the limit stay, too. By the rules of Java Paimon 2.1 (``rules21``) that holds for what was merged before only; the first
list of a merge is put in order, as all others are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import binary_parts, from_numpy, pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import SchemaError
from paimon_pyds.keys.merge.equal_values import Codes, Entries, entries_of, equality_codes, from_entries, pair_codes
from paimon_pyds.keys.merge.grouped_rows import Flags, GroupedRows, Positions, is_valid, take_or_null
from paimon_pyds.keys.merge.order_codes import order_codes

NullKeys: TypeAlias = Literal["merge", "ignore", "error"]
"""How nested rows with a NULL in their key are merged: like others, or they are left out, or refused."""


@dataclass(frozen=True, slots=True)
class _Merged:
    """The input of a merge: the values that are not NULL, without retractions that precede the first added value.

    Attributes:
        values: the rest of the values.
        rows: their groups.
        entries: what is in them.
        group: the group of each entry.
        retract: which entries take back.
        begun: of each group, whether its first value is taken as it is.
    """

    values: pa.Array
    rows: GroupedRows
    entries: Entries
    group: Positions
    retract: Flags
    begun: Flags

    @classmethod
    def of(cls, values: pa.Array, rows: GroupedRows, *, rules21: bool = False) -> _Merged:
        kept = is_valid(values)
        begun = np.ones(rows.count, np.bool_)
        if rules21:
            first = rows.first()
            begun = np.zeros(rows.count, np.bool_) if rows.begun is None else rows.begun & (first >= 0)
            begun[begun] = kept[first[begun]]
        if rows.retract.any():
            at = np.arange(len(kept))
            first = rows.first(np.flatnonzero(kept & ~rows.retract))[rows.group]
            kept = kept & (first >= 0) & (at >= first)
        if not kept.all():
            values, rows = values.filter(from_numpy(kept)), rows.only(kept)
        entries = entries_of(values)
        return cls(values, rows, entries, rows.group[entries.row], rows.retract[entries.row], begun)

    @property
    def is_alone(self) -> Flags:
        """Which groups have one value that is taken as it is."""
        return np.asarray((self.rows.lengths() == 1) & self.begun, np.bool_)

    def result(self, kept: Positions, columns: Sequence[pa.Array] | None = None) -> pa.Array:
        """Each group's remaining entries, in their order; or ``columns``, which have one value for each of them."""
        kept_group = self.group[kept]
        lengths = np.bincount(kept_group, minlength=self.rows.count)
        columns = self.entries.take(kept) if columns is None else columns
        return from_entries(self.values.type, columns, lengths, self.rows.has_rows())

    def with_alone(self, kept: Flags) -> Positions:
        """The entries that stay, and all of groups whose single value stays as it is."""
        return np.flatnonzero(kept | self.is_alone[self.group])


def _last_of(same: Codes, among: Positions) -> Positions:
    """For each entry the last one ``among`` these (ascending) with the same number; -1 if no entry has it."""
    found = np.full(len(same), -1, np.int64)
    found[same[among]] = among
    return found[same]


def merge_map(values: pa.Array, rows: GroupedRows) -> pa.Array:
    """The entries of all maps; a later one with the same key comes in place of the earlier one.

    A map that is taken back removes its keys, whatever their values. NULL only if nothing but NULL was added.
    """
    merged = _Merged.of(values, rows)
    same = pair_codes([merged.group, equality_codes(merged.entries.columns[0])])
    at = np.arange(len(same))
    return merged.result(np.flatnonzero((_last_of(same, at) == at) & ~merged.retract))


@dataclass(frozen=True, slots=True)
class MergeMapByTime:
    """Of each key the row with the latest time, a text that is compared by UTF-16 units; the earlier one of equals.

    The oldest map stays as it is; in later ones a NULL removes its key, and a row without a time is passed over, as is
    one of an earlier time. Merging newer maps first, and the result with an older one later, may give another result:
    the result does not record removals.

    ``time_field``: the place of the time among the fields of the maps' rows.
    """

    time_field: int

    def __call__(self, values: pa.Array, rows: GroupedRows) -> pa.Array:
        merged = _Merged.of(values, rows)
        keys, items = merged.entries.columns
        same = pair_codes([merged.group, equality_codes(keys)])
        at = np.arange(len(same))
        is_oldest = np.zeros(len(merged.values), np.bool_)
        is_oldest[merged.rows.begins()] = True
        oldest = is_oldest[merged.entries.row]
        removed_at = _last_of(same, np.flatnonzero(~is_valid(items) & ~oldest))
        live = at > removed_at
        times = items.flatten()[self.time_field]
        timed = np.flatnonzero(live & is_valid(times))
        rank = np.zeros(len(same), np.int64)
        rank[timed] = _utf16_ranks(times.take(from_numpy(timed)))
        order = timed[np.lexsort([-timed, rank[timed]])]  # the latest time last, of equals the oldest
        best = np.full(len(same), -1, np.int64)
        best[same[order]] = order
        chosen = (best[same] == at) | (live & oldest & (best[same] < 0) & (_last_of(same, at[oldest]) == at))
        return merged.result(np.flatnonzero(chosen))


def _utf16_ranks(texts: pa.Array) -> Codes:
    """Numbers that compare as texts do by UTF-16 units (``String.compareTo`` in Java)."""
    encoded = texts.cast(pa.binary()).dictionary_encode()
    data, starts, ends = binary_parts(encoded.dictionary)
    # In UTF-16 what four bytes of UTF-8 stand for comes before U+E000 to U+FFFF, whose first bytes are these two.
    moved = np.arange(256, dtype=np.uint8)
    moved[0xEE], moved[0xEF] = 0xFE, 0xFF
    offsets = pa.py_buffer(np.append(starts, ends[-1:]).astype(np.int32))
    distinct = pa.Array.from_buffers(pa.binary(), len(starts), [None, offsets, pa.py_buffer(moved[data])])
    ranks = np.empty(len(starts), np.int64)
    ranks[to_numpy(pc.array_sort_indices(distinct))] = np.arange(len(starts))
    return np.asarray(ranks[to_numpy(encoded.indices)], np.int64)


@dataclass(frozen=True, slots=True)
class NestedUpdate:
    """The rows of all lists; where there is a key, a later row comes in place of the earlier one with the same.

    Rows that are taken back remove the one with their key; without a key, all that equal them. NULL among the rows is
    left out.

    ``key``: places of the key among the fields; empty if rows have no key. ``limit``: rows after which a list takes no
    more; None: no limit. Rows are counted as they come, so the result depends on which lists were merged with one
    another before. ``rules21``: a list with a key is full at that number of keys, and still takes rows in place of
    others. ``sequence``: places of fields that say which of two rows with one key is newer, equal ones the later;
    NULL is older than any value. ``null_keys``: how rows with a NULL in their key are merged.
    """

    key: tuple[int, ...] = ()
    limit: int | None = None
    rules21: bool = False
    sequence: tuple[int, ...] = ()
    null_keys: NullKeys = "merge"

    def __call__(self, values: pa.Array, rows: GroupedRows) -> pa.Array:
        merged = _Merged.of(values, rows, rules21=self.rules21)
        elements = merged.entries.columns[0]
        there = is_valid(elements) & has_wanted_key(elements, self.key, self.null_keys)
        compares = self.key or merged.retract.any()
        same = _same_rows(merged, elements, self.key) if compares else np.arange(len(elements))
        as_they_are = np.zeros(len(there), np.bool_)
        if self.limit is not None:
            taken, full = self._within_limit(merged, np.where(there, same, -1), self.limit)
            as_they_are = taken & full[merged.group]
            there &= taken
        at = np.arange(len(same))
        gone = _last_of(same, np.flatnonzero(merged.retract & there))
        kept = there & ~merged.retract & (at > gone)
        if self.key:
            kept &= _last_of(same, self._in_sequence(np.flatnonzero(kept), elements)) == at
        return merged.result(merged.with_alone(kept | as_they_are))

    def _in_sequence(self, rows: Positions, elements: pa.Array) -> Positions:
        """Positions of nested rows, the newest last."""
        if not self.sequence or not len(rows):
            return rows
        fields = elements.take(from_numpy(rows)).flatten()
        return rows[np.argsort(order_codes([fields[at] for at in self.sequence]), kind="stable")]

    def _within_limit(self, merged: _Merged, same: Codes, limit: int) -> tuple[Flags, Flags]:
        """Which entries of lists are taken up, row by row in the groups that may reach ``limit``; and of which groups
        the oldest list is full from the beginning, so that nothing is merged into it.

        Entries with equal numbers in ``same`` are those of which one takes the place of the other (where there is a
        key), or removes it; -1 is NULL.
        """
        taken, full = np.ones(len(same), np.bool_), np.zeros(merged.rows.count, np.bool_)
        entries = np.bincount(merged.group, minlength=merged.rows.count)
        bounds = np.append(0, np.cumsum(np.bincount(merged.entries.row, minlength=len(merged.values))))
        first, lengths = merged.rows.first(), merged.rows.lengths()
        for group in np.flatnonzero((entries >= limit) & (lengths > merged.begun)).tolist():
            begin = first[group] + int(merged.begun[group])
            oldest = same[bounds[first[group]] : bounds[begin]].tolist()
            left = _ListEntries(oldest, bool(self.key), replaces=bool(self.key) and self.rules21)
            for row in range(begin, first[group] + lengths[group]):
                span = slice(bounds[row], bounds[row + 1])
                if merged.rows.retract[row]:
                    left.remove(same[span].tolist())
                else:
                    taken[span] = left.add(same[span].tolist(), limit)
            full[group] = not left.is_merged
        return taken, full


def has_wanted_key(elements: pa.Array, key: Sequence[int], null_keys: NullKeys) -> Flags:
    """Which nested rows are merged, by what their key has of NULL. Raises SchemaError: it must have none."""
    if null_keys == "merge":
        return np.ones(len(elements), np.bool_)
    fields = elements.flatten()
    wanted = np.logical_and.reduce([is_valid(fields[at]) for at in key]) | ~is_valid(elements)
    if null_keys == "error" and not wanted.all():
        raise SchemaError(
            "a nested row has a NULL in its key",
            hint="nested-key-null-strategy=error refuses such rows; ignore leaves them out, merge takes NULL as a key",
        )
    return np.asarray(wanted, np.bool_)


def _same_rows(merged: _Merged, elements: pa.Array, key: Sequence[int]) -> Codes:
    """Numbers of nested rows: equal in rows of a group that have the same key; without a key, in equal rows."""
    fields = elements.flatten()
    codes = [equality_codes(fields[i]) for i in key] if key else [equality_codes(elements)]
    return pair_codes([merged.group, *codes])


class _ListEntries:
    """The entries of one list while others are merged into it, by their numbers."""

    def __init__(self, numbers: list[int], has_key: bool, replaces: bool) -> None:
        self._has_key, self._replaces = has_key, replaces
        self.is_merged = False
        self._size = len(numbers)  # of the oldest list, NULL and entries with equal keys count
        self._numbers = Counter(number for number in numbers if number >= 0)

    def _begin_merging(self) -> None:
        self.is_merged = True
        self._size = len(self._numbers) if self._has_key else self._numbers.total()

    def add(self, numbers: list[int], limit: int) -> list[bool]:
        """Which of these there is room for."""
        if self._replaces:
            return self._add_or_replace(numbers, limit)
        free_rows = limit - self._size
        if free_rows <= 0:
            return [False] * len(numbers)
        taken = []
        for number in numbers:
            taken.append(number >= 0 and free_rows > 0)
            if taken[-1]:
                self._numbers[number] += 1
                free_rows -= 1
        self._begin_merging()
        return taken

    def _add_or_replace(self, numbers: list[int], limit: int) -> list[bool]:
        taken = []
        for number in numbers:
            taken.append(number >= 0 and (number in self._numbers or len(self._numbers) < limit))
            if taken[-1]:
                self._numbers[number] += 1
        self._begin_merging()
        return taken

    def remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._numbers.pop(number, None)
        self._begin_merging()


@dataclass(frozen=True, slots=True)
class NestedPartialUpdate:
    """Of each key one row, with the newest value that is not NULL in each field. ``key``: places of the key among the
    fields. Others as of `NestedUpdate`."""

    key: tuple[int, ...]
    rules21: bool = False
    null_keys: NullKeys = "merge"

    def __call__(self, values: pa.Array, rows: GroupedRows) -> pa.Array:
        merged = _Merged.of(values, rows, rules21=self.rules21)
        elements = merged.entries.columns[0]
        at = np.arange(len(elements))
        alone = merged.is_alone[merged.group]
        there = is_valid(elements) & (has_wanted_key(elements, self.key, self.null_keys) | alone)
        same = pair_codes([np.where(alone, at, -1) + 1, _same_rows(merged, elements, self.key)])
        first = np.full(len(same), -1, np.int64)
        first[same[there][::-1]] = at[there][::-1]  # numpy keeps what is assigned last
        kept = np.flatnonzero((there & (first[same] == at)) | alone)
        fields = [
            take_or_null(field, _last_of(same, np.flatnonzero(is_valid(field)))[kept]) for field in elements.flatten()
        ]
        row_type = values.type.value_type
        named = [row_type.field(i) for i in range(row_type.num_fields)]
        merged_rows = pa.StructArray.from_arrays(fields, fields=named, mask=from_numpy(~there[kept]))
        return merged.result(kept, [merged_rows])
