"""Format tables of catalogs that keep their schemas: directories with data files alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import FileIO


class DirectoryStore(TableStore):
    """Has one schema, which is not in the directory, and no snapshots."""

    def __init__(self, io: FileIO, root: str, schema: TableSchema) -> None:
        super().__init__(io, root)
        self._given = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return (DirectoryStore, (self.io, self.root, self._given))

    def _over(self, io: FileIO, branch: str) -> TableStore:
        if branch != MAIN_BRANCH:
            raise super()._over(io, branch).no_table()
        return DirectoryStore(io, self.root, self._given)

    def latest_schema(self) -> TableSchema:
        return self._given

    def schema(self, id_: int) -> TableSchema:
        return self._given

    def schemas(self) -> list[TableSchema]:
        return [self._given]

    def latest_snapshot_id(self, refresh: bool = False) -> int | None:
        return None

    def latest_snapshot(self) -> Snapshot | None:
        return None

    @contextmanager
    def newest_ahead(self) -> Iterator[None]:
        yield
