from __future__ import annotations

import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import (
    BranchNotFoundError,
    CorruptFileError,
    NotFoundError,
    SecurityError,
    SnapshotNotFoundError,
    StorageError,
    TableNotFoundError,
    TagNotFoundError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, snapshot_to_json
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO
from support.fixtures import requires_shared, table_path


def _snapshot(id_: int, time_millis: int | None = None) -> Snapshot:
    return Snapshot(
        id=id_, schema_id=0, base_manifest_list=f"b-{id_}", delta_manifest_list=f"d-{id_}", commit_user="u",
        commit_identifier=BATCH_COMMIT_IDENTIFIER, commit_kind=CommitKind.APPEND,
        time_millis=1000 * id_ if time_millis is None else time_millis, total_record_count=0, delta_record_count=0,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """A table without data, at …/db.db/orders."""
    made = TableStore(LocalFileIO(), str(tmp_path / "db.db" / "orders"))
    assert made.try_create_schema(TableSchema(0, (DataField(0, "a", parse_type("INT")),), 0))
    return made


def _commit(store: TableStore, *ids: int) -> None:
    for id_ in ids:
        assert store.try_create_snapshot(_snapshot(id_))


def test_an_empty_table(store: TableStore) -> None:
    assert store.latest_snapshot_id() is None and store.latest_snapshot() is None
    assert store.earliest_snapshot_id() is None and store.snapshots() == [] and store.tags() == {}
    assert store.branches() == [] and store.schema_ids() == [0]
    with pytest.raises(SnapshotNotFoundError, match="nothing was committed"):
        store.snapshot(1)
    with pytest.raises(SnapshotNotFoundError, match="no snapshot"):
        store.snapshot_at(10**15)


def test_schemas(store: TableStore) -> None:
    first = store.latest_schema()
    assert not store.try_create_schema(replace(first, comment="other"))
    assert store.try_create_schema(replace(first, id=1, comment="new"))
    assert store.latest_schema().comment == "new" and [s.id for s in store.schemas()] == [0, 1]
    assert store.schema(0) is store.schema(0)
    with pytest.raises(NotFoundError, match="schemas 0 to 1 are"):
        store.schema(7)
    for n in range(2, 12):
        assert store.try_create_schema(replace(first, id=n))
    assert store.latest_schema().id == 11


def test_a_schema_that_goes_after_it_was_listed_is_not_the_latest(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.try_create_schema(replace(store.latest_schema(), id=1))
    listed = TableStore.schema_ids

    def gone(self: TableStore) -> list[int]:
        found = listed(self)
        self.io.delete([self.paths.schema(1)])
        return found

    monkeypatch.setattr(TableStore, "schema_ids", gone)
    assert store.latest_schema().id == 0
    store.io.delete([store.paths.schema(0)])
    with pytest.raises(TableNotFoundError):
        store.latest_schema()


def test_a_schema_under_a_wrong_number_is_corrupt(store: TableStore) -> None:
    shutil.copy(store.paths.schema(0), store.paths.schema(3))
    with pytest.raises(CorruptFileError, match="number 0"):
        store.latest_schema()


def test_snapshots_and_hints(store: TableStore) -> None:
    _commit(store, 1, 2, 3)
    assert Path(store.paths.latest_hint).read_bytes() == b"3"
    assert store.latest_snapshot_id() == 3 and store.earliest_snapshot_id() == 1
    assert [s.id for s in store.snapshots()] == [1, 2, 3]
    assert store.latest_snapshot() == _snapshot(3)
    assert not store.try_create_snapshot(_snapshot(3, time_millis=5))
    assert store.snapshot(3) == _snapshot(3)


@pytest.mark.parametrize("hint", [None, b"", b"2", b"1", b"4", b"99", b"x", b"-1", b"3\n", b"9" * 40, b"\xff"])
@pytest.mark.parametrize("refresh", [False, True])
def test_hints_may_lag_lie_or_be_absent(store: TableStore, hint: bytes | None, refresh: bool) -> None:
    _commit(store, 1, 2, 3)
    os.unlink(store.paths.latest_hint)
    if hint is not None:
        Path(store.paths.latest_hint).write_bytes(hint)
        Path(store.paths.earliest_hint).write_bytes(hint)
    assert store.latest_snapshot_id(refresh) == 3
    assert store.earliest_snapshot_id() == 1


def test_a_hint_far_behind_is_followed_up(store: TableStore) -> None:
    _commit(store, *range(1, 60))
    Path(store.paths.latest_hint).write_bytes(b"2")
    assert store.latest_snapshot_id() == 59


def test_a_hint_that_cannot_be_written_does_no_harm(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: LocalFileIO, path: str, data: bytes) -> None:
        raise StorageError("can't write", path=path)

    monkeypatch.setattr(LocalFileIO, "replace", refuse)
    _commit(store, 1)
    assert store.latest_snapshot_id() == 1 and not os.path.exists(store.paths.latest_hint)


def test_expired_and_missing_snapshots_are_told_apart(store: TableStore) -> None:
    _commit(store, 1, 2, 3, 4)
    os.unlink(store.paths.snapshot(1))
    os.unlink(store.paths.snapshot(2))
    assert store.earliest_snapshot_id() == 3
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 1 has expired.*snapshots 3 to 4"):
        store.snapshot(1)
    with pytest.raises(SnapshotNotFoundError, match=r"snapshot 9 is not there.*3 to 4"):
        store.snapshot(9)


def test_snapshots_by_time(store: TableStore) -> None:
    for id_, at in enumerate([100, 200, 200, 300, 500], start=1):
        store.try_create_snapshot(_snapshot(id_, at))
    assert [store.snapshot_at(t).id for t in (100, 150, 200, 299, 300, 499, 500, 10**14)] == [1, 1, 3, 3, 4, 4, 5, 5]
    with pytest.raises(SnapshotNotFoundError, match="earliest that is left, 1"):
        store.snapshot_at(99)


def test_a_snapshot_that_expires_during_a_listing_is_left_out(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commit(store, *range(1, 30))
    ids = store.snapshot_ids()
    os.unlink(store.paths.snapshot(1))
    monkeypatch.setattr(store, "snapshot_ids", lambda: ids)
    assert [s.id for s in store.snapshots()] == list(range(2, 30))
    assert store.snapshot_at(1500 * 1000).id == 29


def test_a_half_written_snapshot_is_looked_at_again(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What storage without atomic creation shows for a moment."""
    _commit(store, 1)
    path = Path(store.paths.snapshot(2))
    text = snapshot_to_json(_snapshot(2)).encode()
    path.write_bytes(text[:50])
    monkeypatch.setattr("time.sleep", lambda _: path.write_bytes(text))
    assert store.snapshot(2) == _snapshot(2)


def test_a_corrupt_snapshot_is_named(store: TableStore) -> None:
    _commit(store, 1)
    Path(store.paths.snapshot(1)).write_bytes(b'{"version": 3')
    with pytest.raises(CorruptFileError, match="snapshot-1"):
        store.latest_snapshot()
    Path(store.paths.snapshot(1)).write_bytes(snapshot_to_json(_snapshot(5)).encode())
    with pytest.raises(CorruptFileError, match="number 5"):
        store.snapshot(1)


@requires_shared
def test_tags_and_branches() -> None:
    path = table_path("tags_branches")
    store = TableStore.open(path)
    assert store.tag_names() == ["t1", "t2"] and sorted(store.tags()) == ["t1", "t2"]
    assert store.branches() == ["b1", "empty"]
    with pytest.raises(TagNotFoundError, match="did you mean t1"):
        store.tag("t11")
    for name in ("", "../t1", "a\0"):
        with pytest.raises(TagNotFoundError):
            store.tag(name)
    branch = TableStore.open(path, "b1")
    assert branch.latest_snapshot_id() == 2 and branch.tag_names() == ["t1"]
    assert branch.paths.manifest("m").startswith(f"{path}/manifest/")
    assert TableStore.open(path, "empty").latest_snapshot_id() is None
    assert store.for_branch("b1").branch == "b1"
    with pytest.raises(BranchNotFoundError, match="branches: b1, empty"):
        TableStore.open(path, "b2")
    with pytest.raises(BranchNotFoundError, match="branches: b1, empty"):
        TableStore.open(path, "../x")
    with pytest.raises(SecurityError):
        TableStore(store.io, store.root, "../x").latest_schema()


@requires_shared
def test_expired_snapshots_of_java() -> None:
    store = TableStore.open(table_path("expired_snapshots"))
    first = store.earliest_snapshot_id()
    assert first is not None and first > 1 and store.snapshots()[0].id == first
    with pytest.raises(SnapshotNotFoundError, match="has expired"):
        store.snapshot(first - 1)


def test_no_table(store: TableStore, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=r"no such directory; did you mean orders"):
        TableStore.open(tmp_path / "db.db" / "ordres")
    with pytest.raises(TableNotFoundError, match=r"did you mean orders|the tables in it: orders"):
        TableStore.open(tmp_path / "db.db")
    with pytest.raises(TableNotFoundError, match="this is a warehouse"):
        TableStore.open(tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "data.parquet").touch()
    with pytest.raises(TableNotFoundError, match="the directory holds something else"):
        TableStore.open(tmp_path / "x")
    with pytest.raises(TableNotFoundError, match="no Paimon table is here"):
        TableStore.open(tmp_path / "no" / "such" / "place")
    with pytest.raises(TableNotFoundError):
        TableStore.open(tmp_path / "x" / "data.parquet")


def test_a_table_that_is_deleted_while_it_is_used(store: TableStore) -> None:
    _commit(store, 1)
    shutil.rmtree(store.root)
    for call in (
        store.latest_schema,
        lambda: store.schema(0),
        lambda: store.snapshot(1),
        lambda: store.read_manifest_list("manifest-list-1-0"),
    ):
        with pytest.raises(TableNotFoundError):
            call()


def test_a_manifest_that_is_gone_means_an_expired_snapshot(store: TableStore) -> None:
    for call in (
        lambda: store.read_manifest_list("manifest-list-1-0"),
        lambda: store.read_manifest("manifest-1-0"),
        lambda: store.read_manifest("manifest-1-0", ["file_name"]),
        lambda: store.read_index_manifest("index-manifest-1-0"),
    ):
        with pytest.raises(SnapshotNotFoundError, match="expired or was rolled back"):
            call()
    with pytest.raises(SecurityError):
        store.read_manifest("../../etc/passwd")


def test_new_metadata_files(store: TableStore) -> None:
    name, size = store.write_manifest(b"abc")
    assert name.startswith("manifest-") and size == 3
    assert Path(store.paths.manifest(name)).read_bytes() == b"abc"
    assert store.write_manifest_list(b"x", "u", 4) == ("manifest-list-u-4", 1)
    assert store.write_index_manifest(b"")[0].startswith("index-manifest-")
    assert store.write_manifest(b"abc")[0] != name


@requires_shared
def test_manifests_are_cached_for_the_process() -> None:
    pytest.importorskip("paimon_pyds.metadata.manifest_codec")
    METADATA_CACHE.clear()
    store = TableStore.open(table_path("append_all_types"))
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    lists = store.read_manifest_list(snapshot.delta_manifest_list)
    assert TableStore.open(table_path("append_all_types")).read_manifest_list(snapshot.delta_manifest_list) is lists
    some = store.read_manifest(lists[0].file_name, ["file_name", "row_count"])
    assert some.schema.names == ["file_name", "row_count"]
    whole = store.read_manifest(lists[0].file_name)
    assert store.read_manifest(lists[0].file_name) is whole
    assert store.read_manifest(lists[0].file_name, ["file_name", "row_count"]).equals(some)
    assert 0 < METADATA_CACHE.weight <= METADATA_CACHE.limit


@requires_shared
def test_what_one_storage_read_is_not_given_to_another_with_other_credentials() -> None:
    METADATA_CACHE.clear()
    path = table_path("append_all_types")
    store = TableStore.open(path)
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    store.read_manifest_list(snapshot.delta_manifest_list)
    refused = TableStore(_Refusing(), store.root)
    with pytest.raises(StorageError, match="no access"):
        refused.read_manifest_list(snapshot.delta_manifest_list)


class _Refusing(LocalFileIO):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Refusing)

    def __hash__(self) -> int:
        return hash(_Refusing)

    def read_bytes(self, path: str) -> bytes:
        raise StorageError("no access", path=path)


def test_a_store_pickles_small(store: TableStore) -> None:
    store.latest_schema()
    data = pickle.dumps(store)
    assert len(data) < 500
    again = pickle.loads(data)
    assert (again.root, again.branch) == (store.root, store.branch) and again.latest_schema() == store.latest_schema()
    assert "orders" in repr(store)


def test_stores_publish_each_number_once(store: TableStore) -> None:
    def writer(who: int) -> int:
        won = 0
        mine = TableStore(store.io, store.root)
        while won < 10:
            latest = mine.latest_snapshot_id() or 0
            won += mine.try_create_snapshot(replace(_snapshot(latest + 1), commit_user=str(who)))
        return won

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(writer, range(4))) == 40
    assert store.snapshot_ids() == list(range(1, 41)) and store.latest_snapshot_id() == 40


# ------------------------------------------------------------------------------------------------------------ cache
