"""Time travel on branches: each has its own snapshots, tags and times, and Java reads the same."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import BranchNotFoundError, OptionError, PaimonError, SnapshotNotFoundError, TagNotFoundError
from support.oracle import Oracle, requires_java_oracle

SCHEMA = pa.schema([("id", pa.int64())])
FIRST = 1_700_000_000_000


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, SCHEMA)


def _dated(directory: Path, offset: int) -> None:
    """Let snapshot n be made n seconds and ``offset`` milliseconds after `FIRST`."""
    for path in directory.glob("snapshot-*"):
        snapshot = json.loads(path.read_text())
        path.write_text(json.dumps(snapshot | {"timeMillis": FIRST + offset + 1000 * snapshot["id"]}))


def _ids(table: pp.Table, options: dict[str, str]) -> list[int]:
    return sorted(table.scan(options=options).to_arrow().column("id").to_pylist())


FOUND: list[tuple[str, dict[str, str], list[int]]] = [
    ("b", {}, [1, 2, 100, 101]),
    ("b", {"scan.snapshot-id": "2"}, [1, 2]),
    ("b", {"scan.snapshot-id": "3"}, [1, 2, 100]),
    ("b", {"scan.version": "3"}, [1, 2, 100]),
    ("b", {"scan.version": "two"}, [1, 2]),
    ("b", {"scan.tag-name": "two"}, [1, 2]),
    ("b", {"scan.timestamp-millis": str(FIRST + 3499)}, [1, 2]),
    ("b", {"scan.timestamp": "2023-11-14 22:13:23.5"}, [1, 2, 100]),
    ("b", {"incremental-between": "1,4"}, [2, 100, 101]),
    ("b", {"incremental-between": "two,own"}, [100]),
    ("b", {"incremental-between-timestamp": f"{FIRST + 2500},{FIRST + 9999}"}, [100, 101]),
    ("empty", {}, []),
    ("empty", {"incremental-between": "1,4"}, []),
    ("empty", {"incremental-between-timestamp": f"{FIRST},{FIRST + 9999}"}, []),
]
MISSED: list[tuple[str, dict[str, str], type[PaimonError], str]] = [
    ("b", {"scan.snapshot-id": "1"}, SnapshotNotFoundError, "snapshot 1 is not there: branch b has snapshots 2 to 4"),
    ("b", {"scan.snapshot-id": "5"}, SnapshotNotFoundError, "snapshot 5 is not there"),
    ("b", {"scan.timestamp-millis": str(FIRST + 2499)}, SnapshotNotFoundError, "the earliest that is left, 2"),
    ("b", {"scan.tag-name": "none"}, TagNotFoundError, "branch b has no tag 'none'"),
    ("empty", {"scan.snapshot-id": "2"}, SnapshotNotFoundError, "nothing was committed"),
    ("empty", {"scan.timestamp-millis": str(FIRST + 9999)}, SnapshotNotFoundError, "nothing was committed"),
]


@requires_java_oracle
def test_states_of_branches(tmp_path: Path, oracle: Oracle) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA)
    for i in (1, 2, 3):
        table.append(_rows(i))
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "two", snapshot=2)
        batch.branch(tmp_path, "db.t", "b", tag="two")
        batch.branch(tmp_path, "db.t", "empty")
        batch.write(tmp_path, "db.t$branch_b", [{"id": 100}])
        batch.write(tmp_path, "db.t$branch_b", [{"id": 101}])
        batch.tag(tmp_path, "db.t$branch_b", "own", snapshot=3)
    root = tmp_path / "db.db" / "t"
    _dated(root / "snapshot", 0)
    _dated(root / "branch" / "branch-b" / "snapshot", 500)
    with oracle.batch() as batch:
        found = [batch.read(tmp_path, "db.t", branch=branch, options=options) for branch, options, _ in FOUND]
        missed = [
            batch.read(tmp_path, "db.t", branch=branch, options=options, allow_fail=True)
            for branch, options, *_ in MISSED
        ]
    branches = {name: pp.Table.open(root, branch=name) for name in ("b", "empty")}
    for (branch, options, ids), reply in zip(FOUND, found, strict=True):
        assert sorted(row["id"] for row in reply.values) == ids, options
        assert _ids(branches[branch], options) == ids, options
        assert _ids(table, options | {"branch": branch}) == ids, options
    assert [reply.ok for reply in missed] == [False] * len(MISSED)
    for branch, options, error, message in MISSED:
        with pytest.raises(error, match=message):
            branches[branch].scan(options=options)
    # A branch's own tags only: Java 1.4 takes those of main for scan.tag-name, its later versions do as we do.
    assert _ids(branches["b"], {"scan.tag-name": "own"}) == [1, 2, 100]
    with pytest.raises(TagNotFoundError):
        branches["empty"].scan(options={"scan.tag-name": "two"})


def test_names_and_numbers_that_are_none(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    table.append(_rows(1))
    for name in ("a/b", "../..", "..", "nul\0", "b "):
        with pytest.raises(BranchNotFoundError):
            pp.Table.open(tmp_path / "t", branch=name)
        with pytest.raises(BranchNotFoundError):
            table.scan(options={"branch": name})
    for number in ("-1", "0"):
        with pytest.raises(SnapshotNotFoundError, match=f"snapshot {number} is not there"):
            table.scan(options={"scan.snapshot-id": number})
    for text in ("1_0", "²", "١", "１", "\u20031", "one", "1.0", "9" * 20):
        for key in ("scan.snapshot-id", "scan.timestamp-millis", "scan.watermark"):
            with pytest.raises(OptionError):
                table.scan(options={key: text})
            if key != "scan.watermark":
                with pytest.raises(OptionError):
                    table.alter({key: text})
        with pytest.raises(OptionError):
            table.scan(options={"incremental-between-timestamp": f"0,{text}"})
        several = {"scan.version": [text, f"watermark-{text}"], "incremental-between": [f"0,{text}"]}
        for key, value in ((key, value) for key, values in several.items() for value in values):
            with pytest.raises((OptionError, TagNotFoundError)):
                table.scan(options={key: value})


def test_an_option_leads_no_writer_to_a_branch(tmp_path: Path) -> None:
    """Rows went into the branch at hand, whatever the option said; a scan goes where it says."""
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.int64()), ("p", pa.int32())]), partition_by="p")
    rows = pa.table({"id": [1], "p": pa.array([1], pa.int32())})
    table.append(rows)
    table.tags.create("first")
    table.branches.create("b", "first")
    branch = pp.Table.open(table.path, "b")
    branch.append(rows)
    own, other = {"branch": "main"}, {"branch": "b"}
    operations = {
        "append": lambda: table.append(rows, options=other),
        "overwrite": lambda: table.overwrite(rows, options=other),
        "write_context": lambda: table.write_context(other),
        "delete": lambda: table.delete("id = 1", options=other),
        "update": lambda: table.update({"id": "2"}, options=other),
        "merge": lambda: table.merge(rows, "id", when_matched="delete", options=other),
        "compact": lambda: table.compact(full=True, options=other),
        "compact_manifests": lambda: table.maintenance.compact_manifests(options=other),
        "truncate": lambda: table.truncate(options=other),
        "drop_partitions": lambda: table.maintenance.drop_partitions([{"p": 1}], options=other),
        "analyze": lambda: table.maintenance.analyze(options=other),
        "expire_snapshots": lambda: table.snapshots.expire(retain_max=1, retain_min=1, options=other),
        "expire_partitions": lambda: table.maintenance.expire_partitions(
            options={"partition.expiration-time": "1 d", **other}
        ),
        "out of it": lambda: branch.append(rows, options=own),
    }
    for name, operation in operations.items():
        with pytest.raises(OptionError, match="option branch="):
            operation()
        assert (table._store.latest_snapshot_id(), branch._store.latest_snapshot_id()) == (1, 2), name
    table.append(rows, options=own)
    branch.append(rows, options=other)
    assert [table.count(), branch.count(), table.count(options=other), branch.count(options=own)] == [2, 3, 3, 2]
