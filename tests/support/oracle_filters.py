"""The oracle's JSON predicates as our trees, its JSON values as internal values and Arrow columns.

The forms are those of the header of ../shared/oracle/Oracle.java. When comparing rows with Java's: its floats tell -0.0
from 0.0, ours do not; and Java, as SQL, drops nulls for ``ne`` and ``notin``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
    timestamp_unit,
)
from paimon_pyds.sql.predicate.tree import And, ColumnRef, Leaf, MapKey, Op, Or, Predicate, negate
from paimon_pyds.sql.text.tree import Literal

_OPS = {
    "eq": Op.EQ, "ne": Op.NE, "lt": Op.LT, "le": Op.LE, "gt": Op.GT, "ge": Op.GE, "in": Op.IN, "notin": Op.NOT_IN,
    "isnull": Op.IS_NULL, "isnotnull": Op.IS_NOT_NULL, "startswith": Op.STARTS_WITH, "endswith": Op.ENDS_WITH,
    "contains": Op.CONTAINS, "like": Op.LIKE,
}  # fmt: skip
_PER_SECOND = {"ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def from_oracle(json: Mapping[str, Any], fields: Sequence[DataField]) -> Predicate:
    """An unbound tree with typed literals: give it to `bind` with the same fields."""
    op = json["op"]
    if op in ("and", "or", "not"):
        given = json.get("args") or json.get("children") or json.get("literals") or [json["arg"]]
        children = tuple(from_oracle(child, fields) for child in given)
        return negate(children[0]) if op == "not" else And(children) if op == "and" else Or(children)
    column, type_ = _column(json["field"], fields)
    literals = tuple(_literal(value, type_) for value in json.get("literals", ()))
    if op == "between":
        return And((Leaf(Op.GE, column, literals[:1]), Leaf(Op.LE, column, literals[1:])))
    return Leaf(_OPS[op], column, (*literals, "\\") if op == "like" else literals)


def _column(name: str, fields: Sequence[DataField]) -> tuple[ColumnRef, DataType]:
    types = {field.name: field.type for field in fields}
    if name in types:
        return ColumnRef(name), types[name]
    outer, _, key = name.removesuffix("]").partition("[")
    type_ = types[outer]
    assert isinstance(type_, MapType), f"no column {name}"
    return ColumnRef(outer, (MapKey(key),)), type_.value


def _literal(value: Any, type_: DataType) -> Literal:
    if type_.kind is Kind.TIME:
        type_ = AtomicType(Kind.TIME, precision=3)
    return Literal(internal_value(value, type_), type_)


def internal_value(value: Any, type_: DataType) -> Any:
    """The internal value (see `paimon_pyds.base.types`) of a JSON value; nested ones as pyarrow takes them."""
    if value is None:
        return None
    match type_:
        case ArrayType():
            return [internal_value(v, type_.element) for v in value]
        case MapType():
            return [(internal_value(k, type_.key), internal_value(v, type_.value)) for k, v in value]
        case MultisetType():
            return [(internal_value(k, type_.element), v) for k, v in value]
        case RowType():
            return {f.name: internal_value(value[f.name], f.type) for f in type_.fields}
    match type_.kind:
        case Kind.FLOAT | Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL:
            return Decimal(value)
        case Kind.BINARY | Kind.VARBINARY:
            return bytes.fromhex(value)
        case Kind.DATE:
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        case Kind.TIME:
            return _ticks(f"1970-01-01T{value}", 1000)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_LTZ:
            return _ticks(value.removesuffix("Z"), _PER_SECOND[timestamp_unit(type_)])
    return value


def _ticks(text: str, per_second: int) -> int:
    whole, _, fraction = text.partition(".")
    seconds = (datetime.fromisoformat(whole) - datetime(1970, 1, 1)) // timedelta(seconds=1)
    return seconds * per_second + int(fraction.ljust(9, "0")) * per_second // 1_000_000_000


def arrow_column(values: Iterable[Any], type_: DataType) -> pa.Array:
    """JSON values as an Arrow array of the type's Arrow type."""
    return pa.array([internal_value(value, type_) for value in values], arrow_type(type_))
