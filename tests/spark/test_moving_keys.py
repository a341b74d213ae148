"""Tables whose keys move between partitions, from Spark: joined with where keys are, or refused."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.functions import spark_partition_id

import paimon_pyds as pp
from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
from paimon_pyds.spark import moving_keys, write
from support.effort import LONG, sampled
from support.engine_model import KIND
from support.moving_keys import ENGINES, KINDS, Model, create, fitting, found

pytestmark = pytest.mark.spark


def frame_of(frames, rows, hint=""):
    """Rows in their order, with their kinds."""
    names = ["op", "id", "p", "q", "a", "b", "l"]
    cells = ", ".join(
        "(" + ", ".join("NULL" if v is None else repr(v) for v in (KINDS[r[KIND]], *(r[n] for n in names[1:]))) + ")"
        for r in rows
    )
    return frames.spark.sql(
        f"SELECT {hint} op, BIGINT(id) AS ID, INT(p) AS p, STRING(q) AS q, BIGINT(a) AS a, STRING(b) AS b, "
        f"BIGINT(l) AS l FROM VALUES {cells} AS t({', '.join(names)})"
    )


def random_rows(random, engine, count):
    rows = [
        {
            "p": random.choice([None, 0, 1]), "q": random.choice("xy"), "id": random.randrange(40),
            "a": random.choice([None, 3, -5]), "b": random.choice([None, "x"]), "l": random.randrange(9),
            KIND: random.randrange(10),
        }
        for _ in range(count)
    ]  # fmt: skip
    return fitting(rows, engine)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), sampled(itertools.product(ENGINES, [("id",), ("id", "q")]), 1))
def test_a_table_is_its_model_after_each_job(frames, path, name, key):
    random, engine = Random(name), ENGINES[name]
    table = create(path, engine, key, **{"dynamic-bucket.assigner-parallelism": "3"})
    model = Model(engine, key)
    for _ in range(10 if LONG else 2):
        rows = random_rows(random, engine, 60)
        write(frame_of(frames, rows), path, rowkind_column="op")
        model.write(rows)
        assert found(table) == model.rows()
    rows = random_rows(random, engine, 20)
    write(frame_of(frames, rows), path, "overwrite", rowkind_column="OP")
    model.overwrite(rows)
    assert found(table) == model.rows()


@pytest.mark.slow
def test_any_split_of_rows_puts_a_key_into_one_place(frames, path):
    """Of equal rows the task that wrote which is not known; a table that is made by the write, without row kinds."""
    target, assigners, written = 50, 2, Counter()
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": target}
    options["dynamic-bucket.assigner-parallelism"] = assigners
    for turn, tasks in enumerate([1, 3, 2]):
        query = f"SELECT /*+ REPARTITION({tasks}) */ id, INT(id % {turn + 2}) AS p, id * {turn} AS v FROM range(300)"
        write(frames.spark.sql(query), path, primary_key="id", partition_by="p", options=options)
        rows = pp.Table.open(path).scan(columns=["id", "p", "v", "__paimon_bucket"]).to_arrow().to_pylist()
        expected = [(i, i % (turn + 2), turn * i) for i in range(300)]
        assert sorted((row["id"], row["p"], row["v"]) for row in rows) == expected
        filled = Counter((row["p"], row["__paimon_bucket"]) for row in rows)
        assert max(filled.values()) <= target
        written.update(p for _, p, _ in expected)  # versions count until they are compacted
        for p, buckets in Counter(p for p, _ in filled).items():
            assert buckets <= written[p] // target + assigners


@pytest.mark.slow
def test_columns_are_known_by_their_whole_names(frames, path):
    """A column `s.x` beside a struct s with a member x; names with backticks and blanks."""
    for turn in (1, 2):
        query = (
            f"SELECT INT(id) AS `a.b`, INT(id % {turn + 1}) AS `p``q`, id * {turn} AS `s.x`, "
            f"named_struct('x', -id) AS s, string(id) AS `c 0` FROM range(20)"
        )
        write(frames.spark.sql(query), path, primary_key=["a.b"], partition_by=["p`q"])
        expected = [(i, i % (turn + 1), i * turn, {"x": -i}, str(i)) for i in range(20)]
        rows = pp.Table.open(path).scan().to_arrow().sort_by("a.b").to_pylist()
        assert [tuple(row.values()) for row in rows] == expected


@pytest.mark.slow
def test_rows_that_spark_sends_with_large_texts(frames, path):
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    frames.spark.conf.set(setting, "true")
    try:
        for turn in (2, 3):
            query = f"SELECT id, string(id % {turn}) AS p, binary(string(id * {turn})) AS v FROM range(20)"
            write(frames.spark.sql(query), path, primary_key="id", partition_by="p")
            expected = sorted((i, str(i % turn), str(i * turn).encode()) for i in range(20))
            assert sorted(tuple(row) for row in frames.load(path).collect()) == expected
    finally:
        frames.spark.conf.unset(setting)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("key", sampled(["id", "STRING(id)", "DATE_ADD(DATE'2026-01-01', INT(id))"], 1))
def test_of_rows_that_spark_holds_only_keys_between_theirs_are_read(frames, path, key, monkeypatch):
    """Others would be computed twice. Keys that come up when Spark computes them again are refused."""
    plans, plan = [], KeyPlaces.plan
    monkeypatch.setattr(KeyPlaces, "plan", lambda *args: plans.append(plan(*args)) or plans[-1])

    def put(first, last, partition, cached=True):
        df = frames.spark.sql(f"SELECT {key} AS k, {partition} AS p, id AS v FROM range({first}, {last})")
        df = df.cache() if cached else df
        options = {"bucket": "-1", "write-only": "true"}
        write(df, path, primary_key="k", partition_by="p", options=options)
        df.unpersist()
        return sum(file.row_count for file in plans[-1].files) if plans else 0

    put(1000, 1100, 0)
    assert put(2000, 2200, 0) == 0
    assert put(1050, 1060, 1) == 100
    assert put(2050, 2060, 1, cached=False) == 100 + 200 + 2 * 10
    rows = pp.Table.open(path).scan(columns=["v", "p"]).to_arrow().to_pylist()
    moved = {*range(1050, 1060), *range(2050, 2060)}
    assert sorted((row["v"], row["p"]) for row in rows) == [
        (v, int(v in moved)) for v in (*range(1000, 1100), *range(2000, 2200))
    ]
    ends, frame = moving_keys._key_ends, frames.spark.sql(f"SELECT {key} AS k, 1 AS p, id AS v FROM range(1070, 1080)")
    monkeypatch.setattr(moving_keys, "_key_ends", lambda df, *args: ends(df.limit(0).union(df.limit(5)).cache(), *args))
    with pytest.raises(Exception, match="other keys when Spark computed a part of it again"):
        write(frame, path)


@pytest.mark.slow
def test_what_a_plain_write_is_told(frames, path):
    query = "SELECT id, 1 AS p FROM range(3)"
    for _ in range(2):  # the table is not made either
        with pytest.raises(Exception, match=r"paimon_pyds\.spark\.write\(df, path\)"):
            frames.save(query, path, primary_key="id", partition_by="p", bucket="-1")
    with pytest.raises(pp.errors.TableNotFoundError):
        pp.Table.open(path)
    write(frames.spark.sql(query), path, primary_key="id", partition_by="p", options={"bucket": "-1"})
    with pytest.raises(Exception, match=r"paimon_pyds\.spark\.write\(df, path\)"):
        frames.save(query, path)
    with pytest.raises(Exception, match="the table has no column 'more'"):
        write(frames.spark.sql("SELECT id, 1 AS p, 2 AS more FROM range(3)"), path)
    with pytest.raises(Exception, match="overwrite the whole table"):
        write(frames.spark.sql(query), path, "overwrite", overwrite_partition={"p": 1})


@pytest.mark.slow
def test_of_two_jobs_that_write_one_key_at_once_the_second_begins_again(frames, path, monkeypatch):
    from paimon_pyds.spark import functions

    table = create(path, ENGINES["deduplicate"])
    first = frame_of(frames, [{KIND: 0, "p": 0, "q": "x", "id": 1, "a": 1, "b": "x", "l": 1}]).drop("op")
    write(first, path)
    real = functions.prepared

    calls = []

    def meanwhile(*args):
        calls.append(real(*args))
        if len(calls) == 1:
            rows = table.scan(columns=["id", "a", "b", "l"]).to_arrow().append_column("q", [["y"]])
            table.append(rows, missing_columns="null")
        return calls[-1]

    monkeypatch.setattr(functions, "prepared", meanwhile)
    write(first, path)
    assert len(calls) == 2
    assert [(row["id"], row["p"], row["q"]) for row in found(table)] == [(1, 0, "x")]


@pytest.mark.long
@pytest.mark.slow
def test_keys_of_files_older_than_the_ttl_are_not_found(frames, path):
    def put(ids, p, ttl=None):
        options = {"bucket": "-1", "write-only": "true", "cross-partition-upsert.index-ttl": ttl}
        frame = frames.spark.sql(f"SELECT id, {p} AS p FROM VALUES {ids} AS t(id)")
        write(frame, path, primary_key="id", partition_by="p", options=options)
        rows = pp.Table.open(path).scan(columns=["id", "p"]).to_arrow().to_pylist()
        return sorted((row["id"], row["p"]) for row in rows)

    put("1, 2", 0)
    assert put("1", 1, "1 h") == [(1, 1), (2, 0)]
    assert put("2", 1, "1 ms") == [(1, 1), (2, 0), (2, 1)]
    with pytest.raises(Exception, match="in two partitions or buckets"):
        put("2", 3)


@pytest.mark.long
@pytest.mark.slow
def test_keys_are_read_by_tasks_of_spark_whatever_the_bootstrap_parallelism(frames, path, monkeypatch):
    tasks, keys = [], moving_keys._known_keys

    def seen(*args):
        tasks.append(keys(*args).select(spark_partition_id()).distinct().count())
        return keys(*args)

    monkeypatch.setattr(moving_keys, "_known_keys", seen)
    options = {"bucket": "-1", "cross-partition-upsert.bootstrap-parallelism": "1"}
    options |= {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}
    for turn in range(2):
        frame = frames.spark.sql(f"SELECT id, INT((id + {turn}) % 9) AS p FROM range(90)")
        write(frame, path, primary_key="id", partition_by="p", options=options)
    assert len(tasks) == 1
    assert tasks[0] > 1
    assert {row["id"]: row["p"] for row in pp.Table.open(path).scan().to_arrow().to_pylist()} == {
        i: (i + 1) % 9 for i in range(90)
    }


@pytest.mark.slow
def test_old_snapshots_expire_after_a_write(frames, path):
    engine = ENGINES["deduplicate"]
    options = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
    table = create(path, engine, ("id",), **options)
    for number in range(2):
        write(frame_of(frames, random_rows(Random(number), engine, 5)), path, rowkind_column="op")
    assert len(table._store.snapshot_ids()) == 1
