"""Texts of a change stream → batches with a table's columns and the kind of each row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.text import names_text
from paimon_pyds.base.types import DataField, arrow_schema, arrow_type
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError, columns_text
from paimon_pyds.ops.cdc.canal import CanalMessages
from paimon_pyds.ops.cdc.debezium import DebeziumMessages
from paimon_pyds.ops.cdc.maxwell import MaxwellMessages
from paimon_pyds.ops.cdc.messages import DELETE, UPDATE_BEFORE, CdcOptions, Changes
from paimon_pyds.ops.cdc.new_columns import MessageColumns
from paimon_pyds.ops.cdc.values import column


class Messages(Protocol):
    """Finds the changes in the messages of one stream."""

    def changes(self, texts: Sequence[str | None], first: int) -> Iterator[Changes]:
        """The changes in messages, of which ``first`` is the number of the first one."""


Tool = Literal["debezium", "canal", "maxwell"]
_TOOLS: Mapping[Tool, Callable[[CdcOptions], Messages]] = {
    "debezium": DebeziumMessages,
    "canal": CanalMessages,
    "maxwell": MaxwellMessages,
}
"""What finds the changes in the messages of each tool."""
_BATCH_MESSAGES = 16_384
"""Messages whose rows are one batch: their JSON is in memory as Python's values."""


class Converter:
    """Converts the messages of one stream, in their order.

    Args:
        tool: what sent them.
        fields: the table's columns.
        options: how the messages are read.
        rowkind_column: the name of the column of row kinds, the first after the table's.
        carried: columns of the data that go along with the rows of their message, after all others.
    """

    def __init__(
        self,
        tool: Tool,
        fields: Sequence[DataField],
        options: CdcOptions,
        rowkind_column: str = "rowkind",
        carried: pa.Schema | None = None,
    ) -> None:
        self._tool = tool
        self._fields = fields
        self._options = options
        self._messages = _TOOLS[tool](options)
        self._read = 0
        self._carried = pa.schema([]) if carried is None else carried
        nullable = [column.with_nullable(True) for column in arrow_schema(fields)]  # deletes may have the key only
        columns = [*nullable, pa.field(rowkind_column, pa.string(), nullable=False)]
        self.schema = pa.schema([*columns, *self._carried])
        if len(set(self.schema.names)) != len(self.schema.names):
            twice = next(name for name in self.schema.names if self.schema.names.count(name) > 1)
            raise OptionError(f"two columns of the result would be {twice!r}", hint="name rowkind_column otherwise")

    def convert(self, messages: pa.Array, carried: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of messages. Raises SchemaError: it names message and field."""
        for start in range(0, len(messages), _BATCH_MESSAGES):
            first = self._read
            texts = message_texts(messages.slice(start, _BATCH_MESSAGES), first, self._options)
            for changes in self._messages.changes(texts, first):
                along = None if carried is None else carried.slice(start).take(
                    pc.subtract(array(changes.positions, pa.int64()), first)
                )  # fmt: skip
                yield self._batch(changes, along)
            self._read += len(texts)

    def _batch(self, changes: Changes, along: pa.RecordBatch | None) -> pa.RecordBatch:
        names = set[str]().union(*changes.rows)
        found = self._matched(names, changes)
        whole = all(len(row) == len(names) for row in changes.rows)
        columns = [self._column(field, found.get(field.name), changes, whole) for field in self._fields]
        columns.append(array(changes.kinds, pa.string()))
        columns.extend([] if along is None else [along.column(name) for name in self._carried.names])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _matched(self, names: set[str], changes: Changes) -> dict[str, str]:
        """The names of fields, in the messages, by those of their columns."""
        found = matched_fields(names, self._fields)
        unknown = sorted(names - set(found.values()))
        if unknown and self._options.unknown_fields == "refuse":
            at = next(i for i, row in enumerate(changes.rows) if unknown[0] in row)
            raise UnknownColumnError(
                f"message {changes.positions[at]}: the table has no {columns_text(unknown)}",
                path=self._options.path,
                hint="add_columns=True adds columns to the table, unknown_fields='ignore' leaves fields out",
            )
        return found

    def _column(self, field: DataField, name: str | None, changes: Changes, whole: bool) -> pa.Array:
        if name is None or not whole:
            self._check_missing(field, name, changes)
        if name is None:
            return pa.nulls(len(changes.rows), arrow_type(field.type))
        values = [row.get(name) for row in changes.rows]
        meaning = changes.types.get(name, {}) if self._tool == "debezium" else {}
        try:
            return column(values, field, meaning, self._options)
        except SchemaError as error:
            at = changes.positions[error.row or 0]
            raise SchemaError(f"message {at}: {error.message}", path=self._options.path, hint=error.hint) from error

    def _check_missing(self, field: DataField, name: str | None, changes: Changes) -> None:
        """Raise SchemaError where a row lacks a column that it needs: deletes need their key only."""
        options, is_key = self._options, field.name in self._options.keys
        if not is_key and (field.default is not None or options.missing_columns == "null"):
            return
        for position, kind, row in zip(changes.positions, changes.kinds, changes.rows, strict=True):
            if (name is None or name not in row) and (is_key or kind not in (DELETE, UPDATE_BEFORE)):
                raise SchemaError(
                    f"message {position}: there is no field for the column {field.name!r}",
                    path=options.path,
                    hint=f"the message has {names_text(list(row))}"
                    + ("" if is_key else "; missing_columns='null' takes NULL, or the default, for what is missing"),
                )


def matched_fields(names: Iterable[str], fields: Sequence[DataField]) -> dict[str, str]:
    """For each column the name of its field among ``names``: the same, else the one that differs in case only."""
    given = set(names)
    folded = {name.casefold(): name for name in given}
    found = {f.name: f.name if f.name in given else folded.get(f.name.casefold()) for f in fields}
    return {name: field for name, field in found.items() if field is not None}


def message_texts(messages: pa.Array, first: int, options: CdcOptions) -> list[str | None]:
    """Messages as texts: Kafka gives bytes. Raises SchemaError."""
    t = messages.type
    if not (pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)):
        try:
            messages = messages.cast(pa.large_string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if not pa.types.is_binary(t) and not pa.types.is_large_binary(t):
                raise SchemaError(f"messages are texts or bytes, not {t}", path=options.path) from None
            raise SchemaError(
                f"messages {first} to {first + len(messages) - 1}: some are not UTF-8", path=options.path,
                hint="this reads JSON; Avro and Protobuf have to be converted first",
            ) from None  # fmt: skip
    texts: list[str | None] = messages.to_pylist()
    return texts


def message_columns(
    tool: Tool, fields: Sequence[DataField], options: CdcOptions, batches: Iterable[pa.Array]
) -> list[tuple[str, str]]:
    """The columns that messages bring into a table of these fields, with their types in Paimon's words: new ones, and
    others whose types the messages say."""
    found, read = MessageColumns(tool), 0
    messages = _TOOLS[tool](replace(options, before_images=False))
    known = {field.name.casefold() for field in fields}
    for batch in batches:
        for start in range(0, len(batch), _BATCH_MESSAGES):
            texts = message_texts(batch.slice(start, _BATCH_MESSAGES), read, options)
            for changes in messages.changes(texts, read):
                found.look(changes, known)
            read += len(texts)
    return found.types()
