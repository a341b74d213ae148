"""The order of a top n: ``"amount desc nulls last, id, 10"`` are the first ten rows by amount, then by id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.options.arguments import integer
from paimon_pyds.types import REFUSED_KINDS, AtomicType, DataField

__all__ = ["SortColumn", "TopN", "check_order", "parse_top_n"]

_EXAMPLE = "write it like 'amount desc nulls last, id, 10': sort columns as in ORDER BY, then how many rows"
_PART = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\s,`]+))"
    r"(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One column of an order. ``nulls_first`` by default is as in Spark SQL: with ASC, not with DESC."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        name = self.name if re.fullmatch(r"\w+", self.name) else "`" + self.name.replace("`", "``") + "`"
        direction, nulls = "desc" if self.descending else "asc", "first" if self.nulls_first else "last"
        return f"{name} {direction} nulls {nulls}"


@dataclass(frozen=True, slots=True)
class TopN:
    """The first ``n`` rows in the order of some columns. Which of equal rows come first is not said."""

    columns: tuple[SortColumn, ...]
    n: int

    def __str__(self) -> str:
        return ", ".join([*map(str, self.columns), str(self.n)])


def parse_top_n(text: str) -> TopN:
    """Read an order from text: sort columns as in ORDER BY, and the number of rows, separated by commas.

    Names may stand in `back quotes`. ASC and NULLS FIRST is what a column has by itself, NULLS LAST one with DESC.

    Raises:
        OptionError: the text is no such order.
    """
    parts = list(_parts(text))
    if len(parts) < 2:
        raise OptionError(f"top_n {text!r} needs a sort column and a number of rows", hint=_EXAMPLE)
    count = parts.pop()
    if not re.fullmatch(r"\s*[0-9]+\s*", count):
        raise OptionError(f"top_n {text!r} must end with a number of rows, not {count.strip()!r}", hint=_EXAMPLE)
    if len(count.strip()) > 18:
        raise OptionError(f"top_n can't give {count.strip():.60} rows: a number has at most 18 digits", hint=_EXAMPLE)
    return TopN(tuple(_column(part, text) for part in parts), int(count))


def check_order(order: TopN, field_of: Callable[[str], DataField]) -> TopN:
    """The order with the columns' own names.

    Raises:
        SchemaError: a column is not there.
        UnsupportedError: a column of a nested type, VARIANT or BLOB.
        OptionError: no column, a column twice, or a negative number of rows.
    """
    integer("the number of rows of a top_n", order.n)
    if not order.columns or order.n < 0:
        raise OptionError(f"top_n needs a sort column and a number of rows, not {order}", hint=_EXAMPLE)
    fields = [field_of(column.name) for column in order.columns]
    for field in fields:
        if not isinstance(field.type, AtomicType) or field.type.kind in REFUSED_KINDS:
            raise UnsupportedError(f"top_n can't sort by {field.name!r}, of type {field.type}")
    columns = tuple(replace(c, name=f.name) for c, f in zip(order.columns, fields, strict=True))
    _check_once(columns, str(order))
    return TopN(columns, order.n)


def _parts(text: str) -> Iterator[str]:
    """The text cut at commas outside of back quotes."""
    start, quoted = 0, False
    for at, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif character == "," and not quoted:
            yield text[start:at]
            start = at + 1
    if text.strip():
        yield text[start:]


def _column(part: str, text: str) -> SortColumn:
    match = _PART.fullmatch(part)
    if match is None:
        raise OptionError(f"top_n {text!r}: {part.strip()!r} is no sort column", hint=_EXAMPLE)
    descending = (match["direction"] or "asc").lower() == "desc"
    nulls_first = not descending if match["nulls"] is None else match["nulls"].lower() == "first"
    name = match["name"] if match["quoted"] is None else match["quoted"].replace("``", "`")
    return SortColumn(name, descending, nulls_first)


def _check_once(columns: Sequence[SortColumn], text: str) -> None:
    names = [column.name for column in columns]
    doubled = [name for name, times in Counter(names).items() if times > 1]
    if doubled:
        raise OptionError(f"top_n {text!r} sorts by {doubled[0]!r} twice")
