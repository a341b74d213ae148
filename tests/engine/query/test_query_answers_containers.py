"""Parts of serialized bitmaps: the right members, and no others; damage is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.aggregate import index_columns
from paimon_pyds.index.build import FileIndexBuilder, parse_index_specs
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.roaring.codec import encode_bitmap
from paimon_pyds.index.slice_containers import containers_of, read_containers
from paimon_pyds.index.source import Window
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import examples

CONTAINERS = 12
ROWS = CONTAINERS * 65_536

KINDS = st.sampled_from(["none", "few", "many", "run", "all"])


def members(kinds: Sequence[str], seed: int) -> BitMap:
    """A bitmap with containers of these kinds."""
    random = np.random.default_rng(seed)
    found = BitMap()
    for number, kind in enumerate(kinds):
        start = number << 16
        if kind == "few":
            found |= BitMap(start + random.integers(0, 65_536, 20))
        elif kind == "many":
            found |= BitMap(start + random.integers(0, 65_536, 9_000))
        elif kind == "run":
            found |= BitMap(range(start + 10, start + 5_000))
        elif kind == "all":
            found |= BitMap(range(start, start + 65_536))
    return found


def window(parts: Sequence[bytes]) -> tuple[Window, list[tuple[int, int]]]:
    data = b"before" + b"".join(parts) + b"after"
    ends = 6 + np.cumsum([len(p) for p in parts])
    return Window(BytesSource(data, "x"), 0, len(data)), [
        (int(e) - len(p), len(p)) for e, p in zip(ends, parts, strict=True)
    ]


@settings(max_examples=examples(15))
@given(
    st.lists(st.lists(KINDS, min_size=CONTAINERS, max_size=CONTAINERS), min_size=1, max_size=3),
    st.sets(st.integers(0, CONTAINERS - 1), min_size=1),
    st.integers(0, 2**20),
)
def test_wanted_containers_are_read(kinds: list[list[str]], wanted: set[int], seed: int) -> None:
    bitmaps = [members(one, seed + i) for i, one in enumerate(kinds)]
    source, places = window([encode_bitmap(b) for b in bitmaps])
    found = read_containers(source, places, np.array(sorted(wanted)), ROWS)
    around = BitMap().union(*(BitMap(range(n << 16, (n + 1) << 16)) for n in wanted))
    for part, bitmap, one in zip(found, bitmaps, kinds, strict=True):
        if 0 < sum(k != "none" for k in one) < 4 and {"run", "all"} & set(one):  # the format has no offsets then
            assert part == bitmap
        else:
            assert part == bitmap & around


def test_which_containers() -> None:
    assert containers_of(BitMap([1, 70_000, 65_536]), ROWS).tolist() == [0, 1]  # type: ignore[union-attr]
    assert containers_of(BitMap(range(0, ROWS, 65_536)), ROWS) is None
    assert containers_of(BitMap(range(65_530, 140_000)), ROWS) is None
    assert containers_of(BitMap(range(65_536, 140_000)), ROWS).tolist() == [1, 2]  # type: ignore[union-attr]
    assert containers_of(BitMap([1]), 65_536) is None


@settings(max_examples=examples(48))
@given(st.data())
def test_damage_is_an_error_or_leaves_rows_of_the_file(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(KINDS, min_size=CONTAINERS, max_size=CONTAINERS))
    raw = bytearray(encode_bitmap(members(kinds, 7)))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, min(len(raw), 200) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)) | st.just(len(raw)))
    source, places = window([bytes(raw[:cut])])
    try:
        found = read_containers(source, places, np.array([0, 3, 11]), ROWS)
    except CorruptFileError:
        return
    assert all(not b or b.max() < ROWS for b in found)


def test_a_header_that_lies_is_told_with_its_place() -> None:
    raw = bytearray(encode_bitmap(members(["many"] * CONTAINERS, 1)))
    raw[8 + 4 * CONTAINERS + 4] ^= 1  # the second offset
    source, places = window([bytes(raw)])
    with pytest.raises(CorruptFileError, match="contradicts itself"):
        read_containers(source, places, np.array([0]), ROWS)


@pytest.mark.parametrize("version", ["1", "2"])
def test_values_that_claim_more_rows_than_there_are(version: str) -> None:
    fields = (DataField(0, "c", parse_type("STRING")),)
    options = {"file-index.bitmap.columns": "c", "file-index.bitmap.c.version": version}
    builder = FileIndexBuilder(parse_index_specs(options, fields), fields)
    builder.update(pa.RecordBatch.from_pydict({"c": ["a"] * 100 + ["b"] * 200}))
    container = builder.finish()
    right, wrong = encode_bitmap(BitMap(range(100))), encode_bitmap(BitMap(range(200)))
    assert container is not None and container.count(right) == 1 and len(right) == len(wrong)
    for data, total in ((container, 300), (container.replace(right, wrong), None)):
        index = FileIndex.open(BytesSource(data, "x.index"))
        (column,) = index_columns(index, "c", fields[0].type, ("bitmap",), 300)
        if total is not None:
            counts = column.counts(None)
            assert counts is not None and counts[1].sum() == total
        else:
            with pytest.raises(CorruptFileError, match="400 values in 300 rows"):
                column.counts(None)
