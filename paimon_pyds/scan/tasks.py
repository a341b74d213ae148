"""The data files of manifest entries as units of reading: where each lies, its side index, its deletion vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.index_manifest import DELETION_VECTORS
from paimon_pyds.metadata.partition import partition_directory
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.scan.split import DeletionFile, FileTask

__all__ = ["FileKey", "deletion_files", "file_places", "file_tasks"]

FileKey: TypeAlias = tuple[bytes, int, str]
"""Partition row, bucket and name of a data file."""


def file_places(
    store: TableStore, schema: TableSchema, entries: pa.RecordBatch
) -> Iterator[tuple[FileKey, str, str | None]]:
    """Where each data file lies, and its side index, None when it has none; in the entries' order.

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table.
    """
    paths = store.paths.with_options(schema.options)
    directories: dict[tuple[bytes, int], str] = {}
    wanted = ("partition", "bucket", "file_name", "extra_files", "external_path")
    for partition, bucket, name, extra, external in zip(
        *(entries.column(column).to_pylist() for column in wanted), strict=True
    ):
        directory = directories.get((partition, bucket))
        if directory is None:
            directory = paths.bucket_dir(partition_directory(schema, partition), bucket)
            directories[partition, bucket] = directory
        path = paths.data_file_in(directory, name, external)
        index = [x for x in extra if x.endswith(".index")]
        if len(index) > 1:
            raise CorruptFileError("a data file lists several index files", path=path, field="_EXTRA_FILES")
        yield (partition, bucket, name), path, paths.extra_file(path, index[0]) if index else None


def file_tasks(
    store: TableStore,
    schema: TableSchema,
    entries: pa.RecordBatch,
    deletions: Mapping[FileKey, DeletionFile] | None = None,
    selections: Mapping[FileKey, bytes] | None = None,
) -> Iterator[FileTask]:
    """A task for each entry, in order.

    Args:
        deletions: as `deletion_files` gives them.
        selections: what embedded indexes kept of files that they kept a part of.

    Raises:
        CorruptFileError, SecurityError: as `file_places`.
    """
    wanted = ("file_size", "row_count", "schema_id", "first_row_id", "max_sequence_number", "write_cols")
    columns = (entries.column(name).to_pylist() for name in wanted)
    for (key, path, index), size, rows, schema_id, row_id, sequence, write_cols in zip(
        file_places(store, schema, entries), *columns, strict=True
    ):
        partition, bucket, name = key
        deletion = None
        if deletions:
            deletion = deletions.get(key) or deletions.get((partition, -1, name))
        yield FileTask(
            path=path,
            size=size,
            row_count=rows,
            schema_id=schema_id,
            partition=partition,
            bucket=bucket,
            selection=selections.get(key) if selections else None,
            index_path=index,
            deletion=deletion,
            first_row_id=row_id,
            sequence_number=sequence,
            write_cols=None if write_cols is None else tuple(write_cols),
        )


def deletion_files(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> dict[FileKey, DeletionFile]:
    """The deletion vectors of a snapshot by their data files; the bucket may be -1, for whichever it is."""
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    paths = store.paths.with_options(schema.options)
    found = {}
    for entry in store.read_index_manifest(snapshot.index_manifest):
        if entry.index_type != DELETION_VECTORS:
            continue
        directory = partition_directory(schema, entry.partition)
        path = paths.index_file(directory, entry.bucket, entry.file_name, entry.external_path)
        for r in entry.deletion_ranges or ():
            found[entry.partition, entry.bucket, r.data_file] = DeletionFile(path, r.offset, r.length, r.cardinality)
    return found
