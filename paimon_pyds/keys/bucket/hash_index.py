"""Hash index files: which keys a dynamic bucket has, as the hashes of their BinaryRows, 4 bytes each, big-endian.

A bucket has one file with the hashes of all keys that were ever put into it, in any order.
(Specification: Paimon documentation, concepts/spec/tableindex, "Dynamic Bucket Index".)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from paimon_pyds.base.options import TableOptions
from paimon_pyds.errors import CorruptFileError, expired_file
from paimon_pyds.metadata.manifest import HASH, IndexEntry
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import file_paths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore

Hashes = npt.NDArray[np.int32]


class HashIndex:
    """The hash index files of one state of a table. ``schema``: has the partition columns, and the options for the
    location of files. ``entries``: of the index manifest of that state."""

    def __init__(self, store: TableStore, schema: TableSchema, entries: Iterable[IndexEntry]) -> None:
        self._store = store
        self._schema = schema
        self._files: dict[bytes, list[IndexEntry]] = {}
        outside = False
        for entry in entries:
            if entry.index_type == HASH:
                self._files.setdefault(entry.partition, []).append(entry)
                outside |= entry.external_path is not None
        paths = file_paths(store, TableOptions(schema.options), outside=outside)
        self._directories = PartitionDirectories(store.io, schema, paths)

    def renewed(self, partition: bytes) -> HashIndex:
        """With the files that a partition has in the newest snapshot. Raises as `TableStore.read_newest`."""
        others = (entry for key, files in self._files.items() if key != partition for entry in files)
        newest = self._store.read_newest(self._store.index_entries)
        mine = (entry for entry in newest if entry.partition == partition)
        return HashIndex(self._store, self._schema, chain(others, mine))

    def files(self, partition: bytes) -> Sequence[IndexEntry]:
        """Those of a partition, by bucket. Raises CorruptFileError: a bucket has two."""
        found = sorted(self._files.get(partition, ()), key=lambda entry: entry.bucket)
        if len({entry.bucket for entry in found}) < len(found):
            raise CorruptFileError("a bucket has two hash index files", path=self._directories.index_file(found[0]))
        return found

    def read(self, entry: IndexEntry) -> Hashes:
        """The hashes of a file.

        Raises:
            CorruptFileError: the file is damaged.
            StorageError: it can't be read.
            SnapshotNotFoundError: it is gone.
        """
        return np.concatenate([np.empty(0, np.int32), *self.parts(entry, 1 << 20)])

    def parts(self, entry: IndexEntry, size: int = 1 << 16) -> Iterator[Hashes]:
        """The same, in pieces of at most ``size`` hashes."""
        path, count = self._directories.index_file(entry), entry.row_count
        try:
            length = self._store.io.size(path)
            if length != 4 * count:
                raise CorruptFileError(
                    f"a hash index of {count:,} keys has {length:,} bytes, not {4 * count:,}",
                    path=path,
                    hint="restore the file; or overwrite the partition, which makes its hash index anew",
                )
            for start in range(0, count, size):
                data = self._store.io.read_range(path, 4 * start, 4 * min(size, count - start))
                yield np.frombuffer(data, ">i4").astype(np.int32)
        except FileNotFoundError:
            raise expired_file(path, "the hash index of a bucket", "written to", "write the rows again") from None

    def write(self, bucket: PartitionBucket, parts: Iterable[Hashes], written: list[str]) -> tuple[IndexEntry, str]:
        """Write a file, which no snapshot has yet: its entry, and its path. ``bucket``: whose keys these are.
        ``written``: gets the path before there is a file.
        Raises StorageError: it can't be written."""
        entry = IndexEntry(
            partition=bucket.partition,
            bucket=bucket.bucket,
            index_type=HASH,
            file_name=f"index-{uuid.uuid4()}-0",
            file_size=0,
            row_count=0,
        )
        path = self._directories.index_file(entry)
        written.append(path)
        file = self._store.io.open_output(path)
        try:
            for part in parts:
                file.sink.write(part.astype(">i4").tobytes())
            size = file.close()
        except BaseException:
            file.abort()
            raise
        return replace(entry, file_size=size, row_count=size // 4), path
