"""Times without a zone in Spark: functions go by the session's zone, reads by the option or the local zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds import spark as paimon
from paimon_pyds.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MOMENT = datetime(2024, 7, 1, 12, 30, tzinfo=UTC)
IN_TOKYO = "2024-07-01 21:30:00"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    table = pp.Table.create(tmp_path / "t", schema)
    rows = [MOMENT + timedelta(minutes=minutes) for minutes in (-1, 1)]
    table.append(pa.table({"id": [1, 2], "ts": rows}, schema))
    return table


@pytest.fixture
def tokyo(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Asia/Tokyo")
    yield spark
    spark.conf.set(ZONE, before)


@pytest.mark.slow
def test_functions_take_the_zone_of_the_session(tokyo: SparkSession, table: pp.Table) -> None:
    assert paimon.update(tokyo, table.path, {"id": "10"}, f"ts < '{IN_TOKYO}'").rows_updated == 1
    changes = pa.table({"id": [2]})
    where = f"target.id = source.id AND target.ts > TIMESTAMP '{IN_TOKYO}'"
    paimon.merge(tokyo, table.path, changes, where, when_matched=pp.Update({"id": "20"}))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [10, 20]
    assert paimon.delete(tokyo, table.path, f"ts < '{IN_TOKYO}'").rows_deleted == 1
    options = {"timezone": "UTC"}
    assert paimon.delete(tokyo, table.path, f"ts > '{IN_TOKYO}'", options=options).rows_deleted == 0
    paimon.maintenance.remove_orphan_files(tokyo, table.path, IN_TOKYO, dry_run=True)


def test_reads_take_the_option_or_the_local_zone(tokyo: SparkSession, table: pp.Table) -> None:
    def ids(**options: str) -> list[int]:
        read = tokyo.read.format("paimon_pyds").options(**options).load(table.path)
        return [row.id for row in read.collect()]

    assert ids(filter=f"ts < '{IN_TOKYO}'", timezone="Asia/Tokyo") == [1]
    assert ids(filter="ts < '2024-07-01 12:30:00'") == [1]


def test_rewrites_of_retyped_columns_want_a_zone_by_name(tokyo: SparkSession, tmp_path: Path) -> None:
    """The zone of a session is that of its reads: what other jobs read with isn't known by it."""
    rows = pa.table({"id": [1], "c": pa.array([MOMENT], pa.timestamp("us", "UTC"))})
    rewrites = {
        "compact": lambda path, **more: paimon.compact(tokyo, path, full=True, **more),
        "update": lambda path, **more: paimon.update(tokyo, path, {"id": "id + 1"}, **more),
    }
    for name, rewrite in rewrites.items():
        table = pp.Table.create(tmp_path / name, rows.schema)
        for _ in range(2):
            table.append(rows)
        table.alter(change_types={"c": "STRING"})
        with pytest.raises(UnsupportedError, match=r"column 'c': it was TIMESTAMP.*'timezone'"):
            rewrite(table.path)
        rewrite(table.path, options={"timezone": "Asia/Tokyo"})
        assert table.scan().to_arrow()["c"].to_pylist() == [f"{IN_TOKYO}.000000"] * 2
