"""Parts of shredded VARIANT columns: which columns of a file have them, and what statistics of these say.

A column has all values of a part only where no row has the part, or what the part is in, as bytes in ``value``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paimon_pyds.base.variant.parts import Path
from paimon_pyds.base.variant.shred import TYPED
from paimon_pyds.format.parquet.footer import Footer, Leaf
from paimon_pyds.format.parquet.thrift import I64

_NULL_COUNT = 3
"""Field of Parquet's statistics."""


def part_leaves(footer: Footer, leaves: Sequence[Leaf], paths: Sequence[Path]) -> list[Leaf]:
    """The leaves of a VARIANT column that the parts at some paths are made of. ``leaves``: all of the column."""
    root = leaves[0].path[:1]
    kept = {leaf.index for leaf in leaves if leaf.path == (*root, "metadata")}
    for path in paths:
        kept.update(leaf.index for leaf in _along(footer, leaves, root, path))
    if len(kept) < 2 and not any(leaf.index in kept and leaf.path[-1] != "metadata" for leaf in leaves):
        kept.add(next(leaf.index for leaf in leaves if leaf.index not in kept))
    return [leaf for leaf in leaves if leaf.index in kept]


def _along(footer: Footer, leaves: Sequence[Leaf], root: Path, steps: Path) -> Iterator[Leaf]:
    if not steps or isinstance(steps[0], int):
        yield from _below(leaves, root)
        return
    inside = _below(leaves, (*root, TYPED, steps[0]))
    yield from (leaf for leaf in leaves if leaf.path == (*root, "value") and not (inside and _is_empty(footer, leaf)))
    if inside:
        yield from _along(footer, leaves, (*root, TYPED, steps[0]), steps[1:])


def has_column(leaves: Sequence[Leaf], path: Path) -> bool:
    """Whether a part, or what is in it, has a column of its own. ``leaves``: all of the VARIANT column."""
    own = (*leaves[0].path[:1], *(name for step in path for name in (TYPED, step)), TYPED)
    return bool(path) and any(leaf.path[: len(own)] == own for leaf in leaves)


def _below(leaves: Sequence[Leaf], root: Path) -> list[Leaf]:
    return [leaf for leaf in leaves if leaf.path[: len(root)] == root and len(leaf.path) > len(root)]


def _is_empty(footer: Footer, leaf: Leaf) -> bool:
    """Whether statistics say that a column has no value in the whole file."""
    for group in range(len(footer.groups)):
        chunk = footer.chunk(group, leaf.index)
        if chunk.values and (chunk.statistics or {}).get(_NULL_COUNT) != (I64, chunk.values):
            return False
    return True


def part_column(footer: Footer, leaves: Sequence[Leaf], path: Path) -> Leaf | None:
    """The column that has all values of a part, as if it were one of the table; None if there is no such column."""
    root: Path = leaves[0].path[:1]
    for step in path:
        if isinstance(step, int) or not _all_empty(footer, leaves, root):
            return None
        root = (*root, TYPED, step)
    found = [leaf for leaf in leaves if leaf.path == (*root, TYPED)]
    if not path or not found or found[0].max_repetition or not _all_empty(footer, leaves, root):
        return None
    return replace(found[0], path=found[0].path[:1])


def _all_empty(footer: Footer, leaves: Sequence[Leaf], root: Path) -> bool:
    return all(_is_empty(footer, leaf) for leaf in leaves if leaf.path == (*root, "value"))
