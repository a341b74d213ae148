"""Which version of a key the functions first_value and first_non_null_value take their value from.

In Java they are not functions of values alone: they remember whether they have found their value, and that is not
undone when a delete removes the row. A value that comes late, behind a newer one by its sequence group, replaces what
they found, even by NULL; one that comes before they found any is passed over. (Classes FieldFirstValueAgg and
FieldFirstNonNullValueAgg.)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.merge.base_rows import CountedVersions
from paimon_pyds.merge.grouped_rows import Flags, is_valid, take_or_null

_NON_NULL = frozenset({"first_non_null_value", "first_not_null_value"})
FIRST_FUNCTIONS = frozenset({"first_value", *_NON_NULL})


def first_values(values: pa.Array, function: str, counted: CountedVersions, given: Flags, late: Flags) -> pa.Array:
    """The column's value for each key; NULL for keys without any.

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
