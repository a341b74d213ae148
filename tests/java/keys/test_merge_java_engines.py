"""Every engine beside Java: versions in several commits of Java's are merged to the rows that Java reads."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import UnsupportedError
from support.effort import sampled
from support.key_engines import ENGINES, SCHEMA, random_rows, write_kinds
from support.oracle import Oracle, requires_java_oracle
from support.values import in_order, lines


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
        pp.Table.open(tmp_path / "db.db" / "p").to_arrow()
    assert (
        not pp.Table.open(tmp_path / "db.db" / "f").to_arrow().num_rows
    )  # what was not compacted is not read, and Java can't compact it
