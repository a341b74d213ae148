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
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, from_numpy, one_array, one_batch
from paimon_pyds.base.selection import RowSelection
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.chunk_pages import (
    CopiedPages,
    checked_heads,
    copied_group,
    page_limits,
)
from paimon_pyds.format.parquet.data_pages import value_starts
from paimon_pyds.format.parquet.index_runs import index_places
from paimon_pyds.format.parquet.old_file import OldFile
from paimon_pyds.format.parquet.page_bodies import page_bodies
from paimon_pyds.format.parquet.page_picks import CODECS, DICTIONARIES, PLAIN, RLE, UNCOMPRESSED, value_width
from paimon_pyds.format.parquet.page_values import ChangedPages, StayingBounds, dictionary_values, new_chunk
from paimon_pyds.format.parquet.pages import DATA_PAGE
from paimon_pyds.format.parquet.settings import WriterOptions
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.format.parquet.staying_bounds import known_values, staying_bounds
from paimon_pyds.format.parquet.stitching import write_stitched
from paimon_pyds.format.parquet.writer import ParquetWriter, columns_with_nan, one_table

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import KnownValues

_MOST_CHANGED = 1 / 16
"""Share of a file's rows up to which replacing values costs less than encoding all of them."""
_MOST_DECODED = 1 / 8
"""Share of a file's rows up to which pages are encoded anew because they have runs of rows."""
_MOST_BYTES = 128 << 20
"""Bytes of the columns, and of their pages once decompressed, up to which memory holds them."""
_LEAST_BYTES = 8
"""Bytes of pages that are looked at as words."""


@dataclass(frozen=True, slots=True)
class ParquetPagePatcher:
    """See `RowReplacer`; made by `page_patcher`. ``changed``: the pages that change, and the bounds of their
    other rows, of each column in the row groups with such pages."""

    old: OldFile
    options: Mapping[str, str]
    changed: Mapping[int, Sequence[tuple[ChangedPages, StayingBounds]]]
    rows: Int64s
    unchanged_bounds: KnownValues

    def write(self, batches: Iterable[pa.RecordBatch], path: str) -> int:
        """See `RowReplacer`."""
        table = one_table(batches, self.old.schema, path, len(self.rows))
        with decoding(self.old.footer.path):
            chunks = self._new_chunks(table)
        if chunks is None:
            return self._encode_anew(table, path)
        return write_stitched(self.old.io, path, self._row_groups(table, chunks))

    def _new_chunks(self, table: pa.Table) -> dict[int, list[CopiedPages]] | None:
        """The columns of row groups that change; None where their pages can't have the new values."""
        if any(column.null_count for column in table.columns):
            return None
        options, found = WriterOptions.parse(self.options), dict[int, list[CopiedPages]]()
        for group, some in self.old.parts(self.rows).items():
            part, found[group] = table[some], []
            with_nan = columns_with_nan(part)
            for field, column, (pages, bounds) in zip(self.old.schema, part.columns, self.changed[group], strict=True):
                used = None if field.name in with_nan else bounds
                chunk = new_chunk(pages, used, one_array(column), field, options)
                if chunk is None:
                    return None
                found[group].append(chunk)
        return found

    def _row_groups(
        self, table: pa.Table, chunks: Mapping[int, Sequence[CopiedPages]]
    ) -> Iterator[tuple[pa.Buffer, Sequence[str]]]:
        """Each row group as a file, and its columns that must have no bounds."""
        old, parts = self.old, self.old.parts(self.rows)
        for group, (start, stop) in enumerate(old.footer.groups):
            with decoding(old.footer.path):
                columns = chunks.get(group) or old.copied(group)
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
    parts, pages, left = old.parts(changed), dict[int, list[ChangedPages]](), _MOST_BYTES
    with decoding(footer.path):
        for group, some in parts.items():
            if sum(groups[group].chunk.compressed_size for groups in old.pages) > left:
                return None
            rows, pages[group] = changed[some] - footer.groups[group][0], []
            for column in old.copied(group):
                found = _changed_pages(column, rows, left)
                if found is None:
                    return None
                left -= len(found.data) + found.bodies.size
                pages[group].append(found)
    in_runs = sum(int(each.rows[each.in_runs].sum()) for columns in pages.values() for each in columns)
    if in_runs > _MOST_DECODED * footer.row_count * len(old.fields):
        return None
    both: dict[int, list[tuple[ChangedPages, StayingBounds]]] = {group: [] for group in parts}
    unchanged = list[list[tuple[pa.Array, int]]]()
    for at, field in enumerate(old.fields):
        limits = [page_limits(each.bounds, each.leaf, field.type) for each in old.pages[at]]
        known = [each for each in limits if each is not None]
        if len(known) < len(limits):
            return None
        own = {group: (pages[group][at], known[group]) for group in parts}
        bounds = staying_bounds(old, field, own, changed)
        if bounds is None:
            return None
        for group, each in bounds.items():
            both[group].append((pages[group][at], each))
        values = (known_values(each, both[group][at] if group in both else None) for group, each in enumerate(known))
        unchanged.append(list(chain.from_iterable(values)))
    return ParquetPagePatcher(old, options, both, changed, unchanged)


def _changed_pages(column: CopiedPages, rows: Int64s, most_bytes: int) -> ChangedPages | None:
    """The pages with changed rows, which are numbered within the row group; None where values have no known place.

    ``column``: all pages of a chunk. ``most_bytes``: of these and those with changed rows, once decompressed.
    """
    pages, (dictionary, data) = column.pages, column.data
    leaf, chunk, table = pages.leaf, pages.chunk, pages.table
    width, codec = value_width(leaf, chunk.physical), CODECS.get(chunk.codec)
    if codec is None and chunk.codec != UNCOMPRESSED:
        return None
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
    ((_, bodies, starts),) = page_bodies(data, positions[which], own, codec, _MOST_BYTES)
    values = value_starts(bodies, starts, own.uncompressed, own.values, leaf.max_definition > 0)
    if values is None or bodies.size < _LEAST_BYTES:
        return None
    ends = starts + own.uncompressed
    if (~is_coded & (values + own.values * width > ends)).any():
        return None
    places, entries, coded = None, list[bytes](), is_coded[page]
    if coded.any():
        place = (np.cumsum(is_coded) - 1)[page[coded]]
        places = index_places(bodies, values[is_coded], ends[is_coded], place, local[coded])
        if places is None:
            return None
        entries = dictionary_values(dictionary, codec, width)
        if int(places.indices.max()) >= len(entries):
            raise CorruptFileError("an index of a value that the dictionary lacks", field="DictionaryPageHeader")
    return ChangedPages(
        pages, dictionary, data, heads, which, page, local, bodies, starts, values, is_coded, places, entries
    )
