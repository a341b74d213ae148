"""The data files of manifest entries as units of reading: where each lies, its side index, its deletion vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.external import file_paths
from paimon_pyds.metadata.index_manifest import DELETION_VECTORS, IndexEntry
from paimon_pyds.metadata.partition import partition_directory
from paimon_pyds.metadata.paths import check_names
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions
from paimon_pyds.options.checks import zoned_partitions
from paimon_pyds.scan.instants import instant_bounds
from paimon_pyds.scan.zoned_partitions import ZonedPartitions
from paimon_pyds.split import DeletionFile, FileTask

__all__ = ["FileKey", "deletion_files", "file_places", "file_tasks", "has_stray_vectors", "index_file_paths"]

FileKey: TypeAlias = tuple[bytes, int, str]
"""Partition row, bucket and name of a data file."""


class _Places(NamedTuple):
    """Columns, a value for each file: what is in its key, where it lies, and where its side index does."""

    partitions: list[bytes]
    buckets: list[int]
    names: list[str]
    paths: list[str]
    indexes: list[str | None]

    def file_keys(self) -> Iterator[FileKey]:
        return zip(self.partitions, self.buckets, self.names, strict=True)


def file_places(
    store: TableStore, schema: TableSchema, entries: pa.RecordBatch
) -> Iterator[tuple[FileKey, str, str | None]]:
    """Where each data file lies, and its side index, None when it has none; in the entries' order.

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    places = _places(store, schema, entries)
    return zip(places.file_keys(), places.paths, places.indexes, strict=True)


def _places(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> _Places:
    paths = store.paths.with_options(schema.options)
    partitions, buckets, names = (entries.column(c).to_pylist() for c in ("partition", "bucket", "file_name"))
    buckets_of = list(zip(partitions, buckets, strict=True))
    check_names(names, "data file")
    if zoned_partitions(schema):
        zoned = ZonedPartitions(store.io, schema, paths)
        keys = zip(partitions, buckets, names, strict=True)
        directories = [paths.bucket_dir(zoned.directory(*key), key[1]) for key in keys]
    else:
        known = {
            key: paths.bucket_dir(partition_directory(schema, key[0]), key[1]) for key in dict.fromkeys(buckets_of)
        }
        directories = [known[key] for key in buckets_of]
    external = entries.column("external_path")
    if external.null_count == len(names):
        files = [f"{directory}/{name}" for directory, name in zip(directories, names, strict=True)]
    else:
        paths = file_paths(store, schema.options, outside=True)
        files = [
            paths.data_file_in(directory, name, elsewhere)
            for directory, name, elsewhere in zip(directories, names, external.to_pylist(), strict=True)
        ]
    extra = entries.column("extra_files")
    indexes: list[str | None] = [None] * len(names)
    if len(extra.flatten()):
        check_names(extra.flatten().to_pylist(), "side file")
        for number, (path, others) in enumerate(zip(files, extra.to_pylist(), strict=True)):
            found = [name for name in others if name.endswith(".index")]
            if len(found) > 1:
                raise CorruptFileError("a data file lists several index files", path=path, field="_EXTRA_FILES")
            indexes[number] = paths.extra_file(path, found[0]) if found else None
    return _Places(partitions, buckets, names, files, indexes)


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
    places = _places(store, schema, entries)
    columns = (entries.column(name).to_pylist() for name in ("file_size", "row_count", "schema_id"))
    row_ids, sequences = (entries.column(name).to_pylist() for name in ("first_row_id", "max_sequence_number"))
    written = [None if names is None else tuple(names) for names in entries.column("write_cols").to_pylist()]
    kept: Iterable[bytes | None] = map(selections.get, places.file_keys()) if selections else repeat(None)
    deleted: Iterable[DeletionFile | None] = repeat(None)
    if deletions:
        deleted = (deletions.get(key) or deletions.get((key[0], -1, key[2])) for key in places.file_keys())
    tasks = map(  # many files: as few steps as can be for each
        FileTask, places.paths, *columns, places.partitions, places.buckets, kept, places.indexes, deleted, row_ids,
        sequences, written,
    )  # fmt: skip
    instants = instant_bounds(entries, schema.options, lambda id_: store.schema(id_).fields)
    if instants is None:
        return tasks
    return (replace(task, instants=told) for task, told in zip(tasks, instants, strict=True))


def has_stray_vectors(store: TableStore, snapshot: Snapshot | None, options: Callable[[], TableOptions]) -> bool:
    """Whether a snapshot has deletion vectors that Java passes over, as ``deletion-vectors.enabled`` is off.

    Args:
        options: gives the table's options; called where the snapshot has table indexes.
    """
    if snapshot is None or snapshot.index_manifest is None or options().get("deletion-vectors.enabled"):
        return False
    return any(entry.deletion_ranges for entry in store.read_index_manifest(snapshot.index_manifest))


def index_file_paths(store: TableStore, schema: TableSchema, entries: Sequence[IndexEntry]) -> Iterator[str]:
    """Where each index file of an index manifest lies, in order.

    Raises:
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    paths = file_paths(store, schema.options, outside=any(e.external_path is not None for e in entries))
    zoned = ZonedPartitions(store.io, schema, paths) if zoned_partitions(schema) else None
    for entry in entries:
        place = entry.partition, entry.bucket, entry.file_name
        directory = zoned.directory(*place) if zoned else partition_directory(schema, entry.partition)
        yield paths.index_file(directory, entry.bucket, entry.file_name, entry.external_path)


def deletion_files(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> dict[FileKey, DeletionFile]:
    """The deletion vectors of a snapshot by their data files; the bucket may be -1, for whichever it is."""
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    entries = [e for e in store.read_index_manifest(snapshot.index_manifest) if e.index_type == DELETION_VECTORS]
    return {
        (entry.partition, entry.bucket, r.data_file): DeletionFile(path, r.offset, r.length, r.cardinality)
        for entry, path in zip(entries, index_file_paths(store, schema, entries), strict=True)
        for r in entry.deletion_ranges or ()
    }
