"""Where rows go whose primary key does not hold all partition columns: a key is in one partition, and may move.

Rows come in the order of their keys, and those of a key as they arrived, with the place that the key had before. What
becomes of a row whose partition is another one, the merge engine decides: with deduplicate the key is deleted there and
moves; with partial-update and aggregation the row goes into the old partition; with first-row it is left out. Deletes
(-U and -D) go where their key is. (Source: Paimon documentation, concepts/data-distribution, "Cross Partitions Upsert";
Java: classes GlobalIndexAssigner and ExistingProcessor. Java sends a delete to its own partition as well.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.buffers import array, from_numpy, to_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.merge.key_values import DELETE, VALUE_KIND, is_retract
from paimon_pyds.merge.order_codes import order_codes
from paimon_pyds.metadata.partition import PartitionBucket, partition_values
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.row import encode_rows

_Ints = npt.NDArray[np.int64]
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Places:
    """Where keys are, each with the number of its row.

    Attributes:
        partitions: arity + BinaryRow; NULL for a key that is in none.
        buckets: of these partitions; what it is without one does not matter.
    """

    partitions: pa.BinaryArray
    buckets: npt.NDArray[np.int32]


class NewBuckets:
    """Gives new keys of a partition buckets: the first ones that have room, then further ones.

    Args:
        options: the table's: ``dynamic-bucket.target-row-num`` and ``dynamic-bucket.max-buckets``.
        held: how many keys each bucket of a partition has, about; is asked once for each partition.
        share: (i, n) for the one of n assigners side by side that gives buckets i, i + n, i + 2·n, … only.
    """

    def __init__(
        self, options: TableOptions, held: Callable[[bytes], Mapping[int, int]], share: tuple[int, int] = (0, 1)
    ) -> None:
        self._target = max(1, int(options.get("dynamic-bucket.target-row-num")))
        most = int(options.get("dynamic-bucket.max-buckets"))
        self._most = most if most > 0 else None
        self._held = held
        self._share = share
        self._rows: dict[bytes, dict[int, int]] = {}

    def give(self, partition: bytes, count: int) -> npt.NDArray[np.int32]:
        """The buckets of so many new keys."""
        rows = self._rows.get(partition)
        if rows is None:
            rows = self._rows[partition] = dict(self._held(partition))
        parts: list[tuple[int, int]] = []
        bucket, step = self._share
        while count:
            if self._most is not None and bucket >= self._most:
                parts += self._spread(rows, count)
                break
            room = min(count, max(0, self._target - rows.get(bucket, 0)))
            if room:
                parts.append((bucket, room))
                rows[bucket] = rows.get(bucket, 0) + room
                count -= room
            bucket += step
        return np.repeat([b for b, _ in parts], [n for _, n in parts]).astype(np.int32)

    def _spread(self, rows: dict[int, int], count: int) -> Iterator[tuple[int, int]]:
        """As many keys for each of the buckets that there may be: all of them are full."""
        assert self._most is not None
        first, step = self._share
        own = range(first, self._most, step) or range(self._most)
        for number, bucket in enumerate(own):
            part = (count + number) // len(own)
            rows[bucket] = rows.get(bucket, 0) + part
            yield bucket, part


class Placement:
    """Cuts rows by the partition and bucket that they go to.

    Args:
        schema: the table's, with the options of the write.
        buckets: gives buckets to keys that are new in a partition.

    Raises:
        UnsupportedError: see `place`.
    """

    def __init__(self, schema: TableSchema, buckets: NewBuckets) -> None:
        self._schema = schema
        options = TableOptions(schema.options)
        self._engine = str(options.get("merge-engine"))
        self._ignores_deletes = bool(options.get("ignore-delete"))
        self._buckets = buckets
        self._last: tuple[pa.RecordBatch, PartitionBucket] | None = None
        """The last key that was placed, and where it is now: more of its rows may come."""

    def distinct(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, _Ints]:
        """The keys of rows in the order of keys, each once; and of each row the number of its key."""
        keys = rows.select(list(self._schema.primary_keys))
        codes = order_codes(keys.columns)
        begins = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
        return keys.take(from_numpy(np.flatnonzero(begins))), np.cumsum(begins) - 1

    def place(
        self, rows: pa.RecordBatch, find: Callable[[pa.RecordBatch], Places]
    ) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """The rows in pieces of one bucket each, with deletes where keys move; those of a key in their order.

        Args:
            rows: in the order of their keys, which go on from those of the call before; with `VALUE_KIND`.
            find: tells of some keys where they were before the write.

        Raises:
            UnsupportedError: a key would have to move, and the table leaves out deletes.
        """
        if not rows.num_rows:
            return
        keys, numbers = self.distinct(rows)
        targets = _Targets(self._schema, rows, self._known(keys, find(keys)))
        before, places = targets.old[numbers], targets.own
        first = np.append(True, numbers[1:] != numbers[:-1])
        moves = np.zeros(len(numbers), np.bool_)
        kept = np.ones(len(numbers), np.bool_)
        if self._engine == "deduplicate":
            places = _of_last_upsert(targets.own, before, first, is_retract(rows.column(VALUE_KIND)))
            before = np.where(first, before, np.append(_NOWHERE, places[:-1]))
            moves = (before != places) & (before != _NOWHERE)
        else:
            begin = np.flatnonzero(first)[numbers]
            places = np.where(before == _NOWHERE, targets.own[begin], before)
            if self._engine == "first-row":
                kept = (before == _NOWHERE) & (targets.own == places)
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
        target = np.where(deletes, before[at], places[at])
        buckets = self._buckets_of(targets, numbers[at], target)
        yield from targets.pieces(at, deletes, target, buckets)
        if len(at):
            end = PartitionBucket(targets.partitions[target[-1]], int(buckets[-1]))
            self._last = (keys.slice(keys.num_rows - 1), end) if numbers[at[-1]] == numbers[-1] else None

    def _known(self, keys: pa.RecordBatch, found: Places) -> Places:
        """The places of keys as they are now: rows of the first key may have been placed by the call before."""
        if self._last is None:
            return found
        last, place = self._last
        codes = order_codes([pa.concat_arrays(pair) for pair in zip(last.columns, keys.columns, strict=True)])
        if codes[0] != codes[1]:
            return found
        rest = found.partitions.slice(1)
        buckets = found.buckets.copy()
        buckets[0] = place.bucket
        return Places(pa.concat_arrays([array([place.partition], rest.type), rest]), buckets)

    def _buckets_of(self, targets: _Targets, numbers: _Ints, target: _Ints) -> _Ints:
        """The bucket of each row, of the key with this number, in the partition that it goes to."""
        buckets = np.where(target == targets.old[numbers], targets.buckets[numbers], _NOWHERE).astype(np.int64)
        fresh = np.flatnonzero(buckets == _NOWHERE)
        pairs, found = np.unique(numbers[fresh] * len(targets.partitions) + target[fresh], return_inverse=True)
        given = np.zeros(len(pairs), np.int64)
        partitions = pairs % len(targets.partitions)
        for code in np.unique(partitions):
            mine = np.flatnonzero(partitions == code)
            given[mine] = self._buckets.give(targets.partitions[code], len(mine))
        buckets[fresh] = given[found.reshape(-1)]
        return buckets


def _of_last_upsert(own: _Ints, before: _Ints, first: npt.NDArray[np.bool_], retracts: npt.NDArray[np.bool_]) -> _Ints:
    """Where each row goes with the engine deduplicate: an upsert to its own partition, a delete to where its key is."""
    rows = np.arange(len(own))
    begin = np.maximum.accumulate(np.where(first, rows, 0))
    last = np.maximum.accumulate(np.where(retracts, _NOWHERE, rows))
    return np.where(last >= begin, own[np.maximum(last, 0)], np.where(before == _NOWHERE, own[begin], before))


class _Targets:
    """Rows, and partitions as numbers.

    Attributes:
        partitions: arity + BinaryRow.
        own: that of each row.
        old, buckets: where each key was before.
    """

    def __init__(self, schema: TableSchema, rows: pa.RecordBatch, places: Places) -> None:
        self._rows = rows
        self._fields = schema.partition_fields
        columns = [rows.column(field.name) for field in self._fields]
        own = encode_rows(columns, [field.type for field in self._fields], arity=True)
        coded = pa.concat_arrays([own, places.partitions]).dictionary_encode()
        codes = to_numpy(coded.indices.fill_null(_NOWHERE)).astype(np.int64)
        self.partitions: list[bytes] = coded.dictionary.to_pylist()
        self.own, self.old = codes[: rows.num_rows], codes[rows.num_rows :]
        self.buckets = places.buckets

    def pieces(
        self, at: _Ints, deletes: npt.NDArray[np.bool_], target: _Ints, buckets: _Ints
    ) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        """Rows, some of them as deletes, cut by the partition and bucket that they go to."""
        order = np.lexsort((buckets, target))
        at, deletes, target, buckets = at[order], deletes[order], target[order], buckets[order]
        rows = self._rows.take(from_numpy(at))
        if deletes.any():
            kinds = np.where(deletes, np.int8(DELETE), to_numpy(rows.column(VALUE_KIND))).astype(np.int8)
            rows = _replaced(rows, VALUE_KIND, from_numpy(kinds))
        if (target != self.own[at]).any():
            values = partition_values(self._fields, array(self.partitions, pa.binary()))
            for field, column in zip(self._fields, values.columns, strict=True):
                rows = _replaced(rows, field.name, column.take(from_numpy(target)))
        changes = np.flatnonzero((np.diff(target) != 0) | (np.diff(buckets) != 0)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(at)]):
            if stop > start:
                place = PartitionBucket(self.partitions[target[start]], int(buckets[start]))
                yield place, rows.slice(start, stop - start)


def _replaced(rows: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = rows.schema.get_field_index(name)
    columns = [*rows.columns[:at], column, *rows.columns[at + 1 :]]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
