"""How much the data files of a table overlap, column by column: how well statistics prune for filters on a column.

This uses the bounds that manifests have of each file, so no data file is opened. The *depth* of a value is the number
of files that have it within their bounds. Averages are over the rows, which are assumed to be spread evenly between the
bounds of their file (for texts: by the first bytes in which these differ); the greatest depth, and the overlap of
files, are exact.

Partitions, buckets, indexes and pages, which prune further, are not counted here: `explain` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from paimon_pyds.base.arrays import array, is_true, one_array, pc, scalar, to_numpy
from paimon_pyds.base.options import check_readable, check_whole_rows
from paimon_pyds.base.options.option import integer, texts
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.keys import SortKeys, can_sort, sort_positions
from paimon_pyds.base.types import DataField, arrow_type
from paimon_pyds.base.types.kinds import STRING_KINDS, UNORDERED_KINDS, Kind
from paimon_pyds.engine.execution.live_files import live_in
from paimon_pyds.engine.scan.prune import StatisticsGroup, statistics_groups
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.evolution.file_columns import same_type
from paimon_pyds.metadata.partition import partition_values
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.layout.data import ColumnLayout, FileSizes, Layout
from paimon_pyds.sql.predicate.tree import ColumnRef, Predicate

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

_ENTRY_COLUMNS = (
    "partition", "bucket", "file_name", "file_size", "row_count", "min_sequence_number", "max_sequence_number",
    "schema_id", "value_stats_min", "value_stats_max", "value_stats_nulls", "value_stats_cols", "write_cols",
)  # fmt: skip
_PARTS = 100
"""Parts of the rows, in the order of a column: a narrow range is one of them, and a plot has a point for each."""
_NARROW_SHARE = 1e-9
"""Share of the distance between the least and the greatest bound below which two bounds count as equal."""
_WIDER = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_TEXT_BYTES = 8
"""Bytes of a text, after the common prefix, that make its number."""
_BOUND_CHARACTERS = 40
"""Characters of a bound that the text shows."""
UNKNOWN, NULLS, KNOWN = range(3)


def layout_of(
    store: TableStore,
    columns: str | Sequence[str] | None = None,
    where: str | Predicate | None = None,
    snapshot: int | None = None,
) -> Layout:
    """The layout of a snapshot's files: see ``table.index.layout``.

    Raises:
        UnknownColumnError: a name of no column.
        OptionError: a column whose values have no order; a ``where`` on other than partition columns.
        UnsupportedError: a table that can't be read.
        SnapshotNotFoundError: it never was, or has expired.
        CorruptFileError: a manifest is damaged.
    """
    schema = store.latest_schema()
    check_readable(schema)
    check_whole_rows(schema, "the layout of files")
    fields = _fields(schema, columns)
    state: Snapshot | None = (
        store.latest_snapshot() if snapshot is None else store.snapshot(integer("snapshot", snapshot))
    )
    entries = live_in(store, schema, state, where, "layout", _ENTRY_COLUMNS)
    rows = to_numpy(entries["row_count"]).astype(np.float64)
    notes = []
    if schema.primary_keys:
        notes.append(
            "rows of one key are merged: filters on other columns leave out fewer files than these numbers say"
        )
    return Layout(
        table=store.root,
        snapshot_id=None if state is None else state.id,
        where="" if where is None else str(where),
        files=entries.num_rows,
        rows=int(rows.sum()),
        sizes=FileSizes.of(to_numpy(entries["file_size"])),
        columns=tuple(_column(store, schema, field, entries, rows) for field in fields),
        notes=tuple(notes),
    )


def _fields(schema: TableSchema, columns: str | Sequence[str] | None) -> list[DataField]:
    if columns is None:
        return [f for f in map(schema.field, schema.primary_keys or schema.field_names) if _has_bounds(f)]
    fields = [schema.field(name) for name in texts("columns", columns)]
    for field in fields:
        if not _has_bounds(field):
            raise OptionError(f"files have no bounds of {field.name!r}, a column of type {field.type}")
    return fields


def _has_bounds(field: DataField) -> bool:
    return can_sort(field) and field.type.kind not in UNORDERED_KINDS


def _column(
    store: TableStore, schema: TableSchema, field: DataField, entries: pa.RecordBatch, rows: Numbers
) -> ColumnLayout:
    low, high, state = column_bounds(store, schema, field, entries)
    known = state == KNOWN
    layout = ColumnLayout(
        column=field.name,
        type=str(field.type),
        files=entries.num_rows,
        files_with_statistics=int((state != UNKNOWN).sum()),
        files_of_nulls=int((state == NULLS).sum()),
    )
    unknown = float(layout.files - layout.files_with_statistics)
    if not known.any():
        return replace(layout, point_files=unknown, range_files=unknown)
    mask = array(known)
    return _measured(layout, low.filter(mask), high.filter(mask), np.maximum(rows[known], 1.0), unknown)


def column_bounds(
    store: TableStore, schema: TableSchema, field: DataField, entries: pa.RecordBatch
) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int8]]:
    """The least and the greatest value of each file, of the column's type, and what is known of them."""
    if field.name in schema.partition_keys:
        coded = entries["partition"].dictionary_encode()
        values = partition_values(schema.partition_fields, coded.dictionary).column(field.name).take(coded.indices)
        return values, values, np.where(is_true(values.is_valid()), KNOWN, NULLS).astype(np.int8)
    field = replace(field, type=field.type.with_nullable(True))
    none = pa.nulls(entries.num_rows, arrow_type(field.type))
    state = np.full(entries.num_rows, UNKNOWN, np.int8)
    places, lows, highs = [np.empty(0, np.int64)], [none.slice(0, 0)], [none.slice(0, 0)]
    for group in statistics_groups([field], entries, lambda id_: store.schema(id_).fields):
        for low, high, found in _of_group(field, group):
            state[group.rows] = found
            places.append(group.rows)
            lows.append(low)
            highs.append(high)
    at = np.concatenate(places)
    back = np.full(entries.num_rows, -1, np.int64)
    back[at] = np.arange(len(at))
    index = array(back, mask=back < 0)
    return one_array(pa.chunked_array(lows)).take(index), one_array(pa.chunked_array(highs)).take(index), state


def _of_group(field: DataField, group: StatisticsGroup) -> Iterator[tuple[pa.Array, pa.Array, npt.NDArray[np.int8]]]:
    """Bounds of the files of a group, if there are some: of the table's type, and what is known of them."""
    source = group.evolution.sources[0]
    type_, count = arrow_type(field.type), len(group.rows)
    if source is None:  # the column came later: all of it is NULL
        yield pa.nulls(count, type_), pa.nulls(count, type_), np.full(count, NULLS, np.int8)
        return
    file, stats = group.evolution.file_fields[source], group.read()
    of_column = None if stats is None else stats.of(ColumnRef(file.name, (), file.type, file.id))
    if of_column is None or not _keeps_order(file, field):
        return
    low, high = (one_array(bound).cast(type_, safe=False) for bound in (of_column.min, of_column.max))
    certain = np.True_ if of_column.unknown is None else ~of_column.unknown
    usable = is_true(low.is_valid()) & is_true(high.is_valid()) & certain
    nulls = is_true(pc.fill_null(pc.equal(of_column.null_count, of_column.row_count), scalar(False, pa.bool_())))
    yield low, high, np.where(nulls, NULLS, np.where(usable, KNOWN, UNKNOWN)).astype(np.int8)


def _keeps_order(file: DataField, table: DataField) -> bool:
    """Whether values of the file's type are in the same order as what they are read as."""
    kinds = (file.type.kind, table.type.kind)
    wider = all(kind in _WIDER for kind in kinds) and _WIDER.index(kinds[0]) <= _WIDER.index(kinds[1])
    return same_type(file.type, table.type) or wider or kinds == (Kind.FLOAT, Kind.DOUBLE) or set(kinds) <= STRING_KINDS


def _measured(layout: ColumnLayout, low: pa.Array, high: pa.Array, rows: Numbers, unknown: float) -> ColumnLayout:
    """By the bounds of files that have some; ``unknown`` others have none."""
    ordered, ranks = _ranked(pa.concat_arrays([low, high]))
    first, last = np.sort(ranks.reshape(2, -1), axis=0)
    x = _positions(ordered)
    x /= max(1.0, float(np.abs(x).max()))  # so that no difference is too large for a float
    begun = np.cumsum(np.bincount(first, minlength=len(x)))
    ended = np.concatenate(([0], np.cumsum(np.bincount(last, minlength=len(x)))))
    depth = begun - ended[:-1]
    others = begun[last] - ended[first] - 1
    mean = _mean_depth(x, first, last, depth, begun - ended[1:])
    spread = _Spread.of(x, first, last, rows)
    files = np.sort(x[first]), np.sort(x[last])
    edges = spread.quantiles(np.arange(_PARTS + 1) / _PARTS)
    upto, from_ = np.searchsorted(files[0], edges[1:], side="right"), np.searchsorted(files[1], edges[:-1], side="left")
    until = np.searchsorted(files[1], edges[:-1], side="right")  # where a range begins, the one before it ends
    ranges = upto - np.where(edges[1:] > edges[:-1], until, from_)
    middle = spread.quantiles((np.arange(_PARTS) + 0.5) / _PARTS)
    depths = np.searchsorted(files[0], middle, side="right") - np.searchsorted(files[1], middle, side="left")
    average = float((rows * mean).sum() / rows.sum())
    return replace(
        layout,
        average_depth=average,
        max_depth=int(depth.max()),
        overlap_share=float((others > 0).mean()),
        point_files=average + unknown,
        range_files=float(ranges.mean()) + unknown,
        low=_text(ordered[0]),
        high=_text(ordered[len(ordered) - 1]),
        depths=tuple(np.maximum(depths, 1).tolist()),
    )


def _ranked(values: pa.Array) -> tuple[pa.Array, Places]:
    """The different values in order (NaN last), and the place of each value among them."""
    (keys,) = SortKeys("order").of([values])
    order = sort_positions([keys])
    ordered = keys.take(order)
    new = is_true(pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)))
    ranks = np.empty(len(values), np.int64)
    ranks[to_numpy(order).astype(np.int64)] = np.concatenate(([0], np.cumsum(new)))
    return values.take(order.filter(array(np.concatenate(([True], new))))), ranks


def _positions(ordered: pa.Array) -> Numbers:
    """Numbers in the order of the values, with about the same distances; different values may share one number."""
    type_ = ordered.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return _text_positions(ordered.cast(pa.binary()))
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        x = np.array(to_numpy(ordered.cast(pa.float64())))
        finite = x[np.isfinite(x)]
        least, most = (finite[0], finite[-1]) if len(finite) else (0.0, 0.0)
        return np.clip(np.where(np.isnan(x), most, x), least, most)
    whole = pa.uint8() if pa.types.is_boolean(type_) else pa.int64() if type_.bit_width == 64 else pa.int32()
    return np.asarray(to_numpy(ordered.cast(whole)), np.float64)


def _text_positions(ordered: pa.BinaryArray) -> Numbers:
    """The first bytes behind those that all have in common, as a number."""
    first, last = ordered[0].as_py(), ordered[len(ordered) - 1].as_py()
    common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    offsets = np.frombuffer(ordered.buffers()[1], np.int32)[ordered.offset : ordered.offset + len(ordered) + 1]
    data = np.frombuffer(ordered.buffers()[2] or b"", np.uint8)
    x = np.zeros(len(ordered), np.float64)
    for at in range(common, common + _TEXT_BYTES):
        there = offsets[:-1] + at < offsets[1:]
        x *= 256
        x[there] += data[offsets[:-1][there] + at]
    return x


def _mean_depth(x: Numbers, first: Places, last: Places, depth: Places, between: Places) -> Numbers:
    """The depth between the bounds of each file, on average: ``x`` has the positions of the different bounds, of
    which ``first`` and ``last`` are those of each file; ``depth`` is that at each, ``between`` that from each to the
    next, both excluded."""
    area = np.concatenate(([0.0], np.cumsum(between[:-1] * np.diff(x))))
    summed = np.concatenate(([0], np.cumsum(depth)))
    width, wide = _widths(x, first, last)
    at_one_place = (summed[last + 1] - summed[first]) / (last + 1 - first)
    return np.where(wide, (area[last] - area[first]) / width, at_one_place)


def _widths(x: Numbers, first: Places, last: Places) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The distance between the bounds of each file; and whether it is greater than the error of floats."""
    width = x[last] - x[first]
    wide = width > _NARROW_SHARE * (x[-1] - x[0])
    return np.where(wide, width, 1.0), wide


@dataclass(frozen=True, slots=True)
class _Spread:
    """The distribution of rows over positions: the number of rows before each, and up to each."""

    x: Numbers
    rows: Numbers

    @classmethod
    def of(cls, x: Numbers, first: Places, last: Places, rows: Numbers) -> _Spread:
        """Of files with these bounds and rows."""
        width, wide = _widths(x, first, last)
        per_unit = np.where(wide, rows / width, 0.0)
        at = np.bincount(first, np.where(wide, 0.0, rows), len(x))
        rising = np.cumsum(np.bincount(first, per_unit, len(x)) - np.bincount(last, per_unit, len(x)))
        after = np.maximum(rising[:-1], 0.0) * np.diff(x)
        before = np.concatenate(([0.0], np.cumsum(at[:-1] + after)))
        return cls(np.repeat(x, 2), np.stack([before, before + at], axis=1).reshape(-1))

    def quantiles(self, shares: Numbers) -> Numbers:
        """The positions below which these shares of the rows are."""
        return np.asarray(np.interp(shares * self.rows[-1], self.rows, self.x), np.float64)


def _text(value: pa.Scalar) -> str:
    if pa.types.is_binary(value.type) or pa.types.is_fixed_size_binary(value.type):
        text = value.as_py().hex()
    else:
        text = str(pc.cast(value, pa.string()).as_py())
    return text if len(text) <= _BOUND_CHARACTERS else f"{text[: _BOUND_CHARACTERS - 1]}…"
