"""What arrives as the rows of a write → those that are written: with the table's columns, and the kinds of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import decoded, from_numpy
from paimon_pyds.engine.write.conform import match_columns
from paimon_pyds.engine.write.missing_columns import MissingColumns
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError, suggest
from paimon_pyds.keys.merge.key_values import INSERT, VALUE_KIND, is_retract

if TYPE_CHECKING:
    from paimon_pyds.engine.write.context import WriteContext

ROW_KIND_COLUMN = "rowkind-column"
"""An option of a write: the column of the data that holds the kind of each row, and that is not stored."""


def check_columns(schema: pa.Schema | None, context: WriteContext) -> None:
    """Raises SchemaError: data, perhaps without rows, that has no columns, or others than the table."""
    names = (
        [] if schema is None else [name for name in schema.names if name != context.raw_options.get(ROW_KIND_COLUMN)]
    )
    if not names:
        hint = "give them, such as [] for each; table.truncate() takes rows away"
        raise SchemaError(
            "the data has no columns: an overwrite with it would only delete rows", path=context.root, hint=hint
        )
    match_columns(names, context.schema.fields, context.root)


class IncomingRows:
    """Makes incoming batches fit a table. ``carried``: a column that is passed on as it is, after all others; only for
    tables with a primary key.
    Raises OptionError: row kinds are in two places, or the table's rows have none."""

    def __init__(self, context: WriteContext, carried: str | None = None) -> None:
        self._context = context
        self._carried = carried
        self._conformer = context.conformer()
        self._missing = MissingColumns(context)
        self._column = context.raw_options.get(ROW_KIND_COLUMN)
        self._field = context.options.get("rowkind.field")
        self._has_kinds = bool(context.schema.primary_keys)
        self._check_sets = set_check(context)
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
            UnsupportedError: deletes that the table can't take.
        """
        if not self._has_kinds:
            rows = self._conformer.conform(batch)
            self._check_missing(rows, batch.schema, None)
            return self._added(rows)
        from paimon_pyds.keys.merge.row_kinds import check_deletes, parse_row_kinds  # other tables do without

        kinds, carried = from_numpy(np.full(batch.num_rows, INSERT, np.int8)), None
        if self._carried is not None:
            carried = batch.column(self._carried)
            batch = batch.select([name for name in batch.schema.names if name != self._carried])
        if self._context.existing_rows:
            *columns, kinds = batch.columns
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1])
        elif self._column is not None:
            at = self._position(self._column, batch.schema.names)
            kinds = parse_row_kinds(_kind_texts(batch.column(at), self._column), self._column)
            batch = batch.select([i for i in range(batch.num_columns) if i != at])
        rows = self._conformer.conform(batch)
        if self._field is not None:
            kinds = parse_row_kinds(rows.column(self._field), self._field)
        self._check_missing(rows, batch.schema, kinds)
        rows = rows.append_column(VALUE_KIND, kinds)
        if self._carried is not None:
            rows = rows.append_column(self._carried, carried)
        rows = self._kept(rows, kinds)
        if not self._context.existing_rows:
            check_deletes(rows.column(VALUE_KIND), self._context.options)
            try:
                self._check_sets(rows)
            except SchemaError as error:
                error.row = error.row if rows.num_rows == batch.num_rows else None  # others were left out before it
                raise
        return rows

    def _check_missing(self, rows: pa.RecordBatch, given: pa.Schema, kinds: pa.Array | None) -> None:
        self._missing.check(rows, self._conformer.missing, self._conformer.left_out(given), kinds)

    def _added(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Of rows for a table without a primary key those that it takes. (Java: class AppendOnlyFileStoreTable.)"""
        if self._field is None or self._context.existing_rows:
            return rows
        from paimon_pyds.keys.merge.row_kinds import parse_row_kinds

        kinds = parse_row_kinds(_kind_texts(rows.column(self._field), self._field), self._field)
        rows = self._kept(rows.append_column(VALUE_KIND, kinds), kinds)
        if is_retract(rows.column(VALUE_KIND)).any():
            raise UnsupportedError(
                f"a table without a primary key takes no deletes (-U, -D), which {self._field} (rowkind.field) has",
                path=self._context.root,
                hint="alter the table: ignore-delete=true leaves them out; or delete rows by a condition",
            )
        return rows.remove_column(rows.num_columns - 1)

    def _kept(self, rows: pa.RecordBatch, kinds: pa.Array) -> pa.RecordBatch:
        """The rows of those kinds that the options do not leave out."""
        from paimon_pyds.keys.merge.row_kinds import accepted_rows

        kept = accepted_rows(kinds, self._context.options)
        return rows if kept is None or kept.all() else rows.filter(from_numpy(kept))

    def _position(self, column: str, names: list[str]) -> int:
        if names.count(column) == 1:
            return names.index(column)
        raise SchemaError(
            f"{ROW_KIND_COLUMN} names {column!r}, which is not one column of the data",
            path=self._context.root,
            hint=suggest(column, names, "columns"),
        )


def set_check(context: WriteContext) -> Callable[[pa.RecordBatch], None]:
    """What refuses rows whose values are no sets, in columns where merges unite sets: with a second version of its key
    such a row could never be read again. It raises SchemaError.

    Rows that were in the table before are not looked at by `IncomingRows`: another writer may have left some, and they
    must not keep others from their buckets."""
    if context.raw_options.get("merge-engine") not in ("aggregation", "partial-update"):
        return lambda rows: None
    from paimon_pyds.keys.merge.aggregate_sets import check_sets
    from paimon_pyds.keys.merge.aggregates import set_columns  # other tables do without

    columns = set_columns(context.schema, context.options)

    def check(rows: pa.RecordBatch) -> None:
        for column, function in columns.items():
            check_sets(rows.column(column), column, function, context.root)

    return check


def _kind_texts(column: pa.Array, name: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.string())
    raise SchemaError(f"column {name}: row kinds are texts, not {column.type}", hint="give +I, -U, +U or -D")
