"""One bucket of a table with a primary key: sorted runs are merged and written again. Runs on any machine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import from_numpy, one_batch, pc, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.compact.append_plan import Plan
from paimon_pyds.engine.compact.expired_rows import not_expired
from paimon_pyds.engine.compact.task import CompactResult, group_files, read_spec
from paimon_pyds.engine.read.candidate_keys import read_wanted
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS, ROW_INDEX, read_file
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.merged_files import read_versions, read_windows
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.clustered_run import ClusteredRunWriter
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.rolling import FilesWriter, WriterThreads
from paimon_pyds.errors import SnapshotNotFoundError
from paimon_pyds.keys.merge.changelog import Changelog
from paimon_pyds.keys.merge.files_to_merge import is_clustered
from paimon_pyds.keys.merge.filter import MergeFilter
from paimon_pyds.keys.merge.key_set import KeySet
from paimon_pyds.keys.merge.key_values import (
    KEY_VALUE_FIELDS,
    LEVEL,
    with_key_columns,
    with_key_values,
    without_deletes,
)
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.older_versions import OlderVersions
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import Merging, ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns

_Sections = tuple[tuple[PlannedFile, ...], ...]
LOOKED_UP_BYTES = 64 << 20
"""Bytes of rows whose keys are looked up together in files that are not sorted by key."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Data files of a bucket that become new ones. It pickles.

    Attributes:
        bucket: which one; it has no files yet.
        rewrites: sections, in the order of their keys; each of these becomes a sorted run of its own.
        upgrades: files that stay as they are, on the new level.
        drop_deletes: leave out rows that delete others.
        looked_up: what rows of level 0 look older versions up in; None in tables that don't.
        changelog: the changes that are logged; None for none.
    """

    number: int
    context: WriteContext
    spec: ReadSpec
    bucket: BucketFiles
    rewrites: tuple[_Sections, ...]
    upgrades: tuple[PlannedFile, ...]
    level: int
    drop_deletes: bool
    looked_up: OlderRows | None = None
    changelog: Changelog | None = None

    @property
    def schema(self) -> TableSchema:
        """The table's."""
        return self.context.schema

    def rewritten(self) -> list[PlannedFile]:
        """The files that are read and written again."""
        return [file for sections in self.rewrites for section in sections for file in section]

    def of(self, sections: _Sections) -> MergeTask:
        """The same as far as it concerns these files: where older versions are looked up, and changes are logged."""
        levels = {file.run.level for files in sections for file in files if file.run is not None}
        logs = self.changelog is not None and any(map(self.changelog.is_new, levels))
        return replace(
            self, looked_up=self.looked_up if 0 in levels else None, changelog=self.changelog if logs else None
        )


def merge_tasks(store: TableStore, plan: Plan) -> list[MergeTask]:
    """A task for each bucket."""
    context = plan.context
    schema = replace(plan.schema, options=context.raw_options)
    stays = not_expired(schema, context.options, time.time())
    spec = replace(read_spec(store, plan), merging=Merging(schema, MergeFilter(stays)))
    tasks = []
    for number, found in enumerate(group_files(store, plan)):
        steps = found.group.steps
        assert steps is not None
        files = iter(found.files)  # in the order of `RewritePlan.files`
        rewrites = tuple(
            tuple(tuple(next(files) for _ in section) for section in rewrite) for rewrite in steps.rewrites
        )
        level, drops = steps.output_level, steps.drop_deletes
        task = MergeTask(number, context, spec, found.bucket, rewrites, tuple(files), level, drops)
        if OlderVersions.of(context.options).looked_up:
            higher = any(file.level and file.has_deletes for file in steps.files)
            task = replace(task, looked_up=OlderRows(spec, found.older, higher))
        changelog = Changelog.of(schema, context.options, level, steps.highest_level)
        tasks.append(replace(task, changelog=changelog))
    return tasks


def merge_one(task: MergeTask) -> CompactResult:
    """Merge the sorted runs of a bucket. On an error the new files are removed again.

    Raises:
        CorruptFileError: a file is damaged, or not sorted by its keys.
        SchemaError: a value does not fit its column.
        StorageError: a file can't be read or written.
        UnsupportedError: rows are deleted that the merge engine can't delete.
    """
    if not task.rewrites and task.looked_up is None and task.changelog is None:
        return CompactResult(task.number, task.bucket, 0)  # files only get another level
    threads = WriterThreads()
    writer = run_writer(task.context, task.bucket.directory, threads, task.level)
    log = SortedRunWriter(task.context, task.bucket.directory, threads, level=task.level, changelog=True)
    others: list[SortedRunWriter] = []
    try:
        if is_clustered(task.schema):
            for rows in clustered_rows(task):
                writer.write(rows)
        else:
            _write_runs(task, writer, log)
        for file in task.upgrades:
            _upgrade(task.of(((file,),)), file, log)
        outdated = {} if task.looked_up is None else task.looked_up.outdated_files
        for file in outdated.values():
            assert file.run is not None
            others.append(SortedRunWriter(task.context, task.bucket.directory, threads, level=file.run.level))
            for rows in read_versions(task.spec, (file,), drop_deletes=False):
                others[-1].write(rows)
        files = tuple(file for each in (writer, *others) for file in each.close())
        changelog_files = log.close()
    except BaseException as error:
        for each in (writer, log, *others):
            each.abort()
        if isinstance(error, SnapshotNotFoundError):
            return CompactResult(task.number, task.bucket, 0, error)
        raise
    finally:
        threads.shutdown()
    rows_written = sum(file.row_count for file in files)
    bucket = replace(task.bucket, files=files, changelog_files=changelog_files)
    result = CompactResult(task.number, bucket, rows_written, older=tuple(outdated))
    if task.looked_up is None or not task.looked_up.vectors_hide:
        return result
    stay = {file.name for file in task.looked_up.files}
    return replace(result, replaced={name: rows for name, rows in task.looked_up.positions.items() if name in stay})


def run_writer(context: WriteContext, directory: str, threads: WriterThreads, level: int) -> FilesWriter:
    """What writes merged rows to a level above 0."""
    if is_clustered(context.schema):
        return ClusteredRunWriter(context, directory, threads)
    return SortedRunWriter(context, directory, threads, level=level)


def _write_runs(task: MergeTask, writer: FilesWriter, log: SortedRunWriter) -> None:
    """Write each rewrite of a task as a sorted run."""
    for sections in task.rewrites:
        for rows, changes in merged_rows(task.of(sections), sections):
            writer.write(rows)
            _log(log, changes)
        writer.roll()
        log.roll()


def clustered_rows(task: MergeTask) -> Iterator[pa.RecordBatch]:
    """The live rows of the files that are rewritten where other columns than the key sort them, in any order: those of
    level 0, merged, then those of the others without the rows that the first ones replace."""
    assert task.looked_up is not None
    assert task.spec.merging is not None
    files = task.rewritten()
    above = [file for file in files if file.run is not None and file.run.level]
    older = replace(task.looked_up, files=(*task.looked_up.files, *above))
    fresh = tuple(file for file in files if file not in above)
    if fresh:
        merger = RowMerger(task.spec.merging.schema, keeps_single=False)
        names = [field.name for field in (*task.spec.fields, *KEY_VALUE_FIELDS)]
        with closing(read_windows(task.spec, fresh)) as found:
            for window in _joined(found, LOOKED_UP_BYTES):
                yield without_deletes(merger.merge(older.added_to(window), names))
    for file in above:
        replaced = older.positions.get(file.name, BitMap()) if older.vectors_hide else BitMap()
        yield from _without(task.spec, file, replaced)


def _joined(windows: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Windows of at least about ``size`` bytes, but for the last one: for each one all files are looked through."""
    held: list[pa.RecordBatch] = []
    for window in windows:
        held.append(window)
        if sum(batch.nbytes for batch in held) >= size:
            yield one_batch(pa.Table.from_batches(held))
            held = []
    if held:
        yield one_batch(pa.Table.from_batches(held))


def _without(spec: ReadSpec, file: PlannedFile, replaced: BitMap) -> Iterator[pa.RecordBatch]:
    """The live rows of a file but for those at some positions, with the columns that files of a table with a primary
    key have."""
    reading = replace(
        spec,
        schemas=with_key_values(spec.schemas),
        fields=(*spec.fields, *KEY_VALUE_FIELDS),
        metadata_columns=(ROW_INDEX,),
        merging=None,
    )
    gone = np.asarray(replaced.to_array(), np.int64)
    for rows in read_file(reading, file._replace(run=None)):
        kept = ~np.isin(to_numpy(rows.column(ROW_INDEX)), gone)
        yield without_deletes(rows.filter(from_numpy(kept)))


def merged_rows(task: MergeTask, sections: _Sections) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """The merged rows of sections, and the changes that are logged."""
    for files in sections:
        if task.looked_up is None and task.changelog is None:
            for rows in read_versions(task.spec, files, drop_deletes=task.drop_deletes):
                yield rows, None
        else:
            yield from _compared(task, files)


def _compared(
    task: MergeTask, files: tuple[PlannedFile, ...]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch | None]]:
    """The same of one section, where it matters which levels rows are on."""
    assert task.spec.merging is not None
    from_highest = task.changelog is not None and task.changelog.older_level is not None
    merger = RowMerger(task.spec.merging.schema, keeps_single=task.looked_up is None or from_highest)
    names = [field.name for field in (*task.spec.fields, *KEY_VALUE_FIELDS)]
    changes = None
    with closing(read_windows(task.spec, files)) as found:
        for window in found:
            whole = window if task.looked_up is None else task.looked_up.added_to(window)
            if task.changelog is None:
                rows = merger.merge(whole, names)
            else:
                rows, changes = merger.merge_and_log(whole, names, task.changelog)
            yield without_deletes(rows) if task.drop_deletes else rows, changes


def _upgrade(task: MergeTask, file: PlannedFile, log: SortedRunWriter) -> None:
    """Log the changes that a file makes which is not written again, and find the older rows that it replaces.

    All of its rows stay, expired ones too: which have expired may not have been known when files were picked.
    """
    assert task.spec.merging is not None
    task = replace(task, spec=replace(task.spec, merging=replace(task.spec.merging, filter=MergeFilter(Const.TRUE))))
    if task.changelog is not None:
        for _, changes in _compared(task, (file,)):
            _log(log, changes)
        log.roll()
    elif task.looked_up is not None and task.looked_up.vectors_hide:
        with closing(read_windows(replace(task.spec, fields=()), (file,))) as found:
            for window in found:
                task.looked_up.found(window, whole=False)


def _log(log: SortedRunWriter, changes: pa.RecordBatch | None) -> None:
    if changes is not None:
        log.write(changes)


@dataclass(frozen=True)
class OlderRows:
    """The live rows of runs that a compaction leaves alone, joined by key with those that it merges. It pickles.

    A table that looks older versions up (`OlderVersions.looked_up`) needs them when rows leave level 0: the engine
    first-row drops keys that an older run has, deletion vectors hide the version that is replaced, other engines merge
    it with the newer ones. Per window of merged rows, in the order of keys, only those pages of the older files are
    read that may hold one of its keys: key columns first, the others for the rows found.

    (Java: classes LookupLevels, LookupChangelogMergeFunctionWrapper and FirstRowMergeFunctionWrapper.)

    Attributes:
        spec: how the files of the bucket are merged.
        files: of the runs that stay; all are above the output level.
        every_key: where vectors hide older rows, look up also keys of which a merged file above level 0 has a version.
            Otherwise that version includes the older ones, since it was compacted itself.
        positions: the rows that have been found so far, by names of files.
        outdated: names of files to write again, without their expired rows: where first rows count, these keep no newer
            ones away, so that both would be there.
    """

    spec: ReadSpec
    files: Sequence[PlannedFile]
    every_key: bool = False
    positions: dict[str, BitMap] = field(default_factory=dict)
    outdated: set[str] = field(default_factory=set)

    def added_to(self, window: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a window to merge, together with the older rows of its keys.

        ``window``: as `read_windows` gives it.

        Raises:
            CorruptFileError: a file or its deletion vector is damaged.
            SnapshotNotFoundError: a file is gone.
            StorageError: a file can't be read.
        """
        first, merged = self._older_versions.first_counts, self._older_versions.merged
        if not (first or merged or self.vectors_hide):
            return window
        older = self.found(window, whole=merged)
        if older is None:
            return window
        if first:
            return window.filter(pc.invert(KeySet.of(self._keys, older).matches(window)))
        return one_batch(pa.Table.from_batches([older, window])) if merged else window

    def found(self, window: pa.RecordBatch, *, whole: bool) -> pa.RecordBatch | None:
        """The newest older row of each key of a window that has one, whole or the key alone; None where no key has.
        Errors as `added_to`."""
        keys, parts = self._wanted(window), list[pa.RecordBatch]()
        for run in self._runs:
            rows = [rows for file in run if len(keys) for rows in self._rows(keys, file, window, whole=whole)]
            if rows:
                parts.append(one_batch(pa.Table.from_batches(rows)))
                keys = _absent(keys, parts[-1])
        return one_batch(pa.Table.from_batches(parts)) if parts else None

    @property
    def outdated_files(self) -> dict[int, PlannedFile]:
        """The outdated files by their numbers among `files`."""
        return {number: file for number, file in enumerate(self.files) if file.name in self.outdated}

    @property
    def _schema(self) -> TableSchema:
        assert self.spec.merging is not None
        return self.spec.merging.schema

    @cached_property
    def _older_versions(self) -> OlderVersions:
        return OlderVersions.of(TableOptions(self._schema.options))

    @property
    def vectors_hide(self) -> bool:
        """Whether deletion vectors hide older rows of keys that have newer ones."""
        return self._older_versions.hidden and not self._older_versions.first_counts

    @cached_property
    def _stays(self) -> Predicate:
        """What first rows meet that have not expired; older rows of other engines are what they are."""
        assert self.spec.merging is not None
        return self.spec.merging.filter.before if self._older_versions.first_counts else Const.TRUE

    @cached_property
    def _keys(self) -> tuple[DataField, ...]:
        return tuple(self._schema.field(name) for name in self._schema.trimmed_primary_keys)

    @cached_property
    def _runs(self) -> list[list[PlannedFile]]:
        """The files of each level, the lowest and so the newest first."""
        by_level: dict[int, list[PlannedFile]] = {}
        for file in self.files:
            assert file.run is not None
            by_level.setdefault(file.run.level, []).append(file)
        return [by_level[level] for level in sorted(by_level)]

    def _wanted(self, window: pa.RecordBatch) -> KeySet:
        """The keys to look up."""
        above = to_numpy(window.column(LEVEL)) > 0
        if (self.every_key and self.vectors_hide) or not above.any():
            return KeySet.of(self._keys, window)
        wanted = KeySet.of(self._keys, window.filter(from_numpy(~above)))
        return _absent(wanted, window.filter(from_numpy(above)))

    def _rows(
        self, keys: KeySet, file: PlannedFile, window: pa.RecordBatch, *, whole: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one file, with the columns of a window, or the key alone."""
        wanted = window.schema.names if whole else [*(key.name for key in self._keys), *root_columns(self._stays)]
        spec = replace(
            self.spec,
            schemas=with_key_values(self.spec.schemas),
            fields=tuple(field for field in (*self._schema.fields, *KEY_VALUE_FIELDS) if field.name in wanted),
            metadata_columns=(ROW_INDEX,),
            merging=None,
        )
        assert file.run is not None
        for rows in read_wanted(spec, keys, file, FileTrace(file.path, file.row_count), DEFAULT_BATCH_ROWS):
            positions = bitmap_of(to_numpy(rows.column(ROW_INDEX)))
            self.positions[file.name] = self.positions.get(file.name, BitMap()) | positions
            if not whole:
                stay = matches(self._stays, rows)
                if not pc.all(stay).as_py():
                    self.outdated.add(file.name)
                yield rows.filter(stay).select([key.name for key in self._keys])
                continue
            keyed = with_key_columns(rows, self._schema.trimmed_primary_keys)
            keyed = keyed.append_column(LEVEL, from_numpy(np.full(rows.num_rows, file.run.level, np.int32)))
            yield pa.RecordBatch.from_arrays([keyed.column(name) for name in wanted], schema=window.schema)


def _absent(keys: KeySet, rows: pa.RecordBatch) -> KeySet:
    """The keys that no row has."""
    own = pa.RecordBatch.from_arrays(list(keys.columns), names=[field.name for field in keys.fields])
    left = own.filter(pc.invert(KeySet.of(keys.fields, rows).matches(own)))
    return KeySet(keys.fields, tuple(left.columns))
