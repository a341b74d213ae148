"""Tables that Java Paimon wrote, through Spark: the rows that Arrow gives. tests/java/conformance compares those with
Java's."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

import paimon_pyds as pp
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import conform_batch
from support.fixtures import requires_shared, table_path
from support.v2_fixtures import v2_table

pytestmark = [pytest.mark.spark, requires_shared]

TABLES = (
    "append_all_types", "append_avro", "append_bitmap_v2_side", "append_bucketed_types", "append_default_values",
    "append_dv32_part", "append_dv64", "append_orc", "empty_snapshot", "evolve_append", "part_other_types",
    "part_string_empty",
)  # fmt: skip


def sorted_rows(batches):
    return sorted(repr(tuple(row.values())) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_rows(frames, time_type, name):
    table = pp.Table.open(table_path(name))
    columns = [f.name for f in table.schema.fields if time_type or f.type.kind.value != "TIME"]
    frame = frames.load(str(table_path(name)), columns=",".join(f"`{c}`" for c in columns))
    target = compat.target_schema(frame.schema)
    expected = [conform_batch(batch, target) for batch in table.scan(columns=columns).to_batches()]
    assert sorted_rows(frame.toArrow().to_batches()) == sorted_rows(expected)
    assert frame.columns == columns


def test_a_variant_column_is_refused_by_name_and_can_be_left_out(frames):
    path = str(table_path("append_variant"))
    variant = next(f.name for f in pp.Table.open(path).schema.fields if f.type.kind.value == "VARIANT")
    with pytest.raises(Exception, match=rf"column {variant} has the type VARIANT.*option\('columns'"):
        frames.load(path).collect()
    others = [f.name for f in pp.Table.open(path).schema.fields if f.name != variant]
    assert frames.load(path, columns=",".join(others)).count() == pp.Table.open(path).count()
    few = frames.load(path, columns="id", filter="id > 3")
    assert few.count() == pp.Table.open(path).count("id > 3") == len(few.collect())


def test_partitions_of_two_branches(frames):
    """With scan.fallback-branch the plan of a query is of both."""
    path = str(v2_table("fallback_branch"))
    assert sorted(row["v"] for row in frames.load(path).collect()) == ["fb3", "main1", "main2"]
    few = frames.load(path, filter="dt = 'd3'")
    assert few.count() == 1
    for options, count in (({"filter": "id = 5"}, 0), ({"filter": "dt > 'd1'"}, 2), ({"limit": "2"}, 2)):
        assert frames.load(path, **options).count() == count
    with pytest.raises(Exception, match="come from two branches can't be planned"):
        frames.load(path, topn="dt, 1").collect()
