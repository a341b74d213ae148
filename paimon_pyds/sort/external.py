"""Sorting rows of any number in bounded memory: ranges of keys are spilled to local disk and sorted one by one.

Rows that fit the buffer are sorted where they are. More of them are cut into ranges by a sample of their keys; each
range goes to a file of its own, and is sorted when its turn comes, or cut again when it does not fit the buffer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np
import pyarrow as pa

from paimon_pyds.metadata.batches import one_batch
from paimon_pyds.sort.keys import SortKeys, between, cuts_of, sort_positions
from paimon_pyds.storage.os_errors import spill_faults
from paimon_pyds.types import DataField

__all__ = ["SortSpec", "sorted_batches"]

_BATCH_ROWS = 131_072
_SAMPLE_ROWS = 131_072
_RANGES = 64
"""Files that are open while rows are spilled, at most."""
_MOST_BUFFER = 1 << 30
_SEED = 0x7061696D6F6E
"""The same rows give the same sample; no seed that data may have been made with, for that would not be even."""

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


def sorted_batches(read: Read, fields: tuple[DataField, ...], rows: int, spec: SortSpec) -> Iterator[pa.RecordBatch]:
    """All rows that ``read`` gives, in order; rows with equal keys keep theirs.

    Args:
        read: is called twice when the rows don't fit the buffer: for all columns, and for those of the keys.
        fields: the columns of the result.
        rows: how many there are, at most.

    Raises:
        StorageError: what has to be spilled does not fit the local disk.
    """
    head: list[pa.RecordBatch] = []
    source = iter(read(fields))
    if _fill(head, source, spec.limit):
        yield from _in_memory(head, None, spec)
        return
    sample = _sample(read(spec.fields), rows, head, spec)
    keys = SortKeys.learn(spec.strategy, _columns(sample, spec))
    with _spill_directory() as directory:
        yield from _Spill(directory, spec, keys).run(_draining(head, source), sample, _bytes_per_row(head) * rows)


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


def _sample(keys: Iterator[pa.RecordBatch], rows: int, head: list[pa.RecordBatch], spec: SortSpec) -> pa.RecordBatch:
    """Key columns of some rows, chosen evenly: as many as an eighth of the buffer holds, and one at least."""
    names = [f.name for f in spec.fields]
    first = [batch.select(names) for batch in head]
    wanted = min(_SAMPLE_ROWS, int(spec.limit / 8 / max(1.0, _bytes_per_row(first))))
    share = min(1.0, wanted / max(1, rows))
    chance = np.random.default_rng((_SEED, rows))
    taken = [first[0].slice(0, 1)]
    for batch in keys:
        chosen = np.flatnonzero(chance.random(batch.num_rows) < share)
        taken.append(batch.select(names).take(pa.array(chosen)))
    return one_batch(pa.Table.from_batches(taken))


def _in_memory(batches: list[pa.RecordBatch], keys: SortKeys | None, spec: SortSpec) -> Iterator[pa.RecordBatch]:
    """The rows of the batches in order; the list is emptied."""
    if not batches:
        return
    whole = one_batch(pa.Table.from_batches(batches))
    batches.clear()
    columns = _columns(whole, spec)
    keys = SortKeys.learn(spec.strategy, columns) if keys is None else keys
    order = sort_positions(keys.of(columns))
    for start in range(0, whole.num_rows, _BATCH_ROWS):
        yield whole.take(order.slice(start, _BATCH_ROWS))


@contextmanager
def _spill_directory() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="paimon-pyds-sort-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(slots=True)
class _Part:
    """A file with the rows of one range, and what it holds, uncompressed."""

    path: str
    writer: pa.RecordBatchWriter
    sink: pa.OSFile
    size: int = 0
    rows: int = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self.writer.write_batch(rows)
        self.size += rows.nbytes
        self.rows += rows.num_rows

    def close(self) -> None:
        self.writer.close()
        self.sink.close()

    def read(self) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self.path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader


@dataclass(slots=True)
class _Spill:
    """Files of ranges, in a directory of their own."""

    directory: str
    spec: SortSpec
    keys: SortKeys
    names: count[int] = field(default_factory=count)

    def run(self, source: Iterator[pa.RecordBatch], sample: pa.RecordBatch, size: float) -> Iterator[pa.RecordBatch]:
        """The rows of a source that is larger than the buffer, in order."""
        ranges = max(2, min(_RANGES, int(size / self.spec.limit * 2) + 1))
        cuts = cuts_of(self.keys.of(_columns(sample, self.spec)), ranges)
        parts: dict[int, _Part] = {}
        self._spread(source, cuts, parts)
        for number in sorted(parts):
            yield from self._sorted(number, parts.pop(number))

    def _spread(self, source: Iterator[pa.RecordBatch], cuts: list[pa.Array], parts: dict[int, _Part]) -> None:
        """Write each row to the file of its range."""
        try:
            for chunk in _chunks(source, self.spec.limit // 4):
                positions, ranges = between(self.keys.of(_columns(chunk, self.spec)), cuts)
                starts = np.concatenate(([0], np.flatnonzero(np.diff(ranges)) + 1, [len(ranges)]))
                with spill_faults("the rows of a sort", self.directory):
                    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
                        rows = chunk.take(pa.array(positions[start:stop]))
                        self._part(parts, int(ranges[start]), chunk.schema).write(rows)
            with spill_faults("the rows of a sort", self.directory):
                for part in parts.values():
                    part.close()
        except BaseException:
            for part in parts.values():
                with suppress(Exception):
                    part.close()
            raise

    def _part(self, parts: dict[int, _Part], number: int, schema: pa.Schema) -> _Part:
        part = parts.get(number)
        if part is None:
            path = os.path.join(self.directory, f"{next(self.names)}.arrow")
            sink = pa.OSFile(path, "wb")
            codec = None if self.spec.compression == "none" else self.spec.compression
            writer = pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec))
            part = parts[number] = _Part(path, writer, sink)
        return part

    def _sorted(self, number: int, part: _Part) -> Iterator[pa.RecordBatch]:
        """The rows of a range in order; its file is removed."""
        if number % 2:  # rows with one and the same key, in their order
            yield from part.read()
        elif part.size <= self.spec.limit:
            yield from _in_memory(list(part.read()), self.keys, self.spec)
        else:
            sample = _sample(part.read(), part.rows, list(_first(part)), self.spec)
            yield from self.run(part.read(), sample, part.size)
        os.remove(part.path)


def _first(part: _Part) -> Iterator[pa.RecordBatch]:
    for batch in part.read():
        yield batch
        return


def _chunks(source: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of about ``limit`` bytes: cutting many at once costs less than cutting few often."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in chain(source, [None]):
        if batch is not None:
            waiting.append(batch)
            size += batch.nbytes
        if waiting and (batch is None or size >= limit):
            yield one_batch(pa.Table.from_batches(waiting))
            waiting, size = [], 0
