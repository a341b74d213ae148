"""What tests of maintenance look at: the files of a table, and its rows."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro

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
    there, needed = files_there(Path(table.path)), set(table_files(table._store))
    assert there == needed, f"not there: {sorted(needed - there)}; not needed: {sorted(there - needed)}"


def named_only(table: pp.Table) -> None:
    """The files that some state needs are there, and none that no state names, as those of changelogs do."""
    has_all(table)
    assert table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files["path"].to_pylist() == []


def nothing_is_left_over(table: pp.Table) -> None:
    """There is no orphan; files that no state needs are named by something, as Java leaves them."""
    has_all(table)
    needed = set(table_files(table._store))
    kept = _named_yet(table, needed)
    unneeded = {path for path in files_there(Path(table.path)) - needed if Path(path).name not in kept}
    time.sleep(0.002)  # a file of this very millisecond counts as new
    orphans = set(table.maintenance.remove_orphan_files(timedelta(0), dry_run=True).files["path"].to_pylist())
    assert orphans == unneeded, f"{sorted(orphans)}; {sorted(unneeded)}"
    assert not orphans, sorted(orphans)


def _named_yet(table: pp.Table, needed: set[str]) -> set[str]:
    """The names of files that needed manifests name, be it as deleted, and of the lists and manifests of the state that
    changelogs name. Read with another library than the one that is tested."""
    kept = set[str]()
    for path in map(Path, needed):
        if path.name.startswith("manifest-") and not path.name.startswith("manifest-list-"):
            files = [entry["_FILE"] for entry in _avro(path)]
            kept.update(name for file in files for name in (file["_FILE_NAME"], *file["_EXTRA_FILES"]))
        elif path.parent.name == "changelog":
            changelog = json.loads(path.read_text())
            for kind in ("baseManifestList", "deltaManifestList", "changelogManifestList"):
                name = changelog.get(kind)
                kept.update([] if name is None else [name])
                manifests = Path(table.path, "manifest", str(name))
                kept.update(one["_FILE_NAME"] for one in (_avro(manifests) if manifests.exists() else []))
    return kept


def _avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def changes_of(table: pp.Table) -> dict[int, list[str]]:
    """The rows that each snapshot has changed that is there, or that has left its changelog, by number."""
    found = {}
    for id_ in (*expired_changelogs(table._store), *table._store.snapshot_ids()):
        between = {"incremental-between": f"{id_ - 1},{id_}"}
        read = table.system.audit_log(options=between) if table.schema.primary_keys else table.scan(options=between)
        found[id_] = sorted(map(repr, read.to_arrow().to_pylist()))
    return found


def has_all(table: pp.Table) -> None:
    """The files that some state needs are there."""
    assert set(table_files(table._store)) <= files_there(Path(table.path))
