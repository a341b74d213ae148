"""What readers and writers of data files offer to other rooms. Most modules need this for types only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.format import FoundRows
from paimon_pyds.sql.predicate.tree import Predicate

if TYPE_CHECKING:
    from paimon_pyds.base.selection import RowSelection
    from paimon_pyds.base.variant.parts import Path
    from paimon_pyds.sql.expression.variant_parts import PartTest


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """How one row group with wanted rows would be read.

    ``bytes`` of data would be read, of ``whole_bytes`` that the columns have in the row group.
    ``whole_columns`` are read whole, the others by ``pages`` of their ``pages_total`` pages. The two estimates, in
    microseconds, are what decided; they are None where there was no choice, and ``reason`` says why.
    """

    number: int
    rows: int
    wanted: int
    bytes: int
    whole_bytes: int
    whole_columns: tuple[str, ...] = ()
    pages: int = 0
    pages_total: int = 0
    pages_micros: float | None = None
    group_micros: float | None = None
    reason: str = ""


class FormatReader(Protocol):
    """One open data file. Methods raise CorruptFileError when it is damaged, StorageError when it can't be read, and
    UnsupportedError for what can't be decoded here."""

    row_count: int

    def groups(self) -> Sequence[tuple[int, int]]:
        """Row ranges (start, stop) that are decoded together: row groups, stripes; the whole file where unknown."""

    def prune(self, predicate: Predicate, within: RowSelection = ...) -> RowSelection:
        """Rows that may match, by the file's own statistics: a superset of what matches.

        ``predicate`` is bound to the file's columns; ``within`` has the rows that matter: the result may contain any
        others.
        """

    def bounds(self, field: DataField) -> tuple[int, int] | None:
        """The least and the greatest value of a column of integers; None if the file's statistics do not have them."""

    def find(self, field: DataField, values: pa.Array) -> FoundRows | None:
        """The rows that have one of some values in a column whose values ascend; None if only reading the column can
        find them.

        ``field`` carries the file's own name and type; ``values`` ascend, each is there once, and none is NULL.
        """

    def read(self, fields: Sequence[DataField], selection: RowSelection, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The selected rows in file order, in batches of at most ``batch_rows`` rows of `arrow_schema(fields)`, of more
        where they are held (`ReadHints.is_held`).

        ``fields`` carry the file's own names and types. A field the file does not have raises CorruptFileError.
        """

    def close(self) -> None:
        """Release the file."""


class PlansGroups(FormatReader, Protocol):
    """A reader that can explain how it would read."""

    def plan(self, fields: Sequence[DataField], selection: RowSelection) -> Iterator[GroupPlan]:
        """What `FormatReader.read` would do with each row group. Reads footers and page indexes only."""


class PrunesParts(FormatReader, Protocol):
    """A reader that knows bounds of parts of VARIANT values."""

    def prune_parts(self, tests: Sequence[PartTest], within: RowSelection) -> RowSelection:
        """As `FormatReader.prune`, by comparisons of such parts, whose ``column`` is the file's."""

    def part_places(self, column: str, paths: Sequence[Path]) -> Mapping[Path, bool]:
        """The parts of a VARIANT column of the file that have columns of their own, and whether one has all values of
        the part: then its statistics count."""


class FiltersRows(FormatReader, Protocol):
    """A reader of rows that are stored one after the other: all columns of a row are passed over to read one of it, so
    that a second visit costs as much as the first."""

    def read_where(
        self,
        first: Sequence[DataField],
        others: Sequence[DataField],
        keep: Callable[[pa.RecordBatch], pa.BooleanArray],
        selection: RowSelection,
        batch_rows: int,
    ) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        """As `FormatReader.read`, of the selected rows that match a filter.

        Args:
            first: the columns that the filter needs.
            others: further columns, which are made for the matching rows.
            keep: the filter: of a batch of the columns ``first`` it says which rows match, without NULL.
            selection: the rows that are tried.
            batch_rows: rows that are tried at a time, at most.

        Yields:
            The matching rows with all these columns, and a mask of them over the rows that were tried.
        """


class FileRows(Protocol):
    """The rows of a small file: a `pyarrow.Table`, or what is made into columns together with that of other files."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    def get_total_buffer_size(self) -> int:
        """Bytes of memory that they take, about."""

    def take(self, positions: pa.Array) -> FileRows:
        """The rows at some positions."""


class SmallFiles(Protocol):
    """Decodes some columns of many small files."""

    def decode(self, data: bytes, rows: int, path: str) -> FileRows | None:
        """All rows of a file of ``rows`` rows whose bytes are ``data``; None where only a `FormatReader` reads it."""

    def decode_all(self, data: Sequence[bytes], rows: Sequence[int], paths: Sequence[str]) -> Sequence[FileRows | None]:
        """What `decode` gives of each of several files."""

    def joined(self, tables: Sequence[Any], path: str) -> pa.RecordBatch:
        """What `decode` gave of several files as one batch of ``arrow_schema(fields)``. Raises CorruptFileError."""


class SmallFileEncoder(Protocol):
    """Encodes files of few rows that have the same columns."""

    def encode(self, batch: pa.RecordBatch, path: str) -> bytes | None:
        """A file with these rows; None where only a `FormatWriter` writes it. Raises SchemaError: as its ``write``."""


class FormatWriter(Protocol):
    """One data file being written. All methods raise StorageError when it can't be."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the schema `arrow_schema(fields)` that the writer was opened with.

        Raises:
            SchemaError: the batch has other types, or NULLs in a NOT NULL column.
            UnsupportedError: a value that the format can't hold.
        """

    @property
    def bytes_encoded(self) -> int:
        """Bytes of the file that are encoded by now, without estimates: for showing progress."""

    @property
    def bytes_written(self) -> int:
        """Encoded size so far, buffered rows estimated: for rolling by target-file-size."""

    def close(self) -> int:
        """Finish the file; its size in bytes. When that fails the file is removed."""

    def abort(self) -> None:
        """Drop the file."""


KnownValues: TypeAlias = Sequence[Sequence[tuple[pa.Array, int]]]
"""Of each column some values of rows, the least and the greatest of all among them, and how many NULLs there are
besides."""


class RowReplacer(Protocol):
    """Writes a file that differs from another one in some rows, without encoding all of it."""

    rows: Int64s
    """The rows whose values it takes, ascending: those that change, and others near them."""

    unchanged_bounds: KnownValues
    """Statistics of the other rows, where known."""

    def write(self, batches: Iterable[pa.RecordBatch], path: str) -> int:
        """Write the file; its size in bytes. On an error it is removed.

        Args:
            batches: the rows `rows`, as `FormatWriter.write` takes them.
            path: of the new file.

        Raises:
            SchemaError: as `FormatWriter.write`.
            CorruptFileError: the other file is damaged.
            StorageError: it can't be read, or the new one not be written.
        """
