"""What a commit has to know of the live files of the snapshot that it lands on: files of the partitions and buckets
that it touches, and the columns that its checks use."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from paimon_pyds.buffers import one_batch
from paimon_pyds.commit.changes import Increment, Overwrite, vector_places
from paimon_pyds.metadata.entry_filter import EntryFilter
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, ManifestFile
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore

__all__ = ["read_base_files"]

_CHECKED = (*IDENTITY_COLUMNS, "total_buckets", "max_sequence_number")
_NUMBERED = ("partition", "bucket", "total_buckets", "file_name", "max_sequence_number")
"""What a commit that only adds files needs: the number of buckets, and the last sequence number of each."""


def read_base_files(
    store: TableStore, schema: TableSchema, manifests: Sequence[ManifestFile], increment: Increment
) -> pa.RecordBatch | None:
    """The live files that the checks of a commit look at; None when it has nothing to check.

    Commits look at live files that replace some, that put deletion vectors on some, or that continue the sequence
    numbers of a bucket.

    Args:
        store: the table.
        schema: its schema.
        manifests: all of the snapshot that the commit lands on.
        increment: what is committed.

    Returns:
        columns of `ENTRY_SCHEMA`: partition, bucket, total_buckets, file_name and max_sequence_number; with files that
        go or must stay, what identifies a file; with an overwrite, all.
    """
    named = [batch for batch in (increment.deleted, increment.required) if batch is not None]
    vectors = vector_places(increment.index_entries)
    if increment.overwrite is None and not named and not vectors and all(b.total_buckets <= 0 for b in increment.added):
        return None
    partitions = {b.partition for b in increment.added}
    if increment.overwrite is None and not named and not vectors:
        return _read_buckets(store, schema, manifests, increment)
    for batch in named:
        partitions.update(batch["partition"].unique().to_pylist())
    partitions.update(entry.partition for entry in increment.index_entries)
    if increment.overwrite is None:
        wanted = EntryFilter(schema, partitions=frozenset(partitions))
        return ManifestReader(store, wanted).live(manifests, _CHECKED)
    replaced = _replaced_partitions(store, manifests, increment.overwrite)
    if replaced is None:
        return ManifestReader(store).live(manifests)
    wanted = EntryFilter(schema, partitions=frozenset(partitions | replaced))
    return ManifestReader(store, wanted).live(manifests)


def _read_buckets(
    store: TableStore, schema: TableSchema, manifests: Sequence[ManifestFile], increment: Increment
) -> pa.RecordBatch:
    """The files of the buckets that get new ones, and of all buckets of partitions where these have no file yet.

    Files of one partition agree on the number of buckets, so that any of them tells it.
    """
    partitions = frozenset(b.partition for b in increment.added)
    wanted = EntryFilter(schema, partitions=partitions, buckets=frozenset(b.bucket for b in increment.added))
    found = ManifestReader(store, wanted).live(manifests, _NUMBERED)
    unseen = partitions.difference(found["partition"].unique().to_pylist())
    if not unseen:
        return found
    others = EntryFilter(schema, partitions=unseen)
    rest = ManifestReader(store, others).live(manifests, _NUMBERED)
    return one_batch(pa.Table.from_batches([found, rest]))


def _replaced_partitions(
    store: TableStore, manifests: Sequence[ManifestFile], overwrite: Overwrite
) -> set[bytes] | None:
    """The partitions with files that an overwrite replaces; None for all."""
    if overwrite.partitions is None:
        return None
    entries = ManifestReader(store).entries(manifests, ("partition",))
    return overwrite.replaced(entries["partition"].unique().to_pylist())
