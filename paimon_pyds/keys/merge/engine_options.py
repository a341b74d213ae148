"""What a table's options say of the merge of its rows, and which of them contradict one another.

Source: Paimon documentation, primary-key-table/merge-engine, and what Java Paimon 1.4 refuses (classes SchemaValidation
and PartialUpdateMergeFunction).
"""

from __future__ import annotations

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.sort.keys import can_sort
from paimon_pyds.base.types.kinds import STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.errors import OptionError, SchemaError
from paimon_pyds.keys.merge.engine import Deduplicate, FirstRow, MergeEngine
from paimon_pyds.keys.merge.files_to_merge import clustering_fields, highest_level
from paimon_pyds.keys.merge.versions import SequenceFields, check_orders_rows
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.sql.predicate.tree import ColumnRef

_EXPIRE_TIME, _TIME_FIELD = "record-level.expire-time", "record-level.time-field"


def check_merge_options(schema: TableSchema) -> None:
    """Refuse what a table with a primary key can't be merged by.

    Raises:
        OptionError: options contradict one another or the key.
        SchemaError: they name columns that are not there or of the wrong type.
        UnsupportedError: they name a function that is not known here, or order versions in a way that is not.
    """
    options = TableOptions(schema.options)
    sequence_fields(schema)
    if options.get("sequence.snapshot-ordering"):
        _check_snapshot_order(options)
    merge_engine(schema)
    _check_row_kind(schema, options)
    check_levels(options)
    if options.is_set(_EXPIRE_TIME) or options.is_set(_TIME_FIELD):
        record_time_column(schema, options)
    engine, producer = options.get("merge-engine"), options.get("changelog-producer")
    if engine == "first-row" and producer not in ("none", "lookup"):
        raise OptionError(
            f"changelog-producer={producer} is not for the merge engine first-row", hint="set it to none or lookup"
        )
    clustered = bool(options.get("pk-clustering-override"))
    if clustered:
        _check_clustering_override(schema, options)
    if options.get("deletion-vectors.enabled"):
        if engine == "first-row" and not clustered:
            raise OptionError(
                "deletion-vectors.enabled is not for the merge engine first-row",
                hint="it never replaces a row, so there is nothing that vectors could delete",
            )
        if producer == "full-compaction":
            raise OptionError(
                "deletion-vectors.enabled does not go with changelog-producer=full-compaction",
                hint="set changelog-producer to none, input or lookup",
            )


def _check_clustering_override(schema: TableSchema, options: TableOptions) -> None:
    """Raises OptionError for what files can't be sorted by, or contradicts that one version of a key lives above level
    0. (Java: SchemaValidation.validatePkClusteringOverride.)"""
    what, fields = "pk-clustering-override", clustering_fields(schema)
    if not fields:
        raise OptionError(f"{what} needs the columns that sort files", hint="set clustering.columns")
    for field in fields:
        if not can_sort(field):
            raise OptionError(f"rows can't be ordered by {field.name!r}, a column of type {field.type}")
    engine = options.get("merge-engine")
    if engine not in ("deduplicate", "first-row"):
        raise OptionError(f"{what} is not for the merge engine {engine}", hint="it is deduplicate or first-row")
    if engine == "deduplicate" and not options.get("deletion-vectors.enabled"):
        raise OptionError(f"{what} needs deletion vectors", hint="set deletion-vectors.enabled to true")
    for key in ("sequence.field", "record-level.expire-time"):
        if options.is_set(key):
            raise OptionError(f"{what} and {key} exclude one another", hint=f"leave {key} out")
    producer = options.get("changelog-producer")
    if producer not in ("none", "input"):
        raise OptionError(f"{what} does not go with changelog-producer={producer}", hint="set it to none or input")


def _check_snapshot_order(options: TableOptions) -> None:
    """Raises OptionError for what contradicts an order by snapshots. (Java: class SchemaValidation.)"""
    if options.is_set("sequence.field"):
        raise OptionError(
            "sequence.snapshot-ordering and sequence.field contradict each other",
            hint="versions are ordered by the snapshots that wrote them, or by a column",
        )
    if not options.get("write-only"):
        raise OptionError(
            "sequence.snapshot-ordering needs write-only=true: a compaction that is part of a write would order rows "
            "before their snapshot is known",
            hint="set write-only to true, and compact the table by itself: table.compact()",
        )


def record_time_column(schema: TableSchema, options: TableOptions) -> ColumnRef:
    """The column that rows expire by.

    Raises:
        OptionError: no option names it, or it is of another type than INT, BIGINT or TIMESTAMP.
        SchemaError: the column is not there.
    """
    name = options.get(_TIME_FIELD)
    if name is None:
        raise OptionError(f"{_EXPIRE_TIME} needs the column that has the time", hint=f"set {_TIME_FIELD}")
    field = schema.field(str(name))
    if field.type.kind not in (Kind.INT, Kind.BIGINT, *TIMESTAMP_KINDS):
        hint = "it is of type INT, BIGINT or TIMESTAMP"
        raise OptionError(f"{_TIME_FIELD}: {name} is of type {field.type}", hint=hint)
    return ColumnRef(field.name, (), field.type, field.id)


def check_levels(options: TableOptions) -> None:
    """Raises OptionError where there is no level above 0: compactions would have no place. (Java: class Levels.)"""
    if highest_level(options) < 1:
        key = "num-levels" if options.is_set("num-levels") else "num-sorted-run.compaction-trigger"
        least = 2 if key == "num-levels" else 1
        raise OptionError(f"{key}={options[key]}: it has to be {least} or more", hint="Java Paimon can't write, either")


def _check_row_kind(schema: TableSchema, options: TableOptions) -> None:
    name = options.get("rowkind.field")
    if name is not None and schema.field(name).type.kind not in STRING_KINDS:
        raise SchemaError(f"rowkind.field names {name}, which is of type {schema.field(name).type} and not a text")


def sequence_fields(schema: TableSchema) -> SequenceFields:
    """What orders the versions of a key before their sequence numbers do.

    Raises:
        OptionError: a field twice, or with an aggregate function; or the engine or the key has no use for fields.
        SchemaError: a field that is not a column.
        UnsupportedError: an option that orders versions otherwise, or a field whose values have no order here.
    """
    options = TableOptions(schema.options)
    names = comma_separated(str(options.get("sequence.field") or ""))
    if not names:
        return SequenceFields()
    for name in names:
        check_orders_rows(schema.field(name), "sequence.field")
        if names.count(name) > 1:
            raise OptionError(f"sequence.field names {name} twice")
        if options.is_set(f"fields.{name}.aggregate-function"):
            raise OptionError(
                f"sequence.field and fields.{name}.aggregate-function contradict each other",
                hint="a sequence field has no aggregate function",
            )
    if options.get("merge-engine") == "first-row":
        raise OptionError("sequence.field is not for the merge engine first-row")
    missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
    if missing:
        raise OptionError(
            f"sequence.field needs a primary key with all partition columns; {', '.join(missing)} is not part of it"
        )
    return SequenceFields(names, options.get("sequence.field.sort-order") == "descending")


def merge_engine(schema: TableSchema) -> MergeEngine:
    """The engine that merges the rows of a table.

    Raises:
        OptionError: options contradict one another.
        SchemaError: they name columns that are not there, or a function that does not take the column's type.
        UnsupportedError: they name a function that is not known here.
    """
    options = TableOptions(schema.options)
    ignore_delete = bool(options.get("ignore-delete"))
    match options.get("merge-engine"):
        case "first-row":
            return FirstRow(ignore_delete)
        case "deduplicate":
            return Deduplicate(ignore_delete)
    from paimon_pyds.keys.merge import column_engines  # with all aggregate functions, which other engines do without

    if options.get("merge-engine") == "partial-update":
        return column_engines.partial_update(schema, options)
    return column_engines.aggregation(schema, options, sequence_fields(schema).names)
