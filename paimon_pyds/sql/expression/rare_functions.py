"""Functions that most expressions do without: their modules are imported where one of them is named.

Those whose names begin with ``try_`` are made here: NULL where the other function would raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types.kinds import INTEGER_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.array_functions import ARRAY_FUNCTIONS
from paimon_pyds.sql.expression.array_items import ITEM_FUNCTIONS
from paimon_pyds.sql.expression.code_functions import CODE_FUNCTIONS
from paimon_pyds.sql.expression.hash_functions import HASH_FUNCTIONS
from paimon_pyds.sql.expression.json_functions import JSON_FUNCTIONS
from paimon_pyds.sql.expression.lambda_functions import LAMBDA_FUNCTIONS
from paimon_pyds.sql.expression.made_arrays import MADE_FUNCTIONS
from paimon_pyds.sql.expression.map_functions import MAP_FUNCTIONS
from paimon_pyds.sql.expression.math_functions import MATH_FUNCTIONS
from paimon_pyds.sql.expression.nodes import (
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
from paimon_pyds.sql.expression.operands import Datum, TooLargeError, arrays, filled, valid
from paimon_pyds.sql.expression.regex_functions import REGEX_FUNCTIONS
from paimon_pyds.sql.expression.time_functions import TIME_FUNCTIONS
from paimon_pyds.sql.expression.variant_functions import VARIANT_FUNCTIONS

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder


@dataclass(frozen=True)
class Lenient(Node):
    """The child's values, NULL in rows that it fails for, which are found by halves: most batches have none."""

    child: Node

    def children(self) -> Sequence[Node]:
        return (self.child,)

    def evaluate(self, batch: pa.RecordBatch) -> Datum:
        try:
            return self.child.evaluate(batch)
        except TooLargeError:
            raise
        except ExpressionError:
            if batch.num_rows < 2 or next(columns(self.child), None) is None:
                return scalar(None, arrow_of(self.type))
        rows = np.arange(batch.num_rows)
        halves = np.array_split(rows, 2)
        return pa.concat_arrays([spread_on(self, rows_for(self.child, batch, half)) for half in halves])


def _lenient(operator: str) -> Resolve:
    """An operator that gives NULL where its result has no room in its type."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        found = binder.call(operator, arguments)
        if isinstance(found, Apply) and found.type is not None and found.type.kind in INTEGER_KINDS:
            return Apply(found.type, _with_room, found.arguments, (operator,))
        return found if isinstance(found, Constant) else Lenient(found.type, found)

    return resolve


def _with_room(first: Datum, second: Datum, operator: str) -> pa.Array:
    """Of integers at once, NULL where the result has no room."""
    a, b = arrays((first, second))
    x, y = filled(a), filled(b)
    with np.errstate(all="ignore"):
        found = {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](x, y)
        if operator == "*":
            wrong = (x != 0) & ((found // np.where(x == 0, 1, x) != y) | ((x == -1) & (y == np.iinfo(y.dtype).min)))
        else:
            other = y if operator == "+" else ~y
            wrong = ((x ^ found) & (other ^ found)) < 0
    return array(found, a.type, mask=~(valid(a) & valid(b)) | wrong)


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
    zero = pc.equal(numbers, scalar(0, numbers.type))
    return pc.if_else(zero, scalar(None, numbers.type), numbers)


RARE_FUNCTIONS: dict[str, Function] = {
    **REGEX_FUNCTIONS,
    **TIME_FUNCTIONS,
    **ITEM_FUNCTIONS,
    **ARRAY_FUNCTIONS,
    **MADE_FUNCTIONS,
    **MAP_FUNCTIONS,
    **LAMBDA_FUNCTIONS,
    **JSON_FUNCTIONS,
    **HASH_FUNCTIONS,
    **MATH_FUNCTIONS,
    **CODE_FUNCTIONS,
    **VARIANT_FUNCTIONS,
    "try_add": Function((2, 2), _lenient("+")),
    "try_subtract": Function((2, 2), _lenient("-")),
    "try_multiply": Function((2, 2), _lenient("*")),
    "try_divide": Function((2, 2), _divided("/")),
    "try_mod": Function((2, 2), _divided("%")),
}
