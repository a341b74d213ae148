"""Create a table: validate its schema and publish ``schema-0``, which is what makes a directory a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from paimon_pyds.base.options import check_no_secrets, stored_options
from paimon_pyds.base.options.option import comma_separated, option_texts
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, walk_fields
from paimon_pyds.errors import AlreadyExistsError, OptionError, PaimonError
from paimon_pyds.format import LEGACY_TYPE, holds_instants
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.schema import TableSchema, parse_schema, schema_digest
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.validate import validate_schema
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.storage.disk_cache import LocalCache


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table is to be, before it has a schema.

    Columns whose ids are not all different are numbered anew, parents before their nested fields. Columns of the
    primary key become NOT NULL. Options ``primary-key`` and ``partition`` may stand for the attributes, as in SQL.

    Attributes:
        fields: the columns.
        primary_key: names of columns, in a list or in a text between commas; none for an append table.
        partition_by: names of columns, as those of the key.
        options: table options; values may be numbers and booleans.
        comment: about the table.
    """

    fields: Sequence[DataField]
    primary_key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    comment: str | None = None


def create_table(
    io: FileIO,
    path: str,
    definition: TableDefinition,
    *,
    external: ExternalPaths | None = None,
    local_cache: LocalCache | None = None,
) -> TableStore:
    """Create a table and return its store.

    Args:
        io: the storage.
        path: where the table goes, as `open_file_io` normalised it.
        definition: its columns, keys and options.
        external: files outside of the table that its store may read.
        local_cache: of the store.

    Raises:
        AlreadyExistsError: the table already exists.
        OptionError: an option that is a secret.
        SchemaError, OptionError, UnsupportedError: see `validate_schema`.
        StorageError: the storage refuses.
    """
    schema = table_schema(definition)
    store = TableStore(io, path, external=external, local_cache=local_cache)
    if store.schema_ids() or not store.try_create_schema(schema):
        raise AlreadyExistsError("a table already exists", path=path, hint="open it, or choose another path")
    return store


TakeBack: TypeAlias = "Callable[[FileIO, str, str], object]"
"""Takes a new table away again: `unmake`, or what a catalog does besides."""


@contextmanager
def unmade_on_failure(store: TableStore, take_back: TakeBack | None = None) -> Iterator[None]:
    """Take a table that was made just now away again where its first rows fail. Best effort; see `unmake`.
    ``take_back``: how; `unmake` by default."""
    digest = schema_digest(store.latest_schema())
    try:
        yield
    except BaseException:
        with suppress(PaimonError, OSError):
            (take_back or unmake)(store.io, store.root, digest)
        raise


def unmake(io: FileIO, root: str, digest: str) -> bool:
    """Take a table away if its first schema is all that is there: it has no snapshot, and nobody has begun to write.

    Another writer may begin at that moment. The schema is removed first, and restored if a file has appeared by then: a
    commit made meanwhile has its schema again. A writer that begins later, having opened the table before, finds no
    schema when it commits: its rows are refused with an error, never lost in silence. One case remains: a commit of
    another program that does not read the schema again, and whose first file appears after our second look. No file
    system could close that gap: it can't remove a file only if another is absent.

    ``digest``: `schema_digest` of the schema, as a table of somebody else may have come in its place.

    Returns: whether the table is gone.
    """
    first = f"{root}/schema/schema-0"
    _, files = _contents(io, root)
    if files != [first]:
        return False
    data = io.read_bytes(first)
    if schema_digest(parse_schema(data, first)) != digest:
        return False
    io.delete(files)
    directories, files = _contents(io, root)
    if files:
        io.create_if_absent(first, data)
        return False
    for directory in reversed(directories):
        io.remove_empty_dir(directory)
    return True


def _contents(io: FileIO, root: str) -> tuple[list[str], list[str]]:
    """The directories of a table, each before those in it, and its files."""
    directories, files = [root], list[str]()
    for directory in directories:
        entries = io.list(directory)
        directories += (entry.path for entry in entries if entry.is_dir)
        files += (entry.path for entry in entries if not entry.is_dir)
    return directories, files


def remove_table(io: FileIO, path: str) -> None:
    """Remove everything in a table's directory. Its states go first: where the storage fails halfway, the next table of
    that path must not find them, and what has a schema can be dropped again. Raises StorageError."""
    from paimon_pyds.storage.concurrent import concurrent_each, threads_for

    states = [f"{path}/{name}" for name in ("snapshot", "changelog", "tag", "branch", "consumer")]
    concurrent_each(io.delete_tree, states, threads_for(io, 1))
    io.delete_tree(path)


def table_schema(definition: TableDefinition) -> TableSchema:
    """The first schema of a table. Raises SchemaError, OptionError, UnsupportedError: see `validate_schema`."""
    given = option_texts(definition.options)
    check_no_secrets(given)
    given = stored_options(given)
    primary_key = _from_option(given, "primary-key", definition.primary_key)
    partition_by = _from_option(given, "partition", definition.partition_by)
    columns = tuple(definition.fields)
    if len({f.id for f in walk_fields(columns)}) != len(list(walk_fields(columns))) or any(f.id < 0 for f in columns):
        columns = fresh_ids(columns)
    nullable_key = given.get("primary-key.nullable", "").strip().lower() == "true"
    columns = tuple(
        replace(f, type=f.type.with_nullable(nullable_key)) if f.name in primary_key else f for f in columns
    )
    if holds_instants(columns, given):
        # Java in any time zone then reads what is written here, and writes what is read here.
        given.setdefault(LEGACY_TYPE, "false")
    schema = TableSchema(
        id=0,
        fields=columns,
        highest_field_id=max((f.id for f in walk_fields(columns)), default=-1),
        partition_keys=partition_by,
        primary_keys=primary_key,
        options=given,
        comment=definition.comment,
        time_millis=time.time_ns() // 1_000_000,
    )
    validate_schema(schema)
    return schema


def _from_option(options: dict[str, str], key: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        given = [given]
    text = options.pop(key, None)
    named = comma_separated(text or "")
    if named and given and named != tuple(given):
        raise OptionError(f"{key} is given twice, as an option and as an argument: {text} and {', '.join(given)}")
    return named or tuple(given)


def fresh_ids(fields: Iterable[DataField], ids: Iterator[int] | None = None) -> tuple[DataField, ...]:
    """Columns numbered in Java's order: a field, then what is nested in it, then the next one."""
    counter = count() if ids is None else ids
    return tuple(
        replace(column, id=id_, type=numbered(column.type, counter))
        for column, id_ in ((column, next(counter)) for column in fields)
    )


def numbered(type_: DataType, ids: Iterator[int]) -> DataType:
    """A type whose nested fields have new ids."""
    match type_:
        case RowType():
            return replace(type_, fields=fresh_ids(type_.fields, ids))
        case ArrayType() | MultisetType():
            return replace(type_, element=numbered(type_.element, ids))
        case MapType():
            return replace(type_, key=numbered(type_.key, ids), value=numbered(type_.value, ids))
    return type_
