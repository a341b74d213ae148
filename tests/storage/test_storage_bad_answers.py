"""An S3 server that cuts connections, or answers what no client wants."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitOutcomeUnknownError, OptionError, StorageError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import object_store, open_file_io, whole_listing
from support.s3_server import BEFORE, Respond, Server, serving, without_pauses
from support.servers import forwarding

pytest.importorskip("moto.server")
DATA = os.urandom(1 << 20) * 12


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    without_pauses(monkeypatch)
    with serving() as running:
        yield running


def test_a_connection_that_is_cut_in_the_middle_of_a_get(server: Server) -> None:
    root, whole, left = server.bucket(), server.app, [0]
    io, _ = open_file_io(root, server.options())
    io.replace(f"{root}/f", DATA)

    def cut(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        body = b"".join(whole(environ, respond))
        if environ["REQUEST_METHOD"] == "GET" and left[0]:
            left[0] -= 1
            return [body[: len(body) // 2]]
        return [body]

    server.app = cut
    reads: list[Callable[[], bytes]] = [
        lambda: io.read_bytes(f"{root}/f"),
        lambda: io.read_range(f"{root}/f", 0, len(DATA)),
    ]
    for read in reads:
        left[0] = 1
        assert read() == DATA and not left[0]
    left[0] = 50
    with pytest.raises(StorageError, match="try again"):
        io.read_range(f"{root}/f", 0, len(DATA))


def test_an_upload_in_parts_that_fails(server: Server) -> None:
    root = server.bucket()
    io, _ = open_file_io(root, server.options())
    left = [0]

    def fail(number: int, method: str, path: str) -> str | None:
        left[0] -= method == "PUT"
        return BEFORE if method == "PUT" and left[0] >= 0 else None

    server.fail = fail
    left[0] = 1
    io.replace(f"{root}/m", DATA)
    assert io.read_bytes(f"{root}/m") == DATA
    left[0] = 50
    with pytest.raises(StorageError, match="503"):
        io.replace(f"{root}/n", DATA)
    assert not io.list(f"{root}/n") and [entry.name for entry in io.list(root)] == ["m"]


@pytest.mark.parametrize(("method", "cuts"), [("PUT", 1), ("PUT", 99), ("POST", 1), ("POST", 99)])
def test_a_connection_that_is_cut_in_the_middle_of_an_upload(server: Server, method: str, cuts: int) -> None:
    """POST begins an upload and ends it: its end may be lost after the object was made."""
    root, whole, left = server.bucket(), server.app, [0]
    io, _ = open_file_io(root, server.options())

    def cut(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != method or not left[0] or "uploads" in environ["QUERY_STRING"]:
            return cast("Iterable[bytes]", whole(environ, respond))
        left[0] -= 1
        if method == "PUT":
            environ["wsgi.input"].read(1 << 20)
        else:
            list(whole(environ, lambda status, headers, exc=None: None))
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return []

    server.app = cut
    left[0] = cuts
    try:
        io.replace(f"{root}/f", DATA)
        done = True
    except StorageError as error:
        assert "hush" not in str(error)
        done = False
    assert done or method == "POST" or cuts > 1
    left[0] = 0
    if done or [entry.name for entry in io.list(root)]:
        assert io.read_bytes(f"{root}/f") == DATA
    io.replace(f"{root}/f", DATA[::-1])
    assert io.read_bytes(f"{root}/f") == DATA[::-1]


def test_reads_that_are_turned_away_for_load(server: Server) -> None:
    root = server.bucket()
    io, _ = open_file_io(root, server.options())
    io.write_bytes(f"{root}/d/f", b"0123456789")
    reads: list[Callable[[], object]] = [
        lambda: io.read_bytes(f"{root}/d/f"),
        lambda: io.read_range(f"{root}/d/f", 2, 3),
        lambda: io.size(f"{root}/d/f"),
        lambda: io.list(f"{root}/d"),
    ]
    expected = [read() for read in reads]
    for status in ("503 Slow Down", "429 Too Many Requests", "500 Internal Server Error"):
        left = [BEFORE] * 2
        server.status, server.fail = status, lambda n, method, path, left=left: left.pop() if left else None
        assert reads[0]() == expected[0] and not left
    for read, rows in zip(reads, expected, strict=True):
        left = [BEFORE]
        server.fail = lambda n, method, path, left=left: left.pop() if left else None
        assert read() == rows and not left


def test_keys_that_the_server_refuses(s3proxy: str) -> None:
    with serving(forwarding(s3proxy)) as server:
        root = server.bucket()
        open_file_io(root, server.options())[0].write_bytes(f"{root}/f", b"1")
        for wrong in ({"s3.secret-key": "canary-of-this-test"}, {"s3.access-key": "nobody"}):
            io, _ = open_file_io(root, server.options(**wrong))
            calls: list[Callable[[], object]] = [
                lambda io=io: io.read_bytes(f"{root}/f"),
                lambda io=io: io.list(root),
                lambda io=io: io.replace(f"{root}/f", b"2"),
                lambda io=io: io.create_if_absent(f"{root}/g", b"2"),
            ]
            for call in calls:
                with pytest.raises(StorageError, match="check the credentials") as caught:
                    call()
                assert "canary" not in str(caught.value)
        assert open_file_io(root, server.options())[0].read_bytes(f"{root}/f") == b"1"


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        ("403 Forbidden", "RequestTimeTooSkewed", "clock"),
        ("301 Moved Permanently", "PermanentRedirect", "another region"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", "another region"),
    ],
)
def test_answers_that_say_what_is_wrong(server: Server, status: str, code: str, hint: str) -> None:
    root = server.bucket()
    io, _ = open_file_io(root, server.options())

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
        respond(status, [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
        return [body]

    server.app = answer
    for call in (lambda: io.read_bytes(f"{root}/f"), lambda: io.list(root), lambda: io.replace(f"{root}/f", b"x")):
        with pytest.raises(StorageError, match=hint) as caught:
            call()
        assert "hush" not in str(caught.value)


@contextmanager
def silent() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a server that takes requests and answers none, and the first lines of those."""
    requests: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def read(connection: socket.socket) -> None:
        with suppress(OSError):
            while data := connection.recv(1 << 16):
                if data[:4] in (b"GET ", b"PUT ", b"HEAD", b"DELE"):
                    requests.append(data.partition(b"\r\n")[0])

    def serve() -> None:
        with suppress(OSError):
            while True:
                connections.append(listening.accept()[0])
                threading.Thread(target=read, args=(connections[-1],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
    finally:
        listening.close()
        for connection in connections:
            connection.close()


def test_an_outage_is_told_after_few_tries(server: Server) -> None:
    waits = {"s3.request-timeout": "1", "s3.connect-timeout": "1", "s3.retry-timeout": "1"}
    table = pp.Table.create(f"{server.bucket()}/t", pa.schema([("id", pa.int64())]), storage_options=server.options())
    with silent() as (address, requests):
        options = server.options() | waits | {"s3.endpoint": address}
        with pytest.raises(StorageError, match=r"can't be reached.*s3\.….*retry-timeout 1 s") as caught:
            pp.Table.open(table._store.root, storage_options=options)
        assert len(requests) <= 3 * 2  # what an opening asks for at once, each once more
        assert caught.value.errno == errno.ETIMEDOUT and "hush" not in str(caught.value)
        io, _ = open_file_io(table._store.root, options)
        for call in (
            lambda: io.write_bytes(f"{table._store.root}/a", b"1"),
            lambda: TableStore(io, table._store.root).latest_snapshot(),
        ):
            requests.clear()
            with pytest.raises(StorageError, match="can't be reached"):
                call()
            assert len(requests) <= 2
        requests.clear()
        object_store._conditional[io._identity] = True
        with pytest.raises(CommitOutcomeUnknownError):
            io.create_if_absent(f"{table._store.root}/b", b"1")
        end = time.monotonic() + 60
        while not requests and time.monotonic() < end:  # the client may have given up before our thread looks
            time.sleep(0.01)
        assert 1 <= len(requests) <= 3
    for bad in ("0", "-1", "soon"):
        with pytest.raises(OptionError, match=r"s3\.retry-timeout must be a whole number"):
            open_file_io("s3://b/t", server.options(**{"s3.retry-timeout": bad}))


def test_a_listing_that_is_answered_with_something_else(server: Server) -> None:
    """A client takes any XML for a list of nothing: tags would not be there, and what they need be an orphan."""
    root, whole = server.bucket(), server.app
    table = pp.Table.create(f"{root}/t", pa.schema([("id", pa.int64())]), storage_options=server.options())
    table.append(pa.table({"id": [1]}))
    table.tags.create("x")
    table.overwrite(pa.table({"id": [2]}))
    table.snapshots.expire(retain_max=1)
    io, left = table._store.io, [0]
    current = [b""]

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        if "list-type" not in environ["QUERY_STRING"] or not left[0]:
            return cast("Iterable[bytes]", whole(environ, respond))
        left[0] -= 1
        respond("200 OK", [("Content-Length", str(len(current[0]))), ("Content-Type", "application/xml")])
        return current

    server.app = answer
    tag_dir = f"{table.path}/tag"
    bodies = [b"<html><body>Sign in</body></html>", b"<Error><Code>SlowDown</Code></Error>", b"<ListBucketResult/>"]
    for current[0] in bodies:
        left[0] = 1
        assert [entry.name for entry in io.list(tag_dir)] == ["tag-x"]
        left[0] = 1
        assert io.exists(tag_dir)
        left[0] = 1
        assert not table.maintenance.remove_orphan_files("0 s", dry_run=False).files.num_rows
        assert table.scan(tag="x").to_arrow().to_pylist() == [{"id": 1}]
    for current[0] in bodies[:2]:
        for call in (
            lambda: io.list(tag_dir),
            lambda: io.exists(tag_dir),
            lambda: io.delete_tree(tag_dir),
            lambda: pp.Table.open(table.path, storage_options=server.options()).tags.list(),
            lambda: table.maintenance.remove_orphan_files("0 s", dry_run=False),
        ):
            left[0] = 1000
            with pytest.raises(StorageError, match="is no list"):
                call()
    left[0] = 0
    assert io.list(f"{root}/nothing") == [] and not io.exists(f"{root}/nothing")
    assert table.scan(tag="x").to_arrow().to_pylist() == [{"id": 1}]


def test_a_listing_whose_second_page_is_something_else(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    root, whole, left = server.bucket(), server.app, [0]
    io, _ = open_file_io(root, server.options())
    monkeypatch.setattr(whole_listing, "PAGE", 3)
    names = [f"a b+{i}é" for i in range(6)]
    for name in names:
        io.write_bytes(f"{root}/d/{name}", b"1")
    io.write_bytes(f"{root}/d/z/x", b"1")

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        query = environ["QUERY_STRING"]
        if "list-type" not in query:
            return cast("Iterable[bytes]", whole(environ, respond))
        if "continuation-token" in query and left[0]:
            left[0] -= 1
            respond("200 OK", [("Content-Length", "8"), ("Content-Type", "application/xml")])
            return [b"<Error/>"]
        environ["QUERY_STRING"] = f"{query}&max-keys=3" if "max-keys" not in query else query
        return cast("Iterable[bytes]", whole(environ, respond))

    server.app = answer
    assert [entry.name for entry in io.list(f"{root}/d")] == [*names, "z"]
    left[0] = 1
    assert [entry.name for entry in io.list(f"{root}/d")] == [*names, "z"]
    left[0] = 1000
    with pytest.raises(StorageError, match="cut short"):
        io.list(f"{root}/d")


def test_listings_of_nothing_are_looked_at_as_they_are_asked_for(server: Server) -> None:
    """By keys, by none; where objects are that stand for directories, or have names that no file has."""
    nobody = {"s3.endpoint": server.address, "s3.region": "us-east-1", "s3.anonymous": "true"}
    for options in (server.options(), nobody):
        root = server.bucket()
        io, _ = open_file_io(root, options)
        begin = len(server.requests)
        assert io.list(root) == [] and io.list(f"{root}/a b/é=%2F") == []
        assert len(server.requests) - begin == 4
        assert not io.exists(f"{root}/a")
    io, _ = open_file_io(root, server.options())
    io.make_dir(f"{root}/made")
    server.put(f"{root}/marked/")
    assert io.exists(f"{root}/marked") and io.list(f"{root}/marked") == []
