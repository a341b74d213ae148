"""TableWriter: Arrow batches → route (partition, bucket) → data files → commit message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.bucket import bucket_of
from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.commit_message import BucketFiles, CommitMessage, WriteOrigin
from paimon_pyds.errors import StorageError, UnsupportedError
from paimon_pyds.formats import traits_of
from paimon_pyds.metadata.batches import one_batch
from paimon_pyds.metadata.partition import partition_directory
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.row import EMPTY_ROW, encode_rows
from paimon_pyds.types import arrow_schema
from paimon_pyds.write.conform import Conformer
from paimon_pyds.write.context import WriteContext
from paimon_pyds.write.rolling import RollingWriter
from paimon_pyds.write.spill import BucketSpill

__all__ = ["TableWriter"]

_GATHER_ROWS = 131_072
"""Small batches (Spark's have 10,000 rows) are gathered up to this many rows before they are encoded."""
_ROUTE_BYTES = 16 << 20
"""Bytes of batches that are cut by bucket at once: cutting each batch into thousands of rows costs time and memory."""
_BUFFER_BYTES = 128 << 20
"""Bytes gathered over all buckets before they are written out: bounds memory with many partitions."""
_PIECE_BYTES = 512
"""What an Arrow array costs besides its values."""
_OPEN_BYTES = 384 << 20
"""Bytes in files still being gathered, over all buckets, before the fullest file is closed early."""

# Rows of more buckets than files may be open (write-max-writers-to-spill) wait in one temporary file and are written
# bucket by bucket at the end, so that each bucket gets one file. Measured with 20 million rows scattered over 1,100
# partitions: 32 s of processor time, 254 MiB and 1,100 files; with all files open and the fullest closed early where
# memory ends it took 36 s, 964 MiB and made 1,653 files, which multiply with the rows.

_Key = tuple[bytes, int]


@dataclass(slots=True)
class _Gathered:
    """Batches that are put together before they are used."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes + _PIECE_BYTES * (batch.num_columns + 1)

    def joined(self) -> pa.RecordBatch:
        return self.batches[0] if len(self.batches) == 1 else one_batch(pa.Table.from_batches(self.batches))


def _in_parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches that are worth a visit, and never so large that an Arrow array of texts can't hold them."""
    part = _Gathered()
    for batch in batches:
        if part.batches and part.size + batch.nbytes > _BUFFER_BYTES:
            yield part.joined()
            part = _Gathered()
        part.add(batch)
        if part.rows >= _GATHER_ROWS or part.size >= _ROUTE_BYTES:
            yield part.joined()
            part = _Gathered()
    if part.batches:
        yield part.joined()


class TableWriter:
    """Writes rows into new data files of an append table. Nothing is visible until the message is committed.

    Use as ``with TableWriter(context) as writer``: leaving on an error aborts and removes the files.

    Args:
        context: the table as it is written to.
    """

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._schema = context.schema
        self._conformer = Conformer(
            self._schema.fields,
            context.root,
            trims_char=traits_of(context.file_suffix).trims_char,
            partition_keys=self._schema.partition_keys,
        )
        self._partition_at = [_index(self._schema.fields, name) for name in self._schema.partition_keys]
        self._partition_types = [f.type for f in self._schema.partition_fields]
        self._buckets = int(context.options.get("bucket"))
        if self._buckets == 0 or self._buckets < -1:
            raise UnsupportedError(f"writing to bucket={self._buckets} is not supported", path=context.root)
        keys = context.options.bucket_keys(self._schema) if self._buckets > 0 else ()
        self._bucket_at = [_index(self._schema.fields, name) for name in keys]
        self._routed = bool(self._partition_at or self._bucket_at)
        self._waiting = _Gathered()
        self._gathered: dict[_Key, _Gathered] = {}
        self._held = 0
        self._writers: dict[_Key, RollingWriter] = {}
        self._directories: dict[_Key, str] = {}
        self._open_bytes: dict[_Key, int] = {}
        self._used: set[_Key] = set()
        self._most_open = max(1, int(context.options.get("write-max-writers-to-spill")))
        self._most_spilled = int(context.options.get("write-buffer-spill.max-disk-size"))
        codec = str(context.options.get("spill-compression")).lower()
        self._spill = BucketSpill(arrow_schema(context.fields), codec if codec in ("lz4", "none") else "zstd")
        self._pools = [ThreadPoolExecutor(1, thread_name_prefix=f"paimon-{name}") for name in ("encode", "measure")]
        self.rows_written = 0

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
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        for batch in batches:
            if batch.num_rows == 0:
                continue
            fitting = self._conformer.conform(batch)
            self.rows_written += fitting.num_rows
            if not self._routed:
                self._gather((EMPTY_ROW, 0), fitting)
                continue
            if self._waiting.size + fitting.nbytes > _ROUTE_BYTES:
                self._route_waiting()
            self._waiting.add(fitting)

    def prepare_commit(self) -> CommitMessage:
        """Finish all files; the message that publishes them."""
        try:
            self._route_waiting()
            self._write_all()
            total = self._buckets if self._buckets > 0 else -1
            closed = {key: writer.close() for key, writer in self._writers.items()}
            origin = self._origin() if any(closed.values()) else None
            message = CommitMessage(
                tuple(
                    BucketFiles(*key, total, self._directories[key], files, origin)
                    for key, files in closed.items()
                    if files
                )
            )
            if message.row_count != self.rows_written:
                raise StorageError(
                    f"{self.rows_written:,} rows were given, {message.row_count:,} are in the files",
                    path=self._context.root,
                )
            return message
        except BaseException:
            self.abort()
            raise
        finally:
            self._shutdown()

    def _origin(self) -> WriteOrigin:
        context = self._context
        latest = TableStore(context.io, context.root, context.branch).latest_snapshot()
        found = ("", 0) if latest is None else (latest.delta_manifest_list, latest.id)
        return WriteOrigin(self._schema.id, context.schema_digest, found[1], found[0])

    def abort(self) -> None:
        """Remove every file written so far."""
        for writer in self._writers.values():
            writer.abort()
        self._writers.clear()
        self._gathered.clear()
        self._shutdown()

    def _shutdown(self) -> None:
        self._spill.close()
        for pool in self._pools:
            pool.shutdown(wait=True)

    # ----------------------------------------------------------------------------------------------------- routing

    def _route_waiting(self) -> None:
        if self._waiting.batches:
            waiting, self._waiting = self._waiting, _Gathered()
            for key, part in self._route(waiting.joined()):
                self._gather(key, part)

    def _route(self, batch: pa.RecordBatch) -> Iterator[tuple[_Key, pa.RecordBatch]]:
        """The batch in pieces of one (partition, bucket) each; rows keep their order within a piece."""
        partitions, codes = self._partition_codes(batch)
        if self._bucket_at:
            columns = [batch.column(i) for i in self._bucket_at]
            types = [self._schema.fields[i].type for i in self._bucket_at]
            function = self._context.options.get("bucket-function.type")
            buckets = bucket_of(columns, types, self._buckets, function).astype(np.int64)
            codes = codes * self._buckets + buckets
        first = codes[0]
        if (codes == first).all():
            yield self._key(partitions, int(first)), batch
            return
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(ordered)) + 1, [len(order)]))
        taken = batch.take(from_numpy(order))
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            yield self._key(partitions, int(ordered[start])), taken.slice(start, stop - start)

    def _partition_codes(self, batch: pa.RecordBatch) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        if not self._partition_at:
            return [EMPTY_ROW], np.zeros(batch.num_rows, np.int64)
        codes = np.zeros(batch.num_rows, np.int64)
        for at in self._partition_at:
            coded = pc.dictionary_encode(batch.column(at), null_encoding="encode")
            codes = codes * len(coded.dictionary) + to_numpy(coded.indices)
        _, first, dense = np.unique(codes, return_index=True, return_inverse=True)
        values = [batch.column(at).take(from_numpy(first)) for at in self._partition_at]
        rows = encode_rows(values, self._partition_types, arity=True)
        return rows.to_pylist(), dense.astype(np.int64).reshape(-1)

    def _key(self, partitions: list[bytes], code: int) -> _Key:
        if self._bucket_at:
            return partitions[code // self._buckets], code % self._buckets
        return partitions[code], 0

    # -------------------------------------------------------------------------------------------------- gathering

    def _gather(self, key: _Key, batch: pa.RecordBatch) -> None:
        gathered = self._gathered.setdefault(key, _Gathered())
        before = gathered.size
        gathered.add(batch)
        # A part keeps the batch in memory that it was cut from, so that nothing is free before all are written.
        self._held += gathered.size - before
        if gathered.rows >= _GATHER_ROWS and self._has_room(key):
            self._flush(key)
        if not self._gathered:
            self._held = 0
        elif self._held > _BUFFER_BYTES:
            self._empty()

    def _has_room(self, key: _Key) -> bool:
        return key in self._open_bytes or len(self._open_bytes) < self._most_open

    def _empty(self) -> None:
        """Write out all that is gathered: to files while some may be opened, the fullest first; the others spill."""
        for key in self._open_bytes.keys() - self._gathered.keys() - self._used:
            self._close(key)  # rows that come in order of partitions are done with this one
        self._used.clear()
        for key in sorted(self._gathered, key=lambda k: (k not in self._open_bytes, -self._gathered[k].size)):
            if self._has_room(key):
                self._flush(key)
            else:
                for part in _in_parts(self._gathered.pop(key).batches):
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

    def _flush(self, key: _Key) -> None:
        """Write the rows of a bucket: those that were spilled, then those that are gathered."""
        gathered = self._gathered.pop(key, None) or _Gathered()
        for batch in _in_parts(chain(self._spill.take(key), gathered.batches)):
            if self._routed and 2 * batch.nbytes < batch.get_total_buffer_size():  # a part keeps the whole in memory
                batch = batch.take(from_numpy(np.arange(batch.num_rows)))
            self._writer(key).write(batch)
            self._used.add(key)
            self._bound_open_files(key)

    def _close(self, key: _Key) -> None:
        self._writers[key].roll()
        del self._open_bytes[key]

    def _bound_open_files(self, key: _Key) -> None:
        """Close the fullest files when many buckets gather row groups at once: smaller files, bounded memory."""
        self._open_bytes[key] = self._writers[key].gathered_bytes
        while sum(self._open_bytes.values()) > _OPEN_BYTES:
            self._close(max(self._open_bytes, key=lambda k: self._open_bytes[k]))

    def _writer(self, key: _Key) -> RollingWriter:
        writer = self._writers.get(key)
        if writer is None:
            partition, bucket = key
            inner = partition_directory(self._schema, partition)
            directory = self._context.paths.bucket_dir(inner, bucket)
            self._directories[key] = directory
            writer = self._writers[key] = RollingWriter(self._context, directory, self._pools)
        return writer


def _index(fields: tuple[object, ...], name: str) -> int:
    return next(i for i, f in enumerate(fields) if f.name == name)  # type: ignore[attr-defined]
