"""The target of a migration: the table's schemas, and an entry for each file, with its partition and statistics."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import texts
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.row import EMPTY_ROW, encode_row
from paimon_pyds.base.types import DataField, DataType, Kind
from paimon_pyds.base.types.sql_columns import parse_column
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.format import LEGACY_TYPE, holds_instants
from paimon_pyds.format.statistics import KEY_STATS_EMPTY, ColumnStats, encode_stats, measured, stats_modes
from paimon_pyds.metadata.manifest import FILE_SOURCE_APPEND, DataFile
from paimon_pyds.metadata.partition_directories import check_spelled_alike
from paimon_pyds.metadata.paths import partition_path
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.ddl.create import TableDefinition, fresh_ids, table_schema
from paimon_pyds.ops.migration.common_types import (
    FileFacts,
    Source,
    SourceFile,
    check_names,
    in_file,
    inferred_type,
    named_by_id,
    partition_value,
    widest_fields,
)

_MOST_SCHEMAS = 200
"""Schemas of a migrated table, at most: each becomes a schema file."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The target of a migration: ``schemas`` in the order of their ids, the table's last."""

    source: Source
    format: str
    schemas: tuple[TableSchema, ...]
    buckets: dict[bytes, tuple[str, list[tuple[SourceFile, DataFile]]]]
    """Directory below the table, and files, by partition."""
    empty: int
    left_out: tuple[str, ...]

    def files(self) -> Iterator[tuple[str, SourceFile, DataFile]]:
        """With the directory of each."""
        for directory, files in self.buckets.values():
            for file, entry in files:
                yield directory, file, entry


def plan_table(
    source: Source,
    facts: Sequence[FileFacts],
    partition_by: Sequence[str] | Mapping[str, str] | None,
    options: dict[str, str],
    comment: str | None,
) -> Plan:
    """The target that a source is migrated to.

    ``partition_by``: the partition columns in order, or their types by name; as the source has them when None.
    ``comment``: about the table.

    Raises:
        SchemaError: the files can't be one table.
        OptionError, UnsupportedError: options that such a table can't have.
    """
    name = _one_format(source, facts)
    if source.by_id:
        facts = [named_by_id(f, fact, source.fields or ()) for f, fact in zip(source.files, facts, strict=True)]
    keys, types = _partition_types(source, partition_by)
    fields = _merged(source, facts)
    given = {f.name: f for f in fields}
    partitioned = [replace(given.get(k, DataField(-1, k, types[k])), type=types[k]) for k in keys]
    ours = [f for f in fields if f.name not in types]
    if source.fields is None:
        ours = [*ours, *partitioned]
    else:
        by_key = {f.name: f for f in partitioned}
        ours = [by_key.get(f.name, f) for f in fields]
    check_names(ours)
    table = table_schema(_definition(ours, keys, name, options, comment))
    if table.primary_keys or table.partition_keys != keys:
        raise OptionError("the options primary-key and partition can't be given: files stay as they are")
    schemas, ids = _schemas(table, facts)
    buckets = _buckets(source, facts, schemas, ids)
    left_out = {name for fact in facts for name in fact.untyped} - {f.name for f in table.fields}
    empty = sum(not fact.rows for fact in facts)
    return Plan(source, name, schemas, buckets, empty, tuple(sorted(left_out)))


def _one_format(source: Source, facts: Sequence[FileFacts]) -> str:
    for file, fact in zip(source.files, facts, strict=True):
        if fact.format != facts[0].format:
            raise SchemaError(
                f"files of two formats: {fact.format} here, {facts[0].format} before",
                path=file.path,
                hint="migrate those of one format, and append the rows of the others",
            )
    return facts[0].format if facts else "parquet"


def _partition_types(
    source: Source, wanted: Sequence[str] | Mapping[str, str] | None
) -> tuple[tuple[str, ...], dict[str, DataType]]:
    """The partition columns, in order, and their types."""
    named = dict(wanted) if isinstance(wanted, Mapping) else {}
    keys = tuple(source.partition_by if wanted is None else texts("partition_by", wanted))
    if set(keys) != set(source.partition_by):
        raise OptionError(
            f"partition_by names {', '.join(keys) or 'nothing'}, the source has "
            f"partitions by {', '.join(source.partition_by) or 'nothing'}",
            hint="files stay as they are, so the table gets the source's partitions",
        )
    declared = {f.name: f.type for f in source.fields or ()}
    types: dict[str, DataType] = {}
    for key in keys:
        given = parse_column(key, named[key]).type if key in named else declared.get(key)
        found = given or inferred_type(dict(file.partition)[key] for file in source.files)
        types[key] = found.with_nullable(True)
        if found.kind is Kind.TIMESTAMP_LTZ and key not in named:
            _check_zones(source, key)
    return keys, types


def _check_zones(source: Source, key: str) -> None:
    """Raises UnsupportedError: an instant without a zone, which was that of some writer's session."""
    for file in source.files:
        text = dict(file.partition)[key]
        if text is not None and not text.endswith("Z"):
            raise UnsupportedError(
                f"partition {key}={text!r:.60} is an instant without its time zone",
                path=file.path,
                hint=f"give its type in partition_by: {{'{key}': 'TIMESTAMP(6)'}} for a clock's time, or "
                "'TIMESTAMP(6) WITH LOCAL TIME ZONE' where it is UTC",
            )


def _merged(source: Source, facts: Sequence[FileFacts]) -> tuple[DataField, ...]:
    """The columns of all files, or those that the source declares, with the widest type of each."""
    merged = source.fields
    for file, fact in zip(source.files, facts, strict=True):
        check_names(fact.fields)
        hive = {name for name, _ in file.partition}
        fields = [f for f in fact.fields if f.name not in hive] if source.fields is None else fact.fields
        if source.fields is not None and not source.by_id:  # else it would be left out, and the declared column be NULL
            check_names({f.name: f for f in (*source.fields, *fields)}.values())
        try:
            if merged is None:
                merged = tuple(fields)
            else:
                stored = [f for f in fields if f.name not in hive]
                kept = [f for f in merged if f.name not in hive]
                wide = {f.name: f for f in widest_fields(kept, stored, closed=source.fields is not None)}
                merged = (*(wide.pop(f.name, f) for f in merged), *wide.values())
        except SchemaError as error:
            raise SchemaError(error.message, path=file.path, hint=error.hint) from None
    return merged or ()


def _definition(
    fields: Sequence[DataField], keys: Sequence[str], format_: str, options: dict[str, str], comment: str | None
) -> TableDefinition:
    given = {"file.format": format_, **options}
    if given.get("bucket", "-1").strip() != "-1":
        raise OptionError("bucket must be -1: files that were written without buckets belong to none")
    if given.get("row-tracking.enabled", "false").strip().lower() == "true":
        raise UnsupportedError("row-tracking.enabled: rows of files of other writers have no row ids")
    instants = holds_instants(fields, {"file.format": format_})
    if instants and given.setdefault(LEGACY_TYPE, "false").strip().lower() != "false":
        raise OptionError(f"{LEGACY_TYPE} must be false: other writers store instants as such")
    return TableDefinition(fresh_ids(fields), partition_by=keys, options=given, comment=comment)


def _schemas(table: TableSchema, facts: Sequence[FileFacts]) -> tuple[tuple[TableSchema, ...], list[int]]:
    """The schemas that files were written under, the table's last; and which one each file has."""
    keys = set(table.partition_keys)
    held: dict[tuple[DataField, ...], int] = {}
    numbers = []
    for fact in facts:
        own = {f.id: f for f in in_file([f for f in fact.fields if f.name not in keys], table.fields)}
        fields = tuple(
            replace(f, default=None)
            if f.name in keys
            else replace(own[f.id], name=fact.names.get(f.name, f.name), description=f.description)
            for f in table.fields
            if f.name in keys or f.id in own
        )
        check_names(fields)
        numbers.append(held.setdefault(fields, len(held)))
    last = held.pop(table.fields, None)
    if len(held) > _MOST_SCHEMAS:
        raise UnsupportedError(f"the files have {len(held)} different schemas", hint="migrate fewer of them at a time")
    ids = [len(held) if n == last else n - (last is not None and n > last) for n in numbers]
    older = [replace(table, id=id_, fields=fields) for id_, fields in enumerate(held)]
    return (*older, replace(table, id=len(older))), ids


def _buckets(
    source: Source, facts: Sequence[FileFacts], schemas: Sequence[TableSchema], ids: Sequence[int]
) -> dict[bytes, tuple[str, list[tuple[SourceFile, DataFile]]]]:
    table = schemas[-1]
    types = [f.type for f in table.partition_fields]
    buckets: dict[bytes, tuple[str, list[tuple[SourceFile, DataFile]]]] = {}
    prefix = f"{TableOptions(table.options).get('data-file.prefix')}{uuid.uuid4()}"
    number = 0
    for file, fact, id_ in zip(source.files, facts, ids, strict=True):
        if not fact.rows:
            continue
        texts_of = dict(file.partition)
        try:
            values = [partition_value(texts_of[f.name], f.type, f.name) for f in table.partition_fields]
        except SchemaError as error:
            raise SchemaError(error.message, path=file.path, hint=error.hint) from None
        partition = encode_row(values, types) if values else EMPTY_ROW
        if partition not in buckets:
            check_spelled_alike(table, values)
            inside = partition_path(table.partition_fields, values, table.options)
            buckets[partition] = inside, []
        entry = _entry(f"{prefix}-{number}.{fact.format}", file, fact, schemas[id_])
        buckets[partition][1].append((file, entry))
        number += 1
    return buckets


def _entry(name: str, file: SourceFile, fact: FileFacts, schema: TableSchema) -> DataFile:
    modes = stats_modes(schema.fields, schema.options)
    known = []
    for column, mode in zip(schema.fields, modes, strict=True):
        partitioned = column.name in schema.partition_keys
        low, high, nulls = (None,) * 3 if partitioned else fact.statistics.get(column.name, (None,) * 3)
        known.append(measured(ColumnStats(column, low, high, nulls), mode, fact.format))
    stats, columns = encode_stats(known, dense=TableOptions(schema.options).get("metadata.stats-dense-store"))
    return DataFile(
        file_name=name,
        file_size=file.size,
        row_count=fact.rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=KEY_STATS_EMPTY,
        value_stats=stats,
        min_sequence_number=0,
        max_sequence_number=fact.rows - 1,
        schema_id=schema.id,
        creation_time=clock_now_ms(),
        delete_row_count=0,
        file_source=FILE_SOURCE_APPEND,
        value_stats_cols=columns,
    )
