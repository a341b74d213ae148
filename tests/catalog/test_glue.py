"""AWS Glue as a Hive catalog, on moto's server: names, schemas, partitions, lost answers, and what is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.retry import Pauses
from paimon_pyds.catalog import Catalog
from paimon_pyds.errors import (
    AlreadyExistsError,
    DatabaseNotFoundError,
    OptionError,
    SchemaError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from support.catalogs import PARTS, SCHEMA, rows
from support.s3_server import AFTER, BEFORE, Server, serving
from support.side_by_side import PATIENT, append_side_by_side

pytest.importorskip("pymetastore")
CLIENT = "com.amazonaws.glue.catalog.metastore.AWSCatalogMetastoreClient"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.fixture
def options(server: Server) -> Iterator[dict[str, str]]:
    found = {"metastore": "hive", "metastore.client.class": CLIENT, "warehouse": f"{server.bucket()}/wh"}
    yield {**found, **server.options(), "aws.glue.endpoint": server.address}
    server.fail, server.status = lambda number, method, path: None, "503 Slow Down"
    from moto.glue.models import glue_backends

    for account in glue_backends.values():
        account.reset()


@pytest.fixture
def catalog(options: dict[str, str]) -> Catalog:
    found = Catalog.open(options)
    found.create_database("shop")
    return found


@pytest.fixture
def glue(catalog: Catalog) -> Any:
    """The client that the catalog has."""
    return catalog._backend._client._client()  # type: ignore[attr-defined]


def fail(server: Server, operation: str, when: str, times: int = 1) -> list[int]:
    """Have the next requests of an operation fail; gives the numbers of those that did."""
    failed: list[int] = []

    def chosen(number: int, method: str, path: str) -> str | None:
        if len(failed) == times or not server.headers[number].get("HTTP_X_AMZ_TARGET", "").endswith(f".{operation}"):
            return None
        failed.append(number)
        return when

    server.fail = chosen
    return failed


def entry(glue: Any, name: str = "t") -> dict[str, Any]:
    found: dict[str, Any] = glue.get_table(DatabaseName="shop", Name=name)["Table"]
    return found


def names_of_partitions(glue: Any) -> list[str]:
    found = glue.get_partitions(DatabaseName="shop", TableName="t")["Partitions"]
    return sorted("/".join(one["Values"]) for one in found)


def test_databases_and_tables(catalog: Catalog, options: dict[str, str]) -> None:
    assert catalog.databases() == ["shop"]
    with pytest.raises(AlreadyExistsError, match="database shop already exists"):
        catalog.create_database("shop")
    table = catalog.create_table("shop.t", rows(1, 2))
    assert (catalog.path("shop.t"), table.path) == (f"{options['warehouse']}/shop.db/t",) * 2
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("shop.t", SCHEMA)
    with pytest.raises(TableNotFoundError, match="has no table tt"):
        catalog.table("shop.tt")
    with pytest.raises(DatabaseNotFoundError):
        catalog.create_table("shap.t", SCHEMA)
    with pytest.raises(UnsupportedError, match="gives no table another name") as caught:
        catalog.rename_table("shop.t", "u")
    assert caught.value.feature == "glue"
    pickle.loads(pickle.dumps(table)).append(rows(3))
    assert sorted(catalog.table("shop.t").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    external = catalog.create_table("shop.external", rows(1), options={"path": f"{options['warehouse']}/elsewhere"})
    assert catalog.tables("shop") == ["external", "t"] and catalog.views("shop") == []
    with pytest.raises(SchemaError):  # the table is taken away again
        catalog.create_table("shop.u", pa.table({"id": pa.array([None], pa.int32())}), primary_key=["id"])
    catalog.drop_database("shop", cascade=True)
    assert catalog.databases() == [] and external.count() == 1
    assert not table._store.io.list(table.path)


def test_entries_are_those_of_the_client_for_java(catalog: Catalog, glue: Any, options: dict[str, str]) -> None:
    catalog.create_table("shop.t", "id BIGINT COMMENT 'the key', at TIMESTAMP_LTZ, v STRING", options={"bucket": "-1"})
    found = entry(glue)
    assert found["Parameters"].pop("transient_lastDdlTime").isdigit()
    storage = found["StorageDescriptor"]
    assert storage.pop("Columns") == [
        {"Name": "id", "Type": "bigint", "Comment": "the key"},
        {"Name": "at", "Type": "timestamp"},
        {"Name": "v", "Type": "string"},
    ]
    assert storage == {
        "Location": f"{options['warehouse']}/shop.db/t",
        "InputFormat": "org.apache.paimon.hive.mapred.PaimonInputFormat",
        "OutputFormat": "org.apache.paimon.hive.mapred.PaimonOutputFormat",
        "Compressed": False,
        "NumberOfBuckets": 0,
        "StoredAsSubDirectories": False,
        "SerdeInfo": {"SerializationLibrary": "org.apache.paimon.hive.PaimonSerDe", "Parameters": {}},
    }
    assert found["Parameters"] == {
        "bucket": "-1",
        "storage_handler": "org.apache.paimon.hive.PaimonStorageHandler",
        "table_type": "PAIMON",
    }
    assert (found["TableType"], found["Retention"], found["PartitionKeys"]) == ("MANAGED_TABLE", 2**31 - 1, [])


def test_members_that_hive_lacks_outlive_a_change(catalog: Catalog, glue: Any) -> None:
    table = catalog.create_table("shop.t", rows(1))
    known = glue.meta.service_model.shape_for("TableInput").members
    found = {name: member for name, member in entry(glue).items() if name in known}
    found["StorageDescriptor"]["AdditionalLocations"] = ["s3://elsewhere/"]
    found["StorageDescriptor"]["Columns"][0]["Parameters"] = {"own": "1"}
    glue.update_table(DatabaseName="shop", TableInput={**found, "Description": "theirs", "Owner": "somebody"})
    table.alter(add_columns={"long": "INT"}, column_comments={"long": "a\nb" * 200})
    after = entry(glue)
    assert (after["Description"], after["Owner"]) == ("theirs", "somebody")
    assert after["StorageDescriptor"]["AdditionalLocations"] == ["s3://elsewhere/"]
    first, second = after["StorageDescriptor"]["Columns"]
    assert first == {"Name": "id", "Type": "int", "Parameters": {"own": "1"}}
    assert len(second["Comment"]) == 255 and "\n" not in second["Comment"]
    assert catalog.table("shop.t").schema.fields[1].description == "a\nb" * 200


def test_a_change_of_an_older_version_starts_over(catalog: Catalog, glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    update = GlueResponse.update_table
    table, others = catalog.create_table("shop.t", rows(1)), list[str]()

    def comparing(self: Any) -> Any:
        """As Glue does it, and moto does not; another is faster at first."""
        given = self.parameters
        current = self.glue_backend.get_table("shop", "t").as_dict()
        if not others:
            others.append("faster")
            self.glue_backend.update_table("shop", "t", json.loads(json.dumps({**given["TableInput"], "Owner": "x"})))
        if given["VersionId"] != self.glue_backend.get_table("shop", "t").as_dict()["VersionId"]:
            raise JsonRESTError("ConcurrentModificationException", f"not {current['VersionId']}")
        return update(self)

    monkeypatch.setattr(GlueResponse, "update_table", comparing)
    table.alter(set_options={"snapshot.num-retained.max": "77"})
    assert entry(glue)["Owner"] == "x" and entry(glue)["Parameters"]["snapshot.num-retained.max"] == "77"


def test_partitions_follow_the_commits(catalog: Catalog, glue: Any) -> None:
    data = pa.table({"id": [1, 2, 3], "p": ["a", "b/c", None]})
    table = catalog.create_table("shop.t", data, partition_by=["p"], options=PARTS)
    assert names_of_partitions(glue) == ["__DEFAULT_PARTITION__", "a", "b/c"]
    table.append(pa.table({"id": range(106), "p": ["a", *(f"n{i}" for i in range(105))]}))  # more than a request takes
    assert len(names_of_partitions(glue)) == 108
    found = glue.get_partition(DatabaseName="shop", TableName="t", PartitionValues=["b/c"])["Partition"]
    assert found["StorageDescriptor"]["Location"] == f"{table.path}/p=b%2Fc"
    table.alter(add_columns={"x": "INT"})
    for one in glue.get_partitions(DatabaseName="shop", TableName="t")["Partitions"]:
        assert [column["Name"] for column in one["StorageDescriptor"]["Columns"]] == ["id", "x"]
    table.maintenance.drop_partitions("p LIKE 'n%'")
    assert names_of_partitions(glue) == ["__DEFAULT_PARTITION__", "a", "b/c"]
    assert [column["Name"] for column in entry(glue)["PartitionKeys"]] == ["p"]


def test_glue_is_told_again_what_the_files_say(catalog: Catalog, glue: Any) -> None:
    catalog.create_table("shop.t", {"id": [1, 2], "p": ["a", "b"]}, partition_by=["p"], options=PARTS)
    glue.delete_table(DatabaseName="shop", Name="t")
    assert catalog.tables("shop") == []
    assert catalog.repair_table("shop.t").count() == 2
    assert names_of_partitions(glue) == ["a", "b"]
    glue.batch_delete_partition(DatabaseName="shop", TableName="t", PartitionsToDelete=[{"Values": ["a"]}])
    catalog.repair_table("shop.t")
    assert names_of_partitions(glue) == ["a", "b"]


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_lost_answers(catalog: Catalog, server: Server, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)
    fail(server, "GetTable", when)  # sent again
    assert not catalog.exists("shop.t")
    for operation, run, done in (
        ("CreateTable", lambda: catalog.create_table("shop.t", SCHEMA), lambda: catalog.exists("shop.t")),
        ("DeleteTable", lambda: catalog.drop_table("shop.t"), lambda: not catalog.exists("shop.t")),
        ("CreateDatabase", lambda: catalog.create_database("n"), lambda: "n" in catalog.databases()),
        ("DeleteDatabase", lambda: catalog.drop_database("n"), lambda: "n" not in catalog.databases()),
    ):
        failed = fail(server, operation, when)
        if when == BEFORE:
            with pytest.raises(StorageError, match="no response came to"):
                run()
            assert len(failed) == 1 and not done()
        run()
        assert len(failed) == 1 and done()
    table = catalog.create_table("shop.t", SCHEMA)
    failed = fail(server, "UpdateTable", when)
    table.alter(add_columns={"x": "INT"})
    assert len(failed) == 1 and [f.name for f in catalog.table("shop.t").schema.fields] == ["id", "x"]
    failed = fail(server, "GetTable", when, times=99)
    with pytest.raises(StorageError, match="no response came to get_table"):
        catalog.table("shop.t")
    assert len(failed) == 6


@pytest.mark.parametrize(("writers", "commits"), [(3, 2), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side(options: dict[str, str], writers: int, commits: int) -> None:
    catalog = Catalog.open(options)
    catalog.create_database("shop")
    catalog.create_table("shop.t", SCHEMA, options=PATIENT)
    append_side_by_side(lambda: Catalog.open(options).table("shop.t"), rows, writers, commits)
    assert sorted(catalog.table("shop.t").scan().to_arrow()["id"].to_pylist()) == list(range(writers * commits))


def test_entries_that_hive_could_not_have_made(catalog: Catalog, glue: Any) -> None:
    """Of crawlers, Iceberg and links to other catalogs: they lack members."""
    target = {"CatalogId": "123456789012", "DatabaseName": "theirs", "Name": "t"}
    for name, more in (
        ("link", {"TargetTable": target}),
        ("iceberg", {"StorageDescriptor": {"Location": "s3://b/i"}, "Parameters": {"table_type": "ICEBERG"}}),
        ("bare", {}),
    ):
        glue.create_table(DatabaseName="shop", TableInput={"Name": name, **more})
        assert not catalog.exists(f"shop.{name}")
        with pytest.raises(AlreadyExistsError, match="of another kind than Paimon's"):
            catalog.create_table(f"shop.{name}", SCHEMA)
    assert catalog.tables("shop") == []
    with pytest.raises(OptionError, match="other kinds than Paimon's, such as bare"):
        catalog.drop_database("shop", cascade=True)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"lock.enabled": "true"}, UnsupportedError, "AWS Glue has no locks"),
        ({"aws.glue.catalog.separator": "/"}, UnsupportedError, "aws.glue.catalog.separator"),
        ({"metastore.client.class": "com.example.Client"}, UnsupportedError, "is a class of Java"),
        ({"aws.regio": "x"}, OptionError, "aws.region"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_are_refused(given: dict[str, str], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        Catalog.open({"metastore": "hive", "metastore.client.class": CLIENT, "warehouse": "/nowhere", **given})


def test_region_and_credentials(options: dict[str, str], server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bare = {k: v for k, v in options.items() if not k.startswith("s3.")} | {"warehouse": "/nowhere"}
    with pytest.raises(OptionError, match=r"aws\.region"):
        Catalog.open(bare).databases()
    bare["aws.region"] = "eu-west-1"
    with pytest.raises(OptionError, match="AWS Glue needs credentials"):
        Catalog.open(bare).databases()
    assert Catalog.open({**bare, "s3.access-key": "someone", "s3.secret-key": "hush"}).databases() == []
    assert "Credential=someone/" in server.headers[-1]["HTTP_AUTHORIZATION"]
    assert "/eu-west-1/glue/" in server.headers[-1]["HTTP_AUTHORIZATION"]
    server.status = "400 Bad Request"
    fail(server, "GetDatabases", BEFORE)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    with pytest.raises(StorageError, match="AWS Glue refuses get_databases"):
        Catalog.open(bare).databases()
    assert "Credential=from-environment/" in server.headers[-1]["HTTP_AUTHORIZATION"]
    assert "hush" not in repr(Catalog.open(options)._backend._settings)  # type: ignore[attr-defined]
