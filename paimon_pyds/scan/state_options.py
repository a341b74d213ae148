"""Which options name the state of a table that a scan reads: those of the scan, else those stored in the table.

Source: Paimon documentation, maintenance/configurations (scan.mode and the options it goes with), and reads of Java
1.4, which puts the options of a read over the table's own and allows one state only. Here a state that the scan names
takes the place of the stored one. Operations that write always work on the newest state, as Java's do.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import OPTIONS
from paimon_pyds.scan.incremental import INCREMENTAL_OPTIONS
from paimon_pyds.scan.travel import TIME_TRAVEL_OPTIONS, TableState, resolve_state

__all__ = ["state_options", "stored_state"]

_NAMING = (*TIME_TRAVEL_OPTIONS, *INCREMENTAL_OPTIONS[:2])
_KEYS = ("scan.mode", *TIME_TRAVEL_OPTIONS, *INCREMENTAL_OPTIONS)
_PRESENT = {name: key for key in _KEYS for name in (*OPTIONS[key].fallbacks, key)}
"""The options that name a state by their older names, and by their own, which win."""
_OF_MODE = {
    "from-timestamp": ("scan.timestamp", "scan.timestamp-millis"),
    "from-snapshot": ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version"),
    "from-snapshot-full": ("scan.snapshot-id",),
    "incremental": INCREMENTAL_OPTIONS[:2],
    **dict.fromkeys(("latest-full", "full", "latest"), ()),
}
"""What each mode of `scan.mode` reads from; the others are refused where a scan begins."""


def state_options(stored: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The options of a scan, with the state that the table's own options name where the scan names none.

    ``scan.mode=latest-full`` names the newest state. Older names of options become the present ones.

    Raises:
        OptionError: two states, or a state that ``scan.mode`` does not go with.
    """
    asked, own = _of_state(given), _of_state(stored)
    anew = "scan.mode" in asked or any(key in asked for key in _NAMING)
    chosen = asked if anew else {**own, **asked}
    named = [key for key in _NAMING if key in chosen]
    if len(named) > 1:
        raise OptionError(f"only one of {', '.join(named)} can be given", hint="a scan reads one state of the table")
    mode = chosen.get("scan.mode", "default").lower()
    wanted = _OF_MODE.get(mode)
    if wanted is not None and named not in ([[key] for key in wanted] or [[]]):
        what = f"needs {' or '.join(wanted)}" if wanted else "reads the newest state"
        raise OptionError(f"scan.mode={mode} {what}{f', and {named[0]} is given' if named else ''}")
    return {**{key: text for key, text in given.items() if key not in _PRESENT}, **chosen}


def stored_state(store: TableStore) -> TableState:
    """The state of the table that a scan reads which names none.

    Raises:
        UnsupportedError: the table's own options name a difference between two states.
        OptionError, SnapshotNotFoundError, TagNotFoundError: the table's own options name no state that is there.
    """
    latest = store.latest_schema()
    options = state_options(latest.options, {})
    for key in INCREMENTAL_OPTIONS[:2]:
        if key in options:
            raise UnsupportedError(f"what was added between two states ({key}) has no system tables", path=store.root)
    return resolve_state(store, latest, options)


def _of_state(options: Mapping[str, str]) -> dict[str, str]:
    """The options that name a state, by their present names."""
    return {key: options[name] for name, key in _PRESENT.items() if name in options}
