"""Single pages of every kind of Parquet file: page versions, encodings, codecs, writers; beside nested columns."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema, from_arrow_schema
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.protocols import GroupPlan
from support.data_files import open_reader
from support.effort import sampled
from support.fixtures import ROOT
from support.pages import always_pages

N = 12_000
PAGE_ROWS = 500
CODECS = [c for c in ("none", "snappy", "gzip", "lz4", "zstd", "brotli") if c == "none" or pa.Codec.is_available(c)]
SELECTIONS = {
    "first": [0],
    "last": [N - 1],
    "page edges": [PAGE_ROWS - 1, PAGE_ROWS, 5 * PAGE_ROWS, 5 * PAGE_ROWS + 1],
    "scattered": list(range(7, N, 1_999)),
    "a run": list(range(3 * PAGE_ROWS + 100, 4 * PAGE_ROWS + 50)),
    "two row groups": list(range(5_900, 6_100, 3)),
}


def _table() -> pa.Table:
    rng = np.random.default_rng(23)
    nulls = rng.random(N) < 0.2
    nulls[2 * PAGE_ROWS : 3 * PAGE_ROWS] = True  # a page of NULLs only
    lists = [None if i % 11 == 0 else list(range(i % 4)) for i in range(N)]
    return pa.table(
        {
            "id": np.arange(N),
            "nested": pa.array(lists, pa.list_(pa.int32())),
            "few": pa.array([f"kind {k}" for k in rng.integers(0, 30, N)], mask=nulls),
            "text": pa.array(["x" * (i % 40) + str(i) for i in range(N)]),
            "real": pa.array(rng.random(N), mask=nulls),
            "record": pa.array([None if i % 7 == 0 else {"a": i, "b": str(i)} for i in range(N)]),
            "flag": pa.array(rng.random(N) < 0.5, mask=nulls),
            "money": pa.array(rng.integers(0, 10**9, N)).cast(pa.decimal128(30, 2)),
            "map": pa.array([[(str(i), i)] for i in range(N)], pa.map_(pa.string(), pa.int64())),
            "at": pa.array(rng.integers(0, 2**50, N)).cast(pa.timestamp("us")),
        }
    )


TABLE = _table()
FLAT = ["id", "few", "text", "real", "flag", "money", "at"]


def _write(path: Path, version: str, dictionary: bool, codec: str, table: pa.Table = TABLE) -> None:
    pq.write_table(
        table, path, row_group_size=N // 2, data_page_version=version, use_dictionary=dictionary, compression=codec,
        write_page_index=True, data_page_size=1, write_batch_size=PAGE_ROWS, store_schema=False,
    )  # fmt: skip


def _fields(table: pa.Table) -> tuple[DataField, ...]:
    return from_arrow_schema(table.schema)


def _hold(path: Path, table: pa.Table, rows: list[int], flat: list[str]) -> list[GroupPlan]:
    """Reads the rows with all columns, and those of the flat ones alone; what was told is what was done."""
    fields = _fields(table)
    wanted = RowSelection.of(rows)
    counters = ReadCounters()
    reader = open_reader(path, counters)
    plans = list(reader.plan(fields, wanted))
    counters.pages_read = 0
    found = pa.Table.from_batches(list(reader.read(fields, wanted, 4_096)), arrow_schema(fields))
    assert found.to_pylist() == table.take(rows).to_pylist()
    assert counters.pages_read == sum(p.pages for p in plans)
    few = [f for f in fields if f.name in flat][::-1]
    alone = pa.Table.from_batches(list(open_reader(path).read(few, wanted, 100)), arrow_schema(few))
    assert alone.to_pylist() == table.select([f.name for f in few]).take(rows).to_pylist()
    return plans


@pytest.mark.parametrize("codec", sampled(CODECS, 2))
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_kinds_of_pages(version: str, dictionary: bool, codec: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    _write(path, version, dictionary, codec)
    for name, rows in SELECTIONS.items():
        plans = _hold(path, TABLE, rows, FLAT)
        for plan in plans:
            assert plan.whole_columns == ("nested", "record", "map"), name
            assert 0 < plan.pages <= plan.pages_total
            assert plan.bytes < plan.whole_bytes


def test_columns_that_share_no_page_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column is cut where its own bytes end; rows stay together."""
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.choose", always_pages)
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=N, data_page_size=2_000, write_page_index=True, use_dictionary=["few"])
    for rows in SELECTIONS.values():
        assert _hold(path, TABLE, rows, FLAT)[0].pages > 0


def test_without_a_page_index(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=N // 2, write_page_index=False)
    for plan in _hold(path, TABLE, [5, 7_000], FLAT):
        assert (plan.pages, plan.reason) == (0, "the file has no page index")


def test_only_nested_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = TABLE.select(["nested", "record"])
    _write(path, "1.0", True, "zstd", table)
    fields = _fields(table)
    wanted = RowSelection.of([5])
    (plan,) = open_reader(path).plan(fields, wanted)
    assert (plan.pages, plan.reason) == (0, "nested columns are read whole")
    found = pa.Table.from_batches(list(open_reader(path).read(fields, wanted, 10)), arrow_schema(fields))
    assert found.to_pylist() == table.slice(5, 1).to_pylist()


def test_what_is_told_without_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    _write(path, "1.0", True, "zstd")
    fields = _fields(TABLE)
    told = {p.reason for p in open_reader(path).plan(fields, RowSelection.ALL)}
    assert told == {"every row is wanted"}
    half = RowSelection.of(range(0, N, 2))
    assert {p.reason for p in open_reader(path).plan(fields, half)} == {"a quarter of the rows or more is wanted"}


def test_files_of_pypaimon_rust(tmp_path: Path) -> None:
    """What parquet-rs writes: other page lengths, dictionaries that give way to plain pages."""
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="pypaimon-rust is not installed")
    rows = 50_000
    table = pa.table(
        {
            "id": np.arange(rows),
            "few": pa.array([None if i % 9 == 0 else f"kind {i % 50}" for i in range(rows)]),
            "text": [f"{i * 7919 % rows} text" for i in range(rows)],
            "real": pa.array(np.random.default_rng(5).random(rows)),
        }
    )
    made = pp.Table.create(tmp_path / "d.db" / "t", table.schema)
    builder = datafusion.PaimonCatalog({"warehouse": str(tmp_path)}).get_table("d.t").new_batch_write_builder()
    writer = builder.new_write()
    for batch in table.to_batches(10_000):
        writer.write_arrow(batch)
    builder.new_commit().commit(writer.prepare_commit())
    (path,) = (Path(p) for p in made.scan().plan().paths)
    for wanted in ([0], [rows - 1], [19_999, 20_000, 40_001], list(range(11, rows, 6_000))):
        plans = _hold(path, table, wanted, table.column_names)
        assert len(wanted) > 1 or sum(p.pages for p in plans) >= len(table.column_names)


def test_files_of_pypaimon(tmp_path: Path) -> None:
    """pypaimon (2.1) writes by pyarrow without a page index: row groups are read, of a table partitioned by ``p``."""
    with tarfile.open(ROOT / "tests" / "fixtures" / "pypaimon_table.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    table = pp.Table.open(tmp_path / "t")
    expected = [{"p": f"p{i % 2}", "id": i, "text": f"t{i}", "real": i / 8, "l": [i]} for i in range(200)]
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == expected
    e = table.explain("p = 'p1' AND id IN (77, 79)", analyze=True)
    assert [s.rows for s in e.steps if s.name in ("table", "partitions", "result")] == [200, 100, 2]
    (file,) = e.files
    assert file.pages is not None
    assert (file.pages.choice, file.pages.pages) == ("row groups", 0)
