"""Migrate: files that other writers made become an append table (bucket -1), and are not written anew.

Nothing is taken away before all is done. The files come into a directory beside the target (copied, or linked to), the
table's schemas and its first snapshot are written there, and one rename makes it the target; on storage without
directories to rename, the files come to where they belong and the schemas after them. A migration that fails removes
what it made. One that is killed leaves the directory beside the target, ``.<name>.migrating-…``, to be removed by hand;
another one can begin at once. ``move`` links or copies, too, and removes the source's files when the table is there.

(Sources: what Java Paimon's Hive migrator makes of files, its classes HiveMigrator and FileMetaUtils: entries of
bucket 0 without a primary key, statistics of footers; file names are new here, for they must differ within a bucket.)
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from paimon_pyds.commit import Changes, Increment, commit
from paimon_pyds.commit_message import BucketFiles
from paimon_pyds.ddl.create import TableDefinition, new_schema
from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, OptionError, SchemaError, UnsupportedError
from paimon_pyds.execution.executor import Executor, LocalExecutor
from paimon_pyds.formats import LEGACY_TYPE, has_kind
from paimon_pyds.formats.statistics import KEY_STATS_EMPTY, ColumnStats, encode_stats, measured, stats_modes
from paimon_pyds.metadata.manifest import DataFile
from paimon_pyds.metadata.paths import partition_path
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.migration.columns import (
    FileFacts,
    Source,
    SourceFile,
    check_names,
    in_file,
    inferred_type,
    partition_value,
    widest_fields,
)
from paimon_pyds.migration.sources import read_source
from paimon_pyds.one_line import Summary, files_text, names_text, summary_text
from paimon_pyds.options import TableOptions
from paimon_pyds.options.option import option_texts, path_like, texts
from paimon_pyds.progress import phase, shown
from paimon_pyds.redaction import counted
from paimon_pyds.row import EMPTY_ROW, encode_row
from paimon_pyds.storage import FileIO, discard, open_file_io, scheme_of
from paimon_pyds.storage.transfer import transfer
from paimon_pyds.types import DataField, DataType, Kind, field_to_json, parse_type

_log = logging.getLogger("paimon_pyds.migration")
_MODES = ("copy", "move", "link")
_FORMATS = ("parquet", "orc", "avro", "delta")
_MOST_SCHEMAS = 200
_FILE_SOURCE_APPEND = 0


@dataclass(frozen=True, slots=True, repr=False)
class MigrationSummary(Summary):
    """What a migration did, or would do.

    Attributes:
        snapshot_id: the table's first snapshot; None for a dry run, and where no file has a row.
        kind: of the source: ``directory`` or ``delta``.
        format: of its files.
        schema: of the table.
        files: with the columns ``path`` (in the source), ``partition``, ``rows``, ``bytes`` and ``schema_id``.
        empty: files without rows, which the table does not get.
        left_out: columns without a type: they hold nothing but NULL in every file.
        kept: files of the source that ``move`` could not remove; the table has their rows.
        dry_run: nothing was written.
        seconds: time taken.
    """

    snapshot_id: int | None
    kind: str
    format: str
    schema: TableSchema
    files: pa.Table = field(compare=False)
    empty: int = 0
    left_out: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    dry_run: bool = False
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """How many the table gets."""
        return sum(self.files["rows"].to_pylist())

    @property
    def bytes(self) -> int:
        """Of the data files."""
        return sum(self.files["bytes"].to_pylist())

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, the files as rows."""
        plain = ("snapshot_id", "kind", "format", "empty", "left_out", "kept", "dry_run", "seconds", "rows", "bytes")
        fields = [field_to_json(column) for column in self.schema.fields]
        of_schema = {"fields": fields, "partition_by": self.schema.partition_keys}
        return {**{name: getattr(self, name) for name in plain}, **of_schema, "files": self.files.to_pylist()}

    def __str__(self) -> str:
        partitions = len(self.files["partition"].unique())
        parts = [
            "dry run" if self.dry_run else "",
            f"{files_text(self.files.num_rows, self.rows, self.bytes)} of {self.format}",
            counted(partitions, "partition") if self.schema.partition_keys else "",
            f"{counted(self.empty, 'file')} without rows left out" if self.empty else "",
            f"columns without values left out: {names_text(self.left_out)}" if self.left_out else "",
            f"{counted(len(self.kept), 'file')} of the source could not be removed" if self.kept else "",
        ]
        return summary_text(self.snapshot_id, parts, self.seconds)


@dataclass(frozen=True, slots=True)
class _Described:
    """A task that looks at a file's footer. It pickles."""

    number: int
    io: FileIO
    file: SourceFile
    instants: bool


@dataclass(frozen=True, slots=True)
class _Transfer:
    """A task that brings a file to its place."""

    number: int
    source: FileIO
    file: SourceFile
    target: FileIO
    path: str
    mode: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """What becomes of a source: ``schemas`` in the order of their ids, the table's last."""

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


def migrate(  # noqa: PLR0913 - named arguments that users type
    source: str,
    target: str,
    *,
    format: str | None = None,
    mode: Literal["copy", "move", "link"] = "copy",
    partition_by: Sequence[str] | Mapping[str, str] | None = None,
    primary_key: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    dry_run: bool = False,
    executor: Executor | None = None,
    progress: Any = None,
) -> MigrationSummary:
    """Make an append table of a directory's Parquet, ORC or Avro files, or a Delta table's, as they are.

    All footers are looked at: columns that some files lack are NULL there, and numbers get the widest type. What Java
    Paimon would read otherwise than its writer meant it is refused by name. See `paimon_pyds.migration.migrate`.

    Args:
        source: the directory, with ``k=v`` directories or flat; or a Delta table, of which the live files are taken.
        target: where the new table goes; nothing may be there.
        format: parquet, orc, avro or delta: refuse another source than this.
        mode: ``copy`` files; ``link`` to them (hard links: one local disk, and nobody changes the source's files in
            place); ``move``: remove the source's files once the table is there.
        partition_by: the columns of the ``k=v`` directories, in the order that the table is to have; or their types by
            name, such as ``{"day": "STRING"}``. By default as the directories have them, INT, BIGINT, DATE or STRING.
        primary_key: must be empty: files of tables with a primary key are sorted by it.
        options: table options.
        comment: about the table.
        storage_options: credentials and endpoints, of source and target.
        dry_run: only tell what would be made.
        executor: where footers are read and files copied; this machine by default.
        progress: see `paimon_pyds.show_progress`.

    Raises:
        NotFoundError: no data files.
        AlreadyExistsError: something is at the target.
        CorruptFileError, UnsupportedError, SchemaError: files that can't be one table that Java reads alike.
    """
    started = time.perf_counter()
    _check(format, mode, primary_key)
    (source_io, source_root), (io, root) = (
        open_file_io(path_like(name, place), storage_options)
        for name, place in (("source", source), ("target", target))
    )
    if f"{root}/".startswith(f"{source_root}/") or f"{source_root}/".startswith(f"{root}/"):
        raise OptionError("source and target lie in one another", path=root, hint="choose another target")
    with shown("migrate", progress):
        _check_free(io, root)
        found = read_source(source_io, source_root)
        _check_kind(found, format, mode, source_root)
        runs = executor or LocalExecutor()
        plan = _planned(found, _described(runs, source_io, found), partition_by, option_texts(options), comment)
        if format in ("parquet", "orc", "avro") and plan.format != format:
            raise SchemaError(f"the files are of format {plan.format}, not {format}", path=source_root)
        snapshot = None if dry_run else _made(plan, source_io, io, root, partial(_transferred, runs, mode))
        kept = _removed(source_io, plan) if mode == "move" and not dry_run else ()
    shown_files = _files_table(plan)
    return MigrationSummary(
        snapshot_id=None if snapshot is None else snapshot.id,
        kind=found.kind,
        format=plan.format,
        schema=plan.schemas[-1],
        files=shown_files,
        empty=plan.empty,
        left_out=plan.left_out,
        kept=kept,
        dry_run=dry_run,
        seconds=time.perf_counter() - started,
    )


def _check(format_: str | None, mode: str, primary_key: Sequence[str]) -> None:
    if mode not in _MODES:
        raise OptionError(f"mode={mode!r:.40} is none of {', '.join(_MODES)}")
    if format_ is not None and format_ not in _FORMATS:
        raise OptionError(f"format={format_!r:.40} is none of {', '.join(_FORMATS)}")
    if texts("primary_key", primary_key):
        raise UnsupportedError(
            "files of a table with a primary key are sorted by it, and these are not",
            hint="create the table with its primary key, and append the rows",
        )


def _check_free(io: FileIO, root: str) -> None:
    if TableStore(io, root).schema_ids():
        raise AlreadyExistsError("a table already exists", path=root, hint="choose another target, or append the rows")
    if io.list(root):
        raise AlreadyExistsError("the target is not empty", path=root, hint="choose another target")


def _check_kind(source: Source, format_: str | None, mode: str, root: str) -> None:
    wanted = "delta" if format_ == "delta" else source.kind
    if source.kind != wanted:
        raise UnsupportedError(f"this is a {source.kind}, no {wanted} table", path=root)
    if mode == "move" and source.kind != "directory":
        raise UnsupportedError(
            f"mode=move would leave the {source.kind} table without its files",
            path=root,
            hint="copy or link, and drop that table when you need it no more",
        )


# ------------------------------------------------------------------------------------------------------- what there is


def _described(executor: Executor, io: FileIO, source: Source) -> list[FileFacts]:
    tasks = [_Described(number, io, file, source.instants) for number, file in enumerate(source.files)]
    found: dict[int, FileFacts] = {}
    with phase("reading footers", files=len(tasks)) as step:
        for number, facts in executor.map(_describe, tasks):
            found[number] = facts
            step.advance(files=1)
    return [found[number] for number in range(len(tasks))]


def _describe(task: _Described) -> tuple[int, FileFacts]:
    """Runs in a task, on any machine. Raises CorruptFileError, UnsupportedError, StorageError."""
    io, file = task.io, task.file
    try:
        head = io.read_range(file.path, 0, min(4, file.size))
        if head == b"PAR1":
            from paimon_pyds.migration import parquet_file

            return task.number, parquet_file.describe(io, file.path, file.size, instants=task.instants)
        if head[:3] == b"ORC":
            from paimon_pyds.migration import orc_file

            return task.number, orc_file.describe(io, file.path, file.size)
        if head == b"Obj\x01":
            from paimon_pyds.migration import avro_file

            return task.number, avro_file.describe(io, file.path, file.size)
    except FileNotFoundError as error:
        raise CorruptFileError("a data file of the source is missing", path=file.path) from error
    what = "an empty file" if not file.size else "not a Parquet, ORC or Avro file"
    raise CorruptFileError(what, path=file.path, hint="take it out of the directory")


def _planned(
    source: Source,
    facts: Sequence[FileFacts],
    partition_by: Sequence[str] | Mapping[str, str] | None,
    options: dict[str, str],
    comment: str | None,
) -> _Plan:
    name = _one_format(source, facts)
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
    table = new_schema(_definition(ours, keys, name, options, comment))
    schemas, ids = _schemas(table, facts)
    buckets = _buckets(source, facts, schemas, ids)
    left_out = {name for fact in facts for name in fact.untyped} - {f.name for f in table.fields}
    empty = sum(not fact.rows for fact in facts)
    return _Plan(source, name, schemas, buckets, empty, tuple(sorted(left_out)))


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
    keys = tuple(source.partition_by if wanted is None else texts("partition_by", list(wanted)))
    if set(keys) != set(source.partition_by):
        raise OptionError(
            f"partition_by names {', '.join(keys) or 'nothing'}, the source has "
            f"partitions by {', '.join(source.partition_by) or 'nothing'}",
            hint="files stay as they are, so the table gets the source's partitions",
        )
    declared = {f.name: f.type for f in source.fields or ()}
    types: dict[str, DataType] = {}
    for key in keys:
        if key in named:
            types[key] = parse_type(named[key])
        else:
            types[key] = declared.get(key) or inferred_type(dict(file.partition)[key] for file in source.files)
    return keys, types


def _merged(source: Source, facts: Sequence[FileFacts]) -> tuple[DataField, ...]:
    """The columns of all files, or those that the source declares, with the widest type of each."""
    merged = source.fields
    for file, fact in zip(source.files, facts, strict=True):
        check_names(fact.fields)
        hive = {name for name, _ in file.partition}
        fields = [f for f in fact.fields if f.name not in hive] if source.fields is None else fact.fields
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
    if format_ == "orc" and any(has_kind(f.type, Kind.TIMESTAMP_LTZ) for f in fields):
        given.setdefault(LEGACY_TYPE, "false")  # other writers store instants as such
    return TableDefinition(fields, partition_by=keys, options=given, comment=comment)


def _schemas(table: TableSchema, facts: Sequence[FileFacts]) -> tuple[tuple[TableSchema, ...], list[int]]:
    """The schemas that files were written under, the table's last; and which one each file has."""
    keys = set(table.partition_keys)
    held: dict[tuple[DataField, ...], int] = {}
    numbers = []
    for fact in facts:
        own = {f.id: f for f in in_file([f for f in fact.fields if f.name not in keys], table.fields)}
        fields = tuple(
            replace(f, default=None) if f.name in keys else replace(own[f.id], description=f.description)
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
        known.append(measured(ColumnStats(column, low, high, nulls), mode))
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
        creation_time=int(time.time() * 1000),
        delete_row_count=0,
        file_source=_FILE_SOURCE_APPEND,
        value_stats_cols=columns,
    )


def _files_table(plan: _Plan) -> pa.Table:
    rows = [
        {"path": file.path, "partition": place, "rows": e.row_count, "bytes": e.file_size, "schema_id": e.schema_id}
        for place, file, e in plan.files()
    ]
    schema = {
        "path": pa.string(),
        "partition": pa.string(),
        **dict.fromkeys(("rows", "bytes", "schema_id"), pa.int64()),
    }
    return pa.Table.from_pylist(rows, pa.schema(schema))


# ----------------------------------------------------------------------------------------------------- what is made


def _made(
    plan: _Plan,
    source_io: FileIO,
    io: FileIO,
    root: str,
    transferred: Callable[[list[_Transfer]], None],
) -> Snapshot | None:
    """The first snapshot of the table; None where no file has a row."""
    with _built(io, root) as (place, made):
        store = TableStore(io, place)
        table = plan.schemas[-1]
        paths = store.paths.with_options(table.options)
        directories = {partition: paths.bucket_dir(inside, 0) for partition, (inside, _) in plan.buckets.items()}
        moves = [
            (file, f"{directories[partition]}/{entry.file_name}")
            for partition, (_, files) in plan.buckets.items()
            for file, entry in files
        ]
        made.extend(path for _, path in moves)
        transferred([_Transfer(n, source_io, file, io, path, "") for n, (file, path) in enumerate(moves)])
        for schema in plan.schemas:
            made.append(store.paths.schema(schema.id))
            if not store.try_create_schema(schema):
                made.pop()
                raise AlreadyExistsError("a table was created here meanwhile", path=root)
        added = [
            BucketFiles(partition, 0, -1, directories[partition], tuple(entry for _, entry in files))
            for partition, (_, files) in plan.buckets.items()
        ]
        changes = Changes((Increment(operation=Operation.WRITE, added=added),))
        return commit(store, changes, TableOptions(table.options))


@contextmanager
def _built(io: FileIO, root: str) -> Iterator[tuple[str, list[str]]]:
    """Where to build the table, and a list for the files that are made; on an error these are removed."""
    made: list[str] = []
    if scheme_of(root) != "file":  # there are no directories to rename
        try:
            yield root, made
        except BaseException:
            discard(io, reversed(made))
            raise
        return
    parent, _, name = root.rpartition("/")
    place = f"{parent}/.{name}.migrating-{uuid.uuid4()}"
    try:
        yield place, made
        io.remove_empty_dir(root)
        io.rename(place, root)
    except BaseException:
        with suppress(OSError):
            io.delete_tree(place)
        raise


def _transferred(executor: Executor, mode: str, tasks: list[_Transfer]) -> None:
    total = sum(task.file.size for task in tasks)
    with phase("copying" if mode == "copy" else "linking", files=len(tasks), bytes=total) as step:
        for number in executor.map(_transfer, [replace(task, mode=mode) for task in tasks]):
            step.advance(files=1, bytes=tasks[number].file.size)


def _transfer(task: _Transfer) -> int:
    """Runs in a task, on any machine. Raises StorageError, CorruptFileError."""
    size = transfer(task.source, task.file.path, task.target, task.path, task.mode)
    if size != task.file.size:
        raise CorruptFileError(
            f"the file had {task.file.size} bytes, and has {size} now: somebody writes to it", path=task.file.path
        )
    return task.number


def _removed(io: FileIO, plan: _Plan) -> tuple[str, ...]:
    """Remove the source's files; those that stay."""
    kept = []
    for _, file, _ in plan.files():
        try:
            io.delete([file.path])
        except OSError as error:
            _log.warning("the table has its rows, but %s could not be removed: %s", file.path, error)
            kept.append(file.path)
    return tuple(kept)
