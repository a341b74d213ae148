"""Numbers as texts: with commas, and in other bases."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_UP, Context, Decimal
from math import isinf, isnan
from typing import TYPE_CHECKING

import pyarrow as pa

from paimon_pyds.base.types.kinds import STRING_KINDS
from paimon_pyds.errors import ExpressionError
from paimon_pyds.sql.expression.coercion import NUMBERS
from paimon_pyds.sql.expression.nodes import Apply, Function, Node, type_text
from paimon_pyds.sql.expression.operands import Datum, by_distinct_rows
from paimon_pyds.sql.text import tree

if TYPE_CHECKING:
    from paimon_pyds.sql.expression.bind import Binder

_MOST_DIGITS = 340
"""Behind the point, as Java's DecimalFormat writes them."""
_EXACT = Context(prec=1_000)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD = 1 << 64


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


NUMBER_TEXT_FUNCTIONS: dict[str, Function] = {
    "format_number": Function((2, 2), _format_number),
    "conv": Function((3, 3), _conv),
}
