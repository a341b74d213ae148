"""Compaction: fewer files, the same rows, and nothing of the table's meaning lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import index_source, planned_live_files
from paimon_pyds.errors import CorruptFileError, OptionError, PredicateError, SchemaError, UnsupportedError
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.normal_form import parse_filter
from support.compaction import (
    SCHEMA,
    VECTORS,
    data_files,
    delete_positions,
    ids,
    index_entries,
    latest,
    live,
    make,
    names,
    rows,
)
from support.effort import sampled
from support.progress import Seen
from support.values import lines

FORMATS = ("parquet", "orc", "avro")


@pytest.mark.parametrize("format_", FORMATS)
def test_small_files_become_one(tmp_path: Path, format_: str) -> None:
    table = make(tmp_path / "t", 6, {"file.format": format_})
    before, entries = table.scan().to_arrow(), live(table).to_pylist()
    seen = Seen()
    dry = table.compact(dry_run=True)
    assert (dry.dry_run, dry.snapshot_id, dry.files_before, dry.rows, dry.groups) == (True, None, 6, 60, 1)
    assert latest(table).id == 6
    summary = table.compact(progress=seen)
    assert (summary.snapshot_id, summary.files, summary.groups) == (7, 6, 1)
    assert (summary.files_before, summary.files_after, summary.rows, summary.rows_dropped) == (6, 1, 60, 0)
    assert summary.bytes_before == dry.bytes_before == sum(e["file_size"] for e in entries)
    assert (summary.attempts, summary.groups_skipped, seen.done("rewriting")) == (1, 0, 60)
    assert table.scan().to_arrow().equals(before)
    (entry,) = live(table).to_pylist()
    assert summary.bytes_after == entry["file_size"]
    assert (entry["file_source"], entry["level"], entry["total_buckets"], entry["bucket"]) == (1, 0, -1, 0)
    assert (entry["min_sequence_number"], entry["max_sequence_number"]) == (0, 59)
    snapshot = latest(table)
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, 60)
    again = table.compact()
    assert (again.snapshot_id, again.files, again.files_before, again.attempts) == (None, 1, 0, 0)
    assert table.scan(snapshot=6).to_arrow().equals(before)


def test_few_small_files_stay_unless_all_are_asked_for(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 4)
    assert table.compact().snapshot_id is None
    assert table.compact(options={"compaction.min.file-num": "4"}).files_before == 4
    table.append(rows(40))
    assert table.compact().snapshot_id is None
    assert table.compact(full=True).files_before == 2
    assert ids(table) == list(range(50))


def test_files_roll_at_the_target(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, {"target-file-row-num": "25"})
    summary = table.compact()  # five of them are worth two full files, and one alone is not worth a rewrite
    assert (summary.files_before, summary.files_after) == (5, 2)
    assert sorted(live(table)["row_count"].to_pylist()) == [10, 25, 25]
    assert sorted(live(table)["min_sequence_number"].to_pylist()) == [0, 0, 25]
    assert table.compact().snapshot_id is None
    assert sorted(ids(table)) == list(range(60))


def test_large_files_stay(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, options={"target-file-row-num": "1000"})
    table.append(rows(0, 700))
    (large,) = names(table)
    for number in range(5):
        table.append(rows(1000 + number * 10))
    assert table.compact().files_before == 5
    assert large in names(table)
    assert table.compact(options={"compaction.force-rewrite-all-files": "true"}).files_before == 2
    assert large not in names(table)
    assert sorted(ids(table)) == [*range(700), *range(1000, 1050)]


# ------------------------------------------------------------------------------------------------------ deleted rows


def test_deleted_rows_go_and_their_vectors_with_them(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 3, VECTORS)
    first, second, third = names(table)
    delete_positions(table, {first: [0, 9], second: range(10)})
    assert table.compact(dry_run=True).rows_dropped == 12
    summary = table.compact()
    # The third one alone is too few to merge.
    assert (summary.files_before, summary.files_after, summary.rows, summary.rows_dropped) == (2, 1, 8, 12)
    assert third in names(table)
    assert index_entries(table) == []
    assert sorted(ids(table)) == [*range(1, 9), *range(20, 30)]
    assert latest(table).delta_record_count == -12
    assert latest(table).total_record_count == 18


def test_the_share_of_deleted_rows_decides_for_large_files(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, options={**VECTORS, "target-file-row-num": "10"})
    table.append(rows(0, 20))
    one, two = names(table)
    delete_positions(table, {one: [1, 2], two: [1, 2, 3]})
    assert table.compact(options={"compaction.delete-ratio-threshold": "0.3"}).snapshot_id is None
    assert (table.compact().rows_dropped, one in names(table), two in names(table)) == (3, True, False)
    (entry,) = index_entries(table)  # its other vector is still needed
    assert [r.data_file for r in entry.deletion_ranges or ()] == [one]
    assert table.compact(full=True).rows_dropped == 2
    assert index_entries(table) == []
    assert sorted(ids(table)) == [0, *range(3, 11), *range(14, 20)]


def test_a_table_whose_rows_are_all_deleted(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 2, VECTORS)
    delete_positions(table, {name: range(10) for name in names(table)})
    summary = table.compact()
    assert (summary.files_before, summary.files_after, summary.rows, summary.rows_dropped) == (2, 0, 0, 20)
    assert (ids(table), names(table), latest(table).total_record_count) == ([], [], 0)
    table.append(rows(0))
    assert ids(table) == list(range(10))


# ---------------------------------------------------------------------------------------------------------- indexes


def test_statistics_and_indexes_are_those_of_a_fresh_file(tmp_path: Path) -> None:
    indexes = {
        "file-index.bitmap.columns": "color",
        "file-index.range-bitmap.columns": "price,day",
        "file-index.bloom-filter.columns": "id",
        "file-index.in-manifest-threshold": "1b",
    }
    table, fresh = make(tmp_path / "t", 6, indexes), pp.Table.create(tmp_path / "f", SCHEMA, options=indexes)
    fresh.append(table.scan().to_arrow())
    table.compact()
    (ours,), (theirs,) = live(table).to_pylist(), live(fresh).to_pylist()
    for name in ("row_count", "value_stats_min", "value_stats_max", "value_stats_nulls", "value_stats_cols"):
        assert ours[name] == theirs[name], name
    (file,), (other,) = (planned_live_files(t._store, t.schema, live(t))[1] for t in (table, fresh))
    assert file.index_path is not None
    assert other.index_path is not None
    assert Path(file.index_path).read_bytes() == Path(other.index_path).read_bytes()
    source = index_source(table._store.io, file)
    assert source is not None
    predicate = bind(parse_filter("color = 'red' AND price < 10"), table.schema.fields)
    found = FileIndex.open(source).evaluate(predicate, file.row_count).selection.to_array(file.row_count)
    wanted = [i for i, r in enumerate(table.scan().to_arrow().to_pylist()) if r["color"] == "red" and r["price"] < 10]
    assert found.tolist() == wanted


# ------------------------------------------------------------------------------------------------ schemas, partitions


def test_files_of_older_schemas_and_formats_take_the_current_ones(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 2)
    table.alter({"file.format": "orc"}, rename_columns={"color": "hue"}, change_types={"day": "BIGINT"})
    table.append(rows(20).rename_columns(["id", "hue", "price", "day"]))
    table.alter({"file.format": "avro"}, drop_columns=["price"], add_columns={"note": "STRING"})
    new = pa.table({"id": [30], "hue": ["red"], "day": [None], "note": ["x"]}, schema=table.arrow_schema)
    table.append(new)
    table.append(new)
    before = table.scan().to_arrow()
    assert table.compact().files_before == 5
    (entry,) = live(table).to_pylist()
    assert (entry["schema_id"], entry["file_name"].rpartition(".")[2]) == (table.schema.id, "avro")
    assert table.scan().to_arrow().equals(before)
    assert table.count("hue = 'red' AND note IS NULL") == 8


def test_partitions_are_compacted_each_for_itself(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, partition_by=["day"])  # NULL, 0 and 1
    before = sorted(lines(table.scan().to_arrow()))
    assert table.compact("day IS NULL").files_before == 6
    assert table.compact("day = 1", dry_run=True).files_before == 6
    assert len(names(table)) == 13
    summary = table.compact()
    assert (summary.groups, summary.files_before, summary.files_after) == (2, 12, 2)
    assert sorted(lines(table.scan().to_arrow())) == before
    assert {p.parent.parent.name for p in Path(table.path).rglob("data-*")} == {
        "day=0",
        "day=1",
        "day=__DEFAULT_PARTITION__",
    }
    assert table.compact("day = 5").files == 0
    with pytest.raises(OptionError, match="compact takes conditions on partition columns only, not on id"):
        table.compact("id = 1")
    with pytest.raises(PredicateError):
        table.compact("nothing = 1")


def test_compacting_what_was_never_written(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    summary = table.compact(full=True)
    assert (summary.snapshot_id, summary.files, summary.groups) == (None, 0, 0)


# ---------------------------------------------------------------------------------------------------- fixed buckets


@pytest.mark.parametrize("ordered", ["true", "false"])
def test_buckets_keep_their_rows_in_order_and_go_on_counting(tmp_path: Path, ordered: str) -> None:
    options = {"bucket": "2", "bucket-key": "id", "bucket-append-ordered": ordered}
    table = make(tmp_path / "t", 5, options)
    before = live(table)
    assert len(before) == 10
    rows_before = _by_bucket(table)
    summary = table.compact()
    assert (summary.groups, summary.files_before, summary.files_after) == (2, 10, 2)
    assert _by_bucket(table) == rows_before
    for entry in live(table).to_pylist():
        of = [e for e in before.to_pylist() if e["bucket"] == entry["bucket"]]
        assert entry["total_buckets"] == 2
        assert entry["min_sequence_number"] == min(e["min_sequence_number"] for e in of) == 0
        assert entry["max_sequence_number"] == max(e["max_sequence_number"] for e in of) == entry["row_count"] - 1
    table.append(rows(50))
    newest = {e["bucket"]: e["min_sequence_number"] for e in live(table).to_pylist()[2:]}
    assert newest == {e["bucket"]: e["row_count"] for e in live(table).to_pylist()[:2]}
    assert sorted(ids(table)) == list(range(60))
    assert table.scan("id = 7").to_arrow()["id"].to_pylist() == [7]


def _by_bucket(table: pp.Table) -> dict[int, list[int]]:
    """The ids of each bucket, in the order of sequence numbers."""
    found: dict[int, list[int]] = {}
    scan = table.scan(columns=["id", "__paimon_bucket", "__paimon_file_path"]).to_arrow().to_pylist()
    for entry in sorted(live(table).to_pylist(), key=lambda e: e["min_sequence_number"]):
        mine = [r["id"] for r in scan if r["__paimon_file_path"].endswith(entry["file_name"])]
        found.setdefault(entry["bucket"], []).extend(mine)
    return found


def test_deleted_rows_in_buckets_shift_the_others_but_no_number_grows(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 3, {"bucket": "1", "bucket-key": "id", **VECTORS})
    _first, second, _third = names(table)
    delete_positions(table, {second: [0, 1, 2]})
    assert table.compact().rows_dropped == 3
    (entry,) = live(table).to_pylist()
    assert (entry["min_sequence_number"], entry["max_sequence_number"]) == (0, 26)
    assert ids(table) == [*range(10), *range(13, 30)]
    table.append(rows(30))
    assert sorted(live(table)["max_sequence_number"].to_pylist()) == [26, 36]


def test_a_partition_with_another_number_of_buckets_keeps_it(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, {"bucket": "2", "bucket-key": "id"})
    table.alter({"bucket": "3"})
    assert table.compact().files_before == 10
    assert set(live(table)["total_buckets"].to_pylist()) == {2}
    assert sorted(ids(table)) == list(range(50))
    assert table.scan("id = 33").count() == 1


# ------------------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("order", ["order", "zorder", "hilbert"])
@pytest.mark.parametrize("buffer", sampled(["256 mb", "64 kb"], 1))
def test_rows_in_an_order(tmp_path: Path, order: str, buffer: str) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA, partition_by=["day"], options={"target-file-row-num": "1000"})
    table.append(rows(0, 12_000))
    table.append(rows(12_000, 3_000))
    before = sorted(ids(table))
    summary = table.compact(
        order_by=["color", "price"], order=order, options={"write-buffer-size": buffer, "spill-compression": "lz4"}
    )
    assert (summary.groups, summary.rows, summary.files_before) == (3, 15_000, 18)
    assert sorted(ids(table)) == before
    assert summary.files_after == len(names(table)) == 3 + 6 + 6
    if order == "order":
        for day in ("IS NULL", "= 0", "= 1"):
            found = table.scan(f"day {day}", columns=["color", "price", "id"]).to_arrow().to_pylist()
            keys = [(r["color"] is not None, r["color"] or "", r["price"], r["id"]) for r in found]
            assert keys == sorted(keys)  # equal rows keep their order, which is that of ids
    pruned = table.explain("price BETWEEN 3 AND 4" if order != "order" else "color = 'red'").steps[-1].files
    assert pruned < summary.files_after / 1.5
    assert latest(table).commit_kind is CommitKind.COMPACT


def test_an_order_of_buckets_without_one(tmp_path: Path) -> None:
    options = {"bucket": "2", "bucket-key": "id"}
    table = make(tmp_path / "t", 3, options)
    with pytest.raises(UnsupportedError, match="bucket-append-ordered"):
        table.compact(order_by="price")
    table.alter({"bucket-append-ordered": "false"})
    assert table.compact(order_by="price").groups == 2
    for bucket in (0, 1):
        scan = table.scan(columns=["price", "__paimon_bucket"]).to_arrow().to_pylist()
        prices = [r["price"] for r in scan if r["__paimon_bucket"] == bucket]
        assert prices == sorted(prices)
    assert sorted(ids(table)) == list(range(30))


def test_an_order_drops_deleted_rows_of_every_file(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 2, VECTORS)
    first, _second = names(table)
    delete_positions(table, {first: [3]})
    assert table.compact(order_by="id").rows_dropped == 1
    assert ids(table) == [*range(3), *range(4, 20)]
    assert index_entries(table) == []


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        ({"order_by": "nothing"}, SchemaError, "no column 'nothing'"),
        ({"order_by": "day"}, OptionError, "one partition can't be ordered by its column 'day'"),
        ({"order_by": "tags"}, OptionError, "'tags', a column of type ARRAY<INT>"),
        ({"order_by": "id,id"}, OptionError, "named twice"),
        ({"order_by": "id", "order": "peano"}, OptionError, "order is one of order, zorder, hilbert"),
        ({"order": "zorder"}, OptionError, "needs the columns"),
        ({"order_by": "id", "options": {"spill-compression": "brotli"}}, OptionError, "brotli"),
        ({"options": {"target-file-sice": "1 mb"}}, OptionError, "target-file-size"),
    ],
)
def test_what_makes_no_sense_is_said(tmp_path: Path, call: dict[str, Any], error: type[Exception], text: str) -> None:
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.int32())))
    table = pp.Table.create(tmp_path / "t", schema, partition_by=["day"])
    table.append(rows(0).append_column("tags", pa.array([[1]] * 10, pa.list_(pa.int32()))))
    with pytest.raises(error, match=text):
        table.compact(**call)
    assert latest(table).id == 1


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("call", [{"full": True}, {"order_by": "price"}])
def test_row_ids_survive(tmp_path: Path, format_: str, call: dict[str, Any]) -> None:
    """Once, twice, and with rows that have come and gone in between."""
    hidden = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]
    table = make(tmp_path / "t", 3, {"row-tracking.enabled": "true", "file.format": format_, **VECTORS})
    expected = {i: (i, i // 10 + 1) for i in range(30)}
    for turn in range(2):
        gone = 7 + 10 * turn
        table.delete(f"id = {gone}")
        del expected[gone]
        summary = table.compact(**call)
        assert (summary.files_after, summary.rows_dropped) == (1, 1)
        found = table.scan(columns=hidden).to_arrow().to_pylist()
        assert {r["id"]: (r["_ROW_ID"], r["_SEQUENCE_NUMBER"]) for r in found} == expected
        assert latest(table).next_row_id == 30 + 10 * turn
        (entry,) = live(table).to_pylist()
        assert (entry["first_row_id"], entry["file_source"]) == (None, 1)
        assert entry["write_cols"] == ["id", "color", "price", "day", "_ROW_ID", "_SEQUENCE_NUMBER"]
        assert (entry["min_sequence_number"], entry["max_sequence_number"]) == (1, 3 + 3 * turn)
        assert table.scan().to_arrow().schema == table.arrow_schema
        table.append(rows(100 + 10 * turn))
        expected |= {100 + 10 * turn + i: (30 + 10 * turn + i, latest(table).id) for i in range(10)}


def test_row_ids_survive_a_spilled_order_by_all_columns(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, options={"row-tracking.enabled": "true"})
    table.append(pa.table({"id": [i * 7919 % 20_000 for i in range(20_000)]}, schema))
    table.compact(order_by="id", options={"write-buffer-size": "64 kb"})
    found = table.scan(columns=["id", "_ROW_ID"]).to_arrow().to_pylist()
    assert [r["id"] for r in found] == list(range(20_000))
    assert all(r["_ROW_ID"] * 7919 % 20_000 == r["id"] for r in found)


# ------------------------------------------------------------------------------------------------------------ damage


def test_a_damaged_file_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 6, partition_by=["day"])
    last = next(iter(Path(table.path).rglob("day=1/bucket-0/*.parquet")))
    last.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    there = data_files(table)
    with pytest.raises(CorruptFileError):
        table.compact()
    assert data_files(table) == there
    assert latest(table).id == 6


def test_null_in_a_column_that_became_not_null_is_said(tmp_path: Path) -> None:
    table = make(tmp_path / "t", 5, {"alter-column-null-to-not-null.disabled": "false"})
    table.alter(change_nullability={"color": False})
    there = data_files(table)
    with pytest.raises(SchemaError, match="'color' is NOT NULL"):
        table.compact()
    assert data_files(table) == there
