"""Streaming readers of other engines: what they have yet to read stays, until they are set on or forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.cli.main import main
from paimon_pyds.errors import CorruptFileError, NotFoundError, OptionError, SnapshotNotFoundError
from paimon_pyds.metadata.intents import begin_expiry
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from support.memory_io import MemoryIO
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("id", pa.int64())])


def _made(path: Path) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, options={"write-only": "true"})
    for number in range(6):
        table.append(pa.table({"id": [number]}, _SCHEMA))
    return table


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """Six snapshots."""
    return _made(tmp_path / "t")


def test_positions_are_set_and_forgotten(table: pp.Table) -> None:
    assert table.maintenance.consumers() == {}
    assert table.maintenance.reset_consumer("a", 2, dry_run=True) is None
    assert table.maintenance.consumers() == {}
    assert table.maintenance.reset_consumer("a", 2) is None
    assert table.maintenance.reset_consumer("b", 7) is None, "the next snapshot"
    assert table.maintenance.reset_consumer("a", 4) == 2
    assert table.maintenance.consumers() == {"a": 4, "b": 7}
    assert table.snapshots.expire(retain_max=1).snapshots == 3, "the first reader has the fourth before it"
    assert table.maintenance.reset_consumer("a", dry_run=True) == 4
    assert table.maintenance.consumers() == {"a": 4, "b": 7}
    assert table.maintenance.reset_consumer("a") == 4
    assert table.snapshots.expire(retain_max=1).snapshots == 2
    assert table.maintenance.consumers() == {"b": 7}
    assert table.maintenance.verify().ok


def test_those_that_match_are_forgotten(table: pp.Table) -> None:
    def names() -> list[str]:
        return sorted(table.maintenance.consumers())

    for name in ("job-1", "job-2", "other", "jobs"):
        table.maintenance.reset_consumer(name, 1)
    assert table.maintenance.clear_consumers("job-.", dry_run=True).consumers == ("job-1", "job-2")
    assert table.maintenance.clear_consumers("job.*", "job-1").consumers == ("job-2", "jobs")
    assert names() == ["job-1", "other"]
    assert table.maintenance.clear_consumers(excluding="o.*").consumers == ("job-1",)
    assert "1 consumer would go" in repr(table.maintenance.clear_consumers(dry_run=True))
    table.maintenance.clear_consumers()
    assert names() == []


def test_what_a_reader_kept_goes_with_it(table: pp.Table) -> None:
    for forget in (
        lambda: table.maintenance.reset_consumer("a"),
        lambda: table.maintenance.clear_consumers("a"),
        lambda: table.maintenance.clear_consumers(excluding="b"),
    ):
        for name in ("a", "b"):
            table.maintenance.reset_consumer(name, 2)
            table.maintenance.reset_consumer(f"{name}.retained", 1)
        assert table.maintenance.consumers() == {"a": 2, "a.retained": 1, "b": 2, "b.retained": 1}
        forget()
        assert table.maintenance.consumers() == {"b": 2, "b.retained": 1}
    table.maintenance.reset_consumer("b", 4)
    assert table.maintenance.consumers() == {"b": 4}
    table.maintenance.reset_consumer("b.retained", 3)
    table.maintenance.clear_consumers("b", excluding=r"b\.retained")
    assert table.maintenance.consumers() == {"b.retained": 3}
    table.maintenance.reset_consumer("b")
    assert table.maintenance.consumers() == {}


@pytest.mark.parametrize("data", [b"", b"{}"])
def test_a_damaged_position_is_set_or_forgotten(table: pp.Table, data: bytes) -> None:
    """It keeps snapshots from expiring, as nobody knows which one the reader needs."""
    table.maintenance.reset_consumer("a", 2)
    table.maintenance.reset_consumer("b", 3)
    damaged = Path(table.path) / "consumer/consumer-a"
    damaged.write_bytes(data)
    with pytest.raises(CorruptFileError):
        table.snapshots.expire(retain_max=1)
    (finding,) = table.maintenance.verify().findings
    assert (finding.kind, finding.path) == ("consumer", str(damaged))
    assert table.maintenance.reset_consumer("a", 4) is None
    assert table.maintenance.consumers() == {"a": 4, "b": 3}
    damaged.write_bytes(data)
    assert table.maintenance.clear_consumers("a").consumers == ("a",)
    damaged.write_bytes(data)
    assert table.maintenance.reset_consumer("a") is None
    assert table.maintenance.consumers() == {"b": 3}
    assert table.snapshots.expire(retain_max=1).snapshots == 2


def test_what_is_refused(table: pp.Table) -> None:
    table.maintenance.reset_consumer("nightly", 2)
    table.snapshots.expire(retain_max=5)
    with pytest.raises(NotFoundError, match=r"no consumer 'nigthly'.*nightly"):
        table.maintenance.reset_consumer("nigthly")
    for id_ in (1, 0, 8):
        with pytest.raises(SnapshotNotFoundError, match=rf"snapshot {id_} does not exist.*from 2 to 6, and 7 is"):
            table.maintenance.reset_consumer("nightly", id_)
    with pytest.raises(OptionError, match="needs a name"):
        table.maintenance.reset_consumer(" ", 2)
    with pytest.raises(OptionError, match=r"including='\(' is no regular expression"):
        table.maintenance.clear_consumers("(")
    assert table.maintenance.consumers() == {"nightly": 2}


@pytest.mark.parametrize("before", [None, 5])
def test_a_snapshot_that_expires_while_a_position_is_set(before: int | None) -> None:
    files: dict[str, bytes] = {}

    class BesideIO(MemoryIO):
        """An expiry begins as soon as there is a new position."""

        def replace(self, path: str, data: bytes) -> None:
            super().replace(path, data)
            if path.endswith("consumer-a") and b"3" in data:
                begin_expiry(store, 4)

    store = create_table(BesideIO(files), "/t", TableDefinition(from_arrow_schema(_SCHEMA), (), (), {}))
    table = pp.Table(store)
    for number in range(6):
        table.append(pa.table({"id": [number]}, _SCHEMA))
    if before is not None:
        table.maintenance.reset_consumer("a", before)
    with pytest.raises(SnapshotNotFoundError, match="is expiring"):
        table.maintenance.reset_consumer("a", 3)
    assert table.maintenance.consumers() == ({} if before is None else {"a": before})


def test_the_commands(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        assert main(["maintenance", arguments[0], table.path, *arguments[1:]]) == 0
        return capsys.readouterr().out

    assert run("reset-consumer", "a", "--next-snapshot", "2", "--dry-run") == "the reader would be at snapshot 2\n"
    assert run("reset-consumer", "a", "--next-snapshot", "2") == "the reader is at snapshot 2\n"
    assert json.loads(run("reset-consumer", "a", "--next-snapshot", "3", "--output", "json"))["before"] == 2
    assert run("consumers") == "a  snapshot 3\n"
    assert json.loads(run("consumers", "--output", "json")) == [{"consumer": "a", "next_snapshot": 3}]
    assert run("clear-consumers", "--including", "b").startswith("nothing removed")
    assert run("clear-consumers", "--dry-run").startswith("1 consumer would go")
    assert run("reset-consumer", "a") == "the reader is forgotten; it was at 3\n"
    assert run("consumers") == ""


@pytest.mark.java
@requires_java_oracle
def test_java_knows_the_positions(oracle: Oracle, table: pp.Table) -> None:
    table.maintenance.reset_consumer("a", 4)
    table.maintenance.reset_consumer("b", 7)
    assert sorted(oracle.program("MaintenanceOracle", "consumers", table.path)) == ["a=4", "b=7"]
