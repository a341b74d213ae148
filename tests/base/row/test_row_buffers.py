"""What is built by buffers is what pyarrow builds."""

from __future__ import annotations

import datetime as dt
import math
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import compute

from paimon_pyds.base.arrays import (
    _PLAIN,
    array,
    empty_batch,
    empty_table,
    from_numpy,
    grouped,
    is_true,
    pc,
    rows_table,
    scalar,
    to_numpy,
)

_NUMBERS = st.integers(-(2**65), 2**65) | st.integers(-200, 200)
_VALUES = st.one_of(
    st.none(), st.booleans(), _NUMBERS, st.floats(), st.text(st.characters(exclude_categories=[])), st.binary(),
    st.decimals(-1000, 1000, places=2), st.dates(), st.lists(st.none() | _NUMBERS, max_size=4),
)  # fmt: skip
_TYPES = st.sampled_from(
    [
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
        pa.binary(), pa.date32(), pa.time32("ms"), pa.timestamp("us"), pa.decimal128(8, 2), pa.list_(pa.int64()),
        pa.binary(3), pa.null(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.timestamp("ns"),
        pa.decimal128(38, 10),
    ]
)  # fmt: skip


def _outcome(make: Any, *arguments: Any) -> tuple[str, ...]:
    try:
        made = make(*arguments)
    except Exception as error:  # noqa: BLE001 - which one it is, is what is compared
        return "error", str(type(error))
    if isinstance(made, pa.Scalar):
        return str(made.type), repr(made.cast(pa.int32()) if pa.types.is_date32(made.type) else made)
    try:
        made.validate(full=True)
    except pa.ArrowInvalid as error:  # pyarrow itself makes a time32 of -1
        return str(made.type), str(error)
    try:
        return str(made.type), *map(str, made.to_pylist())
    except OverflowError:  # a moment that Python does not have
        return str(made.type), str(made.cast(pa.int64()).to_pylist())


@given(st.lists(_VALUES, max_size=6), _TYPES)
def test_values_make_the_array_that_pyarrow_makes(values: list[Any], type_: pa.DataType) -> None:
    assert _outcome(array, values, type_) == _outcome(pa.array, values, type_)


@given(_TYPES.flatmap(lambda type_: st.tuples(st.lists(_of(type_), max_size=20), st.just(type_))))
def test_fitting_values_too(given_: tuple[list[Any], pa.DataType]) -> None:
    assert _outcome(array, *given_) == _outcome(pa.array, *given_)


def _of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(type_) or pa.types.is_time(type_):
        return st.none() | st.integers(0 if pa.types.is_time(type_) else -128, 127)
    if pa.types.is_list(type_):
        return st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3)
    if pa.types.is_timestamp(type_):
        zones = st.none() | st.just(dt.UTC) | st.just(dt.timezone(dt.timedelta(hours=-3, minutes=30)))
        return st.none() | st.datetimes(timezones=zones) | st.integers(-(2**40), 2**40)
    if pa.types.is_decimal(type_):
        return st.none() | st.decimals(-(10**6), 10**6, places=2) | st.decimals(allow_nan=True) | st.integers(0, 9)
    if type_ == pa.date32():
        return st.none() | st.dates() | st.integers(-128, 127)
    known = {
        pa.bool_(): st.booleans(),
        pa.float64(): st.floats(),
        pa.float32(): st.floats(),
        pa.string(): st.text(),
        pa.binary(): st.binary(),
    }
    return st.none() | known.get(type_, st.none())


@given(st.one_of(*(st.lists(st.none() | one, max_size=5) for one in (
    st.integers(-(2**64), 2**64), st.floats(), st.booleans(), st.text(), st.binary(), st.dates(),
))) | st.lists(_VALUES, max_size=3))  # fmt: skip
def test_types_are_inferred_as_by_pyarrow(values: list[Any]) -> None:
    assert _outcome(array, values) == _outcome(pa.array, values)


@given(st.data())
def test_numpy_arrays_with_a_mask_and_a_type(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["?", "i1", "i4", "i8", "u4", "u8", "f4", "f8"]))
    numbers = data.draw(st.lists(st.integers(0, 127), max_size=20))
    values, mask = np.array(numbers).astype(dtype), np.array([n % 3 == 0 for n in numbers], np.bool_)
    wanted = data.draw(
        st.sampled_from([None, pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.date32()])
    )
    for masked in (None, mask):
        expected = _outcome(lambda m=masked: pa.array(values, wanted, mask=m))
        assert _outcome(array, values, wanted, masked) == expected
        if masked is not None and wanted is None:
            assert np.array_equal(
                to_numpy(array(values, None, masked)).astype(str),
                pa.array(values, mask=masked).to_numpy(zero_copy_only=False).astype(str),
            )


_ROWS = pa.table({"k": ["a", "b", "a", None], "n": [1, 2, None, 4], "m": [0.5, None, 1.5, 2.5]})


@pytest.mark.parametrize("keys", [["k"], ["k", "n"]])
@pytest.mark.parametrize(
    "wanted", [[], [("n", "sum"), ("m", "max")], [("n", "count"), ([], "count_all")], [("n", "count_distinct")]]
)
def test_rows_are_grouped_as_by_pyarrow(keys: list[str], wanted: list[tuple[Any, str]]) -> None:
    expected = _ROWS.group_by(keys, use_threads=False).aggregate(wanted)
    assert grouped(_ROWS, keys, wanted, use_threads=False).equals(expected)


def test_tables_of_rows_and_of_none() -> None:
    rows = [{"k": "a", "n": 1}, {"m": 0.25}]
    assert rows_table(rows, _ROWS.schema).equals(pa.Table.from_pylist(rows, _ROWS.schema))
    assert empty_table(_ROWS.schema).equals(_ROWS.schema.empty_table())
    assert empty_batch(_ROWS.schema).schema.equals(_ROWS.schema)


@pytest.mark.parametrize(
    "call",
    [
        lambda of: of.equal(_ROWS["n"], 2),
        lambda of: of.add(1.5, _ROWS["m"]),
        lambda of: of.if_else(of.is_null(_ROWS["n"]), None, _ROWS["n"]),
        lambda of: of.binary_join_element_wise(_ROWS["k"], "x", "-"),
        lambda of: of.round(_ROWS["m"], 0),
        lambda of: of.fill_null(_ROWS["n"], 7),
        lambda of: of.fill_null(_ROWS["k"], pa.scalar("z")),
        lambda of: of.coalesce(_ROWS["n"], 0),
        lambda of: of.utf8_slice_codeunits(_ROWS["k"], 0, 1),
        lambda of: of.is_in(_ROWS["n"], pa.array([1, 4])),
        lambda of: of.dictionary_encode(_ROWS["k"], null_encoding="encode"),
    ],
)
def test_functions_take_values_of_python(call: Callable[[Any], Any]) -> None:
    assert call(pc).equals(call(compute))


@given(_VALUES, _TYPES)
def test_a_value_makes_the_scalar_that_pyarrow_makes(value: Any, type_: pa.DataType) -> None:
    assert _outcome(scalar, value, type_) == _outcome(pa.scalar, value, type_)


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u8", "f4", "f8", "M8[us]"])
@pytest.mark.parametrize("step", [1, 2])
def test_numpy_arrays_both_ways(dtype: str, step: int) -> None:
    values = np.arange(37).astype(dtype)[::step]
    made = from_numpy(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    assert np.array_equal(to_numpy(made), values)
    assert to_numpy(made).dtype == values.dtype


@given(st.lists(st.none() | st.booleans(), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_booleans_in_the_middle_of_their_bytes(values: list[bool | None], start: int, length: int) -> None:
    part = pa.array(values, pa.bool_()).slice(start, length)
    assert is_true(part).tolist() == [v is True for v in part.to_pylist()]
    assert to_numpy(part).tolist() == part.to_pylist()
    assert to_numpy(pa.chunked_array([part, part])).tolist() == part.to_pylist() * 2


@given(st.lists(st.none() | st.integers(-5, 5), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_numbers_in_the_middle(values: list[int | None], start: int, length: int) -> None:
    part = pa.array(values, pa.int32()).slice(start, length)
    assert np.array_equal(to_numpy(part), part.to_numpy(zero_copy_only=False), equal_nan=True)
    assert len(to_numpy(pa.chunked_array([], pa.int32()))) == 0


def test_functions_of_arrow_are_those_of_pyarrow() -> None:
    numbers, flags = pa.array([3, None, 1, 3], pa.int32()), pa.array([True, False, None, True])
    texts, lists = pa.array(["ab", None, "", "ä"]), pa.array([[1, 2], None, [], [3]])
    batch = pa.record_batch([numbers], ["n"])
    calls = [
        *((name, numbers, other) for name in ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal",
                                              "add_checked", "subtract_checked", "multiply_checked", "divide",
                                              "divide_checked")
          for other in (numbers[0], numbers)),
        ("negate_checked", numbers),
        *(("any", each) for each in (flags, flags[1:3], flags[:0], pa.chunked_array([flags]))),
        *((name, flags, other) for name in ("and_", "or_") for other in (flags, flags[2])),
        *((name, numbers) for name in ("dictionary_encode", "is_valid", "unique")), ("invert", flags),
        *((name, values, by) for values in (numbers, batch, pa.Table.from_batches([batch, batch]).slice(1, 4))
          for name, by in (("filter", flags), ("take", pa.array([2, 0])))),
        ("if_else", flags, numbers, numbers[2]), ("if_else", flags, numbers, None),
        ("replace_with_mask", numbers, flags, pa.array([7, 8], pa.int32())),
        ("is_nan", pa.array([1.0, None, math.nan])), ("binary_length", texts),
        ("binary_join_element_wise", texts, texts, "-"),
        *((name, lists) for name in ("list_flatten", "list_parent_indices", "list_value_length")),
    ]  # fmt: skip
    assert {name for name, *_ in calls} == set(_PLAIN)
    for name, *arguments in calls:
        assert getattr(pc, name)(*arguments).equals(getattr(compute, name)(*arguments)), name
    with pytest.raises(IndexError):
        pc.take(numbers, pa.array([9]))
    assert pc.starts_with(pa.array(["ab"]), "a").equals(compute.starts_with(pa.array(["ab"]), "a"))
    folded = [module.match_substring_regex(texts, "A", ignore_case=True) for module in (pc, compute)]
    assert folded[0].equals(folded[1])
    assert pc.SortOptions is compute.SortOptions


_FAULTS = """
import resource
from paimon_pyds.base.arrays import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        [b"x" * 8192 for _ in range(4000)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back at once")
def test_memory_is_kept_for_what_is_allocated_next() -> None:
    run = subprocess.run([sys.executable, "-c", _FAULTS], capture_output=True, text=True, check=True)
    given_back, kept = map(int, run.stdout.split())
    assert kept < given_back / 10
