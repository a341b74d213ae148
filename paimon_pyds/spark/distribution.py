"""The distribution of rows over Spark's tasks: the bucket of each row as a column, and the shuffle before a write.

A Python data source can't prescribe how Spark distributes the rows to write: without a shuffle each task may have rows
of any bucket, and writes a file of its own for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.row import EMPTY_ROW, hash_rows
from paimon_pyds.base.types import arrow_schema
from paimon_pyds.base.types.nested import find_name
from paimon_pyds.engine.write.conform import default_value, match_columns
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.router import Router
from paimon_pyds.engine.write.writer import hash_index
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.bucket import PartitionedRows, bucket_assigner
from paimon_pyds.keys.bucket.dynamic import DynamicBuckets, KeyShare, assigner_channels, assigner_of
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import check_castable, conform_batch
from paimon_pyds.spark.clear_errors import clear_iterator
from paimon_pyds.spark.options import BUCKET_COLUMN
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHOLE_NUMBERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)


def bucket(df: DataFrame, table: Table | str) -> Column:
    """The bucket of each row in a table with fixed buckets, as the writer computes it.

    ``df.repartition(n, bucket(df, table))`` brings the rows of a bucket to one task, which then writes one file of them
    (more where they exceed ``target-file-size``). Add the partition columns where the table has some. The writer
    goes by the number of buckets that a partition has; where that is another one than the option says, rows of one
    bucket come to several tasks, and to as many files.

    Args:
        df: classic or Connect, with the table's bucket key; a key column that is missing has its default, or NULL.
        table: the table, or its path.

    Returns:
        INT, 0 … bucket-1.

    Raises:
        UnsupportedError: the table has no fixed buckets.
        SchemaError: a column that does not fit the key's type; values that don't fit are refused when Spark runs.
    """
    opened = table if isinstance(table, Table) else Table.open(table)
    count = int(opened.schema.options.get("bucket", "-1"))
    if count < 1:
        raise UnsupportedError(
            f"bucket={count}: no function of a row gives its bucket",
            path=opened.path,
            hint="this is for tables with bucket=1 or more; paimon_pyds.spark.write distributes the rows of others",
        )
    return _bucket_column(df, opened.write_context())


def distributed(df: DataFrame, context: WriteContext) -> tuple[DataFrame, dict[str, str]]:
    """The rows shuffled so that those of a bucket come to one task, and options of the write that follow from that.

    As they are, where the table has no buckets. Of rows with one key, those in one partition of the DataFrame
    keep their order.
    """
    if int(context.options.get("bucket")) > 0:
        return df.repartition(*partition_columns(df, context), _bucket_column(df, context)), {}
    if context.schema.has_dynamic_buckets and not {_PLACE, _ORDER, BUCKET_COLUMN} & set(df.columns):
        rows = _with_dynamic_buckets(df, context)
        options = {"assigned-buckets": context.index_manifest or ""}
        return rows.repartition(*partition_columns(rows, context), BUCKET_COLUMN), options
    return df, {}


_PLACE, _ORDER = "__paimon_place", "__paimon_order"
"""The assigner and the hash of a row's key, as one number; and where the row is in the DataFrame."""


def _with_dynamic_buckets(df: DataFrame, context: WriteContext) -> DataFrame:
    """The rows with the dynamic bucket of each.

    Each assigner has all rows of its keys, and puts new keys into buckets in the order of their hashes: so Spark, which
    may compute a part of the rows again, finds each of them the same bucket then.
    """
    schema, options = context.schema, context.options
    keys = KeyColumns(df, context, schema.primary_keys)
    channels = assigner_channels(options, parallelism(df))
    types_ = [schema.field(name).type for name in schema.trimmed_primary_keys]

    def places(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for arrays in batches:
            rows = keys.rows(arrays)
            hashes = hash_rows([rows.column(name) for name in schema.trimmed_primary_keys], types_)
            channel = assigner_of(schema, options, rows, channels).astype(np.int64)
            yield from_numpy(channel << 32 | hashes.view(np.uint32))

    def buckets(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        current, router = -1, None
        for place, *arrays in batches:
            rows = keys.rows(arrays)
            found = np.empty(rows.num_rows, np.int32)
            numbers = to_numpy(place) >> 32
            edges = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
            for start, stop in pairwise([0, *edges, rows.num_rows] if rows.num_rows else ()):
                if numbers[start] != current or router is None:
                    current = int(numbers[start])
                    share = KeyShare(current, channels)
                    router = Router(schema, DynamicBuckets(schema, options, hash_index(context), share))
                found[start:stop] = router.assigned(rows.slice(start, stop - start))[2]
            yield from_numpy(found)

    place = compat.arrow_column(_clear(places), keys.arguments, "bigint")
    placed = df.withColumn(_PLACE, place).withColumn(_ORDER, F.monotonically_increasing_id())
    spread = compat.repartition_by_number(placed, channels, F.shiftright(_PLACE, 32).cast("int"))
    in_order = spread.sortWithinPartitions(_PLACE, _ORDER)
    arguments = [(F.col(_PLACE), types.LongType()), *keys.arguments]
    bucket = compat.arrow_column(_clear(buckets), arguments, "int", deterministic=False)
    return in_order.withColumn(BUCKET_COLUMN, bucket).drop(_PLACE, _ORDER)


def _clear(function: compat.ArrowFunction) -> compat.ArrowFunction:
    return wraps(function)(lambda batches: clear_iterator(function(batches)))


def parallelism(df: DataFrame) -> int:
    """How many tasks run at once, as Spark cuts a range."""
    ranges = df.sparkSession.range(1 << 16).select(F.spark_partition_id().alias("part"))
    return int(ranges.agg(F.max("part")).collect()[0][0]) + 1


class KeyColumns:
    """Columns of a DataFrame that belong to columns of a table, as functions of Arrow get and need them. ``df``: the
    rows. ``names``: the table's columns.
    Raises SchemaError: a column that does not fit the table's, or is missing and NOT NULL."""

    def __init__(self, df: DataFrame, context: WriteContext, names: Sequence[str]) -> None:
        given = df.columns
        at = {name: find_name(given, name) for name in names}
        self.given = {name: df.schema.fields[i] for name, i in at.items() if i is not None}
        self._wanted = arrow_schema([context.schema.field(name) for name in self.given])
        source = compat.target_schema(types.StructType(list(self.given.values())))
        for arrived, wanted in zip(source, self._wanted, strict=True):
            check_castable(arrived.type, wanted.type, wanted.name)
        self._conformer = context.conformer(names)
        match_columns(list(self.given), [context.schema.field(name) for name in names], context.root)

    @property
    def arguments(self) -> list[tuple[Column, types.DataType]]:
        """The columns and their types."""
        return [(_column(field.name), field.dataType) for field in self.given.values()]

    def rows(self, arrays: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of all the table's columns that were named, from arrays of the given ones."""
        given = pa.RecordBatch.from_arrays(list(arrays), names=self._wanted.names)
        return self._conformer.conform(conform_batch(given, self._wanted))


def partition_columns(df: DataFrame, context: WriteContext) -> list[Column]:
    """The columns of a DataFrame that the table is partitioned by."""
    names = df.columns
    found = [find_name(names, name) for name in context.schema.partition_keys]
    return [_column(names[at]) for at in found if at is not None]


def _bucket_column(df: DataFrame, context: WriteContext) -> Column:
    fields = [context.schema.field(name) for name in context.schema.bucket_keys]
    keys = KeyColumns(df, context, context.schema.bucket_keys)
    if str(context.options.get("bucket-function.type")).lower() == "mod":
        for column, type_ in keys.arguments:
            if isinstance(type_, _WHOLE_NUMBERS) and fields[0].default is None:
                count = F.lit(int(context.options.get("bucket")))
                return F.pmod(F.coalesce(column.cast("bigint"), F.lit(0)), count).cast("int")
    assigner = bucket_assigner(context.schema, context.options)

    def numbers(rows: pa.RecordBatch) -> pa.Array:
        return from_numpy(assigner.assign(PartitionedRows(rows, [EMPTY_ROW], np.zeros(rows.num_rows, np.int64))))

    def buckets(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return (numbers(keys.rows(arrays)) for arrays in batches)

    if not keys.given:
        defaults = [pa.repeat(default_value(field), 1) for field in fields]
        return F.lit(numbers(pa.RecordBatch.from_arrays(defaults, schema=arrow_schema(fields)))[0].as_py())
    return compat.arrow_column(_clear(buckets), keys.arguments, "int")


def _column(name: str) -> Column:
    """By name only: Connect sends a request to its server for a column of a DataFrame."""
    return F.col("`" + name.replace("`", "``") + "`")
