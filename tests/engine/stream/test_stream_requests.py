"""Which requests a stream sends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.streams import read_all, stream_of


def test_manifest_lists_of_several_snapshots_are_read_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT")
    for n in range(4):
        table.append([{"id": n}])
    io = type(table._store.io)
    stream = stream_of(table, options={"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    start = stream.start()
    METADATA_CACHE.clear()
    monkeypatch.setattr(io, "requests_at_once", 8, raising=False)
    two, read = threading.Barrier(2), io.read_bytes

    def read_with_another(self: Any, path: str) -> bytes:
        if "manifest-list" in path:
            two.wait(30)  # raises, if no other thread reads one
        return read(self, path)

    monkeypatch.setattr(io, "read_bytes", read_with_another)
    assert [row["id"] for _, row in read_all(stream, start)[0]] == [0, 1, 2, 3]
