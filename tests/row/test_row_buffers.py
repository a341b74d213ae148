"""What is built by buffers is what pyarrow builds."""

from __future__ import annotations

import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import compute

from paimon_pyds.buffers import _PLAIN, array, from_numpy, is_true, pc, scalar, to_numpy

_NUMBERS = st.integers(-(2**65), 2**65) | st.integers(-200, 200)
_VALUES = st.one_of(
    st.none(), st.booleans(), _NUMBERS, st.floats(), st.text(st.characters(exclude_categories=[])), st.binary(),
    st.decimals(-1000, 1000, places=2), st.dates(), st.lists(st.none() | _NUMBERS, max_size=4),
)  # fmt: skip
_TYPES = st.sampled_from(
    [
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
        pa.binary(), pa.date32(), pa.time32("ms"), pa.timestamp("us"), pa.decimal128(8, 2), pa.list_(pa.int64()),
        pa.binary(3), pa.null(),
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
    return str(made.type), *map(str, made.to_pylist())


@given(st.lists(_VALUES, max_size=6), _TYPES)
def test_values_make_the_array_that_pyarrow_makes(values: list[Any], type_: pa.DataType) -> None:
    assert _outcome(array, values, type_) == _outcome(pa.array, values, type_)


@given(_TYPES.flatmap(lambda type_: st.tuples(st.lists(_of(type_), max_size=20), st.just(type_))))
def test_fitting_values_too(given_: tuple[list[Any], pa.DataType]) -> None:
    assert _outcome(array, *given_) == _outcome(pa.array, *given_)


def _of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        return st.none() | st.integers(0 if pa.types.is_time(type_) else -128, 127)
    if pa.types.is_list(type_):
        return st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3)
    known = {pa.bool_(): st.booleans(), pa.float64(): st.floats(), pa.string(): st.text(), pa.binary(): st.binary()}
    return st.none() | known.get(type_, st.none())


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
    batch = pa.record_batch([numbers], ["n"])
    calls = [
        *((name, numbers, other) for name in ("equal", "greater", "greater_equal", "less", "less_equal")
          for other in (numbers[0], numbers)),
        *((name, flags, other) for name in ("and_", "or_") for other in (flags, flags[2])),
        *((name, numbers) for name in ("dictionary_encode", "is_valid", "unique")), ("invert", flags),
        *((name, values, by) for values in (numbers, batch, pa.Table.from_batches([batch, batch]).slice(1, 4))
          for name, by in (("filter", flags), ("take", pa.array([2, 0])))),
        ("if_else", flags, numbers, numbers[2]), ("if_else", flags, numbers, None),
    ]  # fmt: skip
    assert {name for name, *_ in calls} == set(_PLAIN)
    for name, *arguments in calls:
        assert getattr(pc, name)(*arguments).equals(getattr(compute, name)(*arguments)), name
    with pytest.raises(IndexError):
        pc.take(numbers, pa.array([9]))
    assert pc.starts_with is compute.starts_with


_FAULTS = """
import resource
from paimon_pyds.buffers import keep_freed_memory

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
