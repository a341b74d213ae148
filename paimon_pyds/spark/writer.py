"""Writing for Spark: the table is made and the columns are matched on the driver, files are written in tasks, and the
driver publishes all of them as one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.errors import AlreadyExistsError, OptionError, TableNotFoundError
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.options import restore_case
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import check_castable, conform_batch
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.spark.options import WriteOptions
from paimon_pyds.spark.two_phase import PaimonCommitMessage, TwoPhaseWriter
from paimon_pyds.spark.types import fields_from_spark
from paimon_pyds.table import Table
from paimon_pyds.types import DataField, arrow_schema, positions_named
from paimon_pyds.write import TableWriter, WriteContext
from paimon_pyds.write.conform import match_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["PaimonWriter", "dynamic_options", "open_writer"]


class PaimonWriter(TwoPhaseWriter[PaimonCommitMessage]):
    """Writes a DataFrame's rows into a table. Made by `open_writer`; it is pickled into every task.

    Attributes:
        context: the table as it is written to.
        incoming: what batches are converted to: the DataFrame's columns under the table's names and types.
        external: files outside of the table that a commit may read.
        how: arguments of `Table.commit`. Not all options of the write: tasks need no credentials of the driver's.
    """

    def __init__(
        self, context: WriteContext, incoming: pa.Schema, external: ExternalPaths, how: Mapping[str, Any]
    ) -> None:
        super().__init__(context, PaimonCommitMessage, external)
        self._incoming = incoming
        self._how = how

    @clear_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PaimonCommitMessage:
        """Write a task's rows into new files. Nothing is visible until `commit`; on an error they are removed."""
        with TableWriter(self._context) as writer:
            for batch in iterator:
                renamed = batch.rename_columns(self._incoming.names)
                writer.write(conform_batch(renamed, self._incoming))
            return PaimonCommitMessage(writer.prepare_commit())

    def _publish(self, messages: Sequence[PaimonCommitMessage]) -> None:
        Table(self._store()).commit(
            [m.message for m in messages if m.message is not None],
            options=self._context.dynamic_options,
            **self._how,
        )


# ---------------------------------------------------------------------------------------------------- on the driver


def open_writer(schema: StructType, options: WriteOptions, *, overwrite: bool) -> PaimonWriter:
    """The writer for a DataFrame of this schema; makes the table when it is missing.

    Raises:
        TableNotFoundError: there is no table, and ``create-if-missing`` is off.
        SchemaError: columns that do not fit the table.
        OptionError, UnsupportedError: options that do not fit it, or are refused.
    """
    table, dynamic = _table(schema, options)
    context = table.write_context(dynamic)
    fields = context.schema.fields
    if options.partition is not None:
        _check_partition(options.partition, context.schema.partition_keys)
    names = _renamed(schema.fieldNames(), fields, table.path)
    source = compat.target_schema(schema)
    targets = {f.name: f for f in arrow_schema(fields)}
    for name, column in zip(names, source, strict=True):
        check_castable(column.type, targets[name].type, name)
    incoming = pa.schema([targets[name] for name in names])
    how = {"overwrite": overwrite, "partition": options.partition, "dynamic": options.dynamic}
    return PaimonWriter(context, incoming, table.store.external, how)


def _table(schema: StructType, options: WriteOptions) -> tuple[Table, Mapping[str, str]]:
    """The table to write to, and the options that hold for this write only."""
    try:
        table = Table.open(options.path, options.branch, options.storage)
    except TableNotFoundError:
        if not options.create or options.branch not in (None, "main"):
            raise
        try:
            return _created(schema, options), {}
        except AlreadyExistsError:  # another writer has created it concurrently
            table = Table.open(options.path, options.branch, options.storage)
    return table, dynamic_options(table, options)


def _created(schema: StructType, options: WriteOptions) -> Table:
    fields = fields_from_spark(schema)
    names = [f.name for f in fields]
    partition_by = tuple(_exact(name, names, "partition-by") for name in options.partition_by or ())
    return Table.create(
        options.path,
        fields,
        partition_by=partition_by,
        options=restore_case(options.table, names),
        comment=options.comment,
        storage_options=options.storage,
    )


def dynamic_options(table: Table, options: WriteOptions) -> dict[str, str]:
    """Options of this write on a table that is there, for `Table.write_context` to check.

    Raises:
        OptionError: the table is partitioned otherwise.
    """
    schema = table.schema
    requested = options.partition_by
    if requested is not None and [n.casefold() for n in requested] != [n.casefold() for n in schema.partition_keys]:
        raise OptionError(
            f"partition-by is {', '.join(requested) or 'empty'}, and the table is partitioned by "
            f"{', '.join(schema.partition_keys) or 'nothing'}",
            path=table.path,
            hint="a table's partitions are fixed when it is created; leave the option out",
        )
    return restore_case(options.table, [f.name for f in schema.fields])


def _exact(name: str, names: Sequence[str], option: str) -> str:
    found = positions_named(name, names)
    if len(found) == 1:
        return names[found[0]]
    raise OptionError(f"{option} names {name!r}, which is not a column", hint=f"the DataFrame has {', '.join(names)}")


def _check_partition(partition: Mapping[str, str | None], keys: Sequence[str]) -> None:
    unknown = [name for name in partition if name not in keys]
    if unknown:
        raise OptionError(
            f"overwrite-partition names {unknown[0]!r}, which is no partition column",
            hint=f"the table is partitioned by {', '.join(keys) or 'nothing'}",
        )


def _renamed(names: Sequence[str], fields: Sequence[DataField], table: str) -> list[str]:
    """The table's spelling of the DataFrame's columns, in the DataFrame's order. Raises SchemaError."""
    found = match_columns(names, fields, table)
    spelled = {at: field.name for field, at in zip(fields, found, strict=True) if at is not None}
    return [spelled[i] for i in range(len(names))]
