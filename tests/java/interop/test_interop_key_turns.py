"""Java Paimon and paimon_pyds write, compact and change tables with a primary key in turn.

Of every merge engine, changelog producer, with deletion vectors and without: all that read the table find the rows of
one model at each turn, and every changelog says what became of them, whoever wrote it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.errors import OptionError
from support.effort import LONG, SEED, sampled
from support.java_quirks import shows_level_0
from support.key_model import ENGINES, Engine
from support.key_turns import TurnWorld
from support.oracle import Oracle, requires_java_oracle
from support.values import dumps, in_order, lines

pytestmark = [
    pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning"), requires_java_oracle, pytest.mark.java,
]  # fmt: skip

_ROUNDS = int(os.environ.get("PAIMON_PYDS_ROUNDS", "20" if LONG else "3"))
_GROUPS = [engine for engine in ENGINES["partial-update"] if "fields.s.sequence-group" in engine.options]
_ENGINES: dict[str, list[Engine]] = {
    # Java 1.4 leaves out a descending order when it merges the versions of one write; later versions don't.
    "deduplicate": [engine for engine in ENGINES["deduplicate"] if not engine.order.descending],
    "partial-update": [engine for engine in ENGINES["partial-update"] if engine not in _GROUPS],
    "sequence groups": _GROUPS,
    "aggregation": ENGINES["aggregation"],
    "first-row": ENGINES["first-row"],
    "clustering": [engine for engine in ENGINES["clustering"] if engine.options.get("merge-engine") != "first-row"],
    "first-row clustering": [e for e in ENGINES["clustering"] if e.options.get("merge-engine") == "first-row"],
}
_PRODUCERS = ("none", "input", "lookup", "full-compaction")
_VECTORS = ("false", "true")
_EVERY = [
    (engine, producer, vectors)
    for engine, producer, vectors in itertools.product(_ENGINES, _PRODUCERS, _VECTORS)
    if engine != "first-row clustering" or vectors == "true"  # Java 1.4 wants them there, 2.0 does not
]


def _is_allowed(engine: str, producer: str, vectors: str) -> bool:
    if engine == "first-row":
        return vectors == "false" and producer in ("none", "lookup")
    if engine == "first-row clustering":
        return producer == "none"
    if engine == "clustering":
        return vectors == "true" and producer in ("none", "input")
    return (producer, vectors) != ("full-compaction", "true")


_ALLOWED = [case for case in _EVERY if _is_allowed(*case)]


def _options(producer: str, vectors: str) -> dict[str, str]:
    return {"changelog-producer": producer, "deletion-vectors.enabled": vectors}


def test_the_same_options_are_refused(oracle: Oracle, tmp_path: Path) -> None:
    value_columns = [("a", pa.int64()), ("b", pa.string()), ("s", pa.int32()), ("l", pa.int64())]
    schema = pa.schema([pa.field("k", pa.int32(), False), *value_columns])
    with oracle.batch() as batch:
        for number, (engine, producer, vectors) in enumerate(_EVERY):
            options = {"bucket": "1", **_ENGINES[engine][0].options, **_options(producer, vectors)}
            batch.create(tmp_path, f"db.t{number}", schema, primary_keys=["k"], options=options, allow_fail=True)
            with contextlib.nullcontext() if (engine, producer, vectors) in _ALLOWED else pytest.raises(OptionError):
                pp.Table.create(tmp_path / "ours" / f"t{number}", schema, primary_key=["k"], options=options)
    assert [case for case, java in zip(_EVERY, batch.replies, strict=True) if java.ok] == _ALLOWED


def test_writes_go_on_where_java_left_the_vector_of_a_file_that_is_gone(oracle: Oracle, tmp_path: Path) -> None:
    """Its full compaction rewrites a file of the highest level because of its vector, and does not take that away."""
    schema = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int32())])
    options = {"bucket": "1", "deletion-vectors.enabled": "true"}
    table = pp.Table.create(tmp_path / "db.db" / "t", schema, primary_key=["k"], options=options)
    table.append(pa.table([range(100), range(100)], schema=schema))
    table.compact(full=True)
    table.delete("k < 3")
    assert not _vectors_without_files(table)
    with oracle.batch() as batch:
        batch.compact(tmp_path, "db.t")
    assert _vectors_without_files(table)
    table.append(pa.table([[5], [500]], schema=schema))
    with oracle.batch() as batch:
        java = batch.read(tmp_path, "db.t")
    assert java.lines == lines(table.scan().to_arrow())
    assert table.scan("k < 7").to_arrow().to_pydict() == {"k": [3, 4, 6, 5], "v": [3, 4, 6, 500]}
    assert not _vectors_without_files(table)


def _vectors_without_files(table: pp.Table) -> set[str]:
    """The data files that vectors are of, although they are not live."""
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    entries = table._store.read_index_manifest(snapshot.index_manifest)
    named = {range_.data_file for entry in entries for range_ in entry.deletion_ranges or ()}
    assert named
    return named.difference(live_of(table._store, snapshot)["file_name"].to_pylist())


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("engine", "producer", "vectors"), sampled(_ALLOWED, 2))
def test_all_read_the_same_at_each_turn(
    engine: str, producer: str, vectors: str, oracle: Oracle, tmp_path: Path
) -> None:
    random = Random(f"{SEED} {engine} {producer} {vectors}")
    own = _options(producer, vectors) | {"num-sorted-run.compaction-trigger": random.choice("235")}
    if vectors == "false":
        own["write-only"] = random.choice(["false", "false", "true"])
    if producer in ("lookup", "full-compaction"):
        own["changelog-producer.row-deduplicate"] = random.choice(["false", "true"])
    if engine.startswith("first-row"):
        own["write-only"] = "false"
    engines = [replace(choice, options={**choice.options, **own}) for choice in _ENGINES[engine]]
    log: list[str] = []
    world = TurnWorld(engines, random.randrange(2**48), tmp_path / "db.db" / "t", log)
    try:
        for _ in range(_ROUNDS):
            _round(world, oracle)
        _check_audit_log(world, oracle)
    except BaseException:
        print("\n".join(log))
        raise


def _round(world: TurnWorld, oracle: Oracle) -> None:
    """A change of ours, and one of Java's; all look at each."""
    first = world.model.snapshot
    world.step()
    world.check_changelog(first)
    ours, then = world.expected(), world.model.snapshot
    _check_rust(world)
    with oracle.batch() as batch:
        before = batch.read(world.warehouse, "db.t", allow_fail=world.model.snapshot == 0)
        rows = world.java_step(batch)
        after = batch.read(world.warehouse, "db.t")
    assert before.lines == ours
    world.java_stepped(rows)
    assert after.lines == world.expected()
    world.check_changelog(then)
    _check_rust(world)


def _check_audit_log(world: TurnWorld, oracle: Oracle) -> None:
    """All that became of rows, as Java reads it, in a batch and as a stream, and as we do."""
    options = {"incremental-between": f"0,{world.model.snapshot}"}
    stream = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
    with oracle.batch() as batch:
        java = batch.read(world.warehouse, "db.t$audit_log", options=shows_level_0(world.table, options))
        words = [word for key, value in stream.items() for word in ("--option", f"{key}={value}")]
        streamed = batch.add("stream", world.warehouse, "db.t", *words, "--rounds", "1000")
    assert java.lines == lines(world.table.system.audit_log(options=options).to_arrow())
    if world.model.producer != "none":
        rows = [row for row in streamed.values if "_kind" in row]
        found = [dumps({"rowkind": row.pop("_kind"), **row}) for row in rows]
        assert in_order(found) == world.logged(*world.model.logged)


def _check_rust(world: TurnWorld) -> None:
    """And pypaimon-rust, but for sums: it adds once more what compactions that looked older rows up have added."""
    aggregates = any(key.endswith(".aggregate-function") for key in world.engine.options)
    if aggregates and world.model.producer == "lookup" and not world.engine.has_vectors:
        return
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    builder = datafusion.PaimonCatalog({"warehouse": str(world.warehouse)}).get_table("db.t").new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    schema = world.table.arrow_schema
    assert lines(pa.Table.from_batches(batches, None if batches else schema).cast(schema)) == world.expected()
