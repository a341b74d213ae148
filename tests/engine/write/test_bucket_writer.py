"""Bucket writers: what they give of a file besides its columns, and files with more columns than the table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.row import EMPTY_ROW
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.bucket_writer import AppendBucketWriter
from paimon_pyds.engine.write.context import ROW_ID_FIELDS, RowLayout
from paimon_pyds.engine.write.rolling import RollingWriter, RowMetadata, WriterThreads
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile

_LEADING = (
    DataField(1_073_741_823, "_KEY_k", parse_type("BIGINT NOT NULL")),
    DataField(2_147_483_646, "_SEQUENCE_NUMBER", parse_type("BIGINT NOT NULL")),
    DataField(2_147_483_645, "_VALUE_KIND", parse_type("TINYINT NOT NULL")),
)


class _KeyedRows:
    """As the writer of sorted runs: keys, sequence numbers and deletes are found in the columns before the table's."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._kinds: list[int] = []

    def update(self, batch: pa.RecordBatch) -> None:
        assert batch.schema.names == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"]
        self._numbers += batch.column(1).to_pylist()
        self._kinds += batch.column(2).to_pylist()

    def finish(self) -> RowMetadata:
        return RowMetadata(
            min_sequence_number=min(self._numbers),
            max_sequence_number=max(self._numbers),
            min_key=b"least",
            max_key=b"most",
            key_stats=SimpleStats(b"least", b"most", (0,)),
            level=5,
            delete_row_count=sum(kind in (1, 3) for kind in self._kinds),
        )


def _table(path: Path, **options: str) -> pp.Table:
    return pp.Table.create(path, pa.schema([("k", pa.int64()), ("v", pa.int64())]), options=options)


def test_a_file_has_the_columns_and_the_metadata_that_its_writer_gives(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"file-index.bitmap.columns": "v", "target-file-row-num": "40"})
    context = table.write_context()
    context.__dict__["layout"] = RowLayout(context.schema.fields, leading=_LEADING)
    threads = WriterThreads()
    directory = tmp_path / "t" / "bucket-0"
    writer = RollingWriter(context, str(directory), threads, _KeyedRows)
    rows = pa.table(
        {
            "_KEY_k": range(100),
            "_SEQUENCE_NUMBER": range(1000, 1100),
            "_VALUE_KIND": pa.array([3 if i % 10 == 0 else 0 for i in range(100)], pa.int8()),
            "k": range(100),
            "v": [i % 3 for i in range(100)],
        }
    )
    for batch in rows.to_batches(max_chunksize=7):
        writer.write(batch)
    files = writer.close()
    threads.shutdown()
    assert [(f.row_count, f.min_sequence_number, f.max_sequence_number) for f in files] == [
        (40, 1000, 1039), (40, 1040, 1079), (20, 1080, 1099)
    ]  # fmt: skip
    assert {(f.level, f.min_key, f.max_key, f.key_stats.null_counts, f.delete_row_count) for f in files} == {
        (5, b"least", b"most", (0,), 4), (5, b"least", b"most", (0,), 2)
    }  # fmt: skip
    # Statistics and indexes are of the table's columns, and the manifest names none.
    assert [len(f.value_stats.null_counts or ()) for f in files] == [2, 2, 2]
    assert all(f.embedded_index and f.value_stats_cols is None and f.write_cols is None for f in files)
    assert pa.concat_tables([pq.read_table(directory / f.file_name) for f in files]).to_pydict() == rows.to_pydict()


def _written(context: WriteContext, rows: pa.Table, first: int, tmp_path: Path) -> tuple[DataFile, ...]:
    threads = WriterThreads()
    bucket = BucketFiles(EMPTY_ROW, 0, -1, str(tmp_path / "files"), ())
    writer = AppendBucketWriter(context, bucket, threads, first)
    for batch in rows.to_batches(max_chunksize=7):
        writer.write(batch)
    done = writer.close()
    threads.shutdown()
    return done.files


def test_sequence_numbers_go_on_from_file_to_file(tmp_path: Path) -> None:
    context = _table(tmp_path / "t", **{"target-file-row-num": "4"}).write_context()
    rows = pa.table({"k": range(10), "v": range(10)})
    files = _written(context, rows, 7, tmp_path)
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files] == [(7, 10), (11, 14), (15, 16)]


@pytest.mark.parametrize(
    ("numbers", "bounds"),
    [([5, 3, 9], (3, 9)), ([5, None, 9], (5, 0)), ([None, None, None], (0, 0)), ([4, 4, 4], (4, 4))],
)
def test_rows_with_ids_bring_their_sequence_numbers(
    tmp_path: Path, numbers: list[int | None], bounds: tuple[int, int]
) -> None:
    table = _table(tmp_path / "t", **{"row-tracking.enabled": "true"})
    context = WriteContext(table._store.io, table.path, "main", table.schema, existing_rows=True)
    assert context.layout.trailing == ROW_ID_FIELDS
    rows = pa.table(
        {"k": range(3), "v": range(3), "_ROW_ID": range(3), "_SEQUENCE_NUMBER": pa.array(numbers, pa.int64())}
    )
    (file,) = _written(context, rows, 0, tmp_path)
    assert (file.min_sequence_number, file.max_sequence_number) == bounds
    assert file.write_cols == ("k", "v", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert file.value_stats_cols == ("k", "v")
