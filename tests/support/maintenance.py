"""What tests of maintenance look at: the files of a table, and its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import paimon_pyds as pp
from paimon_pyds.execution.live_files import table_files


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
    assert files_there(Path(table.path)) == set(table_files(table.store))


def has_all(table: pp.Table) -> None:
    """The files that some state needs are there."""
    assert set(table_files(table.store)) <= files_there(Path(table.path))
