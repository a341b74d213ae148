"""Rows as a lazy frame of polars, which says what it needs: columns, a condition, a number of rows.

The condition comes as an expression of polars. Of its parts that all have to hold, those that mean the same in SQL
narrow the rows that are read; polars evaluates all of it again. A form of expressions that is not known here, such as
that of another version of polars, costs rows that are read in vain, and nothing else.
(Source: polars' documentation, "IO plugins", and the JSON of ``Expr.meta.serialize``.)
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.types import arrow_schema
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind

if TYPE_CHECKING:
    import polars

    from paimon_pyds.base.types import DataField

_COMPARISONS = {"Eq": "=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_MIRRORED = {"Eq": "=", "Lt": ">", "LtEq": ">=", "Gt": "<", "GtEq": "<="}
_COMPARABLE = (*INTEGER_KINDS, Kind.VARCHAR, Kind.DOUBLE)
"""What both compare alike. CHAR is not among them: SQL compares it without the blanks at its end."""


def lazy_frame(rows: Any) -> polars.LazyFrame:
    """The rows as a lazy frame; a scan reads only the rows and columns that polars needs."""
    import polars
    from polars.io.plugins import register_io_source

    from paimon_pyds.base.arrays import empty_table

    schema = polars.DataFrame(empty_table(rows.arrow_schema)).schema

    def read(
        columns: list[str] | None, condition: polars.Expr | None, n_rows: int | None, batch_rows: int | None
    ) -> Iterator[polars.DataFrame]:
        wanted = columns
        if columns is not None and condition is not None:
            wanted = list(dict.fromkeys([*columns, *condition.meta.root_names()]))
        # polars takes the first n rows of the source, and then those that match the condition.
        sql = None if condition is None or n_rows is not None else as_sql(condition, comparable(rows))
        for batch in narrowed(rows, wanted, sql):
            frame = polars.DataFrame(batch)
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= len(frame)
            if condition is not None:
                frame = frame.filter(condition)
            yield frame if columns is None else frame.select(columns)
            if n_rows == 0:
                return

    return register_io_source(read, schema=schema)


def comparable(rows: Any, kinds: Collection[Kind] = _COMPARABLE) -> dict[str, DataField]:
    """The columns by name that conditions may narrow: of some kinds of types."""
    if not hasattr(rows, "selecting"):
        return {}
    return {f.name: f for f in rows.schema.fields if f.name in rows.column_names and f.type.kind in kinds}


def takes_conditions(rows: Any) -> bool:
    """Whether `narrowed` applies conditions: a limit, an order, and the changes between two states need all rows."""
    return hasattr(rows, "selecting") and rows.request.row_limit is None and rows.between is None


def narrowed(rows: Any, columns: list[str] | None, sql: str | None) -> Any:
    """The rows with these columns for which a condition is true; or more rows and columns.

    The condition is applied where the rows take one (`takes_conditions`).
    """
    if not hasattr(rows, "selecting"):
        return rows
    fields = {f.name: f for f in rows.schema.fields}
    whole = {f.name for f in arrow_schema(rows.schema.fields) if f.name in rows.column_names}
    found = rows.where(sql) if sql is not None and takes_conditions(rows) else rows
    if columns and whole.issuperset(columns):
        found = found.selecting(tuple(fields[name] for name in columns))
    return found


def as_sql(condition: polars.Expr, fields: Mapping[str, DataField]) -> str | None:
    """A condition in SQL that holds wherever that of polars does; None where nothing is known."""
    try:
        return _sql(json.loads(condition.meta.serialize(format="json")), fields)
    except (ValueError, TypeError, KeyError, AttributeError):  # another form
        return None


def _sql(node: Mapping[str, Any], fields: Mapping[str, DataField]) -> str | None:
    (kind, inner), = node.items()  # fmt: skip
    if kind == "BinaryExpr" and inner["op"] in ("And", "Or"):
        sides = [_sql(inner[side], fields) for side in ("left", "right")]
        known = [side for side in sides if side is not None]
        if inner["op"] == "And":
            return " AND ".join(f"({side})" for side in known) or None
        return " OR ".join(f"({side})" for side in known) if len(known) == 2 else None
    if kind == "BinaryExpr" and inner["op"] in _COMPARISONS:
        column, constant = _column(inner["left"], fields), _constant(inner["right"])
        operators = _COMPARISONS
        if column is None:
            column, constant, operators = _column(inner["right"], fields), _constant(inner["left"]), _MIRRORED
        return None if column is None or constant is None else f"{column} {operators[inner['op']]} {constant}"
    if kind == "Function":
        return _function(inner["function"], inner["input"], fields)
    return None


def _function(function: Any, inputs: list[Any], fields: Mapping[str, DataField]) -> str | None:
    name = function.get("Boolean") if isinstance(function, Mapping) else None
    if name in ("IsNull", "IsNotNull"):
        column = _column(inputs[0], fields, any_type=True)
        return None if column is None else f"{column} IS {'NOT ' if name == 'IsNotNull' else ''}NULL"
    if name == {"IsBetween": {"closed": "Both"}}:
        column, low, high = _column(inputs[0], fields), _constant(inputs[1]), _constant(inputs[2])
        return None if None in (column, low, high) else f"{column} BETWEEN {low} AND {high}"
    return None


def _column(node: Mapping[str, Any], fields: Mapping[str, DataField], *, any_type: bool = False) -> str | None:
    field = fields.get(node["Column"]) if "Column" in node else None
    if field is None or not (any_type or field.type.kind in _COMPARABLE):
        return None
    return sql_name(field.name)


def _constant(node: Mapping[str, Any]) -> str | None:
    scalar = node.get("Literal", {}).get("Scalar")
    if not isinstance(scalar, Mapping):
        return None
    (kind, value), = scalar.items()  # fmt: skip
    if kind == "String":
        return sql_text(str(value))
    if kind in ("Int8", "Int16", "Int32", "Int64"):
        return str(int(value))
    if kind == "Float64" and math.isfinite(value) and "e" not in str(value):
        return str(value)
    return None


def sql_name(name: str) -> str:
    """The name of a column in SQL."""
    return "`" + name.replace("`", "``") + "`"


def sql_text(value: str) -> str:
    """A text in SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
