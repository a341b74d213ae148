"""A write joins any number of keys with those of the table in memory that options bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_CHILD = """
import sys
import numpy as np
import pyarrow as pa
import paimon_pyds as pp
from paimon_pyds.engine.cross_partition import upsert as cross_partition
from paimon_pyds.engine.cross_partition import key_places
from paimon_pyds.engine.read import merged_files
from paimon_pyds.base.sort import external
from paimon_pyds.engine.write import key_writer

path, window, *sizes = sys.argv[1], *map(int, sys.argv[2:])
if window:
    cross_partition._ROWS_AT_ONCE = key_places._JOINED_ROWS = merged_files._HELD_ROWS = window
    key_places._BATCH_ROWS = key_writer._BATCH_ROWS = external._BATCH_ROWS = window // 4
schema = pa.schema([pa.field("k", pa.string(), False), ("p", pa.int32()), ("v", pa.int64())])
options = {"bucket": "-1", "dynamic-bucket.target-row-num": "500000", "write-only": "true"}
options["write-buffer-size"] = "4 mb" if window else "16 mb"

def batches(rows, parts, turn):  # keys in no order
    for start in range(0, rows, 100_000):
        numbers = np.arange(start, start + 100_000) * 7919 % rows
        keys = pa.array(numbers).cast(pa.string())
        yield pa.record_batch([keys, pa.array(numbers % parts, pa.int32()), pa.array(numbers + turn)], schema=schema)

for rows in sizes:
    table = pp.Table.create(f"{path}/{rows}", schema, primary_key=["k"], partition_by=["p"], options=options)
    table.append(batches(rows, 2, 0))
    table.append(batches(rows, 3, 1))
    assert table.count() == rows
    with open("/proc/self/status") as status:
        print([line.split()[1] for line in status if line.startswith("VmHWM")][0])
"""


def _peaks(path: Path, window: int, *sizes: int) -> list[float]:
    """The most memory of a process, in MiB, after it has written each of so many rows; parts of them have ``window``
    rows, or with 0 as many as always."""
    command = [sys.executable, "-c", _CHILD, str(path), str(window), *map(str, sizes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [int(peak) / 1024 for peak in done.stdout.split()]


def test_more_keys_take_no_more_memory(tmp_path: Path) -> None:
    few, many = _peaks(tmp_path, 65_536, 100_000, 400_000)
    assert many - few < 64


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_memory_of_five_million_keys(tmp_path: Path) -> None:
    assert _peaks(tmp_path, 0, 5_000_000)[0] < 800
