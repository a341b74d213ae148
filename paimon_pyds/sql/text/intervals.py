"""Intervals as Spark SQL writes them: ``INTERVAL 7 DAYS``, ``INTERVAL '1' HOUR``, ``INTERVAL '1 day 12 hours'``."""

from __future__ import annotations

import re
from decimal import Decimal

from paimon_pyds.base.types.sql_values import DAY_MICROS
from paimon_pyds.sql.text import tree
from paimon_pyds.sql.text.lexer import Cursor, Token
from paimon_pyds.sql.text.tree import Call, Expression, Literal, Value

INTERVAL = "INTERVAL"
"""The call that an interval is: of a number, and of what it counts (`MONTHS`, `DAYS` or `MICROS`)."""
MONTHS, DAYS, MICROS = "months", "days", "microseconds"

UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
UNIT_MICROS = {
    "WEEK": 7 * DAY_MICROS, "DAY": DAY_MICROS, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1_000, "MICROSECOND": 1,
}  # fmt: skip
UNITS = {name + plural: name for name in (*UNIT_MONTHS, *UNIT_MICROS) for plural in ("", "S")}
_MOST = 1 << 62
_MOST_MONTHS = (1 << 31) - 1
"""Greatest number of months of an interval: Spark counts them in 32 bits."""
_HINT = "write INTERVAL 7 DAYS, INTERVAL '1' HOUR or INTERVAL '1 day 12 hours'"


def begins_interval(cursor: Cursor) -> bool:
    """Whether the next token is INTERVAL with an amount behind it: a column may have that name, too."""
    at = 2 if cursor.is_next("-", "+", offset=1) else 1
    amount, unit = cursor.peek(at), cursor.peek(at + 1)
    if amount.kind == "string":
        return at == 1 or unit.word in UNITS
    return amount.kind == "number" and (at == 1 or unit.word in UNITS)


def parse_interval(cursor: Cursor) -> Expression:
    """The interval that begins at the next token. Raises PredicateError: see `SqlText.fail`."""
    first = cursor.next()
    sign = -1 if cursor.accept("-") else 1
    cursor.accept("+")
    parts: list[tuple[Token, str, str]] = []
    while cursor.peek().kind in ("number", "string"):
        amount = cursor.next()
        unit = cursor.peek().word
        if unit in UNITS:
            cursor.next()
            parts.append((amount, amount.value, UNITS[unit]))
        elif amount.kind == "string" and not parts:
            parts = [(amount, number, _unit(cursor, amount, name)) for number, name in _pairs(cursor, amount)]
        else:
            cursor.fail(cursor.peek(), "expected a unit of time", hint=_HINT)
    if cursor.is_next("TO") and cursor.peek(1).word in UNITS:
        cursor.fail(cursor.peek(), "intervals from one unit TO another are not supported", hint=_HINT)
    units = [unit for *_, unit in parts]
    months = [unit in UNIT_MONTHS for unit in units]
    if any(months) and not all(months):
        cursor.fail(first, "an interval counts years and months, or days and smaller units, not both")
    total = sign * sum(_amount(cursor, *part) for part in parts)
    if abs(total) > (_MOST_MONTHS if months[0] else _MOST):
        cursor.fail(first, "the interval is too long")
    counted = MONTHS if months[0] else DAYS if set(units) <= {"WEEK", "DAY"} else MICROS
    if counted == DAYS:
        total //= DAY_MICROS
    arguments = (Value(Literal(total, tree.LONG)), Value(Literal(counted, tree.STRING)))
    return Call(INTERVAL, arguments, start=first.start, stop=cursor.stop)


def moved_by_interval(call: Call) -> tuple[Expression, int, str] | None:
    """Of a sum with an interval: the other operand, and how many of what it is moved by; None of any other call."""
    if call.function not in ("+", "-") or len(call.arguments) != 2:
        return None
    left, right = call.arguments
    if call.function == "+" and not _is_interval(right):  # INTERVAL 1 DAY + ts
        left, right = right, left
    if not isinstance(right, Call) or not _is_interval(right):
        return None
    number, counted = (argument.literal.value for argument in right.arguments if isinstance(argument, Value))
    return left, number if call.function == "+" else -number, counted


def _is_interval(node: Expression) -> bool:
    return isinstance(node, Call) and node.function == INTERVAL


def _pairs(cursor: Cursor, text: Token) -> list[tuple[str, str]]:
    """The amounts and units of a text."""
    pairs = re.findall(r"\s*([+-]?\s*[0-9.]+)\s*([A-Za-z]+)", text.value)
    if not pairs or re.sub(r"\s*([+-]?\s*[0-9.]+)\s*([A-Za-z]+)", "", text.value).strip():
        cursor.fail(text, "an interval has amounts and units of time", hint=_HINT)
    return pairs


def _unit(cursor: Cursor, where: Token, name: str) -> str:
    if name.upper() not in UNITS:
        cursor.fail(where, f"{name!r:.40} is no unit of time", hint=_HINT)
    return UNITS[name.upper()]


def _amount(cursor: Cursor, where: Token, text: str, unit: str) -> int:
    """An amount in months or microseconds; seconds may have a fraction."""
    number = re.fullmatch(r"\s*([+-]?)\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*", text)
    if number is None or where.suffix or ("." in text and unit != "SECOND"):
        cursor.fail(where, f"{text!r:.40} is no number of {unit.lower()}s", hint=_HINT)
    value = Decimal(number[1] + number[2])
    return int(value * (UNIT_MONTHS[unit] if unit in UNIT_MONTHS else UNIT_MICROS[unit]))
