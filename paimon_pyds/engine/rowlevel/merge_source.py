"""The source of a MERGE: its rows in memory, and what its keys say about which files of the table may match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import decoded, empty_table, one_array, pc, to_numpy
from paimon_pyds.base.frames import rows_of, unconverted
from paimon_pyds.base.options.option import shown_argument, texts
from paimon_pyds.base.text import names_text
from paimon_pyds.base.types import AtomicType, DataField, arrow_type, fields_named, from_arrow_schema
from paimon_pyds.base.types.arrow import is_variant
from paimon_pyds.base.types.kinds import INTEGER_KINDS, INTEGER_RANGES, STRING_KINDS, Kind
from paimon_pyds.base.types.nested import cast_nested
from paimon_pyds.base.types.unfit_values import first_refused, misfit
from paimon_pyds.engine.write.conform import origin_of
from paimon_pyds.engine.write.python_rows import PythonRows
from paimon_pyds.errors import (
    ArgumentTypeError,
    ExpressionError,
    OptionError,
    PredicateError,
    SchemaError,
    UnknownColumnError,
)
from paimon_pyds.sql.expression.bound import Operand
from paimon_pyds.sql.expression.join import JoinCondition, JoinKey, SourceKeys
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.compare import NUMBERS
from paimon_pyds.sql.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and
from paimon_pyds.sql.text.tree import Literal

LISTED_KEYS = 50_000
"""Distinct keys up to which each is looked up in statistics and indexes; for more, only their range is used."""
_NO_NAMES = ("true", "false", "null")


def text_in_keys(
    error: ExpressionError, condition: JoinCondition, rows: pa.RecordBatch, source: Sequence[DataField]
) -> ExpressionError:
    """The error of keys that can't be cast, with the types of the first column that differs where names are equal."""

    def attempt(count: int) -> None:
        some = rows.slice(0, count)
        SourceKeys.build(condition.keys, some, eligible_rows(condition, some))

    columns = [key.column for key in condition.keys if key.column is not None and key.column.type.kind in NUMBERS]
    for wanted in columns:
        for given in fields_named(wanted.name, source):
            if given.type.kind in STRING_KINDS:
                misfit = f"column {wanted.name} is {arrow_type(given.type)} in the data and {wanted.type} in the table"
                row = f"first in row {first_refused(rows.num_rows, attempt) + 1:,} of the data"
                return ExpressionError(f"{misfit}: {error.message}, {row}", hint="cast it first")
    return error


def source_table(data: Any, columns_of: Sequence[DataField] = ()) -> tuple[pa.RecordBatch, tuple[DataField, ...]]:
    """All rows of a source as one batch, and its columns. The batch has the Arrow types of theirs, except where it has
    values of no type but NULL; and it says where it comes from (`origin_of`). Python's own values that fit a column of
    ``columns_of`` get its type.
    Raises SchemaError: nothing that Arrow understands, or columns that Paimon has no type for."""
    parts: list[pa.Table] = []
    try:
        schema, rows = rows_of(data, PythonRows(columns_of, grows=True) if columns_of else unconverted)
        parts += (pa.Table.from_batches([batch]) for batch in rows)
    except SchemaError as error:
        error.name_row(sum(part.num_rows for part in parts))
        raise
    if schema is None:
        raise SchemaError("the source has no rows and no columns", hint="give an Arrow table with a schema")
    parts = parts or [empty_table(schema)]
    try:
        table = pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(f"parts of the source differ: {str(error).splitlines()[0]}") from error
    fields = _fields(table.schema)
    columns = []
    for column, field in zip(table.columns, fields, strict=True):
        coded = pa.types.is_dictionary(column.type)
        plain = one_array(pa.chunked_array(list(map(decoded, column.chunks))) if coded else column)
        type_ = arrow_type(field.type)
        try:
            fits = plain.type.equals(type_, check_metadata=True)  # chunks may lack the mark of VARIANT
            columns.append(plain if fits or has_null_type(plain.type) else _cast(plain, type_))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            at = first_refused(len(plain), lambda n, plain=plain, type_=type_: _cast(plain.slice(0, n), type_))  # type: ignore[misc]
            refused = misfit(plain, at, field.name, field.type, hint="correct it, or cast it first")
            refused.name_row(0)
            raise refused from error
    rows = pa.RecordBatch.from_arrays(columns, names=table.schema.names)
    origin = origin_of(table.schema)
    return rows.replace_schema_metadata({origin: ""} if origin else None), fields


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return cast_nested(values, type_, "", lambda leaf, wanted, _: leaf.cast(wanted))


def typed_as(rows: pa.RecordBatch, wanted: Sequence[DataField]) -> tuple[pa.RecordBatch, tuple[DataField, ...]]:
    """The rows of a source and its columns, of which those that are nested and hold NULL alone somewhere, such as lists
    without values, get the types of the table's columns of the same names where these have the same form."""
    columns = []
    for column, name in zip(rows.columns, rows.schema.names, strict=True):
        nested = pa.types.is_nested(column.type) and has_null_type(column.type)
        for field in fields_named(name, wanted) if nested else ():
            column = column.cast(filled(column.type, arrow_type(field.type)))
        columns.append(column)
    typed = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
    return typed.replace_schema_metadata(rows.schema.metadata), _fields(typed.schema)


def filled(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """A type with what another one has in the place of NULLs; both may be of different forms."""
    t = pa.types
    if t.is_null(given):
        return wanted
    if t.is_list(given) and t.is_list(wanted):
        return pa.list_(filled(given.value_type, wanted.value_type))
    if t.is_map(given) and t.is_map(wanted):
        return pa.map_(given.key_type, filled(given.item_type, wanted.item_type))
    if t.is_struct(given) and t.is_struct(wanted):
        members = {wanted.field(i).name: wanted.field(i).type for i in range(wanted.num_fields)}
        own = [given.field(i) for i in range(given.num_fields)]
        return pa.struct([(f.name, filled(f.type, members.get(f.name, f.type))) for f in own])
    return given


def _fields(schema: pa.Schema) -> tuple[DataField, ...]:
    return from_arrow_schema(pa.schema([pa.field(f.name, without_null_types(f.type)) for f in schema]))


def without_null_types(type_: pa.DataType) -> pa.DataType:
    """A type whose values Paimon has a type for: that of NULLs alone is replaced by one that is never looked at."""
    t = pa.types
    if t.is_dictionary(type_):
        return without_null_types(type_.value_type)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return pa.list_(without_null_types(type_.value_type))
    if t.is_map(type_):
        return pa.map_(without_null_types(type_.key_type), without_null_types(type_.item_type))
    if t.is_struct(type_) and not is_variant(type_):
        members = [type_.field(i) for i in range(type_.num_fields)]
        return pa.struct([pa.field(f.name, without_null_types(f.type)) for f in members])
    return _REPLACED.get(type_, type_)


_REPLACED = {
    pa.null(): pa.string(), pa.uint64(): pa.decimal128(20), pa.float16(): pa.float32(), pa.date64(): pa.date32(),
}  # fmt: skip


def has_null_type(type_: pa.DataType) -> bool:
    """Whether a type, or one inside it, is that of NULLs alone."""
    return pa.types.is_null(type_) or any(has_null_type(type_.field(i).type) for i in range(type_.num_fields))


def join_operand(on: Any) -> Operand:
    """The join condition of a MERGE: text, a list of names, or an expression of Arrow's.
    Raises OptionError, ArgumentTypeError: it is empty, or of another type: a constant would join all rows or no row."""
    hint = 'such as "id", ["id", "dt"] or "target.id = source.id AND target.n > 1"'
    if (isinstance(on, str) and on.replace(",", "").strip()) or isinstance(on, pc.Expression):
        return on
    iterable = isinstance(on, Iterable) and not isinstance(on, str | bytes | bytearray | Mapping)
    names = list(on) if iterable else []
    if names and all(isinstance(name, str) and name for name in names):
        return names
    if names or not (iterable or on is None or isinstance(on, str)):
        kind = f"not {shown_argument(on)}"
        raise ArgumentTypeError(f"on takes names of columns, or a condition as SQL text, {kind}", hint=hint)
    raise OptionError("a merge needs a condition, or columns that are equal on both sides", hint=hint)


def joined_on(on: Operand, table: Sequence[DataField], source: Sequence[DataField]) -> Operand:
    """Names of columns, in a list or between commas, as a condition; a condition as it is.
    Raises UnknownColumnError: the source has no column that is named."""
    if isinstance(on, str):
        names = texts("on", on)
        known = {field.name.casefold() for field in (*table, *source)}
        if on.strip().casefold() in known:
            names = [on.strip()]
        words = (
            name.casefold() in known or (name.isidentifier() and name.casefold() not in _NO_NAMES) for name in names
        )
        on = names if all(words) else on
    if not isinstance(on, list):
        return on
    missing = next((name for name in on if fields_named(name, table) and not fields_named(name, source)), None)
    if missing is not None:
        has = names_text([field.name for field in source]) if source else "no column"
        raise UnknownColumnError(f"the source has no column {missing!r} to join on", hint=f"it has {has}")
    quoted = [f"`{name.replace('`', '``')}`" for name in on]
    return " AND ".join(f"target.{name} = source.{name}" for name in quoted)


def key_predicate(condition: JoinCondition, keys: SourceKeys, timezone: str) -> Predicate:
    """What a row of the table must satisfy to match some row of the source: keys listed, or their range.

    It may keep rows that match none; it never drops one that does.
    """
    if not len(keys.order):
        return Const.FALSE
    parts = [condition.predicate]
    for key, values in zip(keys.keys, keys.values, strict=True):
        if key.column is not None and not key.null_safe:
            parts.append(_one_key(key, key.column, values, timezone))
    return make_and(*parts)


def _one_key(key: JoinKey, column: DataField, values: pa.Array, timezone: str) -> Predicate:
    assert isinstance(column.type, AtomicType)
    found = _internal(values, key, column.type)
    if found is not None:
        ref = ColumnRef(column.name, (), column.type, column.id)
        if not len(found):
            return Const.FALSE
        if len(found) > LISTED_KEYS:
            ends = pc.min_max(found)
            return make_and(Leaf(Op.GE, ref, (ends["min"].as_py(),)), Leaf(Op.LE, ref, (ends["max"].as_py(),)))
        ordered = tuple(found.take(pc.sort_indices(found)).to_pylist())
        return Leaf(Op.IN if len(ordered) > 1 else Op.EQ, ref, ordered)
    if len(values) > LISTED_KEYS or not isinstance(key.source.type, AtomicType):
        return Const.TRUE
    literals = tuple(Literal(value, key.source.type) for value in _plain_values(values))
    try:
        return bind(Leaf(Op.IN, ColumnRef(column.name), literals), (column,), timezone=timezone)
    except PredicateError:
        if column.type.kind is Kind.CHAR:
            return Const.TRUE  # too many numbers of blanks at the end
        raise


def _internal(values: pa.Array, key: JoinKey, type_: AtomicType) -> pa.Array | None:
    """The keys as internal values of the column, those left out that it can't hold; None where that takes more care."""
    common = key.source.type
    assert isinstance(common, AtomicType)
    if type_.kind in INTEGER_KINDS and common.kind in INTEGER_KINDS:
        wide, held = values.cast(pa.int64()), INTEGER_RANGES[type_.kind]
        return wide.filter(pc.and_(pc.greater_equal(wide, held[0]), pc.less_equal(wide, held[-1])))
    if type_.kind is Kind.VARCHAR and common.kind in STRING_KINDS:
        return values
    if type_.kind in (Kind.DATE, Kind.TIME) and common.kind is type_.kind:
        return values.view(pa.int32())
    if type_.kind is common.kind and type_.precision == common.precision and pa.types.is_timestamp(values.type):
        return values.view(pa.int64())
    return None


def _plain_values(values: pa.Array) -> Sequence[Any]:
    if pa.types.is_timestamp(values.type):
        return values.view(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_date(values.type):
        return values.view(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    return values.to_pylist()  # type: ignore[no-any-return]


def eligible_rows(condition: JoinCondition, source: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows of the source may match at all, by conditions on the source alone."""
    if condition.source is None:
        return np.ones(source.num_rows, np.bool_)
    return to_numpy(condition.source.evaluate(source))
