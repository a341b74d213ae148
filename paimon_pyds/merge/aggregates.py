"""The aggregate functions of the merge engines aggregation and partial-update, by whole columns.

What they do with NULL, overflow and rows that take back is what Java Paimon 1.4 does, so that both give the same rows.
(Paimon documentation, primary-key-table/merge-engine/aggregation; Java: org.apache.paimon.mergetree.compact.aggregate.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.buffers import from_numpy
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.merge import aggregate_choices as choices
from paimon_pyds.merge import aggregate_numbers as numbers
from paimon_pyds.merge.grouped_rows import Flags, GroupedRows, Positions
from paimon_pyds.options import TableOptions
from paimon_pyds.types import DataType, Kind
from paimon_pyds.types.model import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS

__all__ = [
    "DEFAULT_AGGREGATE", "PRIMARY_KEY", "AggregateFunction", "aggregate", "configured_aggregate", "resolve_aggregate",
]  # fmt: skip

DEFAULT_AGGREGATE = "last_non_null_value"
"""Of columns that no option names a function for."""
PRIMARY_KEY = "primary-key"
"""Of the columns of the primary key, which hold the same in all rows of a group."""

Kernel = Callable[[pa.Array, GroupedRows], pa.Array]

_NUMBERS = INTEGER_KINDS | FLOAT_KINDS | {Kind.DECIMAL}
_ORDERED = _NUMBERS | STRING_KINDS | BINARY_KINDS | TIMESTAMP_KINDS | {Kind.DATE, Kind.TIME}


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function for the values of one column; `aggregate` applies it.

    Attributes:
        name: as the option ``fields.COLUMN.aggregate-function`` has it.
        column: whose values these are.
        ignore_retract: rows that take back are passed over (option ``fields.COLUMN.ignore-retract``).
        can_retract: whether rows may take back what was added.
        keeps_arrival_order: a row that comes late, behind a newer one by its sequence group, counts as the last all
            the same. For the other functions Java lets it count as the first one so far (``aggReversed``).
        options: which options of the column matter for this function, as the last parts of their keys.
    """

    name: str
    column: str
    kernel: Kernel
    ignore_retract: bool = False
    can_retract: bool = False
    keeps_arrival_order: bool = False
    options: tuple[str, ...] = ("ignore-retract",)

    def __str__(self) -> str:
        return f"{self.name}({self.column})"


@dataclass(frozen=True, slots=True)
class _Settings:
    """A column and its options."""

    type: DataType
    column: str
    options: TableOptions


@dataclass(frozen=True, slots=True)
class _Known:
    """What there is to know of a function before it has a column."""

    make: Callable[[_Settings], Kernel]
    accepts: Callable[[DataType], bool] = lambda type_: True
    wanted: str = "any column"
    can_retract: bool = False
    keeps_arrival_order: bool = False
    options: tuple[str, ...] = ()


def _kernel(kernel: Kernel) -> Callable[[_Settings], Kernel]:
    return lambda settings: kernel


def _product(settings: _Settings) -> Kernel:
    return lambda values, rows: numbers.product(values, rows, settings.column)


def _is_number(type_: DataType) -> bool:
    return type_.kind in _NUMBERS


def _is_ordered(type_: DataType) -> bool:
    return type_.kind in _ORDERED


def _is_boolean(type_: DataType) -> bool:
    return type_.kind is Kind.BOOLEAN


_ORDERED_NAMES = "a number, text, bytes, date, time or timestamp"
_FUNCTIONS: dict[str, _Known] = {
    PRIMARY_KEY: _Known(_kernel(choices.newest_key), can_retract=True),
    "last_value": _Known(_kernel(choices.last_value), can_retract=True),
    "last_non_null_value": _Known(_kernel(choices.last_non_null_value), can_retract=True),
    "first_value": _Known(_kernel(choices.first_value)),
    "first_non_null_value": _Known(_kernel(choices.first_non_null_value)),
    "first_not_null_value": _Known(_kernel(choices.first_non_null_value)),  # an older name of it
    "max": _Known(_kernel(choices.largest), _is_ordered, _ORDERED_NAMES),
    "min": _Known(_kernel(choices.smallest), _is_ordered, _ORDERED_NAMES),
    "bool_and": _Known(_kernel(choices.bool_and), _is_boolean, "BOOLEAN"),
    "bool_or": _Known(_kernel(choices.bool_or), _is_boolean, "BOOLEAN"),
    "sum": _Known(_kernel(numbers.total), _is_number, "a number", can_retract=True),
    "product": _Known(_product, _is_number, "a number", can_retract=True),
}


def configured_aggregate(column: str, options: TableOptions) -> str | None:
    """The function that options name for a column, its own or that of all columns; None when they name none."""
    own = options.get(f"fields.{column}.aggregate-function")
    named = own if own is not None else options.get("fields.default-aggregate-function")
    return None if named is None else str(named)


def resolve_aggregate(
    name: str, column_type: DataType, column_name: str, options: TableOptions | Mapping[str, str]
) -> AggregateFunction:
    """The function of this name for a column.

    Args:
        name: such as ``sum`` or ``last_value``.
        column_type: the column's type.
        column_name: the column's name.
        options: the table's.

    Raises:
        UnsupportedError: Java Paimon has no such function.
        SchemaError: the function does not take columns of this type.
        OptionError: options that contradict one another.
    """
    known = _FUNCTIONS.get(name)
    if known is None:
        raise UnsupportedError(
            f"column {column_name}: there is no aggregate function {name!r:.100}",
            hint=f"set fields.{column_name}.aggregate-function to one of {', '.join(sorted(_FUNCTIONS))}",
        )
    if not known.accepts(column_type):
        raise SchemaError(
            f"column {column_name}: the aggregate function {name} takes {known.wanted}, not {column_type}",
            hint=f"set fields.{column_name}.aggregate-function to another function",
        )
    options = options if isinstance(options, TableOptions) else TableOptions(options)
    ignore_retract = bool(options.get(f"fields.{column_name}.ignore-retract"))
    if ignore_retract and options.get("aggregation.remove-record-on-delete"):
        raise OptionError(
            f"aggregation.remove-record-on-delete and fields.{column_name}.ignore-retract contradict each other",
            hint="set one of them to false",
        )
    return AggregateFunction(
        name,
        column_name,
        known.make(_Settings(column_type, column_name, options)),
        ignore_retract,
        known.can_retract,
        known.keeps_arrival_order,
        (*known.options, "ignore-retract"),
    )


def aggregate(
    function: AggregateFunction, values: pa.Array | pa.ChunkedArray, groups: Positions, retract: Flags
) -> pa.Array:
    """One value for each group of rows, of the values' type.

    The result is that of Java's ``agg`` and ``retract`` called for one row after the other, beginning with NULL. A
    group of one row is treated so, too; but Java's readers, writers and compactions do not merge a row that is the only
    one of its key: it stays as it is, its row kind included.

    Args:
        function: see `resolve_aggregate`.
        values: of the rows of all groups, one group after the other, those of a group from the oldest to the newest.
            The oldest may be what an earlier call gave.
        groups: where each group begins; none is empty.
        retract: which rows take back: those of row kind -U and -D.

    Raises:
        UnsupportedError: a row takes back, and the function can't.
        SchemaError: values that the function fails on, such as a division by zero.
    """
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    rows = GroupedRows.of(groups, retract)
    if retract.any():
        if function.ignore_retract:
            rows, values = rows.only(~retract), values.filter(from_numpy(~retract))
        elif not function.can_retract:
            raise UnsupportedError(
                f"column {function.column}: the aggregate function {function.name} can't take back what was added",
                hint=f"set fields.{function.column}.ignore-retract to true to pass over deletes and update-befores",
            )
    return function.kernel(values, rows)
