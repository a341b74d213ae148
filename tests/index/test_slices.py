"""Bit slices: points and ranges equal numpy's, narrow and wide, asked once and again, in any order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.types import parse_type
from paimon_pyds.index.bsi import BsiReader, write_bsi
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import Interval, make_probe
from paimon_pyds.index.range_bitmap import RangeBitmapReader, write_range_bitmap
from paimon_pyds.index.source import MeteredSource
from paimon_pyds.sql.predicate.tree import Op
from paimon_pyds.storage.byte_source import BytesSource
from support.file_indexes import encoded

ROWS = 20_000
TYPE = parse_type("BIGINT")
CODEC = key_codec(TYPE)
CHUNK = 16 << 10


def _readers(values: pa.Array) -> list[RangeBitmapReader | BsiReader]:
    ranges, bsi = _indexes(values)
    return [
        RangeBitmapReader(ranges, CODEC, ByteLimitedCache(1 << 24)),
        BsiReader(bsi, CODEC, ByteLimitedCache(1 << 24)),
    ]


def _indexes(values: pa.Array) -> tuple[BytesSource, BytesSource]:
    """A range bitmap and a bit-slice index."""
    column = encoded(values, TYPE)
    return BytesSource(write_range_bitmap(column, CHUNK)), BytesSource(write_bsi(column))


def _asked(reader: RangeBitmapReader | BsiReader, op: Op, literal: int) -> npt.NDArray[np.int64]:
    probe = make_probe(op, (literal,), CODEC)
    assert probe is not None
    return reader.answer(probe).selection.to_array(ROWS)


def _columns() -> list[pa.Array]:
    rng = np.random.default_rng(8)
    mask = rng.random(ROWS) < 0.05
    return [
        pa.array(rng.permutation(ROWS), mask=mask),
        pa.array(np.arange(ROWS) // 7),
        pa.array(rng.integers(0, 5, ROWS), mask=mask),
        pa.array(rng.integers(-(2**50), 2**50, ROWS)),
    ]


COLUMNS = [(column, _readers(column)) for column in _columns()]


@given(st.integers(0, len(COLUMNS) - 1), st.data())
def test_ranges_equal_numpy(which: int, data: st.DataObject) -> None:
    column, readers = COLUMNS[which]
    values, known = column.fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False)
    near = st.sampled_from(values[:: ROWS // 50].tolist()) | st.integers(-3, ROWS + 3)
    low = data.draw(near)
    width = data.draw(st.integers(0, 40) | st.integers(0, ROWS) | st.integers(0, 2**51))
    for reader in readers:
        above = _asked(reader, Op.GE, low)
        assert above.tolist() == np.flatnonzero(known & (values >= low)).tolist()
        both = reader.answer(Interval(low, low + width)).selection.to_array(ROWS)
        assert both.tolist() == np.flatnonzero(known & (values >= low) & (values <= low + width)).tolist()
        same = _asked(reader, Op.EQ, low)
        assert same.tolist() == np.flatnonzero(known & (values == low)).tolist()


@pytest.mark.parametrize("capacity", [0, 4_000, 1 << 20])
def test_a_small_cache_gives_the_same(capacity: int) -> None:
    column = COLUMNS[0][0]
    cache = ByteLimitedCache(capacity)
    reader = RangeBitmapReader(_indexes(column)[0], CODEC, cache)
    for low in range(0, ROWS, 997):
        expected = COLUMNS[0][1][0].answer(Interval(low, low + 500))
        assert reader.answer(Interval(low, low + 500)).selection == expected.selection
        assert cache.weight <= capacity


def test_without_a_cache_a_question_reads_nothing_twice() -> None:
    data, _ = _indexes(pa.array(np.random.default_rng(1).permutation(3 * ROWS)))
    for low, high in ((5_000, 5_000), (700, 710)):
        source = MeteredSource(data)
        reader = RangeBitmapReader(source, CODEC, ByteLimitedCache(0))
        reader.answer(Interval(low, high))
        slices = sum(length for _, length in (reader.slices._existing, *reader.slices._places))
        assert slices < source.bytes_read < 1.5 * slices


@pytest.mark.parametrize("capacity", [200_000, 1 << 20])  # too little for an order, and enough
def test_what_is_asked_often_stays_the_same(capacity: int) -> None:
    """After many questions rows are put in order, if the cache has room for it; both sides of that moment agree."""
    rng = np.random.default_rng(3)
    values = np.sort(rng.integers(0, 3000, ROWS)) * 7
    column = pa.array(values, mask=rng.random(ROWS) < 0.05)
    known = column.is_valid().to_numpy(zero_copy_only=False)
    ranges, bsi = _indexes(column)
    caches = [ByteLimitedCache(capacity), ByteLimitedCache(capacity)]
    readers = [RangeBitmapReader(ranges, CODEC, caches[0]), BsiReader(bsi, CODEC, caches[1])]
    for number in range(150):
        low = int(rng.integers(-9, 21_009))
        high = low + int(rng.integers(0, (1, 40, 400)[number % 3] + 1))
        expected = np.flatnonzero(known & (values >= low) & (values <= high)).tolist()
        for reader, cache in zip(readers, caches, strict=True):
            assert reader.answer(Interval(low, high)).selection.to_array(ROWS).tolist() == expected
            assert cache.weight <= capacity
