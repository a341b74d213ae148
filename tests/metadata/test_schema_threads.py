"""Schemas that several threads of one operation read at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage.local import LocalFileIO


class _MeetingIO(LocalFileIO):
    """Two threads read the older schema together: neither sees what the other one has read."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = Barrier(2, timeout=20)

    def read_bytes(self, path: str, *args: object, **more: object) -> bytes:
        if path.endswith("/schema-0"):
            self.barrier.wait()
        return super().read_bytes(path, *args, **more)  # type: ignore[arg-type]


def test_two_threads_that_read_an_older_schema_at_once_get_it(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT")
    table.alter(add_columns={"v": "STRING"})
    METADATA_CACHE.clear()
    store = TableStore(_MeetingIO(), str(tmp_path / "t"))
    assert store.latest_schema().id == 1
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(store.schema, [0, 0]))
    assert [schema.field_names for schema in found] == [("id",), ("id",)]
