"""Incremental reads between tags, and by difference: files that the end has and the start has not, as in Java."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError, SnapshotNotFoundError
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32())])
BOTH = {"incremental-between": "a,b"}
DELTA = {"incremental-between-scan-mode": "delta"}


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": [i % 2 for i in ids]}, SCHEMA)


def _ids(table: pp.Table, options: dict[str, str], filter_: str | None = None) -> list[int]:
    scan = table.scan(filter_, options=options)
    ids = sorted(scan.to_arrow().column("id").to_pylist())
    assert scan.count() == len(ids)
    return ids


@requires_java_oracle
def test_between_tags(tmp_path: Path, oracle: Oracle) -> None:
    """An overwrite lies between the tags, a delete marks rows of both sides, and snapshots in between expire."""
    options = {"deletion-vectors.enabled": "true"}
    table = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA, partition_by=["p"], options=options)
    table.append(_rows(1, 2, 3))
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "a")
    table.overwrite(_rows(4, 6), dynamic=True)
    table.append(_rows(7, 8))
    table.delete("id IN (3, 8)")
    with oracle.batch() as batch:
        batch.tag(tmp_path, "db.t", "b")
        java = [batch.read(tmp_path, "db.t", options=BOTH)]
        diff = {"incremental-between": "1,4", "incremental-between-scan-mode": "diff"}
        java.append(batch.read(tmp_path, "db.t", options=diff))
    assert _ids(table, BOTH) == _ids(table, diff) == [4, 6, 7]
    assert [lines(table.scan(options=o).to_arrow()) for o in (BOTH, diff)] == [reply.lines for reply in java]
    assert _ids(table, BOTH, "p = 0 AND id > 4") == [6]
    assert _ids(table, {"incremental-between": "1,4"}) == [7, 8]
    with oracle.batch() as batch:
        batch.expire(tmp_path, "db.t", 1)
        expired = [batch.read(tmp_path, "db.t", options=options) for options in (BOTH, BOTH | DELTA)]
    for options, reply in zip((BOTH, BOTH | DELTA), expired, strict=True):
        assert lines(table.scan(options=options).to_arrow()) == reply.lines
    with pytest.raises(SnapshotNotFoundError):
        table.scan(options=BOTH | {"incremental-between-tag-to-snapshot": "true"})


FIRST = 1_700_000_000_000
"""2023-11-14T22:13:20Z, when snapshot 0 would have been made; the others follow second by second."""
TIMES = "incremental-between-timestamp"
DIFF = {"incremental-between-scan-mode": "diff"}


def _dated(table: pp.Table) -> None:
    """Let snapshot n be made n seconds after `FIRST`."""
    for path in Path(table._store.root, "snapshot").glob("snapshot-*"):
        snapshot = json.loads(path.read_text())
        path.write_text(json.dumps(snapshot | {"timeMillis": FIRST + 1000 * snapshot["id"]}))


def _between(start: int, end: int) -> dict[str, str]:
    return {TIMES: f"{FIRST + start},{FIRST + end}"}


BETWEEN_TIMES: list[tuple[dict[str, str], list[int]]] = [
    (_between(0, 2000), [1, 2]),
    (_between(1000, 3000), [2, 3]),
    (_between(1500, 3500), [2, 3]),
    (_between(2000, 2000), []),
    (_between(0, 900), []),
    (_between(4000, 9000), []),
    (_between(9000, 10_000), []),
    ({TIMES: "2023-11-14 22:13:21,2023-11-14 22:13:23"}, [2, 3]),
    ({TIMES: "2023-11-14 22:13:21.5,2023-11-14 22:13:22.499999999"}, [2]),
    ({TIMES: "2023-11-4,2023-11-15"}, [1, 2, 3]),
]


@requires_java_oracle
def test_between_times(tmp_path: Path, oracle: Oracle) -> None:
    """By APPEND snapshots, as Java 1.4 reads them. By difference, its later versions begin with nothing, too."""
    table = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA)
    empty = pp.Table.create(tmp_path / "db.db" / "e", SCHEMA)
    for i in (1, 2, 3):
        table.append(_rows(i))
    _dated(table)
    unread = [_between(0, 1000), {"incremental-between": "0,2"}]
    with oracle.batch() as batch:
        java = [batch.read(tmp_path, "db.t", options=options) for options, _ in BETWEEN_TIMES]
        nothing = [batch.read(tmp_path, "db.e", options=options) for options in unread]
    for (options, ids), reply in zip(BETWEEN_TIMES, java, strict=True):
        assert sorted(row["id"] for row in reply.values) == ids, options
        assert _ids(table, options) == _ids(table, options | DIFF) == ids, options
    assert [reply.values for reply in nothing] == [[], []]
    assert [_ids(empty, options) for options in unread] == [[], []]


def test_between_times_in_a_zone(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    for i in (1, 2, 3):
        table.append(_rows(i))
    _dated(table)
    berlin = {"timezone": "Europe/Berlin", TIMES: "2023-11-14 23:13:21,2023-11-14 23:13:22"}
    assert _ids(table, berlin) == [2]
    assert _ids(table, {TIMES: "2023-11-14 22:13:21Z,2023-11-15T00:13:22+02:00"}) == [2]
    assert _ids(table, {"scan.timestamp": "2023-11-14 23:13:22", "timezone": "Europe/Berlin"}) == [1, 2]
    for options in (
        {TIMES: "2023-11-14 22:13:21,now"},
        {TIMES: "2023-11,2023-12"},
        {"scan.timestamp": "20231114"},
        {"scan.timestamp": "2023-11-14", "timezone": "Mars"},
        _between(3000, 2000),
    ):
        with pytest.raises(OptionError):
            table.scan(options=options)


def test_differences_from_an_expired_state(tmp_path: Path) -> None:
    """What was there before the snapshots that are left is not known: no rows may be told for the difference to it."""
    table = pp.Table.create(tmp_path / "t", SCHEMA)
    for i in (1, 2, 3):
        table.append(_rows(i))
    _dated(table)
    (tmp_path / "t" / "snapshot" / "snapshot-1").unlink()
    (tmp_path / "t" / "snapshot" / "EARLIEST").unlink(missing_ok=True)
    assert _ids(table, _between(0, 3000)) == [2, 3]
    assert _ids(table, _between(2000, 3000) | DIFF) == [3]
    with pytest.raises(SnapshotNotFoundError, match="before 2 have expired"):
        table.scan(options=_between(1000, 3000) | DIFF)
