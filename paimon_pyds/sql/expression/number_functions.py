"""Functions of numbers, with the result types of Spark 4."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.types.kinds import FLOAT_KINDS, INTEGER_BITS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.coercion import NUMBERS
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import (
    Datum,
    by_distinct,
    filled,
    from_unscaled,
    rescale,
    unscaled,
    valid,
    wide,
)
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_DOUBLE = tree.DOUBLE
_MOST_DIGITS = 400
"""More digits than a DOUBLE or a DECIMAL has on either side of its point."""
_EXACT_CONTEXT = Context(prec=2 * _MOST_DIGITS, traps=[InvalidOperation])


def _number(binder: Binder, node: Node) -> Node:
    if node.type is None or node.type.kind in STRING_KINDS:
        return binder.coerce(node, _DOUBLE)
    if node.type.kind not in NUMBERS:
        raise LookupError(f"a number is wanted, not a {type_text(node.type)}")
    return node


def _abs(binder: Binder, arguments: list[Node]) -> Node:
    node = _number(binder, arguments[0])
    return Apply(node.type, _absolute, (node,))


def _absolute(values: pa.Array) -> pa.Array:
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid:
        raise ExpressionError(f"an absolute value is outside the range of its type ({values.type})") from None


def _sign(values: pa.Array) -> pa.Array:
    return pc.sign(values).cast(pa.float64())


def _whole(up: bool) -> Resolve:
    """Floor and ceil: BIGINT, or a DECIMAL without digits behind the point."""

    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        node = _number(binder, arguments[0])
        type_ = node.type
        assert isinstance(type_, AtomicType)
        if type_.kind is Kind.DECIMAL:
            digits = min((type_.precision or 0) - (type_.scale or 0) + 1, 38)
            result = AtomicType(Kind.DECIMAL, precision=digits, scale=0)
            return Apply(result, _whole_decimal, (node,), (up, type_.scale or 0, result))
        if type_.kind in INTEGER_KINDS:
            return binder.coerce(node, tree.LONG)
        return Apply(tree.LONG, _whole_double, (binder.coerce(node, _DOUBLE),), (up,))

    return resolve


def _whole_double(values: pa.Array, up: bool) -> pa.Array:
    """As Java makes a long of a double: NaN is 0, and what is too large the nearest there is."""
    whole = (np.ceil if up else np.floor)(np.nan_to_num(filled(values)))
    inside = np.clip(whole, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
    return array(np.where(whole >= 2.0**63, 2**63 - 1, inside), pa.int64(), mask=~valid(values))


def _whole_decimal(values: pa.Array, up: bool, scale: int, result: AtomicType) -> pa.Array:
    exact, step = wide(unscaled(values)), 10**scale
    return from_unscaled(-((-exact) // step) if up else exact // step, valid(values), result)


def _round(binder: Binder, arguments: list[Node]) -> Node:
    """Half up, away from zero; a double by its shortest text, as Java does it."""
    node = _number(binder, arguments[0])
    digits = _digits(binder, arguments)
    type_ = node.type
    assert isinstance(type_, AtomicType)
    if type_.kind in FLOAT_KINDS:
        return Apply(type_, _rounded_float, (node,), (digits,))
    if type_.kind in INTEGER_KINDS:
        return node if digits >= 0 else Apply(type_, _rounded_integer, (node,), (digits, type_))
    precision, scale = type_.precision or 0, type_.scale or 0
    if digits < 0:
        result = AtomicType(Kind.DECIMAL, precision=min(max(precision - scale + 1, 1 - digits), 38), scale=0)
    else:
        kept = min(scale, digits)
        result = AtomicType(Kind.DECIMAL, precision=min(precision - scale + kept + 1, 38), scale=kept)
    return Apply(result, _rounded_decimal, (node,), (digits, scale, result))


def _digits(binder: Binder, arguments: list[Node]) -> int:
    if len(arguments) == 1:
        return 0
    digits = binder.coerce(arguments[1], tree.INT)
    if not isinstance(digits, Constant) or not digits.value.is_valid:
        raise LookupError("the number of digits must be a literal")
    # Beyond that nothing changes: no number has a digit there, and powers of ten that large take all memory.
    found: int = digits.value.as_py()
    return max(-_MOST_DIGITS, min(found, _MOST_DIGITS))


def _rounded_float(values: pa.Array, digits: int) -> pa.Array:
    quantum = Decimal((0, (1,), -digits))

    def one(value: float) -> float:
        if value != value or value in (float("inf"), float("-inf")):
            return value
        return float(Decimal(repr(value)).quantize(quantum, ROUND_HALF_UP, _EXACT_CONTEXT))

    if values.type == pa.float32():
        return by_distinct(values, lambda value: one(float(str(np.float32(value)))), pa.float32())
    return by_distinct(values, one, values.type)


def _rounded_integer(values: pa.Array, digits: int, type_: AtomicType) -> pa.Array:
    found = rescale(rescale(wide(filled(values)), 0, digits), digits, 0)
    half = 1 << (INTEGER_BITS[type_.kind] - 1)
    if np.any((found < -half) | (found >= half)):
        raise ExpressionError(f"a rounded value is outside the range of {type_}")
    return array(found.astype(np.int64), pa.int64(), mask=~valid(values)).cast(values.type)


def _rounded_decimal(values: pa.Array, digits: int, scale: int, result: AtomicType) -> pa.Array:
    found = rescale(unscaled(values), scale, digits) if digits < scale else unscaled(values)
    return from_unscaled(rescale(found, min(digits, scale), result.scale or 0), valid(values), result)


def _power(a: Datum, b: Datum) -> pa.Array:
    with np.errstate(all="ignore"):
        return pc.power(a, b)


def _log(values: pa.Array, kernel: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """NULL where there is no logarithm, as in Spark."""
    positive = pc.or_(pc.greater(values, 0.0), pc.is_nan(values))
    return kernel(pc.if_else(positive, values, scalar(None, pa.float64())))


def _exp(values: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        return array(np.exp(filled(values, 0.0)), pa.float64(), mask=~valid(values))


def _is_nan(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.is_nan(values), False)


def _nanvl(binder: Binder, arguments: list[Node]) -> Node:
    a, b = (binder.coerce(_number(binder, node), _DOUBLE) for node in arguments)
    return Apply(_DOUBLE, _unless_nan, (a, b))


def _unless_nan(a: Datum, b: Datum) -> pa.Array:
    return pc.if_else(pc.is_nan(a), b, a)


NUMBER_FUNCTIONS: dict[str, Function] = {
    "abs": Function((1, 1), _abs),
    "sign": Function((1, 1), typed(_sign, _DOUBLE, _DOUBLE)),
    "floor": Function((1, 1), _whole(False)),
    "ceil": Function((1, 1), _whole(True)),
    "round": Function((1, 2), _round),
    "power": Function((2, 2), typed(_power, _DOUBLE, _DOUBLE)),
    "sqrt": Function((1, 1), typed(pc.sqrt, _DOUBLE, _DOUBLE)),
    "exp": Function((1, 1), typed(_exp, _DOUBLE, _DOUBLE)),
    "ln": Function((1, 1), typed(_log, _DOUBLE, _DOUBLE, options=(pc.ln,))),
    "log10": Function((1, 1), typed(_log, _DOUBLE, _DOUBLE, options=(pc.log10,))),
    "log2": Function((1, 1), typed(_log, _DOUBLE, _DOUBLE, options=(pc.log2,))),
    "isnan": Function((1, 1), typed(_is_nan, tree.BOOLEAN, _DOUBLE)),
    "nanvl": Function((2, 2), _nanvl),
}
