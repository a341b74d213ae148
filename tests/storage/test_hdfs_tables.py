"""Tables on HDFS: writers side by side, faults, kills, a name node that fails over, and how many calls it takes."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CommitOutcomeUnknownError, PaimonError, SnapshotNotFoundError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import open_file_io
from paimon_pyds.storage.hdfs import HdfsFileIO
from paimon_pyds.storage.range_cache import RANGE_CACHE
from support.effort import sampled
from support.faults_io import AFTER, BEFORE, HALF, HARMLESS, FaultyIO
from support.servers import MiniHdfs
from support.side_by_side import append_side_by_side
from support.victims import victims

PATIENT = {"commit.max-retries": "1000", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "50 ms"}
_NUMBERS = itertools.count()


@pytest.fixture
def path(mini_hdfs: MiniHdfs) -> str:
    return f"{mini_hdfs.root}/tables/{next(_NUMBERS)}"


def _rows(first: int, count: int = 1) -> pa.Table:
    return pa.table({"a": pa.array(range(first, first + count), pa.int64())})


def _values(path: str, settings: Mapping[str, str]) -> list[int]:
    table = pp.Table.open(path, storage_options=settings)
    return sorted(table.scan().to_arrow()["a"].to_pylist())


@pytest.mark.parametrize(("writers", "commits"), [(3, 3), pytest.param(8, 25, marks=pytest.mark.long)])
def test_writers_side_by_side_lose_nothing(mini_hdfs: MiniHdfs, path: str, writers: int, commits: int) -> None:
    pp.Table.create(path, _rows(0).schema, options=PATIENT, storage_options=mini_hdfs.settings)
    append_side_by_side(
        lambda: pp.Table.open(path, storage_options=mini_hdfs.settings), lambda n: _rows(n), writers, commits
    )
    table = pp.Table.open(path, storage_options=mini_hdfs.settings)
    assert [s.id for s in table.snapshots.list()] == list(range(1, writers * commits + 1))
    assert _values(path, mini_hdfs.settings) == list(range(writers * commits))
    io, _ = open_file_io(path, mini_hdfs.settings)
    assert not [entry.name for entry in io.list(f"{path}/snapshot") if entry.name.startswith(".")]


@pytest.mark.parametrize("mode", sampled([BEFORE, AFTER, HALF], 2))
def test_faults(mini_hdfs: MiniHdfs, path: str, mode: str) -> None:
    """A commit that fails leaves the table as it was, or is there; the same object goes on."""
    io, _ = open_file_io(path, mini_hdfs.settings)
    pp.Table.create(path, _rows(0).schema, storage_options=mini_hdfs.settings).append(_rows(0))

    def append(number: int, at: int | None = None) -> tuple[FaultyIO, PaimonError | None]:
        METADATA_CACHE.clear()
        table = pp.Table(TableStore(faulty := FaultyIO(at, mode, io=io), path))
        try:
            table.append(_rows(number))
        except PaimonError as error:
            assert "\n" not in str(error)
            before = _values(path, mini_hdfs.settings)
            if number not in before:
                table.append(_rows(number))
            return faulty, error
        return faulty, None

    faulty, _ = append(1)
    done, expected = faulty.done, [0, 1]
    publishing = done.index("create_if_absent")
    places = [at for at, name in enumerate(done) if mode == BEFORE or name not in HARMLESS]
    for number, at in enumerate(sorted({*sampled(places, 1), publishing, publishing + 1}), 2):
        faulty, error = append(number, at)
        expected.append(number)
        assert _values(path, mini_hdfs.settings) == expected, (done[at], at)
        if isinstance(error, CommitOutcomeUnknownError):
            assert faulty.failed == "create_if_absent"
    assert pp.Table.open(path, storage_options=mini_hdfs.settings).maintenance.verify(deep=True).ok


def write_for_ever(path: str, settings: Mapping[str, str], number: int, say: Connection) -> None:
    """Append until killed; a byte down the pipe for the start, and one after each commit."""
    table = pp.Table.open(path, storage_options=settings)
    say.send_bytes(b"r")
    while True:
        table.append(_rows(number))
        say.send_bytes(b"d")
        number += 1


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.long)])
def test_writers_that_are_killed(mini_hdfs: MiniHdfs, path: str, rounds: int) -> None:
    """Commits that they reported are there, and what they leave half written disturbs nobody."""
    table = pp.Table.create(path, _rows(0).schema, options=PATIENT, storage_options=mini_hdfs.settings)
    for turn in range(rounds):
        starts = [1000 * (2 * turn + who) for who in range(2)]
        told = [0, 0]
        with victims(write_for_ever, [(path, mini_hdfs.settings, first) for first in starts]) as heard:
            for who, hear in enumerate(heard):
                hear.recv_bytes()
                told[who] += 1
        for who, hear in enumerate(heard):
            with suppress(EOFError):
                while hear.recv_bytes():
                    told[who] += 1
        found = _values(path, mini_hdfs.settings)
        for first, count in zip(starts, told, strict=True):
            own = [value for value in found if first <= value < first + 1000]
            assert own == list(range(first, first + len(own)))
            assert len(own) in (count, count + 1)
    ids = [s.id for s in table.snapshots.list()]
    assert ids == list(range(1, len(ids) + 1))
    table.append(_rows(-1))
    table.maintenance.remove_orphan_files("0 s", dry_run=False)
    assert table.maintenance.verify(deep=True).ok


@pytest.mark.parametrize("turns", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_name_node_that_fails_over_in_the_middle_of_commits(mini_hdfs: MiniHdfs, path: str, turns: int) -> None:
    table = pp.Table.create(path, _rows(0).schema, options=PATIENT, storage_options=mini_hdfs.settings)
    ended, written, faults = threading.Event(), [], []

    def write() -> None:
        number = 0
        while not ended.is_set():
            try:
                table.append(_rows(number))
                written.append(number)
            except PaimonError as error:
                faults.append(error)
                written.extend(value for value in _values(path, mini_hdfs.settings) if value == number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(1, turns + 1):
            mini_hdfs.tell(f"active {turn % 2}")
    finally:
        ended.set()
        writer.join()
        mini_hdfs.tell("active 0")
    assert faults == []
    assert _values(path, mini_hdfs.settings) == written
    assert written


def test_calls(path: str, mini_hdfs: MiniHdfs) -> None:
    """How many calls to name nodes and reads of data nodes an append and a point query take at most."""
    io, _ = open_file_io(path, mini_hdfs.settings)
    options = {"file-index.bloom-filter.columns": "a", **PATIENT}
    table = pp.Table.create(path, _rows(0).schema, options=options, storage_options=mini_hdfs.settings)
    for first in range(0, 5000, 1000):
        table.append(_rows(first, 1000))

    table.compact(full=True)

    def calls(times: int, call: Callable[[pp.Table], object]) -> int:
        """Of the last time, in a process that began with the first."""
        METADATA_CACHE.clear()
        fresh = pp.Table(TableStore(found := io.counted(), path))  # type: ignore[attr-defined]
        for _ in range(times):
            before = found.counts.requests
            call(fresh)
        return int(found.counts.requests - before)

    def point(table: pp.Table) -> None:
        assert table.scan("a = 7").to_arrow()["a"].to_pylist() == [7]

    found = [calls(1, lambda table: table.append(_rows(9000))), calls(1, point), calls(2, point)]
    assert all(count <= most for count, most in zip(found, (47, 32, 9), strict=True)), found


@pytest.fixture(scope="module")
def indexed(mini_hdfs: MiniHdfs) -> pp.Table:
    """Twelve files with an index each, that no statistics rule out."""
    index = "file-index.bloom-filter"
    options = {f"{index}.columns": "a", f"{index}.a.items": "1000", f"{index}.a.fpp": "0.0001"}
    path = f"{mini_hdfs.root}/tables/indexed"
    options |= {"file-index.in-manifest-threshold": "1 b"}
    table = pp.Table.create(path, _rows(0).schema, options=options, storage_options=mini_hdfs.settings)
    for first in range(12):
        table.append(pa.table({"a": pa.array(range(first, 12_000, 12), pa.int64())}))
    return table


def _cold(table: pp.Table) -> tuple[pp.Table, HdfsFileIO]:
    """The table as in a process that knows nothing of it, and what counts its requests."""
    for cache in (METADATA_CACHE, OPEN_INDEXES, RANGE_CACHE):
        cache.clear()
    io = table._store.io.counted()  # type: ignore[attr-defined]
    return pp.Table(TableStore(io, table.path)), io


def test_indexes_of_many_files_are_read_by_one_thread(indexed: pp.Table) -> None:
    table, io = _cold(indexed)
    scan = table.scan("a = 7007")
    scan.plan()
    opened, before = list[str](), io.counts.requests
    open_one = io._opened_anew
    io._opened_anew = lambda path: opened.append(path) or open_one(path)  # type: ignore[assignment, func-returns-value]
    assert scan.to_arrow()["a"].to_pylist() == [7007]
    assert [path for path in opened if path.endswith(".index")] == []
    assert 2 * 12 < io.counts.requests - before < 2 * 12 + 8


def test_a_query_within_a_loop_of_events(indexed: pp.Table) -> None:
    """As in notebooks, whose cells run in one."""

    async def query() -> list[int]:
        return list(_cold(indexed)[0].scan("a = 7007").to_arrow()["a"].to_pylist())

    assert asyncio.run(query()) == [7007]


@pytest.mark.parametrize("failing", [1, 12])
def test_indexes_that_are_not_read_together_are_read_alone(indexed: pp.Table, failing: int) -> None:
    table, io = _cold(indexed)
    scan = table.scan("a = 7007")
    paths = [file.index_path for file in scan.plan().files]
    io.read_starts([], 1)
    real, left = io._async_client, failing

    class Failing:
        async def read(self, path: str) -> object:
            nonlocal left
            left -= 1
            if left >= 0:
                raise OSError("a data node failed")
            assert real is not None
            return await real.read(path)

    io._async_client = Failing()  # type: ignore[assignment]
    assert len(paths) == 12
    assert scan.to_arrow()["a"].to_pylist() == [7007]
    assert left == failing - 12


def test_an_index_that_is_gone_is_named(indexed: pp.Table) -> None:
    table, io = _cold(indexed)
    path = table.scan("a = 7007").plan().files[3].index_path
    assert path is not None
    content = io.read_bytes(path)
    io.delete([path])
    with pytest.raises(SnapshotNotFoundError, match=path.rpartition("/")[2]):
        table.scan("a = 7007").to_arrow()
    io.write_bytes(path, content)
    assert table.scan("a = 7007").to_arrow()["a"].to_pylist() == [7007]
