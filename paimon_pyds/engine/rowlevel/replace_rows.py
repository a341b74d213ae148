"""Rows named by file and position: delete them, or replace them by new versions, as one snapshot.

The metadata columns ``__paimon_file_path`` and ``__paimon_row_index`` have file and position. They are valid until the
file is compacted, overwritten or rewritten, or the row is deleted or updated: then the operation fails, as it can't
find the row again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap

from paimon_pyds.base.options import TableOptions, check_without_key
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.engine.read.live_rows import live_rows
from paimon_pyds.engine.rowlevel.changes import RowSummary, change_rows
from paimon_pyds.engine.rowlevel.target import Candidate, Candidates, RowEdits, RowTarget
from paimon_pyds.engine.rowlevel.tasks import FoundRows, remove_rows
from paimon_pyds.errors import CommitConflictError, OptionError, UnsupportedError
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.snapshot import Operation
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const


def replace_rows(
    store: TableStore,
    positions: Mapping[str, BitMap],
    versions: Sequence[CommitMessage] | None = None,
    *,
    executor: Executor | None = None,
    options: Mapping[str, str] | None = None,
) -> RowSummary:
    """Delete rows by position, or replace them by rows that were written before.

    Args:
        store: an append table.
        positions: by the path of a data file, which of its rows (0-based).
        versions: new data files with one new row for each position; None to delete. They are not removed on errors.
        executor: where files are rewritten, when there are no deletion vectors; the cores of this machine by default.
        options: over the table's own.

    Raises:
        CommitConflictError: a file is not in the table any more, or a row was deleted or updated meanwhile.
        OptionError: a position that is no row of its file.
        UnsupportedError: a table whose rows can't be changed here.
        CommitError, CommitOutcomeUnknownError: see `change_rows`.
    """
    wanted = {path: rows for path, rows in positions.items() if rows}
    workers = executor or LocalExecutor()

    def once(target: RowTarget) -> RowEdits:
        check_without_key(target.schema, "changing rows by their positions in files")
        if versions is not None:
            check_replaceable(target.options, store.root)
        candidates = target.candidates(Const.TRUE)
        files = _named(candidates, wanted, store.root)
        found = [_live(target, f, wanted[f.file.path]) for f in files]
        edits = remove_rows(target, candidates, found, workers)
        count = sum(len(rows.positions) for rows in found)
        if versions is None:
            return replace(edits, operation=Operation.DELETE, reads=Const.FALSE, deleted=count)
        return replace(edits, operation=Operation.UPDATE, reads=Const.FALSE, given=tuple(versions), updated=count)

    return change_rows(store, once, workers, options=options)


def check_replaceable(options: TableOptions, table: str) -> None:
    """Raise UnsupportedError for a table with row ids: rows would move to other files and lose theirs by that."""
    if options.get("row-tracking.enabled"):
        raise UnsupportedError(
            "replacing rows would give rows of this table (row-tracking.enabled) new row ids",
            path=table,
            hint="a merge or an update keeps them",
        )


def _named(candidates: Candidates, wanted: Mapping[str, BitMap], table: str) -> list[Candidate]:
    by_path = {c.file.path: c for c in candidates.files}
    for path in wanted:
        if path not in by_path:
            raise CommitConflictError(
                f"the data file {path.rpartition('/')[2]} is not in the table (any more)",
                path=table,
                hint="read __paimon_file_path and __paimon_row_index again: files move when they are compacted",
            )
    return [by_path[path] for path in wanted]


def _live(target: RowTarget, candidate: Candidate, rows: BitMap) -> FoundRows:
    file = candidate.file
    if rows.max() >= file.row_count:
        raise OptionError(f"__paimon_row_index {rows.max()} is no row of a file of {file.row_count} rows: {file.path}")
    left = live_rows(target.store.io, file, RowSelection(rows)).positions or BitMap()
    if len(left) != len(rows):
        raise CommitConflictError(
            f"{len(rows) - len(left)} of the rows named in {file.path.rpartition('/')[2]} are gone by now",
            path=target.store.root,
            hint="other commits deleted or moved them: read __paimon_file_path and __paimon_row_index again",
        )
    return FoundRows(candidate.number, BitMap(left))
