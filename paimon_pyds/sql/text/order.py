"""The order of a top n: ``"amount desc nulls last, id, 10"`` are the first ten rows by amount, then by id."""

from __future__ import annotations

import re

from paimon_pyds.base.records import dataclass
from paimon_pyds.sql.text.lexer import Cursor, SqlText

EXAMPLE = "write it like 'amount desc nulls last, id, 10': sort columns as in ORDER BY, then how many rows"


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One column of an order. ``nulls_first`` by default is as in Spark SQL: with ASC, not with DESC."""

    name: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        name = self.name if re.fullmatch(r"[^\W\d]\w*", self.name) else "`" + self.name.replace("`", "``") + "`"
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
    Raises OptionError: the text is no such order; the message has the line with a caret under the place.
    """
    cursor = Cursor(SqlText(text, "top_n"))
    columns: list[SortColumn] = []
    while cursor.peek().kind != "number":
        columns.append(_column(cursor))
        if not cursor.accept(","):
            cursor.unexpected("a comma", EXAMPLE)
    count = cursor.next()
    if not columns:
        cursor.fail(count, "a sort column stands before the number of rows", hint=EXAMPLE)
    if not count.value.isdigit() or count.suffix or len(count.value) > 18:
        cursor.fail(count, "the number of rows is a whole number of at most 18 digits", hint=EXAMPLE)
    if cursor.peek().kind != "end":
        cursor.unexpected("the end of the top_n", EXAMPLE)
    return TopN(tuple(columns), int(count.value))


def _column(cursor: Cursor) -> SortColumn:
    name = cursor.peek()
    if name.kind not in ("name", "quoted"):
        cursor.unexpected("a sort column or the number of rows", EXAMPLE)
    cursor.next()
    descending = cursor.is_next("DESC")
    cursor.accept("ASC", "DESC")
    if not cursor.accept("NULLS"):
        return SortColumn(name.value, descending, not descending)
    if not cursor.is_next("FIRST", "LAST"):
        cursor.unexpected("FIRST or LAST", EXAMPLE)
    return SortColumn(name.value, descending, cursor.next().word == "FIRST")
