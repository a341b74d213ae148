"""The functions that do without importing ``pyarrow.compute`` give what those in it give."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as real
import pytest

from paimon_pyds.base.arrays import RowWidths, pc

_NUMBERS = pa.array([3, None, 1, 300], pa.int64())
_TEXTS = pa.array(["ab", None, "b", "ba", ""])
_LISTS = pa.array([[1, None], None, [], [4]])
_MASK = pa.array([True, None, False, True])


@pytest.mark.parametrize("name", ["starts_with", "ends_with", "match_substring"])
@pytest.mark.parametrize("pattern", ["b", "", "ab"])
@pytest.mark.parametrize("values", [_TEXTS, pa.chunked_array([_TEXTS, _TEXTS]), _TEXTS.cast(pa.binary())])
def test_texts_are_matched(name: str, pattern: str, values: pa.Array) -> None:
    found = getattr(pc, name)(values, pattern=pattern)
    assert found.equals(getattr(real, name)(values, pattern=pattern))


@pytest.mark.parametrize("others", [[1, 3], [1, None], []])
def test_values_are_looked_for_among_others(others: list[int | None]) -> None:
    plain = pa.array(others, pa.int64())
    for among in (plain, pa.chunked_array([plain, plain])):
        assert pc.is_in(_NUMBERS, value_set=among).equals(real.is_in(_NUMBERS, value_set=among))


@pytest.mark.parametrize("type_", [pa.int32(), pa.string(), pa.float64(), pa.decimal128(20, 1)])
def test_casts(type_: pa.DataType) -> None:
    for values in (_NUMBERS, pa.chunked_array([_NUMBERS]), pa.scalar(5)):
        assert pc.cast(values, type_).equals(real.cast(values, type_))
    assert pc.cast(_NUMBERS, pa.int8(), safe=False).equals(real.cast(_NUMBERS, pa.int8(), safe=False))
    with pytest.raises(pa.ArrowInvalid, match="300 not in range"):
        pc.cast(_NUMBERS, pa.int8())


def test_functions_without_options() -> None:
    batch = pa.record_batch({"n": _NUMBERS, "l": _LISTS})
    for table in (batch, pa.table(batch), _NUMBERS, _LISTS):
        assert pc.filter(table, _MASK).equals(table.filter(_MASK))
        assert pc.take(table, pa.array([3, 0])).equals(table.take(pa.array([3, 0])))
    assert pc.list_flatten(_LISTS).equals(_LISTS.flatten())
    assert pc.list_value_length(_LISTS).equals(real.list_value_length(_LISTS))
    assert pc.binary_length(_TEXTS).equals(real.binary_length(_TEXTS))
    joined = (_TEXTS, _TEXTS, pa.scalar("-"))
    assert pc.binary_join_element_wise(*joined).equals(real.binary_join_element_wise(*joined))
    masked = (pa.array([True, False]), pa.array([False, True]), pa.array([True]))
    assert pc.replace_with_mask(*masked).equals(real.replace_with_mask(*masked))
    floats = pa.array([1.0, float("nan"), None])
    assert pc.is_nan(floats).equals(real.is_nan(floats))
    assert pc.fill_null(_NUMBERS, 2).equals(real.fill_null(_NUMBERS, 2))


def test_bytes_of_rows_are_counted_by_types() -> None:
    columns = [_NUMBERS, _TEXTS.slice(1, 4), _LISTS, _MASK, _NUMBERS.cast(pa.decimal128(20)), pa.nulls(4)]
    batch = pa.RecordBatch.from_arrays(columns, names=list("abcdef"))
    bits_of_nulls = sum(column.buffers()[0] is not None for column in (_NUMBERS, _MASK, columns[4]))
    assert RowWidths(batch.schema.types).bytes_of(batch) == batch.nbytes - bits_of_nulls
    assert RowWidths([]).bytes_of(pa.RecordBatch.from_arrays([], names=[])) == 0
