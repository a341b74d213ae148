"""The REST catalog against a server of the tests, `support.rest_catalog`."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base import json_http
from paimon_pyds.base.json_http import Request
from paimon_pyds.base.retry import Pauses
from paimon_pyds.catalog import Catalog, rest_client, rest_publisher
from paimon_pyds.catalog.rest_auth import Bearer, DlfSignature, Key, authorization_of, key_of_file
from paimon_pyds.catalog.rest_client import RestClient
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitOutcomeUnknownError,
    DatabaseNotFoundError,
    NotFoundError,
    OptionError,
    PaimonError,
    SchemaError,
    SecurityError,
    StorageError,
    TableNotFoundError,
    TagNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.table import Table
from support.canary import texts_of
from support.effort import sampled
from support.messages import ids_of
from support.rest_catalog import TOKEN, Fault, RestCatalogServer, rest_catalog
from support.s3_server import serving
from support.side_by_side import PATIENT, append_side_by_side

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string())])


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)


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


def test_a_table_from_its_creation_to_its_rows(catalog: Catalog, server: RestCatalogServer) -> None:
    made = catalog.create_table("shop.orders", SCHEMA, options={"file-index.bitmap.columns": "id"})
    assert made.snapshots.latest() is None
    made.append(rows(0))
    table = catalog.table("shop.orders")
    table.append(rows(2))
    assert ids_of(made) == ids_of(table) == [0, 1, 2, 3]
    assert [s.id for s in table.snapshots.list()] == [1, 2]
    first, second = server.bodies
    assert first["snapshot"]["uuid"] == second["baseSnapshotUuid"] != second["snapshot"]["uuid"]
    assert table.scan(snapshot=1).to_arrow().num_rows == 2
    assert ids_of(Table.open(table.path)) == [0, 1, 2, 3]  # its files are a table of their own


def test_the_server_says_which_snapshot_is_the_latest(catalog: Catalog, server: RestCatalogServer) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(0))
    first = dict(server.latest)
    table.append(rows(2))
    server.latest.update(first)
    assert ids_of(catalog.table("shop.t")) == [0, 1]


def test_names_come_in_pages(catalog: Catalog) -> None:
    for name in "edcba":
        catalog.create_database(f"d {name}")
        catalog.create_table(f"shop.t{name}", SCHEMA)
    assert catalog.databases() == ["d a", "d b", "d c", "d d", "d e", "shop"]
    assert catalog.tables("shop") == ["ta", "tb", "tc", "td", "te"]


def test_options_that_the_server_gives_to_new_tables(catalog: Catalog, server: RestCatalogServer) -> None:
    server.overrides |= {"table-default.file-index.bitmap.columns": "id", "table-default.file.format": "avro"}
    opened = open_catalog(server, **{"table-default.bucket": "2", "table-default.bucket-key": "id"})
    options = opened.create_table("shop.t", SCHEMA, options={"file.format": "orc"}).schema.options
    assert options == {
        "file-index.bitmap.columns": "id", "file.format": "orc", "bucket": "2", "bucket-key": "id"
    }  # fmt: skip


def test_tables_of_other_kinds_are_refused(catalog: Catalog, server: RestCatalogServer) -> None:
    catalog.create_table("shop.t", SCHEMA)
    server.databases["shop"]["t"]["schema"] |= {"options": {"type": "object-table"}}
    with pytest.raises(UnsupportedError, match=r"shop\.t is not a Paimon table: its type is 'object-table'") as caught:
        catalog.table("shop.t")
    assert caught.value.feature == "object-tables"


def test_format_tables_are_read(catalog: Catalog, server: RestCatalogServer) -> None:
    path = Path(catalog.create_table("shop.t", SCHEMA).path)
    shutil.rmtree(path / "schema")
    server.databases["shop"]["t"]["schema"] |= {"options": {"type": "format-table", "file.format": "csv"}}
    table = catalog.table("shop.t")
    assert (table.count(), table.schema.field_names, table.snapshots.latest()) == (0, ("id", "name"), None)
    (path / "schema").mkdir()  # a directory as others here
    (path / "schema" / "a.csv").write_text("1,x\n2,y\n")
    assert ids_of(pickle.loads(pickle.dumps(catalog.table("shop.t")))) == [1, 2]
    with pytest.raises(UnsupportedError, match="type=format-table can't be written"):
        table.append(rows(0))
    with pytest.raises(BranchNotFoundError):
        catalog.table("shop.t$branch_b")


def test_databases_and_tables_come_and_go(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", rows(0))
    assert ids_of(table) == [0, 1]
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("shop")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    assert catalog.create_table("shop.t", SCHEMA, ignore_if_exists=True).path == table.path
    assert catalog.exists("shop.t") and not catalog.exists("shop.u") and not catalog.exists("shopp.t")
    catalog.create_table("shop.u", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"shop\.u"):
        catalog.rename_table("shop.t", "u")
    catalog.rename_table("shop.t", "v")
    assert (catalog.tables("shop"), ids_of(catalog.table("shop.v"))) == (["u", "v"], [0, 1])
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
@pytest.mark.parametrize("status", sampled([0, 429, 500, 502, 503], 2))
def test_a_commit_whose_answer_is_lost(catalog: Catalog, server: RestCatalogServer, status: int, after: bool) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    for number in range(2):
        server.faults = [Fault("POST", "/commit", status, after, times=2)]
        table.append(rows(2 * number))
    assert (ids_of(table), len(table.snapshots.list())) == ([0, 1, 2, 3], 2)


def test_a_commit_that_another_was_faster_than(catalog: Catalog, server: RestCatalogServer) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    server.faults = [Fault("POST", "/commit", 409)]
    table.append(rows(0))
    assert (ids_of(table), len(table.snapshots.list()), len(server.bodies)) == ([0, 1], 1, 1)


def test_what_an_earlier_try_may_have_made(catalog: Catalog, server: RestCatalogServer) -> None:
    server.faults = [Fault("POST", "/databases", 503, after=True)]
    with pytest.raises(AlreadyExistsError, match="an earlier try may have done it"):
        catalog.create_database("new")
    catalog.create_database("new", ignore_if_exists=True)
    server.faults = [Fault("POST", "/databases", 0, after=True)]
    with pytest.raises(StorageError, match="whether it was done"):
        catalog.create_database("newer")
    assert catalog.databases() == ["new", "newer", "shop"]


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
    assert ids_of(catalog.table("shop.t")) == [0, 1]


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
    assert ids_of(catalog.table("shop.t")) == [0, 1]


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
        ids_of(opened.table("shop.t"))


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
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(("status", "error"), [(400, OptionError), (403, SecurityError), (404, TableNotFoundError)])
def test_a_commit_that_is_refused(
    catalog: Catalog, server: RestCatalogServer, status: int, error: type[PaimonError]
) -> None:
    table = catalog.create_table("shop.t", SCHEMA)
    server.faults = [Fault("POST", "/commit", status)]
    with pytest.raises(error):
        table.append(rows(0))
    left = [path for path in Path(table.path).rglob("*") if path.is_file() and path.name != "schema-0"]
    assert (left, ids_of(table)) == ([], [])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 501])
def test_a_commit_that_is_refused_and_was_done(catalog: Catalog, server: RestCatalogServer, status: int) -> None:
    """As by a gateway that sends it again, of which the second is refused: its files are the table's."""
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(0))
    server.faults = [Fault("POST", "/commit", status, after=True)]
    table.append(rows(2))
    assert (ids_of(catalog.table("shop.t")), len(table.snapshots.list())) == ([0, 1, 2, 3], 2)


@pytest.mark.parametrize("looks", [1, 99])
def test_a_commit_that_is_in_conflict_with_itself(catalog: Catalog, server: RestCatalogServer, looks: int) -> None:
    """It was published, the second one that a gateway sent was in conflict, and nobody can say so at once."""
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(0))
    server.faults = [
        Fault("POST", "/commit", 409, after=True, times=9),
        Fault("GET", "/snapshot", 500, times=looks, commits=2),
    ]
    if looks == 1:
        table.append(rows(2))
    else:
        with pytest.raises(CommitOutcomeUnknownError):
            table.append(rows(2))
    server.faults = []
    assert (ids_of(catalog.table("shop.t")), len(table.snapshots.list())) == ([0, 1, 2, 3], 2)


@pytest.mark.parametrize("answer", [None, "", "<html>not found</html>", '"gone"', "[]", "{}", '{"error": "no route"}'])
def test_what_a_gateway_does_not_find_is_not_missing(
    catalog: Catalog, server: RestCatalogServer, answer: str | None
) -> None:
    """A catalog says of what type the thing is that it does not have; what stands before it knows of no things."""
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(0))

    def failing(method: str, ending: str) -> None:
        server.faults = [Fault(method, ending, 404, times=99, body=answer)]

    calls: list[tuple[str, str, Callable[[], object]]] = [
        ("GET", "/shop", lambda: catalog.tables("shop")),
        ("GET", "/shop", lambda: catalog.drop_database("shop", ignore_if_not_exists=True)),
        ("GET", "/t", lambda: catalog.table("shop.t")),
        ("GET", "/snapshot", lambda: ids_of(catalog.table("shop.t"))),
        ("DELETE", "/t", lambda: catalog.drop_table("shop.t", ignore_if_not_exists=True)),
        ("POST", "/rename", lambda: catalog.rename_table("shop.t", "u")),
    ]
    for method, ending, call in calls:
        failing(method, ending)
        if answer is None:
            with suppress(NotFoundError):
                call()
            continue
        with pytest.raises(StorageError, match="404"):
            call()
    failing("POST", "/commit")
    with pytest.raises(TableNotFoundError if answer is None else CommitOutcomeUnknownError):
        table.append(rows(2))
    failing("POST", "/branches")
    with pytest.raises(UnsupportedError, match="too old"):
        table.branches.create("b")
    server.faults = []
    assert (catalog.tables("shop"), ids_of(catalog.table("shop.t"))) == (["t"], [0, 1])


def test_what_an_earlier_try_may_have_renamed(catalog: Catalog, server: RestCatalogServer) -> None:
    catalog.create_table("shop.t", SCHEMA)
    server.faults = [Fault("POST", "/rename", 503, after=True)]
    with pytest.raises(TableNotFoundError, match="an earlier try may have done it"):
        catalog.rename_table("shop.t", "u")
    assert catalog.tables("shop") == ["u"]


def test_a_table_that_was_made_anew_is_another_one(catalog: Catalog) -> None:
    old = catalog.create_table("shop.t", SCHEMA)
    catalog.drop_table("shop.t")
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(NotFoundError):
        old.append(rows(0))
    assert ids_of(catalog.table("shop.t")) == []


@pytest.mark.parametrize("commits", [3, pytest.param(25, marks=pytest.mark.long)])
def test_writers_side_by_side(catalog: Catalog, server: RestCatalogServer, commits: int) -> None:
    catalog.create_table("shop.t", SCHEMA, options=PATIENT)
    writers = 4 if commits == 3 else 8
    append_side_by_side(lambda: open_catalog(server).table("shop.t"), lambda n: rows(2 * n), writers, commits)
    table = catalog.table("shop.t")
    assert ids_of(table) == list(range(writers * commits * 2))
    assert [s.id for s in table.snapshots.list()] == list(range(1, writers * commits + 1))


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


def test_pages_without_an_end(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "MAX_PAGES", 5)
    numbers = count()
    monkeypatch.setattr(
        RestClient, "get", lambda *_: {"databases": [f"d{next(numbers)}"], "nextPageToken": f"p{next(numbers)}"}
    )
    with pytest.raises(StorageError, match="does not end"):
        catalog.databases()


@pytest.mark.parametrize("status", ["200 OK", "500 Oh"])
def test_an_answer_that_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setattr(json_http, "MAX_ANSWER_SECONDS", 0.05)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        with suppress(OSError):
            connection = listening.accept()[0]
            connection.recv(1 << 16)
            connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 1000000\r\n\r\n".encode())
            while True:
                connection.sendall(b" ")
                time.sleep(0.01)

    thread = threading.Thread(target=drip)
    thread.start()
    client = RestClient(f"http://127.0.0.1:{listening.getsockname()[1]}", Bearer(TOKEN), {})
    with pytest.raises(StorageError, match="takes longer than" if status == "200 OK" else "status 500"):
        client._send(Request("GET", "/v1/config", {}), again=True, tries=1)
    listening.close()
    thread.join()


def test_a_server_that_is_silent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked again, for a shorter time; who waits is told, and how long it took in the end."""
    timeouts: list[float] = []
    clock = [0.0]

    def silent(*_: object, timeout: float) -> None:
        timeouts.append(timeout)
        clock[0] += timeout
        raise TimeoutError("timed out")

    monkeypatch.setattr(json_http._OPENER, "open", silent)
    monkeypatch.setattr(json_http.time, "monotonic", lambda: clock[0])
    with pytest.raises(StorageError, match=r"did not answer a GET \(timed out\): 2 tries in 80 s"):
        Catalog.open({"metastore": "rest", "uri": "http://u:hush@h", "token": TOKEN})
    assert timeouts == [60, 20]
    assert "try 2 of at most 6 in" in caplog.text and "hush" not in caplog.text


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(StorageError, match=r"did not answer a GET \(Connection refused\): .*check the address"):
        Catalog.open({"metastore": "rest", "uri": "http://127.0.0.1:9", "token": TOKEN})
    with pytest.raises(OptionError, match=r"needs the option token, or token\.provider=dlf with"):
        Catalog.open({"metastore": "rest", "uri": "http://127.0.0.1:9"})


_CHANGES: dict[str, tuple[Callable[[Table], object], Callable[[Table], bool]]] = {
    "alter": (
        lambda table: table.alter({"snapshot.num-retained.max": "99"}, add_columns={"n": "INT"}),
        lambda table: "n" in table.schema.field_names and "snapshot.num-retained.max" in table.schema.options,
    ),
    "create branch": (lambda table: table.branches.create("b", tag="one"), lambda table: "b" in table.branches.list()),
    "rename branch": (lambda table: table.branches.rename("a", "c"), lambda table: table.branches.list() == ["c"]),
    "fast-forward": (lambda table: table.branches.fast_forward("a"), lambda table: ids_of(table) == [0, 1]),
    "tag": (lambda table: table.tags.create("two"), lambda table: "two" in table.tags.list()),
    "rollback": (lambda table: table.snapshots.rollback(1), lambda table: ids_of(table) == [0, 1]),
    "rollback to a tag": (lambda table: table.snapshots.rollback(tag="one"), lambda table: ids_of(table) == [0, 1]),
}


@pytest.mark.parametrize(
    ("status", "after"), sampled([(None, True), (0, False), (0, True), (500, False), (500, True)], 2)
)
@pytest.mark.parametrize(("change", "is_done"), _CHANGES.values(), ids=_CHANGES)
def test_changes_that_the_server_makes(
    catalog: Catalog,
    server: RestCatalogServer,
    change: Callable[[Table], object],
    is_done: Callable[[Table], bool],
    status: int | None,
    after: bool,
) -> None:
    """Once, whatever becomes of the answer; when nobody can say whether it was made, that is said."""
    table = catalog.create_table("shop.t", rows(0))
    table.tags.create("one")
    table.branches.create("a", tag="one")
    table.append(rows(2))
    if status is not None:
        server.faults = [Fault("POST", "", status, after)]
    if after:
        change(table)
    else:
        with pytest.raises(CommitOutcomeUnknownError, match="before doing it again"):
            change(table)
    assert is_done(catalog.table("shop.t")) == after
    assert len([path for method, path in server.log if method == "POST" and "/tables/t" in path]) == 5


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("status", [429, 503])
def test_changes_that_a_busy_server_puts_off(
    catalog: Catalog, server: RestCatalogServer, status: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for again, after the time that it says, but not where it has made them."""
    table = catalog.create_table("shop.t", rows(0))
    table.append(rows(2))
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    for change in (
        lambda: table.alter({"file.format": "orc"}),
        lambda: table.tags.create("one", 1),
        lambda: table.branches.create("b", "one"),
        lambda: table.snapshots.rollback(1),
    ):
        server.faults = [Fault("POST", "", status, after, times=2, retry_after="7")]
        change()
    assert waited == ([] if after else [7.0] * 8)
    assert (table.options["file.format"], list(table.tags.list()), table.branches.list()) == ("orc", ["one"], ["b"])
    assert ids_of(catalog.table("shop.t")) == [0, 1]
    server.faults = [Fault("POST", "", status, times=99)]
    with pytest.raises(CommitOutcomeUnknownError, match="before doing it again"):
        table.tags.create("two")


@pytest.mark.parametrize("writes_files", [True, False])
def test_an_external_table(catalog: Catalog, server: RestCatalogServer, writes_files: bool) -> None:
    """It commits by its files, and has tags, branches and rollbacks there; the server has its columns, too."""
    catalog.create_table("shop.t", SCHEMA)
    server.databases["shop"]["t"] |= {"isExternal": True}
    server.writes_schemas = writes_files
    table = catalog.table("shop.t")
    table.append(rows(0))
    altered = table.alter(add_columns={"n": "INT"})
    assert (altered.id, altered.field_names[-1]) == (1, "n")
    assert [body["action"] for body in server.changes] == ["addColumn"]
    catalog.table("shop.t").append(rows(2).append_column("n", pa.array([1, 2], pa.int32())))
    table.tags.create("one")
    table.branches.create("b", tag="one")
    table.snapshots.rollback(1)
    assert ids_of(catalog.table("shop.t")) == [0, 1]
    assert (server.bodies, server.databases["shop"]["t"].get("tags")) == ([], None)


@pytest.mark.parametrize("kept", ["files", "elsewhere", None])
def test_tags_are_files_and_the_server_knows_them(
    catalog: Catalog, server: RestCatalogServer, kept: str | None
) -> None:
    server.tags = kept
    table = catalog.create_table("shop.t", rows(0))
    table.tags.create("one", retain="3 h")
    table.append(rows(2))
    table.tags.create("two")
    described = server.databases["shop"]["t"]
    assert described.get("tags") == (["one", "two"] if kept == "elsewhere" else None)
    assert list(table.tags.list()) == ["one", "two"]
    assert json.loads(Path(table._store.paths.tag("one")).read_bytes())["tagTimeRetained"] == 10800
    with pytest.raises(AlreadyExistsError):
        table.tags.create("two")
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert table.scan(tag="one").count() == 2
    table.tags.create("again", snapshot=1)  # of the tag, which only files can tell
    table.tags.delete("again")
    assert table.scan(tag="one").count() == 2
    table.tags.delete("one")
    assert list(table.tags.list()) == ["two"] and described.get("tags", ["two"]) == ["two"]
    assert ids_of(table) == [0, 1, 2, 3] and table.maintenance.verify().ok


def test_a_branch_goes_with_the_files_that_only_it_needs(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", rows(0))
    table.tags.create("one")
    table.branches.create("a", tag="one")
    table.snapshots.rollback(1)
    assert table.branches.delete("a", dry_run=True).branches == ("a",)
    assert table.branches.list() == ["a"]
    assert table.branches.delete("a").branches == ("a",)
    assert (table.branches.list(), ids_of(table)) == ([], [0, 1])


@pytest.mark.parametrize(
    ("resource", "error"), [("TABLE", TableNotFoundError), ("TAG", TagNotFoundError), (None, UnsupportedError)]
)
def test_a_change_of_what_is_not_there(
    catalog: Catalog, server: RestCatalogServer, resource: str | None, error: type[PaimonError]
) -> None:
    table = catalog.create_table("shop.t", rows(0))
    server.faults = [Fault("POST", "/branches", 404, resource=resource)]
    with pytest.raises(error):
        table.branches.create("b")


def test_secrets_show_nowhere(catalog: Catalog, server: RestCatalogServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.overrides |= {"data-token.enabled": "true", "header.x-api-key": "canary-header"}
    opened = open_catalog(server, **{"s3.secret-key": "canary-storage", "header.cookie": "canary-cookie"})
    table = opened.create_table("shop.t", rows(0))
    table.tags.create("one")
    table.delete("id = 0")
    scan = table.scan("id > 0")
    shown = [
        texts_of(opened, table, table._store, table._store.publisher, table._store.io, scan, scan.plan()),
        texts_of(scan.explain(), scan.explain(analyze=True), table.snapshots.latest()),
        *(str(opened.system.read(name).to_pylist()) for name in ("catalog_options", "all_table_options")),
        str(table.maintenance.verify()), str(table.system.read("options")),
    ]  # fmt: skip
    for status in (400, 401, 403, 404, 409, 500, 501):
        text = f"Bearer {TOKEN}, x-api-key: canary-header, canary-cookie, token={TOKEN} {TOKEN} ?sig=canary-x"
        for method, change in (("GET", opened.databases), ("POST", lambda: table.alter({"bucket": "-1", "x.y": 1}))):
            server.faults = [Fault(method, "", status, message=text, times=99)]
            with pytest.raises((PaimonError, OSError)) as caught:
                change()
            shown.append("".join(traceback.format_exception(caught.value)))
    server.faults = []
    assert not [text for text in (*shown, caplog.text) if "canary" in text]
    assert b"canary" not in pickle.dumps(table._store) + pickle.dumps(scan.plan().splits)
    assert not [p for p in Path(table.path).rglob("*") if p.is_file() and b"canary" in p.read_bytes()]
    copy = Table(pickle.loads(pickle.dumps(table._store)))
    with pytest.raises(UnsupportedError, match="without the catalog's token, and"):
        copy.append(rows(2))


@pytest.mark.parametrize(("life", "asked"), [(7_200_000, 1), (60_000, 1), (0, 3)])
def test_credentials_are_asked_for_before_they_expire(
    catalog: Catalog, server: RestCatalogServer, life: int, asked: int
) -> None:
    catalog.create_table("shop.t", SCHEMA)
    server.overrides["data-token.enabled"], server.token_life_ms = "true", life
    store = open_catalog(server).table("shop.t")._store
    server.log.clear()
    store.io.list(store.root)
    first = len([path for _, path in server.log if path.endswith("/token")])
    for _ in range(2):
        store.io.list(store.root)
    assert first <= 1
    assert len([path for _, path in server.log if path.endswith("/token")]) == first + (0 if asked == 1 else 2)


def test_the_signature_of_a_request() -> None:
    """What Java Paimon's signer gives for these (its test DLFAuthSignatureTest)."""
    signature = DlfSignature("cn-hangzhou", Key("access-key-id", "access-key-secret", "securityToken"))
    body = b'{"name":"database","options":{"a":"b"}}'
    request = Request("POST", "/v1/paimon/databases", {"k2": "v2", "k1": "v1"}, body)
    headers = signature.signed(request, datetime(2023, 12, 3, 12, 12, 12, tzinfo=UTC))
    assert headers["Authorization"] == (
        "DLF4-HMAC-SHA256 Credential=access-key-id/20231203/cn-hangzhou/DlfNext/aliyun_v4_request,"
        "Signature=c72caf1d40b55b1905d891ee3e3de48a2f8bebefa7e39e4f277acc93c269c5e3"
    )


def test_signatures_follow_the_file_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    signature = DlfSignature("cn-hangzhou", partial(key_of_file, str(path)))
    request, now = Request("GET", "/v1/databases", {"k": "v"}), datetime(2025, 4, 16, 3, 44, 46, tzinfo=UTC)
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
        DlfSignature("r", partial(key_of_file, str(path))).signed(request, now)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("role", [None, "its-role"])
def test_keys_of_a_machine_of_alibaba(monkeypatch: pytest.MonkeyPatch, role: str | None) -> None:
    key = {"AccessKeyId": "a", "AccessKeySecret": "canary-1", "SecurityToken": "s"}
    found = {
        "/keys/": b"its-role\n",
        "/keys/its-role": json.dumps({**key, "Expiration": "2090-01-01T00:00:00Z"}).encode(),
    }
    asked = list[str]()

    def app(environ: dict[str, Any], respond: Any) -> list[bytes]:
        asked.append(environ["PATH_INFO"])
        body = found.get(asked[-1])
        respond("404 Not Found" if body is None else "200 OK", [("Content-Length", str(len(body or b"")))])
        return [body or b""]

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # which has no such address
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    request = Request("GET", "/v1/databases", {})
    options = {"token.provider": "dlf", "dlf.region": "r", "dlf.token-loader": "ecs"}
    options |= {} if role is None else {"dlf.token-ecs-role-name": role}
    with serving(app) as server:
        options["dlf.token-ecs-metadata-url"] = f"{server.address}/keys"
        signature = authorization_of(options)
        assert "Credential=a/" in signature.headers(request)["Authorization"]
        assert signature.secrets() == ["canary-1", "s"]
        signature.headers(request)
        assert asked == [*(["/keys/"] if role is None else []), "/keys/its-role"]
        found.clear()
        with pytest.raises(OptionError, match="gives no key of a role"):
            authorization_of(options).headers(request)
    with pytest.raises(UnsupportedError, match="local_file and ecs are"):
        authorization_of({**options, "dlf.token-loader": "other"})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"metastore": "hive", "uri": "thrift://h"}, OptionError),
        ({"metastore": "filesystem", "warehouse": "/nowhere", "lock.enabled": "true"}, UnsupportedError),
        ({"metastore": "filesystem", "warehouse": "/nowhere", "lock.enabled": "yes"}, OptionError),
        (
            {"metastore": "jdbc", "uri": "jdbc:sqlite::memory:", "warehouse": "/nowhere", "lock.enabled": "1"},
            OptionError,
        ),
        ({"metastore": "glue"}, UnsupportedError),
        ({"metastore": "filesystem"}, OptionError),
        ({"metastore": "rest"}, OptionError),
        ({"metastore": "rest", "uri": "u"}, OptionError),
        ({"metastore": "rest", "uri": "u", "token.provider": "dlf"}, OptionError),
        ({"metastore": "rest", "uri": "u", "token.provider": "magic"}, UnsupportedError),
        ({"metastore": "rest", "uri": "dlfnext.cn-x.example", "token.provider": "dlf"}, OptionError),
        ({"metastore": "rest", "uri": "u", "token.provider": "dlf", "dlf.signing-algorithm": "x"}, UnsupportedError),
    ],
)
def test_options_that_name_no_catalog(options: dict[str, str], error: type[PaimonError]) -> None:
    with pytest.raises(error):
        Catalog.open(options)


def test_the_server_gets_partitions_by_the_names_of_their_directories(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, partition_by=["name"])
    table.append([{"id": 1, "name": name} for name in ("a/b", "\u00a0", "\u3000", None)])  # the second is not blank
    store = TableStore.open(table.path)
    snapshot = store.latest_snapshot()
    assert snapshot is not None
    found = [entry["spec"]["name"] for entry in rest_publisher.partition_statistics(store, snapshot)]
    assert sorted(found) == ["__DEFAULT_PARTITION__", "__DEFAULT_PARTITION__", "a/b", "\u00a0"]


def test_a_table_whose_first_rows_fail_stays(catalog: Catalog) -> None:
    """A server can't be asked to drop it only if nobody has committed to it."""
    with pytest.raises(SchemaError, match="NOT NULL"):
        catalog.create_table("shop.t", {"id": [1, None]}, primary_key="id")
    assert catalog.table("shop.t").count() == 0
