"""Files outside of a table's directory, and names that leave theirs: read where they are allowed, refused elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.catalog import Catalog
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, SecurityError
from paimon_pyds.metadata.manifest import DataFile, ManifestFile
from paimon_pyds.metadata.manifest_codec import encode_manifest, entries_to_batch
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.record_codec import encode_index_manifest, encode_manifest_list
from support.manifests import entry_at
from support.oracle import Oracle, requires_java_oracle

ROWS = pa.table({"id": [1, 2, 3], "color": ["red", "blue", "red"]})
OPTIONS = {
    "file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1 b", "deletion-vectors.enabled": "true",
}  # fmt: skip
ALLOW, TRUST = "external-paths.allow", "external-paths.trust-table"


def _named_outside(table: pp.Table, place: Callable[[DataFile], str]) -> None:
    """Give the data files of the latest snapshot external paths."""
    _edit_files(table, lambda file: replace(file, external_path=place(file)))


def _edit_files(table: pp.Table, edit: Callable[[DataFile], DataFile]) -> None:
    store = table._store
    for member in ("baseManifestList", "deltaManifestList"):
        manifests = []
        for manifest in store.read_manifest_list(_snapshot_file(table)[member]):
            batch = store.read_manifest(manifest.file_name)
            entries = [entry_at(batch, i) for i in range(batch.num_rows)]
            data = encode_manifest(entries_to_batch([replace(e, file=edit(e.file)) for e in entries]), "zstd")
            Path(store.paths.manifest(manifest.file_name)).write_bytes(data)
            manifests.append(replace(manifest, file_size=len(data)))
        _write_list(table, member, manifests)
    METADATA_CACHE.clear()


def _snapshot_file(table: pp.Table) -> dict[str, Any]:
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    loaded: dict[str, Any] = json.loads(Path(table._store.paths.snapshot(snapshot.id)).read_text())
    return loaded


def _write_list(table: pp.Table, member: str, manifests: Sequence[ManifestFile]) -> None:
    """Replace a manifest list of the latest snapshot, and say its size in the snapshot."""
    snapshot, data = _snapshot_file(table), encode_manifest_list(manifests, "zstd")
    Path(table._store.paths.manifest(snapshot[member])).write_bytes(data)
    text = json.dumps(snapshot | {f"{member}Size": len(data)})
    Path(table._store.paths.snapshot(snapshot["id"])).write_text(text)
    METADATA_CACHE.clear()


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """A table whose data files, side indexes and deletion vectors lie in ``ext``, as Java writes them there."""
    table = pp.Table.create(tmp_path / "wh" / "db.db" / "t", ROWS.schema, options=OPTIONS)
    table.append(ROWS)
    table.delete("id = 2")
    outside = tmp_path / "ext" / "bucket-0"
    shutil.move(Path(table.path) / "bucket-0", outside)
    _named_outside(table, lambda file: f"file:{outside}/{file.file_name}")
    snapshot = table.snapshots.latest()
    assert snapshot is not None and snapshot.index_manifest is not None
    entries = []
    for entry in table._store.read_index_manifest(snapshot.index_manifest):
        shutil.move(table._store.paths.index(entry.file_name), outside)
        entries.append(replace(entry, external_path=f"file:{outside}/{entry.file_name}"))
    Path(table._store.paths.manifest(snapshot.index_manifest)).write_bytes(encode_index_manifest(entries, "zstd"))
    METADATA_CACHE.clear()
    return table


def _reads(table: pp.Table) -> list[Callable[[], Any]]:
    """Calls that open files of the table."""
    return [
        lambda: table.scan().to_arrow(), lambda: table.count(), lambda: table.count("color = 'red'"),
        lambda: table.explain("color = 'red'"), lambda: table.top_n("id, 1"), lambda: table.index.verify(),
        lambda: table.index.dump(), lambda: table.system.read("file_indexes"), lambda: table.compact(full=True),
        lambda: table.index.build(rebuild=True), lambda: table.delete("id = 1"),
        lambda: table.update({"color": "'x'"}, "id = 1"), lambda: table.merge(ROWS, ["id"], when_matched="update"),
    ]  # fmt: skip


def test_what_nobody_allows_is_not_opened(table: pp.Table, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for opened in (table, pp.Table.open(table.path, storage_options={ALLOW: str(tmp_path / "other")})):
        for call in _reads(opened):
            with pytest.raises(SecurityError, match=ALLOW):
                call()
    assert sorted(tmp_path.rglob("*")) == before


def test_what_the_caller_allows_is_read(table: pp.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {ALLOW: f"/nowhere,file:{tmp_path}/ext", TRUST: "false"}
    opened = pp.Table.open(table.path, storage_options=options)
    for each in (opened, Catalog(tmp_path / "wh", options).table("db.t")):
        assert each.scan().to_arrow().to_pylist() == ROWS.take([0, 2]).to_pylist()
        assert each.count("color = 'red'") == 2 and each.count("color = 'blue'") == 0
    assert main(["count", table.path, "--storage-option", f"{ALLOW}={tmp_path}/ext"]) == 0
    assert capsys.readouterr().out == "2\n"
    assert opened.delete("id = 3").rows_deleted == 1
    opened.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == ROWS.slice(0, 1).to_pylist()  # all files lie within it again


def test_what_the_table_allows_is_read_unless_it_is_not_trusted(table: pp.Table, tmp_path: Path) -> None:
    table.alter(set_options={"data-file.external-paths": f"s3://elsewhere/x, file:{tmp_path}/ext"})
    assert table.count("color = 'red'") == 2
    table.alter(unset_options=["data-file.external-paths"])  # old files stay where they are
    assert table.scan().to_arrow().num_rows == 2
    careful = pp.Table.open(table.path, storage_options={TRUST: "false"})
    for call in _reads(careful):
        with pytest.raises(SecurityError, match=ALLOW):
            call()


@pytest.mark.parametrize(
    "place",
    ["{root}/../secret/{name}", "/{root}/secret/{name}", "file://{root}/ext/../secret/{name}", "{root}/extra/{name}",
     "http://host{root}/ext/{name}", "{root}/ext/other.parquet", "ext/{name}", "s3://bucket{root}/ext/{name}",
     "{root}/ext\\..\\..\\secret\\{name}"],
)  # fmt: skip
def test_hostile_places(table: pp.Table, tmp_path: Path, place: str) -> None:
    for name in ("secret", "extra"):
        shutil.copytree(tmp_path / "ext" / "bucket-0", tmp_path / name)
    _named_outside(table, lambda file: place.format(root=tmp_path, name=file.file_name))
    opened = pp.Table.open(table.path, storage_options={ALLOW: f"{tmp_path}/ext"})
    for call in _reads(opened):
        with pytest.raises(SecurityError):
            call()


@pytest.mark.parametrize("name", ["../../../secret.parquet", "/etc/passwd", "..", "a/b", ""])
def test_hostile_names_of_files(tmp_path: Path, name: str) -> None:
    table = pp.Table.create(tmp_path / "wh" / "t", ROWS.schema, options=OPTIONS)
    table.append(ROWS)
    pq.write_table(ROWS, tmp_path / "secret.parquet")
    for edit in (
        lambda file: replace(file, file_name=name),
        lambda file: replace(file, extra_files=(f"{name}.index",) if "/" in name else (name, "x.index")),
    ):
        copy = pp.Table(table._store)
        _edit_files(copy, edit)
        for call in (lambda: table.scan().to_arrow(), lambda: table.explain("color = 'red'"), table.index.verify):
            with pytest.raises(SecurityError):
                call()


@pytest.mark.parametrize("member", ["baseManifestList", "deltaManifestList", "indexManifest"])
def test_hostile_names_in_snapshots(tmp_path: Path, member: str) -> None:
    table = pp.Table.create(tmp_path / "wh" / "t", ROWS.schema, options=OPTIONS)
    table.append(ROWS)
    table.delete("id = 1")
    path = Path(table._store.paths.snapshot(2))
    snapshot = json.loads(path.read_text())
    (tmp_path / "stolen").write_bytes(Path(table._store.paths.manifest(snapshot[member])).read_bytes())
    path.write_text(json.dumps(snapshot | {member: "../../../stolen"}))
    with pytest.raises(SecurityError, match="leaves its directory"):
        table.scan().to_arrow()


def test_hostile_names_of_manifests(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "wh" / "t", ROWS.schema)
    snapshot = table.append(ROWS)
    assert snapshot is not None
    (manifest,) = table._store.read_manifest_list(snapshot.delta_manifest_list)
    shutil.copy(table._store.paths.manifest(manifest.file_name), tmp_path / "stolen")
    _write_list(table, "deltaManifestList", [replace(manifest, file_name="../../../stolen")])
    with pytest.raises(SecurityError, match="leaves its directory"):
        table.scan().to_arrow()


@pytest.mark.parametrize(
    "option", [{"data-file.prefix": "../../../stolen-"}, {"data-file.path-directory": "../../elsewhere"}]
)
def test_hostile_options_do_not_move_what_is_written(tmp_path: Path, option: dict[str, str]) -> None:
    table = pp.Table.create(tmp_path / "wh" / "t", ROWS.schema)
    path = Path(table.path) / "schema" / "schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"options": option}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((SecurityError, OptionError)):
        pp.Table.open(table.path).append(ROWS)
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == [p for p in before if p.is_file()]


@requires_java_oracle
def test_tables_of_java(oracle: Oracle, tmp_path: Path) -> None:
    """Java gives whole addresses of files, with escaped names of partitions; the option may change meanwhile."""
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("p", pa.string())])
    first, second = tmp_path / "ext one", tmp_path / "second"
    options = {
        **OPTIONS, "data-file.external-paths": f"file:{first}", "data-file.external-paths.strategy": "round-robin",
    }  # fmt: skip
    rows = [{"id": i, "color": "red", "p": "a=b/c %"} for i in range(3)]
    with oracle.batch() as batch:
        batch.create(tmp_path / "wh", "db.t", schema, partition_keys=["p"], options=options)
        batch.write(tmp_path / "wh", "db.t", rows)
        change = {"op": "set", "key": "data-file.external-paths", "value": f"file:{second}"}
        batch.alter(tmp_path / "wh", "db.t", change)
        batch.write(tmp_path / "wh", "db.t", [{"id": 7, "color": "red", "p": "x"}])
    table = pp.Table.open(tmp_path / "wh" / "db.db" / "t")
    assert list(first.rglob("*.parquet")) and list(second.rglob("*.parquet"))
    assert sorted(table.scan("color = 'red'").to_arrow()["id"].to_pylist()) == [0, 1, 2, 7]
    with pytest.raises(SecurityError, match=ALLOW):
        pp.Table.open(table.path, storage_options={TRUST: "false"}).scan().to_arrow()
