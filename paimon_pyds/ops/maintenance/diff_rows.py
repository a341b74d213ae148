"""The rows that two states of a table differ by, in bounded memory. Files that both have as they are stay unread.

Without a primary key the rows of files that one state alone has are compared as multisets: those of both states are
sorted by a hash of all their values, on the local disk where they are many, and rows that both have cancel out. Where
only one of the states has such files in a partition, nothing can cancel out, and nothing is sorted. With a primary key
rows are compared by key: see `scan.travel.Difference`, with ``exact``.
Values are equal as in Java: NaN equals NaN, -0.0 is not 0.0, the entries of a map have no order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from paimon_pyds.engine.read import read_splits
from paimon_pyds.engine.read.live_rows import deleted_rows
from paimon_pyds.engine.scan.plan import ScanRequest, plan_scan
from paimon_pyds.engine.scan.travel import Difference, TableState
from paimon_pyds.keys.merge.equal_values import equality_codes, pair_codes, row_hashes
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, KEY_VALUE_FIELDS, VALUE_KIND
from paimon_pyds.keys.merge.windows import SortedBatches, windows
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import PlannedFile, ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.concurrent import concurrent_map

_KIND = KEY_VALUE_FIELDS[1]
_HASH, _COUNT = "__paimon_hash", "__paimon_count"
_BY_HASH = DataField(0, _HASH, AtomicType(Kind.BIGINT, nullable=False))
_BATCH_ROWS = 65_536
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
        yield from read_splits(spec, files, _BATCH_ROWS, threads=os.cpu_count() or 1)

    def counts(self) -> tuple[int, int, int]:
        """How many rows were inserted, deleted and updated."""
        found = np.zeros(4, np.int64)
        if self.schema.primary_keys:
            for batch in self.changes():
                found += np.bincount(to_numpy(batch.column(VALUE_KIND)), minlength=4)
            return int(found[0]), int(found[3]), int(found[1])
        parts = _Parts.of(self)
        for part, kind in ((parts.removed, DELETE), (parts.added, INSERT)):
            alone = replace(part, spec=replace(part.spec, fields=())) if part is not None else None
            found[kind] += sum(batch.num_rows for batch in _read(alone))
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
            filter_fields=(),
            options=self.options,
            between=Difference(start, end, exact=True),
            zone=default_zone(),
        )
        found = plan_scan(self.store, request)
        return found.spec, found.files


@dataclass(frozen=True)
class _Part:
    """Files of one state to read."""

    spec: ReadSpec
    files: Sequence[PlannedFile] = ()


def _read(part: _Part | None) -> Iterator[pa.RecordBatch]:
    if part is not None:
        yield from read_splits(part.spec, part.files, _BATCH_ROWS, threads=os.cpu_count() or 1)


@dataclass
class _Parts:
    """The parts to read of a table without a primary key.

    Attributes:
        removed: files of the older state, in partitions where the newer one has none to read.
        added: files of the newer state, in partitions where the older one has none to read.
        compared: files of partitions where both have some: of the older state, and of the newer one.
    """

    removed: _Part | None
    added: _Part
    compared: list[tuple[_Part, int]] = field(default_factory=list)

    @classmethod
    def of(cls, states: States) -> _Parts:
        fields = states.schema.fields
        spec, newer = states.plan(states.before, states.after, fields)
        if states.before is None:
            return cls(None, _Part(spec, newer))
        older_spec, older = states.plan(states.after, states.before, fields)
        older, newer = _only_differing(spec, older, newer)
        both = {file.partition for file in older} & {file.partition for file in newer}
        old, new = (
            ([f for f in files if f.partition not in both], [f for f in files if f.partition in both])
            for files in (older, newer)
        )
        compared = [(_Part(older_spec, old[1]), -1), (_Part(spec, new[1]), 1)] if both else []
        return cls(_Part(older_spec, old[0]), _Part(spec, new[0]), compared)

    def netted(self, states: States) -> Iterator[pa.RecordBatch]:
        """The rows of files that are compared, each once, with how often the newer state has it more (`_COUNT`)."""
        if not self.compared:
            return
        options = states.options
        codec = spill_codec(str(options.get("spill-compression")))
        spec = SortSpec((_BY_HASH,), buffer=int(options.get("sort-spill-buffer-size")), compression=codec)
        with RowSorter(spec, SortKeys(spec.strategy)) as sorter:
            for part, sign in self.compared:
                for batch in _read(part):
                    hashes = row_hashes(batch.columns, batch.num_rows).view(np.int64)
                    counts = np.full(batch.num_rows, sign)
                    hashed = batch.append_column(pa.field(_HASH, pa.int64(), False), from_numpy(hashes))
                    sorter.add(hashed.append_column(pa.field(_COUNT, pa.int64(), False), from_numpy(counts)))
            run = SortedBatches(sorter.sorted(), states.store.root, repeats=True)
            for window in windows([run], [_HASH], _summed):
                rows = _summed(window)
                yield rows.filter(from_numpy(to_numpy(rows.column(_COUNT)) != 0))


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
    columns = [equality_codes(column) for column in rows.columns[:-1]]
    codes = pair_codes([columns[-1], *columns[:-1]])
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse.reshape(-1), to_numpy(rows.column(_COUNT)))
    order = np.argsort(first, kind="stable")
    found = rows.take(from_numpy(first[order]))
    return found.set_column(rows.num_columns - 1, found.schema.field(_COUNT), from_numpy(sums[order]))


def _rows_without_key(states: States) -> Iterator[pa.RecordBatch]:
    parts = _Parts.of(states)
    for part, kind in ((parts.removed, DELETE), (parts.added, INSERT)):
        for batch in _read(part):
            yield _with_kinds(batch, np.full(batch.num_rows, kind, np.int8))
    names = states.schema.field_names
    for rows in parts.netted(states):
        counts = to_numpy(rows.column(_COUNT))
        ends = np.cumsum(np.abs(counts))
        for start in range(0, int(ends[-1]) if len(ends) else 0, _BATCH_ROWS):
            at = np.searchsorted(ends, np.arange(start, min(start + _BATCH_ROWS, int(ends[-1]))), "right")
            kinds = np.where(counts[at] > 0, INSERT, DELETE).astype(np.int8)
            yield _with_kinds(rows.select(list(names)).take(from_numpy(at)), kinds)


def _with_kinds(rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
    return rows.append_column(pa.field(VALUE_KIND, pa.int8(), False), from_numpy(kinds))
