"""Java Paimon and pypaimon-rust on the same tables in an S3 store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support import servers
from support.effort import sampled
from support.oracle import requires_java_oracle
from support.s3_server import Server, serving

pytestmark = requires_java_oracle
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), ("v", pa.string())])
Java = Callable[..., list[str]]


@pytest.fixture
def java(stores_java: Java) -> Java:
    return stores_java


@pytest.fixture(scope="module", params=[pytest.param("moto", marks=pytest.mark.long), "s3proxy"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    pytest.importorskip("moto.server")
    app = None if request.param == "moto" else servers.forwarding(request.getfixturevalue(request.param))
    with serving(app) as running:
        yield running


def _rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int32()), "v": [f"python {i}" for i in ids]}, SCHEMA)


def _read(table: pp.Table) -> list[str]:
    return [f"{row['id']}\t{row['v']}" for row in table.scan().to_arrow().sort_by("id").to_pylist()]


def _of_java(java: Java, options: Mapping[str, str], table: str) -> list[str]:
    return sorted(java(options, "read", table), key=lambda line: int(line.split("\t")[0]))


@pytest.mark.parametrize("keyed", sampled([False, True], 1), ids="keyed={}".format)
def test_java_and_rust_read_and_write_on_s3(java: Java, server: Server, keyed: bool) -> None:
    root = server.bucket()
    options = {**server.options(), "warehouse": f"{root}/wh"}
    java(options, "create", "shop.t", str(keyed).lower())
    java(options, "write", "shop.t", 0, 3, 2)
    catalog = pp.Catalog(options["warehouse"], server.options())
    assert catalog.databases() == ["default", "shop"] and catalog.tables("shop") == ["t"]
    table = catalog.table("shop.t")
    assert _read(table) == [f"{i}\tjava {i}" for i in range(6)]
    table.append(_rows(4, 4))
    table.delete("id = 1")
    table.compact(full=True)
    java(options, "write", "shop.t", 8, 2, 1)
    table = catalog.table("shop.t")
    expected = _read(table)
    assert expected[-1] == "9\tjava 9" and len(expected) == (9 if keyed else 11)
    assert _of_java(java, options, "shop.t") == expected
    own_options = {"bucket": "1"} if keyed else {}
    ours = catalog.create_table("shop.u", SCHEMA, ["id"] if keyed else [], options=own_options)
    ours.append(_rows(0, 5))
    java(options, "write", "shop.u", 5, 5, 1)
    assert _of_java(java, options, "shop.u") == _read(ours)
    rust = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    context = rust.SQLContext()
    context.register_catalog("c", options)
    if not keyed:
        context.sql("INSERT INTO c.shop.u VALUES (10, 'rust 10')")
        assert _read(catalog.table("shop.u"))[-1] == "10\trust 10"
    found = pa.Table.from_batches(context.sql("SELECT id, v FROM c.shop.u")).sort_by("id").to_pylist()
    assert [f"{row['id']}\t{row['v']}" for row in found] == _read(catalog.table("shop.u"))
    ours.tags.create("now")
    ours.branches.create("b", "now")
    java(options, "write", "shop.u$branch_b", 20, 1, 1)
    branch = catalog.table("shop.u$branch_b")
    branch.append(_rows(21, 1))
    assert _read(branch)[-2:] == ["20\tjava 20", "21\tpython 21"]
    assert _of_java(java, options, "shop.u$branch_b") == _read(branch)
    catalog.drop_table("shop.t")
    assert catalog.tables("shop") == ["u"]


@pytest.mark.parametrize("format_", sampled(["parquet", "orc", "avro"], 1))
def test_java_reads_what_maintenance_leaves_in_a_store(java: Java, server: Server, format_: str) -> None:
    root = server.bucket()
    options = {**server.options(), "warehouse": f"{root}/wh"}
    catalog = pp.Catalog(options["warehouse"], server.options())
    catalog.create_database("shop")
    own = {"bucket": "2", "deletion-vectors.enabled": "true", "file.format": format_, "changelog-producer": "lookup"}
    table = catalog.create_table("shop.t", SCHEMA, ["id"], options=own)

    def same(name: str = "shop.t") -> int:
        found = _read(catalog.table(name))
        assert _of_java(java, options, name) == found
        return len(found)

    for first in range(0, 12, 3):
        table.append(_rows(first, 6))
    table.tags.create("early")
    table.delete("id % 5 = 0")
    table.compact(full=True)
    assert same() == 12
    table.snapshots.expire(retain_max=1, retain_min=1)
    table.snapshots.expire_changelogs(everything=True)
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    assert same() == 12
    table.branches.create("b", "early")
    catalog.table("shop.t$branch_b").append(_rows(100, 2))
    assert same("shop.t$branch_b") == 17
    table.maintenance.rescale(3)
    table.maintenance.compact_manifests()
    table.maintenance.analyze()
    assert same() == 12
    table.maintenance.clone(f"{server.bucket()}/wh/shop.db/c", storage_options=server.options())
    table.maintenance.clone(f"{root}/wh/shop.db/c", storage_options=server.options())
    assert same("shop.c") == 12
    table.snapshots.rollback(tag="early")
    assert same() == 15
    table.branches.fast_forward("b")
    java(options, "write", "shop.t", 200, 2, 1)
    assert same() == 19
    assert catalog.table("shop.t").maintenance.verify(deep=True).ok
