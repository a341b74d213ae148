"""Java Paimon and this package in the same Hive metastore; at once in tests/java/interop/test_interop_at_once.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import AlreadyExistsError, CommitError
from support.oracle import Oracle, requires_java_oracle

pytest.importorskip("pymetastore")
pytestmark = requires_java_oracle
Java = Callable[..., list[str]]
SCHEMA = pa.schema([pa.field("id", pa.int32()), ("v", pa.string())])
PARTS = "id INT, p STRING"
RICH = """id BIGINT COMMENT 'the key', day DATE, flag BOOLEAN, tiny TINYINT, small SMALLINT, number INT, single FLOAT,
wide DOUBLE, price DECIMAL(20, 3), code CHAR(5), long_code CHAR(300), name VARCHAR(30), long_name VARCHAR(70000),
text STRING COMMENT 'any', bytes BYTES, few BINARY(4), clock TIME(3), at TIMESTAMP(6),
list ARRAY<ROW<a INT, b MAP<STRING, DECIMAL(5, 1)>>>, many MULTISET<STRING>, variant VARIANT"""


@pytest.fixture
def options(hive_metastore: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    found = {"metastore": "hive", "uri": hive_metastore, "warehouse": str(tmp_path / "wh")}
    yield {**found, "lock.enabled": "true", "lock-check-max-sleep": "100 ms"}
    catalog = pp.Catalog.open(found)
    for name in catalog.databases():
        if name != "default":
            catalog.drop_database(name, cascade=True)


@pytest.fixture
def java(oracle: Oracle, tmp_path: Path, options: dict[str, str]) -> Java:
    """A command of HiveOracle, or of another program; options of the catalog may be added."""

    def run(*arguments: object, program: str = "HiveOracle", more: Mapping[str, str] = {}) -> list[str]:
        file = tmp_path / "options"
        file.write_text(
            "".join(f"{key}={value}\n" for key, value in {**options, "cache-enabled": "false", **more}.items())
        )
        return oracle.program(program, file, *arguments)

    return run


def entry(catalog: pp.Catalog, database: str, table: str) -> dict[str, Any]:
    """What the metastore has of a table, with nothing of when it was made and where."""
    found = catalog._backend._client.call("get_table", database, table)  # type: ignore[attr-defined]

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        return {k: plain(v) for k, v in vars(value).items()} if hasattr(value, "__dict__") else value

    members: dict[str, Any] = plain(found)
    parameters = members["parameters"]
    location = parameters.pop("paimon_location", members["sd"].pop("location"))
    assert location.removeprefix("file:") == catalog.path(f"{database}.{table}")
    for changing in ("transient_lastDdlTime", "totalSize", "numFiles"):  # the metastore's own
        parameters.pop(changing, None)
    for changing in ("createTime", "lastAccessTime", "tableName"):
        members.pop(changing)
    return members


def named_partitions(catalog: pp.Catalog, database: str, table: str) -> dict[str, Any]:
    found = catalog._backend._client.call("get_partitions", database, table, -1)  # type: ignore[attr-defined]
    return {
        "/".join(one.values): (one.sd.location, [c.name for c in one.sd.cols], one.sd.inputFormat, one.tableName)
        for one in found
    }


@pytest.mark.parametrize(
    ("table_options", "catalog_options"),
    [
        ({"bucket": "2", "hive.kept": "1", "partition.expiration-time": "900 d", "write-only": "true"}, {}),
        ({"bucket": "1", "metastore.partitioned-table": "true", "external": "true", "write-only": "true"}, {}),
        ({"bucket": "2", "hive.kept": "1", "write-only": "true"}, {"sync-all-properties": "false"}),
        ({"bucket": "-1", "write-only": "true"}, {"table.type": "external"}),
        ({"bucket": "1", "write-only": "true"}, {"location-in-properties": "true"}),
    ],
    ids=["plain", "partitioned", "few", "external", "in-properties"],
)
def test_metadata_is_that_of_java(
    java: Java, options: dict[str, str], table_options: dict[str, str], catalog_options: dict[str, str]
) -> None:
    catalog = pp.Catalog.open({**options, **catalog_options})
    java("database", "shop", more=catalog_options)
    given = [f"{key}={value}" for key, value in table_options.items()]
    java("rich", "shop.java", *given, more=catalog_options)
    catalog.create_table("shop.ours", RICH, ["id", "day"], ["day"], table_options, comment="rich")
    assert entry(catalog, "shop", "ours") == entry(catalog, "shop", "java")
    shown = [java("columns", f"shop.{name}", more=catalog_options) for name in ("ours", "java")]
    assert shown[0] == shown[1]
    java("add", "shop.java", "more", more=catalog_options)
    changes = {"set_options": {"snapshot.num-retained.max": 77}, "unset_options": ["write-only"]}
    added = {"more": "STRING"}
    catalog.alter_table("shop.ours", add_columns=added, column_comments={"more": "added"}, **changes)  # type: ignore[arg-type]
    assert entry(catalog, "shop", "ours") == entry(catalog, "shop", "java")
    assert java("tables", "shop", more=catalog_options) == catalog.tables("shop") == ["java", "ours"]


def test_each_side_changes_what_the_other_made(java: Java, options: dict[str, str]) -> None:
    catalog = pp.Catalog.open(options)
    catalog.create_database("shop")
    catalog.create_table("shop.ours", {"id": pa.array([1], pa.int32()), "v": ["python 1"]}, options={"bucket": "-1"})
    java("create", "shop.java", "false", program="CatalogOracle")
    for table in ("shop.ours", "shop.java"):
        java("write", table, 2, 2, 1, program="CatalogOracle")
        catalog.table(table).append(rows(4, 1))
        expected = [f"{row['id']}\t{row['v']}" for row in catalog.table(table).scan().to_arrow().to_pylist()]
        assert sorted(java("read", table, program="CatalogOracle")) == sorted(expected)
    java("rename", "shop.ours", "shop.renamed")
    catalog.rename_table("shop.java", "shop.also")
    assert catalog.tables("shop") == java("tables", "shop") == ["also", "renamed"]
    assert len(java("read", "shop.also", program="CatalogOracle")) == 3 and catalog.table("shop.renamed").count() == 4
    catalog.drop_table("shop.renamed")
    java("drop", "shop.also")
    java("view", "shop.a_view")
    assert (catalog.tables("shop"), catalog.views("shop")) == ([], ["a_view"])
    assert not list(Path(options["warehouse"], "shop.db").iterdir())
    with pytest.raises(AlreadyExistsError, match=r"view shop\.a_view already exists"):
        catalog.create_table("shop.a_view", SCHEMA)


def test_partitions_are_those_of_java(java: Java, options: dict[str, str]) -> None:
    catalog = pp.Catalog.open(options)
    catalog.create_database("shop")
    given = {"metastore.partitioned-table": "true", "bucket": "-1"}
    java("partitioned", "shop.java", *(f"{key}={value}" for key, value in given.items()))
    catalog.create_table("shop.ours", PARTS, partition_by=["p"], options=given)
    for table in ("shop.java", "shop.ours"):  # each side writes to both, in turn
        java("write", table, "1,a", "2,b c", "3,d/e")
        data = pa.table({"id": pa.array([4, 5], pa.int32()), "p": ["a", "f=g"]})
        catalog.table(table).append(data)
    first = named_partitions(catalog, "shop", "java")
    assert sorted(first) == ["a", "b c", "d/e", "f=g"]
    renamed = {
        name: (place.replace("/java/", "/ours/"), columns, form, "ours")
        for name, (place, columns, form, _) in first.items()
    }
    assert named_partitions(catalog, "shop", "ours") == renamed
    catalog.table("shop.java").maintenance.drop_partitions("p = 'b c'")
    java("drop-partition", "shop.ours", "b c")
    assert sorted(named_partitions(catalog, "shop", "java")) == ["a", "d/e", "f=g"]
    assert sorted(named_partitions(catalog, "shop", "ours")) == ["a", "d/e", "f=g"]


def test_a_repaired_table_is_that_of_java(java: Java, options: dict[str, str]) -> None:
    catalog = pp.Catalog.open(options)
    catalog.create_database("shop")
    client = catalog._backend._client  # type: ignore[attr-defined]
    found = []
    for repair in (lambda: java("repair", "shop.t"), lambda: catalog.repair_table("shop.t")):
        more = {"metastore.partitioned-table": "true", "write-only": "true"}
        table = catalog.create_table("shop.t", {"id": [1], "p": ["a b"]}, partition_by=["p"], options=more)
        client.call("drop_table", "shop", "t", False)
        by_path = pp.Table.open(table.path)
        repair()
        first = entry(catalog, "shop", "t")
        by_path.alter(
            add_columns={"x": "INT"}, set_options={"snapshot.num-retained.max": 77}, unset_options=["write-only"]
        )
        by_path.append({"id": [2], "p": ["c"], "x": [1]})
        repair()
        found.append((first, entry(catalog, "shop", "t"), named_partitions(catalog, "shop", "t")))
        catalog.drop_table("shop.t")
    for of_java, ours in zip(*found, strict=True):
        of_java.get("parameters", {}).pop("path", None)  # Java's has the location twice, if it was repaired
        assert ours == of_java
    assert sorted(found[1][2]) == ["a b", "c"]


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [f"python {i}" for i in ids]}, SCHEMA)


def test_java_s_lock_keeps_us_out_and_ours_java(java: Java, options: dict[str, str], tmp_path: Path) -> None:
    catalog = pp.Catalog.open(options)
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", SCHEMA, options={"bucket": "-1"})
    held, left = tmp_path / "held", tmp_path / "left"
    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(java, "hold", "shop.t", 1200, held, left)
        while not held.exists():
            assert not holding.done(), holding.result()
            time.sleep(0.01)
        impatient = pp.Catalog.open({**options, "lock-acquire-timeout": "100 ms"}).table("shop.t")
        with pytest.raises(CommitError, match=r"the lock shop\.t was not free"):
            impatient.append(rows(0, 1))
        table.append(rows(1, 1))
        assert left.exists()
        holding.result()
    assert table.count() == 1
