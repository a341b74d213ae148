"""Alter a table: options, columns, comments. Each call publishes one new schema; data files are not touched.

Readers map the columns of older files by field id, so ids are never used twice, and a change of type must be one that
readers can cast (specification: Paimon documentation, concepts/spec/schema, "Update Schema").
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict

from paimon_pyds.commit.retry import Retries
from paimon_pyds.ddl.changed_options import changed_options, renamed_options
from paimon_pyds.ddl.columns import ColumnEditor, ColumnType, NewColumns, new_columns
from paimon_pyds.ddl.create import texts
from paimon_pyds.ddl.validate import validate_schema
from paimon_pyds.errors import CommitError, OptionError, SchemaError
from paimon_pyds.formats.base import LEGACY_TYPE, holds_instants
from paimon_pyds.metadata.schema import CURRENT_SCHEMA_VERSION, TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import TableOptions, check_no_secrets
from paimon_pyds.scan.planned_files import deletion_files
from paimon_pyds.types import DataField

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["UNCHANGED", "ColumnType", "NewColumns", "SchemaChanges", "alter_table"]

UNCHANGED: Final[Any] = type("Unchanged", (), {"__repr__": lambda self: "UNCHANGED"})()
"""The default of ``comment``: None is a value there, no comment."""

_RETRIES = 100


class SchemaChanges(TypedDict, total=False):
    """What may change besides options. A column inside a ROW is named ``row.field`` (``array.element.field`` and
    ``map.value.field`` inside arrays and maps)."""

    add_columns: NewColumns | None
    """Names and types (Paimon's text, Paimon's or Arrow's types), or an Arrow schema. They are nullable, old rows hold
    NULL, and they go to the end (before the partition columns with add-column-before-partition)."""
    drop_columns: Sequence[str]
    """Names."""
    rename_columns: Mapping[str, str] | None
    """New names by old ones."""
    change_types: Mapping[str, ColumnType] | None
    """New types; a ROW is compared field by field. NULL stays allowed or not as it was."""
    change_nullability: Mapping[str, bool] | None
    """True allows NULL, False forbids it (option alter-column-null-to-not-null.disabled)."""
    column_comments: Mapping[str, str | None] | None
    """New comments; None removes one."""
    column_defaults: Mapping[str, str | None] | None
    """Defaults for rows written from now on, as texts; None removes one."""
    move_columns: Mapping[str, str] | None
    """``"first"``, ``"last"``, ``"after c"`` or ``"before c"``."""
    comment: str | None
    """The table's comment; None removes it."""


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
    comment: Any

    @classmethod
    def of(
        cls, set_options: Mapping[str, object] | None, unset_options: Sequence[str], changes: SchemaChanges
    ) -> _Changes:
        unknown = sorted(changes.keys() - SchemaChanges.__annotations__)
        if unknown:
            allowed = ", ".join(SchemaChanges.__annotations__)
            raise TypeError(f"a table can't be altered by {', '.join(unknown)}, but by {allowed}")
        drop_columns = changes.get("drop_columns", ())
        if isinstance(drop_columns, str) or isinstance(unset_options, str):
            raise SchemaError("drop_columns and unset_options take a list of names")
        return cls(
            set_options=texts(set_options or {}),
            unset_options=tuple(unset_options),
            add_columns=new_columns(changes.get("add_columns")),
            drop_columns=tuple(drop_columns),
            rename_columns=dict(changes.get("rename_columns") or {}),
            change_types=dict(changes.get("change_types") or {}),
            change_nullability=dict(changes.get("change_nullability") or {}),
            column_comments=dict(changes.get("column_comments") or {}),
            column_defaults=dict(changes.get("column_defaults") or {}),
            move_columns=dict(changes.get("move_columns") or {}),
            comment=changes.get("comment", UNCHANGED),
        )


def alter_table(
    store: TableStore,
    set_options: Mapping[str, object] | None = None,
    unset_options: Sequence[str] = (),
    **changes: Unpack[SchemaChanges],
) -> TableSchema:
    """Change a table's schema and return the new one; the old one when nothing changes.

    The changes are made in this order: columns dropped, renamed, added, changed in type, in nullability, comments and
    defaults, moved; options unset, then set.

    Args:
        store: the table.
        set_options: new values of table options; they may be numbers and booleans.
        unset_options: table options that get their defaults again.
        **changes: see `SchemaChanges`.

    Raises:
        SchemaError: a column that does not exist, or a change that Paimon does not allow.
        OptionError: an option that can't be changed (any more), an unknown one, a secret, or a bad value.
        UnsupportedError: a type or option value that is refused by name.
        CommitError: others changed the schema concurrently, too many times.
    """
    wanted = _Changes.of(set_options, unset_options, changes)
    check_no_secrets(wanted.set_options)
    retries = Retries(_RETRIES)
    while True:
        old = store.latest_schema()
        new = _altered(old, wanted, has_snapshots=store.latest_snapshot_id() is not None)
        if new is None:
            return old
        new = _with_instants_option(store, new)
        _check_vectors(store, old, new)
        validate_schema(new)
        if store.try_create_schema(new):
            return new
        what = f"gave up after {retries.count} attempts: others changed the schema concurrently"
        hint = "alter the table again when no other process does"
        retries.again(CommitError(what, path=store.root, hint=hint))


def _with_instants_option(store: TableStore, new: TableSchema) -> TableSchema:
    """The schema, with the option that a new table gets whose ORC files hold instants, where these are the first."""
    schemas = (store.schema(id_) for id_ in store.schema_ids())
    if (
        LEGACY_TYPE in new.options
        or not holds_instants(new.fields, new.options)
        or any(holds_instants(schema.fields, schema.options) for schema in schemas)
    ):
        return new
    return replace(new, options={**new.options, LEGACY_TYPE: "false"})


def _check_vectors(store: TableStore, old: TableSchema, new: TableSchema) -> None:
    """Raises OptionError where rows are deleted by vectors that readers would ignore from now on."""
    enabled = "deletion-vectors.enabled"
    if not TableOptions(old.options).get(enabled) or TableOptions(new.options).get(enabled):
        return
    if deletion_files(store, old, store.latest_snapshot()):
        raise OptionError(
            f"{enabled} can't be switched off while rows are deleted by vectors: they would reappear",
            path=store.root,
            hint="compact the table first, with full=True: it drops them",
        )


def _altered(old: TableSchema, changes: _Changes, *, has_snapshots: bool) -> TableSchema | None:
    """The schema after the changes; None when it is the same."""
    options = TableOptions(old.options)
    editor = ColumnEditor(old, options)
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
    renamed = renamed_options(old.options, changes.rename_columns)
    new = TableSchema(
        id=old.id + 1,
        fields=tuple(editor.fields),
        highest_field_id=next(editor.ids) - 1,
        partition_keys=old.partition_keys,
        primary_keys=tuple(changes.rename_columns.get(name, name) for name in old.primary_keys),
        options=changed_options(renamed, old, changes.set_options, changes.unset_options, has_snapshots=has_snapshots),
        comment=old.comment if changes.comment is UNCHANGED else changes.comment,
        time_millis=time.time_ns() // 1_000_000,
        version=CURRENT_SCHEMA_VERSION,
    )
    same = replace(
        new, id=old.id, time_millis=old.time_millis, version=old.version, highest_field_id=old.highest_field_id
    )
    return None if same == old else new
