"""Bit slices of many containers: what is read around few rows only gives the answers that all bytes give."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.types import parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.bsi import BsiReader, write_bsi
from paimon_pyds.index.container import parse_head
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import Interval
from paimon_pyds.index.range_bitmap import RangeBitmapReader, write_range_bitmap
from paimon_pyds.index.roaring.codec import decode_bitmap
from paimon_pyds.index.slice_containers import read_containers
from paimon_pyds.index.slices import BitSlices
from paimon_pyds.index.source import MeteredSource
from paimon_pyds.storage.byte_source import BytesSource
from support.file_indexes import encoded
from support.fixtures import DEV, json_lines
from support.index_fuzz import FUZZ, mutated

CONTAINERS = 12
ROWS = CONTAINERS * 65_536 - 999
TYPE = parse_type("BIGINT")
CODEC = key_codec(TYPE)
CHUNK, CACHE = 16 << 10, 16 << 20
READERS = {"range-bitmap": RangeBitmapReader, "bsi": BsiReader}


def _columns() -> Iterator[tuple[str, npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Names, values, and which are known."""
    rng = np.random.default_rng(5)
    known, rows = np.ones(ROWS, np.bool_), np.arange(ROWS)
    strays = rows // 20
    strays[rng.integers(0, ROWS, ROWS // 2000)] = rng.integers(0, ROWS // 20, ROWS // 2000)
    yield "clustered", rows // 20 - 9_000, known
    yield "with strays", strays, known
    yield "with nulls", strays, rng.random(ROWS) < 0.95
    yield "nulls in stretches", rows // 100, np.repeat(rng.random(-(-ROWS // 5_000)) < 0.5, 5_000)[:ROWS]
    yield "scattered", rng.integers(0, 60_000, ROWS), known
    yield "few values", rows // 90_000, known
    yield "a rare large one", np.where(rows == 70_001, 4_000, rows // 500), known
    yield "descending", (ROWS - rows) // 3, known


def _index(kind: str, values: npt.NDArray[np.int64], known: npt.NDArray[np.bool_]) -> bytes:
    column = encoded(pa.array(values, mask=~known), TYPE)
    return write_range_bitmap(column, CHUNK) if kind == "range-bitmap" else write_bsi(column)


COLUMNS = list(_columns())
INDEXES = {(kind, name): _index(kind, values, known) for kind in READERS for name, values, known in COLUMNS}


def _ask(kind: str, data: bytes, low: int, high: int) -> tuple[BitMap, int]:
    """The rows between two values, asked of an index that was just opened, and the bytes read for it."""
    source = MeteredSource(BytesSource(data, "x.index"))
    rows = READERS[kind](source, CODEC, ByteLimitedCache(CACHE)).answer(Interval(low, high)).selection.positions
    assert rows is not None
    return rows, source.bytes_read


@pytest.mark.parametrize("which", range(len(COLUMNS)), ids=[name for name, _, _ in COLUMNS])
@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=25)
@given(st.data())
def test_ranges_equal_numpy(kind: str, which: int, data: st.DataObject) -> None:
    name, values, known = COLUMNS[which]
    low = data.draw(st.sampled_from(values[:: ROWS // 97].tolist()) | st.integers(-10_000, ROWS))
    width = data.draw(st.sampled_from([0, 1, 5, 40, 300, 3_000, 30_000, ROWS]))
    expected = np.flatnonzero(known & (values >= low) & (values <= low + width))
    rows, _ = _ask(kind, INDEXES[kind, name], low, low + width)
    assert np.array_equal(rows.to_array(), expected)


def test_of_clustered_values_few_bytes_are_read() -> None:
    for name, most in (("clustered", 0.15), ("with strays", 0.5), ("descending", 0.2)):
        data = INDEXES["range-bitmap", name]
        low = int(COLUMNS[[n for n, _, _ in COLUMNS].index(name)][1][ROWS // 2])
        found, read = _ask("range-bitmap", data, low, low + 10)
        assert found
        assert read < most * len(data)


def test_who_asks_often_gets_whole_slices() -> None:
    """After some questions nothing more is read, and the answers stay the same."""
    values = COLUMNS[1][1]
    source = MeteredSource(BytesSource(INDEXES["range-bitmap", "with strays"], "x.index"))
    reader = RangeBitmapReader(source, CODEC, ByteLimitedCache(CACHE))
    read = []
    for low in range(1_000, 36_000, 700):
        found = reader.answer(Interval(low, low + 30)).selection.to_array(ROWS)
        assert np.array_equal(found, np.flatnonzero((values >= low) & (values <= low + 30)))
        read.append(source.bytes_read)
    assert read[0] < read[3] < read[-1] < 1.5 * source.size
    assert read[-1] - read[-10] <= 9 * 2 * CHUNK  # of the dictionary, no slices


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("name", ["clustered", "with strays", "with nulls"])
def test_damage_is_found_where_it_matters(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte changed gives an error, the right answer, or what reading everything makes of it."""
    rng = random.Random(f"{kind} {name}")
    data, (low, high) = INDEXES[kind, name], (5_000, 5_020)
    expected, _ = _ask(kind, data, low, high)
    refused = 0
    for _ in range(FUZZ // 20):
        changed = bytearray(data)
        at = len(data) - 1 - int(rng.random() ** 3 * len(data))
        changed[at] = rng.choice((0, 0xFF, rng.randrange(256), changed[at] ^ 1 << rng.randrange(8)))
        try:
            found, _ = _ask(kind, bytes(changed), low, high)
        except CorruptFileError:
            refused += 1
            continue
        if found != expected:
            with monkeypatch.context() as patched:
                patched.setattr(BitSlices, "load_around", lambda *_: None)
                assert _ask(kind, bytes(changed), low, high)[0] == found
    assert refused > FUZZ // 750


@pytest.mark.parametrize("kind", READERS)
def test_mutated_indexes_of_many_containers(kind: str) -> None:
    rng = random.Random(f"25 {kind}")
    data = INDEXES[kind, "with strays"]
    refused = 0
    for _ in range(FUZZ // 20):
        low = rng.randrange(39_000)
        try:
            rows, _ = _ask(kind, mutated(rng, data), low, low + rng.choice((0, 10, 3_000)))
        except CorruptFileError:
            refused += 1
        else:
            assert not rows or rows.max() < ROWS
    assert refused > FUZZ // 100


def _java_bitmaps() -> Iterator[tuple[str, bytes]]:
    """The bitmaps of Java's range bitmaps and bit-slice indexes."""
    for case in json_lines(DEV / "index_vectors.jsonl") if DEV is not None else ():
        given_: dict[str, Any] = case["columns"][0]
        if given_["index"] not in READERS:
            continue
        container = bytes.fromhex(case["container"])
        index = FileIndex.open(BytesSource(container))
        reader = index.reader(given_["name"], given_["index"], parse_type(given_["type"]))
        if isinstance(reader, RangeBitmapReader):
            opened = [reader.slices] if reader.cardinality else []
        else:
            assert reader is None or isinstance(reader, BsiReader)
            opened = [] if reader is None else [part for _, part in reader.parts]
        assert opened or parse_head(BytesSource(container)).columns
        for part in opened:
            for offset, length in (part._existing, *part._places):
                yield case.get("name", ""), part._source.read(offset, length)


@pytest.mark.skipif(DEV is None, reason="needs indexes written by Java Paimon")
def test_bitmaps_of_java_in_parts() -> None:
    bitmaps = [data for _, data in _java_bitmaps()]
    single = [decode_bitmap(data) for data in bitmaps]
    assert len(single) > 100
    rows = 1 + max(b.max() for b in single if b)
    assert rows > 65_536
    ends = np.cumsum([len(data) for data in bitmaps])
    places = [(int(end) - len(data), len(data)) for end, data in zip(ends, bitmaps, strict=True)]
    source = BytesSource(b"".join(bitmaps))
    for number in range(-(-rows // 65_536)):
        around = BitMap(range(number << 16, (number + 1) << 16))
        found = read_containers(source, places, np.array([number]), rows)
        assert [part & around for part in found] == [bitmap & around for bitmap in single]


def test_small_slices_are_read_whole() -> None:
    values = np.arange(ROWS) // 90_000
    data = _index("range-bitmap", values, np.ones(ROWS, np.bool_))
    opened = RangeBitmapReader(BytesSource(data), CODEC, ByteLimitedCache(CACHE))
    assert opened.slices.load_around(BitMap([1]), range(3)) is None
