"""Rows for a table whose key may be in any partition, joined on Spark with where their keys are.

The keys of the table are read by tasks of Spark, as rows (key, partition, bucket), and shuffled by key together with
the rows to write. So a task has all rows of its keys, and knows where these were before: it says where each row goes,
and adds deletes where keys move. The result is shuffled by partition and bucket, and written as it is.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types

from paimon_pyds.base.absent_fields import with_left_out
from paimon_pyds.base.arrays import array, from_numpy, pc, scalar, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import encode_rows
from paimon_pyds.base.types import DataField, arrow_type
from paimon_pyds.base.types.kinds import FLOAT_KINDS, Kind
from paimon_pyds.base.types.nested import find_name
from paimon_pyds.engine.cross_partition.key_places import KeyPlaces
from paimon_pyds.engine.cross_partition.placement import NewBuckets, Placement, Places
from paimon_pyds.engine.execution.executor import Executor
from paimon_pyds.engine.read import read_split
from paimon_pyds.engine.write.context import WriteContext
from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN, IncomingRows
from paimon_pyds.errors import CommitError
from paimon_pyds.keys.bucket.dynamic import assigner_channels
from paimon_pyds.keys.merge.key_set import between
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import conform_batch
from paimon_pyds.spark.clear_errors import clear_iterator
from paimon_pyds.spark.distribution import KeyColumns, parallelism, partition_columns
from paimon_pyds.spark.options import BUCKET_COLUMN
from paimon_pyds.spark.types import spark_field
from paimon_pyds.spark.writer import incoming_columns
from paimon_pyds.sql.predicate.tree import Const, Predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY, _ORDER, _CHANNEL, _PARTITION, _ROW, _KINDS = (
    f"__paimon_{name}" for name in ("key", "order", "channel", "partition", "row", "row_kind")
)
HIDDEN = frozenset({_KEY, _ORDER, _CHANNEL, _PARTITION, _ROW, _KINDS, BUCKET_COLUMN})
"""Columns that are added on the way: no DataFrame to write may have one."""
_PLACES = f"{_KEY} binary, {_PARTITION} binary, {BUCKET_COLUMN} int"
_MOST_TASKS = 1000
"""Tasks that read keys, at most."""
_WITH_ENDS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType, types.DateType, types.StringType)


def placed(
    df: DataFrame, context: WriteContext, executor: Executor, *, overwrite: bool
) -> tuple[DataFrame, dict[str, str]]:
    """The rows with the partition and bucket that they go to, and deletes; and options of their write.

    ``df``: rows to write, without `HIDDEN` columns. ``executor``: its tasks see the table's files. ``overwrite``: the
    rows replace all others.
    Raises SchemaError: columns that don't fit the table.
    """
    store = TableStore(context.io, context.root, context.branch)
    snapshot = None if overwrite else next(executor.map(_latest, [store]))
    places = KeyPlaces.of(store, context, snapshot)
    given, (context, df, kinds) = df, _completed(context, df)
    absent = tuple(name for name in df.columns if name != kinds and name not in given.columns)
    keys = KeyColumns(df, context, context.schema.primary_keys)

    def key_bytes(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return clear_iterator(_key_bytes(keys.rows(arrays), context.schema) for arrays in batches)

    key = compat.arrow_column(key_bytes, keys.arguments, "binary")
    both = df.withColumn(_KEY, key).withColumn(_ORDER, F.monotonically_increasing_id())
    ends = None
    if snapshot is not None:
        ends = _key_ends(given, keys, places.first_key)
        both = both.unionByName(_known_keys(df, places, ends, executor), allowMissingColumns=True)
    else:
        both = both.withColumn(_PARTITION, F.lit(None).cast("binary")).withColumn(BUCKET_COLUMN, F.lit(0))
    channels = assigner_channels(context.options, parallelism(df))
    both = both.withColumn(_CHANNEL, F.pmod(F.hash(_KEY), F.lit(channels)))
    spread = compat.repartition_by_number(both, channels, F.col(_CHANNEL))
    in_order = spread.sortWithinPartitions(F.col(_CHANNEL), F.col(_KEY), F.col(_ORDER).asc_nulls_first())
    others = {kinds: pa.field(kinds, pa.string())}
    incoming = incoming_columns(df.schema, context, others)
    placing = _Placing(context, incoming, kinds, absent, places, channels, ends)
    plain = [f"c{n}" for n in range(len(df.columns))]  # mapInArrow takes dots and backticks in names for syntax
    own = [types.StructField(name, field.dataType) for name, field in zip(plain, df.schema.fields, strict=True)]
    added = [types.StructField(BUCKET_COLUMN, types.IntegerType()), types.StructField(_ORDER, types.LongType())]
    named = in_order.toDF(*plain, *in_order.columns[len(plain) :])
    found = named.mapInArrow(placing, types.StructType([*own, *added])).toDF(*df.columns, BUCKET_COLUMN, _ORDER)
    target = [*partition_columns(found, context), F.col(BUCKET_COLUMN)]
    by_bucket = found.repartition(*target).sortWithinPartitions(*target, F.col(_ORDER)).drop(_ORDER)
    options = {"assigned-buckets": "" if snapshot is None else str(snapshot.id)}
    return by_bucket, {**options, ROW_KIND_COLUMN: _KINDS} if kinds == _KINDS else options


def _completed(context: WriteContext, df: DataFrame) -> tuple[WriteContext, DataFrame, str]:
    """The rows with all partition columns and a column with their kinds; and its name."""
    for field in context.schema.partition_fields:
        if find_name(df.columns, field.name) is None:  # it has its default
            df = df.withColumn(field.name, F.lit(None).cast(spark_field(field).dataType))
    named = context.raw_options.get(ROW_KIND_COLUMN) or context.options.get("rowkind.field")
    at = None if named is None else find_name(df.columns, str(named))
    if at is not None and ROW_KIND_COLUMN in context.raw_options:
        exact = {**context.dynamic_options, ROW_KIND_COLUMN: df.columns[at]}
        return replace(context, dynamic_options=exact), df, df.columns[at]
    if at is not None:
        return context, df, df.columns[at]
    exact = {**context.dynamic_options, ROW_KIND_COLUMN: _KINDS}
    return replace(context, dynamic_options=exact), df.withColumn(_KINDS, F.lit("+I")), _KINDS


def _key_ends(df: DataFrame, keys: KeyColumns, field: DataField) -> pa.Array | None:
    """The least and the greatest value of a key column in the rows to write. None where Spark would have to compute
    these rows once more, or where it compares values in another way."""
    given, type_ = keys.given.get(field.name), spark_field(field).dataType
    if given is None or given.dataType != type_ or not isinstance(type_, _WITH_ENDS) or field.default is not None:
        return None
    level = df.storageLevel
    if field.type.kind is Kind.CHAR or not (level.useMemory or level.useDisk):
        return None
    column = keys.arguments[list(keys.given).index(field.name)][0]
    least, greatest = df.agg(F.min(column), F.max(column)).collect()[0]
    return None if least is None else array([least, greatest], arrow_type(field.type))


def _latest(store: TableStore) -> Snapshot | None:
    """The latest snapshot of a table that may not be there yet."""
    return store.latest_snapshot() if store.schema_ids() else None


def _splits(predicate: Predicate, places: KeyPlaces) -> list[bytes]:
    return [pickle.dumps(split) for split in places.plan(predicate).pack()]


def _known_keys(df: DataFrame, places: KeyPlaces, ends: pa.Array | None, executor: Executor) -> DataFrame:
    """The keys of the table, as rows of `_PLACES`, read by tasks of Spark; ``ends``: as `_key_ends`."""
    predicate = Const.TRUE if ends is None else between(places.first_key, ends)
    (splits,) = executor.map(partial(_splits, predicate), [places])
    tasks = df.sparkSession.createDataFrame(pa.table({"split": array(splits, pa.binary())}))
    spread = tasks.repartition(max(1, min(_MOST_TASKS, len(splits))))
    return spread.mapInArrow(partial(_read_keys, places.schema), _PLACES)


def _read_keys(schema: TableSchema, tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    fields = schema.partition_fields
    types_ = [field.type for field in fields]
    for task in (task for batch in tasks for task in batch.column("split")):
        split = pickle.loads(task.as_py())  # noqa: S301 - made on the driver for this task
        for rows in clear_iterator(read_split(split)):
            partitions = encode_rows([rows.column(field.name) for field in fields], types_, arity=True)
            columns = [_key_bytes(rows, schema), partitions, rows.column(BUCKET_COLUMN)]
            yield pa.RecordBatch.from_arrays(columns, names=[_KEY, _PARTITION, BUCKET_COLUMN])


def _key_bytes(rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """The keys of rows as BinaryRows, which are equal where keys are."""
    columns, fields = [], [schema.field(name) for name in schema.primary_keys]
    for field in fields:
        column = rows.column(field.name)
        if field.type.kind in FLOAT_KINDS:
            values = np.array(to_numpy(column)) + 0.0  # both zeros are one key
            values[np.isnan(values)] = np.nan
            column = array(values, column.type)
        elif field.type.kind is Kind.CHAR:
            column = pc.utf8_rtrim(column, " ")
        columns.append(column)
    return encode_rows(columns, [field.type for field in fields], arity=False)


@dataclass(frozen=True, slots=True)
class _Placing:
    """Puts rows where they go, in tasks of Spark: a function for ``mapInArrow``.

    Attributes:
        context: the table as it is written to; names the column of row kinds.
        incoming: what the columns of the DataFrame are converted to.
        kinds: that column.
        absent: partition columns that the DataFrame did not have; they are NULL.
        places: the state that keys were read of.
        channels: how many tasks have keys.
        ends: between which values of the first key column the table's keys were read; None for all.
    """

    context: WriteContext
    incoming: pa.Schema
    kinds: str
    absent: tuple[str, ...]
    places: KeyPlaces
    channels: int
    ends: pa.Array | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows, with their buckets and order, of those and of keys that come before the rows of each key."""
        return clear_iterator(self._all_placed(batches))

    def _all_placed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        incoming, channel = IncomingRows(self.context, _ROW), -1
        placement, last = Placement(self.places.schema, self._buckets(0)), _Last()
        for batch in batches:
            channels = to_numpy(batch.column(_CHANNEL))
            edges = (np.flatnonzero(np.diff(channels)) + 1).tolist()
            for start, stop in pairwise([0, *edges, batch.num_rows] if batch.num_rows else ()):
                if channels[start] != channel:
                    channel = int(channels[start])
                    placement, last = Placement(self.places.schema, self._buckets(channel)), _Last()
                yield self._placed(batch.slice(start, stop - start), incoming, placement, last)

    def _buckets(self, channel: int) -> NewBuckets:
        return NewBuckets(self.context.options, self.places.held, (channel, self.channels))

    def _placed(
        self, batch: pa.RecordBatch, incoming: IncomingRows, placement: Placement, last: _Last
    ) -> pa.RecordBatch:
        keys = batch.column(_KEY)
        begins = np.append(True, to_numpy(pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))))
        numbers = np.cumsum(begins) - 1
        known = batch.column(_PARTITION).is_valid()
        at = np.full(int(numbers[-1]) + 1, -1, np.int64)
        there = np.flatnonzero(to_numpy(known))
        at[numbers[there]] = there
        if int((at >= 0).sum()) < len(there) and not self.places.may_repeat:
            raise self.places.in_two_places()
        where = from_numpy(at)
        where = pc.if_else(pc.less(where, 0), scalar(None, pa.int64()), where)
        old_buckets = pc.fill_null(batch.column(BUCKET_COLUMN).take(where), 0)
        partitions = batch.column(_PARTITION).take(where).cast(pa.binary())  # Spark may send it as large binary
        places = Places(partitions, to_numpy(old_buckets).astype(np.int32))
        if keys[0].as_py() == last.key:
            places = places.beginning(last.place)
        given = batch.select(range(len(self.incoming))).append_column(_ROW, from_numpy(np.arange(batch.num_rows)))
        given = given.filter(pc.invert(known))
        renamed = given.rename_columns([*self.incoming.names, _ROW])
        schema, takes = self.incoming.append(pa.field(_ROW, pa.int64())), self.context.takes_members
        fitting = conform_batch(renamed, schema, takes_members=takes)
        everywhere = np.arange(fitting.num_rows)
        rows = incoming.conform(with_left_out(fitting, {(name,): everywhere for name in self.absent}))
        self._check_ends(rows)
        kept = to_numpy(rows.column(_ROW))
        found = placement.place(rows, numbers[kept], places)
        last.key, last.place = keys[-1].as_py(), found.last
        own = batch.select(range(len(self.incoming))).take(from_numpy(kept))
        named = own.rename_columns(self.incoming.names)
        taken = found.taken(named, self.context.schema, self.kinds).rename_columns(own.schema.names)
        order = to_numpy(batch.column(_ORDER).take(from_numpy(kept[found.rows]))) * 2 + ~found.deletes
        columns = [*taken.columns, from_numpy(found.buckets.astype(np.int32)), from_numpy(order.astype(np.int64))]
        return pa.RecordBatch.from_arrays(columns, names=[*taken.schema.names, BUCKET_COLUMN, _ORDER])

    def _check_ends(self, rows: pa.RecordBatch) -> None:
        """Raises CommitError for a key that was not looked for: it would be taken for a new one."""
        if self.ends is None or not rows.num_rows:
            return
        column = rows.column(self.places.first_key.name)
        inside = pc.and_(pc.greater_equal(column, self.ends[0]), pc.less_equal(column, self.ends[1]))
        if not pc.all(inside).as_py():
            raise CommitError(
                "the DataFrame had other keys when Spark computed a part of it again",
                path=self.places.store.root,
                hint="write it after checkpoint() or localCheckpoint(), which store its rows",
            )


@dataclass(slots=True)
class _Last:
    """The last key that was placed, and where it is now."""

    key: bytes | None = None
    place: PartitionBucket | None = None
