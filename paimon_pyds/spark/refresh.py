"""Newer rows on Spark 4.1 to 4.3, which plan a loaded DataFrame or view once and keep its partitions for all queries.

The first partition looks for a newer snapshot each time it is read. Where it is the only one, it reads that snapshot.
Else the other partitions read their files of the snapshot that was planned, whenever they are read: tasks can't agree
on another snapshot, and those of a cached DataFrame may belong to several queries. Then the first partition adds the
rows of later appends, up to the first snapshot that changed or removed rows, so that all partitions together give a
state that the table had. In a table with a primary key any append may change rows, so they stay at the planned one.
What the session itself has changed is not passed over: the query fails, and says to load the table again. Which tables
it has changed is a setting of the session, which Spark sends to each task of its later queries.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from paimon_pyds.errors import SnapshotNotFoundError, UnsupportedError
from paimon_pyds.metadata.paths import ALLOW, TRUST
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark import compat
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.spark.reader import PaimonReader, rows_of
from paimon_pyds.spark.state import open_state
from paimon_pyds.storage import open_file_io, options_of_store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.spark.options import ReadOptions
    from paimon_pyds.spark.state import Loaded

_log = logging.getLogger("paimon_pyds.spark")


def for_tasks(options: ReadOptions, store: TableStore | None) -> ReadOptions:
    """The options that a task needs: no more credentials than the storage takes.

    ``store`` is the table where they name one of a catalog. Tasks can't reach it: they read the snapshot files.
    """
    if options.catalog is not None and store is not None:
        stored = TableStore(store.io, store.root, store.branch, store.external)
        return replace(options, explain=None, catalog=None, store=stored, storage={})
    allowed = {key: options.storage[key] for key in (ALLOW, TRUST) if key in options.storage}
    storage = {**options_of_store(options.path, options.storage), **allowed}
    return replace(options, explain=None, storage=storage)


class RefreshingPartition(InputPartition):  # type: ignore[misc]
    """The first partition of a plan, and what it takes to plan again in a task.

    ``planned``: what it reads of the planned snapshot; None when that has nothing to read. ``alone``: whether there are
    no other partitions. ``snapshot``: the planned one; None when nothing had been committed, or where rows of another
    branch are among the planned ones. It is known by its manifest list too: after a rollback its number may come again.
    """

    def __init__(
        self,
        planned: InputPartition | None,
        alone: bool,
        snapshot: Snapshot | None,
        options: ReadOptions,
        loaded: Loaded,
    ) -> None:
        super().__init__(0)
        self.planned = planned
        self.alone = alone
        self.snapshot = None if snapshot is None else (snapshot.id, snapshot.delta_manifest_list)
        self.options = options
        self.loaded = loaded

    def __repr__(self) -> str:
        return f"RefreshingPartition({self.planned!r})"


class RefreshingReader(PaimonReader):
    """A reader whose first task looks for newer snapshots, for Spark does not plan again."""

    @clear_errors
    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read: one at least, which looks for newer snapshots."""
        first, *others = super().partitions() or [None]
        options = for_tasks(self._options, self._state.table._store)
        snapshot = None if self._scan.has_two_branches and not others else self._scan.snapshot
        planned = RefreshingPartition(first, not others, snapshot, options, self._state.loaded)
        return [planned, *others]

    def _rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RefreshingPartition):
            return _refreshed_rows(partition, self._schema)
        return rows_of(partition)


def _refreshed_rows(partition: RefreshingPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a first partition, as the table is now.

    Raises:
        NotFoundError: the table is another one than was loaded, or was rolled back.
        SchemaError: it needs a column that was dropped or changed too much since the load.
        UnsupportedError: the session itself changed rows since, and several tasks read the table.
    """
    options = partition.options
    store = options.store or TableStore(*open_file_io(options.path, options.storage), options.branch or "main")
    newest = store.latest_snapshot()
    if partition.snapshot == (None if newest is None else (newest.id, newest.delta_manifest_list)):
        parts = [partition.planned]
    elif partition.alone:
        parts = [*PaimonReader(schema, options, partition.loaded).plan()]
    else:
        parts = [partition.planned, *_appended(partition, schema, store, newest)]
    return itertools.chain.from_iterable(map(rows_of, parts))


def _appended(
    partition: RefreshingPartition, schema: StructType, store: TableStore, newest: Snapshot | None
) -> list[InputPartition]:
    """The rows of later appends.

    Raises:
        UnsupportedError: the session itself changed other rows since.
    """
    assert partition.snapshot is not None
    state = open_state(partition.options, partition.loaded)  # refuses another table at the same path
    base = partition.snapshot[0]
    last = base if state.schema.primary_keys else _appended_until(store, *partition.snapshot)
    changed = changed_at(store)
    if last < changed:
        raise UnsupportedError(
            f"rows were changed by this session in snapshot {changed}, and Spark 4.1 to 4.3 go on with the plan that "
            f"they made of this DataFrame or view at snapshot {base}",
            path=store.root,
            hint=f"load it again, or create the view again; scan.snapshot-id={base} reads the rows of before",
        )
    if newest is None or last < newest.id:
        _log.warning(
            "%s: snapshot %d is read, and there are newer ones: Spark 4.1 to 4.3 plan a DataFrame or view once; "
            "load the table again, or create the view again",
            store.root,
            last,
        )
    if last == base:
        return []
    between = {"incremental-between": f"{base},{last}", "incremental-between-scan-mode": "delta"}
    options = replace(partition.options, scan={**partition.options.scan, **between})
    return PaimonReader(schema, options, state.loaded).plan()


def _appended_until(store: TableStore, base: int, manifest_list: str) -> int:
    """The last snapshot that differs from a base only in rows that were appended."""
    try:
        before = store.snapshot(base)
    except SnapshotNotFoundError:
        return base
    if before.delta_manifest_list != manifest_list:
        raise SnapshotNotFoundError(
            f"the table was rolled back since Spark planned this DataFrame or view at snapshot {base}",
            path=store.root,
            hint="load the table again, or create the view again",
        )
    while True:
        try:
            after = store.snapshot(before.id + 1)
        except SnapshotNotFoundError:
            return before.id
        same_rows = after.commit_kind.keeps_rows
        appends = after.commit_kind is CommitKind.APPEND and after.index_manifest == before.index_manifest
        if not same_rows and not appends:
            return before.id
        before = after


def note_change(spark: SparkSession, store: TableStore, snapshot_id: int | None) -> None:
    """Have later queries of the session know that it changed rows of a table, or removed some.

    Args:
        spark: the session.
        store: the table.
        snapshot_id: the change; None when nothing was changed.
    """
    if snapshot_id is None or not compat.plans_once():
        return
    try:
        spark.conf.set(_setting(store), str(snapshot_id))
    except Exception as error:  # noqa: BLE001 - some services allow few settings; the change itself has succeeded
        _log.warning("%s: views that were made before go on with their rows: %s", store.root, error)


def changed_at(store: TableStore) -> int:
    """The last snapshot in which the session of the running task changed rows of a table; 0 when it changed none."""
    return int(compat.task_setting(_setting(store)) or 0)


def _setting(store: TableStore) -> str:
    return "spark.paimon_pyds.changed." + hashlib.sha256(f"{store.root}\n{store.branch}".encode()).hexdigest()[:16]
