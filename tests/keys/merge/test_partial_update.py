"""The merge engine partial-update, against a model of single versions, and the documentation's examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.schema import TableSchema
from support.aggregate_model import FUNCTIONS, aggregator
from support.engine_model import (
    DELETE,
    INSERT,
    KIND,
    SEQ,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Fold,
    Order,
    RefusedError,
    Row,
    merged,
)
from support.partial_update_model import Group, partial_update

_TYPES = {"a": pa.int32(), "b": pa.int64(), "c": pa.string(), "d": pa.int64(), "s": pa.int32(), "t": pa.string(),
          "u": pa.int64()}  # fmt: skip
_COLUMNS = ["k", *_TYPES]
_FILE = pa.schema([("_KEY_k", pa.int32()), (SEQ, pa.int64()), (KIND, pa.int8()), ("k", pa.int32()), *_TYPES.items()])
_ADDS = [INSERT, UPDATE_AFTER]
_EVERY = [*_ADDS, INSERT, INSERT, UPDATE_BEFORE, DELETE]
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.integers(0, 9), "b": st.integers(0, 9), "c": st.sampled_from(["", "x", "y"]), "d": st.integers(-5, 5),
    "s": st.integers(0, 3), "t": st.sampled_from(["p", "q"]), "u": st.integers(0, 2),
}  # fmt: skip


def _rows(kinds: Sequence[int]) -> st.SearchStrategy[list[Row]]:
    columns = {name: st.none() | values for name, values in _VALUES.items()}
    row = st.fixed_dictionaries(
        {"_KEY_k": st.integers(0, 2), SEQ: st.integers(0, 9), KIND: st.sampled_from(kinds), **columns}
    )
    return st.lists(row.map(lambda found: {**found, "k": found["_KEY_k"]}), max_size=20)


def _merger(options: Mapping[str, str]) -> RowMerger:
    fields = from_arrow_schema(pa.schema([("k", pa.int32()), *_TYPES.items()]))
    options = {"merge-engine": "partial-update", **options}
    return RowMerger(TableSchema(0, fields, len(fields), primary_keys=("k",), options=options))


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=_FILE)


def _check(rows: Sequence[Row], options: Mapping[str, str], fold: Fold) -> None:
    merger = _merger(options)
    order = Order(tuple(options["sequence.field"].split(",")) if "sequence.field" in options else ())
    try:
        expected = merged(rows, ["_KEY_k"], order, fold)
    except RefusedError:
        with pytest.raises(UnsupportedError):
            merger.merge(_batch(rows))
        return
    expected = [{name: row[name] for name in _FILE.names} for row in expected]
    assert merger.merge(_batch(rows)).to_pylist() == expected
    assert merger.merge(merger.needed(_batch(rows))).to_pylist() == expected
    for column in ("a", "d", "s", KIND):
        names = [*dict.fromkeys(name for name in merger.required_columns([column]) if name in _FILE.names)]
        found = merger.merge(_batch(rows).select(names), [column])
        assert found.to_pylist() == [{column: row[column]} for row in expected]


@given(rows=_rows(_ADDS), sequence=st.sampled_from([{}, {"sequence.field": "s"}, {"sequence.field": "t,u"}]))
def test_the_newest_values_that_are_not_null(rows: list[Row], sequence: dict[str, str]) -> None:
    _check(rows, sequence, partial_update(_COLUMNS))


@given(rows=_rows(_EVERY))
def test_deletes_are_refused_by_default(rows: list[Row]) -> None:
    _check(rows, {}, partial_update(_COLUMNS))


@given(rows=_rows(_EVERY))
def test_ignored_deletes(rows: list[Row]) -> None:
    _check(rows, {"partial-update.ignore-delete": "true"}, partial_update(_COLUMNS, ignore_delete=True))


@given(rows=_rows(_EVERY))
def test_deletes_that_remove_the_row(rows: list[Row]) -> None:
    options = {"partial-update.remove-record-on-delete": "true"}
    _check(rows, options, partial_update(_COLUMNS, remove_on_delete=True))


@given(rows=_rows(_EVERY), ignore=st.booleans(), removes=st.sampled_from([(), ("s",), ("u",), ("s", "t")]))
def test_sequence_groups(rows: list[Row], ignore: bool, removes: tuple[str, ...]) -> None:
    options = {"fields.s.sequence-group": "a,b", "fields.t,u.sequence-group": "c"}
    if removes and not ignore:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(removes)
    elif ignore:
        options["ignore-delete"] = "true"
        removes = ()
    groups = [
        Group(["s"], ["a", "b"], removes="s" in removes),
        Group(["t", "u"], ["c"], removes=not {"t", "u"}.isdisjoint(removes)),
    ]
    _check(rows, options, partial_update(_COLUMNS, ignore_delete=ignore, groups=groups))


@given(
    rows=_rows(_EVERY),
    functions=st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(FUNCTIONS)),
    ignore_retract=st.booleans(),
    removes=st.booleans(),
)
def test_sequence_groups_with_aggregates(
    rows: list[Row], functions: tuple[str, str], ignore_retract: bool, removes: bool
) -> None:
    options = {
        "fields.s.sequence-group": "a,b",
        "fields.t,u.sequence-group": "d",
        "fields.b.aggregate-function": functions[0],
        "fields.d.aggregate-function": functions[1],
        "fields.b.ignore-retract": str(ignore_retract).lower(),
        "fields.d.ignore-retract": str(ignore_retract).lower(),
    }
    if removes:
        options["partial-update.remove-record-on-sequence-group"] = "u"
    groups = [
        Group(["s"], ["a", "b"], {"b": partial(aggregator, functions[0], ignore_retract)}),
        Group(["t", "u"], ["d"], {"d": partial(aggregator, functions[1], ignore_retract)}, removes),
    ]
    _check(rows, options, partial_update(_COLUMNS, groups=groups))


def _versions(*rows: tuple[Any, ...], names: str) -> pa.RecordBatch:
    """Versions of the key 1: row kind, then values of columns."""
    columns = names.split()
    return _batch(
        [
            {"_KEY_k": 1, "k": 1, SEQ: at, KIND: kind, **dict(zip(columns, values, strict=True))}
            for at, (kind, *values) in enumerate(rows)
        ]
    )


def test_the_example_of_three_inserts() -> None:
    rows = _versions((INSERT, 23, 10, None), (INSERT, None, None, "book"), (INSERT, 25, None, None), names="a b c")
    assert _merger({}).merge(rows, ["k", "a", "b", "c"]).to_pylist() == [{"k": 1, "a": 25, "b": 10, "c": "book"}]


def test_the_example_of_sequence_groups() -> None:
    """Each group keeps its newest row, and a NULL sequence changes nothing."""
    options = {"fields.s.sequence-group": "a,b", "fields.u.sequence-group": "c,d"}
    rows = [(INSERT, 1, 1, 1, "1", 1, 1), (INSERT, 2, 2, 2, "2", 2, None)]
    names = "a b s c d u"
    found = _merger(options).merge(_versions(*rows, names=names), names.split()).to_pylist()
    assert found == [{"a": 2, "b": 2, "s": 2, "c": "1", "d": 1, "u": 1}]
    rows.append((INSERT, 3, 3, 1, "3", 3, 3))
    found = _merger(options).merge(_versions(*rows, names=names), names.split()).to_pylist()
    assert found == [{"a": 2, "b": 2, "s": 2, "c": "3", "d": 3, "u": 3}]


def test_a_late_value_counts_as_the_first_one() -> None:
    """Documentation: a value that comes late is added in front, so that last_non_null_value keeps the newer one."""
    options = {"fields.s.sequence-group": "b", "fields.b.aggregate-function": "last_non_null_value"}
    rows = _versions((INSERT, 1, 5), (INSERT, 2, 3), names="b s")
    assert _merger(options).merge(rows, ["b", "s"]).to_pylist() == [{"b": 1, "s": 5}]
    rows = _versions((INSERT, None, 5), (INSERT, 2, 3), names="b s")
    assert _merger(options).merge(rows, ["b", "s"]).to_pylist() == [{"b": 2, "s": 5}]


def test_a_late_value_goes_before_nothing() -> None:
    """An ignored retraction moves the sequence on; what comes late then is added in front of NULL, as Java does."""
    options = {"fields.s.sequence-group": "b,d", "fields.b.aggregate-function": "last_value",
               "fields.d.aggregate-function": "last_non_null_value", "fields.b.ignore-retract": "true",
               "fields.d.ignore-retract": "true"}  # fmt: skip
    rows = _versions((INSERT, None, None, None), (UPDATE_BEFORE, 7, 7, 5), (INSERT, 2, 2, 3), names="b d s")
    assert _merger(options).merge(rows, ["b", "d", "s"]).to_pylist() == [{"b": None, "d": 2, "s": 5}]


def test_columns_that_groups_need() -> None:
    options = {"fields.s.sequence-group": "a", "fields.t,u.sequence-group": "c"}
    wanted = {"a": {"s"}, "c": {"t", "u"}, "d": set(), "u": {"t", "u"}}
    for column, fields in wanted.items():
        assert set(_merger(options).required_columns([column])) == {"_KEY_k", SEQ, KIND, column, *fields}
    options["partial-update.remove-record-on-sequence-group"] = "s"
    assert "s" in _merger(options).required_columns(["d"])


def test_very_many_versions_of_which_few_are_needed() -> None:
    versions = [(INSERT, at if at % 7 else None, None, str(at)) for at in range(500)]
    needed = _merger({}).needed(_versions(*versions, names="a b c"))
    assert needed.num_rows == 2
