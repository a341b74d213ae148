"""The index manifest of the next snapshot: which index files stay, go and come."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import array
from paimon_pyds.commit.changes import Increment, vector_places
from paimon_pyds.commit.conflicts import Conflicts
from paimon_pyds.errors import CommitConflictError
from paimon_pyds.metadata.manifest import IndexEntry

__all__ = ["check_vector_files", "next_index_entries"]


def check_vector_files(
    changes: Increment, live: pa.RecordBatch | None, removed: pa.RecordBatch, added: pa.RecordBatch, root: str
) -> None:
    """Raise CommitConflictError for a new deletion vector of a data file that the next snapshot does not have.

    Args:
        changes: what is committed.
        live: the data files of the snapshot that the commit lands on.
        removed: entries of the data files that the commit takes away, without those that come back.
        added: entries of those that come.
        root: the table, for the error.
    """
    places = vector_places(changes.index_entries)
    if not places:
        return
    names = array(sorted(places), pa.string())
    there = pc.is_in(names, added["file_name"])
    if live is not None:
        kept = pc.and_not(pc.is_in(names, live["file_name"]), pc.is_in(names, removed["file_name"]))
        there = pc.or_(there, kept)
    missing = names.filter(pc.invert(there))
    if len(missing):
        raise CommitConflictError(
            f"the data file {missing[0]} was removed by another commit meanwhile: it can't get a deletion vector",
            path=root,
            hint="run the operation again on the latest snapshot",
        )


def next_index_entries(
    old: Sequence[IndexEntry],
    changes: Increment,
    live: pa.RecordBatch | None,
    removed: pa.RecordBatch,
    conflicts: Conflicts,
) -> list[IndexEntry] | None:
    """The entries of the next index manifest; None when they are the old ones.

    Index files that the changes replace go, as do those of overwritten partitions and those whose last live data
    file the commit takes away. One that also has vectors of live files must be among those that are replaced: Java
    Paimon writes no more to a table with a vector whose data file is gone.

    Args:
        old: the entries of the snapshot that the commit lands on.
        changes: what is committed.
        live: the live data files of that snapshot; may be None when the commit takes none away.
        removed: entries of the data files that the commit takes away, without those that come back.
        conflicts: the checks of the same changes.

    Raises:
        CommitConflictError: an index file to replace is gone, or a data file would get a second vector.
        ValueError: an index file would keep the vector of a data file that goes.
    """
    conflicts.check_replaced(old)
    gone = set(removed["file_name"].to_pylist())
    partitions = set() if changes.overwrite is None else set(removed["partition"].to_pylist())
    stay = [
        entry
        for entry in old
        if entry.file_name not in changes.replaced_index_files and entry.partition not in partitions
    ]
    over = _over(stay, gone, live)
    kept = [entry for entry in stay if entry.file_name not in over]
    conflicts.check_added(kept)
    if len(kept) == len(old) and not changes.index_entries:
        return None
    return [*kept, *changes.index_entries]


def _over(entries: Sequence[IndexEntry], gone: set[str], live: pa.RecordBatch | None) -> set[str]:
    """The index files with vectors of data files that go, and none of a data file that stays."""
    touched = {e.file_name: {r.data_file for r in e.deletion_ranges or ()} for e in entries}
    touched = {name: files for name, files in touched.items() if not files.isdisjoint(gone)}
    if not touched or live is None:
        return set(touched)
    files = array(sorted(set().union(*touched.values()) - gone), pa.string())
    stay = set(files.filter(pc.is_in(files, live["file_name"])).to_pylist())
    for name, held in touched.items():
        if not held.isdisjoint(stay):
            raise ValueError(f"the index file {name} would keep the vector of a data file that goes: replace it")
    return set(touched)
