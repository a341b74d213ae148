"""Functions whose names begin with ``try_``: NULL where the other function would raise an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import ExpressionError
from paimon_pyds.expression.arrays import Datum
from paimon_pyds.expression.nodes import (
    Apply,
    Constant,
    Function,
    Node,
    Resolve,
    arrow_of,
    columns,
    rows_for,
    spread_on,
)

if TYPE_CHECKING:
    from paimon_pyds.expression.bind import Binder


@dataclass(frozen=True)
class Lenient(Node):
    """The child's values, NULL in rows that it fails for, which are found by halves: most batches have none."""

    child: Node

    def children(self) -> Sequence[Node]:
        return (self.child,)

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        try:
            return self.child.evaluate(batch)
        except ExpressionError:
            if batch.num_rows < 2 or next(columns(self.child), None) is None:
                return pa.scalar(None, arrow_of(self.type))
        rows = np.arange(batch.num_rows)
        halves = np.array_split(rows, 2)
        return pa.concat_arrays([spread_on(self, rows_for(self.child, batch, half)) for half in halves])


def _lenient(operator: str) -> Resolve:
    """An operator that gives NULL where its result has no room in its type."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        found = binder.call(operator, arguments)
        return found if isinstance(found, Constant) else Lenient(found.type, found)

    return resolve


def _divided(operator: str) -> Resolve:
    """An operator that gives NULL for a divisor of zero, too."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        found = binder.call(operator, arguments)
        assert isinstance(found, Apply)
        dividend, divisor = found.arguments
        guarded = Apply(divisor.type, _unless_zero, (divisor,))
        return Lenient(found.type, replace(found, arguments=(dividend, guarded)))

    return resolve


def _unless_zero(numbers: pa.Array) -> pa.Array:
    zero = pc.equal(numbers, pa.scalar(0, numbers.type))
    return pc.if_else(zero, pa.scalar(None, numbers.type), numbers)


LENIENT_FUNCTIONS: dict[str, Function] = {
    "try_add": Function((2, 2), _lenient("+")),
    "try_subtract": Function((2, 2), _lenient("-")),
    "try_multiply": Function((2, 2), _lenient("*")),
    "try_divide": Function((2, 2), _divided("/")),
    "try_mod": Function((2, 2), _divided("%")),
}
