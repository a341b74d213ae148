"""Tables in Azurite (Azure Blob Storage) and fake-gcs-server (Google Cloud Storage)."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, PaimonError, StorageError, UnsupportedError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage import open_file_io
from support import servers
from support.messages import ids_of
from support.s3_server import AFTER, BEFORE, Server, serving
from support.side_by_side import PATIENT, append_side_by_side

pytest.importorskip("obstore")
ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "p": [f"p{i % 2}" for i in range(20)]})


@dataclass
class Store:
    root: str
    options: dict[str, str]
    server: Server


@pytest.fixture(scope="module", params=["azurite", "fake_gcs"])
def one_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    address = request.getfixturevalue(request.param)
    name = f"b{uuid.uuid4().hex[:12]}"
    if request.param == "fake_gcs":
        with serving(servers.google_xml(address)) as server:
            options = {"gs.access-token": "hush-hush-hush", "fs.gs.storage.root.url": server.address}
            yield Store(servers.gcs_bucket(address, name), options, server)
        return
    host, slash, account = address.partition("://")[2].partition("/")
    with serving(servers.forwarding(f"http://{host}")) as server:
        root = f"abfss://{name}@{account}.dfs.core.windows.net"
        key = f"fs.azure.account.key.{account}.dfs.core.windows.net"
        options = {key: servers.AZURE_KEY, "azure.endpoint": f"{server.address}{slash}{account}"}
        servers.azure_container(address, name)
        yield Store(root, options, server)


@pytest.fixture
def store(one_store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    METADATA_CACHE.clear()
    yield replace(one_store, root=f"{one_store.root}/{uuid.uuid4().hex[:8]}")
    one_store.server.fail = lambda *_: None


def test_files(store: Store) -> None:
    io, root = open_file_io(store.root, store.options)
    for name in ("d/b", "d/p=a%3Ab/ü x", "d/sub/x"):
        io.write_bytes(f"{root}/{name}", b"0123456789")
    assert [(e.name, e.size, e.is_dir) for e in io.list(f"{root}/d")] == [
        ("b", 10, False), ("p=a%3Ab", 0, True), ("sub", 0, True),
    ]  # fmt: skip
    path = f"{root}/d/p=a%3Ab/ü x"
    assert io.read_ranges(path, [(8, 2), (0, 0), (0, 1)]) == [b"89", b"", b"0"]
    assert io.size(path) == 10 and io.exists(f"{root}/d") and not io.exists(f"{root}/e")
    with pytest.raises(CorruptFileError):
        io.read_range(path, 9, 2)
    with pytest.raises(FileNotFoundError):
        io.read_bytes(f"{root}/none")
    assert io.create_if_absent(f"{root}/s", b"1") and not io.create_if_absent(f"{root}/s", b"2")
    assert io.read_bytes(f"{root}/s") == b"1"
    io.replace(f"{root}/s", b"3")
    assert io.read_bytes(f"{root}/s") == b"3"
    if not root.startswith("gs://"):  # fake-gcs-server has no uploads in parts of the XML API
        long = io.open_output(f"{root}/long")
        long.sink.write(b"0123456789abcdef" * (1 << 20))
        assert long.close() == io.size(f"{root}/long") == 16 << 20
    io.delete_tree(f"{root}/d")
    assert not io.exists(f"{root}/d") and io.exists(f"{root}/s")


def test_objects_that_stand_for_directories_go_with_a_tree(store: Store) -> None:
    if not store.root.startswith("gs://"):
        pytest.skip("those of Azure have names without a slash at the end")
    io, root = open_file_io(store.root, store.options)
    io.write_bytes(f"{root}/d/x", b"1")
    for name in ("d/", "d/a b/"):
        address = f"{store.server.address}/{root.removeprefix('gs://')}/{quote(name)}"
        urllib.request.urlopen(urllib.request.Request(address, data=b"", method="PUT")).close()
    assert [(e.name, e.is_dir) for e in io.list(f"{root}/d")] == [("a b", True), ("x", False)]
    io.delete_tree(f"{root}/d")
    assert not io.exists(f"{root}/d") and io.list(root) == []


def test_tables(store: Store) -> None:
    catalog = pp.Catalog(store.root, store.options)
    catalog.create_database("shop")
    assert catalog.databases() == ["default", "shop"]
    table = catalog.create_table("shop.t", ROWS.schema, options={"deletion-vectors.enabled": "true"})
    table.append(ROWS)
    table.delete("id = 3")
    table.compact(full=True)
    again = pp.Catalog(store.root, store.options).table("shop.t")
    assert ids_of(again) == [i for i in range(20) if i != 3]
    assert "hush" not in repr(again) + repr(again._store.io) and servers.AZURE_KEY not in repr(again._store.io)
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", ROWS.schema)
    catalog.drop_table("shop.t")
    assert catalog.tables("shop") == []


def test_directories_keep_their_names(store: Store) -> None:
    catalog = pp.Catalog(store.root, store.options)
    catalog.create_table("default.t", ROWS)
    with pytest.raises(UnsupportedError, match=r"can't rename a directory.*copy it, then drop it"):
        catalog.rename_table("t", "u")
    assert catalog.tables() == ["t"]


@pytest.mark.parametrize(("writers", "commits"), [(3, 2), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side_lose_nothing(store: Store, writers: int, commits: int) -> None:
    pp.Table.create(f"{store.root}/t", ROWS.schema, options=PATIENT, storage_options=store.options)

    def opened() -> pp.Table:
        return pp.Table.open(f"{store.root}/t", storage_options=store.options)

    append_side_by_side(opened, lambda _: ROWS.slice(0, 1), writers, commits)
    table = opened()
    assert [s.id for s in table.snapshots.list()] == list(range(1, writers * commits + 1))
    assert table.scan().count() == writers * commits


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_an_acknowledgement_that_is_lost(store: Store, when: str) -> None:
    table = pp.Table.create(f"{store.root}/t", ROWS.schema, storage_options=store.options)
    left = [when]
    store.server.fail = lambda n, method, path: (
        left.pop() if method == "PUT" and "snapshot-1" in path and left else None
    )
    table.append(ROWS)
    assert not left and ids_of(table) == list(range(20)) and len(table.snapshots.list()) == 1


def test_refused_credentials_and_what_is_missing(store: Store) -> None:
    scheme, _, rest = store.root.partition("://")
    bucket = rest.partition("/")[0]
    nothing = f"{scheme}://{bucket.replace(bucket.partition('@')[0], 'nothing-here')}/t"
    with pytest.raises(StorageError, match="does not exist"):
        open_file_io(nothing, store.options)[0].replace(f"{nothing}/x", b"")
    if scheme == "abfss":
        wrong = {key: "d3Jvbmcga2V5IQ==" if "key" in key else value for key, value in store.options.items()}
        with pytest.raises(StorageError, match="credentials"):
            pp.Table.open(f"{store.root}/t", storage_options=wrong)
    else:
        store.server.fail, store.server.status = (lambda *_: BEFORE), "401 Unauthorized"
        with pytest.raises(PaimonError, match="credentials"):
            pp.Table.open(f"{store.root}/t", storage_options=store.options)
        store.server.status = "503 Slow Down"


def test_a_server_that_ignores_the_condition_is_not_written(fake_gcs: str) -> None:
    with serving(servers.google_xml(fake_gcs, conditional=False)) as server:
        options = {"gs.access-token": "x", "gs.endpoint": server.address}
        root = servers.gcs_bucket(fake_gcs, f"b{uuid.uuid4().hex[:12]}")
        with pytest.raises(UnsupportedError, match="only if absent"):
            pp.Table.create(f"{root}/t", ROWS.schema, storage_options=options)
