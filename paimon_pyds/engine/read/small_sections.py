"""Merging many small sections: their files are decoded together, and the versions of rows in all of them are merged by
one call, where the number of the section is a column of the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.engine.read.live_rows import FileTrace, SectionTrace
from paimon_pyds.engine.read.merged_files import Section, alone, read_merged
from paimon_pyds.engine.read.small_files import MOST_BYTES, DecodedFile, JoinedFiles
from paimon_pyds.engine.read.sorted_runs import sorted_runs
from paimon_pyds.keys.merge.key_values import LEVEL, with_key_columns
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.windows import is_sorted_run
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, sections
from paimon_pyds.sql.predicate.tree import Const

SECTION = "__paimon_section"
"""The column that has the number of the section of a row."""
_MOST_DECODED = 64 << 20
"""Decoded bytes of one section: longer rows are merged in windows."""


class DecodedSection(NamedTuple):
    """A small section whose files are decoded, and the bytes of their rows. Of one that has to be read by itself,
    because of long rows or a file that the decoder can't read, some are missing."""

    files: Sequence[PlannedFile]
    decoded: Sequence[DecodedFile]
    size: int

    @property
    def is_whole(self) -> bool:
        """Whether all files are there."""
        return len(self.decoded) == len(self.files)

    @property
    def traces(self) -> list[FileTrace]:
        """How each file was read."""
        return [each.trace for each in self.decoded]


def read_small_sections(
    spec: ReadSpec, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The merged rows of sections that `small_files.joined_files` has joined, section by section. Arguments, order and
    errors as `read_merged`, which reads large sections, and those with a file that can't be decoded or isn't sorted."""
    merge = JoinedSections(spec, files)
    ready: list[DecodedSection] = []
    held = 0

    def flushed() -> Iterator[pa.RecordBatch]:
        if ready:
            batch = merge.rows(ready)
            if batch is None:
                for section in ready:
                    yield from _one_by_one(spec, section.files, section.traces, batch_rows)
            else:
                yield from (batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))
            ready.clear()

    by_path = {trace.path: trace for trace in traces}
    for section in merge.decoded(sections(files), traces):
        if not section.is_whole:
            yield from flushed()
            held = 0
            yield from _one_by_one(spec, section.files, [by_path[file.path] for file in section.files], batch_rows)
            continue
        ready.append(section)
        held += section.size
        if held >= MOST_BYTES:
            yield from flushed()
            held = 0
    yield from flushed()


def _one_by_one(
    spec: ReadSpec, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    for trace in traces:
        trace.start_over()
    yield from read_merged(spec, files, traces, batch_rows)


class JoinedSections:
    """Merges the rows of small sections. ``spec``: how each is read. ``files``: all of them, which are of one kind
    (`small_files.small_kind`). ``keeps_single``: as for `RowMerger`; without, it gets the levels of all rows."""

    def __init__(self, spec: ReadSpec, files: Sequence[PlannedFile], *, keeps_single: bool = True) -> None:
        assert spec.merging is not None
        self._section = Section(spec, spec.merging, files, (), numbered=True, levels=not keeps_single)
        self._keys = spec.merging.schema.trimmed_primary_keys
        self._merger = RowMerger(spec.merging.schema, within=(SECTION,), keeps_single=keeps_single)
        self._joined = JoinedFiles(self._section.reading, files)

    def decoded(self, found: Iterable[Sequence[PlannedFile]], traces: Sequence[FileTrace]) -> Iterator[DecodedSection]:
        """The sections after their files were decoded, in their order.

        ``found``: the files of each. ``traces``: where to note what happens with each file, in the same order.
        Raises SnapshotNotFoundError, StorageError: as `read_merged`.
        """
        found = list(found)
        decoded = self._joined.decoded([alone(file) for section in found for file in section], traces)
        for section in found:
            files, size = list[DecodedFile](), 0
            for _, each in zip(section, decoded, strict=False):
                if each.table is not None and size < _MOST_DECODED:
                    files.append(each)
                    size += each.table.get_total_buffer_size()
            yield DecodedSection(section, files, size)

    def rows(self, decoded: Sequence[DecodedSection]) -> pa.RecordBatch | None:
        """The merged rows that match the filter; None where a file is not sorted by its keys."""
        merged = self.merged(decoded, self._section.columns)
        if merged is None:
            return None
        left = self._section.filtered(merged)
        returned = np.bincount(to_numpy(left.column(SECTION)), minlength=len(decoded))
        self._note(decoded, returned.tolist())
        return self._section.result(left)

    def merged(self, decoded: Sequence[DecodedSection], columns: Sequence[str]) -> pa.RecordBatch | None:
        """The merged rows, deletes among them, before the residual filter; None where a file is not sorted by its keys,
        or a row kind that does not exist.

        ``decoded``: whole sections. ``columns``: those of the result, after which it has `SECTION`, by which it is
        sorted before keys.
        Raises UnsupportedError, SchemaError: as `RowMerger.merge`.
        """
        schema = self._section.merging.schema
        runs = [sorted_runs(section.files, schema) for section in decoded]
        places = [
            [(number, at) for number, run in enumerate(level) for at in run or ()] for level in zip_longest(*runs)
        ]
        in_order = [place for run in places for place in run]
        parts = [decoded[number].decoded[at] for number, at in in_order]
        numbers = np.array([number for number, _ in in_order])
        read = self._joined.rows(parts)
        counts = np.array([each.trace.rows_returned for each in parts], np.int64)
        versions = with_key_columns(read, self._keys).append_column(SECTION, from_numpy(np.repeat(numbers, counts)))
        if self._section.gives_levels:
            runs_of = [decoded[number].files[at].run for number, at in in_order]
            levels = np.array([0 if run is None else run.level for run in runs_of], np.int32)
            versions = versions.append_column(LEVEL, from_numpy(np.repeat(levels, counts)))
        ends = np.cumsum(counts)[np.cumsum([len(run) for run in places]) - 1].tolist()
        for start, end in zip([0, *ends], ends, strict=False):
            if not is_sorted_run(versions.slice(start, end - start), self._merger.keys):
                return None
        names = [*columns, SECTION]
        return self._merger.merge(versions, names) if versions.num_rows else versions.select(names)

    def _note(self, decoded: Sequence[DecodedSection], returned: Sequence[int]) -> None:
        for section, rows in zip(decoded, returned, strict=True):
            note = SectionTrace(sum(file.row_count for file in section.files), rows_returned=rows)
            note.versions = sum(trace.rows_returned for trace in section.traces)
            if self._section.merging.filter.after is not Const.TRUE:
                note.reason = "its files are small"
            for trace in section.traces:
                trace.section = note
