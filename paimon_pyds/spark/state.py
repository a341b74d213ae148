"""Which table and which state of it a read is about, carried from the process that made the DataFrame to later ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import whole_number
from paimon_pyds.base.types import AtomicType, DataField, DataType, Kind
from paimon_pyds.engine.scan.travel import TIME_TRAVEL_OPTIONS, resolve_state, state_options
from paimon_pyds.errors import NotFoundError, OptionError, PaimonError, SchemaError, SnapshotNotFoundError
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark.catalogs import open_table
from paimon_pyds.spark.options import ReadOptions, parse_read_options
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_pyds.scan import Scan

_HINT = "load the table again, or create the view again"
_INTEGERS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT})
_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The columns that a DataFrame or view was loaded with: a schema's number, and a digest of that schema.

    The digest distinguishes the table from another that was made at the same path since.
    """

    schema_id: int
    digest: str

    @classmethod
    def of(cls, schema: TableSchema) -> Loaded:
        """The identity of a schema."""
        return cls(schema.id, schema_digest(schema))


class _LoadedStore(TableStore):
    """The newest state of a table, read by the columns of a load."""

    def __init__(self, store: TableStore, schema: TableSchema) -> None:
        super().__init__(store.io, store.root, store.branch, store.external, store.publisher)
        self._loaded_schema = schema

    def latest_schema(self) -> TableSchema:
        return self._loaded_schema


@dataclass(frozen=True, slots=True)
class ReadState:
    """A table as it is read. ``schema``: the columns to read, under the names they were loaded with. ``changed``: why
    columns can't be read any more as they were loaded, by their names."""

    table: Table
    loaded: Loaded
    schema: TableSchema
    changed: Mapping[str, str]
    options: ReadOptions

    def scan(self, columns: tuple[str, ...] | None = None) -> Scan:
        """The scan of these columns (all by default) with the filter, the limit and the order of the options.
        Raises SchemaError: it needs a column that was dropped or changed too much since the load."""
        options = self.options
        scan = self.table.scan(options.where, columns, options.limit, options.top_n, options=options.scan)
        for field in scan.used_fields:
            if field.name in self.changed:
                raise SchemaError(self.changed[field.name], hint=_HINT)
        return scan


def open_state(options: ReadOptions, loaded: Loaded | None) -> ReadState:
    """The table of the options in the state that they name, else in its newest, with the columns of the load.
    ``options``: of the read. ``loaded``: None while the table is being loaded.
    Raises NotFoundError: no such table, branch, snapshot or tag; or the table is not the one that was loaded."""
    table = open_table(options)
    store = table._store
    latest = store.latest_schema()
    given = state_options(latest.options, options.scan)
    named = any(name in given for name in TIME_TRAVEL_OPTIONS)
    newest = resolve_state(store, latest, given).schema if named else latest
    if loaded is None:
        return ReadState(table, Loaded.of(newest), newest, {}, options)
    old = _schema_of(store, loaded, newest)
    if named or old == newest:
        return ReadState(table, loaded, newest, {}, options)
    schema, changed = _by_columns_of(old, newest)
    return ReadState(Table(_LoadedStore(store, schema)), loaded, schema, changed, options)


def load_state(options: ReadOptions, loaded: Loaded | None) -> ReadState:
    """The same where a table is loaded, by a batch read or a stream: what the options can't mean for either is refused.

    A stream has the newest columns where no batch could read its start: it has expired since, or ``scan.mode``
    is one of streams.
    """
    try:
        state = open_state(options, loaded)
        state.scan()
        return state
    except (OptionError, NotFoundError) as error:
        if not _may_be_of_stream(options, error):
            raise
    plain = replace(options, scan={key: text for key, text in options.scan.items() if not key.startswith("scan.")})
    state = open_state(plain, loaded)
    state.scan()
    return replace(state, options=options)


def _may_be_of_stream(options: ReadOptions, error: PaimonError) -> bool:
    if "scan.mode" in options.scan or "scan.file-creation-time-millis" in options.scan:
        return True
    return isinstance(error, SnapshotNotFoundError) and _has_expired(options)


def _has_expired(options: ReadOptions) -> bool:
    """Whether the snapshot that the options name was there once."""
    named = whole_number(options.scan.get("scan.snapshot-id", ""))
    earliest = open_table(options)._store.earliest_snapshot_id()
    return named is not None and earliest is not None and 0 < named < earliest


def try_load(options: Mapping[str, str]) -> Loaded | None:
    """The columns of what these options name now, None where these fail: the read itself will say why."""
    try:
        given = parse_read_options(options)
        return None if given.system is not None else load_state(given, None).loaded
    except PaimonError:
        return None


def _schema_of(store: TableStore, loaded: Loaded, newest: TableSchema) -> TableSchema:
    try:
        schema = newest if newest.id == loaded.schema_id else store.schema(loaded.schema_id)
    except NotFoundError:
        schema = None
    if schema is None or Loaded.of(schema) != loaded:
        raise NotFoundError(
            "the table that this DataFrame or view was loaded from was dropped, and there is another one now",
            path=store.root,
            hint=_HINT,
        )
    return schema


def _by_columns_of(old: TableSchema, newest: TableSchema) -> tuple[TableSchema, dict[str, str]]:
    """The newest schema with the columns of an old one, in their order and by their names, and what became of others.

    Columns are found by their ids. Types stay the newest: what is read is cast for Spark, value by value.
    """
    now = {f.id: f for f in newest.fields}
    fields, changed = [], {}
    for field in old.fields:
        new = now.get(field.id)
        if new is None:
            changed[field.name] = f"column {field.name} was dropped after the table was loaded"
        elif not _reads_as(new.type, field.type):
            changed[field.name] = f"column {field.name} was loaded as {field.type}, and is {new.type} now"
        fields.append(field if new is None or field.name in changed else replace(new, name=field.name))
    names = {new.name: f.name for f in old.fields if (new := now.get(f.id)) is not None}
    options = dict(newest.options)
    if any(names.get(key) != key for key in newest.bucket_keys):
        options.pop("bucket-key", None)  # all buckets are read then
    partition_keys = tuple(names.get(key, key) for key in newest.partition_keys)
    return replace(newest, fields=tuple(fields), partition_keys=partition_keys, options=options), changed


def _reads_as(new: DataType, old: DataType) -> bool:
    """Whether values of the new type can be read as the old one, or be refused one by one where they don't fit."""
    if not isinstance(new, AtomicType) or not isinstance(old, AtomicType):
        return new == old
    kinds = {new.kind, old.kind}
    return len(kinds) == 1 or kinds <= _INTEGERS or kinds <= _TEXTS


def state_schema(state: ReadState, options: ReadOptions) -> StructType:
    """Spark's schema of the read: the table's columns, or those of the option ``columns``, then metadata columns.
    Raises PaimonError: the options do not fit the table."""
    from paimon_pyds.metadata.split import METADATA_FIELDS
    from paimon_pyds.spark.projection import check_metadata_columns, select_columns, split_names
    from paimon_pyds.spark.types import spark_schema

    fields: Sequence[DataField] = state.schema.fields
    if options.columns is not None:
        named = [path for path in split_names(options.columns) if path[-1] not in METADATA_FIELDS]
        hidden = [path[-1] for path in split_names(options.columns) if path[-1] in METADATA_FIELDS]
        fields = select_columns(fields, named)
        options = replace(options, metadata_columns=(*hidden, *options.metadata_columns))
    check_metadata_columns(options.metadata_columns)
    if options.kind_column is not None:
        fields = [*fields, kind_field(options.kind_column, fields)]
    return spark_schema([*fields, *(METADATA_FIELDS[name] for name in dict.fromkeys(options.metadata_columns))])


def kind_field(name: str, fields: Sequence[DataField]) -> DataField:
    """The column of row kinds that a stream adds. Raises OptionError: the table has a column of that name."""
    from paimon_pyds.keys.merge.key_values import ROWKIND

    if name.casefold() in (f.name.casefold() for f in fields):
        raise OptionError(
            f"the table has a column {name!r}", hint="name the column of row kinds otherwise: rowkind-column"
        )
    return replace(ROWKIND, name=name, type=ROWKIND.type.with_nullable(False))


def stream_schema(store: TableStore, loaded: Loaded | None) -> TableSchema:
    """The schema whose columns a stream has: that of the load. Raises NotFoundError: the table is another one now."""
    newest = store.latest_schema()
    return newest if loaded is None else _schema_of(store, loaded, newest)
