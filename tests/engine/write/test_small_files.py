"""Files of few rows, which are written together, are those that each bucket's own writer makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.row.decode import decode_row
from paimon_pyds.engine.write.writer import TableWriter
from paimon_pyds.errors import SchemaError, StorageError
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.manifest import DataFile
from support.effort import LONG
from support.strategies import tables

ONE_BY_ONE, TOGETHER = 0, 1_000
ENGINES: list[dict[str, str]] = [
    {},
    {"ignore-delete": "true"},
    {"sequence.field": "v"},
    {"merge-engine": "first-row"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    {"data-file.thin-mode": "true"},
    {"file.format": "orc"},
    {"file.format.per.level": "0:avro"},
    {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
]


def _entry(file: DataFile) -> DataFile:
    """A file's entry without what differs each time it is written."""
    return replace(file, file_name=file.file_name.rpartition(".")[2], file_size=0, creation_time=0)


def _entries(message: CommitMessage) -> dict[Any, list[DataFile]]:
    return {(b.partition, b.bucket): [_entry(file) for file in b.files] for b in message.buckets}


def _written(table: pp.Table, rows: pa.Table, small_rows: int, options: Mapping[str, str]) -> CommitMessage:
    with TableWriter(table.write_context(options), small_rows=small_rows) as writer:
        for batch in rows.to_batches(max_chunksize=7):
            writer.write(batch)
        return writer.prepare_commit()


def _compare(table: pp.Table, rows: pa.Table, options: Mapping[str, str]) -> None:
    """Both ways twice, each on top of its own first commit; the entries of files and the rows are the same."""
    other = pp.Table.create(
        f"{table.path}-2",
        table.arrow_schema,
        primary_key=table.primary_key,
        partition_by=table.partition_by,
        options=dict(table.options),
    )
    for _ in range(2):
        first, second = _written(table, rows, TOGETHER, options), _written(other, rows, ONE_BY_ONE, options)
        assert _entries(first) == _entries(second)
        table.commit([first])
        other.commit([second])
    found, expected = (t.scan().to_arrow().to_pylist() for t in (table, other))
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@given(data=st.data(), file_format=st.sampled_from(["parquet", "parquet", "orc", "avro"]), dense=st.booleans())
@settings(
    deadline=None,
    max_examples=500 if LONG else 8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
def test_appended_rows(
    data: st.DataObject, file_format: str, dense: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _, rows = data.draw(tables(types=["INT", "DOUBLE", "STRING", "DECIMAL(20, 3)", "DATE", "BOOLEAN", "BYTES"]))
    parts = data.draw(st.lists(st.sampled_from([None, 1, 2, 3]), min_size=rows.num_rows, max_size=rows.num_rows))
    rows = rows.append_column("p", pa.array(parts, pa.int32()))
    options = {
        "file.format": file_format,
        "metadata.stats-dense-store": str(dense).lower(),
        "file-index.bitmap.columns": "id",
        **data.draw(st.sampled_from([{"bucket": "2", "bucket-key": "id"}, {}, {"target-file-row-num": "2"}])),
    }
    path = tmp_path_factory.mktemp("t") / "t"
    _compare(pp.Table.create(path, rows.schema, partition_by=["p"], options=options), rows, {})


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 6), st.sampled_from("aàz"), st.none() | st.integers(-9, 9)),
        max_size=60,
    ),
    options=st.sampled_from(ENGINES),
    deletes=st.sets(st.integers(0, 59)),
)
@settings(
    deadline=None,
    max_examples=500 if LONG else 8,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)
def test_rows_with_keys(
    rows: list[Any], options: dict[str, str], deletes: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    schema = pa.schema([("p", pa.int32()), ("k", pa.int64()), ("t", pa.string()), ("v", pa.int64())])
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 4
    data = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    if options.get("merge-engine") is None:
        kinds = ["-D" if i in deletes else "+I" for i in range(len(rows))]
        data = data.append_column("_ROW_KIND", pa.array(kinds, pa.string()))
    if data.schema.names[-1] == "_ROW_KIND":
        options = {**options, "rowkind.field": "_ROW_KIND"}
        schema = data.schema
    path = tmp_path_factory.mktemp("t") / "t"
    table = pp.Table.create(
        path, schema, primary_key=["p", "k", "t"], partition_by=["p"], options={"bucket": "2", **options}
    )
    _compare(table, data, {})


def test_a_table_of_many_partitions_gets_one_file_each_and_no_page_index(tmp_path: Path) -> None:
    rows = pa.table({"p": range(300), "x": [i / 7 for i in range(300)]})
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["p"])
    table.append(rows)
    files = sorted(Path(table.path).rglob("*.parquet"))
    assert len(files) == 300
    assert not pq.ParquetFile(files[0]).metadata.row_group(0).column(0).has_offset_index
    assert table.scan("p = 7").to_arrow().to_pylist() == [{"p": 7, "x": 1.0}]


def test_nan_has_no_bounds_in_small_files(tmp_path: Path) -> None:
    rows = pa.table({"p": [1, 2], "x": [float("nan"), 1.0]})
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["p"])
    table.append(rows)
    [with_nan] = Path(table.path).glob("p=1/*/*.parquet")
    assert not pq.ParquetFile(with_nan).metadata.row_group(0).column(1).statistics.has_min_max
    assert table.scan("x > 100").to_arrow().num_rows == 1


def test_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.int32()), pa.field("v", pa.int64(), nullable=False)])
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["p"])
    with pytest.raises(SchemaError, match="v"):
        table.append(pa.table({"p": [1], "v": pa.array([None], pa.int64())}))


@pytest.mark.parametrize("keys", [[], ["p", "v"]])
def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str]) -> None:
    rows = pa.table({"p": range(100), "v": range(100)})
    options = {"bucket": "1"} if keys else {}
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["p"], primary_key=keys, options=options)
    io = type(table.write_context().io)
    write, calls = io.write_bytes, []

    def failing(self: Any, path: str, data: bytes) -> None:
        calls.append(path)
        if len(calls) == 70:
            raise StorageError("the disk is full", path=path)
        write(self, path, data)

    monkeypatch.setattr(io, "write_bytes", failing)
    with pytest.raises(StorageError, match="the disk is full"), TableWriter(table.write_context()) as writer:
        writer.write(rows)
        writer.prepare_commit()
    assert list(Path(table.path).rglob("data-*")) == []


def test_the_directory_of_each_partition_is_that_of_its_rows(tmp_path: Path) -> None:
    rows = pa.table({"a": ["x/y", "", None, "x"], "b": [1, None, 2, 3], "v": range(4)})
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["a", "b"])
    with TableWriter(table.write_context()) as writer:
        writer.write(rows)
        message = writer.prepare_commit()
    types = [field.type for field in table.write_context().schema.partition_fields]
    found = {decode_row(b.partition, types): b.directory.removeprefix(f"{table.path}/") for b in message.buckets}
    empty = "__DEFAULT_PARTITION__"
    assert found == {
        ("x/y", 1): "a=x%2Fy/b=1/bucket-0",
        ("", None): f"a={empty}/b={empty}/bucket-0",
        (None, 2): f"a={empty}/b=2/bucket-0",
        ("x", 3): "a=x/b=3/bucket-0",
    }


def test_a_store_that_takes_many_requests_gets_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"p": range(100), "t": ["x" * i for i in range(100)]})
    table = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["p"])
    monkeypatch.setattr(type(table.write_context().io), "requests_at_once", 8, raising=False)
    with TableWriter(table.write_context()) as writer:
        writer.write(rows)
        message = writer.prepare_commit()
    assert message.row_count == 100
    for bucket in message.buckets:
        [file] = bucket.files
        assert Path(f"{bucket.directory}/{file.file_name}").stat().st_size == file.file_size
