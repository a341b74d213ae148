"""Spark's driver is killed while a query writes: started again, it leaves each row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from support.effort import SEED

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.long]

FILES, KILLS = 24, 5
_DRIVER = """
import sys
from pyspark.sql import SparkSession
import paimon_pyds

root, trigger, options = sys.argv[1], eval(sys.argv[2]), eval(sys.argv[3])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
paimon_pyds.register(spark)
read = spark.readStream.schema("id BIGINT, p BIGINT").option("maxFilesPerTrigger", 1)
writer = read.parquet(f"{root}/in").writeStream.format("paimon").options(**options)
writer = writer.option("checkpointLocation", f"{root}/checkpoint").trigger(**trigger)
writer.start(f"{root}/t").awaitTermination()
"""


def _start(root: Path, trigger: dict[str, object], options: dict[str, str]) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-c", _DRIVER, str(root), repr(trigger), repr(options)]
    return subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.DEVNULL)


def _snapshots(root: Path) -> int:
    return len(list(root.glob("t/snapshot/snapshot-*")))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("options", [{"partition-by": "p"}, {"primary-key": "id", "bucket": "2"}])
def test_each_row_is_there_once_whenever_the_driver_is_killed(tmp_path: Path, options: dict[str, str]) -> None:
    rng = random.Random(SEED)
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        ids = [10 * number + i for i in range(10)]
        path = tmp_path / "in" / f"{number:04}.parquet"
        pq.write_table(pa.table({"id": ids, "p": [i % 2 for i in ids]}), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    for _ in range(KILLS):
        driver, before = _start(tmp_path, {"processingTime": "0 seconds"}, options), _snapshots(tmp_path)
        _until(lambda driver=driver, before=before: driver.poll() is not None or _snapshots(tmp_path) > before)  # type: ignore[misc]
        time.sleep(rng.random() / 2)
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    last = _start(tmp_path, {"availableNow": True}, options)
    assert last.wait(600) == 0
    again = _start(tmp_path, {"availableNow": True}, options)  # the last run may have repeated a batch only
    assert again.wait(600) == 0
    table = pp.Table.open(tmp_path / "t")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [*range(10 * FILES)]
    appends = [s.commit_identifier for s in table.snapshots.list() if s.commit_kind.value == "APPEND"]
    assert appends == sorted(set(appends))
