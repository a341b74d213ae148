"""An exact answer with its cost; and the answers of one file of a plan that need not read its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from paimon_pyds.base.cache import cached_property
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.engine.read.live_rows import LiveRows, file_evolution
from paimon_pyds.index.aggregate import IndexedColumn, index_columns
from paimon_pyds.index.keys import order_codec
from paimon_pyds.metadata.evolution.file_columns import same_type
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.sql.predicate.tree import Const

if TYPE_CHECKING:
    from paimon_pyds.engine.read import FileTrace

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """An exact answer, and what it took.

    Attributes:
        value: the answer.
        files_by_metadata: files that partition values, row counts and statistics answered for.
        files_by_index: files that indexes answered for; deletion vectors are read along with them.
        files_read: files of which data was read.
        bytes_read: bytes read from storage for it: indexes, deletion vectors, data; without metadata.
    """

    value: T
    files_by_metadata: int = 0
    files_by_index: int = 0
    files_read: int = 0
    bytes_read: int = 0

    @property
    def source(self) -> Literal["metadata", "index", "data"]:
        """The most costly source that was read: ``metadata``, ``index``, or ``data``."""
        return "data" if self.files_read else "index" if self.files_by_index else "metadata"


class Tally:
    """Counts what an answer takes."""

    def __init__(self, on_file: Callable[[FileTrace], None] | None = None) -> None:
        self._on_file = on_file
        self._metadata = self._index = self._read = self._bytes = 0

    def answered(self, file: IndexedFile) -> None:
        """A file was answered without its data."""
        self._bytes += file.bytes_read
        if file.has_asked_index or file.bytes_read:
            self._index += 1
        else:
            self._metadata += 1

    def count_bytes_of(self, file: IndexedFile) -> None:
        """Count the bytes of a file's indexes, which were read though its data is read too."""
        self._bytes += file.bytes_read

    def read(self, trace: FileTrace) -> None:
        """A file was read."""
        self._read += 1
        self._bytes += trace.counters.bytes_read
        if self._on_file is not None:
            self._on_file(trace)

    def left_out(self, files: int = 1) -> None:
        """Files were left out by their bounds."""
        self._metadata += files

    def answer(self, value: U) -> Answer[U]:
        """The answer with what it took."""
        return Answer(value, self._metadata, self._index, self._read, self._bytes)


class IndexedFile:
    """The answers of metadata, file indexes and the deletion vector of a file; each is read at its first use.

    ``file``: one of its files, with its residual filter and its bounds.

    Raises (every method):
        CorruptFileError: an index or the deletion vector is damaged.
        SnapshotNotFoundError: a file is gone.
    """

    def __init__(self, spec: ReadSpec, file: PlannedFile) -> None:
        self.file = file
        self.has_asked_index = False
        self._spec = spec
        self._index_bytes = 0

    @cached_property
    def _live(self) -> LiveRows:
        return LiveRows(self._spec.for_file(self.file), self.file)

    @property
    def bytes_read(self) -> int:
        """Bytes of indexes and deletion vectors read from storage. Indexes in manifests cost nothing more."""
        if "_live" not in self.__dict__:  # metadata had the answer
            return 0
        counters = self._live.trace.counters
        return counters.bytes_read - counters.index_bytes + max(self._index_bytes, self._live.index_bytes)

    @property
    def has_no_filter(self) -> bool:
        """Whether metadata says that every row matches the filter."""
        return self.file.residual is Const.TRUE

    @property
    def is_counted_by_metadata(self) -> bool:
        """Whether metadata alone has the number of rows."""
        return self.has_no_filter and self.file.live_row_count is not None

    @property
    def count_needs_no_request(self) -> bool:
        """Whether `count` reads nothing from storage."""
        return self.is_counted_by_metadata or (not self.file.has_index and self.file.deletion is None)

    def close(self) -> None:
        """Release indexes and their caches. Results that were computed remain."""
        if "_live" in self.__dict__:
            self._index_bytes = self._live.index_bytes
            self._live.close()

    def count(self) -> int | None:
        """The number of live rows that match the filter; None if the data has to be read for that."""
        if self.is_counted_by_metadata:
            return self.file.live_row_count
        rows = self.rows
        return None if rows is None else rows.count(self.file.row_count)

    @cached_property
    def _only_data_answers(self) -> bool:
        """Whether no index says which rows match the filter, so that many small files are read together."""
        return self.file.merged or not (self.has_no_filter or (self._spec.use_index and self.file.has_index))

    @property
    def rows(self) -> RowSelection | None:
        """Exactly the live rows that match the filter; None if the data has to be read for that."""
        if self._only_data_answers:
            return None
        with self._asking():
            return self._live.rows

    @property
    def candidates(self) -> RowSelection:
        """The live rows that the filter may keep."""
        with self._asking():
            return self._live.candidates

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with self.file.must_exist():
            yield
        self.has_asked_index = self.has_asked_index or bool(self._live.trace.index_results)

    def columns(self, field: DataField, index_types: tuple[str, ...]) -> list[IndexedColumn]:
        """The indexes of some types of a column, cheapest first.

        The result is empty for a column that this file holds in another type, whose indexes have no values, or that has
        the name of a map key; and for a file whose rows are merged: its indexes would count older versions.
        """
        if self.file.merged:
            return []
        live = self._live.holding(field.id)
        evolution = file_evolution(live.spec, live.file, (field,))
        source = evolution.sources[0]
        own = None if source is None else evolution.file_fields[source]
        if own is None or own.name in evolution.without_index or not same_type(own.type, field.type):
            return []
        if order_codec(field.type).codec is None:
            return []
        rows = self.file.row_count
        with self._asking():
            indexes = live.indexes
        found = [c for index in indexes for c in index_columns(index, own.name, own.type, index_types, rows)]
        self.has_asked_index = self.has_asked_index or bool(found)
        return found

    def reading_candidates(self) -> PlannedFile:
        """The file, to be read at `candidates` only: indexes and deletions are in that already."""
        return self.file if self._only_data_answers else self.file.selecting(self.candidates)
