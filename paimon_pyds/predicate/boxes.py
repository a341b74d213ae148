"""Very many conditions on several columns that are joined by OR, each a value or a range of every column:
``device = 'a' AND time BETWEEN 1 AND 5 OR device = 'b' AND time BETWEEN 3 AND 9 OR …``.

Values become numbers, and a condition a box: a range of numbers of each column. Rows in the order of one column are
compared with the boxes, each with those rows only that it may hold. Leaves beside that say what statistics and indexes
can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import array, from_numpy, one_array, to_numpy
from paimon_pyds.predicate.exact import column_values
from paimon_pyds.predicate.literal_bounds import from_step, steps_of
from paimon_pyds.predicate.ranges import RANGE_OPS, is_of_steps, one_of, or_of_ranges, step_range
from paimon_pyds.predicate.tree import (
    And,
    ColumnRef,
    Const,
    Leaf,
    Op,
    Predicate,
    conjuncts,
    make_and,
    make_computed,
)
from paimon_pyds.types import AtomicType, arrow_type
from paimon_pyds.types.kinds import Kind

_AT_ONCE = 256
"""So many boxes are compared before the rows that they hold are left out."""
_EXACT_KINDS = frozenset({Kind.VARCHAR, Kind.DECIMAL, Kind.BOOLEAN})
"""Of these, besides those of steps, single values can be told apart as numbers."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Side:
    """The ranges of all boxes in one column, both ends included: of steps, or of places in a list of values."""

    column: ColumnRef
    values: pa.Array | None
    low: _Numbers
    high: _Numbers

    def numbers(self, batch: pa.RecordBatch) -> tuple[_Numbers, npt.NDArray[np.bool_]]:
        """The number of each row, and whether it has one."""
        wanted = arrow_type(self.column.type)  # type: ignore[arg-type]
        given = one_array(column_values(self.column, batch))
        given = given if given.type == wanted else given.cast(wanted)
        if self.values is None:
            return steps_of(given), to_numpy(given.is_valid())
        found = to_numpy(pc.index_in(given, self.values).fill_null(-1)).astype(np.int64)
        return found, found >= 0

    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last number of each box."""
        return list(zip(self.low.tolist(), self.high.tolist(), strict=True))

    def taken(self, order: _Numbers) -> _Side:
        """The same of boxes in another order."""
        return _Side(self.column, self.values, self.low[order], self.high[order])

    def overlap(self) -> int:
        """How many boxes begin in ranges of others, about."""
        low = np.sort(self.low)
        return int((np.searchsorted(low, self.high, "right") - np.searchsorted(low, self.low)).sum())


@dataclass(frozen=True, eq=False)
class _AnyBox:
    """Whether rows lie in one of many boxes; these overlap least in the first of the columns, and are in its order."""

    sides: tuple[_Side, ...]

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether they do, per row."""
        found = np.zeros(batch.num_rows, np.bool_)
        numbers, valid = zip(*(side.numbers(batch) for side in self.sides), strict=True)
        rows = np.flatnonzero(np.logical_and.reduce(valid))
        rows = rows[np.argsort(numbers[0][rows], kind="stable")]
        for start in range(0, len(self.sides[0].low), _AT_ONCE):
            if not len(rows):
                break
            inside = self._inside([column[rows] for column in numbers], slice(start, start + _AT_ONCE))
            found[rows[inside]] = True
            rows = rows[~inside]
        return from_numpy(found)

    def _inside(self, numbers: Sequence[_Numbers], boxes: slice) -> npt.NDArray[np.bool_]:
        """Whether rows, in the order of the first column, lie in some of the boxes."""
        found = np.zeros(len(numbers[0]), np.bool_)
        first, *others = self.sides
        bounds = [(of, side.low[boxes], side.high[boxes]) for of, side in zip(numbers[1:], others, strict=True)]
        starts = np.searchsorted(numbers[0], first.low[boxes], "left")
        stops = np.searchsorted(numbers[0], first.high[boxes], "right")
        for box in np.flatnonzero(starts < stops).tolist():
            rows = slice(starts[box], stops[box])
            inside: Any = True
            for column, low, high in bounds:
                given = column[rows]
                inside &= (low[box] <= given) & (given <= high[box])
            found[rows] |= inside
        return found


def box_columns(part: Predicate) -> frozenset[ColumnRef] | None:
    """The columns that a condition gives a value or a range each; None of any other condition, and of one column."""
    tests: dict[ColumnRef, list[Op]] = defaultdict(list)
    for test in conjuncts(part):
        if not isinstance(test, Leaf):
            return None
        tests[test.column].append(test.op)
    if len(tests) < 2:
        return None
    for column, ops in tests.items():
        steps = is_of_steps(column) and RANGE_OPS.issuperset(ops)
        if not steps and not (ops == [Op.EQ] and column.type and column.type.kind in _EXACT_KINDS):
            return None
    return frozenset(tests)


def any_box(members: Sequence[And]) -> Predicate:
    """Conditions on the same columns (`box_columns`), joined by OR, as one."""
    ranges: dict[ColumnRef, list[tuple[int, int]]] = defaultdict(list)
    values: dict[ColumnRef, list[Any]] = defaultdict(list)
    for member in members:
        tests: dict[ColumnRef, list[Leaf]] = defaultdict(list)
        for test in member.children:
            assert isinstance(test, Leaf)
            tests[test.column].append(test)
        for column, of_column in tests.items():
            if is_of_steps(column):
                ranges[column].append(step_range(column, of_column))
            else:
                values[column].append(of_column[0].literals[0])
    sides = [_side_of_ranges(column, found) for column, found in ranges.items()]
    sides += [_side_of_values(column, found) for column, found in values.items()]
    possible = np.flatnonzero(np.logical_and.reduce([side.low <= side.high for side in sides]))
    if not len(possible):
        return Const.FALSE
    sides = sorted((side.taken(possible) for side in sides), key=lambda side: (side.overlap(), str(side.column)))
    order = np.argsort(sides[0].low, kind="stable")
    columns = sorted(str(side.column) for side in sides)
    condition = _AnyBox(tuple(side.taken(order) for side in sides))
    text = f"({', '.join(columns)}) in {len(members):,} ranges"
    asked = (_asked(side.column, side.ranges()) for side in sides if side.values is None)
    listed = (one_of(column, found) for column, found in values.items())
    computed = make_computed(text, sorted({side.column.name for side in sides}), condition)
    return make_and(*asked, *listed, computed)


def _side_of_ranges(column: ColumnRef, ranges: Sequence[tuple[int, int]]) -> _Side:
    low, high = np.array(ranges, np.int64).T.copy()
    return _Side(column, None, low, high)


def _side_of_values(column: ColumnRef, given: Sequence[Any]) -> _Side:
    values = sorted(set(given))
    place = {value: number for number, value in enumerate(values)}
    places = np.array([place[value] for value in given], np.int64)
    return _Side(column, array(values, arrow_type(column.type)), places, places)  # type: ignore[arg-type]


def _asked(column: ColumnRef, ranges: Sequence[tuple[int, int]]) -> Predicate:
    """What statistics and indexes can tell of the values that lie in some of the ranges."""
    assert isinstance(column.type, AtomicType)
    if any(low < high for low, high in ranges):
        return or_of_ranges(column, ranges)
    return one_of(column, [from_step(low, column.type) for low, _ in ranges])
