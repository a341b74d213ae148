"""The deleted rows of a data file that is read."""

from __future__ import annotations

from pyroaring import BitMap

from paimon_pyds.split import DeletionFile
from paimon_pyds.storage.base import FileIO, FileSource

__all__ = ["deleted_rows"]


def deleted_rows(io: FileIO, deletion: DeletionFile | None, row_count: int) -> BitMap:
    """The positions that a deletion vector holds; none without a vector.

    Args:
        deletion: where the vector lies.
        row_count: rows of the data file.

    Raises:
        CorruptFileError: the vector is damaged, or holds a position that is no row of the file.
        FileNotFoundError: its file is gone.
        StorageError: it can't be read.
    """
    if deletion is None:
        return BitMap()
    from paimon_pyds.deletion.vector import read_vector

    source = FileSource(io, deletion.path)
    return read_vector(source, deletion.offset, deletion.length, deletion.cardinality, row_count).positions
