"""Arrow batches in exactly the schema wanted: for Spark, which from 4.2 checks it to the last nullable, and from Spark.

Columns and struct members are found by name. Only what loses nothing is cast, with two exceptions: timestamps are
rounded down to a coarser unit, which is how Spark and Java Paimon see them, and numbers are rounded to floats, and
floats to decimals, as Spark does when it stores them, but never to infinity.
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import pc, to_numpy
from paimon_pyds.base.types.kinds import UNITS_PER_SECOND
from paimon_pyds.base.types.nested import (
    TIME_HINT,
    MissingMemberError,
    cast_nested,
    cast_number,
    find_name,
    has_strict_member,
    with_members,
)
from paimon_pyds.errors import SchemaError


def conform_batch(batch: pa.RecordBatch, schema: pa.Schema, *, takes_members: bool = False) -> pa.RecordBatch:
    """The batch with exactly the columns of ``schema``, in its order and of its types. ``takes_members``: NULL stands
    for members of structs that are not there.
    Raises SchemaError: a missing column, a value that does not fit, NULL where the schema says NOT NULL."""
    if batch.schema.equals(schema) and not any(has_strict_member(f.type) for f in schema):
        return batch
    names = batch.schema.names
    columns = []
    for field in schema:
        at = find_name(names, field.name)
        if at is None:
            raise SchemaError(f"there is no column {field.name!r}", hint=f"there are {', '.join(names)}")
        column = with_members(batch.column(at), field.type) if takes_members else batch.column(at)
        columns.append(_conform(column, field, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, field: pa.Field, column: str) -> pa.Array:
    if not field.nullable and array.null_count:
        raise SchemaError(
            f"column {column} is NOT NULL, and {array.null_count} of {len(array)} rows have no value",
            hint="fill or drop those rows first",
        )
    return cast_nested(array, field.type, column, _cast_leaf)


def _cast_leaf(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    source, t = array.type, pa.types
    if t.is_timestamp(source) and t.is_timestamp(target) and (source.tz is None) == (target.tz is None):
        return _rescale(array, target, column)
    try:
        return cast_number(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        if isinstance(error, pa.ArrowInvalid):
            from paimon_pyds.base.types.unfit_values import first_refused, shown

            reason = shown(array, first_refused(len(array), lambda n: cast_number(array.slice(0, n), target)))
        hint = TIME_HINT if t.is_time(source) else "correct that value, or change the column's type"
        raise SchemaError(f"column {column} is {source} and does not fit {target}: {reason}", hint=hint) from error


def _rescale(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """Another unit: rounded down when coarser, checked for overflow when finer."""
    have, want = UNITS_PER_SECOND[array.type.unit], UNITS_PER_SECOND[target.unit]
    if have <= want:
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"column {column}: {str(error).splitlines()[0]}") from error
    values = to_numpy(pc.fill_null(array.view(pa.int64()), 0))
    coarse = np.floor_divide(values, have // want)
    mask = array.is_null() if array.null_count else None
    numbers = arrow_array(coarse, mask=None if mask is None else to_numpy(mask))
    return numbers.view(target)


def check_castable(source: pa.DataType, target: pa.DataType, column: str, *, read: bool = False) -> None:
    """Refuse what would change the meaning of values, before a row is written to a table (or ``read`` from one).

    Integers, decimals and floating point numbers go into each other (values are checked later), except fractions into
    integers; NULL goes everywhere; texts, bytes, dates, times and timestamps stay what they are. A read may leave
    members of structs out, a write may not.
    Raises SchemaError: the types do not go together; it names the column.
    """
    t = pa.types
    if t.is_dictionary(source):
        source = source.value_type
    if source.equals(target) or t.is_null(source):
        return
    if t.is_struct(source) and t.is_struct(target):
        _check_struct(source, target, column, read)
    elif t.is_map(source) and t.is_map(target):
        check_castable(source.key_type, target.key_type, f"{column}.key", read=read)
        check_castable(source.item_type, target.item_type, f"{column}.value", read=read)
    elif _is_list(source) and _is_list(target):
        check_castable(source.value_type, target.value_type, f"{column}.element", read=read)
    elif not _same_meaning(source, target):
        from paimon_pyds.base.types.arrow import from_arrow_type

        of_table = from_arrow_type(source if read else target, itertools.count())
        other = f"{target} in the schema given" if read else f"{source} in the data"
        ours = f"{of_table} in the table"
        text = f"column {column} is {ours} and {other}" if read else f"column {column} is {other} and {ours}"
        raise SchemaError(text, hint="cast it after the read" if read else "cast it first")


def _check_struct(source: pa.StructType, target: pa.StructType, column: str, read: bool) -> None:
    names = [source.field(i).name for i in range(source.num_fields)]
    for i in range(target.num_fields):
        member = target.field(i)
        at = find_name(names, member.name)
        if at is None:
            raise MissingMemberError(column, member.name, names)
        check_castable(source.field(at).type, member.type, f"{column}.{member.name}", read=read)
    if not read:
        from paimon_pyds.base.types.unfit_values import check_no_more_members

        check_no_more_members(source, target, column)


def _is_list(type_: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_))


def _same_meaning(source: pa.DataType, target: pa.DataType) -> bool:
    t = pa.types
    if t.is_integer(target):
        return bool(t.is_integer(source))
    if t.is_floating(target) or t.is_decimal(target):
        return bool(t.is_integer(source) or t.is_floating(source) or t.is_decimal(source))
    if t.is_timestamp(source) and t.is_timestamp(target):
        return bool((source.tz is None) == (target.tz is None))
    kinds = (
        (t.is_string, t.is_large_string, t.is_string_view),
        (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view),
        (t.is_time,),
    )
    return any(any(k(source) for k in kind) and any(k(target) for k in kind) for kind in kinds)
