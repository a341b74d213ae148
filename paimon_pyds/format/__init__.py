"""Data file formats: Parquet, ORC, Avro and row, found by name or by a file's suffix, loaded when first used.

In: file bytes, or Arrow batches. Out: Arrow batches, or file bytes with statistics. Formats know nothing of tables:
they are given the columns as the *file's* schema names them, and give Arrow batches of exactly those columns; readers
give VECTOR as the ARRAY that it is in files. Other rooms use `FileFormat` and `statistics`; `protocols` says what
readers and writers offer; `metadata/evolution/file_columns` maps old schemas to new ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, DataType, Kind
from paimon_pyds.base.types.vectors import stored_fields
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import (
        FiltersRows,
        FormatReader,
        FormatWriter,
        PlansGroups,
        PrunesParts,
        RowReplacer,
        SmallFileEncoder,
        SmallFiles,
    )

InstantBounds: TypeAlias = "tuple[tuple[str, int, int], ...]"
"""Columns of instants, each with its least and greatest value in a file, in milliseconds since 1970."""
BATCH_BYTES = 64 << 20
HELD_BATCH_BYTES = 256 << 20
"""Bytes of a batch at most, about; the latter where all rows are held in memory."""
WHOLE_FILE = 64 << 10
"""Bytes of a file up to which it is better read by one request, whatever is wanted of it."""
LEGACY_TYPE = "orc.timestamp-ltz.legacy.type"
"""Paimon's option: whether instants are stored by the clocks of the writer's zone."""
LEGACY_ZONE = "orc.timestamp-ltz.legacy.timezone"
"""An option of this package: the zone of the writers of stripes that name none, UTC by default."""


def is_legacy(options: Mapping[str, str]) -> bool:
    """Whether a table's instants are stored by the clocks of the writer's zone."""
    return options.get(LEGACY_TYPE, "true").strip().lower() != "false"


def holds_instants(fields: Iterable[DataField], options: Mapping[str, str]) -> bool:
    """Whether new files of a table have instants in them that may be stored by the clocks of the writer's zone."""
    traits = traits_of(options.get("file.format", "").strip())
    return traits.has_clocks and any(has_kind(field.type, Kind.TIMESTAMP_LTZ) for field in fields)


def has_kind(type_: DataType, *kinds: Kind) -> bool:
    """Whether a type is of one of these kinds, or has one inside."""
    return type_.kind in kinds or any(has_kind(inner, *kinds) for inner in type_.children())


@dataclass(frozen=True, slots=True)
class ReadHints:
    """Facts that help a reader and are not in the file.

    Attributes:
        options: the table's.
        instants: bounds that the manifest has.
        read_ahead: bytes that may be decoded ahead of the consumer; None: the reader decides. A batch has about this
            size at most, and at most about `BATCH_BYTES`: rows that are short in the file may be long in memory.
        read_whole: bytes of a file up to which one request for all of it is better than requests for parts.
        most_bytes: bytes of a batch at most, about, where ``read_ahead`` is None.
        columns: all columns of the file, in its order, for formats whose files don't name them; None if not known.
        repeats: names of the first of these, each with that of the column whose values it has once more; the file may
            lack them all.
    """

    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    instants: InstantBounds = ()
    read_ahead: int | None = None
    read_whole: int = WHOLE_FILE
    most_bytes: int = BATCH_BYTES
    columns: tuple[DataField, ...] | None = None
    repeats: tuple[tuple[str, str], ...] = ()

    @property
    def batch_bytes(self) -> int:
        """Bytes of a batch at most, about."""
        return self.most_bytes if self.read_ahead is None else min(BATCH_BYTES, self.read_ahead)

    @property
    def is_held(self) -> bool:
        """Whether the caller holds all rows: batches may have more of them than it names."""
        return self.read_ahead is None and self.most_bytes >= HELD_BATCH_BYTES


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """What a format can and can't do, to be looked up without loading it.

    Attributes:
        trims_char: CHAR values are read without the blanks at their end. The writer may have had values with blanks,
            from which Java computes indexes and buckets.
        reads_windows: the reader can read part of a file's rows without decoding the rows before them.
        has_statistics: files have bounds of columns of numbers.
        has_page_statistics: files have bounds of parts that are smaller than what is decoded together.
        counts_nested: Java's statistics of a file count the NULLs of nested columns.
        bounds_digits: digits of a second's fraction up to which Java's statistics have bounds of timestamps.
        timestamp_digits: digits of a second's fraction that timestamps may have.
        has_clocks: instants may be stored by the clocks of the writer's zone (`is_legacy`).
        holds_variant: columns may be of type VARIANT.
        holds_vectors: VECTOR is not stored as the ARRAY of its elements.
        names_columns: files say which columns they have.
        ignores_nan: bounds in manifests are those of the files' own statistics, which ignore NaN.
        magic: the bytes that every file begins with.
        group: what is read of a file at least.
        small_file: bytes of a file up to which it takes longer to open than to decode, and `FileFormat.small_files`
            decodes it; 0 where the format has no such decoder.
        encodes_small: `FileFormat.small_encoder` encodes files of few rows.
        replaces_rows: `FileFormat.row_replacer` copies what does not change.
    """

    trims_char: bool = False
    reads_windows: bool = False
    has_statistics: bool = True
    has_page_statistics: bool = False
    counts_nested: bool = True
    bounds_digits: int = 9
    timestamp_digits: int = 9
    has_clocks: bool = False
    holds_variant: bool = False
    holds_vectors: bool = False
    names_columns: bool = True
    ignores_nan: bool = False
    magic: bytes = b""
    group: str = "file"
    small_file: int = 0
    encodes_small: bool = False
    replaces_rows: bool = False


TRAITS: Mapping[str, FormatTraits] = {
    "parquet": FormatTraits(
        reads_windows=True,
        has_page_statistics=True,
        holds_variant=True,
        counts_nested=False,
        bounds_digits=6,
        magic=b"PAR1",
        group="row groups",
        small_file=128 << 10,
        encodes_small=True,
        replaces_rows=True,
    ),
    "orc": FormatTraits(
        trims_char=True, has_clocks=True, ignores_nan=True, magic=b"ORC", group="stripes", small_file=128 << 10
    ),
    "avro": FormatTraits(
        has_statistics=False, timestamp_digits=6, magic=b"Obj\x01", group="blocks", small_file=128 << 10
    ),
    "row": FormatTraits(
        reads_windows=True,
        has_statistics=False,
        holds_variant=True,
        holds_vectors=True,
        names_columns=False,
        group="blocks",
    ),
}
"""By the names of formats."""
CLOCKED = tuple(f".{name}" for name, traits in TRAITS.items() if traits.has_clocks)
"""How names of files end whose format has clocks."""


@dataclass(slots=True)
class ReadCounters:
    """What reading cost. Bytes are what was read from the storage, footers and indexes included."""

    bytes_read: int = 0
    footer_bytes: int = 0
    index_bytes: int = 0
    requests: int = 0
    rows_decoded: int = 0
    pages_read: int = 0
    pages_total: int = 0
    row_groups_read: int = 0
    notes: list[str] = field(default_factory=list)

    def read_range(self, io: FileIO, path: str, offset: int, length: int) -> bytes:
        """Bytes of a file, counted. Raises StorageError."""
        data = io.read_range(path, offset, length)
        self.bytes_read += length
        self.requests += 1
        return data

    def add(self, other: ReadCounters) -> None:
        """Sum another count into this one."""
        for name in self.__slots__:
            if name == "notes":
                self.notes.extend(other.notes)
            else:
                setattr(self, name, getattr(self, name) + getattr(other, name))


class FoundRows(NamedTuple):
    """Rows that have one of some values: their positions in the file, ascending, and which of the values each has."""

    positions: Int64s
    numbers: Int64s


class FileFormat:
    """A format: found by name or by a file's suffix.

    ``reader``: the class of its `FormatReader`, by its place in this package; it takes the arguments of `open_reader`.
    ``writer``: the class of its `FormatWriter`, which takes those of `open_writer`, and has a static method ``check``.
    """

    def __init__(self, name: str, reader: str, writer: str) -> None:
        self.name = name
        self.traits = TRAITS.get(name, _NO_TRAITS)
        self._reader, self._writer = reader, writer

    def open_reader(
        self, io: FileIO, path: str, size: int, counters: ReadCounters, hints: ReadHints | None = None
    ) -> FormatReader:
        """Open a data file; ``size`` is the manifest's file size in bytes, ``hints`` are for files that need some.

        Raises:
            CorruptFileError: not a file of this format, or a broken footer or header.
            StorageError: the file can't be read.
            UnsupportedError: it is encrypted, or compressed by an unknown codec.
        """
        reader: FormatReader = _loaded(self._reader)(io, path, size, counters, hints or ReadHints())
        return reader

    def small_files(self, fields: Sequence[DataField]) -> SmallFiles:
        """A decoder of small files' columns; only where `FormatTraits.small_file` is not 0."""
        decoder: SmallFiles = _loaded(f"{self.name}.small_files.SmallFiles")(fields)
        return decoder

    def small_encoder(self, fields: Sequence[DataField], options: Mapping[str, str]) -> SmallFileEncoder | None:
        """An encoder of files of few rows; None where the format has none. Raises as `open_writer`."""
        if not self.traits.encodes_small:
            return None
        self._check_types(fields)
        stored = self._stored(fields)
        encoder: SmallFileEncoder = _loaded(f"{self.name}.small_encoder.SmallFileEncoder")(stored, options)
        if stored is not fields:
            encoder = _loaded("vectors.VectorEncoder")(encoder, fields)
        return encoder

    def check_writer(self, fields: Sequence[DataField], options: Mapping[str, str]) -> None:
        """Raise what `open_writer` would of columns and options, without a file."""
        self._check_types(fields)
        _loaded(self._writer).check(self._stored(fields), options)

    def open_writer(
        self, io: FileIO, path: str, fields: Sequence[DataField], options: Mapping[str, str]
    ) -> FormatWriter:
        """Create a data file with these columns. ``options`` are the table's options (file.compression, …).

        Raises:
            OptionError: a value that does not parse.
            UnsupportedError: a compression, a type or a name that Java Paimon can't read in files of this format.
        """
        self._check_types(fields)
        stored = self._stored(fields)
        writer: FormatWriter = _loaded(self._writer)(io, path, stored, options)
        if stored is not fields:
            writer = _loaded("vectors.VectorWriter")(writer, fields)
        return writer

    def row_replacer(
        self,
        io: FileIO,
        file: tuple[str, int],
        fields: Sequence[DataField],
        options: Mapping[str, str],
        changed: Int64s,
    ) -> RowReplacer | None:
        """What writes a file with these columns of another one, of which some rows change; None where only
        `open_writer` does, or costs less.

        Args:
            io: reads and writes.
            file: path and bytes of the other file.
            fields: the columns, as `open_writer` takes them.
            options: the table's.
            changed: the positions of rows that change, ascending; one at least.

        Raises CorruptFileError, StorageError, OptionError.
        """
        if not self.traits.replaces_rows:
            return None
        replacer_of = _loaded(f"{self.name}.row_replacer.row_replacer")
        found: RowReplacer | None = replacer_of(io, *file, self._stored(fields), options, changed)
        return found

    def _check_types(self, fields: Sequence[DataField]) -> None:
        found = [f.name for f in fields if has_kind(f.type, Kind.VARIANT)] if not self.traits.holds_variant else ()
        if found:
            raise UnsupportedError(
                f"column {found[0]}: neither this package nor Java Paimon writes VARIANT into {self.name} files",
                hint="use file.format=parquet",
                feature="variant",
            )

    def _stored(self, fields: Sequence[DataField]) -> Sequence[DataField]:
        """The columns as new files hold them. Raises UnsupportedError: a BLOB column."""
        blob = next((column.name for column in fields if has_kind(column.type, Kind.BLOB)), None)
        if blob is not None:
            raise UnsupportedError(
                f"column {blob}: columns of type BLOB are not written here",
                hint="use Java Paimon or pypaimon",
                feature="blob",
            )
        return fields if self.traits.holds_vectors else stored_fields(fields)


@cache
def _loaded(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


_NO_TRAITS = FormatTraits()
_FORMATS = {
    "parquet": FileFormat("parquet", "parquet.reader.ParquetReader", "parquet.writer.ParquetWriter"),
    "orc": FileFormat("orc", "orc.reader.OrcReader", "orc.writer.OrcWriter"),
    "avro": FileFormat("avro", "avro.reader.AvroReader", "avro.reader.AvroWriter"),
    "row": FileFormat("row", "row.reader.RowReader", "row.writer.RowWriter"),
}
_ELSEWHERE = {
    "mosaic": "pypaimon, pypaimon-rust and Java Paimon 2 write",
    "vortex": "pypaimon with the extra vortex, and Java Paimon with paimon-vortex read",
    "lance": "pypaimon with the extra lance, and Java Paimon with paimon-lance read",
    **dict.fromkeys(("csv", "json", "text"), "Java Paimon and pypaimon-rust read"),
}
"""What reads data files of other formats, or writes those that are only read here."""
_READ_ONLY = {
    "mosaic": FileFormat("mosaic", "mosaic.MosaicReader", "plain_reader.NoWriter"),
}
_LINES = {
    name: FileFormat(name, f"lines.{place}", "plain_reader.NoWriter")
    for name, place in (("csv", "csv.CsvReader"), ("json", "json.JsonReader"), ("text", "reader.TextReader"))
}
_SUFFIXES = {"txt": "text", "jsonl": "json"}
_PACKED = (".gz", ".bz2", ".zst")


def by_name(name: str) -> FileFormat:
    """The format of that name (option ``file.format``). Raises UnsupportedError: none that is written here."""
    key = name.lower()
    found = _FORMATS.get(key)
    if found is None:
        others = f"; {_ELSEWHERE[key]} such files" if key in _ELSEWHERE else ""
        raise UnsupportedError(
            f"data files of format {key!r:.40} are not {'written' if key in _READ_ONLY else 'supported'}",
            hint=f"{', '.join(_FORMATS)} are{others}",
            feature=f"{key}-files" if key in _READ_ONLY else "other-files",
        )
    return found


def by_path(path: str) -> FileFormat:
    """The format of a data file, by its suffix: Paimon names files ``data-….<format>`` whatever the table says now.
    Raises UnsupportedError: the suffix names no format that is read here."""
    _, dot, suffix = path.rsplit("/", 1)[-1].rpartition(".")
    if not dot:
        raise UnsupportedError("a data file without a suffix has no known format", path=path)
    if suffix.lower() in _READ_ONLY:
        return _READ_ONLY[suffix.lower()]
    try:
        return by_name(suffix)
    except UnsupportedError as error:
        raise UnsupportedError(error.message, path=path, hint=error.hint, feature=error.feature) from None


def of_directory(path: str) -> FileFormat:
    """The format of a file of a format table, which may be one of lines, by its suffix. Raises UnsupportedError."""
    plain = next((path[: -len(end)] for end in _PACKED if path.lower().endswith(end)), path)
    suffix = plain.rpartition(".")[2].lower()
    found = _LINES.get(_SUFFIXES.get(suffix, suffix))
    return by_path(path) if found is None else found


def plans_groups(reader: FormatReader) -> TypeGuard[PlansGroups]:
    """Whether a reader can explain how it would read."""
    return hasattr(reader, "plan")


def prunes_parts(reader: FormatReader) -> TypeGuard[PrunesParts]:
    """Whether a reader knows bounds of parts of VARIANT values."""
    return hasattr(reader, "prune_parts")


def filters_rows(reader: FormatReader) -> TypeGuard[FiltersRows]:
    """Whether a reader filters rows while it passes over them."""
    return hasattr(reader, "read_where")


def traits_of(name: str) -> FormatTraits:
    """What a format can do, by its name or the name of a file; the least for one that is not known."""
    return TRAITS.get(name.rpartition(".")[2].lower(), _NO_TRAITS)
