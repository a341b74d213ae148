"""The state of a table that a row-level operation works on: its files, their deletion vectors, which may match."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import Int64s, array, pc, to_numpy
from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.options import TableOptions, check_branch, check_known, check_writable
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.commit import Overwrite, VectorPlace, vector_places
from paimon_pyds.engine.execution.writing import check_instant_writers, write_context
from paimon_pyds.engine.read.file import ROW_INDEX
from paimon_pyds.engine.scan.file_bounds import plan_with_bounds
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import pack
from paimon_pyds.engine.scan.travel import TableState, snapshots_after
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS
from paimon_pyds.errors import CommitConflictError, OptionError, UnsupportedError
from paimon_pyds.metadata.column_files import row_groups
from paimon_pyds.metadata.commit_message import CommitMessage, Guard
from paimon_pyds.metadata.deletion.vector_files import VectorFiles
from paimon_pyds.metadata.manifest import IndexEntry
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import POSTPONE_BUCKET
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Operation, Snapshot
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.tree import Const, Predicate

_ENABLED = "deletion-vectors.enabled"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold rows an operation is about; ``number`` is its row in `RowTarget.entries`. It pickles."""

    number: int
    file: PlannedFile


@dataclass(frozen=True, slots=True)
class Candidates:
    """The files that planning left for a predicate, and how to read them.

    ``spec`` reads the requested columns of the matching rows, with the row index as last column.
    """

    spec: ReadSpec
    files: tuple[Candidate, ...]
    target_size: int
    open_cost: int

    def packed(self, files: Sequence[Candidate] | None = None) -> list[tuple[Candidate, ...]]:
        """All files, or some of them, in groups of about ``source.split.target-size`` bytes: the work of a task."""
        chosen = {c.file.path: c for c in (self.files if files is None else files)}
        groups = pack([c.file for c in chosen.values()], self.target_size, self.open_cost)
        return [tuple(chosen[file.path] for file in group) for group in groups]


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows that go from one data file.

    Attributes:
        number: the file, as in `RowTarget.entries`.
        positions: the rows, live at the target's snapshot; None when the file goes as a whole.
        rows: how many live rows are meant: with files that are rewritten, less than they hold.
    """

    number: int
    positions: BitMap | None
    rows: int


@dataclass(frozen=True, slots=True)
class RowEdits:
    """All that an operation wants to do to the rows of its target.

    Attributes:
        removed: one per data file.
        messages: new data files; they are removed again when nothing comes of it.
        given: new data files that the caller had before: published too, and never removed here.
        operation: its name in the snapshot.
        deleted, updated, inserted: numbers of rows.
        reads: true for every row of the table that could have made a difference.
        unchanged: rows that made a difference and stay as they are, by file as in `RowTarget.entries`.
        extended: row groups that get files of new columns, by their anchors as in `RowTarget.entries`.
        changed_columns: the names of these columns.
        emptied: partitions of a table with a primary key that go as a whole.
        guards: further ones, for reads of other rows than those for which ``reads`` is true.
    """

    removed: Sequence[RemovedRows] = ()
    messages: Sequence[CommitMessage] = ()
    given: Sequence[CommitMessage] = ()
    operation: Operation | None = None
    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    reads: Predicate = Const.TRUE
    unchanged: Mapping[int, BitMap] = field(default_factory=dict)
    extended: frozenset[int] = frozenset()
    changed_columns: frozenset[str] = frozenset()
    emptied: Overwrite | None = None
    guards: Sequence[Guard] = ()

    @property
    def added(self) -> Sequence[CommitMessage]:
        """All new data files."""
        return (*self.messages, *self.given)

    @property
    def is_empty(self) -> bool:
        """There is nothing to publish."""
        return not self.removed and self.emptied is None and not any(m.file_count for m in self.added)


class RowTarget:
    """One snapshot of a table, pinned, as an operation on rows sees it.

    Attributes:
        schema: the table's latest schema.
        options: its options with the operation's own on top.
        uses_vectors: rows are deleted by deletion vectors; else files are rewritten without them. Where rows have a
            primary key, neither: they get new versions.
        joins: columns of one row may be in several files (data evolution).
        read_with_vectors: what the table's own options say, by which Java Paimon reads it.

    ``given``: options of this operation, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten.
    ``snapshot``: read just before: files of a schema that comes later would lose their new columns when they are
    rewritten.

    Raises:
        UnsupportedError: a table that can't be written to.
        OptionError: an unknown option, deletion vectors for a table that is not read with them, or an option that
            contradicts others or the primary key.
    """

    def __init__(self, store: TableStore, given: Mapping[str, str] | None, snapshot: Snapshot | None) -> None:
        own = {str(k): str(v) for k, v in (given or {}).items()}
        self.store = store
        self.snapshot = snapshot
        self.schema: TableSchema = store.latest_schema()
        check_known(own, own=False)
        check_branch(self.schema, store.branch, store.root, own)
        keyed = bool(self.schema.primary_keys)
        self.given = own
        self.options = TableOptions({**self.schema.options, **own})
        enabled = bool(self.options.get(_ENABLED))
        self.uses_vectors = enabled and not keyed
        self.joins = bool(self.options.get("data-evolution.enabled"))
        self.read_with_vectors = bool(TableOptions(self.schema.options).get(_ENABLED))
        if enabled > self.read_with_vectors or (keyed and enabled != self.read_with_vectors):
            raise OptionError(
                f"{_ENABLED} can't be switched {'on' if enabled else 'off'} for one operation: readers look at the "
                "table's own options",
                hint=f"alter the table: {_ENABLED} = {str(enabled).lower()}",
            )
        check_writable(self.schema, own, metadata_only=not keyed)  # a delete may get by without data files
        if keyed:
            write_context(store, own)  # refuses what other writes are refused for
            if self.options.get("postpone.merge-on-read") and self.options.get("bucket") == POSTPONE_BUCKET:
                raise UnsupportedError(
                    "rows that wait for their buckets can't be changed, and reads merge them in "
                    "(postpone.merge-on-read=true)",
                    path=store.root,
                    hint="compact the table, and give this operation the option postpone.merge-on-read=false",
                    feature="postpone",
                )

    @cached_property
    def entries(self) -> pa.RecordBatch:
        """The live data files (`ENTRY_SCHEMA`); operations name a file by its row in here."""
        return ManifestReader(self.store).live_files(self.snapshot)

    def later_snapshots(self, latest: Snapshot | None) -> list[Snapshot] | None:
        """Those that follow this one up to another; None where it does not follow from this one, or some are gone."""
        return snapshots_after(self.store, self.snapshot, latest)

    def check_schema(self, schema: TableSchema) -> None:
        """Raise CommitConflictError where columns or options are no longer those that the operation went by."""
        if schema.id != self.schema.id:
            raise self.conflict("the table's schema was changed by another commit meanwhile")

    def conflict(self, what: str) -> CommitConflictError:
        """The error for an operation that does not hold on a later snapshot."""
        return CommitConflictError(what, path=self.store.root, hint="run the operation again on the latest snapshot")

    def write_context(self, total_buckets: int | None = None) -> WriteContext:
        """What tasks need to write rows, into as many buckets as their partition has (the option's when None).
        Raises UnsupportedError: a column of a type that can't be written; and see `check_instant_writers`."""
        check_writable(self.schema, self.given)
        own = {**self.given, MISSING_COLUMNS: "null"}  # of columns that an insert clause does not name
        check_instant_writers(self.store, self.schema, own)
        if total_buckets is not None and total_buckets != int(self.options.get("bucket")):
            own["bucket"] = str(total_buckets)
        indexes = (self.snapshot and self.snapshot.index_manifest) or ""
        return WriteContext(self.store.io, self.store.root, self.store.branch, self.schema, own, index_manifest=indexes)

    def moving_context(self, total_buckets: int) -> WriteContext:
        """What tasks need to write rows that were in the table before: they keep their NULLs, and row ids if any."""
        return replace(self.write_context(total_buckets), existing_rows=True, index_manifest=None)

    # ----------------------------------------------------------------------------------------------------- vectors

    @cached_property
    def index_entries(self) -> Sequence[IndexEntry]:
        """The snapshot's index manifest."""
        if self.snapshot is None or self.snapshot.index_manifest is None:
            return ()
        return self.store.read_index_manifest(self.snapshot.index_manifest)

    @cached_property
    def vectors(self) -> VectorFiles:
        """The snapshot's deletion vectors."""
        return VectorFiles(self.store, self.schema, self.options, self.index_entries, self.entries)

    @cached_property
    def places(self) -> Mapping[str, VectorPlace]:
        """The location of the deletion vector of each data file that has one."""
        return vector_places(self.index_entries)

    def stale_indexes(self, columns: Collection[str], partitions: Collection[bytes]) -> frozenset[str]:
        """The global index files that go when columns get new values in some partitions.

        Raises UnsupportedError: there are such, and ``global-index.column-update-action`` is THROW_ERROR.
        (Source: Paimon documentation, append-table/global-index.)
        """
        ids = {field.id for field in self.schema.fields if field.name in columns}
        found = [
            entry
            for entry in self.index_entries
            if (index := entry.global_index) is not None
            and entry.partition in partitions
            and not ids.isdisjoint((index.index_field_id, *(index.extra_field_ids or ())))
        ]
        action = self.options.get("global-index.column-update-action")
        if not found or action == "ignore":
            return frozenset()
        if action == "throw_error":
            raise UnsupportedError(
                f"a global index ({found[0].index_type}) is on one of the columns {', '.join(sorted(columns))}, and "
                "global-index.column-update-action=THROW_ERROR",
                path=self.store.root,
                hint="say DROP_PARTITION_INDEX, which drops the indexes of these partitions, or IGNORE",
            )
        return frozenset(entry.file_name for entry in found)

    def live_rows(self, number: int) -> int:
        """The rows of a file that are not deleted."""
        rows: int = self.entries["row_count"][number].as_py()
        vector = self.vectors.cardinality(self.entries["partition"][number].as_py(), self.name(number))
        return rows - vector

    def removed(self, number: int, positions: BitMap) -> RemovedRows:
        """Live rows that go from a file: with vectors, and where it has others, by their positions."""
        count = len(positions)
        rest = count < self.live_rows(number)
        if rest and self.joins and not self.uses_vectors:
            raise UnsupportedError(
                "rows of a table with data-evolution.enabled=true are deleted by deletion vectors only",
                path=self.store.root,
                hint="alter the table: deletion-vectors.enabled = true",
                feature="data-evolution",
            )
        partly = self.uses_vectors and rest
        return RemovedRows(number, positions if partly else None, count)

    def group(self, number: int) -> list[int]:
        """All files that hold rows of a file, that one among them."""
        if not self.joins:
            return [number]
        return np.flatnonzero(self._groups == self._groups[number]).tolist()

    @cached_property
    def _groups(self) -> Int64s:
        return row_groups(self.entries)

    def name(self, number: int) -> str:
        """The name of a data file."""
        return str(self.entries["file_name"][number].as_py())

    # ---------------------------------------------------------------------------------------------------- planning

    def candidates(self, predicate: Predicate, fields: Sequence[DataField] = ()) -> Candidates:
        """The files that may hold matches of a predicate; partitions, buckets, statistics and indexes rule out others.

        ``predicate`` is bound to the table's columns; ``fields`` are read of such rows.
        """
        live = self.entries  # read before the plan, which then finds manifests decoded in memory
        plan = plan_with_bounds(
            self.store,
            ScanRequest(
                state=TableState(self.snapshot, self.schema),
                predicate=predicate,
                fields=tuple(fields),
                options=self.options,
                metadata_columns=(ROW_INDEX,),
                zone=zone_given(self.given),
                stored_blobs=True,
            ),
            (),
        )
        return Candidates(plan.spec, _candidates(live, plan.files), plan.target_split_size, plan.open_file_cost)


def _candidates(live: pa.RecordBatch, files: Sequence[PlannedFile]) -> tuple[Candidate, ...]:
    names = array([file.name for file in files], pa.string())
    rows = np.flatnonzero(to_numpy(pc.is_in(live["file_name"], names)))
    columns = (live[c].take(array(rows)).to_pylist() for c in ("partition", "bucket", "file_name"))
    numbers = {(p, b, name): int(row) for row, p, b, name in zip(rows, *columns, strict=True)}
    return tuple(Candidate(numbers[(*file.bucket_id, file.name)], file) for file in files)
