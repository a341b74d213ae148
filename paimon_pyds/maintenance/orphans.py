"""Orphan files: what lies in a table's directories and no snapshot, tag, branch or changelog names.

Writers that were killed leave them. A file that is being written looks the same, so only old files count. Directories
are listed first, and what is needed is read then: what is committed meanwhile names its files before these are judged.
A file is known by its name, which is unique; what any manifest names counts as needed, as in Java, live or not.
(Sources: Paimon documentation, maintenance/manage-snapshots; Java Paimon 1.4, class OrphanFilesClean.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import NotFoundError, OptionError
from paimon_pyds.execution.executor import Executor, LocalExecutor
from paimon_pyds.maintenance.expire import earliest_by_hint, maintenance_options, timestamp_ms
from paimon_pyds.maintenance.references import Reference, on_branch, snapshot_references, tag_references
from paimon_pyds.maintenance.removal import delete_files, in_threads, threads_of
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.snapshot import parse_snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.one_line import Summary, counts_text
from paimon_pyds.options.option import comma_separated, parse_duration_ms
from paimon_pyds.progress import counted
from paimon_pyds.redaction import human_bytes
from paimon_pyds.storage import FileIO, normalise_location

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}-[0-9a-f-]{27}(\.tmp)?")
"""What files are called until they get their names: as Java Paimon and this package do it."""
_SCHEMA = pa.schema(
    [("path", pa.string()), ("kind", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
_TOGETHER = 64
"""Directories, or manifests, of a task."""
_PAUSES = (0.2, 1.0, 3.0)
"""Seconds until it is tried again, where Java expires snapshots meanwhile: it removes their files first."""


@dataclass(frozen=True, slots=True, repr=False)
class OrphanFiles(Summary):
    """Files that nothing needs.

    Attributes:
        files: an Arrow table of ``path``, ``kind`` (data, manifest, index, statistics, temporary), ``size`` in bytes,
            and when each was ``modified``.
        looked_at: how many old files there were.
        seconds: time taken.
        dry_run: nothing was removed.
    """

    files: pa.Table
    looked_at: int
    seconds: float = 0.0
    dry_run: bool = True

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
    older_than: timedelta | datetime | str | int = "1 day",
    *,
    dry_run: bool = True,
    external: bool = False,
    executor: Executor | None = None,
) -> OrphanFiles:
    """Find, and remove, the files of a table that nothing needs; see `paimon_pyds.Table.remove_orphan_files`.

    Args:
        store: the table.
        older_than: an age, or a time.
        dry_run: only find them.
        external: also look in ``data-file.external-paths``.
        executor: where directories are listed and manifests are read; this machine by default.

    Raises:
        OptionError: a time to come.
        NotFoundError: a snapshot, tag or branch needs a file that is gone: nothing was removed.
        CorruptFileError: metadata is damaged: nothing was removed.
    """
    started = time.monotonic()
    options = maintenance_options(store, None)
    threads, workers = threads_of(options), executor or LocalExecutor()
    before = _limit_ms(older_than)
    candidates = _old_files(store, before, workers, threads, external=external)
    needed = _needed(store, candidates, workers)
    orphans = candidates.filter(pc.invert(needed))
    if not dry_run:
        delete_files(store.io, orphans["path"].to_pylist(), threads)
    return OrphanFiles(orphans, candidates.num_rows, time.monotonic() - started, dry_run)


def _limit_ms(older_than: timedelta | datetime | str | int) -> int:
    """The time before which a file must have been changed last. Raises OptionError for one that is to come."""
    now = int(time.time() * 1000)
    if isinstance(older_than, timedelta):
        limit = now - int(older_than.total_seconds() * 1000)
    elif isinstance(older_than, str) and not re.match(r"\s*\d+-", older_than):
        limit = now - parse_duration_ms(older_than, "older_than")
    else:
        limit = timestamp_ms("older_than", older_than)
    if limit > now:
        raise OptionError(
            "older_than is in the future: files that are being written would go", hint='such as "1 day", or a time'
        )
    return limit


# -------------------------------------------------------------------------------------------------------- what is there


@dataclass(frozen=True)
class _Directories:
    """Directories of one kind."""

    kind: str
    paths: tuple[str, ...]


def _old_files(store: TableStore, before: int, executor: Executor, threads: int, *, external: bool) -> pa.Table:
    """All files that may be orphans, if nothing needs them."""
    paths = store.paths
    shared = {"manifest": paths.manifest_dir, "index": paths.index_dir, "statistics": f"{store.root}/statistics"}
    tasks = [_Directories(kind, (path,)) for kind, path in shared.items()]
    tasks.append(_Directories("temporary", tuple(_named_directories(store))))
    buckets = _bucket_directories(store, threads, external=external)
    tasks += [_Directories("data", tuple(buckets[i : i + _TOGETHER])) for i in range(0, len(buckets), _TOGETHER)]
    listed = executor.map(partial(_list, store.io, before), tasks)
    found = list(counted(listed, "listing", tasks=len(tasks)))
    # In one order, whatever worker was first.
    return pa.concat_tables([_SCHEMA.empty_table(), *found]).sort_by("path")


def _list(io: FileIO, before: int, directories: _Directories) -> pa.Table:
    """The files of some directories that were changed last before a time."""
    found = [
        status
        for directory in directories.paths
        for status in io.list(directory)
        if not status.is_dir
        and 0 < status.modified_ms < before
        and (directories.kind != "temporary" or _TEMPORARY.fullmatch(status.name))
    ]
    columns = {
        "path": [status.path for status in found],
        "kind": [directories.kind] * len(found),
        "size": [status.size for status in found],
        "modified": [status.modified_ms for status in found],
    }
    return pa.table(columns, schema=_SCHEMA)


def _named_directories(store: TableStore) -> Iterator[str]:
    """Directories whose files have names of their own, or temporary ones."""
    for branch in (MAIN_BRANCH, *store.branches()):
        paths = on_branch(store, branch).paths
        yield from (paths.schema_dir, paths.snapshot_dir, paths.tag_dir, paths.consumer_dir, paths.changelog_dir)


def _bucket_directories(store: TableStore, threads: int, *, external: bool) -> list[str]:
    schemas = [store.schema(id_) for id_ in store.schema_ids()]
    roots = dict.fromkeys(store.paths.with_options(schema.options).data_root for schema in schemas)
    if external:
        texts = [text for s in schemas for text in comma_separated(s.options.get("data-file.external-paths", ""))]
        roots.update(dict.fromkeys(map(normalise_location, texts)))
    level = list(roots)
    for _ in schemas[-1].partition_keys:
        level = _below(store.io, level, threads, lambda name: "=" in name)
    return _below(store.io, level, threads, lambda name: name.startswith("bucket-"))


def _below(io: FileIO, directories: Sequence[str], threads: int, wanted: Any) -> list[str]:
    listed = in_threads(io.list, directories, threads)
    return [status.path for found in listed for status in found if status.is_dir and wanted(status.name)]


# ------------------------------------------------------------------------------------------------------- what is needed


def _needed(store: TableStore, candidates: pa.Table, executor: Executor) -> pa.ChunkedArray:
    """Which of these files a snapshot, tag, branch or changelog names; states that expire meanwhile are passed over."""
    for pause in _PAUSES:
        try:
            return _named(store, candidates, executor)
        except NotFoundError:
            time.sleep(pause)
    try:
        return _named(store, candidates, executor)
    except NotFoundError as error:
        raise type(error)(
            "a snapshot, tag or branch needs a file that is gone, so nobody can tell which files it needs",
            path=error.path,
            hint="nothing was removed; find out by table.verify() which one it is",
        ) from error


def _named(store: TableStore, candidates: pa.Table, executor: Executor) -> pa.ChunkedArray:
    names = pc.replace_substring_regex(candidates["path"], r"(?s)^.*/", "")
    seen: set[str] = set()
    manifests: dict[str, int | None] = {}
    for branch in (MAIN_BRANCH, *store.branches()):
        _add_branch(on_branch(store, branch), seen, manifests)
    tasks = list(manifests.items())
    groups = [tasks[i : i + _TOGETHER] for i in range(0, len(tasks), _TOGETHER)]
    needed = pc.is_in(names, pa.array(sorted(seen | manifests.keys()), pa.string()))
    named = counted(executor.map(partial(_names_in, store), groups), "reading manifests", tasks=len(groups))
    for part in _gathered(named, candidates.num_rows):
        needed = pc.or_(needed, pc.is_in(names, part))
    return needed


def _add_branch(store: TableStore, seen: set[str], manifests: dict[str, int | None]) -> None:
    """Add the metadata files of a branch, and the manifests with their sizes.

    Raises NotFoundError for a list that is gone and whose snapshot is not about to expire.
    """
    reader = ManifestReader(store)
    for reference in (*snapshot_references(store), *tag_references(store), *_changelogs(store)):
        snapshot = reference.snapshot
        lists = {
            snapshot.base_manifest_list: snapshot.base_manifest_list_size,
            snapshot.delta_manifest_list: snapshot.delta_manifest_list_size,
            snapshot.changelog_manifest_list: snapshot.changelog_manifest_list_size,
        }
        optional = set(lists) if reference.name.startswith("changelog ") else set()
        if not reference.keeps_changelog:
            optional.add(snapshot.changelog_manifest_list)  # it has gone with the snapshot
        for name, size in lists.items():
            if name is None or name in seen:
                continue
            try:
                found = reader.listed(name, size)
            except NotFoundError:
                if name in optional or is_expiring(store, reference):
                    continue
                raise
            seen.add(name)
            manifests.update((m.file_name, m.file_size) for m in found)
        if snapshot.index_manifest is not None and snapshot.index_manifest not in seen:
            try:
                entries = store.read_index_manifest(snapshot.index_manifest)
            except NotFoundError:
                if optional.issuperset(lists) or is_expiring(store, reference):
                    continue
                raise
            seen.update((snapshot.index_manifest, *(entry.file_name for entry in entries)))
        if snapshot.statistics is not None:
            seen.add(snapshot.statistics)


def is_expiring(store: TableStore, reference: Reference) -> bool:
    """Whether a snapshot has gone, or goes: the hint EARLIEST comes first (`paimon_pyds.maintenance.expire`)."""
    if not reference.name.startswith("snapshot "):
        return False
    id_ = reference.snapshot.id
    return not store.snapshot_exists(id_) or (earliest_by_hint(store) or 0) > id_


def _changelogs(store: TableStore) -> Iterator[Reference]:
    """The changelogs that outlive their snapshots, in files of their own (``changelog/changelog-N``)."""
    for status in store.io.list(store.paths.changelog_dir):
        if not status.is_dir and status.name.startswith("changelog-"):
            try:
                snapshot = store.parse_file(status.path, parse_snapshot)
            except FileNotFoundError:
                continue
            yield Reference(store.branch, f"changelog {snapshot.id}", snapshot, keeps_changelog=True)


def _names_in(store: TableStore, manifests: Sequence[tuple[str, int | None]]) -> pa.Array:
    """The names of all files that some manifests name. Raises NotFoundError for one that is gone."""
    parts = [pa.array([], pa.string())]
    for name, size in manifests:
        entries = store.read_manifest(name, ("file_name", "extra_files"), size)
        parts += [entries.column(0), entries.column(1).flatten()]
    return pc.unique(pa.concat_arrays(parts))


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
