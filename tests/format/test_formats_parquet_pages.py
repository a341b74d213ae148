"""Reading single pages of Parquet files, and choosing between pages and row groups."""

from __future__ import annotations

import os
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet import source
from paimon_pyds.format.parquet.footer import Chunk, Footer, Leaf, read_footer
from paimon_pyds.format.parquet.page_index import decode_locations, decode_offset_indexes, encode_offset_indexes
from paimon_pyds.format.parquet.page_picks import PagePick, choose
from paimon_pyds.format.parquet.thrift import I32, I64, LIST, STRUCT, encode_struct
from paimon_pyds.storage import forget, open_file_io
from paimon_pyds.storage.local import LocalFileIO
from support.data_files import open_reader, read_file, write_file
from support.effort import sampled
from support.pages import always_pages
from support.values import lines

N = 60_000
NESTED = {"type": "ARRAY", "element": "INT"}
FIELDS = tuple(
    DataField(i, name, parse_type(type_))
    for i, (name, type_) in enumerate(
        [("id", "BIGINT NOT NULL"), ("few", "STRING"), ("text", "STRING"), ("real", "DOUBLE"), ("nano", "TIMESTAMP(9)"),
         ("money", "DECIMAL(30, 2)"), ("list", NESTED), ("flag", "BOOLEAN")]
    )
)  # fmt: skip


def _table() -> pa.Table:
    rng = np.random.default_rng(3)
    empty = rng.random(N) < 0.1
    columns: list[Any] = [
        np.arange(N),
        pa.array([f"kind {k}" for k in rng.integers(0, 40, N)], mask=empty),
        pa.array(["t" * (i % 300) + str(i) for i in range(N)]),
        pa.array(rng.random(N), mask=empty),
        pa.array(rng.integers(-(2**62), 2**62, N)).cast(pa.timestamp("ns")),
        pa.array(rng.integers(0, 10**9, N)).cast(pa.decimal128(30, 2)),
        pa.array([[i, None] if i % 3 else None for i in range(N)]),
        pa.array(rng.random(N) < 0.5),
    ]
    schema = arrow_schema(FIELDS)
    return pa.Table.from_arrays([pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


TABLE = _table()


@pytest.fixture(scope="module", params=sampled(["ours", "v1", "v2", "plain"], 2))
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as we write it, and as others might."""
    path = tmp_path_factory.mktemp("pages") / "a.parquet"
    if request.param == "ours":
        write_file(path, FIELDS, TABLE, {"file.block-size": "2 mb"})
        return path
    version = "2.0" if request.param == "v2" else "1.0"
    pq.write_table(
        TABLE, path, row_group_size=25_000, data_page_version=version, write_page_index=True, data_page_size=3000,
        use_deprecated_int96_timestamps=True, use_dictionary=request.param != "plain",
        compression="none" if request.param == "plain" else "snappy",
    )  # fmt: skip
    return path


@pytest.mark.parametrize(
    "rows", [[0], [N - 1], [5, 6, 7, 30_000, 59_000], list(range(100, 9000)), list(range(0, N, 7))]
)
def test_selected_rows(path: Path, rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = TABLE.take(rows)
    wanted = RowSelection.of(rows)
    assert read_file(path, FIELDS, wanted).equals(expected)
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.choose", always_pages)
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.too_many_rows", lambda selected, rows: False)
    counters = ReadCounters()
    assert read_file(path, FIELDS, wanted, counters).equals(expected)
    assert counters.pages_read > 0
    flat = [FIELDS[3], FIELDS[0], FIELDS[4]]
    assert read_file(path, flat, wanted, batch_rows=10).equals(expected.select(["real", "id", "nano"]))


def test_everything_and_nothing(path: Path) -> None:
    assert read_file(path, FIELDS, RowSelection.ALL, batch_rows=10_000).equals(TABLE)
    counters = ReadCounters()
    reader = open_reader(path, counters)
    before = counters.bytes_read
    assert list(reader.read(FIELDS, RowSelection.NONE, 10)) == []
    assert counters.bytes_read == before
    holes = RowSelection.of([3, 40_000]).invert(N)
    assert read_file(path, FIELDS, holes).equals(TABLE.take(holes.to_array(N)))


def test_one_row_reads_few_bytes(path: Path) -> None:
    counters = ReadCounters()
    flat = [f for f in FIELDS if f.name != "list"]
    found = read_file(path, flat, RowSelection.of([33_333]), counters)
    assert found.equals(TABLE.drop_columns(["list"]).slice(33_333, 1))
    assert counters.bytes_read - counters.footer_bytes < path.stat().st_size / 3
    assert counters.row_groups_read == 1
    assert "pages" in counters.notes[0]


def test_page_reads_are_limited_per_pass(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many row groups are not taken on at once."""
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.choose", always_pages)
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.PASS_VALUES", 1)
    counters = ReadCounters()
    rows = [1, 26_000, 52_000]
    assert read_file(path, FIELDS[:4], RowSelection.of(rows), counters).equals(TABLE.select(range(4)).take(rows))
    assert len(counters.notes) >= 2


@pytest.mark.parametrize("threads", [1, 2, 4])
@settings(max_examples=max(10, settings().max_examples // 10))
@given(
    rows=st.lists(st.integers(0, N - 1), min_size=1, max_size=60, unique=True).map(sorted),
    chosen=st.lists(st.frozensets(st.integers(0, len(FIELDS))), min_size=1, max_size=4),
    size=st.sampled_from([900, 65_536]),
)
def test_some_columns_by_pages_and_others_whole(
    path: Path, threads: int, rows: list[int], chosen: list[frozenset[int]], size: int
) -> None:
    """Each row group chooses for itself; what is read on threads comes in the order of rows."""
    turns = cycle(chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pa, "cpu_count", lambda: threads)
        patch.setattr(
            "paimon_pyds.format.parquet.reader.choose",
            lambda picks, n: (next(turns) & set(picks), choose(picks, n)[1]),
        )
        patch.setattr("paimon_pyds.format.parquet.reader.PASS_VALUES", 30_000)
        counters = ReadCounters()
        assert read_file(path, FIELDS, RowSelection.of(rows), counters, batch_rows=size).equals(TABLE.take(rows))
    assert counters.bytes_read < 3 * path.stat().st_size


def _picks(physical: int, pages: int, wanted: int, value_bytes: float = 8) -> tuple[PagePick, int]:
    """One row each of some pages of a compressed chunk of plain values."""
    page_rows = 6_144
    rows = pages * page_rows
    chunk = Chunk(physical, 6, (0, 3), (b"c",), rows, 4, 4 * rows, int(value_bytes * rows), None, None, None)
    leaf = Leaf(0, ("c",), physical, 0, 0, {}, b"")
    lengths = np.full(wanted, page_rows, np.int64)
    starts = np.arange(wanted, dtype=np.int64) * 4 * page_rows
    return PagePick(leaf, chunk, starts, 4 * lengths, lengths, np.cumsum(lengths) - 1, (0, 0), b""), pages


def test_what_is_read_by_pages() -> None:
    """Few pages by themselves, all pages of texts with the row group; numbers are cut out of all pages, and so are
    texts that may have one length."""
    number, text = 2, 6
    few = {0: _picks(number, 100, 5), 1: _picks(text, 100, 5, 8.5)}
    every = {0: _picks(number, 100, 100), 1: _picks(text, 100, 100, 8.5)}
    assert choose(few, 614_400)[0] == {0, 1}
    leaves, cost = choose(every, 614_400)
    assert leaves == {0}
    assert cost.pages_micros < cost.group_micros
    assert choose({1: every[1]}, 614_400)[0] == frozenset()
    assert choose({1: _picks(text, 100, 100, 8.01)}, 614_400)[0] == {1}


# --------------------------------------------------------------------------------------------------------- page index


@given(pages=st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**31 - 1), st.integers(1, 2**33)), max_size=40))
def test_offset_index_round_trip(pages: list[tuple[int, int, int]]) -> None:
    sizes = np.array([p[1] for p in pages], np.int64)
    offsets = np.cumsum([p[0] for p in pages], dtype=np.int64) + np.cumsum(sizes)
    rows = np.cumsum([0, *[p[2] for p in pages]], dtype=np.int64)[: len(pages)]
    data = encode_offset_indexes([(offsets, sizes, rows)])[0]
    plain = [
        {1: (I64, int(o)), 2: (I32, int(s)), 3: (I64, int(r))} for o, s, r in zip(offsets, sizes, rows, strict=True)
    ]
    assert data == encode_struct({1: (LIST, (STRUCT, plain))})
    other = encode_struct({1: (LIST, (STRUCT, [{**p, 9: (I32, 1)} for p in plain])), 4: (I32, 7)})
    more = encode_struct({1: (LIST, (STRUCT, plain)), 2: (LIST, (I64, [1 << 40] * len(plain)))})
    for together in ([data], [other], [more], [data, more, data], [more, other, data]):
        found = decode_locations(together)
        assert len(found) == len(together)
        for locations in found:
            for got, wanted in zip(locations, (offsets, sizes, rows), strict=True):
                assert got.tolist() == wanted.tolist()
    for cut in (1, 2):
        with pytest.raises(CorruptFileError):
            decode_locations([data, data[:-cut]])


def _footer(path: Path) -> tuple[Footer, Any]:
    io, name = open_file_io(str(path))
    size = path.stat().st_size
    return Footer(read_footer(io, name, size, ReadCounters())[0], name, size), io


def test_offset_index_that_lies(path: Path) -> None:
    """Pages outside their chunk, or rows that do not ascend, are refused before anything is read."""
    footer, io = _footer(path)
    chunk = footer.chunk(0, 0)
    assert chunk.offset_index is not None
    rows = footer.groups[0][1]
    [(offsets, sizes, first)] = decode_locations([io.read_range(str(path), *chunk.offset_index)])
    good = encode_offset_indexes([(offsets, sizes, first)])[0]
    decode_offset_indexes([good], [chunk], [rows])
    back = first[::-1].copy()
    for bad in [
        (offsets + 10**7, sizes, first),
        (offsets - offsets[0] + chunk.start - 8, sizes, first),
        (offsets, sizes + 1, first),
        (offsets, sizes, first + 1),
        (offsets, sizes, back),
        (offsets[::-1].copy(), sizes, first),
    ]:
        with pytest.raises(CorruptFileError):
            decode_offset_indexes([good, encode_offset_indexes([bad])[0]], [chunk, chunk], [rows, rows])
    with pytest.raises(CorruptFileError):
        decode_offset_indexes([good], [chunk], [int(first[-1])])
    with pytest.raises(CorruptFileError):
        decode_offset_indexes([encode_offset_indexes([(offsets[:0], sizes[:0], first[:0])])[0]], [chunk], [rows])


def test_wrong_page_bounds_are_told_from_the_page_headers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that gives a page a row of its neighbour would shift rows; the page headers say so."""
    from paimon_pyds.format.parquet import source

    real = source.decode_offset_indexes

    def shifted(*args: Any) -> Any:
        tables = real(*args)
        tables[0].first_rows[1] += 1
        return tables

    monkeypatch.setattr(source, "LOCAL_INDEXES", ByteLimitedCache(1 << 20))
    monkeypatch.setattr(source, "decode_offset_indexes", shifted)
    with pytest.raises(CorruptFileError, match="page index"):
        read_file(path, FIELDS[:1], RowSelection.of([5]))


def test_notes_and_counters(path: Path) -> None:
    counters = ReadCounters()
    rows = list(range(0, N, 20_000))
    assert lines(read_file(path, FIELDS[:1], RowSelection.of(rows), counters)) == lines(TABLE.select([0]).take(rows))
    total = ReadCounters()
    total.add(counters)
    assert total.pages_read == counters.pages_read >= 1
    assert counters.rows_decoded < N
    assert counters.requests >= 1


def test_footer_and_page_index_of_many_pages_are_kept_for_the_next_read(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", RowSelection.of([5, 90_000])

    def write(first: int) -> None:
        table = pa.table({"id": np.arange(first, first + 100_000)})
        pq.write_table(
            table, path, write_page_index=True, max_rows_per_page=32, use_dictionary=False, compression="none"
        )

    def read() -> tuple[list[int], ReadCounters]:
        counters = ReadCounters()
        with closing(open_reader(path, counters)) as reader:
            batches = list(reader.read(FIELDS[:1], rows, 10))
        return [value for batch in batches for value in batch.column(0).to_pylist()], counters

    write(0)
    found, first = read()
    assert found == [5, 90_000] and first.footer_bytes > 0 and first.index_bytes > 0
    found, again = read()
    assert found == [5, 90_000] and again.footer_bytes == again.index_bytes == 0 < again.bytes_read
    forget(LocalFileIO(), str(path))  # as is done of a file that proved to be damaged
    found, anew = read()
    assert found == [5, 90_000] and anew.footer_bytes > 0
    size = path.stat().st_size
    write(100_000)  # another file of the same length takes its place
    os.utime(path, ns=(0, 1_234_567_890))
    assert path.stat().st_size == size
    found, replaced = read()
    assert found == [100_005, 190_000] and replaced.footer_bytes > 0


def test_kept_page_indexes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, weights = ByteLimitedCache(1_500_000), []
    monkeypatch.setattr(source, "LOCAL_INDEXES", kept)
    for number in range(4):
        path = tmp_path / f"{number}.parquet"
        table = pa.table({"id": np.arange(20_000)})
        pq.write_table(table, path, write_page_index=True, max_rows_per_page=1, use_dictionary=False)
        read_file(path, FIELDS[:1], RowSelection.of([number]))
        weights.append(kept.weight)
    assert 0 < weights[0] < weights[1] and max(weights) <= kept.limit < 4 * weights[0]
