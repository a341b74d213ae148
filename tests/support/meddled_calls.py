"""Every public call on small tables of each kind, for `test_faults_meddled.py`.

Each takes the warehouse in which the table ``shop.db/t`` lies. Those of `READS` give rows, which are compared;
those of `LOOKS` say something else; those of `CHANGES` may change rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import paimon_pyds as pp
from paimon_pyds.engine.write.writer import TableWriter

Call = Callable[[Path], Any]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32())])
_QUICK = {
    "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "1 ms", "commit.max-retries": "3",
    "file-index.in-manifest-threshold": "1 b",
}  # fmt: skip
_KEY = {"primary_key": ["p", "id"], "partition_by": ["p"]}
TABLES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "append": ({}, {"file-index.bitmap.columns": "v", "file-index.bsi.columns": "id"}),
    "vectors": (
        {"partition_by": ["p"]},
        {
            "deletion-vectors.enabled": "true",
            "file-index.bloom-filter.columns": "v",
            "file-index.bloom-filter.v.items": "9",
        },
    ),
    "tracked": ({"partition_by": ["p"]}, {"row-tracking.enabled": "true", "file.format": "orc"}),
    "key": (_KEY, {"bucket": "1", "changelog-producer": "input", "changelog.time-retained": "1 d"}),
    "key vectors": (_KEY, {"bucket": "1", "deletion-vectors.enabled": "true", "file.format": "avro"}),
    "dynamic": (_KEY, {"bucket": "-1"}),
    "cross": ({"primary_key": ["id"], "partition_by": ["p"]}, {"bucket": "-1"}),
    "postponed": (_KEY, {"bucket": "-2"}),
}
"""What makes each table: arguments of `Table.create`, and options."""


def made(kind: str, warehouse: Path) -> None:
    """A table of a few snapshots with a tag, a branch, a consumer, statistics, and files to migrate."""
    how, options = TABLES[kind]
    path = warehouse / "shop.db/t"
    table = pp.Table.create(path, SCHEMA, options=_QUICK | options, **how)
    table.append(rows(0, 6))
    table.tags.create("early")
    table.branches.create("b", "early")
    pp.Table.open(path, branch="b").append(rows(20, 22))
    table.append(rows(4, 9) if how.get("primary_key") else rows(6, 9))
    table.maintenance.analyze()
    table.delete("id = 2")
    table.tags.create("late")
    (path / "consumer").mkdir()
    (path / "consumer" / "consumer-c").write_text('{"nextSnapshot": 2}')
    for number in (1, 2):
        (warehouse / f"files/p={number}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), warehouse / f"files/p={number}/{number}.parquet")


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table([list(ids), ["ab"[i % 2] for i in ids], [i % 4 for i in ids]], schema=SCHEMA)


def opened(warehouse: Path) -> pp.Table:
    return pp.Table.open(warehouse / "shop.db/t")


def texts(data: Any) -> list[str]:
    """Rows, comparable; their order does not count."""
    return sorted(map(str, data.to_pylist()))


def _on_table(call: Callable[[pp.Table], Any]) -> Call:
    return lambda warehouse: call(opened(warehouse))


def _written(table: pp.Table) -> list[Any]:
    with TableWriter(pickle.loads(pickle.dumps(table.write_context()))) as writer:
        for batch in rows(30, 33).to_batches():
            writer.write(batch)
        return [writer.prepare_commit()]


def _streamed(table: pp.Table) -> list[str]:
    return sorted(str(row) for batch in table.scan("v >= 1").to_batches() for row in batch.to_pylist())


READS: dict[str, Call] = {
    name: _on_table(call)
    for name, call in {
        "scan": lambda t: texts(t.scan().to_arrow()),
        "filter": lambda t: texts(t.scan("v = 1 AND id < 7").to_arrow()),
        "stream": _streamed,
        "head": lambda t: len(t.head(2)),
        "columns": lambda t: texts(t.scan("p = 'a'", columns=["v"]).to_arrow()),
        "count": lambda t: t.count(),
        "count some": lambda t: t.count("v = 1"),
        "exists": lambda t: t.exists("id = 7"),
        "distinct": lambda t: texts(t.distinct("v")),
        "least": lambda t: (t.min("id"), t.max("v"), t.sum("id", "v = 1")),
        "answer": lambda t: t.scan("v = 2").answer.count(),
        "top": lambda t: t.top_n("id DESC, 2").to_pylist(),
        "lookup": lambda t: (
            texts(t.lookup([{c: {"p": "a", "id": 4}[c] for c in t.primary_key}])) if t.primary_key else None
        ),
        "ro": lambda t: texts(t.system.read("ro")),
    }.items()
}

LOOKS: dict[str, Call] = {
    name: _on_table(call)
    for name, call in {
        "describe": lambda t: (t.system.describe_options(), t.schema, t.arrow_schema, t.options, t.partition_by),
        "states": lambda t: (t.snapshots.list(), t.snapshots.latest(), t.tags.list(), t.branches.list()),
        "readers and statistics": lambda t: (t.maintenance.consumers(), t.maintenance.statistics()),
        "named states": lambda t: (
            t.count(tag="early"), t.count(snapshot=2), t.count(timestamp="2999-01-01"),
            t.scan(options={"incremental-between": "1,2"}).count()
        ),
        "branch": lambda t: pp.Table.open(t.path, branch="b").count(),
        "audit log": lambda t: (t.system.audit_log().to_arrow(), t.system.binlog().to_arrow()),
        "explain": lambda t: (str(t.explain("v = 1")), str(t.explain("id = 3", analyze=True))),
        "repr": lambda t: (repr(t), t._repr_html_(), repr(t.scan("v = 1")), t.scan()._repr_html_()),
        "layout": lambda t: str(t.index.layout()),
        "advise partition": lambda t: str(t.index.advise_partition(["v = 1"])),
        "verify": lambda t: str(t.maintenance.verify()),
        "verify rows": lambda t: str(t.maintenance.verify(deep=True)),
        "diff": lambda t: (str(t.snapshots.diff(1, 2).summary()), t.snapshots.diff("early", "late").to_arrow()),
        "index dump": lambda t: str(t.index.dump()),
        "index verify": lambda t: str(t.index.verify()),
        "index cost": lambda t: str(t.index.cost({"file-index.bitmap.columns": "v"}, ["v = 1"])),
        "index advise": lambda t: str(t.index.advise(["v = 1"])),
        "dry runs": lambda t: (
            t.snapshots.expire(retain_max=1, dry_run=True), t.snapshots.rollback(1, dry_run=True),
            t.compact(full=True, dry_run=True),
            t.tags.delete("early", dry_run=True), t.branches.fast_forward("b", dry_run=True),
            t.maintenance.remove_orphan_files(dry_run=True), t.tags.rename("early", "n", dry_run=True),
            t.branches.rename("b", "n", dry_run=True), t.truncate(dry_run=True),
        ),
    }.items()
}  # fmt: skip
for _name in (
    "snapshots", "schemas", "options", "manifests", "partitions", "buckets", "tags", "branches", "table_indexes",
    "consumers", "statistics", "files", "file_indexes", "file_key_ranges",
):  # fmt: skip
    LOOKS[f"${_name}"] = _on_table(lambda t, name=_name: t.system.read(name))

CHANGES: dict[str, Call] = {
    name: _on_table(call)
    for name, call in {
        "append": lambda t: t.append(rows(40, 44)),
        "append and expire": lambda t: t.append(
            rows(40, 42),
            options=dict.fromkeys(("snapshot.num-retained.max", "snapshot.num-retained.min"), "1")
            | {"snapshot.time-retained": "1 ms"},
        ),
        "overwrite": lambda t: t.overwrite(rows(50, 52)),
        "overwrite dynamic": lambda t: t.overwrite(rows(52, 53), dynamic=True) if t.partition_by else None,
        "commit": lambda t: t.commit(_written(t)),
        "abort": lambda t: t.abort(_written(t)),
        "delete": lambda t: t.delete("v = 1"),
        "update": lambda t: t.update({"v": "v + 10"}, "id BETWEEN 3 AND 7"),
        "merge": lambda t: t.merge(
            rows(5, 12), list(t.primary_key or ("id",)), when_matched="update", when_not_matched="insert"
        ),
        "rewrite index": lambda t: t.index.build(rebuild=True),
        "compact": lambda t: t.compact(full=True),
        "compact in order": lambda t: t.compact(order_by="v"),
        "rescale": lambda t: t.maintenance.rescale(2),
        "expire": lambda t: t.snapshots.expire(retain_max=1, retain_min=1, older_than="0 s"),
        "expire changelogs": lambda t: t.snapshots.expire_changelogs(everything=True),
        "create tag": lambda t: (t.tags.create("new", 2), t.tags.create("late", 1, replace=True)),
        "rename tag": lambda t: t.tags.rename("early", "new"),
        "delete tag": lambda t: t.tags.delete("early"),
        "expire tags": lambda t: t.tags.expire("0 s"),
        "due tags": lambda t: t.tags.create_due(
            options={"tag.automatic-creation": "process-time", "tag.creation-period": "daily"}
        ),
        "reset consumer": lambda t: t.maintenance.reset_consumer("c", 3),
        "clear consumers": lambda t: t.maintenance.clear_consumers(),
        "expire partitions": lambda t: t.maintenance.expire_partitions(
            options={"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
        ),
        "truncate": lambda t: t.truncate(),
        "drop partitions": lambda t: t.maintenance.drop_partitions({"p": "a"}),
        "mark done": lambda t: t.maintenance.mark_partitions_done([{"p": "a"}]),
        "compact manifests": lambda t: t.maintenance.compact_manifests(),
        "analyze": lambda t: t.maintenance.analyze(["v"]),
        "create branch": lambda t: (t.branches.create("n"), t.branches.create("m", "late")),
        "rename branch": lambda t: t.branches.rename("b", "n"),
        "delete branch": lambda t: t.branches.delete("b"),
        "fast forward": lambda t: t.branches.fast_forward("b"),
        "rollback": lambda t: t.snapshots.rollback(2),
        "rollback to tag": lambda t: t.snapshots.rollback(tag="early"),
        "clone": lambda t: t.maintenance.clone(f"{t.path}2"),
        "purge": lambda t: t.maintenance.purge("t", named_states=True),
        "orphans": lambda t: t.maintenance.remove_orphan_files("0 s", dry_run=False),
        "repair": lambda t: t.maintenance.repair(),
        "missing files": lambda t: t.maintenance.remove_unexisting_files(dry_run=False),
        "alter": lambda t: t.alter({"snapshot.num-retained.min": "2"}, add_columns={"n": "INT"}),
    }.items()
} | {
    "databases": lambda w: (pp.Catalog(w).databases(), pp.Catalog(w).tables("shop")),
    "catalog table": lambda w: (pp.Catalog(w).table("shop.t").count(), pp.Catalog(w).table("shop.t$branch_b").count()),
    "catalog system": lambda w: (pp.Catalog(w).system.read("tables"), pp.Catalog(w).system.read("all_table_options")),
    "create database": lambda w: (pp.Catalog(w).create_database("n"), pp.Catalog(w).drop_database("n")),
    "drop database": lambda w: pp.Catalog(w).drop_database("shop", cascade=True),
    "create table": lambda w: pp.Catalog(w).create_table("shop.n", rows(0, 2)),
    "drop table": lambda w: pp.Catalog(w).drop_table("shop.t"),
    "rename table": lambda w: pp.Catalog(w).rename_table("shop.t", "n"),
    "alter table": lambda w: pp.Catalog(w).alter_table("shop.t", comment="c"),
    "migrate": lambda w: pp.migrate(w / "files", w / "shop.db/m"),
    "migrate by move": lambda w: pp.migrate(w / "files", w / "shop.db/m", mode="move"),
}  # fmt: skip
