"""Files in dynamic buckets, written while another commit put keys into some: their rows move to the keys' buckets.

Writers look for their keys in the hash index of the snapshot that they began with. Where a partition got another one
since, the keys of their files are looked up once more. Files whose keys are all new, or in the bucket that they are
written to, stay as they are; those of other buckets are read back, in bounded memory, and written again. Nobody has
seen them yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.base.progress import phase
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import hash_rows
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.commit.earlier_commits import EarlierCommits
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.engine.execution.writing import abort_messages, write_context
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.scan.planned_files import planned_files, spec_of_files
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.engine.write.writer import joined_batches
from paimon_pyds.keys.bucket.hash_index import Hashes, HashIndex
from paimon_pyds.keys.bucket.key_buckets import KeyBuckets
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage, KeyHashes, added_entries, increments_of
from paimon_pyds.metadata.manifest import HASH, DataFile
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import Split
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard

_BUCKET = "__paimon_bucket"


def in_newest_places(
    store: TableStore, latest: Snapshot | None, buckets: Sequence[BucketFiles], options: Mapping[str, str] | None
) -> tuple[BucketFiles, ...]:
    """What writers wrote to buckets, as it has to be committed on top of a snapshot.

    ``store``: a table with dynamic buckets. ``latest``: the snapshot. ``buckets``: of all messages, uncommitted; the
    files that are written again go. ``options``: of the write.

    Raises:
        CorruptFileError, SnapshotNotFoundError, StorageError: a file can't be read or written. Written files are
            removed, and nothing else.
    """
    name = "" if latest is None else latest.index_manifest or ""
    entries = store.index_entries(latest)
    found: dict[bytes, set[str]] = {}
    for entry in entries:
        if entry.index_type == HASH:
            found.setdefault(entry.partition, set()).add(entry.file_name)
    stale = {
        b.partition for b in buckets if b.hashes is not None and b.hashes.found_in != found.get(b.partition, set())
    }
    if not stale or EarlierCommits(store, increments_of(buckets)[0]).find(latest) is not None:
        return tuple(buckets)
    schema = store.latest_schema()
    now = _Now(store, schema, name, HashIndex(store, schema, entries), options)
    groups: dict[PartitionBucket, list[BucketFiles]] = {}
    for bucket in buckets:
        if bucket.partition in stale:
            groups.setdefault(PartitionBucket(bucket.partition, bucket.bucket), []).append(bucket)
    others = tuple(bucket for bucket in buckets if bucket.partition not in stale)
    with phase("moving"):
        return (*others, *_brought(now, groups))


def _brought(now: _Now, groups: Mapping[PartitionBucket, Sequence[BucketFiles]]) -> list[BucketFiles]:
    """The files of some buckets, in the buckets where their keys are now."""
    made, moved = list[BucketFiles](), dict[PartitionBucket, Sequence[BucketFiles]]()
    hashes, written = list[str](), list[str]()
    with removing_unfinished(partial(discard, now.store.io, written)):
        for place, parts in groups.items():
            new = now.new_hashes(place, parts)
            if new is None:
                moved[place] = parts
                continue
            names = frozenset(entry.file_name for entry in now.index.files(place.partition))
            entry, path = now.index.write(place, [new], written) if len(new) else (None, "")
            for number, part in enumerate(parts):
                assert part.hashes is not None
                hashes.append(part.hashes.path)
                own = KeyHashes(names, entry, path) if number == 0 else KeyHashes(names)
                made.append(replace(part, hashes=own))
        if moved:
            made += _rewritten(now, moved).buckets
    abort_messages(now.store, [CommitMessage(tuple(part for parts in moved.values() for part in parts))])
    discard(now.store.io, filter(None, hashes))
    return made


@dataclass(frozen=True, slots=True)
class _Now:
    """The table as it is: ``name`` of its index manifest, "" for none, and the hash index in it. ``options``: of the
    write."""

    store: TableStore
    schema: TableSchema
    name: str
    index: HashIndex
    options: Mapping[str, str] | None

    def known(self, partition: bytes) -> KeyBuckets:
        """In which bucket the keys of a partition are."""
        files = self.index.files(partition)
        readers = [(entry.bucket, partial(self.index.read, entry)) for entry in files]
        return KeyBuckets.of(readers, sum(entry.row_count for entry in files))

    def new_hashes(self, place: PartitionBucket, parts: Sequence[BucketFiles]) -> Hashes | None:
        """The hashes of keys in new files of a bucket that are nowhere, ascending; None where some are elsewhere."""
        known, new = self.known(place.partition), np.empty(0, np.int32)
        fields = tuple(self.schema.field(name) for name in self.schema.trimmed_primary_keys)
        for rows in read_split(self.split(parts, fields)):
            hashes = np.unique(self.hashes(rows))
            at = known.find(hashes)
            if ((at >= 0) & (at != place.bucket)).any():
                return None
            new = np.union1d(new, hashes[at < 0])
        return new

    def hashes(self, rows: pa.RecordBatch) -> Hashes:
        """Those of the keys of rows."""
        names = self.schema.trimmed_primary_keys
        return hash_rows([rows.column(name) for name in names], [self.schema.field(name).type for name in names])

    def split(self, parts: Sequence[BucketFiles], fields: tuple[DataField, ...]) -> Split:
        """All rows that were written, not merged: files in the order of their sequence numbers. A changelog has the
        rows as they came."""
        files = [(part, file) for part in parts for file in part.changelog_files or part.files]
        files.sort(key=lambda pair: pair[1].min_sequence_number)
        entries = added_entries((part, (self.sized(part, file),)) for part, file in files)
        assert entries is not None
        ids = entries["schema_id"].unique().to_pylist()
        spec = spec_of_files(self.store, self.schema, fields, ids, numbered=True)
        planned = planned_files(self.store, self.schema, entries)
        return Split.of(spec, [file._replace(run=None) for file in planned])

    def sized(self, part: BucketFiles, file: DataFile) -> DataFile:
        """A file as it is: a try to commit it may have written other sequence numbers into it."""
        path = file.external_path or f"{part.directory}/{file.file_name}"
        return replace(file, file_size=self.store.io.size(path))


def _rewritten(now: _Now, moved: Mapping[PartitionBucket, Sequence[BucketFiles]]) -> CommitMessage:
    """The rows of files in the buckets where their keys are now, or else where they were."""
    context = replace(write_context(now.store, now.options, existing_rows=True), index_manifest=now.name)
    with TableWriter(context, bucket=_BUCKET) as writer:
        for rows in _placed(now, moved):
            writer.write(rows)
        return writer.prepare_commit()


def _placed(now: _Now, moved: Mapping[PartitionBucket, Sequence[BucketFiles]]) -> Iterator[pa.RecordBatch]:
    fields = (*now.schema.fields, KEY_VALUE_FIELDS[1])
    for place, parts in moved.items():
        known = now.known(place.partition)
        for rows in joined_batches(read_split(now.split(parts, fields))):
            hashes, numbers = np.unique(now.hashes(rows), return_inverse=True)
            at: npt.NDArray[np.int32] = known.find(hashes)
            buckets = np.where(at < 0, place.bucket, at)[numbers.reshape(-1)].astype(np.int32)
            yield rows.append_column(_BUCKET, from_numpy(buckets))
