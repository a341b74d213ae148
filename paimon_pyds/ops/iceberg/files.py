"""A table's data files and deletion vectors as Iceberg's manifests have them (Apache Iceberg specification, Data File
Fields; which files of a table with a primary key: Java Paimon 1.4, class IcebergCommitCallback)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, one_array, pc, scalar, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.iceberg import shows_vectors
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.kinds import NESTED_KINDS
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.files_to_merge import highest_level, is_clustered
from paimon_pyds.metadata.deletion.vector import is_64_bit
from paimon_pyds.metadata.manifest import DELETION_VECTORS, FileKind, IndexEntry
from paimon_pyds.metadata.manifest_reader import ManifestReader, RowStatistics
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import TablePaths, file_paths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.iceberg import manifests as avro
from paimon_pyds.ops.iceberg.folder import IcebergFolder
from paimon_pyds.ops.iceberg.values import bounds
from paimon_pyds.sql.predicate.prune import ColumnStats
from paimon_pyds.sql.predicate.tree import ColumnRef

DataFile: TypeAlias = dict[str, Any]
_COLUMNS = (
    "partition", "bucket", "level", "file_name", "file_size", "row_count", "value_stats_min", "value_stats_max",
    "value_stats_nulls", "value_stats_cols", "schema_id", "external_path",
)  # fmt: skip
_DATA, _POSITION_DELETES = 0, 1
"""``content`` of a file."""


@dataclass(slots=True)
class FileChanges:
    """What a snapshot changed, by the paths of files.

    Attributes:
        added: files that became visible.
        removed: files that went, visible or not.
        moved: of those added, the ones that were there before on another level.
        partitions: the number of partitions that changed.
    """

    added: dict[str, DataFile]
    removed: set[str]
    moved: set[str]
    partitions: int


class PublishedFiles:
    """The files of a table that Iceberg's readers see. ``folder``: spells their paths."""

    def __init__(self, store: TableStore, schema: TableSchema, options: TableOptions, folder: IcebergFolder) -> None:
        self._store = store
        self._schema = schema
        self._options = options
        self._folder = folder
        self._shows_vectors = shows_vectors(options)

    def all_of(self, snapshot: Snapshot) -> FileChanges:
        """All files of a snapshot, as if it had added them."""
        entries = ManifestReader(self._store).live_files(snapshot, _COLUMNS)
        return self._changes(entries, entries.slice(0, 0))

    def changes(self, snapshot: Snapshot) -> FileChanges:
        """What a snapshot changed."""
        reader = ManifestReader(self._store)
        entries = reader.entries(reader.delta(snapshot), ("kind", *_COLUMNS)).combine_chunks()
        added = pc.equal(entries["kind"], scalar(FileKind.ADD, pa.int8()))
        return self._changes(pc.filter(entries, added), pc.filter(entries, pc.invert(added)))

    def _changes(self, added: pa.RecordBatch | pa.Table, removed: pa.RecordBatch | pa.Table) -> FileChanges:
        partitions = {*added["partition"].to_pylist(), *removed["partition"].to_pylist()}
        was_there = set(self._paths(removed))
        shown = self._shown(added)
        files = dict(zip(self._paths(shown), self._data_files(shown), strict=True)) if shown.num_rows else {}
        for path, file in files.items():
            file["file_path"] = path
        return FileChanges(files, was_there - files.keys(), was_there & files.keys(), len(partitions))

    def _shown(self, entries: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        if not self._schema.primary_keys:
            return entries
        levels = to_numpy(one_array(entries["level"]))
        all_but_level_0 = self._shows_vectors or is_clustered(self._schema)
        keep = levels > 0 if all_but_level_0 else levels >= highest_level(self._options)
        return pc.filter(entries, from_numpy(keep))

    def _paths(self, entries: pa.RecordBatch | pa.Table) -> list[str]:
        if not entries.num_rows:
            return []
        external = entries["external_path"].to_pylist()
        paths = self._table_paths(any(path is not None for path in external))
        partitions, buckets = entries["partition"].to_pylist(), entries["bucket"].to_pylist()
        directories = PartitionDirectories(self._store.io, self._schema, paths)
        directories.prepare(partitions)
        rows = zip(partitions, buckets, entries["file_name"].to_pylist(), external, strict=True)
        return [
            self._folder.spelled(paths.data_file("" if path else directories.of_file(p, b, name), b, name, path))
            for p, b, name, path in rows
        ]

    def _table_paths(self, outside: bool) -> TablePaths:
        return file_paths(self._store, self._options, outside=outside)

    def _data_files(self, entries: pa.RecordBatch | pa.Table) -> list[DataFile]:
        other = [name for name in entries["file_name"].to_pylist() if not name.endswith(".parquet")]
        if other:
            raise UnsupportedError(
                f"Iceberg's readers can't read {other[0]}: only Parquet files have the ids of columns",
                hint="compact the table with full=True and file.format=parquet",
            )
        partitions = avro.partitions(self._schema, one_array(entries["partition"]))
        counts, sizes = entries["row_count"].to_pylist(), entries["file_size"].to_pylist()
        files: list[DataFile] = [
            {
                "content": _DATA, "file_format": "parquet", "partition": partition, "record_count": rows,
                "file_size_in_bytes": size, "null_value_counts": [], "lower_bounds": [], "upper_bounds": [],
                "referenced_data_file": None, "content_offset": None, "content_size_in_bytes": None,
                "first_row_id": None,
            }
            for partition, rows, size in zip(partitions, counts, sizes, strict=True)
        ]  # fmt: skip
        for rows, batch, names in self._alike(entries):
            self._add_statistics([files[row] for row in rows], batch, names)
        return files

    def _alike(self, entries: pa.RecordBatch | pa.Table) -> Iterable[tuple[list[int], pa.Table, tuple[str, ...]]]:
        """Files whose statistics are of the same columns: their numbers, their entries and these columns."""
        groups: dict[tuple[int, tuple[str, ...] | None], list[int]] = {}
        listed = entries["value_stats_cols"].to_pylist()
        for row, (schema_id, names) in enumerate(zip(entries["schema_id"].to_pylist(), listed, strict=True)):
            groups.setdefault((schema_id, None if names is None else tuple(names)), []).append(row)
        table = entries if isinstance(entries, pa.Table) else pa.Table.from_batches([entries])
        for (schema_id, names), rows in groups.items():
            batch = table.take(array(rows, pa.int64())).append_column("_schema", array([schema_id] * len(rows)))
            yield rows, batch, self._store.schema(schema_id).field_names if names is None else names

    def _add_statistics(self, files: list[DataFile], entries: pa.Table, names: tuple[str, ...]) -> None:
        fields = {f.name: f for f in self._store.schema(entries["_schema"][0].as_py()).fields}
        if not all(name in fields for name in names):  # statistics of columns that are not the table's
            return
        stats = RowStatistics(
            names=names,
            types=[fields[name].type for name in names],
            minimum=one_array(entries["value_stats_min"]),
            maximum=one_array(entries["value_stats_max"]),
            null_counts=one_array(entries["value_stats_nulls"]),
            row_counts=one_array(entries["row_count"]),
        )
        for name in names:
            field = fields[name]
            column = stats.of(ColumnRef(name, (), field.type, field.id))
            if column is None:
                continue
            _put(files, "null_value_counts", field.id, column.null_count.to_pylist())
            if field.type.kind in NESTED_KINDS:
                continue
            low, high = _both(column)
            _put(files, "lower_bounds", field.id, bounds(low, field.type, upper=False))
            _put(files, "upper_bounds", field.id, bounds(high, field.type, upper=True))

    def vectors(self, entries: Iterable[IndexEntry]) -> list[DataFile]:
        """The deletion vectors of a snapshot's index manifest.

        Raises UnsupportedError: one of 32 bits, which Iceberg does not know, or that counts no rows."""
        listed = [entry for entry in entries if entry.index_type == DELETION_VECTORS and entry.deletion_ranges]
        if listed and not self._shows_vectors:
            raise _unknown_vectors(self._store.root)
        if not listed:
            return []
        paths = self._table_paths(any(entry.external_path is not None for entry in listed))
        rows = array([entry.partition for entry in listed], pa.binary())
        partitions = avro.partitions(self._schema, rows)
        directories = PartitionDirectories(self._store.io, self._schema, paths)
        found: list[DataFile] = []
        for entry, partition in zip(listed, partitions, strict=True):
            path = directories.index_file(entry)
            ranges = entry.deletion_ranges or ()
            heads = self._store.io.read_ranges(path, [(range_.offset + 4, 4) for range_ in ranges])
            for range_, head in zip(ranges, heads, strict=True):
                if range_.cardinality is None or not is_64_bit(head):
                    raise _unknown_vectors(path)
                directory = directories.of_file(entry.partition, entry.bucket, range_.data_file)
                data_file = paths.data_file(directory, entry.bucket, range_.data_file)
                found.append({
                    "content": _POSITION_DELETES, "file_path": self._folder.spelled(path), "file_format": "puffin",
                    "partition": partition, "record_count": range_.cardinality,
                    "file_size_in_bytes": entry.file_size, "null_value_counts": None, "lower_bounds": None,
                    "upper_bounds": None, "referenced_data_file": self._folder.spelled(data_file),
                    "content_offset": range_.offset, "content_size_in_bytes": range_.length, "first_row_id": None,
                })  # fmt: skip
        return found


def _unknown_vectors(path: str) -> UnsupportedError:
    return UnsupportedError(
        "Iceberg's readers would not see a deletion vector, and give deleted rows: it has 32 bits, or no count",
        path=path,
        hint="set deletion-vectors.bitmap64=true and metadata.iceberg.format-version=3, and compact with full=True",
    )


def _both(column: ColumnStats) -> tuple[pa.Array, pa.Array]:
    """Least and greatest values, where both are known."""
    low, high = column.min, column.max
    if not low.null_count and not high.null_count and column.unknown is None:
        return low, high
    both = pc.and_(pc.is_valid(low), pc.is_valid(high))
    if column.unknown is not None:
        both = pc.and_(both, from_numpy(~column.unknown))
    nothing = scalar(None, low.type)
    return pc.if_else(both, low, nothing), pc.if_else(both, high, nothing)


def _put(files: list[DataFile], name: str, id_: int, values: Iterable[Any]) -> None:
    for file, value in zip(files, values, strict=True):
        if value is not None:
            file[name].append({"key": id_, "value": value})
