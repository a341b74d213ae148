"""Batches brought to an exact schema: by name, rounded down, refused where values would change or be lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types.nested import find_name
from paimon_pyds.errors import SchemaError
from paimon_pyds.spark.arrow import check_castable, conform_batch

pytestmark = [pytest.mark.spark, pytest.mark.over_connect]


def conform(values: pa.Array, target: pa.DataType, nullable: bool = True) -> pa.Array:
    batch = pa.RecordBatch.from_arrays([values], ["c"])
    result = conform_batch(batch, pa.schema([pa.field("c", target, nullable)]))
    result.validate(full=True)
    return result.column(0)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), max_size=30), st.integers(0, 5))
def test_nanoseconds_round_down(numbers, skip):
    values = pa.array(numbers, pa.int64()).view(pa.timestamp("ns")).slice(skip)
    expected = [None if n is None else n // 1000 for n in numbers[skip:]]
    assert conform(values, pa.timestamp("us")).view(pa.int64()).to_pylist() == expected


@given(
    st.lists(
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12)), max_size=4)), max_size=12
    ),
    st.integers(0, 4),
)
def test_nested_timestamps_round_down_in_slices(lists, skip):
    values = pa.array(lists, pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ns"))).slice(skip)
    target = pa.list_(pa.field("element", pa.timestamp("us")))
    back = conform(values, target).cast(pa.list_(pa.int64()))
    assert back.to_pylist() == [
        None if x is None else [None if n is None else n // 1000 for n in x] for x in lists[skip:]
    ]


def test_maps_keep_their_keys_and_nulls():
    source = pa.map_(pa.string(), pa.timestamp("ns"))
    values = pa.array([[("a", 1)], None, [("b", -1), ("c", None)], []], pa.map_(pa.string(), pa.int64())).cast(source)
    target = pa.map_(pa.field("key", pa.string(), False), pa.field("value", pa.timestamp("us")))
    back = conform(values.slice(1), target).cast(pa.map_(pa.string(), pa.int64()))
    assert back.to_pylist() == [None, [("b", -1), ("c", None)], []]


def test_members_are_found_by_name_and_may_be_left_out():
    source = pa.struct([("a", pa.int32()), ("B", pa.large_string()), ("c", pa.bool_())])
    values = pa.array([{"a": 1, "B": "x", "c": True}, None, {"a": None, "B": None, "c": None}], source)
    target = pa.struct([pa.field("b", pa.string()), pa.field("a", pa.int64())])
    assert conform(values, target).to_pylist() == [{"b": "x", "a": 1}, None, {"b": None, "a": None}]
    assert conform(values.slice(1), target).to_pylist() == [None, {"b": None, "a": None}]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([b"a", None], pa.large_binary()), pa.binary()),
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array([Decimal("1.50"), None]), pa.decimal128(10, 3)),
        (pa.nulls(2), pa.struct([("a", pa.int32())])),
        (pa.array([[1, 2], None], pa.large_list(pa.int32())), pa.list_(pa.field("element", pa.int64()))),
        (pa.array([dt.time(1, 2, 3), None], pa.time32("ms")), pa.time64("ns")),
        (pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("ms")), pa.timestamp("us")),
    ],
    ids=str,
)
def test_lossless_casts(values, target):
    result = conform(values, target)
    assert result.type.equals(target)
    assert result.null_count == values.null_count
    assert result.to_pylist() == values.to_pylist()
    check_castable(values.type, target, "c")


def test_not_null_members_of_a_null_struct_hold_some_value():
    inner = pa.struct([("s", pa.string()), ("m", pa.map_(pa.string(), pa.int32())), ("l", pa.list_(pa.bool_()))])
    source = pa.struct([("a", pa.int32()), ("in", inner)])
    rows = [
        {"a": 1, "in": {"s": "x", "m": [("k", 1)], "l": [True]}},
        None,
        {"a": 2, "in": {"s": "y", "m": [], "l": []}},
    ]
    map_type = pa.map_(pa.field("key", pa.string(), False), pa.field("value", pa.int32(), False))
    list_type = pa.list_(pa.field("element", pa.bool_(), False))
    strict = [pa.field("s", pa.string(), False), pa.field("m", map_type, False), pa.field("l", list_type, False)]
    target = pa.struct([pa.field("a", pa.int32(), False), pa.field("in", pa.struct(strict), False)])
    for skip in (0, 1):
        result = conform(pa.array(rows, source).slice(skip), target)
        assert result.to_pylist() == rows[skip:]
        assert not any(result.field(i).null_count for i in range(2))


def test_floats_and_decimals_are_rounded_as_spark_rounds_them():
    doubles = pa.array([2.675, -1.005, 1e-30, 0.0, None])  # 2.675 is a little less than its text
    assert conform(doubles, pa.decimal128(4, 2)).to_pylist() == [*map(Decimal, ("2.68", "-1.01", "0.00", "0.00")), None]
    wide = pa.array([-1.7e37, 123456789.123456789])
    assert [str(d) for d in conform(wide, pa.decimal128(38, 0)).to_pylist()] == ["-" + "17" + "0" * 36, "123456789"]
    decimals = pa.array([Decimal("1.555"), Decimal("-16777217.000"), None])
    assert conform(decimals, pa.float32()).equals(pa.array([1.555, -16777216.0, None], pa.float32()))


def test_times_lose_nothing():
    values = pa.array([3_600_000_000_000 + 1_000_000, None], pa.int64()).view(pa.time64("ns"))
    assert conform(values, pa.time32("ms")).to_pylist() == [dt.time(1, 0, 0, 1000), None]


@pytest.mark.parametrize(
    ("values", "target", "message"),
    [
        (pa.array([300]), pa.int8(), "c is int64 and does not fit int8"),
        (
            pa.array([{"a": None}], pa.struct([("a", pa.int32())])),
            pa.struct([pa.field("a", pa.int32(), False)]),
            "c.a is NOT NULL",
        ),
        (pa.array([[1, None]]), pa.list_(pa.field("element", pa.int64(), False)), "c.element is NOT NULL"),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())]), "has no field 'b'"),
        (pa.array([1_001], pa.time64("us")), pa.time32("ms"), "does not fit time32.*TIME columns hold milliseconds"),
        (pa.array([1e39]), pa.float32(), r"c is double and does not fit float: 1e\+39"),
        (pa.array([1.0, float("nan")]), pa.decimal128(4, 2), "does not fit decimal128.*: nan"),
        (pa.array([99.999]), pa.decimal128(4, 2), "does not fit decimal128.*: 99.999"),
    ],
    ids=["overflow", "member", "element", "missing", "fraction", "infinity", "NaN", "digits"],
)
def test_values_that_do_not_fit(values, target, message):
    with pytest.raises(SchemaError, match=message):
        conform(values, target)


def test_null_in_a_not_null_column():
    with pytest.raises(SchemaError, match="column c is NOT NULL, and 1 of 2 rows have no value"):
        conform(pa.array([1, None]), pa.int64(), nullable=False)


def test_nulls_under_a_null_list_do_not_count():
    values = pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([1, None]), mask=pa.array([False, True]))
    target = pa.list_(pa.field("element", pa.int64(), False))
    assert conform(values, target).to_pylist() == [[1], None]
    with pytest.raises(SchemaError, match="element is NOT NULL"):
        conform(pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([1, None])), target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 2), pa.int64()),
        (pa.bool_(), pa.int32()),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.date32(), pa.timestamp("us")),
        (pa.struct([("a", pa.int32())]), pa.int32()),
        (pa.int32(), pa.struct([("a", pa.int32())])),
        (pa.list_(pa.string()), pa.list_(pa.int32())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.int32(), pa.int32())),
        (pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_what_changes_the_meaning_is_refused(source, target):
    with pytest.raises(SchemaError, match=r"column c\S* is .+ in the data and [A-Z].* in the table — cast it first"):
        check_castable(source, target, "c")


def test_names():
    assert find_name(["a", "A"], "A") == 1
    assert find_name(["a", "b"], "B") == 1
    assert find_name(["a"], "z") is None
    with pytest.raises(SchemaError, match="could be any of 'Ab', 'aB'"):
        find_name(["Ab", "aB"], "ab")
