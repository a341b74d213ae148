"""The Hive catalog on a real metastore: names, schemas, partitions, the lock, and what is refused."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.catalog import Catalog
from paimon_pyds.catalog.hive import client as module
from paimon_pyds.catalog.hive import lock as lock_module
from paimon_pyds.catalog.hive.lock import MetastoreLock
from paimon_pyds.catalog.hive.metastore import structs
from paimon_pyds.catalog.hive.types import hive_type, paimon_type
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    DatabaseNotFoundError,
    OptionError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.table import Table
from support import servers
from support.catalogs import PARTS, SCHEMA, rows
from support.side_by_side import PATIENT, append_side_by_side

pytest.importorskip("pymetastore")


@pytest.fixture
def options(hive_metastore: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    found = {"metastore": "hive", "uri": hive_metastore, "warehouse": str(tmp_path / "wh")}
    yield found
    catalog = Catalog.open(found)
    for name in catalog.databases():
        if name != "default":
            client(catalog).call("drop_database", name, True, True)


@pytest.fixture
def catalog(options: dict[str, str]) -> Catalog:
    found = Catalog.open(options)
    found.create_database("shop")
    return found


def client(catalog: Catalog) -> Any:
    return catalog._backend._client  # type: ignore[attr-defined]


def names_of_partitions(catalog: Catalog, table: str = "t") -> list[str]:
    return sorted("/".join(one.values) for one in client(catalog).call("get_partitions", "shop", table, -1))


def foreign(name: str, serde: str, input_format: str, columns: dict[str, str], **more: Any) -> Any:
    """A table of Hive's own."""
    hive = structs()
    descriptor = hive.StorageDescriptor(
        cols=[hive.FieldSchema(name=column, type=type_) for column, type_ in columns.items()],
        location=more.pop("location", None),
        inputFormat=input_format,
        serdeInfo=hive.SerDeInfo(serializationLib=serde, parameters=more.pop("serde_parameters", {})),
        compressed=False,
        numBuckets=0,
    )
    kind = more.pop("tableType", "EXTERNAL_TABLE")
    return hive.Table(tableName=name, dbName="shop", sd=descriptor, tableType=kind, parameters={}, **more)


def test_databases_and_tables(catalog: Catalog, options: dict[str, str]) -> None:
    assert catalog.databases() == ["default", "shop"]
    with pytest.raises(AlreadyExistsError, match="database shop already exists"):
        catalog.create_database("shop")
    catalog.create_database("shop", ignore_if_exists=True)
    table = catalog.create_table("shop.t", rows(1, 2))
    assert (catalog.path("shop.t"), table.path) == (f"{options['warehouse']}/shop.db/t",) * 2
    assert catalog.exists("shop.t") and not catalog.exists("shop.u")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(TableNotFoundError, match="has no table tt"):
        catalog.table("shop.tt")
    with pytest.raises(DatabaseNotFoundError):
        catalog.create_table("shap.t", SCHEMA)
    with pytest.raises(OptionError, match="is not empty"):
        catalog.drop_database("shop")
    catalog.rename_table("shop.t", "u")
    assert catalog.tables("shop") == ["u"] and catalog.table("shop.u").count() == 2
    assert not Path(table.path).exists() and catalog.path("shop.u") == f"{options['warehouse']}/shop.db/u"
    catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.rename_table("shop.t", "u")
    catalog.drop_table("shop.u")
    assert catalog.tables("shop") == ["t"] and not Path(f"{options['warehouse']}/shop.db/u").exists()
    with pytest.raises(TableNotFoundError):
        catalog.drop_table("shop.u")
    catalog.drop_database("shop", cascade=True)
    assert catalog.databases() == ["default"]
    with pytest.raises(OptionError, match="default can't be dropped"):
        catalog.drop_database("default")


def test_rows_that_do_not_fit_take_the_table_away_again(catalog: Catalog) -> None:
    with pytest.raises(SchemaError):
        catalog.create_table("shop.t", pa.table({"id": pa.array([None, 1], pa.int32())}), primary_key=["id"])
    assert catalog.tables("shop") == [] and not Path(catalog.path("shop.t")).exists()


def test_branches_and_pickled_tables(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", rows(1))
    table.tags.create("one")
    table.branches.create("b", "one")
    pickle.loads(pickle.dumps(table)).append(rows(2))
    catalog.table("shop.t$branch_b").append(rows(3))
    assert sorted(catalog.table("shop.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert sorted(catalog.table("shop.t$branch_b").scan().to_arrow()["id"].to_pylist()) == [1, 3]


def test_external_tables_keep_their_files_and_are_named_again(catalog: Catalog, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "elsewhere" / "t")
    catalog.create_table("shop.t", rows(1), options={"path": elsewhere, "write-only": "true"})
    assert catalog.path("shop.t") == elsewhere
    catalog.rename_table("shop.t", "shop.u")
    assert catalog.path("shop.u") == elsewhere
    catalog.drop_table("shop.u")
    assert Table.open(elsewhere).count() == 1
    with pytest.raises(SchemaError, match="other columns, keys or options"):
        catalog.create_table("shop.t", {"other": [1]}, options={"path": elsewhere})
    with pytest.raises(SchemaError, match="other columns, keys or options"):
        catalog.create_table("shop.t", SCHEMA, options={"path": elsewhere, "bucket": "-1"})
    assert catalog.tables("shop") == []
    assert catalog.create_table("shop.t", SCHEMA, options={"path": elsewhere}).count() == 1


def test_columns_that_the_metastore_refuses_change_nothing(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", {"a": [1], "b": ["x"]})
    table.alter(add_columns={"c": "INT"})
    with pytest.raises(StorageError, match="types incompatible"):
        table.alter(drop_columns=["a"])
    assert [f.name for f in catalog.table("shop.t").schema.fields] == ["a", "b", "c"]
    columns = client(catalog).call("get_table", "shop", "t").sd.cols
    assert [(c.name, c.type) for c in columns] == [("a", "bigint"), ("b", "string"), ("c", "int")]


def test_a_schema_that_another_publishes_first_is_told_to_the_metastore(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = catalog.create_table("shop.t", rows(1)), catalog.table("shop.t")
    publisher = type(table._store.publisher)
    tell = publisher._update_columns  # type: ignore[union-attr]
    told = list[None]()

    def first(self: Any, store: Any, *schemas: Any, **more: Any) -> None:
        if not told:
            told.append(None)
            other.alter(add_columns={"theirs": "INT"})
        tell(self, store, *schemas, **more)

    monkeypatch.setattr(publisher, "_update_columns", first)
    table.alter(add_columns={"ours": "INT"})
    columns = client(catalog).call("get_table", "shop", "t").sd.cols
    assert [c.name for c in columns] == ["id", "theirs", "ours"]
    assert [f.name for f in catalog.table("shop.t").schema.fields] == ["id", "theirs", "ours"]


def test_partitions_follow_the_commits(catalog: Catalog) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a", "b/c", None]})
    table = catalog.create_table("shop.t", data, partition_by=["p"], options=PARTS)
    assert names_of_partitions(catalog) == ["__DEFAULT_PARTITION__", "a", "b/c"]
    found = client(catalog).call("get_partition", "shop", "t", ["b/c"])
    assert found.sd.location == f"file:{table.path}/p=b%2Fc" and [c.name for c in found.sd.cols] == ["id"]
    table.tags.create("now")
    table.branches.create("b", "now")
    branch = catalog.table("shop.t$branch_b")
    branch.append(pa.table({"id": [4], "p": ["branch"]}))
    table.maintenance.drop_partitions("p = 'a'")  # the branch has it yet
    assert names_of_partitions(catalog) == ["__DEFAULT_PARTITION__", "a", "b/c", "branch"]
    branch.maintenance.drop_partitions("p = 'a'")
    assert names_of_partitions(catalog) == ["__DEFAULT_PARTITION__", "b/c", "branch"]
    table.branches.delete("b")
    table.overwrite(pa.table({"id": [5], "p": ["z"]}))
    assert names_of_partitions(catalog) == ["branch", "z"]


def test_a_metastore_that_fails_does_not_undo_a_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = catalog.create_table("shop.t", {"id": [1], "p": ["a"]}, partition_by=["p"], options=PARTS)
    call = module.MetastoreClient.call

    def failing(self: Any, request: str, *arguments: Any, **more: Any) -> Any:
        if request == "add_partitions_req":
            raise StorageError("away")
        return call(self, request, *arguments, **more)

    monkeypatch.setattr(module.MetastoreClient, "call", failing)
    with TableWriter(table.write_context()) as writer:
        writer.write(pa.table({"id": [2], "p": ["b"]}))
        messages = [writer.prepare_commit()]
    table.commit(messages)
    assert "Catalog.repair_table('shop.t') names its partitions in the metastore" in caplog.text
    assert table.count() == 2 and names_of_partitions(catalog) == ["a"]
    monkeypatch.undo()
    table.commit(messages)  # which is found to be in the table
    assert table.count() == 2 and names_of_partitions(catalog) == ["a", "b"]


def test_a_stream_that_starts_again_names_the_partitions_of_its_last_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.t", {"id": [1], "p": ["a"]}, partition_by=["p"], options=PARTS)
    publisher = type(table._store.publisher)
    with monkeypatch.context() as patched:
        patched.setattr(publisher, "_update_partitions", lambda *_: None)  # as if the process had died before
        with table.stream_writer("job") as writer:
            writer.write({"id": [2], "p": ["b"]})
            writer.commit(0)
    assert names_of_partitions(catalog) == ["a"]
    with catalog.table("shop.t").stream_writer("job") as writer:
        writer.write({"id": [2], "p": ["b"]})
        assert writer.commit(0).committed_before
    assert table.count() == 2 and names_of_partitions(catalog) == ["a", "b"]
    table.maintenance.drop_partitions("p = 'b'")
    with catalog.table("shop.t").stream_writer("job") as writer:
        assert writer.committed() == 0
    assert names_of_partitions(catalog) == ["a"]


def test_the_metastore_is_told_again_what_the_files_say(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", {"id": [1, 2], "p": ["a", "b"]}, partition_by=["p"], options=PARTS)
    table.branches.create("b")
    Table.open(table.path, "b").append({"id": [4], "p": ["branch"]})
    by_path = Table.open(table.path)
    by_path.alter(add_columns={"x": "INT"}, set_options={"snapshot.num-retained.max": 77})
    by_path.append({"id": [3], "p": ["c"], "x": [1]})
    assert names_of_partitions(catalog) == ["a", "b"]
    assert catalog.repair_table("shop.t").count() == 3
    found = client(catalog).call("get_table", "shop", "t")
    assert ([c.name for c in found.sd.cols], [c.name for c in found.partitionKeys]) == (["id", "x"], ["p"])
    assert found.parameters["snapshot.num-retained.max"] == "77" and names_of_partitions(catalog) == [
        "a",
        "b",
        "branch",
        "c",
    ]
    client(catalog).call("drop_table", "shop", "t", False)
    assert catalog.tables("shop") == []
    with pytest.raises(AlreadyExistsError, match="which the metastore does not name"):
        catalog.create_table("shop.t", SCHEMA)
    assert catalog.repair_table("shop.t").count() == 3 and names_of_partitions(catalog) == ["a", "b", "branch", "c"]
    with pytest.raises(TableNotFoundError, match="has no table u"):
        catalog.repair_table("shop.u")
    with pytest.raises(DatabaseNotFoundError, match="no database 'shap'"):
        catalog.repair_table("shap.t")
    client(catalog).call("create_table", foreign("other", "com.example.SerDe", "x", {"id": "int"}))
    with pytest.raises(AlreadyExistsError, match="of another kind than Paimon's"):
        catalog.repair_table("shop.other")


def test_tables_of_hive_are_format_tables_or_not_shown(catalog: Catalog, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    text, lazy = "org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    parquet = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    hive, files, lines = structs(), tmp_path / "files", tmp_path / "lines"
    (files / "day=2026-01-02").mkdir(parents=True)
    lines.mkdir()
    pyarrow.parquet.write_table(pa.table({"id": [1, 2]}), files / "day=2026-01-02" / "part-0.parquet")
    (lines / "one.csv").write_text("1|x\n2|y\n")
    day = [hive.FieldSchema(name="day", type="date")]
    of_csv = {"location": str(lines), "serde_parameters": {"field.delim": "|"}}
    of_view = {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "SELECT 1", "viewExpandedText": "SELECT 1"}
    made = [
        foreign("files", parquet, "x", {"id": "bigint"}, location=str(files), partitionKeys=day),
        foreign("lines", lazy, text, {"id": "int", "v": "string"}, **of_csv),
        foreign("other", "com.example.SerDe", "x", {"id": "int"}, location=str(tmp_path / "other")),
        foreign("a_view", "", "", {"id": "int"}, **of_view),
    ]
    for table in made:
        client(catalog).call("create_table", table)
    assert catalog.tables("shop") == ["files", "lines"] and catalog.views("shop") == ["a_view"]
    found = catalog.table("shop.files").scan("id = 2").to_arrow().to_pylist()
    assert [(row["id"], str(row["day"])) for row in found] == [(2, "2026-01-02")]
    assert catalog.table("shop.lines").scan().to_arrow().to_pylist() == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}]
    with pytest.raises(TableNotFoundError, match="is a view"):
        catalog.table("shop.a_view")
    for name, what in (("other", "of another kind than Paimon's"), ("a_view", "view")):
        with pytest.raises(AlreadyExistsError, match=what):
            catalog.create_table(f"shop.{name}", SCHEMA)
    assert not catalog.exists("shop.other")
    with pytest.raises(OptionError, match="other kinds than Paimon's, such as other"):
        catalog.drop_database("shop", cascade=True)
    settings = {**catalog._options, "format-table.enabled": "false"}
    assert Catalog.open(settings).tables("shop") == []


def test_the_lock_excludes_and_is_given_back(options: dict[str, str]) -> None:
    locking = {**options, "lock.enabled": "true", "lock-check-max-sleep": "50 ms", "lock-acquire-timeout": "300 ms"}
    catalog = Catalog.open(locking)
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", rows(1))
    lock = MetastoreLock(client(catalog), ("shop", "t"))
    lock_id = lock._acquire()  # as another process would
    with pytest.raises(CommitError, match=r"the lock shop\.t was not free within 0\.3 seconds"):
        table.append(rows(2))
    lock._release(lock_id)
    with lock.held() as holds, lock.held() as inner:
        table.append(rows(3))
        assert holds() and inner() and len(_locks(catalog)) == 1
        client(catalog).call("unlock", structs().UnlockRequest(lockid=_locks(catalog)[0].lockid))
        assert not holds()
    assert _locks(catalog) == [] and sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 3]


def test_signs_of_life_come_before_the_lock_is_removed(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog.open(options)
    catalog.create_database("shop")
    assert client(catalog).call("get_config_value", "hive.txn.timeout", "300s") in ("300", "300s")
    call, beaten = module.MetastoreClient.call, threading.Semaphore(0)

    def seen(self: Any, request: str, *arguments: Any, **more: Any) -> Any:
        if request == "heartbeat":
            beaten.release()
        return "30 ms" if request == "get_config_value" else call(self, request, *arguments, **more)

    monkeypatch.setattr(module.MetastoreClient, "call", seen)
    monkeypatch.setattr(lock_module, "FIRST_SECONDS", 0.01)
    with MetastoreLock(client(catalog), ("shop", "t")).held():
        assert all(beaten.acquire(timeout=60) for _ in range(3))


@pytest.mark.long
def test_locks_of_the_dead_expire_and_those_of_the_living_do_not(tmp_path: Path) -> None:
    with servers.hive_metastore({"hive.txn.timeout": "18s"}) as uri:
        options = {"metastore": "hive", "uri": uri, "warehouse": str(tmp_path / "wh"), "lock.enabled": "true"}
        catalog = Catalog.open({**options, "lock-check-max-sleep": "500 ms"})
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", rows(1))
        with MetastoreLock(client(catalog), ("shop", "t")).held() as holds:
            time.sleep(30)
            assert holds() and len(_locks(catalog)) == 1
        MetastoreLock(client(catalog), ("shop", "t"))._acquire()  # nothing gives signs of life of it
        table.append(rows(2))
        assert table.count() == 2 and _locks(catalog) == []


def _locks(catalog: Catalog) -> list[Any]:
    found: list[Any] = client(catalog).call("show_locks", structs().ShowLocksRequest(dbname="shop")).locks
    return found


@pytest.mark.parametrize(("writers", "commits"), [(3, 3), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side(options: dict[str, str], writers: int, commits: int) -> None:
    locking = {**options, "lock.enabled": "true", "lock-check-max-sleep": "50 ms"}
    catalog = Catalog.open(locking)
    catalog.create_database("shop")
    catalog.create_table("shop.t", SCHEMA, options=PATIENT)
    append_side_by_side(lambda: Catalog.open(locking).table("shop.t"), rows, writers, commits)
    assert sorted(catalog.table("shop.t").scan().to_arrow()["id"].to_pylist()) == list(range(writers * commits))


class _Proxy:
    """Between a catalog and its metastore: it breaks the connection before, or after, a request has arrived."""

    def __init__(self, uri: str) -> None:
        host, port = uri.removeprefix("thrift://").split(":")
        self._target, self._listener = (host, int(port)), socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        self.breaks: tuple[bytes, str] | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._between, args=(near,), daemon=True).start()

    def _between(self, near: socket.socket) -> None:
        with near, socket.create_connection(self._target) as far:
            while data := near.recv(1 << 20):
                breaks = self.breaks if self.breaks is not None and self.breaks[0] in data else None
                if breaks is not None:
                    self.breaks = None
                    if breaks[1] == "before":
                        return
                far.sendall(data)
                answer = far.recv(1 << 20)
                if breaks is not None:
                    return
                near.sendall(answer)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_answers(options: dict[str, str], when: str) -> None:
    proxy = _Proxy(options["uri"])
    try:
        catalog = Catalog.open({**options, "uri": proxy.uri})
        catalog.create_database("shop")
        proxy.breaks = (b"get_table_req", when)  # asked again
        assert not catalog.exists("shop.t")
        proxy.breaks = (b"create_table", when)
        if when == "before":
            with pytest.raises(StorageError, match="no response came to create_table"):
                catalog.create_table("shop.t", SCHEMA)
            assert not catalog.exists("shop.t") and not Path(catalog.path("shop.t"), "schema").exists()
            catalog.create_table("shop.t", SCHEMA)
        else:
            catalog.create_table("shop.t", SCHEMA)
        proxy.breaks = (b"alter_table", when)
        catalog.alter_table("shop.t", add_columns={"x": "INT"})
        assert [f.name for f in catalog.table("shop.t").schema.fields] == ["id", "x"]
        proxy.breaks = (b"drop_table", when)
        if when == "before":
            with pytest.raises(StorageError, match="no response came to drop_table"):
                catalog.drop_table("shop.t")
            assert catalog.table("shop.t").count() == 0
        else:
            catalog.drop_table("shop.t")
            assert catalog.tables("shop") == []
    finally:
        proxy.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_about_the_lock(options: dict[str, str], when: str) -> None:
    proxy = _Proxy(options["uri"])
    try:
        impatient = {"lock.enabled": "true", "lock-acquire-timeout": "300 ms"}
        catalog = Catalog.open({**options, "uri": proxy.uri, **impatient})
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", rows(1))
        proxy.breaks = (b"\0\0\0\4lock", when)
        table.append(rows(2))
        assert proxy.breaks is None and _locks(catalog) == [] and table.count() == 2
    finally:
        proxy.close()


def test_several_addresses_and_none(options: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    both = {**options, "uri": f"thrift://127.0.0.1:{port}, {options['uri']}"}
    assert Catalog.open(both).databases() == ["default"]
    start = time.monotonic()
    with pytest.raises(StorageError, match=f"can't be reached \\(127.0.0.1:{port}"):
        Catalog.open({**options, "uri": f"thrift://127.0.0.1:{port}"}).databases()
    assert time.monotonic() - start < 60


def test_an_unknown_host_is_one_line() -> None:
    """Thrift's own tracebacks are printed nowhere."""
    options = {"metastore": "hive", "uri": "thrift://metastore.invalid", "warehouse": "wh"}
    script = f"import paimon_pyds\ntry: paimon_pyds.Catalog.open({options}).databases()\nexcept OSError as e: print(e)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert "the Hive metastore can't be reached" in done.stdout
    assert done.stdout.count("\n") == 1


def test_settings_of_hive_site(options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "conf"
    site.mkdir()
    found = {
        "base": str(tmp_path),
        "hive.metastore.uris": options["uri"],
        "hive.metastore.warehouse.dir": "file:${base}/own",
        "table.type": "external",
    }
    inner = "".join(f"<property><name>{name}</name><value>{text}</value></property>" for name, text in found.items())
    (site / "hive-site.xml").write_text(f"<configuration>{inner}</configuration>")
    catalog = Catalog.open({"metastore": "hive", "hive-conf-dir": str(site)})
    assert catalog.warehouse == str(tmp_path / "own")
    catalog.create_database("shop")
    catalog.create_table("shop.t", SCHEMA)
    assert client(catalog).call("get_table", "shop", "t").tableType == "EXTERNAL_TABLE"
    monkeypatch.setenv("HIVE_CONF_DIR", str(site))
    assert Catalog.open({"metastore": "hive", "warehouse": str(tmp_path / "o")}).warehouse == str(tmp_path / "o")
    (site / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(OptionError, match="not a configuration of Hadoop"):
        Catalog.open({"metastore": "hive"})
    with pytest.raises(OptionError, match="without hive-site"):
        Catalog.open({"metastore": "hive", "hive-conf-dir": str(tmp_path)})


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"uri": ""}, OptionError, "needs the option uri"),
        ({"uri": "http://host"}, OptionError, "not the address of a Hive metastore"),
        ({"uri": "thrift://host:0"}, OptionError, "not the address"),
        ({"warehouse": ""}, OptionError, "needs the option warehouse"),
        ({"hive.metastore.client.thrift.transport.mode": "http"}, UnsupportedError, "wants HTTP"),
        ({"hive.metastore.client.auth.mode": "PLAIN"}, UnsupportedError, "wants a password"),
        ({"metastore.client.class": "com.amazonaws.X"}, UnsupportedError, "is a class of Java"),
        ({"lock.type": "zookeeper"}, UnsupportedError, "lock.type=zookeeper"),
        ({"table.type": "some"}, OptionError, "managed or external"),
        ({"hive.metastore.client.socket.timeout": "soon"}, OptionError, "must be a duration"),
        ({"warehous": "x"}, OptionError, "warehouse"),
        ({"jdbc.user": "x"}, OptionError, "jdbc.user"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_are_refused(given: dict[str, str], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Catalog.open({"metastore": "hive", "uri": "thrift://127.0.0.1:1", "warehouse": "/nowhere", **given})


def test_tags_as_partitions_are_refused(catalog: Catalog) -> None:
    tagged = {"metastore.tag-to-partition": "dt"}
    with pytest.raises(UnsupportedError, match=r"metastore\.tag-to-partition") as caught:
        catalog.create_table("shop.t", SCHEMA, options=tagged)
    assert caught.value.feature == "hive"
    table = catalog.create_table("shop.t", rows(1))
    with pytest.raises(UnsupportedError, match=r"metastore\.tag-to-partition"):
        table.alter(set_options=tagged)
    assert catalog.table("shop.t").schema.options == table.schema.options


@pytest.mark.parametrize(
    ("hive", "paimon"),
    [
        ("int", "INT"), ("varchar(9)", "VARCHAR(9)"), ("string", "STRING"), ("binary", "BYTES"),
        ("decimal(20,3)", "DECIMAL(20, 3)"), ("decimal", "DECIMAL(10, 0)"), ("timestamp", "TIMESTAMP(3)"),
        ("timestamp with local time zone", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("array<struct<a:int,b c:map<string,decimal(5,1)>>>", "ARRAY<ROW<`a` INT, `b c` MAP<STRING, DECIMAL(5, 1)>>>"),
    ],
)  # fmt: skip
def test_types_of_hive(hive: str, paimon: str) -> None:
    type_ = paimon_type(hive)
    assert str(type_).replace("`", "") == paimon.replace("`", "")
    assert hive in (hive_type(type_), "decimal")


@pytest.mark.parametrize("text", ["", "uniontype<int>", "array<int", "struct<a>", "int(3)", "array<" * 60, "map<int>"])
def test_types_that_paimon_lacks(text: str) -> None:
    with pytest.raises(UnsupportedError, match="has no counterpart in Paimon"):
        paimon_type(text)
