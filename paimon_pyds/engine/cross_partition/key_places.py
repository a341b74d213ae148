"""The partition and bucket of each key, in tables whose primary key does not hold all partition columns.

Keys come in their order, part by part. Few of them are looked up, in the pages that may have them. For more, the key
columns of files are read from the least key of the part to the greatest, and joined: as files are sorted by key, all
parts together read them once. Java Paimon loads all keys of the table into RocksDB first, whatever is written.

Measured with 1 million keys, a third of them new, and a table of 3 million in 20 partitions, in seconds of processor
time: 0.6 joined, 6.5 with look-ups alone, and 4.4 with an embedded store (sqlite3, of the standard library) that is
filled with all keys and searched for these. With 1,000 keys it is 0.1 looked up, 0.4 joined.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, grouped, one_batch, pc, scalar, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import encode_rows
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.base.zones import local_clock_ms
from paimon_pyds.engine.cross_partition.placement import Places
from paimon_pyds.engine.query.lookup import SortedKeys, matching, rows_with_keys
from paimon_pyds.engine.read import read_splits
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.engine.scan.travel import Additions, TableState
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.errors import PaimonError, UnsupportedError
from paimon_pyds.keys.merge.grouped_rows import Positions
from paimon_pyds.keys.merge.key_set import between
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.keys.merge.order_codes import comparable
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import Files, sections
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const, Predicate

_BUCKET = "__paimon_bucket"
FEW_KEYS = 1024
"""Keys up to which each is looked up. More of them are spread over most pages of a file of millions of rows."""
_BATCH_ROWS = 131_072
"""Rows of a batch of stored keys."""
_JOINED_ROWS = 1 << 20
"""Rows of stored keys that are joined with the new ones at a time, to bound memory."""


@dataclass(frozen=True)
class KeyPlaces:
    """The keys of one state of a table.

    Attributes:
        store: the table.
        schema: its schema, with the options of the operation.
        snapshot: the state; None for a table without rows.
        replaced: which of some partitions go with the operation: what is in them counts for nothing, and in the others
            there may be no key of its rows. None where none go.
        only_new: whether keys that are somewhere are refused.
    """

    store: TableStore
    schema: TableSchema
    snapshot: Snapshot | None
    replaced: Callable[[Sequence[bytes]], set[bytes]] | None = None
    only_new: bool = False

    @classmethod
    def of(cls, store: TableStore, context: WriteContext, snapshot: Snapshot | None) -> KeyPlaces:
        """Those of a state of the table that a write begins with."""
        return cls(store, replace(context.schema, options=context.raw_options), snapshot)

    @cached_property
    def options(self) -> TableOptions:
        """The table's, with which reads see what is not compacted yet, too."""
        options = dict(self.schema.options)
        if TableOptions(options).get("deletion-vectors.enabled"):
            options["deletion-vectors.merge-on-read"] = "true"
        if TableOptions(options).get("merge-engine") == "first-row":
            options["merge-engine"] = "deduplicate"  # it has the same keys
        return TableOptions(options)

    def find(self, keys: pa.RecordBatch) -> Places:
        """Where keys are.

        ``keys``: distinct ones in their order, with the columns of the primary key.

        Raises:
            PaimonError: one of them is in two places.
            UnsupportedError: one is in a place that `replaced` or `only_new` excludes.
            CorruptFileError, SnapshotNotFoundError, StorageError: a file can't be read.
        """
        found = None if self.snapshot is None or not keys.num_rows else self._rows(keys)
        if found is None or not found.num_rows:
            return _nowhere(keys)
        rows = one_batch(found)
        kept, numbers = self._matching(keys, rows)
        rows = rows.take(from_numpy(kept))
        at = np.full(keys.num_rows, -1, np.int64)
        at[numbers] = np.arange(len(numbers))
        if int((at >= 0).sum()) < len(numbers) and not self.may_repeat:
            raise self.in_two_places(_named(keys.slice(int(numbers[np.argmax(np.bincount(numbers)[numbers] > 1)]), 1)))
        parts = self.schema.partition_fields
        partitions = encode_rows([rows.column(f.name) for f in parts], [f.type for f in parts], arity=True)
        if self.only_new and len(numbers):
            raise UnsupportedError(
                f"the key {_named(keys.slice(int(numbers[0]), 1))} of a row to insert is in the table, and the merge "
                "moves rows between partitions, perhaps that one too",
                path=self.store.root,
                hint="let the rows match by all columns of the primary key, and no other condition",
            )
        if self.replaced is not None:
            return self._none_elsewhere(keys, partitions, numbers)
        where = from_numpy(at)
        where = pc.if_else(pc.less(where, 0), scalar(None, pa.int64()), where)
        buckets = pc.fill_null(rows.column(_BUCKET).take(where), 0)
        return Places(partitions.take(where), to_numpy(buckets).astype(np.int32))

    def _none_elsewhere(self, keys: pa.RecordBatch, partitions: pa.Array, numbers: Positions) -> Places:
        assert self.replaced is not None
        there = partitions.unique().to_pylist()
        others = pc.invert(pc.is_in(partitions, array(self.replaced(there), pa.binary())))
        if pc.any(others, min_count=0).as_py():
            key = keys.slice(int(numbers[pc.index(others, scalar(True)).as_py()]), 1)
            raise UnsupportedError(
                f"the key {_named(key)} is in a partition that is not overwritten",
                path=self.store.root,
                hint="delete it first, append the row, or overwrite that partition, too",
            )
        return _nowhere(keys)

    @property
    def first_key(self) -> DataField:
        """The first column of the primary key."""
        return self.schema.field(self.schema.primary_keys[0])

    @property
    def may_repeat(self) -> bool:
        """Whether a key may be in several partitions, as old files are not looked through."""
        return self._ttl is not None

    def in_two_places(self, key: str = "of a row") -> PaimonError:
        """The error for a key that is in two places."""
        return PaimonError(
            f"the key {key} is in two partitions or buckets: two jobs have written it at the same time",
            path=self.store.root,
            hint="delete its rows, and write it again",
        )

    def _rows(self, keys: pa.RecordBatch) -> pa.Table:
        most = int(self.options.get("cross-partition-upsert.bootstrap-parallelism"))
        threads = max(1, min(most, os.cpu_count() or 1))
        if keys.num_rows <= FEW_KEYS:
            wanted = SortedKeys(self.schema, keys, self.store.schemas)
            plan = self.plan(wanted.predicate)
            return rows_with_keys(plan.spec, plan.files, wanted, threads)
        plan = self.plan(between(self.first_key, keys.column(0)))
        return self._joined(keys, read_splits(plan.spec, plan.files, _BATCH_ROWS, threads=threads))

    def _joined(self, keys: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
        """The rows that have one of the keys."""
        found, waiting = [], 0
        parts: list[pa.RecordBatch] = []
        for batch in chain(batches, [None]):
            if batch is not None:
                parts.append(batch)
                waiting += batch.num_rows
            if parts and (batch is None or waiting > _JOINED_ROWS):
                rows = one_batch(pa.Table.from_batches(parts))
                found.append(rows.take(from_numpy(self._matching(keys, rows)[0])))
                parts, waiting = [], 0
        return pa.Table.from_batches(found) if found else None

    def _matching(self, keys: pa.RecordBatch, rows: pa.RecordBatch) -> tuple[Positions, Positions]:
        """As `matching`; keys of one column are put into a hash table."""
        fields = [self.schema.field(name) for name in self.schema.primary_keys]
        if len(fields) > 1 or fields[0].type.kind is Kind.CHAR:
            return matching(fields, keys, rows.select([field.name for field in fields]))
        (wanted,), (own,) = comparable(keys.columns), comparable([rows.column(fields[0].name)])
        numbers = pc.index_in(own, value_set=wanted)
        kept = np.flatnonzero(to_numpy(numbers.is_valid()))
        return kept, to_numpy(numbers.take(from_numpy(kept))).astype(np.int64)

    def plan(self, predicate: Predicate = Const.TRUE) -> ScanPlan:
        """What reads the keys, partition columns and buckets of rows that a predicate on keys keeps."""
        names = {*self.schema.primary_keys, *self.schema.partition_keys}
        fields = self.schema.fields
        request = ScanRequest(
            TableState(self.snapshot, self.schema),
            predicate,
            tuple(f for f in fields if f.name in names),
            self.options,
            metadata_columns=(_BUCKET,),
        )
        plan = plan_scan(self.store, request)
        return plan if self._ttl is None else replace(plan, found=Files(self._young(plan.files)))

    def added_by(self, snapshot: Snapshot) -> Callable[[pa.RecordBatch], bool]:
        """Says whether a snapshot added versions, deletes among them, of any of some keys.

        Raises (what it gives):
            SnapshotNotFoundError: a file is gone.
            CorruptFileError, StorageError: a file can't be read.
        """
        names = self.schema.primary_keys
        fields = tuple(self.schema.field(name) for name in names)
        request = ScanRequest(
            TableState(snapshot, self.schema), Const.TRUE, (*fields, *KEY_VALUE_FIELDS[1:]), self.options,
            between=Additions((snapshot,)),
        )  # fmt: skip

        def has_any(keys: pa.RecordBatch) -> bool:
            wanted = SortedKeys(self.schema, keys, self.store.schemas)
            plan = plan_scan(self.store, replace(request, predicate=wanted.predicate))
            rows = one_batch(rows_with_keys(plan.spec, plan.files, wanted).select(list(names)))
            return len(matching(fields, keys, rows)[0]) > 0

        return has_any

    @cached_property
    def _ttl(self) -> int | None:
        ttl: int | None = self.options.get("cross-partition-upsert.index-ttl")
        return ttl

    @cached_property
    def _old_files(self) -> frozenset[str]:
        """The files that were made longer ago than keys are looked for."""
        assert self._ttl is not None
        entries = ManifestReader(self.store).live_files(self.snapshot, ("file_name", "creation_time"))
        oldest = time.time_ns() // 1_000_000 - self._ttl
        oldest = min(oldest, local_clock_ms(oldest))  # files that were written here before have the clock of UTC
        old = pc.less(pc.fill_null(entries["creation_time"], 0), oldest)
        return frozenset(entries["file_name"].filter(old).to_pylist())

    def _young(self, files: tuple[PlannedFile, ...]) -> tuple[PlannedFile, ...]:
        """The files of sections that have a file younger than the limit. (Java: IndexBootstrap.filterSplit, by
        splits.)"""
        kept = (section for section in sections(files) if any(file.name not in self._old_files for file in section))
        return tuple(file for section in kept for file in section)

    def held(self, partition: bytes) -> Mapping[int, int]:
        """An estimate of the number of keys of each bucket of a partition, by row counts: each delete counts as one key
        less, and keys with several versions count several times until they are compacted."""
        if self.snapshot is None or self.replaced is not None:
            return {}
        wanted = EntryFilter(self.schema, partitions=frozenset({partition}))
        names = ("bucket", "row_count", "delete_row_count")
        live = pa.Table.from_batches([ManifestReader(self.store, wanted).live_files(self.snapshot, names)])
        rows = pc.subtract(live["row_count"], pc.multiply(pc.fill_null(live["delete_row_count"], 0), 2))
        sums = grouped(pa.table({"bucket": live["bucket"], "rows": rows}), ["bucket"], [("rows", "sum")])
        return dict(zip(sums["bucket"].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))


def _nowhere(keys: pa.RecordBatch) -> Places:
    return Places(pa.nulls(keys.num_rows, pa.binary()), np.zeros(keys.num_rows, np.int32))


def _named(key: pa.RecordBatch) -> str:
    return ", ".join(f"{name} = {key.column(name)[0]}" for name in key.schema.names)
