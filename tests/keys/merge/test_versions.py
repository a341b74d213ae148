"""Rows by key and age: all types of keys, several columns, sequence fields in both orders, NULLs and ties."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import arrow_type, parse_type
from paimon_pyds.keys.merge.order_codes import order_codes, sorted_rows
from paimon_pyds.keys.merge.versions import SequenceFields, sort_versions
from support.engine_model import SEQ, Order, rank, versions_of
from support.strategies import ATOMS, values

_FEW = {"INT": st.integers(-2, 2), "STRING": st.sampled_from(["", "a", "a\0", "ab", "é", "\U0001f600"])}


def _ranks(codes: Any) -> list[int]:
    """0 for the least."""
    distinct = sorted(set(codes))
    return [distinct.index(code) for code in codes]


@pytest.mark.parametrize("type_", list(ATOMS))
@given(data=st.data())
def test_numbers_of_every_type_compare_as_its_values(type_: str, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.none() | values(type_), min_size=1, max_size=6))
    rows = data.draw(st.lists(st.sampled_from(some), max_size=12))
    column = pa.array([None, *rows], arrow_type(parse_type(type_))).slice(1)
    assert _ranks(order_codes([column]).tolist()) == _ranks([rank(v) for v in rows])


@pytest.mark.parametrize("type_", ["BIGINT", "DECIMAL(38, 10)", "DECIMAL(18, 0)", "DOUBLE"])
@given(data=st.data())
def test_numbers_of_several_columns_compare_column_after_column(type_: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.none() | values(type_), values("BIGINT"), _FEW["STRING"]), max_size=12))
    types = [arrow_type(parse_type(t)) for t in (type_, "BIGINT", "STRING")]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    assert _ranks(order_codes(columns).tolist()) == _ranks([tuple(map(rank, row)) for row in rows])


def test_the_least_and_the_greatest_integer_are_told_from_null() -> None:
    column = pa.array([2**63 - 1, None, -(2**63), 0, -(2**63)], pa.int64())
    assert _ranks(order_codes([column]).tolist()) == [3, 0, 1, 2, 1]
    assert _ranks(order_codes([column, column]).tolist()) == [3, 0, 1, 2, 1]


@pytest.mark.parametrize("span", [1, 9, 2**40, 2**53 - 1, 2**53, 2**64 - 1])
@pytest.mark.parametrize("texts", [False, True])
def test_rows_in_no_order_are_sorted_and_equal_ones_stay_in_theirs(span: int, texts: bool) -> None:
    rng = random.Random(span)
    some = [rng.randrange(span + 1) - 2**63 for _ in range(900)]
    numbers = [*some, *rng.choices(some, k=300)]
    listed = [str(number % 10**6) for number in numbers] if texts else numbers
    order, again = sorted_rows([pa.array(listed)])
    assert order.tolist() == sorted(range(len(listed)), key=lambda i: listed[i])
    assert again.tolist() == [listed[a] == listed[b] for a, b in pairwise(order.tolist())]


def test_both_float_zeros_are_one_key_and_nan_is_its_own() -> None:
    codes = order_codes([pa.array([0.0, float("nan"), -0.0, float("inf"), float("nan")])])
    assert _ranks(codes.tolist()) == [0, 2, 0, 1, 2]


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "_KEY_a": _FEW["STRING"],
                "_KEY_b": _FEW["INT"],
                "s": st.none() | _FEW["INT"],
                "t": st.none() | st.sampled_from([float("nan"), -1.5, -0.0, 0.0]),
                SEQ: st.integers(0, 3),
            }
        ),
        max_size=30,
    ),
    keys=st.sampled_from([["_KEY_a"], ["_KEY_b"], ["_KEY_b", "_KEY_a"]]),
    names=st.sampled_from([(), ("s",), ("s", "t"), ("t", "s")]),
    descending=st.booleans(),
)
def test_versions_of_a_key_stand_from_old_to_new(
    rows: list[dict[str, Any]], keys: list[str], names: tuple[str, ...], descending: bool
) -> None:
    schema = pa.schema([("_KEY_a", pa.string()), ("_KEY_b", pa.int32()), ("s", pa.int32()), ("t", pa.float64()),
                        (SEQ, pa.int64())])  # fmt: skip
    rows = [{**row, "at": at} for at, row in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    found = sort_versions(batch, keys, SequenceFields(names, descending))
    expected = versions_of(rows, keys, Order(names, descending))
    assert found.order.tolist() == [row["at"] for versions in expected for row in versions]
    assert found.counts.tolist() == [len(versions) for versions in expected]
    assert found.key_numbers.tolist() == [at for at, versions in enumerate(expected) for _ in versions]
