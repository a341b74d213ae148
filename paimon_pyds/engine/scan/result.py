"""What planning gives: the files to read, as splits, and how each step narrowed them down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import pc, to_numpy
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import files_text, one_line
from paimon_pyds.format import traits_of
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.metadata.split import Files, ReadSpec, Split, sections

if TYPE_CHECKING:
    from paimon_pyds.engine.read.postponed_rows import WaitingRows
    from paimon_pyds.index.evaluate import IndexAnswer

_SHOWN_BUCKETS = 4
_MOST_BYTES = (1 << 63) - 1
_GROUP_ROWS = 1_000_000
"""Rows of a row group that this package's writer makes: a window that cuts through a group may decode it twice."""


@dataclass(frozen=True, slots=True)
class PruneStep:
    """The files and rows left after one step of planning. Bytes are those of data files; ``millis`` is the step's
    time."""

    name: str
    files: int
    rows: int
    bytes: int
    millis: float = 0.0
    detail: str = ""

    def __repr__(self) -> str:
        left = files_text(self.files, self.rows, self.bytes)
        return one_line(self, self.name, left, self.detail, f"{self.millis:.1f} ms")


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that planning left out: its name, what decided, and in which step.

    Files that statistics, partitions or buckets leave out are noted only for an explanation.
    """

    path: str
    row_count: int
    size: int
    reason: str
    step: str = ""
    index_answers: tuple[IndexAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the median and the greatest of some sizes, and how many times their mean the greatest is."""

    least: int
    median: int
    greatest: int
    ratio: float

    @classmethod
    def of(cls, sizes: npt.NDArray[np.int64]) -> Spread:
        """That of sizes, of which there is one at least."""
        mean, greatest = float(sizes.mean()), int(sizes.max())
        return cls(int(sizes.min()), int(np.median(sizes)), greatest, greatest / mean if mean else 1.0)


@dataclass(frozen=True, slots=True)
class BucketSkew:
    """How evenly rows are distributed over buckets: each is read, written and compacted by one task.

    Attributes:
        buckets: how many, those without a file included where their number is fixed.
        partitions: how many have them.
        rows, bytes: of the data files of a bucket.
        profile: rows of the buckets, the largest first; of many as many as a picture has room for.
    """

    buckets: int
    partitions: int
    rows: Spread
    bytes: Spread
    profile: tuple[int, ...]


def bucket_skew(entries: pa.RecordBatch) -> BucketSkew | None:
    """How evenly the files of manifest entries are distributed over buckets; None with one bucket, or without
    buckets."""
    numbers = to_numpy(entries.column("bucket")).astype(np.int64)
    inside = numbers >= 0
    if not inside.any():
        return None
    totals = to_numpy(entries.column("total_buckets"))[inside]
    if max(totals.max(), numbers.max()) < 1:  # no buckets, or one in each partition
        return None
    from paimon_pyds.base.selection import STRIP_BINS  # it imports bitmaps, which plans do without

    coded = pc.dictionary_encode(entries.column("partition"))
    partitions = to_numpy(coded.indices)[inside].astype(np.int64)
    _, bucket_at = np.unique((partitions << 32) + numbers[inside], return_inverse=True)
    known = np.zeros(len(coded.dictionary), np.int64)
    np.maximum.at(known, partitions, totals)
    found = int(bucket_at.max()) + 1
    count = max(found, int(known.sum()))
    if count < 2:
        return None
    rows, size = (
        np.bincount(bucket_at, to_numpy(entries.column(name))[inside], count).astype(np.int64)
        for name in ("row_count", "file_size")
    )
    ranked = np.sort(rows)[::-1]
    shown = ranked[np.linspace(0, count - 1, min(count, STRIP_BINS)).astype(np.int64)]
    return BucketSkew(count, len(np.unique(partitions)), Spread.of(rows), Spread.of(size), tuple(shown.tolist()))


def buckets_text(entries: pa.RecordBatch, mask: npt.NDArray[np.bool_]) -> str:
    """``bucket 3 of 16``: the buckets of the entries that may match a filter."""
    numbers, totals = to_numpy(entries.column("bucket"))[mask], np.unique(to_numpy(entries.column("total_buckets")))
    kept = np.unique(numbers).tolist()
    if len(totals) > 1:
        return f"bucket key; partitions have {totals[0]} to {totals[-1]} buckets"
    if not 0 < len(kept) <= _SHOWN_BUCKETS:
        return f"{len(kept)} of {totals[0]} buckets"
    return f"bucket{'' if len(kept) == 1 else 's'} {', '.join(map(str, kept))} of {totals[0]}"


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A plan: what to read of one snapshot. ``snapshot_id`` is None for a table that was never written."""

    spec: ReadSpec
    found: Files
    snapshot_id: int | None
    schema_id: int
    steps: tuple[PruneStep, ...] = ()
    skips: tuple[SkippedFile, ...] = ()
    index_answers: Mapping[str, tuple[IndexAnswer, ...]] = field(default_factory=dict)
    """The answers of embedded indexes, by the name of the file; only for an explanation."""
    skew: BucketSkew | None = None
    """How evenly rows are distributed over the buckets of the partitions that are read; only for an explanation."""
    rows_in_doubt: bool = False
    """Whether the snapshot counts other rows than its manifests: only data files have the right number then."""
    target_split_size: int = 128 << 20
    open_file_cost: int = 4 << 20
    _splits: list[tuple[Split, ...]] = field(default_factory=list, repr=False, compare=False)

    def __repr__(self) -> str:
        at = "never written" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        return one_line(self, at, files_text(len(self.found), self.found.row_count, self.found.size))

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """The files to read."""
        return self.found.made

    @property
    def splits(self) -> tuple[Split, ...]:
        """The files packed into splits of about ``source.split.target-size`` bytes, in plan order."""
        if not self._splits:
            self._splits.append(self.pack())
        return self._splits[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the data files to read."""
        return tuple(file.path for file in self.files)

    @property
    def live_row_count(self) -> int | None:
        """The number of rows that the files add to the table, whatever the filter; None if they have to be read for
        that."""
        if self.rows_in_doubt:
            return None
        rows = self.found.numbers("row_count")
        counts = rows.tolist() if rows is not None else [file.live_row_count for file in self.files]
        return None if None in counts else sum(count or 0 for count in counts)

    def pack(
        self, *, target_size: int | None = None, max_splits: int | None = None, cut: bool = False
    ) -> tuple[Split, ...]:
        """The files in splits: of about ``target_size`` bytes each, or into ``max_splits`` at most.

        With ``cut``, Parquet files that are larger are read by several splits, each a window of their rows. Files whose
        rows are merged with one another stay together, whatever they weigh.

        ``target_size`` is ``source.split.target-size`` by default.
        """
        size = self.target_split_size if target_size is None else target_size
        sizes, cost = self.found.numbers("file_size"), self.open_file_cost
        if max_splits is not None:
            each = (file.size for file in self.files) if sizes is None else sizes.tolist()
            weight = sum(max(file_size, cost) for file_size in each)
            size = max(size, -(-weight // max(max_splits, 1)))
        if sizes is not None and not (cut and _parts(int(sizes.max(initial=0)), size) > 1):
            return tuple(Split(self.spec, self.found.part(*range_)) for range_ in _ranges(sizes, size, cost))
        files = [part for f in self.files for part in _windows(f, size)] if cut else self.files
        return tuple(Split.of(self.spec, group) for group in pack(files, size, cost))


@dataclass(frozen=True, slots=True)
class JoinedPlan:
    """A plan where no single one has all rows: those of single branches, and partitions whose rows are merged with
    those that wait for their buckets."""

    parts: tuple[ScanPlan | WaitingRows, ...]

    def __repr__(self) -> str:
        return one_line(self, *map(repr, self.parts))

    @property
    def files(self) -> tuple[PlannedFile, ...]:
        """The files to read."""
        return tuple(file for part in self.parts for file in part.files)

    @property
    def splits(self) -> tuple[Split | WaitingRows, ...]:
        """The units of reading: splits, and partitions with waiting rows whole."""
        return tuple(split for part in self.parts for split in (part.splits if isinstance(part, ScanPlan) else (part,)))

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the data files to read."""
        return tuple(file.path for file in self.files)


def pack(files: Sequence[PlannedFile], target_size: int, open_file_cost: int) -> Iterator[list[PlannedFile]]:
    """Ordered bin packing, as Paimon's append splits: a file weighs its size, at least ``open_file_cost``.

    ``files``: the files of a plan. ``target_size``: bytes of a group. ``open_file_cost``: bytes that a file counts for
    at least.
    """
    return pack_sections(sections(files), target_size, open_file_cost)


def pack_sections(
    found: Iterable[Iterable[PlannedFile]], target_size: int, open_file_cost: int
) -> Iterator[list[PlannedFile]]:
    """The same of files that are in sections: those of a section stay together, whatever they weigh."""
    group: list[PlannedFile] = []
    weight = 0
    for section in map(list, found):
        cost = sum(max(file.read_size, open_file_cost) for file in section)
        if group and weight + cost > target_size:
            yield group
            group, weight = [], 0
        group += section
        weight += cost
    if group:
        yield group


def _ranges(sizes: npt.NDArray[np.int64], target_size: int, open_file_cost: int) -> Iterator[tuple[int, int]]:
    """The groups that `pack` makes of files of these sizes that are not merged with others: start and end of each."""
    costs = np.maximum(sizes, min(open_file_cost, _MOST_BYTES))
    if int(costs.max(initial=0)) < _MOST_BYTES // max(len(costs), 1):
        ends = [0, *np.cumsum(costs).tolist()]
    else:
        ends = list(accumulate(costs.tolist(), initial=0))
    start = 0
    while start < len(sizes):
        stop = max(start + 1, bisect_right(ends, ends[start] + target_size) - 1)
        yield start, stop
        start = stop


def _parts(file_size: int, size: int) -> int:
    return round(file_size / max(size, 1))


def _windows(file: PlannedFile, size: int) -> Iterator[PlannedFile]:
    """The file in windows of about ``size`` bytes, at the edges of this package's row groups where it has such."""
    parts = _parts(file.size, size)
    if parts < 2 or file.merged or file.window is not None or not traits_of(file.path).reads_windows:
        yield file
        return
    step = max(-(-file.row_count // parts), 1)
    if step > _GROUP_ROWS:
        step = round(step / _GROUP_ROWS) * _GROUP_ROWS
    for start in range(0, file.row_count, step):
        yield file._replace(window=(start, min(start + step, file.row_count)))
