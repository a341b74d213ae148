"""What indexes tell of a column as a whole, against the values they were built of: all types, NULL, some rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.aggregate import ORDERING, IndexedColumn, index_columns
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.decode import decode_index
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import BITMAP, BSI, RANGE_BITMAP, key_codec, supports
from paimon_pyds.storage.byte_source import BytesSource
from support.strategies import ATOMS, column

OWN = {
    RANGE_BITMAP: [{}, {"chunk-size": "0 b"}, {"chunk-size": "16 b"}],
    BITMAP: [{}, {"version": "1"}, {"index-block-size": "32 b"}],
    BSI: [{}],
}


def open_index(type_: str, index_type: str, own: dict[str, str], values: pa.Array) -> FileIndex:
    """An index built of these values."""
    fields = (DataField(0, "c", parse_type(type_)),)
    builder = FileIndexBuilder([IndexSpec("c", None, index_type, own)], fields)
    builder.update(pa.record_batch([values], names=["c"]))
    return FileIndex.open(BytesSource(builder.finish(), "some.index"))


@st.composite
def indexed(draw: st.DrawFn) -> tuple[list[Any], IndexedColumn, BitMap | None]:
    """Keys of some rows, an index of them, and a choice of rows."""
    index_type = draw(st.sampled_from(ORDERING))
    type_ = draw(st.sampled_from([t for t in ATOMS if supports(index_type, parse_type(t))]))
    few = draw(column(type_, size=6))
    places = draw(st.lists(st.integers(0, 5), min_size=1, max_size=40))
    values = few.take(pa.array(places))
    keys = key_codec(parse_type(type_)).keys_of(values).to_pylist()
    if index_type == BSI:
        values = values.filter(pa.array([k != -(2**63) for k in keys]))
        keys = [k for k in keys if k != -(2**63)]
    if not any(k is not None for k in keys):
        keys, values = [None], pa.nulls(1, values.type)
    own = draw(st.sampled_from(OWN[index_type]))
    (found,) = index_columns(
        open_index(type_, index_type, own, values), "c", parse_type(type_), (index_type,), len(values)
    ) or (None,)
    rows = draw(st.none() | st.sets(st.integers(0, len(values) - 1)).map(BitMap))
    return keys, found, rows


@pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
@given(indexed(), st.integers(1, 12), st.booleans())
def test_an_index_knows_its_column(case: Any, n: int, largest: bool) -> None:
    keys, index, rows = case
    if index is None:  # all NULL: the container says EMPTY
        assert keys == [None]
        return
    chosen = range(len(keys)) if rows is None else sorted(rows)
    there = {i: keys[i] for i in chosen if keys[i] is not None}
    assert sorted(index.nulls(rows)) == [i for i in chosen if keys[i] is None]
    best = sorted(there.values(), reverse=largest)[:n]
    found, of = index.best(rows, n, largest=largest, ties=False, keys=True)
    assert [there[i] for i in found] == of.to_pylist()
    assert sorted(of.to_pylist(), reverse=largest) == best
    tied, none = index.best(rows, n, largest=largest, ties=True, keys=False)
    assert none is None
    assert sorted(tied) == [i for i in there if best and (there[i] >= best[-1] if largest else there[i] <= best[-1])]
    counts = index.counts(rows)
    if counts is not None:
        assert dict(zip(counts[0].to_pylist(), counts[1].tolist(), strict=True)) == Counter(there.values())
        assert len(counts[0]) == len(set(there.values()))
    if not any(isinstance(key, bytes) for key in there.values()):
        total = index.total(rows)
        assert total is None or total == sum(there.values())


def test_a_lone_value_is_told_to_the_last_bit() -> None:
    """Keys are 64-bit integers: a float on the way loses some of them."""
    index = open_index("DOUBLE", RANGE_BITMAP, {}, pa.array([float("-inf"), None, float("-inf")]))
    key = -9218868437227405313
    (found,) = index_columns(index, "c", parse_type("DOUBLE"), (RANGE_BITMAP,), 3)
    assert found.best(None, 1, largest=True, ties=False, keys=True)[1].to_pylist() == [key]  # type: ignore[union-attr]
    reader = index.reader("c", RANGE_BITMAP, parse_type("DOUBLE"))
    assert decode_index(reader, key_codec(parse_type("DOUBLE"))).keys.to_pylist() == [key]  # type: ignore[arg-type]


@pytest.mark.parametrize("index_type", [BITMAP, RANGE_BITMAP])
def test_a_text_that_is_none_is_told_with_the_file(index_type: str) -> None:
    whole = open_index("STRING", index_type, {}, pa.array(["aéb", None, "c"]))
    data = whole._source.read(0, whole._source.size)
    index = FileIndex.open(BytesSource(data.replace("é".encode(), b"\xff\xfe"), "x.index"))
    (found,) = index_columns(index, "c", parse_type("STRING"), (index_type,), 3)
    asked = (lambda: found.counts(None), lambda: found.best(None, 3, largest=False, ties=False, keys=True))
    for ask in asked:
        with pytest.raises(CorruptFileError, match=r"a text that is not UTF-8.*x\.index"):
            ask()


def test_a_wrong_number_of_rows_is_told_with_the_file() -> None:
    index = open_index("INT", RANGE_BITMAP, {}, pa.array([1, 2, 3], pa.int32()))
    with pytest.raises(CorruptFileError, match=r"is of 3 rows, the file has 4 .*at some\.index"):
        index_columns(index, "c", parse_type("INT"), (RANGE_BITMAP,), 4)
