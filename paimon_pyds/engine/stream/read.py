"""Reading what a stream has planned: Arrow batches with row kinds, in the order of snapshots."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.engine.read.row_places import groups_of, read_group
from paimon_pyds.engine.read.small_files import MOST_TOGETHER, joined_files
from paimon_pyds.engine.stream.plans import PlannedChanges
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.format.threads import in_order
from paimon_pyds.keys.merge.key_values import INSERT, ROW_KINDS, ROWKIND, VALUE_KIND
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec, Split, sections
from paimon_pyds.storage import requests_at_once

_HELD_BYTES = 128 << 20
"""Rows that are read ahead of their consumer, to bound memory."""


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """How the rows of changes become rows of the result.

    Attributes:
        fields: the table's columns of the result, in order.
        kind_column: the name of the column of row kinds, which comes first; None for rows without kinds.
        drop: leave out rows of other kinds than +I, where there is no column of kinds; else they are refused.
    """

    fields: tuple[DataField, ...]
    kind_column: str | None = None
    drop: bool = False

    @property
    def result_fields(self) -> tuple[DataField, ...]:
        """The columns of the result."""
        if self.kind_column is None:
            return self.fields
        return (replace(ROWKIND, name=self.kind_column, type=ROWKIND.type.with_nullable(False)), *self.fields)

    @property
    def arrow_schema(self) -> pa.Schema:
        """Their schema."""
        return arrow_schema(self.result_fields)

    def of(
        self, batch: pa.RecordBatch, kind: int | None, numbers: npt.NDArray[np.int64]
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """The result's rows, and the number that each has.

        ``batch``: the columns that were read. ``kind``: of all rows; None where a column of them says it. ``numbers``:
        one for each row.
        """
        kinds = np.full(batch.num_rows, kind, np.int8) if kind is not None else _kinds_in(batch)
        if self.kind_column is None and (others := kinds != INSERT).any():
            if not self.drop:
                raise _refused(ROW_KINDS[int(kinds[others][0])])
            batch, numbers = batch.filter(from_numpy(~others)), numbers[~others]
        columns = [batch.column(field.name) for field in self.fields]
        if self.kind_column is not None:
            columns.insert(0, array(ROW_KINDS, pa.string()).take(from_numpy(kinds)))
        if not columns:
            return batch.select([]), numbers
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow_schema), numbers


def _kinds_in(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    kinds: npt.NDArray[np.int8] = to_numpy(batch.column(VALUE_KIND))
    if kinds.size and not 0 <= kinds.min() <= kinds.max() < len(ROW_KINDS):
        raise CorruptFileError("a row has an unknown row kind", field=VALUE_KIND)
    return kinds


def _refused(kind: str) -> UnsupportedError:
    return UnsupportedError(
        f"the stream has a row of kind {kind}, and its rows are read without their kinds",
        hint="give a column for them (rowkind_column, the option rowkind-column), or leave out all but +I "
        "(other_kinds='drop', the option other-row-kinds=drop)",
    )


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """Some changes, to be read by one reader, anywhere: it pickles.

    Attributes:
        split: the files.
        snapshots: the number of the snapshot of each file, or of all where there is one number only.
        kind: the row kind of all rows; None where the files say it.
        rows: what is made of them.
    """

    split: Split
    snapshots: tuple[int, ...]
    kind: int | None
    rows: ChangeRows

    def read(self, batch_rows: int = DEFAULT_BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows, with the schema ``rows.arrow_schema``."""
        for batch, _ in self.numbered(batch_rows):
            yield batch

    def numbered(self, batch_rows: int = DEFAULT_BATCH_ROWS) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
        """The same with the number of the snapshot of each row, ascending."""
        if len(self.snapshots) == 1:
            found = ((batch, np.zeros(batch.num_rows, np.int64)) for batch in read_split(self.split, batch_rows))
        else:
            found = _numbered(self.split.spec, self.split.files, batch_rows)
        yield from _results(found, self.snapshots, self.kind, self.rows)


def place_of(files: Iterable[PlannedFile]) -> Callable[[PlannedFile], tuple[object, ...]]:
    """Where files of a table with a primary key have the same keys, at most: in a bucket; in a partition, if rows are
    among them that wait for their bucket."""
    if any(file.bucket == POSTPONE_BUCKET for file in files):
        return lambda file: (file.partition,)
    return lambda file: file.bucket_id


def read_in_order(
    planned: PlannedChanges, rows: ChangeRows, batch_rows: int, threads: int
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
    """All rows of a plan with the number of the snapshot of each; several files are read at a time."""
    if len(planned.snapshots) == 1:
        pieces = chain.from_iterable(map(_pieces, planned.splits))
        sources: Iterator[_Numbered] = (_with_zeros(piece, batch_rows) for piece in pieces)
    else:
        sources = _groups(planned.spec, planned.files, batch_rows)
    found = in_order(sources, threads=threads, held=_HELD_BYTES, size=_bytes_of)
    yield from _results(found, planned.snapshots, planned.kind, rows)


def read_splits_in_order(
    planned: PlannedChanges, rows: ChangeRows, batch_rows: int, threads: int, skip: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The rows of the splits of a state after the first ``skip``, each batch with the number of its split."""
    left = enumerate(planned.splits[skip:], skip)
    sources = (_of_split(number, piece, batch_rows) for number, split in left for piece in _pieces(split))
    for batch, number in in_order(sources, threads=threads, held=_HELD_BYTES, size=lambda item: int(item[0].nbytes)):
        result, _ = rows.of(batch, planned.kind_of(number), np.zeros(batch.num_rows, np.int64))
        if result.num_rows:
            yield result, number


_Numbered = Generator[tuple[pa.RecordBatch, npt.NDArray[np.int64]], None, None]


def _pieces(split: Split) -> Iterator[Split]:
    """The split in parts that are read at the same time, in the order of its rows. Of a store it stays whole if files
    have indexes, as these are requested together."""
    spec = split.spec
    if requests_at_once(spec.io) and any(file.index_path for file in split.files):
        yield split
        return
    for group in joined_files(spec, sections(split.files), MOST_TOGETHER):
        yield Split.of(spec, group)


def _of_split(number: int, split: Split, batch_rows: int) -> Generator[tuple[pa.RecordBatch, int], None, None]:
    for batch in read_split(split, batch_rows):
        yield batch, number


def _with_zeros(split: Split, batch_rows: int) -> _Numbered:
    for batch in read_split(split, batch_rows):
        yield batch, np.zeros(batch.num_rows, np.int64)


def _groups(spec: ReadSpec, files: Sequence[PlannedFile], batch_rows: int) -> Iterator[_Numbered]:
    done = 0
    for group in groups_of(spec, files):
        yield _group(spec, group, done, batch_rows)
        done += len(group)


def _group(spec: ReadSpec, group: Sequence[PlannedFile], first: int, batch_rows: int) -> _Numbered:
    for batch, which in read_group(spec, group, batch_rows):
        yield batch, which.astype(np.int64) + first


def _numbered(spec: ReadSpec, files: Sequence[PlannedFile], batch_rows: int) -> _Numbered:
    for group in _groups(spec, files, batch_rows):
        yield from group


def _results(
    found: Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int64]]],
    snapshots: tuple[int, ...],
    kind: int | None,
    rows: ChangeRows,
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
    of_file = np.array(snapshots, np.int64)
    for batch, which in found:
        result, numbers = rows.of(batch, kind, of_file[which])
        if result.num_rows:
            yield result, numbers


def _bytes_of(item: tuple[pa.RecordBatch, npt.NDArray[np.int64]]) -> int:
    return int(item[0].nbytes)
