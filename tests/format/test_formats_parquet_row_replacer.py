"""Files that differ from others in some rows, with the other pages copied: as files that are written anew."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError, SchemaError
from paimon_pyds.format import by_name
from paimon_pyds.format.parquet import row_replacer
from paimon_pyds.format.parquet.footer import Footer
from paimon_pyds.format.parquet.page_index import decode_column_index, decode_offset_indexes
from paimon_pyds.format.parquet.pages import read_heads
from paimon_pyds.format.parquet.prune import column_stats, page_bounds
from paimon_pyds.format.parquet.thrift import check_struct
from paimon_pyds.format.protocols import RowReplacer
from paimon_pyds.format.statistics import StatsCollector, encode_stats
from paimon_pyds.storage.local import LocalFileIO
from support.data_files import fields_of, read_file, table_of, write_file
from support.effort import LONG, SEED

PARQUET, IO = by_name("parquet"), LocalFileIO()
TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT NOT NULL", "FLOAT", "DOUBLE", "STRING", "CHAR(3)", "BYTES",
    "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "DECIMAL(5, 2)",
    "DECIMAL(18, 4)", "DECIMAL(30, 3)",
)  # fmt: skip


def values_of(type_: str, rows: int, rng: np.random.Generator, *, nulls: bool = True) -> list[Any]:
    """Values, often few different ones, often in stretches of NULLs, and sometimes sorted."""
    spread = int(rng.choice([5, 100, 10_000]))
    numbers = rng.integers(-spread, spread, rows).tolist()
    if rng.random() < 0.3:
        numbers.sort(reverse=bool(rng.random() < 0.5))
    kind = type_.split("(")[0].split()[0]
    make = {
        "BOOLEAN": lambda n: n % 2 == 0,
        "TINYINT": lambda n: n % 100,
        "FLOAT": lambda n: n / 4,
        "DOUBLE": lambda n: n / 3 if n else -0.0,
        "STRING": lambda n: "é" * (n % 3) + str(n),
        "CHAR": lambda n: chr(97 + n % 26) * 3,
        "BYTES": lambda n: n.to_bytes(4, "big", signed=True),
        "TIME": abs,
        "DECIMAL": lambda n: Decimal(n % 9999).scaleb(-2),
    }.get(kind, lambda n: n)
    found = [make(n) for n in numbers]
    if nulls and "NOT NULL" not in type_:
        stretch = rng.integers(0, rows), rng.integers(0, rows)
        empty = rng.random(rows) < rng.choice([0, 0.1])
        empty[min(stretch) : max(stretch) if rng.random() < 0.3 else min(stretch)] = True
        found = [None if null else value for value, null in zip(found, empty.tolist(), strict=True)]
    return found


def changed_rows(rows: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Some runs of rows, and single ones."""
    found = set[int]()
    for _ in range(rng.integers(1, 4)):
        first = int(rng.integers(0, rows))
        found |= {
            n for n in range(first, min(rows, first + int(rng.integers(1, 80)))) if rng.random() < 0.8 or n == first
        }
    return np.array(sorted(found), np.int64)


def replacer_of(path: Path, fields: tuple[DataField, ...], options: dict[str, str], at: Any) -> RowReplacer | None:
    return PARQUET.row_replacer(IO, (str(path), path.stat().st_size), fields, options, np.asarray(at, np.int64))


@pytest.mark.parametrize("number", range(300 if LONG else 8))
def test_random_rows_of_random_files(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_replacer, "MOST_GROUPS", 10_000)
    rng = np.random.default_rng(SEED * 1_000 + number)
    rows = int(rng.integers(200, 3_000 if LONG else 1_500))
    types = rng.choice(TYPES, rng.integers(1, 4), replace=False).tolist()
    fields = fields_of(*types)
    options = {
        "parquet.page.row.count.limit": str(rng.choice([16, 50])),
        "file.block-size": str(rng.choice(["2 KB", "128 MB"])),
        "parquet.enable.dictionary": str(rng.choice(["true", "false"])),
    }
    if rng.random() < 0.5:
        options["file.compression"] = str(rng.choice(["zstd", "snappy", "gzip", "lz4", "none"]))
    table = table_of(fields, *(values_of(t, rows, rng) for t in types))
    path = tmp_path / "0.parquet"
    write_file(path, fields, table, options)
    for generation in range(1, 4):
        at = changed_rows(rows, rng)
        fresh = table_of(fields, *(values_of(t, len(at), rng) for t in types))
        order = np.arange(rows)
        order[at] = rows + np.arange(len(at))
        table = pa.concat_tables([table, fresh]).take(order).combine_chunks()
        replacer = replacer_of(path, fields, options, at)
        path = tmp_path / f"{generation}.parquet"
        if replacer is None:
            write_file(path, fields, table, options)
            continue
        assert np.isin(at, replacer.rows).all()
        assert replacer.write(table.take(replacer.rows).to_batches(), str(path)) == path.stat().st_size
        check(path, fields, table, options, rng)
        check_statistics(replacer, fields, table)


@pytest.mark.parametrize("number", range(400 if LONG else 8))
def test_scattered_rows_of_random_files(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED * 2_000 + number)
    rows = int(rng.integers(300, 3_000 if LONG else 1_500))
    types = rng.choice([t for t in TYPES if t != "BOOLEAN"], rng.integers(1, 3), replace=False).tolist()
    fields = fields_of(*types)
    options = {
        "parquet.page.row.count.limit": str(rng.choice([16, 50])),
        "file.block-size": str(rng.choice(["2 KB", "128 MB"])),
        "parquet.enable.dictionary": str(rng.choice(["true", "true", "false"])),
        "file.compression": str(rng.choice(["zstd", "snappy", "gzip", "lz4", "none"])),
    }
    table = table_of(fields, *(values_of(t, rows, rng, nulls=rng.random() < 0.2) for t in types))
    path = tmp_path / "0.parquet"
    write_file(path, fields, table, options)
    for generation in range(1, 4):
        at = np.sort(rng.choice(rows, int(rng.integers(rows // 60, rows // 17)), replace=False))
        same = rng.random() < 0.5
        fresh = table_of(fields, *(values_of(t, len(at), rng, nulls=rng.random() < 0.2) for t in types))
        if same:
            fresh = table.take(rng.integers(0, rows, len(at)))
        order = np.arange(rows)
        order[at] = rows + np.arange(len(at))
        replacer = replacer_of(path, fields, options, at)
        table = pa.concat_tables([table, fresh]).take(order).combine_chunks()
        path = tmp_path / f"{generation}.parquet"
        if replacer is None:
            write_file(path, fields, table, options)
            continue
        assert replacer.write(table.take(replacer.rows).to_batches(), str(path)) == path.stat().st_size
        check(path, fields, table, options, rng)
        check_statistics(replacer, fields, table)


def check(
    path: Path, fields: tuple[DataField, ...], table: pa.Table, options: dict[str, str], rng: np.random.Generator
) -> None:
    """All readers read these rows, and everything that the file says of itself is so."""
    assert read_file(path, fields).equals(table)
    some = np.sort(rng.choice(len(table), 7, replace=False))
    assert read_file(path, fields, RowSelection.of(some)).equals(table.take(some))
    plain = pq.read_table(path)
    assert plain.cast(table.schema).equals(table)
    strings = [name for name in plain.schema.names if plain.schema.field(name).type in (pa.string(), pa.binary())]
    by_dictionary = pq.read_table(path, read_dictionary=strings)
    assert by_dictionary.cast(plain.schema).equals(plain)
    assert pl.read_parquet(path).to_arrow().cast(table.schema).equals(table)
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()
        assert found.cast(table.schema, safe=False).equals(table)
        for name, type_ in zip(table.schema.names, table.schema.types, strict=True):
            value = table[name].drop_null()[:1]
            if not len(value):
                continue
            expected = pc.sum(pc.equal(table[name], value[0])).as_py()
            assert len(pq.read_table(path, filters=[(name, "==", value[0])])) == expected
            if pa.types.is_integer(type_) or pa.types.is_string(type_):  # it leaves row groups out by dictionaries
                query = f"SELECT count(*) FROM '{path}' WHERE {name} = ?"
                assert connection.execute(query, [value[0].as_py()]).fetchall() == [(expected,)]
    check_layout(path, fields, table)


def check_layout(path: Path, fields: tuple[DataField, ...], table: pa.Table) -> None:
    data = path.read_bytes()
    footer_data = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert check_struct(footer_data, "FileMetaData")
    footer = Footer(footer_data, str(path), len(data))
    metadata, end = pq.ParquetFile(path).metadata, 4
    for group, (start, stop) in enumerate(footer.groups):
        size = 0
        for leaf, field in zip(footer.leaves, fields, strict=True):
            chunk, meta = footer.chunk(group, leaf.index), footer.chunk_meta(group, leaf.index)
            assert chunk.start == end and chunk.values == stop - start
            end = chunk.stop
            assert chunk.offset_index is not None
            offset, length = chunk.offset_index
            (pages,) = decode_offset_indexes([data[offset : offset + length]], [chunk], [stop - start])
            heads = read_heads(data, pages.offsets)
            dictionary = read_heads(data, np.array([chunk.start])) if pages.offsets[0] > chunk.start else None
            uncompressed = int((heads.length + heads.uncompressed).sum())
            listed = {(s[1][1], s[2][1]): s[3][1] for s in meta[13][1][1]}
            if dictionary is not None:
                uncompressed += int((dictionary.length + dictionary.uncompressed).sum())
                assert listed.pop((2, 0)) == 1
            assert uncompressed == chunk.uncompressed_size
            assert listed == {(0, e): int((heads.encoding == e).sum()) for e in set(heads.encoding.tolist())}
            assert set(heads.encoding.tolist()) <= set(chunk.encodings)
            size += uncompressed
            values = table[field.name].slice(start, stop - start)
            stats = metadata.row_group(group).column(leaf.index).statistics
            assert stats.null_count == values.null_count
            if chunk.column_index is None:
                assert not stats.has_min_max
                continue
            offset, length = chunk.column_index
            index = decode_column_index(data[offset : offset + length], len(pages))
            counts = np.diff(pages.first_rows).tolist()
            bounds = column_stats(leaf, field.type, page_bounds(leaf, index, counts))
            for page, (first, count) in enumerate(zip(pages.first_rows.tolist(), counts, strict=False)):
                held = values.slice(first, count)
                both = pc.min_max(held)
                assert bounds.null_count[page].as_py() == held.null_count
                if held.null_count < len(held):
                    assert (bounds.min[page], bounds.max[page]) == (both["min"], both["max"])
            if values.null_count < len(values):
                assert pq_bounds(stats, values.type) == [pc.min_max(values)[end] for end in ("min", "max")]
        assert metadata.row_group(group).total_byte_size == size
        assert metadata.row_group(group).num_rows == stop - start


def pq_bounds(stats: Any, type_: pa.DataType) -> list[pa.Scalar]:
    return [pa.array([each]).cast(type_)[0] if each is not None else None for each in (stats.min, stats.max)]


def check_statistics(replacer: RowReplacer, fields: tuple[DataField, ...], table: pa.Table) -> None:
    """Manifests get the same statistics as of all rows."""
    for mode in ("full", "truncate(2)", "counts"):
        whole, parts = (StatsCollector(fields, [mode] * len(fields)) for _ in range(2))
        for batch in table.to_batches():
            whole.update(batch)
        parts.update_known(replacer.unchanged_bounds)
        for batch in table.take(replacer.rows).to_batches():
            parts.update(batch)
        assert encode_stats(parts.finish()) == encode_stats(whole.finish())


FIELDS = fields_of("INT", "DOUBLE", "STRING NOT NULL")
OPTIONS = {"parquet.page.row.count.limit": "20"}
ROWS = 1_000


def numbered(rows: Any) -> pa.Table:
    return table_of(FIELDS, [n % 3 for n in rows], [n / 2 for n in rows], [f"t{n}" for n in rows])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_file(tmp_path / "old.parquet", FIELDS, numbered(range(ROWS)), OPTIONS)
    return tmp_path / "old.parquet"


def test_only_pages_with_changed_rows_are_taken(file: Path) -> None:
    replacer = replacer_of(file, FIELDS, OPTIONS, [25, 39, 990])
    assert replacer is not None
    assert replacer.rows.tolist() == [*range(20, 40), *range(980, 1_000)]
    first = replacer_of(file, FIELDS[:1], OPTIONS, [0])
    assert first is not None
    first.write(numbered(first.rows).select(["c0"]).to_batches(), str(file.with_name("new.parquet")))
    assert read_file(file.with_name("new.parquet"), FIELDS[:1]).equals(numbered(range(ROWS)).select(["c0"]))


@pytest.mark.parametrize("rows", [range(300), range(0, ROWS, 15)])
def test_many_pages_are_encoded_anew(file: Path, rows: range) -> None:
    assert replacer_of(file, FIELDS, OPTIONS, rows) is None


def test_row_groups_stay_few(file: Path) -> None:
    path, groups = file, []
    for first in range(0, ROWS, 60):
        replacer = replacer_of(path, FIELDS, OPTIONS, [first])
        if replacer is None:
            break
        path = file.with_name(f"{first}.parquet")
        replacer.write(numbered(replacer.rows).to_batches(), str(path))
        groups.append(pq.ParquetFile(path).metadata.num_row_groups)
    assert groups == [2, 4, 6, 8, 10, 12, 14, 16]
    assert read_file(path, FIELDS).equals(numbered(range(ROWS)))
    again = replacer_of(path, FIELDS, OPTIONS, [60])
    assert again is not None  # which has a row group of its own
    assert len(again.rows) == 20


def test_a_dictionary_that_no_page_uses_goes(tmp_path: Path) -> None:
    fields, options = fields_of("STRING"), {"parquet.page.row.count.limit": "1000"}
    long = range(29_400, 31_800)  # the rows by which encodings are chosen are others
    table = table_of(fields, [f"{n:0500}" if n in long else "xy"[n % 2] for n in range(40_000)])
    path, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    write_file(path, fields, table, options)
    replacer = replacer_of(path, fields, options, [35_500])
    assert replacer is not None
    replacer.write(table.take(replacer.rows).to_batches(), str(new))
    metadata = [pq.ParquetFile(each).metadata for each in (path, new)]
    chunks = [each.row_group(i).column(0) for each in metadata for i in range(each.num_row_groups)]
    assert [chunk.has_dictionary_page for chunk in chunks] == [True, True, True, False]
    assert chunks[0].encodings == chunks[1].encodings == ("PLAIN", "RLE", "RLE_DICTIONARY")
    assert read_file(new, fields).equals(table)
    assert pq.read_table(new).cast(table.schema).equals(table)


def test_files_of_others_are_read_whole(file: Path) -> None:
    table = numbered(range(ROWS))
    pq.write_table(table, file, write_page_index=True, data_page_size=1, write_batch_size=20, store_schema=False)
    assert replacer_of(file, FIELDS, OPTIONS, [1]) is None


def test_a_nan_takes_the_bounds_away(file: Path) -> None:
    replacer = replacer_of(file, FIELDS, OPTIONS, [5])
    assert replacer is not None
    fresh = numbered(replacer.rows)
    column = pa.array([float("nan"), *fresh["c1"].to_pylist()[1:]])
    new = file.with_name("new.parquet")
    replacer.write(fresh.set_column(1, fresh.schema.field(1), column).to_batches(), str(new))
    metadata = pq.ParquetFile(new).metadata
    stats = [metadata.row_group(group).column(1).statistics for group in range(2)]
    assert [(each.has_min_max, each.null_count) for each in stats] == [(False, 0), (True, 0)]
    assert replacer_of(new, FIELDS, OPTIONS, [500]) is None


def test_a_row_that_does_not_fit_leaves_no_file(file: Path) -> None:
    replacer = replacer_of(file, FIELDS, OPTIONS, [5])
    assert replacer is not None
    fresh = numbered(replacer.rows)
    nulls = fresh.set_column(2, pa.field("c2", pa.string()), pa.nulls(len(fresh), pa.string()))
    for rows in (nulls, fresh.select(["c0", "c1"])):
        with pytest.raises(SchemaError):
            replacer.write(rows.to_batches(), str(file.with_name("new.parquet")))
    assert [path.name for path in file.parent.iterdir()] == ["old.parquet"]


def test_damage_is_not_copied(file: Path) -> None:
    """Pages that stay are checked, too; what headers say that no page index says is found when they are read."""
    data = file.read_bytes()
    chunks = [pq.ParquetFile(file).metadata.row_group(0).column(i) for i in range(3)]
    end = max(c.data_page_offset + c.total_compressed_size for c in chunks)
    places = range(4, end) if LONG else np.random.default_rng(SEED).integers(4, end, 30).tolist()
    for place in places:
        file.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        new = file.with_name("new.parquet")
        try:
            replacer = replacer_of(file, FIELDS, OPTIONS, [500])
            assert replacer is not None
            replacer.write(numbered(replacer.rows).to_batches(), str(new))
        except CorruptFileError:
            assert not new.exists()
            continue
        with suppress(CorruptFileError):
            assert read_file(new, FIELDS).equals(numbered(range(ROWS))), place
        new.unlink()
