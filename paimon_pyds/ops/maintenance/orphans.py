"""Orphan files: files in a table's directories that no snapshot, tag, branch or changelog names.

Writers that were killed leave them. A file that is being written looks the same, so only old files count. Directories
are listed before the names of needed files are read: a concurrent commit names its files before these are judged. A
file is identified by its name, which is unique; a file that any manifest names is needed, as in Java, live or not.
Directories that are links are left alone: no metadata names their files, which may belong to others. (Sources: Paimon
documentation, maintenance/manage-snapshots; Java Paimon 1.4, class OrphanFilesClean.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa

from paimon_pyds.base.arrays import array, empty_table, pc
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.options.times import past_ms
from paimon_pyds.base.progress import counted
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import human_bytes
from paimon_pyds.base.text import Summary, counts_text
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, ShufflingExecutor
from paimon_pyds.errors import NotFoundError, OptionError, SecurityError, SnapshotNotFoundError
from paimon_pyds.metadata.changelogs import changes_of
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import ALLOW, MAIN_BRANCH, lies_below
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg.leftovers import directories as iceberg_directories
from paimon_pyds.ops.iceberg.leftovers import needed_names
from paimon_pyds.ops.maintenance.expire import maintenance_options
from paimon_pyds.ops.maintenance.orphan_tasks import (
    FILES,
    TEMPORARY,
    Directories,
    Needed,
    Search,
    files_in,
    names_needed,
    names_of,
)
from paimon_pyds.ops.maintenance.references import Reference, has_changelog, is_expiring, references_of_table
from paimon_pyds.ops.maintenance.removal import delete_files, threads_of
from paimon_pyds.storage import FileIO, normalise_location, scheme_of
from paimon_pyds.storage.concurrent import concurrent_map

T = TypeVar("T")

_PATHS_PER_TASK = 64
"""Directories, or manifests, of a task."""
_NAMES = 4096
"""Names, or files to remove, of a task."""
_PAUSES, _ATTEMPTS = Pauses(0.1, 3.0), 7
"""Seconds before each retry, if snapshots expire meanwhile: their files are removed first."""
_DAMAGED = "a snapshot, tag or branch needs a file that is gone, so the files that it needs are unknown"
_NOTHING_REMOVED = "nothing was removed; find out by table.maintenance.verify() which one it is"


@dataclass(frozen=True, slots=True, repr=False)
class OrphanFiles(Summary):
    """Files that nothing needs.

    Attributes:
        files: an Arrow table of ``path``, ``kind`` (data, manifest, index, statistics, iceberg, temporary), ``size`` in
            bytes, and when each was ``modified``.
        looked_at: how many old files there were.
        seconds: time taken.
        dry_run: nothing was removed.
    """

    files: pa.Table
    looked_at: int
    seconds: float = 0.0
    dry_run: bool = False

    @property
    def bytes(self) -> int:
        """Size of all."""
        return int(pc.sum(self.files["size"]).as_py() or 0)

    def __str__(self) -> str:
        count = self.files.num_rows
        found = counts_text({"": count}, "file")[0].strip() if count else "nothing"
        size = f" ({human_bytes(self.bytes)})" if count else ""
        what = "would go" if self.dry_run else "removed"
        return f"{found}{size} {what}; {self.looked_at:,} old files looked at in {self.seconds:.1f} s"


def remove_orphan_files(
    store: TableStore,
    older_than: timedelta | date | str | int = "1 day",
    *,
    dry_run: bool = False,
    external: bool = False,
    executor: Executor | None = None,
) -> OrphanFiles:
    """Find, and remove, the files of a table that nothing needs; see ``table.maintenance.remove_orphan_files``.

    ``older_than``: an age, or a time. ``external``: also look in ``data-file.external-paths``. ``executor``: where
    directories are listed, manifests are read and files are removed; this machine by default.

    Raises:
        OptionError: a time to come.
        NotFoundError: a snapshot, tag or branch needs a file that is gone: nothing was removed.
        CorruptFileError: metadata is damaged: nothing was removed.
        SecurityError: an external path that is not allowed, or is another table: nothing was removed.
    """
    started = time.monotonic()
    options = maintenance_options(store, None)
    threads, workers = threads_of(options), executor or LocalExecutor()
    before = _limit_ms(older_than)
    directories = _directories(store, threads, external=external)
    if isinstance(workers, ShufflingExecutor):
        orphans, looked_at = _searched(store, before, directories, workers)
        if not dry_run:
            paths = orphans["path"].to_pylist()
            groups = [paths[i : i + _NAMES] for i in range(0, len(paths), _NAMES)]
            for _ in counted(workers.map(store.io.delete, groups), "removing", tasks=len(groups)):
                pass
    else:
        listed = workers.map(partial(files_in, store.io, before), directories)
        found = list(counted(listed, "listing", tasks=len(directories)))
        candidates = pa.concat_tables([empty_table(FILES), *found])
        looked_at = candidates.num_rows
        orphans = candidates.filter(pc.invert(_named(store, candidates, workers)))
        if not dry_run:
            delete_files(store.io, orphans["path"].to_pylist(), threads)
    if not dry_run:
        _remove_directories(store, orphans)
    # In one order, whatever worker was first.
    return OrphanFiles(orphans.sort_by("path"), looked_at, time.monotonic() - started, dry_run)


def _limit_ms(older_than: timedelta | date | str | int) -> int:
    """The time before which a file must have been changed last. Raises OptionError for one that is to come."""
    limit = past_ms("older_than", older_than)
    if limit > int(time.time() * 1000):
        raise OptionError(
            "older_than is in the future: files that are being written would be removed",
            hint='such as "1 day", or a time',
        )
    return limit


# -------------------------------------------------------------------------------------------------------- the files of
# a table


def _directories(store: TableStore, threads: int, *, external: bool) -> list[Directories]:
    """All directories of a table that may have orphans."""
    paths = store.paths
    linked = _links_in(store.io, store.root)
    shared = {"manifest": paths.manifest_dir, "index": paths.index_dir, "statistics": f"{store.root}/statistics"}
    tasks = [Directories(kind, (path,)) for kind, path in shared.items() if path not in linked]
    tasks.append(Directories("temporary", tuple(_named_directories(store, linked))))
    tasks.append(Directories("iceberg", tuple(path for path in iceberg_directories(store) if path not in linked)))
    if half := _half_branches(store):
        tasks.append(Directories("temporary", tuple(half), left_over=True))
    buckets = _bucket_directories(store, threads, external=external)
    return tasks + [
        Directories("data", tuple(buckets[i : i + _PATHS_PER_TASK])) for i in range(0, len(buckets), _PATHS_PER_TASK)
    ]


def _links_in(io: FileIO, directory: str) -> set[str]:
    if scheme_of(directory) != "file":  # stores have no links: a listing would be a useless request
        return set()
    return {status.path for status in io.list(directory) if status.is_link}


def _named_directories(store: TableStore, linked: set[str]) -> Iterator[str]:
    """Directories whose files have names of their own, or temporary ones."""
    branches_dir = store.paths.branches_dir
    linked = linked | _links_in(store.io, branches_dir)
    for branch in (MAIN_BRANCH, *store.branches()):
        paths = store.on_branch(branch).paths
        if branch != MAIN_BRANCH:
            if branches_dir in linked or paths.branch_root in linked:
                continue
            linked = linked | _links_in(store.io, paths.branch_root)
        named = (
            paths.schema_dir, paths.snapshot_dir, paths.tag_dir, paths.consumer_dir, paths.changelog_dir,
            paths.stream_writers_dir,
        )  # fmt: skip
        yield from (path for path in named if path not in linked)


def _half_branches(store: TableStore) -> list[str]:
    """The directories of branches that were being made or deleted when a process was killed, the innermost last."""
    found: list[str] = []
    if store.paths.branches_dir in _links_in(store.io, store.root):
        return found
    half = [s for s in store.io.list(store.paths.branches_dir) if TEMPORARY.fullmatch(s.name)]
    while level := [status.path for status in half if status.is_dir and not status.is_link]:
        found += level
        half = [status for path in level for status in store.io.list(path)]
    return found


def _remove_directories(store: TableStore, removed: pa.Table) -> None:
    """Remove what is empty now of branches that were half-made; another may be made just now."""
    place = f"{store.paths.branches_dir}/"
    beside = (path.removeprefix(place) for path in removed["path"].to_pylist() if path.startswith(f"{place}."))
    gone = {f"{place}{path.partition('/')[0]}" for path in beside}
    for directory in reversed(_half_branches(store)) if gone else ():
        if any(f"{directory}/".startswith(f"{one}/") for one in gone):
            store.io.remove_empty_dir(directory)


def _bucket_directories(store: TableStore, threads: int, *, external: bool) -> list[str]:
    schemas = [store.schema(id_) for id_ in store.schema_ids()]
    if not schemas:
        raise store.no_table()
    places = dict.fromkeys(store.paths.with_options(schema.options).data_root for schema in schemas)
    roots = [path for path in places if not _is_linked(store, path)]
    if external:
        roots += _external_roots(store, schemas)
    level = roots
    for _ in schemas[-1].partition_keys:
        level = _below(store.io, level, threads, lambda name: "=" in name)
    return _below(store.io, level, threads, lambda name: name.startswith("bucket-"))


def _is_linked(store: TableStore, data_root: str) -> bool:
    """Whether a directory of the table, or one between it and the table's own, is a link."""
    path = store.root
    for step in filter(None, data_root.removeprefix(store.root).split("/")):
        if f"{path}/{step}" in _links_in(store.io, path):
            return True
        path = f"{path}/{step}"
    return False


def _external_roots(store: TableStore, schemas: Sequence[TableSchema]) -> list[str]:
    """The directories of ``data-file.external-paths``. Files go there that this table does not name: what it says is
    not enough to take another table, or what the caller's own directories exclude.

    Raises SecurityError.
    """
    texts = [text for s in schemas for text in comma_separated(s.options.get("data-file.external-paths", ""))]
    roots = list(dict.fromkeys(map(normalise_location, texts)))
    allowed = store.external.roots(schema.options for schema in schemas)
    for root in roots:
        if root not in allowed and not lies_below(root, allowed):
            raise SecurityError(
                "data-file.external-paths names a directory that is not allowed",
                path=root,
                hint=f"if its orphans are this table's, allow it by the storage option {ALLOW}",
            )
        if {"schema", "snapshot"} <= {status.name for status in store.io.list(root)}:
            raise SecurityError(
                "data-file.external-paths names the directory of another table, whose files would be removed", path=root
            )
    return roots


def _below(io: FileIO, directories: Sequence[str], threads: int, wanted: Any) -> list[str]:
    listed = concurrent_map(io.list, directories, threads)
    statuses = chain.from_iterable(listed)
    return [s.path for s in statuses if s.is_dir and not s.is_link and wanted(s.name)]


# ------------------------------------------------------------------------------------------------------- what is needed


def _retried(search: Callable[[], T]) -> T:
    """What a search finds; states that expire meanwhile are passed over. Raises NotFoundError for a damaged one."""
    try:
        return Retry(_PAUSES, _ATTEMPTS).call(search, NotFoundError)
    except NotFoundError as error:
        raise type(error)(_DAMAGED, path=error.path, hint=_NOTHING_REMOVED) from error


def _names_needed(store: TableStore, executor: Executor, read: set[str]) -> Iterator[pa.Array]:
    """The names of all files that are needed, in parts, but for those that only manifests in ``read`` name.

    A manifest that is gone when its turn comes was of a snapshot that has expired. Manifests of later ones may name the
    same files: so what is needed is looked up again, until none is gone that was not read.
    """
    retry = Retry(_PAUSES, _ATTEMPTS)
    while True:
        metadata, manifests = _retried(lambda: _metadata_files(store))
        yield array(sorted(metadata), pa.string())
        groups = _manifest_groups({name: size for name, size in manifests.items() if name not in read})
        missing = set()
        found = executor.map(partial(names_needed, store), groups)
        for names, gone in counted(found, "reading manifests", tasks=len(groups)):
            yield names
            missing.update(gone)
        if not missing:
            return
        read |= manifests.keys() - missing
        retry.again(SnapshotNotFoundError(_DAMAGED, path=store.paths.manifest(min(missing)), hint=_NOTHING_REMOVED))


def _named(store: TableStore, candidates: pa.Table, executor: Executor) -> pa.ChunkedArray:
    """Which of these files a snapshot, tag, branch or changelog names."""
    names = names_of(candidates)
    needed = pc.is_in(names, array([], pa.string()))
    for part in _gathered(_names_needed(store, executor, set()), candidates.num_rows):
        needed = pc.or_(needed, pc.is_in(names, part))
    return needed


def _searched(
    store: TableStore, before: int, directories: Sequence[Directories], executor: ShufflingExecutor
) -> tuple[pa.Table, int]:
    """The orphans, and how many files were looked at. Directories are listed while manifests are read: what was
    committed meanwhile is looked for after that."""
    metadata, manifests = _retried(lambda: _metadata_files(store))
    names = sorted(metadata)
    tasks: list[Directories | Needed] = [
        *(Needed(tuple(names[i : i + _NAMES])) for i in range(0, len(names), _NAMES)),
        *_manifest_groups(manifests),
        *directories,
    ]
    search = Search(store, before, len(tasks))
    found = list(executor.shuffle(search.split, tasks, search.gather, search.parts))
    orphans = pa.concat_tables([empty_table(FILES), *(files for files, *_ in found)])
    read = manifests.keys() - {name for *_, gone in found for name in gone}
    for part in _gathered(_names_needed(store, LocalExecutor(), read), orphans.num_rows):
        orphans = orphans.filter(pc.invert(pc.is_in(names_of(orphans), part)))
    return orphans, sum(count for _, count, _ in found)


def _metadata_files(store: TableStore) -> tuple[set[str], dict[str, int | None]]:
    """The names of all metadata files that something needs; those that are manifests, with their sizes.

    Raises NotFoundError for a list that is gone and whose snapshot is not about to expire, or is the newest of its
    branch: only that one names the files that later snapshots share.
    """
    reader, seen, spared = ManifestReader(store), set[str](), set[str]()
    manifests: dict[str, int | None] = {}
    for branch in (MAIN_BRANCH, *store.branches()):
        with suppress(NotFoundError):
            spared.update(name for schema in store.on_branch(branch).schemas() for name in schema.names())
    references = references_of_table(store)
    newest = {reference.branch: reference for reference in references if reference.is_snapshot}
    for reference in reversed(references):  # the newest first: expiry takes the oldest
        snapshot = reference.snapshot
        spared.update(snapshot.names())
        if reference.is_changelog:
            spared.update(_lists_of_changelog(store, snapshot))
            with suppress(NotFoundError):
                manifests.update((m.file_name, m.file_size) for m in changes_of(store, snapshot))
            continue
        lists = {
            snapshot.base_manifest_list: snapshot.base_manifest_list_size,
            snapshot.delta_manifest_list: snapshot.delta_manifest_list_size,
        }
        changelog = snapshot.changelog_manifest_list
        if reference.keeps_changelog and changelog is not None and has_changelog(store, snapshot):
            lists[changelog] = snapshot.changelog_manifest_list_size
        for name, size in lists.items():
            if name not in seen:
                with _unless_expiring(store, reference, newest):
                    listed = reader.listed(name, size)
                    manifests.update((m.file_name, m.file_size) for m in listed)
                    seen.update((name, *(other for m in listed for other in m.names())))
        if snapshot.index_manifest is not None and snapshot.index_manifest not in seen:
            with _unless_expiring(store, reference, newest):
                entries = store.read_index_manifest(snapshot.index_manifest)
                seen.update((snapshot.index_manifest, *(name for entry in entries for name in entry.names())))
        if snapshot.statistics is not None:
            seen.add(snapshot.statistics)
    for directory in iceberg_directories(store):
        spared.update(needed_names(store.io, directory))
    return seen | spared | manifests.keys(), manifests


@contextmanager
def _unless_expiring(store: TableStore, reference: Reference, newest: Mapping[str, Reference]) -> Iterator[None]:
    """Ignore missing files of a snapshot that expires, unless it was the newest of its branch."""
    try:
        yield
    except NotFoundError:
        if reference is newest.get(reference.branch) or not is_expiring(store, reference):
            raise


def _manifest_groups(manifests: dict[str, int | None]) -> list[Needed]:
    items = list(manifests.items())
    return [Needed(manifests=tuple(items[i : i + _PATHS_PER_TASK])) for i in range(0, len(items), _PATHS_PER_TASK)]


def _lists_of_changelog(store: TableStore, changelog: Snapshot) -> Iterator[str]:
    """The lists and manifests that go with a changelog, as in Java, also those of the state, which nobody reads."""
    for name in (changelog.base_manifest_list, changelog.delta_manifest_list, changelog.changelog_manifest_list):
        with suppress(NotFoundError):
            if name is not None:
                yield from (name, *(other for m in store.read_manifest_list(name) for other in m.names()))


def _gathered(parts: Iterator[pa.Array], rows: int) -> Iterator[pa.Array]:
    """Arrays of about as many names as there are files: each costs a look at all files."""
    held: list[pa.Array] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= rows:
            yield pa.concat_arrays(held)
            held = []
    if held:
        yield pa.concat_arrays(held)
