"""Buckets of rows as a column of Spark, and writes whose rows are shuffled by bucket."""

from __future__ import annotations

import itertools
from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pyspark")


import paimon_pyds as pp
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.keys.bucket import bucket_of
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.spark import bucket, write
from support.effort import sampled
from support.fixtures import table_path
from support.spark_columns import COLUMNS, query

pytestmark = pytest.mark.spark

KEYS = ("yes", "tiny", "small", "int", "big", "real", "double", "dec", "wide", "text", "raw", "day", "at", "utc")


def differing(frames, path) -> int:
    """How many rows of a table lie in another bucket than the column says."""
    frame = frames.load(path, metadata_columns="__paimon_bucket")
    found = frame.select("__paimon_bucket", bucket(frame, path).alias("bucket")).toArrow()
    assert found.num_rows
    assert found.schema.field("bucket").type == pa.int32()
    return sum(a != b for a, b in zip(*found.to_pydict().values(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["append_bucketed", "append_bucketed_mod", "append_bucketed_multi"])
def test_buckets_are_those_of_java(frames, name):
    assert differing(frames, str(table_path(name))) == 0


@pytest.mark.slow
def test_keys_of_all_types(frames, path):
    frame = frames.spark.sql(query(COLUMNS)).select("id", *KEYS)
    rows = frame.toArrow().combine_chunks()
    columns, expected = [], []
    for function, keys in (("default", KEYS), ("default", KEYS[:1]), ("hive", KEYS[:-2])):
        options = {"bucket": "1000", "bucket-key": ",".join(keys), "bucket-function.type": function}
        table = pp.Table.create(f"{path}{len(columns)}", rows.schema, options=options)
        columns.append(bucket(frame, table).alias(f"{len(columns)}"))
        arrow = [rows[name].combine_chunks() for name in keys]
        expected.append(bucket_of(arrow, [table.schema.field(name).type for name in keys], 1000, function).tolist())
    found = frame.select(*columns).toArrow().to_pydict()
    assert dict(zip(found, expected, strict=True)) == found


@pytest.mark.slow
def test_a_default_of_a_key(frames, path):
    options = {"bucket": "100", "bucket-key": "k", "bucket-function.type": "mod"}
    pp.Table.create(path, pa.schema([("k", pa.int64())]), options=options).alter(column_defaults={"k": "7"})
    frame = frames.spark.sql("SELECT nullif(id, 0L) AS k FROM range(3)")
    frames.save(frame, path)
    assert frames.ids(frames.load(path, metadata_columns="__paimon_bucket").select("__paimon_bucket")) == [1, 2, 7]
    assert frames.ids(frame.select(bucket(frame, path))) == [1, 2, 7]


@pytest.mark.slow
def test_keys_that_the_writer_casts_or_fills(frames, path):
    options = {"bucket": "100", "bucket-key": "K,t,missing"}
    schema = pa.schema([("K", pa.int64()), ("t", pa.timestamp("ms")), ("missing", pa.string()), ("bucket", pa.int32())])
    pp.Table.create(path, schema, options=options)
    pp.Table.open(path).alter(column_defaults={"missing": "m"})
    frame = frames.spark.sql(
        "SELECT INT(id) AS k, TIMESTAMP_NTZ'1900-01-01 00:00:00' + id * INTERVAL '0.000777' SECOND AS t FROM range(50)"
    )
    frames.save(frame.withColumn("bucket", bucket(frame, pp.Table.open(path))), path)
    found = frames.load(path, metadata_columns="__paimon_bucket").where("bucket <> __paimon_bucket OR bucket IS NULL")
    assert found.count() == 0


@pytest.mark.slow
def test_a_frame_without_the_key_has_one_bucket(frames, path):
    pp.Table.create(path, pa.schema([("k", pa.int64()), ("v", pa.int64())]), options={"bucket": "9", "bucket-key": "k"})
    frame = frames.spark.sql("SELECT id AS v FROM range(5)")
    frames.save(frame, path)
    found = {row["__paimon_bucket"] for row in frames.load(path, metadata_columns="__paimon_bucket").collect()}
    assert {row[0] for row in frame.select(bucket(frame, path)).collect()} == found


@pytest.mark.slow
def test_what_has_no_bucket_column(frames, path):
    frame = frames.spark.sql("SELECT id AS k FROM range(5)")
    frames.save(frame, path)
    with pytest.raises(UnsupportedError, match="bucket=-1"):
        bucket(frame, path)
    fixed = pp.Table.create(f"{path}2", pa.schema([("k", pa.int64())]), options={"bucket": "2", "bucket-key": "k"})
    with pytest.raises(SchemaError, match="column k"):
        bucket(frames.spark.sql("SELECT 'x' AS k"), fixed)


def files_per_bucket(path) -> Counter:
    table = pp.Table.open(path)
    live = ManifestReader(table._store).live_files(table.snapshots.latest())
    return Counter(zip(live["partition"].to_pylist(), live["bucket"].to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("by_function", "primary_key"), sampled(itertools.product([False, True], [None, "P,k"]), 1))
def test_files_per_bucket(frames, path, primary_key, by_function):
    """Each task writes a file for each bucket that it has rows of; shuffled rows of a bucket are in one task."""
    rows = frames.spark.sql("SELECT /*+ REPARTITION(3) */ id AS k, INT(id % 2) AS `P`, id AS v FROM range(600)")
    options = {"bucket": "4", "write-only": "true", "partition-by": "P"}
    options |= {"primary-key": primary_key} if primary_key else {"bucket-key": "k"}
    for _ in range(2):  # the first one makes the table
        if by_function:
            write(rows, path, options=options)
        else:
            frames.save(rows, path, **options)
    found = files_per_bucket(path)
    assert len(found) == 8
    assert set(found.values()) == ({2} if by_function else {6})
    assert frames.load(path).count() == (600 if primary_key else 1200)


@pytest.mark.slow
def test_a_shuffle_before_a_plain_write(frames, path):
    pp.Table.create(path, pa.schema([("k", pa.int64())]), options={"bucket": "4", "bucket-key": "k"})
    rows = frames.spark.sql("SELECT /*+ REPARTITION(3) */ id AS k FROM range(600)")
    frames.save(rows.repartition(2, bucket(rows, path)), path)
    assert set(files_per_bucket(path).values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("bucket_option", ["2", "-1"])
def test_what_does_not_fit_is_told_by_the_write(frames, path, bucket_option):
    schema = pa.schema([("k", pa.int32()), ("v", pa.int64())])
    pp.Table.create(path, schema, primary_key=["k"], options={"bucket": bucket_option})
    for rows, told in (
        ("SELECT 1L AS v", "'k' is NOT NULL and missing from the data"),
        ("SELECT INT(NULL) AS k, 1L AS v", "column k is NOT NULL"),
        ("SELECT 1 AS k, 1L AS v, 2 AS __paimon_bucket", "no column '__paimon_bucket'"),
    ):
        with pytest.raises(Exception, match=told):
            write(frames.spark.sql(rows), path)
    assert frames.load(path).count() == 0
