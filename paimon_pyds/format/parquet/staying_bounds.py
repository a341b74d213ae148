"""Bounds of the rows that do not change, in pages in which others do.

A page has the same bounds as before unless the last row with one of them changes. The rows of pages in which it may are
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, array, from_numpy, one_array
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.base.types import DataField
from paimon_pyds.format.parquet.chunk_pages import PageLimits
from paimon_pyds.format.parquet.index_runs import indices_at
from paimon_pyds.format.parquet.old_file import OldFile
from paimon_pyds.format.parquet.page_values import ChangedPages, StayingBounds, extremes

_MOST_READ = 1 / 8
"""Share of a file's rows up to which rows are read to learn bounds."""
_SAMPLE_ROWS = 64
"""Rows of a page among which one with its bound is looked for: of columns with few values nearly every page has one."""


def staying_bounds(
    old: OldFile, field: DataField, pages: Mapping[int, tuple[ChangedPages, PageLimits]], changed: Int64s
) -> dict[int, StayingBounds] | None:
    """The bounds of the rows that stay, in each row group; None where too many pages lose one.

    ``pages``: those of each row group, with the bounds of all of its pages. ``changed``: the positions in the file of
    the rows that change.
    """
    lost, staying = dict[int, Flags](), list[Int64s]()
    for group, (each, _) in pages.items():
        lost[group] = _lose_bounds(each)
        edges = each.pages.table.first_rows + old.footer.groups[group][0]
        for number in each.which[lost[group]].tolist():
            rows = np.arange(edges[number], edges[number + 1])
            staying.append(np.setdiff1d(rows, changed, assume_unique=True))
    counts = np.array(list(map(len, staying)), np.int64)
    if counts.sum() > _MOST_READ * old.footer.row_count:
        return None
    some, low_at, high_at = counts > 0, np.full(len(counts), -1), np.full(len(counts), -1)
    if some.any():
        selection = RowSelection.of(np.concatenate(staying).astype(np.uint32))
        left = one_array(pa.Table.from_batches(old.read([field], selection)).column(0))
        low_at[some], high_at[some] = extremes(left, (np.cumsum(counts) - counts)[some])
    else:
        left = pa.nulls(0, old.schema.field(field.name).type)
    done, found = 0, dict[int, StayingBounds]()
    for group, (each, limits) in pages.items():
        here = slice(done, done + int(np.count_nonzero(lost[group])))
        done = here.stop
        low, high = (
            _exchanged(end.take(from_numpy(each.which)), lost[group], left, at[here])
            for end, at in ((limits.low, low_at), (limits.high, high_at))
        )
        found[group] = StayingBounds(low, high, lost[group])
    return found


def _lose_bounds(pages: ChangedPages) -> Flags:
    """Which of the pages may have one of their bounds in rows that change alone."""
    found, bounds = np.zeros(len(pages.which), np.bool_), pages.pages.bounds
    assert bounds is not None
    for is_low, ends in ((True, bounds.low), (False, bounds.high)):
        of_page = [ends[number] for number in pages.which.tolist()]
        rows = np.flatnonzero(~pages.is_coded[pages.page])
        values = pages.as_bounds(pages.plain_values(rows), is_low)
        for place, value in zip(pages.page[rows].tolist(), values, strict=True):
            found[place] |= value == of_page[place]
        if pages.places is not None:
            number_of = dict[bytes, int]()
            for number, bound in enumerate(pages.as_bounds(pages.entries, is_low)):
                number_of[bound] = -1 if bound in number_of else number  # zeros of both signs are one bound
            found |= _lose_index(pages, np.array([number_of.get(end or b"", -1) for end in of_page], np.int64))
    return found


def _lose_index(pages: ChangedPages, index: Int64s) -> Flags:
    """Which of the pages with indices may have this one, -1 for any, in rows that change alone: some rows that do not
    change are looked at."""
    assert pages.places is not None
    found, page = np.zeros(len(index), np.bool_), pages.page_of_place
    found[page[(pages.places.indices == index[page]) | (index[page] < 0)]] = True
    some = np.flatnonzero(found & (index >= 0))
    if not len(some):
        return found
    counts = np.minimum(pages.rows[some], _SAMPLE_ROWS)
    starts = np.cumsum(counts) - counts
    place = np.repeat(np.arange(len(some)), counts)
    local = np.arange(len(place)) - starts[place]
    held = indices_at(pages.bodies, pages.values[some], pages.ends[some], place, local)
    if held is not None:
        changes = np.isin(some[place] << 32 | local, pages.page << 32 | pages.local)
        found[some] = ~np.logical_or.reduceat((held == index[some][place]) & ~changes, starts)
    return found


def _exchanged(bounds: pa.Array, which: Flags, values: pa.Array, places: Int64s) -> pa.Array:
    """Bounds, some of them from these places of values, NULL for -1."""
    order = np.arange(len(bounds))
    order[which] = np.where(places < 0, -1, len(bounds) + places)
    return pa.concat_arrays([bounds, values]).take(array(order, mask=order < 0))


def known_values(
    limits: PageLimits, changed: tuple[ChangedPages, StayingBounds] | None
) -> Iterator[tuple[pa.Array, int]]:
    """Values of the rows that stay in a column chunk, with the least and the greatest one, and how many NULLs."""
    stays = np.ones(len(limits.low), np.bool_)
    if changed is not None:
        pages, bounds = changed
        stays[pages.which[bounds.is_lost]] = False
        for end in bounds[:2]:
            yield end.filter(from_numpy(bounds.is_lost)).drop_null(), 0
    yield limits.low.filter(from_numpy(stays)).drop_null(), limits.nulls
    yield limits.high.filter(from_numpy(stays)).drop_null(), 0
