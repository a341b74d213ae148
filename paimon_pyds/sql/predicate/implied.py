"""Conditions on a column that follow from a comparison of a function of it.

If ``year(ts) = 2024`` is true, ``ts`` is between two timestamps. Statistics, partitions and indexes evaluate the second
condition, rows the first. So the second may be wider than needed, but never narrower.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import AtomicType, DataType, timestamp_unit
from paimon_pyds.base.types.kinds import (
    FLOAT_KINDS,
    INTEGER_KINDS,
    INTEGER_RANGES,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    UNITS_PER_SECOND,
    Kind,
)
from paimon_pyds.errors import PredicateError
from paimon_pyds.sql.predicate.compare import NUMBERS, compare_literals
from paimon_pyds.sql.predicate.tree import FLIPPED, Const, Op
from paimon_pyds.sql.text import casts, tree
from paimon_pyds.sql.text.intervals import DAYS, MONTHS, moved_by_interval
from paimon_pyds.sql.text.tree import Call, CastTo, Expression, Literal, Name, Value

_MOST_VALUES = 200
"""A list of more values is left to the rows."""

_DAY = 86_400
_LONGEST = {
    "year": 366 * _DAY, "yyyy": 366 * _DAY, "yy": 366 * _DAY, "quarter": 92 * _DAY, "month": 31 * _DAY,
    "mm": 31 * _DAY, "mon": 31 * _DAY, "week": 7 * _DAY, "day": _DAY, "dd": _DAY, "hour": 3600, "minute": 60,
    "second": 1,
}  # fmt: skip
"""Seconds that a unit of time takes at most."""

_DATES = frozenset({Kind.DATE, *TIMESTAMP_KINDS})
_INSTANT = AtomicType(Kind.TIMESTAMP_LTZ, precision=6)


@dataclass(frozen=True, slots=True)
class Operands:
    """Types and constants of the operands of a filter.

    Attributes:
        type_of: the type of an expression's values; None when it has none, or can't be bound.
        constant: the value of an expression without columns; None of any other.
        zone: time zone of dates, texts and wall-clock times.
    """

    type_of: Callable[[Expression], DataType | None]
    constant: Callable[[Expression], Literal | None]
    zone: str

    def kind(self, node: Expression) -> Kind | None:
        """The kind of an expression's type."""
        type_ = self.type_of(node)
        return None if type_ is None else type_.kind

    def integer(self, node: Expression) -> int | None:
        """The value of an expression that is an integer without columns."""
        literal = self.constant(node)
        return None if literal is None else _integer(literal)

    def word(self, node: Expression) -> str:
        """The text of an expression without columns, in lower case."""
        literal = self.constant(node)
        return "" if literal is None else str(literal.value).lower()

    def day(self, literal: Literal | None) -> int | None:
        """The day since 1970 that a date is compared with. Raises PredicateError: a text that is no date."""
        if literal is not None and literal.type is not None and literal.type.kind in STRING_KINDS:
            literal = casts.cast_literal(literal, tree.DATE, self.zone)
        return literal.value if literal is not None and literal.type == tree.DATE else None

    def slack(self, *kinds: Kind | None) -> int:
        """Seconds by which the bounds of a local date are too narrow for instants: clocks are set."""
        return _DAY if self.zone != "UTC" and Kind.TIMESTAMP_LTZ in kinds else 0


def implied_comparison(op: Op, node: Expression, literal: Literal, operands: Operands) -> Expression | None:
    """A condition on a column alone that is true for all rows where ``node op literal`` is.

    Args:
        op: one of = < <= > >=.
        node: what is compared: a column, or functions of one.
        literal: not NULL.
        operands: what is known of them.

    Returns:
        Comparisons of the column, joined by AND or OR; None where nothing is known.
    """
    if isinstance(node, Name):
        return _compared(op, node, literal)
    try:
        if isinstance(node, CastTo):
            return _of_cast(op, node, literal, operands)
        step = _STEPS.get(node.function) if isinstance(node, Call) else None
        return step(op, node, literal, operands) if step and isinstance(node, Call) else None
    except (PredicateError, ValueError, OverflowError):
        return None  # the date does not exist, or the text is not a date


def implied_list(node: Expression, literals: Sequence[Literal], operands: Operands) -> Expression | None:
    """As `implied_comparison`, for ``node IN (literals)``."""
    values = [literal for literal in literals if literal.value is not None]  # by a NULL the others are unknown
    if len(values) > _MOST_VALUES:
        return None
    parts = [implied_comparison(Op.EQ, node, value, operands) for value in values]
    found = [part for part in parts if part is not None]
    return _joined("OR", found) if len(found) == len(parts) else None


def _compared(op: Op, column: Name, literal: Literal) -> Expression:
    return Call(op.value.lower(), (column, Value(literal)))


def _joined(function: str, parts: Sequence[Expression]) -> Expression | None:
    return parts[0] if len(parts) == 1 else Call(function, tuple(parts)) if parts else None


def _integer(literal: Literal) -> int | None:
    return literal.value if literal.type is not None and literal.type.kind in INTEGER_KINDS else None


# ----------------------------------------------------------------------------------------------------- dates and times


def _within(op: Op, child: Expression, first: Literal, after: Literal, operands: Operands) -> Expression | None:
    """The parts that the operator needs of: at or after ``first``, and before ``after``."""
    parts = [implied_comparison(Op.GE, child, first, operands)] if op in (Op.EQ, Op.GT, Op.GE) else []
    if op in (Op.EQ, Op.LT, Op.LE):
        parts.append(implied_comparison(Op.LT, child, after, operands))
    return _joined("AND", [part for part in parts if part is not None])


def _on_days(op: Op, child: Expression, first: int, after: int, operands: Operands) -> Expression | None:
    """Where a function has one value from a day up to another, compared with this value."""
    return _days_within(op, child, after if op is Op.GT else first, first if op is Op.LT else after, operands)


def _days_within(op: Op, child: Expression, first: int, after: int, operands: Operands) -> Expression | None:
    """`_within` two days, of a date or a timestamp."""
    kind = operands.kind(child)
    if kind not in _DATES:
        return None
    slack = operands.slack(kind) // _DAY
    return _within(op, child, Literal(first - slack, tree.DATE), Literal(after + slack, tree.DATE), operands)


def _date(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    day = operands.day(literal)
    return None if day is None or len(node.arguments) != 1 else _on_days(op, node.arguments[0], day, day + 1, operands)


def _year(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    year, *fields = _integer(literal), *node.arguments[:-1]
    if year is None or (fields and operands.word(fields[0]) != "year"):
        return None
    first, after = (casts.from_python(dt.date(number, 1, 1)).value for number in (year, year + 1))
    return _on_days(op, node.arguments[-1], first, after, operands)


def _trunc(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    """The beginning of a unit, which is less than a unit before the operand, compared with any date."""
    child, unit = node.arguments
    longest, day = _LONGEST.get(operands.word(unit), 0) // _DAY, operands.day(literal)
    return _days_within(op, child, day, day + longest, operands) if longest and day is not None else None


def _date_trunc(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    unit, child = node.arguments
    longest = _LONGEST.get(operands.word(unit))
    literal = _instant(literal, operands.zone)
    if longest is None or operands.kind(child) not in _DATES or not isinstance(literal.type, AtomicType):
        return None
    second, slack = UNITS_PER_SECOND[timestamp_unit(literal.type)], operands.slack(Kind.TIMESTAMP_LTZ)
    first, after = literal.value - second * slack, literal.value + second * (longest + slack)
    return _within(op, child, Literal(first, literal.type), Literal(after, literal.type), operands)


def _days_later(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    if len(node.arguments) != 2:  # with a unit of time before them
        return None
    child, days = node.arguments[0], operands.integer(node.arguments[1])
    day = operands.day(literal)
    if days is None or day is None:
        return None
    moved = day + days if node.function == "date_sub" else day - days
    return implied_comparison(op, Call("date", (child,)), Literal(moved, tree.DATE), operands)


def _later(
    op: Op, child: Expression, amount: int, counted: str, literal: Literal, operands: Operands
) -> Expression | None:
    """A date or timestamp that is moved by an interval, whose days may have 23 or 25 hours."""
    kind = operands.kind(child)
    if kind is Kind.DATE and counted == DAYS:
        return _days_later(op, Call("date_add", (child, Value(tree.integer(amount)))), literal, operands)
    if kind not in TIMESTAMP_KINDS or counted == MONTHS:
        return None
    literal = _instant(literal, operands.zone)
    if not isinstance(literal.type, AtomicType):
        return None
    second = UNITS_PER_SECOND[timestamp_unit(literal.type)]
    slack = second * operands.slack(kind, literal.type.kind)
    moved = literal.value - (amount * _DAY * second if counted == DAYS else amount * second // 1_000_000)
    return _within(op, child, Literal(moved - slack, literal.type), Literal(moved + slack + 1, literal.type), operands)


def _instant(literal: Literal, zone: str) -> Literal:
    """A literal as the timestamp that timestamps are compared with."""
    known = literal.type is not None and literal.type.kind in TIMESTAMP_KINDS
    return literal if known else casts.cast_literal(literal, _INSTANT, zone)


def _days_between(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    if len(node.arguments) != 2:
        return None
    end, start = (operands.day(operands.constant(argument)) for argument in node.arguments)
    days = _integer(literal)
    if days is None or (end is None) == (start is None):
        return None
    if end is not None:
        op, child, day = FLIPPED.get(op, op), node.arguments[1], end - days
    else:
        child, day = node.arguments[0], (start or 0) + days
    return implied_comparison(op, Call("date", (child,)), Literal(day, tree.DATE), operands)


# --------------------------------------------------------------------------------------------------- numbers and texts


def _of_cast(op: Op, node: CastTo, literal: Literal, operands: Operands) -> Expression | None:
    child, kind, given = node.child, node.type.kind, operands.kind(node.child)
    if kind is Kind.DATE:
        return _date(op, Call("date", (child,)), literal, operands)
    if given in INTEGER_KINDS and kind in INTEGER_KINDS and INTEGER_RANGES[given][0] in INTEGER_RANGES[kind]:
        return implied_comparison(op, child, literal, operands)
    if given in INTEGER_KINDS and kind in STRING_KINDS and op is Op.EQ and isinstance(literal.value, str):
        return implied_comparison(op, child, tree.integer(int(literal.value)), operands)
    return None


def _sum(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    """An operand and a number, added or subtracted: the other side of the comparison moves."""
    (left, right), minus, given = node.arguments, node.function == "-", _integer(literal)
    if (moved := moved_by_interval(node)) is not None:
        return _later(op, *moved, literal, operands)
    number, first = operands.integer(right), operands.integer(left)
    if number is None and first is not None:
        if minus:
            return None if given is None else _whole(FLIPPED.get(op, op), right, first - given, operands)
        number, left = first, right
    if number is None:
        return None
    if operands.kind(left) is Kind.DATE:
        days = Call("date_sub" if minus else "date_add", (left, Value(tree.integer(number))))
        return _days_later(op, days, literal, operands)
    return None if given is None else _whole(op, left, given + number if minus else given - number, operands)


def _negative(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    given = _integer(literal)
    return None if given is None else _whole(FLIPPED.get(op, op), node.arguments[0], -given, operands)


def _whole(op: Op, child: Expression, number: int, operands: Operands) -> Expression | None:
    """An integer that is compared with another."""
    whole = operands.kind(child) in INTEGER_KINDS
    return implied_comparison(op, child, tree.integer(number), operands) if whole else None


def _beginning(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    """The first characters of a text."""
    child, *numbers = node.arguments
    *first, length = (operands.integer(number) for number in numbers)
    text, named = literal.value, isinstance(child, Name) and operands.kind(child) is Kind.VARCHAR
    if not isinstance(child, Name) or not named or not isinstance(text, str) or length is None:
        return None
    if length < 1 or first != ([] if node.function == "left" else [1]):
        return None
    if op is Op.GT or op is Op.GE or (op is Op.LT and len(text) <= length):  # no text is less than its beginning
        return _compared(op, child, literal)
    if op is Op.EQ and len(text) <= length:
        return _compared(Op.STARTS_WITH if len(text) == length else op, child, literal)
    return None


def _default(op: Op, node: Call, literal: Literal, operands: Operands) -> Expression | None:
    """An operand, with a value in the place of NULL."""
    child, *others = node.arguments
    default = operands.constant(others[0]) if len(others) == 1 else None
    if default is None or default.type is None or not isinstance(child, Name):
        return None
    given, kind = operands.kind(child), default.type.kind
    alike = given is kind if given in _DATES | {Kind.VARCHAR, Kind.BOOLEAN} else {given, kind} <= INTEGER_KINDS
    if not alike and not (given in FLOAT_KINDS and kind in NUMBERS):  # the others become another type together
        return None
    found = _compared(op, child, literal)
    if compare_literals(op, default, literal) is Const.TRUE:
        return Call("OR", (found, Call("isnull", (child,))))
    return found


_STEPS: dict[str, Callable[[Op, Call, Literal, Operands], Expression | None]] = {
    "date": _date, "to_date": _date, "year": _year, "date_part": _year, "trunc": _trunc, "date_trunc": _date_trunc,
    "date_add": _days_later, "dateadd": _days_later, "date_sub": _days_later, "datediff": _days_between,
    "date_diff": _days_between, "+": _sum, "-": _sum, "negative": _negative, "substring": _beginning,
    "substr": _beginning, "left": _beginning, "coalesce": _default, "nvl": _default, "ifnull": _default,
}  # fmt: skip
"""How each function passes a comparison of its value on to what it is given."""
