"""System tables: what Java Paimon says in its own, of the same tables."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, Kind, RowType
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError
from paimon_pyds.metadata.manifest import GlobalIndex
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.record_codec import encode_index_manifest
from paimon_pyds.ops.system.tables import SYSTEM_TABLES
from support.effort import sampled
from support.fixtures import fixture_dir, fixture_names, json_lines, meta, newer_fixture, requires_shared, table_path
from support.oracle import Oracle, requires_java_oracle
from support.values import dumps, json_rows, lines

OURS = {
    "data_evolution": {"null_value_counts", "min_value_stats", "max_value_stats"},
    "tags_branches": {"create_time"},
    "pk_all_types_key": {"min_key", "max_key"},
}
"""Java takes the statistics of partial columns for those of others, and can't print bytes; a branch's time is that of
its directory here."""

NOT_IN_JAVA = {
    "part_timestamp_legacy": ("partitions",),
}
"""Java fails where a partition's time has no seconds."""


def _system_reads() -> Iterator[Any]:
    """Reads of system tables, where the table on disk is still as it was then."""
    for name in fixture_names():
        if not meta(name).get("files_is_latest", True):
            continue
        for read in meta(name)["reads"]:
            table = read.get("table", "").partition("$")[2]
            if table in SYSTEM_TABLES:
                yield pytest.param(name, table, read["expected"], id=f"{name}-{table}")


def _comparable(row: dict[str, Any], left_out: set[str]) -> str:
    """A row without the place where the fixture was made."""
    kept = {k: v for k, v in row.items() if k not in left_out}
    if "options" in kept and kept["options"] is not None:  # Java's have no order
        kept["options"] = json.loads(kept["options"])
    for name in {"function", "function_options"} & kept.keys():  # nor have these
        kept[name] = sorted(kept[name][1:-1].split(", "))
    if "file_path" in kept:
        kept["file_path"] = kept["file_path"].partition("/table/db.db/t/")[2]
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def _assert_same(name: str, table: str, theirs: list[dict[str, Any]]) -> None:
    """The columns that Java 1.4 has come first; of those that later versions added there is nothing to compare."""
    ours = pp.Table.open(table_path(name)).system.read(table)
    left_out = OURS.get(name, set())
    columns = list(theirs[0]) if theirs else ours.schema.names
    assert ours.schema.names[: len(columns)] == columns
    rows = [_comparable(row, left_out) for row in json_rows(ours.select(columns))]
    assert sorted(rows) == sorted(_comparable(row, left_out) for row in theirs), (name, table)


@requires_shared
@pytest.mark.parametrize(("name", "table", "expected"), sampled(_system_reads(), 12))
def test_system_tables_are_java_s(name: str, table: str, expected: str) -> None:
    _assert_same(name, table, list(json_lines(fixture_dir(name) / expected)))


@pytest.mark.parametrize("table", SYSTEM_TABLES)
def test_every_table_has_every_system_table(table: str) -> None:
    for name in sampled(fixture_names(), 18):
        rows = pp.Table.open(table_path(name)).system.read(table)
        assert rows.num_columns
        assert not any(rows[f.name].null_count for f in rows.schema if not f.nullable), name


def _assert_as_java_reads(oracle: Oracle, names: list[str]) -> None:
    asked = [
        (name, table)
        for name in names
        for table in SYSTEM_TABLES
        if table != "file_indexes" and table not in NOT_IN_JAVA.get(name, ())
    ]
    with oracle.batch() as batch:
        replies = [batch.read(Path(table_path(name)).parent.parent, f"db.t${table}") for name, table in asked]
    for (name, table), reply in zip(asked, replies, strict=True):
        _assert_same(name, table, reply.values)


@requires_java_oracle
def test_system_tables_of_nested_columns_are_java_s(oracle: Oracle) -> None:
    """ORC and Avro files have counts of NULLs for them, Parquet files have no statistics at all."""
    _assert_as_java_reads(oracle, ["append_orc", "append_avro", "append_all_types"])


def test_indexes_of_the_whole_table_tell_rows_and_columns(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = pp.Table.create(tmp_path / "t", {"a": [1, 2, 3], "b": ["x", "y", "z"]}, options=options)
    table.delete("a = 2")
    name = table._store.latest_snapshot().index_manifest
    (vectors,) = table._store.read_index_manifest(name)
    indexes = [
        replace(vectors, index_type="btree", file_name=f"g{n}", deletion_ranges=None,
                global_index=GlobalIndex(row_range_start=5, row_range_end=9, index_field_id=id_, extra_field_ids=more))
        for n, (id_, more) in enumerate([(1, None), (0, (1,)), (7, None)])
    ]  # fmt: skip
    (tmp_path / "t/manifest" / name).write_bytes(encode_index_manifest([vectors, *indexes], "zstd"))
    METADATA_CACHE.clear()  # nobody writes a file of that name twice
    found = pp.Table.open(tmp_path / "t").system.read("table_indexes").sort_by("file_name").to_pylist()
    told = [tuple(row.values())[7:] for row in found]
    assert told == [(5, 9, 1, "b"), (5, 9, 0, "a,b"), (5, 9, 7, None), (None, None, None, None)]


def test_files_whose_rows_wait_for_a_bucket_are_left_out_as_in_java() -> None:
    path, expected = newer_fixture("postpone-system-tables")
    table = pp.Table.open(path)
    assert table.scan().to_arrow().num_rows == 0
    for name, counts in expected.items():
        assert table.system.read(name).num_rows == counts["Java 2.1"], name


def _placed(row: dict[str, Any]) -> str:
    return _comparable(
        {**row, **({"file_path": row["file_path"].rpartition("/")[2]} if "file_path" in row else {})}, set()
    )


@requires_java_oracle
def test_files_in_buckets_beside_rows_that_wait_are_java_s(oracle: Oracle, warehouse: Path) -> None:
    path = warehouse / "db.db" / "t"
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "file-index.bitmap.columns": "v"}
    columns = "k INT NOT NULL, p INT NOT NULL, v STRING"
    table = pp.Table.create(path, columns, primary_key=["p", "k"], partition_by=["p"], options=options)
    table.append([{"k": k, "p": p, "v": "old"} for k in range(9) for p in (1, 2)])
    table.compact()
    table.append([{"k": k, "p": p, "v": "new"} for k in range(3) for p in (2, 3)])
    names = [name for name in SYSTEM_TABLES if name != "file_indexes"]
    with oracle.batch() as batch:
        replies = [batch.read(warehouse, f"db.t${name}") for name in names]
        of_all = batch.read(warehouse, "sys.partitions")
    ours = [table.system.read(name) for name in names] + [pp.Catalog(warehouse).system.read("partitions")]
    for name, found, reply in zip([*names, "sys.partitions"], ours, [*replies, of_all], strict=True):
        rows = json_rows(found.select(list(reply.values[0]) if reply.values else []))
        assert sorted(map(_placed, rows)) == sorted(map(_placed, reply.values)), name
    assert set(table.system.read("file_indexes")["bucket"].to_pylist()) == {0}


@requires_java_oracle
def test_indexes_and_row_ids_are_java_s(oracle: Oracle, tmp_path: Path) -> None:
    """Deletion vectors, hashes of keys; and rows with their ids."""
    own = pp.Table.create(
        tmp_path / "db.db" / "t", pa.schema([("a", pa.int64())]), options={"deletion-vectors.enabled": "true"}
    )
    for first in (0, 10):
        own.append(pa.table({"a": range(first, first + 10)}))
    own.delete("a IN (3, 5, 14)")
    paths = [own.path, *map(table_path, ("pk_dv32_part", "pk_dv64", "pk_dynamic_bucket_part", "append_all_types"))]
    with oracle.batch() as batch:
        replies = [batch.read(Path(path).parents[1], "db.t$table_indexes") for path in paths]
        tracked = batch.read(Path(table_path("row_tracking")).parents[1], "db.t$row_tracking")
    for path, reply in zip(paths, replies, strict=True):
        ours = pp.Table.open(path).system.read("table_indexes")  # the columns from here on came with Java 2.1
        assert lines(ours.select(range(ours.column_names.index("row_range_start")))) == reply.lines
    assert [bool(reply.lines) for reply in replies] == [True, True, True, True, False]
    assert [row["_CARDINALITY"] for row in replies[0].values[0]["dv_ranges"]] == [2, 1]
    assert lines(pp.Table.open(table_path("row_tracking")).system.read("$row_tracking")) == tracked.lines


@requires_java_oracle
def test_aggregation_fields_are_java_s(oracle: Oracle, tmp_path: Path) -> None:
    _assert_as_java_reads(oracle, ["pk_aggregation", "pk_partial_update_seqgroup", "append_default_values"])
    nested = RowType(
        fields=(DataField(2, "a`b", AtomicType(Kind.INT), "it's"), DataField(3, "c", AtomicType(Kind.DATE)))
    )
    fields = [
        DataField(0, "id", AtomicType(Kind.INT, nullable=False), "the key"),
        DataField(1, "r", ArrayType(element=nested.with_nullable(False))),
    ]
    options = {"bucket": "1", "fields.r.ignore-retract": "true", "fields.default-aggregate-function": "last_value"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=["id"], options=options)
        read = batch.read(tmp_path, "db.t$aggregation_fields")
    found = json_rows(pp.Table.open(tmp_path / "db.db" / "t").system.read("aggregation_fields"))
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, read.values))


@pytest.mark.long
@requires_java_oracle
@requires_shared
def test_all_system_tables_of_all_tables_are_java_s(oracle: Oracle) -> None:
    _assert_as_java_reads(oracle, fixture_names())


def test_what_later_versions_of_java_tell(tmp_path: Path) -> None:
    """Who made a snapshot and how; the buckets of partitions, and their rows that are marked as deleted."""
    options = {"deletion-vectors.enabled": "true", "bucket": "2", "bucket-key": "id"}
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["p"], options=options)
    table.append(pa.table({"id": range(20), "p": [0] * 10 + [1] * 10}, schema=schema))
    table.delete("id IN (1, 2, 3)")
    path = tmp_path / "t" / "snapshot" / "snapshot-1"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"operation": "MERGE", "writerVersion": "2.1"}))
    told = pp.Table.open(tmp_path / "t").system.read("snapshots").select(["operation", "writer_version"])
    assert told.to_pylist()[0] == {"operation": "MERGE", "writer_version": "2.1"}
    assert told.to_pylist()[1] == {"operation": "DELETE", "writer_version": None}
    names = ["partition", "total_buckets", "done", "deleted_record_count"]
    rows = table.system.read("partitions").select(names).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("p=0", 2, False, 3), ("p=1", 2, False, 0)]


COLUMNS = [
    "partition", "bucket", "file_path", "file_size_in_bytes", "record_count", "schema_id", "column_name", "index_type",
    "storage_type", "index_file_path", "index_size_in_bytes", "index_container_size_in_bytes", "is_empty",
]  # fmt: skip


def _indexed(path: Path) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("day", pa.int32())])
    table = pp.Table.create(path, schema, partition_by=["day"], options={"file-index.bitmap.columns": "color"})
    table.append(pa.table({"id": [1, 2], "color": ["red", None], "day": [1, None]}, schema=schema))
    table.alter({"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.items": "1000"})
    table.append(pa.table({"id": [3], "color": ["red"], "day": [1]}, schema=schema))
    return table


def test_every_index_of_every_file_is_listed(tmp_path: Path) -> None:
    table = _indexed(tmp_path / "t")
    listed = table.system.read("$file_indexes")
    assert listed.schema.names == COLUMNS
    rows = sorted(listed.to_pylist(), key=lambda r: (r["storage_type"], str(r["partition"]), r["index_type"]))
    assert [(r["partition"], r["column_name"], r["index_type"], r["storage_type"], r["schema_id"]) for r in rows] == [
        ("{1}", "color", "bitmap", "EMBEDDED", 0),
        ("{null}", "color", "bitmap", "EMBEDDED", 0),
        ("{1}", "color", "bitmap", "FILE", 1),
        ("{1}", "id", "bloom-filter", "FILE", 1),
    ]
    side = rows[-1]
    size = Path(side["index_file_path"]).stat().st_size
    assert size == side["index_container_size_in_bytes"] > side["index_size_in_bytes"] > 500
    assert Path(side["file_path"]).stat().st_size == side["file_size_in_bytes"]
    assert {r["index_file_path"] for r in rows[:2]} == {None}
    assert [r["record_count"] for r in rows] == [1, 1, 1, 1]
    assert not any(r["is_empty"] for r in rows)
    Path(side["index_file_path"]).write_bytes(b"x" * 100)
    with pytest.raises(CorruptFileError, match="container"):
        table.system.read("file_indexes")


@requires_shared
def test_indexes_of_java_s_tables_are_those_on_disk() -> None:
    """One row for each index of the containers that the fixture lists."""
    for name in ("append_mixed_index", "append_index_map", "pk_index", "append_bitmap_v1_embedded"):
        table = pp.Table.open(table_path(name))
        rows = table.system.read("file_indexes").to_pylist()
        options = table.options
        columns = {
            (c.strip(), key.split(".")[1])
            for key, value in options.items()
            if key.startswith("file-index.") and key.endswith(".columns")
            for c in value.split(",")
        }
        assert {(r["column_name"], r["index_type"]) for r in rows} == columns
        files = {r["file_path"] for r in rows}
        assert len(rows) == len(columns) * len(files)
        assert files == set(table.system.read("files")["file_path"].to_pylist())


def test_statistics_follow_the_columns(tmp_path: Path) -> None:
    """Renamed, widened and added columns, under their names of today."""
    schema = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.binary()), ("d", pa.date32())])
    table = pp.Table.create(tmp_path / "t", schema)
    table.append(pa.table({"a": [3, None], "b": ["x", "y"], "c": [b"\x01\xff", None], "d": [1, 2]}, schema=schema))
    table.alter(rename_columns={"b": "bb"}, change_types={"a": "DOUBLE"}, add_columns={"e": "INT"}, drop_columns=["d"])
    (row,) = table.system.read("files").to_pylist()
    assert row["null_value_counts"] == "{a=1, bb=0, c=1, e=2}"
    assert row["min_value_stats"].startswith("{a=3.0, bb=x, c=")
    assert row["max_value_stats"].endswith("e=null}")
    assert (row["partition"], row["min_key"], row["file_source"], row["write_cols"]) == ("{}", None, "APPEND", None)


def test_tables_that_were_never_written_have_nothing(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]), options={"bucket": "-1"})
    counts = {name: table.system.read(name).num_rows for name in SYSTEM_TABLES}
    assert {name for name, n in counts.items() if n} == {"schemas", "options", "aggregation_fields"}
    assert table.system.read("OPTIONS").to_pylist() == [{"key": "bucket", "value": "-1"}]


@pytest.mark.parametrize(
    ("created", "retained", "expected"),
    [
        ([2026, 1, 31, 12, 30], 86400.0, ("2026-01-31T12:30:00", "PT24H")),
        ([2026, 1, 31, 12, 30, 5, 250_000_000], 5405, ("2026-01-31T12:30:05.250000", "PT1H30M5S")),
        ([2026, 1, 31, 12, 30, 5], 0.25, ("2026-01-31T12:30:05", "PT0.25S")),
        (None, 0, (None, "PT0S")),
    ],
)
def test_times_of_tags(tmp_path: Path, created: Any, retained: Any, expected: tuple[str | None, str]) -> None:
    table = _indexed(tmp_path / "t")
    tag = json.loads(Path(table._store.paths.snapshot(1)).read_text())
    Path(table._store.paths.tag_dir).mkdir()
    Path(table._store.paths.tag("v1")).write_text(
        json.dumps({**tag, "tagCreateTime": created, "tagTimeRetained": retained})
    )
    (row,) = table.system.read("tags").to_pylist()
    made = None if row["create_time"] is None else row["create_time"].isoformat()
    assert (row["tag_name"], row["snapshot_id"], row["record_count"]) == ("v1", 1, 2)
    assert (made, row["time_retained"]) == expected


@pytest.mark.parametrize("wrong", [{"tagCreateTime": [2026, 13, 1, 0, 0]}, {"tagCreateTime": "now"},
                                   {"tagTimeRetained": -1}, {"tagTimeRetained": "1d"}])  # fmt: skip
def test_damaged_times_of_tags(tmp_path: Path, wrong: dict[str, Any]) -> None:
    table = _indexed(tmp_path / "t")
    tag = json.loads(Path(table._store.paths.snapshot(1)).read_text())
    Path(table._store.paths.tag_dir).mkdir()
    Path(table._store.paths.tag("v1")).write_text(json.dumps({**tag, **wrong}))
    with pytest.raises(CorruptFileError, match="tag"):
        table.system.read("tags")


def test_other_names_are_refused(tmp_path: Path) -> None:
    table = _indexed(tmp_path / "t")
    with pytest.raises(OptionError, match="did you mean manifests"):
        table.system.read("manifest")
    with pytest.raises(PaimonError, match="row-tracking"):
        table.system.read("row_tracking")


@requires_java_oracle
def test_consumers_and_statistics_are_java_s(oracle: Oracle, tmp_path: Path) -> None:
    """Files as streaming readers and ANALYZE leave them."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    path = tmp_path / "db.db" / "t"
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema)
        batch.write(tmp_path, "db.t", [{"id": 1, "s": "a"}])
    for id_, content in (("a", '{"nextSnapshot": 7}'), ("b-c", '{\n  "nextSnapshot" : 2\n}')):
        (path / "consumer").mkdir(exist_ok=True)
        (path / "consumer" / f"consumer-{id_}").write_text(content)
    columns = {"id": {"colId": 0, "distinctCount": 1, "min": "1", "max": "1", "nullCount": 0}, "s": {"colId": 1}}
    found = {"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 1, "mergedRecordSize": 99, "colStats": columns}
    (path / "statistics").mkdir()
    (path / "statistics" / "stat-1").write_text(json.dumps(found))
    snapshot = path / "snapshot" / "snapshot-1"
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text()) | {"statistics": "stat-1"}))
    with oracle.batch() as batch:
        java = {name: batch.read(tmp_path, f"db.t${name}") for name in ("consumers", "statistics")}
    for name, reply in java.items():
        assert sorted(map(dumps, json_rows(pp.Table.open(path).system.read(name)))) == sorted(map(dumps, reply.values))
    assert java["statistics"].values[0]["mergedRecordSize"] == 99
    (path / "consumer" / "consumer-a").write_text("{}")
    with pytest.raises(CorruptFileError, match="nextSnapshot"):
        pp.Table.open(path).system.read("consumers")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    """As a program in another encoding makes them; a file of such a name is nobody's orphan."""
    table = pp.Table.create(tmp_path / "t", {"id": [1]})
    table.tags.create("kept")
    root = os.fsencode(table.path)
    shutil.copyfile(root + b"/tag/tag-kept", root + b"/tag/tag-k\xe4")
    shutil.copytree(root + b"/schema", root + b"/branch/branch-k\xe4/schema")
    (tmp_path / "t/consumer").mkdir()
    Path(os.fsdecode(root + b"/consumer/consumer-k\xe4")).write_text('{"nextSnapshot": 1}')
    stray = os.fsdecode(root + b"/bucket-0/data-k\xe4")
    Path(stray).write_bytes(b"x")
    os.utime(stray, (0, 86_400))
    assert table.system.read("tags")["tag_name"].to_pylist() == ["kept", "k\\udce4"]
    assert table.system.read("branches")["branch_name"].to_pylist() == ["k\\udce4"]
    assert table.system.read("consumers")["consumer_id"].to_pylist() == ["k\\udce4"]
    assert not table.maintenance.remove_orphan_files(dry_run=False).files.num_rows
    assert os.path.exists(stray)
