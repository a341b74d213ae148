"""Tables in an S3 store from Spark: options reach the tasks, and secrets go no further than to those that need them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")
pytest.importorskip("moto.server")

from pyspark.sql.types import LongType, StringType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds import spark as paimon
from paimon_pyds.spark.options import parse_read_options, parse_write_options
from paimon_pyds.spark.source import PaimonDataSource
from support.canary import texts_of
from support.effort import sampled
from support.s3_server import SECRET_KEY, Server, serving

pytestmark = pytest.mark.spark
SCHEMA = StructType([StructField("id", LongType()), StructField("p", StringType())])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.mark.slow
def test_reads_and_writes_of_tasks(frames, server, capsys):
    options = server.options()
    path = f"{server.bucket()}/wh/t"
    pp.Table.create(
        path, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"], storage_options=options
    )
    frames.save(frames.spark.range(0, 40, 1, 4).selectExpr("id", "concat('p', id % 2) AS p"), path, **options)
    frames.save("SELECT 3 AS id", path, operation="delete", **options)
    paimon.write(frames.spark.sql("SELECT 50L AS id, 'p0' AS p"), path, options=options)
    loaded = frames.load(path, **options)
    assert loaded.count() == 40
    assert frames.ids(loaded.where("p = 'p1' AND id > 35").select("id")) == [37, 39]
    assert frames.load(f"{path}$snapshots", **options).count() == 3
    loaded.where("id = 1").explain(True)
    assert SECRET_KEY not in capsys.readouterr().out
    with pytest.raises(Exception, match=r"(?i)bucket") as caught:
        frames.load("s3://nothing-here/t", **options).count()
    assert SECRET_KEY not in str(caught.value)


def test_secrets_of_stores_and_catalogs(server, postgres):
    pytest.importorskip("psycopg")
    root, storage = server.bucket(), server.options()
    catalog = {**postgres, **storage, "warehouse": f"{root}/wh", "lock.enabled": "true"}
    password = postgres["jdbc.password"]
    made = pp.Catalog.open(catalog)
    if "shop" not in made.databases():
        made.create_database("shop")
    made.create_table("shop.t", {"id": [1], "p": ["a"]})
    options = {**catalog, "table": "shop.t", "fs.azure.account.key": "b3RoZXIga2V5IG9mIGFub3RoZXI="}
    for parsed in (parse_read_options(options), parse_write_options(options, overwrite=False)):
        assert password not in texts_of(parsed) and SECRET_KEY not in texts_of(parsed)
    source = PaimonDataSource(options)
    reader = source.reader(source.schema())
    (task,) = reader.partitions()
    sent = [pickle.dumps(part) for part in (reader, task)]
    writer = source.writer(SCHEMA, False)
    of_tasks, of_commit = pickle.dumps(writer), pickle.dumps(writer)
    for data in (*sent, of_tasks):
        assert password.encode() not in data and b"b3RoZXIg" not in data
    assert SECRET_KEY.encode() in sent[1] and SECRET_KEY.encode() in of_tasks  # they read and write files
    assert password.encode() in of_commit
    in_task, partition = map(pickle.loads, sent)
    assert sum(batch.num_rows for batch in in_task.read(partition)) == 1
    message = pickle.loads(of_tasks).write(iter([]))
    pickle.loads(of_commit).commit([message])
    made.drop_table("shop.t")


@pytest.mark.slow
def test_a_catalog_whose_tables_lie_in_a_store(frames, server, tmp_path: Path):
    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/c.db", "warehouse": f"{server.bucket()}/wh"}
    options |= {"lock.enabled": "true", **server.options()}
    pp.Catalog.open(options).create_database("shop")
    frames.save("SELECT 1L AS id, 'a' AS p", "shop.t", **options)
    frames.save("SELECT 2L AS id, 'b' AS p", "shop.t", **options)
    assert frames.ids(frames.load("shop.t", filter="p = 'b'", **options).select("id")) == [2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        *sampled([
            pytest.param({"bucket": "2", "deletion-vectors.enabled": "true", "file.format": "orc"}, id="fixed"),
            pytest.param({"bucket": "-2"}, id="postpone"),
        ], 1),
        pytest.param({"bucket": "-1"}, id="moving", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_operations_on_key_tables(frames, server, own: dict[str, str]):
    options, spark = server.options(), frames.spark
    moving = own["bucket"] == "-1"
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = pp.Table.create(
        f"{server.bucket()}/wh/t", schema, ["id"], ["p"] if moving else [], options=own, storage_options=options
    )
    path = table.path
    paimon.write(spark.range(0, 20, 1, 2).selectExpr("id", "concat('p', id % 2) AS p"), path, options=options)
    paimon.write(spark.range(10, 30, 1, 2).selectExpr("id", "concat('p', id % 3) AS p"), path, options=options)
    paimon.compact(spark, path, full=True, storage_options=options)
    model = {i: f"p{i % 2}" for i in range(20)} | {i: f"p{i % 3}" for i in range(10, 30)}
    paimon.delete(spark, path, "id % 7 = 0", storage_options=options)
    source = spark.range(28, 32).selectExpr("id", "'new' AS p")
    how = {"when_matched": "update", "when_not_matched": "insert"}
    paimon.merge(spark, path, source, ["id"], **how, storage_options=options)
    model = {i: p for i, p in model.items() if i % 7} | dict.fromkeys(range(28, 32), "new")
    if own["bucket"] == "2":
        paimon.maintenance.rescale(spark, path, 3, storage_options=options)
    orphan = f"{path}/manifest/manifest-00000000-0000-0000-0000-000000000000-0"
    table._store.io.write_bytes(orphan, b"x")
    found = paimon.maintenance.remove_orphan_files(spark, path, "0 s", False, storage_options=options)
    assert found.files.num_rows == 1
    paimon.compact(spark, path, storage_options=options)
    assert frames.rows(frames.load(path, **options)) == sorted(model.items(), key=repr)
    assert table.maintenance.verify(deep=True).ok
