"""What leaves say of a set of keys: true for each of its keys, however files and indexes hold it."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.keys.merge import key_set
from paimon_pyds.keys.merge.key_set import KeySet
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const

_TEXTS = st.text("a\x01 b", max_size=3)
_FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan])


def _rows(type_: str, values: list[Any]) -> tuple[DataField, pa.RecordBatch]:
    field = DataField(0, "k", parse_type(f"{type_} NOT NULL"))
    return field, pa.record_batch([pa.array(values, arrow_type(field.type))], ["k"])


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
@given(keys=st.lists(_FLOATS, min_size=1), values=st.lists(_FLOATS))
def test_floats_are_listed(type_: str, keys: list[float], values: list[float]) -> None:
    field, rows = _rows(type_, values)
    wanted = KeySet.of([field], _rows(type_, keys)[1])
    assert wanted.listed is not Const.TRUE
    assert matches(wanted.listed, rows).equals(wanted.matches(rows))


_KEYS: dict[str, st.SearchStrategy[Any]] = {
    "DOUBLE": _FLOATS,
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "STRING": st.text(max_size=3),
    "BYTES": st.binary(max_size=3),
    "DATE": st.dates(),
    "DECIMAL(20, 2)": st.decimals(-(10**9), 10**9, places=2),
    "TIMESTAMP(6)": st.datetimes(),
    "BOOLEAN": st.booleans(),
    "CHAR(3)": _TEXTS,
}


@pytest.mark.parametrize("type_", _KEYS)
@given(data=st.data())
def test_dense_keys_are_told_by_their_ends(type_: str, data: st.DataObject) -> None:
    keys = data.draw(st.lists(_KEYS[type_], min_size=1))
    field, rows = _rows(type_, [*keys, *data.draw(st.lists(_KEYS[type_]))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_set, "FEW_KEYS", 0)
        wanted = KeySet.of([field], _rows(type_, keys)[1])
        found = [matches(wanted.listed_for(count), rows) for count in (1, 10**9)]
    exact = wanted.matches(rows)
    assert all(pc.and_(kept, exact).equals(exact) for kept in found)


@pytest.mark.parametrize("rows", [1, 10**9])
def test_texts_that_are_not_utf8_are_not_listed(rows: int) -> None:
    field = DataField(0, "k", parse_type("STRING NOT NULL"))
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    assert KeySet.of([field], pa.record_batch([texts], ["k"])).listed_for(rows) is Const.TRUE


@given(keys=st.lists(_TEXTS, min_size=1), values=st.lists(_TEXTS), most=st.sampled_from([0, 1 << 16]))
def test_texts_of_char_are_listed_with_any_blanks(keys: list[str], values: list[str], most: int) -> None:
    field, rows = _rows("CHAR(3)", values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_set, "MAX_TEXT_FORMS", most)
        listed = KeySet.of([field], _rows("CHAR(3)", keys)[1]).listed
    assert listed is not Const.TRUE
    bare = {key.rstrip(" ") for key in keys}
    same = pa.array([value.rstrip(" ") in bare for value in values], pa.bool_())
    found = matches(listed, rows)
    assert pc.and_(found, same).equals(same)
    assert most == 0 or found.equals(same)


def test_texts_that_have_too_many_forms_are_not_listed() -> None:
    field, rows = _rows("CHAR(100000)", ["a"])
    assert KeySet.of([field], rows).listed is Const.TRUE
