"""MERGE in each task, on any machine: look through some files, write new versions of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.read.file import read_file
from paimon_pyds.read.live_rows import live_rows
from paimon_pyds.rowlevel.merge_rows import Actions, MergeRules, act, new_versions
from paimon_pyds.rowlevel.target import Candidate
from paimon_pyds.rowlevel.tasks import in_place
from paimon_pyds.split import ReadSpec
from paimon_pyds.types import DataField
from paimon_pyds.write import TableWriter, WriteContext

__all__ = ["MergeTask", "Merged", "merge_files"]

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MergeTask:
    """Some files: how to look through them, how to rewrite them (None with vectors), and what to do to their rows."""

    spec: ReadSpec
    rewrite: ReadSpec | None
    files: tuple[Candidate, ...]
    rules: MergeRules
    context: WriteContext

    @property
    def version_fields(self) -> tuple[DataField, ...]:
        """The columns of new versions: the table's, and those in which rows keep their ids."""
        return (*self.context.schema.fields, *self.context.layout.trailing)


@dataclass(frozen=True)
class Merged:
    """What a task found and wrote.

    Attributes:
        numbers: all its files.
        positions: rows that go, by file.
        kept: rows that match and stay as they are, by file.
        matched: rows of the source that match.
        updated: how many rows have new versions.
        message: new data files.
    """

    numbers: tuple[int, ...]
    positions: Mapping[int, BitMap]
    kept: Mapping[int, BitMap]
    matched: _Ints
    updated: int
    message: CommitMessage


def merge_files(task: MergeTask) -> Merged:
    """Merge the files of a task. Raises as `merge_rows.act` does; what was written is then removed."""
    positions: dict[int, BitMap] = {}
    kept: dict[int, BitMap] = {}
    matched: list[_Ints] = []
    updated = 0
    with TableWriter(task.context) as writer:
        for candidate in task.files:
            found = _FileActions.find(task, candidate, writer)
            matched.append(np.unique(found.actions.matched))
            updated += found.updated
            if found.kept:
                kept[candidate.number] = found.kept
            if found.positions:
                positions[candidate.number] = found.positions
                if task.rewrite is not None:
                    _rewrite(task, task.rewrite, candidate, found.actions, writer)
        message = writer.prepare_commit()
    sources = np.unique(_joined(matched))
    return Merged(tuple(c.number for c in task.files), positions, kept, sources, updated, message)


@dataclass
class _FileActions:
    """What becomes of the rows of one file; in ``actions``, rows are positions in the file."""

    positions: BitMap
    kept: BitMap
    updated: int
    actions: Actions

    @classmethod
    def find(cls, task: MergeTask, candidate: Candidate, writer: TableWriter) -> _FileActions:
        """Look through a file; with deletion vectors new versions are written right away."""
        parts: list[Actions] = []
        updated = 0
        for batch in read_file(task.spec, candidate.file):
            positions = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
            named = _prefixed(batch, task.rules.prefix)
            found = act(task.rules, named)
            updated += int(np.count_nonzero(np.isin(found.clauses, task.rules.updating)))
            if task.rewrite is None:
                versions = new_versions(task.rules, named, found, task.version_fields)
                if versions is not None:
                    writer.write(versions)
            parts.append(replace(found, rows=positions[found.rows], kept=positions[found.kept]))
        whole = Actions(*(_joined([getattr(part, f.name) for part in parts]) for f in fields(Actions)))
        removed, kept = (BitMap(rows.astype(np.uint32)) for rows in (whole.rows, whole.kept))
        return cls(removed, kept, updated, whole)


def _joined(parts: Sequence[_Ints]) -> _Ints:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _rewrite(task: MergeTask, spec: ReadSpec, candidate: Candidate, actions: Actions, writer: TableWriter) -> None:
    """All live rows of a file that stay, and new versions of those that are updated in their places.

    Args:
        task: what the file is of.
        spec: how to read all columns.
        candidate: the file.
        actions: its rows by their positions.
        writer: takes the rows.
    """
    for batch in read_file(spec, candidate.file.selecting(live_rows(spec.io, candidate.file))):
        positions = np.asarray(batch.column(batch.num_columns - 1)).astype(np.int64)
        plain = batch.select(batch.schema.names[:-1])
        first, last = np.searchsorted(actions.rows, [positions[0], positions[-1] + 1])
        if first == last:
            writer.write(plain)
            continue
        found = actions.subset(slice(int(first), int(last)))
        found = replace(found, rows=np.searchsorted(positions, found.rows))
        versions = new_versions(task.rules, _prefixed(batch, task.rules.prefix), found, task.version_fields)
        updates = np.isin(found.clauses, task.rules.updating)
        writer.write(in_place(plain, found.rows[updates], versions, found.rows[~updates]))


def _prefixed(batch: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    return batch.rename_columns([prefix + name for name in batch.schema.names])
