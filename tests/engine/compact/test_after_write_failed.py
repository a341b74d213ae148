"""A compaction after a commit that fails: its bucket waits for the next write to it, or for `Table.compact`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import StorageError

OPTIONS = {"bucket": "1", "changelog-producer": "lookup"}


def test_a_full_compaction_brings_the_changes_that_a_failed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pp.Table.create(tmp_path / "t", "p INT, id INT, v INT", ["p", "id"], partition_by=["p"], options=OPTIONS)
    with monkeypatch.context() as failing:
        failing.setattr("paimon_pyds.engine.compact.compact.compact_buckets", _full)
        with pytest.warns(UserWarning, match=r"Call table\.compact\(full=True\).*next write to the same buckets"):
            table.append(_rows(1))
    table.append(_rows(2))
    assert _changed(table) == [2]  # another bucket's write does not finish the first one
    table.compact(full=True)
    assert sorted(_changed(table)) == [1, 2]
    assert sorted(table.to_arrow()["p"].to_pylist()) == [1, 2]


def _full(*_: object) -> int:
    raise StorageError("no space")


def _rows(partition: int) -> pa.Table:
    return pa.table({name: pa.array([partition], pa.int32()) for name in ("p", "id", "v")})


def _changed(table: pp.Table) -> list[int]:
    latest = table.snapshots.latest()
    assert latest is not None
    changes = table.follow(1, until=latest.id, poll=0.01)
    return [row["p"] for change in changes for row in change.to_arrow().to_pylist()]
