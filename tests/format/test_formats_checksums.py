"""Checksums where formats have room: other readers pass over them, and no changed byte goes unnoticed here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds import format as formats
from paimon_pyds.base.checksums import block_checksums
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import CorruptFileError, PaimonError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.orc.encoding import BLOCK_BYTES, BlockSums, OrcChecksums
from paimon_pyds.format.orc.input import CheckedRanges
from paimon_pyds.format.parquet.page_index import agrees
from paimon_pyds.format.parquet.source import ParquetSource
from paimon_pyds.format.parquet.thrift import I32, LIST, check_struct, decode_struct, encode_struct, with_checksum
from paimon_pyds.storage.local import LocalFileIO
from support.data_files import read_file
from support.effort import sampled

IO = LocalFileIO()
FIELDS = [DataField(i, f"c{i}", parse_type(t)) for i, t in enumerate(("BIGINT", "STRING", "DOUBLE", "TIMESTAMP(6)"))]


def _write(path: Path, count: int, rows: int, options: dict[str, str]) -> pa.RecordBatch:
    """A file of the first so many fields."""
    fields = FIELDS[:count]
    values = [range(rows), [f"text {i * i}" for i in range(rows)], [i / 7 for i in range(rows)], range(rows)]
    batch = pa.record_batch(
        [pa.array(list(v), f.type) for v, f in zip(values, arrow_schema(fields), strict=False)],
        schema=arrow_schema(fields),
    )
    writer = formats.by_path(str(path)).open_writer(IO, str(path), fields, options)
    writer.write(batch)
    writer.close()
    return batch


@pytest.mark.parametrize("count", [3, 4], ids=["plain", "timestamps"])
@pytest.mark.parametrize("codec", sampled(["zstd", "zlib", "snappy", "lz4", "none"], 2))
def test_no_byte_of_an_orc_file_changes_unnoticed(tmp_path: Path, codec: str, count: int) -> None:
    path = tmp_path / "a.orc"
    right = pa.Table.from_batches([_write(path, count, 300, {"file.compression": codec})])
    assert read_file(path, FIELDS[:count]).equals(right)
    assert pyarrow.orc.read_table(path)["c1"].to_pylist() == right["c1"].to_pylist()
    data = path.read_bytes()
    for at in range(0, len(data), 23):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            assert read_file(path, FIELDS[:count]).equals(right), at
        except PaimonError as error:
            assert str(path) in str(error)


def test_an_orc_file_of_many_blocks_and_stripes(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    batch = _write(path, 3, 60_000, {"file.compression": "none", "orc.stripe.size": "256 kb"})
    data = path.read_bytes()
    assert len(data) > 8 * BLOCK_BYTES
    assert read_file(path, FIELDS[:3]).equals(pa.Table.from_batches([batch]))
    path.write_bytes(data[: 5 * BLOCK_BYTES] + b"\xee" + data[5 * BLOCK_BYTES + 1 :])
    with pytest.raises(CorruptFileError, match=rf"checksum.*byte {5 * BLOCK_BYTES}.*a\.orc"):
        read_file(path, FIELDS[:3])


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 3000)), max_size=12), st.integers(1, 5000))
def test_any_ranges_of_checked_blocks(ranges: list[tuple[int, int]], size: int) -> None:
    data = bytes(i * i % 251 for i in range(size + 50))
    checked = CheckedRanges(
        lambda at, n: data[at : at + n],
        OrcChecksums(512, 0, tuple(block_checksums(data[:size], 512))),
        size,
        (size, 50),
        "f",
    )
    for at, length in ranges:
        length = max(0, min(length, size - at))
        if length:
            assert checked.read(at, length) == data[at : at + length]
    assert checked.read(size + 1, 20) == data[size + 1 : size + 21]
    with pytest.raises(CorruptFileError, match="statistics"):
        checked.read(size, 50)


@given(st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=6))
def test_checksums_of_what_comes_piece_by_piece(lengths: list[int]) -> None:
    sums, whole = BlockSums(), bytearray()
    for number, length in enumerate(lengths):
        sums.update(bytes([number]) * length)
        whole += bytes([number]) * length
    assert sums.finish() == block_checksums(bytes(whole), BLOCK_BYTES)


def test_a_sealed_struct_is_read_by_all_and_no_bit_of_it_changes_unnoticed() -> None:
    message = encode_struct({1: (I32, 7), 3: (LIST, (I32, [1, 2, 3]))})
    whole = with_checksum(message)
    found, end = decode_struct(whole)
    assert end == len(whole) and {i: found[i] for i in (1, 3)} == decode_struct(message)[0]
    check_struct(whole, "x")
    check_struct(message, "x")
    for at in range(8 * len(whole)):
        bad = bytearray(whole)
        bad[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptFileError, match="checksum"):
            check_struct(bytes(bad), "x")


def test_footers_and_page_indexes_of_parquet_are_sealed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    batch = _write(path, 4, 20_000, {})
    assert pq.read_table(path)["c1"].to_pylist() == batch["c1"].to_pylist()
    source = ParquetSource(IO, str(path), path.stat().st_size, ReadCounters())
    chunk = source.footer.chunk(0, 0)
    source.close()
    data = path.read_bytes()
    assert chunk.column_index is not None and chunk.offset_index is not None
    for (at, length), name in ((chunk.column_index, "ColumnIndex"), (chunk.offset_index, "OffsetIndex")):
        place = at + length // 2
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        damaged = ParquetSource(IO, str(path), len(data), ReadCounters())
        with pytest.raises(CorruptFileError, match=rf"checksum.*{name}.*a\.parquet"):
            damaged.bounds([(0, 0)])
        damaged.close()
    path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    with pytest.raises(CorruptFileError, match=r"a\.parquet"):
        ParquetSource(IO, str(path), len(data), ReadCounters())


def test_a_page_index_that_contradicts_its_row_group_is_not_believed(tmp_path: Path) -> None:
    """As of a file that another writer made, without checksums."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": pa.array(range(10_000), pa.int64())})
    pq.write_table(table, path, write_page_index=True, data_page_size=1000, use_dictionary=False)
    source = ParquetSource(IO, str(path), path.stat().st_size, ReadCounters())
    index, chunk = source.bounds([(0, 0)])[0, 0], source.footer.chunk(0, 0)
    source.close()
    assert agrees(chunk, index)
    assert chunk.column_index is not None
    at, length = chunk.column_index
    data, high = path.read_bytes(), (9_999).to_bytes(8, "little")
    assert data[at : at + length].count(high) == 1
    path.write_bytes(data[:at] + data[at : at + length].replace(high, bytes(8)) + data[at + length :])
    source = ParquetSource(IO, str(path), len(data), ReadCounters())
    assert (0, 0) not in source.bounds([(0, 0)])
    source.close()
