"""Tables with dynamic buckets from Spark: shuffled by `paimon_pyds.spark.write`, and by plain ``df.write``."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.base.row import hash_rows
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.spark import write
from support.dynamic_buckets import bucket_keys
from support.effort import LONG, sampled
from support.oracle import requires_java_oracle
from support.values import lines

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("p", pa.int32()), ("k", pa.string()), ("v", pa.int64())])


def rows_of(values, turn, tasks):
    """SQL of rows with these keys, in so many tasks."""
    cells = ", ".join(f"({p}, '{k}', {turn})" for p, k in values)
    return f"SELECT /*+ REPARTITION({tasks}) */ INT(p) AS p, k, BIGINT(v) AS v FROM VALUES {cells} AS t(p, k, v)"


@pytest.mark.slow
@pytest.mark.parametrize("by_function", [False, True])
def test_a_key_has_one_bucket_however_rows_are_split(frames, path, by_function):
    random = Random(17)
    target, assigners = 20, 2
    options = {
        "dynamic-bucket.target-row-num": str(target),
        "dynamic-bucket.assigner-parallelism": str(assigners),
        "num-sorted-run.compaction-trigger": "3",
    }
    pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    model = {}
    for turn in range(20 if LONG else 3):
        keys = [(random.randrange(2), f"key {random.randrange(200)}") for _ in range(random.choice([1, 40, 150]))]
        frame = frames.spark.sql(rows_of(keys, turn, random.choice([1, 2, 5])))
        if by_function:
            write(frame, path)
        else:
            frames.save(frame, path)
        model.update(dict.fromkeys(keys, turn))
        table = pp.Table.open(path)
        assert {(row["p"], row["k"]): row["v"] for row in table.scan().to_arrow().to_pylist()} == model
        found = bucket_keys(table)
        assert sum(map(len, found.values())) == len(model)
        if by_function:
            assert max(map(len, found.values())) <= target
            most = sum(count // target + assigners for count in Counter(p for p, _ in model).values())
            assert len(found) <= most


@pytest.mark.connect
@pytest.mark.parametrize("key", ["p,k", "k"])
def test_a_client_of_connect_that_sees_no_files(frames, path, monkeypatch, key):
    """Tasks of its server look at the table: rows are shuffled all the same, by keys that are in any partition too."""
    from paimon_pyds.errors import TableNotFoundError
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.spark import write_shuffle as preparation

    def unseen(*args):
        raise TableNotFoundError("there is no table")

    options = {"primary-key": key, "partition-by": "p", "bucket": "-1", "dynamic-bucket.target-row-num": "20"}
    monkeypatch.setattr(preparation, "open_table", unseen)
    monkeypatch.setattr(TableStore, "latest_snapshot", unseen)
    monkeypatch.setattr(TableStore, "schema_ids", lambda store: [])
    for turn in range(2):
        query = f"SELECT INT(id % {turn + 2}) AS p, STRING(id) AS k, id AS v FROM range(100)"
        write(frames.spark.sql(query), path, options=options)
    monkeypatch.undo()
    rows = pp.Table.open(path).scan(columns=["p", "k", "__paimon_bucket"]).to_arrow().to_pylist()
    pairs = {(i % 3, str(i)) for i in range(100)} | ({(i % 2, str(i)) for i in range(100)} if key == "p,k" else set())
    assert sorted((row["p"], row["k"]) for row in rows) == sorted(pairs)
    assert max(Counter((row["p"], row["__paimon_bucket"]) for row in rows).values()) <= 20


@pytest.mark.slow
@requires_java_oracle
@pytest.mark.java
def test_java_goes_on_where_spark_ended(frames, oracle, tmp_path):
    schema = pa.schema([pa.field("k", pa.string(), False), ("v", pa.int64())])
    options = {"dynamic-bucket.target-row-num": "20", "dynamic-bucket.assigner-parallelism": "2"}
    path, model = str(tmp_path / "db.db" / "t"), {}
    with oracle.batch() as batch:
        batch.create(tmp_path, "db.t", schema, primary_keys=["k"], options=options)
    for turn in range(3):
        values = {str(k): turn for k in range(30 * turn, 30 * turn + 90)}
        model.update(values)
        rows = pa.table([pa.array(values.keys()), pa.array(values.values(), pa.int64())], schema=schema)
        with oracle.batch() as batch:
            if turn == 1:
                batch.write(tmp_path, "db.t", rows)
            else:
                write(frames.spark.createDataFrame(rows).repartition(3), path)
            reply = batch.read(tmp_path, "db.t")
        table = pp.Table.open(path)
        assert reply.lines == lines(table.scan().to_arrow())
        assert sum(map(len, bucket_keys(table).values())) == len(model)
        assert {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == model


@pytest.mark.slow
@pytest.mark.parametrize("by_function", sampled([False, True], 1))
def test_what_a_job_may_bring(frames, path, by_function):
    """Row kinds, a table that is made by the write, an overwrite, columns in another order and spelling."""

    def put(query, mode="append", **options):
        frame = frames.spark.sql(query)
        if by_function:
            write(frame, path, mode, options=options)
        else:
            frames.save(frame, path, mode, **options)

    shape = {"primary-key": "k", "bucket": "-1", "dynamic-bucket.target-row-num": "30"}
    put("SELECT id AS k, 'a' AS v FROM range(100)", **shape)
    put("SELECT IF(id < 110, '-D', '+U') AS op, 'b' AS V, INT(id) AS K FROM range(90, 120)", **{"rowkind-column": "OP"})
    table = pp.Table.open(path)
    found = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {**dict.fromkeys(range(90), "a"), **dict.fromkeys(range(110, 120), "b")}
    assert sum(map(len, bucket_keys(table).values())) == 120
    put("SELECT id AS k, 'c' AS v FROM range(50)", "overwrite")
    assert sorted(frames.ids(frames.load(path))) == list(range(50))
    assert sum(map(len, bucket_keys(pp.Table.open(path)).values())) == 50


@pytest.mark.slow
def test_a_bucket_gets_one_file(frames, path):
    options = {"dynamic-bucket.target-row-num": "100", "dynamic-bucket.assigner-parallelism": "3", "write-only": "true"}
    table = pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options=options)
    query = "SELECT /*+ REPARTITION(4) */ INT(id % 2) AS p, STRING(id) AS k, id AS v FROM range(2000)"
    for jobs in (1, 2):
        write(frames.spark.sql(query), path)
        live = ManifestReader(table._store).live_files(table.snapshots.latest())
        files = Counter(zip(live["partition"].to_pylist(), live["bucket"].to_pylist(), strict=True))
        assert set(files.values()) == {jobs}
        assert 20 <= len(files) <= 26


@pytest.mark.slow
def test_the_last_row_of_a_key_in_a_task_wins(frames, path):
    pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"])
    rows = frames.spark.sql("SELECT INT(0) AS p, STRING(id % 50) AS k, id AS v FROM range(5000)").coalesce(1)
    write(rows, path)
    assert sorted(frames.ids(frames.load(path).select("v"))) == list(range(4950, 5000))


@pytest.mark.slow
@pytest.mark.parametrize("by_function", sampled([False, True], 1))
def test_two_jobs_at_once_both_land(frames, path, by_function):
    pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"])
    put = write if by_function else frames.save
    theirs = pa.table({"p": [0], "k": ["0"], "v": [-1]}, SCHEMA)

    def meanwhile(batches):
        pp.Table.open(path).append(theirs)
        yield from batches

    rows = frames.spark.sql("SELECT INT(id % 2) AS p, STRING(id) AS k, id AS v FROM range(0, 20, 1, 1)")
    put(rows.mapInArrow(meanwhile, rows.schema), path)
    assert sorted(row.v for row in frames.load(path).collect()) == list(range(20))
    table = pp.Table.open(path)
    assert [snapshot.delta_record_count for snapshot in table.snapshots.list()][:2] == [1, 20]
    bucket_keys(table)


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_buckets_of_rows_are_not_for_users(path, bucket):
    from paimon_pyds.errors import OptionError
    from paimon_pyds.spark import PaimonDataSource
    from paimon_pyds.spark.types import spark_schema

    table = pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"], options={"bucket": bucket})
    with pytest.raises(OptionError, match="leave the option out"):
        PaimonDataSource({"path": path, "assigned-buckets": ""}).writer(spark_schema(table.schema.fields), False)


def test_a_frame_that_changes_while_it_is_written_is_refused(frames, path):
    """Spark computes a part of the rows again when an executor is lost: these keys have another bucket then."""
    from paimon_pyds.engine.write import TableWriter
    from paimon_pyds.errors import CommitError

    table = pp.Table.create(path, SCHEMA, primary_key=["p", "k"], partition_by=["p"])
    messages = []
    for bucket in (0, 1):
        with TableWriter(table.write_context(), bucket, bucket="b") as writer:
            keys = {"p": [0, 0], "k": ["both", str(bucket)], "v": [1, 1], "b": [bucket, bucket]}
            writer.write(pa.table(keys, schema=SCHEMA.append(pa.field("b", pa.int32()))))
            messages.append(writer.prepare_commit())
    with pytest.raises(CommitError, match=r"two buckets.*checkpoint"):
        table.commit(messages)
    assert not table.snapshots.list()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_million_keys_in_four_tasks(frames, path):
    count, more, target, assigners = 10_000_000, 1_000_000, 500_000, 4
    options = {"primary-key": "k", "bucket": "-1", "write-only": "true"}
    options |= {"dynamic-bucket.target-row-num": str(target), "dynamic-bucket.assigner-parallelism": str(assigners)}
    for job, ends in enumerate([(0, count), (count - more, count + more)]):  # half of the second one's keys are new
        query = (
            f"SELECT /*+ REPARTITION({assigners}) */ id * 7919 AS k, INT({job}) AS v FROM range({ends[0]}, {ends[1]})"
        )
        write(frames.spark.sql(query), path, options=options)
    table = pp.Table.open(path)
    keys = pa.array(np.arange(count + more) * 7919)
    index = table._store.read_index_manifest(table.snapshots.latest().index_manifest)
    assert sum(entry.row_count for entry in index) == len(np.unique(hash_rows([keys], [table.schema.field("k").type])))
    assert max(entry.row_count for entry in index) <= target
    assert len(index) <= len(keys) // target + assigners
    assert table.count() == len(keys)
    assert table.count("v = 1") == 2 * more
    live = ManifestReader(table._store).live_files(table.snapshots.latest())
    assert max(Counter(live["bucket"].to_pylist()).values()) <= 2
