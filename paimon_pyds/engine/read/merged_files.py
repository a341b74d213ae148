"""Reading a section of a bucket: files of which several may hold versions of one row → rows merged by the merge engine.

Filters on keys act on each file as it is read, with its statistics, indexes and pages; the residual filter acts on
merged rows. Memory holds a window of a few batches of each sorted run, whatever the files' sizes; very many runs are
merged in rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, no_columns
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.sort.spill import spill_codec
from paimon_pyds.engine.read.candidate_keys import KeySearch, changed_keys, read_wanted
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS, read_file
from paimon_pyds.engine.read.live_rows import FileTrace, SectionTrace
from paimon_pyds.engine.read.metadata_columns import metadata_column
from paimon_pyds.engine.read.sorted_runs import sequence_gaps, sorted_runs
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.changed_rows import OLDER, changed_rows, updated_rows
from paimon_pyds.keys.merge.files_to_merge import is_clustered
from paimon_pyds.keys.merge.filter import MergeFilter
from paimon_pyds.keys.merge.key_set import KeySet
from paimon_pyds.keys.merge.key_values import (
    KEY_VALUE_FIELDS,
    LEVEL,
    SEQUENCE_NUMBER,
    VALUE_KIND,
    with_key_columns,
    with_key_values,
    without_deletes,
)
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.older_versions import OlderVersions
from paimon_pyds.keys.merge.windows import MOST_RUNS, SortedBatches, windows, windows_in_rounds
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import Merging, ReadSpec, result_schema
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns

_Comparison: TypeAlias = Callable[[pa.RecordBatch, TableSchema], pa.RecordBatch]
_OF_BUCKETS = frozenset({"__paimon_partition", "__paimon_bucket"})
_HELD_ROWS = 1 << 20
HELD_BYTES = 128 << 20
"""What a batch of each run may hold together, about: with more runs, or longer rows, these are shorter."""
_EXPANSION = 4
"""Bytes of rows in memory for one in a file, about."""


def read_merged(
    spec: ReadSpec,
    files: Sequence[PlannedFile],
    traces: Sequence[FileTrace],
    batch_rows: int = DEFAULT_BATCH_ROWS,
    keys: KeySet | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one section, in the order of their keys, with the schema `result_schema(spec)`.

    What it gives of them `Merging.gives` says.

    ``files``: all of the section (`split.sections`). ``traces``: where to note what happens with each of them.
    ``keys``: those of the rows that are wanted; None for all rows.

    Raises:
        CorruptFileError: a file is damaged, or not sorted by its keys.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
        UnsupportedError: a metadata column that merged rows don't have; or what the merge engine refuses.
        OptionError, SchemaError: the table's options of merging contradict one another.
    """
    assert spec.merging is not None
    section = Section(spec, spec.merging, files, traces, keys=keys)
    with closing(_given(section, batch_rows)) as found:
        for rows in map(section.result, map(section.filtered, found)):
            section.note.rows_returned += rows.num_rows
            for start in range(0, rows.num_rows, batch_rows):
                yield rows.slice(start, batch_rows)


def _given(section: Section, batch_rows: int) -> Generator[pa.RecordBatch, None, None]:
    """The rows that `Merging.gives` names, before the residual filter."""
    match section.merging.gives:
        case "versions":
            yield from section.batches(0, batch_rows, None)
        case "difference":
            yield from _compared(section, batch_rows, changed_rows)
        case "changes":
            section.keys = changed_keys(section.reading, section.merging.schema, section.files)
            yield from _compared(section, batch_rows, updated_rows)
        case _:
            yield from section.merged(batch_rows)


def _compared(section: Section, batch_rows: int, compare: _Comparison) -> Iterator[pa.RecordBatch]:
    """What a comparison makes of the merged rows of older and newer files: those of each bucket are merged apart."""
    schema = section.merging.schema
    with ExitStack() as stack:
        runs = []
        buckets = dict.fromkeys(file.bucket_id for file in section.files)
        rows = max(1, batch_rows // len(buckets))
        for older, bucket in product((True, False), buckets):
            found = stack.enter_context(closing(section.part(bucket, older=older).merged(rows)))
            runs.append(SortedBatches(_marked(found, older=older), section.files[0].path))
        for window in windows(runs, schema.trimmed_primary_keys):
            yield compare(window, schema)


def _marked(batches: Iterable[pa.RecordBatch], *, older: bool) -> Iterator[pa.RecordBatch]:
    """Rows of one state, with the column `OLDER`."""
    for batch in batches:
        yield batch.append_column(pa.field(OLDER, pa.bool_()), from_numpy(np.full(batch.num_rows, older)))


def read_versions(spec: ReadSpec, files: Sequence[PlannedFile], *, drop_deletes: bool) -> Iterator[pa.RecordBatch]:
    """The rows of one section as a compaction writes them: the columns of ``spec``, then those of `KEY_VALUE_FIELDS`.

    ``spec``: columns of the table; it has no filter. ``files``: those of the section that are merged. ``drop_deletes``:
    leave out rows that delete others: no older version of them is anywhere else.

    Raises:
        CorruptFileError, SnapshotNotFoundError, StorageError, UnsupportedError, OptionError, SchemaError: as
            `read_merged`.
    """
    assert spec.merging is not None
    traces = [FileTrace(file.path, file.row_count) for file in files]
    section = Section(spec, spec.merging, files, traces, numbered=True)
    names = [field.name for field in (*spec.fields, *KEY_VALUE_FIELDS)]
    with closing(section.windows(DEFAULT_BATCH_ROWS)) as found:
        for window in found:
            rows = section.merger.merge(window, names) if len(files) > 1 else window.select(names)
            yield without_deletes(rows) if drop_deletes else rows


def read_windows(spec: ReadSpec, files: Sequence[PlannedFile]) -> Generator[pa.RecordBatch, None, None]:
    """All versions of the rows of one section, in windows of whole keys, in the order of keys.

    They have the columns of ``spec``, what `RowMerger` needs to merge them, and ``_LEVEL``.

    ``spec``: columns of the table; it has no filter. ``files``: those of the section that are read.
    Raises CorruptFileError, SnapshotNotFoundError, StorageError, OptionError, SchemaError: as `read_merged`.
    """
    assert spec.merging is not None
    traces = [FileTrace(file.path, file.row_count) for file in files]
    section = Section(spec, spec.merging, files, traces, numbered=True, levels=True)
    return section.windows(DEFAULT_BATCH_ROWS)


def before_merging(spec: ReadSpec, file: PlannedFile) -> tuple[ReadSpec, PlannedFile]:
    """How one file of a section is read: with the columns that merging needs, and filtered by keys.

    Sequence numbers, which some sections need besides, are not among them.

    ``file``: one whose rows are merged.
    Raises OptionError, SchemaError, UnsupportedError: as `read_merged`.
    """
    assert spec.merging is not None
    return Section(spec, spec.merging, (file,), ()).reading, alone(file)


def plan_section(spec: ReadSpec, files: Sequence[PlannedFile]) -> SectionTrace:
    """Whether only some keys of a section would be merged, by its indexes: its candidates, or why they are not
    searched.

    ``files``: all of the section.

    Raises:
        FileNotFoundError: a file is gone.
        CorruptFileError, StorageError, UnsupportedError, OptionError, SchemaError: as `read_merged`.
    """
    assert spec.merging is not None
    section = Section(spec, spec.merging, files, [FileTrace(file.path, file.row_count) for file in files])
    found = section.search()
    if found is not None:
        found[0].candidates(found[1], section.files, section.traces, section.note)
    return section.note


def alone(file: PlannedFile) -> PlannedFile:
    """The file as one whose rows are read, not merged."""
    return file._replace(run=None, bounds=None)


@dataclass
class Section:
    """How the files of one section are read and merged.

    ``numbered``: the result has sequence numbers; ``levels``: rows have the level that they are on; ``keys``: the
    wanted ones, None for all.
    """

    spec: ReadSpec
    merging: Merging
    files: Sequence[PlannedFile]
    traces: Sequence[FileTrace]
    numbered: bool = False
    levels: bool = False
    keys: KeySet | None = None

    def __post_init__(self) -> None:
        for name in self.spec.metadata_columns:
            if name not in _OF_BUCKETS:
                raise UnsupportedError(
                    f"rows that are merged from several files have no {name}", hint="compact the table, or leave it out"
                )

    @cached_property
    def note(self) -> SectionTrace:
        """What happens to the section; the files' traces have it, too."""
        made = SectionTrace(sum(file.row_count for file in self.files))
        for trace in self.traces:
            trace.section = made
        return made

    @cached_property
    def merger(self) -> RowMerger:
        return RowMerger(self.merging.schema)

    @cached_property
    def is_alone(self) -> bool:
        """Whether it is one file with the only versions of its rows that are not deleted, which keys need not sort."""
        one = len(self.files) == 1 and self.merging.gives == "rows" and not (self.numbered or self.levels)
        return one and is_clustered(self.merging.schema)

    @cached_property
    def filter(self) -> MergeFilter:
        """The filter in its two parts; all of it acts on a file that is alone as it is read."""
        return MergeFilter(self.spec.predicate) if self.is_alone else self.merging.filter

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that merged rows have: those of the result, and those that say which rows are left out of it."""
        left = root_columns(self.filter.after)
        compared = self.merging.schema.field_names if self.merging.gives in ("difference", "changes") else ()
        return tuple(dict.fromkeys((*(f.name for f in self.spec.fields), *left, *compared, VALUE_KIND)))

    @cached_property
    def reading(self) -> ReadSpec:
        """How each file is read: what merging needs, filtered by keys."""
        schema = self.merging.schema
        needed = self.columns if self.is_alone else self.merger.required_columns(self.columns)
        required = {*needed, *schema.trimmed_primary_keys}
        before = self.filter.before
        filtered = set(root_columns(before))
        system = KEY_VALUE_FIELDS[1:] if self.sequence_gaps else KEY_VALUE_FIELDS
        return replace(
            self.spec,
            schemas=with_key_values(self.spec.schemas),
            fields=(*(f for f in schema.fields if f.name in required), *system),
            filter_fields=tuple(f for f in schema.fields if f.name in filtered),
            predicate=before,
            metadata_columns=(),
            merging=None,
            read_ahead=self.batch_bytes,
            sequence_gaps=self.sequence_gaps,
        )

    @cached_property
    def runs(self) -> list[list[int]]:
        """The numbers of the files of each sorted run, the oldest run first."""
        return sorted_runs(self.files, self.merging.schema)

    @cached_property
    def sequence_gaps(self) -> dict[str, tuple[int, int]]:
        """As the function of that name gives them, where sequence numbers are not read; empty where they are."""
        numbered = self.numbered or any(field.name == SEQUENCE_NUMBER for field in self.spec.fields)
        return {} if numbered else sequence_gaps(self.files, self.runs)

    @cached_property
    def gives_levels(self) -> bool:
        """Whether rows have their level: of the versions of a key on levels above 0 only one counts."""
        above = {file.run.level for file in self.files if file.run is not None and file.run.level}
        return self.levels or (len(above) > 1 and OlderVersions.of(TableOptions(self.merging.schema.options)).looked_up)

    @property
    def open_runs(self) -> int:
        """How many runs are read at a time."""
        return min(MOST_RUNS, len(self.runs))

    @property
    def batch_bytes(self) -> int:
        """Bytes in a batch of each run at most, about, however short its rows are in files."""
        return HELD_BYTES // self.open_runs

    @property
    def compression(self) -> str:
        """Of what is spilled to local disk."""
        return spill_codec(str(TableOptions(self.merging.schema.options).get("spill-compression")))

    def rows_at_once(self, batch_rows: int) -> int:
        """Rows in a batch of each run."""
        size = _EXPANSION * sum(file.size for file in self.files) // max(1, sum(f.row_count for f in self.files))
        return max(1, min(batch_rows, min(_HELD_ROWS, HELD_BYTES // max(1, size)) // self.open_runs))

    def wanted_keys(self) -> KeySet | None:
        """The keys that have a version for which the residual filter may be true; None if all keys are merged."""
        if self.keys is not None:
            return self.keys
        found = self.search()
        return None if found is None else found[0].wanted(found[1], self.files, self.traces, self.note)

    def search(self) -> tuple[KeySearch, Sequence[Predicate]] | None:
        """How to find these keys, and the conditions to find them by; None, with the reason noted, where none can."""
        after = self.filter.after
        if self.is_alone or after is Const.TRUE or self.merging.gives != "rows":
            return None
        if not self.spec.use_index:
            self.note.reason = "indexes are not used"
            return None
        conditions = self.merger.conditions_on_versions(after)
        if not conditions:
            self.note.reason = "single versions don't decide whether the merged row matches the filter"
            return None
        schema = self.merging.schema
        return KeySearch(self.reading, schema.fields, schema.trimmed_primary_keys), conditions

    def batches(self, run: int, rows: int, wanted: KeySet | None) -> Iterator[pa.RecordBatch]:
        """The rows of one of the sorted runs; where sequence numbers are not read, that of the run stands for them.

        Rows of files that are not sorted by key are sorted first, unless they are not merged with others.

        ``run``: its place among `runs`. ``wanted``: the keys to read; None for all.
        """
        found = self._stored(run, rows, wanted)
        first = self.files[self.runs[run][0]].run
        if self.is_alone or first is None or first.key_range is not None:
            yield from found
            return
        schema = self.merging.schema
        fields = tuple(map(schema.field, schema.trimmed_primary_keys))
        with RowSorter(
            SortSpec(fields, buffer=self.batch_bytes, compression=self.compression), SortKeys("order")
        ) as by_key:
            for batch in found:
                by_key.add(batch)
            for batch in by_key.sorted():
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    def _stored(self, run: int, rows: int, wanted: KeySet | None) -> Iterator[pa.RecordBatch]:
        """The same in the order of the files."""
        keys = self.merging.schema.trimmed_primary_keys
        same = np.full(rows, run) if self.sequence_gaps else None
        for number in self.runs[run]:
            file, trace = self.files[number], self.traces[number]
            if wanted is None:
                batches = read_file(self.reading, alone(file), batch_rows=rows, trace=trace)
            else:
                batches = read_wanted(self.reading, wanted, file, trace, rows)
            for batch in batches:
                self.note.versions += batch.num_rows
                keyed = with_key_columns(batch, keys)
                if same is not None:
                    keyed = keyed.append_column(SEQUENCE_NUMBER, from_numpy(same[: batch.num_rows]))
                if self.gives_levels:
                    sorted_run = file.run
                    assert sorted_run is not None
                    keyed = keyed.append_column(LEVEL, from_numpy(np.full(batch.num_rows, sorted_run.level, np.int32)))
                yield keyed

    def windows(self, batch_rows: int) -> Generator[pa.RecordBatch, None, None]:
        """All versions of the rows; those of a key are in one window."""
        rows = self.rows_at_once(batch_rows)
        keys = self.wanted_keys()
        runs = [
            SortedBatches(self.batches(number, rows, keys), self.files[run[0]].path)
            for number, run in enumerate(self.runs)
        ]
        return windows_in_rounds(runs, self.merger, rows, self.batch_bytes, self.compression)

    def part(self, bucket_id: PartitionBucket, *, older: bool) -> Section:
        """The same of the files that one of two states has in a bucket."""
        places = (file.run and (bool(file.run.older), file.bucket_id) for file in self.files)
        numbers = [n for n, place in enumerate(places) if place == (older, bucket_id)]
        part = replace(self, files=[self.files[n] for n in numbers], traces=[self.traces[n] for n in numbers])
        part.note = self.note
        return part

    def merged(self, batch_rows: int) -> Generator[pa.RecordBatch, None, None]:
        """One row for each key, with `columns`: deletes are among them where they are given."""
        if not self.files:
            return
        if self.is_alone:
            for rows in self.batches(0, batch_rows, None):
                yield rows if self.gives_deletes else without_deletes(rows)
            return
        with closing(self.windows(batch_rows)) as found:
            for window in found:
                rows = self.merger.merge(window, self.columns)
                yield rows if self.gives_deletes else without_deletes(rows)

    @property
    def gives_deletes(self) -> bool:
        """Whether rows that take others away are given too: where the result says which do."""
        return any(field.name == VALUE_KIND for field in self.spec.fields)

    def filtered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The merged rows that match the filter."""
        if not self.gives_deletes:
            rows = without_deletes(rows)
        after = self.filter.after
        return rows if after is Const.TRUE else rows.filter(matches(after, rows))

    def result(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the result's columns."""
        schema = result_schema(self.spec)
        if not schema.names:
            return no_columns(rows.num_rows)
        columns = [rows.column(field.name) for field in self.spec.fields]
        if self.spec.metadata_columns:
            nowhere = np.zeros(rows.num_rows, np.int64)
            columns += [metadata_column(name, self.spec, self.files[0], nowhere) for name in self.spec.metadata_columns]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
