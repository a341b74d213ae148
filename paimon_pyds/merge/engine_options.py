"""What a table's options say of the merge of its rows, and which of them contradict one another.

Source: Paimon documentation, primary-key-table/merge-engine, and what Java Paimon 1.4 refuses (classes SchemaValidation
and PartialUpdateMergeFunction).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paimon_pyds.errors import OptionError, SchemaError, suggest
from paimon_pyds.merge.aggregates import (
    DEFAULT_AGGREGATE,
    AggregateFunction,
    configured_aggregate,
    resolve_aggregate,
)
from paimon_pyds.merge.aggregation import Aggregation
from paimon_pyds.merge.engine import Deduplicate, FirstRow, MergeEngine
from paimon_pyds.merge.partial_update import PartialUpdate
from paimon_pyds.merge.sequence_groups import SequenceGroup
from paimon_pyds.merge.versions import SequenceFields
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.options import TableOptions
from paimon_pyds.types import STRING_KINDS

__all__ = ["check_merge_options", "merge_engine", "sequence_fields"]

_PREFIX, _SUFFIX = "fields.", ".sequence-group"
_IGNORE_DELETE = "ignore-delete"
_REMOVE_ON_DELETE = "partial-update.remove-record-on-delete"
_REMOVE_ON_GROUP = "partial-update.remove-record-on-sequence-group"


def check_merge_options(schema: TableSchema) -> None:
    """Refuse what a table with a primary key can't be merged by.

    Raises:
        OptionError: options contradict one another or the key.
        SchemaError: they name columns that are not there or of the wrong type.
        UnsupportedError: they name a function that is not known here.
    """
    options = TableOptions(schema.options)
    sequence_fields(schema)
    merge_engine(schema)
    _check_row_kind(schema, options)
    engine, producer = options.get("merge-engine"), options.get("changelog-producer")
    if engine == "first-row" and producer not in ("none", "lookup"):
        raise OptionError(
            f"changelog-producer={producer} is not for the merge engine first-row", hint="set it to none or lookup"
        )
    if options.get("deletion-vectors.enabled"):
        if engine == "first-row":
            raise OptionError(
                "deletion-vectors.enabled is not for the merge engine first-row",
                hint="it never replaces a row, so there is nothing that vectors could delete",
            )
        if producer == "full-compaction":
            raise OptionError(
                "deletion-vectors.enabled does not go with changelog-producer=full-compaction",
                hint="set changelog-producer to none, input or lookup",
            )


def _check_row_kind(schema: TableSchema, options: TableOptions) -> None:
    name = options.get("rowkind.field")
    if name is not None and schema.field(name).type.kind not in STRING_KINDS:
        raise SchemaError(f"rowkind.field names {name}, which is of type {schema.field(name).type} and not a text")


def sequence_fields(schema: TableSchema) -> SequenceFields:
    """What orders the versions of a key before their sequence numbers do.

    Raises:
        OptionError: a field twice, or with an aggregate function; or the engine or the key has no use for fields.
        SchemaError: a field that is not a column.
    """
    options = TableOptions(schema.options)
    names = tuple(name.strip() for name in str(options.get("sequence.field") or "").split(",") if name.strip())
    if not names:
        return SequenceFields()
    _require(schema, names, "sequence.field")
    for name in names:
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
    ignore_delete = bool(options.get(_IGNORE_DELETE))
    match options.get("merge-engine"):
        case "first-row":
            return FirstRow(ignore_delete)
        case "partial-update":
            return _partial_update(schema, options, ignore_delete)
        case "aggregation":
            return _aggregation(schema, options)
    return Deduplicate(ignore_delete)


def _aggregation(schema: TableSchema, options: TableOptions) -> Aggregation:
    sequence = sequence_fields(schema).names
    functions = {}
    for column in schema.fields:
        if column.name in schema.primary_keys:
            continue
        name = configured_aggregate(column.name, options) or DEFAULT_AGGREGATE
        name = "last_value" if column.name in sequence else name
        functions[column.name] = resolve_aggregate(name, column.type, column.name, options)
    return Aggregation(functions, bool(options.get("aggregation.remove-record-on-delete")))


def _partial_update(schema: TableSchema, options: TableOptions, ignore_delete: bool) -> PartialUpdate:
    groups = tuple(_groups(schema, options))
    remove_on_delete = bool(options.get(_REMOVE_ON_DELETE))
    contradictions = [
        (ignore_delete and remove_on_delete, _IGNORE_DELETE, _REMOVE_ON_DELETE),
        (ignore_delete and options.is_set(_REMOVE_ON_GROUP), _IGNORE_DELETE, _REMOVE_ON_GROUP),
        (bool(groups) and remove_on_delete, "sequence groups", _REMOVE_ON_DELETE),
    ]
    for contradicts, one, other in contradictions:
        if contradicts:
            raise OptionError(f"{one} and {other} contradict each other", hint="set one of them only")
    return PartialUpdate(ignore_delete, remove_on_delete, groups)


def _groups(schema: TableSchema, options: TableOptions) -> Iterator[SequenceGroup]:
    """The sequence groups of partial-update."""
    named = [
        (tuple(key[len(_PREFIX) : -len(_SUFFIX)].split(",")), tuple(value.split(",")), key)
        for key, value in options.items()
        if key.startswith(_PREFIX) and key.endswith(_SUFFIX)
    ]
    for fields, columns, key in named:
        _require(schema, (*fields, *columns), key)
    members = {name: key for fields, _, key in named for name in fields}
    for fields, columns, key in named:
        for name in (*fields, *columns):
            if members.setdefault(name, key) != key:
                raise OptionError(f"column {name} is in two sequence groups: {members[name]} and {key}")
    removing = _removing(options, {name for fields, _, _ in named for name in fields})
    functions = _group_functions(schema, options, members, {name for fields, _, _ in named for name in fields})
    for fields, columns, _ in named:
        inside = tuple(n for n in dict.fromkeys(columns) if n not in fields and n not in schema.primary_keys)
        found = {name: functions[name] for name in inside if name in functions}
        yield SequenceGroup(fields, inside, found, removes=not removing.isdisjoint(fields))


def _removing(options: TableOptions, sequence: set[str]) -> set[str]:
    """The sequence fields of groups whose delete removes the row."""
    named = options.get(_REMOVE_ON_GROUP)
    if named is None:
        return set()
    found = set(str(named).split(","))
    unknown = sorted(found - sequence)
    if unknown:
        raise OptionError(
            f"{_REMOVE_ON_GROUP} names {', '.join(unknown)}, which is no field of a sequence group",
            hint=suggest(unknown[0], sequence, "sequence fields"),
        )
    return found


def _group_functions(
    schema: TableSchema, options: TableOptions, members: Iterable[str], sequence: Iterable[str]
) -> dict[str, AggregateFunction]:
    """The functions of columns in sequence groups; elsewhere Java takes the newest value that is not NULL only."""
    found = {}
    for column in schema.fields:
        name = configured_aggregate(column.name, options)
        if name is None or column.name in schema.primary_keys or column.name in sequence:
            continue
        if name != DEFAULT_AGGREGATE and column.name not in members:
            raise OptionError(
                f"partial-update: column {column.name} has the aggregate function {name} and is in no sequence group",
                hint=f"name {column.name} in an option fields.COLUMN.sequence-group, or give it no function",
            )
        found[column.name] = resolve_aggregate(name, column.type, column.name, options)
    return found


def _require(schema: TableSchema, names: Iterable[str], option: str) -> None:
    for name in names:
        if name not in schema.field_names:
            raise SchemaError(
                f"option {option} names {name!r}, which is not a column",
                hint=suggest(name, schema.field_names, "columns"),
            )
