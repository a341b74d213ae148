"""Compactions of some runs that look up what the others hold: first-row, deletion vectors, ``force-lookup``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, note, settings

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.engine.compact import key_task
from paimon_pyds.engine.compact.key_task import OlderRows
from paimon_pyds.engine.read.file import DEFAULT_BATCH_ROWS
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.errors import OptionError
from paimon_pyds.keys.merge import key_set
from support import key_engines
from support.compaction import Meanwhile, delete_positions, deleted, index_entries, live, names
from support.effort import LONG, sampled
from support.executors import Pickling
from support.key_engines import ENGINES as JAVA
from support.key_model import ENGINES
from support.key_world import KeyWorld
from support.oracle import Oracle, requires_java_oracle
from support.table_world import POOLS, SEEDS, Pools
from support.values import dumps, in_order, lines

SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.int64()), ("s", pa.int32())])
VECTORS = {"deletion-vectors.enabled": "true"}
KEYS = 4000


def _make(path: Path, options: Mapping[str, str]) -> pp.Table:
    """A table with some keys on the highest level, each with v=1 and s=5."""
    table = pp.Table.create(path, SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options})
    _append(table, range(KEYS), 1)
    table.compact(full=True)
    return table


def _append(table: pp.Table, keys: Iterable[int], v: int, s: int = 5, kind: str = "+I") -> None:
    keys = list(keys)
    rows = pa.table([keys, [v] * len(keys), [s] * len(keys)], schema=SCHEMA)
    rows = rows.append_column("kind", pa.array([kind] * len(keys)))
    table.append(rows, options={"rowkind-column": "kind"})


def _values(table: pp.Table) -> dict[int, int]:
    found = table.scan(columns=["k", "v"]).to_arrow().to_pydict()
    assert len(set(found["k"])) == len(found["k"])
    return dict(zip(found["k"], found["v"], strict=True))


def _levels(table: pp.Table) -> list[int]:
    return sorted(live(table)["level"].to_pylist())


def test_vectors_are_not_switched_by_one_write_or_compaction(tmp_path: Path) -> None:
    """Older rows would come back beside newer ones."""
    table = _make(tmp_path / "t", VECTORS)
    _append(table, [1], 2)
    with pytest.raises(OptionError, match="deletion-vectors"):
        table.compact(options={"deletion-vectors.enabled": "false"})
    with pytest.raises(OptionError, match="deletion-vectors"):
        table.append(pa.table([[1], [3], [5]], schema=SCHEMA), options={"deletion-vectors.enabled": "false"})


@pytest.mark.parametrize("bits", ["false", "true"])
@pytest.mark.parametrize("options", [{}, {"sequence.field": "s"}, {"ignore-delete": "true"}])
def test_vectors_hide_the_versions_that_are_replaced(tmp_path: Path, options: dict[str, str], bits: str) -> None:
    table = _make(tmp_path / "t", {**VECTORS, **options, "deletion-vectors.bitmap64": bits})
    expected = dict.fromkeys(range(KEYS), 1)
    for number, keys in enumerate([range(3, 6), range(5, 8), range(KEYS - 1, KEYS + 2)], 2):
        _append(table, keys, number)
        table.compact()
        assert 0 not in _levels(table)
        expected |= dict.fromkeys(keys, number)
        assert _values(table) == expected
    _append(table, [6], 0, kind="-D")
    table.compact()
    if "ignore-delete" not in options:
        del expected[6]
    assert _values(table) == expected
    assert len(_levels(table)) > 1
    assert deleted(table) >= 6
    assert len(index_entries(table)) == 1


def test_older_sequences_lose_against_rows_that_are_looked_up(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {**VECTORS, "sequence.field": "s"})
    _append(table, range(10), 2, s=4)
    _append(table, range(10, 20), 2, s=6)
    table.compact(executor=Pickling())
    assert _levels(table) == [4, 5]
    assert _values(table) == {k: 2 if 10 <= k < 20 else 1 for k in range(KEYS)}


@pytest.mark.parametrize("engine", ["aggregation", "partial-update"])
@pytest.mark.parametrize("mode", [VECTORS, {"force-lookup": "true"}])
def test_older_rows_take_part_in_merges(tmp_path: Path, engine: str, mode: dict[str, str]) -> None:
    options = {"merge-engine": engine, "fields.v.aggregate-function": "sum"}
    if engine == "partial-update":
        options["fields.s.sequence-group"] = "v"
    table = pp.Table.create(
        tmp_path / "t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options, **mode}
    )
    for number in range(4):
        rows = pa.table(
            [range(KEYS >> 3 * number), [1] * (KEYS >> 3 * number), [5] * (KEYS >> 3 * number)], schema=SCHEMA
        )
        table.append(rows)
        table.compact(full=number == 0)
        assert 0 not in _levels(table)
    assert len(_levels(table)) > 1
    assert _values(table) == {k: sum(k < KEYS >> 3 * number for number in range(4)) for k in range(KEYS)}
    table.compact(full=True)
    assert _values(table) == {k: sum(k < KEYS >> 3 * number for number in range(4)) for k in range(KEYS)}


@pytest.mark.parametrize("mode", [VECTORS, {"force-lookup": "true"}, {"changelog-producer": "lookup"}])
def test_deletes_that_are_ignored_from_now_on_take_no_older_rows_along(tmp_path: Path, mode: dict[str, str]) -> None:
    table = _make(tmp_path / "t", mode)
    _append(table, [1], 0, kind="-D")
    table.alter({"ignore-delete": "true"})
    table.compact()
    assert _levels(table)[0] > 0
    assert _values(table) == dict.fromkeys(range(KEYS), 1)


def test_first_rows_stay_and_later_ones_are_dropped(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", {"merge-engine": "first-row"})
    for number, keys in enumerate([range(KEYS - 10, KEYS + 10), range(KEYS + 5, KEYS + 15), [3, 9999]], 2):
        _append(table, keys, number)
        table.compact()
    expected = dict.fromkeys(range(KEYS), 1) | dict.fromkeys(range(KEYS + 10, KEYS + 15), 3) | {9999: 4}
    assert _values(table) == expected | dict.fromkeys(range(KEYS, KEYS + 10), 2)
    assert len(_levels(table)) > 1
    assert sum(live(table)["row_count"].to_pylist()) == KEYS + 16
    before = in_order(lines(table.scan().to_arrow()))
    table.compact(full=True)
    assert in_order(lines(table.scan().to_arrow())) == before


# --------------------------------------------------------------------------------------------------- files and options


def test_large_files_leave_level_0_as_they_are_and_hide_what_they_replace(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", VECTORS)
    files = set(names(table))
    _append(table, range(10), 2)
    lifted = set(names(table)) - files
    assert table.compact().rows == 0
    assert files | lifted == set(names(table))
    assert _values(table) == dict.fromkeys(range(KEYS), 1) | dict.fromkeys(range(10), 2)
    _append(table, [3], 0, kind="-D")
    _append(table, [5], 0, kind="-D")
    table.compact()
    assert not sum(live(table)["delete_row_count"].to_pylist())
    assert set(_values(table)) == set(range(KEYS)) - {3, 5}


def test_gentle_look_ups_leave_level_0_until_runs_are_merged(tmp_path: Path) -> None:
    options = {"lookup-compact": "gentle", "num-sorted-run.compaction-trigger": "3"}
    table = _make(tmp_path / "t", {**VECTORS, **options})
    for number, seen in ((2, 1), (3, 3)):
        _append(table, [7], number)
        table.compact()
        assert _values(table)[7] == seen
    table.compact(full=True)
    _append(table, [8], 9)
    assert table.compact(options={"lookup-compact.max-interval": "3"}).groups == 0
    assert table.compact(options={"lookup-compact": "radical"}).groups == 1
    assert _values(table)[8] == 9


def test_rows_that_were_deleted_before_there_were_vectors_stay_so(tmp_path: Path) -> None:
    options = {"compaction.force-up-level-0": "true", "deletion-vectors.modifiable": "true"}
    table = _make(tmp_path / "t", options)
    _append(table, [1, 2], 0, kind="-D")
    table.compact()
    assert _levels(table) == [4, 5]
    old = table._store.latest_schema()
    new = replace(old, id=old.id + 1, options={**old.options, **VECTORS})
    assert table._store.try_create_schema(new)  # as Java does; `alter` wants one level
    _append(table, [3, 4], 2)
    table.compact(options={"compaction.size-ratio": "50"})
    assert _levels(table) == [4, 5]
    assert set(_values(table)) == set(range(KEYS)) - {1, 2}


SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


@pytest.mark.parametrize(
    ("options", "switched"),
    [
        ({"deletion-vectors.modifiable": "true"}, VECTORS),
        ({"sequence.field": "s"}, {"changelog-producer": "lookup"}),
        ({"merge-engine": "partial-update"}, {"changelog-producer": "lookup"}),
        (SUMS, {"changelog-producer": "lookup"}),
        ({**SUMS, "changelog-producer": "lookup"}, {"changelog-producer": "none"}),
    ],
)
def test_look_ups_are_switched_when_rows_lie_on_one_level(
    tmp_path: Path, options: dict[str, str], switched: dict[str, str]
) -> None:
    """One state reads the rows that the other left on two levels as others, or twice."""
    table = _make(tmp_path / "t", {**options, "compaction.force-up-level-0": "true"})
    _append(table, [1], 2)
    table.compact()
    assert _levels(table) == [4, 5]
    before = _values(table)
    with pytest.raises(OptionError, match="on several levels"):
        table.alter(set_options=switched)
    _append(table, [2], 3)
    if switched != VECTORS:
        with pytest.raises(OptionError, match="for one compaction"):
            table.compact(options=switched)
    table.compact(full=True)
    table.alter(set_options=switched)
    _append(table, [1], 3)
    table.compact()
    sums = options.keys() >= SUMS.keys()
    assert _values(table) == before | ({1: 6, 2: 4} if sums else {1: 3, 2: 3})


def test_older_files_are_read_in_windows_and_by_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**VECTORS, "sequence.field": "s", "parquet.page.row.count.limit": "1000"}
    table = pp.Table.create(
        tmp_path / "t", SCHEMA, primary_key=["k"], options={"bucket": "1", "write-only": "true", **options}
    )
    _append(table, range(400_000), 1)
    table.compact(full=True)
    sizes, traces = list[int](), list[FileTrace]()
    found, read = OlderRows.found, key_task.read_wanted

    def found_noted(self: OlderRows, window: pa.RecordBatch, *, whole: bool) -> pa.RecordBatch | None:
        sizes.append(window.num_rows)
        return found(self, window, whole=whole)

    def read_noted(spec: Any, keys: Any, file: Any, trace: FileTrace, rows: int) -> Iterator[pa.RecordBatch]:
        traces.append(trace)
        return read(spec, keys, file, trace, rows)

    monkeypatch.setattr(OlderRows, "found", found_noted)
    monkeypatch.setattr(key_task, "read_wanted", read_noted)
    _append(table, range(500, 600), 2)
    table.compact()
    assert sum(trace.counters.bytes_read for trace in traces) < max(live(table)["file_size"].to_pylist()) // 4
    assert deleted(table) == 100
    sizes.clear()
    _append(table, range(0, 400_000, 2), 3)
    table.compact(options={"compaction.size-ratio": "-99"})
    assert len(sizes) > 2
    assert max(sizes) <= 2 * DEFAULT_BATCH_ROWS
    assert sum(trace.rows_returned for trace in traces) >= 200_000
    assert pc.sum(table.scan(columns=["v"]).to_arrow()["v"]).as_py() == 400_000 + 50 + 2 * 200_000


@pytest.mark.parametrize("most", [0, 1 << 16])
@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT", "CHAR(6)", "CHAR(9)"])
def test_pages_of_all_types_of_keys_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type_: str, most: int
) -> None:
    def rows(keys: range, v: int) -> pa.Table:
        texts = [f"{k:06d}" for k in keys]
        return pa.table({"k": texts if "CHAR" in type_ else list(map(float, keys)), "v": [v] * len(keys)})

    fields = [DataField(0, "k", parse_type(f"{type_} NOT NULL")), DataField(1, "v", parse_type("BIGINT"))]
    options = {"bucket": "1", "write-only": "true", "parquet.page.row.count.limit": "1000", **VECTORS}
    table = pp.Table.create(tmp_path / "t", fields, primary_key=["k"], options=options)
    table.append(rows(range(100_000), 1))
    table.compact(full=True)
    monkeypatch.setattr(key_set, "MAX_TEXT_FORMS", most)
    traces, read = list[FileTrace](), key_task.read_wanted

    def read_noted(spec: Any, keys: Any, file: Any, trace: FileTrace, rows: int) -> Iterator[pa.RecordBatch]:
        traces.append(trace)
        return read(spec, keys, file, trace, rows)

    monkeypatch.setattr(key_task, "read_wanted", read_noted)
    table.append(rows(range(70_500, 70_600), 2))
    table.compact()
    assert sum(trace.counters.bytes_read for trace in traces) < max(live(table)["file_size"].to_pylist()) // 4
    assert deleted(table) == 100
    assert pc.sum(table.scan(columns=["v"]).to_arrow()["v"]).as_py() == 100_100


@requires_java_oracle
@pytest.mark.java
def test_keys_that_java_filled_with_blanks_are_found(oracle: Oracle, tmp_path: Path) -> None:
    """ORC's readers take the blanks off, which the ranges of keys in manifests have."""
    fields = [DataField(0, "k", parse_type("CHAR(3) NOT NULL")), DataField(1, "v", parse_type("INT"))]
    options = {"bucket": "1", "write-only": "true", "file.format": "orc", **VECTORS}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", fields, primary_keys=["k"], options=options)
        batch.write(tmp_path, "db.t", [{"k": f"{k:<3}", "v": 1} for k in ("a", "b", "c")])
        batch.compact(tmp_path, "db.t")
        batch.write(tmp_path, "db.t", [{"k": f"{k:<3}", "v": 2} for k in ("a", "c")])
    table = pp.Table.open(tmp_path / "db.db" / "t")
    table.compact(options={"compaction.size-ratio": "-99"})
    assert len(_levels(table)) == 2
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t")
    assert in_order(read.lines) == in_order(lines(table.scan().to_arrow()))
    assert _values(table) == {"a": 2, "b": 1, "c": 2}


# ------------------------------------------------------------------------------------------------------- other commits

_SUMS = {**VECTORS, "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}


def test_rows_that_were_hidden_meanwhile_are_not_counted_again(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", _SUMS)
    (old,) = names(table)
    _append(table, [5, 6], 10)
    other = pp.Table.open(table.path)
    summary = table.compact(executor=Meanwhile(lambda: delete_positions(other, {old: [5]})))
    assert (summary.attempts, summary.groups) == (2, 1)
    assert _values(table) == dict.fromkeys(range(KEYS), 1) | {5: 10, 6: 11}
    assert deleted(table) == 2


@pytest.mark.parametrize("full", [False, True])
def test_another_compaction_comes_first(tmp_path: Path, full: bool) -> None:
    table = _make(tmp_path / "t", _SUMS)
    _append(table, [5, 6], 10)
    other = pp.Table.open(table.path)
    summary = table.compact(executor=Meanwhile(lambda: other.compact(full=full)))
    assert summary.groups == 0
    assert _values(table) == dict.fromkeys(range(KEYS), 1) | {5: 11, 6: 11}


def test_deletes_that_are_written_meanwhile_are_left_for_the_next_compaction(tmp_path: Path) -> None:
    table = _make(tmp_path / "t", VECTORS)
    _append(table, [5, 6], 10)
    other = pp.Table.open(table.path)
    summary = table.compact(executor=Meanwhile(lambda: _append(other, [6, 7], 0, kind="-D")))
    assert (summary.attempts, summary.groups) == (1, 1)
    assert _values(table) == dict.fromkeys(range(KEYS), 1) | {5: 10, 6: 10}
    table.compact()
    assert _values(table) == {k: v for k, v in (dict.fromkeys(range(KEYS), 1) | {5: 10}).items() if k not in (6, 7)}


# -------------------------------------------------------------------------------------------------------------- models


@pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ["first-row", "deletion vectors", "clustering"])
@settings(max_examples=400 if LONG else 2, phases=[Phase.explicit, Phase.reuse, Phase.generate], deadline=None)
@given(pools=POOLS, seed=SEEDS)
def test_a_table_of_several_levels_is_its_model_after_each_compaction(name: str, pools: Pools, seed: int) -> None:
    """All types of keys, formats, changes of columns, NULLs, kinds and sequence fields."""
    log: list[str] = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            world = KeyWorld(ENGINES[name], pools, seed, Path(directory, "t"), log)
            world.table.alter(set_options={"compaction.size-ratio": "-99", "num-sorted-run.compaction-trigger": "5"})
            for _ in range(6):
                world.pick([world.write, world.write, world.write_tasks, world.alter])()
                full = world.random.random() < 0.1
                log.append(f"compact full={full}")
                world.table.compact(full=full)
                world.model.follow(world.table)
                assert 0 not in _levels(world.table)
                world.check()
        except BaseException:
            note("\n".join(log))
            raise


@requires_java_oracle
@pytest.mark.java
def test_java_compacts_to_the_same_rows_and_goes_on(oracle: Oracle, tmp_path: Path) -> None:
    """Rows that Java writes in two tables: one it compacts with each write, the other we do."""
    modes = {"vectors": VECTORS, "forced": {"force-lookup": "true"}}
    engines = ["deduplicate", "sequence", "partial_removing", "groups", "aggregation"]
    tables = {f"{mode}_{engine}": {**modes[mode], **JAVA[engine]} for mode in modes for engine in engines}
    tables = dict(sampled(tables.items(), 2)) | {"first": {"merge-engine": "first-row", "ignore-delete": "true"}}
    with oracle.batch() as batch:
        for name, options in tables.items():
            for db, own in (("java", {}), ("db", {"write-only": "true"})):
                whole = {"bucket": "1", **options, **own}
                batch.create(tmp_path, f"{db}.{name}", key_engines.SCHEMA, primary_keys=["k"], options=whole)
    random, levels = Random(4), set[tuple[int, ...]]()
    for round_ in range(3):
        with oracle.batch() as batch:
            for name in tables:
                rows = key_engines.random_rows(random)
                if round_ == 0:
                    rows = [{**row, "k": k, "_kind": "+I"} for k, row in enumerate(rows * 20)]
                path = batch.oracle.scratch_file(".jsonl")
                path.write_text("".join(dumps(row) + "\n" for row in rows), encoding="utf-8")
                for db in ("java", "db"):
                    batch.add("write", tmp_path, f"{db}.{name}", path, "--row-kind-field", "_kind")
        for name in tables:
            table = pp.Table.open(tmp_path / "db.db" / name)
            table.compact()
            levels.add(tuple(_levels(table)))
        with oracle.batch() as batch:
            found = {name: [batch.read(tmp_path, f"{db}.{name}") for db in ("db", "java")] for name in tables}
            for name in tables if round_ == 2 else ():
                batch.compact(tmp_path, f"db.{name}")
                found[name].append(batch.read(tmp_path, f"db.{name}"))
        for name, (ours, *others) in found.items():
            assert all(ours.lines == other.lines for other in others), (name, round_)
            assert in_order(lines(pp.Table.open(tmp_path / "db.db" / name).scan().to_arrow())) == ours.lines, name
    assert any(len(set(found)) > 1 for found in levels)
