"""Other writers of Paimon tables: pypaimon-rust in this process, pypaimon in a process of its own environment.

Tests that need one are skipped where it is missing; REQUIRE_PEERS=1 makes them fail instead.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from support.fixtures import ROOT

PYTHON = ROOT / ".venvs" / "pypaimon" / "bin" / "python"
RUST = "0.4.0"
PYPAIMON = "2.1.0"
_WORKER = ROOT / "tests" / "support" / "workers" / "pypaimon_worker.py"
SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int32()), ("v", pa.string())])
"""The columns of tables that they make in tests."""
_SQL = {pa.int32(): "INT", pa.int64(): "BIGINT", pa.string(): "STRING"}


class Peer(Protocol):
    """One of them, with a warehouse of its own; its tables lie in the database ``db``."""

    def create(
        self, name: str, schema: pa.Schema, keys: Sequence[str], partitions: Sequence[str], options: Mapping[str, str]
    ) -> Path:
        """Make a table; where it is."""

    def append(self, name: str, rows: pa.Table) -> None:
        """Write rows."""

    def read(self, name: str) -> pa.Table:
        """All rows."""


def _missing(reason: str) -> None:
    if os.environ.get("REQUIRE_PEERS"):
        pytest.fail(f"REQUIRE_PEERS is set: {reason}")
    pytest.skip(reason)


class Rust:
    """pypaimon-rust."""

    def __init__(self, warehouse: Path) -> None:
        try:
            found = version("pypaimon-rust")
        except PackageNotFoundError:
            found = "missing"
        if found != RUST:
            _missing(f"needs pypaimon-rust {RUST}, which is {found}")
        from pypaimon_rust import datafusion

        self._warehouse = warehouse
        self._context = datafusion.SQLContext()
        self._context.register_catalog("p", {"warehouse": str(warehouse)})
        self._catalog = datafusion.PaimonCatalog({"warehouse": str(warehouse)})

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Run a statement; its rows."""
        return [row for batch in self._context.sql(text) for row in batch.to_pylist()]

    def create(
        self, name: str, schema: pa.Schema, keys: Sequence[str], partitions: Sequence[str], options: Mapping[str, str]
    ) -> Path:
        if not (self._warehouse / "db.db").exists():
            self.sql("CREATE SCHEMA p.db")
        columns = [f"{field.name} {_SQL[field.type]}" for field in schema]
        columns += [f"PRIMARY KEY ({', '.join(keys)})"] if keys else []
        by = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        self.sql(f"CREATE TABLE p.db.{name} ({', '.join(columns)}){by}" + (f" WITH ({given})" if given else ""))
        return self._warehouse / "db.db" / name

    def append(self, name: str, rows: pa.Table) -> None:
        builder = self._catalog.get_table(f"db.{name}").new_batch_write_builder()
        writer = builder.new_write()
        for batch in rows.to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())

    def read(self, name: str) -> pa.Table:
        table = self._catalog.get_table(f"db.{name}")
        builder = table.new_read_builder()
        batches = builder.new_read().read(builder.new_scan().plan().splits())
        return pa.Table.from_batches(batches)


@cache
def _pypaimon() -> tuple[subprocess.Popen[str], str]:
    """Its process, and its version. All tests of a run share the process, whose imports take seconds."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.Popen(
        [PYTHON, _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    atexit.register(process.communicate)  # the end of its input ends it
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["version"]


class Pypaimon:
    """pypaimon."""

    def __init__(self, warehouse: Path) -> None:
        if not PYTHON.exists():
            _missing("needs .venvs/pypaimon: make pypaimon")
        self._warehouse = warehouse
        self._rows = warehouse / "rows.arrow"
        warehouse.mkdir(parents=True, exist_ok=True)
        found = _pypaimon()[1]
        if found != PYPAIMON:
            _missing(f"needs pypaimon {PYPAIMON}, which is {found}")

    def _ask(self, **call: Any) -> dict[str, Any]:
        process, _ = _pypaimon()
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"warehouse": str(self._warehouse), "file": str(self._rows), **call}
        print(json.dumps(request), file=process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def create(
        self, name: str, schema: pa.Schema, keys: Sequence[str], partitions: Sequence[str], options: Mapping[str, str]
    ) -> Path:
        self._write(schema.empty_table())
        self._ask(call="create", name=name, keys=list(keys), partitions=list(partitions), options=dict(options))
        return self._warehouse / "db.db" / name

    def append(self, name: str, rows: pa.Table) -> None:
        self._write(rows)
        self._ask(call="append", name=name)

    def update(self, name: str, column: str, value: Any, values: Mapping[str, Any]) -> None:
        """Set columns of the rows where a column has a value, in a table of data evolution; none: delete them."""
        self._ask(call="update", name=name, column=column, value=value, values=dict(values))

    def read(self, name: str, equal: Mapping[str, Any] | None = None) -> pa.Table:
        """All rows, or those with these values."""
        self._ask(call="read", name=name, equal=dict(equal or {}))
        with pa.OSFile(str(self._rows)) as file:
            return pa.ipc.open_file(file).read_all()

    def search(self, name: str, column: str, wanted: str | list[float], k: int) -> dict[int, float]:
        """The rows that it finds by an index for a vector or a query, by their ids, with their scores."""
        return dict(self._ask(call="search", name=name, column=column, wanted=wanted, k=k)["hits"])

    def index(self, name: str, column: str, index_type: str) -> None:
        """Build a global index of a column over all rows that have none yet."""
        self._ask(call="index", name=name, column=column, index_type=index_type)

    def _write(self, rows: pa.Table) -> None:
        with pa.OSFile(str(self._rows), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)


def rows_with(*ids: int) -> pa.Table:
    """Rows of `SCHEMA` with these ids."""
    return pa.table({"p": [i % 2 for i in ids], "id": list(ids), "v": [f"v{i}" for i in ids]}, SCHEMA)
