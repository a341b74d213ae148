"""Column statistics: modes, truncation, float order, dictionaries, encoding."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, Kind, arrow_schema, parse_type
from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.format import statistics
from paimon_pyds.format.statistics import (
    KEY_STATS_EMPTY,
    ColumnStats,
    StatsCollector,
    encode_stats,
    stats_modes,
    truncate_max,
)

INT = AtomicType(Kind.INT)


def _fields(*types: str | DataType) -> list[DataField]:
    return [DataField(i, f"c{i}", parse_type(t) if isinstance(t, str) else t) for i, t in enumerate(types)]


def _collect(
    fields: list[DataField], mode: str, *columns: list[object], file_format: str = "parquet"
) -> list[ColumnStats]:
    schema = arrow_schema(fields)
    arrays = [pa.array(values, schema.field(i).type) for i, values in enumerate(columns)]
    collector = StatsCollector(fields, [mode] * len(fields), file_format)
    collector.update(pa.record_batch(arrays, names=schema.names))
    return collector.finish()


def _one(
    type_: str, mode: str, values: list[object], file_format: str = "parquet"
) -> tuple[object, object, int | None]:
    c = _collect(_fields(type_), mode, values, file_format=file_format)[0]
    return c.minimum, c.maximum, c.null_count


def test_modes() -> None:
    values = ["a long partition", "b", None]
    assert _one("STRING", "none", values) == (None, None, None)
    assert _one("STRING", "counts", values) == (None, None, 1)
    assert _one("STRING", "full", values) == ("a long partition", "b", 1)
    assert _one("STRING", "Truncate(3)", values) == ("a l", "b", 1)
    assert _one("STRING", "truncate(15)", values[:1]) == ("a long partitio", "a long partitip", 0)


def test_values_are_internal() -> None:
    assert _one("DECIMAL(10, 2)", "full", [Decimal("1.20"), Decimal("-3.00")]) == (Decimal("-3.00"), Decimal("1.20"), 0)
    assert _one("DATE", "full", [3, -1, None]) == (-1, 3, 1)
    assert _one("TIME(3)", "full", [5, 1]) == (1, 5, 0)
    assert _one("TIMESTAMP(6)", "full", [7, -2]) == (-2, 7, 0)
    assert _one("BOOLEAN", "full", [True, None]) == (True, True, 1)
    assert _one("BINARY(2)", "full", [b"ab", None]) == (None, None, 1)


def test_nanoseconds_have_bounds_but_not_in_parquet() -> None:
    assert _one("TIMESTAMP(9)", "full", [1, 2, None]) == (None, None, 1)
    assert _one("TIMESTAMP(9)", "full", [1, 2, None], "orc") == (1, 2, 1)


def test_nested_columns() -> None:
    fields = _fields(ArrayType(element=INT))
    assert _collect(fields, "full", [[1], None])[0].is_none
    assert _collect(fields, "full", [[1], None], file_format="orc")[0].null_count == 1


def test_all_null_and_empty() -> None:
    assert _one("INT", "full", [None, None]) == (None, None, 2)
    assert _one("DOUBLE", "full", [None]) == (None, None, 1)
    assert _one("STRING", "truncate(16)", []) == (None, None, 0)


def test_floats_in_the_order_of_java() -> None:
    low, high, nulls = _one("DOUBLE", "full", [1.0, float("nan"), None])
    assert low == 1.0 and isinstance(high, float) and math.isnan(high) and nulls == 1
    low, high, _ = _one("FLOAT", "full", [float("nan")])
    assert isinstance(low, float) and math.isnan(low) and isinstance(high, float) and math.isnan(high)
    low, high, _ = _one("DOUBLE", "full", [0.0, -1.0])
    assert (low, math.copysign(1, float(str(high)))) == (-1.0, 1.0)
    low, high, _ = _one("DOUBLE", "full", [0.0])
    assert math.copysign(1, float(str(low))) == -1.0 and math.copysign(1, float(str(high))) == 1.0


def test_dictionary_entries_that_are_not_used_do_not_count() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int32()), pa.array(["a", "m", "z"]))
    collector = StatsCollector(_fields("STRING"), ["full"])
    collector.update(pa.record_batch([array], names=["c0"]))
    assert collector.finish()[0] == ColumnStats(_fields("STRING")[0], "m", "m", 1)


def test_dictionaries_over_many_batches() -> None:
    shared = pa.array(["a", "m", "z", None])
    fields = _fields("STRING")
    collector = StatsCollector(fields, ["full"])
    whole = pa.DictionaryArray.from_arrays(pa.array([1, 1, 2, None], pa.int32()), shared.slice(0, 3))
    for part in (whole.slice(0, 1), whole.slice(1), pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["k"]))):
        collector.update(pa.record_batch([part], names=["c0"]))
    collector.update(pa.record_batch([pa.array(["b"])], names=["c0"]))
    with_null = pa.DictionaryArray.from_arrays(pa.array([3, 0, None], pa.int32()), shared)
    collector.update(pa.record_batch([with_null.slice(0, 1)], names=["c0"]))
    assert collector.finish()[0] == ColumnStats(fields[0], "b", "z", 2)


def test_options() -> None:
    fields = [DataField(i, n, INT) for i, n in enumerate(["_KEY_a", "a", "b", "c"])]
    options = {
        "metadata.stats-mode": "counts",
        "metadata.stats-keep-first-n-columns": "1",
        "fields.c.stats-mode": "full",
    }
    assert stats_modes(fields, options) == ("truncate(128)", "counts", "none", "full")
    assert stats_modes(fields, {})[1:] == ("truncate(16)",) * 3
    for bad in (
        {"metadata.stats-mode": "some"},
        {"metadata.stats-mode": "truncate(0)"},
        {"fields.a.stats-mode": "x"},
        {"metadata.stats-keep-first-n-columns": "x"},
    ):
        with pytest.raises(OptionError):
            stats_modes(fields, bad)


def test_wrong_number_of_columns() -> None:
    with pytest.raises(SchemaError):
        StatsCollector(_fields("INT"), [])
    with pytest.raises(SchemaError):
        StatsCollector(_fields("INT"), ["full"]).update(pa.record_batch([], names=[]))


def test_a_text_that_is_not_utf8_is_refused_by_column() -> None:
    offsets, data = pa.py_buffer(struct.pack("<3i", 0, 1, 2)), pa.py_buffer(b"a\xff")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    with pytest.raises(SchemaError, match="column 'c0' holds a text that is not UTF-8"):
        StatsCollector(_fields("STRING"), ["full"]).update(pa.record_batch([texts], names=["c0"]))


def test_truncation_at_the_end_of_unicode() -> None:
    assert truncate_max("ab\U0010ffff\U0010ffffz", 4) == "ac"
    assert truncate_max("\U0010ffff" * 5, 4) is None
    assert truncate_max("a\ud7ffb", 2) == "a\ue000"
    values: list[object] = ["\U0010ffff" * 20, "a", None]
    assert _one("STRING", "truncate(16)", values) == (None, None, 1)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(_TEXT, st.integers(1, 8))
def test_truncated_bounds_hold(text: str, length: int) -> None:
    encoded = text.encode()
    low, high = text[:length], truncate_max(text, length)
    assert len(low) <= length and low.encode() <= encoded
    if high is None:
        assert all(c == "\U0010ffff" for c in text[:length])
    else:
        assert len(high) <= length and high.encode() >= encoded


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(width=32), st.sampled_from([0.0, -0.0])), max_size=6), max_size=4)
)
def test_float_bounds_hold_for_every_value(batches: list[list[float | None]]) -> None:
    fields = _fields("FLOAT")
    collector = StatsCollector(fields, ["full"])
    for values in batches:
        collector.update(pa.record_batch([pa.array(values, pa.float32())], names=["c0"]))
    stats = collector.finish()[0]
    present = [v for b in batches for v in b if v is not None]

    def key(v: float) -> tuple[bool, float, float]:
        return math.isnan(v), 0.0 if math.isnan(v) else v, math.copysign(1, v) if v == 0 else 0.0

    assert stats.null_count == sum(v is None for b in batches for v in b)
    if not present:
        assert stats.minimum is None and stats.maximum is None
    else:
        assert all(key(stats.minimum) <= key(v) <= key(stats.maximum) for v in present)


@given(st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT"]), st.integers(1, 8), st.data())
def test_bounds_of_few_and_of_many_whole_numbers(type_: str, few: int, data: st.DataObject) -> None:
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}[type_]
    numbers = st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    values = data.draw(st.lists(numbers, min_size=1, max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "FEW_VALUES", few)
        assert _one(type_, "full", list(values)) == (min(values), max(values), 0)


def test_encoding() -> None:
    pytest.importorskip("paimon_pyds.base.row")
    fields = _fields("INT", ArrayType(element=INT), "STRING")
    stats = _collect(fields, "full", [1, 2], [[1], None], ["x", None])
    dense, names = encode_stats(stats)
    assert names == ("c0", "c2")
    assert dense.null_counts == (0, 1)
    assert dense.min_values == struct.pack(">i", 2) + bytes(8) + struct.pack("<ii", 1, 0) + b"x" + bytes(6) + b"\x81"
    everything, names = encode_stats(stats, dense=False)
    assert names is None
    assert everything.null_counts == (0, None, 1)
    nothing, names = encode_stats(_collect(fields, "none", [1], [None], [None]))
    assert (nothing, names) == (KEY_STATS_EMPTY, ())
    assert KEY_STATS_EMPTY.min_values == EMPTY_ROW
