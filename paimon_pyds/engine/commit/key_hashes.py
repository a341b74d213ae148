"""The hash index of a commit to dynamic buckets: what its writers added to a bucket, in the one file that this has.

Writers, of which several may have found new keys for one bucket, leave the hashes of these in files of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa

from paimon_pyds.engine.commit.earlier_commits import EarlierCommits
from paimon_pyds.engine.commit.publisher import removing_unfinished
from paimon_pyds.errors import CommitConflictError, CommitError, CorruptFileError
from paimon_pyds.keys.bucket.hash_index import Hashes, HashIndex
from paimon_pyds.metadata.commit_message import BucketFiles, IndexIncrement, increments_of
from paimon_pyds.metadata.manifest import HASH, IndexEntry
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard


def check_hash_files(entries: Iterable[IndexEntry], expected: Mapping[bytes, frozenset[str]], root: str) -> None:
    """Look whether keys still are where the writers of a commit found them. ``entries``: of the index manifest that the
    commit lands on. ``expected``: by partition, the names of all its hash index files.
    Raises CommitConflictError: a partition has other ones."""
    found: dict[bytes, set[str]] = {partition: set() for partition in expected}
    for entry in entries:
        if entry.index_type == HASH and entry.partition in found:
            found[entry.partition].add(entry.file_name)
    if found != expected:
        raise _conflict(root)


class OtherKeysError(CommitConflictError):
    """Keys may be in other buckets than a write found."""


def _conflict(root: str) -> OtherKeysError:
    return OtherKeysError(
        "another job wrote to the same partition meanwhile: keys may be in other buckets than this write found",
        path=root,
        hint="write the rows again, with fewer jobs at a time; or raise commit.max-retries",
    )


def with_hash_index(
    store: TableStore,
    schema: TableSchema,
    buckets: Sequence[BucketFiles],
    latest: Snapshot | None,
    *,
    overwrite: bool,
    several: bool,
) -> tuple[tuple[BucketFiles, ...], list[str], list[str]]:
    """New files of buckets together with the hash index files that they need on top of a snapshot; the paths of the
    index files that were written for this; and the files of writers whose hashes these hold, which nobody needs once
    they are committed. As they were given, where the table has them already.

    ``overwrite``: whether they replace all others of their partitions. ``several``: whether more than one writer wrote
    them.

    Raises:
        CommitError: a new key is in two buckets.
        CommitConflictError: writers went by different states of the table, or by one that is no longer the latest.
        CorruptFileError: a bucket has rows and no hash index, or one that is damaged.
        SnapshotNotFoundError: the snapshot has expired.
        StorageError: a hash index file can't be read or written.
    """
    if EarlierCommits(store, increments_of(buckets)[0]).find(latest) is not None:
        return tuple(buckets), [], []
    found_in = _found_in(buckets, store.root)
    entries = store.index_entries(latest)
    check_hash_files(entries, {key: names for key, names in found_in.items() if names or not overwrite}, store.root)
    if not overwrite and latest is not None:
        wanted = EntryFilter(schema, partitions=frozenset(found_in))
        live = ManifestReader(store, wanted).live_files(latest, ("partition", "bucket"))
        _check_indexed(live, entries, store.root)
    index = HashIndex(store, schema, entries)
    if several:
        _check_new_keys(index, buckets, store.root)
    written = list[str]()
    with removing_unfinished(partial(discard, store.io, written)):
        made, parts = _indexed(index, buckets, written, overwrite=overwrite)
    return made, written, parts


def _indexed(
    index: HashIndex, buckets: Sequence[BucketFiles], written: list[str], *, overwrite: bool
) -> tuple[tuple[BucketFiles, ...], list[str]]:
    """The buckets with their index files, and the files of writers whose hashes these hold. ``written``: gets the paths
    of the files that are written here."""
    made, parts = list(buckets), list[str]()
    touched: dict[PartitionBucket, list[int]] = {}
    for number, bucket in enumerate(buckets):
        if bucket.hashes is not None:
            touched.setdefault(PartitionBucket(bucket.partition, bucket.bucket), []).append(number)
    for key, numbers in touched.items():
        hashes = [hashes for number in numbers if (hashes := buckets[number].hashes) is not None]
        files = [file for file in hashes if file.added is not None]
        new = [file.added for file in files if file.added is not None]
        old = [e for e in index.files(key.partition) if e.bucket == key.bucket and hashes[0].found_in]
        if len(new) == 1 and not old:
            indexes = IndexIncrement((new[0],), paths=(files[0].path,))
        elif new or (old and overwrite):
            entry, path = index.write(key, _united(index, old, new), written)
            indexes = IndexIncrement((entry,), frozenset(e.file_name for e in old), (path,))
            parts += [file.path for file in files]
        else:
            continue
        made[numbers[0]] = replace(buckets[numbers[0]], indexes=indexes)
    return tuple(made), parts


def _found_in(buckets: Iterable[BucketFiles], root: str) -> dict[bytes, frozenset[str]]:
    """By partition, the hash index files that writers found keys in: all of them the same."""
    found: dict[bytes, frozenset[str]] = {}
    for bucket in buckets:
        files = bucket.hashes
        if files is not None and found.setdefault(bucket.partition, files.found_in) != files.found_in:
            raise _conflict(root)
    return found


def _check_indexed(live: pa.RecordBatch, entries: Iterable[IndexEntry], root: str) -> None:
    """Keys of a bucket without a hash index would be taken for new ones."""
    indexed = {(entry.partition, entry.bucket) for entry in entries if entry.index_type == HASH}
    for key in dict.fromkeys(zip(live["partition"].to_pylist(), live["bucket"].to_pylist(), strict=True)):
        if key not in indexed:
            raise CorruptFileError(
                f"bucket {key[1]} has rows, but no hash index of their keys",
                path=root,
                hint="another writer left it out; overwrite the partition with its own rows",
            )


def _check_new_keys(index: HashIndex, added: Iterable[BucketFiles], root: str) -> None:
    """New keys must be in one bucket each, whoever put them there."""
    buckets: dict[PartitionBucket, list[IndexEntry]] = {}
    for bucket in added:
        if bucket.hashes is not None and bucket.hashes.added is not None:
            key = PartitionBucket(bucket.partition, bucket.bucket)
            buckets.setdefault(key, []).append(bucket.hashes.added)
    partitions: dict[bytes, list[list[IndexEntry]]] = {}
    for key, files in buckets.items():
        partitions.setdefault(key.partition, []).append(files)
    for parts in partitions.values():
        if len(parts) > 1 and _distinct(index, [*chain(*parts)]) < sum(_distinct(index, files) for files in parts):
            raise CommitError(
                "a key was put into two buckets: two writers had rows of it and did not know of one another; or the "
                "DataFrame had other rows when Spark computed a part of it again",
                path=root,
                hint="give the writers of a job the numbers of their tasks; write such a DataFrame after checkpoint() "
                "or localCheckpoint(), which keep its rows",
            )


def _distinct(index: HashIndex, files: Sequence[IndexEntry]) -> int:
    return files[0].row_count if len(files) == 1 else sum(map(len, _united(index, (), files)))


def _united(index: HashIndex, old: Iterable[IndexEntry], new: Sequence[IndexEntry]) -> Iterator[Hashes]:
    """The hashes that a bucket had, then those that are new, each once: they are ascending in each file."""
    for entry in old:
        yield from index.parts(entry)
    files = [index.parts(entry) for entry in new]
    waiting = [(file, next(file)) for file in files]
    while waiting:
        limit = min(part[-1] for _, part in waiting)
        ends = [int(np.searchsorted(part, limit, side="right")) for _, part in waiting]
        yield np.unique(np.concatenate([part[:end] for (_, part), end in zip(waiting, ends, strict=True)]))
        rests = [(file, part[end:]) for (file, part), end in zip(waiting, ends, strict=True)]
        filled = [(file, part if len(part) else next(file, part)) for file, part in rests]
        waiting = [(file, part) for file, part in filled if len(part)]
