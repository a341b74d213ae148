"""Text → tree → rows, against a row-at-a-time model of SQL's three-valued logic."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import Const, Predicate
from support import predicate_model as model
from support.effort import examples

MORE = settings(max_examples=examples(18))


def bound(text: str) -> Predicate:
    return bind(parse_filter(text), model.FIELDS)


@MORE
@given(model.conditions(), model.rows())
def test_rows_are_those_of_the_model(condition: Any, rows: list[dict[str, Any]]) -> None:
    text = model.to_text(condition)
    expected = [model.evaluate(condition, row) is True for row in rows]
    batch = model.to_arrow(rows)
    found = matches(bound(text), batch)
    assert found.null_count == 0
    assert found.to_pylist() == expected, text


@given(model.conditions(leaves=3), model.rows(low=4))
def test_chunks_slices_and_dictionaries_give_the_same_rows(condition: Any, rows: list[dict[str, Any]]) -> None:
    predicate = bound(model.to_text(condition))
    batch = model.to_arrow(rows)
    expected = matches(predicate, batch).to_pylist()
    cut = len(rows) // 2
    table = pa.Table.from_batches([batch.slice(0, cut), batch.slice(cut)])
    assert matches(predicate, table).to_pylist() == expected
    assert matches(predicate, batch.slice(1)).to_pylist() == expected[1:]
    coded = {
        "s": batch.column("s").dictionary_encode(),
        "i": batch.column("i").dictionary_encode(),
        "d": batch.column("d").dictionary_encode(),
        "bi": batch.column("bi").cast(pa.large_binary()),
    }
    other = pa.Table.from_arrays(
        [pa.chunked_array([coded.get(f.name, batch.column(i))]) for i, f in enumerate(batch.schema)], batch.schema.names
    )
    assert matches(predicate, other).to_pylist() == expected
    large = other.set_column(other.schema.get_field_index("s"), "s", batch.column("s").cast(pa.large_string()))
    assert matches(predicate, large).to_pylist() == expected


@MORE
@given(model.conditions())
def test_text_of_a_bound_tree_gives_it_again(condition: Any) -> None:
    predicate = bound(model.to_text(condition))
    assert bound(to_sql(predicate)) == predicate
    assert bind(predicate, model.FIELDS) == predicate


@given(model.conditions(leaves=4))
def test_text_of_an_unbound_tree_binds_to_the_same(condition: Any) -> None:
    tree = parse_filter(model.to_text(condition))
    assert bound(to_sql(tree)) == bind(tree, model.FIELDS)


@given(
    st.lists(st.one_of(st.none(), st.floats(), st.floats(width=32)), max_size=20), st.floats(), st.sampled_from("=<>")
)
def test_any_two_doubles_compare_as_in_spark(values: list[float | None], literal: float, op: str) -> None:
    fields = [DataField(0, "d", parse_type("DOUBLE"))]
    shown = "CAST('NaN' AS DOUBLE)" if math.isnan(literal) else f"CAST('{literal!r}' AS DOUBLE)"
    predicate = bind(parse_filter(f"d {op} {shown}"), fields)

    def key(x: float) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(x) else (False, x)

    test = {"=": lambda a, b: a == b, "<": lambda a, b: a < b, ">": lambda a, b: a > b}[op]
    expected = [v is not None and test(key(v), key(literal)) for v in values]
    assert matches(predicate, pa.record_batch({"d": pa.array(values, pa.float64())})).to_pylist() == expected


def test_long_in_lists_use_a_hash_table_with_the_same_zeros_and_nans() -> None:
    fields = [DataField(0, "d", parse_type("DOUBLE"))]
    batch = pa.record_batch({"d": pa.array([0.0, -0.0, math.nan, 1.0, None, 77.0])})
    many = ", ".join(f"{n}D" for n in range(30))
    inside = bind(parse_filter(f"d IN ({many}, double('NaN'))"), fields)
    outside = bind(parse_filter(f"d NOT IN ({many}, double('NaN'))"), fields)
    assert matches(inside, batch).to_pylist() == [True, True, True, True, False, False]
    assert matches(outside, batch).to_pylist() == [False, False, False, False, False, True]


def test_like_is_not_confused_by_characters_that_regular_expressions_know() -> None:
    fields = [DataField(0, "s", parse_type("STRING"))]
    texts = ["a.c", "abc", "a+c", "[a]c", "a\nbc", "a$c", "aéc", "a\U0001f600c", "ac"]
    batch = pa.record_batch({"s": pa.array(texts)})
    for pattern, expected in {
        "a_c": ["a.c", "abc", "a+c", "a$c", "aéc", "a\U0001f600c"],
        "a.%": ["a.c"],
        "a%_c": ["a.c", "abc", "a+c", "a\nbc", "a$c", "aéc", "a\U0001f600c"],
        "[_]%": ["[a]c"],
        "a$_": ["a$c"],
    }.items():
        kept = batch.filter(matches(bind(parse_filter(f"s LIKE '{pattern}'"), fields), batch))
        assert kept.column("s").to_pylist() == expected, pattern


def test_constants_and_missing_columns() -> None:
    batch = pa.record_batch({"i": pa.array([1, 2], pa.int32())})
    assert matches(Const.TRUE, batch).to_pylist() == [True, True]
    assert matches(Const.UNKNOWN, batch).to_pylist() == [False, False]
    assert matches(Const.FALSE, batch).to_pylist() == [False, False]
    with pytest.raises(PredicateError, match="'b'"):
        matches(bound("b = 1"), batch)


def test_a_column_of_arrows_null_type_matches_only_is_null() -> None:
    batch = pa.record_batch({"i": pa.nulls(2)})
    assert matches(bound("i IS NULL"), batch).to_pylist() == [True, True]
    assert matches(bound("i <> 5"), batch).to_pylist() == [False, False]


def test_dictionaries_with_nulls_among_their_values() -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "b"]))
    batch = pa.record_batch({"s": coded})
    for text, expected in {
        "s IS NULL": [False, True, True, False],
        "s IS NOT NULL": [True, False, False, True],
        "s = 'a'": [True, False, False, False],
        "s NOT IN ('a', 'c')": [False, False, False, True],
    }.items():
        assert matches(bound(text), batch).to_pylist() == expected, text


def test_maps_with_other_keys_than_texts() -> None:
    fields = [DataField(0, "m", parse_type({"type": "MAP", "key": "DATE", "value": "INT"}))]
    values = [[(dt.date(1970, 1, 2), 1)], [(dt.date(1970, 1, 3), 1)], [], None]
    batch = pa.record_batch({"m": pa.array(values, pa.map_(pa.date32(), pa.int32()))})
    found = bind(parse_filter("m['1970-01-02'] = 1"), fields)
    assert matches(found, batch).to_pylist() == [True, False, False, False]
    assert matches(bind(found, fields), batch).to_pylist() == [True, False, False, False]


def test_long_lists_are_shortened_for_people() -> None:
    predicate = bound(f"i IN ({', '.join(map(str, range(100)))}) AND s = 'x'")
    shown = to_sql(predicate, shorten=True)
    assert shown.startswith("i IN (0, 1, 2, ")
    assert shown.endswith(", 19, … 100 values) AND s = 'x'")
    assert bound(to_sql(predicate)) == predicate


def test_wide_decimals_compare_digit_by_digit() -> None:
    fields = [DataField(0, "x", parse_type("DECIMAL(38, 10)"))]
    values = [Decimal("9999999999999999999999999999.9999999999"), Decimal("-0.0000000001"), Decimal(0), None]
    batch = pa.record_batch({"x": pa.array(values, pa.decimal128(38, 10))})
    for text, expected in {
        "x = 9999999999999999999999999999.9999999999": [True, False, False, False],
        "x < 0": [False, True, False, False],
        "x >= -0.00000000005": [True, False, True, False],
        "x <> 0": [True, True, False, False],
    }.items():
        assert matches(bind(parse_filter(text), fields), batch).to_pylist() == expected, text
