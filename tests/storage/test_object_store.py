"""ObjectStoreFileIO, and tables, on an S3 server of this machine."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore.store
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.catalog import jdbc
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import (
    AlreadyExistsError,
    BranchNotFoundError,
    CommitError,
    CommitOutcomeUnknownError,
    CorruptFileError,
    PaimonError,
    StorageError,
    TagNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.ops.maintenance import orphan_tasks
from paimon_pyds.storage import FileIO, open_file_io
from paimon_pyds.storage.object_store import ObjectStoreFileIO
from support.effort import LONG, sampled
from support.messages import ids_of
from support.s3_server import AFTER, BEFORE, Server, serving, without_pauses
from support.servers import forwarding
from support.victims import error_in_a_fork, fork_server

pytest.importorskip("moto.server")
ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "p": [f"p{i % 2}" for i in range(20)]})


@pytest.fixture(scope="module")
def moto() -> Iterator[Server]:
    with serving(None) as server:
        yield server


@pytest.fixture(scope="module")
def proxied(s3proxy: str) -> Iterator[Server]:
    with serving(forwarding(s3proxy)) as server:
        yield server


on_both = pytest.mark.parametrize("server", ["moto", "proxied"], indirect=True)
"""What a store does itself, of both servers. Tests of answers that `fail` makes up, and of tables, show the same."""


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = request.getfixturevalue(getattr(request, "param", "moto"))
    without_pauses(monkeypatch)
    METADATA_CACHE.clear()
    yield running
    running.fail, running.status = (lambda *_: None), "503 Slow Down"
    running.conditional = True


@pytest.fixture
def root(server: Server) -> str:
    return server.bucket()


@pytest.fixture
def io(server: Server, root: str) -> ObjectStoreFileIO:
    opened, _ = open_file_io(root, server.options())
    assert isinstance(opened, ObjectStoreFileIO) and isinstance(opened, FileIO)
    return opened


@on_both
def test_reading(io: ObjectStoreFileIO, root: str) -> None:
    path = f"{root}/d/p=a%3Ab/ü x"
    io.replace(path, b"0123456789")
    assert io.read_bytes(path) == b"0123456789"
    assert io.read_ranges(path, [(8, 2), (0, 0), (0, 1)]) == [b"89", b"", b"0"]
    assert io.size(path) == 10 and io.exists(path) and io.exists(f"{root}/d") and not io.exists(f"{root}/d/p")
    with io.open_input(path) as file:
        assert file.read(3) == b"012" and file.size() == 10
    for bad in ((9, 2), (20, 1), (-1, 1)):
        with pytest.raises(CorruptFileError):
            io.read_ranges(path, [bad])
    for call in (io.read_bytes, io.size, io.open_input, lambda p: io.read_range(p, 0, 1)):
        with pytest.raises(FileNotFoundError):
            call(f"{root}/none")


@on_both
def test_listing_and_directories(io: ObjectStoreFileIO, root: str) -> None:
    for name in ("b", "a", "sub/x", "sub/y", "p=a%3Ab/x"):
        io.write_bytes(f"{root}/d/{name}", b"1")
    entries = [(e.path, e.name, e.size, e.is_dir) for e in io.list(f"{root}/d")]
    assert entries == [
        (f"{root}/d/a", "a", 1, False),
        (f"{root}/d/b", "b", 1, False),
        (f"{root}/d/p=a%3Ab", "p=a%3Ab", 0, True),
        (f"{root}/d/sub", "sub", 0, True),
    ]
    assert io.list(f"{root}/none") == []
    io.make_dir(f"{root}/empty.db")
    assert io.exists(f"{root}/empty.db") and io.list(f"{root}/empty.db") == []
    assert [(e.name, e.is_dir) for e in io.list(root)] == [("d", True), ("empty.db", True)]
    io.delete_tree(f"{root}/d")
    assert not io.exists(f"{root}/d")


@on_both
def test_objects_that_stand_for_directories_go_with_a_tree(server: Server, io: ObjectStoreFileIO, root: str) -> None:
    """Hadoop makes them; their names end with a slash, which obstore takes away."""
    for name in ("d/", "d/sub/", "d/p=a%b c/", "d2/"):
        server.put(f"{root}/{name}")
    io.write_bytes(f"{root}/d/sub/x", b"1")
    assert io.exists(f"{root}/d/p=a%b c") and [(e.name, e.is_dir) for e in io.list(root)] == [("d", True), ("d2", True)]
    io.delete_tree(f"{root}/d")
    assert [e.name for e in io.list(root)] == ["d2"] and not io.exists(f"{root}/d")


@on_both
def test_new_objects(io: ObjectStoreFileIO, root: str) -> None:
    assert io.create_if_absent(f"{root}/s", b"1") and not io.create_if_absent(f"{root}/s", b"1")
    assert [e.name for e in io.list(root)] == ["s"]
    with pytest.raises(StorageError, match="exists"):
        io.write_bytes(f"{root}/s", b"x")
    output = io.open_output(f"{root}/long")
    data = os.urandom(1 << 20) * 12
    output.sink.write(data)
    assert not io.exists(f"{root}/long")
    assert output.tell() == output.close() == output.close() == len(data)
    assert io.read_bytes(f"{root}/long") == data
    aborted = io.open_output(f"{root}/aborted")
    aborted.sink.write(b"abc")
    aborted.abort()
    aborted.abort()
    assert not io.exists(f"{root}/aborted")
    io.delete([f"{root}/s", f"{root}/none"])
    assert not io.exists(f"{root}/s")


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_an_acknowledgement_that_is_lost(server: Server, io: ObjectStoreFileIO, root: str, when: str) -> None:
    io.create_if_absent(f"{root}/warm", b"")
    left = [when]
    server.fail = lambda n, method, path: left.pop() if method == "PUT" and path.endswith("/s") and left else None
    assert io.create_if_absent(f"{root}/s", b"mine")
    assert io.read_bytes(f"{root}/s") == b"mine" and not left
    left = [when]
    assert not io.create_if_absent(f"{root}/s", b"theirs")
    assert io.read_bytes(f"{root}/s") == b"mine"
    statuses = ["403 Forbidden"] * 9 + ["503 Slow Down"]  # what is refused later says nothing of the first try

    def fail(number: int, method: str, path: str) -> str | None:
        server.status = statuses.pop() if path.endswith("/t") else server.status
        return BEFORE if path.endswith("/t") else None

    server.fail = fail
    with pytest.raises(CommitOutcomeUnknownError, match=r"503|Slow"):
        io.create_if_absent(f"{root}/t", b"mine")


@pytest.mark.parametrize("later", ["made", "never"])
def test_a_conflict_with_a_put_that_is_still_under_way(
    server: Server, io: ObjectStoreFileIO, root: str, later: str
) -> None:
    """S3 answers 409 (ConditionalRequestConflict) while the first try, whose answer was lost, is not whole yet."""
    io.create_if_absent(f"{root}/warm", b"")
    statuses = ["503 Slow Down", "409 Conflict"] if later == "made" else ["503 Slow Down", *["409 Conflict"] * 9]

    def fail(number: int, method: str, path: str) -> str | None:
        if method != "PUT" or not path.endswith("/s") or not statuses:
            return None
        server.status = statuses.pop(0)
        return BEFORE

    server.fail = fail
    if later == "made":
        assert io.create_if_absent(f"{root}/s", b"mine") and io.read_bytes(f"{root}/s") == b"mine"
        statuses.append("409 Conflict")
        assert io.create_if_absent(f"{root}/t/s", b"mine")
        return
    with pytest.raises(CommitOutcomeUnknownError):
        io.create_if_absent(f"{root}/s", b"mine")


@pytest.mark.parametrize("status", ["503 Slow Down", "403 Forbidden", "501 Not Implemented"])
def test_a_store_that_does_not_say_whether_it_honours_the_condition(server: Server, root: str, status: str) -> None:
    """Only what the store says of conditions is remembered, not an answer that was lost or a right that is missing."""
    io, _ = open_file_io(root, server.options())
    puts: list[str] = []

    def fail(number: int, method: str, path: str) -> str | None:
        puts.extend([path] * (method == "PUT"))
        return BEFORE if method == "PUT" and len(puts) > 1 else None

    server.fail, server.status = fail, status
    with pytest.raises(UnsupportedError if status.startswith("501") else StorageError) as caught:
        io.create_if_absent(f"{root}/s", b"1")
    server.fail = lambda *_: None
    assert "can't delete" not in str(caught.value) and io.list(root) == []
    if not status.startswith("501"):
        assert io.create_if_absent(f"{root}/s", b"1")


@on_both
def test_a_writer_that_may_not_delete(server: Server, root: str) -> None:
    """What it asked the store with stays until orphans are removed."""
    io, _ = open_file_io(root, server.options())
    server.fail, server.status = (lambda n, method, path: BEFORE if method in ("POST", "DELETE") else None), "403 No"
    assert io.create_if_absent(f"{root}/s", b"1") and not io.create_if_absent(f"{root}/s", b"1")
    (left,) = [entry.name for entry in io.list(root) if entry.name != "s"]
    assert orphan_tasks.TEMPORARY.fullmatch(left)


def _replacing(server: Server) -> dict[str, str]:
    """Options of a store that ignores the condition, other than those of the same store when it doesn't."""
    server.conditional = False
    return server.options(**{"s3.session-token": "of a store that replaces"})


def test_a_store_that_ignores_the_condition_is_not_written(server: Server, root: str) -> None:
    options = _replacing(server)
    with pytest.raises(UnsupportedError, match="If-None-Match"):
        pp.Table.create(f"{root}/t", ROWS.schema, storage_options=options)
    assert open_file_io(root, options)[0].list(f"{root}/t") == []


def _locking(root: str, directory: Path, options: dict[str, str]) -> pp.Catalog:
    lock = {"lock.enabled": "true", "lock-check-max-sleep": "20 ms"}
    return pp.Catalog.open(
        {"metastore": "jdbc", "uri": f"jdbc:sqlite:{directory}/c.db", "warehouse": root} | lock | options
    )


def test_a_store_that_ignores_the_condition_is_written_under_a_lock(server: Server, root: str, tmp_path: Path) -> None:
    options = _replacing(server)
    catalog = _locking(root, tmp_path, options)
    catalog.create_database("shop")
    retries = {"commit.max-retries": "1000", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "9 ms"}
    catalog.create_table("shop.t", ROWS.schema, options=retries)
    each = 3 if LONG else 2

    def write(_: int) -> None:
        table = _locking(root, tmp_path, options).table("shop.t")
        for _ in range(each):
            table.append(ROWS.slice(0, 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = catalog.table("shop.t")
    assert [s.id for s in table.snapshots.list()] == list(range(1, 4 * each + 1)) and len(ids_of(table)) == 4 * each
    table.alter(add_columns={"v": pa.int32()})
    table.tags.create("kept")
    assert table.scan().to_arrow().column_names == ["id", "p", "v"] and list(table.tags.list()) == ["kept"]
    with pytest.raises(UnsupportedError, match=r"lock\.enabled"):
        pp.Table.open(table.path, storage_options=options).append(ROWS)


def test_a_lost_acknowledgement_under_a_lock(server: Server, root: str, tmp_path: Path) -> None:
    """Where the outcome is not known the lock stays: what was sent may arrive yet, and replace another's snapshot."""
    catalog = _locking(root, tmp_path, _replacing(server))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", ROWS.schema)
    for when, left, rows in ((AFTER, 9, 20), (BEFORE, 1, 40)):
        tries = [when] * left
        server.fail = lambda n, method, path, t=tries: (
            t.pop() if method == "PUT" and "/snapshot-" in path and t else None
        )
        table.append(ROWS)
        assert len(ids_of(table)) == rows
    server.fail = lambda n, method, path: BEFORE if method == "PUT" and "/snapshot-3" in path else None
    with pytest.raises(CommitOutcomeUnknownError):
        table.append(ROWS)
    server.fail = lambda *_: None
    with sqlite3.connect(tmp_path / "c.db") as database:
        assert len(database.execute("SELECT * FROM paimon_distributed_locks").fetchall()) == 1
    database.close()


def test_a_lock_that_expires_before_the_store_answers(
    server: Server, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer holds it by now, and may have looked: nothing is put, or nobody knows whose put was the last."""
    catalog = _locking(root, tmp_path, _replacing(server))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", ROWS.schema)
    clock, late = jdbc._now, [0]
    monkeypatch.setattr(jdbc, "_now", lambda: clock() + late[0])

    def expire(method: str) -> Callable[[int, str, str], str | None]:
        late[0] = 0
        return lambda n, m, path: late.__setitem__(0, 481 * (m == method and path.endswith("/snapshot-1")))

    server.fail = expire("HEAD")
    with pytest.raises(CommitError, match="lock expired before"):
        table.append(ROWS)
    server.fail = lambda *_: None
    assert not table.snapshots.list()
    io = table._store.io
    server.fail = expire("PUT")
    with pytest.raises(CommitOutcomeUnknownError, match="lock expired meanwhile"):
        io.create_if_absent(f"{table.path}/snapshot/snapshot-1", b"{}")


@on_both
def test_tables_are_written_and_changed(server: Server, root: str) -> None:
    table = pp.Table.create(f"{root}/wh/t", ROWS.schema, partition_by=["p"], storage_options=server.options())
    table.append(ROWS)
    table.append(ROWS.slice(0, 2))
    table.delete("id = 3")
    table.merge(pa.table({"id": [4, 50], "p": ["p0", "p0"]}), on="id", when_matched="update", when_not_matched="insert")
    table.compact(full=True)
    again = pp.Table.open(f"{root}/wh/t", storage_options=server.options())
    assert ids_of(again) == sorted([*(i for i in range(20) if i != 3), 0, 1, 50])
    assert "hush" not in repr(again) + repr(again._store.io)


def test_a_drop_that_fails_halfway(server: Server, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left can be dropped again, or hides nothing from the next table."""
    catalog = pp.Catalog(root, server.options())
    delete, left = obstore.delete, [0]

    def fail(store: obstore.store.ObjectStore, keys: list[str]) -> None:
        left[0] -= 1
        delete(store, keys[:-1] if left[0] < 0 else keys)
        if left[0] < 0:
            raise obstore.exceptions.PermissionDeniedError("no more")

    for deletes in range(2):
        name = f"t{deletes}"
        catalog.create_table(name, ROWS.schema).append(ROWS)
        left[0] = deletes
        monkeypatch.setattr(obstore, "delete", fail)
        with pytest.raises(StorageError):
            catalog.drop_table(name)
        monkeypatch.setattr(obstore, "delete", delete)
        catalog.drop_table(name, ignore_if_not_exists=True)
        assert ids_of(catalog.create_table(name, ROWS.schema)) == []


def test_keyed_tables_and_pickling(server: Server, root: str) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    table = pp.Table.create(
        f"{root}/k", schema, primary_key=["id"], options={"bucket": "1"}, storage_options=server.options()
    )
    for text in ("old", "new"):
        table.append(pa.table({"id": [1, 2], "v": [text, text]}, schema))
    store = pickle.loads(pickle.dumps(table._store))
    assert pp.Table(store).scan().to_arrow()["v"].to_pylist() == ["new", "new"]


@pytest.mark.parametrize(
    ("format_", "more"),
    sampled([
        ("parquet", {}), ("orc", {"deletion-vectors.enabled": "true"}), ("avro", {"changelog-producer": "input"}),
        ("row", {"data-file.thin-mode": "true"}),
    ], 1),
)  # fmt: skip
def test_a_writer_that_another_was_faster_than_numbers_its_rows_anew(
    server: Server, root: str, tmp_path: Path, format_: str, more: dict[str, str]
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    kept = {"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/kept"}
    table = pp.Table.create(
        f"{root}/t",
        schema,
        primary_key=["id"],
        options={"bucket": "1", "write-only": "true", "file.format": format_, **more},
        storage_options=server.options(**kept),
    )
    messages = []
    for text in ("first", "second"):
        with TableWriter(table.write_context()) as writer:
            writer.write(pa.table({"id": list(range(200)), "v": [text] * 200}, schema))
            messages.append(writer.prepare_commit())
    for message in messages:
        table.commit([message])
    table.compact(full="deletion-vectors.enabled" in more)
    for opened in (table, pp.Table.open(f"{root}/t", storage_options=server.options(**kept))):
        assert opened.scan().to_arrow()["v"].unique().to_pylist() == ["second"]
        assert opened.maintenance.verify(deep=True).ok
        METADATA_CACHE.clear()
    names = [status.name for status in table._store.io.list(f"{root}/t/bucket-0")]
    assert not [name for name in names if name.endswith(".tmp")]


def test_what_is_kept_of_a_file_goes_when_its_rows_are_numbered_anew(server: Server, root: str, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.binary())])
    options = server.options(**{"local-cache.enabled": "true", "local-cache.dir": f"{tmp_path}/kept"})
    fixed = {"bucket": "1", "write-only": "true", "parquet.enable.dictionary": "false", "file.compression": "none"}
    table = pp.Table.create(f"{root}/t", schema, primary_key=["id"], options=fixed, storage_options=options)
    messages = []
    for byte in (b"\0", b"\1"):
        with TableWriter(table.write_context()) as writer:
            writer.write(pa.table({"id": range(5000), "v": [byte * 1000] * 5000}, schema))
            messages.append(writer.prepare_commit())
    for message in messages:
        table.commit([message])
    assert table.scan("id >= 17 AND id <= 19").to_arrow()["v"].to_pylist() == [b"\1" * 1000] * 3
    assert table.maintenance.verify(deep=True).ok


def test_a_tag_gets_another_name(server: Server, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pp.Table.create(f"{root}/t", ROWS, storage_options=server.options())
    table.tags.create("a")
    table.tags.rename("a", "b é%20")
    assert list(table.tags.list()) == ["b é%20"]
    table.append(ROWS)
    create = ObjectStoreFileIO.create_if_absent

    def beside(io: ObjectStoreFileIO, path: str, data: bytes) -> bool:
        monkeypatch.undo()
        if path.endswith("tag-c"):  # another was faster
            table.tags.create("c")
        else:
            table.tags.delete("b é%20")
        return create(io, path, data)

    monkeypatch.setattr(ObjectStoreFileIO, "create_if_absent", beside)
    with pytest.raises(AlreadyExistsError):
        table.tags.rename("b é%20", "c")
    assert {name: snapshot.id for name, snapshot in table.tags.list().items()} == {"b é%20": 1, "c": 2}
    monkeypatch.setattr(ObjectStoreFileIO, "create_if_absent", beside)
    with pytest.raises(TagNotFoundError):
        table.tags.rename("b é%20", "d")
    assert list(table.tags.list()) == ["c"]


def test_branches(server: Server, root: str) -> None:
    table = pp.Table.create(f"{root}/t", ROWS, storage_options=server.options())
    table.tags.create("a")
    table.alter(add_columns={"n": "INT"})
    table.append(pa.table({"id": [20], "p": ["x"], "n": pa.array([1], pa.int32())}))
    table.tags.create("b")
    for name, tag, count in (("of a", "a", 20), ("of b", "b", 21), ("empty", None, 0)):
        table.branches.create(name, tag)
        branch = pp.Table.open(f"{root}/t", branch=name, storage_options=server.options())
        assert (branch.count(), len(branch.schema.fields)) == (count, 2 if tag == "a" else 3)
        branch.append(ROWS.slice(0, 1))
        assert branch.count() == count + 1
        with pytest.raises(AlreadyExistsError):
            table.branches.create(name, tag)
    assert table.branches.list() == ["empty", "of a", "of b"]
    with pytest.raises(UnsupportedError, match="can't be renamed"):
        table.branches.rename("empty", "other")
    table.branches.delete("empty")
    table.branches.delete("of a")
    assert (table.branches.list(), table.count()) == (["of b"], 21)
    assert not table._store.io.exists(f"{root}/t/branch/branch-of a")
    table.branches.fast_forward("of b")
    assert (table.count(), table.maintenance.verify(deep=True).ok) == (22, True)


@pytest.mark.parametrize("step", [43, pytest.param(1, marks=pytest.mark.long)])
def test_a_branch_of_which_the_making_or_the_deletion_fails(server: Server, root: str, step: int) -> None:
    """At each request in turn: it is there, or is not, or can be deleted; a second call does it."""
    table = pp.Table.create(f"{root}/t", ROWS, storage_options=server.options())
    table.alter(add_columns={"n": "INT"})
    table.tags.create("a")

    def failing(call: Callable[[], object], at: int, when: str) -> bool:
        server.fail, failed = _failing(len(server.requests) + at, when)
        try:
            call()
        except PaimonError:
            pass
        server.fail = lambda *_: None
        return bool(failed)

    def opened() -> int | None:
        METADATA_CACHE.clear()
        try:
            return pp.Table.open(f"{root}/t", branch="b", storage_options=server.options()).count()
        except BranchNotFoundError:
            return None

    for when in (BEFORE, AFTER):
        for at in itertools.count(step // 2 if when == BEFORE else 0, step):
            failed = failing(lambda: table.branches.create("b", "a"), at, when)
            assert opened() in (20, None)
            if "b" in table.branches.list():
                table.branches.delete("b")
            table.branches.create("b", "a")
            assert opened() == 20
            failed |= failing(lambda: table.branches.delete("b"), at, when)
            assert opened() in (20, None)
            if "b" in table.branches.list():
                table.branches.delete("b")
            assert (table.branches.list(), table.count(), table.maintenance.verify(deep=True).ok) == ([], 20, True)
            if not failed:
                break


def test_two_that_make_one_branch(server: Server, root: str) -> None:
    table = pp.Table.create(f"{root}/t", ROWS, storage_options=server.options())
    for number in range(4):
        table.tags.create(f"t{number}")
        table.append(ROWS)

    def make(number: int) -> int | None:
        try:
            snapshot = table.branches.create("b", f"t{number}")
        except AlreadyExistsError:
            return None
        return None if snapshot is None else snapshot.id

    for _ in range(3 if LONG else 1):
        with ThreadPoolExecutor(4) as pool:
            (winner,) = [found for found in pool.map(make, range(4)) if found is not None]
        branch = pp.Table.open(f"{root}/t", branch="b", storage_options=server.options())
        assert [snapshot.id for snapshot in branch.snapshots.list()] == [winner]
        assert (list(branch.tags.list()), branch.count()) == ([f"t{winner - 1}"], 20 * winner)
        table.branches.delete("b")


@on_both
def test_objects_get_other_names(io: ObjectStoreFileIO, root: str) -> None:
    for name in ("a b", "taken"):
        io.replace(f"{root}/d/{name}", name.encode())
    with pytest.raises(AlreadyExistsError):
        io.rename(f"{root}/d/a b", f"{root}/d/taken")
    io.rename(f"{root}/d/a b", f"{root}/e/ü%20c")
    assert io.read_bytes(f"{root}/e/ü%20c") == b"a b" and io.read_bytes(f"{root}/d/taken") == b"taken"
    assert [status.name for status in io.list(f"{root}/d")] == ["taken"]
    with pytest.raises(UnsupportedError, match="directory"):
        io.rename(f"{root}/d", f"{root}/f")


def _failing(at: int, when: str) -> tuple[Callable[[int, str, str], str | None], list[tuple[str, str]]]:
    """Request ``at`` fails, as often as it is sent again, so that all tries of one call end; and what failed so far."""
    failed: list[tuple[str, str]] = []

    def fail(number: int, method: str, path: str) -> str | None:
        if number < at or len(failed) >= 8 or (failed and failed[0] != (method, path)):
            return None
        failed.append((method, path))
        return when

    return fail, failed


@pytest.mark.parametrize("step", [15, pytest.param(1, marks=pytest.mark.long)])
def test_every_request_of_a_commit_fails_in_turn(server: Server, root: str, step: int) -> None:
    number = 0
    for when in (BEFORE, AFTER):
        at = step // 2 if when == BEFORE else 0
        while True:
            path, number = f"{root}/t{number}", number + 1
            table = pp.Table.create(path, ROWS.schema, storage_options=server.options())
            table.append(ROWS)
            server.fail, failed = _failing(len(server.requests) + at, when)
            try:
                table.append(ROWS)
                done = True
            except CommitOutcomeUnknownError:
                done = None
            except PaimonError:
                done = False
            server.fail = lambda *_: None
            METADATA_CACHE.clear()
            rows = len(ids_of(pp.Table.open(path, storage_options=server.options())))
            assert rows in (20, 40) and done in (None, rows == 40), (at, when, done, rows)
            if not failed:
                break
            at += step


def _write(root: str, options: dict[str, str], writers: int, commits: int) -> None:
    def write(_: int) -> None:
        table = pp.Table.open(f"{root}/t", storage_options=options)
        for _i in range(commits):
            table.append(ROWS.slice(0, 1))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))


@pytest.mark.parametrize(("writers", "commits"), [(2, 2), pytest.param(4, 25, marks=pytest.mark.long)])
def test_two_processes_lose_nothing(server: Server, root: str, writers: int, commits: int) -> None:
    table = pp.Table.create(
        f"{root}/t", ROWS.schema, options={"commit.max-retries": "1000"}, storage_options=server.options()
    )
    others = [fork_server().Process(target=_write, args=(root, server.options(), writers, commits)) for _ in range(2)]
    for process in others:
        process.start()
    for process in others:
        process.join()
        assert process.exitcode == 0
    assert [s.id for s in table.snapshots.list()] == list(range(1, 2 * writers * commits + 1))
    assert len(ids_of(table)) == 2 * writers * commits


@pytest.mark.parametrize(("when", "rows"), [(BEFORE, 20), (AFTER, 21)])
def test_a_writer_that_is_killed_while_it_commits(server: Server, root: str, when: str, rows: int) -> None:
    table = pp.Table.create(f"{root}/t", ROWS.schema, storage_options=server.options())
    table.append(ROWS)
    writer = fork_server().Process(target=_write, args=(root, server.options(), 1, 1))

    def kill(number: int, method: str, path: str) -> str | None:
        if method != "PUT" or not path.endswith("/snapshot-2"):
            return None
        writer.kill()
        return when

    server.fail = kill
    writer.start()
    writer.join()
    assert writer.exitcode == -signal.SIGKILL
    server.fail = lambda *_: None
    again = pp.Table.open(f"{root}/t", storage_options=server.options())
    assert len(ids_of(again)) == rows
    again.append(ROWS.slice(0, 1))
    assert len(ids_of(again)) == rows + 1
    assert [s.id for s in again.snapshots.list()] == list(range(1, rows - 17))


def test_a_forked_process_is_refused_not_stuck(io: ObjectStoreFileIO, root: str) -> None:
    io.exists(f"{root}/x")
    assert "spawn" in error_in_a_fork(lambda: io.exists(f"{root}/x"))


def test_tables_of_one_bucket_share_connections(server: Server, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def client(path: str, options: dict[str, str]) -> object:
        io, _ = open_file_io(path, options)
        assert isinstance(io, ObjectStoreFileIO)
        return io._locate(path)[0]

    first = client(f"{root}/a", server.options())
    assert client(f"{root}/b", server.options()) is first
    assert client(f"{root}x/b", server.options()) is not first
    assert client(f"{root}/b", server.options(**{"s3.secret-key": "another"})) is not first
    assert client(f"{root}/b", server.options(**{"s3.request-timeout": "5"})) is not first
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert client(f"{root}/b", server.options()) is not first
    gone = weakref.ref(first)
    del first
    assert gone() is None


@on_both
def test_a_bucket_that_is_missing(server: Server) -> None:
    with pytest.raises(StorageError, match="bucket does not exist"):
        pp.Table.create("s3://nothing-here/t", ROWS.schema, storage_options=server.options())


def test_refused_credentials(server: Server, io: ObjectStoreFileIO, root: str) -> None:
    server.fail, server.status = (lambda *_: BEFORE), "403 Forbidden"
    try:
        with pytest.raises(StorageError, match="credentials") as caught:
            io.read_bytes(f"{root}/x")
        with pytest.raises(StorageError, match="credentials"):
            io.create_if_absent(f"{root}/x", b"")
    finally:
        server.status = "503 Slow Down"
    assert "hush" not in repr(caught.value) + str(caught.value)
