"""A REST catalog that answers one of a call's requests by something else, and an SQLite catalog with values of other
types: every call ends in rows, or in a `PaimonError`."""

from __future__ import annotations

import copy
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.catalog.database import Database
from paimon_pyds.errors import PaimonError
from support.effort import LONG, SEED, sampled
from support.rest_catalog import TOKEN, Refusal, RestCatalogServer, rest_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])
CALLS: dict[str, Callable[[pp.Catalog], Any]] = {
    "databases": lambda c: c.databases(),
    "tables": lambda c: c.tables("shop"),
    "exists": lambda c: (c.exists("shop.t"), c.exists("shop.none")),
    "read": lambda c: c.table("shop.t").scan().to_arrow().num_rows,
    "describe": lambda c: (c.table("shop.t").system.describe_options(), repr(c.table("shop.t"))),
    "system": lambda c: (c.system.read("tables"), c.system.read("all_table_options")),
    "append": lambda c: c.table("shop.t").append(pa.table({"id": [9], "s": ["x"]}, SCHEMA)),
    "delete": lambda c: c.table("shop.t").delete("id = 1"),
    "compact": lambda c: c.table("shop.t").compact(full=True),
    "create and drop database": lambda c: (c.create_database("n"), c.drop_database("n")),
    "create table": lambda c: c.create_table("shop.n", SCHEMA),
    "create with rows": lambda c: c.create_table("shop.n", pa.table({"id": [1], "s": ["x"]}, SCHEMA)),
    "drop table": lambda c: c.drop_table("shop.t"),
    "rename table": lambda c: c.rename_table("shop.t", "n"),
    "alter table": lambda c: c.alter_table("shop.t", add_columns={"n": "INT"}),
    "tags": lambda c: (c.table("shop.t").tags.create("x"), c.table("shop.t").tags.delete("x")),
    "branches": lambda c: (c.table("shop.t").branches.create("b"), c.table("shop.t").branches.delete("b")),
    "rollback": lambda c: c.table("shop.t").snapshots.rollback(1),
    "expire": lambda c: c.table("shop.t").snapshots.expire(retain_max=1),
    "drop database": lambda c: c.drop_database("shop", cascade=True),
}
_VALUES: tuple[Any, ...] = (
    None, 0, -1, 2**70, 1.5, True, "", "x", "../x", "0", [], ["x"], [None], {}, {"x": 1}, [[[]]], "\ud800",
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


def _changed(answer: Any, chance: random.Random) -> Any:
    """An answer with one of its values replaced, or without one of its members."""
    holder = {"": copy.deepcopy(answer)}
    *way, last = ("", *chance.choice(list(_places(answer))))
    inner: Any = holder
    for key in way:
        inner = inner[key]
    if way and isinstance(inner, dict) and chance.random() < 0.3:
        del inner[last]
    else:
        inner[last] = chance.choice(_VALUES)
    return holder[""]


class _Lying(RestCatalogServer):
    """Answers its request number ``at`` by something else."""

    at: int | None = None
    count = 0
    status = 0
    chance = random.Random(0)

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        if self.count - 1 != self.at:
            return super().answer(method, path, query, body)
        if self.status:
            raise Refusal(self.status, self.chance.choice([None, "TABLE", "DATABASE", "SNAPSHOT", "x"]), "of no kind")
        found: dict[str, Any] = _changed(super().answer(method, path, query, body), self.chance)
        return found


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)


def _ends_well(call: str, catalog: Callable[[], pp.Catalog]) -> None:
    """Run a call. Raises what is no PaimonError."""
    with suppress(PaimonError):
        CALLS[call](catalog())


def _prepare(catalog: pp.Catalog) -> None:
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", SCHEMA, options={"commit.max-retries": "2"})
    for id_ in range(2):
        table.append(pa.table({"id": [id_], "s": ["a"]}, SCHEMA))


@pytest.mark.parametrize("call", sampled(CALLS, 10, "of a server"))
def test_a_rest_catalog_with_a_wrong_answer(call: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {call}")
    asked, runs = 1, 0
    while runs < (40 if LONG else 2):
        with rest_catalog(tmp_path / f"wh{runs}", _Lying) as server:
            assert isinstance(server, _Lying)
            options = {"metastore": "rest", "uri": server.address, "token": TOKEN, "warehouse": "wh"}
            _prepare(pp.Catalog.open(options))
            server.count, server.chance = 0, random.Random(chance.random())
            if runs:
                server.at = chance.randrange(asked)
                server.status = chance.choice([0, 0, 404, 500, 403, 409, 200])
            try:
                _ends_well(call, lambda options=options: pp.Catalog.open(options))
            except BaseException as error:
                error.add_note(f"{call}: request {server.at}, status {server.status}: {server.log[-3:]}")
                raise
            asked = server.count if not runs else asked
            runs += 1


_TABLES = ("paimon_tables", "paimon_database_properties")


def _harm(database: Path, chance: random.Random) -> None:
    """Change the rows of a catalog behind its back."""
    connection = sqlite3.connect(database)
    with connection, suppress(sqlite3.OperationalError):  # the table is gone already
        table = chance.choice(_TABLES)
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        harm = chance.choice(["value", "value", "row", "table", "columns"])
        if harm == "value":
            value = chance.choice([b"\xff\xfe", 5, 2.5, "", "../x", "x" * 300])
            with suppress(sqlite3.IntegrityError):
                connection.execute(f"UPDATE {table} SET {chance.choice(columns)} = ?", (value,))
        elif harm == "row":
            connection.execute(f"DELETE FROM {table}")
        elif harm == "table":
            connection.execute(f"DROP TABLE {table}")
        else:
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {chance.choice(columns)} TO other")
    connection.close()


@pytest.mark.parametrize("call", sampled(CALLS, 10, "of a database"))
def test_a_database_whose_rows_change_between_two_statements(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{SEED} {call}")
    state: dict[str, Any] = {"count": 0, "at": None}
    run = Database.run

    def between(self: Database, *args: Any) -> Any:
        state["count"] += 1
        if state["count"] - 1 == state["at"]:
            _harm(state["file"], chance)
        return run(self, *args)

    monkeypatch.setattr(Database, "run", between)
    asked = 1
    for number in range(30 if LONG else 4):
        root = tmp_path / str(number)
        root.mkdir()
        options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{root}/catalog.db", "warehouse": f"{root}/wh"}
        options |= {"lock.enabled": "true"} if number % 2 else {}
        state |= {"at": None, "file": root / "catalog.db"}
        _prepare(pp.Catalog.open(options))
        state |= {"count": 0, "at": chance.randrange(asked) if number > 1 else None}
        try:
            _ends_well(call, lambda options=options: pp.Catalog.open(options))
        except BaseException as error:
            error.add_note(f"{call}: statement {state['at']}, {options}")
            raise
        asked = max(asked, state["count"]) if number < 2 else asked
