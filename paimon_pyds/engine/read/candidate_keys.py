"""Which rows of a section a filter on values can keep, before anything is merged; and the versions of these alone.

A version of a row says nothing of the merged row: a newer one may hide it. But where the merge engine takes values from
versions, a match of the filter has a version that meets a condition (`RowMerger.conditions_on_versions`). So the
indexes and the pages of each file name the rows that may meet it: candidates. Every version of their keys is read, from
all files, and nothing else; these are merged, and the filter decides as if everything had been.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, one_batch
from paimon_pyds.base.row import decode_column
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.engine.read.file import FileReading, read_file, timed
from paimon_pyds.engine.read.live_rows import FileTrace, LiveRows, SectionTrace, deleted_rows
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import FoundRows
from paimon_pyds.keys.merge.key_set import KeySet
from paimon_pyds.metadata.manifest_reader import unpadded
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec, result_schema
from paimon_pyds.sql.predicate.tree import Const, Predicate, make_and, root_columns

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FormatReader

_BLOCK_ROWS = 1 << 12
"""Rows of a block: if it has a candidate, its pages are read, and the pages with its keys in other files."""
SEARCH_COST = 0.8
CANDIDATE_COST = 3.5
"""What this way costs where all of a section is merged at the cost of 1: to look for keys in every block of rows, and
to read and merge the rows when each is a candidate. With 5 million rows in 4 runs, and pages of 6,144 rows, it took 0.5
times as long as merging everything for 1,000 scattered rows, 0.7 times for 16,000, 0.8 times for 64,000, 1.1 times for
250,000; and 0.6 times for neighbouring rows that are 15 % of all."""
SEARCH_START_ROWS = 8_000
"""Rows that are merged in the time that it takes to begin a search in a file."""
_MOST_CANDIDATES = 1 << 20
FEW_ROWS_PER_KEY = 4
"""Rows for each key up to which they are read without a search, if indexes leave no more."""
MAX_BUCKETS = 128
_MOST_KEY_BYTES = 64 << 20
"""Bytes of the candidates' keys, which stay in memory."""


@dataclass(frozen=True)
class KeySearch:
    """A search for the keys of which a version meets a condition, in the files of one section.

    Attributes:
        spec: how the files are read where everything is merged; its filter is on keys.
        fields: the table's columns.
        keys: names of the key columns.
    """

    spec: ReadSpec
    fields: Sequence[DataField]
    keys: Sequence[str]

    def wanted(
        self,
        conditions: Sequence[Predicate],
        files: Sequence[PlannedFile],
        traces: Sequence[FileTrace],
        note: SectionTrace,
    ) -> KeySet | None:
        """The keys of which a version meets one of the conditions; None where merging everything costs no more.

        ``conditions``: each has to be met by one version, at least, of a key that is wanted. ``note``: where to say
        what was found, or why nothing was.

        Raises:
            CorruptFileError: a file, its index or its deletion vector is damaged.
            SnapshotNotFoundError: a file is gone.
            StorageError: a file can't be read.
        """
        with files[0].must_exist():
            found = self.candidates(conditions, files, traces, note)
            if found is None:
                return None
            keys = found.keys()
        if keys is None:
            note.reason = "the keys of the rows that may make the filter true take too much memory"
        else:
            note.candidate_keys = len(keys)
        return keys

    def candidates(
        self,
        conditions: Sequence[Predicate],
        files: Sequence[PlannedFile],
        traces: Sequence[FileTrace],
        note: SectionTrace,
    ) -> Candidates | None:
        """The candidates of the condition for which the least is read; None where merging everything costs no more.

        Args and errors are those of `wanted`; a file that is gone raises FileNotFoundError.
        """
        best: Candidates | None = None
        for condition in conditions:
            found = self._candidates(condition, files, traces)
            if found is not None and (best is None or found.elsewhere > best.elsewhere):
                best = found
        if best is None:
            note.reason = "too many rows may make the filter true"
        else:
            note.candidates = best.count
        return best

    def _candidates(
        self, condition: Predicate, files: Sequence[PlannedFile], traces: Sequence[FileTrace]
    ) -> Candidates | None:
        predicate = make_and(self.spec.predicate, condition)
        by_name = {field.name: field for field in self.fields}
        columns = set(root_columns(predicate))
        filtered = tuple(field for field in self.fields if field.name in columns)
        keys = tuple(by_name[name] for name in self.keys)
        spec = replace(self.spec, fields=keys, filter_fields=filtered, predicate=predicate)
        found, total = Candidates(spec, []), sum(file.row_count for file in files)
        for number in sorted(range(len(files)), key=lambda number: -files[number].row_count):  # soonest too many
            live = LiveRows(spec, files[number]._replace(run=None), traces[number])
            rows = _may_meet(live)
            found.files.append((live, rows))
            found.count += rows.count(live.file.row_count)
            found.elsewhere *= 1 - _share_of_blocks(rows, live.file)
            if found.cost(total) > 1 or found.count > _MOST_CANDIDATES:
                return None
        return found


def _share_of_blocks(rows: RowSelection, file: PlannedFile) -> float:
    """The share of a file's blocks that have some of these rows."""
    if rows.is_all or not file.row_count:
        return 1.0
    blocks = -(-file.row_count // _BLOCK_ROWS)
    return len(np.unique(rows.to_array(file.row_count) // _BLOCK_ROWS)) / blocks


def _may_meet(live: LiveRows) -> RowSelection:
    """The live rows of a file that may meet a condition, by its indexes and its own statistics."""
    rows = live.candidates
    live.close()
    if rows.is_none or live.is_exact:
        return rows
    with open_data_file(live.spec, live.file, live.trace.counters) as reader:
        return FileReading(live, reader).selection


@dataclass
class Candidates:
    """The rows that may meet a condition.

    Attributes:
        spec: reads their keys, with the condition as filter.
        files: each with its candidates.
        count: how many candidates there are.
        elsewhere: the share of all keys that are near no candidate, as files are sorted by keys.
    """

    spec: ReadSpec
    files: list[tuple[LiveRows, RowSelection]]
    count: int = 0
    elsewhere: float = 1.0

    def cost(self, rows: int) -> float:
        """The cost of merging the versions of their keys, in a section of ``rows`` rows; merging everything costs 1."""
        more = CANDIDATE_COST * self.count + SEARCH_START_ROWS * len(self.files)
        return SEARCH_COST * (1 - self.elsewhere) + more / max(1, rows)

    def keys(self) -> KeySet | None:
        """The keys of rows that meet the condition; None where they take too much memory, or one is NULL."""
        batches: list[pa.RecordBatch] = []
        size = 0
        for live, rows in self.files:
            if rows.is_none:
                continue
            spec = replace(self.spec, predicate=Const.TRUE, filter_fields=()) if live.is_exact else self.spec
            trace = FileTrace(live.file.path, live.file.row_count, counters=live.trace.counters)
            for batch in read_file(spec, live.file.selecting(rows), trace=trace):
                batches.append(batch)
                size += batch.nbytes
                if size > _MOST_KEY_BYTES or any(column.null_count for column in batch.columns):
                    return None
            live.trace.millis += trace.millis
        return KeySet.of(self.spec.fields, one_batch(pa.Table.from_batches(batches, result_schema(self.spec))))


def changed_keys(spec: ReadSpec, schema: TableSchema, files: Sequence[PlannedFile]) -> KeySet | None:
    """The keys of rows that may differ between two states; None where it costs no more to merge everything.

    They are in the files that one of the states has, and where the deletion vectors of a file differ.

    ``spec``: how the files of the section are read where everything is merged. ``files``: of the section, once for each
    state that has them.

    Raises:
        CorruptFileError: a file or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: a file can't be read.
        UnsupportedError: the section has very many buckets, of which files would be open at the same time.
    """
    buckets = len({file.bucket_id for file in files})
    if buckets > MAX_BUCKETS:
        raise UnsupportedError(
            f"rows of a key may be in any of {buckets} buckets: too many to compare at once",
            hint="compare scans of the two states, or read incremental-between-scan-mode=delta",
        )
    keys = tuple(map(schema.field, schema.trimmed_primary_keys))
    found = Candidates(replace(spec, fields=keys, filter_fields=(), predicate=Const.TRUE), [])
    states: dict[str, list[PlannedFile]] = {}
    for file in files:
        states.setdefault(file.path, []).append(file)
    total = sum(file.row_count for file in files)
    with files[0].must_exist():
        for file, *others in states.values():
            rows = _differing(spec, file, others[0]) if others else RowSelection.ALL
            found.files.append((LiveRows(found.spec, file._replace(run=None)), rows))
            found.count += rows.count(file.row_count)
            found.elsewhere *= 1 - _share_of_blocks(rows, file)
            if found.cost(total) > 1 or found.count > _MOST_CANDIDATES:
                return None
        return found.keys()


def _differing(spec: ReadSpec, file: PlannedFile, other: PlannedFile) -> RowSelection:
    """The rows of a file that are not the same in two states which have it."""
    assert file.run is not None
    assert other.run is not None
    if file.run.level != other.run.level:  # other versions may count
        return RowSelection.ALL
    if file.deletion == other.deletion:
        return RowSelection.NONE
    one, two = (deleted_rows(spec.io, f.deletion, f.row_count) for f in (file, other))
    return RowSelection(one ^ two)


def read_wanted(
    spec: ReadSpec, keys: KeySet, file: PlannedFile, trace: FileTrace, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of one file that have one of some keys, with the columns of ``spec``.

    ``spec``: the columns to read; its filter is not evaluated. ``file``: of a section. ``trace``: counts what is read;
    ``rows_returned`` are these rows.

    Raises:
        CorruptFileError: the file or its deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
        StorageError: the file can't be read.
    """
    within = _within(spec, keys, file)
    if not len(within):
        return
    with file.must_exist():
        yield from timed(_having(spec, within, file._replace(run=None), trace, batch_rows), trace)


def _within(spec: ReadSpec, keys: KeySet, file: PlannedFile) -> KeySet:
    """The keys in the range of a file's keys, by the first column; all keys if the file's had other types, or don't
    sort it."""
    assert file.run is not None
    if file.run.key_range is None:
        return keys
    held = {field.id: field.type.with_nullable(True) for field in spec.schemas[file.schema_id]}
    if any(held.get(field.id) != field.type.with_nullable(True) for field in keys.fields):
        return keys
    ends = decode_column(array(file.run.key_range, pa.binary()), [f.type for f in keys.fields], 0, arity=True)
    if ends.unknown is not None:
        return keys
    least, greatest = ends.values[:1], ends.values[1:]
    return keys.between(unpadded(least) if keys.fields[0].type.kind is Kind.CHAR else least, greatest)


def _having(
    spec: ReadSpec, keys: KeySet, file: PlannedFile, trace: FileTrace, batch_rows: int
) -> Generator[pa.RecordBatch, None, None]:
    by_pages = replace(spec, predicate=keys.listed_for(file.row_count), filter_fields=keys.fields)
    apart = FileTrace(file.path, file.row_count, counters=trace.counters)
    live = LiveRows(by_pages, file, apart)
    candidates = live.candidates
    live.close()
    if candidates.is_none:
        return
    with open_data_file(spec, file, trace.counters) as reader:
        found = None
        if len(keys.fields) == 1 and candidates.count(file.row_count) > FEW_ROWS_PER_KEY * len(keys):
            column = live.filtering.unchanged(keys.fields[0].name)
            found = None if column is None else reader.find(column, keys.columns[0])
        if found is None:
            batches = _by_condition(live, reader, keys, batch_rows)
        else:
            batches = _at(live, reader, keys, found, batch_rows)
        for batch in batches:
            trace.rows_returned += batch.num_rows
            yield batch


def _by_condition(live: LiveRows, reader: FormatReader, keys: KeySet, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a file that have one of the keys; the condition is evaluated on each row of pages that may have
    some."""
    rows, file = FileReading(live, reader).selection, live.file
    if 2 * rows.count(file.row_count) > file.row_count:
        rows = live.candidates  # most pages are read: selecting positions would cost more
    exactly = replace(live.spec, predicate=keys.condition)
    return FileReading(LiveRows(exactly, file.selecting(rows), live.trace), reader).batches(batch_rows)


def _at(
    live: LiveRows, reader: FormatReader, keys: KeySet, found: FoundRows, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """The live rows of a file among those in which keys of one column were found: that column is not read again."""
    spec, file = live.spec, live.file
    rows = RowSelection.of(found.positions.astype(np.uint32)) & live.candidates
    kept = np.isin(found.positions, rows.to_array(file.row_count))
    (name,), (values,) = (field.name for field in keys.fields), keys.columns
    values = values.take(from_numpy(found.numbers[kept]))
    others = tuple(field for field in spec.fields if field.name != name)
    plain = replace(spec, fields=others, predicate=Const.TRUE, filter_fields=())
    schema, done = result_schema(spec), 0
    for batch in FileReading(LiveRows(plain, file.selecting(rows)), reader).batches(batch_rows):
        own = values.slice(done, batch.num_rows)
        done += batch.num_rows
        columns = [own if field.name == name else batch.column(field.name) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
