"""Tables with a primary key through Spark: rows are merged within tasks, and no task lacks a version that it needs."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql.types import LongType, StructField, StructType

import paimon_pyds as pp
from paimon_pyds.spark.options import parse_read_options
from paimon_pyds.spark.reader import PaimonReader, TopNPartition
from support.fixtures import requires_shared, table_path

pytestmark = [pytest.mark.spark, requires_shared]

ID = StructType([StructField("id", LongType())])
SMALL_SPLITS = {"source__split__target_size": "1 b", "source__split__open_file_cost": "1 b"}


def sorted_rows(table):
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def texts(frame):
    return sorted(repr(tuple(row)) for row in frame.collect())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pk_dedup_mor", "pk_partial_update", "pk_dv32", "pk_dynamic_bucket_part"])
def test_rows_of_several_splits(frames, name):
    path = str(table_path(name))
    frame = frames.load(path, **SMALL_SPLITS)
    assert texts(frame) == sorted_rows(pp.Table.open(path).scan().to_arrow())
    assert frame.count() == pp.Table.open(path).count()


def test_files_of_a_section_are_in_one_split():
    options = {"path": str(table_path("pk_dedup_mor")), "source.split.target-size": "1 b"}
    partitions = PaimonReader(ID, parse_read_options(options), None).plan()
    assert [len(split.files) for partition in partitions for split in partition.splits] == [4, 4, 4]


@pytest.mark.slow
def test_options_of_reading(frames):
    path = str(table_path("pk_dedup_mor"))
    table = pp.Table.open(path)
    filtered = frames.load(path, filter="id > 20 AND v > 3", columns="v, id", **SMALL_SPLITS)
    expected = table.scan("id > 20 AND v > 3", ["v", "id"]).to_arrow()
    assert texts(filtered) == sorted_rows(expected)
    assert expected.num_rows
    assert frames.load(path, limit=5, **SMALL_SPLITS).limit(5).count() == 5
    everything = sorted_rows(table.scan(columns=["v"]).to_arrow())
    assert set(texts(frames.load(path, columns="v", limit=3))) <= set(everything)
    optimized = frames.load(str(table_path("pk_index")), read_optimized="true")
    assert texts(optimized) == sorted_rows(pp.Table.open(table_path("pk_index")).system.read("ro"))
    assert frames.load(path, read_optimized="true").count() == 0


@pytest.mark.slow
def test_the_first_rows_in_an_order(frames):
    path = str(table_path("pk_dedup_mor"))
    rows = frames.load(path, topn="v desc, id, 7", filter="v IS NOT NULL", columns="id, v").collect()
    everything = frames.load(path, filter="v IS NOT NULL", columns="id, v")
    assert rows == everything.orderBy(everything.v.desc(), everything.id).limit(7).collect()
    (partition,) = PaimonReader(ID, parse_read_options({"path": path, "topn": "id, 3"}), None).plan()
    assert isinstance(partition, TopNPartition)
    buckets = frames.load(path, columns="id", metadata_columns="__paimon_bucket")
    with_buckets = pp.Table.open(path).scan(columns=["id", "__paimon_bucket"]).to_arrow()
    assert texts(buckets) == sorted_rows(with_buckets)
    with pytest.raises(Exception, match="rows that are merged from several files have no __paimon_row_index"):
        frames.load(path, metadata_columns="__paimon_row_index").collect()
