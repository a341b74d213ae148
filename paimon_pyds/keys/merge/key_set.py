"""A set of keys: finds the rows that have one of them, and prunes files and pages by their statistics."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, pc, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.errors import PredicateError
from paimon_pyds.keys.merge.grouped_rows import Flags
from paimon_pyds.keys.merge.order_codes import comparable, order_codes, sorted_rows
from paimon_pyds.sql.predicate.compare import compare_char
from paimon_pyds.sql.predicate.tree import ColumnRef, Computed, Const, Digest, Leaf, Op, Predicate, make_and

FEW_KEYS = 1024
"""Keys up to which they are compared with all rows of a batch."""
_ROWS_PER_KEY = 64
"""Rows that are read in the time that it takes to look for a key in statistics."""
MAX_TEXT_FORMS = 1 << 16
"""Greatest number of texts, equal but for the blanks at their end, by which files are pruned."""


@dataclass(frozen=True)
class KeySet:
    """Keys in their order, each once, NULL first. It is a `predicate.tree.RowCondition`. ``columns``: the values of
    each."""

    fields: tuple[DataField, ...]
    columns: tuple[pa.Array, ...]

    @classmethod
    def of(cls, fields: Sequence[DataField], rows: pa.RecordBatch) -> KeySet:
        """The keys that rows have."""
        columns = [rows.column(field.name) for field in fields]
        order, again = sorted_rows(columns)
        kept = from_numpy(order[np.append(True, ~again)[: len(order)]])
        return cls(tuple(fields), tuple(column.take(kept) for column in columns))

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def _comparable(self) -> list[pa.Array]:
        return comparable(self.columns)

    def between(self, least: pa.Array, greatest: pa.Array) -> KeySet:
        """The keys whose first column is between the first values of two arrays, both included."""
        inside = self._between(*(comparable([end])[0][0].as_py() for end in (least, greatest)))
        return KeySet(self.fields, tuple(column[inside] for column in self.columns))

    def _between(self, low: Any, high: Any) -> slice:
        first = self._comparable[0]
        if first.null_count or low is None or high is None:
            return slice(None)
        start = bisect_left(range(len(first)), low, key=lambda i: first[i].as_py())
        return slice(start, bisect_right(range(len(first)), high, start, key=lambda i: first[i].as_py()))

    @property
    def condition(self) -> Computed:
        """The condition that a row has one of the keys; exact, whatever the type."""
        names = tuple(field.name for field in self.fields)
        return Computed(f"({', '.join(names)}) IN ({len(self)} keys)", names, Digest(None, str(id(self))), self)

    @property
    def listed(self) -> Predicate:
        """What leaves can say of that: true for every row that has one of the keys, and maybe for others."""
        if not len(self):
            return Const.FALSE
        return make_and(*map(one_of, self.fields, self.columns))

    def listed_for(self, rows: int) -> Predicate:
        """The same for a file of ``rows`` rows: if nearly all of its pages would be read, bounds by the least and the
        greatest key are enough."""
        field, values = self.fields[0], self.columns[0]
        if len(self) * _ROWS_PER_KEY < rows or len(self) <= FEW_KEYS or field.type.kind in (Kind.CHAR, Kind.BOOLEAN):
            return self.listed
        return between(field, values)

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether rows have one of the keys."""
        rows = comparable([batch.column(field.name) for field in self.fields])
        keys = self._around(rows[0])
        if len(rows) == 1 and pa.types.is_integer(rows[0].type) and not rows[0].null_count + keys[0].null_count:
            return from_numpy(_among(to_numpy(rows[0]), to_numpy(keys[0])))
        found = np.logical_and.reduce([is_true(pc.is_in(row, key)) for row, key in zip(rows, keys, strict=True)])
        if len(rows) > 1 and found.any():
            at = np.flatnonzero(found)
            here = [row.take(from_numpy(at)) for row in rows]
            codes = order_codes([pa.concat_arrays(both) for both in zip(here, keys, strict=True)])
            found[at] = np.isin(codes[: len(at)], codes[len(at) :])
        return from_numpy(found)

    def _around(self, first: pa.Array) -> list[pa.Array]:
        """The keys that rows may have with these values in their first column, in any order."""
        if len(self) <= FEW_KEYS or not len(first):
            return self._comparable
        ends = pc.min_max(first)
        inside = self._between(ends["min"].as_py(), ends["max"].as_py())
        return [column[inside] for column in self._comparable]


def _among(rows: npt.NDArray[Any], keys: npt.NDArray[Any]) -> Flags:
    """Which rows are among the keys. Files are sorted by their keys: then the rows of each are looked up."""
    if len(rows) > 1 and (rows[1:] < rows[:-1]).any():
        return np.isin(rows, keys)
    steps = np.zeros(len(rows) + 1, np.int32)
    np.add.at(steps, np.searchsorted(rows, keys, "left"), 1)
    np.subtract.at(steps, np.searchsorted(rows, keys, "right"), 1)
    found: Flags = np.cumsum(steps[:-1]) > 0
    return found


def one_of(field: DataField, values: pa.Array) -> Predicate:
    """What leaves can say of a column that has one of some values: true for all such rows, and maybe for others; of
    NULL nothing."""
    if values.null_count:
        return Const.TRUE
    order, again = sorted_rows([values])
    values = values.take(from_numpy(order[np.append(True, ~again)]))
    return _leaf(Op.IN if len(values) > 1 else Op.EQ, field, values)


def between(field: DataField, values: pa.Array) -> Predicate:
    """The same of one that is no less than the first and no greater than the last of some values in their order."""
    if field.type.kind is Kind.CHAR or values.null_count:
        return Const.TRUE
    return make_and(_leaf(Op.GE, field, values[:1]), _leaf(Op.LE, field, values[-1:]))


def _leaf(op: Op, field: DataField, values: pa.Array) -> Predicate:
    """A leaf, or for CHAR what says the same; `Const.TRUE` where none can."""
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())
    try:
        literals = tuple(values.to_pylist())
    except UnicodeDecodeError:  # not UTF-8, as Java allows
        return Const.TRUE
    ref = ColumnRef(field.name, (), field.type, field.id)
    return _one_of_char(ref, literals) if field.type.kind is Kind.CHAR else Leaf(op, ref, literals)


def _one_of_char(ref: ColumnRef, texts: Sequence[str]) -> Predicate:
    """The same of CHAR, where files and their indexes may differ in the blanks at the end (`compare_char`): few texts
    with any number of them, many by the least and the greatest."""
    assert isinstance(ref.type, AtomicType)
    length = max(ref.type.length or 1, *map(len, texts))
    try:
        if len(texts) * length <= MAX_TEXT_FORMS:
            return compare_char(Op.IN, ref, texts, ref.type)
        filled = [text.ljust(length) for text in texts]
        ends = ((Op.GE, min(filled)), (Op.LE, max(filled)))
        return make_and(*(compare_char(op, ref, (text,), ref.type) for op, text in ends))
    except PredicateError:  # CHAR of a length at which the forms of one text are too many
        return Const.TRUE
