"""Incremental reads between tags, and by difference: files that the end has and the start has not, as in Java."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SnapshotNotFoundError
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32())])
BOTH = {"incremental-between": "a,b"}


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
        expired = batch.read(tmp_path, "db.t", options=BOTH)
    assert lines(table.scan(options=BOTH).to_arrow()) == expired.lines
    with pytest.raises(SnapshotNotFoundError):
        table.scan(options=BOTH | {"incremental-between-scan-mode": "delta"})
