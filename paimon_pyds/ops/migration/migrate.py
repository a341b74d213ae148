"""Migrate: files of other writers become an append table (bucket -1) without being rewritten.

Nothing is removed before the end. Files are copied or linked into a directory next to the target, the table's schemas
and its first snapshot are written there, and one rename makes it the target; on storage that can't rename directories,
the files are written to their final places and the schemas after them. A migration that fails removes its files. One
that is killed leaves the directory next to the target, ``.<name>.migrating-…``: another one can begin
at once, and the same one on the same machine removes it. ``move`` links or copies, too, and removes the source's files
when the table is there.

(Sources: what Java Paimon's Hive migrator makes of files, its classes HiveMigrator and FileMetaUtils: entries of
bucket 0 without a primary key, statistics of footers; file names are new here, for they must differ within a bucket.)
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from paimon_pyds.base.arrays import rows_table
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import option_texts, path_like, texts
from paimon_pyds.base.progress import phase, shown
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, redact
from paimon_pyds.base.text import Summary, files_text, names_text, summary_text
from paimon_pyds.base.types import field_to_json
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.execution.executor import Executor, LocalExecutor
from paimon_pyds.errors import AlreadyExistsError, CorruptFileError, OptionError, SchemaError, UnsupportedError
from paimon_pyds.format import TRAITS
from paimon_pyds.metadata.commit_message import BucketFiles
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Operation, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.migration.common_types import FileFacts, Source, SourceFile
from paimon_pyds.ops.migration.file_entries import Plan, plan_table
from paimon_pyds.ops.migration.iceberg import table_directory
from paimon_pyds.ops.migration.new_table import built, check_free, take_away_left_overs, transfer
from paimon_pyds.ops.migration.sources import read_source
from paimon_pyds.storage import FileIO, open_file_io, scheme_of

_log = logging.getLogger("paimon_pyds.migration")
_MODES = ("copy", "move", "link")
_TABLES = ("delta", "iceberg")
_FORMATS = (*(name for name, traits in TRAITS.items() if traits.names_columns), *_TABLES)


@dataclass(frozen=True, slots=True, repr=False)
class MigrationSummary(Summary):
    """What a migration did, or would do.

    Attributes:
        snapshot_id: the table's first snapshot; None for a dry run, and where no file has a row.
        kind: of the source: ``directory``, ``delta`` or ``iceberg``.
        format: of its files.
        schema: of the table.
        files: with the columns ``path`` (in the source), ``partition``, ``rows``, ``bytes`` and ``schema_id``.
        empty: files without rows, which the table does not get.
        left_out: columns without a type: they hold nothing but NULL in every file.
        kept: number of files of the source that ``move`` could not remove; the table has their rows.
        links: links that were left out of a directory; see ``source``.
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
    links: tuple[str, ...] = ()
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
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("schema", "files")}
        columns = [field_to_json(column) for column in self.schema.fields]
        of_schema = {"fields": columns, "partition_by": self.schema.partition_keys}
        return {**plain, "rows": self.rows, "bytes": self.bytes, **of_schema, "files": self.files.to_pylist()}

    def __str__(self) -> str:
        partitions = len(self.files["partition"].unique())
        parts = [
            "dry run" if self.dry_run else "",
            f"{files_text(self.files.num_rows, self.rows, self.bytes)} of {self.format}",
            counted(partitions, "partition") if self.schema.partition_keys else "",
            f"{counted(self.empty, 'file')} without rows left out" if self.empty else "",
            f"columns without values left out: {names_text(self.left_out)}" if self.left_out else "",
            f"{counted(len(self.kept), 'file')} of the source could not be removed" if self.kept else "",
            f"{counted(len(self.links), 'link')} left out" if self.links else "",
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
    """Make an append table of a directory's Parquet, ORC or Avro files, or a Delta or Iceberg table's, as they are.

    All footers are looked at: columns that some files lack are NULL there, and numbers get the widest type. What Java
    Paimon would read otherwise than its writer meant it is refused by name. See `paimon_pyds.ops.migration.migrate`.

    Args:
        source: the directory, with ``k=v`` directories or flat; or a Delta or Iceberg table, of which the live files
            are taken; or one of the metadata files of an Iceberg table. Links in a directory are left out, and files
            that a Delta or Iceberg table names outside of its directory are refused; but where they are in a directory
            that the storage option ``external-paths.allow`` names, ``copy`` and ``link`` take them. ``move`` never
            leaves the directory.
        target: where the new table goes; nothing may be there.
        format: parquet, orc, avro, delta or iceberg: refuse another source than this.
        mode: ``copy`` files; ``link`` to them (hard links: one local disk, and nobody changes the source's files in
            place); ``move``: remove the source's files once the table is there.
        partition_by: the columns of the ``k=v`` directories, in the order that the table is to have; or their types by
            name, such as ``{"day": "STRING"}``. By default as the directories have them, INT, BIGINT, DATE or STRING.
        primary_key: must be empty: files of tables with a primary key are sorted by it.
        options: table options.
        comment: about the table.
        storage_options: credentials and endpoints, of source and target; ``external-paths.allow``.
        dry_run: only report what would be made, and change nothing; False by default.
        executor: where footers are read and files copied; this machine by default.
        progress: see `paimon_pyds.show_progress`.

    Returns:
        A `MigrationSummary`: the schema and the files of the table, and the columns and links that it lacks.

    Raises:
        NotFoundError: no data files.
        AlreadyExistsError: something is at the target.
        CorruptFileError, UnsupportedError, SchemaError: files that can't be one table that Java reads alike.
        SecurityError: a Delta or Iceberg table names files outside of its directory.
    """
    started = time.perf_counter()
    _check(format, mode, primary_key)
    (source_io, source_root), (io, root) = (
        open_file_io(path_like(name, place), storage_options)
        for name, place in (("source", source), ("target", target))
    )
    inside = table_directory(source_root)
    if f"{root}/".startswith(f"{inside}/") or f"{inside}/".startswith(f"{root}/"):
        raise OptionError("source and target are inside one another", path=root, hint="choose another target")
    with shown("migrate", progress):
        call = f"migration of {redact(source_root)}"
        check_free(io, root)
        if not dry_run:
            take_away_left_overs(io, root, call)
        allowed = ExternalPaths.of(storage_options).allowed
        found = read_source(source_io, source_root, () if mode == "move" else allowed)
        if found.links:
            _log.warning("%s left out, such as %s", counted(len(found.links), "link"), found.links[0])
        _check_kind(found, format, mode, source_root)
        runs = executor or LocalExecutor()
        plan = plan_table(found, _described(runs, source_io, found), partition_by, option_texts(options), comment)
        if format in TRAITS and plan.format != format:
            raise SchemaError(f"the files are of format {plan.format}, not {format}", path=source_root)
        snapshot = None if dry_run else _made(plan, source_io, io, root, call, partial(_transferred, runs, mode))
        kept = _removed(source_io, source_root, plan) if mode == "move" and not dry_run else ()
    return MigrationSummary(
        snapshot_id=None if snapshot is None else snapshot.id,
        kind=found.kind,
        format=plan.format,
        schema=plan.schemas[-1],
        files=_files_table(plan),
        empty=plan.empty,
        left_out=plan.left_out,
        kept=kept,
        links=found.links,
        dry_run=dry_run,
        seconds=time.perf_counter() - started,
    )


def _check(format_: str | None, mode: str, primary_key: Sequence[str]) -> None:
    if mode not in _MODES:
        raise OptionError(f"mode={mode!r:.40} is not one of {', '.join(_MODES)}")
    if format_ is not None and format_ not in _FORMATS:
        raise OptionError(f"format={format_!r:.40} is not one of {', '.join(_FORMATS)}")
    if texts("primary_key", primary_key):
        raise UnsupportedError(
            "files of a table with a primary key are sorted by it, and these are not",
            hint="create the table with its primary key, and append the rows",
        )


def _check_kind(source: Source, format_: str | None, mode: str, root: str) -> None:
    wanted = format_ if format_ in _TABLES else source.kind
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
            from paimon_pyds.ops.migration import parquet_file

            return task.number, parquet_file.describe(io, file.path, file.size, instants=task.instants)
        if head[:3] == b"ORC":
            from paimon_pyds.ops.migration import orc_file

            return task.number, orc_file.describe(io, file.path, file.size)
        if head == b"Obj\x01":
            from paimon_pyds.ops.migration import avro_file

            return task.number, avro_file.describe(io, file.path, file.size)
    except FileNotFoundError as error:
        raise CorruptFileError("a data file of the source is missing", path=file.path) from error
    what = "an empty file" if not file.size else "not a Parquet, ORC or Avro file"
    raise CorruptFileError(what, path=file.path, hint="take it out of the directory")


def _files_table(plan: Plan) -> pa.Table:
    rows = [
        {"path": file.path, "partition": place, "rows": e.row_count, "bytes": e.file_size, "schema_id": e.schema_id}
        for place, file, e in plan.files()
    ]
    schema = {
        "path": pa.string(),
        "partition": pa.string(),
        **dict.fromkeys(("rows", "bytes", "schema_id"), pa.int64()),
    }
    return rows_table(rows, pa.schema(schema))


# ----------------------------------------------------------------------------------------------------- what is made


def _made(
    plan: Plan, source_io: FileIO, io: FileIO, root: str, call: str, transferred: Callable[[list[_Transfer]], None]
) -> Snapshot | None:
    """The first snapshot of the table; None where no file has a row."""
    with built(io, root, call) as (place, made):
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
            f"the file had {task.file.size} bytes, and has {size} now: another process is writing to it",
            path=task.file.path,
        )
    return task.number


def _removed(io: FileIO, root: str, plan: Plan) -> tuple[str, ...]:
    """Remove the source's files; those that stay. A directory may have become a link to another table meanwhile."""
    local = scheme_of(root) == "file"
    inside = os.path.realpath(root)
    kept = []
    for _, file, _ in plan.files():
        if local and os.path.realpath(file.path) != f"{inside}{file.path[len(root) :]}":
            _log.warning("%s was not removed: it, or a directory above it, has become a link", file.path)
            kept.append(file.path)
            continue
        try:
            io.delete([file.path])
        except OSError as error:
            _log.warning("the table has its rows, but %s could not be removed: %s", file.path, error)
            kept.append(file.path)
    return tuple(kept)
