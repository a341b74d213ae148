"""Tables on a mounted file system without hard links, without a rename that replaces nothing, and without appends."""

from __future__ import annotations

import errno
import multiprocessing.process
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import AlreadyExistsError, StorageError
from paimon_pyds.storage import local_writes
from paimon_pyds.storage.local import LocalFileIO
from support.fuse import volume as mounted
from support.oracle import Oracle, requires_java_oracle
from support.victims import fork_server

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("mounted")) as place:
        if place is None:
            pytest.skip("this machine does not let us mount a file system (/dev/fuse)")
        yield place


@pytest.fixture
def path(volume: Path, request: pytest.FixtureRequest) -> str:
    return str(volume / f"t{abs(hash(request.node.name))}")


def ids(path: str) -> list[int]:
    return sorted(pp.Table.open(path).scan().to_arrow()["id"].to_pylist())


def test_the_file_system_is_what_it_should_be(volume: Path) -> None:
    (volume / "a").write_text("x")
    with pytest.raises(PermissionError):
        os.link(volume / "a", volume / "b")
    with pytest.raises(OSError, match="not supported"), (volume / "a").open("a"):
        pass
    assert not local_writes.rename_noreplace(str(volume / "a"), str(volume / "b"))
    with (volume / "b").open("wb") as file, pytest.raises(OSError) as caught:
        os.pwrite(file.fileno(), b"x", 10)
    assert caught.value.errno == errno.ENOTSUP


def test_all_that_is_done_with_tables(path: str) -> None:
    table = pp.Table.create(
        path, pa.table({"id": range(100), "p": [f"p{n % 3}" for n in range(100)]}), partition_by=["p"],
        options={"file-index.bitmap.columns": "id", "deletion-vectors.enabled": "true"},
    )  # fmt: skip
    table.append(pa.table({"id": range(100, 200), "p": ["p1"] * 100}))
    table.delete("id < 10")
    table.update({"p": "'q'"}, "id = 50")
    table.alter(add_columns={"n": "INT"})
    table.tags.create("one")
    table.tags.rename("one", "two")
    table.branches.create("a", tag="two")
    table.branches.rename("a", "b")
    table.branches.fast_forward("b")
    table.branches.delete("b")
    table.compact(full=True)
    table.snapshots.expire(retain_max=1, retain_min=1)
    assert pp.Table.open(path).maintenance.verify().ok
    assert (table.count(), table.scan("p = 'q'").count()) == (190, 1)
    clone = table.maintenance.clone(f"{path}-copy")
    assert pp.Table.open(f"{path}-copy").count() == 190, clone
    catalog = pp.Catalog(f"{path}-warehouse")
    catalog.create_database("d")
    catalog.create_table("d.t", table.scan().to_arrow(), primary_key=["id"], options={"bucket": 2})
    catalog.rename_table("d.t", "u")
    catalog.table("d.u").append(table.scan("id = 11").to_arrow())
    assert catalog.table("d.u").count() == 190
    assert not [name for _, _, names in os.walk(path) for name in names if name.startswith(".")]


def _append(path: str, who: int, commits: int) -> None:
    table = pp.Table.open(path)
    for n in range(commits):
        table.append(pa.table({"id": [1000 * who + n]}), options={"commit.max-retries": 1000})


def _started(*arguments: Any) -> multiprocessing.process.BaseProcess:
    process = fork_server().Process(target=_append, args=arguments)
    process.start()
    return process


@pytest.mark.parametrize("commits", [4, pytest.param(50, marks=pytest.mark.long)])
def test_two_processes_commit_and_nothing_is_lost(path: str, commits: int) -> None:
    pp.Table.create(path, SCHEMA)
    writers = [_started(path, who, commits) for who in range(2)]
    for writer in writers:
        writer.join()
    assert ids(path) == [1000 * who + n for who in range(2) for n in range(commits)]
    assert [s.id for s in pp.Table.open(path).snapshots.list()] == list(range(1, 2 * commits + 1))
    assert pp.Table.open(path).maintenance.verify().ok


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_writer_that_is_killed_beside_another(path: str, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table stays whole; where the killed one held the lock, that is said, and all goes on without it."""
    pp.Table.create(path, SCHEMA)
    monkeypatch.setattr(local_writes, "LOCK_SECONDS", 0.5)
    for number in range(1, kills + 1):
        before = len(ids(path))
        writer = _started(path, number, 900)
        while len(ids(path)) < before + 2:
            time.sleep(0.001)
        os.kill(writer.pid or 0, signal.SIGKILL)
        writer.join()
        try:
            pp.Table.open(path).append(pa.table({"id": [-number]}))
        except StorageError as error:
            lock = Path(re.findall(r"remove (\S+) and write again", str(error))[0])
            assert f"process {writer.pid} on" in str(error) if lock.read_bytes() else "an unknown" in str(error)
            lock.unlink()
            pp.Table.open(path).append(pa.table({"id": [-number]}))
        found = ids(path)
        assert [id_ for id_ in found if id_ < 0] == sorted(range(-number, 0))
        of_writer = [id_ - 1000 * number for id_ in found if id_ >= 1000 * number]
        assert of_writer == list(range(len(of_writer)))
    assert pp.Table.open(path).maintenance.verify().ok


def test_renames_of_files_race_and_one_wins(volume: Path, path: str) -> None:
    io, rivals = LocalFileIO(), 8
    for number in range(10):
        target = f"{path}/tag-{number}"
        for who in range(rivals):
            io.write_bytes(f"{path}/{number}-{who}", str(who).encode())

        def rename(who: int, number: int = number, target: str = target) -> bool:
            try:
                io.rename(f"{path}/{number}-{who}", target)
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(rivals) as pool:
            won = list(pool.map(rename, range(rivals)))
        assert won.count(True) == 1
        assert io.read_bytes(target) == str(won.index(True)).encode()
        assert len(os.listdir(path)) == (number + 1) * rivals


def test_renames_of_directories(path: str) -> None:
    io = LocalFileIO()
    for name in ("a", "b"):
        io.write_bytes(f"{path}/{name}/x", name.encode())
    with pytest.raises(AlreadyExistsError):
        io.rename(f"{path}/a", f"{path}/b")
    io.rename(f"{path}/a", f"{path}/c")
    assert io.read_bytes(f"{path}/c/x") == b"a"
    with pytest.raises(FileNotFoundError):
        io.rename(f"{path}/a", f"{path}/d")


@requires_java_oracle
def test_java_beside_us(path: str, oracle: Oracle) -> None:
    catalog = pp.Catalog(path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", pa.table({"id": [1, 2]}))
    with oracle.batch() as batch:
        batch.write(Path(path), "db.t", [{"id": 3}])
        read = batch.read(Path(path), "db.t")
    table.append(pa.table({"id": [4]}))
    assert read.values == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
