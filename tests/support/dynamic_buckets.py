"""What must hold of every table with dynamic buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.base.row import EMPTY_ROW, encode_rows, hash_rows
from paimon_pyds.base.types import DataType
from paimon_pyds.keys.bucket.hash_index import HashIndex
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket


def bucket_keys(table: pp.Table) -> Mapping[PartitionBucket, set[int]]:
    """The hashes that the hash index has, by bucket; looks whether no hash and no key is in two buckets of a partition,
    and whether the index has the keys of all files."""
    snapshot = table.snapshots.latest()
    name = None if snapshot is None else snapshot.index_manifest
    entries = () if name is None else table._store.read_index_manifest(name)
    index = HashIndex(table._store, table.schema, entries)
    found = {}
    for partition in {entry.partition for entry in entries}:
        for entry in index.files(partition):
            hashes = index.read(entry).tolist()
            assert len(set(hashes)) == len(hashes) == entry.row_count
            assert entry.file_size == 4 * entry.row_count
            found[PartitionBucket(partition, entry.bucket)] = set(hashes)
    twice = Counter((key.partition, number) for key, hashes in found.items() for number in hashes)
    assert not twice or max(twice.values()) == 1
    for key, hashes in _hashes_in_files(table).items():
        assert hashes <= found.get(key, set()), key
    return found


def indexed_buckets(table: pp.Table, rows: pa.Table) -> list[int]:
    """The bucket that the hash index says of each row's key; -1 for none."""
    schema, places = table.schema, {}
    for (partition, bucket), hashes in bucket_keys(table).items():
        places.update(dict.fromkeys(((partition, number) for number in hashes), bucket))

    def columns(names: Sequence[str]) -> tuple[list[pa.Array], list[DataType]]:
        return [rows[name].combine_chunks() for name in names], [schema.field(name).type for name in names]

    keys = hash_rows(*columns(schema.trimmed_primary_keys)).tolist()
    by = schema.partition_keys
    partitions = encode_rows(*columns(by), arity=True).to_pylist() if by else [EMPTY_ROW] * len(keys)
    return [places.get(place, -1) for place in zip(partitions, keys, strict=True)]


def _hashes_in_files(table: pp.Table) -> Mapping[PartitionBucket, set[int]]:
    from paimon_pyds import format as formats
    from paimon_pyds.base.selection import RowSelection
    from paimon_pyds.engine.scan.planned_files import planned_files
    from paimon_pyds.format import ReadCounters
    from paimon_pyds.keys.merge.key_values import leading_columns
    from paimon_pyds.metadata.split import ReadSpec

    keys = [table.schema.field(name) for name in table.schema.trimmed_primary_keys]
    live = ManifestReader(table._store).live_files(table.snapshots.latest())
    found: dict[PartitionBucket, set[int]] = {}
    for file in planned_files(table._store, table.schema, live):
        schemas = {file.schema_id: table._store.schema(file.schema_id).fields}
        spec = ReadSpec(table._store.io, schemas, (), options=table.options, leading=leading_columns(table.schema))
        reader = formats.by_path(file.path).open_reader(
            table._store.io, file.path, file.size, ReadCounters(), spec.hints(file)
        )
        for batch in reader.read(keys, RowSelection.ALL, 10_000):
            hashes = hash_rows(batch.columns, [key.type for key in keys]).tolist()
            found.setdefault(file.bucket_id, set()).update(hashes)
        reader.close()
    return found
