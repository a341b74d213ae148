"""Sorting any number of rows in bounded memory: sorted runs are spilled to local disk and merged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, one_batch
from paimon_pyds.base.progress import count
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.keys import CURVES, SortKeys, sort_positions
from paimon_pyds.base.sort.spill import SpillFile
from paimon_pyds.base.types import DataField

_BATCH_ROWS = 131_072
"""Rows of a sorted batch, at most."""
_SAMPLE_ROWS = 131_072
"""Rows in a sample of keys, about."""
MAX_RUNS = 64
"""Runs that are merged at once, at most: a batch of each is in memory."""
_MOST_BUFFER = 1 << 30
"""Bytes of a sort buffer, at most, whatever the options say."""
_SEED = 0x7061696D6F6E
"""Seed of samples: the same rows give the same sample. Data must not be made with it, or the sample would not be
even."""
Read = Callable[[tuple[DataField, ...]], Iterator[pa.RecordBatch]]
"""Gives the rows from the first on, with these columns."""


@dataclass(frozen=True, slots=True)
class SortSpec:
    """How rows are ordered.

    Attributes:
        fields: the columns to order by.
        strategy: ``order``, ``zorder`` or ``hilbert``.
        buffer: uncompressed bytes of rows that are sorted at once; about three times as much memory is used.
        compression: of what is spilled: ``zstd``, ``lz4`` or ``none``.
    """

    fields: tuple[DataField, ...]
    strategy: str = "order"
    buffer: int = 256 << 20
    compression: str = "zstd"

    @property
    def limit(self) -> int:
        """The buffer, within what one Arrow array of texts can hold."""
        return max(1 << 16, min(self.buffer, _MOST_BUFFER))


class RowSorter:
    """Puts rows in order; those that do not fit the buffer are spilled as sorted runs, which are merged at the end.

    Use as ``with RowSorter(spec, keys) as sorter``: what is spilled is gone afterwards. With ``stays`` rows may be read
    again and again; those that fit the buffer then stay in memory.
    """

    def __init__(self, spec: SortSpec, keys: SortKeys, *, stays: bool = False) -> None:
        self._spec = spec
        self._keys = keys
        self._stays = stays
        self._rows: list[pa.RecordBatch] = []
        self._size = 0
        self._key_fields: list[pa.Field] = []
        """Keys on a curve are carried along: to make them again in a merge costs more."""
        self._runs: SpillFile[int] | None = None

    def __enter__(self) -> RowSorter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget what is spilled."""
        if self._runs is not None:
            self._runs.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, all of one schema. Raises StorageError when the local disk is full."""
        if self._rows and self._size + batch.nbytes > self._spec.limit:
            self.spill()
        self._rows.append(batch)
        self._size += batch.nbytes
        count(sorted=batch.num_rows)

    def sorted(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, those with equal keys as they were added; to be called after the last `add`, and once
        unless rows stay.
        Raises StorageError: the local disk is full."""
        if self._runs is None:
            batches = self._in_order(_BATCH_ROWS, stays=self._stays)
        else:
            self.spill()
            batches = self._merged(self._runs, stays=self._stays)
        for batch in batches:
            yield batch.select(range(batch.num_columns - len(self._key_fields)))

    def _in_order(self, batch_rows: int, *, stays: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows in memory in order, with ``_key_fields`` as last columns. Unless ``stays``, memory is empty
        afterwards."""
        if not self._rows:
            return
        whole = one_batch(pa.Table.from_batches(self._rows))
        self._rows = [whole] if stays else []
        self._size = whole.nbytes if stays else 0
        keys = self._keys.of(_columns(whole, self._spec))
        order = sort_positions(keys)
        if self._keys.bounds:
            self._key_fields = [pa.field("", key.type) for key in keys]
            schema = pa.schema([*whole.schema, *self._key_fields])
            whole = pa.RecordBatch.from_arrays([*whole.columns, *keys], schema=schema)
        for start in range(0, whole.num_rows, batch_rows):
            yield whole.take(order.slice(start, batch_rows))

    @property
    def held_bytes(self) -> int:
        """Bytes of rows in memory."""
        return self._size

    @property
    def spilled_bytes(self) -> int:
        """Bytes on the local disk."""
        return 0 if self._runs is None else self._runs.size

    def spill(self) -> None:
        """Write the rows in memory to disk as one more run; of many runs one is made first.
        Raises StorageError: the local disk is full."""
        if not self._rows:
            return
        runs = self._runs
        if runs is None:
            runs = self._runs = self._spill_file()
        elif len(runs.keys) >= MAX_RUNS:
            self._runs = self._spill_file()
            try:
                for batch in self._merged(runs):
                    for start in range(0, batch.num_rows, rows := self._batch_rows([batch])):
                        self._runs.add(0, batch.slice(start, rows))
            finally:
                runs.close()
            runs = self._runs
        number = len(runs.keys)
        for batch in self._in_order(self._batch_rows(self._rows)):
            runs.add(number, batch)

    def _spill_file(self) -> SpillFile[int]:
        return SpillFile(self._spec.compression, "the rows of a sort")

    def _batch_rows(self, batches: Sequence[pa.RecordBatch]) -> int:
        """Rows of a batch of a run: one batch of each run fits the buffer."""
        return max(1, min(_BATCH_ROWS, int(self._spec.limit / MAX_RUNS / max(1.0, _bytes_per_row(batches)))))

    def _merged(self, runs: SpillFile[int], *, stays: bool = False) -> Iterator[pa.RecordBatch]:
        return merge_sorted([(runs.read if stays else runs.take)(number) for number in runs.keys], self._keys_of)

    def _keys_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        if self._key_fields:
            return batch.columns[-len(self._key_fields) :]  # type: ignore[no-any-return]
        return self._keys.of(_columns(batch, self._spec))


def sorted_batches(read: Read, fields: tuple[DataField, ...], rows: int, spec: SortSpec) -> Iterator[pa.RecordBatch]:
    """All rows that ``read`` gives, in order; rows with equal keys keep theirs.

    ``read``: is called twice if the rows don't fit the buffer and are sorted by a space-filling curve: for all columns,
    and for those of the keys. ``fields``: the columns of the result. ``rows``: their greatest number.
    Raises StorageError: the spilled rows do not fit the local disk.
    """
    head: list[pa.RecordBatch] = []
    source = iter(read(fields))
    keys = SortKeys(spec.strategy)
    if spec.strategy in CURVES:
        complete = _fill(head, source, spec.limit)
        if not head:
            return
        sample = [batch.select([f.name for f in spec.fields]) for batch in head]
        if not complete:
            sample = _sample(read(spec.fields), rows, sample, spec)
        keys = SortKeys.learn(spec.strategy, _columns(one_batch(pa.Table.from_batches(sample)), spec))
        del sample
    with RowSorter(spec, keys) as sorter:
        for batch in _draining(head, source):
            sorter.add(batch)
        yield from sorter.sorted()


def _fill(head: list[pa.RecordBatch], source: Iterator[pa.RecordBatch], limit: int) -> bool:
    """Take batches up to the limit; whether these were all."""
    size = 0
    for batch in source:
        head.append(batch)
        size += batch.nbytes
        if size > limit:
            return False
    return True


def _draining(head: list[pa.RecordBatch], source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of the list, each forgotten as it is given, then the others."""
    head.reverse()
    while head:
        yield head.pop()
    yield from source


def _bytes_per_row(batches: Iterable[pa.RecordBatch]) -> float:
    size = rows = 0
    for batch in batches:
        size, rows = size + batch.nbytes, rows + batch.num_rows
    return size / max(1, rows)


def _columns(batch: pa.RecordBatch, spec: SortSpec) -> list[pa.Array]:
    return [batch.column(f.name) for f in spec.fields]


def _sample(
    keys: Iterator[pa.RecordBatch], rows: int, first: list[pa.RecordBatch], spec: SortSpec
) -> list[pa.RecordBatch]:
    """Key columns of some rows, chosen evenly of about ``rows``: as many as an eighth of the buffer holds, and one at
    least. ``first`` are the key columns of some, to know their size by."""
    wanted = min(_SAMPLE_ROWS, int(spec.limit / 8 / max(1.0, _bytes_per_row(first))))
    chance = np.random.default_rng((_SEED, rows))
    return [first[0].slice(0, 1), *(_some(batch, wanted / max(1, rows), chance) for batch in keys)]


def _some(batch: pa.RecordBatch, share: float, chance: np.random.Generator) -> pa.RecordBatch:
    return batch.take(array(np.flatnonzero(chance.random(batch.num_rows) < share)))


class KeySample:
    """Key columns of some rows, chosen evenly from all that are added: the same ones each time.

    ``parts``: the number of samples that are taken, which together take an eighth of the buffer at most. ``rows``: of
    all parts together, if known.
    """

    def __init__(self, spec: SortSpec, parts: int = 1, rows: int = 1) -> None:
        self._names = [field.name for field in spec.fields]
        self._most = spec.limit // 8 // parts
        self._chosen: list[pa.RecordBatch] = []
        self._size = self._count = 0
        self._share = self._first_share = min(1.0, _SAMPLE_ROWS / max(1, rows))
        self._chance = np.random.default_rng(_SEED)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, which have the key columns."""
        self._chosen.append(_some(batch.select(self._names), self._share, self._chance))
        self._size += self._chosen[-1].nbytes
        self._count += self._chosen[-1].num_rows
        if self._size > self._most or self._count > 2 * _SAMPLE_ROWS:
            half = _some(one_batch(pa.Table.from_batches(self._chosen)), 0.5, self._chance)
            self._chosen, self._size, self._count = [half], half.nbytes, half.num_rows
            self._share /= 2

    def taken(self) -> pa.RecordBatch | None:
        """The chosen rows, which are removed from the sample; None if no row was added."""
        chosen, self._chosen, self._size, self._count = self._chosen, [], 0, 0
        self._share = self._first_share
        return one_batch(pa.Table.from_batches(chosen)) if chosen else None


def merge_sorted(
    sources: Sequence[Iterator[pa.RecordBatch]], keys_of: Callable[[pa.RecordBatch], Sequence[pa.Array]]
) -> Iterator[pa.RecordBatch]:
    """The rows of all sources, which are in order, in order; of rows with equal keys those of an earlier source come
    first.

    A batch of each source is in memory, and what is given out is no larger than these together. ``keys_of`` gives the
    keys of a batch, as `sort_positions` compares them: `SortKeys.of` of some columns.
    """
    waiting = [source for source in (_Source(batches, keys_of) for batches in sources) if source.load()]
    while len(waiting) > 1:
        # Later rows of any source are no less than the least of the last rows in memory.
        ends = [source.key(source.stop - 1) for source in waiting]
        least = min(ends)
        first = ends.index(least)
        parts = [source.take(least, including=number <= first) for number, source in enumerate(waiting)]
        rows = one_batch(pa.Table.from_batches([part for part in parts if part.num_rows]))
        yield rows.take(sort_positions(keys_of(rows)))
        waiting = [source for source in waiting if source.start < source.stop or source.load()]
    for source in waiting:
        yield source.batch.slice(source.start)
        yield from source.batches


class _Source:
    """One source of a merge: the batch in memory, and which of its rows have not been given out."""

    batch: pa.RecordBatch

    def __init__(
        self, batches: Iterator[pa.RecordBatch], keys_of: Callable[[pa.RecordBatch], Sequence[pa.Array]]
    ) -> None:
        self.batches = batches
        self.start = self.stop = 0
        self._keys_of = keys_of
        self._keys: Sequence[pa.Array] = ()

    def load(self) -> bool:
        """Go on to the next batch that has rows; False at the end."""
        for batch in self.batches:
            if batch.num_rows:
                self.batch, self._keys = batch, self._keys_of(batch)
                self.start, self.stop = 0, batch.num_rows
                return True
        return False

    def key(self, row: int) -> list[tuple[bool, Any]]:
        """The key of a row as Python compares it: NULL first."""
        return [((value := key[row].as_py()) is not None, value) for key in self._keys]

    def take(self, bound: list[tuple[bool, Any]], *, including: bool) -> pa.RecordBatch:
        """The rows below the bound, and those equal to it on request; they count as given out."""
        search = bisect_right if including else bisect_left
        start, self.start = self.start, search(range(self.stop), bound, self.start, key=self.key)
        return self.batch.slice(start, self.start - start)
