"""Queries on system tables: Java's columns, filters, and those of whole warehouses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, PredicateError, SchemaError, TableNotFoundError
from paimon_pyds.ops.system import scan as system_scan
from paimon_pyds.ops.system.tables import NAMES
from paimon_pyds.ops.system.warehouse import WAREHOUSE_TABLES
from paimon_pyds.scan import Scan
from support.counting_io import counted
from support.oracle import Oracle, requires_java_oracle
from support.values import json_rows

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.string(), False), ("v", pa.int32())])


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """Three snapshots of a table with a primary key, in two partitions."""
    options = {"bucket": "1", "partition.legacy-name": "false", "owner": "me", "fields.v.ignore-retract": "true"}
    made = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA, ["id", "p"], ["p"], options)
    for value in range(3):
        made.append(pa.table({"id": [1, 2, 3], "p": ["x", "x", "y"], "v": [value] * 3}, schema=SCHEMA))
    pp.Table.create(tmp_path / "default.db" / "u", pa.schema([("a", pa.int32())]))
    return made


def _fields(table: pp.Table, name: str) -> tuple[DataField, ...]:
    found = table.system.scan(name)
    return found.schema.fields if isinstance(found, Scan) else found.table_fields  # type: ignore[attr-defined,no-any-return]


@requires_java_oracle
def test_columns_and_types_are_java_s(oracle: Oracle, tmp_path: Path, table: pp.Table) -> None:
    """Names, types, NOT NULL and order; columns of later versions follow those of 1.4."""
    java: dict[str, list[list[str]]] = {}
    for line in oracle.program("SystemTypesOracle", tmp_path, "db", "t"):
        name, *column = line.split("\t")
        java.setdefault(name, []).append(column)
    assert {f"db.t${name}" for name in NAMES} - java.keys() == {"db.t$row_tracking", "db.t$file_indexes"}
    for name, columns in java.items():
        if name.startswith("sys."):
            fields = WAREHOUSE_TABLES[name.removeprefix("sys.")][0]
        else:
            fields = _fields(table, name.partition("$")[2])
        ours = [[f.name, str(f.type).replace("`", "")] for f in fields[: len(columns)]]
        assert ours == [[n, type_.replace("`", "")] for n, type_ in columns], name


@requires_java_oracle
def test_tables_of_a_warehouse_are_java_s(oracle: Oracle, tmp_path: Path, table: pp.Table) -> None:
    with oracle.batch() as batch:
        java = {name: batch.read(tmp_path, f"sys.{name}") for name in WAREHOUSE_TABLES}
    catalog = pp.Catalog(tmp_path)

    def comparable(rows: list[dict[str, Any]]) -> list[str]:
        places = ("path", "warehouse")
        kept = [{k: v for k, v in row.items() if k != "value" or row["key"] not in places} for row in rows]
        return sorted(map(str, kept))

    for name, reply in java.items():
        assert comparable(json_rows(catalog.system.read(f"sys.{name}"))) == comparable(reply.values), name
    assert catalog.system.read("tables", "table_name = 't'", columns=["owner", "primary_key"]).to_pylist() == [
        {"owner": "me", "primary_key": True}
    ]


def test_filters_columns_and_limits(table: pp.Table) -> None:
    whole = table.system.read("files").to_pylist()
    assert [row["partition"] for row in whole].count("{x}") == 3
    where = "partition IN ('{x}', '{z}') AND record_count * 2 > 3 AND min_value_stats LIKE '%v=1%'"
    found = table.system.read("files", where, columns=["max_key", "bucket"])
    assert found.to_pylist() == [{"max_key": "[2]", "bucket": 0}]
    assert table.system.read("files", where, columns="max_key, bucket").equals(found)
    assert table.system.audit_log(columns="rowkind").to_arrow().column_names == ["rowkind"]
    assert table.system.read("files", limit=2).num_rows == 2
    assert table.system.read("files", options={"scan.snapshot-id": 1}).num_rows == 2
    assert table.system.read("snapshots", "snapshot_id BETWEEN 2 AND 7", columns=["snapshot_id"]).num_rows == 2
    assert table.system.read("ro", "id = 3", columns=["v"]).num_rows == 0
    changes = table.system.read("audit_log", "rowkind = '+I' AND v = 1", options={"incremental-between": "0,3"})
    assert changes.num_rows == 3
    assert table.system.read("binlog", "rowkind = '-D'").num_rows == 0
    assert table.system.read("binlog", columns=["v"], limit=1).to_pylist() == [{"v": [2]}]


def test_filters_keep_files_closed(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and schemas that the filter leaves out are not read; statistics that nobody wants are not made."""
    store, io = counted(table.path)
    pp.Table(store).system.read("snapshots", "snapshot_id = 2")
    assert [name for name, _ in io.read if name.startswith("snapshot-")] == ["snapshot-2"]
    monkeypatch.setattr("paimon_pyds.ops.system.file_tables._Statistics", None)
    assert table.system.read("files", columns=["level"]).num_rows == 6


def test_rows_come_in_batches(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_scan, "BATCH_ROWS", 2)
    sizes = [batch.num_rows for batch in table.system.scan("files").to_batches()]
    assert max(sizes) <= 2
    assert sum(sizes) == 6


def test_names_that_are_none(tmp_path: Path, table: pp.Table) -> None:
    catalog = pp.Catalog(tmp_path)
    for name, hint in (("sys.tabels", "tables"), ("db.t$flies", "files"), ("db.t", "db.t\\$files")):
        with pytest.raises(OptionError, match=hint):
            catalog.system.read(name)
    with pytest.raises(OptionError, match="no options"):
        catalog.system.read("tables", options={"scan.snapshot-id": 1})
    with pytest.raises(TableNotFoundError, match="did you mean"):
        catalog.system.read("db.tt$files")
    with pytest.raises(SchemaError, match="bucket"):
        table.system.read("files", columns=["bukket"])
    with pytest.raises(PredicateError, match=r"\n +levle > 0\n +\^"):
        table.system.read("files", "levle > 0")
    with pytest.raises(OptionError, match="negative"):
        table.system.read("files", limit=-1)
    with pytest.raises(OptionError, match=r"scan\.snapshot-id"):
        table.system.read("files", options={"scan.snapshot-idd": 1})


def test_command_line(tmp_path: Path, table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["system", "read", table.path, "files", "--filter", "partition = '{y}'", "--columns", "bucket",
                 "--limit=1", "--output=json"]) == 0  # fmt: skip
    assert capsys.readouterr().out == '{"bucket":0}\n'
    for name in WAREHOUSE_TABLES:
        assert main(["system", "read", "--warehouse", str(tmp_path), name]) == 0
    capsys.readouterr()
    assert main(["system", "read", "--warehouse", str(tmp_path), "db.t$snapshots", "--filter=snapshot_id = 3",
                 "--columns=schema_id", "--output=json"]) == 0  # fmt: skip
    assert capsys.readouterr().out == '{"schema_id":0}\n'
    assert main(["system", "read", "files"]) == 1
    assert main(["system", "read", table.path, "files", "--warehouse", str(tmp_path)]) == 1


def test_each_system_table_on_the_command_line(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        assert main(["system", "read", table.path, name]) == (1 if name == "row_tracking" else 0), name
