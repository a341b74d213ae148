"""The packs of BLOBs that data files of tables with a primary key refer to (`engine.write.managed_blobs`)."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.format.blob.references import decode_references
from paimon_pyds.metadata.paths import named_file
from paimon_pyds.metadata.store import TableStore


def listed_packs(store: TableStore, path: str, outside: Sequence[str]) -> list[str]:
    """The paths of the packs that a ``.blobref`` file lists.

    Args:
        store: the table.
        path: of the list.
        outside: directories outside of the table that may have packs.

    Raises:
        CorruptFileError: the list is damaged.
        FileNotFoundError, StorageError: it is gone, or can't be read.
        SecurityError: a pack is in a directory that is not allowed.
    """
    return [named_file(store.root, uri, outside) for uri in decode_references(store.io.read_bytes(path), path)]
