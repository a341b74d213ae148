"""A REST catalog for tests, on this machine, by Paimon's OpenAPI description: databases, tables, pages and commits.

It writes schemas and snapshots as files, and can fail any request before or after its effect.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

TOKEN = "canary-bearer-token"


class Refusal(Exception):
    def __init__(self, status: int, resource: str | None = None, message: str = "") -> None:
        self.status, self.resource, self.message = status, resource, message


@dataclass
class Fault:
    """One request that fails. ``status`` 0 cuts the connection, 200 sends ``answer``; ``later`` waits for the first
    commit."""

    method: str
    ending: str
    status: int
    after: bool = False
    times: int = 1
    message: str = ""
    later: bool = False
    answer: Any = None


@dataclass
class RestCatalogServer:
    root: Path
    address: str = ""
    authorization: str | None = f"Bearer {TOKEN}"
    overrides: dict[str, str] = field(default_factory=lambda: {"prefix": "paimon"})
    page: int = 2
    databases: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    latest: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    token_life_ms: int = 7_200_000
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str, after: bool) -> Fault | None:
        for fault in self.faults:
            if fault.later and not self.bodies:
                continue
            if (fault.method, fault.after) == (method, after) and path.endswith(fault.ending) and fault.times:
                fault.times -= 1
                return fault
        return None

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        parts = [unquote_plus(part) for part in path.strip("/").split("/")]
        if parts == ["v1", "config"]:
            return {"defaults": {}, "overrides": self.overrides}
        assert parts[:2] == ["v1", self.overrides["prefix"]], path
        match (method, *parts[2:]):
            case ("GET", "databases"):
                return self.paged("databases", sorted(self.databases), query)
            case ("POST", "databases"):
                if body["name"] in self.databases:
                    raise Refusal(409, "DATABASE")
                self.databases[body["name"]] = {}
            case ("POST", "tables", "rename"):
                self.rename(body["source"], body["destination"])
            case (_, "databases", database, *more):
                if database not in self.databases:
                    raise Refusal(404, "DATABASE")
                return self.in_database(method, database, more, query, body)
            case _:
                raise Refusal(404)
        return {}

    def in_database(
        self, method: str, database: str, more: list[str], query: dict[str, str], body: dict[str, Any]
    ) -> dict[str, Any]:
        tables = self.databases[database]
        match (method, *more):
            case ("GET",):
                return {"name": database, "options": {}}
            case ("DELETE",):
                del self.databases[database]
            case ("GET", "tables"):
                return self.paged("tables", sorted(tables), query)
            case ("POST", "tables"):
                self.create(database, body["identifier"]["object"], body["schema"])
            case (_, "tables", name, *rest):
                if name not in tables:
                    raise Refusal(404, "TABLE", f"there is no {name}")
                return self.of_table(method, tables[name], rest, body)
            case _:
                raise Refusal(404)
        return {}

    def of_table(self, method: str, table: dict[str, Any], rest: list[str], body: dict[str, Any]) -> dict[str, Any]:
        match (method, *rest):
            case ("GET",):
                return table
            case ("DELETE",):
                del self.databases[table["database"]][table["name"]]
            case ("GET", "token"):
                expires = int(time.time() * 1000) + self.token_life_ms
                return {"token": {"fs.s3.secret-key": f"canary-{uuid.uuid4()}"}, "expiresAtMillis": expires}
            case ("GET", "snapshot"):
                if table["id"] not in self.latest:
                    raise Refusal(404, "SNAPSHOT")
                return {"snapshot": {"snapshot": self.latest[table["id"]], "recordCount": 0}}
            case ("POST", "commit"):
                return {"success": self.commit(table, body)}
            case _:
                raise Refusal(404)
        return {}

    def create(self, database: str, name: str, schema: dict[str, Any]) -> None:
        if name in self.databases[database]:
            raise Refusal(409, "TABLE")
        path = self.root / f"{database}.db" / f"{name}-{uuid.uuid4()}"
        (path / "schema").mkdir(parents=True)
        whole = {"version": 3, "id": 0, **schema, "timeMillis": int(time.time() * 1000)}
        whole["highestFieldId"] = max(f["id"] for f in schema["fields"])
        (path / "schema" / "schema-0").write_text(json.dumps({k: v for k, v in whole.items() if v is not None}))
        described = {"id": str(uuid.uuid4()), "database": database, "name": name, "path": f"file:{path}"}
        described |= {"isExternal": False, "schemaId": 0, "schema": schema}
        self.databases[database][name] = described

    def rename(self, source: dict[str, str], target: dict[str, str]) -> None:
        if source["object"] not in self.databases.get(source["database"], {}):
            raise Refusal(404, "TABLE")
        if target["object"] in self.databases[target["database"]]:
            raise Refusal(409, "TABLE")
        table = self.databases[source["database"]].pop(source["object"])
        self.databases[target["database"]][target["object"]] = {
            **table,
            "database": target["database"],
            "name": target["object"],
        }

    def commit(self, table: dict[str, Any], body: dict[str, Any]) -> bool:
        self.bodies.append(body)
        if body["tableId"] != table["id"]:
            raise Refusal(404, "TABLE")
        current, snapshot = self.latest.get(table["id"]), body["snapshot"]
        if body.get("baseSnapshotUuid") != (current and current.get("uuid")):
            return False
        assert snapshot["id"] == (current["id"] if current else 0) + 1
        directory = Path(table["path"].removeprefix("file:")) / "snapshot"
        directory.mkdir(exist_ok=True)
        with open(directory / f"snapshot-{snapshot['id']}", "x") as file:
            json.dump(snapshot, file)
        self.latest[table["id"]] = snapshot
        return True

    def paged(self, member: str, names: list[str], query: dict[str, str]) -> dict[str, Any]:
        start = int(query.get("pageToken", "0"))
        more = {"nextPageToken": str(start + self.page)} if start + self.page < len(names) else {}
        return {member: names[start : start + self.page], **more}


def _handler(catalog: RestCatalogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def handle_one(self) -> None:
            address = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(address.query).items()}
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            catalog.log.append((self.command, address.path))
            if catalog.authorization is not None and self.headers.get("Authorization") != catalog.authorization:
                return self.reply(401, {"code": 401, "message": f"bad token {self.headers.get('Authorization')}"})
            with catalog.lock:
                fault = catalog.fault(self.command, address.path, False)
                try:
                    status, answer = (
                        200,
                        {} if fault else catalog.answer(self.command, address.path, query, json.loads(data or b"{}")),
                    )
                except Refusal as refusal:
                    status = refusal.status
                    answer = {"code": status, "resourceType": refusal.resource, "message": refusal.message}
                fault = fault or catalog.fault(self.command, address.path, True)
            if fault is None:
                return self.reply(status, answer)
            if fault.status == 200:
                return self.reply(200, fault.answer)
            if fault.status:
                return self.reply(fault.status, {"code": fault.status, "message": fault.message})
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(2)
            return None

        do_GET = do_POST = do_DELETE = handle_one

        def reply(self, status: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status in (301, 302, 307):
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def rest_catalog(root: str | os.PathLike[str]) -> Iterator[RestCatalogServer]:
    """A running server that keeps its tables in a directory."""
    catalog = RestCatalogServer(Path(root))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(catalog))
    server.daemon_threads = True
    catalog.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield catalog
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
