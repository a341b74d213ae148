"""Alter a table: options, columns, comments. Each call publishes one new schema; data files are not touched.

Readers map the columns of older files by field id, so ids are never used twice, and a change of type must be one that
readers can cast (specification: Paimon documentation, concepts/spec/schema, "Update Schema").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeAlias

import pyarrow as pa

from paimon_pyds.errors import CommitError, OptionError, SchemaError
from paimon_pyds.metadata.schema import CURRENT_SCHEMA_VERSION, TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.operations.create import fresh_ids, texts
from paimon_pyds.operations.evolve import evolve_type
from paimon_pyds.operations.validate import validate_schema
from paimon_pyds.options import IMMUTABLE_OPTIONS, TableOptions
from paimon_pyds.options.near import near_hint
from paimon_pyds.types import (
    ArrayType,
    DataField,
    DataType,
    MapType,
    RowType,
    from_arrow_type,
    parse_type,
    walk_fields,
)

__all__ = ["UNCHANGED", "ColumnType", "NewColumns", "alter_table"]

ColumnType: TypeAlias = "DataType | pa.DataType | str"
NewColumns: TypeAlias = "Mapping[str, ColumnType] | pa.Schema | Sequence[DataField | pa.Field]"

UNCHANGED: Final[Any] = type("Unchanged", (), {"__repr__": lambda self: "UNCHANGED"})()
"""The default of ``comment``: None is a value there, no comment."""

_Edit: TypeAlias = Callable[[Sequence[DataField]], list[DataField]]
_RETRIES = 100
_TRUE_STAYS = ("ignore-delete", "ignore-update-before")


@dataclass(frozen=True, slots=True)
class _Changes:
    set_options: Mapping[str, str]
    unset_options: Sequence[str]
    add_columns: Sequence[tuple[str, DataField]]
    drop_columns: Sequence[str]
    rename_columns: Mapping[str, str]
    change_types: Mapping[str, ColumnType]
    change_nullability: Mapping[str, bool]
    column_comments: Mapping[str, str | None]
    column_defaults: Mapping[str, str | None]
    move_columns: Mapping[str, str]
    comment: Any = field(default=UNCHANGED)


def alter_table(
    store: TableStore,
    set_options: Mapping[str, object] | None = None,
    unset_options: Sequence[str] = (),
    *,
    add_columns: NewColumns | None = None,
    drop_columns: Sequence[str] = (),
    rename_columns: Mapping[str, str] | None = None,
    change_types: Mapping[str, ColumnType] | None = None,
    change_nullability: Mapping[str, bool] | None = None,
    column_comments: Mapping[str, str | None] | None = None,
    column_defaults: Mapping[str, str | None] | None = None,
    move_columns: Mapping[str, str] | None = None,
    comment: Any = UNCHANGED,
) -> TableSchema:
    """Change a table's schema and give the new one; the old one when nothing changes.

    The changes are made in this order: columns dropped, renamed, added, changed in type, in nullability, comments and
    defaults, moved; options unset, then set. A column inside a ROW is named ``row.field`` (``array.element.field`` and
    ``map.value.field`` inside arrays and maps).

    Args:
        add_columns: names and types (Paimon's text, Paimon's or Arrow's types), or an Arrow schema. They are nullable,
            old rows hold NULL, and they go to the end (before the partition columns with add-column-before-partition).
        change_types: new types; a ROW is compared field by field. NULL stays allowed or not as it was.
        change_nullability: True allows NULL, False forbids it (option alter-column-null-to-not-null.disabled).
        column_defaults: defaults for rows written from now on, as texts; None removes one.
        move_columns: ``"first"``, ``"last"``, ``"after c"`` or ``"before c"``.
        comment: the table's comment; None removes it.

    Raises:
        SchemaError: a column that is not there, or a change that Paimon does not allow.
        OptionError: an option that can't be changed (any more), an unknown one, or a bad value.
        UnsupportedError: a type or option value that is refused by name.
        CommitError: too many others changed the schema at the same time.
    """
    if isinstance(drop_columns, str) or isinstance(unset_options, str):
        raise SchemaError("drop_columns and unset_options take a list of names")
    changes = _Changes(
        texts(set_options or {}), tuple(unset_options), _new_columns(add_columns), tuple(drop_columns),
        dict(rename_columns or {}), dict(change_types or {}), dict(change_nullability or {}),
        dict(column_comments or {}), dict(column_defaults or {}), dict(move_columns or {}), comment,
    )  # fmt: skip
    for _ in range(_RETRIES):
        old = store.latest_schema()
        new = _altered(old, changes, has_snapshots=store.latest_snapshot_id() is not None)
        if new is None:
            return old
        validate_schema(new)
        if store.try_create_schema(new):
            return new
    raise CommitError(
        f"{_RETRIES} other changes of the schema were faster", path=store.root, hint="alter the table when it is quiet"
    )


def _altered(old: TableSchema, changes: _Changes, *, has_snapshots: bool) -> TableSchema | None:
    """The schema after the changes; None when it is the same."""
    options = TableOptions(old.options)
    editor = _Columns(old, options)
    editor.drop(changes.drop_columns)
    editor.rename(changes.rename_columns)
    editor.add(changes.add_columns)
    editor.change_types(changes.change_types)
    editor.change_nullability(changes.change_nullability)
    for name, text in changes.column_comments.items():
        editor.update(name, lambda f, text=text: replace(f, description=text))  # type: ignore[misc]
    for name, text in changes.column_defaults.items():
        editor.update(name, lambda f, text=text: replace(f, default=text))  # type: ignore[misc]
    editor.move(changes.move_columns)
    renamed = _renamed_options(old.options, changes.rename_columns)
    new = TableSchema(
        id=old.id + 1,
        fields=tuple(editor.fields),
        highest_field_id=next(editor.ids) - 1,
        partition_keys=old.partition_keys,
        primary_keys=tuple(changes.rename_columns.get(name, name) for name in old.primary_keys),
        options=_changed_options(renamed, old, changes, has_snapshots=has_snapshots),
        comment=old.comment if changes.comment is UNCHANGED else changes.comment,
        time_millis=time.time_ns() // 1_000_000,
        version=CURRENT_SCHEMA_VERSION,
    )
    same = replace(
        new, id=old.id, time_millis=old.time_millis, version=old.version, highest_field_id=old.highest_field_id
    )
    return None if same == old else new


# -------------------------------------------------------------------------------------------------------- columns


class _Columns:
    """The columns of a schema while they are changed."""

    def __init__(self, schema: TableSchema, options: TableOptions) -> None:
        self.fields = list(schema.fields)
        self._schema = schema
        self._options = options
        highest = max([schema.highest_field_id, *(f.id for f in walk_fields(schema.fields))])
        self.ids = count(highest + 1)

    def drop(self, names: Sequence[str]) -> None:
        for name in names:
            self._protect(name, "dropped", primary=True)
            *parents, last = self._path(name)

            def without(fields: Sequence[DataField], last: str = last) -> list[DataField]:
                return [f for f in fields if f.name != last]

            self._edit(parents, _existing(last, name, without), name)

    def rename(self, names: Mapping[str, str]) -> None:
        for old, new in names.items():
            if old in self._schema.partition_keys:
                raise SchemaError(f"partition column {old} can't be renamed")
            *parents, last = self._path(old)

            def renamed(fields: Sequence[DataField], old: str = last, new: str = new) -> list[DataField]:
                if any(f.name == new for f in fields):
                    raise SchemaError(f"column {old} can't be renamed: there is a column {new}")
                return [replace(f, name=new) if f.name == old else f for f in fields]

            self._edit(parents, _existing(last, old, renamed), old)

    def add(self, columns: Sequence[tuple[str, DataField]]) -> None:
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
                    raise SchemaError(f"there is a column {fresh.name} already")
                place = self._place() if top else len(fields)
                return [*fields[:place], fresh, *fields[place:]]

            self._edit(parents, added, name)

    def _place(self) -> int:
        if self._options.get("add-column-before-partition"):
            for i, column in enumerate(self.fields):
                if column.name in self._schema.partition_keys:
                    return i
        return len(self.fields)

    def change_types(self, types: Mapping[str, ColumnType]) -> None:
        explicit = not self._options.get("disable-explicit-type-casting")
        for name, wanted in types.items():
            self._protect(name, "changed in type", primary=True)
            type_ = _column_type(wanted, count())

            def change(f: DataField, name: str = name, type_: DataType = type_) -> DataField:
                return replace(f, type=evolve_type(name, f.type, type_, self.ids, explicit=explicit))

            self.update(name, change)

    def change_nullability(self, nullable: Mapping[str, bool]) -> None:
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
        """Change one column, which may lie inside another."""
        *parents, last = self._path(name)

        def changed(fields: Sequence[DataField]) -> list[DataField]:
            return [change(f) if f.name == last else f for f in fields]

        self._edit(parents, _existing(last, name, changed), name)

    def move(self, moves: Mapping[str, str]) -> None:
        for name, where in moves.items():
            names = [f.name for f in self.fields]
            self._known(name, names)
            moved = self.fields.pop(names.index(name))
            names.remove(name)
            word, _, other = where.partition(" ")
            if word.lower() in ("first", "last") and not other:
                place = 0 if word.lower() == "first" else len(names)
            elif word.lower() in ("after", "before") and other:
                self._known(other, names)
                place = names.index(other) + (word.lower() == "after")
            else:
                raise SchemaError(f"not a place for column {name}: {where!r}", hint='say "first", "last", "after c"')
            self.fields.insert(place, moved)

    # ------------------------------------------------------------------------------------------ finding

    def _protect(self, name: str, what: str, *, primary: bool) -> None:
        schema = self._schema
        if name in schema.partition_keys:
            raise SchemaError(f"partition column {name} can't be {what}")
        if primary and name in schema.primary_keys:
            raise SchemaError(f"primary key column {name} can't be {what}")
        if name in schema.bucket_keys:
            raise SchemaError(f"bucket-key column {name} can't be {what}: it decides where rows are")

    def _known(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            raise SchemaError(f"the table has no column {name!r}", hint=near_hint(name, names, "columns"))

    def _path(self, name: str) -> list[str]:
        """``["a"]`` for a column, ``["a", "b"]`` for a field in a ROW. A column whose own name has dots comes first."""
        names = [f.name for f in self.fields]
        if name not in names:
            for top in names:
                if name.startswith(top + "."):
                    return [top, *name.removeprefix(top + ".").split(".")]
            self._known(name, names)
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

    def _edit(self, parents: Sequence[str], change: _Edit, name: str) -> None:
        if not parents:
            self.fields = change(self.fields)
            return
        top = parents[0]
        self.fields = [
            replace(f, type=_edit_type(f.type, parents[1:], change, name)) if f.name == top else f for f in self.fields
        ]


def _existing(last: str, name: str, change: _Edit) -> _Edit:
    """The same change, of fields among which one is called ``last``."""

    def checked(fields: Sequence[DataField]) -> list[DataField]:
        names = [f.name for f in fields]
        if last not in names:
            raise SchemaError(f"the table has no column {name!r}", hint=near_hint(last, names, "its fields"))
        return change(fields)

    return checked


def _edit_type(type_: DataType, parents: Sequence[str], change: _Edit, name: str) -> DataType:
    if isinstance(type_, ArrayType) and parents[:1] == ["element"]:
        return replace(type_, element=_edit_type(type_.element, parents[1:], change, name))
    if isinstance(type_, MapType) and parents[:1] == ["value"]:
        return replace(type_, value=_edit_type(type_.value, parents[1:], change, name))
    if not isinstance(type_, RowType):
        raise SchemaError(f"the table has no column {name!r}: {type_} has no fields")
    if not parents:
        fields = tuple(change(type_.fields))
        if not fields:
            raise SchemaError(f"column {name}: a ROW needs at least one field")
        return replace(type_, fields=fields)
    if parents[0] not in [f.name for f in type_.fields]:
        raise SchemaError(f"the table has no column {name!r}", hint=near_hint(parents[0], _names(type_), "its fields"))
    return replace(
        type_,
        fields=tuple(
            replace(f, type=_edit_type(f.type, parents[1:], change, name)) if f.name == parents[0] else f
            for f in type_.fields
        ),
    )


def _names(type_: RowType) -> list[str]:
    return [f.name for f in type_.fields]


def _new_columns(columns: NewColumns | None) -> list[tuple[str, DataField]]:
    if columns is None:
        return []
    if isinstance(columns, Mapping):
        return [(name, DataField(-1, name, _column_type(type_, count()))) for name, type_ in columns.items()]
    result = []
    for column in columns:
        if isinstance(column, DataField):
            result.append((column.name, column))
        elif isinstance(column, pa.Field):
            type_ = from_arrow_type(column.type, count(), nullable=column.nullable)
            result.append((column.name, DataField(-1, column.name, type_)))
        else:
            raise SchemaError(f"not a column: {column!r:.100}", hint='give {"name": "INT"} or an Arrow schema')
    return result


def _column_type(wanted: ColumnType, ids: Iterator[int]) -> DataType:
    if isinstance(wanted, DataType):
        return wanted
    if isinstance(wanted, pa.DataType):
        return from_arrow_type(wanted, ids)
    return parse_type(wanted)


# -------------------------------------------------------------------------------------------------------- options


def _renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Options that name columns, with the new names of those that were renamed."""
    if not names:
        return dict(options)
    result = {}
    for key, value in options.items():
        parts = key.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            inner = ",".join(names.get(c, c) for c in parts[1].split(","))
            key = ".".join(("fields", inner, *parts[2:]))
            if parts[-1] in ("sequence-group", "nested-key"):
                value = ",".join(names.get(c.strip(), c.strip()) for c in value.split(","))
        elif parts[0] == "file-index" and parts[-1] == "columns":
            value = ",".join(_renamed_index(part, names) for part in value.split(","))
        elif parts[0] == "file-index" and len(parts) > 3:
            column = _renamed_index(".".join(parts[2:-1]), names)
            key = ".".join((*parts[:2], column, parts[-1]))
        elif key in ("bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", "clustering.columns"):
            value = ",".join(names.get(c.strip(), c.strip()) for c in value.split(","))
        result[key] = value
    return result


def _renamed_index(column: str, names: Mapping[str, str]) -> str:
    name, bracket, key = column.strip().partition("[")
    return names.get(name, name) + bracket + key


def _changed_options(
    options: dict[str, str], old: TableSchema, changes: _Changes, *, has_snapshots: bool
) -> dict[str, str]:
    for key in changes.unset_options:
        fixed = key == "type" or (has_snapshots and (key in IMMUTABLE_OPTIONS or key == "bucket"))
        if fixed and key in options:
            raise OptionError(f"option {key} can't be reset", hint=_why_fixed(key))
        if key in options and has_snapshots:
            _check_transition(key, options, None)
        options.pop(key, None)
    for key, value in changes.set_options.items():
        if options.get(key) == value or _is_normalised(key, value, old):
            continue
        if key in ("path", "type", "primary-key", "partition"):
            raise OptionError(f"option {key} of a table can't be changed", hint="create another table")
        if has_snapshots:
            if key in IMMUTABLE_OPTIONS:
                raise OptionError(f"option {key} can't be changed", hint=_why_fixed(key))
            _check_transition(key, options, value)
        options[key] = value
    return options


def _why_fixed(key: str) -> str:
    return "the table has data that was written with it" if key != "type" else "create another table"


def _is_normalised(key: str, value: str, schema: TableSchema) -> bool:
    """Whether an option says what the schema says already."""
    named = tuple(part.strip() for part in value.split(",") if part.strip())
    if key == "primary-key":
        return named == schema.primary_keys
    if key == "partition":
        return named == schema.partition_keys
    return key == "type" and value.lower() == schema.options.get("type", "table").lower()


def _check_transition(key: str, options: Mapping[str, str], value: str | None) -> None:
    """Changes of value that would make the data of a table that has some unreadable."""
    before = TableOptions(options).get(key) if key in ("bucket", "deletion-vectors.enabled", *_TRUE_STAYS) else None
    if key == "bucket":
        after = TableOptions({"bucket": value or "-1"}).get("bucket")
        if before == -1 or after == -1:
            raise OptionError(f"bucket can't be changed from {before} to {after}", hint=_why_fixed(key))
    elif key == "deletion-vectors.enabled":
        after = TableOptions({key: value or "false"}).get(key)
        if before != after and not TableOptions(options).get("deletion-vectors.modifiable"):
            raise OptionError(
                f"deletion-vectors.enabled can't be changed from {str(before).lower()} to {str(after).lower()}: "
                "rows could come twice",
                hint="compact the table fully and set deletion-vectors.modifiable=true to allow it",
            )
    elif key in _TRUE_STAYS and before and not TableOptions({key: value or "false"}).get(key):
        raise OptionError(f"option {key} can't be changed from true to false")
