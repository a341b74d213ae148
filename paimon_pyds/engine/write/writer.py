"""TableWriter: Arrow batches → route (partition, bucket) → bucket writers → commit message.

Where rows go is decided by a bucket assigner, how the rows of a bucket are written by a bucket writer. Between them
rows wait here, in bounded memory and with a bounded number of open files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, one_batch
from paimon_pyds.base.sort.spill import SpillFile, spill_codec
from paimon_pyds.engine.write.bucket_writer import BucketWriter, open_bucket_writer
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.incoming import IncomingRows
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.engine.write.router import Router
from paimon_pyds.engine.write.sequence_numbers import SequenceNumbers
from paimon_pyds.engine.write.small_files import SMALL_ROWS, AppendedRows, SmallFilesWriter
from paimon_pyds.errors import SnapshotNotFoundError, StorageError
from paimon_pyds.keys.bucket import BucketAssigner, Known, bucket_assigner
from paimon_pyds.keys.bucket.assigner import OneBucket, PlacedRows
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage, KeyHashes, WriteOrigin
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard

if TYPE_CHECKING:
    from paimon_pyds.keys.bucket.dynamic import IndexedBuckets, KeyShare
    from paimon_pyds.keys.bucket.hash_index import HashIndex

GATHER_ROWS = 131_072
"""Small batches (Spark's have 10,000 rows) are gathered up to this many rows before they are encoded."""
ROUTE_BYTES = 16 << 20
"""Bytes of batches that are cut by bucket at once: cutting each batch into thousands of rows costs time and memory."""
BUFFER_BYTES = 128 << 20
"""Bytes gathered over all buckets before they are written out, at most: bounds memory with many partitions."""
_PIECE_BYTES = 512
"""What an Arrow array costs besides its values."""
OPEN_BYTES = 384 << 20
"""Bytes in files still being gathered, over all buckets, before the fullest file is closed early."""
PARALLEL_BUCKETS = 2
"""Buckets whose files are encoded, and whose rows are merged, at a time at most."""
_SIDE_BY_SIDE_BYTES = 128 << 20
"""Bytes of rows in all buckets up to which these are merged side by side: each needs as much again meanwhile."""

# Rows of more buckets than files may be open (write-max-writers-to-spill) wait in one temporary file and are written
# bucket by bucket at the end, so that each bucket gets one file. Measured with 20 million rows scattered over 1,100
# partitions: 32 s of processor time, 254 MiB and 1,100 files; with all files open and the fullest closed early where
# memory ends it took 36 s, 964 MiB and made 1,653 files, which multiply with the rows.


@dataclass(slots=True)
class _Gathered:
    """Batches that are put together before they are used."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return self.size - sum(_piece_bytes(batch) for batch in self.batches)

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes + _piece_bytes(batch)

    def joined(self) -> pa.RecordBatch:
        return self.batches[0] if len(self.batches) == 1 else one_batch(pa.Table.from_batches(self.batches))


def _piece_bytes(batch: pa.RecordBatch) -> int:
    """What the arrays of a batch cost besides their values."""
    return _PIECE_BYTES * (int(batch.num_columns) + 1)


def joined_batches(
    batches: Iterable[pa.RecordBatch], rows: int = GATHER_ROWS, size: int = ROUTE_BYTES
) -> Iterator[pa.RecordBatch]:
    """The rows in batches that are worth a visit, and never so large that an Arrow array of texts can't hold them.

    ``batches``: of any size. ``rows``: how many make a batch worth a visit. ``size``: bytes that do so.
    """
    part = _Gathered()
    for batch in batches:
        if part.batches and part.size + batch.nbytes > BUFFER_BYTES:
            yield part.joined()
            part = _Gathered()
        part.add(batch)
        if part.rows >= rows or part.size >= size:
            yield part.joined()
            part = _Gathered()
    if part.batches:
        yield part.joined()


class TableWriter:
    """Writes rows into new data files of a table. Nothing is visible until the message is committed.

    Use as ``with TableWriter(context) as writer``: leaving on an error aborts and removes the files.

    Args:
        context: the table as it is written to.
        task: index of the task among those of one job; None for the only writer. Tasks of a job may write to the same
            buckets: their rows get numbers of their own in a table with a primary key.
        keys: which ones the writer gets all rows of, where keys are put into dynamic buckets; by default all when it is
            the only writer, else any task may get rows of any key.
        bucket: the one that all rows belong to, or the column that has the dynamic bucket of each; None where the table
            says which.
        small_rows: of a bucket for its file to be written together with others.

    Raises:
        OptionError: options that don't fit the table, or an index that is out of range.
    """

    def __init__(
        self,
        context: WriteContext,
        task: int | None = None,
        keys: KeyShare | None = None,
        bucket: int | str | None = None,
        small_rows: int = SMALL_ROWS,
    ) -> None:
        self._context = context
        self._numbers: SequenceNumbers | None = None
        self._most_held, self._most_gathered = OPEN_BYTES, BUFFER_BYTES
        if context.schema.primary_keys:
            self._numbers = SequenceNumbers(context, task)
            buffer = int(context.options.get("write-buffer-size"))
            self._most_held = min(buffer, OPEN_BYTES)
            self._most_gathered = min(max(buffer, ROUTE_BYTES), BUFFER_BYTES)
        self._incoming = IncomingRows(context, bucket if isinstance(bucket, str) else None)
        self._indexed: IndexedBuckets | None = None
        if isinstance(bucket, int):
            self._assigner: BucketAssigner = OneBucket(bucket, int(context.options.get("bucket")))
        elif context.schema.crosses_partitions:
            self._assigner = PlacedRows(bucket)
        elif bucket is not None:
            from paimon_pyds.keys.bucket.dynamic import AssignedBuckets

            self._assigner = self._indexed = AssignedBuckets(context.schema, hash_index(context), bucket)
        elif context.schema.has_dynamic_buckets:
            from paimon_pyds.keys.bucket.dynamic import DynamicBuckets, KeyShare

            alone = keys is None and task is None
            share, index = KeyShare() if alone else keys, hash_index(context, alone=alone)
            self._indexed = DynamicBuckets(context.schema, context.options, index, share, alone=alone)
            self._assigner = self._indexed
        else:
            self._assigner = bucket_assigner(context.schema, context.options, self._known_buckets())
        self._hash_files: list[str] = []
        self._router = Router(context.schema, self._assigner, bucket if isinstance(bucket, str) else None)
        self._unrouted = _Gathered()
        self._gathered: dict[PartitionBucket, _Gathered] = {}
        self._held = 0
        self._writers: dict[PartitionBucket, BucketWriter] = {}
        self._open_bytes: dict[PartitionBucket, int] = {}
        self._recent: set[PartitionBucket] = set()
        self._most_open = max(1, int(context.options.get("write-max-writers-to-spill")))
        self._most_spilled = int(context.options.get("write-buffer-spill.max-disk-size"))
        codec = spill_codec(str(context.options.get("spill-compression")))
        self._spillable = bool(context.options.get("write-buffer-spillable"))
        self._spill: SpillFile[PartitionBucket] = SpillFile(codec, "rows of many buckets")
        self._threads = [WriterThreads() for _ in range(PARALLEL_BUCKETS)]
        self._small_rows = small_rows
        self._small: SmallFilesWriter | None = None
        self.rows_written = 0
        self._check_partition: Callable[[bytes], None] | None = None
        if context.options.get("partition.timestamp-format.strict"):
            from paimon_pyds.metadata.partition_time import strict_check

            self._check_partition = strict_check(context.schema, context.options)

    def _known_buckets(self) -> Known:
        """How many buckets partitions have, which is looked up where some may have others than the option says."""
        context = self._context
        fixed = int(context.options.get("bucket")) > 0
        alike = context.schema.id == 0 and not context.schema.partition_keys
        if fixed and (alike or context.replaces or "bucket" in context.dynamic_options):
            return lambda partition: None
        return (self._numbers or SequenceNumbers(context)).total_buckets

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.abort()
        self._shutdown()

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Take rows; columns are matched by name.

        Raises:
            SchemaError: the data does not fit the table.
            StorageError: the storage is full or refuses.
        """
        for batch in data.to_batches() if isinstance(data, pa.Table) else [data]:
            if batch.num_rows == 0:
                continue
            fitting = self._incoming.conform(batch)
            self.rows_written += fitting.num_rows
            if fitting.num_rows == 0:
                continue
            if self._router.one_target:
                self._gather(*next(self._router.route(fitting)))
                continue
            if self._unrouted.size + fitting.nbytes > ROUTE_BYTES:
                self._route_rows()
            self._unrouted.add(fitting)

    def write_placed(self, place: PartitionBucket, rows: pa.RecordBatch) -> None:
        """Take rows of one bucket, as `IncomingRows` gives them."""
        self.rows_written += rows.num_rows
        self._gather(place, rows)

    def prepare_commit(self) -> CommitMessage:
        """Finish all files; the message that publishes them."""
        try:
            self._route_rows()
            small = self._write_small()
            self._write_all()
            written = [*small, *(bucket for bucket in self._closed() if bucket.files or bucket.changelog_files)]
            origin = self._origin() if written else None
            message = CommitMessage(tuple(replace(bucket, origin=origin) for bucket in self._with_hashes(written)))
            if self._numbers is None and message.row_count != self.rows_written:
                raise StorageError(
                    f"{self.rows_written:,} rows were taken, {message.row_count:,} are in the files",
                    path=self._context.root,
                )
            return message
        except BaseException:
            self.abort()
            raise
        finally:
            self._shutdown()

    def _write_small(self) -> list[BucketFiles]:
        """Write the rows of the buckets that have few, and no writer yet, each to a file."""
        begun = {*self._writers, *self._spill.keys}
        few = [key for key, gathered in self._gathered.items() if gathered.rows <= self._small_rows]
        few = [key for key in few if key not in begun and key.bucket != POSTPONE_BUCKET]
        small = self._small = _small_files(self._context, self._numbers, self._small_rows) if few else None
        if small is None:
            return []
        keys = [key for key in few if small.takes(self._gathered[key].rows, self._gathered[key].nbytes)]
        return small.write(self._new_buckets(keys), [self._gathered.pop(key).joined() for key in keys]) if keys else []

    def _closed(self) -> list[BucketFiles]:
        """All writers closed: some at a time where their rows are few."""
        writers = self._writers.values()
        if any(w.spilled_bytes for w in writers) or sum(w.held_bytes for w in writers) > _SIDE_BY_SIDE_BYTES:
            return [writer.close() for writer in writers]
        with ThreadPoolExecutor(PARALLEL_BUCKETS, "paimon-close") as pool:
            return list(pool.map(lambda writer: writer.close(), writers))

    def _with_hashes(self, written: Sequence[BucketFiles]) -> Sequence[BucketFiles]:
        """The files written to buckets, with the hashes of keys that are new in them."""
        if self._indexed is None:
            return written
        keys = [PartitionBucket(bucket.partition, bucket.bucket) for bucket in written]
        hashes = self._indexed.write_hashes(set(keys), self._hash_files)
        return [replace(bucket, hashes=KeyHashes(*hashes[key])) for key, bucket in zip(keys, written, strict=True)]

    def _origin(self) -> WriteOrigin:
        context = self._context
        latest = TableStore(context.io, context.root, context.branch).latest_snapshot()
        found = ("", 0) if latest is None else (latest.delta_manifest_list, latest.id)
        return WriteOrigin(context.schema.id, context.schema_digest, found[1], found[0])

    def abort(self) -> None:
        """Remove every file written so far."""
        for writer in self._writers.values():
            writer.abort()
        if self._small is not None:
            self._small.abort()
        discard(self._context.io, self._hash_files)
        self._writers.clear()
        self._gathered.clear()
        self._shutdown()

    def _shutdown(self) -> None:
        self._spill.close()
        for threads in self._threads:
            threads.shutdown()

    def _route_rows(self) -> None:
        """Cut the rows that wait for it by bucket."""
        if self._unrouted.batches:
            waiting, self._unrouted = self._unrouted, _Gathered()
            for key, part in self._router.route(waiting.joined()):
                self._gather(key, part)

    def _gather(self, key: PartitionBucket, batch: pa.RecordBatch) -> None:
        gathered = self._gathered.setdefault(key, _Gathered())
        before = gathered.size
        gathered.add(batch)
        # A part keeps the batch in memory that it was cut from, so that nothing is free before all are written.
        self._held += gathered.size - before
        if gathered.rows >= GATHER_ROWS and self._has_room(key):
            self._flush(key)
        if not self._gathered:
            self._held = 0
        elif self._held > self._most_gathered:
            self._free_memory()

    def _has_room(self, key: PartitionBucket) -> bool:
        return key in self._open_bytes or len(self._open_bytes) < self._most_open

    def _free_memory(self) -> None:
        """Write out all that is gathered: to files while some may be opened, the fullest first; the others spill."""
        for key in self._open_bytes.keys() - self._gathered.keys() - self._recent:
            self._close(key)  # rows that come in order of partitions are done with this one
        self._recent.clear()
        for key in sorted(self._gathered, key=lambda k: (k not in self._open_bytes, -self._gathered[k].size)):
            if self._has_room(key):
                self._flush(key)
            else:
                for part in joined_batches(self._gathered.pop(key).batches):
                    self._spill.add(key, part)
        self._held = 0
        if self._spill.size > self._most_spilled:
            self._write_all()
            self._spill.close()

    def _write_all(self) -> None:
        """Write all rows that are gathered or spilled, bucket by bucket."""
        for key in dict.fromkeys([*self._open_bytes, *self._spill.keys, *self._gathered]):
            while not self._has_room(key):
                self._close(next(iter(self._open_bytes)))
            self._flush(key)

    def _flush(self, key: PartitionBucket) -> None:
        """Write the rows of a bucket: those that were spilled, then those that are gathered."""
        gathered = self._gathered.pop(key, None) or _Gathered()
        for batch in joined_batches(chain(self._spill.take(key), gathered.batches)):
            # A piece of a routed batch keeps the whole batch in memory.
            if not self._router.one_target and 2 * batch.nbytes < batch.get_total_buffer_size():
                batch = batch.take(from_numpy(np.arange(batch.num_rows)))
            self._writer(key).write(batch)
            self._recent.add(key)
            self._bound_open_files(key)

    def _close(self, key: PartitionBucket) -> None:
        self._writers[key].flush()
        del self._open_bytes[key]

    def _bound_open_files(self, key: PartitionBucket) -> None:
        """Free memory when many buckets hold rows at once: by spilling, or by smaller files."""
        self._open_bytes[key] = self._writers[key].held_bytes
        while sum(self._open_bytes.values()) > self._most_held:
            fullest = max(self._open_bytes, key=lambda k: self._open_bytes[k])
            if self._spillable and self._writers[fullest].spill():
                self._open_bytes[fullest] = self._writers[fullest].held_bytes
            else:
                self._close(fullest)
        while self._spillable and sum(self._writers[k].spilled_bytes for k in self._open_bytes) > self._most_spilled:
            self._close(max(self._open_bytes, key=lambda k: self._writers[k].spilled_bytes))

    def _writer(self, key: PartitionBucket) -> BucketWriter:
        writer = self._writers.get(key)
        if writer is None:
            [empty] = self._new_buckets([key])
            threads = self._threads[len(self._writers) % len(self._threads)]
            writer = self._writers[key] = open_bucket_writer(self._context, empty, threads, self._numbers)
        return writer

    def _new_buckets(self, keys: Sequence[PartitionBucket]) -> list[BucketFiles]:
        """Buckets that nothing is written to yet."""
        context, partitions = self._context, list(dict.fromkeys(partition for partition, _ in keys))
        if self._check_partition is not None:
            for partition in partitions:
                self._check_partition(partition)
        directories = dict(zip(partitions, context.directories_to_write(partitions), strict=True))
        found = []
        for partition, bucket in keys:
            directory = context.paths.bucket_dir(directories[partition], bucket)
            found.append(BucketFiles(partition, bucket, self._assigner.total_buckets(partition), directory, ()))
        return found


def _small_files(context: WriteContext, numbers: SequenceNumbers | None, rows: int) -> SmallFilesWriter | None:
    """A writer of small files; None where the rows of each bucket need one of their own."""
    if numbers is None:
        layout = context.layout
        own_writers = context.clusters_rows or layout.trailing or layout.references or context.apart_fields
        return None if own_writers else SmallFilesWriter(context, AppendedRows(), rows)
    from paimon_pyds.engine.write.key_files import keys_lose_blanks

    own = context.at_level(0)
    if context.options.get("changelog-producer") == "input" or keys_lose_blanks(own) or context.layout.references:
        return None
    from paimon_pyds.engine.write.small_key_files import MergedRows  # other tables do without merging

    return SmallFilesWriter(own, MergedRows(own, numbers), rows)


def hash_index(context: WriteContext, *, alone: bool = False) -> HashIndex:
    """Where the keys of a table with dynamic buckets are, as a write has to take it. ``alone``: as in
    `DynamicBuckets`."""
    from paimon_pyds.keys.bucket.hash_index import HashIndex

    name = context.index_manifest
    if name is None:
        raise ValueError("rows of a table with dynamic buckets need an index manifest, or their bucket")
    store = TableStore(context.io, context.root, context.branch)
    try:
        entries = store.read_index_manifest(name) if name else ()
    except SnapshotNotFoundError:
        if not alone:
            raise
        entries = store.read_newest(store.index_entries)
    return HashIndex(store, context.schema, entries)
