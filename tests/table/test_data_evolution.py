"""What works with tables of data evolution that others wrote, with BLOB columns too, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.ops.system.tables import SYSTEM_TABLES
from support.fixtures import DEV, fixture_dir, table_path

REFUSED: dict[str, Callable[[pp.Table], Any]] = {
    "layout": lambda t: t.index.layout(),
    "diff": lambda t: t.snapshots.diff(1),
}
WORKS: dict[str, Callable[[pp.Table], Any]] = {
    "count": lambda t: t.count(),
    "snapshots": lambda t: t.snapshots.list(),
    "text": str,
    "system tables": lambda t: [t.system.read(name).num_rows for name in SYSTEM_TABLES],
    "tags": lambda t: (t.tags.create("a"), t.tags.delete("a")),
    "branches": lambda t: (t.branches.create("b"), t.branches.delete("b")),
    "rollback": lambda t: t.snapshots.rollback(t.snapshots.list()[0].id),
    "expiry": lambda t: t.snapshots.expire(retain_max=1),
    "orphans": lambda t: t.maintenance.remove_orphan_files(),
    "delete": lambda t: t.delete("TRUE"),
    "truncate": lambda t: t.truncate(),
    "clone": lambda t: t.maintenance.clone(f"{t.path}-clone"),
    "verify": lambda t: t.maintenance.verify(deep=True),
}


@pytest.fixture(params=["data_evolution", "blob"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    if request.param == "blob":
        path = (DEV or tmp_path).parent / "v2" / "blob" / "table" / "db.db" / "t"
        if not path.is_dir():
            pytest.skip("needs a table of pypaimon with BLOB columns")
    else:
        path = Path(table_path(fixture_dir(request.param).name))
    shutil.copytree(path, tmp_path / "t")
    return pp.Table.open(tmp_path / "t")


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_takes_files_for_whole_rows_is_refused_by_name(table: pp.Table, call: Callable[[pp.Table], Any]) -> None:
    with pytest.raises(UnsupportedError, match=r"is not for tables with data-evolution\.enabled=true"):
        call(table)


@pytest.mark.parametrize("call", WORKS.values(), ids=WORKS)
def test_all_else_works(table: pp.Table, call: Callable[[pp.Table], Any]) -> None:
    call(table)
