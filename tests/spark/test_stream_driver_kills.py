"""Spark's driver is killed at random moments while queries write tables and follow one, next to another writer and an
expiry: started again, they leave each row once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from support.effort import SEED

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.long, pytest.mark.timeout(3600)]

FILES, KILLS = 40, 10
OTHERS = 1_000_000
"""The first id of the other writer."""
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "parts": {"partition_by": "p"},
    "keys": {"primary_key": "id", "options": {"bucket": "2"}},
}
OFFSETS = "checkpoint-*/offsets/*"
EVENTS = ("*/snapshot/snapshot-*", "*/stream-writer/*", "*/**/data-*", OFFSETS, "checkpoint-*/commits/*")
"""Files whose changes are followed by a kill: those of each step of a micro-batch."""
_DRIVER = """
import sys
from pyspark.sql import SparkSession
import paimon_pyds

root, trigger, tables = sys.argv[1], eval(sys.argv[2]), sys.argv[3].split()
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
paimon_pyds.register(spark)

def start(stream, form, name, path):
    writer = stream.writeStream.format(form).option("checkpointLocation", f"{root}/checkpoint-{name}")
    return writer.trigger(**trigger).start(path)

def load(name):
    read = spark.readStream.schema("id BIGINT, p BIGINT").option("maxFilesPerTrigger", 1)
    return start(read.parquet(f"{root}/in"), "paimon", name, f"{root}/{name}")

queries = [load(name) for name in tables]
if "copy" in sys.argv:
    followed = spark.readStream.format("paimon").option("consumer-id", "copy").load(f"{root}/plain")
    queries.append(start(followed, "parquet", "copy", f"{root}/copy"))
for query in queries:
    query.awaitTermination()
"""


def _start(root: Path, trigger: dict[str, object], *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _DRIVER, str(root), repr(trigger), *arguments]
    with open(root / "stderr", "wb") as log:
        return subprocess.Popen(command, start_new_session=True, stderr=log)


def _run(root: Path, *arguments: str) -> None:
    driver = _start(root, {"availableNow": True}, *arguments)
    assert driver.wait(900) == 0, (root / "stderr").read_text()[-4000:]


def _changed(root: Path, pattern: str) -> set[tuple[str, int]]:
    found = set()
    for path in root.glob(pattern):
        with suppress(FileNotFoundError):
            found.add((str(path), path.stat().st_mtime_ns))
    return found


def _wait(driver: subprocess.Popen[bytes], root: Path, pattern: str, before: set[tuple[str, int]]) -> None:
    """Wait until a file is made, or changed."""
    end = time.monotonic() + 300
    while driver.poll() is None and _changed(root, pattern) <= before:
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def _others(root: Path) -> Iterator[dict[str, list[int]]]:
    """Another writer and an expiry at work; the ids that it has written to each table."""
    written: dict[str, list[int]] = {name: [] for name in TABLES}
    stopped, errors = threading.Event(), []

    def work() -> None:
        for number in range(OTHERS, 2 * OTHERS):
            for name, ids in written.items():
                table = pp.Table.open(root / name)
                try:
                    table.append({"id": [number], "p": [number % 2]})
                    ids.append(number)
                    table.snapshots.expire(retain_max=2, retain_min=1, older_than=timedelta(0))
                except Exception as error:  # noqa: BLE001 - shown by the test
                    errors.append(error)
                    return
            if stopped.wait(1):
                return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        stopped.set()
        thread.join()
    assert not errors, errors


def test_each_row_is_there_once_whenever_the_driver_is_killed(tmp_path: Path) -> None:
    rng, root = random.Random(SEED), tmp_path
    (root / "in").mkdir()
    for number in range(FILES):
        ids = [10 * number + i for i in range(10)]
        path = root / "in" / f"{number:04}.parquet"
        pq.write_table(pa.table({"id": ids, "p": [i % 2 for i in ids]}), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    for name, how in TABLES.items():
        pp.Table.create(root / name, "id BIGINT, p BIGINT", **how)
    pp.Table.open(root / "plain").maintenance.reset_consumer("copy", 1)
    names = " ".join(TABLES)
    with _others(root) as written:
        for _ in range(KILLS):
            before = _changed(root, OFFSETS)
            driver = _start(root, {"processingTime": "0 seconds"}, names, "copy")
            _wait(driver, root, OFFSETS, before)
            time.sleep(rng.random() * 3)
            event = rng.choice(EVENTS)
            _wait(driver, root, event, _changed(root, event))
            time.sleep(rng.random() ** 2 / 2)
            assert driver.poll() is None, (root / "stderr").read_text()[-4000:]
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    for _ in range(2):  # a first run may only repeat a micro-batch
        _run(root, names)
    for _ in range(2):
        _run(root, "", "copy")
    for name, others in written.items():
        ids = pp.Table.open(root / name).scan(columns=["id"]).to_arrow()["id"].to_pylist()
        assert sorted(ids) == [*range(10 * FILES), *others], name
    spark_has = {path.name for path in root.glob("copy/_spark_metadata/*")}
    assert spark_has
    copied = _committed_copy(root / "copy")
    assert sorted(copied) == [*range(10 * FILES), *written["plain"]]


def _committed_copy(copy: Path) -> list[int]:
    """The ids in the files that Spark's file sink has committed."""
    import json

    files: dict[str, None] = {}
    for log in copy.glob("_spark_metadata/[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            files[json.loads(line)["path"].removeprefix("file://")] = None
    found: list[int] = ds.dataset([*files], format="parquet").to_table(columns=["id"])["id"].to_pylist()
    return found
