"""A REST catalog for tests, on this machine, by Paimon's OpenAPI description: databases, tables, pages and commits.

It writes schemas and snapshots as files, and can fail any request before or after its effect.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

from paimon_pyds.storage import open_file_io
from paimon_pyds.table import Table

TOKEN = "canary-bearer-token"


class Refusal(Exception):
    def __init__(self, status: int, resource: str | None = None, message: str = "") -> None:
        self.status, self.resource, self.message = status, resource, message


@dataclass
class Fault:
    """One request that fails. ``status`` 0 cuts the connection, 200 sends ``answer``; ``later`` waits for the first
    commit, and ``commits`` for more of them; ``body`` is sent as it is; ``retry_after`` is
    a header."""

    method: str
    ending: str
    status: int
    after: bool = False
    times: int = 1
    message: str = ""
    later: bool = False
    answer: Any = None
    resource: str | None = None
    body: str | None = None
    commits: int = 0
    retry_after: str = ""


@dataclass
class RestCatalogServer:
    root: str | os.PathLike[str]
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
    tags: str | None = "files"
    writes_schemas: bool = True
    changes: list[dict[str, Any]] = field(default_factory=list)
    vend: Callable[[], dict[str, str]] = lambda: {"fs.s3.secret-key": f"canary-{uuid.uuid4()}"}
    storage: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, method: str, path: str, after: bool) -> Fault | None:
        for fault in self.faults:
            if (fault.later and not self.bodies) or len(self.bodies) < fault.commits:
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
                name, _, branch = name.partition("$branch_")
                if name not in tables:
                    raise Refusal(404, "TABLE", f"there is no {name}")
                return self.of_table(method, tables[name], rest, body, branch)
            case _:
                raise Refusal(404)
        return {}

    def of_table(
        self, method: str, table: dict[str, Any], rest: list[str], body: dict[str, Any], branch: str
    ) -> dict[str, Any]:
        latest = f"{table['id']}/{branch}"
        match (method, *rest):
            case ("GET",):
                return table
            case ("DELETE",):
                del self.databases[table["database"]][table["name"]]
            case ("GET", "token"):
                return {"token": self.vend(), "expiresAtMillis": int(time.time() * 1000) + self.token_life_ms}
            case ("GET", "snapshot"):
                if latest not in self.latest:
                    raise Refusal(404, "SNAPSHOT")
                return {"snapshot": {"snapshot": self.latest[latest], "recordCount": 0}}
            case ("POST", "commit"):
                return {"success": self.commit(table, body, latest)}
            case (_, "tags", *_) if self.tags is None:
                raise Refusal(404)
            case ("POST", "tags") if self.tags == "elsewhere":
                table.setdefault("tags", []).append(body["tagName"])
            case ("DELETE", "tags", name) if self.tags == "elsewhere":
                if name not in table["tags"]:
                    raise Refusal(404, "TAG")
                table["tags"].remove(name)
            case ("POST", "rollback" | "branches" | "tags", *_) | ("DELETE", "branches" | "tags", _) | ("POST",):
                self.change(table, method, rest, body)
            case _:
                raise Refusal(404)
        return {}

    def change(self, table: dict[str, Any], method: str, rest: list[str], body: dict[str, Any]) -> None:
        """What a server does to the files of a table itself."""
        files = Table.open(table["path"], storage_options=self.storage)
        match (method, *rest):
            case ("POST",):
                changes = body["changes"]
                self.changes += changes
                if not self.writes_schemas:
                    return
                files.alter(
                    {c["key"]: c["value"] for c in changes if c["action"] == "setOption"},
                    add_columns={c["fieldNames"][0]: c["dataType"] for c in changes if c["action"] == "addColumn"},
                )
            case ("POST", "tags"):
                files.tags.create(body["tagName"], body["snapshotId"], retain=body["timeRetained"])
            case ("DELETE", "tags", tag):
                files.tags.delete(tag)
            case ("POST", "branches"):
                files.branches.create(body["branch"], body["fromTag"])
            case ("DELETE", "branches", branch):
                files.branches.delete(branch)
            case ("POST", "branches", branch, "rename"):
                files.branches.rename(branch, body["toBranch"])
            case ("POST", "branches", branch, "forward"):
                files.snapshots.rollback(
                    files._store.for_branch(branch).snapshot_ids()[0]
                )  # as Java, whose numbers are the branch's
                files.branches.fast_forward(branch)
            case ("POST", "rollback"):
                files.snapshots.rollback(body["instant"].get("snapshotId"), body["instant"].get("tagName"))
        for branch in ("", *files.branches.list()):
            store = files._store.for_branch(branch or "main")
            latest = store.latest_snapshot()
            if latest is not None:
                text = store.io.read_bytes(store.paths.snapshot(latest.id))
                self.latest[f"{table['id']}/{branch}"] = json.loads(text)

    def create(self, database: str, name: str, schema: dict[str, Any]) -> None:
        if name in self.databases[database]:
            raise Refusal(409, "TABLE")
        path = f"{self.root}/{database}.db/{name}-{uuid.uuid4()}"
        whole = {"version": 3, "id": 0, **schema, "timeMillis": int(time.time() * 1000)}
        whole["highestFieldId"] = max(f["id"] for f in schema["fields"])
        whole = {k: v for k, v in whole.items() if v is not None}
        open_file_io(path, self.storage)[0].write_bytes(f"{path}/schema/schema-0", json.dumps(whole).encode())
        path = path if "://" in path else f"file:{path}"
        described = {"id": str(uuid.uuid4()), "database": database, "name": name, "path": path}
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

    def commit(self, table: dict[str, Any], body: dict[str, Any], latest: str) -> bool:
        self.bodies.append(body)
        if body["tableId"] != table["id"]:
            raise Refusal(404, "TABLE")
        current, snapshot = self.latest.get(latest), body["snapshot"]
        if body.get("baseSnapshotUuid") != (current and current.get("uuid")):
            return False
        assert snapshot["id"] == (current["id"] if current else 0) + 1
        io, root = open_file_io(table["path"], self.storage)
        branch = latest.partition("/")[2]
        directory = f"{root}/branch/branch-{branch}" if branch else root
        assert io.create_if_absent(f"{directory}/snapshot/snapshot-{snapshot['id']}", json.dumps(snapshot).encode())
        self.latest[latest] = snapshot
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
            if fault.body is not None:
                return self.send(fault.status, fault.body.encode())
            if fault.status == 200:
                return self.reply(200, fault.answer)
            if fault.status:
                body = {"code": fault.status, "message": fault.message, "resourceType": fault.resource}
                return self.reply(fault.status, body, fault.retry_after)
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(2)
            return None

        do_GET = do_POST = do_DELETE = handle_one

        def reply(self, status: int, answer: Any, retry_after: str = "") -> None:
            self.send(status, json.dumps(answer).encode(), retry_after)

        def send(self, status: int, data: bytes, retry_after: str = "") -> None:
            self.send_response(status)
            if retry_after:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", str(len(data)))
            if status in (301, 302, 307):
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def rest_catalog(
    root: str | os.PathLike[str], kind: type[RestCatalogServer] = RestCatalogServer
) -> Iterator[RestCatalogServer]:
    """A running server that keeps its tables in a directory."""
    catalog = kind(root)
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
