"""The REST catalog against Java's test server, with Java's client beside this one."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import RowType
from paimon_pyds.catalog import Catalog
from paimon_pyds.errors import AlreadyExistsError, OptionError, PaimonError, SecurityError, TableNotFoundError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.table import Table
from support.effort import SEED, sampled
from support.java_rest_catalog import JavaRestCatalog, java_rest_catalog
from support.messages import ids_of
from support.oracle import Oracle, requires_java_oracle

pytestmark = requires_java_oracle
SCHEMA = pa.schema([("id", pa.int32()), ("p", pa.string())])


@pytest.fixture(scope="module")
def server(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaRestCatalog]:
    with java_rest_catalog(tmp_path_factory.mktemp("rest")) as running:
        running.java("database", "d")
        yield running


@pytest.fixture
def catalog(server: JavaRestCatalog) -> Catalog:
    return Catalog.open(server.options())


def rows(*values: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": id_, "p": p} for id_, p in values], SCHEMA)


def test_tables_of_either_client(catalog: Catalog, server: JavaRestCatalog) -> None:
    """Created, written and read by both, turn by turn; the server's partitions are those of both."""
    table = catalog.create_table("d.ours", SCHEMA, partition_by=["p"])
    server.java("create", "d.theirs")
    for name in ("d.ours", "d.theirs"):
        catalog.table(name).append(rows((1, "a"), (2, "b")))
        server.java("write", name, "3,b;4,c")
        catalog.table(name).append(rows((5, "")))
        assert server.java("read", name) == "1,a;2,b;3,b;4,c;5,"
        assert ids_of(catalog.table(name)) == [1, 2, 3, 4, 5]
        assert server.java("snapshots", name) == "[1, 2, 3]"
    assert server.java("partitions", "d.ours") == server.java("partitions", "d.theirs") == (
        "{{p=__DEFAULT_PARTITION__}=1 rows, 1 files, {p=a}=1 rows, 1 files, {p=b}=2 rows, 2 files, "
        "{p=c}=1 rows, 1 files}"
    )  # fmt: skip
    table.maintenance.drop_partitions([{"p": "a"}, {"p": "c"}])
    table.delete("id = 2")
    assert server.java("partitions", "d.ours") == ("{{p=__DEFAULT_PARTITION__}=1 rows, 1 files, {p=b}=1 rows, 1 files}")
    assert server.java("read", "d.ours") == "3,b;5,"
    catalog.drop_table("d.theirs")
    assert catalog.tables("d") == ["ours"]
    server.java("drop", "d.ours")
    assert catalog.tables("d") == []


def test_columns_and_options(catalog: Catalog, server: JavaRestCatalog) -> None:
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.int32())])))])
    schema = pa.schema([("id", pa.int32()), ("r", nested), ("m", pa.map_(pa.string(), pa.int32())), ("x", pa.string())])
    table = catalog.create_table("d.columns", schema, options={"file-index.bitmap.columns": "x,id"})
    row = {"id": 1, "r": {"a": 2, "b": [{"c": 3}]}, "m": [("k", 4)], "x": "t"}
    table.append(pa.Table.from_pylist([row], schema))

    def java() -> str:
        return server.java("schema", "d.columns").replace("`", "")

    table.alter(
        {"snapshot.num-retained.max": 20},
        rename_columns={"x": "y", "r.a": "z"},
        add_columns={"r.b.element.d": "STRING", "n": "INT", "last": pa.struct([("q", pa.int32())])},
        change_types={"id": "BIGINT", "r.z": "BIGINT", "m": pa.map_(pa.string(), pa.int64())},
        move_columns={"n": "first", "id": "after m"},
        column_comments={"y": "what it is"},
        comment="new",
    )
    expected = "ROW<n INT, r ROW<z BIGINT, b ARRAY<ROW<c INT, d STRING>>>, m MAP<STRING NOT NULL, BIGINT>, id BIGINT, "
    expected += "y STRING COMMENT 'what it is', last ROW<q INT>>"
    assert java() == f"1 {expected} new"
    table = catalog.table("d.columns")
    found = table.schema
    assert [field.name for field in found.fields] == ["n", "r", "m", "id", "y", "last"]
    assert found.options["file-index.bitmap.columns"] == "y,id"
    assert server.java("option", "d.columns", "snapshot.num-retained.max") == "20"
    assert table.scan("y = 't' AND id = 1").to_arrow().to_pylist() == [
        {"n": None, "r": {"z": 2, "b": [{"c": 3, "d": None}]}, "m": [("k", 4)], "id": 1, "y": "t", "last": None}
    ]
    table.alter(unset_options=["snapshot.num-retained.max"], drop_columns=["n", "r.b"], comment=None)
    assert (
        java() == "2 ROW<r ROW<z BIGINT>, m MAP<STRING NOT NULL, BIGINT>, id BIGINT, y STRING COMMENT 'what it is', "
        "last ROW<q INT>> null"
    )
    assert server.java("option", "d.columns", "snapshot.num-retained.max") == "null"
    table.alter(change_nullability={"m": True}, column_defaults={"y": "none"})
    table.append([{"id": 2}])
    assert [row["y"] for row in table.scan("id = 2").to_arrow().to_pylist()] == ["none"]
    table.alter()
    server.java("add", "d.columns", "more")
    assert [field.name for field in catalog.table("d.columns").schema.fields][-1] == "more"
    with pytest.raises(PaimonError, match="already exists"):
        catalog.table("d.columns").alter(add_columns={"more": "INT"})


_FRESH = itertools.count()


def _random_changes(schema: TableSchema, choice: random.Random) -> dict[str, Any]:
    """Changes that fit a schema, each column in one of them."""
    names = [f.name for f in schema.fields]
    choice.shuffle(names)
    new = (f"c{n}" for n in _FRESH)
    rows = [f.name for f in schema.fields if isinstance(f.type, RowType)]
    changes: dict[str, Any] = {"add_columns": {}, "move_columns": {}, "drop_columns": [], "rename_columns": {},
                               "change_types": {}, "column_comments": {}, "column_defaults": {}}  # fmt: skip
    for _ in range(choice.randint(1, 4)):
        kind, name = choice.choice([*changes, "add inside", "options"]), names.pop()
        numbers = {f.name for f in schema.fields if str(f.type) == "INT"}
        if kind == "add_columns":
            changes[kind][next(new)] = choice.choice(["INT", "STRING", pa.struct([("a", pa.int32())])])
        elif kind == "add inside" and rows:
            changes["add_columns"][f"{choice.choice(rows)}.{next(new)}"] = "INT"
        elif kind == "drop_columns" and len(names) > 4 and name not in rows:
            changes[kind].append(name)
        elif kind == "rename_columns" and name not in rows:
            changes[kind][name] = next(new)
        elif kind == "change_types" and name in numbers:
            changes[kind][name] = "BIGINT"
        elif kind == "move_columns":
            changes[kind][name] = choice.choice(["first", "last"])
        elif kind == "options":
            changes["set_options"] = {"snapshot.num-retained.max": str(choice.randint(20, 99))}
        elif kind.startswith("column"):
            changes[kind][name] = str(choice.randint(1, 9)) if kind == "column_comments" or name in numbers else None
        if not names:
            break
    return changes


@pytest.mark.parametrize("alters", [30, pytest.param(400, marks=pytest.mark.long)])
def test_random_changes_are_what_they_are_by_files(
    catalog: Catalog, server: JavaRestCatalog, tmp_path: Path, alters: int
) -> None:
    schema = pa.schema([(f"a{n}", pa.int32()) for n in range(5)] + [("r", pa.struct([("x", pa.int32())]))])
    ours = Table.create(tmp_path / "t", schema)
    theirs = catalog.create_table(f"d.random{alters}", schema)
    choice = random.Random(SEED)
    for _ in range(alters):
        changes = _random_changes(ours.schema, choice)
        ours.alter(**changes)
        theirs.alter(**changes)
        a, b = (
            ([(f.name, str(f.type), f.description, f.default) for f in s.fields], s.options, s.highest_field_id)
            for s in (ours.schema, theirs.schema)
        )
        assert a == b, changes


def test_names_that_go_round(catalog: Catalog, server: JavaRestCatalog) -> None:
    table = catalog.create_table("d.names", pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32())]))
    table.alter(rename_columns={"c": "d", "b": "c", "a": "b"})
    assert server.java("schema", "d.names").startswith("1 ROW<`b` INT, `c` INT, `d` INT>")
    with pytest.raises(PaimonError, match="alter it twice"):
        table.alter(rename_columns={"b": "x", "c": "b", "x": "c"})


def test_branches_tags_rollback_and_expiry(catalog: Catalog, server: JavaRestCatalog) -> None:
    table = catalog.create_table("d.states", SCHEMA)
    for id_ in range(4):
        table.append(rows((id_, "x")))
    table.tags.create("two", snapshot=2)
    server.java("tag", "d.states", "four")
    assert server.java("tags", "d.states") == "[four, two]"
    assert sorted(table.tags.list()) == ["four", "two"]
    table.branches.create("ours", tag="two")
    server.java("branch", "d.states", "theirs", "four")
    assert server.java("branches", "d.states") == "[ours, theirs]"
    with pytest.raises(AlreadyExistsError):
        table.branches.create("theirs")
    branch = catalog.table("d.states$branch_theirs")
    branch.append(rows((9, "b")))
    assert ids_of(branch) == [0, 1, 2, 3, 9]
    assert ids_of(table) == [0, 1, 2, 3]
    server.java("write", "d.states$branch_theirs", "91,b")
    assert ids_of(catalog.table("d.states$branch_theirs")) == [0, 1, 2, 3, 9, 91]
    table.branches.delete("ours")
    assert server.java("branches", "d.states") == "[theirs]"
    table.branches.fast_forward("theirs")
    assert server.java("read", "d.states") == "0,x;1,x;2,x;3,x;9,b;91,b"
    assert ids_of(catalog.table("d.states")) == [0, 1, 2, 3, 9, 91]
    table.snapshots.rollback(3)
    assert (server.java("snapshots", "d.states"), ids_of(table)) == ("[1, 2, 3]", [0, 1, 2])
    table.append(rows((5, "x")))
    server.java("rollback", "d.states", "3")
    assert ids_of(catalog.table("d.states")) == [0, 1, 2]
    table.snapshots.rollback(tag="two")
    assert (server.java("read", "d.states"), ids_of(table)) == ("0,x;1,x", [0, 1])
    for id_ in range(2, 6):
        table.append(rows((id_, "x")))
    table.snapshots.expire(retain_max=2, retain_min=1)
    assert server.java("snapshots", "d.states") == "[5, 6]"
    server.java("expire", "d.states")
    assert ids_of(catalog.table("d.states")) == [0, 1, 2, 3, 4, 5]
    assert table.scan(tag="two").count() == 2
    assert catalog.table("d.states").maintenance.verify().ok


def test_java_goes_on_after_maintenance(catalog: Catalog, server: JavaRestCatalog) -> None:
    table = catalog.create_table("d.key", SCHEMA, primary_key=["id"], options={"bucket": 2})
    expected: dict[int, str] = {}

    def check(number: int) -> None:
        server.java("write", "d.key", f"{number},java;1,{number}")
        table.append(rows((number + 1, "ours")))
        expected.update({number: "java", 1: str(number), number + 1: "ours"})
        texts = sorted(f"{id_},{p}" for id_, p in expected.items())
        assert server.java("read", "d.key") == ";".join(texts)
        assert table.scan().to_arrow().sort_by("id").to_pylist() == [
            {"id": id_, "p": p} for id_, p in sorted(expected.items())
        ]

    check(10)
    table.compact(full=True)
    check(20)
    table.maintenance.rescale(4)
    check(30)
    table.update({"p": "'new'"}, "id = 20")
    expected[20] = "new"
    check(40)
    table.truncate()
    expected.clear()
    check(50)
    table.maintenance.compact_manifests()
    table.maintenance.analyze()
    table.maintenance.repair()
    check(60)
    table.maintenance.remove_orphan_files(older_than="0 s", dry_run=False)
    check(70)
    assert catalog.table("d.key").maintenance.verify().ok
    table.maintenance.purge(confirm="key")
    expected.clear()
    check(80)


def test_external_tables(catalog: Catalog, server: JavaRestCatalog, tmp_path: Path) -> None:
    """They commit, and have branches and tags, by files. (The server can't alter them.)"""
    Table.create(tmp_path / "t", SCHEMA)
    server.java("external", "d.external", str(tmp_path / "t"))
    table = catalog.table("d.external")
    assert table.path == str(tmp_path / "t")
    table.append(rows((1, "a")))
    server.java("write", "d.external", "2,b")
    table.tags.create("two")
    table.branches.create("b", tag="two")
    assert server.java("read", "d.external") == "1,a;2,b"
    table.snapshots.rollback(1)
    assert (server.java("read", "d.external"), ids_of(catalog.table("d.external"))) == ("1,a", [1])
    table.branches.delete("b")
    catalog.drop_table("d.external")
    assert ids_of(Table.open(tmp_path / "t")) == [1]


@pytest.mark.parametrize("algorithm", sampled(["default", "openapi"], 1))
def test_signatures_of_dlf(tmp_path: Path, server: JavaRestCatalog, algorithm: str) -> None:
    """Java's server computes each signature itself; names have all that is encoded."""
    key = ("canary-id", "canary-secret", "canary-session")
    with java_rest_catalog(tmp_path, *key, algorithm) as signed:
        file = tmp_path / "key.json"
        names = ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")
        file.write_text(json.dumps(dict(zip(names, (*key, "2090-01-01T00:00:00Z"), strict=True))))
        options = {"token.provider": "dlf", "dlf.region": "cn-hangzhou", "dlf.token-path": str(file)}
        options["dlf.signing-algorithm"] = algorithm
        opened = {k: v for k, v in signed.options(**options).items() if k != "token"}
        catalog = Catalog.open(opened)
        catalog.create_database("d ü+~*")
        table = catalog.create_table("d ü+~*.t %", SCHEMA)
        table.append(rows((1, "a")))
        assert (catalog.databases(), catalog.tables("d ü+~*"), ids_of(table)) == (["d ü+~*"], ["t %"], [1])
        table.branches.create("b c+d")
        assert table.branches.list() == ["b c+d"]
        signed.java("database", "d")
        signed.java("create", "d.t")
        catalog.table("d.t").append(rows((1, "a")))
        assert signed.java("read", "d.t") == "1,a"
        with pytest.raises(SecurityError, match="signature") as caught:
            wrong = file.with_name("wrong.json")
            wrong.write_text(file.read_text().replace("canary-secret", "canary-other"))
            Catalog.open({**opened, "dlf.region": "cn-other", "dlf.token-path": str(wrong)})
        assert "canary" not in str(caught.value)


def test_views_are_no_tables(catalog: Catalog, server: JavaRestCatalog) -> None:
    catalog.create_database("views")
    server.java("view", "views.v")
    catalog.create_table("views.t", SCHEMA)
    assert catalog.tables("views") == ["t"]
    with pytest.raises(TableNotFoundError, match="no table v"):
        catalog.table("views.v")


def test_what_the_server_refuses(catalog: Catalog, server: JavaRestCatalog) -> None:
    with pytest.raises(SecurityError, match="check the token"):
        Catalog.open(server.options(token="canary-other"))
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("d")
    table = catalog.create_table("d.refused", SCHEMA)
    table.branches.create("b")
    table.branches.rename("b", "c")
    assert server.java("branches", "d.refused") == "[c]"
    with pytest.raises(OptionError, match="bucket"):
        catalog.create_table("d.wrong", SCHEMA, options={"bucket": 4})
