"""Many writers at once, and writers that die: nothing lost, nothing doubled, always a committed state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

_APPENDER = """
import sys
import pyarrow as pa
import paimon_pyds as pp

path, worker, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
table = pp.Table.open(path)
print("ready", flush=True)
sys.stdin.readline()
for i in range(commits):
    table.append(pa.table({"worker": [worker] * 3, "commit": [i] * 3, "row": [0, 1, 2]}))
"""

_SCHEMA = pa.schema([("worker", pa.int64()), ("commit", pa.int64()), ("row", pa.int64())])


def _start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.timeout(600)
def test_eight_processes_append_25_times_each(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pp.Table.create(path, _SCHEMA)
    workers = [_start(_APPENDER, path, w, 25) for w in range(8)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate()
        assert worker.returncode == 0, errors.decode()
    snapshots = table.snapshots()
    assert [s.id for s in snapshots] == list(range(1, 201))
    assert [s.total_record_count for s in snapshots] == [3 * i for i in range(1, 201)]
    rows = sorted(map(tuple, (r.values() for r in table.scan().to_arrow().to_pylist())))
    assert rows == [(w, c, r) for w in range(8) for c in range(25) for r in range(3)]
    commits = {(s.commit_user, s.commit_identifier) for s in snapshots}
    assert len(commits) == 200
    times = [s.time_millis for s in snapshots]
    assert times == sorted(times)


_VICTIM = """
import sys
import pyarrow as pa
import paimon_pyds as pp

table = pp.Table.open(sys.argv[1])
number = int(sys.argv[2])
print("ready", flush=True)
while True:
    rows = pa.table({"worker": [number] * 500, "commit": [0] * 500, "row": list(range(500))})
    if number % 3 == 2:
        table.overwrite(rows)
    else:
        table.append(rows)
    print("done", flush=True)
    number += 1
"""


def _check_state(table: pp.Table) -> None:
    """The rows are those of whole commits, and the counts in the snapshot agree."""
    rows = table.scan().to_arrow()
    latest = table.snapshot()
    assert rows.num_rows == (0 if latest is None else latest.total_record_count)
    counts = rows.group_by("worker").aggregate([("row", "count"), ("row", "count_distinct")])
    assert set(counts["row_count_distinct"].to_pylist()) <= {500}
    assert all(n % 500 == 0 for n in counts["row_count"].to_pylist())


@pytest.mark.timeout(900)
def test_a_writer_killed_at_any_moment_leaves_a_committed_state(tmp_path: Path) -> None:
    kills = int(os.environ.get("PAIMON_PYDS_KILLS", "25"))
    rng = random.Random(7)
    path = tmp_path / "t"
    options = {"file-index.bitmap.columns": "worker", "file-index.in-manifest-threshold": "1b"}
    table = pp.Table.create(path, _SCHEMA, options=options)
    done = 0
    for number in range(kills):
        victim = _start(_VICTIM, path, 1000 * number)
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.0, 0.12))
        before = table.snapshot()
        victim.send_signal(signal.SIGKILL)
        output, _ = victim.communicate()
        done += output.count(b"done")
        after = table.snapshot()
        assert (before.id if before else 0) <= (after.id if after else 0)
        _check_state(table)
        assert (after.id if after else 0) >= done
    table.append(pa.table({"worker": [0] * 500, "commit": [0] * 500, "row": list(range(500))}))
    _check_state(table)
    for snapshot in table.snapshots():
        rows = table.scan(snapshot=snapshot.id).to_arrow().num_rows
        assert rows == snapshot.total_record_count
