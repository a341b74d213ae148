"""Scans of several threads plan at the same time, and a child that was forked meanwhile can scan."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.scan import Scan
from support.effort import LONG

_FORKS = """
import faulthandler, os, signal, sys, threading
import paimon_pyds as pp

table = pp.Table.open(sys.argv[1])
expected = table.scan("v > 10").to_arrow().num_rows
faulthandler.register(signal.SIGALRM, chain=True)  # a child that hangs shows where
stop = False

def scan_on():
    while not stop:
        pp.Table.open(sys.argv[1]).scan("v > 10").to_arrow()

threads = [threading.Thread(target=scan_on, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
stuck = []
for number in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        signal.alarm(60)
        right = pp.Table.open(sys.argv[1]).scan("v > 10").to_arrow().num_rows == expected and table.count() == 20_000
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    if status:
        stuck.append((number, status))
        if len(stuck) > int(sys.argv[3]):
            break
stop = True
for thread in threads:
    thread.join()
assert len(stuck) <= int(sys.argv[3]), stuck
assert all(status == signal.SIGALRM for _, status in stuck), stuck
"""


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    rows = pa.table({"p": [i % 4 for i in range(20_000)], "v": [i % 100 for i in range(20_000)]})
    made = pp.Table.create(tmp_path / "t", rows.schema, partition_by=["p"], options={"file-index.bitmap.columns": "v"})
    made.append(rows)
    return made


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_scans_run_can_scan(table: pp.Table) -> None:
    """None hangs, but of pyarrow 16 two may: 1 of 300 finds a lock of its own library held."""
    may_hang = "2" if pa.__version__.startswith("16.") else "0"
    command = [sys.executable, "-W", "ignore", "-c", _FORKS, table.path, "40" if LONG else "15", may_hang]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def test_one_scan_does_not_wait_for_another_to_be_planned(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    planning, go_on = threading.Event(), threading.Event()
    planned = Scan._planned

    def slow(self: Scan, *arguments: object, **more: object) -> object:
        if threading.current_thread() is first:
            planning.set()
            assert go_on.wait(60)
        return planned(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Scan, "_planned", slow)
    first = threading.Thread(target=lambda: table.scan().to_arrow(), daemon=True)
    second = threading.Thread(target=lambda: table.scan().to_arrow(), daemon=True)
    first.start()
    assert planning.wait(60)
    second.start()
    second.join(60)
    waits = second.is_alive()
    go_on.set()
    first.join(60)
    assert not waits


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_a_thread_holds_the_cache_can_scan(table: pp.Table) -> None:
    with METADATA_CACHE._small._lock, METADATA_CACHE._large._lock:
        child = os.fork()
        if not child:
            import signal

            signal.alarm(300)
            os._exit(0 if table.scan().to_arrow().num_rows == 20_000 and METADATA_CACHE.weight > 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
