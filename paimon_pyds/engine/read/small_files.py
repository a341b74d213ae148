"""Reading many small files: each is decoded whole; their rows are joined, mapped to the table's columns and filtered
together, so that a file costs its decoding and little else.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import array, from_numpy, is_true, scalar
from paimon_pyds.base.progress import worked
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.read.file import read_file
from paimon_pyds.engine.read.live_rows import FileTrace, live_rows, planned_rows, vector_bytes
from paimon_pyds.format.batches import no_columns
from paimon_pyds.metadata.evolution.file_columns import Evolution, plan_evolution
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.split import PlannedFile, ReadSpec
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage import requests_at_once
from paimon_pyds.storage.concurrent import concurrent_map

MOST_ROWS = 4_096
"""Rows of a small file: more are worth the format's own reader, which prunes."""
_MOST_TOGETHER = 256
"""Files that are read by one thread, one after the other."""
_GROWTH = 4
"""The first file is read alone, so that the first rows come soon; then this many times as many as the time before."""
_MOST_BYTES = 4 << 20
"""Decoded bytes, and bytes of files in stores, that are joined."""


def joined_files(spec: ReadSpec, sections: Iterable[Sequence[PlannedFile]]) -> Iterator[Sequence[PlannedFile]]:
    """The sections, those that follow one another and are small files of one kind together."""
    together: list[PlannedFile] = []
    kind: Any = None
    most = 1
    for section in sections:
        found = _kind(spec, section[0]) if len(section) == 1 else None
        size = together[0].size if together else 0
        if together and (found is None or found != kind or len(together) * size >= _MOST_BYTES):
            yield together
            together = []
        if found is None:
            yield section
            continue
        kind = found
        together.append(section[0])
        if len(together) >= most:
            yield together
            together = []
            most = min(most * _GROWTH, _MOST_TOGETHER)
    if together:
        yield together


def _kind(spec: ReadSpec, file: PlannedFile) -> tuple[object, ...] | None:
    """What small files must have in common to be joined; None for files that are read alone."""
    if file.row_count > MOST_ROWS or spec.metadata_columns or spec.sequence_gaps is not None or file.merged:
        return None
    indexed = file.index_path is not None or file.embedded_index is not None
    if indexed and spec.use_index and spec.predicate is not Const.TRUE:
        return None
    suffix = file.path.rpartition(".")[2]
    if file.size > formats.traits_of(suffix).small_file:
        return None
    return file.schema_id, file.write_cols, suffix


class _Joined:
    """The columns of files that are joined: those of the filter and of the result are read at once."""

    def __init__(self, spec: ReadSpec, files: Sequence[PlannedFile]) -> None:
        self.spec = spec
        first = files[0]
        known = dict.fromkeys((f.name for f in spec.partition_fields), scalar(None))
        trims = formats.traits_of(first.path).trims_char
        of_file = spec.schemas[first.schema_id]

        def evolution(fields: Sequence[DataField]) -> Evolution:
            return plan_evolution(of_file, fields, first.write_cols, trims_char=trims, partition=known, zone=spec.zone)

        self.filtering, self.output = evolution(spec.filter_fields), evolution(spec.fields)
        self.fields = (*self.filtering.file_fields, *self.output.fields_not_in(self.filtering))
        self.decoder = formats.by_path(first.path).small_files(self.fields)

    def rows(
        self, files: Sequence[PlannedFile], tables: Sequence[pa.Table], traces: Sequence[FileTrace]
    ) -> pa.RecordBatch:
        """The surviving rows of some files, of which ``tables`` are the decoded columns of live rows."""
        counts = np.array([trace.rows_after_pages for trace in traces])
        read = self.decoder.joined(tables, files[0].path) if self.fields else no_columns(int(counts.sum()))
        partition = self._partitions(files, counts)
        if self.spec.predicate is not Const.TRUE:
            mask = matches(self.spec.predicate, _mapped(self.filtering, read, partition))
            kept = is_true(mask)
            counts = np.add.reduceat(kept, np.cumsum(counts) - counts, dtype=np.int64)
            read, positions = read.filter(mask), from_numpy(np.flatnonzero(kept))
            partition = {name: values.take(positions) for name, values in partition.items()}
        for trace, count in zip(traces, counts.tolist(), strict=True):
            trace.rows_returned = count
        return _mapped(self.output, read, partition)

    def _partitions(self, files: Sequence[PlannedFile], counts: np.ndarray[Any, Any]) -> dict[str, pa.Array]:
        """The values of partition columns for each row."""
        fields = self.spec.partition_fields
        if not fields:
            return {}
        values = partition_values(fields, array([file.partition for file in files], pa.binary()))
        rows = values.take(from_numpy(np.repeat(np.arange(len(files)), counts)))
        return dict(zip(values.schema.names, rows.columns, strict=True))


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
    joined = _Joined(spec, files)
    ready: list[tuple[PlannedFile, pa.Table, FileTrace]] = []
    held = 0

    def flushed() -> Iterator[pa.RecordBatch]:
        if ready:
            batch = joined.rows(*zip(*ready, strict=True))
            ready.clear()
            yield from (batch.slice(at, batch_rows) for at in range(0, batch.num_rows, batch_rows))

    for file, trace, (data, live) in zip(files, traces, _whole_files(spec, files), strict=True):
        start = time.perf_counter()
        table = joined.decoder.decode(data, file.row_count, file.path)
        trace.millis += (time.perf_counter() - start) * 1000
        if table is None:
            yield from flushed()
            held = 0
            yield from read_file(spec, file, batch_rows=batch_rows, trace=trace)
            continue
        _note(trace, file, live)
        worked(file.path, reading=True)
        if live.is_none:
            continue
        if live.positions is not None:
            table = table.take(from_numpy(live.to_array(file.row_count)))
        ready.append((file, table, trace))
        held += table.get_total_buffer_size()
        if held >= _MOST_BYTES:
            yield from flushed()
            held = 0
    yield from flushed()


def _whole_files(spec: ReadSpec, files: Sequence[PlannedFile]) -> Iterator[tuple[bytes, RowSelection]]:
    """The bytes of each file and its live rows: from a store several are requested at a time."""

    def whole(file: PlannedFile) -> tuple[bytes, RowSelection]:
        with file.must_exist():
            data = spec.io.read_range(file.path, 0, file.size)
        return data, live_rows(spec.io, file, planned_rows(file))

    return concurrent_map(whole, files, requests_at_once(spec.io))


def _note(trace: FileTrace, file: PlannedFile, live: RowSelection) -> None:
    trace.rows_after_index = planned_rows(file).count(file.row_count)
    trace.rows_after_deletions = trace.rows_after_pages = live.count(file.row_count)
    counters = trace.counters
    counters.requests += 1
    counters.bytes_read += file.size + vector_bytes(file)
    counters.rows_decoded += file.row_count
    counters.row_groups_read += 1
