"""Writing Parquet data files: round trips, physical types, encodings, row groups stitched together."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.format import ReadCounters, by_name
from paimon_pyds.format.parquet import writer
from paimon_pyds.format.parquet.encodings import choose_encodings
from paimon_pyds.format.parquet.settings import WriterOptions
from paimon_pyds.format.parquet.source import ParquetSource
from paimon_pyds.format.parquet.thrift import decode_struct
from paimon_pyds.storage import open_file_io
from support.data_files import fields_of, read_file, table_of, write_file
from support.pages import always_pages
from support.strategies import tables
from support.values import lines

FORMAT = by_name("parquet")
WRITER = pq.ParquetWriter.__init__.__code__.co_varnames
row_limits = pytest.mark.skipif("max_rows_per_page" not in WRITER, reason="this pyarrow can't limit a page's rows")
integer_decimals = pytest.mark.skipif("store_decimal_as_integer" not in WRITER, reason="needs pyarrow 17 or later")


# -------------------------------------------------------------------------------------------------------- round trips


@given(data=tables())
def test_round_trip(data: tuple[tuple[DataField, ...], pa.Table], tmp_path_factory: pytest.TempPathFactory) -> None:
    fields, table = data
    path = tmp_path_factory.mktemp("parquet") / "data-1.parquet"
    write_file(path, fields, table, batch_rows=7)
    for rows in (1000, 3):  # a row group at once, and in parts
        found = read_file(path, fields, batch_rows=rows)
        assert found.schema == table.schema
        assert lines(found) == lines(table)


@given(data=tables(max_rows=60), rows=st.integers(1, 20), threads=st.integers(1, 3), room=st.sampled_from([0, 1 << 20]))
def test_row_groups_are_stitched(
    data: tuple[tuple[DataField, ...], pa.Table],
    rows: int,
    threads: int,
    room: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Many row groups, encoded on threads, are one file that pyarrow and our reader understand alike.

    ``room`` is what the memory to encode into has beside that of the rows: without it, it is too small.
    """
    fields, table = data
    path = tmp_path_factory.mktemp("parquet") / "data-1.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_ROWS", rows)
        patch.setattr(writer, "FOOTER_BYTES", room)
        patch.setattr(pa, "cpu_count", lambda: threads)
        write_file(path, fields, table, {"parquet.page.row.count.limit": "3"}, batch_rows=11)
    file = pq.ParquetFile(path)
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert file.metadata.num_rows == sum(sizes) == table.num_rows
    assert set(sizes[:-1]) <= {rows}
    assert file.read().num_rows == table.num_rows
    assert lines(read_file(path, fields)) == lines(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paimon_pyds.format.parquet.reader.choose", always_pages)
        patch.setattr("paimon_pyds.format.parquet.reader.too_many_rows", lambda selected, rows: False)
        for step in (2, 5):
            wanted = RowSelection.of(range(0, table.num_rows, step))
            assert lines(read_file(path, fields, wanted)) == lines(table.take(wanted.to_array(table.num_rows)))


@integer_decimals
def test_all_of_java_types(tmp_path: Path) -> None:
    """The physical types of Java Paimon 1.4 (format notes of its files), field ids included."""
    row = {"type": "ROW", "fields": [{"id": 71, "name": "x", "type": "SMALLINT"}]}
    texts = [
        "BIGINT NOT NULL", "TINYINT", "SMALLINT", "DATE", "TIME(0)", "TIMESTAMP(3)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE", "DECIMAL(9, 2)", "DECIMAL(18, 2)", "DECIMAL(20, 2)", "DECIMAL(38, 10)",
        "CHAR(3)", "BINARY(3)", row, {"type": "ARRAY", "element": "INT"},
        {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, {"type": "MULTISET", "element": "STRING NOT NULL"},
    ]  # fmt: skip
    fields = tuple(DataField(10 + i, f"c{i}", parse_type(t)) for i, t in enumerate(texts))
    path = tmp_path / "a.parquet"
    write_file(path, fields, arrow_schema(fields).empty_table())
    text = str(pq.ParquetFile(path).schema)
    for line in [
        "required int64 field_id=10 c0;",
        "optional int32 field_id=11 c1 (Int(bitWidth=8, isSigned=true));",
        "optional int32 field_id=12 c2 (Int(bitWidth=16, isSigned=true));",
        "optional int32 field_id=13 c3 (Date);",
        "optional int32 field_id=14 c4 (Time(isAdjustedToUTC=true, timeUnit=milliseconds));",
        "field_id=15 c5 (Timestamp(isAdjustedToUTC=false, timeUnit=milliseconds",
        "field_id=16 c6 (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "optional int32 field_id=17 c7 (Decimal(precision=9, scale=2));",
        "optional int64 field_id=18 c8 (Decimal(precision=18, scale=2));",
        "optional fixed_len_byte_array(9) field_id=19 c9 (Decimal(precision=20, scale=2));",
        "optional fixed_len_byte_array(16) field_id=20 c10 (Decimal(precision=38, scale=10));",
        "optional binary field_id=21 c11 (String);",
        "optional binary field_id=22 c12;",
        "optional group field_id=23 c13 {",
        "optional int32 field_id=71 x (Int(bitWidth=16, isSigned=true));",
        "optional group field_id=24 c14 (List) {",
        "repeated group field_id=-1 list {",
        "optional int32 field_id=536895488 element;",
        "optional group field_id=25 c15 (Map) {",
        "repeated group field_id=-1 key_value {",
    ]:
        assert line in text, line


@pytest.mark.parametrize(
    "element",
    ["DECIMAL(4, 2)", "TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", {"type": "ARRAY", "element": "INT"}],
)
def test_multisets_that_java_cannot_read(element: Any, tmp_path: Path) -> None:
    """Java writes such Parquet files, and fails to read them (seen of 1.4.2); a MAP of the same keys it reads."""
    multiset = {"type": "MULTISET", "element": element}
    for type_ in (multiset, {"type": "ARRAY", "element": multiset}):
        fields = fields_of("INT", type_)
        with pytest.raises(UnsupportedError, match="MULTISET"):
            FORMAT.check_writer(fields, {})
        with pytest.raises(UnsupportedError, match="MULTISET"):
            write_file(tmp_path / "a.parquet", fields, arrow_schema(fields).empty_table())
    assert not (tmp_path / "a.parquet").exists()
    FORMAT.check_writer(fields_of({"type": "MAP", "key": element, "value": "INT"}), {})


def test_nanoseconds_are_int96(tmp_path: Path) -> None:
    """Java misreads INT64 nanoseconds, and fails on a filter on INT96 where it expects INT64: only these are INT96."""
    fields = fields_of(
        "TIMESTAMP(9)",
        "TIMESTAMP(3)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        {"type": "ARRAY", "element": "TIMESTAMP(7)"},
    )
    nanos = [1, -1, None, 1_700_000_000_123_456_789]
    days = [253402300799999, -62135596800000, None, 5]
    micros = [253402300799999999, -62135596800000000, -1, None]
    table = table_of(fields, nanos, days, micros, [[1], None, [], [-1, None]])
    path = tmp_path / "a.parquet"
    write_file(path, fields, table)
    file = pq.ParquetFile(path)
    assert [file.schema.column(i).physical_type for i in range(4)] == ["INT96", "INT64", "INT64", "INT96"]
    assert [file.metadata.row_group(0).column(i).is_stats_set for i in range(4)] == [False, True, True, False]
    assert file.read(["c0"]).column(0).cast(pa.int64()).to_pylist() == nanos
    assert read_file(path, fields).equals(table)


def test_nanoseconds_out_of_range(tmp_path: Path) -> None:
    """What Java can write and Arrow can't hold is an error, not another time."""
    path = tmp_path / "a.parquet"
    far = pa.table({"c0": pa.array([0, 253402300799999999, None], pa.timestamp("us"))})
    pq.write_table(far, path, use_deprecated_int96_timestamps=True)
    with pytest.raises(UnsupportedError, match="9999-12-31T23:59:59"):
        read_file(path, fields_of("TIMESTAMP(9)"))
    assert read_file(path, fields_of("TIMESTAMP(6)")).column(0).to_pylist()[1] == dt.datetime(
        9999, 12, 31, 23, 59, 59, 999999
    )
    assert read_file(path, fields_of("TIMESTAMP(3)")).column(0).to_pylist()[1] == dt.datetime(
        9999, 12, 31, 23, 59, 59, 999000
    )


# ----------------------------------------------------------------------------------------------------------- settings


def test_encodings() -> None:
    """Small dictionaries where values repeat, plain else."""
    n = 40_000
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "up": pa.array(np.arange(n)),
            "few": pa.array(rng.integers(0, 50, n)),
            "narrow": pa.array(rng.integers(0, 2_000_000, n, dtype=np.int32)),
            "hash": pa.array(rng.integers(-(2**63), 2**63 - 1, n)),
            "real": pa.array(rng.random(n)),
            "real_few": pa.array(rng.integers(0, 9, n).astype(float)),
            "name": pa.array([f"name {i % 30}" for i in range(n)]),
            "key": pa.array([f"key {i}" for i in range(n)]),
            "moment": pa.array(1_700_000_000_000_000 + np.arange(n) * 1000, pa.timestamp("us")),
            "flag": pa.array(rng.random(n) < 0.5),
            "nothing": pa.nulls(n, pa.int32()),
            "price": pa.array(rng.integers(0, 10**6, n)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(18, 0)),
        }
    )
    assert set(choose_encodings(table, dictionary=True).dictionary) == {"few", "real_few", "name"}
    assert choose_encodings(table, dictionary=False).dictionary == []
    assert choose_encodings(table, dictionary=True).dense == {"hash", "real"}


@pytest.mark.parametrize("name", [None, "zstd", "snappy"])
def test_numbers_that_do_not_get_shorter_are_stored_as_they_are(name: str | None, tmp_path: Path) -> None:
    """Unless the table says how files are compressed."""
    n = 50_000
    rng = np.random.default_rng(1)
    real = rng.random(n)
    fields = fields_of("BIGINT", "DOUBLE", "DOUBLE", {"type": "ARRAY", "element": "DOUBLE"})
    holes = pa.array(real, mask=rng.random(n) < 0.3)
    table = table_of(fields, np.arange(n), pa.array(real), holes, [[float(i)] for i in range(n)])
    write_file(tmp_path / "a.parquet", fields, table, {} if name is None else {"file.compression": name})
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0)
    packed = (name or "zstd").upper()
    dense = "UNCOMPRESSED" if name is None else packed
    assert [group.column(i).compression for i in range(4)] == [packed, dense, dense, packed]
    assert read_file(tmp_path / "a.parquet", fields).equals(table)
    rows = [0, 5, 4_000, n - 1]
    assert read_file(tmp_path / "a.parquet", fields, RowSelection.of(rows)).equals(table.take(rows))


@row_limits
def test_pages_are_small_and_indexed(tmp_path: Path) -> None:
    n = 100_000
    fields = fields_of("BIGINT", "STRING", "STRING")
    table = table_of(fields, np.arange(n), [f"{i % 7}" for i in range(n)], ["x" * (i % 900) for i in range(n)])
    path = tmp_path / "a.parquet"
    write_file(path, fields, table)
    column = pq.ParquetFile(path).metadata.row_group(0)
    assert all(column.column(i).has_offset_index and column.column(i).has_column_index for i in range(3))
    # Java returns wrong values of packed columns where it skips rows.
    assert not any("DELTA" in encoding for i in range(3) for encoding in column.column(i).encodings)
    assert "RLE_DICTIONARY" in column.column(1).encodings
    assert read_file(path, fields, RowSelection.of([5, 77_777])).equals(table.take([5, 77_777]))
    source = ParquetSource(open_file_io(str(path))[0], str(path), path.stat().st_size, ReadCounters())
    tables = source.tables((0, leaf) for leaf in range(3))
    assert max(np.diff(t.first_rows).max() for t in tables.values()) <= 10 * 1024
    header = source.read([(int(tables[0, 2].offsets[7]), int(tables[0, 2].sizes[7]))])[0]
    assert decode_struct(header)[0][2][1] < 400 << 10  # uncompressed_page_size


@pytest.mark.parametrize("name", ["zstd", "SNAPPY", "gzip", "lz4", "none"])
def test_compressions(name: str, tmp_path: Path) -> None:
    fields = fields_of("INT", "STRING")
    table = table_of(fields, list(range(5000)), [f"value {i % 10}" for i in range(5000)])
    write_file(tmp_path / "a.parquet", fields, table, {"file.compression": name, "file.compression.zstd-level": "3"})
    assert read_file(tmp_path / "a.parquet", fields).equals(table)
    codec = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(1).compression
    assert codec == {"lz4": "LZ4", "none": "UNCOMPRESSED"}.get(name, name.upper())


def test_options() -> None:
    options = WriterOptions.parse({"file.block-size": "64 mb", "parquet.enable.dictionary": "false"})
    assert (options.group_bytes, options.dictionary, options.compression, options.level) == (64 << 20, False, "zstd", 1)
    with pytest.raises(UnsupportedError, match="brotli"):
        WriterOptions.parse({"file.compression": "brotli"})
    for bad in [
        {"file.compression": "zip"},
        {"file.block-size": "many"},
        {"parquet.page.size": "0"},
        {"file.compression.zstd-level": "23"},
    ]:
        with pytest.raises(OptionError):
            WriterOptions.parse(bad)


def test_block_size_bounds_row_groups(tmp_path: Path) -> None:
    fields = fields_of("BIGINT")
    table = table_of(fields, np.random.default_rng(0).integers(0, 2**62, 50_000))
    write_file(tmp_path / "a.parquet", fields, table, {"file.block-size": "100 kb"})
    meta = pq.ParquetFile(tmp_path / "a.parquet").metadata
    assert [meta.row_group(i).num_rows for i in range(3)] == [12_800] * 3
    assert read_file(tmp_path / "a.parquet", fields).equals(table)


def test_tiny_batches(tmp_path: Path) -> None:
    fields = fields_of("INT", "STRING")
    table = table_of(fields, list(range(3000)), [str(i) for i in range(3000)])
    write_file(tmp_path / "a.parquet", fields, table, batch_rows=1)
    assert read_file(tmp_path / "a.parquet", fields).equals(table)
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 1


def test_bytes_written_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_ROWS", 10_000)
    fields = fields_of("BIGINT", "DOUBLE")
    rng = np.random.default_rng(0)
    table = table_of(fields, rng.integers(0, 2**62, 100_000), rng.random(100_000))
    io, name = open_file_io(str(tmp_path / "a.parquet"))
    target = FORMAT.open_writer(io, name, fields, {})
    seen = []
    for batch in table.to_batches(5_000):
        target.write(batch)
        seen.append(target.bytes_written)
    size = target.close()
    assert seen == sorted(seen)
    assert 0.8 * size < seen[-1] < 1.2 * size


# ------------------------------------------------------------------------------------------------------------- errors


def test_wrong_batches(tmp_path: Path) -> None:
    io, name = open_file_io(str(tmp_path / "a.parquet"))
    target = FORMAT.open_writer(io, name, fields_of("INT NOT NULL"), {})
    with pytest.raises(SchemaError, match="int64"):
        target.write(pa.record_batch({"c0": pa.array([1], pa.int64())}))
    with pytest.raises(SchemaError, match="'c0' is NOT NULL"):
        target.write(pa.record_batch({"c0": pa.array([1, None], pa.int32())}))
    target.abort()
    assert list(tmp_path.iterdir()) == []
