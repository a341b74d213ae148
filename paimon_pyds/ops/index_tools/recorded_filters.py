"""The conditions of recorded filters on each column, measured on samples of the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc
from paimon_pyds.base.options.option import several, text
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, DataType
from paimon_pyds.base.types.kinds import REFUSED_KINDS, Kind
from paimon_pyds.errors import OptionError, PaimonError
from paimon_pyds.format.parquet.settings import PAGE_ROWS
from paimon_pyds.index.build import map_values
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.keys import key_codec
from paimon_pyds.ops.index_tools.cost import FileSample
from paimon_pyds.sql.predicate.among import tests
from paimon_pyds.sql.predicate.bind import bind
from paimon_pyds.sql.predicate.normal_form import parse_filter
from paimon_pyds.sql.predicate.prune import ColumnStats, may_match
from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    ColumnRef,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    leaves,
    make_and,
    make_or,
)

POINT, RANGE, NULLS = "=", "range", "null"
_KINDS = {
    Op.EQ: POINT, Op.IN: POINT, Op.IS_NULL: NULLS, Op.LT: RANGE, Op.LE: RANGE, Op.GT: RANGE, Op.GE: RANGE,
    Op.STARTS_WITH: RANGE,
}  # fmt: skip
_ROWS_PER_VALUE = 10
"""Rows per value in a file from which a bitmap index is small."""


@dataclass(frozen=True, slots=True)
class RecordedFilter:
    """A filter that was used, as Spark SQL text, and how often."""

    filter: str
    count: int = 1


def counted_filters(recorded: Sequence[RecordedFilter | str] | str) -> list[RecordedFilter]:
    """Filters as callers may give them. Raises OptionError for what is no text."""
    items = several("recorded", recorded)
    return [item if isinstance(item, RecordedFilter) else RecordedFilter(text("recorded", item)) for item in items]


def bound_filters(
    recorded: Iterable[RecordedFilter], fields: Sequence[DataField]
) -> tuple[dict[str, tuple[Predicate, int]], list[str]]:
    """The filters by their texts, bound to a table's columns and counted; and a note for each that can't be."""
    found: dict[str, tuple[Predicate, int]] = {}
    notes = []
    for item in recorded:
        try:
            predicate = bind(parse_filter(item.filter), fields)
        except PaimonError as error:
            notes.append(f"{item.filter}: left out, {error.message}")
            continue
        found[item.filter] = (predicate, item.count + found.get(item.filter, (predicate, 0))[1])
    return found, notes


def read_recorded(lines: Iterable[str]) -> list[RecordedFilter]:
    """Filters of a file: one Spark SQL text, or one JSON object ``{"filter": …, "count": …}``, a line.

    Empty lines and lines that begin with ``#`` or ``--`` are passed over; the same filter twice counts twice.
    Raises OptionError: a JSON object without a filter, or with a count that is no number above 0.
    """
    counts: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        found = line.strip()
        if not found or found.startswith(("#", "--")):
            continue
        count = 1
        if found.startswith("{"):
            found, count = _json_filter(found, number)
        counts[found] = counts.get(found, 0) + count
    return [RecordedFilter(found, count) for found, count in counts.items()]


def _json_filter(line: str, number: int) -> tuple[str, int]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise OptionError(f"line {number} of the recorded filters is not JSON: {error}") from error
    found, count = value.get("filter"), value.get("count", 1)
    if not isinstance(found, str) or isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise OptionError(f'line {number} of the recorded filters must be {{"filter": text, "count": number above 0}}')
    return found.strip(), count


def useful_parts(predicate: Predicate) -> dict[str, Predicate]:
    """The conditions on each column (by `column_name`) that indexes can answer to narrow a filter down.

    An OR with a branch that no index can answer has no such conditions. Conditions on one column stay together, as
    BETWEEN's are.
    """
    match predicate:
        case Leaf():
            column = predicate.column
            useful = not column.path or (len(column.path) == 1 and map_key(column) is not None)
            return {column_name(column): predicate} if useful and leaf_kind(predicate) else {}
        case And(children):
            return _merged([useful_parts(child) for child in children], make_and)
        case Or(children):
            parts = [useful_parts(child) for child in children]
            return _merged(parts, make_or) if all(parts) else {}
        case Among():
            return useful_parts(tests(predicate))
    return {}


def _merged(parts: Sequence[Mapping[str, Predicate]], join: Callable[..., Predicate]) -> dict[str, Predicate]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: join(*(part[name] for part in parts if name in part)) for name in names}


def leaf_kind(leaf: Leaf) -> str:
    """The kind of index that a leaf needs; empty if no index helps."""
    if leaf.op is Op.LIKE:
        pattern = str(leaf.literals[0])
        return RANGE if pattern and pattern[0] not in "%_" else ""
    return _KINDS.get(leaf.op, "")


def map_key(column: ColumnRef) -> str | None:
    """The key of ``m['key']``."""
    step = column.path[0] if column.path else None
    return step.key if isinstance(step, MapKey) and isinstance(step.key, str) else None


def column_name(column: ColumnRef) -> str:
    """The name in options: ``column`` or ``column[key]``."""
    key = map_key(column)
    return column.name if key is None else f"{column.name}[{key}]"


@dataclass(slots=True)
class Need:
    """The conditions of filters on one column (or map key), and measurements of them in sampled files.

    ``uses``: filters with the column; ``kinds``: POINT, RANGE, NULLS; ``parts``: the conditions, and how often they
    occur.
    """

    column: ColumnRef
    type: DataType
    uses: int = 0
    kinds: set[str] = field(default_factory=set)
    parts: dict[Predicate, int] = field(default_factory=dict)
    per_file: list[tuple[int, int]] = field(default_factory=list)
    _weight: float = 0.0
    _sums: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return column_name(self.column)

    @property
    def distinct(self) -> int:
        return max((distinct for _, distinct in self.per_file), default=0)

    @property
    def rows(self) -> int:
        return max((rows for rows, _ in self.per_file), default=0)

    @property
    def few_values(self) -> bool:
        return all(distinct * _ROWS_PER_VALUE <= rows for rows, distinct in self.per_file)

    def share(self, what: str) -> float:
        """A weighted mean: ``rows`` that match, ``files`` and ``pages`` that hold one, ``statistics``: pages left."""
        return self._sums.get(what, 0.0) / self._weight if self._weight else 0.0

    def add(self, part: Predicate, count: int) -> None:
        """Add the conditions on this column of a filter that was used ``count`` times."""
        self.uses += count
        self.kinds.update(leaf_kind(leaf) for leaf in leaves(part))
        self.parts[part] = self.parts.get(part, 0) + count

    def look(self, sample: FileSample, table_fields: Sequence[DataField], most: int) -> None:
        """Measure the ``most`` frequent conditions, and the distinct values, in one sampled file."""
        top = next(f for f in table_fields if f.name == self.column.name)
        if not any(f.id == top.id for f in sample.file_fields) or not sample.rows:
            return
        key = map_key(self.column)
        values = pa.concat_arrays([map_values(batch.column(0), key) for batch in sample.as_table([top])])
        self.per_file.append((sample.rows, _distinct(values, self.type)))
        starts = np.arange(0, sample.rows, PAGE_ROWS)
        stats = None if self.column.path else _page_statistics(values, starts)
        for part, count in sorted(self.parts.items(), key=lambda item: -item[1])[:most]:
            mask = sample.mask(part, table_fields)
            pages = np.logical_or.reduceat(mask, starts)
            left = np.ones(len(starts), np.bool_)
            if stats is not None:
                left = may_match(part, stats.row_count, lambda _: stats)
            shares = {"rows": mask.mean(), "files": mask.any(), "pages": pages.mean(), "statistics": left.mean()}
            self._weight += count
            for name, value in shares.items():
                self._sums[name] = self._sums.get(name, 0.0) + count * float(value)


def _distinct(values: pa.Array, type_: DataType) -> int:
    try:
        dictionary = ColumnDictionary(key_codec(type_))
    except PaimonError:
        return int(pc.count_distinct(values, mode="only_valid").as_py())
    dictionary.update(values)
    return len(dictionary.finish().keys)


def _page_statistics(values: pa.Array, starts: npt.NDArray[np.int64]) -> ColumnStats | None:
    """Statistics of pages of `PAGE_ROWS` rows, as a Parquet file has them; None for types without."""
    pages = [values.slice(int(start), PAGE_ROWS) for start in starts]
    try:
        bounds = [pc.min_max(page) for page in pages]
    except pa.ArrowNotImplementedError:
        return None
    return ColumnStats(
        min=array([b["min"].as_py() for b in bounds], values.type),
        max=array([b["max"].as_py() for b in bounds], values.type),
        null_count=array([page.null_count for page in pages], pa.int64()),
        row_count=array([len(page) for page in pages], pa.int64()),
        nan_counted=False,
    )


def needed_indexes(filters: Mapping[str, tuple[Predicate, int]]) -> dict[str, Need]:
    """What these filters (bound, with how often they were used) need, by column."""
    found: dict[str, Need] = {}
    for predicate, count in filters.values():
        for name, part in useful_parts(predicate).items():
            column = next(leaf.column for leaf in leaves(part))
            if column.type is not None and column.type.refused({*REFUSED_KINDS, Kind.VARIANT}) is None:
                found.setdefault(name, Need(column, column.type)).add(part, count)
    return found
