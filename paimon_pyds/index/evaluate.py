"""Asking a file's indexes which of its rows may match a predicate, and keeping them open for the next query.

The algebra is the specification's: each leaf is REMAIN (all rows), SKIP (none) or a set of positions; the indexes of
one column are AND-ed; AND intersects, OR unites, and a leaf that no index answers is REMAIN.

Index files are immutable and have unique names, so an index that stays open doesn't get stale. The cache key of a side
file is its storage and its path: a caller that reaches the storage with other credentials reads it again. The cache key
of an embedded index is all its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import NamedTuple

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataType
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.bloom import BloomReader
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.container import ContainerHead, checked, parse_head
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, KeyCodec, key_codec
from paimon_pyds.index.probe import BOUNDS, Answer, ColumnIndexes, IndexReader, Probe
from paimon_pyds.index.range_bitmap import RangeBitmapReader
from paimon_pyds.index.source import MeteredSource, Window
from paimon_pyds.sql.predicate.among import as_leaves, has_few_rows
from paimon_pyds.sql.predicate.to_sql import to_sql
from paimon_pyds.sql.predicate.tree import Among, And, ColumnRef, Computed, Const, Leaf, MapKey, Op, Or, Predicate
from paimon_pyds.storage import FileIO, forget
from paimon_pyds.storage.byte_source import ByteSource, BytesSource, FileSource

DEFAULT_CACHE_BYTES = 32 << 20
"""Bytes of bitmaps and dictionary blocks that one open container caches."""
_OBJECTS_BYTES = 8192
"""Bytes of the Python objects of a container, and of each open index, about."""
_BYTES_PER_CHECKSUM = 1024 // 4
"""Bytes of a body per byte of its checksums: a block of 1,024 bytes has one of 4."""
EMPTY = "empty"
_SHOWN_POSITIONS = 8
"""Positions of an answer that an explanation has."""

_READERS: dict[str, Callable[[ByteSource, KeyCodec, ByteLimitedCache], IndexReader]] = {
    BLOOM_FILTER: lambda source, codec, cache: BloomReader(source, codec),
    BITMAP: BitmapReader,
    BSI: BsiReader,
    RANGE_BITMAP: RangeBitmapReader,
}
_EMPTY_REMAINS = frozenset(
    {Op.IS_NULL, Op.NE, Op.NOT_IN, Op.NOT_LIKE, Op.NOT_STARTS_WITH, Op.NOT_ENDS_WITH, Op.NOT_CONTAINS}
)
_UNKNOWN = Answer(RowSelection.ALL, False)
_EVERY_ROW = Answer(RowSelection.ALL, True)
_NO_ROW = Answer(RowSelection.NONE, True)


class LeafTrace(NamedTuple):
    """The answer of one index to one leaf of the predicate; ``index_type`` is None if no index was used.

    AND-ed bounds of one column (``a >= 1 AND a < 9``) make one probe: the trace of each has the answer to all of them.
    ``bytes_read`` counts the bytes read from storage for the answer.
    """

    leaf: Leaf
    column: str
    index_type: str | None
    result: RowSelection
    bytes_read: int


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What one index of a file said to one leaf of the filter.

    Attributes:
        leaf: the leaf as SQL, in the file's own schema.
        column: the column as the index container names it.
        index: the index's type; ``empty`` when the column holds NULLs only; None when no index could answer.
        rows: how many rows it keeps of the file's ``of``.
        positions: the first few of the selected positions; empty if all rows are selected.
        strip: their distribution in the file, see `RowSelection.strip`.
        bytes_read: bytes read from storage.
    """

    leaf: str
    column: str
    index: str | None
    rows: int
    of: int
    positions: tuple[int, ...]
    strip: bytes
    bytes_read: int


def index_answers(trace: Iterable[LeafTrace], row_count: int) -> tuple[IndexAnswer, ...]:
    """What an evaluation on a file of ``row_count`` rows said to each leaf."""
    return tuple(
        IndexAnswer(
            leaf=to_sql(leaf.leaf, shorten=True),
            column=leaf.column,
            index=leaf.index_type,
            rows=leaf.result.count(row_count),
            of=row_count,
            positions=() if leaf.result.positions is None else tuple(leaf.result.positions[:_SHOWN_POSITIONS]),
            strip=leaf.result.strip(row_count),
            bytes_read=leaf.bytes_read,
        )
        for leaf in trace
    )


class IndexResult(NamedTuple):
    """The rows that may match; ``exact``: they are exactly the rows that match, deletions aside.

    ``bytes_read`` counts the bytes read from storage; the first result of an index includes its head.
    """

    selection: RowSelection
    trace: tuple[LeafTrace, ...] = ()
    exact: bool = False
    bytes_read: int = 0


@dataclass(slots=True)
class _Question:
    """One evaluation: what stays the same while the tree is walked."""

    row_count: int
    extended: bool
    trace: list[LeafTrace] = field(default_factory=list)


class FileIndex:
    """The indexes of one data file, opened once and used often.

    Heads, dictionary blocks and bitmaps are cached after they were read, up to ``cache_bytes``.
    """

    def __init__(self, source: MeteredSource, head: ContainerHead, cache_bytes: int) -> None:
        self.name = source.name
        self._source = source
        self._bodies = checked(source, head)
        self._cache = ByteLimitedCache(cache_bytes)
        self._columns: dict[str, ColumnIndexes] = {}
        self._reported = 0
        self.head = head

    @staticmethod
    def open(source: ByteSource, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> FileIndex:
        """Read the head of a container: a side file, or bytes embedded in a manifest.
        Raises CorruptFileError: this is no file-index container."""
        metered = MeteredSource(source)
        return FileIndex(metered, parse_head(metered), cache_bytes)

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are in memory."""
        return self._source.nbytes == self._source.size

    def keep(self) -> None:
        """Keep what was read of a file in a store for the next process."""
        self._source.keep()

    def reset_bytes_read(self) -> None:
        self._source.bytes_read = self._reported = 0

    @property
    def nbytes(self) -> int:
        readers = [reader for column in self._columns.values() for reader in column.readers.values()]
        checksums = (self.head.checked_bytes or 0) // _BYTES_PER_CHECKSUM
        kept = self._source.nbytes + checksums + self._cache.weight + sum(r.nbytes for r in readers)
        return kept + _OBJECTS_BYTES * (1 + len(readers))

    def reader(self, column: str, index_type: str, type_: DataType) -> IndexReader | None:
        """The open index of a column; None if it does not exist, is EMPTY, or has an unknown type.
        Raises CorruptFileError: the index is damaged."""
        found = self._indexes(column, type_)
        return None if found is None else self._reader(found, index_type)

    def _reader(self, column: ColumnIndexes, index_type: str) -> IndexReader | None:
        reader = column.readers.get(index_type)
        if reader is None:
            where = self.head.columns[column.name].get(index_type)
            if where is None or where.is_empty or index_type not in _READERS:
                return None
            window = Window(self._bodies, where.start, where.length)
            reader = column.readers[index_type] = _READERS[index_type](window, key_codec(column.type), self._cache)
        return reader

    def check_rows(self, reader: IndexReader, column: str, index_type: str, row_count: int) -> None:
        """Raises CorruptFileError when an index says that the file has another number of rows."""
        if reader.row_count is not None and reader.row_count != row_count:
            message = f"the {index_type} index of {column} is of {reader.row_count} rows, the file has {row_count}"
            raise CorruptFileError(message, path=self.name, field="row count", hint="rebuild the file index")

    def evaluate(self, predicate: Predicate, row_count: int, *, extended: bool = True) -> IndexResult:
        """Which rows may match: a superset of those that do.

        ``predicate``: bound to the file's own schema: names, types and literals are those of the file. ``extended``:
        also answer what Java's index readers leave open (prefixes, ranges by a bitmap's dictionary), and take null rows
        from the answers to <> and NOT IN. Without it answers are Java's, position by position.
        Raises CorruptFileError: an index is damaged, or is of a file with another number of rows.
        """
        question = _Question(row_count, extended)
        answer = self._tree(predicate, question)
        before, self._reported = self._reported, self.bytes_read
        return IndexResult(answer.selection, tuple(question.trace), answer.exact, self._reported - before)

    def _tree(self, predicate: Predicate, question: _Question) -> Answer:
        match predicate:
            case Leaf():
                return self._leaf((predicate,), question)
            case And(children):
                return self._and(children, question)
            case Or(children):
                return self._or(children, question)
            case Among():
                answer = self._tree(as_leaves(predicate), question)
                return Answer(answer.selection, answer.exact and has_few_rows(predicate))
            case Computed():
                return _UNKNOWN
        return _EVERY_ROW if predicate is Const.TRUE else _NO_ROW

    def _and(self, children: Sequence[Predicate], question: _Question) -> Answer:
        selection, exact = _EVERY_ROW
        for group in self._groups(children):
            answer = self._leaf(group, question) if isinstance(group, list) else self._tree(group, question)
            selection, exact = selection & answer.selection, exact and answer.exact
            if selection.is_none:
                return _NO_ROW
        return Answer(selection, exact)

    def _groups(self, children: Sequence[Predicate]) -> list[Predicate | list[Leaf]]:
        """The children, cheap ones first; the bounds of one column are a list."""
        bounds: dict[tuple[str, tuple[str | MapKey, ...]], list[Leaf]] = {}
        groups: list[Predicate | list[Leaf]] = []
        for child in children:
            if not isinstance(child, Leaf) or child.op not in BOUNDS:
                groups.append(child)
                continue
            place = child.column.name, child.column.path
            if place in bounds:
                bounds[place].append(child)
            else:
                groups.append(bounds.setdefault(place, [child]))
        if len(groups) > 1:
            groups.sort(key=lambda group: self._cost(group[0] if isinstance(group, list) else group))
        return groups

    def _or(self, children: Sequence[Predicate], question: _Question) -> Answer:
        selection, exact = _NO_ROW
        for child in sorted(children, key=self._cost):
            answer = self._tree(child, question)
            selection = answer.selection if selection.is_none else selection | answer.selection
            exact = exact and answer.exact
            if selection.is_all:
                break
        return Answer(selection, exact)

    def _cost(self, predicate: Predicate) -> int:
        """A rough cost that orders leaves, cheap ones first: an early answer spares the rest."""
        if isinstance(predicate, Leaf):
            column = self._indexes_of(predicate.column)
            return 0 if column is None else column.cost(predicate.op)
        return 0 if isinstance(predicate, Const) else 4

    def _indexes_of(self, ref: ColumnRef) -> ColumnIndexes | None:
        """The indexes of a column; None if it has no index."""
        name, type_ = _container_column(ref) if ref.path else ref.name, ref.type
        return None if name is None or type_ is None else self._indexes(name, type_)

    def _indexes(self, name: str, type_: DataType) -> ColumnIndexes | None:
        column = self._columns.get(name)
        if column is None or (column.type is not type_ and column.type != type_):
            ranges = self.head.columns.get(name)
            if not ranges:
                return None
            column = self._columns[name] = ColumnIndexes(name, type_, ranges)
        return column

    def _leaf(self, leaves: Sequence[Leaf], question: _Question) -> Answer:
        """The rows that may match a leaf, or all of several bounds of one column."""
        column = self._indexes_of(leaves[0].column)
        if column is None:
            return self._note(leaves, str(leaves[0].column), None, _UNKNOWN, question)
        if column.is_empty and leaves[0].op not in _EMPTY_REMAINS:
            return self._note(leaves, column.name, EMPTY, _NO_ROW, question)
        probe = column.probe(leaves, question.extended)
        index_types = column.types_for(probe)
        if probe is None or not index_types:
            return self._note(leaves, column.name, None, _UNKNOWN, question)
        selection, exact = _UNKNOWN
        for index_type in index_types:
            answer = self._ask_index(leaves, column, index_type, probe, question)
            if answer is None:
                continue
            selection, exact = selection & answer.selection, exact or answer.exact
            if selection.is_none or (exact and question.extended):
                break
        return Answer(selection, exact)

    def _ask_index(
        self, leaves: Sequence[Leaf], column: ColumnIndexes, index_type: str, probe: Probe, question: _Question
    ) -> Answer | None:
        before = self._source.bytes_read
        reader = self._reader(column, index_type)
        if reader is None:
            return None
        if reader.row_count != question.row_count:
            self.check_rows(reader, column.name, index_type, question.row_count)
        answer = reader.answer(probe, extended=question.extended)
        self._note(leaves, column.name, index_type, answer or _UNKNOWN, question, self._source.bytes_read - before)
        return answer

    def _note(
        self,
        leaves: Sequence[Leaf],
        column: str,
        index_type: str | None,
        answer: Answer,
        question: _Question,
        bytes_read: int = 0,
    ) -> Answer:
        """Note an answer to these leaves; what was read counts for the first."""
        for leaf in leaves:
            question.trace.append(LeafTrace(leaf, column, index_type, answer.selection, bytes_read))
            bytes_read = 0
        return answer


def _container_column(column: ColumnRef) -> str | None:
    """The column's name in a container; None for places that no index can be of."""
    if not column.path:
        return column.name
    step = column.path[0]
    if len(column.path) == 1 and isinstance(step, MapKey) and isinstance(step.key, str):
        return f"{column.name}[{step.key}]"
    return None


OPEN_INDEXES = ByteLimitedCache(64 << 20, at_random=True)
"""Open indexes that no thread uses now: an index is used by one at a time."""

if hasattr(os, "register_at_fork"):  # connections to an object store don't work in a child
    os.register_at_fork(after_in_child=OPEN_INDEXES.clear)


def open_side_index(io: FileIO, path: str, start: tuple[bytes, int] | None = None) -> AbstractContextManager[FileIndex]:
    """The indexes in a side file, opened or still open. Their ``bytes_read`` count from here on.

    ``start``: the file's first bytes and its size, if they were read before.

    Raises:
        CorruptFileError: this is no file-index container.
        FileNotFoundError: there is no such file.
        StorageError: it can't be read.
    """
    return _opened((io, path), lambda: FileSource(io, path, immutable=True, start=start), lambda: forget(io, path))


def is_known(io: FileIO, path: str) -> bool:
    """Whether the indexes in a side file are open, or the file's start is cached."""
    from paimon_pyds.storage.range_cache import RANGE_CACHE

    return OPEN_INDEXES.get((io, path)) is not None or RANGE_CACHE.get(io, path) is not None


def is_held(io: FileIO, path: str) -> bool:
    """Whether all bytes of such a file are in memory."""
    from paimon_pyds.storage.range_cache import CachedRanges

    index: FileIndex | None = OPEN_INDEXES.get((io, path))
    return (index is not None and index.is_whole) or CachedRanges(io, path).has_all


def open_embedded_index(data: bytes, data_file: str) -> AbstractContextManager[FileIndex]:
    """The indexes in a manifest entry, opened or still open; ``data_file`` is for messages.

    Raises CorruptFileError: this is no file-index container."""
    return _opened((data, data_file), lambda: BytesSource(data, f"{data_file} (embedded index)"), lambda: None)


@contextmanager
def _opened(key: Hashable, source: Callable[[], ByteSource], damaged: Callable[[], None]) -> Iterator[FileIndex]:
    index: FileIndex | None = OPEN_INDEXES.take(key)
    try:
        if index is None:
            index = FileIndex.open(source())
        yield index
    except CorruptFileError:  # a damaged file may be replaced by a copy of what it was
        damaged()
        raise
    index.keep()
    index.reset_bytes_read()
    OPEN_INDEXES.put(key, index, index.nbytes)
