"""Reading for Spark: planning on the driver, splits packed into partitions, Arrow batches in tasks.

A reader is pickled into every task before its partitions are planned: only the schema goes along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from paimon_pyds.base.cache import ByteLimitedCache, cached_property
from paimon_pyds.errors import OptionError, PredicateError, StorageError
from paimon_pyds.spark import compat
from paimon_pyds.spark.clear_errors import clear_errors, clear_iterator

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from paimon_pyds.engine.query.top_n_run import JoinedTopN, TopNQuery
    from paimon_pyds.engine.read.postponed_rows import WaitingRows
    from paimon_pyds.engine.scan.result import ScanPlan
    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.metadata.split import Split
    from paimon_pyds.scan import Scan
    from paimon_pyds.spark.options import ReadOptions
    from paimon_pyds.spark.state import Loaded, ReadState

BATCH_ROWS = 65_536
"""Rows of a batch at most: Spark copies each batch through a socket, small ones cost more."""
TASK_BYTES = 16 << 20
"""Data that a Spark task should have at least: a task costs 0.1 to 0.6 s before it reads anything."""
_FEW_FILES = 64
"""Files that one task opens in less time than a second task takes to start."""
_FILE_WEIGHT = 600
"""Bytes of a planned file in memory, about."""
_PLANS = ByteLimitedCache(64 << 20)


class SplitPartition(InputPartition):  # type: ignore[misc]
    """What one task reads: splits, partitions in which rows wait for their buckets, and how many rows at most."""

    def __init__(self, splits: Sequence[Split], limit: int | None, waiting: Sequence[WaitingRows] = ()) -> None:
        super().__init__(sum(len(split.files) for split in splits) + sum(map(len, waiting)))
        self.splits = tuple(splits)
        self.waiting = tuple(waiting)
        self.limit = limit

    def __repr__(self) -> str:
        rows = sum(split.row_count for split in self.splits)
        return f"SplitPartition({self.value} files, {rows} rows)"

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows of its splits, one after the other."""
        from paimon_pyds.engine.read import read_split

        left = self.limit
        reads: list[Callable[..., Iterator[pa.RecordBatch]]] = [partial(read_split, split) for split in self.splits]
        for read in (*reads, *(part.batches for part in self.waiting)):
            for batch in read(limit=left):
                rows = batch if left is None else batch.slice(0, left)
                left = None if left is None else left - rows.num_rows
                yield rows
                if left == 0:
                    return


class TopNPartition(InputPartition):  # type: ignore[misc]
    """The one task of a top n: it evaluates indexes, and reads the files without an exact answer."""

    def __init__(self, query: TopNQuery | JoinedTopN) -> None:
        super().__init__(len(query.files))
        self.query = query

    def __repr__(self) -> str:
        return f"TopNPartition({self.query.n} rows of {len(self.query.files)} files)"


class PaimonReader(DataSourceReader):  # type: ignore[misc]
    """Reads a table for Spark. ``schema`` is what Spark wants, the user's projection included."""

    def __init__(self, schema: StructType, options: ReadOptions, loaded: Loaded | None) -> None:
        self._schema = schema
        self._options = options
        self._loaded = loaded

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    @cached_property
    def _state(self) -> ReadState:
        from paimon_pyds.spark.state import open_state

        return open_state(self._options, self._loaded)

    @cached_property
    def _scan(self) -> Scan:
        """The scan of the wanted columns, its filter bound."""
        from paimon_pyds.metadata.split import METADATA_FIELDS
        from paimon_pyds.spark.projection import resolve_schema

        self._check_projection()
        available = [*self._state.schema.fields, *METADATA_FIELDS.values()]
        names = resolve_schema(available, compat.target_schema(self._schema))
        hidden = [name for name in names if name in METADATA_FIELDS]
        return self._state.scan((*(name for name in names if name not in METADATA_FIELDS), *hidden))

    def _check_projection(self) -> None:
        """Raise OptionError where the option ``columns`` and a user's ``.schema(…)`` name different columns."""
        if self._options.columns is None:
            return
        from paimon_pyds.spark.state import state_schema

        named = state_schema(self._state, self._options).names
        if [n.casefold() for n in named] != [n.casefold() for n in self._schema.names]:
            raise OptionError(
                f"the option columns names {', '.join(named)}, the schema given {', '.join(self._schema.names)}",
                hint="leave one of them out",
            )

    @clear_errors
    def partitions(self) -> Sequence[InputPartition]:
        """What the tasks read."""
        if self._options.explain is not None:
            _explain(self._scan, self._options)
        return self.plan()

    def plan(self) -> list[InputPartition]:
        """The splits to read, packed so that each is worth a task."""
        from paimon_pyds.scan import Scan

        scan = self._scan
        if self._options.top_n is not None:
            query = scan.top_n_query()
            return [TopNPartition(query)] if query.n and query.files else []
        limit = scan.request.row_limit
        if limit == 0:
            return []
        waiting: list[WaitingRows] = []
        plans: list[ScanPlan] = []
        for part in scan.sources:
            if isinstance(part, Scan):
                plans.append(planned(self._state, part) if part is scan else part.own_plan)
            else:
                waiting.append(part)
        splits = [split for plan in plans if plan.files for split in _packed(plan, limit, self._options)]
        if limit is not None:
            return [SplitPartition(splits, limit, waiting)] if splits or waiting else []
        return [*(SplitPartition([split], None) for split in splits), *(SplitPartition((), None, [w]) for w in waiting)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in exactly the schema that Spark wants. Runs in a task."""
        return clear_iterator(self._batches(partition))

    def _batches(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        from paimon_pyds.spark.arrow import conform_batch

        target = compat.target_schema(self._schema)
        for batch in self._rows(partition):
            yield conform_batch(batch, target)

    def _rows(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        return rows_of(partition)


def rows_of(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """The table's rows that a partition of a plan is about: none for what Spark makes up where a plan is empty."""
    if isinstance(partition, TopNPartition):
        from paimon_pyds.engine.query.answer import Tally
        from paimon_pyds.engine.query.top_n_run import run_top_n

        return iter(run_top_n(partition.query, Tally()).to_batches(max_chunksize=BATCH_ROWS))
    return partition.rows() if isinstance(partition, SplitPartition) else iter(())


class PaimonPushdownReader(PaimonReader):
    """A reader that takes Spark's filters. A class of its own: where it is defined, Spark's setting must be on."""

    @clear_errors
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take the filters that are answered exactly; give back the others.

        With ``topn`` all are given back: they are about its n rows, not about those to choose them from.
        """
        if self._options.top_n is not None:
            return filters
        from paimon_pyds.spark.filters import to_predicate

        columns = self._columns()
        scan, rest = self._scan, []
        for filter_ in filters:
            predicate = to_predicate(filter_, columns)
            if predicate is None:
                rest.append(filter_)
                continue
            try:
                scan = scan.where(predicate)
            except PredicateError:
                rest.append(filter_)
        self._scan = scan
        return rest

    def _columns(self) -> dict[str, Any]:
        """The table's columns by the names Spark uses for them; CHAR is left to Spark, which sees texts as stored."""
        from paimon_pyds.base.types import Kind
        from paimon_pyds.base.types.nested import find_name
        from paimon_pyds.spark.filters import PushedColumn
        from paimon_pyds.spark.types import spark_field

        fields = self._scan.schema.fields
        names = [f.name for f in fields]
        found = {}
        for column in self._schema.fields:
            at = find_name(names, column.name)
            if at is not None and fields[at].type.kind is not Kind.CHAR:
                own = spark_field(fields[at])
                found[column.name] = PushedColumn(fields[at], own.dataType == column.dataType)
        return found


def _packed(plan: ScanPlan, limit: int | None, options: ReadOptions) -> Sequence[Split]:
    """Splits: one for a small table or a limit, else about as many as this machine has cores, of a size at most.

    Large Parquet files are cut into windows, so that one file keeps several tasks busy.
    """
    if limit is not None:
        return plan.pack(max_splits=1)
    if "source.split.target-size" in options.scan:
        return plan.splits
    if _is_small(plan) and "source.split.open-file-cost" not in options.scan:
        return plan.pack(max_splits=1)
    weight = sum(max(file.size, plan.open_file_cost) for file in plan.files)
    share = -(-weight // (os.cpu_count() or 1))
    return plan.pack(target_size=max(min(plan.target_split_size, share), TASK_BYTES), cut=True)


def _is_small(plan: ScanPlan) -> bool:
    return len(plan.files) <= _FEW_FILES and sum(file.size for file in plan.files) <= TASK_BYTES


def _explain(scan: Scan, options: ReadOptions) -> None:
    """Write the explanation to the log of the planning process, or to a file: text, HTML or JSON by its suffix."""
    explanation = scan.explain()
    if options.explain == "log":
        sys.stderr.write(f"{explanation.text}\n")
        sys.stderr.flush()
        return
    from paimon_pyds.storage import open_file_io

    io, path = open_file_io(options.explain or "", options.storage)
    try:
        io.replace(path, explanation.rendered(path).encode())
    except StorageError as error:
        hint = "give the path of a file that can be written where Spark plans, or `log`"
        raise StorageError(f"explain: {error.message}", path=error.path, hint=hint) from error


def planned(state: ReadState, scan: Scan) -> ScanPlan:
    """The plan of a scan of this state. Plans of the newest snapshot are cached in the planning process.

    EXPLAIN plans a query too, and Spark 4.0 plans a query several times.
    """
    if state.options.travels or scan.snapshot is None:
        return scan.own_plan
    return _PLANS.get_or_load(_key(state, scan, scan.snapshot), lambda: scan.own_plan, _weigh)


def _key(state: ReadState, scan: Scan, snapshot: Snapshot) -> Hashable:
    """All that a plan depends on. A snapshot is known by its manifest lists: its number can come again."""
    from paimon_pyds.sql.predicate.to_sql import to_sql

    store, options = state.table._store, state.options
    return (
        store.root,
        store.branch,
        snapshot.base_manifest_list,
        snapshot.delta_manifest_list,
        scan.schema.id,
        state.loaded,
        tuple(scan.arrow_schema.names),
        to_sql(scan.predicate),  # by itself, 0.0 equals -0.0
        scan.predicate,
        scan.request.limit,
        tuple(sorted(options.scan.items())),
        tuple(sorted(options.storage.items())),
    )


def _weigh(plan: ScanPlan) -> int:
    selections = sum(len(file.selection or b"") for file in plan.files)
    return _FILE_WEIGHT * (1 + len(plan.files) + len(plan.skips)) + selections
