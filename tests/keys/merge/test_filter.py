"""What a filter says of keys may act before versions of a row are merged: no row is lost by it, and none comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.arrays import is_true
from paimon_pyds.base.types import AtomicType, Kind
from paimon_pyds.keys.merge.filter import MergeFilter, conditions_on_values, merge_filter
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import (
    ColumnRef,
    Const,
    Leaf,
    Op,
    Predicate,
    leaves,
    make_and,
    make_or,
    root_columns,
)

_INT = AtomicType(Kind.INT)
_COLUMNS = ("p", "k", "v")
_KEYS = ("k", "p")
_VALUES = st.one_of(st.none(), st.integers(0, 3))


@dataclass(frozen=True)
class Version:
    """A version of the row (p, k), newer than those of files and rows before it."""

    p: int
    k: int
    v: int | None


@st.composite
def _leaf(draw: st.DrawFn) -> Leaf:
    column = ColumnRef(draw(st.sampled_from(_COLUMNS)), (), _INT)
    op = draw(st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.GE, Op.IS_NULL, Op.IS_NOT_NULL, Op.IN, Op.NOT_IN]))
    if op in (Op.IS_NULL, Op.IS_NOT_NULL):
        return Leaf(op, column)
    few = 2 if op in (Op.IN, Op.NOT_IN) else 1
    return Leaf(op, column, tuple(draw(st.lists(st.integers(0, 3), min_size=few, max_size=few))))


_PREDICATES = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: make_and(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: make_or(*parts)),
    ),
    max_leaves=6,
)
_FILES = st.lists(
    st.lists(st.builds(Version, st.integers(0, 1), st.integers(0, 3), _VALUES), max_size=6), min_size=1, max_size=4
)


def _kept(predicate: Predicate, rows: Sequence[Version]) -> list[Version]:
    batch = pa.RecordBatch.from_pydict({c: pa.array([getattr(r, c) for r in rows], pa.int32()) for c in _COLUMNS})
    return [row for row, keep in zip(rows, is_true(matches(predicate, batch)).tolist(), strict=True) if keep]


def _merged(rows: Sequence[Version]) -> list[Version]:
    """The newest version of each row."""
    return list({(row.p, row.k): row for row in rows}.values())


def _in_order(rows: Sequence[Version]) -> list[str]:
    return sorted(map(repr, rows))


@given(_PREDICATES, _FILES)
def test_the_key_part_before_merging_is_the_filter_after_it(predicate: Predicate, files: list[list[Version]]) -> None:
    """Files and rows that the key part drops change nothing, whichever of the two drops them."""
    split = merge_filter(predicate, _KEYS)
    wanted = _in_order(_kept(predicate, _merged([row for file in files for row in file])))
    by_file = [row for file in files if _kept(split.before, file) for row in file]
    by_row = [row for file in files for row in _kept(split.before, file)]
    assert _in_order(_kept(predicate, _merged(by_file))) == wanted
    assert _in_order(_kept(split.after, _merged(by_row))) == wanted


@given(_PREDICATES)
def test_the_key_part_is_about_keys_only(predicate: Predicate) -> None:
    split = merge_filter(predicate, _KEYS)
    assert {leaf.column.name for leaf in leaves(split.before)} <= set(_KEYS)


@given(_PREDICATES)
def test_all_of_a_filter_acts_at_once_where_nothing_is_merged(predicate: Predicate) -> None:
    assert merge_filter(predicate, None) == MergeFilter(predicate, Const.TRUE)


@pytest.mark.parametrize("newest", [None, 2])
def test_the_value_part_would_bring_back_older_versions(newest: int | None) -> None:
    old, new = Version(0, 1, 1), Version(0, 1, newest)
    predicate = make_and(*(Leaf(Op.EQ, ColumnRef(c, (), _INT), (1,)) for c in ("k", "v")))
    split = merge_filter(predicate, _KEYS)
    assert split.before == Leaf(Op.EQ, ColumnRef("k", (), _INT), (1,))
    assert _kept(split.after, _merged(_kept(split.before, [old, new]))) == []
    assert _merged(_kept(predicate, [old, new])) == [old]


@given(_PREDICATES, st.lists(st.tuples(_VALUES, _VALUES, _VALUES), min_size=1, max_size=4))
def test_a_row_that_is_kept_has_a_version_for_each_condition(
    predicate: Predicate, versions: list[tuple[int | None, int | None, int | None]]
) -> None:
    """Each value of the row is the newest one that is not NULL, whichever version it comes from."""
    values = [next((v for v in reversed(column) if v is not None), None) for column in zip(*versions, strict=True)]
    conditions = conditions_on_values(predicate, ())
    batch, row = (
        pa.RecordBatch.from_arrays([pa.array(column, pa.int32()) for column in columns], _COLUMNS)
        for columns in (zip(*versions, strict=True), [[value] for value in values])
    )
    if is_true(matches(predicate, row))[0]:
        assert all(is_true(matches(condition, batch)).any() for condition in conditions)
    assert all("v" not in root_columns(part) for part in conditions_on_values(predicate, {"v"}))


def test_which_conditions_one_version_can_meet() -> None:
    k, v = (ColumnRef(name, (), _INT) for name in ("k", "v"))
    one, other, null = Leaf(Op.EQ, k, (1,)), Leaf(Op.EQ, v, (2,)), Leaf(Op.IS_NULL, v)
    assert conditions_on_values(make_and(one, other, null), ()) == (one, other)
    assert conditions_on_values(make_or(one, other), ()) == (make_or(one, other),)
    assert conditions_on_values(make_or(one, null), ()) == ()
    both = make_or(make_and(one, other), Leaf(Op.EQ, v, (3,)))
    assert conditions_on_values(both, ()) == (make_or(one, Leaf(Op.EQ, v, (3,))),)
    assert conditions_on_values(make_and(null, Leaf(Op.LT, v, (3,))), ()) == (Leaf(Op.LT, v, (3,)),)
