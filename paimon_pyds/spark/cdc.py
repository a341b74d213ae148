"""Messages of a change stream in a DataFrame → a DataFrame of rows: tasks convert them by `paimon_pyds.ops.cdc`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types

from paimon_pyds.base.arrays import array
from paimon_pyds.base.types import DataField
from paimon_pyds.errors import SchemaError
from paimon_pyds.ops.cdc.convert import Converter, Tool, message_columns
from paimon_pyds.ops.cdc.messages import CdcOptions
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import conform_batch
from paimon_pyds.spark.clear_errors import clear_iterator
from paimon_pyds.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POSITION = "__paimon_position"


class ChangesOfFrame:
    """The changes in the messages of a DataFrame.

    Args:
        df: classic or Connect.
        tool: what sent the messages.
        value: the column that has them.
        options: how they are read.
    """

    def __init__(self, df: DataFrame, tool: Tool, value: str, options: CdcOptions) -> None:
        self._df = df
        self._tool = tool
        self._value = value
        self._options = options

    def columns(self, fields: Sequence[DataField]) -> list[tuple[str, str]]:
        """The columns that the messages bring into a table of these, with their types: a query of its own."""
        tool, options = self._tool, self._options

        def found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            columns = message_columns(tool, fields, options, (batch.column(0) for batch in batches))
            names = [array([column[i] for column in columns], pa.string()) for i in (0, 1)]
            yield pa.RecordBatch.from_arrays(names, names=["name", "type"])

        rows = self._selected(()).mapInArrow(lambda b: clear_iterator(found(b)), "name string, type string")
        return sorted({(row["name"], row["type"]) for row in rows.collect()})

    def converted(
        self, fields: Sequence[DataField], rowkind_column: str, carry: Sequence[str], order_by: Sequence[str]
    ) -> DataFrame:
        """The rows, in the order of the messages within each partition; with ``order_by`` those of a key are in one
        partition, in the order of these columns."""
        tool, options = self._tool, self._options
        ordering = [name for name in order_by if name not in carry]
        messages = self._selected((*carry, *ordering))
        along = messages.schema.fields[1:]
        kind = types.StructField(rowkind_column, types.StringType(), False)
        position = types.StructField(_POSITION, types.LongType(), False)
        columns = [types.StructField(f.name, f.dataType) for f in spark_schema(fields).fields]
        schema = types.StructType([*columns, kind, *along, position])
        carried = compat.target_schema(types.StructType(along))
        target = compat.target_schema(schema)

        def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            converter, number = Converter(tool, fields, options, rowkind_column, carried), 0
            for batch in batches:
                for made in converter.convert(batch.column(0), batch.select(range(1, batch.num_columns))):
                    positions = array(range(number, number + made.num_rows), pa.int64())
                    number += made.num_rows
                    yield conform_batch(made.append_column(_POSITION, positions), target)

        found = messages.mapInArrow(lambda batches: clear_iterator(rows(batches)), schema)
        if order_by:
            found = found.repartition(*map(_quoted, options.keys)).sortWithinPartitions(
                *map(_quoted, order_by), _POSITION
            )
        return found.drop(_POSITION, *ordering)

    def _selected(self, more: Sequence[str]) -> DataFrame:
        for name in (self._value, *more):
            if name not in self._df.columns:
                raise SchemaError(
                    f"the data has no column {name!r}: it has {', '.join(self._df.columns)}", path=self._options.path
                )
        return self._df.select(*map(_quoted, (self._value, *more)))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
