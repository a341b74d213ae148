"""Sort keys: the order of Spark for any type, and curves that keep neighbours together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.sort.keys import SortKeys, range_bounds, rows_by_range, sort_positions
from paimon_pyds.base.types import arrow_type, parse_type
from support.engine_model import rank
from support.strategies import ATOMS, values


@pytest.mark.parametrize("type_", list(ATOMS))
@given(data=st.data())
def test_every_type_is_ordered_as_spark_orders_it(type_: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.none() | values(type_), max_size=12))
    column = pa.array(rows, arrow_type(parse_type(type_)))
    order = sort_positions(SortKeys("order").of([column])).to_pylist()
    read = column.take(pa.array(order, pa.int64())).to_pylist() if not pa.types.is_timestamp(column.type) else None
    ranks = [rank(v) for v in (read if read is not None else [rows[i] for i in order])]
    assert ranks == sorted(ranks)
    assert sorted(order) == list(range(len(rows)))
    assert all(a < b for a, b, x, y in zip(order, order[1:], ranks, ranks[1:], strict=False) if x == y)


def test_floats_of_all_kinds() -> None:
    given_ = [math.nan, -math.inf, 0.0, -0.0, None, 5e-324, -5e-324, math.inf, -math.nan, 1.5]
    for type_ in (pa.float64(), pa.float32()):
        column = pa.array(given_, type_)
        order = sort_positions(SortKeys("order").of([column])).to_pylist()
        if type_ == pa.float64():
            assert order == [4, 1, 6, 2, 3, 5, 9, 7, 0, 8]
        else:  # the smallest doubles are 0 as floats
            assert order == [4, 1, 2, 3, 5, 6, 9, 7, 0, 8]


@given(
    st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["", "a", "b"])), min_size=1),
    st.integers(1, 10),
    st.data(),
)
def test_ranges_hold_the_rows_between_their_bounds(
    rows: list[tuple[int | None, str | None]], ranges: int, data: st.DataObject
) -> None:
    columns = [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows], pa.string())]
    sample = pa.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1)))
    bounds = range_bounds([c.take(sample) for c in columns], ranges)
    limits = list(zip(*(c.to_pylist() for c in bounds), strict=True))
    ranks = [tuple(rank(v) for v in limit) for limit in limits]
    assert ranks == sorted(set(ranks))
    assert len(limits) < max(ranges, 1) + (ranges == 1)
    assert limits or ranges == 1
    positions, codes = rows_by_range(columns, bounds)
    assert sorted(positions.tolist()) == list(range(len(rows)))
    assert codes.tolist() == sorted(codes.tolist())
    for position, code in zip(positions.tolist(), codes.tolist(), strict=True):
        row = tuple(rank(v) for v in rows[position])
        if code % 2:
            assert row == ranks[code // 2]
        else:
            assert all(limit < row for limit in ranks[: code // 2])
            assert all(row < limit for limit in ranks[code // 2 :])


def _path(strategy: str, side: int) -> np.ndarray[Any, Any]:
    """The cells of a square in the order of the curve."""
    x, y = np.divmod(np.arange(side * side), side)
    columns = [pa.array(x), pa.array(y)]
    order = sort_positions(SortKeys.learn(strategy, columns).of(columns)).to_numpy()
    return np.stack([x[order], y[order]])


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_curves_fill_quarter_after_quarter(strategy: str) -> None:
    side = 32
    path = _path(strategy, side)
    for quarter in np.split(path, 4, axis=1):
        assert (quarter.max(axis=1) - quarter.min(axis=1) == side // 2 - 1).all()
    steps = np.abs(np.diff(path, axis=1)).sum(axis=0)
    if strategy == "hilbert":
        assert (steps == 1).all()
    else:
        assert steps.max() > 1


def test_hilbert_in_three_dimensions_goes_in_single_steps() -> None:
    side = 8
    grid = [g.reshape(-1) for g in np.meshgrid(*[np.arange(side)] * 3)]
    columns = [pa.array(g) for g in grid]
    order = sort_positions(SortKeys.learn("hilbert", columns).of(columns)).to_numpy()
    steps = np.abs(np.diff(np.stack([g[order] for g in grid]), axis=1)).sum(axis=0)
    assert (steps == 1).all()


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_curves_mind_neither_types_nor_scales(strategy: str) -> None:
    """The same ranks of values make the same order: numbers, wide numbers, texts; NULL is the least value."""
    chance = np.random.default_rng(3)
    x, y = chance.integers(0, 50, 2000), chance.integers(0, 50, 2000)
    one = [pa.array(x), pa.array(y)]
    other = [pa.array([None if v == 0 else f"{v:03}" for v in x.tolist()]), pa.array(np.exp(y.astype(float)))]
    orders = [sort_positions(SortKeys.learn(strategy, c).of(c)).to_pylist() for c in (one, other)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 9])
def test_curves_over_any_number_of_columns(strategy: str, columns: int) -> None:
    chance = np.random.default_rng(columns)
    given_ = [pa.array(chance.integers(0, 4, 500)) for _ in range(columns)]
    keys = SortKeys.learn(strategy, given_).of(given_)
    order = sort_positions(keys).to_numpy()
    rows = np.stack([g.to_numpy() for g in given_], axis=1)[order]
    # Equal rows have equal keys, so they lie side by side.
    runs = 1 + int((np.diff(rows, axis=0) != 0).any(axis=1).sum())
    assert runs == len(np.unique(rows, axis=0))
