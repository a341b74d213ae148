"""How far operations are: phases and counts as a function receives them, and what terminals and notebooks show."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from tqdm import tqdm

import paimon_pyds as pp
from paimon_pyds import scan as table_scan
from paimon_pyds.base import progress, progress_view
from paimon_pyds.base.progress import Operation, ProgressEvent, followed, phase, shown
from paimon_pyds.base.progress_view import line_of
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.engine.execution.executor import LocalExecutor
from paimon_pyds.errors import CommitError, OptionError
from support.copies import copied
from support.progress import Seen, once

_BLOOM = "file-index.bloom-filter.columns"
_SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])


def _rows(start: int, count: int = 100) -> pa.Table:
    return pa.table({"id": range(start, start + count), "s": ["x", "y"] * (count // 2)}, schema=_SCHEMA)


def _table(path: Path, **options: str) -> pp.Table:
    """Three files of 100 rows."""
    table = pp.Table.create(path, _SCHEMA, options={"file-index.bitmap.columns": "s", **options})
    for start in (0, 100, 200):
        table.append(_rows(start))
    return table


@copied("t")
def table(path: Path) -> pp.Table:
    return _table(path)


_OPERATIONS: dict[str, tuple[Callable[[pp.Table, Seen], object], list[str], dict[str, int]]] = {
    "append": (
        lambda t, seen: t.append(_rows(300), progress=seen),
        ["writing", "encoding", "committing"],
        {"rows": 100},
    ),
    "overwrite": (
        lambda t, seen: t.overwrite(_rows(0), progress=seen),
        ["writing", "encoding", "committing"],
        {"rows": 100},
    ),
    "delete": (
        lambda t, seen: t.delete("id % 100 = 1", progress=seen),
        ["planning", "reading", "rewriting", "committing"],
        {"files": 3, "rows": 300, "manifests": 3},
    ),
    "update": (
        lambda t, seen: t.update({"s": "'z'"}, "id % 100 = 1", progress=seen),
        ["planning", "reading", "rewriting", "committing"],
        {"files": 3, "rows": 300},
    ),
    "merge": (
        lambda t, seen: t.merge(_rows(299), "id", when_matched="update", when_not_matched="insert", progress=seen),
        ["planning", "merging", "writing", "committing"],
        {"files": 1, "rows": 100},
    ),
    "compact": (
        lambda t, seen: t.compact(full=True, progress=seen),
        ["planning", "rewriting", "committing"],
        {"files": 3, "rows": 300},
    ),
    "sort": (
        lambda t, seen: t.compact(order_by="s", progress=seen),
        ["planning", "rewriting", "committing"],
        {"files": 3, "rows": 300},
    ),
    "rewrite indexes": (
        lambda t, seen: t.alter({_BLOOM: "id"}) and t.index.build(progress=seen),
        ["planning", "indexing", "committing"],
        {"files": 3, "rows": 300},
    ),
    "verify indexes": (
        lambda t, seen: t.index.verify(progress=seen),
        ["planning", "verifying"],
        {"files": 3, "rows": 300},
    ),
    "expire": (
        lambda t, seen: t.snapshots.expire(retain_max=1, retain_min=1, progress=seen),
        ["removing"],
        {"files": 4},
    ),
    "orphans": (
        lambda t, seen: t.maintenance.remove_orphan_files("0 ms", progress=seen, dry_run=True),
        ["listing", "reading manifests"],
        {"tasks": 6},
    ),
    "verify": (
        lambda t, seen: t.maintenance.verify(progress=seen),
        ["reading manifests", "checking files", "listing", "reading manifests"],
        {"tasks": 6},
    ),
    "missing files": (
        lambda t, seen: t.maintenance.remove_unexisting_files(progress=seen, dry_run=True),
        ["planning"],
        {"manifests": 3},
    ),
    "read": (lambda t, _: t.scan().to_arrow(), ["planning", "reading"], {"files": 3, "rows": 300}),
    "head": (lambda t, _: t.head(3), ["planning", "reading"], {}),
    "top_n": (lambda t, _: t.top_n("id desc, 3"), ["planning", "reading"], {}),
    "count": (
        lambda t, _: t.count("id % 7 = 1 AND s <> 'a'"),
        ["planning", "asking indexes", "reading"],
        {"files": 3, "rows": 300},
    ),
    "iteration": (lambda t, _: sum(1 for _ in t), ["planning", "reading"], {"files": 3, "rows": 300}),
    "to_batches": (lambda t, _: list(t.scan().to_batches()), ["planning", "reading"], {"files": 3, "rows": 300}),
    "to_reader": (lambda t, _: t.scan().to_reader().read_all(), ["planning", "reading"], {"files": 3, "rows": 300}),
    "no more batches": (lambda t, _: next(iter(t)), ["planning", "reading"], {}),
    "analyze a scan": (
        lambda t, _: t.explain("id % 7 = 1", analyze=True),
        ["planning", "reading"],
        {"files": 3, "rows": 300},
    ),
    "layout": (lambda t, seen: t.index.layout(progress=seen), ["planning"], {"manifests": 3}),
    "advise": (lambda t, seen: t.index.advise(["s = 'x'"], progress=seen), ["planning", "sampling"], {"files": 3}),
    "advise a partition": (
        lambda t, seen: t.index.advise_partition(progress=seen),
        ["planning", "sampling"],
        {"files": 3},
    ),
    "index cost": (lambda t, seen: t.index.cost(progress=seen), ["planning", "sampling"], {"files": 3}),
    "max": (lambda t, _: t.max("s", "id % 7 = 1"), ["planning", "asking indexes", "reading"], {"files": 3}),
}


@pytest.fixture
def seen() -> Iterator[Seen]:
    """Receives all operations that name no other receiver."""
    found = Seen()
    pp.show_progress(found)
    yield found
    pp.show_progress(None)


def test_explain_tells_where_planning_may_take_long(
    table: pp.Table, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.explain("s = 'x'")
    assert seen.phases == []
    monkeypatch.setattr(table_scan, "SOON_ROWS", 300)
    table.explain("s = 'x'")
    assert seen.phases == ["planning", "finished"]


@pytest.mark.parametrize("name", _OPERATIONS)
def test_every_phase_is_told_and_counts_what_there_is(table: pp.Table, seen: Seen, name: str) -> None:
    run, phases, totals = _OPERATIONS[name]
    run(table, seen)
    assert seen.phases == [*phases, "finished"]
    found: dict[str, int] = {}
    for event in seen.events:
        assert all(done <= event.total.get(unit, done) for unit, done in event.done.items()), event
        found = {unit: max(found.get(unit, 0), event.done.get(unit, 0)) for unit in {*found, *event.done}}
    assert {unit: found[unit] for unit in totals} == totals
    times = [event.seconds for event in seen.events]
    assert times == sorted(times)


def _kept(table: pp.Table) -> None:
    """A tag and a branch keep what has expired."""
    table.tags.create("x", 1)
    table.branches.create("b", "x")
    table.truncate()
    table.snapshots.expire(retain_max=1)


def _partitioned(table: pp.Table) -> pp.Table:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    other = pp.Table.create(f"{table.path}_days", schema, partition_by=["day"])
    other.append(pa.table({"day": ["2020-01-01", "2020-01-02"], "id": [1, 2]}, schema))
    return other


def _dropped(table: pp.Table, seen: Seen) -> object:
    return _partitioned(table).maintenance.drop_partitions({"day": "2020-01-01"}, progress=seen)


_EXPIRY = {"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
_SMALL_MANIFESTS = {"manifest.target-file-size": "16 mb"}
_MAINTENANCE: dict[str, tuple[Callable[[pp.Table, Seen], object], list[str]]] = {
    "delete tag": (lambda t, seen: (_kept(t), t.branches.delete("b"), t.tags.delete("x", progress=seen)), ["removing"]),
    "expire tags": (lambda t, seen: (_kept(t), t.tags.expire(2**50, progress=seen)), ["removing"]),
    "delete branch": (lambda t, seen: (_kept(t), t.branches.delete("b", progress=seen)), ["removing"]),
    "fast forward": (lambda t, seen: (_kept(t), t.branches.fast_forward("b", progress=seen)), ["removing"]),
    "roll back": (lambda t, seen: t.snapshots.rollback(1, progress=seen), ["removing"]),
    "truncate": (lambda t, seen: t.truncate(progress=seen), ["committing"]),
    "drop partitions": (lambda t, seen: _dropped(t, seen), ["committing"]),
    "expire partitions": (lambda t, seen: _partitioned(t).maintenance.expire_partitions(options=_EXPIRY, progress=seen),
                          ["committing"]),
    "mark partitions": (lambda t, seen: _partitioned(t).maintenance.mark_partitions_done(
        {"day": "2020-01-01"}, progress=seen), ["marking"]),
    "compact manifests": (lambda t, seen: t.maintenance.compact_manifests(options=_SMALL_MANIFESTS, progress=seen),
                          ["committing"]),
    "purge": (lambda t, seen: t.maintenance.purge("t", progress=seen), ["removing", "committing", "listing"]),
    "diff": (lambda t, seen: t.snapshots.diff(1).summary(progress=seen), []),
    "create tag": (lambda t, seen: (_kept(t), t.branches.delete("b"), t.tags.create("x", replace=True, progress=seen)),
                   ["removing"]),
    "create tags": (lambda t, seen: t.tags.create_due(options={"tag.automatic-creation": "process-time"},
                                                      progress=seen), []),
}  # fmt: skip


@pytest.mark.parametrize("name", _MAINTENANCE)
def test_maintenance_shows_where_it_is(table: pp.Table, name: str) -> None:
    run, phases = _MAINTENANCE[name]
    seen = Seen()
    run(table, seen)
    assert {event.operation for event in seen.events} == {name}
    assert seen.phases[-1] == "finished"
    assert set(phases) <= set(seen.phases), seen.phases


def test_tables_with_a_key(tmp_path: Path, seen: Seen) -> None:
    table = pp.Table.create(tmp_path / "t", _SCHEMA, primary_key=["id"], options={"bucket": "2"})
    for _ in range(3):
        table.append(_rows(0))
    seen.events.clear()
    table.delete("id = 3")
    assert seen.phases[:3] == ["planning", "rewriting", "committing"]  # then a compaction is looked for
    seen.events.clear()
    table.compact(full=True)
    assert seen.phases == ["planning", "rewriting", "committing", "finished"]
    seen.events.clear()
    table.maintenance.rescale(3)
    assert seen.phases == ["planning", "rewriting", "committing", "planning", "finished"]
    assert seen.done("rewriting", "files") == 2
    seen.events.clear()
    table.lookup([{"id": 7}])
    assert seen.phases[-1] == "finished"


def test_rows_that_come_from_a_scan_are_counted_where_they_are_read_and_written(
    table: pp.Table, tmp_path: Path
) -> None:
    seen, other = Seen(), pp.Table.create(tmp_path / "other", _SCHEMA)
    other.append(table.scan(), progress=seen)
    assert (seen.done("reading", "files"), seen.done("reading")) == (3, 300)
    assert max(e.done.get("rows", 0) for e in seen.events if e.phase == "writing") == 300
    assert seen.phases[-3:] == ["encoding", "committing", "finished"]


def test_tasks_on_threads_tell_what_they_sort_and_write(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([*_SCHEMA, ("p", pa.int64())]), partition_by=["p"])
    for _ in range(2):
        table.append(pa.table({"id": range(100), "s": ["x"] * 100, "p": [0, 1] * 50}))
    seen = Seen()
    summary = table.compact(order_by="id", executor=LocalExecutor(2), progress=seen)
    last = [e for e in seen.events if e.phase == "rewriting"][-1]
    assert (last.done["sorted"], last.done["written"], last.done["files"]) == (200, summary.bytes_after, 4)


_OF_ONE_TASK: dict[str, Callable[[pp.Table, Seen], object]] = {
    "sort": lambda t, seen: t.compact(order_by="s, id", progress=seen),
    "curve": lambda t, seen: t.compact(order_by="s, id", order="zorder", progress=seen),
    "compact": lambda t, seen: t.compact(full=True, progress=seen),
    "delete": lambda t, seen: t.delete("id % 100 = 1", progress=seen),
    "update": lambda t, seen: t.update({"s": "'z'"}, "id % 100 = 1", progress=seen),
    "merge": lambda t, seen: t.merge(_rows(50, 200), "id", when_matched="update", progress=seen),
}


@pytest.mark.parametrize("name", [*_OF_ONE_TASK, "key"])
def test_a_task_of_several_files_tells_how_far_it_is(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVENT_INTERVAL_SECONDS", 0.0)
    key = {"primary_key": ["id"], "options": {"bucket": "1", "write-only": "true"}} if name == "key" else {}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, **key)  # type: ignore[arg-type]
    for start in (0, 100, 200):
        table.append(_rows(start))
    seen = Seen()
    _OF_ONE_TASK.get(name, _OF_ONE_TASK["compact"])(table, seen)
    phase_name = "merging" if name == "merge" else "rewriting"
    events = [e for e in seen.events if e.phase == phase_name]
    for unit in ("rows", "bytes"):
        counts = [event.done.get(unit, 0) for event in events]
        total = events[0].total[unit]
        assert counts == sorted(counts)
        assert any(0 < n < total for n in counts), counts
        assert counts[-1] == total
    assert {event.done.get("files", 0) for event in events} >= ({0, 3} if name == "curve" else {0, 1, 3})


@pytest.fixture(scope="module", params=[[], ["id"]], ids=["append", "key"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """400,000 rows; where they have a key, in two versions."""
    # A row group is decoded at once where all rows are held: it is a step.
    options = {"file.block-size": "512 kb", **({"bucket": "1", "write-only": "true"} if request.param else {})}
    made = pp.Table.create(tmp_path_factory.mktemp("large") / "t", _SCHEMA, primary_key=request.param, options=options)
    for _ in range(2 if request.param else 1):
        made.append(_rows(0, 400_000))
    return made


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.count("id % 1000 = 7"),
        lambda table: table.scan("id % 1000 = 7", columns=["s"]).to_arrow(),
        lambda table: table.scan("id % 1000 < 700").to_arrow(),
        lambda table: table.scan().to_arrow(),
        lambda table: table.max("s", "id % 1000 = 7"),
    ],
    ids=["count", "other columns", "many rows", "all", "max"],
)
def test_rows_that_a_filter_drops_are_work_that_is_done(
    large: pp.Table, seen: Seen, monkeypatch: pytest.MonkeyPatch, read: Callable[[pp.Table], object]
) -> None:
    """The time that is left follows from the share that is done: else few survivors would promise hours."""
    monkeypatch.setattr(progress, "EVENT_INTERVAL_SECONDS", 0.0)
    read(large)
    events = [event for event in seen.events if event.phase == "reading"]
    shares = [event.done.get("bytes", 0) / event.total["bytes"] for event in events]
    assert shares == sorted(shares)
    assert max(after - before for before, after in pairwise(shares)) < 0.25


@pytest.mark.parametrize("key", [[], ["id"]])
def test_what_is_written_and_sorted_never_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: list[str]
) -> None:
    monkeypatch.setattr(progress, "EVENT_INTERVAL_SECONDS", 0.0)
    text = "takes far less than is guessed" * 5
    rows = pa.table({"id": range(10_000), "s": [text] * 10_000}, _SCHEMA)
    options = {"target-file-size": "100 kb", "write-buffer-size": "1 mb", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, primary_key=key, options=options)
    for _ in range(2):
        table.append(rows, progress=(seen := Seen()))
        for unit, least in (("written", 100), ("sorted", 10_000 if key else 0)):
            counts = [event.done[unit] for event in seen.events if unit in event.done]
            assert counts == sorted(counts)
            assert max(counts, default=0) >= least


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_rows_that_make_a_table_are_counted_against_their_number(tmp_path: Path, seen: Seen, library: str) -> None:
    module, rows = pytest.importorskip(library), _rows(0)
    data = module.from_arrow(rows) if library == "polars" else rows.to_pandas() if library == "pandas" else rows
    table = pp.Table.create(tmp_path / "t", data)
    assert seen.done("writing") == 100
    assert table.count() == 100


def test_encoding_tells_how_many_rows_there_are_to_sort(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-buffer-size": "100 kb", "write-only": "true"}
    table = pp.Table.create(tmp_path / "t", _SCHEMA, primary_key=["id"], options=options)
    table.append(_rows(0, 20_000), progress=(seen := Seen()))
    assert seen.done("encoding", "sorted") == 20_000


def test_an_operation_that_fails_says_so(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise CommitError("no")

    monkeypatch.setattr(FileSystemPublisher, "publish", fail)
    seen = Seen()
    with pytest.raises(CommitError):
        table.append(_rows(0), progress=seen)
    assert seen.phases == ["writing", "encoding", "committing", "failed"]


def test_a_receiver_that_fails_harms_nothing(table: pp.Table, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[ProgressEvent] = []

    def fail(event: ProgressEvent) -> None:
        calls.append(event)
        raise ValueError("broken")

    table.delete("id = 1", progress=fail)
    assert (table.count(), len(calls), len(caplog.records)) == (299, 1, 1)
    assert "broken" in caplog.text


def test_what_a_receiver_runs_is_no_part_of_the_operation(table: pp.Table) -> None:
    seen = Seen()

    def receive(event: ProgressEvent) -> None:
        seen(event)
        act(event)

    act = once("reading", lambda: pp.Table.open(table.path).compact(full=True))
    table.delete("id = 1", progress=receive)
    assert {event.operation for event in seen.events} == {"delete"}
    assert table.count() == 299


def test_where_nobody_looks_nothing_is_counted(table: pp.Table) -> None:
    for show in (None, False):
        with shown("read", show):
            step = phase("reading", [])
            assert not step.is_seen
            step.advance(rows=1)
            assert step.done == {}
    with pytest.raises(OptionError, match="progress is True, False, None or a function, not str"):
        table.append(_rows(0), progress="yes")  # type: ignore[arg-type]
    assert table.count() == 300


# ------------------------------------------------------------------------------------------------------------ terminals


class Screen:
    """A terminal of this process, of some columns."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream = open(slave, "w", encoding="utf-8")  # noqa: SIM115 - closed by close
        self.text = ""

    def read_until(self, text: str) -> None:
        """What was written, until a text is there."""
        while text not in self.text:
            assert select.select([self._master], [], [], 60)[0], self.text
            self.text += os.read(self._master, 65_536).decode()

    def read(self) -> str:
        """All that was written so far."""
        while select.select([self._master], [], [], 0.5)[0]:  # a terminal may pass texts on late
            self.text += os.read(self._master, 65_536).decode()
        return self.text

    @property
    def is_clean(self) -> bool:
        """Whether the cursor is at the begin of a line without text."""
        *_, blanks, rest = self.read().split("\r")
        return not blanks.strip() and not rest

    def hang_up(self) -> None:
        os.close(self._master)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal as standard error, on which lines are drawn at once."""
    found = Screen()
    # pytest puts its own standard error into sys between a fixture and its test
    monkeypatch.setattr(progress, "sys", types.SimpleNamespace(stderr=found.stream, modules=sys.modules))
    monkeypatch.setattr(progress_view, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress_view.Bar, "interval", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv(progress.VARIABLE, raising=False)
    yield found
    try:
        found.stream.close()
    except OSError:
        pass  # hung up


def _watched(screen: Screen, text: str) -> Iterator[pa.Table]:
    """Rows, the second half of which comes when a text was drawn."""
    yield _rows(0)
    screen.read_until(text)
    yield _rows(100)


def test_a_terminal_shows_a_line_and_is_clean_afterwards(table: pp.Table, screen: Screen) -> None:
    table.append(_watched(screen, "writing 100 rows"))
    assert screen.is_clean
    assert "\n" not in screen.text
    assert all(len(line) < 90 for line in screen.text.split("\r"))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_a_clean_terminal(table: pp.Table, screen: Screen, error: type[BaseException]) -> None:
    def rows() -> Iterator[pa.Table]:
        yield from _watched(screen, "writing 100 rows")
        raise error

    with pytest.raises(error):
        table.append(rows())
    assert screen.is_clean
    assert table.count() == 300


def test_short_operations_draw_nothing(table: pp.Table, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_view, "DELAY_SECONDS", 60.0)
    table.append(_rows(0))
    assert screen.read() == ""


def test_who_wants_none_sees_none(table: pp.Table, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(_rows(0), progress=False)
    pp.show_progress(False)
    table.append(_rows(0))
    pp.show_progress(None)
    monkeypatch.setenv(progress.VARIABLE, "off")
    table.append(_rows(0))
    monkeypatch.delenv(progress.VARIABLE)
    monkeypatch.setenv("TERM", "dumb")
    table.append(_rows(0))
    assert screen.read() == ""


def test_a_terminal_that_is_gone_harms_nothing(
    table: pp.Table, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> Iterator[pa.Table]:
        yield from _watched(screen, "writing 100 rows")
        screen.hang_up()

    table.append(rows())
    monkeypatch.setattr(progress.sys, "stderr", None)
    table.append(_rows(0))
    assert table.count() == 600


def test_where_no_thread_can_be_started_nothing_is_drawn(
    table: pp.Table, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(progress_view.Drawer, "__init__", refuse)
    table.append(_rows(0))
    assert (table.count(), screen.read()) == (400, "")


def test_one_operation_is_drawn_at_a_time(table: pp.Table, tmp_path: Path, screen: Screen) -> None:
    other = pp.Table.create(tmp_path / "other", _SCHEMA)

    def rows() -> Iterator[pa.Table]:
        yield from _watched(screen, "writing 100 rows")
        thread = Thread(target=lambda: other.append(_rows(0)))  # the user's own
        thread.start()
        thread.join()

    table.append(rows())
    assert (table.count(), other.count()) == (500, 100)
    assert screen.is_clean


def test_a_loop_over_batches_is_drawn_only_while_it_waits(table: pp.Table, tmp_path: Path, screen: Screen) -> None:
    other = pp.Table.create(tmp_path / "other", _SCHEMA)
    drawn = []
    for batch in followed("read", _slow(table, screen)):
        before = len(screen.read())
        assert progress.current.get() is None
        other.append(batch)  # an operation of its own
        drawn.append(screen.read()[before:])
    assert other.count() == 300
    assert len(drawn) > 1
    assert "read: " not in "".join(drawn)
    assert screen.is_clean


def _slow(table: pp.Table, screen: Screen) -> Iterator[pa.RecordBatch]:
    for batch in table.scan().to_batches():
        screen.text = ""
        screen.read_until("read: ")
        yield batch


def test_errors_and_ends_of_a_loop_are_told(table: pp.Table, seen: Seen) -> None:
    with pytest.raises(ZeroDivisionError):
        list(followed("read", (1 // n for n in (1, 0))))
    assert seen.phases == ["failed"]
    for _ in table:
        break
    assert seen.phases == ["failed", "planning", "reading", "finished"]


def test_nothing_is_full_before_the_commit_is_done(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[str, float | None]] = []
    publish = FileSystemPublisher.publish

    def look(*arguments: Any) -> bool:
        operation = progress.current.get()
        assert operation is not None
        lines.append(line_of(operation))
        return publish(*arguments)

    monkeypatch.setattr(FileSystemPublisher, "publish", look)
    table.append(_rows(0), progress=Seen())
    table.delete("id = 1", progress=Seen())
    table.compact(full=True, progress=Seen())
    texts = [line.rpartition(", ")[0] for line, _ in lines]
    assert texts == ["append: committing", "delete: committing", "compact: committing"]
    assert [share for _, share in lines] == [None] * 3


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    operation = Operation("delete", None)
    token = progress.current.set(operation)
    try:
        assert line_of(operation) == ("delete: working, 0:00", None)
        with phase("planning"):
            with phase(manifests=1000) as manifests:
                manifests.advance(manifests=310)
                assert line_of(operation) == ("delete: planning, 310 of 1,000 manifests, 0:00", 0.31)
            now = 3700.0
            assert line_of(operation) == ("delete: planning, 1:00:00", None)
        with phase("reading", files=12, bytes=400 << 20, rows=1000) as reading:
            now += 2
            reading.advance(files=3, bytes=100 << 20, rows=100)
            text = "delete: reading 3 of 12 files, 100.0 MiB of 400.0 MiB, 50.0 MiB/s, 0:06 left"
            assert line_of(operation) == (text, 0.25)
            progress.count(sorted=1_200_000, written=1 << 20)
            assert "400.0 MiB, 1,200,000 rows sorted, 1.0 MiB written, 50.0 MiB/s" in line_of(operation)[0]
        with phase("reading", bytes=400 << 20) as reading:
            now += 5
            reading.advance(bytes=64 << 10)  # a footer: the rest does not take ten hours
            assert line_of(operation)[0] == "delete: reading 64.0 KiB of 400.0 MiB, 1:00:07"
            now += 60  # a table so large that a part of it is that little
            assert line_of(operation)[0].endswith("1,008 B/s, 115:32:15 left")
        progress.count(sorted=1_000_000)
        with phase("encoding", sorted=3_200_000):
            assert line_of(operation)[0].startswith("delete: encoding, ")
            now += 2
            progress.count(sorted=200_000)
            assert line_of(operation)[0].startswith(
                "delete: encoding 2,400,000 of 3,200,000 rows sorted, 100,000 rows sorted/s"
            )
    finally:
        progress.current.reset(token)


# -------------------------------------------------------------------------------------------- logs, notebooks, commands


def test_a_pipe_gets_lines_on_request_only(
    table: pp.Table, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_view, "DELAY_SECONDS", 0.0)
    table.append(_rows(0))
    assert capfd.readouterr() == ("", "")
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)

    def rows() -> Iterator[pa.Table]:
        yield _rows(0)
        while not log.getvalue():
            time.sleep(0.01)

    table.append(rows(), progress=True)
    assert log.getvalue().startswith("append: ")
    assert log.getvalue().endswith("\n")
    assert "\r" not in log.getvalue()


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_has_a_bar(table: pp.Table, monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
    """Of tqdm.auto, which decides on widgets; a plain one without a warning where there are none."""
    log, made = io.StringIO(), list[str]()

    class Auto(tqdm):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            made.append("auto")
            super().__init__(*arguments, **settings)

    auto: Any = types.ModuleType("tqdm.auto")
    auto.tqdm = Auto
    module: Any = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(progress_view, "find_spec", lambda name: object() if widgets else None)
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress_view, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress_view.Bar, "interval", 0.01)

    def rows() -> Iterator[pa.Table]:
        yield _rows(0)
        while "writing 100 rows" not in log.getvalue():
            time.sleep(0.01)

    table.append(rows())
    assert made == ["auto"] * widgets
    assert log.getvalue().split("\r")[-1] == ""


def test_a_bar_has_a_share_a_rate_and_the_time_left() -> None:
    log = io.StringIO()
    bar = progress_view.Bar(log)
    bar.draw("delete: planning, 0:00", None)
    bar.draw("delete: reading 3 of 12 files, 50.0 MiB/s, 0:06 left", 0.25)
    assert "\r 25%|##5       | delete: reading 3 of 12 files, 50.0 MiB/s, 0:06 left" in log.getvalue()
    bar.draw("delete: committing, 0:07", None)
    assert log.getvalue().rstrip().endswith("\rdelete: committing, 0:07"), "nothing is full and then silent"
    bar.clear()
    assert log.getvalue().endswith("\r")


def test_bars_are_imported_when_one_is_drawn(table: pp.Table) -> None:
    code = f"""
import sys, paimon_pyds as pp
table = pp.Table.open({table.path!r})
table.append({{"id": [1], "s": ["x"]}}, progress=True)
assert table.count() == 301
assert not [name for name in sys.modules if name.startswith("tqdm")]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


_MAIN = """
import sys, threading
from paimon_pyds.base import progress_view
from paimon_pyds.engine.commit.publisher import FileSystemPublisher
from paimon_pyds.cli.main import main
progress_view.DELAY_SECONDS = 0.0
publish, draw, drawn = FileSystemPublisher.publish, progress_view.Bar.draw, threading.Event()
def telling(view, text, share):
    draw(view, text, share)
    if "committing" in text:
        drawn.set()
def waiting(*arguments):
    if "--no-progress" not in sys.argv:
        drawn.wait(60)
    return publish(*arguments)
progress_view.Bar.draw = telling
FileSystemPublisher.publish = waiting
sys.exit(main(sys.argv[1:]))
"""


def test_commands_draw_on_a_terminal(table: pp.Table) -> None:
    def run(*arguments: str) -> tuple[str, str]:
        screen = Screen()
        command = [sys.executable, "-c", _MAIN, *arguments]
        environment = {**os.environ, "TERM": "xterm"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=screen.stream, env=environment, check=True)
        return done.stdout.decode(), screen.read()

    out, drawn = run("delete", table.path, "--where", "id = 1")
    assert "\rdelete: committing, 0:0" in drawn
    assert drawn.endswith(" \r")
    assert "1 row deleted" in out
    assert run("delete", table.path, "--where", "id = 2", "--no-progress")[1] == ""
