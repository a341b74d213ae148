"""What planning gives: the files to read, as splits, and how each step narrowed them down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paimon_pyds.formats import traits_of
from paimon_pyds.scan.verdict import Verdict
from paimon_pyds.split import FileTask, ReadSpec, Split

__all__ = ["PlannedSkip", "PruneStep", "ScanPlan", "pack"]

_GROUP_ROWS = 1_000_000
"""Rows of a row group that this package's writer makes: a window that cuts through a group may decode it twice."""


@dataclass(frozen=True, slots=True)
class PruneStep:
    """What was left after one step of planning. Bytes are those of data files; ``millis`` is what the step took."""

    name: str
    files: int
    rows: int
    bytes: int
    millis: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PlannedSkip:
    """A file that planning left out: its name, what decided, and in which step.

    Files that statistics, partitions or buckets leave out are noted only for an explanation.
    """

    path: str
    row_count: int
    size: int
    reason: str
    step: str = ""
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A plan: what to read of one snapshot. ``snapshot_id`` is None for a table that was never written."""

    spec: ReadSpec
    tasks: tuple[FileTask, ...]
    snapshot_id: int | None
    schema_id: int
    steps: tuple[PruneStep, ...] = ()
    skips: tuple[PlannedSkip, ...] = ()
    limit: int | None = None
    verdicts: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """What embedded indexes said, by the name of the file; noted only for an explanation."""
    rows_in_doubt: bool = False
    """Whether the snapshot counts other rows than its manifests: only data files can tell then."""
    target_split_size: int = 128 << 20
    open_file_cost: int = 4 << 20
    _splits: list[tuple[Split, ...]] = field(default_factory=list, repr=False, compare=False)

    @property
    def splits(self) -> tuple[Split, ...]:
        """The files packed into splits of about ``source.split.target-size`` bytes, in plan order."""
        if not self._splits:
            self._splits.append(self.pack())
        return self._splits[0]

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the data files to read."""
        return tuple(task.path for task in self.tasks)

    def pack(
        self, *, target_size: int | None = None, max_splits: int | None = None, cut: bool = False
    ) -> tuple[Split, ...]:
        """The tasks in splits: of about ``target_size`` bytes each, or into ``max_splits`` at most.

        With ``cut``, Parquet files that are larger are read by several splits, each a window of their rows.
        """
        size = self.target_split_size if target_size is None else target_size
        if max_splits is not None:
            weight = sum(max(t.size, self.open_file_cost) for t in self.tasks)
            size = max(size, -(-weight // max(max_splits, 1)))
        tasks = [part for t in self.tasks for part in _windows(t, size)] if cut else self.tasks
        groups = pack(tasks, size, self.open_file_cost)
        return tuple(Split(self.spec, tuple(group)) for group in groups)


def pack(tasks: Sequence[FileTask], target_size: int, open_file_cost: int) -> Iterator[list[FileTask]]:
    """Ordered bin packing, as Paimon's append splits: a file weighs its size, at least ``open_file_cost``."""
    group: list[FileTask] = []
    weight = 0
    for task in tasks:
        cost = max(task.read_size, open_file_cost)
        if group and weight + cost > target_size:
            yield group
            group, weight = [], 0
        group.append(task)
        weight += cost
    if group:
        yield group


def _windows(task: FileTask, size: int) -> Iterator[FileTask]:
    """The file in windows of about ``size`` bytes, at the edges of this package's row groups where it has such."""
    parts = round(task.size / max(size, 1))
    if parts < 2 or task.window is not None or not traits_of(task.path).reads_windows:
        yield task
        return
    step = max(-(-task.row_count // parts), 1)
    if step > _GROUP_ROWS:
        step = round(step / _GROUP_ROWS) * _GROUP_ROWS
    for start in range(0, task.row_count, step):
        yield replace(task, window=(start, min(start + step, task.row_count)))
