"""What tests of maintenance look at: the files of a table, and its rows."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import paimon_pyds as pp
from paimon_pyds.metadata.changelogs import expired_changelogs
from support.live_files import table_files


def files_there(root: Path) -> set[str]:
    """All files but the hints and the consumers."""
    return {
        str(f)
        for f in root.rglob("*")
        if f.is_file() and f.name not in ("LATEST", "EARLIEST") and not f.name.startswith("consumer-")
    }


def rows_of(table: pp.Table, **scan: Any) -> list[str]:
    """Rows in an order."""
    return sorted(map(repr, table.scan(**scan).to_arrow().to_pylist()))


def is_exact(table: pp.Table) -> None:
    """The files that are there are those that some state needs."""
    there, needed = files_there(Path(table.path)), set(table_files(table.store))
    assert there == needed, f"not there: {sorted(needed - there)}; not needed: {sorted(there - needed)}"


def named_only(table: pp.Table) -> None:
    """The files that some state needs are there, and none that no state names, as those of changelogs do."""
    has_all(table)
    assert table.remove_orphan_files(timedelta(0)).files["path"].to_pylist() == []


def unneeded_are_orphans(table: pp.Table, *, none: bool, named: bool) -> None:
    """The files that no state needs are the orphans.

    Args:
        table: the table.
        none: there is none.
        named: files may be there that no state needs, and manifests or changelogs still name, as Java leaves them.
    """
    has_all(table)
    unneeded = files_there(Path(table.path)) - set(table_files(table.store))
    time.sleep(0.002)  # a file of this very millisecond counts as new
    orphans = set(table.remove_orphan_files(timedelta(0)).files["path"].to_pylist())
    assert orphans <= unneeded if named else orphans == unneeded, f"{sorted(orphans)}; {sorted(unneeded)}"
    assert not (none and orphans), sorted(orphans)


def changes_of(table: pp.Table) -> dict[int, list[str]]:
    """The rows that each snapshot has changed that is there, or that has left its changelog, by number."""
    found = {}
    for id_ in (*expired_changelogs(table.store), *table.store.snapshot_ids()):
        between = {"incremental-between": f"{id_ - 1},{id_}"}
        read = table.audit_log(options=between) if table.schema.primary_keys else table.scan(options=between)
        found[id_] = sorted(map(repr, read.to_arrow().to_pylist()))
    return found


def has_all(table: pp.Table) -> None:
    """The files that some state needs are there."""
    assert set(table_files(table.store)) <= files_there(Path(table.path))
