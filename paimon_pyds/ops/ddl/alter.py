"""Alter a table: options, columns, comments. Each call publishes one new schema; data files are not touched.

Readers map the columns of older files by field id, so ids are never used twice, and a change of type must be one that
readers can cast (specification: Paimon documentation, concepts/spec/schema, "Update Schema").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import pyarrow as pa

from paimon_pyds.base.arrays import grouped, pc
from paimon_pyds.base.options import (
    DIRECTORY_OPTIONS,
    IMMUTABLE_OPTIONS,
    TableOptions,
    check_no_secrets,
    option_of,
    stored_options,
)
from paimon_pyds.base.options.option import comma_separated, mapping, option_texts, refused_argument, text, texts
from paimon_pyds.base.retry import Retry
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.scan.other_branch import check_same_columns, other_branch
from paimon_pyds.engine.scan.planned_files import deletion_files
from paimon_pyds.errors import CommitError, OptionError
from paimon_pyds.format import LEGACY_TYPE, holds_instants
from paimon_pyds.keys.merge.older_versions import OlderVersions
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.schema import CURRENT_SCHEMA_VERSION, TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.blob_columns import check_not_renamed, without_columns
from paimon_pyds.ops.ddl.schema_columns import ColumnEditor, ColumnType, NewColumns, new_columns
from paimon_pyds.ops.ddl.validate import COLUMN_OPTIONS, validate_schema

if TYPE_CHECKING:
    from typing import Unpack

_RETRIES = 100
_TEXTS_OR_NONE = ("column_comments", "column_defaults")
_TRUE_STAYS = ("ignore-delete", "ignore-update-before")
"""Options that can't be changed from true to false."""


class SchemaChanges(TypedDict, total=False):
    """Changes of a schema other than options. A column inside a ROW is named ``row.field`` (``array.element.field`` and
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
    for key, value in (set_options or {}).items():
        if value is None:
            raise OptionError(
                f"option {key} is set to None", hint=f"unset_options=[{key!r}] gives it its default again"
            )
    unknown = sorted(changes.keys() - SchemaChanges.__annotations__)
    if unknown:
        allowed = ", ".join(SchemaChanges.__annotations__)
        raise TypeError(f"a table can't be altered by {', '.join(unknown)}, but by {allowed}")
    _check_types(changes)
    changes["drop_columns"] = tuple(texts("drop_columns", changes.get("drop_columns", ())))  # looked at in each attempt
    added, options = new_columns(changes.get("add_columns")), option_texts(set_options)
    unset = tuple(texts("unset_options", unset_options))
    check_no_secrets(options)
    options = stored_options(options)

    def altered(old: TableSchema) -> TableSchema | None:
        has_snapshots = store.latest_snapshot_id() is not None
        return _altered(old, changes, added, options, unset, has_snapshots=has_snapshots)

    return publish_schema(store, altered)


def publish_schema(store: TableStore, change: Callable[[TableSchema], TableSchema | None]) -> TableSchema:
    """Publish what ``change`` makes of the newest schema, again where others were faster; return the schema then.
    ``change``: returns None where nothing changes.
    Raises as `alter_table`."""
    retries = Retry(attempts=_RETRIES + 1)
    while True:
        old = store.latest_schema()
        new = change(old)
        if new is None:
            return old
        new = _with_instants_option(store, new)
        _check_vectors(store, old, new)
        _check_levels(store, old, new)
        _check_other_branch(store, old, new)
        validate_schema(new, old)
        made = None if store.publisher is None else store.publisher.alter(store, old, new)
        if made is not None:
            return made
        if store.try_create_schema(new):
            return new
        what = f"gave up after {retries.count} attempts: others changed the schema concurrently"
        hint = "alter the table again when no other process does"
        retries.again(CommitError(what, path=store.root, hint=hint))


def _check_types(changes: Mapping[str, Any]) -> None:
    """Raises ArgumentTypeError for what would be published as something that nobody reads as a schema."""
    for what in ("rename_columns", "change_types", "change_nullability", *_TEXTS_OR_NONE, "move_columns"):
        for name, value in mapping(what, changes.get(what) or {}).items():
            of = f"{what} of {text(f'{what}: each', name)!r}"
            if what == "change_nullability":
                if not isinstance(value, bool):
                    raise refused_argument(of, "True or False", value)
            elif what != "change_types" and not (value is None and what in _TEXTS_OR_NONE):
                text(of, value)
    if changes.get("comment") is not None:
        text("comment", changes["comment"])


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
    if store.read_newest(lambda newest: deletion_files(store, old, newest)):
        raise OptionError(
            f"{enabled} can't be switched off while rows are deleted by vectors: they would reappear",
            path=store.root,
            hint="compact the table first, with full=True: it drops them",
        )


def _check_other_branch(store: TableStore, old: TableSchema, new: TableSchema) -> None:
    """Raises OptionError where partitions would come from two other branches, BranchNotFoundError from one that is not
    there, SchemaError from one with other columns."""
    named = other_branch(TableOptions(new.options), store.branch)
    if named is not None and named != other_branch(TableOptions(old.options), store.branch):
        check_same_columns(new, store.for_branch(named.name).latest_schema(), named.name)


def _check_levels(store: TableStore, old: TableSchema, new: TableSchema) -> None:
    """Raises OptionError if versions of rows are on several levels and would be read in another way from now on."""
    before, after = (OlderVersions.of(TableOptions(schema.options)) for schema in (old, new))
    if not new.primary_keys or before.fit(after):
        return
    reader = ManifestReader(store)
    files = store.read_newest(lambda newest: reader.live_files(newest, ("partition", "bucket", "level")))
    above = files.select(["partition", "bucket", "level"]).filter(pc.greater(files["level"], 0))
    levels = grouped(pa.Table.from_batches([above]), ["partition", "bucket"], [("level", "count_distinct")])
    if levels.num_rows and pc.max(levels["level_count_distinct"]).as_py() > 1:
        raise OptionError(
            "whether compactions look older versions of rows up (deletion-vectors.enabled, changelog-producer=lookup) "
            "can't be changed while rows are on several levels: older versions would come back, or values be lost",
            path=store.root,
            hint="compact the table first, with full=True, when nobody writes to it",
        )


def _altered(
    old: TableSchema,
    changes: SchemaChanges,
    added: Sequence[tuple[str, DataField]],
    set_options: Mapping[str, str],
    unset_options: Sequence[str],
    *,
    has_snapshots: bool,
) -> TableSchema | None:
    """The schema after the changes; None when it is the same."""
    renamed = changes.get("rename_columns") or {}
    check_not_renamed(old.fields, renamed)
    editor = ColumnEditor(old, TableOptions(old.options))
    editor.drop(changes.get("drop_columns", ()))
    editor.rename(renamed)
    editor.add(added)
    editor.change_types(changes.get("change_types") or {})
    editor.change_nullability(changes.get("change_nullability") or {})
    for name, value in (changes.get("column_comments") or {}).items():
        editor.update(name, lambda f, value=value: replace(f, description=value))  # type: ignore[misc]
    for name, value in (changes.get("column_defaults") or {}).items():
        editor.update(name, lambda f, value=value: replace(f, default=value))  # type: ignore[misc]
    editor.move(changes.get("move_columns") or {})
    options = renamed_options(without_columns(old.options, changes.get("drop_columns", ())), renamed)
    change_options(options, old, set_options, unset_options, has_snapshots=has_snapshots)
    new = replace(
        old,
        primary_keys=tuple(renamed.get(name, name) for name in old.primary_keys),
        options=options,
        comment=changes.get("comment", old.comment),
    )
    return next_schema(old, new, editor)


def next_schema(old: TableSchema, new: TableSchema, editor: ColumnEditor) -> TableSchema | None:
    """The schema that follows another one, with the columns of an editor; None when it is the same."""
    new = replace(new, fields=tuple(editor.fields))
    if new == old:
        return None
    return replace(
        new,
        id=old.id + 1,
        highest_field_id=next(editor.ids) - 1,
        time_millis=time.time_ns() // 1_000_000,
        version=CURRENT_SCHEMA_VERSION,
    )


# ---------------------------------------------------------------------------------------------------------- options


_OF_COLUMNS = (
    "bucket-key", "partial-update.remove-record-on-sequence-group", "changelog-producer.row-deduplicate-ignore-fields",
    *COLUMN_OPTIONS,
)  # fmt: skip
_OF_NESTED_FIELDS = ("nested-key", "nested-sequence-field", "ts-field")
"""Options of a column whose values name fields of the rows that it holds, not columns of the table."""


def renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Options that name columns, with the new names of those that were renamed."""
    if not names:
        return dict(options)
    result = {}
    for key, value in options.items():
        parts = key.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            inner = ",".join(names.get(c, c) for c in parts[1].split(","))
            key = ".".join(("fields", inner, *parts[2:]))
            if parts[-1] == "sequence-group":
                value = _renamed(value, names)
            elif parts[-1] in _OF_NESTED_FIELDS:
                within = [f"{'.'.join(parts[1:-1])}.{place}." for place in ("element", "value")]
                nested = {old.removeprefix(p): new for old, new in names.items() for p in within if old.startswith(p)}
                value = _renamed(value, nested)
        elif parts[0] == "file-index" and parts[-1] == "columns":
            value = ",".join(_renamed_index(part, names) for part in value.split(","))
        elif parts[0] == "file-index" and len(parts) > 3:
            column = _renamed_index(".".join(parts[2:-1]), names)
            key = ".".join((*parts[:2], column, parts[-1]))
        elif (option := option_of(key)) is not None and option.key in _OF_COLUMNS:
            value = _renamed(value, names)
        result[key] = value
    return result


def _renamed(listed: str, names: Mapping[str, str]) -> str:
    return ",".join(names.get(name.strip(), name.strip()) for name in listed.split(","))


def _renamed_index(column: str, names: Mapping[str, str]) -> str:
    name, bracket, key = column.strip().partition("[")
    return names.get(name, name) + bracket + key


def change_options(
    options: dict[str, str],
    schema: TableSchema,
    set_options: Mapping[str, str],
    unset_options: Sequence[str],
    *,
    has_snapshots: bool,
) -> None:
    """Unset some options, then set others.

    Args:
        options: those before; they are changed in place.
        schema: the one before.
        set_options: new values.
        unset_options: names of options that get their defaults again.
        has_snapshots: whether the table may hold data, which some options must keep describing.

    Raises:
        OptionError: an option that can't be changed (any more).
    """
    for key in unset_options:
        fixed = key == "type" or (has_snapshots and (key in IMMUTABLE_OPTIONS or key == "bucket"))
        if fixed and key in options:
            raise OptionError(f"option {key} can't be reset", hint=_why_fixed(key))
        if key in options and has_snapshots:
            _check_transition(key, schema, options, None)
        options.pop(key, None)
    for key, value in set_options.items():
        if options.get(key) == value or _is_normalised(key, value, schema):
            continue
        if key in ("path", "type", "primary-key", "partition"):
            raise OptionError(f"option {key} of a table can't be changed", hint="create another table")
        if has_snapshots:
            if key in IMMUTABLE_OPTIONS:
                raise OptionError(f"option {key} can't be changed", hint=_why_fixed(key))
            _check_transition(key, schema, options, value)
        options[key] = value


def _why_fixed(key: str) -> str:
    return "the table has data that was written with it" if key != "type" else "create another table"


def _is_normalised(key: str, value: str, schema: TableSchema) -> bool:
    """Whether an option says what the schema says already."""
    named = comma_separated(value)
    if key == "primary-key":
        return named == schema.primary_keys
    if key == "partition":
        return named == schema.partition_keys
    return key == "type" and value.lower() == schema.options.get("type", "table").lower()


def _check_transition(key: str, schema: TableSchema, options: Mapping[str, str], value: str | None) -> None:
    """Changes of value that would make the data of a table that has some unreadable."""
    if key == "clustering.columns" and TableOptions(options).get("pk-clustering-override"):
        raise OptionError(
            "option clustering.columns can't be changed in a table with pk-clustering-override=true",
            hint="create another table with other columns, and copy the rows",
        )
    named = ("bucket", "deletion-vectors.enabled", *DIRECTORY_OPTIONS, *_TRUE_STAYS)
    before = TableOptions(options).get(key) if key in named else None
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
    elif key in DIRECTORY_OPTIONS and schema.partition_keys:
        # Java takes these changes, and finds no file of the partitions that are named otherwise from then on.
        if before != TableOptions({} if value is None else {key: value}).get(key):
            raise OptionError(
                f"option {key} can't be changed: directories of partitions are named by it, and would not be found",
                hint="create another table with it, and copy the rows",
            )
    elif key in _TRUE_STAYS and before and not TableOptions({key: value or "false"}).get(key):
        raise OptionError(f"option {key} can't be changed from true to false")
