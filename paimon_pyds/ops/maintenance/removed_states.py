"""Which files go with states of a table: those that no other state needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.secrets import redact
from paimon_pyds.errors import CorruptFileError, NotFoundError, PaimonError
from paimon_pyds.metadata.changelogs import changelog_ids, changelogs
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.maintenance.references import (
    KeptFiles,
    Reference,
    is_expiring,
    references_of_table,
    wait_or_raise,
)
from paimon_pyds.ops.maintenance.removal import Removal, threads_of

_log = logging.getLogger("paimon_pyds.maintenance")
_TRIES = 10


def only_theirs(
    store: TableStore, states: Sequence[Reference], others: Callable[[], list[Reference]], options: TableOptions
) -> Removal:
    """The files of some states that no others need, also where snapshots expire meanwhile.

    ``others``: reads all states that may share files with them. ``options``: how many threads look and remove.
    Raises NotFoundError: one of the others needs a file that is gone.
    """
    found, settled = others(), 0
    for _ in range(_TRIES):
        try:
            return removal_of(store, states, found, options)
        except NotFoundError as error:
            left = [other for other in others() if not is_expiring(store, other)]
            if left == found:
                settled = wait_or_raise(error, settled)
            found = left
    return removal_of(store, states, found, options)


def remove_files(store: TableStore, states: Sequence[Reference], options: TableOptions) -> Removal | None:
    """Remove the files that only states needed which have gone: those that went. None where that can't be done: they
    are orphan files then, as a warning says."""
    try:
        removal = only_theirs(store, states, lambda: references_of_table(store), options)
        removal.delete()
        removal.delete_directories(options)
    except PaimonError as error:
        what = "files of removed snapshots are still there: maintenance.remove_orphan_files finds them: %s (%s)"
        _log.warning(what, error, redact(store.root))
        return None
    return removal


def changelogs_from(store: TableStore, first: int) -> list[Reference]:
    """The changelogs of a number and later, which go. One that can't be read goes, too: its files are orphans then."""
    found = []
    for id_ in changelog_ids(store):
        with suppress(CorruptFileError):
            if id_ >= first:
                found += [Reference(store.branch, f"changelog {id_}", c, True) for c in changelogs(store, [id_])]
    return found


def removal_of(
    store: TableStore, states: Sequence[Reference], others: Sequence[Reference], options: TableOptions
) -> Removal:
    """The files of some states that no others need. ``others``: all states that may share files with them. ``options``:
    how many threads look and remove."""
    removal = Removal(store, threads_of(options))
    for branch in dict.fromkeys(state.branch for state in states):
        _add_states(removal, [state for state in states if state.branch == branch])
    removal.keep(KeptFiles(store, others))
    return removal


def _add_states(removal: Removal, states: Sequence[Reference]) -> None:
    """Gather the files of all states of a branch."""
    snapshots = [state.snapshot for state in states if state.keeps_changelog]
    expired = [state.snapshot for state in states if state.is_changelog]
    first = [state.snapshot for state in states if state.keeps_changelog and not state.is_changelog][:1]
    tagged = [state.snapshot for state in states if not state.keeps_changelog]
    removal.add_added(snapshots)
    removal.add_changelogs(snapshots)
    removal.add_deleted([*expired, *first] if expired else ())  # what changelogs keep is deleted by theirs or the next
    for snapshot in (*first, *tagged):
        removal.add_live(snapshot)
    removal.add_metadata(snapshots)
    removal.add_metadata(tagged, changelogs=False)
