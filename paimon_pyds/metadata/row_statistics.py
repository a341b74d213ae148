"""Statistics rows (arity + BinaryRow), of partition columns in manifest lists and of columns in manifests, given to the
predicate evaluator as columns (specification: Paimon documentation, concepts/spec/manifest)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import from_numpy, scalar, to_numpy
from paimon_pyds.predicate.prune import ColumnStats
from paimon_pyds.predicate.tree import ColumnRef
from paimon_pyds.row import decode_column
from paimon_pyds.types import NESTED_KINDS, DataType, Kind

__all__ = ["RowStatistics"]


@dataclass(frozen=True, slots=True)
class RowStatistics:
    """Statistics rows of many files over the same columns.

    ``minimum`` and ``maximum`` are arity + BinaryRow; ``null_counts`` one list per file, or null; ``row_counts`` int64.
    ``nan_counted``: where bounds of floats count NaN as the greatest value.
    """

    names: Sequence[str]
    types: Sequence[DataType]
    minimum: pa.BinaryArray
    maximum: pa.BinaryArray
    null_counts: pa.ListArray
    row_counts: pa.Int64Array
    exact_strings: bool = False
    nan_counted: bool | npt.NDArray[np.bool_] = True

    def of(self, column: ColumnRef) -> ColumnStats | None:
        """The statistics of one column; None when the files have none for it."""
        if column.path or column.name not in self.names:
            return None
        i = self.names.index(column.name)
        nulls = _element(self.null_counts, i)
        if self.types[i].kind in NESTED_KINDS:  # never has bounds, but may have its NULLs counted
            none = pa.nulls(len(self.row_counts))
            return ColumnStats(min=none, max=none, null_count=nulls, row_count=self.row_counts)
        low = decode_column(self.minimum, self.types, i, arity=True)
        high = decode_column(self.maximum, self.types, i, arity=True)
        return ColumnStats(
            min=_unpadded(low.values) if self.types[i].kind is Kind.CHAR else low.values,
            max=high.values,
            null_count=nulls,
            row_count=self.row_counts,
            unknown=_either(low.unknown, high.unknown),
            exact=self.exact_strings,
            nan_counted=self.nan_counted,
        )


def _unpadded(minimum: pa.Array) -> pa.Array:
    """A lower bound of CHAR values from that of Java's ORC files, where blanks fill them up and readers take these off.

    So it can be greater than a value that is read (``'h   '`` and ``'h'``), and hide a shorter one before a character
    that sorts before the blank.
    """
    return pc.utf8_rtrim(pc.replace_substring_regex(minimum, r"(?s)[\x00-\x1f].*", ""), " ")


def _either(a: npt.NDArray[np.bool_] | None, b: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    if a is None or b is None:
        return b if a is None else a
    return a | b


def _element(lists: pa.ListArray, i: int) -> pa.Int64Array:
    """The i-th element of every list; null where the list is null or shorter."""
    lengths = to_numpy(pc.fill_null(lists.value_lengths(), scalar(0, pa.int32())))
    offsets = to_numpy(lists.offsets)[:-1]
    present = lengths > i
    at = np.where(present, offsets + i, 0)
    if not len(lists.values):
        return pa.nulls(len(lists), pa.int64())
    found = lists.values.take(from_numpy(at))
    return found if present.all() else pc.if_else(from_numpy(present), found, scalar(None, pa.int64()))
