"""Which data files a compaction rewrites together. Pure: sizes and counts in, groups out.

Picked as Java Paimon 1.4 does it (AppendCompactCoordinator for tables without buckets, BucketedAppendCompactManager for
fixed buckets), with three differences: large files behind the last small one of a bucket stay, as those before the
first do; buckets without deleted rows follow one rule whether deletion vectors are enabled or not, so that a compacted
bucket is not rewritten again and again; and a file is also large when it has ``target-file-row-num`` rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["LiveFile", "PickRules", "pick_bucket", "pick_unaware"]

_BUCKET_FILES = 3
"""Files of a bucket that are worth a rewrite, at least."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live data file. ``at`` is its place among the entries, ``size`` in bytes.

    ``vector_file`` names the index file with its deletion vector, None without one; ``deleted`` is how many rows that
    takes away, None when the manifest does not say. ``sequence`` is its first sequence number.
    """

    at: int
    size: int
    rows: int
    sequence: int
    vector_file: str | None = None
    deleted: int | None = 0


@dataclass(frozen=True, slots=True)
class PickRules:
    """When files are rewritten.

    Attributes:
        target_size: bytes of a full file.
        target_rows: rows of a full file.
        open_cost: bytes that opening a file is worth (``source.split.open-file-cost``).
        min_files: files that are worth a rewrite (``compaction.min.file-num``).
        small_share: share of a full one below which a file is merged with others (``compaction.small-file-ratio``).
        deleted_share: share of deleted rows above which a file is rewritten (``compaction.delete-ratio-threshold``).
        full: rewrite files that have any deleted row, and merge small ones however few there are.
        every: rewrite every file (``compaction.force-rewrite-all-files``).
    """

    target_size: int
    target_rows: int
    open_cost: int
    min_files: int
    small_share: float
    deleted_share: float
    full: bool = False
    every: bool = False

    def small(self, file: LiveFile) -> bool:
        """Whether the file is to be merged with others."""
        return file.size < self.target_size * self.small_share and file.rows < self.target_rows * self.small_share

    def many_deleted(self, file: LiveFile) -> bool:
        """Whether so many of its rows are deleted that it is rewritten however large it is."""
        if file.vector_file is None:
            return False
        return self.full or file.deleted is None or file.deleted > file.rows * self.deleted_share

    def picked(self, file: LiveFile) -> bool:
        """Whether the file takes part in a compaction."""
        return self.every or self.small(file) or self.many_deleted(file)


def pick_unaware(files: Sequence[LiveFile], rules: PickRules) -> list[list[LiveFile]]:
    """Groups of one partition of a table without buckets; each group's files in the order given."""
    picked = [file for file in files if rules.picked(file)]
    if rules.full or rules.every:
        groups = list(_packed(picked, rules, least=2))
    else:
        marked = [file for file in picked if file.vector_file is not None]
        plain = [file for file in picked if file.vector_file is None]
        groups = [*_packed_by_vector_file(marked, rules), *_packed(plain, rules, least=max(2, rules.min_files))]
    order = {file.at: i for i, file in enumerate(files)}
    return [sorted(group, key=lambda file: order[file.at]) for group in groups]


@dataclass(slots=True)
class _Bin:
    """Files until they are worth two full ones."""

    rules: PickRules
    files: list[LiveFile] = field(default_factory=list)
    size: int = 0
    rows: int = 0

    def add(self, files: Iterable[LiveFile]) -> None:
        for file in files:
            self.files.append(file)
            self.size += file.size + (0 if self.rules.full else self.rules.open_cost)
            self.rows += file.rows

    @property
    def full(self) -> bool:
        enough = self.size >= self.rules.target_size * 2 or self.rows >= self.rules.target_rows * 2
        return len(self.files) > 1 and enough

    def drain(self) -> list[LiveFile]:
        files, self.files, self.size, self.rows = self.files, [], 0, 0
        return files


def _packed(files: Sequence[LiveFile], rules: PickRules, least: int) -> Iterator[list[LiveFile]]:
    """Small ones first; the last bin only if it has ``least`` files or one that can't stay."""
    bin_ = _Bin(rules)
    for file in sorted(files, key=lambda f: f.size):
        bin_.add([file])
        if bin_.full:
            yield bin_.drain()
    if len(bin_.files) >= least or any(rules.every or rules.many_deleted(file) for file in bin_.files):
        yield bin_.drain()


def _packed_by_vector_file(files: Sequence[LiveFile], rules: PickRules) -> Iterator[list[LiveFile]]:
    """Files with deleted rows: those of one file of vectors together, so that a delete disturbs one group only."""
    by_vector: dict[str | None, list[LiveFile]] = {}
    for file in files:
        by_vector.setdefault(file.vector_file, []).append(file)
    bin_ = _Bin(rules)
    for group in sorted(by_vector.values(), key=lambda g: sum(f.size for f in g)):
        bin_.add(group)
        if bin_.full:
            yield bin_.drain()
    if bin_.files:
        yield bin_.drain()


def pick_bucket(files: Sequence[LiveFile], rules: PickRules) -> list[list[LiveFile]]:
    """The group of one fixed bucket, if any: neighbours in the order of their sequence numbers, which is kept."""
    ordered = sorted(files, key=lambda f: f.sequence)
    picked = [i for i, file in enumerate(ordered) if rules.picked(file)]
    if not picked:
        return []
    run = ordered[picked[0] : picked[-1] + 1]
    small = sum(rules.small(file) for file in run)
    marked = any(rules.many_deleted(f) or (rules.small(f) and f.vector_file is not None) for f in run)
    many = len(run) >= _BUCKET_FILES and small > len(run) - small
    return [run] if rules.every or marked or many or (rules.full and len(run) > 1) else []
