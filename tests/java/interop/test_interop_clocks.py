"""Times of data files in manifests: local clock times, which a JVM of the same zone reads as they were meant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.local_zone import in_local_zone
from support.oracle import Oracle, requires_java_oracle

pytestmark = [pytest.mark.java, requires_java_oracle]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False),
                    ("v", pa.string())])  # fmt: skip


@pytest.fixture(params=["America/New_York", pytest.param("Asia/Tokyo", marks=pytest.mark.long)])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with in_local_zone(request.param, monkeypatch) as name:
        yield name


def _rows(version: str) -> pa.Table:
    return pa.Table.from_pylist([{"id": 1, "p": "a", "v": version}], SCHEMA)


def test_both_writers_agree_on_the_time(zone: str, oracle: Oracle, tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA)
    table.append(_rows("ours"))
    with oracle.in_zone(zone).batch() as batch:
        batch.write(tmp_path, "db.t", _rows("java"))
        files = batch.read(tmp_path, "db.t$files")
    now = datetime.now()
    ours = table.system.read("files")["creation_time"].to_pylist()
    java = [datetime.fromisoformat(row["creation_time"]) for row in files.values]
    assert all(abs(made - now) < timedelta(hours=0.5) for made in (*ours, *java)) and sorted(ours) == sorted(java)


def test_partitions_expire_in_java_no_sooner(zone: str, oracle: Oracle, tmp_path: Path) -> None:
    options = {"partition.expiration-strategy": "update-time", "partition.expiration-time": "3 h"}
    table = pp.Table.create(tmp_path / "t", SCHEMA, partition_by=["p"], options=options)
    table.append(_rows("ours"))
    oracle.in_zone(zone).program("MaintenanceOracle", "partitions", table.path)
    assert table.count() == 1 and table.maintenance.expire_partitions(dry_run=True).partitions == ()


def test_versions_that_wait_for_their_bucket_come_in_order(zone: str, oracle: Oracle, tmp_path: Path) -> None:
    """They are ordered by the times of their files: the last one counts, whoever wrote it."""
    options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}
    table = pp.Table.create(tmp_path / "db.db" / "t", SCHEMA, primary_key=["id", "p"], options=options)
    for number in range(4):
        if number % 2:
            table.append(_rows(f"{number}"))
        else:
            with oracle.in_zone(zone).batch() as batch:
                batch.write(tmp_path, "db.t", _rows(f"{number}"))
    table.compact()
    assert table.scan().to_arrow()["v"].to_pylist() == ["3"]
