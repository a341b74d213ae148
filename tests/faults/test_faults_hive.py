"""A catalog in a Hive metastore or in AWS Glue at whose requests and I/O calls something fails, or whose process dies:
the table is as before or as after, what is listed can be read, and what failed can be done again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.catalog.hive import backend, glue
from paimon_pyds.catalog.hive.client import MetastoreClient
from paimon_pyds.catalog.hive.glue import GlueClient
from paimon_pyds.catalog.hive.metastore import UnansweredRequestError, structs
from paimon_pyds.errors import AlreadyExistsError, CommitOutcomeUnknownError, PaimonError, TableNotFoundError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
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


_new_client, _clients_of_glue = glue._new_client, dict[str, Any]()


def client_of_glue(options: Mapping[str, str], timeout: float) -> Any:
    """As the catalog makes it, which takes half a second; here processes share one."""
    address = options["aws.glue.endpoint"]
    if address not in _clients_of_glue:
        _clients_of_glue[address] = _new_client(options, timeout)
    return _clients_of_glue[address]


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
    monkeypatch.setattr(glue, "_new_client", client_of_glue)
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


@pytest.mark.parametrize("mode", sampled([BEFORE, HALF, AFTER, DOWN], 2))
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


class Beside(World):
    """A process in the middle of whose work something else happens, once: before its request of that number.
    ``again`` makes it the world of the processes to be opened, and of those that are."""

    def __init__(self, at: int, happens: Callable[[], object], again: Callable[[World], object]) -> None:
        super().__init__()
        self._wanted, self._happens, self._again, self._count = at, happens, again, 0

    def _do(self, name: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        at, self._count = self._count, self._count + 1
        if at == self._wanted:
            self._happens()
            self._again(self)
        return super()._do(name, act, half)


def repair(catalog: pp.Catalog) -> None:
    catalog.repair_table("shop.t")


def make(catalog: pp.Catalog) -> None:
    catalog.create_table("shop.t", "id INT, p STRING", partition_by="p", options=OPTIONS)


def append_to_it(catalog: pp.Catalog) -> None:
    catalog.table("shop.t").append(rows(1))


MISSING, THERE, NONE = "files that have no name", "a table with a name", "no table"
AT_ONCE = {
    "repair a new name, repair": (MISSING, repair, repair),
    "repair, append": (THERE, repair, OPERATIONS["append"]),
    "repair, drop a partition": (THERE, repair, OPERATIONS["drop partition"]),
    "repair, alter": (THERE, repair, OPERATIONS["alter"]),
    "repair, drop": (THERE, repair, OPERATIONS["drop"]),
    "alter, repair": (THERE, OPERATIONS["alter"], repair),
    "alter, drop a partition": (THERE, OPERATIONS["alter"], OPERATIONS["drop partition"]),
    "append, repair": (THERE, OPERATIONS["append"], repair),
    "drop a partition, repair": (THERE, OPERATIONS["drop partition"], repair),
    "drop a partition, append to it": (THERE, OPERATIONS["drop partition"], append_to_it),
    "create, repair": (NONE, make, repair),
}


def named(catalog: pp.Catalog) -> tuple[list[str], list[str]]:
    """The columns and partitions of the table, as the metastore has them."""
    client = catalog._backend._client  # type: ignore[attr-defined]
    columns = [column.name for column in client.table("shop", "t").sd.cols]
    if isinstance(client, GlueClient):
        found = client._send("get_partitions", {"DatabaseName": "shop", "TableName": "t"})["Partitions"]
        return columns, sorted("/".join(one["Values"]) for one in found)
    return columns, sorted("/".join(one.values) for one in client.call("get_partitions", "shop", "t", -1))


@pytest.mark.parametrize("what", sampled(AT_ONCE, 6))
def test_another_does_something_at_the_same_time(what: str, open_in: Any, metastore: dict[str, str]) -> None:
    """Without locks: in the end the metastore has the columns and partitions that the files have."""
    start, operation, other = AT_ONCE[what]
    metastore.pop("lock.enabled", None)

    def prepared(warehouse: str) -> pp.Catalog:
        catalog: pp.Catalog = open_in(World(), warehouse)
        prepare(catalog)
        if start == NONE:
            catalog.drop_table("shop.t")
        elif start == MISSING:
            catalog._backend._client.drop_table("shop", "t", deletes=False)  # type: ignore[attr-defined]
        return catalog

    prepared("whole")
    operation(open_in(counting := World(), "whole"))
    for at in sampled(range(len(counting.done)), 1, what):
        prepared(f"wh{at}")
        where, failed = f"{what}: before {counting.done[at]} ({at})", list[PaimonError]()
        beside = Beside(at, lambda at=at, failed=failed: attempt(other, open_in(World(), f"wh{at}"), failed), open_in)
        attempt(operation, open_in(beside, f"wh{at}"), failed)
        catalog = open_in(World(), f"wh{at}")
        if what == "repair, drop":
            assert state(catalog) == {}, where
            assert all(isinstance(error, TableNotFoundError) for error in failed), f"{where}: {failed}"
            continue
        assert len(failed) <= (start == NONE), f"{where}: {failed}"  # who is too early, or too late, to make it
        table = catalog.table("shop.t")
        partitions = sorted(set(table.scan().to_arrow()["p"].to_pylist()))
        assert named(catalog) == ([n for n in table.arrow_schema.names if n != "p"], partitions), where


def attempt(operation: Callable[[pp.Catalog], object], catalog: pp.Catalog, failed: list[PaimonError]) -> None:
    try:
        operation(catalog)
    except PaimonError as error:
        failed.append(error)
