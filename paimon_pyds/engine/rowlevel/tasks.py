"""The tasks of row-level operations, on any machine: find rows, and write the remaining rows of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import array, fixed_values, to_numpy
from paimon_pyds.base.progress import worked
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.execution.executor import Executor, mapped
from paimon_pyds.engine.execution.writing import abort_messages
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import LiveRows, live_rows
from paimon_pyds.engine.read.row_places import groups_of, places_of, read_files, read_places, rows_of_files
from paimon_pyds.engine.rowlevel.target import Candidate, Candidates, RowEdits, RowTarget
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.keys.bucket.dynamic import KeyShare
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.tree import Const


class _FilesTask(Protocol):
    @property
    def files(self) -> Sequence[tuple[Candidate, BitMap]]: ...


_Task = TypeVar("_Task", bound=_FilesTask)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The live rows of one file that a condition is true for; ``number`` as in `Candidate`."""

    number: int
    positions: BitMap


def find_rows(candidates: Candidates, executor: Executor) -> list[FoundRows]:
    """The live rows that match the candidates' predicate, file by file; files without any are left out."""
    find = partial(_find, candidates.spec)  # the filter may be large, and is sent once
    results = mapped(executor, "reading", find, candidates.packed(), lambda task: [c.file for c in task])
    found = [rows for result in results for rows in result if rows.positions]
    return sorted(found, key=lambda f: f.number)


def _find(spec: ReadSpec, files: tuple[Candidate, ...]) -> list[FoundRows]:
    found = list[FoundRows]()
    read = list[Candidate]()
    for candidate in files:
        file = candidate.file
        if file.residual is Const.TRUE or file.has_index:  # the data may not be needed
            found.append(FoundRows(candidate.number, matching_rows(spec, file)))
            worked(file.path)
        else:
            read.append(candidate)
    waiting = iter(read)
    for group in groups_of(spec, (candidate.file for candidate in read)):
        some = list(islice(waiting, len(group)))
        if len(group) == 1:
            rows = [matching_rows(spec, group[0])]
        else:
            parts = [places_of(batch) for batch in read_places(spec, group)]
            rows = rows_of_files(np.concatenate([np.empty(0, np.int64), *parts]), len(group))
        found += [FoundRows(candidate.number, own) for candidate, own in zip(some, rows, strict=True)]
        for file in group:
            worked(file.path)
    return found


def matching_rows(spec: ReadSpec, file: PlannedFile) -> BitMap:
    """The positions of the live rows for which a condition is true, for deletes and updates.

    If the file's index answers exactly, the data file is not opened; else only the columns of the filter are read.

    ``spec``: its predicate is the condition, its metadata column the row index. ``file``: the data file, with its
    embedded index, when it has one.

    Raises:
        CorruptFileError: the data file, its index or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    with file.must_exist("searched", "run the operation again"):
        return _matching(LiveRows(spec.for_file(file), file))


def _matching(live: LiveRows) -> BitMap:
    candidates = live.candidates
    live.close()
    if candidates.is_none:
        return BitMap()
    if live.is_exact:
        return BitMap(range(live.file.row_count)) if candidates.positions is None else candidates.positions
    batches = read_file(live.spec, live.file.selecting(candidates))
    found = [to_numpy(batch.column(batch.num_columns - 1)).astype(np.uint32) for batch in batches]
    return BitMap(np.concatenate(found)) if found else BitMap()


def run_tasks(
    executor: Executor, function: Callable[[_Task], CommitMessage], tasks: Sequence[_Task], target: RowTarget
) -> list[CommitMessage]:
    """The messages of all tasks; on an error, or an interrupt, the files of those that were done are removed."""
    done: list[CommitMessage] = []
    with removing_unfinished(partial(abort_messages, target.store, done)):
        done.extend(mapped(executor, "rewriting", function, tasks, lambda task: [c.file for c, _ in task.files]))
    return done


def write_rows(
    context: WriteContext, batches: Iterable[pa.RecordBatch], task: int = 0, keys: KeyShare | None = None
) -> CommitMessage:
    """Rows as new data files; on an error those that were written are removed. Arguments as `TableWriter` has them."""
    with TableWriter(context, task, keys) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.prepare_commit()


@dataclass(frozen=True, slots=True)
class _RewriteTask:
    spec: ReadSpec
    files: tuple[tuple[Candidate, BitMap], ...]
    context: WriteContext


def _rewritten(
    target: RowTarget, candidates: Candidates, removed: Sequence[FoundRows], executor: Executor
) -> list[CommitMessage]:
    """Write the live rows that are left of the files of ``removed``, each into its own partition and bucket."""
    positions = {f.number: f.positions for f in removed}
    tasks: list[_RewriteTask] = []
    for total, files in by_total_buckets(c for c in candidates.files if c.number in positions):
        context = target.moving_context(total)
        spec = unfiltered(candidates.spec, target.schema.fields, metadata=context.layout.trailing_names)
        groups = candidates.packed(files)
        tasks.extend(_RewriteTask(spec, tuple((c, positions[c.number]) for c in group), context) for group in groups)
    return run_tasks(executor, _rewrite, tasks, target)


def remove_rows(target: RowTarget, candidates: Candidates, found: Sequence[FoundRows], executor: Executor) -> RowEdits:
    """Edits that remove these rows from the table; they do not count yet as deleted or updated.

    With deletion vectors nothing is written here; without, the rows that are left of each file are written to new ones.

    ``candidates``: the files that ``found`` is of, and perhaps others. ``found``: the rows that go: live ones, file by
    file. ``executor``: where files are rewritten.
    """
    removed = [target.removed(rows.number, rows.positions) for rows in found]
    partly = [] if target.uses_vectors else [f for f in found if len(f.positions) < target.live_rows(f.number)]
    return RowEdits(removed, _rewritten(target, candidates, partly, executor) if partly else ())


def unfiltered(spec: ReadSpec, fields: Sequence[DataField], *, metadata: Sequence[str] = ()) -> ReadSpec:
    """How to read these columns of selected rows, without any condition."""
    return replace(spec, fields=tuple(fields), filter_fields=(), predicate=Const.TRUE, metadata_columns=tuple(metadata))


def by_total_buckets(files: Iterable[Candidate]) -> Iterable[tuple[int, list[Candidate]]]:
    """Files by the number of buckets of their partition: rows go back to the bucket they came from."""
    groups: dict[int, list[Candidate]] = {}
    for candidate in files:
        groups.setdefault(candidate.file.total_buckets, []).append(candidate)
    return groups.items()


def _rewrite(task: _RewriteTask) -> CommitMessage:
    def left() -> Iterator[PlannedFile]:
        for candidate, removed in task.files:
            rows = live_rows(task.spec.io, candidate.file).minus(removed, candidate.file.row_count)
            if rows.is_none:
                worked(candidate.file.path)
            else:
                yield candidate.file.selecting(rows)

    return write_rows(task.context, read_files(task.spec, left()))


def in_place(
    batch: pa.RecordBatch,
    rows: npt.NDArray[np.int64],
    versions: pa.RecordBatch | None,
    removed: npt.NDArray[np.int64] | None = None,
) -> pa.RecordBatch:
    """The rows of a batch in order, some of them in new versions, and without some others.

    Args:
        batch: live rows of a file.
        rows: the positions of those that change, ascending.
        versions: their new versions, in this order; None without new versions.
        removed: the positions of rows that go.
    """
    if versions is not None:
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=versions.schema)
    if removed is None and versions is not None:
        columns = zip(batch.columns, versions.columns, strict=True)
        replaced = [_replaced(old, rows, new) for old, new in columns]
        if all(column is not None for column in replaced):
            return pa.RecordBatch.from_arrays(replaced, schema=batch.schema)
    order = np.arange(batch.num_rows)
    parts = [batch]
    if versions is not None:
        order[rows] = batch.num_rows + np.arange(versions.num_rows)
        parts.append(versions)
    if removed is not None:
        order = np.delete(order, removed)
    table = pa.Table.from_batches(parts).take(array(order)).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batch.slice(0, 0)


def _replaced(old: pa.Array, rows: npt.NDArray[np.int64], new: pa.Array) -> pa.Array | None:
    """A column with new values in some rows; None unless each of its values is a number of whole bytes."""
    if not pa.types.is_primitive(old.type) or old.type.bit_width < 8 or old.null_count or new.null_count:
        return None
    kind = f"<u{old.type.bit_width // 8}"
    values = fixed_values(old, kind).copy()
    values[rows] = fixed_values(new, kind)
    return pa.Array.from_buffers(old.type, len(values), [None, pa.py_buffer(values)])
