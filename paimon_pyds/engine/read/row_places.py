"""Reading rows and their places, for operations that change them. Small files are read together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s, from_numpy, to_numpy
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.small_files import MOST_TOGETHER, joined_files, read_numbered
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec

_ROW_BITS = 32
"""Positions in a file are below 2^32, as a bitmap of them is."""


def groups_of(spec: ReadSpec, files: Iterable[PlannedFile]) -> Iterator[Sequence[PlannedFile]]:
    """The files, in their order: those that are small together, each of the others alone."""
    return joined_files(spec, ([file] for file in files), MOST_TOGETHER)


def read_files(spec: ReadSpec, files: Iterable[PlannedFile]) -> Iterator[pa.RecordBatch]:
    """Surviving rows of files, in their order. Arguments and errors as `read_file`."""
    for group in groups_of(spec, files):
        for batch, _ in read_group(spec, group):
            yield batch


def read_places(
    spec: ReadSpec, files: Iterable[PlannedFile], numbers: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Surviving rows of files, in their order. The last column has places: each is the number of a file and of a row.

    ``spec``: its last metadata column is the row index, which places are made of. ``numbers``: of the files, ascending;
    they are counted when not given. Errors as `read_file`.
    """
    done = 0
    for group in groups_of(spec, files):
        own = range(done, done + len(group)) if numbers is None else numbers[done : done + len(group)]
        done += len(group)
        for batch, which in read_group(spec, group):
            last = batch.num_columns - 1
            places = places_of(batch) + (np.array(own, np.int64)[which] << _ROW_BITS)
            yield batch.set_column(last, batch.schema.field(last), from_numpy(places))


def places_of(batch: pa.RecordBatch) -> Int64s:
    """The last column of rows that `read_places` gives."""
    return to_numpy(batch.column(batch.num_columns - 1)).astype(np.int64)


def rows_of_files(places: Int64s, count: int) -> list[BitMap]:
    """The rows at some places of each of ``count`` files. ``places``: ascending."""
    bounds = np.searchsorted(places, np.arange(count + 1) << _ROW_BITS).tolist()
    rows = places & ((1 << _ROW_BITS) - 1)
    return [bitmap_of(rows[start:end]) for start, end in pairwise(bounds)]


def places_in_files(rows: Sequence[BitMap]) -> Int64s:
    """The places of rows of several files, ascending: what `rows_of_files` takes apart."""
    parts = [
        np.frombuffer(own.to_array(), np.uint32).astype(np.int64) + (number << _ROW_BITS)
        for number, own in enumerate(rows)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def read_group(
    spec: ReadSpec, group: Sequence[PlannedFile], batch_rows: int = DEFAULT_BATCH_ROWS
) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    """Surviving rows of a group of `groups_of`, with the number of the file of each row, counted from 0."""
    traces = [FileTrace(file.path, file.row_count) for file in group]
    return read_numbered(spec, group, traces, batch_rows)
