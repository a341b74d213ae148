"""Merging manifests, so that many small commits do not make a plan read many small files.

Source: Paimon documentation, maintenance/manage-small-files ("manifest merging"), and options
manifest.target-file-size, manifest.merge-min-count, manifest.full-compaction-threshold-size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, is_true, one_batch, pc, scalar, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.row import EMPTY_ROW, decode_rows, encode_row
from paimon_pyds.base.row.simple_stats import SimpleStats
from paimon_pyds.base.types import DataType, scalar_to_internal
from paimon_pyds.metadata.manifest import FileKind, ManifestFile, file_identities
from paimon_pyds.metadata.manifest_codec import encode_manifest
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore


@dataclass(slots=True)
class ManifestWriter:
    """Writes manifests of the target size and remembers their names, so that a failed commit can remove them."""

    store: TableStore
    options: TableOptions
    schema: TableSchema
    written: list[str] = field(default_factory=list)

    def write(self, entries: pa.RecordBatch) -> list[ManifestFile]:
        """Entries in manifests of about ``manifest.target-file-size``; none for no entries.

        Entries are encoded to a third of their size in memory, or less: then as those before them.
        """
        target = int(self.options.get("manifest.target-file-size"))
        each = max(1, entries.nbytes / 3) / max(1, entries.num_rows)
        files: list[ManifestFile] = []
        start = 0
        while start < entries.num_rows:
            some = entries.slice(start, max(1, int(target / each)))
            files.append(self._one(some))
            start += some.num_rows
            each = min(each, files[-1].file_size / some.num_rows)
        return files

    def _one(self, entries: pa.RecordBatch) -> ManifestFile:
        data = encode_manifest(entries, str(self.options.get("manifest.compression")))
        name, size = self.store.write_manifest(data)
        self.written.append(name)
        kinds = entries.column("kind")
        added = int(np.count_nonzero(to_numpy(kinds) == FileKind.ADD))
        buckets, levels = pc.min_max(entries.column("bucket")).as_py(), pc.min_max(entries.column("level")).as_py()
        row_ids = entries.column("first_row_id")
        first, last = None, None
        if row_ids.null_count == 0:
            first = pc.min(row_ids).as_py()
            last = pc.max(pc.add(row_ids, pc.subtract(entries.column("row_count"), 1))).as_py()
        types = [f.type for f in self.schema.partition_fields]
        return ManifestFile(
            file_name=name,
            file_size=size,
            num_added_files=added,
            num_deleted_files=entries.num_rows - added,
            partition_stats=_partition_stats(entries.column("partition"), types),
            schema_id=self.schema.id,
            min_bucket=buckets["min"],
            max_bucket=buckets["max"],
            min_level=levels["min"],
            max_level=levels["max"],
            min_row_id=first,
            max_row_id=last,
        )


def _partition_stats(partitions: pa.Array, types: Sequence[DataType]) -> SimpleStats:
    """Minimum, maximum and number of NULLs of each partition column over some entries."""
    if not types:
        return SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    coded = partitions.dictionary_encode()
    counts = np.bincount(to_numpy(coded.indices), minlength=len(coded.dictionary))
    low, high, nulls = [], [], []
    for column in decode_rows(coded.dictionary, types, arity=True):
        low.append(scalar_to_internal(_extreme(column, "ascending")))
        high.append(scalar_to_internal(_extreme(column, "descending")))
        nulls.append(int(counts[is_true(column.is_null())].sum()))
    nullable = [t.with_nullable(True) for t in types]
    return SimpleStats(encode_row(low, nullable), encode_row(high, nullable), tuple(nulls))


def _extreme(column: pa.Array, order: str) -> pa.Scalar:
    """The first value in Java's order, where NaN is greatest and -0.0 comes before 0.0; NULL without values."""
    values = column.drop_null()
    if not len(values):
        return scalar(None, column.type)
    indices = pc.array_sort_indices(values)
    value = values[indices[0 if order == "ascending" else len(values) - 1].as_py()]
    if pa.types.is_floating(column.type) and value.as_py() == 0:
        return scalar(-0.0 if order == "ascending" else 0.0, column.type)
    return value


def _merged(whole: pa.RecordBatch) -> pa.RecordBatch:
    """Entries of several manifests as those of one: an addition and its deletion cancel, other deletions stay."""
    kinds = to_numpy(whole.column("kind"))
    deletes = np.flatnonzero(kinds == FileKind.DELETE)
    if not len(deletes):
        return whole
    names = whole.column("file_name").take(array(deletes))
    touched = np.flatnonzero(to_numpy(pc.is_in(whole.column("file_name"), names)))
    added: dict[bytes, int] = {}
    keep = np.ones(whole.num_rows, dtype=bool)
    for at, key in zip(touched.tolist(), identities(whole.take(array(touched))), strict=True):
        if kinds[at] == FileKind.ADD:
            added[key] = at
        elif key in added:
            keep[[added.pop(key), at]] = False
    return whole.filter(array(keep))


def identities(entries: pa.RecordBatch) -> list[bytes]:
    """The identity of the file of each entry (`file_identities`), to be put in sets."""
    found: list[bytes] = file_identities(entries).to_pylist()
    return found


def merge_manifests(manifests: list[ManifestFile], writer: ManifestWriter, *, full: bool = False) -> list[ManifestFile]:
    """The manifests of the next base list: rewritten where it pays, else as they are.

    A full rewrite drops every deleted entry once the manifests that hold deletions or are small add up to
    ``manifest.full-compaction-threshold-size``, or when the caller wants it (``full``); else runs of small manifests
    are joined to manifests of the target size. New manifests may miss the target: small means less than half of it, or
    every commit would write the same entries again.
    """
    target = int(writer.options.get("manifest.target-file-size"))
    threshold = int(writer.options.get("manifest.full-compaction-threshold-size"))
    changing = [m for m in manifests if m.num_deleted_files or m.file_size < target // 2]
    worthwhile = sum(m.file_size for m in changing) >= threshold and any(m.num_deleted_files for m in changing)
    if full or worthwhile:
        return writer.write(ManifestReader(writer.store).live(manifests))
    least = max(2, int(writer.options.get("manifest.merge-min-count")))
    result: list[ManifestFile] = []
    run: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if manifest.file_size >= target // 2:
            result += [*_joined(run, writer, least), manifest]
            run, size = [], 0
            continue
        run.append(manifest)
        size += manifest.file_size
        if size >= target:
            result += _joined(run, writer, 2)
            run, size = [], 0
    return result + _joined(run, writer, least)


def manifests_to_rewrite(
    store: TableStore, schema: TableSchema, manifests: Sequence[ManifestFile], target: int
) -> list[ManifestFile]:
    """The manifests that hold deletions or are small, and those that may hold what the deletions take away, in order.

    None where no deletion is among them, and together they would be as many as they are.

    ``manifests``: of a snapshot, in order. ``target``: what size manifests should have, in bytes.
    """
    deleting = [m for m in manifests if m.num_deleted_files]
    changing = {m.file_name for m in manifests if m.num_deleted_files or m.file_size < target}
    size = sum(m.file_size for m in manifests if m.file_name in changing)
    if not deleting and len(changing) <= max(1, -(-size // target)):
        return []
    entries = ManifestReader(store).entries(deleting, ("kind", "partition"))
    deleted = entries.filter(pc.equal(entries["kind"], FileKind.DELETE))["partition"]
    wanted = EntryFilter(schema, partitions=frozenset(deleted.unique().to_pylist()))
    changing.update(m.file_name for m in wanted.may_hold(manifests))
    return [m for m in manifests if m.file_name in changing]


def rewrite_manifests(manifests: Sequence[ManifestFile], writer: ManifestWriter) -> list[ManifestFile] | None:
    """The manifests of the next base list, without deleted entries, of ``manifest.target-file-size`` each; None where
    they would be no fewer than they are, and hold no deletions."""
    target = int(writer.options.get("manifest.target-file-size"))
    before = manifests_to_rewrite(writer.store, writer.schema, manifests, target)
    if not before:
        return None
    after = writer.write(ManifestReader(writer.store).live(before))
    if len(after) >= len(before) and not any(m.num_deleted_files for m in before):
        return None
    names = {m.file_name for m in before}
    return [*(m for m in manifests if m.file_name not in names), *after]


def _joined(run: list[ManifestFile], writer: ManifestWriter, least: int) -> list[ManifestFile]:
    """Manifests as one, or several of the target size, if they are ``least`` or more."""
    if len(run) < least:
        return run
    return writer.write(_merged(one_batch(ManifestReader(writer.store).entries(run))))
