"""The live data files of a table as maintenance sees them: their entries, and all files of these with their indexes;
and all files that a snapshot needs.

(Sources: Paimon documentation, concepts/spec/overview: which file names which; maintenance/manage-snapshots.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField, MapType, arrow_schema
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.read.data_file import open_data_file
from paimon_pyds.engine.scan.planned_files import (
    FileDetails,
    file_locations,
    index_file_paths,
    planned_files,
    spec_of_files,
)
from paimon_pyds.errors import OptionError
from paimon_pyds.index.build import IndexSpec
from paimon_pyds.index.keys import supports
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import partition_scalars
from paimon_pyds.metadata.planned_file import FileBounds, PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.argument import condition
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.storage import FileIO
from paimon_pyds.storage.byte_source import ByteSource, BytesSource, FileSource

_BATCH_ROWS = 131_072
"""Rows of a batch."""
FILE_COLUMNS = ("partition", "bucket", "file_name", "schema_id", "extra_files", "external_path")


def live_of(store: TableStore, snapshot: Snapshot | None, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """The entries of a snapshot's data files; none for a table that was never written. ``columns``: of `ENTRY_SCHEMA`;
    all when None."""
    return ManifestReader(store).live_files(snapshot, columns)


def live_in(
    store: TableStore,
    schema: TableSchema,
    snapshot: Snapshot | None,
    where: str | Predicate | None,
    action: str,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """The entries of a snapshot's data files in the partitions that match a condition.

    ``where``: Spark SQL text or a tree, on partition columns alone. ``action``: what is done with the files, for the
    error. ``columns``: of `ENTRY_SCHEMA`; all when None.

    Raises:
        PredicateError: the condition does not parse, or names no column.
        OptionError: it names another column than those of partitions.
    """
    wanted = EntryFilter(schema, partition_condition(schema, where, action))
    return ManifestReader(store, wanted).live_files(snapshot, columns)


def partition_condition(schema: TableSchema, where: str | Predicate | None, action: str) -> Predicate:
    """A condition on partition columns, bound; true for none. Arguments and errors as those of `live_in`."""
    if where is None or (isinstance(condition("where", where), str) and not str(where).strip()):
        return Const.TRUE
    predicate = bind(parse_filter(where) if isinstance(where, str) else where, schema.fields)
    others = [name for name in root_columns(predicate) if name not in schema.partition_keys]
    if others:
        raise OptionError(
            f"{action} takes conditions on partition columns only, not on {', '.join(others)}",
            hint=f"the table is partitioned by {', '.join(schema.partition_keys) or 'nothing'}",
        )
    return predicate


def planned_live_files(
    store: TableStore, schema: TableSchema, entries: pa.RecordBatch
) -> tuple[ReadSpec, list[PlannedFile]]:
    """The data files of some entries, in order, with the indexes embedded in these; and how to read them.

    ``entries``: of all columns (`ENTRY_SCHEMA`).

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    bounds = [FileBounds(Const.TRUE, {}, index) for index in entries.column("embedded_index").to_pylist()]
    files = list(planned_files(store, schema, entries, FileDetails(bounds=bounds)))
    spec = spec_of_files(store, schema, (), {file.schema_id for file in files})
    return replace(spec, use_index=True, zone=default_zone()), files


def data_batches(
    read: ReadSpec, file: PlannedFile, fields: Sequence[DataField], selection: RowSelection = RowSelection.ALL
) -> Iterator[pa.RecordBatch]:
    """Columns of a data file as it holds them, under the names of its own schema.

    ``fields``: some of those that it holds. ``selection``: the rows to read.

    Raises:
        MissingColumnError: the file lacks one of them, or has it in another type.
        CorruptFileError, StorageError: the file can't be read.
    """
    with open_data_file(read, file) as reader:
        yield from reader.read(fields, selection, _BATCH_ROWS)


def indexed_batches(
    read: ReadSpec, file: PlannedFile, fields: Sequence[DataField], selection: RowSelection = RowSelection.ALL
) -> Iterator[pa.RecordBatch]:
    """Columns of a data file as filters see them: those of partitions have the partition's value.

    Files that were migrated from directories lack partition columns. Arguments and errors are those of `data_batches`.
    """
    of_partition = {f.id for f in read.partition_fields}
    stored = [f for f in fields if f.id not in of_partition]
    if len(stored) == len(fields):
        yield from data_batches(read, file, fields, selection)
        return
    values = partition_scalars(read.partition_fields, file.partition)
    schema = pa.schema([f.with_nullable(True) for f in arrow_schema(fields)])
    for rows, batch in _stored_batches(read, file, stored, selection):
        columns = [
            pa.repeat(values[f.name].cast(schema.field(f.name).type), rows)
            if f.id in of_partition
            else batch.column(f.name)
            for f in fields
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored_batches(
    read: ReadSpec, file: PlannedFile, fields: Sequence[DataField], selection: RowSelection
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Numbers of rows, and columns of these; a file is not opened if no column of it is read."""
    if fields:
        yield from ((batch.num_rows, batch) for batch in data_batches(read, file, fields, selection))
        return
    rows = selection.count(file.row_count)
    empty = pa.RecordBatch.from_arrays([], names=[])
    yield from ((min(_BATCH_ROWS, rows - at), empty) for at in range(0, rows, _BATCH_ROWS))


def index_source(io: FileIO, file: PlannedFile) -> ByteSource | None:
    """The bytes of a file's index container, wherever they are; None when the file has none."""
    if file.index_path is not None:
        return FileSource(io, file.index_path)
    embedded = file.embedded_index
    return None if embedded is None else BytesSource(embedded, f"{file.path} (embedded index)")


def file_specs(
    specs: Sequence[IndexSpec], table_fields: Sequence[DataField], file_fields: Sequence[DataField]
) -> tuple[IndexSpec, ...]:
    """The indexes of the table's options as a file can have them: under the file's own column names.

    Columns are matched by field id. Left out is what the file can't have: a column that was added later, or that had a
    type then which the index does not accept.
    """
    ids = {f.name: f.id for f in table_fields}
    by_id = {f.id: f for f in file_fields}
    found = []
    for spec in specs:
        field = by_id.get(ids[spec.column])
        if field is None:
            continue
        type_ = field.type
        if spec.map_key is not None:
            if not isinstance(type_, MapType) or type_.key.kind not in STRING_KINDS:
                continue
            type_ = type_.value
        if supports(spec.index_type, type_):
            found.append(replace(spec, column=field.name))
    return tuple(found)


def snapshot_files(store: TableStore, snapshot: Snapshot, *, changelog: bool = True) -> Iterator[str]:
    """The paths of all files that a snapshot or a tag of it needs: its metadata files, live data files with their extra
    files, changelog, index and statistics files, and the schemas of all these.

    ``changelog``: also those of its changelog, which goes when the snapshot expires, tag or no tag, as in Java.

    Raises:
        SnapshotNotFoundError: a file is gone: the snapshot expired meanwhile.
        NotFoundError: the schema is gone.
        CorruptFileError: metadata is damaged.
        SecurityError: a name that leaves the table, or a path outside of it that nobody allows.
    """
    paths = store.paths
    yield paths.schema(snapshot.schema_id)
    snapshot = snapshot if changelog else replace(snapshot, changelog_manifest_list=None)
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    yield from (paths.manifest(name) for name in lists if name is not None)
    reader = ManifestReader(store)
    manifests, changes = reader.manifests(snapshot), reader.changelog(snapshot)
    yield from (paths.manifest(manifest.file_name) for manifest in (*manifests, *changes))
    if snapshot.statistics is not None:
        yield paths.statistics(snapshot.statistics)
    schema = store.schema(snapshot.schema_id)
    for entries in (reader.live(manifests, FILE_COLUMNS), reader.added(changes, FILE_COLUMNS)):
        yield from located_files(store, schema, entries)
    if snapshot.index_manifest is not None:
        yield paths.manifest(snapshot.index_manifest)
        yield from index_file_paths(store, schema, store.read_index_manifest(snapshot.index_manifest))


def located_files(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> Iterator[str]:
    """The paths of data files, with their extra files and schemas. ``entries``: of the data files, with the columns
    ``FILE_COLUMNS``."""
    paths = store.paths
    yield from map(paths.schema, entries["schema_id"].unique().to_pylist())
    located = file_locations(store, schema, entries).paths
    for path, beside in zip(located, entries["extra_files"].to_pylist(), strict=True):
        yield path
        yield from (paths.extra_file(path, name) for name in beside)
