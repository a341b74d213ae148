"""Global indexes of other writers on tables with row tracking: where rows are rewritten, they go with that commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest import GlobalIndex, IndexEntry
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.record_codec import encode_index_manifest

_SCHEMA = pa.schema([pa.field("p", pa.int32(), nullable=False), ("id", pa.int64()), ("v", pa.string())])
_VECTORS = {"deletion-vectors.enabled": "true"}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"p": [i % 2 for i in ids], "id": list(ids), "v": [f"v{i}" for i in ids]}, _SCHEMA)


def _table(path: Path, options: dict[str, str]) -> pp.Table:
    """A table with an index of each of its two partitions."""
    table = pp.Table.create(path, _SCHEMA, partition_by=["p"], options={"row-tracking.enabled": "true", **options})
    for number in range(3):
        table.append(_rows(*range(10 * number, 10 * number + 10)))
    partitions = dict.fromkeys(batch["partition"][at].as_py() for batch in _entries(table) for at in (0, -1))
    indexes = [
        IndexEntry(
            partition=partition, bucket=0, index_type="btree", file_name=f"btree-global-index-{number}.index",
            file_size=5, row_count=15,
            global_index=GlobalIndex(row_range_start=0, row_range_end=29, index_field_id=2, index_meta=b"x"),
        )
        for number, partition in enumerate(sorted(partitions))
    ]  # fmt: skip
    (path / "index").mkdir()
    for index in indexes:
        (path / "index" / index.file_name).write_bytes(b"index")
    name, _ = table._store.write_index_manifest(encode_index_manifest(indexes, "zstd"))
    snapshot = path / "snapshot" / "snapshot-3"
    snapshot.write_text(json.dumps({**json.loads(snapshot.read_text()), "indexManifest": name}))
    METADATA_CACHE.clear()  # files never change, but here
    return pp.Table.open(path)


def _entries(table: pp.Table) -> list[pa.RecordBatch]:
    manifests = [path.name for path in (Path(table.path) / "manifest").glob("manifest-*-0")]
    manifests = [name for name in manifests if "list" not in name]
    return list(table._store.read_manifests([(name, None) for name in manifests], ("partition",)))


def _indexed(table: pp.Table) -> list[int]:
    """The partitions that have an index."""
    found = table.system.read("table_indexes").to_pylist()
    return sorted(int(row["partition"].strip("{}")) for row in found if row["index_type"] == "btree")


_KEPT: dict[str, tuple[dict[str, str], Callable[[pp.Table], object]]] = {
    "append": ({}, lambda t: t.append(_rows(100, 101))),
    "delete by vectors": (_VECTORS, lambda t: t.delete("id = 11")),
    "delete of a file": ({}, lambda t: t.delete("p = 1 AND id >= 10 AND id < 20")),
    "tag": ({}, lambda t: t.tags.create("x")),
    "manifests": ({}, lambda t: t.maintenance.compact_manifests()),
    "analyze": ({}, lambda t: t.maintenance.analyze()),
    "alter": ({}, lambda t: t.alter(add_columns={"w": "INT"})),
}
_REWRITTEN: dict[str, tuple[dict[str, str], Callable[[pp.Table], object]]] = {
    "delete": ({}, lambda t: t.delete("id = 11")),
    "update": ({}, lambda t: t.update({"v": "'new'"}, "id = 11")),
    "update by vectors": (_VECTORS, lambda t: t.update({"v": "'new'"}, "id = 11")),
    "merge": (_VECTORS, lambda t: t.merge(_rows(11), on=["p", "id"], when_matched="update")),
    "compact": ({}, lambda t: t.compact("p = 1", full=True)),
    "drop": ({}, lambda t: t.maintenance.drop_partitions([{"p": 1}])),
    "overwrite": ({}, lambda t: t.overwrite(_rows(201), partition={"p": 1})),
}


@pytest.mark.parametrize("kind", _KEPT)
def test_they_stay_where_rows_stay_as_they_are(tmp_path: Path, kind: str) -> None:
    options, step = _KEPT[kind]
    table = _table(tmp_path / "t", options)
    assert _indexed(table) == [0, 1]
    step(table)
    assert _indexed(table) == [0, 1]
    table.snapshots.expire(retain_max=1)
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    assert len(list((tmp_path / "t/index").glob("btree-*"))) == 2


@pytest.mark.parametrize("kind", _REWRITTEN)
def test_they_go_where_rows_are_rewritten(tmp_path: Path, kind: str) -> None:
    options, step = _REWRITTEN[kind]
    table = _table(tmp_path / "t", options)
    step(table)
    assert _indexed(table) == [0]
    table.append(_rows(300))
    assert _indexed(table) == [0]
    table.snapshots.expire(retain_max=1)
    assert len(list((tmp_path / "t/index").glob("btree-*"))) == 1
    assert not table.maintenance.verify(deep=True).findings
