"""Conditions that other libraries hand over as expressions of pyarrow, in SQL.

An expression has no members that say what it consists of. But it pickles as an Arrow file: metadata that lists its
parts in order, and a row with its constants. A part that is not understood costs rows that are read in vain, and
nothing else.
(Source: Arrow's source code, `Serialize` in cpp/src/arrow/compute/expression.cc; Spark's "Literals".)
"""

from __future__ import annotations

import ctypes
import datetime
import math
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from paimon_pyds.base.lazy_polars import sql_name, sql_text
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind

if TYPE_CHECKING:
    from paimon_pyds.base.types import DataField

COMPARABLE = frozenset({
    *INTEGER_KINDS, Kind.VARCHAR, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ
})  # fmt: skip
"""What SQL compares as Arrow does. CHAR is not among them: SQL compares it without the blanks at its end."""
_OPERATORS = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "not_equal": "<>"}
_METADATA_OF_SCHEMA = 2 * ctypes.sizeof(ctypes.c_void_p)
"""Where `ArrowSchema` of Arrow's C data interface has the address of its metadata."""


class Condition(NamedTuple):
    """A condition as far as it is understood.

    Attributes:
        sql: a condition that is true wherever this one is; None where nothing is known.
        is_exact: whether it is true nowhere else.
        columns: the names of the columns that it needs; None if they are not known.
    """

    sql: str | None
    is_exact: bool = False
    columns: frozenset[str] | None = None


class _Call(NamedTuple):
    name: str
    arguments: tuple[Any, ...]
    options: Any
    """A scalar of a structure."""


class _Column(NamedTuple):
    path: tuple[str, ...]


_Part = Any
"""A call, a column, or a scalar."""


class _Sql(NamedTuple):
    text: str
    is_exact: bool = True


def as_condition(expression: Any, fields: Mapping[str, DataField]) -> Condition:
    """An expression of pyarrow in SQL.

    ``fields``: the columns that SQL may name.
    """
    try:
        parts, constants = _stored(expression)
        tree = _tree(parts, constants)
        if parts:
            raise ValueError(parts)
        found, columns = _sql(tree, fields), frozenset(_columns(tree))
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError):  # another form
        return Condition(None)
    return Condition(None, columns=columns) if found is None else Condition(found.text, found.is_exact, columns)


def _stored(expression: Any) -> tuple[list[tuple[str, str]], pa.RecordBatch]:
    """The parts of an expression, the last one first, and its constants."""
    _, (stored,) = expression.__reduce__()
    file = pa.ipc.open_file(stored)
    return _metadata(file.schema)[::-1], file.get_batch(0)


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """The metadata in order, with keys that occur several times: as a dictionary it has only the last of these."""
    capsule = schema.__arrow_c_schema__()
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    at = ctypes.c_void_p.from_address(address_of(capsule, b"arrow_schema") + _METADATA_OF_SCHEMA).value
    if at is None:
        return []
    count, *_ = struct.unpack("=i", ctypes.string_at(at, 4))
    texts, place = list[str](), at + 4
    for _ in range(2 * count):
        size, *_ = struct.unpack("=i", ctypes.string_at(place, 4))
        texts.append(ctypes.string_at(place + 4, size).decode())
        place += 4 + size
    return list(zip(texts[::2], texts[1::2], strict=True))


def _tree(parts: list[tuple[str, str]], constants: pa.RecordBatch) -> _Part:
    """The expression that the last of the parts begins: they are in reverse order, and taken away."""
    key, value = parts.pop()
    if key == "field_ref":
        return _Column((value,))
    if key == "nested_field_ref":
        return _Column(tuple(parts.pop()[1] for _ in range(int(value))))
    if key == "literal":
        return constants.column(int(value))[0]
    if key != "call":
        raise ValueError(key)
    arguments: list[_Part] = []
    options = None
    while parts[-1][0] != "end":
        if parts[-1][0] == "options":
            options = constants.column(int(parts.pop()[1]))[0]
        else:
            arguments.append(_tree(parts, constants))
    parts.pop()
    return _Call(value, tuple(arguments), options)


def _columns(part: _Part) -> Iterator[str]:
    if isinstance(part, _Column):
        yield part.path[0]
    elif isinstance(part, _Call):
        for argument in part.arguments:
            yield from _columns(argument)


def _sql(part: _Part, fields: Mapping[str, DataField]) -> _Sql | None:
    if not isinstance(part, _Call):
        return None
    name, arguments = part.name.removesuffix("_kleene"), part.arguments
    if name in ("and", "or"):
        return _joined(name.upper(), [_sql(argument, fields) for argument in arguments])
    if name == "if_else":
        return _where_valid(part, fields)
    column = arguments[0] if arguments else None
    field = fields.get(column.path[0]) if isinstance(column, _Column) and len(column.path) == 1 else None
    if field is None:
        return None
    quoted, exact = sql_name(field.name), field.type.kind is not Kind.DOUBLE  # of which there are NaN and -0.0
    if name == "is_valid":
        return _Sql(f"{quoted} IS NOT NULL")
    if name == "is_null":
        return None if part.options["nan_is_null"].as_py() else _Sql(f"{quoted} IS NULL")
    if name == "is_in":
        values = [_constant(value, field) for value in part.options["value_set"].values]
        known = [value for value in values if value is not None]
        return _Sql(f"{quoted} IN ({', '.join(known)})", exact) if 0 < len(known) == len(values) else None
    if name in _OPERATORS:
        value = _constant(arguments[1], field)
        return None if value is None else _Sql(f"{quoted} {_OPERATORS[name]} {value}", exact)
    return None


def _where_valid(part: _Call, fields: Mapping[str, DataField]) -> _Sql | None:
    """``if_else(is_valid(column), is_in(column, …), NULL)``: DuckDB gives ``IN`` its NULL so."""
    match part.arguments:
        case (
            _Call("is_valid", (_Column() as column,)),
            _Call("is_in", (_Column() as other,)) as within,
            pa.Scalar() as no,
        ):
            return _sql(within, fields) if column == other and not no.is_valid else None
    return None


def _joined(word: str, parts: list[_Sql | None]) -> _Sql | None:
    known = [part for part in parts if part is not None]
    is_whole = len(known) == len(parts)
    if not known or (word == "OR" and not is_whole):
        return None
    exact = is_whole and all(part.is_exact for part in known)
    return _Sql(f" {word} ".join(f"({part.text})" for part in known), exact)


def _constant(scalar: _Part, field: DataField) -> str | None:
    """A constant in SQL; None where it is not surely one of the column's values."""
    if not isinstance(scalar, pa.Scalar) or not scalar.is_valid:
        return None
    kind, type_ = field.type.kind, scalar.type
    if pa.types.is_timestamp(type_):
        return _moment(scalar, kind)
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # a date beyond Python's
        return None
    if kind in INTEGER_KINDS and pa.types.is_integer(type_):
        return str(value)
    if kind is Kind.VARCHAR and pa.types.is_string(type_):
        return sql_text(value)
    if kind is Kind.DOUBLE and pa.types.is_float64(type_):
        return f"{value!r}D" if math.isfinite(value) else None
    if kind is Kind.DECIMAL and pa.types.is_decimal(type_):
        return f"{value:f}BD"
    if kind is Kind.DATE and pa.types.is_date32(type_):
        return f"DATE '{value.isoformat()}'"
    if kind is Kind.BOOLEAN and pa.types.is_boolean(type_):
        return str(value).upper()
    return None


def _moment(scalar: pa.Scalar, kind: Kind) -> str | None:
    zone, steps = scalar.type.tz, {"s": 1, "ms": 1_000, "us": 1_000_000}.get(scalar.type.unit)
    if steps is None or kind is not (Kind.TIMESTAMP if zone is None else Kind.TIMESTAMP_LTZ):
        return None
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=scalar.value * (1_000_000 // steps))
    except OverflowError:
        return None
    return f"TIMESTAMP_NTZ '{moment}'" if zone is None else f"TIMESTAMP '{moment}Z'"
