"""Which rows that a global index covers may match a predicate on its column."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.types import DataType
from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.index.global_index.bitmap_file import BitmapFile
from paimon_pyds.index.global_index.btree_file import BTreeFile
from paimon_pyds.index.global_index.key_bytes import global_key_codec, key_reader
from paimon_pyds.index.global_index.range_meta import KeyRange
from paimon_pyds.index.keys import Key, KeyCodec
from paimon_pyds.index.probe import Interval, Nulls, Points, Probe

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource


class IndexFile(Protocol):
    """An open index file of any type."""

    def equal_to(self, keys: Iterable[Key]) -> Int64s: ...
    def between(self, interval: Interval) -> Int64s: ...
    def blocks_of(self, interval: Interval) -> tuple[int, int]: ...
    def nulls(self) -> Int64s: ...


BTREE = "btree"
BITMAP = "bitmap"
_FILES: dict[str, Callable[[ByteSource, KeyCodec], IndexFile]] = {BTREE: BTreeFile, BITMAP: BitmapFile}
GLOBAL_INDEX_TYPES = tuple(_FILES)
"""Types of index that answer predicates, by their names in manifests."""
_GREATEST_SHARE = 0.5
"""Of the blocks of an index that an interval may read: with more, reading the column itself costs less."""
_FEW_BLOCKS = 16
"""Blocks that are read whatever their share: 1 MiB, as blocks have 64 KiB usually."""


class GlobalIndexReader:
    """One open index file of one column, over ``row_count`` rows."""

    def __init__(self, file: IndexFile, row_count: int, name: str) -> None:
        self._file, self._row_count, self._name = file, row_count, name

    def candidates(self, probe: Probe) -> Int64s | None:
        """The rows that may match: sorted ids, relative to the first row that the index covers. None: all may, or so
        many that the index does not help.

        Raises:
            CorruptFileError: the file is damaged.
            UnsupportedError: its blocks are compressed in a way that is not known here.
        """
        found = self._found(probe)
        if found is not None and len(found) and not 0 <= found[0] <= found[-1] < self._row_count:
            raise CorruptFileError(
                f"row {found[-1] if found[-1] >= self._row_count else found[0]} in an index of {self._row_count} rows",
                path=self._name,
                field="row ids",
                hint="build the index again",
            )
        return found

    def _found(self, probe: Probe) -> Int64s | None:
        match probe:
            case Points(keys, negated=False):
                return self._file.equal_to(keys)
            case Interval(negated=False):
                here, of = self._file.blocks_of(probe)
                return self._file.between(probe) if here <= max(_FEW_BLOCKS, _GREATEST_SHARE * of) else None
            case Nulls(negated=False):
                return self._file.nulls()
        return None


def open_global_index(index_type: str, source: ByteSource, column_type: DataType, row_count: int) -> GlobalIndexReader:
    """Open an index file of one column.

    Args:
        index_type: its name in the index manifest, one of `GLOBAL_INDEX_TYPES`.
        source: the bytes of the file.
        column_type: type of the column when the index was built.
        row_count: rows that the index covers, from its first to its last.

    Raises:
        CorruptFileError: this is no such file.
        UnsupportedError: a version, or a type of column, that is not supported.
    """
    opened = _FILES.get(index_type)
    if opened is None:
        raise UnsupportedError(f"global indexes of the type {index_type!r:.40} answer no predicate here")
    return GlobalIndexReader(opened(source, global_key_codec(column_type)), row_count, source.name)


def may_hold(index_type: str, bounds: KeyRange, codec: KeyCodec, probe: Probe) -> bool:
    """Whether an index file may have rows that match, by its bounds. Raises CorruptFileError: they are no keys."""
    if index_type == BITMAP and not codec.is_binary:
        return True  # pypaimon orders keys by their bytes
    match probe:
        case Nulls():
            return bounds.has_nulls or probe.negated
        case _ if probe.negated or bounds.first is None or bounds.last is None:
            return bounds.first is not None
    first, last = map(key_reader(codec), (bounds.first, bounds.last))
    if isinstance(probe, Points):
        return any(first <= key <= last for key in probe.keys)  # type: ignore[operator]
    return (probe.low is None or probe.low <= last) and (probe.high is None or first <= probe.high)  # type: ignore[operator]
