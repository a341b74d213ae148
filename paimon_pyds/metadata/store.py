"""TableStore: a table's metadata on its storage. The codecs of its files are in other modules of this room
(specification: Paimon documentation, concepts/spec/overview); for schemas see `SchemaStore`, for manifests
`ManifestStore`.

Snapshots are read each time: a rollback may give a number to another snapshot.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import (
    BranchNotFoundError,
    CorruptFileError,
    NotFoundError,
    SnapshotNotFoundError,
    StorageError,
    TagNotFoundError,
    suggest,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE, ManifestStore
from paimon_pyds.metadata.paths import MAIN_BRANCH, ExternalPaths
from paimon_pyds.metadata.schema import utf8_bytes
from paimon_pyds.metadata.snapshot import Snapshot, parse_snapshot, snapshot_to_json
from paimon_pyds.storage import FileIO, is_path, open_file_io, requests_at_once

if TYPE_CHECKING:
    from paimon_pyds.metadata.snapshot import SnapshotPublisher, TableServer
    from paimon_pyds.metadata.user_commits import CommitOnce
    from paimon_pyds.storage.disk_cache import LocalCache
    from paimon_pyds.storage.remote import RequestCounts

T = TypeVar("T")

_HINT_STEPS = 32
"""Snapshots that are looked for behind the one that a hint names, before the directory is listed."""
_PARALLEL_READS = 16
"""Snapshots from which threads read them, and how many threads at most."""


class TableStore(ManifestStore):
    """The metadata of one branch of one table. Cheap to make, safe to share between threads; it pickles."""

    def __init__(
        self,
        io: FileIO,
        root: str,
        branch: str = MAIN_BRANCH,
        external: ExternalPaths | None = None,
        publisher: SnapshotPublisher | None = None,
        local_cache: LocalCache | None = None,
    ) -> None:
        super().__init__(io, root, branch, local_cache)
        self.external = external or ExternalPaths()
        self.publisher = publisher
        """Publishes snapshots; None: the file system does."""
        self._newest: int | None = None
        """The newest snapshot, when it was looked for last."""
        self.notes: dict[str, Any] = {}
        """What one operation leaves for the next on this table; stores of `again` share it."""
        self.once: CommitOnce | None = None
        """The name of the next commit of rows, by which it is made once; it does not pickle."""

    def on_branch(self, branch: str) -> TableStore:
        """The store of a branch of the same table, whether or not it has a schema."""
        if branch == self.branch:
            return self
        return TableStore(self.io, self.root, branch, self.external, self.publisher, self.local_cache)

    @staticmethod
    def open(
        location: str | os.PathLike[str], branch: str | None = None, storage_options: Mapping[str, str] | None = None
    ) -> TableStore:
        """The store of the table at a location.

        Raises:
            TableNotFoundError: there is no ``schema/schema-N``; similar names are given.
            BranchNotFoundError: the table has no such branch.
        """
        io, root = open_file_io(location, storage_options)
        store = TableStore(io, root, external=ExternalPaths.of(storage_options), local_cache=cache_of(storage_options))
        return store.for_branch(branch or MAIN_BRANCH)

    def __repr__(self) -> str:
        return f"TableStore({redact(self.root)!r}, branch={self.branch!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TableStore, (self.io, self.root, self.branch, self.external, self.publisher, self.local_cache))

    def again(self) -> TableStore:
        """The table for the next operation: what was read before is trusted once one schema was read again."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._schemas_checked = False
        return other

    def committing(self, once: CommitOnce) -> TableStore:
        """The same table, whose next commit of rows has this name."""
        other = self.again()
        other.once = once
        return other

    def counted(self) -> TableStore:
        """The same table, whose requests to a store are counted apart; on a local disk itself."""
        if self._sent is None:
            return self
        other = self._over(cast("Any", self.io).counted(), self.branch)
        other.once = self.once
        other._schemas, other._schemas_checked = self._schemas, self._schemas_checked
        return other

    @property
    def requests(self) -> RequestCounts | None:
        """The requests that this store of `counted` has sent so far; None on a local disk."""
        return getattr(self.io, "counts", None)

    def for_branch(self, branch: str) -> TableStore:
        """The store of another branch. Raises BranchNotFoundError."""
        store = self._over(self.io, branch)
        if not is_file_name(branch):
            raise store.no_table()
        with store.newest_ahead():
            store.latest_schema()
        return store

    def _over(self, io: FileIO, branch: str) -> TableStore:
        return TableStore(io, self.root, branch, self.external, self.publisher, self.local_cache)

    @property
    def server(self) -> TableServer | None:
        """What makes tags, branches and rollbacks; None where files are all there is."""
        return None if self.publisher is None else self.publisher.server

    # ------------------------------------------------------------------------------------ snapshots

    def snapshot_ids(self) -> list[int]:
        """The numbers of all snapshots that are there, ascending."""
        return self.file_numbers(self.paths.snapshot_dir, "snapshot-")

    def latest_snapshot_id(self, refresh: bool = False) -> int | None:
        """The number of the latest snapshot; None when nothing was ever committed.

        The hint is believed when its snapshot is there and the next is not; a hint that lags is followed up. With
        ``refresh`` it is not looked at, and the directory listed.
        """
        if self.publisher is not None:
            latest = self.publisher.latest_snapshot(self)
            return None if latest is None else latest.id
        return self._latest_stored_id(refresh)

    def _latest_stored_id(self, refresh: bool = False) -> int | None:
        hint = None if refresh else self._hint()
        if hint is not None and self.snapshot_exists(hint):
            for id_ in range(hint, hint + _HINT_STEPS):
                if not self.snapshot_exists(id_ + 1):
                    return id_
        ids = self.snapshot_ids()
        return ids[-1] if ids else None

    def earliest_snapshot_id(self) -> int | None:
        """The lowest number of a snapshot that has not expired; None if the table has no snapshot."""
        hint = read_hint(self.io, self.paths.earliest_hint)
        if hint is None and self.snapshot_exists(1):
            return 1  # nothing has expired yet, and a list would be as long as that
        if hint is not None and self.snapshot_exists(hint) and not self.snapshot_exists(hint - 1):
            return hint
        ids = self.snapshot_ids()
        return ids[0] if ids else None

    def snapshot_exists(self, id_: int) -> bool:
        """Whether the snapshot of that number is there."""
        try:
            return bool(self.ask("size", self.paths.snapshot(id_)) >= 0)
        except FileNotFoundError:
            return False

    def latest_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None when nothing was ever committed."""
        return self.latest_stored_snapshot() if self.publisher is None else self.publisher.latest_snapshot(self)

    def latest_stored_snapshot(self) -> Snapshot | None:
        """The snapshot file of the highest number; None if the table has no snapshot."""
        hint = self._hint()
        if hint is not None:
            with self._snapshot_ahead(hint):
                if not self.snapshot_exists(hint + 1) and (found := self._snapshot_or_none(hint)):
                    self._newest = hint
                    return found
        while (id_ := self._latest_stored_id()) is not None:
            try:
                return self.snapshot(id_)
            except SnapshotNotFoundError:
                if self.snapshot_exists(id_):
                    raise
        return None

    def read_newest(self, read: Callable[[Snapshot | None], T]) -> T:
        """What a function reads of the newest snapshot, called again for a newer one where that has expired meanwhile.

        What is committed by what was read goes by `commit.publisher.on_newest` instead.
        """
        while True:
            newest = self.latest_snapshot()
            try:
                return read(newest)
            except SnapshotNotFoundError:
                if self.latest_snapshot() == newest:
                    raise

    def snapshot(self, id_: int) -> Snapshot:
        """The snapshot of that number.

        Raises:
            SnapshotNotFoundError: it never was, or has expired; the numbers that are there are given.
            CorruptFileError: the file is not a snapshot.
        """
        path = self.paths.snapshot(id_)
        try:
            snapshot = self.parse_file(path, _parse_snapshot)
        except FileNotFoundError as error:
            raise self._no_snapshot(id_) from error
        if snapshot.id != id_:
            raise CorruptFileError(f"the snapshot says it is number {snapshot.id}", path=path, field="id")
        return snapshot

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that are there, oldest first. One that expires meanwhile is left out."""
        return self.snapshots_among(self.snapshot_ids())

    def snapshots_between(self, first: int, last: int) -> list[Snapshot]:
        """The snapshots of these numbers, both included, that are there, oldest first."""
        earliest = self.earliest_snapshot_id()
        return [] if earliest is None else self.snapshots_among(range(max(first, earliest), last + 1))

    def newest_until(self, timestamp_ms: int) -> Snapshot | None:
        """The newest snapshot made at or before a time, in milliseconds since the epoch; None if all are younger."""
        ids = self.snapshot_ids()
        low, high, best = 0, len(ids) - 1, None
        while low <= high:
            middle = (low + high) // 2
            snapshot = self._snapshot_or_none(ids[middle])
            if snapshot is None or snapshot.time_millis <= timestamp_ms:
                best, low = snapshot or best, middle + 1
            else:
                high = middle - 1
        return best

    def snapshot_at(self, timestamp_ms: int) -> Snapshot:
        """The newest snapshot made at or before a time, in milliseconds since the epoch.
        Raises SnapshotNotFoundError: all snapshots are younger (earlier ones may have expired), or the table has no
        snapshot."""
        snapshot = self.newest_until(timestamp_ms)
        if snapshot is not None:
            return snapshot
        ids = self.snapshot_ids()
        if not ids:
            raise SnapshotNotFoundError("the table has no snapshot: nothing was committed yet", path=self.root)
        first = self.snapshot(ids[0])
        raise SnapshotNotFoundError(
            f"no snapshot is as old as {_utc(timestamp_ms)}: the earliest that is left, {first.id}, "
            f"was made at {_utc(first.time_millis)}",
            path=self.root,
            hint="older snapshots have expired or never existed; name a later time",
        )

    def try_create_snapshot(self, snapshot: Snapshot) -> bool:
        """Publish a snapshot under its number: the one atomic step of a commit. False when that number is taken."""
        data = utf8_bytes(snapshot_to_json(snapshot), "a snapshot")
        if not self.io.create_if_absent(self.paths.snapshot(snapshot.id), data):
            return False
        with suppress(StorageError):  # the table is right without it
            self.write_latest_hint(snapshot.id)
        return True

    def write_latest_hint(self, id_: int) -> None:
        """Name a snapshot as the newest, for readers that would else list the directory."""
        self.io.replace(self.paths.latest_hint, str(id_).encode())

    def correct_latest_hint(self) -> None:
        """Name the newest snapshot where the hint names one that is gone, as a commit leaves it whose snapshot a
        rollback removes before its hint is written. Java Paimon takes a hint at its word."""
        hint, ids = read_hint(self.io, self.paths.latest_hint), self.snapshot_ids()
        if hint is not None and ids and hint not in ids:
            self.write_latest_hint(ids[-1])

    def write_earliest_hint(self, id_: int) -> None:
        """Name a snapshot as the oldest: those before it expire."""
        self.io.replace(self.paths.earliest_hint, str(id_).encode())

    # -------------------------------------------------------------------------- many requests at once

    @contextmanager
    def newest_ahead(self) -> Iterator[None]:
        """Within, looking once for the newest schema and snapshot takes one round trip to a store, where nothing has
        changed since this machine looked last."""
        if self._sent is None:
            yield
            return
        from paimon_pyds.metadata.prefetch import NewestIds, last_seen, newest, saw

        with self._sent.sending(*newest(self)):
            yield
            if self.publisher is None and self._newest is None:
                self._newest = self._hint()  # the next operation requests that one
        seen = last_seen(self)
        saw(self, NewestIds(max(self._schemas, default=seen.schema), self._newest or seen.snapshot))

    def _snapshot_ahead(self, id_: int) -> AbstractContextManager[None]:
        if self._sent is None:
            return nullcontext()
        from paimon_pyds.metadata.prefetch import snapshot_requests

        return self._sent.sending(*snapshot_requests(self, id_))

    def _hint(self) -> int | None:
        return _number_in(partial(self.ask, "read_bytes", self.paths.latest_hint))

    def lists_ahead(self, snapshot: Snapshot | None) -> None:
        """Have a store give all that plans of a snapshot begin with at once. Errors as `read_manifest`."""
        if snapshot is not None and requests_at_once(self.io):
            from paimon_pyds.metadata.prefetch import load_lists

            load_lists(self, snapshot)

    # ------------------------------------------------------------------------------ tags and branches

    def tag_names(self) -> list[str]:
        """The names of all tags, by name."""
        return sorted(
            s.name[4:] for s in self.io.list(self.paths.tag_dir) if s.name.startswith("tag-") and not s.is_dir
        )

    def tags(self) -> dict[str, Snapshot]:
        """Each tag's snapshot, by name."""
        return {name: self.tag(name) for name in self.tag_names()}

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag keeps. Raises TagNotFoundError, with similar names."""
        try:
            if is_file_name(name):
                return self.parse_file(self.paths.tag(name), parse_snapshot)
        except FileNotFoundError:
            pass
        where = "the table" if self.branch == MAIN_BRANCH else f"branch {self.branch}"
        raise TagNotFoundError(
            f"{where} has no tag {name!r:.100}", path=self.root, hint=suggest(name, self.tag_names(), "tags")
        )

    # -------------------------------------------------------------------------------------- helpers

    def snapshots_among(self, ids: Sequence[int]) -> list[Snapshot]:
        """The snapshots of these numbers that are there, in this order."""
        return [snapshot for snapshot in self._map(self._snapshot_or_none, ids) if snapshot is not None]

    def _snapshot_or_none(self, id_: int) -> Snapshot | None:
        try:
            return self.snapshot(id_)
        except (SnapshotNotFoundError, BranchNotFoundError):
            return None

    def _map(self, call: Callable[[int], T], ids: Sequence[int]) -> list[T]:
        if len(ids) < _PARALLEL_READS and not requests_at_once(self.io):
            return [call(id_) for id_ in ids]
        from paimon_pyds.storage.concurrent import concurrent_map, threads_for

        return list(concurrent_map(call, ids, threads_for(self.io, _PARALLEL_READS)))

    def _no_snapshot(self, id_: int) -> NotFoundError:
        ids = self.snapshot_ids()
        if not ids:
            if not self.schema_ids():
                return self.no_table()
            return SnapshotNotFoundError(
                f"there is no snapshot {id_}: nothing was committed to the table yet", path=self.root
            )
        expired = 0 < id_ < ids[0] and self.branch == MAIN_BRANCH  # a branch may begin with any number
        there = f"snapshot {ids[0]} alone" if len(ids) == 1 else f"snapshots {ids[0]} to {ids[-1]}"
        place = "the table" if self.branch == MAIN_BRANCH else f"branch {self.branch}"
        return SnapshotNotFoundError(
            f"snapshot {id_} {'has expired' if expired else 'is not there'}: {place} has {there}",
            path=self.root,
            hint="tags keep a snapshot from expiring" if expired else None,
        )


def cache_of(storage_options: Mapping[str, str] | None) -> LocalCache | None:
    """The cache on the local disk that storage options configure; None: that of the environment. Raises OptionError."""
    if not storage_options:
        return None
    from paimon_pyds.storage.disk_cache import LocalCache

    return LocalCache.of(storage_options)


def read_hint(io: FileIO, path: str) -> int | None:
    """The number in a hint file (LATEST or EARLIEST: ASCII); None when the file is absent or holds something else.

    Hints may lag behind: they only save a directory listing, and what they say is checked.
    """
    return _number_in(partial(io.read_bytes, path))


def _number_in(read: Callable[[], bytes]) -> int | None:
    try:
        text = read()
    except FileNotFoundError:
        return None
    except StorageError as error:
        if error.errno == errno.ETIMEDOUT:  # listing would wait as long again
            raise
        return None
    return int(text) if text.isdigit() and len(text) < 19 else None


def is_file_name(name: str) -> bool:
    """Whether a file of a table can have this name."""
    return bool(name) and "/" not in name and is_path(name)


def _parse_snapshot(data: bytes, path: str) -> Snapshot:
    """Each operation looks at the latest snapshot several times, and its file may have been replaced meanwhile."""
    return METADATA_CACHE.get_or_load((path, data), lambda: parse_snapshot(data, path), lambda _: 4 * len(data))


def _utc(millis: int) -> str:
    """A time for people: years beyond 9999, too."""
    return f"{np.datetime64(millis, 'ms')}Z ({millis} ms)"
