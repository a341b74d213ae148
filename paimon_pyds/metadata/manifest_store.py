"""Reading and writing the manifests of a table: their decoded form is cached, in memory and on the local disk.

Manifests have unique names and never change, so that what was decoded is right for the whole process.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from functools import cache, lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from paimon_pyds.base.cache import SizedCache
from paimon_pyds.errors import CorruptFileError, NotFoundError, expired_file
from paimon_pyds.metadata.paths import MAIN_BRANCH, TablePaths
from paimon_pyds.metadata.schema import SchemaStore
from paimon_pyds.storage import FileIO, discard, requests_at_once

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.metadata.lazy_entries import KeepEntries
    from paimon_pyds.metadata.manifest import IndexEntry, ManifestFile
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.storage.disk_cache import LocalCache
    from paimon_pyds.storage.range_cache import CachedRanges

T = TypeVar("T")

METADATA_CACHE = SizedCache(256 << 20, small_limit=32 << 20, small=128 << 10)
"""Decoded manifests and manifest lists of this process, by storage, path and size. Names are unique, so nothing gets
stale; another storage may have other credentials."""

_MANIFEST_FILE_WEIGHT = 800
_LOOK_BYTES = 400
_ENTRIES_BYTES = 4096
"""Bytes that the objects of a decoded manifest take next to its buffers."""
MIN_CACHED_BYTES = 128 << 10
"""Bytes of a manifest from which its decoded form is cached on disk: decoding a smaller one takes about as long."""


@cache
def _turn_to_decode() -> AbstractContextManager[bool]:
    """One thread decodes at a time, while others read. Decoding takes Python's lock very often: threads that decode
    side by side wait for it, which takes up to three times the processor time, and the clock's as well where manifests
    are small. Not for small ones that are decoded together, by the caller's thread: it makes no difference there."""
    return threading.RLock()


if hasattr(os, "register_at_fork"):  # a child lacks the threads that hold it
    os.register_at_fork(after_in_child=_turn_to_decode.cache_clear)


class _WholeFile(NamedTuple):
    """A file that was read, whose ``size`` in bytes metadata says. ``ranges`` add it to a cache once it proved right;
    None: they don't."""

    path: str
    size: int | None
    data: bytes
    ranges: CachedRanges | None

    def keep(self) -> None:
        if self.ranges is not None:
            self.ranges.keep()


class ManifestStore(SchemaStore):
    """The manifests of one branch of one table, besides its schemas."""

    def __init__(self, io: FileIO, root: str, branch: str = MAIN_BRANCH, local_cache: LocalCache | None = None) -> None:
        super().__init__(io, root, branch)
        self.local_cache = local_cache
        """The cache of decoded manifests for other processes; None: as the environment configures it."""

    def read_manifest_list(
        self, name: str, size: int | None = None, *, on_disk: bool = False
    ) -> Sequence[ManifestFile]:
        """The manifests of a manifest list, in order. Arguments and errors as `read_manifest`."""
        from paimon_pyds.metadata.record_codec import decode_manifest_list

        return self._cached(
            name, size, ("list", on_disk), decode_manifest_list, lambda files: _MANIFEST_FILE_WEIGHT * (1 + len(files))
        )

    def read_manifest(
        self, name: str, columns: Sequence[str] | None = None, size: int | None = None, *, on_disk: bool = False
    ) -> pa.RecordBatch:
        """The entries of a manifest as columns of ENTRY_SCHEMA (or of ``columns``).

        Readers of a table's state go through `ManifestReader`.

        ``columns``: of ENTRY_SCHEMA; all when None. ``size``: of the file in bytes, from metadata; None if unknown.
        ``on_disk``: cache the entries on the local disk where that pays, and read them from there.

        Raises:
            SnapshotNotFoundError: the file is gone, its snapshot has expired meanwhile.
            TableNotFoundError: the whole table is gone.
            CorruptFileError: the file is not a manifest, or has another size.
        """
        held = self.held_manifest(name, columns, size)
        if held is not None:
            return held
        wanted = None if columns is None else tuple(columns)
        if on_disk and size is not None and size >= MIN_CACHED_BYTES:
            from paimon_pyds.metadata.manifest import ENTRY_SCHEMA

            wanted = wanted or tuple(ENTRY_SCHEMA.names)
            return _joined(self._on_disk(self.paths.manifest(name), size, _groups_of(wanted)), wanted)
        from paimon_pyds.metadata.manifest_codec import decode_manifest

        return self._cached(
            name, size, (wanted, on_disk), lambda d, p: decode_manifest(d, p, columns=wanted), _bytes_of
        )

    def load_manifests(
        self, manifests: Sequence[tuple[str, int]], columns: Sequence[str] | None, threads: int, *, on_disk: bool
    ) -> Iterator[pa.RecordBatch]:
        """What `read_manifest` gives of each of some manifests that are not in memory. Small ones that follow one
        another are decoded together, as each takes a fixed time for itself.

        ``manifests``: names, and sizes in bytes. ``threads``: how many read at a time. ``columns``, ``on_disk``: as for
        `read_manifest`, whose errors are raised.
        """
        from paimon_pyds.storage.concurrent import concurrent_map

        def load(manifest: tuple[str, int]) -> pa.RecordBatch | _WholeFile:
            name, size = manifest
            if size < MIN_CACHED_BYTES:
                return self._whole(self.paths.manifest(name), size, on_disk=on_disk)
            return self.read_manifest(name, columns, size, on_disk=on_disk)

        wanted = None if columns is None else tuple(columns)
        with closing(concurrent_map(load, manifests, threads)) as loaded:
            for small, run in groupby(loaded, lambda each: isinstance(each, _WholeFile)):
                if small:
                    yield from self._decoded(cast("Iterator[_WholeFile]", run), wanted)
                else:
                    yield from cast("Iterator[pa.RecordBatch]", run)

    def _decoded(self, files: Iterable[_WholeFile], columns: tuple[str, ...] | None) -> Iterator[pa.RecordBatch]:
        """The entries of manifests, which are cached in memory."""
        from paimon_pyds.metadata.manifest_codec import decode_manifests

        waiting = deque[_WholeFile]()

        def taken() -> Iterator[tuple[bytes, str]]:
            for file in files:
                waiting.append(file)
                yield file.data, file.path

        for entries in decode_manifests(taken(), columns):
            file = waiting.popleft()
            file.keep()
            # Their memory belongs to other manifests', too, which are cached with them.
            key = self.io, file.path, file.size, columns
            METADATA_CACHE.put(key, entries, int(entries.nbytes) + _ENTRIES_BYTES)
            yield entries

    def held_manifest(
        self, name: str, columns: Sequence[str] | None = None, size: int | None = None
    ) -> pa.RecordBatch | None:
        """What `read_manifest` gives of a manifest that this process has in memory; None where it would be read."""
        path, wanted = self.paths.manifest(name), None if columns is None else tuple(columns)
        exact: pa.RecordBatch | None = METADATA_CACHE.get((self.io, path, size, wanted))
        if exact is not None or wanted is None:
            return exact
        for among in ([None], _groups_of(wanted)):
            parts = [METADATA_CACHE.get((self.io, path, size, group)) for group in among]
            if None not in parts:
                return _joined(parts, wanted)
        return None

    def looked_at(self, name: str, size: int) -> bool:
        """Whether this was called for a manifest before, or it is in memory."""
        key = self.io, self.paths.manifest(name), size, "looked at"
        looked = METADATA_CACHE.get(key) or self.held_manifest(name, ("file_name",), size) is not None
        METADATA_CACHE.put(key, True, _LOOK_BYTES)
        return bool(looked)

    def sift_manifest(
        self, name: str, columns: Sequence[str], size: int, keep: KeepEntries, *, on_disk: bool = False
    ) -> pa.RecordBatch:
        """The entries of a manifest that ``keep`` wants, a part of it at a time; nothing stays in memory. Other
        arguments and errors as `read_manifest`."""
        from paimon_pyds.base.arrays import from_numpy, pc
        from paimon_pyds.metadata.manifest_codec import decode_manifest
        from paimon_pyds.storage.disk_cache import LocalCache

        path = self.paths.manifest(name)
        if on_disk and size >= MIN_CACHED_BYTES and (self.local_cache or LocalCache.of()).max_size:
            entries = _joined(self._on_disk(path, size, _groups_of(columns), in_memory=False), columns)
            wanted = keep(entries)
            return entries if wanted.all() else pc.filter(entries, from_numpy(wanted))
        return self._load(path, size, lambda data, at: decode_manifest(data, at, columns, keep), on_disk=on_disk)

    def read_manifests(
        self, manifests: Iterable[tuple[str, int | None]], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The entries of each of many manifests, for callers that read each once: nothing is cached. A store is sent
        several requests at a time.

        ``manifests``: names, and sizes where the metadata says them. ``columns``: as for `read_manifest`, whose errors
        are raised.
        """
        from paimon_pyds.metadata.manifest_codec import decode_manifests

        def whole(manifest: tuple[str, int | None]) -> tuple[bytes, str]:
            path = self.paths.manifest(manifest[0])
            return self._read(path, manifest[1]), path

        from paimon_pyds.storage.concurrent import concurrent_map

        return decode_manifests(concurrent_map(whole, manifests, requests_at_once(self.io)), tuple(columns))

    def read_index_manifest(self, name: str, *, on_disk: bool = False) -> Sequence[IndexEntry]:
        """The entries of an index manifest. Arguments and errors as `read_manifest`."""
        from paimon_pyds.metadata.record_codec import decode_index_manifest

        return self._cached(
            name, None, ("index", on_disk), decode_index_manifest,
            lambda entries: sum(400 + 200 * len(e.deletion_ranges or ()) for e in entries) + 100,
        )  # fmt: skip

    def index_entries(self, snapshot: Snapshot | None) -> Sequence[IndexEntry]:
        """All entries of a snapshot's index manifest. Errors as `read_index_manifest`."""
        name = None if snapshot is None else snapshot.index_manifest
        return () if name is None else self.read_index_manifest(name)

    def write_manifest(self, data: bytes) -> tuple[str, int]:
        """Write an encoded manifest under a new name; that, and its size in bytes. Raises StorageError."""
        return self._write(f"manifest-{uuid.uuid4()}-0", data)

    def write_manifest_list(self, data: bytes, commit_id: str, number: int) -> tuple[str, int]:
        """The same for one of the manifest lists of a commit."""
        return self._write(f"manifest-list-{commit_id}-{number}", data)

    def write_index_manifest(self, data: bytes) -> tuple[str, int]:
        """The same for an index manifest."""
        return self._write(f"index-manifest-{uuid.uuid4()}-0", data)

    def missing(self, path: str) -> NotFoundError:
        """The error for a file that the metadata names and the storage does not have."""
        if not self.io.list(TablePaths(self.root).schema_dir):
            return self.no_table()
        return expired_file(path)

    def _write(self, name: str, data: bytes) -> tuple[str, int]:
        path = self.paths.manifest(name)
        try:
            self.io.write_bytes(path, data)
        except BaseException:
            discard(self.io, [path])  # a part of it may be there, and nobody else knows its name
            raise
        return name, len(data)

    def _on_disk(
        self, path: str, size: int, groups: Sequence[tuple[str, ...]], *, in_memory: bool = True
    ) -> list[pa.RecordBatch]:
        """The entries of a manifest in some of `COLUMN_GROUPS`, from this machine's disk where they are there.
        ``in_memory``: keep them there as well. Errors as `read_manifest`."""
        from paimon_pyds.metadata.manifest import entry_schema
        from paimon_pyds.storage.disk_cache import LocalCache

        cache = self.local_cache or LocalCache.of()

        @lru_cache(maxsize=1)
        def decoded() -> pa.RecordBatch:
            from paimon_pyds.metadata.manifest_codec import decode_manifest

            names = [name for group in groups for name in group]
            return self._load(path, size, lambda data, at: decode_manifest(data, at, names), on_disk=False)

        def load(group: tuple[str, ...]) -> pa.RecordBatch:
            schema = entry_schema(frozenset(group))
            key = cache.key(self.io, path, size, group)
            return cache.batch(key, schema, lambda: decoded().select(schema.names))

        if not in_memory:
            return list(map(load, groups))
        return [
            METADATA_CACHE.get_or_load((self.io, path, size, group), partial(load, group), _bytes_of)
            for group in groups
        ]

    def _read(self, path: str, size: int | None) -> bytes:
        try:
            data = self.io.read_bytes(path)
        except FileNotFoundError as error:
            raise self.missing(path) from error
        if size is not None and len(data) != size:
            raise CorruptFileError(f"the file has {len(data)} bytes, but its metadata says {size}", path=path)
        return data

    def _cached(
        self,
        name: str,
        size: int | None,
        what: tuple[Any, bool],
        decode: Callable[[bytes, str], T],
        weigh: Callable[[T], int],
    ) -> T:
        """A decoded file. ``what`` names the way of decoding, and says whether bytes from a store are cached on this
        disk."""
        path = self.paths.manifest(name)
        load = partial(self._load, path, size, decode, on_disk=what[1])
        return METADATA_CACHE.get_or_load((self.io, path, size, what[0]), load, weigh)

    def _load(self, path: str, size: int | None, decode: Callable[[bytes, str], T], *, on_disk: bool) -> T:
        """Read and decode a file. ``on_disk``: cache the bytes of remote files on the local disk."""
        file = self._whole(path, size, on_disk=on_disk)
        with _turn_to_decode():
            value = decode(file.data, path)
        file.keep()
        return value

    def _whole(self, path: str, size: int | None, *, on_disk: bool) -> _WholeFile:
        """Read a file. ``on_disk``: from the local disk, if it is a remote one that is cached there."""
        if not on_disk or not requests_at_once(self.io):
            return _WholeFile(path, size, self._read(path, size), None)
        from paimon_pyds.storage.range_cache import CachedRanges

        ranges = CachedRanges(self.io, path)
        return _WholeFile(path, size, ranges.whole(lambda: self._read(path, size)), ranges)


def _groups_of(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Those of `COLUMN_GROUPS` that have these columns; one at least."""
    from paimon_pyds.metadata.manifest import COLUMN_GROUPS, PLACE_COLUMNS

    return [group for group in COLUMN_GROUPS if not set(group).isdisjoint(columns)] or [PLACE_COLUMNS]


def _joined(parts: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of batches of the same rows."""
    whole = parts[0]
    for part in parts[1:]:
        for field, column in zip(part.schema, part.columns, strict=True):
            whole = whole.append_column(field, column)
    return whole.select(list(columns))


def _bytes_of(entries: pa.RecordBatch) -> int:
    return int(entries.get_total_buffer_size()) + _ENTRIES_BYTES
