"""Which task of Spark gets which rows: the bucket of each row as a column, and the shuffle before a write.

Spark asks a Python data source for no distribution of the rows that it writes, so without a shuffle each task may have
rows of any bucket, and writes a file of its own for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types

from paimon_pyds.bucket import BucketAssigner, PartitionedRows, bucket_assigner
from paimon_pyds.buffers import from_numpy
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.row import EMPTY_ROW
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import check_castable, conform_batch
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.table import Table
from paimon_pyds.types import arrow_schema
from paimon_pyds.write.conform import default_value
from paimon_pyds.write.context import WriteContext
from paimon_pyds.write.nested import find_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHOLE_NUMBERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)


def bucket(df: DataFrame, table: Table | str) -> Column:
    """The bucket of each row in a table with fixed buckets, as the writer computes it.

    ``df.repartition(n, bucket(df, table))`` brings the rows of a bucket to one task, which then writes one file of them
    (more where they exceed ``target-file-size``). Partition columns go beside it where the table has some.

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
            f"bucket={count}: no function of a row tells its bucket",
            path=opened.path,
            hint="this is for tables with bucket=1 or more; paimon_pyds.spark.write distributes the rows of others",
        )
    return _bucket_column(df, opened.write_context())


def by_bucket(df: DataFrame, context: WriteContext) -> DataFrame:
    """The rows shuffled so that those of a bucket come to one task; as they are, where the table has no fixed buckets.

    Rows that lie in one partition of the DataFrame keep their order.
    """
    if int(context.options.get("bucket")) < 1:
        return df
    names = df.columns
    found = [find_name(names, name) for name in context.schema.partition_keys]
    partition = [df[_quoted(names[at])] for at in found if at is not None]
    return df.repartition(*partition, _bucket_column(df, context))


def _bucket_column(df: DataFrame, context: WriteContext) -> Column:
    fields = [context.schema.field(name) for name in context.schema.bucket_keys]
    names = df.columns
    found = {field.name: find_name(names, field.name) for field in fields}
    present = {field.name: df.schema.fields[at] for field in fields if (at := found[field.name]) is not None}
    columns = {name: df[_quoted(field.name)] for name, field in present.items()}
    count = int(context.options.get("bucket"))
    if str(context.options.get("bucket-function.type")).lower() == "mod":
        for name, column in columns.items():
            if isinstance(present[name].dataType, _WHOLE_NUMBERS):
                return F.pmod(F.coalesce(column.cast("bigint"), F.lit(0)), F.lit(count)).cast("int")
    assigner = bucket_assigner(context.schema, context.options)
    if not columns:
        defaults = [pa.repeat(default_value(field), 1) for field in fields]
        rows = pa.RecordBatch.from_arrays(defaults, schema=arrow_schema(fields))
        return F.lit(_buckets(assigner, rows)[0].as_py())
    incoming = pa.schema([field for field in arrow_schema(fields) if field.name in present])
    source = compat.target_schema(types.StructType(list(present.values())))
    for arrived, wanted in zip(source, incoming, strict=True):
        check_castable(arrived.type, wanted.type, wanted.name)
    conformer = context.conformer(context.schema.bucket_keys)

    @clear_errors
    def function(*arrays: pa.Array) -> pa.Array:
        given = pa.RecordBatch.from_arrays(list(arrays), names=incoming.names)
        return _buckets(assigner, conformer.conform(conform_batch(given, incoming)))

    arguments = [(column, present[name].dataType) for name, column in columns.items()]
    return compat.arrow_column(function, arguments, "int")


def _buckets(assigner: BucketAssigner, rows: pa.RecordBatch) -> pa.Array:
    return from_numpy(assigner.assign(PartitionedRows(rows, [EMPTY_ROW], np.zeros(rows.num_rows, np.int64))))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
