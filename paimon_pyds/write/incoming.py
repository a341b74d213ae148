"""Rows as they are given to a writer → rows as bucket writers take them: columns that fit, and in tables with a primary
key the kind of each row.

Source: Paimon documentation, "rowkind.field" and "ignore-delete" of the options; Java: class RowKindGenerator.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from paimon_pyds.buffers import from_numpy
from paimon_pyds.errors import OptionError, SchemaError, suggest
from paimon_pyds.merge.key_values import INSERT, VALUE_KIND
from paimon_pyds.write.context import WriteContext

__all__ = ["ROW_KIND_COLUMN", "IncomingRows"]

ROW_KIND_COLUMN = "rowkind-column"
"""An option of a write: the column of the data that holds the kind of each row, and that is not stored."""


class IncomingRows:
    """Makes incoming batches fit a table.

    Args:
        context: the table as it is written to.

    Raises:
        OptionError: row kinds are in two places, or the table's rows have none.
    """

    def __init__(self, context: WriteContext) -> None:
        self._context = context
        self._conformer = context.conformer()
        self._column = context.raw_options.get(ROW_KIND_COLUMN)
        self._field = context.options.get("rowkind.field")
        self._has_kinds = bool(context.schema.primary_keys)
        if self._column is not None and not self._has_kinds:
            raise OptionError(
                f"{ROW_KIND_COLUMN} is for tables with a primary key only", path=context.root, hint="leave it out"
            )
        if self._column is not None and self._field is not None:
            raise OptionError(
                f"{ROW_KIND_COLUMN}={self._column}, and the table has its row kinds in {self._field} (rowkind.field)",
                path=context.root,
                hint="leave the option out",
            )
        if self._column in context.schema.field_names:
            raise OptionError(
                f"{ROW_KIND_COLUMN} names {self._column}, a column of the table, and its values would not be stored",
                path=context.root,
                hint="name the column of row kinds otherwise; or have the table store them: rowkind.field",
            )

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are to be written, with the table's columns; with a primary key also ``_VALUE_KIND``, which
        versions of existing rows bring along.

        Raises:
            SchemaError: columns or values that do not fit, NULL in a NOT NULL column, what is no row kind.
        """
        if not self._has_kinds:
            return self._conformer.conform(batch)
        from paimon_pyds.merge.row_kinds import kept_rows, parse_row_kinds  # other tables do without

        kinds = from_numpy(np.full(batch.num_rows, INSERT, np.int8))
        if self._context.existing_rows:
            *columns, kinds = batch.columns
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])
        elif self._column is not None:
            at = self._position(self._column, batch.schema.names)
            kinds = parse_row_kinds(_texts(batch.column(at), self._column), self._column)
            batch = batch.select([i for i in range(batch.num_columns) if i != at])
        rows = self._conformer.conform(batch)
        if self._field is not None:
            kinds = parse_row_kinds(rows.column(self._field), self._field)
        rows = rows.append_column(VALUE_KIND, kinds)
        kept = kept_rows(kinds, self._context.options)
        return rows if kept is None or kept.all() else rows.filter(from_numpy(kept))

    def _position(self, column: str, names: list[str]) -> int:
        if names.count(column) == 1:
            return names.index(column)
        raise SchemaError(
            f"{ROW_KIND_COLUMN} names {column!r}, which is not one column of the data",
            path=self._context.root,
            hint=suggest(column, names, "columns"),
        )


def _texts(column: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.string())
    raise SchemaError(f"column {name}: row kinds are texts, not {column.type}", hint="give +I, -U, +U or -D")
