"""Every engine beside Java: versions in several commits of Java's are merged to the rows that Java reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.scan.plan import plan_scan
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import TableState
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.key_values import SEQUENCE_NUMBER, VALUE_KIND
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const
from paimon_pyds.storage.local import LocalFileIO
from support.effort import sampled
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.merged_runs import merged_rows
from support.oracle import Oracle, requires_java_oracle
from support.values import in_order, lines


def _merged(warehouse: Path, table: str, snapshot: int) -> list[pa.RecordBatch]:
    """The rows of a snapshot, merged here."""
    store = TableStore(LocalFileIO(), str(warehouse / "db.db" / table))
    schema = store.latest_schema()
    state = TableState(store.snapshot(snapshot), schema)
    plan = plan_scan(store, ScanRequest(state, Const.TRUE, schema.fields, TableOptions(schema.options)))
    return list(merged_rows(plan.files, schema))


def _ages(rows: Sequence[pa.RecordBatch]) -> list[Any]:
    columns = ["k", SEQUENCE_NUMBER, VALUE_KIND]
    return sorted(tuple(row.values()) for batch in rows for row in batch.select(columns).to_pylist())


@requires_java_oracle
@pytest.mark.java
def test_rows_of_every_engine_are_those_of_java(oracle: Oracle, tmp_path: Path) -> None:
    """The values that Java reads, and the sequence numbers and row kinds that it keeps in a compaction."""
    random = Random(20)
    with oracle.batch() as batch:
        for name, options in ENGINES.items():
            options = {"bucket": "1", "write-only": "true", **options}
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options=options)
            for _ in range(4):
                write_kinds(batch, tmp_path, name, random_rows(random))
        read = {name: batch.read(tmp_path, f"db.{name}") for name in ENGINES}
        for name in ENGINES:
            batch.compact(tmp_path, f"db.{name}")
    different = {}
    for name, reply in read.items():
        ours = _merged(tmp_path, name, 4)
        found = in_order(line for rows in ours for line in lines(rows.select(SCHEMA.names)))
        if found != reply.lines:
            different[name] = [pair for pair in zip(found, reply.lines, strict=False) if pair[0] != pair[1]]
        assert _ages(ours) == _ages(_merged(tmp_path, name, 5)), name
    assert not different


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("option", sampled([{"force-lookup": "true"}, {"changelog-producer": "lookup"}], 1))
def test_a_level_that_was_merged_with_those_above_it_hides_them(
    option: dict[str, str], oracle: Oracle, tmp_path: Path
) -> None:
    """Compactions of some runs look up older versions, which stay where they are and must not count twice."""
    random, levels = Random(21), set()
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", **option}
    with oracle.batch() as batch:
        for name, engine in ENGINES.items():
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options={**options, **engine})
            more = (row | {"k": 60 + number} for number, row in enumerate(random_rows(random) * 20))
            base = [*random_rows(random), *more]
            for number, rows in enumerate((base, *(random_rows(random)[:count] for count in (20, 9, 4)))):
                write_kinds(batch, tmp_path, name, [{**row, "_kind": "+I"} for row in rows])
                if not number:
                    batch.compact(tmp_path, f"db.{name}")
            write_kinds(batch, tmp_path, name, random_rows(random)[:1], "write-only=true")
        read = {name: batch.read(tmp_path, f"db.{name}") for name in ENGINES}
    for name, reply in read.items():
        table = pp.Table.open(tmp_path / "db.db" / name)
        assert in_order(lines(table.scan().to_arrow())) == reply.lines, name
        assert in_order(lines(table.scan(filter="b = 3").to_arrow())) == [x for x in reply.lines if '"b":3,' in x], name
        levels.add(tuple(sorted(live_of(table._store, table.snapshots.latest())["level"].to_pylist())))
    assert max(map(len, levels)) > 2, levels


@requires_java_oracle
@pytest.mark.java
def test_deletes_that_java_refuses_are_refused(oracle: Oracle, tmp_path: Path) -> None:
    with oracle.batch() as batch:
        for name, engine in (("p", "partial-update"), ("f", "first-row")):
            options = {"bucket": "1", "write-only": "true", "merge-engine": engine}
            batch.create(tmp_path, f"db.{name}", SCHEMA, primary_keys=["k"], options=options)
            for kind in ("+I", "-D"):
                write_kinds(batch, tmp_path, name, [{"_kind": kind, "k": 1, "a": 2}])
        refused = [batch.add("compact", tmp_path, f"db.{name}", allow_fail=True) for name in "pf"]
    assert not any(reply.ok for reply in refused)
    with pytest.raises(UnsupportedError, match="deletes"):
        _merged(tmp_path, "p", 2)
    assert not _merged(tmp_path, "f", 2)  # what was not compacted is not read, and Java can't compact it
