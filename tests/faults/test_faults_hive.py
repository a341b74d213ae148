"""A catalog in a Hive metastore or in AWS Glue at whose requests and I/O calls something fails, or whose process dies:
the table is as before or as after, what is listed can be read, and what failed can be done again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.catalog.hive import backend
from paimon_pyds.catalog.hive.client import MetastoreClient
from paimon_pyds.catalog.hive.glue import GlueClient
from paimon_pyds.catalog.hive.metastore import UnansweredRequestError, structs
from paimon_pyds.errors import AlreadyExistsError, CommitOutcomeUnknownError, PaimonError
from paimon_pyds.metadata.store import METADATA_CACHE
from support.effort import sampled
from support.faults_io import AFTER, BEFORE, DOWN, HALF, HARMLESS, FaultyIO, full_disk
from support.s3_server import Server, serving

pytest.importorskip("pymetastore")
OPTIONS = {"metastore.partitioned-table": "true", "file-operation.thread-num": "1"}
LOOKS = HARMLESS | {"get_table_req", "get_database", "get_all_tables", "heartbeat", "check_lock", "show_locks"}
LOOKS |= {"get_table", "get_tables", "get_databases", "get_partitions"}
HALVES = {"write", "sink", "delete", "delete_tree"}
GLUE = "com.amazonaws.glue.catalog.metastore.AWSCatalogMetastoreClient"
OPERATIONS: dict[str, Callable[[pp.Catalog], object]] = {
    "create": lambda c: c.create_table("shop.n", "id INT, p STRING", partition_by="p", options=OPTIONS),
    "create with rows": lambda c: c.create_table("shop.n", rows(1), partition_by="p", options=OPTIONS),
    "append": lambda c: c.table("shop.t").append(rows(9)),
    "drop partition": lambda c: c.table("shop.t").maintenance.drop_partitions("p = 'p1'"),
    "alter": lambda c: c.table("shop.t").alter(add_columns={"x": "INT"}),
    "rename": lambda c: c.rename_table("shop.t", "n"),
    "drop": lambda c: c.drop_table("shop.t"),
}
State = dict[str, list[str]]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "p": [f"p{i}" for i in ids]})


class World(FaultyIO):
    """The storage, and requests to the metastore, of one process."""

    def __init__(self, at: int | None = None, mode: str = BEFORE) -> None:
        super().__init__(at, mode, lambda name: UnansweredRequestError("lost") if "_" in name else full_disk())

    def request(self, send: Callable[[], Any], name: str) -> Any:
        return self._do(name if "_" in name else f"{name}_", send)


@pytest.fixture(scope="module")
def moto() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture(params=["hive", "glue"])
def metastore(request: pytest.FixtureRequest) -> dict[str, str]:
    """The options that name one."""
    if request.param == "hive":
        locks = {"lock.enabled": "true", "lock-acquire-timeout": "1 s"}
        return {"metastore": "hive", "uri": request.getfixturevalue("hive_metastore"), **locks}
    server = request.getfixturevalue("moto")
    return {
        "metastore": "hive",
        "metastore.client.class": GLUE,
        "aws.glue.endpoint": server.address,
        **server.options(),
    }


@pytest.fixture
def open_in(metastore: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens the catalog as another process would, of which a world is all that it sees."""
    world, call, send, open_file_io = [World()], MetastoreClient.call, GlueClient._send, backend.open_file_io

    def called(self: Any, request: str, *arguments: Any, **more: Any) -> Any:
        return world[0].request(lambda: call(self, request, *arguments, **more), request)

    def sent(self: Any, request: str, *arguments: Any, **more: Any) -> Any:
        return world[0].request(lambda: send(self, request, *arguments, **more), request)

    def opened(found: World, warehouse: str = "wh") -> pp.Catalog:
        METADATA_CACHE.clear()
        world[0] = found
        return pp.Catalog.open({**metastore, "warehouse": f"{tmp_path}/{warehouse}"})

    monkeypatch.setattr(MetastoreClient, "call", called)
    monkeypatch.setattr(GlueClient, "_send", sent)
    monkeypatch.setattr(backend, "open_file_io", lambda *given: (world[0], open_file_io(*given)[1]))
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.01)
    yield opened
    clear(opened(World()))


def clear(catalog: pp.Catalog) -> None:
    """Everything in the metastore; what a killed process left in the directory, too."""
    expire_locks(catalog)
    if "shop" in catalog.databases():
        catalog.drop_database("shop", cascade=True)


def prepare(catalog: pp.Catalog) -> None:
    clear(catalog)
    catalog.create_database("shop")
    catalog.create_table("shop.t", rows(1, 2), partition_by=["p"], options=OPTIONS)


def state(catalog: pp.Catalog) -> State:
    """Columns and rows of all tables that are listed."""
    METADATA_CACHE.clear()
    found = {name: catalog.table(f"shop.{name}") for name in catalog.tables("shop")}
    return {
        name: [*table.arrow_schema.names, *sorted(map(str, table.scan().to_arrow().to_pylist()))]
        for name, table in found.items()
    }


def expire_locks(catalog: pp.Catalog) -> int:
    """As the metastore does it with those of dead processes; gives their number."""
    client = catalog._backend._client  # type: ignore[attr-defined]
    if isinstance(client, GlueClient):
        return 0
    found = client.call("show_locks", structs().ShowLocksRequest(dbname="shop")).locks
    for one in found:
        client.call("unlock", structs().UnlockRequest(lockid=one.lockid))
    return len(found)


@pytest.mark.parametrize("mode", [BEFORE, HALF, AFTER, DOWN])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "rename"])
def test_a_fault_anywhere(name: str, mode: str, open_in: Any) -> None:
    check_faults(name, mode, open_in)


@pytest.mark.parametrize("mode", [BEFORE, HALF, AFTER, DOWN])
@pytest.mark.parametrize("metastore", ["hive"], indirect=True)  # Glue gives no table another name
def test_a_fault_while_a_table_is_renamed(mode: str, open_in: Any) -> None:
    check_faults("rename", mode, open_in)


def check_faults(name: str, mode: str, open_in: Any) -> None:
    """Faults at some requests of an operation leave what was there before, or after it."""
    operation = OPERATIONS[name]
    prepare(open_in(World(), "whole"))
    old = state(open_in(World(), "whole"))
    operation(open_in(counting := World(), "whole"))
    new = state(open_in(World(), "whole"))
    assert old != new
    points = [
        at
        for at, done in enumerate(counting.done)
        if (done in HALVES if mode == HALF else mode == BEFORE or done not in LOOKS)
    ]
    for at in sampled(points, 2):
        prepare(open_in(World(), f"wh{at}"))
        failed: PaimonError | None = None
        try:
            operation(open_in(world := World(at, mode), f"wh{at}"))
        except PaimonError as error:
            failed = error
        what = f"{world.failed} ({at}) {failed!r}"
        catalog = open_in(World(), f"wh{at}")
        left = expire_locks(catalog)
        excused = mode == DOWN or world.failed == "unlock_" or isinstance(failed, CommitOutcomeUnknownError)
        assert excused or not left, what
        found = state(catalog)
        if failed and name == "create with rows" and found == {**old, "n": ["id", "p"]}:
            catalog.drop_table("shop.n")
            found = state(catalog)
        assert found in ((old, new) if failed else (new,)), what
        if found == old:
            do_again(name, operation, catalog)
        assert state(catalog) == new, what
        if name == "drop":
            do_again("create", lambda c: c.create_table("shop.t", rows(1), partition_by="p"), catalog)


def do_again(name: str, operation: Callable[[pp.Catalog], object], catalog: pp.Catalog) -> None:
    """The operation; where a process died between a table's files and its entry, one of the ways out that the error
    names."""
    try:
        operation(catalog)
    except AlreadyExistsError as error:
        assert name.startswith("create") and "else repair_table names it there, or remove them" in str(error)
        assert error.path is not None and error.path.rpartition("/")[0].endswith("/shop.db")
        shutil.rmtree(error.path)
        operation(catalog)
