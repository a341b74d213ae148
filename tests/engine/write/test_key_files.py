"""Files of sorted runs: their columns, what the manifest says of them, and the options of their levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.row import encode_row
from paimon_pyds.base.types import AtomicType, DataField, Kind, parse_type
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.metadata.manifest import FILE_SOURCE_COMPACT, DataFile

_SCHEMA = pa.schema([("v", pa.int64()), ("b", pa.string()), ("p", pa.int32()), ("a", pa.int64())])
_ROWS = pa.RecordBatch.from_pydict(
    {
        "_SEQUENCE_NUMBER": pa.array([7, 3, 9, 4]),
        "_VALUE_KIND": pa.array([0, 1, 2, 3], pa.int8()),
        "v": pa.array([None, 1, 2, 3], pa.int64()),
        "b": ["x" * 200, "y", "a", "b"],
        "p": pa.array([1, 1, 1, 1], pa.int32()),
        "a": pa.array([-5, -5, 0, 8]),
    }
)


def _context(path: Path, **options: str) -> WriteContext:
    table = pp.Table.create(
        path, _SCHEMA, primary_key=["a", "p", "b"], partition_by=["p"], options={"bucket": "2", **options}
    )
    return WriteContext(table._store.io, table.path, "main", table.schema)


def _written(context: WriteContext, **how: Any) -> tuple[DataFile, ...]:
    threads = WriterThreads()
    writer = SortedRunWriter(context, f"{context.root}/p=1/bucket-0", threads, **how)
    try:
        for row in range(4):
            writer.write(_ROWS.slice(row, 1))
        return writer.close()
    finally:
        threads.shutdown()


def _key(a: int, b: str) -> bytes:
    types = [AtomicType(Kind.BIGINT), AtomicType(Kind.VARCHAR, length=2**31 - 1)]
    return encode_row([a, b], types)


def test_files_have_keys_numbers_and_kinds_before_the_columns_of_the_table(tmp_path: Path) -> None:
    context = _context(tmp_path / "t")
    (file,) = _written(context, level=3)
    found = pq.read_table(tmp_path / "t" / "p=1" / "bucket-0" / file.file_name)
    names = ["_KEY_a", "_KEY_b", "_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "b", "p", "a"]
    assert found.column_names == names
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in found.schema]
    assert ids == [1_073_741_826, 1_073_741_824, 2_147_483_646, 2_147_483_645, 0, 1, 2, 3]
    assert found.select(_ROWS.schema.names).to_pylist() == _ROWS.to_pylist()
    assert found["_KEY_b"].equals(found["b"])
    assert (file.min_key, file.max_key) == (_key(-5, "x" * 200), _key(8, "b"))
    assert (file.key_stats.min_values, file.key_stats.max_values) == (_key(-5, "a"), _key(8, "y"))
    assert file.key_stats.null_counts == (0, 0)
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count, file.level) == (3, 9, 2, 3)
    assert file.value_stats.null_counts == (1, 0, 0, 0)
    assert file.row_count == 4


def test_a_thin_file_has_no_keys_of_its_own(tmp_path: Path) -> None:
    (file,) = _written(_context(tmp_path / "t", **{"data-file.thin-mode": "true"}))
    found = pq.read_table(tmp_path / "t" / "p=1" / "bucket-0" / file.file_name)
    assert found.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "b", "p", "a"]
    assert (file.min_key, file.key_stats.max_values) == (_key(-5, "x" * 200), _key(8, "y"))


@pytest.mark.parametrize(("level", "suffix"), [(0, "avro"), (1, "orc"), (5, "parquet")])
def test_levels_have_options_of_their_own(tmp_path: Path, level: int, suffix: str) -> None:
    options = {"file.format.per.level": "0:avro,1:orc", "metadata.stats-mode.per.level": "0:none"}
    (file,) = _written(_context(tmp_path / "t", **options), level=level)
    assert file.file_name.endswith(f".{suffix}")
    assert (file.value_stats_cols == ()) == (level == 0)


def test_files_roll_by_rows_but_not_those_of_compactions_and_changelogs(tmp_path: Path) -> None:
    context = _context(tmp_path / "t", **{"target-file-row-num": "3", "file-index.bitmap.columns": "v"})
    first, second = _written(context)
    assert [first.row_count, second.row_count] == [3, 1]
    assert (first.max_key, second.min_key) == (_key(0, "a"), _key(8, "b"))
    assert first.embedded_index is not None
    (compacted,) = _written(replace(context, file_source=FILE_SOURCE_COMPACT), level=5)
    assert (compacted.row_count, compacted.file_source) == (4, FILE_SOURCE_COMPACT)
    (changelog,) = _written(context, changelog=True)
    assert changelog.file_name.startswith("changelog-")
    assert (changelog.row_count, changelog.embedded_index, changelog.level) == (4, None, 0)


def test_changelog_files_have_options_of_their_own(tmp_path: Path) -> None:
    options = {"changelog-file.prefix": "log-", "changelog-file.format": "avro", "changelog-file.stats-mode": "none"}
    (file,) = _written(_context(tmp_path / "t", **options), changelog=True)
    assert file.file_name.startswith("log-")
    assert file.file_name.endswith(".avro")
    assert file.value_stats_cols == ()


def test_blanks_of_char_values_go_where_level_0_can_not_hold_them(tmp_path: Path) -> None:
    fields = [DataField(0, "k", parse_type("CHAR(4)")), DataField(1, "v", parse_type("CHAR(4)"))]
    options = {"bucket": "1", "file.format.per.level": "0:orc", "file-index.bitmap.columns": "v"}
    table = pp.Table.create(tmp_path / "t", fields, primary_key=["k"], options=options)
    table.append(pa.table({"k": ["a ", "b"], "v": ["x  ", "y"]}))
    table.append(pa.table({"k": ["a"], "v": ["z "]}))
    assert table.scan("k = 'a'").to_arrow().to_pylist() == [{"k": "a", "v": "z"}]
    assert table.scan("v = 'y'").count() == 1
