"""What planning notes for an explanation: which step left a file out, and which part of the filter decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.predicate.show import to_sql
from paimon_pyds.predicate.tree import Predicate, conjuncts
from paimon_pyds.scan.result import SkippedFile

__all__ = ["left_out"]

_Mask: TypeAlias = Callable[[Predicate, pa.RecordBatch], npt.NDArray[np.bool_] | None]


def left_out(
    step: str, before: pa.RecordBatch, after: pa.RecordBatch, predicate: Predicate, mask: _Mask
) -> list[SkippedFile]:
    """The entries that a step left out, each with the first conjunct of the filter that leaves it out by itself.

    Args:
        step: the step's name.
        before: the entries that it saw.
        after: those that it kept.
        predicate: the filter.
        mask: which entries a predicate keeps in this step; None when it can't say.
    """
    kept = pc.is_in(before.column("file_name"), value_set=after.column("file_name"))
    dropped = before.filter(pc.invert(kept))
    reasons = np.full(dropped.num_rows, to_sql(predicate, shorten=True), dtype=object)
    open_ = np.ones(dropped.num_rows, dtype=bool)
    for part in conjuncts(predicate):
        keeps = mask(part, dropped) if open_.any() else None
        if keeps is not None:
            reasons[open_ & ~keeps] = to_sql(part, shorten=True)
            open_ &= keeps
    columns = [dropped.column(name).to_pylist() for name in ("file_name", "row_count", "file_size")]
    return [
        SkippedFile(name, rows, size, reason, step)
        for name, rows, size, reason in zip(*columns, reasons.tolist(), strict=True)
    ]
