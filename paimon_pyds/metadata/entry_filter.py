"""Which entries of manifests are wanted, by partition and bucket: asked of whole manifests first, by the ranges that
their list gives (specification: Paimon documentation, concepts/spec/manifest), then of entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import array, is_true, one_array, to_numpy
from paimon_pyds.metadata.manifest import ManifestFile
from paimon_pyds.metadata.partition import partition_mask, partition_values
from paimon_pyds.metadata.row_statistics import RowStatistics
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.predicate.prune import may_match
from paimon_pyds.predicate.tree import ColumnRef, Const, Leaf, Op, Predicate, make_and, make_or
from paimon_pyds.types import FLOAT_KINDS, scalar_to_internal

__all__ = ["EntryFilter"]


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Entries of some partitions and buckets.

    Attributes:
        schema: of the table.
        predicate: bound, on partition columns only.
        partitions: rows of partitions (arity + BinaryRow), instead of the predicate; None for those it keeps.
        buckets: buckets of these partitions; None for all.
    """

    schema: TableSchema
    predicate: Predicate = Const.TRUE
    partitions: frozenset[bytes] | None = None
    buckets: frozenset[int] | None = None

    @property
    def keeps_all(self) -> bool:
        """Whether no entry is left out."""
        return self.predicate is Const.TRUE and self.partitions is None and self.buckets is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of entries that `mask` looks at."""
        if self.keeps_all:
            return ()
        return ("partition",) if self.buckets is None else ("partition", "bucket")

    def may_hold(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests that may hold such entries."""
        if self.keeps_all or not manifests:
            return list(manifests)
        if self.partitions is not None and not self.partitions:
            return []
        keep = self._by_partition(manifests)
        return [m for m, k in zip(manifests, keep.tolist(), strict=True) if k and self._may_hold_buckets(m)]

    def mask(self, entries: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        """Which entries are wanted; they have `columns`."""
        keep = np.ones(entries.num_rows, np.bool_)
        if self.partitions is not None:
            wanted = array(sorted(self.partitions), pa.binary())
            keep &= is_true(pc.is_in(one_array(entries.column("partition")), wanted))
        elif self.predicate is not Const.TRUE:
            keep &= self.partitions_kept(entries)[0]
        if self.buckets is not None:
            keep &= np.isin(to_numpy(one_array(entries.column("bucket"))), list(self.buckets))
        return keep

    def partitions_kept(self, entries: pa.RecordBatch | pa.Table) -> tuple[npt.NDArray[np.bool_], int, int]:
        """Which entries lie in partitions that the predicate keeps, and how many partitions of how many these are."""
        coded = one_array(entries.column("partition")).dictionary_encode()
        wanted = partition_mask(self.schema, self.predicate, coded.dictionary)
        return wanted[to_numpy(coded.indices)], int(wanted.sum()), len(wanted)

    # --------------------------------------------------------------------------------------------------------- helpers

    def _by_partition(self, manifests: Sequence[ManifestFile]) -> npt.NDArray[np.bool_]:
        predicate = self.predicate if self.partitions is None else self._condition_around(self.partitions)
        if predicate is Const.TRUE:
            return np.ones(len(manifests), np.bool_)
        stats = RowStatistics(
            names=list(self.schema.partition_keys),
            types=[f.type for f in self.schema.partition_fields],
            minimum=array([m.partition_stats.min_values for m in manifests], pa.binary()),
            maximum=array([m.partition_stats.max_values for m in manifests], pa.binary()),
            null_counts=array([m.partition_stats.null_counts for m in manifests], pa.list_(pa.int64())),
            row_counts=array([m.num_added_files + m.num_deleted_files for m in manifests], pa.int64()),
            exact_strings=True,
        )
        return may_match(predicate, stats.row_counts, stats.of)

    def _condition_around(self, partitions: Iterable[bytes]) -> Predicate:
        """A condition that holds for these partitions: each column has one of their values.

        Columns of floats are left out: filters may take values for one that partitions tell apart.
        """
        values = partition_values(self.schema.partition_fields, array(sorted(partitions), pa.binary()))
        parts: list[Predicate] = []
        for field, column in zip(self.schema.partition_fields, values.columns, strict=True):
            if field.type.kind in FLOAT_KINDS:
                continue
            ref = ColumnRef(field.name, (), field.type, field.id)
            distinct = column.drop_null().unique()
            literals = tuple(scalar_to_internal(v) for v in distinct.take(pc.array_sort_indices(distinct)))
            among: Predicate = Leaf(Op.IN, ref, literals) if literals else Const.FALSE
            parts.append(make_or(among, Leaf(Op.IS_NULL, ref)) if column.null_count else among)
        return make_and(*parts)

    def _may_hold_buckets(self, manifest: ManifestFile) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        if self.buckets is None or low is None or high is None:
            return True
        return any(low <= bucket <= high for bucket in self.buckets)
