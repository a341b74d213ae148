"""An S3 server on this machine (moto's), that answers one request at a time, and that can be made to misbehave."""

from __future__ import annotations

import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

BEFORE, AFTER = "before", "after"
Respond = Callable[[str, list[tuple[str, str]]], Any]


@dataclass
class Server:
    """A running server.

    Attributes:
        address: its URL.
        requests: method and path of each request so far.
        headers: of each, as WSGI has them.
        fail: says of a request (its number, method and path) whether, and when, it fails; None for those that don't.
        status: what a request that fails is answered.
        conditional: whether If-None-Match is honoured.
    """

    app: Any
    address: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    fail: Callable[[int, str, str], str | None] = lambda number, method, path: None
    status: str = "503 Slow Down"
    conditional: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        with self._lock:  # moto looks whether an object is there and puts it in two steps
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
            number = len(self.requests)
            self.requests.append((method, path))
            self.headers.append({name: text for name, text in environ.items() if name.startswith("HTTP_")})
            if not self.conditional:
                environ.pop("HTTP_IF_NONE_MATCH", None)
            when = self.fail(number, method, path)
            if when == BEFORE:
                environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                respond(self.status, [("Content-Length", "0")])
                return [b""]
            if when == AFTER:
                list(self.app(environ, lambda status, headers, exc=None: None))
                respond(self.status, [("Content-Length", "0")])
                return [b""]
            return list(self.app(environ, respond))

    def options(self, **more: str) -> dict[str, str]:
        """Storage options of a user who may do everything."""
        return {
            "s3.endpoint": self.address,
            "s3.access-key": "someone",
            "s3.secret-key": "hush-hush-hush",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        } | more

    def bucket(self) -> str:
        """The URI of a new bucket."""
        name = f"b{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.address}/{name}", method="PUT")):
            pass
        return f"s3://{name}"


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a free port."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any) -> None:
            pass

    server = Server(DomainDispatcherApplication(create_backend_app))
    listening = make_server("127.0.0.1", 0, server, threaded=True, request_handler=Quiet)
    server.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
