"""The system tables ``audit_log`` and ``binlog``: what Java gives of the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.ops.system.row_changes import Binlog
from paimon_pyds.scan import Scan
from support.fixtures import fixture_dir, fixture_names, meta, requires_shared, table_path
from support.java_quirks import shows_level_0
from support.oracle import Oracle, requires_java_oracle
from support.values import dumps, expected_lines, in_order, json_rows, lines

NAMES = ("audit_log", "binlog")
REFUSED = {"data_evolution"}
TABLES = [name for name in fixture_names() if name not in REFUSED]
UNORDERED = "a_colld"
"""A column of arrays that are sets."""


def _reads() -> Iterator[Any]:
    for name in fixture_names():
        for read in meta(name)["reads"]:
            table = read.get("table", "").partition("$")[2]
            if table in NAMES:
                yield pytest.param(name, table, read, id=f"{name}-{read['name']}")


def _rows(table: pp.Table, name: str, options: dict[str, str] | None = None) -> pa.Table:
    return (
        table.system.audit_log(options=options) if name == "audit_log" else table.system.binlog(options=options)
    ).to_arrow()


@pytest.mark.parametrize(("name", "table", "read"), list(_reads()))
def test_rows_are_java_s(name: str, table: str, read: dict[str, Any]) -> None:
    rows = _rows(pp.Table.open(table_path(name)), table, read.get("options"))
    assert in_order(lines(rows)) == in_order(expected_lines(fixture_dir(name) / read["expected"]))
    assert rows.schema.names[0] == "rowkind"


def _comparable(rows: list[dict[str, Any]]) -> list[str]:
    def ordered(value: Any) -> Any:
        return sorted(value, key=dumps) if isinstance(value, list) else value

    return in_order(dumps({k: ordered(v) if k == UNORDERED else v for k, v in row.items()}) for row in rows)


def _alone(rows: list[dict[str, Any]], keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Rows of a binlog, without pairs of different keys: Java joins a -U with whatever row follows it."""
    for row in rows:
        if all(len(row[key]) == 1 or row[key][0] == row[key][1] for key in keys):
            yield row
            continue
        for number, kind in enumerate(("-U", row["rowkind"])):
            yield {"rowkind": kind} | {name: [row[name][number]] for name in row if name != "rowkind"}


@requires_java_oracle
def test_rows_of_each_kind_of_table_are_java_s(oracle: Oracle) -> None:
    names = ["pk_aggregation", "pk_dv32_part", "pk_first_row", "pk_partial_update_delete", "pk_orc", "append_dv32"]
    _assert_as_java(oracle, [name for name in names if name in TABLES])


@pytest.mark.long
@requires_shared
@requires_java_oracle
def test_rows_of_all_tables_are_java_s(oracle: Oracle) -> None:
    _assert_as_java(oracle, TABLES)


def _assert_as_java(oracle: Oracle, names: list[str]) -> None:
    """Tables as they are now, and what came after their first snapshots."""
    reads = []
    with oracle.batch() as batch:
        for name in names:
            opened = pp.Table.open(table_path(name))
            last, first = opened.scan().snapshot_id, opened._store.earliest_snapshot_id()
            spans = [{}] if last is None else [{}, {"incremental-between": f"{first},{last}"}]
            for options in spans:
                as_asked = shows_level_0(opened, options)
                for table in NAMES:
                    reply = batch.read(Path(table_path(name)).parents[1], f"db.t${table}", options=as_asked)
                    reads.append((name, table, options, reply))
    wrong = []
    for name, table, options, reply in reads:
        opened = pp.Table.open(table_path(name))
        keys = opened.schema.primary_keys if table == "binlog" else ()
        ours, java = _comparable(json_rows(_rows(opened, table, options))), _comparable([*_alone(reply.values, keys)])
        if ours != java:
            wrong.append((name, table, options, sorted(set(java) - set(ours))[:2], sorted(set(ours) - set(java))[:2]))
    assert not wrong, "\n".join(map(str, wrong))


@requires_java_oracle
def test_updates_are_one_row_of_the_binlog_wherever_batches_end(tmp_path: Path, oracle: Oracle) -> None:
    """With sequence numbers, as the table's own option has it; Java fails where it has to join two rows with them."""
    options = {"bucket": "1", "changelog-producer": "lookup"}
    numbered = {"table-read.sequence-number.enabled": "true"}
    schema = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int32())])
    between = {"incremental-between": "1,6"}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, primary_keys=["id"], options=options)
        for factor in (1, 2, 3):
            batch.write(tmp_path, "db.t", [{"id": i, "v": factor * i} for i in range(20)])
        java = batch.read(tmp_path, "db.t$binlog", options=between)
        batch.alter(tmp_path, "db.t", *({"op": "set", "key": k, "value": v} for k, v in numbered.items()))
        reads = [("audit_log", between), ("audit_log", {}), ("binlog", {})]
        with_numbers = [batch.read(tmp_path, f"db.t${name}", options=options) for name, options in reads]
    table = pp.Table.open(tmp_path / "db.db" / "t")
    for (name, given), reply in zip(reads, with_numbers, strict=True):
        rows = _rows(table, name, given)
        assert in_order(lines(rows)) == in_order(reply.lines)
        assert rows.schema.names == ["rowkind", "_SEQUENCE_NUMBER", "id", "v"]
    assert sum(row["rowkind"] == "+U" for row in java.values) == 40
    for batch_rows in (1, 2, 3, 7, 1000):
        scan = Scan(table._store, options=between, batch_rows=batch_rows)
        rows = Binlog(scan, ["rowkind", "id", "v"]).to_arrow()
        assert in_order(lines(rows)) == in_order(java.lines)


def test_columns_filter_and_limit() -> None:
    table = pp.Table.open(table_path("pk_changelog_input"))
    rows = table.system.audit_log("id = 0", ["g", "rowkind"], options={"incremental-between": "0,3"}).to_arrow()
    assert rows.schema.names == ["g", "rowkind"]
    whole = table.system.audit_log(options={"incremental-between": "0,3"}).to_arrow().to_pylist()
    assert rows.to_pylist() == [{"g": row["g"], "rowkind": row["rowkind"]} for row in whole if row["id"] == 0]
    assert {row["rowkind"] for row in whole} == {"+I", "-U", "+U", "-D"}
    assert table.system.audit_log(limit=3).to_arrow().num_rows == 3
    assert lines(table.system.read("$audit_log")) == lines(table.system.audit_log().to_arrow())
    assert lines(table.system.read("binlog")) == lines(table.system.binlog().to_reader().read_all())
    assert table.system.binlog(["v"], {"incremental-between": "0,3"}).to_arrow().num_rows < len(whole)


def test_what_is_refused(tmp_path: Path) -> None:
    table = pp.Table.open(table_path("pk_changelog_input"))
    with pytest.raises(UnsupportedError, match="binlog"):
        table.system.binlog(options={"incremental-between": "1,3", "incremental-between-scan-mode": "diff"})
    with pytest.raises(SchemaError, match="gg"):
        table.system.audit_log(columns=["rowkind", "gg"])
    options = {"table-read.sequence-number.enabled": "true"}
    append = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    with pytest.raises(UnsupportedError, match="sequence-number"):
        append.system.audit_log(options=options)
