"""Scan: a query on one table, from filter text to Arrow batches."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa

from paimon_pyds.base.arrays import empty_table
from paimon_pyds.base.cache import cached_property, collection_paused
from paimon_pyds.base.options import (
    Kind,
    TableOptions,
    blob_options,
    check_branch,
    check_known,
    check_readable,
    check_shape,
    parse_value,
)
from paimon_pyds.base.options.option import integer, mapping, text, texts
from paimon_pyds.base.options.times import zone_given
from paimon_pyds.base.progress import followed, shown
from paimon_pyds.base.row_stream import RowStream, library
from paimon_pyds.base.text import names_text, one_line
from paimon_pyds.base.types import DataField, arrow_schema, fields_named
from paimon_pyds.base.types import Kind as TypeKind
from paimon_pyds.base.zones import default_zone
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import Difference, Incremental, resolve_between, resolve_state, state_options
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError, UnsupportedError, suggest
from paimon_pyds.format import HELD_BATCH_BYTES, has_kind
from paimon_pyds.metadata.row_ids import condition_fields
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.split import METADATA_FIELDS, ViewFinder
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.argument import condition
from paimon_pyds.sql.predicate.tree import Const, Predicate, make_and
from paimon_pyds.storage import requests_at_once

if TYPE_CHECKING:
    import daft
    import ray.data
    import torch

    from paimon_pyds.engine.query.aggregates import Answers
    from paimon_pyds.engine.query.answer import Answer
    from paimon_pyds.engine.query.postponed_partitions import MergedPartitions
    from paimon_pyds.engine.query.top_n_run import JoinedTopN, TopNQuery
    from paimon_pyds.engine.read import FileTrace
    from paimon_pyds.engine.read.blob import Blob
    from paimon_pyds.engine.read.postponed_rows import WaitingRows
    from paimon_pyds.engine.read.task import ReadTask
    from paimon_pyds.engine.scan.result import JoinedPlan, ScanPlan
    from paimon_pyds.ops.explain.explain import Explanation
    from paimon_pyds.sql.text.order import TopN
    from paimon_pyds.typing import Rows

DEFAULT_BATCH_ROWS = 65_536
"""Rows of a batch: large enough for arrays, small enough for memory with wide rows."""
OTHER_BRANCHES = ("scan.fallback-branch", "scan.primary-branch", "chain-table.enabled")
"""The options by which partitions come from other branches too."""
SOON_ROWS = 100_000
"""Rows below which a scan of a local table ends too soon to show progress."""


CHAINS = {"chain-table.enabled": "false"}
"""Options of a check of single branches: chains are read from several scans."""

__all__ = ["Scan"]


class _Beside(NamedTuple):
    """Scans of other branches that partitions come from too; where these are two, of a chain. ``wins``: partitions that
    several branches have come from the other one."""

    scans: tuple[Scan, ...]
    wins: bool


class Scan(RowStream):
    """A query on one state of a table: what to return, and which rows.

    The state is pinned when the scan is made; a scan can be run several times and gives the same rows.

    Args:
        store: the table.
        where: Spark SQL text, or a predicate tree.
        columns: names of the columns to return, in this order; metadata columns (``__paimon_file_path``, …) included.
        limit: the number of rows to return at most.
        top_n: return the first rows in an order, sorted: ``"amount desc nulls last, 10"``.
        options: Paimon's scan options, ``timezone`` for literals without a zone (the local one by default), and
            ``read-optimized``: of a table with a primary key the files of the highest level only (Paimon's ``$ro``).

    Raises:
        PredicateError: the condition does not parse, or mixes types.
        UnknownColumnError: a name of no column.
        OptionError: an unknown or contradictory option.
        ArgumentTypeError: an argument of another Python type.
        UnsupportedError: a table or option that is refused by name.
    """

    _INTERNAL: ClassVar[frozenset[str]] = frozenset({
        "analyzed_rows", "at_snapshot", "check_alone", "estimated_rows", "field", "has_two_branches", "is_whole",
        "ordered", "own_plan", "parts", "plain_files", "plan_with_bounds", "request", "root", "schemas", "selecting",
        "sources", "top_n_query", "top_rows", "used_fields", "waiting", "where_bound",
    })  # fmt: skip

    def __init__(  # noqa: PLR0913 - named arguments that users type
        self,
        store: TableStore,
        *,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        top_n: str | TopN | None = None,
        options: Mapping[str, str] | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        limit = None if limit is None else integer("limit", limit)
        if limit is not None and limit < 0:
            raise OptionError(f"limit must not be negative, it is {limit}")
        self._store, self._batch_rows = store, batch_rows
        given = {str(k): str(v) for k, v in mapping("options", options or {}).items()}
        branch = given.pop("branch", store.branch)
        if branch != store.branch:
            store = self._store = store.for_branch(branch)
        of_both = dict(given)
        zone = zone_given(given) or default_zone()
        read_optimized = parse_value("read-optimized", Kind.BOOLEAN, given.pop("read-optimized", "false"))
        with store.newest_ahead():
            latest = store.latest_schema()
            check_branch(latest, store.branch, store.root)
            given = state_options(latest.options, given)
            state = resolve_state(store, latest, given)
        between = resolve_between(store, given, TableOptions({**latest.options, **given}))
        if isinstance(between, Difference):
            state = replace(state, snapshot=between.end)
        if read_optimized and between is not None:
            raise OptionError("read-optimized and incremental-between can't be given together", hint="leave one out")
        options = {k: v for k, v in given.items() if k != "timezone"}
        check_known(options, ("timezone", "read-optimized"), own=False)
        check_readable(latest, {**options, **CHAINS})
        check_shape(latest, options, store.root, reads=True)
        fields, metadata = _resolve_columns(state.schema, columns)
        self.request = ScanRequest(
            state=state,
            predicate=Const.TRUE,
            fields=fields,
            options=TableOptions({**_options_of(latest, state.schema), **options}),
            metadata_columns=metadata,
            limit=limit,
            between=between,
            read_optimized=read_optimized,
            zone=zone,
            find_views=_view_finder(state.schema),
        )
        predicate = self._bound(where)
        order = None if top_n is None else self._checked_order(top_n)
        self.request = replace(self.request, predicate=predicate, top_n=order)
        self._beside = self._branches_beside(of_both) if any(map(self.options.get, OTHER_BRANCHES)) else None

    def _branches_beside(self, given: Mapping[str, str]) -> _Beside | None:
        """The scans of other branches that partitions come from too; None without one, or where they had no snapshot
        yet. ``given``: the options of this scan."""
        from paimon_pyds.engine.query.chain_table import chain_branches, check_chain
        from paimon_pyds.engine.scan.other_branch import ALONE, check_same_columns, options_there, other_branch

        chain = chain_branches(self.options, self._store.branch)
        named = other_branch(self.options, self._store.branch)
        if chain is None and named is None:
            return None
        if self.between is not None or (chain is not None and named is not None):
            what = "what was added between two states" if self.between is not None else "a chain with a third branch"
            raise UnsupportedError(
                f"{what} can't be read where partitions come from two branches",
                path=self.root,
                hint=f"read one branch alone: options={ALONE}",
                feature="branches-of-partitions" if chain is None else "chain-tables",
            )
        scans, request = [], self.request
        for name in chain or ([] if named is None else [named.name]):
            store = self._store.for_branch(name)
            check_same_columns(self.schema, store.latest_schema(), name)
            options = options_there(self._store, store, given)
            if options is not None:
                columns = [*(field.name for field in request.fields), *request.metadata_columns]
                other = Scan(store, where=request.predicate, columns=columns, options=options)
                other._batch_rows = self._batch_rows
                scans.append(other._but(predicate=request.predicate, limit=request.limit, top_n=request.top_n))
        if chain is not None:
            check_chain([scan.schema for scan in scans])
        return _Beside(tuple(scans), named is not None and named.wins) if scans else None

    def _bound(self, filter_: str | Predicate | None) -> Predicate:
        if filter_ is None or (isinstance(condition("where", filter_), str) and not str(filter_).strip()):
            return Const.TRUE
        fields = condition_fields(self.schema.fields, self.options)
        if isinstance(filter_, str):
            from paimon_pyds.sql.expression.condition import bind_filter

            return bind_filter(filter_, fields, timezone=self.request.zone)
        from paimon_pyds.sql.predicate.bind import bind

        return bind(filter_, fields, timezone=self.request.zone)

    def matching(self, keys: Rows) -> Scan:
        """The same scan, but of rows that have the values of one of some keys: see ``matching`` of `Table.scan`.

        Args:
            keys: rows with some of the table's columns.

        Returns:
            The new scan.

        Raises:
            SchemaError: the table has no column of the keys, or one whose values can't be compared with theirs.
        """
        from paimon_pyds.sql.expression.matching import key_table, matching_rows  # most scans have none

        return self.where_bound(matching_rows(key_table(keys), self.schema.fields, self.request.zone or default_zone()))

    def where(self, condition: str | Predicate) -> Scan:
        """The same scan with one more condition.

        Args:
            condition: Spark SQL text, or a predicate.

        Returns:
            The new scan.

        Raises:
            PredicateError: the condition does not parse, or mixes types.
            UnknownColumnError: no such column.
        """
        return self.where_bound(self._bound(condition))

    def where_bound(self, predicate: Predicate) -> Scan:
        """The same scan with one more condition, which is bound to the table's columns already."""
        return self._but(predicate=make_and(self.predicate, predicate))

    def at_snapshot(self, snapshot: Snapshot) -> Scan:
        """The same scan of another state, whose rows have the columns that the table has now."""
        return self._but(state=replace(self.request.state, snapshot=snapshot))

    def _but(self, store: TableStore | None = None, **changed: Any) -> Scan:
        clone = object.__new__(Scan)
        clone._store, clone._batch_rows = store or self._store, self._batch_rows
        clone.request = replace(self.request, **changed)
        clone._beside = None
        if self._beside is not None:
            others = []
            for other in self._beside.scans:
                there = None if store is None else store.for_branch(other._store.branch)
                others.append(other._but(there, **other._own_columns(changed)))
            clone._beside = _Beside(tuple(others), self._beside.wins)
        return clone

    def _own_columns(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        """Changes of a scan of another branch, whose columns may have other ids and NULLs."""
        if "fields" not in changed:
            return dict(changed)
        own = {field.name: field for field in self.schema.fields}
        return {**changed, "fields": tuple(own.get(field.name, field) for field in changed["fields"])}

    @property
    def has_two_branches(self) -> bool:
        """Whether partitions come from several branches."""
        return self._beside is not None

    @cached_property
    def parts(self) -> tuple[Scan, ...]:
        """The scans of one branch each that have the rows of this one: itself, unless partitions come from several."""
        if self._beside is None:
            return (self,)
        from paimon_pyds.engine.scan.other_branch import partitions_with_files
        from paimon_pyds.engine.scan.request import Chain

        own = self._but()
        own._beside = None
        others, wins = self._beside
        first, *rest = (*others, own) if wins else (own, *others)
        known, found = partitions_with_files(first._store, first.request), [first]
        for part in rest:
            here = partitions_with_files(part._store, part.request) - known
            chain = None if len(others) == 1 or part is not others[1] else Chain(others[0]._store, others[0].request)
            if here:
                found.append(part._but(partitions=here, chain=chain))
            known |= here
        return tuple(found)

    @property
    def schema(self) -> TableSchema:
        """The table's schema at the state this scan reads."""
        return self.request.state.schema

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot this scan reads; None for a table that was never written."""
        return self.request.state.snapshot

    @property
    def snapshot_id(self) -> int | None:
        """Its number."""
        return None if self.snapshot is None else self.snapshot.id

    @property
    def between(self) -> Incremental | None:
        """What an incremental scan reads; None for other scans."""
        return self.request.between

    @property
    def options(self) -> TableOptions:
        """The table's options, with those of the scan."""
        return self.request.options

    @property
    def root(self) -> str:
        """The table's path."""
        return self._store.root

    @property
    def predicate(self) -> Predicate:
        """The bound filter."""
        return self.request.predicate

    def _check_types(self) -> None:
        """Raise UnsupportedError for a column of a type that can't be read, by its name."""
        _ = self.arrow_schema

    @property
    def used_fields(self) -> tuple[DataField, ...]:
        """The table's columns that the scan returns, filters by, or sorts by."""
        request = self.request
        return (*request.fields, *request.filter_fields, *self._sorted_by(request.top_n))

    def _sorted_by(self, order: TopN | None) -> tuple[DataField, ...]:
        return () if order is None else tuple(_column(self.schema, column.name) for column in order.columns)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns that the scan returns."""
        return (*(f.name for f in self.request.fields), *self.request.metadata_columns)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the result. Raises UnsupportedError for a column of a type that can't be read."""
        return arrow_schema([*self.request.fields, *(METADATA_FIELDS[m] for m in self.request.metadata_columns)])

    @cached_property
    def own_plan(self) -> ScanPlan:
        """The plan of a scan that is one of its `sources`."""
        return self._planned(self.request)

    @cached_property
    def waiting(self) -> MergedPartitions | None:
        """The partitions that are merged with rows that wait for their buckets; None where none are."""
        if not self.options.get("postpone.merge-on-read"):
            return None
        from paimon_pyds.engine.query.postponed_partitions import merged_partitions, merges_waiting

        if not merges_waiting(self.request):
            return None
        if self.request.metadata_columns:
            raise UnsupportedError(
                f"rows that are merged with waiting ones have no {self.request.metadata_columns[0]}",
                hint="leave it out, or read without postpone.merge-on-read",
                feature="postpone",
            )
        return merged_partitions(self._store, self.request)

    @cached_property
    def sources(self) -> tuple[Scan | WaitingRows, ...]:
        """Scans of one branch each, or this one, that together have each row of it once; and partitions that are
        merged with rows which wait for their buckets."""
        found: list[Scan | WaitingRows] = []
        for part in self.parts:
            if (merged := part.waiting) is None:
                found.append(part)
                continue
            options = TableOptions({**part.options, "postpone.merge-on-read": "false"})
            found += [part._but(partitions=merged.rest.partitions, options=options), *merged.waiting]
        return tuple(found)

    @property
    def is_whole(self) -> bool:
        """Whether one plan has all of its rows."""
        return self._beside is None and self.waiting is None

    def schemas(self) -> list[TableSchema]:
        """All schemas of the branch."""
        return self._store.schemas()

    @property
    def estimated_rows(self) -> int | None:
        """About how many rows the scan reads, whatever the filter, by the snapshot alone; None if that does not say."""
        rows = 0 if self.snapshot is None else self.snapshot.total_record_count
        return None if rows is None else self.request.limited(rows)

    def plain_files(self, most: int) -> tuple[str, ...] | None:
        """The local Parquet files that hold the rows of this scan as they are, if they are ``most`` at most and have no
        index; None for other scans."""
        from paimon_pyds.engine.scan.plain_files import may_be_plain, plain_files

        if not self.is_whole or not may_be_plain(self._store, self.request, most):
            return None
        same = {schema.id for schema in self.schemas() if schema.fields == self.schema.fields}
        return plain_files(self.own_plan, same)

    def _planned(self, request: ScanRequest) -> ScanPlan:
        self.check_alone("planned")
        with collection_paused():  # the modules of a first plan are many objects that stay
            from paimon_pyds.engine.scan.plan import plan_scan

        self._store.lists_ahead(self.snapshot)
        self._warn_of_vectors()
        if request.chain is not None:
            from paimon_pyds.engine.query.chain_table import plan_chain

            return plan_chain(self._store, request)
        return plan_scan(self._store, request)

    def check_alone(self, what: str) -> None:
        """Raises UnsupportedError where partitions come from two branches, or are merged with waiting rows: ``what``
        can't be done with these."""
        if self._beside is None and self.waiting is not None:
            raise UnsupportedError(
                f"a scan that merges rows which wait for their buckets can't be {what}",
                path=self.root,
                hint="compact the table, or leave postpone.merge-on-read out",
                feature="postpone",
            )
        if self._beside is not None:
            from paimon_pyds.engine.scan.other_branch import ALONE

            raise UnsupportedError(
                f"a scan whose partitions come from two branches can't be {what} as a whole",
                path=self.root,
                hint=f"scan this branch alone with options={ALONE}, and "
                f"{self._beside.scans[0]._store.branch!r} by its name",
                feature="branches-of-partitions" if len(self._beside.scans) == 1 else "chain-tables",
            )

    def _warn_of_vectors(self) -> None:
        from paimon_pyds.engine.scan.planned_files import has_stray_vectors

        if self.between is None and has_stray_vectors(self._store, self.snapshot, lambda: self.options):
            warnings.warn(
                f"{self._store.root} has deletion vectors, and deletion-vectors.enabled is off: their rows stay "
                "deleted here, Java Paimon gives them back. Set the option to true, or compact the table, which drops "
                "the rows",
                stacklevel=2,
            )

    def analyzed_rows(self) -> int | None:
        """The rows of a table with a primary key without a filter; None where no statistics count just these."""
        if self.snapshot is None or self.snapshot.statistics is None or self.request.partitions is not None:
            return None
        from paimon_pyds.engine.scan.analyzed import analyzed_rows

        return analyzed_rows(self._store, self.request)

    def plan(self) -> ScanPlan | JoinedPlan:
        """The files to read, in splits. Reads metadata only; made once.

        Where partitions come from two branches, or are merged with rows that wait for their buckets, it has a plan for
        each: see `JoinedPlan`.
        """
        if self.is_whole:
            return self.own_plan
        from paimon_pyds.engine.scan.result import JoinedPlan

        return JoinedPlan(tuple(part.own_plan if isinstance(part, Scan) else part for part in self.sources))

    def to_batches(self, *, on_file: Callable[[FileTrace], None] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, in bounded memory.

        Args:
            on_file: called with a trace of each file as it is done.

        Returns:
            An iterator; files are read as it proceeds.
        """
        return followed("read", self._batches(on_file))

    def _batches_to_hold(self) -> Iterator[pa.RecordBatch]:
        return followed("read", self._batches(None, hold=True))

    def _batches(self, on_file: Callable[[FileTrace], None] | None, *, hold: bool = False) -> Iterator[pa.RecordBatch]:
        self._check_types()
        if self.predicate in (Const.FALSE, Const.UNKNOWN) or self.request.row_limit == 0:
            return
        if self.request.top_n is not None:
            yield from self.top_rows(on_file=on_file).value.to_batches(max_chunksize=self._batch_rows)
            return
        if not self.is_whole:
            yield from self._batches_of_sources(on_file, hold)
            return
        from paimon_pyds.engine.read import read_splits

        plan = self.own_plan
        limit, threads = self.request.row_limit, os.cpu_count() or 1
        spec = plan.spec
        if hold and spec.predicate is Const.TRUE:  # all that is decoded stays
            spec = replace(spec, batch_bytes=HELD_BATCH_BYTES)
        yield from read_splits(spec, plan.files, self._batch_rows, limit=limit, threads=threads, on_file=on_file)

    def _batches_of_sources(self, on_file: Callable[[FileTrace], None] | None, hold: bool) -> Iterator[pa.RecordBatch]:
        """The rows of one source after those of another, in the columns of this scan."""
        from paimon_pyds.engine.scan.other_branch import nullable_as

        left, schema = self.request.row_limit, self.arrow_schema
        for source in self.sources:
            if isinstance(source, Scan):
                batches = source._but(limit=left)._batches(on_file, hold=hold)
            else:
                batches = source.batches(self._batch_rows, limit=left, on_file=on_file)
            for batch in batches:
                rows = nullable_as(batch if left is None else batch.slice(0, left), schema)
                left = None if left is None else left - rows.num_rows
                yield rows
                if left == 0:
                    return

    def to_torch(self, batch_rows: int | None = None) -> Iterator[dict[str, torch.Tensor]]:
        """The rows as dictionaries of PyTorch tensors, one for each column, in bounded memory.

        Columns of numbers and booleans have tensors of one dimension, arrays of them that are equally long of two. NULL
        is NaN in a column of FLOAT or DOUBLE, and refused in others.

        Args:
            batch_rows: how many rows a dictionary has, the last one but fewer; as they are read when None.

        Returns:
            An iterator of dictionaries: a tensor by each column's name.

        Raises:
            UnsupportedError: torch is not installed, a column of another type, or NULL, when it is met.
            OptionError: ``batch_rows`` < 1.
        """
        from paimon_pyds.base.tensors import tensors

        return tensors(self, batch_rows)

    def to_ray(self) -> ray.data.Dataset:
        """The rows as a lazy dataset of Ray, which reads each split in a task of its own.

        Metadata is read now. The machines that run tasks need this package, too. A scan with a limit or a ``top_n`` is
        read now and here.

        Returns:
            The dataset; its ``to_arrow_refs``, or ``map_batches``, read rows.

        Raises:
            UnsupportedError: ray is not installed.
        """
        from paimon_pyds.base.ray_dataset import dataset

        if self.request.row_limit is not None:
            return library("ray.data").from_arrow(self.to_arrow())
        return dataset(self._read_tasks(), self.arrow_schema)

    def to_daft(self) -> daft.DataFrame:
        """The rows as a lazy frame of Daft, which reads each split in a task of its own.

        Its queries read the columns that they need, and comparisons of columns with constants are answered by
        statistics and indexes first. A scan with a limit or a ``top_n`` is read now.

        Returns:
            The frame.

        Raises:
            UnsupportedError: daft is not installed.
        """
        from paimon_pyds.base.daft_frame import frame

        if self.request.row_limit is not None:
            return library("daft").from_arrow(self.to_arrow())
        return frame(self, Scan._read_tasks)

    def _read_tasks(self) -> list[ReadTask]:
        """What reads the splits, one each; they pickle."""
        from paimon_pyds.engine.read.task import ReadTask

        self._check_types()
        if self.predicate in (Const.FALSE, Const.UNKNOWN):
            return []
        schema = self.arrow_schema
        return [ReadTask(split, schema) for split in self.plan().splits]

    def head(self, n: int = 5) -> pa.Table:
        """The first rows, at most ``n``; no more files are read than it takes.

        Args:
            n: how many rows.

        Returns:
            The rows.

        Raises:
            OptionError: ``n`` < 0.
        """
        if integer("n", n) < 0:
            raise OptionError(f"n must not be negative, it is {n}")
        return self._but(limit=self.request.limited(n)).to_arrow()

    @shown("search")
    def search(
        self,
        *,
        column: str,
        vector: Sequence[float] | None = None,
        text: str | Mapping[str, Any] | None = None,
        k: int = 10,
        metric: str | None = None,
        exact: bool = False,
    ) -> pa.Table:
        """The rows of the scan that are nearest to a vector, or match a text best, by the indexes of the column.

        Rows that no index covers are looked at too, and deleted ones are left out. Of rows that an index covers the
        nearest ones are found about, as its type allows.

        Args:
            column: a column of VECTOR or ARRAY of FLOAT or DOUBLE, or of texts.
            vector: numbers, as many as the column's vectors have.
            text: words, of which a row must have one at least; or a query of Paimon's full-text indexes, such as
                ``{"match_phrase": {"query": "lazy dog"}}``.
            k: how many rows.
            metric: ``l2``, ``cosine`` or ``inner_product``; by default that of the index, else that of the option
                ``fields.<column>.distance.metric``, else ``inner_product``.
            exact: look at all rows, and use no index.

        Returns:
            The columns of the scan, ``_ROW_ID`` if the table has row tracking, and ``__paimon_search_score``; the best
            rows first, those of one score in the order of their row ids.

        Raises:
            OptionError: neither or both of ``vector`` and ``text``, a wrong one, ``k`` < 1, or a scan with a limit.
            UnknownColumnError: no such column.
            UnsupportedError: a column of another type, or a search for texts without the package paimon-ftindex.
            CorruptFileError: an index is damaged.
        """
        from paimon_pyds.engine.query import search

        self.check_alone("searched")
        if integer("k", k) < 1:
            raise OptionError(f"k must be at least 1, it is {k}")
        if (vector is None) == (text is None):
            raise OptionError("a search is for a vector or for a text: give one of them")
        if self.request.row_limit is not None or self.between is not None:
            raise OptionError(
                "a scan with a limit, a top_n or incremental-between can't be searched", hint="leave it out"
            )
        field, options = self.field(column), dict(self.options)
        if vector is not None:
            question: search.Question = search.vector_question(field, vector, metric, options)
        else:
            assert text is not None
            question = search.text_question(field, text, options)
        return search.search(self._store, self.request, question, k, exact=exact)

    def blob(self, descriptor: bytes) -> Blob:
        """A value of a BLOB column, to be read in parts.

        Args:
            descriptor: the value as a scan with ``options={"blob-as-descriptor": "true"}`` gives it.

        Returns:
            ``size``, ``read(offset, length)`` and ``open()``, which gives a file object.

        Raises:
            CorruptFileError: these bytes are no descriptor.
            SecurityError: it names a file outside of the table, in no directory that is allowed.
        """
        from paimon_pyds.engine.read.blob import blob_of

        return blob_of(self._store, descriptor)

    @shown("count")
    def count(self) -> int:
        """How many rows the scan gives: from metadata and indexes where they know it, else by reading."""
        if self.predicate is Const.TRUE and self.is_whole:
            live = self.analyzed_rows()
            live = self.own_plan.live_row_count if live is None else live
            if live is not None:
                return self.request.limited(live)
        return self.answer.count().value

    @property
    def answer(self) -> Answers:
        """Questions to the rows as a whole, such as ``scan.answer.max("price").value``: see `Answers`."""
        from paimon_pyds.engine.query.aggregates import Answers

        return Answers(self)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """What planning, indexes and pages leave of the table: files, rows and bytes per step and per file.

        Reads metadata, indexes, and the footers of some files; no data.

        Args:
            analyze: run the scan too, drop its rows, and add what reading each file took.

        Returns:
            An `Explanation`; ``print`` shows it.
        """
        self._check_types()
        with nullcontext() if self._is_planned_soon and not analyze else shown("explain"):
            return self._explained(analyze)

    @property
    def _is_planned_soon(self) -> bool:
        """Whether the table is small enough for a plan without progress."""
        rows = 0 if self.snapshot is None else self.snapshot.total_record_count
        return rows is not None and rows < SOON_ROWS and not requests_at_once(self._store.io)

    def _explained(self, analyze: bool) -> Explanation:
        scan = self._but(self._store.counted())
        explained = scan._explain(analyze)
        counts = scan._store.requests
        return explained if counts is None else replace(explained, requests=(counts.requests, counts.bytes))

    def _explain(self, analyze: bool) -> Explanation:
        from paimon_pyds.ops.explain.explain import explain_run, joined_explanation

        explained = joined_explanation([one for source in self.sources for one in self._explained_source(source)])
        if not analyze:
            return explained
        traces: list[FileTrace] = []
        start = time.perf_counter()
        spent = None
        if self.request.top_n is None:
            rows = sum(batch.num_rows for batch in self.to_batches(on_file=traces.append))
        else:
            found = self.top_rows(on_file=traces.append)
            rows, spent = found.value.num_rows, found.bytes_read
        return explain_run(explained, traces, rows, (time.perf_counter() - start) * 1000, spent)

    def _explained_source(self, source: Scan | WaitingRows) -> Iterator[Explanation]:
        from paimon_pyds.ops.explain.explain import explain

        order, query = self.request.top_n, None
        plans: tuple[ScanPlan, ...]
        if isinstance(source, Scan):
            plans = (source._planned(replace(source.request, explain=True)),)
            query = None if order is None or not plans[0].files else source._own_top_n_query()
        else:
            from paimon_pyds.engine.query.postponed_partitions import plans_of_waiting

            plans = plans_of_waiting(source, self.snapshot_id)
        text = "" if order is None else str(order)
        for plan in plans:
            yield explain(plan, self._store.root, order=text, query=query, limit=self.request.limit)

    def __repr__(self) -> str:
        from paimon_pyds.sql.predicate.to_sql import to_sql  # no plan of a new process needs it

        columns, request = names_text(self.column_names), self.request
        return one_line(
            self,
            self._store.root,
            "never written" if self.snapshot_id is None else f"snapshot {self.snapshot_id}",
            f"columns [{columns}]",
            "" if request.predicate is Const.TRUE else f"where {to_sql(request.predicate, shorten=True)}",
            "" if request.top_n is None else f"top_n {request.top_n}",
            "" if request.limit is None else f"limit {request.limit:,}",
            "" if request.between is None else "incremental",
        )

    def _repr_html_(self) -> str:
        from paimon_pyds.ops.explain.notebook import scan_html

        return scan_html(self, "" if self.request.top_n is None else str(self.request.top_n))

    def field(self, name: str) -> DataField:
        """The column of a name. Raises UnknownColumnError: no such column."""
        return _column(self.schema, text("column", name))

    def selecting(self, fields: tuple[DataField, ...]) -> Scan:
        """The same rows with these columns only."""
        return self._but(fields=fields, metadata_columns=())

    def ordered(self, top_n: str | TopN) -> Scan:
        """The first rows of this scan in an order. Raises OptionError, SchemaError, UnsupportedError."""
        if self.request.row_limit is not None:
            raise OptionError("top_n of a scan that has a limit or a top_n already", hint="give one of them")
        return self._but(top_n=self._checked_order(top_n))

    def plan_with_bounds(self, fields: tuple[DataField, ...]) -> ScanPlan:
        """The plan with what metadata knows of its files, and of these columns in them."""
        from paimon_pyds.engine.scan.file_bounds import plan_with_bounds

        self.check_alone("planned")
        if self.request.chain is not None:  # merged files have no bounds
            return self.own_plan
        self._store.lists_ahead(self.snapshot)
        self._warn_of_vectors()
        return plan_with_bounds(self._store, self.request, fields)

    def top_n_query(self) -> TopNQuery | JoinedTopN:
        """What finds the first rows of an ordered scan; it pickles."""
        self._check_types()
        if self.is_whole:
            return self._own_top_n_query()
        from paimon_pyds.engine.query.top_n_run import JoinedTopN

        order, limit = self.request.top_n, self.request.row_limit
        assert order is not None
        assert limit is not None
        keys = self._sorted_by(order)
        wanted = self._but(fields=tuple(dict.fromkeys((*self.request.fields, *keys))))
        return JoinedTopN(
            tuple(part._own_top_n_query() if isinstance(part, Scan) else part for part in wanted.sources),
            wanted.arrow_schema,
            self.column_names,
            order,
            keys,
            limit,
        )

    def _own_top_n_query(self) -> TopNQuery:
        from paimon_pyds.engine.query.top_n_run import make_query

        order, limit = self.request.top_n, self.request.row_limit
        assert order is not None
        assert limit is not None
        fields = self._sorted_by(order)
        return make_query(self.plan_with_bounds(fields), order, fields, limit)

    def top_rows(self, *, on_file: Callable[[FileTrace], None] | None = None) -> Answer[pa.Table]:
        """The first rows of an ordered scan, and what finding them took."""
        from paimon_pyds.engine.query.answer import Tally
        from paimon_pyds.engine.query.top_n_run import run_top_n

        tally = Tally(on_file)
        if self.predicate in (Const.FALSE, Const.UNKNOWN):
            return tally.answer(empty_table(self.arrow_schema))
        return tally.answer(run_top_n(self.top_n_query(), tally))

    def _checked_order(self, top_n: str | TopN) -> TopN:
        from paimon_pyds.engine.query.top_n_run import check_order
        from paimon_pyds.sql.text.order import TopN, parse_top_n

        if not isinstance(top_n, TopN):
            top_n = text("top_n", top_n)
        return check_order(parse_top_n(top_n) if isinstance(top_n, str) else top_n, self.field)


def _options_of(latest: TableSchema, schema: TableSchema) -> dict[str, str]:
    """The options of a state with a schema: as in Java the latest ones, but for what says of which kind columns are."""
    if schema.id == latest.id:
        return dict(latest.options)
    of_latest = blob_options(latest.options)
    others = {key: value for key, value in latest.options.items() if key not in of_latest}
    return others | blob_options(schema.options)


def _view_finder(schema: TableSchema) -> ViewFinder | None:
    """What finds the BLOBs of other tables that views stand for; None where no column may hold one."""
    if not any(has_kind(field.type, TypeKind.BLOB) for field in schema.fields):
        return None
    from paimon_pyds.engine.query.blob_views import places

    return places


def _resolve_columns(
    schema: TableSchema, columns: Sequence[str] | None
) -> tuple[tuple[DataField, ...], tuple[str, ...]]:
    if columns is None:
        return schema.fields, ()
    fields: list[DataField] = []
    metadata: list[str] = []
    for name in texts("columns", columns):
        if name in METADATA_FIELDS:
            metadata.append(name)
            continue
        if metadata:
            raise SchemaError(f"metadata columns come last; {name!r} follows {metadata[-1]!r}")
        fields.append(_column(schema, name))
    return tuple(fields), tuple(metadata)


def _column(schema: TableSchema, name: str) -> DataField:
    found = fields_named(name, schema.fields)
    if len(found) == 1:
        return found[0]
    if "." in name and any(f.name == name.split(".")[0] for f in schema.fields):
        raise UnsupportedError(f"a nested column can't be selected yet: {name!r}", hint="select the whole column")
    raise UnknownColumnError(f"the table has no column {name!r}", hint=suggest(name, schema.field_names, "its columns"))
