"""Verify a table: everything that its snapshots, tags and branches name is there, and is what the metadata says.

All faults are found, not only the first: a file that can't be read becomes a finding (`findings.KINDS`), and the walk
goes on without it. The metadata of all states is held in memory, a few columns of each manifest; files are looked at in
groups, by tasks of an `Executor`. Nothing is written. States that expire meanwhile are left out at the end.
(Specification: Paimon documentation, concepts/spec; maintenance/manage-snapshots.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, grouped, is_true, pc, scalar, to_numpy
from paimon_pyds.base.progress import counted
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.errors import PaimonError
from paimon_pyds.keys.merge.files_to_merge import rank_keys
from paimon_pyds.metadata.manifest import HASH, is_of_compaction
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import parse_snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.findings import ERROR, RESTORE, Finding, Findings, Verification
from paimon_pyds.ops.maintenance.orphans import remove_orphan_files
from paimon_pyds.ops.maintenance.references import is_expiring
from paimon_pyds.ops.maintenance.verify_files import (
    DataFiles,
    HashIndexes,
    Identities,
    IndexFiles,
    Manifest,
    Manifests,
    read_manifests,
    verify_data_files,
    verify_hash_indexes,
    verify_index_files,
)
from paimon_pyds.ops.maintenance.verify_states import Branch, State, States

T = TypeVar("T")

_FILES_PER_TASK = 32
"""Manifests, or index files, of a task."""
_DATA_FILES = 1024
"""Data files of a task: it decodes the whole manifest that has them."""


def verify(store: TableStore, *, deep: bool = False, executor: Executor | None = None) -> Verification:
    """Look at everything that a table's states need; see ``table.maintenance.verify``.
    Raises TableNotFoundError, BranchNotFoundError: it is gone."""
    started = time.monotonic()
    if not store.schema_ids():
        raise store.no_table()
    walk = _Walk(store, executor or LocalExecutor(), deep=deep)
    branches = [walk.states.read(store.on_branch(name)) for name in (MAIN_BRANCH, *store.branches())]
    walk.read_manifests()
    for branch in branches:
        walk.history(branch)
    walk.data_files()
    walk.index_files()
    findings = walk.of_older_snapshots(walk.of_changelogs(walk.still_there(walk.findings.found)))
    orphans = None
    if not any(finding.severity == ERROR for finding in findings):
        with suppress(PaimonError, OSError):  # damaged meanwhile
            orphans = remove_orphan_files(store, dry_run=True, executor=executor)
    return Verification(
        path=store.root,
        findings=tuple(sorted(findings, key=lambda finding: (finding.path, finding.kind, finding.what))),
        deep=deep,
        snapshots=sum(state.is_snapshot for state in walk.states.all),
        tags=sum(state.reference.is_tag for state in walk.states.all),
        branches=len(branches) - 1,
        manifests=len(walk.manifests) + len(walk.states.lists),
        data_files=walk.looked_at,
        rows=walk.rows,
        index_files=len(walk.states.index_files),
        orphan_files=None if orphans is None else orphans.files.num_rows,
        orphan_bytes=None if orphans is None else orphans.bytes,
        seconds=time.monotonic() - started,
    )


class _Walk:
    """The files that the states of a table need, and what is found of them."""

    def __init__(self, store: TableStore, executor: Executor, *, deep: bool) -> None:
        self._store = store
        self._executor = executor
        self._deep = deep
        self.findings = Findings()
        self.states = States(self.findings)
        self.manifests: dict[str, Manifest] = {}
        self._needed: Identities = np.empty(0, np.uint64)
        self.looked_at = self.rows = 0

    def _map(self, function: Callable[[T], Iterable[Finding]], tasks: Sequence[T]) -> None:
        for found in counted(self._executor.map(function, tasks), "checking files", tasks=len(tasks)):
            self.findings.found.update(dict.fromkeys(found))

    # --------------------------------------------------------------------------------------------- manifests

    def read_manifests(self) -> None:
        """Read all manifests, each once."""
        tasks = [
            Manifests(branch.store, branch.schema, part)
            for branch, files in _by_branch(self.states.manifests)
            for part in _parts(files)
        ]
        for found in counted(self._executor.map(read_manifests, tasks), "reading manifests", tasks=len(tasks)):
            for manifest in found:
                self.manifests[manifest.name] = manifest
                self.findings.found.update(dict.fromkeys(manifest.findings))

    def _read(self, names: Sequence[str] | None) -> list[Manifest] | None:
        """Manifests; None where one can't be read."""
        found = None if names is None else [self.manifests[name] for name in names]
        return None if found is None or any(m.entries is None for m in found) else found

    def history(self, branch: Branch) -> None:
        """Follow the states of a branch: what each adds and deletes, and how many rows it counts."""
        previous: tuple[int, Identities] | None = None
        newest = max((s.reference.snapshot.id for s in branch.states if s.is_snapshot), default=-1)
        for state in branch.states:
            changelog, whole = self._read(state.changelog), self._read(state.state)
            self._count(state, "changelog_record_count", changelog)
            for manifest in changelog or ():
                self._needed = np.union1d(self._needed, manifest.identities)
            for manifest in self._read(state.delta) or ():
                assert manifest.entries is not None
                added = (manifest.signs > 0) & ~is_true(is_of_compaction(manifest.entries))
                self._needed = np.union1d(self._needed, manifest.identities[added])
            if whole is None:
                previous = None if state.is_snapshot else previous
                continue
            live = self._live(state, whole)
            self._needed = np.union1d(self._needed, live)
            if state.is_snapshot:
                id_, base = state.reference.snapshot.id, _net(whole[: state.base])[0]
                if previous is not None and previous[0] == id_ - 1 and not np.array_equal(base, previous[1]):
                    what = f"it begins with other files than snapshot {id_ - 1} ended with"
                    self.findings.add("manifest-entry", state.path, what)
                previous = id_, live
                self._count(state, "delta_record_count", whole[state.base :])
            self._count(state, "total_record_count", whole)
            if branch.schema is not None and (not state.is_snapshot or state.reference.snapshot.id == newest):
                entries = self._entries(whole, live)
                self._check_places(branch, branch.schema, entries)
                self._check_row_ids(state, entries)
                self._check_vectors(state, entries)

    def _live(self, state: State, manifests: Sequence[Manifest]) -> Identities:
        """The files of a state; each must have been added once, and deleted once at most."""
        live, wrong = _net(manifests)
        for manifest in manifests if len(wrong) else ():
            assert manifest.entries is not None
            at = np.flatnonzero(np.isin(manifest.identities, wrong))
            if len(at):
                name = manifest.entries.column("file_name")[int(at[0])].as_py()
                path = f"{self._store.paths.manifest_dir}/{manifest.name}"
                what = f"{state.reference.name} adds {name} twice, or deletes it where it is not"
                self.findings.add("manifest-entry", path, what)
        return live

    def _count(self, state: State, member: str, manifests: Sequence[Manifest] | None) -> None:
        listed = getattr(state.reference.snapshot, member)
        rows = None if manifests is None else sum(manifest.rows for manifest in manifests)
        if None not in (listed, rows) and listed != rows:
            self.findings.add("record-count", state.path, f"{member} is {listed:,}, its data files have {rows:,} rows")

    def _entries(self, manifests: Sequence[Manifest], wanted: Identities) -> pa.Table:
        """The ADDs of some files, each once for every manifest that has it."""
        parts = []
        for manifest in manifests:
            assert manifest.entries is not None
            keep = (manifest.signs > 0) & np.isin(manifest.identities, wanted)
            parts.append(manifest.entries.filter(from_numpy(keep)))
        return pa.Table.from_batches(parts) if parts else pa.table({})

    def _check_places(self, branch: Branch, schema: TableSchema, live: pa.Table) -> None:
        """Buckets of files, and the ranges of keys on each level above 0, which must not overlap."""
        if not live.num_rows:
            return
        bucketed = live.filter(pc.greater(live["total_buckets"], scalar(0, pa.int32())))
        totals = grouped(bucketed, ["partition"], [("total_buckets", "min"), ("total_buckets", "max")])
        too_high = bucketed.filter(pc.greater_equal(bucketed["bucket"], bucketed["total_buckets"]))
        mixed = totals.filter(pc.not_equal(totals["total_buckets_min"], totals["total_buckets_max"]))
        for path in _paths(branch, schema, too_high):
            self.findings.add("bucket", path, "the number of its bucket is not below that of all buckets")
        if mixed.num_rows:
            what = f"{mixed.num_rows:,} partitions have files of different numbers of buckets"
            self.findings.add("bucket", branch.store.root, what)
        levels = live.filter(pc.greater(live["level"], scalar(0, pa.int32()))).combine_chunks()
        if not schema.primary_keys or not levels.num_rows:
            return
        ends = pa.concat_arrays([one for name in ("min_key", "max_key") for one in levels[name].chunks])
        with self.findings.guard("level-overlap", branch.store.root):
            ranks = rank_keys(ends, schema)
            if ranks is not None:
                paths = _paths(branch, schema, levels)
                for one, other in _overlaps(levels, *ranks.reshape(2, -1)):
                    what = f"its keys overlap with those of {paths[other]} on the same level"
                    self.findings.add("level-overlap", paths[one], what)

    def _check_row_ids(self, state: State, live: pa.Table) -> None:
        """Check that the next row id is greater than all row ids; a writer without support for row ids leaves it
        out."""
        numbered = live.filter(pc.is_valid(live["first_row_id"])) if live.num_rows else live
        if not numbered.num_rows:
            return
        end = pc.max(pc.add(numbered["first_row_id"], numbered["row_count"])).as_py()
        next_ = state.reference.snapshot.next_row_id
        if next_ is None or next_ < end:
            what = f"nextRowId is {next_}, and rows have ids up to {end - 1:,}"
            self.findings.add("row-id", state.path, what)

    def _check_vectors(self, state: State, live: pa.Table) -> None:
        """Check that deletion vectors are of files of the state, and listed in their buckets, where Java Paimon
        looks."""
        listed = {r.data_file: (e.partition, e.bucket) for e in state.indexes for r in e.deletion_ranges or ()}
        if not listed:
            return
        path = f"{self._store.paths.manifest_dir}/{state.reference.snapshot.index_manifest}"
        found = live.filter(pc.is_in(live["file_name"], array(sorted(listed), pa.string()))) if live.num_rows else live
        columns = (found[name].to_pylist() for name in ("file_name", "partition", "bucket") if found.num_rows)
        places = {name: (partition, bucket) for name, partition, bucket in zip(*columns, strict=True)}
        for name, place in listed.items():
            if name not in places:
                self.findings.add("orphan-entry", path, f"it has a deletion vector of {name}, which is not there")
            elif places[name] != place:
                self.findings.add("deletion-vector", path, f"that of {name} is listed for another partition or bucket")

    # ------------------------------------------------------------------------------------------------- files

    def data_files(self) -> None:
        """Look at the data files of all states, each once."""
        tasks: list[DataFiles] = []
        newest = {
            state.branch.store.branch: (_net(whole)[0], [e for e in state.indexes if e.index_type == HASH])
            for state in self._newest_states()
            if state.is_snapshot and (whole := self._read(state.state)) is not None
        }
        changelogs = {name for state in self.states.all for name in state.changelog or ()}
        seen: Identities = np.empty(0, np.uint64)
        for manifest in self.manifests.values():
            branch = self.states.manifests[manifest.name][0]
            if manifest.entries is None or branch.schema is None:
                continue
            new = (
                (manifest.signs > 0) & np.isin(manifest.identities, self._needed) & ~np.isin(manifest.identities, seen)
            )
            seen = np.union1d(seen, manifest.identities[new])
            rows = np.flatnonzero(new)
            entries = manifest.entries.take(from_numpy(rows))
            self.looked_at += len(rows)
            self.rows += pc.sum(entries.column("row_count")).as_py() or 0
            for id_ in set(entries.column("schema_id").unique().to_pylist()) - branch.schemas.keys():
                path = branch.store.paths.schema(id_)
                self.findings.add("schema", path, f"data files have schema {id_}, which is not there")
            live, hashed = newest.get(branch.store.branch, ((), ()))
            task = DataFiles(
                branch.store, branch.schema, frozenset(branch.schemas), manifest.name, rows, self._deep,
                manifest.name not in changelogs, hashed, np.isin(manifest.identities[rows], live),
            )  # fmt: skip
            tasks += [
                replace(task, rows=rows[at : at + _DATA_FILES], newest=task.newest[at : at + _DATA_FILES])
                for at in range(0, len(rows), _DATA_FILES)
            ]
        self._map(verify_data_files, tasks)

    def index_files(self) -> None:
        """Look at the files that index manifests name."""
        vectors = {r.data_file for _, entry in self.states.index_files.values() for r in entry.deletion_ranges or ()}
        rows: dict[str, int] = {}
        for manifest in self.manifests.values() if vectors else ():
            if manifest.entries is not None:
                found = manifest.entries.filter(
                    pc.is_in(manifest.entries["file_name"], array(sorted(vectors), pa.string()))
                )
                rows.update(zip(found["file_name"].to_pylist(), found["row_count"].to_pylist(), strict=True))
        tasks, hashes = [], []
        for branch, entries in _by_branch(self.states.index_files):
            if branch.schema is None:
                continue
            for part in _parts(entries):
                named = {r.data_file for entry in part for r in entry.deletion_ranges or ()}
                counts = {name: rows[name] for name in named & rows.keys()}
                tasks.append(IndexFiles(branch.store, branch.schema, part, counts))
        for state in self._newest_states():
            mine = [entry for entry in state.indexes if entry.index_type == HASH]
            if mine and state.branch.schema is not None:
                hashes.append(HashIndexes(state.branch.store, state.branch.schema, mine))
        self._map(verify_index_files, tasks)
        self._map(verify_hash_indexes, hashes)

    def _newest_states(self) -> Iterator[State]:
        """The newest snapshot of each branch, and all tags."""
        last = {state.reference.branch: state for state in self.states.all if state.is_snapshot}
        yield from last.values()
        yield from (state for state in self.states.all if state.reference.is_tag)

    # ------------------------------------------------------------------------------------ states that are gone

    def still_there(self, findings: Iterable[Finding]) -> list[Finding]:
        """Without what was found of files that only states needed which have expired or were deleted meanwhile."""
        found = list(findings)
        names = {finding.path.rpartition("/")[2] for finding in found}
        gone = [state for state in self.states.all if found and self._is_gone(state)]
        if not gone:
            return found
        needed = self._names([state for state in self.states.all if state not in gone], names)
        left_out = self._names(gone, names) - needed
        return [finding for finding in found if finding.path.rpartition("/")[2] not in left_out]

    def of_changelogs(self, findings: list[Finding]) -> list[Finding]:
        """The same, where no state needs a file but changelogs of expired snapshots, as after a killed expiry of
        these, with what to do."""
        expired = [state for state in self.states.all if findings and state.reference.is_changelog]
        names = {finding.path.rpartition("/")[2] for finding in findings} if expired else set()
        only = self._names(expired, names)
        only -= self._names([state for state in self.states.all if only and state not in expired], names)
        what = "; only changelogs of expired snapshots need it: expire_changelogs() removes these"
        return [replace(f, what=f.what + what) if f.path.rpartition("/")[2] in only else f for f in findings]

    def of_older_snapshots(self, findings: list[Finding]) -> list[Finding]:
        """The same, where neither tags nor the newest snapshot of a branch need a file, as after Java's expiry was
        killed: nobody has to roll back."""
        newest = {id(state) for state in self._newest_states()}
        older = [state for state in self.states.all if state.is_snapshot and id(state) not in newest]
        of_files = [f for f in findings if f.advice == RESTORE or f.kind == "file-index"]
        names = {f.path.rpartition("/")[2] for f in of_files} if older else set()
        only = self._names(older, names) if names else names
        apart = {id(state) for state in older}
        only -= self._names([state for state in self.states.all if only and id(state) not in apart], only)
        what = "; only older snapshots need it: it is of no use once these have gone by table.snapshots.expire()"
        return [
            replace(f, what=f.what + what) if f in of_files and f.path.rpartition("/")[2] in only else f
            for f in findings
        ]

    def _is_gone(self, state: State) -> bool:
        """Whether it has expired, was deleted, or has another's place."""
        store = state.branch.store
        try:
            if state.is_snapshot and is_expiring(store, state.reference):
                return True
            return store.parse_file(state.path, parse_snapshot) != state.reference.snapshot
        except FileNotFoundError:
            return True
        except (PaimonError, OSError):
            return False

    def _names(self, states: Sequence[State], candidates: set[str]) -> set[str]:
        """Which of these names of files some states need."""
        names: set[str | None] = set()
        manifests: dict[str, None] = {}
        live: Identities = np.empty(0, np.uint64)
        for state in states:
            snapshot = state.reference.snapshot
            names.update((state.path.rpartition("/")[2], snapshot.base_manifest_list, snapshot.delta_manifest_list))
            names.update((snapshot.changelog_manifest_list, snapshot.index_manifest, snapshot.statistics))
            names.update(entry.file_name for entry in state.indexes)
            for files in (state.state or (), state.changelog or (), state.delta):
                manifests.update(dict.fromkeys(files))
                live = np.union1d(live, _net([self.manifests[name] for name in files if self._read([name])])[0])
        wanted = array(sorted(candidates), pa.string())
        for manifest in (self.manifests[name] for name in manifests):
            if manifest.entries is not None:
                entries = manifest.entries.filter(from_numpy(np.isin(manifest.identities, live)))
                for column in (entries.column("file_name"), entries.column("extra_files").flatten()):
                    names.update(column.filter(pc.is_in(column, wanted)).to_pylist())
        return candidates & {name for name in (*names, *manifests) if name is not None}


def _paths(branch: Branch, schema: TableSchema, files: pa.Table) -> list[str]:
    """The paths of data files; external ones are left out."""
    paths = branch.store.paths.with_options(schema.options)
    directories = PartitionDirectories(branch.store.io, schema, paths)
    columns = (files[name].to_pylist() for name in ("partition", "bucket", "file_name"))
    return [
        f"{paths.bucket_dir(directories.of_file(partition, bucket, name), bucket)}/{name}"
        for partition, bucket, name in zip(*columns, strict=True)
    ]


def _overlaps(
    files: pa.Table, least: npt.NDArray[np.int64], greatest: npt.NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Pairs of files of one bucket and level whose keys overlap.

    ``files``: manifest entries. ``least``: rank of the least key of each. ``greatest``: rank of the greatest one.
    """
    partitions = to_numpy(files["partition"].combine_chunks().dictionary_encode().indices)
    places = [partitions, *(to_numpy(files[name].combine_chunks()) for name in ("level", "bucket"))]
    order = np.lexsort((least, *places))
    found = least[order][1:] <= greatest[order][:-1]
    for column in places:
        found &= column[order][1:] == column[order][:-1]
    for at in np.flatnonzero(found).tolist():
        yield int(order[at + 1]), int(order[at])


def _by_branch(named: Mapping[str, tuple[Branch, T]]) -> list[tuple[Branch, list[T]]]:
    """What branches name first, branch by branch."""
    groups: dict[str, tuple[Branch, list[T]]] = {}
    for branch, item in named.values():
        groups.setdefault(branch.store.branch, (branch, []))[1].append(item)
    return list(groups.values())


def _parts(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[at : at + _FILES_PER_TASK] for at in range(0, len(items), _FILES_PER_TASK)]


def _net(manifests: Sequence[Manifest]) -> tuple[Identities, Identities]:
    """The files that are there after all these manifests, ascending; and those that were added twice, or deleted
    where they were not."""
    if not manifests:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    all_ = np.concatenate([manifest.identities for manifest in manifests])
    files, inverse = np.unique(all_, return_inverse=True)
    signs = np.concatenate([manifest.signs for manifest in manifests])
    counts = np.bincount(inverse.reshape(-1), signs, len(files))
    return files[counts > 0], files[(counts > 1) | (counts < 0)]
