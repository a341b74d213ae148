"""The aggregate functions of the merge engines aggregation and partial-update, by whole columns.

What they do with NULL and rows that take back is what Java Paimon 1.4 does, so that both give the same rows. Where 2.1
does otherwise, option ``aggregation-rules`` says which of the two is followed.
(Paimon documentation, primary-key-table/merge-engine/aggregation; Java: org.apache.paimon.mergetree.compact.aggregate.)

The oldest value of a group may be the result of an earlier merge: added up, it stands for the rows it was made of.
Where newer rows were merged with one another before, the result is another one, as in Java, if they take back what came
before them (collect, merge_map, nested_update, product, last_value, last_non_null_value), if decimals overflow on the
way, if floats are rounded, and of nested_update with a limit and merge_map_with_keytime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import ArrayType, AtomicType, DataType, MapType, RowType
from paimon_pyds.base.types.kinds import (
    BINARY_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    MAX_LENGTH,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    Kind,
)
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.keys.merge import aggregate_choices as choices
from paimon_pyds.keys.merge import aggregate_lists as lists
from paimon_pyds.keys.merge import aggregate_nested as nested
from paimon_pyds.keys.merge import aggregate_numbers as numbers
from paimon_pyds.keys.merge import aggregate_sets as sets
from paimon_pyds.keys.merge.grouped_rows import Flags, GroupedRows, Positions
from paimon_pyds.keys.merge.versions import check_orders_rows
from paimon_pyds.metadata.schema import TableSchema

RULES = "aggregation-rules"
"""The option that names the version of Java Paimon whose rules count where they differ. Without it these are those of
1.4, but that an overflow of integers is refused."""
DEFAULT_AGGREGATE = "last_non_null_value"
"""The function of columns without one in the options."""
PRIMARY_KEY = "primary-key"
"""The function of primary key columns, which have the same value in all rows of a group."""

NULL_IS_VALUE = frozenset({"last_value", "first_value"})
"""Functions that take NULL for a value like all others; the others pass it over."""
NULL_IS_VALUE_IF_LATE = frozenset({"first_non_null_value", "first_not_null_value"})
"""Those that do so with rows that come late by their sequence group."""
KEEPS_MEMBERS = frozenset({"nested_partial_update"})
"""Functions that pass over NULL in members of structs, too."""

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


@dataclass(frozen=True, slots=True)
class _Column:
    """A column and its options."""

    type: DataType
    name: str
    options: TableOptions

    def option(self, suffix: str) -> Any:
        """The option of this column that ends so; None when it is not set."""
        return self.options.get(f"fields.{self.name}.{suffix}")

    def follows(self, version: str) -> bool:
        """Whether the option names the rules of this version of Java Paimon."""
        return bool(self.options.get(RULES) == version)


@dataclass(frozen=True, slots=True)
class _Known:
    """What there is to know of a function before it has a column."""

    make: Callable[[_Column], Kernel]
    accepts: Callable[[DataType], bool] = lambda type_: True
    wanted: str = "any column"
    can_retract: bool = False
    keeps_arrival_order: bool = False
    options: tuple[str, ...] = ()


def _kernel(kernel: Kernel) -> Callable[[_Column], Kernel]:
    return lambda column: kernel


def _sum(column: _Column) -> Kernel:
    return partial(numbers.total, column=column.name, wraps=column.follows("1.4"))


def _product(column: _Column) -> Kernel:
    return partial(numbers.product, column=column.name, wraps=column.follows("1.4"))


def _merged_bytes(load: Callable[[], Callable[[Sequence[bytes]], bytes]]) -> Callable[[_Column], Kernel]:
    def make(column: _Column) -> Kernel:
        merge = load()
        return lambda values, rows: sets.merge_bytes(values, rows, column.name, merge)

    return make


def _listagg(column: _Column) -> Kernel:
    kernel = lists.listagg_distinct if column.option("distinct") else lists.listagg
    given = column.option("list-agg-delimiter")
    delimiter = "," if given is None else given
    return partial(kernel, delimiter=delimiter, skips_blanks=column.follows("2.1"))


def _collect(column: _Column) -> Kernel:
    return lists.collect_distinct if column.option("distinct") else lists.collect


def _merge_map_with_keytime(column: _Column) -> Kernel:
    assert isinstance(column.type, MapType)
    assert isinstance(column.type.value, RowType)
    fields = column.type.value.fields
    if len(fields) < 2:
        raise SchemaError(
            f"column {column.name}: merge_map_with_keytime takes rows of two fields or more, not {column.type}"
        )
    time = column.option("ts-field")
    place = len(fields) - 1 if time is None else _places([time], column.type.value, column, "ts-field")[0]
    if fields[place].type.kind not in STRING_KINDS:
        raise SchemaError(
            f"column {column.name}: merge_map_with_keytime compares times as texts, "
            f"and field {fields[place].name} is {fields[place].type}",
            hint=f"name a text in fields.{column.name}.ts-field; without that option it is the last field",
        )
    return nested.MergeMapByTime(place)


def _nested_update(column: _Column) -> Kernel:
    key, sequence = _nested_fields(column, "nested-key"), _nested_fields(column, "nested-sequence-field")
    null_keys = _null_keys(column)
    if sequence and not key:
        raise OptionError(
            f"fields.{column.name}.nested-sequence-field needs a key",
            hint=f"name fields of its rows in fields.{column.name}.nested-key",
        )
    rules21 = column.follows("2.1") or bool(sequence) or null_keys != "merge"  # 1.4 knows neither
    return nested.NestedUpdate(key, column.option("count-limit"), rules21, sequence, null_keys)


def _nested_partial_update(column: _Column) -> Kernel:
    key, null_keys = _nested_fields(column, "nested-key"), _null_keys(column)
    if not key:
        raise OptionError(
            f"column {column.name}: nested_partial_update needs a key",
            hint=f"name fields of its rows in fields.{column.name}.nested-key",
        )
    return nested.NestedPartialUpdate(key, column.follows("2.1") or null_keys != "merge", null_keys)


def _null_keys(column: _Column) -> nested.NullKeys:
    option = f"fields.{column.name}.nested-key-null-strategy"
    found = str(column.option("nested-key-null-strategy") or "merge").lower()
    for known in get_args(nested.NullKeys):
        if found == known:
            if found != "merge" and column.option("nested-key") is None:
                raise OptionError(f"{option} needs a key", hint=f"name fields in fields.{column.name}.nested-key")
            return known  # type: ignore[no-any-return]
    raise OptionError(f"option {option} must be one of merge, ignore, error, not {found!r:.100}")


def _nested_fields(column: _Column, suffix: str) -> tuple[int, ...]:
    """The places of the fields of a column's rows that an option names."""
    assert isinstance(column.type, ArrayType)
    assert isinstance(column.type.element, RowType)
    places = _places(comma_separated(column.option(suffix) or ""), column.type.element, column, suffix)
    if suffix == "nested-sequence-field":
        for place in places:
            check_orders_rows(column.type.element.fields[place], f"fields.{column.name}.{suffix}")
    return places


def _places(names: Sequence[str], row: RowType, column: _Column, suffix: str) -> tuple[int, ...]:
    known = [field.name for field in row.fields]
    for name in names:
        if name not in known:
            raise OptionError(
                f"fields.{column.name}.{suffix} names {name}, which is no field of {column.type}",
                hint=f"fields are {', '.join(known)}",
            )
    return tuple(known.index(name) for name in names)


def _is_kind(kinds: frozenset[Kind]) -> Callable[[DataType], bool]:
    return lambda type_: type_.kind in kinds


def _is_unbounded_text(type_: DataType) -> bool:
    return isinstance(type_, AtomicType) and type_.kind is Kind.VARCHAR and type_.length == MAX_LENGTH


def _is_list_of_rows(type_: DataType) -> bool:
    return isinstance(type_, ArrayType) and isinstance(type_.element, RowType)


def _is_map_of_rows(type_: DataType) -> bool:
    return isinstance(type_, MapType) and isinstance(type_.value, RowType)


_ORDERED_NAMES = "a number, text, bytes, date, time or timestamp"
_BYTES_NAMES = "BYTES or VARBINARY"
_is_bytes = _is_kind(frozenset({Kind.VARBINARY}))
_is_number, _is_ordered, _is_boolean = _is_kind(_NUMBERS), _is_kind(_ORDERED), _is_kind(frozenset({Kind.BOOLEAN}))
_OF_NESTED_ROWS = ("nested-key", "count-limit", "nested-sequence-field", "nested-key-null-strategy")
_FUNCTIONS: dict[str, _Known] = {
    PRIMARY_KEY: _Known(_kernel(choices.newest_key), can_retract=True),
    "last_value": _Known(_kernel(choices.last_value), can_retract=True),
    "last_non_null_value": _Known(_kernel(choices.last_non_null_value), can_retract=True),
    "first_value": _Known(_kernel(choices.first_value)),
    "first_non_null_value": _Known(_kernel(choices.first_non_null_value)),
    "first_not_null_value": _Known(_kernel(choices.first_non_null_value)),  # an older name of it
    "max": _Known(_kernel(choices.largest), _is_ordered, _ORDERED_NAMES),
    "min": _Known(_kernel(choices.smallest), _is_ordered, _ORDERED_NAMES),
    "bool_and": _Known(_kernel(choices.smallest), _is_boolean, "BOOLEAN"),
    "bool_or": _Known(_kernel(choices.largest), _is_boolean, "BOOLEAN"),
    # Which of two comes first makes no difference to these two, but when each is added does, where results are rounded.
    "sum": _Known(_sum, _is_number, "a number", can_retract=True, keeps_arrival_order=True),
    "product": _Known(_product, _is_number, "a number", can_retract=True, keeps_arrival_order=True),
    "listagg": _Known(_listagg, _is_unbounded_text, "STRING", options=("list-agg-delimiter", "distinct")),
    "collect": _Known(
        _collect, _is_kind(frozenset({Kind.ARRAY})), "ARRAY",
        can_retract=True, keeps_arrival_order=True, options=("distinct",),
    ),
    "merge_map": _Known(_kernel(nested.merge_map), _is_kind(frozenset({Kind.MAP})), "MAP", can_retract=True),
    "merge_map_with_keytime": _Known(_merge_map_with_keytime, _is_map_of_rows, "MAP of ROW", options=("ts-field",)),
    "nested_update": _Known(_nested_update, _is_list_of_rows, "ARRAY<ROW>", can_retract=True, options=_OF_NESTED_ROWS),
    "rbm32": _Known(_merged_bytes(lambda: sets.union32), _is_bytes, _BYTES_NAMES),
    "rbm64": _Known(_merged_bytes(lambda: sets.union64), _is_bytes, _BYTES_NAMES),
    "theta_sketch": _Known(_merged_bytes(sets.theta_union), _is_bytes, _BYTES_NAMES),
    "hll_sketch": _Known(_merged_bytes(sets.hll_union), _is_bytes, _BYTES_NAMES),
    "nested_partial_update": _Known(
        _nested_partial_update, _is_list_of_rows, "ARRAY<ROW>", options=("nested-key", "nested-key-null-strategy")
    ),
}  # fmt: skip


def configured_aggregate(column: str, options: TableOptions) -> str | None:
    """The function that options name for a column, its own or that of all columns; None when they name none."""
    own = options.get(f"fields.{column}.aggregate-function")
    named = own if own is not None else options.get("fields.default-aggregate-function")
    return None if named is None else str(named)


def set_columns(schema: TableSchema, options: TableOptions) -> dict[str, str]:
    """Which columns hold serialized sets that merges unite, with their function, as `sets.check_sets` takes it."""
    if options.get("merge-engine") not in ("aggregation", "partial-update"):
        return {}
    functions = {f.name: configured_aggregate(f.name, options) for f in schema.fields}
    return {
        column: function
        for column, function in functions.items()
        if function in sets.SET_FUNCTIONS and column not in schema.primary_keys
    }


def resolve_aggregate(
    name: str, column_type: DataType, column_name: str, options: TableOptions | Mapping[str, str]
) -> AggregateFunction:
    """The function of this name for a column.

    ``name``: such as ``sum`` or ``last_value``.

    Raises:
        UnsupportedError: Java Paimon has no such function, or it needs a package that is not there.
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
        known.make(_Column(column_type, column_name, options)),
        ignore_retract,
        known.can_retract,
        known.keeps_arrival_order,
        (*known.options, "ignore-retract"),
    )


def aggregate(
    function: AggregateFunction,
    values: pa.Array | pa.ChunkedArray,
    groups: Positions,
    retract: Flags,
    begun: Flags | None = None,
) -> pa.Array:
    """One value for each group of rows, of the values' type.

    The result is that of Java's ``agg`` and ``retract`` called for one row after the other, beginning with NULL. A
    group of one row is treated so, too; but Java's readers, writers and compactions do not merge a row that is the only
    one of its key: it stays as it is, its row kind included.

    ``values``: of the rows of all groups, one group after the other, those of a group from the oldest to the newest.
    The oldest may be what an earlier call gave. ``groups``: where each group begins; none is empty. ``retract``: which
    rows take back: those of row kind -U and -D. ``begun``: as in `GroupedRows`.

    Raises:
        UnsupportedError: a row takes back, and the function can't.
        SchemaError: values that the function fails on, such as a division by zero.
    """
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    rows = GroupedRows.of(groups, retract, begun)
    if retract.any():
        if function.ignore_retract:
            rows, values = rows.only(~retract), values.filter(from_numpy(~retract))
        elif not function.can_retract:
            raise UnsupportedError(
                f"column {function.column}: the aggregate function {function.name} can't take back what was added",
                hint=f"set fields.{function.column}.ignore-retract to true to pass over deletes and update-befores",
            )
    return function.kernel(values, rows)
