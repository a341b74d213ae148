"""Dump file indexes: what lies in a container, index by index, without the data."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from paimon_pyds.errors import CorruptFileError
from paimon_pyds.execution.live_files import live_in, planned_live_files
from paimon_pyds.index.bsi import BsiReader
from paimon_pyds.index.config import BITMAP, BLOOM_FILTER, BSI, RANGE_BITMAP
from paimon_pyds.index.container import IndexRange, parse_head
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.source import Cursor, Window
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.tree import Predicate
from paimon_pyds.storage.base import ByteSource, BytesSource
from paimon_pyds.types import AtomicType, Kind

__all__ = ["IndexDump", "dump_container", "dump_table"]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexDump:
    """One index of a container.

    Attributes:
        container: path of the side file, or of the data file in whose manifest entry the index is embedded.
        storage: ``EMBEDDED`` or ``FILE``.
        column, index_type: empty for a container that can't be read at all.
        start, size: where its body lies in the container, and its bytes; -1 and 0 for an EMPTY index.
        facts: what its head says, such as the number of values; ``error`` where it can't be read.
    """

    container: str
    storage: str
    column: str
    index_type: str
    start: int
    size: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def dump_container(data: bytes, path: str, storage: str = "FILE") -> list[IndexDump]:
    """The indexes of one container.

    Raises:
        CorruptFileError: these bytes are no container. What is wrong with a single index stands in its facts.
    """
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
    return [
        IndexDump(path, storage, "", "", -1, 0, {"error": f"{problem}: `paimon-pyds index rewrite` builds it again"})
    ]


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
    parts = (window.read(4 + start, min(_CHUNK, size - start)) for start in range(0, size, _CHUNK))
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
    reader = BsiReader(window, key_codec(AtomicType(Kind.BIGINT)))
    parts = {"highest": reader._positive, "lowest": reader._negative}
    bounds = {name: part.high if name == "highest" else -part.high for name, part in parts.items() if part is not None}
    slices = sum(part.count for part in parts.values() if part is not None)
    return {"rows": reader.row_count, "slices": slices, **bounds}


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
