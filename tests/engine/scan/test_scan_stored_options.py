"""A state that is stored in the table's own options is what scans read that name none, as in Java."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.scan.travel import state_options
from paimon_pyds.errors import OptionError, PaimonError, UnsupportedError
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64())])
LATE = "99999999999999"

READ: list[tuple[dict[str, str], list[int]]] = [
    ({"scan.snapshot-id": "2"}, [1, 2]),
    ({"scan.tag-name": "two"}, [1, 2]),
    ({"scan.timestamp-millis": LATE}, [1, 2, 3, 4]),
    ({"log.scan.timestamp-millis": LATE}, [1, 2, 3, 4]),
    ({"scan.timestamp": "2100-01-01 00:00:00"}, [1, 2, 3, 4]),
    ({"scan.mode": "latest-full"}, [1, 2, 3, 4]),
    ({"scan.mode": "latest"}, [1, 2, 3, 4]),
    ({"scan.mode": "full"}, [1, 2, 3, 4]),
    ({"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}, [1, 2]),
    ({"scan.mode": "from-snapshot", "scan.tag-name": "two"}, [1, 2]),
    ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, [1, 2]),
    ({"scan.mode": "from-timestamp", "scan.timestamp-millis": LATE}, [1, 2, 3, 4]),
    ({"incremental-between": "1,3"}, [2, 3]),
    ({"scan.mode": "incremental", "incremental-between": "1,3"}, [2, 3]),
    ({"incremental-between": "one,four"}, [2, 3, 4]),
    ({"incremental-between": "one,four", "incremental-between-scan-mode": "delta"}, [2, 3, 4]),
    ({"incremental-between": "one,four", "incremental-between-tag-to-snapshot": "true"}, [2, 3, 4]),
    ({"incremental-between-timestamp": f"0,{LATE}"}, [1, 2, 3, 4]),
]
NOT_STORED: list[dict[str, str]] = [
    {"scan.version": "2"},
    {"scan.mode": "from-snapshot"},
    {"scan.mode": "latest-full", "scan.snapshot-id": "2"},
    {"scan.mode": "from-timestamp", "scan.snapshot-id": "2"},
    {"scan.snapshot-id": "2", "scan.tag-name": "two"},
    {"scan.snapshot-id": "2", "incremental-between": "1,3"},
]


def _table(path: Path) -> pp.Table:
    table = pp.Table.create(path, SCHEMA)
    for i in range(1, 5):
        table.append(pa.table({"id": [i]}, SCHEMA))
    return table


def _ids(table: pp.Table, options: dict[str, str] | None = None) -> list[int]:
    scan = table.scan(options=options)
    ids: list[int] = sorted(scan.to_arrow().column("id").to_pylist())
    assert scan.count() == len(ids)
    return ids


def _set(options: dict[str, str]) -> list[dict[str, str]]:
    return [{"op": "set", "key": key, "value": value} for key, value in options.items()]


@requires_java_oracle
def test_stored_states_are_read_as_java_reads_them(tmp_path: Path, oracle: Oracle) -> None:
    table = _table(tmp_path / "db.db" / "t")
    with oracle.batch() as batch:
        for name, snapshot in (("one", 1), ("two", 2), ("four", 4)):
            batch.tag(tmp_path, "db.t", name, snapshot=snapshot)
        java = []
        for options, _ in READ:
            batch.alter(tmp_path, "db.t", *_set(options))
            java.append(batch.read(tmp_path, "db.t"))
            batch.alter(tmp_path, "db.t", *({"op": "reset", "key": key} for key in options))
        refused = [batch.alter(tmp_path, "db.t", *_set(options), allow_fail=True) for options in NOT_STORED]
    for (options, ids), reply in zip(READ, java, strict=True):
        table.alter(options)
        assert sorted(row["id"] for row in reply.values) == _ids(table) == ids, options
        assert _ids(table, {"scan.mode": "latest-full"}) == [1, 2, 3, 4]
        assert _ids(table, {"scan.snapshot-id": "3"}) == [1, 2, 3]
        table.alter(unset_options=list(options))
    for options, reply in zip(NOT_STORED, refused, strict=True):
        assert not reply.ok, options
        with pytest.raises(OptionError):
            table.alter(options)


@requires_java_oracle
def test_a_stored_snapshot_has_its_columns_and_system_tables_and_writers_work_on_the_newest(
    tmp_path: Path, oracle: Oracle
) -> None:
    table = _table(tmp_path / "db.db" / "t")
    table.alter({"scan.snapshot-id": "2"}, add_columns={"late": "INT"})
    table.append(pa.table({"id": [5], "late": [5]}))
    assert table.delete("id IN (1, 4)").rows_deleted == 2
    assert table.scan().schema.field_names == ("id",)
    assert _ids(table) == [1, 2]
    names = ("files", "partitions", "manifests")
    with oracle.batch() as batch:
        java = batch.read(tmp_path, "db.t")
        systems = [batch.read(tmp_path, f"db.t${name}") for name in names]
    assert [row["id"] for row in java.values] == [1, 2]
    for name, reply in zip(names, systems, strict=True):
        assert table.system.read(name).num_rows == len(reply.lines), name
    table.alter(unset_options=["scan.snapshot-id"])
    assert _ids(table) == [2, 3, 5]


@pytest.mark.parametrize("stored", [{"scan.snapshot-id": "9"}, {"scan.tag-name": "gone"}])
def test_a_stored_state_that_is_gone_is_told(tmp_path: Path, stored: dict[str, str]) -> None:
    table = _table(tmp_path / "t")
    table.alter(stored)
    for read in (table.scan, table.count, lambda: table.system.read("files")):
        with pytest.raises(PaimonError, match=next(iter(stored.values()))):
            read()
    assert len(table.snapshots.list()) == 4


def test_differences_have_no_system_tables_of_files(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    table.alter({"incremental-between": "1,3"})
    with pytest.raises(UnsupportedError, match="incremental-between"):
        table.system.read("files")


def test_a_stored_branch_is_refused(tmp_path: Path) -> None:
    """Java reads and writes the branch that a table stores, with the columns of the one that stores it."""
    table = _table(tmp_path / "t")
    with pytest.raises(OptionError, match="another branch"):
        table.alter({"branch": "b"})
    path = tmp_path / "t" / "schema" / "schema-0"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"options": {"branch": "b"}}))
    table = pp.Table.open(tmp_path / "t")
    assert table.options == {"branch": "b"}
    for use in (table.scan, lambda: table.append({"id": [1]}), lambda: table.delete("id = 1"), table.compact):
        with pytest.raises(UnsupportedError, match="branch=b sends"):
            use()


def test_which_state_wins() -> None:
    stored = {"incremental-between": "1,3", "incremental-between-scan-mode": "diff"}
    assert state_options(stored, {"timezone": "UTC"}) == stored | {"timezone": "UTC"}
    assert state_options(stored, {"incremental-between-scan-mode": "delta"})["incremental-between"] == "1,3"
    assert state_options(stored, {"incremental-between": "2,3"}) == {"incremental-between": "2,3"}
    assert state_options(stored, {"log.scan.timestamp-millis": "5"}) == {"scan.timestamp-millis": "5"}
    with pytest.raises(OptionError, match="only one of"):
        state_options({}, {"scan.tag-name": "a", "scan.snapshot-id": "1"})
    with pytest.raises(OptionError, match=r"from-snapshot needs .*, and scan\.timestamp is given"):
        state_options({}, {"scan.mode": "from-snapshot", "scan.timestamp": "2026-01-01"})


_OTHER_ROWS = [
    {"merge-engine": "first-row"}, {"merge-engine": "aggregation"}, {"rowkind.field": "t"}, {"bucket-key": "id"},
    {"deletion-vectors.enabled": "true"}, {"aggregation.remove-record-on-delete": "true"},
]  # fmt: skip
_SAME_ROWS = [{"bucket": "7"}, {"ignore-delete": "true"}, {"changelog-producer": "lookup"}, {"file.format": "orc"}]
_KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("t", pa.string())])


def _keyed(path: Path) -> pp.Table:
    """Two rows of two versions, which another engine, or vectors, would hide or mix."""
    table = pp.Table.create(path, _KEYED, primary_key=["id"], options={"bucket": "1", "write-only": "true"})
    for text in ("old", "new"):
        table.append(pa.table({"id": [1, 2], "t": [text, None]}, _KEYED))
    return table


@pytest.mark.parametrize("options", _OTHER_ROWS, ids=str)
def test_a_scan_does_not_change_what_a_table_is(options: dict[str, str], tmp_path: Path) -> None:
    table = _keyed(tmp_path / "t")
    works: list[Callable[[], object]] = [
        lambda: table.scan(options=options), lambda: table.count(options=options),
        lambda: table.system.audit_log(options=options), lambda: table.lookup([1], options=options),
    ]  # fmt: skip
    for work in works:
        with pytest.raises(OptionError, match=f"{next(iter(options))} is .* here and .* in the table"):
            work()
    assert table.scan(options={"merge-engine": "deduplicate", "deletion-vectors.enabled": "false"}).count() == 2


@requires_java_oracle
@pytest.mark.java
def test_what_java_lets_scans_change(oracle: Oracle, tmp_path: Path) -> None:
    table = _keyed(tmp_path / "db.db" / "t")
    with oracle.batch() as batch:
        refused = [batch.read(tmp_path, "db.t", options=o, allow_fail=True) for o in _OTHER_ROWS]
        read = [batch.read(tmp_path, "db.t", options=o) for o in _SAME_ROWS]
    assert not any(reply.ok for reply in refused)
    for reply, options in zip(read, _SAME_ROWS, strict=True):
        assert reply.lines == lines(table.scan(options=options).to_arrow())
