"""What metadata knows of the files of a plan: how much of the filter it settles, and what lies in some columns.

Partition values and column statistics can say that part of a filter holds for every row of a file, or that a column has
one value there; minima and maxima bound what a file can contribute. What is told here is certain: statistics that are
missing, cut short or of another type than the column say less, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, scalar
from paimon_pyds.evolution.columns import same_type
from paimon_pyds.index.keys import Key
from paimon_pyds.index.order import OrderCodec, order_codec
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.predicate.exact import matches
from paimon_pyds.predicate.prune import ColumnStats, always_true
from paimon_pyds.predicate.tree import And, ColumnRef, Const, Leaf, Or, Predicate, leaves, make_and, make_or
from paimon_pyds.scan.partitions import partition_values
from paimon_pyds.scan.plan import Planner, ScanRequest
from paimon_pyds.scan.result import ScanPlan
from paimon_pyds.scan.statistics import StatisticsGroup, statistics_groups
from paimon_pyds.split import FileTask
from paimon_pyds.types import INTEGER_KINDS, DataField, Kind

__all__ = ["KnownColumn", "KnownFile", "KnownPlan", "plan_known"]

_OCCUR = INTEGER_KINDS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.DECIMAL}
"""Types whose minima and maxima are values of the file: others may be cut short, or rounded by a format."""

_MOST_LEAVES = 1_000
"""Leaves of a filter up to which it is told for each file which of them hold for all its rows."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column in one file, in order keys (`paimon_pyds.index.order`).

    ``low`` and ``high`` bound the values that are not NULL, None is not known; with ``occur`` they are values of the
    file. ``constant``: every row is ``low``, or every row is NULL when that is None.
    """

    low: Key | None = None
    high: Key | None = None
    nulls: int | None = None
    occur: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class KnownFile:
    """One file of a plan.

    ``predicate`` is what the rows still have to be asked; it is true for exactly the rows the plan's filter is true
    for. ``embedded`` is the index container that the manifest holds.
    """

    task: FileTask
    predicate: Predicate
    columns: Mapping[str, KnownColumn]
    embedded: bytes | None = None


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan, with what is known of each of its files."""

    plan: ScanPlan
    files: tuple[KnownFile, ...]


def plan_known(store: TableStore, request: ScanRequest, columns: Sequence[DataField]) -> KnownPlan:
    """Plan a scan and tell what metadata knows of its files; ``columns`` are those to know more of, of atomic types.

    Raises:
        CorruptFileError: a manifest is damaged.
        StorageError: metadata is gone.
    """
    planner = _KnowingPlanner(store, request)
    plan = planner.plan()
    return KnownPlan(plan, planner.known(plan, columns))


class _KnowingPlanner(Planner):
    """A planner that keeps the manifest entries of its tasks."""

    left: pa.RecordBatch | None = None

    def tasks(self, entries: pa.RecordBatch) -> list[FileTask]:
        self.left = entries
        return super().tasks(entries)

    def known(self, plan: ScanPlan, columns: Sequence[DataField]) -> tuple[KnownFile, ...]:
        if self.left is None or not plan.tasks:
            return ()
        keys = ("partition", "bucket", "file_name")
        rows = {key: i for i, key in enumerate(zip(*(self.left.column(k).to_pylist() for k in keys), strict=True))}
        order = [rows[t.partition, t.bucket, t.name] for t in plan.tasks]
        entries = self.left.take(pa.array(order, pa.int64()))
        partitions = _Partitions(entries, self.schema.partition_fields)
        predicates = _residuals(self.request.predicate, partitions, self._certain(entries))
        found = {f.name: partitions.known(f) or self._known(f, entries) for f in columns}
        embedded = entries.column("embedded_index").to_pylist()
        return tuple(
            KnownFile(task, predicate, {name: of[i] for name, of in found.items()}, embedded[i])
            for i, (task, predicate) in enumerate(zip(plan.tasks, predicates, strict=True))
        )

    def _certain(self, entries: pa.RecordBatch) -> dict[Leaf, Mask]:
        """For each leaf, the files where statistics say that it is true for every row."""
        wanted = dict.fromkeys(leaves(self.request.predicate))
        if len(wanted) > _MOST_LEAVES:
            return {}
        found = {leaf: np.zeros(entries.num_rows, np.bool_) for leaf in wanted}
        for group in statistics_groups(self.request.filter_fields, entries, self.fields_of) if wanted else ():
            stats = group.read()
            for leaf in wanted:
                if not group.evolution.devolves_exactly(leaf):
                    continue
                devolved = group.evolution.devolve(leaf)
                if stats is not None:
                    found[leaf][group.rows] = always_true(devolved, stats.row_counts, stats.of)
                else:
                    found[leaf][group.rows] = devolved is Const.TRUE
        return found

    def _known(self, field: DataField, entries: pa.RecordBatch) -> list[KnownColumn]:
        found = [KnownColumn()] * entries.num_rows
        for group in statistics_groups([field], entries, self.fields_of):
            for row, known in zip(group.rows.tolist(), _column(field, group), strict=True):
                found[row] = known
        return found


def _column(field: DataField, group: StatisticsGroup) -> list[KnownColumn]:
    """The column in the files of a group."""
    unknown = [KnownColumn()] * len(group.rows)
    source = group.evolution.sources[0]
    if source is None:
        return [KnownColumn(constant=True)] * len(group.rows)
    file = group.evolution.file_fields[source]
    stats = group.read()
    of_column = None if stats is None else stats.of(ColumnRef(file.name, (), file.type, file.id))
    if of_column is None or not same_type(file.type, field.type):
        return unknown
    return _from_statistics(of_column, order_codec(field.type))


def _from_statistics(stats: ColumnStats, codec: OrderCodec) -> list[KnownColumn]:
    bounds = [codec.keys(_one_array(b)) for b in _without_nan(stats, codec.type.kind)]
    certain = [True] * len(stats.row_count) if stats.unknown is None else (~stats.unknown).tolist()
    occurs = codec.type.kind in _OCCUR
    found = []
    for low, high, known, nulls, rows in zip(
        *bounds, certain, stats.null_count.to_pylist(), stats.row_count.to_pylist(), strict=True
    ):
        if nulls is not None and nulls == rows:
            found.append(KnownColumn(nulls=nulls, constant=True))
        elif known:
            both = low is not None and high is not None
            one = occurs and both and low == high and nulls == 0
            found.append(KnownColumn(low, high, nulls, occurs and both, one))
        else:
            found.append(KnownColumn(nulls=nulls))
    return found


def _without_nan(stats: ColumnStats, kind: Kind) -> tuple[pa.Array, pa.Array]:
    """The bounds; of floats, where NaN may lie beyond them, the lower one alone, and that not if it is NaN."""
    if kind not in (Kind.FLOAT, Kind.DOUBLE) or np.all(stats.nan_counted):
        return stats.min, stats.max
    counted = from_numpy(np.broadcast_to(np.asarray(stats.nan_counted, np.bool_), len(stats.min)))
    none = scalar(None, stats.min.type)
    certain = pc.or_(counted, pc.invert(pc.fill_null(pc.is_nan(stats.min), scalar(True, pa.bool_()))))
    return pc.if_else(certain, stats.min, none), pc.if_else(counted, stats.max, none)


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


class _Partitions:
    """The distinct partitions of some entries."""

    def __init__(self, entries: pa.RecordBatch, fields: Sequence[DataField]) -> None:
        self.fields = fields
        coded = entries.column("partition").dictionary_encode()
        self.codes: npt.NDArray[np.int64] = np.asarray(coded.indices, np.int64)
        self.values = partition_values(fields, coded.dictionary) if fields else None

    def holds(self, leaf: Leaf) -> Mask | None:
        """For each entry whether a leaf on a partition column is true; None for other leaves."""
        if self.values is None or leaf.column.name not in self.values.schema.names:
            return None
        mask = np.asarray(pc.cast(matches(leaf, self.values), pa.uint8())).astype(np.bool_)
        return mask[self.codes]

    def known(self, field: DataField) -> list[KnownColumn] | None:
        """A partition column in each entry; None for other columns."""
        if self.values is None or field.name not in self.values.schema.names:
            return None
        keys = order_codec(field.type).keys(self.values.column(self.values.schema.names.index(field.name)))
        distinct = [KnownColumn(key, key, None if key is None else 0, key is not None, True) for key in keys]
        return [distinct[code] for code in self.codes.tolist()]


def _residuals(predicate: Predicate, partitions: _Partitions, certain: Mapping[Leaf, Mask]) -> list[Predicate]:
    """What is left of the predicate in each file."""
    files = len(partitions.codes)
    if not certain:
        return [predicate] * files
    columns = []
    for leaf, always in certain.items():
        held = partitions.holds(leaf)
        settled = always if held is None else np.ones(files, np.bool_)
        truth = always if held is None else held
        columns.append(np.where(settled, truth.astype(np.int8), np.int8(-1)))
    kinds, code = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    known = [_settle(predicate, dict(zip(certain, kind.tolist(), strict=True))) for kind in kinds]
    return [known[c] for c in code.reshape(-1).tolist()]


def _settle(predicate: Predicate, truth: Mapping[Leaf, int]) -> Predicate:
    """The predicate with leaves replaced: 1 is true, 0 is not true (false or unknown), -1 is open."""
    match predicate:
        case Leaf():
            return (Const.FALSE, Const.TRUE, predicate)[truth[predicate]]
        case And(children):
            return make_and(*(_settle(child, truth) for child in children))
        case Or(children):
            return make_or(*(_settle(child, truth) for child in children))
    return predicate
