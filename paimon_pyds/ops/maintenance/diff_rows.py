"""The rows that two states of a table differ by, in bounded memory. Files that both have as they are stay unread.

Without a primary key the rows of files that one state alone has are compared as multisets: those of both states are
sorted by a hash of all their values, on the local disk where they are many, and rows that both have cancel out; the
others are sorted by their places again. Where only one of the states has such files in a partition, nothing can cancel
out, and nothing is sorted. Rows that are gone come first, then those that came, each in the order in which a scan of
their state gives them. With a primary key rows are compared by key: see `scan.travel.Difference`, with ``exact``.
Values are equal as in Java: NaN equals NaN, -0.0 is not 0.0, the entries of a map have no order.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.sort.spill import spill_codec
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.query import blob_views
from paimon_pyds.engine.read import read_splits
from paimon_pyds.engine.read.live_rows import deleted_rows
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import Difference, TableState
from paimon_pyds.keys.merge.equal_values import equality_codes, pair_codes, row_hashes
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, KEY_VALUE_FIELDS, VALUE_KIND
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.concurrent import concurrent_map

_KIND = KEY_VALUE_FIELDS[1]
_HASH, _COUNT = "__paimon_hash", "__paimon_count"
_FIRST, _LAST = "__paimon_first", "__paimon_last"
"""Positions of equal rows, counted through the compared files: first those of the older state, then the newer one's."""
_OWN = (_FIRST, _LAST, _COUNT)
_BIGINT = AtomicType(Kind.BIGINT, nullable=False)
BATCH_ROWS = 65_536
_MOST_FILES = 32
"""Deletion vectors that are read at a time."""


@dataclass(frozen=True)
class States:
    """Two states of a table, and the columns that their rows are compared by."""

    store: TableStore
    before: Snapshot | None
    after: Snapshot
    schema: TableSchema
    options: TableOptions

    def changes(self) -> Iterator[pa.RecordBatch]:
        """The columns, and `VALUE_KIND`, of the rows that make the newer state of the older one."""
        if not self.schema.primary_keys:
            yield from _rows_without_key(self)
            return
        spec, files = self.plan(self.before, self.after, (*self.schema.fields, _KIND))
        yield from read_splits(spec, files, BATCH_ROWS, threads=os.cpu_count() or 1)

    def counts(self) -> tuple[int, int, int]:
        """How many rows were inserted, deleted and updated."""
        found = np.zeros(4, np.int64)
        if self.schema.primary_keys:
            for batch in self.changes():
                found += np.bincount(to_numpy(batch.column(VALUE_KIND)), minlength=4)
            return int(found[0]), int(found[3]), int(found[1])
        parts = _Parts.of(self)
        for part, kind, _ in parts.by_kind:
            found[kind] += part.count_alone()
        for rows in parts.netted(self):
            counts = to_numpy(rows.column(_COUNT))
            found[INSERT] += counts[counts > 0].sum()
            found[DELETE] -= counts[counts < 0].sum()
        return int(found[INSERT]), int(found[DELETE]), 0

    def plan(
        self, start: Snapshot | None, end: Snapshot, fields: tuple[DataField, ...]
    ) -> tuple[ReadSpec, tuple[PlannedFile, ...]]:
        """How to read what one of the states has and the other has not."""
        request = ScanRequest(
            state=TableState(end, self.schema),
            predicate=Const.TRUE,
            fields=fields,
            options=self.options,
            between=Difference(start, end, exact=True),
            zone=default_zone(),
            find_views=blob_views.places,
        )
        found = plan_scan(self.store, request)
        return found.spec, found.files


@dataclass(frozen=True)
class _Part:
    """Files of one state to read, those of partitions where the other state has some, too (``shared``), and others."""

    spec: ReadSpec
    files: Sequence[PlannedFile]
    shared: frozenset[bytes]

    def runs(self) -> Iterator[tuple[bool, list[PlannedFile]]]:
        """The files in their order, and whether they are compared with those of the other state."""
        for compared, files in itertools.groupby(self.files, lambda file: file.partition in self.shared):
            yield compared, list(files)

    def read(self, files: Sequence[PlannedFile]) -> Iterator[pa.RecordBatch]:
        yield from read_splits(self.spec, files, BATCH_ROWS, threads=os.cpu_count() or 1)

    def count_alone(self) -> int:
        """The rows of partitions that are not compared."""
        counting = replace(self, spec=replace(self.spec, fields=()))
        files = [file for compared, run in self.runs() if not compared for file in run]
        return sum(batch.num_rows for batch in counting.read(files))


@dataclass
class _Parts:
    """The parts to read of a table without a primary key: those of the older state, and of the newer one.

    Attributes:
        ends: the place after each run of files that are compared, once they are read.
    """

    older: _Part | None
    newer: _Part
    ends: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, states: States) -> _Parts:
        fields = states.schema.fields
        spec, newer = states.plan(states.before, states.after, fields)
        if states.before is None:
            return cls(None, _Part(spec, newer, frozenset()))
        older_spec, older = states.plan(states.after, states.before, fields)
        older, newer = _only_differing(spec, older, newer)
        shared = frozenset({file.partition for file in older} & {file.partition for file in newer})
        return cls(_Part(older_spec, older, shared), _Part(spec, newer, shared))

    @property
    def by_kind(self) -> list[tuple[_Part, int, int]]:
        """The parts that there are, the kinds of their rows, and what a row counts."""
        older = [] if self.older is None else [(self.older, DELETE, -1)]
        return [*older, (self.newer, INSERT, 1)]

    def netted(self, states: States) -> Iterator[pa.RecordBatch]:
        """The rows of files that are compared, each once, with its places, and how often the newer state has it more
        (`_COUNT`)."""
        if not self.newer.shared:
            return
        with _sorter(states.options, _HASH) as sorter:
            place = 0
            for part, _, sign in self.by_kind:
                for files in (files for compared, files in part.runs() if compared):
                    for batch in part.read(files):
                        places = np.arange(place, place + batch.num_rows)
                        place += batch.num_rows
                        hashes = row_hashes(batch.columns, batch.num_rows).view(np.int64)
                        own = (hashes, places, places, np.full(batch.num_rows, sign))
                        sorter.add(_with_columns(batch, dict(zip((_HASH, *_OWN), own, strict=True))))
                    self.ends.append(place)
            run = SortedBatches(sorter.sorted(), states.store.root, repeats=True)
            for window in windows([run], [_HASH], _summed):
                rows = _summed(window)
                yield rows.filter(from_numpy(to_numpy(rows.column(_COUNT)) != 0))


def _sorter(options: TableOptions, column: str) -> RowSorter:
    codec = spill_codec(str(options.get("spill-compression")))
    fields = (DataField(0, column, _BIGINT),)
    spec = SortSpec(fields, buffer=int(options.get("sort-spill-buffer-size")), compression=codec)
    return RowSorter(spec, SortKeys(spec.strategy))


def _with_columns(batch: pa.RecordBatch, more: Mapping[str, npt.NDArray[np.int64]]) -> pa.RecordBatch:
    for name, values in more.items():
        batch = batch.append_column(pa.field(name, pa.int64(), False), from_numpy(values))
    return batch


def _only_differing(
    spec: ReadSpec, older: Sequence[PlannedFile], newer: Sequence[PlannedFile]
) -> tuple[tuple[PlannedFile, ...], tuple[PlannedFile, ...]]:
    """Of files that both states have, the rows alone that one deletion vector holds and the other does not."""
    before = {file.path: file for file in older}
    both = [(before[file.path], file) for file in newer if file.path in before]

    def differing(pair: tuple[PlannedFile, PlannedFile]) -> list[PlannedFile | None]:
        deleted = [deleted_rows(spec.io, file.deletion, file.row_count) for file in pair]
        rows = (other - own for own, other in zip(deleted, reversed(deleted), strict=True))
        return [
            file.selecting(RowSelection(positions)) if positions else None
            for file, positions in zip(pair, rows, strict=True)
        ]

    found = list(concurrent_map(differing, both, _MOST_FILES))
    parts = [{pair[0].path: kept[n] for pair, kept in zip(both, found, strict=True)} for n in (0, 1)]
    old, new = (
        tuple(kept for file in files if (kept := part.get(file.path, file)) is not None)
        for files, part in zip((older, newer), parts, strict=True)
    )
    return old, new


def _summed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Equal rows as one, with the sum of their counts; in the order of their hashes."""
    own = len(_OWN)
    columns = [equality_codes(column) for column in rows.columns[:-own]]
    codes = pair_codes([columns[-1], *columns[:-1]])
    _, at, inverse = np.unique(codes, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    first, last, sums = np.full(len(at), np.iinfo(np.int64).max), np.full(len(at), -1), np.zeros(len(at), np.int64)
    for total, combine, name in ((first, np.minimum, _FIRST), (last, np.maximum, _LAST), (sums, np.add, _COUNT)):
        combine.at(total, inverse, to_numpy(rows.column(name)))
    order = np.argsort(at, kind="stable")
    found = rows.take(from_numpy(at[order])).select(range(rows.num_columns - own))
    return _with_columns(found, {_FIRST: first[order], _LAST: last[order], _COUNT: sums[order]})


def _rows_without_key(states: States) -> Iterator[pa.RecordBatch]:
    parts = _Parts.of(states)
    with _sorter(states.options, _FIRST) as sorter:
        for rows in parts.netted(states):
            # The last copies are those that came; each of them is after all that are gone
            came = to_numpy(rows.column(_COUNT)) > 0
            place = np.where(came, to_numpy(rows.column(_LAST)), to_numpy(rows.column(_FIRST)))
            plain = rows.select([*states.schema.field_names, _COUNT])
            sorter.add(_with_columns(plain, {_FIRST: place}))
        differing, ends = _InPlaces(sorter.sorted()), iter(parts.ends)
        for part, kind, _ in parts.by_kind:
            for compared, files in part.runs():
                for batch in differing.before(next(ends)) if compared else part.read(files):
                    yield _with_kind(batch, kind)


class _InPlaces:
    """Rows in the order of their places, which are given out piece by piece, each as often as it counts."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def before(self, place: int) -> Iterator[pa.RecordBatch]:
        """The next rows, those before a place."""
        while (rows := self._rest if self._rest is not None else next(self._batches, None)) is not None:
            end = int(np.searchsorted(to_numpy(rows.column(_FIRST)), place))
            self._rest = rows.slice(end) if end < rows.num_rows else None
            yield from _repeated(rows.slice(0, end))
            if self._rest is not None:
                return


def _repeated(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    ends = np.cumsum(np.abs(to_numpy(rows.column(_COUNT))))
    plain = rows.select(range(rows.num_columns - 2))
    for start in range(0, int(ends[-1]) if len(ends) else 0, BATCH_ROWS):
        at = np.searchsorted(ends, np.arange(start, min(start + BATCH_ROWS, int(ends[-1]))), "right")
        yield plain.take(from_numpy(at))


def _with_kind(rows: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    kinds = np.full(rows.num_rows, kind, np.int8)
    return rows.append_column(pa.field(VALUE_KIND, pa.int8(), False), from_numpy(kinds))
