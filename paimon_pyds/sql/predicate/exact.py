"""Exact evaluation: which rows of a batch a bound predicate is true for.

Floats compare as in Spark SQL: NaN equals NaN and is the greatest value, -0.0 equals 0.0. Texts and bytes compare by
unsigned bytes, which for UTF-8 is the order of code points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, is_true, pc, scalar, to_numpy
from paimon_pyds.base.types import arrow_type
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.tree import (
    OPPOSITE,
    Among,
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    Ranges,
    ends,
    root_columns,
)

_Values: TypeAlias = "pa.Array | pa.ChunkedArray"

_EVALUATED = frozenset({Op.EQ, Op.LT, Op.LE, Op.IN, Op.LIKE, Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS})
"""Operators that have a kernel; the others are opposites of these."""
_TEXTS = frozenset({pa.string(), pa.large_string(), pa.binary(), pa.large_binary()})
_FEW_VALUES = 8
"""Values of an IN list up to which they are compared one by one; for more, a hash table pays."""


def matches(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """Whether the predicate is true, per row; never null (unknown is false).

    ``predicate``: bound; its columns are found in ``batch`` by name. ``batch``: columns of the Arrow types of their
    Paimon types, dictionary-encoded or of a larger or view form of the same type if need be.
    Raises PredicateError: a column is missing from the batch.
    """
    found = _evaluate(predicate, batch)
    return pc.fill_null(found, scalar(False, pa.bool_())) if found.null_count else found


def column_values(column: ColumnRef, batch: pa.RecordBatch | pa.Table) -> _Values:
    """The values of a column, or of a place inside one, per row. They are null for a missing map key and inside a null.
    Raises PredicateError: the column is missing from the batch."""
    at = batch.schema.get_field_index(column.name)
    if at < 0:
        raise PredicateError(f"the filter needs column {column.name!r}, which was not read")
    found = batch.column(at)
    for step in column.path:
        if isinstance(step, MapKey):
            found = pc.map_lookup(found, scalar(step.key, found.type.key_type), "first")
        else:
            found = pc.struct_field(found, step)
    return found


def _true_count(mask: pa.BooleanArray | pa.ChunkedArray) -> int:
    if isinstance(mask, pa.ChunkedArray):
        return sum(chunk.true_count for chunk in mask.chunks)
    return int(mask.true_count)


def _evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> _Values:
    """True where the predicate is; elsewhere false or null."""
    if isinstance(predicate, Leaf):
        return _leaf(predicate, column_values(predicate.column, batch))
    if isinstance(predicate, Const):
        return pa.repeat(scalar(predicate is Const.TRUE, pa.bool_()), batch.num_rows)
    if isinstance(predicate, Among):
        from paimon_pyds.sql.predicate.among import holds

        return from_numpy(holds(predicate, [column_values(column, batch) for column in predicate.columns]))
    if isinstance(predicate, Computed):
        return predicate.condition.matches(batch)
    if isinstance(predicate, Or) and predicate.ranges is not None:
        return _in_ranges(predicate.ranges, column_values(predicate.ranges.column, batch))
    every = isinstance(predicate, And)
    found: _Values | None = None
    # Leaves first: what is computed is then computed for few rows, and not for those where it would fail.
    for costly, child in sorted(((_is_costly(child), child) for child in predicate.children), key=itemgetter(0)):
        if found is None:
            found = _evaluate(child, batch)
        elif costly:
            found = _evaluate_open(child, batch, found, every)
        else:
            part = _evaluate(child, batch)
            if every:
                found = pc.and_(found, part)
            else:
                found = pc.or_kleene(found, part) if found.null_count or part.null_count else pc.or_(found, part)
        if every and _true_count(found) == 0:
            break
    return pa.repeat(scalar(every, pa.bool_()), batch.num_rows) if found is None else found


def _in_ranges(ranges: Ranges, values: _Values) -> _Values:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_in_ranges(ranges, chunk) for chunk in values.chunks], pa.bool_())
    if pa.types.is_dictionary(values.type):
        return pc.take(_in_ranges(ranges, values.dictionary), values.indices)
    from paimon_pyds.sql.predicate.literal_bounds import steps_of

    steps = steps_of(_plain(values, ranges.column))
    last = np.searchsorted(ranges.low, steps, "right") - 1
    found = (last >= 0) & (steps <= ranges.high[np.maximum(last, 0)])
    return array(found, mask=is_true(values.is_null()) if values.null_count else None)


def _is_costly(predicate: Predicate) -> bool:
    """Whether it is worth evaluating it for those rows only that it decides: it computes, or has many parts."""
    if isinstance(predicate, Leaf) or (isinstance(predicate, Or) and predicate.ranges is not None):
        return False
    parts = list(islice(ends(predicate, every=True), _FEW_VALUES + 1))
    return len(parts) > _FEW_VALUES or any(isinstance(part, Among | Computed) for part in parts)


def _evaluate_open(
    predicate: Predicate, batch: pa.RecordBatch | pa.Table, found: _Values, every: bool
) -> pa.BooleanArray:
    """AND or OR of what was found with a predicate, which is evaluated on the rows that it decides."""
    mask = _filled(found)
    rows = np.flatnonzero(mask if every else ~mask)
    if every:
        mask = np.zeros(len(mask), np.bool_)
    if len(rows):
        part = batch if len(rows) == batch.num_rows else _rows_of(predicate, batch, rows)
        mask[rows] = _filled(_evaluate(predicate, part))
    return array(mask)


def _filled(found: _Values) -> Flags:
    """A mask whose nulls are false, to be written to."""
    return np.array(to_numpy(pc.fill_null(found, scalar(False, pa.bool_()))), np.bool_)


def _rows_of(predicate: Predicate, batch: pa.RecordBatch | pa.Table, rows: Int64s) -> pa.RecordBatch | pa.Table:
    """Rows of the columns that a predicate needs."""
    needed = set(root_columns(predicate))
    columns = [name for name in batch.schema.names if name in needed]
    # A batch without columns does not know its length.
    return pc.take(batch.select(columns or batch.schema.names[:1]), from_numpy(rows))


def _leaf(leaf: Leaf, values: _Values) -> _Values:
    if pa.types.is_dictionary(values.type):
        return _by_dictionary(leaf, values)
    if leaf.op is Op.IS_NULL:
        return pc.is_null(values)
    if leaf.op is Op.IS_NOT_NULL:
        return pc.is_valid(values)
    if pa.types.is_null(values.type):
        return pa.repeat(scalar(False, pa.bool_()), len(values))
    positive = leaf.op if leaf.op in _EVALUATED else OPPOSITE[leaf.op]
    found = _positive(positive, _plain(values, leaf.column), leaf.literals, leaf.column)
    return found if positive is leaf.op else pc.invert(found)


def _by_dictionary(leaf: Leaf, values: _Values) -> _Values:
    """Evaluate each distinct value once."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_by_dictionary(leaf, chunk) for chunk in values.chunks], pa.bool_())
    found = pc.take(_leaf(leaf, values.dictionary), values.indices)
    # A null is a null index, or the index of a null.
    return pc.fill_null(found, scalar(True, pa.bool_())) if leaf.op is Op.IS_NULL else found


def _plain(values: _Values, column: ColumnRef) -> _Values:
    """Values in the Arrow type of the column's Paimon type; texts and bytes may stay in their larger or view forms."""
    assert column.type is not None
    wanted = arrow_type(column.type)
    return values if values.type == wanted or values.type in _TEXTS else values.cast(wanted)


def _positive(op: Op, values: _Values, literals: Sequence[Any], column: ColumnRef) -> _Values:
    """EQ, LT, LE, IN, and the text operators; null where the value is."""
    first = literals[0]
    match op:
        case Op.EQ | Op.LT | Op.LE:
            if isinstance(first, float) and math.isnan(first):
                return _against_nan(op, values)
            bound = scalar(first, values.type)
            if op is Op.EQ:
                return pc.equal(values, bound)
            return pc.less(values, bound) if op is Op.LT else pc.less_equal(values, bound)
        case Op.IN:
            return _in(values, literals)
        case Op.STARTS_WITH:
            return pc.starts_with(values, pattern=first)
        case Op.ENDS_WITH:
            return pc.ends_with(values, pattern=first)
        case Op.CONTAINS:
            return pc.match_substring(values, pattern=first)
        case Op.LIKE:
            from paimon_pyds.sql.predicate.like import like_regex

            return pc.match_substring_regex(values, pattern=like_regex(first, literals[1]))
    raise PredicateError(f"{op.value} on {column} can't be evaluated")


def _against_nan(op: Op, values: _Values) -> _Values:
    if op is Op.EQ:
        return pc.is_nan(values)
    if op is Op.LT:
        return pc.invert(pc.is_nan(values))
    return pc.or_(pc.is_nan(values), pc.invert(pc.is_nan(values)))


def _in(values: _Values, literals: Sequence[Any]) -> _Values:
    if pa.types.is_floating(values.type):
        # Hashing distinguishes the two zeros, and may distinguish NaNs.
        plain = [v for v in literals if v != 0 and not math.isnan(v)]
        special = [v for v in literals if v == 0 or math.isnan(v)]
    else:
        plain, special = list(literals), []
    if len(plain) <= _FEW_VALUES:
        special, plain = special + plain, []
    found: _Values | None = pc.is_in(values, array(plain, values.type)) if plain else None
    for value in special:
        nan = isinstance(value, float) and math.isnan(value)
        part = pc.is_nan(values) if nan else pc.equal(values, scalar(value, values.type))
        found = part if found is None else pc.or_(found, part)
    assert found is not None
    # is_in answers false for null; its opposite must not be true there.
    return found if found.null_count or not values.null_count else pc.if_else(pc.is_valid(values), found, None)
