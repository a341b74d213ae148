"""What metadata says of the files of a plan: which parts of the filter hold for all rows, and what some columns hold.

Partition values and column statistics can say that part of a filter holds for every row of a file, or that a column has
one value there; minima and maxima bound what a file can contribute. These bounds are certain: statistics that are
missing, cut short or of another type than the column give wider bounds, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, is_true, one_array, pc, scalar, to_numpy
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.kinds import INTEGER_KINDS, Kind
from paimon_pyds.engine.scan.plan import Planner
from paimon_pyds.engine.scan.planned_files import FileDetails
from paimon_pyds.engine.scan.prune import StatisticsGroup, statistics_groups
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.result import ScanPlan
from paimon_pyds.index.keys import OrderCodec, order_codec
from paimon_pyds.keys.merge.filter import merge_keys
from paimon_pyds.metadata.column_files import any_of_group
from paimon_pyds.metadata.evolution.file_columns import same_type
from paimon_pyds.metadata.manifest import MERGED, ROW_GROUP, SUPPLIED
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.planned_file import ColumnBounds, FileBounds
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.prune import ColumnStats, always_true
from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    ColumnRef,
    Const,
    Leaf,
    Or,
    Predicate,
    ends,
    make_and,
    make_or,
    root_columns,
)

_ATTAINED = INTEGER_KINDS | {Kind.BOOLEAN, Kind.DATE, Kind.TIME, Kind.DECIMAL}
"""Types whose minima and maxima are values of the file: others may be cut short, or rounded by a format."""

_MOST_LEAVES = 1_000
"""A filter of more leaves is not looked at leaf by leaf for what holds for all rows of a file."""

Mask = npt.NDArray[np.bool_]
_Test: TypeAlias = Leaf | Among


def plan_with_bounds(store: TableStore, request: ScanRequest, columns: Sequence[DataField]) -> ScanPlan:
    """Plan a scan, with the statistics of its files from metadata: their `FileBounds`.

    ``columns``: those to know bounds of, of atomic types.
    Raises CorruptFileError: a manifest is damaged; StorageError: metadata is gone.
    """
    return _BoundsPlanner(store, request, columns).plan()


class _BoundsPlanner(Planner):
    def __init__(self, store: TableStore, request: ScanRequest, columns: Sequence[DataField]) -> None:
        super().__init__(store, request)
        self.bounded = columns
        self.settled = False

    def details(self, entries: pa.RecordBatch) -> FileDetails:
        if not entries.num_rows:
            return FileDetails()
        partitions = _Partitions(entries, self.schema.partition_fields)
        residuals = _residuals(self.request.predicate, partitions, self._always_true(entries))
        names = [field.name for field in self.bounded]
        columns = [self._bounds(f, entries, partitions.bounds(f)) for f in self.bounded]
        rows: Iterable[tuple[ColumnBounds, ...]] = zip(*columns, strict=True) if columns else repeat(())
        embedded = entries.column("embedded_index").to_pylist()
        bounds = [
            FileBounds(residual, dict(zip(names, row, strict=True)), index)
            for residual, row, index in zip(residuals, rows, embedded, strict=False)
        ]
        return super().details(entries)._replace(bounds=bounds)

    def _always_true(self, entries: pa.RecordBatch) -> dict[_Test, Mask]:
        """For each leaf and each condition on rows of values, the files where statistics say that it is always true."""
        wanted = dict.fromkeys(part for part in ends(self.request.predicate, True) if isinstance(part, Leaf | Among))
        if len(wanted) > _MOST_LEAVES:
            return {}
        found = {leaf: np.zeros(entries.num_rows, np.bool_) for leaf in wanted}
        for group in statistics_groups(self.stored_filter_fields, entries, self.fields_of) if wanted else ():
            stats = group.read()
            for leaf in wanted:
                if not group.evolution.devolves_exactly(leaf):
                    continue
                devolved = group.evolution.devolve(leaf)
                if stats is not None:
                    found[leaf][group.rows] = always_true(devolved, stats.row_counts, stats.of)
                else:
                    found[leaf][group.rows] = devolved is Const.TRUE
        if ROW_GROUP in entries.schema.names:
            found = {leaf: any_of_group(mask, entries) for leaf, mask in found.items()}
        keys = merge_keys(self.schema)
        if keys is not None:  # of other columns, the newest version of a row may have another value
            merged = is_true(entries.column(MERGED))
            keys_hold = set(keys).issuperset
            for leaf, mask in found.items():
                mask &= ~merged | keys_hold(root_columns(leaf))
        return found

    def _bounds(
        self, field: DataField, entries: pa.RecordBatch, of_partitions: list[ColumnBounds] | None
    ) -> list[ColumnBounds]:
        found = of_partitions or [ColumnBounds()] * entries.num_rows
        for group in statistics_groups([field], entries, self.fields_of) if of_partitions is None else ():
            for row, bounds in zip(group.rows.tolist(), _column(field, group), strict=True):
                found[row] = bounds
        if of_partitions is None and ROW_GROUP in entries.schema.names:
            found = _of_groups(found, entries, field)
        if self.schema.primary_keys:  # merging gives other columns values beyond those of files, and takes rows away
            merged = is_true(entries.column(MERGED)).tolist()
            is_key = field.name in (merge_keys(self.schema) or ())
            found = [_merged_bounds(b, is_key) if m else b for m, b in zip(merged, found, strict=True)]
        return found


def _of_groups(found: list[ColumnBounds], entries: pa.RecordBatch, field: DataField) -> list[ColumnBounds]:
    """For each entry the bounds of a column in the file of its group that the column is read from."""
    groups, supplied = entries.column(ROW_GROUP).to_pylist(), entries.column(SUPPLIED).to_pylist()
    of_group = {
        group: bounds
        for group, ids, bounds in zip(groups, supplied, found, strict=True)
        if ids is None or field.id in ids
    }
    return [of_group[group] for group in groups]


def _merged_bounds(bounds: ColumnBounds, is_key: bool) -> ColumnBounds:
    """The bounds of a column whose rows are merged: keys and partitions are within the bounds of their files, other
    columns have no bounds. All rows may be deleted."""
    return ColumnBounds(bounds.low, bounds.high, bounds.nulls) if is_key else ColumnBounds()


def _column(field: DataField, group: StatisticsGroup) -> list[ColumnBounds]:
    unknown = [ColumnBounds()] * len(group.rows)
    if not group.evolution.sources:  # the column is read from another file
        return unknown
    source = group.evolution.sources[0]
    if source is None:
        return [ColumnBounds(constant=True)] * len(group.rows)
    file = group.evolution.file_fields[source]
    stats = group.read()
    of_column = None if stats is None else stats.of(ColumnRef(file.name, (), file.type, file.id))
    if of_column is None or not same_type(file.type, field.type):
        return unknown
    return _from_statistics(of_column, order_codec(field.type))


def _from_statistics(stats: ColumnStats, codec: OrderCodec) -> list[ColumnBounds]:
    bounds = [codec.keys(one_array(bound)) for bound in _without_nan(stats, codec.type.kind)]
    certain = [True] * len(stats.row_count) if stats.unknown is None else (~stats.unknown).tolist()
    attained = codec.type.kind in _ATTAINED
    found = []
    for low, high, usable, nulls, rows in zip(
        *bounds, certain, stats.null_count.to_pylist(), stats.row_count.to_pylist(), strict=True
    ):
        if nulls is not None and nulls == rows:
            found.append(ColumnBounds(nulls=nulls, constant=True))
        elif usable:
            both = low is not None and high is not None
            one = attained and both and low == high and nulls == 0
            found.append(ColumnBounds(low, high, nulls, attained and both, one))
        else:
            found.append(ColumnBounds(nulls=nulls))
    return found


def _without_nan(stats: ColumnStats, kind: Kind) -> tuple[pa.Array, pa.Array]:
    """The bounds; for floats, where NaN may be beyond them, only the lower one, and not if it is NaN."""
    if kind not in (Kind.FLOAT, Kind.DOUBLE) or np.all(stats.nan_counted):
        return stats.min, stats.max
    counted = from_numpy(np.broadcast_to(np.asarray(stats.nan_counted, np.bool_), len(stats.min)))
    none = scalar(None, stats.min.type)
    certain = pc.or_(counted, pc.invert(pc.fill_null(pc.is_nan(stats.min), scalar(True, pa.bool_()))))
    return pc.if_else(certain, stats.min, none), pc.if_else(counted, stats.max, none)


class _Partitions:
    def __init__(self, entries: pa.RecordBatch, fields: Sequence[DataField]) -> None:
        self.fields = fields
        coded = pc.dictionary_encode(entries.column("partition"))
        self.codes: npt.NDArray[np.int64] = np.asarray(to_numpy(coded.indices), np.int64)
        self.values = partition_values(fields, coded.dictionary) if fields else None

    def holds(self, leaf: _Test) -> Mask | None:
        """For each entry whether a condition on partition columns is true; None for other conditions."""
        if self.values is None or not set(self.values.schema.names).issuperset(root_columns(leaf)):
            return None
        mask = to_numpy(pc.cast(matches(leaf, self.values), pa.uint8())).astype(np.bool_)
        return mask[self.codes]

    def bounds(self, field: DataField) -> list[ColumnBounds] | None:
        """A partition column in each entry; None for other columns."""
        if self.values is None or field.name not in self.values.schema.names:
            return None
        keys = order_codec(field.type).keys(self.values.column(self.values.schema.names.index(field.name)))
        distinct = [ColumnBounds(key, key, None if key is None else 0, key is not None, True) for key in keys]
        return [distinct[code] for code in self.codes.tolist()]


def _residuals(predicate: Predicate, partitions: _Partitions, certain: Mapping[_Test, Mask]) -> list[Predicate | None]:
    """Of each file, the part of the predicate that is left; None for all of it, which is then not sent with each."""
    files = len(partitions.codes)
    if not certain:
        return [predicate if isinstance(predicate, Const) else None] * files
    columns = []
    for leaf, always in certain.items():
        held = partitions.holds(leaf)
        decided = always if held is None else np.ones(files, np.bool_)
        truth = always if held is None else held
        columns.append(np.where(decided, truth.astype(np.int8), np.int8(-1)))
    kinds, code = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    residuals = [
        _residual(predicate, dict(zip(certain, kind.tolist(), strict=True))) if (kind >= 0).any() else None
        for kind in kinds
    ]
    return [residuals[c] for c in code.reshape(-1).tolist()]


def _residual(predicate: Predicate, truth: Mapping[_Test, int]) -> Predicate:
    """The predicate with leaves replaced: 1 is true, 0 is not true (false or unknown), -1 is open."""
    match predicate:
        case Leaf() | Among():
            return (Const.FALSE, Const.TRUE, predicate)[truth[predicate]]
        case And(children):
            return make_and(*(_residual(child, truth) for child in children))
        case Or(children):
            return make_or(*(_residual(child, truth) for child in children))
    return predicate
