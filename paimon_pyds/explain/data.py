"""Explain as data: how a scan narrows down, per step and per file. Texts and pictures are made from it elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from paimon_pyds.redaction import redact
from paimon_pyds.scan.result import BucketSkew, IndexAnswer, PruneStep, SkippedFile

READ_WHOLE, READ_PART, NOT_NEEDED = "read whole", "read in part", "not needed"
NOT_SKIPPED = (NOT_NEEDED, READ_PART, READ_WHOLE)
"""What happens to files that no step left out, in the order of pictures."""


@dataclass(frozen=True, slots=True)
class PagePlan:
    """How a data file would be read: what its row groups and pages leave, and what is chosen.

    Attributes:
        rows: positions left after the file's own statistics.
        groups, groups_total: row groups with such positions, of how many.
        bytes, whole_bytes: to be asked of the storage for the columns, of what they have in those row groups.
        pages, pages_total: pages read by themselves, of those in the columns that are read so.
        pages_micros, group_micros: what both ways were estimated to cost, where there was a choice.
        choice: ``pages``, ``row groups``, ``pages and row groups``, ``stripes`` or ``blocks`` of other formats, or
            ``nothing``.
        why: what else decided, in words.
        at_most: columns that the filter does not need are read for surviving rows only, so it may be less.
    """

    rows: int
    groups: int
    groups_total: int
    bytes: int
    whole_bytes: int
    pages: int = 0
    pages_total: int = 0
    pages_micros: float | None = None
    group_micros: float | None = None
    choice: str = "nothing"
    why: str = ""
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class TopNVisit:
    """When and how a file is asked for the first rows in an order.

    Attributes:
        number: 1 for the file that is asked first.
        bound: no row of the file comes before one for which this SQL is true; empty when statistics do not tell.
        by: the index that knows the best rows, ``statistics`` for a file with one value; empty when there is none.
        reads: whether sort columns are read, all of them or those of the rows that ``by`` leaves.
    """

    number: int
    bound: str
    by: str
    reads: bool


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Where a file of a table with a primary key stands among the sorted runs of its bucket, and what that means.

    Attributes:
        level: 0 for files as writers leave them, then higher as they are compacted.
        section: numbers the sections of the plan; no key is in two of them.
        files, runs: files of the section that are read, and the sorted runs that these make.
        merged: whether its rows are merged with those of the section's other files; else it is read raw.
        before: the part of the filter that acts on the file itself, as SQL.
        after: the part that waits until rows are merged, as a newer version may hide a row that it keeps.
        search: which versions of rows are merged because of that, in words.
    """

    level: int
    section: int
    files: int
    runs: int
    merged: bool
    before: str
    after: str = ""
    search: str = ""


@dataclass(frozen=True, slots=True)
class Actual:
    """What reading a file really took (``analyze``): rows given out and decoded, bytes asked for, milliseconds.

    Of a file whose rows are merged, ``rows`` are those that were given to merging.
    """

    rows: int
    rows_decoded: int
    bytes: int
    requests: int
    pages: int
    pages_total: int
    groups: int
    millis: float


@dataclass(frozen=True, slots=True)
class ExplainedFile:
    """What indexes, deletions and pages said of one file that planning left.

    ``rows_kept`` are the positions left by indexes and deletions, ``rows_after_index`` those before the deleted ones
    were taken off; ``strip`` shows where they lie (`paimon_pyds.scan.result.row_strip`). ``pages`` is None for a
    file whose footer was not looked into; ``top_n`` is of scans for the first rows in an order; ``run`` of tables with
    a primary key. ``spared``: the scan was run, and had all its rows without reading the file. Times in milliseconds.
    """

    path: str
    size: int
    rows: int
    rows_kept: int
    index_bytes: int
    reason: str
    rows_after_index: int = 0
    index_answers: tuple[IndexAnswer, ...] = ()
    strip: bytes = b""
    pages: PagePlan | None = None
    actual: Actual | None = None
    top_n: TopNVisit | None = None
    run: RunPlan | None = None
    spared: bool = False
    index_millis: float = 0.0
    pages_millis: float = 0.0

    @property
    def rows_to_read(self) -> int:
        """Positions left after all steps that were looked at."""
        return self.rows_kept if self.pages is None else self.pages.rows

    @property
    def outcome(self) -> str:
        """The step that left the file out, or how much of it is read."""
        if self.rows and not self.rows_after_index:
            return "side index"
        if self.rows and not self.rows_kept:
            return "deletion vectors"
        if self.rows and not self.rows_to_read:
            return "pages"
        if self.spared:
            return NOT_NEEDED
        if self.top_n is not None and not self.top_n.reads:
            return READ_PART
        return READ_WHOLE if self.rows_to_read == self.rows else READ_PART


@dataclass(frozen=True, slots=True, repr=False)
class ExplainedScan:
    """How a scan narrows down.

    Attributes:
        table: the table's path.
        snapshot_id: the snapshot; None for a table that was never written.
        predicate: the filter as SQL; empty without one.
        steps: what was left after each step, the first being the table.
        files: the files that planning left, in plan order, or in the order in which they are asked for the first rows.
        skips: the files that planning left out.
        analyzed: whether the scan was run.
        order: the order of the first rows that are wanted (``top_n``); empty without one. The files are then asked in
            turn, and no longer than needed, which the steps before ``result`` do not foresee.
        on_rows: the parts of the filter that no statistics and no index answer: they are evaluated on rows.
        limit: the rows that are wanted at most; None without a limit. Where reading ends is not foreseen either.
        skew: how evenly rows lie in the buckets of the partitions that are read; None where there is one bucket.
    """

    table: str
    snapshot_id: int | None
    predicate: str
    steps: tuple[PruneStep, ...]
    files: tuple[ExplainedFile, ...]
    skips: tuple[SkippedFile, ...]
    analyzed: bool = False
    order: str = ""
    limit: int | None = None
    on_rows: tuple[str, ...] = ()
    skew: BucketSkew | None = None

    def to_arrow(self) -> pa.Table:
        """A row per step: ``files``, ``rows`` and ``bytes`` after it, the same ``_before``, ``millis``, ``detail``."""
        first = self.steps[:1]
        before = [*first, *self.steps[:-1]]
        numbers = ("files", "rows", "bytes")
        columns = {"step": pa.array([s.name for s in self.steps], pa.string())}
        columns |= {f"{n}_before": pa.array([getattr(s, n) for s in before], pa.int64()) for n in numbers}
        columns |= {n: pa.array([getattr(s, n) for s in self.steps], pa.int64()) for n in numbers}
        columns["millis"] = pa.array([s.millis for s in self.steps], pa.float64())
        columns["detail"] = pa.array([s.detail for s in self.steps], pa.string())
        return pa.table(columns)

    def files_to_arrow(self) -> pa.Table:
        """A row per file: what happened to it, its rows before and after, and what decided.

        ``leaves`` has what each index said to each leaf of the filter; ``run`` the sorted run that it belongs to;
        ``pages`` how the file would be read; ``actual`` what reading it took, where the scan was run. Files that
        planning left out are named without their directory.
        """
        rows = [_file_row(f) for f in self.files] + [_skip_row(s) for s in self.skips]
        return pa.Table.from_pylist(rows, schema=_FILE_SCHEMA)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON; user names, passwords and signatures in addresses are blanked."""
        return {
            "table": redact(self.table),
            "snapshot": self.snapshot_id,
            "filter": self.predicate,
            "evaluated_on_rows": list(self.on_rows),
            "order": self.order,
            "limit": self.limit,
            "analyzed": self.analyzed,
            "buckets": None if self.skew is None else asdict(self.skew),
            "steps": self.to_arrow().to_pylist(),
            "files": [_file_row(f) | {"path": _without_user(f.path)} for f in self.files],
            "skipped": [
                {"file": s.path, "rows": s.row_count, "size": s.size, "step": s.step, "reason": s.reason}
                for s in self.skips
            ],
        }


def outcome_counts(explained: ExplainedScan) -> dict[str, int]:
    """How many files each outcome has, in the order of the steps; what is read comes last."""
    counted = Counter([s.step or "planning" for s in explained.skips])
    counted.update(f.outcome for f in explained.files)
    order = [s.name for s in explained.steps]
    last = NOT_SKIPPED
    rank = {name: i for i, name in enumerate([*order, *(n for n in counted if n not in (*order, *last)), *last])}
    return dict(sorted(counted.items(), key=lambda item: rank[item[0]]))


def counted(n: int, one: str, many: str = "") -> str:
    """``1 row``, ``4 rows``; ``many`` is the plural that is not made by an s."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def human_bytes(size: int) -> str:
    """A size for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{size:,} B" if unit == "B" else f"{value:,.1f} {unit}"


_LEAF = pa.struct(
    [("leaf", pa.string()), ("column", pa.string()), ("index", pa.string()), ("rows", pa.int64()),
     ("positions", pa.list_(pa.int64())), ("bytes_read", pa.int64())]
)  # fmt: skip
_TYPES = {"bool": pa.bool_(), "float": pa.float64(), "int": pa.int64(), "str": pa.string()}


def _struct_of(record: type[RunPlan | TopNVisit | PagePlan | Actual]) -> pa.StructType:
    return pa.struct([(f.name, _TYPES[str(f.type).removesuffix(" | None")]) for f in fields(record)])


_FILE_SCHEMA = pa.schema(
    [("path", pa.string()), ("outcome", pa.string()), ("size", pa.int64()), ("rows", pa.int64()),
     ("rows_kept", pa.int64()), ("index_bytes", pa.int64()), ("reason", pa.string()), ("leaves", pa.list_(_LEAF)),
     ("run", _struct_of(RunPlan)), ("top_n", _struct_of(TopNVisit)), ("pages", _struct_of(PagePlan)),
     ("actual", _struct_of(Actual))]
)  # fmt: skip


def _without_user(path: str) -> str:
    return redact(path) if "@" in path or "?" in path else path


def _file_row(file: ExplainedFile) -> dict[str, Any]:
    plain = {name: getattr(file, name) for name in _FILE_SCHEMA.names[:7]}
    details = {name: getattr(file, name) for name in ("run", "top_n", "pages", "actual")}
    return {
        **plain,
        "leaves": _leaf_rows(file.index_answers),
        **{name: None if detail is None else asdict(detail) for name, detail in details.items()},
    }


def _skip_row(skip: SkippedFile) -> Mapping[str, Any]:
    return {
        "path": skip.path,
        "outcome": skip.step,
        "size": skip.size,
        "rows": skip.row_count,
        "rows_kept": 0,
        "index_bytes": 0,
        "reason": skip.reason,
        "leaves": _leaf_rows(skip.index_answers),
    }


def _leaf_rows(answers: Sequence[IndexAnswer]) -> list[dict[str, Any]]:
    names = [field.name for field in _LEAF]
    return [{name: getattr(a, name) for name in names} | {"positions": list(a.positions)} for a in answers]
