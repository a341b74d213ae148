"""Rewrite file indexes: make the indexes of the data files those that the table's options define.

Data files are not touched: each one's entry is replaced by one with another container, in a COMPACT snapshot, as Java
Paimon's procedure ``rewrite_file_index`` does it. Old containers stay on the storage, for older snapshots need them.
(Sources: Paimon documentation, procedures; the class FileIndexProcessor of Java Paimon. Unlike Java, an existing index
stays as it is, and a side file never takes the name of an older one.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options import TableOptions, check_branch, check_writable
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Retry
from paimon_pyds.base.secrets import counted, human_bytes
from paimon_pyds.base.text import Summary, counts_text, summary_text
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.commit.manifests import identities
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unfinished, removing_unpublished
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor, mapped
from paimon_pyds.engine.execution.live_files import (
    file_specs,
    index_source,
    indexed_batches,
    live_in,
    live_of,
    planned_live_files,
)
from paimon_pyds.engine.write.rolling import tell_of_left_out, tell_of_size
from paimon_pyds.errors import CommitConflictError, CorruptFileError, StorageError
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec, merged_container, parse_index_specs, plan_indexes
from paimon_pyds.index.container import ContainerHead, parse_head
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, IDENTITY_COLUMNS
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Predicate
from paimon_pyds.storage import FileIO, discard

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_CONFLICT_RETRIES = 10
"""Retries after conflicts with other commits."""
_NAMES = 1_000
"""Numbers that are tried for the name of a side file."""


@dataclass(frozen=True, slots=True, repr=False)
class RewriteSummary(Summary):
    """What a rewrite did.

    Attributes:
        snapshot_id: the snapshot that published it; None when there was nothing to do.
        files: live data files looked at.
        rewritten: files whose container changed.
        partitions: distinct partitions of those.
        built, dropped, kept: numbers of indexes (of one column of one file each) in the files that changed.
        repaired: containers that could not be read, and were built anew.
        skipped: files that another commit removed or changed concurrently; what was built for them was removed again.
        rows: rows of the files whose columns were read.
        index_bytes: size of the new containers.
        seconds: time taken, the commit included.
    """

    snapshot_id: int | None
    files: int
    rewritten: int = 0
    partitions: int = 0
    built: int = 0
    dropped: int = 0
    kept: int = 0
    repaired: int = 0
    skipped: int = 0
    rows: int = 0
    index_bytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        changes = {"built": self.built, "dropped": self.dropped, "kept": self.kept}
        parts = [
            f"{self.rewritten:,} of {counted(self.files, 'file')} changed",
            *counts_text(changes, "index", "indexes"),
            *counts_text({"repaired": self.repaired}, "container"),
            *counts_text({"skipped": self.skipped}, "file"),
            f"{human_bytes(self.index_bytes)} of indexes" if self.index_bytes else "",
        ]
        return summary_text(self.snapshot_id, parts, self.seconds)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One data file: what it has, and the indexes it is to have. It pickles."""

    number: int
    read: ReadSpec
    file: PlannedFile
    specs: tuple[IndexSpec, ...]
    threshold: int
    rebuild: bool


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What became of one file: its new container embedded, or the path of a new side file; neither when it has none.

    ``changed`` is False when the file stays as it is. ``left_out``: why indexes are missing that can't hold its values.
    """

    number: int
    row_count: int
    changed: bool
    embedded: bytes | None = None
    side: str | None = None
    size: int = 0
    built: int = 0
    dropped: int = 0
    kept: int = 0
    repaired: bool = False
    left_out: tuple[str, ...] = ()


def rewrite_file_index(
    store: TableStore,
    where: str | Predicate | None = None,
    *,
    rebuild: bool = False,
    only: frozenset[str] | None = None,
    executor: Executor | None = None,
) -> RewriteSummary:
    """Build the configured indexes that files lack, and drop those that are not configured any more.

        Files that have the configured indexes are not touched, and indexes that stay are copied byte for byte; a
        container that can't be read is built again. Files that another commit removes concurrently are left out.

    ``rebuild``: build every index anew, as after a change of an index's own options. ``only``: the data files of these
    names, or with side files of these names; all when None.

    Raises:
        OptionError: ``where`` names other columns than partition columns, or the options of indexes are wrong.
        UnsupportedError: a table that can't be written to.
        CommitError: not published; what was written was removed again.
    """
    started = time.perf_counter()

    def once(newest: Snapshot | None, _: Retries) -> RewriteSummary:
        schema = store.latest_schema()
        check_branch(schema, store.branch, store.root)
        check_writable(schema)
        options = TableOptions(schema.options)
        specs = parse_index_specs(schema.options, schema.fields)
        entries = live_in(store, schema, newest, where, "rewrite_file_index")
        if only is not None:
            names = (entries.column(name).to_pylist() for name in ("file_name", "extra_files"))
            entries = entries.filter(array([not only.isdisjoint((n, *s)) for n, s in zip(*names, strict=True)]))
        tasks = _tasks(store, schema, entries, specs, options, rebuild)
        done = _run(store.io, executor or LocalExecutor(), tasks)
        changed = sorted((r for r in done if r.changed), key=lambda r: r.number)
        with removing_unpublished(partial(_remove, store.io, changed)):
            snapshot, published = _publish(store, entries, changed, options)
        tell_of_left_out(store.root, (reason for r in done for reason in r.left_out))
        for r in published:
            task = tasks[r.number]
            tell_of_size(store.root, task.specs, task.file.row_count, task.file.size, r.size)
        return _summary(len(tasks), entries, changed, published, snapshot)

    return replace(on_newest(store, once), seconds=time.perf_counter() - started)


def _tasks(
    store: TableStore,
    schema: TableSchema,
    entries: pa.RecordBatch,
    specs: Sequence[IndexSpec],
    options: TableOptions,
    rebuild: bool,
) -> list[RewriteTask]:
    threshold = int(options.get("file-index.in-manifest-threshold"))
    wanted: dict[tuple[int, tuple[str, ...] | None], tuple[IndexSpec, ...]] = {}
    tasks = []
    read, files = planned_live_files(store, schema, entries)
    for number, file in enumerate(files):
        key = file.schema_id, file.write_cols
        if key not in wanted:
            wanted[key] = file_specs(specs, schema.fields, read.fields_of(file))
        tasks.append(RewriteTask(number, read, file, wanted[key], threshold, rebuild))
    return tasks


def _run(io: FileIO, executor: Executor, tasks: Sequence[RewriteTask]) -> list[RewriteResult]:
    """All results; on an error, or an interrupt, what was written is removed."""
    done: list[RewriteResult] = []
    with removing_unfinished(partial(_remove, io, done)):
        done.extend(mapped(executor, "indexing", rewrite_one, tasks, lambda task: [task.file]))
    return done


# ----------------------------------------------------------------------------------------------------- in each task


def rewrite_one(task: RewriteTask) -> RewriteResult:
    """Make one data file's container hold the wanted indexes. Runs in a task, on any machine.

    Raises:
        CorruptFileError: the data file is damaged.
        StorageError: it can't be read, or the side file not be written.
        SnapshotNotFoundError: it no longer exists.
    """
    with task.file.must_exist("indexed"):
        return _rewritten(task)


def _rewritten(task: RewriteTask) -> RewriteResult:
    file = task.file
    source = index_source(task.read.io, file)
    head, repaired = _head(source)
    plan = plan_indexes(head, task.specs, rebuild=task.rebuild)
    if not plan.changes and not repaired:
        return RewriteResult(task.number, file.row_count, changed=False)
    bodies, left_out = build_indexes(task.read, file, plan.build)
    if not (bodies or plan.drop or repaired):
        return RewriteResult(task.number, file.row_count, changed=False, left_out=left_out)
    container = merged_container(plan, source, head, bodies)
    embedded, side = None, None
    if container is not None and len(container) > task.threshold:
        side = _write_side(task.read.io, file, container)
    else:
        embedded = container
    if side is None and file.index_path is None and embedded == file.embedded_index:
        # An entry equal to the one that it replaces would be taken away by that one's deletion.
        return RewriteResult(task.number, file.row_count, changed=False, left_out=left_out)
    return RewriteResult(
        task.number,
        file.row_count,
        changed=True,
        embedded=embedded,
        side=side,
        size=0 if container is None else len(container),
        built=sum(map(len, bodies.values())),
        dropped=len(plan.drop),
        kept=len(plan.keep),
        repaired=repaired,
        left_out=left_out,
    )


def _head(source: ByteSource | None) -> tuple[ContainerHead | None, bool]:
    """What the container has; None and True for one that can't be read and has to be made anew."""
    if source is None:
        return None, False
    try:
        return parse_head(source), False
    except (CorruptFileError, FileNotFoundError):
        return None, True


def build_indexes(
    read: ReadSpec, file: PlannedFile, specs: Sequence[IndexSpec]
) -> tuple[dict[str, dict[str, bytes]], tuple[str, ...]]:
    """The indexes of a data file, by column and type, and why some of them can't be built."""
    names = {spec.column for spec in specs}
    fields = [f for f in read.fields_of(file) if f.name in names]
    if not fields:
        return {}, ()
    builder = FileIndexBuilder(specs, fields)
    for batch in indexed_batches(read, file, fields):
        builder.update(batch)
    return builder.bodies(), tuple(builder.left_out)


def _write_side(io: FileIO, file: PlannedFile, container: bytes) -> str:
    """Write a side file under a name that no file has; its path."""
    directory, _, name = file.path.rpartition("/")
    side = f"{name}.index" if file.index_path is None else next_index_name(file.index_path.rpartition("/")[2])
    for _ in range(_NAMES):
        path = f"{directory}/{side}"
        if io.create_if_absent(path, container):
            return path
        side = next_index_name(side)
    raise StorageError(
        f"{_NAMES} index files of that name already exist", path=file.path, hint="remove orphan files first"
    )


def next_index_name(name: str) -> str:
    """The name of the side file after another, as Java names it: ``….index`` → ``…-1.index`` → ``…-2.index``."""
    stem = name.rpartition(".")[0]
    numbered = re.fullmatch(r"(.*-)(\d{1,9})", stem, re.DOTALL)
    if numbered is None:
        return f"{stem}-1.index"
    return f"{numbered[1]}{int(numbered[2]) + 1}.index"


# ------------------------------------------------------------------------------------------------------- the commit


def _publish(
    store: TableStore, entries: pa.RecordBatch, changed: Sequence[RewriteResult], options: TableOptions
) -> tuple[Snapshot | None, Sequence[RewriteResult]]:
    """Commit what changed, without files that other commits removed concurrently; return the published results."""
    left, retries = list(changed), Retry(attempts=_CONFLICT_RETRIES + 1)
    while left:
        before = entries.take(array([r.number for r in left], pa.int64()))
        rewritten = Increment(kind=CommitKind.COMPACT, deleted=before, replacements=_with_containers(before, left))
        try:
            return commit(store, Changes((rewritten,)), options), left
        except CommitConflictError as error:
            retries.again(error)
        live = live_of(store, store.latest_snapshot(), IDENTITY_COLUMNS)
        there = set(identities(live.filter(pc.is_in(live["file_name"], before["file_name"]))))
        alive = [identity in there for identity in identities(before)]
        _remove(store.io, [r for r, here in zip(left, alive, strict=True) if not here])
        left = [r for r, here in zip(left, alive, strict=True) if here]
    return None, left


def _with_containers(entries: pa.RecordBatch, results: Sequence[RewriteResult]) -> pa.RecordBatch:
    extra = [
        [name for name in names if not name.endswith(".index")]
        + ([] if r.side is None else [r.side.rpartition("/")[2]])
        for names, r in zip(entries["extra_files"].to_pylist(), results, strict=True)
    ]
    batch = entries
    for name, values in (("extra_files", extra), ("embedded_index", [r.embedded for r in results])):
        at = ENTRY_SCHEMA.get_field_index(name)
        batch = batch.set_column(at, ENTRY_SCHEMA.field(at), array(values, ENTRY_SCHEMA.field(at).type))
    return batch


def _remove(io: FileIO, results: Sequence[RewriteResult]) -> None:
    discard(io, (r.side for r in results if r.side is not None))


def _summary(
    files: int,
    entries: pa.RecordBatch,
    changed: Sequence[RewriteResult],
    published: Sequence[RewriteResult],
    snapshot: Snapshot | None,
) -> RewriteSummary:
    partitions = entries["partition"].take(array([r.number for r in published], pa.int64()))
    return RewriteSummary(
        snapshot_id=None if snapshot is None else snapshot.id,
        files=files,
        rewritten=len(published),
        partitions=len(partitions.unique()),
        built=sum(r.built for r in published),
        dropped=sum(r.dropped for r in published),
        kept=sum(r.kept for r in published),
        repaired=sum(r.repaired for r in published),
        skipped=len(changed) - len(published),
        rows=sum(r.row_count for r in published if r.built),
        index_bytes=sum(r.size for r in published),
    )
