"""Paimon's types and Spark's, both ways.

    BOOLEAN, TINYINT … BIGINT, FLOAT, DOUBLE, DECIMAL, DATE, BINARY …   the same
    CHAR, VARCHAR, STRING                  StringType: Spark has no other outside its catalogs. Lengths hold on writing
    TIMESTAMP(p)                           TimestampNTZType, microseconds
    TIMESTAMP(p) WITH LOCAL TIME ZONE      TimestampType, microseconds
    VARIANT                                VariantType
    TIME(p)                                TimeType (Spark 4.1 and later; before, the column can only be left out)
    ARRAY, MAP, ROW, MULTISET<t>           ArrayType, MapType, StructType, MapType(t, int)
    VECTOR<t, n>                           ArrayType without NULL inside

Spark's timestamps end at microseconds: TIMESTAMP(7..9) is rounded down, as Paimon's own connector does. Paimon keeps
milliseconds of TIME(p) whatever p is: finer values are refused on writing. NOT NULL and comments are preserved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyspark
from pyspark.sql import types as spark

from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    parse_type,
)
from paimon_pyds.base.types.kinds import MAX_LENGTH
from paimon_pyds.errors import SchemaError, UnsupportedError
from paimon_pyds.spark import compat

_MAX_COLUMNS = 1 << 30
_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"
"""Metadata in which Spark's catalogs store the CHAR(n) or VARCHAR(n) of a column's declaration."""

_TO_SPARK: dict[Kind, type[spark.DataType]] = {
    Kind.BOOLEAN: spark.BooleanType, Kind.TINYINT: spark.ByteType, Kind.SMALLINT: spark.ShortType,
    Kind.INT: spark.IntegerType, Kind.BIGINT: spark.LongType, Kind.FLOAT: spark.FloatType,
    Kind.DOUBLE: spark.DoubleType, Kind.CHAR: spark.StringType, Kind.VARCHAR: spark.StringType,
    Kind.BINARY: spark.BinaryType, Kind.VARBINARY: spark.BinaryType, Kind.BLOB: spark.BinaryType,
    Kind.DATE: spark.DateType, Kind.TIMESTAMP: spark.TimestampNTZType, Kind.TIMESTAMP_LTZ: spark.TimestampType,
    Kind.VARIANT: spark.VariantType,
}  # fmt: skip
_FROM_SPARK: dict[type[spark.DataType], AtomicType] = {
    **{type_: AtomicType(kind) for kind, type_ in _TO_SPARK.items()},
    spark.StringType: AtomicType(Kind.VARCHAR, length=MAX_LENGTH),
    spark.BinaryType: AtomicType(Kind.VARBINARY, length=MAX_LENGTH),
    spark.TimestampNTZType: AtomicType(Kind.TIMESTAMP, precision=6),
    spark.TimestampType: AtomicType(Kind.TIMESTAMP_LTZ, precision=6),
}


def spark_schema(fields: Sequence[DataField]) -> spark.StructType:
    """Spark's schema of these columns.
    Raises UnsupportedError: a column of a type that this Spark does not have; it names the column."""
    return spark.StructType([spark_field(f) for f in fields])


def spark_field(field: DataField) -> spark.StructField:
    """Spark's form of one column, with its nullability and comment. Raises UnsupportedError."""
    metadata = {} if field.description is None else {"comment": field.description}
    return spark.StructField(field.name, _to_spark(field.type, field.name), field.type.nullable, metadata)


def _to_spark(type_: DataType, column: str) -> spark.DataType:
    match type_:
        case ArrayType(element=element):
            return spark.ArrayType(_to_spark(element, column), element.nullable)
        case VectorType(element=element):
            return spark.ArrayType(_to_spark(element, column), False)
        case MapType(key=key, value=value):
            return spark.MapType(_to_spark(key, column), _to_spark(value, column), value.nullable)
        case MultisetType(element=element):
            return spark.MapType(_to_spark(element, column), spark.IntegerType(), False)
        case RowType(fields=fields):
            members = [
                spark.StructField(f.name, _to_spark(f.type, f"{column}.{f.name}"), f.type.nullable) for f in fields
            ]
            return spark.StructType(members)
        case AtomicType(kind=Kind.DECIMAL, precision=precision, scale=scale):
            return spark.DecimalType(precision or 10, scale or 0)
        case AtomicType(kind=Kind.TIME, precision=precision):
            time = compat.time_type(precision or 0)
            if time is not None:
                return time
    spark_type = _TO_SPARK.get(type_.kind)
    if spark_type is None:
        raise UnsupportedError(
            f"column {column} has the type {type_}, which this Spark ({pyspark.__version__}) can't read",
            hint="leave it out: option('columns', …) or .schema(…) with the other columns",
        )
    return spark_type()


def fields_from_spark(schema: spark.StructType) -> tuple[DataField, ...]:
    """Columns for a new table from a DataFrame's schema; each column is followed by its members in the count of ids.
    Raises SchemaError: a column of a type that Paimon does not have, or two columns of one name."""
    names = schema.fieldNames()
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise SchemaError(f"two columns have the same name: {', '.join(twice)}")
    ids = iter(range(_MAX_COLUMNS))
    return tuple(
        DataField(next(ids), f.name, _declared_type(f, ids), (f.metadata or {}).get("comment")) for f in schema.fields
    )


def _declared_type(field: spark.StructField, ids: Iterator[int]) -> DataType:
    declared = (field.metadata or {}).get(_CHAR_METADATA)
    if isinstance(field.dataType, spark.StringType) and isinstance(declared, str):
        match = re.fullmatch(r"(?i)\s*((?:var)?char\s*\(\s*\d+\s*\))\s*", declared)
        if match:
            return parse_type(match[1]).with_nullable(field.nullable)
    return _from_spark(field.dataType, field.name, ids).with_nullable(field.nullable)


def _from_spark(type_: spark.DataType, column: str, ids: Iterator[int]) -> DataType:
    if isinstance(type_, spark.ArrayType):
        element = _from_spark(type_.elementType, f"{column}.element", ids)
        return ArrayType(element=element.with_nullable(type_.containsNull))
    if isinstance(type_, spark.MapType):
        key = _from_spark(type_.keyType, f"{column}.key", ids).with_nullable(False)
        value = _from_spark(type_.valueType, f"{column}.value", ids)
        return MapType(key=key, value=value.with_nullable(type_.valueContainsNull))
    if isinstance(type_, spark.StructType):
        return RowType(fields=tuple(_member(f, column, ids) for f in type_.fields))
    if isinstance(type_, spark.DecimalType):
        return AtomicType(Kind.DECIMAL, precision=type_.precision, scale=type_.scale)
    if isinstance(type_, spark.CharType | spark.VarcharType):
        kind = Kind.CHAR if isinstance(type_, spark.CharType) else Kind.VARCHAR
        return AtomicType(kind, length=type_.length)
    time_precision = _time_precision(type_)
    if time_precision is not None:
        return AtomicType(Kind.TIME, precision=time_precision)
    found = _FROM_SPARK.get(type(type_))
    if found is None:
        raise SchemaError(
            f"column {column}: Paimon has no type for Spark's {type_.simpleString()}",
            hint="cast it first, or leave it out",
        )
    return found


def _member(field: spark.StructField, column: str, ids: Iterator[int]) -> DataField:
    id_ = next(ids)
    type_ = _from_spark(field.dataType, f"{column}.{field.name}", ids).with_nullable(field.nullable)
    return DataField(id_, field.name, type_, (field.metadata or {}).get("comment"))


def _time_precision(type_: Any) -> int | None:
    kind = getattr(spark, "TimeType", None)
    return int(type_.precision) if kind is not None and isinstance(type_, kind) else None
