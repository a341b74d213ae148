"""The live data files of a table as maintenance sees them: entries, paths, and the columns each was written with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import pyarrow as pa

from paimon_pyds import formats
from paimon_pyds.errors import OptionError
from paimon_pyds.formats.base import ReadCounters, ReadHints
from paimon_pyds.index.config import IndexSpec, supports
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options.arguments import condition
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.normal_form import parse_filter
from paimon_pyds.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.scan.instants import instant_bounds
from paimon_pyds.scan.planned_files import file_locations
from paimon_pyds.selection import RowSelection
from paimon_pyds.storage.base import ByteSource, BytesSource, FileIO, FileSource
from paimon_pyds.types import STRING_KINDS, DataField, MapType

__all__ = ["DataFileRef", "file_specs", "live_in", "live_of", "refs_of"]

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class DataFileRef:
    """A data file, where it and its index container lie, and its columns under the names of its own schema.

    ``fields`` are those the file holds. ``embedded`` are the bytes of the container in the manifest; else
    ``index_path`` names the side file, None when there is none. ``hints`` are for a reader. Sizes in bytes. It pickles.
    """

    path: str
    size: int
    row_count: int
    schema_id: int
    partition: bytes
    bucket: int
    fields: tuple[DataField, ...]
    embedded: bytes | None
    index_path: str | None
    hints: ReadHints | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]

    def index_source(self, io: FileIO) -> ByteSource | None:
        """The bytes of the container, wherever they are; None when the file has no index."""
        if self.index_path is not None:
            return FileSource(io, self.index_path)
        return None if self.embedded is None else BytesSource(self.embedded, f"{self.path} (embedded index)")

    def batches(
        self, io: FileIO, fields: Sequence[DataField], selection: RowSelection = RowSelection.ALL
    ) -> Iterator[pa.RecordBatch]:
        """Some of its columns, in their order.

        Args:
            io: the storage.
            fields: of the file.
            selection: the rows to read.

        Raises:
            CorruptFileError, StorageError: the file can't be read.
        """
        reader = formats.by_path(self.path).open_reader(io, self.path, self.size, ReadCounters(), self.hints)
        try:
            yield from reader.read(fields, selection, _BATCH_ROWS)
        finally:
            reader.close()


def live_of(store: TableStore, snapshot: Snapshot | None, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """The entries of a snapshot's data files; none for a table that was never written.

    Args:
        store: the table.
        snapshot: one of it.
        columns: of `ENTRY_SCHEMA`; all when None.
    """
    return ManifestReader(store).live_files(snapshot, columns)


def live_in(
    store: TableStore, schema: TableSchema, snapshot: Snapshot | None, where: str | Predicate | None, action: str
) -> pa.RecordBatch:
    """The entries (`ENTRY_SCHEMA`) of a snapshot's data files in the partitions that a condition keeps.

    Args:
        store: the table.
        schema: that the condition is about.
        snapshot: one of the table.
        where: Spark SQL text or a tree, on partition columns alone.
        action: what is done with the files, for the error.

    Raises:
        PredicateError: the condition does not parse, or names no column.
        OptionError: it asks for another column than those of partitions.
    """
    return ManifestReader(store, EntryFilter(schema, _on_partitions(schema, where, action))).live_files(snapshot)


def _on_partitions(schema: TableSchema, where: str | Predicate | None, action: str) -> Predicate:
    if where is None or (isinstance(condition("where", where), str) and not str(where).strip()):
        return Const.TRUE
    predicate = bind(parse_filter(where) if isinstance(where, str) else where, schema.fields)
    others = [name for name in root_columns(predicate) if name not in schema.partition_keys]
    if others:
        raise OptionError(
            f"{action} takes conditions on partition columns, and {', '.join(others)} is none",
            hint=f"the table is partitioned by {', '.join(schema.partition_keys) or 'nothing'}",
        )
    return predicate


def refs_of(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> list[DataFileRef]:
    """The data files of some entries, in order.

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table.
    """
    columns: dict[tuple[int, tuple[str, ...] | None], tuple[DataField, ...]] = {}
    wanted = ("file_size", "row_count", "schema_id", "embedded_index", "write_cols")
    instants_of = instant_bounds(entries, schema.options, lambda id_: store.schema(id_).fields) or repeat(())
    found = []
    columns_of = (entries.column(c).to_pylist() for c in wanted)
    located = file_locations(store, schema, entries)
    places = zip(located.bucket_ids, located.paths, located.indexes, strict=True)
    for ((partition, bucket), path, side), size, rows, schema_id, embedded, write_cols, instants in zip(
        places, *columns_of, instants_of, strict=False
    ):
        key = (schema_id, None if write_cols is None else tuple(write_cols))
        if key not in columns:
            columns[key] = _fields(store.schema(schema_id).fields, write_cols)
        held = columns[key], embedded, side, ReadHints(schema.options, instants)
        found.append(DataFileRef(path, size, rows, schema_id, partition, bucket, *held))
    return found


def _fields(fields: Sequence[DataField], write_cols: Sequence[str] | None) -> tuple[DataField, ...]:
    return tuple(fields) if write_cols is None else tuple(f for f in fields if f.name in write_cols)


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
