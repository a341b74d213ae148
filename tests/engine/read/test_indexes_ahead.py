"""Indexes of a store's files: evaluated while earlier files are read, and no more of them than a limit needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.engine.read import split_read
from paimon_pyds.errors import CorruptFileError, PaimonError, SnapshotNotFoundError, StorageError
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.scan import Scan
from paimon_pyds.storage.range_cache import RANGE_CACHE
from support.memory_io import MemoryIO

FILES = 12
AT_ONCE = 3


class Store(MemoryIO):
    """Files that are read by requests; ``indexes`` were requested. ``ahead``: set once more of them were than are
    evaluated together."""

    requests_at_once = AT_ONCE

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.indexes: set[str] = set()
        self.ahead = threading.Event()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if path.endswith(".index"):
            self.indexes.add(path)
            if len(self.indexes) > AT_ONCE:
                self.ahead.set()
        return super().read_ranges(path, ranges)


class StartsStore(Store):
    """A `Store` that gives the starts of many files at once, ``most`` bytes of each; ``requested`` were given so.
    ``refused`` have none; ``fault`` is raised instead."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.requested: list[list[str]] = []
        self.refused: set[str] = set()
        self.fault: PaimonError | None = None
        self.most = 1 << 20
        self.threads: set[str] = set()

    def open_sized(self, path: str, size: int) -> pa.NativeFile:
        return self.open_input(path)

    def read_start(self, path: str, length: int) -> tuple[bytes, int]:
        return self.read_ranges(path, [(0, min(length, self.size(path), self.most))])[0], self.size(path)

    def read_starts(self, paths: Sequence[str], length: int) -> list[tuple[bytes, int] | None]:
        self.requested.append(list(paths))
        self.threads.add(threading.current_thread().name)
        if sum(map(len, self.requested)) > AT_ONCE:
            self.ahead.set()
        if self.fault is not None:
            raise self.fault
        known = [None if path in self.refused else self._files.get(self._key(path)) for path in paths]
        return [None if data is None else (data[: min(length, self.most)], len(data)) for data in known]


SCHEMA = pa.schema([("id", pa.int64()), ("color", pa.string())])


def _files(**options: str) -> dict[str, bytes]:
    """A table ``/t`` of twelve files with an index each, whose second row is red."""
    files: dict[str, bytes] = {}
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1 b"} | options
    table = pp.Table(create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(SCHEMA), (), (), options)))
    for number in range(FILES):
        table.append(pa.table([[2 * number, 2 * number + 1], ["blue", "red"]], schema=SCHEMA))
    return files


@pytest.fixture
def store() -> Store:
    return Store(_files())


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> StartsStore:
    monkeypatch.setattr(split_read, "FEW_STARTS", 1)
    return StartsStore(_files())


def _reds(store: Store, limit: int | None = None) -> Scan:
    return pp.Table(TableStore(store, "/t")).scan("color = 'red'", columns=["id"], limit=limit)


@pytest.mark.parametrize("together", [False, True])
def test_the_next_are_evaluated_while_files_are_read(store: Store, starts: StartsStore, together: bool) -> None:
    store = starts if together else store
    batches = _reds(store).to_batches()
    first = next(batches)
    assert store.ahead.wait(60)
    rows = first["id"].to_pylist() + [row for batch in batches for row in batch["id"].to_pylist()]
    assert rows == list(range(1, 2 * FILES, 2))
    if together:
        assert list(map(len, starts.requested)) == [AT_ONCE] * (FILES // AT_ONCE) and not starts.indexes
        assert threading.current_thread().name not in starts.threads
    else:
        assert len(store.indexes) == FILES


@pytest.mark.parametrize("together", [False, True])
def test_a_reader_that_stops_leaves_no_thread_behind(store: Store, starts: StartsStore, together: bool) -> None:
    store = starts if together else store
    batches = _reds(store).to_batches()
    next(batches)
    assert store.ahead.wait(60)
    batches.close()  # type: ignore[attr-defined]
    assert not [each.name for each in threading.enumerate() if each.name.startswith("paimon-requests")]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("limit", "windows"), [(2, 1), (4, 2)])
def test_a_limit_needs_few(store: Store, starts: StartsStore, together: bool, limit: int, windows: int) -> None:
    store = starts if together else store
    assert _reds(store, limit).to_arrow()["id"].to_pylist() == list(range(1, 2 * limit, 2))
    time.sleep(0.05)  # more would be requested meanwhile
    asked = store.indexes.union(*starts.requested)
    assert len(asked) == windows * AT_ONCE


def _forget() -> None:
    for cache in (METADATA_CACHE, OPEN_INDEXES, RANGE_CACHE):
        cache.clear()


def _ids(scan: Scan) -> list[int]:
    return list(scan.to_arrow()["id"].to_pylist())


REDS = list(range(1, 2 * FILES, 2))


def test_no_index_is_requested_twice(starts: StartsStore) -> None:
    """Neither where it is open, nor where its bytes are in memory."""
    assert _ids(_reds(starts)) == REDS and sum(map(len, starts.requested)) == FILES
    assert _ids(_reds(starts)) == REDS and sum(map(len, starts.requested)) == FILES
    OPEN_INDEXES.clear()
    assert _ids(_reds(starts)) == REDS and sum(map(len, starts.requested)) == FILES
    assert not starts.indexes
    _forget()
    assert _ids(_reds(starts)) == REDS and sum(map(len, starts.requested)) == 2 * FILES


def test_no_index_is_requested_that_nobody_asks(starts: StartsStore) -> None:
    table = pp.Table(TableStore(starts, "/t"))
    assert len(_ids(table.scan(columns=["id"]))) == 2 * FILES
    off = {"file-index.read.enabled": "false"}
    assert _ids(table.scan("color = 'red'", columns=["id"], options=off)) == REDS
    assert not starts.requested and not starts.indexes


@pytest.mark.parametrize("refused", [(1, 8), range(FILES)])
def test_starts_that_are_not_given_are_read_alone(starts: StartsStore, refused: Sequence[int]) -> None:
    paths = [file.index_path or "" for file in _reds(starts).plan().files]
    starts.refused = {paths[number] for number in refused}
    assert _ids(_reds(starts)) == REDS
    assert starts.indexes == starts.refused


def test_no_starts_at_all(starts: StartsStore) -> None:
    starts.fault = StorageError("the store can't be reached")
    assert _ids(_reds(starts)) == REDS
    assert len(starts.indexes) == FILES


@pytest.mark.parametrize("most", [0, 10, 40])
def test_indexes_that_are_larger_than_their_starts(starts: StartsStore, most: int) -> None:
    """Threads request the rest, and the next ones ahead."""
    starts.most = most
    assert _ids(_reds(starts)) == REDS
    assert len(starts.indexes) == FILES and len(starts.requested) == 1


def test_deletion_vectors_are_read_where_rows_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_read, "FEW_STARTS", 1)
    files = _files(**{"deletion-vectors.enabled": "true"})
    pp.Table(TableStore(MemoryIO(files), "/t")).delete("id IN (1, 9, 20)")
    _forget()
    starts = StartsStore(files)
    assert _ids(_reds(starts)) == [row for row in REDS if row not in (1, 9)]
    assert not starts.indexes and sum(map(len, starts.requested)) == FILES


def _damage(store: StartsStore, path: str) -> None:
    store._files[path] = bytes(len(store._files[path]))


def _remove(store: StartsStore, path: str) -> None:
    del store._files[path]


@pytest.mark.parametrize(("change", "error"), [(_damage, CorruptFileError), (_remove, SnapshotNotFoundError)])
def test_what_is_wrong_with_an_index_is_said(
    starts: StartsStore, change: Callable[[StartsStore, str], None], error: type[PaimonError]
) -> None:
    """In its turn; and it is not cached."""
    path = _reds(starts).plan().files[7].index_path
    assert path is not None
    sound = starts._files[path]
    change(starts, path)
    batches, found = _reds(starts).to_batches(), list[int]()
    with pytest.raises(error, match=path.rpartition("/")[2]):
        for batch in batches:
            found += batch["id"].to_pylist()
    assert found == REDS[: len(found)]
    starts._files[path] = sound
    assert _ids(_reds(starts)) == REDS
