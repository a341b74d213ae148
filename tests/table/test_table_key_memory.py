"""What merges and writes of tables with a primary key hold in memory, and how many files they have open: bounded by
options, whatever the table holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_MIB = 1 << 20
_CHILD = """
import os, sys
import numpy as np
import pyarrow as pa
import paimon_pyds as pp
from paimon_pyds.engine.write import TableWriter

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64()), ("t", pa.string())])
OPTIONS = {"write-only": "true", "num-sorted-run.compaction-trigger": "1000000"}

def created(path, buckets):
    return pp.Table.create(path, SCHEMA, primary_key=["k"], options={"bucket": str(buckets), **OPTIONS})

def batches(first, rows, step, size=100_000):
    texts = pa.array([f"text {n}" for n in range(1000)])
    for start in range(first, first + rows, size):
        numbers = np.arange(start, min(start + size, first + rows)) * step % (1 << 31)
        columns = [pa.array(numbers), pa.array(numbers * 7), texts.take(pa.array(numbers % 1000))]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

def write(path, rows, buckets):  # keys in no order, of which hardly two are the same
    created(path, buckets).append(batches(0, rows, 7919 * 104729))

def prepare(path, rows, runs):
    table = created(path, 1)
    for run in range(runs):
        table.append(batches(0, rows // runs, 1 + run))

def scan(path):
    print(sum(batch.num_rows for batch in pp.Table.open(path).scan().to_batches()))

def compact(path):
    print(pp.Table.open(path).compact(full=True).rows)

def runs(path, runs, rows, length, equal=0):  # in one commit, as of so many tasks; they have keys in common
    table, messages = created(path, 1), []
    for run in range(runs):
        with TableWriter(table.write_context(), run) as writer:
            for row in range(rows):
                text = "x" * length if equal else os.urandom(length // 2).hex()
                writer.write(pa.record_batch([[row * runs + run % 7], [run], [text]], schema=SCHEMA))
            messages.append(writer.prepare_commit())
    table.commit(messages)

globals()[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
with open("/proc/self/status") as status:
    print([line.split()[1] for line in status if line.startswith("VmHWM")][0])
"""


def _run(*arguments: object, files: int = 0) -> tuple[int, int]:
    """What a process says, and the most memory that it held, in bytes; with a limit of open files."""
    limit = f"ulimit -n {files} && " if files else ""
    command = ["sh", "-c", f'{limit}exec "$0" -c "$@"', sys.executable, _CHILD, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    *said, peak = done.stdout.split()
    return int(said[0]) if said else 0, int(peak) << 10


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_write_of_very_many_rows_to_many_buckets(tmp_path: Path) -> None:
    _, peak = _run("write", tmp_path / "t", 20_000_000, 16)
    assert peak < 1536 * _MIB


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("work", ["scan", "compact"])
def test_a_merge_of_very_many_rows_in_a_bucket(tmp_path: Path, work: str) -> None:
    _run("prepare", tmp_path / "t", 50_000_000, 5)
    rows, peak = _run(work, tmp_path / "t")
    assert rows > 10_000_000
    assert peak < 1536 * _MIB


def test_very_many_runs_have_few_open_files(tmp_path: Path) -> None:
    """More runs than a process may have files open."""
    _run("runs", tmp_path / "t", 120, 3, 20, files=100)
    assert _run("scan", tmp_path / "t", files=100)[0] == 21
    assert _run("compact", tmp_path / "t", files=100)[0] == 21


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("work", ["scan", "compact"])
def test_very_many_runs_of_very_long_rows(tmp_path: Path, work: str) -> None:
    """1.2 GB of texts of a megabyte each."""
    _run("runs", tmp_path / "t", 300, 4, _MIB)
    rows, peak = _run(work, tmp_path / "t")
    assert rows == 28
    assert peak < 1024 * _MIB


@pytest.mark.long
@pytest.mark.parametrize("work", ["scan", "compact"])
def test_runs_of_long_equal_rows(tmp_path: Path, work: str) -> None:
    """1.6 GB of texts of a megabyte each, which are some KB in files."""
    _run("runs", tmp_path / "t", 16, 100, _MIB, 1)
    rows, peak = _run(work, tmp_path / "t")
    assert rows == 700
    assert peak < 1536 * _MIB
