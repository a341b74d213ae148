"""Which stripes of an ORC file may hold a match, by the statistics of the file itself.

Source: ORC specification v1 (Column Statistics, File Metadata). Used are the bounds of whole numbers and floats, and
the number of values that are not NULL. Those of dates are not: Java's are wrong for old ones.

Bounds of floats pass over NaN, but the sum beside them does not: it is NaN where a value is, or where infinities of
both signs are. Manifests have no such sum: of ORC files only this proves that nothing is greater than a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.formats.orc.encoding import as_bytes, as_number, numbers_of, read_message, unpack, unzigzag
from paimon_pyds.formats.orc.tail import OrcKind, OrcTail, OrcType
from paimon_pyds.predicate.prune import ColumnStats, may_match
from paimon_pyds.predicate.tree import ColumnRef, Const, Predicate, leaves
from paimon_pyds.selection import RowSelection
from paimon_pyds.types import FLOAT_KINDS, INTEGER_KINDS, DataType, arrow_type

_WHOLE = frozenset({OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG})
_FLOATS = frozenset({OrcKind.FLOAT, OrcKind.DOUBLE})
_MOST_ROWS = 1 << 32


class _Bounds(NamedTuple):
    """One column in one stripe: values that are not NULL, bounds when there are, and whether these count NaN."""

    values: int | None = None
    low: float | None = None
    high: float | None = None
    nan_counted: bool = False


def prune(tail: OrcTail, read: Callable[[int, int], bytes], predicate: Predicate, path: object = None) -> RowSelection:
    """Rows that may match; ALL when nothing can be said. ``read(offset, length)`` gives bytes of the file.

    Raises:
        CorruptFileError: broken statistics.
    """
    columns = {
        leaf.column: type_
        for leaf in leaves(predicate, every=False)
        if (type_ := _type_of(tail, leaf.column)) is not None
    }
    if tail.row_count > _MOST_ROWS or not tail.stripes:  # a selection counts in 32 bits
        return RowSelection.ALL
    if not columns and not isinstance(predicate, Const):
        return RowSelection.ALL
    stripes = _statistics(tail, read, path) if columns else [()] * len(tail.stripes)
    rows = pa.array([stripe.rows for stripe in tail.stripes], pa.int64())

    def stats_of(column: ColumnRef) -> ColumnStats | None:
        orc = columns.get(column)
        if orc is None or column.type is None:
            return None
        try:
            return _column_stats(column.type, orc, [_bounds(s[orc.id], orc, path) for s in stripes], rows)
        except (pa.ArrowInvalid, OverflowError) as error:
            message = f"bounds of column {column} are no values of {column.type}"
            raise CorruptFileError(message, path=path, field="statistics") from error

    kept = may_match(predicate, rows, stats_of)
    if kept.all():
        return RowSelection.ALL
    found = BitMap()
    for stripe, keep in zip(tail.stripes, kept.tolist(), strict=True):
        if keep:
            found.add_range(stripe.first_row, stripe.first_row + stripe.rows)
    return RowSelection.from_bitmap(found)


def _type_of(tail: OrcTail, column: ColumnRef) -> OrcType | None:
    """The file's type of a column that its statistics tell about."""
    orc = None if column.path else tail.root.child(column.name)
    return None if orc is None or orc.children else orc


def _statistics(tail: OrcTail, read: Callable[[int, int], bytes], path: object) -> list[Sequence[bytes]]:
    """The messages of statistics of each stripe, by column. Those of the file are those of its only stripe."""
    stripes: list[Sequence[bytes]] = []
    if len(tail.stripes) == 1:
        stripes.append(tail.statistics)
    else:
        offset, length = tail.metadata
        if offset < 0:
            raise CorruptFileError(f"metadata of {length} bytes does not fit", path=path, field="metadata length")
        data = unpack(read(offset, length), tail.codec, tail.block_size, path)
        for number, _, value in read_message(data, path):
            if number == 1:
                message = as_bytes(value, path, "stripeStats")
                stripes.append([as_bytes(v, path, "colStats") for n, _, v in read_message(message, path) if n == 1])
    columns = 1 + max(orc.id for orc in tail.root.walk())
    if len(stripes) != len(tail.stripes) or any(len(stripe) != columns for stripe in stripes):
        return [[b""] * columns] * len(tail.stripes)  # a writer that keeps none, or not of all
    return stripes


def _bounds(message: bytes, orc: OrcType, path: object) -> _Bounds:
    values: int | None = None
    bounds = _Bounds()
    for number, _, value in read_message(message, path):
        if number == 1:
            values = as_number(value, path, "numberOfValues")
        elif number == 2 and orc.kind in _WHOLE:
            whole = {n: unzigzag(v) for n, v in numbers_of(value, path, "intStatistics").items()}
            bounds = _Bounds(None, whole.get(1), whole.get(2))
        elif number == 3 and orc.kind in _FLOATS:
            parts = {n: _double(v, path) for n, v in numbers_of(value, path, "doubleStatistics").items()}
            bounds = _Bounds(None, parts.get(1), parts.get(2), not math.isnan(parts.get(3, math.nan)))
    return bounds._replace(values=values)


def _double(bits: int, path: object) -> float:
    if bits >= 1 << 64:
        raise CorruptFileError("a number of more than 64 bits", path=path, field="doubleStatistics")
    return float(np.uint64(bits).view(np.float64))


def _column_stats(type_: DataType, orc: OrcType, stripes: Sequence[_Bounds], rows: pa.Array) -> ColumnStats:
    bounded = type_.kind in (INTEGER_KINDS if orc.kind in _WHOLE else FLOAT_KINDS)  # no other kind has bounds
    arrow = arrow_type(type_)
    low, high = ([getattr(s, name) if bounded else None for s in stripes] for name in ("low", "high"))
    nulls = [None if s.values is None else max(0, r - s.values) for s, r in zip(stripes, rows.to_pylist(), strict=True)]
    return ColumnStats(
        min=pa.array(low, arrow),
        max=pa.array(high, arrow),
        null_count=pa.array(nulls, pa.int64()),
        row_count=rows,
        nan_counted=np.array([s.nan_counted for s in stripes], np.bool_),
    )
