"""CHAR(n) columns in comparisons: blanks at the end don't count. See `paimon_pyds.predicate.compare` for the rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.expression.arrays import Datum
from paimon_pyds.expression.nodes import Apply, Column, Constant, Node, Part
from paimon_pyds.expression.operators import compare

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Binder

__all__ = ["char_length", "compare_padded", "without_blanks"]


def char_length(nodes: Sequence[Node]) -> int | None:
    """The n of the longest CHAR(n) column among texts that are compared; None where there is none."""
    return max((n.char for n in nodes if isinstance(n, Column | Part) and n.char is not None), default=None)


def without_blanks(binder: Binder, nodes: Sequence[Node]) -> list[Node]:
    """Texts without the blanks at their end."""
    bare = [Apply(node.type, pc.utf8_rtrim, (node,), (" ",)) for node in nodes]
    return [binder.folded(b) if isinstance(n, Constant) else b for n, b in zip(nodes, bare, strict=True)]


def compare_padded(a: Datum, b: Datum, operator: str, length: int) -> pa.Array:
    """A comparison of texts without blanks at their end, one of them of a CHAR(length), as if filled with blanks."""
    width = min(length, max(_longest(a), _longest(b)))
    return compare(pc.utf8_rpad(a, width, " "), pc.utf8_rpad(b, width, " "), operator)


def _longest(texts: Datum) -> int:
    lengths = pc.utf8_length(texts)
    return (pc.max(lengths) if isinstance(lengths, pa.Array) else lengths).as_py() or 0
