"""Statistics of several columns as rows (specification: Paimon documentation, concepts/spec/manifest, SimpleStats)."""

from __future__ import annotations

from paimon_pyds.base.records import dataclass


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Serialised statistics: min and max rows (4-byte big-endian arity + BinaryRow), null counts per column."""

    min_values: bytes
    max_values: bytes
    null_counts: tuple[int | None, ...] | None
