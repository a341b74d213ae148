"""Sorted runs cut into windows: each holds all versions of its keys, and only a few batches of each run.

The runs of a bucket overlap, so a key can be merged only after all runs have been read up to it. Later keys of a run
are no less than the last key read from it; so all keys below the least of these last keys are complete.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import one_batch, pc, sliced, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.spill import SpillFile
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.keys.merge.grouped_rows import Flags
from paimon_pyds.keys.merge.key_values import DELETE, INSERT, KEY_PREFIX, VALUE_KIND
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.keys.merge.order_codes import comparable

FOLD_ROWS = 1 << 16
_Key = list[tuple[bool, Any]]
"""The key of one row as Python compares it: NULL first."""


@dataclass(frozen=True, slots=True)
class SortedBatches:
    """Rows in the order of their keys.

    Attributes:
        batches: its rows, in the same columns as those of other runs; batches without rows are passed over.
        name: what an error names: such as the file, or the first file of a run of several.
        repeats: whether a key may occur more than once: never in the files of a table.
    """

    batches: Iterable[pa.RecordBatch]
    name: str
    repeats: bool = False


def windows(
    runs: Sequence[SortedBatches],
    keys: Sequence[str],
    needed: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows,
) -> Iterator[pa.RecordBatch]:
    """All rows of the runs, in windows: no key of one occurs in another, and those of a later one are greater.

    A window has the rows of one run after those of another, in the order of the runs. At most two batches of each run
    are in memory; where runs repeat keys, also what ``needed`` keeps of the versions of one key.

    ``runs``: all that have rows of these keys, the oldest first: so they are merged fastest. ``needed``: drops rows
    that are not needed to merge those of a key (`RowMerger.needed`); is called where a run has very many versions of
    one key.
    Raises CorruptFileError: a run is not sorted by its keys, repeats one that it must not, or has row kinds that are
    none.
    """
    readers = [reader for reader in (_RunReader(run, keys, needed) for run in runs) if reader.read_on()]
    while readers:
        unfinished = [reader for reader in readers if not reader.finished]
        bound = min((reader.last for reader in unfinished), default=None)
        parts = [part for reader in readers for part in reader.take(bound)]
        if parts:
            yield parts[0] if len(parts) == 1 else one_batch(pa.Table.from_batches(parts))
        for reader in unfinished:
            if reader.last == bound or reader.rows < reader.batch_rows // 2:  # else windows of few rows follow
                reader.read_on()
        readers = [reader for reader in readers if reader.rows]


class _RunReader:
    """A sorted run: what has been read of it and not yet been given out."""

    def __init__(
        self, run: SortedBatches, keys: Sequence[str], needed: Callable[[pa.RecordBatch], pa.RecordBatch]
    ) -> None:
        self._run = run
        self._batches = iter(run.batches)
        self._names = keys
        self._needed = needed
        self._waiting: list[_Batch] = []
        self._fold_at = FOLD_ROWS
        self.batch_rows = 0
        """How many the last batch had."""
        self.finished = False
        """Whether nothing more can be read."""
        self.last: _Key = []
        """The greatest key that has been read."""

    @property
    def rows(self) -> int:
        """How many have been read and not been given out."""
        return sum(waiting.batch.num_rows - waiting.start for waiting in self._waiting)

    def read_on(self) -> bool:
        """Read the next batch; False at the end."""
        for batch in self._batches:
            if batch.num_rows:
                self._append(batch)
                return True
        self.finished = True
        return False

    def _append(self, batch: pa.RecordBatch) -> None:
        self._check_kinds(batch)
        added = _Batch(batch, comparable([batch.column(name) for name in self._names]))
        first = added.key(0)
        if self.last and (first < self.last or (first == self.last and not self._run.repeats)):
            raise self._unsorted(first == self.last)
        step = _least_step(added.keys)
        if step < 0 or (step == 0 and not self._run.repeats):
            raise self._unsorted(step == 0)
        self._waiting.append(added)
        self.batch_rows = batch.num_rows
        self.last = added.key(batch.num_rows - 1)
        if len(self._waiting) > 1 and self.rows > self._fold_at:
            self._fold()

    def _check_kinds(self, batch: pa.RecordBatch) -> None:
        if not _has_row_kinds(batch):
            raise CorruptFileError(
                "a sorted run of a table with a primary key has an invalid row kind",
                path=self._run.name,
                field=VALUE_KIND,
                hint="overwrite the partition, or roll back to a snapshot before this file",
            )

    def _unsorted(self, twice: bool) -> CorruptFileError:
        what = "has a key twice" if twice else "is not sorted by its keys"
        return CorruptFileError(
            f"a sorted run of a table with a primary key {what}",
            path=self._run.name,
            field=", ".join(name.removeprefix(KEY_PREFIX) for name in self._names),
            hint="the writer of this file, or of another one of its level, broke the order: overwrite the partition, "
            "or roll back to an earlier snapshot",
        )

    def _fold(self) -> None:
        """Drop versions of the run's only key that later merges can do without."""
        head = self._waiting[0]
        if head.key(head.start) != self.last:
            return
        rows = one_batch(pa.Table.from_batches([waiting.batch.slice(waiting.start) for waiting in self._waiting]))
        rows = self._needed(rows)
        self._waiting = [_Batch(rows, comparable([rows.column(name) for name in self._names]))]
        self._fold_at = max(FOLD_ROWS, 2 * rows.num_rows)

    def take(self, bound: _Key | None) -> list[pa.RecordBatch]:
        """The rows below the bound, or all; they count as given out."""
        taken = []
        while self._waiting:
            head = self._waiting[0]
            stop = head.batch.num_rows
            if bound is not None:
                stop = bisect_left(range(stop), bound, head.start, key=head.key)
            if stop > head.start:
                taken.append(head.batch.slice(head.start, stop - head.start))
                head.start = stop
            if head.start < head.batch.num_rows:
                break
            del self._waiting[0]
        return taken


@dataclass(slots=True)
class _Batch:
    """A batch that was read, and which of its rows have been given out: those before ``start``."""

    batch: pa.RecordBatch
    keys: Sequence[pa.Array]
    start: int = 0

    def key(self, row: int) -> _Key:
        return [((value := key[row].as_py()) is not None, value) for key in self.keys]


def is_sorted_run(rows: pa.RecordBatch, keys: Sequence[str]) -> bool:
    """Whether rows are sorted by their keys, have no key twice, and have valid row kinds."""
    if not rows.num_rows:
        return True
    return _has_row_kinds(rows) and _least_step(comparable([rows.column(name) for name in keys])) > 0


def _has_row_kinds(batch: pa.RecordBatch) -> bool:
    """Whether all row kinds are valid: another number would count as a row that adds."""
    if VALUE_KIND not in batch.schema.names:
        return True
    column = batch.column(VALUE_KIND)
    kinds = None if column.null_count else to_numpy(column)
    return kinds is not None and kinds.min() >= INSERT and kinds.max() <= DELETE


def _least_step(keys: Sequence[pa.Array]) -> int:
    """-1 where a row is less than the one before it, 0 where two are equal, 1 when all are greater."""
    rows = len(keys[0])
    equal = np.ones(max(0, rows - 1), np.bool_)
    for key in keys:
        below, same = _compare(key)
        if (equal & below).any():
            return -1
        equal &= same
    return 0 if equal.any() else 1


def _compare(key: pa.Array) -> tuple[Flags, Flags]:
    """Of each row but the first, whether it is less than the one before it, and whether it is equal to it."""
    before, after = key.slice(0, len(key) - 1), key.slice(1)
    if not key.null_count and pa.types.is_integer(key.type):
        former, latter = to_numpy(before), to_numpy(after)
        return latter < former, latter == former
    null_before, null_after = to_numpy(before.is_null()), to_numpy(after.is_null())
    below = to_numpy(pc.fill_null(pc.less(after, before), False)) | (null_after & ~null_before)
    same = to_numpy(pc.fill_null(pc.equal(after, before), False)) | (null_after & null_before)
    return below, same


MOST_RUNS = 64
"""Runs that are merged at once, at most: of each a file is open, and a few batches are in memory."""


def windows_in_rounds(
    runs: Sequence[SortedBatches], merger: RowMerger, batch_rows: int, batch_bytes: int, compression: str
) -> Generator[pa.RecordBatch, None, None]:
    """`windows` of the runs. Of more than `MOST_RUNS`, neighbours are first made one run each, on the local disk.

    These hold the rows only that are needed to merge those of a key: see `RowMerger.needed`.

    Args:
        runs: the oldest first. A run is not begun before it is its turn.
        merger: of the table.
        batch_rows: rows in a batch of what is spilled, at most.
        batch_bytes: bytes in such a batch at most, about.
        compression: of what is spilled: ``zstd``, ``lz4`` or ``none``.

    Raises:
        CorruptFileError: a run is not sorted by its keys, or repeats one that it must not.
        StorageError: the local disk is full.
    """
    spilled: list[SpillFile[int]] = []
    try:
        while len(runs) > MOST_RUNS:
            spilled.append(SpillFile(compression, "the rows of a merge"))
            runs = _round(runs, merger, batch_rows, batch_bytes, spilled[-1])
        yield from windows(runs, merger.keys, merger.needed)
    finally:
        for spill in spilled:
            spill.close()


def _round(
    runs: Sequence[SortedBatches], merger: RowMerger, batch_rows: int, batch_bytes: int, spill: SpillFile[int]
) -> list[SortedBatches]:
    """Fewer runs: groups of the newest, as those are the smallest, are merged until there are few enough."""
    left, merged = list(runs), list[SortedBatches]()
    while left and len(left) + len(merged) > MOST_RUNS:
        size = min(MOST_RUNS, len(left) + len(merged) - MOST_RUNS + 1)
        group, left = left[-size:], left[:-size]
        number = len(merged)
        for window in windows(group, merger.keys, merger.needed):
            for rows in sliced(merger.needed_in_order(window), batch_rows, batch_bytes):
                spill.add(number, rows)
        merged.append(SortedBatches(spill.take(number), group[0].name, repeats=True))
    return [*left, *reversed(merged)]
