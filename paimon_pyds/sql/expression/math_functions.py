"""Functions of floating-point numbers and of bits, with the result types of Spark 4."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from math import isinf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, pc, scalar
from paimon_pyds.base.types import AtomicType
from paimon_pyds.base.types.kinds import INTEGER_BITS, INTEGER_KINDS, STRING_KINDS, Kind
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression import operators
from paimon_pyds.sql.expression.coercion import NUMBERS
from paimon_pyds.sql.expression.nodes import Apply, Constant, Function, Node, Resolve, type_text, typed
from paimon_pyds.sql.expression.operands import Datum, arrays, by_distinct_rows, filled, valid
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_INT, _LONG, _DOUBLE = tree.INT, tree.LONG, tree.DOUBLE
_MOST_FACTORIAL = 20
"""Greatest number whose factorial fits BIGINT."""
_TO_26_BITS = 2**27 + 1
"""The factor that splits a double into two halves of its bits."""


def _by_numpy(values: pa.Array, function: Callable[..., Any]) -> pa.Array:
    """NULL stays NULL; where a function has no value it is NaN, as in Java."""
    with np.errstate(all="ignore"):
        return array(function(filled(values, 0.0)), pa.float64(), mask=~valid(values))


def _of_two(first: Datum, second: Datum, function: Callable[..., Any]) -> pa.Array:
    a, b = arrays((first, second))
    with np.errstate(all="ignore"):
        return array(function(filled(a, 0.0), filled(b, 0.0)), pa.float64(), mask=~(valid(a) & valid(b)))


def _float(function: Callable[..., Any]) -> Function:
    return Function((1, 1), typed(_by_numpy, _DOUBLE, _DOUBLE, options=(function,)))


def _cube_root(values: Any) -> Any:
    """Of a cube its root: C libraries of some machines give the number next to it, 3.0000000000000004 of 27."""
    found = np.cbrt(values)
    scaled = found * _TO_26_BITS
    short = scaled - (scaled - found)  # 26 bits, and the root of a cube has at most 18
    return np.where(short * short * short == values, short, found)


def _log1p(values: pa.Array) -> pa.Array:
    """NULL where there is no logarithm, as in Spark."""
    above = pc.or_(pc.greater(values, -1.0), pc.is_nan(values))
    return _by_numpy(pc.if_else(above, values, scalar(None, pa.float64())), np.log1p)


def _log(binder: Binder, arguments: list[Node]) -> Node:
    """The natural logarithm of one number; of two, the logarithm of the second with the first for a base."""
    if len(arguments) == 1:
        return binder.call("ln", arguments)
    return typed(_log_to_base, _DOUBLE, _DOUBLE)(binder, arguments)


def _log_to_base(base: Datum, value: Datum) -> pa.Array:
    a, b = arrays((base, value))
    positive = valid(a) & valid(b) & ~(filled(a, 1.0) <= 0) & ~(filled(b, 1.0) <= 0)
    with np.errstate(all="ignore"):
        found = np.log(filled(b, 1.0)) / np.log(filled(a, 1.0))
    return array(found, pa.float64(), mask=~positive)


def _constant(value: float) -> Function:
    return Function((0, 0), lambda binder, _: Constant(_DOUBLE, scalar(value)))


def _factorial(numbers: pa.Array) -> pa.Array:
    """NULL outside of 0 to 20, as in Spark."""
    table = array([math.factorial(n) for n in range(_MOST_FACTORIAL + 1)], pa.int64())
    given = filled(numbers)
    inside = valid(numbers) & (given >= 0) & (given <= _MOST_FACTORIAL)
    return table.take(array(given.astype(np.int64), mask=~inside))


def _pmod(binder: Binder, arguments: list[Node]) -> Node:
    """The remainder that is not negative, for a divisor that is positive: ((a % b) + b) % b."""
    rest = binder.call("%", arguments)
    if rest.type is None or rest.type.kind is Kind.DECIMAL:
        divisor = binder.coerce(arguments[1], rest.type)
        moved = binder.call("%", [binder.call("+", [rest, divisor]), divisor])
        return moved if rest.type is None else binder.cast(_chosen(binder, rest, moved), rest.type)
    return Apply(rest.type, _positive_rest, (rest, binder.coerce(arguments[1], rest.type)))


def _chosen(binder: Binder, rest: Node, moved: Node) -> Node:
    """The rest where it is not negative, else the moved one."""
    zero = binder.coerce(binder.literal(tree.integer(0)), rest.type)
    negative = Apply(tree.BOOLEAN, operators.compare, (rest, zero), ("<",))
    return binder.choice([negative], [moved, rest])


def _positive_rest(rest: Datum, divisor: Datum) -> pa.Array:
    a, b = arrays((rest, divisor))
    both = valid(a) & valid(b)
    x, y = filled(a), np.where(both, filled(b), 1)
    with np.errstate(all="ignore"):
        found = np.where(x < 0, np.fmod(x + y, y), x)
    return array(found.astype(x.dtype), a.type, mask=~both)


# ---------------------------------------------------------------------------------------------------------------- bits


def _shift(kernel: Callable[..., Any]) -> Resolve:
    def resolve(binder: Binder, arguments: list[Node]) -> Node:
        value = arguments[0]
        type_ = tree.LONG if value.type is not None and value.type.kind is Kind.BIGINT else tree.INT
        given = (binder.coerce(value, type_), binder.coerce(arguments[1], _INT))
        return Apply(type_, _shifted, given, (kernel,))

    return resolve


def _shifted(value: Datum, count: Datum, kernel: Callable[..., Any]) -> pa.Array:
    """As in Java, by the last bits of the count."""
    a, b = arrays((value, count))
    numbers = filled(a)
    bits = (filled(b) & (numbers.dtype.itemsize * 8 - 1)).astype(numbers.dtype)
    return array(kernel(numbers, bits), a.type, mask=~(valid(a) & valid(b)))


def _unsigned_right(numbers: Any, bits: Any) -> Any:
    unsigned = np.dtype(f"u{numbers.dtype.itemsize}")
    return np.right_shift(numbers.view(unsigned), bits.view(unsigned)).view(numbers.dtype)


def _bit_count(binder: Binder, arguments: list[Node]) -> Node:
    node = arguments[0]
    if node.type is not None and node.type.kind not in INTEGER_KINDS | {Kind.BOOLEAN}:
        raise LookupError(f"an integer or a boolean is wanted, not a {type_text(node.type)}")
    wide = binder.cast(node, _INT) if node.type is None or node.type.kind is Kind.BOOLEAN else node
    return Apply(_INT, _counted_bits, (binder.coerce(wide, _LONG),))


def _counted_bits(numbers: pa.Array) -> pa.Array:
    words = np.ascontiguousarray(filled(numbers).astype(np.int64)).view(np.uint8).reshape(-1, 8)
    counts = np.unpackbits(words, axis=1).sum(axis=1)
    return array(counts.astype(np.int32), pa.int32(), mask=~valid(numbers))


def _get_bit(binder: Binder, arguments: list[Node]) -> Node:
    node = arguments[0]
    if node.type is None or node.type.kind not in INTEGER_KINDS:
        raise LookupError(f"an integer is wanted, not a {type_text(node.type)}")
    given = (binder.coerce(node, _LONG), binder.coerce(arguments[1], _INT))
    return Apply(AtomicType(Kind.TINYINT), _bit_at, given, (INTEGER_BITS[node.type.kind],))


def _bit_at(number: Datum, position: Datum, bits: int) -> pa.Array:
    a, b = arrays((number, position))
    both, at = valid(a) & valid(b), filled(b).astype(np.int64)
    if (both & ((at < 0) | (at >= bits))).any():
        raise ExpressionError(f"the position of a bit is from 0 to {bits - 1}")
    return array(((filled(a) >> np.clip(at, 0, 63)) & 1).astype(np.int8), pa.int8(), mask=~both)


def _secant(values: Any) -> Any:
    return 1 / np.cos(values)


def _cosecant(values: Any) -> Any:
    return 1 / np.sin(values)


def _cotangent(values: Any) -> Any:
    return 1 / np.tan(values)


def _degrees(values: Any) -> Any:
    return values * (180.0 / math.pi)


def _radians(values: Any) -> Any:
    return values * (math.pi / 180.0)


_MOST_DIGITS = 340
"""Behind the point, as Java's DecimalFormat writes them."""
_EXACT = Context(prec=1_000)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD = 1 << 64
"""Numbers that an unsigned 64-bit integer has: conv wraps at it."""


def _format_number(binder: Binder, arguments: list[Node]) -> Node:
    node, digits = arguments
    if digits.type is not None and digits.type.kind in STRING_KINDS:
        raise LookupError("a number of digits is wanted; patterns are not known here")
    if node.type is None:
        node = binder.coerce(node, tree.DOUBLE)
    if node.type is None or node.type.kind not in NUMBERS:
        raise LookupError(f"a number is wanted, not a {type_text(node.type)}")
    return Apply(tree.STRING, _formatted, (node, binder.coerce(digits, tree.INT)))


def _formatted(numbers: Datum, digits: Datum) -> pa.Array:
    return by_distinct_rows(_with_commas, pa.string(), numbers, digits)


def _with_commas(number: float | Decimal, digits: int) -> str | None:
    """As Java's DecimalFormat: half to the even digit, and a double by its shortest text."""
    if digits < 0:
        return None
    if digits > _MOST_DIGITS:
        raise ExpressionError(f"format_number writes {_MOST_DIGITS} digits at most, not {digits}")
    if isinstance(number, float) and (isnan(number) or isinf(number)):
        return "NaN" if isnan(number) else "∞" if number > 0 else "-∞"
    shown = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    quantum = Decimal((0, (1,), -digits))
    rounded = shown.quantize(quantum, ROUND_HALF_EVEN, _EXACT)
    if isinstance(number, float) and abs(shown - rounded) * 2 == quantum:  # the value decides, not the text
        exact = Decimal(number)
        if exact != shown:
            rounded = shown.quantize(quantum, ROUND_UP if abs(exact) > abs(shown) else ROUND_DOWN, _EXACT)
    return f"{rounded:,.{digits}f}"


def _conv(binder: Binder, arguments: list[Node]) -> Node:
    text = binder.cast(arguments[0], tree.STRING)
    bases = (binder.coerce(base, tree.INT) for base in arguments[1:])
    return Apply(tree.STRING, _converted, (text, *bases))


def _converted(texts: Datum, source: Datum, target: Datum) -> pa.Array:
    return by_distinct_rows(_in_base, pa.string(), texts, source, target)


def _in_base(text: str, source: int, target: int) -> str | None:
    """As a number of 64 bits, which has a sign where the target has one. Characters after the digits do not count.
    Raises ExpressionError: the number is larger."""
    digits = text.strip(" ")
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36) or not digits:
        return None
    negative, number = digits.startswith("-"), 0
    for letter in digits[negative:]:
        digit = _DIGITS.find(letter.upper()) if letter.isascii() else -1
        if not 0 <= digit < source:
            break
        number = number * source + digit
        if number >= _WORD:
            raise ExpressionError(f"conv: {text!r:.100} has more than 64 bits")
    signed = number - _WORD if number >= _WORD // 2 else number
    if negative and target > 0:
        signed = -1 if signed < 0 else -signed
    if target < 0 and signed < 0:
        signed, negative = -signed, True
    return ("-" if negative and target < 0 else "") + _written(signed % _WORD, abs(target))


def _written(number: int, base: int) -> str:
    found = ""
    while number or not found:
        number, digit = divmod(number, base)
        found = _DIGITS[digit] + found
    return found


MATH_FUNCTIONS: dict[str, Function] = {
    "cbrt": _float(_cube_root),
    "expm1": _float(np.expm1),
    "log1p": Function((1, 1), typed(_log1p, _DOUBLE, _DOUBLE)),
    "log": Function((1, 2), _log),
    "rint": _float(np.rint),
    "sin": _float(np.sin),
    "cos": _float(np.cos),
    "tan": _float(np.tan),
    "cot": _float(_cotangent),
    "sec": _float(_secant),
    "csc": _float(_cosecant),
    "asin": _float(np.arcsin),
    "acos": _float(np.arccos),
    "atan": _float(np.arctan),
    "atan2": Function((2, 2), typed(_of_two, _DOUBLE, _DOUBLE, options=(np.arctan2,))),
    "sinh": _float(np.sinh),
    "cosh": _float(np.cosh),
    "tanh": _float(np.tanh),
    "degrees": _float(_degrees),
    "radians": _float(_radians),
    "hypot": Function((2, 2), typed(_of_two, _DOUBLE, _DOUBLE, options=(np.hypot,))),
    "pi": _constant(math.pi),
    "e": _constant(math.e),
    "factorial": Function((1, 1), typed(_factorial, _LONG, _INT)),
    "pmod": Function((2, 2), _pmod),
    "shiftleft": Function((2, 2), _shift(np.left_shift)),
    "shiftright": Function((2, 2), _shift(np.right_shift)),
    "shiftrightunsigned": Function((2, 2), _shift(_unsigned_right)),
    "bit_count": Function((1, 1), _bit_count),
    "getbit": Function((2, 2), _get_bit),
    "format_number": Function((2, 2), _format_number),
    "conv": Function((3, 3), _conv),
}
