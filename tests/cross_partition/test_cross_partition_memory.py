"""A write joins any number of keys with those of the table in memory that options bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.effort import LONG

_ROWS = 5_000_000 if LONG else 400_000
_MOST_MIB = 800
_CHILD = """
import sys
import numpy as np
import pyarrow as pa
import paimon_pyds as pp

path, rows = sys.argv[1], int(sys.argv[2])
schema = pa.schema([pa.field("k", pa.string(), False), ("p", pa.int32()), ("v", pa.int64())])
options = {"bucket": "-1", "dynamic-bucket.target-row-num": "500000", "write-only": "true"}
options["write-buffer-size"] = "16 mb"
table = pp.Table.create(path, schema, primary_key=["k"], partition_by=["p"], options=options)

def batches(parts, turn):  # keys in no order
    for start in range(0, rows, 100_000):
        numbers = np.arange(start, start + 100_000) * 7919 % rows
        keys = pa.array(numbers).cast(pa.string())
        yield pa.record_batch([keys, pa.array(numbers % parts, pa.int32()), pa.array(numbers + turn)], schema=schema)

table.append(batches(2, 0))
table.append(batches(3, 1))
print(table.count())
with open("/proc/self/status") as status:
    print([line.split()[1] for line in status if line.startswith("VmHWM")][0])
"""


@pytest.mark.timeout(1800)
def test_every_key_may_move(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "t"), str(_ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    count, peak = map(int, done.stdout.split())
    assert count == _ROWS
    assert peak < _MOST_MIB << 10
