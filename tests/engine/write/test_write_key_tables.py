"""Tables with a primary key, written here: after each commit they hold what a model holds that takes row after row."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.types import AtomicType, Kind
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.engine.write.key_writer import KeyBucketWriter
from paimon_pyds.engine.write.rolling import WriterThreads
from paimon_pyds.engine.write.sequence_numbers import SequenceNumbers
from paimon_pyds.errors import CommitOutcomeUnknownError, OptionError, SchemaError, UnsupportedError
from paimon_pyds.metadata.commit_message import BucketFiles, CommitMessage, CompactIncrement
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition import PartitionBucket
from support.effort import LONG, sampled
from support.engine_model import KIND, RETRACTS, SEQ, Row, merged
from support.key_engines import MODELED, Engine

_COLUMNS = {"p": pa.int32(), "k": pa.string(), "a": pa.int64(), "b": pa.string(), "s": pa.int32(), "l": pa.int64()}
_SCHEMA = pa.schema(list(_COLUMNS.items()))
_VALUES = ("a", "b", "s", "l")
_KEY = ["p", "k"]
_KINDS = ("+I", "-U", "+U", "-D")
_OP = {"rowkind-column": "op"}


_ENGINES = ("deduplicate", "ignoring", "ignoring_before", "descending", "partial_removing", "groups", "aggregation")


@dataclass
class _Model:
    """Files as lists of rows: each commit's versions of a key are merged once, and all of them when they are read."""

    engine: Engine
    files: list[list[Row]] = field(default_factory=list)
    count: int = 0

    def write(self, rows: Sequence[Row]) -> None:
        numbered = []
        for row in rows:
            if self.engine.keeps(row):
                numbered.append({**row, SEQ: self.count})
                self.count += 1
        self.files.append(merged(numbered, _KEY, self.engine.order, self.engine.fold(_VALUES)))

    def rows(self) -> list[Row]:
        together = [row for file in self.files for row in file]
        found = merged(together, _KEY, self.engine.order, self.engine.fold(_VALUES))
        return [{name: row[name] for name in _COLUMNS} for row in found if row[KIND] not in RETRACTS]


_ROW = st.fixed_dictionaries(
    {
        KIND: st.sampled_from([0, 0, 2, 1, 3]),
        "p": st.integers(0, 1),
        "k": st.sampled_from(["", "a", "b", "ä", "a longer text than sixteen bytes", "z"]),
        "a": st.none() | st.integers(-5, 5),
        "b": st.none() | st.sampled_from(["x", "y"]),
        "s": st.none() | st.integers(0, 3),
        "l": st.none() | st.integers(-(2**40), 2**40),
    }
)
_JOBS = st.lists(st.lists(st.lists(_ROW, max_size=12), min_size=1, max_size=3), min_size=1, max_size=4)
"""Commits, of tasks, of rows."""
_LAYOUTS = st.sampled_from(
    [{}, {"write-buffer-size": "1 b"}, {"target-file-row-num": "2"}, {"data-file.thin-mode": "true"},
     {"file.format.per.level": "0:avro"}, {"file.format": "orc", "write-buffer-spillable": "false",
      "write-buffer-size": "1 b"}, {"changelog-producer": "input", "write-buffer-size": "1 b"}]
)  # fmt: skip


def _table(path: Path | str, **options: str) -> pp.Table:
    options = {"bucket": "2", "write-only": "true", "missing-columns": "null", **options}
    return pp.Table.create(path, _SCHEMA, primary_key=_KEY, partition_by=["p"], options=options)


def _data(rows: Sequence[Row]) -> pa.Table:
    """Rows as they are given to a writer, with their kinds as texts."""
    columns = {name: pa.array([row[name] for row in rows], type_) for name, type_ in _COLUMNS.items()}
    return pa.table({"op": pa.array([_KINDS[row[KIND]] for row in rows], pa.string()), **columns})


def _message(table: pp.Table, rows: Sequence[Row], task: int | None) -> CommitMessage:
    with TableWriter(table.write_context(_OP), task) as writer:
        writer.write(_data(rows))
        return writer.prepare_commit()


def _found(table: pp.Table) -> list[Row]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: (row["p"], row["k"].encode()))


def _numbers(table: pp.Table) -> dict[tuple[Any, int], list[tuple[int, list[int]]]]:
    """Of each bucket the rows' sequence numbers, file by file, and the number of the snapshot that added the file."""
    found: dict[tuple[Any, int], list[tuple[int, list[int]]]] = {}
    reader = ManifestReader(table._store)
    for snapshot in table.snapshots.list():
        for row in reader.added(reader.delta(snapshot)).to_pylist():
            path = next(Path(table.path).rglob(row["file_name"]))
            numbers = pq.read_table(path, partitioning=None)[SEQ].to_pylist()
            assert (min(numbers), max(numbers)) == (row["min_sequence_number"], row["max_sequence_number"])
            assert row["file_size"] == path.stat().st_size
            found.setdefault((row["partition"], row["bucket"]), []).append((snapshot.id, numbers))
    return found


def _check_numbers(table: pp.Table) -> None:
    """No two rows of a bucket have the same number, and later snapshots have greater ones."""
    for files in _numbers(table).values():
        numbers = [number for _, file in files for number in file]
        assert len(set(numbers)) == len(numbers)
        for before, file in files:
            for after, later in files:
                assert before >= after or max(file) < min(later)


@pytest.mark.parametrize("name", sampled(_ENGINES, 2))
@settings(max_examples=400 if LONG else 4, deadline=None)
@given(jobs=_JOBS, layout=_LAYOUTS)
def test_a_table_is_its_model_after_each_commit(name: str, jobs: list[list[list[Row]]], layout: dict[str, str]) -> None:
    engine = MODELED[name]
    with tempfile.TemporaryDirectory() as directory:
        table, model = _table(f"{directory}/t", **engine.options, **layout), _Model(engine)
        for job in jobs:
            for rows in job:
                model.write(rows)
            tasks = [None] if len(job) == 1 else range(len(job))
            table.commit([_message(table, rows, task) for task, rows in zip(tasks, job, strict=True)], options=_OP)
            assert _found(table) == model.rows()


@settings(max_examples=200 if LONG else 4, deadline=None)
@given(jobs=_JOBS)
def test_rows_of_a_bucket_have_numbers_of_their_own(jobs: list[list[list[Row]]]) -> None:
    """Jobs that all begin before the first one commits: their rows are as old as their snapshots."""
    engine = MODELED["deduplicate"]
    with tempfile.TemporaryDirectory() as directory:
        table, model = _table(f"{directory}/t", **{"changelog-producer": "input"}), _Model(engine)
        messages = [[_message(table, rows, task) for task, rows in enumerate(job)] for job in jobs]
        for job, written in zip(jobs, messages, strict=True):
            for rows in job:
                model.write(rows)
            table.commit(written, options=_OP)
            assert _found(table) == model.rows()
        _check_numbers(table)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_last_commit_wins_whoever_began_first(tmp_path: Path, order: tuple[int, ...]) -> None:
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    messages = [_message(table, [{**row, "a": number}], None) for number in range(3)]
    for number in order:
        table.commit([messages[number]])
        assert [row["a"] for row in _found(table)] == [number]
    _check_numbers(table)
    last = table.snapshots.latest()
    assert last is not None
    again = table.commit([messages[order[-1]]])
    assert again is not None
    assert again.id == last.id  # its files were written again, and it is still known what they are
    assert not list(Path(table.path).rglob("*.tmp"))


def _does_not_land(table: pp.Table, message: CommitMessage) -> None:
    unknown = CommitOutcomeUnknownError("the storage did not say")
    with mock.patch.object(FileSystemPublisher, "publish", side_effect=unknown), pytest.raises(type(unknown)):
        table.commit([message])


def test_a_message_whose_files_were_moved_can_be_committed_again(tmp_path: Path) -> None:
    """The first commit of it moved numbers and did not land; what the message says of its files is old then."""
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    first, second, third = (_message(table, [{**row, "a": number}], None) for number in range(3))
    table.commit([first])
    for _ in range(2):
        _does_not_land(table, third)
    table.commit([second])
    table.commit([third])
    assert [row["a"] for row in _found(table)] == [2]
    _check_numbers(table)


def test_moved_files_are_known_where_their_numbers_are_free_again(tmp_path: Path) -> None:
    """An overwrite took away what they were moved for, so that nothing moves them once more."""
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    first, second = (_message(table, [{**row, "a": number}], None) for number in range(2))
    table.commit([first])
    _does_not_land(table, second)
    table.overwrite(_data([{**row, "p": 0, "a": 7}]), options=_OP)
    table.commit([second])
    assert [row["a"] for row in _found(table)] == [7, 1]
    assert _numbers(table)  # which are those that manifests tell


def test_messages_of_writers_that_did_not_say_which_task_they_are(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "b": None, "s": None, "l": None}
    messages = [_message(table, [{**row, "k": k, "a": a} for k in "abc"], None) for a in range(3)]
    table.commit(messages)
    assert [row["a"] for row in _found(table)] == [2, 2, 2]
    _check_numbers(table)


def test_what_is_moved_has_its_changelog_moved(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"changelog-producer": "input"})
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    first, second = (_message(table, [{**row, "a": a}, {**row, "a": a + 1, KIND: 2}], None) for a in (1, 5))
    table.commit([first])
    table.commit([second])
    reader, latest = ManifestReader(table._store), table.snapshots.latest()
    assert latest is not None
    assert latest.changelog_record_count == 2
    (logged,) = reader.added(reader.changelog(latest)).to_pylist()
    path = next(Path(table.path).rglob(logged["file_name"]))
    found = pq.read_table(path, partitioning=None).select([SEQ, KIND, "a"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(2, 0, 5), (3, 2, 6)]
    assert (logged["min_sequence_number"], logged["max_sequence_number"]) == (2, 3)
    assert logged["file_size"] == path.stat().st_size


def test_files_of_an_older_schema_are_moved(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    messages = [_message(table, [{**row, "a": a}], None) for a in (1, 2)]
    table.alter(add_columns={"c": "STRING"}, rename_columns={"b": "bb"})
    for message in messages:
        table.commit([message])
    assert [(row["a"], row["bb"], row["c"]) for row in _found(table)] == [(2, None, None)]
    _check_numbers(table)


def test_a_compaction_of_rows_whose_numbers_were_moved_is_dropped(tmp_path: Path) -> None:
    """It holds the old numbers: older versions that another commit wrote meanwhile would win over its rows."""
    table = _table(tmp_path / "t")
    row = {KIND: 0, "p": 1, "k": "x", "b": None, "s": None, "l": None}
    message = _message(table, [{**row, "a": 1}], None)
    (bucket,) = message.buckets
    (compacted,) = _message(table, [{**row, "a": 1}], None).buckets[0].files
    increment = CompactIncrement(bucket.files, (replace(compacted, level=5),))
    message = CommitMessage((replace(bucket, compact=increment),))
    table.append(pa.table({"p": pa.array([1, 1], pa.int32()), "k": ["x", "x"], "a": [8, 9]}))
    for _ in range(2):
        table.commit([message])
        assert [snapshot.commit_kind.value for snapshot in table.snapshots.list()] == ["APPEND", "APPEND"]
        assert [row["a"] for row in _found(table)] == [1]


def test_runs_that_are_spilled_become_one_sorted_file(tmp_path: Path) -> None:
    """More of them than are merged at once, and a key with a version in each row of some."""
    table = _table(tmp_path / "t", **{"write-buffer-size": "64 kb"})
    context, threads, rng = table.write_context(), WriterThreads(), np.random.default_rng(3)
    partition = encode_row([1], [AtomicType(Kind.INT)])
    bucket = BucketFiles(partition, 0, 2, f"{table.path}/p=1/bucket-0", ())
    writer = KeyBucketWriter(context, bucket, threads, SequenceNumbers(context))
    expected: dict[str, int] = {}
    for run in range(60):
        keys = ["hot"] * 100 if run % 40 == 7 else [f"k{n}" for n in rng.integers(0, 4000, 100)]
        values = {"p": [1] * 100, "k": keys, "a": range(run * 100, run * 100 + 100), KIND: [0] * 100}
        types = {**_COLUMNS, KIND: pa.int8()}
        columns = {name: pa.array(values.get(name, [None] * 100), type_) for name, type_ in types.items()}
        writer.write(pa.RecordBatch.from_pydict(columns))
        assert writer.spill()
        assert writer.held_bytes == 0
        assert writer.spilled_bytes > 0
        expected.update(zip(keys, values["a"], strict=True))
    written = writer.close()
    threads.shutdown()
    (file,) = written.files
    found = pq.read_table(f"{bucket.directory}/{file.file_name}", partitioning=None)
    assert found["k"].to_pylist() == sorted(expected)
    assert dict(zip(found["k"].to_pylist(), found["a"].to_pylist(), strict=True)) == expected
    assert writer.spilled_bytes == 0


def test_buckets_are_written_side_by_side_and_none_stays_where_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, ["k"], options={"bucket": "5"})
    rows = pa.record_batch([np.arange(10_000)[::-1], np.arange(10_000)], schema)
    close, threads, both = KeyBucketWriter.close, set[int](), threading.Barrier(2, timeout=60)

    def first_two_wait(writer: KeyBucketWriter) -> BucketFiles:
        threads.add(threading.get_ident())
        if (bucket := writer._bucket.bucket) < 2:
            both.wait()
        done = close(writer)
        if fails and bucket == 1:
            raise OSError("no room")
        return done

    monkeypatch.setattr(KeyBucketWriter, "close", first_two_wait)
    fails = True
    with pytest.raises(OSError, match="no room"):
        table.append([rows])
    assert not list((tmp_path / "t").rglob("*.parquet"))
    fails = False
    table.append([rows])
    assert len(threads) >= 2
    assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(range(10_000))


def test_a_changelog_has_the_rows_as_they_were_given(tmp_path: Path) -> None:
    options = {"changelog-producer": "input", "bucket": "1", "changelog-file.format": "parquet"}
    table = _table(tmp_path / "t", **options)
    given = [("-D", "b", 1), ("+I", "a", 2), ("+U", "b", 3), ("-U", "a", 4), ("+I", "c", 5)]
    rows = pa.table(
        {"p": pa.array([7] * 5, pa.int32()), **{n: [g[i] for g in given] for i, n in enumerate(["op", "k", "a"])}}
    )
    table.append(rows, options=_OP)
    (path,) = Path(table.path).rglob("changelog-*")
    logged = pq.read_table(path, partitioning=None)
    assert logged.schema.names == ["_KEY_k", SEQ, KIND, *_COLUMNS]
    found = [(_KINDS[row[KIND]], row["k"], row["a"]) for row in logged.to_pylist()]
    assert found == [("+I", "a", 2), ("-U", "a", 4), ("-D", "b", 1), ("+U", "b", 3), ("+I", "c", 5)]
    (data,) = Path(table.path).rglob("data-*")
    merged_rows = pq.read_table(data, partitioning=None).to_pylist()
    assert [(_KINDS[row[KIND]], row["k"], row["a"]) for row in merged_rows] == [
        ("-U", "a", 4), ("+U", "b", 3), ("+I", "c", 5)
    ]  # fmt: skip


def test_an_overwrite_replaces_rows_and_has_no_changelog(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"changelog-producer": "input"})
    table.append(pa.table({"p": pa.array([1, 2], pa.int32()), "k": ["x", "x"], "a": [1, 2]}))
    snapshot = table.overwrite(pa.table({"p": pa.array([1, 1], pa.int32()), "k": ["y", "y"], "a": [3, 4]}), {"p": 1})
    assert snapshot is not None
    assert snapshot.changelog_manifest_list is None
    assert len(list(Path(table.path).rglob("changelog-*"))) == 2  # those of the append
    assert [(row["p"], row["k"], row["a"]) for row in _found(table)] == [(1, "y", 4), (2, "x", 2)]


def test_row_kinds_in_a_column_of_the_table_stay_there(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", **{"rowkind.field": "b"})
    rows = {"p": pa.array([1, 1, 1], pa.int32()), "k": ["x", "y", "x"], "a": [1, 2, 3]}
    table.append(pa.table({**rows, "b": ["+I", "+u", "-D"]}))
    assert [(row["k"], row["b"]) for row in _found(table)] == [("y", "+u")]
    with pytest.raises(SchemaError, match="NULL"):
        table.append(pa.table({**rows, "b": ["+I", None, "-D"]}))
    with pytest.raises(OptionError, match="rowkind"):
        table.append(pa.table({**rows, "op": ["+I"] * 3}), options=_OP)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({"k": ["x", None]}, {}, "'k' is NOT NULL"),
        ({"p": pa.array([None, 1], pa.int32())}, {}, "'p' is NOT NULL"),
        ({"op": ["+I", "+X"]}, _OP, "is no row kind"),
        ({"op": ["+I", None]}, _OP, "can't be NULL"),
        ({"op": [1, 2]}, _OP, "row kinds are texts"),
        ({}, _OP, "is not one column"),
        ({"op": ["+I", "+I"]}, {}, "no column 'op'"),
    ],
)
def test_bad_rows_leave_the_table_as_it_was(
    tmp_path: Path, data: dict[str, Any], options: dict[str, str], message: str
) -> None:
    table = _table(tmp_path / "t")
    good = {"p": pa.array([1, 1], pa.int32()), "k": ["x", "y"], "a": [1, 2]}
    table.append(pa.table(good))
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(SchemaError, match=message):
        table.append(pa.table({**good, **data}), options=options)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_column_of_the_table_holds_no_row_kinds_of_a_write(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    rows = pa.table({"p": pa.array([1], pa.int32()), "k": ["x"], "b": ["+I"]})
    with pytest.raises(OptionError, match="would not be stored"):
        table.append(rows, options={"rowkind-column": "b"})
    plain = pp.Table.create(tmp_path / "plain", _SCHEMA)
    with pytest.raises(OptionError, match="primary key"):
        plain.append(rows, options=_OP)


@pytest.mark.parametrize("kinds", [["+I", "-D"], ["-D"], ["-U"]])
@pytest.mark.parametrize("engine", ["partial-update", "first-row"])
def test_an_engine_that_takes_no_deletes_refuses_them(tmp_path: Path, engine: str, kinds: list[str]) -> None:
    table = _table(tmp_path / "t", **{"merge-engine": engine})
    rows = {"p": pa.array([1] * len(kinds), pa.int32()), "k": ["x"] * len(kinds), "op": kinds}
    with pytest.raises(UnsupportedError, match=f"{engine} takes no deletes"):  # reads would fail with them in the table
        table.append(pa.table(rows), options=_OP)
    assert not table.snapshots.list()
    assert not list(Path(table.path).rglob("*.parquet"))
    table.append(pa.table(rows), options={**_OP, "ignore-delete": "true"})
    table.compact(full=True)  # first rows are seen after it
    assert table.count() == kinds.count("+I")


def test_numbers_of_a_task_go_on_where_no_other_task_has_any(tmp_path: Path) -> None:
    context = _table(tmp_path / "t").write_context()
    block, most = 1 << 28, 1 << 20
    firsts = [SequenceNumbers(context, task).first(PartitionBucket(EMPTY_ROW, 0)) for task in (0, 1, most - 1)]
    assert firsts == [0, block, (most - 1) * block]
    found = SequenceNumbers(context, 1).of_rows(block, block - 2, 4).tolist()
    assert found == [2 * block - 2, 2 * block - 1, (most + 1) * block, (most + 1) * block + 1]
    assert SequenceNumbers(context).of_rows(5, block - 1, 3).tolist() == [block + 4, block + 5, block + 6]
    with pytest.raises(OptionError, match="index of a task"):
        SequenceNumbers(context, most)


_APPENDER = """
import sys
import pyarrow as pa
import paimon_pyds as pp

table = pp.Table.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[2])):
    p = pa.array([0, 0, 0], pa.int32())
    table.append(pa.table({"p": p, "k": ["all", sys.argv[3], "all"], "l": [1, i, 1], "a": [i, i, i]}))
"""


def test_processes_that_write_to_one_bucket_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each row adds to a sum; the newest version of a key is of the newest snapshot."""
    aggregates = {"merge-engine": "aggregation", "fields.l.aggregate-function": "sum", "commit.max-retries": "100"}
    table, each = _table(tmp_path / "t", bucket="1", **aggregates), 5
    command = [sys.executable, "-c", _APPENDER, table.path, str(each)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen([*command, f"w{n}"], text=True, **pipes) for n in range(4)]  # type: ignore[call-overload]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        _, errors = worker.communicate()
        assert worker.returncode == 0, errors
    found = {row["k"]: (row["l"], row["a"]) for row in _found(table)}
    assert found.pop("all")[0] == 2 * 4 * each
    assert found == {f"w{n}": (sum(range(each)), each - 1) for n in range(4)}
    _check_numbers(table)


def test_rows_that_are_gathered_by_bucket_count_against_the_buffer(tmp_path: Path) -> None:
    """However many are written: of a bucket too few come at once to be worth a visit."""
    schema = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    options = {"bucket": "64", "write-buffer-size": "16 mb", "write-only": "true"}
    table = pp.Table.create(str(tmp_path / "t"), schema, primary_key=["k"], options=options)
    before, most = pa.total_allocated_bytes(), 0
    with TableWriter(table.write_context()) as writer:
        for start in range(0, 3_000_000, 100_000):
            numbers = pa.array(np.arange(start, start + 100_000))
            writer.write(pa.record_batch([numbers] * 4, schema=schema))
            most = max(most, pa.total_allocated_bytes() - before)
        writer.abort()
    assert most < 48 << 20
