"""Writing to tables whose primary key does not hold all partition columns: each row is joined with where its key is.

Java Paimon reads all keys of the table into RocksDB on the local disk before it writes the first row. Here the rows
wait, sorted by key, in bounded memory and on the local disk, and `query.key_places` finds their keys, part by part.

The places of keys must not change until the commit: `UnchangedKeys` checks that no other commit has written these keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds import format as formats
from paimon_pyds.base.arrays import from_numpy, one_batch, pc, scalar, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.sort.external import RowSorter, SortSpec
from paimon_pyds.base.sort.keys import SortKeys
from paimon_pyds.base.sort.spill import spill_codec
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.vectors import stored_fields
from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
from paimon_pyds.engine.cross_partition.placement import NewBuckets, Placement, Places
from paimon_pyds.engine.scan.travel import snapshots_after
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.engine.write.context import level_options, row_layout
from paimon_pyds.engine.write.incoming import IncomingRows
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.errors import CommitConflictError, CommitError, SnapshotNotFoundError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.keys.merge.key_set import KeySet
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, SEQUENCE_NUMBER, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.order_codes import order_codes
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot

_KEYS_AT_ONCE = 1 << 17
_PLACE = "__paimon_place"
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 1 << 19, 32 << 20
"""Rows whose keys are looked for together."""


def write_rows(
    context: WriteContext, batches: Iterable[pa.RecordBatch], places: KeyPlaces, task: int | None = None
) -> CommitMessage:
    """Write rows to where their keys are. ``batches``: rows as they arrive, as they are given to a writer. ``places``:
    where keys are before the write. Raises as `GatheredRows` does."""
    with GatheredRows(context, batches) as rows:
        return rows.write(context, places, task)


class GatheredRows:
    """Rows that wait, sorted by key, in bounded memory and on the local disk: `write` may be called again.

    Use as ``with GatheredRows(context, batches) as rows``: what is spilled is gone afterwards.

    ``batches``: rows as they arrive, as they are given to a writer.

    Raises:
        SchemaError: rows that don't fit the table.
        StorageError: the local disk is full.
    """

    def __init__(self, context: WriteContext, batches: Iterable[pa.RecordBatch] = ()) -> None:
        options, self._incoming = context.options, IncomingRows(context)
        self._keys = tuple(context.schema.field(name) for name in context.schema.primary_keys)
        codec = spill_codec(str(options.get("spill-compression")))
        spec = SortSpec(self._keys, buffer=int(options.get("write-buffer-size")), compression=codec)
        self._sorter = RowSorter(spec, SortKeys("order"), stays=True)
        self.rows = 0
        """How many there are."""
        try:
            for batch in batches:
                self.add(batch)
        except BaseException:
            self._sorter.close()
            raise

    def add(self, batch: pa.RecordBatch) -> None:
        """Take more rows; before `write`. Raises as the class does."""
        fitting = self._incoming.conform(batch)
        if fitting.num_rows:
            self._sorter.add(fitting)
            self.rows += fitting.num_rows

    def close(self) -> None:
        """Remove what is spilled."""
        self._sorter.close()

    def __enter__(self) -> GatheredRows:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def write(self, context: WriteContext, places: KeyPlaces, task: int | None = None) -> CommitMessage:
        """Write the rows to where their keys are.

        ``context``: of the same schema. ``places``: where keys are before the write.

        Raises:
            UnsupportedError: see `Placement`.
            PaimonError: see `KeyPlaces.find`.
            StorageError: a file can't be written.
        """
        with TableWriter(context, task) as writer:
            for place, rows in self._placed(context, places):
                writer.write_placed(place, rows)
            return writer.prepare_commit()

    def _placed(self, context: WriteContext, places: KeyPlaces) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """The rows in pieces by the partition and bucket that they go to; those of a key in their order."""
        placement = Placement(places.schema, NewBuckets(context.options, places.held))
        last: tuple[pa.RecordBatch, PartitionBucket | None] | None = None
        for rows in joined_batches(self._sorter.sorted(), _ROWS_AT_ONCE, _BYTES_AT_ONCE):
            distinct, numbers = _distinct(rows.select([field.name for field in self._keys]))
            found = places.find(distinct)
            if last is not None and _equal(last[0], distinct):
                found = found.beginning(last[1])  # more rows of the last key
            placed = placement.place(rows, numbers, found)
            last = distinct.slice(distinct.num_rows - 1), placed.last
            yield from placed.pieces(rows, context.schema)


def with_moves(versions: pa.RecordBatch, schema: TableSchema, place: PartitionBucket) -> pa.RecordBatch:
    """New versions of rows of one bucket, with `VALUE_KIND`, and deletes there of those that go to other partitions.
    Raises UnsupportedError: see `Placement.place`."""
    count = versions.num_rows
    places = Places(pa.repeat(scalar(place.partition, pa.binary()), count), np.full(count, place.bucket, np.int32))
    placement = Placement(schema, NewBuckets(TableOptions(schema.options), lambda _: {}))
    return placement.place(versions, np.arange(count), places).taken(versions, schema, VALUE_KIND)


def _distinct(keys: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """The keys of rows in the order of keys, each once; and of each row the number of its key."""
    codes = order_codes(keys.columns)
    begins = np.append(True, codes[1:] != codes[:-1])
    return keys.take(from_numpy(np.flatnonzero(begins))), np.cumsum(begins) - 1


def _equal(key: pa.RecordBatch, keys: pa.RecordBatch) -> bool:
    """Whether a key is the first one of others."""
    pairs = zip(key.columns, keys.columns, strict=True)
    codes = order_codes([pa.concat_arrays([one, others.slice(0, 1)]) for one, others in pairs])
    return bool(codes[0] == codes[1])


@dataclass(slots=True)
class UnchangedKeys:
    """Checks that no other commit has added or removed versions of a write's keys since these were looked up.
    ``places``: where the keys were found. ``passed``: manifest lists of snapshots without changes of the keys."""

    places: KeyPlaces
    messages: Sequence[CommitMessage]
    passed: set[str] = field(default_factory=set)

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        """Raises CommitConflictError where the write does not hold on a later snapshot."""
        if schema.id != self.places.schema.id:
            raise self._conflict("the table's schema was changed by another commit meanwhile")
        since = snapshots_after(self.places.store, self.places.snapshot, latest)
        if since is None:
            raise self._conflict("the snapshot that keys were looked for in is gone")
        for snapshot in since:
            if snapshot.delta_manifest_list not in self.passed and not snapshot.commit_kind.keeps_rows:
                self._check_keys(snapshot)
            self.passed.add(snapshot.delta_manifest_list)

    def _check_keys(self, snapshot: Snapshot) -> None:
        reader = ManifestReader(self.places.store)
        kinds = reader.entries(reader.delta(snapshot), ("kind",)).column("kind")
        try:
            if pc.any(pc.equal(kinds, FileKind.DELETE), min_count=0).as_py():
                raise self._conflict("rows were overwritten by another commit meanwhile")
            if any(map(self.places.added_by(snapshot), self._keys())):
                raise self._conflict("rows with the same keys were written by another commit meanwhile")
        except SnapshotNotFoundError as error:
            raise self._conflict("another commit has expired meanwhile") from error

    def _keys(self) -> Iterator[pa.RecordBatch]:
        """The keys of the rows that were written, in parts, each in their order."""
        fields = [self.places.schema.field(name) for name in self.places.schema.primary_keys]
        for _, batch in _written(self.places, self.messages, fields):
            keys = KeySet.of(fields, batch)
            yield pa.RecordBatch.from_arrays(list(keys.columns), schema=batch.schema)

    def _conflict(self, what: str) -> CommitConflictError:
        return CommitConflictError(what, path=self.places.store.root, hint="write the rows again")


def check_places(places: KeyPlaces, messages: Sequence[CommitMessage]) -> None:
    """Check that each key is in one bucket after a write, whose tasks do not know the buckets that others have chosen.
    Raises CommitError: a key is in two; CorruptFileError, StorageError: a file can't be read."""
    keys = [places.schema.field(name) for name in places.schema.primary_keys]
    spec = SortSpec(tuple(keys), buffer=int(places.options.get("write-buffer-size")))
    with RowSorter(spec, SortKeys("order")) as sorter:
        for place, batch in _written(places, messages, (*keys, *KEY_VALUE_FIELDS)):
            sorter.add(batch.append_column(_PLACE, from_numpy(np.full(batch.num_rows, place, np.int64))))
        waiting: list[pa.RecordBatch] = []
        for batch in joined_batches(sorter.sorted()):
            rows = one_batch(pa.Table.from_batches([*waiting, batch]))
            _, numbers = _distinct(rows.select([field.name for field in keys]))
            last = int(np.searchsorted(numbers, numbers[-1]))  # more rows of the last key may come
            repeated = _repeats(rows.slice(0, last), numbers[:last])
            waiting = [rows.slice(last)]
            if repeated:
                break
        else:
            repeated = any(_repeats(rows, np.zeros(rows.num_rows, np.int64)) for rows in waiting)
    if repeated:
        raise CommitError(
            "a key was put into two buckets: the DataFrame had other rows when Spark computed a part of it again",
            path=places.store.root,
            hint="write the DataFrame after checkpoint() or localCheckpoint(), which keep its rows",
        )


def _repeats(rows: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> bool:
    """Whether a key, of which each row has the number, is in several places once all rows are merged."""
    places, ages = (to_numpy(rows.column(name)) for name in (_PLACE, SEQUENCE_NUMBER))
    order = np.lexsort((ages, places, numbers))
    numbers, places = numbers[order], places[order]
    newest = np.append((np.diff(numbers) != 0) | (np.diff(places) != 0), True)[: len(order)]
    there = newest & ~is_retract(rows.column(VALUE_KIND))[order]
    return bool((np.bincount(numbers[there]) > 1).any())


def _written(
    places: KeyPlaces, messages: Sequence[CommitMessage], fields: Sequence[DataField]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Columns of the rows that were written, and a number for the bucket that they went to."""
    options, numbers = places.schema.options, dict[PartitionBucket, int]()
    own = TableOptions({**options, **level_options(TableOptions(options), 0)})
    hints = ReadHints(options, columns=tuple(stored_fields(row_layout(places.schema, own).physical)))
    for bucket in (bucket for message in messages for bucket in message.buckets):
        number = numbers.setdefault(PartitionBucket(bucket.partition, bucket.bucket), len(numbers))
        for file in bucket.files:
            path = f"{bucket.directory}/{file.file_name}"
            found, size = formats.by_path(path), places.store.io.size(path)  # a try to commit may have renumbered rows
            reader = found.open_reader(places.store.io, path, size, ReadCounters(), hints)
            try:
                for batch in reader.read(fields, RowSelection.ALL, _KEYS_AT_ONCE):
                    yield number, batch
            finally:
                reader.close()
