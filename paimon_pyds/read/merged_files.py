"""Reading a section of a bucket: files of which several may hold versions of one row → rows merged by the merge engine.

Filters on keys act on each file as it is read, with its statistics, indexes and pages; what is left of the filter acts
on merged rows. Memory holds a window of a few batches of each sorted run, whatever the files' sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import array, from_numpy
from paimon_pyds.caching import cached_property
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.merge.changed_rows import changed_rows
from paimon_pyds.merge.files import OLDER
from paimon_pyds.merge.key_values import VALUE_KIND, key_column, without_deletes
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.merge.order_codes import order_codes
from paimon_pyds.merge.windows import SortedBatches, windows
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Const, root_columns
from paimon_pyds.read.file import DEFAULT_BATCH_ROWS, metadata_column, no_columns, read_file
from paimon_pyds.read.live_rows import FileTrace
from paimon_pyds.row import decode_column
from paimon_pyds.split import SYSTEM_FIELDS, Merging, PlannedFile, ReadSpec, result_schema, with_system_fields

__all__ = ["read_merged"]

_OF_BUCKETS = frozenset({"__paimon_partition", "__paimon_bucket"})
_HELD_ROWS = 1 << 20
"""Rows of all runs that windows hold, about: with more runs their batches are smaller."""
_LEAST_BATCH = 1 << 10


def read_merged(
    spec: ReadSpec,
    files: Sequence[PlannedFile],
    traces: Sequence[FileTrace],
    batch_rows: int = DEFAULT_BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """The rows of one section, in the order of their keys, with the schema `result_schema(spec)`.

    What it gives of them `Merging.gives` says.

    Args:
        spec: of the plan.
        files: all of the section (`split.sections`).
        traces: where to note what happens with each of them.
        batch_rows: rows in a batch at most.

    Raises:
        CorruptFileError: a file is damaged, or not sorted by its keys.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
        UnsupportedError: a metadata column that merged rows don't have; or what the merge engine refuses.
        OptionError, SchemaError: the table's options of merging contradict one another.
    """
    assert spec.merging is not None
    section = _Section(spec, spec.merging)
    for rows in section.rows(files, traces, batch_rows):
        for start in range(0, rows.num_rows, batch_rows):
            yield rows.slice(start, batch_rows)


@dataclass
class _Section:
    """How the files of one section are read and merged."""

    spec: ReadSpec
    merging: Merging

    def __post_init__(self) -> None:
        for name in self.spec.metadata_columns:
            if name not in _OF_BUCKETS:
                raise UnsupportedError(
                    f"rows that are merged from several files have no {name}", hint="compact the table, or leave it out"
                )

    @cached_property
    def merger(self) -> RowMerger:
        return RowMerger(self.merging.schema)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that merged rows have: those of the result, and those that say which rows are left out of it."""
        left = root_columns(self.merging.filter.after)
        compared = self.merging.schema.field_names if self.merging.gives == "difference" else ()
        return tuple(dict.fromkeys((*(f.name for f in self.spec.fields), *left, *compared, VALUE_KIND)))

    @cached_property
    def reading(self) -> ReadSpec:
        """How each file is read: what merging needs, filtered by keys."""
        schema = self.merging.schema
        required = set(self.merger.required_columns(self.columns)).union(schema.trimmed_primary_keys)
        before = self.merging.filter.before
        filtered = set(root_columns(before))
        return replace(
            self.spec,
            schemas=with_system_fields(self.spec.schemas),
            fields=(*(f for f in schema.fields if f.name in required), *SYSTEM_FIELDS.values()),
            filter_fields=tuple(f for f in schema.fields if f.name in filtered),
            predicate=before,
            metadata_columns=(),
            merging=None,
        )

    def rows(
        self, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the result."""
        if self.merging.gives == "versions":
            for batch in self._batches(list(zip(files, traces, strict=True)), batch_rows):
                yield self.result(batch, files[0])
            return
        merge = self.newer if self.merging.gives == "difference" else self.merged
        for window in windows(self.runs(files, traces, batch_rows), self.merger.keys, self.merger.needed):
            yield self.result(merge(window), files[0])

    def runs(self, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int) -> list[SortedBatches]:
        """The sorted runs of the section, the oldest first."""
        files_of: dict[tuple[int, ...], list[int]] = {}  # a level above 0 is one run, older the higher it is
        for number, file in enumerate(files):
            assert file.run is not None
            level = file.run.level
            run = (-level, 0, 0) if level else (0, file.sequence_number or 0, number)
            files_of.setdefault((not file.run.older, *run), []).append(number)
        rank = self._ranks_of_least_keys(files) if len(files_of) < len(files) else range(len(files))
        rows = max(_LEAST_BATCH, min(batch_rows, _HELD_ROWS // len(files_of)))
        runs = [sorted(files_of[key], key=lambda number: rank[number]) for key in sorted(files_of)]
        return [
            SortedBatches(self._batches([(files[n], traces[n]) for n in run], rows), files[run[0]].path) for run in runs
        ]

    def _ranks_of_least_keys(self, files: Sequence[PlannedFile]) -> Sequence[int]:
        """Numbers that compare as the files' least keys do."""
        schema = self.merging.schema
        types = [schema.field(name).type for name in schema.trimmed_primary_keys]
        least = array([file.run.key_range[0] for file in files if file.run is not None], pa.binary())
        columns = [decode_column(least, types, i, arity=True).values for i in range(len(types))]
        return [int(code) for code in order_codes(columns)]

    def _batches(self, run: Sequence[tuple[PlannedFile, FileTrace]], rows: int) -> Iterator[pa.RecordBatch]:
        keys = self.merging.schema.trimmed_primary_keys
        for file, trace in run:
            alone = file._replace(run=None, bounds=None)
            for batch in read_file(self.reading, alone, batch_rows=rows, trace=trace):
                names = [*batch.schema.names, *map(key_column, keys)]
                columns = [*batch.columns, *(batch.column(name) for name in keys)]
                if self.merging.gives == "difference":
                    names.append(OLDER)
                    columns.append(from_numpy(np.full(batch.num_rows, file.run is not None and file.run.older)))
                yield pa.RecordBatch.from_arrays(columns, names=names)

    def merged(self, window: pa.RecordBatch) -> pa.RecordBatch:
        """One row for each key of a window."""
        rows = self.merger.merge(window, self.columns)
        return rows if self.keeps_deletes else without_deletes(rows)

    def newer(self, window: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that newer files give, unless older ones give the same; deletes of those that only these give."""
        sides = pc.invert(window.column(OLDER)), window.column(OLDER)
        newer, older = (self.merged(window.filter(side)) for side in sides)
        return changed_rows(older, newer, self.merging.schema)

    @property
    def keeps_deletes(self) -> bool:
        """Whether rows that take others away are given too: where the result says which do."""
        return any(field.name == VALUE_KIND for field in self.spec.fields)

    def result(self, rows: pa.RecordBatch, file: PlannedFile) -> pa.RecordBatch:
        """The rows that the filter keeps, with the result's columns."""
        if not self.keeps_deletes:
            rows = without_deletes(rows)
        after = self.merging.filter.after
        if after is not Const.TRUE:
            rows = rows.filter(matches(after, rows))
        schema = result_schema(self.spec)
        if not schema.names:
            return no_columns(rows.num_rows)
        columns = [rows.column(field.name) for field in self.spec.fields]
        if self.spec.metadata_columns:
            nowhere = np.zeros(rows.num_rows, np.int64)
            columns += [metadata_column(name, self.spec, file, nowhere) for name in self.spec.metadata_columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
