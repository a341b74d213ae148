from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.storage import local_writes
from paimon_pyds.storage.local import LocalFileIO
from support.victims import fork_server


def _race(arguments: tuple[str, int, int, str]) -> list[int]:
    """Try to publish every one of ``rounds`` files; the numbers of those that we won."""
    directory, who, rounds, kind = arguments
    if kind != "links":
        _refuse_links(kind)
    io = LocalFileIO()
    content = f"writer {who} ".encode() * 1000
    return [n for n in range(rounds) if io.create_if_absent(f"{directory}/snapshot-{n}", content)]


def _refuse_links(kind: str) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.link = refuse  # type: ignore[assignment]
    if kind == "lock":
        local_writes.rename_noreplace = lambda source, target: False  # type: ignore[assignment]


@pytest.mark.parametrize("kind", ["links", "renameat2", "lock"])
def test_processes_race_and_exactly_one_wins_each_file(tmp_path: Path, kind: str) -> None:
    writers, rounds = 6, 40
    with fork_server().Pool(writers) as pool:
        won = pool.map(_race, [(str(tmp_path), who, rounds, kind) for who in range(writers)], chunksize=1)
    assert sorted(n for numbers in won for n in numbers) == list(range(rounds))
    for who, numbers in enumerate(won):
        for n in numbers:
            assert (tmp_path / f"snapshot-{n}").read_bytes() == f"writer {who} ".encode() * 1000
    assert len(os.listdir(tmp_path)) == rounds


def _append(arguments: tuple[str, int, int]) -> None:
    path, who, commits = arguments
    _refuse_links("lock")
    table = pp.Table.open(path)
    for n in range(commits):
        table.append(pa.table({"a": [100 * who + n]}), options={"commit.max-retries": 1000})


def test_commits_of_processes_race_without_links_and_none_is_lost(tmp_path: Path) -> None:
    path, writers, commits = str(tmp_path / "t"), 3, 6
    table = pp.Table.create(path, pa.schema({"a": pa.int64()}))
    with fork_server().Pool(writers) as pool:
        pool.map(_append, [(path, who, commits) for who in range(writers)], chunksize=1)
    expected = [100 * who + n for who in range(writers) for n in range(commits)]
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == expected
    assert [s.id for s in table.snapshots.list()] == list(range(1, writers * commits + 1))
    assert not [name for name in os.listdir(f"{path}/snapshot") if name.startswith(".")]


@pytest.mark.parametrize("kind", ["links", "renameat2", "lock"])
def test_threads_race_and_readers_see_whole_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind != "links":
        monkeypatch.setattr(os, "link", os.link)
        monkeypatch.setattr(local_writes, "rename_noreplace", local_writes.rename_noreplace)
        _refuse_links(kind)
    io = LocalFileIO()
    writers, rounds = 8, 30
    barrier = Barrier(writers)
    content = [f"writer {who} ".encode() * 5000 for who in range(writers)]

    def write(who: int) -> list[int]:
        barrier.wait()
        return [n for n in range(rounds) if io.create_if_absent(f"{tmp_path}/s-{n}", content[who])]

    def read() -> int:
        seen = 0
        while seen < rounds:
            seen = 0
            for n in range(rounds):
                try:
                    assert io.read_bytes(f"{tmp_path}/s-{n}") in content
                    seen += 1
                except FileNotFoundError:
                    continue
        return seen

    with ThreadPoolExecutor(writers + 1) as pool:
        reader = pool.submit(read)
        won = list(pool.map(write, range(writers)))
        assert reader.result(timeout=600) == rounds
    assert sorted(n for numbers in won for n in numbers) == list(range(rounds))
