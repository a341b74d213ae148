"""How much of a stream is read at once."""

from __future__ import annotations

import time

from paimon_pyds.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How far `ChangeStream.end` goes at once. All are soft: at least one split or snapshot is taken, whatever it has.

    Attributes:
        max_files, max_bytes, max_rows: of files, before a filter; None for no limit.
        max_snapshots: whose changes are read.
        min_rows: wait until there are that many rows.
        max_delay_ms: wait no longer than this for ``min_rows``, in milliseconds.
    """

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None
    max_snapshots: int | None = None
    min_rows: int | None = None
    max_delay_ms: int | None = None

    @property
    def counts(self) -> bool:
        """Whether files have to be counted."""
        return any(limit is not None for limit in (self.max_files, self.max_bytes, self.max_rows, self.min_rows))


NO_LIMITS = Limits()


class Taken:
    """What a step has taken so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._totals = [0, 0, 0]
        self._any = False

    def take(self, *amounts: int) -> bool:
        """Take files, bytes and rows, unless they go beyond a limit; the first are always taken."""
        totals = [total + amount for total, amount in zip(self._totals, amounts, strict=True)]
        most = (self.limits.max_files, self.limits.max_bytes, self.limits.max_rows)
        if self._any and any(limit is not None and total > limit for total, limit in zip(totals, most, strict=True)):
            return False
        self._totals, self._any = totals, self._any or any(amounts)
        return True

    def waits(self, moved_at: float | None) -> bool:
        """Whether there are too few rows for a step now."""
        least, delay = self.limits.min_rows, self.limits.max_delay_ms
        if least is None or self._totals[2] >= least or moved_at is None:
            return False
        return delay is None or (time.monotonic() - moved_at) * 1000 < delay
