"""Table: what a user holds. It only delegates, to the rooms that ARCHITECTURE.md lists."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from paimon_pyds.base.cache import collection_paused
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
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.base.text import one_line
from paimon_pyds.base.types import DataField, arrow_schema, from_arrow_schema
from paimon_pyds.errors import AlreadyExistsError, ArgumentTypeError, SchemaError, suggest
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
    from paimon_pyds.engine.rowlevel.changes import RowSummary
    from paimon_pyds.engine.stream.follow import Follow
    from paimon_pyds.engine.stream.position import StreamPosition
    from paimon_pyds.engine.write import WriteContext
    from paimon_pyds.metadata.commit_message import CommitMessage
    from paimon_pyds.namespaces.branches import Branches
    from paimon_pyds.namespaces.index import Index
    from paimon_pyds.namespaces.maintenance import Maintenance
    from paimon_pyds.namespaces.snapshots import Snapshots
    from paimon_pyds.namespaces.system import System
    from paimon_pyds.namespaces.tags import Tags
    from paimon_pyds.ops.ddl.alter import SchemaChanges
    from paimon_pyds.ops.ddl.create import TableDefinition
    from paimon_pyds.ops.explain.explain import Explanation
    from paimon_pyds.ops.maintenance.removal import RemovalSummary
    from paimon_pyds.ops.stream_writer import StreamWriter
    from paimon_pyds.scan import Scan
    from paimon_pyds.sql.expression.bound import Operand
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
        UnmatchedChanges,
    )

__all__ = ["Table"]


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

        Returns:
            The table.

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

        Returns:
            The new table.

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
            with unmade_on_failure(made._store):
                made.append(rows, missing_columns="null")
        return made

    @property
    def path(self) -> str:
        """Where the table is."""
        return self._store.root

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
    def tags(self) -> Tags:
        """The tags of a table: names that keep a state readable."""
        from paimon_pyds.namespaces.tags import Tags

        return Tags(self)

    @property
    def branches(self) -> Branches:
        """The branches of a table: histories of their own."""
        from paimon_pyds.namespaces.branches import Branches

        return Branches(self)

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of a table: list, compare, expire, go back to one."""
        from paimon_pyds.namespaces.snapshots import Snapshots

        return Snapshots(self)

    @property
    def index(self) -> Index:
        """File indexes and the layout of data files: build, check, and find out what they are worth."""
        from paimon_pyds.namespaces.index import Index

        return Index(self)

    @property
    def maintenance(self) -> Maintenance:
        """Operations that keep a table sound and small."""
        from paimon_pyds.namespaces.maintenance import Maintenance

        return Maintenance(self)

    @property
    def system(self) -> System:
        """System tables: what a table's metadata says, as rows."""
        from paimon_pyds.namespaces.system import System

        return System(self)

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
                matches nothing. The keys prune partitions, buckets, files and pages; they are held in memory.
            filter: another name for ``where``.

        Returns:
            The scan; it reads metadata now, and rows when it is run.

        Raises:
            PredicateError: the condition does not parse, or mixes types.
            UnknownColumnError: no such column.
            SnapshotNotFoundError, TagNotFoundError: no such state.
            OptionError: an unknown or contradictory option.
            UnsupportedError: a table or option that is refused by name.
        """
        with collection_paused():
            from paimon_pyds.engine.scan.travel import scan_options
            from paimon_pyds.scan import Scan

        given = scan_options(snapshot, tag, timestamp, options)
        wanted = one_condition(where, filter)
        made = Scan(self._store, where=wanted, columns=columns, limit=limit, top_n=top_n, options=given)
        return made if matching is None else made.matching(matching)

    def follow(  # noqa: PLR0913 - named arguments that users type
        self,
        from_: str | int | date | None = None,
        where: Filter = None,
        columns: Sequence[str] | None = None,
        *,
        rowkind_column: str | None = None,
        other_kinds: Literal["refuse", "drop"] = "refuse",
        position: StreamPosition | str | Mapping[str, Any] | None = None,
        consumer_id: str | None = None,
        poll: str | float | timedelta = "5s",
        until: str | int | date | None = None,
        options: OptionValues | None = None,
        filter: Filter = None,
    ) -> Follow:
        """The changes of the table as they come, endlessly: for ``for`` and ``async for``. See docs/streams.md.

        Args:
            from_: where to start: ``"latest-full"``, the default, gives the newest state and then what follows;
                ``"latest"`` only what follows; ``"compacted-full"`` the state of the last compaction; a snapshot's
                number, its changes and what follows; a tag, the state that it keeps and what follows; a datetime, a
                date or a text such as ``"2026-01-31 12:30:00"``, the changes since that time.
            where: as for `scan`; it acts on each row of a change by itself.
            columns: columns to return; all by default.
            rowkind_column: the name of a first column with the kind of each row: ``+I``, ``-U``, ``+U`` or ``-D``.
            other_kinds: without that column, a row of another kind than ``+I`` is an error (``"refuse"``), or is left
                out (``"drop"``).
            position: go on from the `position` of a change, or of its ``to_json()``, instead of ``from_``.
            consumer_id: a name under which the table stores how far this reader has come, which keeps what it has yet
                to read from expiring, and is where it goes on without a ``position``. A change counts as processed once
                the next one is wanted.
            poll: the pause between two looks for a new snapshot: seconds, or a text with a unit.
            until: where to end: ``"latest"``, with the newest snapshot at the start; a snapshot's number, with that; a
                time, with the last snapshot until then. Never by default.
            options: Paimon's options of streams, such as ``{"scan.mode": "from-file-creation-time"}``.
            filter: another name for ``where``.

        Returns:
            A `Follow`: an iterator of `Change`, each with rows of one snapshot, its number, and the position after it.

        Raises:
            PredicateError, UnknownColumnError, SchemaError: the condition or the columns.
            SnapshotNotFoundError, TagNotFoundError: no such start; while it runs, that what comes next has expired, or
                the table was rolled back or created anew.
            OptionError: an unknown or contradictory option.
            UnsupportedError: a table or option of which there are no streams; a row of another kind.
        """
        from paimon_pyds.engine.stream.from_python import follow

        given = dict(options or {}) if consumer_id is None else {**(options or {}), "consumer-id": consumer_id}
        return follow(
            self._store, from_, position, until, poll, where=one_condition(where, filter), columns=columns,
            kind_column=rowkind_column, other_kinds=other_kinds, options=given,
        )  # fmt: skip

    def head(self, n: int = 5) -> pa.Table:
        """The first rows, at most ``n``; no more files are read than it takes.

        Args:
            n: how many rows.

        Returns:
            The rows, in the order in which a scan reads them.

        Raises:
            OptionError: ``n`` < 0.
        """
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
        """All rows of the newest snapshot as a DuckDB relation: see `RowStream.to_duckdb`.

        Args:
            connection: a connection of DuckDB; its default one when None.

        Returns:
            The relation.

        Raises:
            UnsupportedError: duckdb is not installed.
        """
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
            analyze: run the scan as well, and show what it read.
            scan: further arguments of `scan`.

        Returns:
            An `Explanation`; ``print`` shows it.
        """
        return self._scan("explain", scan, where=where).explain(analyze=analyze)

    def count(self, where: Filter = None, **scan: Unpack[ScanArguments]) -> int:
        """How many rows match the condition: from metadata and indexes where they know it, else by reading.

        Args:
            where: a condition, as `scan` takes it; all rows by default.
            scan: further arguments of `scan`.

        Returns:
            The number.
        """
        return self._scan("count", scan, where=where).count()

    def exists(self, where: Filter = None, **scan: Unpack[ScanArguments]) -> bool:
        """Whether any row matches the condition.

        Args:
            where: a condition, as `scan` takes it; all rows by default.
            scan: further arguments of `scan`.

        Returns:
            True where at least one row matches.
        """
        return self._scan("exists", scan, where=where).answer.exists().value

    def distinct(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> pa.Table:
        """The distinct values of a column, ascending with NULL first, and the ``count`` of rows that hold each.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.

        Returns:
            A table with that column and ``count``.
        """
        return self._scan("distinct", scan, where=where).answer.distinct(column).value

    def min(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The smallest value of a column; None when all are NULL.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.

        Returns:
            The value, as a Python object.
        """
        return self._scan("min", scan, where=where).answer.min(column).value

    def max(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The largest value of a column; None when all are NULL. NaN is larger than all numbers.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.

        Returns:
            The value, as a Python object.
        """
        return self._scan("max", scan, where=where).answer.max(column).value

    def sum(self, column: str, where: Filter = None, **scan: Unpack[ScanArguments]) -> Any:
        """The sum of a column, typed as in Spark; None when all values are NULL. See `Answers.sum`.

        Args:
            column: its name.
            where: which rows count; all by default.
            scan: further arguments of `scan`.

        Returns:
            The value, as a Python object.
        """
        return self._scan("sum", scan, where=where).answer.sum(column).value

    def top_n(self, order: str, where: Filter = None, **scan: Unpack[RowArguments]) -> pa.Table:
        """The first rows in an order.

        Args:
            order: columns and how many rows, such as ``"amount desc, 10"``: see ``top_n`` of `scan`.
            where: which rows count; all by default.
            scan: further arguments of `scan`.

        Returns:
            The rows, sorted.

        Raises:
            OptionError: the order does not parse.
            UnknownColumnError: no such column.
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
            return lookup_rows(self._scan("lookup", scan, columns=columns), keys)

    def append(
        self,
        data: Rows,
        *,
        rowkind_column: str | None = None,
        missing_columns: MissingColumns | None = None,
        strict: bool = True,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> Snapshot | None:
        """Append rows as one snapshot. In a table with a primary key they are merged with the rows of their keys.

        Args:
            data: a pandas or polars DataFrame (lazy ones, too), a pyarrow Table, batch or reader, a DuckDB relation, a
                dictionary of columns, a list of rows (dictionaries, dataclasses, named tuples or models of pydantic),
                anything with ``__arrow_c_stream__``, or an iterable of these. Columns are matched by name, and Python's
                own values converted by their types: a dictionary or pairs are a MAP, a dictionary or a row is a ROW.
                Floats of a pandas frame, NaN for NULL, go into integers where all are whole.
            rowkind_column: the column of the data that has the kind of each row, and that is not stored: ``+I`` or
                ``+U`` for a row to add, ``-U`` or ``-D`` for one to take away. For tables with a primary key only.
            missing_columns: what becomes of columns that the data, or a dictionary in it, does not have. With ``null``
                they are NULL, or their default. With ``refuse`` only those with a default may be missing. When None,
                missing columns are taken unless NULL could take the place of a value: tables with the merge engine
                deduplicate or first-row need all columns, those with partial-update all of a sequence group whose
                sequence field the data has, those with aggregation the columns whose function takes NULL for a value
                (first_value, last_value). Rows to take away need their key only. An option of the same meaning,
                ``missing-columns``, may be given to other writes, and be stored in a table.
            strict: of Python's own values in lists, dictionaries and rows: False takes texts of numbers, dates, times
                and truth values, numbers as decimals, integers and truth values where they stay the same, and times
                with and without a time zone in each other's place, by the local zone.
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
            store = self._store
            snapshot = append(store, _with_columns(store, data, own, strict=strict), own, strict=strict)
            self._maintain(None if snapshot is None else snapshot.id, own)
        return snapshot

    def stream_writer(
        self,
        user: str,
        *,
        rowkind_column: str | None = None,
        missing_columns: MissingColumns | None = None,
        strict: bool = True,
        options: OptionValues | None = None,
    ) -> StreamWriter:
        """A writer whose commits have numbers, and of which each is made once, whatever is repeated after a crash.

        Args:
            user: the name of the stream, such as ``"job-7"``: its snapshots have it as their commit user. Each stream
                into the table needs a name of its own, and has it again after a restart.
            rowkind_column: as for `append`.
            missing_columns: as for `append`.
            strict: as for `append`.
            options: table options for all of its writes.

        Returns:
            A `StreamWriter`, to be used in a ``with`` block.

        Raises:
            UnsupportedError: the table can't be written to.
            OptionError: no name, an unknown option, or a bad value.
        """
        from paimon_pyds.ops.stream_writer import StreamWriter

        own = with_settings(options, {"rowkind-column": rowkind_column, "missing-columns": missing_columns})
        return StreamWriter(self._store, user, own, strict=strict)

    def overwrite(
        self,
        data: Rows,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        *,
        strict: bool = True,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> Snapshot | None:
        """Replace rows as one snapshot.

        Args:
            data: as for `append`.
            partition: replace only these partitions, such as ``{"dt": "2026-01-31"}``; the whole table when None.
            dynamic: replace the partitions that the data has rows in, and no other.
            strict: as for `append`.
            options: as for `append`. Missing columns are NULL, or their default, unless ``missing-columns`` is
                ``refuse``, or keys may come from partitions that stay.
            progress: as for `append`.

        Returns:
            The new snapshot; None when there was neither a row to replace nor a new one.

        Raises:
            SchemaError: as for `append`; data without columns, or with others than the table's, does not empty it.
        """
        from paimon_pyds.engine.append import OverwriteMode, overwrite

        with shown("overwrite", progress):
            store, own = self._store, option_texts(options)
            rows = _with_columns(store, data, own, strict=strict)
            snapshot = overwrite(store, rows, OverwriteMode(partition, dynamic), own, strict=strict)
            self._maintain(None if snapshot is None else snapshot.id, options)
        return snapshot

    def write_context(self, options: OptionValues | None = None, *, overwrite: bool = False) -> WriteContext:
        """What a task needs to write to this table with a `TableWriter`. It pickles.

        Args:
            options: as for `append`.
            overwrite: the rows are to be committed as an overwrite.

        Returns:
            The context, which pickles.

        Raises:
            UnsupportedError: the table can't be written to.
            OptionError: an unknown option, or a bad value.
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
            overwrite: the new files replace the old ones.
            partition: replace only these partitions; the whole table when None.
            dynamic: replace the partitions that have new files, and no other.
            options: table options over the table's own.

        Returns:
            The snapshot; None when the messages have no file.

        Raises:
            AlreadyCommittedError: the table has some of the files by an earlier commit; nothing was published.
            CommitConflictError: such as when the table was dropped and created again since the files were written.
            CommitError: not published.
            CommitOutcomeUnknownError: the storage did not say; no file is removed.
        """
        from paimon_pyds.engine.append import OverwriteMode, commit_messages

        mode = OverwriteMode(partition, dynamic) if overwrite else None
        snapshot = commit_messages(self._store, messages, overwrite=mode, options=option_texts(options))
        self._maintain(None if snapshot is None else snapshot.id, options)
        return snapshot

    def abort(self, messages: Sequence[CommitMessage | None]) -> None:
        """Remove the files of messages that will not be committed.

        Args:
            messages: of all writers; None among them is skipped.

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

        Returns:
            The new schema.

        Raises:
            SchemaError: a column that does not exist, or a change that Paimon does not allow.
            OptionError: an option that is unknown or can't be changed, a secret, or a bad value.
            UnsupportedError: a type or option value that is refused by name.
            CommitError: others changed the schema at the same time, too many times.
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

        Returns:
            A `RowSummary`: rows, files and the snapshot.

        Raises:
            PredicateError: the condition does not parse, or names no column.
            OptionError: no condition, or an unknown option.
            UnsupportedError: rows of this table can't be deleted here.
            CommitConflictError, CommitError, CommitOutcomeUnknownError: not published, or the outcome is unknown.
        """
        from paimon_pyds.engine.rowlevel.delete import delete

        where = one_condition(where, filter)
        with shown("delete", progress):
            summary = delete(self._store, where, matching=matching, executor=executor, options=option_texts(options))
            self._maintain(summary.snapshot_id, options, changed_rows=True)
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

        Returns:
            A `RowSummary`: rows, files and the snapshot.

        Raises:
            PredicateError: the condition or a value does not parse, names no column, or fails on a value.
            SchemaError: no such column to set, or NULL for one that is NOT NULL.
            OptionError: nothing to set, or an unknown option.
            UnsupportedError: rows of this table can't be updated here.
            CommitConflictError, CommitError, CommitOutcomeUnknownError: not published, or the outcome is unknown.
        """
        from paimon_pyds.engine.rowlevel.update import update

        where = one_condition(where, filter)
        with shown("update", progress):
            summary = update(self._store, mapping("set", set), where, executor=executor, options=option_texts(options))
            self._maintain(summary.snapshot_id, options, changed_rows=True)
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

        Returns:
            A `RowSummary`: rows, files and the snapshot.

        Raises:
            CardinalityError: two rows of the source would change one row of the table; nothing was changed.
            SchemaError: a value of a clause without columns does not fit; the message names column, value and row.
        """
        from paimon_pyds.engine.rowlevel.clauses import MergeOptions
        from paimon_pyds.engine.rowlevel.merge_into import merge_into
        from paimon_pyds.ops.ddl.merge_schema import with_columns_of_clauses

        how = MergeOptions(when_matched, when_not_matched, when_not_matched_by_source, option_texts(options))
        with shown("merge", progress):
            store = self._store
            summary = merge_into(store, with_columns_of_clauses(store, source, how), on, how, executor=executor)
            self._maintain(summary.snapshot_id, options, changed_rows=True)
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

        Returns:
            A `CompactSummary`: files before and after, and the snapshot; None for it where nothing was done.

        Raises:
            OptionError: ``where`` names other columns than partition columns, or ``order_by`` columns without order.
            UnsupportedError: the table can't be written to or compacted.
            CorruptFileError: a data file is damaged; the table is as it was.
            CommitError: not published; the new files were removed.
        """
        from paimon_pyds.engine.compact.compact import compact
        from paimon_pyds.engine.compact.options import CompactOptions

        where = one_condition(where, filter)
        how = CompactOptions(where, order_by, order, full, dry_run, option_texts(options))
        with shown("compact", progress):
            summary = compact(self._store, how, executor)
            self._maintain(summary.snapshot_id, options)
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

        Raises:
            UnsupportedError: the table can't be written to.
            CommitError: not published.
        """
        from paimon_pyds.ops.maintenance.drop_partitions import truncate

        with shown("truncate", progress):
            summary, snapshot = truncate(self._store, option_texts(options), dry_run=dry_run)
            self._maintain(None if snapshot is None else snapshot.id, options)
        return summary

    def _maintain(self, committed: int | None, options: OptionValues | None, *, changed_rows: bool = False) -> None:
        """Do what follows a commit; None for a call that committed nothing. ``changed_rows``: it changed rows, or would
        have if it had found some."""
        if committed is not None or changed_rows:
            from paimon_pyds.ops.after_commit import after_commit

            after_commit(self._last_store, committed, option_texts(options))

    def __repr__(self) -> str:
        branch = "" if self._last_store.branch == "main" else f"branch {self._last_store.branch}"
        return one_line(self, self._last_store.root, branch, "" if self._is_there() else "no table is here any more")

    def __str__(self) -> str:
        from paimon_pyds.ops.explain.notebook import table_text

        return table_text(repr(self), self._last_store)

    def _is_there(self) -> bool:
        try:
            return bool(self._store.schema_ids())
        except Exception:  # noqa: BLE001 - nothing is known then, and a repr does not fail
            return True

    def _repr_html_(self) -> str:
        from paimon_pyds.ops.explain.notebook import table_html

        return table_html(self._store)


def _with_columns(store: TableStore, data: Rows, options: Mapping[str, str], *, strict: bool) -> Any:
    """The rows of a write, once the table has the columns that they bring, if they may."""
    from paimon_pyds.engine.execution.writing import is_merging

    if not is_merging(store, options):
        return data
    from paimon_pyds.ops.ddl.merge_schema import with_columns_merged  # other writes do without

    return with_columns_merged(store, data, options, strict=strict)


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
    from paimon_pyds.base.frames import row_count, rows_of

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
    return from_arrow_schema(found), pa.Table.from_batches(list(rows), found)  # which knows how many rows it has
