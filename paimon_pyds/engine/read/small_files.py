"""Reading many small files: each is decoded whole; their rows are joined, mapped to the table's columns and filtered
together, so that a file costs its decoding and little else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import Int64s, array, empty_table, from_numpy, is_true, no_columns, one_batch, pc, scalar
from paimon_pyds.base.progress import worked
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.engine.read.file import ROW_INDEX, read_file
from paimon_pyds.engine.read.live_rows import FileTrace, LiveRows, live_rows, planned_rows, vector_bytes
from paimon_pyds.format.batches import groups_of_size
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER
from paimon_pyds.metadata.evolution.file_columns import Evolution, plan_evolution
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, result_schema
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import requests_at_once
from paimon_pyds.storage.concurrent import concurrent_map

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import FileRows

MOST_ROWS = 4_096
"""Rows of a small file: more are worth the format's own reader, which prunes."""
MOST_TOGETHER = 256
"""Files that are read by one thread, one after the other."""
_MOST_RUNS = 64
"""Files of a small section."""
_GROWTH = 4
"""The first file is read alone, so that the first rows come soon; then this many times as many as the time before."""
MOST_BYTES = 4 << 20
"""Decoded bytes, and bytes of files in stores, that are joined."""


def joined_files(
    spec: ReadSpec, sections: Iterable[Sequence[PlannedFile]], most: int = 1
) -> Iterator[Sequence[PlannedFile]]:
    """The sections; small sections of one kind that follow one another are joined: ``most`` at first, then more."""
    together: list[PlannedFile] = []
    kind: Any = None
    size = count = 0
    for section in sections:
        found = small_kind(spec, section)
        if together and (found is None or found != kind or size >= MOST_BYTES):
            yield together
            together, size, count = [], 0, 0
        if found is None:
            yield section
            continue
        kind = found
        together += section
        size += sum(file.size for file in section)
        count += 1
        if count >= most:
            yield together
            together, size, count = [], 0, 0
            most = min(most * _GROWTH, MOST_TOGETHER)
    if together:
        yield together


def is_small(spec: ReadSpec, section: Sequence[PlannedFile]) -> bool:
    """Whether `joined_files` may join a section with others."""
    return small_kind(spec, section) is not None


def small_kind(spec: ReadSpec, section: Sequence[PlannedFile]) -> tuple[object, ...] | None:
    """What small sections must have in common to be joined; None for those that are read alone."""
    if spec.metadata_columns not in ((), (ROW_INDEX,)) or spec.sequence_gaps is not None or len(section) > _MOST_RUNS:
        return None
    merging, first = spec.merging, section[0]
    if first.parts:
        return None
    if first.merged:
        assert merging is not None
        from paimon_pyds.keys.merge.files_to_merge import is_clustered

        if spec.metadata_columns or is_clustered(merging.schema):
            return None
        searched = spec.use_index and merging.filter.after is not Const.TRUE
        if merging.gives != "rows" or (searched and any(file.has_index for file in section)):
            return None
    if requests_at_once(spec.io) and spec.use_index and any(file.index_path for file in section):
        return None  # of a store all such indexes are requested before the first file
    suffix = first.path.rpartition(".")[2]
    kind = first.merged, first.schema_id, first.write_cols, suffix, first.ordered_by is None
    small = formats.traits_of(first.path).small_file
    for file in section:
        if file.row_count > MOST_ROWS or file.size > small:
            return None
        if file.parts or (file.schema_id, file.write_cols) != kind[1:3] or not file.path.endswith(suffix):
            return None
        if (file.ordered_by is None) != kind[4]:
            return None
    return kind


class DecodedFile(NamedTuple):
    """A file, its wanted columns with its ``live`` rows; None for them where the decoder can't read it."""

    file: PlannedFile
    trace: FileTrace
    table: FileRows | None
    live: RowSelection


class JoinedFiles:
    """The columns of files that are joined: those of the filter and of the result are read at once."""

    def __init__(self, spec: ReadSpec, files: Sequence[PlannedFile]) -> None:
        self.spec = spec
        first = files[0]
        known = dict.fromkeys((f.name for f in spec.partition_fields), scalar(None))
        if first.ordered_by is not None:
            known[SEQUENCE_NUMBER] = scalar(None)
        trims = formats.traits_of(first.path).trims_char
        of_file = spec.schemas[first.schema_id]

        def evolution(fields: Sequence[DataField]) -> Evolution:
            return plan_evolution(of_file, fields, first.write_cols, trims_char=trims, partition=known, zone=spec.zone)

        self.filtering, self.output = evolution(spec.filter_fields), evolution(spec.fields)
        self.fields = (*self.filtering.file_fields, *self.output.fields_not_in(self.filtering))
        self.decoder = formats.by_path(first.path).small_files(self.fields)
        self.empty = empty_table(arrow_schema(self.fields))

    def decoded(self, files: Sequence[PlannedFile], traces: Sequence[FileTrace]) -> Iterator[DecodedFile]:
        """The decoded columns of each file's live rows, whose number its trace has. From a store several files are
        requested at a time."""
        io = self.spec.io

        def whole(place: tuple[PlannedFile, FileTrace]) -> tuple[PlannedFile, FileTrace, bytes, RowSelection]:
            file, trace = place
            live = self._live_rows(file, trace)
            if live.is_none:
                return file, trace, b"", live
            with file.must_exist():
                return file, trace, io.read_range(file.path, 0, file.size), live

        read = concurrent_map(whole, zip(files, traces, strict=True), requests_at_once(io))
        for some in groups_of_size(read, lambda each: len(each[2]), MOST_BYTES):
            yield from self._decoded(some)

    def _decoded(self, some: Sequence[tuple[PlannedFile, FileTrace, bytes, RowSelection]]) -> Iterator[DecodedFile]:
        """Files and their bytes, if any row is wanted, after they were decoded."""
        wanted, start = [(file, data) for file, _, data, _ in some if data], time.perf_counter()
        found = iter(
            self.decoder.decode_all(
                [data for _, data in wanted], [file.row_count for file, _ in wanted], [file.path for file, _ in wanted]
            )
        )
        millis = (time.perf_counter() - start) * 1000 / max(1, len(wanted))
        for file, trace, data, live in some:
            table: FileRows | None = next(found) if data else self.empty
            trace.millis += millis if data else 0
            if table is not None:
                _note(trace, file, live, len(data))
                worked(file.path, reading=True)
                if data and live.positions is not None:
                    table = table.take(from_numpy(live.to_array(file.row_count)))
            yield DecodedFile(file, trace, table, live)

    def _live_rows(self, file: PlannedFile, trace: FileTrace) -> RowSelection:
        spec = self.spec
        if not (file.has_index and spec.use_index and spec.predicate is not Const.TRUE):
            return live_rows(spec.io, file, planned_rows(file))
        live = LiveRows(spec, file, trace)
        try:
            with file.must_exist():
                return live.candidates
        finally:
            live.close()

    def rows(self, decoded: Sequence[DecodedFile]) -> pa.RecordBatch:
        """The surviving rows of some files, all of which the decoder could read; traces have how many of each."""
        files, traces = [each.file for each in decoded], [each.trace for each in decoded]
        tables = [each.table for each in decoded if each.table is not None and each.table.num_rows]
        counts = np.array([trace.rows_after_pages for trace in traces])
        read = self.decoder.joined(tables, files[0].path) if tables else one_batch(self.empty)
        read = read if self.fields else no_columns(int(counts.sum()))
        partition = self._known(files, counts)
        places = self._row_indexes(decoded)
        if self.spec.predicate is not Const.TRUE:
            mask = matches(self.spec.predicate, _mapped(self.filtering, read, partition))
            kept, ends = is_true(mask), np.cumsum(counts)
            before = np.append(0, np.cumsum(kept, dtype=np.int64))
            counts = before[ends] - before[ends - counts]
            read, positions = pc.filter(read, mask), from_numpy(np.flatnonzero(kept))
            partition = {name: pc.take(values, positions) for name, values in partition.items()}
            places = places[kept] if self.spec.metadata_columns else places
        for trace, count in zip(traces, counts.tolist(), strict=True):
            trace.rows_returned = count
        found = _mapped(self.output, read, partition)
        if not self.spec.metadata_columns:
            return found
        return pa.RecordBatch.from_arrays([*found.columns, from_numpy(places)], schema=result_schema(self.spec))

    def _row_indexes(self, decoded: Sequence[DecodedFile]) -> Int64s:
        """The place of each row in its file; empty where that is no column of the result."""
        if not self.spec.metadata_columns:
            return np.empty(0, np.int64)
        return np.concatenate([each.live.to_array(each.file.row_count) for each in decoded])

    def _known(self, files: Sequence[PlannedFile], counts: np.ndarray[Any, Any]) -> dict[str, pa.Array]:
        """The values of partition columns for each row, and of sequence numbers that snapshots stand for."""
        fields, found = self.spec.partition_fields, dict[str, pa.Array]()
        if fields:
            values = partition_values(fields, array([file.partition for file in files], pa.binary()))
            rows = pc.take(values, from_numpy(np.repeat(np.arange(len(files)), counts)))
            found = dict(zip(values.schema.names, rows.columns, strict=True))
        if files and files[0].ordered_by is not None:
            numbers = np.array([file.ordered_by for file in files], np.int64)
            found[SEQUENCE_NUMBER] = from_numpy(np.repeat(numbers, counts))
        return found


def _mapped(evolution: Evolution, batch: pa.RecordBatch, partition: dict[str, pa.Array]) -> pa.RecordBatch:
    fields = evolution.file_fields
    picked = batch.select([f.name for f in fields]) if fields else no_columns(batch.num_rows)
    return evolution.apply(picked, partition)


def read_small_files(
    spec: ReadSpec, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of files that `joined_files` put together, in their order. Errors as `read_file`.

    A file that the decoder can't answer for is read by itself, which raises what is to be said of it.
    """
    for batch, _ in read_numbered(spec, files, traces, batch_rows):
        yield batch


def read_numbered(
    spec: ReadSpec, files: Sequence[PlannedFile], traces: Sequence[FileTrace], batch_rows: int
) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    """As `read_small_files`, with the number of the file of each row, counted from 0. A file may also be alone, then it
    may be of any kind."""
    joined = JoinedFiles(spec, files) if len(files) > 1 else None
    ready: list[tuple[int, DecodedFile]] = []
    held = 0

    def flushed() -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        if ready:
            assert joined is not None
            batch = joined.rows([each for _, each in ready])
            numbers = np.repeat([number for number, _ in ready], [each.trace.rows_returned for _, each in ready])
            ready.clear()
            for at in range(0, batch.num_rows, batch_rows):
                yield batch.slice(at, batch_rows), numbers[at : at + batch_rows]

    def alone(number: int) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        for batch in read_file(spec, files[number], batch_rows=batch_rows, trace=traces[number]):
            yield batch, np.full(batch.num_rows, number)

    if joined is None:
        yield from alone(0)
        return
    for number, each in enumerate(joined.decoded(files, traces)):
        if each.table is None:
            yield from flushed()
            held = 0
            yield from alone(number)
            continue
        if not each.trace.rows_after_pages:
            continue
        ready.append((number, each))
        held += each.table.get_total_buffer_size()
        if held >= MOST_BYTES:
            yield from flushed()
            held = 0
    yield from flushed()


def _note(trace: FileTrace, file: PlannedFile, live: RowSelection, size: int) -> None:
    if trace.rows_after_index is None:
        trace.rows_after_index = planned_rows(file).count(file.row_count)
    trace.rows_after_deletions = trace.rows_after_pages = live.count(file.row_count)
    counters = trace.counters
    if not size:
        return
    counters.requests += 1
    counters.bytes_read += size + vector_bytes(file)
    counters.rows_decoded += file.row_count
    counters.row_groups_read += 1
