"""A layout as data: what is known of each column, and two layouts side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import rows_table
from paimon_pyds.base.records import arrow_struct, dataclass
from paimon_pyds.base.secrets import redact, visible
from paimon_pyds.base.text import one_line
from paimon_pyds.ops.explain.html import page
from paimon_pyds.ops.layout.display import COLUMNS, comparison_lines, layout_lines, plots


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """How files overlap in one column.

    Attributes:
        column, type: of the table.
        files: all of the table.
        files_with_statistics: those whose bounds of the column are known; the others are read for any filter.
        files_of_nulls: those of them with no value but NULL.
        average_depth: files that hold the value of a row, on average over the rows.
        max_depth: files that hold the value that the most files hold.
        overlap_share: share of the files with values that have one in common with another file, 0 to 1.
        point_files: files read for ``column = value``, on average over the rows, those without statistics included.
        range_files: files read for a range that has one of a hundred rows.
        low, high: the least and the greatest bound, as text; empty where none is known.
        depths: the depth at each hundredth of the rows, in the order of their values.
    """

    column: str
    type: str
    files: int
    files_with_statistics: int = 0
    files_of_nulls: int = 0
    average_depth: float = 0.0
    max_depth: int = 0
    overlap_share: float = 0.0
    point_files: float = 0.0
    range_files: float = 0.0
    low: str = ""
    high: str = ""
    depths: tuple[int, ...] = ()


_SCHEMA = pa.schema(list(arrow_struct(ColumnLayout)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizes:
    """Bytes of the data files: their total, and percentiles of the sizes of files."""

    total: int = 0
    smallest: int = 0
    percent_10: int = 0
    median: int = 0
    percent_90: int = 0
    largest: int = 0

    @classmethod
    def of(cls, sizes: npt.NDArray[np.int64]) -> FileSizes:
        """Of files of these sizes."""
        if not len(sizes):
            return cls()
        found = np.percentile(sizes, (0, 10, 50, 90, 100), method="lower").astype(np.int64).tolist()
        return cls(total=int(sizes.sum()), **dict(zip(list(cls.__slots__)[1:], found, strict=True)))


class _Shown(ABC):
    """What layouts and comparisons have in common: texts and pictures."""

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """Lines of text; the first one sums up."""

    @property
    @abstractmethod
    def html(self) -> str:
        """A piece of HTML with inline SVG, as notebooks show it."""

    @property
    def page(self) -> str:
        """The picture and the numbers as an HTML document of its own, light or dark as the reader's system is."""
        return page("Layout", self.html)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return one_line(self, self.text.partition("\n")[0])

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Layout(_Shown):
    """How the files of a snapshot overlap. ``print`` it, let a notebook show it, take it as Arrow, or compare it.

    Attributes:
        table: its path.
        snapshot_id: None for a table that was never written.
        where: the partitions looked at; empty for all.
        files, rows: of the snapshot; deleted rows are counted.
        sizes: of the files.
        columns: in the requested order.
        notes: what the numbers do not say.
    """

    table: str
    snapshot_id: int | None = None
    where: str = ""
    files: int = 0
    rows: int = 0
    sizes: FileSizes = FileSizes()
    columns: tuple[ColumnLayout, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(map(visible, layout_lines(self)))

    @property
    def html(self) -> str:
        """HTML with inline SVG: the number of files over the values of each column."""
        return plots(layout_lines(self)[0], [(c, None) for c in self.columns], self.notes)

    def to_arrow(self) -> pa.Table:
        """A row for each column."""
        return rows_table([asdict(c) for c in self.columns], _SCHEMA)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "table": redact(self.table)}

    def compare(self, other: Layout) -> LayoutComparison:
        """This layout as the one before, another one of the table as the one after it."""
        return LayoutComparison(self, other)


@dataclass(frozen=True, slots=True, repr=False)
class LayoutComparison(_Shown):
    """Two layouts, such as those before and after a compaction, in the columns that both have."""

    before: Layout
    after: Layout

    @property
    def pairs(self) -> list[tuple[ColumnLayout, ColumnLayout]]:
        """Each column after and before."""
        before = {c.column: c for c in self.before.columns}
        return [(c, before[c.column]) for c in self.after.columns if c.column in before]

    @property
    def text(self) -> str:
        return "\n".join(map(visible, comparison_lines(self)))

    @property
    def html(self) -> str:
        """A piece of HTML with inline SVG: the depths after, filled, and those before, as a line."""
        notes = dict.fromkeys((*self.before.notes, *self.after.notes))
        return plots(comparison_lines(self)[0], list(self.pairs), tuple(notes))

    def to_arrow(self) -> pa.Table:
        """A row for each column: what was before, and what is after."""
        sides = ("before", "after")
        fields = [pa.field("column", pa.string())]
        fields += [pa.field(f"{side}_{name}", _SCHEMA.field(name).type) for name in COLUMNS for side in sides]
        rows = [
            {"column": after.column}
            | {f"{side}_{n}": getattr(c, n) for n in COLUMNS for side, c in zip(sides, (before, after), strict=True)}
            for after, before in self.pairs
        ]
        return rows_table(rows, pa.schema(fields))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {"before": self.before.as_dict(), "after": self.after.as_dict()}
