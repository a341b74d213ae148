"""Many writers at once, and writers that die: nothing lost, nothing doubled, always a committed state."""

from __future__ import annotations

import os
import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support.effort import LONG
from support.victims import append_each, fork_server, victims, write_for_ever

_SCHEMA = pa.schema([("worker", pa.int64()), ("commit", pa.int64()), ("row", pa.int64())])


@pytest.mark.timeout(600)
def test_eight_processes_append_at_once(tmp_path: Path) -> None:
    path, each = tmp_path / "t", 25 if LONG else 2
    # On a busy machine one of the eight may lose many races in a row.
    table = pp.Table.create(path, _SCHEMA, options={"commit.max-retries": "100"})
    server = fork_server()
    ready = server.Barrier(8)
    workers = [server.Process(target=append_each, args=(path, w, each, ready)) for w in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    snapshots = table.snapshots.list()
    assert [s.id for s in snapshots] == list(range(1, 8 * each + 1))
    assert [s.total_record_count for s in snapshots] == [3 * i for i in range(1, 8 * each + 1)]
    rows = sorted(map(tuple, (r.values() for r in table.scan().to_arrow().to_pylist())))
    assert rows == [(w, c, r) for w in range(8) for c in range(each) for r in range(3)]
    commits = {(s.commit_user, s.commit_identifier) for s in snapshots}
    assert len(commits) == 8 * each
    times = [s.time_millis for s in snapshots]
    assert times == sorted(times)


def _heard(hear: Connection) -> int:
    """How many commits a writer spoke of before it died."""
    commits = 0
    try:
        while hear.poll():
            hear.recv_bytes()
            commits += 1
    except (EOFError, OSError):
        pass
    return commits


def _check_state(table: pp.Table) -> None:
    """The rows are those of whole commits, and the counts in the snapshot agree."""
    rows = table.scan().to_arrow()
    latest = table.snapshots.latest()
    assert rows.num_rows == (0 if latest is None else latest.total_record_count)
    counts = rows.group_by("worker").aggregate([("row", "count"), ("row", "count_distinct")])
    assert set(counts["row_count_distinct"].to_pylist()) <= {500}
    assert all(n % 500 == 0 for n in counts["row_count"].to_pylist())


@pytest.mark.timeout(900)
def test_writers_killed_at_any_moment_leave_a_committed_state(tmp_path: Path) -> None:
    """Two writers at a time on one table."""
    rounds = int(os.environ.get("PAIMON_PYDS_KILLS", "100" if LONG else "4")) // 2
    rng = random.Random(7)
    path = tmp_path / "t"
    options = {"file-index.bitmap.columns": "worker", "file-index.in-manifest-threshold": "1b"}
    table = pp.Table.create(path, _SCHEMA, options=options)
    done = 0
    for number in range(rounds):
        numbers = [(path, 1000 * (2 * number + i) + i) for i in range(2)]
        with victims(write_for_ever, numbers) as pipes:
            before = table.snapshots.latest()
            if number % 2:
                assert pipes[0].poll(120)  # a commit is done, however busy the machine is
            time.sleep(rng.uniform(0.0, 0.25))
        done += sum(map(_heard, pipes))
        after = table.snapshots.latest()
        assert (before.id if before else 0) <= (after.id if after else 0)
        assert (after.id if after else 0) >= done
        _check_state(table)
    table.append(pa.table({"worker": [0] * 500, "commit": [0] * 500, "row": list(range(500))}))
    _check_state(table)
    snapshots = table.snapshots.list()
    assert [s.id for s in snapshots] == list(range(1, len(snapshots) + 1))
    assert len(snapshots) > rounds // 2
    for snapshot in snapshots[:: max(1, len(snapshots) // 40)]:
        assert table.scan(snapshot=snapshot.id).to_arrow().num_rows == snapshot.total_record_count
