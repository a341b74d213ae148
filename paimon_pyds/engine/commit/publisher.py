"""Publishing by the file system: ``snapshot-N`` is created if absent, which is atomic; and what all operations that
commit have in common: when they start over (`Retries`, `on_newest`), and what they remove when they fail.

On a local disk Java Paimon looks whether ``snapshot-N`` is there and then moves its own to that name, which replaces a
file that was created in between. Nothing here can prevent that: a commit reads its snapshot once more before it reports
success, by which time a replacement has nearly always happened, and the next commit on the same table reads it again.
(Source: observed behaviour of Java Paimon 1.4's LocalFileIO.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import (
    AlreadyCommittedError,
    CommitConflictError,
    CommitError,
    CommitOutcomeUnknownError,
    PaimonError,
    SnapshotNotFoundError,
)
from paimon_pyds.metadata.commit_message import Changes, Increment
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot, SnapshotPublisher, TableServer
from paimon_pyds.metadata.store import TableStore

_log = logging.getLogger("paimon_pyds.commit")
_NOTE = "last commit"
T = TypeVar("T")


class FileSystemPublisher:
    """A `SnapshotPublisher` that creates snapshot files."""

    server: TableServer | None = None

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        return None

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        """See `SnapshotPublisher`. False, too, when ``latest`` was replaced by another writer."""
        if not is_there(store, latest):
            return False
        try:
            return store.try_create_snapshot(snapshot) and not _out_of_place(store, snapshot, latest)
        except Exception as error:  # whatever it was, the snapshot may be there
            created = _was_created(store, snapshot)
            if created is None:
                raise CommitOutcomeUnknownError(
                    f"the storage did not say whether snapshot {snapshot.id} was published ({error})",
                    path=store.root,
                    hint="look at the table's snapshots before writing again; the files were not removed",
                ) from error
            if not created and not store.snapshot_exists(snapshot.id):
                raise
            return created

    def after_publish(self, store: TableStore, snapshot: Snapshot) -> None:
        """Nothing to do: a directory has no entry to bring up to date."""

    def latest_snapshot(self, store: TableStore) -> Snapshot | None:
        return store.latest_stored_snapshot()

    def was_replaced(self, store: TableStore, snapshot: Snapshot) -> bool:
        """See `SnapshotPublisher`. False if the storage shows no other snapshot."""
        try:
            return not _is_same(store.snapshot(snapshot.id), snapshot)
        except SnapshotNotFoundError:
            with suppress(PaimonError, OSError):
                store.correct_latest_hint()
            return False
        except (PaimonError, OSError):
            return False


_FILE_SYSTEM = FileSystemPublisher()


def publisher_of(store: TableStore) -> SnapshotPublisher:
    """The publisher of a table's snapshots: the file system, unless the store has another one."""
    return store.publisher or _FILE_SYSTEM


def is_there(store: TableStore, snapshot: Snapshot | None) -> bool:
    """Whether this snapshot is there under its number. Raises PaimonError if the storage does not answer."""
    try:
        return snapshot is None or _is_same(store.snapshot(snapshot.id), snapshot)
    except SnapshotNotFoundError:
        return False


def _out_of_place(store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
    """Whether a new snapshot does not follow the one that it was made from, which is gone; then the new one goes, too.

    That was rolled back just now, or has expired with the number of the new one, which was free again, or the whole
    table was dropped or renamed: a table that is made there next would have the snapshot. Where only the old one has
    expired the new one stays, and so it does where another follows it already.
    """
    if latest is not None and is_there(store, latest):
        return False
    if store.is_still_there() and (latest is None or _only_expired(store, snapshot, latest)):
        return False
    if is_there(store, snapshot):
        store.io.delete([store.paths.snapshot(snapshot.id)])
    with suppress(PaimonError, OSError):
        store.correct_latest_hint()
    return True


def _only_expired(store: TableStore, snapshot: Snapshot, latest: Snapshot) -> bool:
    """Whether nothing but the expiry of the old snapshot, which is gone, came between it and the new one."""
    ids = store.snapshot_ids()
    newer = [id_ for id_ in ids if id_ > snapshot.id]
    if newer and snapshot.id in ids:  # the oldest expire first: a gap shows that this number had expired
        return newer[0] == snapshot.id + 1 and _follows(store, newer[0], snapshot, latest)
    return snapshot.id + 1 in newer or all(id_ > latest.id for id_ in ids)


def _follows(store: TableStore, id_: int, snapshot: Snapshot, base: Snapshot) -> bool:
    """Whether the snapshot with this number has what the one before it changed, compared with its base."""
    reader, name = ManifestReader(store), ("file_name",)
    try:
        after = store.snapshot(id_)
        delta = reader.delta(snapshot)
        names = {
            manifest.file_name for manifest in reader.listed(after.base_manifest_list, after.base_manifest_list_size)
        }
        if delta and names.issuperset(manifest.file_name for manifest in delta):
            return True
        # Manifests may have been merged; files that were removed may have been rewritten by others since.
        before, change, total = snapshot.total_record_count, after.delta_record_count, after.total_record_count
        if before is not None and change is not None and total is not None and before + change != total:
            return False
        if snapshot.index_manifest != base.index_manifest and not _index_files(store, snapshot) <= _index_files(
            store, after
        ):
            return False
        changed = reader.entries(delta, ("kind", "file_name"))
        live = reader.live_files(after, name)["file_name"]
        own = reader.entries(reader.delta(after), name)["file_name"]
    except SnapshotNotFoundError:
        return True  # the oldest expire first: so has the new one
    adds = pc.equal(changed["kind"], FileKind.ADD)
    added, removed = (changed.filter(kind)["file_name"] for kind in (adds, pc.invert(adds)))
    there = pa.chunked_array([live, *own.chunks], pa.string())  # the next one may have removed what was added
    return len(added.filter(pc.is_in(added, there))) == len(added) and not pc.any(pc.is_in(removed, live)).as_py()


def _index_files(store: TableStore, snapshot: Snapshot) -> set[str]:
    """The names of the files with deletion vectors, and hash indexes."""
    name = snapshot.index_manifest
    return set() if name is None else {entry.file_name for entry in store.read_index_manifest(name)}


def _was_created(store: TableStore, snapshot: Snapshot) -> bool | None:
    """Whether our snapshot is there after all; None when the storage does not answer."""
    try:
        return store.snapshot_exists(snapshot.id) and _is_same(store.snapshot(snapshot.id), snapshot)
    except (PaimonError, OSError):
        return None


def _is_same(there: Snapshot, snapshot: Snapshot) -> bool:
    return there.delta_manifest_list == snapshot.delta_manifest_list


@dataclass(frozen=True, slots=True)
class _LastCommit:
    """What this process published last. ``changes`` is None when they can't be published again by themselves."""

    snapshot: Snapshot
    changes: Changes | None
    published_ms: float


def has_all(store: TableStore, latest: Snapshot, increment: Increment) -> bool:
    """Whether the table has all that an increment adds: another commit may have built on a snapshot before it was
    replaced. False for an increment that adds nothing."""
    files = {f.file_name for bucket in increment.added for f in bucket.files}
    if increment.replacements is not None:
        files.update(increment.replacements["file_name"].to_pylist())
    index_files = {entry.file_name for entry in increment.index_entries}
    if index_files and not index_files <= _index_files(store, latest):
        return False
    if files:
        live = ManifestReader(store).live_files(latest, ("file_name",))["file_name"]
        if not pc.all(pc.is_in(array(sorted(files), pa.string()), live)).as_py():
            return False
    return bool(files or index_files)


def remember(store: TableStore, snapshot: Snapshot, changes: Changes) -> None:
    """Remember a published snapshot for `replaced_since`. Only plain appends: other changes may not be valid any more.

    A lost compaction loses no row; if it is there, so are the rows that it was made from.
    """
    if all(i.kind.keeps_rows for i in changes.increments):
        store.notes.pop(_NOTE, None)
        return
    plain = all(i.only_adds and i.overwrite is None and i.guard is None for i in changes.increments)
    store.notes[_NOTE] = _LastCommit(snapshot, changes if plain else None, time.time() * 1000)


def snapshot_committed(store: TableStore, id_: int) -> Snapshot:
    """A snapshot that this process has committed; the last one costs no request. Raises SnapshotNotFoundError."""
    last = store.notes.get(_NOTE)
    return last.snapshot if isinstance(last, _LastCommit) and last.snapshot.id == id_ else store.snapshot(id_)


def replaced_since(store: TableStore, latest: Snapshot | None) -> Changes | None:
    """The changes of this table's last commit here when its snapshot was replaced since, else None; reported once.

    Call it with each latest snapshot that a commit goes on from, after that was read: a later replacement is
    then noticed as the commit is published, or by the next one.

    The other writer made its snapshot before it found the number free, so one that was made later is no such case: it
    follows a rollback, or is of a table that was created anew. Nor is a fast-forward one.
    Raises CommitError: the snapshot was replaced, and its changes can't be published again by themselves.
    """
    last = store.notes.get(_NOTE)
    if not isinstance(last, _LastCommit) or (latest is not None and _is_same(latest, last.snapshot)):
        return None
    if not publisher_of(store).was_replaced(store, last.snapshot):
        return None
    try:
        other = store.snapshot(last.snapshot.id)
    except (PaimonError, OSError):
        return None
    store.notes.pop(_NOTE)
    if other.time_millis > last.published_ms or _is_of_a_branch(store, other):
        return None
    what = f"snapshot {other.id} was replaced by another writer after it was published"
    if last.changes is None:
        raise CommitError(
            f"{what}: its changes are lost",
            path=store.root,
            hint="run that operation again, then this one; let writers share a table where creating files is atomic",
        )
    _log.warning("%s; its files are committed again (%s)", what, store.root)
    return last.changes


def _is_of_a_branch(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a branch has it, too: the table was fast-forwarded to that. The branch's newest state is under all
    further numbers of the table then."""
    for name in store.branches():
        branch = TableStore(store.io, store.root, name)
        with suppress(PaimonError, OSError):
            newest = branch.latest_snapshot()
            if newest is not None and _state_of(newest) == _state_of(snapshot):
                return True
            if _is_same(branch.snapshot(snapshot.id), snapshot):
                return True
    return False


def _state_of(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.time_millis, snapshot.schema_id, snapshot.index_manifest, snapshot.total_record_count


@contextmanager
def logging_errors(store: TableStore, hint: str = "") -> Iterator[None]:
    """Around what keeps a table healthy after a commit: raised, an error would have what is committed done again, and
    so would a warning where warnings are errors. ``hint``: what does it later, where the next commit does not."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning(
            "the change is committed; what follows it failed: %s (%s)%s",
            redact(str(error)),
            redact(store.root),
            f"; {hint}" if hint else "",
        )


@contextmanager
def removing_unfinished(remove: Callable[[], None]) -> Iterator[None]:
    """Around what is written for a commit: on an error, or an interrupt, ``remove`` takes the files away again, best
    effort; it raises nothing."""
    try:
        yield
    except BaseException:
        remove()
        raise


@contextmanager
def removing_unpublished(remove: Callable[[], None]) -> Iterator[None]:
    """Around a commit: when it fails and nothing was published, ``remove`` takes what was written for it away, best
    effort.

    Everything stays after an unknown outcome, when the table has the files already, and after an interrupt, which may
    come a moment after the snapshot was published.
    """
    try:
        yield
    except (AlreadyCommittedError, CommitOutcomeUnknownError):
        raise
    except Exception:
        remove()
        raise


class Retries(Retry):
    """The attempts of an operation on a table: as many as its ``options`` ``commit.*`` say, and one without options."""

    def __init__(self, options: TableOptions | None = None) -> None:
        super().__init__(attempts=1)
        if options is not None:
            self.go_by(options)

    def go_by(self, options: TableOptions) -> None:
        """From now on as often, for as long, and with such pauses as these options say."""
        least, longest = (float(options.get(f"commit.{which}-retry-wait")) / 1000 for which in ("min", "max"))
        timeout = options.get("commit.timeout")
        self.attempts = int(options.get("commit.max-retries")) + 1
        self.pauses = Pauses(2 * least, longest, least=least / 2)
        self.seconds = None if timeout is None else timeout / 1000


def on_newest(
    store: TableStore, once: Callable[[Snapshot | None, Retries], T], given: Mapping[str, str] | None = None
) -> T:
    """What an operation gives that reads the newest snapshot and commits what follows from it.

    It starts over when another commit got in its way, and when the snapshot expired while it was read; not where the
    table still is as it was then: a file of it is lost, or the same conflict would come again.

    ``once``: called with the newest snapshot, and with its tries. It reads the schema afterwards: no file of the
    snapshot has a later one, with more columns. It removes what it wrote when it fails, and raises nothing once it has
    committed.
    Raises CommitConflictError, SnapshotNotFoundError: more often than ``commit.max-retries``.
    """
    retries, before = Retries(), None
    while True:
        newest = store.latest_snapshot()
        try:
            return once(newest, retries)
        except (CommitConflictError, SnapshotNotFoundError) as error:
            schema = store.latest_schema()
            now = store.latest_snapshot(), schema.id
            if now == before or (isinstance(error, SnapshotNotFoundError) and now[0] == newest):
                raise
            retries.go_by(TableOptions({**schema.options, **(given or {})}))
            retries.again(error)
            before = now
