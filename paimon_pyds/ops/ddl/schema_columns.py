"""The columns of a schema while they are changed: dropped, renamed, added, cast, moved; and from one type
to another: which changes Paimon allows, and what becomes of nested field ids.

A column inside a ROW is named ``row.field`` (``array.element.field`` and ``map.value.field`` inside arrays and maps).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import several
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    from_arrow_type,
    parse_type,
    walk_fields,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_KINDS, NESTED_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.sql_columns import check_lengths, parse_column, parse_columns
from paimon_pyds.errors import SchemaError, UnknownColumnError, suggest
from paimon_pyds.metadata.evolution.casting import can_cast
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.ddl.create import fresh_ids, numbered

if TYPE_CHECKING:
    from paimon_pyds.typing import ArrowType

ColumnType: TypeAlias = "DataType | ArrowType | str | Mapping[str, Any]"
"""A type, also as Arrow, as text, or as a schema file has it."""
NewColumns: TypeAlias = "str | Mapping[str, ColumnType] | ArrowType | Sequence[DataField | ArrowType]"
_Edit: TypeAlias = Callable[[Sequence[DataField]], list[DataField]]
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


class ColumnEditor:
    """The columns of a schema while they are changed: ``fields``, and the ``ids`` that are still free."""

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self.fields = list(schema.fields)
        self._schema = schema
        self._options = options
        highest = max([schema.highest_field_id, *(f.id for f in walk_fields(schema.fields))])
        self.ids = count(highest + 1)

    def drop(self, names: Sequence[str]) -> None:
        """Remove columns. Raises SchemaError for keys, and for columns that do not exist."""
        for name in names:
            self._protect(name, "dropped")
            self._edit(name, lambda fields, last: [f for f in fields if f.name != last])

    def rename(self, names: Mapping[str, str]) -> None:
        """Give columns new names. Raises SchemaError for partition columns, and for names that are taken."""
        for old, new in names.items():
            if old in self._schema.partition_keys:
                raise SchemaError(f"partition column {old} can't be renamed")

            def renamed(fields: Sequence[DataField], last: str, new: str = new) -> list[DataField]:
                if any(f.name == new for f in fields):
                    raise SchemaError(f"column {last} can't be renamed: column {new} already exists")
                return [replace(f, name=new) if f.name == last else f for f in fields]

            self._edit(old, renamed)

    def add(self, columns: Sequence[tuple[str, DataField]]) -> None:
        """Put columns in, with fresh ids. Raises SchemaError for NOT NULL ones, and for names that are taken."""
        for name, column in columns:
            if not column.type.nullable:
                raise SchemaError(f"column {name} cannot be added as NOT NULL: older rows have no value for it")
            parents = self._parent(name)
            own = name if not parents else name.rpartition(".")[2]
            (fresh,) = fresh_ids([replace(column, name=own)], self.ids)

            def added(
                fields: Sequence[DataField], fresh: DataField = fresh, top: bool = not parents
            ) -> list[DataField]:
                if any(f.name == fresh.name for f in fields):
                    raise SchemaError(f"column {fresh.name} already exists")
                position = self._position() if top else len(fields)
                return [*fields[:position], fresh, *fields[position:]]

            self._edit_within(parents, added, name)

    def append(self, column: DataField) -> None:
        """Put a new column where those go that nobody placed, whatever its name is like."""
        self.fields.insert(self._position(), *fresh_ids([column], self.ids))

    def _position(self) -> int:
        if self._options.get("add-column-before-partition"):
            for i, column in enumerate(self.fields):
                if column.name in self._schema.partition_keys:
                    return i
        return len(self.fields)

    def change_types(self, types: Mapping[str, ColumnType]) -> None:
        """Change types. Raises SchemaError where readers of older files have no cast."""
        explicit = not self._options.get("disable-explicit-type-casting")
        for name, wanted in types.items():
            self._protect(name, "changed in type")
            type_ = _column_type(wanted, count())

            def change(f: DataField, name: str = name, type_: DataType = type_) -> DataField:
                return replace(f, type=evolve_type(name, f.type, type_, self.ids, explicit=explicit))

            self.update(name, change)

    def change_nullability(self, nullable: Mapping[str, bool]) -> None:
        """Allow or forbid NULL. Raises SchemaError where a key would allow it, or an option says no."""
        frozen = self._options.get("alter-column-null-to-not-null.disabled")
        for name, allowed in nullable.items():
            if allowed and name in self._schema.primary_keys:
                raise SchemaError(f"primary key column {name} must be NOT NULL")

            def change(f: DataField, name: str = name, allowed: bool = allowed) -> DataField:
                if frozen and f.type.nullable and not allowed:
                    raise SchemaError(
                        f"column {name} cannot become NOT NULL: rows may hold NULL",
                        hint="set alter-column-null-to-not-null.disabled=false first, if you know that none does",
                    )
                return replace(f, type=f.type.with_nullable(allowed))

            self.update(name, change)

    def update(self, name: str, change: Callable[[DataField], DataField]) -> None:
        """Change one column, which may be inside another one."""
        self._edit(name, lambda fields, last: [change(f) if f.name == last else f for f in fields])

    def move(self, moves: Mapping[str, str]) -> None:
        """Move columns: ``first``, ``last``, ``after c`` or ``before c``. Raises SchemaError for other places."""
        for name, where in moves.items():
            names = [f.name for f in self.fields]
            self._check_name(name, names)
            moved = self.fields.pop(names.index(name))
            names.remove(name)
            word, _, other = where.partition(" ")
            if word.lower() in ("first", "last") and not other:
                position = 0 if word.lower() == "first" else len(names)
            elif word.lower() in ("after", "before") and other:
                self._check_name(other, names)
                position = names.index(other) + (word.lower() == "after")
            else:
                raise SchemaError(
                    f"{where!r} is not a position for column {name}", hint='say "first", "last", "after c"'
                )
            self.fields.insert(position, moved)

    # ------------------------------------------------------------------------------------------ finding

    def _protect(self, name: str, what: str) -> None:
        schema = self._schema
        if name in schema.partition_keys:
            raise SchemaError(f"partition column {name} can't be {what}")
        if name in schema.primary_keys:
            raise SchemaError(f"primary key column {name} can't be {what}")
        if name in schema.bucket_keys:
            raise SchemaError(f"bucket-key column {name} can't be {what}: it decides where rows are")

    def _check_name(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            raise UnknownColumnError(f"the table has no column {name!r}", hint=suggest(name, names, "columns"))

    def _path(self, name: str) -> list[str]:
        """``["a"]`` for a column, ``["a", "b"]`` for a field in a ROW. A column whose own name has dots comes first."""
        names = [f.name for f in self.fields]
        if name not in names:
            for top in names:
                if name.startswith(top + "."):
                    return [top, *name.removeprefix(top + ".").split(".")]
            self._check_name(name, names)
        return [name]

    def _parent(self, name: str) -> list[str]:
        """Where a new column goes: inside a ROW when what is before its last dot is one."""
        before = name.rpartition(".")[0]
        if not before:
            return []
        try:
            return self._path(before)
        except SchemaError:
            return []

    def _edit(self, name: str, change: Callable[[Sequence[DataField], str], list[DataField]]) -> None:
        """Change the list of fields that has an existing column; ``change`` gets these and the column's last name."""
        *parents, last = self._path(name)

        def checked(fields: Sequence[DataField]) -> list[DataField]:
            names = [f.name for f in fields]
            if last not in names:
                raise UnknownColumnError(f"the table has no column {name!r}", hint=suggest(last, names, "its fields"))
            return change(fields, last)

        self._edit_within(parents, checked, name)

    def _edit_within(self, parents: Sequence[str], change: _Edit, name: str) -> None:
        self.fields = _edit_inside(self.fields, parents, change, name) if parents else change(self.fields)


def _edit_type(type_: DataType, parents: Sequence[str], change: _Edit, name: str) -> DataType:
    if isinstance(type_, ArrayType) and parents[:1] == ["element"]:
        return replace(type_, element=_edit_type(type_.element, parents[1:], change, name))
    if isinstance(type_, MapType) and parents[:1] == ["value"]:
        return replace(type_, value=_edit_type(type_.value, parents[1:], change, name))
    if not isinstance(type_, RowType):
        raise UnknownColumnError(f"the table has no column {name!r}: {type_} has no fields")
    if not parents:
        fields = tuple(change(type_.fields))
        if not fields:
            raise SchemaError(f"column {name}: a ROW needs at least one field")
        return replace(type_, fields=fields)
    names = [f.name for f in type_.fields]
    if parents[0] not in names:
        raise UnknownColumnError(f"the table has no column {name!r}", hint=suggest(parents[0], names, "its fields"))
    return replace(type_, fields=tuple(_edit_inside(type_.fields, parents, change, name)))


def _edit_inside(fields: Sequence[DataField], parents: Sequence[str], change: _Edit, name: str) -> list[DataField]:
    """The fields, the type of the first parent among them edited."""
    return [
        replace(f, type=_edit_type(f.type, parents[1:], change, name)) if f.name == parents[0] else f for f in fields
    ]


def new_columns(columns: Any) -> list[tuple[str, DataField]]:
    """`NewColumns`, or None, each with its name, which may be a path. Raises SchemaError: the value has another
    form."""
    if columns is None:
        return []
    if isinstance(columns, Mapping):
        return [(name, _column(name, type_)) for name, type_ in columns.items()]
    if isinstance(columns, str):
        columns = parse_columns(columns)
    result = []
    for column in several("add_columns", columns):
        if isinstance(column, DataField):
            result.append((column.name, column))
        elif isinstance(column, pa.Field):
            type_ = from_arrow_type(column.type, count(), nullable=column.nullable)
            result.append((column.name, DataField(-1, column.name, type_)))
        else:
            raise SchemaError(f"{column!r:.100} is not a column", hint='give {"name": "INT"} or an Arrow schema')
    return result


def _column(name: str, wanted: ColumnType) -> DataField:
    if isinstance(wanted, str):
        return replace(parse_column(name, wanted), id=-1)
    return DataField(-1, name, _column_type(wanted, count()))


def _column_type(wanted: Any, ids: Iterator[int]) -> DataType:
    if isinstance(wanted, DataType):
        return wanted
    if isinstance(wanted, pa.DataType):
        return from_arrow_type(wanted, ids)
    if isinstance(wanted, Mapping):
        check_lengths(wanted)
        return parse_type(dict(wanted))
    if not isinstance(wanted, str):
        raise SchemaError(f"{wanted!r:.100} is no type", hint='write a text such as "INT", or an Arrow type')
    column = parse_column("c", wanted, ids)
    if (column.description, column.default) != (None, None):
        raise SchemaError(f"{wanted!r:.100} is more than a type", hint="comments and defaults have their own arguments")
    return column.type


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
    Raises SchemaError: a change that Paimon does not allow.
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
        case VectorType(), VectorType() if old.with_nullable(True) == new.with_nullable(True):
            return old
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
