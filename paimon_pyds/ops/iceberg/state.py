"""The manifests of an Iceberg snapshot, and how those of the next one follow from them (Apache Iceberg specification,
Manifests, Sequence Numbers and Row Lineage; Java Paimon 2.x, class IcebergCommitCallback)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paimon_pyds.base.options import TableOptions
from paimon_pyds.format.avro.container import read_container
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.ops.iceberg import manifests as avro
from paimon_pyds.ops.iceberg.files import DataFile, FileChanges
from paimon_pyds.ops.iceberg.folder import IcebergFolder
from paimon_pyds.ops.iceberg.manifests import ADDED, DATA, DELETED, DELETES, EXISTING, Entry, Manifest

_SEARCHED_NAMES = 32
"""Names of files that are searched for in the bytes of a manifest; with more of them it is decoded at once."""
_FULL = 2 / 3
"""Part of ``manifest.target-file-size`` from which a manifest is not merged with others."""


class IcebergState:
    """What Iceberg's readers see of one snapshot.

    ``manifests``: records of the manifest list. ``next_row_id``: the first row id that no row has had. ``lists``: bytes
    of live data files.
    """

    def __init__(
        self,
        folder: IcebergFolder,
        schema: TableSchema,
        options: TableOptions,
        manifests: Iterable[Manifest],
        next_row_id: int,
    ) -> None:
        self._folder = folder
        self._schema = schema
        self._options = options
        self.manifests = list(manifests)
        self.next_row_id = next_row_id

    def apply(self, changes: FileChanges, snapshot: Snapshot) -> dict[str, str]:
        """Change the manifests as a snapshot changes files. Returns the summary of what it did."""
        added, gone = dict(changes.added), list[DataFile]()
        if changes.removed or changes.moved:
            self.manifests = [
                new for manifest in self.manifests for new in self._without(manifest, changes, added, gone, snapshot.id)
            ]
        self.manifests += self._write([_entry(ADDED, snapshot.id, file) for file in added.values()], snapshot.id, DATA)
        operation = "append"
        if gone:
            operation = "replace" if snapshot.commit_kind is CommitKind.COMPACT else "overwrite"
        return {
            "operation": operation,
            "added-data-files": str(len(added)),
            "added-records": str(_sum(added.values(), "record_count")),
            "added-files-size": str(_sum(added.values(), "file_size_in_bytes")),
            "deleted-data-files": str(len(gone)),
            "deleted-records": str(_sum(gone, "record_count")),
            "removed-files-size": str(_sum(gone, "file_size_in_bytes")),
            "changed-partition-count": str(changes.partitions),
        }

    def show_vectors(self, vectors: Sequence[DataFile], snapshot_id: int) -> None:
        """Replace the deletion vectors."""
        self.manifests = [m for m in self.manifests if m["content"] == DATA]
        self.manifests += self._write([_entry(ADDED, snapshot_id, vector) for vector in vectors], snapshot_id, DELETES)

    def totals(self) -> dict[str, str]:
        """The members of a summary that count rows and files, but not the bytes of data files."""

        def count(content: int, what: str) -> str:
            found = [m for m in self.manifests if m["content"] == content]
            return str(sum(m[f"added_{what}_count"] + m[f"existing_{what}_count"] for m in found))

        return {
            "total-records": count(DATA, "rows"), "total-data-files": count(DATA, "files"),
            "total-delete-files": count(DELETES, "files"), "total-position-deletes": count(DELETES, "rows"),
            "total-equality-deletes": "0",
        }  # fmt: skip

    def number_rows(self) -> int:
        """Give row ids to the manifests that have none, and say how many that were."""
        first = self.next_row_id
        for manifest in self.manifests:
            if manifest["content"] == DATA and manifest["first_row_id"] is None:
                manifest["first_row_id"] = self.next_row_id
                self.next_row_id += manifest["added_rows_count"] + manifest["existing_rows_count"]
        return self.next_row_id - first

    def merge_small(self, snapshot_id: int) -> None:
        """Merge small manifests of data files where the options say that there are too many."""
        target = int(self._options.get("manifest.target-file-size"))
        small = [m for m in self.manifests if m["content"] == DATA and m["manifest_length"] < target * _FULL]
        least, most = (int(self._options.get(f"metadata.iceberg.compaction.{key}.file-num")) for key in ("min", "max"))
        if len(small) < least or (len(small) < most and sum(m["manifest_length"] for m in small) < target):
            return
        small.sort(key=lambda manifest: -int(manifest["manifest_length"]))
        while small and small[0]["manifest_length"] > sum(m["manifest_length"] for m in small[1:]):
            small.pop(0)  # or each merge would write most of the table's entries again
        entries: list[Entry] = []
        for manifest in small:
            for entry in self._entries(manifest, self._bytes(manifest)):
                if entry["snapshot_id"] != snapshot_id:
                    if entry["status"] == DELETED:
                        continue
                    entry["status"] = EXISTING
                entries.append(entry)
        own = [m["manifest_path"] for m in small if m["added_snapshot_id"] == snapshot_id]
        merged = {id(m) for m in small}
        rest = [m for m in self.manifests if id(m) not in merged]
        self.manifests = [*rest, *self._write(entries, snapshot_id, DATA)]
        self._folder.remove(own)  # no list has them

    def _without(
        self, manifest: Manifest, changes: FileChanges, added: dict[str, Any], gone: list[DataFile], snapshot_id: int
    ) -> list[Manifest]:
        """A manifest without the files that a snapshot removed: itself if it holds no such file. Files that only moved
        are taken from ``added`` where they are here; those that went are added to ``gone``."""
        if manifest["content"] != DATA:
            return [manifest]
        data = self._bytes(manifest)
        if not _may_name(data, changes.removed | changes.moved, manifest["manifest_path"]):
            return [manifest]
        entries = self._entries(manifest, data)
        live = [entry for entry in entries if entry["status"] != DELETED]
        for entry in live:
            added.pop(entry["data_file"]["file_path"], None)
        lost = [e["data_file"] for e in live if e["data_file"]["file_path"] in changes.removed]
        if not lost:
            return [manifest]
        gone += lost
        for entry in live:
            entry["status"] = EXISTING
            if entry["data_file"]["file_path"] in changes.removed:
                entry |= {"status": DELETED, "snapshot_id": snapshot_id}
        return self._write(live, snapshot_id, DATA)

    def _bytes(self, manifest: Manifest) -> bytes:
        return self._folder.read_bytes(manifest["manifest_path"])

    def _entries(self, manifest: Manifest, data: bytes) -> list[Entry]:
        """The entries of a manifest; the row ids that its files get by their order are written into them."""
        entries = list(avro.decode(data, manifest["manifest_path"]))
        row_id = manifest["first_row_id"]
        for entry in entries:
            file = entry["data_file"]
            file.setdefault("first_row_id", None)
            if row_id is not None and entry["status"] != DELETED and file["first_row_id"] is None:
                file["first_row_id"] = row_id
                row_id += file["record_count"]
        return entries

    def _write(self, entries: Sequence[Entry], snapshot_id: int, content: int) -> list[Manifest]:
        if not entries:
            return []
        folder = self._folder
        target = int(self._options.get("manifest.target-file-size"))
        return [
            {
                **record, "manifest_path": folder.write_manifest(data), "content": content,
                "sequence_number": snapshot_id, "added_snapshot_id": snapshot_id, "first_row_id": None,
            }
            for data, record in avro.encode_manifests(entries, self._schema, folder.version, folder.codec, target)
        ]  # fmt: skip


def _entry(status: int, snapshot_id: int, file: DataFile) -> Entry:
    return {
        "status": status,
        "snapshot_id": snapshot_id,
        "sequence_number": snapshot_id,
        "file_sequence_number": snapshot_id,
        "data_file": file,
    }


def _sum(files: Iterable[DataFile], member: str) -> int:
    return sum(file[member] for file in files)


def _may_name(data: bytes, paths: set[str], path: str) -> bool:
    """Whether a manifest may have one of these files: their names are unique."""
    if len(paths) > _SEARCHED_NAMES:
        return True
    names = [name.rsplit("/", 1)[-1].encode() for name in paths]
    return any(name in block for block in read_container(data, path).blocks for name in names)
