"""Columns that follow the rows of a write: ``write.merge-schema`` and its two options, as in Java's Spark connector.

The schema is published first, then the rows are written, so that the columns stay where the rows fail. Columns that
decide where rows are (of keys, partitions and buckets) keep their types, names that differ in case only are one column,
and a type widens only where no old value changes; anything else takes ``explicit-cast``.
(Source: Paimon documentation, spark/sql-write, "Write Merge Schema"; Java: class SchemaMergingUtils.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.frames import rows_of
from paimon_pyds.base.options import TableOptions, check_known
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    arrow_type,
    fields_named,
    from_arrow_schema,
    parse_type,
)
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.engine.execution.writing import MERGE_SCHEMA, is_merging
from paimon_pyds.engine.rowlevel.clauses import Delete, MergeOptions, Update
from paimon_pyds.engine.rowlevel.merge_clauses import MERGE_CLAUSES, listed
from paimon_pyds.engine.rowlevel.merge_source import filled, has_null_type, source_table, without_null_types
from paimon_pyds.engine.write.conform import PANDAS, origin_of
from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN
from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS
from paimon_pyds.engine.write.python_rows import PythonRows
from paimon_pyds.errors import SchemaError, UnknownColumnError, columns_text
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.ddl.alter import next_schema, publish_schema
from paimon_pyds.ops.ddl.create import fresh_ids
from paimon_pyds.ops.ddl.schema_columns import ColumnEditor, may_cast

if TYPE_CHECKING:
    from paimon_pyds.metadata.store import TableStore

OPTIONS = (MERGE_SCHEMA, f"{MERGE_SCHEMA}.type-widening", f"{MERGE_SCHEMA}.explicit-cast")
"""Options of a write, or of a table for all of its writes."""
_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19}
_INTEGERS = tuple(_DIGITS)
_EXACT_IN = {Kind.FLOAT: _INTEGERS[:2], Kind.DOUBLE: (*_INTEGERS[:3], Kind.FLOAT)}
"""Numbers that floats hold without rounding."""


def with_columns_merged(store: TableStore, data: Any, options: Mapping[str, str] | None, *, strict: bool = True) -> Any:
    """The rows of a write, once the table has their columns; as they are where the options say nothing of it.

    ``data``, ``strict``: as for `Table.append`. Of an iterator only the first part is looked at.
    Raises SchemaError: a new field has NULL alone, and so no type; UnknownColumnError: later parts of
    an iterator have other columns. Raises as `publish_schema`.
    """
    if not is_merging(store, options):
        return data
    schema, batches = rows_of(data, PythonRows(store.latest_schema().fields, strict, grows=True))
    if schema is None:
        return []
    parts = list(batches) if isinstance(data, Sequence) else []
    fields = merge_columns(store, [schema, *dict.fromkeys(part.schema for part in parts)], options)
    known = [field.name.casefold() for field in fields]
    return _stored(chain(parts, batches), schema, known, _kinds(store, options))


def with_columns_of_clauses(store: TableStore, source: Any, how: MergeOptions) -> Any:
    """The source of a MERGE, once the table has the columns that clauses bring: all of the source where a clause names
    none, else those that are named, and that the source has.
    Raises as `with_columns_merged`."""
    if not is_merging(store, how.options):
        return source
    rows, _ = source_table(source, store.latest_schema().fields)
    clauses = [clause for name in MERGE_CLAUSES for clause in listed(name, getattr(how, name))]
    sets = [c.set if isinstance(c, Update) else c.values for c in clauses if not isinstance(c, Delete)]
    named = None if None in sets else {name.casefold() for names in sets for name in names or ()}
    hidden = [name for name in rows.schema.names if named is not None and name.casefold() not in named]
    merge_columns(store, [rows.schema], how.options, hidden)
    return rows


def merge_columns(
    store: TableStore,
    schemas: Collection[pa.Schema],
    options: Mapping[str, str] | None,
    not_stored: Iterable[str] = (),
) -> Sequence[DataField]:
    """Bring the columns of rows with these Arrow schemas into the table, and return its columns then; where the options
    say nothing of it, none are looked at. ``not_stored``: names of columns that the table never gets.
    Raises as `with_columns_merged`."""
    if not is_merging(store, options):
        return ()
    check_known(options or (), (ROW_KIND_COLUMN, MISSING_COLUMNS), own=False)
    hidden = {*not_stored, _kinds(store, options)}
    return publish_schema(store, lambda old: _merged(old, schemas, options or {}, hidden)).fields


def merge_named_types(store: TableStore, columns: Sequence[tuple[str, str]]) -> None:
    """Bring columns into the table whose types somebody says, in Paimon's words: new ones are added, and others widen
    where the table's options say so. A name may come with several types: a new column gets the one that holds all.
    Raises SchemaError: each lacks values of another; or as `publish_schema`."""
    if columns:
        publish_schema(store, lambda old: _with_named_types(old, columns))


def _kinds(store: TableStore, options: Mapping[str, str] | None) -> str | None:
    """The column of rows that has their kinds, which is not stored."""
    return {**store.schema_read_last().options, **(options or {})}.get(ROW_KIND_COLUMN)


def _stored(
    batches: Iterator[pa.RecordBatch], first: pa.Schema, known: Sequence[str], kinds: str | None
) -> Iterator[pa.RecordBatch]:
    """The batches without columns of NULL alone that the table does not have."""
    for batch in batches:
        others = [f for f in batch.schema if f.name.casefold() not in known and f.name != kinds]
        unknown = [f.name for f in others if not pa.types.is_null(f.type)]
        if unknown and not set(unknown) <= set(first.names):
            raise UnknownColumnError(
                f"a later part has {columns_text(unknown)}: {MERGE_SCHEMA} goes by an iterator's first part",
                hint="give a list of all parts, or write them one by one",
            )
        yield batch.drop_columns([f.name for f in others if pa.types.is_null(f.type)]) if others else batch


def _merged(
    old: TableSchema, schemas: Iterable[pa.Schema], options: Mapping[str, str], hidden: Collection[str | None]
) -> TableSchema | None:
    editor = ColumnEditor(old, TableOptions(old.options))
    for schema in schemas:
        merge = _Merge.of(old, options, editor, pandas=origin_of(schema) == PANDAS)
        for name, type_ in _types_of(schema, editor.fields, hidden):
            merge.column(name, type_)
    return next_schema(old, old, editor)


def _with_named_types(old: TableSchema, columns: Sequence[tuple[str, str]]) -> TableSchema | None:
    editor = ColumnEditor(old, TableOptions(old.options))
    merge = _Merge.of(old, {OPTIONS[2]: "false"}, editor, pandas=False)
    for name, text in columns:
        type_ = parse_type(text)
        if fields_named(name, old.fields):
            merge.column(name, type_)
        else:
            merge.new_column(name, type_)
    return next_schema(old, old, editor)


def _types_of(
    schema: pa.Schema, columns: Sequence[DataField], hidden: Collection[str | None]
) -> Iterator[tuple[str, DataType]]:
    """The columns of rows and their types. Types that Paimon lacks are left for the write to refuse."""
    for field in schema:
        own, type_ = fields_named(field.name, columns), field.type
        if field.name in hidden or pa.types.is_null(type_):
            continue
        for column in own[:1]:
            type_ = filled(type_, arrow_type(column.type))
        if has_null_type(type_):
            raise SchemaError(
                f"column {field.name!r} is {type_} in the data: a new field of NULL alone has no type",
                hint="give it a type, or leave it out until there is a value",
            )
        try:
            yield field.name, from_arrow_schema(pa.schema([(field.name, without_null_types(type_))]))[0].type
        except SchemaError:
            if not own:
                raise


@dataclass(frozen=True, slots=True)
class _Merge:
    """How columns of rows go into those of a table. ``pandas``: integers may come as floats."""

    schema: TableSchema
    editor: ColumnEditor
    widens: bool
    casts: bool
    pandas: bool

    @classmethod
    def of(cls, schema: TableSchema, options: Mapping[str, str], editor: ColumnEditor, *, pandas: bool) -> _Merge:
        typed = TableOptions({**schema.options, **options})
        widens, casts = (bool(typed.get(name)) for name in OPTIONS[1:])
        return cls(schema, editor, widens, widens and casts and not typed.get("disable-explicit-type-casting"), pandas)

    def column(self, name: str, type_: DataType) -> None:
        """Bring one column of the rows in."""
        schema, fields = self.schema, self.editor.fields
        known = fields_named(name, fields)
        if not known:
            self.editor.append(DataField(-1, name, type_.with_nullable(True)))
            return
        own = known[0]
        if len(known) > 1 or own.name in (*schema.primary_keys, *schema.partition_keys, *schema.bucket_keys):
            return
        fields[fields.index(own)] = replace(own, type=self._type(own.type, type_))

    def new_column(self, name: str, type_: DataType) -> None:
        """Bring in a column that no file has: of its types, the one that holds the values of all."""
        fields, always = self.editor.fields, replace(self, widens=True, casts=False)
        known = fields_named(name, fields)
        if not known:
            self.column(name, type_)
            return
        own, type_ = known[0], type_.with_nullable(True)
        if always._type(own.type, type_) == type_:
            fields[fields.index(own)] = replace(own, type=type_)
        elif always._type(type_, own.type) != own.type:
            raise SchemaError(
                f"the new column {name!r} would be {own.type} by some of the data and {type_} by other",
                hint=f"add it with the type you want: table.alter(add_columns={{{name!r}: …}})",
            )

    def _type(self, old: DataType, new: DataType) -> DataType:
        match old, new:
            case RowType(), RowType():
                return replace(old, fields=self._fields(old.fields, new.fields))
            case ArrayType(), ArrayType():
                return replace(old, element=self._type(old.element, new.element))
            case MultisetType(), MultisetType():
                return replace(old, element=self._type(old.element, new.element))
            case MapType(), MapType():
                return replace(old, value=self._type(old.value, new.value))
            case AtomicType(), AtomicType() if self.widens and old.with_nullable(True) != new.with_nullable(True):
                integers = self.pandas and old.kind in INTEGER_KINDS and new.kind in _EXACT_IN
                if not integers and (_widens(old, new) or (self.casts and may_cast(old, new))):
                    return new.with_nullable(old.nullable)
        return old

    def _fields(self, old: Sequence[DataField], new: Sequence[DataField]) -> tuple[DataField, ...]:
        found = list(old)
        for field in new:
            own = fields_named(field.name, found)
            if own:
                found[found.index(own[0])] = replace(own[0], type=self._type(own[0].type, field.type))
            else:
                found += fresh_ids([replace(field, type=field.type.with_nullable(True))], self.editor.ids)
        return tuple(found)


def _widens(old: AtomicType, new: AtomicType) -> bool:
    """Whether every value of one type is the same as one of the other."""
    a, b = old.kind, new.kind
    if b is Kind.DECIMAL:
        scale = new.scale or 0
        whole, kept = (new.precision or 0) - scale, old.scale or 0
        return (a in _DIGITS and _DIGITS[a] <= whole) or (
            a is b and kept <= scale and (old.precision or 0) - kept <= whole
        )
    if b in (Kind.VARCHAR, Kind.VARBINARY):
        return a in (STRING_KINDS if b is Kind.VARCHAR else BINARY_KINDS) and (old.length or 0) <= (new.length or 0)
    if a is b and b in (*TIMESTAMP_KINDS, Kind.TIME):
        return (old.precision or 0) <= (new.precision or 0)
    if a in _INTEGERS and b in _INTEGERS:
        return _INTEGERS.index(a) < _INTEGERS.index(b)
    return a in _EXACT_IN.get(b, ())
