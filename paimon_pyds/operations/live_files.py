"""The live data files of a table as maintenance sees them: entries, paths, and the columns each was written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.index.config import IndexSpec, supports
from paimon_pyds.metadata.batches import one_batch
from paimon_pyds.metadata.manifest import ENTRY_SCHEMA, entries_to_batch, live_entries
from paimon_pyds.metadata.partition import partition_directory
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.bind import bind
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.parse import parse_filter
from paimon_pyds.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.row import decode_rows
from paimon_pyds.storage.base import ByteSource, BytesSource, FileIO, FileSource
from paimon_pyds.types import STRING_KINDS, DataField, MapType, arrow_schema

__all__ = ["DataFileRef", "file_specs", "in_partitions", "live_of", "partition_mask", "refs_of"]

_NO_ENTRIES = entries_to_batch([])


@dataclass(frozen=True, slots=True)
class DataFileRef:
    """A data file, where it and its index container lie, and its columns under the names of its own schema.

    ``fields`` are those the file holds. ``embedded`` are the bytes of the container in the manifest; else
    ``index_path`` names the side file, None when there is none. Sizes in bytes. It pickles.
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

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]

    def index_source(self, io: FileIO) -> ByteSource | None:
        """The bytes of the container, wherever they are; None when the file has no index."""
        if self.index_path is not None:
            return FileSource(io, self.index_path)
        return None if self.embedded is None else BytesSource(self.embedded, f"{self.path} (embedded index)")


def live_of(store: TableStore, snapshot: Snapshot | None) -> pa.RecordBatch:
    """The live entries (`ENTRY_SCHEMA`) of a snapshot; none for a table that was never written."""
    if snapshot is None:
        return _NO_ENTRIES
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    manifests = [m for name in lists for m in store.read_manifest_list(name)]
    if not manifests:
        return _NO_ENTRIES
    return one_batch(live_entries([store.read_manifest(m.file_name) for m in manifests])).cast(ENTRY_SCHEMA)


def in_partitions(
    schema: TableSchema, entries: pa.RecordBatch, where: str | Predicate | None, action: str
) -> pa.RecordBatch:
    """The entries of the partitions that a condition keeps.

    Args:
        where: Spark SQL text or a tree, on partition columns alone.
        action: what is done with them, for the error.

    Raises:
        PredicateError: the condition does not parse, or names no column.
        OptionError: it asks for another column than those of partitions.
    """
    if where is None or (isinstance(where, str) and not where.strip()):
        return entries
    predicate = bind(parse_filter(where) if isinstance(where, str) else where, schema.fields)
    others = [name for name in root_columns(predicate) if name not in schema.partition_keys]
    if others:
        raise OptionError(
            f"{action} takes conditions on partition columns, and {', '.join(others)} is none",
            hint=f"the table is partitioned by {', '.join(schema.partition_keys) or 'nothing'}",
        )
    if predicate is Const.TRUE:
        return entries
    if isinstance(predicate, Const) or not entries.num_rows:
        return entries.slice(0, 0)
    coded = entries.column("partition").dictionary_encode()
    wanted = partition_mask(schema, predicate, coded.dictionary)
    return entries.filter(pa.array(wanted[coded.indices.to_numpy()]))


def partition_mask(schema: TableSchema, predicate: Predicate, partitions: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Which of these partitions (arity + BinaryRow) a bound predicate on partition columns keeps."""
    fields = schema.partition_fields
    columns = decode_rows(partitions, [f.type for f in fields], arity=True)
    nullable = pa.schema([f.with_nullable(True) for f in arrow_schema(fields)])
    return np.asarray(matches(predicate, pa.RecordBatch.from_arrays(columns, schema=nullable)), dtype=bool)


def refs_of(store: TableStore, schema: TableSchema, entries: pa.RecordBatch) -> list[DataFileRef]:
    """The data files of some entries, in order.

    Raises:
        CorruptFileError: a file lists several index files.
        SecurityError: a name that leaves the table.
    """
    paths = store.paths.with_options(schema.options)
    directories: dict[bytes, str] = {}
    columns: dict[tuple[int, tuple[str, ...] | None], tuple[DataField, ...]] = {}
    wanted = ("partition", "bucket", "file_name", "file_size", "row_count", "schema_id", "extra_files",
              "embedded_index", "external_path", "write_cols")  # fmt: skip
    found = []
    for partition, bucket, name, size, rows, schema_id, extra, embedded, external, write_cols in zip(
        *(entries.column(c).to_pylist() for c in wanted), strict=True
    ):
        directory = directories.get(partition)
        if directory is None:
            directory = directories[partition] = partition_directory(schema, partition)
        path = paths.data_file(directory, bucket, name, external)
        sides = [x for x in extra if x.endswith(".index")]
        if len(sides) > 1:
            raise CorruptFileError("a data file lists several index files", path=path, field="_EXTRA_FILES")
        key = (schema_id, None if write_cols is None else tuple(write_cols))
        if key not in columns:
            columns[key] = _fields(store.schema(schema_id).fields, write_cols)
        side = paths.extra_file(path, sides[0]) if sides else None
        found.append(DataFileRef(path, size, rows, schema_id, partition, bucket, columns[key], embedded, side))
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
