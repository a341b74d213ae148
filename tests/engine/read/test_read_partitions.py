"""Partition columns have the values of the partition, whatever the data files hold, as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.manifest import DataFile
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

_SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("q", pa.int32())])
_NO_STATS = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())


@pytest.fixture
def migrated(tmp_path: Path) -> pp.Table:
    """A table whose files lack the partition columns, as those that Java's `migrate_table` takes over from Hive."""
    table = pp.Table.create(
        tmp_path / "t", _SCHEMA, partition_by=["p", "q"], options={"deletion-vectors.enabled": "true"}
    )
    types = [f.type for f in table.schema.partition_fields]
    buckets = []
    for number, values in enumerate([("a", 1), ("b", None), (None, 2)]):
        partition = encode_row(values, types)
        directory = tmp_path / "t" / "/".join(
            f"{name}={'__DEFAULT_PARTITION__' if value is None else value}"
            for name, value in zip(("p", "q"), values, strict=True)
        ) / "bucket-0"  # fmt: skip
        directory.mkdir(parents=True)
        file = directory / f"data-{number}.parquet"
        pq.write_table(pa.table({"id": range(10 * number, 10 * number + 4)}), file)
        meta = DataFile(
            file_name=file.name,
            file_size=file.stat().st_size,
            row_count=4,
            min_key=EMPTY_ROW,
            max_key=EMPTY_ROW,
            key_stats=_NO_STATS,
            value_stats=_NO_STATS,
            min_sequence_number=0,
            max_sequence_number=3,
            schema_id=0,
            creation_time=1_700_000_000_000,
            delete_row_count=0,
            file_source=0,
            value_stats_cols=(),
        )
        buckets.append(BucketFiles(partition, 0, -1, str(directory), (meta,)))
    commit(table._store, Changes([Increment(added=buckets)]), TableOptions(table.options))
    return pp.Table.open(tmp_path / "t")


_ROWS = [(i, p, q) for n, (p, q) in enumerate([("a", 1), ("b", None), (None, 2)]) for i in range(10 * n, 10 * n + 4)]


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize(
    ("filter_", "ids"),
    [
        (None, [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]),
        ("p = 'a'", [0, 1, 2, 3]),
        ("p IS NULL", [20, 21, 22, 23]),
        ("q IS NOT NULL AND id > 2", [3, 20, 21, 22, 23]),
        ("p = 'b' AND id < 12 OR q = 2 AND id >= 23", [10, 11, 23]),
        ("p = 'a' AND (q = 2 OR id = 1)", [1]),
    ],
)
def test_files_without_partition_columns(filter_: str | None, ids: list[int], migrated: pp.Table) -> None:
    assert _rows(migrated.scan(filter_).to_arrow()) == [row for row in _ROWS if row[0] in ids]
    assert migrated.count(filter_) == len(ids)
    only = migrated.scan(filter_, columns=["q", "p"]).to_arrow()
    assert only.column_names == ["q", "p"]
    assert sorted(map(str, only.column("p").to_pylist())) == sorted(str(p) for i, p, _ in _ROWS if i in ids)
    first = migrated.scan(filter_, top_n="p desc nulls last, id, 3").to_arrow()
    expected = sorted((row for row in _ROWS if row[0] in ids), key=lambda r: ({"b": 0, "a": 1, None: 2}[r[1]], r[0]))
    assert [tuple(row.values()) for row in first.to_pylist()] == expected[:3]


def test_changing_files_without_partition_columns(migrated: pp.Table) -> None:
    migrated.delete("p = 'a' AND id = 1")
    migrated.update({"id": "id + 100"}, "q = 2 AND id = 21")
    rows = [row for row in _ROWS if row[0] not in (1, 21)] + [(121, None, 2)]
    assert _rows(migrated.scan().to_arrow()) == sorted(rows, key=lambda row: row[0])
    migrated.compact(full=True)
    assert _rows(migrated.scan().to_arrow()) == sorted(rows, key=lambda row: row[0])
    assert _rows(migrated.scan("p = 'a'").to_arrow()) == [(0, "a", 1), (2, "a", 1), (3, "a", 1)]


@pytest.mark.java
@requires_java_oracle
def test_blanks_of_char_partitions_in_orc(tmp_path: Path, oracle: Oracle) -> None:
    """ORC files hold CHAR values without the blanks at their end; partitions hold them with."""
    fields = [DataField(0, "id", parse_type("INT NOT NULL")), DataField(1, "c", parse_type("CHAR(4)"))]
    values = ["ab ", "ab", "    ", None]
    options = {"file.format": "orc"}

    def rows(first: int) -> pa.Table:
        ids = pa.array(range(first, first + len(values)), pa.int32())
        return pa.Table.from_arrays([ids, pa.array(values, pa.string())], schema=arrow_schema(fields))

    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, partition_keys=["c"], options=options)
        batch.write(tmp_path, "db.t", rows(0))
    table = pp.Table.open(tmp_path / "db.db" / "t")
    table.append(rows(10))
    with oracle.batch() as batch:
        whole = batch.read(tmp_path, "db.t")
    assert lines(table.scan().to_arrow()) == whole.lines
    for value in ("ab ", "ab"):
        found = table.scan(f"c = '{value}'").to_arrow()  # compared as if filled with blanks
        assert sorted(found.column("c").to_pylist()) == ["ab", "ab", "ab ", "ab "]
        assert table.count(f"c = '{value}'") == 4
    table.compact(full=True)
    assert lines(table.scan().to_arrow()) == whole.lines
