"""The changelog that a compaction writes: for each key that it brings up to date, the older row and the new one.

With ``changelog-producer=full-compaction`` the older rows are those of the highest level, with ``lookup`` those above
level 0. (Java: classes FullChangelogMergeFunctionWrapper, LookupChangelogMergeFunctionWrapper and
FirstRowMergeFunctionWrapper.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, one_batch, pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.keys.merge.equal_values import equality_codes
from paimon_pyds.keys.merge.grouped_rows import Flags, Positions
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, LEVEL, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.order_codes import sorted_rows
from paimon_pyds.keys.merge.versions import Versions
from paimon_pyds.metadata.schema import TableSchema


@dataclass(frozen=True)
class Changelog:
    """Which changes of rows a compaction logs.

    Attributes:
        keys: the columns of the key.
        older_level: the level of the older rows; all other rows are new. None: rows of level 0 are new, and the older
            row of a key is the one on its lowest other level.
        compared: an update is left out unless it changes one of these columns; None: no update is left out.
        only_first: rows of keys that have no older row, as they are.
    """

    keys: tuple[str, ...]
    older_level: int | None = None
    compared: tuple[str, ...] | None = None
    only_first: bool = False

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions, output_level: int, highest_level: int) -> Changelog | None:
        """The changelog that a compaction writes; None if it writes no changelog. ``output_level``: the level of the
        result. ``highest_level``: of the bucket."""
        producer = options.get("changelog-producer")
        if producer != "lookup" and (producer != "full-compaction" or output_level < highest_level):
            return None
        compared = None
        if options.get("changelog-producer.row-deduplicate"):
            ignored = str(options.get("changelog-producer.row-deduplicate-ignore-fields") or "").split(",")
            compared = tuple(name for name in schema.field_names if name not in (*ignored, *schema.primary_keys))
        older_level = None if producer == "lookup" else highest_level
        return cls(schema.trimmed_primary_keys, older_level, compared, options.get("merge-engine") == "first-row")

    def is_new(self, level: int) -> bool:
        """Whether rows of this level are new."""
        return level == 0 if self.older_level is None else level != self.older_level

    def changes(self, rows: pa.RecordBatch, versions: Versions, merged: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a changelog, in the order of keys, the older row before the new one: +I, -U and +U, or -D.

        ``rows``: all versions of some keys, with ``_LEVEL``. ``versions``: their order. ``merged``: the row that each
        key has now, with the columns of the changelog; keys may be missing.
        """
        if not merged.num_rows:
            return merged
        levels = to_numpy(rows.column(LEVEL))[versions.order]
        if self.older_level is None:
            is_new, is_older = levels == 0, versions.on_lowest_level(levels)
        else:
            is_new, is_older = levels != self.older_level, levels == self.older_level
        logged = np.logical_or.reduceat(is_new, versions.starts)
        older = versions.rows_at(versions.last(is_older))
        newer = self._of_keys(rows, versions, merged)
        if self.only_first:
            return merged.take(from_numpy(newer[logged & (older < 0) & (newer >= 0)]))
        older = np.where(logged & _adds(rows)[older], older, -1)
        newer = np.where(logged & _adds(merged)[newer], newer, -1)
        both = np.flatnonzero((older >= 0) & (newer >= 0))
        if self.compared is not None and len(both):
            pairs = rows.take(from_numpy(older[both])), merged.take(from_numpy(newer[both]))
            same = [_equal(*(part.column(name) for part in pairs)) for name in self.compared]
            unchanged = both[np.logical_and.reduce(same)] if same else both
            older[unchanged] = newer[unchanged] = -1
        return _in_pairs(rows, older, merged, newer)

    def _of_keys(self, rows: pa.RecordBatch, versions: Versions, merged: pa.RecordBatch) -> Positions:
        """Of each key where its merged row is; -1 for none."""
        count = len(versions.starts)
        if merged.num_rows == count:
            return np.arange(count)
        first = rows.take(from_numpy(versions.order[versions.starts]))
        order, _ = sorted_rows([pa.concat_arrays([first.column(key), merged.column(key)]) for key in self.keys])
        is_merged = order >= count  # it comes after the first version of its key
        found = np.full(count, -1, np.int64)
        found[np.cumsum(~is_merged)[is_merged] - 1] = order[is_merged] - count
        return found


def _adds(rows: pa.RecordBatch) -> Flags:
    return np.asarray(~is_retract(rows.column(VALUE_KIND)), np.bool_)


def _equal(left: pa.Array, right: pa.Array) -> Flags:
    """Which values are equal: NULLs are, and of numbers those that ``==`` in Java takes for equal."""
    if pa.types.is_nested(left.type):
        codes = equality_codes(pa.concat_arrays([left, right]))
        return np.asarray(codes[: len(left)] == codes[len(left) :], np.bool_)
    return is_true(pc.equal(left, right)) | is_true(pc.and_(left.is_null(), right.is_null()))


def _in_pairs(rows: pa.RecordBatch, older: Positions, merged: pa.RecordBatch, newer: Positions) -> pa.RecordBatch:
    """The older and the new row of each key, by their positions, of which -1 stands for none."""
    had, has = older >= 0, newer >= 0
    names: Sequence[str] = merged.schema.names
    parts = [rows.select(names).take(from_numpy(older[had])), merged.take(from_numpy(newer[has]))]
    kinds = [np.where(has, UPDATE_BEFORE, DELETE)[had], np.where(had, UPDATE_AFTER, INSERT)[has]]
    found = one_batch(pa.Table.from_batches(parts))
    at = found.schema.get_field_index(VALUE_KIND)
    found = found.set_column(at, found.schema.field(at), from_numpy(np.concatenate(kinds).astype(np.int8)))
    order = np.argsort(np.concatenate([np.flatnonzero(had), np.flatnonzero(has)]), kind="stable")
    return found.take(from_numpy(order))
