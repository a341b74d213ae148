"""The stream reader under the calls of Spark, without it: each change comes once, in every kind of restart."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from support.effort import FEW, LONG, SEED, sampled
from support.follower_world import KINDS, play
from support.rest_catalog import TOKEN, rest_catalog
from support.stream_engine import Crash, Engine, SparkFollowerWorld

pytest.importorskip("pyspark", reason="needs pyspark")

from paimon_pyds.spark import PaimonDataSource

pytestmark = pytest.mark.smoke
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Spark 4.2 and later."""
WITH_LIMITS = pytest.mark.skipif(not HAS_LIMITS, reason="before Spark 4.2")
VERSIONS = pytest.mark.parametrize("old", [True, pytest.param(False, marks=WITH_LIMITS)], ids=["4.0", "4.2"])


def readers(path: str, **options: Any) -> Callable[[], Any]:
    """Opens readers as Spark does: a source for each query that is loaded, pickled on its way to other processes."""
    given = {"path": path, **{name.replace("_", "-").replace("--", "."): str(v) for name, v in options.items()}}
    source = pickle.loads(pickle.dumps(PaimonDataSource(given)))
    schema = source.schema()
    return lambda: pickle.loads(pickle.dumps(source)).streamReader(schema)


def numbers(*ids: int) -> list[dict[str, int]]:
    return [{"id": n} for n in ids]


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(str(tmp_path / "t"), "id INT")
    made.append(numbers(1, 2))
    return made


@VERSIONS
def test_each_row_of_an_append_table_comes_once(table: pp.Table, old: bool) -> None:
    engine = Engine(readers(table.path), old=old)
    engine.run()
    assert engine.rows() == numbers(1, 2)
    engine.run()
    assert engine.rows() == numbers(1, 2)
    table.append(numbers(3))
    table.compact(full=True)
    table.append(numbers(4))
    engine.run()
    assert sorted(row["id"] for row in engine.rows()) == [1, 2, 3, 4]


@VERSIONS
@pytest.mark.parametrize("crash_at", ["planned", "read", "committed"])
@pytest.mark.parametrize("mode", ["latest-full", "latest"])
def test_a_batch_that_is_repeated_has_the_same_rows(table: pp.Table, old: bool, crash_at: str, mode: str) -> None:
    open_reader = readers(table.path, scan__mode=mode)
    engine = Engine(open_reader, old=old)
    with pytest.raises(Crash):
        engine.run(crash_at=crash_at)
    table.append(numbers(3))
    engine.run(once=True)
    engine.run()
    expected = [3] if mode == "latest" else [1, 2, 3]
    assert sorted(row["id"] for row in engine.rows()) == expected
    with pytest.raises(Crash):
        table.append(numbers(4))
        engine.run(crash_at=crash_at)
    table.append(numbers(5))
    engine.run()
    engine.run()
    assert sorted(row["id"] for row in engine.rows()) == [*expected, 4, 5]


def test_offsets_are_equal_texts_and_have_their_start(table: pp.Table) -> None:
    reader = readers(table.path)()
    first = reader.latestOffset()
    assert json.dumps(reader.latestOffset()) == json.dumps(first)
    assert (first["start"], first["next"], first["first"]) == (1, 2, "full")
    assert reader.partitions(first, first) == []
    [partition] = reader.partitions(reader.initialOffset(), first)
    assert repr(partition) == "ChangesPartition(1 files)"


def test_limits_cut_a_backlog_into_batches(table: pp.Table) -> None:
    for n in range(3, 8):
        table.append(numbers(n))
    for option, batches in (("maxFilesPerTrigger", 6), ("maxRowsPerTrigger", 6), ("maxBytesPerTrigger", 6)):
        for old in {True, not HAS_LIMITS}:
            limit = 2 if option == "maxRowsPerTrigger" else 1
            options = {f"read__stream__{option}": limit, "scan__mode": "from-snapshot", "scan__snapshot-id": 1}
            engine = Engine(readers(table.path, **options), old=old)
            engine.run()
            assert sorted(row["id"] for row in engine.rows()) == [1, 2, 3, 4, 5, 6, 7]
            assert len(engine.offsets) == (4 if limit == 2 else batches)


@VERSIONS
def test_few_rows_wait_for_more_but_not_longer_than_the_delay(
    table: pp.Table, old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paimon_pyds.spark.stream_reader.POLL_SECONDS", 0)
    options = {"read__stream__minRowsPerTrigger": 3, "read__stream__maxTriggerDelayMs": 3_600_000}
    reader = readers(table.path, scan__mode="latest", **options)()
    start = reader.initialOffset()

    def reached() -> int:
        nonlocal start
        start = reader.latestOffset() if old else reader.latestOffset(start, reader.getDefaultReadLimit())
        return int(start["next"])

    assert reached() == 2
    table.append(numbers(3))
    assert reached() == 3, "the first rows wait for no others"
    table.append(numbers(4))
    assert reached() == 3
    table.append(numbers(5, 6))
    assert reached() == 5
    table.append(numbers(7))
    assert reached() == 5
    moved = reader._stream._moved_at
    monkeypatch.setattr("paimon_pyds.engine.stream.limits.time.monotonic", lambda: moved + 3_601)
    assert reached() == 6


@VERSIONS
def test_a_bounded_watermark_ends_the_rows(tmp_path: Path, old: bool) -> None:
    table = pp.Table.create(str(tmp_path / "t"), "id INT")
    with table.stream_writer("job") as writer:
        for number in (1, 2, 3):
            writer.write(numbers(number))
            writer.commit(number, watermark=100 * number)
    options = {"scan__mode": "from-snapshot", "scan__snapshot-id": 1, "scan__bounded__watermark": 200}
    engine = Engine(readers(table.path, **options), old=old)
    for _ in range(2):
        engine.run()
        assert sorted(row["id"] for row in engine.rows()) == [1, 2]


@WITH_LIMITS
def test_available_now_ends_where_the_table_was(table: pp.Table) -> None:
    reader = readers(table.path, read__stream__maxFilesPerTrigger=1)()
    table.append(numbers(3))
    reader.prepareForTriggerAvailableNow()
    table.append(numbers(4))
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    reached = []
    while (end := reader.latestOffset(start, limit)) != start:
        reached.append(end["next"])
        start = end
    assert max(reached) <= 4  # the start was found after the third commit, its state is read whole


def test_reading_all_that_is_there_is_not_limited(table: pp.Table) -> None:
    datasource = pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark 4.2")
    table.append(numbers(3))
    options = {"read__stream__maxFilesPerTrigger": 1, "scan__mode": "from-snapshot", "scan__snapshot-id": 1}
    reader = readers(table.path, **options)()
    assert reader.getDefaultReadLimit() == datasource.ReadMaxFiles(1)
    assert reader.latestOffset(reader.initialOffset(), datasource.ReadAllAvailable())["next"] == 3


def test_changes_of_a_key_before_and_after_a_compaction_are_in_one_partition(tmp_path: Path) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    table = pp.Table.create(str(tmp_path / "t"), "id INT, n INT", primary_key="id", options=options)
    table.append([{"id": 1, "n": 1}])
    engine = Engine(
        readers(table.path, rowkind_column="kind", scan__mode="from-snapshot", scan__snapshot_id=1), old=True
    )
    table.append([{"id": 1, "n": 2}])
    table.compact(full=True)
    table.append([{"id": 1, "n": 3}])
    engine.run()
    assert [row["n"] for row in engine.rows()] == [1, 2, 3]


@pytest.mark.parametrize("kind", sampled(KINDS, 1) if FEW else KINDS)
def test_what_a_query_has_seen_is_the_table(tmp_path: Path, kind: str) -> None:
    for number in range(200 if LONG else 2):
        old = not HAS_LIMITS or number % 2 == 0

        def open_query(options: dict[str, str], old: bool = old) -> Engine:
            return Engine(readers(**options), old=old)

        play(SparkFollowerWorld(tmp_path, kind, SEED + number, open_query))


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_consumer_follows_what_spark_has_committed(table: pp.Table, mode: str) -> None:
    engine = Engine(readers(table.path, consumer_id="job", consumer__mode=mode), old=not HAS_LIMITS)
    engine.run()
    assert table.maintenance.consumers() == {"job.retained": 1}
    table.append(numbers(3))
    table.compact(full=True)
    table.snapshots.expire(retain_max=1, retain_min=1)
    engine.run()
    assert table.system.read("consumers").to_pylist() == [
        {"consumer_id": "job", "next_snapshot_id": 2},
        {"consumer_id": "job.retained", "next_snapshot_id": 1},
    ]
    reader = readers(table.path)()
    reader.commit({"version": 1, "broken": True})
    anew = Engine(readers(table.path, consumer_id="job"), old=not HAS_LIMITS)
    anew.run()
    assert anew.rows() == numbers(3)


def test_a_consumer_does_not_grow_old_in_runs_without_news(table: pp.Table) -> None:
    engine = Engine(readers(table.path, consumer_id="job", consumer__expiration_time="1 d"), old=not HAS_LIMITS)
    engine.run()
    file = Path(table.path, "consumer", "consumer-job.retained")
    os.utime(file, (0, 0))
    engine.run()
    assert file.stat().st_mtime > 0


@VERSIONS
@pytest.mark.parametrize("change", [{"change_types": {"c": "BIGINT"}}, {"drop_columns": ["c"]}])
def test_columns_that_change_between_load_and_start_end_a_stream(tmp_path: Path, old: bool, change: Any) -> None:
    table = pp.Table.create(str(tmp_path / "t"), "id INT, c INT")
    table.append({"id": [1], "c": [5]})
    engine = Engine(readers(table.path), old=old)
    table.alter(**change)
    table.append({"id": [2]} if "drop_columns" in change else {"id": [2], "c": [2**40]})
    with pytest.raises(pp.errors.SchemaError, match="column c"):
        engine.run()


def test_filter_columns_and_kinds(tmp_path: Path) -> None:
    table = pp.Table.create(
        str(tmp_path / "t"), "id INT, n INT, s STRING", primary_key="id", options={"changelog-producer": "input"}
    )
    table.append([{"id": 1, "n": 1, "s": "a"}, {"id": 2, "n": 2, "s": "b"}])
    table.append([{"id": 1, "n": 1, "s": "a", "k": "-D"}, {"id": 3, "n": 3, "s": "c", "k": "+I"}], rowkind_column="k")
    options = {"scan__mode": "from-snapshot", "scan__snapshot-id": 1, "filter": "n <> 2", "columns": "s, id"}
    engine = Engine(readers(table.path, read__changelog="true", **options), old=not HAS_LIMITS)
    engine.run()
    assert engine.rows() == [
        {"s": "a", "id": 1, "rowkind": "+I"},
        {"s": "a", "id": 1, "rowkind": "-D"},
        {"s": "c", "id": 3, "rowkind": "+I"},
    ]
    plain = Engine(readers(table.path, **options), old=not HAS_LIMITS)
    with pytest.raises(pp.errors.PaimonError, match="row of kind -D"):
        plain.run()
    dropped = Engine(readers(table.path, other_row_kinds="drop", **options), old=not HAS_LIMITS)
    dropped.run()
    assert dropped.rows() == [{"s": "a", "id": 1}, {"s": "c", "id": 3}]


def test_tables_of_catalogs_and_branches(tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "rest") as server:
        options = {"metastore": "rest", "uri": server.address, "token": TOKEN}
        catalog = pp.Catalog.open(options)
        catalog.create_database("shop")
        table = catalog.create_table("shop.t", {"id": [1]})
        open_reader = readers("shop.t", **options)
        engine = Engine(open_reader, old=True)
        engine.run()
        table.append(numbers(2))
        engine.run()
        assert sorted(row["id"] for row in engine.rows()) == [1, 2]
        reader = open_reader()
        planned = pickle.dumps((reader, reader.partitions(reader.initialOffset(), json.loads(engine.offsets[-1]))))
        assert TOKEN.encode() not in planned
    plain = pp.Table.create(str(tmp_path / "wh" / "db.db" / "t"), "id INT")
    plain.append(numbers(1))
    plain.branches.create("b")
    on_branch = pp.Table.open(plain.path, "b")
    on_branch.append(numbers(7))
    engine = Engine(readers(plain.path, branch="b"), old=True)
    engine.run()
    assert engine.rows() == numbers(7)
    given = PaimonDataSource({"warehouse": str(tmp_path / "wh"), "table": "db.t"})
    schema = given.schema()
    engine = Engine(lambda: given.streamReader(schema), old=True)
    engine.run()
    assert engine.rows() == numbers(1)


WRONG = [
    ({"read__stream__maxRowsPerTrigger": "x"}, r"maxRowsPerTrigger is a whole number above 0, not 'x'"),
    ({"read__stream__maxFilesPerTrigger": "0"}, "maxFilesPerTrigger is a whole number above 0"),
    ({"read__stream__minRowsPerTrigger": "5"}, "minRowsPerTrigger and read.stream.maxTriggerDelayMs need each other"),
    ({"other_row_kinds": "keep"}, "other-row-kinds is refuse or drop"),
    ({"limit": "5"}, "limit is for spark.read"),
    ({"topn": "id, 3"}, "topn is for spark.read"),
    ({"rowkind_column": "ID"}, "the table has a column 'ID'"),
    ({"scan__mode": "sideways"}, "scan.mode"),
    ({"read__stream__maxRowPerTrigger": "5"}, "did you mean"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_options_that_have_no_meaning_for_a_stream_are_refused(
    table: pp.Table, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(pp.errors.PaimonError, match=said):
        readers(table.path, **options)().latestOffset()


def test_a_stream_whose_start_has_expired_is_loaded_again(table: pp.Table) -> None:
    options = {"scan__snapshot-id": 1}
    engine = Engine(readers(table.path, **options), old=not HAS_LIMITS)
    engine.run()
    table.append(numbers(3))
    table.append(numbers(4))
    table.snapshots.expire(retain_max=2, retain_min=1)
    again = Engine(readers(table.path, **options), old=not HAS_LIMITS)
    again.offsets, again.committed, again.batches = engine.offsets, engine.committed, engine.batches
    again.run()
    assert sorted(row["id"] for row in again.rows()) == [1, 2, 3, 4]


def test_what_a_stream_can_not_go_on_from_is_said(table: pp.Table) -> None:
    engine = Engine(readers(table.path), old=not HAS_LIMITS)
    engine.run()
    table.append(numbers(3))
    engine.run()
    table.snapshots.rollback(1)
    table.append(numbers(9))
    with pytest.raises(pp.errors.SnapshotNotFoundError, match="rolled back"):
        engine.run()
    with pytest.raises(pp.errors.OptionError, match=r"rowkind-column is for spark.readStream"):
        source = PaimonDataSource({"path": table.path, "rowkind-column": "k"})
        source.reader(source.schema())
