"""How a row group would be read, told in advance: for explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_pyds.formats.base import GroupPlan
from paimon_pyds.formats.parquet.cost import Estimate, too_many_rows
from paimon_pyds.formats.parquet.footer import Footer, Leaf
from paimon_pyds.formats.parquet.pages import PagePick

__all__ = ["group_plan"]


def group_plan(
    footer: Footer,
    group: int,
    wanted: int | None,
    columns: Sequence[tuple[str, Sequence[Leaf]]],
    picks: Mapping[int, PagePick],
    weighed: tuple[int, Estimate] | None,
) -> GroupPlan:
    """What is done with a row group.

    Args:
        footer: the file's.
        group: number of the row group.
        wanted: how many of its rows are wanted; None for all.
        columns: names and leaves of the columns to read.
        picks: the leaves that are read by pages.
        weighed: how many pages the leaves have that could be, and what both ways cost; None where there was no choice.
    """
    start, stop = footer.groups[group]
    sizes = {leaf.index: footer.chunk(group, leaf.index).compressed_size for _, of in columns for leaf in of}
    by_pages = {leaf: pick.size for leaf, pick in picks.items()}
    pages_total, cost = weighed or (0, None)
    return GroupPlan(
        number=group,
        rows=stop - start,
        wanted=stop - start if wanted is None else wanted,
        bytes=sum((sizes | by_pages).values()),
        whole_bytes=sum(sizes.values()),
        whole_columns=tuple(name for name, leaves in columns if leaves[0].index not in picks),
        pages=sum(len(pick.starts) for pick in picks.values()),
        pages_total=pages_total,
        pages_micros=None if cost is None else cost.pages_micros,
        group_micros=None if cost is None else cost.group_micros,
        reason="" if cost is not None else _why_whole(wanted, stop - start, columns),
    )


def _why_whole(wanted: int | None, rows: int, columns: Sequence[tuple[str, Sequence[Leaf]]]) -> str:
    """Why pages were not even weighed."""
    if wanted is None:
        return "every row is wanted"
    if too_many_rows(wanted, rows):
        return "a quarter of the rows or more is wanted"
    nested = not any(leaves[0].flat for _, leaves in columns)
    return "nested columns are read whole" if nested else "the file has no page index"
