"""Parquet data files that Java Paimon wrote, read whole and by pages."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import ReadCounters, by_name, by_path
from support.data_files import open_reader, read_file
from support.effort import sampled
from support.fixtures import fixture_names, requires_shared, table_fields, table_path
from support.pages import always_pages
from support.values import lines


def _files(name: str) -> list[Path]:
    return sorted(table_path(name).rglob("data-*.parquet"))


@pytest.fixture
def by_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by pages wherever that is possible, whatever it costs."""
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.choose", always_pages)
    monkeypatch.setattr("paimon_pyds.format.parquet.reader.too_many_rows", lambda selected, rows: False)


@requires_shared
def test_pages_of_java_files(by_pages: None) -> None:
    """Some rows by pages equal the same rows of a whole read."""
    read = 0
    for name in sampled(fixture_names(), 30):
        fields = table_fields(table_path(name), 0) if table_path(name).is_dir() else ()
        for path in _files(name)[:2] if fields else []:
            reader = open_reader(path)
            known = tuple(f for f in fields if f.name in pq.read_schema(path).names)
            rows = reader.row_count
            wanted = RowSelection.of(range(0, rows, 3)) & RowSelection.of(range(1, rows))
            if not known or wanted.is_none or not _matches(path, known):
                continue
            some = pa.Table.from_batches(list(reader.read(known, wanted, 7)), arrow_schema(known))
            whole = pa.Table.from_batches(list(reader.read(known, RowSelection.ALL, 1000)), arrow_schema(known))
            assert some.to_batches()[0].num_rows <= 7
            assert lines(some) == lines(whole.take(wanted.to_array(rows))), path
            read += 1
    assert read > 5


def _matches(path: Path, fields: tuple[DataField, ...]) -> bool:
    """Whether the file was written with this version of the schema, as far as the types' names tell."""
    schema = pq.read_schema(path)
    return all(str(schema.field(f.name).type) == str(arrow_schema([f]).field(0).type) for f in fields)


@requires_shared
def test_java_page_index_is_used(by_pages: None) -> None:
    path = _files("append_large_files")[0] if "append_large_files" in fixture_names() else _files("append_all_types")[0]
    fields = table_fields(table_path("append_large_files"))
    counters = ReadCounters()
    reader = open_reader(path, counters)
    row = reader.row_count - 1
    found = pa.Table.from_batches(list(reader.read(fields, RowSelection.of([row]), 10)), arrow_schema(fields))
    assert lines(found) == lines(read_file(path, fields).slice(row))
    assert 0 < counters.pages_read <= counters.pages_total
    assert counters.notes


def test_formats_by_name_and_suffix() -> None:
    assert by_name("PARQUET") is by_path("/warehouse/db.db/t/bucket-0/data-1-0.zst.parquet")
    with pytest.raises(UnsupportedError, match="csv"):
        by_path("/t/data-1.csv")
    with pytest.raises(UnsupportedError, match="suffix"):
        by_path("/t.parquet/data-1")
