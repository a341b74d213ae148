"""Credentials that a REST catalog gives out, against a store that lets nobody in without them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_pyds.catalog import Catalog
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.storage import discard, saves_requests
from paimon_pyds.table import Table
from support.rest_catalog import TOKEN, RestCatalogServer, rest_catalog
from support.s3_server import Server, serving

pytest.importorskip("moto.server")
ADMIN = "admin-key"


class Credentials:
    """Each key that is given out ends the one before; ``life_ms`` is what clients are told of it."""

    def __init__(self, store: Server) -> None:
        self.store = store
        self.given = 0

    def __call__(self) -> dict[str, str]:
        self.given += 1
        key = f"canary-key-{self.given}"
        self.store.keys = {ADMIN, key}
        return {
            "s3.endpoint": self.store.address,
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
            "fs.s3a.access.key": key,
            "fs.s3a.secret.key": f"canary-secret-{self.given}",
            "fs.s3a.session.token": f"canary-session-{self.given}",
            "fs.s3a.connection.maximum": "96",
        }


@pytest.fixture
def store() -> Iterator[Server]:
    with serving() as running:
        METADATA_CACHE.clear()
        yield running


@pytest.fixture
def server(store: Server) -> Iterator[RestCatalogServer]:
    with rest_catalog(f"{store.bucket()}/wh") as running:
        store.keys = {ADMIN}
        running.storage = store.options(**{"s3.access-key": ADMIN})
        running.vend = Credentials(store)
        running.overrides["data-token.enabled"] = "true"
        yield running


def open_catalog(server: RestCatalogServer) -> Catalog:
    return Catalog.open({"metastore": "rest", "uri": server.address, "token": TOKEN})


def renewals(server: RestCatalogServer) -> int:
    assert isinstance(server.vend, Credentials)
    return server.vend.given


def rows(start: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + 10), pa.int64())})


def test_tables_by_the_credentials_of_the_catalog(server: RestCatalogServer, store: Server) -> None:
    catalog = open_catalog(server)
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", rows(0), options={"file-index.bitmap.columns": "id"})
    table.append(rows(10))
    table.delete("id < 5")
    table.compact()
    assert sorted(table.scan("id > 12").to_arrow()["id"].to_pylist()) == list(range(13, 20))
    table.tags.create("now")
    assert table.snapshots.expire(retain_max=1, retain_min=1).snapshots
    assert catalog.table("shop.t").maintenance.verify().ok
    assert renewals(server) == 2  # each table that was opened asks once
    assert any("x-amz-security-token" in str(h).lower().replace("_", "-") for h in store.headers)
    assert saves_requests(table._store.io)
    store.keys = {ADMIN}
    with pytest.raises(PaimonError) as caught:
        table.append(rows(20))
    assert "canary" not in str(caught.value)
    lost = catalog.table("shop.t")._store.io
    lost._renewed_ms = 0.0  # type: ignore[attr-defined]
    catalog.drop_table("shop.t")
    discard(lost, [f"{table.path}/x"])  # the catalog gives no credentials for it; what cleans up hides no other error


@pytest.mark.parametrize("of_the_caller", [False, True])
def test_a_store_that_only_the_credentials_of_the_catalog_open(store: Server, of_the_caller: bool) -> None:
    """As of Alibaba's DLF: its tokens have the endpoint, and ``dlf.oss-endpoint`` is another one."""
    with rest_catalog(f"{store.bucket().replace('s3://', 'oss://')}/wh") as server:
        keys = {"fs.oss.accessKeyId": ADMIN, "fs.oss.accessKeySecret": "canary-secret"}
        server.storage = {"fs.oss.endpoint": store.address, **keys}
        given = "http://127.0.0.1:9" if of_the_caller else store.address
        server.vend = lambda: {"fs.oss.endpoint": given, **keys, "fs.oss.securityToken": "canary-session"}
        server.overrides["data-token.enabled"] = "true"
        more = {"dlf.oss-endpoint": store.address} if of_the_caller else {}
        catalog = Catalog.open({"metastore": "rest", "uri": server.address, "token": TOKEN, **more})
        catalog.create_database("shop")
        catalog.create_table("shop.t", rows(0))
        table = catalog.table("shop.t")
        assert table.path.startswith("oss://") and table.count("id > 4") == 5
        assert pickle.loads(pickle.dumps(table._store)).io.exists(table.path)


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_the_caller_says_what_is_kept_on_disk(server: RestCatalogServer, tmp_path: Path, enabled: str) -> None:
    server.overrides |= {"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/of-the-server"}
    own = {"local-cache.enabled": enabled, "local-cache.dir": f"{tmp_path}/mine"}
    catalog = Catalog.open({"metastore": "rest", "uri": server.address, "token": TOKEN, **own})
    catalog.create_database("shop")
    catalog.create_table("shop.t", rows(0))
    METADATA_CACHE.clear()
    assert catalog.table("shop.t").scan("id = 3").to_arrow().num_rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"] * (enabled == "true")


def test_credentials_that_expire_in_the_middle(
    server: RestCatalogServer, store: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a scan, of a write, and of a commit: what comes after has the new ones, and is let in."""
    catalog = open_catalog(server)
    catalog.create_database("shop")
    server.token_life_ms = 7_200_000
    table = catalog.create_table("shop.t", rows(0), options={"read.batch-size": 5})
    for start in range(10, 60, 10):
        table.append(rows(start))
    clock = time.time
    late = 0

    def expire() -> None:
        """An hour later, the credentials of now are refused."""
        nonlocal late
        late += 3700
        before = renewals(server)
        monkeypatch.setattr("paimon_pyds.catalog.rest.time.time", lambda: clock() + late)
        store.keys = {ADMIN}
        assert renewals(server) == before

    table = catalog.table("shop.t")
    before, found = renewals(server), []
    for number, batch in enumerate(table.scan().to_batches()):
        found += batch["id"].to_pylist()
        if number == 0:
            expire()
    assert (sorted(found), renewals(server)) == (list(range(60)), before + 1)

    def batches() -> Iterator[pa.Table]:
        yield rows(60)
        expire()
        yield rows(70)

    table.append(pa.RecordBatchReader.from_batches(rows(0).schema, (b for t in batches() for b in t.to_batches())))
    expire()
    assert table.count() == 80
    assert table.append(rows(80)) is not None
    copy = Table(pickle.loads(pickle.dumps(table._store)))
    assert copy.scan(snapshot=8).count() == 90


@pytest.mark.parametrize("format_", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
def test_credentials_that_expire_while_a_file_is_open(
    server: RestCatalogServer, store: Server, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """Whoever takes hours to give the rows of one file, or to use them, outlives the credentials it was opened with."""
    catalog = open_catalog(server)
    catalog.create_database("shop")
    schema = pa.schema([("id", pa.int64()), ("v", pa.binary())])
    options = {"file.format": format_, "file.compression": "none", "parquet.enable.dictionary": "false"}
    options |= {"parquet.block.size": str(24 << 20), "orc.stripe.size": str(24 << 20)}
    table = catalog.create_table("shop.t", schema, options=options)
    clock, late = time.time, 0

    def expire() -> None:
        nonlocal late
        late += 3700
        monkeypatch.setattr("paimon_pyds.catalog.rest.time.time", lambda: clock() + late)
        store.keys = {ADMIN}

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 60_000, 10_000):
            if start == 50_000:
                expire()
            ids = range(start, start + 10_000)
            yield pa.record_batch([pa.array(ids, pa.int64()), pa.array([b"%1000d" % i for i in ids])], schema)

    table.append(pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(table.system.read("files")) == 1
    found = []
    for number, batch in enumerate(catalog.table("shop.t").scan(options={"read.batch-size": 1000}).to_batches()):
        found += batch["id"].to_pylist()
        if number == 0:
            expire()
            before = len(store.requests)
    assert found == [*range(60_000)] and len(store.requests) > before
