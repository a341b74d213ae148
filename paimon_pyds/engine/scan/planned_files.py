"""The data files of manifest entries as a plan has them: the path of each, its side index, its deletion vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, binary_parts, from_numpy, list_items, pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import decode_rows
from paimon_pyds.base.secrets import without_secrets
from paimon_pyds.base.text import whole_number
from paimon_pyds.base.types import DataField, scalar_to_internal
from paimon_pyds.engine.scan.prune import instant_bounds
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.keys.merge.key_values import leading_columns, with_key_values
from paimon_pyds.metadata.manifest import DELETION_VECTORS, FILE_SOURCE_APPEND, MERGED, OLDER, SECTION, IndexEntry
from paimon_pyds.metadata.partition import FileKey, PartitionBucket
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import (
    TablePaths,
    check_names,
    file_paths,
    partition_path,
)
from paimon_pyds.metadata.planned_file import DeletionFile, FileBounds, PlannedFile, SortedRun
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import FileColumns, Files, ReadSpec, files_by_columns
from paimon_pyds.metadata.store import TableStore

_LEAST_BUCKET = -(1 << 31)
_FEW_FILES = 16
"""Files up to which grouping by bucket one by one is faster than in arrays."""
_BYTES_AT_ONCE = 256 << 10
"""Bytes that are searched at a time: a match ends the search."""


class FileLocations(NamedTuple):
    """Columns with a value for each file: its bucket, its name, its path, and the path of its side index, if any.

    Files of one bucket share the object that names it.
    """

    bucket_ids: list[PartitionBucket]
    names: list[str]
    paths: list[str]
    indexes: list[str | None]

    def file_keys(self) -> Iterator[FileKey]:
        """What names each file."""
        return zip(self.bucket_ids, self.names, strict=True)


def spec_of_files(
    store: TableStore,
    schema: TableSchema,
    fields: Sequence[DataField],
    ids: Iterable[int],
    options: Mapping[str, str] | None = None,
    *,
    numbered: bool = False,
) -> ReadSpec:
    """What reads columns of data files as they are: without filter and indexes.

    Args:
        store: the table.
        schema: its schema.
        fields: the columns.
        ids: of the schemas of the files.
        options: of the read; those of the schema by default.
        numbered: also sequence numbers and row kinds can be read.
    """
    schemas = {id_: store.schema(id_).fields for id_ in ids}
    return ReadSpec(
        io=store.io,
        schemas=with_key_values(schemas) if numbered else schemas,
        fields=tuple(fields),
        partition_fields=schema.partition_fields,
        options=without_secrets(dict(schema.options if options is None else options)),
        use_index=False,
        leading=leading_columns(schema),
    )


def file_locations(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> FileLocations:
    """The paths of the data files of manifest entries, in the entries' order.

    ``schema``: its schema, whose options name directories. ``entries``: manifest entries.

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    paths = store.paths.with_options(schema.options)
    shared, places = _buckets(entries)
    of_file: list[int] = places.tolist()
    bucket_ids = [shared[number] for number in of_file]
    names = entries.column("file_name").to_pylist()
    check_names(names, "data file")
    of_bucket = _directories(schema, paths, shared)
    directories = [of_bucket[number] for number in of_file]
    external = entries.column("external_path")
    looked_for = PartitionDirectories(store.io, schema, paths)
    if uncertain := looked_for.uncertain(id_.partition for id_ in shared):
        for number, (id_, name, elsewhere) in enumerate(zip(bucket_ids, names, external.to_pylist(), strict=True)):
            if id_.partition in uncertain and elsewhere is None:
                directories[number] = paths.bucket_dir(looked_for.of_file(*id_, name), id_.bucket)
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
    if len(side_files := list_items(extra)):
        check_names(side_files.to_pylist(), "side file")
        for number, (path, others) in enumerate(zip(files, extra.to_pylist(), strict=True)):
            found = [name for name in others if name.endswith(".index")]
            if len(found) > 1:
                raise CorruptFileError("a data file lists several index files", path=path, field="_EXTRA_FILES")
            indexes[number] = paths.extra_file(path, found[0]) if found else None
    return FileLocations(bucket_ids, names, files, indexes)


def _directories(schema: TableSchema, paths: TablePaths, buckets: Sequence[PartitionBucket]) -> list[str]:
    """The directories of some buckets, as `partition_directory` gives that of one: there may be very many."""
    fields, rows = schema.partition_fields, list({id_.partition: None for id_ in buckets})
    names = dict.fromkeys(rows, "")
    if fields and rows:
        columns = decode_rows(array(rows, pa.binary()), [f.type for f in fields], arity=True)
        values = zip(*(map(scalar_to_internal, column) for column in columns), strict=True)
        names = {row: partition_path(fields, of, schema.options) for row, of in zip(rows, values, strict=True)}
    return [paths.bucket_dir(names[id_.partition], id_.bucket) for id_ in buckets]


def _buckets(entries: pa.RecordBatch) -> tuple[list[PartitionBucket], npt.NDArray[np.int32]]:
    """The buckets that entries are of, and for each entry which one."""
    if entries.num_rows <= _FEW_FILES:
        each = list(map(PartitionBucket, entries.column("partition").to_pylist(), entries.column("bucket").to_pylist()))
        shared = {id_: number for number, id_ in enumerate(dict.fromkeys(each))}
        return list(shared), np.array([shared[id_] for id_ in each], np.int32)
    partitions = pc.dictionary_encode(entries.column("partition"))
    numbers = to_numpy(entries.column("bucket")).astype(np.int64)
    both = from_numpy((to_numpy(partitions.indices).astype(np.int64) << 32) + numbers - _LEAST_BUCKET)
    coded = pc.dictionary_encode(both)
    rows = partitions.dictionary.to_pylist()
    ids = [
        PartitionBucket(rows[code >> 32], (code & 0xFFFFFFFF) + _LEAST_BUCKET)
        for code in to_numpy(coded.dictionary).tolist()
    ]
    return ids, to_numpy(coded.indices)


class FileDetails(NamedTuple):
    """Details of files that a plan has in addition to their manifest entries.

    Attributes:
        deletions: deletion vectors, as `deletion_files` gives them.
        selections: the rows selected by embedded indexes, for files of which they selected a part.
        bounds: of `PlannedFile`, one for each entry; None if no bounds are known.
    """

    deletions: Mapping[FileKey, DeletionFile] | None = None
    selections: Mapping[FileKey, bytes] | None = None
    bounds: Iterable[FileBounds | None] | None = None


_NO_DETAILS = FileDetails()


def written_order(entries: pa.RecordBatch) -> list[int]:
    """The places of entries of files whose rows wait for their buckets, in the order in which their writers made them:
    by time, and by the numbers in the names, ``…-12.avro``."""
    times = to_numpy(pc.fill_null(entries["creation_time"], 0)).tolist()
    ends = (name.rpartition("-")[2].partition(".")[0] for name in entries["file_name"].to_pylist())
    made = list(zip(times, (whole_number(end) or 0 for end in ends), strict=True))
    return sorted(range(len(made)), key=made.__getitem__)


def planned_files(
    store: TableStore, schema: TableSchema, entries: pa.RecordBatch, details: FileDetails = _NO_DETAILS
) -> Iterator[PlannedFile]:
    """The files of manifest entries, in order. ``entries``: manifest entries; with the column `MERGED`,
    where versions of rows are merged. ``details``: what else is known of the files.
    Raises CorruptFileError, SecurityError: as `file_locations`; UnsupportedError: as `_orders`."""
    located = file_locations(store, schema, entries)
    sizes, rows, schema_ids, totals = _columns(entries, "file_size", "row_count", "schema_id", "total_buckets")
    row_ids, sequences, written = _columns(entries, "first_row_id", "max_sequence_number", "write_cols")
    columns: dict[str, Iterable[Any]] = {
        "path": located.paths,
        "size": sizes,
        "row_count": rows,
        "schema_id": schema_ids,
        "bucket_id": located.bucket_ids,
        "total_buckets": totals,
        "index_path": located.indexes,
        "first_row_id": row_ids,
        "sequence_number": sequences,
    }
    if entries.column("write_cols").null_count < entries.num_rows:
        columns["write_cols"] = (None if names is None else tuple(names) for names in written)
    if selections := details.selections:
        columns["selection"] = map(selections.get, located.file_keys())
    if deletions := details.deletions:
        columns["deletion"] = (
            deletions.get(key) or deletions.get((key[0]._replace(bucket=-1), key[1])) for key in located.file_keys()
        )
    if instants := instant_bounds(entries, schema.options, lambda id_: store.schema(id_).fields):
        columns["instants"] = instants
    if details.bounds is not None:
        columns["bounds"] = details.bounds
    if not schema.primary_keys:
        return files_by_columns(columns)
    from paimon_pyds.keys.merge.files_to_merge import is_clustered, snapshots_order

    if snapshots_order(schema):
        columns["ordered_by"] = _orders(entries)
    return _in_runs(files_by_columns(columns), entries, clustered=is_clustered(schema))


def files_when_asked(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> Files | None:
    """The files of manifest entries of a table without a primary key, each made when somebody looks at it.

    None where `planned_files` has to look at more than their names and places. Arguments and errors as there.
    """
    usual = all(entries.column(name).null_count == entries.num_rows for name in ("external_path", "write_cols"))
    extra = to_numpy(entries.column("extra_files").offsets)
    if not usual or extra[0] != extra[-1]:
        return None
    (buckets, of_file), paths = _buckets(entries), store.paths.with_options(schema.options)
    if PartitionDirectories(store.io, schema, paths).uncertain(id_.partition for id_ in buckets):
        return None
    names = entries.column("file_name")
    data, starts, ends = binary_parts(names)
    if (ends - starts < 3).any() or _has_bytes(data[starts[0] : ends[-1]] if len(names) else data, b"/", b"\0"):
        check_names(names.to_pylist(), "data file")
    return Files(FileColumns(entries, of_file, buckets, _directories(schema, paths, buckets)))


def _has_bytes(data: npt.NDArray[np.uint8], *wanted: bytes) -> bool:
    parts = (data[at : at + _BYTES_AT_ONCE].tobytes() for at in range(0, len(data), _BYTES_AT_ONCE))
    return any(byte in part for part in parts for byte in wanted)


def _columns(entries: pa.RecordBatch, *names: str) -> Iterator[Iterable[Any]]:
    """Columns as Python values: of integers without NULL by numpy, which is faster."""
    for column in map(entries.column, names):
        if column.null_count == len(column):
            yield repeat(None, len(column))
        else:
            by_numpy = not column.null_count and pa.types.is_integer(column.type)
            yield to_numpy(column).tolist() if by_numpy else column.to_pylist()


def _orders(entries: pa.RecordBatch) -> list[int | None]:
    """The snapshots that order the rows of files that writes made: they are stamped there as least sequence numbers.
    None for those of compactions, in which each row has its own. (Java: class KeyValueFileReaderFactory.)

    Raises UnsupportedError: a file that does not say what made it."""
    found = list[int | None]()
    names, sources, numbers = _columns(entries, "file_name", "file_source", "min_sequence_number")
    for name, source, number in zip(names, sources, numbers, strict=False):
        if source is None:
            raise UnsupportedError(
                f"sequence.snapshot-ordering: the data file {name} does not say whether a write or a compaction made "
                "it, so which snapshot orders its rows is not known",
                hint="the option is for new tables: write the rows into a new one that has it from the beginning",
                feature="snapshot-ordering",
            )
        found.append(number if source == FILE_SOURCE_APPEND else None)
    return found


def _in_runs(files: Iterable[PlannedFile], entries: pa.RecordBatch, *, clustered: bool) -> Iterator[PlannedFile]:
    """Files of a table with a primary key, with the sorted run that each belongs to. ``clustered``: those above level 0
    are sorted by other columns."""
    names = entries.schema.names
    merged, section, older = (
        entries.column(name).to_pylist() if name in names else repeat(default)
        for name, default in ((MERGED, True), (SECTION, 0), (OLDER, None))
    )
    names = ("level", "min_key", "max_key", "min_sequence_number", "max_sequence_number")
    columns = (entries.column(name).to_pylist() for name in names)
    for file, merge, part, old, level, low, high, *numbers in zip(
        files, merged, section, older, *columns, strict=False
    ):
        key_range = None if level and clustered else (low, high)
        yield file._replace(run=SortedRun(level, key_range, merge, part, (numbers[0], numbers[1]), old))


def has_stray_vectors(store: TableStore, snapshot: Snapshot | None, options: Callable[[], TableOptions]) -> bool:
    """Whether a snapshot has deletion vectors that Java passes over, as ``deletion-vectors.enabled`` is off.

    ``snapshot``: its state; None for a table that was never written. ``options``: gives the table's options; called
    where the snapshot has table indexes.
    """
    if snapshot is None or snapshot.index_manifest is None or options().get("deletion-vectors.enabled"):
        return False
    return any(entry.deletion_ranges for entry in store.read_index_manifest(snapshot.index_manifest))


def index_file_paths(store: TableStore, schema: TableSchema, entries: Sequence[IndexEntry]) -> Iterator[str]:
    """The path of each index file of an index manifest, in order.
    Raises SecurityError: a name that leaves the table, or a path outside of it that nobody allows."""
    paths = file_paths(store, schema.options, outside=any(e.external_path is not None for e in entries))
    yield from map(PartitionDirectories(store.io, schema, paths).index_file, entries)


def deletion_files(store: TableStore, schema: TableSchema, snapshot: Snapshot | None) -> dict[FileKey, DeletionFile]:
    """The deletion vectors of a snapshot by their data files; a bucket of -1 stands for whichever the file is in.
    ``snapshot``: one of the table; None for a table that was never written."""
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    entries = [e for e in store.read_index_manifest(snapshot.index_manifest) if e.index_type == DELETION_VECTORS]
    return {
        (PartitionBucket(entry.partition, entry.bucket), r.data_file): DeletionFile(
            path, r.offset, r.length, r.cardinality
        )
        for entry, path in zip(entries, index_file_paths(store, schema, entries), strict=True)
        for r in entry.deletion_ranges or ()
    }


def renewed_files(
    store: TableStore, schema: TableSchema, before: Snapshot | None, after: Snapshot | None
) -> frozenset[str]:
    """The names of the data files that have another deletion vector in one of two states than in the other. ``before``:
    one state; None for a table that was never written. ``after``: the other one."""
    old, new = (deletion_files(store, schema, snapshot) for snapshot in (before, after))
    return frozenset(key[1] for key in old.keys() | new.keys() if old.get(key) != new.get(key))
