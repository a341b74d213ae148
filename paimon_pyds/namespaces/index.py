"""File indexes and the layout of data files: build, check, and find out what they are worth."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.options.option import integer, option_texts, path_like
from paimon_pyds.base.progress import shown
from paimon_pyds.namespaces.namespace import Namespace
from paimon_pyds.sql.predicate.argument import one_condition

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from paimon_pyds.engine.execution.executor import Executor
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.ops.index_tools.advise import AdviceReport
    from paimon_pyds.ops.index_tools.cost import CostReport
    from paimon_pyds.ops.index_tools.global_indexes import GlobalIndexSummary
    from paimon_pyds.ops.index_tools.inspect import IndexDump
    from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter
    from paimon_pyds.ops.index_tools.rewrite import RewriteSummary
    from paimon_pyds.ops.index_tools.verify import VerifyReport
    from paimon_pyds.ops.layout.data import Layout
    from paimon_pyds.ops.layout.partitions import PartitionAdvice
    from paimon_pyds.sql.predicate.tree import Predicate
    from paimon_pyds.typing import Filter, OptionValues, Progress


class Index(Namespace):
    """File indexes and file layout of a table: ``table.index``."""

    def build(
        self,
        where: Filter = None,
        *,
        rebuild: bool = False,
        executor: Executor | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> RewriteSummary:
        """Build the file indexes that options name and files lack, drop the others: one COMPACT snapshot.

        Args:
            where: a condition on partition columns.
            rebuild: build every index anew, as after a change of an index's own options.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `Table.append`.
            filter: another name for ``where``.

        Returns:
            A `RewriteSummary`: files, indexes and bytes, and the snapshot; None for it where nothing was to be built.

        Raises:
            OptionError: ``where`` names other columns than partition columns, or options of indexes are wrong.
            UnsupportedError: the table can't be written to.
            CommitError: not published; the new files were removed.
        """
        from paimon_pyds.ops.index_tools.rewrite import rewrite_file_index

        where = one_condition(where, filter)
        with shown("rewrite indexes", progress):
            summary = rewrite_file_index(self._store, where, rebuild=rebuild, executor=executor)
            self._maintain(summary.snapshot_id, None)
        return summary

    def build_global(
        self,
        column: str,
        *,
        kind: str = "btree",
        rebuild: bool = False,
        options: OptionValues | None = None,
        progress: Progress | None = None,
    ) -> GlobalIndexSummary:
        """Build a global index of a column for all rows that no index of its kind covers: one snapshot.

        Args:
            column: its name; a table of data evolution has it.
            kind: ``btree`` for filters; for `Scan.search` ``full-text`` of texts, and of vectors ``ivf-flat``,
                ``ivf-sq``, ``ivf-rq``, ``ivf-pq`` or ``diskann``. Those need the extra ``search``.
            rebuild: drop the indexes of this kind that the column has, and build one for all rows.
            options: of the index, besides those of the table: ``{"ivf-flat.distance.metric": "l2"}``.
            progress: as for `Table.append`.

        Returns:
            A `GlobalIndexSummary`: index files, rows and bytes, and the snapshot; None for it where nothing was to be
            built.

        Raises:
            OptionError: no such kind, or wrong options.
            SchemaError: no such column.
            UnsupportedError: the table is not one of data evolution, columns of the type can't have such an index, or a
                package is not installed.
            CommitConflictError: other commits changed the column meanwhile, again and again; nothing was published.
        """
        from paimon_pyds.ops.index_tools.global_indexes import build_global_index

        def read(snapshot: Snapshot, column: str, first: int, last: int) -> Iterator[RecordBatch]:
            rows, off = f"_ROW_ID BETWEEN {first} AND {last}", {"global-index.enabled": "false"}
            yield from self._table.scan(rows, [column, "_ROW_ID"], options=off).at_snapshot(snapshot).to_batches()

        with shown("build a global index", progress):
            summary = build_global_index(
                self._store, column, read, kind=kind, rebuild=rebuild, options=option_texts(options or {})
            )
            self._maintain(summary.snapshot_id, None)
        return summary

    def drop_global(self, column: str, *, kind: str = "btree") -> GlobalIndexSummary:
        """Drop the global indexes of a column: one snapshot. Older snapshots keep theirs.

        Args:
            column: its name.
            kind: of the indexes that go, such as ``btree`` or ``bitmap``.

        Returns:
            A `GlobalIndexSummary`: how many index files were dropped.

        Raises:
            SchemaError: no such column.
            CommitConflictError: other commits replaced the indexes meanwhile, again and again.
        """
        from paimon_pyds.ops.index_tools.global_indexes import drop_global_index

        summary = drop_global_index(self._store, column, index_type=kind)
        self._maintain(summary.snapshot_id, None)
        return summary

    def dump(self, where: Filter = None, *, filter: Filter = None) -> list[IndexDump]:
        """The contents of the containers of file indexes, index by index.

        Args:
            where: a condition on partition columns.
            filter: another name for ``where``.

        Returns:
            An `IndexDump` for each index of each file.

        Raises:
            OptionError: ``where`` names other columns than partition columns.
            CorruptFileError: a container is damaged.
        """
        from paimon_pyds.ops.index_tools.inspect import dump_table

        return dump_table(self._store, one_condition(where, filter))

    def verify(
        self,
        where: Filter = None,
        *,
        executor: Executor | None = None,
        progress: Progress | None = None,
        filter: Filter = None,
    ) -> VerifyReport:
        """Compare every file index with the data.

        Args:
            where: a condition on partition columns.
            executor: where the work runs; the cores of this machine by default.
            progress: as for `Table.append`.
            filter: another name for ``where``.

        Returns:
            A `VerifyReport`: its ``ok``, and ``findings`` with file, column and kind.

        Raises:
            OptionError: ``where`` names other columns than partition columns, or options of indexes are wrong.
        """
        from paimon_pyds.ops.index_tools.verify import verify_indexes

        where = one_condition(where, filter)
        with shown("verify indexes", progress):
            return verify_indexes(self._store, where, executor=executor)

    def evaluate(self, container: str | os.PathLike[str], where: str, rows: int | None = None) -> str | list[int]:
        """Evaluate a condition on one index container, as Java's readers do.

        Args:
            container: the path of an ``.index`` file on this machine.
            where: Spark SQL text, which names the table's columns as they are now.
            rows: how many rows the data file has; known where it is a live file of the table.

        Returns:
            ``"SKIP"`` where no row matches, ``"REMAIN"`` where the index rules nothing out, or the positions of the
            rows that may match, ascending.

        Raises:
            PredicateError: the condition does not parse, or names no column.
            OptionError: the number of rows is missing or wrong.
            CorruptFileError: the container is damaged.
            StorageError: it can't be read.
        """
        from paimon_pyds.ops.index_tools.inspect import evaluate_container

        path = os.fspath(path_like("container", container))
        return evaluate_container(self._store, path, where, None if rows is None else integer("rows", rows))

    def cost(
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
            filters: conditions to try them with.
            files: how many files to sample.
            where: a condition on partition columns.
            progress: as for `Table.append`.

        Returns:
            A `CostReport`: bytes and seconds of each index, and the rows that each filter leaves.

        Raises:
            OptionError: options of indexes are wrong, or ``where`` names other columns than partition columns.
            PredicateError: a filter does not fit the table.
        """
        from paimon_pyds.ops.index_tools.cost import index_cost

        tried = None if options is None else option_texts(options)
        with shown("index cost", progress):
            return index_cost(self._store, tried, filters, files=files, where=where)

    def advise(
        self,
        filters: Sequence[RecordedFilter | str],
        *,
        files: int = 3,
        where: Filter = None,
        progress: Progress | None = None,
    ) -> AdviceReport:
        """Which indexes recorded filters call for, and which ones waste space.

        The rules are in `paimon_pyds.ops.index_tools.advise`.

        Args:
            filters: those of past queries, as text or as `RecordedFilter` with how often.
            files: how many data files are looked into.
            where: a condition on partition columns; the other partitions are left out.
            progress: as for `Table.append`.

        Returns:
            An `AdviceReport`: the advice on each column, and the options that `Table.alter` takes for it.

        Raises:
            OptionError: ``where`` names other columns than partition columns, or options of indexes are wrong.
        """
        from paimon_pyds.ops.index_tools.advise import index_advise

        with shown("advise", progress):
            return index_advise(self._store, filters, files=files, where=where)

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
            progress: as for `Table.append`.
            filter: another name for ``where``.

        Returns:
            A `Layout`.

        Raises:
            UnknownColumnError: no such column.
            OptionError: the values of a column have no order, or ``where`` names other columns than partition columns.
            SnapshotNotFoundError: no such snapshot, or it has expired.
            CorruptFileError: a manifest is damaged.
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
            progress: as for `Table.append`.

        Returns:
            A `PartitionAdvice`: its ``choices``, the best first, with how much each partition would hold.

        Raises:
            OptionError: ``where`` names other columns than partition columns, or ``files`` < 1.
            UnsupportedError: the table can't be read.
            CorruptFileError, StorageError: a file can't be read.
        """
        from paimon_pyds.ops.layout.partitions import advise_partition

        with shown("advise", progress):
            return advise_partition(self._store, filters, files=files, where=where)
