"""What a table schema must satisfy before it is published: the rules of Java Paimon's schema validation, plus what this
package refuses by name."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

from paimon_pyds.base.options import (
    TableOptions,
    blob_is_written,
    check_known,
    check_readable,
    check_writable,
    option_of,
)
from paimon_pyds.base.options.option import comma_separated, is_utf8, text
from paimon_pyds.base.secrets import visible
from paimon_pyds.base.types import DataField, DataType, RowType, is_system_name, walk_fields
from paimon_pyds.base.types.kinds import BINARY_KINDS, STRING_KINDS, TIMESTAMP_KINDS, UNORDERED_KINDS, Kind
from paimon_pyds.engine.scan.travel import state_options
from paimon_pyds.engine.write.conform import check_default
from paimon_pyds.engine.write.context import check_files, check_table_files, check_vector_files
from paimon_pyds.errors import OptionError, PaimonError, SchemaError, UnknownColumnError, UnsupportedError, suggest
from paimon_pyds.format import TRAITS, has_kind, traits_of
from paimon_pyds.index.build import parse_index_specs, without_gone_columns
from paimon_pyds.index.keys import BSI
from paimon_pyds.metadata.paths import partition_path
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.ops.ddl.blob_columns import check_blob_options

COLUMN_OPTIONS = ("sequence.field", "rowkind.field", "record-level.time-field", "clustering.columns", "upsert-key")


def validate_schema(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Check a whole schema: columns, keys, buckets, options and indexes.

    ``schema``: what is to be published. ``before``: the schema that it changes. Unknown options of it stay: they may
    be an engine's. So does what keeps a table with a primary key from being written here: it may be Java's.

    Raises:
        SchemaError: columns or keys that Paimon does not allow.
        OptionError: an unknown option, a bad value, options that contradict each other or the columns.
        UnsupportedError: a type or an option value that is refused by name.
    """
    check_new_fields(schema, () if before is None else before.fields)
    if schema.comment is not None:
        text("comment", schema.comment)
    _check_keys(schema)
    options = TableOptions(schema.options)
    for key, value in options.items():
        option = option_of(key)
        if option is not None:
            option.parse(value)
    check_known(key for key, value in options.items() if before is None or before.options.get(key) != value)
    _check_state(schema, options)
    if before is None:
        _check_no_branch(options)
    _check_buckets(schema, options)
    _check_column_options(schema, options)
    _check_upsert_key(schema, options.get("upsert-key"))
    _check_modes(schema, options)
    if before is None or (schema.fields, schema.options) != (before.fields, before.options):
        check_blob_options(schema)
    _check_indexes(schema, before)
    _check_format(schema.fields, options)
    if before is None or before.options.get("file.format") != schema.options.get("file.format"):
        _warn_of_row_files(schema, options)
    if schema.primary_keys:
        from paimon_pyds.keys.merge.engine_options import check_merge_options  # other tables do without

        check_readable(schema)
        check_merge_options(schema)
        refused = _unwritable(schema)
        if refused is not None and (before is None or str(_unwritable(before)) != str(refused)):
            raise refused
    else:
        check_writable(schema, metadata_only=True)
        check_files([field for field in schema.fields if field.type.refused() is None], schema.options)
        check_vector_files(schema, schema.options)


def _unwritable(schema: TableSchema) -> PaimonError | None:
    """What every write to a table with a primary key would be refused with, whatever its buckets are like."""
    try:
        check_writable(schema, existing_rows=True, metadata_only=True)
        check_table_files(schema, schema.options)
    except (OptionError, SchemaError, UnsupportedError) as error:
        return error
    return None


def _check_state(schema: TableSchema, options: TableOptions) -> None:
    """What a table may say of the state that its readers begin with."""
    state_options(schema.options, {})
    if options.is_set("scan.version"):
        raise OptionError(
            "Java Paimon alters no table that stores scan.version",
            hint="set scan.snapshot-id or scan.tag-name; a single read can name a version",
        )
    if options.get("branch") != "main":
        raise OptionError("a table can't store another branch", hint="open the branch by its name")


def _check_no_branch(options: TableOptions) -> None:
    for key in ("scan.fallback-branch", "scan.primary-branch"):
        if str(options.get(key) or "").strip():
            raise OptionError(
                f"{key}={options[key]}: a new table has no branch", hint="create it, then alter the table"
            )


def check_new_fields(schema: TableSchema, before: Sequence[DataField] = ()) -> None:
    """Check names, types and default values of columns. ``before``: those that a table has, whose types stay.
    Raises SchemaError and UnsupportedError."""
    fields = schema.fields
    there = {(field.id, str(field.type.with_nullable(True))) for field in before}
    if not fields:
        raise SchemaError("a table needs at least one column")
    for field in walk_fields(fields):
        _check_texts(field)
    _no_duplicates([f.name for f in fields], "columns")
    for field in fields:
        if "\0" in field.name:
            raise SchemaError(f"{field.name!r} is not a column name")
        for inner in walk_fields([field]):
            if not inner.name.strip() or not is_utf8(inner.name):
                raise SchemaError(f"{inner.name!r} is not a column name")
        _check_members(field.type, field.name)
        if is_system_name(field.name):
            raise SchemaError(f"column name {field.name!r} is reserved by Paimon", hint="choose another name")
        if field.name in METADATA_FIELDS:
            raise SchemaError(
                f"{field.name} is the name of a metadata column, which says where a row is stored",
                hint="drop or rename it before writing",
            )
        refused = field.type.refused()
        if refused is not None and (field.id, str(field.type.with_nullable(True))) not in there:
            if not blob_is_written(field, schema, schema.options):
                told = f"column {field.name} of type {refused} is not supported"
                feature = "blob" if refused == "BLOB" else "unknown-types"
                raise UnsupportedError(told, hint=_hint(field), feature=feature)
            if all(has_kind(each.type, Kind.BLOB) or each.name in schema.partition_keys for each in fields):
                raise SchemaError(
                    "a table with BLOB columns needs a column of another type, beyond those of its partitions"
                )
        check_default(field)


def _hint(field: DataField) -> str | None:
    if not has_kind(field.type, Kind.BLOB):
        return None
    return (
        "BLOB, ARRAY<BLOB> and MAP<…, BLOB> columns need row-tracking.enabled=true and data-evolution.enabled=true; in "
        "a table with a primary key BLOB alone, merge-engine deduplicate, partial-update or first-row, no changelog, "
        "and not bucket=-2"
    )


def _check_texts(field: DataField) -> None:
    """Refuse names and comments that are not texts: they would be published, and no reader could parse the schema.
    Raises ArgumentTypeError."""
    text("the name of a column", field.name)
    for what, value in (("the comment", field.description), ("the default", field.default)):
        if value is not None and not is_utf8(text(f"{what} of {field.name!r}", value)):
            raise SchemaError(f"{what} of {field.name!r} has half of a surrogate pair, which is not a character")


def _check_members(type_: DataType, column: str) -> None:
    """Java Paimon reads no table with a ROW that has two fields of one name."""
    if isinstance(type_, RowType):
        _no_duplicates([f.name for f in type_.fields], f"fields of column {column}")
    for child in type_.children():
        _check_members(child, column)


def _no_duplicates(names: Sequence[str], what: str) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SchemaError(f"{what} named twice: {', '.join(twice)}")


def _check_keys(schema: TableSchema) -> None:
    for what, keys in (("partition", schema.partition_keys), ("primary key", schema.primary_keys)):
        _no_duplicates(keys, f"{what} columns")
        _require_fields(schema, keys, f"the {what}")
        for name in keys:
            if schema.field(name).type.kind in UNORDERED_KINDS:
                raise SchemaError(f"{what} column {name} can't be of type {schema.field(name).type}")
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise SchemaError(
            f"the primary key {', '.join(schema.primary_keys)} must not be just the partition columns",
            hint="every partition would hold one row: add a column to the key",
        )
    for field in schema.partition_fields:
        if field.type.kind in BINARY_KINDS:
            partition_path([field], [b""], schema.options)


def _check_buckets(schema: TableSchema, options: TableOptions) -> None:
    bucket = options.get("bucket")
    named = schema.bucket_keys if options.is_set("bucket-key") else ()
    _require_fields(schema, named, "bucket-key")
    _no_duplicates(named, "bucket-key columns")
    inside = [name for name in named if name in schema.partition_keys]
    if inside:
        raise OptionError(f"bucket-key columns {', '.join(inside)} must not be partition columns")
    outside = [name for name in named if schema.primary_keys and name not in schema.primary_keys]
    if outside:
        raise OptionError(f"bucket-key columns {', '.join(outside)} must be part of the primary key")
    if bucket == -1:
        if options.is_set("bucket-key"):
            raise OptionError(
                "Cannot define 'bucket-key' with bucket = -1", hint="remove bucket-key or give a number of buckets"
            )
        return
    if bucket < 1 and not (bucket == -2 and schema.primary_keys):
        raise OptionError(f"bucket={bucket}: the number of buckets needs to be greater than 0, or -1 for none")
    keys = schema.bucket_keys
    if not keys:
        raise OptionError(
            "You should define a 'bucket-key' for bucketed append mode.",
            hint="set bucket-key to the columns that decide the bucket, or leave bucket out",
        )
    nested = [name for name in keys if schema.field(name).type.kind in UNORDERED_KINDS]
    if nested:
        raise OptionError(f"bucket-key columns {', '.join(nested)} must not be nested")
    if options.get("bucket-function.type") == "mod" and bucket > 0:
        kinds = [schema.field(name).type.kind for name in keys]
        if len(kinds) != 1 or kinds[0] not in (Kind.INT, Kind.BIGINT):
            raise OptionError("bucket-function.type=mod needs one bucket-key column of type INT or BIGINT")


def _check_column_options(schema: TableSchema, options: TableOptions) -> None:
    names = schema.field_names
    for key in options:
        if key.startswith("fields.") and key != "fields.default-aggregate-function":
            inner = key.removeprefix("fields.")
            for name in inner.split(".")[0].split(","):
                if name not in names and not any(inner.startswith(n + ".") for n in names):
                    _require_fields(schema, [name], f"option {key}")
    for key in COLUMN_OPTIONS:
        if options.is_set(key):
            _require_fields(schema, comma_separated(str(options.get(key))), f"option {key}")
    kinds = options.get("rowkind.field")
    if kinds is not None and schema.field(kinds).type.kind not in STRING_KINDS:
        raise SchemaError(f"rowkind.field names {kinds}, which is of type {schema.field(kinds).type} and not a text")


def _check_upsert_key(schema: TableSchema, text: str | None) -> None:
    """(Java: classes SchemaValidation and CoreOptions, which leaves blanks in names.)"""
    if not text:
        return
    if schema.primary_keys:
        raise OptionError("upsert-key is not for tables with a primary key", hint="leave it out: the key does the same")
    names = text.split(",")
    _require_fields(schema, names, "option upsert-key")
    nested = [name for name in names if schema.field(name).type.kind in UNORDERED_KINDS]
    if nested:
        raise OptionError(f"upsert-key columns {', '.join(nested)} must not be nested")


def _check_modes(schema: TableSchema, options: TableOptions) -> None:
    append = not schema.primary_keys
    positive = ("target-file-row-num", "snapshot.num-retained.min", "changelog.num-retained.min")
    for key in positive:
        if options.is_set(key) and options.get(key) < 1:
            raise OptionError(f"option {key} must be at least 1")
    ends = [options.get(f"snapshot.num-retained.{end}") for end in ("min", "max")]
    own = [options.get(f"changelog.num-retained.{end}") for end in ("min", "max")]
    of_changelogs = [end if one is None else one for one, end in zip(own, ends, strict=True)]
    for of, (low, high) in (("snapshot", ends), ("changelog", of_changelogs)):
        if low > high:
            raise OptionError(f"{of}.num-retained.min must not be larger than {of}.num-retained.max")
    if options.is_set("partition.expiration-time") and not schema.partition_keys:
        raise OptionError(
            "partition.expiration-time is for tables with partitions only",
            hint="leave it out; record-level.expire-time is for the rows of tables with a primary key",
        )
    if append:
        _only_with_primary_key(options)
        if options.get("bucket") == -1 and options.is_set("full-compaction.delta-commits"):
            raise OptionError("full-compaction.delta-commits is not for append tables without buckets")
    crosses = not set(schema.partition_keys) <= set(schema.primary_keys)
    if options.is_set("sequence.field") and crosses and not options.get("upsert-key"):
        raise OptionError(
            "You can not use sequence.field in cross partition update case (the primary key "
            f"{', '.join(schema.primary_keys)} does not hold all partition columns {', '.join(schema.partition_keys)})",
            hint="versions in different partitions are never compared: leave it out, or add the columns to the key",
        )
    if options.get("row-tracking.enabled") and (not append or options.get("bucket") != -1):
        raise OptionError("row-tracking.enabled needs a table without primary key and without buckets")
    if options.get("data-evolution.enabled") and not options.get("row-tracking.enabled"):
        raise OptionError("data-evolution.enabled needs row-tracking.enabled")
    if options.get("clustering.incremental"):
        _check_clustering(options, append=append)


def _check_clustering(options: TableOptions, *, append: bool) -> None:
    """What incremental clustering can't go with. (Java: class SchemaValidation.)"""
    if not append:
        raise OptionError("clustering.incremental is for append tables only")
    for key in ("bucket-append-ordered", "deletion-vectors.enabled"):
        if options.get("bucket") != -1 and options.get(key):
            raise OptionError(f"clustering.incremental=true in a table with buckets needs {key}=false")
    if options.get("data-evolution.enabled"):
        raise OptionError("clustering.incremental=true and data-evolution.enabled=true exclude one another")


def _only_with_primary_key(options: TableOptions) -> None:
    """Settings that promise something which a table without a key can't keep."""
    if options.get("changelog-producer") != "none":
        raise OptionError("Can not set changelog-producer on table without primary keys")
    for key in ("streaming-read-overwrite", "sequence.snapshot-ordering", "primary-key.nullable"):
        if options.get(key):
            raise OptionError(f"option {key} is for tables with a primary key only")
    if options.is_set("sequence.field") and not options.get("upsert-key"):
        raise OptionError("sequence.field is for tables with a primary key only")
    vectors = options.get("deletion-vectors.enabled")
    if options.get("merge-engine") == "first-row" and vectors:
        raise OptionError("deletion-vectors.enabled is not for the merge engine first-row", hint="leave the engine out")
    if options.get("pk-clustering-override") and not (vectors and options.is_set("clustering.columns")):
        raise OptionError("pk-clustering-override is for tables with a primary key only", hint="leave it out")


def _check_indexes(schema: TableSchema, before: TableSchema | None) -> None:
    options = schema.options
    if before is not None:  # a change need not mend what others left
        options = without_gone_columns(options, before.options, before.fields)
    specs = parse_index_specs(options, schema.fields)
    for spec in specs:
        if spec.index_type == BSI:
            warnings.warn(
                f"the bsi index of {visible(spec.container_name)} is deprecated in Paimon: use range-bitmap",
                DeprecationWarning,
                stacklevel=2,
            )


def _check_format(fields: Iterable[DataField], options: TableOptions) -> None:
    name = str(options.get("file.format")).lower()
    most = traits_of(name).timestamp_digits
    finer = " or ".join(other for other, traits in TRAITS.items() if traits.timestamp_digits > most)
    for field in fields:
        if field.type.kind in TIMESTAMP_KINDS and (getattr(field.type, "precision", 0) or 0) > most:
            raise SchemaError(
                f"column {field.name}: {name.title()} has no {field.type}",
                hint=f"use a precision up to {most}, or {finer}",
            )


def _warn_of_row_files(schema: TableSchema, options: TableOptions) -> None:
    """Other readers give wrong rows of such tables, and Java's compaction stores them (seen in Java Paimon 2.1 and
    pypaimon-rust 0.4, of tables that they wrote themselves)."""
    if str(options.get("file.format")).lower() != "row":
        return
    if schema.primary_keys or options.get("data-evolution.enabled"):
        kind = "with a primary key" if schema.primary_keys else "of data evolution"
        warnings.warn(
            f"file.format=row: Java Paimon 2.1 and pypaimon-rust 0.4 read row files of tables {kind} wrongly, and lose"
            " rows when they compact them; use parquet if others than paimon_pyds open the table",
            UserWarning,
            stacklevel=2,
        )


def _require_fields(schema: TableSchema, names: Iterable[str], what: str) -> None:
    """Raises UnknownColumnError unless every name is a column of the schema; ``what`` says where the name was given."""
    columns = schema.field_names
    for name in names:
        if name not in columns:
            hint = suggest(name, columns, "columns")
            raise UnknownColumnError(f"{what} names {name!r}, which is not a column", hint=hint)
