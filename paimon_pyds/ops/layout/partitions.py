"""Advice on a partition column: the partitions that each would make, and the share that recorded filters would read.

Dates and timestamps are taken by hours, days, months and years, whose rows are estimated from the statistics of all
files; the values of other columns are counted in a few sampled files. A column suits when

* a partition (each bucket of it) has a full file or more, by the size at which compactions leave a file alone;
* there are at least two partitions and at most 10,000, and none has nearly all rows;
* recorded filters, if there are any, read a smaller part of the table.

The one that leaves recorded filters the least comes first; without filters the one with the most partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, one_array, pc, rows_table, to_numpy
from paimon_pyds.base.options import TableOptions, check_readable, check_whole_rows
from paimon_pyds.base.progress import counted as counted_items
from paimon_pyds.base.records import arrow_struct, dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact, visible
from paimon_pyds.base.text import one_line, table_lines
from paimon_pyds.base.types import DataField, arrow_type
from paimon_pyds.base.types.kinds import INTEGER_KINDS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.engine.execution.live_files import live_in, planned_live_files
from paimon_pyds.engine.write.context import target_file_size
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.index_tools.cost import read_sample, sample_files
from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter, bound_filters, counted_filters, useful_parts
from paimon_pyds.ops.layout.overlap import KNOWN, NULLS, UNKNOWN, column_bounds
from paimon_pyds.sql.predicate.tree import Predicate

Codes = npt.NDArray[np.int64]

_UNITS = {"hour": "h", "day": "D", "month": "M", "year": "Y"}
_TIMES = TIMESTAMP_KINDS | {Kind.DATE}
_VALUES = INTEGER_KINDS | STRING_KINDS | {Kind.BOOLEAN}
_NO_VALUE = -(1 << 62)
SAMPLED_ROWS = 200_000
"""Rows of each sampled file that are looked at."""
_MOST_UNITS = 4_000_000
_MOST_PARTITIONS = 10_000
_NEARLY_ALL_SHARE = 0.8
_SOME_ROWS = 0.5
"""Rows that make a partition, where rows are spread over the units between two bounds."""
_SHOWN_CHOICES = 20
"""Choices that the text shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """What a partition column would make of the table.

    Attributes:
        column: of the table.
        unit: ``hour``, ``day``, ``month`` or ``year`` that its values are cut to; empty for the values themselves.
        partitions: how many there would be, about.
        rows, bytes, files: of a partition, on average; files are full ones.
        largest_rows: of the partition with the most rows.
        uses: number of recorded filters that use the column.
        rows_left: share of the table's rows that recorded filters would read, 0 to 1, others than these included.
        suits: whether it is recommended.
        reason: why, or why not.
    """

    column: str
    unit: str = ""
    partitions: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0
    largest_rows: int = 0
    uses: int = 0
    rows_left: float = 1.0
    suits: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        """The column, or the unit of it."""
        return f"{self.unit}({self.column})" if self.unit else self.column


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAdvice:
    """All choices, the best first; ``print`` it, or take it as Arrow.

    Attributes:
        table: its path.
        files, rows, bytes: of its latest snapshot, in the partitions looked at.
        sampled_files: of these.
        filters: recorded ones.
        choices: columns and units of columns.
        notes: the recorded filters that were left out, and why.
    """

    table: str
    files: int = 0
    rows: int = 0
    bytes: int = 0
    sampled_files: int = 0
    filters: int = 0
    choices: tuple[PartitionChoice, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def recommended(self) -> PartitionChoice | None:
        """The best choice; None when none suits."""
        return next((choice for choice in self.choices if choice.suits), None)

    @property
    def text(self) -> str:
        """Lines of text; the first one is the advice."""
        return "\n".join(map(visible, _lines(self)))

    def to_arrow(self) -> pa.Table:
        """A row for each choice."""
        return rows_table([asdict(c) for c in self.choices], pa.schema(list(arrow_struct(PartitionChoice))))

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        best = self.recommended
        return {**asdict(self), "table": redact(self.table), "recommended": None if best is None else best.name}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return one_line(self, self.text.partition("\n")[0])


def _lines(advice: PartitionAdvice) -> Iterator[str]:
    table, best = redact(advice.table), advice.recommended
    if best is None:
        yield f"No column of {table} suits as its partition"
    else:
        each = f"{counted(best.rows, 'row')}, {human_bytes(best.bytes)}, {counted(best.files, 'file')} each"
        yield f"Partition {table} by {best.name}: about {counted(best.partitions, 'partition')} of {each}"
    sampled = f"{advice.sampled_files:,} of {counted(advice.files, 'file')} sampled"
    yield f"{counted(advice.filters, 'recorded filter')}, {sampled}: {advice.rows:,} rows, {human_bytes(advice.bytes)}"
    if advice.choices:
        yield ""
        head = ("partition", "partitions", "rows each", "size each", "files each", "filters", "rows read", "because")
        yield from table_lines([head, *map(_cells, advice.choices[:_SHOWN_CHOICES])], words=(0, 7))
    if len(advice.choices) > _SHOWN_CHOICES:
        yield f"and {len(advice.choices) - _SHOWN_CHOICES:,} more: to_arrow() has them all"
    if best is not None and best.unit:
        yield f"note: partitions are of columns: write {best.name} as a column of its own, and filter by that one, too"
    yield from (f"note: {note}" for note in advice.notes)


def _cells(c: PartitionChoice) -> tuple[str, ...]:
    read = f"{c.rows_left:.1%}" if c.uses else ""
    return (
        c.name,
        f"{c.partitions:,}",
        f"{c.rows:,}",
        human_bytes(c.bytes),
        f"{c.files:,}",
        f"{c.uses:,}",
        read,
        c.reason,
    )


def advise_partition(
    store: TableStore,
    filters: Sequence[RecordedFilter | str] | str = (),
    *,
    files: int = 3,
    where: str | Predicate | None = None,
) -> PartitionAdvice:
    """Which column suits as a partition: see ``table.index.advise_partition``.

    Raises:
        UnsupportedError: a table that can't be read.
        OptionError: a ``where`` on other columns; fewer than one file to sample.
        CorruptFileError, StorageError: a file can't be read.
    """
    return _Advisor(store, counted_filters(filters), files, where).run()


class _Sizes(NamedTuple):
    """How many partitions there would be, and the rows of the largest."""

    partitions: int
    largest: float


class _Advisor:
    def __init__(
        self, store: TableStore, recorded: Sequence[RecordedFilter], files: int, where: str | Predicate | None
    ) -> None:
        self.store = store
        self.schema = store.latest_schema()
        check_readable(self.schema)
        check_whole_rows(self.schema, "advice on partitions")
        self.options = TableOptions(self.schema.options)
        self.entries = live_in(store, self.schema, store.latest_snapshot(), where, "advise partition")
        self.read, self.live = planned_live_files(store, self.schema, self.entries)
        self.chosen = sample_files(self.live, files)
        self.rows = sum(f.row_count for f in self.live)
        self.bytes = sum(f.size for f in self.live)
        self.filters = sum(item.count for item in recorded)
        bound, self.notes = bound_filters(recorded, self.schema.fields)
        self.parts: dict[str, dict[Predicate, int]] = {}
        for predicate, count in bound.values():
            for name, part in useful_parts(predicate).items():
                mine = self.parts.setdefault(name, {})
                mine[part] = mine.get(part, 0) + count

    def run(self) -> PartitionAdvice:
        choices = [choice for field in self.schema.fields for choice in self.of(field)] if self.rows else []
        return PartitionAdvice(
            table=self.store.root,
            files=len(self.live),
            rows=self.rows,
            bytes=self.bytes,
            sampled_files=len(self.chosen),
            filters=self.filters,
            choices=tuple(sorted(choices, key=lambda c: (not c.suits, c.rows_left, -c.partitions))),
            notes=tuple(self.notes),
        )

    def of(self, field: DataField) -> Iterator[PartitionChoice]:
        kind = field.type.kind
        if kind not in _TIMES and kind not in _VALUES:
            return
        values, masks = self.sampled(field)
        if kind in _VALUES:
            codes = to_numpy(pc.fill_null(values.dictionary_encode().indices, -1)).astype(np.int64)
            yield self.choice(field, "", self.of_values(field, codes), self.left(field, codes, masks))
            return
        low, high, state = column_bounds(self.store, self.schema, field, self.entries)
        for unit in ("day", "month", "year") if kind is Kind.DATE else _UNITS:
            codes = _unit_codes(values, unit)
            sizes = _spread(_unit_codes(low, unit), _unit_codes(high, unit), state, self.entries["row_count"])
            if sizes is None:
                sizes = self.of_values(field, codes)
            own = "" if kind is Kind.DATE and unit == "day" else unit
            yield self.choice(field, own, sizes, self.left(field, codes, masks))

    def sampled(self, field: DataField) -> tuple[pa.Array, dict[Predicate, npt.NDArray[np.bool_]]]:
        """The first rows of some files, as the table has the column; and what recorded filters keep of them."""
        values, masks = [], {part: [np.zeros(0, np.bool_)] for part in self.parts.get(field.name, {})}
        for file in counted_items(self.chosen, "sampling", files=len(self.chosen)):
            names = {f.name for f in self.read.fields_of(file) if f.id == field.id}
            sample = read_sample(self.read, file, names, SAMPLED_ROWS)
            values += [batch.column(0) for batch in sample.as_table([field])]
            for part, found in masks.items():
                found.append(sample.mask(part, self.schema.fields))
        whole = one_array(pa.chunked_array(values, arrow_type(field.type)))
        return whole, {part: np.concatenate(found) for part, found in masks.items()}

    def left(self, field: DataField, codes: Codes, masks: Mapping[Predicate, npt.NDArray[np.bool_]]) -> float:
        """The share of rows that recorded filters read of such partitions; other filters read all."""
        if not masks or not len(codes):
            return 1.0
        counts = self.parts[field.name]
        saved = sum(
            counts[part] * (1.0 - float(np.isin(codes, np.unique(codes[mask])).mean())) for part, mask in masks.items()
        )
        return 1.0 - saved / max(1, self.filters)

    def of_values(self, field: DataField, codes: Codes) -> _Sizes:
        """By the values of a sample. How many there are that it does not have is estimated from those that it has once
        and twice (A. Chao, "Nonparametric estimation of the number of classes in a population", 1984)."""
        if not len(codes):
            return _Sizes(0, 0.0)
        counts = np.unique(codes, return_counts=True)[1]
        found, largest = len(counts), float(counts.max()) * self.rows / len(codes)
        if len(codes) < self.rows:
            once, twice = int((counts == 1).sum()), int((counts == 2).sum())
            found = int(min(found + once * (once - 1) / (2 * (twice + 1)), self.rows, self.most_values(field)))
        return _Sizes(found, largest)

    def most_values(self, field: DataField) -> float:
        """By the bounds of whole numbers; infinity for others."""
        if field.type.kind not in INTEGER_KINDS:
            return np.inf
        low, high, state = column_bounds(self.store, self.schema, field, self.entries)
        known = array(state == KNOWN)
        if (state != KNOWN).any():
            return np.inf
        return float(max(high.filter(known).to_pylist()) - min(low.filter(known).to_pylist()) + 1)

    def choice(self, field: DataField, unit: str, sizes: _Sizes, left: float) -> PartitionChoice:
        """A choice, weighed; ``left`` is the share of the rows that filters read."""
        partitions, largest = max(1, sizes.partitions), sizes.largest
        rows, size = self.rows / partitions, self.bytes / partitions
        target = target_file_size(self.schema, self.options)
        uses = sum(self.parts.get(field.name, {}).values())
        buckets = max(1, int(self.options.get("bucket")))
        full = target * float(self.options.get("compaction.small-file-ratio"))
        suits, reason = self.weighed(partitions, size / buckets, full, largest, (uses, left))
        if field.name in self.schema.partition_keys and not unit:
            reason = f"the table is partitioned by it; {reason}"
        elif suits and self.schema.primary_keys and field.name not in self.schema.primary_keys:
            reason += "; it is no part of the primary key, so that rows of a key may move between partitions"
        return PartitionChoice(
            column=field.name,
            unit=unit,
            partitions=partitions,
            rows=round(rows),
            bytes=round(size),
            files=max(1, -(-round(size) // target)),
            largest_rows=round(largest),
            uses=uses,
            rows_left=left if self.filters else 1.0 / partitions,
            suits=suits,
            reason=reason,
        )

    def weighed(
        self, partitions: int, size: float, full: float, largest: float, use: tuple[int, float]
    ) -> tuple[bool, str]:
        """Whether a choice suits, and why. ``size``, of a partition or of one of its buckets, and ``full``, of a full
        file, are bytes; ``use``: the number of recorded filters that use the column, and the share of rows these
        read."""
        uses, left = use
        if partitions < 2:
            return False, "all rows would be in one partition"
        if partitions > _MOST_PARTITIONS:
            return False, f"too many: {partitions:,} partitions are more than {_MOST_PARTITIONS:,}"
        if size < full:
            return False, f"too small: {human_bytes(int(size))} each make no full file of {human_bytes(int(full))}"
        if largest > _NEARLY_ALL_SHARE * self.rows:
            return False, f"too uneven: one partition would have {largest / self.rows:.0%} of the rows"
        if self.filters and not uses:
            return False, "no recorded filter uses it"
        if self.filters and left > _NEARLY_ALL_SHARE:
            return False, f"recorded filters would read {left:.0%} of the rows all the same"
        return True, "recorded filters read less" if self.filters else "partitions are of a good size"


def _unit_codes(values: pa.Array, unit: str) -> Codes:
    """Numbers of the hours, days … of times; `_NO_VALUE` for NULL."""
    type_ = values.type
    own = "D" if pa.types.is_date(type_) else type_.unit
    plain = pc.fill_null(values.view(pa.int32() if pa.types.is_date(type_) else pa.int64()), 0)
    codes = to_numpy(plain).astype(np.int64).view(f"datetime64[{own}]").astype(f"datetime64[{_UNITS[unit]}]")
    return np.where(to_numpy(values.is_valid()), codes.astype(np.int64), _NO_VALUE)


def _spread(low: Codes, high: Codes, state: npt.NDArray[np.int8], row_counts: pa.Array) -> _Sizes | None:
    """By the rows of each unit, those of a file spread evenly from its least unit (``low``) to its greatest one.

    None where the statistics of a file are missing, or there are too many units.
    """
    rows, known = to_numpy(row_counts).astype(np.float64), state == KNOWN
    if not known.any() or (state == UNKNOWN).any():
        return None
    first, last = int(low[known].min()), int(high[known].max())
    if last - first >= _MOST_UNITS:
        return None
    per_unit = rows[known] / (high[known] - low[known] + 1)
    change = np.bincount(low[known] - first, per_unit, last - first + 2)
    change -= np.bincount(high[known] - first + 1, per_unit, last - first + 2)
    sizes = np.cumsum(change)[:-1]
    nulls = float(rows[state == NULLS].sum())
    return _Sizes(int((sizes > _SOME_ROWS).sum()) + (nulls > 0), max(float(sizes.max()), nulls))
