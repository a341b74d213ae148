"""Compaction of tables with a primary key: the rows stay what they are, here and in Java, whatever is written next."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.compact import publish as module
from paimon_pyds.errors import CommitError, SchemaError
from paimon_pyds.keys.merge.files_to_merge import key_ranks
from paimon_pyds.metadata.snapshot import CommitKind
from support.compaction import Meanwhile, data_files, index_entries, latest, live
from support.effort import LONG, sampled
from support.executors import Pickling
from support.fixtures import fixture_names, requires_shared, table_path
from support.maintenance import is_exact
from support.oracle import Oracle, requires_java_oracle
from support.progress import Seen
from support.values import dumps, in_order, lines
from support.victims import victims

T = TypeVar("T")
R = TypeVar("R")

NAMES = [name for name in fixture_names() if name.startswith("pk_") or name == "evolve_pk"]
NAMES = [name for name in NAMES if name != "pk_postpone"]  # a compaction brings its rows in: test_postpone_java
SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("a", pa.int32()), ("b", pa.int64()), ("s", pa.int32())])
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "ignoring": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "s"},
    "partial": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "groups": {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "ignore-delete": "true"},
    "sums": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "max",
        "fields.b.ignore-retract": "true",
        "fields.s.aggregate-function": "last_non_null_value",
    },
}
KINDS = {"rowkind-column": "kind"}
_PILING = {"bucket": "1", "write-only": "true"}


def _rows(random: Random, count: int = 20, keys: int = 30, kinds: Sequence[str] = ("+I", "+I", "+U", "-D")) -> pa.Table:
    """Rows of one write."""

    def numbers(most: int) -> list[int | None]:
        return [random.randrange(most) if random.random() < 0.8 else None for _ in range(count)]

    columns: dict[str, Any] = {"k": [random.randrange(keys) for _ in range(count)]}
    columns |= {name: numbers(9) for name in ("a", "b", "s")}
    columns["kind"] = [random.choice(kinds) for _ in range(count)]
    return pa.table(columns, pa.schema([*SCHEMA, ("kind", pa.string())]))


def _make(path: Path, options: Mapping[str, str] | None = None) -> pp.Table:
    return pp.Table.create(path, SCHEMA, primary_key=["k"], options={**_PILING, **(options or {})})


def _written(path: Path, writes: int = 5, options: Mapping[str, str] | None = None) -> pp.Table:
    table, random = _make(path, options), Random(7)
    for _ in range(writes):
        table.append(_rows(random), options=KINDS)
    return table


def _read(table: pp.Table) -> list[str]:
    return in_order(lines(table.scan().to_arrow()))


def _levels(table: pp.Table) -> list[int]:
    return sorted(live(table)["level"].to_pylist())


def _check_levels(table: pp.Table) -> None:
    """Each level above 0 is a sorted run: no two of its files have keys in common."""
    entries = live(table)
    if not entries.num_rows:
        return
    ranks = key_ranks(entries, table.schema)
    assert ranks is not None
    runs: dict[Any, list[tuple[int, int]]] = {}
    places = zip(*(entries[name].to_pylist() for name in ("partition", "bucket", "level")), strict=True)
    for place, low, high in zip(places, *ranks.tolist(), strict=True):
        assert low <= high
        if place[-1]:
            runs.setdefault(place, []).append((low, high))
    for ranges in runs.values():
        assert all(a[1] < b[0] for a, b in itertools.pairwise(sorted(ranges)))


# -------------------------------------------------------------------------------------------- tables that Java wrote


def _before_compaction(name: str, path: Path) -> None:
    """A copy of a fixture as it was before its last compaction."""
    shutil.copytree(table_path(name), path)
    table = pp.Table.open(path)
    for snapshot in reversed(table.snapshots.list()):
        if snapshot.commit_kind is not CommitKind.COMPACT:
            break
        (path / "snapshot" / f"snapshot-{snapshot.id}").unlink()
    (path / "snapshot" / "LATEST").write_text(str(snapshot.id))


@requires_shared
@requires_java_oracle
@pytest.mark.java
def test_java_reads_what_was_compacted_as_after_a_compaction_of_its_own(oracle: Oracle, tmp_path: Path) -> None:
    names = sampled(NAMES, 3)
    changed = 0
    for name in names:
        _before_compaction(name, tmp_path / "db.db" / name)
        shutil.copytree(tmp_path / "db.db" / name, tmp_path / "java.db" / name)
        table = pp.Table.open(tmp_path / "db.db" / name)
        before, hides = _read(table), _hides(table)
        some = table.compact()
        assert hides or _read(table) == before, name
        before = _read(table)
        summary = table.compact(full=True)
        changed += summary.groups + some.groups > 0
        assert _read(table) == before, name
        assert table.compact(full=True).snapshot_id is None, name
        _check_levels(table)
        assert not any(entry.deletion_ranges for entry in index_entries(table)), name
    assert changed > len(names) // 2
    with oracle.batch() as batch:
        for name in names:
            batch.compact(tmp_path, f"java.{name}")
        replies = {name: [batch.read(tmp_path, f"{db}.{name}") for db in ("db", "java")] for name in names}
        for name in names:
            batch.compact(tmp_path, f"db.{name}")  # nothing is left for Java to do, or it goes on from there
        again = {name: batch.read(tmp_path, f"db.{name}") for name in names}
    for name, (ours, theirs) in replies.items():
        assert _with_sets(ours.lines) == _with_sets(theirs.lines), name
        assert again[name].lines == ours.lines, name
        assert len(_read(pp.Table.open(tmp_path / "db.db" / name))) == len(ours.lines), name


def _with_sets(rows: Sequence[str]) -> list[str]:
    """Rows as texts, with arrays that are sets (of collect without duplicates) in one order."""
    found = [json.loads(row) for row in rows]
    return [dumps({k: sorted(v) if k == "a_colld" and v is not None else v for k, v in r.items()}) for r in found]


def _hides(table: pp.Table) -> bool:
    options = table.options
    return options.get("merge-engine") == "first-row" or options.get("deletion-vectors.enabled") == "true"


@requires_shared
def test_compacted_files_have_indexes(tmp_path: Path) -> None:
    _before_compaction("pk_index", tmp_path / "t")
    table = pp.Table.open(tmp_path / "t")
    assert table.compact(full=True).groups
    for entry in live(table).to_pylist():
        assert entry["embedded_index"] is not None or entry["extra_files"], entry["file_name"]


# --------------------------------------------------------------------------------------------------- models of engines


_STEPS = st.lists(st.sampled_from(["write", "write", "few", "minor", "full"]), min_size=4, max_size=9)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=100 if LONG else 2, deadline=None)
@given(
    steps=_STEPS, seed=st.integers(0, 999), trigger=st.integers(2, 4), size=st.sampled_from(["1 kb", "3 kb", "1 mb"])
)
def test_rows_are_the_same_after_each_compaction(
    tmp_path_factory: pytest.TempPathFactory, engine: str, steps: list[str], seed: int, trigger: int, size: str
) -> None:
    """And after writes that follow, as in a table that is never compacted: if a delete that has gone would not have
    changed anything in the rows that come later, which it does in some engines, in Java, too."""
    random, path = Random(seed), tmp_path_factory.mktemp("t")
    options = {"num-sorted-run.compaction-trigger": str(trigger), "target-file-size": size, **ENGINES[engine]}
    table, plain = _make(path / "t", options), _make(path / "plain", ENGINES[engine])
    kinds = ["+I", "+U", "-D"] if engine in ("deduplicate", "ignoring", "groups") or seed % 2 else ["+I", "+U"]
    for step in steps:
        if step in ("write", "few"):
            rows = _rows(random, kinds=kinds) if step == "write" else _rows(random, 2, 5, kinds=kinds)
            for each in (table, plain):
                each.append(rows, options=KINDS)
            continue
        before = _read(table)
        table.compact(full=step == "full")
        assert _read(table) == before
        _check_levels(table)
        if step == "full":
            assert 0 not in _levels(table)
            assert not sum(live(table)["delete_row_count"].to_pylist())
    if "-D" not in kinds or engine in ("deduplicate", "ignoring", "groups"):
        assert _read(table) == _read(plain)


def test_deletes_stay_while_older_versions_are_below(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {"num-sorted-run.compaction-trigger": "2", "num-levels": "4"})
    many = pa.table({"k": range(4000), "a": np.arange(4000) * 7919 % 1009, "b": range(4000), "s": [0] * 4000}, SCHEMA)
    table.append(many)
    assert table.compact(full=True).groups
    assert _levels(table) == [3]
    for number in range(2):
        table.append(pa.table([[number], [None], [None], [None], ["-D"]], pa.schema([*SCHEMA, ("kind", pa.string())])),
                     options=KINDS)  # fmt: skip
    summary = table.compact()
    assert (summary.files_before, summary.rows) == (2, 2)
    assert _levels(table) == [2, 3]
    assert sum(live(table)["delete_row_count"].to_pylist()) == 2
    assert table.scan().count() == 3998
    assert table.compact(full=True).rows == 3998
    assert _levels(table) == [3]


def test_files_with_keys_of_their_own_are_not_rewritten(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {"target-file-size": "100 b"})
    for first in (0, 10, 20):
        table.append(pa.table([[first, first + 1], [1, 1], [1, 1], [1, 1]], schema=SCHEMA))
    before = set(live(table)["file_name"].to_pylist())
    summary = table.compact(full=True)
    assert (summary.files_before, summary.files_after, summary.rows, summary.rows_dropped) == (3, 3, 0, 0)
    assert summary.bytes_before == summary.bytes_after > 0
    assert set(live(table)["file_name"].to_pylist()) == before
    assert _levels(table) == [5, 5, 5]
    assert table.scan().count() == 6
    assert latest(table).commit_kind is CommitKind.COMPACT


def test_a_sum_with_more_digits_than_its_type_is_an_error(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), ("d", pa.decimal128(4, 1))])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.d.aggregate-function": "sum"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options=options)
    for _ in range(2):
        table.append(pa.table([[1, 2], [Decimal("500.0"), Decimal("-1.0")]], schema=schema))
    files = data_files(table)
    with pytest.raises(SchemaError, match=r"column d: aggregated to 1000\.0, which DECIMAL\(4, 1\) can't hold"):
        table.compact(full=True)
    assert data_files(table) == files


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    table = _written(tmp_path / "t")
    files = data_files(table)
    summary = table.compact(dry_run=True)
    assert (summary.files_before, summary.snapshot_id, summary.dry_run) == (5, None, True)
    assert data_files(table) == files
    assert latest(table).id == 5


def test_partitions_and_buckets_are_compacted_each_by_itself(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), pa.field("p", pa.int32(), False), ("v", pa.int64())])
    table = pp.Table.create(
        tmp_path / "t", schema, primary_key=["p", "k"], partition_by=["p"], options={**_PILING, "bucket": "2"}
    )
    for value in range(5):
        table.append(pa.table([list(range(20)) * 2, [0] * 20 + [1] * 20, [value] * 40], schema=schema))
    seen = Seen()
    summary = table.compact(where="p = 1", progress=seen)
    assert (summary.groups, summary.files_before, summary.files_after, summary.rows) == (2, 10, 2, 20)
    assert (seen.done("rewriting", "files"), seen.done("rewriting")) == (10, 100)
    assert table.compact(full=True).groups == 2
    assert table.scan().to_arrow()["v"].to_pylist() == [4] * 40
    assert _levels(table) == [5] * 4


# ------------------------------------------------------------------------------------------------------ other writers


def test_a_write_is_no_conflict(tmp_path: Path) -> None:
    table, plain = _written(tmp_path / "t"), _written(tmp_path / "plain")
    rows = _rows(Random(1))
    plain.append(rows, options=KINDS)
    summary = table.compact(executor=Meanwhile(lambda: table.append(rows, options=KINDS)))
    assert (summary.attempts, summary.snapshot_id) == (1, 7)
    assert _read(table) == _read(plain)
    assert _levels(table) == [0, 5]
    is_exact(table)


@pytest.mark.parametrize("more", [0, 5])
def test_a_second_compaction_is_a_conflict_that_is_tried_again(tmp_path: Path, more: int) -> None:
    table = _written(tmp_path / "t")
    expected = _read(table)

    def meanwhile() -> None:
        for _ in range(more):
            table.append(pa.table([[99], [1], [1], [1]], schema=SCHEMA))
        assert table.compact(full=True).snapshot_id

    summary = table.compact(full=True, executor=Meanwhile(meanwhile))
    assert (summary.attempts, summary.groups) == (1, 0)
    assert [line for line in _read(table) if '"k":99' not in line] == [x for x in expected if '"k":99' not in x]
    _check_levels(table)
    is_exact(table)


def test_a_level_that_fills_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    """The files that were picked are all there, but the run that comes out would share keys with another one."""
    table = _written(tmp_path / "t", 3)
    expected = _read(table)

    def lift(entries: pa.RecordBatch) -> pa.RecordBatch:
        at = entries.schema.get_field_index("level")
        return entries.set_column(at, entries.schema.field(at), pa.array([4] * entries.num_rows, pa.int32()))

    def meanwhile() -> None:
        from paimon_pyds.base.options import TableOptions
        from paimon_pyds.engine.commit import Changes, Increment, commit

        table.append(pa.table([[29], [1], [1], [1]], schema=SCHEMA))
        fresh = live(table)
        fresh = fresh.filter(pa.compute.equal(fresh["min_sequence_number"], 60))
        assert fresh.num_rows == 1
        change = Increment(kind=CommitKind.COMPACT, deleted=fresh, replacements=lift(fresh))
        assert commit(table._store, Changes([change]), TableOptions(table.options))

    summary = table.compact(full=True, executor=Meanwhile(meanwhile))
    assert summary.attempts == 2
    others = [line for line in expected if '"k":29' not in line]
    assert _read(table) == in_order([*others, '{"k":29,"a":1,"b":1,"s":1}'])
    assert _levels(table) == [5]
    _check_levels(table)
    is_exact(table)


def test_a_commit_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _written(tmp_path / "t")
    expected, files = _read(table), data_files(table)

    def fail(*_: object) -> None:
        raise CommitError("no")

    monkeypatch.setattr(module, "commit", fail)
    with pytest.raises(CommitError):
        table.compact(full=True)
    assert data_files(table) == files
    assert _read(table) == expected


def test_tasks_run_on_other_machines(tmp_path: Path) -> None:
    table = _written(tmp_path / "t")
    expected = _read(table)
    assert table.compact(full=True, executor=Pickling()).groups == 1
    assert _read(table) == expected


def _write_for_ever(path: str, say: Connection) -> None:
    """Rows of the same keys with greater values each time, and compactions, until killed."""
    table = pp.Table.open(path)
    value = table.scan(columns=["b"]).to_arrow()["b"][0].as_py()
    for number in itertools.count(value + 1):
        table.append(pa.table([range(40), [1] * 40, [number] * 40, [1] * 40], schema=SCHEMA))
        table.compact(full=number % 3 == 0)
        say.send_bytes(b"r")


def test_a_kill_at_any_moment_leaves_a_committed_state(tmp_path: Path) -> None:
    spilling = {"target-file-size": "1 kb", "write-buffer-size": "1 b"}
    table = _make(tmp_path / "t", {"num-sorted-run.compaction-trigger": "2", **spilling})
    table.append(pa.table([range(40), [1] * 40, [0] * 40, [1] * 40], schema=SCHEMA))
    random, kinds = Random(5), set()
    for _ in range(10 if LONG else 3):
        before = latest(table).id
        with victims(
            _write_for_ever, [(str(tmp_path / "t"),)], "paimon_pyds.engine.append", "paimon_pyds.engine.compact.compact"
        ) as heard:
            for _ in range(random.randrange(3)):
                assert heard[0].recv_bytes() == b"r"
            time.sleep(random.uniform(0.0, 0.2))
        values = table.scan(columns=["b"]).to_arrow()["b"].to_pylist()
        assert len(values) == 40
        assert len(set(values)) == 1
        _check_levels(table)
        kinds |= {snapshot.commit_kind for snapshot in table.snapshots.list() if snapshot.id > before}
    assert kinds == {CommitKind.APPEND, CommitKind.COMPACT}


# ------------------------------------------------------------------------------------------------------ turns with Java


@requires_java_oracle
@pytest.mark.java
def test_java_goes_on_writing_and_compacting(oracle: Oracle, tmp_path: Path) -> None:
    """Rounds: Java writes, we compact, we write, Java compacts; as in a table that only Java wrote and read."""
    random = Random(3)
    engines = sampled(["deduplicate", "sequence", "partial", "sums"], 1)
    options = {"bucket": "1", "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    kinds = {name: ["+I", "+U"] for name in engines} | {"deduplicate": ["+I", "+U", "-D"]}
    tables = {}
    with oracle.batch() as batch:
        for name, db in itertools.product(engines, ("db", "java")):
            own = {**options, **ENGINES[name], "rowkind.field": "kind"}
            fields = pa.schema([*SCHEMA, ("kind", pa.string())])
            if name == "sums":
                own["fields.kind.aggregate-function"] = "last_value"
                own["fields.kind.ignore-retract"] = "true"
            batch.create(tmp_path, f"{db}.{name}", fields, primary_keys=["k"], options=own)
    for name in engines:
        tables[name] = pp.Table.open(tmp_path / "db.db" / name)
    for round_ in range(3 if LONG else 2):
        rows = {name: [_rows(random, kinds=kinds[name]) for _ in range(4)] for name in engines}
        with oracle.batch() as batch:
            for name in engines:
                for each in rows[name][:2]:
                    batch.write(tmp_path, f"db.{name}", each)
                for each in rows[name]:
                    batch.write(tmp_path, f"java.{name}", each)
        for name in engines:
            table = tables[name]
            table.compact()
            _check_levels(table)
            for each in rows[name][2:]:
                table.append(each)
            table.compact(full=round_ == 1)
        with oracle.batch() as batch:
            found = {name: [batch.read(tmp_path, f"{db}.{name}") for db in ("db", "java")] for name in engines}
            if round_ == 0:
                for name in engines:
                    batch.compact(tmp_path, f"db.{name}")
            after = {name: batch.read(tmp_path, f"db.{name}") for name in engines}
        for name, (ours, theirs) in found.items():
            assert ours.lines == theirs.lines == after[name].lines, (name, round_)
            assert _read(tables[name]) == ours.lines, (name, round_)
