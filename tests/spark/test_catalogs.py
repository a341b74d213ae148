"""Tables by their names in a catalog: options of reads and writes, and where secrets go."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import IntegerType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds import spark as paimon
from paimon_pyds.errors import CommitConflictError, CommitError, OptionError, TableNotFoundError, UnsupportedError
from paimon_pyds.spark.location import options_of_catalog
from paimon_pyds.spark.options import parse_read_options, parse_write_options
from paimon_pyds.spark.source import PaimonDataSource
from paimon_pyds.spark.writer import PaimonWriter
from support.canary import texts_of
from support.effort import sampled
from support.rest_catalog import TOKEN, RestCatalogServer, rest_catalog
from support.s3_server import serving

pytestmark = pytest.mark.spark
SCHEMA = StructType([StructField("id", IntegerType())])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with rest_catalog(tmp_path / "rest") as running:
        pp.Catalog.open(of_server(running)).create_database("shop")
        yield running


def of_server(server: RestCatalogServer) -> dict[str, str]:
    return {"metastore": "rest", "uri": server.address, "token": TOKEN}


@pytest.mark.slow
def test_a_rest_catalog(server, frames):
    options = of_server(server)
    frames.save("SELECT 1 AS id, 'red' AS color", "shop.t", **options)
    frames.save("SELECT 2 AS id, 'blue' AS color", "shop.t", **options)
    assert len(server.bodies) == 2  # the server made both snapshots
    loaded = frames.load("shop.t", filter="color = 'blue'", **options)
    assert frames.ids(loaded.select("id")) == [2]
    frames.save("SELECT 2 AS id", "shop.t", operation="delete", **options)
    frames.save("SELECT 3 AS id, 'blue' AS color", "shop.t", **options)
    assert frames.ids(frames.load("shop.t", **options)) == [1, 3]
    assert frames.ids(loaded.select("id")) == [3]
    assert frames.load("shop.t$snapshots", **options).count() == 4
    catalog = pp.Catalog.open(options)
    key_table = catalog.create_table("shop.k", {"id": [1]}, ["id"], options={"bucket": "1"})
    paimon.write(frames.spark.sql("SELECT 2 AS id"), "shop.k", options=options)
    assert key_table.scan().count() == 2
    assert (
        catalog.table("shop.t").snapshots.latest().id
        == 4
        == len([b for b in server.bodies if b["tableId"] == _id(server)])
    )
    table = catalog.table("shop.k")
    with pytest.raises(OptionError, match="leave branch"):
        paimon.delete(frames.spark, table, "id = 1", branch="b")
    paimon.delete(frames.spark, table, "id = 1")
    assert paimon.compact(frames.spark, table, full=True) is not None
    assert not paimon.maintenance.remove_orphan_files(frames.spark, table, dry_run=True).files
    assert frames.ids(frames.load("shop.k", **options)) == [2]
    of_table = [body for body in server.bodies if body["tableId"] == server.databases["shop"]["k"]["id"]]
    assert len(of_table) == catalog.table("shop.k").snapshots.latest().id
    with pytest.raises(Exception, match="has no table nope") as caught:
        frames.load("shop.nope", **options).count()
    assert TOKEN not in str(caught.value)


def _id(server: RestCatalogServer) -> str:
    return server.databases["shop"]["t"]["id"]


def test_a_configured_sqlite_catalog(tmp_path, monkeypatch):
    config = tmp_path / "config.toml"
    uri = f"jdbc:sqlite:{tmp_path}/catalog.db"
    config.write_text(
        f'[catalogs.local]\nmetastore="jdbc"\nuri="{uri}"\nwarehouse="{tmp_path}/wh"\n"lock.enabled"=true'
    )
    monkeypatch.setenv("PAIMON_PYDS_CONFIG", str(config))
    catalog = pp.Catalog.configured("local")
    catalog.create_database("shop")
    catalog.create_table("shop.t", {"id": [1, 2]})
    source = PaimonDataSource({"catalog": "local", "table": "shop.t"})
    assert source.schema().names == ["id"]
    writer = source.writer(source.schema(), False)
    message = writer.write(iter([]))
    for_commit = (pickle.dumps(writer), pickle.dumps(writer))[1]
    taken = pickle.loads(for_commit)
    assert type(taken.catalog.store(writer._context.root).publisher).__name__ == "LockedPublisher"
    taken.commit([message])


@pytest.mark.slow
@pytest.mark.parametrize("key", sampled(["p,k", "k"], 1))
def test_rows_are_shuffled_for_a_table_that_the_write_makes(server, frames, key):
    """Dynamic buckets are filled up to the target, and keys may move between partitions."""
    options = {**of_server(server), "primary-key": key, "partition-by": "p", "dynamic-bucket.target-row-num": "20"}
    query = "SELECT /*+ REPARTITION(3) */ INT(id % {}) AS p, STRING(id) AS k, id AS v FROM range({}, 100)"
    first = {"dynamic-partition-overwrite": "true"} if key == "p,k" else {}
    paimon.write(frames.spark.sql(query.format(2, 0)), "shop.d", "overwrite", {**options, **first})
    table = pp.Catalog.open(of_server(server)).table("shop.d")
    assert table.snapshots.latest().id == 1
    paimon.write(frames.spark.sql(query.format(5, 90)), "shop.d", options=options)
    rows = table.scan(columns=["p", "k", "__paimon_bucket"]).to_arrow().to_pylist()
    pairs = {(k % 2, str(k)) for k in range(100 if key == "p,k" else 90)} | {(k % 5, str(k)) for k in range(90, 100)}
    assert sorted((row["p"], row["k"]) for row in rows) == sorted(pairs)
    assert max(Counter((row["p"], row["__paimon_bucket"]) for row in rows).values()) <= 20


@pytest.mark.connect
def test_a_catalog_that_a_client_of_connect_can_not_open(server, frames, monkeypatch):
    from paimon_pyds.spark import write_shuffle as preparation

    def unseen(options):
        raise TableNotFoundError("the warehouse does not exist")

    monkeypatch.setattr(preparation, "open_table", unseen)
    df, options = frames.spark.sql("SELECT id, INT(id % 2) AS p FROM range(9)"), of_server(server)
    with pytest.warns(RuntimeWarning, match="written without a shuffle.*the warehouse does not exist"):
        paimon.write(df, "shop.d", options={**options, "primary-key": "id"})
    assert frames.load("shop.d", **options).count() == 9
    moving = {**options, "primary-key": "id", "partition-by": "p"}
    with (
        pytest.warns(RuntimeWarning, match="can't open the table"),
        pytest.raises(Exception, match="client of Spark Connect has to see"),
    ):
        paimon.write(df, "shop.m", options=moving)


def test_secrets_stay_on_the_driver(server):
    options = {**of_server(server), "table": "shop.t"}
    for parsed in (parse_read_options(options), parse_write_options(options, overwrite=False)):
        assert TOKEN not in texts_of(parsed)
    pp.Catalog.open(of_server(server)).create_table("shop.t", {"id": [1]})
    for operation in ({}, {"operation": "delete"}):
        writer = PaimonDataSource({**options, **operation}).writer(SCHEMA, False)
        of_tasks, of_commit = pickle.dumps(writer), pickle.dumps(writer)
        assert TOKEN.encode() not in of_tasks and TOKEN.encode() in of_commit
        assert TOKEN not in texts_of(writer)
        with pytest.raises(CommitError, match="options of the catalog"):
            pickle.loads(of_tasks)._store()
        assert pickle.loads(of_commit)._store().publisher is not None
    for table in ("shop.t", "shop.t$files"):
        source = PaimonDataSource({**options, "table": table})
        reader = source.reader(source.schema())
        (task,) = reader.partitions()
        sent = [pickle.dumps(part) for part in (reader, task)]
        assert TOKEN.encode() not in b"".join(sent)
        in_task, partition = map(pickle.loads, sent)
        assert sum(batch.num_rows for batch in in_task.read(partition)) == 1


@pytest.mark.slow
def test_credentials_that_a_catalog_gives_out(server, frames):
    """Tasks get those of the storage, which they need, and never the catalog's token."""
    pytest.importorskip("moto.server")
    with serving() as store:
        server.root = f"{store.bucket()}/wh"
        server.storage = store.options(**{"s3.access-key": "admin"})
        server.overrides["data-token.enabled"] = "true"
        server.vend = lambda: store.options(**{"s3.access-key": "canary-key", "s3.session-token": "canary-session"})
        store.keys = {"admin", "canary-key"}
        options = of_server(server)
        frames.save("SELECT id, 'red' AS color FROM range(20)", "shop.s", **options)
        loaded = frames.load("shop.s", filter="id > 16", **options)
        assert frames.ids(loaded.select("id")) == [17, 18, 19]
        source = PaimonDataSource({**options, "table": "shop.s"})
        reader = source.reader(source.schema())
        writer = PaimonDataSource({**options, "table": "shop.s"}).writer(source.schema(), False)
        for sent in (reader, *reader.partitions(), writer):
            assert TOKEN.encode() not in pickle.dumps(sent) and "canary" not in texts_of(sent)
        assert "canary" not in str(pp.Catalog.open(options).table("shop.s").explain())


def test_a_table_that_was_replaced_during_a_write(server):
    catalog = pp.Catalog.open(of_server(server))
    catalog.create_table("shop.t", {"id": [1]})
    writer = PaimonDataSource({**of_server(server), "table": "shop.t"}).writer(SCHEMA, False)
    assert isinstance(writer, PaimonWriter)
    message = writer.write(iter([]))
    catalog.drop_table("shop.t")
    catalog.create_table("shop.t", {"id": [1]})
    with pytest.raises(CommitConflictError, match="dropped"):
        writer.commit([message])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"uri": "u", "path": "/t"}, OptionError, "uri is of a catalog"),
        ({"header.x": "u", "path": "/t"}, OptionError, "header.x is of a catalog"),
        ({"metastore": "rest", "path": "a.b", "table": "a.c"}, OptionError, "both name a table"),
        ({"metastore": "rest", "table": "t"}, OptionError, "database.table"),
        ({"metastore": "rest"}, OptionError, "no table is named"),
        ({"metastore": "rest", "path": "/wh/t"}, OptionError, "database.table"),
        ({"metastore": "rest", "table": "sys.tables"}, UnsupportedError, "Catalog.system"),
    ],
)
def test_mistakes(options, error, words):
    with pytest.raises(error, match=words):
        parse_read_options(options)


@pytest.mark.long  # the metastore starts for it alone; how Spark uses a catalog, the other ones show
@pytest.mark.slow
def test_a_hive_metastore(hive_metastore, frames, tmp_path):
    options = {"metastore": "hive", "uri": hive_metastore, "warehouse": str(tmp_path / "wh")}
    catalog = pp.Catalog.open(options)
    catalog.create_database("of_spark")
    partitioned = {"metastore.partitioned-table": "true"}
    catalog.create_table("of_spark.t", "id INT, day STRING", partition_by="day", options=partitioned)
    options |= {"lock.enabled": "true", "hive.metastore.client.socket.timeout": "60s"}
    frames.save("SELECT 1 AS id, 'mon' AS day UNION ALL SELECT 2, 'tue'", "of_spark.t", **options)
    paimon.delete(frames.spark, pp.Catalog.open(options).table("of_spark.t"), "day = 'mon'")
    assert [row.id for row in frames.load("of_spark.t", **options).collect()] == [2]
    assert catalog.table("of_spark.t").scan().to_arrow().to_pylist() == [{"id": 2, "day": "tue"}]
    catalog.drop_database("of_spark", cascade=True)


def test_settings_of_hadoop_are_for_storage_and_for_catalogs():
    hadoop = {"hadoop-conf-dir": "/etc/hadoop/conf"}
    assert options_of_catalog({"path": "hdfs://h/t", **hadoop}) is None
    assert parse_read_options({"path": "hdfs://h/t", **hadoop}).storage == hadoop
    hive = {"metastore": "hive", "uri": "thrift://h:1"}
    assert options_of_catalog({**hive, "table": "a.b", **hadoop}) == {**hive, **hadoop}


def test_no_such_table(server):
    with pytest.raises(TableNotFoundError, match="nope"):
        PaimonDataSource({**of_server(server), "table": "shop.nope"}).schema()
