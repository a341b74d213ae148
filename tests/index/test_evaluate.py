"""Evaluation: what is read, in which order, what is explained, and what is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from paimon_pyds.base.types import DataField, arrow_type, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.container import write_container
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import INDEX_TYPES
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Leaf, Op, Or
from paimon_pyds.storage.byte_source import BytesSource

ROWS = 200_000
INT, STRING = parse_type("INT"), parse_type("STRING")
A, B, S = ColumnRef("a", (), INT), ColumnRef("b", (), INT), ColumnRef("s", (), STRING)


class Recorder(BytesSource):
    """A source that tells what was asked of it, and in how many calls."""

    calls = 0

    def _note(self, ranges: list[tuple[int, int]]) -> None:
        self.__dict__["calls"] = self.calls + 1
        self.__dict__.setdefault("asked", []).extend(ranges)

    @property
    def asked(self) -> list[tuple[int, int]]:
        return self.__dict__.setdefault("asked", [])  # type: ignore[no-any-return]

    def read(self, offset: int, length: int) -> bytes:
        self._note([(offset, length)])
        return super().read(offset, length)

    def read_many(self, ranges: list[tuple[int, int]]) -> list[bytes]:  # type: ignore[override]
        self._note(list(ranges))
        return [super(Recorder, self).read(o, n) for o, n in ranges]


@pytest.fixture(scope="module")
def container() -> bytes:
    rng = np.random.default_rng(5)
    batch = pa.record_batch(
        [
            pa.array(rng.integers(0, 5000, ROWS).astype(np.int32)),
            pa.array(rng.integers(0, 5000, ROWS).astype(np.int32)),
            pa.array([f"user-{i:06d}" for i in rng.integers(0, 50_000, ROWS)]),
        ],
        ["a", "b", "s"],
    )
    specs = [
        IndexSpec("a", None, "bitmap", {}),
        IndexSpec("a", None, "bloom-filter", {}),
        IndexSpec("b", None, "range-bitmap", {}),
        IndexSpec("b", None, "bloom-filter", {}),
        IndexSpec("s", None, "bitmap", {}),
        IndexSpec("s", None, "bloom-filter", {}),
    ]
    builder = FileIndexBuilder(specs, [DataField(0, "a", INT), DataField(1, "b", INT), DataField(2, "s", STRING)])
    for start in range(0, ROWS, 30_000):
        builder.update(batch.slice(start, 30_000))
    data = builder.finish()
    assert data is not None
    return data


def test_one_value_reads_one_block_and_one_bitmap(container: bytes) -> None:
    source = Recorder(container)
    index = FileIndex.open(source)
    result = index.evaluate(Leaf(Op.EQ, A, (77,)), ROWS)
    assert len(container) > 1_500_000
    assert result.exact
    assert 0 < result.selection.count(ROWS) < 100
    assert result.bytes_read == sum(n for _, n in source.asked) < 60_000
    asked = len(source.asked)
    again = index.evaluate(Leaf(Op.EQ, A, (77,)), ROWS)
    assert (again.selection, again.bytes_read, len(source.asked)) == (result.selection, 0, asked)


def test_a_bloom_filter_is_probed_byte_by_byte(container: bytes) -> None:
    source = Recorder(container)
    index = FileIndex.open(source)
    before = index.bytes_read
    absent = index.evaluate(Leaf(Op.EQ, B, (1_000_000,)), ROWS)
    assert absent.selection.is_none
    assert [t.index_type for t in absent.trace] == ["range-bitmap"]  # its head alone says no
    single = FileIndex.open(Recorder(_only(container, "b", "bloom-filter")))
    opened = single.bytes_read
    result = single.evaluate(Leaf(Op.IN, B, (1_000_000, 2_000_000)), ROWS)
    assert result.selection.is_none
    assert single.bytes_read - opened <= 4 + 2 * 3
    assert index.bytes_read - before < 2000


def _only(container: bytes, column: str, kind: str) -> bytes:
    where = FileIndex.open(BytesSource(container)).head.columns[column][kind]
    return write_container({column: {kind: container[where.start : where.start + where.length]}})


def test_and_stops_at_the_first_no_and_asks_the_cheap_first(container: bytes) -> None:
    index = FileIndex.open(BytesSource(container))
    nothing = Leaf(Op.EQ, A, (-1,))
    result = index.evaluate(And((Leaf(Op.LT, B, (3000,)), nothing)), ROWS)
    assert result.selection.is_none
    assert result.exact
    assert [(t.column, t.index_type) for t in result.trace] == [("a", "bitmap")]


def test_or_stops_when_a_part_remains(container: bytes) -> None:
    index = FileIndex.open(BytesSource(container))
    free = Leaf(Op.EQ, ColumnRef("other", (), INT), (1,))
    result = index.evaluate(Or((Leaf(Op.LT, B, (3000,)), free)), ROWS)
    assert result.selection.is_all
    assert [t.column for t in result.trace] == ["other"]


def test_prefixes_by_a_dictionary(container: bytes) -> None:
    index = FileIndex.open(BytesSource(container))
    for leaf in (Leaf(Op.STARTS_WITH, S, ("user-00001",)), Leaf(Op.LIKE, S, ("user-00001%", "\\"))):
        result = index.evaluate(leaf, ROWS)
        assert result.exact
        assert 0 < result.selection.count(ROWS) < 100
        assert index.evaluate(leaf, ROWS, extended=False).selection.is_all
    wide = index.evaluate(Leaf(Op.STARTS_WITH, S, ("user",)), ROWS)
    assert wide.selection.is_all  # too much to read for what it can tell


def test_an_index_of_another_file_is_refused(container: bytes) -> None:
    index = FileIndex.open(BytesSource(container, "data-1.parquet.index"))
    with pytest.raises(CorruptFileError, match="the file has 5") as caught:
        index.evaluate(Leaf(Op.EQ, A, (1,)), 5)
    assert caught.value.path == "data-1.parquet.index"


def test_unknown_index_types_and_types_it_does_not_take_remain() -> None:
    data = write_container({"a": {"lucene": b"whatever"}, "s": {"bsi": b"\x01"}})
    index = FileIndex.open(BytesSource(data))
    assert list(index.head.columns["a"]) == ["lucene"]
    assert index.evaluate(Leaf(Op.EQ, A, (1,)), 5).selection.is_all
    assert index.evaluate(Leaf(Op.EQ, S, ("x",)), 5).selection.is_all
    assert index.reader("a", "lucene", INT) is None


def test_empty_indexes_skip_what_no_null_satisfies() -> None:
    index = FileIndex.open(BytesSource(write_container({"a": {"bitmap": None}})))
    for op, literals in ((Op.EQ, (1,)), (Op.IN, (1, 2)), (Op.LT, (1,)), (Op.GE, (1,)), (Op.IS_NOT_NULL, ())):
        assert index.evaluate(Leaf(op, A, literals), 0).selection.is_none
    for op, literals in ((Op.IS_NULL, ()), (Op.NE, (1,)), (Op.NOT_IN, (1,))):
        assert index.evaluate(Leaf(op, A, literals), 0).selection.is_all


def test_comparisons_with_null_select_nothing(container: bytes) -> None:
    index = FileIndex.open(BytesSource(container))
    for leaf in (Leaf(Op.EQ, A, (None,)), Leaf(Op.NOT_IN, A, (1, None)), Leaf(Op.LT, B, (None,))):
        assert index.evaluate(leaf, ROWS).selection.is_none
    assert (
        index.evaluate(Leaf(Op.IN, A, (1, None)), ROWS).selection
        == index.evaluate(Leaf(Op.EQ, A, (1,)), ROWS).selection
    )


@pytest.mark.parametrize(
    ("kinds", "asked"),
    [
        (INDEX_TYPES, {Op.EQ: "bitmap", Op.IN: "bitmap", Op.NE: "bitmap", Op.LT: "range-bitmap", Op.IS_NULL: "bitmap"}),
        (("bsi", "range-bitmap", "bloom-filter"), {Op.EQ: "bsi", Op.GE: "range-bitmap", Op.IS_NOT_NULL: "bsi"}),
        (("bsi", "bitmap"), {Op.NOT_IN: "bitmap", Op.GT: "bsi"}),
    ],
)
def test_of_several_indexes_the_one_that_answers_best_is_asked_alone(
    kinds: tuple[str, ...], asked: dict[Op, str]
) -> None:
    builder = FileIndexBuilder([IndexSpec("a", None, kind, {}) for kind in kinds], [DataField(0, "a", INT)])
    builder.update(pa.record_batch([pa.array([None, 1, 2, 3] * 50, pa.int32())], ["a"]))
    data = builder.finish()
    assert data is not None
    index = FileIndex.open(BytesSource(data))
    for op, kind in asked.items():
        literals = () if op in (Op.IS_NULL, Op.IS_NOT_NULL) else (1, 9) if op in (Op.IN, Op.NOT_IN) else (2,)
        result = index.evaluate(Leaf(op, A, literals), 200)
        assert result.exact
        assert [t.index_type for t in result.trace] == [kind], op


def test_many_points_are_read_together(container: bytes) -> None:
    source = Recorder(container)
    index = FileIndex.open(source)
    wanted = tuple(range(0, 5000, 50))
    index.evaluate(Leaf(Op.EQ, A, (-1,)), ROWS)  # opens the index
    before = source.calls
    together = index.evaluate(Leaf(Op.IN, A, wanted), ROWS).selection
    assert source.calls - before <= 2  # the blocks of the dictionary, then the bitmaps
    apart = FileIndex.open(BytesSource(container)).evaluate(Or(tuple(Leaf(Op.EQ, A, (v,)) for v in wanted)), ROWS)
    assert together == apart.selection


@pytest.mark.parametrize("text", ["INT", "STRING"])
def test_a_range_bitmap_reads_one_chunk_of_its_dictionary(text: str) -> None:
    type_ = parse_type(text)
    numbers = pa.array(np.arange(0, 2 * ROWS, 2, np.int32))
    values = numbers if text == "INT" else pa.array([f"user-{n:06d}" for n in numbers.to_pylist()])
    builder = FileIndexBuilder(
        [IndexSpec("c", None, "range-bitmap", {"chunk-size": "4 kb"})], [DataField(0, "c", type_)]
    )
    builder.update(pa.record_batch([values], ["c"]))
    container = builder.finish()
    assert container is not None
    source = Recorder(container)
    index = FileIndex.open(source)
    wanted = values[77_777].as_py()
    found = index.evaluate(Leaf(Op.EQ, ColumnRef("c", (), type_), (wanted,)), ROWS)
    assert found.exact and list(found.selection.to_array(ROWS)) == [77_777]
    reader = index.reader("c", "range-bitmap", type_)
    assert isinstance(reader, RangeBitmapReader)
    where = reader._dictionary_window
    read = sum(n for offset, n in source.asked if where.origin <= offset < where.origin + where.size)
    assert where.size > 800_000
    assert read < where.size // 20  # the heads of all chunks, and one chunk


def test_nanoseconds_are_cut_the_safe_way() -> None:
    """TIMESTAMP(9) is indexed by microseconds: comparisons keep every row that may match."""
    type_ = parse_type("TIMESTAMP(9)")
    ref = ColumnRef("t", (), type_)
    builder = FileIndexBuilder([IndexSpec("t", None, "bsi", {})], [DataField(0, "t", type_)])
    builder.update(pa.record_batch([pa.array([-1001, -1000, -1, 0, 999, 1000, 1500, None], arrow_type(type_))], ["t"]))
    data = builder.finish()
    assert data is not None
    index = FileIndex.open(BytesSource(data))

    def rows(op: Op, *literals: int) -> tuple[list[int], bool]:
        result = index.evaluate(Leaf(op, ref, literals), 8)
        return list(result.selection.to_array(8)), result.exact

    assert rows(Op.LT, 1000) == ([0, 1, 2, 3, 4], True)
    assert rows(Op.LT, 1001) == ([0, 1, 2, 3, 4, 5, 6], False)
    assert rows(Op.LE, 0) == ([0, 1, 2, 3, 4], False)
    assert rows(Op.GE, 0) == ([3, 4, 5, 6], True)
    assert rows(Op.GT, 0) == ([3, 4, 5, 6], False)
    assert rows(Op.EQ, -1) == ([1, 2], False)
    assert rows(Op.NE, 0) == ([0, 1, 2, 3, 4, 5, 6], False)


def test_a_small_cache_changes_nothing_but_what_is_read(container: bytes) -> None:
    large, small = FileIndex.open(BytesSource(container)), FileIndex.open(BytesSource(container), cache_bytes=0)
    for leaf in (Leaf(Op.LT, B, (1234,)), Leaf(Op.EQ, A, (5,)), Leaf(Op.EQ, S, ("user-000001",))):
        first = large.evaluate(leaf, ROWS).selection
        assert small.evaluate(leaf, ROWS).selection == first
        assert large.evaluate(leaf, ROWS).bytes_read == 0
        assert small.evaluate(leaf, ROWS).selection == first
    assert small.bytes_read > large.bytes_read
