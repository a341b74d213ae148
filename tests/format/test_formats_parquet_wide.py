"""Files of many columns, whose footer pyarrow decodes: the same rows as by the footer that is decoded here."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import CorruptFileError, MissingColumnError
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet import source
from paimon_pyds.format.parquet.reader import ParquetReader
from paimon_pyds.storage import open_file_io
from support.data_files import fields_of, open_reader, read_file, table_of, write_file
from support.effort import LONG

_STAMP = dt.datetime(2024, 1, 1)
_KINDS: list[tuple[Any, Callable[[random.Random], Any]]] = [
    ("INT", lambda r: r.randrange(-9, 9)),
    ("BIGINT NOT NULL", lambda r: r.randrange(-(1 << 60), 1 << 60)),
    ("DOUBLE", lambda r: r.random()),
    ("BOOLEAN", lambda r: r.random() < 0.5),
    ("STRING", lambda r: "x" * r.randrange(40)),
    ("DECIMAL(30, 2)", lambda r: r.randrange(1 << 40)),
    ("TIMESTAMP(9)", lambda r: _STAMP + dt.timedelta(hours=r.randrange(999))),
    ({"type": "ARRAY", "element": "INT"}, lambda r: [r.randrange(9)] * r.randrange(3)),
    ({"type": "MAP", "key": "STRING", "value": "BIGINT"}, lambda r: [("k", r.randrange(9))][: r.randrange(2)]),
    (
        {
            "type": "ROW",
            "fields": [{"id": 8, "name": "a", "type": "TIMESTAMP(9)"}, {"id": 9, "name": "b.c", "type": "INT"}],
        },
        lambda r: {"a": _STAMP, "b.c": r.randrange(9)},
    ),
]  # fmt: skip


def _read_both(
    path: Path, fields: list[DataField], batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[pa.Table, ReadCounters]:
    """The rows of a file that counts as wide, after they were compared with those of one that does not."""
    found, counters = [], []
    for least in (1 << 30, 1):
        monkeypatch.setattr(source, "LEAST_WIDE", least)
        counters.append(ReadCounters())
        found.append(read_file(path, fields, batch_rows=batch_rows, counters=counters[-1]))
    assert found[0].equals(found[1])
    assert counters[0].rows_decoded == counters[1].rows_decoded
    assert counters[0].bytes_read == counters[1].bytes_read
    return found[1], counters[1]


@pytest.mark.parametrize("seed", range(60 if LONG else 6))
def test_random_files(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    kinds = [rng.choice(_KINDS) for _ in range(rng.randrange(1, 20))]
    fields, rows = fields_of(*(kind for kind, _ in kinds)), rng.choice([1, 300, 2_000])
    columns = [
        [None if "NOT NULL" not in str(kind) and rng.random() < 0.1 else value(rng) for _ in range(rows)]
        for kind, value in kinds
    ]
    path, table = tmp_path / "a.parquet", table_of(fields, *columns)
    options = {
        "parquet.block.size": rng.choice(["20000", "100000", "100000000"]),
        "parquet.page.row.count.limit": "300",
    }
    write_file(path, fields, table, options, batch_rows=500)
    wanted = rng.sample(list(fields), rng.randrange(1, len(fields) + 1))
    found, counters = _read_both(path, wanted, rng.choice([100, 1_000, 65_536]), monkeypatch)
    assert found.to_pylist() == table.select([f.name for f in wanted]).to_pylist()
    assert counters.row_groups_read >= 1


def _refuse(*args: object, **kwargs: object) -> None:
    raise AssertionError("the footer was decoded here")


def test_the_footer_is_decoded_by_pyarrow_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fields = tmp_path / "a.parquet", fields_of(*["INT"] * 100)
    write_file(path, fields, table_of(fields, *[range(10)] * 100))
    monkeypatch.setattr(source, "Footer", _refuse)
    assert read_file(path, fields).num_rows == 10
    assert read_file(path, fields[7:3:-1]).column_names == ["c7", "c6", "c5", "c4"]


def test_a_footer_without_a_checksum_is_decoded_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What damage makes of it may abort the process, if pyarrow is the first to see it."""
    path, fields = tmp_path / "a.parquet", fields_of(*["INT"] * 100)
    pq.write_table(table_of(fields, *[range(10)] * 100), path)
    monkeypatch.setattr(ParquetReader, "_read_wide_group", _refuse)
    assert read_file(path, fields).num_rows == 10


def test_many_small_pages_are_decoded_as_in_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fields = tmp_path / "a.parquet", fields_of(*["INT"] * 3)
    table = table_of(fields, *[range(40_000)] * 3)
    write_file(path, fields, table, {"parquet.page.row.count.limit": "256"})
    io, name = open_file_io(str(path))
    opened = source.ParquetSource(io, name, path.stat().st_size, ReadCounters())
    if len(opened.tables([(0, 0)])[0, 0]) < 100:
        pytest.skip("this pyarrow has no limit for the rows of a page")
    opened.close()
    with monkeypatch.context() as patched:
        patched.setattr(ParquetReader, "_read_wide_group", _refuse)
        found, _ = _read_both(path, list(fields), 65_536, patched)
    assert found.equals(table)


def test_damage_and_missing_columns_are_named(tmp_path: Path) -> None:
    path, fields = tmp_path / "a.parquet", fields_of(*["INT"] * 100)
    write_file(path, fields, table_of(fields, *[range(10)] * 100))
    with pytest.raises(MissingColumnError, match=r"no column 'c200'.*a\.parquet"):
        read_file(path, [*fields, fields_of(*["INT"] * 201)[200]])
    data = path.read_bytes()
    path.write_bytes(data[:-300] + bytes([data[-300] ^ 4]) + data[-299:])
    with pytest.raises(CorruptFileError, match=r"checksum.*a\.parquet"):
        open_reader(path)


@pytest.mark.parametrize("seed", range(20 if LONG else 1))
def test_a_table_of_many_columns(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After changes of the schema and of rows, with filters, projections and limits."""
    rng = random.Random(seed)
    columns = {f"c{i}": rng.choice(["INT", "STRING", "DOUBLE", "TIMESTAMP(9)", "ARRAY<INT>"]) for i in range(70)}
    table = pp.Table.create(tmp_path / "t", {"id": "BIGINT", **columns})
    count = rng.choice([50, 2_500 if LONG else 500])
    for first in (0, count):
        ids = range(first, first + count)
        table.append(_rows(table, ids))
        table.alter(rename_columns={f"c{first % 7}": f"renamed {first}"}, add_columns={f"late {first}": "INT"})
    table.delete(f"id % 5 = {rng.randrange(5)}")
    table.update({"id": "id + 100000"}, "id % 11 = 3")
    names = [name for name in table.arrow_schema.names if name != "id"]
    for where in (None, "id % 3 = 1", f"id < {count // 3}"):
        for wanted in (None, ["id", *rng.sample(names, 5)]):
            found = []
            for least in (1 << 30, 1):
                monkeypatch.setattr(source, "LEAST_WIDE", least)
                scan = pp.Table.open(table.path).scan(where, columns=wanted)
                found.append(scan.to_arrow())
                assert found[-1].equals(pa.Table.from_batches(scan.to_batches(), scan.arrow_schema))
                assert table.scan(where, columns=wanted, limit=7).to_arrow().equals(found[-1].slice(0, 7))
            assert found[0].num_rows and found[0].equals(found[1])


def _rows(table: pp.Table, ids: range) -> pa.Table:
    values: dict[pa.DataType, Callable[[int], Any]] = {
        pa.int32(): lambda i: i % 9,
        pa.int64(): lambda i: i,
        pa.string(): lambda i: f"v{i % 50}",
        pa.float64(): lambda i: i / 3,
        pa.timestamp("ns"): lambda i: _STAMP + dt.timedelta(hours=i % 99),
    }
    schema = table.arrow_schema
    columns = [
        [None if i % 13 == n % 13 and f.name != "id" else values.get(f.type, lambda i: [i] * (i % 3))(i) for i in ids]
        for n, f in enumerate(schema)
    ]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
