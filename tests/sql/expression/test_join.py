"""Keys of a merge's source are found among rows of a table as by a dictionary, whatever their type and spread."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.sql.expression.bind import Scope
from paimon_pyds.sql.expression.join import SourceKeys, expand, split_join

_DAY = dt.date(1969, 12, 30)
_VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "close integers": (pa.int64(), st.integers(-5, 5)),
    "integers far apart": (pa.int64(), st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 2**62, 2**63 - 1])),
    "bytes": (pa.int8(), st.integers(-128, 127)),
    "dates": (pa.date32(), st.integers(0, 9).map(lambda n: _DAY + dt.timedelta(n))),
    "timestamps": (pa.timestamp("us"), st.integers(0, 9).map(lambda n: dt.datetime(1969, 12, 31) + dt.timedelta(0, n))),
    "doubles": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf])),
    "decimals": (pa.decimal128(9, 2), st.integers(-4, 4).map(lambda n: Decimal(n) / 4)),
    "texts": (pa.string(), st.sampled_from(["", "a", "b", "ab"])),
}


def _same(value: Any) -> Any:
    """Equal for values that are equal in SQL."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _keys(type_: pa.DataType, source: list[Any], operator: str) -> SourceKeys:
    fields = from_arrow_schema(pa.schema([("k", type_)]))
    target, other = Scope(("target",), fields, "target."), Scope(("source",), fields, "source.")
    condition = split_join(f"target.k {operator} source.k", target, other)
    batch = pa.RecordBatch.from_arrays([pa.array(source, type_)], names=["source.k"])
    return SourceKeys.build(condition.keys, batch, np.ones(len(source), np.bool_))


@pytest.mark.parametrize("kind", _VALUES)
@pytest.mark.parametrize("operator", ["=", "<=>"])
@given(data=st.data())
def test_rows_are_matched_as_by_a_dictionary(kind: str, operator: str, data: st.DataObject) -> None:
    type_, values = _VALUES[kind]
    source, target = (data.draw(st.lists(st.none() | values, max_size=12), side) for side in ("source", "target"))
    keys = _keys(type_, source, operator)
    batch = pa.RecordBatch.from_arrays([pa.array(target, type_)], names=["target.k"])
    left, right = expand(keys, keys.codes(batch))
    expected = {
        (i, j)
        for i, a in enumerate(target)
        for j, b in enumerate(source)
        if _same(a) == _same(b) and (a is not None or operator == "<=>")
    }
    assert sorted(zip(left.tolist(), right.tolist(), strict=True)) == sorted(expected)


def test_few_rows_at_once_are_worth_a_visit_only_where_no_hash_table_is_made() -> None:
    assert _keys(pa.int64(), list(range(1000)), "=").batch_rows == 1
    assert _keys(pa.int64(), [n * 1000 for n in range(1000)], "=").batch_rows == 1000
    assert _keys(pa.string(), ["a", "b", "a"], "=").batch_rows == 2
