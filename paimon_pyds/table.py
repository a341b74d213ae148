"""Table: what a user holds. It only delegates, to the rooms that ARCHITECTURE.md lists."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.frames import ROWS_ELSEWHERE, RowStream, row_count, rows_of
from paimon_pyds.base.options.option import (
    columns,
    mapping,
    option_texts,
    path_like,
    present,
    text,
    texts,
    with_settings,
)
from paimon_pyds.base.progress import shown
from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import DataField, arrow_schema, from_arrow_schema
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.rowlevel.clauses import MergeOptions
from paimon_pyds.errors import AlreadyExistsError, ArgumentTypeError, SchemaError, no_attribute, suggest
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore, cache_of
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from typing import Unpack

    import duckdb
    import polars

    from paimon_pyds.engine.compact.compact import CompactSummary
    from paimon_pyds.engine.execution.executor import Executor
    from paimon_pyds.engine.query.aggregates import Answers
    from paimon_pyds.engine.rowlevel.changes import RowSummary
    from paimon_pyds.engine.write import WriteContext
    from paimon_pyds.metadata.commit_message import CommitMessage
    from paimon_pyds.metadata.statistics import Statistics
    from paimon_pyds.ops.ddl.alter import SchemaChanges
    from paimon_pyds.ops.ddl.create import TableDefinition
    from paimon_pyds.ops.explain.explain import Explanation
    from paimon_pyds.ops.index_tools.advise import AdviceReport
    from paimon_pyds.ops.index_tools.cost import CostReport
    from paimon_pyds.ops.index_tools.inspect import IndexDump
    from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter
    from paimon_pyds.ops.index_tools.rewrite import RewriteSummary
    from paimon_pyds.ops.index_tools.verify import VerifyReport
    from paimon_pyds.ops.layout.data import Layout
    from paimon_pyds.ops.layout.partitions import PartitionAdvice
    from paimon_pyds.ops.maintenance.clone import CloneSummary
    from paimon_pyds.ops.maintenance.compact_manifests import ManifestSummary
    from paimon_pyds.ops.maintenance.diff import StateName, TableDiff
    from paimon_pyds.ops.maintenance.findings import RepairPlan, Verification
    from paimon_pyds.ops.maintenance.orphans import OrphanFiles
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.ops.maintenance.repair import Repair, UnexistingFiles
    from paimon_pyds.ops.rescale.rescale import RescaleSummary
    from paimon_pyds.ops.system.row_changes import AuditLog, Binlog
    from paimon_pyds.scan import Scan
    from paimon_pyds.sql.expression.bound import Operand
    from paimon_pyds.sql.predicate.tree import Predicate
    from paimon_pyds.sql.text.order import TopN
    from paimon_pyds.typing import (
        Condition,
        Filter,
        Inserts,
        Keys,
        LookupArguments,
        MissingColumns,
        OptionValues,
        Order,
        Progress,
        RowArguments,
        RowChanges,
        Rows,
        ScanArguments,
        SystemArguments,
        SystemName,
        UnmatchedChanges,
    )

_ELSEWHERE = {
    **ROWS_ELSEWHERE, "columns": "schema.field_names", "dtypes": "schema",
    "filter": "scan(where)", "where": "scan(where)", "query": "scan(where)", "select": "scan(columns=[…])",
    "read": "scan().to_arrow()", "load": "scan().to_arrow()", "tail": "top_n('id desc, 5')",
    "write": "append(data)", "insert": "append(data)", "upsert": "merge(data, on=…)", "history": "snapshots()",
    "vacuum": "expire_snapshots()", "optimize": "compact()", "drop": "purge(), or drop it in its catalog",
    "latest_snapshot": "snapshot()", "current_snapshot": "snapshot()", "version": "snapshot()",
    "tag": "create_tag(name)", "branch": "create_branch(name)", "files": "system('files')",
    "partitions": "system('partitions')", "inspect": "system('files')", "location": "path", "name": "path",
    "properties": "options", "metadata": "schema", "fields": "schema.fields", "restore": "rollback(snapshot)",
    "num_rows": "count()", "count_rows": "count()", "to_pyarrow_table": "to_arrow()", "sort": "scan(top_n=…)",
}  # fmt: skip
"""What pandas, Spark, delta-rs and PyIceberg call it."""


class Table(RowStream):
    """A Paimon table at a path. Open one with `Table.open`, make one with `Table.create`.

    Every call sees the table as it is at that moment; a `Scan` keeps the snapshot it started with.
    """

    def __init__(self, store: TableStore) -> None:
        given: object = store
        if not isinstance(given, TableStore):
            text = "a Table is not made by calling the class"
            raise ArgumentTypeError(text, hint="Table.open(path) opens one, Table.create(path, …) makes one")
        self._last_store = store

    if not TYPE_CHECKING:  # checkers know what there is

        def __getattr__(self, name: str) -> Any:
            """Names that other libraries have for it are answered with ours."""
            raise no_attribute(self, name, _ELSEWHERE)

    @property
    def _store(self) -> TableStore:
        """The table's metadata for one operation: others may have dropped and created the table since the last one."""
        self._last_store = self._last_store.again()
        return self._last_store

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], branch: str | None = None, storage_options: Mapping[str, str] | None = None
    ) -> Table:
        """The table at a path.

        Args:
            path: a local path, ``file://…``, or a URL of an object store.
            branch: a branch of the table; the main one by default.
            storage_options: credentials and endpoints of the storage, such as ``{"s3.region": "eu-central-1"}``, and
                ``external-paths.allow``: where files outside of the table's directory may be.

        Raises:
            TableNotFoundError: there is no table.
            BranchNotFoundError: the table has no such branch.
        """
        of_storage = None if storage_options is None else mapping("storage_options", storage_options)
        return cls(TableStore.open(path_like("path", path), text("branch", branch or "main"), of_storage))

    @classmethod
    def create(  # noqa: PLR0913 - named arguments that users type
        cls,
        path: str | os.PathLike[str],
        schema: pa.Schema | Sequence[DataField] | str | Rows,
        primary_key: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        options: OptionValues | None = None,
        comment: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        ignore_if_exists: bool = False,
    ) -> Table:
        """Make a table; its directory is made too.

        Args:
            path: a local path, ``file://…``, or a URL of an object store.
            schema: an Arrow schema, Paimon columns, or names and types such as ``"id BIGINT, name STRING"`` and
                ``{"id": "BIGINT"}``; or data as for `append`: the table gets its columns and rows.
                Where the rows don't fit, a key with NULL for one, the table is taken away again, unless somebody else
                has written to it.
            primary_key: names of columns, in a list or in a text between commas; none for an append table.
            partition_by: names of columns, as those of the key.
            options: any table option of Paimon, such as ``{"file-index.bitmap.columns": "color"}``.
            comment: about the table.
            storage_options: as for `open`.
            ignore_if_exists: return the table that already exists, whatever its schema is; rows of data are not added.

        Raises:
            AlreadyExistsError: the table already exists.
            SchemaError, OptionError, UnsupportedError: columns or options that Paimon, or this package, refuses.
        """
        from paimon_pyds.ops.ddl.create import create_table, unmade_on_failure
        from paimon_pyds.storage import open_file_io

        definition, rows = table_definition(schema, primary_key, partition_by, options, comment)
        mapping("storage_options", storage_options or {})
        io, root = open_file_io(path_like("path", path), storage_options)
        external, local_cache = ExternalPaths.of(storage_options), cache_of(storage_options)
        try:
            made = cls(create_table(io, root, definition, external=external, local_cache=local_cache))
        except AlreadyExistsError:
            if not ignore_if_exists:
                raise
            return cls.open(path, storage_options=storage_options)
        if rows is not None:
            with unmade_on_failure(made.store):
                made.append(rows, missing_columns="null")
        return made

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._store.root

    @property
    def store(self) -> TableStore:
        """The table's metadata, for those who build on it."""
        return self._store

    @property
    def schema(self) -> TableSchema:
        """The latest schema."""
        return self._store.latest_schema()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return arrow_schema(self.schema.fields)

    @property
    def options(self) -> dict[str, str]:
        """The options that are set; secrets among them are not shown by ``print``."""
        return RedactedDict(self.schema.options)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Primary-key columns; empty for append tables."""
        return self.schema.primary_keys

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Partition columns."""
        return self.schema.partition_keys

    @property
    def comment(self) -> str | None:
        """The table's comment."""
        return self.schema.comment

    def describe_options(self) -> pa.Table:
        """Every option with its value, default, and whether it is honoured, ignorable or refused."""
        from paimon_pyds.base.options import describe_options

        return describe_options(self.schema)

    def snapshots(self) -> list[Snapshot]:
        """All snapshots there are, oldest first.

        ``total_record_count`` of each counts stored rows; ``row_count`` is how many rows a read gives, None where only
        `count` can tell, as in tables with a primary key.
        """
        from paimon_pyds.engine.scan.known_rows import with_row_count

        store = self._store
        schema = store.latest_schema()
        return [with_row_count(schema, snapshot) for snapshot in store.snapshots()]

    def snapshot(self) -> Snapshot | None:
        """The latest snapshot, as in `snapshots`; None for a table that was never written."""
        from paimon_pyds.engine.scan.known_rows import with_row_count

        store = self._store
        snapshot = store.latest_snapshot()
        return None if snapshot is None else with_row_count(store.latest_schema(), snapshot)

    def tags(self) -> dict[str, Snapshot]:
        """Tags by name."""
        return self._store.tags()

    def consumers(self) -> dict[str, int]:
        """The snapshot that each streaming reader of other engines reads next: it stays, and so do later ones."""
        from paimon_pyds.ops.maintenance.references import consumers

        return consumers(self._store)

    def branches(self) -> list[str]:
        """Names of branches besides main."""
        return list(self._store.branches())

    def system(self, name: SystemName, where: Filter = None, **query: Unpack[SystemArguments]) -> pa.Table:
        """A system table such as ``files`` or ``snapshots``, in memory; arguments as for `system_scan`."""
        return self.system_scan(name, where, **query).to_arrow()

    def system_scan(self, name: SystemName, where: Filter = None, **query: Unpack[SystemArguments]) -> RowStream:
        """A query on a system table, run by ``to_batches``, ``to_reader`` or ``to_arrow``.

        ``ro`` has the rows that a scan with the option ``read-optimized`` gives, ``row_tracking`` those of a scan with
        ``_ROW_ID`` and ``_SEQUENCE_NUMBER`` among its columns.

        Args:
            name: see `paimon_pyds.ops.system.tables.NAMES`.
            where: a condition on the columns of the system table, such as ``"partition = '{1}' AND level > 0"`` of
                ``files``; ``filter`` is another name for it.
            **query: ``columns``, ``limit``, and ``options``: Paimon's scan options, as in `scan`.
        """
        from paimon_pyds.ops.system.tables import system_scan
        from paimon_pyds.scan import Scan

        return system_scan(self._store, Scan, name, where, **query)

    def audit_log(
        self,
        where: Filter = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        filter: Filter = None,
    ) -> AuditLog:
        """The system table ``audit_log``: each row with its kind, run by ``to_batches``, ``to_reader``, ``to_arrow``.

        Args:
            where: a condition on the table's columns, as in `scan`.
            columns: ``rowkind`` and the table's columns; all by default.
            limit: rows to return at most.
            options: Paimon's scan options, such as ``{"incremental-between": "3,7"}``.
            filter: another name for ``where``.
        """
        from paimon_pyds.ops.system.row_changes import AuditLog

        return AuditLog(self.scan(where, limit=limit, options=options, filter=filter), columns)

    def binlog(self, columns: Sequence[str] | None = None, options: Mapping[str, Any] | None = None) -> Binlog:
        """The system table ``binlog``: updates as one row, with lists of what was before and what is after them.

        Args:
            columns: ``rowkind`` and the table's columns; all by default.
            options: as in `audit_log`.
        """
        from paimon_pyds.ops.system.row_changes import Binlog

        return Binlog(self.scan(options=options), columns)

    def scan(  # noqa: PLR0913 - named arguments that users type
        self,
        where: Filter = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        top_n: str | TopN | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | int | date | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        matching: Rows | None = None,
        filter: Filter = None,
    ) -> Scan:
        """A query, run by `Scan.to_arrow`, `to_batches`, `to_reader`, `count`, `plan` or `explain`.

        Args:
            where: a boolean expression of Spark SQL, with the functions of docs/functions.md, such as
                ``"upper(color) = 'RED' AND price BETWEEN 1 AND 2"``. What statistics and indexes can't answer of it is
                evaluated on rows.
            columns: columns to return; all by default.
            limit: rows to return at most.
            top_n: the first rows in an order, sorted, such as ``"amount desc nulls last, id, 10"``: sort columns as in
                ORDER BY, then how many rows. NULLs come first with ASC and last with DESC unless it is said; NaN is
                largest. Which of equal rows are returned is not said. A range bitmap, BSI or bitmap index on the first
                column answers it; without one, the sort columns and those of the filter are read.
            snapshot: the number of the snapshot to read; the latest by default.
            tag: the name of the tag to read.
            timestamp: read the state of this time: milliseconds since the epoch; a datetime, which is local time where
                it has no zone; a date, which is its local midnight; or a text such as ``"2026-01-31 12:30:00"``, with a
                zone at its end, or in that of the option ``timezone``, or else in the local zone.
            options: Paimon's scan options, such as ``{"incremental-between": "3,7"}``. Where the table's own options
                name a state, that is read unless one is named here; ``{"scan.mode": "latest-full"}`` is the newest.
            matching: keys, as anything that can be appended, with some of the table's columns, such as ``{"id": [7, 9],
                "day": days}``: only rows that have the values of one of the keys in all of these (a semi-join). NULL
                matches nothing. Partitions, buckets, statistics and indexes are asked for the keys; they are held in
                memory.
            filter: another name for ``where``.
        """
        from paimon_pyds.engine.scan.travel import scan_options
        from paimon_pyds.scan import Scan

        given = scan_options(snapshot, tag, timestamp, options)
        wanted = one_condition(where, filter)
        made = Scan(self._store, where=wanted, columns=columns, limit=limit, top_n=top_n, options=given)
        return made if matching is None else made.matching(matching)

    def head(self, n: int = 5) -> pa.Table:
        """The first rows, at most ``n``; no more files are read than it takes."""
        return self.scan().head(n)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows as record batches, in bounded memory. What else rows can be taken as is inherited, as of a scan."""
        return self.scan().to_batches()

    def to_arrow(self) -> pa.Table:
        """All rows as one table in memory."""
        return self.scan().to_arrow()

    def to_reader(self) -> pa.RecordBatchReader:
        """All rows as a stream."""
        return self.scan().to_reader()

    def scan_polars(self) -> polars.LazyFrame:
        """All rows as a lazy frame of polars, which reads what its query needs: see `RowStream.scan_polars`."""
        return self.scan().scan_polars()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows of the newest snapshot as a DuckDB relation: see `RowStream.to_duckdb`."""
        return self.scan().to_duckdb(connection)

    def _scan(self, method: str, given: Mapping[str, Any], **own: Any) -> Scan:
        """The scan of a method: with its own arguments, and those given for `scan`.
        Raises ArgumentTypeError for one that neither has, which the method is named with."""
        code = Table.scan.__code__
        names = set(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]) - own.keys()
        unknown = next((name for name in given if name not in names), None)
        if unknown is not None:
            code = getattr(Table, method).__code__
            names.update(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])
            text = f"Table.{method}() takes no argument {unknown!r:.100}"
            raise ArgumentTypeError(text, hint=suggest(unknown, names, "it takes"))
        return self.scan(**own, **given)

    def explain(self, where: Filter = None, *, analyze: bool = False, **scan: Unpack[ScanArguments]) -> Explanation:
        """How a scan narrows down, per step and file.

        Args:
            where: a condition, as `scan` takes it.
            analyze: run the scan as well, and tell what it gave.
            scan: further arguments of `scan`.
        """
        return self._scan("explain", scan, where=where).explain(analyze=analyze)

    def count(self, where: Filter = None, **scan: Unpack[ScanArguments]) -> int:
        """How many rows the condition keeps: from metadata and indexes where they know it, else by reading."""
        return self._scan("count", scan, where=where).count()

    def answer(self, where: Filter = None, **scan: Unpack[ScanArguments]) -> Answers:
        """Questions to the rows that a condition keeps, as a whole.

        ``table.answer("color = 'red'").max("price")`` gives an `Answer`: its ``value``, its ``source`` (metadata, index
        or data), and how many files were answered by which, read, and by how many bytes. The questions are ``count()``,
        ``exists()``, ``distinct(column)``, ``min(column)``, ``max(column)``, ``sum(column)`` and ``top_n(order)``.
        Every answer is exact: a file is read where metadata and indexes are not.
        """
        return self._scan("answer", scan, where=where).answer

    def exists(self, where: Filter = None, **scan: Unpack[ScanArguments]) -> bool:
        """Whether the condition keeps any row."""
        return self._scan("exists", scan, where=where).answer.exists().value

    def distinct(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> pa.Table:
        """The distinct values of a column, ascending with NULL first, and the ``count`` of rows that hold each.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.
        """
        return self._scan("distinct", scan, where=where).answer.distinct(column).value

    def min(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The smallest value of a column; None when all are NULL.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.
        """
        return self._scan("min", scan, where=where).answer.min(column).value

    def max(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The largest value of a column; None when all are NULL. NaN is larger than all numbers.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.
        """
        return self._scan("max", scan, where=where).answer.max(column).value

    def sum(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The sum of a column, typed as in Spark; None when all values are NULL. See `Answers.sum`.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.
        """
        return self._scan("sum", scan, where=where).answer.sum(column).value

    def top_n(self, order: str, where: Filter = None, **scan: Unpack[RowArguments]) -> pa.Table:
        """The first rows in an order.

        Args:
            order: columns and how many rows, such as ``"amount desc, 10"``: see ``top_n`` of `scan`.
            where: which rows count; all by default.
            scan: further arguments of `scan`.
        """
        order = present("order", order, "an order such as 'id desc, 10'")
        return self._scan("top_n", scan, where=where, top_n=order).to_arrow()

    def lookup(self, keys: Keys, columns: Sequence[str] | None = None, **scan: Unpack[LookupArguments]) -> pa.Table:
        """The current row of each key, without a scan: a table with a primary key only.

        Args:
            keys: rows with the columns of the primary key, as data for `append`; or values alone, such as ``7`` and
                ``[7, 3]``, of a key of several columns tuples, such as ``[("2026-01-31", 7)]``.
            columns: columns to return; all by default.
            **scan: of which state: ``snapshot``, ``tag``, ``timestamp`` and ``options`` as for `scan`; and
                ``where``, a condition on rows.

        Returns:
            The rows in the order of the keys. Keys without a row give none, keys that are given twice give one.

        Raises:
            UnsupportedError: the table has no primary key.
            SchemaError: the keys don't have the columns of the primary key, or NULL in one.
        """
        from paimon_pyds.engine.query.lookup import lookup_rows

        keys = present("keys", keys, "rows with the columns of the key")
        with shown("lookup"):
            return lookup_rows(self._scan("lookup", scan, columns=columns), keys, self._store.schemas)

    def append(
        self,
        data: Rows,
        *,
        rowkind_column: str | None = None,
        missing_columns: MissingColumns | None = None,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> Snapshot | None:
        """Append rows as one snapshot. In a table with a primary key they are merged with the rows of their keys.

        Args:
            data: a pandas or polars DataFrame (lazy ones, too), a pyarrow Table, batch or reader, a DuckDB relation, a
                dictionary of columns, a list of dictionaries, anything with ``__arrow_c_stream__``, or an iterable of
                these. Columns are matched by name. Floats of a pandas frame, NaN for NULL, go into integers where all
                are whole.
            rowkind_column: the column of the data that has the kind of each row, and that is not stored: ``+I`` or
                ``+U`` for a row to add, ``-U`` or ``-D`` for one to take away. For tables with a primary key only.
            missing_columns: what becomes of columns that the data, or a dictionary in it, does not have. With ``null``
                they are NULL, or their default. With ``refuse`` only those with a default may be missing. When None,
                missing columns are taken unless NULL could take the place of a value: tables with the merge engine
                deduplicate or first-row need all columns, those with partial-update all of a sequence group whose
                sequence field the data has, those with aggregation the columns whose function takes NULL for a value
                (first_value, last_value). Rows to take away need their key only. An option of the same meaning,
                ``missing-columns``, may be given to other writes, and be stored in a table.
            options: table options for this write, such as ``{"target-file-size": "512 mb"}``.
            progress: whether and where it is shown how far it is: see `paimon_pyds.show_progress`.

        Returns:
            The new snapshot; None when there was no row.

        Raises:
            SchemaError: the data does not fit, or would not be stored as it is; nothing was written.
            CommitError: not published; the files were removed.
        """
        from paimon_pyds.engine.append import append

        own = with_settings(options, {"rowkind-column": rowkind_column, "missing-columns": missing_columns})
        with shown("append", progress):
            snapshot = append(self._store, data, own)
            self._maintain(None if snapshot is None else snapshot.id, own)
        return snapshot

    def overwrite(
        self,
        data: Rows,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        *,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> Snapshot | None:
        """Replace rows as one snapshot.

        Args:
            data: as for `append`.
            partition: replace only these partitions, such as ``{"dt": "2026-01-31"}``; the whole table when None.
            dynamic: replace the partitions that the data has rows in, and no other.
            options: as for `append`. Missing columns are NULL, or their default, unless ``missing-columns`` is
                ``refuse``, or keys may come from partitions that stay.
            progress: as for `append`.

        Raises:
            SchemaError: as for `append`; data without columns, or with others than the table's, does not empty it.
        """
        from paimon_pyds.engine.append import OverwriteMode, overwrite

        with shown("overwrite", progress):
            snapshot = overwrite(self._store, data, OverwriteMode(partition, dynamic), option_texts(options))
            self._maintain(None if snapshot is None else snapshot.id, options)
        return snapshot

    def write_context(self, options: OptionValues | None = None, *, overwrite: bool = False) -> WriteContext:
        """What a task needs to write to this table with a `TableWriter`. It pickles.

        Args:
            options: as for `append`.
            overwrite: the rows are to be committed as an overwrite.
        """
        from paimon_pyds.engine.execution.writing import write_context

        return write_context(self._store, option_texts(options), overwrite=overwrite)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        overwrite: bool = False,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        options: OptionValues | None = None,
    ) -> Snapshot | None:
        """Publish what each `TableWriter` wrote, as one snapshot; a compaction that came with it makes a second one.

        After a CommitOutcomeUnknownError the same messages can be committed again: where they had landed, that snapshot
        is returned and none is made. On other errors the files are removed, unless the table has them.

        Args:
            messages: of all writers.
            overwrite: the new files replace what is there.
            partition: replace only these partitions; the whole table when None.
            dynamic: replace the partitions that have new files, and no other.
            options: table options over the table's own.

        Raises:
            AlreadyCommittedError: the table has some of the files by an earlier commit; nothing was published.
            CommitConflictError: such as when the table was dropped and created again since the files were written.
            CommitError: not published.
            CommitOutcomeUnknownError: the storage did not say; the files were kept.
        """
        from paimon_pyds.engine.append import OverwriteMode, commit_messages

        mode = OverwriteMode(partition, dynamic) if overwrite else None
        snapshot = commit_messages(self._store, messages, overwrite=mode, options=option_texts(options))
        self._maintain(None if snapshot is None else snapshot.id, options)
        return snapshot

    def abort(self, messages: Sequence[CommitMessage | None]) -> None:
        """Remove the files of messages that will not be committed.

        Raises:
            AlreadyCommittedError: the table has some of them, and none was removed.
        """
        from paimon_pyds.engine.append import abort_uncommitted

        abort_uncommitted(self._store, messages)

    def alter(
        self,
        set_options: OptionValues | None = None,
        unset_options: Sequence[str] = (),
        **changes: Unpack[SchemaChanges],
    ) -> TableSchema:
        """Change options or columns; makes a new schema. See `paimon_pyds.ops.ddl.alter.alter_table`.

        Args:
            set_options: new values of table options.
            unset_options: table options that get their defaults again.
            **changes: such as ``add_columns={"n": "INT"}``: see `paimon_pyds.ops.ddl.alter.SchemaChanges`.
        """
        from paimon_pyds.ops.ddl.alter import alter_table

        return alter_table(
            self._store,
            set_options=mapping("set_options", set_options or {}),
            unset_options=texts("unset_options", unset_options),
            **changes,
        )

    def delete(
        self,
        where: Condition | None = None,
        *,
        matching: Rows | None = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
        filter: Condition | None = None,
    ) -> RowSummary:
        """Delete the rows for which a condition is true, as one snapshot. See `paimon_pyds.engine.rowlevel.delete`.

        Args:
            where: Spark SQL text, such as ``"id IN (1, 2)"``; ``"TRUE"`` for every row.
            matching: keys, as for `scan`: delete rows that have the values of one of them, and satisfy ``where`` if it
                is given.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            options: table options for this run.
            filter: another name for ``where``.
        """
        from paimon_pyds.engine.rowlevel.delete import delete

        where = one_condition(where, filter)
        with shown("delete", progress):
            summary = delete(self._store, where, matching=matching, executor=executor, options=option_texts(options))
            self._maintain(summary.snapshot_id, options)
        return summary

    def update(
        self,
        set: Mapping[str, Operand],
        where: Condition | None = None,
        *,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
        filter: Condition | None = None,
    ) -> RowSummary:
        """Set columns of the rows for which a condition is true, as one snapshot. See
        `paimon_pyds.engine.rowlevel.update`.

        Args:
            set: new values by column, such as ``{"price": "price * 1.1", "color": "'red'"}``: Spark SQL text over the
                old values, or Python values that are not texts.
            where: Spark SQL text; every row when None.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            options: table options for this run.
            filter: another name for ``where``.
        """
        from paimon_pyds.engine.rowlevel.update import update

        where = one_condition(where, filter)
        with shown("update", progress):
            summary = update(self._store, mapping("set", set), where, executor=executor, options=option_texts(options))
            self._maintain(summary.snapshot_id, options)
        return summary

    def merge(  # noqa: PLR0913 - named arguments that users type
        self,
        source: Rows,
        on: Sequence[str] | Condition,
        *,
        when_matched: RowChanges = None,
        when_not_matched: Inserts = None,
        when_not_matched_by_source: UnmatchedChanges = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
    ) -> RowSummary:
        """Bring rows of a source into the table, as one snapshot. See `paimon_pyds.engine.rowlevel.merge_into`.

        Clauses without columns take the source's values as `append` does; values that are named are cast as Spark does.

        Args:
            source: data as for `append`; it is held in memory.
            on: which rows match: names of columns that are equal on both sides, such as ``"id"``, ``"id, dt"`` and
                ``["id", "dt"]``, or SQL text, such as ``"target.id = source.id AND target.dt >= '2026-01-01'"``.
            when_matched: what to do to rows of the table that match: "update", "delete", or `Update` and `Delete`
                clauses such as
                ``[pp.Delete("source.gone"), pp.Update({"price": "source.price"}, "source.price > target.price")]``,
                of which the first whose condition is true acts. SQL texts are taken too, such as
                ``"source.gone THEN DELETE"`` and ``"UPDATE SET price = source.price"``, which type checkers refuse.
            when_not_matched: "insert", or `Insert` clauses, for rows of the source that match nothing.
            when_not_matched_by_source: "delete", or `Update` and `Delete` clauses, for rows of the table that match
                nothing.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            options: over the table's own, such as ``{"deletion-vectors.enabled": "false"}`` to have files rewritten;
                and ``timezone`` for dates, times and literals without a zone (the local one by default).

        Raises:
            CardinalityError: two rows of the source would change one row of the table; nothing was changed.
            SchemaError: a value of a clause without columns does not fit; the message names column, value and row.
        """
        from paimon_pyds.engine.rowlevel.merge_into import merge_into

        how = MergeOptions(when_matched, when_not_matched, when_not_matched_by_source, option_texts(options))
        with shown("merge", progress):
            summary = merge_into(self._store, source, on, how, executor=executor)
            self._maintain(summary.snapshot_id, options)
        return summary

    def rewrite_file_index(
        self,
        where: Filter = None,
        *,
        rebuild: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> RewriteSummary:
        """Build the file indexes that options ask for and files lack, drop the others: one COMPACT snapshot.

        Args:
            where: a condition on partition columns.
            rebuild: build every index anew, as after a change of an index's own options.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            filter: another name for ``where``.
        """
        from paimon_pyds.ops.index_tools.rewrite import rewrite_file_index

        where = one_condition(where, filter)
        with shown("rewrite indexes", progress):
            summary = rewrite_file_index(self._store, where, rebuild=rebuild, executor=executor)
            self._maintain(summary.snapshot_id, None)
        return summary

    def compact(  # noqa: PLR0913 - named arguments that users type
        self,
        where: Filter = None,
        order_by: str | Sequence[str] | None = None,
        *,
        order: Order = "order",
        full: bool = False,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
        filter: Filter = None,
    ) -> CompactSummary:
        """Merge small files, drop deleted rows, rebuild indexes: one COMPACT snapshot; the rows stay the same.

        With ``bucket=-2``, rows that wait for their buckets come into them first, by a snapshot of its own.

        Args:
            where: a condition on partition columns; all partitions when None.
            order_by: columns to order the rows of each partition by (in tables of buckets, of each bucket), so that
                filters on them skip files; then all its files are rewritten. More rows than ``write-buffer-size`` are
                spilled to local disk. Without it files are ordered by ``clustering.columns`` as they are rewritten.
            order: ``order`` compares column by column; ``zorder`` and ``hilbert`` bring rows together that are near
                each other in any of the columns.
            full: drop every deleted row, and merge small files however few there are; all sorted runs of a table with
                a primary key.
            dry_run: only report what would be rewritten, and change nothing; False by default.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            options: table options for this run, such as ``{"target-file-size": "512 mb"}``.
            filter: another name for ``where``.
        """
        from paimon_pyds.engine.compact.compact import compact

        where = one_condition(where, filter)
        how = CompactOptions(where, order_by, order, full, dry_run, option_texts(options))
        with shown("compact", progress):
            summary = compact(self._store, how, executor)
            self._maintain(summary.snapshot_id, options)
        return summary

    def layout(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        where: Filter = None,
        snapshot: int | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> Layout:
        """How much the data files overlap in each column, by their statistics: as text, Arrow, and a picture.

        ``before.compare(after)`` sets two layouts side by side, such as those of two snapshots.

        Args:
            columns: by default all whose values have an order; of a table with a primary key those of the key.
            where: a condition on partition columns.
            snapshot: the number of a snapshot; the latest by default.
            progress: as for `append`.
            filter: another name for ``where``.
        """
        from paimon_pyds.ops.layout.overlap import layout_of

        where = one_condition(where, filter)
        with shown("layout", progress):
            return layout_of(self._store, columns, where, snapshot)

    def advise_partition(
        self,
        filters: Sequence[RecordedFilter | str] = (),
        *,
        files: int = 3,
        where: Filter = None,
        progress: Progress | None = None,
    ) -> PartitionAdvice:
        """Which column, or which unit of a date, suits as a partition: by statistics, samples and recorded filters.

        The rules are in `paimon_pyds.ops.layout.partitions`.

        Args:
            filters: recorded ones, with how often they were used.
            files: how many files to sample.
            where: a condition on partition columns that files are taken from.
            progress: as for `append`.
        """
        from paimon_pyds.ops.layout.partitions import advise_partition

        with shown("advise", progress):
            return advise_partition(self._store, filters, files=files, where=where)

    def rescale(  # noqa: PLR0913 - named arguments that users type
        self,
        bucket_num: int | None = None,
        where: Filter = None,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
        options: OptionValues | None = None,
        filter: Filter = None,
    ) -> RescaleSummary:
        """Write partitions anew with another number of buckets: one OVERWRITE snapshot; the rows stay the same.

        The option ``bucket`` says afterwards how many, where all partitions are rescaled. With ``where`` it stays:
        into partitions that have another number than it says nothing is written until they are rescaled, so alter it
        first to the number that new partitions get, too.

        Args:
            bucket_num: how many buckets; as many as the option ``bucket`` says when None.
            where: a condition on partition columns; all partitions when None.
            dry_run: only report what would be written anew, and change nothing; False by default.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `append`.
            options: table options for this run, such as ``{"target-file-size": "512 mb"}``.
            filter: another name for ``where``.
        """
        from paimon_pyds.ops.rescale.rescale import RescaleOptions, rescale

        how = RescaleOptions(bucket_num, one_condition(where, filter), dry_run, option_texts(options))
        with shown("rescale", progress):
            summary = rescale(self._store, how, executor)
            self._maintain(summary.snapshot_id, options)
        return summary

    def expire_snapshots(  # noqa: PLR0913 - named arguments that users type
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | date | str | int | None = None,
        dry_run: bool = False,
        *,
        max_deletes: int | None = None,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Remove old snapshots, and the files that no other snapshot, tag or branch needs.

        Without arguments as the table's options say, and as happens after each commit: ``snapshot.time-retained``,
        ``snapshot.num-retained.min`` and ``.max``. No snapshot goes that a streaming reader has yet to read. Where the
        options ``changelog.…`` keep changelogs longer, those of the snapshots stay until `expire_changelogs`.

        Args:
            retain_max: snapshots that stay at most, however young.
            retain_min: snapshots that stay at least.
            older_than: only those made before this time, as `scan` takes it; or of this age, such as ``"7 days"``.
            dry_run: only report what would go, and change nothing; False by default.
            max_deletes: snapshots that go at most, the oldest first; all that are due by default.
            options: table options for this run, such as ``{"snapshot.clean-empty-directories": "true"}``.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_snapshots

        request = ExpireOptions(retain_max, retain_min, older_than, dry_run, option_texts(options), max_deletes)
        with shown("expire", progress):
            return expire_snapshots(self._store, request)

    def expire_changelogs(  # noqa: PLR0913 - named arguments that users type
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: timedelta | date | str | int | None = None,
        dry_run: bool = False,
        *,
        max_deletes: int | None = None,
        everything: bool = False,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Remove old changelogs of snapshots that have expired, and the files that only these need.

        Without arguments as the table's options say, and as happens after each commit: ``changelog.time-retained``,
        ``changelog.num-retained.min`` and ``.max``. The last one stays, and those that a streaming reader has to read.

        Args:
            retain_max: snapshots and changelogs that stay at most, however young.
            retain_min: snapshots and changelogs that stay at least.
            older_than: as for `expire_snapshots`.
            dry_run: only report what would go, and change nothing; False by default.
            max_deletes: changelogs that go at most, the oldest first; all that are due by default.
            everything: all go that no streaming reader has to read, also the last one.
            options: table options for this run.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.expire import ExpireOptions, expire_changelogs

        request = ExpireOptions(retain_max, retain_min, older_than, dry_run, option_texts(options), max_deletes)
        with shown("expire", progress):
            return expire_changelogs(self._store, request, everything=everything)

    def create_tag(  # noqa: PLR0913 - named arguments that users type
        self,
        name: str,
        snapshot: int | None = None,
        timestamp: date | str | int | None = None,
        retain: str | timedelta | None = None,
        replace: bool = False,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Snapshot:
        """Keep a state of the table readable under a name: that of the newest snapshot, or the one that is named.

        Args:
            name: of the tag.
            snapshot: its number; one that has expired works while another tag has it.
            timestamp: the state of this time, as `scan` takes it.
            retain: for how long the tag lives, such as ``"7 d"``: then `expire_tags`, or a commit, deletes it. By
                default as ``tag.default-time-retained`` says, or until `delete_tag`.
            replace: a tag of this name may be there, and names this state from now on; what only it needed goes.
            dry_run: only look whether it can be done, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.tags import TagOptions, create_tag

        with shown("create tag", progress):
            return create_tag(self._store, name, TagOptions(snapshot, timestamp, retain, replace, dry_run))

    def rename_tag(self, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot:
        """Give a tag another name; the snapshot that it keeps.

        Args:
            name: of the tag.
            new_name: what it is called from now on.
            dry_run: only look whether it can be done, and change nothing; False by default.
        """
        from paimon_pyds.ops.maintenance.tags import rename_tag

        return rename_tag(self._store, name, new_name, dry_run=dry_run)

    def delete_tag(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Delete a tag; where its snapshot has expired, also the files that only it needed.

        Args:
            name: of the tag.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.tags import delete_tag

        with shown("delete tag", progress):
            return delete_tag(self._store, name, dry_run=dry_run)

    def expire_tags(
        self,
        older_than: timedelta | date | str | int | None = None,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Delete the tags that have outlived what they were made with, and those made before a time.

        Args:
            older_than: a time, as `scan` takes it, or an age, such as ``"7 days"``.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.tags import expire_tags

        with shown("expire tags", progress):
            return expire_tags(self._store, older_than, dry_run=dry_run)

    def create_due_tags(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> tuple[str, ...]:
        """Make the tags that ``tag.automatic-creation`` asks for and that are due, as each commit does; for tables that
        are ``write-only``, whose commits leave it to other jobs.

        Args:
            options: table options for this run, such as ``{"tag.automatic-creation": "process-time"}``.
            dry_run: only report which, and change nothing; False by default.
            progress: as for `append`.

        Returns:
            Their names.
        """
        from paimon_pyds.ops.maintenance.expire import maintenance_options
        from paimon_pyds.ops.maintenance.tag_creation import create_due_tags

        with shown("create tags", progress):
            store = self._store
            return tuple(create_due_tags(store, maintenance_options(store, option_texts(options)), dry_run=dry_run))

    def reset_consumer(self, name: str, next_snapshot: int | None = None, *, dry_run: bool = False) -> int | None:
        """Set which snapshot a streaming reader of another engine reads next, or forget the reader, as Java's procedure
        of that name. Stop the reader before: it writes its own position again.

        Args:
            name: of the reader, its ``consumer-id``.
            next_snapshot: a snapshot that is there, or the number of the next one; without it the reader is forgotten.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            What it would have read next; None where it was not known.
        """
        from paimon_pyds.ops.maintenance.consumers import reset_consumer

        return reset_consumer(self._store, name, next_snapshot, dry_run=dry_run)

    def clear_consumers(
        self, including: str | None = None, excluding: str | None = None, *, dry_run: bool = False
    ) -> RemovalSummary:
        """Forget streaming readers, so that the snapshots that they have not read can expire.

        Args:
            including: a regular expression that whole names match; all by default.
            excluding: one for those that stay.
            dry_run: only report which, and change nothing; False by default.
        """
        from paimon_pyds.ops.maintenance.consumers import clear_consumers

        return clear_consumers(self._store, including, excluding, dry_run=dry_run)

    def expire_partitions(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> RemovalSummary:
        """Delete the partitions older than ``partition.expiration-time``, by their values or by their last change.

        Args:
            options: table options for this run, such as ``{"partition.expiration-time": "30 d"}``.
            dry_run: only report which, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.partitions import expire_partitions

        with shown("expire partitions", progress):
            summary = expire_partitions(self._store, option_texts(options), dry_run=dry_run)
            gone = summary.partitions and not dry_run
            self._maintain(self._last_store.latest_snapshot_id() if gone else None, options)
        return summary

    def truncate(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> RemovalSummary:
        """Delete all rows, as one snapshot; older snapshots still have them.

        Args:
            options: table options for this run.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.

        Returns:
            What left the newest state, and how many older snapshots keep their rows. Files go when these expire.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import truncate

        with shown("truncate", progress):
            summary, snapshot = truncate(self._store, option_texts(options), dry_run=dry_run)
            self._maintain(None if snapshot is None else snapshot.id, options)
        return summary

    def drop_partitions(
        self,
        where: Filter | Mapping[str, Any] | Sequence[Mapping[str, Any]] = None,
        *,
        options: OptionValues | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> RemovalSummary:
        """Delete the rows of some partitions, as one snapshot; older snapshots still have them.

        Args:
            where: a condition on partition columns, such as ``"day < '2026-01-01'"``, or values of some or all of
                these, such as ``[{"day": "2026-01-31"}]``, where None is NULL. It has to be given.
            options: table options for this run.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
            filter: another name for ``where``.

        Returns:
            What left the newest state, as for `truncate`.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import drop_partitions

        where = one_condition(where, filter)
        with shown("drop partitions", progress):
            summary, snapshot = drop_partitions(self._store, where, option_texts(options), dry_run=dry_run)
            self._maintain(None if snapshot is None else snapshot.id, options)
        return summary

    def mark_partitions_done(
        self,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> tuple[str, ...]:
        """Tell jobs that wait for partitions that these are complete, by a file ``_SUCCESS`` in their directories.

        Args:
            partitions: a value for each partition column, such as ``[{"day": "2026-01-31"}]``.
            dry_run: only give the directories, and change nothing; False by default.
            progress: as for `append`.

        Returns:
            The directories, such as ``day=2026-01-31``.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import mark_partitions_done

        with shown("mark partitions", progress):
            return mark_partitions_done(self._store, partitions, dry_run=dry_run)

    def compact_manifests(
        self, *, options: OptionValues | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> ManifestSummary:
        """Write the manifests anew, without deleted entries, as one COMPACT snapshot, so that plans read less.

        Commits merge manifests now and then by themselves. Nothing is done where there would be no fewer of them.

        Args:
            options: table options for this run, such as ``{"manifest.target-file-size": "16 mb"}``.
            dry_run: only report how many would be written anew, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.compact_manifests import compact_manifests

        with shown("compact manifests", progress):
            summary = compact_manifests(self._store, option_texts(options), dry_run=dry_run)
            self._maintain(summary.snapshot_id, options)
        return summary

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        options: OptionValues | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Statistics | None:
        """Make statistics, as ``ANALYZE TABLE … COMPUTE STATISTICS FOR COLUMNS`` does: one ANALYZE snapshot.

        They serve Java's optimizers, such as Spark's join orders. As long as nothing is committed after them, they
        count the rows of a table with a primary key here, too, and spare the manifests to filters that no row matches.

        Args:
            columns: what to read; all columns but nested ones when None, with ``[]`` the rows are only counted.
            options: table options for this run.
            dry_run: only give what is found, and change nothing; False by default.
            progress: as for `append`.

        Returns:
            What was found; None for a table without a snapshot.
        """
        from paimon_pyds.ops.maintenance.analyze import analyze

        with shown("analyze", progress):
            names = None if columns is None else texts("columns", columns)
            found, snapshot = analyze(
                self._store,
                lambda: self.scan(options={"scan.mode": "latest-full"}),
                names,
                option_texts(options),
                dry_run=dry_run,
            )
            self._maintain(None if snapshot is None else snapshot.id, options)
        return found

    def statistics(self) -> Statistics | None:
        """The statistics of the newest snapshot; None where `analyze`, or Java, has made none since the last change of
        the schema."""
        from paimon_pyds.metadata.statistics import read_statistics

        return read_statistics(self._store, self.snapshot())

    def create_branch(
        self, name: str, tag: str | None = None, *, ignore_if_exists: bool = False, dry_run: bool = False
    ) -> Snapshot | None:
        """Make a branch, a history of its own: ``Table.open(path, branch=name)`` reads and writes it.

        Args:
            name: of the branch.
            tag: the branch begins with its rows; without one, with none.
            ignore_if_exists: a branch of this name stays as it is.
            dry_run: only look whether it can be done, and change nothing; False by default.

        Returns:
            The snapshot that the branch begins with.
        """
        from paimon_pyds.ops.maintenance.branches import create_branch

        return create_branch(self._store, name, tag, ignore_if_exists=ignore_if_exists, dry_run=dry_run)

    def rename_branch(self, name: str, new_name: str, *, dry_run: bool = False) -> Snapshot | None:
        """Give a branch another name; its newest snapshot.

        Args:
            name: of the branch.
            new_name: what it is called from now on.
            dry_run: only look whether it can be done, and change nothing; False by default.
        """
        from paimon_pyds.ops.maintenance.branches import rename_branch

        return rename_branch(self._store, name, new_name, dry_run=dry_run)

    def delete_branch(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Delete a branch, and the files that only it needed.

        Args:
            name: of the branch.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.branches import delete_branch

        with shown("delete branch", progress):
            return delete_branch(self._store, name, dry_run=dry_run)

    def fast_forward(self, name: str, *, dry_run: bool = False, progress: Progress | None = None) -> RemovalSummary:
        """Take over a branch's history: what was committed here since the branch was made goes. No one may write here
        meanwhile; see `paimon_pyds.ops.maintenance.forward.fast_forward`.

        Args:
            name: of the branch.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.forward import fast_forward

        with shown("fast forward", progress):
            return fast_forward(self._store, name, dry_run=dry_run)

    def rollback(
        self,
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: date | str | int | None = None,
        *,
        watermark: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> RemovalSummary:
        """Make an older state the newest: all later snapshots, changelogs and tags go, with the files that only they
        needed.

        Java leaves these files, and so does a REST catalog: `remove_orphan_files` finds them later. Nobody may commit
        with Java meanwhile: a commit that takes longer than the rollback could need files that have gone.

        Args:
            snapshot: its number; text is taken for the name of a tag.
            tag: its name.
            timestamp: the state of this time, as `scan` takes it.
            watermark: of the writers' events, in milliseconds since the epoch: the newest snapshot with none later.
            dry_run: only report what would go, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.rollback import rollback

        with shown("roll back", progress):
            return rollback(self._store, snapshot, tag, timestamp, watermark, dry_run=dry_run)

    def clone(  # noqa: PLR0913 - named arguments that users type
        self,
        target: str | os.PathLike[str],
        snapshot: int | str | None = None,
        tag: str | None = None,
        timestamp: date | str | int | None = None,
        *,
        where: Filter = None,
        dry_run: bool = False,
        storage_options: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> CloneSummary:
        """Copy one state of the table, with all its files, to an empty place: a table of its own, with one snapshot.

        Args:
            target: where the copy will be.
            snapshot: the number of the state; the newest by default. Text is taken for the name of a tag.
            tag: its name.
            timestamp: the state of this time, as `scan` takes it.
            where: a condition on partition columns: only those partitions are copied.
            dry_run: only report how much would be copied, and change nothing; False by default.
            storage_options: of that place.
            progress: as for `append`.
            filter: another name for ``where``.
        """
        from paimon_pyds.ops.maintenance.clone import CloneOptions, clone
        from paimon_pyds.storage import open_file_io

        copy = TableStore(*open_file_io(path_like("target", target), mapping("storage_options", storage_options or {})))
        how = CloneOptions(snapshot, tag, timestamp, dry_run, one_condition(where, filter))
        with shown("clone", progress):
            return clone(self._store, copy, how)

    def purge(
        self, confirm: str = "", *, named_states: bool = False, dry_run: bool = False, progress: Progress | None = None
    ) -> RemovalSummary:
        """Remove all rows, snapshots and files for good; columns and options stay.

        Files of the last day that nothing names stay, as a writer may be about to commit them: see
        `remove_orphan_files`.

        Args:
            confirm: the name of the table, the last part of its path: without it nothing is done.
            named_states: also remove tags and branches, with what they keep; while there are some, it is refused.
            dry_run: only report what would go, and change nothing; False by default. It needs no confirmation.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.purge import purge

        with shown("purge", progress):
            return purge(self._store, confirm, named_states=named_states, dry_run=dry_run)

    def remove_orphan_files(
        self,
        older_than: timedelta | date | str | int = "1 day",
        dry_run: bool = False,
        *,
        external: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> OrphanFiles:
        """Find files in the table's directories that no snapshot, tag, branch or changelog names, and remove them.

        Writers that were killed leave such files. One that is being written looks the same: choose an age that no write
        reaches. ``print(table.remove_orphan_files(dry_run=True).files)`` lists what would go. What lies in directories
        that are links stays.

        Args:
            older_than: an age, such as ``"12 h"`` or a timedelta, or the time of the last change, as `scan` takes it.
            dry_run: only find them, and change nothing; False by default.
            external: also look in the directories of ``data-file.external-paths``. Only right where no other table
                uses them.
            executor: where directories are listed and manifests are read; this machine by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.orphans import remove_orphan_files

        with shown("find orphans", progress):
            return remove_orphan_files(self._store, older_than, dry_run=dry_run, external=external, executor=executor)

    def verify(
        self, deep: bool = False, *, executor: Executor | None = None, progress: Progress | None = None
    ) -> Verification:
        """Look for damage: of snapshots, tags, branches, manifests, data files and indexes. Nothing is changed.

        Finds all faults, and does not raise for them: ``print(table.verify())`` says of each what to do.

        Args:
            deep: also read all data: statistics, file indexes, the order of keys, the place of each row.
            executor: where files are looked at; this machine by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.verify import verify

        with shown("verify", progress):
            return verify(self._store, deep=deep, executor=executor)

    def repair(
        self,
        plan: RepairPlan | Verification | None = None,
        *,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> Repair | RepairPlan:
        """Mend what can be mended without a guess of what `verify` finds: dangling hints, file indexes of the newest
        state, an expiry that was killed. ``print`` says of all else what to do.

        Args:
            plan: ``table.verify(…).repair_plan()``; found out here by default.
            dry_run: only return the plan, and change nothing; False by default.
            executor: where the work runs; this machine by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.repair import promised, repair

        with shown("repair", progress):
            plan = self.verify(executor=executor) if plan is None else plan
            return promised(self._store, plan) if dry_run else repair(self._store, plan, executor=executor)

    def remove_unexisting_files(self, dry_run: bool = False, *, progress: Progress | None = None) -> UnexistingFiles:
        """Take the entries of data files that are gone out of the newest state, so that the others can be read: the
        rows in these files are lost. As Java's procedure of that name.

        Args:
            dry_run: only report which files, and change nothing; False by default.
            progress: as for `append`.
        """
        from paimon_pyds.ops.maintenance.repair import remove_unexisting_files

        with shown("look for missing files", progress):
            return remove_unexisting_files(self._store, dry_run=dry_run)

    def diff(self, a: StateName, b: StateName | None = None) -> TableDiff:
        """What makes state ``b`` of state ``a``: rows, columns, options and files.

        ``print(table.diff(3).summary())`` shows it in numbers; ``to_arrow``, ``to_batches`` and ``to_reader`` give the
        rows, with their kinds.

        Args:
            a: the number of a snapshot, the name of a tag, or a datetime for the state of that time.
            b: the same; the newest state by default.
        """
        from paimon_pyds.ops.maintenance.diff import TableDiff

        return TableDiff(self._store, a, b)

    def index_dump(self, where: Filter = None, *, filter: Filter = None) -> list[IndexDump]:
        """What lies in the containers of file indexes, index by index; ``where`` as for `rewrite_file_index`."""
        from paimon_pyds.ops.index_tools.inspect import dump_table

        return dump_table(self._store, one_condition(where, filter))

    def index_verify(
        self,
        where: Filter = None,
        *,
        executor: Executor | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> VerifyReport:
        """Compare every file index with the data; arguments as for `rewrite_file_index`."""
        from paimon_pyds.ops.index_tools.verify import verify_indexes

        where = one_condition(where, filter)
        with shown("verify indexes", progress):
            return verify_indexes(self._store, where, executor=executor)

    def index_cost(
        self,
        options: OptionValues | None = None,
        filters: Sequence[str | Predicate] = (),
        *,
        files: int = 3,
        where: Filter = None,
        progress: Progress | None = None,
    ) -> CostReport:
        """What indexes would cost and bring: built in memory for a few files. See `paimon_pyds.ops.index_tools.cost`.

        Args:
            options: the indexes to try, such as ``{"file-index.bitmap.columns": "color"}``; the table's own when None.
            filters: what to ask them.
            files: how many files to sample.
            where: a condition on partition columns.
            progress: as for `append`.
        """
        from paimon_pyds.ops.index_tools.cost import index_cost

        tried = None if options is None else option_texts(options)
        with shown("index cost", progress):
            return index_cost(self._store, tried, filters, files=files, where=where)

    def index_advise(
        self,
        recorded: Sequence[RecordedFilter | str],
        *,
        files: int = 3,
        where: Filter = None,
        progress: Progress | None = None,
    ) -> AdviceReport:
        """Which indexes recorded filters call for, and which ones waste space.

        The rules are in `paimon_pyds.ops.index_tools.advise`.

        Args:
            recorded: filters that were asked, as text or as `RecordedFilter` with how often.
            files: how many data files are looked into.
            where: a condition on partition columns; the other partitions are left out.
            progress: is told how far it is.
        """
        from paimon_pyds.ops.index_tools.advise import index_advise

        with shown("advise", progress):
            return index_advise(self._store, recorded, files=files, where=where)

    def _maintain(self, committed: int | None, options: OptionValues | None) -> None:
        """Do what follows a commit; None for a call that committed nothing."""
        if committed is not None:
            from paimon_pyds.ops.after_commit import after_commit

            after_commit(self._last_store, committed, option_texts(options))

    def __repr__(self) -> str:
        branch = "" if self._last_store.branch == "main" else f"branch {self._last_store.branch}"
        return one_line(self, self._last_store.root, branch, "" if self._is_there() else "no table is here any more")

    def __str__(self) -> str:
        from paimon_pyds.ops.explain.table_text import table_text

        return table_text(repr(self), self._last_store)

    def _is_there(self) -> bool:
        try:
            return bool(self._store.schema_ids())
        except Exception:  # noqa: BLE001 - nothing is known then, and a repr does not fail
            return True

    def _repr_html_(self) -> str:
        from paimon_pyds.ops.explain.notebook import table_html

        return table_html(self._store)


def table_definition(
    schema: Any, primary_key: Any, partition_by: Any, options: OptionValues | None, comment: str | None
) -> tuple[TableDefinition, pa.Table | Iterator[pa.RecordBatch] | None]:
    """A new table as the arguments of `Table.create` say, and its rows where ``schema`` was data."""
    from paimon_pyds.ops.ddl.create import TableDefinition

    fields, rows = _columns_and_rows(schema)
    key = [] if primary_key is None else texts("primary_key", primary_key)
    parts = [] if partition_by is None else texts("partition_by", partition_by)
    return TableDefinition(fields, tuple(key), tuple(parts), option_texts(options), comment), rows


def _columns_and_rows(schema: Any) -> tuple[tuple[DataField, ...], pa.Table | Iterator[pa.RecordBatch] | None]:
    """The columns of a new table, and the rows where data was given."""
    if isinstance(schema, pa.Schema):
        return from_arrow_schema(schema), None
    parts = schema.values() if isinstance(schema, Mapping) else schema if isinstance(schema, list | tuple) else ()
    if isinstance(schema, str):
        from paimon_pyds.base.types.sql_columns import parse_columns

        return parse_columns(schema), None
    if isinstance(schema, Mapping) and parts and all(isinstance(part, str) for part in parts):
        from paimon_pyds.base.types.sql_columns import parse_column

        ids = count()
        return tuple(parse_column(name, text, ids) for name, text in schema.items()), None
    if schema is None or any(isinstance(part, DataField | str) for part in parts):
        return columns("schema", schema), None
    try:
        found, rows = rows_of(schema)
    except SchemaError as error:
        error.name_row(0)
        raise
    if found is None:
        raise SchemaError("the data has no rows and no columns", hint="give an Arrow schema")
    if row_count(schema) is None:
        return from_arrow_schema(found), rows
    if type(schema).__module__.startswith("polars"):  # its batches are made one by one
        return from_arrow_schema(found), schema
    return from_arrow_schema(found), pa.Table.from_batches(list(rows), found)  # which tells how many rows it has
