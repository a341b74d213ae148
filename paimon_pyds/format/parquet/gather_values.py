"""Work on the pages of a column before pyarrow decodes them: the wanted values are gathered.

If few rows are wanted of numbers, or of texts of one length, that are stored plain and without NULL, the row number
gives the place of each value: the wanted ones are copied into one small page, and nothing else is decoded. A dictionary
that no page needs is left out: writers store plain pages once it is full. Of many pages, and of values in dictionaries,
`column_pages` does more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Semaphore

import numpy as np

from paimon_pyds.format.parquet.data_pages import (
    FEW_PAGES,
    MOST_BYTES,
    cut_values,
    has_places,
    length_of_all,
    no_nulls,
    page_of,
    too_short,
)
from paimon_pyds.format.parquet.page_bodies import page_body
from paimon_pyds.format.parquet.page_picks import (
    CODECS,
    DICTIONARIES,
    PLAIN,
    RLE,
    UNCOMPRESSED,
    PagePick,
    few_wanted,
)
from paimon_pyds.format.parquet.pages import (
    DATA_PAGE,
    PageHead,
    Pages,
    heads_one_by_one,
)
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.format.threads import all_of

_THREADS_FROM = 64
"""Pages that are worth a thread."""
LARGE_DICTIONARIES = 16 << 10
"""Bytes of compressed dictionaries from which finding indices in few pages takes less time than decoding all."""


def gather_values(
    picks: Sequence[Sequence[PagePick]], data: Sequence[bytes], path: str, threads: int, permits: Semaphore
) -> tuple[list[Sequence[PagePick]], list[Sequence[Pages]]]:
    """Picks of pages that are cheaper to decode, with their bytes; where none are, a column's picks stay as they are.

    ``picks``: per column, its picks in one row group after the other. ``data``: per column, the bytes of
    `PagePick.ranges` of all its picks, strung together. ``threads``: how many work at a time, at most.

    Returns:
        Per column its picks, and of each pick the bytes, in parts that follow one another.

    Raises:
        CorruptFileError: the pages are not what the index says, or can't be decompressed.
    """
    pieces = [partial(_simpler, *column, path) for column in zip(picks, data, strict=True)]
    pages = sum(len(pick.starts) for column in picks for pick in column)
    done = all_of(pieces, threads if pages >= _THREADS_FROM else 1, permits)
    return [found for found, _ in done], [parts for _, parts in done]


def _simpler(picks: Sequence[PagePick], data: bytes, path: str) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    with decoding(path):
        if sum(len(pick.starts) for pick in picks) > FEW_PAGES:
            from paimon_pyds.format.parquet.column_pages import ColumnPages

            return ColumnPages(picks, data).simpler()
        heads = heads_one_by_one(picks, data)
        found = None
        if few_wanted(picks):
            found = _gathered_one_by_one(picks, data, heads)
            if found is None and sum(pick.prefix[1] for pick in picks) >= LARGE_DICTIONARIES:
                from paimon_pyds.format.parquet.column_pages import ColumnPages

                found = ColumnPages(picks, data).gathered()
        return found or _as_they_are(picks, data, heads)


def _as_they_are(
    picks: Sequence[PagePick], data: bytes, heads: Sequence[Sequence[tuple[int, PageHead]]]
) -> tuple[Sequence[PagePick], Sequence[Pages]]:
    """The same pages with their dictionaries, where a page needs them."""
    view, needed, parts = memoryview(data), list[PagePick](), list[Pages]()
    for pick, found in zip(picks, heads, strict=True):
        start, stop = found[0][0], found[-1][0] + int(pick.sizes[-1])
        if pick.prefix[1] and not any(_needs_dictionary(head) for _, head in found):
            pick = replace(pick, prefix=(0, 0))
        needed.append(pick)
        parts.append([view[start - pick.prefix[1] : stop]])
    return (needed if any(a is not b for a, b in zip(needed, picks, strict=True)) else picks), parts


def _needs_dictionary(head: PageHead) -> bool:
    encoding = head.fields.get(2 if head.kind == DATA_PAGE else 4)
    return encoding is None or encoding in DICTIONARIES


def _gathered_one_by_one(
    picks: Sequence[PagePick], data: bytes, heads: Sequence[Sequence[tuple[int, PageHead]]]
) -> tuple[Sequence[PagePick], Sequence[Pages]] | None:
    """What `ColumnPages.gathered` finds in plain pages, one after the other: faster for few."""
    chunk = picks[0].chunk
    each = [head for found in heads for _, head in found]
    if (
        not has_places(picks[0])
        or any(pick.chunk.codec != chunk.codec for pick in picks)
        or (chunk.codec not in CODECS and chunk.codec != UNCOMPRESSED)
        or any((head.kind, head.fields.get(2), head.fields.get(3)) != (DATA_PAGE, PLAIN, RLE) for head in each)
        or sum(head.uncompressed for head in each) > MOST_BYTES
    ):
        return None
    values, codec, width = list[bytes](), CODECS.get(chunk.codec), picks[0].width
    for pick, found in zip(picks, heads, strict=True):
        low = first = 0
        ends = np.searchsorted(pick.local, np.cumsum(pick.rows)).tolist()
        for (position, head), rows, high in zip(found, pick.rows.tolist(), ends, strict=True):
            body = page_body(data, position, head, codec)
            levels = no_nulls(rows) if pick.leaf.max_definition else b""
            if body[: len(levels)] != levels:
                return None
            octets, begin = np.frombuffer(body, np.uint8), np.array([len(levels)])
            stride = width or length_of_all(octets, begin, np.array([len(body)]) - begin, np.array([rows]))
            if not stride:
                return None
            if len(body) - len(levels) < rows * stride:
                raise too_short()
            values.append(cut_values(octets, len(levels) + stride * (pick.local[low:high] - first), stride))
            low, first = high, first + rows
    return page_of(picks, b"".join(values))
