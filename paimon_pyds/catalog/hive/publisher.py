"""What commits and changes of columns do in a Hive catalog: they hold the lock, and the metastore gets to know them.

(Source: Java Paimon 1.4, classes HiveCatalog and AddPartitionCommitCallback.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import replace

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.catalog.hive.client import MetastoreClient
from paimon_pyds.catalog.hive.lock import lock_of
from paimon_pyds.catalog.hive.metastore import MISSING, ChangedEntryError, Metastore, MetastoreError
from paimon_pyds.catalog.hive.table import is_partitioned, location_of, new_partitions, update_table
from paimon_pyds.catalog.identifier import Identifier
from paimon_pyds.engine.commit.publisher import FileSystemPublisher, logging_errors
from paimon_pyds.errors import PaimonError
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.partition_directories import PartitionDirectories
from paimon_pyds.metadata.paths import MAIN_BRANCH
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore

_PAUSES = Pauses(0.05, 1.0, jitter=0.5)
_TRIES = 10
"""Of changing an entry that others change, too."""


class HivePublisher(FileSystemPublisher):
    """The `SnapshotPublisher` of the file system, which holds the table's lock meanwhile, and gives the metastore
    new columns and partitions.

    ``identifier``: the table's. ``locks``: what has its lock; None where commits hold none.
    """

    def __init__(self, client: Metastore, identifier: Identifier, *, locks: MetastoreClient | None) -> None:
        self._client, self._locks = client, locks
        self._identifier = Identifier(identifier.database, identifier.table)
        self._name = (identifier.database, identifier.table)

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        is_partitioned(store.schema(snapshot.schema_id))  # refuses before anything is published
        with self._held(store):
            done = super().publish(store, snapshot, latest)
        if done:
            self._follow(store, snapshot)
        return done

    def after_publish(self, store: TableStore, snapshot: Snapshot) -> None:
        """Add those of a snapshot's partitions to the metastore that no later one has emptied."""
        self._follow(store, snapshot, is_newest=False)

    def repair(self, store: TableStore, schema: TableSchema) -> None:
        """Give the metastore the columns, options and partitions that the files have; the caller holds the lock.

        Metastores without locks let others alter the table and commit meanwhile: what they did is looked at again.
        """
        before = schema
        while True:
            self._update_columns(store, before, schema)
            before, schema = schema, store.latest_schema()
            if schema.id == before.id:
                break
        if is_partitioned(schema):
            self._settle_partitions(store, schema, set())

    def alter(self, store: TableStore, old: TableSchema, new: TableSchema) -> TableSchema | None:
        """See `SnapshotPublisher`. None when another was faster: the caller finds out.

        The metastore gets it first: it may refuse, as it does where columns change their places and types, and then
        nothing is changed. Java writes the schema first, and removes it again, when somebody may have used it.
        """
        is_partitioned(new)
        with self._held(store):
            if store.branch != MAIN_BRANCH:
                return new if store.try_create_schema(new) else None
            self._update_columns(store, old, new)
            try:
                if store.try_create_schema(new):
                    if self._locks is None:  # a repair meanwhile did not see the new schema yet
                        self._update_columns(store, old, new, anyway=False)
                    return new
            except BaseException:
                with suppress(PaimonError, OSError):
                    self._update_columns(store, new, store.latest_schema())
                raise
            self._update_columns(store, new, store.latest_schema())
            return None

    def _held(self, store: TableStore) -> AbstractContextManager[object]:
        """A context that holds the lock of the store's branch, whose name is its own, as in Java."""
        return (
            nullcontext()
            if self._locks is None
            else lock_of(self._locks, replace(self._identifier, branch=store.branch)).held()
        )

    def _update_columns(self, store: TableStore, old: TableSchema, new: TableSchema, *, anyway: bool = True) -> None:
        """Give the metastore the columns and options of a schema, over what it has otherwise of the table.
        ``anyway``: although the table has them, for its partitions may not."""

        def update() -> None:
            table = self._client.table(*self._name)
            found = None if anyway else deepcopy(table)
            update_table(self._client, table, old, new, location_of(self._client.settings, table) or store.root)
            if table == found:
                return
            unchanged = table.parameters.get("DO_NOT_UPDATE_STATS", "false").lower() == "true"
            properties = {"CASCADE": "true", "DO_NOT_UPDATE_STATS": str(unchanged).lower()}
            self._client.alter_table(*self._name, table, properties)

        Retry(_PAUSES, attempts=_TRIES).call(update, ChangedEntryError)

    def _follow(self, store: TableStore, snapshot: Snapshot, *, is_newest: bool = True) -> None:
        """Have the metastore follow a snapshot. An error is only logged, as the commit stands."""
        with logging_errors(store, f"Catalog.repair_table('{self._identifier}') names its partitions in the metastore"):
            schema = store.schema(snapshot.schema_id)
            if is_partitioned(schema):
                self._update_partitions(store, snapshot, schema, is_newest)

    def _update_partitions(self, store: TableStore, snapshot: Snapshot, schema: TableSchema, is_newest: bool) -> None:
        """Name the partitions that got rows in the metastore, and no more those whose last rows went."""
        reader = ManifestReader(store)
        entries = reader.entries(reader.delta(snapshot), ("kind", "partition"))
        added, removed = (
            set(entries.filter(pc.equal(entries["kind"], kind))["partition"].to_pylist())
            for kind in (FileKind.ADD, FileKind.DELETE)
        )
        self._add_partitions(store, schema, added if is_newest else added & _partitions_with_rows(store))
        if removed - added and snapshot.commit_kind is CommitKind.OVERWRITE:
            self._settle_partitions(store, schema, removed, removed)

    def _settle_partitions(
        self, store: TableStore, schema: TableSchema, named: set[bytes], among: set[bytes] | None = None
    ) -> None:
        """Name the partitions with rows, and no more those without. Others may commit between a look at the files and a
        request, and be faster in telling the metastore: so look again, until nothing has changed.

        ``named``: partitions that have names, as far as it is known. ``among``: the partitions that matter; None: all.
        """
        while True:
            present = _partitions_with_rows(store)
            if among is not None:
                present &= among
            if present == named:
                return
            self._add_partitions(store, schema, present - named)
            self._drop_partitions(store, schema, named - present)
            named = present

    def _drop_partitions(self, store: TableStore, schema: TableSchema, partitions: set[bytes]) -> None:
        """Name these partitions no more in the metastore."""
        for names, _ in _named(store, schema, partitions):
            try:
                self._client.drop_partition(*self._name, list(names.values()))
            except MetastoreError as error:
                if error.kind not in MISSING:
                    raise

    def _add_partitions(self, store: TableStore, schema: TableSchema, partitions: set[bytes]) -> None:
        """Name those partitions in the metastore that have no names yet."""
        if partitions:
            settings, table = self._client.settings, self._client.table(*self._name)
            named = _named(store, schema, partitions)
            parts = new_partitions(settings, table, location_of(settings, table) or store.root, named)
            self._client.add_partitions(*self._name, parts)


def _named(store: TableStore, schema: TableSchema, partitions: Iterable[bytes]) -> Iterator[tuple[dict[str, str], str]]:
    """The values of partitions as their directories have them, by column, and these directories."""
    paths = store.paths.with_options(schema.options)
    rows, directories = sorted(partitions), PartitionDirectories(store.io, schema, paths)
    directories.prepare(rows)
    for row in rows:
        yield directories.names(row), directories.of_partition(row)


def _partitions_with_rows(store: TableStore) -> set[bytes]:
    """The partitions that a branch of the table has now."""
    found = set[bytes]()
    for branch in {MAIN_BRANCH, *store.branches()}:
        other = store.for_branch(branch)
        live = ManifestReader(other).live_files(other.latest_snapshot(), ("partition",))
        found.update(pc.unique(live["partition"]).to_pylist())
    return found
