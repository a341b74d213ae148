"""A table as it is written to: its schema and options, the columns of its files, and whether these can be written.

Files of rows that had row ids before (tables with ``row-tracking.enabled``) keep them, in columns of their own:
``_ROW_ID``, and ``_SEQUENCE_NUMBER``, the snapshot that last changed the row, NULL where it changes just now. Rows of
other files get consecutive row ids when they are committed.
(Source: Paimon documentation, append-table/row-tracking, and what Java Paimon's row-level commands write.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions, blob_is_written, holds_descriptors, holds_views
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import without_secrets
from paimon_pyds.base.text import names_text, one_line
from paimon_pyds.base.types import AtomicType, DataField, Kind
from paimon_pyds.engine.write.conform import Conformer, without_defaults
from paimon_pyds.engine.write.missing_columns import choice
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.format import by_name, has_kind, traits_of
from paimon_pyds.format.avro.compression import codec_name
from paimon_pyds.format.statistics import stats_modes
from paimon_pyds.index.build import IndexSpec, parse_index_specs
from paimon_pyds.keys.merge.key_values import KEY_VALUE_FIELDS, SEQUENCE_NUMBER, key_field
from paimon_pyds.metadata.manifest import FILE_SOURCE_APPEND, FILE_SOURCE_COMPACT
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import MAIN_BRANCH, TablePaths
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.storage import FileIO

ROW_ID_FIELDS = tuple(METADATA_FIELDS[name] for name in ("_ROW_ID", SEQUENCE_NUMBER))
"""The columns in which rows keep their row ids."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Which columns the data files of a write have, in order: ``leading``, ``table``, ``trailing``.

    Attributes:
        table: the table's columns, as rows are written with them.
        trailing: columns that rows bring along besides; they have no statistics.
        leading: columns that the bucket writer puts before the table's (keys, sequence numbers and row kinds); they
            have no part in the statistics of values.
        partial: ``table`` are some of the table's columns.
        references: the names of BLOB columns of which files have descriptors, as bytes; or views.
        views: those of the latter.
    """

    table: tuple[DataField, ...]
    trailing: tuple[DataField, ...] = ()
    leading: tuple[DataField, ...] = ()
    partial: bool = False
    references: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()

    @property
    def values(self) -> tuple[DataField, ...]:
        """The columns that statistics and file indexes are made of."""
        if not self.references:
            return (*self.table, *self.trailing)
        return (*(replace(f, type=_BYTES) if f.name in self.references else f for f in self.table), *self.trailing)

    @property
    def physical(self) -> tuple[DataField, ...]:
        """All columns of the files."""
        return (*self.leading, *self.values)

    @property
    def trailing_names(self) -> tuple[str, ...]:
        """The names of the columns that rows bring along."""
        return tuple(field.name for field in self.trailing)

    @property
    def written_columns(self) -> tuple[str, ...] | None:
        """``_WRITE_COLS`` of the manifest: None where files have the columns of their schema."""
        return tuple(field.name for field in self.values) if self.trailing or self.partial else None


_BYTES = AtomicType(Kind.VARBINARY, length=2**31 - 1)
_APPEND_TARGET_SIZE = 256 << 20
"""Bytes of a data file of an append table: Java's default of target-file-size."""
_KEYS_TARGET_SIZE = 128 << 20
"""Bytes of a data file of a table with a primary key: Java's default of target-file-size."""
_PER_LEVEL = ("file.format", "file.compression", "metadata.stats-mode")
_OF_CHANGELOG = {
    "prefix": "data-file.prefix", "format": "file.format", "compression": "file.compression",
    "stats-mode": "metadata.stats-mode",
}  # fmt: skip


def row_layout(schema: TableSchema, options: TableOptions, *, existing_rows: bool = False) -> RowLayout:
    """The columns of the data files that a table gets."""
    fields = without_defaults(schema.fields) if existing_rows else schema.fields
    if schema.primary_keys:
        thin = options.get("data-file.thin-mode") and traits_of(str(options.get("file.format"))).names_columns
        keys = () if thin else key_fields(schema)  # Java and pypaimon expect them in files that don't name columns
        return RowLayout(fields, leading=(*keys, *KEY_VALUE_FIELDS))
    held = existing_rows and options.get("row-tracking.enabled") and not options.get("data-evolution.enabled")
    trailing = ROW_ID_FIELDS if held else ()
    return RowLayout(fields, trailing)


def _with_references(layout: RowLayout, schema: TableSchema, options: Mapping[str, str]) -> RowLayout:
    """A layout with the BLOB columns of which files have descriptors. ``options``: the table's, as texts."""
    blobs = [field for field in layout.table if field.type.kind is Kind.BLOB]
    names = frozenset(field.name for field in blobs if schema.primary_keys or holds_descriptors(field, options))
    if names and str(options.get("file.format", "")).lower() == "row":
        raise UnsupportedError(
            f"column {min(names)}: files of the format row hold no references to BLOBs, of which Java writes the bytes",
            hint="use file.format=parquet",
            feature="blob",
        )
    views = frozenset(field.name for field in blobs if holds_views(field, options))
    return replace(layout, references=names, views=views) if names else layout


def key_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns that the files of a table with a primary key have its key in; none for other tables."""
    return tuple(key_field(schema.field(name)) for name in schema.trimmed_primary_keys)


def level_options(options: TableOptions, level: int | str) -> dict[str, str]:
    """What the options ``….per.level`` say of the files of one level of a table with a primary key."""
    return _given({key: options.get(f"{key}.per.level").get(str(level)) for key in _PER_LEVEL})


def changelog_options(options: TableOptions, level: int) -> dict[str, str]:
    """The same of changelog files: options of their own before those of a level."""
    own = {key: options.get(f"changelog-file.{name}") for name, key in _OF_CHANGELOG.items()}
    return {**level_options(options, level), **_given(own)}


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in options.items() if value is not None}


def vector_fields(fields: Sequence[DataField], options: TableOptions) -> tuple[DataField, ...]:
    """The columns that are in vector files: VECTOR columns, if ``vector.file.format`` is set."""
    if options.get("vector.file.format") is None:
        return ()
    return tuple(field for field in fields if field.type.kind is Kind.VECTOR)


def target_file_size(schema: TableSchema, options: TableOptions) -> int:
    """Bytes of a full file of a table."""
    default = _KEYS_TARGET_SIZE if schema.primary_keys else _APPEND_TARGET_SIZE
    return int(options.get("target-file-size") or default)


@dataclass(frozen=True)
class WriteContext:
    """A table as it is written to: where, with which schema, and with which options.

    Secrets among the options, which other writers may have stored, stay behind: no task needs one.

    Attributes:
        existing_rows: the rows were in the table before: their NULLs stay what they are, whatever defaults columns
            have, and they keep their row ids, which they bring along.
        changelog: the files are those of a changelog.
        index_manifest: of the snapshot whose hash index files say which keys are in which dynamic bucket: its name, or
            "" for none, as an overwrite looks for none; None where rows stay in their buckets.
        schema_digest: `schema_digest` of the table's schema with all its options.
        columns: those that the files hold (data evolution); None for all columns.
        replaces: the rows replace all others of their partitions.
        of_group: a file has all rows of a row group, however large it gets.
    """

    io: FileIO
    root: str
    branch: str
    schema: TableSchema
    dynamic_options: Mapping[str, str] = field(default_factory=dict)
    file_source: int = FILE_SOURCE_APPEND
    existing_rows: bool = False
    changelog: bool = False
    schema_digest: str = ""
    index_manifest: str | None = None
    columns: frozenset[str] | None = None
    replaces: bool = False
    of_group: bool = False

    def __post_init__(self) -> None:
        if not self.schema_digest:
            object.__setattr__(self, "schema_digest", schema_digest(self.schema))

        public = replace(self.schema, options=without_secrets(self.schema.options))
        object.__setattr__(self, "schema", public)
        object.__setattr__(self, "dynamic_options", without_secrets(self.dynamic_options))

    def __repr__(self) -> str:
        branch = "" if self.branch == MAIN_BRANCH else f"branch {self.branch}"
        return one_line(self, self.root, branch, f"schema {self.schema.id}", names_text(self.schema.field_names))

    @cached_property
    def raw_options(self) -> dict[str, str]:
        """The table's options with the write's own on top."""
        return {**self.schema.options, **self.dynamic_options}

    @cached_property
    def options(self) -> TableOptions:
        """The same, typed."""
        return TableOptions(self.raw_options)

    @cached_property
    def paths(self) -> TablePaths:
        """The table's paths."""
        return TablePaths(self.root, self.branch, self.raw_options)

    def directories_to_write(self, partitions: Sequence[bytes]) -> list[str]:
        """The directories for new files of partitions. Raises UnsupportedError as `PartitionDirectories.to_write`."""
        return PartitionDirectories(self.io, self.schema, self.paths).to_write(partitions)

    def bucket_to_write(self, partition: bytes, bucket: int) -> str:
        """The directory for new files of a bucket. Raises UnsupportedError as `PartitionDirectories.to_write`."""
        return self.paths.bucket_dir(self.directories_to_write([partition])[0], bucket)

    @cached_property
    def layout(self) -> RowLayout:
        """The columns of the data files."""
        if self.columns is None:
            found = row_layout(self.schema, self.options, existing_rows=self.existing_rows)
        else:
            fields = without_defaults(field for field in self.schema.fields if field.name in self.columns)
            found = RowLayout(fields, partial=True)
        return _with_references(found, self.schema, self.raw_options)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """`key_fields` of the table."""
        return key_fields(self.schema)

    def at_level(self, level: int) -> WriteContext:
        """How the files of one level of a table with a primary key are written (options ``….per.level``)."""
        return self.with_options(level_options(self.options, level))

    def of_changelog(self, level: int) -> WriteContext:
        """How changelog files are written: with options of their own before those of a level, without file indexes."""
        own = self.with_options(changelog_options(self.options, level))
        return replace(own, changelog=True, file_source=FILE_SOURCE_APPEND)

    def with_options(self, options: Mapping[str, str]) -> WriteContext:
        """The same with other options of this write."""
        return replace(self, dynamic_options={**self.dynamic_options, **options})

    @cached_property
    def blob_fields(self) -> tuple[DataField, ...]:
        """The columns that are written into ``.blob`` files."""
        layout = self.layout
        return tuple(f for f in layout.table if has_kind(f.type, Kind.BLOB) and f.name not in layout.references)

    @cached_property
    def managed_blobs(self) -> tuple[DataField, ...]:
        """In tables with a primary key, the BLOB columns whose values are written into packs."""
        if not self.schema.primary_keys:
            return ()
        blobs = (field for field in self.layout.table if field.name in self.layout.references)
        return tuple(field for field in blobs if not holds_descriptors(field, self.raw_options))

    @cached_property
    def vector_fields(self) -> tuple[DataField, ...]:
        """The columns that are written into vector files."""
        return vector_fields(self.layout.table, self.options)

    @property
    def apart_fields(self) -> tuple[DataField, ...]:
        """The columns that are written into files of their own."""
        return (*self.blob_fields, *self.vector_fields)

    def without(self, fields: Sequence[DataField]) -> WriteContext:
        """The same without some columns."""
        names = {field.name for field in fields}
        return replace(self, columns=frozenset(f.name for f in self.layout.table if f.name not in names))

    def of_vectors(self, file_format: str | None = None) -> WriteContext:
        """How vector files are written. ``file_format``: another one than that of the table's options."""
        size = self.options.get("vector.target-file-size")
        own = {"file.format": file_format or str(self.options.get("vector.file.format"))}
        own |= {} if size is None else {"target-file-size": str(size)}
        return replace(self.with_options(own), columns=frozenset(field.name for field in self.vector_fields))

    def conformer(self, names: Sequence[str] | None = None) -> Conformer:
        """What brings rows to the columns `RowLayout.values`, or those of them that are named."""
        formats = [(self.at_level(0) if self.schema.primary_keys else self).file_suffix]
        if self.schema.primary_keys and not self.existing_rows:
            # A key that only some levels give without its blanks would be two keys. Those that are there stay the same.
            formats += [str(self.options.get("file.format")), *self.options.get("file.format.per.level").values()]
        trims = any(traits_of(name).trims_char for name in formats)
        keys = self.schema.partition_keys
        fields = self.layout.values if names is None else [self.schema.field(name) for name in names]
        placing = {*keys, *self.schema.primary_keys, *self.schema.bucket_keys} if not self.existing_rows else ()
        bounded = not self.existing_rows
        return Conformer(
            fields,
            self.root,
            trims_char=trims,
            partition_keys=keys,
            placing=placing,
            bounded=bounded,
            takes_members=self.takes_members,
        )

    @cached_property
    def takes_members(self) -> bool:
        """Whether NULL stands for members of structs that rows do not have. Raises OptionError: see `choice`."""
        merges = self.options.get("write.merge-schema") and not self.schema.primary_keys
        return (choice(self.raw_options) or (merges and "null")) == "null"

    @cached_property
    def target_file_size(self) -> int:
        """Bytes at which a file is rolled."""
        if self.of_group:
            return _UNBOUNDED
        return target_file_size(self.schema, self.options)

    @cached_property
    def clusters_rows(self) -> bool:
        """Whether writers order their rows by ``clustering.columns``."""
        get = self.options.get
        incremental = get("clustering.incremental") and not get("clustering.incremental.optimize-write")
        return bool(int(get("bucket")) == -1 and get("clustering.columns") and not incremental)

    @cached_property
    def target_file_rows(self) -> int:
        """Rows at which a file is rolled. Raises OptionError: the option is 0 or less."""
        if self.of_group:
            return _UNBOUNDED
        if self.changelog or (self.schema.primary_keys and self.file_source == FILE_SOURCE_COMPACT):
            return _UNBOUNDED  # Java: class KeyValueFileWriterFactory
        rows = int(self.options.get("target-file-row-num"))
        if rows < 1:
            raise OptionError(f"target-file-row-num must be at least 1, it is {rows}", path=self.root)
        return rows

    @cached_property
    def file_suffix(self) -> str:
        """The part of a data file's name after the dot."""
        of_vectors = self.columns is not None and len(self.vector_fields) == len(self.layout.table)
        return f"vector.{self._format_suffix}" if of_vectors else self._format_suffix

    @property
    def _format_suffix(self) -> str:
        name = str(self.options.get("file.format"))
        if self.options.get("file.suffix.include.compression"):
            compression = str(self.options.get("file.compression")).lower()
            return f"{_SUFFIXES.get(compression, compression)}.{name}"
        return name

    @cached_property
    def index_specs(self) -> Sequence[IndexSpec]:
        """The file indexes to build."""
        if self.changelog:
            return ()
        if self.columns is not None:
            return [s for s in parse_index_specs(self.raw_options, self.schema.fields) if s.column in self.columns]
        return parse_index_specs(self.raw_options, self.layout.table)

    @cached_property
    def stats_modes(self) -> Sequence[str]:
        """The statistics mode of each column that rows come with."""
        layout = self.layout
        fields = self.schema.fields if layout.partial else layout.table
        modes = zip(fields, stats_modes(fields, self.raw_options), strict=True)
        names = {field.name for field in layout.table}
        own = ("none" if field.name in layout.references else mode for field, mode in modes if field.name in names)
        return (*own, *("none" for _ in layout.trailing))


_UNBOUNDED = 2**63 - 1
_VECTOR_FORMATS = ("parquet", "avro")
_SUFFIXES = {"zstd": "zst", "gzip": "gz", "snappy": "snappy", "lz4": "lz4"}


def check_table_files(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Whether a table's data files, changelogs and manifests can be written as ``options``, all of them, say.
    Raises OptionError, UnsupportedError: as `check_files`."""
    typed = TableOptions(options)
    apart = vector_fields(schema.fields, typed)
    check_files([f for f in schema.fields if not blob_is_written(f, schema, options) and f not in apart], options)
    check_vector_files(schema, options)
    if not schema.primary_keys:
        return
    physical = _with_references(row_layout(schema, typed), schema, options).physical
    levels = {"0", *(level for key in _PER_LEVEL for level in typed.get(f"{key}.per.level"))}
    files = {f"data files of level {level}": level_options(typed, level) for level in sorted(levels)}
    if typed.get("changelog-producer") != "none":
        files["changelog files"] = changelog_options(typed, 0)
    for what, own in files.items():
        try:
            check_files(physical, {**options, **own})
        except (OptionError, UnsupportedError) as error:
            said = ", ".join(f"{key}={value}" for key, value in own.items() if key != "data-file.prefix")
            where = f" ({said}, as their own options have it)" if said else ""
            error.message = f"{what}{where}: {error.message}"
            error.args = (error.message,)
            raise


def check_vector_files(schema: TableSchema, options: Mapping[str, str]) -> None:
    """Whether the VECTOR columns of a table can be written into vector files, if they are to be.
    Raises OptionError, UnsupportedError."""
    typed = TableOptions(options)
    fields = vector_fields(schema.fields, typed)
    if not fields:
        return
    name = str(typed.get("vector.file.format")).lower()
    if not typed.get("data-evolution.enabled"):
        raise OptionError(f"vector.file.format={name} needs data-evolution.enabled=true")
    if len(fields) + len(schema.partition_keys) == len(schema.fields):
        raise OptionError(f"a table with vector.file.format={name} needs a column that is no VECTOR")
    if name not in _VECTOR_FORMATS:
        raise UnsupportedError(
            f"vectors are not written into {name} files (vector.file.format)",
            hint=f"choose {' or '.join(_VECTOR_FORMATS)}, which Java Paimon reads vectors from too",
            feature="vector",
        )
    check_files(fields, {**options, "file.format": name})


def check_files(fields: Sequence[DataField], options: Mapping[str, str]) -> None:
    """Whether data files and manifests of these columns can be written as the options say.

    Raises:
        OptionError: a value that the option does not allow.
        UnsupportedError: a compression, a type or a name that the file format can't have.
    """
    typed = TableOptions(options)
    by_name(str(typed.get("file.format"))).check_writer(fields, options)
    stats_modes(fields, options)
    codec_name(str(typed.get("manifest.compression")))
    prefix = str(typed.get("data-file.prefix"))
    if "/" in prefix or "\0" in prefix:
        raise OptionError(f"data-file.prefix={prefix!r:.100} can't begin a file's name", hint="leave out its slash")
