"""The merge engines deduplicate and first-row, against a model that takes one version at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.key_values import without_deletes
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.schema import TableSchema
from support.engine_model import (
    DELETE,
    INSERT,
    KIND,
    RETRACTS,
    SEQ,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Fold,
    Order,
    RefusedError,
    Row,
    deduplicate,
    first_row,
    merged,
)

_COLUMNS = {"k": pa.int32(), "s": pa.int64(), "t": pa.string(), "v": pa.float64(), "w": pa.list_(pa.int32())}
_FILE = pa.schema([("_KEY_k", pa.int32()), (SEQ, pa.int64()), (KIND, pa.int8()), *_COLUMNS.items()])
_KINDS = st.sampled_from([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE])


def _merger(options: Mapping[str, str]) -> RowMerger:
    fields = from_arrow_schema(pa.schema(list(_COLUMNS.items())))
    return RowMerger(TableSchema(0, fields, len(fields), primary_keys=("k",), options=options))


def _rows(kinds: st.SearchStrategy[int] = _KINDS) -> st.SearchStrategy[list[Row]]:
    row = st.fixed_dictionaries(
        {
            "_KEY_k": st.integers(0, 4),
            SEQ: st.integers(0, 5),
            KIND: kinds,
            "s": st.none() | st.integers(-1, 1),
            "t": st.none() | st.sampled_from(["", "x", "y"]),
            "v": st.none() | st.integers(0, 99).map(float),
            "w": st.none() | st.lists(st.integers(0, 3), max_size=2),
        }
    )
    return st.lists(row.map(lambda found: {**found, "k": found["_KEY_k"]}), max_size=25)


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=_FILE)


def _check(rows: Sequence[Row], options: Mapping[str, str], order: Order, fold: Fold) -> None:
    """What the engine gives is what the model gives, from all rows and from those that it says are needed."""
    merger = _merger(options)
    try:
        expected = merged(rows, ["_KEY_k"], order, fold)
    except RefusedError:
        with pytest.raises(UnsupportedError, match=options["merge-engine"]):
            merger.merge(_batch(rows))
        return
    assert merger.merge(_batch(rows)).to_pylist() == expected
    assert merger.merge(merger.needed(_batch(rows))).to_pylist() == expected


@given(rows=_rows(), ignore=st.booleans(), names=st.sampled_from([(), ("s",), ("t", "s")]), descending=st.booleans())
def test_deduplicate_keeps_the_newest(rows: list[Row], ignore: bool, names: tuple[str, ...], descending: bool) -> None:
    options = {"ignore-delete": str(ignore).lower()}
    if descending:
        options["sequence.field.sort-order"] = "descending"
    if names:
        options["sequence.field"] = " , ".join(names)
    _check(rows, options, Order(names, descending), deduplicate(ignore))


@given(rows=_rows(), ignore=st.booleans())
def test_first_row_keeps_the_oldest(rows: list[Row], ignore: bool) -> None:
    options = {"merge-engine": "first-row", "first-row.ignore-delete": str(ignore).lower()}
    _check(rows, options, Order(), first_row(ignore))


@given(rows=_rows(st.sampled_from([INSERT, UPDATE_AFTER])))
def test_first_row_of_rows_that_only_add(rows: list[Row]) -> None:
    _check(rows, {"merge-engine": "first-row"}, Order(), first_row(False))


def test_the_example_of_two_commits() -> None:
    rows = [
        {"_KEY_k": 1, SEQ: 0, KIND: INSERT, "k": 1, "t": "old"},
        {"_KEY_k": 2, SEQ: 1, KIND: INSERT, "k": 2, "t": "stays"},
        {"_KEY_k": 1, SEQ: 2, KIND: UPDATE_AFTER, "k": 1, "t": "new"},
        {"_KEY_k": 3, SEQ: 3, KIND: DELETE, "k": 3, "t": "gone"},
    ]
    merger = _merger({})
    found = merger.merge(pa.Table.from_batches([_batch(rows[:2]), _batch(rows[2:])]), ["k", "t", SEQ, KIND])
    assert found.schema.names == ["k", "t", SEQ, KIND]
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, "new", 2, UPDATE_AFTER), (2, "stays", 1, INSERT), (3, "gone", 3, DELETE),
    ]  # fmt: skip
    assert without_deletes(found).column("k").to_pylist() == [1, 2]
    assert without_deletes(found.slice(0, 2)).num_rows == 2


def test_a_merge_needs_the_key_the_age_and_the_sequence_fields() -> None:
    merger = _merger({"sequence.field": "s"})
    assert merger.required_columns(["v", "s"]) == ("_KEY_k", SEQ, KIND, "s", "v")


def test_no_rows_are_merged_to_none() -> None:
    for engine in ("deduplicate", "first-row"):
        assert _merger({"merge-engine": engine}).merge(_batch([])).num_rows == 0


@given(rows=_rows())
def test_rows_that_readers_see(rows: list[Row]) -> None:
    assert without_deletes(_batch(rows)).to_pylist() == [row for row in rows if row[KIND] not in RETRACTS]
