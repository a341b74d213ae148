"""The REST catalog against a server of the tests, `support.rest_catalog`."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_pyds.catalog import Catalog, rest_auth, rest_client, rest_publisher
from paimon_pyds.catalog.rest_auth import DlfSignature, Request
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    DatabaseNotFoundError,
    NotFoundError,
    OptionError,
    PaimonError,
    SecurityError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.table import Table
from support.rest_catalog import TOKEN, Fault, RestCatalogServer, rest_catalog

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(rest_publisher, "_PAUSES_SECONDS", (0.001, 0.001))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with rest_catalog(tmp_path / "wh") as running:
        yield running


@pytest.fixture
def catalog(server: RestCatalogServer) -> Catalog:
    opened = open_catalog(server)
    opened.create_database("shop")
    return opened


def open_catalog(server: RestCatalogServer, **more: str) -> Catalog:
    return Catalog.open({"metastore": "rest", "uri": server.address, "token": TOKEN, "warehouse": "wh 1", **more})


def rows(start: int, n: int = 2) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + n), pa.int32()), "name": ["x"] * n})


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_table_from_its_creation_to_its_rows(catalog: Catalog, server: RestCatalogServer) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, options={"file-index.bitmap.columns": "id"})
    assert made.snapshot() is None
    made.append(rows(0))
    table = catalog.table("shop.orders")
    table.append(rows(2))
    assert ids(made) == ids(table) == [0, 1, 2, 3]
    assert [s.id for s in table.snapshots()] == [1, 2]
    first, second = server.bodies
    assert first["snapshot"]["uuid"] == second["baseSnapshotUuid"] != second["snapshot"]["uuid"]
    assert table.scan(snapshot=1).to_arrow().num_rows == 2
    assert ids(Table.open(table.path)) == [0, 1, 2, 3]  # its files are a table of their own


def test_the_server_says_which_snapshot_is_the_latest(catalog: Catalog, server: RestCatalogServer) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(0))
    first = dict(server.latest)
    table.append(rows(2))
    server.latest.update(first)
    assert ids(catalog.table("shop.t")) == [0, 1]


def test_names_come_in_pages(catalog: Catalog) -> None:
    for name in "edcba":
        catalog.create_database(f"d {name}")
        catalog.create_table(f"shop.t{name}", SCHEMA)
    assert catalog.databases() == ["d a", "d b", "d c", "d d", "d e", "shop"]
    assert catalog.tables("shop") == ["ta", "tb", "tc", "td", "te"]


def test_databases_and_tables_come_and_go(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", rows(0))
    assert ids(table) == [0, 1]
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("shop")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    assert catalog.create_table("shop.t", SCHEMA, ignore_if_exists=True).path == table.path
    catalog.create_table("shop.u", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"shop\.u"):
        catalog.rename_table("shop.t", "u")
    catalog.rename_table("shop.t", "v")
    assert (catalog.tables("shop"), ids(catalog.table("shop.v"))) == (["u", "v"], [0, 1])
    with pytest.raises(TableNotFoundError, match=r"no table t.*u, v"):
        catalog.table("shop.t")
    with pytest.raises(DatabaseNotFoundError, match="did you mean shop"):
        catalog.table("shopp.t")
    catalog.drop_table("shop.u")
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("shop.u")
    with pytest.raises(OptionError, match="not empty"):
        catalog.drop_database("shop")
    catalog.drop_database("shop", cascade=True)
    with pytest.raises(DatabaseNotFoundError):
        catalog.drop_database("shop")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("status", [0, 429, 500, 502, 503])
def test_a_commit_whose_answer_is_lost(catalog: Catalog, server: RestCatalogServer, status: int, after: bool) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    for number in range(2):
        server.faults = [Fault("POST", "/commit", status, after, times=2)]
        table.append(rows(2 * number))
    assert (ids(table), len(table.snapshots())) == ([0, 1, 2, 3], 2)


@pytest.mark.parametrize("status", [0, 401, 503])
def test_a_commit_of_which_nothing_can_be_learned(catalog: Catalog, server: RestCatalogServer, status: int) -> None:
    """It was published; no later answer says so. Its files stay."""
    table = catalog.create_table("shop.t", SCHEMA)
    server.faults = [
        Fault("POST", "/commit", 500, after=True),
        Fault("POST", "/commit", status, times=9, later=True),
        Fault("GET", "/snapshot", 500, times=20, later=True),
    ]
    with pytest.raises(CommitOutcomeUnknownError):
        table.append(rows(0))
    server.faults = []
    assert ids(catalog.table("shop.t")) == [0, 1]


@pytest.mark.parametrize("answer", [{}, [], "ok", {"success": "true"}, {"success": None}])
def test_a_commit_with_an_answer_of_another_kind(catalog: Catalog, server: RestCatalogServer, answer: object) -> None:
    """It may have been published, and nobody can say so now: its files stay."""
    table = catalog.create_table("shop.t", SCHEMA)
    server.faults = [
        Fault("POST", "/commit", 200, after=True, answer=answer),
        Fault("GET", "/snapshot", 500, times=20, later=True),
        Fault("POST", "/commit", 200, times=9, later=True, answer=answer),
    ]
    with pytest.raises(CommitOutcomeUnknownError):
        table.append(rows(0))
    server.faults = []
    assert ids(catalog.table("shop.t")) == [0, 1]


@pytest.mark.parametrize(
    ("ending", "answer"),
    [
        ("/config", {"defaults": [1]}),
        ("/config", {"overrides": "x"}),
        ("/databases", {"databases": "abc"}),
        ("/databases", {"databases": 5}),
        ("/databases", {"databases": ["a", None]}),
        ("/databases", {"databases": ["a"], "nextPageToken": ["b"]}),
        ("/databases", []),
        ("/token", {"token": "x"}),
        ("/token", {"token": {}, "expiresAtMillis": "soon"}),
        ("/snapshot", {"snapshot": [1]}),
        ("/snapshot", {"snapshot": {"snapshot": "x"}}),
    ],
)
def test_answers_of_another_kind(catalog: Catalog, server: RestCatalogServer, ending: str, answer: object) -> None:
    catalog.create_table("shop.t", SCHEMA)
    if ending == "/token":
        server.overrides["data-token.enabled"] = "true"
    server.faults = [Fault("GET", ending, 200, times=9, answer=answer)]
    with pytest.raises(StorageError, match="answer"):
        opened = open_catalog(server)
        opened.databases()
        ids(opened.table("shop.t"))


@pytest.mark.parametrize(
    "options",
    [
        {"token": "canary\n"},
        {"token": "canary…"},
        {"header.x-key": "canary\r\nmore: 1"},
        {"header.x y\n": "canary"},
        {"uri": "http://[canary"},
        {"uri": "http://h…st"},
        {"uri": "http://h:port"},
    ],
)
def test_what_no_request_may_hold(server: RestCatalogServer, options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="not allowed there") as caught:
        open_catalog(server, **options)
    assert "canary\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("status", "error"), [(400, OptionError), (403, SecurityError), (404, TableNotFoundError)])
def test_a_commit_that_is_refused(
    catalog: Catalog, server: RestCatalogServer, status: int, error: type[PaimonError]
) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    server.faults = [Fault("POST", "/commit", status)]
    with pytest.raises(error):
        table.append(rows(0))
    left = [path for path in Path(table.path).rglob("*") if path.is_file() and path.name != "schema-0"]
    assert (left, ids(table)) == ([], [])


def test_a_table_that_was_made_anew_is_another_one(catalog: Catalog) -> None:
    old = catalog.create_table("shop.t", SCHEMA)
    catalog.drop_table("shop.t")
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(NotFoundError):
        old.append(rows(0))
    assert ids(catalog.table("shop.t")) == []


@pytest.mark.parametrize("commits", [3, pytest.param(25, marks=pytest.mark.long)])
def test_writers_side_by_side(catalog: Catalog, server: RestCatalogServer, commits: int) -> None:
    options = {"commit.max-retries": 1000, "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "50 ms"}
    catalog.create_table("shop.t", SCHEMA, options=options)
    writers, errors = (4 if commits == 3 else 8), []

    def write(writer: int) -> None:
        try:
            table = open_catalog(server).table("shop.t")
            for number in range(commits):
                table.append(rows((writer * commits + number) * 2))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = catalog.table("shop.t")
    assert (errors, ids(table)) == ([], list(range(writers * commits * 2)))
    assert [s.id for s in table.snapshots()] == list(range(1, writers * commits + 1))


@pytest.mark.parametrize("status", [0, 429, 503])
@pytest.mark.parametrize("after", [False, True])
def test_reads_and_drops_are_tried_again(catalog: Catalog, server: RestCatalogServer, status: int, after: bool) -> None:
    catalog.create_table("shop.t", SCHEMA)
    server.faults = [Fault("GET", "/tables", status, after, times=3), Fault("DELETE", "/t", status, after)]
    assert catalog.tables("shop") == ["t"]
    catalog.drop_table("shop.t")
    assert catalog.tables("shop") == []


def test_what_the_server_refuses(catalog: Catalog, server: RestCatalogServer) -> None:
    with pytest.raises(SecurityError, match="check the token") as caught:
        open_catalog(server, token="canary-other-token")
    assert "canary" not in str(caught.value)
    for status, error in ((403, SecurityError), (501, UnsupportedError), (500, StorageError), (307, StorageError)):
        server.faults = [Fault("GET", "/databases", status, message=f"secret={TOKEN} it is {TOKEN}")]
        with pytest.raises(error) as caught_:
            catalog.databases()
        assert TOKEN not in str(caught_.value)
    server.faults = [Fault("GET", "/databases", 503, times=9)]
    with pytest.raises(StorageError, match="503"):
        catalog.databases()


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(StorageError, match="check the address"):
        Catalog.open({"metastore": "rest", "uri": "http://127.0.0.1:9", "token": TOKEN})


def test_what_the_server_would_have_to_know_is_refused(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", rows(0))
    for change in (
        lambda: table.alter({"bucket": "-1"}),
        lambda: table.create_branch("b"),
        lambda: table.delete_branch("b"),
        lambda: table.rename_branch("b", "c"),
        lambda: table.fast_forward("b"),
        lambda: table.rollback(1),
    ):
        with pytest.raises(UnsupportedError, match="REST catalog"):
            change()


def test_secrets_show_nowhere(catalog: Catalog, server: RestCatalogServer) -> None:
    server.overrides["data-token.enabled"] = "true"
    opened = open_catalog(server)
    table = opened.create_table("shop.t", rows(0))
    texts = [repr(opened), repr(table), repr(table.store.publisher), repr(table.store.io), str(table.explain())]
    assert not [text for text in texts if "canary" in text]
    assert b"canary" not in pickle.dumps(table.store)
    assert not [p for p in Path(table.path).rglob("*") if p.is_file() and b"canary" in p.read_bytes()]
    copy = Table(pickle.loads(pickle.dumps(table.store)))
    with pytest.raises(UnsupportedError, match="without the catalog's token"):
        copy.append(rows(2))


@pytest.mark.parametrize(("life", "asked"), [(7_200_000, 1), (60_000, 3)])
def test_credentials_are_asked_for_before_they_expire(
    catalog: Catalog, server: RestCatalogServer, life: int, asked: int
) -> None:
    catalog.create_table("shop.t", SCHEMA)
    server.overrides["data-token.enabled"], server.token_life_ms = "true", life
    store = open_catalog(server).table("shop.t").store
    server.log.clear()
    store.io.list(store.root)
    first = len([path for _, path in server.log if path.endswith("/token")])
    for _ in range(2):
        store.io.list(store.root)
    assert first <= 1
    assert len([path for _, path in server.log if path.endswith("/token")]) == first + (0 if asked == 1 else 2)


def test_the_signature_of_a_request() -> None:
    """What Java Paimon's signer gives for these (its test DLFAuthSignatureTest)."""
    signature = DlfSignature("cn-hangzhou", ("access-key-id", "access-key-secret", "securityToken"), None)
    body = b'{"name":"database","options":{"a":"b"}}'
    request = Request("POST", "/v1/paimon/databases", {"k2": "v2", "k1": "v1"}, body)
    headers = signature.signed(request, datetime(2023, 12, 3, 12, 12, 12, tzinfo=timezone.utc))
    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


def test_signatures_follow_the_file_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_auth, "_READ_AGAIN_SECONDS", (0.0,))
    path = tmp_path / "key.json"
    signature = DlfSignature("cn-hangzhou", None, str(path))
    request, now = Request("GET", "/v1/databases", {"k": "v"}), datetime(2025, 4, 16, 3, 44, 46, tzinfo=timezone.utc)
    with pytest.raises(OptionError, match="token file"):
        signature.signed(request, now)
    key = {"AccessKeyId": "a", "AccessKeySecret": "canary-1", "SecurityToken": "s"}
    path.write_text(json.dumps(key | {"Expiration": "2020-01-01T00:00:00Z"}))
    first = signature.signed(request, now)
    path.write_text(json.dumps(key | {"AccessKeySecret": "canary-2", "Expiration": "2090-01-01T00:00:00Z"}))
    second = signature.signed(request, now)
    path.write_text("{")
    assert signature.signed(request, now) == second != first
    path.write_text('{"AccessKeySecret": "canary-3"}')
    with pytest.raises(OptionError) as caught:
        DlfSignature("r", None, str(path)).signed(request, now)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"metastore": "hive", "uri": "thrift://h"}, UnsupportedError),
        ({"warehouse": "/nowhere", "lock.enabled": "true"}, UnsupportedError),
        ({"metastore": "glue"}, UnsupportedError),
        ({"metastore": "filesystem"}, OptionError),
        ({"metastore": "rest"}, OptionError),
        ({"metastore": "rest", "uri": "u"}, OptionError),
        ({"metastore": "rest", "uri": "u", "token.provider": "dlf"}, OptionError),
        ({"metastore": "rest", "uri": "u", "token.provider": "magic"}, UnsupportedError),
        ({"metastore": "rest", "uri": "dlfnext.cn-x.example", "token.provider": "dlf"}, UnsupportedError),
    ],
)
def test_options_that_name_no_catalog(options: dict[str, str], error: type[PaimonError]) -> None:
    with pytest.raises(error):
        Catalog.open(options)
