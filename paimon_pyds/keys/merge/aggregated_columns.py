"""Columns whose values are aggregated over the versions of a key, in the order in which Java calls the function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.keys.merge.aggregates import AggregateFunction, aggregate
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions, is_valid, take_or_null
from paimon_pyds.keys.merge.versions import Versions


@dataclass(frozen=True)
class CountedVersions:
    """Versions of rows, with what a merge begins from: where a delete has replaced all before it, others add to that.

    Versions before a base are not evaluated. Java takes them one after the other, and fails on a row that an aggregate
    function can't take back even where a delete removes the row after that.

    Attributes:
        versions: the rows by key and age.
        retract: of each place, whether its row takes a row away.
        base: of each key, the place whose row is taken as it is, with all its values; versions before it don't count.
            -1 for keys whose merge begins with no values.
        base_retracts: of each key, whether its base takes away from itself, after it was taken as it is.
    """

    versions: Versions
    retract: Flags
    base: Positions
    base_retracts: Flags

    @cached_property
    def is_base(self) -> Flags:
        """Of each place, whether it is a base."""
        found = np.zeros(len(self.retract), np.bool_)
        found[self.base[self.base >= 0]] = True
        return found

    @cached_property
    def is_retracting_base(self) -> Flags:
        """Of each place, whether it is a base that takes away from itself."""
        found = np.zeros(len(self.retract), np.bool_)
        found[self.base[self.base_retracts]] = True
        return found

    @cached_property
    def after_base(self) -> Flags:
        """Of each place, whether it is behind the base of its key, or its key has none."""
        return np.asarray(np.arange(len(self.retract)) > self.versions.of_each(self.base), np.bool_)

    @cached_property
    def added(self) -> Flags:
        """Of each place, whether its values count as added ones: the bases, and what is added after them."""
        return self.is_base | (self.after_base & ~self.retract)


_NON_NULL = frozenset({"first_non_null_value", "first_not_null_value"})
FIRST_FUNCTIONS = frozenset({"first_value", *_NON_NULL})


def first_values(values: pa.Array, function: str, counted: CountedVersions, given: Flags, late: Flags) -> pa.Array:
    """The value of first_value or first_non_null_value for each key; NULL for keys without any.

    In Java they are not functions of values alone: they remember whether they have found their value, and that is not
    undone when a delete removes the row. A value that comes late, behind a newer one by its sequence group, replaces
    what they found, even by NULL; one that comes before they found any is passed over. (Classes FieldFirstValueAgg and
    FieldFirstNonNullValueAgg.)

    Args:
        values: of all rows.
        function: one of `FIRST_FUNCTIONS`.
        counted: the versions, and which of them are bases.
        given: of each place, whether the function is given its value, or was before the base.
        late: of each place, whether it comes behind a newer one.
    """
    versions = counted.versions
    valid = np.ones(len(given), np.bool_)
    known = np.ones(len(counted.base), np.bool_)
    """Of each key, whether a late value finds one that is known."""
    if function in _NON_NULL:
        valid = is_valid(values)[versions.order]
        known = counted.base >= 0
        known[known] = valid[counted.base[known]]
    now, before = given & counted.after_base, given & ~counted.after_base & ~counted.is_base & ~counted.retract
    found_before = versions.last(before & valid) >= 0
    on_time, behind = versions.first(now & valid & ~late), now & late
    second = versions.of_each(versions.first(behind & valid))
    passed_over = np.where(
        known, versions.first(behind), versions.first(behind & (second >= 0) & (np.arange(len(given)) > second))
    )
    begun = np.where(known, counted.base, versions.first(behind & valid))
    finds = (on_time >= 0) & ((passed_over < 0) | (on_time < passed_over))
    opened = np.where(found_before, -1, np.where(finds, on_time, passed_over))
    """The place from which on late values replace what was found."""
    taken = np.where(found_before, counted.base, np.where(finds, on_time, begun))
    replaces = versions.last(behind & (np.arange(len(given)) > versions.of_each(opened)))
    replaced = (replaces >= 0) & (found_before | (opened >= 0))
    return take_or_null(values, versions.rows_at(np.where(replaced, replaces, taken)))


def aggregated_column(
    values: pa.Array, function: AggregateFunction, counted: CountedVersions, given: Flags, late: Flags | None = None
) -> pa.Array:
    """The column's value for each key: NULL for keys that give the function nothing.

    ``counted``: the versions, and which of them are bases: what the function goes on from. ``given``: of each place,
    whether the function is given its value; for those up to a base it says whether the function was given it before.
    ``late``: of each place, whether it comes behind a newer one by its sequence group.

    Raises:
        UnsupportedError: rows take back what was added, and the function can't.
        SchemaError: values that the function fails on.
    """
    if function.ignore_retract:
        given = given & ~counted.retract
    given_now = given & (counted.after_base | counted.is_retracting_base)
    if late is None or function.keeps_arrival_order:
        behind = np.zeros(len(given), np.bool_)
    else:
        behind = late
    if function.name in FIRST_FUNCTIONS and not (given_now & counted.retract).any():
        return first_values(values, function.name, counted, given, behind)
    versions = counted.versions
    places = np.flatnonzero(given_now)
    sources, found = values, versions.rows_at(counted.base)
    """The position in ``sources`` of the value of each key so far; -1 for NULL."""
    for part in _parts(places, counted, behind):
        keys = _distinct(versions.key_numbers[part])
        made = _aggregate(sources, function, counted, _Part(part, keys, found[keys], behind))
        found[keys] = len(sources) + np.arange(len(keys))
        sources = pa.concat_arrays([sources, made])
    return take_or_null(sources, found)


@dataclass(frozen=True, slots=True)
class _Part:
    """Values that are aggregated at once.

    Attributes:
        places: whose values the function is given, ascending.
        keys: the keys of these.
        begun: for each of the keys, the position of its first value; -1 if it has none.
        late: of each place of all, whether its value counts as the first one so far.
    """

    places: Positions
    keys: Positions
    begun: Positions
    late: Flags


def _aggregate(sources: pa.Array, function: AggregateFunction, counted: CountedVersions, part: _Part) -> pa.Array:
    """One value for each key of the part. ``sources`` are the values of all rows, and of the parts before."""
    versions, places = counted.versions, part.places
    key, retract, taken = versions.key_numbers[places], counted.retract[places], versions.order[places]
    first = part.late[places] & ~retract
    late_alone = first[np.flatnonzero(np.append(True, key[1:] != key[:-1]))]
    begins = (part.begun >= 0) | late_alone
    begun = part.begun >= 0
    if first.any():
        begun = begun | np.isin(part.keys, key[first])
    if begins.any() or first.any():
        # Of each key: late values, the last one first; what it begins with, if only NULL; the others.
        count = int(begins.sum())
        precedence = np.append(np.where(first, 0, 2), np.ones(count, np.int64))
        age = np.append(np.where(first, -places, places), np.zeros(count, np.int64))
        key = np.append(key, part.keys[begins])
        order = np.lexsort((age, precedence, key))
        key = key[order]
        taken = np.append(taken, part.begun[begins])[order]
        retract = np.append(retract, np.zeros(count, np.bool_))[order]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    return aggregate(function, take_or_null(sources, taken), starts, retract, begun)


def _parts(places: Positions, counted: CountedVersions, late: Flags) -> list[Positions]:
    """The places in parts that are aggregated one after the other.

    A late value is added in front of what was added; that is only the same as adding it first while nothing has been
    taken back. So the first late one after one that takes back begins a new part of its key.
    """
    if not len(places):
        return []
    key, retract = counted.versions.key_numbers[places], counted.retract[places]
    if not (retract.any() and late[places].any()):
        return [places]
    added_late = late[places] & ~retract
    events = np.flatnonzero(retract | added_late)
    before, after = events[:-1], events[1:]
    begins = np.zeros(len(key), np.int64)
    begins[after] = added_late[after] & ~added_late[before] & (key[after] == key[before])
    numbers = np.cumsum(begins)
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    numbers -= np.repeat(numbers[first], np.diff(np.append(first, len(key))))
    order = np.argsort(numbers, kind="stable")
    return np.split(places[order], np.flatnonzero(np.diff(numbers[order])) + 1)


def _distinct(ascending: Positions) -> Positions:
    found: Positions = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    return found
