"""Rows that expire in compactions, as in Java: ``record-level.expire-time``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import OptionError
from support.compaction import live
from support.executors import Pickling
from support.oracle import Batch, Oracle, Reply, requires_java_oracle
from support.values import lines

_DAY = 86_400
_OLD = {"record-level.expire-time": "10 d", "record-level.time-field": "t"}
TYPES: dict[str, tuple[pa.DataType, dict[str, str]]] = {
    "seconds": (pa.int32(), {}),
    "millis": (pa.int64(), {"changelog-producer": "full-compaction"}),
    "mixed": (pa.int64(), {"changelog-producer": "lookup"}),
    "timestamp": (pa.timestamp("us"), {"deletion-vectors.enabled": "true"}),
    "instant": (pa.timestamp("ms", "UTC"), {"sequence.field": "v"}),
}


def _time(name: str, key: int, days: float) -> Any:
    seconds = int(time.time() - days * _DAY)
    if name in ("seconds", "millis", "mixed"):
        return seconds * (1000 if name == "millis" or (name == "mixed" and key % 2) else 1)
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=UTC if name == "instant" else None)


def _rows(name: str, days: dict[int, float | None]) -> pa.Table:
    """Rows by their keys, that old."""
    times = [None if age is None else _time(name, key, age) for key, age in days.items()]
    schema = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int32()), ("t", TYPES[name][0])])
    return pa.table([list(days), [int(age or 0) for age in days.values()], times], schema=schema)


_WRITES: list[dict[int, float | None]] = [
    {1: 20, 2: 20, 3: 5, 4: None, 5: 20},
    {1: 5, 3: 20, 6: 20, 7: 5},
    {8: 20, 9: 20},
]


@requires_java_oracle
@pytest.mark.java
def test_rows_expire_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    """Of the versions of a key those that are too old, in what is rewritten; a file that has some is."""

    def read(batch: Batch, db: str, name: str) -> list[Reply]:
        return [batch.read(tmp_path, f"{db}.{name}"), batch.read(tmp_path, f"{db}.{name}$audit_log",
                options={"incremental-between": "1,5"})]  # fmt: skip

    writes = {name: [_rows(name, days) for days in _WRITES] for name in TYPES}
    with oracle.batch() as batch:
        for name, (_, options) in TYPES.items():
            for db in ("ours", "java"):
                given = {"bucket": "1", "write-only": "true", **options}
                batch.create(tmp_path, f"{db}.{name}", writes[name][0].schema, primary_keys=["k"], options=given)
            for number, rows in enumerate(writes[name]):
                batch.write(tmp_path, f"java.{name}", rows)
                if number:
                    change = [{"op": "set", "key": key, "value": value} for key, value in _OLD.items()]
                    batch.alter(tmp_path, f"java.{name}", *change)
                if number != 1:
                    batch.add("compact", tmp_path, f"java.{name}", "--option", "write-only=false")
    for name in TYPES:
        table = pp.Table.open(tmp_path / "ours.db" / name)
        for number, rows in enumerate(writes[name]):
            table.append(rows)
            if number:
                table.alter(set_options=_OLD)
            if number != 1:
                table.compact(full=True)
        assert table.compact(full=True).snapshot_id is None
    with oracle.batch() as batch:
        found = {name: [read(batch, db, name) for db in ("ours", "java")] for name in TYPES}
    for name, (ours, java) in found.items():
        assert [reply.lines for reply in ours] == [reply.lines for reply in java], name
        rows = pp.Table.open(tmp_path / "ours.db" / name).scan().to_arrow()
        assert lines(rows) == ours[0].lines
        assert not pc.any(pc.equal(rows["v"], 20)).as_py()
        assert rows.num_rows >= 3


def test_a_file_with_old_rows_is_rewritten(tmp_path: Path) -> None:
    days: dict[int, float | None] = {1: 20, 2: 5}
    table = pp.Table.create(tmp_path / "t", _rows("instant", days).schema, primary_key=["k"], options={"bucket": "1"})
    table.append(_rows("instant", days))
    assert table.compact(full=True).rows == 0
    assert table.compact(full=True).snapshot_id is None
    table.alter(set_options=_OLD)
    assert table.scan().count() == 2
    assert table.compact(full=True).rows == 1
    assert table.scan().to_arrow()["k"].to_pylist() == [2]
    assert live(table)["level"].to_pylist() == [5]
    assert table.compact(full=True).snapshot_id is None


def test_without_statistics_no_file_is_known_to_have_old_rows(tmp_path: Path) -> None:
    options = {"bucket": "1", "metadata.stats-mode": "none", **_OLD}
    rows = _rows("seconds", {1: 20, 2: 5})
    table = pp.Table.create(tmp_path / "t", rows.schema, primary_key=["k"], options=options)
    table.append(rows)
    assert table.compact(full=True).rows == 0
    assert table.compact(full=True).snapshot_id is None
    table.append(_rows("seconds", {2: 4}))
    assert table.compact(full=True).rows == 1


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}])
def test_files_that_stay_hide_older_versions_of_rows_that_have_expired(tmp_path: Path, options: dict[str, str]) -> None:
    """Without statistics they are moved to another level with all of their rows, expired ones too."""
    rows = _rows("seconds", dict.fromkeys(range(3000), 1.0))
    given = {"bucket": "1", "write-only": "true", "metadata.stats-mode": "none", "compaction.small-file-ratio": "0"}
    given |= {"deletion-vectors.enabled": "true", **options}
    table = pp.Table.create(tmp_path / "t", rows.schema, primary_key=["k"], options=given)
    table.append(rows)
    table.compact(full=True)
    table.alter(set_options=_OLD)
    table.append(_rows("seconds", {5: 20, 6: 20}))
    table.compact(options={"compaction.size-ratio": "0"})
    assert sorted(live(table)["level"].to_pylist()) == [4, 5]
    found = table.scan().to_arrow()
    assert sorted(found["k"].to_pylist()) == list(range(3000))
    assert pc.sum(pc.equal(found["v"], 20)).as_py() == 2
    changed = table.scan(options={"incremental-between": "2,4"}, columns=["v"]).to_arrow()
    assert changed["v"].to_pylist() == [20, 20]


@pytest.mark.parametrize("stats", ["full", "none"])
def test_first_rows_that_have_expired_do_not_keep_new_ones_away(tmp_path: Path, stats: str) -> None:
    """They lie in a run that stays; its file that has one is written anew, others are left alone."""
    days: dict[int, float | None] = {**dict.fromkeys(range(3000), 1.0), 5: 9.0, 6: 20.0, 7: 20.0, 2500: 20.0}
    options = {"bucket": "1", "write-only": "true", "merge-engine": "first-row", "target-file-row-num": "1000"}
    options |= {"compaction.small-file-ratio": "0", "metadata.stats-mode": stats, "changelog-producer": "lookup"}
    rows = _rows("seconds", days)
    table = pp.Table.create(tmp_path / "t", rows.schema, primary_key=["k"], options=options)
    table.append(rows)
    table.compact(full=True)
    table.alter(set_options=_OLD)
    before = live(table)["file_name"].to_pylist()
    table.append(_rows("seconds", {5: 2.0, 6: 2.0, 3001: 2.0}))
    summary = table.compact(options={"compaction.size-ratio": "0"}, executor=Pickling())
    assert sorted(live(table)["level"].to_pylist()) == [4, 5, 5, 5]
    assert len({*before} - {*live(table)["file_name"].to_pylist()}) == 1
    assert summary.rows == 2 + 998
    logged = table.scan(options={"incremental-between": "2,4"}, columns=["k"]).to_arrow()
    assert sorted(logged["k"].to_pylist()) == [6, 3001]
    expected = {key: int(age or 0) for key, age in days.items() if key not in (7, 2500)} | {6: 2, 3001: 2}
    for _ in range(2):
        found = table.scan("k <> 2500", ["k", "v"]).to_arrow().to_pydict()
        assert sorted(zip(found["k"], found["v"], strict=True)) == sorted(expected.items())
        table.compact(full=True)


@pytest.mark.parametrize("field", [{}, {"record-level.time-field": "s"}])
def test_a_time_that_is_none_is_an_error(tmp_path: Path, field: dict[str, str]) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), ("s", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options={"bucket": "1"})
    table.append(pa.table([[1], ["x"]], schema=schema))
    with pytest.raises(OptionError, match="record-level"):
        table.compact(full=True, options={"record-level.expire-time": "1 d", **field})
