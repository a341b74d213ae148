"""The room that buckets of tables with ``bucket=-1`` have for new keys, as the options ``dynamic-bucket.*`` say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.errors import OptionError

_MOST_BUCKETS = 32767
"""Java keeps the number of a bucket in a short."""


@dataclass(frozen=True, slots=True)
class BucketLimits:
    """What the options say.

    Attributes:
        target: keys of a bucket.
        most: buckets of a partition.
        shared: whether full buckets take further keys once all ``most`` buckets are full.
    """

    target: int
    most: int
    shared: bool

    @classmethod
    def of(cls, options: TableOptions) -> BucketLimits:
        """Those of a table. Raises OptionError for numbers that no table can have."""
        target = int(options.get("dynamic-bucket.target-row-num"))
        most = int(options.get("dynamic-bucket.max-buckets"))
        if target < 1 or not (most == -1 or 1 <= most <= _MOST_BUCKETS):
            raise OptionError(
                f"dynamic-bucket.target-row-num={target} or dynamic-bucket.max-buckets={most} is out of range",
                hint=f"a target is at least 1; buckets are 1 to {_MOST_BUCKETS:,}, or -1 for no limit",
            )
        return cls(target, _MOST_BUCKETS if most == -1 else most, most != -1)


class BucketCapacity:
    """Gives new keys of one partition buckets. ``counts``: how many keys each bucket has."""

    def __init__(self, limits: BucketLimits, counts: Mapping[int, int]) -> None:
        self._limits = limits
        self._counts = dict(counts)

    def give(self, keys: int, first: int = 0, step: int = 1) -> npt.NDArray[np.int32]:
        """A bucket for each new key: first the buckets that have room, then new ones, one after the other.

        ``keys``: their number. ``first``: the caller's first bucket. ``step``: the number of parallel callers: the
        buckets of each are ``first``, ``first + step``, ….
        Raises OptionError: all buckets that there may be are full.
        """
        parts: list[tuple[int, int]] = []
        for bucket in self._candidates(first, step):
            if not keys:
                break
            free_keys = min(keys, self._limits.target - self._counts.get(bucket, 0))
            if free_keys > 0:
                parts.append((bucket, free_keys))
                self._counts[bucket] = self._counts.get(bucket, 0) + free_keys
                keys -= free_keys
        if keys:
            self.check_limit()
            own = range(first, self._limits.most, step) or range(self._limits.most)
            ends = np.arange(len(own) + 1) * keys // len(own)
            parts += zip(own, np.diff(ends).tolist(), strict=True)
        return np.repeat([bucket for bucket, _ in parts], [count for _, count in parts]).astype(np.int32)

    def opened(self, growth: int, least: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The buckets that may take keys when it is not known how many come, and the room of each.

        ``growth``: for how many more keys there has to be room, at least. ``least``: how many buckets the partition has
        to have.
        Raises OptionError: all buckets that there may be are full.
        """
        target, counts = self._limits.target, self._counts
        rooms = {bucket: target - count for bucket, count in counts.items() if count < target}
        missing = growth - sum(rooms.values())
        for bucket in range(self._limits.most):
            if missing <= 0 and len(counts) >= least:
                break
            if bucket not in counts:
                counts[bucket], rooms[bucket] = 0, target
                missing -= target
        if not rooms:
            self.check_limit()
            rooms = dict.fromkeys(counts, 1)
        return np.array(sorted(rooms), np.int32), np.array([rooms[bucket] for bucket in sorted(rooms)], np.int64)

    def check_limit(self) -> None:
        """Raises OptionError where full buckets take no further keys."""
        if not self._limits.shared:
            raise OptionError(
                f"a partition has {len(self._counts):,} buckets, which is all that it may have",
                hint="raise dynamic-bucket.target-row-num",
            )

    def _candidates(self, first: int, step: int) -> Iterator[int]:
        """The buckets that are there, then others."""
        there = sorted(bucket for bucket in self._counts if bucket % step == first % step)
        yield from there
        yield from (bucket for bucket in range(first, self._limits.most, step) if bucket not in self._counts)
