"""How many requests operations on a table of an object store take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import StorageError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.store import METADATA_CACHE
from paimon_pyds.storage import FileSource, open_file_io
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
    table = pp.Table.create(f"{server.bucket()}/t", SCHEMA, options=OPTIONS, storage_options=options)
    for number in range(FILES):
        table.append(_rows(number))
    return table


def _rows(number: int) -> pa.Table:
    return pa.table({"id": range(number, 1000 * FILES, FILES), "v": ["x"] * 1000}, SCHEMA)


def _requests(server: Server, call: Callable[[], object]) -> int:
    before = len(server.requests)
    call()
    return len(server.requests) - before


def test_opening_planning_and_a_point_query(server: Server, table: pp.Table) -> None:
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    opened = pp.Table.open(table.store.root, storage_options=server.options())
    assert _requests(server, lambda: pp.Table.open(table.store.root, storage_options=server.options())) == 2
    before = len(server.requests)
    scan = opened.scan(filter="id = 6005")
    # the schemas' names, the newest, LATEST, whether there is a newer snapshot, the snapshot
    assert len(server.requests) - before == 5
    assert _requests(server, scan.plan) == 2 + FILES  # two lists, and the manifests
    found: list[pa.Table] = []
    # each index once, and the one file that has the row
    assert _requests(server, lambda: found.append(scan.to_arrow())) == FILES + 1
    assert found[0]["id"].to_pylist() == [6005]
    before = len(server.requests)
    assert opened.scan(filter="id = 6006").to_arrow()["id"].to_pylist() == [6006]
    assert len(server.requests) - before == 5 + 1


def test_an_append(server: Server) -> None:
    options = server.options()
    table = pp.Table.create(f"{server.bucket()}/t", SCHEMA, options=OPTIONS, storage_options=options)
    table.append(_rows(0))
    before = len(server.requests)
    table.append(_rows(1))
    puts = [path.rpartition("/")[2].partition("-")[0] for method, path in server.requests[before:] if method == "PUT"]
    assert sorted(puts) == ["LATEST", "data", "data", "manifest", "manifest", "manifest", "snapshot"]
    assert len(server.requests) - before <= 29


def test_a_snapshot_that_is_missing(server: Server, table: pp.Table) -> None:
    assert _requests(server, lambda: table.store.snapshot_exists(10_000)) == 1


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
