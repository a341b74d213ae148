"""The Hive catalog: a Hive metastore names databases and tables as Java Paimon keeps them, for Hive, Spark and Flink.

A table's schema is that of its files; the metastore has a copy of its columns and options for others to see, and with
``metastore.partitioned-table`` its partitions. With ``lock.enabled``, which is the default where the warehouse is an
object store, commits hold a lock of the metastore meanwhile, as Java's do.
(Source: Java Paimon 1.4, classes HiveCatalog, HiveCatalogLock and AddPartitionCommitCallback.)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from paimon_pyds.base.arrays import pc
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.retry import Pauses, Retry
from paimon_pyds.base.secrets import redact
from paimon_pyds.catalog.hive_client import (
    MetastoreClient,
    MetastoreError,
    UnansweredRequestError,
    host_name,
    structs,
    user_name,
)
from paimon_pyds.catalog.hive_settings import HiveSettings, storage_options
from paimon_pyds.catalog.hive_table import (
    VIEW,
    database_location,
    format_schema,
    is_external,
    is_paimon,
    is_partitioned,
    location_of,
    new_database,
    new_partitions,
    new_table,
    update_table,
    wants_external,
)
from paimon_pyds.catalog.identifier import DEFAULT_DATABASE, Identifier
from paimon_pyds.engine.commit.publisher import FileSystemPublisher, logging_errors
from paimon_pyds.errors import (
    AlreadyExistsError,
    CommitError,
    CommitOutcomeUnknownError,
    DatabaseNotFoundError,
    OptionError,
    PaimonError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.directory_store import DirectoryStore
from paimon_pyds.metadata.manifest import FileKind
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.paths import MAIN_BRANCH, ExternalPaths, names_of_partitions, partition_directories
from paimon_pyds.metadata.schema import TableSchema, schema_digest
from paimon_pyds.metadata.snapshot import CommitKind, Snapshot
from paimon_pyds.metadata.store import TableStore, cache_of
from paimon_pyds.ops.ddl.create import TableDefinition, create_table, remove_table, table_schema, unmake
from paimon_pyds.storage import FileIO, Lockable, normalise_location, open_file_io, options_of_store, scheme_of

_log = logging.getLogger("paimon_pyds.catalog")
_NO_OBJECT_STORES = ("file", "hdfs", "viewfs")
_BEAT_SECONDS = 60.0
"""Between signs of life of a lock: a metastore removes one after 300 seconds without, by default."""
_MISSING = ("NoSuchObjectException", "UnknownDBException", "UnknownTableException")


class HiveBackend:
    """The `CatalogBackend` of a Hive metastore.

    ``options``: those of `paimon_pyds.catalog.hive_settings`, and of the storage.
    Raises OptionError: an option is missing; UnsupportedError: a metastore that is not supported.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = HiveSettings.of(options)
        self._storage = storage_options(options)
        given = self._settings.warehouse
        self._io, self.warehouse = open_file_io(given, self._storage)
        self._root = f"file:{self.warehouse}" if scheme_of(self.warehouse) == "file" else given.rstrip("/")
        locked = self._settings.lock
        self._locks = scheme_of(self.warehouse) not in _NO_OBJECT_STORES if locked is None else locked
        self._client = MetastoreClient(self._settings)

    # ---------------------------------------------------------------------------------------------------- databases

    def databases(self) -> list[str]:
        return sorted(self._client.call("get_all_databases"))

    def has_database(self, name: str) -> bool:
        return self._found_database(name) is not None

    def create_database(self, name: str) -> None:
        location = f"{self._root}/{name}.db"
        if self._settings.in_properties:
            io, path = self._at(location)
            io.make_dir(path)
        try:
            self._client.call("create_database", new_database(self._settings, name, location), again=False)
        except MetastoreError as error:
            if error.kind == "AlreadyExistsException":
                raise AlreadyExistsError(f"database {name} already exists", path=self._client.uri) from error
            raise
        except UnansweredRequestError:
            if not self.has_database(name):
                raise

    def drop_database(self, name: str) -> None:
        if name == DEFAULT_DATABASE:
            raise OptionError("the database default can't be dropped", hint="drop its tables instead")
        found = self._existing_database(name)
        foreign = [
            table.tableName for table in self._tables(name) if table.tableType != VIEW and not self._shows(table)
        ]
        if foreign:
            raise OptionError(
                f"database {name} has tables of other kinds than Paimon's, such as {min(foreign)}",
                hint="drop them by Hive first",
            )
        if self._settings.in_properties:
            io, path = self._at(self._place_of(name, found))
            io.delete_tree(path)
        try:
            self._client.call("drop_database", name, True, True, again=False)
        except UnansweredRequestError:
            if self.has_database(name):
                raise

    def missing_hint(self) -> str | None:
        return None

    def _found_database(self, name: str) -> Any:
        """What the metastore has of a database; None without it."""
        try:
            return self._client.call("get_database", name)
        except MetastoreError as error:
            if error.kind in _MISSING:
                return None
            raise

    def _existing_database(self, name: str) -> Any:
        found = self._found_database(name)
        if found is None:
            raise DatabaseNotFoundError(f"there is no database {name}", path=self._client.uri)
        return found

    def _place_of(self, name: str, database: Any) -> str:
        """Where the tables of a database go."""
        return database_location(self._settings, database) or f"{self._root}/{name}.db"

    # ------------------------------------------------------------------------------------------------------- tables

    def tables(self, database: str) -> list[str]:
        return sorted(table.tableName for table in self._tables(database) if self._shows(table))

    def views(self, database: str) -> list[str]:
        return sorted(self._client.call("get_tables_by_type", database, "*", VIEW))

    def path(self, identifier: Identifier) -> str:
        table = self._found(identifier)
        if table is not None:
            return normalise_location(self._location(identifier, table))
        database = self._existing_database(identifier.database)
        return normalise_location(f"{self._place_of(identifier.database, database)}/{identifier.table}")

    def store(self, identifier: Identifier) -> TableStore:
        table = self._existing(identifier)
        location, branch = self._location(identifier, table), identifier.branch or MAIN_BRANCH
        if not is_paimon(table):
            io, path = self._at(location)
            schema = format_schema(table)
            if schema is None:  # it was another table when it was looked for
                raise self._missing(identifier)
            return DirectoryStore(io, path, schema).for_branch(branch)
        io, path = self._at(location, identifier)
        if not _is_table(io, path):
            raise self._missing(identifier, path)
        return self._store(io, path, identifier).for_branch(branch)

    def create_table(self, identifier: Identifier, definition: TableDefinition) -> TableStore:
        schema = table_schema(definition)
        if schema.options.get("type", "table") == "format-table":
            raise UnsupportedError(
                "format tables are not made in a Hive metastore",
                hint="make it by Hive or Java",
                feature="format-tables",
            )
        is_partitioned(schema)
        database = self._existing_database(identifier.database)
        external = wants_external(self._settings, schema.options)
        location = schema.options.get("path") or f"{self._place_of(identifier.database, database)}/{identifier.table}"
        if scheme_of(location) == "file":
            location = f"file:{normalise_location(location)}"
        io, path = self._at(location, identifier)
        self._check_free(identifier)
        entry = new_table(self._client, (identifier.database, identifier.table), schema, location, external=external)
        with self._locked(identifier):
            registers = external and _is_table(io, path)
            store = self._store(io, path, identifier)
            if registers:
                schema = _registered(store, schema, definition)
                entry = new_table(
                    self._client, (identifier.database, identifier.table), schema, location, external=external
                )
            else:
                create_table(io, path, definition)
                schema = store.latest_schema()
        try:
            self._register(identifier, entry)
        except BaseException:
            if not registers:
                with suppress(PaimonError, OSError):
                    unmake(io, path, schema_digest(schema))
            raise
        return store

    def drop_table(self, identifier: Identifier) -> None:
        table = self._existing(identifier)
        location, external = self._location(identifier, table), is_external(table)
        io, path = self._at(location, identifier)
        self._forget(identifier, deletes=not external)
        if not external:  # Java does it, too: a metastore may not reach the storage
            remove_table(io, path)

    def take_back(self, identifier: Identifier, io: FileIO, root: str, digest: str) -> None:
        with self._locked(identifier):  # as commits are
            table = self._found(identifier)
            if table is None or normalise_location(self._location(identifier, table)) != root:
                return
            if unmake(io, root, digest):
                self._forget(identifier, deletes=False)

    def rename_table(self, identifier: Identifier, new: Identifier) -> None:
        names = sorted((identifier, new), key=str)  # so that two renames don't wait for one another
        with ExitStack() as locks:
            for name in names:
                locks.enter_context(self._locked(name))
            self._check_free(new)
            table = self._existing(identifier)
            before = self._location(identifier, table)
            table.dbName, table.tableName = new.database, new.table
            self._rename(identifier, new, table)
            after = self._location(new, self._existing(new))
            io, path = self._at(before)
            other, target = self._at(after)
            # A metastore moves the files of some tables itself.
            if not is_external(table) and path != target and _is_table(io, path):
                other.make_dir(target.rpartition("/")[0])
                io.rename(path, target)

    def _tables(self, database: str) -> Iterator[Any]:
        """What the metastore has of all tables and views of a database."""
        names, batch = self._client.call("get_all_tables", database), self._settings.batch
        for start in range(0, len(names), batch):
            wanted = names[start : start + batch]
            request = structs().GetTablesRequest(dbName=database, tblNames=wanted)
            answer = self._client.call_first(
                [("get_table_objects_by_name_req", [request]), ("get_table_objects_by_name", [database, wanted])]
            )
            yield from getattr(answer, "tables", answer)

    def _shows(self, table: Any) -> bool:
        """Whether a table of the metastore is one of this catalog."""
        if is_paimon(table):
            return True
        try:
            return self._settings.format_tables and format_schema(table) is not None
        except UnsupportedError:  # a column of a type that Paimon lacks
            return False

    def _found(self, identifier: Identifier) -> Any:
        """What the metastore has under a name, be it a view or another's table; None without it."""
        request = structs().GetTableRequest(dbName=identifier.database, tblName=identifier.table)
        try:
            answer = self._client.call_first(
                [("get_table_req", [request]), ("get_table", [identifier.database, identifier.table])]
            )
        except MetastoreError as error:
            if error.kind in _MISSING:
                return None
            raise
        return getattr(answer, "table", answer)

    def _existing(self, identifier: Identifier) -> Any:
        """What the metastore has of a table of this catalog. Raises TableNotFoundError."""
        table = self._found(identifier)
        if table is None or not self._shows(table):
            raise self._missing(identifier)
        return table

    def _missing(self, identifier: Identifier, path: str | None = None) -> TableNotFoundError:
        what = f"database {identifier.database} has no table {identifier.table}"
        return TableNotFoundError(what, path=path or self._client.uri)

    def _check_free(self, identifier: Identifier) -> None:
        """Raise AlreadyExistsError where the metastore has something of this name."""
        table = self._found(identifier)
        if table is None:
            return
        what = "view" if table.tableType == VIEW else "table"
        kind = "" if self._shows(table) or what == "view" else ", of another kind than Paimon's,"
        raise AlreadyExistsError(f"{what} {identifier}{kind} already exists", path=self._client.uri)

    def _location(self, identifier: Identifier, table: Any) -> str:
        location = location_of(self._settings, table)
        return (
            location
            or f"{self._place_of(identifier.database, self._existing_database(identifier.database))}/{identifier.table}"
        )

    def _register(self, identifier: Identifier, table: Any) -> None:
        """Have the metastore name a table."""
        try:
            self._client.call("create_table", table, again=False)
        except MetastoreError as error:
            if error.kind == "AlreadyExistsException":
                raise AlreadyExistsError(f"table {identifier} already exists", path=self._client.uri) from error
            raise
        except UnansweredRequestError:
            found = self._found(identifier)
            if found is None or location_of(self._settings, found) != location_of(self._settings, table):
                raise

    def _forget(self, identifier: Identifier, *, deletes: bool) -> None:
        """Have the metastore name a table no more. ``deletes``: it removes the files."""
        context = structs().EnvironmentContext(properties={"ifPurge": "TRUE"} if deletes else {})
        name = (identifier.database, identifier.table)
        try:
            self._client.call("drop_table_with_environment_context", *name, deletes, context, again=False)
        except MetastoreError as error:
            if error.kind in _MISSING:
                raise self._missing(identifier) from error
            raise
        except UnansweredRequestError:
            if self._found(identifier) is not None:
                raise

    def _rename(self, identifier: Identifier, new: Identifier, table: Any) -> None:
        """Have the metastore put a table in the place of the one of that name. ``new``: the name of the table."""
        name, context = (identifier.database, identifier.table), structs().EnvironmentContext(properties={})
        try:
            self._client.call("alter_table_with_environment_context", *name, table, context, again=False)
        except UnansweredRequestError:
            if self._found(identifier) is not None or self._found(new) is None:
                raise

    # ------------------------------------------------------------------------------------------------------ storage

    def _at(self, location: str, identifier: Identifier | None = None) -> tuple[FileIO, str]:
        """What reads and writes the files of a location, and how that spells it. ``identifier``: the table whose lock
        stores need that can't create a file only if absent."""
        cache = {key: text for key, text in self._storage.items() if key.startswith("local-cache.")}
        io, path = open_file_io(location, {**options_of_store(location, self._storage), **cache})
        if identifier is not None and self._locks and isinstance(io, Lockable):
            io = io.with_lock(lock_of(self._client, identifier).held)
        return io, path

    def _store(self, io: FileIO, path: str, identifier: Identifier) -> TableStore:
        external, cache = ExternalPaths.of(self._storage), cache_of(self._storage)
        publisher = HivePublisher(self._client, identifier, locks=self._locks)
        return TableStore(io, path, external=external, publisher=publisher, local_cache=cache)

    def _locked(self, identifier: Identifier) -> AbstractContextManager[object]:
        return lock_of(self._client, identifier).held() if self._locks else nullcontext()


def lock_of(client: MetastoreClient, identifier: Identifier) -> MetastoreLock:
    """The lock of a table, or of a branch."""
    branch = None if identifier.branch == MAIN_BRANCH else identifier.branch
    return MetastoreLock(client, (identifier.database, replace(identifier, branch=branch).object_name))


def _is_table(io: FileIO, path: str) -> bool:
    return any(s.name.startswith("schema-") for s in io.list(f"{path}/schema"))


def _registered(store: TableStore, wanted: TableSchema, definition: TableDefinition) -> TableSchema:
    """The schema of a table that is there already and gets a name. Raises SchemaError: it is another one."""
    there = store.latest_schema()
    columns = [(f.name, f.type) for f in there.fields]
    options = {key: text for key, text in wanted.options.items() if key not in ("owner", "path")}
    if (
        [(f.name, f.type) for f in wanted.fields] != columns
        or (definition.primary_key and wanted.primary_keys != there.primary_keys)
        or (definition.partition_by and wanted.partition_keys != there.partition_keys)
        or any(there.options.get(key) != text for key, text in options.items())
    ):
        raise SchemaError(
            "a table with other columns, keys or options is there already",
            path=store.root,
            hint="give its own to name it in the catalog, or choose another path",
        )
    return there


class HivePublisher(FileSystemPublisher):
    """The `SnapshotPublisher` of the file system, which holds the table's lock meanwhile, and gives the metastore
    new columns and partitions.

    ``identifier``: the table's. ``locks``: whether commits hold the lock.
    """

    def __init__(self, client: MetastoreClient, identifier: Identifier, *, locks: bool) -> None:
        self._client, self._locks = client, locks
        self._identifier = Identifier(identifier.database, identifier.table)

    def publish(self, store: TableStore, snapshot: Snapshot, latest: Snapshot | None) -> bool:
        schema = store.schema(snapshot.schema_id)
        partitioned = is_partitioned(schema)
        with self._held(store):
            done = super().publish(store, snapshot, latest)
        if done and partitioned:
            with logging_errors(store):  # the commit stands
                self._update_partitions(store, snapshot, schema)
        return done

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
            lock_of(self._client, replace(self._identifier, branch=store.branch)).held()
            if self._locks
            else nullcontext()
        )

    def _entry(self) -> Any:
        request = structs().GetTableRequest(dbName=self._identifier.database, tblName=self._identifier.table)
        answer = self._client.call_first(
            [("get_table_req", [request]), ("get_table", [self._identifier.database, self._identifier.table])]
        )
        return getattr(answer, "table", answer)

    def _update_columns(self, store: TableStore, old: TableSchema, new: TableSchema) -> None:
        settings, table = self._client.settings, self._entry()
        update_table(self._client, table, old, new, location_of(settings, table) or store.root)
        unchanged = table.parameters.get("DO_NOT_UPDATE_STATS", "false").lower() == "true"
        properties = {"CASCADE": "true", "DO_NOT_UPDATE_STATS": str(unchanged).lower()}
        name, context = (table.dbName, table.tableName), structs().EnvironmentContext(properties=properties)
        self._client.call("alter_table_with_environment_context", *name, table, context)

    def _update_partitions(self, store: TableStore, snapshot: Snapshot, schema: TableSchema) -> None:
        """Name the partitions that got rows in the metastore, and no more those whose last rows went."""
        reader = ManifestReader(store)
        entries = reader.entries(reader.delta(snapshot), ("kind", "partition"))
        added, removed = (
            set(entries.filter(pc.equal(entries["kind"], kind))["partition"].to_pylist())
            for kind in (FileKind.ADD, FileKind.DELETE)
        )
        if added:
            settings, table = self._client.settings, self._entry()
            rows = sorted(added)
            named = zip(names_of_partitions(schema, rows), partition_directories(schema, rows), strict=True)
            parts = new_partitions(settings, table, location_of(settings, table) or store.root, named)
            request = structs().AddPartitionsRequest(
                dbName=table.dbName, tblName=table.tableName, parts=parts, ifNotExists=True, needResult=False
            )
            self._client.call("add_partitions_req", request)
        if removed - added and snapshot.commit_kind is CommitKind.OVERWRITE:
            for branch in {MAIN_BRANCH, *store.branches()}:
                other = store.for_branch(branch)
                live = ManifestReader(other).live_files(other.latest_snapshot(), ("partition",))
                removed -= set(pc.unique(live["partition"]).to_pylist())
            for names in names_of_partitions(schema, sorted(removed)):
                self._drop_partition(list(names.values()))

    def _drop_partition(self, values: list[str]) -> None:
        try:
            self._client.call("drop_partition", self._identifier.database, self._identifier.table, values, False)
        except MetastoreError as error:
            if error.kind not in _MISSING:
                raise


class _HeldHere(threading.local):
    """The locks that this thread holds, and whether each still holds."""

    def __init__(self) -> None:
        self.holds: dict[tuple[str, tuple[str, str]], Callable[[], bool]] = {}


_held_here = _HeldHere()


@dataclass(frozen=True, slots=True)
class MetastoreLock:
    """The lock of a table in a metastore, which one writer holds at a time; the metastore removes those without a sign
    of life for some minutes.

    ``name``: of the database and the table.
    """

    client: MetastoreClient
    name: tuple[str, str]

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Hold the lock, which this thread may hold already; gives a function that says whether it still holds.
        Raises CommitError when others hold it for too long."""
        key = (self.client.uri, self.name)
        holds = _held_here.holds
        if key in holds:
            yield holds[key]
            return
        lock_id = self._acquire()
        ended = threading.Event()
        holds[key] = lambda: self._beat(lock_id)
        threading.Thread(target=self._keep, args=(lock_id, ended), daemon=True, name="hive-lock").start()
        # Otherwise what was sent may have its effect yet: the lock stays until it expires
        release = False
        try:
            yield holds[key]
            release = True
        except Exception as error:
            release = not isinstance(error, CommitOutcomeUnknownError)
            raise
        finally:
            ended.set()
            del holds[key]
            if release:
                self._release(lock_id)

    def _acquire(self) -> int:
        hive, (timeout, longest) = structs(), self.client.settings.waits
        database, table = self.name
        component = hive.LockComponent(
            type=hive.LockType.EXCLUSIVE, level=hive.LockLevel.TABLE, dbname=database, tablename=table,
            operationType=None,
        )  # fmt: skip
        request = hive.LockRequest(component=[component], user=user_name(), hostname=host_name())
        retry = Retry(Pauses(0.1, longest), seconds=timeout)
        answer = self._asked("lock", request)
        lock_id = int(answer.lockid)
        try:
            while answer.state == hive.LockState.WAITING:
                what = f"the lock {database}.{table} was not free within {timeout:g} seconds"
                hint = "another job holds it; lock-acquire-timeout says for how long it may (SHOW LOCKS in Hive)"
                retry.again(CommitError(what, path=self.client.uri, hint=hint))
                answer = self._asked("check_lock", hive.CheckLockRequest(lockid=lock_id))
            if answer.state != hive.LockState.ACQUIRED:
                state = hive.LockState._VALUES_TO_NAMES.get(answer.state, answer.state)
                raise CommitError(f"the metastore does not give the lock {database}.{table}: {state}")
        except BaseException:
            self._release(lock_id)
            raise
        return lock_id

    def _asked(self, request: str, argument: Any) -> Any:
        """The response to a request about locks. Raises CommitError: the metastore has none, or can't be reached."""
        try:
            return self.client.call(request, argument)
        except MetastoreError as error:
            raise CommitError(
                f"the metastore gives no lock ({error.kind})",
                path=self.client.uri,
                hint="its database needs Hive's tables of transactions; lock.enabled=false commits without a lock",
            ) from error

    def _keep(self, lock_id: int, ended: threading.Event) -> None:
        """Give signs of life until the lock is released."""
        while not ended.wait(_BEAT_SECONDS):
            self._beat(lock_id)

    def _beat(self, lock_id: int) -> bool:
        """Give a sign of life; whether the lock holds."""
        try:
            self.client.call("heartbeat", structs().HeartbeatRequest(lockid=lock_id))
        except (PaimonError, OSError):
            return False
        return True

    def _release(self, lock_id: int) -> None:
        """Give the lock back. A published snapshot stays published: whatever fails here is logged, and the lock
        expires."""
        try:
            self.client.call("unlock", structs().UnlockRequest(lockid=lock_id))
        except Exception as error:  # noqa: BLE001 - raised, it would have the files of a snapshot removed
            _log.warning("the lock %s.%s stays until it expires: %s", *self.name, redact(str(error)))
