"""TableWriter: Arrow batches → route (partition, bucket) → data files → commit message."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.bucket import bucket_of
from paimon_pyds.buffers import from_numpy, to_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.formats import trims_char
from paimon_pyds.metadata.partition import partition_directory
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.row import EMPTY_ROW, encode_rows
from paimon_pyds.write.conform import Conformer
from paimon_pyds.write.context import WriteContext
from paimon_pyds.write.message import BucketFiles, CommitMessage, WriteOrigin
from paimon_pyds.write.rolling import RollingWriter

__all__ = ["TableWriter"]

_GATHER_ROWS = 131_072
"""Small batches (Spark's have 10,000 rows) are gathered up to this many rows before they are encoded."""
_BUFFER_BYTES = 128 << 20
"""Bytes gathered over all buckets before the fullest are written out: bounds memory with many partitions."""

_OPEN_BYTES = 384 << 20
"""Bytes in files still being gathered, over all buckets, before the fullest file is closed early."""

_Key = tuple[bytes, int]


@dataclass(slots=True)
class _Gathered:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0


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
            trims_char=trims_char(context.file_suffix),
            partition_keys=self._schema.partition_keys,
        )
        self._partition_at = [_index(self._schema.fields, name) for name in self._schema.partition_keys]
        self._partition_types = [f.type for f in self._schema.partition_fields]
        self._buckets = int(context.options.get("bucket"))
        if self._buckets == 0 or self._buckets < -1:
            raise UnsupportedError(f"writing to bucket={self._buckets} is not supported", path=context.root)
        keys = context.options.bucket_keys(self._schema) if self._buckets > 0 else ()
        self._bucket_at = [_index(self._schema.fields, name) for name in keys]
        self._gathered: dict[_Key, _Gathered] = {}
        self._size = 0
        self._writers: dict[_Key, RollingWriter] = {}
        self._directories: dict[_Key, str] = {}
        self._open_bytes: dict[_Key, int] = {}
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
            for key, part in self._route(fitting):
                self._gather(key, part)

    def prepare_commit(self) -> CommitMessage:
        """Finish all files; the message that publishes them."""
        try:
            for key in list(self._gathered):
                self._flush(key)
            closed = {key: writer.close() for key, writer in self._writers.items()}
            origin = self._origin() if any(closed.values()) else None
            total = self._buckets if self._buckets > 0 else -1
            return CommitMessage(
                tuple(
                    BucketFiles(*key, total, self._directories[key], files, origin)
                    for key, files in closed.items()
                    if files
                )
            )
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
        for pool in self._pools:
            pool.shutdown(wait=True)

    # ----------------------------------------------------------------------------------------------------- routing

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
        gathered.batches.append(batch)
        gathered.rows += batch.num_rows
        size = batch.nbytes
        gathered.size += size
        self._size += size
        if gathered.rows >= _GATHER_ROWS:
            self._flush(key)
        while self._size > _BUFFER_BYTES:
            self._flush(max(self._gathered, key=lambda k: self._gathered[k].size))

    def _flush(self, key: _Key) -> None:
        gathered = self._gathered.pop(key)
        self._size -= gathered.size
        batches = gathered.batches
        if not batches:
            return
        batch = batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        self._writer(key).write(batch)
        if len(self._writers) > 1:
            self._bound_open_files(key)

    def _bound_open_files(self, key: _Key) -> None:
        """Close the fullest files when many buckets gather row groups at once: smaller files, bounded memory."""
        self._open_bytes[key] = self._writers[key].gathered_bytes
        while sum(self._open_bytes.values()) > _OPEN_BYTES:
            fullest = max(self._open_bytes, key=lambda k: self._open_bytes[k])
            self._writers[fullest].roll()
            del self._open_bytes[fullest]

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
