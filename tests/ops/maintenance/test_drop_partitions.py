"""Rows that go by partitions or all at once, and partitions that are marked as done; Java reads what is left."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import ArgumentTypeError, OptionError, UnsupportedError
from paimon_pyds.ops.maintenance import drop_partitions as module
from support.copies import copied
from support.maintenance import is_exact, rows_of
from support.messages import ids_of
from support.oracle import Oracle, requires_java_oracle
from support.values import lines

_SCHEMA = pa.schema([("day", pa.date32()), ("p", pa.string()), pa.field("id", pa.int64(), nullable=False)])
_DAYS = ["2026-01-01", "2026-01-02", "2026-01-03"]


def _append(table: pp.Table, *ids: int) -> None:
    days = pa.array([_DAYS[id_ % 3] for id_ in ids]).cast(pa.date32())
    parts = [None if id_ % 5 == 0 else f"p{id_ % 2}" for id_ in ids]
    table.append(pa.table({"day": days, "p": parts, "id": list(ids)}, _SCHEMA))


@copied("t")
def table(path: Path) -> pp.Table:
    table = pp.Table.create(path, _SCHEMA, partition_by=["day", "p"], options={"deletion-vectors.enabled": "true"})
    _append(table, *range(12))
    table.delete("id IN (3, 4)")
    return table


@pytest.mark.parametrize(
    ("which", "left"),
    [
        ("day = '2026-01-01'", [1, 2, 5, 7, 8, 10, 11]),
        ("day < '2026-01-03' AND p IS NULL", [1, 2, 5, 6, 7, 8, 9, 11]),
        ({"p": "p1"}, [0, 2, 5, 6, 8, 10]),
        ([{"day": "2026-01-01", "p": "p0"}, {"p": None}], [1, 2, 7, 8, 9, 11]),
        ("p = 'none'", [0, 1, 2, 5, 6, 7, 8, 9, 10, 11]),
    ],
)
def test_partitions_that_are_named(table: pp.Table, which: Any, left: list[int]) -> None:
    before = ids_of(table)
    planned = table.maintenance.drop_partitions(which, dry_run=True)
    assert ids_of(table) == before
    summary = table.maintenance.drop_partitions(which)
    assert ids_of(table) == left
    assert (summary.partitions, summary.data_files, summary.bytes) == (
        planned.partitions, planned.data_files, planned.bytes,
    )  # fmt: skip
    assert planned.dry_run
    assert len(table.snapshots.list()) == (3 if summary.partitions else 2)
    assert not table.maintenance.verify(deep=True).findings
    table.snapshots.expire(retain_max=1)
    is_exact(table)


@pytest.mark.parametrize("key", [[], ["day", "p", "id"]])
def test_truncate(tmp_path: Path, key: list[str]) -> None:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"} if key else {}
    schema = pa.schema([field.with_nullable(field.nullable and not key) for field in _SCHEMA])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=key, partition_by=["day", "p"], options=options)
    assert "nothing removed" in repr(table.truncate())
    table.append(pa.table({"day": pa.array(_DAYS).cast(pa.date32()), "p": ["a"] * 3, "id": [1, 2, 3]}, schema))
    assert table.truncate(dry_run=True).data_files == 3
    assert table.count() == 3
    summary = table.truncate()
    assert summary.partitions == ("day=20454/p=a", "day=20455/p=a", "day=20456/p=a")
    assert table.count() == 0
    assert table.scan(snapshot=table.snapshots.list()[-2].id).to_arrow().num_rows == 3
    table.append(pa.table({"day": pa.array(_DAYS).cast(pa.date32()), "p": ["a"] * 3, "id": [1, 2, 3]}, schema))
    assert table.count() == 3
    assert not table.maintenance.verify(deep=True).findings


@pytest.mark.parametrize(
    ("which", "error", "message"),
    [
        (None, OptionError, "no partitions are named"),
        (" ", OptionError, "no partitions are named"),
        ([], OptionError, "not empty"),
        ([{}], OptionError, "not empty"),
        ({"id": 1}, OptionError, "'id' is no partition column"),
        ("id = 1", OptionError, "not on id"),
        (7, ArgumentTypeError, "where"),
    ],
)
def test_what_is_refused(table: pp.Table, which: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        table.maintenance.drop_partitions(which)
    assert len(table.snapshots.list()) == 2


def test_tables_without_partitions(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA)
    with pytest.raises(OptionError, match=r"no partitions.*truncate"):
        table.maintenance.drop_partitions("day = '2026-01-01'")
    with pytest.raises(OptionError, match="partitions to mark"):
        table.maintenance.mark_partitions_done([{}])


def test_rows_that_come_meanwhile(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is decided on the snapshot that it lands on: a partition that came meanwhile goes, too."""
    commit = module.commit

    def late(*arguments: Any) -> Any:
        _append(table, 12, 13)
        return commit(*arguments)

    monkeypatch.setattr(module, "commit", late)
    assert table.maintenance.drop_partitions({"day": "2026-01-01"}).data_files == 4
    monkeypatch.setattr(module, "commit", commit)
    assert 12 not in ids_of(table)
    assert 13 in ids_of(table)


@pytest.mark.parametrize("zero", [0.0, -0.0, "0", "-0.0"])
def test_a_partition_of_either_zero_is_marked(tmp_path: Path, zero: float | str) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema({"f": pa.float64(), "id": pa.int64()}), partition_by="f")
    table.append({"f": [0.0, -0.0], "id": [1, 2]})
    directory = "f=-0.0" if str(zero).startswith("-") else "f=0.0"
    assert table.maintenance.mark_partitions_done({"f": zero}) == (directory,)
    assert [path.parent.name for path in (tmp_path / "t").rglob("_SUCCESS")] == [directory]


def test_partitions_marked_as_done(table: pp.Table) -> None:
    path = Path(table.path)
    partitions = [{"day": "2026-01-01", "p": "p0"}, {"day": "2026-02-01", "p": None}]
    directories = ("day=20454/p=p0", "day=20485/p=__DEFAULT_PARTITION__")
    assert table.maintenance.mark_partitions_done(partitions, dry_run=True) == directories
    assert not list(path.rglob("_SUCCESS"))
    assert table.maintenance.mark_partitions_done(partitions) == directories
    first = (path / directories[0] / "_SUCCESS").read_text()
    assert list(json.loads(first)) == ["creationTime", "modificationTime"]
    (path / directories[0] / "_SUCCESS").write_text('{"creationTime": 7, "modificationTime": 8}')
    table.maintenance.mark_partitions_done(partitions[0])
    again = json.loads((path / directories[0] / "_SUCCESS").read_text())
    assert again["creationTime"] == 7 < 8 < again["modificationTime"]
    assert len(rows_of(table)) == 10
    for wrong, message in (
        ([], "are a list"), ({"day": "2026-01-01"}, "no value for p"), ({"id": 1}, "no partition column"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=message):
            table.maintenance.mark_partitions_done(wrong)
    with pytest.raises(ArgumentTypeError, match="partitions takes a list, not 7"):
        table.maintenance.mark_partitions_done(7)  # type: ignore[arg-type]
    assert table.maintenance.mark_partitions_done(iter(partitions)) == table.maintenance.mark_partitions_done(
        partitions
    )  # type: ignore[arg-type]
    table.alter({"partition.mark-done-action": "success-file,done-partition"})
    with pytest.raises(UnsupportedError, match="action=done-partition is not supported"):
        table.maintenance.mark_partitions_done(partitions)


@pytest.mark.parametrize("key", [[], ["day", "p", "id"]])
def test_writes_mark_their_partitions_where_an_option_says_so(tmp_path: Path, key: list[str]) -> None:
    path, done = tmp_path / "t", {"partition.end-input-to-done": "true"}
    schema = pa.schema([f.with_nullable(not key) for f in _SCHEMA])
    options = {"write-only": "true", **({"bucket": "1", "num-sorted-run.compaction-trigger": "2"} if key else {})}
    table = pp.Table.create(path, schema, key, ["day", "p"], options)

    def marked() -> list[str]:
        found = [str(file.parent.relative_to(path)) for file in path.rglob("_SUCCESS")]
        for name in found:
            (path / name / "_SUCCESS").unlink()
        return sorted(found)

    def rows(*days: str) -> pa.Table:
        columns = {"day": [date.fromisoformat(day) for day in days], "p": ["x"] * len(days), "id": [1] * len(days)}
        return pa.table(columns, schema)

    table.append(rows("2026-01-01"))
    assert marked() == []
    table.append(rows("2026-01-01", "2026-02-01"), options=done)
    assert marked() == ["day=20454/p=x", "day=20485/p=x"]
    table.alter(done)
    table.append(rows("2026-01-01"), options={"write-only": "false"})
    assert marked() == ["day=20454/p=x"], "a compaction followed the rows"
    table.overwrite(rows("2026-01-31"))
    assert marked() == ["day=20484/p=x"], "others lost rows only"
    table.append(rows("2026-01-31"))
    marked()
    table.compact(full=True)
    table.truncate()
    table.maintenance.analyze()
    assert marked() == []
    table.append(rows("2026-01-31"), options={"partition.mark-done-action": "done-partition"})
    assert (marked(), table.count()) == ([], 1)


@pytest.mark.java
@requires_java_oracle
def test_java_reads_and_writes_on(oracle: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "db.db/t"
    table = pp.Table.create(path, _SCHEMA, partition_by=["day", "p"], options={"deletion-vectors.enabled": "true"})
    _append(table, *range(12))
    table.delete("id IN (3, 4)")
    table.maintenance.drop_partitions("p = 'p1'")
    table.maintenance.mark_partitions_done({"day": _DAYS[0], "p": "p0"})
    with oracle.batch() as batch:
        dropped = batch.read(tmp_path, "db.t")
    assert dropped.lines == lines(table.scan().to_arrow())
    table.truncate()
    with oracle.batch() as batch:
        empty = batch.read(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", pa.table({"day": pa.array(_DAYS[:1]).cast(pa.date32()), "p": ["x"], "id": [9]}))
    assert empty.lines == []
    assert ids_of(table) == [9]
