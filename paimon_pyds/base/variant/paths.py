"""Paths into VARIANT values, such as ``$.a[0]['b c']``, and the parts that they lead to.

Source: Spark's ``VariantPathParser``.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from paimon_pyds.base.arrays import Int64s
from paimon_pyds.base.variant.nodes import ARRAY, OBJECT, Nodes, items_of
from paimon_pyds.base.variant.parts import Path

_STEP = re.compile(
    r"""\.(?P<name>[^.\[]+)|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]|\[(?P<place>[0-9]{1,10})\]"""
)
_MOST_PLACES = 1 << 31
"""Items that an array may have: Java counts them with an int."""


@lru_cache(maxsize=256)
def parse_path(text: str) -> Path | None:
    """The steps of a path; None for what is no path."""
    if not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        if match["place"] is not None:
            if int(match["place"]) >= _MOST_PLACES:
                return None
            steps.append(int(match["place"]))
        else:
            steps.append(next(name for name in (match["name"], match["single"], match["double"]) if name is not None))
        at = match.end()
    return tuple(steps)


def path_text(steps: Path) -> str:
    """The text of a path."""
    quotes = ("'" if isinstance(step, str) and "'" not in step else '"' for step in steps)
    return "$" + "".join(f"[{s}]" if isinstance(s, int) else f"[{q}{s}{q}]" for s, q in zip(steps, quotes, strict=True))


def follow(nodes: Nodes, path: Path) -> tuple[Nodes, Int64s]:
    """The parts at a path, and of which values they are, ascending. Raises CorruptFileError."""
    rows = np.arange(len(nodes))
    for step in path:
        fitting = np.flatnonzero(nodes.basics == (ARRAY if isinstance(step, int) else OBJECT))
        nodes, rows = nodes.pick(fitting), rows[fitting]
        items = items_of(nodes)
        if isinstance(step, int):
            owners = np.flatnonzero(items.counts > step)
            at = (np.cumsum(items.counts) - items.counts)[owners] + step
        else:
            at = np.flatnonzero(items.codes == nodes.keys.code(step)) if len(items.codes) else items.codes
            owners = items.owners[at]
            if len(owners) and (np.diff(owners) == 0).any():  # a key twice: the first counts
                first = np.concatenate(([True], np.diff(owners) > 0))
                at, owners = at[first], owners[first]
        nodes, rows = items.nodes.pick(at), rows[owners]
    return nodes, rows
