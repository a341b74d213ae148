"""Paimon's types and Spark's, both ways."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark", reason="needs pyspark")

from pyspark.sql import types as spark

from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    Kind,
    MapType,
    MultisetType,
    RowType,
    arrow_schema,
    parse_type,
)
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.spark import compat
from paimon_pyds.spark.types import fields_from_spark, spark_schema

pytestmark = pytest.mark.spark

SAME = {
    "BOOLEAN": spark.BooleanType(),
    "TINYINT": spark.ByteType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "DECIMAL(10, 3)": spark.DecimalType(10, 3),
    "DECIMAL(38, 38)": spark.DecimalType(38, 38),
    "STRING": spark.StringType(),
    "BYTES": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIMESTAMP(6)": spark.TimestampNTZType(),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": spark.TimestampType(),
}
ONE_WAY = {
    "CHAR(3)": spark.StringType(),
    "VARCHAR(20)": spark.StringType(),
    "BINARY(4)": spark.BinaryType(),
    "VARBINARY(9)": spark.BinaryType(),
    "TIMESTAMP(0)": spark.TimestampNTZType(),
    "TIMESTAMP(9)": spark.TimestampNTZType(),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": spark.TimestampType(),
}


@pytest.mark.parametrize("text", [*SAME, *ONE_WAY])
@pytest.mark.parametrize("nullable", [True, False])
def test_to_spark(text, nullable):
    field = DataField(0, "c", parse_type(text).with_nullable(nullable), "what it is")
    expected = spark.StructField("c", {**SAME, **ONE_WAY}[text], nullable, {"comment": "what it is"})
    assert spark_schema([field]).fields == [expected]
    assert spark_schema([field])["c"].metadata == {"comment": "what it is"}


@pytest.mark.parametrize("text", SAME)
@pytest.mark.parametrize("nullable", [True, False])
def test_from_spark(text, nullable):
    schema = spark.StructType([spark.StructField("c", SAME[text], nullable, {"comment": "what it is"})])
    assert fields_from_spark(schema) == (DataField(0, "c", parse_type(text).with_nullable(nullable), "what it is"),)


def nested() -> spark.StructType:
    inner = spark.StructType(
        [
            spark.StructField("x", spark.IntegerType(), False),
            spark.StructField("y", spark.ArrayType(spark.StringType())),
        ]
    )
    return spark.StructType(
        [
            spark.StructField("s", inner, False),
            spark.StructField("a", spark.ArrayType(inner, False)),
            spark.StructField("m", spark.MapType(spark.StringType(), spark.MapType(spark.LongType(), inner), False)),
        ]
    )


def test_nested_both_ways():
    fields = fields_from_spark(nested())
    assert spark_schema(fields) == nested()
    assert [f.id for f in fields] == [0, 3, 6]
    assert isinstance(fields[0].type, RowType)
    assert [f.id for f in fields[0].type.fields] == [1, 2]
    assert fields[2].type == MapType(
        key=AtomicType(Kind.VARCHAR, length=2147483647, nullable=False),
        value=MapType(
            key=AtomicType(Kind.BIGINT, nullable=False),
            value=RowType(
                fields=(
                    DataField(7, "x", AtomicType(Kind.INT, nullable=False)),
                    DataField(8, "y", ArrayType(element=AtomicType(Kind.VARCHAR, length=2147483647))),
                )
            ),
            nullable=False,
        ),
    )


def test_spark_and_paimon_agree_on_arrow():
    schema = spark.StructType([*nested().fields, *(spark.StructField(n, t, True) for n, t in SAME.items())])
    assert compat.target_schema(schema).equals(arrow_schema(fields_from_spark(schema)))


def test_multiset_is_a_map_of_counts():
    field = DataField(0, "c", MultisetType(element=AtomicType(Kind.INT)))
    assert spark_schema([field])["c"].dataType == spark.MapType(spark.IntegerType(), spark.IntegerType(), False)


def test_time_where_spark_has_it():
    field = DataField(0, "at", AtomicType(Kind.TIME, precision=3))
    if compat.time_type(3) is None:
        with pytest.raises(UnsupportedError, match=r"column at has the type TIME\(3\).*option\('columns'"):
            spark_schema([field])
    else:
        schema = spark_schema([field])
        assert schema["at"].dataType == compat.time_type(3)
        assert fields_from_spark(schema) == (field,)
        assert str(compat.target_schema(schema).field("at").type) == "time64[ns]"


@pytest.mark.parametrize("name", ["GEOMETRY(x)", "GEOGRAPHY(x)"])
def test_refused_types_name_the_column(name):
    field = DataField(0, "outer", RowType(fields=(DataField(1, "v", parse_type(name, stored=True)),)))
    with pytest.raises(UnsupportedError, match=re.escape(f"column outer.v has the type {name}")):
        spark_schema([field])


@pytest.mark.parametrize(
    "type_",
    [
        spark.NullType(),
        spark.DayTimeIntervalType(),
        spark.YearMonthIntervalType(),
        spark.CalendarIntervalType(),
    ],
    ids=str,
)
def test_types_that_paimon_does_not_have(type_):
    schema = spark.StructType([spark.StructField("a", spark.ArrayType(type_))])
    with pytest.raises(SchemaError, match=r"column a.element: Paimon has no type for Spark's"):
        fields_from_spark(schema)


def test_declared_lengths_are_kept():
    metadata = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(12)"}
    schema = spark.StructType([spark.StructField("c", spark.StringType(), False, metadata)])
    assert fields_from_spark(schema)[0].type == AtomicType(Kind.VARCHAR, length=12, nullable=False)


def test_two_columns_of_one_name():
    schema = spark.StructType().add("a", "integer").add("a", "integer")
    with pytest.raises(SchemaError, match="two columns have the same name: a"):
        fields_from_spark(schema)
