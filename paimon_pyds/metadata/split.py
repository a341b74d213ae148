"""Splits: the units of reading that a plan hands to readers, on this machine or on Spark's. They pickle small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import to_numpy
from paimon_pyds.base.cache import collection_paused
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import files_text, names_text, one_line
from paimon_pyds.base.types import AtomicType, DataField, Kind, MapType, arrow_schema
from paimon_pyds.format import BATCH_BYTES, WHOLE_FILE, ReadHints
from paimon_pyds.metadata.evolution.joined_columns import JoinedColumns, joined_columns
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.sql.predicate.tree import Const, Predicate, root_columns
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.keys.merge.filter import MergeFilter
    from paimon_pyds.metadata.schema import TableSchema

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
"""Hidden columns that a read can add: the location of each row, and its ids in tables with row tracking."""


MergedRows: TypeAlias = Literal["rows", "versions", "difference", "changes"]


@dataclass(frozen=True, slots=True)
class Merging:
    """How the rows of files that may hold versions of the same rows are merged.

    Attributes:
        schema: the table's; its options say which engine merges them.
        filter: the plan's filter in two parts, for before and after.
        gives: merged rows; all versions of rows, as in files; the merged rows of newer files, unless older files give
            the same; or the changes from the merged rows of an older state to those of a newer one.
    """

    schema: TableSchema
    filter: MergeFilter
    gives: MergedRows = "rows"


class FileColumns(NamedTuple):
    """What many files are made of, where all else of a `PlannedFile` has its default.

    Attributes:
        entries: manifest entries.
        of_file: for each entry, its place among ``buckets``.
        buckets: that the files are in.
        directories: of these.
    """

    entries: pa.RecordBatch
    of_file: npt.NDArray[np.int32]
    buckets: Sequence[PartitionBucket]
    directories: Sequence[str]

    def values(self, start: int, stop: int) -> tuple[Any, ...]:
        """What `_files_of` makes some of the files of: plain values, which pickle small."""
        entries, of_file = self.entries.slice(start, stop - start), self.of_file[start:stop].tolist()
        used = {number: place for place, number in enumerate(dict.fromkeys(of_file))}
        numbers = (to_numpy(entries.column(name)).tolist() for name in _NUMBERS)
        row_ids = entries.column("first_row_id")
        return (
            [(self.buckets[number], self.directories[number]) for number in used],
            [used[number] for number in of_file],
            entries.column("file_name").to_pylist(),
            None if row_ids.null_count == len(row_ids) else row_ids.to_pylist(),
            *numbers,
        )


_NUMBERS = ("file_size", "row_count", "schema_id", "total_buckets", "max_sequence_number")


def _files_of(
    places: Sequence[tuple[PartitionBucket, str]],
    of_file: Sequence[int],
    names: Sequence[str],
    row_ids: Sequence[int | None] | None,
    *numbers: Sequence[int],
) -> tuple[PlannedFile, ...]:
    """Files by their `FileColumns.values`."""
    sizes, rows, schema_ids, totals, sequences = numbers
    columns: dict[str, Iterable[Any]] = {
        "path": [f"{places[at][1]}/{name}" for at, name in zip(of_file, names, strict=True)],
        "size": sizes,
        "row_count": rows,
        "schema_id": schema_ids,
        "bucket_id": [places[at][0] for at in of_file],
        "total_buckets": totals,
        "sequence_number": sequences,
    }
    if row_ids is not None:
        columns["first_row_id"] = row_ids
    return tuple(files_by_columns(columns))


def files_by_columns(columns: Mapping[str, Iterable[Any]]) -> Iterator[PlannedFile]:
    """Files by the names of their fields; fields without a column have their defaults.

    Very many may be made at once, and the constructor takes twice as long.
    """
    defaults = PlannedFile._field_defaults
    if unknown := columns.keys() - PlannedFile._fields:
        raise TypeError(f"a planned file has no {', '.join(sorted(unknown))}")
    ordered = [columns[name] if name in columns else repeat(defaults[name]) for name in PlannedFile._fields]
    return map(partial(tuple.__new__, PlannedFile), zip(*ordered, strict=False))


class Files:
    """The files of a plan or a split. Of many files it takes longer to make the objects than to plan, so that waits
    until somebody looks at them. They pickle as values.

    ``source``: the files, or what they are made of. ``start, stop``: those of the latter that are meant; all by
    default.
    """

    __slots__ = ("_made", "_range", "_source")

    def __init__(self, source: tuple[PlannedFile, ...] | FileColumns, start: int = 0, stop: int | None = None) -> None:
        self._source = source if isinstance(source, FileColumns) else None
        self._made = None if isinstance(source, FileColumns) else source
        count = len(source.of_file) if isinstance(source, FileColumns) else len(source)
        self._range = start, count if stop is None else stop

    @property
    def made(self) -> tuple[PlannedFile, ...]:
        """The files."""
        if self._made is None:
            assert self._source is not None
            with collection_paused():
                self._made = _files_of(*self._source.values(*self._range))
        return self._made

    def numbers(self, name: str) -> npt.NDArray[np.int64] | None:
        """A column of integers of the manifest entries; None where the files were not made of such."""
        if self._source is None:
            return None
        start, stop = self._range
        found: npt.NDArray[np.int64] = to_numpy(self._source.entries.column(name))[start:stop]
        return found

    def part(self, start: int, stop: int) -> Files:
        """Some of the files."""
        if self._source is None:
            return Files(self.made[start:stop])
        first, last = self._range
        begin = min(first + start, last)
        return Files(self._source, begin, max(begin, min(first + stop, last)))

    def first(self, limit: int) -> tuple[Files, Files]:
        """Enough files for ``limit`` rows, by the row counts that metadata has, and the other files.

        Files whose rows are merged come last, and together with all that they are merged with.
        """
        rows = self.numbers("row_count")
        if rows is not None:  # no rows of these are merged or deleted
            totals = accumulate(rows.tolist(), initial=0)
            enough = next((number for number, total in enumerate(totals) if total >= limit), len(self))
            return self.part(0, enough), self.part(enough, len(self))
        in_order = sections(sorted(self.made, key=lambda file: file.merged))
        number = 0
        while number < len(in_order) and limit > 0:
            limit -= sum(file.live_row_count or 0 for file in in_order[number])
            number += 1
        first, rest = (tuple(chain.from_iterable(part)) for part in (in_order[:number], in_order[number:]))
        return Files(first), Files(rest)

    @property
    def row_count(self) -> int:
        """Physical rows, of windows only where files have such."""
        rows = self.numbers("row_count")
        return sum(file.read_rows for file in self.made) if rows is None else sum(rows.tolist())

    @property
    def size(self) -> int:
        """About the bytes that these are of."""
        sizes = self.numbers("file_size")
        return sum(file.read_size for file in self.made) if sizes is None else sum(sizes.tolist())

    def __len__(self) -> int:
        return self._range[1] - self._range[0]

    def __eq__(self, other: object) -> bool:
        return self.made == other.made if isinstance(other, Files) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.made)

    def __repr__(self) -> str:
        return one_line(self, files_text(len(self), self.row_count, self.size))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source is None:
            return Files, (self.made,)
        return _unpickled, self._source.values(*self._range)


def _unpickled(*values: Any) -> Files:
    return Files(_files_of(*values))


class FilePlace(NamedTuple):
    """A part of a file: ``length`` bytes from ``offset`` on."""

    path: str
    offset: int
    length: int


ViewFinder: TypeAlias = "Callable[[FileIO, str, Sequence[bytes]], Mapping[bytes, FilePlace | None]]"
"""Finds the places of the BLOBs that views stand for: `engine.query.blob_views.places`."""


class BlobReferences(NamedTuple):
    """Columns whose data files have references to BLOBs, and the table and the directories that may hold these.

    ``views``: those that have views of rows of other tables. ``find_views``: see `ScanRequest`.
    """

    columns: frozenset[str]
    root: str
    external: tuple[str, ...]
    views: frozenset[str] = frozenset()
    find_views: ViewFinder | None = None


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What all splits of a plan have in common.

    ``fields`` are the table's columns to return, in order; ``filter_fields`` those the predicate needs besides.
    ``predicate`` is bound to the table's columns; `Const.TRUE`: no predicate. ``schemas`` maps schema ids to the
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
    merging: Merging | None = None
    """How rows of a table with a primary key are merged."""
    read_ahead: int | None = None
    """Bytes of a file that may be decoded ahead of the consumer; None: the file's reader decides."""
    sequence_gaps: Mapping[str, tuple[int, int]] | None = None
    """By paths of files whose sequence numbers are not read: their least and greatest number, from manifests."""
    zone: str | None = None
    """The time zone in which values of columns are cast that were given another type; None where none is named, and
    such casts are refused."""
    read_whole: int = WHOLE_FILE
    """Bytes of a file up to which it is read by one request, whatever is wanted of it."""
    batch_bytes: int = BATCH_BYTES
    """Bytes of a batch at most, about, where ``read_ahead`` is None."""
    references: BlobReferences | None = None
    """Of which columns the bytes are given in place of references to them."""
    leading: tuple[tuple[DataField, int], ...] = ()
    """In tables with a primary key, the columns that files have before those of their schema, each with the id of the
    column whose values it has once more; -1 for none."""

    def __repr__(self) -> str:
        from paimon_pyds.sql.predicate.to_sql import to_sql  # no plan of a new process needs it

        names = names_text([*(f.name for f in self.fields), *self.metadata_columns])
        where = "" if self.predicate is Const.TRUE else f"filter {to_sql(self.predicate, shorten=True)}"
        return one_line(self, f"columns [{names}]", where)

    def hints(self, file: PlannedFile) -> ReadHints:
        """What the reader of a file needs besides its path and size."""
        columns: tuple[DataField, ...] | None = None
        repeats: tuple[tuple[str, str], ...] = ()
        if self.of_directory:
            fields = self.schemas[file.schema_id]
            columns = tuple(field for field in fields if field not in self.partition_fields)
        elif file.path.endswith(".row"):
            columns, repeats = self._columns_in(file)
        return ReadHints(
            self.options or {}, file.instants, self.read_ahead, self.read_whole, self.batch_bytes, columns, repeats
        )

    @property
    def of_directory(self) -> bool:
        """Whether the table is a directory of files, without manifests: a format table."""
        return (self.options or {}).get("type") == "format-table"

    def _columns_in(self, file: PlannedFile) -> tuple[tuple[DataField, ...] | None, tuple[tuple[str, str], ...]]:
        """All columns that a file has, in its order, None where that is not known; and its `ReadHints.repeats`."""
        first = tuple(field for field, _ in self.leading)
        fields = tuple(field for field in self.schemas[file.schema_id] if field not in first)
        known = {field.name: field for field in fields} | dict(METADATA_FIELDS)
        held = file.write_cols if file.file_cols is None else file.file_cols
        names = [field.name for field in fields] if held is None else held
        if not set(names).issubset(known):
            return None, ()
        of_id = {field.id: field.name for field in fields}
        repeats = tuple((field.name, of_id[id_]) for field, id_ in self.leading if id_ in of_id)
        return (*first, *(known[name] for name in names)), repeats

    def fields_of(self, file: PlannedFile) -> tuple[DataField, ...]:
        """The columns that a file holds, under the names of its own schema; those of several under their joined
        names."""
        if file.is_joined:
            return self.joined(file).fields
        fields, held = self.schemas[file.schema_id], file.write_cols
        return fields if held is None else tuple(f for f in fields if f.name in held)

    def joined(self, file: PlannedFile) -> JoinedColumns:
        """The columns of a file that has parts."""
        held = ((self.schemas[part.schema_id], part.write_cols or ()) for part in file.parts)
        schemas, names = zip(*held, strict=True) if file.parts else ((), ())
        return joined_columns(schemas, names)

    def for_file(self, file: PlannedFile) -> ReadSpec:
        """The same with that part of the filter only that metadata does not settle for a file."""
        residual = file.residual
        if residual is None:
            return self
        needed = set(root_columns(residual))
        left = tuple(f for f in self.filter_fields if f.name in needed)
        return replace(self, predicate=residual, filter_fields=left)


def result_schema(spec: ReadSpec) -> pa.Schema:
    """The Arrow schema of the batches of a read: the requested columns, then the metadata columns."""
    if not spec.metadata_columns:
        return arrow_schema(spec.fields)
    return arrow_schema([*spec.fields, *(METADATA_FIELDS[name] for name in spec.metadata_columns)])


@dataclass(frozen=True, slots=True)
class Split:
    """Some files, to be read by one reader.

    They may be of several buckets, as a task of Spark costs more than a small bucket. But where files of a section have
    to be merged with one another (`PlannedFile.merged_with`), all of these are in one split.
    """

    spec: ReadSpec
    found: Files

    @classmethod
    def of(cls, spec: ReadSpec, files: Iterable[PlannedFile]) -> Split:
        """These files."""
        return cls(spec, Files(tuple(files)))

    def __repr__(self) -> str:
        return one_line(self, files_text(len(self.found), self.row_count, self.size))

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """The files."""
        return self.found.made

    @property
    def row_count(self) -> int:
        """Physical rows in the files, before deletions and filters."""
        return self.found.row_count

    @property
    def size(self) -> int:
        """Bytes of the data files."""
        return self.found.size


def sections(files: Iterable[PlannedFile]) -> list[list[PlannedFile]]:
    """The files, those together whose rows are merged with one another; each of the others alone."""
    found: dict[tuple[PartitionBucket | None, int] | int, list[PlannedFile]] = {}
    for number, file in enumerate(files):
        together = file.merged_with
        found.setdefault(number if together is None else together, []).append(file)
    return list(found.values())
