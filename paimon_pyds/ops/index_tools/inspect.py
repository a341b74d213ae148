"""The content of index containers, without the data; and the answer of a container to a filter, evaluated as in
Java."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, Final

import numpy as np

from paimon_pyds.base.cache import ByteLimitedCache
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import AtomicType, Kind
from paimon_pyds.engine.execution.live_files import live_in, live_of, planned_live_files
from paimon_pyds.errors import CorruptFileError, OptionError, StorageError
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.container import IndexRange, parse_head
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP, key_codec
from paimon_pyds.index.source import Cursor, Window
from paimon_pyds.metadata.evolution.file_columns import plan_evolution
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.split import ReadSpec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.among import as_leaves
from paimon_pyds.sql.predicate.bind import bind_as_written
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.tree import Among, And, Const, Leaf, Or, Predicate, root_columns
from paimon_pyds.storage.byte_source import ByteSource, BytesSource

_BYTES_AT_ONCE = 1 << 20
"""Bytes that are read at a time."""


@dataclass(frozen=True, slots=True)
class IndexDump:
    """One index of a container.

    Attributes:
        container: path of the side file, or of the data file in whose manifest entry the index is embedded.
        storage: ``EMBEDDED`` or ``FILE``.
        column, index_type: empty for a container that can't be read at all.
        start, size: offset and bytes of its body in the container; -1 and 0 for an EMPTY index.
        facts: from its head, such as the number of values; ``error`` if it can't be read.
    """

    container: str
    storage: str
    column: str
    index_type: str
    start: int
    size: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        what = f"{self.index_type} of {self.column}" if self.index_type else "unreadable"
        return one_line(self, what, f"{self.size:,} bytes", f"in {self.container.rpartition('/')[2]}")


def dump_container(data: bytes, path: str, storage: str = "FILE") -> list[IndexDump]:
    """The indexes of one container.
    Raises CorruptFileError: these bytes are not a container. The facts of a single index have its own error."""
    source = BytesSource(data, path)
    return [
        IndexDump(path, storage, column, kind, r.start, r.length, {} if r.is_empty else _facts(source, kind, r))
        for column, kinds in parse_head(source).columns.items()
        for kind, r in kinds.items()
    ]


def dump_table(store: TableStore, where: str | Predicate | None = None) -> list[IndexDump]:
    """The indexes of all live files. A container that is damaged or gone is one entry with an ``error``."""
    schema = store.latest_schema()
    entries = live_in(store, schema, store.latest_snapshot(), where, "index dump")
    found: list[IndexDump] = []
    for file in planned_live_files(store, schema, entries)[1]:
        if file.index_path is not None:
            found += _dumped(file.index_path, "FILE", partial(store.io.read_bytes, file.index_path))
        elif file.embedded_index is not None:
            found += _dumped(file.path, "EMBEDDED", partial(bytes, file.embedded_index))
    return found


def _dumped(path: str, storage: str, read: Callable[[], bytes]) -> list[IndexDump]:
    try:
        return dump_container(read(), path, storage)
    except CorruptFileError as error:
        problem = error.message
    except FileNotFoundError:
        problem = "the index file is gone"
    return [IndexDump(path, storage, "", "", -1, 0, {"error": f"{problem}: `paimon-pyds index build` builds it again"})]


# ------------------------------------------------------------------------------------------------------------ facts


def _facts(source: ByteSource, kind: str, where: IndexRange) -> dict[str, Any]:
    read = _READERS.get(kind)
    if read is None:
        return {}
    try:
        return read(Window(source, where.start, where.length))
    except CorruptFileError as error:
        return {"error": error.message}


def _bloom(window: Window) -> dict[str, Any]:
    """``false_positives``: the chance that a value that is not there is taken for one that is."""
    hashes = Cursor(window).i32("numHashFunctions")
    size = window.size - 4
    parts = (window.read(4 + start, min(_BYTES_AT_ONCE, size - start)) for start in range(0, size, _BYTES_AT_ONCE))
    filled = sum(int(np.unpackbits(np.frombuffer(part, np.uint8)).sum()) for part in parts) / max(1, 8 * size)
    facts: dict[str, Any] = {"hash_functions": hashes, "bits": 8 * size, "filled": round(filled, 4)}
    if 1 <= hashes <= 2048:
        facts["false_positives"] = round(filled**hashes, 6)
    return facts


def _bitmap(window: Window) -> dict[str, Any]:
    cursor = Cursor(window)
    version, rows, values = cursor.u8("version"), cursor.i32("row count"), cursor.i32("values")
    has_null = bool(cursor.u8("has null value"))
    return {"version": version, "rows": rows, "values": values, "has_null": has_null}


def _bsi(window: Window) -> dict[str, Any]:
    reader = BsiReader(window, key_codec(AtomicType(Kind.BIGINT)), ByteLimitedCache(0))
    bounds = {"highest" if sign > 0 else "lowest": sign * part.high for sign, part in reader.parts}
    return {"rows": reader.row_count, "slices": sum(part.count for _, part in reader.parts), **bounds}


def _range_bitmap(window: Window) -> dict[str, Any]:
    header, version, rows, values = struct.unpack(">iBii", window.read(0, 13))
    dictionary = int.from_bytes(window.read(header, 4), "big", signed=True)
    return {"version": version, "rows": rows, "values": values, "dictionary_bytes": dictionary}


_READERS: Final[Mapping[str, Callable[[Window], dict[str, Any]]]] = {
    BLOOM_FILTER: _bloom,
    BITMAP: _bitmap,
    BSI: _bsi,
    RANGE_BITMAP: _range_bitmap,
}


_WITH_POSITIONS = frozenset({BITMAP, BSI, RANGE_BITMAP})


@dataclass(frozen=True, slots=True)
class _JavaAnswer:
    selection: RowSelection
    skip: bool = False


def java_answer(index: FileIndex, predicate: Predicate, row_count: int) -> str | list[int]:
    """``"REMAIN"``, ``"SKIP"``, or positions, ascending, as Java's readers answer.

    A bloom filter or an EMPTY index that excludes all rows answers SKIP, another index no positions. An AND ends at the
    first child that leaves no row, and has its answer. Where Java goes by the order of a hash table
    (indexes of one column, and conjunctions of three or more, which it groups by column) the order here is that of
    writing, and positions come first.

    Where Java 1.4 loses rows the answer is ours: floats compared with a zero, timestamps finer than their keys, IS NULL
    by a range bitmap of nothing but nulls.

    ``predicate``: bound to the file's own schema. ``row_count``: rows of the data file.
    Raises CorruptFileError: an index is damaged, or is of a file with another number of rows.
    """
    found = _tree(index, predicate, row_count)
    if found.selection.is_all:
        return "REMAIN"
    positions: list[int] = found.selection.to_array(row_count).tolist()
    return "SKIP" if found.skip else positions


def _tree(index: FileIndex, predicate: Predicate, row_count: int) -> _JavaAnswer:
    match predicate:
        case Leaf():
            return _leaf(index, predicate, row_count)
        case And(children):
            found = _JavaAnswer(RowSelection.ALL)
            for child in children:
                answer = _tree(index, child, row_count)
                found = _JavaAnswer(found.selection & answer.selection, found.skip or answer.skip)
                if found.selection.is_none:
                    break
            return found
        case Or(children):
            found = _JavaAnswer(RowSelection.NONE, skip=True)
            for child in children:
                answer = _tree(index, child, row_count)
                found = _JavaAnswer(found.selection | answer.selection, found.skip and answer.skip)
            return found
        case Among():
            return _tree(index, as_leaves(predicate), row_count)
    return _JavaAnswer(RowSelection.ALL) if predicate is Const.TRUE else _JavaAnswer(RowSelection.NONE, skip=True)


def _leaf(index: FileIndex, leaf: Leaf, row_count: int) -> _JavaAnswer:
    result = index.evaluate(leaf, row_count, extended=False)
    by_positions = any(t.index_type in _WITH_POSITIONS and t.result.is_none for t in result.trace)
    return _JavaAnswer(result.selection, result.selection.is_none and not by_positions)


def container_bytes(path: str) -> bytes:
    """The bytes of a container on this machine. Raises StorageError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise StorageError(f"can't read the container: {error.strerror}", path=path) from error


def evaluate_container(store: TableStore, path: str, filter_: str, rows: int | None = None) -> str | list[int]:
    """``"REMAIN"``, ``"SKIP"``, or the positions that a container leaves, ascending: see `java_answer`.

    ``store``: the table; the filter names its columns as they are now. A container of one of its live files is
    evaluated with the columns that this file was written under. ``rows``: rows of the data file; known where it is one
    of the table's.

    Raises:
        PredicateError: the filter does not parse, or names no column.
        OptionError: the number of rows is missing or wrong.
        CorruptFileError: the container is damaged.
    """
    schema = store.latest_schema()
    predicate = bind_as_written(parse_filter(filter_), schema.fields)
    read, file = _file_of(store, schema, path) if rows is None or schema.id else (None, None)  # else spares manifests
    if read is not None and file is not None and file.schema_id != schema.id:
        wanted = tuple(f for f in schema.fields if f.name in root_columns(predicate))
        predicate = plan_evolution(read.fields_of(file), wanted).devolve(predicate)
    if rows is None and file is None:
        raise OptionError(
            "the container belongs to no live file of the table", hint="give rows, how many its data file has"
        )
    row_count = rows if rows is not None else 0 if file is None else file.row_count
    try:
        return java_answer(FileIndex.open(BytesSource(container_bytes(path), path)), predicate, row_count)
    except CorruptFileError as error:
        if error.field != "row count":
            raise
        raise OptionError(f"rows={row_count} is wrong: {error.message}") from error


def _file_of(store: TableStore, schema: TableSchema, path: str) -> tuple[ReadSpec, PlannedFile | None]:
    """The live file whose container has this name, and how to read it; names are unique in a table."""
    name = path.replace("\\", "/").rpartition("/")[2]
    read, files = planned_live_files(store, schema, live_of(store, store.latest_snapshot()))
    found = (f for f in files if f.index_path is not None and f.index_path.rpartition("/")[2] == name)
    return read, next(found, None)
