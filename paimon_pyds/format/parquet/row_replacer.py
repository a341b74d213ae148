"""Writing a file that differs from another one in some rows: the bytes between these are copied.

Decoding and encoding a column takes many times as long as copying its pages. So runs of pages with changed rows become
row groups of their own, and the pages before and behind them, which stay, too. All pages of a chunk are of one writer:
Java Paimon 1.4.2 gives wrong values where PLAIN pages stand before pages that use the dictionary. Where many pages have
few changed rows, `page_patches` replaces values in the pages.

That is done where nothing but row groups can differ from a file that is written anew: for flat columns of files that
this package has written, whose bounds of pages are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, empty_table
from paimon_pyds.base.types import DataField
from paimon_pyds.format import ReadCounters
from paimon_pyds.format.parquet.chunk_pages import ChunkPages, chunk_pages, copied_group, known_bounds
from paimon_pyds.format.parquet.footer import Footer, footer_of, read_footer
from paimon_pyds.format.parquet.old_file import OldFile
from paimon_pyds.format.parquet.page_patches import ParquetPagePatcher, page_patcher
from paimon_pyds.format.parquet.settings import (
    WriterOptions,
    few_rows_settings,
    file_schema,
    stored_schema,
    writer_settings,
)
from paimon_pyds.format.parquet.small_encoder import encoded
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.format.parquet.stitching import write_stitched
from paimon_pyds.format.parquet.thrift import Struct, check_struct, decode_struct
from paimon_pyds.format.parquet.writer import GROUP_ROWS, columns_with_nan, one_table
from paimon_pyds.storage import FileIO

if TYPE_CHECKING:
    from paimon_pyds.format.protocols import KnownValues

_MOST_SHARE = 0.25
"""Share of a file's rows in pages that change, from which encoding all of them anew makes a better file."""
MOST_GROUPS = 16
"""Row groups, for each million rows, up to which a file gets more of them."""


class _Piece(NamedTuple):
    """Rows of a row group that become one: ``start`` to before ``stop``, copied unless they ``change``."""

    group: int
    start: int
    stop: int
    change: bool


@dataclass(frozen=True, slots=True)
class ParquetRowReplacer:
    """See `RowReplacer`; made by `row_replacer`."""

    old: OldFile
    options: WriterOptions
    pieces: Sequence[_Piece]
    rows: Int64s
    unchanged_bounds: KnownValues

    def write(self, batches: Iterable[pa.RecordBatch], path: str) -> int:
        """See `RowReplacer`."""
        table = one_table(batches, self.old.schema, path, len(self.rows))
        return write_stitched(self.old.io, path, self._row_groups(table, path))

    def _row_groups(self, table: pa.Table, path: str) -> Iterator[tuple[pa.Buffer, Sequence[str]]]:
        done = 0
        for piece in self.pieces:
            if piece.change:
                fresh = table.slice(done, piece.stop - piece.start)
                done += fresh.num_rows
                yield encoded(fresh, writer_settings(self.options, fresh), path), columns_with_nan(fresh)
            else:
                with decoding(self.old.footer.path):
                    columns = self.old.copied(piece.group, (piece.start, piece.stop))
                    copied = copied_group(columns, self.old.fields, piece.stop - piece.start, self.old.meta)
                yield copied, ()


def row_replacer(
    io: FileIO,
    path: str,
    size: int,
    fields: Sequence[DataField],
    options: Mapping[str, str],
    changed: Int64s,
) -> ParquetRowReplacer | ParquetPagePatcher | None:
    """See `format.FileFormat.row_replacer`."""
    schema, parsed = file_schema(fields), WriterOptions.parse(options)
    if any(map(pa.types.is_nested, schema.types)) or stored_schema(schema).types != schema.types:
        return None
    empty = encoded(empty_table(schema), few_rows_settings(parsed, schema), path)
    meta, _ = decode_struct(bytes(footer_of(memoryview(empty))))
    with decoding(path):
        data, _ = read_footer(io, path, size, ReadCounters())
        if not check_struct(data, "FileMetaData"):  # another writer's
            return None
        footer = Footer(data, path, size)
        pages = _pages(io, footer, schema, meta)
    if pages is None:
        return None
    old = OldFile(io, footer, size, schema, fields, meta, pages)
    pieces = list(_pieces(footer, pages, changed))
    is_split = len(pieces) > max(len(footer.groups), MOST_GROUPS * (1 + footer.row_count // GROUP_ROWS))
    if is_split or sum(p.stop - p.start for p in pieces if p.change) > _MOST_SHARE * footer.row_count:
        return page_patcher(old, options, changed)
    unchanged = _unchanged_bounds(fields, pages, pieces)
    if unchanged is None:
        return None
    rows = np.concatenate([np.arange(p.start, p.stop) + footer.groups[p.group][0] for p in pieces if p.change])
    return ParquetRowReplacer(old, parsed, pieces, rows, unchanged)


def _pages(io: FileIO, footer: Footer, schema: pa.Schema, meta: Struct) -> list[list[ChunkPages]] | None:
    """The pages of each column in each row group; None where the file has not these columns as they would be written
    now, or not the indexes of all their pages."""
    numbers = [footer.columns.get(name, range(0)) for name in schema.names]
    if any(len(found) != 1 for found in numbers):
        return None
    leaves = [footer.leaves[found[0]] for found in numbers]
    if [leaf.element for leaf in leaves] != meta[2][1][1][1:]:
        return None
    groups = range(len(footer.groups))
    keys = [(group, leaf.index) for leaf in leaves for group in groups]
    found = chunk_pages(footer, keys, partial(io.read_ranges, footer.path))
    if not found or any(pages.bounds is None for pages in found):
        return None
    return [found[at : at + len(groups)] for at in range(0, len(found), len(groups))]


def _pieces(footer: Footer, pages: Sequence[Sequence[ChunkPages]], changed: Int64s) -> Iterable[_Piece]:
    """The pieces of all row groups, cut where pages of all columns are."""
    edges = np.searchsorted(changed, [start for start, _ in footer.groups] + [footer.row_count]).tolist()
    for group, (start, _) in enumerate(footer.groups):
        cuts = reduce(np.intersect1d, [groups[group].table.first_rows for groups in pages])
        change = np.zeros(len(cuts) - 1, np.bool_)
        here = changed[edges[group] : edges[group + 1]] - start
        change[np.searchsorted(cuts, here, "right") - 1] = True
        turns = [0, *(np.flatnonzero(np.diff(change)) + 1).tolist(), len(change)]
        for first, last in pairwise(turns):
            yield _Piece(group, int(cuts[first]), int(cuts[last]), bool(change[first]))


def _unchanged_bounds(
    fields: Sequence[DataField], pages: Sequence[Sequence[ChunkPages]], pieces: Sequence[_Piece]
) -> KnownValues | None:
    """What `RowReplacer` says of the rows that stay; None where something is not known."""
    result = []
    for field, groups in zip(fields, pages, strict=True):
        known = list[tuple[pa.Array, int]]()
        for piece in pieces:
            own = groups[piece.group]
            if piece.change or own.bounds is None:
                continue
            ends = np.searchsorted(own.table.first_rows, [piece.start, piece.stop]).tolist()
            bounds = own.bounds.part(slice(*ends))
            found = known_bounds(bounds, own.leaf, field.type)
            if found is None:
                return None
            known += [(found[0], sum(bounds.nulls)), (found[1], 0)]
        result.append(known)
    return result
