"""Change data capture: messages of Debezium, Canal and Maxwell → rows for a table with a primary key.

    rows = pp.cdc.debezium(messages, table)
    table.append(rows, rowkind_column="rowkind")

Data of Arrow, or what becomes Arrow, gives a reader of Arrow batches; a DataFrame of Spark, classic or Connect, gives a
DataFrame. Rows keep the order of the messages: of several changes of a key the last one holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import pyarrow as pa

from paimon_pyds.base.frames import rows_of
from paimon_pyds.engine.execution.writing import is_merging
from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.ops.cdc.convert import Converter, Tool, message_columns
from paimon_pyds.ops.cdc.messages import CdcOptions
from paimon_pyds.ops.ddl.merge_schema import merge_named_types
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["CdcArguments", "canal", "debezium", "maxwell"]
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "missing_columns": ("refuse", "null"),
    "unknown_fields": ("refuse", "ignore"),
    "truncate": ("refuse", "ignore"),
    "decimals": ("text", "base64"),
    "binary": ("base64", "base64-url-safe", "hex", "latin-1"),
    "time_unit": ("ms", "us", "ns"),
}


class CdcArguments(TypedDict, total=False):
    """Arguments for all tools."""

    value: str
    """The column of the data that has the messages, as texts or UTF-8; ``value`` by default, as Kafka's."""
    source: str | None
    """The table whose changes are taken: ``table``, ``database.table``, or ``database.schema.table``. When None,
    messages about a second table are refused."""
    add_columns: bool | None
    """Add columns to the table for fields that it lacks, before the rows are converted, and widen types where its
    option ``write.merge-schema.type-widening`` says so. When None: as its option ``write.merge-schema`` says. All
    messages are read twice then (by Spark: in a query of its own), those of Arrow into memory."""
    unknown_fields: Literal["refuse", "ignore"]
    """How fields without a column are treated; refused by default."""
    missing_columns: Literal["refuse", "null"]
    """How columns without a field are treated: refused by default, unless they have a default; with ``null`` they are
    NULL, or their default. Deletes need their key only."""
    before_images: bool | None
    """Whether updates give the row before them, too, with ``-U``. When None: where the table needs it, with
    changelog-producer=input or merge-engine=aggregation."""
    truncate: Literal["refuse", "ignore"]
    """How a message that the source table was emptied or dropped is treated; refused by default."""
    zone: str | None
    """The time zone of wall-clock times that go into columns of instants (TIMESTAMP WITH LOCAL TIME ZONE), and to which
    instants are converted that go into columns without a zone. When None both are refused."""
    rowkind_column: str
    """The name of the column with the kinds; ``rowkind`` by default."""
    carry: Sequence[str]
    """Columns of the data that go along with the rows, such as Kafka's ``offset``; after all others."""
    order_by: Sequence[str]
    """For DataFrames: columns of the data by which the changes of a key are brought into their order, such as
    ``["offset"]``, where a key's messages are in several of its partitions. Rows are shuffled by key then."""


def debezium(
    data: Any,
    table: Table | str,
    *,
    decimals: Literal["text", "base64"] | None = None,
    binary: Literal["base64", "base64-url-safe", "hex"] = "base64",
    time_unit: str | Mapping[str, str] | None = None,
    **arguments: Unpack[CdcArguments],
) -> Any:
    """The changes in messages of Debezium (JSON, with or without the part that is a schema) as rows for a table.

    Inserts and rows of a snapshot are ``+I``, updates ``+U``, deletes ``-D``; an update that changes the key is ``-D``
    of the old and ``+I`` of the new one. Messages that are NULL are skipped. Rows that the transform
    ExtractNewRecordState has taken out of their envelopes need its field ``__op`` or ``__deleted``.

    Args:
        data: a DataFrame of Spark; data of Arrow or that becomes Arrow (see `paimon_pyds.Table.append`); an array of
            Arrow or a list of texts or bytes.
        table: the table, or its path. Its columns are the result's, found by their names.
        decimals: for messages without a schema: ``text`` where Debezium's decimal.handling.mode is string, ``base64``
            where it is precise and the scale is that of the column. When None, texts for decimals are refused.
        binary: Debezium's binary.handling.mode; ``base64`` stands for its default too.
        time_unit: for messages without a schema: what numbers for times count, ``ms``, ``us`` or ``ns``; for all
            fields, or by their names. When None, numbers for times are refused. Dates are days.
        **arguments: see `CdcArguments`.

    Returns:
        A ``pyarrow.RecordBatchReader`` or a DataFrame: the table's columns, the row kind, and what is carried.

    Raises:
        SchemaError: a message that is no change of a row, or a value that does not fit: it names message and field.
            From a reader, or Spark, when the rows are read.
        OptionError: an argument with another value than those it takes.
    """
    own = {"decimals": decimals, "binary": binary, "time_unit": time_unit}
    return _converted("debezium", data, table, own, arguments)


def canal(data: Any, table: Table | str, **arguments: Unpack[CdcArguments]) -> Any:
    """The changes in messages of Canal, or of TiCDC as canal-json, as rows for a table.

    Its values are texts; times of MySQL's TIMESTAMP are in the zone of Canal's server, bytes one character each.

    Args:
        data: as for `debezium`.
        table: the table, or its path.
        **arguments: see `CdcArguments`.

    Returns:
        As `debezium`.

    Raises:
        SchemaError, OptionError: as `debezium`.
    """
    return _converted("canal", data, table, {"decimals": "text", "binary": "latin-1"}, arguments)


def maxwell(data: Any, table: Table | str, **arguments: Unpack[CdcArguments]) -> Any:
    """The changes in messages of Maxwell's daemon as rows for a table.

    Args:
        data: as for `debezium`.
        table: the table, or its path.
        **arguments: see `CdcArguments`.

    Returns:
        As `debezium`.

    Raises:
        SchemaError, OptionError: as `debezium`.
    """
    return _converted("maxwell", data, table, {"decimals": "text", "binary": "base64"}, arguments)


def _converted(
    tool: Tool, data: Any, table: Table | str, own: Mapping[str, Any], arguments: CdcArguments
) -> pa.RecordBatchReader | Any:
    given: dict[str, Any] = {**arguments, **own}
    unknown = given.keys() - CdcArguments.__annotations__.keys() - own.keys()
    if unknown:
        raise TypeError(f"{tool}() got an unexpected keyword argument {min(unknown)!r}")
    opened = table if isinstance(table, Table) else Table.open(table)
    value, adds = given.pop("value", "value"), given.pop("add_columns", None)
    kinds, carry = given.pop("rowkind_column", "rowkind"), tuple(given.pop("carry", ()))
    order_by = tuple(given.pop("order_by", ()))
    options = _options(opened, given)
    of_spark = type(data).__module__.startswith("pyspark.")
    if adds is None:
        adds = is_merging(opened._store, None) and not (of_spark and data.isStreaming)
    if of_spark:
        from paimon_pyds.spark.cdc import ChangesOfFrame

        if (adds or order_by) and data.isStreaming:
            name = "add_columns" if adds else "order_by"
            raise OptionError(f"{name} is for DataFrames that end", hint="call it in the function of foreachBatch")
        frame = ChangesOfFrame(data, tool, value, options)
        if adds:
            merge_named_types(opened._store, frame.columns(opened.schema.fields))
        return frame.converted(opened.schema.fields, kinds, carry, order_by)
    if order_by:
        raise OptionError("order_by is for DataFrames of Spark", hint="the rows of Arrow come in the order of the data")
    schema, batches = _messages(data, value, carry, opened.path)
    if adds:
        read = list(batches)
        columns = message_columns(tool, opened.schema.fields, options, (batch.column(0) for batch in read))
        merge_named_types(opened._store, columns)
        batches = iter(read)
    converter = Converter(tool, opened.schema.fields, options, kinds, pa.schema([schema.field(n) for n in carry]))
    rows = (made for batch in batches for made in converter.convert(batch.column(0), batch.select(list(carry))))
    return pa.RecordBatchReader.from_batches(converter.schema, rows)


def _options(table: Table, given: dict[str, Any]) -> CdcOptions:
    for name, choices in _CHOICES.items():
        found = given.get(name)
        for one in found.values() if isinstance(found, Mapping) else () if found is None else (found,):
            if one not in choices:
                raise OptionError(f"{name} is {' or '.join(choices)}, not {one!r:.100}")
    if given.get("before_images") is None:
        stored = table.options
        by_input = stored.get("changelog-producer") == "input"
        given["before_images"] = by_input or stored.get("merge-engine") == "aggregation"
    return CdcOptions(path=table.path, keys=tuple(table.primary_key), **given)


def _messages(data: Any, value: str, carry: Sequence[str], path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Batches whose first column has the messages."""
    if isinstance(data, Sequence) and all(isinstance(text, str | bytes | None) for text in data):
        texts = [text.encode() if isinstance(text, str) else text for text in data]
        data = pa.RecordBatch.from_arrays([pa.array(texts, pa.binary())], names=[value])  # noqa: TID251
    elif isinstance(data, pa.Array | pa.ChunkedArray):
        data = pa.Table.from_arrays([data], names=[value])
    schema, batches = rows_of(data)
    if schema is None:
        return pa.schema([]), iter(())
    for name in (value, *carry):
        if name not in schema.names:
            raise SchemaError(f"the data has no column {name!r}: it has {', '.join(schema.names)}", path=path)
    return schema, (batch.select([value, *carry]) for batch in batches)
