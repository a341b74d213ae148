"""The columns and the filter of a stream, by the schema it started with, and whether later schemas still have them."""

from __future__ import annotations

from collections.abc import Sequence

from paimon_pyds.base.types import DataField, fields_named
from paimon_pyds.errors import SchemaError, UnknownColumnError, suggest
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns


class StreamColumns:
    """What a stream reads of each row.

    Attributes:
        fields: the columns of the result, in order.
        predicate: the filter.

    ``schema``: which says what the names mean. ``columns``: names; None for all. ``where``: Spark SQL text, or a
    predicate. ``zone``: of literals without one.

    Raises PredicateError, UnknownColumnError.
    """

    def __init__(
        self, schema: TableSchema, columns: Sequence[str] | None, where: str | Predicate | None, zone: str
    ) -> None:
        self._schema = schema
        self.fields = schema.fields if columns is None else tuple(map(self._field, columns))
        self.predicate = self._bound(where, zone)
        names = set(root_columns(self.predicate))
        used = (*self.fields, *(field for field in schema.fields if field.name in names))
        self._used = tuple(dict.fromkeys(used))
        self._errors: dict[int, SchemaError | None] = {}

    def misfit(self, store: TableStore, schema_id: int) -> SchemaError | None:
        """The error for a snapshot of a later schema that lacks a column, or has it with another type."""
        if schema_id <= self._schema.id:
            return None
        if schema_id not in self._errors:
            self._errors[schema_id] = self._compared(store.schema(schema_id), store.root)
        return self._errors[schema_id]

    def _field(self, name: str) -> DataField:
        found = fields_named(name, self._schema.fields)
        if len(found) == 1:
            return found[0]
        raise UnknownColumnError(
            f"the table has no column {name!r}", hint=suggest(name, self._schema.field_names, "its columns")
        )

    def _bound(self, where: str | Predicate | None, zone: str) -> Predicate:
        if where is None or (isinstance(where, str) and not where.strip()):
            return Const.TRUE
        if isinstance(where, str):
            from paimon_pyds.sql.expression.condition import bind_filter

            return bind_filter(where, self._schema.fields, timezone=zone)
        from paimon_pyds.sql.predicate.bind import bind

        return bind(where, self._schema.fields, timezone=zone)

    def _compared(self, newer: TableSchema, path: str) -> SchemaError | None:
        by_id = {field.id: field for field in newer.fields}
        for field in self._used:
            other = by_id.get(field.id)
            if other is None:
                what = "was dropped"
            elif other.type.with_nullable(True) != field.type.with_nullable(True):
                what = f"has the type {other.type} now, and had {field.type}"
            else:
                continue
            mine = self._schema.id
            return SchemaError(
                f"column {field.name} {what} (schema {newer.id}), while the stream reads it by schema {mine}",
                path=path,
                hint="start a new stream with scan.snapshot-id, from the snapshot after the stream's position, which "
                "reads the new columns; a stream of other columns goes on",
            )
        return None
