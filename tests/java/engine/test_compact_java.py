"""Java Paimon on tables that were compacted here: the same rows in the same order, and it goes on from there."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import index_source, planned_live_files
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.sql.predicate.bind import bind
from support.compaction import VECTORS, deleted, ids, index_entries, live, make, rows
from support.effort import sampled
from support.fixtures import requires_shared, table_path
from support.oracle import Oracle
from support.oracle_filters import from_oracle
from support.values import lines

INDEXES = {
    "file-index.bitmap.columns": "color",
    "file-index.range-bitmap.columns": "id,price",
    "file-index.bloom-filter.columns": "id",
    "file-index.in-manifest-threshold": "1b",
}
FILTERS: list[dict[str, Any]] = [
    {"op": "eq", "field": "color", "literals": ["red"]},
    {"op": "isnull", "field": "color", "literals": []},
    {"op": "between", "field": "price", "literals": ["3.0", "9.5"]},
    {"op": "in", "field": "id", "literals": [5, 17, 1000]},
    {"op": "ge", "field": "id", "literals": [55]},
    {"op": "isnull", "field": "day", "literals": []},
]
TABLES: dict[str, tuple[dict[str, str], tuple[str, ...], dict[str, Any]]] = {
    "plain": ({}, (), {}),
    "orc": ({"file.format": "orc"}, (), {}),
    "avro": ({"file.format": "avro"}, (), {}),
    "partitions": ({}, ("day",), {}),
    "buckets": ({"bucket": "2", "bucket-key": "id"}, ("day",), {}),
    "bits64": ({"deletion-vectors.bitmap64": "true"}, (), {"full": True}),
    "order": ({"target-file-row-num": "20"}, (), {"order_by": "color, price"}),
    "zorder": ({"target-file-row-num": "20"}, ("day",), {"order_by": "color, price", "order": "zorder"}),
    "hilbert": ({}, (), {"order_by": "id, price", "order": "hilbert"}),
}


def test_java_reads_what_was_compacted(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name, (options, keys, call) in sampled(TABLES.items(), 2):
        table = make(tmp_path / name / "db.db" / "t", 8, VECTORS | INDEXES | options, partition_by=keys)
        table.delete("id IN (3, 33, 77) OR id BETWEEN 40 AND 49")
        before, gone = sorted(lines(table.scan().to_arrow())), deleted(table)
        assert gone >= 3
        assert table.compact(**call).rows_dropped == gone, name
        assert sorted(lines(table.scan().to_arrow())) == before, name
        table.append(rows(80, 3))
        tables[name] = table
    with oracle.batch() as batch:
        whole = {n: batch.read(tmp_path / n, "db.t") for n in tables}
        order = {n: batch.add("read", tmp_path / n, "db.t", "--unsorted") for n in tables}
        found = {n: [batch.read(tmp_path / n, "db.t", filter=f) for f in FILTERS] for n in tables}
        answers = {}
        for name, table in tables.items():
            spec, files = planned_live_files(table._store, table.schema, live(table))
            for file in files:
                path, fields = Path(str(file.index_path)), spec.fields_of(file)
                answers[name, file.path] = file, fields, batch.index_eval(path, fields, FILTERS[:5], file.row_count)
    for name, table in tables.items():
        assert whole[name].lines == lines(table.scan().to_arrow()), name
        for filter_, reply in zip(FILTERS, found[name], strict=True):
            ours = lines(table.scan(from_oracle(filter_, table.schema.fields)).to_arrow())
            java = [line for line in reply.lines if line in set(ours)]  # Java filters by files and pages only
            assert java == ours, (name, filter_)
    for name in {"plain", "orc", "avro", "order", "hilbert"} & tables.keys():  # what was appended later is in between
        written = [r["id"] for r in table_rows(tables[name]) if r["id"] < 80]
        assert [v["id"] for v in order[name].values if v["id"] < 80] == written, name
    for reply in [order["order"]] if "order" in tables else []:
        kept = [v for v in reply.values if v["id"] < 80]
        in_order = [(v["color"] is not None, v["color"] or "", float(v["price"])) for v in kept]
        assert in_order == sorted(in_order)
    for (name, _), (file, fields, reply) in answers.items():
        source = index_source(tables[name]._store.io, file)
        assert source is not None
        index = FileIndex.open(source)
        for filter_, java in zip(FILTERS[:5], reply.values, strict=True):
            predicate = bind(from_oracle(filter_, fields), fields)
            selection = index.evaluate(predicate, file.row_count, extended=False).selection
            positions: Any = "REMAIN" if selection.is_all else selection.to_array(file.row_count).tolist()
            assert positions == ([] if java == "SKIP" else java), (name, filter_)


def table_rows(table: pp.Table) -> list[dict[str, Any]]:
    """Rows in the order of files as the manifests list them."""
    return table.scan().to_arrow().to_pylist()  # type: ignore[no-any-return]


def test_java_goes_on_from_there_and_back(oracle: Oracle, tmp_path: Path) -> None:
    """Appends, deletes, compactions and expiry of both, in turn."""
    tables = {}
    for name, buckets in {"unaware": {}, "buckets": {"bucket": "2", "bucket-key": "id"}}.items():
        table = tables[name] = make(tmp_path / name / "db.db" / "t", 6, VECTORS | INDEXES | buckets)
        table.delete("id < 12")
        table.compact(full=True)
    gone = {"op": "in", "field": "id", "literals": [101, 125, 20]}
    with oracle.batch() as batch:
        for name in tables:
            for part in range(3):
                batch.write(tmp_path / name, "db.t", rows(100 + part * 10))
            batch.add("delete", tmp_path / name, "db.t", "--filter", json.dumps(gone))
    expected = {*range(12, 60), *range(100, 130)} - {101, 125, 20}
    for name, table in tables.items():
        assert sorted(ids(table)) == sorted(expected), name
        assert table.compact(full=True).rows_dropped == 3, name
        assert index_entries(table) == [], name
        table.delete("id = 102")
        table.append(rows(200, 3))
    expected = expected - {102} | {200, 201, 202}
    with oracle.batch() as batch:
        for name in tables:
            batch.compact(tmp_path / name, "db.t")
            batch.expire(tmp_path / name, "db.t", 1)
        reads = {name: batch.read(tmp_path / name, "db.t") for name in tables}
    for name, table in tables.items():
        assert reads[name].lines == lines(table.scan().to_arrow()), name
        assert sorted(ids(table)) == sorted(expected), name


_SAME = (
    "partition", "bucket", "total_buckets", "row_count", "min_sequence_number", "max_sequence_number", "schema_id",
    "level", "file_source", "delete_row_count", "value_stats_min", "value_stats_max", "value_stats_nulls",
    "value_stats_cols", "min_key", "max_key", "first_row_id", "write_cols",
)  # fmt: skip


def test_entries_are_those_that_java_makes(oracle: Oracle, tmp_path: Path) -> None:
    """Of the same table, compacted there and here: the same picks in buckets, and entries equal but for names."""
    tables = {}
    for bucket, files in sampled(itertools.product(("-1", "2"), (2, 3, 6)), 2):
        buckets = {"bucket": bucket, "bucket-key": "id"} if bucket != "-1" else {}
        for kind in ("plain", "deleted", "parts"):
            home = tmp_path / f"{kind}_{bucket}_{files}"
            options = buckets | (VECTORS if kind == "deleted" else {})
            table = make(home / "db.db" / "t", files, options, partition_by=["day"] if kind == "parts" else [])
            if kind == "deleted":
                table.delete("id IN (0, 5, 6, 11, 19)")
            tables[home, bucket] = table
    with oracle.batch() as batch:
        for home, _ in tables:
            shutil.copytree(home, f"{home}_java")
            batch.compact(Path(f"{home}_java"), "db.t")
    for (home, bucket), table in tables.items():
        table.compact(full=bucket == "-1")  # the oracle merges all files of a table without buckets
        other = pp.Table.open(f"{home}_java/db.db/t")
        ours, theirs = (sorted(map(str, live(t).select(_SAME).to_pylist())) for t in (table, other))
        assert ours == theirs, home.name
        assert len(index_entries(table)) == len([e for e in index_entries(other) if e.deletion_ranges]), home.name


@requires_shared
def test_tables_that_java_wrote(oracle: Oracle, tmp_path: Path) -> None:
    tables, before = {}, {}
    for name in ("append_dv32_part", "append_dv64", "append_bucketed", "append_range_side"):
        shutil.copytree(table_path(name).parents[1], tmp_path / name)
        table = tables[name] = pp.Table.open(tmp_path / name / "db.db" / "t")
        before[name], gone = lines(table.scan().to_arrow()), deleted(table)
        assert table.compact(full=True).rows_dropped == gone, name
        assert lines(table.scan().to_arrow()) == before[name], name
        count = len(live(table))
        again = table.compact(options={"compaction.force-rewrite-all-files": "true"})
        assert (again.files_before, again.rows_dropped) == (count, 0), name
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path / name, "db.t") for name in tables}
    for name in tables:
        assert reads[name].lines == before[name], name


def test_java_sees_the_row_ids_that_were_kept(oracle: Oracle, tmp_path: Path) -> None:
    tables = {}
    for name, call in {"merged": {"full": True}, "ordered": {"order_by": "price"}}.items():
        options = VECTORS | INDEXES | {"row-tracking.enabled": "true"}
        table = tables[name] = make(tmp_path / name / "db.db" / "t", 3, options, partition_by=["day"])
        table.delete("id IN (3, 14, 20)")
        table.compact(**call)
        table.append(rows(100, 5))
    with oracle.batch() as batch:
        hidden = {name: batch.read(tmp_path / name, "db.t$row_tracking") for name in tables}
        plain = {name: batch.read(tmp_path / name, "db.t") for name in tables}
        for name in tables:
            batch.write(tmp_path / name, "db.t", rows(200, 5))
        later = {name: batch.read(tmp_path / name, "db.t$row_tracking") for name in tables}
    for name, table in tables.items():
        assert plain[name].lines == lines(table.scan("id < 200").to_arrow()), name
        columns = ["id", "_ROW_ID", "_SEQUENCE_NUMBER"]
        for filter_, reply in (("id < 200", hidden[name]), (None, later[name])):
            ours = table.scan(filter_, columns=columns).to_arrow().to_pylist()
            java = [{c: row[c] for c in columns} for row in reply.values]
            assert sorted(map(str, java)) == sorted(map(str, ours)), name
        ids_ = [row["_ROW_ID"] for row in later[name].values]
        assert len(set(ids_)) == len(ids_) == 27 + 5 + 5


def test_the_smallest_table(oracle: Oracle, tmp_path: Path) -> None:
    """All rows deleted: Java reads nothing, and appends."""
    table = make(tmp_path / "db.db" / "t", 2, VECTORS)
    table.delete("id >= 0 AND price >= 0")
    table.compact()
    with oracle.batch() as batch:
        empty = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", rows(0, 2))
        full = batch.read(tmp_path, "db.t")
    assert empty.lines == []
    assert full.lines == lines(table.scan().to_arrow())
    assert table.scan().to_arrow().num_rows == 2
