"""Splits: the units of reading that a plan hands to readers, on this machine or on Spark's. They pickle small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from paimon_pyds.formats.base import InstantBounds, ReadHints
from paimon_pyds.predicate.tree import Const, Predicate
from paimon_pyds.storage.base import FileIO
from paimon_pyds.types import AtomicType, DataField, Kind, MapType, arrow_schema

__all__ = ["METADATA_FIELDS", "DeletionFile", "FileTask", "ReadSpec", "Split", "result_schema"]

_STRING = AtomicType(Kind.VARCHAR, length=2_147_483_647, nullable=False)
_LONG = AtomicType(Kind.BIGINT, nullable=False)

METADATA_FIELDS: Mapping[str, DataField] = {
    "__paimon_file_path": DataField(2147483547, "__paimon_file_path", _STRING),
    "__paimon_row_index": DataField(2147483546, "__paimon_row_index", _LONG),
    "__paimon_partition": DataField(
        2147483545, "__paimon_partition", MapType(key=_STRING, value=_STRING.with_nullable(True), nullable=False)
    ),
    "__paimon_bucket": DataField(2147483544, "__paimon_bucket", AtomicType(Kind.INT, nullable=False)),
    "_ROW_ID": DataField(2147483642, "_ROW_ID", AtomicType(Kind.BIGINT)),
    "_SEQUENCE_NUMBER": DataField(2147483646, "_SEQUENCE_NUMBER", AtomicType(Kind.BIGINT)),
}
"""Hidden columns that a read can add: where each row lies, and its ids in tables with row tracking."""


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where the deletion vector of a data file lies; ``length`` is that of magic and bitmap."""

    path: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class FileTask:
    """One data file to read.

    ``selection`` is the portable roaring bitmap of the positions that an embedded index kept, None for all rows;
    ``index_path`` names a side index that the reader still has to ask; ``window`` are the first and one past the last
    position to read, None for the whole file. Sizes in bytes; ``size`` and ``row_count`` are the whole file's.
    ``instants``: see `scan.instants`.
    """

    path: str
    size: int
    row_count: int
    schema_id: int
    partition: bytes
    bucket: int
    selection: bytes | None = None
    index_path: str | None = None
    deletion: DeletionFile | None = None
    first_row_id: int | None = None
    sequence_number: int | None = None
    write_cols: tuple[str, ...] | None = None
    window: tuple[int, int] | None = None
    instants: InstantBounds = ()

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]

    @property
    def read_rows(self) -> int:
        """Physical rows of the window."""
        return self.row_count if self.window is None else self.window[1] - self.window[0]

    @property
    def read_size(self) -> int:
        """About the bytes of the window: its share of the file."""
        return self.size if self.window is None else self.size * self.read_rows // max(self.row_count, 1)


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What all splits of a plan have in common.

    ``fields`` are the table's columns to return, in order; ``filter_fields`` those the predicate needs besides.
    ``predicate`` is bound to the table's columns; `Const.TRUE` when there is none. ``schemas`` maps schema ids to the
    columns that files of that schema have.
    """

    io: FileIO
    schemas: Mapping[int, tuple[DataField, ...]]
    fields: tuple[DataField, ...]
    filter_fields: tuple[DataField, ...] = ()
    predicate: Predicate = Const.TRUE
    metadata_columns: tuple[str, ...] = ()
    partition_fields: tuple[DataField, ...] = ()
    options: Mapping[str, str] | None = None
    use_index: bool = True

    def hints(self, task: FileTask) -> ReadHints:
        """What the reader of a file has to be told."""
        return ReadHints(self.options or {}, task.instants)


def result_schema(spec: ReadSpec) -> pa.Schema:
    """The Arrow schema of the batches that reading gives: the columns asked for, then the metadata columns."""
    return arrow_schema([*spec.fields, *(METADATA_FIELDS[name] for name in spec.metadata_columns)])


@dataclass(frozen=True, slots=True)
class Split:
    """Some files, to be read one after the other by one reader."""

    spec: ReadSpec
    tasks: tuple[FileTask, ...]

    @property
    def row_count(self) -> int:
        """Physical rows in the files, before deletions and filters."""
        return sum(task.read_rows for task in self.tasks)

    @property
    def size(self) -> int:
        """Bytes of the data files."""
        return sum(task.read_size for task in self.tasks)
