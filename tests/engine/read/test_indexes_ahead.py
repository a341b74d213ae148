"""Indexes of a store's files: evaluated while earlier files are read, and no more of them than a limit needs."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table
from paimon_pyds.scan import Scan
from support.memory_io import MemoryIO

FILES = 12
AT_ONCE = 3


class Store(MemoryIO):
    """Files that are read by requests; ``indexes`` were requested. ``ahead``: set once more of them were than are
    evaluated together."""

    requests_at_once = AT_ONCE

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.indexes: set[str] = set()
        self.ahead = threading.Event()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.read_ranges(path, [(offset, length)])[0]

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if path.endswith(".index"):
            self.indexes.add(path)
            if len(self.indexes) > AT_ONCE:
                self.ahead.set()
        return super().read_ranges(path, ranges)


@pytest.fixture
def store() -> Store:
    """A table ``/t`` of twelve files with an index each, whose second row is red."""
    files: dict[str, bytes] = {}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string())])
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1 b"}
    table = pp.Table(create_table(MemoryIO(files), "/t", TableDefinition(from_arrow_schema(schema), (), (), options)))
    for number in range(FILES):
        table.append(pa.table([[2 * number, 2 * number + 1], ["blue", "red"]], schema=schema))
    return Store(files)


def _reds(store: Store, limit: int | None = None) -> Scan:
    return pp.Table(TableStore(store, "/t")).scan("color = 'red'", columns=["id"], limit=limit)


def test_the_next_are_evaluated_while_files_are_read(store: Store) -> None:
    batches = _reds(store).to_batches()
    first = next(batches)
    assert store.ahead.wait(60)
    rows = first["id"].to_pylist() + [row for batch in batches for row in batch["id"].to_pylist()]
    assert rows == list(range(1, 2 * FILES, 2))
    assert len(store.indexes) == FILES


def test_a_reader_that_stops_leaves_no_thread_behind(store: Store) -> None:
    batches = _reds(store).to_batches()
    next(batches)
    assert store.ahead.wait(60)
    batches.close()  # type: ignore[attr-defined]
    assert not [each.name for each in threading.enumerate() if each.name.startswith("paimon-requests")]


@pytest.mark.parametrize(("limit", "windows"), [(2, 1), (4, 2)])
def test_a_limit_needs_few(store: Store, limit: int, windows: int) -> None:
    assert _reds(store, limit).to_arrow()["id"].to_pylist() == list(range(1, 2 * limit, 2))
    assert len(store.indexes) == windows * AT_ONCE
