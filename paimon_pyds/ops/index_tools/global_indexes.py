"""Global indexes of tables of data evolution: build one of a column, and drop them.

Each index file covers a range of row ids that follow one another, in one partition. (Source: Paimon documentation,
append-table/global-index; Java Paimon 2.2, class SortedGlobalIndexWriter.)
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base import progress
from paimon_pyds.base.arrays import Int64s, is_true, one_array, to_numpy
from paimon_pyds.base.options import TableOptions, check_writable
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes
from paimon_pyds.base.text import Summary, summary_text
from paimon_pyds.base.types import ArrayType, AtomicType, DataType, Kind, VectorType
from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.base.types.vectors import matrix_of
from paimon_pyds.engine.commit import Changes, Increment, commit
from paimon_pyds.engine.commit.publisher import Retries, on_newest, removing_unpublished
from paimon_pyds.engine.scan.planned_files import index_file_paths
from paimon_pyds.engine.scan.travel import snapshots_after
from paimon_pyds.errors import CommitConflictError, OptionError, UnsupportedError
from paimon_pyds.format.avro.schema import put_bytes
from paimon_pyds.index.global_index.btree_writer import write_btree
from paimon_pyds.index.global_index.key_bytes import global_key_codec
from paimon_pyds.index.global_index.range_meta import SOURCE_MEMBER, write_key_range, write_source
from paimon_pyds.index.global_index.reader import BTREE
from paimon_pyds.index.global_index.search_file import (
    FULL_TEXT,
    SEARCH_TYPES,
    VECTOR_TYPES,
    package,
    text_options,
    vector_options,
    write_texts,
    write_vectors,
)
from paimon_pyds.metadata.column_files import with_row_groups
from paimon_pyds.metadata.manifest import ROW_GROUP, GlobalIndex, IndexEntry
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.metadata.unknown_members import UnknownMember
from paimon_pyds.storage import discard

ReadRows: TypeAlias = Callable[[Snapshot, str, int, int], Iterable[pa.RecordBatch]]
"""Reads a column of rows, and their ids: of a snapshot, from one row id to another, both included."""
_PLACES = (
    "partition",
    "bucket",
    "file_name",
    "row_count",
    "first_row_id",
    "schema_id",
    "write_cols",
    "max_sequence_number",
)
_MOST_ROWS = 10_000_000
"""Rows of an index file: Java's default of btree-index.records-per-range; a larger group of rows stays together."""
_KINDS = (BTREE, *SEARCH_TYPES)
_NULLABLE_BYTES = json.dumps(["null", "bytes"])


@dataclass(frozen=True, slots=True, repr=False)
class GlobalIndexSummary(Summary):
    """What building or dropping global indexes did.

    Attributes:
        snapshot_id: the snapshot that published it; None when there was nothing to do.
        built, dropped: index files.
        rows: rows in the new files.
        index_bytes: size of the new files.
        seconds: time taken, the commit included.
    """

    snapshot_id: int | None
    built: int = 0
    dropped: int = 0
    rows: int = 0
    index_bytes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        built = f"{counted(self.built, 'index file')} of {counted(self.rows, 'row')} built" if self.built else ""
        dropped = f"{counted(self.dropped, 'index file')} dropped" if self.dropped else ""
        size = f"{human_bytes(self.index_bytes)} written" if self.index_bytes else ""
        nothing = "" if built or dropped else "nothing to do"
        return summary_text(self.snapshot_id, [nothing, built, dropped, size], self.seconds)


class RowRange(NamedTuple):
    """Rows whose ids follow one another, in one partition. ``first``, ``last``: the ids, both included."""

    partition: bytes
    first: int
    last: int

    def goes_on_at(self, partition: bytes, row_id: int) -> bool:
        """Whether a row is the next one."""
        return (self.partition, self.last + 1) == (partition, row_id)

    def split(self, rows: int) -> Iterator[RowRange]:
        """The same rows in ranges of at most ``rows`` rows."""
        for first in range(self.first, self.last + 1, rows):
            yield RowRange(self.partition, first, min(first + rows - 1, self.last))


def build_global_index(
    store: TableStore,
    column: str,
    read: ReadRows,
    *,
    kind: str = BTREE,
    rebuild: bool = False,
    options: Mapping[str, str] | None = None,
) -> GlobalIndexSummary:
    """Build an index of a column for all rows that no index of its kind covers, as one snapshot.

    ``kind``: btree, or one of `SEARCH_TYPES`. ``rebuild``: drop the indexes of this kind that the column has, and build
    one for all rows. ``options``: of the table, and of the index.

    Raises:
        OptionError: no such kind, or wrong options.
        SchemaError: no such column.
        UnsupportedError: the table is not one of data evolution, the column's type can't be indexed, or a package is
            not installed.
        CommitConflictError: other commits changed the column meanwhile, again and again.
    """
    started = time.perf_counter()

    def once(newest: Snapshot | None, retries: Retries) -> GlobalIndexSummary:
        schema = store.latest_schema()
        typed = TableOptions({**schema.options, **(options or {})})
        retries.go_by(typed)
        _check(schema, column, kind, options)
        if newest is None:
            return GlobalIndexSummary(None)
        return _Build(store, schema, column, newest, read, kind, typed, options or {}).run(rebuild=rebuild)

    return replace(on_newest(store, once, options), seconds=time.perf_counter() - started)


def drop_global_index(
    store: TableStore, column: str, *, index_type: str = BTREE, options: Mapping[str, str] | None = None
) -> GlobalIndexSummary:
    """Drop the global indexes that a column has of one type, as one snapshot. Their files stay for older snapshots.

    Raises:
        SchemaError: no such column.
        CommitConflictError: other commits replaced the indexes meanwhile, again and again.
    """
    started = time.perf_counter()

    def once(newest: Snapshot | None, retries: Retries) -> GlobalIndexSummary:
        schema = store.latest_schema()
        typed = TableOptions({**schema.options, **(options or {})})
        check_writable(schema, options, metadata_only=True)
        found = [entry for entry in _indexes_of(store, newest, schema, column) if entry.index_type == index_type]
        names = frozenset(entry.file_name for entry in found)
        done = commit(store, Changes((Increment(replaced_index_files=names),)), typed) if names else None
        return GlobalIndexSummary(None if done is None else done.id, dropped=len(names))

    return replace(on_newest(store, once, options), seconds=time.perf_counter() - started)


def _check(schema: TableSchema, column: str, kind: str, options: Mapping[str, str] | None) -> None:
    check_writable(schema, None, metadata_only=True)
    if kind not in _KINDS:
        raise OptionError(f"kind must be one of {', '.join(_KINDS)}, it is {kind!r}")
    if not TableOptions(schema.options).get("data-evolution.enabled"):
        raise UnsupportedError(
            "global indexes are for tables with data-evolution.enabled=true",
            hint="table.index.build() builds the file indexes that options name",
        )
    if column in schema.partition_keys:
        raise OptionError(f"column {column!r} is a partition column, by which files are found without an index")
    type_ = schema.field(column).type
    if kind == BTREE:
        global_key_codec(type_)
        return
    package(kind)
    of_texts = isinstance(type_, AtomicType) and type_.kind in STRING_KINDS
    of_floats = isinstance(type_, VectorType | ArrayType) and type_.element.with_nullable(True) == AtomicType(
        Kind.FLOAT
    )
    if not (of_texts if kind == FULL_TEXT else of_floats):
        raise UnsupportedError(f"a column of type {type_} can't have an index of the type {kind}")


def _indexes_of(store: TableStore, snapshot: Snapshot | None, schema: TableSchema, column: str) -> list[IndexEntry]:
    """The entries of all global indexes of one column alone."""
    id_ = schema.field(column).id
    entries = ((entry, entry.global_index) for entry in store.index_entries(snapshot))
    return [
        entry
        for entry, index in entries
        if index is not None and index.index_field_id == id_ and not index.extra_field_ids
    ]


@dataclass(frozen=True, slots=True)
class _Build:
    """Building an index of one column, of the rows of one snapshot. ``options``: of the table and those that are
    ``given`` for the index; ``written``: the paths of its files so far."""

    store: TableStore
    schema: TableSchema
    column: str
    base: Snapshot
    read: ReadRows
    kind: str
    options: TableOptions
    given: Mapping[str, str]
    written: list[str] = field(default_factory=list)

    def run(self, *, rebuild: bool) -> GlobalIndexSummary:
        there = [e for e in _indexes_of(self.store, self.base, self.schema, self.column) if e.index_type == self.kind]
        ranges = list(_ranges(self.store, self.schema, self.base, () if rebuild else there))
        if self.kind != BTREE:
            if (rows := self.options.get("global-index.row-count-per-shard")) < 1:
                raise OptionError(f"global-index.row-count-per-shard must be at least 1, it is {rows}")
            ranges = [part for range_ in ranges for part in range_.split(rows)]
        dropped = frozenset(entry.file_name for entry in there) if rebuild else frozenset()
        with removing_unpublished(lambda: discard(self.store.io, self.written)):
            entries = [
                entry
                for range_ in progress.counted(ranges, "indexing", ranges=len(ranges))
                for entry in self.write(range_)
            ]
            if not entries and not dropped:
                return GlobalIndexSummary(None)
            guard = _Guard(self.store, self.base, self.schema)
            made = Increment(index_entries=entries, replaced_index_files=dropped, guard=guard)
            done = commit(self.store, Changes((made,)), self.options)
        return GlobalIndexSummary(
            None if done is None else done.id,
            built=len(entries),
            dropped=len(dropped),
            rows=sum(entry.row_count for entry in entries),
            index_bytes=sum(entry.file_size for entry in entries),
        )

    def write(self, range_: RowRange) -> Iterator[IndexEntry]:
        """Write the index file of a range; none where it has no rows any more."""
        column = self.schema.field(self.column)
        batches = list(self.read(self.base, self.column, range_.first, range_.last))
        rows = sum(batch.num_rows for batch in batches)
        if not rows:
            return
        values = one_array(pa.chunked_array([batch.column(0) for batch in batches]))
        ids: Int64s = np.concatenate([to_numpy(batch.column(1)) for batch in batches]) - range_.first
        made = self.made(values, ids, column.type)
        if made is None:
            return
        data, meta = made
        entry = IndexEntry(
            partition=range_.partition,
            bucket=0,
            index_type=self.kind,
            file_name=f"{'vector-' * (self.kind in VECTOR_TYPES)}{self.kind}-global-index-{uuid.uuid4()}.index",
            file_size=len(data),
            row_count=rows,
            global_index=GlobalIndex(
                row_range_start=range_.first,
                row_range_end=range_.last,
                index_field_id=column.id,
                index_meta=meta,
                unknown=(_source(self.base),),
            ),
        )
        (path,) = index_file_paths(self.store, self.schema, [entry])
        self.written.append(path)
        self.store.io.write_bytes(path, data)
        yield entry

    def made(self, values: pa.Array, ids: Int64s, type_: DataType) -> tuple[bytes, bytes] | None:
        """The bytes of an index file and of what the manifest says of it; None where all values are NULL."""
        if self.kind == BTREE:
            index = write_btree(values, ids, type_)
            return b"".join(index.pieces), write_key_range(index.bounds)
        if self.kind == FULL_TEXT:
            options = text_options(self.options)
            return write_texts(ids, values, options), json.dumps(options).encode()
        there = is_true(values.is_valid())
        if not there.any():
            return None
        vectors = matrix_of(values, type_)
        if not np.isfinite(vectors).all():
            raise UnsupportedError(f"column {self.column!r} has a vector that is not finite, which no index can hold")
        options, given = (vector_options(self.kind, self.column, o) for o in (self.schema.options, self.given))
        return write_vectors(self.kind, self.column, ids[there], vectors, options | given), b"{}"


def _ranges(
    store: TableStore, schema: TableSchema, snapshot: Snapshot, indexes: Sequence[IndexEntry]
) -> Iterator[RowRange]:
    """The rows of a snapshot that are in the range of no index, in ranges of a file each."""
    reader = ManifestReader(store)
    live = reader.live(reader.manifests(snapshot), _PLACES)
    groups = with_row_groups(live, schema.fields, lambda id_: store.schema(id_).fields)
    first_of: dict[int, tuple[bytes, int, int]] = {}
    columns = (groups.column(name).to_pylist() for name in (ROW_GROUP, "partition", "first_row_id", "row_count"))
    for group, partition, first, rows in zip(*columns, strict=True):
        if first is not None and rows:
            first_of[group] = (partition, first, rows)
    covered: list[RowRange] = []
    for partition, start, end in sorted(
        (e.partition, i.row_range_start, i.row_range_end) for e in indexes if (i := e.global_index) is not None
    ):
        if covered and covered[-1].goes_on_at(partition, start):
            covered[-1] = covered[-1]._replace(last=end)
        else:
            covered.append(RowRange(partition, start, end))
    current: RowRange | None = None
    for partition, first, rows in sorted(first_of.values()):
        last = first + rows - 1
        if any(c.partition == partition and c.first <= first and last <= c.last for c in covered):
            continue
        if current is not None and current.goes_on_at(partition, first) and last - current.first < _MOST_ROWS:
            current = current._replace(last=last)
            continue
        if current is not None:
            yield current
        current = RowRange(partition, first, last)
    if current is not None:
        yield current


def _source(snapshot: Snapshot) -> UnknownMember:
    """What says of which snapshot the rows of an index are: a member that files of Java 1.4 do not have."""
    out = bytearray([2])  # the second type of the union
    put_bytes(out, write_source(snapshot.id))
    return UnknownMember(SOURCE_MEMBER, _NULLABLE_BYTES, bytes(out))


@dataclass(frozen=True, slots=True)
class _Guard:
    """The rows that were indexed must have the same values still: other commits may have appended rows."""

    store: TableStore
    base: Snapshot
    schema: TableSchema

    def check(self, latest: Snapshot | None, schema: TableSchema) -> None:
        since = snapshots_after(self.store, self.base, latest)
        if schema.id != self.schema.id or since is None or not all(map(self._adds_rows_only, since)):
            raise CommitConflictError(
                "the table was changed while the index was built",
                path=self.store.root,
                hint="build the index again",
            )

    def _adds_rows_only(self, snapshot: Snapshot) -> bool:
        reader = ManifestReader(self.store)
        removes = any(manifest.num_deleted_files for manifest in reader.delta(snapshot))
        return not removes and reader.adds_rows_only(snapshot, self.base)
