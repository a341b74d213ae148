"""What a stream reads of the storage: a poll is one small request, and nothing is listed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.stream import ChangeStream, Limits
from paimon_pyds.storage import FileStatus
from support.counting_io import CountingIO, counted
from support.streams import rows_between


class _Noting(CountingIO):
    """Notes what else is requested."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []

    def size(self, path: str) -> int:
        self.requests.append(f"size {path.rpartition('/')[2]}")
        return super().size(path)

    def list(self, path: str) -> Iterable[FileStatus]:  # type: ignore[override]
        self.requests.append(f"list {path.rpartition('/')[2]}")
        return super().list(path)

    def read_bytes(self, path: str) -> bytes:
        self.requests.append(f"read {path.rpartition('/')[2]}")
        return super().read_bytes(path)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    table = pp.Table.create(tmp_path / "t", "id BIGINT", options={"write-only": "true"})
    for number in range(20):
        table.append({"id": [number]})
    return table


def _stream(table: pp.Table, **options: str) -> tuple[ChangeStream, _Noting]:
    store, _ = counted(table.path)
    io = _Noting()
    store.io = io
    return ChangeStream(store, options=options), io


def test_a_poll_without_news_is_one_request(table: pp.Table) -> None:
    stream, io = _stream(table)
    end = stream.end(stream.start())
    stream.end(end)
    for _ in range(10):
        io.requests.clear()
        assert stream.end(end) == end
        assert io.requests == ["size snapshot-21"]


def test_a_step_reads_what_is_new_and_lists_nothing(table: pp.Table) -> None:
    stream, io = _stream(table)
    end = stream.end(stream.start())
    table.append({"id": [77]})
    io.requests.clear()
    after = stream.end(end)
    assert [row["id"] for _, row in rows_between(stream, end, after)] == [77]
    assert not [request for request in io.requests if request.startswith("list")]
    assert len([request for request in io.requests if "manifest" in request]) == 2
    assert len(io.requests) < 20


def test_equal_positions_touch_no_file(table: pp.Table) -> None:
    stream, io = _stream(table)
    end = stream.end(stream.start())
    io.requests.clear()
    assert stream.splits(end, end) == []
    assert io.requests == []


def test_snapshots_are_planned_together(table: pp.Table) -> None:
    options = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    stream, io = _stream(table, **options)
    start = stream.start()
    end = stream.end(start, Limits(max_snapshots=15))
    assert end.next == 16
    (split,) = stream.splits(start, end)
    assert split.snapshots == tuple(range(1, 16))
    assert len(split.split.files) == 15
    assert len(io.manifests) == 15
