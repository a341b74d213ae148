"""How many requests operations on a table of an object store take."""

from __future__ import annotations

import io as _io
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

import paimon_pyds as pp
from benchmarks import slow_store
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.errors import CorruptFileError, StorageError
from paimon_pyds.format import ReadCounters, by_path
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata import prefetch as ahead
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.scan import Scan
from paimon_pyds.storage import open_file_io
from paimon_pyds.storage.byte_source import FileSource
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.storage.range_cache import RANGE_CACHE
from support.s3_server import AFTER, BEFORE, Server, serving

pytest.importorskip("moto.server")
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
OPTIONS = {
    "file-index.bloom-filter.columns": "id",
    "file-index.bloom-filter.id.items": "1000",
    "file-index.bloom-filter.id.fpp": "0.0001",
}
FILES = 12


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def table(server: Server) -> pp.Table:
    options = server.options()
    return _filled(pp.Table.create(f"{server.bucket()}/t", SCHEMA, options=OPTIONS, storage_options=options))


def _filled(table: pp.Table) -> pp.Table:
    for number in range(FILES):
        table.append(_rows(number))
    return table


def _rows(number: int) -> pa.Table:
    return pa.table({"id": range(number, 1000 * FILES, FILES), "v": ["x"] * 1000}, SCHEMA)


def _requests(server: Server, call: Callable[[], object]) -> int:
    before = len(server.requests)
    call()
    return len(server.requests) - before


def _new_process() -> None:
    for cache in (METADATA_CACHE, OPEN_INDEXES, RANGE_CACHE, ahead._LAST_SEEN):
        cache.clear()


def test_opening_planning_and_a_point_query(server: Server, table: pp.Table) -> None:
    _new_process()
    opened = pp.Table.open(table._store.root, storage_options=server.options())
    _new_process()
    # the schemas' names, the first, LATEST
    assert _requests(server, lambda: pp.Table.open(table._store.root, storage_options=server.options())) == 3
    before = len(server.requests)
    scan = opened.scan(filter="id = 6005")
    # the same, whether there is a newer snapshot, the snapshot
    assert len(server.requests) - before == 5
    assert _requests(server, scan.plan) == 2 + FILES  # two lists, and the manifests
    found: list[pa.Table] = []
    # each index once, and the one file that has the row
    assert _requests(server, lambda: found.append(scan.to_arrow())) == FILES + 1
    assert found[0]["id"].to_pylist() == [6005]
    before = len(server.requests)
    assert opened.scan(filter="id = 6006").to_arrow()["id"].to_pylist() == [6006]
    assert len(server.requests) - before == 5 + 1


def _found(scan: Scan) -> list[int]:
    return list(scan.to_arrow()["id"].to_pylist())


def test_round_trips_of_a_point_query(tmp_path: Path) -> None:
    """Requests that wait for one another. A busy machine may send those of one round too far apart: more are counted
    then, never fewer, so the second and the third try count, too."""
    _filled(pp.Table.create(tmp_path / "bucket" / "t", SCHEMA, options=OPTIONS))
    with slow_store.serving(tmp_path, 0) as address:

        def trips() -> int:
            """In sequence, since the last time."""
            return slow_store.counts(address)["in_sequence"]

        def all_trips(attempt: int) -> list[int]:
            cache = {"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/c{attempt}"}
            found: list[int] = []
            for new_process in (True, False, True):
                if new_process:
                    _new_process()
                    table = pp.Table.open("s3://bucket/t", storage_options=slow_store.options(address) | cache)
                    found.append(trips())
                assert _found(table.scan("id = 6005")) == [6005]
                found.append(trips())
                if found[-1] == 2:
                    assert _found(table.scan("id = 6006")) == [6006]
                    trips()
            return found

        # to open; then what is newest, the manifest lists, the manifests, the indexes, the file; cached: two of them
        assert [1, 5, 2, 1, 2] in map(all_trips, range(3))


def test_explanations_count_requests(server: Server, table: pp.Table) -> None:
    opened = pp.Table.open(table._store.root, storage_options=server.options())
    scan = opened.scan("id = 6005")
    _new_process()
    before = len(server.requests)
    first = scan.explain()
    looked_into = 4 + 1  # files of which it is told what the index saves, and the one with the row
    assert first.requests is not None
    assert first.requests[0] == len(server.requests) - before == 2 + 2 * FILES + looked_into
    assert first.requests[1] > 12 * 1000
    assert f"Requests: {first.requests[0]} for planning" in first.text and "Requests: " in first.html
    assert first.as_dict()["requests"] == {"count": first.requests[0], "bytes": first.requests[1]}
    before = len(server.requests)
    run = scan.explain(analyze=True)
    assert run.requests is not None and run.requests[0] == len(server.requests) - before
    assert "and the run" in run.text


def test_what_is_seen_last_is_a_guess(server: Server, tmp_path: Path) -> None:
    options = server.options(**{"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/c"})
    root = f"{server.bucket()}/t"
    table = pp.Table.create(root, SCHEMA, storage_options=options)
    table.append(_rows(0))
    assert pp.Table.open(root, storage_options=options).scan().count() == 1000
    other = pp.Table.open(root, storage_options=server.options())
    for _ in range(3):  # by somebody else: what was seen of snapshots and schemas is old
        other.append(_rows(1))
    other.alter(add_columns={"w": "INT"})
    _new_process()
    opened = pp.Table.open(root, storage_options=options)
    other.append(pa.table({"id": [1], "v": ["y"], "w": pa.array([5], pa.int32())}))
    assert opened.scan().count() == 4001 and opened.scan("w = 5").count() == 1
    other.snapshots.rollback(snapshot=1)
    assert opened.scan().count() == 1000
    _new_process()
    assert pp.Table.open(root, storage_options=options).scan().count() == 1000


def test_damage_that_was_read_is_not_kept(server: Server, tmp_path: Path) -> None:
    options = server.options(**{"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/c"})
    root = f"{server.bucket()}/t"
    table = pp.Table.create(root, SCHEMA, options=OPTIONS, storage_options=options)
    table.append(_rows(0))
    io = table._store.io
    (bucket,) = [entry.path for entry in io.list(root) if entry.name == "bucket-0"]
    for suffix in (".parquet.index", ".parquet"):
        (path,) = [entry.path for entry in io.list(bucket) if entry.name.endswith(suffix)]
        whole = io.read_bytes(path)
        io.replace(path, whole[:-400] + bytes(len(whole[-400:])))
        _new_process()
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        for _ in range(2):
            with pytest.raises(CorruptFileError):
                _found(pp.Table.open(root, storage_options=options).scan("id = 12"))
        io.replace(path, whole)
        assert _found(pp.Table.open(root, storage_options=options).scan("id = 12")) == [12]


def test_an_append(server: Server) -> None:
    options = server.options()
    table = pp.Table.create(f"{server.bucket()}/t", SCHEMA, options=OPTIONS, storage_options=options)
    table.append(_rows(0))
    before = len(server.requests)
    table.append(_rows(1))
    puts = [path.rpartition("/")[2].partition("-")[0] for method, path in server.requests[before:] if method == "PUT"]
    assert sorted(puts) == ["LATEST", "data", "data", "manifest", "manifest", "manifest", "snapshot"]
    assert len(server.requests) - before <= 25


def test_a_snapshot_that_is_missing(server: Server, table: pp.Table) -> None:
    assert _requests(server, lambda: table._store.snapshot_exists(10_000)) == 1


def test_the_start_of_a_file_comes_with_its_size(server: Server) -> None:
    root = server.bucket()
    io, _ = open_file_io(root, server.options())
    for size in (0, 5, 100_000):
        io.replace(f"{root}/{size}", b"x" * size)
        source = FileSource(io, f"{root}/{size}")
        before = len(server.requests)
        assert source.size == size
        assert source.read(0, min(size, 16)) == b"x" * min(size, 16)
        assert len(server.requests) - before == (1 if size else 2)
        assert source.read(0, size) == b"x" * size
    with pytest.raises(FileNotFoundError):
        _ = FileSource(io, f"{root}/none").size


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_new_file_whose_put_is_sent_again(server: Server, when: str) -> None:
    root = server.bucket()
    io, _ = open_file_io(root, server.options())
    left = [when]
    server.fail = lambda n, method, path: left.pop() if method == "PUT" and left else None
    io.write_bytes(f"{root}/new", b"mine")
    assert io.read_bytes(f"{root}/new") == b"mine" and not left
    with pytest.raises(StorageError, match="exists"):
        io.write_bytes(f"{root}/new", b"theirs")
    assert io.read_bytes(f"{root}/new") == b"mine"
    with pytest.raises(StorageError, match="bucket does not exist"):
        open_file_io("s3://nothing-here", server.options())[0].write_bytes("s3://nothing-here/x", b"")


@pytest.mark.parametrize("kept", [True, False], ids=["checksums", "none"])
def test_orc_stripes_are_read_at_once(server: Server, tmp_path: Path, kept: bool) -> None:
    """By a request for the footer of a stripe and one for its columns."""
    count = 150_000
    rows = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "s": [f"{i * 7919 % 65537:x}" * 3 for i in range(count)],
            "t": pa.array([i * 1_000_003 for i in range(count)], pa.timestamp("us")),
            "l": [[i, i + 1] for i in range(count)],
        }
    )
    options = {"file.format": "orc", "orc.stripe.size": "64 kb", "file.block-size": "64 kb"}
    table = pp.Table.create(f"{server.bucket()}/t", rows.schema, options=options, storage_options=server.options())
    table.append(rows)
    (file,) = table.scan().plan().files
    io = table._store.io
    if not kept:  # as others write
        data = _io.BytesIO()
        orc.write_table(rows, data, stripe_size=64 << 10, compression="zstd")
        io.replace(file.path, data.getvalue())
    size = io.size(file.path)
    local = tmp_path / "f.orc"
    local.write_bytes(io.read_bytes(file.path))
    reads = {}
    for name, storage, path in (("disk", LocalFileIO(), str(local)), ("store", io, file.path)):
        for columns in (["id", "s", "t", "l"], ["t"], ["id", "l"]):
            counters = ReadCounters()
            with closing(by_path(path).open_reader(storage, path, size, counters)) as reader:
                fields = [f for f in table.schema.fields if f.name in columns]
                before = len(server.requests)
                batches = list(reader.read(fields, RowSelection.ALL, 10_000))
                asked = len(server.requests) - before
            found = pa.Table.from_batches(batches).cast(rows.select(columns).schema)
            assert found.equals(rows.select(columns))
            reads[name, len(columns)] = counters.requests
            stripes = len(reader.groups())
            assert stripes > 3
            if name == "store":
                assert asked <= 2 * stripes + 2
    if kept:  # the disk gives a stripe and its footer at once, to be checked
        assert reads["disk", 4] < reads["store", 4]
    else:
        assert reads["store", 4] < reads["disk", 4]
