"""Errors hold no secret: neither in their own texts nor in those of the errors behind them, which logs may show."""

from __future__ import annotations

import base64
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.base.secrets import raise_alone, scrubbed
from paimon_pyds.catalog import Catalog, database
from paimon_pyds.errors import PaimonError
from paimon_pyds.storage import open_file_io
from support.canary import CANARY, failure, is_clean, trace_of

_AZURE_KEY = base64.b64encode(CANARY.encode() * 4).decode()


class _Echo(BaseHTTPRequestHandler):
    """Refuses each request, and repeats all that it was sent: where it writes, in headers, in the status line."""

    def _refuse(self) -> None:
        said = f"{self.path} {self.headers.items()}"
        body = f"<Error><Code>AccessDenied</Code><Message>{said}</Message></Error>".encode()
        self.send_response(403, f"no {self.headers.get('Authorization')}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-said", said)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _refuse

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of a server that repeats secrets."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


STORES: dict[str, Callable[[str], tuple[str, dict[str, str]]]] = {
    "s3": lambda address: (
        "s3://bucket/wh",
        {"s3.endpoint": address, "s3.access-key": CANARY, "s3.secret-key": CANARY, "s3.session-token": CANARY},
    ),
    "azure key": lambda address: (
        "abfss://c@acc.dfs.core.windows.net/wh",
        {"fs.azure.account.key.acc.dfs.core.windows.net": _AZURE_KEY, "azure.endpoint": f"{address}/acc"},
    ),
    "azure sas": lambda address: (
        "abfss://c@acc.dfs.core.windows.net/wh",
        {"azure.sas-token": f"sv=2024&sig={CANARY}", "azure.endpoint": f"{address}/acc"},
    ),
    "gcs": lambda address: ("gs://bucket/wh", {"gs.access-token": CANARY, "gs.endpoint": address}),
    "oss": lambda address: (
        "oss://bucket/wh",
        {"fs.oss.endpoint": address, "fs.oss.accessKeyId": CANARY, "fs.oss.accessKeySecret": CANARY},
    ),
}  # fmt: skip


def _calls(root: str, options: dict[str, str]) -> list[Callable[[], Any]]:
    io, path = open_file_io(root, options)
    return [
        lambda: pp.Table.open(f"{root}/t", storage_options=options),
        lambda: pp.Table.create(f"{root}/t", "id INT", storage_options=options),
        lambda: Catalog(root, options).databases(),
        lambda: Catalog(root, options).table("db.t"),
        lambda: io.read_bytes(f"{path}/f"),
        lambda: io.read_ranges(f"{path}/f", [(0, 1)]),
        lambda: io.open_input(f"{path}/f").read(),
        lambda: io.size(f"{path}/f"),
        lambda: io.list(path),
        lambda: io.write_bytes(f"{path}/f", b"x"),
        lambda: io.create_if_absent(f"{path}/f", b"x"),
        lambda: io.replace(f"{path}/f", b"x"),
        lambda: io.delete([f"{path}/f"]),
        lambda: io.delete_tree(path),
    ]


@pytest.mark.parametrize("store", STORES)
def test_a_store_that_repeats_what_it_was_sent(store: str, echo: str) -> None:
    for call in _calls(*STORES[store](echo)):
        error = failure(call)
        assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)
        assert _AZURE_KEY not in trace_of(error)


@pytest.mark.parametrize("store", STORES)
def test_keys_that_no_header_can_have(store: str, echo: str) -> None:
    root, options = STORES[store](echo)
    given = {k: f"{v}\n" if v in (CANARY, _AZURE_KEY) else v.replace(CANARY, f"{CANARY}\n") for k, v in options.items()}
    for call in (lambda: pp.Table.open(f"{root}/t", storage_options=given), lambda: Catalog(root, given).databases()):
        error = failure(call)
        assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


@pytest.mark.parametrize(
    "options",
    [
        {"token": CANARY}, {"token": f"{CANARY}\n"}, {"token": f"{CANARY}…"}, {"header.x-key": f"{CANARY}\r\nmore: 1"},
        {"token.provider": "dlf", "dlf.access-key-id": CANARY, "dlf.access-key-secret": CANARY, "dlf.region": "x"},
        {"uri": f"http://me:{CANARY}@127.0.0.1:1"}, {"uri": f"http://h:{CANARY}"},
    ],
    ids=str,
)  # fmt: skip
def test_rest_catalogs(options: dict[str, str], echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    own = {"token.provider": "bear"} if "token" in options else {}
    given = {"metastore": "rest", "uri": echo, "warehouse": "w", **own, **options}
    error = failure(lambda: Catalog.open(given).databases())
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


def test_a_token_file_that_is_damaged(tmp_path: Path, echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    path = tmp_path / "token.json"
    path.write_text(f'{{"AccessKeyId": "{CANARY}", "AccessKeySecret": "{CANARY}"')
    given = {"metastore": "rest", "uri": echo, "warehouse": "w", "token.provider": "dlf", "dlf.region": "x"}
    error = failure(lambda: Catalog.open({**given, "dlf.token-path": str(path)}))
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


@pytest.mark.parametrize("kind", ["Error", "OperationalError", "IntegrityError", "RuntimeError"])
@pytest.mark.parametrize("where", ["connect", "execute"])
def test_databases(kind: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drivers repeat what they connect with."""

    def fail(*_: Any, **__: Any) -> Any:
        raise getattr(sqlite3, kind, RuntimeError)(f"can't connect with {CANARY}") from ValueError(CANARY)

    class Connection(sqlite3.Connection):
        cursor = fail

    connect = fail if where == "connect" else lambda **_: sqlite3.connect(":memory:", factory=Connection)
    monkeypatch.setattr(database, "_driver", lambda kind: (connect, sqlite3))
    given = {"metastore": "jdbc", "uri": "jdbc:mysql://h/db", "jdbc.user": "me", "jdbc.password": CANARY}
    error = failure(lambda: Catalog.open({**given, "warehouse": "/nowhere"}))
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


def test_a_config_file_that_is_no_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "catalogs.toml"
    file.write_text(f'[catalogs.prod]\ntoken = "{CANARY}"\n!')
    monkeypatch.setenv("PAIMON_PYDS_CONFIG", str(file))
    error = failure(lambda: Catalog.configured("prod"))
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


def test_profiles_of_aws_that_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_secret_access_key = x\n{CANARY}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "default")
    error = failure(lambda: pp.Table.open("s3://bucket/t"))
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


def test_a_schema_that_is_no_json(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT")
    (Path(table.path) / "schema" / "schema-0").write_text(f'{{"options": {{"s3.secret-key": "{CANARY}"}}')
    error = failure(lambda: pp.Table.open(tmp_path / "t").schema)
    assert isinstance(error, PaimonError) and is_clean(trace_of(error)), trace_of(error)


def test_causes_that_hold_a_secret_are_copied() -> None:
    inner = OSError("refused")
    inner.__context__ = ValueError(f"password={CANARY}")
    assert scrubbed(inner) is not inner and is_clean(trace_of(scrubbed(inner)))
    plain = OSError("refused")
    assert scrubbed(plain) is plain


def test_raised_alone_an_error_holds_nothing() -> None:
    def handle() -> None:
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise_alone(PaimonError("it failed"), OSError("refused"))

    error = failure(handle)
    assert (error.__context__, str(error.__cause__)) == (None, "refused")
