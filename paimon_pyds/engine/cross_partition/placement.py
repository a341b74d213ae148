"""The buckets of rows whose primary key does not hold all partition columns: a key is in one partition, and may move.

Rows come in the order of their keys, and those of a key as they arrived, with the place that the key had before. What
becomes of a row whose partition is another one, the merge engine decides: with deduplicate the key is deleted there and
moves; with partial-update and aggregation the row goes into the old partition; with first-row it is left out. Deletes
(-U and -D) go where their key is. (Source: Paimon documentation, concepts/data-distribution, "Cross Partitions Upsert";
Java: classes GlobalIndexAssigner and ExistingProcessor. Java sends a delete to its own partition as well.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, pc, scalar, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import encode_rows
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.bucket.capacity import BucketCapacity, BucketLimits
from paimon_pyds.keys.merge.key_values import DELETE, VALUE_KIND, is_retract
from paimon_pyds.keys.merge.row_kinds import ROW_KINDS
from paimon_pyds.metadata.partition import PartitionBucket, partition_values
from paimon_pyds.metadata.schema import TableSchema

_Ints = npt.NDArray[np.int64]
_NOWHERE = -1
"""Stands for the place of a key that no row has yet."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where keys are, each with the number of its row. ``partitions``: arity + BinaryRow; NULL for a key that is in
    none. ``buckets``: of these partitions; what it is without one does not matter."""

    partitions: pa.BinaryArray
    buckets: npt.NDArray[np.int32]

    def beginning(self, place: PartitionBucket | None) -> Places:
        """The same with another place of the first key."""
        first = array([None if place is None else place.partition], pa.binary())
        buckets = self.buckets.copy()
        buckets[0] = 0 if place is None else place.bucket
        return Places(pa.concat_arrays([first, self.partitions.slice(1)]), buckets)


class NewBuckets:
    """Gives new keys of a partition buckets: the first ones that have room, then further ones.

    Args:
        options: the table's: ``dynamic-bucket.target-row-num`` and ``dynamic-bucket.max-buckets``.
        held: returns an estimate of the number of keys of each bucket of a partition; called once for each partition.
        share: (i, n) for the i-th of n parallel assigners, which gives only the buckets i, i + n, i + 2·n, ….
    """

    def __init__(
        self, options: TableOptions, held: Callable[[bytes], Mapping[int, int]], share: tuple[int, int] = (0, 1)
    ) -> None:
        self._limits = BucketLimits.of(options)
        self._held = held
        self._share = share
        self._capacities: dict[bytes, BucketCapacity] = {}

    def give(self, partition: bytes, count: int) -> npt.NDArray[np.int32]:
        """The buckets of ``count`` new keys."""
        capacity = self._capacities.get(partition)
        if capacity is None:
            capacity = self._capacities[partition] = BucketCapacity(self._limits, self._held(partition))
        return capacity.give(count, *self._share)


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows to write, those of a key in their order.

    Attributes:
        rows: the numbers of those that were placed.
        deletes: which of them are written as deletes, so that their keys leave a partition.
        partitions: arity + BinaryRow.
        targets: the partition that each goes to.
        buckets: the bucket of it.
        last: where the last key is now; None where it is nowhere.
    """

    rows: _Ints
    deletes: npt.NDArray[np.bool_]
    partitions: Sequence[bytes]
    targets: _Ints
    buckets: _Ints
    last: PartitionBucket | None

    def taken(self, batch: pa.RecordBatch, schema: TableSchema, kinds: str) -> pa.RecordBatch:
        """The rows of a batch as they are to be written. ``batch``: the rows that were placed. Columns may have other
        types than the table's. ``kinds``: the column that has the kinds of rows, as numbers or as texts."""
        taken = batch.take(from_numpy(self.rows))
        if self.deletes.any():
            old = taken.column(kinds)
            delete = scalar(DELETE if pa.types.is_integer(old.type) else ROW_KINDS[DELETE], old.type)
            taken = _replaced(taken, kinds, pc.if_else(from_numpy(self.deletes), delete, old))
        fields = schema.partition_fields
        values = partition_values(fields, array(self.partitions, pa.binary()))
        for field, column in zip(fields, values.columns, strict=True):
            at = taken.schema.get_field_index(field.name)
            taken = _replaced(taken, field.name, column.take(from_numpy(self.targets)).cast(taken.schema.types[at]))
        return taken

    def pieces(self, rows: pa.RecordBatch, schema: TableSchema) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """The rows, with `VALUE_KIND`, cut by the partition and bucket that they go to."""
        order = np.lexsort((self.buckets, self.targets))
        targets, buckets = self.targets[order], self.buckets[order]
        taken = self.taken(rows, schema, VALUE_KIND).take(from_numpy(order))
        changes = np.flatnonzero((np.diff(targets) != 0) | (np.diff(buckets) != 0)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(order)] if len(order) else ()):
            place = PartitionBucket(self.partitions[targets[start]], int(buckets[start]))
            yield place, taken.slice(start, stop - start)


class Placement:
    """Says where rows go; ``buckets`` gives buckets to keys that are new in a partition."""

    def __init__(self, schema: TableSchema, buckets: NewBuckets) -> None:
        options = TableOptions(schema.options)
        self._fields = schema.partition_fields
        self._engine = str(options.get("merge-engine"))
        self._ignores_deletes = bool(options.get("ignore-delete"))
        self._buckets = buckets

    def place(self, rows: pa.RecordBatch, numbers: _Ints, places: Places) -> Placed:
        """Where rows go, and what has to go where their keys were.

        ``rows``: those of a key one after the other, as they arrived; with the partition columns and `VALUE_KIND`.
        ``numbers``: of each row the number of its key, ascending. ``places``: where each of the keys was before.
        Raises UnsupportedError: a key would have to move, and the table leaves out deletes.
        """
        columns = [rows.column(field.name) for field in self._fields]
        encoded = encode_rows(columns, [field.type for field in self._fields], arity=True)
        coded = pa.concat_arrays([encoded, places.partitions]).dictionary_encode()
        codes = to_numpy(pc.fill_null(coded.indices, _NOWHERE)).astype(np.int64)
        partitions, own, old = coded.dictionary.to_pylist(), codes[: len(numbers)], codes[len(numbers) :]
        first = np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]
        begin = np.maximum.accumulate(np.where(first, np.arange(len(numbers)), 0))
        before = old[numbers]
        moves, kept = np.zeros(len(numbers), np.bool_), np.ones(len(numbers), np.bool_)
        if self._engine == "deduplicate":
            targets = _of_last_upsert(own, before, begin, is_retract(rows.column(VALUE_KIND)))
            before = np.where(first, before, np.append(_NOWHERE, targets)[:-1])
            moves = (before != targets) & (before != _NOWHERE)
        else:
            targets = np.where(before == _NOWHERE, own[begin], before)
            if self._engine == "first-row":
                kept = (before == _NOWHERE) & (own == targets)
        if moves.any() and self._ignores_deletes:
            raise UnsupportedError(
                "a key is in another partition than its new row, and can't leave it: the table leaves out deletes "
                "(ignore-delete)",
                hint="alter the table: unset it; or write the row into the partition that its key is in",
            )
        at = np.concatenate([np.flatnonzero(moves), np.flatnonzero(kept)])
        deletes = np.arange(len(at)) < int(moves.sum())
        order = np.lexsort((~deletes, at))
        at, deletes = at[order], deletes[order]
        targets = np.where(deletes, before[at], targets[at])
        buckets = self._buckets_of(partitions, targets, numbers[at], old, places.buckets)
        last = None
        if len(at) and numbers[at[-1]] == len(old) - 1:
            last = PartitionBucket(partitions[targets[-1]], int(buckets[-1]))
        elif len(old) and old[-1] != _NOWHERE:
            last = PartitionBucket(partitions[old[-1]], int(places.buckets[-1]))
        return Placed(at, deletes, partitions, targets, buckets, last)

    def _buckets_of(
        self, partitions: Sequence[bytes], targets: _Ints, numbers: _Ints, old: _Ints, before: npt.NDArray[np.int32]
    ) -> _Ints:
        """The bucket of each row, of the key with this number, in the partition that it goes to."""
        buckets = before[numbers].astype(np.int64)
        fresh = np.flatnonzero(targets != old[numbers])
        pairs, found = np.unique(numbers[fresh] * len(partitions) + targets[fresh], return_inverse=True)
        given = np.zeros(len(pairs), np.int64)
        codes = pairs % max(1, len(partitions))
        for code in np.unique(codes).tolist():
            mine = np.flatnonzero(codes == code)
            given[mine] = self._buckets.give(partitions[code], len(mine))
        buckets[fresh] = given[found.reshape(-1)]
        return buckets


def _of_last_upsert(own: _Ints, before: _Ints, begin: _Ints, retracts: npt.NDArray[np.bool_]) -> _Ints:
    """Where each row goes with the engine deduplicate: an upsert to its own partition, a delete to where its key is."""
    last = np.maximum.accumulate(np.where(retracts, _NOWHERE, np.arange(len(own))))
    return np.where(last >= begin, own[np.maximum(last, 0)], np.where(before == _NOWHERE, own[begin], before))


def _replaced(rows: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    columns = [*rows.columns[:at], column, *rows.columns[at + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
