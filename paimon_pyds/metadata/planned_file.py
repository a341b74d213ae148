"""PlannedFile: a data file of a plan, by what metadata says of it.

A data file has three shapes: what its manifest says (`metadata.manifest.DataFile`), what a plan says (`PlannedFile`),
and what reading it showed (`read.live_rows.FileTrace`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import one_line, size_text
from paimon_pyds.errors import READ_AGAIN, expired_file
from paimon_pyds.format import InstantBounds
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.sql.predicate.tree import Predicate

if TYPE_CHECKING:
    from paimon_pyds.base.selection import RowSelection
    from paimon_pyds.index.keys import Key


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The location of the deletion vector of a data file; ``length`` is that of magic and bitmap."""

    path: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Statistics of a column in one file, in order keys (`paimon_pyds.index.keys`).

    Attributes:
        low, high: bounds of the values that are not NULL; None where they are not known.
        nulls: how many values are NULL; None where that is not known.
        attained: the bounds are values of the file, not merely beyond all of them.
        constant: every row is ``low``, or every row is NULL when that is None.
    """

    low: Key | None = None
    high: Key | None = None
    nulls: int | None = None
    attained: bool = False
    constant: bool = False


_UNKNOWN = ColumnBounds()


@dataclass(frozen=True, slots=True)
class FileBounds:
    """What metadata alone says of one file of a plan.

    Attributes:
        residual: the residual filter for its rows; None if that is the plan's whole filter.
        columns: statistics of some columns.
        embedded_index: the index container in the manifest, if any.
    """

    residual: Predicate | None
    columns: Mapping[str, ColumnBounds]
    embedded_index: bytes | None = None


@dataclass(frozen=True, slots=True)
class SortedRun:
    """The sorted run that a file of a table with a primary key belongs to.

    Attributes:
        level: 0 for files as writers leave them, then higher as they are compacted.
        key_range: the least and the greatest key, as BinaryRows; None for a file that is not sorted by key.
        merged: other files of its section may hold newer versions of its rows, or it holds rows that delete others:
            its rows are merged when they are read.
        section: numbers the sections of a bucket; no key is in two of them.
        sequence_range: the least and the greatest sequence number; None where they are not known.
        older: whether it is of the older one of two states that are compared; None where none are.
    """

    level: int
    key_range: tuple[bytes, bytes] | None
    merged: bool
    section: int = 0
    sequence_range: tuple[int, int] | None = None
    older: bool | None = None


class PlannedFile(NamedTuple):
    """One data file of a plan. Sizes in bytes; ``size`` and ``row_count`` are the whole file's.

    A tuple, as a plan may have very many: frozen dataclasses take four times as long to make.

    Attributes:
        bucket_id: its partition and bucket; ``total_buckets`` is the number of buckets of the partition, -1 if it has
            none.
        selection: the positions to read as a portable roaring bitmap, such as an embedded index left; None for all.
        index_path: its side index, which readers still have to evaluate.
        deletion: its deletion vector.
        write_cols: the columns that it holds; None for all of its schema.
        bounds: its statistics from metadata; None if the plan did not read them.
        window: first and one past the last position to read; None for the whole file.
        instants: see `scan.prune.instant_bounds`.
        run: its sorted run; None in append tables.
        ordered_by: the snapshot whose number orders its rows in place of the sequence numbers in the file; None where
            these count.
        parts: the files that hold its columns, where these are several (`metadata.column_files`): its path is that of
            the one that deletion vectors name, its size that of all; ``write_cols`` of each part are the columns that
            are read from it. See `is_joined`.
        file_cols: all columns that are in the file, where ``write_cols`` are some of them.
    """

    path: str
    size: int
    row_count: int
    schema_id: int
    bucket_id: PartitionBucket
    total_buckets: int = -1
    selection: bytes | None = None
    index_path: str | None = None
    deletion: DeletionFile | None = None
    first_row_id: int | None = None
    sequence_number: int | None = None
    write_cols: tuple[str, ...] | None = None
    bounds: FileBounds | None = None
    window: tuple[int, int] | None = None
    instants: InstantBounds = ()
    run: SortedRun | None = None
    ordered_by: int | None = None
    parts: tuple[PlannedFile, ...] = ()
    file_cols: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return one_line(
            self,
            self.name,
            size_text(self.row_count, self.size),
            f"bucket {self.bucket} of {self.total_buckets}" if self.total_buckets > 0 else "",
            "with a deletion vector" if self.deletion else "",
            f"rows {self.window[0]:,} to {self.window[1]:,}" if self.window else "",
            "merged" if self.merged else "",
            f"columns in {len(self.parts)} files" if self.parts else "",
        )

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]

    @property
    def partition(self) -> bytes:
        """The row of its partition: arity + BinaryRow."""
        return self.bucket_id.partition

    @property
    def bucket(self) -> int:
        """Its bucket."""
        return self.bucket_id.bucket

    @property
    def merged(self) -> bool:
        """Whether its rows are merged with those of other files, and are not the table's by themselves."""
        return self.run is not None and self.run.merged

    @property
    def embedded_index(self) -> bytes | None:
        """The index container that its manifest entry holds, where that is known and there is one."""
        return None if self.bounds is None else self.bounds.embedded_index

    def with_parts(self) -> Iterator[PlannedFile]:
        """This file, its parts, and theirs."""
        yield self
        for part in self.parts:
            yield from part.with_parts()

    @property
    def is_joined(self) -> bool:
        """Whether its rows are joined from `parts` with different columns. A part may have parts itself: files of some
        of the rows, the newest of which has a row's values."""
        return bool(self.parts) and self.write_cols is None

    @property
    def has_index(self) -> bool:
        """Whether it has an index, as far as is known."""
        if self.is_joined:
            return any(part.has_index for part in self.parts)
        return self.index_path is not None or self.embedded_index is not None

    @contextmanager
    def must_exist(
        self,
        during: str = "read",
        hint: str = READ_AGAIN,
    ) -> Iterator[None]:
        """Inside, a SnapshotNotFoundError is raised where the storage does not have this file any more, or one that
        belongs to it."""
        try:
            yield
        except FileNotFoundError as error:
            raise expired_file(error.filename or self.path, during=during, hint=hint) from error

    @property
    def merged_with(self) -> tuple[PartitionBucket | None, int] | None:
        """A key that files have in common whose rows are merged with each other; None if rows are not merged."""
        if self.run is None or not self.run.merged:
            return None
        return (self.bucket_id if self.run.older is None else None), self.run.section

    @property
    def residual(self) -> Predicate | None:
        """The part of the plan's filter that rows have to be looked at for; None where that is all of it."""
        return None if self.bounds is None else self.bounds.residual

    @property
    def live_row_count(self) -> int | None:
        """The number of rows that it adds to the table, by metadata: those without a deletion.

        None if it has to be read for that: the manifest does not have the number of deleted rows, or newer versions of
        some rows may be in other files.
        """
        if self.merged or (self.deletion is not None and self.deletion.cardinality is None):
            return None
        return self.row_count - (0 if self.deletion is None else self.deletion.cardinality or 0)

    @property
    def read_rows(self) -> int:
        """Physical rows of the window."""
        return self.row_count if self.window is None else self.window[1] - self.window[0]

    @property
    def read_size(self) -> int:
        """About the bytes of the window: its share of the file."""
        return self.size if self.window is None else self.size * self.read_rows // max(self.row_count, 1)

    def bounds_of(self, column: str) -> ColumnBounds:
        """The statistics of a column; unknown ones if the plan has none."""
        return _UNKNOWN if self.bounds is None else self.bounds.columns.get(column, _UNKNOWN)

    def selecting(self, rows: RowSelection) -> PlannedFile:
        """The file with only these rows to read; they must be live. Index and deletion vector are not read again."""
        bitmap = None if rows.positions is None else rows.positions.serialize()
        return self._replace(selection=bitmap, deletion=None, index_path=None, bounds=None)
