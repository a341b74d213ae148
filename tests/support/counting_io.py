"""Local files, with a note of what was read."""

from __future__ import annotations

from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO


class CountingIO(LocalFileIO):
    """Notes the name and size of each whole file that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[str, int]] = []

    def read_bytes(self, path: str) -> bytes:
        data = super().read_bytes(path)
        self.read.append((path.rpartition("/")[2], len(data)))
        return data

    @property
    def manifests(self) -> list[str]:
        """The manifests read, without manifest lists and index manifests."""
        return [n for n, _ in self.read if n.startswith("manifest-") and not n.startswith("manifest-list-")]


def counted(root: str) -> tuple[TableStore, CountingIO]:
    """A store of a table that nothing is known of in this process, and what it reads."""
    METADATA_CACHE.clear()
    io = CountingIO()
    store = TableStore(io, root)
    store.latest_schema()
    io.read.clear()
    return store, io
