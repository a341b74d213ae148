"""Keys of any frame as a condition: a row matches where its columns have the values of one of the keys (a semi-join).

Values are compared as SQL compares columns: NULL equals nothing, NaN equals NaN, and numbers of different types are
equal where they are the same number. A key that a column can't hold matches no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import array, decoded, one_array, pc, scalar
from paimon_pyds.base.frames import rows_of
from paimon_pyds.base.types import AtomicType, DataField, arrow_type, fields_named
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.sql_values import time_zone
from paimon_pyds.errors import SchemaError, columns_text, suggest
from paimon_pyds.sql.expression.cast import to_instant, to_local
from paimon_pyds.sql.predicate.among import among
from paimon_pyds.sql.predicate.literal_bounds import domain
from paimon_pyds.sql.predicate.tree import ColumnRef, Predicate

_NUMBERS = INTEGER_KINDS | FLOAT_KINDS | {Kind.DECIMAL}
_BYTES = STRING_KINDS | BINARY_KINDS
_INT64_MAX = 2**63 - 1
"""The greatest BIGINT: an unsigned value above it matches none."""
_PRECISIONS = {"ms": 3, "us": 6, "ns": 9}


def key_table(keys: Any) -> pa.Table:
    """The keys in memory: they may come as a stream, and a commit that is retried needs them again.

    ``keys``: anything that rows can be taken from. Raises SchemaError: it has no columns, or no rows of one form.
    """
    schema, batches = rows_of(keys)
    if schema is None or not schema.names:
        raise SchemaError("the keys to match have no columns", hint="give a table with columns of the same names")
    parts = list(batches)
    return pa.Table.from_batches(parts, parts[0].schema if parts else schema)


def matching_rows(keys: pa.Table, fields: Sequence[DataField], timezone: str = "UTC") -> Predicate:
    """The condition that a row has the values of one of the keys, in the columns that these have.

    Args:
        keys: as `key_table` gives them.
        fields: the table's columns; names are looked for exactly, else ignoring case.
        timezone: of timestamps without one that are compared with instants, and the other way round.

    Raises:
        SchemaError: the table has no such column, or one whose values can't be compared with the keys.
    """
    time_zone(timezone)
    columns, arrays = list[ColumnRef](), list[pa.Array]()
    for name, values in zip(keys.schema.names, keys.columns, strict=True):
        found = fields_named(name, fields)
        if len(found) != 1:
            what = f"several columns could be {name!r}" if found else f"the table has no {columns_text([name])}"
            hint = suggest(name, [field.name for field in fields], "its columns")
            raise SchemaError(f"{what}, which the keys to match have", hint=hint)
        (field,) = found
        column = ColumnRef(field.name, (), field.type, field.id)
        if column in columns:
            raise SchemaError(f"two columns of the keys to match are {field.name!r}")
        columns.append(column)
        arrays.append(_held(one_array(values), field, timezone))
    return among(columns, arrays)


def _held(values: pa.Array, field: DataField, timezone: str) -> pa.Array:
    """Keys as values of a column; NULL for those that it can't hold."""
    values = decoded(values) if pa.types.is_dictionary(values.type) else values
    if isinstance(field.type, AtomicType):
        kind, wanted = field.type.kind, arrow_type(field.type)
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), wanted)
        if values.type == wanted:
            return values
        if kind in _NUMBERS and _is_number(values.type):
            return _numbers(values, field.type)
        if kind in _BYTES and values.type in _TEXTS[kind in STRING_KINDS]:
            return values.cast(wanted)
        if (kind is Kind.DATE or kind in TIMESTAMP_KINDS) and (
            pa.types.is_date(values.type) or pa.types.is_timestamp(values.type)
        ):
            return _same(_in_zone(values, wanted, timezone), wanted)
        if kind is Kind.TIME and pa.types.is_time(values.type):
            return _same(values, wanted)
    raise SchemaError(
        f"the keys to match have {values.type} in {field.name!r}, which is {field.type}",
        hint="give values of the column's type, such as integers for an INT and dates for a DATE",
    )


_TEXTS = {
    True: (pa.string(), pa.large_string(), pa.string_view()),
    False: (pa.binary(), pa.large_binary(), pa.binary_view()),
}


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _where(condition: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(condition, False), values, scalar(None, values.type))


def _same(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values cast where they stay the same."""
    found = values.cast(wanted, safe=False)
    return _where(pc.equal(found.cast(values.type, safe=False), values), found)


def _numbers(values: pa.Array, type_: AtomicType) -> pa.Array:
    wanted = arrow_type(type_)
    if type_.kind is Kind.DECIMAL or pa.types.is_decimal(values.type):
        return _by_value(values, wanted, _exactly(type_))
    if pa.types.is_unsigned_integer(values.type):
        values = _where(pc.less_equal(values.cast(pa.uint64()), scalar(_INT64_MAX, pa.uint64())), values)
        values = values.cast(pa.int64(), safe=False)
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
        if type_.kind in INTEGER_KINDS:
            whole = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 2.0**63))
            values = _where(whole, values).cast(pa.int64(), safe=False)
    elif type_.kind in FLOAT_KINDS:
        values = values.cast(pa.float64(), safe=False)
    if type_.kind is not Kind.FLOAT:
        return _same(values, wanted)
    found = values.cast(wanted)
    again = found.cast(pa.float64())
    return _where(pc.or_(pc.equal(again, values), pc.and_(pc.is_nan(again), pc.is_nan(values))), found)


def _by_value(values: pa.Array, wanted: pa.DataType, change: Callable[[Any], Any]) -> pa.Array:
    """Each different value changed by itself: for types that Arrow does not cast without loss."""
    coded = values.dictionary_encode()
    return array(map(change, coded.dictionary.to_pylist()), wanted).take(coded.indices)


def _exactly(type_: AtomicType) -> Callable[[Any], Any]:
    """A function that returns the value of a numeric type that equals a number; None if no value does."""
    kind, scale = type_.kind, type_.scale or 0
    least, most = domain(type_) if kind not in FLOAT_KINDS else (0, 0)

    def exact(value: Any) -> Any:
        if kind in FLOAT_KINDS:
            return float(value)
        try:
            with localcontext(prec=100):
                given = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
                found = given.quantize(Decimal(1).scaleb(-scale))
                if not least <= int(found.scaleb(scale)) <= most:
                    return None
                same = float(found) == value if isinstance(value, float) else found == given
        except (InvalidOperation, ValueError):  # NaN, infinite, or with very many digits
            return None
        return (int(found) if kind in INTEGER_KINDS else found) if same else None

    return exact


def _in_zone(values: pa.Array, wanted: pa.DataType, timezone: str) -> pa.Array:
    """Dates and times as instants where instants are wanted, else as clocks show them."""
    if pa.types.is_date(values.type):
        values = values.cast(pa.date32()).cast(pa.timestamp("ms"))
    if values.type.unit == "s":
        values = values.cast(pa.timestamp("ms", values.type.tz), safe=False)
    instants = pa.types.is_timestamp(wanted) and wanted.tz is not None
    if instants == (values.type.tz is not None):
        return values
    precision = _PRECISIONS[values.type.unit]
    if instants:
        return to_instant(values, AtomicType(Kind.TIMESTAMP_LTZ, precision=precision), timezone)
    return to_local(values, AtomicType(Kind.TIMESTAMP_LTZ, precision=precision), timezone)
