"""An S3 server that cuts connections, or answers what no client wants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from paimon_pyds.errors import StorageError
from paimon_pyds.storage import object_store, open_file_io
from support.s3_server import BEFORE, Respond, Server, serving

pytest.importorskip("moto.server")
DATA = os.urandom(1 << 20) * 12


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store.time, "sleep", lambda _: None)
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
