"""Ranks of integers: what numpy's `unique` tells, whatever the numbers look like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.arrays import sorted_positions
from paimon_pyds.index.dictionary import ranked

ROWS = 30_000
LEAST, MOST = -(2**63), 2**63 - 1
RNG = np.random.default_rng(12)


def _check(values: npt.NDArray[np.signedinteger]) -> None:
    keys, ranks = ranked(values)
    expected, places = np.unique(values, return_inverse=True)
    assert keys.dtype == values.dtype
    assert np.array_equal(keys, expected)
    assert np.array_equal(ranks, places)


COLUMNS = {
    "dense": RNG.integers(-500, 500, ROWS),
    "ascending": np.sort(RNG.integers(0, 2**40, ROWS)),
    "scattered": RNG.integers(0, 2**40, ROWS),
    "all 64 bits": RNG.integers(LEAST, MOST, ROWS, endpoint=True),
    "least and most": np.append(RNG.integers(0, 2**30, ROWS), [LEAST, MOST, LEAST]),
    "one far out": np.append(RNG.integers(0, 2**30, ROWS), 2**62),
    "a few that only differ in their lowest bits": np.append(
        RNG.integers(LEAST, MOST, ROWS), [0, 5, 1, 4, 1, 2**55 + 3, 2**55 + 1, 2**55 + 2]
    ),
    "floats": RNG.normal(size=ROWS).view(np.int64),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_ranks_are_those_of_unique(name: str) -> None:
    _check(COLUMNS[name])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_every_width(kind: type[np.signedinteger]) -> None:
    info = np.iinfo(kind)
    _check(RNG.integers(info.min, info.max, ROWS, dtype=kind, endpoint=True))
    _check(np.array([info.max, info.min, 0, -1, info.min], kind))


NUMBERS = st.one_of(
    st.integers(LEAST, MOST), st.integers(-5, 5), st.integers(2**61, 2**61 + 40), st.sampled_from([LEAST, MOST])
)


@given(st.lists(NUMBERS, max_size=60))
def test_few_numbers(numbers: list[int]) -> None:
    _check(np.array(numbers, np.int64))


def test_equal_numbers_keep_their_order() -> None:
    numbers = RNG.integers(0, 70_000, ROWS)
    rows = sorted_positions(numbers.astype(np.uint64))
    assert np.array_equal(rows, np.argsort(numbers, kind="stable"))
