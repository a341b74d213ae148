"""Cutting few values out of Parquet pages: equal to decoding them whole, for every encoding, codec and type."""

from __future__ import annotations

import threading
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, from_arrow_schema, parse_type
from paimon_pyds.base.varints import varint
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet import column_pages, data_pages, page_picks, reader
from paimon_pyds.format.parquet import gather_values as gather
from paimon_pyds.format.parquet.gather_values import gather_values
from paimon_pyds.format.parquet.index_runs import index_page, indices_at
from paimon_pyds.format.parquet.page_index import PageTable
from paimon_pyds.format.parquet.page_picks import PagePick
from paimon_pyds.format.parquet.pages import decode_picks, heads_one_by_one, page_heads, read_head, read_heads
from paimon_pyds.format.parquet.small_pages import has_small_pages, small_pages
from paimon_pyds.format.parquet.source import ParquetSource
from paimon_pyds.format.parquet.thrift import I32, STRUCT, encode_struct
from paimon_pyds.format.parquet.writer import ParquetWriter
from paimon_pyds.format.threads import all_of
from paimon_pyds.storage import open_file_io
from support.data_files import read_file
from support.effort import sampled

N = 40_000
FIELDS = tuple(
    DataField(i, name, parse_type(type_))
    for i, (name, type_) in enumerate(
        [("id", "BIGINT NOT NULL"), ("small", "INT"), ("real", "DOUBLE"), ("code", "STRING"), ("text", "STRING"),
         ("blank", "STRING"), ("bytes", "BYTES"), ("money", "DECIMAL(30, 2)"), ("nano", "TIMESTAMP(9)"),
         ("few", "INT"), ("nothing", "INT")]
    )
)  # fmt: skip


def _table() -> pa.Table:
    rng = np.random.default_rng(11)
    mask = rng.random(N) < 0.2
    stretches = np.repeat(rng.random(N // 500) < 0.5, 500)
    columns: list[Any] = [
        np.arange(N),
        pa.array(rng.integers(0, 2**31, N, dtype=np.int32), mask=stretches),
        pa.array(rng.random(N), mask=mask),
        pa.array([f"{i:012d}" for i in rng.integers(0, 10**9, N)]),
        pa.array(["x" * int(n) + str(n) for n in rng.integers(0, 250, N)], mask=mask),
        pa.array(["", "y", "zz"] * (N // 3) + [""] * (N % 3)),
        pa.array([bytes(int(n) % 9) for n in rng.integers(0, 99, N)], mask=mask),
        pa.array(rng.integers(0, 10**9, N)).cast(pa.decimal128(30, 2)),
        pa.array(rng.integers(-(2**62), 2**62, N)).cast(pa.timestamp("ns")),
        pa.array(np.sort(rng.integers(0, 30, N)), mask=mask),
        pa.nulls(N, pa.int32()),
    ]
    schema = arrow_schema(FIELDS)
    return pa.Table.from_arrays([pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


TABLE = _table()


@pytest.mark.parametrize("codec", sampled(["none", "snappy", "gzip", "lz4", "zstd"], 2))
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(("dictionary", "few_pages"), [(True, 0), (False, 0), (False, 1_000)])
def test_gathered_pages_equal_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, version: str, dictionary: bool, few_pages: int
) -> None:
    """Of many pages headers are arrays, few are looked at one after the other."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        TABLE, path, compression=codec, data_page_version=version, use_dictionary=dictionary, data_page_size=20_000,
        dictionary_pagesize_limit=30_000, write_page_index=True, row_group_size=15_000, write_page_checksum=True,
        write_batch_size=128, use_deprecated_int96_timestamps=version == "1.0",
    )  # fmt: skip
    gathered: list[bool] = []
    indices: list[bool] = []

    def watched_indices(*arguments: Any) -> Any:
        found = indices_at(*arguments)
        indices.append(found is not None)
        return found

    monkeypatch.setattr("paimon_pyds.format.parquet.index_runs.indices_at", watched_indices)

    def watched(picks: Any, data: Any, *rest: Any) -> Any:
        found = gather_values(picks, data, *rest)
        gathered.extend(after is not before for after, before in zip(found[0], picks, strict=True))
        return found

    monkeypatch.setattr(gather, "gather_values", watched)
    monkeypatch.setattr(page_picks, "SINGLE_PAGE_MICROS", -1e6)
    monkeypatch.setattr(column_pages, "CONTEXT_BYTES", 1 << 20)
    for module in (gather, column_pages):
        monkeypatch.setattr(module, "FEW_PAGES", few_pages)
    rows = np.sort(np.random.default_rng(5).choice(N, 60, replace=False))
    assert _read(path, rows).equals(TABLE.take(pa.array(rows)))
    if version == "1.0":  # many pages of zstd are decompressed; of others, two columns have plain numbers and no NULL
        assert sum(gathered) >= (len(FIELDS) if codec == "zstd" and not few_pages else 0 if dictionary else 2)
    if version == "1.0" and dictionary:  # `blank` has few values and no NULL
        assert any(indices) == (not few_pages)


def _read(path: str, rows: Any, fields: tuple[DataField, ...] = FIELDS) -> pa.Table:
    return read_file(Path(path), fields, RowSelection.of(rows))


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        TABLE.select(["id"]), path, use_dictionary=False, compression="none", write_page_index=True,
        write_page_checksum=True, data_page_size=10_000,
    )  # fmt: skip
    data = bytearray(path.read_bytes())
    data[2_000] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="checksum"):
        read_file(path, FIELDS[:1], RowSelection.of([5, 6]))


@pytest.mark.parametrize("codec", ["snappy", "gzip", "lz4_raw", "zstd"])
@pytest.mark.parametrize("few_pages", [0, 1_000])
def test_a_page_that_ends_early_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, few_pages: int
) -> None:
    """pyarrow's codecs fill up with zeros what snappy, gzip and LZ4 don't give."""
    for module in (gather, column_pages):
        monkeypatch.setattr(module, "FEW_PAGES", few_pages)
    values = np.arange(100, dtype=np.int64).tobytes()
    plain = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": np.arange(100)}), plain, write_page_index=True, use_dictionary=False)
    io, name = open_file_io(str(plain))
    source = ParquetSource(io, name, plain.stat().st_size, ReadCounters())
    leaf, chunk = source.footer.leaves[0], source.footer.chunk(0, 0)
    levels = bytes.fromhex("03000000c80101")

    def pages(body: bytes) -> tuple[list[PagePick], bytes]:
        packed = pa.Codec(codec).compress(body, asbytes=True)
        head = {
            1: (I32, 0),
            2: (I32, 807),
            3: (I32, len(packed)),
            5: (STRUCT, {1: (I32, 100), 2: (I32, 0), 3: (I32, 3)}),
        }
        page = encode_struct(head) + packed
        of_codec = replace(chunk, codec=next(n for n, c in page_picks.CODECS.items() if c == codec))
        table = PageTable(np.array([of_codec.start]), np.array([len(page)]), np.array([0, 100]))
        return list(page_picks.pick_pages({0: (leaf, of_codec, table)}, np.array([0, 7])).values()), page

    picks, data = pages(levels + values)
    picks[0] = replace(picks[0], local=np.array([7]))
    found = gather_values([picks], [data], "f", 1, threading.Semaphore(0))
    assert decode_picks(*found, "f")[0].to_pylist() == [7]
    for lost in (1, 8, 500, 806):
        picks, data = pages((levels + values)[:-lost])
        picks[0] = replace(picks[0], local=np.array([99]))
        with pytest.raises(CorruptFileError):
            gather_values([picks], [data], "f", 1, threading.Semaphore(0))


@given(st.lists(st.integers(1, (1 << 20) - 1), min_size=1, max_size=9))
def test_levels_of_pages_without_null(counts: list[int]) -> None:
    lengths, words = data_pages._usual_levels(np.array(counts))
    for count, length, word in zip(counts, lengths.tolist(), words.tolist(), strict=True):
        assert int(word).to_bytes(8, "little")[:length] == data_pages.no_nulls(count)
        assert int(word) >> 8 * length == 0


@pytest.mark.parametrize("page_rows", [64, 512])
@pytest.mark.parametrize("few_pages", [0, 1_000])
def test_texts_of_one_length_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page_rows: int, few_pages: int
) -> None:
    """Whether all have it is known from all lengths before, even where the bytes would add up."""
    table = TABLE.select(["code", "id"])
    path, found = str(tmp_path / "a.parquet"), list[bool]()

    def watched(picks: Any, data: Any, *rest: Any) -> Any:
        result = gather_values(picks, data, *rest)
        found.append(result[0][0][0].boundaries.startswith(b"gathered"))
        return result

    monkeypatch.setattr(gather, "gather_values", watched)
    for module in (gather, column_pages):
        monkeypatch.setattr(module, "FEW_PAGES", few_pages)
    monkeypatch.setattr(column_pages, "SPARSE_BLOCK_BYTES", 5_000)
    monkeypatch.setattr(page_picks, "SINGLE_PAGE_MICROS", -1e6)
    rows = np.arange(50, N, 900)
    for one, gathered in (("", True), ("xx", False)):
        codes = table["code"].to_pylist()
        codes[20_020], codes[20_021] = codes[20_020] + one, codes[20_021][len(one) :]
        changed = table.set_column(0, "code", pa.array(codes))
        pq.write_table(
            changed, path, compression="zstd", use_dictionary=False, data_page_size=page_rows * 16,
            row_group_size=N // 2, write_batch_size=page_rows, write_page_index=True,
        )  # fmt: skip
        found.clear()
        wanted = np.sort(np.append(rows, 20_020))
        assert _read(path, wanted, (FIELDS[3],)).column(0).to_pylist() == [codes[i] for i in wanted]
        assert found == [gathered]


@pytest.mark.parametrize("few_pages", [0, 1_000])
@pytest.mark.parametrize("codec", ["zstd", "snappy"])
@pytest.mark.parametrize("texts", ["one length", "several lengths", ""])
def test_values_of_full_dictionaries_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_pages: int, codec: str, texts: str
) -> None:
    """The first pages have indices of a dictionary until it is full, the others need none: writers store plain values
    then."""
    values = TABLE["id"].combine_chunks()
    if texts:
        values = pa.array([f"{n:06d}" if texts == "one length" else str(n) * (1 + n % 2) for n in values.to_pylist()])
    table, path = pa.table({"c": values}), str(tmp_path / "a.parquet")
    pq.write_table(
        table, path, compression=codec, data_page_size=1_000, write_batch_size=256, dictionary_pagesize_limit=20_000,
        write_page_index=True, row_group_size=N // 2,
    )  # fmt: skip
    found: list[tuple[bool, int]] = []

    def watched(picks: Any, data: Any, *rest: Any) -> Any:
        ((result,), parts) = gather_values(picks, data, *rest)
        found.append((result[0].boundaries.startswith(b"gathered"), max(pick.prefix[1] for pick in result)))
        return [result], parts

    monkeypatch.setattr(gather, "gather_values", watched)
    for module in (gather, column_pages):
        monkeypatch.setattr(module, "FEW_PAGES", few_pages)
    monkeypatch.setattr(gather, "LARGE_DICTIONARIES", 0)
    monkeypatch.setattr(page_picks, "SINGLE_PAGE_MICROS", -1e6)
    fields = from_arrow_schema(table.schema)
    first, last = [5, 300, N // 2 + 600], [N // 2 - 1, N // 2 - 300, N - 1]
    for rows, gathered in ((first, True), (sorted(last), texts != "several lengths"), (sorted(first + last), False)):
        found.clear()
        assert _read(path, rows, fields)["c"].to_pylist() == [values[i].as_py() for i in rows]
        [(was_gathered, dictionary)] = found
        assert was_gathered == gathered
        assert (dictionary > 0) == (rows[0] == 5 and (not gathered or texts == "several lengths"))


def test_an_index_that_the_dictionary_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(TABLE.select(["id"]), path, write_page_index=True, compression="none")
    monkeypatch.setattr(gather, "LARGE_DICTIONARIES", 0)
    later = lambda *arguments: indices_at(*arguments) + 100_000  # noqa: E731
    monkeypatch.setattr("paimon_pyds.format.parquet.index_runs.indices_at", later)
    with pytest.raises(CorruptFileError, match="dictionary lacks"):
        _read(path, [5, 9], FIELDS[:1])


@pytest.mark.parametrize("read", [page_heads, heads_one_by_one])
@pytest.mark.parametrize("wrong", ["rows", "sizes", "chunk", "prefix"])
def test_headers_that_contradict_the_page_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any, wrong: str
) -> None:
    path, seen = str(tmp_path / "a.parquet"), list[Any]()
    pq.write_table(TABLE.select(["few"]), path, data_page_size=1_000, write_batch_size=128, write_page_index=True)

    def watched(picks: Any, data: Any, *rest: Any) -> Any:
        seen.extend([picks[0], data[0]])
        return gather_values(picks, data, *rest)

    monkeypatch.setattr(gather, "gather_values", watched)
    _read(path, [5, N // 2], FIELDS[9:10])
    [pick], data = seen
    read([pick], data)
    other = {
        "rows": pick.rows + np.arange(2),
        "sizes": pick.sizes + np.arange(2),
        "chunk": replace(pick.chunk, uncompressed_size=5),
        "prefix": (pick.prefix[0], pick.prefix[1] - 1),
    }[wrong]
    with pytest.raises(CorruptFileError):
        read([replace(pick, **{wrong: other})], data)


@pytest.mark.parametrize(("rows", "undone"), [(range(0, N, 700), True), ([5], False)])
def test_a_large_dictionary_for_few_pages_stays_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any, undone: bool
) -> None:
    """To copy it takes longer than the contexts of zstd that a few pages need."""
    table = pa.table({"code": TABLE["code"].take(pa.array(np.arange(N) % 2_000))})
    path, found = str(tmp_path / "a.parquet"), list[bool]()
    pq.write_table(table, path, compression="zstd", data_page_size=1_000, write_batch_size=256, write_page_index=True)

    def watched(picks: Any, data: Any, *rest: Any) -> Any:
        result = gather_values(picks, data, *rest)
        found.extend(after is not before for after, before in zip(result[0], picks, strict=True))
        return result

    monkeypatch.setattr(gather, "gather_values", watched)
    monkeypatch.setattr(page_picks, "PAGE_MICROS", -1e6)
    assert _read(path, list(rows), FIELDS[3:4]).equals(table.take(pa.array(list(rows))))
    assert found == [undone]


def test_rows_of_all_pages_of_looked_up_numbers_are_read_by_row_group(tmp_path: Path) -> None:
    """Such pages decode as fast one after the other, unless each needs a context of zstd."""
    path = str(tmp_path / "a.parquet")
    numbers = np.random.default_rng(3).integers(0, 300, (19, 28_800))
    table = pa.table({f"c{i}": pa.array(column, mask=column == 7) for i, column in enumerate(numbers)})
    pq.write_table(table, path, compression="lz4", write_page_index=True, data_page_size=7_000, write_batch_size=1_024)
    fields = from_arrow_schema(table.schema)
    counters = ReadCounters()
    rows = list(range(5, 28_800, 1_000))
    assert read_file(Path(path), fields, RowSelection.of(rows), counters).equals(table.take(pa.array(rows)))
    assert (counters.pages_read, counters.row_groups_read) == (0, 1)


# ------------------------------------------------------------------------------------------------------------- parts


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1, max_size=9), st.booleans())
def test_heads_at_once_equal_heads_one_by_one(numbers: list[tuple[int, int]], checksum: bool) -> None:
    heads = []
    for size, crc in numbers:
        of_kind = {1: (I32, size), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
        plain = {1: (I32, 0), 2: (I32, size), 3: (I32, size)}
        heads.append(encode_struct(plain | ({4: (I32, crc)} if checksum else {}) | {5: (STRUCT, of_kind)}) + b"body")
    data = b"".join(heads)
    positions = np.cumsum([0, *map(len, heads[:-1])])
    found = read_heads(data, positions)
    for place, position in enumerate(positions.tolist()):
        head = read_head(data, position)
        own = (head.kind, head.length, head.compressed, head.uncompressed, head.crc, *map(head.fields.get, (1, 2, 3)))
        assert tuple(int(numbers[place]) for numbers in astuple(found)) == own


def test_work_at_the_same_time() -> None:
    permits = threading.Semaphore(2)
    assert all_of([lambda n=n: n * n for n in range(20)], 3, permits) == [n * n for n in range(20)]  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        all_of([lambda: 1, lambda: 1 // 0, lambda: 2], 2, permits)
    assert all(permits.acquire(blocking=False) for _ in range(2))
    assert all_of([lambda: 1, lambda: 2], 2, permits) == [1, 2]


@pytest.mark.parametrize(("codec", "version"), [("zstd", "1.0"), ("snappy", "2.0")])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize(("every", "left_out"), [(1, []), (3, []), (1, [0, 7_000, N - 1])])
def test_small_pages_decoded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, version: str, dictionary: bool, every: int,
    left_out: list[int],
) -> None:  # fmt: skip
    """Columns whose pages end at other rows, several windows of rows, all rows and many of them."""
    path, windows = str(tmp_path / "a.parquet"), list[int]()
    pq.write_table(
        TABLE, path, compression=codec, data_page_version=version, use_dictionary=dictionary, data_page_size=900,
        write_batch_size=64, dictionary_pagesize_limit=30_000, write_page_index=True, row_group_size=15_000,
        use_deprecated_int96_timestamps=version == "1.0",
    )  # fmt: skip

    def watched(*arguments: Any) -> Any:
        for arrays in small_pages(*arguments):
            windows.append(len(arrays[0]))
            yield arrays

    monkeypatch.setattr("paimon_pyds.format.parquet.small_pages.small_pages", watched)
    monkeypatch.setattr(reader, "SMALL_PAGES_BYTES", 500_000)
    monkeypatch.setattr("paimon_pyds.format.parquet.small_pages.COPY_MICROS", -1.0)
    rows = np.setdiff1d(np.arange(0, N, every), left_out)
    assert _read(path, rows).combine_chunks().equals(TABLE.take(pa.array(rows)).combine_chunks())
    assert sum(windows) == N
    assert len(windows) > 6


def test_which_row_groups_have_small_pages(tmp_path: Path) -> None:
    """Those in which contexts of zstd take longer than to copy all bytes, and than the calls for each column and each
    part of the rows; of flat columns with a page index."""
    path, rows, several = tmp_path / "a.parquet", 60_000, [f"c{i}" for i in range(20)]
    numbers = {name: np.arange(rows) for name in ("id", *several)}
    table = pa.table({**numbers, "list": pa.array([[1]] * rows)})
    for columns, page_rows, options, small in (
        (["id"], 512, {}, True),
        (several, 512, {}, True),
        (several, 512, {"rows_at_once": 100}, False),
        (several, 60_000, {}, False),
        (["id"], 6_144, {}, False),
        (["id"], 512, {"compression": "snappy"}, False),
        (["id"], 512, {"write_page_index": False}, False),
        (["id", "list"], 512, {}, False),
    ):
        rows_at_once = options.pop("rows_at_once", rows)
        settings = {"compression": "zstd", "write_page_index": True, "use_dictionary": False, **options}
        pq.write_table(
            table.select(columns), path, data_page_size=page_rows * 8, write_batch_size=page_rows, **settings
        )
        io, name = open_file_io(str(path))
        footer = ParquetSource(io, name, path.stat().st_size, ReadCounters()).footer
        chunks = [footer.chunk(0, leaf.index) for leaf in footer.leaves]
        assert has_small_pages(footer.leaves, chunks, rows_at_once * 8 * len(columns)) == small


def test_one_page_of_few_rows_is_no_small_page(tmp_path: Path) -> None:
    """Files of ours: their offset indexes end with a checksum, which is no page."""
    io, path = open_file_io(str(tmp_path / "a.parquet"))
    fields = from_arrow_schema(pa.schema([("id", pa.int64())]))
    writer = ParquetWriter(io, path, fields, {})
    writer.write(pa.record_batch({"id": np.arange(2_000)}))
    size = writer.close()
    footer = ParquetSource(io, path, size, ReadCounters()).footer
    assert not has_small_pages(footer.leaves, [footer.chunk(0, 0)], 8 << 20)


@pytest.mark.parametrize(
    "left_out", [[0], list(range(14_990, 15_010)), list(range(0, N, 50)), list(range(15_000, 30_000))]
)
def test_rows_left_out(tmp_path: Path, left_out: list[int]) -> None:
    """Nearly all rows are wanted, as beside a deletion vector: those left out are masked."""
    path = str(tmp_path / "a.parquet")
    pq.write_table(TABLE, path, row_group_size=15_000, write_page_index=True)
    rows = np.setdiff1d(np.arange(N), left_out)
    assert _read(path, rows).combine_chunks().equals(TABLE.take(pa.array(rows)).combine_chunks())


@st.composite
def _pages_of_indices(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    """A page of runs in the order of Parquet's Encodings.md, and what it holds, value by value."""
    width = draw(st.integers(0, 32))
    value, body, held = st.integers(0, (1 << width) - 1), bytearray([width]), list[int]()
    for is_packed, size in draw(st.lists(st.tuples(st.booleans(), st.integers(0, 70)), min_size=1, max_size=6)):
        if is_packed:
            values = draw(st.lists(value, min_size=8, max_size=8)) * size
            body += varint(size << 1 | 1)
            body += sum(v << i * width for i, v in enumerate(values)).to_bytes(size * width, "little")
        else:
            one = draw(value)
            values = [one] * size
            body += varint(size << 1) + one.to_bytes((width + 7) // 8, "little")
        held += values
    return bytes(body), held


@given(st.lists(_pages_of_indices(), min_size=1, max_size=4), st.randoms(), st.binary(min_size=8, max_size=8))
def test_indices_are_found_without_decoding_the_others(
    pages: list[tuple[bytes, list[int]]], random: Any, before: bytes
) -> None:
    picked = [
        (number, sorted(random.sample(range(len(held)), min(len(held), 5)))) for number, (_, held) in enumerate(pages)
    ]
    page = np.array([number for number, places in picked for _ in places], np.int64)
    local = np.array([place for _, places in picked for place in places], np.int64)
    sizes = np.array([len(body) for body, _ in pages])
    ends = len(before) + np.cumsum(sizes)
    data = before + b"".join(body for body, _ in pages)
    wanted = [pages[number][1][place] for number, places in picked for place in places]
    assume(wanted)
    found = indices_at(np.frombuffer(data, np.uint8), ends - sizes, ends, page, local)
    assert found is not None and found.tolist() == wanted
    again = np.frombuffer(index_page(found) + bytes(8), np.uint8)
    at, none = np.zeros(1, np.int64), np.zeros(len(found), np.int64)
    decoded = indices_at(again, at, at + len(again) - 8, none, np.arange(len(found)))
    assert decoded is not None and decoded.tolist() == wanted
    # Cut off, a page never gives what is not its own.
    cut = ends - np.array([random.randrange(size + 1) for size in sizes.tolist()])
    short = indices_at(np.frombuffer(data, np.uint8), ends - sizes, cut, page, local)
    assert short is None or short.tolist() == wanted
