"""From one column type to another: which changes Paimon allows, and what becomes of nested field ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from paimon_pyds.ddl.create import numbered
from paimon_pyds.errors import SchemaError
from paimon_pyds.evolution.casting import can_cast
from paimon_pyds.types import (
    BINARY_KINDS,
    INTEGER_KINDS,
    NESTED_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
    MultisetType,
    RowType,
)

_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_NUMERIC = INTEGER_KINDS | _FLOATS | {Kind.DECIMAL}
_DATETIME = TIMESTAMP_KINDS | {Kind.DATE, Kind.TIME}
_IMPLICIT: dict[Kind, frozenset[Kind]] = {
    Kind.CHAR: frozenset({Kind.CHAR}),
    Kind.VARCHAR: STRING_KINDS,
    Kind.BINARY: frozenset({Kind.BINARY}),
    Kind.VARBINARY: BINARY_KINDS,
    Kind.DECIMAL: _NUMERIC,
    Kind.SMALLINT: frozenset({Kind.TINYINT}),
    Kind.INT: frozenset({Kind.TINYINT, Kind.SMALLINT}),
    Kind.BIGINT: frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT}),
    Kind.FLOAT: INTEGER_KINDS | {Kind.DECIMAL},
    Kind.DOUBLE: _NUMERIC,
    Kind.DATE: frozenset({Kind.TIMESTAMP}),
    Kind.TIME: frozenset({Kind.TIMESTAMP}),
    Kind.TIMESTAMP: TIMESTAMP_KINDS,
    Kind.TIMESTAMP_LTZ: TIMESTAMP_KINDS,
}
_TO_NUMBER = _NUMERIC | STRING_KINDS | TIMESTAMP_KINDS | {Kind.BOOLEAN}
_EXPLICIT: dict[Kind, frozenset[Kind]] = {
    Kind.CHAR: frozenset(Kind) - NESTED_KINDS,
    Kind.VARCHAR: frozenset(Kind) - NESTED_KINDS,
    Kind.BOOLEAN: STRING_KINDS | INTEGER_KINDS,
    Kind.BINARY: STRING_KINDS | BINARY_KINDS,
    Kind.VARBINARY: STRING_KINDS | BINARY_KINDS,
    Kind.DECIMAL: STRING_KINDS | TIMESTAMP_KINDS | {Kind.BOOLEAN},
    **dict.fromkeys(INTEGER_KINDS | _FLOATS, _TO_NUMBER),
    Kind.DATE: TIMESTAMP_KINDS | STRING_KINDS,
    Kind.TIME: TIMESTAMP_KINDS | STRING_KINDS,
    Kind.TIMESTAMP: _DATETIME | STRING_KINDS | _NUMERIC,
    Kind.TIMESTAMP_LTZ: _DATETIME | STRING_KINDS | _NUMERIC,
}


def may_cast(source: DataType, target: DataType, *, explicit: bool = True) -> bool:
    """Whether a column of an atomic type may become one of another (Java's cast rules).

    ``explicit=False`` allows widening only (option disable-explicit-type-casting). NULL is no part of the question.
    """
    if source.with_nullable(True) == target.with_nullable(True):
        return True
    a, b = source.kind, target.kind
    if a in NESTED_KINDS or b in NESTED_KINDS:
        return False
    allowed = a is b or a in _IMPLICIT.get(b, ()) or (explicit and a in _EXPLICIT.get(b, ()))
    return allowed and can_cast(source, target)


def evolve_type(name: str, old: DataType, new: DataType, ids: Iterator[int], *, explicit: bool = True) -> DataType:
    """The type that ``old`` becomes when it is changed to ``new``; its own nullability stays that of ``old``.

    Fields of ROWs are matched by name and keep their ids; new ones get ids from ``ids`` and must be nullable; the order
    of those that stay must stay. Keys of MAPs can't change.

    Raises:
        SchemaError: a change that Paimon does not allow.
    """
    match old, new:
        case RowType(), RowType():
            return replace(old, fields=_evolve_fields(name, old.fields, new.fields, ids, explicit))
        case ArrayType(), ArrayType():
            return replace(
                old, element=evolve_type(f"{name}.element", old.element, new.element, ids, explicit=explicit)
            )
        case MultisetType(), MultisetType():
            return replace(
                old, element=evolve_type(f"{name}.element", old.element, new.element, ids, explicit=explicit)
            )
        case MapType(), MapType():
            if _shape(old.key) != _shape(new.key):
                raise SchemaError(f"column {name}: the key of a MAP can't change from {old.key} to {new.key}")
            return replace(old, value=evolve_type(f"{name}.value", old.value, new.value, ids, explicit=explicit))
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType) or not may_cast(old, new, explicit=explicit):
        widening = "" if explicit else " (option disable-explicit-type-casting allows widening only)"
        raise SchemaError(
            f"column {name} of type {old} cannot be converted to {new}{widening}",
            hint="add a new column, or rewrite the table",
        )
    return new.with_nullable(old.nullable)


def _evolve_fields(
    name: str, old: tuple[DataField, ...], new: tuple[DataField, ...], ids: Iterator[int], explicit: bool
) -> tuple[DataField, ...]:
    places = {field.name: i for i, field in enumerate(old)}
    stays = [places[f.name] for f in new if f.name in places]
    if stays != sorted(stays):
        raise SchemaError(f"column {name}: the order of fields that stay can't change")
    if len({f.name for f in new}) != len(new) or not new:
        raise SchemaError(f"column {name}: a ROW needs fields of different names")
    fields = []
    for field in new:
        if field.name in places:
            before = old[places[field.name]]
            type_ = evolve_type(f"{name}.{field.name}", before.type, field.type, ids, explicit=explicit)
            description = before.description if field.description is None else field.description
            fields.append(replace(before, type=type_, description=description))
        elif not field.type.nullable:
            raise SchemaError(
                f"column {name}.{field.name} cannot be added as NOT NULL: older rows have no value for it"
            )
        else:
            id_ = next(ids)
            fields.append(replace(field, id=id_, type=numbered(field.type, ids)))
    return tuple(fields)


def _shape(type_: DataType) -> DataType:
    """A type without its field ids, to compare by."""
    return numbered(type_, iter(range(1 << 30)))
