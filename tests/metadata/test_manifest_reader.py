"""What the reader of manifests leaves out, and what it never may."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import encode_row
from paimon_pyds.engine.commit.manifests import ManifestWriter
from paimon_pyds.errors import CorruptFileError, SnapshotNotFoundError
from paimon_pyds.metadata import manifest_codec
from paimon_pyds.metadata import manifest_store as stores
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, FileKind, ManifestEntry, ManifestFile, entry_schema
from paimon_pyds.metadata.manifest_codec import entries_to_batch
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.disk_cache import LocalCache
from paimon_pyds.storage.range_cache import RANGE_CACHE
from support.effort import examples
from support.manifests import entry_at
from support.memory_io import MemoryIO

_COLUMNS = {
    "i": (pa.int32(), st.integers(-3, 3)),
    "s": (pa.string(), st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600"])),
    "f": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")])),
    "d": (pa.date32(), st.integers(-2, 2)),
    "m": (pa.decimal128(20, 2), st.integers(-2, 2).map(lambda n: Decimal(n).scaleb(-2))),
    "b": (pa.bool_(), st.booleans()),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    fields = [pa.field(name, type_) for name, (type_, _) in _COLUMNS.items()]
    schema = pa.schema([*fields, pa.field("v", pa.int64())])
    table = pp.Table.create(tmp_path_factory.mktemp("reader") / "t", schema, partition_by=list(_COLUMNS))
    table.append(pa.table({**{name: pa.nulls(1, type_) for name, (type_, _) in _COLUMNS.items()}, "v": [1]}, schema))
    return table


@pytest.fixture(scope="module")
def entry(table: pp.Table) -> ManifestEntry:
    """Some entry of the table."""
    return entry_at(ManifestReader(table._store).live_files(table._store.latest_snapshot()), 0)


_ROWS = st.lists(st.tuples(*(st.none() | values for _, values in _COLUMNS.values())), min_size=1, max_size=4)


@settings(max_examples=examples(15), deadline=None)
@given(manifests=st.lists(_ROWS, min_size=1, max_size=4), wanted=_ROWS)
def test_manifests_of_the_partitions_are_kept(
    table: pp.Table, entry: ManifestEntry, manifests: list[list[tuple[Any, ...]]], wanted: list[tuple[Any, ...]]
) -> None:
    schema = table._store.latest_schema()
    types = [f.type for f in schema.partition_fields]
    writer = ManifestWriter(table._store, TableOptions({}), schema)
    rows = [[encode_row(row, types) for row in of] for of in manifests]
    files = [writer.write(entries_to_batch([replace(entry, partition=row) for row in of]))[0] for of in rows]
    partitions = frozenset(encode_row(row, types) for row in wanted)
    kept = EntryFilter(schema, partitions=partitions).may_hold(files)
    for file, of in zip(files, rows, strict=True):
        assert file in kept or partitions.isdisjoint(of)
    reader = ManifestReader(table._store, EntryFilter(schema, partitions=partitions))
    found = reader.entries(kept, ("partition",))["partition"].to_pylist()
    assert found == [row for of in rows for row in of if row in partitions]


def _manifests(table: pp.Table, entry: ManifestEntry, *entries: tuple[int, int, str]) -> list[ManifestFile]:
    """A manifest for each (kind, bucket, file name)."""
    writer = ManifestWriter(table._store, TableOptions({}), table._store.latest_schema())
    return [
        writer.write(
            entries_to_batch([replace(entry, kind=kind, bucket=bucket, file=replace(entry.file, file_name=name))])
        )[0]
        for kind, bucket, name in entries
    ]


def test_buckets(table: pp.Table, entry: ManifestEntry) -> None:
    files = _manifests(table, entry, *((FileKind.ADD, bucket, f"data-{bucket}") for bucket in range(4)))
    wanted = EntryFilter(table._store.latest_schema(), buckets=frozenset([1, 3]))
    assert wanted.may_hold(files) == [files[1], files[3]]
    unbounded = [replace(file, min_bucket=None) for file in files]
    assert wanted.may_hold(unbounded) == unbounded  # older writers do not tell
    found = ManifestReader(table._store, wanted).live(unbounded, ("file_name",))
    assert found.schema.names == ["file_name"]
    assert found["file_name"].to_pylist() == ["data-1", "data-3"]


def test_deletions_count_whatever_the_list_says_of_them(table: pp.Table, entry: ManifestEntry) -> None:
    files = _manifests(table, entry, (FileKind.ADD, 0, "a"), (FileKind.ADD, 0, "b"), (FileKind.DELETE, 0, "a"))
    swapped = [*files[:2], replace(files[2], num_added_files=1, num_deleted_files=0)]
    for manifests in (files, swapped):
        reader = ManifestReader(table._store)
        assert reader.live(manifests, ("file_name",))["file_name"].to_pylist() == ["b"]
        assert reader.live(manifests)["file_name"].to_pylist() == ["b"]
        assert reader.added(manifests, ("file_name",))["file_name"].to_pylist() == ["a", "b"]


def test_a_manifest_is_held_against_its_list(table: pp.Table, entry: ManifestEntry) -> None:
    (file,) = _manifests(table, entry, (FileKind.ADD, 0, "a"))
    for wrong in (replace(file, num_added_files=2), replace(file, file_size=file.file_size + 1)):
        for columns in (None, ("file_name",)):
            with pytest.raises(CorruptFileError, match="says"):
                ManifestReader(table._store).live([wrong], columns)


def test_nothing(table: pp.Table) -> None:
    reader = ManifestReader(table._store)
    assert reader.manifests(None) == []
    assert reader.live_files(None).schema.equals(ENTRY_SCHEMA)
    assert reader.live_files(None, ("row_count", "file_name")).schema.names == ["file_name", "row_count"]


def test_partitions_without_columns(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("v", pa.int64())]))
    table.append(pa.table({"v": [1]}))
    schema: TableSchema = table._store.latest_schema()
    whole = ManifestReader(table._store).live_files(table._store.latest_snapshot())
    wanted = EntryFilter(schema, partitions=frozenset(whole["partition"].to_pylist()))
    assert ManifestReader(table._store, wanted).live_files(table._store.latest_snapshot()).equals(whole)


def test_one_thread_decodes_at_a_time(table: pp.Table) -> None:
    [manifest] = ManifestReader(table._store).manifests(table._store.latest_snapshot())
    decoding, most = 0, 0

    def keep(entries: pa.RecordBatch) -> np.ndarray[Any, Any]:
        nonlocal decoding, most
        decoding += 1
        most = max(most, decoding)
        time.sleep(0.01)  # others run meanwhile
        decoding -= 1
        return np.ones(entries.num_rows, np.bool_)

    def sift(_: int) -> int:
        return ManifestReader(table._store).sift(manifest, ENTRY_SCHEMA.names, keep).num_rows

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sift, range(8))) == [1] * 8
    assert most == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_child_decodes_that_was_forked_while_a_thread_did(table: pp.Table) -> None:
    [manifest] = ManifestReader(table._store).manifests(table._store.latest_snapshot())
    begun, forked = threading.Event(), threading.Event()

    def keep(entries: pa.RecordBatch) -> np.ndarray[Any, Any]:
        begun.set()
        forked.wait(60)
        return np.ones(entries.num_rows, np.bool_)

    thread = threading.Thread(
        target=ManifestReader(table._store).sift, args=(manifest, ENTRY_SCHEMA.names, keep), daemon=True
    )
    thread.start()
    assert begun.wait(60)
    child = os.fork()
    if not child:
        forked.set()
        found = ManifestReader(table._store).sift(manifest, ENTRY_SCHEMA.names, keep)
        os._exit(found.num_rows - 1)
    forked.set()
    thread.join()
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


@pytest.mark.parametrize("commits", [3, 12])
def test_small_manifests_are_decoded_together(tmp_path: Path, commits: int) -> None:
    table = pp.Table.create(tmp_path / "t", "i INT, s STRING")
    for number in range(commits):
        table.append([{"i": number, "s": str(number)}])
    store, columns = table._store, ("kind", "file_name", "row_count")
    reader = ManifestReader(store)
    manifests = reader.manifests(store.latest_snapshot())
    assert len(manifests) == commits
    alone = [store.read_manifest(m.file_name, columns, m.file_size).to_pylist() for m in manifests]
    METADATA_CACHE.clear()
    together = reader.entries(manifests, columns).select(columns).to_pylist()
    assert together == [entry for entries in alone for entry in entries]
    for manifest, entries in zip(manifests, alone, strict=True):
        held = store.held_manifest(manifest.file_name, entry_schema(frozenset(columns)).names, manifest.file_size)
        assert held is not None
        assert held.select(columns).to_pylist() == entries
    METADATA_CACHE.clear()
    damaged = tmp_path / "t" / "manifest" / manifests[1].file_name
    damaged.write_bytes(bytes(manifests[1].file_size))
    with pytest.raises(CorruptFileError, match=damaged.name):
        reader.entries(manifests, columns)
    damaged.unlink()
    with pytest.raises(SnapshotNotFoundError, match=damaged.name):
        reader.entries(manifests, columns)


class _Store(MemoryIO):
    """The files of a directory as those of a store: two are always requested at a time. ``read``: names of manifests
    that were requested."""

    requests_at_once = 4

    def __init__(self, root: Path, cache: LocalCache | None = None) -> None:
        super().__init__({str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()})
        self.local_cache = cache
        self.read: list[str] = []
        self.another: threading.Barrier | None = None

    def version(self, path: str) -> str:
        return "1"

    def read_bytes(self, path: str) -> bytes:
        if self.another is not None:
            self.another.wait(60)
        self.read.append(path.rpartition("/")[2])
        return super().read_bytes(path)


def _joined_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many manifests are decoded together from now on, each time."""
    decode, found = manifest_codec._entries_of_all, list[int]()

    def counted(containers: Any, columns: Any) -> pa.RecordBatch | None:
        found.append(len(containers))
        return decode(containers, columns)

    monkeypatch.setattr(manifest_codec, "_entries_of_all", counted)
    return found


@pytest.mark.parametrize("on_disk", [False, True])
def test_small_manifests_of_a_store_are_decoded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    """They are requested side by side, and those that are neither in memory nor on disk only."""
    table = pp.Table.create(tmp_path / "t", "i INT, s STRING")
    for number in range(12):
        table.append([{"i": number, "s": str(number)}])
    columns = ("kind", "file_name", "row_count")
    manifests = ManifestReader(table._store).manifests(table._store.latest_snapshot())
    expected = ManifestReader(table._store).entries(manifests, columns)
    io = _Store(tmp_path / "t", LocalCache(str(tmp_path / "cache"), 1 << 20))
    store = TableStore(io, str(tmp_path / "t"))
    RANGE_CACHE.clear()
    joined, reader = _joined_counts(monkeypatch), ManifestReader(store, on_disk=on_disk)
    io.another = threading.Barrier(2)
    assert reader.entries(manifests, columns).equals(expected)
    assert joined == [12] and sorted(io.read) == sorted(m.file_name for m in manifests)
    assert reader.entries(manifests, columns).equals(expected) and joined == [12] and len(io.read) == 12
    METADATA_CACHE.clear()
    RANGE_CACHE.clear()
    assert reader.entries(manifests, columns).equals(expected)
    assert joined == [12, 12] and len(io.read) == (12 if on_disk else 24)


@pytest.mark.parametrize("header", [True, False])
def test_a_damaged_manifest_of_a_store_is_named_and_not_kept(tmp_path: Path, header: bool) -> None:
    """Whether its header is damaged, or only its entries."""
    table = pp.Table.create(tmp_path / "t", "i INT, s STRING")
    for number in range(5):
        table.append([{"i": number, "s": str(number)}])
    manifests = ManifestReader(table._store).manifests(table._store.latest_snapshot())
    io = _Store(tmp_path / "t", LocalCache(str(tmp_path / "cache"), 1 << 20))
    reader = ManifestReader(TableStore(io, str(tmp_path / "t")), on_disk=True)
    path = next(path for path in io._files if path.endswith(manifests[3].file_name))
    sound = io._files[path]
    block = sound.rindex(sound[-16:], 0, -16) + 16  # behind the first sync marker
    behind = 0 if header else block + 4

    def forget() -> None:
        METADATA_CACHE.clear()
        RANGE_CACHE.clear()

    forget()
    io._files[path] = sound[:behind] + bytes(len(sound) - behind)
    with pytest.raises(CorruptFileError, match=manifests[3].file_name):
        reader.entries(manifests)
    io._files[path] = sound
    assert reader.entries(manifests).num_rows == 5
    forget()
    del io._files[path]
    assert reader.entries(manifests).num_rows == 5  # from disk
    forget()
    io.local_cache = None
    with pytest.raises(SnapshotNotFoundError, match=manifests[3].file_name):
        reader.entries(manifests)


@pytest.mark.parametrize("remote", [False, True])
def test_small_manifests_between_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: bool) -> None:
    """All come in order, whichever are large, or in memory."""
    table = pp.Table.create(tmp_path / "t", "i INT, s STRING")
    for number in range(12):
        table.append([{"i": number, "s": str(number)}] * (1 + number % 2))
    manifests = ManifestReader(table._store).manifests(table._store.latest_snapshot())
    alone = [table._store.read_manifest(m.file_name, None, m.file_size).to_pylist() for m in manifests]
    sizes = sorted({m.file_size for m in manifests})
    for least in (sizes[0], sizes[len(sizes) // 2], sizes[-1] + 1):
        monkeypatch.setattr(stores, "MIN_CACHED_BYTES", least)
        for held in ((), (0, 5, 6), (11,)):
            METADATA_CACHE.clear()
            store = TableStore(_Store(tmp_path / "t"), str(tmp_path / "t")) if remote else table._store
            for number in held:
                store.read_manifest(manifests[number].file_name, None, manifests[number].file_size)
            found = ManifestReader(store).entries(manifests).to_pylist()
            assert found == [entry for entries in alone for entry in entries]
