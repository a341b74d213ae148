"""Writing a file that differs from another one in few rows, scattered over many pages: values in pages are replaced.

A value of fixed width in a plain page, and the index of a value in a dictionary, have a known place where no row is
NULL. So only compression is undone and done again; nothing is encoded anew, and row groups and pages stay as they are.
New values that the dictionary lacks are added to it.

Bounds stay exact: of a page where a row changes that has one of its bounds, the other rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, from_numpy, one_array, one_batch
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.format import KnownValues
from paimon_pyds.format.parquet.chunk_pages import (
    CopiedPages,
    checked_heads,
    copied_group,
    page_limits,
)
from paimon_pyds.format.parquet.gather_values import value_starts
from paimon_pyds.format.parquet.index_runs import index_places
from paimon_pyds.format.parquet.old_file import OldFile
from paimon_pyds.format.parquet.page_bodies import page_bodies
from paimon_pyds.format.parquet.page_picks import CODECS, DICTIONARIES, PLAIN, RLE, UNCOMPRESSED, value_width
from paimon_pyds.format.parquet.page_values import ChangedPages, StayingBounds, new_chunk
from paimon_pyds.format.parquet.pages import DATA_PAGE
from paimon_pyds.format.parquet.settings import WriterOptions
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.format.parquet.staying_bounds import known_values, staying_bounds
from paimon_pyds.format.parquet.stitching import write_stitched
from paimon_pyds.format.parquet.writer import ParquetWriter, columns_with_nan, one_table

_MOST_CHANGED = 1 / 16
"""Share of a file's rows up to which replacing values costs less than encoding all of them."""
_MOST_DECODED = 1 / 8
"""Share of a file's rows up to which pages are decoded, because they lose a bound, or have runs of rows."""
_MOST_BYTES = 128 << 20
"""Bytes of the columns, and of their pages once decompressed, up to which memory holds them."""
_LEAST_BYTES = 8
_BATCH_ROWS = 1 << 16
_Key: TypeAlias = tuple[int, int]
"""The number of a column, and of a row group."""


@dataclass(frozen=True, slots=True)
class ParquetPagePatcher:
    """See `format.RowReplacer`; made by `page_patcher`. ``changed``: the pages that change, and the bounds of their
    other rows, of each column chunk that has such pages."""

    old: OldFile
    options: Mapping[str, str]
    changed: Mapping[_Key, tuple[ChangedPages, StayingBounds]]
    rows: Int64s
    unchanged_bounds: KnownValues

    def write(self, batches: Iterable[pa.RecordBatch], path: str) -> int:
        """See `format.RowReplacer`."""
        table = one_table(batches, self.old.schema, path, len(self.rows))
        with decoding(self.old.footer.path):
            chunks = self._new_chunks(table)
        if chunks is None:
            return self._encode_anew(table, path)
        return write_stitched(self.old.io, path, self._row_groups(table, chunks))

    def _new_chunks(self, table: pa.Table) -> dict[_Key, CopiedPages] | None:
        """The column chunks that change; None where their pages can't have the new values."""
        options, found, parts = WriterOptions.parse(self.options), dict[_Key, CopiedPages](), self.old.parts(self.rows)
        with_nan = {group: columns_with_nan(table[some]) for group, some in parts.items()}
        for at, field in enumerate(self.old.schema):
            column = one_array(table.column(at))
            if column.null_count:
                return None
            for group, some in parts.items():
                pages, bounds = self.changed[at, group]
                chunk = new_chunk(
                    pages, None if field.name in with_nan[group] else bounds, column[some], field, options
                )
                if chunk is None:
                    return None
                found[at, group] = chunk
        return found

    def _row_groups(
        self, table: pa.Table, chunks: Mapping[_Key, CopiedPages]
    ) -> Iterator[tuple[pa.Buffer, Sequence[str]]]:
        """Each row group as a file, and its columns that must have no bounds."""
        old, parts = self.old, self.old.parts(self.rows)
        for group, (start, stop) in enumerate(old.footer.groups):
            with decoding(old.footer.path):
                columns = [chunks.get((at, group)) or old.copied(at, group) for at in range(len(old.fields))]
                file = copied_group(columns, old.fields, stop - start, old.meta)
            yield file, columns_with_nan(table[parts[group]]) if group in parts else ()

    def _encode_anew(self, table: pa.Table, path: str) -> int:
        """Write all rows as a new file does."""
        writer, start = ParquetWriter(self.old.io, path, self.old.fields, self.options), 0
        try:
            for batch in self.old.read(self.old.fields, RowSelection.ALL):
                first, last = np.searchsorted(self.rows, [start, start + batch.num_rows]).tolist()
                if last > first:
                    order = np.arange(batch.num_rows)
                    order[self.rows[first:last] - start] = batch.num_rows + np.arange(last - first)
                    rows = [pa.Table.from_batches([batch]), table[first:last].cast(batch.schema)]
                    writer.write(one_batch(pa.concat_tables(rows).take(from_numpy(order))))
                else:
                    writer.write(batch)
                start += batch.num_rows
        except BaseException:
            writer.abort()
            raise
        return writer.close()


def page_patcher(old: OldFile, options: Mapping[str, str], changed: Int64s) -> ParquetPagePatcher | None:
    """What replaces the values of some rows in pages; None where the pages have other forms, a row of them is NULL, or
    encoding all of it costs less.

    Args:
        old: the file.
        options: the table's.
        changed: the positions of the rows that change, ascending; one at least.

    Raises CorruptFileError, StorageError.
    """
    footer = old.footer
    if len(changed) > _MOST_CHANGED * footer.row_count:
        return None
    parts, pages, left = old.parts(changed), dict[_Key, ChangedPages](), _MOST_BYTES
    with decoding(footer.path):
        for group, some in parts.items():
            rows = changed[some] - footer.groups[group][0]
            for at in range(len(old.fields)):
                found = _changed_pages(old, (at, group), rows, left)
                if found is None:
                    return None
                left -= len(found.data) + found.bodies.size
                pages[at, group] = found
    in_runs = sum(int(each.rows[each.in_runs].sum()) for each in pages.values())
    if in_runs > _MOST_DECODED * footer.row_count * len(old.fields):
        return None
    both, unchanged = dict[_Key, tuple[ChangedPages, StayingBounds]](), list[list[tuple[pa.Array, int]]]()
    for at, field in enumerate(old.fields):
        limits = [page_limits(each.bounds, each.leaf, field.type) for each in old.pages[at]]
        known = [each for each in limits if each is not None]
        if len(known) < len(limits):
            return None
        own = {group: (pages[at, group], known[group]) for group in parts}
        bounds = staying_bounds(old, field, own, changed)
        if bounds is None:
            return None
        both |= {(at, group): (pages[at, group], each) for group, each in bounds.items()}
        values = (known_values(each, both.get((at, group))) for group, each in enumerate(known))
        unchanged.append(list(chain.from_iterable(values)))
    return ParquetPagePatcher(old, options, both, changed, unchanged)


def _changed_pages(old: OldFile, key: _Key, rows: Int64s, most_bytes: int) -> ChangedPages | None:
    """The pages with changed rows, which are numbered within the row group; None where values have no known place."""
    pages = old.pages[key[0]][key[1]]
    leaf, chunk, table = pages.leaf, pages.chunk, pages.table
    width = value_width(leaf, chunk.physical)
    if (chunk.codec != UNCOMPRESSED and chunk.codec not in CODECS) or chunk.compressed_size > most_bytes:
        return None
    dictionary, data = old.copied(*key).data
    positions = np.cumsum(table.sizes) - table.sizes
    heads = checked_heads(data, positions, table.sizes, DATA_PAGE)
    number = np.searchsorted(table.first_rows, rows, "right") - 1
    which, page = np.unique(number, return_inverse=True)
    own, local = heads.part(which), rows - table.first_rows[number]
    is_coded = np.isin(own.encoding, list(DICTIONARIES)) & bool(dictionary)
    understood = (own.levels == RLE) & (is_coded | (own.encoding == PLAIN) & (width > 0))
    if not understood.all() or (own.values != np.diff(table.first_rows)[which]).any():
        return None
    if int(own.uncompressed.min()) < 0 or int(own.uncompressed.sum()) > most_bytes - chunk.compressed_size:
        return None
    ((_, bodies, starts),) = page_bodies(data, positions[which], own, CODECS.get(chunk.codec), _MOST_BYTES)
    values = value_starts(bodies, starts, own.uncompressed, own.values, leaf.max_definition > 0)
    if values is None or bodies.size < _LEAST_BYTES:
        return None
    ends = starts + own.uncompressed
    if (~is_coded & (values + own.values * width > ends)).any():
        return None
    places, coded = None, is_coded[page]
    if coded.any():
        place = (np.cumsum(is_coded) - 1)[page[coded]]
        places = index_places(bodies, values[is_coded], ends[is_coded], place, local[coded])
        if places is None:
            return None
    return ChangedPages(pages, dictionary, data, heads, which, page, local, bodies, starts, values, is_coded, places)
