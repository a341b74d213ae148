"""Merges beside other commits: nothing is lost, nothing is done twice, and no file is left behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import ExpressionError
from support.effort import sampled
from support.progress import once

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
MODES = {"rewritten": {}, "vectors": {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "id"}}


@pytest.fixture(params=sampled(MODES, 1))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pp.Table:
    made = pp.Table.create(str(tmp_path / "t"), SCHEMA, options=MODES[request.param])
    made.append(pa.table({"id": range(10), "n": [0] * 10}, SCHEMA))
    return made


def content(table: pp.Table) -> dict[int, int]:
    rows = table.scan().to_arrow().to_pylist()
    found = {row["id"]: row["n"] for row in rows}
    assert len(found) == len(rows), "no row is there twice"
    return found


def files(table: pp.Table) -> set[str]:
    return {p.name for p in Path(table.path).rglob("bucket-*/*")}


@pytest.mark.parametrize("other", ["delete", "delete of the same", "update of the same", "append", "reindex", "merge"])
def test_another_commit_in_between(table: pp.Table, other: str) -> None:
    elsewhere = pp.Table.open(table.path)
    actions = {
        "delete": lambda: elsewhere.delete("id = 7"),
        "delete of the same": lambda: elsewhere.delete("id = 3"),
        "update of the same": lambda: elsewhere.update({"n": "n + 10"}, "id = 3"),
        "append": lambda: elsewhere.append(pa.table({"id": [50], "n": [5]}, SCHEMA)),
        "reindex": lambda: elsewhere.index.build(rebuild=True),
        "merge": lambda: elsewhere.merge(pa.table({"id": [3]}), ["id"], when_matched="UPDATE SET n = n + 10"),
    }  # fmt: skip
    source = pa.table({"id": [2, 3, 20], "n": [1, 1, 1]})
    done = table.merge(
        source,
        ["id"],
        when_matched="UPDATE SET n = t.n + s.n",
        when_not_matched="insert",
        progress=once("merging", actions[other]),
    )
    expected = dict.fromkeys(range(10), 0) | {2: 1, 3: 1, 20: 1}
    if other == "delete":
        del expected[7]
    elif other == "append":
        expected[50] = 5
    elif other in ("update of the same", "merge"):
        expected[3] = 11
    assert content(table) == expected
    inserted = 2 if other == "delete of the same" else 1
    assert (done.rows_updated, done.rows_inserted) == (3 - inserted, inserted)
    live = set(table.system.read("files")["file_path"].to_pylist())
    known = {Path(p).name for p in live} | old_files(table)
    assert {name for name in files(table) if not name.endswith(".index")} <= known


def old_files(table: pp.Table) -> set[str]:
    """Data files of every snapshot."""
    found: set[str] = set()
    for snapshot in table.snapshots.list():
        scan = table.scan(snapshot=snapshot.id, columns=["id", "__paimon_file_path"])
        found |= {Path(p).name for p in scan.to_arrow()["__paimon_file_path"].to_pylist()}
    return found


def test_merges_of_several_writers(table: pp.Table) -> None:
    """Each adds one to every row: all of them count."""
    source = pa.table({"id": range(12), "n": [1] * 12})
    options = {"commit.max-retries": "100", "commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "10 ms"}

    def work(_: int) -> None:
        mine = pp.Table.open(table.path)
        for _ in range(3):
            mine.merge(source, ["id"], when_matched="UPDATE SET n = t.n + s.n", options=options)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert content(table) == dict.fromkeys(range(10), 9)


def test_a_failing_value_leaves_nothing(table: pp.Table) -> None:
    before = files(table)
    for clause in ("UPDATE SET n = 10 / (t.id - 5)", "UPDATE SET n = t.n + 9223372036854775807 + s.id"):
        with pytest.raises(ExpressionError):
            table.merge(pa.table({"id": range(10)}), ["id"], when_matched=clause)
    with pytest.raises(ExpressionError):
        table.merge(
            pa.table({"id": [1, 40]}),
            ["id"],
            when_matched="UPDATE SET n = 1",
            when_not_matched="INSERT (id) VALUES (1 / (id - 40))",
        )
    assert files(table) == before
    assert content(table) == dict.fromkeys(range(10), 0)
