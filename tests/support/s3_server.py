"""A store's server on this machine that can be made to misbehave: moto's of S3, or one of `support.servers`."""

from __future__ import annotations

import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from paimon_pyds.base.retry import Pauses
from paimon_pyds.storage import store_clients

BEFORE, AFTER = "before", "after"
ACCESS_KEY, SECRET_KEY = "someone", "hush-hush-hush"
Respond = Callable[[str, list[tuple[str, str]]], Any]


@dataclass
class Server:
    """A running server.

    Attributes:
        app: what answers requests.
        serial: whether it has to be asked one request at a time.
        address: its URL.
        requests: method and path of each request so far.
        headers: of each, as WSGI has them.
        fail: says of a request (its number, method and path) whether, and when, it fails; None for those that don't.
        status: what a request that fails is answered.
        conditional: whether If-None-Match is honoured.
        keys: the access keys that are let in; None for all.
    """

    app: Any
    serial: bool = True
    address: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    fail: Callable[[int, str, str], str | None] = lambda number, method, path: None
    status: str = "503 Slow Down"
    conditional: bool = True
    keys: set[str] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        with self._lock:
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            number = len(self.requests)
            self.requests.append((method, path))
            self.headers.append({name: text for name, text in environ.items() if name.startswith("HTTP_")})
            if not self.conditional:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
            if self.keys is not None and key not in self.keys:
                body = f"<Error><Code>ExpiredToken</Code><Message>the key {key}</Message></Error>".encode()
                respond("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
                return [body]
            when = self.fail(number, method, path)
        with self._lock if self.serial else nullcontext():  # moto looks for an object and puts it in two steps
            if when == BEFORE:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            elif when == AFTER:
                list(self.app(environ, lambda status, headers, exc=None: None))
            else:
                return list(self.app(environ, respond))
        respond(self.status, [("Content-Length", "0")])
        return [b""]

    def options(self, **more: str) -> dict[str, str]:
        """Storage options of a user who may do everything."""
        return {
            "s3.endpoint": self.address,
            "s3.access-key": ACCESS_KEY,
            "s3.secret-key": SECRET_KEY,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        } | more

    def put(self, path: str) -> None:
        """An empty object of any name, such as one that ends with ``/``."""
        bucket, _, key = path.partition("://")[2].partition("/")
        with self._client() as client:
            client.put_object(Bucket=bucket, Key=key)

    def bucket(self) -> str:
        """The URI of a new bucket."""
        name = f"b{uuid.uuid4().hex[:12]}"
        if self.serial:
            with urllib.request.urlopen(urllib.request.Request(f"{self.address}/{name}", method="PUT")):
                return f"s3://{name}"
        with self._client() as client:
            client.create_bucket(Bucket=name)
        return f"s3://{name}"

    def _client(self) -> Any:
        import boto3

        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
        return closing(boto3.client("s3", "us-east-1", endpoint_url=self.address, **keys))


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests that fail sent again at once, by this package and by its client of S3."""
    made, soon = store_clients.S3Store, timedelta(milliseconds=1)

    def impatient(*arguments: Any, retry_config: Any, **more: Any) -> Any:
        backoff = {"init_backoff": soon, "max_backoff": soon, "base": 2}
        return made(*arguments, retry_config={**retry_config, "backoff": backoff}, **more)

    monkeypatch.setattr(store_clients, "S3Store", impatient)
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)


@contextmanager
def serving(app: Any = None) -> Iterator[Server]:
    """Moto's server, or another application that takes requests side by side, on a free port."""
    from moto import backends
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

        def make_environ(self) -> dict[str, Any]:
            """Names with underscores, which WSGI has no place for, are those of Azure's own headers."""
            odd = {name: text for name, text in self.headers.items() if "_" in name}
            return super().make_environ() | {"support.headers": odd}

        def handle_expect_100(self) -> bool:
            return True  # werkzeug says it, too, and once is enough

    # Moto lists its folders at each request, which is a quarter of the time that a request takes.
    names = list(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: names
    server = Server(app or DomainDispatcherApplication(create_backend_app), serial=app is None)
    listening = make_server("127.0.0.1", 0, server, threaded=True, request_handler=Quiet)
    server.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)  # it ends within that time
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
