"""Reading a section of a bucket: files of which several may hold versions of one row → rows merged by the merge engine.

Filters on keys act on each file as it is read, with its statistics, indexes and pages; what is left of the filter acts
on merged rows. Memory holds a window of a few batches of each sorted run, whatever the files' sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import array
from paimon_pyds.caching import cached_property
from paimon_pyds.errors import SnapshotNotFoundError, UnsupportedError
from paimon_pyds.merge.key_set import KeySet
from paimon_pyds.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND, key_column, without_deletes
from paimon_pyds.merge.merger import RowMerger
from paimon_pyds.merge.order_codes import order_codes
from paimon_pyds.merge.windows import SortedBatches, windows
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.tree import Const, root_columns
from paimon_pyds.read.candidate_keys import KeySearch, read_versions
from paimon_pyds.read.file import DEFAULT_BATCH_ROWS, metadata_column, no_columns, read_file
from paimon_pyds.read.live_rows import FileTrace, SectionTrace
from paimon_pyds.row import decode_column
from paimon_pyds.split import METADATA_FIELDS, Merging, PlannedFile, ReadSpec, result_schema
from paimon_pyds.types import AtomicType, DataField, Kind

__all__ = ["before_merging", "read_merged"]

_SYSTEM_FIELDS = (
    METADATA_FIELDS[SEQUENCE_NUMBER],
    DataField(2147483645, VALUE_KIND, AtomicType(Kind.TINYINT, nullable=False)),
)
"""Source of the ids: Paimon documentation, concepts/spec/datafile; Java: class SpecialFields."""
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
    note = SectionTrace(sum(file.row_count for file in files))
    for trace in traces:
        trace.section = note
    try:
        wanted = section.wanted_keys(files, traces, note)
        runs = section.runs(files, traces, batch_rows, wanted)
        for window in windows(runs, section.merger.keys, section.merger.needed):
            note.versions += window.num_rows
            rows = section.merged(window, files[0])
            note.rows_returned += rows.num_rows
            for start in range(0, rows.num_rows, batch_rows):
                yield rows.slice(start, batch_rows)
    except FileNotFoundError as error:
        raise SnapshotNotFoundError.of_file(error.filename or files[0].path) from error


def before_merging(spec: ReadSpec, file: PlannedFile) -> tuple[ReadSpec, PlannedFile]:
    """How one file of a section is read: with the columns that merging needs, and filtered by keys.

    Args:
        spec: of the plan.
        file: one whose rows are merged.

    Raises:
        OptionError, SchemaError, UnsupportedError: as `read_merged`.
    """
    assert spec.merging is not None
    return _Section(spec, spec.merging).reading, _alone(file)


def _alone(file: PlannedFile) -> PlannedFile:
    return file._replace(run=None, bounds=None)


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
        """The columns that merged rows have: those of the result and of what is left of the filter."""
        left = root_columns(self.merging.filter.after)
        return tuple(dict.fromkeys((*(f.name for f in self.spec.fields), *left)))

    @cached_property
    def reading(self) -> ReadSpec:
        """How each file is read: what merging needs, filtered by keys."""
        schema = self.merging.schema
        required = set(self.merger.required_columns(self.columns)).union(schema.trimmed_primary_keys)
        before = self.merging.filter.before
        filtered = set(root_columns(before))
        return replace(
            self.spec,
            schemas={id_: (*fields, *_SYSTEM_FIELDS) for id_, fields in self.spec.schemas.items()},
            fields=(*(f for f in schema.fields if f.name in required), *_SYSTEM_FIELDS),
            filter_fields=tuple(f for f in schema.fields if f.name in filtered),
            predicate=before,
            metadata_columns=(),
            merging=None,
        )

    def wanted_keys(
        self, files: Sequence[PlannedFile], traces: Sequence[FileTrace], note: SectionTrace
    ) -> KeySet | None:
        """The keys of which a version may make what is left of the filter true; None where all keys are merged."""
        after = self.merging.filter.after
        if after is Const.TRUE or not self.spec.use_index:
            note.reason = "" if after is Const.TRUE else "indexes are not used"
            return None
        conditions = self.merger.conditions_on_versions(after)
        if not conditions:
            note.reason = "the merge engine makes values that no single version tells of"
            return None
        schema = self.merging.schema
        search = KeySearch(self.reading, schema.fields, schema.trimmed_primary_keys)
        candidates = search.candidates(conditions, files, traces)
        if candidates is None:
            note.reason = "too many rows may make the filter true"
            return None
        note.candidates = candidates.count
        keys = candidates.keys()
        if keys is None:
            note.reason = "the keys that may be wanted take too much memory"
            return None
        note.candidate_keys = len(keys)
        return keys

    def runs(
        self, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int, wanted: KeySet | None
    ) -> list[SortedBatches]:
        """The sorted runs of the section, the oldest first; of some keys, or of all (None)."""
        files_of: dict[tuple[int, int, int], list[int]] = {}  # a level above 0 is one run, older the higher it is
        for number, file in enumerate(files):
            assert file.run is not None
            level = file.run.level
            run = (-level, 0, 0) if level else (0, file.sequence_number or 0, number)
            files_of.setdefault(run, []).append(number)
        rank = self._ranks_of_least_keys(files) if len(files_of) < len(files) else range(len(files))
        rows = max(_LEAST_BATCH, min(batch_rows, _HELD_ROWS // len(files_of)))
        runs = [sorted(files_of[key], key=lambda number: rank[number]) for key in sorted(files_of)]
        return [
            SortedBatches(self._batches([(files[n], traces[n]) for n in run], rows, wanted), files[run[0]].path)
            for run in runs
        ]

    def _ranks_of_least_keys(self, files: Sequence[PlannedFile]) -> Sequence[int]:
        """Numbers that compare as the files' least keys do."""
        schema = self.merging.schema
        types = [schema.field(name).type for name in schema.trimmed_primary_keys]
        least = array([file.run.key_range[0] for file in files if file.run is not None], pa.binary())
        columns = [decode_column(least, types, i, arity=True).values for i in range(len(types))]
        return [int(code) for code in order_codes(columns)]

    def _batches(
        self, run: Sequence[tuple[PlannedFile, FileTrace]], rows: int, wanted: KeySet | None
    ) -> Iterator[pa.RecordBatch]:
        keys = self.merging.schema.trimmed_primary_keys
        for file, trace in run:
            if wanted is None:
                batches = read_file(self.reading, _alone(file), batch_rows=rows, trace=trace)
            else:
                batches = read_versions(self.reading, wanted, file, trace, rows)
            for batch in batches:
                names = [*batch.schema.names, *map(key_column, keys)]
                yield pa.RecordBatch.from_arrays([*batch.columns, *(batch.column(name) for name in keys)], names=names)

    def merged(self, window: pa.RecordBatch, file: PlannedFile) -> pa.RecordBatch:
        """The rows of a window that the filter keeps, with the result's columns."""
        rows = without_deletes(self.merger.merge(window, (*self.columns, VALUE_KIND)))
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
