"""The one reader of manifests: the lists of a snapshot, pruned by partition and bucket, and their entries.

Whatever reads entries passes here, so that each manifest is held against what its list says of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, one_batch, scalar, to_numpy
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.metadata.entry_filter import EntryFilter
from paimon_pyds.metadata.manifest import IDENTITY_COLUMNS, FileKind, ManifestFile, entry_schema, live_entries
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore

__all__ = ["ManifestReader"]


class ManifestReader:
    """Reads what manifests say of some partitions and buckets of a table.

    Every method raises SnapshotNotFoundError for a file that is gone, and CorruptFileError for one that is damaged.

    Args:
        store: the table.
        wanted: which entries; all when None.
    """

    def __init__(self, store: TableStore, wanted: EntryFilter | None = None) -> None:
        self._store = store
        self._wanted = None if wanted is None or wanted.keeps_all else wanted

    # ----------------------------------------------------------------------------------------------------------- lists

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot, those of its base first; none for None."""
        if snapshot is None:
            return []
        return [*self.listed(snapshot.base_manifest_list, snapshot.base_manifest_list_size), *self.delta(snapshot)]

    def delta(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of what a snapshot changed."""
        return self.listed(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)

    def changelog(self, snapshot: Snapshot) -> list[ManifestFile]:
        """The manifests of a snapshot's changelog files; none where it has no changelog."""
        if snapshot.changelog_manifest_list is None:
            return []
        return self.listed(snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size)

    def listed(self, name: str, size: int | None = None) -> list[ManifestFile]:
        """The manifests of a manifest list; ``size`` in bytes is what names it says of it."""
        return list(self._store.read_manifest_list(name, size))

    # --------------------------------------------------------------------------------------------------------- entries

    def entries(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.Table:
        """The entries of some manifests, in order, ADDs and DELETEs; manifests without a wanted one stay closed.

        Args:
            manifests: as the methods above give them.
            columns: of `ENTRY_SCHEMA`; all when None.
        """
        return self._entries(self._relevant(manifests), None if columns is None else frozenset(columns))

    def _relevant(self, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        return manifests if self._wanted is None else self._wanted.may_hold(manifests)

    def _entries(self, manifests: Sequence[ManifestFile], asked: frozenset[str] | None) -> pa.Table:
        read = asked if asked is None or self._wanted is None else asked.union(self._wanted.columns)
        schema = entry_schema(read)
        batches = [self._read(manifest, None if read is None else schema.names) for manifest in manifests]
        entries = pa.Table.from_batches([b for b in batches if b.num_rows], schema)
        if self._wanted is not None:
            entries = entries.filter(from_numpy(self._wanted.mask(entries)))
        return entries if read == asked else entries.select(entry_schema(asked).names)

    def live(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The entries of the files that are there after all these manifests (`live_entries`).

        What identifies a file is read only where an entry deletes one. Arguments as those of `entries`.
        """
        asked = None if columns is None else frozenset(columns)
        read = None if asked is None else asked.union(("kind",))
        identified = None if read is None else read.union(IDENTITY_COLUMNS)
        manifests = self._relevant(manifests)
        if any(m.num_deleted_files for m in manifests):
            read = identified
        entries = self._entries(manifests, read)
        if _has_deletes(entries):
            if read != identified:  # they are not counted by their list
                entries = self._entries(manifests, read := identified)
            entries = live_entries([entries])
        return one_batch(entries if read == asked else entries.select(entry_schema(asked).names))

    def live_files(self, snapshot: Snapshot | None, columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The entries of a snapshot's files; none for a table that was never written."""
        return self.live(self.manifests(snapshot), columns)

    def added(self, manifests: Sequence[ManifestFile], columns: Iterable[str] | None = None) -> pa.RecordBatch:
        """The ADDs among the entries of some manifests. Arguments as those of `entries`."""
        asked = None if columns is None else frozenset(columns)
        entries = self.entries(manifests, None if asked is None else asked.union(("kind",)))
        return one_batch(entries.filter(_is_kind(entries, FileKind.ADD)).select(entry_schema(asked).names))

    def _read(self, manifest: ManifestFile, columns: Sequence[str] | None) -> pa.RecordBatch:
        entries = self._store.read_manifest(manifest.file_name, columns, manifest.file_size)
        listed = manifest.num_added_files + manifest.num_deleted_files
        if entries.num_rows != listed:
            path = self._store.paths.manifest(manifest.file_name)
            raise CorruptFileError(
                f"the file has {entries.num_rows} entries, its manifest list says {listed}", path=path
            )
        return entries


def _has_deletes(entries: pa.Table) -> bool:
    return any((to_numpy(kinds) == FileKind.DELETE).any() for kinds in entries["kind"].chunks)


def _is_kind(entries: pa.Table, kind: int) -> pa.ChunkedArray:
    return pc.equal(entries["kind"], scalar(kind, pa.int8()))
