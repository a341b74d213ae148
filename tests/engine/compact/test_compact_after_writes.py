"""Writes compact the buckets that they touched: the rows are those that were written, whatever happens to it."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.compact import after_write, key_task, small_buckets
from paimon_pyds.engine.execution.live_files import live_of
from paimon_pyds.engine.write.key_files import SortedRunWriter
from paimon_pyds.engine.write.small_files import SmallFilesWriter
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from support.compaction import latest, live
from support.counting_io import counted
from support.effort import LONG, sampled
from support.maintenance import is_exact
from support.oracle import Oracle, requires_java_oracle
from support.values import in_order, lines

SCHEMA = pa.schema([pa.field("k", pa.int32(), False), ("a", pa.int32()), ("b", pa.int64()), ("s", pa.int32())])
KINDS = {"rowkind-column": "kind"}
SUMS = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
    "fields.s.aggregate-function": "last_non_null_value",
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "ignoring": {"ignore-delete": "true"},
    "sequence": {"sequence.field": "s"},
    "partial": {"merge-engine": "partial-update"},
    "groups": {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "ignore-delete": "true"},
    "sums": SUMS,
    "first": {"merge-engine": "first-row", "ignore-delete": "true"},
}
DELETING = ("deduplicate", "ignoring", "groups", "first")
"""Engines that take a delete, and to which it is the same whether one that went was dropped."""
MODES: dict[str, dict[str, str]] = {
    "few runs": {"num-sorted-run.compaction-trigger": "2"},
    "some runs": {"num-sorted-run.compaction-trigger": "4", "num-levels": "3"},
    "every write": {"full-compaction.delta-commits": "1"},
    "lifted": {"compaction.force-up-level-0": "true"},
    "small": {"compaction.total-size-threshold": "10 kb"},
    "vectors": {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"},
    "looked up": {"force-lookup": "true"},
    "lookup changelog": {"changelog-producer": "lookup", "num-sorted-run.compaction-trigger": "3"},
}


def _rows(random: Random, kinds: tuple[str, ...], sequence: float) -> pa.Table:
    """``sequence``: the share of rows whose ``s`` is not NULL."""
    columns: dict[str, Any] = {"k": [random.randrange(20) for _ in range(12)]}
    for name, share in (("a", 0.8), ("b", 0.8), ("s", sequence)):
        columns[name] = [random.randrange(9) if random.random() < share else None for _ in range(12)]
    columns["kind"] = [random.choice(kinds) for _ in range(12)]
    return pa.table(columns, pa.schema([*SCHEMA, ("kind", pa.string())]))


def _table(path: Path, options: Mapping[str, str] | None = None) -> pp.Table:
    return pp.Table.create(path, SCHEMA, primary_key=["k"], options={"bucket": "1", **(options or {})})


def _one(value: int, key: int = 1) -> pa.Table:
    return pa.table([[key], [value], [value], [value]], schema=SCHEMA)


def _read(table: pp.Table) -> list[str]:
    return in_order(lines(table.scan().to_arrow()))


def _levels(table: pp.Table) -> list[int]:
    return sorted(live(table)["level"].to_pylist())


@contextmanager
def _told(text: str) -> Iterator[None]:
    with pytest.warns(UserWarning, match="the rows are committed") as caught:
        yield
    assert len(caught) == 1
    assert text in str(caught[0].message)
    assert "table.compact" in str(caught[0].message)


# --------------------------------------------------------------------------------------------------------------- models


_PAIRS = [(engine, mode) for engine in ENGINES for mode in MODES]


@pytest.mark.parametrize(("engine", "mode"), sampled(_PAIRS, 2))
@pytest.mark.parametrize("seed", range(40 if LONG else 1))
def test_rows_are_those_that_were_written(tmp_path: Path, engine: str, mode: str, seed: int) -> None:
    """As in a table that is never compacted; of first rows, by the rows themselves."""
    if (engine, mode) == ("first", "vectors"):
        pytest.skip("Java refuses that")
    random, path = Random(f"{engine} {mode} {seed}"), tmp_path
    writes, size = random.randrange(5, 10), random.choice(["1 kb", "1 mb"])
    table = _table(path / "t", {**ENGINES[engine], **MODES[mode], "target-file-size": size})
    plain = _table(path / "plain", {**({} if engine == "first" else ENGINES[engine]), "write-only": "true"})
    kinds, seen = ("+I", "+I", "-D") if engine in DELETING else ("+I",), set[int]()
    for _ in range(writes):
        rows = _rows(random, kinds, 1.0 if engine == "groups" else 0.8)  # else it matters when rows are merged
        table.append(rows, options=KINDS)
        if engine == "first":
            new = [row for row in rows.to_pylist() if row["kind"] == "+I"]
            first = {row["k"]: row for row in reversed(new) if row["k"] not in seen}
            rows = pa.Table.from_pylist(list(first.values()), rows.schema)
            seen.update(first)
        plain.append(rows, options=KINDS)
        assert _read(table) == _read(plain)
    assert {snapshot.commit_kind for snapshot in table.snapshots.list()} == {CommitKind.APPEND, CommitKind.COMPACT}
    assert 0 not in _levels(table) or mode in ("few runs", "some runs")
    is_exact(table)


def test_full_compactions_of_every_write_leave_one_run(tmp_path: Path) -> None:
    """Copy on write; batch writes do it whatever the number is, as Java's writer for Spark does."""
    for number in ("1", "7"):
        table = _table(tmp_path / number, {"full-compaction.delta-commits": number})
        for value in range(3):
            written = table.append(_one(value))
            assert written is not None
            assert (written.commit_kind, latest(table).id) == (CommitKind.APPEND, written.id + 1)
            assert _levels(table) == [5]
    assert _read(table) == ['{"k":1,"a":2,"b":2,"s":2}']


@pytest.mark.parametrize("key", ["write-only", "write.compaction-skip"])
def test_write_only_leaves_level_0(tmp_path: Path, key: str) -> None:
    table = _table(tmp_path / "t", {key: "true", "full-compaction.delta-commits": "1"})
    for value in range(6):
        table.append(_one(value))
    assert _levels(table) == [0] * 6
    plain = _table(tmp_path / "plain")
    for value in range(6):
        plain.append(_one(value), options={key: "true"})
    assert _levels(plain) == [0] * 6
    plain.append(_one(6))
    assert _levels(plain) == [5]


def test_buckets_that_nothing_was_written_to_stay_as_they_are(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), pa.field("p", pa.int32(), False), ("v", pa.int64())])
    options = {"bucket": "2", "num-sorted-run.compaction-trigger": "3"}
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["p", "k"], partition_by=["p"], options=options)

    def rows(p: int, keys: range) -> pa.Table:
        return pa.table([list(keys), [p] * len(keys), [1] * len(keys)], schema=schema)

    for p in (0, 1, 0, 1, 0, 1):
        table.append(rows(p, range(20)), options={"write-only": "true"})
    table.append(rows(1, range(20)))
    found = live(table).to_pylist()
    places = {(entry["partition"], entry["bucket"]): set[int]() for entry in found}
    for entry in found:
        places[entry["partition"], entry["bucket"]].add(entry["level"])
    assert sorted(map(sorted, places.values())) == [[0], [0], [3], [3]]


def test_overwrites_and_commits_of_messages_are_compacted_too(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {"full-compaction.delta-commits": "1"})
    table.append(_one(1))
    table.overwrite(_one(2, key=2))
    assert [s.commit_kind.value for s in table.snapshots.list()][2:] == ["OVERWRITE", "COMPACT"]
    assert (_levels(table), _read(table)) == ([5], ['{"k":2,"a":2,"b":2,"s":2}'])
    from paimon_pyds.engine.write import TableWriter

    with TableWriter(table.write_context()) as writer:
        writer.write(_one(3).to_batches()[0])
        message = writer.prepare_commit()
    first = table.commit([message])
    again = table.commit([message])
    assert first is not None
    assert again is not None
    assert (first.id, first.commit_kind) == (again.id, CommitKind.APPEND)
    assert (latest(table).id, table.count()) == (first.id + 1, 2)


# --------------------------------------------------------------------------------------------------------------- errors


def _full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _ends_with(patch: pytest.MonkeyPatch, raising: Callable[..., None]) -> None:
    """Have compactions fail when all is written."""
    for module, writer, last in (
        (key_task, SortedRunWriter, "close"),
        (small_buckets, SmallFilesWriter, "_write_file"),
    ):
        patch.setattr(module, writer.__name__, type("Failing", (writer,), {last: raising}))


@pytest.mark.parametrize("options", [{}, {"merge-engine": "first-row"}])
def test_a_compaction_that_fails_is_no_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    table = _table(tmp_path / "t", {"full-compaction.delta-commits": "1", **options})
    table.append(_one(0))
    with monkeypatch.context() as patch:
        _ends_with(patch, _full_disk)
        with _told("No space left"):
            written = table.append(pa.concat_tables([_one(7), _one(7, key=2)]))
    assert written is not None
    assert latest(table).id == written.id
    assert _levels(table) == [0, 5]
    is_exact(table)
    table.append(_one(8, key=3))  # does what was left
    assert _levels(table) == [5]
    assert table.scan(columns=["a"]).to_arrow()["a"].to_pylist() == ([0, 7, 8] if options else [7, 7, 8])


def test_a_write_that_has_nothing_to_merge_imports_nothing_for_it(tmp_path: Path) -> None:
    _table(tmp_path / "t")
    program = (
        "import sys, pyarrow as pa, paimon_pyds as pp\n"
        "table = pp.Table.open(sys.argv[1])\n"
        "table.append([{'k': 1, 'a': 1, 'b': 1, 's': 1}])\n"
        "print([name for name in sys.modules if "
        "name.startswith(('paimon_pyds.engine.compact.compact', 'paimon_pyds.engine.read.'))])"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "t"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_failure_to_look_is_no_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path / "t")
    monkeypatch.setattr(after_write, "due_buckets", _full_disk)
    with _told("No space left"):
        assert table.append(_one(1)) is not None
    assert table.count() == 1


def test_an_interrupt_between_the_two_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that ends there: the rows are committed, and the next write goes on."""
    table = _table(tmp_path / "t", {**SUMS, "num-sorted-run.compaction-trigger": "2"})
    table.append(_one(1))

    with monkeypatch.context() as patch:
        _ends_with(patch, _interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.append(_one(2))
    assert latest(table).commit_kind is CommitKind.APPEND
    is_exact(table)
    assert _read(table) == ['{"k":1,"a":3,"b":2,"s":2}']
    table.append(_one(4))
    assert (_levels(table), _read(table)) == ([2], ['{"k":1,"a":7,"b":4,"s":4}'])


@pytest.mark.parametrize("index", ["btree", "vector", "of-tomorrow"])
def test_tables_with_indexes_over_keys_are_read_only(tmp_path: Path, index: str) -> None:
    """Their index files name data files of which a write or a compaction here would leave none."""
    table = _table(tmp_path / "t", {})
    table.append(_one(1))
    schema = tmp_path / "t/schema/schema-0"
    schema.write_text(schema.read_text().replace('"options" : {', f'"options" : {{"pk-{index}.index.columns" : "a",'))
    table = pp.Table.open(tmp_path / "t")
    for write in (
        lambda: table.append(_one(2)), lambda: table.delete("a = 1"), lambda: table.compact(full=True),
        lambda: table.truncate(), table.maintenance.compact_manifests,
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=rf"pk-{index}.index.columns=a can't be written: its index files"):
            write()
    assert _read(table) == ['{"k":1,"a":1,"b":1,"s":1}']


def test_a_compaction_that_another_writer_replaced_is_not_missed(tmp_path: Path) -> None:
    """Java's writers may do that on a local disk; what they had in hand lands in place of the second snapshot."""
    table = _table(tmp_path / "t", {"full-compaction.delta-commits": "1"})
    table.append(_one(1))
    shutil.copytree(tmp_path / "t", tmp_path / "aside")
    (tmp_path / "aside/snapshot/snapshot-2").unlink()
    (tmp_path / "aside/snapshot/LATEST").write_text("1")
    pp.Table.open(tmp_path / "aside").append(_one(2, key=2), options={"write-only": "true"})
    path = tmp_path / "aside/snapshot/snapshot-2"  # made before ours was
    path.write_text(
        re.sub(r'("timeMillis"\s*:\s*)\d+', rf"\g<1>{table.snapshots.list()[0].time_millis}", path.read_text())
    )
    shutil.copytree(tmp_path / "aside", tmp_path / "t", dirs_exist_ok=True)
    table.append(_one(3, key=3))
    assert table.scan(columns=["k"]).to_arrow()["k"].to_pylist() == [1, 2, 3]
    assert _levels(table) == [5]


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {**SUMS, "num-sorted-run.compaction-trigger": "2", "commit.max-retries": "200"})

    def write(_: int) -> None:
        mine = pp.Table.open(tmp_path / "t")
        for _ in range(6):
            mine.append(_one(1))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    assert _read(table) == ['{"k":1,"a":18,"b":1,"s":1}']
    assert CommitKind.COMPACT in {snapshot.commit_kind for snapshot in table.snapshots.list()}
    is_exact(table)


# ----------------------------------------------------------------------------------------------------------------- cost


def test_little_is_read_where_nothing_is_due(tmp_path: Path) -> None:
    """Two manifest lists and the manifest of the commit, which nothing has read before."""
    reads = {}
    for name, options in (("with", {}), ("without", {"write-only": "true"})):
        path = tmp_path / name
        _table(path, {"num-sorted-run.compaction-trigger": "9", **options})
        store, io = counted(str(path))
        table = pp.Table(store)
        for value in range(6):
            io.read.clear()
            table.append(_one(value))
        reads[name] = [(n.rpartition("-")[0].rstrip("0123456789abcdef-"), n) for n, _ in io.read]
    kinds = {name: sorted(kind for kind, _ in found) for name, found in reads.items()}
    more = list(kinds["with"])
    for kind in kinds["without"]:
        if kind in more:
            more.remove(kind)
    assert len(kinds["with"]) <= len(kinds["without"]) + 3, more
    names = [name for _, name in reads["with"] if name.startswith("manifest")]
    assert len(set(names)) == len(names)


# ----------------------------------------------------------------------------------------------------------------- Java


@requires_java_oracle
@pytest.mark.java
def test_levels_are_java_s(oracle: Oracle, tmp_path: Path) -> None:
    """The same writes, here and by Java, leave the same runs on the same levels after each of them."""
    every = MODES | {"ratio": {"num-sorted-run.compaction-trigger": "3"}}
    names = sampled(("few runs", "some runs", "lifted", "looked up", "vectors", "ratio"), 1)
    modes = {name.replace(" ", "_"): every[name] for name in names}
    random = Random(11)
    counts = [4000, 60, 60, 900, 60, 60, 60, 300, 60, 60, 60]
    writes = []
    for count in counts:
        keys = random.sample(range(5000), count)
        values = [[random.randrange(2**30) for _ in keys] for _ in range(3)]
        writes.append(pa.table([keys, *values], schema=SCHEMA))
    with oracle.batch() as batch:
        for mode, options in modes.items():
            for db in ("db", "java"):
                batch.create(tmp_path, f"{db}.{mode}", SCHEMA, primary_keys=["k"], options={"bucket": "1", **options})
            for rows in writes:
                batch.write(tmp_path, f"java.{mode}", rows)
    for mode in modes:
        table = pp.Table.open(tmp_path / "db.db" / mode)
        for rows in writes:
            table.append(rows)
        found = [_levels_of_snapshots(pp.Table.open(tmp_path / f"{db}.db" / mode)) for db in ("db", "java")]
        assert found[0] == found[1], mode
        assert any(kind == "COMPACT" for kind, _ in found[0])
    with oracle.batch() as batch:
        read = {mode: [batch.read(tmp_path, f"{db}.{mode}") for db in ("db", "java")] for mode in modes}
        for mode in modes:  # Java goes on where we were
            for db in ("db", "java"):
                batch.write(tmp_path, f"{db}.{mode}", writes[1])
                batch.compact(tmp_path, f"{db}.{mode}")
        after = {mode: [batch.read(tmp_path, f"{db}.{mode}") for db in ("db", "java")] for mode in modes}
    for mode in modes:
        for replies in (read[mode], after[mode]):
            assert replies[0].lines == replies[1].lines, mode


def _levels_of_snapshots(table: pp.Table) -> list[tuple[str, list[int]]]:
    """Of each snapshot its kind, and the levels of its files."""
    return [
        (s.commit_kind.value, sorted(live_of(table._store, s)["level"].to_pylist())) for s in table.snapshots.list()
    ]
