"""Store assignment: a value as the value of a table's column, or one clear error.

The rules are those of Spark's ANSI policy (``Cast.canANSIStoreAssign``): a number fits any number that has room for
it, any plain value fits a text, dates and timestamps fit each other; a text fits nothing but a text.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import ExpressionError
from paimon_pyds.expression.cast import cast_array
from paimon_pyds.expression.coercion import NUMBERS, Type, normal
from paimon_pyds.expression.nodes import type_text
from paimon_pyds.types import (
    BINARY_KINDS,
    MAX_LENGTH,
    REFUSED_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    AtomicType,
    DataType,
    Kind,
    arrow_type,
)

__all__ = ["assign", "check_assignable"]

_TEMPORAL = TIMESTAMP_KINDS | {Kind.DATE}


def check_assignable(source: Type, target: DataType) -> None:
    """Raise ExpressionError unless values of one type may be stored in a column of another."""
    if source is None or (_groups(source.kind, target.kind) and target.kind not in REFUSED_KINDS):
        return
    if not isinstance(source, AtomicType) and source.kind is target.kind:
        return
    hint = None
    if isinstance(target, AtomicType) and isinstance(source, AtomicType):
        hint = f"write CAST(… AS {_sql_name(target)})"
    raise ExpressionError(f"a {type_text(source)} is not stored in a column of type {target}", hint=hint)


def _groups(source: Kind, target: Kind) -> bool:
    return (
        (source is target)
        or (source in NUMBERS and target in NUMBERS)
        or target in STRING_KINDS
        or (source in BINARY_KINDS and target in BINARY_KINDS)
        or (source in _TEMPORAL and target in _TEMPORAL)
    )


def _sql_name(type_: AtomicType) -> str:
    return {Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.TIMESTAMP_LTZ: "TIMESTAMP"}.get(type_.kind, str(normal(type_)))


def assign(array: pa.Array, source: Type, target: DataType, zone: str) -> pa.Array:
    """Values of one type as values of a column, lengths checked. Raises ExpressionError when one does not fit."""
    wanted = arrow_type(target)
    if source is None:
        return pa.nulls(len(array), wanted)
    if not isinstance(source, AtomicType) or not isinstance(target, AtomicType):
        return _nested(array, wanted)
    found = cast_array(array, source, target, zone)
    return _fitted(found, target) if target.kind in STRING_KINDS | BINARY_KINDS else found


def _nested(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    try:
        return array if array.type == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ExpressionError(f"a value does not fit: {str(error).splitlines()[0]}") from None


def _fitted(array: pa.Array, target: AtomicType) -> pa.Array:
    """Texts and bytes within their column's length: spaces at the end give way. CHAR is not filled, as in appends."""
    limit = target.length or 1
    if limit == MAX_LENGTH:
        return array
    text = target.kind in STRING_KINDS
    lengths = pc.utf8_length(array) if text else pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) > limit:
        if text:
            cut = pc.utf8_slice_codeunits(array, 0, limit)
            spaces = pc.utf8_rtrim(pc.utf8_slice_codeunits(array, limit), characters=" ")
            array = cut if (pc.max(pc.utf8_length(spaces)).as_py() or 0) == 0 else array
            lengths = pc.utf8_length(array)
        longest = pc.max(lengths).as_py()
        if longest > limit:
            raise ExpressionError(f"a value has length {longest}, {target} allows {limit}")
    return array
