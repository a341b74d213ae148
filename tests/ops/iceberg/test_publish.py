"""Iceberg's readers see what Paimon's see: pyiceberg, and Iceberg's own Java library for deletion vectors."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg import manifests as avro
from paimon_pyds.ops.iceberg.publish import publish
from support.effort import LONG, SEED, sampled
from support.faults_io import DOWN, HARMLESS, FaultyIO, opened
from support.iceberg_reader import IcebergReader, texts
from support.iceberg_world import COLUMNS, KINDS, OPTIONS, made, shown, some_rows, step
from support.oracle import Oracle, requires_java_oracle


def newest(table: pp.Table) -> dict[str, Any]:
    [path] = Path(table.path, "metadata").glob("v*.metadata.json")
    found: dict[str, Any] = json.loads(path.read_text())
    assert Path(table.path, "metadata", "version-hint.text").read_text() == path.name[1:].split(".")[0]
    return found


def by_pyiceberg(table: pp.Table, catalog: SqlCatalog | None = None) -> pa.Table:
    """The rows that pyiceberg reads: by the metadata file, or in a catalog of its own where that is registered."""
    [path] = Path(table.path, "metadata").glob("v*.metadata.json")
    if catalog is None:
        return StaticTable.from_metadata(str(path)).scan().to_arrow()
    catalog.create_namespace("db")
    return catalog.register_table("db.t", str(path)).scan().to_arrow()


def referenced(table: pp.Table) -> set[str]:
    found = set()
    for snapshot in newest(table)["snapshots"]:
        path = Path(snapshot["manifest-list"])
        found.add(path.name)
        found |= {Path(m["manifest_path"]).name for m in avro.decode_list(path.read_bytes(), str(path))}
    return found


@pytest.mark.parametrize("seed", range(8 if LONG else 1))
@pytest.mark.parametrize("kind", KINDS)
def test_iceberg_readers_see_each_state(
    kind: str, seed: int, tmp_path: Path, iceberg: IcebergReader, recwarn: pytest.WarningsRecorder
) -> None:
    draw = random.Random(f"{kind} {seed} {SEED}")
    table = made(tmp_path, kind)
    done: list[str] = []
    for number in range(30 if LONG else 7):
        done.append(step(table, draw, number))
        if table.snapshots.latest() is None:
            continue
        expected, state = shown(table), newest(table)
        if state["schemas"][-1]["schema-id"] == table.schema.id:  # a changed schema is published with the next commit
            assert iceberg.rows(table.path) == texts(expected), done
            if "vectors" not in kind:
                plain = expected.drop_columns("l")  # pyiceberg 0.12 reads a NULL list of ROWs as an empty one
                found = by_pyiceberg(table).select(plain.schema.names).cast(plain.schema)
                assert texts(found) == texts(plain), done
        listed = {s["snapshot-id"] for s in state["snapshots"]}
        assert state["current-snapshot-id"] == max(listed) == table.snapshots.latest().id, done
        assert listed <= {s.id for s in table.snapshots.list()}, done
        tags = {name: tag.id for name, tag in table.tags.list().items() if tag.id in listed}
        assert tags == {name: ref["snapshot-id"] for name, ref in state["refs"].items()}, done
        assert {path.name for path in Path(table.path, "metadata").glob("*.avro")} == referenced(table), done
    assert not [str(w.message) for w in recwarn if "Iceberg" in str(w.message)], done
    if "vectors" not in kind and table.snapshots.latest() is not None:
        catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
        assert texts(by_pyiceberg(table, catalog)) == texts(by_pyiceberg(table)), done
        catalog.close()


def java_table(oracle: Oracle, warehouse: Path, version: str, *, keyed: bool = False) -> pp.Table:
    options = {**OPTIONS, "metadata.iceberg.format-version": version, **({"bucket": "1"} if keyed else {})}
    columns = pp.Table.create(warehouse / "columns", COLUMNS).arrow_schema
    keys = ["k", "p"] if keyed else []
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", columns, partition_keys=["p"], primary_keys=keys, options=options)
    return pp.Table.open(warehouse / "db.db" / "t")


def rows_of_partitions(table: pp.Table, draw: random.Random) -> pa.Table:
    """Rows of which one has a partition: Java Paimon 1.4 can't publish NULL alone."""
    rows = some_rows(table, draw)
    if table.primary_key:
        rows = rows.set_column(1, "p", rows["p"].fill_null("c"))
    named = pa.Table.from_pylist([{"k": 0, "p": "a"}], schema=rows.schema)
    return pa.concat_tables([rows, named])


@requires_java_oracle
def test_java_paimon_and_we_go_on_from_each_other(tmp_path: Path, oracle: Oracle, iceberg: IcebergReader) -> None:
    for version in ("2", "3"):
        table, draw = java_table(oracle, tmp_path / version, version), random.Random(version)
        for number in range(3):
            rows = rows_of_partitions(table, draw)
            with oracle.batch() as batch:
                batch.write(tmp_path / version, "db.t", rows, overwrite=number == 1)
            if version == "2":  # Iceberg refuses what Java Paimon 1.4 writes in format version 3: it has no row ids
                assert iceberg.rows(table.path) == texts(table.to_arrow())
            table.append(rows_of_partitions(table, draw))
            assert iceberg.rows(table.path) == texts(table.to_arrow())
            if version == "2":
                assert len(newest(table)["snapshots"]) == 2 * (number + 1)
        table.overwrite(rows_of_partitions(table, draw))
        table.compact(full=True)
        with oracle.batch() as batch:
            batch.write(tmp_path / version, "db.t", rows_of_partitions(table, draw))
        table.append(rows_of_partitions(table, draw))
        assert iceberg.rows(table.path) == texts(table.to_arrow())


@requires_java_oracle
@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keys"])
def test_the_metadata_is_that_of_java_paimon(tmp_path: Path, oracle: Oracle, keyed: bool) -> None:
    """Of each snapshot, where both publish one after another."""
    table, draw = java_table(oracle, tmp_path, "2", keyed=keyed), random.Random(5)
    with oracle.batch() as batch:
        if keyed:  # Java begins with the files of level 0, too, where a bucket has no others
            off = {"metadata.iceberg.storage": "disabled"}
            batch.write(tmp_path, "db.t", rows_of_partitions(table, draw), options=off)
            batch.compact(tmp_path, "db.t")
        for _ in range(2):
            batch.write(tmp_path, "db.t", rows_of_partitions(table, draw))
        batch.alter(tmp_path, "db.t", {"op": "add", "name": "n", "type": "INT"})
        batch.write(tmp_path, "db.t", rows_of_partitions(table, draw))
        batch.tag(tmp_path, "db.t", "third", snapshot=3)
        batch.compact(tmp_path, "db.t")
        if not keyed:
            batch.write(tmp_path, "db.t", rows_of_partitions(table, draw), overwrite=True)
    java, java_files = newest(table), live_files(table)
    root = Path(table.path)
    shutil.rmtree(root / "metadata")
    later = sorted((root / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name[9:]))
    commits = [path.read_bytes() for path in later]
    for path in [*later, root / "snapshot" / "LATEST"]:
        path.unlink()
    for path, commit in zip(later, commits, strict=True):
        path.write_bytes(commit)
        if path.name != "snapshot-1" or not keyed:
            publish(TableStore.open(table.path))
    ours = newest(table)
    assert set(ours) == set(java)
    for member in set(ours) - {"table-uuid", "location", "last-updated-ms", "snapshots", "properties"}:
        assert ours[member] == java[member], member
    for own, theirs in zip(ours["snapshots"], java["snapshots"], strict=True):
        other = {"manifest-list", "summary", "timestamp-ms"}  # Java has the time of publishing
        assert {key: own[key] for key in own.keys() - other} == {key: theirs[key] for key in theirs.keys() - other}
        operation = own["summary"]["operation"]
        assert theirs["summary"] == {"operation": "overwrite" if operation == "replace" else operation}
    assert live_files(table) == java_files
    assert sum(map(len, java_files.values())) > 5


def live_files(table: pp.Table) -> dict[int, list[dict[str, Any]]]:
    """The live files of each snapshot, as manifests describe them."""
    found: dict[int, list[dict[str, Any]]] = {}
    for snapshot in newest(table)["snapshots"]:
        path = snapshot["manifest-list"].removeprefix("file:")
        entries = [
            entry["data_file"]
            for manifest in avro.decode_list(Path(path).read_bytes(), path)
            for name in [manifest["manifest_path"].removeprefix("file:")]
            for entry in avro.decode(Path(name).read_bytes(), name)
            if entry["status"] != avro.DELETED
        ]
        for file in entries:
            file["file_path"] = file["file_path"].removeprefix("file:")
        found[snapshot["snapshot-id"]] = sorted(map(without_zeros, entries), key=lambda file: file["file_path"])
    return found


def without_zeros(file: dict[str, Any]) -> dict[str, Any]:
    """Without bounds of floats: Iceberg's leave NaN out, and have -0.0 below 0.0."""
    bounds = ("lower_bounds", "upper_bounds", "null_value_counts")
    sorted_bounds = {
        name: sorted((each["key"], each["value"]) for each in file[name] if name == bounds[2] or each["key"] != 2)
        for name in bounds
    }
    return {**file, **sorted_bounds}


def test_writers_at_once_leave_the_newest_state(tmp_path: Path, iceberg: IcebergReader) -> None:
    table = made(tmp_path, "append")
    table.append(some_rows(table, random.Random(9)))
    uuid = newest(table)["table-uuid"]

    def write(number: int) -> None:
        own, draw = pp.Table.open(table.path), random.Random(number)
        for _ in range(4):
            own.append(some_rows(own, draw))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table.maintenance.publish_iceberg()
    assert iceberg.rows(table.path) == texts(table.to_arrow())
    assert table.snapshots.latest().id == 17
    table.append(some_rows(table, random.Random(9)))  # it removes what others left who were slower, also versions
    assert newest(table)["table-uuid"] == uuid
    assert {path.name for path in Path(table.path, "metadata").glob("*.avro")} == referenced(table)


def test_what_killed_writers_left_is_an_orphan(tmp_path: Path, iceberg: IcebergReader) -> None:
    table, draw, folder = made(tmp_path, "append"), random.Random(1), tmp_path / "t" / "metadata"
    for _ in range(2):
        table.append(some_rows(table, draw))
    needed = {path.name for path in folder.iterdir()}
    id_ = "0" * 8 + "-1111-4111-8111-" + "0" * 12
    left = [f"snap-2-{id_}.avro", f"{id_}-m1.avro"]
    for name in [*left, f"snap-1-2-{id_}.avro", "other.avro"]:  # the last ones are of other writers
        (folder / name).write_bytes(b"x")
    [newest_version] = folder.glob("v*.json")
    whole = newest_version.read_bytes()
    for text, orphans in ((b"{", []), (whole, left)):
        newest_version.write_bytes(text)
        for path in folder.iterdir():
            os.utime(path, (1, 1))
        found = table.maintenance.remove_orphan_files("1 day")
        assert found.files["path"].to_pylist() == sorted(f"{folder}/{name}" for name in orphans)
    assert {path.name for path in folder.iterdir()} == {*needed, f"snap-1-2-{id_}.avro", "other.avro"}
    assert iceberg.rows(table.path) == texts(table.to_arrow())


def test_an_error_of_publishing_is_a_warning_and_the_next_commit_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iceberg: IcebergReader
) -> None:
    table, draw = made(tmp_path, "append"), random.Random(1)
    table.append(some_rows(table, draw))
    before = referenced(table)
    with monkeypatch.context() as full:
        full.setattr("paimon_pyds.ops.iceberg.folder.IcebergFolder.write_list", _no_space)
        with pytest.warns(UserWarning, match=r"the change is made, don't make it again.*no space.*publish_iceberg"):
            table.append(some_rows(table, draw))
    assert referenced(table) == before == {path.name for path in Path(table.path, "metadata").glob("*.avro")}
    table.append(some_rows(table, draw))
    assert iceberg.rows(table.path) == texts(table.to_arrow())
    assert [snapshot["snapshot-id"] for snapshot in newest(table)["snapshots"]] == [1, 2, 3]


def _no_space(*_: object) -> str:
    raise OSError("no space")


def test_a_killed_publication_leaves_an_older_state(tmp_path: Path, iceberg: IcebergReader) -> None:
    table, draw = made(tmp_path, "append"), random.Random(2)
    table.append(some_rows(table, draw))
    old, path, saved = texts(table.to_arrow()), Path(table.path), tmp_path / "saved"
    for _ in range(4):
        table.append(some_rows(table, draw), options={"metadata.iceberg.storage": "disabled"})
    new = texts(table.to_arrow())
    shutil.copytree(path, saved)
    publish(TableStore(counting := FaultyIO(), str(path)))
    assert iceberg.rows(path) == new
    seen = []
    for at in sorted({0, *sampled(range(len(counting.done)), 3)}):
        shutil.rmtree(path)
        shutil.copytree(saved, path)
        METADATA_CACHE.clear()
        with suppress(PaimonError):
            publish(TableStore(FaultyIO(at, DOWN), str(path)))
        seen.append(iceberg.rows(path))
        again = pp.Table.open(path)
        again.append(some_rows(again, draw))
        assert iceberg.rows(path) == texts(again.to_arrow()), at
        for file in (path / "metadata").iterdir():
            os.utime(file, (1, 1))
        again.maintenance.remove_orphan_files("1 day")
        assert {file.name for file in (path / "metadata").glob("*.avro")} == referenced(again), at
        assert iceberg.rows(path) == texts(again.to_arrow()), at
    assert old in seen and all(rows in (old, new) for rows in seen)


def test_a_commit_writes_what_it_changes(tmp_path: Path) -> None:
    options = {"metadata.iceberg.compaction.min.file-num": "99", "metadata.iceberg.compaction.max.file-num": "99"}
    table, draw = made(tmp_path, "append", **options), random.Random(3)
    for number in range(6):
        before = referenced(table) if number else set()
        table.append(some_rows(table, draw))
        new = referenced(table) - before
        assert before <= referenced(table)
        assert sorted(re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "*", name) for name in new) == [
            "*-m1.avro", "snap-2-*.avro",
        ]  # fmt: skip


def test_a_table_without_the_option_is_published_once(tmp_path: Path, iceberg: IcebergReader) -> None:
    table: pp.Table = pp.Table.create(tmp_path / "t", COLUMNS)
    draw = random.Random(1)
    assert table.maintenance.publish_iceberg() is None
    for number in range(1, 4):
        table.append(some_rows(table, draw))
        if number != 2:
            assert table.maintenance.publish_iceberg({"metadata.iceberg.manifest-compression": "zstd"}) == number
            assert iceberg.rows(table.path) == texts(table.to_arrow())
    assert len(newest(table)["snapshots"]) == 3
    table.append(some_rows(table, draw))
    assert main(["iceberg", table.path]) == 0
    assert newest(table)["current-snapshot-id"] == 4


@pytest.mark.parametrize(("delete", "versions"), [("true", [3, 4, 5]), ("false", [1, 2, 3, 4, 5])])
def test_older_versions_and_names_of_older_readers(
    tmp_path: Path, iceberg: IcebergReader, delete: str, versions: list[int]
) -> None:
    options = {"delete-after-commit.enabled": delete, "previous-versions-max": "2", "manifest-legacy-version": "true"}
    table = made(tmp_path, "append", **{f"metadata.iceberg.{key}": value for key, value in options.items()})
    for number in range(5):
        table.append(some_rows(table, random.Random(number)))
    folder = Path(table.path, "metadata")
    names = sorted(path.name for path in folder.glob("v*.metadata.json"))
    assert names == [f"v{number}.metadata.json" for number in versions]
    metadata = json.loads((folder / "v5.metadata.json").read_text())
    path = Path(metadata["snapshots"][-1]["manifest-list"])
    assert all("added_data_files_count" in record for record in avro.decode(path.read_bytes(), str(path)))
    assert iceberg.rows(table.path) == texts(table.to_arrow())


def test_damaged_metadata_is_made_anew(tmp_path: Path, iceberg: IcebergReader) -> None:
    table, draw = made(tmp_path, "append"), random.Random(1)
    for damage in (b"", b"{}", b"[]", b'{"snapshots": [{}]}', b'{"snapshots": 7, "location": 1}', b"\xff"):
        table.append(some_rows(table, draw))
        [path] = Path(table.path, "metadata").glob("v*.metadata.json")
        path.write_bytes(damage)
        table.append(some_rows(table, draw))
        assert iceberg.rows(table.path) == texts(table.to_arrow()), damage
    for kind in ("snap-*.avro", "*-m*.avro"):
        for path in Path(table.path, "metadata").glob(kind):
            path.unlink()
        METADATA_CACHE.clear()
        table.overwrite(some_rows(table, draw))
        assert iceberg.rows(table.path) == texts(table.to_arrow()), kind


def test_a_rollback_to_the_first_snapshot_leaves_no_file_of_later_ones(tmp_path: Path, iceberg: IcebergReader) -> None:
    table, draw = made(tmp_path, "append"), random.Random(1)
    for _ in range(3):
        table.append(some_rows(table, draw))
    table.snapshots.rollback(1)
    assert {path.name for path in Path(table.path, "metadata").glob("*.avro")} == referenced(table)
    assert iceberg.rows(table.path) == texts(table.to_arrow())


@pytest.mark.filterwarnings("ignore:the change is made")
def test_a_killed_rollback_leaves_a_state_that_was_committed(tmp_path: Path, iceberg: IcebergReader) -> None:
    """And the next commits are seen, not what the rollback took back."""
    table, draw = made(tmp_path, "append"), random.Random(3)
    path, saved, committed = Path(table.path), tmp_path / "saved", []
    for _ in range(5):
        table.append(some_rows(table, draw))
        committed.append(texts(table.to_arrow()))
    shutil.copytree(path, saved)
    opened(counting := FaultyIO(), path).snapshots.rollback(3)
    assert iceberg.rows(path) == committed[2]
    hints = [at + 1 for at, name in enumerate(counting.done) if name == "replace"]
    others = [at for at, name in enumerate(counting.done) if name not in HARMLESS]
    for at in sorted({hints[-1], *sampled(others, 2)}):
        shutil.rmtree(path)
        shutil.copytree(saved, path)
        with suppress(PaimonError):
            opened(FaultyIO(at, DOWN), path).snapshots.rollback(3)
        assert iceberg.rows(path) in committed, at
        again = opened(FaultyIO(), path)
        for _ in range(2):
            again.append(some_rows(again, draw))
            assert iceberg.rows(path) == texts(again.to_arrow()), at
