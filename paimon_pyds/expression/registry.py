"""What a function is to the binder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.expression.nodes import Apply, Node
from paimon_pyds.types import DataType

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Binder

__all__ = ["ANY", "Function", "Resolve", "typed"]

ANY = 1_000_000
"""So many arguments: any number of them."""
Resolve = Callable[["Binder", "list[Node]"], Node]


@dataclass(frozen=True)
class Function:
    """How many arguments a function takes, and what makes a node of them (it raises LookupError for wrong types)."""

    arity: tuple[int, int]
    resolve: Resolve


def typed(kernel: Callable[..., pa.Array], result: DataType, *wanted: DataType) -> Resolve:
    """Arguments taken to fixed types; the last one stands for all that follow."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        given = [binder.coerce(a, wanted[min(n, len(wanted) - 1)]) for n, a in enumerate(arguments)]
        return Apply(result, kernel, tuple(given))

    return resolve
