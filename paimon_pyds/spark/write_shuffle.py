"""What `paimon_pyds.spark.write` does before it writes: rows are shuffled to the tasks that are to write them.

That needs the table. A client of Spark Connect may not see the files that its server sees: tasks look at them then.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.errors import NotFoundError, PaimonError, StorageError, TableNotFoundError
from paimon_pyds.ops.ddl.create import TakeBack, unmade_on_failure
from paimon_pyds.ops.ddl.merge_schema import merge_columns
from paimon_pyds.spark import compat
from paimon_pyds.spark.catalogs import open_table, taking_back_of
from paimon_pyds.spark.executor import SparkExecutor
from paimon_pyds.spark.options import BUCKET_COLUMN, WriteOptions, parse_write_options
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from paimon_pyds.metadata.store import TableStore

_OF_OVERWRITES = ("overwrite-partition", "dynamic-partition-overwrite")


@dataclass(slots=True)
class Prepared:
    """A DataFrame that is ready to be written.

    Attributes:
        rows: shuffled, where that helps.
        options: of the write, besides those that were given.
        table: one whose buckets are to be compacted afterwards, and whose old snapshots expire then.
        before: the number of its latest snapshot.
        own: the table options of the write.
        made: a table of a catalog that was made for this write.
        take_back: what takes that away again.
        places_keys: keys were looked for, so that the write has to begin again where another commit has written some.
        changed: a table of which the write may replace rows, and does not only add some.
    """

    rows: DataFrame
    options: dict[str, str]
    table: Table | None = None
    before: int = 0
    own: Mapping[str, str] = field(default_factory=dict)
    made: Table | None = None
    take_back: TakeBack | None = None
    places_keys: bool = False
    changed: TableStore | None = None

    def unmade_on_failure(self) -> AbstractContextManager[None]:
        """Surrounds the write: where it fails, the table that was made for it goes again."""
        return nullcontext() if self.made is None else unmade_on_failure(self.made._store, self.take_back)


def prepared(df: DataFrame, options: Mapping[str, str], mode: str) -> Prepared:
    """A DataFrame made ready for ``df.write`` with some options. A missing table of a catalog is made.

    Faults of the options or the rows are left to the write, which raises them.
    """
    from paimon_pyds.spark.writer import dynamic_options

    overwrite = mode != "append"
    made: Table | None = None
    take_back: TakeBack | None = None
    try:
        parsed = parse_write_options({name.lower(): text for name, text in options.items()}, overwrite=overwrite)
        if parsed.operation:
            return Prepared(df, {})
        try:
            table = open_table(parsed)
        except TableNotFoundError:
            if parsed.catalog is None:
                return _prepared_elsewhere(df, parsed, overwrite=overwrite)
            _make(df, parsed, options)
            table = made = open_table(parsed)
            take_back = taking_back_of(parsed)
        own = dynamic_options(table, parsed)
        merge_columns(table._store, [compat.target_schema(df.schema)], own, parsed.not_stored)
        context = table.write_context(own, overwrite=overwrite)
        ready = Prepared(*_shuffled(df, context, LocalExecutor(), overwrite=overwrite), made=made, take_back=take_back)
        ready.places_keys = context.schema.crosses_partitions and not overwrite
        if overwrite or table.primary_key:
            ready.changed = table._store
        if table.primary_key and not TableOptions({**table.options, **own}).get("write-only"):
            ready.options["write-only"] = "true"
            ready.table, ready.before, ready.own = table, table._store.latest_snapshot_id() or 0, own
        return ready
    except PaimonError as error:
        if compat.is_connect(df) and isinstance(error, NotFoundError | StorageError):
            warnings.warn(
                f"rows are written without a shuffle, as this client can't open the table: {error}. Give it a catalog "
                "that shows it the tables that the server sees, or run paimon_pyds.spark.write where they are",
                RuntimeWarning,
                stacklevel=3,
            )
        return Prepared(df, {}, made=made, take_back=take_back)


def _make(df: DataFrame, parsed: WriteOptions, options: Mapping[str, str]) -> None:
    """Make the table of a catalog by a write of no rows: the server of Connect may see other files than this client."""
    from pyspark.sql import functions as F

    from paimon_pyds.spark.writer import new_schema

    own, empty = {name: text for name, text in options.items() if name.lower() not in _OF_OVERWRITES}, df.limit(0)
    if new_schema(df.schema, parsed).crosses_partitions:
        own["assigned-buckets"], empty = "", empty.withColumn(BUCKET_COLUMN, F.lit(0))
    path = own.pop("path")
    empty.write.format("paimon_pyds").mode("append").options(**own).save(path)


def _prepared_elsewhere(df: DataFrame, parsed: WriteOptions, *, overwrite: bool) -> Prepared:
    """The same for a path where this process sees no table: it is made by the write, or only Connect's server sees it.
    Its buckets are compacted by the process that commits."""
    from paimon_pyds.spark.writer import new_context

    executor: Executor = LocalExecutor()
    context: WriteContext | None = None
    if compat.is_connect(df):
        executor = SparkExecutor(df.sparkSession)
        (context,) = executor.map(partial(_context_of, overwrite), [parsed])
    context = context or new_context(df.schema, parsed)
    ready = Prepared(*_shuffled(df, context, executor, overwrite=overwrite))
    ready.places_keys = context.schema.crosses_partitions and not overwrite
    return ready


def _context_of(overwrite: bool, options: WriteOptions) -> WriteContext | None:
    """The table at a path as it is written to; None where none is. Raises what the write would raise."""
    from paimon_pyds.spark.writer import dynamic_options

    try:
        table = open_table(options)
    except TableNotFoundError:
        return None
    return table.write_context(dynamic_options(table, options), overwrite=overwrite)


def _shuffled(
    df: DataFrame, context: WriteContext, executor: Executor, *, overwrite: bool
) -> tuple[DataFrame, dict[str, str]]:
    """Rows brought to the tasks that write them, and options of the write that follow from that; ``executor`` sees the
    table's files."""
    if not context.schema.crosses_partitions:
        from paimon_pyds.spark.distribution import distributed

        return distributed(df, context)
    from paimon_pyds.spark.moving_keys import HIDDEN, placed

    return (df, {}) if HIDDEN & set(df.columns) else placed(df, context, executor, overwrite=overwrite)
